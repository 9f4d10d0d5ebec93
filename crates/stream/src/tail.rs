//! The newest chunks, in memory, shared by all readers who keep up.

use crate::chunk::SharedChunk;
use leveret_types::limits::STREAM_TAIL_BYTES;
use std::collections::VecDeque;

/// The newest chunks without a gap, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    chunks: VecDeque<SharedChunk>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn push(&mut self, chunk: SharedChunk) {
        self.bytes += chunk.bytes().len();
        self.chunks.push_back(chunk);
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops the oldest committed chunks beyond the budget; all of them where nobody reads.
    pub(crate) fn trim(&mut self, committed: u64, nobody_reads: bool) {
        let is_over = |bytes| nobody_reads || bytes > STREAM_TAIL_BYTES;
        while is_over(self.bytes)
            && let Some(chunk) = self
                .chunks
                .pop_front_if(|chunk| chunk.header().next_offset() <= committed)
        {
            self.bytes -= chunk.bytes().len();
        }
        if self.chunks.is_empty() {
            self.chunks.shrink_to_fit();
        }
    }

    /// The chunks from the one that contains this offset on; `None` if it is older than all.
    pub(crate) fn from(&self, offset: u64) -> Option<impl Iterator<Item = &SharedChunk>> {
        let is_before = |chunk: &SharedChunk| chunk.header().next_offset() <= offset;
        let at = self.chunks.partition_point(is_before);
        let first = self.chunks.front()?.header().first_offset;
        (first <= offset).then(|| self.chunks.range(at..))
    }

    /// The id of the first chunk of this time or later, if none before the tail can be.
    pub(crate) fn of_timestamp(&self, timestamp_ms: i64) -> Option<u64> {
        let is_before = |chunk: &SharedChunk| chunk.header().timestamp_ms < timestamp_ms;
        let at = self.chunks.partition_point(is_before);
        let chunk = self.chunks.get(at).filter(|_| at > 0)?;
        Some(chunk.header().first_offset)
    }
}
