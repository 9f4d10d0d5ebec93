//! A queue that is on one node alone: the queue machine, its logs, and where its consumers are.

mod hosting;
mod node_sessions;
mod nodes;
mod queues;
mod subscriptions;
mod viewing;

pub(crate) use queues::{ClassicQueues, HandedOver};

use crate::dead_letters::DeadLetters;
use crate::delivery_credit::ConsumerCredit;
use crate::effects::{Deferred, ShardEffects, delivery_of};
use crate::events::QueueEvent;
use crate::log_ids::{log_of, lost_of};
use crate::peeked::{self, Found, Peeked, meta_of};
use crate::queue_host::HostContext;
use crate::queue_spec::{LocalQueueStats, QueueSpec};
use crate::quorum::protocol::Event;
use crate::stream_view::StreamView;
use crate::subscriber::Subscriber;
use hashbrown::HashMap;
use leveret_client::Delivery;
use leveret_queue::{Effect, Log, Offer, Peek, Position, Queue, RecoveredPriorityLog, State};
use leveret_storage::{BodyId, LogKind, ShardLogs};
use leveret_types::{ConsumerId, Message, NodeId, Now, QueueId};
use node_sessions::NodeSessions;
use std::collections::VecDeque;
use subscriptions::Subscriptions;

/// Messages of one batch that are kept at hand until the queue has had a look at them.
const FRESH_MAX: usize = 4_096;

/// A consumer's place in the world.
#[derive(Debug)]
struct Attached {
    subscriber: Subscriber,
    credit: ConsumerCredit,
}

/// A `basic.get` that waits for a message to be read from disk.
#[derive(Debug)]
struct WaitingGet {
    subscriber: Subscriber,
    subscription: ConsumerId,
    no_ack: bool,
}

/// One queue.
pub(crate) struct ClassicQueue {
    id: QueueId,
    queue: Queue,
    durable: bool,
    auto_delete: bool,
    had_consumer: bool,
    /// Priority logs that have a log.
    priority_logs: Vec<u8>,
    consumers: HashMap<ConsumerId, Attached, foldhash::fast::FixedState>,
    /// Who may hold messages without being a consumer: by `basic.get`, or after `basic.cancel`.
    subscriptions: Subscriptions<ConsumerId, Subscriber>,
    /// Messages enqueued since the last pump, so that they are delivered from the socket's buffer
    /// and not looked up in the log.
    fresh: VecDeque<(Position, Message)>,
    /// Messages that the queue looked at since the last pump, for the deliveries that follow: what
    /// the log has read from disk it keeps only as long as it has room.
    peeked: Peeked,
    dead: DeadLetters,
    waiting_gets: Vec<WaitingGet>,
    /// The nodes whose clients use the queue.
    node_sessions: NodeSessions,
    /// Whether it is in the lists of the shard's classic queues.
    listed: queues::Listed,
    saved: State,
    /// What it has instead of a log of its own, where it is a view of a stream.
    view: Option<Box<StreamView>>,
}

/// What the queue machine sees of its surroundings.
struct ClassicLog<'a> {
    queue: QueueId,
    logs: &'a mut ShardLogs,
    fresh: &'a VecDeque<(Position, Message)>,
    peeked: &'a mut Peeked,
    consumers: &'a HashMap<ConsumerId, Attached, foldhash::fast::FixedState>,
    view: Option<&'a StreamView>,
}

impl Log for ClassicLog<'_> {
    fn peek(&mut self, position: Position) -> Peek {
        if let Some(view) = self.view {
            return view.peek(position.index);
        }
        if let Some(message) = find_fresh(self.fresh, position) {
            return Peek::Ready(meta_of(message));
        }
        self.peeked.peek(self.logs, self.queue, position)
    }

    fn admit(&mut self, consumer: ConsumerId, bytes: u32) -> bool {
        self.consumers
            .get(&consumer)
            .is_some_and(|c| c.credit.admit(bytes as usize))
    }
}

/// Fresh messages are in the order of their enqueueing, so within a priority log by index. With one
/// priority log, the place follows from the first.
fn find_fresh(fresh: &VecDeque<(Position, Message)>, position: Position) -> Option<&Message> {
    let (first, _) = fresh.front()?;
    if first.priority_log == position.priority_log {
        let guess = position.index.checked_sub(first.index)?;
        if let Some((at, message)) = fresh.get(usize::try_from(guess).ok()?)
            && *at == position
        {
            return Some(message);
        }
    }
    fresh
        .iter()
        .find(|(at, _)| *at == position)
        .map(|(_, message)| message)
}

