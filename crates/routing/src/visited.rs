//! What a walk has come by already.

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use smallvec::SmallVec;
use std::hash::Hash;

/// So many are compared one by one: that is faster than hashing them.
const COMPARED_MAX: usize = 16;

/// A set that is filled and forgotten again and again. It takes memory by what it has held, not by
/// what there is: every publishing connection has some, and there may be very many queues.
#[derive(Debug)]
pub(crate) struct Visited<T> {
    few: SmallVec<[T; 2]>,
    many: HashSet<T, RandomState>,
}

impl<T> Default for Visited<T> {
    fn default() -> Self {
        Self {
            few: SmallVec::new(),
            many: HashSet::default(),
        }
    }
}

impl<T: Copy + Eq + Hash> Visited<T> {
    /// Puts one in; false if it was there.
    pub fn insert(&mut self, one: T) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(one);
        }
        if self.few.contains(&one) {
            return false;
        }
        if self.few.len() == COMPARED_MAX {
            self.many.extend(self.few.drain(..));
            return self.many.insert(one);
        }
        self.few.push(one);
        true
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.few.clear();
        // An empty set would clear all that it has room for, too.
        if !self.many.is_empty() {
            self.many.clear();
        }
    }

    /// Bytes of the heap that it keeps.
    pub fn heap_bytes(&self) -> usize {
        let few = if self.few.spilled() {
            self.few.capacity()
        } else {
            0
        };
        few * size_of::<T>() + self.many.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_until_all_are_forgotten() {
        let mut visited = Visited::default();
        for count in [0, 1, COMPARED_MAX, COMPARED_MAX + 1, 1_000, 3] {
            let all = || (0..count as u32).map(|n| n * 7);
            assert!(all().all(|one| visited.insert(one)), "{count}");
            assert!(!all().any(|one| visited.insert(one)), "{count}");
            visited.clear();
        }
    }

    #[test]
    fn it_takes_memory_by_what_it_has_held() {
        let mut visited = Visited::default();
        assert!(visited.insert(u32::MAX) && visited.insert(0));
        assert_eq!(visited.heap_bytes(), 0);
        assert!((1..1_000).all(|one| visited.insert(one)));
        assert!((4_000..20_000).contains(&visited.heap_bytes()));
    }
}
