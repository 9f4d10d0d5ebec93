//! How long a write-ahead log has not become durable though somebody waits for it.

use leveret_types::Now;
use leveret_types::limits::LOG_STUCK_MS;

/// Since when, on the monotonic clock, something waits for the log and nothing has become durable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standstill(Option<u64>);

impl Standstill {
    /// Something waits, or nothing does.
    pub(crate) fn note(&mut self, now: Now, waits: bool) {
        self.0 = waits.then(|| self.0.unwrap_or(now.monotonic_ms));
    }

    /// The log has become durable further.
    pub(crate) fn ended(&mut self, now: Now, waits: bool) {
        self.0 = waits.then_some(now.monotonic_ms);
    }

    /// When the log counts as stuck.
    pub(crate) fn deadline_ms(self) -> Option<u64> {
        Some(self.0? + LOG_STUCK_MS)
    }
}
