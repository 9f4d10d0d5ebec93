//! Consumers, their unsettled messages, and the order of their turns.

use crate::runs::RunMap;
use hashbrown::HashMap;
use leveret_types::ConsumerId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A consumer as it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its id: never used before in this queue.
    pub id: ConsumerId,
    /// Its priority: while a consumer of a higher one can take a message, those of a lower one get
    /// none.
    pub priority: i64,
    /// Whether it must be the only one.
    pub exclusive: bool,
    /// Whether messages are settled by being sent to it.
    pub no_ack: bool,
    /// How many messages it may hold unsettled; 0 is no bound. Without meaning for a `no_ack`
    /// consumer.
    pub prefetch: u32,
    /// Its own consumer timeout in milliseconds, in place of the queue's.
    pub timeout_ms: Option<u64>,
}

/// Why a consumer cannot be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is an exclusive consumer, or this one would be exclusive and there are others.
    #[error("the queue is in exclusive use")]
    ExclusiveTaken,
    /// A queue with a single active consumer takes no exclusive ones.
    #[error("exclusive consumers do not go with a single active consumer")]
    ExclusiveOnSingleActive,
}

/// A consumer as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerView {
    /// As it was attached.
    pub consumer: Consumer,
    /// Whether it may get messages: always, unless another is the single active one.
    pub active: bool,
    /// Whether it waits for [`crate::Queue::unblock`].
    pub blocked: bool,
    /// Messages that it holds.
    pub unsettled: u64,
}

/// What is kept of a message that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsettled {
    pub(crate) bytes: u32,
    /// When it was delivered, monotonic, to the second; 0 where no timeout applies, so that
    /// intervals merge.
    pub(crate) since_ms: u64,
}

/// Somebody who holds messages, or may.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) id: ConsumerId,
    /// What it is attached as; `None` for who only gets, and after a cancel.
    pub(crate) consumer: Option<Consumer>,
    /// Consumers are activated in this order within a priority.
    pub(crate) order: u64,
    /// What it holds, by priority log; a priority log stays once it is there.
    pub(crate) unsettled_messages: Vec<(u8, RunMap<Unsettled>)>,
    pub(crate) unsettled_count: u64,
    /// Its consumer timeout in force when it last took a message.
    pub(crate) timeout_ms: Option<u64>,
    /// Whether [`crate::Log::admit`] refused it.
    pub(crate) blocked: bool,
    /// Whether it is in the ring.
    pub(crate) queued: bool,
    /// Whether its timeout has been told.
    pub(crate) timed_out: bool,
    /// Whose turn is before its own and after it, in the ring.
    before: Option<Slot>,
    after: Option<Slot>,
}

impl Subscription {
    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let unsettled_messages = self
            .unsettled_messages
            .iter()
            .map(|(_, unsettled_messages)| unsettled_messages.memory_bytes());
        size_of::<Self>()
            + self.unsettled_messages.capacity() * size_of::<(u8, RunMap<Unsettled>)>()
            + unsettled_messages.sum::<usize>()
    }
}

impl Subscription {
    const fn new(id: ConsumerId, consumer: Option<Consumer>, order: u64) -> Self {
        Self {
            id,
            consumer,
            order,
            unsettled_messages: Vec::new(),
            unsettled_count: 0,
            timeout_ms: None,
            blocked: false,
            queued: false,
            timed_out: false,
            before: None,
            after: None,
        }
    }

    /// What it holds of a priority log.
    pub(crate) fn priority_log(&mut self, priority_log: u8) -> Option<&mut RunMap<Unsettled>> {
        self.unsettled_messages
            .iter_mut()
            .find(|(number, _)| *number == priority_log)
            .map(|(_, unsettled_messages)| unsettled_messages)
    }

    pub(crate) fn hold(&mut self, priority_log: u8, index: u64, unsettled_messages: Unsettled) {
        self.hold_range(priority_log, index..index + 1, unsettled_messages);
    }

