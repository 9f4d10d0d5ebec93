//! The queue itself: what callers may do with it, and what follows.

use crate::consumer::{AttachError, Consumer, ConsumerView, Held, Holders};
use crate::effect::{Delivery, Effect, Got, Offer, Outcome, Reason};
use crate::lane::Lanes;
use crate::log::{Log, Meta, Peek, Position};
use crate::settings::{Overflow, QueueKind, Settings};
use crate::state::{LaneState, RecoveredLane, State};
use leveret_types::{ConsumerId, Now, RangeSet, limits};
use std::ops::Range;

/// A queue. See the crate's page for how its calls go together.
#[derive(Debug)]
pub struct Queue {
    kind: QueueKind,
    settings: Settings,
    lanes: Lanes,
    holders: Holders,
    /// The exclusive consumer.
    exclusive: Option<ConsumerId>,
    /// The single active consumer, where the queue has that rule.
    active: Option<ConsumerId>,
    /// The active consumer gets no more, so that one of higher priority can take over once it holds nothing.
    yielding: bool,
    ready: u64,
    ready_bytes: u64,
    unsettled: u64,
    unsettled_bytes: u64,
    counters: Counters,
    /// When the queue was last in use, monotonic: its lease of `expires_ms` counts from here.
    used_ms: u64,
    expiry_told: bool,
    /// No message at a lane's head expires before this, on the wall clock.
    head_expiry_ms: u64,
    /// No delivery times out before this, on the monotonic clock.
    timeout_at_ms: u64,
    /// Since when, on the monotonic clock, a consumer could take a message.
    able_since_ms: Option<u64>,
    able_ms: u64,
    /// Messages that leave, not yet told: so that neighbours are told together.
    settled: Option<(u8, Range<u64>, u64)>,
    /// What a settle took from a holder; kept to be filled again.
    taken: Vec<(Range<u64>, u32)>,
}

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
    /// Messages that wait for a consumer.
    pub ready: u64,
    /// Bytes of their bodies.
    pub ready_bytes: u64,
    /// Messages that somebody holds.
    pub unsettled: u64,
    /// Bytes of their bodies.
    pub unsettled_bytes: u64,
    /// Messages on their way to the dead-letter exchange.
    pub leaving: u64,
    /// Messages that cannot be read.
    pub damaged: u64,
    /// Attached consumers.
    pub consumers: usize,
    /// The single active consumer.
    pub active: Option<ConsumerId>,
    /// Milliseconds for which a consumer stood ready to take a message. Its growth over an interval, divided by the interval, is
    /// RabbitMQ's consumer capacity.
    pub able_ms: u64,
}

/// Lanes of a quorum queue: `0..=31`, and the one of messages without a priority.
const QUORUM_LANE_MAX: u8 = 31;
const QUORUM_LANE_DEFAULT: u8 = 4;
/// Never, as a deadline.
const NEVER_MS: u64 = u64::MAX;
/// An expiry on the wall clock is looked at again within this time, for that clock may jump.
const WALL_CHECK_MS_MAX: u64 = 3_600_000;
/// Delivery times are kept to this accuracy, so that deliveries of one second share an interval.
const DELIVERY_TIME_MS: u64 = 1_000;

impl Queue {
    /// A new, empty queue.
    #[must_use]
    pub fn new(kind: QueueKind, settings: Settings, now: Now) -> Self {
        Self {
            kind,
            settings,
            lanes: Lanes::default(),
            holders: Holders::default(),
            exclusive: None,
            active: None,
            yielding: false,
            ready: 0,
            ready_bytes: 0,
            unsettled: 0,
            unsettled_bytes: 0,
            counters: Counters::default(),
            used_ms: now.monotonic_ms,
            expiry_told: false,
            head_expiry_ms: NEVER_MS,
            timeout_at_ms: NEVER_MS,
            able_since_ms: None,
            able_ms: 0,
            settled: None,
            taken: Vec::new(),
        }
    }

