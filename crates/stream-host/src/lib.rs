//! The streams of a node, run together: their machines over their segment files.
//!
//! A turn takes the commands that have come for all streams ([`StreamHost::handle`]), and ends with
//! [`StreamHost::end_turn`]: what was published is written, each stream that it was published to is
//! synced once, and only then confirmed. What comes meanwhile is the next turn's. Syncs that no
//! confirm waits for are handed out ([`StreamHost::take_syncs`]), and so are reads
//! ([`StreamHost::take_reads`]), so that nobody else waits either.
//!
//! Invariant: nothing but the storage engine's [`Disk`] is asked for IO; no clock, no thread.
//! Invariant: a stream with the flush level `sync` confirms after the sync that covers what it
//! confirms.
//! Invariant: a failed write or sync is an error that ends the process; a full disk holds
//! publishers back and loses nothing.

mod carry;
mod damage;
mod early;
mod marks;
mod outside;
mod reads;
mod replicas;
mod tails;

pub use reads::{DoneRead, DueRead};

use carry::{Carrier, Progress, Syncs};
use damage::stats_of_none;
use early::Early;
use leveret_storage::{Disk, Fatal, OpenError, StreamFiles, StreamSync, StreamSynced, WalError};
use leveret_stream::replica::Attachment;
use leveret_stream::tracking::{Tracking, TrackingError};
use leveret_stream::{
    Command, Effect, Events, Flush, GroupOffset, Reference, Refusal, ReplicaEvent, RetentionAlarm,
    SessionId, Stream, StreamSettings, StreamStats,
};
use leveret_types::limits::{STREAM_CROWDED_TELL_MS, STREAM_IDLE_MS};
use leveret_types::{Now, QueueId};
use marks::Marks;
use outside::Outside;
use reads::Reads;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tails::Tails;

/// One stream and what is to be done for it.
struct Hosted {
    machine: Stream,
    /// No other stream has run with this number, whatever its id.
    run: u64,
    /// What could not be done yet: the disk is full, or others are to have their turn.
    effects: VecDeque<Effect>,
    /// The last turn that is sealed and not committed.
    sealed: Option<u64>,
    /// When what was written since the last sync is synced, where confirms do not wait for it.
    sync_at_ms: Option<u64>,
    /// Whether such a sync is under way.
    is_syncing: bool,
    reads_under_way: u32,
    /// Whether it waits until there is room for its reads.
    is_paused: bool,
    /// Whether it waits until there is memory for its readers.
    is_short: bool,
    /// Whether groups hold more of it than they may, as was told.
    is_held: bool,
    /// How many offsets found no free place, as was told, and when.
    crowded_told: (u64, Option<u64>),
    /// When it was told that a part of it is damaged that nobody else has.
    damage_told_ms: Option<u64>,
    /// Whether somebody has come to damage since.
    has_met_damage: bool,
    /// When it is due, as [`StreamHost`] knows it.
    noted_due_ms: Option<u64>,
    /// When it was written to last.
    written_ms: Option<u64>,
    /// Whether it is looked at whether it is idle.
    is_watched: bool,
}

impl Hosted {
    /// How many offsets found no free place since that was told, where it is to be told now.
    fn crowded_offsets(&mut self, now: Now) -> Option<u64> {
        let (told, at_ms) = self.crowded_told;
        let came = self.machine.offsets_crowded().saturating_sub(told);
        let is_time = |at_ms| now.monotonic_ms >= at_ms + STREAM_CROWDED_TELL_MS;
        if came == 0 || !at_ms.is_none_or(is_time) {
            return None;
        }
        self.crowded_told = (told + came, Some(now.monotonic_ms));
        Some(came)
    }

    /// When a sync is due that can begin: one at a time.
    fn sync_due_ms(&self) -> Option<u64> {
        self.sync_at_ms.filter(|_| !self.is_syncing)
    }

    /// When there is something to do though no command comes.
    fn due_ms(&self) -> Option<u64> {
        let due = [self.machine.due_ms(), self.sync_due_ms()];
        due.into_iter().flatten().min()
    }
}

