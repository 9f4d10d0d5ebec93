//! The messages of one channel that wait for their confirms: which they are, and when they were
//! due.
//!
//! A broker counts what is published on a channel from 1 (the delivery tag). On a publisher's first
//! channel that is the message's own sequence; on one that replaces it after a broken connection
//! ([`Confirms::begin_anew`]) it is not.

use std::collections::VecDeque;

use leveret_types::ranges::RangeSet;

/// In the place of a due time: the message was confirmed before an earlier one.
const CONFIRMED: u64 = u64::MAX;

/// A message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which, of its publisher's.
    pub sequence: u32,
    /// When it was due: microseconds since the run began.
    pub due_us: u64,
}

/// A confirm came for a message that waits for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

/// `basic.ack` or `basic.nack`.
#[derive(Clone, Copy, Debug)]
pub struct Confirm {
    /// The message.
    pub tag: u64,
    /// Whether it is for all messages up to that one, too.
    pub multiple: bool,
    /// Whether it is a `basic.nack`.
    pub refused: bool,
}

/// What waits on one channel. Delivery tags count from 1.
#[derive(Clone, Debug, Default)]
pub struct Confirms {
    /// From the oldest message that waits.
    waiting: VecDeque<Waiting>,
    /// Messages of this channel before `waiting`.
    settled: u64,
    /// Messages in `waiting` that do wait.
    outstanding: u64,
    /// Sequences of messages that were refused.
    refused: RangeSet,
}

impl Confirms {
    /// One more message was published.
    #[inline]
    pub fn push(&mut self, message: Waiting) {
        self.waiting.push_back(message);
        self.outstanding += 1;
    }

    /// Messages that wait.
    #[must_use]
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Messages that were refused, by sequence.
    #[must_use]
    pub fn refused(&self) -> &RangeSet {
        &self.refused
    }

    /// Messages that wait, by sequence.
    #[must_use]
    pub fn unconfirmed(&self) -> RangeSet {
        let mut set = RangeSet::new();
        for message in self.still_waiting() {
            set.insert(u64::from(message.sequence));
        }
        set
    }

