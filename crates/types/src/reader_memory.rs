//! The memory that the readers of all streams of a node hold, counted.
//!
//! A reader's chunks are read from disk in blocks, and stay in memory until its socket has taken
//! them. Each block is counted for as long as any slice of it lives, so that no more is read than
//! [`ReaderMemory::bytes_max`] has room for.

use crate::limits::{STREAM_READ_BYTES, STREAM_READERS_BYTES_MAX};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of a node. Clones share it.
#[derive(Clone, Debug)]
pub struct ReaderMemory(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bytes_max: usize,
    /// Of blocks that were read and are not let go of.
    blocks: AtomicUsize,
    /// Reads that have been begun; each has a block, and goes on where there is more room.
    reads: AtomicUsize,
    /// Of chunks that connections have and their sockets have not taken.
    in_hand: AtomicUsize,
}

impl Default for ReaderMemory {
    fn default() -> Self {
        Self::new(STREAM_READERS_BYTES_MAX)
    }
}

impl ReaderMemory {
    /// Nothing is held, and so many bytes may be.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Counts {
            bytes_max,
            blocks: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            in_hand: AtomicUsize::new(0),
        }))
    }

    /// Bytes that blocks may have.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// A block that was read: it is counted until nobody has a slice of it.
    #[must_use]
    pub fn block(&self, bytes: Bytes) -> Bytes {
        let memory = self.clone();
        memory.0.blocks.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Block { bytes, memory })
    }

    /// Bytes of the blocks that somebody has.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.0.blocks.load(Ordering::Relaxed)
    }

    /// A read is begun that has room for a block; it counts until [`ReaderMemory::end_read`].
    pub fn begin_read(&self) {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// A read that was begun has its blocks, or will not have any.
    pub fn end_read(&self) {
        self.0.reads.fetch_sub(1, Ordering::Relaxed);
    }

    /// Bytes that are held, or may be once all reads have ended that have been begun.
    fn used(&self) -> usize {
        self.block_bytes() + self.0.reads.load(Ordering::Relaxed) * STREAM_READ_BYTES
    }

    /// Reads of a block of [`STREAM_READ_BYTES`] each that may be begun. One always may where there
    /// is none. The first half of the memory is also for reads that go on, which others may do
    /// until these are begun; so no more than the second half is promised.
    #[must_use]
    pub fn room(&self) -> usize {
        let used = self.used();
        let room = self.bytes_max() - used.clamp(self.bytes_max() / 2, self.bytes_max());
        (room / STREAM_READ_BYTES).max(usize::from(used == 0))
    }

    /// Whether a read that was begun and has its first block may go on with one more.
    #[must_use]
    pub fn has_room_to_go_on(&self) -> bool {
        self.used() + STREAM_READ_BYTES <= self.bytes_max() / 2
    }

    /// Bytes of the chunks that connections have. One that several of them have counts for each.
    #[must_use]
    pub fn in_hand_bytes(&self) -> usize {
        self.0.in_hand.load(Ordering::Relaxed)
    }

    /// Whether so much is held that nobody keeps what a socket does not take.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.block_bytes().max(self.in_hand_bytes()) > self.bytes_max() / 2
    }
}

/// A block that was read.
struct Block {
    bytes: Bytes,
    memory: ReaderMemory,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let blocks = &self.memory.0.blocks;
        blocks.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// What one connection has of its chunks.
#[derive(Debug)]
pub struct InHand {
    memory: ReaderMemory,
    bytes: usize,
}

impl InHand {
    /// It has none.
    #[must_use]
    pub const fn new(memory: ReaderMemory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// It has so many bytes now.
    pub fn set(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        let in_hand = &self.memory.0.in_hand;
        // Additions wrap around, so that the difference may be below nothing.
        in_hand.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// The node's count.
    #[must_use]
    pub const fn memory(&self) -> &ReaderMemory {
        &self.memory
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_until_its_last_slice_is_gone() {
        let memory = ReaderMemory::new(2 * STREAM_READ_BYTES);
        let block = memory.block(Bytes::from(vec![7; STREAM_READ_BYTES + 1]));
        let slice = block.slice(5..6);
        assert!(memory.is_crowded());
        drop(block);
        assert_eq!(memory.block_bytes(), STREAM_READ_BYTES + 1);
        assert_eq!(slice, [7][..]);
        drop(slice);
        assert_eq!(memory.block_bytes(), 0);
        assert!(!memory.is_crowded());
    }

    #[test]
    fn half_of_the_memory_is_promised_to_reads_and_one_where_there_is_none() {
        let memory = ReaderMemory::new(6 * STREAM_READ_BYTES);
        assert_eq!(memory.room(), 3);
        let block = memory.block(Bytes::from(vec![7; 3 * STREAM_READ_BYTES]));
        assert_eq!(memory.room(), 3);
        memory.begin_read();
        assert_eq!(memory.room(), 2);
        memory.begin_read();
        memory.begin_read();
        assert_eq!(memory.room(), 0);
        drop(block);
        assert_eq!(memory.room(), 3);
        let small = ReaderMemory::new(1);
        assert_eq!(small.room(), 1);
        small.begin_read();
        assert_eq!(small.room(), 0);
        small.end_read();
        assert_eq!(small.room(), 1);
    }

    #[test]
    fn reads_go_on_within_the_half_that_is_not_promised() {
        let memory = ReaderMemory::new(6 * STREAM_READ_BYTES);
        memory.begin_read();
        let block = memory.block(Bytes::from(vec![7; STREAM_READ_BYTES]));
        assert!(memory.has_room_to_go_on());
        memory.begin_read();
        assert!(!memory.has_room_to_go_on());
        drop(block);
        assert!(memory.has_room_to_go_on());
    }

    #[test]
    fn what_connections_have_is_summed_and_goes_with_them() {
        let memory = ReaderMemory::new(20);
        let (mut one, mut other) = (InHand::new(memory.clone()), InHand::new(memory.clone()));
        one.set(9);
        other.set(7);
        assert!(memory.is_crowded());
        one.set(2);
        assert_eq!(memory.in_hand_bytes(), 9);
        drop(other);
        assert_eq!(memory.in_hand_bytes(), 2);
    }
}
