//! Who takes messages, what each holds, and whose turn it is.

use crate::runs::RunMap;
use hashbrown::HashMap;
use leveret_types::ConsumerId;
use std::collections::VecDeque;
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
pub(crate) struct Held {
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
    pub(crate) held: Vec<(u8, RunMap<Held>)>,
    pub(crate) held_count: u64,
    /// Its consumer timeout in force when it last took a message.
    pub(crate) timeout_ms: Option<u64>,
    /// Whether [`crate::Log::admit`] refused it.
    pub(crate) blocked: bool,
    /// Whether it is in the ring.
    pub(crate) queued: bool,
    /// Whether its timeout has been told.
    pub(crate) timed_out: bool,
}

impl Subscription {
    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let held = self.held.iter().map(|(_, held)| held.memory_bytes());
        size_of::<Self>()
            + self.held.capacity() * size_of::<(u8, RunMap<Held>)>()
            + held.sum::<usize>()
    }
}

impl Subscription {
    const fn new(id: ConsumerId, consumer: Option<Consumer>, order: u64) -> Self {
        Self {
            id,
            consumer,
            order,
            held: Vec::new(),
            held_count: 0,
            timeout_ms: None,
            blocked: false,
            queued: false,
            timed_out: false,
        }
    }

    /// What it holds of a priority log.
    pub(crate) fn priority_log(&mut self, priority_log: u8) -> Option<&mut RunMap<Held>> {
        self.held
            .iter_mut()
            .find(|(number, _)| *number == priority_log)
            .map(|(_, held)| held)
    }

    pub(crate) fn hold(&mut self, priority_log: u8, index: u64, held: Held) {
        self.hold_range(priority_log, index..index + 1, held);
    }

    pub(crate) fn hold_range(&mut self, priority_log: u8, range: Range<u64>, held: Held) {
        self.held_count += range.end - range.start;
        let runs = match self
            .held
            .iter()
            .position(|(number, _)| *number == priority_log)
        {
            Some(at) => &mut self.held[at].1,
            None => {
                self.held.push((priority_log, RunMap::default()));
                let last = self.held.len() - 1;
                &mut self.held[last].1
            }
        };
        runs.insert(range, held);
    }

    /// Whether its prefetch leaves room for one more.
    pub(crate) fn has_credit(&self) -> bool {
        self.consumer
            .is_some_and(|c| c.no_ack || c.prefetch == 0 || self.held_count < u64::from(c.prefetch))
    }

    /// When the oldest delivery that a timeout applies to was made.
    pub(crate) fn oldest_ms(&self) -> Option<u64> {
        let held = self.held.iter().flat_map(|(_, runs)| runs.iter());
        held.map(|(_, held)| held.since_ms)
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
    /// Highest priority first. An empty group stays until a consumer leaves: most are empty for a
    /// moment only.
    ring: Vec<Group>,
    /// Consumers in the ring.
    able: usize,
    /// Attached consumers.
    attached: usize,
    next_order: u64,
}

#[derive(Debug)]
struct Group {
    priority: i64,
    turn: VecDeque<Slot>,
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
    pub(crate) const fn attached(&self) -> usize {
        self.attached
    }

    /// Whether any consumer can take a message.
    pub(crate) const fn any_able(&self) -> bool {
        self.able > 0
    }

    fn add(&mut self, subscription: Subscription) -> Slot {
        let id = subscription.id;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(subscription);
        let before = self.by_id.insert(id, slot);
        assert!(before.is_none(), "{id} is there already");
        slot
    }

    pub(crate) fn attach(&mut self, consumer: Consumer) -> Slot {
        self.next_order += 1;
        self.attached += 1;
        self.add(Subscription::new(
            consumer.id,
            Some(consumer),
            self.next_order,
        ))
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
        let was_consumer = self.get_mut(slot).consumer.take().is_some();
        if was_consumer {
            self.attached -= 1;
            // Priorities are the clients' choice: groups must not pile up.
            self.ring.retain(|group| !group.turn.is_empty());
        }
        was_consumer
    }

    /// Takes a subscription away if it is no consumer and holds nothing.
    pub(crate) fn drop_if_done(&mut self, slot: Slot) {
        let subscription = self.get(slot);
        if subscription.consumer.is_none() && subscription.held_count == 0 {
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
        let at = self
            .ring
            .partition_point(|group| group.priority > consumer.priority);
        if self
            .ring
            .get(at)
            .is_none_or(|group| group.priority != consumer.priority)
        {
            self.ring.insert(
                at,
                Group {
                    priority: consumer.priority,
                    turn: VecDeque::new(),
                },
            );
        }
        self.ring[at].turn.push_back(slot);
    }

    /// Takes a consumer out of the ring, if it is there.
    pub(crate) fn leave_ring(&mut self, slot: Slot) {
        let subscription = self.get_mut(slot);
        if !std::mem::take(&mut subscription.queued) {
            return;
        }
        self.able -= 1;
        for group in &mut self.ring {
            group.turn.retain(|queued| *queued != slot);
        }
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.ring
            .iter()
            .find_map(|group| group.turn.front().copied())
    }

    /// The first of the ring cannot take a message after all.
    pub(crate) fn block_first(&mut self, slot: Slot) {
        self.turn_of(slot).pop_front();
        self.able -= 1;
        let subscription = self.get_mut(slot);
        subscription.blocked = true;
        subscription.queued = false;
    }

    /// The first of the ring was given a message: the turn passes on.
    pub(crate) fn first_served(&mut self, slot: Slot) {
        let subscription = self.get_mut(slot);
        subscription.queued = subscription.has_credit();
        let stays = subscription.queued;
        let turn = self.turn_of(slot);
        match stays {
            true if turn.len() == 1 => {}
            true => turn.rotate_left(1),
            false => {
                turn.pop_front();
                self.able -= 1;
            }
        }
    }

    /// The turn that `slot` is the first of.
    fn turn_of(&mut self, slot: Slot) -> &mut VecDeque<Slot> {
        let first = self.ring.iter_mut().find(|group| !group.turn.is_empty());
        match first.filter(|group| group.turn.front() == Some(&slot)) {
            Some(group) => &mut group.turn,
            None => panic!("it is not the turn of slot {slot}"),
        }
    }

    /// Who of the attached consumers comes first: by priority, then by when it was attached.
    pub(crate) fn foremost(&self) -> Option<(Slot, Consumer)> {
        let attached = self
            .iter()
            .filter_map(|(slot, h)| Some((slot, h.consumer?, h.order)));
        attached
            .max_by_key(|(_, consumer, order)| (consumer.priority, std::cmp::Reverse(*order)))
            .map(|(slot, consumer, _)| (slot, consumer))
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
}
