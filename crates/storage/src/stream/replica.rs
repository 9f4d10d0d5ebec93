//! What a stream needs on disk as one of several replicas: a small file beside its segments, and
//! cuts.

use crate::disk::{Disk, DiskFile, filler, read_whole};
use crate::error::{Fatal, OpenError, WalError};
use crate::stream::files::StreamFiles;
use crate::stream::format::{NEW_SUFFIX, replica_file_name};
use crate::stream::read::SegmentReader;
use crate::stream::recover::RecoveredStream;
use leveret_stream::ReplicaState;
use leveret_stream::replica::StateError;
use leveret_types::QueueId;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

/// Name of the file that gives its room to the small files of replicas.
pub(crate) const RESERVE_NAME: &str = "replica.reserve";
/// Its bytes: blocks for the longest of these files, which are replaced one at a time, and for
/// their folder.
const RESERVE_BYTES: usize = 16 * 1024;

/// What a refused call on a file means.
fn failed(call: &'static str, path: &Path, error: io::Error) -> WalError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => WalError::NoSpace,
        _ => Fatal::new(call, path, error).into(),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

impl<D: Disk> StreamFiles<D> {
    fn replica_path(&self, stream: QueueId) -> PathBuf {
        self.files.folder().join(replica_file_name(stream))
    }

    /// What a replica kept beside its chunks; `None` if there is no such file.
    ///
    /// # Errors
    /// If the disk refuses, or the file is damaged or of a later version.
    pub fn replica_state(&self, stream: QueueId) -> Result<Option<ReplicaState>, OpenError> {
        let path = self.replica_path(stream);
        let bytes = match read_whole(self.files.disk(), &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io(&path, error)),
        };
        match ReplicaState::decode(&bytes) {
            Ok(state) => Ok(Some(state)),
            Err(StateError::Newer(version)) => Err(OpenError::Newer { path, version }),
            Err(StateError::Damaged) => Err(OpenError::Damaged {
                path,
                what: "what a stream's replica keeps beside its chunks",
            }),
        }
    }

    /// Replaces what a replica keeps beside its chunks, durably. On a full disk the reserve gives
    /// its room: without what is kept here a replica can neither follow a new leader nor cut,
    /// which would make room.
    ///
    /// # Errors
    /// If the disk is full, what was kept before is; any other error must end the process.
    pub fn save_replica_state(
        &mut self,
        stream: QueueId,
        state: &ReplicaState,
    ) -> Result<(), WalError> {
        let path = self.replica_path(stream);
        let bytes = state.encode();
        let mut written = self.replace(&path, &bytes);
        if matches!(written, Err(WalError::NoSpace)) && self.give_reserve() {
            written = self.replace(&path, &bytes);
        }
        written?;
        self.streams.entry(stream).or_default().has_replica_file = true;
        self.has_new_names = true;
        self.sync_names()?;
        self.keep_reserve();
        Ok(())
    }

    /// Replaces a small file as a whole; its name is durable once its folder is synced.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), WalError> {
        let new_path = with_suffix(path, NEW_SUFFIX);
        self.write_new(&new_path, bytes)?;
        let renamed = self.files.disk().rename(&new_path, path);
        renamed.map_err(|error| failed("rename", &new_path, error))
    }

    /// Writes a file that a crash or a full disk may have left half made.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<(), WalError> {
        let disk = self.files.disk();
        match disk.delete(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("delete", path, error));
            }
            _ => {}
        }
        let file = disk.create_new(path);
        let file = file.map_err(|error| failed("create", path, error))?;
        let written = file.write_at(&[IoSlice::new(bytes)], 0);
        written.map_err(|error| failed("write", path, error))?;
        let synced = file.sync_data();
        Ok(synced.map_err(|error| Fatal::new("sync", path, error))?)
    }

    fn reserve_path(&self) -> PathBuf {
        self.files.folder().join(RESERVE_NAME)
    }

    /// Gives the room of the reserve away; whether there was one.
    pub(crate) fn give_reserve(&mut self) -> bool {
        std::mem::take(&mut self.has_reserve)
            && self.files.disk().delete(&self.reserve_path()).is_ok()
    }

    /// Makes the reserve where it is missing and there is room for it.
    fn keep_reserve(&mut self) {
        if self.has_reserve {
            return;
        }
        let path = self.reserve_path();
        self.has_reserve = self.write_new(&path, &filler(0, RESERVE_BYTES)).is_ok();
        if !self.has_reserve {
            let _ = self.files.disk().delete(&path);
        }
    }

    /// Deletes what a replica kept beside its chunks.
    pub(crate) fn delete_replica_file(&mut self, stream: QueueId) -> Result<(), Fatal> {
        let path = self.replica_path(stream);
        for path in [with_suffix(&path, NEW_SUFFIX), path] {
            self.has_new_names = true;
            match self.files.disk().delete(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Fatal::new("delete", &path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Cuts all chunks from an offset on, durably; the stream must be recovered before it is
    /// appended to. A cut that a crash has interrupted must be made once more before that: what is
    /// left looks damaged. Of a chunk that lies on both sides nothing is left.
    ///
    /// # Errors
    /// Must end the process.
    pub fn cut(&mut self, stream: QueueId, next_offset: u64) -> Result<(), Fatal> {
        self.forget_journaled(stream)?;
        self.delete_left_out(stream)?;
        self.name_left_by_cut(stream, next_offset)?;
        // The newest one first: what is left has no gap.
        while let Some(segment) = self.last_segment(stream)
            && segment >= next_offset
        {
            self.delete_segment(stream, segment)?;
        }
        if let Some(state) = self.streams.get_mut(&stream) {
            state.last = None;
            state.next_offset = 0;
            state.durable = 0;
            state.durable_end = 0;
            state.cuts += 1;
        }
        let Some(segment) = self.last_segment(stream) else {
            return Ok(());
        };
        let name = (stream, segment);
        let cut = self.cut_segment(name, next_offset);
        cut.map_err(|error| self.files.fatal("cut", name, error))
    }

    /// Cuts, and says what is left.
    ///
    /// # Errors
    /// Must end the process.
    pub fn cut_and_recover(
        &mut self,
        stream: QueueId,
        next_offset: u64,
    ) -> Result<RecoveredStream, Fatal> {
        self.cut(stream, next_offset)?;
        let found = self.recover_replica(stream);
        found.map_err(|error| self.unusable(stream, error))
    }

    /// That a stream's files cannot be gone on with.
    pub fn unusable(
        &self,
        stream: QueueId,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Fatal {
        Fatal::new(
            "go on with",
            &self.replica_path(stream),
            io::Error::other(error),
        )
    }

    fn cut_segment(&mut self, name: (QueueId, u64), next_offset: u64) -> io::Result<()> {
        let file = self.files.get(name)?;
        // Without a head it was being made: nothing is in it.
        let Ok(reader) = SegmentReader::open(&*file, name, None)? else {
            return Ok(());
        };
        let from = reader.search(|record| record.chunk.next_offset() <= next_offset)?;
        if !reader.is_zero_from(from)? {
            self.write_zeros(&file, from..reader.end)?;
            self.files.set_dirty(name);
        }
        self.files.sync(name)
    }
}
