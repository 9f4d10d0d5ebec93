//! Events of a node's streams for its connections and queues.

use leveret_types::QueueId;
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
