//! All replicas of a shard: which of them have something to do, and when.

use super::blank::renew;
mod kind;

use super::entry_payload::{self, Decoded};
use super::members::member_on;
use super::restore::{Adopted, adopt, sole_founder};
use super::snapshot;
use super::{Around, Broken, HEADER_LOG, Replica};
use crate::active::ActiveQueues;
use crate::peeked::{self, Found};
use crate::quorum::link::{Answer, Event, LocalDelivery};
use crate::shard::{Deferred, QueueSpec, log_of};
use crate::standstill::Standstill;
use crate::stream_events::StreamNews;
use bytes::Bytes;
use hashbrown::HashMap;
use leveret_queue::{Counts, Position};
use leveret_replication::{ProposeError, Status};
use leveret_storage::ShardLogs;
use leveret_types::limits::GROUP_TICK_MS;
use leveret_types::{NodeId, QueueId, ReplicaId};
use std::collections::BTreeSet;

/// The replicas of a shard.
#[derive(Default)]
pub struct Replicas {
    pub(super) map: HashMap<QueueId, Box<Replica>, foldhash::fast::FixedState>,
    /// Queues whose replica here cannot take part, with the last member that it may have been.
    pub(super) quarantined: HashMap<QueueId, ReplicaId, foldhash::fast::FixedState>,
    /// Leaders that something has happened to.
    dirty: Vec<QueueId>,
    /// The same since it was asked last for whoever samples.
    active: ActiveQueues,
    /// Whether some of them wait until it is known that they still lead.
    is_held: bool,
    /// Leaders with something to propose.
    pub(super) open: Vec<QueueId>,
    /// Whether somebody waits for one of these entries.
    is_urgent: bool,
    /// Whether a quiet queue's entry waits for the log.
    writes_soon: bool,
    /// Replicas that wait for the write-ahead log.
    unsynced: Vec<QueueId>,
    /// How long they, and what is to be proposed, have waited for the log.
    pub(super) standstill: Standstill,
    /// Groups for which time matters, and when it passes next.
    ticking: Vec<QueueId>,
    next_tick_ms: u64,
    /// Replicas that are no members any more.
    gone: Vec<QueueId>,
    /// When leaders want to act next.
    pub(super) deadlines: BTreeSet<(u64, QueueId)>,
}

/// How a replicated queue stands, seen from one member.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// The queue.
    pub queue: QueueId,
    /// Its group.
    pub group: Status,
    /// Whether the member acts as the queue's leader: an entry of its term is committed.
    pub is_serving: bool,
    /// Milliseconds from proposal to commit of the entry that was committed last, where the member
    /// acts as the leader; 0 elsewhere.
    pub commit_ms: u64,
}

/// How many members do not do what they are there for, as far as one node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfitReplicas {
    /// Here: their logs are damaged, or lack what they had acknowledged.
    pub quarantined: usize,
    /// On other nodes, of queues that are led here: they are up and do not follow.
    pub stuck: usize,
}

impl Replicas {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Whether a queue has a replica here.
    #[must_use]
    pub fn has(&self, queue: QueueId) -> bool {
        self.map.contains_key(&queue)
    }

    /// Whether the replica here leads and serves.
    #[must_use]
    pub fn is_leader(&self, queue: QueueId) -> bool {
        self.map.get(&queue).is_some_and(|r| r.leader.is_some())
    }

    /// The node that leads a queue, as far as the replica here knows.
    #[must_use]
    pub fn leader(&self, queue: QueueId) -> Option<NodeId> {
        self.map.get(&queue)?.leader_node()
    }

    /// Whether anything waits for the write-ahead log: to be proposed before it is sealed, or to
    /// be durable.
    pub(super) fn waits_for_log(&self) -> bool {
        !self.open.is_empty() || !self.unsynced.is_empty()
    }

