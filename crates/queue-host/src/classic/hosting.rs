//! The verbs of [`QueueHost`] as a queue that is on this node alone does them: in place, and
//! answered at once.

use super::{Attached, ClassicLog, ClassicQueue, WaitingGet};
use crate::delivery_credit::ConsumerCredit;
use crate::effects::{DeadLetter, Deferred};
use crate::events::{QueueAnswer, QueueEvent};
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued, GetOutcome};
use crate::peeked::{self, Found};
use crate::queue_host::{Asker, Get, HostContext, QueueHost, When};
use crate::quorum::protocol::{Event, Fetched, QueueCounts};
use crate::stored;
use crate::subscriber::Subscriber;
use leveret_queue::{AttachError, Consumer, Got, Offer, Position, Settle, UnsettledMessage};
use leveret_storage::{BodyId, Durability, ShardLogs, SharedBody};
use leveret_types::limits::CHUNK_BYTES;
use leveret_types::{ConsumerId, Message, Now};

impl ClassicQueue {
    /// Drops all ready messages; answers how many.
    pub(super) fn drop_ready(&mut self, context: &mut HostContext<'_>) -> u64 {
        self.pump(context);
        let count = self.queue.purge(context.scratch);
        self.carry_out(context);
        count + self.purge_view(context)
    }

    /// How it stands once what has happened so far has had its effect.
    pub(super) fn counts(&mut self, context: &mut HostContext<'_>) -> QueueCounts {
        self.pump(context);
        QueueCounts::from(&self.counts_now(context.now))
    }

    /// A ready message, which stays; nothing while it is being read from disk.
    pub(super) fn peek(&mut self, context: &mut HostContext<'_>, before: u64) -> Option<Fetched> {
        self.pump(context);
        let position = self.queue.ready_behind(before);
        match position.map(|at| (at, self.read(context.logs, at))) {
            Some((at, Found::Message(message))) => {
                self.queue.note_head(at, message.summary.published_ms);
                Some(Fetched::Message(message))
            }
            Some((_, Found::Never)) => Some(Fetched::Unreadable),
            Some((_, Found::Pending)) => None,
            None => Some(Fetched::Gone),
        }
    }

    /// A message where the queue keeps its messages.
    fn read(&self, logs: &mut ShardLogs, at: Position) -> Found {
        match &self.view {
            Some(view) => view.find(at.index),
            None => peeked::read(logs, self.id, at),
        }
    }

    /// A message that somebody holds, which stays so; nothing while it is being read from disk.
    pub(super) fn show_unsettled(
        &self,
        logs: &mut ShardLogs,
        held: &UnsettledMessage,
    ) -> Option<Fetched> {
        match self.queue.has(held.consumer, held.position) {
            true => self.read(logs, held.position).fetched(),
            false => Some(Fetched::Gone),
        }
    }

    /// Keeps the queue's lease alive: it was declared again.
    pub(super) fn touch(&mut self, now: Now) {
        self.queue.touch(now);
    }

    /// Messages that were read from disk have come.
    pub(super) fn loaded(&mut self, context: &mut HostContext<'_>) {
        self.queue.resume();
        self.send_dead_letters(context.logs, context.effects);
        for waiting in std::mem::take(&mut self.waiting_gets) {
            let WaitingGet {
                subscriber,
                subscription,
                no_ack,
            } = waiting;
            let get = Get {
                subscription,
                subscriber: Some(subscriber),
                no_ack,
            };
            let outcome = self.get(context, get);
            self.answer_get(context, subscriber, subscription, outcome);
        }
    }

    /// The answer to a get, unless it waits.
    pub(super) fn answer_get(
        &self,
        context: &mut HostContext<'_>,
        to: Subscriber,
        subscription: ConsumerId,
        outcome: GetOutcome,
    ) {
        match to {
            Subscriber::Client(connection) => {
                if let Some(reply) = outcome.reply() {
                    let event = QueueEvent::Reply(reply);
                    context.effects.posts.push((connection, event));
                }
            }
            Subscriber::Node(node) => {
                let got = match outcome {
                    GetOutcome::Message(delivery, left) => Some((delivery, left)),
                    GetOutcome::Empty | GetOutcome::Gone | GetOutcome::Unavailable => None,
                    GetOutcome::Pending => return,
                };
                self.say(context, node, Event::Got { subscription, got });
            }
        }
    }
}

impl ClassicQueue {
    /// Attaches a consumer of this node's clients, or of another node's.
    ///
    /// # Errors
    /// If the queue is in exclusive use.
    pub(super) fn take_consumer(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: Consumer,
        subscriber: Subscriber,
        credit: ConsumerCredit,
    ) -> Result<(), AttachError> {
        self.queue.attach(context.now, consumer, context.scratch)?;
        self.had_consumer = true;
        self.consumers
            .insert(consumer.id, Attached { subscriber, credit });
        self.carry_out(context);
        Ok(())
    }
}

impl QueueHost for ClassicQueue {
    fn publish(
        &mut self,
        context: &mut HostContext<'_>,
        message: &Message,
        bodies: &mut Bodies,
        _notify: &Notify,
    ) -> Enqueued {
        if self.view.is_some() {
            return Enqueued::Rejected;
        }
        let offer = self.offer(context.now, message.size(), context.logs, context.scratch);
        self.carry_out(context);
        if let Offer::Reject { dead_letter } = offer {
            if dead_letter {
                let dead = DeadLetter::refused(self.id, message);
                context.effects.deferred.push(Deferred::DeadLetter(dead));
            }
            return Enqueued::Rejected;
        }
        let durable = self.durable && message.summary.persistent;
        let body = bodies.of(context.logs, message, durable);
        self.enqueue(context.logs, body, message);
        match durable {
            true => Enqueued::Durable,
            false => Enqueued::Volatile,
        }
    }

