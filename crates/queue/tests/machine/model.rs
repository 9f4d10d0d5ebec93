//! The queue against a model that keeps a plain list of messages and looks through all of it for
//! every question.

use crate::world::{MessageState, World};
use leveret_queue::{
    Consumer, DelayedRetry, Delivery, Effect, Got, Meta, Outcome, Overflow, Position, QueueKind,
    Reason, Retried, Settings,
};
use leveret_types::{ConsumerId, Now};
use std::collections::BTreeMap;

const SEEDS: u64 = 300;
const STEPS: u64 = 250;

/// A xorshift generator: the test needs numbers, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn maybe(&mut self, bound: u64) -> Option<u64> {
        self.one_in(2).then(|| self.below(bound))
    }
}

struct Message {
    meta: Meta,
    state: MessageState,
    delivered: bool,
    returns: u32,
    acquired: u32,
    ready_ms: u64,
    fresh: bool,
}

struct Taker {
    consumer: Consumer,
    order: u64,
    /// Whose turn comes first; none while it cannot take a message.
    turn: Option<u64>,
    blocked: bool,
}

/// What a step did, with no regard to how effects are grouped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    deliveries: Vec<Delivery>,
    gone: Vec<Position>,
    dead: Vec<(Position, &'static str)>,
    active: Vec<(ConsumerId, bool)>,
}

struct Model {
    kind: QueueKind,
    settings: Settings,
    now: Now,
    messages: BTreeMap<Position, Message>,
    takers: Vec<Taker>,
    active: Option<ConsumerId>,
    room: BTreeMap<ConsumerId, u32>,
    cold: Vec<Position>,
    clock: u64,
    /// The highest index of each priority log that was ever delivered.
    last_delivered: BTreeMap<u8, u64>,
    step: Step,
}

impl Model {
    fn ready(&self) -> Vec<Position> {
        let mut ready: Vec<Position> = self
            .messages
            .iter()
            .filter(|(_, m)| m.state == MessageState::Ready && m.ready_ms <= self.now.wall_ms)
            .map(|(p, _)| *p)
            .collect();
        ready.sort_by_key(|position| (std::cmp::Reverse(position.priority_log), position.index));
        ready
    }

    fn holds(&self, subscription: ConsumerId) -> usize {
        self.messages
            .values()
            .filter(|m| m.state == MessageState::Unsettled(subscription))
            .count()
    }

    fn exceeds(&self, messages: u64, bytes: u64) -> bool {
        let mut counted = self.ready();
        let Settings { overflow, .. } = self.settings;
        if self.settings.dead_letter_at_least_once && overflow != Overflow::DropHead {
            let leaving = self.messages.iter();
            let leaving = leaving.filter(|(_, m)| m.state == MessageState::Leaving);
            counted.extend(leaving.map(|(position, _)| *position));
        }
        let sum: u64 = counted
            .iter()
            .map(|p| u64::from(self.messages[p].meta.bytes))
            .sum();
        self.settings
            .length_max
            .is_some_and(|max| counted.len() as u64 + messages > max)
            || self
                .settings
                .length_bytes_max
                .is_some_and(|max| sum + bytes > max)
    }

    fn expired(&self, position: Position) -> bool {
        let meta = self.messages[&position].meta;
        let ttl = self
            .settings
            .ttl_ms
            .into_iter()
            .chain(meta.expiration_ms)
            .min();
        ttl.is_some_and(|ttl| meta.published_ms + ttl <= self.now.wall_ms)
    }

    fn set(&mut self, position: Position, state: MessageState) {
        self.messages.get_mut(&position).expect("known").state = state;
    }

    fn discard(&mut self, position: Position, reason: Reason) {
        if self.settings.dead_letter {
            self.set(position, MessageState::Leaving);
            self.step.dead.push((position, reason.name()));
        } else {
            self.leave(position);
        }
    }

    fn leave(&mut self, position: Position) {
        self.messages.remove(&position);
        self.step.gone.push(position);
    }

    fn foremost(&self) -> Option<Consumer> {
        let best = self
            .takers
            .iter()
            .max_by_key(|t| (t.consumer.priority, std::cmp::Reverse(t.order)));
        best.map(|taker| taker.consumer)
    }

