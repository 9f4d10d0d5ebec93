//! A queue's proxy on one node: what this node's clients want of the queue, kept until its leader
//! has done it, and what they hold.
//!
//! ```text
//!             locate            Committed
//! Unknown ───────────► Asked ─────────────► Led
//!    ▲                  │ NotLeader, time     │ NotLeader, node down
//!    └──────────────────┴─────────────────────┘
//! ```
//! With a presentation a session begins; it lasts as long as the leader does and the way to it. A
//! new session begins with all that the leader must know, so that a loss of anything on the way
//! changes nothing.
//!
//! Invariant: an operation leaves the journal only when the leader has said that it is committed,
//! and takes effect once however often it is sent: its number is the same each time.
//! Invariant: what a consumer holds is in the presentation until the settle of it is committed.

mod end;
mod heard;
mod holder;
mod kept;
mod line;
mod place;

pub(crate) use kept::{Afterwards, Budget, Notify};

use super::link::{Operation, Settle, Standing, ToLeader};
use crate::env::{ConnectionEvent, QueueAnswer};
use crate::link::ConsumerLink;
use crate::shard::ShardEffects;
use hashbrown::HashMap;
use holder::Holder;
use kept::{Journal, Kept};
use leveret_queue::Consumer;
use leveret_types::limits::{
    LEADER_WAIT_MS_MAX, LINK_CONSUMER_BYTES_MAX, LINK_CONSUMER_MESSAGES_MAX,
};
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};
use line::Line;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Milliseconds after which a leader is looked for again, twice as long each time: who leads says
/// so, and thousands of proxies that ask would keep the nodes from choosing.
const RETRY_MS: Range<u64> = 50..1_000;
/// Milliseconds within which a node that was asked must have answered.
const ANSWER_MS: u64 = 1_000;
/// Hints to other nodes that are followed at once; more of them wait for [`RETRY_MS`].
const HINTS_MAX: u32 = 3;

/// Where the leader is, as far as the proxy knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere.
    Unknown,
    /// This node was presented to, and has not answered yet.
    Asked(NodeId),
    /// On this node, which has taken the session.
    Led(NodeId),
}

/// Who asks something of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A connection: it is posted the answer.
    Connection(ConnectionId),
    /// Somebody who asks again with the same number until the answer is there.
    Poll(u64),
}

/// What is asked of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Attach(Consumer),
    Cancel(ConsumerId),
    Get { holder: ConsumerId, no_ack: bool },
    Purge,
    Count,
    Peek { before: u64 },
}

/// A question without an answer.
#[derive(Debug)]
struct Request {
    id: u64,
    asker: Asker,
    question: Question,
    until_ms: u64,
}

/// What a proxy's calls may reach.
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

