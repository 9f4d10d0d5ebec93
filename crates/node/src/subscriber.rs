//! Who hears what a queue does.

use leveret_session::contract::Delivery;
use leveret_types::{ConnectionId, ConsumerId, NodeId, QueueId};

/// Who is told what a queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscriber {
    /// A client of this node, by its connection.
    Client(ConnectionId),
    /// Another node, for a client of its own.
    Node(NodeId),
}

/// What a queue that is on this node alone tells another node.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// A message for one of that node's consumers.
    Deliver(Delivery),
    /// What a get found that waited for the disk, and how many messages are left.
    Got {
        queue: QueueId,
        subscription: ConsumerId,
        got: Option<(Delivery, u32)>,
    },
    /// A consumer has become the single active one.
    Active {
        queue: QueueId,
        consumer: ConsumerId,
    },
    /// A subscription has kept a delivery for too long.
    TimedOut {
        queue: QueueId,
        subscription: ConsumerId,
    },
}
