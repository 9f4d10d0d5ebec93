//! Files written once with zeros, so that later writes change no metadata: a sync of such a file
//! costs a third.

use crate::disk::{Disk, DiskFile, write_zeros};
use crate::error::Fatal;
use crate::wal::writer::BEGUN_SUFFIX;
use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is ready to become a part of the write-ahead log.
#[derive(Debug, PartialEq, Eq)]
pub struct PreparedFile {
    pub(crate) path: PathBuf,
}

/// Name of a prepared file.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016x}.free")
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
}

impl<D: Disk> WalPool<D> {
    pub(crate) fn new(disk: D, folder: &Path, file_bytes: u64, next_number: u64) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            file_bytes,
            next_number,
        }
    }

    /// Writes a new file full of zeros. It has its name only when all of it is durable: what a sync
    /// that failed has left in memory looks whole to the next start, and no later sync writes it.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn prepare(&mut self) -> Result<PreparedFile, PrepareError> {
        let path = self.next_path();
        let begun = begun_path(&path);
        match self.write_zeros(&begun, &path) {
            Ok(()) => Ok(PreparedFile { path }),
            Err((_, error)) if is_full(&error) => {
                // What remains of it, under either name, is deleted at the next start if this fails
                // too.
                drop(self.disk.delete(&begun));
                drop(self.disk.delete(&path));
                Err(PrepareError::NoSpace)
            }
            Err((call, error)) => Err(Fatal::new(call, &path, error).into()),
        }
    }

    fn write_zeros(&self, begun: &Path, path: &Path) -> Result<(), (&'static str, io::Error)> {
        let file = self.disk.create_new(begun).map_err(|e| ("create", e))?;
        write_zeros(&file, 0..self.file_bytes).map_err(|e| ("write", e))?;
        file.sync_data().map_err(|e| ("sync", e))?;
        let renamed = self.disk.rename(begun, path);
        renamed.map_err(|e| ("rename", e))?;
        self.disk
            .sync_dir(&self.folder)
            .map_err(|e| ("sync of the folder", e))
    }

    /// Takes a file that the write-ahead log no longer needs back. One that grew as it was written
    /// gets its full size; one that cannot, or is larger, is deleted: `None`.
    ///
    /// # Errors
    /// Any failure is [`Fatal`].
    pub(crate) fn recycle(&mut self, path: &Path) -> Result<Option<PreparedFile>, Fatal> {
        let fail = |error| Fatal::new("recycle", path, error);
        let file = self.disk.open(path).map_err(fail)?;
        let len = file.len().map_err(fail)?;
        let to = self.next_path();
        match len.cmp(&self.file_bytes) {
            Ordering::Equal => {
                self.disk.rename(path, &to).map_err(fail)?;
                return Ok(Some(PreparedFile { path: to }));
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
                Ok(Some(PreparedFile { path: to }))
            }
            Err(error) if is_full(&error) => {
                self.disk.delete(&begun).map_err(fail)?;
                Ok(None)
            }
            Err(error) => Err(fail(error)),
        }
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
