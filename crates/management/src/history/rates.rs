//! Rates without a statistics database: what a counter grew by between two questions.
//!
//! For what is not sampled ([`crate::history::sampling`]). The first answer about an object says
//! 0; a later one says the mean since the answer before it, and keeps saying so until [`WINDOW`]
//! has passed, so that many who ask do not shorten each other's window.

use leveret_types::limits::RATED_OBJECTS_MAX;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The shortest time over which a rate is measured.
pub const WINDOW: Duration = Duration::from_secs(5);
/// An object that nobody asked about for this long is forgotten when room is needed.
const FORGET: Duration = Duration::from_secs(300);

/// Counters of messages that each object has.
pub const MESSAGE_FIELDS: usize = 12;
/// Counters of a pair.
pub const PAIR_FIELDS: usize = 3;
/// Counters of a node whose rates are shown.
pub const NODE_FIELDS: usize = 27;

/// Whose rates are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The node.
    Node,
    /// A queue by id.
    Queue(u64),
    /// A channel by its connection and number.
    Channel(u64, u16),
    /// A virtual host by the fingerprint of its name.
    Vhost(u64),
    /// A connection by id.
    Connection(u64),
    /// An exchange by the fingerprint of its virtual host and name.
    Exchange(u64),
    /// A pair of two things by the fingerprint of both: see [`crate::pairs`].
    Pair(u64),
}

#[derive(Clone, Copy, Debug)]
struct Sample<const N: usize> {
    taken: Instant,
    counters: [u64; N],
    rates: [f64; N],
}

/// Rates of objects with `N` counters each.
#[derive(Debug)]
pub struct Rates<K, const N: usize> {
    samples: HashMap<K, Sample<N>>,
    /// Until when none of them is to be forgotten, as far as that is known.
    full_until: Option<Instant>,
    #[cfg(test)]
    sweeps: usize,
}

impl<K: Eq + Hash, const N: usize> Rates<K, N> {
    /// Nothing known yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            samples: HashMap::new(),
            full_until: None,
            #[cfg(test)]
            sweeps: 0,
        }
    }

    /// The rates, per second, of an object whose counters are now these.
    pub fn of(&mut self, key: K, counters: [u64; N], now: Instant) -> [f64; N] {
        if self.is_full() && !self.samples.contains_key(&key) {
            self.make_room(now);
            if self.is_full() {
                return [0.0; N];
            }
        }
        let fresh = Sample {
            taken: now,
            counters,
            rates: [0.0; N],
        };
        let sample = self.samples.entry(key).or_insert(fresh);
        let passed = now.duration_since(sample.taken);
        if passed >= WINDOW {
            for (at, counter) in counters.into_iter().enumerate() {
                // A counter that went back is a new object under an old name.
                let grown = counter.saturating_sub(sample.counters[at]);
                sample.rates[at] = grown as f64 / passed.as_secs_f64();
            }
            sample.taken = now;
            sample.counters = counters;
        }
        sample.rates
    }

    fn is_full(&self) -> bool {
        self.samples.len() >= RATED_OBJECTS_MAX
    }

    /// Forgets those that nobody asked about for long. All are looked at for that, and not again
    /// before the oldest of those that stay may go: further ones may be very many.
    fn make_room(&mut self, now: Instant) {
        if self.full_until.is_some_and(|until| now < until) {
            return;
        }
        self.samples
            .retain(|_, sample| now.duration_since(sample.taken) < FORGET);
        let oldest = self.samples.values().map(|sample| sample.taken).min();
        self.full_until = oldest.map(|oldest| oldest + FORGET);
        #[cfg(test)]
        {
            self.sweeps += 1;
        }
    }
}

impl<K: Eq + Hash, const N: usize> Default for Rates<K, N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_between_two_questions() {
        let mut rates = Rates::new();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(rates.of(1, [100], at(0)), [0.0]);
        // Too early for a new window: still what was known.
        assert_eq!(rates.of(1, [150], at(4)), [0.0]);
        assert_eq!(rates.of(1, [200], at(5)), [20.0]);
        assert_eq!(rates.of(1, [900], at(9)), [20.0]);
        assert_eq!(rates.of(1, [200], at(15)), [0.0]);
        assert_eq!(rates.of(1, [0], at(20)), [0.0]);
        assert_eq!(rates.of(2, [7], at(20)), [0.0]);
    }

    #[test]
    fn no_more_objects_are_known_than_the_bound() {
        let mut rates = Rates::new();
        let start = Instant::now();
        for key in 0..=RATED_OBJECTS_MAX {
            rates.of(key, [0], start);
        }
        assert_eq!(rates.samples.len(), RATED_OBJECTS_MAX);
        for key in RATED_OBJECTS_MAX..2 * RATED_OBJECTS_MAX {
            assert_eq!(rates.of(key, [0], start), [0.0]);
        }
        assert_eq!(rates.sweeps, 1, "all are looked at once");
        let later = start + FORGET;
        rates.of(RATED_OBJECTS_MAX + 1, [0], later);
        assert_eq!(rates.samples.len(), 1);
    }
}
