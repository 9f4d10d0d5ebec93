//! How long messages take from one event to another: by slots of time, and since when each of a
//! sequence of them has been under way.
//!
//! Moments are those of [`crate::Now`]: milliseconds, read once for all that is done in a turn.
//! Both ends are cut alike, so that means are right below a millisecond too; within the first slot
//! times cannot be told apart.

use crate::limits::LATENCY_MOMENTS_MAX;
use std::collections::VecDeque;
use std::ops::Range;

/// The longest time of each slot but the last, in milliseconds. The last slot has what took longer.
pub const LATENCY_SLOTS_MS: [u64; 25] = [
    1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 2_000, 5_000,
    10_000, 30_000, 60_000, 300_000, 1_800_000,
];

/// Slots by which times are counted.
pub const LATENCY_SLOTS: usize = LATENCY_SLOTS_MS.len() + 1;

/// How long some messages took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    /// How many took up to each of [`LATENCY_SLOTS_MS`] and longer than the one before; at last
    /// how many took longer than all.
    pub slots: [u64; LATENCY_SLOTS],
    /// How many there were.
    pub count: u64,
    /// The milliseconds that they took together.
    pub total_ms: u64,
}

impl LatencyCounts {
    /// So many took so long.
    pub fn add(&mut self, ms: u64, count: u64) {
        let slot = LATENCY_SLOTS_MS.partition_point(|most| *most < ms);
        self.slots[slot] += count;
        self.count += count;
        self.total_ms = self.total_ms.saturating_add(ms.saturating_mul(count));
    }

    /// These are among them too.
    pub fn add_all(&mut self, more: &Self) {
        for (sum, count) in self.slots.iter_mut().zip(more.slots) {
            *sum += count;
        }
        self.count += more.count;
        self.total_ms = self.total_ms.saturating_add(more.total_ms);
    }

    /// What came since there were `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            slots: std::array::from_fn(|at| self.slots[at].saturating_sub(before.slots[at])),
            count: self.count.saturating_sub(before.count),
            total_ms: self.total_ms.saturating_sub(before.total_ms),
        }
    }

    /// The time within which so many of a thousand were: the end of their slot, in milliseconds;
    /// of the last slot, which has none, the beginning. Nothing if there were none.
    #[must_use]
    pub fn within_ms(&self, of_thousand: u64) -> Option<u64> {
        let all: u64 = self.slots.iter().sum();
        let wanted = all.saturating_mul(of_thousand).div_ceil(1_000).max(1);
        let mut found = 0;
        let slot = self.slots.iter().position(|count| {
            found += count;
            found >= wanted
        })?;
        Some(LATENCY_SLOTS_MS[slot.min(LATENCY_SLOTS_MS.len() - 1)])
    }
}

/// What was measured and is yet to be counted elsewhere. Takes memory from the first measurement
/// on, once, until [`Self::shrink`].
#[derive(Debug, Default)]
pub struct Latencies(Option<Box<LatencyCounts>>);

impl Latencies {
    /// So many took so long.
    #[inline]
    pub fn add(&mut self, ms: u64, count: u64) {
        self.0.get_or_insert_default().add(ms, count);
    }

    /// Tells what was measured since this was called last, if anything was.
    #[inline]
    pub fn drain(&mut self, tell: impl FnOnce(&LatencyCounts)) {
        if let Some(counts) = self.0.as_mut().filter(|counts| counts.count > 0) {
            tell(counts);
            **counts = LatencyCounts::default();
        }
    }

    /// Gives memory back that nothing is in.
    pub fn shrink(&mut self) {
        self.0.take_if(|counts| counts.count == 0);
    }
}

/// Moments for which an empty memory keeps its room.
const MOMENTS_KEPT: usize = 16;

/// A moment is given up once those beside it are no further apart than this share of their age: no
/// time is wrong by more.
const THINNING_DIVISOR: u64 = 8;

