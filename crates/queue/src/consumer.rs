//! Who takes messages, what each holds, and whose turn it is.

use crate::runs::RunMap;
use hashbrown::HashMap;
use leveret_types::ConsumerId;
use std::collections::VecDeque;

/// A consumer as it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its id: never used before in this queue.
    pub id: ConsumerId,
    /// Its priority: while a consumer of a higher one can take a message, those of a lower one get none.
    pub priority: i64,
    /// Whether it must be the only one.
    pub exclusive: bool,
    /// Whether messages are settled by being sent to it.
    pub no_ack: bool,
    /// How many messages it may hold unsettled; 0 is no bound. Without meaning for a `no_ack` consumer.
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
    /// When it was delivered, monotonic, to the second; 0 where no timeout applies, so that intervals merge.
    pub(crate) since_ms: u64,
}

/// Somebody who holds messages, or may.
#[derive(Debug)]
pub(crate) struct Holder {
    /// What it is attached as; `None` for who only gets, and after a cancel.
    pub(crate) consumer: Option<Consumer>,
    /// Consumers are activated in this order within a priority.
    pub(crate) order: u64,
    /// What it holds, by lane; a lane stays once it is there.
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

impl Holder {
    pub(crate) const fn new(consumer: Option<Consumer>, order: u64) -> Self {
        Self {
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

    /// What it holds of a lane.
    pub(crate) fn lane(&mut self, lane: u8) -> Option<&mut RunMap<Held>> {
        self.held
            .iter_mut()
            .find(|(number, _)| *number == lane)
            .map(|(_, held)| held)
    }

    pub(crate) fn hold(&mut self, lane: u8, index: u64, held: Held) {
        self.held_count += 1;
        let runs = match self.held.iter().position(|(number, _)| *number == lane) {
            Some(at) => &mut self.held[at].1,
            None => {
                self.held.push((lane, RunMap::default()));
                let last = self.held.len() - 1;
                &mut self.held[last].1
            }
        };
        runs.insert(index..index + 1, held);
    }

    /// Whether its prefetch leaves room for one more.
    fn has_credit(&self) -> bool {
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

/// All holders, and the consumers among them that can take a message, by priority and turn.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    map: HashMap<ConsumerId, Holder, foldhash::fast::FixedState>,
    /// Highest priority first. An empty group stays until a consumer leaves: most are empty for a moment only.
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
    turn: VecDeque<ConsumerId>,
}

impl Holders {
    pub(crate) fn get(&self, id: ConsumerId) -> Option<&Holder> {
        self.map.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Holder> {
        self.map.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &Holder)> {
        self.map.iter().map(|(id, holder)| (*id, holder))
    }

    /// Attached consumers.
    pub(crate) const fn attached(&self) -> usize {
        self.attached
    }

    /// Whether any consumer can take a message.
    pub(crate) const fn any_able(&self) -> bool {
        self.able > 0
    }

    pub(crate) fn attach(&mut self, consumer: Consumer) {
        self.next_order += 1;
        self.attached += 1;
        let before = self
            .map
            .insert(consumer.id, Holder::new(Some(consumer), self.next_order));
        assert!(
            before.is_none(),
            "consumer {} is attached twice",
            consumer.id
        );
    }

    /// The holder of that id, made for a `get` if it is not there.
    pub(crate) fn getter(&mut self, id: ConsumerId) -> &mut Holder {
        self.map.entry(id).or_insert_with(|| Holder::new(None, 0))
    }

    /// Makes a consumer a mere holder of what it has; false if it is no consumer.
    pub(crate) fn cancel(&mut self, id: ConsumerId) -> bool {
        self.leave_ring(id);
        let Some(holder) = self.map.get_mut(&id).filter(|h| h.consumer.is_some()) else {
            return false;
        };
        holder.consumer = None;
        self.attached -= 1;
        // Priorities are the clients' choice: groups must not pile up.
        self.ring.retain(|group| !group.turn.is_empty());
        true
    }

    /// Takes a holder away if it is no consumer and holds nothing.
    pub(crate) fn drop_if_done(&mut self, id: ConsumerId) {
        if self
            .map
            .get(&id)
            .is_some_and(|h| h.consumer.is_none() && h.held_count == 0)
        {
            self.map.remove(&id);
        }
    }

    /// Takes a holder away with what it holds, and says whether it was a consumer.
    pub(crate) fn remove(&mut self, id: ConsumerId) -> Option<(Holder, bool)> {
        let was_consumer = self.cancel(id);
        Some((self.map.remove(&id)?, was_consumer))
    }

    /// Puts a consumer at the end of its group's turn, if it can take a message and is not there.
    pub(crate) fn enter_ring(&mut self, id: ConsumerId) {
        let Some(holder) = self.map.get_mut(&id) else {
            return;
        };
        let Some(consumer) = holder.consumer else {
            return;
        };
        if holder.queued || holder.blocked || holder.timed_out || !holder.has_credit() {
            return;
        }
        holder.queued = true;
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
        self.ring[at].turn.push_back(id);
    }

    /// Takes a consumer out of the ring, if it is there.
    pub(crate) fn leave_ring(&mut self, id: ConsumerId) {
        let Some(holder) = self.map.get_mut(&id).filter(|h| h.queued) else {
            return;
        };
        holder.queued = false;
        self.able -= 1;
        for group in &mut self.ring {
            group.turn.retain(|queued| *queued != id);
        }
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<ConsumerId> {
        self.ring
            .iter()
            .find_map(|group| group.turn.front().copied())
    }

    /// The first of the ring cannot take a message after all.
    pub(crate) fn block_first(&mut self, id: ConsumerId) {
        self.pop_first(id);
        if let Some(holder) = self.map.get_mut(&id) {
            holder.blocked = true;
            holder.queued = false;
            self.able -= 1;
        }
    }

    /// The first of the ring gets a message: `hand_over` puts it into the holder's hands, and the turn passes on.
    pub(crate) fn serve_first(&mut self, id: ConsumerId, hand_over: impl FnOnce(&mut Holder)) {
        let group = self.pop_first(id);
        let Some(holder) = self.map.get_mut(&id) else {
            panic!("consumer {id} is in the ring and not attached")
        };
        hand_over(holder);
        if holder.has_credit() {
            self.ring[group].turn.push_back(id);
        } else {
            holder.queued = false;
            self.able -= 1;
        }
    }

    fn pop_first(&mut self, id: ConsumerId) -> usize {
        let group = self
            .ring
            .iter()
            .position(|group| !group.turn.is_empty())
            .unwrap_or_default();
        let first = self
            .ring
            .get_mut(group)
            .and_then(|group| group.turn.pop_front());
        assert_eq!(first, Some(id), "the first of the ring is another");
        group
    }

    /// Who of the attached consumers comes first: by priority, then by when it was attached.
    pub(crate) fn foremost(&self) -> Option<Consumer> {
        let attached = self
            .map
            .values()
            .filter_map(|h| Some((h.consumer?, h.order)));
        attached
            .max_by_key(|(c, order)| (c.priority, std::cmp::Reverse(*order)))
            .map(|(c, _)| c)
    }
}
