//! What can be wrong with bytes, and what a client is told of it.

use leveret_types::limits::{FRAME_OVERHEAD_BYTES, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX};
use leveret_types::{ProtocolError, ReplyCode};
use thiserror::Error;

/// What is wrong with a payload. Its display is the text that the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end within a field.
    #[error("the frame ends within a field")]
    Truncated,
    /// Bytes are left over behind the last field.
    #[error("{0} octets too many in the frame")]
    Trailing(usize),
    /// There is no such method.
    #[error("unknown method {method} of class {class}")]
    UnknownMethod {
        /// Class id.
        class: u16,
        /// Method id.
        method: u16,
    },
    /// A short string that must be text is not UTF-8.
    #[error("Malformed UTF-8 in shortstr")]
    NotUtf8,
    /// A field table's entry reaches beyond the table.
    #[error("a field table's entry reaches beyond its end")]
    TableTruncated,
    /// A field table holds a value of a type that does not exist.
    #[error("unknown type {0} in a field table")]
    TableType(u8),
    /// Field tables within field tables, deeper than [`TABLE_DEPTH_MAX`].
    #[error("a field table is nested deeper than {TABLE_DEPTH_MAX}")]
    TableDepth,
    /// More entries than [`TABLE_ENTRIES_MAX`].
    #[error("a field table has more than {TABLE_ENTRIES_MAX} entries")]
    TableEntries,
    /// A content header sets property flags that no property has.
    #[error("unknown property flags {0:#06x}")]
    PropertyFlags(u16),
    /// A content header's weight, which must be 0.
    #[error("weight {0} in a content header")]
    Weight(u16),
}

impl DecodeError {
    /// The reply code that fits: the frame cannot be read, it holds what may not be, or the method
    /// does not exist.
    #[must_use]
    pub const fn code(self) -> ReplyCode {
        match self {
            Self::NotUtf8 => ReplyCode::FrameError,
            Self::UnknownMethod { .. } => ReplyCode::NotImplemented,
            Self::Weight(_) => ReplyCode::UnexpectedFrame,
            _ => ReplyCode::SyntaxError,
        }
    }
}

impl From<DecodeError> for ProtocolError {
    fn from(error: DecodeError) -> Self {
        Self::connection(error.code(), error.to_string())
    }
}

/// What is wrong with a frame. After it nothing of the connection's input can be trusted. Its
/// display has RabbitMQ's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame claims to be larger than was negotiated; known at its seventh octet.
    #[error(
        "type {kind}, all octets = <<>>: {{frame_too_large,{size},{}}}",
        frame_max - FRAME_OVERHEAD_BYTES
    )]
    TooLarge {
        /// The frame's type.
        kind: u8,
        /// Octets of payload that it claims.
        size: u32,
        /// Octets of a frame that were agreed.
        frame_max: u32,
    },
    /// The octet behind the payload is not 0xCE.
    #[error("type {kind}, {size} octets: {{invalid_frame_end_marker,{end}}}")]
    End {
        /// The frame's type.
        kind: u8,
        /// Octets of its payload.
        size: u32,
        /// What stands in the end's place.
        end: u8,
    },
    /// There is no such type of frame.
    #[error("type {kind}, all octets = <<>>: unknown_frame")]
    Kind {
        /// The frame's type.
        kind: u8,
    },
}

impl From<FrameError> for ProtocolError {
    fn from(error: FrameError) -> Self {
        Self::connection(ReplyCode::FrameError, error.to_string())
    }
}
