//! Readers: where each is, and how many chunks it may be sent.

use crate::bloom::Filter;
use crate::chunk::{ChunkKind, SharedChunk};
use crate::host::{Event, ReaderId, Refusal, SessionId};
use crate::machine::{Events, Seek};
use crate::tail::Tail;
use crate::values::{Part, Runs, Wanted};
use leveret_types::limits::{
    SHORT_STRING_BYTES_MAX, STREAM_AHEAD_CHUNKS_MAX, STREAM_CREDIT_MAX,
    STREAM_FILTER_VALUES_BYTES_MAX, STREAM_FILTER_VALUES_MAX, STREAM_RUNS_HELD_MAX,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// One reader of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Whose.
    pub session: SessionId,
    /// Which.
    pub reader: ReaderId,
}

/// Chunks that were read from disk, without a gap.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The segment that was read.
    pub segment: u64,
    /// The chunks, none where the segment has no more.
    pub chunks: Vec<SharedChunk>,
    /// Where in the segment the next read goes on.
    pub position: u64,
}

/// Where a reader that is read for from disk goes on without looking for its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    next_offset: u64,
    segment: u64,
    position: u64,
}

#[derive(Debug)]
struct Reader {
    /// Where it is: what it is owed next begins with this, or comes after it.
    next: Seek,
    credit: u32,
    wanted: Option<Wanted>,
    /// What is to be sent of the last chunk before `next`, once there is credit.
    runs: Option<Runs>,
    /// What was read beyond its credit: the chunks from `next` on. A client that gives back its
    /// credit chunk by chunk would have each of them read alone, at several times the cost.
    ahead: VecDeque<SharedChunk>,
    cursor: Option<Cursor>,
    is_loading: bool,
}

impl Reader {
    /// Sends of what was read ahead what there is credit for.
    fn send_ahead(&mut self, key: Key, committed_chunk: u64, out: &mut Events) {
        while self.credit > 0
            && self.runs.is_none()
            && let Some(chunk) = self.ahead.pop_front()
        {
            self.pass(key, &chunk, committed_chunk, out);
        }
        if self.ahead.is_empty() {
            self.ahead = VecDeque::new();
        }
    }

    /// Lets go of what was read ahead: it is read again.
    fn drop_ahead(&mut self) {
        if !self.ahead.is_empty() {
            self.ahead = VecDeque::new();
            self.cursor = None;
        }
    }

    /// A chunk is the next one: it is sent as far as it is asked for and there is credit, and
    /// passed over else.
    fn pass(&mut self, key: Key, chunk: &SharedChunk, committed_chunk: u64, out: &mut Events) {
        let from = match self.next {
            Seek::Offset(offset) => offset,
            Seek::TimestampMs(_) | Seek::Position(_) => 0,
        };
        self.next = Seek::Offset(chunk.header().next_offset());
        if chunk.header().kind != ChunkKind::User {
            return;
        }
        let wanted = self.wanted.as_ref();
        match wanted.map_or(Part::Whole, |wanted| wanted.part_of(chunk, from)) {
            Part::Nothing => {}
            Part::Whole => self.send(key, chunk.clone(), committed_chunk, out),
            Part::Runs(runs) => {
                self.runs = Some(runs);
                self.send_runs(key, committed_chunk, out);
            }
        }
    }

    fn send(&mut self, key: Key, chunk: SharedChunk, committed_chunk: u64, out: &mut Events) {
        self.credit -= 1;
        let event = Event::Chunk {
            reader: key.reader,
            chunk,
            committed_chunk,
        };
        out.push((key.session, event));
    }

    /// Sends of the chunk that is kept what there is credit for.
    fn send_runs(&mut self, key: Key, committed_chunk: u64, out: &mut Events) {
        let Some(mut runs) = self.runs.take() else {
            return;
        };
        while self.credit > 0
            && let Some(run) = self.wanted.as_ref().and_then(|wanted| runs.next(wanted))
        {
            self.send(key, run, committed_chunk, out);
        }
        self.runs = (!runs.is_done()).then_some(runs);
    }

