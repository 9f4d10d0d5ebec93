//! The leader of a queue: the queue machine, what is on its way to being committed, and whom it
//! serves on which node.

use super::ShardContext;
use super::applied_state::ViewState;
use super::entry_payload::EntryPayload;
use super::header::Header;
use crate::dead_letters::DeadLetters;
use crate::peeked::Peeked;
use crate::quorum::protocol::{Answer, Event};
use crate::serving::Query;
use crate::shard::QueueSpec;
use crate::stream_view::StreamView;
use active::Active;
use handing_out::{DeliveryWatermarks, ReplicatedTo};
use leveret_queue::{Effect, Log, Peek, Position, Queue, Reason, RecoveredPriorityLog, State};
use leveret_storage::ShardLogs;
use leveret_types::limits::QUORUM_REGISTRATION_MS_MAX;
use leveret_types::{ConsumerId, NodeId, Now, QueueId, ReplicaId};
use served::{Served, ServedSubscription, ServedSubscriptions, Usage};
use std::ops::Range;
use under_way::{PendingRequest, Request, UnderWay};
use viewing::Viewing;

/// A batch that is to be proposed.
pub(super) struct Closed {
    pub(super) header: Header,
    pub(super) entry_payload: EntryPayload,
}

/// The leader of one queue.
pub(super) struct Leader {
    id: QueueId,
    term: u64,
    queue: Queue,
    usage: Usage,
    served: Served,
    active: Active,
    under_way: UnderWay,
    peeked: Peeked,
    replicated_to: ReplicatedTo,
    /// How far messages may be handed out.
    watermarks: DeliveryWatermarks,
    dead: DeadLetters,
    /// What it has instead of logs of messages, where it is a view of a stream.
    viewing: Option<Box<Viewing>>,
    /// Gets and fetches that cannot be answered yet.
    waiting_gets: Vec<PendingRequest>,
    scratch: Vec<Effect>,
    /// Whether others may have elected another leader: nothing is given out until that is known.
    pub(super) is_lease_expired: bool,
    /// Whether something has happened since the last pump.
    pub(super) dirty: bool,
}

/// What the queue machine sees of its surroundings.
struct LeaderLog<'a> {
    queue: QueueId,
    own: NodeId,
    logs: &'a mut ShardLogs,
    peeked: &'a mut Peeked,
    watermarks: &'a mut DeliveryWatermarks,
    stream: Option<&'a StreamView>,
    subscriptions: &'a mut ServedSubscriptions,
    clients: &'a mut dyn crate::quorum::Clients,
}

impl Log for LeaderLog<'_> {
    fn peek(&mut self, position: Position) -> Peek {
        match self.stream {
            Some(view) => view.peek(position.index),
            None => self.peeked.peek(self.logs, self.queue, position),
        }
    }

    fn admit(&mut self, consumer: ConsumerId, bytes: u32) -> bool {
        match self.subscriptions.get_mut(&consumer) {
            Some(served) if served.node == self.own => {
                self.clients.admit(self.queue, consumer, bytes)
            }
            Some(served) => served.window.take(bytes),
            None => false,
        }
    }

    fn may_hand_out(&mut self, position: Position) -> bool {
        self.watermarks.allows(position)
    }
}

/// The queue machine with its view of the surroundings, for one call.
macro_rules! on_queue {
    ($leader:ident, $context:ident, |$queue:ident, $view:ident, $out:ident| $call:expr) => {{
        let mut $view = LeaderLog {
            queue: $leader.id,
            own: $context.node,
            logs: $context.logs,
            peeked: &mut $leader.peeked,
            watermarks: &mut $leader.watermarks,
            stream: $leader.viewing.as_ref().map(|viewing| &viewing.view),
            subscriptions: &mut $leader.served.subscriptions,
            clients: $context.clients,
        };
        let ($queue, $out) = (&mut $leader.queue, &mut $leader.scratch);
        $call
    }};
}

mod active;
mod batch;
mod claims;
mod effects;
mod handing_out;
mod registration;
mod requests;
mod served;
mod under_way;
mod viewing;

