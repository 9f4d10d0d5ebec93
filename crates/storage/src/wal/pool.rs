//! Files written once with zeros, so that later writes change no metadata: a sync of such a file
//! costs a third.

use crate::disk::{Disk, DiskFile, write_filler, write_zeros};
use crate::error::Fatal;
use crate::wal::writer::BEGUN_SUFFIX;
use leveret_types::limits::WAL_BATCH_BYTES_MAX;
use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Fills a part of a file.
type Fill<F> = fn(&F, Range<u64>) -> io::Result<()>;

/// Name of the file that is kept for a start that finds no prepared one.
pub(crate) const RESERVE_NAME: &str = "log.reserve";
/// Its bytes at most: room for what a start writes again, and for what it needs until it has freed
/// something.
const RESERVE_BYTES: u64 = 2 * WAL_BATCH_BYTES_MAX as u64;
/// Bytes that a prepared file leaves to others on the disk: small files, segments, streams.
const SPARE_BYTES: u64 = 1024 * 1024;

/// A file that is ready to become a part of the write-ahead log.
#[derive(Debug, PartialEq, Eq)]
pub struct PreparedFile {
    pub(crate) path: PathBuf,
    /// Its length.
    pub(crate) bytes: u64,
}

/// Name of a prepared file.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016x}.free")
}

/// Length of the file that is kept for a start, of a log whose files have `file_bytes`.
pub(crate) fn reserve_bytes(file_bytes: u64) -> u64 {
    file_bytes.min(RESERVE_BYTES)
}

/// The number in a prepared file's name.
pub(crate) fn parse_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".free").filter(|d| d.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Why no file could be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The disk is full; what was written is deleted again.
    #[error("no space for another file of the write-ahead log")]
    NoSpace,
    /// End the process.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// Makes and recycles files for [`crate::WalWriter::supply`], on a thread that may wait.
#[derive(Debug)]
pub struct WalPool<D: Disk> {
    disk: D,
    folder: PathBuf,
    file_bytes: u64,
    next_number: u64,
    reserve: Reserve,
}

/// Whether there is a file that is kept for a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserve {
    /// Nobody has looked yet.
    Unknown,
    There,
    /// There was no room for it.
    Missing,
}

