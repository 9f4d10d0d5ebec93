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
//! Invariant: an operation leaves the journal only when the leader has said that it is committed,
//! and takes effect once however often it is sent: its number is the same each time.
//! Invariant: what a consumer holds is in the registration until the settle of it is committed.

mod hosting;
mod leader_events;
mod leader_location;
mod pending;
mod subscription;
mod timers;
mod waiting_deliveries;

pub(crate) use pending::Budget;

use super::link::{Command, Operation, QueueCounts, Settle};
use crate::env::{ConnectionEvent, QueueAnswer};
use crate::notify::Notify;
use crate::queue_host::Asker;
use crate::shard::ShardEffects;
use hashbrown::HashMap;
use leveret_queue::Consumer;
use leveret_types::limits::{
    LEADER_WAIT_MS_MAX, LINK_CONSUMER_BYTES_MAX, LINK_CONSUMER_MESSAGES_MAX,
};
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};
use pending::{Journal, PendingOperation};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use subscription::Subscription;
use waiting_deliveries::WaitingDeliveries;

/// Milliseconds after which a leader is looked for again, twice as long each time: who leads says
/// so, and thousands of remote_queues that ask would keep the nodes from choosing.
const RETRY_MS: Range<u64> = 50..1_000;
/// Milliseconds within which a node that was asked must have answered.
const ANSWER_MS: u64 = 1_000;
/// Hints to other nodes that are followed at once; more of them wait for [`RETRY_MS`].
const HINTS_MAX: u32 = 3;

/// Where the leader is, as far as the remote_queue knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaderLocation {
    /// Nowhere.
    Unknown,
    /// This node was registered to, and has not answered yet.
    Asked(NodeId),
    /// On this node, which has taken the session.
    Led(NodeId),
}

/// What is asked of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Attach(Consumer),
    Cancel(ConsumerId),
    Get {
        subscription: ConsumerId,
        no_ack: bool,
    },
    Purge,
    Count,
    Peek {
        before: u64,
    },
}

/// A question without an answer.
#[derive(Debug)]
struct Request {
    id: u64,
    asker: Asker,
    question: Question,
    until_ms: u64,
}

/// What a remote_queue's calls may reach.
pub(crate) struct Reach<'a> {
    pub(crate) now: Now,
    /// This node.
    pub(crate) node: NodeId,
    pub(crate) effects: &'a mut ShardEffects,
}

impl Reach<'_> {
    fn post(&mut self, connection: ConnectionId, event: ConnectionEvent) {
        self.effects.posts.push((connection, event));
    }
}

/// What a remote_queue puts out for its leader.
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
    place: LeaderLocation,
    /// The session that was registered last; 0 before the first.
    session: u64,
    /// The latest term of which a leader was leader_events.
    term: u64,
    /// Whether the queue's only node is down, so that nothing is worth waiting for.
    is_unavailable: bool,
    /// A registration that is to be sent.
    present: bool,
    /// Whether a leader may know subscriptions that are gone: it has not leader_events of that, or
    /// may not have.
    owes: bool,
    /// Looks for the leader since it was last known.
    attempts: u32,
    hints: u32,
    retry_at_ms: u64,
    journal: Journal,
    /// Number of the next operation that this session has not sent.
    sent: u64,
    /// Number of the next operation that no session has sent.
    ever_sent: u64,
    /// What else is to be said, each before the operation of that number.
    control: VecDeque<(u64, Command)>,
    subscriptions: HashMap<ConsumerId, Subscription, foldhash::fast::FixedState>,
    requests: Vec<Request>,
    next_request: u64,
    /// Connections that are held back until there is room.
    throttled: Vec<ConnectionId>,
    /// Connections that wait for all operations up to a number.
    waiters: Vec<(u64, ConnectionId)>,
    /// Deliveries that wait for their message, and what is behind them.
    waiting_deliveries: WaitingDeliveries,
    /// How the queue stood when it was last asked.
    queue_counts: QueueCounts,
    /// Answers for those who ask again.
    parked: VecDeque<(u64, QueueAnswer)>,
}

impl RemoteQueue {
    /// The remote_queue of a queue, which keeps what `together` with others it may.
    pub(crate) fn new(queue: QueueId, together: Arc<Budget>) -> Self {
        Self {
            queue,
            place: LeaderLocation::Unknown,
            session: 0,
            term: 0,
            is_unavailable: false,
            present: false,
            owes: false,
            attempts: 0,
            hints: 0,
            retry_at_ms: 0,
            journal: Journal::new(together),
            sent: 1,
            ever_sent: 1,
            control: VecDeque::new(),
            subscriptions: HashMap::default(),
            requests: Vec::new(),
            next_request: 1,
            throttled: Vec::new(),
            waiters: Vec::new(),
            waiting_deliveries: WaitingDeliveries::default(),
            queue_counts: QueueCounts::default(),
            parked: VecDeque::new(),
        }
    }

    pub(crate) const fn place(&self) -> LeaderLocation {
        self.place
    }

    /// The node that leads, or that was asked because it probably does.
    pub(crate) const fn leader(&self) -> Option<NodeId> {
        match self.place {
            LeaderLocation::Led(node) | LeaderLocation::Asked(node) => Some(node),
            LeaderLocation::Unknown => None,
        }
    }

    /// Whether there are operations of which no leader has said that they are committed.
    pub(crate) fn has_operations_under_way(&self) -> bool {
        !self.journal.is_empty()
    }

