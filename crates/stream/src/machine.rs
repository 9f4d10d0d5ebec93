//! One stream: publishes become chunks, chunks become visible to readers and confirmed to
//! publishers once whoever embeds the stream says that they are committed.
//!
//! A turn goes like this: [`Stream::handle`] takes the commands that have come; [`Stream::seal`]
//! ends the turn's last chunk; the embedder carries the effects out in order (segments begun,
//! chunks appended, segments deleted), makes them as durable as the stream's flush level asks for,
//! and then calls [`Stream::commit`]. Events go to sessions at once; those that promise something
//! come out of `commit` only.

use self::filling::Filling;
use self::lasting_damage::Damage;
use self::publishers::Publishers;
use self::reading::Finding;
use self::replicated::Replica;
pub use self::replicated::RestoredReplica;
use self::tracking_schedule::{OffsetCounts, TrackingSchedule};
use self::turns::Turns;
use crate::active::ActiveGroups;
use crate::batch::Batch;
use crate::chunk::{ChunkHeader, ChunkKind, SharedChunk};
use crate::early::EarlyCommands;
use crate::host::{Command, Event, PublisherId, Reference, Refusal, SessionId, StreamStats};
use crate::rates::Rates;
use crate::reader::{Key, Readers};
use crate::replica::{Epoch, ReplicaEvent, ReplicaMessage, ReplicaState};
use crate::segments::{Segment, Segments, stored_bytes};
use crate::settings::StreamSettings;
use crate::tail::Tail;
use crate::tracking::{Tracking, TrackingError};
use leveret_types::limits::{STREAM_CLOCK_AHEAD_MS_MAX, STREAM_SEGMENT_CHUNKS_MAX};
use leveret_types::{NodeId, Now, QueueId};

mod copying;
mod damage;
mod early;
mod fence;
mod filling;
mod groups;
mod handover;
mod lasting_damage;
mod publishers;
mod reading;
mod replicated;
mod retention;
mod serving;
mod tracking_schedule;
mod turns;

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
    /// The offset behind the newest chunk; more where chunks are damaged behind that one.
    pub next_offset: u64,
}

