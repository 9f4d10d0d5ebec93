//! Publishes that have not arrived whole, of all connections of a node together: how many bytes
//! they may hold, and who waits.
//!
//! A publish has its place before its body is read, by the size that its header names, and a frame
//! of the stream protocol before more of it is read than one read of any socket brings: who has one
//! can be finished. Who finds none is not read until there is one. So nobody holds half of a
//! message while waiting for the other half, but for clients that have begun others on the same
//! connection; what has not become whole in time is given up while somebody waits.

use crate::limits::{UNFINISHED_MS_MAX, UNFINISHED_NODE_BYTES_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// For how long after somebody has found no place it is taken for full, in milliseconds: longer
/// than they wait until they look again.
const FULL_MS: u64 = 1_000;

/// The bytes of a node's unfinished publishes.
#[derive(Debug, Default)]
pub struct Unfinished {
    bytes: AtomicUsize,
    /// When somebody last found no place, in monotonic milliseconds, and one more.
    refused_ms: AtomicU64,
}

/// The place of one publish, given back when this is dropped.
#[derive(Debug)]
pub struct Place {
    of: Arc<Unfinished>,
    bytes: usize,
    begun_ms: u64,
}

impl Unfinished {
    /// Bytes that unfinished publishes have places for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A place for so many bytes, if there is room: one that is larger than all that is allowed has
    /// it alone.
    #[must_use]
    pub fn place(self: &Arc<Self>, bytes: usize, now_ms: u64) -> Option<Place> {
        let fits = |held: usize| {
            let next = held.checked_add(bytes)?;
            (held == 0 || next <= UNFINISHED_NODE_BYTES_MAX).then_some(next)
        };
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        if self.bytes.fetch_update(order.0, order.1, fits).is_err() {
            self.refused_ms.store(now_ms + 1, Ordering::Relaxed);
            return None;
        }
        Some(Place {
            of: Arc::clone(self),
            bytes,
            begun_ms: now_ms,
        })
    }

    /// Whether somebody waits for a place.
    #[must_use]
    pub fn is_full(&self, now_ms: u64) -> bool {
        let refused = self.refused_ms.load(Ordering::Relaxed);
        refused > 0 && now_ms < refused + FULL_MS
    }
}

impl Place {
    /// When its publish is given up if somebody waits, in monotonic milliseconds.
    #[must_use]
    pub const fn until_ms(&self) -> u64 {
        self.begun_ms + UNFINISHED_MS_MAX
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_up_to_the_bound_and_not_beyond_it() {
        let all = Arc::new(Unfinished::default());
        let first = all.place(UNFINISHED_NODE_BYTES_MAX - 1, 10);
        assert!(first.is_some() && !all.is_full(10));
        assert!(all.place(2, 11).is_none(), "one more than there is");
        assert!(all.is_full(11) && all.is_full(11 + FULL_MS));
        assert!(!all.is_full(11 + 1 + FULL_MS));
        let last = all.place(1, 12);
        assert_eq!(all.bytes(), UNFINISHED_NODE_BYTES_MAX);
        assert!(all.place(1, 13).is_none());
        drop((first, last));
        assert_eq!(all.bytes(), 0);
        let large = all.place(UNFINISHED_NODE_BYTES_MAX + 1, 14);
        assert!(large.is_some(), "alone");
        assert!(all.place(1, 15).is_none());
    }
}
