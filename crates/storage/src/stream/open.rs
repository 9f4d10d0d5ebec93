//! The files of streams that are open: a thousand streams must not need a thousand handles.

use crate::disk::{Disk, DiskFile};
use crate::error::Fatal;
use crate::stream::format::file_name;
use leveret_types::QueueId;
use leveret_types::descriptors::stream_files_open_max;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment file: its stream and first offset.
pub(crate) type Name = (QueueId, u64);

struct OpenFile<F> {
    file: Arc<F>,
    used: u64,
    is_dirty: bool,
}

/// Files that are open, and which of them have bytes that are not synced.
pub(crate) struct OpenFiles<D: Disk> {
    disk: D,
    folder: PathBuf,
    files: HashMap<Name, OpenFile<D::File>>,
    /// How many are kept open.
    open_max: usize,
    /// Counts uses: the file that was used longest ago is closed first.
    uses: u64,
    /// A sync of a file that was to be closed has failed.
    failure: Option<Fatal>,
}

impl<D: Disk> OpenFiles<D> {
    pub(crate) fn new(disk: D, folder: PathBuf) -> Self {
        Self {
            open_max: stream_files_open_max(disk.descriptors()),
            disk,
            folder,
            files: HashMap::new(),
            uses: 0,
            failure: None,
        }
    }

    /// That a sync has failed of a file that was to be closed, whoever asked for what: the process
    /// must end before anything else is confirmed, as no later sync makes that good.
    pub(crate) fn check(&mut self) -> Result<(), Fatal> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, (stream, first_offset): Name) -> PathBuf {
        self.folder.join(file_name(stream, first_offset))
    }

    pub(crate) fn fatal(&self, call: &'static str, name: Name, error: io::Error) -> Fatal {
        Fatal::new(call, &self.path(name), error)
    }

    /// The file, opened if need be.
    pub(crate) fn get(&mut self, name: Name) -> io::Result<Arc<D::File>> {
        if let Some(open) = self.files.get_mut(&name) {
            self.uses += 1;
            open.used = self.uses;
            return Ok(Arc::clone(&open.file));
        }
        let file = self.disk.open(&self.path(name))?;
        self.keep(name, file)
    }

    /// Makes a file that must not exist.
    pub(crate) fn create(&mut self, name: Name) -> io::Result<Arc<D::File>> {
        let file = self.disk.create_new(&self.path(name))?;
        self.keep(name, file)
    }

    fn keep(&mut self, name: Name, file: D::File) -> io::Result<Arc<D::File>> {
        if self.files.len() >= self.open_max {
            // One that needs no sync, if there is one.
            let oldest = self.files.iter();
            let oldest = oldest.min_by_key(|(_, open)| (open.is_dirty, open.used));
            if let Some(oldest) = oldest.map(|(name, _)| *name) {
                if let Err(error) = self.sync(oldest) {
                    let fatal = self.fatal("sync", oldest, error);
                    let said = io::Error::other(fatal.to_string());
                    self.failure.get_or_insert(fatal);
                    return Err(said);
                }
                self.files.remove(&oldest);
            }
        }
        self.uses += 1;
        let (file, used) = (Arc::new(file), self.uses);
        let open = OpenFile {
            file: Arc::clone(&file),
            used,
            is_dirty: false,
        };
        self.files.insert(name, open);
        Ok(file)
    }

    /// The file has bytes that are not synced.
    pub(crate) fn set_dirty(&mut self, name: Name) {
        if let Some(open) = self.files.get_mut(&name) {
            open.is_dirty = true;
        }
    }

    /// Syncs a file if it has bytes that are not.
    pub(crate) fn sync(&mut self, name: Name) -> io::Result<()> {
        match self.files.get_mut(&name) {
            Some(open) if open.is_dirty => {
                open.file.sync_data()?;
                open.is_dirty = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Closes a file that is to be deleted.
    pub(crate) fn close(&mut self, name: Name) {
        self.files.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::disk::MemoryDisk;
    use leveret_types::limits::STREAM_FILES_OPEN_MAX;
    use std::io::IoSlice;

    #[test]
    fn files_beyond_the_limit_are_closed_once_they_are_synced() {
        let disk = MemoryDisk::new();
        let mut files = OpenFiles::new(disk.clone(), PathBuf::from("streams"));
        let name = |n: usize| (QueueId(n as u64), 0);
        for n in 0..=STREAM_FILES_OPEN_MAX {
            let file = files.create(name(n)).unwrap();
            file.write_at(&[IoSlice::new(&[n as u8])], 0).unwrap();
            files.set_dirty(name(n));
            assert_eq!(disk.counts().syncs, u64::from(n == STREAM_FILES_OPEN_MAX));
        }
        assert_eq!(files.files.len(), STREAM_FILES_OPEN_MAX);
        let mut byte = [1];
        files.get(name(0)).unwrap().read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [0]);
        assert!(
            !files.files.contains_key(&name(1)),
            "the one used longest ago"
        );
    }

    /// As many files as are kept open, none of which has anything to sync.
    fn full(disk: &MemoryDisk) -> OpenFiles<MemoryDisk> {
        let mut files = OpenFiles::new(disk.clone(), PathBuf::from("streams"));
        for n in 0..STREAM_FILES_OPEN_MAX as u64 {
            files.create((QueueId(n), 0)).unwrap();
        }
        files
    }

    #[test]
    fn a_file_that_needs_no_sync_is_closed_before_others() {
        let disk = MemoryDisk::new();
        let mut files = full(&disk);
        let clean = STREAM_FILES_OPEN_MAX as u64 - 1;
        (0..clean).for_each(|n| files.set_dirty((QueueId(n), 0)));
        files.create((QueueId(clean + 1), 0)).unwrap();
        assert_eq!(disk.counts().syncs, 0);
        assert!(!files.files.contains_key(&(QueueId(clean), 0)));
        assert_eq!(files.files.len(), STREAM_FILES_OPEN_MAX);
        // One that was synced is as good.
        files.sync((QueueId(5), 0)).unwrap();
        files.set_dirty((QueueId(clean + 1), 0));
        files.create((QueueId(clean + 2), 0)).unwrap();
        assert_eq!(disk.counts().syncs, 1);
        assert!(!files.files.contains_key(&(QueueId(5), 0)));
    }

    #[test]
    fn a_file_that_is_used_again_stays_open() {
        let mut files = full(&MemoryDisk::new());
        files.get((QueueId(0), 0)).unwrap();
        files.create((QueueId(u64::MAX), 0)).unwrap();
        assert!(files.files.contains_key(&(QueueId(0), 0)));
        assert!(!files.files.contains_key(&(QueueId(1), 0)));
    }
}
