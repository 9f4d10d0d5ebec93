//! Publishes that a queue has refused, by their numbers.
//!
//! A refused publish takes effect in its turn as any operation does, and a node is told how far all
//! of its operations have. What was refused is remembered until the node is known to have heard of
//! it: whoever leads says that first to a node that asks anew.

use leveret_types::RangeSet;
use leveret_types::limits::REFUSED_RANGES_MAX;
use std::ops::Range;

/// What one run of a node published and was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// What is below has reached whom it concerns on that node.
    pub(crate) first: u64,
    /// The numbers of those that are not below it. In the gaps between more than
    /// [`REFUSED_RANGES_MAX`] ranges there are others: what became of them is not known any more.
    pub(crate) numbers: RangeSet,
}

impl Refusals {
    /// Notes one more.
    pub(crate) fn refuse(&mut self, number: u64) {
        if number >= self.first {
            self.numbers.insert(number);
            self.bound();
        }
    }

    /// All below `first` has reached whom it concerns.
    pub(crate) fn acknowledged(&mut self, first: u64) {
        self.first = self.first.max(first);
        self.numbers.remove_range(0..self.first);
    }

    /// Takes in what is known besides.
    pub(crate) fn join(&mut self, other: &Self) {
        for range in other.numbers.iter() {
            self.numbers.insert_range(range);
        }
        self.acknowledged(other.first);
        self.bound();
    }

    /// Those that have numbers from `first` on.
    pub(crate) fn since(&self, first: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.numbers.within(first..u64::MAX)
    }

    /// Gives up which of the oldest numbers it is, where there are too many ranges: a publish in
    /// doubt is refused.
    fn bound(&mut self) {
        while self.numbers.interval_count() > REFUSED_RANGES_MAX {
            let Some(oldest) = self.numbers.first_range() else {
                return;
            };
            let next = self.numbers.next_from(oldest.end);
            self.numbers
                .insert_range(oldest.end..next.unwrap_or(oldest.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &Refusals) -> Vec<Range<u64>> {
        of.numbers.iter().collect()
    }

    #[test]
    fn so_many_ranges_are_remembered_and_with_one_more_what_is_in_doubt_is_refused() {
        let most = REFUSED_RANGES_MAX as u64;
        let mut refusals = Refusals::default();
        (1..=most).for_each(|number| refusals.refuse(2 * number));
        assert_eq!(refusals.numbers.interval_count(), REFUSED_RANGES_MAX);
        assert!(!refusals.numbers.contains(3), "it was taken");
        refusals.refuse(2 * most + 2);
        assert_eq!(refusals.numbers.interval_count(), REFUSED_RANGES_MAX);
        assert_eq!(ranges(&refusals)[..2], [2..5, 6..7]);
        for number in (2..=2 * most + 2).step_by(2) {
            assert!(refusals.numbers.contains(number), "{number} is forgotten");
        }
        // So it is with those that come together.
        let mut others = Refusals::default();
        (0..most).for_each(|number| others.refuse(2 * (most + number) + 5));
        refusals.join(&others);
        assert_eq!(refusals.numbers.interval_count(), REFUSED_RANGES_MAX);
        assert!(
            others
                .numbers
                .iter()
                .all(|range| refusals.numbers.contains(range.start))
        );
    }

    #[test]
    fn what_was_heard_of_is_forgotten_and_does_not_come_back() {
        let mut refusals = Refusals::default();
        [3, 4, 7]
            .into_iter()
            .for_each(|number| refusals.refuse(number));
        let earlier = refusals.clone();
        assert!(refusals.since(4).eq([4..5, 7..8]));
        refusals.acknowledged(4);
        assert_eq!(ranges(&refusals), [4..5, 7..8]);
        refusals.acknowledged(2);
        refusals.join(&earlier);
        refusals.refuse(3);
        assert_eq!((refusals.first, ranges(&refusals)), (4, vec![4..5, 7..8]));
        refusals.acknowledged(8);
        assert!(refusals.numbers.is_empty());
    }
}
