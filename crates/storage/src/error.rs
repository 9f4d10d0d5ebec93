//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// A write, a sync or a change of names failed: the process must end, with this one line, and must not try again. The kernel may have
/// dropped the bytes that it could not write, and a second attempt would succeed without them.
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
