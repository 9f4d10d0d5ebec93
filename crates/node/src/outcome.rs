//! What a queue answers to what a caller wants of it, wherever it is.

use crate::stored;
use leveret_session::contract::Delivery;
use leveret_storage::{BodyId, Durability, ShardLogs, SharedBody};
use leveret_types::limits::CHUNK_BYTES;
use leveret_types::{Message, ProtocolError, ReplyCode};

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
        /// Whether the publisher is held back: [`crate::ConnectionEvent::Room`] will tell.
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
    durable: Option<BodyId>,
    volatile: Option<BodyId>,
    shared: Option<SharedBody>,
}

impl Bodies {
    /// The body of `message` in the log, written once for all the queues that the message goes to.
    pub(crate) fn of(&mut self, logs: &mut ShardLogs, message: &Message, durable: bool) -> BodyId {
        let known = if durable {
            self.durable
        } else {
            self.durable.or(self.volatile)
        };
        let is_here = |body: &BodyId| body.shard().0 == u16::from(logs.shard());
        if let Some(body) = known.filter(is_here) {
            return body;
        }
        if !durable {
            let body = put(logs, message, Durability::Volatile, None);
            (self.durable, self.volatile) = (None, Some(body));
            return body;
        }
        let body = put(logs, message, Durability::Durable, self.shared);
        if self.shared.is_none() {
            self.shared = logs.share(body);
        }
        self.durable = Some(body);
        body
    }
}

/// Puts the body of `message` into the chunk that gathers. A large one is not copied, where its
/// buffer is what is to be kept.
fn put(
    logs: &mut ShardLogs,
    message: &Message,
    durability: Durability,
    shared: Option<SharedBody>,
) -> BodyId {
    let is_large = message.weight() > CHUNK_BYTES;
    if let Some(bytes) = is_large.then(|| message.encoded()).flatten() {
        return match shared {
            Some(shared) => logs.body_shared_again(shared, bytes),
            None => logs.body_shared(durability, bytes),
        };
    }
    let header = stored::header(message);
    let pieces = stored::pieces(&header, message);
    match shared {
        Some(shared) => logs.body_again(shared, &pieces),
        None => logs.body(durability, &pieces),
    }
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
    pub fn reply(self) -> Option<leveret_session::contract::Reply> {
        use leveret_session::contract::Reply;
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