/// What a stream was found with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Bytes of a torn end that were cut.
    pub cut_bytes: u64,
    /// What is damaged, in words for an operator.
    pub damage: Vec<String>,
}

/// What is known of a stream that has files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is to run here.
    Here,
    /// It was deleted, or does not run here any more.
    Gone,
    /// Nothing ever told of it.
    Never,
}

/// Why a stream does not run.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// Its files cannot be read.
    #[error(transparent)]
    Files(#[from] OpenError),
    /// Its files cannot be changed.
    #[error(transparent)]
    Disk(#[from] WalError),
    /// A chunk that is sound says offsets or sequences that cannot be.
    #[error("the stream's files were written by another version: {0}")]
    Tracking(#[from] TrackingError),
}

/// All streams of a node.
pub struct StreamHost<D: Disk> {
    files: StreamFiles<D>,
    streams: BTreeMap<QueueId, Hosted>,
    /// Streams that should run here and do not, and why.
    not_served: BTreeMap<QueueId, String>,
    early: Early,
    /// Streams that something happened to, or that have something left to do.
    touched: BTreeSet<QueueId>,
    /// Streams that something happened to since [`Self::forget_active`].
    active: BTreeSet<QueueId>,
    /// Streams that have something to do by the clock, and when: a turn looks at no others.
    due: BTreeSet<(u64, QueueId)>,
    /// The streams that each session has publishers or readers of.
    sessions: BTreeMap<SessionId, BTreeSet<QueueId>>,
    /// Counts the streams that have begun to run.
    runs: u64,
    reads: Reads<D>,
    syncs: Vec<StreamSync<D>>,
    is_disk_full: bool,
    tails: Tails,
    marks: Marks,
    /// Whether groups hold too much of a stream, where that has changed.
    held: Vec<(QueueId, Option<RetentionAlarm>)>,
    /// Streams that keep as many offsets of consumers as they may, and how many more came.
    crowded: Vec<(QueueId, u64)>,
    /// What other nodes and the embedder are to hear of replicas.
    outside: Outside,
    /// No replica that was deleted here has attached above this.
    attached: Attachment,
}

/// What is left of a turn.
#[derive(Default)]
struct Turn {
    /// Streams with effects that wait for a sync.
    syncing: Vec<QueueId>,
}

/// The first half of a turn; see [`StreamHost::write_turn`].
#[must_use = "nothing is confirmed before the second half"]
pub struct Written {
    turn: Turn,
    streams: Vec<QueueId>,
    touched: BTreeSet<QueueId>,
}

/// Whether a stream must be told when the session of this command ends.
const fn has_to_leave(command: &Command) -> bool {
    matches!(
        command,
        Command::DeclarePublisher { .. } | Command::Subscribe { .. } | Command::JoinGroup { .. }
    )
}

impl<D: Disk> StreamHost<D> {
    /// Over these files, with no stream running.
    #[must_use]
    pub fn new(files: StreamFiles<D>) -> Self {
        Self {
            files,
            streams: BTreeMap::new(),
            not_served: BTreeMap::new(),
            early: Early::default(),
            touched: BTreeSet::new(),
            active: BTreeSet::new(),
            due: BTreeSet::new(),
            sessions: BTreeMap::new(),
            runs: 0,
            reads: Reads::default(),
            syncs: Vec::new(),
            is_disk_full: false,
            tails: Tails::default(),
            marks: Marks::default(),
            held: Vec::new(),
            crowded: Vec::new(),
            outside: Outside::default(),
            attached: Attachment::default(),
        }
    }

    /// Deletes the files of streams that are known to be gone: a crash may have come between the
    /// deletion of a stream and that of its files. Those of streams that nobody knows are set aside
    /// if they hold anything: nothing is deleted on the word of what is absent. To be called before
    /// any stream runs.
    ///
    /// # Errors
    /// Must end the process.
    pub fn sort_out(&mut self, known: impl Fn(QueueId) -> Known) -> Result<(), Fatal> {
        let all: Vec<QueueId> = self.files.streams().collect();
        for stream in all {
            match known(stream) {
                Known::Here => {}
                Known::Never if self.files.holds_anything(stream)? => {
                    self.files.set_aside(stream)?;
                }
                Known::Gone | Known::Never => self.files.delete_stream(stream)?,
            }
        }
        Ok(())
    }

    /// The files of all streams.
    #[must_use]
    pub const fn files(&self) -> &StreamFiles<D> {
        &self.files
    }

    /// Begins to run a stream, which may have files already.
    ///
    /// # Errors
    /// If they cannot be read, or say what cannot be. The stream does not run then.
    pub fn begin(&mut self, id: QueueId, settings: StreamSettings) -> Result<Found, BeginError> {
        let begun = self.try_begin(id, settings);
        self.note_begun(id, begun)
    }

    fn try_begin(&mut self, id: QueueId, settings: StreamSettings) -> Result<Found, BeginError> {
        let found = self.files.recover(id)?;
        if settings.flush == Flush::Sync {
            self.files.write_tail_again(id).map_err(WalError::from)?;
        }
        let mut machine = Stream::new(id, settings, found.recovered)?;
        if let Some(from) = found.damaged_from {
            machine.keep_damage(from);
            self.touched.insert(id);
        }
        self.host(id, machine);
        Ok(Found {
            cut_bytes: found.cut_bytes,
            damage: found.damage,
        })
    }

    fn host(&mut self, id: QueueId, mut machine: Stream) {
        machine.share_early_bytes(self.early.bytes().clone());
        self.runs += 1;
        // What was found is synced now.
        let has_files = self.files.last_segment(id).is_some();
        if has_files {
            self.marks.look_soon(id);
        }
        let hosted = Hosted {
            machine,
            run: self.runs,
            effects: VecDeque::new(),
            sealed: None,
            sync_at_ms: None,
            is_syncing: false,
            reads_under_way: 0,
            is_paused: false,
            is_short: false,
            is_held: false,
            crowded_told: (0, None),
            damage_told_ms: None,
            has_met_damage: false,
            noted_due_ms: None,
            written_ms: None,
            is_watched: has_files,
        };
        self.active.insert(id);
        let before = self.streams.insert(id, hosted);
        if let Some(at) = before.and_then(|before| before.noted_due_ms) {
            self.due.remove(&(at, id));
        }
    }

    /// Changes a stream's settings, as a policy has it.
    pub fn set_settings(&mut self, id: QueueId, settings: StreamSettings) {
        if let Some(hosted) = self.streams.get_mut(&id) {
            hosted.machine.set_settings(settings);
        }
    }

    /// Deletes a stream with its files. Its sessions are told.
    ///
    /// # Errors
    /// Must end the process.
    pub fn delete(&mut self, id: QueueId, out: &mut Events) -> Result<(), Fatal> {
        self.hear_of(id);
        if let Some(mut hosted) = self.streams.remove(&id) {
            hosted.machine.end(out);
            let attached = hosted.machine.attachment().unwrap_or_default();
            self.attached = self.attached.max(attached);
            self.reads.forget(id, &hosted);
            if let Some(at) = hosted.noted_due_ms {
                self.due.remove(&(at, id));
            }
        }
        self.sessions.retain(|_, streams| {
            streams.remove(&id);
            !streams.is_empty()
        });
        self.touched.remove(&id);
        self.active.remove(&id);
        self.tails.note(id, 0);
        self.outside.forget(id);
        self.not_served.remove(&id);
        self.let_in(id, out);
        self.files.delete_stream(id)
    }

    /// Takes a command. One for a stream that does not run here is refused, or waits until this
    /// node has heard of the stream; those of the catalogue are not for a stream, and are ignored.
    pub fn handle(&mut self, now: Now, session: SessionId, command: Command, out: &mut Events) {
        if matches!(command, Command::Leave) {
            self.early.leave(session);
            for id in self.sessions.remove(&session).unwrap_or_default() {
                if let Some(hosted) = self.streams.get_mut(&id) {
                    hosted.machine.handle(now, session, Command::Leave, out);
                    // An offset that an operator has set may be stored as its group goes on.
                    self.touched.insert(id);
                }
            }
            return;
        }
        let Some(id) = command.stream() else {
            return;
        };
        self.let_in(id, out);
        match self.streams.get_mut(&id) {
            Some(hosted) => {
                if has_to_leave(&command) || hosted.machine.lets_wait(session, &command) {
                    self.sessions.entry(session).or_default().insert(id);
                }
                hosted.machine.handle(now, session, command, out);
                self.touched.insert(id);
            }
            None => self.wait_or_refuse(now, session, (id, command), out),
        }
    }

    /// Whether the disk is full: nobody should publish until a later turn finds space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        self.is_disk_full
    }

    /// When the next turn is due though no command comes, in monotonic milliseconds; 0 if at once.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        if !self.touched.is_empty() && !self.is_disk_full || self.reads.can_resume() {
            return Some(0);
        }
        let streams = self.due.first().map(|(at, _)| *at);
        let others = [self.marks.due_ms(), self.early.due_ms()];
        streams
            .into_iter()
            .chain(others.into_iter().flatten())
            .min()
    }

    /// Deletes with the next turn what is too old in all streams. For now and then.
    pub fn expire(&mut self, now: Now) {
        for (id, hosted) in &mut self.streams {
            hosted.machine.expire(now);
            let alarm = hosted.machine.retention_alarm();
            if alarm.is_some() != std::mem::replace(&mut hosted.is_held, alarm.is_some()) {
                self.held.push((*id, alarm));
            }
            if let Some(came) = hosted.crowded_offsets(now) {
                self.crowded.push((*id, came));
            }
            if let Some(from) = hosted.damage_to_tell_again(now) {
                let event = ReplicaEvent::DamagedForGood { from };
                self.outside.report(*id, event);
            }
            hosted.effects.extend(hosted.machine.take_effects());
            if !hosted.effects.is_empty() {
                self.touched.insert(*id);
            }
        }
    }

    /// The streams of which groups have begun to hold more than they may, or hold no more (`None`),
    /// since this was last asked.
    #[must_use]
    pub fn take_retention_alarms(&mut self) -> Vec<(QueueId, Option<RetentionAlarm>)> {
        std::mem::take(&mut self.held)
    }

    /// The streams to which more consumers store offsets than have places, with how many came since
    /// that was told of the stream: each at most once in [`STREAM_CROWDED_TELL_MS`].
    #[must_use]
    pub fn take_crowded(&mut self) -> Vec<(QueueId, u64)> {
        std::mem::take(&mut self.crowded)
    }

    /// Ends the turn: writes what has come, syncs each stream once that asks for it, and tells
    /// publishers and readers.
    ///
    /// # Errors
    /// Must end the process.
    pub fn end_turn(&mut self, now: Now, out: &mut Events) -> Result<(), Fatal> {
        let written = self.write_turn(now, out)?;
        self.sync_turn(now, written, out)
    }

    /// The first half of [`Self::end_turn`]: writes what has come. What is for the replicas on
    /// other nodes may be sent now, so that they write while this node syncs.
    ///
    /// # Errors
    /// Must end the process.
    pub fn write_turn(&mut self, now: Now, out: &mut Events) -> Result<Written, Fatal> {
        self.let_in_all(now, out);
        self.touch_due(now);
        self.is_disk_full = false;
        let mut touched = std::mem::take(&mut self.touched);
        let mut in_turn = self.resume_reads();
        let others = touched.iter().filter(|id| !in_turn.contains(id));
        let others: Vec<QueueId> = others.copied().collect();
        touched.extend(&in_turn);
        in_turn.extend(others);
        let mut written = Vec::with_capacity(in_turn.len());
        let mut turn = Turn::default();
        for id in in_turn {
            if let Some(hosted) = self.streams.get_mut(&id) {
                hosted.machine.refuse_early(Some(now), out);
                hosted.machine.bound_handover(now, out);
            }
            if self.write(now, id, &mut turn, out)? {
                written.push(id);
            }
            // Also where the disk is full: what was confirmed waits for no space.
            self.begin_due_sync(now, id)?;
        }
        Ok(Written {
            turn,
            streams: written,
            touched,
        })
    }

    /// The second half of [`Self::end_turn`].
    ///
    /// # Errors
    /// Must end the process.
    pub fn sync_turn(&mut self, now: Now, written: Written, out: &mut Events) -> Result<(), Fatal> {
        let Written {
            mut turn,
            streams,
            touched,
        } = written;
        for id in self.sync_together(streams, &mut turn, out)? {
            self.commit(now, id, out)?;
        }
        self.syncs.extend(self.files.begin_journal_syncs()?);
        self.mark_idle(now)?;
        self.bound_ahead(&touched);
        for id in touched {
            self.note_due(id);
            self.active.insert(id);
            let hosted = self.streams.get(&id);
            let bytes = hosted.map_or(0, |hosted| hosted.machine.tail_bytes());
            self.tails.note(id, bytes);
        }
        self.release_tails();
        Ok(())
    }

    /// How each stream stands.
    pub fn stats(&self) -> impl Iterator<Item = (QueueId, StreamStats)> {
        let stats = |(id, hosted): (&QueueId, &Hosted)| (*id, hosted.machine.stats());
        let not_served = self.not_served.keys().map(|id| (*id, stats_of_none()));
        self.streams.iter().map(stats).chain(not_served)
    }

    /// How these streams stand, as far as they are here: no others are looked at.
    pub fn stats_of(&self, streams: &[QueueId]) -> impl Iterator<Item = (QueueId, StreamStats)> {
        let stats = |id: &QueueId| match self.streams.get(id) {
            Some(hosted) => Some((*id, hosted.machine.stats())),
            None => Some((*id, self.not_served.get(id).map(|_| stats_of_none())?)),
        };
        streams.iter().filter_map(stats)
    }

    /// How those streams stand that something happened to since [`Self::forget_active`]: whoever
    /// takes samples looks at no others.
    pub fn active_stats(&self) -> impl Iterator<Item = (QueueId, StreamStats)> {
        let stats = |id: &QueueId| Some((*id, self.streams.get(id)?.machine.stats()));
        self.active.iter().filter_map(stats)
    }

    /// Samples have been taken of what [`Self::active_stats`] says.
    pub fn forget_active(&mut self) {
        self.active.clear();
    }

    /// What a stream keeps by name; none of one that is not here.
    #[must_use]
    pub fn tracking(&self, stream: QueueId) -> Option<&Tracking> {
        Some(self.streams.get(&stream)?.machine.tracking())
    }

    /// The streams that this node keeps offsets of, as it has them alone or leads them: how each
    /// stands, and its groups.
    pub fn groups(
        &self,
        now: Now,
    ) -> impl Iterator<Item = (QueueId, StreamStats, Vec<GroupOffset>)> {
        let kept = self
            .streams
            .iter()
            .filter(|(_, hosted)| hosted.machine.keeps_offsets());
        kept.map(move |(id, hosted)| {
            let groups = hosted.machine.groups(now).collect();
            (*id, hosted.machine.stats(), groups)
        })
    }

    /// Forgets the offset of a group: whether there was one. `None` of a stream whose offsets are
    /// not kept here.
    pub fn forget_offset(&mut self, now: Now, id: QueueId, group: &Reference) -> Option<bool> {
        let machine = &mut self.streams.get_mut(&id)?.machine;
        let forgotten = machine
            .keeps_offsets()
            .then(|| machine.forget_offset(now, group));
        self.touched.insert(id);
        forgotten
    }

    /// Syncs that are due and that no confirm waits for: whoever runs the streams does each of them
    /// at once, where it may take its time, and then tells [`Self::synced`].
    pub fn take_syncs(&mut self) -> Vec<StreamSync<D>> {
        std::mem::take(&mut self.syncs)
    }

    /// A sync was done.
    pub fn synced(&mut self, synced: &StreamSynced) {
        self.files.synced(synced);
        if synced.is_for_journal() {
            return;
        }
        if let Some(hosted) = self.streams.get_mut(&synced.stream()) {
            hosted.is_syncing = false;
        }
        self.note_due(synced.stream());
    }

    /// Syncs what was written to any stream, whatever its flush level: before an orderly end.
    ///
    /// # Errors
    /// Must end the process.
    pub fn sync_all(&mut self) -> Result<(), Fatal> {
        self.files.sync_all()
    }

    /// Streams that have something to do by the clock.
    fn touch_due(&mut self, now: Now) {
        let due = self.due.range(..=(now.monotonic_ms, QueueId(u64::MAX)));
        self.touched.extend(due.map(|(_, id)| *id));
    }

    /// Takes note of when a stream has something to do by the clock: after each change of it.
    fn note_due(&mut self, id: QueueId) {
        let Some(hosted) = self.streams.get_mut(&id) else {
            return;
        };
        let due_ms = hosted.due_ms();
        if due_ms != hosted.noted_due_ms {
            let before = std::mem::replace(&mut hosted.noted_due_ms, due_ms);
            if let Some(at) = before {
                self.due.remove(&(at, id));
            }
            self.due.extend(due_ms.map(|at| (at, id)));
        }
    }

    /// Notes how far streams are synced that are idle.
    fn mark_idle(&mut self, now: Now) -> Result<(), Fatal> {
        for id in self.marks.take_due(now) {
            let Some(hosted) = self.streams.get_mut(&id) else {
                continue;
            };
            let is_synced = hosted.sync_at_ms.is_none() && !hosted.is_syncing;
            let idle_from_ms = hosted.written_ms.map_or(0, |at_ms| at_ms + STREAM_IDLE_MS);
            if !is_synced || now.monotonic_ms < idle_from_ms {
                self.marks.wait(now, id);
                continue;
            }
            hosted.is_watched = false;
            self.files.mark_durable(id)?;
        }
        Ok(())
    }

    /// Whether all that a stream had to write is written.
    fn write(
        &mut self,
        now: Now,
        id: QueueId,
        turn: &mut Turn,
        out: &mut Events,
    ) -> Result<bool, Fatal> {
        let Some(hosted) = self.streams.get_mut(&id) else {
            return Ok(false);
        };
        hosted.sealed = hosted.machine.seal(now).or(hosted.sealed);
        hosted.effects.extend(hosted.machine.take_effects());
        self.carry_out(id, Syncs::Later, turn, out)
    }

    /// Carries out what a stream has to do. Whether all of it that writes is done, or waits for a
    /// sync only.
    fn carry_out(
        &mut self,
        id: QueueId,
        syncs: Syncs,
        turn: &mut Turn,
        out: &mut Events,
    ) -> Result<bool, Fatal> {
        let Some(hosted) = self.streams.get_mut(&id) else {
            return Ok(false);
        };
        let mut carrier = Carrier {
            files: &mut self.files,
            outside: &mut self.outside,
            reads: &mut self.reads,
            id,
            syncs,
        };
        let progress = carrier.carry_out(hosted, out)?;
        hosted.machine.set_disk_full(progress == Progress::Stuck);
        match progress {
            Progress::Stuck => {
                hosted.machine.tire("the disk of its leader's node is full");
                carrier.report(hosted);
                self.is_disk_full = true;
                self.touched.insert(id);
                Ok(false)
            }
            Progress::Paused => {
                self.reads.pause(id, hosted);
                Ok(true)
            }
            Progress::Syncing => {
                turn.syncing.push(id);
                Ok(true)
            }
            Progress::Done => Ok(true),
        }
    }

    /// Syncs what these streams confirm after a sync, and all that waits for one, together; then
    /// goes on with what waited. Those of the streams that have written all that they had to.
    fn sync_together(
        &mut self,
        mut streams: Vec<QueueId>,
        turn: &mut Turn,
        out: &mut Events,
    ) -> Result<Vec<QueueId>, Fatal> {
        let is_synced = |id: &&QueueId| {
            let hosted = self.streams.get(*id);
            hosted.is_some_and(|hosted| {
                hosted.sealed.is_some() && hosted.machine.settings().flush == Flush::Sync
            })
        };
        let waiting = std::mem::take(&mut turn.syncing);
        let mut together: BTreeSet<QueueId> = streams.iter().filter(is_synced).copied().collect();
        together.extend(&waiting);
        let together: Vec<QueueId> = together.into_iter().collect();
        self.files.sync_together(&together)?;
        for id in waiting {
            if !self.carry_out(id, Syncs::InPlace, turn, out)? {
                streams.retain(|stream| *stream != id);
            }
        }
        Ok(streams)
    }

    /// Hands a sync out if one is due that no confirm waits for.
    fn begin_due_sync(&mut self, now: Now, id: QueueId) -> Result<(), Fatal> {
        let Some(hosted) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let due_ms = hosted.sync_due_ms();
        if due_ms.is_some_and(|at| now.monotonic_ms >= at) {
            hosted.sync_at_ms = None;
            let sync = self.files.begin_sync(id)?;
            hosted.is_syncing = sync.is_some();
            self.syncs.extend(sync);
        }
        Ok(())
    }

    fn commit(&mut self, now: Now, id: QueueId, out: &mut Events) -> Result<(), Fatal> {
        let Some(hosted) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let Some(sealed) = hosted.sealed.take() else {
            return Ok(());
        };
        hosted.written_ms = Some(now.monotonic_ms);
        if !std::mem::replace(&mut hosted.is_watched, true) {
            self.marks.wait(now, id);
        }
        match hosted.machine.settings().flush {
            Flush::Sync => self.files.make_durable(id)?,
            Flush::Interval(ms) => {
                hosted.sync_at_ms.get_or_insert(now.monotonic_ms + ms);
            }
            Flush::Os => {}
        }
        hosted.machine.commit(sealed, out);
        hosted.effects.extend(hosted.machine.take_effects());
        let mut carrier = Carrier {
            files: &mut self.files,
            outside: &mut self.outside,
            reads: &mut self.reads,
            id,
            syncs: Syncs::InPlace,
        };
        match carrier.carry_out(hosted, out)? {
            Progress::Done => {}
            Progress::Paused => self.reads.pause(id, hosted),
            Progress::Stuck | Progress::Syncing => drop(self.touched.insert(id)),
        }
        Ok(())
    }
}

