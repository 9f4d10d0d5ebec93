//! The messages between a remote queue and its leader, and their bytes.
//!
//! A remote queue stands on a node for a queue whose leader may be elsewhere. It *registers*
//! to a leader: with that a *session* begins, whose number is in every frame of both sides. What
//! belongs to another session is void: it was said to a leader that is none any more, or was
//! overtaken by a loss of the connection between the nodes. Frames of one session come in order.
//!
//! ```text
//! frame:  kind u8 | session u64 | record*          kind: 1 to the leader, 2 to the remote queue
//! record: tag u8 | fields
//! message: length u32 | bytes as `crate::stored` has them
//! ```
//! Integers are little-endian. The queue is named by whatever carries the frame.
//!
//! Invariant: any bytes are either decoded or refused, in memory bounded by their number.

mod codec;
mod fuzz;
#[cfg(test)]
mod tests;

pub use codec::{
    CommandFrame, Encoder, EventFrame, Malformed, decode_to_leader, decode_to_remote_queue,
};
pub use fuzz::{fuzz, seeds};

use leveret_client::Delivery;
use leveret_queue::{AttachError, Consumer, Counts, Settle};
use leveret_types::limits::{LINK_CONSUMER_BYTES_MAX, LINK_CONSUMER_MESSAGES_MAX};
use leveret_types::{ConsumerId, Message, NodeId, QueueId};
use smallvec::SmallVec;
use std::ops::Range;

/// What a message takes at most besides its own bytes.
const MESSAGE_BYTES: usize = 64;

/// First byte of a frame from a remote queue to a leader.
pub const TO_LEADER: u8 = 1;
/// First byte of a frame from a leader to a remote queue.
pub const TO_REMOTE_QUEUE: u8 = 2;

/// Whose operations a sequence counts: one run of one node's process. A run's `start` is greater
/// than those of all earlier runs of the node, whose operations are void once it has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The node.
    pub node: NodeId,
    /// The run.
    pub start: u64,
}

/// A change that a node's clients want of a queue. An origin's operations on a queue are numbered
/// from 1 without gaps, and take effect once each, in this order.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A message for the queue.
    Publish(Message),
    /// What became of messages that somebody holds.
    Settle(Settle),
    /// An operation that is answered already and only keeps its number, or one that changes nothing
    /// and says that somebody waits for those before it.
    Nothing,
}

/// Somebody who holds messages, or may, as a remote queue tells a leader that does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredSubscription {
    /// Its id.
    pub id: ConsumerId,
    /// What it was attached as; nothing for who only gets, and after a cancel.
    pub consumer: Option<Consumer>,
    /// What [`Event::Active`] said of it last; 0 of who is no consumer.
    pub activation: u64,
    /// What it holds, by priority log. The settles that have no answer yet are not taken off: they
    /// come again.
    pub unsettled: Vec<UnsettledRange>,
}

/// Messages that a subscription has, neighbours in one priority log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledRange {
    /// The priority log.
    pub priority_log: u8,
    /// Indexes in the priority log.
    pub range: Range<u64>,
    /// How often somebody had them before, as far as the leader knew that delivered them: of two
    /// who claim a message, the one with the greater number got it later.
    pub acquired: u64,
    /// The operation that settles them and has no answer; 0 if there is none. A leader that has
    /// that operation already knows better what became of them.
    pub settled_by: u64,
}

/// How a remote queue registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The run of its node: see [`Origin`].
    pub start: u64,
    /// The term of the leader that it speaks to; 0 if it does not know.
    pub term: u64,
    /// Number of the first operation that it will send.
    pub first_sequence: u64,
    /// Its subscriptions. Any other subscription of that node is gone.
    pub subscriptions: Vec<RegisteredSubscription>,
}

