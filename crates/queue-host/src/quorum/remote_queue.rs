//! A queue's remote queue on one node: what this node's clients want of the queue, kept until its
//! leader has done it, and what they hold.
//!
//! ```text
//!             locate            Committed
//! Unknown ───────────► Asked ─────────────► Led
//!    ▲                  │ NotLeader, time     │ NotLeader, node down
//!    └──────────────────┴─────────────────────┘
//! ```
//! With a registration a session begins; it lasts as long as the leader does and the way to it. A
//! new session begins with all that the leader must know, so that a loss of anything on the way
//! changes nothing.
//!
//! Invariant: an operation stays pending until the leader has said that it is committed,
//! and takes effect once however often it is sent: its number is the same each time.
//! Invariant: what a consumer holds is in the registration until the settle of it is committed.

#[cfg(test)]
mod desk;
mod leader_location;
mod leader_search;
mod pending;
mod questions;
mod session;
mod subscription;
#[cfg(test)]
mod tests;
mod timers;
mod waiting_deliveries;

pub(crate) use leader_search::LeaderLocation;
pub(crate) use pending::Budget;

use super::protocol::{Command, Operation, QueueCounts};
use crate::delivery_credit::ConsumerCredit;
use crate::events::QueueAnswer;
use crate::events::QueueEvent;
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued, GetOutcome};
use crate::queue_host::{Asker, Get, HostContext, QueueHost, When};
use crate::shard::ShardEffects;
use crate::subscriber::Subscriber;
use hashbrown::HashMap;
use leader_search::LeaderSearch;
use leveret_queue::{AttachError, Consumer, Settle};
use leveret_types::limits::{LINK_CONSUMER_BYTES_MAX, LINK_CONSUMER_MESSAGES_MAX};
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};
use pending::{PendingOperation, PendingOperations};
use questions::Questions;
use questions::{Question, Request};
use session::Session;
use std::sync::Arc;
use subscription::Subscription;
use waiting_deliveries::WaitingDeliveries;

/// What a remote queue's calls may reach.
pub(crate) struct RemoteContext<'a> {
    pub(crate) now: Now,
    /// This node.
    pub(crate) node: NodeId,
    pub(crate) effects: &'a mut ShardEffects,
}

impl RemoteContext<'_> {
    fn post(&mut self, connection: ConnectionId, event: QueueEvent) {
        self.effects.posts.push((connection, event));
    }
}

/// What a remote queue puts out for its leader.
pub(crate) enum Put<'a, I: Iterator<Item = &'a Operation>> {
    /// Operations, and the number of the first.
    Operations(u64, I),
    /// Anything else.
    Message(Command),
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct RemoteQueue {
    queue: QueueId,
    leader: LeaderSearch,
    session: Session,
    /// Whether the queue's only node is down, so that nothing is worth waiting for.
    is_unavailable: bool,
    pending_operations: PendingOperations,
    subscriptions: HashMap<ConsumerId, Subscription, foldhash::fast::FixedState>,
    questions: Questions,
    /// Connections that are held back until there is room.
    throttled: Vec<ConnectionId>,
    /// Connections that wait for all operations up to a number.
    waiters: Vec<(u64, ConnectionId)>,
    /// Deliveries that wait for their message, and what is behind them.
    waiting_deliveries: WaitingDeliveries,
    /// How the queue stood when it was last asked.
    queue_counts: QueueCounts,
}

impl RemoteQueue {
    /// The remote queue of a queue, which keeps what `together` with others it may.
    pub fn new(queue: QueueId, together: Arc<Budget>) -> Self {
        Self {
            queue,
            leader: LeaderSearch::new(),
            session: Session::new(),
            is_unavailable: false,
            pending_operations: PendingOperations::new(together),
            subscriptions: HashMap::default(),
            questions: Questions::new(),
            throttled: Vec::new(),
            waiters: Vec::new(),
            waiting_deliveries: WaitingDeliveries::default(),
            queue_counts: QueueCounts::default(),
        }
    }

    pub(crate) const fn leader_location(&self) -> LeaderLocation {
        self.leader.location
    }

    /// The node that leads, or that was asked because it probably does.
    pub(crate) const fn leader(&self) -> Option<NodeId> {
        match self.leader.location {
            LeaderLocation::Led(node) | LeaderLocation::Contacted(node) => Some(node),
            LeaderLocation::Unknown => None,
        }
    }

    /// Whether there are operations of which no leader has said that they are committed.
    pub(crate) fn has_operations_under_way(&self) -> bool {
        !self.pending_operations.is_empty()
    }

