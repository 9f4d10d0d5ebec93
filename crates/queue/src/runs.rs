//! A map from numbers to small values, held as intervals of equal value.

use std::collections::VecDeque;
use std::ops::Range;

/// Intervals for which an empty map keeps its memory.
const CAPACITY_KEPT: usize = 64;

/// A map from `u64` to `V`, as disjoint ascending intervals; neighbours of equal value are one
/// interval.
///
/// The queue keeps with it what it must know of messages in motion (their sizes, how often they
/// came back): messages of one size that follow each other cost one interval. Adding at the back
/// and taking from the front do not grow with the map.
#[derive(Clone, Debug)]
pub struct RunMap<V> {
    runs: VecDeque<Run<V>>,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run<V> {
    start: u64,
    end: u64,
    value: V,
}

impl<V> Default for RunMap<V> {
    fn default() -> Self {
        Self {
            runs: VecDeque::new(),
            len: 0,
        }
    }
}

impl<V: Copy + Eq> RunMap<V> {
    /// How many numbers have a value.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether no number has a value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that the intervals take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run<V>>()
    }

    /// Index of the first interval that ends after `index`.
    fn search(&self, index: u64) -> usize {
        match self.runs.back() {
            None => 0,
            Some(last) if last.end <= index => self.runs.len(),
            Some(last) if last.start <= index => self.runs.len() - 1,
            _ if self.runs[0].end > index => 0,
            _ => self.runs.partition_point(|r| r.end <= index),
        }
    }

