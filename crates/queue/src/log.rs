//! The queue's questions to its surroundings.

use leveret_types::ConsumerId;

/// Where a message is: an index in a priority log. Ordered by priority log, then by
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The priority log: the message's priority, as the queue reckons it
    /// ([`crate::Queue::priority_log_for`]).
    pub priority_log: u8,
    /// Index in the priority log's log.
    pub index: u64,
}

/// What the queue must know of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Bytes of the body: what length limits and statistics count.
    pub bytes: u32,
    /// When the broker took it, milliseconds since the Unix epoch.
    pub published_ms: u64,
    /// The message's own time to live in milliseconds, counted from `published_ms`.
    pub expiration_ms: Option<u64>,
}

/// The log's answer to a look at one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// It can be delivered at once.
    Ready(Meta),
    /// It is being read from disk; [`crate::Queue::resume`] will be called when it is there. The
    /// log reads on from it.
    Pending,
    /// It cannot be read, now or later.
    Damaged,
}

/// What the queue may ask, synchronously, while it runs.
pub trait Log {
    /// Looks at a message. The queue asks for the heads of priority logs, so in ascending order but
    /// for what returns.
    fn peek(&mut self, position: Position) -> Peek;

    /// Whether this consumer's channel and connection can take one more delivery of this many bytes
    /// now. With `true` the delivery counts as taken, and the queue makes it. With `false` the
    /// queue leaves the consumer out until [`crate::Queue::unblock`].
    fn admit(&mut self, consumer: ConsumerId, bytes: u32) -> bool;

    /// Whether this message may be handed out now: where somebody must know first that it may have
    /// been. With `false` it waits, and so does what is behind it, until a later pump.
    fn may_hand_out(&mut self, position: Position) -> bool {
        let _ = position;
        true
    }
}
