//! Readers of a stream: out of memory, out of its segments, and where they begin.

use super::{Effect, Events, Seek, Stream};
use crate::host::{Command, Event, OffsetSpec, ReaderId, Refusal, RequestId, SessionId};
use crate::reader::{Key, Loaded};
use leveret_types::limits::STREAM_EARLY_READERS_MAX;
use std::collections::BTreeMap;

/// In whose name the stream reads to find where a time begins: no session subscribes in it.
const FINDER: SessionId = SessionId::Nobody;

/// Questions where a time begins, which are answered once that was read from disk: no more than
/// [`STREAM_EARLY_READERS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Finding {
    pending: BTreeMap<ReaderId, (SessionId, RequestId)>,
    /// The last number that was given.
    last: u32,
}

impl Finding {
    /// A read in the name of this is for a question; `None` if there are enough.
    fn begin(&mut self, session: SessionId, request: RequestId) -> Option<Key> {
        if self.pending.len() >= STREAM_EARLY_READERS_MAX {
            return None;
        }
        self.last = self.last.wrapping_add(1);
        let reader = ReaderId(self.last);
        self.pending.insert(reader, (session, request));
        let session = FINDER;
        Some(Key { session, reader })
    }

    /// A session has ended.
    pub(super) fn leave(&mut self, session: SessionId) {
        self.pending.retain(|_, (of, _)| *of != session);
    }

    /// The stream goes: what those hear who have asked.
    pub(super) fn end(&mut self, out: &mut Events) {
        self.refuse(&Refusal::NotFound, out);
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal, out: &mut Events) {
        for (session, request) in std::mem::take(&mut self.pending).into_values() {
            let result = Err(refusal.clone());
            out.push((session, Event::ResolvedOffset { request, result }));
        }
    }
}

impl Stream {
    /// Whether what a [`Effect::Read`] asked for is still waited for.
    #[must_use]
    pub fn awaits(&self, key: Key) -> bool {
        match key.session {
            FINDER => self.finding.pending.contains_key(&key.reader),
            _ => self.readers.is_loading(key),
        }
    }

    /// Chunks that a [`Effect::Read`] asked for, or why they cannot be had.
    pub fn loaded(&mut self, key: Key, loaded: Result<Loaded, Refusal>, out: &mut Events) {
        if key.session == FINDER {
            return self.found(key.reader, loaded, out);
        }
        match loaded {
            Ok(loaded) => {
                let committed = self.turns.committed.user_chunk();
                self.readers.loaded(key, &loaded, committed, out);
                // One that was deleted meanwhile says nothing of where the reader goes on.
                let is_retained = self.segments.first_offset() <= Some(loaded.segment);
                if loaded.chunks.is_empty() && is_retained {
                    let next = self.segments.after(loaded.segment);
                    let visible = self.turns.committed.next_offset;
                    if let Err(refusal) = self.readers.skip_segment(key, next, visible) {
                        self.found_damage(loaded.segment);
                        return self.end_reader(key, refusal, out);
                    }
                }
                self.serve(key, out);
            }
            Err(refusal) if self.readers.is_loading(key) => self.end_reader(key, refusal, out),
            Err(_) => {}
        }
    }

    /// Begins to read, or says where that would be. Other commands are none of a reader's, and are
    /// ignored.
    pub(super) fn read(&mut self, session: SessionId, command: Command, out: &mut Events) {
        match command {
            Command::Subscribe {
                request,
                reader,
                offset,
                credit,
                filter,
                ..
            } => {
                let key = Key { session, reader };
                let start = self.start_of(offset);
                let result = self.readers.add(key, start, credit, filter);
                out.push((session, Event::Subscribed { request, result }));
                self.serve(key, out);
            }
            Command::ResolveOffset {
                request, offset, ..
            } => self.resolve(session, request, offset, out),
            _ => {}
        }
    }

    /// Whether readers have chunks that were read ahead of their credit.
    #[must_use]
    pub fn holds_ahead(&self) -> bool {
        self.readers.hold_ahead()
    }

    /// Lets go of what was read ahead, and reads it again when its readers have credit.
    pub fn release_ahead(&mut self) {
        self.readers.drop_ahead();
    }

