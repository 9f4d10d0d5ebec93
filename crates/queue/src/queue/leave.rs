//! The ways in which messages leave: purged, dropped, dead-lettered.

use super::{Amount, Queue};
use crate::effect::{Effect, Reason};
use crate::priority_log::MessageRun;
use std::ops::Range;

/// Ranges for which the list of what a settle took keeps its memory.
const TAKEN_KEPT: usize = 256;

impl Queue {
    /// Takes away all that is ready or waits for its time, and says how many messages that were.
    pub fn purge(&mut self, out: &mut Vec<Effect>) -> u64 {
        while let Some(run) = self.delayed.take_any() {
            self.requeue(run);
        }
        let purged = self.ready.messages;
        for number in 0..=u8::MAX {
            let Some(priority_log) = self
                .priority_logs
                .get_mut(number)
                .filter(|priority_log| !priority_log.ready.is_empty())
            else {
                continue;
            };
            let ready = std::mem::take(&mut priority_log.ready);
            let mut bytes = std::mem::take(&mut priority_log.ready_bytes);
            for range in ready.iter() {
                self.leave(number, range, std::mem::take(&mut bytes), out);
            }
            self.priority_logs.vacate(number);
        }
        self.ready = Amount::default();
        self.deadlines.no_heads();
        self.counters.purged += purged;
        self.flush(out);
        purged
    }

    /// These messages are where the dead-letter exchange put them, or it has no place for them:
    /// they leave. Says how many of them were on their way.
    pub fn dead_lettered(
        &mut self,
        priority_log: u8,
        range: Range<u64>,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let Some(found) = self.priority_logs.get_mut(priority_log) else {
            return 0;
        };
        let mut taken = std::mem::take(&mut self.taken);
        let count = found
            .leaving
            .remove(range, |range, bytes| taken.push((range, bytes)));
        self.leaving.messages -= count;
        for (range, bytes) in taken.drain(..) {
            let bytes = u64::from(bytes) * (range.end - range.start);
            self.leaving.bytes -= bytes;
            self.leave(priority_log, range, bytes, out);
        }
        self.keep(taken);
        self.flush(out);
        count
    }

    /// Ready messages are not where they were kept any more, as what kept them made room: they
    /// leave without having been handed out, and count as dropped. Says how many of the range were
    /// ready.
    pub fn lose(&mut self, number: u8, range: Range<u64>, out: &mut Vec<Effect>) -> u64 {
        let Some(priority_log) = self.priority_logs.get_mut(number) else {
            return 0;
        };
        let parts: Vec<Range<u64>> = priority_log.ready.within(range).collect();
        let mut lost = 0;
        for part in parts {
            let gone = self.take_ready(number, part);
            lost += gone.count();
            self.leave(number, gone.range.clone(), gone.total_bytes(), out);
        }
        self.counters.dropped += lost;
        self.flush(out);
        lost
    }

    /// So many messages more have gone that the queue was never told of.
    pub const fn note_dropped(&mut self, count: u64) {
        self.counters.dropped += count;
    }

    /// Messages that are nowhere any more go: to the dead-letter exchange where there is one, else
    /// away.
    pub(super) fn discard(&mut self, run: MessageRun, reason: Reason, out: &mut Vec<Effect>) {
        if !self.settings.dead_letter {
            let bytes = run.total_bytes();
            self.leave(run.priority_log, run.range, bytes, out);
            return;
        }
        self.sets_out(&run);
        let (number, range) = (run.priority_log, run.range);
        match out.last_mut() {
            Some(Effect::DeadLetter {
                priority_log,
                range: last,
                reason: last_reason,
            }) if *priority_log == number && last.end == range.start && *last_reason == reason => {
                last.end = range.end;
            }
            _ => out.push(Effect::DeadLetter {
                priority_log: number,
                range,
                reason,
            }),
        }
    }

    /// Messages are on their way to the dead-letter exchange.
    pub(super) fn sets_out(&mut self, run: &MessageRun) {
        self.leaving.add(run.count(), run.total_bytes());
        let leaving = &mut self
            .priority_logs
            .unsettled_messages(run.priority_log)
            .leaving;
        leaving.insert(run.range.clone(), run.bytes);
    }

    pub(super) fn leave(
        &mut self,
        number: u8,
        range: Range<u64>,
        bytes: u64,
        out: &mut Vec<Effect>,
    ) {
        let priority_log = self.priority_logs.unsettled_messages(number);
        if !priority_log.returns.is_empty() {
            priority_log.returns.remove(range.clone(), |_, _| {});
        }
        match &mut self.settled {
            Some((priority_log, last, sum))
                if *priority_log == number && last.end == range.start =>
            {
                last.end = range.end;
                *sum += bytes;
            }
            _ => {
                self.flush(out);
                self.settled = Some((number, range, bytes));
            }
        }
    }

    /// Keeps an emptied list of ranges for the next time, unless it is uncommonly large.
    pub(super) fn keep(&mut self, taken: Vec<(Range<u64>, u32)>) {
        assert!(taken.is_empty(), "{} ranges are left over", taken.len());
        if taken.capacity() <= TAKEN_KEPT {
            self.taken = taken;
        }
    }

    /// Tells what has left.
    pub(super) fn flush(&mut self, out: &mut Vec<Effect>) {
        let Some((number, left, sum)) = self.settled.take() else {
            return;
        };
        match out.last_mut() {
            Some(Effect::Settled {
                priority_log,
                range,
                bytes,
            }) if *priority_log == number && range.end == left.start => {
                range.end = left.end;
                *bytes += sum;
            }
            _ => out.push(Effect::Settled {
                priority_log: number,
                range: left,
                bytes: sum,
            }),
        }
    }
}
