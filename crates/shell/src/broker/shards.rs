//! The shards behind their locks, with what is known of each without its lock; and what leaves a
//! shard when it is released.

use super::Broker;
use crate::wake_ups::WakeUps;
use leveret_cluster::BorrowedShard;
use leveret_queue_host::peer_rooms::PeerRooms;
use leveret_queue_host::shard::Shard;
use leveret_storage::{ReadRequest, Urgency};
use leveret_types::ShardId;
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
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

impl Broker {
    /// Tells a shard how much room there is on the ways to other nodes, behind what it has just
    /// sent; whether it has more, so that the links' thread is to be woken.
    fn look_for_room(&self, rooms: &mut PeerRooms) -> bool {
        let links = &self.cluster.links;
        rooms.refresh(|peer| links.room(peer));
        links.await_room(rooms.newly_awaited())
    }
}

/// A locked shard.
pub struct ShardGuard<'a> {
    broker: &'a Broker,
    cell: &'a ShardCell,
    shard: MutexGuard<'a, Shard>,
    unreleased: Unreleased,
}

/// Notices, in builds with assertions, when a shard is dropped that was changed and not released.
#[derive(Default)]
struct Unreleased {
    #[cfg(debug_assertions)]
    is_changed: bool,
}

impl Unreleased {
    const fn set(&mut self, _is_changed: bool) {
        #[cfg(debug_assertions)]
        {
            self.is_changed = _is_changed;
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for Unreleased {
    fn drop(&mut self) {
        assert!(
            !self.is_changed || std::thread::panicking(),
            "a shard was changed and not released"
        );
    }
}

impl<'a> ShardGuard<'a> {
    pub(super) fn lock(broker: &'a Broker, shard: ShardId) -> Self {
        let cell = broker.shards.cell(shard);
        let mut shard = cell.shard.lock();
        shard.set_peers_checked_ms(broker.shards.peers_checked_ms());
        Self {
            broker,
            cell,
            shard,
            unreleased: Unreleased::default(),
        }
    }
}

impl Deref for ShardGuard<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for ShardGuard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        self.unreleased.set(true);
        &mut self.shard
    }
}

impl BorrowedShard for ShardGuard<'_> {
    fn release(self) {
        let Self {
            broker,
            cell,
            mut shard,
            mut unreleased,
        } = self;
        unreleased.set(false);
        // Posted under the shard's lock: deliveries of one queue reach a connection in the order in
        // which the queue made them.
        let woken = broker.io.post(&mut shard.effects.posts);
        let sends = !shard.effects.peer.is_empty()
            && broker.cluster.links.post(shard.effects.peer.drain(..));
        let awaits_room = broker.look_for_room(&mut shard.peer_rooms);
        let refused = broker.say_for_queues(&mut shard.effects.streams);
        broker.deferred.append(&mut shard.effects.deferred);
        if shard.logs.has_reads() {
            broker.shards.read(shard.logs.take_reads());
        }
        let wants_write = shard.wants_write();
        let wants_soon = shard.wants_write_soon();
        let lazy = !wants_write && shard.urgency() == Urgency::Lazy;
        let page_out = shard.logs.wants_page_out();
        cell.set_backlog(shard.logs.gathered_bytes());
        if cell.set_deadline(shard.next_deadline_ms()) {
            broker.signals.timers_and_alarms.notify();
        }
        drop(shard);
        if page_out {
            broker.signals.segments.notify();
        }
        broker.wake(WakeUps {
            io_threads: woken,
            links: sends || awaits_room,
            wal: wants_write,
            wal_soon: wants_soon,
            wal_lazily: lazy,
        });
        broker.tell_sessions(refused);
    }
}