    pub(crate) fn hold_range(
        &mut self,
        priority_log: u8,
        range: Range<u64>,
        unsettled_messages: Unsettled,
    ) {
        self.unsettled_count += range.end - range.start;
        let runs = match self
            .unsettled_messages
            .iter()
            .position(|(number, _)| *number == priority_log)
        {
            Some(at) => &mut self.unsettled_messages[at].1,
            None => {
                self.unsettled_messages
                    .push((priority_log, RunMap::default()));
                let last = self.unsettled_messages.len() - 1;
                &mut self.unsettled_messages[last].1
            }
        };
        runs.insert(range, unsettled_messages);
    }

    /// Whether its prefetch leaves room for one more.
    pub(crate) fn has_credit(&self) -> bool {
        self.consumer.is_some_and(|c| {
            c.no_ack || c.prefetch == 0 || self.unsettled_count < u64::from(c.prefetch)
        })
    }

    /// When the oldest delivery that a timeout applies to was made.
    pub(crate) fn oldest_ms(&self) -> Option<u64> {
        let unsettled_messages = self
            .unsettled_messages
            .iter()
            .flat_map(|(_, runs)| runs.iter());
        unsettled_messages
            .map(|(_, unsettled_messages)| unsettled_messages.since_ms)
            .filter(|since| *since > 0)
            .min()
    }
}

/// Where a subscription is kept. Deliveries go by it; only what comes from outside is looked up by
/// id.
pub(crate) type Slot = usize;

/// All subscriptions, and the consumers among them that can take a message, by priority and turn.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    slots: Vec<Option<Subscription>>,
    free: Vec<Slot>,
    by_id: HashMap<ConsumerId, Slot, foldhash::fast::FixedState>,
    /// The highest priority first; none without a consumer that can take a message.
    ring: BTreeMap<Reverse<i64>, Turn>,
    /// Consumers in the ring.
    able: usize,
    /// Attached consumers, whoever comes first before others: by priority, then by when they were
    /// attached.
    attached: BTreeSet<(Reverse<i64>, u64, Slot)>,
    next_order: u64,
}

/// The consumers of one priority that can take a message, in turn: from one to the next through
/// what is kept of each, so that any may leave without a look at the others.
#[derive(Clone, Copy, Debug)]
struct Turn {
    first: Slot,
    last: Slot,
}

