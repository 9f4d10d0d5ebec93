//! The remote queues of one shard: who has one, which of them have something to say, and when they
//! are to be looked at; and how what they say reaches their leaders, and what those say them, in
//! the same shard or as frames between nodes.

use super::protocol::{
    self, Answer, Command, Encoder, Event, LocalDelivery, Operation, Origin, QueueCounts,
};
use super::remote_queue::{Budget, LeaderLocation, Put, RemoteContext, RemoteQueue};
use crate::events::PeerFrame;
use crate::peeked::Found;
use crate::peer_rooms::{PeerRooms, Waiter};
use crate::shard::{Shard, ShardEffects};
use bytes::Bytes;
use hashbrown::HashMap;
use leveret_types::limits::PENDING_NODE_BYTES_MAX;
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sessions that one millisecond of a node's life may begin, so that a later run's numbers are
/// greater than all of an earlier one's.
const SESSIONS_PER_START: u64 = 1 << 20;

/// A queue that is not, or not only, on this node.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The nodes that may lead it, the likeliest first; of a classic queue, its only one.
    nodes: SmallVec<[NodeId; 3]>,
    /// Whether it is on one node only, so that it is unavailable while that is down.
    single: bool,
    /// Made when the queue is first used here.
    remote_queue: Option<Box<RemoteQueue>>,
    dirty: bool,
    deadline_ms: u64,
}

impl Entry {
    /// Whether the only node that has the queue is down, as seen from `own`.
    fn is_unavailable(&self, own: NodeId, up: &[NodeId]) -> bool {
        let is_up = |node: &NodeId| *node == own || up.contains(node);
        self.single && !self.nodes.iter().any(is_up)
    }
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct RemoteQueues {
    origin: Origin,
    entries: HashMap<QueueId, Entry, foldhash::fast::FixedState>,
    dirty: Vec<QueueId>,
    deadlines: BTreeSet<(u64, QueueId)>,
    up: Vec<NodeId>,
    last_session: u64,
    together: Arc<Budget>,
    counts: LocalDeliveries,
}

/// Deliveries that leaders on other nodes left to the replicas here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalDeliveries {
    /// The replica had the message.
    pub read: u64,
    /// Bytes of these messages' bodies.
    pub read_bytes: u64,
    /// The message had to be asked for.
    pub fetched: u64,
}

impl RemoteQueues {
    /// None yet, of one of `shards` shards.
    pub fn new(origin: Origin, shards: u16) -> Self {
        Self {
            counts: LocalDeliveries::default(),
            together: Budget::new(PENDING_NODE_BYTES_MAX / usize::from(shards.max(1))),
            origin,
            entries: HashMap::default(),
            dirty: Vec::new(),
            deadlines: BTreeSet::new(),
            up: Vec::new(),
            last_session: origin.start.saturating_mul(SESSIONS_PER_START),
        }
    }

    /// This node, and its run.
    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    /// Adds a queue, or changes where it is.
    pub(crate) fn place(&mut self, queue: QueueId, nodes: &[NodeId], single: bool) {
        let entry = self.entries.entry(queue).or_insert_with(|| Entry {
            nodes: SmallVec::new(),
            single,
            remote_queue: None,
            dirty: false,
            deadline_ms: 0,
        });
        entry.nodes = SmallVec::from_slice(nodes);
        entry.single = single;
    }

    /// Whether the queue is used through a remote queue here.
    pub(crate) fn has(&self, queue: QueueId) -> bool {
        self.entries.contains_key(&queue)
    }

    /// Takes a queue away that is deleted: its consumers are cancelled, publishes under way are
    /// confirmed.
    pub(crate) fn remove(&mut self, queue: QueueId, context: &mut RemoteContext<'_>) {
        if let Some(entry) = self.entries.remove(&queue) {
            self.deadlines.remove(&(entry.deadline_ms, queue));
            if let Some(mut remote_queue) = entry.remote_queue {
                remote_queue.delete(context);
            }
        }
        self.let_go_on(context);
    }

