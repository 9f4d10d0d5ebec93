//! The seam between who uses a queue and whatever keeps it: one set of verbs, whatever the queue's
//! kind, wherever it is led.
//!
//! Three implement them. A `classic::ClassicQueue` is on this node alone and does what is
//! wanted in place, for clients of this node and for other nodes. A `quorum::RemoteQueue` stands
//! for a queue that is led elsewhere, or hosted by a group: it turns the verbs into
//! [`Command`](crate::quorum::protocol::Command)s for its leader and the leader's
//! [`Event`](crate::quorum::protocol::Event)s into answers, in the same process as over the link. A
//! `stream_queues::StreamQueue` does the same for a stream, for all but those who read it
//! or publish to it with a session of their own.
//!
//! What is asked may be answered at once or later. Whoever calls says how the answer finds it: a
//! connection is posted it; see [`Asker`].

use crate::delivery_credit::ConsumerCredit;
use crate::effects::ShardEffects;
use crate::events::QueueAnswer;
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued, GetOutcome};
use crate::quorum::protocol::Answer;
use crate::subscriber::Subscriber;
use leveret_queue::{AttachError, Consumer, Effect, Settle};
use leveret_storage::ShardLogs;
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now};

/// What a queue may reach while something is done to it.
pub(crate) struct HostContext<'a> {
    /// The moment.
    pub(crate) now: Now,
    /// This node.
    pub(crate) node: NodeId,
    /// The shard's logs.
    pub(crate) logs: &'a mut ShardLogs,
    /// What is to happen outside the shard.
    pub(crate) effects: &'a mut ShardEffects,
    /// What hosts say to remote queues.
    pub(crate) answers: &'a mut Vec<Answer>,
    /// What queue machines want done: empty between calls.
    pub(crate) scratch: &'a mut Vec<Effect>,
}

/// When a question about a queue is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is.
    Now,
    /// The connection is posted the answer.
    Later,
}

/// Who asks something of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A connection: it is posted the answer.
    Connection(ConnectionId),
    /// Somebody who asks again with the same number until the answer is there.
    Poll(u64),
}

/// A `basic.get`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Get {
    /// Who is to hold the message.
    pub(crate) subscription: ConsumerId,
    /// Who is answered later, if that must be; without one, the caller asks again.
    pub(crate) subscriber: Option<Subscriber>,
    /// Whether the message leaves at once.
    pub(crate) no_ack: bool,
}

/// See the module's description.
pub(crate) trait QueueHost {
    /// Puts a message into the queue. `notify` is told when one that is kept has been committed.
    fn publish(
        &mut self,
        context: &mut HostContext<'_>,
        message: &Message,
        bodies: &mut Bodies,
        notify: &Notify,
    ) -> Enqueued;

    /// Takes note of what became of messages that a subscription held. Answers how many of them it
    /// really held.
    fn settle(&mut self, context: &mut HostContext<'_>, settle: Settle) -> u64;

    /// Attaches a consumer. If that is answered later, it is by [`QueueAnswer::Attached`].
    ///
    /// # Errors
    /// If the queue is in exclusive use; nothing, if it has no consumers.
    fn attach(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: Consumer,
        subscriber: Subscriber,
        credit: ConsumerCredit,
    ) -> Result<When, Option<AttachError>>;

    /// Stops deliveries to a consumer; what it holds stays with it. If that is answered later, it
    /// is by `Reply::Done`.
    fn cancel(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: ConsumerId,
        subscriber: Subscriber,
    ) -> When;

    /// Takes a subscription away; what it holds returns to the queue.
    fn detach(&mut self, context: &mut HostContext<'_>, subscription: ConsumerId);

    /// A consumer's connection or channel has credit again.
    fn unblock(&mut self, context: &mut HostContext<'_>, consumer: ConsumerId);

    /// Gets one message.
    fn get(&mut self, context: &mut HostContext<'_>, get: Get) -> GetOutcome;

    /// Drops all ready messages: [`QueueAnswer::Purged`]. Nothing if that is answered later.
    fn purge(&mut self, context: &mut HostContext<'_>, asker: Asker) -> Option<QueueAnswer>;

    /// How the queue stands: [`QueueAnswer::Counted`]. Nothing if that is answered later.
    fn count(&mut self, context: &mut HostContext<'_>, asker: Asker) -> Option<QueueAnswer>;

    /// Looks at the ready message that has so many before it, and leaves it there:
    /// [`QueueAnswer::Peeked`]. Nothing if that is answered later, or when it has been read from
    /// disk: ask again.
    fn peek(
        &mut self,
        context: &mut HostContext<'_>,
        asker: Asker,
        before: u64,
    ) -> Option<QueueAnswer>;

    /// Whether it knows this subscription: a consumer, or one that holds messages or asks.
    fn holds(&self, subscription: ConsumerId) -> bool;

    /// How many messages a subscription holds, and when the oldest of them was handed to it
    /// (monotonic), where that is known here.
    fn unsettled_by(&self, subscription: ConsumerId) -> (u64, Option<u64>);

    /// Whether a consumer is the single active one, where the queue has that rule and that is known
    /// here.
    fn single_active(&self, consumer: ConsumerId) -> Option<bool>;
}
