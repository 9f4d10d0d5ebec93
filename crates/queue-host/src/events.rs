//! Output of queues: events for connections, answers, frames for other nodes.

use crate::quorum::protocol::{Fetched, QueueCounts};
use bytes::Bytes;
use leveret_client::{Delivery, Reply};
use leveret_queue::AttachError;
use leveret_types::{ConsumerId, QueueId, ShardId};
use smallvec::SmallVec;
use std::ops::Range;

/// A place in the write-ahead log: what a confirm waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Whose part of the log.
    pub shard: ShardId,
    /// Durable once that shard's part is durable through this chunk.
    pub chunk: u64,
}

/// What queues tell a connection.
#[derive(Debug)]
pub enum QueueEvent {
    /// A message for one of its consumers.
    Deliver(Delivery),
    /// The answer to what it asked. It goes through the connection's inbox so that deliveries keep
    /// their place before or after it.
    Reply(Reply),
    /// One of its consumers is gone with its queue.
    CancelConsumer(ConsumerId),
    /// One of its consumers has kept a delivery for too long.
    TimedOut(ConsumerId),
    /// A queue of the cluster has committed this node's operations through a number.
    Committed {
        /// The queue.
        queue: QueueId,
        /// The number.
        through: u64,
    },
    /// A queue of the cluster refuses publishes.
    Refused {
        /// The queue.
        queue: QueueId,
        /// The numbers of the operations.
        sequences: Range<u64>,
    },
    /// A queue of the cluster that held this publisher back takes more.
    Room(QueueId),
    /// A queue of the cluster answers what this connection asked of it.
    Answered {
        /// The queue.
        queue: QueueId,
        /// The answer.
        answer: QueueAnswer,
    },
}

/// What a queue of the cluster answers.
#[derive(Debug)]
pub enum QueueAnswer {
    /// A consumer is attached, or why not.
    Attached {
        /// The consumer.
        consumer: ConsumerId,
        /// Why not.
        result: Result<(), AttachError>,
    },
    /// What a get found, and how many messages are left.
    Got(Option<(Delivery, u64)>),
    /// How many messages a purge took away.
    Purged(u64),
    /// How it stands.
    Counted(QueueCounts),
    /// A ready message, which stays.
    Peeked(Fetched),
    /// Its leader was not there in time.
    Unavailable,
}

/// A message for another node: for whoever has this queue there. What is in it is between the
/// shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFrame {
    /// The queue whose shard gets it; 0 is the catalogue's group.
    pub queue: QueueId,
    /// Its bytes, one piece behind the other; pieces are sent without being copied together.
    pub pieces: SmallVec<[Bytes; 4]>,
    /// Whether nobody waits for it: it may leave with others to the same node, some milliseconds
    /// later, in its place among them.
    pub may_wait: bool,
}

impl PeerFrame {
    /// A message of one piece.
    #[must_use]
    pub fn new(queue: QueueId, bytes: impl Into<Bytes>) -> Self {
        Self::of_pieces(queue, smallvec::smallvec![bytes.into()])
    }

    /// A message of these pieces, which is to leave at once.
    #[must_use]
    pub const fn of_pieces(queue: QueueId, pieces: SmallVec<[Bytes; 4]>) -> Self {
        Self {
            queue,
            pieces,
            may_wait: false,
        }
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(Bytes::is_empty)
    }
}