impl Recovered {
    /// The offset that it goes on with.
    fn goes_on_with(&self) -> u64 {
        let last = self.newest.last().map(|chunk| chunk.header().next_offset());
        let empty_from = || self.segments.last().map(|segment| segment.first_offset);
        let known = last.or_else(empty_from).unwrap_or(0);
        known.max(self.next_offset)
    }
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
    tracking_schedule: TrackingSchedule,
    rates: Rates,
    offset_counts: OffsetCounts,
    /// Bytes that groups hold beyond size and age.
    held_bytes: u64,
    segments: Segments,
    filling: Filling,
    turns: Turns,
    publishers: Publishers,
    readers: Readers,
    /// Consumers of which one at a time is active: with the leader alone.
    active: ActiveGroups,
    /// What has come too early, and waits.
    early: EarlyCommands,
    finding: Finding,
    damage: Damage,
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
        let next_offset = recovered.goes_on_with();
        let last = recovered.newest.last().map(SharedChunk::header);
        let segments = Segments::new(recovered.segments);
        Ok(Self {
            id,
            epoch: 1,
            next_offset,
            timestamp_ms: last.map_or(0, |header| header.timestamp_ms),
            tracking,
            tracking_schedule: TrackingSchedule::default(),
            rates: Rates::default(),
            offset_counts: OffsetCounts::default(),
            held_bytes: 0,
            segments,
            filling: Filling::new(settings.filter_bytes),
            turns: Turns::new(next_offset, &recovered.newest),
            publishers: Publishers::default(),
            readers: Readers::default(),
            active: ActiveGroups::default(),
            early: EarlyCommands::default(),
            finding: Finding::default(),
            damage: Damage::default(),
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
        self.early.end(session, &command);
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
                let result = self.publishers.declare((session, publisher), reference);
                out.push((session, Event::PublisherDeclared { request, result }));
            }
            Command::DeletePublisher { publisher, .. } => {
                self.publishers.delete((session, publisher));
            }
            Command::Publish {
                publisher, batch, ..
            } if self.holds_publishes() => self.hold(now, session, publisher, batch, out),
            Command::Publish {
                publisher, batch, ..
            } => self.publish(now, session, publisher, &batch, out),
            Command::QuerySequence {
                request, reference, ..
            } => {
                let result = Ok(self.tracking.sequence(&reference));
                let event = Event::Sequence { request, result };
                let committed = self.turns.committed.next_offset;
                match self.tracking.is_sequence_before(&reference, committed) {
                    true => out.push((session, event)),
                    // Its publisher goes on behind it, and never sends again what is up to it.
                    false => {
                        let turn = self.turns.gathering();
                        self.publishers.owe_answer(turn, session, event);
                    }
                }
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
                let event = Event::StoredOffset { request, result };
                // A consumer begins there, and what it misses it is sent again. An operator goes
                // away with the answer.
                match session {
                    SessionId::Operator(_) => self.answer_committed(session, event, out),
                    _ => out.push((session, event)),
                }
            }
            Command::Stats { request, .. } => {
                let result = Ok(self.stats());
                out.push((session, Event::Stats { request, result }));
            }
            Command::Leave => self.leave(now, session, out),
            Command::Declare { .. } | Command::Delete { .. } | Command::LookUp { .. } => {}
        }
    }

    /// Answers once all that was appended so far is committed.
    fn answer_committed(&mut self, session: SessionId, event: Event, out: &mut Events) {
        if self.next_offset <= self.turns.committed.next_offset {
            return out.push((session, event));
        }
        let turn = self.turns.gathering();
        self.publishers.owe_answer(turn, session, event);
    }

    fn leave(&mut self, now: Now, session: SessionId, out: &mut Events) {
        self.leave_groups(now, session, out);
        self.publishers.leave(session);
        self.readers.leave(session);
        self.early.leave(session);
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
        let Some(reference) = self.publishers.reference((session, publisher)).cloned() else {
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
            if !self.filling.has_room(&published) {
                // The chunk says how far its own entries have brought the sequence.
                self.note_sequence(reference.as_ref(), last, before.flatten());
                self.end_chunk(now);
            }
            last = Some(published.id);
            self.filling.add(&published);
        }
        self.note_sequence(reference.as_ref(), last, before.flatten());
        let turn = self.turns.gathering();
        self.publishers.owe(turn, (session, publisher), ids);
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

    /// Ends the turn: the chunk that was being filled is appended, and so is what has changed of
    /// offsets if it has waited for long enough. `None` if there is nothing to commit; else the
    /// number for [`Self::commit`], once all effects are carried out.
    #[must_use]
    pub fn seal(&mut self, now: Now) -> Option<u64> {
        if !self.filling.is_empty() {
            self.end_chunk(now);
        }
        let due = self.tracking_schedule.due_ms();
        if due.is_some_and(|at| at <= now.monotonic_ms) {
            self.end_tracking_chunk(now);
        }
        if let Some(number) = self.seal_copies() {
            return number;
        }
        let appended = self.next_offset != self.turns.sealed_to();
        if !appended && !self.publishers.are_owed(self.turns.gathering()) {
            return None;
        }
        let number = self.turns.seal(self.next_offset);
        self.serve_followers();
        Some(number)
    }

    /// When [`Self::seal`] has something to do though no command comes.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        let tracking = self.tracking_schedule.due_ms();
        let others = [self.early.due_ms(), self.handover_due_ms()];
        tracking
            .into_iter()
            .chain(others.into_iter().flatten())
            .min()
    }

    fn end_chunk(&mut self, now: Now) {
        self.make_room(now, self.filling.bytes());
        let changes = self.take_changes();
        let header = self.header(ChunkKind::User);
        let filter_bytes = self.settings.filter_bytes;
        let chunk = self.filling.end(header, changes, filter_bytes);
        self.append(chunk);
    }

    /// What has changed of what is kept by name, for the chunk that comes next.
    fn take_changes(&mut self) -> Vec<u8> {
        self.tracking_schedule.no_changes();
        self.tracking.take_changes(self.next_offset)
    }

    /// The time of the next chunk: not before that of the last one, unless that is so far ahead
    /// that whoever wrote it must have had a wrong clock. Times would stay wrong for as long, and
    /// nothing would become old. Says whether it steps back: times ascend within a segment.
    fn note_time(&mut self, now_ms: i64) -> bool {
        let ahead_ms = self.timestamp_ms.saturating_sub(now_ms);
        let steps_back = ahead_ms > STREAM_CLOCK_AHEAD_MS_MAX;
        if ahead_ms < 0 || steps_back {
            self.timestamp_ms = now_ms;
        }
        steps_back
    }

    /// A chunk of this many bytes follows: a segment that it would not fit ends, and what must be
    /// known without the chunks before is written down.
    fn make_room(&mut self, now: Now, bytes: u64) {
        let steps_back = self.note_time(i64::try_from(now.wall_ms).unwrap_or(i64::MAX));
        let is_full =
            |last: &Segment| last.bytes > 0 && last.bytes + bytes > self.settings.segment_bytes;
        let is_full = self.segments.last().is_none_or(is_full);
        let begins = is_full
            || self.is_last_segment_damaged()
            || steps_back && self.segments.last().is_some_and(|last| last.bytes > 0)
            || self.segments.chunks_appended() >= STREAM_SEGMENT_CHUNKS_MAX;
        if begins {
            let first_offset = self.next_offset;
            self.segments.begin(first_offset, self.timestamp_ms);
            self.effects.push(Effect::BeginSegment { first_offset });
            self.expire(now);
        }
        let is_due = begins || self.tracking_schedule.is_snapshot_due();
        // With nothing to be kept every chunk is a start for replays.
        if is_due && !self.tracking.is_empty() {
            self.tracking_schedule.begin_snapshot();
            let body = self.tracking.snapshot();
            self.append_tracking(ChunkKind::TrackingSnapshot, &body);
        }
    }

    fn end_tracking_chunk(&mut self, now: Now) {
        self.make_room(now, 0);
        let changes = self.take_changes();
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
        self.turns.appended(&header);
        self.segments.append(stored_bytes(&header));
        self.tracking_schedule.appended(header.chunk_bytes());
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
        let turn = self.turns.commit_to(offset, turn);
        self.publishers.confirm(turn, out);
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
        self.tail.trim(self.turns.committed.next_offset, needed);
    }

    /// Bytes of its newest chunks that are in memory.
    #[must_use]
    pub const fn tail_bytes(&self) -> usize {
        self.tail.bytes()
    }

    /// Lets go of what is in memory and can be read from disk.
    pub fn release_tail(&mut self) {
        let durable = self.replica.as_ref().map(|replica| replica.durable);
        let committed = self.turns.committed.next_offset;
        self.tail.trim(durable.unwrap_or(committed), None);
    }

    /// How it stands.
    #[must_use]
    pub fn stats(&self) -> StreamStats {
        let committed = &self.turns.committed;
        let committed_offset = committed.next_offset.checked_sub(1);
        StreamStats {
            first_chunk: self
                .segments
                .first_offset()
                .filter(|_| self.next_offset > 0),
            last_chunk: self.turns.last_chunk(),
            committed_chunk: committed.last_chunk,
            committed_offset,
            last_record: match committed.last_user {
                Some(chunk) => Some(chunk.last),
                None => committed_offset,
            },
            last_offset: self.next_offset.checked_sub(1),
            bytes: self.segments.bytes(),
            segments: self.segments.len() as u64,
            readers: self.readers.len() as u64,
            publishers: self.publishers.len() as u64,
            offsets_refused: self.offset_counts.refused,
            held_bytes: self.held_bytes,
            damaged: self.is_damaged(),
            fenced: self.fenced().is_some(),
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
        let others = self.readers.sessions().chain(self.active.sessions());
        let mut sessions: Vec<SessionId> = self.publishers.sessions().chain(others).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let stream = self.id;
        self.publishers.lose(&Refusal::NotFound, out);
        out.extend(sessions.into_iter().map(|to| (to, Event::Gone { stream })));
        self.readers = Readers::default();
        self.active.end();
    }

    /// The oldest offset that is stored and the one after the newest that readers may see.
    #[must_use]
    pub fn visible(&self) -> std::ops::Range<u64> {
        let next = self.turns.committed.next_offset;
        self.segments.first_offset().unwrap_or(next)..next
    }

    /// Whether a session is known as publisher, reader or member of a group.
    #[must_use]
    pub fn knows(&self, session: SessionId) -> bool {
        let others = self.readers.sessions().chain(self.active.sessions());
        self.publishers
            .sessions()
            .chain(others)
            .any(|of| of == session)
    }
}
