//! What a view does about messages that it cannot have: retention was faster, or nobody can read
//! them here. They are counted among the queue's dropped messages.
//!
//! And what it does about a stream that has lost messages that the view had read, as a disk that
//! lies about syncs makes it: new messages get the offsets of those that are gone, and the view
//! would take them for settled.

use super::{Stage, StreamView};
use crate::stream_reader::Reader;
use leveret_queue::{Effect, Queue};
use leveret_stream::{SharedChunk, StreamStats};
use leveret_types::{Now, RangeSet};
use std::ops::Range;

/// How long a stream may have less than was read before that is said: a replica that has just begun
/// is behind for a moment.
pub(super) const SHORT_MS: u64 = 10_000;

/// Offsets behind what was given that hold no message to be given: what retention has deleted, and
/// what the stream keeps of its own.
#[derive(Default)]
pub(super) struct MissingOffsets {
    offsets: RangeSet,
    /// The first of them since the stream said where it begins, and how many they are: it was not
    /// said which of both they are.
    gaps: Option<(u64, u64)>,
}

impl MissingOffsets {
    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.offsets.len()
    }

    /// Adds these; says how many of them are new.
    pub(super) fn insert(&mut self, range: Range<u64>) -> u64 {
        self.offsets.insert_range(range)
    }

    /// Adds these, of which it was not said why they hold no message.
    fn insert_gap(&mut self, gap: Range<u64>) {
        let (from, count) = self.gaps.unwrap_or((gap.start, 0));
        self.gaps = Some((from, count + self.offsets.insert_range(gap)));
    }

    /// The stream begins with this offset: how many of those are gone of which it was not said.
    fn take_gaps_before(&mut self, first: u64) -> u64 {
        let gaps = self.gaps.take().filter(|(from, _)| *from < first);
        gaps.map_or(0, |(_, count)| count)
    }

    /// Takes these out; says how many of them there were.
    fn remove(&mut self, range: Range<u64>) -> u64 {
        self.offsets.remove_range(range)
    }
}

/// Whether the stream has less than was read of it.
#[derive(Default)]
pub(super) struct Shortness {
    /// Since when that was heard, on the monotonic clock.
    since_ms: Option<u64>,
    /// Whether it was said.
    pub(super) is_reported: bool,
}

impl Shortness {
    /// Takes note of what was heard now; says whether the operator is to be told of it.
    fn note(&mut self, now: Now, is_short: bool) -> bool {
        if !is_short {
            *self = Self::default();
            return false;
        }
        let since = *self.since_ms.get_or_insert(now.monotonic_ms);
        let is_over = since + SHORT_MS <= now.monotonic_ms;
        is_over && !std::mem::replace(&mut self.is_reported, true)
    }
}

impl StreamView {
    /// The stream begins with this offset: what was not read before it is gone. What was read is at
    /// hand whatever has become of it in the stream.
    pub(super) fn pass_deleted(&mut self, first: u64, queue: &mut Queue, out: &mut Vec<Effect>) {
        let mut lost = self.missing_offsets.take_gaps_before(first);
        let mut left = 0;
        if first > self.progress.expected {
            lost += self.missing_offsets.insert(self.unread_before(first));
            left = self.lose(first, queue, out);
            self.end.reaches(first);
            if self.reader.as_ref().is_none_or(Reader::is_drained) {
                self.pass_to(first, queue);
            }
            self.saves.is_dirty = true;
        }
        queue.note_dropped(lost);
        self.say_deleted(lost + left);
    }

    /// The chunk that follows on what was read begins with this offset. Between them there may be
    /// what the stream keeps of its own, or retention was faster: that the stream will say.
    pub(super) fn pass_gap(&mut self, first: u64, queue: &mut Queue, out: &mut Vec<Effect>) {
        if first <= self.progress.expected {
            return;
        }
        let gap = self.unread_before(first);
        if !gap.is_empty() {
            self.missing_offsets.insert_gap(gap);
        }
        let left = self.lose(first, queue, out);
        self.say_deleted(left);
    }

    /// What the queue was not given, and is not at hand to be given.
    fn unread_before(&self, first: u64) -> Range<u64> {
        self.given.end.max(self.progress.expected)..first
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
        let range = self.progress.expected..before;
        self.given.lose(range.clone());
        let lost = queue.lose(0, range, out);
        self.progress.expected = before;
        queue.resume();
        lost
    }

    /// The queue has been given all before this offset that there is to be given.
    pub(super) fn pass_to(&mut self, offset: u64, queue: &mut Queue) {
        let given = self.given.end;
        if offset <= given {
            return;
        }
        let unreadable = offset - given - self.missing_offsets.remove(given..offset);
        queue.note_dropped(unreadable);
        if unreadable > 0 && !std::mem::replace(&mut self.is_unreadable_reported, true) {
            tracing::warn!(
                view = %self.queue,
                "messages of the stream '{}' before offset {offset} are not delivered, and counted \
                 as dropped: they are in batches that only stream clients can read",
                self.name
            );
        }
        self.given.end = offset;
    }

    /// A stream that lost what was read gives the same offsets to other messages.
    pub(super) fn report_if_short(&mut self, now: Now, stats: &StreamStats) {
        let end = stats.committed_offset.map_or(0, |last| last + 1);
        let (given, has_read) = (self.given.end, self.progress.read_ms != 0);
        let is_short = self.stage == Stage::Reading && has_read && end < given;
        if self.short.note(now, is_short) {
            tracing::error!(
                view = %self.queue,
                "the stream '{}' ends with offset {end}, and the view has read to {given}: its \
                 replica on this node is behind, or it has lost messages; the view delivers \
                 nothing until it is that far",
                self.name
            );
        }
    }

    /// Whether a chunk has offsets that the view has read, and came later than all that it read.
    pub(super) fn is_of_other_messages(&self, chunk: &SharedChunk) -> bool {
        let header = chunk.header();
        let read_ms = self.progress.read_ms;
        let is_newer = read_ms != 0 && header.timestamp_ms > read_ms;
        is_newer && header.first_offset < self.given.end
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
