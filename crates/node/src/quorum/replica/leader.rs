//! The leader of a queue: the queue machine, what is on its way to being committed, and whom it
//! serves on which node.

use super::header::{Header, Leaving, Returned};
use super::lanes::Lanes;
use super::{Around, attachment};
use crate::dead_letters::DeadLetters;
use crate::quorum::link::{
    Answer, HeldRange, Operation, Origin, Presentation, Settle, Standing, ToLeader, ToProxy, Window,
};
use crate::shard::{DeadLetter, Deferred, QueueSpec};
use crate::stored;
use bytes::Bytes;
use hashbrown::HashMap;
use leveret_queue::{
    Consumer, Effect, Got, Log, Meta, Offer, Outcome, Peek, Position, Queue, Reason, RecoveredLane,
    State,
};
use leveret_session::contract::Delivery;
use leveret_storage::{Read, ShardLogs};
use leveret_types::limits::{
    QUORUM_BATCH_BYTES, QUORUM_BATCH_ITEMS, QUORUM_PRESENT_MS_MAX, QUORUM_SETTLES_GATHER_MS,
};
use leveret_types::{ConsumerId, Message, NodeId, Now, QueueId};
use std::collections::VecDeque;
use std::ops::Range;

/// How a node's proxy speaks to this leader.
#[derive(Clone, Copy, Debug)]
struct Session {
    origin: Origin,
    /// Nothing while the way to the node is lost: what was taken is remembered, for it may be
    /// committed yet.
    number: Option<u64>,
    /// The last operation that was taken, committed or not.
    taken: u64,
}

/// Where a holder is.
#[derive(Debug)]
struct Place {
    node: NodeId,
    /// What may be under way to it, if it is on another node.
    window: Window,
}

/// What is asked of the queue when all that came before is committed.
#[derive(Clone, Copy, Debug)]
enum Request {
    Get {
        holder: ConsumerId,
        no_ack: bool,
    },
    Purge {
        request: u64,
    },
    Count {
        request: u64,
    },
    /// A purge is committed.
    Purged {
        request: u64,
        count: u64,
    },
}

/// A request, and whose.
#[derive(Clone, Copy, Debug)]
struct Asked {
    node: NodeId,
    session: u64,
    request: Request,
}

/// What has happened since the last entry was proposed.
#[derive(Debug, Default)]
struct Batch {
    header: Header,
    came: Vec<(Position, Meta)>,
    /// The messages that came, as they go to the followers.
    attachment: Vec<u8>,
    asked: Vec<Asked>,
    /// What goes back to the queue once that is committed.
    returns: Vec<GivenBack>,
    /// Since when there is something in it, on the monotonic clock, if it is settles alone, for
    /// which nobody waits.
    lazy_since_ms: Option<u64>,
    /// Whether somebody waits for something in it.
    is_awaited: bool,
}

/// An entry that is proposed and not committed.
#[derive(Debug)]
struct InFlight {
    index: u64,
    came: Vec<(Position, Meta)>,
    asked: Vec<Asked>,
    returns: Vec<GivenBack>,
}

/// What a holder gives back.
#[derive(Debug)]
struct GivenBack {
    /// The holder's node.
    from: NodeId,
    settle: Settle,
    /// When: what is known of the messages from then on counts from here.
    at: Now,
}

/// Operations that came while none could be taken.
#[derive(Debug)]
struct Waiting {
    node: NodeId,
    first: u64,
    operations: Vec<Operation>,
    /// A holder that is gone once these are taken: what it has settled before does not return.
    gone: Option<ConsumerId>,
}

/// What a look into the log gave.
enum Found {
    Message(Message),
    /// It is being read from disk.
    Pending,
    /// It cannot be read, now or later.
    Never,
}

/// A batch that is to be proposed.
pub(super) struct Closed {
    pub(super) header: Header,
    pub(super) attachment: Bytes,
}

/// The leader of one queue.
pub(super) struct Leader {
    id: QueueId,
    term: u64,
    queue: Queue,
    auto_delete: bool,
    had_consumer: bool,
    consumers: usize,
    sessions: Vec<Session>,
    holders: HashMap<ConsumerId, Place, foldhash::fast::FixedState>,
    /// Nodes that have not presented themselves yet, and until when they may.
    awaited: Vec<NodeId>,
    await_until_ms: u64,
    batch: Batch,
    in_flight: VecDeque<InFlight>,
    waiting: VecDeque<Waiting>,
    peeked: VecDeque<(Position, Message)>,
    dead: DeadLetters,
    waiting_gets: Vec<Asked>,
    scratch: Vec<Effect>,
    /// Whether what comes back now is known to be so from a committed entry.
    is_foreseen: bool,
    spare: Vec<(Position, Meta)>,
    /// Whether something has happened since the last pump.
    pub(super) dirty: bool,
}

