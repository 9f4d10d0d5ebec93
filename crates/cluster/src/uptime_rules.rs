//! For how long nodes have been there, or been gone: when one that has joined begins to vote, and
//! when the exclusive and transient queues of one that is down are deleted.
//!
//! A node that joins by mistake and goes again must not count in majorities for good: two of two
//! would be needed where one was enough. It receives the catalogue's log without a vote until an
//! operator says that it is to vote (by the founder's list of nodes, or by a command), or until it
//! has been there for a while: caught up, and connected without a break. The catalogue has who is
//! to vote, so that every node places members of replicated queues alike.
//!
//! A node that is down for a moment, or cut off, keeps its exclusive and transient queues: their
//! clients may be connected still. While one is down for long they would only be in the way.
//!
//! The node that leads the catalogue's group counts; the next leader counts anew.

use leveret_types::{NodeId, Now};
use std::collections::BTreeMap;

/// Since when nodes have been as they are, in monotonic milliseconds.
#[derive(Debug)]
pub(super) struct UptimeRules {
    /// After how many milliseconds they have stayed so.
    patience_ms: u64,
    since: BTreeMap<NodeId, u64>,
}

impl UptimeRules {
    /// Nobody is counted yet.
    pub(super) const fn of(patience_ms: u64) -> Self {
        Self {
            patience_ms,
            since: BTreeMap::new(),
        }
    }

    /// A node has gone or come, or its connection has broken.
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

    /// Takes note of all nodes that are counted; who of them has stayed. They are told again after
    /// as long if they are counted still.
    pub(super) fn note(&mut self, there: &[NodeId], now: Now) -> Vec<NodeId> {
        let now = now.monotonic_ms;
        self.since.retain(|node, _| there.contains(node));
        let mut stayed = Vec::new();
        for node in there {
            let since = self.since.entry(*node).or_insert(now);
            if now.saturating_sub(*since) >= self.patience_ms {
                *since = now;
                stayed.push(*node);
            }
        }
        stayed
    }

    /// When the next one has stayed, in monotonic milliseconds; `u64::MAX` if nobody is counted.
    pub(super) fn due_ms(&self) -> u64 {
        let first = self.since.values().min();
        first.map_or(u64::MAX, |since| since + self.patience_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::limits::NODE_STAY_MS;

    const NODE: NodeId = NodeId(4);

    #[test]
    fn a_node_has_stayed_after_the_whole_time_and_not_before() {
        let mut uptimes = UptimeRules::of(NODE_STAY_MS);
        assert_eq!(uptimes.due_ms(), u64::MAX);
        assert_eq!(uptimes.note(&[NODE], Now::both(5)), []);
        assert!(uptimes.has(NODE));
        assert_eq!(uptimes.due_ms(), 5 + NODE_STAY_MS);
        assert_eq!(uptimes.note(&[NODE], Now::both(4 + NODE_STAY_MS)), []);
        assert_eq!(uptimes.note(&[NODE], Now::both(5 + NODE_STAY_MS)), [NODE]);
    }

    #[test]
    fn a_node_that_goes_and_returns_is_counted_anew() {
        for breaks in [true, false] {
            let mut uptimes = UptimeRules::of(NODE_STAY_MS);
            uptimes.note(&[NODE], Now::both(0));
            match breaks {
                true => uptimes.end(NODE),
                false => drop(uptimes.note(&[], Now::both(1))),
            }
            assert!(!uptimes.has(NODE));
            uptimes.note(&[NODE], Now::both(2));
            assert_eq!(uptimes.note(&[NODE], Now::both(1 + NODE_STAY_MS)), []);
            assert_eq!(uptimes.note(&[NODE], Now::both(2 + NODE_STAY_MS)), [NODE]);
        }
    }
}
