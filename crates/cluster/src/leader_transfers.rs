//! Leader transfers that a node will request, and when.

use leveret_types::{NodeId, Now, QueueId};
use std::collections::{BTreeMap, VecDeque};

/// How long a node that has returned is left alone before it leads again.
const SETTLE_MS: u64 = 3_000;
/// How often a node whose disk is full looks whether it leads anything.
const LEAVE_FULL_DISK_MS: u64 = 1_000;

/// Transfers that this node will ask for.
#[derive(Debug, Default)]
pub(super) struct LeaderTransfers {
    /// Nodes that have returned, and when they get their leaders back.
    pub(super) returned: BTreeMap<NodeId, u64>,
    pub(super) queued: VecDeque<(QueueId, NodeId)>,
    /// When this node, whose disk has an alarm, hands over what it leads next.
    full_disk: Option<u64>,
}

impl LeaderTransfers {
    /// A node is up: what it is to lead goes back to it after a while.
    pub(super) fn returned(&mut self, now: Now, node: NodeId) {
        self.returned.insert(node, now.monotonic_ms + SETTLE_MS);
    }

    /// A node is down: nothing is moved there.
    pub(super) fn gone(&mut self, node: NodeId) {
        self.returned.remove(&node);
        self.queued.retain(|(_, to)| *to != node);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.returned.is_empty() && self.queued.is_empty() && self.full_disk.is_none()
    }

    /// Whether it is time for this node to hand over what it leads because its disk is full.
    pub(super) fn leaves_full_disk(&mut self, now: Now, is_full: bool) -> bool {
        let at = self.full_disk.unwrap_or(now.monotonic_ms);
        let is_due = is_full && at <= now.monotonic_ms;
        let next = if is_due {
            now.monotonic_ms + LEAVE_FULL_DISK_MS
        } else {
            at
        };
        self.full_disk = is_full.then_some(next);
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_disk_is_full_hands_over_at_once_and_looks_again() {
        let mut transfers = LeaderTransfers::default();
        let mut leaves = |ms, is_full| {
            let leaves = transfers.leaves_full_disk(Now::both(ms), is_full);
            (leaves, transfers.is_empty())
        };
        assert_eq!(leaves(1_000, false), (false, true));
        assert_eq!(leaves(2_000, true), (true, false));
        assert_eq!(leaves(2_000 + LEAVE_FULL_DISK_MS - 1, true), (false, false));
        assert_eq!(leaves(2_000 + LEAVE_FULL_DISK_MS, true), (true, false));
        assert_eq!(leaves(3_001, false), (false, true));
        assert_eq!(leaves(3_002, true), (true, false), "another alarm");
    }
}
