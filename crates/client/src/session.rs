//! The broker's questions and events to a session.

use crate::contract::{Awaited, Delivery, Reply, Request};
use crate::ledger::Answered;
use bytes::Bytes;
use leveret_types::{
    ChannelId, ConsumerId, FieldTable, Latencies, Message, Now, OutBuffer, ProtocolError, QueueId,
    ReplyCode, ShardId,
};
use std::ops::Range;

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// The client has yet to log in or to open its virtual host.
    Opening,
    /// In use.
    Open,
    /// The broker has closed it and waits a while for the client's answer.
    Closing,
    /// Over: what the client still sends is read and dropped until it closes its socket, for a
    /// while. A socket that is dropped with unread input would take the last answer back, and fail
    /// a client that is still writing.
    Lingering,
    /// Over: the socket is to be dropped once the output is written.
    Closed,
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client has closed it.
    Client,
    /// An error has.
    Error(ProtocolError),
    /// Something else has, in words for an operator: the client was silent for too long, say.
    Other(String),
}

/// What listings show of a session.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The protocol, as listings name it.
    pub protocol: &'static str,
    /// What the client says of itself.
    pub client_properties: FieldTable,
    /// Negotiated frame size in bytes; 0 where the protocol has no frames.
    pub frame_max: u32,
    /// Negotiated number of channels; 0 where the protocol has none.
    pub channel_max: u16,
    /// Negotiated heartbeat in seconds; 0 is none.
    pub heartbeat_seconds: u16,
    /// Bytes that wait to be written to the socket.
    pub unsent_bytes: u64,
}

/// What listings show of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelStatus {
    /// Its number.
    pub number: ChannelId,
    /// Consumers.
    pub consumers: usize,
    /// The prefetch for consumers to come.
    pub prefetch: u16,
    /// Deliveries that the client has not settled.
    pub unacknowledged: usize,
    /// Publishes that the client has no answer to yet.
    pub unconfirmed: usize,
    /// Publishes of the open transaction.
    pub uncommitted: usize,
    /// Settles of the open transaction.
    pub uncommitted_acks: usize,
    /// Whether its publishes are confirmed.
    pub confirm: bool,
    /// Whether it is transactional.
    pub transactional: bool,
    /// What happened to its messages.
    pub counters: ChannelCounters,
}

/// Where a message is that a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnsettledPosition {
    /// Who holds it for the queue.
    pub subscription: ConsumerId,
    /// The queue's priority log.
    pub priority_log: u8,
    /// Its position there.
    pub index: u64,
}

/// A message that a client holds, as the client's side knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsettledDelivery {
    /// The message.
    pub place: UnsettledPosition,
    /// The channel that it was delivered on.
    pub channel: ChannelId,
    /// Its delivery tag.
    pub tag: u64,
    /// Whether it was delivered as one that was delivered before.
    pub redelivered: bool,
    /// When it was delivered, in monotonic milliseconds.
    pub since_ms: u64,
}

/// What happened to the messages of a channel since it was opened. No counter ever goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Published, in an open transaction too.
    pub published: u64,
    /// Confirmed to the client.
    pub confirmed: u64,
    /// Given back, as they found no queue.
    pub returned: u64,
    /// Delivered to consumers that settle.
    pub delivered: u64,
    /// Delivered to consumers that do not.
    pub delivered_auto_ack: u64,
    /// Got one by one, to be settled.
    pub got: u64,
    /// Got one by one, settled at once.
    pub got_auto_ack: u64,
    /// Asked for where the queue was empty.
    pub got_empty: u64,
    /// Delivered or got that had been before.
    pub redelivered: u64,
    /// Acknowledged by the client, in an open transaction too.
    pub acknowledged: u64,
}

/// What a consumer was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveredTo {
    /// Messages.
    pub messages: u64,
    /// Those of them that had been delivered before.
    pub redelivered: u64,
}

/// How long messages took, of all channels of a session; what was told is taken away.
#[derive(Debug, Default)]
pub struct SessionLatencies {
    /// Publishes, from when they were read until their confirm is written.
    pub confirms: Latencies,
    /// Messages, from when their queue's node took them until they are delivered for the first
    /// time.
    pub waits: Latencies,
    /// Deliveries, from when they are written until they are acknowledged.
    pub acknowledgements: Latencies,
}

impl SessionLatencies {
    /// Gives memory back that nothing is in.
    pub fn shrink(&mut self) {
        self.confirms.shrink();
        self.waits.shrink();
        self.acknowledgements.shrink();
    }
}

/// The state machine of one client's connection, of one protocol: bytes to [`Request`]s, what it
/// hears to bytes.
///
/// While an answer is owed ([`Self::suspended`]) nothing more of the client's input is looked at,
/// so that a client's requests take effect in their order. All calls are of one thread at a time.
pub trait Session {
    /// Takes in what the socket had; of nothing, to go on with what had to wait. What the client
    /// wants is added to `requests`, in its order.
    fn receive(&mut self, now: Now, bytes: Bytes, requests: &mut Vec<Request>);
    /// It is `now` for what is told without a time of its own, such as deliveries and answers to
    /// publishes.
    fn set_now(&mut self, now: Now);
    /// Its time has come: see [`Self::deadline`].
    fn tick(&mut self, now: Now, requests: &mut Vec<Request>);
    /// When [`Self::tick`] is to be called at the latest, in monotonic milliseconds.
    fn deadline(&self) -> Option<u64>;
    /// The socket holds bytes that are left unread on purpose; the client lived at `at`.
    fn unread(&mut self, at: Now);

