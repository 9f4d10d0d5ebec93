//! What an open transaction has to do with: its commit waits for that.

use leveret_client::Awaited;
use leveret_types::{QueueId, ShardId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

/// The open transaction of a connection.
#[derive(Default)]
pub(super) struct Transaction {
    /// Queues of the cluster, and streams, that it has published to, or settled at, each with the
    /// first number that it has there.
    pub(super) queues: BTreeMap<QueueId, u64>,
    /// Shards of this node whose logs it has to do with.
    pub(super) shards: SmallVec<[ShardId; 2]>,
    /// A queue or a stream has refused something of it.
    pub(super) is_refused: bool,
}

impl Transaction {
    /// Takes note of what something of it waits for.
    pub(super) fn note(&mut self, waits: &[(Awaited, u64)]) {
        for (awaited, number) in waits {
            match awaited {
                Awaited::Queue(queue) => {
                    self.queues.entry(*queue).or_insert(*number);
                }
                Awaited::Shard(shard) if !self.shards.contains(shard) => {
                    self.shards.push(*shard);
                }
                Awaited::Shard(_) => {}
            }
        }
    }

    /// A queue does not take what was published to it under these numbers.
    pub(super) fn refuse(&mut self, of: QueueId, refused: &Range<u64>) {
        let first = self.queues.get(&of);
        self.is_refused |= first.is_some_and(|first| *first < refused.end);
    }
}
