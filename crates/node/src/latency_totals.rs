//! How long messages took at the whole node, written by any thread.

use leveret_types::LatencyCounts;
use leveret_types::latency::LATENCY_SLOTS;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was measured since the node's start.
#[derive(Debug, Default)]
pub struct LatencyTotals {
    slots: [AtomicU64; LATENCY_SLOTS],
    total_ms: AtomicU64,
}

impl LatencyTotals {
    /// Adds what a connection has measured.
    pub fn add(&self, counts: &LatencyCounts) {
        for (sum, count) in self.slots.iter().zip(counts.slots) {
            if count > 0 {
                sum.fetch_add(count, Ordering::Relaxed);
            }
        }
        self.total_ms.fetch_add(counts.total_ms, Ordering::Relaxed);
    }

    /// What there is now. As many as the slots have together; the time may be a moment apart.
    #[must_use]
    pub fn values(&self) -> LatencyCounts {
        let slots = std::array::from_fn(|at| self.slots[at].load(Ordering::Relaxed));
        LatencyCounts {
            slots,
            count: slots.iter().sum(),
            total_ms: self.total_ms.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connections_measured_adds_up() {
        let totals = LatencyTotals::default();
        let mut expected = LatencyCounts::default();
        for (ms, count) in [(0, 3), (12, 1), (9_000_000, 2)] {
            let mut one = LatencyCounts::default();
            one.add(ms, count);
            totals.add(&one);
            expected.add(ms, count);
        }
        assert_eq!(totals.values(), expected);
    }
}
