//! Sets of numbers as intervals: what a queue keeps of its messages instead of the messages.

use crate::blocks::Blocks;
use std::ops::Range;

/// Intervals for which an empty set keeps its memory.
const CAPACITY_KEPT: usize = 64;

/// A set of `u64`s, held as disjoint, non-adjacent, ascending half-open intervals.
///
/// Made for queues: taking from the front and adding at the back, or next to an interval's end,
/// cost nothing that grows with the set. Anything else is a binary search, and moves a few hundred
/// intervals at worst.
#[derive(Clone, Debug, Default)]
pub struct RangeSet {
    ranges: Blocks<Range<u64>>,
    len: u64,
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.ranges.iter().eq(other.ranges.iter())
    }
}

impl Eq for RangeSet {}

impl RangeSet {
    /// Bytes of memory that the intervals take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.ranges.memory_bytes()
    }

    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ranges: Blocks::new(),
            len: 0,
        }
    }

    /// How many numbers are in the set.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many intervals hold the set: what it costs in memory, 16 bytes each.
    #[must_use]
    pub fn interval_count(&self) -> usize {
        self.ranges.len()
    }

    /// The intervals, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + '_ {
        self.ranges.iter().cloned()
    }

    /// The smallest number.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.ranges.front().map(|r| r.start)
    }

    /// The largest number.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.end - 1)
    }

    /// The first interval.
    #[must_use]
    pub fn first_range(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// Takes the smallest number out.
    pub fn pop_first(&mut self) -> Option<u64> {
        let front = self.ranges.front()?;
        let value = front.start;
        if value + 1 == front.end {
            self.ranges.pop_front();
        } else {
            self.ranges.edit(self.ranges.first(), |r| r.start += 1);
        }
        self.len -= 1;
        Some(value)
    }

    /// Whether `value` is in the set.
    #[must_use]
    pub fn contains(&self, value: u64) -> bool {
        self.ranges
            .get(self.ranges.search(value))
            .is_some_and(|r| r.start <= value)
    }

    /// The smallest number of the set that is at least `value`.
    #[must_use]
    pub fn next_from(&self, value: u64) -> Option<u64> {
        self.ranges
            .get(self.ranges.search(value))
            .map(|r| r.start.max(value))
    }

    /// Puts one number in; false if it was there.
    pub fn insert(&mut self, value: u64) -> bool {
        self.insert_range(value..value + 1) == 1
    }

    /// Takes one number out; false if it was not there.
    pub fn remove(&mut self, value: u64) -> bool {
        self.remove_range(value..value + 1) == 1
    }

    /// Puts an interval in, and says how many of its numbers were not there before.
    pub fn insert_range(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        // At the back, where queues add: before any search.
        let size = range.end - range.start;
        match self.ranges.back() {
            Some(last) if last.end == range.start => {
                self.ranges.edit_back(|last| last.end = range.end);
                self.len += size;
                return size;
            }
            Some(last) if last.end > range.start => {}
            _ => {
                self.ranges.push_back(range);
                self.len += size;
                return size;
            }
        }
        // The intervals from here on that touch or overlap the new one become part of it.
        let mut place = self.ranges.search(range.start.saturating_sub(1));
        if self.ranges.get(place).is_some_and(|r| r.end < range.start) {
            place = self.ranges.after(place);
        }
        let (mut merged, mut there) = (range.clone(), 0);
        while let Some(r) = self.ranges.get(place).filter(|r| r.start <= range.end) {
            there += r
                .end
                .min(range.end)
                .saturating_sub(r.start.max(range.start));
            merged = merged.start.min(r.start)..merged.end.max(r.end);
            // Where only one takes part it is changed in place, below.
            let next = self.ranges.after(place);
            if self.ranges.get(next).is_none_or(|r| r.start > range.end) {
                self.ranges.edit(place, |r| *r = merged);
                let added = size - there;
                self.len += added;
                return added;
            }
            place = self.ranges.remove(place);
        }
        self.ranges.insert(place, merged);
        self.len += size;
        size
    }

    /// Takes an interval out, and says how many of its numbers were there.
    pub fn remove_range(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut place = self.ranges.search(range.start);
        let mut removed = 0;
        while let Some(r) = self.ranges.get(place).filter(|r| r.start < range.end) {
            let r = r.clone();
            let cut = r.start.max(range.start)..r.end.min(range.end);
            removed += cut.end - cut.start;
            match (cut.start == r.start, cut.end == r.end) {
                (true, true) => place = self.ranges.remove(place),
                (true, false) => {
                    self.ranges.edit(place, |r| r.start = cut.end);
                    break;
                }
                (false, true) => {
                    self.ranges.edit(place, |r| r.end = cut.start);
                    place = self.ranges.after(place);
                }
                (false, false) => {
                    self.ranges.edit(place, |r| r.end = cut.start);
                    self.ranges.insert(self.ranges.after(place), cut.end..r.end);
                    break;
                }
            }
        }
        self.len -= removed;
        removed
    }

    /// The parts of the set that lie within `range`, ascending.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.ranges.search(range.start);
        self.ranges
            .iter_from(first)
            .take_while({
                let end = range.end;
                move |r| r.start < end
            })
            .map(move |r| r.start.max(range.start)..r.end.min(range.end))
            .filter(|r| !r.is_empty())
    }

    /// How many numbers of the set lie within `range`.
    #[must_use]
    pub fn count_within(&self, range: Range<u64>) -> u64 {
        self.within(range).map(|r| r.end - r.start).sum()
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.len = 0;
    }

    /// Gives memory back if the set is empty and once held many intervals: to be called where a set
    /// has become empty, for a set that is filled and emptied all the time keeps its memory.
    pub fn trim(&mut self) {
        self.ranges.trim(CAPACITY_KEPT);
    }

    /// Gives back memory that the set no longer needs.
    pub fn shrink(&mut self) {
        self.ranges.shrink();
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        for range in ranges {
            set.insert_range(range);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A xorshift generator: the tests need numbers, not quality.
    struct Random(u64);
    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    fn check_form(set: &RangeSet) {
        let ranges: Vec<_> = set.iter().collect();
        assert!(ranges.iter().all(|r| r.start < r.end));
        assert!(
            ranges.windows(2).all(|w| w[0].end < w[1].start),
            "adjacent or unordered: {ranges:?}"
        );
        assert_eq!(
            set.len(),
            ranges.iter().map(|r| r.end - r.start).sum::<u64>()
        );
    }

    #[test]
    fn agrees_with_a_plain_set_under_random_operations() {
        for seed in 1..200 {
            let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for _ in 0..200 {
                let start = random.below(64);
                let range = start..start + random.below(9);
                let present = range.clone().filter(|v| model.contains(v)).count() as u64;
                let size = range.end - range.start;
                assert_eq!(set.count_within(range.clone()), present);
                match random.below(5) {
                    0 | 1 => {
                        assert_eq!(set.insert_range(range.clone()), size - present);
                        model.extend(range);
                    }
                    2 | 3 => {
                        assert_eq!(set.remove_range(range.clone()), present);
                        model.retain(|v| !range.contains(v));
                    }
                    _ => assert_eq!(set.pop_first(), model.pop_first()),
                }
                check_form(&set);
                let probe = random.below(72);
                assert_eq!(set.contains(probe), model.contains(&probe));
                assert_eq!(set.next_from(probe), model.range(probe..).next().copied());
                assert_eq!(set.first(), model.first().copied());
                assert_eq!(set.last(), model.last().copied());
                assert_eq!(
                    set.iter().flatten().collect::<Vec<_>>(),
                    model.iter().copied().collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn agrees_with_a_plain_set_when_there_are_many_intervals() {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
        for step in 0..60_000_u64 {
            // Fills up with holes, then is emptied in random order.
            let insert = random.below(10) < if step < 30_000 { 8 } else { 1 };
            let start = random.below(40_000);
            let range = start..start + 1 + random.below(if step % 1_000 == 0 { 900 } else { 3 });
            let present = model.range(range.clone()).count() as u64;
            assert_eq!(set.count_within(range.clone()), present);
            if insert {
                assert_eq!(
                    set.insert_range(range.clone()),
                    range.end - range.start - present
                );
                model.extend(range);
            } else {
                assert_eq!(set.remove_range(range.clone()), present);
                range.for_each(|value| {
                    model.remove(&value);
                });
            }
            if step % 2_000 == 0 {
                check_form(&set);
                assert!(set.iter().flatten().eq(model.iter().copied()));
            }
        }
    }

    #[test]
    fn a_queue_that_is_filled_and_drained_in_order_is_one_interval() {
        let mut set = RangeSet::new();
        for value in 0..1000 {
            assert!(set.insert(value));
        }
        assert_eq!(set.interval_count(), 1);
        for value in 0..1000 {
            assert_eq!(set.pop_first(), Some(value));
        }
        assert!(set.is_empty());
    }
}