impl ClassicQueue {
    pub fn new(
        now: Now,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: Vec<u8>,
        logs: &ShardLogs,
    ) -> Self {
        if spec.view.is_some() {
            return Self::new_view(now, id, spec, priority_logs, logs);
        }
        let recovered: Vec<RecoveredPriorityLog> = priority_logs
            .iter()
            .filter_map(|priority_log| {
                let log = log_of(id, *priority_log);
                let stats = logs.log_stats(log)?;
                Some(RecoveredPriorityLog {
                    priority_log: *priority_log,
                    live: logs.live(log),
                    bytes: stats.bytes,
                    next_index: stats.next_index,
                })
            })
            .collect();
        let is_damaged = |priority_log: &u8| logs.damage(log_of(id, *priority_log)).is_some();
        // It was written to the priority log that came first. Priority logs are in their order
        // after a start, so that of several the lowest one has the newest.
        let mut states = priority_logs
            .iter()
            .map(|priority_log| logs.state(log_of(id, *priority_log)));
        let saved = states.find(|bytes| !bytes.is_empty());
        let (state, is_known) = match saved.unwrap_or_default() {
            [] => (State::default(), true),
            bytes => match State::decode(bytes) {
                Ok(state) => (state, true),
                Err(error) => {
                    tracing::error!(
                        queue = %id,
                        %error,
                        "the queue's saved state cannot be read: its delivery counts begin at 0"
                    );
                    (State::unknown(priority_logs.iter().copied()), false)
                }
            },
        };
        let is_known = is_known && !priority_logs.iter().any(is_damaged);
        let queue = if recovered.is_empty() {
            Queue::new(spec.kind, spec.settings, now)
        } else {
            // Nothing is read for what is known: see `note_expiring`.
            let begun = recovered
                .iter()
                .map(|priority_log| priority_log.priority_log);
            let known = match is_known {
                true => state.clone().with_priority_logs(begun),
                false => State::default(),
            };
            let known = known.for_start(logs.was_closed_in_order());
            Queue::recover(spec.kind, spec.settings, now, recovered, &known)
        };
        let mut made = Self::with(id, queue, priority_logs, state);
        (made.durable, made.auto_delete) = (spec.durable, spec.auto_delete);
        made
    }

    /// A queue that is neither durable nor goes with its last consumer.
    fn with(id: QueueId, queue: Queue, priority_logs: Vec<u8>, saved: State) -> Self {
        Self {
            id,
            queue,
            durable: false,
            auto_delete: false,
            had_consumer: false,
            priority_logs,
            consumers: HashMap::default(),
            fresh: VecDeque::new(),
            peeked: Peeked::default(),
            dead: DeadLetters::default(),
            subscriptions: Subscriptions::default(),
            waiting_gets: Vec::new(),
            node_sessions: NodeSessions::default(),
            listed: queues::Listed::default(),
            saved,
            view: None,
        }
    }

    fn update(&mut self, now: Now, spec: QueueSpec) {
        self.queue.update_settings(now, spec.settings);
    }

    fn offer(
        &mut self,
        now: Now,
        bytes: u32,
        logs: &mut ShardLogs,
        out: &mut Vec<Effect>,
    ) -> Offer {
        let mut view = ClassicLog {
            queue: self.id,
            logs,
            fresh: &self.fresh,
            peeked: &mut self.peeked,
            consumers: &self.consumers,
            view: self.view.as_deref(),
        };
        self.queue.offer(now, bytes, &mut view, out)
    }

    fn enqueue(&mut self, logs: &mut ShardLogs, body: BodyId, message: &Message) {
        let priority_log = self.queue.priority_log_for(message.summary.priority);
        let log = log_of(self.id, priority_log);
        if !self.priority_logs.contains(&priority_log) {
            let kind = if self.durable {
                LogKind::Durable
            } else {
                LogKind::Volatile
            };
            logs.create_log(log, kind);
            self.priority_logs.push(priority_log);
        }
        if message.summary.expiration_ms.is_some() && message.summary.persistent {
            self.note_expiring(priority_log, logs);
        }
        let index = logs.append(log, body, message.size());
        let position = Position {
            priority_log,
            index,
        };
        self.queue.enqueue(position, &meta_of(message));
        if self.fresh.len() < FRESH_MAX {
            if self.fresh.capacity() == 0 {
                // Of very many queues most have one message, where a deque begins with four places.
                self.fresh.reserve_exact(1);
            }
            self.fresh.push_back((position, message.clone()));
        }
    }

    /// A message with a time to live of its own comes into this priority log: that is written down
    /// before it, once between two checkpoints, so that after a crash no other priority log's
    /// messages need be looked at.
    fn note_expiring(&mut self, priority_log: u8, logs: &mut ShardLogs) {
        if self.durable && !self.saved.may_expire(priority_log) {
            let state = self.queue.state().expiring(priority_log);
            self.write_state(state, logs);
        }
    }