    /// The value at `index`.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<V> {
        self.runs
            .get(self.search(index))
            .filter(|r| r.start <= index)
            .map(|r| r.value)
    }

    /// The intervals, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        self.runs.iter().map(|r| (r.start..r.end, r.value))
    }

    /// The interval that covers `index`, cut to `end`, or the gap from there to the next one.
    /// `None` past the end.
    fn piece_from(&self, index: u64, end: u64) -> Option<(Range<u64>, Option<V>)> {
        (index < end).then(|| match self.runs.get(self.search(index)) {
            Some(r) if r.start <= index => (index..r.end.min(end), Some(r.value)),
            Some(r) => (index..r.start.min(end), None),
            None => (index..end, None),
        })
    }

    /// The numbers of `range`, as intervals of equal value or of none.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Option<V>)> + '_ {
        let mut from = range.start;
        std::iter::from_fn(move || {
            let piece = self.piece_from(from, range.end)?;
            from = piece.0.end;
            Some(piece)
        })
    }

    /// Gives every number of `range` a value.
    ///
    /// # Panics
    /// If one of them has a value, or there are none.
    pub fn insert(&mut self, range: Range<u64>, value: V) {
        assert!(range.start < range.end, "empty range {range:?}");
        // At the back, where deliveries add: before any search.
        if self.runs.back().is_none_or(|last| last.end <= range.start) {
            self.len += range.end - range.start;
            let last = self.runs.back_mut();
            match last.filter(|last| last.end == range.start && last.value == value) {
                Some(last) => last.end = range.end,
                None => self.runs.push_back(Run {
                    start: range.start,
                    end: range.end,
                    value,
                }),
            }
            return;
        }
        let at = self.search(range.start);
        let free = self.runs.get(at).is_none_or(|next| next.start >= range.end);
        assert!(free, "{range:?} overlaps an interval");
        self.len += range.end - range.start;
        let joins_next = self
            .runs
            .get(at)
            .is_some_and(|r| r.start == range.end && r.value == value);
        let last = at.checked_sub(1).and_then(|i| self.runs.get_mut(i));
        match last.filter(|r| r.end == range.start && r.value == value) {
            Some(last) if !joins_next => last.end = range.end,
            Some(last) => {
                let start = last.start;
                self.runs[at].start = start;
                self.runs.remove(at - 1);
            }
            None if joins_next => self.runs[at].start = range.start,
            None => self.runs.insert(
                at,
                Run {
                    start: range.start,
                    end: range.end,
                    value,
                },
            ),
        }
    }

    /// Takes the numbers of `range` out, shows `taken` each interval of them, and says how many
    /// there were.
    pub fn remove(&mut self, range: Range<u64>, mut taken: impl FnMut(Range<u64>, V)) -> u64 {
        let before = self.len;
        if range.is_empty() {
            return 0;
        }
        let mut at = self.search(range.start);
        while let Some(run) = self.runs.get_mut(at).filter(|r| r.start < range.end) {
            let cut = run.start.max(range.start)..run.end.min(range.end);
            let (head, tail) = (run.start < cut.start, cut.end < run.end);
            let (end, value) = (run.end, run.value);
            match (head, tail) {
                (false, true) => run.start = cut.end,
                (true, _) => run.end = cut.start,
                (false, false) => {}
            }
            match (head, tail) {
                (true, true) => self.runs.insert(
                    at + 1,
                    Run {
                        start: cut.end,
                        end,
                        value,
                    },
                ),
                (true, false) => at += 1,
                (false, true) => {}
                (false, false) if at == 0 => {
                    self.runs.pop_front();
                }
                (false, false) => {
                    self.runs.remove(at);
                }
            }
            self.len -= cut.end - cut.start;
            taken(cut.clone(), value);
            if tail {
                break;
            }
        }
        if self.runs.is_empty() && self.runs.capacity() > CAPACITY_KEPT {
            self.runs = VecDeque::new();
        }
        before - self.len
    }

    /// Replaces the value of every number of `range` by what `change` makes of it, and shows each
    /// interval to `seen`.
    pub fn update(
        &mut self,
        range: Range<u64>,
        change: impl Fn(Option<V>) -> V,
        mut seen: impl FnMut(Range<u64>, V),
    ) {
        let mut from = range.start;
        while let Some((piece, old)) = self.piece_from(from, range.end) {
            let new = change(old);
            if old.is_some() {
                self.remove(piece.clone(), |_, _| {});
            }
            self.insert(piece.clone(), new);
            from = piece.end;
            seen(piece, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A xorshift generator: the test needs numbers, not quality.
    struct Random(u64);
    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % bound
        }
    }

    fn check_form(map: &RunMap<u64>, model: &BTreeMap<u64, u64>) {
        let runs: Vec<_> = map.iter().collect();
        for pair in runs.windows(2) {
            let ((left, value), (right, next)) = (&pair[0], &pair[1]);
            assert!(left.end <= right.start, "out of order: {runs:?}");
            let could_join = left.end == right.start && value == next;
            assert!(!could_join, "not joined: {runs:?}");
        }
        let all: Vec<(u64, u64)> = runs
            .into_iter()
            .flat_map(|(r, v)| r.map(move |i| (i, v)))
            .collect();
        assert_eq!(all, model.iter().map(|(i, v)| (*i, *v)).collect::<Vec<_>>());
        assert_eq!(map.len(), model.len() as u64);
    }

    #[test]
    fn agrees_with_a_plain_map_under_random_operations() {
        for seed in 1..200 {
            let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
            let (mut map, mut model) = (RunMap::default(), BTreeMap::new());
            for _ in 0..200 {
                let start = random.below(48);
                let range = start..start + 1 + random.below(8);
                let value = random.below(3);
                match random.below(3) {
                    0 if model.range(range.clone()).next().is_none() => {
                        map.insert(range.clone(), value);
                        model.extend(range.map(|index| (index, value)));
                    }
                    1 => {
                        let mut seen = Vec::new();
                        let count = map.remove(range.clone(), |part, value| {
                            seen.extend(part.map(|index| (index, value)));
                        });
                        let there: Vec<_> = model.range(range).map(|(i, v)| (*i, *v)).collect();
                        assert_eq!(count, there.len() as u64);
                        assert_eq!(seen, there);
                        there
                            .iter()
                            .for_each(|(index, _)| assert!(model.remove(index).is_some()));
                    }
                    _ => {
                        let mut seen = 0;
                        map.update(
                            range.clone(),
                            |old| old.map_or(0, |v| v + 1),
                            |part, _| {
                                seen += part.end - part.start;
                            },
                        );
                        assert_eq!(seen, range.end - range.start);
                        for index in range {
                            model.entry(index).and_modify(|v| *v += 1).or_insert(0);
                        }
                    }
                }
                check_form(&map, &model);
                let probe = random.below(60);
                assert_eq!(map.get(probe), model.get(&probe).copied());
            }
        }
    }

    #[test]
    fn messages_of_one_size_in_order_are_one_interval() {
        let mut map = RunMap::default();
        for index in 0..1_000 {
            map.insert(index..index + 1, 7_u32);
        }
        assert_eq!(map.runs.len(), 1);
        for index in 0..1_000 {
            assert_eq!(map.remove(index..index + 1, |_, _| {}), 1);
        }
        assert!(map.is_empty());
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn a_number_has_one_value() {
        let mut map = RunMap::default();
        map.insert(3..6, 1_u32);
        map.insert(5..7, 1_u32);
    }
}
