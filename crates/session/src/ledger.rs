//! The confirm ledger of one channel: which publishes await which answer, and how few frames can
//! say so.
//!
//! A publish is in exactly one of four places. It is *undecided* until the node has put it into
//! queues or refused it; then it *waits* for shards' logs to become durable as far as it was
//! written; then its answer is *ready* to be confirmed or to be rejected; and at the next flush it
//! is answered and forgotten. Neighbours in the same place are one interval, so that a batch costs
//! what one message costs.

use leveret_types::{RangeSet, ShardId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;

/// How far shards' logs must be durable before a publish is confirmed. Two: most messages reach
/// queues of one shard.
type Waits = SmallVec<[(ShardId, u64); 2]>;

/// Publishes that wait for the same things.
#[derive(Debug)]
struct Waiting {
    numbers: Range<u64>,
    waits: Waits,
}

/// An answer to publishes, as one frame gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The publish, or with `multiple` the last of those that are answered.
    pub number: u64,
    /// Whether it answers all up to it that have no answer yet.
    pub multiple: bool,
    /// `basic.ack`, otherwise `basic.nack`.
    pub confirmed: bool,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Ledger {
    /// How many publishes were numbered; numbers begin at 1.
    issued: u64,
    undecided: RangeSet,
    waiting: VecDeque<Waiting>,
    confirmed: RangeSet,
    rejected: RangeSet,
}

impl Ledger {
    /// Gives the next publish its number.
    pub fn issue(&mut self) -> u64 {
        self.issued += 1;
        let new = self.undecided.insert(self.issued);
        assert!(new, "publish {} was numbered twice", self.issued);
        self.issued
    }

    /// The node has put the publish into queues: it is owed a confirm when all of `waits` have come
    /// true.
    pub fn accept(&mut self, number: u64, waits: &[(ShardId, u64)]) {
        if !self.undecided.remove(number) {
            return;
        }
        if waits.is_empty() {
            self.confirmed.insert(number);
            return;
        }
        match self.waiting.back_mut() {
            Some(last) if last.numbers.end == number && last.waits[..] == *waits => {
                last.numbers.end += 1;
            }
            _ => self.waiting.push_back(Waiting {
                numbers: number..number + 1,
                waits: Waits::from_slice(waits),
            }),
        }
    }

    /// The node has refused the publish.
    pub fn reject(&mut self, number: u64) {
        if self.undecided.remove(number) {
            self.rejected.insert(number);
        }
    }

    /// A shard's log is durable through a position.
    pub fn durable(&mut self, shard: ShardId, through: u64) {
        let confirmed = &mut self.confirmed;
        self.waiting.retain_mut(|waiting| {
            waiting
                .waits
                .retain(|wait| wait.0 != shard || wait.1 > through);
            if waiting.waits.is_empty() {
                confirmed.insert_range(waiting.numbers.clone());
            }
            !waiting.waits.is_empty()
        });
    }

    /// Whether a publish waits for a log.
    pub fn awaits_durability(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether [`Self::flush`] has something to say.
    pub fn is_ready(&self) -> bool {
        !self.confirmed.is_empty() || !self.rejected.is_empty()
    }

    /// Publishes that have no answer yet.
    pub fn unanswered(&self) -> u64 {
        let waiting = self.waiting.iter().map(|w| w.numbers.end - w.numbers.start);
        let ready = self.confirmed.len() + self.rejected.len();
        self.undecided.len() + waiting.sum::<u64>() + ready
    }

    /// Gives all answers that are ready, in as few frames as say it.
    ///
    /// `multiple` speaks of everything without an answer up to a number, so it may only be used
    /// below the first publish of which something else is, or will be, true. Rejections go first:
    /// then what is left below is confirmed.
    pub fn flush(&mut self, mut answer: impl FnMut(Answer)) {
        let decided = self.first_open();
        let until = decided.min(self.confirmed.first().unwrap_or(u64::MAX));
        drain(&mut self.rejected, until, false, &mut answer);
        drain(&mut self.confirmed, decided, true, &mut answer);
    }

    /// The first publish that is undecided or waits.
    fn first_open(&self) -> u64 {
        let waiting = self.waiting.iter().map(|w| w.numbers.start).min();
        let undecided = self.undecided.first();
        waiting
            .into_iter()
            .chain(undecided)
            .min()
            .unwrap_or(u64::MAX)
    }
}

/// Answers all of `ready`: what is below `until` in one frame, each of the rest in its own.
fn drain(ready: &mut RangeSet, until: u64, confirmed: bool, answer: &mut impl FnMut(Answer)) {
    let below = ready.within(0..until).last().map(|range| range.end - 1);
    if let Some(number) = below {
        let multiple = ready.remove_range(0..until) > 1;
        answer(Answer {
            number,
            multiple,
            confirmed,
        });
    }
    while let Some(number) = ready.pop_first() {
        answer(Answer {
            number,
            multiple: false,
            confirmed,
        });
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
