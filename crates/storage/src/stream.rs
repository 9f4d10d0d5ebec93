//! Segment files of streams: chunks one after the other, read back by offset or time.
//!
//! There is no index beside the chunks: a record says what it is and where it belongs, so that one
//! is found by looking for it, and a search halves the file each time. So nothing can differ from
//! what is stored, and a stream costs no memory for what it holds.
//!
//! Where several streams wait for a sync at once, and each for little, what they wrote is synced
//! as one piece, in a journal beside the segments.
//!
//! Invariant: only the last segment of a stream may have a torn end: the one before is synced when
//! a segment begins.
//! Invariant: what was synced is read back as it was written, or reported as damaged.

pub(crate) mod aside;
mod aside_files;
mod files;
pub(crate) mod format;
pub(crate) mod journal;
mod journal_reserve;
mod newest;
mod open;
mod read;
mod recover;
mod replica;
mod starts;
mod together;

pub use aside::SetAside;
pub use aside_files::{AsideFile, AsideWhat, files_set_aside};
pub use files::{StreamFiles, StreamSync, StreamSynced};
pub use read::{StreamRead, StreamReadError};
pub use recover::RecoveredStream;
