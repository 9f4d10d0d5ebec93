//! The messages of one channel that wait for their confirms, with the times that they were due.

use std::collections::VecDeque;

use leveret_types::ranges::RangeSet;

/// In the place of a due time: the message was confirmed before an earlier one.
const CONFIRMED: u64 = u64::MAX;

/// A confirm came for a message that waits for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

/// What waits on one channel. Delivery tags count from 1.
#[derive(Clone, Debug, Default)]
pub struct Confirms {
    /// Due times, from the oldest message that waits.
    waiting: VecDeque<u64>,
    /// Messages before `waiting`.
    settled: u64,
    /// Messages in `waiting` that do wait.
    outstanding: u64,
    /// Messages that were refused.
    refused: RangeSet,
}

impl Confirms {
    /// One more message was published.
    #[inline]
    pub fn push(&mut self, due_us: u64) {
        self.waiting.push_back(due_us);
        self.outstanding += 1;
    }

    /// Messages that wait.
    #[must_use]
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Messages that were refused, by delivery tag.
    #[must_use]
    pub fn refused(&self) -> &RangeSet {
        &self.refused
    }

    /// Messages that wait, by delivery tag.
    #[must_use]
    pub fn unconfirmed(&self) -> RangeSet {
        let mut set = RangeSet::new();
        let numbers = self.settled + 1..;
        for (tag, due) in numbers.zip(&self.waiting) {
            if *due != CONFIRMED {
                set.insert(tag);
            }
        }
        set
    }

    /// `basic.ack` (or, where `refused`, `basic.nack`) for `tag`, or for all up to it: `on` is
    /// given the due time of each message that it is for.
    ///
    /// # Errors
    /// If no message waits for it.
    #[inline]
    pub fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        refused: bool,
        mut on: impl FnMut(u64),
    ) -> Result<(), Unexpected> {
        // A tag of 0 with `multiple` stands for everything.
        let tag = match (tag, multiple) {
            (0, true) => self.settled + self.waiting.len() as u64,
            _ => tag,
        };
        let place = tag.checked_sub(self.settled + 1).ok_or(Unexpected)?;
        if place >= self.waiting.len() as u64 {
            return Err(Unexpected);
        }
        if multiple {
            for _ in 0..=place {
                self.settle_oldest(refused, &mut on);
            }
        } else if place == 0 {
            self.settle_oldest(refused, &mut on);
        } else {
            let due = std::mem::replace(&mut self.waiting[place as usize], CONFIRMED);
            if due == CONFIRMED {
                return Err(Unexpected);
            }
            self.note(tag, due, refused, &mut on);
        }
        while self.waiting.front() == Some(&CONFIRMED) {
            self.waiting.pop_front();
            self.settled += 1;
        }
        Ok(())
    }

    #[inline]
    fn settle_oldest(&mut self, refused: bool, on: &mut impl FnMut(u64)) {
        if let Some(due) = self.waiting.pop_front() {
            self.settled += 1;
            if due != CONFIRMED {
                self.note(self.settled, due, refused, on);
            }
        }
    }

    #[inline]
    fn note(&mut self, tag: u64, due: u64, refused: bool, on: &mut impl FnMut(u64)) {
        self.outstanding -= 1;
        if refused {
            self.refused.insert(tag);
        }
        on(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(settles: &[(u64, bool, bool)]) -> (Vec<u64>, Result<(), Unexpected>, Confirms) {
        let mut confirms = Confirms::default();
        (1..=6).for_each(|number| confirms.push(number * 10));
        let mut dues = Vec::new();
        let mut last = Ok(());
        for (tag, multiple, refused) in settles {
            last = confirms.settle(*tag, *multiple, *refused, |due| dues.push(due));
        }
        (dues, last, confirms)
    }

    #[test]
    fn every_message_is_settled_once_in_whatever_order() {
        type Case = (&'static [(u64, bool, bool)], &'static [u64], u64);
        let cases: [Case; 6] = [
            (&[(1, false, false), (2, false, false)], &[10, 20], 4),
            (&[(4, true, false)], &[10, 20, 30, 40], 2),
            (&[(3, false, false), (4, true, false)], &[30, 10, 20, 40], 2),
            (&[(2, false, false), (1, false, false)], &[20, 10], 4),
            (&[(0, true, false)], &[10, 20, 30, 40, 50, 60], 0),
            (
                &[(6, false, true), (5, true, false)],
                &[60, 10, 20, 30, 40, 50],
                0,
            ),
        ];
        for (settles, dues, outstanding) in cases {
            let (found, last, confirms) = after(settles);
            assert_eq!((found.as_slice(), last), (dues, Ok(())), "{settles:?}");
            assert_eq!(confirms.outstanding(), outstanding, "{settles:?}");
            assert_eq!(confirms.unconfirmed().len(), outstanding);
        }
    }

    #[test]
    fn refusals_are_remembered() {
        let (_, _, confirms) = after(&[(2, false, true), (5, true, true)]);
        let ends = |set: &RangeSet| (set.first(), set.last(), set.len());
        assert_eq!(ends(confirms.refused()), (Some(1), Some(5), 5));
        assert_eq!(ends(&confirms.unconfirmed()), (Some(6), Some(6), 1));
    }

    #[test]
    fn a_confirm_for_nothing_is_an_error() {
        for settles in [
            &[(7, false, false)][..],
            &[(0, false, false)],
            &[(3, false, false), (3, false, false)],
            &[(3, true, false), (2, true, false)],
            &[(1, false, false), (1, false, false)],
        ] {
            assert_eq!(after(settles).1, Err(Unexpected), "{settles:?}");
        }
    }
}