    /// Lets go of the chunk that is kept: what is to be sent of it is looked for again.
    fn drop_runs(&mut self) {
        if let Some(runs) = self.runs.take() {
            self.next = Seek::Offset(runs.offset());
            self.ahead = VecDeque::new();
            self.cursor = None;
        }
    }
}

/// All readers of one stream.
#[derive(Debug, Default)]
pub(crate) struct Readers(BTreeMap<Key, Reader>);

impl Readers {
    pub(crate) fn add(
        &mut self,
        key: Key,
        start: Seek,
        credit: u32,
        filter: Option<Box<Filter>>,
    ) -> Result<(), Refusal> {
        if self.0.contains_key(&key) {
            return Err(Refusal::Id);
        }
        if filter
            .as_ref()
            .is_some_and(|filter| !filter.is_within_bounds())
        {
            return Err(Refusal::Precondition(format!(
                "a reader has at most {STREAM_FILTER_VALUES_MAX} filter values of \
                 {SHORT_STRING_BYTES_MAX} bytes each, {STREAM_FILTER_VALUES_BYTES_MAX} in all: \
                 ask for fewer"
            )));
        }
        let reader = Reader {
            next: start,
            credit: credit.min(STREAM_CREDIT_MAX),
            wanted: filter.map(Wanted::new),
            runs: None,
            ahead: VecDeque::new(),
            cursor: None,
            is_loading: false,
        };
        self.0.insert(key, reader);
        Ok(())
    }

