//! What a session and the broker say to each other: in no protocol's words, of no kind of queue.
//!
//! A session turns a client's bytes into [`Request`]s and the broker's answers into bytes. It never
//! routes, never looks a name up, never decides about permission: it knows its protocol's state and
//! nothing else.
//!
//! A request is either *sent off* (publish, settle: the session goes on at once) or *asked*
//! (everything with a reply: the session stops decoding this connection's input until
//! [`crate::Session::reply`] is called, so that a client's requests take effect in their order
//! without a queue per channel).
//!
//! A channel is a part of a connection that ends by itself: its consumers go with it, and what they
//! hold returns. A protocol that has none uses one number for all.

use leveret_types::{ChannelId, ConsumerId, FieldTable, Message, ProtocolError, QueueId, ShardId};
use std::ops::Range;

/// What a client wants of the broker.
#[derive(Debug)]
pub enum Request {
    /// Asked once the client has said who it is: [`Reply::Login`].
    Login {
        /// SASL mechanism, one of those that the settings offer.
        mechanism: String,
        /// SASL response, as it came.
        response: Vec<u8>,
    },
    /// Asked when the client names its virtual host: [`Reply::Done`] or [`Reply::Failed`].
    OpenVhost {
        /// Name of the virtual host.
        vhost: String,
    },
    /// Asked when a client renews its secret: [`Reply::Done`] or [`Reply::Failed`].
    UpdateSecret {
        /// The new secret.
        secret: Vec<u8>,
        /// Why the client renews it.
        reason: String,
    },
    /// Asked when a channel begins, for the limits on channels: [`Reply::Done`] or
    /// [`Reply::Failed`].
    OpenChannel {
        /// The channel.
        channel: ChannelId,
    },
    /// Sent off when a channel has ended, for whatever reason: its consumers go, what it held
    /// unsettled returns. Everything that the channel published before has been sent off before
    /// this.
    ChannelClosed {
        /// The channel.
        channel: ChannelId,
        /// The error that has closed it, if one has.
        error: Option<Box<ProtocolError>>,
    },
    /// Asked: a declaration, a look-up, a binding or a deletion. [`Reply::Done`],
    /// [`Reply::Queue`],
    /// [`Reply::Count`] or [`Reply::Failed`].
    Topology {
        /// The channel.
        channel: ChannelId,
        /// What is wanted.
        operation: Topology,
    },
    /// Asked: a subscription. [`Reply::Consuming`] or [`Reply::Failed`].
    Consume(Consume),
    /// Asked when a subscription ends: [`Reply::Done`]. No delivery for this consumer may come
    /// after the reply.
    Cancel {
        /// The channel.
        channel: ChannelId,
        /// The consumer that [`Reply::Consuming`] named.
        consumer: ConsumerId,
    },
    /// Asked: one message, if there is one. [`Reply::Got`] or [`Reply::Failed`].
    Get {
        /// The channel.
        channel: ChannelId,
        /// Name of the queue; never empty (the session puts the last declared one in).
        queue: String,
        /// Whether the message leaves the queue at once.
        no_ack: bool,
    },
    /// Sent off: what all consumers of the channel that have a prefetch may hold unsettled
    /// together; 0 is no bound.
    ChannelPrefetch {
        /// The channel.
        channel: ChannelId,
        /// Messages.
        limit: u16,
    },
    /// Sent off: a consumer that has [`Flow::Credit`] may be delivered so many messages more.
    Credit {
        /// The channel.
        channel: ChannelId,
        /// The consumer that [`Reply::Consuming`] named.
        consumer: ConsumerId,
        /// Messages.
        messages: u32,
    },
    /// Sent off: a message to route. The node answers through [`crate::Session::returned`],
    /// `accepted`, `confirm`, `rejected` or `fail`.
    Publish(Publish),
    /// Sent off: a message that a transaction holds back until its commit. It is looked at now:
    /// what would refuse it then refuses it now, through [`crate::Session::fail`].
    Check(Publish),
    /// Sent off: what became of messages that the connection holds. Neighbouring ones are merged
    /// into one range.
    Settle(Settle),
    /// Asked before something is answered, or refused, that the client sent behind publishes which
    /// were sent off: [`Reply::Done`], at once. What came of those publishes has been said by then.
    Turn,
    /// Asked when a transaction is committed, after its publishes and settles have been sent off:
    /// [`Reply::Done`] once they are durable, or [`Reply::Failed`].
    Commit {
        /// The channel.
        channel: ChannelId,
    },
}

/// A message and what its publisher wants to hear of it.
#[derive(Clone, Debug)]
pub struct Publish {
    /// The channel.
    pub channel: ChannelId,
    /// Its number in the channel's confirm sequence, from 1; 0 where the channel is not in confirm
    /// mode.
    pub number: u64,
    /// Return it if it reaches no queue.
    pub mandatory: bool,
    /// The message.
    pub message: Message,
}

/// What the confirm of a publish waits for, together with a number up to which that must have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A shard's part of the write-ahead log to be durable: [`crate::Session::durable`].
    Shard(ShardId),
    /// A queue of the cluster to have committed its operations: [`crate::Session::committed`].
    Queue(QueueId),
}