    /// Lets those go on that were held back because all queues together kept too much, once they
    /// keep less.
    pub(crate) fn let_go_on(&mut self, context: &mut RemoteContext<'_>) {
        if self.together.has_room_again() {
            let entries = self.entries.values_mut();
            for remote_queue in entries.filter_map(|entry| entry.remote_queue.as_deref_mut()) {
                remote_queue.let_go_on(context);
            }
        }
    }

    /// The remote queue of a queue that something is done to, made if there is none; it is looked
    /// at when the shard is let go.
    pub(crate) fn used(&mut self, queue: QueueId) -> Option<&mut RemoteQueue> {
        let entry = self.entries.get_mut(&queue)?;
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(queue);
        }
        let is_unavailable = entry.is_unavailable(self.origin.node, &self.up);
        let remote_queue = entry
            .remote_queue
            .get_or_insert_with(|| Box::new(RemoteQueue::new(queue, Arc::clone(&self.together))));
        remote_queue.set_unavailable(is_unavailable);
        Some(remote_queue)
    }

    /// Whether the only node that has a queue is down.
    pub(crate) fn is_unavailable(&self, queue: QueueId) -> bool {
        let entry = self.entries.get(&queue);
        entry.is_some_and(|entry| entry.is_unavailable(self.origin.node, &self.up))
    }

    /// The remote queue of a queue, if there is one.
    pub(crate) fn known(&self, queue: QueueId) -> Option<&RemoteQueue> {
        self.entries.get(&queue)?.remote_queue.as_deref()
    }

    /// Whether a remote queue has something to say, or lets somebody go on.
    pub(crate) fn have_news(&self) -> bool {
        !self.dirty.is_empty() || self.together.is_roomy_again()
    }

    /// The next remote queue that has something to say.
    pub(crate) fn pop_dirty(&mut self) -> Option<QueueId> {
        let queue = self.dirty.pop()?;
        if let Some(entry) = self.entries.get_mut(&queue) {
            entry.dirty = false;
        }
        Some(queue)
    }

    /// Looks for the queue's leader if it is needed. `hint` is the leader that this node's replica
    /// knows.
    pub(crate) fn locate(&mut self, now: Now, queue: QueueId, hint: Option<NodeId>) {
        let Some(entry) = self.entries.get_mut(&queue) else {
            return;
        };
        let Some(remote_queue) = entry
            .remote_queue
            .as_deref_mut()
            .filter(|p| p.wants_leader(now))
        else {
            return;
        };
        let mut candidates: SmallVec<[NodeId; 4]> = hint.into_iter().collect();
        for node in &entry.nodes {
            if !candidates.contains(node) {
                candidates.push(*node);
            }
        }
        candidates.retain(|node| *node == self.origin.node || self.up.contains(node));
        self.last_session += 1;
        remote_queue.locate(now, self.last_session, &candidates);
    }

    /// Whether nobody waits for what a remote queue has to say now. Asked once before it is said.
    pub(crate) fn may_wait(&mut self, now: Now, queue: QueueId) -> bool {
        let entry = self.entries.get_mut(&queue);
        let remote_queue = entry.and_then(|entry| entry.remote_queue.as_deref_mut());
        remote_queue.is_some_and(|remote_queue| remote_queue.may_wait(now))
    }

    /// Gives what a remote queue has to say to `put`, with where it goes and in which session, as
    /// far as there is room on the way there.
    pub(crate) fn flush(
        &mut self,
        queue: QueueId,
        peer_rooms: &mut PeerRooms,
        mut put: impl FnMut(NodeId, u64, Put<'_, Box<dyn Iterator<Item = &'_ Operation> + '_>>),
    ) {
        let start = self.origin.start;
        let Some(entry) = self.entries.get_mut(&queue) else {
            return;
        };
        let Some(remote_queue) = entry.remote_queue.as_deref_mut() else {
            return;
        };
        let session = remote_queue.session();
        if let LeaderLocation::Contacted(node) | LeaderLocation::Led(node) =
            remote_queue.leader_location()
        {
            let is_here = node == self.origin.node;
            let who = Waiter::Operations(queue);
            let room = |bytes| is_here || peer_rooms.take(node, bytes, who);
            remote_queue.flush(start, room, |what| put(node, session, what));
        }
    }

    /// Takes in what a leader says.
    pub(super) fn receive(
        &mut self,
        queue: QueueId,
        from: NodeId,
        session: u64,
        message: Event,
        context: &mut RemoteContext<'_>,
    ) -> Received {
        let next = self.last_session + 1;
        let Some(entry) = self.entries.get_mut(&queue) else {
            return nothing_to_register(&message);
        };
        let Some(remote_queue) = entry.remote_queue.as_deref_mut() else {
            return nothing_to_register(&message);
        };
        // Only who leads is said outside of sessions.
        let is_placing = matches!(message, Event::Leading { .. } | Event::NotLeader { .. });
        if !is_placing && (remote_queue.session() != session || !remote_queue.is_with(from)) {
            return Received::Done;
        }
        remote_queue.receive(from, message, next, context);
        if remote_queue.session() == next {
            self.last_session = next;
        }
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(queue);
        }
        self.let_go_on(context);
        Received::Done
    }

    /// The next delivery of a queue that the replica here is to complete.
    pub(crate) fn next_local(
        &mut self,
        queue: QueueId,
        context: &mut RemoteContext<'_>,
    ) -> Option<LocalDelivery> {
        let remote_queue = self.entries.get_mut(&queue)?.remote_queue.as_deref_mut()?;
        remote_queue.next_local(context)
    }

    /// What became of the message of that delivery.
    pub(crate) fn found_local(
        &mut self,
        queue: QueueId,
        found: Found,
        context: &mut RemoteContext<'_>,
    ) {
        let entry = self.entries.get_mut(&queue);
        let Some(remote_queue) = entry.and_then(|entry| entry.remote_queue.as_deref_mut()) else {
            return;
        };
        match found {
            Found::Message(message) => {
                self.counts.read += 1;
                self.counts.read_bytes += u64::from(message.size());
                remote_queue.complete(message, context);
            }
            Found::Pending => remote_queue.await_read(context.now),
            Found::Never => {
                self.counts.fetched += 1;
                remote_queue.fetch();
            }
        }
    }

    /// Something was read from disk for a queue: deliveries may go on.
    pub(crate) fn loaded(&mut self, queue: QueueId) {
        if self
            .known(queue)
            .is_some_and(RemoteQueue::has_waiting_deliveries)
        {
            self.used(queue);
        }
    }

    /// What leaders on other nodes left to the replicas here.
    pub(crate) const fn local_deliveries(&self) -> LocalDeliveries {
        self.counts
    }

    /// A node is up: who needs a leader looks for it.
    pub(crate) fn peer_up(&mut self, now: Now, node: NodeId) {
        if !self.up.contains(&node) {
            self.up.push(node);
        }
        for (queue, entry) in &mut self.entries {
            let remote_queue = entry.remote_queue.as_deref_mut();
            let busy = remote_queue.filter(|remote_queue| remote_queue.is_busy());
            let Some(remote_queue) = busy.filter(|remote_queue| {
                !matches!(remote_queue.leader_location(), LeaderLocation::Led(_))
            }) else {
                continue;
            };
            remote_queue.search_soon(now);
            if !entry.dirty {
                entry.dirty = true;
                self.dirty.push(*queue);
            }
        }
    }

    /// A node is down.
    pub(crate) fn peer_down(&mut self, node: NodeId, context: &mut RemoteContext<'_>) {
        self.up.retain(|up| *up != node);
        for (queue, entry) in &mut self.entries {
            let Some(remote_queue) = entry.remote_queue.as_deref_mut() else {
                continue;
            };
            if remote_queue.leader_location() != LeaderLocation::Led(node)
                && remote_queue.leader_location() != LeaderLocation::Contacted(node)
            {
                continue;
            }
            if entry.single {
                remote_queue.abandon(context);
            } else {
                remote_queue.lose(context);
            }
            if !entry.dirty {
                entry.dirty = true;
                self.dirty.push(*queue);
            }
        }
        self.let_go_on(context);
    }

    /// Marks the remote queues whose time has come.
    pub(crate) fn tick(&mut self, context: &mut RemoteContext<'_>) {
        while let Some(&(at, queue)) = self.deadlines.first() {
            if at > context.now.monotonic_ms {
                break;
            }
            self.deadlines.remove(&(at, queue));
            if let Some(entry) = self.entries.get_mut(&queue) {
                entry.deadline_ms = 0;
            }
            if let Some(remote_queue) = self.used(queue) {
                remote_queue.expire(context);
            }
        }
    }

    /// Takes note of when a remote queue is to be looked at next.
    pub(crate) fn note_deadline(&mut self, queue: QueueId) {
        let Some(entry) = self.entries.get_mut(&queue) else {
            return;
        };
        let deadline = entry
            .remote_queue
            .as_deref()
            .and_then(RemoteQueue::next_deadline_ms)
            .unwrap_or(0);
        if deadline != entry.deadline_ms {
            self.deadlines.remove(&(entry.deadline_ms, queue));
            entry.deadline_ms = deadline;
            if deadline != 0 {
                self.deadlines.insert((deadline, queue));
            }
        }
    }

    /// When [`Self::tick`] is to be called next.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl super::Clients for RemoteQueues {
    fn admit(&mut self, queue: QueueId, consumer: ConsumerId, bytes: u32) -> bool {
        let entry = self.entries.get(&queue);
        let remote_queue = entry.and_then(|entry| entry.remote_queue.as_deref());
        remote_queue.is_some_and(|remote_queue| remote_queue.admits(consumer, bytes))
    }

    fn published(&self, queue: QueueId, run: u64, number: u64) -> Option<Message> {
        let remote_queue = self.known(queue).filter(|_| run == self.origin.start)?;
        remote_queue.published(number).cloned()
    }
}

