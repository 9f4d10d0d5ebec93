//! How much of all streams together is kept in memory.

use crate::StreamHost;
use leveret_storage::Disk;
use leveret_types::QueueId;
use leveret_types::limits::STREAM_TAILS_BYTES_MAX;
use std::collections::{BTreeSet, HashMap};

/// Bytes of the newest chunks that streams keep in memory.
pub(crate) struct Tails {
    bytes_max: usize,
    bytes: usize,
    of: HashMap<QueueId, usize>,
    by_bytes: BTreeSet<(usize, QueueId)>,
}

impl Default for Tails {
    fn default() -> Self {
        Self {
            bytes_max: STREAM_TAILS_BYTES_MAX,
            bytes: 0,
            of: HashMap::new(),
            by_bytes: BTreeSet::new(),
        }
    }
}

impl Tails {
    /// A stream keeps so many bytes now.
    pub(crate) fn note(&mut self, id: QueueId, bytes: usize) {
        let before = match bytes {
            0 => self.of.remove(&id),
            _ => self.of.insert(id, bytes),
        };
        if before == Some(bytes) {
            return;
        }
        if let Some(before) = before {
            self.by_bytes.remove(&(before, id));
            self.bytes -= before;
        }
        if bytes > 0 {
            self.by_bytes.insert((bytes, id));
            self.bytes += bytes;
        }
    }
}

impl<D: Disk> StreamHost<D> {
    /// Bounds what all streams together keep in memory, instead of
    /// [`STREAM_TAILS_BYTES_MAX`].
    #[must_use]
    pub fn with_tails_bytes_max(mut self, bytes_max: usize) -> Self {
        self.tails.bytes_max = bytes_max;
        self
    }

    /// Bytes of the newest chunks of all streams that are in memory.
    #[must_use]
    pub fn tails_bytes(&self) -> usize {
        self.tails.bytes
    }

    /// Where all streams keep too much, those that have most let go of theirs, until there is room
    /// for a while.
    pub(crate) fn release_tails(&mut self) {
        if self.tails.bytes <= self.tails.bytes_max {
            return;
        }
        let enough = self.tails.bytes_max / 4 * 3;
        let largest: Vec<QueueId> = self
            .tails
            .by_bytes
            .iter()
            .rev()
            .map(|(_, id)| *id)
            .collect();
        for id in largest {
            if self.tails.bytes <= enough {
                break;
            }
            if let Some(hosted) = self.streams.get_mut(&id) {
                hosted.machine.release_tail();
                self.tails.note(id, hosted.machine.tail_bytes());
            }
        }
    }
}