    pub(super) fn end_reader(&mut self, key: Key, refusal: Refusal, out: &mut Events) {
        self.readers.remove(key);
        self.trim_tail();
        let reader = key.reader;
        out.push((key.session, Event::ReaderEnded { reader, refusal }));
    }

    /// Sends a reader what it has credit for, out of memory as far as that goes.
    pub(super) fn serve(&mut self, key: Key, out: &mut Events) {
        let visible = self.turns.committed.next_offset;
        let committed = self.turns.committed.user_chunk();
        let first = self.segments.first_offset().unwrap_or(0);
        let read = self
            .readers
            .serve(key, &self.tail, first..visible, committed, out);
        let Some((seek, chunks_max)) = read else {
            return;
        };
        let segment = match seek {
            (segment, Seek::Position(_)) => segment,
            (_, Seek::Offset(offset)) => self.segments.of_offset(offset),
            (_, Seek::TimestampMs(time)) => self.segments.of_timestamp(time),
        };
        match segment {
            Some(segment) => self.effects.push(Effect::Read {
                reader: key,
                segment,
                seek: seek.1,
                before: visible,
                chunks_max,
            }),
            None => self.readers.stop_loading(key),
        }
    }

    /// Where a reader begins: an offset, or a time that must be looked for.
    pub(super) fn start_of(&self, offset: OffsetSpec) -> Seek {
        let visible = self.turns.committed.next_offset;
        let first = self.segments.first_offset().unwrap_or(0);
        match offset {
            OffsetSpec::First => Seek::Offset(first),
            OffsetSpec::Next => Seek::Offset(visible),
            OffsetSpec::Last => {
                let last = self.turns.committed.last_user;
                Seek::Offset(last.map_or(visible, |chunk| chunk.first))
            }
            OffsetSpec::Offset(offset) => Seek::Offset(offset.max(first)),
            OffsetSpec::TimestampMs(time) if time > self.timestamp_ms => Seek::Offset(visible),
            OffsetSpec::TimestampMs(time) => Seek::TimestampMs(time),
        }
    }

    fn resolve(
        &mut self,
        session: SessionId,
        request: RequestId,
        offset: OffsetSpec,
        out: &mut Events,
    ) {
        let result = match self.start_of(offset) {
            Seek::TimestampMs(time) => match self.tail.of_timestamp(time) {
                Some(offset) => Ok(offset),
                None => match self.segments.of_timestamp(time) {
                    Some(segment) => {
                        return self.find((session, request), time, segment, out);
                    }
                    None => Ok(self.turns.committed.next_offset),
                },
            },
            Seek::Offset(offset) | Seek::Position(offset) => Ok(offset),
        };
        out.push((session, Event::ResolvedOffset { request, result }));
    }

    /// Has it read from disk where in a segment a time begins.
    fn find(
        &mut self,
        (session, request): (SessionId, RequestId),
        time: i64,
        segment: u64,
        out: &mut Events,
    ) {
        let Some(reader) = self.finding.begin(session, request) else {
            let why = "too many ask at once where a time begins: ask again";
            let result = Err(Refusal::NotAvailable(why.to_owned()));
            return out.push((session, Event::ResolvedOffset { request, result }));
        };
        self.effects.push(Effect::Read {
            reader,
            segment,
            seek: Seek::TimestampMs(time),
            before: self.turns.committed.next_offset,
            chunks_max: 1,
        });
    }

    /// What a read for a question has found.
    fn found(&mut self, number: ReaderId, loaded: Result<Loaded, Refusal>, out: &mut Events) {
        let Some((session, request)) = self.finding.pending.remove(&number) else {
            return;
        };
        let result = loaded.map(|loaded| match loaded.chunks.first() {
            Some(chunk) => chunk.header().first_offset,
            // All that the segment has is older.
            None => {
                let visible = self.turns.committed.next_offset;
                let next = self.segments.after(loaded.segment);
                next.map_or(visible, |next| next.min(visible))
            }
        });
        out.push((session, Event::ResolvedOffset { request, result }));
    }
}
