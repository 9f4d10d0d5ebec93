//! Publishes that wait for one queue of the cluster each: their numbers and the queue's sequence
//! numbers, as runs in which both count up together.

use hashbrown::HashMap;
use leveret_types::QueueId;
use std::collections::VecDeque;
use std::ops::Range;

/// Queues that keep their place when nothing waits for them.
pub(super) const EMPTY_KEPT: usize = 64;

/// Neighbours: the publish `number + i` waits for the operation `sequence + i`.
#[derive(Debug)]
struct Run {
    number: u64,
    sequence: u64,
    count: u64,
}

impl Run {
    const fn numbers(&self) -> Range<u64> {
        self.number..self.number + self.count
    }

    /// Takes away the first of them.
    const fn skip(&mut self, count: u64) {
        self.number += count;
        self.sequence += count;
        self.count -= count;
    }
}

/// See the module's description. Within a queue, numbers and sequence numbers ascend.
#[derive(Debug, Default)]
pub(super) struct Queues {
    runs: HashMap<QueueId, VecDeque<Run>, foldhash::fast::FixedState>,
    len: u64,
}

impl Queues {
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first number.
    pub(super) fn first(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let firsts = self.runs.values().filter_map(|runs| runs.front());
        firsts.map(|run| run.number).min()
    }

    /// Adds a publish; false if it is out of order and does not belong here.
    pub(super) fn push(&mut self, queue: QueueId, sequence: u64, number: u64) -> bool {
        let runs = self.runs.entry(queue).or_default();
        if let Some(last) = runs.back_mut() {
            let next = (last.number + last.count, last.sequence + last.count);
            if number < next.0 || sequence < next.1 {
                return false;
            }
            if (number, sequence) == next {
                last.count += 1;
                self.len += 1;
                return true;
            }
        }
        runs.push_back(Run {
            number,
            sequence,
            count: 1,
        });
        self.len += 1;
        true
    }

    /// The queue has committed through `through`: tells the numbers that waited for that.
    pub(super) fn committed(
        &mut self,
        queue: QueueId,
        through: u64,
        mut answered: impl FnMut(Range<u64>),
    ) {
        let Some(runs) = self.runs.get_mut(&queue) else {
            return;
        };
        while let Some(run) = runs.front_mut() {
            let count = run
                .count
                .min(through.saturating_add(1).saturating_sub(run.sequence));
            if count == 0 {
                break;
            }
            answered(run.number..run.number + count);
            self.len -= count;
            run.skip(count);
            if run.count == 0 {
                runs.pop_front();
            }
        }
        self.tidy(queue);
    }

    /// The queue refuses operations: tells the numbers that waited for them.
    pub(super) fn refused(
        &mut self,
        queue: QueueId,
        sequences: Range<u64>,
        mut answered: impl FnMut(Range<u64>),
    ) {
        let Some(runs) = self.runs.get_mut(&queue) else {
            return;
        };
        let mut kept = VecDeque::with_capacity(runs.len());
        for mut run in runs.drain(..) {
            let before = run.count.min(sequences.start.saturating_sub(run.sequence));
            let through = run.count.min(sequences.end.saturating_sub(run.sequence));
            if through <= before {
                kept.push_back(run);
                continue;
            }
            let numbers = run.numbers();
            answered(numbers.start + before..numbers.start + through);
            self.len -= through - before;
            if before > 0 {
                kept.push_back(Run {
                    number: run.number,
                    sequence: run.sequence,
                    count: before,
                });
            }
            run.skip(through);
            if run.count > 0 {
                kept.push_back(run);
            }
        }
        *runs = kept;
        self.tidy(queue);
    }

    /// Queues that have a place.
    #[cfg(test)]
    pub(super) fn queue_count(&self) -> usize {
        self.runs.len()
    }

    /// Runs of all queues.
    #[cfg(test)]
    pub(super) fn run_count(&self) -> usize {
        self.runs.values().map(VecDeque::len).sum()
    }

    fn tidy(&mut self, queue: QueueId) {
        if self.runs.len() > EMPTY_KEPT && self.runs.get(&queue).is_some_and(VecDeque::is_empty) {
            self.runs.remove(&queue);
        }
    }
}
