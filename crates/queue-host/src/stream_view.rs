//! The view of a stream: it takes the place of a queue's log. It knows which of the stream's
//! messages are settled, and has those at hand that are not.
//!
//! A position of the queue is an offset of the stream. The view reads the stream as a session of
//! its own, a bounded number of messages ahead of its consumers, and gives them to the queue
//! machine in the order of their offsets. What it keeps over a restart is how far it has read, and
//! what before that is not settled: [`state`]. A queue on one node saves that as a whole; the
//! leader of a replicated one has its entries say what of it changes.
//!
//! Invariant: what is unsettled and below [`Progress::cursor`] is at hand, but for what the
//! stream has lost; the rest will be read. Invariant: what is at hand is unsettled: both are
//! bounded by the same limits. Invariant: no message of a view on one node is handed out whose
//! offset is not below what a saved state has reserved, but for those of one write of the log: what
//! a restart finds below that is flagged as redelivered.

mod beginning;
mod loss;
mod progress;
mod saves;
mod state;
mod tail;
mod window;

use crate::peeked::{Found, meta_of};
use crate::stream_events::StreamNews;
use crate::stream_reader::Reader;
use leveret_client::Flow;
use leveret_queue::{Effect, Meta, Peek, Position, Queue};
use leveret_stream::{
    Command, Event, OffsetSpec, ReaderId, Refusal, RequestId, SharedChunk, StreamStats,
};
use leveret_types::limits::{STREAM_CHUNKS_READ_AHEAD, VIEW_IDLE_MS};
use leveret_types::{Message, Now, QueueId};
use loss::{MissingOffsets, Shortness};
use progress::{Given, Progress};
use saves::Saves;
use std::ops::Range;
use tail::StreamEnd;
use window::Window;

pub(crate) use beginning::KnownView;
pub(crate) use state::{SavedView, SavedViewError};

/// How long after a refusal, or the loss of the stream's node, it is tried again.
const RETRY_MS: u64 = 500;
/// The same where the stream cannot be read.
const RETRY_DAMAGED_MS: u64 = 30_000;
/// How often the stream is asked how far it goes, by a view that has not come to its end.
const ASK_BEHIND_MS: u64 = 1_000;
/// How often the stream is asked by any other view.
const ASK_MS: u64 = 5_000;

/// How far a view has come with its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is to ask where it begins.
    Unplaced,
    /// It has asked where it begins, with a request of this number.
    Placing(u64),
    /// It reads nothing.
    Idle,
    /// It has asked to read.
    Subscribing,
    /// It reads.
    Reading,
    /// Something has failed; until this time on the monotonic clock.
    Waiting(u64),
    /// It cannot be served.
    Broken,
}

/// See the module's description.
pub(crate) struct StreamView {
    queue: QueueId,
    source: QueueId,
    name: Box<str>,
    /// Where it begins, or goes on after a purge, until that is known.
    begins: Option<OffsetSpec>,
    stage: Stage,
    /// Requests and readers so far: what comes for an older one is not heard.
    numbers: u32,
    reader: Option<Reader>,
    /// Not idle before this, on the monotonic clock.
    wanted_until_ms: u64,
    window: Window,
    progress: Progress,
    given: Given,
    missing_offsets: MissingOffsets,
    /// Whether it was said, since the stream is read, that some of it cannot be read here.
    is_unreadable_reported: bool,
    short: Shortness,
    end: StreamEnd,
    saves: Saves,
    /// What it wants said to the stream.
    pub(crate) commands: Vec<Command>,
}

impl StreamView {
    fn number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    /// Requests and readers so far, for the session that follows.
    pub(crate) const fn numbers(&self) -> u32 {
        self.numbers
    }

    /// What is below this the queue has been given; nothing before it is known where the view
    /// begins.
    pub(crate) fn given(&self) -> Option<u64> {
        (self.begins.is_none() || self.given.end > 0).then_some(self.given.end)
    }

    /// The stream, and when the newest chunk came that was read, as in [`KnownView`].
    pub(crate) const fn read(&self) -> (QueueId, i64) {
        (self.source, self.progress.read_ms)
    }

    // --- what the queue asks -------------------------------------------------------------------

