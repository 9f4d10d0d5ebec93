//! The rates that all requests share.

use super::rates::{MESSAGE_FIELDS, NODE_FIELDS, PAIR_FIELDS, Rates, Subject};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Rates of objects of one kind.
pub struct SharedRates<K, const N: usize>(Mutex<Rates<K, N>>);

impl<K, const N: usize> SharedRates<K, N> {
    /// Rates are guesses about the past: a writer that panicked left none that harm.
    fn lock(&self) -> MutexGuard<'_, Rates<K, N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, const N: usize> SharedRates<K, N> {
    /// The rates, per second, of an object whose counters are now these.
    pub fn of(&self, key: K, counters: [u64; N], now: Instant) -> [f64; N] {
        self.lock().of(key, counters, now)
    }

    /// Begins to measure anew.
    fn forget(&self) {
        *self.lock() = Rates::new();
    }
}

impl<K: Eq + Hash, const N: usize> Default for SharedRates<K, N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The rates of everything that is rated.
#[derive(Default)]
pub struct AllRates {
    pub messages: SharedRates<Subject, MESSAGE_FIELDS>,
    /// Messages that are ready, unacknowledged, both.
    pub depths: SharedRates<Subject, 3>,
    /// Bytes received and sent, by connection.
    pub traffic: SharedRates<u64, 2>,
    /// The same of all connections of a virtual host.
    pub vhost_traffic: SharedRates<u64, 2>,
    pub pairs: SharedRates<u64, PAIR_FIELDS>,
    /// Messages in and out, by exchange.
    pub exchanges: SharedRates<u64, 2>,
    /// What this node has and does.
    pub node: SharedRates<(), NODE_FIELDS>,
}

impl AllRates {
    /// Begins to measure all of them anew.
    pub fn forget(&self) {
        self.messages.forget();
        self.depths.forget();
        self.traffic.forget();
        self.vhost_traffic.forget();
        self.pairs.forget();
        self.exchanges.forget();
        self.node.forget();
    }
}
