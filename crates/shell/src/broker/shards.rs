//! The shards behind their locks, with what is known of each without its lock.

use leveret_queue_host::shard::Shard;
use leveret_storage::ReadRequest;
use leveret_types::ShardId;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

/// A lock in a cache line of its own, so that threads at different shards do not disturb each
/// other.
#[repr(align(128))]
pub(super) struct ShardCell {
    pub(super) shard: Mutex<Shard>,
    /// Through which chunk the shard's part of the write-ahead log is durable.
    durable: AtomicU64,
    /// Bytes that the shard has gathered and the write-ahead log has not taken.
    backlog_bytes: AtomicUsize,
    /// When the shard wants to be looked at, monotonic; `u64::MAX` is never.
    deadline_ms: AtomicU64,
}

impl ShardCell {
    fn new(shard: Shard) -> Self {
        Self {
            durable: AtomicU64::new(shard.logs.durable_through()),
            shard: Mutex::new(shard),
            backlog_bytes: AtomicUsize::new(0),
            deadline_ms: AtomicU64::new(u64::MAX),
        }
    }

    /// So many bytes wait for the write-ahead log.
    pub(super) fn set_backlog(&self, bytes: usize) {
        self.backlog_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether it is time to look at the shard.
    pub(super) fn is_due(&self, monotonic_ms: u64) -> bool {
        self.deadline_ms.load(Ordering::Relaxed) <= monotonic_ms
    }

    /// Says when the shard wants to be looked at next; whether that is sooner than before.
    pub(super) fn set_deadline(&self, deadline_ms: u64) -> bool {
        deadline_ms < self.deadline_ms.swap(deadline_ms, Ordering::Relaxed)
    }
}

/// See the module's description.
pub(super) struct Shards {
    cells: Box<[ShardCell]>,
    /// To the threads that read what shards want from disk.
    reads: Sender<ReadRequest>,
    /// When the links' thread last looked after the other nodes, monotonic; `u64::MAX` outside
    /// clusters.
    peers_checked_ms: AtomicU64,
}

impl Shards {
    pub(super) fn new(shards: Vec<Shard>, reads: Sender<ReadRequest>, in_cluster: bool) -> Self {
        Self {
            cells: shards.into_iter().map(ShardCell::new).collect(),
            reads,
            peers_checked_ms: AtomicU64::new(if in_cluster { 0 } else { u64::MAX }),
        }
    }

    pub(super) fn cell(&self, shard: ShardId) -> &ShardCell {
        &self.cells[usize::from(shard.0)]
    }

    /// Those that it is time to look at.
    pub(super) fn due(&self, monotonic_ms: u64) -> impl Iterator<Item = ShardId> {
        let cells = self.cells.iter().enumerate();
        let due = cells.filter(move |(_, cell)| cell.is_due(monotonic_ms));
        due.map(|(index, _)| ShardId(index as u16))
    }

    /// When the first shard wants to be looked at, monotonic.
    pub(super) fn deadline_ms(&self) -> u64 {
        let deadlines = self.cells.iter();
        let deadlines = deadlines.map(|cell| cell.deadline_ms.load(Ordering::Relaxed));
        deadlines.min().unwrap_or(u64::MAX)
    }

    pub(super) fn durable(&self, shard: ShardId) -> u64 {
        self.cell(shard).durable.load(Ordering::Acquire)
    }

    pub(super) fn set_durable(&self, shard: ShardId, chunk: u64) {
        self.cell(shard).durable.store(chunk, Ordering::Release);
    }

    /// Bytes of all shards that wait for the write-ahead log.
    pub(super) fn backlog_bytes(&self) -> usize {
        let cells = self.cells.iter();
        let each = cells.map(|cell| cell.backlog_bytes.load(Ordering::Relaxed));
        each.sum()
    }

    /// Has what a shard wants read from disk.
    pub(super) fn read(&self, requests: impl IntoIterator<Item = ReadRequest>) {
        for request in requests {
            // The readers end only with the process.
            let _ = self.reads.send(request);
        }
    }

    pub(super) fn peers_checked_ms(&self) -> u64 {
        self.peers_checked_ms.load(Ordering::Acquire)
    }

    pub(super) fn set_peers_checked_ms(&self, monotonic_ms: u64) {
        self.peers_checked_ms.store(monotonic_ms, Ordering::Release);
    }
}