    /// Whether what a node says in the session may be the leader's words.
    pub(crate) fn is_with(&self, node: NodeId) -> bool {
        match self.leader.location {
            LeaderLocation::Unknown => true,
            LeaderLocation::Contacted(pending) | LeaderLocation::Led(pending) => pending == node,
        }
    }

    pub(crate) const fn session(&self) -> u64 {
        self.session.number
    }

    pub(crate) const fn set_unavailable(&mut self, is_unavailable: bool) {
        self.is_unavailable = is_unavailable;
    }

    /// How the queue stood when it was last asked.
    pub(crate) const fn queue_counts(&self) -> QueueCounts {
        self.queue_counts
    }

    /// Whether it needs a leader.
    pub(crate) fn is_busy(&self) -> bool {
        self.session.owes || self.is_used()
    }

    /// Whether somebody wants something of the queue.
    fn is_used(&self) -> bool {
        !self.pending_operations.is_empty()
            || !self.subscriptions.is_empty()
            || !self.questions.is_empty()
    }

    /// The message that was published as the operation of this number, if it has no answer yet.
    pub(crate) fn published(&self, number: u64) -> Option<&Message> {
        match self.pending_operations.get(number)? {
            Operation::Publish(message) => Some(message),
            Operation::Settle(_) | Operation::Nothing => None,
        }
    }

    // ---- What this node's clients want.

    /// Takes a message; answers its number, and whether its publisher is to be held back.
    pub(crate) fn keep(&mut self, operation: Operation, notify: Notify) -> (u64, bool) {
        if let Notify::Then(then) = &notify {
            then.more();
        }
        let sequence = self.pending_operations.push(PendingOperation {
            operation,
            notify,
            acquired: 0,
        });
        (sequence, self.pending_operations.is_full())
    }

    /// Holds a connection back until there is room; false if there is.
    pub(crate) fn hold_back(&mut self, connection: ConnectionId) -> bool {
        let full = self.pending_operations.is_full();
        if full && !self.throttled.contains(&connection) {
            self.throttled.push(connection);
            self.pending_operations.together().register_waiter();
        }
        full
    }

    /// Lets those go on that were held back, if there is room.
    pub(crate) fn let_go_on(&mut self, context: &mut RemoteContext<'_>) {
        if self.pending_operations.is_roomy() {
            for connection in self.throttled.drain(..) {
                context.post(connection, QueueEvent::Room(self.queue));
            }
        }
    }

    fn push_settle(&mut self, settle: Settle, acquired: u32) {
        // Neighbours that have not been sent are one operation.
        let next = self.pending_operations.next();
        let is_last = self.session.control.back().is_none_or(|(at, _)| *at < next);
        if is_last
            && let Some(last) = self.pending_operations.last_from(self.session.ever_sent)
            && last.acquired == acquired
            && let Operation::Settle(before) = &mut last.operation
            && before.subscription == settle.subscription
            && before.priority_log == settle.priority_log
            && before.outcome == settle.outcome
            && before.range.end == settle.range.start
        {
            before.range.end = settle.range.end;
            return;
        }
        self.pending_operations.push(PendingOperation {
            operation: Operation::Settle(settle),
            notify: Notify::Nobody,
            acquired,
        });
    }

    fn forget_if_done(&mut self, id: ConsumerId) {
        let done = self.subscriptions.get(&id).is_some_and(|subscription| {
            subscription.consumer.is_none()
                && subscription.unsettled_count == 0
                && subscription.waiting.is_empty()
        });
        if done && !self.questions.concern(id) {
            self.subscriptions.remove(&id);
        }
    }

    /// A connection wants to hear when all operations up to now are committed; nothing if they are.
    pub(crate) fn wait_for_all(&mut self, connection: ConnectionId) -> Option<u64> {
        if self.pending_operations.is_empty() {
            return None;
        }
        let last = self.pending_operations.next() - 1;
        // A leader lets settles gather for which nobody waits.
        if let Some(Operation::Settle(_)) = self.pending_operations.get(last) {
            self.pending_operations.push(PendingOperation {
                operation: Operation::Nothing,
                notify: Notify::Nobody,
                acquired: 0,
            });
        }
        self.waiters.push((last, connection));
        Some(last)
    }

    fn ask(&mut self, now: Now, asker: Asker, question: Question) {
        let message = self.questions.ask(now, asker, question);
        if self.leader.is_known() {
            self.say(message);
        }
    }

    /// Says something to the leader, behind all operations that there are. Without a leader it need
    /// not be said: the registration will; but not one that is on its way already.
    fn say(&mut self, message: Command) {
        if self.leader.location != LeaderLocation::Unknown {
            self.session
                .control
                .push_back((self.pending_operations.next(), message));
        }
    }

