//! Queues that live on several nodes, or on another: any node serves any queue.
//!
//! Each node that uses such a queue has a *remote queue* for it, which keeps its clients'
//! operations until the queue's leader says that they are committed, and knows what its consumers
//! hold. The leader may be in the same shard, or on another node: what is said is the same
//! ([`protocol`]).

pub mod protocol;

mod pending_replies;
mod refusals;
mod remote_queue;
mod remote_queues;
pub mod replica;

pub(crate) use pending_replies::PendingReplies;
pub(crate) use refusals::Refusals;
pub use remote_queues::LocalDeliveries;
pub(crate) use remote_queues::RemoteQueues;

use leveret_types::{ConsumerId, Message, QueueId};

/// This node's clients, as a replica beside them sees them.
pub trait Clients {
    /// Whether a consumer can take one more delivery: as [`leveret_queue::Log::admit`].
    fn admit(&mut self, queue: QueueId, consumer: ConsumerId, bytes: u32) -> bool;

    /// The message that was published to a queue in this run of the node, as the operation of this
    /// number; nothing once that is answered, and of another run.
    fn published(&self, queue: QueueId, run: u64, number: u64) -> Option<Message>;
}
