//! The confirm ledger of one channel: which publishes await which answer, and how few frames can
//! say so.
//!
//! A publish is in exactly one of four places. It is *undecided* until the node has put it into
//! queues or refused it; then it *waits* for shards' logs to become durable as far as it was
//! written, or for queues of the cluster to commit it; then its answer is *ready* to be confirmed
//! or to be rejected; and at the next flush it is answered and forgotten. Neighbours in the same
//! place are one interval, so that a batch costs what one message costs.

mod queues;

use crate::contract::Awaited;
use leveret_types::{Began, Latencies, QueueId, RangeSet, ShardId};
use queues::Queues;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;

/// What must come true before a publish is confirmed. Two: most messages reach queues of one shard.
type Waits = SmallVec<[(Awaited, u64); 2]>;

/// Publishes that wait for the same things.
#[derive(Debug)]
struct Waiting {
    numbers: Range<u64>,
    waits: Waits,
    /// Whether one of the queues has refused it: then it is rejected in the end.
    refused: bool,
}

/// An answer to publishes, as one frame gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The publish, or with `multiple` the last of those that are answered.
    pub number: u64,
    /// Whether it answers all up to it that have no answer yet.
    pub multiple: bool,
    /// Whether they are confirmed; else they are rejected.
    pub confirmed: bool,
    /// How many it answers.
    pub count: u64,
}

/// How many publishes were given their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Those that are confirmed.
    pub confirmed: u64,
    /// Those that a queue has refused.
    pub refused: u64,
}

impl Answered {
    /// An answer was given.
    pub const fn note(&mut self, answer: Answer) {
        match answer.confirmed {
            true => self.confirmed += answer.count,
            false => self.refused += answer.count,
        }
    }