/// What a proxy puts out for its leader.
pub(crate) enum Put<'a, I: Iterator<Item = &'a Operation>> {
    /// Operations, and the number of the first.
    Operations(u64, I),
    /// Anything else.
    Message(ToLeader),
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Proxy {
    queue: QueueId,
    place: Place,
    /// The session that was presented last; 0 before the first.
    session: u64,
    /// The latest term of which a leader was heard.
    term: u64,
    /// A presentation that is to be sent.
    present: bool,
    /// Whether a leader may know holders that are gone: it has not heard of that, or may not have.
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
    control: VecDeque<(u64, ToLeader)>,
    holders: HashMap<ConsumerId, Holder, foldhash::fast::FixedState>,
    requests: Vec<Request>,
    next_request: u64,
    /// Connections that are held back until there is room.
    throttled: Vec<ConnectionId>,
    /// Connections that wait for all operations up to a number.
    waiters: Vec<(u64, ConnectionId)>,
    /// Deliveries that wait for their message, and what is behind them.
    line: Line,
    /// How the queue stood when it was last asked.
    standing: Standing,
    /// Answers for those who ask again.
    parked: VecDeque<(u64, QueueAnswer)>,
}

impl Proxy {
    /// The proxy of a queue, which keeps what `together` with others it may.
    pub(crate) fn new(queue: QueueId, together: Arc<Budget>) -> Self {
        Self {
            queue,
            place: Place::Unknown,
            session: 0,
            term: 0,
            present: false,
            owes: false,
            attempts: 0,
            hints: 0,
            retry_at_ms: 0,
            journal: Journal::new(together),
            sent: 1,
            ever_sent: 1,
            control: VecDeque::new(),
            holders: HashMap::default(),
            requests: Vec::new(),
            next_request: 1,
            throttled: Vec::new(),
            waiters: Vec::new(),
            line: Line::default(),
            standing: Standing::default(),
            parked: VecDeque::new(),
        }
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// Whether what a node says in the session may be the leader's words.
    pub(crate) fn is_with(&self, node: NodeId) -> bool {
        match self.place {
            Place::Unknown => true,
            Place::Asked(asked) | Place::Led(asked) => asked == node,
        }
    }

    pub(crate) const fn session(&self) -> u64 {
        self.session
    }

    /// How the queue stood when it was last asked.
    pub(crate) const fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether it needs a leader.
    pub(crate) fn is_busy(&self) -> bool {
        self.owes || self.is_used()
    }

    /// Whether somebody wants something of the queue.
    fn is_used(&self) -> bool {
        !self.journal.is_empty() || !self.holders.is_empty() || !self.requests.is_empty()
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
    pub(crate) fn publish(&mut self, operation: Operation, notify: Notify) -> (u64, bool) {
        if let Notify::Then(then) = &notify {
            then.more();
        }
        let sequence = self.journal.push(Kept {
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

    /// Takes note of what became of messages; answers how many of them the holder had.
    pub(crate) fn settle(&mut self, settle: Settle) -> u64 {
        let Some(holder) = self.holders.get_mut(&settle.holder) else {
            return 0;
        };
        let (released, count) = holder.release(settle.lane, settle.range.clone());
        if count == 0 {
            return 0;
        }
        self.forget_if_done(settle.holder);
        for (range, acquired) in released {
            let settle = Settle {
                range,
                ..settle.clone()
            };
            self.push_settle(settle, acquired);
        }
        count
    }

    fn push_settle(&mut self, settle: Settle, acquired: u32) {
        // Neighbours that have not been sent are one operation.
        let next = self.journal.next();
        let is_last = self.control.back().is_none_or(|(at, _)| *at < next);
        if is_last
            && let Some(last) = self.journal.last_from(self.ever_sent)
            && last.acquired == acquired
            && let Operation::Settle(before) = &mut last.operation
            && before.holder == settle.holder
            && before.lane == settle.lane
            && before.outcome == settle.outcome
            && before.range.end == settle.range.start
        {
            before.range.end = settle.range.end;
            return;
        }
        self.journal.push(Kept {
            operation: Operation::Settle(settle),
            notify: Notify::Nobody,
            acquired,
        });
    }

    fn forget_if_done(&mut self, id: ConsumerId) {
        let done = self.holders.get(&id).is_some_and(|holder| {
            holder.consumer.is_none() && holder.held_count == 0 && holder.waiting.is_empty()
        });
        let asked = self
            .requests
            .iter()
            .any(|request| request.question.holder() == Some(id));
        if done && !asked {
            self.holders.remove(&id);
        }
    }

    /// Attaches a consumer: the answer is posted to its connection.
    pub(crate) fn attach(
        &mut self,
        now: Now,
        consumer: Consumer,
        connection: ConnectionId,
        link: ConsumerLink,
    ) {
        let mut holder = Holder::new(connection);
        holder.consumer = Some(consumer);
        holder.link = Some(link);
        self.holders.insert(consumer.id, holder);
        self.ask(
            now,
            Asker::Connection(connection),
            Question::Attach(consumer),
        );
    }

    /// Cancels a consumer: `Done` is posted to its connection, behind its last delivery.
    pub(crate) fn cancel(&mut self, now: Now, consumer: ConsumerId, connection: ConnectionId) {
        if let Some(holder) = self.holders.get_mut(&consumer) {
            holder.attached = false;
        }
        self.ask(
            now,
            Asker::Connection(connection),
            Question::Cancel(consumer),
        );
    }

    /// Whether it knows this holder: a consumer, one that holds messages, or one that asks.
    pub(crate) fn holds(&self, holder: ConsumerId) -> bool {
        self.holders.contains_key(&holder)
    }

    /// Whether a consumer is the single active one, if the leader has said so or not.
    pub(crate) fn single_active(&self, consumer: ConsumerId) -> Option<bool> {
        let activation = self.holders.get(&consumer)?.activation?;
        Some(activation > 0)
    }

    /// A holder is gone.
    pub(crate) fn detach(&mut self, holder: ConsumerId) {
        self.requests
            .retain(|request| request.question.holder() != Some(holder));
        self.leave_line(holder);
        if self.holders.remove(&holder).is_some() {
            self.say(ToLeader::Detach(holder));
        }
    }

    /// Gets a message.
    pub(crate) fn get(&mut self, now: Now, asker: Asker, holder: ConsumerId, no_ack: bool) {
        let connection = match asker {
            Asker::Connection(connection) => connection,
            Asker::Poll(_) => ConnectionId(0),
        };
        self.holders
            .entry(holder)
            .or_insert_with(|| Holder::new(connection));
        self.ask(now, asker, Question::Get { holder, no_ack });
    }

    /// Drops all ready messages.
    pub(crate) fn purge(&mut self, now: Now, asker: Asker) {
        self.ask(now, asker, Question::Purge);
    }

    /// Asks how the queue stands.
    pub(crate) fn count(&mut self, now: Now, asker: Asker) {
        self.ask(now, asker, Question::Count);
    }

    /// Asks for the ready message that has so many before it.
    pub(crate) fn peek(&mut self, now: Now, asker: Asker, before: u64) {
        self.ask(now, asker, Question::Peek { before });
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
        if matches!(self.place, Place::Led(_)) {
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
    /// not be said: the presentation will; but not one that is on its way already.
    fn say(&mut self, message: ToLeader) {
        if self.place != Place::Unknown {
            self.control.push_back((self.journal.next(), message));
        }
    }

    /// Takes room at a consumer's connection for a message that a leader on this node is about to
    /// deliver.
    pub(crate) fn admits(&self, consumer: ConsumerId, bytes: u32) -> bool {
        let holder = self.holders.get(&consumer);
        holder.is_some_and(|holder| holder.admits(bytes))
    }

    /// A consumer's connection or channel has room again.
    pub(crate) fn unblock(&mut self, consumer: ConsumerId, reach: &mut Reach<'_>) {
        if self.place == Place::Led(reach.node) {
            self.say(ToLeader::Credit {
                consumer,
                messages: 0,
                bytes: 0,
            });
        }
        self.forward(consumer, reach);
    }

    /// Hands on what waits for room at the connection.
    fn forward(&mut self, consumer: ConsumerId, reach: &mut Reach<'_>) {
        let session = self.session;
        let Some(holder) = self.holders.get_mut(&consumer) else {
            return;
        };
        while let Some((of, delivery)) = holder.waiting.front() {
            if *of != 0 && !holder.admits(delivery.message.size()) {
                break;
            }
            let Some((of, delivery)) = holder.waiting.pop_front() else {
                break;
            };
            if of == session {
                holder.credit.0 += 1;
                holder.credit.1 += u64::from(delivery.message.size());
            }
            reach.post(holder.connection, ConnectionEvent::Deliver(delivery));
        }
        self.give_credit(consumer);
    }

    /// What was on its way to a consumer does not come.
    fn give_room_back(&mut self, consumer: ConsumerId, bytes: u32) {
        if let Some(holder) = self.holders.get_mut(&consumer) {
            holder.credit.0 += 1;
            holder.credit.1 += u64::from(bytes);
            self.give_credit(consumer);
        }
    }

    /// Tells the leader what has gone on, once that is worth a message.
    fn give_credit(&mut self, consumer: ConsumerId) {
        let Some(holder) = self.holders.get_mut(&consumer) else {
            return;
        };
        let (messages, bytes) = holder.credit;
        if messages >= LINK_CONSUMER_MESSAGES_MAX / 4 || bytes >= LINK_CONSUMER_BYTES_MAX / 4 {
            holder.credit = (0, 0);
            self.say(ToLeader::Credit {
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
    /// The holder that it concerns.
    fn holder(&self) -> Option<ConsumerId> {
        match self {
            Self::Attach(consumer) => Some(consumer.id),
            Self::Cancel(holder) | Self::Get { holder, .. } => Some(*holder),
            Self::Purge | Self::Count | Self::Peek { .. } => None,
        }
    }

    fn message(&self, id: u64) -> ToLeader {
        match self {
            Self::Attach(consumer) => ToLeader::Attach(*consumer),
            Self::Cancel(consumer) => ToLeader::Cancel(*consumer),
            Self::Get { holder, no_ack } => ToLeader::Get {
                holder: *holder,
                no_ack: *no_ack,
            },
            Self::Purge => ToLeader::Purge { request: id },
            Self::Count => ToLeader::Count { request: id },
            Self::Peek { before } => ToLeader::Peek {
                request: id,
                before: *before,
            },
        }
    }
}
