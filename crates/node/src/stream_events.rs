//! What the streams of a node and its connections tell each other, and what stream listeners offer.

use leveret_metadata::StreamSettings;
use leveret_stream::{ReplicaOrder, ReplicaOrigin, SessionId};
use leveret_stream_session::Settings;
use leveret_types::{ConnectionId, NodeId, QueueId};
use std::sync::Arc;

/// What the streams of this node say to a connection.
#[derive(Debug)]
pub enum StreamNews {
    /// Something happened.
    Event(leveret_stream::Event),
    /// What was refused for lack of room may be said again.
    Room,
    /// An operator has set the offset of a group.
    Moved {
        /// The stream.
        stream: QueueId,
        /// The group's name.
        group: Arc<str>,
        /// The offset.
        offset: u64,
    },
}

/// The id that the streams know a connection by.
#[must_use]
pub const fn session_of(connection: ConnectionId) -> SessionId {
    SessionId(connection.0)
}

/// The connection of a session.
#[must_use]
pub const fn connection_of(session: SessionId) -> ConnectionId {
    ConnectionId(session.0)
}

/// In the place of a connection's thread, of which no node has so many.
const VIEW_MARK: u64 = 0xFF;

/// The id that streams know a queue of a shard by: a view, or what stands there for the stream.
#[must_use]
pub const fn session_of_view(view: QueueId) -> SessionId {
    SessionId(view.0 << 8 | VIEW_MARK)
}

/// The queue of a session; none of a connection's session.
#[must_use]
pub const fn view_of(session: SessionId) -> Option<QueueId> {
    match session.0 & 0xFF {
        VIEW_MARK => Some(QueueId(session.0 >> 8)),
        _ => None,
    }
}

/// What stream listeners offer.
#[derive(Clone, Debug)]
pub struct StreamSessions {
    /// What sessions negotiate.
    pub plain: Arc<Settings>,
    /// The same for sessions over TLS.
    pub tls: Arc<Settings>,
}

impl Default for StreamSessions {
    fn default() -> Self {
        let settings = Arc::new(Settings::new("localhost", 5552));
        Self {
            plain: Arc::clone(&settings),
            tls: settings,
        }
    }
}

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