impl<D: Disk> WalPool<D> {
    pub(crate) fn new(disk: D, folder: &Path, file_bytes: u64, next_number: u64) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            file_bytes,
            next_number,
            reserve: Reserve::Unknown,
        }
    }

    /// Makes the file that is kept for a start on a full disk; false when there is no space for it.
    /// To be called again once there is.
    ///
    /// # Errors
    /// Any other failure is [`Fatal`].
    pub fn keep_reserve(&mut self) -> Result<bool, Fatal> {
        let path = self.folder.join(RESERVE_NAME);
        // The log's writer may have given it up.
        if self.reserve == Reserve::There && self.disk.open(&path).is_ok() {
            return Ok(true);
        }
        let fail = |error| Fatal::new("list", &self.folder, error);
        let names = self.disk.list(&self.folder).map_err(fail)?;
        let is_there = names.iter().any(|name| name == RESERVE_NAME);
        // An earlier try has left it if it could not be deleted then.
        match self.disk.delete(&begun_path(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Fatal::new("delete", &path, error));
            }
            _ => {}
        }
        let made = is_there || self.make(&path, reserve_bytes(self.file_bytes), write_filler)?;
        self.reserve = match made {
            true => Reserve::There,
            false => Reserve::Missing,
        };
        Ok(made)
    }

    /// Gives the file that is kept for a start, if there is one: the log has no other.
    pub(crate) fn take_reserve(&mut self) -> Result<Option<PreparedFile>, Fatal> {
        let kept = self.folder.join(RESERVE_NAME);
        let path = self.next_path();
        let fail = |error| Fatal::new("take", &kept, error);
        match self.disk.rename(&kept, &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error)),
        }
        let file = self.disk.open(&path).map_err(fail)?;
        let bytes = file.len().map_err(fail)?;
        Ok(Some(PreparedFile { path, bytes }))
    }

    /// Writes a new file full of zeros. It has its name only when all of it is durable: what a sync
    /// that failed has left in memory looks whole to the next start, and no later sync writes it.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn prepare(&mut self) -> Result<PreparedFile, PrepareError> {
        let (path, bytes) = (self.next_path(), self.file_bytes);
        match self.make(&path, bytes, write_zeros)? {
            true => Ok(PreparedFile { path, bytes }),
            false => Err(PrepareError::NoSpace),
        }
    }

    /// Bytes that must be free beside those that are, before [`Self::prepare`] finds space; `None`
    /// where the disk does not say how many are.
    pub fn lacks_bytes(&self) -> Option<u64> {
        let free = self.disk.free_bytes(&self.folder)?;
        Some((self.file_bytes + SPARE_BYTES).saturating_sub(free))
    }

    /// The folder of the log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a file of so many bytes, filled by `fill`; false if there is no space.
    fn make(&self, path: &Path, bytes: u64, fill: Fill<D::File>) -> Result<bool, Fatal> {
        // Where it does not fit, others had no space either while it was tried.
        let free = self.disk.free_bytes(&self.folder);
        if free.is_some_and(|free| free < bytes + SPARE_BYTES) {
            return Ok(false);
        }
        let begun = begun_path(path);
        match self.write_whole(&begun, path, bytes, fill) {
            Ok(()) => Ok(true),
            Err((_, error)) if is_full(&error) => {
                // What remains of it, under either name, is deleted at the next start if this fails
                // too.
                drop(self.disk.delete(&begun));
                drop(self.disk.delete(path));
                Ok(false)
            }
            Err((call, error)) => Err(Fatal::new(call, path, error)),
        }
    }

    fn write_whole(
        &self,
        begun: &Path,
        path: &Path,
        bytes: u64,
        fill: Fill<D::File>,
    ) -> Result<(), (&'static str, io::Error)> {
        let file = self.disk.create_new(begun).map_err(|e| ("create", e))?;
        fill(&file, 0..bytes).map_err(|e| ("write", e))?;
        file.sync_data().map_err(|e| ("sync", e))?;
        let renamed = self.disk.rename(begun, path);
        renamed.map_err(|e| ("rename", e))?;
        self.disk
            .sync_dir(&self.folder)
            .map_err(|e| ("sync of the folder", e))
    }

    /// Takes a file that the write-ahead log no longer needs back. One that grew as it was written
    /// gets its full size; one that cannot, or is larger, is deleted: `None`. Where there is no
    /// room for the file that is kept for a start, that one comes first.
    ///
    /// # Errors
    /// Any failure is [`Fatal`].
    pub(crate) fn recycle(&mut self, path: &Path) -> Result<Option<PreparedFile>, Fatal> {
        let fail = |error| Fatal::new("recycle", path, error);
        let file = self.disk.open(path).map_err(fail)?;
        let len = file.len().map_err(fail)?;
        if self.reserve == Reserve::Missing {
            if len == reserve_bytes(self.file_bytes) {
                let kept = self.folder.join(RESERVE_NAME);
                self.disk.rename(path, &kept).map_err(fail)?;
                self.reserve = Reserve::There;
            } else {
                self.disk.delete(path).map_err(fail)?;
                self.keep_reserve()?;
            }
            return Ok(None);
        }
        let (to, bytes) = (self.next_path(), self.file_bytes);
        match len.cmp(&self.file_bytes) {
            Ordering::Equal => {
                self.disk.rename(path, &to).map_err(fail)?;
                return Ok(Some(PreparedFile { path: to, bytes }));
            }
            Ordering::Greater => {
                self.disk.delete(path).map_err(fail)?;
                return Ok(None);
            }
            Ordering::Less => {}
        }
        // As in `prepare`: until it is durable in its full size it is none that a start may use.
        let begun = begun_path(&to);
        self.disk.rename(path, &begun).map_err(fail)?;
        let rest = write_zeros(&file, len..self.file_bytes);
        match rest.and_then(|()| file.sync_data()) {
            Ok(()) => {
                self.disk.rename(&begun, &to).map_err(fail)?;
                Ok(Some(PreparedFile { path: to, bytes }))
            }
            Err(error) if is_full(&error) => {
                self.disk.delete(&begun).map_err(fail)?;
                Ok(None)
            }
            Err(error) => Err(fail(error)),
        }
    }

    /// Takes a file back, at a start, that holds nothing any more. One that has not its full size
    /// is deleted.
    ///
    /// # Errors
    /// Any failure is [`Fatal`].
    pub(crate) fn take_back(&mut self, path: &Path) -> Result<Option<PreparedFile>, Fatal> {
        let fail = |error| Fatal::new("recycle", path, error);
        let file = self.disk.open(path).map_err(fail)?;
        let bytes = file.len().map_err(fail)?;
        if bytes == self.file_bytes {
            let to = self.next_path();
            self.disk.rename(path, &to).map_err(fail)?;
            return Ok(Some(PreparedFile { path: to, bytes }));
        }
        let kept = self.folder.join(RESERVE_NAME);
        let is_kept = self.disk.open(&kept).is_ok();
        match bytes == reserve_bytes(self.file_bytes) && !is_kept {
            true => self.disk.rename(path, &kept).map_err(fail)?,
            false => self.disk.delete(path).map_err(fail)?,
        }
        Ok(None)
    }

    fn next_path(&mut self) -> PathBuf {
        self.next_number += 1;
        self.folder.join(file_name(self.next_number))
    }
}

