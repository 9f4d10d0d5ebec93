//! A queue that takes over what another one knew: from the storage engine after a start, from
//! holders after a change of who runs it. Apart because here, and nowhere else, the size of a
//! single message is an estimate.

use super::Queue;
use crate::log::Meta;
use crate::returns::Returns;
use crate::settings::{QueueKind, Settings};
use crate::state::{LaneState, RecoveredLane, State};
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
        lanes: Vec<RecoveredLane>,
        state: &State,
    ) -> Self {
        let mut queue = Self::new(kind, settings, now);
        for recovered in lanes {
            let saved = state
                .lanes
                .iter()
                .find(|saved| saved.lane == recovered.lane);
            queue.recover_lane(now, recovered, saved);
        }
        queue
    }

    fn recover_lane(&mut self, now: Now, recovered: RecoveredLane, saved: Option<&LaneState>) {
        let RecoveredLane {
            lane: number,
            live,
            bytes,
            next_index,
        } = recovered;
        let lane = self.lanes.open(number);
        assert_eq!(lane.next_index, 0, "lane {number} is recovered twice");
        assert!(
            live.last().is_none_or(|last| last < next_index),
            "lane {number} ends before its last message"
        );
        lane.next_index = next_index;
        lane.fresh_from = next_index;
        lane.delivered_through =
            saved.map_or(next_index, |saved| saved.delivered_through.min(next_index));
        lane.may_expire = saved.is_none_or(|saved| saved.may_expire);
        let leaving = saved.into_iter().flat_map(|saved| &saved.leaving);
        let leaving: Vec<Range<u64>> = leaving
            .flat_map(|range| live.within(range.clone()))
            .collect();
        let mut delayed = Vec::new();
        for (range, known) in saved.into_iter().flat_map(|saved| &saved.returns) {
            for part in live.within(range.clone()) {
                lane.returns.insert(part.clone(), *known);
                if known.ready_ms > now.wall_ms {
                    delayed.push((part, known.ready_ms));
                }
            }
        }
        if !live.is_empty() {
            self.ready += live.len();
            self.ready_bytes += bytes;
            lane.ready_bytes = bytes;
            lane.ready = live;
            self.lanes.occupy(number);
        }
        for range in leaving {
            let bytes = self.take_ready(number, range.clone());
            self.sets_out(number, range, bytes);
        }
        for (range, ready_ms) in delayed {
            let parts: Vec<_> = self.lanes.held(number).ready.within(range).collect();
            for part in parts {
                let bytes = self.take_ready(number, part.clone());
                self.delayed.insert(ready_ms, number, part, bytes);
            }
        }
    }

    /// Takes a range out of what is ready, all of which is, and says how many bytes each of its
    /// messages has, as far as that is known: what the lane's messages have on average.
    fn take_ready(&mut self, number: u8, range: Range<u64>) -> u32 {
        let lane = self.lanes.held(number);
        // At most the size of the largest message, which has 32 bits.
        let bytes = (lane.ready_bytes / lane.ready.len()) as u32;
        let count = lane.ready.remove_range(range);
        let freed = match lane.ready.is_empty() {
            true => lane.ready_bytes,
            false => count * u64::from(bytes),
        };
        lane.ready_bytes -= freed;
        if lane.ready.is_empty() {
            self.lanes.vacate(number);
        }
        self.ready -= count;
        self.ready_bytes -= freed;
        bytes
    }

    /// Gives a holder what it had of these messages before this queue was made, as far as that is
    /// ready here: after a change of who runs the queue. Says how many messages that were. Before
    /// the first pump, after the holder was attached if it is a consumer. `acquired` says how often
    /// somebody had them before the holder: that may be more than is known here.
    ///
    /// Their sizes are not looked up; each counts for what the lane's messages have on average.
    pub fn adopt(
        &mut self,
        now: Now,
        holder: ConsumerId,
        number: u8,
        range: Range<u64>,
        acquired: u32,
    ) -> u64 {
        // Whoever gave it to the holder had another clock.
        while let Some((lane, part, bytes)) = self.delayed.take(number, &range) {
            self.requeue(lane, part, bytes);
        }
        let Some(lane) = self.lanes.get_mut(number) else {
            return 0;
        };
        let parts: Vec<Range<u64>> = lane.ready.within(range).collect();
        let mut adopted = 0;
        for part in parts {
            let bytes = self.take_ready(number, part.clone());
            let count = part.end - part.start;
            let lane = self.lanes.held(number);
            lane.delivered_through = lane.delivered_through.max(part.end);
            self.unsettled += count;
            self.unsettled_bytes += count * u64::from(bytes);
            self.note_acquired(number, part.clone(), acquired);
            self.hold_adopted(now, holder, number, part, bytes);
            adopted += count;
        }
        self.note_able(now);
        adopted
    }

    fn note_acquired(&mut self, lane: u8, range: Range<u64>, acquired: u32) {
        if acquired == 0 || self.kind != QueueKind::Quorum {
            return;
        }
        let at_least = |before: Option<Returns>| {
            let before = before.unwrap_or_default();
            let acquired = before.acquired.max(acquired);
            Returns { acquired, ..before }
        };
        let returns = &mut self.lanes.held(lane).returns;
        returns.update(range, at_least, |_, _| {});
    }

    fn hold_adopted(
        &mut self,
        now: Now,
        holder: ConsumerId,
        lane: u8,
        range: Range<u64>,
        bytes: u32,
    ) {
        let slot = self.holders.getter_slot(holder);
        let own = self.holders.get(slot).consumer.and_then(|c| c.timeout_ms);
        let timeout_ms = own.or(self.settings.consumer_timeout_ms);
        let meta = Meta {
            bytes,
            published_ms: 0,
            expiration_ms: None,
        };
        let held = self.held(now, &meta, timeout_ms);
        let found = self.holders.get_mut(slot);
        found.timeout_ms = timeout_ms;
        found.hold_range(lane, range, held);
        if !found.has_credit() {
            self.holders.leave_ring(slot);
        }
    }
}
