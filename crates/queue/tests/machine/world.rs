//! A queue with a log that the test controls, and a ledger that knows where every message is.

use leveret_queue::{
    Consumer, ConsumerView, Delivery, Effect, Got, Log, Meta, Offer, Outcome, Peek, Position,
    Queue, QueueKind, RecoveredPriorityLog, Settings, Settle, State,
};
use leveret_types::{ConsumerId, Now};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where a message is, as the effects tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    Ready,
    Unsettled(ConsumerId),
    Leaving,
    Damaged,
}

/// A message as the test knows it.
#[derive(Clone, Debug)]
pub struct Known {
    pub name: String,
    pub meta: Meta,
    pub state: MessageState,
    pub deliveries: u32,
}

/// The log: metas of all messages, and what is cold, damaged, or without room.
#[derive(Debug, Default)]
pub struct FakeLog {
    pub metas: BTreeMap<Position, Meta>,
    pub cold: BTreeSet<Position>,
    pub damaged: BTreeSet<Position>,
    /// Deliveries that a consumer's channel still has room for; no entry is no bound.
    pub room: BTreeMap<ConsumerId, u32>,
    pub peeks: u64,
}

impl Log for FakeLog {
    fn peek(&mut self, position: Position) -> Peek {
        self.peeks += 1;
        match self.metas.get(&position) {
            _ if self.damaged.contains(&position) => Peek::Damaged,
            _ if self.cold.contains(&position) => Peek::Pending,
            Some(meta) => Peek::Ready(*meta),
            None => panic!("{position:?} was asked for and never published"),
        }
    }

    fn admit(&mut self, consumer: ConsumerId, _bytes: u32) -> bool {
        match self.room.get_mut(&consumer) {
            None => true,
            Some(0) => false,
            Some(room) => {
                *room -= 1;
                true
            }
        }
    }
}

/// The queue under test. Every call goes through here, and leaves the ledger and the queue in
/// agreement.
pub struct World {
    pub queue: Queue,
    pub log: FakeLog,
    pub now: Now,
    /// The messages that have not left.
    pub known: BTreeMap<Position, Known>,
    /// Those that have.
    pub gone: BTreeMap<Position, Known>,
    pub effects: Vec<Effect>,
    next_index: BTreeMap<u8, u64>,
    /// Bytes that effects said have left, and those of the messages that did.
    left_bytes: (u64, u64),
    any_damage: bool,
}

impl World {
    pub fn new(kind: QueueKind, settings: Settings) -> Self {
        let now = Now::both(0);
        Self {
            queue: Queue::new(kind, settings, now),
            log: FakeLog::default(),
            now,
            known: BTreeMap::new(),
            gone: BTreeMap::new(),
            effects: Vec::new(),
            next_index: BTreeMap::new(),
            left_bytes: (0, 0),
            any_damage: false,
        }
    }

    /// Offers a message, and enqueues it if it is taken.
    pub fn publish(
        &mut self,
        name: &str,
        priority: Option<u8>,
        meta: Meta,
    ) -> Result<Position, Offer> {
        let offer = self.call(|queue, now, log, out| queue.offer(now, meta.bytes, log, out));
        if offer != Offer::Take {
            return Err(offer);
        }
        let priority_log = self.queue.priority_log_for(priority);
        let next = self.next_index.entry(priority_log).or_insert(0);
        let position = Position {
            priority_log,
            index: *next,
        };
        *next += 1;
        self.log.metas.insert(position, meta);
        let known = Known {
            name: name.to_owned(),
            meta,
            state: MessageState::Ready,
            deliveries: 0,
        };
        self.known.insert(position, known);
        self.queue.enqueue(position, &meta);
        Ok(position)
    }

    pub fn pump(&mut self) {
        self.call(|queue, now, log, out| queue.pump(now, log, out));
    }

