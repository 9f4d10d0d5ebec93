//! A replica's content, for comparing the members of a queue's group. Only tests and the simulator
//! compare.

use super::applied_state::PriorityLogState;
use super::host::Replicas;
use crate::quorum::protocol::Origin;
use leveret_queue::{Reason, Returns};
use leveret_storage::ShardLogs;
use leveret_types::QueueId;
use std::ops::Range;

/// Indexes of messages with what is known of them, ascending; neighbours that differ.
pub type Runs<V> = Vec<(Range<u64>, V)>;

/// A queue as one of its members has it: two that have applied the same entries, and hold no
/// others, must be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// The last entry that has taken effect.
    pub applied: u64,
    /// The last entry of its log: what it has beyond `applied` has its messages in the logs
    /// already.
    pub last: u64,
    /// The last operation of each node that has taken effect: the node, its start, the operation.
    pub operations: Vec<(u32, u64, u64)>,
    /// Publishes of each node that were refused, which the node may not have heard: the node, its
    /// start, the operations.
    pub refused: Vec<(u32, u64, Vec<Range<u64>>)>,
    /// The queue's priorities that ever had a message, ascending.
    pub priority_logs: Vec<PriorityLogContent>,
}

/// The messages of one priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityLogContent {
    /// Which priority.
    pub priority_log: u8,
    /// Index after the last message that came.
    pub end: u64,
    /// A message below this index may have been delivered, and is `redelivered` if it is again.
    pub delivered: u64,
    /// The messages that are neither settled nor gone for another reason, in the queue's order.
    pub live: Runs<()>,
    /// How often those came back that did.
    pub returns: Runs<Returns>,
    /// Those that are on their way to the dead-letter exchange.
    pub leaving: Runs<Reason>,
}

/// Neighbours of the same value as one: how they came about is no part of the state.
fn joined<V: PartialEq>(runs: impl Iterator<Item = (Range<u64>, V)>) -> Runs<V> {
    let mut all: Runs<V> = Vec::new();
    for (range, value) in runs {
        match all.last_mut() {
            Some((last, of)) if last.end == range.start && *of == value => last.end = range.end,
            _ => all.push((range, value)),
        }
    }
    all
}

impl Replicas {
    /// How far the leader here has handed out each priority of its queue; nothing if none leads.
    #[must_use]
    pub fn handed_out(&self, queue: QueueId) -> Option<Vec<(u8, u64)>> {
        let replica = self.map.get(&queue)?;
        let leader = replica.leader.as_ref()?;
        let through = |priority_log| (priority_log, leader.queue().delivered_through(priority_log));
        Some(replica.priority_logs.numbers().map(through).collect())
    }

    /// Whether the leader here has gathered something that is no entry yet, or has proposed what is
    /// not committed; nothing if none leads.
    #[must_use]
    pub fn has_work_under_way(&self, queue: QueueId) -> Option<bool> {
        let leader = self.map.get(&queue)?.leader.as_ref()?;
        Some(leader.has_work_under_way())
    }

    /// What the member here has made of its queue's entries; nothing if there is none.
    #[must_use]
    pub fn state(&self, logs: &ShardLogs, queue: QueueId) -> Option<ReplicaState> {
        let replica = self.map.get(&queue)?;
        let content = |state: &PriorityLogState| {
            let live = match &replica.applied.view {
                Some(view) => view.unsettled.clone(),
                None => logs.live(replica.priority_logs.log(state.priority_log)),
            };
            PriorityLogContent {
                priority_log: state.priority_log,
                end: state.end,
                delivered: state.delivered,
                live: joined(live.iter().map(|range| (range, ()))),
                returns: joined(state.returns.iter()),
                leaving: joined(state.leaving.iter()),
            }
        };
        let mut priority_logs: Vec<PriorityLogContent> =
            replica.applied.priority_logs.iter().map(content).collect();
        priority_logs.sort_unstable_by_key(|content| content.priority_log);
        let operation = |(origin, through): &(Origin, u64)| (origin.node.0, origin.start, *through);
        let mut operations: Vec<_> = replica.applied.origins.iter().map(operation).collect();
        operations.sort_unstable();
        let refused = replica.applied.refused.iter().map(|(origin, refusals)| {
            let numbers = refusals.numbers.iter().collect();
            (origin.node.0, origin.start, numbers)
        });
        let mut refused: Vec<_> = refused.collect();
        refused.sort_unstable_by_key(|(node, start, _)| (*node, *start));
        Some(ReplicaState {
            applied: replica.group.last_applied(),
            last: replica.group.last_index(),
            operations,
            refused,
            priority_logs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn neighbours_of_one_value_are_one_run() {
        let runs = [(0..2, 'a'), (2..3, 'a'), (3..4, 'b'), (5..6, 'b')];
        let all = joined(runs.into_iter());
        assert_eq!(all, [(0..3, 'a'), (3..4, 'b'), (5..6, 'b')]);
    }
}
