//! What a replica asks of the clients of its own node.

use leveret_types::{ConsumerId, Message, QueueId};

/// This node's clients, as a replica beside them sees them.
pub trait Clients {
    /// Whether a consumer can take one more delivery: as [`leveret_queue::Log::admit`].
    fn admit(&mut self, queue: QueueId, consumer: ConsumerId, bytes: u32) -> bool;

    /// The message that was published to a queue in this run of the node, as the operation of this
    /// number; nothing once that is answered, and of another run.
    fn published(&self, queue: QueueId, run: u64, number: u64) -> Option<Message>;
}
