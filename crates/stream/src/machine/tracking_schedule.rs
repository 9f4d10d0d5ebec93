//! When what is kept by name is written into the stream, and what of it is not kept.

use leveret_types::Now;
use leveret_types::limits::{STREAM_SNAPSHOT_BYTES, STREAM_TRACKING_GATHER_MS};

/// What was changed and not written, and what was written since the last snapshot.
#[derive(Debug, Default)]
pub(super) struct TrackingSchedule {
    /// Since when changed offsets wait for a chunk.
    changed_since_ms: Option<u64>,
    bytes_since_snapshot: u64,
}

impl TrackingSchedule {
    /// An offset has changed.
    pub(super) fn changed(&mut self, now: Now) {
        self.changed_since_ms.get_or_insert(now.monotonic_ms);
    }

    /// No change waits any more.
    pub(super) const fn no_changes(&mut self) {
        self.changed_since_ms = None;
    }

    /// When what has changed is written though nothing is published.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let since = self.changed_since_ms;
        since.map(|since| since + STREAM_TRACKING_GATHER_MS)
    }

    /// Whether so much was written since the last snapshot that another one is due.
    pub(super) const fn is_snapshot_due(&self) -> bool {
        self.bytes_since_snapshot >= STREAM_SNAPSHOT_BYTES
    }

    /// A snapshot is being written, or the log is another one.
    pub(super) const fn begin_snapshot(&mut self) {
        self.bytes_since_snapshot = 0;
    }

    /// So many bytes were written.
    pub(super) const fn appended(&mut self, bytes: u64) {
        self.bytes_since_snapshot += bytes;
    }
}

/// What became of offsets that were to be stored, since the stream began here.
#[derive(Debug, Default)]
pub(super) struct OffsetCounts {
    pub(super) refused: u64,
    /// Those that came while as many were kept as may be.
    pub(super) crowded: u64,
}
