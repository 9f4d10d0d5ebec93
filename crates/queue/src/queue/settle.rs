//! Where messages go that somebody held: out of the queue, or back into it, counted and delayed as
//! the queue's kind has it.

use super::Queue;
use crate::effect::{Effect, Outcome, Reason};
use crate::returns::{Return, Returns};
use leveret_types::QueueKind;
use leveret_types::{ConsumerId, Now};
use std::ops::Range;

impl Queue {
    /// Settles what `subscription` really holds of a range, and says how many messages that were.
    pub fn settle(
        &mut self,
        now: Now,
        subscription: ConsumerId,
        priority_log: u8,
        range: Range<u64>,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let Some(slot) = self.subscriptions.find(subscription) else {
            return 0;
        };
        let found = self.subscriptions.get_mut(slot);
        let Some(held) = found.priority_log(priority_log) else {
            return 0;
        };
        let mut taken = std::mem::take(&mut self.taken);
        let count = held.remove(range, |range, held| taken.push((range, held.bytes)));
        found.held_count -= count;
        let holds_nothing = found.held_count == 0;
        for (range, bytes) in taken.drain(..) {
            self.release(now, priority_log, range, bytes, outcome, out);
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

    /// Messages that a subscription had, of `bytes` each, go where `outcome` says.
    pub(super) fn release(
        &mut self,
        now: Now,
        priority_log: u8,
        range: Range<u64>,
        bytes: u32,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) {
        let count = range.end - range.start;
        self.unsettled.take(count, count * u64::from(bytes));
        match outcome {
            Outcome::Accept => {
                self.counters.accepted += count;
                self.leave(priority_log, range, count * u64::from(bytes), out);
            }
            Outcome::Requeue { .. } | Outcome::Release => {
                self.counters.requeued += count;
                match (self.kind, return_of(outcome)) {
                    (QueueKind::Quorum, Some(how)) => {
                        self.requeue_counted(now, priority_log, range, bytes, how, out);
                    }
                    _ => self.requeue(priority_log, range, bytes),
                }
            }
            Outcome::Reject => {
                self.counters.rejected += count;
                self.discard(priority_log, range, bytes, Reason::Rejected, out);
            }
        }
    }

    pub(super) fn requeue(&mut self, number: u8, range: Range<u64>, bytes: u32) {
        let priority_log = self.priority_logs.held(number);
        let count = priority_log.ready.insert_range(range.clone());
        assert_eq!(
            count,
            range.end - range.start,
            "part of {range:?} was both held and ready"
        );
        priority_log.ready_bytes += count * u64::from(bytes);
        self.ready.add(count, count * u64::from(bytes));
        self.priority_logs.occupy(number);
    }

    fn requeue_counted(
        &mut self,
        now: Now,
        number: u8,
        range: Range<u64>,
        bytes: u32,
        how: Return,
        out: &mut Vec<Effect>,
    ) {
        let mut parts = Vec::new();
        let settings = &self.settings;
        let change = |before| Returns::after(before, how, settings, now.wall_ms);
        self.priority_logs
            .held(number)
            .returns
            .update(range, change, |part, known| parts.push((part, known)));
        for (part, known) in parts {
            if how == Return::Failed && Returns::exceeds(known.failed, &self.settings) {
                self.counters.delivery_limited += part.end - part.start;
                self.discard(number, part, bytes, Reason::DeliveryLimit, out);
                continue;
            }
            if self.tells_returns {
                self.flush(out);
                out.push(Effect::Returned {
                    priority_log: number,
                    range: part.clone(),
                    returns: known,
                });
            }
            match known.ready_ms > now.wall_ms {
                true => self.delayed.insert(known.ready_ms, number, part, bytes),
                false => self.requeue(number, part, bytes),
            }
        }
    }

    /// What [`Self::settle`] at this moment would make known of messages that come back by it, for
    /// who must write that down before it happens. Says it of what the subscription really holds.
    pub fn foresee(
        &self,
        now: Now,
        subscription: ConsumerId,
        number: u8,
        range: &Range<u64>,
        outcome: Outcome,
        mut told: impl FnMut(Range<u64>, Returns),
    ) {
        let (Some(slot), Some(how)) = (self.subscriptions.find(subscription), return_of(outcome))
        else {
            return;
        };
        let Some(priority_log) = self
            .priority_logs
            .get(number)
            .filter(|_| self.kind == QueueKind::Quorum)
        else {
            return;
        };
        let settings = &self.settings;
        let held = self.subscriptions.get(slot).held.iter();
        for (run, _) in held
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
        while let Some((priority_log, range, bytes)) = self.delayed.pop_due(now.wall_ms) {
            self.requeue(priority_log, range, bytes);
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
