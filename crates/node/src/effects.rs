//! What a shard wants done outside itself.

use crate::events::{ConnectionEvent, PeerFrame};
use crate::subscriber::{NodeEvent, Subscriber};
use leveret_session::contract::{Delivery, Reply};
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, QueueId};

/// What is to happen outside the shard.
#[derive(Debug, Default)]
pub struct ShardEffects {
    /// For connections, in order.
    pub posts: Vec<(ConnectionId, ConnectionEvent)>,
    /// For whoever let the shard go: work that needs the catalogue or another shard.
    pub deferred: Vec<Deferred>,
    /// For other nodes, in order.
    pub peer: Vec<(NodeId, PeerFrame)>,
    /// For other nodes, in order, from queues here that their clients use; the shard makes frames
    /// of it.
    pub(crate) for_nodes: Vec<(NodeId, NodeEvent)>,
}

impl ShardEffects {
    /// A message for a consumer.
    pub(crate) fn deliver(&mut self, to: Subscriber, delivery: Delivery) {
        match to {
            Subscriber::Client(connection) => {
                self.posts
                    .push((connection, ConnectionEvent::Deliver(delivery)));
            }
            Subscriber::Node(node) => self.for_nodes.push((node, NodeEvent::Deliver(delivery))),
        }
    }

    /// The answer to a get that waited.
    pub(crate) fn answer_get(
        &mut self,
        to: Subscriber,
        (queue, subscription): (QueueId, ConsumerId),
        reply: Reply,
    ) {
        match (to, reply) {
            (Subscriber::Client(connection), reply) => {
                self.posts.push((connection, ConnectionEvent::Reply(reply)));
            }
            (Subscriber::Node(node), Reply::Got(got)) => {
                let event = NodeEvent::Got {
                    queue,
                    subscription,
                    got,
                };
                self.for_nodes.push((node, event));
            }
            // Nothing else answers a get at a queue of this node.
            (Subscriber::Node(_), _) => {}
        }
    }

    /// A consumer is gone with its queue. Another node learns that from the catalogue.
    pub(crate) fn cancelled(&mut self, to: Subscriber, consumer: ConsumerId) {
        if let Subscriber::Client(connection) = to {
            self.posts
                .push((connection, ConnectionEvent::CancelConsumer(consumer)));
        }
    }

    /// A consumer has become the single active one. Clients are not told; other nodes are, for
    /// those who ask them.
    pub(crate) fn activated(&mut self, to: Subscriber, queue: QueueId, consumer: ConsumerId) {
        if let Subscriber::Node(node) = to {
            self.for_nodes
                .push((node, NodeEvent::Active { queue, consumer }));
        }
    }

    /// A subscription has kept a delivery for too long.
    pub(crate) fn timed_out(&mut self, to: Subscriber, queue: QueueId, subscription: ConsumerId) {
        match to {
            Subscriber::Client(connection) => self.deferred.push(Deferred::TimedOut {
                connection,
                consumer: subscription,
            }),
            Subscriber::Node(node) => {
                self.for_nodes.push((
                    node,
                    NodeEvent::TimedOut {
                        queue,
                        subscription,
                    },
                ));
            }
        }
    }
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
    /// Route a message of the broker's own, or one whose delay is over, and settle it where it was
    /// kept.
    Publish {
        /// Virtual host.
        vhost: String,
        /// The message: its exchange and routing key say where it goes.
        message: Message,
        /// Its index in the log of delayed messages.
        delayed: Option<u64>,
    },
    /// A message is in all the queues that it was put into: what waited for that.
    Afterwards {
        /// What is to be done.
        then: Then,
        /// Whether one of the queues has refused the message.
        refused: bool,
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
        /// Its index.
        index: u64,
        /// Bytes of its body.
        bytes: u32,
    },
}
