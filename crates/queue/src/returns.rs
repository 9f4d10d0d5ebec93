//! What the queue knows of messages that came back, and how long they wait before they go out
//! again.

use crate::priority_log::MessageRun;
use crate::settings::Settings;
use leveret_types::Retried;
use std::collections::BTreeMap;
use std::ops::Range;

/// What is known of a message that came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// How often its delivery failed: what counts towards the delivery limit. The
    /// `x-delivery-count` header.
    pub failed: u32,
    /// How often somebody had it and gave it back, for whatever reason; one more where somebody may
    /// have had it of whom nothing is known. The `x-acquired-count` header.
    pub acquired: u32,
    /// Not before this moment, in milliseconds since the Unix epoch, is it ready again; 0 where
    /// it was at once.
    pub ready_ms: u64,
}

/// How messages come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// The delivery failed.
    Failed,
    /// The client gave it back.
    Given,
    /// Nobody's fault: neither counted nor delayed.
    Released,
}

impl Returns {
    /// What is known after one more return at `wall_ms`.
    pub(crate) fn after(
        before: Option<Self>,
        how: Return,
        settings: &Settings,
        wall_ms: u64,
    ) -> Self {
        let before = before.unwrap_or_default();
        let failed = before
            .failed
            .saturating_add(u32::from(how == Return::Failed));
        let delays = settings.delayed_retry.filter(|retry| match how {
            Return::Failed => retry.of != Retried::Returned && !Self::exceeds(failed, settings),
            Return::Given => retry.of != Retried::Failed,
            Return::Released => false,
        });
        let delay_ms = delays.map_or(0, |retry| retry.delay_ms(failed));
        Self {
            failed,
            acquired: before.acquired.saturating_add(1),
            ready_ms: match delay_ms {
                0 => 0,
                delay => wall_ms.saturating_add(delay),
            },
        }
    }

    /// Whether a message whose delivery has failed so often goes.
    pub(crate) fn exceeds(failed: u32, settings: &Settings) -> bool {
        settings.delivery_limit.is_some_and(|limit| failed > limit)
    }
}

/// Messages that wait for their time, by that time.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    /// By when, priority log and first index; with the index after the last, and the bytes of each.
    due: BTreeMap<(u64, u8, u64), (u64, u32)>,
    count: u64,
    bytes: u64,
}

impl Delayed {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// How many messages wait, and the bytes of their bodies.
    pub(crate) const fn sums(&self) -> (u64, u64) {
        (self.count, self.bytes)
    }

    /// When the next message is due, in milliseconds since the Unix epoch.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.due.keys().next().map(|(at, ..)| *at)
    }

    /// Messages wait until `ready_ms`.
    pub(crate) fn insert(&mut self, ready_ms: u64, run: MessageRun) {
        self.count += run.count();
        self.bytes += run.total_bytes();
        let MessageRun {
            priority_log,
            range,
            bytes,
        } = run;
        // Neighbours that came back together wait together.
        let mut before = self.due.range_mut(..(ready_ms, priority_log, range.start));
        if let Some(((at, of, _), (end, size))) = before.next_back()
            && (*at, *of, *end, *size) == (ready_ms, priority_log, range.start, bytes)
        {
            *end = range.end;
            return;
        }
        let before = self
            .due
            .insert((ready_ms, priority_log, range.start), (range.end, bytes));
        assert!(
            before.is_none(),
            "{range:?} of priority log {priority_log} waits twice"
        );
    }

    /// Takes out the next messages that are due at `wall_ms`.
    pub(crate) fn pop_due(&mut self, wall_ms: u64) -> Option<MessageRun> {
        let first = self
            .due
            .first_entry()
            .filter(|first| first.key().0 <= wall_ms)?;
        let ((_, priority_log, start), (end, bytes)) = first.remove_entry();
        Some(self.taken(priority_log, start..end, bytes))
    }

    /// Takes out what waits of a range.
    pub(crate) fn take(&mut self, priority_log: u8, range: &Range<u64>) -> Option<MessageRun> {
        let (key, (end, bytes)) = self.due.iter().find_map(|(key, (end, bytes))| {
            let hit = key.1 == priority_log && key.2 < range.end && *end > range.start;
            hit.then_some((*key, (*end, *bytes)))
        })?;
        self.due.remove(&key);
        let (at, _, start) = key;
        let cut = start.max(range.start)..end.min(range.end);
        if start < cut.start {
            self.due
                .insert((at, priority_log, start), (cut.start, bytes));
        }
        if cut.end < end {
            self.due.insert((at, priority_log, cut.end), (end, bytes));
        }
        Some(self.taken(priority_log, cut, bytes))
    }

    /// Takes out some of all that waits.
    pub(crate) fn take_any(&mut self) -> Option<MessageRun> {
        self.pop_due(u64::MAX)
    }

    fn taken(&mut self, priority_log: u8, range: Range<u64>, bytes: u32) -> MessageRun {
        let run = MessageRun {
            priority_log,
            range,
            bytes,
        };
        self.count -= run.count();
        self.bytes -= run.total_bytes();
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What waits, in the order of its time.
    fn left(mut delayed: Delayed) -> Vec<MessageRun> {
        std::iter::from_fn(|| delayed.take_any()).collect()
    }

    fn run(range: Range<u64>) -> MessageRun {
        MessageRun {
            priority_log: 4,
            range,
            bytes: 3,
        }
    }

    fn waiting() -> Delayed {
        let mut delayed = Delayed::default();
        delayed.insert(500, run(10..20));
        delayed
    }

    #[test]
    fn taking_the_middle_of_what_waits_leaves_both_ends_waiting() {
        let mut delayed = waiting();
        assert_eq!(delayed.take(4, &(13..16)), Some(run(13..16)));
        assert_eq!(delayed.sums(), (7, 21));
        assert_eq!(delayed.next_ms(), Some(500));
        assert_eq!(left(delayed), [run(10..13), run(16..20)]);
    }

    #[test]
    fn taking_an_end_leaves_the_other_and_nothing_empty() {
        for (range, taken, rest) in [
            (0..12, 10..12, 12..20),
            (10..12, 10..12, 12..20),
            (18..20, 18..20, 10..18),
            (18..99, 18..20, 10..18),
        ] {
            let mut delayed = waiting();
            assert_eq!(delayed.take(4, &range), Some(run(taken.clone())));
            assert_eq!(delayed.sums().0, 10 - (taken.end - taken.start));
            assert_eq!(left(delayed), [run(rest)], "without {range:?}");
        }
        let mut delayed = waiting();
        assert_eq!(delayed.take(4, &(0..99)), Some(run(10..20)));
        assert!(delayed.is_empty());
        assert_eq!(delayed.sums(), (0, 0));
    }

    #[test]
    fn what_only_touches_a_range_is_not_in_it() {
        let mut delayed = waiting();
        for (priority_log, range) in [(4, 0..10), (4, 20..30), (3, 10..20), (5, 10..20)] {
            assert_eq!(
                delayed.take(priority_log, &range),
                None,
                "priority log {priority_log}, {range:?}"
            );
        }
        assert_eq!(left(delayed), [run(10..20)]);
    }
}
