//! The files that readers keep open, for all readers of a store together: a file that is deleted
//! must be closed, or the disk keeps its bytes for as long as anybody has it open.

use crate::disk::Disk;
use crate::folders::{Folders, SegmentFolders};
use crate::id::{FileId, Generation};
use crate::{segment, wal};
use leveret_types::descriptors::read_files_open_max;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// Of the write-ahead log.
    Wal(Generation),
    /// A segment.
    Segment(FileId),
}

impl Name {
    /// What is told of a read that failed.
    pub(crate) fn says(self, error: &io::Error) -> String {
        match self {
            Self::Wal(generation) => {
                let name = wal::writer::file_name(generation);
                format!("write-ahead log file {name}: {error}")
            }
            Self::Segment(file) => {
                let name = segment::format::file_name(file);
                format!("segment file {name}: {error}")
            }
        }
    }
}

/// Open files, most recently used last, and how often one was closed.
struct OpenList<F> {
    files: Vec<(Name, Arc<F>)>,
    closed: u64,
}

impl<F> OpenList<F> {
    /// The file, if it is open: from now on the one that was used last.
    fn find(&mut self, name: Name) -> Option<Arc<F>> {
        let at = self.files.iter().position(|(other, _)| *other == name)?;
        self.files[at..].rotate_left(1);
        self.files.last().map(|(_, file)| Arc::clone(file))
    }
}

/// Locked by all readers for every read: nothing is opened under the lock, and nothing is dropped
/// that may be the last to hold a file, as closing a deleted one frees its space then and there.
struct Open<F>(Mutex<OpenList<F>>);

impl<F> Open<F> {
    fn lock(&self) -> MutexGuard<'_, OpenList<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens files and keeps those open that were used last. Clones share them.
pub(crate) struct OpenFiles<D: Disk> {
    disk: D,
    wal: PathBuf,
    segments: SegmentFolders,
    open: Arc<Open<D::File>>,
    /// How many are kept open.
    open_max: usize,
}

impl<D: Disk> Clone for OpenFiles<D> {
    fn clone(&self) -> Self {
        Self {
            disk: self.disk.clone(),
            wal: self.wal.clone(),
            segments: self.segments.clone(),
            open: Arc::clone(&self.open),
            open_max: self.open_max,
        }
    }
}

impl<D: Disk> OpenFiles<D> {
    pub(crate) fn new(disk: D, folders: &Folders) -> Self {
        Self {
            open_max: read_files_open_max(disk.descriptors()),
            disk,
            wal: folders.wal.clone(),
            segments: folders.segments(),
            open: Arc::new(Open(Mutex::new(OpenList {
                files: Vec::new(),
                closed: 0,
            }))),
        }
    }

    /// The file, opened if need be. It is kept open unless some file was closed in the meantime:
    /// it may be this one, which was deleted right after it had been opened here.
    pub(crate) fn get(&self, name: Name) -> io::Result<Arc<D::File>> {
        let mut open = self.open.lock();
        if let Some(file) = open.find(name) {
            return Ok(file);
        }
        let closed = open.closed;
        drop(open);
        let file = Arc::new(match name {
            Name::Wal(generation) => {
                let path = self.wal.join(wal::writer::file_name(generation));
                self.disk.open(&path)?
            }
            Name::Segment(file) => self.segments.open(&self.disk, file)?,
        });
        let mut open = self.open.lock();
        if let Some(same) = open.find(name) {
            // Another reader was faster; the file opened here is dropped behind the lock.
            drop(open);
            return Ok(same);
        }
        let mut evicted = None;
        if open.closed == closed {
            if open.files.len() >= self.open_max {
                evicted = Some(open.files.remove(0));
            }
            open.files.push((name, Arc::clone(&file)));
        }
        drop(open);
        drop(evicted);
        Ok(file)
    }

    /// A file has been deleted, or has another name now: it is closed, at the latest with the read
    /// that is under way.
    pub(crate) fn close(&self, name: Name) {
        let mut open = self.open.lock();
        open.closed += 1;
        let at = open.files.iter().position(|(other, _)| *other == name);
        let closed = at.map(|at| open.files.remove(at));
        drop(open);
        drop(closed);
    }

    /// The folder of the write-ahead log.
    pub(crate) fn wal(&self) -> &Path {
        &self.wal
    }