/// What is left to do after a leader's message.
#[derive(Debug)]
pub(crate) enum Received {
    /// Nothing.
    Done,
    /// The leader is to be told this, outside of any session.
    Answer(Command),
}

fn nothing_to_register(message: &Event) -> Received {
    match message {
        Event::Leading { term } => Received::Answer(Command::NothingToRegister { term: *term }),
        _ => Received::Done,
    }
}

/// The remote queues of a shard together with what their calls may reach.
macro_rules! with_remote_queues {
    ($shard:ident, $now:ident, |$remote_queues:ident, $context:ident| $call:expr) => {{
        let $remote_queues = &mut $shard.remote_queues;
        let $context = &mut RemoteContext {
            now: $now,
            node: $remote_queues.origin().node,
            effects: &mut $shard.effects,
        };
        $call
    }};
}

impl Shard {
    /// Whether the queue is used through a remote queue.
    pub fn is_remote(&self, queue: QueueId) -> bool {
        self.remote_queues.has(queue)
    }

    /// Holds a publisher back until the queue takes more; false if it does.
    pub fn hold_back(&mut self, queue: QueueId, connection: ConnectionId) -> bool {
        let remote_queue = self.remote_queues.used(queue);
        remote_queue.is_some_and(|remote_queue| remote_queue.hold_back(connection))
    }