    /// Whether an answer is owed: the socket need not be read before [`Self::reply`].
    fn suspended(&self) -> bool;
    /// Answers what was asked. Called only while [`Self::suspended`], with an answer to that.
    fn reply(&mut self, now: Now, reply: Reply, requests: &mut Vec<Request>);
    /// Something that was sent off on a channel has failed: the channel closes, or the connection,
    /// as the error says.
    fn fail(
        &mut self,
        now: Now,
        channel: ChannelId,
        error: ProtocolError,
        requests: &mut Vec<Request>,
    );
    /// Closes the connection. The requests that this makes come with the next call that takes them.
    fn close(&mut self, error: ProtocolError);
    /// The socket is gone: the channels that are open are given up, as [`Request::ChannelClosed`].
    fn teardown(&mut self, requests: &mut Vec<Request>);
    /// Whether what was sent off on a channel is to be carried out: not behind something that has
    /// failed there.
    fn counts(&self, channel: ChannelId) -> bool;

    /// Sends a message to its consumer. False if the consumer is gone: the message is the queue's
    /// again.
    fn deliver(&mut self, delivery: &Delivery) -> bool;
    /// A message found no queue, or no consumer: its publisher gets it back.
    fn returned(&mut self, channel: ChannelId, message: &Message, code: ReplyCode, text: &str);
    /// A consumer has ended without the client's doing.
    fn consumer_cancelled(&mut self, consumer: ConsumerId);
    /// Alarms hold publishers back for this reason, or (nothing) not any more.
    fn blocked(&mut self, reason: Option<&str>);

    /// A publish is in its queues. It is confirmed once all that is given has come true; at once if
    /// nothing is given. It must not have come true yet, or be told after this.
    fn accepted(&mut self, channel: ChannelId, number: u64, waits: &[(Awaited, u64)]);
    /// A publish was refused by a queue.
    fn rejected(&mut self, channel: ChannelId, number: u64);
    /// A shard's log is durable through a position.
    fn durable(&mut self, shard: ShardId, through: u64);
    /// A queue of the cluster has committed the operations of this node through a sequence number.
    fn committed(&mut self, queue: QueueId, through: u64);
    /// A queue of the cluster refuses operations of this node.
    fn refused(&mut self, queue: QueueId, sequences: &Range<u64>);
    /// Whether a publish waits for a log: only then must [`Self::durable`] be called.
    fn awaits_durability(&self) -> bool;

    /// Merges what has gathered, such as confirms: before the output is written.
    fn flush(&mut self);
    /// How many publishes the client has been told to be confirmed, and how many to be refused,
    /// since this was last asked.
    fn take_answered(&mut self) -> Answered;
    /// How long messages took that were confirmed, delivered or acknowledged: to be drained.
    fn latencies(&mut self) -> &mut SessionLatencies;
    /// Says something that needs no answer, if the client can be told anything: one that has gone
    /// is found out by that.
    fn beat(&mut self);
    /// What is to be written to the socket.
    fn output(&mut self) -> &mut OutBuffer;

    /// How far it is.
    fn state(&self) -> SessionState;
    /// Why it is over, or is about to be; nothing where its socket has gone without a word.
    fn end(&self) -> Option<SessionEnd> {
        None
    }
    /// Whether the client is to see the end of the output once that is written.
    fn ends_output(&self) -> bool;
    /// Whether an alarm is on.
    fn alarmed(&self) -> bool;
    /// Whether an alarm keeps the client's input waiting, for the client publishes.
    fn is_blocked(&self) -> bool;
    /// Bytes that are missing, at the least, of a publish that waits for room, beside what has been
    /// taken in; nothing if none waits. It never becomes whole if the client sends no more.
    fn lacks_bytes(&self) -> Option<usize> {
        None
    }
    /// Whether the client has published anything.
    fn published_yet(&self) -> bool;
    /// Whether a channel is transactional.
    fn is_transactional(&self, channel: ChannelId) -> bool;
    /// Whether the client can be told of a consumer that has ended without its doing.
    fn hears_of_cancels(&self) -> bool;
    /// How many deliveries to a consumer the queue does not know to be settled.
    fn unsettled_by(&self, channel: ChannelId, consumer: ConsumerId) -> usize;
    /// Consumers of these channels that hold deliveries, and when each was given the oldest of
    /// them, in monotonic milliseconds. Of very many deliveries some may not be looked at.
    fn oldest_unsettled(&self, channels: &[ChannelId]) -> Vec<(ConsumerId, u64)>;
    /// What a consumer of it was given.
    fn delivered_to(&self, consumer: ConsumerId) -> DeliveredTo;
    /// Which of these messages, given in ascending order, the client holds on these channels. Of
    /// very many deliveries some may not be looked at.
    fn unsettled_among(
        &self,
        _channels: &[ChannelId],
        _messages: &[UnsettledPosition],
    ) -> Vec<UnsettledDelivery> {
        Vec::new()
    }
    /// What listings show of it.
    fn status(&self) -> SessionStatus;
    /// What listings show of its open channels, in no order.
    fn channels(&self) -> Vec<ChannelStatus>;
}