/// From a remote queue to a leader.
#[derive(Clone, Debug)]
pub enum Command {
    /// A session begins.
    Register(Box<Registration>),
    /// The answer to [`Event::Leading`] of a node that has nothing to register. Of no
    /// session.
    NothingToRegister {
        /// The leader's term.
        term: u64,
    },
    /// Operations in order. What the leader has already is skipped; if some are missing before the
    /// first, all are dropped and the remote queue is told to register again.
    Operations {
        /// Number of the first.
        first: u64,
        /// The operations.
        operations: Vec<Operation>,
    },
    /// What became of all operations below this number has reached whom it concerns: which of them
    /// were refused need not be remembered. Said after some refusals.
    Acknowledged {
        /// The first that has no answer yet.
        first: u64,
    },
    /// Attach a consumer: [`Event::Attached`].
    Attach(Consumer),
    /// Deliver no more to a consumer; it keeps what it holds: [`Event::Cancelled`].
    Cancel(ConsumerId),
    /// A subscription is gone; what it holds returns, counted.
    Detach(ConsumerId),
    /// Deliveries have gone on to a consumer: see [`Window`].
    Credit {
        /// The consumer.
        consumer: ConsumerId,
        /// Deliveries.
        messages: u32,
        /// Bytes of their bodies.
        bytes: u64,
    },
    /// `basic.get`: [`Event::Got`].
    Get {
        /// Who is to hold it.
        subscription: ConsumerId,
        /// Whether the message leaves at once.
        no_ack: bool,
    },
    /// Drop all ready messages: [`Event::Purged`].
    Purge {
        /// Comes back in the answer.
        request: u64,
    },
    /// How does the queue stand? [`Event::Counted`].
    Count {
        /// Comes back in the answer.
        request: u64,
    },
    /// Which message is ready behind so many others? It stays: [`Event::Peeked`].
    Peek {
        /// Comes back in the answer.
        request: u64,
        /// The others.
        before: u64,
    },
    /// The local replica does not have the message of a [`Event::DeliverLocal`]:
    /// [`Event::Fetched`].
    Fetch {
        /// The consumer.
        consumer: ConsumerId,
        /// The priority log.
        priority_log: u8,
        /// Its index.
        index: u64,
    },
}

/// How a queue stands, for the answer to a declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Ready messages.
    pub ready: u64,
    /// Messages that somebody holds.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u64,
}

impl From<&Counts> for QueueCounts {
    fn from(counts: &Counts) -> Self {
        Self {
            ready: counts.ready,
            unsettled: counts.unsettled,
            consumers: counts.consumers as u64,
        }
    }
}

/// From a leader to a remote queue.
#[derive(Clone, Debug)]
pub enum Event {
    /// The sender leads the queue, and does not know the receiver's session: register.
    Leading {
        /// Its term.
        term: u64,
    },
    /// The sender does not lead the queue.
    NotLeader {
        /// The latest term that it knows.
        term: u64,
        /// Who leads in that term, as far as it knows.
        leader: Option<NodeId>,
    },
    /// All operations up to this one have taken effect for good. Said after each registration too,
    /// of what was so already.
    Committed {
        /// The last of them.
        through: u64,
    },
    /// Publishes that the queue refuses. Said before they are told to be committed, also after a
    /// registration, of those that were refused already.
    Refused {
        /// Their numbers.
        sequences: Range<u64>,
    },
    /// The answer to [`Command::Attach`].
    Attached {
        /// The consumer.
        consumer: ConsumerId,
        /// Why not.
        result: Result<(), AttachError>,
    },
    /// A message for a consumer.
    Deliver(Delivery),
    /// A message for a consumer, which the receiver's own replica has.
    DeliverLocal(LocalDelivery),
    /// The answer to [`Command::Fetch`].
    Fetched {
        /// The consumer.
        consumer: ConsumerId,
        /// The priority log.
        priority_log: u8,
        /// Its index.
        index: u64,
        /// The message, if it can be had.
        fetched: Fetched,
    },
    /// The answer to [`Command::Cancel`], behind the consumer's last delivery. Said of an unknown
    /// consumer too.
    Cancelled(ConsumerId),
    /// The answer to [`Command::Get`].
    Got {
        /// Who asked.
        subscription: ConsumerId,
        /// The message, and how many ready ones are behind it.
        got: Option<(Delivery, u64)>,
    },
    /// The answer to [`Command::Purge`].
    Purged {
        /// Which.
        request: u64,
        /// How many messages went.
        count: u64,
    },
    /// The answer to [`Command::Count`].
    Counted {
        /// Which.
        request: u64,
        /// How the queue stands.
        queue_counts: QueueCounts,
    },
    /// The answer to [`Command::Peek`]. What is gone is not there: fewer messages are ready.
    Peeked {
        /// Which.
        request: u64,
        /// The message, if it can be had.
        fetched: Fetched,
    },
    /// A consumer has kept a delivery for too long.
    TimedOut(ConsumerId),
    /// Whether a consumer of a queue with a single active one is that.
    Active {
        /// The consumer.
        consumer: ConsumerId,
        /// A number that is greater than those of all who were it before; 0 if it waits.
        activation: u64,
    },
}