    /// Whether what a node says in the session may be the leader's words.
    pub(crate) fn is_with(&self, node: NodeId) -> bool {
        match self.place {
            LeaderLocation::Unknown => true,
            LeaderLocation::Asked(asked) | LeaderLocation::Led(asked) => asked == node,
        }
    }

    pub(crate) const fn session(&self) -> u64 {
        self.session
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
        self.owes || self.is_used()
    }

    /// Whether somebody wants something of the queue.
    fn is_used(&self) -> bool {
        !self.journal.is_empty() || !self.subscriptions.is_empty() || !self.requests.is_empty()
    }

    /// The message that was published as the operation of this number, if it has no answer yet.
    pub(crate) fn published(&self, number: u64) -> Option<&Message> {
        match self.journal.get(number)? {
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
        let sequence = self.journal.push(PendingOperation {
            operation,
            notify,
            acquired: 0,
        });
        (sequence, self.journal.is_full())
    }

    /// Holds a connection back until there is room; false if there is.
    pub(crate) fn hold_back(&mut self, connection: ConnectionId) -> bool {
        let full = self.journal.is_full();
        if full && !self.throttled.contains(&connection) {
            self.throttled.push(connection);
            self.journal.together().wait();
        }
        full
    }

    /// Lets those go on that were held back, if there is room.
    pub(crate) fn let_go_on(&mut self, reach: &mut Reach<'_>) {
        if self.journal.is_roomy() {
            for connection in self.throttled.drain(..) {
                reach.post(connection, ConnectionEvent::Room(self.queue));
            }
        }
    }

    fn push_settle(&mut self, settle: Settle, acquired: u32) {
        // Neighbours that have not been sent are one operation.
        let next = self.journal.next();
        let is_last = self.control.back().is_none_or(|(at, _)| *at < next);
        if is_last
            && let Some(last) = self.journal.last_from(self.ever_sent)
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
        self.journal.push(PendingOperation {
            operation: Operation::Settle(settle),
            notify: Notify::Nobody,
            acquired,
        });
    }

    fn forget_if_done(&mut self, id: ConsumerId) {
        let done = self.subscriptions.get(&id).is_some_and(|subscription| {
            subscription.consumer.is_none()
                && subscription.held_count == 0
                && subscription.waiting.is_empty()
        });
        let asked = self
            .requests
            .iter()
            .any(|request| request.question.subscription() == Some(id));
        if done && !asked {
            self.subscriptions.remove(&id);
        }
    }

    /// The answer for one who asks again; `None` if there is none yet. `asked` says whether the
    /// question is under way.
    pub(crate) fn parked(&mut self, poll: u64) -> (Option<QueueAnswer>, bool) {
        let at = self.parked.iter().position(|(of, _)| *of == poll);
        let answer = at.and_then(|at| self.parked.remove(at));
        let mut requests = self.requests.iter();
        let asked = requests.any(|request| request.asker == Asker::Poll(poll));
        (answer.map(|(_, answer)| answer), asked)
    }

    /// A connection wants to hear when all operations up to now are committed; false if they are.
    pub(crate) fn wait_for_all(&mut self, connection: ConnectionId) -> Option<u64> {
        let last = self.journal.next() - 1;
        if self.journal.is_empty() {
            return None;
        }
        self.waiters.push((last, connection));
        Some(last)
    }

    fn ask(&mut self, now: Now, asker: Asker, question: Question) {
        let id = self.next_request;
        self.next_request += 1;
        if matches!(self.place, LeaderLocation::Led(_)) {
            let message = question.message(id);
            self.say(message);
        }
        self.requests.push(Request {
            id,
            asker,
            question,
            until_ms: now.monotonic_ms + LEADER_WAIT_MS_MAX,
        });
    }

    /// Says something to the leader, behind all operations that there are. Without a leader it need
    /// not be said: the registration will; but not one that is on its way already.
    fn say(&mut self, message: Command) {
        if self.place != LeaderLocation::Unknown {
            self.control.push_back((self.journal.next(), message));
        }
    }

    /// Takes room at a consumer's connection for a message that a leader on this node is about to
    /// deliver.
    pub(crate) fn admits(&self, consumer: ConsumerId, bytes: u32) -> bool {
        let subscription = self.subscriptions.get(&consumer);
        subscription.is_some_and(|subscription| subscription.admits(bytes))
    }

    /// Hands on what waits for room at the connection.
    fn forward(&mut self, consumer: ConsumerId, reach: &mut Reach<'_>) {
        let session = self.session;
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
            reach.post(subscription.connection, ConnectionEvent::Deliver(delivery));
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
}

/// How often somebody had the message of a delivery before. A queue that does not count says at
/// least whether anybody had.
fn acquired(count: Option<u32>, is_redelivered: bool) -> u32 {
    count.unwrap_or(u32::from(is_redelivered))
}

impl Question {
    /// The subscription that it concerns.
    fn subscription(&self) -> Option<ConsumerId> {
        match self {
            Self::Attach(consumer) => Some(consumer.id),
            Self::Cancel(subscription) | Self::Get { subscription, .. } => Some(*subscription),
            Self::Purge | Self::Count | Self::Peek { .. } => None,
        }
    }

    fn message(&self, id: u64) -> Command {
        match self {
            Self::Attach(consumer) => Command::Attach(*consumer),
            Self::Cancel(consumer) => Command::Cancel(*consumer),
            Self::Get {
                subscription,
                no_ack,
            } => Command::Get {
                subscription: *subscription,
                no_ack: *no_ack,
            },
            Self::Purge => Command::Purge { request: id },
            Self::Count => Command::Count { request: id },
            Self::Peek { before } => Command::Peek {
                request: id,
                before: *before,
            },
        }
    }
}
