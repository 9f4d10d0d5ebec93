//! Time as an argument: the core never asks for it.

/// The moment at which an input is handled, as the shell's (or the simulator's) clocks tell it.
///
/// Two clocks, because they answer different questions: `monotonic_ms` measures intervals
/// (heartbeats, leases, timeouts) and never goes back; `wall_ms` is what a message's age and a
/// header's timestamp refer to, survives a restart, and may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Milliseconds since an arbitrary start; never decreases within a process.
    pub monotonic_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}

impl Now {
    /// A moment at which both clocks show `ms`: for tests, which rarely care about the difference.
    #[must_use]
    pub const fn both(ms: u64) -> Self {
        Self {
            monotonic_ms: ms,
            wall_ms: ms,
        }
    }
}
