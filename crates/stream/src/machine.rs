//! One stream: publishes become chunks, chunks become visible to readers and confirmed to
//! publishers once whoever embeds the stream says that they are committed.
//!
//! A turn goes like this: [`Stream::handle`] takes the commands that have come; [`Stream::seal`]
//! ends the turn's last chunk; the embedder carries the effects out in order (segments begun,
//! chunks appended, segments deleted), makes them as durable as the stream's flush level asks for,
//! and then calls [`Stream::commit`]. Events go to sessions at once; those that promise something
//! come out of `commit` only.

use self::early::Early;
use self::reading::Finding;
use self::replicated::Replica;
use crate::active::ActiveGroups;
use crate::batch::{Batch, Published};
use crate::bloom::BloomBuilder;
use crate::chunk::{ChunkHeader, ChunkKind, SharedChunk};
use crate::chunk_data::ChunkData;
use crate::host::{Command, Event, PublisherId, Reference, Refusal, SessionId, StreamStats};
use crate::rates::Rates;
use crate::reader::{Key, Readers};
use crate::replica::{Epoch, ReplicaEvent, ReplicaMessage, ReplicaState};
use crate::segments::{Segment, Segments, stored_bytes};
use crate::settings::StreamSettings;
use crate::tail::Tail;
use crate::tracking::{Tracking, TrackingError};
use crate::values::ValuesBuilder;
use leveret_types::limits::{
    STREAM_CHUNK_BYTES, STREAM_CHUNK_ENTRIES_MAX, STREAM_SEGMENT_CHUNKS_MAX, STREAM_SNAPSHOT_BYTES,
    STREAM_TRACKING_GATHER_MS,
};
use leveret_types::{NodeId, Now, QueueId};
use std::collections::{BTreeMap, VecDeque};

mod copying;
mod early;
mod groups;
mod reading;
mod replicated;
mod retention;
mod serving;

pub use groups::GroupOffset;
pub use retention::RetentionAlarm;

/// What the embedder does for a stream, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A segment begins with this offset; the one before it is written no more.
    BeginSegment {
        /// Its first offset.
        first_offset: u64,
    },
    /// A chunk is appended to the last segment.
    Append {
        /// The chunk.
        chunk: SharedChunk,
        /// Whether nothing before this chunk is needed to know all offsets and sequences.
        is_replay_start: bool,
    },
    /// A segment is deleted with its file.
    DeleteSegment {
        /// Its first offset.
        first_offset: u64,
    },
    /// Chunks are read for a reader; the answer is [`Stream::loaded`].
    Read {
        /// For whom.
        reader: Key,
        /// Which segment.
        segment: u64,
        /// Where in it.
        seek: Seek,
        /// Nothing from this offset on.
        before: u64,
        /// Chunks at most.
        chunks_max: u32,
    },
    /// What the replica keeps beside its chunks is replaced, durably; then [`Stream::saved`].
    Save(Box<ReplicaState>),
    /// All that was appended is made durable; then [`Stream::synced`].
    Sync {
        /// The offset behind it.
        next_offset: u64,
    },
    /// All from this offset on is cut; then [`Stream::was_cut`] with what is left.
    Cut {
        /// The offset; 0 for all.
        next_offset: u64,
    },
    /// A message for another node.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        message: ReplicaMessage,
    },
    /// [`Stream::answer_prepare`] is called: all before this is done.
    AnswerPrepare {
        /// Who has asked.
        to: NodeId,
        /// For which epoch.
        epoch: Epoch,
    },
    /// A follower is to be served, by [`Stream::serve_follower`], once there is room for messages
    /// to its node.
    Serve {
        /// The follower's node.
        to: NodeId,
    },
    /// Chunks are read for a follower; the answer is [`Stream::loaded_for`].
    ReadFor {
        /// The follower's node.
        to: NodeId,
        /// Which segment.
        segment: u64,
        /// Where in it.
        seek: Seek,
        /// Nothing from this offset on.
        before: u64,
    },
    /// Something that the embedder should know.
    Report(ReplicaEvent),
}