    fn still_waiting(&self) -> impl Iterator<Item = Waiting> + '_ {
        let waits = |message: &Waiting| message.due_us != CONFIRMED;
        self.waiting.iter().copied().filter(waits)
    }

    /// The channel is gone: what waits is given to `resend`, in the order in which it was
    /// published, and tags count from 1 again.
    pub fn begin_anew(&mut self, mut resend: impl FnMut(Waiting)) {
        self.still_waiting().for_each(&mut resend);
        self.waiting.clear();
        (self.settled, self.outstanding) = (0, 0);
    }

    /// The broker has settled messages: `on` is given the due time of each.
    ///
    /// # Errors
    /// If no message waits for it.
    #[inline]
    pub fn settle(&mut self, confirm: Confirm, mut on: impl FnMut(u64)) -> Result<(), Unexpected> {
        let Confirm {
            tag,
            multiple,
            refused,
        } = confirm;
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
            let place = &mut self.waiting[place as usize];
            let message = *place;
            if message.due_us == CONFIRMED {
                return Err(Unexpected);
            }
            place.due_us = CONFIRMED;
            self.note(message, refused, &mut on);
        }
        while self
            .waiting
            .front()
            .is_some_and(|oldest| oldest.due_us == CONFIRMED)
        {
            self.waiting.pop_front();
            self.settled += 1;
        }
        Ok(())
    }

    /// The same for the message of this sequence alone, by which a publisher of streams knows it.
    ///
    /// # Errors
    /// If it does not wait.
    #[inline]
    pub fn settle_sequence(
        &mut self,
        sequence: u32,
        refused: bool,
        on: impl FnMut(u64),
    ) -> Result<(), Unexpected> {
        let first = self.waiting.front().ok_or(Unexpected)?.sequence;
        let near = sequence.wrapping_sub(first) as usize;
        let is_it = |message: &Waiting| message.sequence == sequence;
        // Sequences follow each other, but for what was settled before a connection broke.
        let place = match self.waiting.get(near).is_some_and(is_it) {
            true => near,
            false => self
                .waiting
                .binary_search_by_key(&sequence, |message| message.sequence)
                .map_err(|_| Unexpected)?,
        };
        let confirm = Confirm {
            tag: self.settled + 1 + place as u64,
            multiple: false,
            refused,
        };
        self.settle(confirm, on)
    }

    #[inline]
    fn settle_oldest(&mut self, refused: bool, on: &mut impl FnMut(u64)) {
        if let Some(message) = self.waiting.pop_front() {
            self.settled += 1;
            if message.due_us != CONFIRMED {
                self.note(message, refused, on);
            }
        }
    }

    #[inline]
    fn note(&mut self, message: Waiting, refused: bool, on: &mut impl FnMut(u64)) {
        self.outstanding -= 1;
        if refused {
            self.refused.insert(u64::from(message.sequence));
        }
        on(message.due_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u32) -> Waiting {
        let due_us = u64::from(sequence) * 10;
        Waiting { sequence, due_us }
    }

    fn confirm(tag: u64, multiple: bool) -> Confirm {
        Confirm {
            tag,
            multiple,
            refused: false,
        }
    }

    fn after(settles: &[(u64, bool, bool)]) -> (Vec<u64>, Result<(), Unexpected>, Confirms) {
        let mut confirms = Confirms::default();
        (1..=6).for_each(|number| confirms.push(message(number)));
        let mut dues = Vec::new();
        let mut last = Ok(());
        for (tag, multiple, refused) in settles {
            let confirm = Confirm {
                tag: *tag,
                multiple: *multiple,
                refused: *refused,
            };
            last = confirms.settle(confirm, |due| dues.push(due));
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
    fn on_a_new_channel_tags_begin_again_and_sequences_do_not() {
        let (_, _, mut confirms) = after(&[(1, false, false), (3, false, false), (4, false, true)]);
        let mut resend = Vec::new();
        confirms.begin_anew(|message| resend.push(message));
        assert_eq!(resend, [2, 5, 6].map(message));
        assert_eq!(
            (confirms.outstanding(), confirms.unconfirmed().len()),
            (0, 0)
        );
        assert_eq!(confirms.settle(confirm(1, false), |_| {}), Err(Unexpected));
        resend
            .into_iter()
            .for_each(|message| confirms.push(message));
        let mut dues = Vec::new();
        confirms
            .settle(confirm(2, true), |due| dues.push(due))
            .unwrap();
        assert_eq!(dues, [20, 50]);
        let left: Vec<_> = confirms.unconfirmed().iter().collect();
        assert_eq!(left.as_slice(), std::slice::from_ref(&(6..7)));
        assert_eq!(confirms.refused().first(), Some(4));
    }

    #[test]
    fn a_publishing_id_finds_its_message_also_where_some_are_missing() {
        let mut confirms = Confirms::default();
        [3, 4, 7, 9]
            .into_iter()
            .for_each(|number| confirms.push(message(number)));
        let mut dues = Vec::new();
        for sequence in [4, 7, 3] {
            let settled = confirms.settle_sequence(sequence, false, |due| dues.push(due));
            assert_eq!(settled, Ok(()), "{sequence}");
        }
        assert_eq!(dues, [40, 70, 30]);
        for sequence in [3, 8, 10] {
            let settled = confirms.settle_sequence(sequence, false, |_| {});
            assert_eq!(settled, Err(Unexpected), "{sequence}");
        }
        assert_eq!(confirms.outstanding(), 1);
        assert_eq!(confirms.settle_sequence(9, true, |_| {}), Ok(()));
        assert_eq!(confirms.refused().first(), Some(9));
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
