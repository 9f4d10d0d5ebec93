//! What a view does about messages that it cannot have: retention was faster, or nobody can read
//! them here. They are counted among the queue's dropped messages.
//!
//! And what it does about a stream that has lost messages that the view had read, as a disk that
//! lies about syncs makes it: new messages get the offsets of those that are gone, and the view
//! would take them for settled.

use super::{SHORT_MS, Stage, StreamView};
use crate::stream_reader::Reader;
use leveret_queue::{Effect, Queue};
use leveret_stream::{SharedChunk, StreamStats};
use leveret_types::Now;
use std::ops::Range;

impl StreamView {
    /// The stream begins with this offset: what was not read before it is gone. What was read is at
    /// hand whatever has become of it in the stream.
    pub(super) fn pass_deleted(&mut self, first: u64, queue: &mut Queue, out: &mut Vec<Effect>) {
        let gaps = self.gaps.take().filter(|(from, _)| *from < first);
        let mut lost = gaps.map_or(0, |(_, count)| count);
        let mut left = 0;
        if first > self.expected {
            lost += self.absent.insert_range(self.unread_before(first));
            left = self.lose(first, queue, out);
            self.end = self.end.max(first);
            if self.reader.as_ref().is_none_or(Reader::is_drained) {
                self.pass_to(first, queue);
            }
            self.is_dirty = true;
        }
        queue.note_dropped(lost);
        self.say_deleted(lost + left);
    }

    /// The chunk that follows on what was read begins with this offset. Between them there may be
    /// what the stream keeps of its own, or retention was faster: that the stream will say.
    pub(super) fn pass_gap(&mut self, first: u64, queue: &mut Queue, out: &mut Vec<Effect>) {
        if first <= self.expected {
            return;
        }
        let gap = self.unread_before(first);
        if !gap.is_empty() {
            let (from, count) = self.gaps.unwrap_or((gap.start, 0));
            self.gaps = Some((from, count + self.absent.insert_range(gap)));
        }
        let left = self.lose(first, queue, out);
        self.say_deleted(left);
    }

    /// What the queue was not given, and is not at hand to be given.
    fn unread_before(&self, first: u64) -> Range<u64> {
        self.given.max(self.expected)..first
    }

    fn say_deleted(&self, count: u64) {
        if count > 0 {
            tracing::warn!(
                view = %self.queue,
                "retention of the stream '{}' has deleted {count} messages that were not settled",
                self.name
            );
        }
    }

    /// What is unsettled, not read yet and before this offset is not in the stream any more.
    fn lose(&mut self, before: u64, queue: &mut Queue, out: &mut Vec<Effect>) -> u64 {
        for range in self.unsettled.within(self.expected..before) {
            self.lost.insert_range(range);
        }
        let lost = queue.lose(0, self.expected..before, out);
        self.expected = before;
        queue.resume();
        lost
    }

    /// The queue has been given all before this offset that there is to be given.
    pub(super) fn pass_to(&mut self, offset: u64, queue: &mut Queue) {
        if offset <= self.given {
            return;
        }
        let absent = self.absent.remove_range(self.given..offset);
        let unreadable = offset - self.given - absent;
        queue.note_dropped(unreadable);
        if unreadable > 0 && !std::mem::replace(&mut self.is_unreadable_told, true) {
            tracing::warn!(
                view = %self.queue,
                "messages of the stream '{}' before offset {offset} are not delivered, and counted \
                 as dropped: they are in batches that only stream clients can read",
                self.name
            );
        }
        self.given = offset;
    }

    /// A stream that lost what was read gives the same offsets to other messages.
    pub(super) fn report_if_short(&mut self, now: Now, stats: &StreamStats) {
        let end = stats.committed_offset.map_or(0, |last| last + 1);
        let is_short = self.stage == Stage::Reading && self.read_ms != 0 && end < self.given;
        if !is_short {
            (self.short_since_ms, self.is_short_told) = (None, false);
            return;
        }
        let since = *self.short_since_ms.get_or_insert(now.monotonic_ms);
        let is_over = since + SHORT_MS <= now.monotonic_ms;
        if is_over && !std::mem::replace(&mut self.is_short_told, true) {
            tracing::error!(
                view = %self.queue,
                "the stream '{}' ends with offset {end}, and the view has read to {}: its replica \
                 on this node is behind, or it has lost messages; the view delivers nothing until \
                 it is that far",
                self.name, self.given
            );
        }
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