    /// Who may take messages does not follow from calls but from how things stand.
    fn refresh(&mut self) {
        if self.settings.single_active {
            let attached = |id| {
                self.takers
                    .iter()
                    .find(|t| t.consumer.id == id)
                    .map(|t| t.consumer)
            };
            let active = self.active.and_then(attached);
            let foremost = self.foremost();
            let outranked = active
                .zip(foremost)
                .is_some_and(|(a, f)| a.priority < f.priority);
            let yields = outranked && self.kind == QueueKind::Quorum;
            if active.is_none() || (yields && self.holds(active.expect("some").id) == 0) {
                self.step.active.extend(active.map(|a| (a.id, false)));
                self.step.active.extend(foremost.map(|f| (f.id, true)));
                self.active = foremost.map(|f| f.id);
            }
        }
        let top = self.foremost().map_or(0, |f| f.priority);
        for at in 0..self.takers.len() {
            let Consumer {
                id,
                prefetch,
                no_ack,
                priority,
                ..
            } = self.takers[at].consumer;
            let credit = no_ack || prefetch == 0 || (self.holds(id) as u64) < u64::from(prefetch);
            let yields = self.kind == QueueKind::Quorum && priority < top;
            let chosen = !self.settings.single_active || (self.active == Some(id) && !yields);
            let taker = &mut self.takers[at];
            if !(credit && chosen && !taker.blocked) {
                taker.turn = None;
            } else if taker.turn.is_none() {
                self.clock += 1;
                taker.turn = Some(self.clock);
            }
        }
    }

    fn first_taker(&self) -> Option<usize> {
        let able = (0..self.takers.len()).filter(|at| self.takers[*at].turn.is_some());
        able.min_by_key(|at| {
            (
                std::cmp::Reverse(self.takers[*at].consumer.priority),
                self.takers[*at].turn,
            )
        })
    }

    /// The next message to hand out; expired ones go first.
    fn next(&mut self) -> Option<Position> {
        loop {
            let head = *self.ready().first()?;
            if self.cold.contains(&head) {
                return None;
            }
            if self.messages[&head].fresh || !self.expired(head) {
                return Some(head);
            }
            self.discard(head, Reason::Expired);
        }
    }

    fn hand_over(
        &mut self,
        subscription: ConsumerId,
        position: Position,
        no_ack: bool,
    ) -> Delivery {
        let quorum = self.kind == QueueKind::Quorum;
        let message = self.messages.get_mut(&position).expect("known");
        let delivery = Delivery {
            consumer: subscription,
            position,
            bytes: message.meta.bytes,
            redelivered: message.delivered,
            delivery_count: (message.returns > 0).then_some(message.returns),
            acquired_count: (message.acquired > 0).then_some(message.acquired),
            settled: no_ack,
        };
        if quorum && message.delivered {
            message.acquired = message.acquired.max(1);
        }
        message.delivered = true;
        let last = self
            .last_delivered
            .entry(position.priority_log)
            .or_default();
        *last = position.index.max(*last);
        message.state = MessageState::Unsettled(subscription);
        if no_ack {
            self.leave(position);
        }
        delivery
    }

    fn pump(&mut self) {
        while self.takers.iter().any(|t| t.turn.is_some()) {
            let Some(position) = self.next() else { break };
            let Some(at) = self.first_taker() else { break };
            let Consumer { id, no_ack, .. } = self.takers[at].consumer;
            match self.room.get_mut(&id) {
                Some(0) => {
                    self.takers[at].blocked = true;
                    self.takers[at].turn = None;
                    continue;
                }
                Some(room) => *room -= 1,
                None => {}
            }
            let delivery = self.hand_over(id, position, no_ack);
            self.step.deliveries.push(delivery);
            self.takers[at].turn = None;
            self.refresh();
        }
        self.expire();
        while self.settings.overflow == Overflow::DropHead && self.exceeds(0, 0) {
            let head = *self.ready().first().expect("more than the limit");
            self.discard(head, Reason::MaxLength);
        }
        self.expire();
        self.messages.values_mut().for_each(|m| m.fresh = false);
    }

    fn expire(&mut self) {
        let mut priority_logs: Vec<u8> = self
            .ready()
            .iter()
            .map(|position| position.priority_log)
            .collect();
        priority_logs.dedup();
        for priority_log in priority_logs {
            while let Some(head) = self
                .ready()
                .into_iter()
                .find(|p| p.priority_log == priority_log)
            {
                if self.cold.contains(&head) || !self.expired(head) {
                    break;
                }
                self.discard(head, Reason::Expired);
            }
        }
    }