/// Where in a segment a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// With the chunk that contains this offset.
    Offset(u64),
    /// With the first chunk of this time or later.
    TimestampMs(i64),
    /// Where an earlier read ended.
    Position(u64),
}

/// What is known of a stream that was found on disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Its segments, oldest first.
    pub segments: Vec<Segment>,
    /// The newest chunks, from the last one of which nothing before it is needed to know all
    /// offsets and sequences.
    pub newest: Vec<SharedChunk>,
}

/// What a publisher's session is owed.
#[derive(Debug)]
struct Owed {
    turn: u64,
    session: SessionId,
    publisher: PublisherId,
    ids: Vec<u64>,
}

/// What becomes visible with a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    number: u64,
    next_offset: u64,
    last_user: Option<Span>,
    last_chunk: Option<u64>,
}

/// The first and the last offset of a chunk.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    fn of(header: &ChunkHeader) -> Self {
        Self {
            first: header.first_offset,
            last: header.next_offset().saturating_sub(1),
        }
    }
}

/// The chunk that is being filled.
#[derive(Debug)]
struct Filling {
    data: ChunkData,
    entries: u16,
    records: u32,
    bloom: BloomBuilder,
    values: ValuesBuilder,
}

/// Events, each for one session.
pub type Events = Vec<(SessionId, Event)>;

/// One stream.
#[derive(Debug)]
pub struct Stream {
    id: QueueId,
    settings: StreamSettings,
    epoch: u64,
    next_offset: u64,
    timestamp_ms: i64,
    tracking: Tracking,
    rates: Rates,
    offsets_refused: u64,
    offsets_crowded: u64,
    /// Bytes that groups hold beyond size and age.
    held_bytes: u64,
    /// Since when changed offsets wait for a chunk.
    tracking_since_ms: Option<u64>,
    bytes_since_snapshot: u64,
    segments: Segments,
    segment_chunks: u32,
    filling: Filling,
    /// The turn that is gathering.
    turn: u64,
    turns: VecDeque<Turn>,
    committed: Turn,
    last_chunk: Option<u64>,
    /// The newest chunk of records.
    last_user: Option<Span>,
    owed: VecDeque<Owed>,
    publishers: BTreeMap<(SessionId, PublisherId), Option<Reference>>,
    readers: Readers,
    /// Consumers of which one at a time is active: with the leader alone.
    active: ActiveGroups,
    early: Early,
    finding: Finding,
    tail: Tail,
    effects: Vec<Effect>,
    /// What it is as a replica; `None` of a stream of one node alone.
    replica: Option<Box<Replica>>,
}

impl Stream {
    /// A stream as it was found, or an empty one.
    ///
    /// # Errors
    /// If a chunk's tracking data are malformed.
    pub fn new(
        id: QueueId,
        settings: StreamSettings,
        recovered: Recovered,
    ) -> Result<Self, TrackingError> {
        let mut tracking = Tracking::default();
        for chunk in &recovered.newest {
            tracking.replay(chunk)?;
        }
        let last = recovered.newest.last().map(SharedChunk::header);
        let is_user = |chunk: &&SharedChunk| chunk.header().kind == ChunkKind::User;
        let last_user = recovered.newest.iter().rev().find(is_user);
        let last_chunk = last.map(|header| header.first_offset);
        let last_user = last_user.map(|chunk| Span::of(chunk.header()));
        let segments = Segments::new(recovered.segments);
        let empty_from = segments.last().map_or(0, |segment| segment.first_offset);
        let next_offset = last.map_or(empty_from, ChunkHeader::next_offset);
        Ok(Self {
            id,
            epoch: 1,
            next_offset,
            timestamp_ms: last.map_or(0, |header| header.timestamp_ms),
            tracking,
            rates: Rates::default(),
            offsets_refused: 0,
            offsets_crowded: 0,
            held_bytes: 0,
            tracking_since_ms: None,
            bytes_since_snapshot: 0,
            segments,
            segment_chunks: 0,
            filling: Filling {
                data: ChunkData::default(),
                entries: 0,
                records: 0,
                bloom: BloomBuilder::new(settings.filter_bytes),
                values: ValuesBuilder::default(),
            },
            turn: 1,
            turns: VecDeque::new(),
            committed: Turn {
                number: 0,
                next_offset,
                last_user: last_user.or(last.map(Span::of)),
                last_chunk,
            },
            last_chunk,
            last_user,
            owed: VecDeque::new(),
            publishers: BTreeMap::new(),
            readers: Readers::default(),
            active: ActiveGroups::default(),
            early: Early::default(),
            finding: Finding::default(),
            tail: Tail::default(),
            effects: Vec::new(),
            settings,
            replica: None,
        })
    }

