//! Effects of a shard outside itself.

use crate::events::{PeerFrame, QueueEvent};
use leveret_client::Delivery;
use leveret_stream::SessionId;
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, QueueId};
use std::sync::Arc;

/// What is to happen outside the shard.
#[derive(Debug, Default)]
pub struct ShardEffects {
    /// For connections, in order.
    pub posts: Vec<(ConnectionId, QueueEvent)>,
    /// For whoever let the shard go: work that needs the catalogue or another shard.
    pub deferred: Vec<Deferred>,
    /// For other nodes, in order.
    pub peer: Vec<(NodeId, PeerFrame)>,
    /// What queues say to streams, in order: views, and what stands for streams themselves.
    pub streams: Vec<(SessionId, leveret_stream::Command)>,
}

/// Work that a shard cannot do itself.
#[derive(Debug)]
pub enum Deferred {
    /// Publish a message to the queue's dead-letter exchange, then settle it where it came from.
    DeadLetter(DeadLetter),
    /// Delete a queue whose lease is over, or whose last consumer has gone, if it still has no
    /// consumers.
    DeleteQueue {
        /// The queue.
        queue: QueueId,
        /// Whether its lease is over.
        expired: bool,
    },
    /// Delete a queue of a connection that is gone.
    DeleteExclusive(QueueId),
    /// Route a message of the broker's own, or one whose delay is over, and settle it where it was
    /// kept.
    Publish {
        /// Virtual host.
        vhost: String,
        /// The message: its exchange and routing key say where it goes.
        message: Message,
        /// When its delay was over, in wall-clock milliseconds, and its index in the log of delayed
        /// messages.
        delayed: Option<(u64, u64)>,
    },
    /// A message is in all the queues that it was put into: what waited for that.
    Afterwards {
        /// What is to be done.
        then: Then,
        /// Whether one of the queues has refused the message.
        refused: bool,
    },
    /// Detach those who held messages for a connection that is gone from their queues, the last
    /// one first.
    Detach(Vec<(ConsumerId, QueueId)>),
    /// Take more of the bindings of what was deleted out of the routing tables.
    UnlinkBindings,
    /// Send a queue more of what an `x-recent-history` exchange remembers that it was bound to.
    Recall {
        /// The queue.
        queue: QueueId,
        /// The exchange's virtual host.
        vhost: String,
        /// The exchange.
        exchange: String,
        /// The numbers of the messages that it has yet to get.
        numbers: std::ops::Range<u64>,
    },
    /// Close the channel of a consumer that has kept a delivery for too long.
    TimedOut {
        /// Its connection.
        connection: ConnectionId,
        /// The consumer.
        consumer: ConsumerId,
    },
    /// Say in the log that something of a queue is damaged, by the queue's name.
    Damage {
        /// The queue.
        queue: QueueId,
        /// What is, and what to do.
        what: String,
    },
}

/// A message that is dead-lettered.
#[derive(Debug)]
pub struct DeadLetter {
    /// Where it was.
    pub queue: QueueId,
    /// Its priority log and index there; nothing if the queue refused it and never had it.
    pub position: Option<(u8, u64)>,
    /// The message.
    pub message: Message,
    /// Why.
    pub reason: leveret_queue::Reason,
}

impl DeadLetter {
    /// A message that a queue refused because it is full.
    pub(crate) fn refused(queue: QueueId, message: &Message) -> Self {
        Self {
            queue,
            position: None,
            message: message.clone(),
            reason: leveret_queue::Reason::MaxLength,
        }
    }
}

/// What is to be done once a message is in all the queues that it was put into.
#[derive(Clone, Debug)]
pub enum Then {
    /// Nothing: somebody looks whether it is.
    Nothing,
    /// It was dead-lettered: it leaves the queue that it came from.
    DeadLettered {
        /// The queue.
        queue: QueueId,
        /// The priority log.
        priority_log: u8,
        /// Its index.
        index: u64,
    },
    /// Its delay was over: it leaves the log of delayed messages.
    DelayedReleased {
        /// When it was over, in wall-clock milliseconds, and its index.
        delayed: (u64, u64),
        /// Bytes of its body.
        bytes: u32,
        /// The queues that it was put into.
        targets: Arc<[QueueId]>,
    },
}

/// What a connection is to deliver for what a queue machine hands out.
pub(crate) fn delivery_of(
    queue: QueueId,
    delivery: &leveret_queue::Delivery,
    message: Message,
) -> Delivery {
    Delivery {
        consumer: delivery.consumer,
        queue,
        priority_log: delivery.position.priority_log,
        index: delivery.position.index,
        redelivered: delivery.redelivered,
        delivery_count: delivery.delivery_count,
        acquired_count: delivery.acquired_count,
        message,
    }
}