/// What the queue machine sees of its surroundings.
struct View<'a> {
    queue: QueueId,
    own: NodeId,
    logs: &'a mut ShardLogs,
    peeked: &'a mut VecDeque<(Position, Message)>,
    holders: &'a mut HashMap<ConsumerId, Place, foldhash::fast::FixedState>,
    admit: &'a mut dyn crate::quorum::Admit,
}

impl Log for View<'_> {
    fn peek(&mut self, position: Position) -> Peek {
        if let Some((last, message)) = self.peeked.back()
            && *last == position
        {
            return Peek::Ready(meta_of(message));
        }
        let log = crate::shard::log_of(self.queue, position.lane);
        match self.logs.read(log, position.index) {
            Read::Ready(bytes) => match stored::decode(bytes) {
                Some(message) => {
                    let meta = meta_of(&message);
                    self.peeked.push_back((position, message));
                    Peek::Ready(meta)
                }
                None => Peek::Damaged,
            },
            Read::Pending => Peek::Pending,
            Read::Gone | Read::Damaged(_) => Peek::Damaged,
        }
    }

    fn admit(&mut self, consumer: ConsumerId, bytes: u32) -> bool {
        match self.holders.get_mut(&consumer) {
            Some(place) if place.node == self.own => self.admit.admit(self.queue, consumer, bytes),
            Some(place) => place.window.take(bytes),
            None => false,
        }
    }
}

fn meta_of(message: &Message) -> Meta {
    Meta {
        bytes: message.size(),
        published_ms: message.facts.published_ms,
        expiration_ms: message.facts.expiration_ms,
    }
}

/// The queue machine with its view of the surroundings, for one call.
macro_rules! on_queue {
    ($leader:ident, $around:ident, |$queue:ident, $view:ident, $out:ident| $call:expr) => {{
        let mut $view = View {
            queue: $leader.id,
            own: $around.node,
            logs: $around.logs,
            peeked: &mut $leader.peeked,
            holders: &mut $leader.holders,
            admit: $around.admit,
        };
        let ($queue, $out) = (&mut $leader.queue, &mut $leader.scratch);
        $call
    }};
}

impl Leader {
    /// The leader of a queue whose messages the logs have: all that its replicas know of it is
    /// committed. `nodes` are those that are up and may have consumers.
    pub(super) fn new(
        now: Now,
        id: QueueId,
        term: u64,
        spec: &QueueSpec,
        recovered: (Vec<RecoveredLane>, &State),
        nodes: Vec<NodeId>,
    ) -> Self {
        let (lanes, state) = recovered;
        let mut queue = Queue::recover(spec.kind, spec.settings.clone(), now, lanes, state);
        queue.tell_returns();
        Self {
            id,
            term,
            queue,
            auto_delete: spec.auto_delete,
            had_consumer: false,
            consumers: 0,
            sessions: Vec::new(),
            holders: HashMap::default(),
            awaited: nodes,
            await_until_ms: now.monotonic_ms + QUORUM_PRESENT_MS_MAX,
            batch: Batch::default(),
            in_flight: VecDeque::new(),
            waiting: VecDeque::new(),
            peeked: VecDeque::new(),
            dead: DeadLetters::default(),
            waiting_gets: Vec::new(),
            scratch: Vec::new(),
            is_foreseen: false,
            spare: Vec::new(),
            dirty: true,
        }
    }

    pub(super) const fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn update(&mut self, now: Now, spec: &QueueSpec) {
        self.queue.update_settings(now, spec.settings.clone());
        self.auto_delete = spec.auto_delete;
        self.dirty = true;
    }

    /// Whether all nodes have said what their consumers hold, so that the queue may act.
    pub(super) fn is_acting(&self) -> bool {
        self.awaited.is_empty()
    }

