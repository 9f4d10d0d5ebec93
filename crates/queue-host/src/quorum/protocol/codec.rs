//! The bytes of link messages.

mod decode;
mod encode;

pub use decode::{decode_to_leader, decode_to_remote_queue};
pub use encode::Encoder;

use super::{Command, Event};

/// Bytes that are no link frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What could not be read.
    pub what: &'static str,
    /// How many bytes were left there.
    pub left: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a frame between nodes is malformed: {} at {} bytes before its end",
            self.what, self.left
        )
    }
}

impl std::error::Error for Malformed {}

/// A frame to a leader.
#[derive(Debug)]
pub struct CommandFrame {
    /// The session.
    pub session: u64,
    /// What is said, in order.
    pub messages: Vec<Command>,
}

/// A frame to a remote queue.
#[derive(Debug)]
pub struct EventFrame {
    /// The session.
    pub session: u64,
    /// What is said, in order.
    pub messages: Vec<Event>,
}

mod tag {
    pub(super) const REGISTER: u8 = 1;
    pub(super) const NOTHING_TO_REGISTER: u8 = 2;
    pub(super) const OPERATIONS: u8 = 3;
    pub(super) const ATTACH: u8 = 4;
    pub(super) const CANCEL: u8 = 5;
    pub(super) const DETACH: u8 = 6;
    pub(super) const CREDIT: u8 = 7;
    pub(super) const GET: u8 = 8;
    pub(super) const PURGE: u8 = 9;
    pub(super) const COUNT: u8 = 10;
    pub(super) const FETCH: u8 = 11;
    pub(super) const PEEK: u8 = 12;
    pub(super) const ACKNOWLEDGED: u8 = 13;

    pub(super) const LEADING: u8 = 1;
    pub(super) const NOT_LEADER: u8 = 2;
    pub(super) const COMMITTED: u8 = 3;
    pub(super) const REFUSED: u8 = 4;
    pub(super) const ATTACHED: u8 = 5;
    pub(super) const DELIVER: u8 = 6;
    pub(super) const DELIVER_LOCAL: u8 = 7;
    pub(super) const GOT: u8 = 8;
    pub(super) const PURGED: u8 = 9;
    pub(super) const COUNTED: u8 = 10;
    pub(super) const TIMED_OUT: u8 = 11;
    pub(super) const CANCELLED: u8 = 12;
    pub(super) const FETCHED: u8 = 13;
    pub(super) const ACTIVE: u8 = 14;
    pub(super) const PEEKED: u8 = 15;

    pub(super) const OP_NOTHING: u8 = 0;
    pub(super) const OP_PUBLISH: u8 = 1;
    pub(super) const OP_SETTLE: u8 = 2;
}
