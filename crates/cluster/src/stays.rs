//! When a node that has joined begins to vote.
//!
//! A node that joins by mistake and goes again must not count in majorities for good: two of two
//! would be needed where one was enough. It receives the catalogue's log without a vote until an
//! operator says that it is to vote (by the founder's list of nodes, or by a command), or until it
//! has been there for a while: caught up, and connected without a break. The catalogue has who is
//! to vote, so that every node places members of replicated queues alike.
//!
//! The node that leads the catalogue's group counts; the next leader counts anew.

use leveret_types::limits::NODE_STAY_MS;
use leveret_types::{NodeId, Now};
use std::collections::BTreeMap;

/// Since when nodes without a vote have been there, in monotonic milliseconds.
#[derive(Debug, Default)]
pub(super) struct Stays {
    since: BTreeMap<NodeId, u64>,
}

impl Stays {
    /// A node has gone, or its connection has broken.
    pub(super) fn end(&mut self, node: NodeId) {
        self.since.remove(&node);
    }

    /// Nobody counts here any more.
    pub(super) fn clear(&mut self) {
        self.since.clear();
    }

    /// Whether a node is counted already: one that has caught up once may fall behind for a moment.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.since.contains_key(&node)
    }

    /// Takes note of all nodes without a vote that are there; who of them has stayed. They are told
    /// again after as long if they still have none.
    pub(super) fn note(&mut self, there: &[NodeId], now: Now) -> Vec<NodeId> {
        let now = now.monotonic_ms;
        self.since.retain(|node, _| there.contains(node));
        let mut stayed = Vec::new();
        for node in there {
            let since = self.since.entry(*node).or_insert(now);
            if now.saturating_sub(*since) >= NODE_STAY_MS {
                *since = now;
                stayed.push(*node);
            }
        }
        stayed
    }

    /// When the next one has stayed, in monotonic milliseconds; `u64::MAX` if nobody is counted.
    pub(super) fn due_ms(&self) -> u64 {
        let first = self.since.values().min();
        first.map_or(u64::MAX, |since| since + NODE_STAY_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(4);

    #[test]
    fn a_node_has_stayed_after_the_whole_time_and_not_before() {
        let mut stays = Stays::default();
        assert_eq!(stays.due_ms(), u64::MAX);
        assert_eq!(stays.note(&[NODE], Now::both(5)), []);
        assert!(stays.has(NODE));
        assert_eq!(stays.due_ms(), 5 + NODE_STAY_MS);
        assert_eq!(stays.note(&[NODE], Now::both(4 + NODE_STAY_MS)), []);
        assert_eq!(stays.note(&[NODE], Now::both(5 + NODE_STAY_MS)), [NODE]);
    }

    #[test]
    fn a_node_that_goes_and_returns_is_counted_anew() {
        for breaks in [true, false] {
            let mut stays = Stays::default();
            stays.note(&[NODE], Now::both(0));
            match breaks {
                true => stays.end(NODE),
                false => drop(stays.note(&[], Now::both(1))),
            }
            assert!(!stays.has(NODE));
            stays.note(&[NODE], Now::both(2));
            assert_eq!(stays.note(&[NODE], Now::both(1 + NODE_STAY_MS)), []);
            assert_eq!(stays.note(&[NODE], Now::both(2 + NODE_STAY_MS)), [NODE]);
        }
    }
}
