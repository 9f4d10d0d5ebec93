//! What a queue has instead of a log where it is a view of a stream: which of the stream's messages
//! are settled, and those at hand that are not.
//!
//! A position of the queue is an offset of the stream. The view reads the stream as a session of
//! its own, a bounded number of messages ahead of its consumers, and gives them to the queue
//! machine in the order of their offsets. What it keeps over a restart is how far it has read, and
//! what before that is not settled: [`state`]. A queue on one node saves that as a whole; the
//! leader of a replicated one has its entries say what of it changes.
//!
//! Invariant: what is unsettled and below [`StreamView::cursor`] is at hand, but for what the
//! stream has lost; the rest will be read. Invariant: what is at hand is unsettled: both are
//! bounded by the same limits. Invariant: no message of a view on one node is handed out whose
//! offset is not below what a saved state has reserved, but for those of one write of the log: what
//! a restart finds below that is flagged as redelivered.

mod beginning;
mod loss;
mod state;
mod tail;

use crate::fixed_map::FixedMap;
use crate::peeked::{Found, meta_of};
use crate::stream_events::StreamNews;
use crate::stream_reader::Reader;
use leveret_client::Flow;
use leveret_queue::{Effect, Meta, Peek, Position, Queue, State};
use leveret_stream::{
    Command, Event, OffsetSpec, ReaderId, Refusal, RequestId, SharedChunk, StreamStats,
};
use leveret_types::limits::{
    STREAM_CHUNKS_READ_AHEAD, VIEW_IDLE_MS, VIEW_READY_BYTES_MAX, VIEW_READY_MAX,
    VIEW_UNSETTLED_BYTES_MAX, VIEW_UNSETTLED_MAX,
};
use leveret_types::{Message, Now, QueueId, RangeSet};
use std::ops::Range;

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
/// How long a stream may have less than was read before that is said: a replica that has just begun
/// is behind for a moment.
const SHORT_MS: u64 = 10_000;
/// How long what is settled gathers before it is saved.
const SAVE_MS: u64 = 5;
/// With so many bytes to save it gathers for twice as long, with twice as many for three times.
const SAVE_BYTES: u64 = 4_096;
/// Offsets that a saved state reserves beyond what was read.
const RESERVED: u64 = VIEW_READY_MAX as u64;

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
    /// Messages at hand.
    window: FixedMap<u64, Message>,
    window_bytes: usize,
    /// What of the stream the queue has been given and is not settled.
    unsettled: RangeSet,
    /// What of that the stream does not have any more, and is not at hand: somebody held it, or it
    /// was on its way to the dead-letter exchange, when its place in the stream was passed.
    lost: RangeSet,
    /// Whether it was said, since the stream is read, that some of it cannot be read here.
    is_unreadable_told: bool,
    /// What is below this the queue has been given.
    given: u64,
    /// Offsets from there on that hold no message to be given: what retention has deleted, and what
    /// the stream keeps of its own.
    absent: RangeSet,
    /// The first of them since the stream said where it begins, and how many they are: it was not
    /// said which of both they are.
    gaps: Option<(u64, u64)>,
    /// Where the newest chunk that was read ends, or where it was said that one begins: with all
    /// before it given, no chunk is given in part.
    read_to: u64,
    /// The number of the question where the stream's last messages are; 0 is none.
    tail_asked: u64,
    /// Where the stream's last chunk with messages begins, if it is to be read to see its end.
    looks_at: Option<u64>,
    /// What of the unsettled is below this is at hand.
    cursor: u64,
    /// The offset that the next chunk begins with, if nothing is missing.
    expected: u64,
    /// When the newest chunk that was read came, in milliseconds since the Unix epoch; 0 if none
    /// was since it is known where the view stands.
    read_ms: i64,
    /// Since when the stream has been heard to have less than was read, on the monotonic clock.
    short_since_ms: Option<u64>,
    /// Whether that was said.
    is_short_told: bool,
    /// The offset after the last one that the stream is known to have.
    end: u64,
    /// Whether the stream has said that since it is read.
    is_end_known: bool,
    /// Not idle before this, on the monotonic clock.
    wanted_until_ms: u64,
    /// When the stream is asked again how far it goes.
    ask_at_ms: u64,
    /// What is below this may have been delivered before the node started.
    delivered_through: u64,
    /// What the saved state reserves.
    reserved: u64,
    saved_at_ms: u64,
    saved_bytes: u64,
    /// Something has changed since the state was saved.
    is_dirty: bool,
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
        (self.begins.is_none() || self.given > 0).then_some(self.given)
    }

    /// The stream, and when the newest chunk came that was read, as in [`KnownView`].
    pub(crate) const fn read(&self) -> (QueueId, i64) {
        (self.source, self.read_ms)
    }

    // --- what the queue asks -------------------------------------------------------------------

    /// Looks at a message.
    pub(crate) fn peek(&self, offset: u64) -> Peek {
        match self.window.get(&offset) {
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
        match self.window.get(&offset) {
            Some(message) => Found::Message(message.clone()),
            None if self.lost.contains(offset) => Found::Never,
            None if self.unsettled.contains(offset) => Found::Pending,
            None => Found::Never,
        }
    }

    /// Whether a message may have been delivered before the node started.
    pub(crate) const fn was_delivered(&self, offset: u64) -> bool {
        offset < self.delivered_through
    }

    /// These messages have left the queue.
    pub(crate) fn settled(&mut self, range: Range<u64>) {
        for offset in range.clone() {
            if let Some(message) = self.window.remove(&offset) {
                self.window_bytes -= message.weight();
            }
        }
        self.lost.remove_range(range.clone());
        self.unsettled.remove_range(range);
        self.is_dirty = true;
    }

    /// Messages that the stream is known to have and the queue has not been given: they are ready.
    pub(crate) fn backlog(&self) -> u64 {
        let left = self.end.saturating_sub(self.given);
        left.saturating_sub(self.absent.len())
    }

    /// Whether the stream may have a message for whoever asks now, although the queue has none.
    pub(crate) fn may_have_more(&self) -> bool {
        let is_drained = self.reader.as_ref().is_some_and(Reader::is_drained);
        let is_at_end = self.is_end_known && is_drained && self.backlog() == 0;
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
        self.given = self.given.max(self.end);
        self.absent = RangeSet::new();
        self.gaps = None;
        self.read_ms = 0;
        if self.stage != Stage::Broken {
            self.begins = Some(OffsetSpec::Next);
            self.stage = Stage::Unplaced;
        }
        self.is_dirty = true;
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
                self.window = FixedMap::default();
                self.window_bytes = 0;
                self.cursor = 0;
                self.stage = Stage::Idle;
            }
            _ => {}
        }
        if self.asks() && self.ask_at_ms <= at {
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
        let ask = self.asks().then_some(self.ask_at_ms);
        let save = (is_saved && self.is_dirty && self.may_save()).then(|| self.saves_at_ms());
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
        self.ask_at_ms = at + wait;
        let request = RequestId(self.number().into());
        let stream = self.source;
        self.commands.push(Command::Stats { request, stream });
    }

    fn subscribe(&mut self, at: u64) {
        self.is_end_known = false;
        self.is_unreadable_told = false;
        self.ask(at);
        let begin = self.unsettled.next_from(self.cursor).unwrap_or(self.given);
        // The chunk that ends with what was read last tells whether the stream still has it.
        let last_read = (self.read_ms != 0).then(|| self.given.saturating_sub(1));
        let looks_at = [last_read, self.looks_at.take()].into_iter().flatten();
        let number = self.number();
        let id = ReaderId(number);
        let flow = Flow::Credit(0);
        self.reader = Some(Reader::new(id, self.source, &self.name, begin, flow));
        self.expected = begin;
        self.stage = Stage::Subscribing;
        self.commands.push(Command::Subscribe {
            request: RequestId(number.into()),
            stream: self.source,
            reader: id,
            offset: OffsetSpec::Offset(looks_at.fold(begin, u64::min)),
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

    /// Whether one more message may be at hand.
    fn has_room(&self, held: u64) -> bool {
        let count = self.window.len();
        let ready = count.saturating_sub(usize::try_from(held).unwrap_or(usize::MAX));
        // Of their sizes the sum of all is known.
        let ready_bytes = self.window_bytes / count.max(1) * ready;
        let is_ahead = ready >= VIEW_READY_MAX || ready_bytes >= VIEW_READY_BYTES_MAX;
        let is_full = count >= VIEW_UNSETTLED_MAX || self.window_bytes >= VIEW_UNSETTLED_BYTES_MAX;
        !is_ahead && !is_full
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
        while self.has_room(held) {
            let Some((offset, message)) = self.next() else {
                break;
            };
            has_given = true;
            self.cursor = offset + 1;
            if offset >= self.given {
                self.pass_to(offset, queue);
                self.given = offset + 1;
                self.unsettled.insert(offset);
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
            self.window_bytes += message.weight();
            self.window.insert(offset, message);
        }
        self.after_giving(queue);
        has_given
    }

    fn next(&mut self) -> Option<(u64, Message)> {
        let (cursor, given, unsettled) = (self.cursor, self.given, &self.unsettled);
        let reader = self.reader.as_mut()?;
        reader.give(1);
        let is_wanted =
            |offset: u64| offset >= cursor && (offset >= given || unsettled.contains(offset));
        reader.next_of(is_wanted)
    }

    fn after_giving(&mut self, queue: &mut Queue) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        let (chunks, id) = (reader.take_finished(), reader.id);
        if reader.is_drained() {
            self.cursor = self.cursor.max(self.expected);
            self.pass_to(self.expected, queue);
        }
        if chunks > 0 {
            self.commands.push(Command::Credit {
                stream: self.source,
                reader: id,
                chunks,
            });
        }
        if self.given + RESERVED / 2 > self.reserved {
            self.is_dirty = true;
        }
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
            } if request.0 == self.tail_asked => self.hear_tail(now, last),
            Event::Stats {
                result: Ok(stats), ..
            } => {
                self.told(now, &stats, queue, out);
                self.ask_for_tail();
            }
            Event::Subscribed { request, result } => {
                let is_asked = request.0 == self.reader_number();
                match result {
                    Ok(()) if is_asked => {
                        self.stage = Stage::Reading;
                        self.ask_at_ms = 0;
                    }
                    Err(_) if is_asked => self.fail(now, RETRY_MS),
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
                tracing::error!(view = %self.queue, "its stream cannot be read further: {refusal}");
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
        self.read_to = offset;
        let offset = match self.begins.take() {
            Some(OffsetSpec::Offset(said)) => offset.max(said),
            _ => offset,
        };
        self.stage = Stage::Idle;
        self.given = self.given.max(offset);
        self.end = self.end.max(offset);
        self.ask_at_ms = 0;
        self.is_dirty = true;
        self.saved_at_ms = 0;
    }

    fn told(&mut self, now: Now, stats: &StreamStats, queue: &mut Queue, out: &mut Vec<Effect>) {
        self.is_end_known = true;
        self.report_if_short(now, stats);
        if let Some(last) = stats.committed_offset {
            self.end = self.end.max(last + 1);
        }
        // What is not there yet was never delivered. A replica that lets its stream be read knows
        // how far that goes.
        if self.stage == Stage::Reading {
            self.delivered_through = self.delivered_through.min(self.end.max(self.given));
        }
        let Some(first) = stats.first_chunk.filter(|_| self.begins.is_none()) else {
            return;
        };
        if self.reader.is_none() {
            self.expected = self.unsettled.next_from(self.cursor).unwrap_or(self.given);
        }
        self.pass_deleted(first, queue, out);
    }

    /// Has what came back leave that the stream does not have any more, and what cannot be
    /// dead-lettered for that: the leader of a group takes over what others hold, and may find that
    /// it is not there to be read.
    pub(crate) fn give_up_lost(&self, queue: &mut Queue, out: &mut Vec<Effect>) {
        for range in self.lost.iter() {
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
        let (first, next) = (chunk.header().first_offset, chunk.header().next_offset());
        if self.is_of_other_messages(&chunk) {
            self.end_for_loss(&chunk);
            return;
        }
        self.read_ms = self.read_ms.max(chunk.header().timestamp_ms);
        self.pass_gap(first, queue, out);
        self.expected = self.expected.max(next);
        self.read_to = next;
        self.end = self.end.max(next).max(committed_chunk + 1);
        if let Some(reader) = &mut self.reader {
            reader.push(chunk);
        }
    }

    // --- what is saved -------------------------------------------------------------------------

    fn saves_at_ms(&self) -> u64 {
        self.saved_at_ms + SAVE_MS * (1 + self.saved_bytes / SAVE_BYTES)
    }

    /// Whether its state is to be saved now.
    pub(crate) fn is_save_due(&self, now: Now) -> bool {
        self.is_dirty && self.may_save() && self.saves_at_ms() <= now.monotonic_ms
    }

    /// Whether there is a state to be saved: not before it is known where the view begins.
    fn may_save(&self) -> bool {
        self.given().is_some() && self.stage != Stage::Broken
    }

    /// Whether something has changed that is not saved.
    pub(crate) const fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    fn saved(&self, queue: State) -> SavedView {
        SavedView {
            source: self.source,
            given: self.given,
            reserved: self.reserved,
            read_ms: self.read_ms,
            unsettled: self.unsettled.clone(),
            queue,
        }
    }

    /// What the group of a view that was on this node alone begins with; none where the view cannot
    /// be served, or has not begun.
    pub(crate) fn hand_over(&mut self, queue: &Queue) -> Option<SavedView> {
        self.reserved = queue.delivered_through(0).max(self.delivered_through);
        self.may_save().then(|| self.saved(queue.state()))
    }

    /// The state to be saved; none where a restart must begin as this start did. A `clean` one is
    /// the last one before the node ends.
    pub(crate) fn save(&mut self, now: Now, queue: &Queue, clean: bool) -> Option<Vec<u8>> {
        if !self.may_save() {
            return None;
        }
        self.reserved = match clean {
            true => queue.delivered_through(0).max(self.delivered_through),
            false => (self.given + RESERVED).max(self.delivered_through),
        };
        let mut bytes = Vec::new();
        let saved = self.saved(match clean {
            true => queue.state(),
            false => queue.state().stale(),
        });
        saved.encode(&mut bytes);
        self.saved_bytes = bytes.len() as u64;
        self.saved_at_ms = now.monotonic_ms;
        self.is_dirty = false;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
