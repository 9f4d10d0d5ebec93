//! A queue that is on this node alone, as the remote queues of other nodes see it.

use super::ClassicQueue;
use super::node_sessions::NodeSession;
use crate::delivery_credit::{ConsumerCredit, DeliveryCredit};
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued};
use crate::queue_host::{Get, HostContext, QueueHost};
use crate::quorum::protocol::{Answer, Event, Fetched, Operation, Registration};
use crate::serving::{Credit, Query, ServesNodes};
use crate::subscriber::Subscriber;
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId};
use std::sync::Arc;

impl ClassicQueue {
    /// What a node's remote queue had is given back.
    pub(super) fn end_session(&mut self, context: &mut HostContext<'_>, node: NodeId) {
        if let Some(node_session) = self.node_sessions.remove(node) {
            for subscription in node_session.subscriptions {
                QueueHost::detach(self, context, subscription);
            }
        }
    }

    fn ask_to_present(&self, context: &mut HostContext<'_>, to: NodeId) {
        context.answers.push(Answer {
            to,
            queue: self.id,
            session: 0,
            message: Event::Leading { term: 0 },
        });
    }

    /// Carries out an operation; whether the log must have it before it is committed.
    fn operate(
        &mut self,
        context: &mut HostContext<'_>,
        from: NodeId,
        sequence: u64,
        operation: Operation,
    ) -> bool {
        match operation {
            Operation::Nothing => {}
            Operation::Publish(message) => {
                let bodies = &mut Bodies::default();
                match QueueHost::publish(self, context, &message, bodies, &Notify::Nobody) {
                    Enqueued::Durable => return true,
                    Enqueued::Rejected | Enqueued::Gone => {
                        if let Some(node_session) = self.node_sessions.get_mut(from) {
                            node_session.refused.refuse(sequence);
                        }
                        let sequences = sequence..sequence + 1;
                        self.say(context, from, Event::Refused { sequences });
                    }
                    Enqueued::Volatile | Enqueued::Kept { .. } => {}
                }
            }
            Operation::Settle(settle) => {
                QueueHost::settle(self, context, settle);
            }
        }
        false
    }
}

impl ServesNodes for ClassicQueue {
    type Context<'a> = HostContext<'a>;

    fn present(
        &mut self,
        context: &mut HostContext<'_>,
        from: NodeId,
        session: u64,
        registration: &Registration,
    ) {
        let known = self.node_sessions.get(from);
        if known.is_some_and(|node_session| node_session.session >= session) {
            return;
        }
        let same = known.filter(|node_session| node_session.start == registration.start);
        let taken = same.map_or(0, |node_session| node_session.taken);
        let mut refused = same
            .map(|node_session| node_session.refused.clone())
            .unwrap_or_default();
        refused.acknowledged(registration.first_sequence);
        self.end_session(context, from);
        let through = taken.max(registration.first_sequence.saturating_sub(1));
        let mut node_session = NodeSession::new(session, registration.start, through);
        node_session.refused = refused.clone();
        self.node_sessions.add(from, node_session);
        for sequences in refused.numbers.iter() {
            self.say(context, from, Event::Refused { sequences });
        }
        self.say(context, from, Event::Committed { through });
    }

