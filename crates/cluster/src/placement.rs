//! Which nodes have members of a replicated queue, and which of them is to lead it: what there is
//! and what an operator wants, made into what there is to be.
//!
//! A queue's first member is the one that is to lead it. Where new queues go, and who joins by
//! itself, the catalogue decides: see [`Catalogue::members_due`].
//!
//! Invariant: nothing here knows which nodes are up: whoever asks says which ones count.

use leveret_metadata::{Catalogue, QueueRecord};
use leveret_types::limits::GROUP_MEMBERS_MAX;
use leveret_types::{NodeId, QueueId, ReplicaId};
use std::collections::BTreeMap;

/// What the catalogue puts on a node, in queues and streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Members of groups.
    pub members: usize,
    /// Groups that it is to lead.
    pub leads: usize,
    /// Queues and streams without a group that live on it.
    pub homes: usize,
}

/// What the catalogue puts on each node that has anything.
#[must_use]
pub fn loads(catalogue: &Catalogue) -> BTreeMap<NodeId, NodeLoad> {
    let mut loads = BTreeMap::<NodeId, NodeLoad>::new();
    for queue in catalogue.queues(None) {
        let members = queue.members();
        for member in members {
            loads.entry(member.node()).or_default().members += 1;
        }
        match members.first() {
            Some(first) => loads.entry(first.node()).or_default().leads += 1,
            None => loads.entry(queue.home()).or_default().homes += 1,
        }
    }
    loads
}

/// These members and one on a node; nothing if that has one, or there is no group or no room in it.
pub(crate) fn grown(
    members: &[ReplicaId],
    node: NodeId,
    incarnation: u32,
) -> Option<Vec<ReplicaId>> {
    let mut members = members.to_vec();
    let has_room = (1..GROUP_MEMBERS_MAX).contains(&members.len());
    if !has_room || members.iter().any(|member| member.node() == node) {
        return None;
    }
    members.push(ReplicaId::new(node, incarnation));
    Some(members)
}

/// These members and more on the nodes that have least, which are counted there, until there are
/// `count` or no node is left; nothing if none comes.
pub(crate) fn grown_to(
    members: &[ReplicaId],
    count: usize,
    nodes: &mut BTreeMap<NodeId, usize>,
    incarnation: u32,
) -> Option<Vec<ReplicaId>> {
    let mut wanted = members.to_vec();
    while wanted.len() < count {
        let is_free = |node: NodeId| wanted.iter().all(|member| member.node() != node);
        let free = nodes.iter_mut().filter(|(node, _)| is_free(**node));
        let Some((node, load)) = free.min_by_key(|(_, load)| **load) else {
            break;
        };
        match grown(&wanted, *node, incarnation) {
            Some(more) => wanted = more,
            None => break,
        }
        *load += 1;
    }
    (wanted.len() > members.len()).then_some(wanted)
}

/// These members without the one on a node; nothing if there is none, or no other.
pub(crate) fn shrunk(members: &[ReplicaId], node: NodeId) -> Option<Vec<ReplicaId>> {
    let mut members = members.to_vec();
    let before = members.len();
    members.retain(|member| member.node() != node);
    (!members.is_empty() && members.len() < before).then_some(members)
}

/// These members, to be led by the one on a node; nothing if there is none.
pub(crate) fn led_by(members: &[ReplicaId], node: NodeId) -> Option<Vec<ReplicaId>> {
    let at = members.iter().position(|member| member.node() == node)?;
    let mut members = members.to_vec();
    members.swap(0, at);
    Some(members)
}