    /// Does something with the queue, and follows its effects.
    pub fn call<T>(
        &mut self,
        act: impl FnOnce(&mut Queue, Now, &mut FakeLog, &mut Vec<Effect>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let answer = act(&mut self.queue, self.now, &mut self.log, &mut out);
        self.follow(out);
        self.compare();
        answer
    }

    pub fn attach(&mut self, consumer: Consumer) -> Result<(), leveret_queue::AttachError> {
        self.call(|queue, now, _, out| queue.attach(now, consumer, out))
    }

    pub fn settle(
        &mut self,
        subscription: ConsumerId,
        priority_log: u8,
        range: Range<u64>,
        outcome: Outcome,
    ) -> u64 {
        if matches!(outcome, Outcome::Requeue { .. } | Outcome::Release) {
            self.put_back(subscription, |position| {
                position.priority_log == priority_log && range.contains(&position.index)
            });
        }
        self.call(|queue, now, _, out| {
            let settle = Settle {
                subscription,
                priority_log,
                range,
                outcome,
            };
            queue.settle(now, settle, out)
        })
    }

    pub fn detach(&mut self, subscription: ConsumerId) -> u64 {
        self.put_back(subscription, |_| true);
        self.call(|queue, now, _, out| queue.detach(now, subscription, out))
    }

    pub fn forget(&mut self, subscription: ConsumerId) -> u64 {
        self.put_back(subscription, |_| true);
        self.call(|queue, now, _, out| queue.forget(now, subscription, out))
    }

    pub fn adopt(&mut self, subscription: ConsumerId, position: Position, acquired: u32) -> u64 {
        let range = position.index..position.index + 1;
        let (now, priority_log) = (self.now, position.priority_log);
        let adopted = self
            .queue
            .adopt(now, subscription, priority_log, range, acquired);
        if adopted == 1 {
            self.at(position).state = MessageState::Unsettled(subscription);
        }
        adopted
    }

    /// What returns is ready again, unless an effect of the same call says otherwise.
    fn put_back(&mut self, subscription: ConsumerId, which: impl Fn(&Position) -> bool) {
        for (position, known) in &mut self.known {
            if known.state == MessageState::Unsettled(subscription) && which(position) {
                known.state = MessageState::Ready;
            }
        }
    }

    pub fn get(&mut self, subscription: ConsumerId, no_ack: bool) -> Got {
        let mut out = Vec::new();
        let got = self
            .queue
            .get(self.now, subscription, no_ack, &mut self.log, &mut out);
        if let Got::Message { delivery, .. } = got {
            // The answer comes before the effect that settles it.
            let settles = |effect: &Effect| {
                matches!(effect, Effect::Settled { priority_log, range, .. }
                    if *priority_log == delivery.position.priority_log
                        && range.contains(&delivery.position.index))
            };
            let at = out.iter().position(settles).unwrap_or(out.len());
            let later = out.split_off(at);
            self.follow(out);
            self.hand_over(&delivery);
            self.follow(later);
        } else {
            self.follow(out);
        }
        self.compare();
        got
    }

    /// The process ends and starts again.
    pub fn restart(&mut self, clean: bool) {
        // The sizes of messages that wait for their time are estimated afterwards.
        self.any_damage |= self.queue.counts(self.now).delayed > 0;
        let mut bytes = Vec::new();
        self.queue.state().encode(&mut bytes);
        let state = State::decode(&bytes).expect("the queue's own state");
        let state = if clean { state } else { state.stale() };
        let mut priority_logs: BTreeMap<u8, RecoveredPriorityLog> = BTreeMap::new();
        for (priority_log, next_index) in &self.next_index {
            let empty = RecoveredPriorityLog {
                priority_log: *priority_log,
                next_index: *next_index,
                ..RecoveredPriorityLog::default()
            };
            priority_logs.insert(*priority_log, empty);
        }
        for (position, known) in &mut self.known {
            let priority_log = priority_logs
                .get_mut(&position.priority_log)
                .expect("a priority log for each message");
            priority_log.live.insert(position.index);
            priority_log.bytes += u64::from(known.meta.bytes);
            known.state = MessageState::Ready;
        }
        let (kind, settings) = (self.queue.kind(), self.queue.settings().clone());
        self.queue = Queue::recover(
            kind,
            settings,
            self.now,
            priority_logs.into_values().collect(),
            &state,
        );
        self.pump();
    }

    /// Enters the effects of one call into the ledger.
    fn follow(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.effects.push(effect.clone());
            match effect {
                Effect::Deliver(delivery) => self.hand_over(&delivery),
                Effect::Settled {
                    priority_log,
                    range,
                    bytes,
                } => {
                    self.left_bytes.0 += bytes;
                    for index in range {
                        let position = Position {
                            priority_log,
                            index,
                        };
                        assert_eq!(self.queue.returns(position), None, "{position:?} left");
                        let known = self.known.remove(&position);
                        let known =
                            known.unwrap_or_else(|| panic!("{position:?} leaves and is not there"));
                        self.left_bytes.1 += u64::from(known.meta.bytes);
                        self.gone.insert(position, known);
                    }
                }
                Effect::DeadLetter {
                    priority_log,
                    range,
                    ..
                } => {
                    for index in range {
                        let known = self.at(Position {
                            priority_log,
                            index,
                        });
                        let was = known.state;
                        assert!(
                            matches!(was, MessageState::Ready | MessageState::Unsettled(_)),
                            "{} from {was:?}",
                            known.name
                        );
                        known.state = MessageState::Leaving;
                    }
                }
                Effect::Damaged { position } => {
                    self.any_damage = true;
                    assert_eq!(self.at(position).state, MessageState::Ready);
                    self.at(position).state = MessageState::Damaged;
                }
                Effect::Activate { .. }
                | Effect::Deactivate { .. }
                | Effect::TimedOut { .. }
                | Effect::Returned { .. }
                | Effect::Expired => {}
            }
        }
    }

