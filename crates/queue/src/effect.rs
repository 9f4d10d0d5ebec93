//! Every way in which a queue can act, and what it answers.

use crate::{Position, Returns};
use leveret_types::ConsumerId;
use std::ops::Range;

/// What the queue wants done. Effects are to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to a consumer.
    Deliver(Delivery),
    /// Messages leave the log: accepted, delivered without acknowledgement, dropped, purged, or
    /// dead-lettered for good. Neighbouring ones come as one range.
    Settled {
        /// The priority log.
        priority_log: u8,
        /// Indexes in the priority log.
        range: Range<u64>,
        /// Bytes of the messages together. Of the ranges of one priority log that a purge takes,
        /// the first carries the bytes of all.
        bytes: u64,
    },
    /// Messages came back, and this is known of them from now on; see
    /// [`crate::Queue::tell_returns`].
    Returned {
        /// The priority log.
        priority_log: u8,
        /// Indexes in the priority log.
        range: Range<u64>,
        /// What is known of each.
        returns: Returns,
    },
    /// Publish these messages to the dead-letter exchange; then call
    /// [`crate::Queue::dead_lettered`]. Until then they are kept.
    DeadLetter {
        /// The priority log.
        priority_log: u8,
        /// Indexes in the priority log.
        range: Range<u64>,
        /// Why they go.
        reason: Reason,
    },
    /// The single active consumer is now this one.
    Activate {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// This consumer is no longer the single active one, and still attached.
    Deactivate {
        /// The consumer.
        consumer: ConsumerId,
    },
    /// This subscription has kept a delivery unsettled for longer than allowed. It gets no more;
    /// the node should [`crate::Queue::detach`] it (with its channel, where that is the rule). Said
    /// once.
    TimedOut {
        /// The consumer, or who got the message.
        subscription: ConsumerId,
    },
    /// This message cannot be read. It is set aside: neither delivered nor settled, until an
    /// operator repairs the store (`leveret storage repair`).
    Damaged {
        /// The message.
        position: Position,
    },
    /// The queue has been out of use for longer than its `expires` allows: delete it. Said again
    /// after a while if it is still there, for who could not.
    Expired,
}

/// A message on its way to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The consumer.
    pub consumer: ConsumerId,
    /// The message.
    pub position: Position,
    /// Bytes of its body.
    pub bytes: u32,
    /// Whether it may have been delivered before.
    pub redelivered: bool,
    /// How often its delivery failed before; `None` where it never did, or the queue does not
    /// count. The `x-delivery-count` header.
    pub delivery_count: Option<u32>,
    /// How often somebody had it before and gave it back, one more where somebody may have had it
    /// of whom nothing is known; `None` where nobody gave it back, or the queue does not count. The
    /// `x-acquired-count` header.
    pub acquired_count: Option<u32>,
    /// Whether it is settled by being sent (`no_ack`). Then it is in an [`Effect::Settled`] of the
    /// same call as well.
    pub settled: bool,
}

/// Why a message was dead-lettered or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A consumer rejected it.
    Rejected,
    /// Its time to live was over.
    Expired,
    /// A length limit pushed it out.
    MaxLength,
    /// It came back more often than the delivery limit allows.
    DeliveryLimit,
}

impl Reason {
    /// The name that RabbitMQ gives it in `x-death`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }
}

/// What became of messages that a subscription has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Who holds them.
    pub subscription: ConsumerId,
    /// The priority log.
    pub priority_log: u8,
    /// Indexes in the priority log. What of them the subscription does not hold is left alone.
    pub range: Range<u64>,
    /// What became of them.
    pub outcome: Outcome,
}

/// What a subscription says of messages that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done with: they leave.
    Accept,
    /// They go back to their old places.
    Requeue {
        /// Whether this counts towards the delivery limit of a quorum queue: a reject does, a nack
        /// does not.
        count: bool,
    },
    /// They go back through no fault of the subscription's: its node is lost, or it never saw them.
    /// Not counted towards the delivery limit, and not delayed.
    Release,
    /// Dead-lettered, or dropped where there is no dead-letter exchange.
    Reject,
}

/// Whether the queue takes a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Append it to the log and call [`crate::Queue::enqueue`].
    Take,
    /// Refuse it: the publisher gets a negative confirm.
    Reject {
        /// Publish it to the dead-letter exchange, with reason [`Reason::MaxLength`].
        dead_letter: bool,
    },
}

/// The answer to [`crate::Queue::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// A message, and how many are ready after it.
    Message {
        /// The message; `consumer` is the subscription that was given.
        delivery: Delivery,
        /// Ready messages that are left.
        ready: u64,
    },
    /// Nothing is ready.
    Empty,
    /// The next message is being read from disk: ask again after [`crate::Queue::resume`].
    Pending,
}
