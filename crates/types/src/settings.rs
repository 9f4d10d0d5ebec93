//! What a queue's arguments and policies may say of it that the catalogue reads and the queue does.

/// What happens to a publish that would exceed a length limit (`x-overflow`).
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

/// Which messages that come back to a quorum queue wait before they go out again
/// (`delayed-retry-type`).
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
    /// Milliseconds after the first failure, twice that after the second, three times that after
    /// the third, and so on.
    pub min_ms: u64,
    /// Never longer than this many milliseconds.
    pub max_ms: u64,
}

impl DelayedRetry {
    /// How many milliseconds a message waits whose delivery has failed so often.
    #[must_use]
    pub fn delay_ms(&self, failed: u32) -> u64 {
        let steps = u64::from(failed.max(1));
        self.min_ms.saturating_mul(steps).min(self.max_ms)
    }
}