    /// What was noted since this was last asked.
    pub const fn take(&mut self) -> Self {
        std::mem::replace(
            self,
            Self {
                confirmed: 0,
                refused: 0,
            },
        )
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Ledger {
    /// How many publishes were numbered; numbers begin at 1.
    issued: u64,
    undecided: RangeSet,
    waiting: VecDeque<Waiting>,
    /// Publishes that wait for one queue of the cluster and for nothing else.
    queues: Queues,
    confirmed: RangeSet,
    rejected: RangeSet,
    ahead: Ahead,
    /// When they were numbered.
    began: Began,
}

impl Ledger {
    /// Gives the next publish its number, at this moment.
    #[inline]
    pub fn issue(&mut self, now_ms: u64) -> u64 {
        self.issued += 1;
        self.began.note(self.issued, now_ms);
        let new = self.undecided.insert(self.issued);
        assert!(new, "publish {} was numbered twice", self.issued);
        self.issued
    }

    /// The node has put the publish into queues: it is owed a confirm when all of `waits` have come
    /// true.
    #[inline]
    pub fn accept(&mut self, number: u64, waits: &[(Awaited, u64)]) {
        if !self.undecided.remove(number) {
            return;
        }
        if waits.is_empty() {
            self.confirmed.insert(number);
            return;
        }
        if let [(Awaited::Queue(queue), sequence)] = waits
            && self.queues.push(*queue, *sequence, number)
        {
            return;
        }
        match self.waiting.back_mut() {
            Some(last) if last.numbers.end == number && last.waits[..] == *waits => {
                last.numbers.end += 1;
            }
            _ => self.waiting.push_back(Waiting {
                numbers: number..number + 1,
                waits: Waits::from_slice(waits),
                refused: false,
            }),
        }
    }

    /// The node has refused the publish.
    #[inline]
    pub fn reject(&mut self, number: u64) {
        if self.undecided.remove(number) {
            self.rejected.insert(number);
        }
    }

    /// A shard's log is durable through a position.
    pub fn durable(&mut self, shard: ShardId, through: u64) {
        self.reached(Awaited::Shard(shard), through);
    }

    /// A queue of the cluster has committed its operations through a sequence number.
    pub fn committed(&mut self, queue: QueueId, through: u64) {
        let confirmed = &mut self.confirmed;
        self.queues.committed(queue, through, |numbers| {
            confirmed.insert_range(numbers);
        });
        self.reached(Awaited::Queue(queue), through);
    }

    fn reached(&mut self, awaited: Awaited, through: u64) {
        self.release(|waiting| {
            waiting
                .waits
                .retain(|wait| wait.0 != awaited || wait.1 > through);
        });
    }

    /// A queue of the cluster refuses these operations.
    pub fn refused(&mut self, queue: QueueId, sequences: Range<u64>) {
        let rejected = &mut self.rejected;
        self.queues.refused(queue, sequences.clone(), |numbers| {
            rejected.insert_range(numbers);
        });
        self.release(|waiting| {
            let before = waiting.waits.len();
            waiting
                .waits
                .retain(|wait| wait.0 != Awaited::Queue(queue) || !sequences.contains(&wait.1));
            waiting.refused |= waiting.waits.len() < before;
        });
    }

    /// Answers those that wait for nothing any more.
    fn release(&mut self, mut change: impl FnMut(&mut Waiting)) {
        let (confirmed, rejected) = (&mut self.confirmed, &mut self.rejected);
        self.waiting.retain_mut(|waiting| {
            change(waiting);
            if waiting.waits.is_empty() {
                let ready = if waiting.refused {
                    &mut *rejected
                } else {
                    &mut *confirmed
                };
                ready.insert_range(waiting.numbers.clone());
            }
            !waiting.waits.is_empty()
        });
    }

    /// Whether a publish waits for a log.
    #[must_use]
    pub fn awaits_durability(&self) -> bool {
        self.waiting
            .iter()
            .any(|waiting| waiting.waits.iter().any(|wait| wait.0.is_shard()))
    }

    /// Whether a publish waits for anything.
    #[must_use]
    #[inline]
    pub fn awaits(&self) -> bool {
        !self.waiting.is_empty() || !self.queues.is_empty()
    }

    /// Whether [`Self::flush`] has something to say.
    #[must_use]
    #[inline]
    pub fn is_ready(&self) -> bool {
        !self.confirmed.is_empty() || !self.rejected.is_empty()
    }

    /// Publishes that have no answer yet.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        let waiting = self.waiting.iter().map(|w| w.numbers.end - w.numbers.start);
        let ready = self.confirmed.len() + self.rejected.len();
        self.undecided.len() + waiting.sum::<u64>() + self.queues.len() + ready
    }

    /// Gives all answers that are ready, in as few frames as say it, in the order of the publishes.
    /// How long those took that are confirmed is added to `latencies`.
    ///
    /// `multiple` speaks of everything without an answer up to a number, so it is used below the
    /// first publish without an answer alone, and for neighbours of one answer. Nor does it reach
    /// over a publish that was given the other answer ahead of its turn: there are clients that
    /// take it for the answer of that one as well (amqp091-go's `NotifyPublish`).
    pub fn flush(
        &mut self,
        now_ms: u64,
        latencies: &mut Latencies,
        mut answer: impl FnMut(Answer),
    ) {
        let decided = self.first_open();
        for numbers in self.confirmed.iter() {
            let count = |ms, count| latencies.add(ms, count);
            self.began.measure(numbers, now_ms, count);
        }
        while let Some(next) = self.next_answer(decided) {
            answer(next);
        }
        self.began.forget_before(decided);
    }

    /// The answer to the first publish whose answer is ready, and to those that it may speak of.
    /// Of those from `decided` on, each has a frame of its own.
    fn next_answer(&mut self, decided: u64) -> Option<Answer> {
        let (confirmed, rejected) = (self.confirmed.first(), self.rejected.first());
        let is_confirmed = match (confirmed, rejected) {
            (Some(confirmed), Some(rejected)) => confirmed < rejected,
            (confirmed, None) => confirmed.map(|_| true)?,
            (None, Some(_)) => false,
        };
        let (ready, number, other) = match is_confirmed {
            true => (&mut self.confirmed, confirmed?, rejected),
            false => (&mut self.rejected, rejected?, confirmed),
        };
        if number >= decided || number <= self.ahead.last(!is_confirmed) {
            if number >= decided {
                self.ahead.note(is_confirmed, number);
            }
            ready.pop_first();
            return Some(Answer {
                number,
                multiple: false,
                confirmed: is_confirmed,
                count: 1,
            });
        }
        let until = other.unwrap_or(u64::MAX).min(decided);
        let last = ready.within(0..until).last()?.end - 1;
        let count = ready.remove_range(0..until);
        Some(Answer {
            number: last,
            multiple: count > 1,
            confirmed: is_confirmed,
            count,
        })
    }

    /// Gives memory back that nothing is in.
    pub fn shrink(&mut self) {
        if self.unanswered() == 0 {
            self.began.clear();
        }
    }

    /// The first publish that is undecided or waits.
    fn first_open(&self) -> u64 {
        let waiting = self.waiting.iter().map(|w| w.numbers.start).min();
        let undecided = self.undecided.first();
        [waiting, undecided, self.queues.first()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    }
}

/// The last publish that was confirmed, and the last that was rejected, while one before it had no
/// answer; 0 for none.
#[derive(Debug, Default)]
struct Ahead {
    confirmed: u64,
    rejected: u64,
}

impl Ahead {
    const fn last(&self, confirmed: bool) -> u64 {
        match confirmed {
            true => self.confirmed,
            false => self.rejected,
        }
    }

    fn note(&mut self, confirmed: bool, number: u64) {
        let last = match confirmed {
            true => &mut self.confirmed,
            false => &mut self.rejected,
        };
        *last = number.max(*last);
    }
}

#[cfg(test)]
mod tests;
