//! How long confirms, deliveries and acknowledgements took lately. What is summed up since the
//! node's start says little of now; what is sampled of it, and shown, is of the minute before.

use crate::api::BrokerStats;
use leveret_types::LatencyCounts;
use leveret_types::limits::SAMPLE_STEP_MS;
use std::collections::VecDeque;

/// Over which time it is looked back.
const WINDOW_MS: u64 = 60_000;

/// Looks of that time at most, and one before them.
const LOOKS_MAX: usize = (WINDOW_MS / SAMPLE_STEP_MS) as usize + 1;

/// What was measured: from publishes to their confirms and to first deliveries, from deliveries to
/// acknowledgements.
type Measured = [LatencyCounts; 3];

/// Of a node's clients, whatever protocol they speak.
pub(crate) fn of_clients(broker: &BrokerStats) -> Measured {
    let mut confirms = broker.latencies.confirms;
    confirms.add_all(&broker.latencies.stream_confirms);
    [
        confirms,
        broker.latencies.waits,
        broker.latencies.acknowledgements,
    ]
}

/// What was measured at each of the last looks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    looks: VecDeque<(u64, Measured)>,
}

impl Lately {
    /// What was measured so far since the node's start; tells the same as [`Self::p99_ms`].
    pub(crate) fn note(&mut self, now_ms: u64, measured: Measured) -> [u64; 3] {
        let is_old = |at_ms: u64| at_ms + WINDOW_MS < now_ms;
        while self.looks.len() >= LOOKS_MAX || self.looks.front().is_some_and(|f| is_old(f.0)) {
            self.looks.pop_front();
        }
        self.looks.push_back((now_ms, measured));
        self.p99_ms()
    }

    /// The milliseconds within which 99 of 100 were, between the first and the last look; 0 if
    /// there were none.
    pub(crate) fn p99_ms(&self) -> [u64; 3] {
        let (Some((_, first)), Some((_, last))) = (self.looks.front(), self.looks.back()) else {
            return [0; 3];
        };
        std::array::from_fn(|at| last[at].since(&first[at]).within_ms(990).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_of_the_minute_before_and_of_nothing_older() {
        let (mut lately, mut measured) = (Lately::default(), Measured::default());
        assert_eq!(lately.p99_ms(), [0, 0, 0]);
        measured[0].add(900, 50);
        let told = lately.note(1_000, measured);
        assert_eq!(told, [0, 0, 0], "what was before is not known in time");
        measured[0].add(3, 1_000);
        measured[1].add(9, 1);
        measured[2].add(40, 1);
        assert_eq!(lately.note(6_000, measured), [3, 10, 50]);
        measured[0].add(250, 11);
        assert_eq!(lately.note(11_000, measured), [300, 10, 50]);
        for step in 3..13 {
            assert_eq!(lately.note(1_000 + step * 5_000, measured), [300, 10, 50]);
        }
        assert_eq!(lately.note(66_000, measured), [300, 0, 0]);
        assert_eq!(lately.note(71_000, measured), [0, 0, 0]);
        assert!(lately.looks.len() <= LOOKS_MAX);
        // A node that stood still knows nothing of that time.
        measured[0].add(5, 1);
        assert_eq!(lately.note(700_000, measured), [0, 0, 0]);
        assert_eq!(lately.looks.len(), 1);
    }
}
