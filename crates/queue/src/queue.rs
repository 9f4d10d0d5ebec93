//! The queue itself: what callers may do with it, and what follows.

mod leave;
mod pump;
mod time;
mod view;

pub use view::{Counters, Counts};

use crate::consumer::{AttachError, Consumer, Holders, Slot};
use crate::effect::{Effect, Got, Offer, Outcome, Reason};
use crate::lane::Lanes;
use crate::log::{Log, Meta, Position};
use crate::returns::{Delayed, Return, Returns};
use crate::settings::{QueueKind, Settings};
use crate::state::{LaneState, RecoveredLane, State};
use leveret_types::Overflow;
use leveret_types::{ConsumerId, Now};
use std::ops::Range;

/// A queue. See the crate's page for how its calls go together.
#[derive(Debug)]
pub struct Queue {
    kind: QueueKind,
    settings: Settings,
    lanes: Lanes,
    holders: Holders,
    /// Whether the one consumer is exclusive.
    exclusive: bool,
    /// The single active consumer, where the queue has that rule.
    active: Option<Slot>,
    /// The active consumer gets no more, so that one of higher priority can take over once it holds
    /// nothing.
    yielding: bool,
    /// Whether nobody is chosen to be the active consumer for now.
    holds_election: bool,
    ready: u64,
    ready_bytes: u64,
    unsettled: u64,
    unsettled_bytes: u64,
    /// Messages that came back and wait for their time.
    delayed: Delayed,
    /// Messages that are on their way to the queue, and their bytes: taken, not enqueued yet.
    announced: u64,
    announced_bytes: u64,
    /// Whether counts of returns are told as effects.
    tells_returns: bool,
    counters: Counters,
    /// When the queue was last in use, monotonic: its lease of `expires_ms` counts from here.
    used_ms: u64,
    /// Not before this its expiry is told again, monotonic.
    expiry_again_ms: u64,
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

/// Lanes of a quorum queue: `0..=31`, and the one of messages without a priority.
const QUORUM_LANE_MAX: u8 = 31;
const QUORUM_LANE_DEFAULT: u8 = 4;
/// Never, as a deadline.
const NEVER_MS: u64 = u64::MAX;
/// An expiry on the wall clock is looked at again within this time, for that clock may jump.
const WALL_CHECK_MS_MAX: u64 = 3_600_000;
/// An expired queue that nobody has deleted is told again after this time.
const EXPIRY_AGAIN_MS: u64 = 5_000;
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
            exclusive: false,
            active: None,
            yielding: false,
            holds_election: false,
            ready: 0,
            ready_bytes: 0,
            unsettled: 0,
            unsettled_bytes: 0,
            delayed: Delayed::default(),
            announced: 0,
            announced_bytes: 0,
            tells_returns: false,
            counters: Counters::default(),
            used_ms: now.monotonic_ms,
            expiry_again_ms: 0,
            head_expiry_ms: NEVER_MS,
            timeout_at_ms: NEVER_MS,
            able_since_ms: None,
            able_ms: 0,
            settled: None,
            taken: Vec::new(),
        }
    }

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
            self.lanes.held(number).leaving.insert(range, bytes);
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

    /// A policy has changed. Limits and times to live apply to what is there at the next pump; the
    /// consumer timeout to deliveries made from now on.
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

    /// The lane of a message of that priority.
    #[must_use]
    pub fn lane_for(&self, priority: Option<u8>) -> u8 {
        match self.kind {
            QueueKind::Classic => priority.unwrap_or(0).min(self.settings.priority_max),
            QueueKind::Quorum => priority.unwrap_or(QUORUM_LANE_DEFAULT).min(QUORUM_LANE_MAX),
        }
    }

    /// From now on what comes back is told as [`Effect::Returned`]: for a queue whose counts are
    /// kept by somebody else.
    pub const fn tell_returns(&mut self) {
        self.tells_returns = true;
    }

    /// A message of that size was taken and will be enqueued, or given up with
    /// [`Self::withdraw`]: [`Self::offer`] counts it.
    pub fn announce(&mut self, bytes: u32) {
        self.announced += 1;
        self.announced_bytes += u64::from(bytes);
    }

    /// A message that was announced is not on its way any more: it is enqueued now, or given up.
    pub fn withdraw(&mut self, bytes: u32) {
        assert!(self.announced > 0, "nothing was announced");
        self.announced -= 1;
        self.announced_bytes -= u64::from(bytes);
    }

    /// Whether the queue takes a message of that size. To be asked before it is appended to the
    /// log. What was enqueued before in the same batch and can be delivered does not count against
    /// it.
    pub fn offer(
        &mut self,
        now: Now,
        bytes: u32,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Offer {
        let fits = |queue: &Self| {
            !queue.would_exceed(
                1 + queue.announced,
                queue.announced_bytes + u64::from(bytes),
            )
        };
        if self.settings.overflow == Overflow::DropHead || fits(self) {
            return Offer::Take;
        }
        self.pump(now, log, out);
        match !fits(self) {
            false => Offer::Take,
            true => {
                let dlx = self.settings.overflow == Overflow::RejectPublishDlx;
                Offer::Reject {
                    dead_letter: dlx && self.settings.dead_letter,
                }
            }
        }
    }

    fn would_exceed(&self, messages: u64, bytes: u64) -> bool {
        let length = self.settings.length_max;
        let length_bytes = self.settings.length_bytes_max;
        length.is_some_and(|max| self.ready + messages > max)
            || length_bytes.is_some_and(|max| self.ready_bytes + bytes > max)
    }

    /// A message has been appended to the log. Indexes ascend within a lane.
    pub fn enqueue(&mut self, position: Position, meta: &Meta) {
        let in_motion = self.ready > 0 || self.unsettled > 0;
        let lane = self.lanes.open(position.lane);
        assert!(
            position.index >= lane.next_index,
            "{position:?} comes after index {}",
            lane.next_index
        );
        lane.next_index = position.index + 1;
        // Once all is gone that may have a time to live, heads need not be looked at any more.
        let others = in_motion || !lane.leaving.is_empty() || !lane.damaged.is_empty();
        lane.may_expire = meta.expiration_ms.is_some() || (lane.may_expire && others);
        lane.ready.insert(position.index);
        lane.ready_bytes += u64::from(meta.bytes);
        self.lanes.occupy(position.lane);
        self.ready += 1;
        self.ready_bytes += u64::from(meta.bytes);
        self.counters.enqueued += 1;
    }

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
        if self.exclusive || (consumer.exclusive && self.holders.attached() > 0) {
            return Err(AttachError::ExclusiveTaken);
        }
        self.exclusive = consumer.exclusive;
        let slot = self.holders.attach(consumer);
        self.touch(now);
        if self.settings.single_active {
            self.elect(out);
        } else {
            self.holders.enter_ring(slot);
        }
        self.note_able(now);
        Ok(())
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

    /// Whether it knows this holder: a consumer, or one that holds messages.
    #[must_use]
    pub fn holds(&self, holder: ConsumerId) -> bool {
        self.holders.find(holder).is_some()
    }

    /// Stops delivering to a consumer. It keeps what it holds, and may settle that. False if it is
    /// no consumer.
    pub fn cancel(&mut self, now: Now, consumer: ConsumerId, out: &mut Vec<Effect>) -> bool {
        let Some(slot) = self.holders.find(consumer) else {
            return false;
        };
        let cancelled = self.holders.cancel(slot);
        if cancelled {
            self.consumer_left(now, slot, out);
            self.holders.drop_if_done(slot);
        }
        cancelled
    }

    /// A holder's channel is gone: what it holds returns, counted towards the delivery limit,
    /// unless it goes because it was too slow ([`Effect::TimedOut`]). Says how many messages that
    /// were.
    pub fn detach(&mut self, now: Now, holder: ConsumerId, out: &mut Vec<Effect>) -> u64 {
        let slot = self.holders.find(holder);
        let outcome = match slot.is_some_and(|slot| self.holders.get(slot).timed_out) {
            true => Outcome::Release,
            false => Outcome::Requeue { count: true },
        };
        self.take_away(now, holder, outcome, out)
    }

    /// A holder is not known any more for no fault of its own: what it holds returns, uncounted.
    /// Says how many messages that were.
    pub fn forget(&mut self, now: Now, holder: ConsumerId, out: &mut Vec<Effect>) -> u64 {
        self.take_away(now, holder, Outcome::Release, out)
    }

    fn take_away(
        &mut self,
        now: Now,
        holder: ConsumerId,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let Some(slot) = self.holders.find(holder) else {
            return 0;
        };
        let (gone, was_consumer) = self.holders.remove(slot);
        for (lane, held) in &gone.held {
            for (range, held) in held.iter() {
                self.release(now, *lane, range, held.bytes, outcome, out);
            }
        }
        if was_consumer {
            self.consumer_left(now, slot, out);
        }
        self.flush(out);
        gone.held_count
    }

    fn consumer_left(&mut self, now: Now, slot: Slot, out: &mut Vec<Effect>) {
        self.touch(now);
        // An exclusive consumer is the only one, so it is the one that left.
        self.exclusive = false;
        if self.active == Some(slot) {
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
        if let Some(slot) = self.holders.find(consumer) {
            self.holders.get_mut(slot).blocked = false;
            self.enter(slot);
            self.note_able(now);
        }
    }

    /// Lets a consumer take its turn, if the rule of the single active consumer allows.
    fn enter(&mut self, slot: Slot) {
        let allowed = !self.settings.single_active || (self.active == Some(slot) && !self.yielding);
        if allowed {
            self.holders.enter_ring(slot);
        }
    }

    /// From now on the place of a single active consumer that goes is left free, until
    /// [`Self::resume_election`]: for consumers that come again, or have not all come yet.
    pub const fn hold_election(&mut self) {
        self.holds_election = true;
    }

    /// The end of that. If the place is free, it goes to `before` rather than to another; that is
    /// told as if it were new.
    pub fn resume_election(&mut self, now: Now, before: Option<ConsumerId>, out: &mut Vec<Effect>) {
        let held = std::mem::take(&mut self.holds_election);
        if !held || !self.settings.single_active {
            return;
        }
        let before = before.filter(|_| self.active.is_none());
        let found = before.and_then(|id| Some((id, self.holders.find(id)?)));
        if let Some((consumer, slot)) = found
            && self.holders.get(slot).consumer.is_some()
        {
            self.active = Some(slot);
            out.push(Effect::Activate { consumer });
        }
        self.elect(out);
        self.note_able(now);
    }

    /// Chooses the single active consumer. A classic queue keeps the one that it has; a quorum
    /// queue gives way to a higher priority, as soon as the active one holds nothing.
    fn elect(&mut self, out: &mut Vec<Effect>) {
        if self.holds_election {
            return;
        }
        let Some((first, foremost)) = self.holders.foremost() else {
            return;
        };
        if let Some(active) = self.active {
            let holder = self.holders.get(active);
            let (id, holds) = (holder.id, holder.held_count > 0);
            let outranked = holder
                .consumer
                .is_some_and(|c| c.priority < foremost.priority);
            self.yielding = outranked && self.kind == QueueKind::Quorum;
            if !self.yielding {
                self.holders.enter_ring(active);
                return;
            }
            self.holders.leave_ring(active);
            if holds {
                return;
            }
            out.push(Effect::Deactivate { consumer: id });
        }
        self.active = Some(first);
        self.yielding = false;
        self.holders.enter_ring(first);
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
        let Some(slot) = self.holders.find(holder) else {
            return 0;
        };
        let found = self.holders.get_mut(slot);
        let Some(held) = found.lane(lane) else {
            return 0;
        };
        let mut taken = std::mem::take(&mut self.taken);
        let count = held.remove(range, |range, held| taken.push((range, held.bytes)));
        found.held_count -= count;
        let holds_nothing = found.held_count == 0;
        for (range, bytes) in taken.drain(..) {
            self.release(now, lane, range, bytes, outcome, out);
        }
        self.keep(taken);
        self.flush(out);
        if count > 0 {
            self.enter(slot);
            if holds_nothing {
                if self.yielding && self.active == Some(slot) {
                    self.elect(out);
                }
                self.holders.drop_if_done(slot);
            }
            self.note_able(now);
        }
        count
    }

    /// Messages that a holder had, of `bytes` each, go where `outcome` says.
    fn release(
        &mut self,
        now: Now,
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
            Outcome::Requeue { .. } | Outcome::Release => {
                self.counters.requeued += count;
                match (self.kind, return_of(outcome)) {
                    (QueueKind::Quorum, Some(how)) => {
                        self.requeue_counted(now, lane, range, bytes, how, out);
                    }
                    _ => self.requeue(lane, range, bytes),
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
        self.lanes
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
                    lane: number,
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
    /// who must write that down before it happens. Says it of what the holder really holds.
    pub fn foresee(
        &self,
        now: Now,
        holder: ConsumerId,
        number: u8,
        range: &Range<u64>,
        outcome: Outcome,
        mut told: impl FnMut(Range<u64>, Returns),
    ) {
        let (Some(slot), Some(how)) = (self.holders.find(holder), return_of(outcome)) else {
            return;
        };
        let Some(lane) = self
            .lanes
            .get(number)
            .filter(|_| self.kind == QueueKind::Quorum)
        else {
            return;
        };
        let settings = &self.settings;
        let held = self.holders.get(slot).held.iter();
        for (run, _) in held
            .filter(|(of, _)| *of == number)
            .flat_map(|(_, runs)| runs.iter())
        {
            let part = run.start.max(range.start)..run.end.min(range.end);
            for (piece, before) in lane.returns.pieces(part) {
                told(piece, Returns::after(before, how, settings, now.wall_ms));
            }
        }
    }

    /// Makes ready what has waited for its time.
    fn release_due(&mut self, now: Now) {
        while let Some((lane, range, bytes)) = self.delayed.pop_due(now.wall_ms) {
            self.requeue(lane, range, bytes);
        }
    }

    /// Takes the next message out, for a client that asked for it. Pumps first: consumers that wait
    /// go before.
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