impl Leader {
    /// The leader of a queue whose messages the logs have: all that its replicas know of it is
    /// committed, up to the first entry of its term, which is given with the term. `nodes` are
    /// those that are up and may have consumers.
    pub fn new(
        now: Now,
        id: QueueId,
        (entry, term): (u64, u64),
        spec: &QueueSpec,
        recovered: (Vec<RecoveredPriorityLog>, &State),
        nodes: Vec<NodeId>,
    ) -> Self {
        let (priority_logs, state) = recovered;
        let handed_out = state.priority_logs.iter();
        let handed_out = handed_out
            .map(|priority_log| (priority_log.priority_log, priority_log.delivered_through));
        let watermarks = DeliveryWatermarks::new(handed_out);
        let mut queue = Queue::recover(spec.kind, spec.settings.clone(), now, priority_logs, state);
        queue.tell_returns();
        queue.hold_election();
        Self {
            id,
            term,
            queue,
            usage: Usage::new(spec.auto_delete),
            served: Served::awaiting(nodes, now.monotonic_ms + QUORUM_REGISTRATION_MS_MAX),
            active: Active::default(),
            under_way: UnderWay::default(),
            peeked: Peeked::default(),
            replicated_to: ReplicatedTo::new(entry),
            watermarks,
            dead: DeadLetters::default(),
            viewing: None,
            waiting_gets: Vec::new(),
            scratch: Vec::new(),
            is_lease_expired: false,
            dirty: true,
        }
    }

    /// Makes it the leader of a view of a stream, as its group's entries have that: what is not
    /// settled, and how far the queue was given the stream; nothing of a view that begins.
    /// `numbers` are those of the session with the stream that was before.
    pub(super) fn view(
        &mut self,
        now: Now,
        spec: &QueueSpec,
        known: Option<(&ViewState, u64)>,
        numbers: u32,
    ) {
        let spec = spec.view.as_ref();
        let viewing = spec.map(|spec| Viewing::new(now, self.id, spec, known, numbers));
        self.viewing = viewing.map(Box::new);
    }

    pub(super) const fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn update(&mut self, now: Now, spec: &QueueSpec) {
        self.queue.update_settings(now, spec.settings.clone());
        self.usage.auto_delete = spec.auto_delete;
        self.dirty = true;
    }

    /// Whether all nodes have said what their consumers hold, so that the queue may act.
    pub(super) fn is_acting(&self) -> bool {
        self.served.awaited.is_empty()
    }