    /// The folders of the segment files.
    pub(crate) fn segments(&self) -> &SegmentFolders {
        &self.segments
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::{Name, OpenFiles};
    use crate::disk::{Disk, DiskFile};
    use crate::folders::Folders;
    use leveret_types::limits::READ_FILES_OPEN_MAX;
    use std::io::{self, IoSlice};
    use std::path::Path;
    use std::sync::{Arc, Mutex, OnceLock};

    /// What is done each time that a file is opened or closed.
    type Hook = Box<dyn Fn(&'static str) + Send + Sync>;

    /// A disk of which nothing is asked but to open files.
    #[derive(Clone, Default)]
    struct HookedDisk(Arc<OnceLock<Hook>>);

    struct HookedFile(HookedDisk);

    impl HookedDisk {
        fn call(&self, what: &'static str) {
            if let Some(hook) = self.0.get() {
                hook(what);
            }
        }
    }

    impl Disk for HookedDisk {
        type File = HookedFile;
        type Lock = ();

        fn create_dir_all(&self, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn create_new(&self, _: &Path) -> io::Result<HookedFile> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn open(&self, _: &Path) -> io::Result<HookedFile> {
            self.call("open");
            Ok(HookedFile(self.clone()))
        }
        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn delete(&self, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn list(&self, _: &Path) -> io::Result<Vec<String>> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync_dir(&self, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn lock(&self, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    impl DiskFile for HookedFile {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn write_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync_data(&self) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn len(&self) -> io::Result<u64> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    impl Drop for HookedFile {
        fn drop(&mut self) {
            self.0.call("close");
        }
    }

    fn hooked(
        hook: impl Fn(&OpenFiles<HookedDisk>, &'static str) + Send + Sync + 'static,
    ) -> OpenFiles<HookedDisk> {
        let disk = HookedDisk::default();
        let folders = Folders::within(Path::new("f"));
        let files = OpenFiles::new(disk.clone(), &folders);
        let weak = Arc::downgrade(&files.open);
        let quiet = HookedDisk::default();
        let hook = move |what| {
            if let Some(open) = weak.upgrade() {
                let (wal, segments) = (folders.wal.clone(), folders.segments());
                hook(
                    &OpenFiles {
                        disk: quiet.clone(),
                        wal,
                        segments,
                        open,
                        open_max: READ_FILES_OPEN_MAX,
                    },
                    what,
                );
            }
        };
        assert!(disk.0.set(Box::new(hook)).is_ok());
        files
    }

    #[test]
    fn no_reader_waits_while_another_one_opens_a_file_or_one_is_closed() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let files = hooked(move |files, what| {
            log.lock()
                .unwrap()
                .push((what, files.open.0.try_lock().is_ok()));
        });
        for file in 0..=READ_FILES_OPEN_MAX as u64 {
            files.get(Name::Segment(file)).unwrap();
        }
        files.close(Name::Segment(7));
        let seen = seen.lock().unwrap();
        let count = |of| seen.iter().filter(|(what, _)| *what == of).count();
        assert_eq!(
            (count("open"), count("close")),
            (READ_FILES_OPEN_MAX + 1, 2)
        );
        assert!(seen.iter().all(|(_, free)| *free), "{seen:?}");
    }

    #[test]
    fn a_file_that_is_deleted_while_it_is_opened_is_not_kept_open() {
        let files = hooked(|files, what| {
            if what == "open" {
                files.close(Name::Segment(1));
            }
        });
        drop(files.get(Name::Segment(1)).unwrap());
        assert!(files.open.lock().files.is_empty());
    }

    #[test]
    fn two_readers_that_open_a_file_at_once_share_it() {
        let files = hooked(|files, what| {
            if what == "open" {
                files.get(Name::Segment(1)).unwrap();
            }
        });
        let one = files.get(Name::Segment(1)).unwrap();
        let other = files.get(Name::Segment(1)).unwrap();
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(files.open.lock().files.len(), 1);
    }

    #[test]
    fn a_file_that_is_used_again_stays_open() {
        let files = hooked(|_, _| {});
        for file in 0..READ_FILES_OPEN_MAX as u64 {
            files.get(Name::Segment(file)).unwrap();
        }
        let first = files.get(Name::Segment(0)).unwrap();
        files.get(Name::Wal(0)).unwrap();
        let is_open = |name| {
            let open = files.open.lock();
            open.files.iter().any(|(other, _)| *other == name)
        };
        assert!(is_open(Name::Segment(0)) && is_open(Name::Wal(0)));
        assert!(!is_open(Name::Segment(1)) && is_open(Name::Segment(2)));
        assert!(Arc::ptr_eq(&first, &files.get(Name::Segment(0)).unwrap()));
    }
}
