//! Changes that the owner of a node's streams is told of.

use leveret_metadata::StreamSettings;
use leveret_stream::{ReplicaOrder, ReplicaOrigin};
use leveret_types::{NodeId, QueueId};

/// A replica of a stream on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaHere {
    /// The stream.
    pub stream: QueueId,
    /// What is in force for it.
    pub settings: Box<StreamSettings>,
    /// This node.
    pub node: NodeId,
    /// The node that leads it.
    pub leader: NodeId,
    /// What the catalogue says to the replica.
    pub order: ReplicaOrder,
    /// How the node comes to run it, if it does not yet.
    pub origin: ReplicaOrigin,
}

/// What whoever runs the streams of this node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamChange {
    /// A stream was declared.
    Begun(QueueId, Box<StreamSettings>),
    /// A policy says something else of a stream.
    Changed(QueueId, Box<StreamSettings>),
    /// This node has a replica of a stream, or something of it has changed.
    Replica(Box<ReplicaHere>),
    /// A stream was declared that another node has, or something of it has changed.
    Elsewhere(QueueId, NodeId),
    /// A stream was deleted, wherever it was.
    Deleted(QueueId),
}
