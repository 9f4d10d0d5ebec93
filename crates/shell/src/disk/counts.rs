//! What this process has done to its disks: the figures of `/metrics`' `io_` families.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

static READS: Tally = Tally::new();
static WRITES: Tally = Tally::new();
static SYNCS: Tally = Tally::new();

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
    SYNCS.add(began, 0);
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