/// The groups whose first member changes so that no node leads more of them than it must, by their
/// ids, with the members that they get.
pub(crate) fn spread(
    catalogue: &Catalogue,
    may_lead: impl Fn(NodeId) -> bool,
) -> Vec<(QueueId, Vec<ReplicaId>)> {
    let mut queues: Vec<&QueueRecord> = catalogue
        .queues(None)
        .filter(|record| record.members().len() > 1)
        .collect();
    queues.sort_unstable_by_key(|record| record.id());
    let mut leads = BTreeMap::<NodeId, usize>::new();
    for record in &queues {
        *leads.entry(record.members()[0].node()).or_default() += 1;
    }
    let mut changes = Vec::new();
    for record in queues {
        let members = record.members();
        let from = members[0].node();
        let load = |node: NodeId| leads.get(&node).copied().unwrap_or(0);
        let best = (0..members.len())
            .filter(|at| may_lead(members[*at].node()))
            .min_by_key(|at| load(members[*at].node()));
        let Some(at) = best.filter(|at| *at != 0) else {
            continue;
        };
        let to = members[at].node();
        if may_lead(from) && load(to) + 1 >= load(from) {
            continue;
        }
        *leads.entry(from).or_default() -= 1;
        *leads.entry(to).or_default() += 1;
        let mut members = members.to_vec();
        members.swap(0, at);
        changes.push((record.id(), members));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_catalogue::TestCatalogue;

    fn members(nodes: &[u32]) -> Vec<ReplicaId> {
        let members = nodes.iter().map(|node| ReplicaId::new(NodeId(*node), 0));
        members.collect()
    }

    fn nodes_of(members: &[ReplicaId]) -> Vec<u32> {
        members.iter().map(|member| member.node().0).collect()
    }

    #[test]
    fn new_members_go_to_the_nodes_that_have_least() {
        let mut nodes: BTreeMap<_, _> = [(1, 4), (2, 0), (3, 1), (4, 1)]
            .map(|(node, members)| (NodeId(node), members))
            .into();
        let mut grow = |from: &[u32], count| {
            let grown = grown_to(&members(from), count, &mut nodes, 7);
            grown.map(|members| nodes_of(&members))
        };
        assert_eq!(grow(&[1], 3), Some(vec![1, 2, 3]));
        // What the first queue got is counted for the second one.
        assert_eq!(grow(&[2], 3), Some(vec![2, 4, 3]));
        assert_eq!(grow(&[1, 2], 9), Some(vec![1, 2, 4, 3]));
        for (enough, count) in [
            (&[1, 2, 3][..], 3),
            (&[1, 2, 3], 2),
            (&[1, 2, 3, 4], 5),
            (&[], 3),
        ] {
            assert_eq!(grow(enough, count), None, "{enough:?} to {count}");
        }
    }

    #[test]
    fn a_member_comes_once_and_the_last_one_does_not_go() {
        let grow = |from: &[u32], node| {
            let grown = grown(&members(from), NodeId(node), 7);
            grown.map(|members| nodes_of(&members))
        };
        assert_eq!(grow(&[1, 2], 3), Some(vec![1, 2, 3]));
        assert_eq!(grow(&[1, 2], 2), None);
        assert_eq!(grow(&[], 2), None);
        let all: Vec<u32> = (0..GROUP_MEMBERS_MAX as u32).collect();
        assert_eq!(grow(&all, 99), None);
        let shrink = |from: &[u32], node| {
            let shrunk = shrunk(&members(from), NodeId(node));
            shrunk.map(|members| nodes_of(&members))
        };
        assert_eq!(shrink(&[1, 2], 1), Some(vec![2]));
        assert_eq!(shrink(&[1, 2], 3), None);
        assert_eq!(shrink(&[1], 1), None);
    }

    /// Six quorum queues, all to be led by node 1, and who leads them after, where `allowed` may.
    fn leaders_after_spreading(allowed: &[u32]) -> Vec<u32> {
        let mut world = TestCatalogue::of_three_nodes();
        for name in ["a", "b", "c", "d", "e", "f"] {
            let queue = world.declare(name, "quorum");
            world.set_members(queue, &[1, 2, 3]);
        }
        let changes = spread(&world.catalogue, |node| allowed.contains(&node.0));
        let moved: BTreeMap<QueueId, Vec<ReplicaId>> = changes.into_iter().collect();
        let after = |record: &QueueRecord| match moved.get(&record.id()) {
            Some(members) => nodes_of(members)[0],
            None => nodes_of(record.members())[0],
        };
        let mut leaders: Vec<u32> = world.catalogue.queues(None).map(after).collect();
        leaders.sort_unstable();
        leaders
    }

    #[test]
    fn leaders_are_spread_over_the_nodes_that_may_lead() {
        for (allowed, leaders) in [
            (&[1, 2, 3][..], [1, 1, 2, 2, 3, 3]),
            (&[1, 2], [1, 1, 1, 2, 2, 2]),
            (&[2, 3], [2, 2, 2, 3, 3, 3]),
            (&[3], [3; 6]),
            (&[1], [1; 6]),
            (&[], [1; 6]),
        ] {
            assert_eq!(leaders_after_spreading(allowed), leaders, "{allowed:?}");
        }
    }

    #[test]
    fn a_node_is_loaded_with_members_groups_to_lead_and_queues_of_its_own() {
        let mut world = TestCatalogue::of_three_nodes();
        let group = world.declare("a", "quorum");
        world.set_members(group, &[2, 3]);
        world.declare("b", "classic");
        let load = |members, leads, homes| NodeLoad {
            members,
            leads,
            homes,
        };
        let expected = [load(0, 0, 1), load(1, 1, 0), load(1, 0, 0)];
        let nodes = [1, 2, 3].map(NodeId);
        assert_eq!(
            loads(&world.catalogue),
            nodes.into_iter().zip(expected).collect()
        );
    }
}
