//! Where messages go that somebody held: out of the queue, or back into it, counted and delayed as
//! the queue's kind has it.

use super::Queue;
use crate::effect::{Effect, Outcome, Reason, Settle};
use crate::priority_log::MessageRun;
use crate::returns::{Return, Returns};
use leveret_types::Now;
use leveret_types::QueueKind;
use std::ops::Range;

impl Queue {
    /// Settles what the subscription really holds of a range, and says how many messages that were.
    pub fn settle(&mut self, now: Now, settle: Settle, out: &mut Vec<Effect>) -> u64 {
        let Settle {
            subscription,
            priority_log,
            range,
            outcome,
        } = settle;
        let Some(slot) = self.subscriptions.find(subscription) else {
            return 0;
        };
        let found = self.subscriptions.get_mut(slot);
        let Some(unsettled_messages) = found.priority_log(priority_log) else {
            return 0;
        };
        let mut taken = std::mem::take(&mut self.taken);
        let count = unsettled_messages.remove(range, |range, unsettled_messages| {
            taken.push((range, unsettled_messages.bytes))
        });
        found.unsettled_count -= count;
        let holds_nothing = found.unsettled_count == 0;
        for (range, bytes) in taken.drain(..) {
            let run = MessageRun {
                priority_log,
                range,
                bytes,
            };
            self.release(now, run, outcome, out);
        }
        self.keep(taken);
        self.flush(out);
        if count > 0 {
            self.enter(slot);
            if holds_nothing {
                if self.election.awaits(slot) {
                    self.elect(out);
                }
                self.subscriptions.drop_if_done(slot);
            }
            self.note_able(now);
        }
        count
    }

    /// Messages that a subscription had go where `outcome` says.
    pub(super) fn release(
        &mut self,
        now: Now,
        run: MessageRun,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) {
        let (count, bytes) = (run.count(), run.total_bytes());
        self.unsettled.take(count, bytes);
        match outcome {
            Outcome::Accept => {
                self.counters.accepted += count;
                self.leave(run.priority_log, run.range, bytes, out);
            }
            Outcome::Requeue { .. } | Outcome::Release => {
                self.counters.requeued += count;
                match (self.kind, return_of(outcome)) {
                    (QueueKind::Quorum, Some(how)) => {
                        self.requeue_counted(now, run, how, out);
                    }
                    _ => self.requeue(run),
                }
            }
            Outcome::Reject => {
                self.counters.rejected += count;
                self.discard(run, Reason::Rejected, out);
            }
        }
    }

    pub(super) fn requeue(&mut self, run: MessageRun) {
        let (count, bytes) = (run.count(), run.total_bytes());
        let priority_log = self.priority_logs.unsettled_messages(run.priority_log);
        assert_eq!(
            priority_log.ready.insert_range(run.range.clone()),
            count,
            "part of {:?} was both held and ready",
            run.range
        );
        priority_log.ready_bytes += bytes;
        self.ready.add(count, bytes);
        self.priority_logs.occupy(run.priority_log);
    }

    fn requeue_counted(&mut self, now: Now, run: MessageRun, how: Return, out: &mut Vec<Effect>) {
        let mut parts = Vec::new();
        let settings = &self.settings;
        let change = |before| Returns::after(before, how, settings, now.wall_ms);
        self.priority_logs
            .unsettled_messages(run.priority_log)
            .returns
            .update(run.range.clone(), change, |part, known| {
                parts.push((run.part(part), known));
            });
        for (part, known) in parts {
            if how == Return::Failed && Returns::exceeds(known.failed, &self.settings) {
                self.counters.delivery_limited += part.count();
                self.discard(part, Reason::DeliveryLimit, out);
                continue;
            }
            if self.tells_returns {
                self.flush(out);
                out.push(Effect::Returned {
                    priority_log: part.priority_log,
                    range: part.range.clone(),
                    returns: known,
                });
            }
            match known.ready_ms > now.wall_ms {
                true => self.delayed.insert(known.ready_ms, part),
                false => self.requeue(part),
            }
        }
    }

    /// What [`Self::settle`] at this moment would make known of messages that come back by it, for
    /// who must write that down before it happens. Says it of what the subscription really holds.
    pub fn foresee(&self, now: Now, settle: &Settle, mut told: impl FnMut(Range<u64>, Returns)) {
        let found = self.subscriptions.find(settle.subscription);
        let (Some(slot), Some(how)) = (found, return_of(settle.outcome)) else {
            return;
        };
        let (number, range) = (settle.priority_log, &settle.range);
        let Some(priority_log) = self
            .priority_logs
            .get(number)
            .filter(|_| self.kind == QueueKind::Quorum)
        else {
            return;
        };
        let settings = &self.settings;
        let unsettled_messages = self.subscriptions.get(slot).unsettled_messages.iter();
        for (run, _) in unsettled_messages
            .filter(|(of, _)| *of == number)
            .flat_map(|(_, runs)| runs.iter())
        {
            let part = run.start.max(range.start)..run.end.min(range.end);
            for (piece, before) in priority_log.returns.pieces(part) {
                told(piece, Returns::after(before, how, settings, now.wall_ms));
            }
        }
    }

    /// Makes ready what has waited for its time.
    pub(super) fn release_due(&mut self, now: Now) {
        while let Some(run) = self.delayed.pop_due(now.wall_ms) {
            self.requeue(run);
        }
    }
}

/// How messages come back with this outcome, if they do.
const fn return_of(outcome: Outcome) -> Option<Return> {
    match outcome {
        Outcome::Requeue { count: true } => Some(Return::Failed),
        Outcome::Requeue { count: false } => Some(Return::Given),
        Outcome::Release => Some(Return::Released),
        Outcome::Accept | Outcome::Reject => None,
    }
}
