//! A queue's answers to callers' requests, wherever it is.

use leveret_client::Delivery;
use leveret_storage::{BodyId, SharedBody};
use leveret_types::{ProtocolError, ReplyCode};

/// What became of a message at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue; durable with the chunk that now gathers, if at all.
    Durable,
    /// It is in the queue, and would not survive a restart.
    Volatile,
    /// It is kept until the queue's leader has committed it: the operation of this number.
    Kept {
        /// The number.
        sequence: u64,
        /// Whether the publisher is held back: [`crate::events::QueueEvent::Room`] will tell.
        full: bool,
    },
    /// The queue refused it (`reject-publish`).
    Rejected,
    /// There is no such queue any more.
    Gone,
}

/// The bodies that a message has so far: one for all its queues of a shard, and one in the
/// write-ahead log for all shards. Shards are given the message one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bodies {
    pub(crate) durable: Option<BodyId>,
    pub(crate) volatile: Option<BodyId>,
    pub(crate) shared: Option<SharedBody>,
}

/// What a `get` found.
#[derive(Debug)]
pub enum GetOutcome {
    /// A message, and how many are left.
    Message(Delivery, u64),
    /// Nothing.
    Empty,
    /// It is being read from disk.
    Pending,
    /// There is no such queue any more.
    Gone,
    /// The queue's leader is not there.
    Unavailable,
}

impl GetOutcome {
    /// The reply to the session; nothing while the message is being read.
    #[must_use]
    pub fn reply(self) -> Option<leveret_client::Reply> {
        use leveret_client::Reply;
        match self {
            Self::Message(delivery, ready) => Some(Reply::Got(Some((
                delivery,
                u32::try_from(ready).unwrap_or(u32::MAX),
            )))),
            Self::Empty | Self::Gone => Some(Reply::Got(None)),
            Self::Unavailable => Some(Reply::Failed(unavailable())),
            Self::Pending => None,
        }
    }
}

/// What a client is told that asked something of a queue whose leader is not there.
#[must_use]
pub fn unavailable() -> ProtocolError {
    ProtocolError::connection(
        ReplyCode::InternalError,
        "the queue has no leader that a majority of its members follows; try again later, or at \
         another node",
    )
}
