//! Errors of the store.

use std::io;
use std::path::{Path, PathBuf};

/// A write, a sync or a change of names failed: the process must end, with this one line, and must
/// not try again. The kernel may have dropped the bytes that it could not write, and a second
/// attempt would succeed without them.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed on {}: {source}", path.display())]
pub struct Fatal {
    /// What was attempted.
    pub call: &'static str,
    /// On which file or folder.
    pub path: PathBuf,
    /// What the disk said.
    pub source: io::Error,
}

impl Fatal {
    pub(crate) fn new(call: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            call,
            path: path.to_owned(),
            source,
        }
    }
}

/// Why the write-ahead log did not take a batch.
#[derive(Debug, thiserror::Error)]
pub enum WalError {
    /// The disk is full. Nothing was acknowledged; the batch may be written again.
    #[error("no space for the write-ahead log")]
    NoSpace,
    /// End the process.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// Why a store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses the store.
    #[error("{} is in use by another process", folder.display())]
    Locked {
        /// The folder that is locked.
        folder: PathBuf,
    },
    /// A folder belongs to another store, or its drive is not mounted.
    #[error(
        "{} does not belong to the store in {}: is its drive mounted?",
        folder.display(),
        data.display()
    )]
    ForeignFolder {
        /// The folder in question.
        folder: PathBuf,
        /// The folder that says which store this is.
        data: PathBuf,
    },
    /// There are data, but nothing says whose.
    #[error(
        "{} has no file `leveret.store`, yet there is {}, which is of a store: is the drive of {} \
         mounted, and is it the folder of that store? Nothing was changed. Mount it, or put the \
         file back from a backup; for a new store, name empty folders",
        data.display(),
        found.display(),
        data.display()
    )]
    NoIdentity {
        /// The folder that should hold the identity.
        data: PathBuf,
        /// A file that should not be there without one.
        found: PathBuf,
    },
    /// The store has been in use, but nothing says what of it lives.
    #[error(
        "{} has no checkpoint, yet there is {}: a file `*.checkpoint` is missing, without which \
         nobody knows what lives. Nothing was changed. Put it back, or have `leveret storage \
         rebuild` copy all that the segment files and the write-ahead log hold into a new store, \
         where settled messages may be back and what only the checkpoint told is lost",
        data.display(),
        found.display()
    )]
    NoCheckpoint {
        /// The folder that should hold the checkpoint.
        data: PathBuf,
        /// A file that would not be there if there had never been one.
        found: PathBuf,
    },
    /// The newest file of the write-ahead log is missing.
    #[error(
        "{} is missing, the newest file of the write-ahead log: what was confirmed last is in it \
         and nowhere else. Nothing was changed. Put it back, or have `leveret storage rebuild` \
         copy all that the other files hold into a new store, where what only this file told is \
         lost",
        missing.display()
    )]
    NoLog {
        /// The file.
        missing: PathBuf,
    },
    /// The newest segment of a stream is missing.
    #[error(
        "{} is missing, the newest file of a stream's messages: what was confirmed last is in it \
         and nowhere else. Nothing was changed. Put it back, or delete {} to let the stream go on \
         without it after the next start, where offsets may come twice",
        missing.display(),
        named_by.display()
    )]
    NoSegment {
        /// The file.
        missing: PathBuf,
        /// The empty file that tells of it.
        named_by: PathBuf,
    },
    /// The head of the newest segment of a stream is damaged, without which none of it can be read.
    #[error(
        "the head of {} is damaged, the newest file of a stream's messages: what was confirmed \
         last may be in it and nowhere else. Put the file back, or delete it{} to let the stream \
         go on without it after the next start, where offsets may come twice",
        damaged.display(),
        and_file(named_by.as_deref())
    )]
    DamagedSegment {
        /// The file.
        damaged: PathBuf,
        /// The empty file that tells of it, if there is one.
        named_by: Option<PathBuf>,
    },
    /// Written by a later version of Leveret.
    #[error("{} was written by a later version (format {version})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: u16,
    },
    /// Something without which the store cannot be opened is damaged beyond its own redundancy.
    #[error("{what} in {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What of it.
        what: &'static str,
    },
    /// The disk refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
    /// A write or sync failed while the store was made ready.
    #[error(transparent)]
    Fatal(#[from] Fatal),
    /// The disk is full.
    #[error("no space to make the store ready")]
    NoSpace,
}

/// Words for one more file, if there is one.
fn and_file(file: Option<&Path>) -> String {
    file.map_or_else(String::new, |file| format!(" and {}", file.display()))
}

impl OpenError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

impl From<WalError> for OpenError {
    fn from(error: WalError) -> Self {
        match error {
            WalError::NoSpace => Self::NoSpace,
            WalError::Fatal(fatal) => Self::Fatal(fatal),
        }
    }
}