    /// Whether anything waits to be proposed, and so for the next seal.
    #[must_use]
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether somebody waits for what is to be proposed.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.is_urgent && self.has_open()
    }

    /// Whether an entry waits for the log that may share its write with others.
    #[must_use]
    pub const fn writes_soon(&self) -> bool {
        self.writes_soon
    }

    /// What waited for the log is on its way.
    pub const fn sealed(&mut self) {
        self.writes_soon = false;
    }

    /// Adds the member of a queue that is on this node, with what the logs have of it.
    pub(crate) fn add(
        &mut self,
        around: &mut Around<'_>,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: &[u8],
        load: &mut dyn FnMut(&mut ShardLogs),
    ) {
        let wanted = member_on(&spec, around.node);
        let was_member = !around.logs.state(log_of(id, HEADER_LOG)).is_empty();
        // Who was a member stays one until the group has let it go.
        let Some(me) = wanted.or(was_member.then_some(ReplicaId(0))) else {
            return renew(around.logs, id, priority_logs);
        };
        match Replica::open(id, me, spec, priority_logs, around.logs, load) {
            Ok(mut replica) => {
                replica.begin(around.up, priority_logs.is_empty());
                self.map.insert(id, Box::new(replica));
                self.with(around, id, |replica, around| {
                    replica.drive(around);
                });
            }
            Err(error) if wanted.is_some() => {
                self.quarantined.insert(id, me);
                let what = format!(
                    "the replica on this node cannot take part: {error}; remove it from the queue's \
                     members and add it again"
                );
                around
                    .effects
                    .deferred
                    .push(Deferred::Damage { queue: id, what });
            }
            Err(error) => {
                tracing::warn!(queue = %id, %error, "what is left of a removed replica is emptied");
                renew(around.logs, id, priority_logs);
            }
        }
    }

    /// Adds the first member of a queue that was on this node alone so far, with what its logs
    /// have, and what else is `known`.
    pub(crate) fn adopt(
        &mut self,
        around: &mut Around<'_>,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: &[u8],
        known: &Adopted,
    ) {
        let Some(me) = sole_founder(&spec, around.node) else {
            tracing::error!(queue = %id, "a group does not begin where its queue is");
            return;
        };
        adopt(id, me, priority_logs, known, around.logs);
        let mut priority_logs = priority_logs.to_vec();
        priority_logs.push(HEADER_LOG);
        self.add(around, id, spec, &priority_logs, &mut |_| {});
    }

    /// Changes what policies and arguments make of a queue, and who its members are.
    pub(crate) fn update(&mut self, around: &mut Around<'_>, id: QueueId, spec: QueueSpec) {
        self.with(around, id, |replica, around| {
            if let Some(leader) = &mut replica.leader {
                leader.update(around.now, &spec);
            }
            replica.spec = spec;
            replica.note_if_gone();
            replica.reconcile(around);
        });
    }

    /// Runs something on a replica, and takes note of what it has to do then.
    pub(super) fn with<R>(
        &mut self,
        around: &mut Around<'_>,
        id: QueueId,
        run: impl FnOnce(&mut Replica, &mut Around<'_>) -> R,
    ) -> Option<R> {
        let replica = self.map.get_mut(&id)?;
        let is_lease_expired = around.may_be_deposed && replica.group.can_be_deposed();
        if let Some(leader) = &mut replica.leader {
            leader.is_lease_expired = is_lease_expired;
        }
        let result = run(replica, around);
        self.writes_soon |= std::mem::take(&mut replica.pace.writes_soon);
        let leader = replica.leader.as_ref();
        let listed = &mut replica.listed;
        let list = |is: &mut bool, wanted: bool, list: &mut Vec<QueueId>| {
            if wanted && !std::mem::replace(is, true) {
                list.push(id);
            }
        };
        list(
            &mut listed.dirty,
            leader.is_some_and(|l| l.dirty),
            &mut self.dirty,
        );
        list(
            &mut listed.open,
            leader.is_some_and(|l| l.has_open_batch()),
            &mut self.open,
        );
        list(
            &mut listed.unsynced,
            replica.group.is_writing(),
            &mut self.unsynced,
        );
        self.is_urgent |= leader.is_some_and(|l| l.holds_back());
        let waits = !self.open.is_empty() || !self.unsynced.is_empty();
        self.standstill.note(around.now, waits);
        if (replica.group.wants_tick() || replica.sending.is_some()) && !listed.ticking {
            listed.ticking = true;
            if self.ticking.is_empty() {
                self.next_tick_ms = around.now.monotonic_ms + GROUP_TICK_MS;
            }
            self.ticking.push(id);
        }
        let deadline = leader.map_or(0, |leader| leader.deadline_ms(around.now));
        if deadline != replica.deadline_ms {
            self.deadlines.remove(&(replica.deadline_ms, id));
            replica.deadline_ms = deadline;
            if deadline != 0 {
                self.deadlines.insert((deadline, id));
            }
        }
        if replica.is_gone || replica.may_retire() {
            self.gone.push(id);
        }
        Some(result)
    }

    /// The stream of a view that a replica here may lead says something.
    pub(crate) fn hear_stream(&mut self, around: &mut Around<'_>, view: QueueId, news: StreamNews) {
        self.with(around, view, |replica, around| {
            if let Some(leader) = &mut replica.leader {
                leader.hear_stream(around, news);
            }
        });
    }

    /// Proposes what has gathered, so that its headers are in the chunk with its messages.
    pub(crate) fn before_seal(&mut self, around: &mut Around<'_>) {
        self.is_urgent = false;
        for id in std::mem::take(&mut self.open) {
            self.with(around, id, |replica, around| {
                replica.listed.open = false;
                replica.work(around);
                let now = around.now;
                if replica
                    .leader
                    .as_mut()
                    .is_some_and(|leader| leader.is_due(now))
                {
                    replica.close_batch(around);
                }
            });
        }
    }

    /// Takes a frame of another member. Anything may be in it.
    pub(crate) fn receive_peer(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        queue: QueueId,
        frame: &Bytes,
    ) {
        let Some((kind, _)) = frame.split_first() else {
            return;
        };
        let rest = frame.slice(1..);
        let result = self.with(around, queue, |replica, around| match *kind {
            entry_payload::RAFT | entry_payload::REFERRING => {
                let kept = |run, number| around.clients.published(queue, run, number);
                let (message, arrived) = match entry_payload::decode(frame, &kept)? {
                    Decoded::Message(message, arrived) => (message, arrived),
                    Decoded::Lacking(index) => {
                        let answer = entry_payload::lacking(queue, index);
                        around.effects.peer.push((from, answer));
                        return Ok(());
                    }
                };
                if message.from.node() != from {
                    return Ok(());
                }
                replica.answer_stranger(around, message.from);
                replica.step(around, message, arrived)
            }
            entry_payload::LACKING => {
                let index = entry_payload::told_lacking(&rest)?;
                replica.told_lacking(around, from, index);
                Ok(())
            }
            snapshot::GONE => {
                replica.told_gone(&rest)?;
                Ok(())
            }
            kind => {
                replica.receive_snapshot(around, from, kind, &rest)?;
                Ok(())
            }
        });
        match result {
            Some(Err(error @ Broken::Group(_))) => {
                let what = format!(
                    "the replica on this node is given up: {error}; remove it from the queue's \
                     members and add it again"
                );
                around
                    .effects
                    .deferred
                    .push(Deferred::Damage { queue, what });
                if let Some(replica) = self.map.get_mut(&queue) {
                    replica.note_lost(around);
                }
                self.give_up(around, queue);
            }
            Some(Err(error)) => tracing::error!(%queue, %from, %error, "a frame is dropped"),
            Some(Ok(())) | None => {}
        }
    }

    /// A replica that is no member any more goes; or begins again as another member, if the node
    /// is to have one.
    fn leave_if_gone(&mut self, around: &mut Around<'_>, queue: QueueId) {
        let Some(replica) = self.map.get_mut(&queue).filter(|replica| replica.is_gone) else {
            return;
        };
        replica.take_leader(around);
        let spec = replica.spec.clone();
        let me = member_on(&spec, around.node);
        let priority_logs = match me {
            Some(me) => replica.hand_down(around.logs, me),
            None => {
                renew(around.logs, queue, &replica.logs());
                Vec::new()
            }
        };
        self.deadlines.remove(&(replica.deadline_ms, queue));
        self.map.remove(&queue);
        if me.is_some() {
            self.add(around, queue, spec, &priority_logs, &mut |_| {});
        }
    }

    /// In the order of the queues' ids, so that the same happens each time.
    fn for_each(
        &mut self,
        around: &mut Around<'_>,
        mut run: impl FnMut(&mut Replica, &mut Around<'_>),
    ) {
        let mut ids: Vec<QueueId> = self.map.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.with(around, id, &mut run);
        }
    }

    /// Hands a queue's leadership to the member on another node.
    ///
    /// # Errors
    /// It does not lead, or the other cannot; nothing if there is no such queue here.
    pub(crate) fn transfer(
        &mut self,
        around: &mut Around<'_>,
        queue: QueueId,
        to: NodeId,
    ) -> Option<Result<(), ProposeError>> {
        self.with(around, queue, |replica, around| {
            replica.close_batch(around);
            replica.group.transfer_to(to)?;
            replica.drive(around);
            Ok(())
        })
    }

    /// The message of a delivery that another member leads, if it is in the logs here.
    pub(crate) fn message(
        &self,
        logs: &mut ShardLogs,
        queue: QueueId,
        of: &LocalDelivery,
    ) -> Found {
        let position = Position {
            priority_log: of.priority_log,
            index: of.index,
        };
        let replica = self.map.get(&queue);
        if !replica.is_some_and(|replica| replica.has((of.entry, of.term), position)) {
            return Found::Never;
        }
        match peeked::read(logs, queue, position) {
            Found::Message(message) if message.size() != of.bytes => Found::Never,
            found => found,
        }
    }

    /// How a queue's group stands, seen from here.
    #[must_use]
    pub fn status(&self, queue: QueueId) -> Option<ReplicaStatus> {
        let replica = self.map.get(&queue)?;
        Some(ReplicaStatus {
            queue,
            group: replica.group.status(),
            is_serving: replica.leader.is_some(),
            commit_ms: replica
                .leader
                .as_ref()
                .map_or(0, |leader| leader.commit_ms()),
        })
    }

    /// The queues of which the replica here takes no part, in no order.
    pub fn quarantined(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.quarantined.keys().copied()
    }

    /// Whether a queue has a replica here that takes no part.
    #[must_use]
    pub fn is_quarantined(&self, queue: QueueId) -> bool {
        self.quarantined.contains_key(&queue)
    }

    /// How many members do not do what they are there for.
    #[must_use]
    pub fn unfit(&self) -> UnfitReplicas {
        let stuck = self
            .map
            .values()
            .map(|replica| replica.reported_stuck.len());
        UnfitReplicas {
            quarantined: self.quarantined.len(),
            stuck: stuck.sum(),
        }
    }

    /// This node's data folder has turned out to be an older copy of itself: what it leads here was
    /// won with votes that may have been given twice.
    pub(crate) fn resign_all(&mut self, around: &mut Around<'_>) {
        self.for_each(around, |replica, around| {
            if replica.group.can_be_deposed() {
                replica.group.resign();
                replica.drive(around);
            }
        });
    }

    /// How all groups stand, in the order of their queues' ids.
    #[must_use]
    pub fn all(&self) -> Vec<ReplicaStatus> {
        let mut all: Vec<ReplicaStatus> =
            self.map.keys().filter_map(|id| self.status(*id)).collect();
        all.sort_unstable_by_key(|status| status.queue);
        all
    }
}

