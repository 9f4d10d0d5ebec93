//! The verbs of [`QueueHost`] as a remote queue does them: as operations and commands for the
//! queue's leader, which answers later. It is asked by clients of its own node alone.

use super::{LeaderLocation, Question, Reach, RemoteQueue, Subscription};
use crate::events::QueueAnswer;
use crate::link::ConsumerLink;
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued, GetOutcome};
use crate::queue_host::{Asker, Get, HostContext, QueueHost, When};
use crate::quorum::link::{Command, Operation, Settle};
use crate::subscriber::Subscriber;
use leveret_queue::{AttachError, Consumer};
use leveret_types::{ConnectionId, ConsumerId, Message};

/// What a remote queue reaches of what a host of a queue does.
const fn reach<'a>(context: &'a mut HostContext<'_>) -> Reach<'a> {
    Reach {
        now: context.now,
        node: context.node,
        effects: context.effects,
    }
}

/// The connection of a client; other nodes have remote queues of their own.
const fn connection_of(subscriber: Subscriber) -> ConnectionId {
    match subscriber {
        Subscriber::Client(connection) => connection,
        Subscriber::Node(_) => ConnectionId(0),
    }
}

impl RemoteQueue {
    /// Asks the leader. For one who asks again, the answer if it is there.
    fn put_question(
        &mut self,
        context: &mut HostContext<'_>,
        asker: Asker,
        question: Question,
    ) -> Option<QueueAnswer> {
        if let Asker::Poll(poll) = asker {
            match self.questions.parked(poll) {
                (Some(answer), _) => return Some(answer),
                (None, true) => return None,
                (None, false) => {}
            }
        }
        if let Question::Get { subscription, .. } = question {
            let connection = match asker {
                Asker::Connection(connection) => connection,
                Asker::Poll(_) => ConnectionId(0),
            };
            self.subscriptions
                .entry(subscription)
                .or_insert_with(|| Subscription::new(connection));
        }
        self.ask(context.now, asker, question);
        self.abandon_if_unavailable(context);
        None
    }

    fn abandon_if_unavailable(&mut self, context: &mut HostContext<'_>) {
        if self.is_unavailable {
            self.abandon(&mut reach(context));
        }
    }

    /// Takes note of what became of messages; answers how many of them the subscription had.
    pub(super) fn settle_held(&mut self, settle: &Settle) -> u64 {
        let Some(subscription) = self.subscriptions.get_mut(&settle.subscription) else {
            return 0;
        };
        let (released, count) = subscription.release(settle.priority_log, settle.range.clone());
        if count == 0 {
            return 0;
        }
        self.forget_if_done(settle.subscription);
        for (range, acquired) in released {
            let settle = Settle {
                range,
                ..settle.clone()
            };
            self.push_settle(settle, acquired);
        }
        count
    }
}

impl QueueHost for RemoteQueue {
    fn publish(
        &mut self,
        _context: &mut HostContext<'_>,
        message: &Message,
        _bodies: &mut Bodies,
        notify: &Notify,
    ) -> Enqueued {
        if self.is_unavailable {
            return Enqueued::Rejected;
        }
        let operation = Operation::Publish(message.clone());
        let (sequence, full) = self.keep(operation, notify.clone());
        Enqueued::Kept { sequence, full }
    }

    fn settle(&mut self, _context: &mut HostContext<'_>, settle: Settle) -> u64 {
        self.settle_held(&settle)
    }

    fn attach(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: Consumer,
        subscriber: Subscriber,
        link: ConsumerLink,
    ) -> Result<When, Option<AttachError>> {
        let connection = connection_of(subscriber);
        let mut subscription = Subscription::new(connection);
        subscription.consumer = Some(consumer);
        subscription.link = Some(link);
        self.subscriptions.insert(consumer.id, subscription);
        let asker = Asker::Connection(connection);
        self.ask(context.now, asker, Question::Attach(consumer));
        self.abandon_if_unavailable(context);
        Ok(When::Later)
    }

    fn cancel(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: ConsumerId,
        subscriber: Subscriber,
    ) -> When {
        if let Some(subscription) = self.subscriptions.get_mut(&consumer) {
            subscription.attached = false;
        }
        let asker = Asker::Connection(connection_of(subscriber));
        self.ask(context.now, asker, Question::Cancel(consumer));
        When::Later
    }

    fn detach(&mut self, _context: &mut HostContext<'_>, subscription: ConsumerId) {
        self.questions.forget(subscription);
        self.leave_waiting_deliveries(subscription);
        if self.subscriptions.remove(&subscription).is_some() {
            self.say(Command::Detach(subscription));
        }
    }

    fn unblock(&mut self, context: &mut HostContext<'_>, consumer: ConsumerId) {
        let reach = &mut reach(context);
        if self.leader.place == LeaderLocation::Led(reach.node) {
            self.say(Command::Credit {
                consumer,
                messages: 0,
                bytes: 0,
            });
        }
        self.forward(consumer, reach);
    }

    fn get(&mut self, context: &mut HostContext<'_>, get: Get) -> GetOutcome {
        let Get {
            subscription,
            subscriber,
            no_ack,
        } = get;
        let asker = match subscriber {
            Some(subscriber) => Asker::Connection(connection_of(subscriber)),
            None => Asker::Poll(subscription.0),
        };
        let question = Question::Get {
            subscription,
            no_ack,
        };
        match self.put_question(context, asker, question) {
            Some(QueueAnswer::Got(Some((delivery, left)))) => GetOutcome::Message(delivery, left),
            Some(QueueAnswer::Got(None)) => GetOutcome::Empty,
            Some(_) => GetOutcome::Unavailable,
            None => GetOutcome::Pending,
        }
    }

    fn purge(&mut self, context: &mut HostContext<'_>, asker: Asker) -> Option<QueueAnswer> {
        self.put_question(context, asker, Question::Purge)
    }

    fn count(&mut self, context: &mut HostContext<'_>, asker: Asker) -> Option<QueueAnswer> {
        self.put_question(context, asker, Question::Count)
    }

    fn peek(
        &mut self,
        context: &mut HostContext<'_>,
        asker: Asker,
        before: u64,
    ) -> Option<QueueAnswer> {
        self.put_question(context, asker, Question::Peek { before })
    }

    fn holds(&self, subscription: ConsumerId) -> bool {
        self.subscriptions.contains_key(&subscription)
    }

    fn single_active(&self, consumer: ConsumerId) -> Option<bool> {
        let activation = self.subscriptions.get(&consumer)?.activation?;
        Some(activation > 0)
    }
}
