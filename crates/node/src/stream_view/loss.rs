//! What a view does about a stream that has lost messages that the view had read, as a disk that
//! lies about syncs makes it: new messages get the offsets of those that are gone, and the view
//! would take them for settled.

use super::{Stage, StreamView};
use leveret_stream::{SharedChunk, StreamStats};

impl StreamView {
    /// A stream that lost what was read gives the same offsets to other messages.
    pub(super) fn report_if_short(&mut self, stats: &StreamStats) {
        let end = stats.committed_offset.map_or(0, |last| last + 1);
        let is_short = self.stage == Stage::Reading && self.read_ms != 0 && end < self.given;
        if is_short && !self.is_short_told {
            tracing::error!(
                view = %self.queue,
                "the stream '{}' ends with offset {end}, and the view has read to {}: its replica \
                 on this node is behind, or it has lost messages; the view delivers nothing until \
                 it is that far",
                self.name, self.given
            );
        }
        self.is_short_told = is_short;
    }

    /// Whether a chunk has offsets that the view has read, and came later than all that it read.
    pub(super) fn is_of_other_messages(&self, chunk: &SharedChunk) -> bool {
        let header = chunk.header();
        let is_newer = self.read_ms != 0 && header.timestamp_ms > self.read_ms;
        is_newer && header.first_offset < self.given
    }

    /// Delivers nothing more: which of the stream's messages are new the view does not know.
    pub(super) fn end_for_loss(&mut self, chunk: &SharedChunk) {
        tracing::error!(
            view = %self.queue,
            "the stream '{}' has lost messages that the view has read: other ones have their \
             offsets, {} among them. The view delivers nothing more: delete it, and declare it \
             again with the x-stream-offset that it is to go on with",
            self.name,
            chunk.header().first_offset
        );
        self.stop_reading();
        self.stage = Stage::Broken;
    }
}
