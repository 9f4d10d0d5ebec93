//! The messages between a remote queue and its leader in a session.

use super::waiting_deliveries::Incoming;
use super::{
    LeaderLocation, Put, Question, RemoteContext, RemoteQueue, Request, Subscription, acquired,
};
use crate::events::{QueueAnswer, QueueEvent};
use crate::notify::Notify;
use crate::queue_host::Asker;
use crate::quorum::protocol::{Command, Event, Operation};
use leveret_client::{Delivery, Reply};
use leveret_queue::{Outcome, Settle};
use leveret_types::limits::QUORUM_QUIET_MS;
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now};
use std::collections::VecDeque;
use std::ops::Range;

/// Settles that are said together later than at once, at most.
const PATIENT_SETTLES: u64 = 4;
/// Times that a leader says that publishes are refused after which it is told that this is known.
const REFUSALS_UNTOLD: u32 = 64;

/// The session that was registered last.
#[derive(Debug)]
pub(super) struct Session {
    /// Its number; 0 before the first.
    pub(super) number: u64,
    /// A registration that is to be sent.
    pub(super) present: bool,
    /// Whether a leader may know subscriptions that are gone: it has not heard of that, or may not
    /// have.
    pub(super) owes: bool,
    /// Number of the next operation that this session has not sent.
    pub(super) sent: u64,
    /// Number of the next operation that no session has sent.
    pub(super) ever_sent: u64,
    /// When operations were said last, on the monotonic clock.
    pub(super) said_ms: u64,
    /// How often something was refused since the leader was told what is known here.
    pub(super) refusals: u32,
    /// What else is to be said, each before the operation of that number.
    pub(super) control: VecDeque<(u64, Command)>,
}

impl Session {
    pub const fn new() -> Self {
        Self {
            number: 0,
            present: false,
            owes: false,
            sent: 1,
            ever_sent: 1,
            said_ms: 0,
            refusals: 0,
            control: VecDeque::new(),
        }
    }

    /// Another one begins, with a registration and the operations from `first` on.
    pub(super) fn begin(&mut self, number: u64, first: u64) {
        self.number = number;
        self.present = true;
        self.sent = first;
        self.refusals = 0;
        self.control.clear();
    }

    /// It is over. If there `was` a leader, that may not have heard what was said to it last, and
    /// may not know that it is lost.
    pub(super) fn end(&mut self, was: bool) {
        self.owes |= was;
        self.present = false;
        self.control.clear();
    }

    /// The operations up to `until` are sent.
    pub(super) fn sent_until(&mut self, until: u64) {
        self.sent = until;
        self.ever_sent = self.ever_sent.max(until);
    }
}