    /// The nodes that are served, and their sessions.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.served.sessions()
    }

    /// Whether a node speaks in the session that it began last.
    pub(super) fn is_current(&self, from: NodeId, session: u64) -> bool {
        let known = self.served.session(from);
        known.is_some_and(|(_, known)| known == session)
    }

    fn answer(&self, context: &mut ShardContext<'_>, to: NodeId, message: Event) {
        let Some((_, session)) = self.served.session(to) else {
            return;
        };
        context.answers.push(Answer {
            to,
            queue: self.id,
            session,
            message,
        });
    }

    fn leading(&self, context: &mut ShardContext<'_>, to: NodeId) {
        context.answers.push(Answer {
            to,
            queue: self.id,
            session: 0,
            message: Event::Leading { term: self.term },
        });
    }

    /// A node has nothing to register with the leader of this term.
    pub(super) fn nothing_to_register(
        &mut self,
        context: &ShardContext<'_>,
        from: NodeId,
        term: u64,
    ) {
        if term == self.term {
            self.stop_awaiting(context.now, from);
            self.dirty = true;
        }
    }

    /// Whether what a node says in a session is to be taken; a node without one is told who leads.
    pub(super) fn admits(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        session: u64,
    ) -> bool {
        match self.served.session(from) {
            None => {
                self.leading(context, from);
                false
            }
            // Else it was said to a session that is over, or in one that this leader has not heard
            // of yet.
            Some((_, known)) => {
                self.dirty |= known == session;
                known == session
            }
        }
    }

    /// Stops deliveries to a consumer.
    pub(super) fn cancel(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        consumer: ConsumerId,
    ) {
        if self.queue.cancel(context.now, consumer, &mut self.scratch) {
            self.usage.detached();
            self.watermarks.consumers_changed();
        }
        self.carry_out(context);
        self.answer(context, from, Event::Cancelled(consumer));
        self.delete_if_unused(context);
    }

    /// Takes a question of a node's session.
    pub(super) fn query(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        session: u64,
        what: Query,
    ) {
        let request = match what {
            Query::Get {
                subscription,
                no_ack,
            } => {
                self.served
                    .subscriptions
                    .entry(subscription)
                    .or_insert_with(|| ServedSubscription::new(from, no_ack));
                Request::Get {
                    subscription,
                    no_ack,
                }
            }
            Query::Purge { request } => Request::Purge { request },
            Query::Peek { request, before } => Request::Peek { request, before },
            Query::Count { request } => Request::Count { request },
            Query::Fetch { consumer, position } => {
                let request = Request::Fetch { consumer, position };
                return self.do_request(context, PendingRequest::new(from, session, request));
            }
        };
        self.ask(context, from, session, request);
    }

    /// Lets the queue act: deliver, expire, drop.
    pub(super) fn pump(&mut self, context: &mut ShardContext<'_>) {
        self.dirty = false;
        self.begin_viewing(context);
        self.dead.retry(context.now);
        self.send_dead_letters(context);
        self.act(context);
        self.end_viewing(context);
        self.peeked.clear(self.served.subscriptions.is_empty());
    }

    fn act(&mut self, context: &mut ShardContext<'_>) {
        if !self.is_acting() {
            if context.now.monotonic_ms < self.served.await_until_ms {
                return;
            }
            tracing::warn!(
                queue = %self.id,
                nodes = ?self.served.awaited,
                "these nodes have not registered their consumers within 5 s; what those held is \
                 delivered again"
            );
            self.served.awaited.clear();
            self.decide_claims(context.now);
        }
        self.choose_active(context);
        for pending in std::mem::take(&mut self.waiting_gets) {
            self.do_request(context, pending);
        }
        self.tick(context);
        while self.give_from_stream() {
            self.send_dead_letters(context);
            self.tick(context);
        }
        // Operations that wait came before what was asked behind them.
        if self.under_way.is_clear() {
            for pending in std::mem::take(&mut self.under_way.batch.pending_requests) {
                self.do_request(context, pending);
            }
        }
    }

    fn tick(&mut self, context: &mut ShardContext<'_>) {
        on_queue!(self, context, |queue, view, out| queue.tick(
            context.now,
            &mut view,
            out
        ));
        self.carry_out(context);
    }

    /// Takes note of how far the logs of other members are the same as this one's.
    pub(super) fn set_matched(&mut self, matched: impl Iterator<Item = (ReplicaId, u64)>) {
        if !self.served.subscriptions.is_empty() {
            self.replicated_to.set_matched(matched);
        }
    }

    /// When [`Self::pump`] is to be called next, whatever happens; 0 is never.
    pub(super) fn deadline_ms(&self, now: Now) -> u64 {
        let queue = match self.is_acting() {
            true => self.queue.next_deadline_ms(now),
            false => Some(self.served.await_until_ms),
        };
        let dead = self.dead.deadline_ms();
        let viewing = self.viewing.as_ref();
        let view = viewing.and_then(|viewing| viewing.view.deadline_ms(false));
        // What is due at once is so also when the clock begins.
        let view = view.map(|at| at.max(1));
        let own = queue.into_iter().chain(dead);
        own.chain(view).min().unwrap_or(0)
    }

    /// Messages that were read from disk have come.
    pub(super) fn loaded(&mut self, context: &mut ShardContext<'_>) {
        self.queue.resume();
        self.send_dead_letters(context);
        self.dirty = true;
    }

    /// Messages that were dead-lettered are where they were to go.
    pub(super) fn dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        priority_log: u8,
        range: Range<u64>,
    ) {
        self.dead.arrived(priority_log, &range);
        self.queue
            .dead_lettered(priority_log, range, &mut self.scratch);
        self.carry_out(context);
        self.send_dead_letters(context);
    }

    /// A message that must be dead-lettered could not be.
    pub fn not_dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        priority_log: u8,
        index: u64,
    ) {
        self.dead.refused(context.now, priority_log, index);
        self.dirty = true;
    }

    /// These messages were on their way to the dead-letter exchange before this leader was one.
    pub(super) fn was_leaving(&mut self, priority_log: u8, range: Range<u64>, reason: Reason) {
        self.dead.push(priority_log, range, reason);
    }
}