    /// Looks at a message.
    pub(crate) fn peek(&self, offset: u64) -> Peek {
        match self.window.get(offset) {
            // What is in a stream stays as long as the stream keeps it.
            Some(message) => Peek::Ready(Meta {
                expiration_ms: None,
                ..meta_of(message)
            }),
            None => Peek::Pending,
        }
    }

    /// Looks a message up.
    pub(crate) fn find(&self, offset: u64) -> Found {
        match self.window.get(offset) {
            Some(message) => Found::Message(message.clone()),
            None if self.given.lost.contains(offset) => Found::Never,
            None if self.given.unsettled.contains(offset) => Found::Pending,
            None => Found::Never,
        }
    }

    /// Whether a message may have been delivered before the node started.
    pub(crate) const fn was_delivered(&self, offset: u64) -> bool {
        offset < self.given.delivered_through
    }

    /// These messages have left the queue.
    pub(crate) fn settled(&mut self, range: Range<u64>) {
        self.window.remove(range.clone());
        self.given.settle(range);
        self.saves.is_dirty = true;
    }

    /// Messages that the stream is known to have and the queue has not been given: they are ready.
    pub(crate) fn backlog(&self) -> u64 {
        let left = self.end.offset.saturating_sub(self.given.end);
        left.saturating_sub(self.missing_offsets.len())
    }

    /// Whether the stream may have a message for whoever asks now, although the queue has none.
    pub(crate) fn may_have_more(&self) -> bool {
        let is_drained = self.reader.as_ref().is_some_and(Reader::is_drained);
        let is_at_end = self.end.is_known && is_drained && self.backlog() == 0;
        match self.stage {
            Stage::Broken => false,
            Stage::Reading => !is_at_end,
            _ => true,
        }
    }

    /// Everything that is there now is given up; says how much of it the queue did not have.
    pub(crate) fn purge(&mut self) -> u64 {
        let count = self.backlog();
        self.stop_reading();
        self.given.end = self.given.end.max(self.end.offset);
        self.missing_offsets = MissingOffsets::default();
        self.progress.read_ms = 0;
        if self.stage != Stage::Broken {
            self.begins = Some(OffsetSpec::Next);
            self.stage = Stage::Unplaced;
        }
        self.saves.is_dirty = true;
        count
    }

    // --- reading -------------------------------------------------------------------------------

    /// Does what is due. `is_wanted` says that somebody waits for messages, `held` how many of them
    /// the queue has handed out.
    pub(crate) fn step(&mut self, now: Now, is_wanted: bool, held: u64) {
        let at = now.monotonic_ms;
        if is_wanted {
            self.wanted_until_ms = at + VIEW_IDLE_MS;
        }
        if let Stage::Waiting(until) = self.stage
            && until <= at
        {
            self.stage = match self.begins {
                Some(_) => Stage::Unplaced,
                None => Stage::Idle,
            };
        }
        let is_idle = self.wanted_until_ms <= at;
        match self.stage {
            Stage::Unplaced => self.place(),
            Stage::Idle if !is_idle => self.subscribe(at),
            Stage::Subscribing | Stage::Reading if is_idle && held > 0 => {
                self.wanted_until_ms = at + VIEW_IDLE_MS;
            }
            Stage::Subscribing | Stage::Reading if is_idle => {
                self.stop_reading();
                self.window = Window::default();
                self.progress.cursor = 0;
                self.stage = Stage::Idle;
            }
            _ => {}
        }
        if self.asks() && self.end.ask_at_ms <= at {
            self.ask(at);
        }
    }

    const fn asks(&self) -> bool {
        matches!(
            self.stage,
            Stage::Idle | Stage::Subscribing | Stage::Reading
        )
    }

    /// When it wants [`Self::step`] next, whatever happens.
    pub(crate) fn deadline_ms(&self, is_saved: bool) -> Option<u64> {
        let idle = match self.stage {
            Stage::Waiting(until) => Some(until),
            Stage::Subscribing | Stage::Reading => Some(self.wanted_until_ms),
            _ => None,
        };
        let ask = self.asks().then_some(self.end.ask_at_ms);
        let save = is_saved.then(|| self.save_due_ms()).flatten();
        [idle, ask, save].into_iter().flatten().min()
    }