// What comes for streams that were not heard of yet: see [`early`].
impl<D: Disk> StreamHost<D> {
    /// The catalogue of this node has this stream, wherever it is, or had it.
    pub fn hear_of(&mut self, stream: QueueId) {
        self.early.hear_of(stream);
    }

    /// Lets a command wait whose stream was not heard of; else it is refused.
    pub(crate) fn wait_or_refuse(
        &mut self,
        now: Now,
        session: SessionId,
        (stream, command): (QueueId, Command),
        out: &mut Events,
    ) {
        self.early.retain(|waiting| waiting.end(session, &command));
        let gives_up_soon = matches!(session, SessionId::Operator(_));
        if self.early.has_heard_of(stream) || gives_up_soon || !command.may_wait() {
            return refuse(session, &command, out);
        }
        let pushed = self.early.push(now, session, stream, command);
        for (_, session, command) in pushed.err().unwrap_or_default() {
            refuse(session, &command, out);
        }
    }

    /// This stream may have been heard of: what has waited for that comes before all else.
    pub(crate) fn let_in(&mut self, stream: QueueId, out: &mut Events) {
        if self.early.has_heard_of(stream) {
            for (since, session, command) in self.early.take(stream) {
                self.handle(since, session, command, out);
            }
        }
    }

    /// Does what has waited for streams that were heard of since, and refuses what has waited for
    /// long enough.
    pub(crate) fn let_in_all(&mut self, now: Now, out: &mut Events) {
        for stream in self.early.heard_of() {
            self.let_in(stream, out);
        }
        for (_, session, command) in self.early.take_due(now) {
            refuse(session, &command, out);
        }
    }
}

/// Whoever has looked the stream up found it in the catalogue: this node has not heard of it yet,
/// or could not begin it, or it is deleted at this moment.
fn refuse(session: SessionId, command: &Command, out: &mut Events) {
    let refusal = Refusal::NotAvailable("this node does not run it".to_owned());
    let refused = command.refused(refusal);
    out.extend(refused.map(|event| (session, event)));
}
