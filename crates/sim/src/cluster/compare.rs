//! When all is well, the members of a queue's group are held against each other, and against what
//! its leader has handed out.

use super::world::{QueueOf, World};
use leveret_cluster::Env;
use leveret_queue_host::quorum::replica::{PriorityLogContent, ReplicaState};
use leveret_types::{NodeId, QueueId};
use std::fmt::Debug;

impl World {
    /// All members of each group have the same state, its leader's queue is what this state says,
    /// and who is no member has no replica.
    pub(super) fn compare_members(&self) -> Result<(), String> {
        for queue in self.groups() {
            self.compare_members_of(queue)?;
        }
        Ok(())
    }

    fn compare_members_of(&self, queue: QueueId) -> Result<(), String> {
        let members = self.members(queue).map(|(members, _)| members);
        let members = members.unwrap_or_default();
        let mut states: Vec<(NodeId, ReplicaState)> = Vec::new();
        for id in self.ids() {
            let Some(node) = self.node(id) else { continue };
            let state = node
                .env
                .shard(node.env.shard_of(queue))
                .replica_state(queue);
            let is_member = members.iter().any(|member| member.node() == id);
            if is_member != state.is_some() {
                let has_replica = state.is_some();
                return Err(format!(
                    "node {id} is a member of {queue}: {is_member}; it has a replica: {has_replica}"
                ));
            }
            states.extend(state.map(|state| (id, state)));
        }
        for pair in states.windows(2) {
            let ((one, first), (other, second)) = (&pair[0], &pair[1]);
            if let Some(difference) = difference(first, second) {
                return Err(format!(
                    "members of queue {queue} on nodes {one} and {other} differ in {difference}"
                ));
            }
        }
        states.iter().try_for_each(|(id, state)| {
            self.compare_leader(queue, *id, state)
                .map_err(|why| format!("queue {queue} at its leader, node {id}: {why}"))
        })
    }

    /// What the leader of a queue counts is what the entries say, and it has handed out nothing
    /// that the next leader would not mark as redelivered. Nothing to compare on another member's
    /// node.
    fn compare_leader(
        &self,
        queue: QueueId,
        id: NodeId,
        state: &ReplicaState,
    ) -> Result<(), String> {
        let Some(node) = self.node(id) else {
            return Ok(());
        };
        let shard = node.env.shard(node.env.shard_of(queue));
        let (Some(handed_out), Some(stats)) = (
            shard.handed_out(queue),
            shard.local_stats(self.now(id), queue),
        ) else {
            return Ok(());
        };
        let contents = &state.priority_logs;
        let live: u64 = contents.iter().map(live_count).sum();
        let counts = &stats.counts;
        // What cannot be read is set aside, and is still there.
        let counted = counts.ready + counts.unsettled + counts.leaving + counts.damaged;
        // A view counts what it has not read of its stream as well.
        let has_more = self.is_view(queue) && counted > live;
        if counted != live && !has_more {
            let (ready, unsettled, leaving) = (counts.ready, counts.unsettled, counts.leaving);
            return Err(format!(
                "{live} messages live, and {ready} are ready, {unsettled} unsettled, {leaving} \
                 leaving"
            ));
        }
        for (priority, through) in handed_out {
            let content = contents.iter().find(|one| one.priority_log == priority);
            let marked = content.map_or(0, |content| content.delivered);
            if through > marked {
                return Err(format!(
                    "messages below {through} of priority {priority} were delivered, and only those \
                     below {marked} would be marked as redelivered"
                ));
            }
        }
        Ok(())
    }
}

impl World {
    fn is_view(&self, queue: QueueId) -> bool {
        let view = self.queues.iter().position(QueueOf::is_view);
        view.is_some_and(|number| self.id_of(number) == Some(queue))
    }
}

fn live_count(content: &PriorityLogContent) -> u64 {
    let ranges = content.live.iter();
    ranges.map(|(range, ())| range.end - range.start).sum()
}

/// In what two states differ first, if they do.
pub(super) fn difference(one: &ReplicaState, other: &ReplicaState) -> Option<String> {
    let of = |what: &str, one: &dyn Debug, other: &dyn Debug| {
        Some(format!("{what}: {one:?} and {other:?}"))
    };
    if (one.applied, one.last) != (other.applied, other.last) {
        let (one, other) = ((one.applied, one.last), (other.applied, other.last));
        return of("their entries", &one, &other);
    }
    if one.operations != other.operations {
        let what = "the operations that took effect";
        return of(what, &one.operations, &other.operations);
    }
    if one.refused != other.refused {
        return of(
            "the publishes that were refused",
            &one.refused,
            &other.refused,
        );
    }
    let priorities = |state: &ReplicaState| -> Vec<u8> {
        let contents = state.priority_logs.iter();
        contents.map(|content| content.priority_log).collect()
    };
    if priorities(one) != priorities(other) {
        return of("their priorities", &priorities(one), &priorities(other));
    }
    let mut pairs = one.priority_logs.iter().zip(&other.priority_logs);
    pairs.find_map(|(one, other)| {
        let fields: [(&str, &dyn Debug, &dyn Debug, bool); 5] = [
            (
                "which messages live",
                &one.live,
                &other.live,
                one.live == other.live,
            ),
            ("what came", &one.end, &other.end, one.end == other.end),
            (
                "what may have been delivered",
                &one.delivered,
                &other.delivered,
                one.delivered == other.delivered,
            ),
            (
                "what came back",
                &one.returns,
                &other.returns,
                one.returns == other.returns,
            ),
            (
                "what is on its way to a dead-letter exchange",
                &one.leaving,
                &other.leaving,
                one.leaving == other.leaving,
            ),
        ];
        let mut different = fields.into_iter().filter(|(.., is_equal)| !is_equal);
        different
            .next()
            .and_then(|(what, one, other, _)| of(what, one, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_queue::{Reason, Returns};

    fn state() -> ReplicaState {
        ReplicaState {
            applied: 9,
            last: 9,
            operations: vec![(1, 1, 4)],
            refused: vec![(1, 1, vec![2..4, 6..7])],
            priority_logs: vec![PriorityLogContent {
                priority_log: 0,
                end: 10,
                delivered: 5,
                live: vec![(3..10, ())],
                returns: vec![(3..4, Returns::default())],
                leaving: vec![(4..5, Reason::Expired)],
            }],
        }
    }

    fn changed(change: impl FnOnce(&mut ReplicaState)) -> Option<String> {
        let mut other = state();
        change(&mut other);
        difference(&state(), &other)
    }

    #[test]
    fn each_part_of_the_state_is_compared() {
        assert_eq!(changed(|_| ()), None);
        let found = [
            changed(|one| one.applied = 8),
            changed(|one| one.last = 10),
            changed(|one| one.operations[0].2 = 3),
            changed(|one| one.refused.clear()),
            changed(|one| one.priority_logs[0].priority_log = 1),
            changed(|one| one.priority_logs[0].end = 11),
            changed(|one| one.priority_logs[0].delivered = 4),
            changed(|one| one.priority_logs[0].live[0].0 = 2..9),
            changed(|one| one.priority_logs[0].returns[0].1.failed = 1),
            changed(|one| one.priority_logs[0].leaving.clear()),
        ];
        for (number, found) in found.iter().enumerate() {
            assert!(found.is_some(), "change {number} is not found");
        }
    }
}