    fn place(&mut self) {
        let Some(offset) = self.begins else {
            self.stage = Stage::Idle;
            return;
        };
        let number = u64::from(self.number());
        self.stage = Stage::Placing(number);
        self.commands.push(Command::ResolveOffset {
            request: RequestId(number),
            stream: self.source,
            offset,
        });
    }

    fn ask(&mut self, at: u64) {
        let wait = match self.backlog() > 0 {
            true => ASK_BEHIND_MS,
            false => ASK_MS,
        };
        self.end.ask_at_ms = at + wait;
        let request = RequestId(self.number().into());
        let stream = self.source;
        self.commands.push(Command::Stats { request, stream });
    }

    fn subscribe(&mut self, at: u64) {
        self.end.is_known = false;
        self.is_unreadable_reported = false;
        self.ask(at);
        let begin = self.given.next_from(self.progress.cursor);
        // The chunk that ends with what was read last tells whether the stream still has it.
        let last_read = (self.progress.read_ms != 0).then(|| self.given.end.saturating_sub(1));
        let reread_from = [last_read, self.progress.reread_from.take()]
            .into_iter()
            .flatten();
        let number = self.number();
        let id = ReaderId(number);
        let flow = Flow::Credit(0);
        self.reader = Some(Reader::new(id, self.source, &self.name, begin, flow));
        self.progress.expected = begin;
        self.stage = Stage::Subscribing;
        self.commands.push(Command::Subscribe {
            request: RequestId(number.into()),
            stream: self.source,
            reader: id,
            offset: OffsetSpec::Offset(reread_from.fold(begin, u64::min)),
            credit: STREAM_CHUNKS_READ_AHEAD,
            filter: None,
        });
    }