/// Since when each of a sequence of messages has been under way.
///
/// What begins in the same millisecond is one entry of 16 bytes, and few are remembered however
/// many messages there are: of those that have been under way for long it is known less exactly,
/// and never too short a time.
#[derive(Debug, Default)]
pub struct Began {
    /// The first message that began at a moment, and that moment in milliseconds. Both ascend.
    moments: VecDeque<(u64, u64)>,
}

impl Began {
    /// A message has begun, and all that follow until the next is told. Numbers ascend.
    #[inline]
    pub fn note(&mut self, number: u64, now_ms: u64) {
        match self.moments.back() {
            Some((_, at_ms)) if *at_ms >= now_ms => {}
            _ => self.begin(number, now_ms),
        }
    }

    fn begin(&mut self, number: u64, now_ms: u64) {
        if self.moments.len() == LATENCY_MOMENTS_MAX {
            self.thin_out(now_ms);
        }
        self.moments.push_back((number, now_ms));
    }

    fn thin_out(&mut self, now_ms: u64) {
        let mut kept = 0;
        for at in 1..self.moments.len() {
            let next_ms = self.moments.get(at + 1).map_or(now_ms, |next| next.1);
            let apart = next_ms.saturating_sub(self.moments[kept].1);
            if apart.saturating_mul(THINNING_DIVISOR) > now_ms.saturating_sub(next_ms) {
                kept += 1;
                self.moments[kept] = self.moments[at];
            }
        }
        self.moments.truncate(kept + 1);
        // Only of ages beyond all reason there may be too many still.
        while self.moments.len() >= LATENCY_MOMENTS_MAX {
            self.moments.pop_front();
        }
    }

    /// How long each of these messages has been under way: `measured` hears of milliseconds, and of
    /// how many messages. What was never told, or given up, is passed over.
    #[inline]
    pub fn measure(&self, numbers: Range<u64>, now_ms: u64, mut measured: impl FnMut(u64, u64)) {
        let mut at = match self.moments.front() {
            // Mostly the oldest of them end.
            Some(_)
                if self
                    .moments
                    .get(1)
                    .is_none_or(|next| numbers.start < next.0) =>
            {
                0
            }
            _ => {
                let after = self
                    .moments
                    .partition_point(|began| began.0 <= numbers.start);
                after.saturating_sub(1)
            }
        };
        let mut from = numbers.start;
        while let Some((first, began_ms)) = self.moments.get(at) {
            at += 1;
            let end = self.moments.get(at).map_or(u64::MAX, |next| next.0);
            let (start, end) = (from.max(*first), end.min(numbers.end));
            if start < end {
                measured(now_ms.saturating_sub(*began_ms), end - start);
                from = end;
            }
            if end >= numbers.end {
                break;
            }
        }
    }

    /// All messages before this one have ended.
    #[inline]
    pub fn forget_before(&mut self, number: u64) {
        while self.moments.get(1).is_some_and(|next| next.0 <= number) {
            self.moments.pop_front();
        }
        if self.moments.len() == 1 && self.moments.capacity() > 2 * MOMENTS_KEPT {
            self.moments.shrink_to(MOMENTS_KEPT);
        }
    }

    /// All messages have ended, and none begins for a while.
    pub fn clear(&mut self) {
        self.moments = VecDeque::new();
    }

