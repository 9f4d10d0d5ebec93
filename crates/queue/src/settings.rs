//! The settings of a queue: its arguments and policies, resolved.

use leveret_types::{DelayedRetry, Overflow, limits};

/// A queue's settings in force: arguments, policy and operator policy merged. All times are
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `message-ttl`: how long a message may wait, counted from when it was published.
    pub ttl_ms: Option<u64>,
    /// `expires`: how long the queue itself lives without consumers and use.
    pub expires_ms: Option<u64>,
    /// `max-length`: ready messages, and see [`Self::dead_letter_at_least_once`].
    pub length_max: Option<u64>,
    /// `max-length-bytes`: bytes of the bodies of the same messages.
    pub length_bytes_max: Option<u64>,
    /// `overflow`.
    pub overflow: Overflow,
    /// Whether there is a dead-letter exchange: what is rejected, expired or dropped goes out as
    /// [`crate::Effect::DeadLetter`].
    pub dead_letter: bool,
    /// Whether what is dead-lettered stays until it is where it was to go (`dead-letter-strategy`
    /// `at-least-once`): until then it counts towards the length limits. Only together with an
    /// `overflow` that refuses.
    pub dead_letter_at_least_once: bool,
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
            dead_letter_at_least_once: false,
            priority_max: 0,
            single_active: false,
            delivery_limit: Some(limits::DELIVERY_LIMIT),
            consumer_timeout_ms: None,
            delayed_retry: None,
        }
    }
}