    fn release(&mut self, position: Position, outcome: Outcome) {
        match outcome {
            Outcome::Accept => self.leave(position),
            Outcome::Reject => self.discard(position, Reason::Rejected),
            Outcome::Requeue { .. } | Outcome::Release => {
                self.set(position, MessageState::Ready);
                let count = outcome == Outcome::Requeue { count: true };
                let quorum = self.kind == QueueKind::Quorum;
                let counted = count && quorum;
                let message = self.messages.get_mut(&position).expect("known");
                message.returns += u32::from(counted);
                message.acquired += u32::from(quorum);
                let returns = message.returns;
                let limit = self.settings.delivery_limit;
                let exceeds = counted && limit.is_some_and(|limit| returns > limit);
                let wait = self.settings.delayed_retry.filter(|retry| {
                    let exempt = match count {
                        true => Retried::Returned,
                        false => Retried::Failed,
                    };
                    quorum && outcome != Outcome::Release && retry.of != exempt && !exceeds
                });
                let wait = wait.map_or(0, |retry| {
                    (retry.min_ms * u64::from(returns.max(1))).min(retry.max_ms)
                });
                message.ready_ms = match wait {
                    0 => 0,
                    wait => self.now.wall_ms + wait,
                };
                if exceeds {
                    self.discard(position, Reason::DeliveryLimit);
                }
            }
        }
    }

    fn unsettled_by(&self, subscription: ConsumerId) -> Vec<Position> {
        let unsettled_messages = self
            .messages
            .iter()
            .filter(|(_, m)| m.state == MessageState::Unsettled(subscription));
        unsettled_messages.map(|(position, _)| *position).collect()
    }
}

/// The queue and the model side by side.
struct Pair {
    world: World,
    model: Model,
    random: Random,
    next_id: u64,
    /// Everyone who ever held a message.
    subscriptions: Vec<ConsumerId>,
    cold_allowed: bool,
}

