//! Replicated queues and streams by who has them: which of them nobody leads, and which of them
//! need a node.

use crate::operations::Availability;
use leveret_metadata::{Catalogue, QueueRecord};
use leveret_types::{NodeId, QueueId};

/// A queue or stream that has members, as the catalogue has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The queue.
    pub id: QueueId,
    /// Of a stream the node that leads it.
    home: NodeId,
    /// Its virtual host.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// The nodes that have a member.
    nodes: Vec<NodeId>,
}

impl Group {
    /// All of a catalogue.
    #[must_use]
    pub fn all(catalogue: &Catalogue) -> Vec<Self> {
        let queues = catalogue.queues(None);
        let replicated = queues.filter(|record| !record.members().is_empty());
        replicated.map(Self::of).collect()
    }

    fn of(record: &QueueRecord) -> Self {
        Self {
            id: record.id(),
            home: record.home(),
            vhost: record.vhost().to_owned(),
            name: record.name().to_owned(),
            nodes: record.members().iter().map(|m| m.node()).collect(),
        }
    }

    /// Whether fewer members are up than make a majority, or the leader is not up: that of a stream
    /// as all nodes know it, that of a queue as its member here does, which `leader` asks.
    pub fn is_leaderless(
        &self,
        availability: &Availability,
        leader: impl FnOnce() -> Option<NodeId>,
    ) -> bool {
        let is_down = |leader: NodeId| !availability.is_up(leader);
        if self.id.is_stream() {
            return !self.has_majority(|node| availability.is_up(node)) || is_down(self.home);
        }
        if !self.nodes.contains(&availability.own) {
            return !self.has_majority(|node| availability.is_up(node));
        }
        leader().is_none_or(is_down)
    }

    /// Whether it would lose its majority with this node.
    #[must_use]
    pub fn needs_this_node(&self, availability: &Availability) -> bool {
        let is_left = |node: NodeId| node != availability.own && availability.is_up(node);
        self.nodes.contains(&availability.own) && !self.has_majority(is_left)
    }

    fn has_majority(&self, is_counted: impl Fn(NodeId) -> bool) -> bool {
        let counted = self.nodes.iter().filter(|node| is_counted(**node));
        counted.count() * 2 > self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group on these nodes, seen from node 1 with these others up.
    fn group(is_stream: bool, home: u32, nodes: &[u32], up: &[u32]) -> (Group, Availability) {
        let id = QueueId(7);
        let group = Group {
            id: if is_stream { id.of_stream() } else { id },
            home: NodeId(home),
            vhost: "/".to_owned(),
            name: "q".to_owned(),
            nodes: nodes.iter().copied().map(NodeId).collect(),
        };
        let availability = Availability {
            own: NodeId(1),
            up: up.iter().copied().map(NodeId).collect(),
            full_disks: Vec::new(),
        };
        (group, availability)
    }

    #[test]
    fn a_queue_without_a_member_here_counts_as_led_while_a_majority_is_up() {
        for (nodes, up, is_leaderless) in [
            (&[2, 3, 4][..], &[2, 3][..], false),
            (&[2, 3, 4], &[2], true),
            (&[2, 3], &[2], true),
            (&[2, 3], &[2, 3], false),
        ] {
            let (group, availability) = group(false, 2, nodes, up);
            let leader = || panic!("no member here");
            assert_eq!(
                group.is_leaderless(&availability, leader),
                is_leaderless,
                "{up:?}"
            );
        }
    }

    #[test]
    fn a_queue_with_a_member_here_is_led_by_whom_that_knows_if_it_is_up() {
        for (leader, up, is_leaderless) in [
            (Some(2), &[2][..], false),
            (Some(1), &[], false),
            (Some(2), &[3], true),
            (None, &[2, 3], true),
        ] {
            let (group, availability) = group(false, 1, &[1, 2, 3], up);
            let known = || leader.map(NodeId);
            assert_eq!(
                group.is_leaderless(&availability, known),
                is_leaderless,
                "{up:?}"
            );
        }
    }

    #[test]
    fn a_stream_is_led_where_the_catalogue_says_while_a_majority_is_up() {
        for (home, up, is_leaderless) in [
            (2, &[2][..], false),
            (2, &[3], true),
            (1, &[3], false),
            (1, &[], true),
        ] {
            let (group, availability) = group(true, home, &[1, 2, 3], up);
            let leader = || panic!("the catalogue knows");
            assert_eq!(
                group.is_leaderless(&availability, leader),
                is_leaderless,
                "{up:?}"
            );
        }
    }

    #[test]
    fn a_queue_needs_a_node_without_which_its_majority_is_gone() {
        for (nodes, up, is_needed) in [
            (&[1, 2, 3][..], &[2, 3][..], false),
            (&[1, 2, 3], &[2], true),
            (&[1, 2], &[2], true),
            (&[1], &[2, 3], true),
            (&[2, 3, 4], &[2], false),
        ] {
            let (group, availability) = group(false, 1, nodes, up);
            assert_eq!(
                group.needs_this_node(&availability),
                is_needed,
                "{nodes:?} {up:?}"
            );
        }
    }
}
