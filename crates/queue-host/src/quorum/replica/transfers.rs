//! States of queues on their way between members: what is known of each, and how many there may be.

use super::applied_state::Applied;
use super::shared_bytes::SharedBytes;
use super::wire::put;
use crate::shard::log_of;
use leveret_replication::Message;
use leveret_storage::{Read, ShardLogs};
use leveret_types::limits::{QUORUM_PART_BYTES, QUORUM_TRANSFERS_MAX};
use leveret_types::{NodeId, QueueId, RangeSet, ReplicaId};
use std::sync::Arc;

/// First byte of the frame of a part: see [`super::snapshot`].
pub(super) const PART: u8 = 5;

/// One priority log of a state.
#[derive(Debug)]
pub(super) struct LivePriorityLog {
    pub(super) priority_log: u8,
    pub(super) end: u64,
    pub(super) live: RangeSet,
}

/// The transfers that a shard's replicas have under way, and how many they may be; and what they
/// keep at hand for other members.
#[derive(Debug)]
pub struct Transfers {
    places: Arc<()>,
    max: usize,
    pub(super) kept: SharedBytes,
}

impl Transfers {
    /// Those of one of `shards` of a node.
    #[must_use]
    pub fn of_shard(shards: u16) -> Self {
        Self {
            places: Arc::default(),
            max: (QUORUM_TRANSFERS_MAX / usize::from(shards.max(1))).max(1),
            kept: SharedBytes::of_shard(shards),
        }
    }

    /// A place for one more, for as long as it is kept.
    pub(super) fn begin(&self) -> Option<Arc<()>> {
        let taken = Arc::strong_count(&self.places) - 1;
        (taken < self.max).then(|| Arc::clone(&self.places))
    }
}

/// A state that this member sends.
#[derive(Debug)]
pub(super) struct Sending {
    /// Among those of the shard.
    pub(super) _place: Arc<()>,
    pub(super) to: ReplicaId,
    pub(super) mark: u64,
    pub(super) priority_logs: Vec<LivePriorityLog>,
    /// Where the next part begins: the place in `priority_logs`, and the index.
    pub(super) at: (usize, u64),
    /// The next part's number, and the first that is not answered; from 1 on. None is sent before
    /// the member has said what it wants.
    pub(super) next: u64,
    pub(super) unanswered: u64,
    pub(super) is_wanted: bool,
    pub(super) is_done: bool,
    /// When something of it went or was answered last, on the monotonic clock.
    pub(super) alive_ms: u64,
}

/// A state that this member receives.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) from: ReplicaId,
    pub(super) message: Message,
    pub(super) mark: u64,
    pub(super) applied: Applied,
    pub(super) priority_logs: Vec<LivePriorityLog>,
    pub(super) next: u64,
}

impl Sending {
    /// The next part; nothing while it is being read.
    pub(super) fn part(&mut self, queue: QueueId, logs: &mut ShardLogs) -> Option<Vec<u8>> {
        let mut out = vec![PART];
        out.extend_from_slice(&self.to.0.to_le_bytes());
        put(&mut out, self.mark);
        put(&mut out, self.next);
        let last_at = out.len();
        out.push(0);
        let mut is_last = true;
        'logs: while let Some(priority_log) = self.priority_logs.get(self.at.0) {
            let log = log_of(queue, priority_log.priority_log);
            while let Some(index) = priority_log.live.next_from(self.at.1) {
                match logs.read(log, index) {
                    Read::Ready(bytes) => {
                        out.push(priority_log.priority_log);
                        put(&mut out, index);
                        put(&mut out, bytes.len() as u64);
                        out.extend_from_slice(&bytes);
                    }
                    Read::Gone => {}
                    Read::Pending if out.len() > last_at + 1 => {
                        is_last = false;
                        break 'logs;
                    }
                    Read::Pending => return None,
                    Read::Damaged(why) => {
                        tracing::error!(%queue, why, "a message cannot be sent to a follower");
                        return None;
                    }
                }
                self.at.1 = index + 1;
                if out.len() >= QUORUM_PART_BYTES {
                    is_last = false;
                    break 'logs;
                }
            }
            self.at = (self.at.0 + 1, 0);
        }
        out[last_at] = u8::from(is_last);
        self.is_done = is_last;
        self.next += 1;
        Some(out)
    }

    /// Whether it is the one with this mark to this node.
    pub(super) fn is(&self, mark: u64, to: NodeId) -> bool {
        self.mark == mark && self.to.node() == to
    }

    /// The node that it goes to.
    pub(super) const fn node(&self) -> NodeId {
        self.to.node()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_transfers_as_may_be_and_no_more() {
        for (shards, max) in [
            (1, QUORUM_TRANSFERS_MAX),
            (2, QUORUM_TRANSFERS_MAX / 2),
            (u16::MAX, 1),
        ] {
            let transfers = Transfers::of_shard(shards);
            let mut places: Vec<_> = (0..max).map(|_| transfers.begin()).collect();
            assert!(places.iter().all(Option::is_some));
            assert!(transfers.begin().is_none());
            places.pop();
            assert!(transfers.begin().is_some());
        }
    }
}