fn random_settings(random: &mut Random, fixed: Option<&Settings>, cold_allowed: bool) -> Settings {
    let timed = !cold_allowed;
    Settings {
        ttl_ms: random.maybe(60).filter(|_| timed),
        expires_ms: None,
        length_max: random.maybe(12).filter(|_| timed),
        length_bytes_max: random.maybe(60).filter(|_| timed && random.one_in(2)),
        overflow: [
            Overflow::DropHead,
            Overflow::RejectPublish,
            Overflow::RejectPublishDlx,
        ][random.below(3) as usize],
        dead_letter: random.one_in(2),
        dead_letter_at_least_once: random.one_in(2),
        priority_max: fixed.map_or(random.below(4) as u8, |f| f.priority_max),
        single_active: fixed.map_or(random.one_in(4), |f| f.single_active),
        delivery_limit: random.maybe(4).map(|limit| limit as u32),
        consumer_timeout_ms: None,
        delayed_retry: random.one_in(3).then(|| DelayedRetry {
            of: [Retried::All, Retried::Failed, Retried::Returned][random.below(3) as usize],
            min_ms: random.below(30),
            max_ms: random.below(80),
        }),
    }
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let cold_allowed = random.one_in(3);
        let kind = [QueueKind::Classic, QueueKind::Quorum][random.below(2) as usize];
        let settings = random_settings(&mut random, None, cold_allowed);
        let model = Model {
            kind,
            settings: settings.clone(),
            now: Now::both(0),
            messages: BTreeMap::new(),
            takers: Vec::new(),
            active: None,
            room: BTreeMap::new(),
            cold: Vec::new(),
            clock: 0,
            last_delivered: BTreeMap::new(),
            step: Step::default(),
        };
        Self {
            world: World::new(kind, settings),
            model,
            random,
            next_id: 0,
            subscriptions: Vec::new(),
            cold_allowed,
        }
    }

    fn some_subscription(&mut self) -> ConsumerId {
        match self.subscriptions.len() as u64 {
            0 => ConsumerId(u64::MAX),
            n => self.subscriptions[self.random.below(n) as usize],
        }
    }

    fn publish(&mut self) {
        for _ in 0..=self.random.below(4) {
            let meta = Meta {
                bytes: self.random.below(12) as u32,
                published_ms: self.model.now.wall_ms,
                expiration_ms: self
                    .random
                    .maybe(80)
                    .filter(|_| !self.cold_allowed && self.random.one_in(2)),
            };
            let priority = self.random.maybe(6).map(|p| p as u8);
            let mut refused = false;
            if self.model.settings.overflow != Overflow::DropHead
                && self.model.exceeds(1, meta.bytes.into())
            {
                self.model.pump();
                refused = self.model.exceeds(1, meta.bytes.into());
            }
            let taken = self.world.publish("", priority, meta);
            assert_eq!(taken.is_err(), refused);
            if let Ok(position) = taken {
                let message = Message {
                    meta,
                    state: MessageState::Ready,
                    delivered: false,
                    returns: 0,
                    acquired: 0,
                    ready_ms: 0,
                    fresh: true,
                };
                self.model.messages.insert(position, message);
            }
        }
    }

    fn attach(&mut self) {
        self.next_id += 1;
        let consumer = Consumer {
            id: ConsumerId(self.next_id),
            priority: self.random.below(3) as i64 - 1,
            exclusive: false,
            no_ack: self.random.one_in(5),
            prefetch: self.random.below(4) as u32,
            timeout_ms: None,
        };
        self.subscriptions.push(consumer.id);
        if self.random.one_in(3) {
            let room = self.random.below(4) as u32;
            self.world.log.room.insert(consumer.id, room);
            self.model.room.insert(consumer.id, room);
        }
        self.world.attach(consumer).expect("not exclusive");
        self.model.clock += 1;
        let order = self.model.clock;
        self.model.takers.push(Taker {
            consumer,
            order,
            turn: None,
            blocked: false,
        });
        self.model.refresh();
    }

    fn leave(&mut self, detach: bool) {
        let subscription = self.some_subscription();
        if detach {
            let unsettled_messages = self.model.unsettled_by(subscription);
            assert_eq!(
                self.world.detach(subscription),
                unsettled_messages.len() as u64
            );
            for position in unsettled_messages {
                self.model
                    .release(position, Outcome::Requeue { count: true });
            }
        } else {
            self.world
                .call(|queue, now, _, out| queue.cancel(now, subscription, out));
        }
        self.model
            .takers
            .retain(|taker| taker.consumer.id != subscription);
        if self.model.active == Some(subscription) {
            self.model.active = None;
        }
        self.model.refresh();
    }

    fn settle(&mut self) {
        let subscription = self.some_subscription();
        let priority_log = self.random.below(6) as u8;
        let unsettled_messages: Vec<u64> = self
            .model
            .unsettled_by(subscription)
            .iter()
            .filter(|p| p.priority_log == priority_log)
            .map(|p| p.index)
            .collect();
        let around = unsettled_messages
            .first()
            .copied()
            .unwrap_or(self.random.below(20));
        let start = around.saturating_sub(self.random.below(2)) + self.random.below(3);
        let range = start..start + self.random.below(6);
        let outcome = match self.random.below(5) {
            0 | 1 => Outcome::Accept,
            2 => Outcome::Reject,
            3 if self.random.one_in(3) => Outcome::Release,
            _ => Outcome::Requeue {
                count: self.random.one_in(2),
            },
        };
        let hit: Vec<u64> = unsettled_messages
            .into_iter()
            .filter(|index| range.contains(index))
            .collect();
        assert_eq!(
            self.world
                .settle(subscription, priority_log, range, outcome),
            hit.len() as u64
        );
        for index in hit {
            self.model.release(
                Position {
                    priority_log,
                    index,
                },
                outcome,
            );
        }
        self.model.refresh();
    }

    fn get(&mut self) {
        let subscription = ConsumerId(1_000_000 + self.random.below(3));
        let no_ack = self.random.one_in(3);
        self.subscriptions.push(subscription);
        self.model.pump();
        let next = self.model.next();
        let expected = next.map(|position| self.model.hand_over(subscription, position, no_ack));
        let waiting = !self.model.ready().is_empty();
        match self.world.get(subscription, no_ack) {
            Got::Message { delivery, .. } => assert_eq!(Some(delivery), expected),
            Got::Empty => assert!(expected.is_none() && !waiting),
            Got::Pending => assert!(expected.is_none() && waiting),
        }
        self.model.expire();
    }

    fn surroundings(&mut self) {
        match self.random.below(6) {
            0 => {
                let after = self.model.now.monotonic_ms + self.random.below(40);
                self.model.now = Now::both(after);
                self.world.now = Now::both(after);
                self.world
                    .call(|queue, now, log, out| queue.tick(now, log, out));
            }
            1 => {
                let id = self.some_subscription();
                let room = self.random.below(5) as u32;
                self.world.log.room.insert(id, room);
                self.model.room.insert(id, room);
                self.world.call(|queue, now, _, _| queue.unblock(now, id));
                self.model
                    .takers
                    .iter_mut()
                    .filter(|t| t.consumer.id == id)
                    .for_each(|t| t.blocked = false);
                self.model.refresh();
            }
            2 if self.cold_allowed => {
                let ready = self.model.ready();
                let cold = ready
                    .into_iter()
                    .filter(|_| self.random.one_in(3))
                    .collect::<Vec<_>>();
                self.world.log.cold.extend(&cold);
                self.model.cold.extend(cold);
            }
            3 if self.cold_allowed => {
                self.world.log.cold.clear();
                self.model.cold.clear();
                self.world.call(|queue, _, _, _| queue.resume());
            }
            4 => {
                let old = self.model.settings.clone();
                let settings = random_settings(&mut self.random, Some(&old), self.cold_allowed);
                self.model.settings = settings.clone();
                self.world
                    .call(|queue, now, _, _| queue.update_settings(now, settings));
            }
            _ => {
                let leaving = self
                    .model
                    .messages
                    .iter()
                    .filter(|(_, m)| m.state == MessageState::Leaving);
                let leaving: Vec<Position> = leaving.map(|(p, _)| *p).collect();
                for Position {
                    priority_log,
                    index,
                } in leaving.into_iter().filter(|_| self.random.one_in(2))
                {
                    self.model.leave(Position {
                        priority_log,
                        index,
                    });
                    let told = self.world.call(|queue, _, _, out| {
                        queue.dead_lettered(priority_log, index..index + 1, out)
                    });
                    assert_eq!(told, 1);
                }
            }
        }
    }

    fn purge(&mut self) {
        let mut ready = self.model.ready();
        let all = self.model.messages.iter();
        let waits = all.filter(|(at, m)| m.state == MessageState::Ready && !ready.contains(at));
        let waits: Vec<Position> = waits.map(|(position, _)| *position).collect();
        ready.extend(waits);
        assert_eq!(
            self.world.call(|queue, _, _, out| queue.purge(out)),
            ready.len() as u64
        );
        for position in ready {
            self.model.leave(position);
        }
    }

    fn restart(&mut self) {
        // Sizes of messages that wait for their time are estimated afterwards: scripts try that.
        if self.world.queue.counts(self.world.now).delayed > 0 {
            return;
        }
        self.world.log.cold.clear();
        self.model.cold.clear();
        for (position, message) in &mut self.model.messages {
            // One that was leaving is flagged, even if it never was delivered, if one behind it
            // was.
            let last = self.model.last_delivered.get(&position.priority_log);
            message.delivered |= last.is_some_and(|last| position.index <= *last);
            message.fresh = false;
            message.state = MessageState::Ready;
        }
        self.model.takers.clear();
        self.model.active = None;
        self.world.restart(true);
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..12 => self.publish(),
            12..15 => self.attach(),
            15 => self.leave(true),
            16 => self.leave(false),
            17..28 => self.settle(),
            28..31 => self.get(),
            31..38 => self.surroundings(),
            38 if self.random.one_in(4) => self.purge(),
            39 if self.random.one_in(4) => self.restart(),
            _ => {}
        }
        self.world.pump();
        self.model.pump();
        self.compare();
    }

    fn compare(&mut self) {
        let mut actual = Step::default();
        for effect in std::mem::take(&mut self.world.effects) {
            match effect {
                Effect::Deliver(delivery) => actual.deliveries.push(delivery),
                Effect::Settled {
                    priority_log,
                    range,
                    ..
                } => {
                    actual.gone.extend(range.map(|index| Position {
                        priority_log,
                        index,
                    }));
                }
                Effect::DeadLetter {
                    priority_log,
                    range,
                    reason,
                } => {
                    actual.dead.extend(range.map(|index| {
                        (
                            Position {
                                priority_log,
                                index,
                            },
                            reason.name(),
                        )
                    }));
                }
                Effect::Activate { consumer } => actual.active.push((consumer, true)),
                Effect::Deactivate { consumer } => actual.active.push((consumer, false)),
                other => panic!("{other:?}"),
            }
        }
        let mut expected = std::mem::take(&mut self.model.step);
        for step in [&mut actual, &mut expected] {
            step.gone.sort_unstable();
            step.dead.sort_unstable();
        }
        assert_eq!(actual, expected);
        let known = self
            .world
            .known
            .iter()
            .map(|(position, known)| (*position, known.state));
        assert!(
            known.eq(self
                .model
                .messages
                .iter()
                .map(|(position, m)| (*position, m.state))),
            "places"
        );
    }
}

#[test]
fn the_queue_does_what_a_plain_list_does() {
    let mut delivered = 0;
    for seed in 1..=SEEDS {
        let mut pair = Pair::new(seed);
        for step in 0..STEPS {
            let run = std::panic::AssertUnwindSafe(|| pair.step());
            if let Err(panic) = std::panic::catch_unwind(run) {
                eprintln!("seed {seed}, step {step}");
                std::panic::resume_unwind(panic);
            }
        }
        let messages = pair.world.known.values().chain(pair.world.gone.values());
        delivered += messages
            .map(|known| u64::from(known.deliveries))
            .sum::<u64>();
    }
    assert!(
        delivered > SEEDS * STEPS / 4,
        "the runs delivered only {delivered} messages"
    );
}