    /// What to do, in order, since this was last asked.
    #[must_use]
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &StreamSettings {
        &self.settings
    }

    /// The settings change, as a policy has it: from the next chunk on.
    pub fn set_settings(&mut self, settings: StreamSettings) {
        self.settings = settings;
    }

    /// Takes a command of a session. Those of the catalogue are not for a stream, and are ignored.
    pub fn handle(&mut self, now: Now, session: SessionId, command: Command, out: &mut Events) {
        if self.refusal_of(&command).is_some() {
            return self.wait_or_refuse(now, session, command, out);
        }
        match command {
            Command::DeclarePublisher {
                request,
                publisher,
                reference,
                ..
            } => {
                let result = self.declare_publisher((session, publisher), reference);
                out.push((session, Event::PublisherDeclared { request, result }));
            }
            Command::DeletePublisher { publisher, .. } => {
                self.publishers.remove(&(session, publisher));
            }
            Command::Publish {
                publisher, batch, ..
            } => self.publish(now, session, publisher, &batch, out),
            Command::QuerySequence {
                request, reference, ..
            } => {
                let result = Ok(self.tracking.sequence(&reference));
                out.push((session, Event::Sequence { request, result }));
            }
            Command::Subscribe { .. } | Command::ResolveOffset { .. } => {
                self.read(session, command, out);
            }
            Command::Credit { reader, chunks, .. } => {
                let key = Key { session, reader };
                self.readers.add_credit(key, chunks);
                self.serve(key, out);
            }
            Command::Unsubscribe { reader, .. } => {
                self.early.drop_if(|of, command| {
                    let is_it = |of_it| of_it == reader && of == session;
                    matches!(command, Command::Subscribe { reader, .. } if is_it(*reader))
                });
                self.readers.remove(Key { session, reader });
                self.trim_tail();
            }
            Command::StoreOffset { .. }
            | Command::JoinGroup { .. }
            | Command::LeaveGroup { .. }
            | Command::SteppedDown { .. } => self.of_group(now, session, command, out),
            Command::QueryOffset {
                request, reference, ..
            } => {
                let result = Ok(self.tracking.offset(&reference));
                out.push((session, Event::StoredOffset { request, result }));
            }
            Command::Stats { request, .. } => {
                let result = Ok(self.stats());
                out.push((session, Event::Stats { request, result }));
            }
            Command::Leave => self.leave(now, session, out),
            Command::Declare { .. } | Command::Delete { .. } | Command::LookUp { .. } => {}
        }
    }

    fn declare_publisher(
        &mut self,
        key: (SessionId, PublisherId),
        reference: Option<Reference>,
    ) -> Result<(), Refusal> {
        if self.publishers.contains_key(&key) {
            return Err(Refusal::Id);
        }
        self.publishers.insert(key, reference);
        Ok(())
    }

    fn leave(&mut self, now: Now, session: SessionId, out: &mut Events) {
        self.leave_groups(now, session, out);
        self.publishers.retain(|(of, _), _| *of != session);
        self.readers.leave(session);
        self.early.drop_if(|of, _| of == session);
        self.finding.leave(session);
        self.trim_tail();
    }