    /// Takes room at a consumer's connection for a message that a leader on this node is about to
    /// deliver.
    pub(crate) fn admits(&self, consumer: ConsumerId, bytes: u32) -> bool {
        let subscription = self.subscriptions.get(&consumer);
        subscription.is_some_and(|subscription| subscription.admits(bytes))
    }

    /// Hands on what waits for room at the connection.
    fn forward(&mut self, consumer: ConsumerId, context: &mut RemoteContext<'_>) {
        let session = self.session.number;
        let Some(subscription) = self.subscriptions.get_mut(&consumer) else {
            return;
        };
        while let Some((of, delivery)) = subscription.waiting.front() {
            if *of != 0 && !subscription.admits(delivery.message.size()) {
                break;
            }
            let Some((of, delivery)) = subscription.waiting.pop_front() else {
                break;
            };
            if of == session {
                subscription.credit.0 += 1;
                subscription.credit.1 += u64::from(delivery.message.size());
            }
            context.post(subscription.connection, QueueEvent::Deliver(delivery));
        }
        self.give_credit(consumer);
    }

    /// What was on its way to a consumer does not come.
    fn give_room_back(&mut self, consumer: ConsumerId, bytes: u32) {
        if let Some(subscription) = self.subscriptions.get_mut(&consumer) {
            subscription.credit.0 += 1;
            subscription.credit.1 += u64::from(bytes);
            self.give_credit(consumer);
        }
    }

    /// Tells the leader what has gone on, once that is worth a message.
    fn give_credit(&mut self, consumer: ConsumerId) {
        let Some(subscription) = self.subscriptions.get_mut(&consumer) else {
            return;
        };
        let (messages, bytes) = subscription.credit;
        if messages >= LINK_CONSUMER_MESSAGES_MAX / 4 || bytes >= LINK_CONSUMER_BYTES_MAX / 4 {
            subscription.credit = (0, 0);
            self.say(Command::Credit {
                consumer,
                messages,
                bytes,
            });
        }
    }

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
            self.abandon(&mut remote_context(context));
        }
    }

    /// Takes note of what became of messages; answers how many of them the subscription had.
    fn settle_unsettled(&mut self, settle: &Settle) -> u64 {
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

/// As operations and commands for the leader, which answers later. It is asked by clients of its
/// own node alone.
impl QueueHost for RemoteQueue {
    fn publish(
        &mut self,
        _context: &mut HostContext<'_>,
        message: &Message,
        _bodies: &mut Bodies,
        notify: &Notify,
    ) -> Enqueued {
        if self.is_unavailable {
            // What lives with its node's process does not hold up a client's publish to others. A
            // message that another queue still has stays there: this may be its only target.
            let is_moved = matches!(notify, Notify::Then(then) if !then.is_publish());
            return match self.queue.is_transient() && !is_moved {
                true => Enqueued::Gone,
                false => Enqueued::Rejected,
            };
        }
        let operation = Operation::Publish(message.clone());
        let (sequence, full) = self.keep(operation, notify.clone());
        Enqueued::Kept { sequence, full }
    }

    fn settle(&mut self, _context: &mut HostContext<'_>, settle: Settle) -> u64 {
        self.settle_unsettled(&settle)
    }

    fn attach(
        &mut self,
        context: &mut HostContext<'_>,
        consumer: Consumer,
        subscriber: Subscriber,
        credit: ConsumerCredit,
    ) -> Result<When, Option<AttachError>> {
        let connection = connection_of(subscriber);
        let mut subscription = Subscription::new(connection);
        subscription.consumer = Some(consumer);
        subscription.connection_credit = Some(credit);
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
        let context = &mut remote_context(context);
        if self.leader.location == LeaderLocation::Led(context.node) {
            self.say(Command::Credit {
                consumer,
                messages: 0,
                bytes: 0,
            });
        }
        self.forward(consumer, context);
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

    fn unsettled_by(&self, subscription: ConsumerId) -> (u64, Option<u64>) {
        let of = self.subscriptions.get(&subscription);
        // Since when is known where the queue is led.
        (of.map_or(0, |of| of.unsettled_count), None)
    }

    fn single_active(&self, consumer: ConsumerId) -> Option<bool> {
        let activation = self.subscriptions.get(&consumer)?.activation?;
        Some(activation > 0)
    }
}

/// What a remote queue reaches of what a host of a queue does.
const fn remote_context<'a>(context: &'a mut HostContext<'_>) -> RemoteContext<'a> {
    RemoteContext {
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

/// How often somebody had the message of a delivery before. A queue that does not count says at
/// least whether anybody had.
fn acquired(count: Option<u32>, is_redelivered: bool) -> u32 {
    count.unwrap_or(u32::from(is_redelivered))
}
