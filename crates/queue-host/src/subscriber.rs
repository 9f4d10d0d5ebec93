//! Recipients of a queue's events.

use leveret_types::{ConnectionId, NodeId};

/// Who is told what a queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscriber {
    /// A client of this node, by its connection.
    Client(ConnectionId),
    /// Another node, for a client of its own.
    Node(NodeId),
}