    /// A queue as the storage engine recovered it. All that is live is ready: who held it is gone. Pump it once.
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
            queue.recover_lane(recovered, saved);
        }
        queue
    }

    fn recover_lane(&mut self, recovered: RecoveredLane, saved: Option<&LaneState>) {
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
        for (range, count) in saved.into_iter().flat_map(|saved| &saved.returns) {
            for part in live.within(range.clone()) {
                lane.returns.insert(part, *count);
            }
        }
        self.ready += live.len();
        self.ready_bytes += bytes;
        lane.ready_bytes = bytes;
        lane.ready = live;
        if !lane.ready.is_empty() {
            self.lanes.occupy(number);
        }
    }

    /// The kind that it was made as.
    #[must_use]
    pub const fn kind(&self) -> QueueKind {
        self.kind
    }

    /// The settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A policy has changed. Limits and times to live apply to what is there at the next pump; the consumer timeout to deliveries
    /// made from now on.
    pub fn update_settings(&mut self, now: Now, settings: Settings) {
        assert_eq!(
            settings.priority_max, self.settings.priority_max,
            "x-max-priority is fixed"
        );
        assert_eq!(
            settings.single_active, self.settings.single_active,
            "x-single-active-consumer is fixed"
        );
        if settings.expires_ms != self.settings.expires_ms {
            self.touch(now);
        }
        self.settings = settings;
    }

    // --- Publishing -----------------------------------------------------------------------------------------------------------

    /// The lane of a message of that priority.
    #[must_use]
    pub fn lane_for(&self, priority: Option<u8>) -> u8 {
        match self.kind {
            QueueKind::Classic => priority.unwrap_or(0).min(self.settings.priority_max),
            QueueKind::Quorum => priority.unwrap_or(QUORUM_LANE_DEFAULT).min(QUORUM_LANE_MAX),
        }
    }

    /// Whether the queue takes a message of that size. To be asked before it is appended to the log. What was enqueued before in
    /// the same batch and can be delivered does not count against it.
    pub fn offer(
        &mut self,
        now: Now,
        bytes: u32,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Offer {
        if self.settings.overflow == Overflow::DropHead || !self.would_exceed(1, bytes) {
            return Offer::Take;
        }
        self.pump(now, log, out);
        match self.would_exceed(1, bytes) {
            false => Offer::Take,
            true => {
                let dlx = self.settings.overflow == Overflow::RejectPublishDlx;
                Offer::Reject {
                    dead_letter: dlx && self.settings.dead_letter,
                }
            }
        }
    }

    fn would_exceed(&self, messages: u64, bytes: u32) -> bool {
        let length = self.settings.length_max;
        let length_bytes = self.settings.length_bytes_max;
        length.is_some_and(|max| self.ready + messages > max)
            || length_bytes.is_some_and(|max| self.ready_bytes + u64::from(bytes) > max)
    }

    /// A message has been appended to the log. Indexes ascend within a lane.
    pub fn enqueue(&mut self, position: Position, meta: &Meta) {
        let idle = self.ready == 0 && self.unsettled == 0;
        let lane = self.lanes.open(position.lane);
        assert!(
            position.index >= lane.next_index,
            "{position:?} comes after index {}",
            lane.next_index
        );
        lane.next_index = position.index + 1;
        lane.may_expire = meta.expiration_ms.is_some() || (lane.may_expire && !idle);
        lane.ready.insert(position.index);
        lane.ready_bytes += u64::from(meta.bytes);
        self.lanes.occupy(position.lane);
        self.ready += 1;
        self.ready_bytes += u64::from(meta.bytes);
        self.counters.enqueued += 1;
    }

    // --- Consuming ------------------------------------------------------------------------------------------------------------

    /// Attaches a consumer.
    pub fn attach(
        &mut self,
        now: Now,
        consumer: Consumer,
        out: &mut Vec<Effect>,
    ) -> Result<(), AttachError> {
        if consumer.exclusive && self.settings.single_active {
            return Err(AttachError::ExclusiveOnSingleActive);
        }
        if self.exclusive.is_some() || (consumer.exclusive && self.holders.attached() > 0) {
            return Err(AttachError::ExclusiveTaken);
        }
        self.exclusive = consumer.exclusive.then_some(consumer.id);
        self.holders.attach(consumer);
        self.touch(now);
        if self.settings.single_active {
            self.elect(out);
        } else {
            self.holders.enter_ring(consumer.id);
        }
        self.note_able(now);
        Ok(())
    }

    /// Stops delivering to a consumer. It keeps what it holds, and may settle that. False if it is no consumer.
    pub fn cancel(&mut self, now: Now, consumer: ConsumerId, out: &mut Vec<Effect>) -> bool {
        let cancelled = self.holders.cancel(consumer);
        if cancelled {
            self.consumer_left(now, consumer, out);
            self.holders.drop_if_done(consumer);
        }
        cancelled
    }

    /// A holder's channel is gone: what it holds returns, counted towards the delivery limit. Says how many messages that were.
    pub fn detach(&mut self, now: Now, holder: ConsumerId, out: &mut Vec<Effect>) -> u64 {
        let Some(gone) = self.holders.remove(holder) else {
            return 0;
        };
        for (lane, held) in &gone.held {
            for (range, held) in held.iter() {
                self.release(
                    *lane,
                    range,
                    held.bytes,
                    Outcome::Requeue { count: true },
                    out,
                );
            }
        }
        if gone.consumer.is_some() {
            self.consumer_left(now, holder, out);
        }
        self.flush(out);
        gone.held_count
    }

    fn consumer_left(&mut self, now: Now, consumer: ConsumerId, out: &mut Vec<Effect>) {
        self.touch(now);
        if self.exclusive == Some(consumer) {
            self.exclusive = None;
        }
        if self.active == Some(consumer) {
            self.active = None;
            self.yielding = false;
        }
        if self.settings.single_active {
            self.elect(out);
        }
        self.note_able(now);
    }

    /// What [`Log::admit`] refused this consumer for is over.
    pub fn unblock(&mut self, now: Now, consumer: ConsumerId) {
        if let Some(holder) = self.holders.get_mut(consumer) {
            holder.blocked = false;
            self.enter(consumer);
            self.note_able(now);
        }
    }

    /// Lets a consumer take its turn, if the rule of the single active consumer allows.
    fn enter(&mut self, consumer: ConsumerId) {
        let allowed =
            !self.settings.single_active || (self.active == Some(consumer) && !self.yielding);
        if allowed {
            self.holders.enter_ring(consumer);
        }
    }

    /// Chooses the single active consumer. A classic queue keeps the one that it has; a quorum queue gives way to a higher priority,
    /// as soon as the active one holds nothing.
    fn elect(&mut self, out: &mut Vec<Effect>) {
        let Some(foremost) = self.holders.foremost() else {
            return;
        };
        if let Some(active) = self.active {
            let Some(holder) = self.holders.get(active) else {
                panic!("active consumer {active} is not attached")
            };
            let outranked = holder
                .consumer
                .is_some_and(|c| c.priority < foremost.priority);
            self.yielding = outranked && self.kind == QueueKind::Quorum;
            if !self.yielding {
                self.holders.enter_ring(active);
                return;
            }
            let holds = holder.held_count > 0;
            self.holders.leave_ring(active);
            if holds {
                return;
            }
            out.push(Effect::Deactivate { consumer: active });
        }
        self.active = Some(foremost.id);
        self.yielding = false;
        self.holders.enter_ring(foremost.id);
        out.push(Effect::Activate {
            consumer: foremost.id,
        });
    }

    /// Settles what `holder` really holds of a range, and says how many messages that were.
    pub fn settle(
        &mut self,
        now: Now,
        holder: ConsumerId,
        lane: u8,
        range: Range<u64>,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let Some(found) = self.holders.get_mut(holder) else {
            return 0;
        };
        let Some(held) = found.lane(lane) else {
            return 0;
        };
        let mut taken = std::mem::take(&mut self.taken);
        let count = held.remove(range, |range, held| taken.push((range, held.bytes)));
        found.held_count -= count;
        let holds_nothing = found.held_count == 0;
        for (range, bytes) in taken.drain(..) {
            self.release(lane, range, bytes, outcome, out);
        }
        self.taken = taken;
        self.flush(out);
        if count > 0 {
            self.enter(holder);
            if holds_nothing {
                self.holders.drop_if_done(holder);
                if self.yielding && self.active == Some(holder) {
                    self.elect(out);
                }
            }
            self.note_able(now);
        }
        count
    }

    /// Messages that a holder had, of `bytes` each, go where `outcome` says.
    fn release(
        &mut self,
        lane: u8,
        range: Range<u64>,
        bytes: u32,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) {
        let count = range.end - range.start;
        self.unsettled -= count;
        self.unsettled_bytes -= count * u64::from(bytes);
        match outcome {
            Outcome::Accept => {
                self.counters.accepted += count;
                self.leave(lane, range, count * u64::from(bytes), out);
            }
            Outcome::Requeue { count: counted } => {
                self.counters.requeued += count;
                if counted && self.kind == QueueKind::Quorum {
                    self.requeue_counted(lane, range, bytes, out);
                } else {
                    self.requeue(lane, range, bytes);
                }
            }
            Outcome::Reject => {
                self.counters.rejected += count;
                self.discard(lane, range, bytes, Reason::Rejected, out);
            }
        }
    }

    fn requeue(&mut self, number: u8, range: Range<u64>, bytes: u32) {
        let lane = self.lanes.held(number);
        let count = lane.ready.insert_range(range.clone());
        assert_eq!(
            count,
            range.end - range.start,
            "part of {range:?} was both held and ready"
        );
        lane.ready_bytes += count * u64::from(bytes);
        self.ready += count;
        self.ready_bytes += count * u64::from(bytes);
        self.lanes.occupy(number);
    }

    fn requeue_counted(
        &mut self,
        number: u8,
        range: Range<u64>,
        bytes: u32,
        out: &mut Vec<Effect>,
    ) {
        let limit = self.settings.delivery_limit;
        let mut parts = Vec::new();
        let count_up = |count: Option<u32>| count.unwrap_or(0).saturating_add(1);
        self.lanes
            .held(number)
            .returns
            .update(range, count_up, |part, count| parts.push((part, count)));
        for (part, count) in parts {
            if limit.is_some_and(|limit| count > limit) {
                self.counters.delivery_limited += part.end - part.start;
                self.discard(number, part, bytes, Reason::DeliveryLimit, out);
            } else {
                self.requeue(number, part, bytes);
            }
        }
    }

    /// Takes the next message out, for a client that asked for it. Pumps first: consumers that wait go before.
    pub fn get(
        &mut self,
        now: Now,
        holder: ConsumerId,
        no_ack: bool,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Got {
        self.touch(now);
        self.pump(now, log, out);
        let Some((position, meta)) = self.next_message(now, log, out) else {
            self.flush(out);
            if self.ready > 0 {
                return Got::Pending;
            }
            self.counters.got_empty += 1;
            return Got::Empty;
        };
        let delivery = self.take_next(holder, position, &meta, no_ack, out);
        if no_ack {
            self.counters.got_settled += 1;
        } else {
            self.counters.got += 1;
            let timeout_ms = self.settings.consumer_timeout_ms;
            let held = self.held(now, &meta, timeout_ms);
            let getter = self.holders.getter(holder);
            getter.timeout_ms = timeout_ms;
            getter.hold(position.lane, position.index, held);
        }
        self.expire_heads(now, log, out);
        self.flush(out);
        Got::Message {
            delivery,
            ready: self.ready,
        }
    }

    // --- What leaves ----------------------------------------------------------------------------------------------------------

    /// Takes away all that is ready, and says how many messages that were.
    pub fn purge(&mut self, out: &mut Vec<Effect>) -> u64 {
        let purged = self.ready;
        for number in 0..=u8::MAX {
            let Some(lane) = self
                .lanes
                .get_mut(number)
                .filter(|lane| !lane.ready.is_empty())
            else {
                continue;
            };
            let ready = std::mem::take(&mut lane.ready);
            let mut bytes = std::mem::take(&mut lane.ready_bytes);
            for range in ready.iter().rev() {
                self.leave(number, range, std::mem::take(&mut bytes), out);
            }
            self.lanes.vacate(number);
        }
        self.ready = 0;
        self.ready_bytes = 0;
        self.head_expiry_ms = NEVER_MS;
        self.counters.purged += purged;
        self.flush(out);
        purged
    }

    /// These messages are where the dead-letter exchange put them, or it has no place for them: they leave. Says how many of them
    /// were on their way.
    pub fn dead_lettered(&mut self, lane: u8, range: Range<u64>, out: &mut Vec<Effect>) -> u64 {
        let Some(found) = self.lanes.get_mut(lane) else {
            return 0;
        };
        let mut taken = std::mem::take(&mut self.taken);
        let count = found
            .leaving
            .remove(range, |range, bytes| taken.push((range, bytes)));
        for (range, bytes) in taken.drain(..) {
            let bytes = u64::from(bytes) * (range.end - range.start);
            self.leave(lane, range, bytes, out);
        }
        self.taken = taken;
        self.flush(out);
        count
    }

    /// Gives up all damaged messages: they leave. Says how many they were. An operator's command, never automatic.
    pub fn discard_damaged(&mut self, out: &mut Vec<Effect>) -> u64 {
        let mut count = 0;
        for number in 0..=u8::MAX {
            let Some(lane) = self.lanes.get_mut(number) else {
                continue;
            };
            let damaged: RangeSet = std::mem::take(&mut lane.damaged);
            count += damaged.len();
            for range in damaged.iter() {
                self.leave(number, range, 0, out);
            }
        }
        self.flush(out);
        count
    }

    /// Messages that are nowhere any more go: to the dead-letter exchange where there is one, else away.
    fn discard(
        &mut self,
        number: u8,
        range: Range<u64>,
        bytes: u32,
        reason: Reason,
        out: &mut Vec<Effect>,
    ) {
        if !self.settings.dead_letter {
            let bytes = u64::from(bytes) * (range.end - range.start);
            self.leave(number, range, bytes, out);
            return;
        }
        self.lanes.held(number).leaving.insert(range.clone(), bytes);
        match out.last_mut() {
            Some(Effect::DeadLetter {
                lane,
                range: last,
                reason: last_reason,
            }) if *lane == number && last.end == range.start && *last_reason == reason => {
                last.end = range.end;
            }
            _ => out.push(Effect::DeadLetter {
                lane: number,
                range,
                reason,
            }),
        }
    }

    fn leave(&mut self, number: u8, range: Range<u64>, bytes: u64, out: &mut Vec<Effect>) {
        let lane = self.lanes.held(number);
        if !lane.returns.is_empty() {
            lane.returns.remove(range.clone(), |_, _| {});
        }
        match &mut self.settled {
            Some((lane, last, sum)) if *lane == number && last.end == range.start => {
                last.end = range.end;
                *sum += bytes;
            }
            _ => {
                self.flush(out);
                self.settled = Some((number, range, bytes));
            }
        }
    }

    /// Tells what has left.
    fn flush(&mut self, out: &mut Vec<Effect>) {
        let Some((number, left, sum)) = self.settled.take() else {
            return;
        };
        match out.last_mut() {
            Some(Effect::Settled { lane, range, bytes })
                if *lane == number && range.end == left.start =>
            {
                range.end = left.end;
                *bytes += sum;
            }
            _ => out.push(Effect::Settled {
                lane: number,
                range: left,
                bytes: sum,
            }),
        }
    }

    // --- The pump -------------------------------------------------------------------------------------------------------------

    /// Does what follows from all calls since the last pump: delivers, expires, enforces the length limits.
    pub fn pump(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        self.deliver(now, log, out);
        self.expire_heads(now, log, out);
        if self.enforce_limits(log, out) {
            self.expire_heads(now, log, out);
        }
        for (_, lane) in self.lanes.iter_mut() {
            lane.fresh_from = lane.next_index;
        }
        self.flush(out);
        self.note_able(now);
    }

    /// A read for which [`Peek::Pending`] was answered has arrived. Pump afterwards.
    pub fn resume(&mut self) {
        for (_, lane) in self.lanes.iter_mut() {
            lane.head = lane.head.filter(|(_, meta)| meta.is_some());
        }
    }

    fn deliver(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        while self.holders.any_able() {
            let Some((position, meta)) = self.next_message(now, log, out) else {
                break;
            };
            let Some(consumer) = self.next_consumer(meta.bytes, log) else {
                break;
            };
            let no_ack = consumer.no_ack;
            let delivery = self.take_next(consumer.id, position, &meta, no_ack, out);
            let timeout_ms = consumer.timeout_ms.or(self.settings.consumer_timeout_ms);
            let held = self.held(now, &meta, timeout_ms.filter(|_| !no_ack));
            self.holders.serve_first(consumer.id, |holder| {
                if !no_ack {
                    holder.timeout_ms = timeout_ms;
                    holder.hold(position.lane, position.index, held);
                }
            });
            match no_ack {
                true => self.counters.delivered_settled += 1,
                false => self.counters.delivered += 1,
            }
            out.push(Effect::Deliver(delivery));
        }
    }

    /// The message that is next, if it can be had now. What has expired before it goes.
    fn next_message(
        &mut self,
        now: Now,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Option<(Position, Meta)> {
        while let Some(number) = self.lanes.highest() {
            // What was ready to be sent a while ago may have to be read again: the log is asked for each delivery.
            let lane = self.lanes.held(number);
            lane.head = lane.head.filter(|(_, meta)| meta.is_none());
            let Some((index, meta)) = self.head(number, log, out) else {
                continue;
            };
            let meta = meta?;
            // A message that arrived since the last pump is delivered even if it may not wait at all.
            let fresh = index >= self.lanes.held(number).fresh_from;
            if fresh || self.expiry_ms(&meta) > now.wall_ms {
                return Some((
                    Position {
                        lane: number,
                        index,
                    },
                    meta,
                ));
            }
            self.discard_head(number, meta.bytes, Reason::Expired, out);
        }
        None
    }

    /// The first message of a lane, and what the log says of it: nothing while it is being read. Damaged ones are set aside.
    fn head(
        &mut self,
        number: u8,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Option<(u64, Option<Meta>)> {
        loop {
            let lane = self.lanes.held(number);
            let index = lane.ready.first()?;
            if let Some((known, meta)) = lane.head
                && known == index
            {
                return Some((index, meta));
            }
            let position = Position {
                lane: number,
                index,
            };
            match log.peek(position) {
                Peek::Ready(meta) => lane.head = Some((index, Some(meta))),
                Peek::Pending => lane.head = Some((index, None)),
                Peek::Damaged => {
                    lane.damaged.insert(index);
                    self.take_head(number, 0);
                    out.push(Effect::Damaged { position });
                }
            }
        }
    }

    /// The consumer whose turn it is and whose channel has room.
    fn next_consumer(&mut self, bytes: u32, log: &mut impl Log) -> Option<Consumer> {
        while let Some(id) = self.holders.first() {
            if log.admit(id, bytes) {
                return self.holders.get(id)?.consumer;
            }
            self.holders.block_first(id);
        }
        None
    }

    /// Takes the head of a lane to hand it over.
    fn take_next(
        &mut self,
        holder: ConsumerId,
        position: Position,
        meta: &Meta,
        no_ack: bool,
        out: &mut Vec<Effect>,
    ) -> Delivery {
        let lane = self.lanes.held(position.lane);
        let redelivered = position.index < lane.delivered_through;
        let delivery_count = lane.returns.get(position.index);
        lane.delivered_through = lane.delivered_through.max(position.index + 1);
        let taken = self.take_head(position.lane, meta.bytes);
        assert_eq!(
            taken,
            Some(position.index),
            "the head of lane {} is another",
            position.lane
        );
        self.counters.redelivered += u64::from(redelivered);
        if no_ack {
            self.leave(
                position.lane,
                position.index..position.index + 1,
                u64::from(meta.bytes),
                out,
            );
        } else {
            self.unsettled += 1;
            self.unsettled_bytes += u64::from(meta.bytes);
        }
        Delivery {
            consumer: holder,
            position,
            bytes: meta.bytes,
            redelivered,
            delivery_count,
            settled: no_ack,
        }
    }

    /// What is kept of a message that is handed over now.
    fn held(&mut self, now: Now, meta: &Meta, timeout_ms: Option<u64>) -> Held {
        let since_ms = timeout_ms.map_or(0, |timeout| {
            let since = now.monotonic_ms.next_multiple_of(DELIVERY_TIME_MS).max(1);
            self.timeout_at_ms = self.timeout_at_ms.min(since.saturating_add(timeout));
            since
        });
        Held {
            bytes: meta.bytes,
            since_ms,
        }
    }

    /// Takes the first message of a lane out of what is ready.
    fn take_head(&mut self, number: u8, bytes: u32) -> Option<u64> {
        let lane = self.lanes.held(number);
        let index = lane.ready.pop_first()?;
        let mut freed = u64::from(bytes).min(lane.ready_bytes);
        if lane.ready.is_empty() {
            // The sizes of damaged messages are not known; they go with the last message of the lane.
            freed = lane.ready_bytes;
            self.lanes.vacate(number);
        }
        let lane = self.lanes.held(number);
        lane.ready_bytes -= freed;
        self.ready_bytes -= freed;
        self.ready -= 1;
        Some(index)
    }

    fn discard_head(&mut self, number: u8, bytes: u32, reason: Reason, out: &mut Vec<Effect>) {
        let Some(index) = self.take_head(number, bytes) else {
            return;
        };
        match reason {
            Reason::Expired => self.counters.expired += 1,
            _ => self.counters.dropped += 1,
        }
        self.discard(number, index..index + 1, bytes, reason, out);
    }

    /// Drops messages until the length limits are kept, and says whether any went.
    fn enforce_limits(&mut self, log: &mut impl Log, out: &mut Vec<Effect>) -> bool {
        let ready = self.ready;
        while self.settings.overflow == Overflow::DropHead && self.would_exceed(0, 0) {
            let Some(number) = self.lanes.highest() else {
                break;
            };
            match self.head(number, log, out) {
                Some((_, Some(meta))) => {
                    self.discard_head(number, meta.bytes, Reason::MaxLength, out)
                }
                Some((_, None)) => break,
                None => {}
            }
        }
        self.ready < ready
    }

    // --- Time -----------------------------------------------------------------------------------------------------------------

    /// When a message expires, on the wall clock.
    fn expiry_ms(&self, meta: &Meta) -> u64 {
        let ttl = self
            .settings
            .ttl_ms
            .unwrap_or(NEVER_MS)
            .min(meta.expiration_ms.unwrap_or(NEVER_MS));
        meta.published_ms.saturating_add(ttl)
    }

    /// Lets expired messages go from the head of each lane, and notes when the next one does.
    fn expire_heads(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        self.head_expiry_ms = NEVER_MS;
        let mut from = self.lanes.highest();
        while let Some(number) = from {
            let may_expire = self.settings.ttl_ms.is_some() || self.lanes.held(number).may_expire;
            while may_expire && let Some((_, Some(meta))) = self.head(number, log, out) {
                let expiry_ms = self.expiry_ms(&meta);
                if expiry_ms > now.wall_ms {
                    self.head_expiry_ms = self.head_expiry_ms.min(expiry_ms);
                    break;
                }
                self.discard_head(number, meta.bytes, Reason::Expired, out);
            }
            from = number
                .checked_sub(1)
                .and_then(|below| self.lanes.highest_through(below));
        }
    }

    /// The queue is in use: its lease starts anew. For a redeclaration of a classic queue; consumers and gets do it by themselves.
    pub fn touch(&mut self, now: Now) {
        self.used_ms = now.monotonic_ms;
        self.expiry_told = false;
    }

    /// Does what is due: expires the queue and its messages, tells timed-out consumers. Pumps.
    pub fn tick(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        if self
            .lease_end_ms()
            .is_some_and(|end| end <= now.monotonic_ms)
        {
            self.expiry_told = true;
            out.push(Effect::Expired);
        }
        if self.timeout_at_ms <= now.monotonic_ms {
            self.time_out(now, out);
        }
        self.pump(now, log, out);
    }

    /// When [`Self::tick`] should be called next, on the monotonic clock. To be asked after a pump.
    #[must_use]
    pub fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let head = (self.head_expiry_ms != NEVER_MS).then(|| {
            let wait = self
                .head_expiry_ms
                .saturating_sub(now.wall_ms)
                .min(WALL_CHECK_MS_MAX);
            now.monotonic_ms + wait
        });
        let timeout = Some(self.timeout_at_ms).filter(|at| *at != NEVER_MS);
        [self.lease_end_ms(), head, timeout]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the queue itself expires if nobody uses it.
    fn lease_end_ms(&self) -> Option<u64> {
        let unused = self.holders.attached() == 0 && !self.expiry_told;
        self.settings
            .expires_ms
            .filter(|_| unused)
            .map(|lease| self.used_ms.saturating_add(lease))
    }

    fn time_out(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.timeout_at_ms = NEVER_MS;
        let mut due = Vec::new();
        for (id, holder) in self.holders.iter().filter(|(_, holder)| !holder.timed_out) {
            let Some((timeout, oldest)) = holder.timeout_ms.zip(holder.oldest_ms()) else {
                continue;
            };
            match oldest.saturating_add(timeout) {
                at if at <= now.monotonic_ms => due.push(id),
                at => self.timeout_at_ms = self.timeout_at_ms.min(at),
            }
        }
        due.sort_unstable();
        for holder in due {
            self.holders.leave_ring(holder);
            if let Some(found) = self.holders.get_mut(holder) {
                found.timed_out = true;
            }
            out.push(Effect::TimedOut { holder });
        }
    }

    /// Keeps account of how long consumers could take messages.
    fn note_able(&mut self, now: Now) {
        match (self.holders.any_able(), self.able_since_ms) {
            (true, None) => self.able_since_ms = Some(now.monotonic_ms),
            (false, Some(since)) => {
                self.able_ms += now.monotonic_ms.saturating_sub(since);
                self.able_since_ms = None;
            }
            _ => {}
        }
    }

    // --- Looking --------------------------------------------------------------------------------------------------------------

    /// How the queue stands.
    #[must_use]
    pub fn counts(&self, now: Now) -> Counts {
        let able_now = self
            .able_since_ms
            .map_or(0, |since| now.monotonic_ms.saturating_sub(since));
        Counts {
            ready: self.ready,
            ready_bytes: self.ready_bytes,
            unsettled: self.unsettled,
            unsettled_bytes: self.unsettled_bytes,
            leaving: self.lanes.iter().map(|(_, lane)| lane.leaving.len()).sum(),
            damaged: self.lanes.iter().map(|(_, lane)| lane.damaged.len()).sum(),
            consumers: self.holders.attached(),
            active: self.active,
            able_ms: self.able_ms + able_now,
        }
    }

    /// What the queue has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The attached consumers, in no order.
    pub fn consumers(&self) -> impl Iterator<Item = ConsumerView> {
        self.holders.iter().filter_map(|(id, holder)| {
            Some(ConsumerView {
                consumer: holder.consumer?,
                active: !self.settings.single_active || self.active == Some(id),
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

    /// The ready messages of a lane from `index` on, as ranges: for looking at a queue without taking from it.
    pub fn ready_from(&self, lane: u8, index: u64) -> impl Iterator<Item = Range<u64>> {
        self.lanes
            .get(lane)
            .into_iter()
            .flat_map(move |lane| lane.ready.within(index..u64::MAX))
    }

    /// How often a message that has not left came back, counted.
    #[must_use]
    pub fn delivery_count(&self, position: Position) -> Option<u32> {
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
        });
        State {
            lanes: lanes.collect(),
        }
    }
}

const _: () = assert!(QUORUM_LANE_MAX <= limits::PRIORITY_MAX);
