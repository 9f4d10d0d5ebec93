//! How far a view has read its stream, and how much of that it gave its queue.

use leveret_stream::SharedChunk;
use leveret_types::RangeSet;
use std::ops::Range;

/// How far the stream was read.
#[derive(Default)]
pub(super) struct Progress {
    /// What of the unsettled is below this is at hand.
    pub(super) cursor: u64,
    /// The offset that the next chunk begins with, if nothing is missing.
    pub(super) expected: u64,
    /// Where the newest chunk that was read ends, or where it was said that one begins: with all
    /// before it given, no chunk is given in part.
    pub(super) read_to: u64,
    /// When the newest chunk that was read came, in milliseconds since the Unix epoch; 0 if none
    /// was since it is known where the view stands.
    pub(super) read_ms: i64,
    /// Where the stream's last chunk with messages begins, if it is to be read to see its end.
    pub(super) reread_from: Option<u64>,
}

impl Progress {
    /// This chunk was read.
    pub(super) fn read(&mut self, chunk: &SharedChunk) {
        let (header, next) = (chunk.header(), chunk.header().next_offset());
        self.read_ms = self.read_ms.max(header.timestamp_ms);
        self.expected = self.expected.max(next);
        self.read_to = next;
    }
}

/// What of the stream the queue has been given, and what became of it.
#[derive(Default)]
pub(super) struct Given {
    /// What is below this the queue has been given.
    pub(super) end: u64,
    /// What of that is not settled.
    pub(super) unsettled: RangeSet,
    /// What of the unsettled the stream does not have any more, and is not at hand: somebody held
    /// it, or it was on its way to the dead-letter exchange, when its place in the stream was
    /// passed.
    pub(super) lost: RangeSet,
    /// What is below this may have been delivered before the node started.
    pub(super) delivered_through: u64,
}

impl Given {
    /// Takes note of a message that the queue is given now.
    pub(super) fn give(&mut self, offset: u64) {
        self.end = offset + 1;
        self.unsettled.insert(offset);
    }

    /// These messages have left the queue.
    pub(super) fn settle(&mut self, range: Range<u64>) {
        self.lost.remove_range(range.clone());
        self.unsettled.remove_range(range);
    }

    /// What of these is not settled is not in the stream any more.
    pub(super) fn lose(&mut self, range: Range<u64>) {
        for range in self.unsettled.within(range) {
            self.lost.insert_range(range);
        }
    }

    /// The first from this offset on that is not settled, or was not given yet.
    pub(super) fn next_from(&self, offset: u64) -> u64 {
        self.unsettled.next_from(offset).unwrap_or(self.end)
    }

    /// Whether a message is still to be delivered.
    pub(super) fn is_open(&self, offset: u64) -> bool {
        offset >= self.end || self.unsettled.contains(offset)
    }
}
