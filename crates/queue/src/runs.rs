//! A map from numbers to small values, held as intervals of equal value.

use leveret_types::blocks::{Blocks, Cursor, Span};
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
    runs: Blocks<Run<V>>,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run<V> {
    start: u64,
    end: u64,
    value: V,
}

impl<V> Span for Run<V> {
    fn end(&self) -> u64 {
        self.end
    }
}

impl<V> Default for RunMap<V> {
    fn default() -> Self {
        Self {
            runs: Blocks::new(),
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
        self.runs.memory_bytes()
    }

    /// The value at `index`.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<V> {
        self.runs
            .get(self.runs.search(index))
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
        (index < end).then(|| match self.runs.get(self.runs.search(index)) {
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
            let joins = |last: &Run<V>| last.end == range.start && last.value == value;
            if self.runs.back().is_some_and(joins) {
                self.runs.edit_back(|last| last.end = range.end);
            } else {
                self.runs.push_back(Run {
                    start: range.start,
                    end: range.end,
                    value,
                });
            }
            return;
        }
        let cursor = self.runs.search(range.start);
        let next = self.runs.get(cursor).copied();
        let free = next.is_none_or(|next| next.start >= range.end);
        assert!(free, "{range:?} overlaps an interval");
        self.len += range.end - range.start;
        let joins_next = next.is_some_and(|r| r.start == range.end && r.value == value);
        let before = self.runs.before(cursor);
        let joined = |r: &&Run<V>| r.end == range.start && r.value == value;
        let last = before.filter(|at| self.runs.get(*at).filter(joined).is_some());
        match (last, next) {
            (Some(last), Some(next)) if joins_next => {
                self.runs.edit(last, |r| r.end = next.end);
                self.runs.remove(cursor);
            }
            (Some(last), _) => self.runs.edit(last, |r| r.end = range.end),
            (None, _) if joins_next => self.runs.edit(cursor, |r| r.start = range.start),
            (None, _) => self.runs.insert(
                cursor,
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
        let mut cursor = self.runs.search(range.start);
        while let Some(run) = self.runs.get(cursor).filter(|r| r.start < range.end) {
            let run = *run;
            let cut = run.start.max(range.start)..run.end.min(range.end);
            cursor = self.cut(cursor, run, &cut);
            self.len -= cut.end - cut.start;
            let was_last = cut.end < run.end;
            taken(cut, run.value);
            if was_last {
                break;
            }
        }
        self.runs.trim(CAPACITY_KEPT);
        before - self.len
    }

    /// Takes a part of an interval out; gives the position of what follows it.
    fn cut(&mut self, cursor: Cursor, run: Run<V>, cut: &Range<u64>) -> Cursor {
        let tail = Run {
            start: cut.end,
            ..run
        };
        match (run.start < cut.start, cut.end < run.end) {
            (false, false) => self.runs.remove(cursor),
            (false, true) => {
                self.runs.edit(cursor, |run| run.start = cut.end);
                cursor
            }
            (true, head_and_tail) => {
                self.runs.edit(cursor, |run| run.end = cut.start);
                let next = self.runs.after(cursor);
                if head_and_tail {
                    self.runs.insert(next, tail);
                }
                next
            }
        }
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
    fn agrees_with_a_plain_map_when_there_are_many_intervals() {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut map, mut model) = (RunMap::default(), BTreeMap::new());
        for index in 0..30_000 {
            map.insert(index..index + 1, index % 7);
            model.insert(index, index % 7);
        }
        // Taken out in random order, and some of it put back, as deliveries that are rejected.
        for step in 0..60_000 {
            let index = random.below(30_000);
            if random.below(4) == 0 {
                model.entry(index).or_insert_with(|| {
                    map.insert(index..index + 1, step % 7);
                    step % 7
                });
            } else {
                let count = map.remove(index..index + 1, |_, value| {
                    assert_eq!(model.get(&index), Some(&value));
                });
                assert_eq!(count, u64::from(model.remove(&index).is_some()));
            }
            if step % 5_000 == 0 {
                check_form(&map, &model);
            }
        }
        check_form(&map, &model);
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