    fn publish(
        &mut self,
        now: Now,
        session: SessionId,
        publisher: PublisherId,
        batch: &Batch,
        out: &mut Events,
    ) {
        let Some(reference) = self.publishers.get(&(session, publisher)).cloned() else {
            let (ids, refusal) = (batch.ids(), Refusal::Id);
            let event = Event::Refused {
                publisher,
                ids,
                refusal,
            };
            return out.push((session, event));
        };
        let before = reference.as_ref().map(|r| self.tracking.sequence(r));
        let mut last = before.flatten();
        let mut ids = Vec::with_capacity(batch.len());
        for published in batch.iter() {
            ids.push(published.id);
            if reference.is_some() && last.is_some_and(|last| published.id <= last) {
                continue;
            }
            if !self.has_room(&published) {
                // The chunk says how far its own entries have brought the sequence.
                self.note_sequence(reference.as_ref(), last, before.flatten());
                self.end_chunk(now);
            }
            last = Some(published.id);
            self.fill(&published);
        }
        self.note_sequence(reference.as_ref(), last, before.flatten());
        self.owe(session, publisher, ids);
    }

    fn note_sequence(
        &mut self,
        reference: Option<&Reference>,
        last: Option<u64>,
        was: Option<u64>,
    ) {
        if let (Some(reference), Some(sequence)) = (reference, last)
            && last != was
        {
            self.tracking.set_sequence(reference, sequence);
        }
    }

    /// Also what was stored before is confirmed only now: its first copy may not be durable yet.
    fn owe(&mut self, session: SessionId, publisher: PublisherId, mut ids: Vec<u64>) {
        let turn = self.turn;
        match self.owed.back_mut() {
            Some(last)
                if (last.turn, last.session, last.publisher) == (turn, session, publisher) =>
            {
                last.ids.append(&mut ids);
            }
            _ => self.owed.push_back(Owed {
                turn,
                session,
                publisher,
                ids,
            }),
        }
    }

    fn has_room(&self, published: &Published<'_>) -> bool {
        let filling = &self.filling;
        filling.entries == 0
            || usize::from(filling.entries) < STREAM_CHUNK_ENTRIES_MAX
                && filling.data.len() + published.entry.bytes.len() <= STREAM_CHUNK_BYTES
    }

    fn fill(&mut self, published: &Published<'_>) {
        let filling = &mut self.filling;
        filling.data.push(published.entry.bytes);
        filling.entries += 1;
        filling.records += u32::from(published.entry.records);
        filling.bloom.add(published);
        filling.values.add(published.filter);
    }

    /// Ends the turn: the chunk that was being filled is appended, and so is what has changed of
    /// offsets if it has waited for long enough. `None` if there is nothing to commit; else the
    /// number for [`Self::commit`], once all effects are carried out.
    #[must_use]
    pub fn seal(&mut self, now: Now) -> Option<u64> {
        if self.filling.entries > 0 {
            self.end_chunk(now);
        }
        let is_due = |since: u64| now.monotonic_ms >= since + STREAM_TRACKING_GATHER_MS;
        if self.tracking_since_ms.is_some_and(is_due) {
            self.end_tracking_chunk(now);
        }
        if let Some(number) = self.seal_copies() {
            return number;
        }
        let appended = self.next_offset != self.turns.back().unwrap_or(&self.committed).next_offset;
        let owes = self.owed.back().is_some_and(|owed| owed.turn == self.turn);
        if !appended && !owes {
            return None;
        }
        let number = self.turn;
        self.turn += 1;
        self.turns.push_back(Turn {
            number,
            next_offset: self.next_offset,
            last_user: self.last_user.or(self.committed.last_user),
            last_chunk: self.last_chunk,
        });
        self.serve_followers();
        Some(number)
    }

