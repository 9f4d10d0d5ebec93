//! Looking at a queue.

use super::Queue;
use crate::consumer::ConsumerView;
use crate::log::Position;
use crate::returns::Returns;
use crate::state::{LaneState, State};
use leveret_types::{ConsumerId, Now};
use std::ops::Range;

/// What the queue has done since it was made or recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages enqueued.
    pub enqueued: u64,
    /// Deliveries to consumers, to be settled.
    pub delivered: u64,
    /// Deliveries to `no_ack` consumers.
    pub delivered_settled: u64,
    /// Messages that were got, to be settled.
    pub got: u64,
    /// Messages that were got with `no_ack`.
    pub got_settled: u64,
    /// Gets that found nothing.
    pub got_empty: u64,
    /// Deliveries and gets of messages that were delivered before.
    pub redelivered: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages that came back.
    pub requeued: u64,
    /// Messages rejected for good.
    pub rejected: u64,
    /// Messages expired.
    pub expired: u64,
    /// Messages pushed out by a length limit.
    pub dropped: u64,
    /// Messages that exceeded the delivery limit.
    pub delivery_limited: u64,
    /// Messages purged.
    pub purged: u64,
}

/// How a queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that wait for a consumer, those among them that wait for their time.
    pub ready: u64,
    /// Bytes of their bodies.
    pub ready_bytes: u64,
    /// Messages that came back and wait for their time ([`crate::DelayedRetry`]).
    pub delayed: u64,
    /// Messages that somebody holds.
    pub unsettled: u64,
    /// Bytes of their bodies.
    pub unsettled_bytes: u64,
    /// Messages on their way to the dead-letter exchange.
    pub leaving: u64,
    /// Bytes of their bodies.
    pub leaving_bytes: u64,
    /// Messages that cannot be read.
    pub damaged: u64,
    /// Attached consumers.
    pub consumers: usize,
    /// The single active consumer.
    pub active: Option<ConsumerId>,
    /// Milliseconds for which a consumer stood ready to take a message. Its growth over an
    /// interval, divided by the interval, is RabbitMQ's consumer capacity.
    pub able_ms: u64,
    /// Bytes of memory that the queue takes, but for messages' bodies.
    pub memory_bytes: usize,
}

impl Queue {
    /// How the queue stands.
    #[must_use]
    pub fn counts(&self, now: Now) -> Counts {
        let able_now = self
            .able_since_ms
            .map_or(0, |since| now.monotonic_ms.saturating_sub(since));
        let (delayed, delayed_bytes) = self.delayed.sums();
        Counts {
            ready: self.ready + delayed,
            ready_bytes: self.ready_bytes + delayed_bytes,
            delayed,
            unsettled: self.unsettled,
            unsettled_bytes: self.unsettled_bytes,
            leaving: self.leaving,
            leaving_bytes: self.leaving_bytes,
            damaged: self.lanes.iter().map(|(_, lane)| lane.damaged.len()).sum(),
            consumers: self.holders.attached(),
            active: self.active(),
            able_ms: self.able_ms + able_now,
            memory_bytes: self.memory_bytes(),
        }
    }

    fn memory_bytes(&self) -> usize {
        let lanes = self.lanes.iter().map(|(_, lane)| lane.memory_bytes());
        let holders = self.holders.iter().map(|(_, holder)| holder.memory_bytes());
        size_of::<Self>() + lanes.sum::<usize>() + holders.sum::<usize>()
    }

    /// What the queue has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The single active consumer.
    #[must_use]
    pub fn active(&self) -> Option<ConsumerId> {
        self.active.map(|slot| self.holders.get(slot).id)
    }

    /// The attached consumers, in no order.
    pub fn consumers(&self) -> impl Iterator<Item = ConsumerView> {
        self.holders.iter().filter_map(|(slot, holder)| {
            Some(ConsumerView {
                consumer: holder.consumer?,
                active: !self.settings.single_active || self.active == Some(slot),
                blocked: holder.blocked,
                unsettled: holder.held_count,
            })
        })
    }

    /// The message that is next.
    #[must_use]
    pub fn next_position(&self) -> Option<Position> {
        let lane = self.lanes.highest()?;
        Some(Position {
            lane,
            index: self.lanes.get(lane)?.ready.first()?,
        })
    }

    /// The ready messages of a lane from `index` on, as ranges: for looking at a queue without
    /// taking from it.
    pub fn ready_from(&self, lane: u8, index: u64) -> impl Iterator<Item = Range<u64>> {
        self.lanes
            .get(lane)
            .into_iter()
            .flat_map(move |lane| lane.ready.within(index..u64::MAX))
    }

    /// The ready message that has so many before it, in the order in which they are handed out.
    #[must_use]
    pub fn ready_behind(&self, mut before: u64) -> Option<Position> {
        let mut through = Some(u8::MAX);
        while let Some(lane) = through.and_then(|lane| self.lanes.highest_through(lane)) {
            for range in self.ready_from(lane, 0) {
                let count = range.end - range.start;
                if before < count {
                    let index = range.start + before;
                    return Some(Position { lane, index });
                }
                before -= count;
            }
            through = lane.checked_sub(1);
        }
        None
    }

    /// What of a lane is below this index was handed out; nothing of it and above.
    #[must_use]
    pub fn delivered_through(&self, lane: u8) -> u64 {
        self.lanes
            .get(lane)
            .map_or(0, |lane| lane.delivered_through)
    }

    /// Index of the first message of a lane that is ready, from `index` on; of the next one that
    /// comes if none is.
    #[must_use]
    pub fn next_index_from(&self, lane: u8, index: u64) -> u64 {
        let ready = self.ready_from(lane, index).next();
        let next = self.lanes.get(lane).map_or(0, |lane| lane.next_index);
        ready.map_or(next.max(index), |range| range.start)
    }

    /// Whether a holder has this message.
    #[must_use]
    pub fn has(&self, holder: ConsumerId, position: Position) -> bool {
        let Some(slot) = self.holders.find(holder) else {
            return false;
        };
        let mut held = self.holders.get(slot).held.iter();
        held.any(|(lane, held)| *lane == position.lane && held.get(position.index).is_some())
    }

    /// What is known of a message that came back and has not left.
    #[must_use]
    pub fn returns(&self, position: Position) -> Option<Returns> {
        self.lanes.get(position.lane)?.returns.get(position.index)
    }

    /// What must be saved besides the messages.
    #[must_use]
    pub fn state(&self) -> State {
        let lanes = self.lanes.iter().map(|(number, lane)| LaneState {
            lane: number,
            may_expire: lane.may_expire,
            delivered_through: lane.delivered_through,
            returns: lane.returns.iter().collect(),
            leaving: Vec::new(),
        });
        State {
            lanes: lanes.collect(),
        }
    }
}