    fn stop_reading(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.commands.push(Command::Unsubscribe {
                stream: self.source,
                reader: reader.id,
            });
        }
    }

    fn fail(&mut self, now: Now, after_ms: u64) {
        self.stop_reading();
        if self.stage != Stage::Broken {
            self.stage = Stage::Waiting(now.monotonic_ms + after_ms);
        }
    }

    /// Gives the queue what has been read, as far as there is room: `take` takes what it has not
    /// had before. Says whether there was anything.
    pub(crate) fn give(
        &mut self,
        queue: &mut Queue,
        mut take: impl FnMut(&mut Queue, Position, Meta),
    ) -> bool {
        let [_, unsettled, leaving] = queue.depths();
        let held = unsettled + leaving;
        let mut has_given = false;
        while self.window.has_room(held) {
            let Some((offset, message)) = self.next() else {
                break;
            };
            has_given = true;
            self.progress.cursor = offset + 1;
            if offset >= self.given.end {
                self.pass_to(offset, queue);
                self.given.give(offset);
                let position = Position {
                    priority_log: 0,
                    index: offset,
                };
                let meta = Meta {
                    expiration_ms: None,
                    ..meta_of(&message)
                };
                take(queue, position, meta);
            } else {
                queue.resume();
            }
            self.window.insert(offset, message);
        }
        self.after_giving(queue);
        has_given
    }

    fn next(&mut self) -> Option<(u64, Message)> {
        let (cursor, given) = (self.progress.cursor, &self.given);
        let reader = self.reader.as_mut()?;
        reader.give(1);
        reader.next_of(|offset| offset >= cursor && given.is_open(offset))
    }

    fn after_giving(&mut self, queue: &mut Queue) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        let (chunks, id) = (reader.take_finished(), reader.id);
        if reader.is_drained() {
            let read = self.progress.expected;
            self.progress.cursor = self.progress.cursor.max(read);
            self.pass_to(read, queue);
        }
        if chunks > 0 {
            self.commands.push(Command::Credit {
                stream: self.source,
                reader: id,
                chunks,
            });
        }
        self.saves.given(self.given.end);
    }

    // --- what the stream says ------------------------------------------------------------------

    /// Takes in what the stream says.
    pub(crate) fn hear(
        &mut self,
        now: Now,
        news: StreamNews,
        queue: &mut Queue,
        out: &mut Vec<Effect>,
    ) {
        let StreamNews::Event(event) = news else {
            return;
        };
        match event {
            Event::ResolvedOffset { request, result }
                if self.stage == Stage::Placing(request.0) =>
            {
                self.placed(now, result);
            }
            Event::ResolvedOffset {
                request,
                result: Ok(last),
            } if request.0 == self.end.tail_request => self.hear_tail(now, last),
            Event::Stats {
                result: Ok(stats), ..
            } => {
                self.told(now, &stats, queue, out);
                self.ask_for_tail();
            }
            Event::Subscribed { request, result } => {
                let is_own = request.0 == self.reader_number();
                match result {
                    Ok(()) if is_own => {
                        self.stage = Stage::Reading;
                        self.end.ask_at_ms = 0;
                    }
                    Err(_) if is_own => self.fail(now, RETRY_MS),
                    _ => {}
                }
            }
            Event::Chunk {
                reader,
                chunk,
                committed_chunk,
            } if u64::from(reader.0) == self.reader_number() => {
                self.read_chunk(chunk, committed_chunk, queue, out);
            }
            Event::ReaderEnded { reader, refusal }
                if u64::from(reader.0) == self.reader_number() =>
            {
                tracing::error!(
                    view = %self.queue,
                    "the view's stream cannot be read: {refusal}; tried again in {} s",
                    RETRY_DAMAGED_MS / 1_000
                );
                self.fail(now, RETRY_DAMAGED_MS);
            }
            Event::Lost { .. } => self.fail(now, RETRY_MS),
            Event::Gone { .. } => {
                self.reader = None;
                self.stage = Stage::Broken;
            }
            _ => {}
        }
    }

    /// The number of the reader that it has; 0 is none.
    fn reader_number(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.id.0.into())
    }

    fn placed(&mut self, now: Now, result: Result<u64, Refusal>) {
        let Ok(offset) = result else {
            return self.fail(now, RETRY_MS);
        };
        // What is answered is where a reader's first chunk begins.
        self.progress.read_to = offset;
        let offset = match self.begins.take() {
            Some(OffsetSpec::Offset(said)) => offset.max(said),
            _ => offset,
        };
        self.stage = Stage::Idle;
        self.given.end = self.given.end.max(offset);
        self.end.reaches(offset);
        self.end.ask_at_ms = 0;
        self.saves.begin();
    }

    fn told(&mut self, now: Now, stats: &StreamStats, queue: &mut Queue, out: &mut Vec<Effect>) {
        self.end.is_known = true;
        self.report_if_short(now, stats);
        if let Some(last) = stats.committed_offset {
            self.end.reaches(last + 1);
        }
        // What is not there yet was never delivered. A replica that lets its stream be read knows
        // how far that goes.
        if self.stage == Stage::Reading {
            let there = self.end.offset.max(self.given.end);
            self.given.delivered_through = self.given.delivered_through.min(there);
        }
        let Some(first) = stats.first_chunk.filter(|_| self.begins.is_none()) else {
            return;
        };
        if self.reader.is_none() {
            self.progress.expected = self.given.next_from(self.progress.cursor);
        }
        self.pass_deleted(first, queue, out);
    }

    /// Has what came back leave that the stream does not have any more, and what cannot be
    /// dead-lettered for that: the leader of a group takes over what others hold, and may find that
    /// it is not there to be read.
    pub(crate) fn give_up_lost(&self, queue: &mut Queue, out: &mut Vec<Effect>) {
        for range in self.given.lost.iter() {
            let unread = queue.dead_lettered(0, range.clone(), out);
            queue.note_dropped(unread);
            queue.lose(0, range, out);
        }
    }

    fn read_chunk(
        &mut self,
        chunk: SharedChunk,
        committed_chunk: u64,
        queue: &mut Queue,
        out: &mut Vec<Effect>,
    ) {
        if self.is_of_other_messages(&chunk) {
            self.end_for_loss(&chunk);
            return;
        }
        self.pass_gap(chunk.header().first_offset, queue, out);
        self.progress.read(&chunk);
        self.end.reaches(chunk.header().next_offset());
        self.end.reaches(committed_chunk + 1);
        if let Some(reader) = &mut self.reader {
            reader.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests;