    /// The nodes that are served, and their sessions.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.sessions
            .iter()
            .filter_map(|session| Some((session.origin.node, session.number?)))
    }

    /// What is known of a node's run, and its session if it has one.
    fn session(&self, node: NodeId) -> Option<(&Session, u64)> {
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| session.origin.node == node)?;
        Some((session, session.number?))
    }

    fn answer(&self, around: &mut Around<'_>, to: NodeId, message: ToProxy) {
        let Some((_, session)) = self.session(to) else {
            return;
        };
        around.answers.push(Answer {
            to,
            queue: self.id,
            session,
            message,
        });
    }

    fn leading(&self, around: &mut Around<'_>, to: NodeId) {
        around.answers.push(Answer {
            to,
            queue: self.id,
            session: 0,
            message: ToProxy::Leading { term: self.term },
        });
    }

    /// Takes what a node's proxy says, but operations of a session: [`Self::operations`].
    pub(super) fn receive(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        session: u64,
        message: ToLeader,
        committed: impl FnOnce(Origin) -> Option<u64>,
    ) {
        match message {
            ToLeader::Present(presentation) => {
                return self.present(around, from, session, &presentation, committed);
            }
            ToLeader::Absent { term } => {
                if term == self.term {
                    self.awaited.retain(|node| *node != from);
                    self.dirty = true;
                }
                return;
            }
            _ => {}
        }
        match self.session(from) {
            None => return self.leading(around, from),
            // Said to a session that is over, or in one that this leader has not heard of yet.
            Some((_, known)) if known != session => return,
            Some(_) => {}
        }
        self.dirty = true;
        match message {
            ToLeader::Attach(consumer) => self.attach(around, from, consumer),
            ToLeader::Cancel(consumer) => {
                if self.queue.cancel(around.now, consumer, &mut self.scratch) {
                    self.consumers -= 1;
                }
                self.carry_out(around);
                self.answer(around, from, ToProxy::Cancelled(consumer));
                self.delete_if_unused(around);
            }
            ToLeader::Detach(holder) => self.detach(around, from, holder),
            ToLeader::Credit {
                consumer,
                messages,
                bytes,
            } => self.credit(around, consumer, messages, bytes),
            ToLeader::Get { holder, no_ack } => {
                self.holders.entry(holder).or_insert_with(|| Place {
                    node: from,
                    window: Window::default(),
                });
                self.ask(around, from, session, Request::Get { holder, no_ack });
            }
            ToLeader::Purge { request } => {
                self.ask(around, from, session, Request::Purge { request });
            }
            ToLeader::Count { request } => {
                self.ask(around, from, session, Request::Count { request });
            }
            ToLeader::Fetch {
                consumer,
                lane,
                index,
            } => self.fetch(around, from, consumer, Position { lane, index }),
            ToLeader::Present(_) | ToLeader::Absent { .. } | ToLeader::Operations { .. } => {}
        }
    }

    /// Whether a node speaks in the session that it began last.
    pub(super) fn is_current(&self, from: NodeId, session: u64) -> bool {
        self.session(from)
            .is_some_and(|(_, known)| known == session)
    }

    fn present(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        number: u64,
        presentation: &Presentation,
        committed: impl FnOnce(Origin) -> Option<u64>,
    ) {
        let is_of_term = presentation.term == self.term || presentation.term == 0;
        let mut sessions = self.sessions.iter();
        let before = sessions
            .find(|session| session.origin.node == from)
            .copied();
        let is_old = before.is_some_and(|known| {
            known.origin.start > presentation.start
                || (known.origin.start == presentation.start && known.number >= Some(number))
        });
        if !is_of_term || is_old {
            return self.leading(around, from);
        }
        self.forget_node(around, from);
        let origin = Origin {
            node: from,
            start: presentation.start,
        };
        let through = committed(origin).unwrap_or(0);
        // What is in flight is not taken twice either.
        let taken = match before {
            Some(known) if known.origin == origin => known.taken,
            _ => through.max(presentation.first_sequence.saturating_sub(1)),
        };
        self.sessions.retain(|session| session.origin.node != from);
        self.sessions.push(Session {
            origin,
            number: Some(number),
            taken,
        });
        self.waiting.retain(|waiting| waiting.node != from);
        for holder in &presentation.holders {
            let place = Place {
                node: from,
                window: Window::default(),
            };
            self.holders.insert(holder.id, place);
            if let Some(consumer) = holder.consumer {
                let result = self.queue.attach(around.now, consumer, &mut self.scratch);
                self.consumers += usize::from(result.is_ok());
                self.had_consumer |= result.is_ok();
                if result.is_err() {
                    let consumer = consumer.id;
                    self.answer(around, from, ToProxy::Attached { consumer, result });
                }
            }
            // What became of messages by an operation that is taken already is known better here.
            let is_held = |held: &&HeldRange| held.settled_by == 0 || held.settled_by > taken;
            for held in holder.held.iter().filter(is_held) {
                self.queue
                    .adopt(around.now, holder.id, held.lane, held.range.clone());
            }
        }
        self.hold_returns(around, from);
        self.answer(around, from, ToProxy::Committed { through });
        self.awaited.retain(|node| *node != from);
        self.dirty = true;
        self.carry_out(around);
    }

    /// What a node gave back stays with who had it until that is committed.
    fn hold_returns(&mut self, around: &Around<'_>, from: NodeId) {
        let in_flight = self.in_flight.iter().flat_map(|entry| &entry.returns);
        let returns = in_flight.chain(&self.batch.returns);
        for GivenBack { settle, .. } in returns.filter(|back| back.from == from) {
            self.holders.entry(settle.holder).or_insert_with(|| Place {
                node: from,
                window: Window::default(),
            });
            let (now, range) = (around.now, settle.range.clone());
            self.queue.adopt(now, settle.holder, settle.lane, range);
        }
    }

    /// A node is down, or begins anew: its holders are not there any more. What they hold returns,
    /// uncounted: the loss of a node is not the fault of who held a message on it.
    fn forget_node(&mut self, around: &mut Around<'_>, node: NodeId) {
        for session in &mut self.sessions {
            if session.origin.node == node {
                session.number = None;
            }
        }
        self.waiting.retain(|waiting| waiting.node != node);
        self.waiting_gets.retain(|waiting| waiting.node != node);
        let mut gone: Vec<ConsumerId> = self
            .holders
            .iter()
            .filter(|(_, place)| place.node == node)
            .map(|(id, _)| *id)
            .collect();
        // In the order in which they came, so that the same happens each time.
        gone.sort_unstable();
        for holder in gone {
            self.take_away(around, holder, false);
        }
        self.dirty = true;
    }

    /// A node is down.
    pub(super) fn peer_down(&mut self, around: &mut Around<'_>, node: NodeId) {
        self.awaited.retain(|awaited| *awaited != node);
        self.forget_node(around, node);
    }

    /// A node is up again: it is told who leads.
    pub(super) fn peer_up(&mut self, around: &mut Around<'_>, node: NodeId) {
        self.leading(around, node);
    }

    fn take_away(&mut self, around: &mut Around<'_>, holder: ConsumerId, counted: bool) {
        if self.holders.remove(&holder).is_none() {
            return;
        }
        let was_consumer = self.queue.consumers().any(|c| c.consumer.id == holder);
        self.consumers -= usize::from(was_consumer);
        let out = &mut self.scratch;
        match counted {
            true => self.queue.detach(around.now, holder, out),
            false => self.queue.forget(around.now, holder, out),
        };
        self.waiting_gets.retain(
            |asked| !matches!(asked.request, Request::Get { holder: of, .. } if of == holder),
        );
        self.carry_out(around);
    }

    /// A holder is gone, behind all operations that its node has sent.
    fn detach(&mut self, around: &mut Around<'_>, from: NodeId, holder: ConsumerId) {
        match self.waiting.iter_mut().rev().find(|w| w.node == from) {
            Some(last) if last.gone.is_none() => last.gone = Some(holder),
            Some(last) => {
                let first = last.first + last.operations.len() as u64;
                self.waiting.push_back(Waiting {
                    node: from,
                    first,
                    operations: Vec::new(),
                    gone: Some(holder),
                });
            }
            None => {
                self.take_away(around, holder, true);
                self.delete_if_unused(around);
            }
        }
    }

    fn attach(&mut self, around: &mut Around<'_>, from: NodeId, consumer: Consumer) {
        let place = Place {
            node: from,
            window: Window::default(),
        };
        let result = self.queue.attach(around.now, consumer, &mut self.scratch);
        if result.is_ok() {
            self.holders.insert(consumer.id, place);
            self.consumers += 1;
            self.had_consumer = true;
        }
        let consumer = consumer.id;
        self.answer(around, from, ToProxy::Attached { consumer, result });
        self.carry_out(around);
    }

    fn credit(&mut self, around: &mut Around<'_>, consumer: ConsumerId, messages: u32, bytes: u64) {
        let Some(place) = self.holders.get_mut(&consumer) else {
            return;
        };
        if place.node == around.node || place.window.give(messages, bytes) {
            self.queue.unblock(around.now, consumer);
        }
    }

    fn delete_if_unused(&self, around: &mut Around<'_>) {
        if self.auto_delete && self.had_consumer && self.consumers == 0 {
            around.effects.deferred.push(Deferred::DeleteQueue {
                queue: self.id,
                if_unused: true,
            });
        }
    }

    /// Sends a message to a consumer again that was to read it from its own node's replica.
    fn fetch(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        consumer: ConsumerId,
        position: Position,
    ) {
        let Some(message) = self.message(around.logs, position) else {
            return;
        };
        let returns = self.queue.returns(position).unwrap_or_default();
        let delivery = Delivery {
            consumer,
            queue: self.id,
            lane: position.lane,
            index: position.index,
            redelivered: true,
            delivery_count: Some(returns.failed).filter(|count| *count > 0),
            acquired_count: Some(returns.acquired).filter(|count| *count > 0),
            message,
        };
        self.answer(around, from, ToProxy::Deliver(delivery));
    }

    /// Does what is asked once all that came before is committed.
    fn ask(&mut self, around: &mut Around<'_>, node: NodeId, session: u64, request: Request) {
        let asked = Asked {
            node,
            session,
            request,
        };
        if !self.batch.header.is_empty() || !self.waiting.is_empty() {
            self.batch.asked.push(asked);
        } else if let Some(last) = self.in_flight.back_mut() {
            last.asked.push(asked);
        } else {
            self.do_asked(around, asked);
        }
    }

    fn do_asked(&mut self, around: &mut Around<'_>, asked: Asked) {
        if !self.is_current(asked.node, asked.session) {
            return;
        }
        match asked.request {
            Request::Get { holder, no_ack } => {
                if !self.is_acting() {
                    return self.waiting_gets.push(asked);
                }
                let got = on_queue!(self, around, |queue, view, out| queue
                    .get(around.now, holder, no_ack, &mut view, out));
                let got = match got {
                    Got::Pending => {
                        self.waiting_gets.push(asked);
                        return self.carry_out(around);
                    }
                    Got::Empty => None,
                    Got::Message { delivery, ready } => self
                        .delivery(around.logs, &delivery)
                        .map(|delivery| (delivery, ready)),
                };
                self.answer(around, asked.node, ToProxy::Got { holder, got });
                self.carry_out(around);
            }
            Request::Purge { request } => {
                let count = self.queue.purge(&mut self.scratch);
                self.carry_out(around);
                let purged = Request::Purged { request, count };
                self.ask(around, asked.node, asked.session, purged);
            }
            Request::Purged { request, count } => {
                self.answer(around, asked.node, ToProxy::Purged { request, count });
            }
            Request::Count { request } => {
                let counts = self.queue.counts(around.now);
                let standing = Standing {
                    ready: counts.ready,
                    unsettled: counts.unsettled,
                    consumers: counts.consumers as u64,
                };
                self.answer(around, asked.node, ToProxy::Counted { request, standing });
            }
        }
    }

    /// Takes operations of a node's session, from number `first` on.
    pub(super) fn operations(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        session: u64,
        first: u64,
        operations: Vec<Operation>,
    ) {
        let known = match self.session(from) {
            None => return self.leading(around, from),
            Some((_, known)) if known != session => return,
            Some((known, _)) => known,
        };
        let waiting = self.waiting.iter().rev().find(|w| w.node == from);
        let next = waiting.map_or(known.taken + 1, |w| w.first + w.operations.len() as u64);
        if first > next {
            return self.leading(around, from);
        }
        let skipped = usize::try_from(next - first).unwrap_or(usize::MAX);
        if skipped >= operations.len() {
            return;
        }
        let operations = match skipped {
            0 => operations,
            skipped => operations.into_iter().skip(skipped).collect(),
        };
        self.waiting.push_back(Waiting {
            node: from,
            first: next,
            operations,
            gone: None,
        });
    }

    /// Takes operations that wait, until the batch is full. False if some still wait.
    pub(super) fn take_waiting(&mut self, around: &mut Around<'_>, lanes: &mut Lanes) -> bool {
        if !self.is_acting() {
            return self.waiting.is_empty();
        }
        while let Some(mut waiting) = self.waiting.pop_front() {
            let count = waiting.operations.len() as u64;
            let mut operations = waiting.operations.into_iter();
            let mut sequence = waiting.first;
            while !self.is_full()
                && let Some(operation) = operations.next()
            {
                self.operation(around, lanes, waiting.node, sequence, operation);
                sequence += 1;
            }
            if sequence < waiting.first + count {
                waiting.operations = operations.collect();
                waiting.first = sequence;
                self.waiting.push_front(waiting);
                return false;
            }
            if let Some(holder) = waiting.gone {
                self.take_away(around, holder, true);
                self.delete_if_unused(around);
            }
        }
        true
    }

    fn is_full(&self) -> bool {
        self.batch.header.weight >= QUORUM_BATCH_BYTES as u64
            || self.batch.header.items() >= QUORUM_BATCH_ITEMS
    }

    fn operation(
        &mut self,
        around: &mut Around<'_>,
        lanes: &mut Lanes,
        from: NodeId,
        sequence: u64,
        operation: Operation,
    ) {
        let Some(session) = self.sessions.iter_mut().find(|s| s.origin.node == from) else {
            return;
        };
        session.taken = sequence;
        self.batch.header.through(session.origin, sequence);
        self.dirty = true;
        self.batch.is_awaited |= !matches!(operation, Operation::Settle(_));
        match operation {
            Operation::Publish(message) => self.publish(around, lanes, from, sequence, &message),
            // Nobody else may get it before a leader that follows knows that it is free.
            Operation::Settle(settle)
                if matches!(settle.outcome, Outcome::Requeue { .. } | Outcome::Release) =>
            {
                self.batch.is_awaited = true;
                self.foresee(around.now, &settle);
                self.batch.returns.push(GivenBack {
                    from,
                    settle,
                    at: around.now,
                });
            }
            Operation::Settle(settle) => self.settle(around, around.now, settle),
            Operation::Nothing => {}
        }
    }

    /// Writes down what will be known of messages that come back.
    fn foresee(&mut self, now: Now, settle: &Settle) {
        let Settle {
            holder,
            lane,
            range,
            outcome,
        } = settle;
        let (queue, returned) = (&self.queue, &mut self.batch.header.returned);
        queue.foresee(now, *holder, *lane, range, *outcome, |range, known| {
            let lane = *lane;
            returned.push(Returned { lane, range, known });
        });
    }

    fn publish(
        &mut self,
        around: &mut Around<'_>,
        lanes: &mut Lanes,
        from: NodeId,
        sequence: u64,
        message: &Message,
    ) {
        let bytes = message.size();
        let offer = on_queue!(self, around, |queue, view, out| queue
            .offer(around.now, bytes, &mut view, out));
        if !self.scratch.is_empty() {
            self.carry_out(around);
        }
        if let Offer::Reject { dead_letter } = offer {
            if dead_letter {
                let dead = DeadLetter {
                    queue: self.id,
                    position: None,
                    message: message.clone(),
                    reason: Reason::MaxLength,
                };
                around.effects.deferred.push(Deferred::DeadLetter(dead));
            }
            let sequences = sequence..sequence + 1;
            return self.answer(around, from, ToProxy::Refused { sequences });
        }
        let header = stored::header(message);
        let parts = message.parts();
        let pieces = [
            &header[..],
            parts.exchange,
            parts.routing_key,
            parts.properties,
            parts.body,
        ];
        let lane = self.queue.lane_for(message.facts.priority);
        let before = self.batch.attachment.len();
        attachment::put_message(&mut self.batch.attachment, &pieces);
        let stored = &self.batch.attachment[before + 4..];
        let index = lanes.append(around.logs, lane, &[stored], bytes);
        let batch = &mut self.batch;
        batch.header.message(lane, index);
        batch.header.weight = batch.attachment.len() as u64;
        batch
            .came
            .push((Position { lane, index }, meta_of(message)));
        self.queue.announce(bytes);
    }

    fn settle(&mut self, around: &mut Around<'_>, at: Now, settle: Settle) {
        let Settle {
            holder,
            lane,
            range,
            outcome,
        } = settle;
        self.queue
            .settle(at, holder, lane, range, outcome, &mut self.scratch);
        self.carry_out(around);
    }

    /// Whether anything is to be proposed.
    pub(super) fn has_open_batch(&self) -> bool {
        !self.batch.header.is_empty() || !self.batch.asked.is_empty()
    }

    /// Whether the batch is to be proposed now: at once if somebody waits for it; settles alone may
    /// gather, for each entry costs all members a write.
    pub(super) fn is_due(&mut self, now: Now) -> bool {
        if self.batch.is_awaited || !self.batch.asked.is_empty() {
            return true;
        }
        let since = *self.batch.lazy_since_ms.get_or_insert(now.monotonic_ms);
        now.monotonic_ms >= since + QUORUM_SETTLES_GATHER_MS
    }

    /// Whether the batch takes no more before it is proposed.
    pub(super) fn wants_close(&self) -> bool {
        self.is_full() && !self.batch.header.is_empty()
    }

    /// Ends the batch: it is to be proposed, and [`Self::proposed`] or [`Self::reopen`] called.
    pub(super) fn close(&mut self, lanes: &Lanes, delivered: impl Fn(u8) -> u64) -> Option<Closed> {
        if self.batch.header.is_empty() {
            return None;
        }
        let mut header = std::mem::take(&mut self.batch.header);
        for lane in lanes.numbers() {
            let through = self.queue.delivered_through(lane);
            if through > delivered(lane) {
                header.delivered.push((lane, through));
            }
        }
        let next = Vec::with_capacity(self.batch.attachment.len().min(64 * 1024));
        let attachment = std::mem::replace(&mut self.batch.attachment, next);
        Some(Closed {
            header,
            attachment: Bytes::from(attachment),
        })
    }

    /// The batch that was closed is the entry at `index`.
    pub(super) fn proposed(&mut self, index: u64) {
        let spare = std::mem::take(&mut self.spare);
        (self.batch.lazy_since_ms, self.batch.is_awaited) = (None, false);
        self.in_flight.push_back(InFlight {
            index,
            came: std::mem::replace(&mut self.batch.came, spare),
            asked: std::mem::take(&mut self.batch.asked),
            returns: std::mem::take(&mut self.batch.returns),
        });
    }

    /// The batch that was closed was not taken.
    pub(super) fn reopen(&mut self, closed: Closed) {
        self.batch.header = closed.header;
        self.batch.header.delivered.clear();
        self.batch.is_awaited = true;
        self.batch.attachment = closed.attachment.into();
    }

    /// The entry at `index`, which this leader proposed, is committed, and what left by it has left
    /// the logs.
    pub(super) fn committed(&mut self, around: &mut Around<'_>, index: u64, header: &Header) {
        let Some(mut entry) = self.in_flight.pop_front() else {
            panic!("entry {index} is committed, and none is in flight");
        };
        assert_eq!(entry.index, index, "entries are committed in order");
        for (position, meta) in entry.came.drain(..) {
            self.queue.withdraw(meta.bytes);
            self.queue.enqueue(position, &meta);
        }
        if entry.came.capacity() <= QUORUM_BATCH_ITEMS {
            self.spare = entry.came;
        }
        for (origin, through) in &header.origins {
            let through = *through;
            let session = self.session(origin.node);
            if session.is_some_and(|(session, _)| session.origin == *origin) {
                self.answer(around, origin.node, ToProxy::Committed { through });
            }
        }
        for GivenBack { settle, at, .. } in entry.returns {
            // What is known of them now is in the entry already.
            self.is_foreseen = true;
            self.settle(around, at, settle);
            self.is_foreseen = false;
        }
        for leaving in &header.leaving {
            let Leaving {
                lane,
                ref range,
                reason,
            } = *leaving;
            self.dead.push(lane, range.clone(), reason);
        }
        self.send_dead_letters(around);
        for asked in entry.asked {
            self.do_asked(around, asked);
        }
        self.dirty = true;
    }

    /// Lets the queue act: deliver, expire, drop.
    pub(super) fn pump(&mut self, around: &mut Around<'_>) {
        self.dirty = false;
        self.dead.retry(around.now);
        self.send_dead_letters(around);
        if !self.is_acting() {
            if around.now.monotonic_ms < self.await_until_ms {
                return;
            }
            tracing::warn!(queue = %self.id, nodes = ?self.awaited, "consumers did not present themselves");
            self.awaited.clear();
        }
        for asked in std::mem::take(&mut self.waiting_gets) {
            self.do_asked(around, asked);
        }
        on_queue!(self, around, |queue, view, out| queue
            .tick(around.now, &mut view, out));
        self.carry_out(around);
        if self.batch.header.is_empty() && self.in_flight.is_empty() {
            for asked in std::mem::take(&mut self.batch.asked) {
                self.do_asked(around, asked);
            }
        }
        self.peeked.clear();
        if self.peeked.capacity() > 64 && self.holders.is_empty() {
            self.peeked = VecDeque::new();
        }
    }

    /// When [`Self::pump`] is to be called next, whatever happens; 0 is never.
    pub(super) fn deadline_ms(&self, now: Now) -> u64 {
        let queue = match self.is_acting() {
            true => self.queue.next_deadline_ms(now),
            false => Some(self.await_until_ms),
        };
        let dead = self.dead.deadline_ms();
        queue.into_iter().chain(dead).min().unwrap_or(0)
    }

    /// Messages that were read from disk have come.
    pub(super) fn loaded(&mut self, around: &mut Around<'_>) {
        self.queue.resume();
        self.send_dead_letters(around);
        self.dirty = true;
    }

    /// Messages that were dead-lettered are where they were to go.
    pub(super) fn dead_lettered(&mut self, around: &mut Around<'_>, lane: u8, range: Range<u64>) {
        self.dead.arrived(lane, &range);
        self.queue.dead_lettered(lane, range, &mut self.scratch);
        self.carry_out(around);
        self.send_dead_letters(around);
    }

    /// A message that must be dead-lettered could not be.
    pub(super) fn not_dead_lettered(&mut self, around: &mut Around<'_>, lane: u8, index: u64) {
        self.dead.refused(around.now, lane, index);
        self.dirty = true;
    }

    /// These messages were on their way to the dead-letter exchange before this leader was one.
    pub(super) fn was_leaving(&mut self, lane: u8, range: Range<u64>, reason: Reason) {
        self.dead.push(lane, range, reason);
    }

    fn message(&mut self, logs: &mut ShardLogs, position: Position) -> Option<Message> {
        match self.read(logs, position) {
            Found::Message(message) => Some(message),
            Found::Pending | Found::Never => None,
        }
    }

    fn read(&mut self, logs: &mut ShardLogs, position: Position) -> Found {
        // Deliveries follow in the order of the looks.
        while let Some((at, message)) = self.peeked.front() {
            if *at == position {
                return Found::Message(message.clone());
            }
            if self.peeked.iter().all(|(other, _)| *other != position) {
                break;
            }
            self.peeked.pop_front();
        }
        let log = crate::shard::log_of(self.id, position.lane);
        match logs.read(log, position.index) {
            Read::Ready(bytes) => stored::decode(bytes).map_or(Found::Never, Found::Message),
            Read::Pending => Found::Pending,
            Read::Gone | Read::Damaged(_) => Found::Never,
        }
    }

    fn delivery(
        &mut self,
        logs: &mut ShardLogs,
        delivery: &leveret_queue::Delivery,
    ) -> Option<Delivery> {
        let message = self.message(logs, delivery.position)?;
        Some(Delivery {
            consumer: delivery.consumer,
            queue: self.id,
            lane: delivery.position.lane,
            index: delivery.position.index,
            redelivered: delivery.redelivered,
            delivery_count: delivery.delivery_count,
            acquired_count: delivery.acquired_count,
            message,
        })
    }

    fn carry_out(&mut self, around: &mut Around<'_>) {
        let mut effects = std::mem::take(&mut self.scratch);
        for effect in effects.drain(..) {
            self.carry_out_one(around, effect);
        }
        assert!(self.scratch.is_empty(), "an effect of an effect");
        self.scratch = effects;
    }

    fn carry_out_one(&mut self, around: &mut Around<'_>, effect: Effect) {
        match effect {
            Effect::Deliver(delivery) => {
                let Some(node) = self.holders.get(&delivery.consumer).map(|place| place.node)
                else {
                    return;
                };
                match self.delivery(around.logs, &delivery) {
                    Some(delivery) => self.answer(around, node, ToProxy::Deliver(delivery)),
                    None => {
                        tracing::error!(queue = %self.id, "a message that was there cannot be read");
                    }
                }
            }
            Effect::Settled { lane, range, bytes } => self.batch.header.left(lane, range, bytes),
            Effect::Returned { .. } if self.is_foreseen => {}
            Effect::Returned {
                lane,
                range,
                returns: known,
            } => {
                let returned = Returned { lane, range, known };
                self.batch.header.returned.push(returned);
            }
            Effect::DeadLetter {
                lane,
                range,
                reason,
            } => self.batch.header.leaving.push(Leaving {
                lane,
                range,
                reason,
            }),
            Effect::TimedOut { holder } => {
                if let Some(node) = self.holders.get(&holder).map(|place| place.node) {
                    self.answer(around, node, ToProxy::TimedOut(holder));
                }
            }
            Effect::Damaged { position } => tracing::error!(
                queue = %self.id,
                lane = position.lane,
                index = position.index,
                "a message cannot be read; it is set aside, see `leveret storage verify`",
            ),
            Effect::Expired => around.effects.deferred.push(Deferred::DeleteQueue {
                queue: self.id,
                if_unused: true,
            }),
            Effect::Activate { .. } | Effect::Deactivate { .. } => {}
        }
    }

    /// Hands messages over to be dead-lettered; those that are on disk only once they have been
    /// read.
    fn send_dead_letters(&mut self, around: &mut Around<'_>) {
        while let Some((position, reason)) = self.dead.next() {
            let message = match self.read(around.logs, position) {
                Found::Message(message) => message,
                Found::Pending => return,
                Found::Never => {
                    tracing::error!(
                        queue = %self.id,
                        lane = position.lane,
                        index = position.index,
                        "a message that is to be dead-lettered cannot be read; it stays",
                    );
                    self.dead.skip();
                    continue;
                }
            };
            self.dead.sent();
            let dead = DeadLetter {
                queue: self.id,
                position: Some((position.lane, position.index)),
                message,
                reason,
            };
            around.effects.deferred.push(Deferred::DeadLetter(dead));
        }
    }
}