    /// How a queue stands as far as this node knows: by its replica here, or as its leader said
    /// when it was last asked.
    pub fn last_queue_counts(&self, now: Now, queue: QueueId) -> QueueCounts {
        if let Some(local_stats) = self.local_stats(now, queue) {
            return QueueCounts::from(&local_stats.counts);
        }
        let remote_queue = self.remote_queues.known(queue);
        remote_queue
            .map(RemoteQueue::queue_counts)
            .unwrap_or_default()
    }

    /// A connection wants to hear when all that this node has done to a queue is committed. Answers
    /// the number up to which that must be told; nothing if it is committed already.
    pub fn wait_for_queue(&mut self, queue: QueueId, connection: ConnectionId) -> Option<u64> {
        self.remote_queues.used(queue)?.wait_for_all(connection)
    }

    /// Takes in a frame of a remote queue or a leader on another node.
    pub(crate) fn receive_link(&mut self, now: Now, from: NodeId, queue: QueueId, frame: Bytes) {
        let result = match frame.first() {
            Some(&protocol::TO_LEADER) => protocol::decode_to_leader(frame).map(|frame| {
                for message in frame.messages {
                    self.tell_host(now, from, queue, frame.session, message);
                }
            }),
            _ => protocol::decode_to_remote_queue(queue, frame).map(|frame| {
                for message in frame.messages {
                    self.tell_remote_queue(now, from, queue, frame.session, message);
                }
            }),
        };
        if let Err(error) = result {
            tracing::error!(%from, %queue, %error, "a frame is dropped");
        }
    }

