//! What can be wrong with bytes.

use leveret_types::limits::STREAM_LIST_ENTRIES_MAX;
use thiserror::Error;

/// What is wrong with the content of a frame. The frame's end is known all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The frame ends within a field.
    #[error("the frame ends within a field")]
    Truncated,
    /// Bytes are left over behind the last field.
    #[error("{0} octets too many in the frame")]
    Trailing(usize),
    /// There is no such command, or not in this direction.
    #[error("unknown command {key:#06x}")]
    UnknownCommand {
        /// The key as it stands in the frame.
        key: u16,
    },
    /// The command does not exist in this version.
    #[error("unknown version {version} of command {key:#06x}")]
    UnknownVersion {
        /// The command's key.
        key: u16,
        /// The version.
        version: u16,
    },
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A length or a count is negative and not -1.
    #[error("a negative length")]
    NegativeLength,
    /// A list has more entries than [`STREAM_LIST_ENTRIES_MAX`].
    #[error("a list has more than {STREAM_LIST_ENTRIES_MAX} entries")]
    ListEntries,
    /// There is no such kind of offset.
    #[error("unknown offset type {0}")]
    OffsetType(u16),
    /// A batch of entries without records, or one in a publish with filter values, which holds
    /// single messages only.
    #[error("a batch of entries where none may be")]
    Batch,
}

/// What is wrong with a frame. After it nothing of the connection's input can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame claims more octets than were agreed; known at its fourth octet.
    #[error("a frame of {size} octets is larger than the {frame_max} allowed")]
    TooLarge {
        /// Octets behind the size that it claims.
        size: u32,
        /// Octets that were agreed.
        frame_max: u32,
    },
    /// The frame has no room for a key and a version.
    #[error("a frame of {size} octets has no room for a command")]
    TooSmall {
        /// Octets behind the size that it claims.
        size: u32,
    },
}
