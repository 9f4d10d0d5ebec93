//! How long a write-ahead log has not become durable though somebody waits for it.

use leveret_types::Now;
use leveret_types::limits::LOG_STUCK_MS;

/// After which a log that is stuck is looked at again while nobody else is known to write.
const RECHECK_MS: u64 = LOG_STUCK_MS / 4;

/// Since when, on the monotonic clock, something waits for the log and nothing has become durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct StalledLog(Option<u64>);

impl StalledLog {
    /// Something waits, or nothing does.
    pub fn note(&mut self, now: Now, waits: bool) {
        self.0 = waits.then(|| self.0.unwrap_or(now.monotonic_ms));
    }

    /// The log has become durable further.
    pub fn ended(&mut self, now: Now, waits: bool) {
        self.0 = waits.then_some(now.monotonic_ms);
    }

    /// Whether the log counts as stuck, for the first time or once more after as long.
    pub fn is_due(&mut self, now: Now, waits: bool) -> bool {
        self.note(now, waits);
        let is_due = self
            .deadline_ms()
            .is_some_and(|due| due <= now.monotonic_ms);
        if is_due {
            self.ended(now, waits);
        }
        is_due
    }

    /// The log is stuck and nobody can be handed anything yet: looks again sooner.
    pub fn recheck_soon(&mut self, now: Now) {
        let since = now.monotonic_ms + RECHECK_MS;
        self.0 = self.0.map(|_| since.saturating_sub(LOG_STUCK_MS));
    }

    /// When the log counts as stuck.
    pub(crate) fn deadline_ms(self) -> Option<u64> {
        Some(self.0? + LOG_STUCK_MS)
    }
}