    /// Gives a host in this shard what a remote queue says.
    fn tell_host(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        command: Command,
    ) {
        self.on_kind(now, queue, |kind, context| {
            kind.receive(context, from, queue, session, command);
        });
    }

    /// Gives a remote queue in this shard what a leader says.
    fn tell_remote_queue(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: Event,
    ) {
        let received = with_remote_queues!(self, now, |remote_queues, context| {
            remote_queues.receive(queue, from, session, message, context)
        });
        match received {
            Received::Done => {}
            Received::Answer(answer) if from == self.node() => {
                self.tell_host(now, from, queue, 0, answer);
            }
            Received::Answer(answer) => {
                let mut encoder = Encoder::to_leader(0);
                encoder.put_to_leader(&answer);
                post(&mut self.effects, from, queue, encoder);
            }
        }
    }

    /// Lets remote queues and leaders say what they have to say to each other, until all is said.
    pub(crate) fn exchange(&mut self, now: Now) {
        loop {
            while let Some(queue) = self.remote_queues.pop_dirty() {
                self.flush_remote_queue(now, queue);
            }
            with_remote_queues!(self, now, |remote_queues, context| remote_queues
                .let_go_on(context));
            self.finish_replicas(now);
            if self.answers.is_empty() {
                break;
            }
            self.flush_answers(now);
        }
    }

    /// Lets the replica here complete what a leader has left to it.
    fn complete_local(&mut self, now: Now, queue: QueueId) {
        let next = |shard: &mut Self| {
            with_remote_queues!(shard, now, |remote_queues, context| remote_queues
                .next_local(queue, context))
        };
        while let Some(delivery) = next(self) {
            let found = self.replica_message(queue, &delivery);
            let is_pending = matches!(found, Found::Pending);
            with_remote_queues!(self, now, |remote_queues, context| {
                remote_queues.found_local(queue, found, context);
            });
            if is_pending {
                break;
            }
        }
    }

    /// What leaders on other nodes left to the replicas here to deliver.
    #[must_use]
    pub const fn local_deliveries(&self) -> LocalDeliveries {
        self.remote_queues.local_deliveries()
    }

    /// Lets a remote queue say what it has to say, as far as there is room for it.
    pub(crate) fn flush_remote_queue(&mut self, now: Now, queue: QueueId) {
        self.complete_local(now, queue);
        let hint = self.replica_leader(queue);
        self.remote_queues.locate(now, queue, hint);
        let own = self.node();
        let mut encoder: Option<(NodeId, Encoder)> = None;
        let mut local: Vec<(u64, Command)> = Vec::new();
        let may_wait = self.remote_queues.may_wait(now, queue);
        let peer_rooms = &mut self.peer_rooms;
        self.remote_queues
            .flush(queue, peer_rooms, |node, session, put| {
                if node == own {
                    let message = match put {
                        Put::Operations(first, operations) => Command::Operations {
                            first,
                            operations: operations.cloned().collect(),
                        },
                        Put::Message(message) => message,
                    };
                    local.push((session, message));
                    return;
                }
                let (_, encoder) =
                    encoder.get_or_insert_with(|| (node, Encoder::to_leader(session)));
                match put {
                    Put::Operations(first, operations) => encoder.put_operations(first, operations),
                    Put::Message(message) => encoder.put_to_leader(&message),
                }
            });
        self.remote_queues.note_deadline(queue);
        if let Some((node, encoder)) = encoder {
            let before = self.effects.peer.len();
            post(&mut self.effects, node, queue, encoder);
            for (_, frame) in &mut self.effects.peer[before..] {
                frame.may_wait = may_wait;
            }
        }
        for (session, message) in local {
            self.tell_host(now, own, queue, session, message);
        }
    }

