//! When a connection was heard and has spoken, and when it is over. All times are monotonic
//! milliseconds.

use leveret_types::Now;

/// When the client was heard, the broker spoke, and the connection ends.
#[derive(Debug)]
pub(crate) struct Times {
    last_input_ms: u64,
    spoke_ms: u64,
    /// When the connection is dropped as it is.
    pub(crate) until_ms: Option<u64>,
}

impl Times {
    /// Those of a connection that begins now and has so long for its handshake.
    pub(crate) const fn new(now: Now, handshake_ms: u64) -> Self {
        Self {
            last_input_ms: now.monotonic_ms,
            spoke_ms: now.monotonic_ms,
            until_ms: Some(now.monotonic_ms + handshake_ms),
        }
    }

    /// The client lives.
    pub(crate) const fn hear(&mut self, now: Now) {
        self.last_input_ms = now.monotonic_ms;
    }

    /// Something is said to the client.
    pub(crate) const fn speak(&mut self, now: Now) {
        self.spoke_ms = now.monotonic_ms;
    }

    /// Whether it is to be dropped.
    pub(crate) fn is_over(&self, now: Now) -> bool {
        self.until_ms.is_some_and(|until| until <= now.monotonic_ms)
    }

    /// It is dropped after so long, and not later than it was to be.
    pub(crate) fn hurry(&mut self, now: Now, ms: u64) {
        let until = now.monotonic_ms + ms;
        self.until_ms = Some(self.until_ms.unwrap_or(until).min(until));
    }

    /// Whether nothing was heard of the client for two heartbeats of this interval.
    pub(crate) const fn is_silent(&self, now: Now, interval_ms: u64) -> bool {
        now.monotonic_ms >= self.silent_at_ms(interval_ms)
    }

    /// Whether the client is to hear something, with heartbeats of this interval.
    pub(crate) const fn is_beat_due(&self, now: Now, interval_ms: u64) -> bool {
        now.monotonic_ms >= self.beat_at_ms(interval_ms)
    }

    /// When one of both comes true.
    pub(crate) fn heartbeat_ms(&self, interval_ms: u64) -> u64 {
        let silent = self.silent_at_ms(interval_ms);
        silent.min(self.beat_at_ms(interval_ms))
    }

    const fn silent_at_ms(&self, interval_ms: u64) -> u64 {
        self.last_input_ms + 2 * interval_ms
    }

    const fn beat_at_ms(&self, interval_ms: u64) -> u64 {
        self.spoke_ms + interval_ms / 2
    }
}