    fn at(&mut self, position: Position) -> &mut Known {
        self.known
            .get_mut(&position)
            .unwrap_or_else(|| panic!("{position:?} is not there"))
    }

    fn hand_over(&mut self, delivery: &Delivery) {
        let known = self.at(delivery.position);
        assert_eq!(
            known.state,
            MessageState::Ready,
            "{} was delivered",
            known.name
        );
        assert_eq!(known.meta.bytes, delivery.bytes);
        assert!(
            known.deliveries == 0 || delivery.redelivered,
            "{} came twice, unflagged",
            known.name
        );
        known.state = MessageState::Unsettled(delivery.consumer);
        known.deliveries += 1;
    }

    fn is_delayed(&self, position: Position) -> bool {
        let returns = self.queue.returns(position);
        returns.is_some_and(|returns| returns.ready_ms > self.now.wall_ms)
    }

    /// The queue says of itself what the ledger says of it.
    fn compare(&self) {
        let counts = self.queue.counts(self.now);
        let mut sums: [(u64, u64); 4] = [(0, 0); 4];
        let mut unsettled_messages: BTreeMap<ConsumerId, u64> = BTreeMap::new();
        for known in self.known.values() {
            let place = match known.state {
                MessageState::Ready => 0,
                MessageState::Unsettled(subscription) => {
                    *unsettled_messages.entry(subscription).or_default() += 1;
                    1
                }
                MessageState::Leaving => 2,
                MessageState::Damaged => 3,
            };
            sums[place].0 += 1;
            sums[place].1 += u64::from(known.meta.bytes);
        }
        let [
            (ready, ready_bytes),
            (unsettled, unsettled_bytes),
            (leaving, leaving_bytes),
            (damaged, _),
        ] = sums;
        let actual = [
            counts.ready,
            counts.unsettled,
            counts.leaving,
            counts.damaged,
        ];
        assert_eq!(
            actual,
            [ready, unsettled, leaving, damaged],
            "ready, unsettled, leaving, damaged"
        );
        assert_eq!(counts.unsettled_bytes, unsettled_bytes, "bytes unsettled");
        assert_eq!(counts.leaving_bytes, leaving_bytes, "bytes leaving");
        if !self.any_damage {
            assert_eq!(counts.ready_bytes, ready_bytes, "bytes ready");
            assert_eq!(self.left_bytes.0, self.left_bytes.1, "bytes that left");
        }
        let ledger = self
            .known
            .iter()
            .filter(|(_, known)| known.state == MessageState::Ready)
            .filter(|(position, _)| !self.is_delayed(**position));
        let queue = (0..=u8::MAX).flat_map(|priority_log| {
            let indexes = self.queue.ready_from(priority_log, 0).flatten();
            indexes.map(move |index| Position {
                priority_log,
                index,
            })
        });
        assert!(
            queue.eq(ledger.map(|(position, _)| *position)),
            "what is ready, in order"
        );
        for ConsumerView {
            consumer,
            unsettled,
            ..
        } in self.queue.consumers()
        {
            let unsettled_messages = unsettled_messages
                .get(&consumer.id)
                .copied()
                .unwrap_or_default();
            assert_eq!(
                unsettled, unsettled_messages,
                "unsettled of {}",
                consumer.id
            );
            let bound = u64::from(consumer.prefetch);
            assert!(
                bound == 0 || consumer.no_ack || unsettled <= bound,
                "prefetch of {}",
                consumer.id
            );
        }
    }
}
