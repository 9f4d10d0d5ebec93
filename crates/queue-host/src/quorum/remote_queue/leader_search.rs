//! The location of a queue's leader, and the search for it.

use leveret_types::{NodeId, Now};
use std::ops::Range;

/// Milliseconds after which a leader is looked for again, twice as long each time: who leads says
/// so, and thousands of remote queues that ask would keep the nodes from choosing.
const RETRY_MS: Range<u64> = 50..1_000;
/// Milliseconds within which a node that was asked must have answered.
pub(super) const ANSWER_MS: u64 = 1_000;
/// Hints to other nodes that are followed at once; more of them wait for [`RETRY_MS`].
const HINTS_MAX: u32 = 3;

/// Where the leader is, as far as the remote queue knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaderLocation {
    /// Nowhere.
    Unknown,
    /// This node was registered to, and has not answered yet.
    Contacted(NodeId),
    /// On this node, which has taken the session.
    Led(NodeId),
}

/// What is known of the leader, and how the search for it goes.
#[derive(Debug)]
pub(super) struct LeaderSearch {
    pub(super) location: LeaderLocation,
    /// The latest term of which a leader was heard.
    pub(super) term: u64,
    /// Looks for the leader since it was last known.
    attempts: u32,
    hints: u32,
    pub(super) retry_at_ms: u64,
}

impl LeaderSearch {
    pub const fn new() -> Self {
        Self {
            location: LeaderLocation::Unknown,
            term: 0,
            attempts: 0,
            hints: 0,
            retry_at_ms: 0,
        }
    }

    pub(super) const fn is_known(&self) -> bool {
        matches!(self.location, LeaderLocation::Led(_))
    }

    /// Whether this node leads, or was asked.
    pub(super) fn is_at(&self, node: NodeId) -> bool {
        self.location == LeaderLocation::Contacted(node)
            || self.location == LeaderLocation::Led(node)
    }

    /// Who is to be asked next of those who are worth it, in their order; nobody where there is
    /// none, until later.
    pub(super) fn next_of(&mut self, now: Now, candidates: &[NodeId]) -> Option<NodeId> {
        if candidates.is_empty() {
            self.search_later(now);
            return None;
        }
        let at = self.attempts as usize % candidates.len();
        self.attempts = self.attempts.saturating_add(1);
        Some(candidates[at])
    }

    /// A node is asked, which must answer in time.
    pub(super) const fn ask(&mut self, now: Now, node: NodeId) {
        self.location = LeaderLocation::Contacted(node);
        self.retry_at_ms = now.monotonic_ms + ANSWER_MS;
    }

    /// Somebody says that it leads in this term; whether that may be so.
    pub(super) const fn hears_of(&mut self, term: u64) -> bool {
        if term < self.term {
            return false;
        }
        self.term = term;
        self.hints = 0;
        true
    }

    /// Whether a hint to another leader, from who knows this term, is to be followed at once.
    pub(super) const fn follows(&mut self, term: u64) -> bool {
        let follows = term >= self.term && self.hints < HINTS_MAX;
        if follows {
            self.hints += 1;
        }
        follows
    }

    /// The leader has answered.
    pub(super) const fn found(&mut self, node: NodeId) {
        self.location = LeaderLocation::Led(node);
        (self.attempts, self.hints) = (0, 0);
    }

    /// The leader, or who was asked, is not there any more.
    pub(super) fn lose(&mut self, now: Now) {
        self.location = LeaderLocation::Unknown;
        self.search_later(now);
    }

    /// Looks again after a while, the longer the more often that was in vain.
    fn search_later(&mut self, now: Now) {
        let doubled = RETRY_MS.start << self.attempts.min(8);
        self.retry_at_ms = now.monotonic_ms + doubled.min(RETRY_MS.end);
    }

    /// A node is up that may lead, or know who does: it is worth asking before long.
    pub(super) fn search_soon(&mut self, now: Now) {
        if self.location == LeaderLocation::Unknown {
            self.retry_at_ms = self.retry_at_ms.min(now.monotonic_ms + RETRY_MS.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_looked_in_vain_for_long_looks_soon_when_a_node_comes() {
        let mut search = LeaderSearch::new();
        let (now, soon) = (Now::both(10_000), 10_000 + RETRY_MS.start);
        for _ in 0..20 {
            search.next_of(now, &[NodeId(1)]);
            search.lose(now);
        }
        assert_eq!(search.retry_at_ms, 10_000 + RETRY_MS.end);
        search.search_soon(now);
        assert_eq!(search.retry_at_ms, soon);
        search.search_soon(Now::both(11_000));
        assert_eq!(search.retry_at_ms, soon, "not later for that");
        // Who was asked has its time to answer.
        search.ask(now, NodeId(1));
        search.search_soon(now);
        assert_eq!(search.retry_at_ms, 10_000 + ANSWER_MS);
    }
}