    fn flush_answers(&mut self, now: Now) {
        let own = self.node();
        let mut answers = std::mem::take(&mut self.answers);
        // What is for one remote queue stays in its order and becomes one frame.
        answers.sort_by_key(|answer| (answer.to, answer.queue));
        let mut open: Option<(NodeId, QueueId, u64, Encoder)> = None;
        for answer in answers.drain(..) {
            let Answer {
                to,
                queue,
                session,
                message,
            } = answer;
            if to == own {
                self.tell_remote_queue(now, own, queue, session, message);
                continue;
            }
            let is_behind = self.pending_replies.has(to, queue);
            if is_behind || !has_room(&mut self.peer_rooms, to, queue, &message) {
                self.pending_replies.hold(to, queue, session, message);
                continue;
            }
            let place = (to, queue, session);
            if let Some((to, queue, _, encoder)) =
                open.take_if(|(to, queue, session, _)| (*to, *queue, *session) != place)
            {
                post(&mut self.effects, to, queue, encoder);
            }
            let (.., encoder) =
                open.get_or_insert_with(|| (to, queue, session, Encoder::to_remote_queue(session)));
            encoder.put_to_remote_queue(&message);
        }
        if let Some((to, queue, _, encoder)) = open {
            post(&mut self.effects, to, queue, encoder);
        }
        if self.answers.is_empty() {
            // Its memory is kept.
            self.answers = answers;
        }
    }

    /// Tells a node's remote queue what was held, as far as there is room for it.
    pub(crate) fn flush_pending_replies(&mut self, to: NodeId, queue: QueueId) {
        let mut open: Option<(u64, Encoder)> = None;
        let Self {
            pending_replies,
            peer_rooms,
            effects,
            ..
        } = self;
        let mut room = |event: &Event| has_room(peer_rooms, to, queue, event);
        while let Some((session, event)) = pending_replies.next(to, queue, &mut room) {
            if let Some((_, encoder)) = open.take_if(|(of, _)| *of != session) {
                post(effects, to, queue, encoder);
            }
            let (_, encoder) =
                open.get_or_insert_with(|| (session, Encoder::to_remote_queue(session)));
            encoder.put_to_remote_queue(&event);
        }
        if let Some((_, encoder)) = open {
            post(effects, to, queue, encoder);
        }
    }

    pub(crate) fn link_tick(&mut self, now: Now) {
        with_remote_queues!(self, now, |remote_queues, context| remote_queues
            .tick(context));
    }

    pub(crate) fn link_peer_down(&mut self, now: Now, peer: NodeId) {
        with_remote_queues!(self, now, |remote_queues, context| remote_queues
            .peer_down(peer, context));
    }

    pub(crate) fn remove_remote_queue(&mut self, now: Now, queue: QueueId) {
        with_remote_queues!(self, now, |remote_queues, context| remote_queues
            .remove(queue, context));
    }
}

/// Whether a remote queue on another node can be told something: what has no message needs no room.
fn has_room(rooms: &mut PeerRooms, to: NodeId, queue: QueueId, event: &Event) -> bool {
    let bytes = event.weight();
    bytes == 0 || rooms.take(to, bytes, Waiter::Answers(queue))
}

/// Sends frames to another node.
fn post(effects: &mut ShardEffects, to: NodeId, queue: QueueId, encoder: Encoder) {
    for pieces in encoder.finish() {
        effects.peer.push((to, PeerFrame::of_pieces(queue, pieces)));
    }
}

#[cfg(test)]
mod tests;