impl Subscriptions {
    pub(crate) fn find(&self, id: ConsumerId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, slot: Slot) -> &Subscription {
        match &self.slots[slot] {
            Some(subscription) => subscription,
            None => panic!("slot {slot} is free"),
        }
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Subscription {
        match &mut self.slots[slot] {
            Some(subscription) => subscription,
            None => panic!("slot {slot} is free"),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Subscription)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, subscription)| Some((slot, subscription.as_ref()?)))
    }

    /// Attached consumers.
    pub(crate) fn attached(&self) -> usize {
        self.attached.len()
    }

    /// Whether any consumer can take a message.
    pub(crate) const fn any_able(&self) -> bool {
        self.able > 0
    }

    fn add(&mut self, subscription: Subscription) -> Slot {
        let id = subscription.id;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            if self.slots.capacity() == 0 {
                // Of very many queues most have one consumer; a vector begins with four places.
                self.slots.reserve_exact(1);
            }
            self.slots.push(None);
        }
        self.slots[slot] = Some(subscription);
        let before = self.by_id.insert(id, slot);
        assert!(before.is_none(), "{id} is there already");
        slot
    }

    pub(crate) fn attach(&mut self, consumer: Consumer) -> Slot {
        self.next_order += 1;
        let order = self.next_order;
        let slot = self.add(Subscription::new(consumer.id, Some(consumer), order));
        self.attached
            .insert((Reverse(consumer.priority), order, slot));
        slot
    }

    /// The subscription of that id, made for a `get` if it is not there.
    pub(crate) fn getter(&mut self, id: ConsumerId) -> &mut Subscription {
        let slot = self.getter_slot(id);
        self.get_mut(slot)
    }

    /// Where the subscription of that id is kept, made for a `get` if it is not there.
    pub(crate) fn getter_slot(&mut self, id: ConsumerId) -> Slot {
        self.find(id)
            .unwrap_or_else(|| self.add(Subscription::new(id, None, 0)))
    }

    /// Makes a consumer a mere subscription of what it has; false if it is no consumer.
    pub(crate) fn cancel(&mut self, slot: Slot) -> bool {
        self.leave_ring(slot);
        let subscription = self.get_mut(slot);
        let order = subscription.order;
        let Some(consumer) = subscription.consumer.take() else {
            return false;
        };
        self.attached
            .remove(&(Reverse(consumer.priority), order, slot));
        true
    }

    /// Takes a subscription away if it is no consumer and holds nothing.
    pub(crate) fn drop_if_done(&mut self, slot: Slot) {
        let subscription = self.get(slot);
        if subscription.consumer.is_none() && subscription.unsettled_count == 0 {
            self.remove(slot);
        }
    }

    /// Takes a subscription away with what it holds, and says whether it was a consumer.
    pub(crate) fn remove(&mut self, slot: Slot) -> (Subscription, bool) {
        let was_consumer = self.cancel(slot);
        let Some(subscription) = self.slots[slot].take() else {
            panic!("slot {slot} is free")
        };
        self.by_id.remove(&subscription.id);
        self.free.push(slot);
        (subscription, was_consumer)
    }

    /// Puts a consumer at the end of its group's turn, if it can take a message and is not there.
    pub(crate) fn enter_ring(&mut self, slot: Slot) {
        let subscription = self.get_mut(slot);
        let Some(consumer) = subscription.consumer else {
            return;
        };
        if subscription.queued
            || subscription.blocked
            || subscription.timed_out
            || !subscription.has_credit()
        {
            return;
        }
        subscription.queued = true;
        self.able += 1;
        self.link_last(consumer.priority, slot);
    }

    /// Takes a consumer out of the ring, if it is there.
    pub(crate) fn leave_ring(&mut self, slot: Slot) {
        let subscription = self.get_mut(slot);
        if std::mem::take(&mut subscription.queued) {
            self.able -= 1;
            self.unlink(slot);
        }
    }

    /// Puts a consumer behind the last of its priority.
    fn link_last(&mut self, priority: i64, slot: Slot) {
        let alone = Turn {
            first: slot,
            last: slot,
        };
        let mut before = None;
        self.ring
            .entry(Reverse(priority))
            .and_modify(|turn| before = Some(std::mem::replace(&mut turn.last, slot)))
            .or_insert(alone);
        self.get_mut(slot).before = before;
        if let Some(before) = before {
            self.get_mut(before).after = Some(slot);
        }
    }

    /// Takes a consumer out from between its neighbours.
    fn unlink(&mut self, slot: Slot) {
        let subscription = self.get_mut(slot);
        let (before, after) = (subscription.before.take(), subscription.after.take());
        let Some(consumer) = subscription.consumer else {
            panic!("slot {slot} is in the ring and no consumer");
        };
        if let Some(before) = before {
            self.get_mut(before).after = after;
        }
        if let Some(after) = after {
            self.get_mut(after).before = before;
        }
        let priority = Reverse(consumer.priority);
        match (before, after, self.ring.get_mut(&priority)) {
            (None, None, _) => drop(self.ring.remove(&priority)),
            (None, Some(after), Some(turn)) => turn.first = after,
            (Some(before), None, Some(turn)) => turn.last = before,
            _ => {}
        }
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<Slot> {
        let (_, turn) = self.ring.first_key_value()?;
        Some(turn.first)
    }

    /// The first of the ring cannot take a message after all.
    pub(crate) fn block_first(&mut self, slot: Slot) {
        self.expect_first(slot);
        self.get_mut(slot).blocked = true;
        self.leave_ring(slot);
    }

    /// The first of the ring was given a message: the turn passes on.
    pub(crate) fn first_served(&mut self, slot: Slot) {
        self.expect_first(slot);
        let subscription = self.get_mut(slot);
        let is_alone = subscription.after.is_none();
        match (subscription.has_credit(), subscription.consumer) {
            (true, _) if is_alone => {}
            (true, Some(consumer)) => {
                self.unlink(slot);
                self.link_last(consumer.priority, slot);
            }
            _ => self.leave_ring(slot),
        }
    }

    fn expect_first(&self, slot: Slot) {
        assert!(
            self.first() == Some(slot),
            "it is not the turn of slot {slot}"
        );
    }

    /// Who of the attached consumers comes first: by priority, then by when it was attached.
    pub(crate) fn foremost(&self) -> Option<(Slot, Consumer)> {
        let (_, _, slot) = *self.attached.first()?;
        Some((slot, self.get(slot).consumer?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_of_consumers_that_have_gone_leave_nothing() {
        let mut all = Subscriptions::default();
        let attach = |all: &mut Subscriptions, id: u64| {
            let slot = all.attach(Consumer {
                id: ConsumerId(id),
                priority: id as i64,
                exclusive: false,
                no_ack: false,
                prefetch: 0,
                timeout_ms: None,
            });
            all.enter_ring(slot);
            slot
        };
        let stays = attach(&mut all, 0);
        for id in 1..100 {
            let slot = attach(&mut all, id);
            match id % 2 {
                0 => assert!(all.cancel(slot)),
                _ => assert!(all.remove(slot).1),
            }
        }
        assert_eq!(all.ring.len(), 1);
        assert_eq!(all.first(), Some(stays));
    }

    fn consumer(id: u64, priority: i64, prefetch: u32) -> Consumer {
        Consumer {
            id: ConsumerId(id),
            priority,
            exclusive: false,
            no_ack: false,
            prefetch,
            timeout_ms: None,
        }
    }

    #[test]
    fn priorities_whose_consumers_have_no_credit_are_in_nobodys_way() {
        let mut all = Subscriptions::default();
        for id in 0..10_000 {
            let slot = all.attach(consumer(id, id as i64, 1));
            all.enter_ring(slot);
            let unsettled_messages = Unsettled {
                bytes: 1,
                since_ms: 0,
            };
            all.get_mut(slot).hold(0, id, unsettled_messages);
            assert_eq!(all.first(), Some(slot));
            all.first_served(slot);
        }
        assert_eq!((all.ring.len(), all.first()), (0, None));
        let low = all.attach(consumer(10_000, -1, 0));
        all.enter_ring(low);
        all.first_served(low);
        assert_eq!((all.ring.len(), all.first()), (1, Some(low)));
    }

    #[test]
    fn turns_go_round_among_those_who_are_left() {
        let mut all = Subscriptions::default();
        let slots: Vec<Slot> = (0..6)
            .map(|id| {
                let slot = all.attach(consumer(id, 0, 0));
                all.enter_ring(slot);
                slot
            })
            .collect();
        let round = |all: &mut Subscriptions, served: usize| {
            let next = |_| {
                let first = all.first().expect("somebody's turn");
                all.first_served(first);
                all.get(first).id.0
            };
            (0..served).map(next).collect::<Vec<u64>>()
        };
        assert_eq!(round(&mut all, 7), [0, 1, 2, 3, 4, 5, 0]);
        all.leave_ring(slots[3]);
        all.leave_ring(slots[0]);
        assert_eq!(round(&mut all, 5), [1, 2, 4, 5, 1]);
        all.block_first(slots[2]);
        all.enter_ring(slots[0]);
        assert_eq!(round(&mut all, 5), [4, 5, 1, 0, 4]);
        assert_eq!(all.foremost().map(|(slot, _)| slot), Some(slots[0]));
        assert!(all.cancel(slots[0]));
        assert_eq!(all.foremost().map(|(slot, _)| slot), Some(slots[1]));
        for slot in &slots[1..] {
            assert!(all.cancel(*slot));
        }
        assert_eq!((all.attached(), all.able, all.ring.len()), (0, 0, 0));
    }
}
