//! What a queue is told to be: its arguments and policies, resolved.

use leveret_types::limits;

/// What kind of queue the machine serves. Fixed at declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// One lane, or a lane for each priority up to [`Settings::priority_max`].
    Classic,
    /// Lanes 0 to 31, 4 where a message has no priority; counts deliveries; a single active
    /// consumer yields to a higher priority.
    Quorum,
}

/// What happens to a publish that would exceed a length limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest ready messages go, of the highest priority first (as RabbitMQ has it).
    #[default]
    DropHead,
    /// The publish is refused.
    RejectPublish,
    /// The publish is refused, and the message dead-lettered.
    RejectPublishDlx,
}

/// Which messages that come back wait before they go out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// All that a client gives back or fails to settle.
    All,
    /// Those whose delivery failed, which counts towards the delivery limit.
    Failed,
    /// Those that were given back without that.
    Returned,
}

/// `delayed-retry-type`, `-min` and `-max` of a quorum queue: a back-off that grows with every
/// failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedRetry {
    /// Which messages wait.
    pub of: Retried,
    /// Milliseconds after the first failure, twice that after the second, and so on.
    pub min_ms: u64,
    /// Never longer than this many milliseconds.
    pub max_ms: u64,
}

impl DelayedRetry {
    /// How long a message waits whose delivery has failed so often.
    #[must_use]
    pub fn delay_ms(&self, failed: u32) -> u64 {
        let steps = u64::from(failed.max(1));
        self.min_ms.saturating_mul(steps).min(self.max_ms)
    }
}

/// A queue's settings in force: arguments, policy and operator policy merged. All times are
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `message-ttl`: how long a message may wait, counted from when it was published.
    pub ttl_ms: Option<u64>,
    /// `expires`: how long the queue itself lives without consumers and use.
    pub expires_ms: Option<u64>,
    /// `max-length`: ready messages.
    pub length_max: Option<u64>,
    /// `max-length-bytes`: bytes of the bodies of ready messages.
    pub length_bytes_max: Option<u64>,
    /// `overflow`.
    pub overflow: Overflow,
    /// Whether there is a dead-letter exchange: what is rejected, expired or dropped goes out as
    /// [`crate::Effect::DeadLetter`].
    pub dead_letter: bool,
    /// `x-max-priority` of a classic queue, 0 where it has none. Fixed at declaration.
    pub priority_max: u8,
    /// `x-single-active-consumer`. Fixed at declaration.
    pub single_active: bool,
    /// `delivery-limit` of a quorum queue: how often a message may come back, counted, before it
    /// goes. `None` is no limit.
    pub delivery_limit: Option<u32>,
    /// `consumer-timeout`: how long a delivery may stay unsettled. `None` is for ever.
    pub consumer_timeout_ms: Option<u64>,
    /// `delayed-retry-*` of a quorum queue. `None` is that what comes back is ready at once.
    pub delayed_retry: Option<DelayedRetry>,
}

impl Default for Settings {
    /// What a queue declared without arguments and policies has.
    fn default() -> Self {
        Self {
            ttl_ms: None,
            expires_ms: None,
            length_max: None,
            length_bytes_max: None,
            overflow: Overflow::DropHead,
            dead_letter: false,
            priority_max: 0,
            single_active: false,
            delivery_limit: Some(limits::DELIVERY_LIMIT),
            consumer_timeout_ms: None,
            delayed_retry: None,
        }
    }
}