    pub(crate) fn add_credit(&mut self, key: Key, chunks: u32) {
        if let Some(reader) = self.0.get_mut(&key) {
            reader.credit = reader.credit.saturating_add(chunks).min(STREAM_CREDIT_MAX);
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.0.remove(&key);
    }

    pub(crate) fn leave(&mut self, session: SessionId) {
        self.0.retain(|key, _| key.session != session);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the slowest of the readers is that are at this offset or behind it.
    pub(crate) fn slowest_from(&self, first: u64) -> Option<u64> {
        let offsets = self.0.values().filter_map(|reader| match reader.next {
            Seek::Offset(offset) => Some(offset),
            Seek::TimestampMs(_) | Seek::Position(_) => None,
        });
        offsets.filter(|offset| *offset >= first).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.0.keys().map(|key| key.session)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.0.keys().copied().collect()
    }

    /// Readers that could be sent something.
    pub(crate) fn waiting(&self) -> Vec<Key> {
        let waits = |reader: &Reader| reader.credit > 0 && !reader.is_loading;
        let waiting = self.0.iter().filter(|(_, reader)| waits(reader));
        waiting.map(|(key, _)| *key).collect()
    }

    pub(crate) fn is_loading(&self, key: Key) -> bool {
        self.0.get(&key).is_some_and(|reader| reader.is_loading)
    }

    pub(crate) fn stop_loading(&mut self, key: Key) {
        if let Some(reader) = self.0.get_mut(&key) {
            reader.is_loading = false;
        }
    }

    /// Sends what is in the tail. What must be read from disk for the reader: the place, with its
    /// segment if that is known, and how many chunks at most.
    pub(crate) fn serve(
        &mut self,
        key: Key,
        tail: &Tail,
        visible: Range<u64>,
        committed_chunk: u64,
        out: &mut Events,
    ) -> Option<((Option<u64>, Seek), u32)> {
        let seek = self.serve_from_tail(key, tail, visible, committed_chunk, out);
        self.bound_runs(key);
        seek
    }

    /// Keeps a part of a chunk for so many readers alone, this one the last.
    fn bound_runs(&mut self, key: Key) {
        let keeps = self.0.get(&key).is_some_and(|reader| reader.runs.is_some());
        let holding = || self.0.values().filter(|reader| reader.runs.is_some());
        if keeps
            && holding().count() > STREAM_RUNS_HELD_MAX
            && let Some(reader) = self.0.get_mut(&key)
        {
            reader.drop_runs();
        }
    }

    fn serve_from_tail(
        &mut self,
        key: Key,
        tail: &Tail,
        visible: Range<u64>,
        committed_chunk: u64,
        out: &mut Events,
    ) -> Option<((Option<u64>, Seek), u32)> {
        let reader = self.0.get_mut(&key).filter(|reader| !reader.is_loading)?;
        reader.send_runs(key, committed_chunk, out);
        reader.send_ahead(key, committed_chunk, out);
        if reader.runs.is_some() || !reader.ahead.is_empty() {
            return None;
        }
        let is_seen = |chunk: &&SharedChunk| chunk.header().next_offset() <= visible.end;
        let in_tail = match reader.next {
            Seek::TimestampMs(time) => tail.of_timestamp(time),
            // What was deleted in the meantime is passed over.
            Seek::Offset(offset) | Seek::Position(offset) => Some(offset.max(visible.start)),
        };
        if let Some(offset) = in_tail {
            reader.next = Seek::Offset(offset);
            if let Some(chunks) = tail.from(offset) {
                for chunk in chunks.take_while(is_seen) {
                    if reader.credit == 0 {
                        break;
                    }
                    reader.pass(key, chunk, committed_chunk, out);
                }
                return None;
            }
            if offset >= visible.end {
                return None;
            }
        }
        if reader.credit == 0 {
            return None;
        }
        reader.is_loading = true;
        let cursor = reader.cursor.take();
        let seek = match (reader.next, cursor) {
            // The segment that ended there may have been deleted.
            (Seek::Offset(offset), Some(cursor))
                if cursor.next_offset == offset && cursor.segment >= visible.start =>
            {
                (Some(cursor.segment), Seek::Position(cursor.position))
            }
            (next, _) => (None, next),
        };
        let ahead = match key.reader.hands_back() {
            true => STREAM_AHEAD_CHUNKS_MAX,
            false => 0,
        };
        Some((seek, reader.credit.max(ahead)))
    }

    /// Chunks have been read.
    pub(crate) fn loaded(
        &mut self,
        key: Key,
        loaded: &Loaded,
        committed_chunk: u64,
        out: &mut Events,
    ) {
        let Some(reader) = self.0.get_mut(&key).filter(|reader| reader.is_loading) else {
            return;
        };
        reader.is_loading = false;
        let mut chunks = loaded.chunks.iter();
        while let Some(chunk) = chunks.as_slice().first() {
            if reader.credit == 0 || reader.runs.is_some() {
                break;
            }
            reader.pass(key, chunk, committed_chunk, out);
            chunks.next();
        }
        if !key.reader.hands_back() && !chunks.as_slice().is_empty() {
            // The reader goes on with this chunk, which is looked for again.
            return;
        }
        reader.ahead.extend(chunks.cloned());
        if let Some(last) = loaded.chunks.last() {
            reader.cursor = Some(Cursor {
                next_offset: last.header().next_offset(),
                segment: loaded.segment,
                position: loaded.position,
            });
        }
    }

    /// Whether anything is kept that was read ahead.
    pub(crate) fn hold_ahead(&self) -> bool {
        self.0.values().any(|reader| !reader.ahead.is_empty())
    }

    /// Lets go of all that was read ahead.
    pub(crate) fn drop_ahead(&mut self) {
        self.0.values_mut().for_each(Reader::drop_ahead);
    }

    /// There is nothing more for a reader in the segment that was read.
    ///
    /// # Errors
    /// If what it is owed should have been there.
    pub(crate) fn skip_segment(
        &mut self,
        key: Key,
        next: Option<u64>,
        visible: u64,
    ) -> Result<(), Refusal> {
        let Some(reader) = self.0.get_mut(&key) else {
            return Ok(());
        };
        reader.cursor = None;
        reader.next = match (reader.next, next) {
            // The segment ended with what the reader has had.
            (Seek::Offset(offset), Some(next)) if offset >= next => Seek::Offset(offset),
            (Seek::Offset(offset) | Seek::Position(offset), next) => {
                let next = next.unwrap_or(visible);
                return Err(Refusal::Damaged(format!(
                    "offsets {offset} to {next} are in no segment"
                )));
            }
            // All of the segment was made before the time that is looked for.
            (_, next) => Seek::Offset(next.unwrap_or(visible)),
        };
        Ok(())
    }
}