    fn forget_fresh(&mut self) {
        self.fresh.clear();
        self.peeked.clear(self.consumers.is_empty());
        if self.fresh.capacity() > 64 && self.consumers.is_empty() {
            self.fresh.shrink_to_fit();
        }
    }

    /// Lets the queue deliver, expire and drop.
    fn pump(&mut self, context: &mut HostContext<'_>) {
        self.begin_viewing(context.now);
        self.tick(context);
        while self.give_from_stream() {
            self.tick(context);
        }
        self.end_viewing(context);
        self.dead.retry(context.now);
        self.send_dead_letters(context.logs, context.effects);
        self.forget_fresh();
    }

    fn tick(&mut self, context: &mut HostContext<'_>) {
        let mut view = ClassicLog {
            queue: self.id,
            logs: context.logs,
            fresh: &self.fresh,
            peeked: &mut self.peeked,
            consumers: &self.consumers,
            view: self.view.as_deref(),
        };
        self.queue.tick(context.now, &mut view, context.scratch);
        self.carry_out(context);
    }

    /// When it is to be pumped next, whatever happens.
    fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let queue = self.queue.next_deadline_ms(now);
        let view = self.view.as_ref();
        let view = view.and_then(|view| view.deadline_ms(self.durable));
        let own = queue.into_iter().chain(self.dead.deadline_ms());
        own.chain(view).min()
    }

    /// Remembers whose subscription this is, until it is detached, or holds nothing any more: so
    /// that cancelling again and again costs no room.
    fn note_subscription(&mut self, subscription: ConsumerId, subscriber: Subscriber) {
        let holds = |known: &ConsumerId| self.queue.holds(*known);
        self.subscriptions.add(subscription, subscriber, holds);
    }

    fn subscriber_of(&self, subscription: ConsumerId) -> Option<Subscriber> {
        let consumer = self.consumers.get(&subscription);
        let consumer = consumer.map(|found| found.subscriber);
        consumer.or_else(|| self.subscriptions.get(&subscription))
    }

    fn find(&mut self, logs: &mut ShardLogs, position: Position) -> Found {
        if let Some(view) = &self.view {
            return view.find(position.index);
        }
        match find_fresh(&self.fresh, position) {
            Some(message) => Found::Message(message.clone()),
            None => self.peeked.find(logs, self.id, position),
        }
    }

    /// The message of a delivery. The queue delivers only what [`Log::peek`] has just found, so
    /// that it is there.
    fn delivery(
        &mut self,
        logs: &mut ShardLogs,
        delivery: &leveret_queue::Delivery,
    ) -> Option<Delivery> {
        let Found::Message(message) = self.find(logs, delivery.position) else {
            return None;
        };
        let position = delivery.position;
        let mut delivery = delivery_of(self.id, delivery, message);
        delivery.redelivered |= self
            .view
            .as_ref()
            .is_some_and(|view| view.was_delivered(position.index));
        Some(delivery)
    }

    /// Carries out what the queue machine wants done.
    fn carry_out(&mut self, context: &mut HostContext<'_>) {
        if context.scratch.is_empty() {
            return;
        }
        let mut wanted = std::mem::take(context.scratch);
        for effect in wanted.drain(..) {
            self.carry_out_one(effect, context);
        }
        *context.scratch = wanted;
    }

    fn carry_out_one(&mut self, effect: Effect, context: &mut HostContext<'_>) {
        match effect {
            Effect::Deliver(delivery) => {
                let Some(subscriber) = self
                    .consumers
                    .get(&delivery.consumer)
                    .map(|attached| attached.subscriber)
                else {
                    return;
                };
                let Some(delivery) = self.delivery(context.logs, &delivery) else {
                    tracing::error!(queue = %self.id, "a message that was there cannot be read");
                    return;
                };
                self.tell_delivery(context, subscriber, delivery);
            }
            Effect::Settled {
                priority_log,
                range,
                bytes,
            } => match &mut self.view {
                Some(view) => view.settled(range),
                None => {
                    let log = log_of(self.id, priority_log);
                    context.logs.settle(log, range, bytes);
                }
            },
            Effect::DeadLetter {
                priority_log,
                range,
                reason,
            } => {
                self.dead.push(priority_log, range, reason);
                self.send_dead_letters(context.logs, context.effects);
            }
            Effect::TimedOut { subscription } => {
                if let Some(subscriber) = self.subscriber_of(subscription) {
                    self.tell_timed_out(context, subscriber, subscription);
                }
            }
            Effect::Damaged { position } => context.effects.deferred.push(Deferred::Damage {
                queue: self.id,
                what: format!(
                    "message {} of priority log {} cannot be read; it is set aside, see \
                     `leveret storage verify`",
                    position.index, position.priority_log,
                ),
            }),
            Effect::Expired => {
                context.effects.deferred.push(Deferred::DeleteQueue {
                    queue: self.id,
                    expired: true,
                });
            }
            Effect::Activate { consumer } => {
                if let Some(attached) = self.consumers.get(&consumer) {
                    self.tell_active(context, attached.subscriber, consumer);
                }
            }
            // A queue that is not replicated keeps its counts itself, and where it is classic its
            // active consumer gives way to none.
            Effect::Returned { .. } | Effect::Deactivate { .. } => {}
        }
    }

    fn tell_delivery(&self, context: &mut HostContext<'_>, to: Subscriber, delivery: Delivery) {
        match to {
            Subscriber::Client(connection) => {
                let event = QueueEvent::Deliver(delivery);
                context.effects.posts.push((connection, event));
            }
            Subscriber::Node(node) => self.say(context, node, Event::Deliver(delivery)),
        }
    }

    fn tell_timed_out(
        &self,
        context: &mut HostContext<'_>,
        to: Subscriber,
        subscription: ConsumerId,
    ) {
        match to {
            Subscriber::Client(connection) => context.effects.deferred.push(Deferred::TimedOut {
                connection,
                consumer: subscription,
            }),
            Subscriber::Node(node) => self.say(context, node, Event::TimedOut(subscription)),
        }
    }

    /// A consumer has become the single active one. Clients are not told; other nodes are, for
    /// those who ask them.
    fn tell_active(&self, context: &mut HostContext<'_>, to: Subscriber, consumer: ConsumerId) {
        if let Subscriber::Node(node) = to {
            let activation = 1;
            let event = Event::Active {
                consumer,
                activation,
            };
            self.say(context, node, event);
        }
    }

    /// Says something to a node's remote queue, if that has a session.
    fn say(&self, context: &mut HostContext<'_>, to: NodeId, event: Event) {
        self.node_sessions.say(to, self.id, event, context.answers);
    }

    fn delete_if_unused(&self, context: &mut HostContext<'_>) {
        let is_unused = self.auto_delete && self.had_consumer && self.consumers.is_empty();
        if is_unused {
            context.effects.deferred.push(Deferred::DeleteQueue {
                queue: self.id,
                expired: false,
            });
        }
    }

    /// Hands messages over to be dead-lettered; those that are on disk only once they have been
    /// read.
    fn send_dead_letters(&mut self, logs: &mut ShardLogs, effects: &mut ShardEffects) {
        let (queue, peeked, view) = (self.id, &mut self.peeked, self.view.as_deref());
        let mut find = |at: Position| match find_fresh(&self.fresh, at) {
            Some(message) => Found::Message(message.clone()),
            None => match view {
                Some(view) => view.find(at.index),
                None => peeked.find(logs, queue, at),
            },
        };
        while let Some(dead) = self.dead.take(queue, &mut find) {
            effects.deferred.push(Deferred::DeadLetter(dead));
        }
    }

    fn local_stats(&self, now: Now, logs: &ShardLogs) -> LocalQueueStats {
        let published = |at| match &self.view {
            Some(_) => None,
            None => peeked::published_ms(logs, self.id, at),
        };
        let consumers = self.queue.consumers().filter_map(|view| {
            let subscriber = self.consumers.get(&view.consumer.id)?.subscriber;
            Some((view, subscriber))
        });
        let mut counts = self.counts_now(now);
        let lost = lost_of(logs, self.id, self.priority_logs.iter().copied());
        counts.damaged = counts.damaged.max(lost);
        LocalQueueStats {
            id: self.id,
            counts,
            oldest: self.queue.oldest(published),
            counters: *self.queue.counters(),
            consumers: consumers.collect(),
            durable: self.durable,
        }
    }

    /// Writes down what must survive besides the messages, if a restart would not find it so
    /// already.
    fn save_state(&mut self, logs: &mut ShardLogs, clean: bool) {
        if !self.durable {
            return;
        }
        if self.view.is_some() {
            return self.save_view(logs, clean);
        }
        let state = if clean {
            self.queue.state()
        } else {
            self.queue.state().stale()
        };
        if !self.saved.says(&state) {
            self.write_state(state, logs);
        }
    }

    fn write_state(&mut self, state: State, logs: &mut ShardLogs) {
        let Some(priority_log) = self.priority_logs.first() else {
            return;
        };
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        logs.set_state(log_of(self.id, *priority_log), &bytes);
        self.saved = state;
    }
}
