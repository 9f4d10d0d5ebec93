//! What a holder has of one lane: indexes as intervals, each with the bytes of its messages
//! together.

use std::collections::VecDeque;
use std::ops::Range;

/// Disjoint ascending intervals; neighbours are one. The bytes of a part of an interval are
/// estimated from its length: a leader that does not know better gets a sum that is about right.
#[derive(Debug, Default)]
pub(super) struct HeldRuns {
    runs: VecDeque<(Range<u64>, u64)>,
}

impl HeldRuns {
    /// The intervals.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.runs.iter().cloned()
    }

    /// Adds one message; false if it is there.
    pub(super) fn insert(&mut self, index: u64, bytes: u64) -> bool {
        let at = match self.runs.back() {
            Some((last, _)) if last.end <= index => self.runs.len(),
            None => 0,
            Some(_) => self.runs.partition_point(|(range, _)| range.end <= index),
        };
        if self
            .runs
            .get(at)
            .is_some_and(|(range, _)| range.start <= index)
        {
            return false;
        }
        let joins_next = self
            .runs
            .get(at)
            .is_some_and(|(range, _)| range.start == index + 1);
        let joins_last = at > 0 && self.runs[at - 1].0.end == index;
        match (joins_last, joins_next) {
            (true, true) => {
                let (next, sum) = self.runs.remove(at).expect("looked at above");
                self.runs[at - 1].0.end = next.end;
                self.runs[at - 1].1 += sum + bytes;
            }
            (true, false) => {
                self.runs[at - 1].0.end = index + 1;
                self.runs[at - 1].1 += bytes;
            }
            (false, true) => {
                self.runs[at].0.start = index;
                self.runs[at].1 += bytes;
            }
            (false, false) => self.runs.insert(at, (index..index + 1, bytes)),
        }
        true
    }

    /// Takes an interval out; answers how many messages of it were there, and their bytes.
    pub(super) fn remove(&mut self, range: Range<u64>) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        if range.is_empty() {
            return (count, bytes);
        }
        let mut at = self.runs.partition_point(|(run, _)| run.end <= range.start);
        while let Some((run, sum)) = self
            .runs
            .get_mut(at)
            .filter(|(run, _)| run.start < range.end)
        {
            let cut = run.start.max(range.start)..run.end.min(range.end);
            let part = |of: &Range<u64>| share(*sum, of, run);
            let (before, after) = (run.start..cut.start, cut.end..run.end);
            let (before_bytes, after_bytes) = (part(&before), part(&after));
            count += cut.end - cut.start;
            bytes += *sum - before_bytes - after_bytes;
            match (before.is_empty(), after.is_empty()) {
                (true, true) => {
                    self.runs.remove(at);
                }
                (true, false) => self.runs[at] = (after, after_bytes),
                (false, true) => {
                    self.runs[at] = (before, before_bytes);
                    at += 1;
                }
                (false, false) => {
                    self.runs[at] = (before, before_bytes);
                    self.runs.insert(at + 1, (after, after_bytes));
                    at += 2;
                }
            }
        }
        (count, bytes)
    }
}

/// The part of `sum` that falls to `part` of an interval.
fn share(sum: u64, part: &Range<u64>, whole: &Range<u64>) -> u64 {
    if part.is_empty() {
        return 0;
    }
    let (part, whole) = (part.end - part.start, whole.end - whole.start);
    u64::try_from(u128::from(sum) * u128::from(part) / u128::from(whole)).unwrap_or(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_plain_map_of_equal_messages() {
        for seed in 1..200_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut below = |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            };
            let (mut held, mut model) = (HeldRuns::default(), BTreeMap::new());
            for _ in 0..300 {
                let start = below(64);
                if below(3) > 0 {
                    let new = model.insert(start, 10).is_none();
                    assert_eq!(held.insert(start, 10), new);
                } else {
                    let range = start..start + below(8);
                    let before = model.len();
                    model.retain(|index, _| !range.contains(index));
                    let gone = (before - model.len()) as u64;
                    assert_eq!(held.remove(range), (gone, gone * 10));
                }
                let runs: Vec<_> = held.iter().collect();
                assert!(
                    runs.windows(2).all(|w| w[0].0.end < w[1].0.start),
                    "{runs:?}"
                );
                let indexes: Vec<u64> = runs.iter().flat_map(|(range, _)| range.clone()).collect();
                assert_eq!(indexes, model.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}
