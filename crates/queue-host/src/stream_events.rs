//! What the streams of a node tell its connections and queues, and by which ids they know them.

use leveret_stream::SessionId;
use leveret_types::{ConnectionId, QueueId};
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
