//! Streams' segments are begun, appended to, synced and deleted here.

use crate::disk::{Disk, DiskFile, zeros};
use crate::error::{Fatal, OpenError, WalError};
use crate::stream::format::{
    FileHead, Newest, RECORDS_START, RecordHead, parse_name, parse_newest_name, parse_replica_name,
};
use crate::stream::journal::Journal;
use crate::stream::open::OpenFiles;
use crate::stream::replica::RESERVE_NAME;
use leveret_stream::SharedChunk;
use leveret_stream::segments::stored_bytes;
use leveret_types::QueueId;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where one stream's last segment stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastSegment {
    pub(crate) head: FileHead,
    /// Where the next record goes.
    pub(crate) end: u64,
    /// From where tracking is replayed as of the last record.
    pub(crate) replay_from: u64,
}

/// What is known of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// First offsets of its segments, ascending.
    pub(crate) segments: Vec<u64>,
    pub(crate) last: Option<LastSegment>,
    /// What is noted of the segment that was begun last.
    pub(crate) newest: Option<Newest>,
    /// The offset after the last record.
    pub(crate) next_offset: u64,
    /// The offset below which all is synced, in its segments or in the journal.
    pub(crate) durable: u64,
    /// Where that is in the last segment.
    pub(crate) durable_end: u64,
    /// Where what a start has found in the last segment was not said to be synced.
    pub(crate) unsure_from: u64,
    /// Whether there is a file of what a replica keeps beside its chunks.
    pub(crate) has_replica_file: bool,
    /// First offsets of segments whose files cannot be read as such: they stay until what they held
    /// is copied from another replica.
    pub(crate) left_out: Vec<u64>,
    /// Counts cuts: a sync that began before one says nothing of what came after it.
    pub(crate) cuts: u64,
}

/// A sync of what was appended to a stream until it was asked for. It may be done on another thread
/// while more is appended.
#[must_use]
pub struct StreamSync<D: Disk> {
    stream: QueueId,
    through: Through,
    file: Arc<D::File>,
    path: PathBuf,
}

/// How far a sync goes, and whom it is for.
#[derive(Clone, Copy, Debug)]
struct Through {
    next_offset: u64,
    segment: u64,
    end: u64,
    cuts: u64,
    /// The generation of the journal that can be forgotten once all of it is in its segments.
    journal: Option<u64>,
}

/// A [`StreamSync`] that was done.
#[derive(Debug)]
pub struct StreamSynced {
    stream: QueueId,
    through: Through,
}

impl<D: Disk> StreamSync<D> {
    /// Does it.
    ///
    /// # Errors
    /// Must end the process.
    pub fn run(self) -> Result<StreamSynced, Fatal> {
        let synced = self.file.sync_data();
        synced.map_err(|error| Fatal::new("sync", &self.path, error))?;
        Ok(StreamSynced {
            stream: self.stream,
            through: self.through,
        })
    }
}

impl StreamSynced {
    /// The stream.
    #[must_use]
    pub const fn stream(&self) -> QueueId {
        self.stream
    }

    /// Whether it was for the journal, whose files are used again, and not for the stream itself.
    #[must_use]
    pub const fn is_for_journal(&self) -> bool {
        self.through.journal.is_some()
    }
}

/// The segment files of all streams of a node, in one folder.
///
/// After an error of a write, a sync or a change of names the process must end: see [`Fatal`].
pub struct StreamFiles<D: Disk> {
    pub(crate) files: OpenFiles<D>,
    pub(crate) streams: BTreeMap<QueueId, StreamState>,
    pub(crate) journal: Journal<D>,
    /// Streams whose segments are being synced for the journal.
    pub(crate) journal_syncs: BTreeSet<QueueId>,
    /// What a start found damaged in the journal.
    pub(crate) journal_damage: Vec<String>,
    /// What new files' records are checked with: nobody who publishes may know it.
    salt: u64,
    pub(crate) has_new_names: bool,
    /// Whether there is a file that gives its room to what replicas keep beside their chunks.
    pub(crate) has_reserve: bool,
}