    fn nothing_to_register(&mut self, _context: &mut HostContext<'_>, _from: NodeId, _term: u64) {}

    fn admits(&mut self, context: &mut HostContext<'_>, from: NodeId, session: u64) -> bool {
        match self
            .node_sessions
            .get(from)
            .map(|node_session| node_session.session)
        {
            Some(known) if known == session => true,
            Some(known) if known > session => false,
            _ => {
                self.ask_to_present(context, from);
                false
            }
        }
    }

    fn operations(
        &mut self,
        context: &mut HostContext<'_>,
        from: NodeId,
        _session: u64,
        first: u64,
        operations: Vec<Operation>,
    ) {
        let taken = self
            .node_sessions
            .get(from)
            .map_or(0, |node_session| node_session.taken);
        if first > taken + 1 {
            self.node_sessions.remove(from);
            return self.ask_to_present(context, from);
        }
        let mut is_durable = false;
        let mut last = taken;
        for (sequence, operation) in (first..).zip(operations) {
            if sequence > taken {
                last = sequence;
                is_durable |= self.operate(context, from, sequence, operation);
            }
        }
        let chunk = context.logs.position();
        let node_session = self.node_sessions.get_mut(from);
        if node_session.is_some_and(|node_session| node_session.took(last, chunk, is_durable)) {
            self.say(context, from, Event::Committed { through: last });
        }
    }

    fn attach(&mut self, context: &mut HostContext<'_>, from: NodeId, consumer: Consumer) {
        let id = consumer.id;
        if self.queue.holds(id) {
            // Nodes bring none like that; one that does is not to end this one.
            tracing::warn!(queue = %self.id, node = %from, consumer = %id, "a node brings a consumer that is there already");
            return;
        }
        let credit = Arc::<DeliveryCredit>::default();
        let place = ConsumerCredit {
            connection: Arc::clone(&credit),
            limiter: None,
        };
        let subscriber = Subscriber::Node(from);
        let result = self.take_consumer(context, consumer, subscriber, place);
        if result.is_ok()
            && let Some(node_session) = self.node_sessions.get_mut(from)
        {
            node_session.credits.insert(id, credit);
            node_session.subscriptions.insert(id);
        }
        let consumer = id;
        self.say(context, from, Event::Attached { consumer, result });
        if self.single_active(consumer) == Some(false) {
            let activation = 0;
            let event = Event::Active {
                consumer,
                activation,
            };
            self.say(context, from, event);
        }
    }

    fn cancel(&mut self, context: &mut HostContext<'_>, from: NodeId, consumer: ConsumerId) {
        QueueHost::cancel(self, context, consumer, Subscriber::Node(from));
        self.say(context, from, Event::Cancelled(consumer));
    }

    fn detach(&mut self, context: &mut HostContext<'_>, from: NodeId, subscription: ConsumerId) {
        QueueHost::detach(self, context, subscription);
        if let Some(node_session) = self.node_sessions.get_mut(from) {
            node_session.credits.remove(&subscription);
            node_session.subscriptions.remove(&subscription);
        }
    }

    fn credit(
        &mut self,
        context: &mut HostContext<'_>,
        from: NodeId,
        consumer: ConsumerId,
        Credit { messages, bytes }: Credit,
    ) {
        let node_session = self.node_sessions.get(from);
        let credit = node_session.and_then(|node_session| node_session.credits.get(&consumer));
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if credit.is_some_and(|credit| credit.give(messages as usize, bytes)) {
            self.unblock(context, consumer);
        }
    }

    fn acknowledged(&mut self, _context: &mut HostContext<'_>, from: NodeId, first: u64) {
        if let Some(node_session) = self.node_sessions.get_mut(from) {
            node_session.refused.acknowledged(first);
        }
    }

    fn ask(&mut self, context: &mut HostContext<'_>, from: NodeId, _session: u64, what: Query) {
        match what {
            Query::Get {
                subscription,
                no_ack,
            } => {
                if let Some(node_session) = self.node_sessions.get_mut(from) {
                    node_session.subscriptions.insert(subscription);
                }
                let subscriber = Subscriber::Node(from);
                let get = Get {
                    subscription,
                    subscriber: Some(subscriber),
                    no_ack,
                };
                let outcome = self.get(context, get);
                self.answer_get(context, subscriber, subscription, outcome);
            }
            Query::Purge { request } => {
                let count = self.drop_ready(context);
                self.say(context, from, Event::Purged { request, count });
            }
            Query::Count { request } => {
                // A client asks because it declares the queue, which keeps its lease.
                self.touch(context.now);
                let queue_counts = self.counts(context);
                let event = Event::Counted {
                    request,
                    queue_counts,
                };
                self.say(context, from, event);
            }
            Query::Peek { request, before } => {
                let fetched = self.peek(context, before);
                let fetched = fetched.unwrap_or(Fetched::Unreadable);
                self.say(context, from, Event::Peeked { request, fetched });
            }
            // Every delivery of such a queue brings its message.
            Query::Fetch { .. } => {}
        }
    }
}