impl Event {
    /// What the message in it weighs; nothing where there is none.
    pub(crate) fn weight(&self) -> usize {
        let message = match self {
            Self::Deliver(delivery) => Some(&delivery.message),
            Self::Got { got, .. } => got.as_ref().map(|(delivery, _)| &delivery.message),
            Self::Fetched { fetched, .. } | Self::Peeked { fetched, .. } => match fetched {
                Fetched::Message(message) => Some(message),
                Fetched::Gone | Fetched::Unreadable => None,
            },
            _ => None,
        };
        message.map_or(0, |message| MESSAGE_BYTES + message.weight())
    }
}

/// What became of the message of a delivery that came without it.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// Here it is.
    Message(Message),
    /// The consumer does not hold it any more: it came back, and may be with somebody else.
    Gone,
    /// The consumer holds it, and the leader cannot read it either.
    Unreadable,
}

/// A delivery without its message.
///
/// Every member of the group that has the entry `entry` of term `term` has the message's entry too,
/// and so the same message at this place: it may deliver that without knowing yet that the entry is
/// committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDelivery {
    /// The consumer.
    pub consumer: ConsumerId,
    /// The priority log.
    pub priority_log: u8,
    /// Index in the priority log.
    pub index: u64,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// See [`Delivery::delivery_count`].
    pub delivery_count: Option<u32>,
    /// See [`Delivery::acquired_count`].
    pub acquired_count: Option<u32>,
    /// Bytes of the message's body.
    pub bytes: u32,
    /// The entry of the group that brought the message, or a later one.
    pub entry: u64,
    /// That entry's term.
    pub term: u64,
}

impl LocalDelivery {
    /// The delivery with its message.
    #[must_use]
    pub fn complete(&self, queue: QueueId, message: Message) -> Delivery {
        Delivery {
            consumer: self.consumer,
            queue,
            priority_log: self.priority_log,
            index: self.index,
            redelivered: self.redelivered,
            delivery_count: self.delivery_count,
            acquired_count: self.acquired_count,
            message,
        }
    }
}

/// What a leader may have under way to one consumer on another node: bounded in messages and in
/// bytes, but one message always may. The remote queue gives back what the consumer's connection
/// has taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    messages: u32,
    bytes: u64,
    refused: bool,
}

impl Window {
    /// Takes room for a message; false if there is none, which is remembered.
    pub fn take(&mut self, bytes: u32) -> bool {
        let full = self.messages >= LINK_CONSUMER_MESSAGES_MAX
            || self.messages > 0 && self.bytes + u64::from(bytes) > LINK_CONSUMER_BYTES_MAX;
        if full {
            self.refused = true;
            return false;
        }
        self.messages += 1;
        self.bytes += u64::from(bytes);
        true
    }

    /// Gives room back; true if a message was refused since the last time, and the queue is to
    /// unblock the consumer. Not before half of the window is free.
    pub fn give(&mut self, messages: u32, bytes: u64) -> bool {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = self.bytes.saturating_sub(bytes);
        let roomy = self.messages <= LINK_CONSUMER_MESSAGES_MAX / 2
            && self.bytes <= LINK_CONSUMER_BYTES_MAX / 2;
        roomy && std::mem::take(&mut self.refused)
    }
}

/// The pieces of a frame's bytes, in order.
pub type Pieces = SmallVec<[bytes::Bytes; 4]>;

/// A message from a leader, on its way to a node: what a leader's methods put out.
#[derive(Debug)]
pub struct Answer {
    /// The node.
    pub to: NodeId,
    /// The queue.
    pub queue: QueueId,
    /// The session that it belongs to; 0 for [`Event::Leading`] and
    /// [`Event::NotLeader`].
    pub session: u64,
    /// What is said.
    pub message: Event,
}

impl Answer {
    /// What a node is told that says something to a queue that is gone, or has not come here yet;
    /// nothing to what needs no answer.
    pub(crate) fn not_here(to: NodeId, queue: QueueId, command: &Command) -> Option<Self> {
        let needs_none = matches!(command, Command::NothingToRegister { .. });
        (!needs_none).then_some(Self {
            to,
            queue,
            session: 0,
            message: Event::NotLeader {
                term: 0,
                leader: None,
            },
        })
    }
}