    /// Moments that are remembered.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.moments.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(began: &Began, numbers: Range<u64>, now_ms: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        began.measure(numbers, now_ms, |ms, count| all.push((ms, count)));
        all
    }

    #[test]
    fn a_time_is_in_the_slot_that_ends_at_it_or_first_after_it() {
        assert!(LATENCY_SLOTS_MS.is_sorted());
        for (ms, slot) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (4, 3),
            (5, 3),
            (6, 4),
            (1_800_001, 25),
        ] {
            let mut counts = LatencyCounts::default();
            counts.add(ms, 2);
            assert_eq!(counts.slots[slot], 2, "{ms} ms");
            assert_eq!((counts.count, counts.total_ms), (2, 2 * ms));
        }
    }

    #[test]
    fn what_most_took_is_the_end_of_the_slot_that_completes_them() {
        let mut counts = LatencyCounts::default();
        assert_eq!(counts.within_ms(990), None);
        counts.add(2, 98);
        assert_eq!(counts.within_ms(990), Some(2));
        counts.add(90, 2);
        assert_eq!(counts.within_ms(980), Some(2));
        assert_eq!(counts.within_ms(990), Some(100));
        let mut later = counts;
        later.add(9_999_999, 1);
        assert_eq!(later.since(&counts).within_ms(500), Some(1_800_000));
        assert_eq!(later.since(&counts).count, 1);
        let mut sum = later.since(&counts);
        sum.add_all(&counts);
        assert_eq!(sum, later);
    }

    #[test]
    fn what_was_measured_is_told_once() {
        let mut latencies = Latencies::default();
        latencies.drain(|counts| panic!("{counts:?}"));
        latencies.add(7, 1);
        latencies.add(3, 2);
        let mut told = LatencyCounts::default();
        latencies.drain(|counts| told = *counts);
        assert_eq!((told.count, told.total_ms), (3, 13));
        latencies.drain(|counts| panic!("{counts:?}"));
        assert!(latencies.0.is_some(), "its memory is kept");
        latencies.shrink();
        assert!(latencies.0.is_none());
        latencies.add(1, 1);
        latencies.shrink();
        latencies.drain(|counts| told = *counts);
        assert_eq!(told.count, 1, "what is yet to be told is not given up");
    }

    #[test]
    fn each_message_of_a_range_is_as_old_as_the_moment_at_which_it_began() {
        let mut began = Began::default();
        assert!(measured(&began, 1..9, 100).is_empty(), "nothing is known");
        // Three at 10, one at 12, the rest at 15.
        for (number, ms) in [(1, 10), (2, 10), (3, 10), (4, 12), (5, 15), (6, 15)] {
            began.note(number, ms);
        }
        assert_eq!(began.len(), 3);
        assert_eq!(measured(&began, 1..7, 20), [(10, 3), (8, 1), (5, 2)]);
        assert_eq!(measured(&began, 3..5, 20), [(10, 1), (8, 1)]);
        assert_eq!(measured(&began, 6..7, 20), [(5, 1)]);
        assert!(measured(&began, 4..4, 20).is_empty());
        began.forget_before(5);
        assert_eq!((began.len(), measured(&began, 5..7, 21)), (1, vec![(6, 2)]));
        assert_eq!(
            measured(&began, 1..6, 21),
            [(6, 1)],
            "what is forgotten is passed over"
        );
        began.forget_before(u64::MAX);
        began.note(7, 15);
        assert_eq!(
            measured(&began, 7..8, 16),
            [(1, 1)],
            "of the same moment still"
        );
    }

    #[test]
    fn few_moments_are_kept_of_a_day_and_no_time_is_wrong_by_more_than_its_share() {
        // One message each millisecond for a while, then one each second for a day.
        let mut began = Began::default();
        let seconds = (20..86_400).map(|second| second * 1_000);
        let all: Vec<u64> = (0..20_000).chain(seconds).collect();
        for (number, ms) in (0..).zip(&all) {
            began.note(number, *ms);
            assert!(began.len() <= LATENCY_MOMENTS_MAX);
        }
        let now_ms = 86_400_000;
        for (number, ms) in (0..).zip(&all).step_by(97) {
            let found = measured(&began, number..number + 1, now_ms);
            let real = now_ms - ms;
            let [(shown, 1)] = found[..] else {
                panic!("message {number}: {found:?}");
            };
            let most = real + real / THINNING_DIVISOR + 1_000;
            assert!(
                (real..=most).contains(&shown),
                "{number}: {shown} of {real} ms"
            );
        }
        began.forget_before(u64::MAX);
        assert!(began.moments.capacity() <= 2 * MOMENTS_KEPT);
    }
}
