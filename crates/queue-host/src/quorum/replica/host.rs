//! All replicas of a shard: which of them have something to do, and when; replicated queues as a
//! kind of queue of the shard.

mod placing;
mod status;

pub use status::{ReplicaStatus, UnfitReplicas};

use super::entry_payload::{self, Decoded};
use super::snapshot;
use super::{Broken, Replica, ShardContext};
use crate::host_kind::{CountersByType, HostKind};
use crate::log_ids::lost_of;
use crate::peeked::{self, Found};
use crate::queue_spec::LocalQueueStats;
use crate::quorum::protocol::{Answer, Command, Fetched, LocalDelivery};
use crate::sampled_queues::ActiveQueues;
use crate::serving::serve;
use crate::shard::Deferred;
use crate::stalled_log::StalledLog;
use crate::stream_events::StreamNews;
use bytes::Bytes;
use hashbrown::HashMap;
use leveret_queue::{Counters, Counts, Oldest, Position, UnsettledMessage, Waiting};
use leveret_replication::settle_durable;
use leveret_storage::ShardLogs;
use leveret_types::limits::GROUP_TICK_MS;
use leveret_types::{ConsumerId, NodeId, Now, QueueId, ReplicaId};
use std::collections::BTreeSet;
use std::ops::Range;

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
    pub(super) stalled_log: StalledLog,
    /// Groups for which time matters, and when it passes next.
    ticking: Vec<QueueId>,
    next_tick_ms: u64,
    /// Replicas that are no members any more.
    gone: Vec<QueueId>,
    /// When leaders want to act next.
    pub(super) deadlines: BTreeSet<(u64, QueueId)>,
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

    /// Runs something on a replica, and takes note of what it has to do then.
    pub(super) fn with<R>(
        &mut self,
        context: &mut ShardContext<'_>,
        id: QueueId,
        run: impl FnOnce(&mut Replica, &mut ShardContext<'_>) -> R,
    ) -> Option<R> {
        let replica = self.map.get_mut(&id)?;
        let is_lease_expired = context.may_be_deposed && replica.group.can_be_deposed();
        if let Some(leader) = &mut replica.leader {
            leader.is_lease_expired = is_lease_expired;
        }
        let result = run(replica, context);
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
        self.stalled_log.note(context.now, waits);
        if (replica.group.wants_tick() || replica.sending.is_some()) && !listed.ticking {
            listed.ticking = true;
            if self.ticking.is_empty() {
                self.next_tick_ms = context.now.monotonic_ms + GROUP_TICK_MS;
            }
            self.ticking.push(id);
        }
        let deadline = leader.map_or(0, |leader| leader.deadline_ms(context.now));
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
    pub(crate) fn hear_stream(
        &mut self,
        context: &mut ShardContext<'_>,
        view: QueueId,
        news: StreamNews,
    ) {
        self.with(context, view, |replica, context| {
            if let Some(leader) = &mut replica.leader {
                leader.hear_stream(context, news);
            }
        });
    }

    /// Proposes what has gathered, so that its headers are in the chunk with its messages.
    pub(crate) fn before_seal(&mut self, context: &mut ShardContext<'_>) {
        self.is_urgent = false;
        for id in std::mem::take(&mut self.open) {
            self.with(context, id, |replica, context| {
                replica.listed.open = false;
                replica.work(context);
                let now = context.now;
                if replica
                    .leader
                    .as_mut()
                    .is_some_and(|leader| leader.is_due(now))
                {
                    replica.close_batch(context);
                }
            });
        }
    }

    /// Takes a frame of another member. Anything may be in it.
    pub(crate) fn receive_peer(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        queue: QueueId,
        frame: &Bytes,
    ) {
        let Some((kind, _)) = frame.split_first() else {
            return;
        };
        let rest = frame.slice(1..);
        let result = self.with(context, queue, |replica, context| match *kind {
            entry_payload::RAFT | entry_payload::REFERRING => {
                let kept = |run, number| context.clients.published(queue, run, number);
                let (message, arrived) = match entry_payload::decode(frame, &kept)? {
                    Decoded::Message(message, arrived) => (message, arrived),
                    Decoded::Lacking(index) => {
                        let answer = entry_payload::lacking(queue, index);
                        context.effects.peer.push((from, answer));
                        return Ok(());
                    }
                };
                if message.from.node() != from {
                    return Ok(());
                }
                replica.answer_stranger(context, message.from);
                replica.step(context, message, arrived)
            }
            entry_payload::LACKING => {
                let index = entry_payload::decode_lacking(&rest)?;
                replica.on_lacking(context, from, index);
                Ok(())
            }
            snapshot::GONE => {
                replica.on_gone(&rest)?;
                Ok(())
            }
            kind => {
                replica.receive_snapshot(context, from, kind, &rest)?;
                Ok(())
            }
        });
        match result {
            Some(Err(error @ Broken::Group(_))) => {
                let what = format!(
                    "the replica on this node is given up: {error}; remove it from the queue's \
                     members and add it again"
                );
                context
                    .effects
                    .deferred
                    .push(Deferred::Damage { queue, what });
                if let Some(replica) = self.map.get_mut(&queue) {
                    replica.note_lost(context);
                }
                self.give_up(context, queue);
            }
            Some(Err(error)) => tracing::error!(%queue, %from, %error, "a frame is dropped"),
            Some(Ok(())) | None => {}
        }
    }

    /// A queue's replica sends what waits, as far as there is room for it.
    pub(crate) fn retry_outgoing(&mut self, context: &mut ShardContext<'_>, queue: QueueId) {
        self.with(context, queue, |replica, context| {
            replica.retry_outgoing(context);
        });
    }

    /// In the order of the queues' ids, so that the same happens each time.
    fn for_each(
        &mut self,
        context: &mut ShardContext<'_>,
        mut run: impl FnMut(&mut Replica, &mut ShardContext<'_>),
    ) {
        let mut ids: Vec<QueueId> = self.map.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.with(context, id, &mut run);
        }
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
}

impl Replica {
    /// Whether the entry that brought a message is here, by an entry of the group that is that one
    /// or a later one. What is at the message's place without it may be another message: one that a
    /// leader before could not commit.
    pub(super) fn has(&self, (entry, term): (u64, u64), position: Position) -> bool {
        let is_here = entry <= self.group.last_applied() || self.group.term_at(entry) == Some(term);
        is_here && position.index < self.priority_logs.end(position.priority_log)
    }
}

impl HostKind for Replicas {
    fn receive(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        queue: QueueId,
        session: u64,
        command: Command,
    ) {
        if !self.has(queue) {
            context
                .answers
                .extend(Answer::not_here(from, queue, &command));
            return;
        }
        self.with(context, queue, |replica, context| {
            serve(replica, context, from, session, command);
        });
    }

    fn dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        priority_log: u8,
        range: Range<u64>,
    ) {
        self.with(context, queue, |replica, context| {
            replica.dead_lettered(context, priority_log, range);
        });
    }

    fn not_dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        priority_log: u8,
        index: u64,
    ) {
        self.with(context, queue, |replica, context| {
            if let Some(leader) = &mut replica.leader {
                leader.not_dead_lettered(context, priority_log, index);
            }
        });
    }

    fn loaded(&mut self, context: &mut ShardContext<'_>, queue: QueueId) {
        self.with(context, queue, |replica, context| {
            replica.loaded(context);
            replica.send_parts(context);
        });
    }

    fn remove(&mut self, context: &mut ShardContext<'_>, id: QueueId) -> Option<Counts> {
        let Some(mut replica) = self.map.remove(&id) else {
            self.delete_retired_replica(context.logs, id);
            return None;
        };
        self.deadlines.remove(&(replica.deadline_ms, id));
        replica.priority_logs.delete(context.logs);
        context.logs.delete_log(replica.header_log());
        let leader = replica.take_leader(context)?;
        Some(leader.counts(context.now))
    }

    fn on_durable(&mut self, context: &mut ShardContext<'_>) {
        for id in std::mem::take(&mut self.unsynced) {
            self.with(context, id, |replica, context| {
                replica.listed.unsynced = false;
                if settle_durable(replica, context) {
                    replica.drive(context);
                }
            });
        }
        let waits = self.waits_for_log();
        self.stalled_log.ended(context.now, waits);
    }

    fn peer_up(&mut self, context: &mut ShardContext<'_>, peer: NodeId) {
        self.for_each(context, |replica, context| {
            replica.group.peer_up(peer);
            replica.forget_outgoing(peer);
            replica.drive(context);
            if let Some(leader) = &mut replica.leader {
                leader.peer_up(context, peer);
            }
        });
    }

    fn peer_down(&mut self, context: &mut ShardContext<'_>, peer: NodeId) {
        self.for_each(context, |replica, context| {
            if replica
                .sending
                .as_ref()
                .is_some_and(|sending| sending.node() == peer)
            {
                replica.sending = None;
            }
            replica.forget_outgoing(peer);
            replica.group.peer_down(peer);
            replica.drive(context);
            if let Some(leader) = &mut replica.leader {
                leader.peer_down(context, peer);
            }
        });
    }

    fn tick(&mut self, context: &mut ShardContext<'_>) {
        // What a leader does at its deadline it does in `finish`: until then, it stays due.
        let now = context.now.monotonic_ms;
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        for (at, id) in due.copied().collect::<Vec<_>>() {
            self.deadlines.remove(&(at, id));
            self.with(context, id, |replica, _| {
                replica.deadline_ms = 0;
                if let Some(leader) = &mut replica.leader {
                    leader.dirty = true;
                }
            });
        }
        self.give_way(context);
        if self.ticking.is_empty() || self.next_tick_ms > context.now.monotonic_ms {
            return;
        }
        self.next_tick_ms = context.now.monotonic_ms + GROUP_TICK_MS;
        for id in std::mem::take(&mut self.ticking) {
            self.with(context, id, |replica, context| {
                replica.listed.ticking = false;
                replica.group.tick();
                replica.report_stuck();
                replica.retry_outgoing(context);
                replica.give_up_silent(context);
                if !replica.has_wanted_members() {
                    replica.reconcile(context);
                }
                replica.drive(context);
            });
        }
    }

    fn finish(&mut self, context: &mut ShardContext<'_>) {
        while let Some(id) = self.gone.pop() {
            self.retire_if_corrupt(context, id);
            self.leave_if_gone(context, id);
        }
        let mut held = Vec::new();
        while let Some(id) = self.dirty.pop() {
            let replica = self.map.get(&id);
            if context.may_be_deposed
                && replica.is_some_and(|replica| replica.group.can_be_deposed())
            {
                held.push(id);
                continue;
            }
            if let Some(replica) = self.map.get_mut(&id) {
                self.active.note(id, &mut replica.listed.active);
            }
            self.with(context, id, |replica, context| {
                replica.listed.dirty = false;
                replica.pump(context);
            });
        }
        self.is_held = !held.is_empty();
        self.dirty = held;
    }

    fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let groups = (!self.ticking.is_empty()).then_some(self.next_tick_ms);
        let is_held = self.is_held && !self.map.is_empty();
        let held = is_held.then_some(now.monotonic_ms + GROUP_TICK_MS);
        // What is due already and held is looked at with the rest of that.
        let is_open = |at: &u64| held.is_none() || *at > now.monotonic_ms;
        let leaders = self.deadlines.iter().map(|(at, _)| *at).find(is_open);
        let stuck = self.stalled_log.deadline_ms();
        [leaders, held, groups, stuck].into_iter().flatten().min()
    }

    fn led_counts(&self, now: Now, queue: QueueId) -> Option<Counts> {
        let leader = self.map.get(&queue)?.leader.as_ref()?;
        leader.is_acting().then(|| leader.counts(now))
    }

    fn local_stats(&self, now: Now, logs: &ShardLogs, queue: QueueId) -> Option<LocalQueueStats> {
        let replica = self.map.get(&queue)?;
        let published = |at| peeked::published_ms(logs, queue, at);
        let (mut counts, oldest, counters) = match &replica.leader {
            Some(leader) => {
                let led = leader.queue();
                (leader.counts(now), led.oldest(published), *led.counters())
            }
            None => (replica.live_counts(logs), Oldest::None, Counters::default()),
        };
        let lost = lost_of(logs, queue, replica.logs().into_iter());
        counts.damaged = counts.damaged.max(lost);
        Some(LocalQueueStats {
            id: queue,
            counts,
            oldest,
            counters,
            consumers: Vec::new(),
            durable: true,
        })
    }

    fn waiting(&self, queue: QueueId) -> Option<Waiting> {
        let leader = self.map.get(&queue)?.leader.as_ref()?;
        Some(leader.queue().waiting())
    }

    fn unsettled_behind(
        &self,
        queue: QueueId,
        of: Option<&[ConsumerId]>,
        before: u64,
        count: usize,
    ) -> Option<Vec<UnsettledMessage>> {
        let leader = self.map.get(&queue)?.leader.as_ref()?;
        let acts = leader.is_acting();
        acts.then(|| leader.queue().unsettled_behind(of, before, count))
    }

    fn show_unsettled(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        held: &UnsettledMessage,
    ) -> Option<Fetched> {
        let replica = self.map.get(&queue);
        match replica.and_then(|replica| replica.leader.as_ref()) {
            Some(leader) => leader.show_unsettled(context.logs, held),
            None => Some(Fetched::Gone),
        }
    }

    fn take_active(&mut self, out: &mut Vec<QueueId>) {
        for id in self.active.take() {
            if let Some(replica) = self.map.get_mut(&id) {
                replica.listed.active = false;
                out.push(id);
            }
        }
    }

    fn depths(&self) -> Vec<(QueueId, [u64; 3])> {
        let led = self.map.values();
        let led = led.filter_map(|replica| Some((replica.id, replica.leader.as_ref()?)));
        let depths = led.map(|(id, leader)| {
            let [ready, unsettled, leaving] = leader.depths();
            (id, [ready + unsettled + leaving, ready, unsettled])
        });
        depths.filter(|(_, depths)| *depths != [0; 3]).collect()
    }

    fn counters(&mut self) -> CountersByType {
        let leaders = self
            .map
            .values()
            .filter_map(|replica| replica.leader.as_ref());
        CountersByType::of(leaders.map(|leader| leader.queue()))
    }

    fn queues(&self) -> Vec<QueueId> {
        self.map.keys().copied().collect()
    }
}