impl<D: Disk> StreamFiles<D> {
    /// Looks which streams there are in a folder, which is made if it is missing. `salt` is random.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn open(disk: D, folder: &Path, salt: u64) -> Result<Self, OpenError> {
        let failed = |error| OpenError::io(folder, error);
        disk.create_dir_all(folder).map_err(failed)?;
        // An earlier process may have been killed between a change of names and its sync.
        disk.sync_dir(folder).map_err(failed)?;
        let mut streams: BTreeMap<QueueId, StreamState> = BTreeMap::new();
        let mut has_reserve = false;
        for name in disk.list(folder).map_err(failed)? {
            has_reserve |= name == RESERVE_NAME;
            if let Some((stream, first_offset)) = parse_name(&name) {
                let state = streams.entry(stream).or_default();
                state.segments.push(first_offset);
            } else if let Some((stream, newest)) = parse_newest_name(&name) {
                let state = streams.entry(stream).or_default();
                state.newest = state.newest.max(Some(newest));
            } else if let Some(stream) = parse_replica_name(&name) {
                streams.entry(stream).or_default().has_replica_file = true;
            }
        }
        for state in streams.values_mut() {
            state.segments.sort_unstable();
        }
        let (journal, found) = Journal::open(disk.clone(), folder, salt)?;
        let mut files = Self {
            files: OpenFiles::new(disk, folder.to_owned()),
            streams,
            journal,
            journal_syncs: BTreeSet::new(),
            journal_damage: found.damage,
            salt,
            has_new_names: false,
            has_reserve,
        };
        match files.replay(&found.parts) {
            Err(WalError::NoSpace) if files.journal.give_room()? => files.replay(&found.parts)?,
            replayed => replayed?,
        }
        files.journal.begin()?;
        Ok(files)
    }

    /// A number for this run of the process, drawn with the salt.
    #[must_use]
    pub fn life(&self) -> u32 {
        crc32c::crc32c(&self.salt.to_le_bytes())
    }

    /// The same, of another kind: this run alone has it, and it is never 0.
    pub(crate) fn run_number(&self) -> u64 {
        self.salt.max(1)
    }

    /// The streams that have files.
    pub fn streams(&self) -> impl Iterator<Item = QueueId> {
        self.streams.keys().copied()
    }

    /// Begins a segment. The one before is made durable: only a last segment has a torn end.
    ///
    /// # Errors
    /// If the disk is full, nothing has happened; any other error must end the process.
    pub fn begin_segment(&mut self, stream: QueueId, first_offset: u64) -> Result<(), WalError> {
        self.sync(stream)?;
        self.delete_left_out(stream)?;
        let name = (stream, first_offset);
        let salt = self.salt;
        let head = FileHead {
            stream,
            first_offset,
            salt,
        };
        // A file that a full disk left behind half made is made again.
        self.delete_file(name)?;
        let made = self.files.create(name);
        let head_bytes = head.encode();
        let zeros = zeros(RECORDS_START - head_bytes.len() as u64);
        let slices: Vec<_> = std::iter::once(IoSlice::new(&head_bytes))
            .chain(zeros)
            .collect();
        let written = made.and_then(|file| file.write_at(&slices, 0));
        written.map_err(|error| self.refused("create", name, error))?;
        // A head that is not sound can only be damage once chunks are behind it.
        self.files.set_dirty(name);
        let synced = self.files.sync(name);
        synced.map_err(|error| self.files.fatal("sync", name, error))?;
        self.has_new_names = true;
        self.sync_names()?;
        self.name_newest(stream, Some(first_offset))?;
        let state = self.streams.entry(stream).or_default();
        state.segments.push(first_offset);
        state.next_offset = first_offset;
        state.durable = state.durable.max(first_offset);
        state.durable_end = RECORDS_START;
        state.last = Some(LastSegment {
            head,
            end: RECORDS_START,
            replay_from: RECORDS_START,
        });
        Ok(())
    }

    /// Appends a chunk to the stream's last segment; `is_replay_start` if no chunk before it is
    /// needed to know the stream's tracking.
    ///
    /// # Errors
    /// If the disk is full, the chunk may be appended again; any other error must end the process.
    ///
    /// # Panics
    /// If no segment was begun.
    pub fn append(
        &mut self,
        stream: QueueId,
        chunk: &SharedChunk,
        is_replay_start: bool,
    ) -> Result<(), WalError> {
        let state = self.streams.get_mut(&stream);
        let state = state.expect("a segment was begun before it is appended to");
        let last = state
            .last
            .expect("a segment was begun before it is appended to");
        assert_eq!(
            chunk.header().first_offset,
            state.next_offset,
            "no offset is left out"
        );
        let (position, durable) = (last.end, state.durable);
        let is_replay_start = is_replay_start || position == RECORDS_START;
        let replay_from = if is_replay_start {
            position
        } else {
            last.replay_from
        };
        let head = RecordHead::encode(&last.head, position, chunk, durable, replay_from);
        let name = (stream, last.head.first_offset);
        let stored = stored_bytes(chunk.header());
        // The sector is filled here: a later write that began in it could harm what is durable.
        let padding = zeros(stored - (head.len() + chunk.bytes().len()) as u64);
        let record = [IoSlice::new(&head), IoSlice::new(chunk.bytes())];
        let slices: Vec<_> = record.into_iter().chain(padding).collect();
        let file = self.files.get(name);
        let written = file.and_then(|file| file.write_at(&slices, position));
        self.files.set_dirty(name);
        written.map_err(|error| self.refused("write", name, error))?;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.next_offset = chunk.header().next_offset();
            state.last = Some(LastSegment {
                end: position + stored,
                replay_from,
                ..last
            });
        }
        Ok(())
    }

    pub(crate) fn refused(
        &self,
        call: &'static str,
        name: (QueueId, u64),
        error: io::Error,
    ) -> WalError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => WalError::NoSpace,
            _ => self.files.fatal(call, name, error).into(),
        }
    }

    /// Makes all that was appended to a stream durable.
    ///
    /// # Errors
    /// Must end the process.
    pub fn sync(&mut self, stream: QueueId) -> Result<(), Fatal> {
        let Some(state) = self.streams.get(&stream) else {
            return Ok(());
        };
        if let Some(last) = state.last {
            let name = (stream, last.head.first_offset);
            let synced = self.files.sync(name);
            synced.map_err(|error| self.files.fatal("sync", name, error))?;
        }
        self.sync_names()?;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.durable = state.next_offset;
            state.durable_end = state.last.map_or(RECORDS_START, |last| last.end);
        }
        self.journal.synced(stream);
        Ok(())
    }

    /// A sync of all that was appended to a stream so far, for whoever calls [`StreamSync::run`]
    /// and then [`Self::synced`]; nothing if there is nothing to sync.
    ///
    /// # Errors
    /// Must end the process.
    pub fn begin_sync(&mut self, stream: QueueId) -> Result<Option<StreamSync<D>>, Fatal> {
        let state = self.streams.get(&stream);
        if state.is_none_or(|state| state.durable >= state.next_offset) {
            return Ok(None);
        }
        self.sync_names()?;
        self.sync_of(stream, None)
    }

    pub(crate) fn sync_of(
        &mut self,
        stream: QueueId,
        journal: Option<u64>,
    ) -> Result<Option<StreamSync<D>>, Fatal> {
        let state = self.streams.get(&stream);
        let Some((last, next_offset, cuts)) =
            state.and_then(|state| Some((state.last?, state.next_offset, state.cuts)))
        else {
            return Ok(None);
        };
        // The segment before was synced when this one began.
        let name = (stream, last.head.first_offset);
        let file = self.files.get(name);
        let file = file.map_err(|error| self.files.fatal("open", name, error))?;
        Ok(Some(StreamSync {
            stream,
            through: Through {
                next_offset,
                segment: last.head.first_offset,
                end: last.end,
                cuts,
                journal,
            },
            file,
            path: self.files.path(name),
        }))
    }

    /// A sync was done: what it covered is durable.
    pub fn synced(&mut self, synced: &StreamSynced) {
        let (stream, through) = (synced.stream, synced.through);
        if let Some(generation) = through.journal {
            self.journal_syncs.remove(&stream);
            self.journal.synced_of(generation, stream);
        }
        if let Some(state) = self.streams.get_mut(&stream)
            && state.cuts == through.cuts
            && state.durable < through.next_offset
        {
            state.durable = through.next_offset;
            let segment = state.last.map(|last| last.head.first_offset);
            if segment == Some(through.segment) {
                state.durable_end = through.end;
            }
        }
    }

    pub(crate) fn sync_names(&mut self) -> Result<(), Fatal> {
        if std::mem::take(&mut self.has_new_names) {
            let folder = self.files.folder();
            let synced = self.files.disk().sync_dir(folder);
            synced.map_err(|error| Fatal::new("sync", folder, error))?;
        }
        Ok(())
    }

    /// Deletes a segment, durably: of several that are deleted none comes back without those after
    /// it.
    ///
    /// # Errors
    /// Must end the process.
    pub fn delete_segment(&mut self, stream: QueueId, first_offset: u64) -> Result<(), Fatal> {
        if self.last_segment(stream) == Some(first_offset) {
            // Another one may get its name.
            self.forget_journaled(stream)?;
        }
        self.unname_newest(stream, first_offset)?;
        self.delete_file((stream, first_offset))?;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.segments.retain(|segment| *segment != first_offset);
            let last = state.last;
            state.last = last.filter(|last| last.head.first_offset != first_offset);
        }
        self.sync_names()
    }

    /// Deletes a stream with all its segments, durably.
    ///
    /// # Errors
    /// Must end the process.
    pub fn delete_stream(&mut self, stream: QueueId) -> Result<(), Fatal> {
        // What it has need not be synced any more. But one that is made anew, as a replica that is
        // added again, has the same names, and a start must not write this one's bytes to it.
        self.journal.synced(stream);
        self.forget_journaled(stream)?;
        self.name_newest(stream, None)?;
        let state = self.streams.remove(&stream).unwrap_or_default();
        for segment in state.segments.into_iter().chain(state.left_out) {
            self.delete_file((stream, segment))?;
        }
        if state.has_replica_file {
            self.delete_replica_file(stream)?;
        }
        self.sync_names()
    }

    /// Deletes the files of segments that were left out.
    pub(crate) fn delete_left_out(&mut self, stream: QueueId) -> Result<(), Fatal> {
        let state = self.streams.get_mut(&stream);
        let left_out = state.map(|state| std::mem::take(&mut state.left_out));
        for segment in left_out.unwrap_or_default() {
            self.delete_file((stream, segment))?;
        }
        Ok(())
    }

    fn delete_file(&mut self, name: (QueueId, u64)) -> Result<(), Fatal> {
        self.files.close(name);
        self.has_new_names = true;
        match self.files.disk().delete(&self.files.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.files.fatal("delete", name, error))
            }
            _ => Ok(()),
        }
    }
}
