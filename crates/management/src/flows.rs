//! What was published, by channel, exchange and queue, as a node tells of it.

use leveret_types::QueueId;
use std::sync::Arc;

/// What a channel has published to an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedStats {
    /// The channel.
    pub channel: u16,
    /// The exchange; the default one has the empty name.
    pub exchange: Arc<str>,
    /// Messages.
    pub messages: u64,
    /// Queues that they went into, by id, with how many did.
    pub queues: Vec<(QueueId, u64)>,
}

/// What came to a queue from an exchange, of what clients of this node have published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The virtual host of both.
    pub vhost: Arc<str>,
    /// The exchange; the default one has the empty name.
    pub exchange: Arc<str>,
    /// The queue.
    pub queue: QueueId,
    /// Its name.
    pub queue_name: Arc<str>,
    /// Messages.
    pub messages: u64,
}

/// Which of them are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Names of virtual host and exchange.
pub enum FlowsOf<'a> {
    /// All of the node.
    Node,
    /// Those of a virtual host.
    Vhost(&'a str),
    /// Those to a queue.
    Queue(QueueId),
    /// Those from an exchange.
    Exchange { vhost: &'a str, exchange: &'a str },
}
