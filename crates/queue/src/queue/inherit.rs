//! A queue that takes over what another one knew: from the storage engine after a start, from
//! subscriptions after a change of who runs it. Apart because here, and nowhere else, the size of a
//! single message is an estimate.

use super::Queue;
use crate::log::Meta;
use crate::priority_log::MessageRun;
use crate::returns::Returns;
use crate::settings::Settings;
use crate::state::{PriorityLogState, RecoveredPriorityLog, State};
use leveret_types::QueueKind;
use leveret_types::{ConsumerId, Now};
use std::ops::Range;

impl Queue {
    /// A queue as the storage engine recovered it. All that is live is ready: who held it is gone.
    /// Pump it once.
    #[must_use]
    pub fn recover(
        kind: QueueKind,
        settings: Settings,
        now: Now,
        priority_logs: Vec<RecoveredPriorityLog>,
        state: &State,
    ) -> Self {
        let mut queue = Self::new(kind, settings, now);
        for recovered in priority_logs {
            let saved = state
                .priority_logs
                .iter()
                .find(|saved| saved.priority_log == recovered.priority_log);
            queue.recover_priority_log(now, recovered, saved);
        }
        queue
    }

    fn recover_priority_log(
        &mut self,
        now: Now,
        recovered: RecoveredPriorityLog,
        saved: Option<&PriorityLogState>,
    ) {
        let RecoveredPriorityLog {
            priority_log: number,
            live,
            bytes,
            next_index,
        } = recovered;
        let priority_log = self.priority_logs.open(number);
        assert_eq!(
            priority_log.next_index, 0,
            "priority log {number} is recovered twice"
        );
        assert!(
            live.last().is_none_or(|last| last < next_index),
            "priority log {number} ends before its last message"
        );
        priority_log.next_index = next_index;
        priority_log.fresh_from = next_index;
        priority_log.delivered_through =
            saved.map_or(next_index, |saved| saved.delivered_through.min(next_index));
        priority_log.may_expire = saved.is_none_or(|saved| saved.may_expire);
        let leaving = saved.into_iter().flat_map(|saved| &saved.leaving);
        let leaving: Vec<Range<u64>> = leaving
            .flat_map(|range| live.within(range.clone()))
            .collect();
        let mut delayed = Vec::new();
        for (range, known) in saved.into_iter().flat_map(|saved| &saved.returns) {
            for part in live.within(range.clone()) {
                priority_log.returns.insert(part.clone(), *known);
                if known.ready_ms > now.wall_ms {
                    delayed.push((part, known.ready_ms));
                }
            }
        }
        if !live.is_empty() {
            self.ready.add(live.len(), bytes);
            priority_log.ready_bytes = bytes;
            priority_log.ready = live;
            self.priority_logs.occupy(number);
        }
        for range in leaving {
            let run = self.take_ready(number, range);
            self.sets_out(&run);
        }
        for (range, ready_ms) in delayed {
            let parts: Vec<_> = self
                .priority_logs
                .unsettled_messages(number)
                .ready
                .within(range)
                .collect();
            for part in parts {
                let run = self.take_ready(number, part);
                self.delayed.insert(ready_ms, run);
            }
        }
    }

    /// Takes a range out of what is ready, all of which is. Each of its messages counts for the
    /// bytes that the priority log's messages have on average: no more is known.
    pub(super) fn take_ready(&mut self, number: u8, range: Range<u64>) -> MessageRun {
        let priority_log = self.priority_logs.unsettled_messages(number);
        // At most the size of the largest message, which has 32 bits.
        let bytes = (priority_log.ready_bytes / priority_log.ready.len()) as u32;
        let count = priority_log.ready.remove_range(range.clone());
        let freed = match priority_log.ready.is_empty() {
            true => priority_log.ready_bytes,
            false => count * u64::from(bytes),
        };
        priority_log.ready_bytes -= freed;
        if priority_log.ready.is_empty() {
            self.priority_logs.vacate(number);
        }
        self.ready.take(count, freed);
        MessageRun {
            priority_log: number,
            range,
            bytes,
        }
    }

    /// Gives a subscription what it had of these messages before this queue was made, as far as
    /// that is ready here: after a change of who runs the queue. Says how many messages that were.
    /// Before the first pump, after the subscription was attached if it is a consumer. `acquired`
    /// says how often somebody had them before the subscription: that may be more than is known
    /// here.
    ///
    /// Their sizes are not looked up; each counts for what the priority log's messages have on
    /// average.
    pub fn adopt(
        &mut self,
        now: Now,
        subscription: ConsumerId,
        number: u8,
        range: Range<u64>,
        acquired: u32,
    ) -> u64 {
        // Whoever gave it to the subscription had another clock.
        while let Some(run) = self.delayed.take(number, &range) {
            self.requeue(run);
        }
        let Some(priority_log) = self.priority_logs.get_mut(number) else {
            return 0;
        };
        let parts: Vec<Range<u64>> = priority_log.ready.within(range).collect();
        let mut adopted = 0;
        for part in parts {
            let run = self.take_ready(number, part);
            let priority_log = self.priority_logs.unsettled_messages(number);
            priority_log.delivered_through = priority_log.delivered_through.max(run.range.end);
            self.unsettled.add(run.count(), run.total_bytes());
            self.note_acquired(number, run.range.clone(), acquired);
            adopted += run.count();
            self.hold_adopted(now, subscription, run);
        }
        self.note_able(now);
        adopted
    }

    fn note_acquired(&mut self, priority_log: u8, range: Range<u64>, acquired: u32) {
        if acquired == 0 || self.kind != QueueKind::Quorum {
            return;
        }
        let at_least = |before: Option<Returns>| {
            let before = before.unwrap_or_default();
            let acquired = before.acquired.max(acquired);
            Returns { acquired, ..before }
        };
        let returns = &mut self.priority_logs.unsettled_messages(priority_log).returns;
        returns.update(range, at_least, |_, _| {});
    }

    fn hold_adopted(&mut self, now: Now, subscription: ConsumerId, run: MessageRun) {
        let slot = self.subscriptions.getter_slot(subscription);
        let own = self
            .subscriptions
            .get(slot)
            .consumer
            .and_then(|c| c.timeout_ms);
        let timeout_ms = own.or(self.settings.consumer_timeout_ms);
        let meta = Meta {
            bytes: run.bytes,
            published_ms: 0,
            expiration_ms: None,
        };
        let unsettled_messages = self.unsettled_messages(now, &meta, timeout_ms);
        let found = self.subscriptions.get_mut(slot);
        found.timeout_ms = timeout_ms;
        found.hold_range(run.priority_log, run.range, unsettled_messages);
        if !found.has_credit() {
            self.subscriptions.leave_ring(slot);
        }
    }
}
