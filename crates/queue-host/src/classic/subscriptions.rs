//! Subscriptions that have unsettled messages, or had some not long ago.

use std::collections::BTreeMap;

/// How many are kept before it is asked which of them still hold something.
const SWEEP_MIN: usize = 16;

/// Subscriptions by their ids. Their number is at most twice that of those which still held
/// something when that was last asked, or [`SWEEP_MIN`].
#[derive(Debug)]
pub(super) struct Subscriptions<K, V> {
    by_id: BTreeMap<K, V>,
    /// How many there were after the last sweep.
    swept: usize,
}

impl<K, V> Default for Subscriptions<K, V> {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            swept: 0,
        }
    }
}

impl<K: Ord, V: Copy> Subscriptions<K, V> {
    /// Remembers one, unless it is known. `holds` says of another whether it holds something still;
    /// it is asked of all, but seldom.
    pub(super) fn add(&mut self, id: K, whose: V, mut holds: impl FnMut(&K) -> bool) {
        if self.by_id.contains_key(&id) {
            return;
        }
        if self.by_id.len() >= SWEEP_MIN.max(2 * self.swept) {
            self.by_id.retain(|known, _| holds(known));
            self.swept = self.by_id.len();
        }
        self.by_id.insert(id, whose);
    }

    pub(super) fn get(&self, id: &K) -> Option<V> {
        self.by_id.get(id).copied()
    }

    pub(super) fn remove(&mut self, id: &K) {
        self.by_id.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// An id that counts how often ids are compared.
    #[derive(Clone, Copy, Debug)]
    struct Counted(u64);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted {}

    const MANY: u64 = 60_000;

    /// What many cost that come and go in this order: comparisons, and questions whether one holds
    /// something.
    fn cost(ids: impl Iterator<Item = u64>) -> (u64, u64) {
        let (mut subscriptions, mut questions) = (Subscriptions::default(), 0);
        let before = COMPARED.get();
        for id in 0..MANY {
            subscriptions.add(Counted(id), (), |_| {
                questions += 1;
                true
            });
        }
        for id in ids {
            assert!(subscriptions.get(&Counted(id)).is_some());
            subscriptions.remove(&Counted(id));
        }
        assert!(subscriptions.by_id.is_empty());
        (COMPARED.get() - before, questions)
    }

    #[test]
    fn one_that_comes_or_goes_looks_at_few_of_the_others() {
        for (compared, questions) in [cost(0..MANY), cost((0..MANY).rev())] {
            assert!(compared <= MANY * 200, "{compared} comparisons");
            assert!(questions <= MANY * 2, "{questions} questions");
        }
    }

    #[test]
    fn those_that_hold_nothing_any_more_are_forgotten_and_those_that_do_stay() {
        let mut subscriptions = Subscriptions::default();
        for id in 0..MANY {
            subscriptions.add(id, id, |id| id % 1_000 == 0);
            assert!(subscriptions.by_id.len() as u64 <= 2 * (MANY / 1_000) + SWEEP_MIN as u64);
        }
        assert_eq!(subscriptions.get(&1_000), Some(1_000));
        assert_eq!(subscriptions.get(&1_001), None);
    }

    #[test]
    fn one_that_is_known_stays_as_it_is() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(1, 'a', |_| true);
        subscriptions.add(1, 'b', |_| true);
        assert_eq!(subscriptions.get(&1), Some('a'));
    }
}
