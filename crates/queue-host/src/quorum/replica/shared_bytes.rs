//! Bytes that the replicas of a shard keep in memory for their followers, bounded together.

use leveret_types::limits::QUORUM_SENT_NODE_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all replicas of a shard keep at hand for sending.
#[derive(Clone, Debug)]
pub(super) struct SharedBytes {
    pub(super) bytes: Arc<AtomicUsize>,
    max: usize,
}

impl SharedBytes {
    /// Those of one of `shards` of a node.
    pub(super) fn of_shard(shards: u16) -> Self {
        Self {
            bytes: Arc::default(),
            max: QUORUM_SENT_NODE_BYTES / usize::from(shards.max(1)),
        }
    }

    /// One of them keeps so many bytes, and kept so many. Who shares it is in one shard: nobody
    /// else changes it meanwhile.
    pub(super) fn change(&self, from: usize, to: usize) {
        let bytes = self.bytes.load(Ordering::Relaxed) - from + to;
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether they keep more than they may.
    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.max
    }
}