/// The name of a prepared file until it is durable. A start deletes what has such a name.
fn begun_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(BEGUN_SUFFIX);
    PathBuf::from(name)
}

/// Whether an error says that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::folders::Folders;
    use crate::recover::{Options, recover};

    /// Else the next start that prepares a file of this name would end with that.
    #[test]
    fn a_start_deletes_what_was_being_prepared() {
        let (disk, folders) = (MemoryDisk::new(), Folders::within(Path::new("/store")));
        let mut parts = recover(&disk, &folders, &Options::default()).expect("a store");
        let begun = begun_path(&parts.pool.next_path());
        drop(parts);
        disk.create_new(&begun).expect("a file");
        let mut parts = recover(&disk, &folders, &Options::default()).expect("a store");
        assert!(!disk.paths().contains(&begun));
        assert_eq!(begun_path(&parts.pool.next_path()), begun);
        parts.pool.prepare().expect("nothing is in the way");
    }

    #[test]
    fn a_file_is_prepared_once_as_much_is_free_as_was_said_to_be_missing() {
        let (disk, folders) = (MemoryDisk::new(), Folders::within(Path::new("/store")));
        let options = Options {
            wal_file_bytes: 4 * 1024 * 1024,
            ..Options::default()
        };
        let mut parts = recover(&disk, &folders, &options).expect("a store");
        disk.set_bytes_max(Some(disk.bytes() + SPARE_BYTES));
        let lacks = parts.pool.lacks_bytes().expect("the disk knows");
        assert_eq!(lacks, parts.pool.file_bytes);
        let free = |bytes| disk.set_bytes_max(Some(disk.bytes() + SPARE_BYTES + bytes));
        free(lacks - 1);
        assert_eq!(parts.pool.lacks_bytes(), Some(1));
        let refused = parts.pool.prepare();
        assert!(matches!(refused, Err(PrepareError::NoSpace)), "{refused:?}");
        free(lacks);
        assert_eq!(parts.pool.lacks_bytes(), Some(0));
        parts.pool.prepare().expect("there is space");
    }
}