impl RemoteQueue {
    /// Puts out what is to be said to the leader, as far as there is room for it: `room` takes what
    /// an operation weighs.
    pub(crate) fn flush(
        &mut self,
        start: u64,
        mut room: impl FnMut(usize) -> bool,
        mut put: impl FnMut(Put<'_, Box<dyn Iterator<Item = &'_ Operation> + '_>>),
    ) {
        match self.leader.location {
            LeaderLocation::Unknown => return,
            LeaderLocation::Contacted(_) => {
                if std::mem::take(&mut self.session.present) {
                    let registration = Box::new(self.registration(start));
                    put(Put::Message(Command::Register(registration)));
                }
                return;
            }
            LeaderLocation::Led(_) => {}
        }
        loop {
            let until = self.session.control.front().map_or(u64::MAX, |(at, _)| *at);
            let until = until.min(self.pending_operations.next());
            let sent = self.session.sent;
            let fits = self.pending_operations.fitting(sent..until, &mut room);
            if sent < fits {
                let operations = self.pending_operations.range(sent..fits);
                put(Put::Operations(sent, Box::new(operations)));
                self.session.sent_until(fits);
            }
            if fits < until {
                break;
            }
            match self.session.control.pop_front() {
                Some((_, message)) => put(Put::Message(message)),
                None => break,
            }
        }
    }

    /// Whether nobody waits for what is to be said now: a few settles that come after a while, of
    /// consumers that may get as much as they hold without them.
    pub(crate) fn may_wait(&mut self, now: Now) -> bool {
        let unsent = self.session.sent..self.pending_operations.next();
        if unsent.is_empty() {
            return false;
        }
        let said_ms = std::mem::replace(&mut self.session.said_ms, now.monotonic_ms);
        let is_after_a_while = now.monotonic_ms >= said_ms + QUORUM_QUIET_MS;
        let is_led = matches!(self.leader.location, LeaderLocation::Led(_));
        let are_few = unsent.end - unsent.start <= PATIENT_SETTLES;
        if !is_after_a_while || !is_led || !are_few || !self.session.control.is_empty() {
            return false;
        }
        let mut operations = self.pending_operations.range(unsent);
        operations.all(|operation| match operation {
            Operation::Settle(settle) => self.has_credit_besides(settle),
            Operation::Publish(_) | Operation::Nothing => false,
        })
    }

    /// Whether a consumer may get at least as many messages as it holds, and has settled by this,
    /// before the leader hears of it.
    fn has_credit_besides(&self, settle: &Settle) -> bool {
        let is_for_nobody_else = settle.outcome == Outcome::Accept;
        let subscription = self.subscriptions.get(&settle.subscription);
        let of_consumer =
            subscription.and_then(|of| Some((of.consumer?.prefetch, of.unsettled_count)));
        let has_credit = of_consumer.is_none_or(|(prefetch, unsettled)| {
            let settled = settle.range.end - settle.range.start;
            prefetch == 0 || (unsettled + PATIENT_SETTLES + settled) * 2 <= u64::from(prefetch)
        });
        is_for_nobody_else && has_credit
    }

    /// Takes in what a leader says in the session. `next` is the session that a registration at
    /// another node would begin.
    pub(crate) fn receive(
        &mut self,
        from: NodeId,
        message: Event,
        next: u64,
        context: &mut RemoteContext<'_>,
    ) {
        match message {
            Event::Leading { term } => {
                self.leading(from, term, next, context);
            }
            Event::NotLeader { term, leader } => {
                self.not_leader(from, (term, leader), next, context);
            }
            Event::Committed { through } => self.committed(from, through, context),
            Event::Refused { sequences } => self.refused(sequences, context),
            Event::Attached { consumer, result } => {
                let answer = QueueAnswer::Attached { consumer, result };
                let question =
                    |of: &Question| matches!(of, Question::Attach(new) if new.id == consumer);
                match (self.subscriptions.get_mut(&consumer), result) {
                    (Some(subscription), Ok(())) => subscription.attached = true,
                    (Some(subscription), Err(_)) => {
                        // It was attached to a leader before, and another is exclusive now.
                        if subscription.attached {
                            let cancel = QueueEvent::CancelConsumer(consumer);
                            context.post(subscription.connection, cancel);
                        }
                        self.subscriptions.remove(&consumer);
                        self.say(Command::Detach(consumer));
                    }
                    (None, Ok(())) => self.say(Command::Detach(consumer)),
                    (None, Err(_)) => {}
                }
                self.answer(question, answer, context);
            }
            Event::Deliver(delivery) => self.arrive(Incoming::Whole(delivery), context),
            Event::DeliverLocal(delivery) => self.arrive(Incoming::Local(delivery), context),
            Event::Fetched {
                consumer,
                priority_log,
                index,
                fetched,
            } => self.fetched((consumer, priority_log, index), fetched, context),
            Event::Cancelled(consumer) => self.arrive(Incoming::Cancelled(consumer), context),
            Event::Got { subscription, got } => self.got(subscription, got, context),
            Event::Purged { request, count } => {
                self.answer_request(request, QueueAnswer::Purged(count), context);
            }
            Event::Counted {
                request,
                queue_counts,
            } => {
                self.queue_counts = queue_counts;
                self.answer_request(request, QueueAnswer::Counted(queue_counts), context);
            }
            Event::Peeked { request, fetched } => {
                self.answer_request(request, QueueAnswer::Peeked(fetched), context);
            }
            Event::TimedOut(consumer) => {
                if let Some(subscription) = self.subscriptions.get(&consumer) {
                    context.post(subscription.connection, QueueEvent::TimedOut(consumer));
                }
            }
            Event::Active {
                consumer,
                activation,
            } => {
                if let Some(subscription) = self.subscriptions.get_mut(&consumer) {
                    subscription.activation = Some(activation);
                }
            }
        }
    }

    pub(super) fn committed(
        &mut self,
        from: NodeId,
        through: u64,
        context: &mut RemoteContext<'_>,
    ) {
        if self.leader.location == LeaderLocation::Contacted(from) {
            self.established(from);
        }
        let mut told: Vec<ConnectionId> = Vec::new();
        while let Some(pending) = self.pending_operations.pop_through(through) {
            match pending.notify {
                Notify::Nobody => {}
                Notify::Connection(connection) => {
                    if told.last() != Some(&connection) && !told.contains(&connection) {
                        told.push(connection);
                    }
                }
                Notify::Then(then) => context.effects.deferred.extend(then.filled()),
            }
        }
        let first = self.pending_operations.first();
        self.session.sent = self.session.sent.max(first);
        if self.session.refusals >= REFUSALS_UNTOLD {
            self.session.refusals = 0;
            self.say(Command::Acknowledged { first });
        }
        self.waiters.retain(|(until, connection)| {
            let waits = *until > through;
            if !waits && !told.contains(connection) {
                told.push(*connection);
            }
            waits
        });
        let queue = self.queue;
        for connection in told {
            context.post(connection, QueueEvent::Committed { queue, through });
        }
        self.let_go_on(context);
    }

    pub(super) fn refused(&mut self, sequences: Range<u64>, context: &mut RemoteContext<'_>) {
        let queue = self.queue;
        self.session.refusals = self.session.refusals.saturating_add(1);
        self.pending_operations
            .void(sequences, |number, notify| match notify {
                Notify::Nobody => {}
                Notify::Connection(connection) => {
                    let refused = QueueEvent::Refused {
                        queue,
                        sequences: number..number + 1,
                    };
                    context.effects.posts.push((connection, refused));
                }
                Notify::Then(then) => {
                    then.refuse();
                    context.effects.deferred.extend(then.filled());
                }
            });
    }

    /// A message for a consumer.
    pub(super) fn deliver(&mut self, delivery: Delivery, context: &mut RemoteContext<'_>) {
        // A leader on this node has asked the connection itself.
        let is_admitted = self.is_led_here(context);
        let Some(subscription) = self.subscriptions.get_mut(&delivery.consumer) else {
            return self.say_gone(delivery.consumer);
        };
        if subscription.settles() {
            let acquired = acquired(delivery.acquired_count, delivery.redelivered);
            subscription.hold(delivery.priority_log, delivery.index, acquired);
        }
        if is_admitted && subscription.waiting.is_empty() {
            return context.post(subscription.connection, QueueEvent::Deliver(delivery));
        }
        let consumer = delivery.consumer;
        let session = if is_admitted { 0 } else { self.session.number };
        subscription.waiting.push_back((session, delivery));
        self.forward(consumer, context);
    }

    /// A delivery came for a subscription that is gone, and the leader has been told, or will be.
    /// What came meanwhile returns by that: as an operation it might take effect late, on a message
    /// that another has.
    pub(super) fn say_gone(&mut self, consumer: ConsumerId) {
        let is_said = matches!(self.session.control.back(),
            Some((_, Command::Detach(last))) if *last == consumer);
        if !is_said {
            self.say(Command::Detach(consumer));
        }
    }

    pub(super) fn give_back(&mut self, delivery: &Delivery) {
        let settle = Settle {
            subscription: delivery.consumer,
            priority_log: delivery.priority_log,
            range: delivery.index..delivery.index + 1,
            outcome: Outcome::Release,
        };
        self.push_settle(
            settle,
            acquired(delivery.acquired_count, delivery.redelivered),
        );
    }

    /// No delivery for this consumer comes any more.
    pub(super) fn cancelled(&mut self, consumer: ConsumerId, context: &mut RemoteContext<'_>) {
        if self.has_waiting_deliveries() {
            let keeps = self
                .subscriptions
                .get(&consumer)
                .is_none_or(Subscription::settles);
            self.clear_waiting_deliveries_of(consumer, keeps, context);
        }
        if let Some(subscription) = self.subscriptions.get_mut(&consumer) {
            let keeps = subscription.settles();
            subscription.consumer = None;
            subscription.attached = false;
            subscription.connection_credit = None;
            let (connection, waiting) = (
                subscription.connection,
                std::mem::take(&mut subscription.waiting),
            );
            for (_, delivery) in waiting {
                if keeps {
                    let range = delivery.index..delivery.index + 1;
                    self.settle_unsettled(&Settle {
                        subscription: consumer,
                        priority_log: delivery.priority_log,
                        range,
                        outcome: Outcome::Release,
                    });
                } else {
                    // It is settled already: it goes to the client, room or not.
                    context.post(connection, QueueEvent::Deliver(delivery));
                }
            }
        }
        let is_it = |question: &Question| *question == Question::Cancel(consumer);
        if let Some(request) = self.take_request(is_it)
            && let Asker::Connection(connection) = request.asker
        {
            context.post(connection, QueueEvent::Reply(Reply::Done));
        }
        self.forget_if_done(consumer);
    }

    pub(super) fn got(
        &mut self,
        subscription: ConsumerId,
        got: Option<(Delivery, u64)>,
        context: &mut RemoteContext<'_>,
    ) {
        let of_get = |question: &Question| matches!(question, Question::Get { .. });
        let is_it =
            |question: &Question| of_get(question) && question.subscription() == Some(subscription);
        let Some(request) = self.take_request(is_it) else {
            // Nobody waits for it any more.
            if let Some((delivery, _)) = got {
                self.give_back(&delivery);
            }
            return;
        };
        if let (Some((delivery, _)), Question::Get { no_ack: false, .. }) =
            (&got, &request.question)
            && let Some(subscription) = self.subscriptions.get_mut(&subscription)
        {
            let acquired = acquired(delivery.acquired_count, delivery.redelivered);
            subscription.hold(delivery.priority_log, delivery.index, acquired);
        }
        self.forget_if_done(subscription);
        self.tell(request.asker, QueueAnswer::Got(got), context);
    }

    pub(super) fn take_request(&mut self, is_it: impl Fn(&Question) -> bool) -> Option<Request> {
        self.questions.take(|request| is_it(&request.question))
    }

    pub(super) fn answer(
        &mut self,
        is_it: impl Fn(&Question) -> bool,
        answer: QueueAnswer,
        context: &mut RemoteContext<'_>,
    ) {
        if let Some(request) = self.take_request(is_it) {
            self.tell(request.asker, answer, context);
        }
    }

    /// Answers a question, unless that asked for something else.
    pub(super) fn answer_request(
        &mut self,
        id: u64,
        answer: QueueAnswer,
        context: &mut RemoteContext<'_>,
    ) {
        let fits = |question: &Question| {
            matches!(
                (question, &answer),
                (Question::Purge, QueueAnswer::Purged(_))
                    | (Question::Count, QueueAnswer::Counted(_))
                    | (Question::Peek { .. }, QueueAnswer::Peeked(_))
            )
        };
        let is_it = |request: &Request| request.id == id && fits(&request.question);
        if let Some(request) = self.questions.take(is_it) {
            self.tell(request.asker, answer, context);
        }
    }

    pub(super) fn tell(
        &mut self,
        asker: Asker,
        answer: QueueAnswer,
        context: &mut RemoteContext<'_>,
    ) {
        match asker {
            Asker::Connection(connection) => {
                let queue = self.queue;
                context.post(connection, QueueEvent::Answered { queue, answer });
            }
            Asker::Poll(poll) => self.questions.park(poll, answer),
        }
    }
}