impl Replica {
    pub(super) fn refuse(&self, around: &mut Around<'_>, to: NodeId) {
        around.answers.push(Answer {
            to,
            queue: self.id,
            session: 0,
            message: Event::NotLeader {
                term: self.group.term(),
                leader: self.leader_node().filter(|leader| *leader != around.node),
            },
        });
    }

    /// Whether the entry that brought a message is here, by an entry of the group that is that one
    /// or a later one. What is at the message's place without it may be another message: one that a
    /// leader before could not commit.
    pub(super) fn has(&self, (entry, term): (u64, u64), position: Position) -> bool {
        let is_here = entry <= self.group.last_applied() || self.group.term_at(entry) == Some(term);
        is_here && position.index < self.priority_logs.end(position.priority_log)
    }

    fn live_counts(&self, logs: &ShardLogs) -> Counts {
        if let Some((view, _)) = self.applied.known_view() {
            return Counts {
                ready: view.unsettled.len(),
                ..Counts::default()
            };
        }
        let stats = self
            .priority_logs
            .numbers()
            .filter_map(|priority_log| logs.log_stats(self.priority_logs.log(priority_log)));
        stats.fold(Counts::default(), |mut counts, stats| {
            counts.ready += stats.entries;
            counts.ready_bytes += stats.bytes;
            counts
        })
    }
}
