//! The newest chunks, in memory, shared by all readers who keep up.

use crate::chunk::SharedChunk;
use leveret_types::limits::{STREAM_TAIL_BYTES, STREAM_TAIL_BYTES_MAX};
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

    /// Whether there is more than readers have who keep up.
    pub(crate) const fn is_large(&self) -> bool {
        self.bytes > STREAM_TAIL_BYTES
    }

    /// Drops the oldest chunks of those before `written`: all of them where nobody reads; else
    /// those beyond the budget that no reader in the tail needs, from `needed` on, and what such a
    /// reader is too far behind with.
    pub(crate) fn trim(&mut self, written: u64, needed: Option<u64>) {
        let is_over = |bytes, next_offset| match needed {
            None => true,
            Some(needed) => {
                bytes > STREAM_TAIL_BYTES_MAX || bytes > STREAM_TAIL_BYTES && next_offset <= needed
            }
        };
        let bytes = &mut self.bytes;
        while let Some(chunk) = self.chunks.pop_front_if(|chunk| {
            let next_offset = chunk.header().next_offset();
            next_offset <= written && is_over(*bytes, next_offset)
        }) {
            *bytes -= chunk.bytes().len();
        }
        if self.chunks.is_empty() {
            self.chunks.shrink_to_fit();
        }
    }

    /// The oldest offset that is in the tail.
    pub(crate) fn first_offset(&self) -> Option<u64> {
        Some(self.chunks.front()?.header().first_offset)
    }

    /// The chunks from the one that contains this offset on; `None` if it is older than all.
    pub(crate) fn from(&self, offset: u64) -> Option<impl Iterator<Item = &SharedChunk>> {
        let is_before = |chunk: &SharedChunk| chunk.header().next_offset() <= offset;
        let at = self.chunks.partition_point(is_before);
        let first = self.chunks.front()?.header().first_offset;
        (first <= offset).then(|| self.chunks.range(at..))
    }

    /// The id of the chunk behind the last one that is older, if that is in the tail. Where a
    /// wrong clock was put right, what lies before may say that it is younger.
    pub(crate) fn of_timestamp(&self, timestamp_ms: i64) -> Option<u64> {
        let is_before = |chunk: &SharedChunk| chunk.header().timestamp_ms < timestamp_ms;
        let last_before = self.chunks.iter().rposition(is_before)?;
        let chunk = self.chunks.get(last_before + 1)?;
        Some(chunk.header().first_offset)
    }
}
