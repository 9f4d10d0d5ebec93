//! `leveret perf drive PATH`: what a drive gives to a write-ahead log, and what a queue on it can
//! therefore confirm.
//!
//! The log's whole use of a drive is: write a batch behind the batch before, `fdatasync`, tell who
//! waits. So that pair is timed, for batches of several sizes, on a file that grows and on one that
//! was written before (which is what Leveret's log uses: a sync of it changes no metadata). Beside
//! these the drive's bandwidth, the same pair while a segment writer is at work, how long a
//! confirm takes to become the next message on this machine, without the drive, and all of it
//! together: the loop of messages, syncs and confirms of the load that is asked about.
//!
//! Invariant: nothing but one new folder in `PATH` is written to, and that is removed again.

mod command;
mod distribution;
mod figures;
mod measure;
mod predict;
mod rehearsal;
mod text;
mod turnaround;

pub use command::{Arguments, CommandError, Runner, check_spec, run};
pub use distribution::Distribution;
pub use figures::{figures, page};
pub use measure::{DriveError, Plan, measure};
#[cfg(test)]
pub(crate) use predict::tests::drive as steady_drive;
pub use predict::{Assumptions, Bound, Prediction, QueueKind, predict};
pub use rehearsal::{Rehearsal, Rehearsed};
pub use text::{describe, describe_prediction};

use serde::{Deserialize, Serialize};

/// What was measured of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveResult {
    /// Version of this format.
    pub version: u32,
    /// The folder in which it was measured.
    pub path: String,
    /// Write and `fdatasync` at the end of a file that grows, by size.
    pub growing: Vec<SyncRow>,
    /// Write and `fdatasync` in a file that was written before, by size.
    pub recycled: Vec<SyncRow>,
    /// Bytes a second of large writes to a new file, its one sync included.
    pub write_bytes_per_second: f64,
    /// Bytes a second of reading it back, the page cache having been asked to let go of it.
    pub read_bytes_per_second: f64,
    /// The log and a segment writer at the same time.
    pub mixed: Mixed,
    /// Microseconds from a confirm to the next message, the drive left out: threads and loopback as
    /// busy as they were.
    #[serde(default)]
    pub turnaround: Distribution,
    /// The whole loop of one load; older results have none.
    #[serde(default)]
    pub rehearsal: Option<Rehearsal>,
    /// Bytes of the whole file system; older results have none.
    #[serde(default)]
    pub capacity_bytes: Option<u64>,
}

/// The version of [`DriveResult`] that this program writes, and the newest that it reads.
pub const DRIVE_VERSION: u32 = 1;

/// Writes of one size, each with its sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncRow {
    /// Bytes of each write.
    pub bytes: u64,
    /// Microseconds from before the write until after the sync.
    pub micros: Distribution,
}

/// The log's writes while large writes go to other files of the same drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixed {
    /// The log's batches, in a file that was written before.
    pub log: SyncRow,
    /// Bytes a second that the segment writer got meanwhile.
    pub segment_bytes_per_second: f64,
}
