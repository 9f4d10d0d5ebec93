//! What this process has done to its disks: the figures of `/metrics`' `io_` families.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

static READS: Tally = Tally::new();
static WRITES: Tally = Tally::new();
static SYNCS: Tally = Tally::new();

/// Slots by which syncs are counted: how many took so long.
pub const SYNC_SLOTS: usize = 32;

/// The longest time of each slot but the last, in microseconds: each half as long again as the one
/// before, from 16 microseconds to 3 seconds. The last slot has what took longer.
pub const SYNC_SLOT_US: [u64; SYNC_SLOTS - 1] = slot_bounds();

static SYNC_COUNTS: [AtomicU64; SYNC_SLOTS] = [const { AtomicU64::new(0) }; SYNC_SLOTS];

const fn slot_bounds() -> [u64; SYNC_SLOTS - 1] {
    let mut bounds = [16; SYNC_SLOTS - 1];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 3 / 2;
        at += 1;
    }
    bounds
}

/// How many syncs each slot has, since the process started.
#[must_use]
pub fn sync_slots() -> [u64; SYNC_SLOTS] {
    std::array::from_fn(|at| SYNC_COUNTS[at].load(Ordering::Relaxed))
}

/// Calls of one kind since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many succeeded.
    pub count: u64,
    /// The bytes that they moved; of syncs 0.
    pub bytes: u64,
    /// The time that they took together, in microseconds.
    pub microseconds: u64,
}

/// Reads, writes and syncs of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads.
    pub reads: Calls,
    /// Vectored writes: each counts once, however many slices it has.
    pub writes: Calls,
    /// Syncs of a file's data.
    pub syncs: Calls,
}

/// What all files of this process have been through, whatever disk they are on.
#[must_use]
pub fn io_counts() -> IoCounts {
    IoCounts {
        reads: READS.calls(),
        writes: WRITES.calls(),
        syncs: SYNCS.calls(),
    }
}

pub(super) fn read(began: Instant, bytes: u64) {
    READS.add(began, bytes);
}

pub(super) fn wrote(began: Instant, bytes: u64) {
    WRITES.add(began, bytes);
}

pub(super) fn synced(began: Instant) {
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let slot = SYNC_SLOT_US.partition_point(|bound| *bound < took_us);
    SYNC_COUNTS[slot].fetch_add(1, Ordering::Relaxed);
    SYNCS.add(began, 0);
}

/// What the write-ahead log has taken since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Batches: each was written with one call, and synced.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were begun.
    pub files: u64,
}

static LOG_BATCHES: AtomicU64 = AtomicU64::new(0);
static LOG_BYTES: AtomicU64 = AtomicU64::new(0);
static LOG_FILES_FULL: AtomicU64 = AtomicU64::new(0);

/// What the write-ahead log of this process has taken.
#[must_use]
pub fn log_counts() -> LogCounts {
    let batches = LOG_BATCHES.load(Ordering::Relaxed);
    LogCounts {
        batches,
        bytes: LOG_BYTES.load(Ordering::Relaxed),
        // Behind each one that is full another one is begun, and before them all the first.
        files: LOG_FILES_FULL.load(Ordering::Relaxed) + u64::from(batches > 0),
    }
}

/// The write-ahead log has taken a batch, before which, perhaps, a file was full.
pub(crate) fn log_took(bytes: u64, is_file_full: bool) {
    LOG_BATCHES.fetch_add(1, Ordering::Relaxed);
    LOG_BYTES.fetch_add(bytes, Ordering::Relaxed);
    LOG_FILES_FULL.fetch_add(u64::from(is_file_full), Ordering::Relaxed);
}

struct Tally {
    count: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Tally {
    const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    fn add(&self, began: Instant, bytes: u64) {
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Many reads take less than a microsecond each.
        self.nanoseconds.fetch_add(took, Ordering::Relaxed);
    }

    fn calls(&self) -> Calls {
        Calls {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            microseconds: self.nanoseconds.load(Ordering::Relaxed) / 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_rise_and_a_sync_is_in_the_one_that_holds_its_time() {
        assert!(SYNC_SLOT_US.is_sorted());
        assert_eq!((SYNC_SLOT_US[0], SYNC_SLOT_US[1]), (16, 24));
        let before = sync_slots();
        // A minute is beyond all slots with a bound. Others of this process may sync meanwhile.
        let Some(began) = Instant::now().checked_sub(std::time::Duration::from_secs(60)) else {
            return;
        };
        synced(began);
        assert!(sync_slots()[SYNC_SLOTS - 1] > before[SYNC_SLOTS - 1]);
    }

    /// Others of this process may write to their logs meanwhile.
    #[test]
    fn batches_of_the_log_are_counted_with_their_bytes_and_the_files_they_begin() {
        let before = log_counts();
        log_took(4_096, false);
        log_took(8_192, true);
        let after = log_counts();
        assert!(after.batches >= before.batches + 2);
        assert!(after.bytes >= before.bytes + 12_288);
        assert!(after.files > before.files, "{before:?}, {after:?}");
    }
}
