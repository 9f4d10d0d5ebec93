//! A queue that is on this node alone, as the remote queues of other nodes see it.

use super::ClassicQueue;
use super::guests::Guest;
use crate::link::{ConsumerLink, Link};
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued};
use crate::queue_host::{Get, HostContext, QueueHost};
use crate::quorum::link::{Answer, Event, Fetched, Operation, Registration};
use crate::serving::{Credit, Query, ServesNodes};
use crate::subscriber::Subscriber;
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId};
use std::sync::Arc;

impl ClassicQueue {
    /// What a node's remote queue had is given back.
    pub(super) fn forget_guest(&mut self, context: &mut HostContext<'_>, node: NodeId) {
        if let Some(guest) = self.guests.remove(node) {
            for subscription in guest.subscriptions {
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
        let known = self.guests.get(from);
        if known.is_some_and(|guest| guest.session >= session) {
            return;
        }
        let same = known.filter(|guest| guest.start == registration.start);
        let taken = same.map_or(0, |guest| guest.taken);
        self.forget_guest(context, from);
        let through = taken.max(registration.first_sequence.saturating_sub(1));
        let guest = Guest::new(session, registration.start, through);
        self.guests.add(from, guest);
        self.say(context, from, Event::Committed { through });
    }

    fn absent(&mut self, _context: &mut HostContext<'_>, _from: NodeId, _term: u64) {}

    fn admits(&mut self, context: &mut HostContext<'_>, from: NodeId, session: u64) -> bool {
        match self.guests.get(from).map(|guest| guest.session) {
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
        let taken = self.guests.get(from).map_or(0, |guest| guest.taken);
        if first > taken + 1 {
            self.guests.remove(from);
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
        let guest = self.guests.get_mut(from);
        if guest.is_some_and(|guest| guest.took(last, chunk, is_durable)) {
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
        let link = Arc::<Link>::default();
        let place = ConsumerLink {
            link: Arc::clone(&link),
            limiter: None,
        };
        let subscriber = Subscriber::Node(from);
        let result = self.take_consumer(context, consumer, subscriber, place);
        if result.is_ok()
            && let Some(guest) = self.guests.get_mut(from)
        {
            guest.links.insert(id, link);
            guest.subscriptions.insert(id);
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
        if let Some(guest) = self.guests.get_mut(from) {
            guest.links.remove(&subscription);
            guest.subscriptions.remove(&subscription);
        }
    }

    fn credit(
        &mut self,
        context: &mut HostContext<'_>,
        from: NodeId,
        consumer: ConsumerId,
        Credit { messages, bytes }: Credit,
    ) {
        let guest = self.guests.get(from);
        let link = guest.and_then(|guest| guest.links.get(&consumer));
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if link.is_some_and(|link| link.give(messages as usize, bytes)) {
            self.unblock(context, consumer);
        }
    }

    fn ask(&mut self, context: &mut HostContext<'_>, from: NodeId, _session: u64, what: Query) {
        match what {
            Query::Get {
                subscription,
                no_ack,
            } => {
                if let Some(guest) = self.guests.get_mut(from) {
                    guest.subscriptions.insert(subscription);
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
                let fetched = self.look(context, before);
                let fetched = fetched.unwrap_or(Fetched::Unreadable);
                self.say(context, from, Event::Peeked { request, fetched });
            }
            // Every delivery of such a queue brings its message.
            Query::Fetch { .. } => {}
        }
    }
}