    fn settle(&mut self, context: &mut HostContext<'_>, settle: Settle) -> u64 {
        let count = self.queue.settle(context.now, settle, context.scratch);
        self.carry_out(context);
        count
    }

    fn attach(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: Consumer,
        subscriber: Subscriber,
        credit: ConsumerCredit,
    ) -> Result<When, Option<AttachError>> {
        let taken = self.take_consumer(context, consumer, subscriber, credit);
        taken.map(|()| When::Now).map_err(Some)
    }

    fn cancel(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: ConsumerId,
        _subscriber: Subscriber,
    ) -> When {
        self.queue.cancel(context.now, consumer, context.scratch);
        if let Some(attached) = self.consumers.remove(&consumer) {
            self.note_subscription(consumer, attached.subscriber);
        }
        self.carry_out(context);
        self.delete_if_unused(context);
        When::Now
    }

    fn detach(&mut self, context: &mut HostContext<'_>, subscription: ConsumerId) {
        self.queue
            .detach(context.now, subscription, context.scratch);
        self.consumers.remove(&subscription);
        self.subscriptions.remove(&subscription);
        self.waiting_gets
            .retain(|waiting| waiting.subscription != subscription);
        self.carry_out(context);
        self.delete_if_unused(context);
    }

    fn unblock(&mut self, context: &mut HostContext<'_>, consumer: ConsumerId) {
        self.queue.unblock(context.now, consumer);
    }

    fn get(&mut self, context: &mut HostContext<'_>, get: Get) -> GetOutcome {
        let Get {
            subscription,
            subscriber,
            no_ack,
        } = get;
        // What this batch has published so far must be seen, and what has expired must not.
        self.pump(context);
        let mut view = ClassicLog {
            queue: self.id,
            logs: context.logs,
            fresh: &self.fresh,
            peeked: &mut self.peeked,
            consumers: &self.consumers,
            view: self.view.as_deref(),
        };
        let got = self.queue.get(
            context.now,
            subscription,
            no_ack,
            &mut view,
            context.scratch,
        );
        let may_have_more = self.view.as_ref().is_some_and(|view| view.may_have_more());
        let outcome = match got {
            Got::Empty if !may_have_more => GetOutcome::Empty,
            Got::Empty | Got::Pending => {
                self.want_view(context.now);
                if let Some(subscriber) = subscriber {
                    self.waiting_gets.push(WaitingGet {
                        subscriber,
                        subscription,
                        no_ack,
                    });
                }
                GetOutcome::Pending
            }
            Got::Message { delivery, ready } => {
                if let Some(subscriber) = subscriber.filter(|_| !no_ack) {
                    self.note_subscription(subscription, subscriber);
                }
                match self.delivery(context.logs, &delivery) {
                    Some(delivery) => GetOutcome::Message(delivery, ready),
                    None => GetOutcome::Empty,
                }
            }
        };
        self.carry_out(context);
        outcome
    }

    fn purge(&mut self, context: &mut HostContext<'_>, _asker: Asker) -> Option<QueueAnswer> {
        Some(QueueAnswer::Purged(self.drop_ready(context)))
    }

    fn count(&mut self, context: &mut HostContext<'_>, _asker: Asker) -> Option<QueueAnswer> {
        Some(QueueAnswer::Counted(self.counts(context)))
    }

    fn peek(
        &mut self,
        context: &mut HostContext<'_>,
        _asker: Asker,
        before: u64,
    ) -> Option<QueueAnswer> {
        self.peek(context, before).map(QueueAnswer::Peeked)
    }

    fn holds(&self, subscription: ConsumerId) -> bool {
        self.queue.holds(subscription)
    }

    fn unsettled_by(&self, subscription: ConsumerId) -> (u64, Option<u64>) {
        self.queue.unsettled_by(subscription)
    }

    fn single_active(&self, consumer: ConsumerId) -> Option<bool> {
        let rule = self.queue.settings().single_active;
        rule.then(|| self.queue.active() == Some(consumer))
    }
}

impl Bodies {
    /// The body of `message` in the log, written once for all the queues that the message goes to.
    fn of(&mut self, logs: &mut ShardLogs, message: &Message, durable: bool) -> BodyId {
        let known = if durable {
            self.durable
        } else {
            self.durable.or(self.volatile)
        };
        let is_here = |body: &BodyId| body.shard().0 == u16::from(logs.shard());
        if let Some(body) = known.filter(is_here) {
            return body;
        }
        if !durable {
            let body = put(logs, message, Durability::Volatile, None);
            (self.durable, self.volatile) = (None, Some(body));
            return body;
        }
        let body = put(logs, message, Durability::Durable, self.shared);
        if self.shared.is_none() {
            self.shared = logs.share(body);
        }
        self.durable = Some(body);
        body
    }
}

/// Puts the body of `message` into the chunk that gathers. A large one is not copied, where its
/// buffer is what is to be kept.
fn put(
    logs: &mut ShardLogs,
    message: &Message,
    durability: Durability,
    shared: Option<SharedBody>,
) -> BodyId {
    let is_large = message.weight() > CHUNK_BYTES;
    if let Some(bytes) = is_large.then(|| message.encoded()).flatten() {
        return match shared {
            Some(shared) => logs.body_shared_again(shared, bytes),
            None => logs.body_shared(durability, bytes),
        };
    }
    let header = stored::header(message);
    let pieces = stored::pieces(&header, message);
    match shared {
        Some(shared) => logs.body_again(shared, &pieces),
        None => logs.body(durability, &pieces),
    }
}
