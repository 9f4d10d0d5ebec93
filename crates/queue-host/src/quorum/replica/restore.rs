//! The beginning of a replica: with the queue, after a restart, or without any state of the queue.

use super::applied_state::{Applied, VOTES_NEVER};
use super::outgoing::Outgoing;
use super::priority_logs::PriorityLogs;
use super::spare::Pace;
use super::{HEADER_LOG, Listed, Pending, Replica, entry_payload, header};
use crate::group_log::{GroupLog, UnreadableEntry};
use crate::quorum::Refusals;
use crate::quorum::protocol::Origin;
use crate::shard::{QueueSpec, log_of};
use crate::stream_view::{SavedView, SavedViewError};
use leveret_replication::{Entry, Group, GroupConfig, Host, Membership, SnapshotMark};
use leveret_storage::{LogKind, ShardLogs};
use leveret_types::{LogId, NodeId, QueueId, ReplicaId};
use std::collections::VecDeque;

/// Why a replica cannot take part.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum RestoreError {
    #[error("its log is damaged: {0}")]
    Damaged(String),
    #[error("its state cannot be read: {0}")]
    State(super::applied_state::Unreadable),
    #[error(transparent)]
    Entry(#[from] UnreadableEntry),
    #[error("priority log {priority_log} ends at {found}, and headers name messages up to {named}")]
    PriorityLog {
        priority_log: u8,
        found: u64,
        named: u64,
    },
    #[error("it lacks entries that it had acknowledged, or has some that its group has lost")]
    Lost,
    #[error(transparent)]
    Group(#[from] leveret_replication::RestoreError),
}

impl Replica {
    /// The member on this node, with what its logs have of it: that may be another than `me`, which
    /// the node is to have. `priority_logs` are those that have a log, the one of the headers
    /// included; none of a queue that is new here. `load` carries out the reads from disk that the
    /// logs ask for.
    ///
    /// # Errors
    /// Its logs are damaged, so that it must not take part: neither vote nor serve.
    pub(super) fn open(
        id: QueueId,
        me: ReplicaId,
        spec: QueueSpec,
        priority_logs: &[u8],
        logs: &mut ShardLogs,
        load: &mut dyn FnMut(&mut ShardLogs),
    ) -> Result<Self, RestoreError> {
        for priority_log in priority_logs {
            if let Some(damage) = logs.damage(log_of(id, *priority_log)) {
                return Err(RestoreError::Damaged(damage.notes.join("; ")));
            }
        }
        for priority_log in priority_logs {
            logs.place_apart(log_of(id, *priority_log));
        }
        let log = log_of(id, HEADER_LOG);
        if !logs.has_log(log) {
            match priority_logs.first() {
                // The queue was on this node alone when it was written to last.
                Some(first) if sole_founder(&spec, me.node()) == Some(me) => {
                    let known = Adopted::found(logs, log_of(id, *first), &spec)?;
                    adopt(id, me, priority_logs, &known, logs);
                }
                _ => logs.create_log(log, LogKind::Durable),
            }
        }
        if logs.state(log).is_empty() {
            let state = Applied {
                replica: me,
                ..Applied::default()
            };
            logs.skip_to(log, 2);
            logs.set_state(log, &state.encode(&first_mark(me, &spec)));
        }
        logs.place_apart(log);
        let (applied, mark) = Applied::decode(logs.state(log)).map_err(RestoreError::State)?;
        if applied.votes_from == VOTES_NEVER {
            return Err(RestoreError::Lost);
        }
        let me = applied.replica;
        let group_log = GroupLog(log);
        let entries = group_log.entries(mark.index, logs, load)?;
        let tail = headers(&entries)?;
        let found = (id, priority_logs);
        let priority_logs = restore_priority_logs(found, &spec, &applied, &tail, logs)?;
        let index = mark.index;
        let hard = group_log.hard_state(logs);
        let group = Group::new(config(id, me), hard, mark, entries, index)?;
        Ok(Self {
            id,
            spec,
            members: group.membership().members(),
            group: Host::new(group, group_log, index),
            priority_logs,
            applied,
            tail,
            proposed: None,
            arrived: VecDeque::new(),
            outgoing: Outgoing::default(),
            leads: None,
            leader: None,
            view_numbers: 0,
            receiving: None,
            sending: None,
            is_gone: false,
            is_corrupt: false,
            reported_stuck: Vec::new(),
            pace: Pace::default(),
            listed: Listed::default(),
            deadline_ms: 0,
        })
    }

    /// Tells the group at its beginning which nodes are down; the preferred leader of a new group
    /// stands at once, and hears of the others when they are there.
    pub(super) fn begin(&mut self, up: &[NodeId], is_new: bool) {
        let me = self.group.replica();
        self.group.begin(up, &self.spec.members);
        let alone = self.group.membership().members() == [me];
        match self.spec.members.first().filter(|_| is_new) {
            Some(preferred) if *preferred != me && !alone => self.group.greet(*preferred),
            Some(_) => self.group.campaign(),
            None if alone => self.group.campaign(),
            None => {}
        }
    }
}

pub(super) fn config(id: QueueId, me: ReplicaId) -> GroupConfig {
    GroupConfig {
        replica: me,
        seed: id.0,
        weigh: header::weigh,
    }
}

impl Replica {
    /// Takes back all that is not applied, for `me`, another member on this node.
    pub(super) fn keep_applied(&self, logs: &mut ShardLogs, me: ReplicaId) {
        logs.truncate(self.header_log(), self.group.snapshot_index() + 1);
        for priority_log in self.priority_logs.numbers() {
            let end = self
                .applied
                .priority_log(priority_log)
                .map_or(0, |state| state.end);
            logs.truncate(self.priority_logs.log(priority_log), end);
        }
        if let Some(mark) = self.group.mark(self.group.snapshot_index()) {
            let state = Applied {
                replica: me,
                ..self.applied.clone()
            };
            logs.set_state(self.header_log(), &state.encode(&mark));
        }
    }
}

/// The member on a node that is the only one that a group began with.
pub(super) fn sole_founder(spec: &QueueSpec, node: NodeId) -> Option<ReplicaId> {
    let mut founders = spec.founders.iter().filter(|member| is_founder(member));
    let first = founders.next().filter(|first| first.node() == node)?;
    founders.next().is_none().then_some(*first)
}

const fn is_founder(member: &ReplicaId) -> bool {
    member.incarnation() == 0
}

/// What is known of a queue that was on one node alone, besides the messages in its logs.
pub(crate) struct Adopted {
    /// Returns, and what was delivered.
    pub(crate) state: leveret_queue::State,
    /// What was known of its stream, if it is a view that has begun.
    pub(crate) view: Option<SavedView>,
    /// Whether it is a view.
    pub(crate) is_view: bool,
    /// Whose operations were taken, and how far.
    pub(crate) origins: Vec<(Origin, u64)>,
    /// Which of these operations were refused, as far as their origins may not know it.
    pub(crate) refused: Vec<(Origin, Refusals)>,
}

impl Adopted {
    /// What a queue's log has as its state.
    fn found(logs: &ShardLogs, log: LogId, spec: &QueueSpec) -> Result<Self, RestoreError> {
        let bytes = logs.state(log);
        let is_view = spec.view.is_some();
        let damaged = |error: SavedViewError| RestoreError::Damaged(error.to_string());
        let view = is_view.then(|| SavedView::decode(bytes)).transpose();
        Ok(Self {
            state: match is_view {
                true => leveret_queue::State::default(),
                false => leveret_queue::State::decode(bytes)
                    .unwrap_or_default()
                    .for_start(logs.was_closed_in_order()),
            },
            view: view.map_err(damaged)?,
            is_view,
            origins: Vec::new(),
            refused: Vec::new(),
        })
    }
}

/// Makes what the logs of a queue have, which was on this node alone so far, the first state of its
/// group. It is not what others begin with who come later: they find that what they lack is in a
/// snapshot.
pub(super) fn adopt(
    id: QueueId,
    me: ReplicaId,
    priority_logs: &[u8],
    known: &Adopted,
    logs: &mut ShardLogs,
) {
    let log = log_of(id, HEADER_LOG);
    logs.create_log(log, LogKind::Durable);
    let mut applied = Applied {
        replica: me,
        origins: known.origins.clone(),
        refused: known.refused.clone(),
        ..Applied::default()
    };
    if let Some(view) = &known.view {
        applied.adopt_view(view);
    }
    let with_messages = priority_logs.iter().filter(|_| !known.is_view);
    for priority_log in with_messages {
        let log_of_priority = log_of(id, *priority_log);
        // One index is passed over: that is on disk, whatever the messages before it are.
        let end = logs.log_stats(log_of_priority).map_or(0, |s| s.next_index) + 1;
        logs.skip_to(log_of_priority, end);
        let adopted = applied.priority_log_mut(*priority_log);
        // Of what nothing was saved all may have been delivered.
        (adopted.end, adopted.delivered) = (end, end);
        if let Some(before) = known
            .state
            .priority_logs
            .iter()
            .find(|before| before.priority_log == *priority_log)
        {
            adopted.delivered = before.delivered_through.min(end);
            for (range, count) in &before.returns {
                adopted.returns.update(range.clone(), |_| *count, |_, _| {});
            }
        }
    }
    let mark = SnapshotMark {
        index: 2,
        ..SnapshotMark::founding([me])
    };
    logs.skip_to(log, mark.index + 1);
    logs.set_state(log, &applied.encode(&mark));
    if known.is_view {
        // It is in the group's state.
        let of_view = priority_logs.iter();
        of_view.for_each(|priority_log| logs.set_state(log_of(id, *priority_log), &[]));
    }
}

/// What a member begins with that has no log yet. A founder begins with the founding state, also
/// when its node ended before that was on disk and the group has got other members since: entries
/// that change members make of the same state the same everywhere. One that came to the group later
/// is not in its founding state, and waits for the leader to send it what there is.
fn first_mark(me: ReplicaId, spec: &QueueSpec) -> SnapshotMark {
    if spec.founders.contains(&me) && spec.founders.iter().all(is_founder) {
        return SnapshotMark::founding(spec.founders.iter().copied());
    }
    let others = spec.members.iter().copied().filter(|member| *member != me);
    let mut others: Vec<ReplicaId> = others.collect();
    if others.is_empty() {
        others.push(ReplicaId(u64::MAX));
    }
    SnapshotMark {
        index: 1,
        term: 1,
        membership: Membership::of_voters(others),
    }
}

fn headers(entries: &[Entry]) -> Result<VecDeque<Pending>, RestoreError> {
    let mut tail = VecDeque::new();
    for entry in entries {
        let index = entry.index;
        let header = entry_payload::header_of(entry).map_err(|error| UnreadableEntry {
            index,
            why: error.to_string(),
        })?;
        tail.push_back(Pending {
            entry: entry.clone(),
            header: header.unwrap_or_default(),
        });
    }
    Ok(tail)
}

/// The priority logs as the headers name them: what goes on behind was of a batch that did not get
/// its header, or of a snapshot that did not get to its end.
fn restore_priority_logs(
    (id, found): (QueueId, &[u8]),
    spec: &QueueSpec,
    applied: &Applied,
    tail: &VecDeque<Pending>,
    logs: &mut ShardLogs,
) -> Result<PriorityLogs, RestoreError> {
    let mut priority_logs = PriorityLogs::new(id);
    // The messages of a view are in no log.
    let is_view = spec.view.is_some();
    let named = |priority_log: u8| {
        if is_view {
            return 0;
        }
        let applied = applied
            .priority_log(priority_log)
            .map_or(0, |state| state.end);
        let came = tail
            .iter()
            .flat_map(|pending: &Pending| &pending.header.came);
        let came = came
            .filter(|came| came.priority_log == priority_log)
            .map(|came| came.range.end);
        came.chain([applied]).max().unwrap_or(0)
    };
    for priority_log in found
        .iter()
        .copied()
        .filter(|priority_log| *priority_log != HEADER_LOG)
    {
        let log = log_of(id, priority_log);
        let named = named(priority_log);
        let end = logs.log_stats(log).map_or(0, |stats| stats.next_index);
        if end < named {
            let found = end;
            return Err(RestoreError::PriorityLog {
                priority_log,
                found,
                named,
            });
        }
        logs.truncate(log, named);
        priority_logs.found(logs, priority_log, named);
    }
    let all = applied.priority_logs.iter().map(|state| state.priority_log);
    let came = tail.iter().flat_map(|pending| &pending.header.came);
    for priority_log in all.chain(came.map(|came| came.priority_log)) {
        let named = named(priority_log);
        if named > 0 && priority_logs.end(priority_log) == 0 {
            return Err(RestoreError::PriorityLog {
                priority_log,
                found: 0,
                named,
            });
        }
    }
    Ok(priority_logs)
}

#[cfg(test)]
mod tests {
    use super::super::applied_state::VIEW_LOG;
    use super::*;
    use leveret_queue::{QueueKind, Returns, Settings};
    use leveret_storage::{Folders, MemoryDisk, Options, Store, recover};
    use leveret_types::RangeSet;

    fn member(node: u32, incarnation: u32) -> ReplicaId {
        ReplicaId::new(NodeId(node), incarnation)
    }

    fn spec(members: &[ReplicaId], founders: &[ReplicaId]) -> QueueSpec {
        QueueSpec {
            view: None,
            kind: QueueKind::Quorum,
            durable: true,
            members: members.to_vec(),
            founders: founders.to_vec(),
            home: NodeId(0),
            auto_delete: false,
            settings: Settings::default(),
        }
    }

    fn begins(me: ReplicaId, members: &[ReplicaId], founders: &[ReplicaId]) -> Vec<ReplicaId> {
        first_mark(me, &spec(members, founders)).membership.voters
    }

    #[test]
    fn a_founder_begins_as_the_group_began_whoever_belongs_to_it_by_then() {
        let founders = [member(1, 0), member(2, 0), member(3, 0)];
        for members in [
            &founders[..],
            &[member(1, 7), member(2, 0), member(3, 0)],
            &[member(2, 0), member(3, 0)],
        ] {
            assert_eq!(begins(member(2, 0), members, &founders), founders);
        }
    }

    #[test]
    fn who_comes_later_begins_without_a_vote() {
        let founders = [member(1, 0), member(2, 0)];
        let members = [member(1, 0), member(2, 0), member(3, 5)];
        assert_eq!(begins(member(3, 5), &members, &founders), founders);
        let alone = begins(member(3, 5), &[member(3, 5)], &founders);
        assert!(!alone.contains(&member(3, 5)) && !alone.is_empty());
    }

    /// What a group has as its first state of a queue that was on one node, with one priority log.
    fn adopted(known: &Adopted) -> Applied {
        let folders = Folders::within(std::path::Path::new("/store"));
        let recovered = recover(&MemoryDisk::new(), &folders, &Options::default());
        let logs = &mut recovered.expect("a store").shards.remove(0);
        let id = QueueId(256);
        logs.create_log(log_of(id, VIEW_LOG), LogKind::Durable);
        logs.skip_to(log_of(id, VIEW_LOG), 10);
        adopt(id, member(1, 0), &[VIEW_LOG], known, logs);
        let (applied, mark) = Applied::decode(logs.state(log_of(id, HEADER_LOG))).expect("a state");
        assert_eq!(mark.membership.voters, [member(1, 0)]);
        applied
    }

    fn known_of_returns() -> (leveret_queue::State, Vec<(std::ops::Range<u64>, Returns)>) {
        let returned = Returns {
            failed: 2,
            acquired: 3,
            ready_ms: 4,
        };
        let returns = vec![(5..7, returned)];
        let state = leveret_queue::State {
            priority_logs: vec![leveret_queue::PriorityLogState {
                priority_log: VIEW_LOG,
                may_expire: false,
                delivered_through: 8,
                returns: returns.clone(),
                leaving: Vec::new(),
            }],
        };
        (state, returns)
    }

    #[test]
    fn what_is_known_of_returns_and_deliveries_stays_known_when_a_queue_gets_a_group() {
        let (state, returns) = known_of_returns();
        let applied = adopted(&Adopted {
            state,
            view: None,
            is_view: false,
            origins: Vec::new(),
            refused: Vec::new(),
        });
        let found = applied.priority_log(VIEW_LOG).expect("it is there");
        assert_eq!((found.end, found.delivered), (11, 8));
        assert_eq!(applied.returns(VIEW_LOG), returns);
        assert!(applied.known_view().is_none());
    }

    #[test]
    fn a_group_flags_what_may_have_been_delivered_before_a_crash_of_its_founder() {
        let folders = Folders::within(std::path::Path::new("/store"));
        let log = log_of(QueueId(256), VIEW_LOG);
        for (is_orderly, delivered) in [(true, 8), (false, 11)] {
            let disk = MemoryDisk::new();
            let open = || Store::open(&disk, &folders, &Options::default());
            let (mut store, _) = open().expect("a new store");
            let mut state = Vec::new();
            known_of_returns().0.encode(&mut state);
            store.shards[0].create_log(log, LogKind::Durable);
            store.shards[0].skip_to(log, 10);
            store.shards[0].set_state(log, &state);
            match is_orderly {
                true => store.close().expect("closed"),
                false => store.sync().map(|()| drop(store)).expect("synced"),
            }
            let (mut store, _) = open().expect("the store");
            let logs = &mut store.shards[0];
            let founder = [member(1, 0)];
            let known = Adopted::found(logs, log, &spec(&founder, &founder)).expect("a state");
            adopt(QueueId(256), founder[0], &[VIEW_LOG], &known, logs);
            let state = logs.state(log_of(QueueId(256), HEADER_LOG));
            let (applied, _) = Applied::decode(state).expect("a state");
            let found = applied.priority_log(VIEW_LOG).expect("it is there");
            assert_eq!(found.delivered, delivered, "orderly: {is_orderly}");
        }
    }

    #[test]
    fn what_a_view_was_given_and_has_not_settled_stays_known_when_it_gets_a_group() {
        let (queue, returns) = known_of_returns();
        let unsettled: RangeSet = [5..7, 9..10].into_iter().collect();
        let saved = SavedView {
            source: QueueId(9).of_stream(),
            given: 10,
            reserved: 8,
            read_ms: 1_700_000_000_000,
            unsettled: unsettled.clone(),
            queue,
        };
        let applied = adopted(&Adopted {
            state: leveret_queue::State::default(),
            view: Some(saved),
            is_view: true,
            origins: Vec::new(),
            refused: Vec::new(),
        });
        let (view, given) = applied.known_view().expect("it is a view");
        assert_eq!((view.source, given), (QueueId(9).of_stream(), 10));
        assert_eq!(
            (view.read_ms, &view.unsettled),
            (1_700_000_000_000, &unsettled)
        );
        assert_eq!(applied.returns(VIEW_LOG), returns);
    }
}