    /// When [`Self::seal`] has something to do though no command comes.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        let tracking = self.tracking_since_ms;
        let tracking = tracking.map(|since| since + STREAM_TRACKING_GATHER_MS);
        tracking.into_iter().chain(self.early.due_ms()).min()
    }

    fn end_chunk(&mut self, now: Now) {
        self.make_room(now, self.filling.data.len() as u64);
        let mut trailer = self.filling.values.take();
        trailer.append(&mut self.tracking.take_changes(self.next_offset));
        self.tracking_since_ms = None;
        let header = ChunkHeader {
            entries: std::mem::take(&mut self.filling.entries),
            records: std::mem::take(&mut self.filling.records),
            ..self.header(ChunkKind::User)
        };
        let bloom = self.filling.bloom.take(self.settings.filter_bytes);
        let chunk = self.filling.data.take(header, &bloom, &trailer);
        self.last_user = Some(Span::of(&header));
        self.append(chunk);
    }

    /// A chunk of this many bytes follows: a segment that it would not fit ends, and what must be
    /// known without the chunks before is written down.
    fn make_room(&mut self, now: Now, bytes: u64) {
        self.timestamp_ms = self
            .timestamp_ms
            .max(i64::try_from(now.wall_ms).unwrap_or(i64::MAX));
        let is_full =
            |last: &Segment| last.bytes > 0 && last.bytes + bytes > self.settings.segment_bytes;
        let is_full = self.segments.last().is_none_or(is_full);
        let begins = is_full || self.segment_chunks >= STREAM_SEGMENT_CHUNKS_MAX;
        if begins {
            let first_offset = self.next_offset;
            self.segments.begin(first_offset, self.timestamp_ms);
            self.segment_chunks = 0;
            self.effects.push(Effect::BeginSegment { first_offset });
            self.expire(now);
        }
        let is_due = begins || self.bytes_since_snapshot >= STREAM_SNAPSHOT_BYTES;
        // With nothing to be kept every chunk is a start for replays.
        if is_due && !self.tracking.is_empty() {
            self.bytes_since_snapshot = 0;
            let body = self.tracking.snapshot();
            self.append_tracking(ChunkKind::TrackingSnapshot, &body);
        }
    }

    fn end_tracking_chunk(&mut self, now: Now) {
        self.make_room(now, 0);
        let changes = self.tracking.take_changes(self.next_offset);
        self.tracking_since_ms = None;
        self.append_tracking(ChunkKind::TrackingDelta, &changes);
    }

    fn append_tracking(&mut self, kind: ChunkKind, body: &[u8]) {
        // Bounded by the limits on names and on how many are kept.
        let data = [&(body.len() as u32).to_be_bytes(), body].concat();
        let header = ChunkHeader {
            entries: 1,
            records: 1,
            ..self.header(kind)
        };
        self.append(SharedChunk::new(header, &[], &data, &[]));
    }

    fn header(&self, kind: ChunkKind) -> ChunkHeader {
        ChunkHeader {
            kind,
            entries: 0,
            records: 0,
            timestamp_ms: self.timestamp_ms,
            epoch: self.epoch,
            first_offset: self.next_offset,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        }
    }

    fn append(&mut self, chunk: SharedChunk) {
        let header = *chunk.header();
        self.next_offset = header.next_offset();
        self.last_chunk = Some(header.first_offset);
        self.segments.add(stored_bytes(&header));
        self.segment_chunks += 1;
        self.bytes_since_snapshot += header.chunk_bytes();
        self.tail.push(chunk.clone());
        let is_replay_start =
            header.kind == ChunkKind::TrackingSnapshot || self.tracking.is_empty();
        self.effects.push(Effect::Append {
            chunk,
            is_replay_start,
        });
    }

    /// A turn and all before it are as durable as the flush level asks for: readers may see what it
    /// brought, and publishers hear of it.
    pub fn commit(&mut self, turn: u64, out: &mut Events) {
        if self.replica.is_some() {
            return self.commit_replicated(turn, out);
        }
        self.commit_to(u64::MAX, turn, out);
    }

    /// Turns up to this one that end at this offset or before it are committed.
    fn commit_to(&mut self, offset: u64, turn: u64, out: &mut Events) {
        let is_in = |first: &Turn| first.number <= turn && first.next_offset <= offset;
        while let Some(first) = self.turns.front().filter(|first| is_in(first)) {
            self.committed = *first;
            self.turns.pop_front();
        }
        let turn = self.committed.number;
        while let Some(owed) = self.owed.pop_front_if(|owed| owed.turn <= turn) {
            let (publisher, ids) = (owed.publisher, owed.ids);
            out.push((owed.session, Event::Confirmed { publisher, ids }));
        }
        for key in self.readers.waiting() {
            self.serve(key, out);
        }
        self.trim_tail();
    }

    /// Lets go of the chunks that are kept for readers, with the last one of these of all.
    fn trim_tail(&mut self) {
        let in_tail = self.tail.first_offset().filter(|_| self.tail.is_large());
        let slowest = in_tail.and_then(|first| self.readers.slowest_from(first));
        let needed = slowest.unwrap_or(u64::MAX);
        if let Some(replica) = &self.replica {
            // What is written can be read again, for readers and followers.
            self.tail.trim(replica.durable, Some(needed));
        }
        let needed = (!self.readers.is_empty()).then_some(needed);
        self.tail.trim(self.committed.next_offset, needed);
    }

    /// Bytes of its newest chunks that are in memory.
    #[must_use]
    pub const fn tail_bytes(&self) -> usize {
        self.tail.bytes()
    }

    /// Lets go of what is in memory and can be read from disk.
    pub fn release_tail(&mut self) {
        let durable = self.replica.as_ref().map(|replica| replica.durable);
        self.tail
            .trim(durable.unwrap_or(self.committed.next_offset), None);
    }

    /// How it stands.
    #[must_use]
    pub fn stats(&self) -> StreamStats {
        let committed_offset = self.committed.next_offset.checked_sub(1);
        StreamStats {
            first_chunk: self
                .segments
                .first_offset()
                .filter(|_| self.next_offset > 0),
            last_chunk: self.last_chunk,
            committed_chunk: self.committed.last_chunk,
            committed_offset,
            last_record: match self.committed.last_user {
                Some(chunk) => Some(chunk.last),
                None => committed_offset,
            },
            last_offset: self.next_offset.checked_sub(1),
            bytes: self.segments.bytes(),
            segments: self.segments.len() as u64,
            readers: self.readers.len() as u64,
            publishers: self.publishers.len() as u64,
            offsets_refused: self.offsets_refused,
            held_bytes: self.held_bytes,
        }
    }

    /// What it keeps by name.
    #[must_use]
    pub const fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// The stream goes: what its sessions are told.
    pub fn end(&mut self, out: &mut Events) {
        self.refuse_early(None, out);
        self.finding.end(out);
        let publishers = self.publishers.keys().map(|(session, _)| *session);
        let others = self.readers.sessions().chain(self.active.sessions());
        let mut sessions: Vec<SessionId> = publishers.chain(others).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let stream = self.id;
        out.extend(sessions.into_iter().map(|to| (to, Event::Gone { stream })));
        self.publishers.clear();
        self.readers = Readers::default();
        self.active.end();
        self.owed.clear();
    }

    /// The oldest offset that is stored and the one after the newest that readers may see.
    #[must_use]
    pub fn visible(&self) -> std::ops::Range<u64> {
        let next = self.committed.next_offset;
        self.segments.first_offset().unwrap_or(next)..next
    }

    /// Whether a session is known as publisher, reader or member of a group.
    #[must_use]
    pub fn knows(&self, session: SessionId) -> bool {
        let is_publisher = self.publishers.keys().any(|(of, _)| *of == session);
        let mut others = self.readers.sessions().chain(self.active.sessions());
        is_publisher || others.any(|of| of == session)
    }
}