impl Awaited {
    /// Whether it is a shard's log.
    #[must_use]
    pub const fn is_shard(self) -> bool {
        matches!(self, Self::Shard(_))
    }
}

/// What became of a range of messages held by one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The channel.
    pub channel: ChannelId,
    /// Who holds them.
    pub subscription: ConsumerId,
    /// The queue that they came from.
    pub queue: QueueId,
    /// The queue's priority log.
    pub priority_log: u8,
    /// Positions in that priority log.
    pub range: Range<u64>,
    /// What became of them.
    pub outcome: SettleOutcome,
}

/// What a consumer says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// It is done.
    Accept,
    /// It returns, and the attempt counts towards a delivery limit.
    RequeueRejected,
    /// It returns, and the attempt does not count.
    Requeue,
    /// It is dropped or dead-lettered.
    Reject,
}

/// What bounds the deliveries to a consumer, beside the room in its connection's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It may hold so many messages unsettled; 0 is no bound. Each settle makes room for one more.
    Prefetch(u16),
    /// It may be delivered so many messages, and more as [`Request::Credit`] says; settles change
    /// nothing. At most [`leveret_types::limits::CREDIT_UNSETTLED_MAX`] are unsettled at a time.
    ///
    /// Credit is counted where the client is: a queue that is led on another node may have sent
    /// messages ahead of it, which nobody else is given until the consumer ends.
    Credit(u32),
}

impl Flow {
    /// The prefetch; 0 where there is none.
    #[must_use]
    pub const fn prefetch(self) -> u16 {
        match self {
            Self::Prefetch(messages) => messages,
            Self::Credit(_) => 0,
        }
    }
}

/// A subscription.
#[derive(Clone, Debug)]
pub struct Consume {
    /// The channel.
    pub channel: ChannelId,
    /// Name of the queue; never empty.
    pub queue: String,
    /// The consumer's tag, generated by the session where the client gave none.
    pub tag: String,
    /// Messages leave the queue as they are delivered.
    pub no_ack: bool,
    /// Refuse other consumers.
    pub exclusive: bool,
    /// What bounds its deliveries.
    pub flow: Flow,
    /// Arguments.
    pub arguments: FieldTable,
}

/// Declarations, bindings and deletions. Names are as they came, but for a queue's: an empty one
/// has been replaced by the last that the channel declared, except in `QueueDeclare`, where it asks
/// for a generated name.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The fields are what the catalogue's commands have.
pub enum Topology {
    ExchangeDeclare {
        name: String,
        kind: String,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: FieldTable,
    },
    ExchangeDelete {
        name: String,
        if_unused: bool,
    },
    ExchangeBind {
        destination: String,
        source: String,
        routing_key: Vec<u8>,
        arguments: FieldTable,
    },
    ExchangeUnbind {
        destination: String,
        source: String,
        routing_key: Vec<u8>,
        arguments: FieldTable,
    },
    QueueDeclare {
        name: String,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: FieldTable,
    },
    QueueBind {
        queue: String,
        exchange: String,
        routing_key: Vec<u8>,
        arguments: FieldTable,
    },
    QueueUnbind {
        queue: String,
        exchange: String,
        routing_key: Vec<u8>,
        arguments: FieldTable,
    },
    QueuePurge {
        queue: String,
    },
    QueueDelete {
        queue: String,
        if_unused: bool,
        if_empty: bool,
    },
}

/// The node's answer to what was asked.
#[derive(Debug)]
pub enum Reply {
    /// Done.
    Done,
    /// The queue that `QueueDeclare` created or found.
    Queue {
        /// Its name, generated where none was given.
        name: String,
        /// Ready messages.
        messages: u32,
        /// Consumers.
        consumers: u32,
    },
    /// How many messages a purge or a deletion took away.
    Count(u32),
    /// The consumer that `Consume` created.
    Consuming {
        /// Its id: deliveries name it.
        consumer: ConsumerId,
    },
    /// The message that `Get` found, and how many are left; nothing if the queue was empty.
    Got(Option<(Delivery, u32)>),
    /// What became of a login.
    Login(LoginOutcome),
    /// It failed: the channel or the connection is closed with this.
    Failed(ProtocolError),
}

/// What became of a login.
#[derive(Debug)]
pub enum LoginOutcome {
    /// The client is who it says it is.
    Accepted {
        /// The user's name.
        user: String,
    },
    /// The mechanism needs another round.
    Challenge(Vec<u8>),
    /// Refused. The answer goes out when the node says so: it has delayed this reply already.
    Refused {
        /// What the client is told, such as `Login was refused using authentication mechanism
        /// PLAIN. For details see the broker logfile.`
        text: String,
    },
}

/// A message on its way to a consumer.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The consumer, or the subscription that the node made for a `Get`.
    pub consumer: ConsumerId,
    /// The queue that it came from.
    pub queue: QueueId,
    /// The queue's priority log.
    pub priority_log: u8,
    /// Position in the priority log.
    pub index: u64,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// How often its delivery failed before, where the queue counts that: sent as the header
    /// `x-delivery-count`.
    pub delivery_count: Option<u32>,
    /// How often somebody had it before, where the queue counts that: sent as the header
    /// `x-acquired-count`.
    pub acquired_count: Option<u32>,
    /// The message.
    pub message: Message,
}
