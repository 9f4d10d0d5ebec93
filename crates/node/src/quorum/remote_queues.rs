//! The remote queues of one shard: who has one, which of them have something to say, and when they
//! are to be looked at.

use super::link::{Command, Event, LocalDelivery, Operation, Origin};
use super::remote_queue::{Budget, LeaderLocation, Put, Reach, RemoteQueue};
use crate::peeked::Found;
use hashbrown::HashMap;
use leveret_types::limits::PENDING_NODE_BYTES_MAX;
use leveret_types::{ConsumerId, Message, NodeId, Now, QueueId};
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
    pub(crate) fn new(origin: Origin, shards: u16) -> Self {
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

    /// Takes a queue away: its consumers are cancelled, what waits for it is refused.
    pub(crate) fn remove(&mut self, queue: QueueId, reach: &mut Reach<'_>) {
        if let Some(entry) = self.entries.remove(&queue) {
            self.deadlines.remove(&(entry.deadline_ms, queue));
            if let Some(mut remote_queue) = entry.remote_queue {
                remote_queue.abandon(reach);
            }
        }
        self.let_go_on(reach);
    }

    /// Lets those go on that were held back because all queues together kept too much, once they
    /// keep less.
    pub(crate) fn let_go_on(&mut self, reach: &mut Reach<'_>) {
        if self.together.has_room_again() {
            let entries = self.entries.values_mut();
            for remote_queue in entries.filter_map(|entry| entry.remote_queue.as_deref_mut()) {
                remote_queue.let_go_on(reach);
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
        let (own, up) = (self.origin.node, &self.up);
        let is_up = |node: &NodeId| *node == own || up.contains(node);
        let is_unavailable = entry.single && !entry.nodes.iter().any(is_up);
        let remote_queue = entry
            .remote_queue
            .get_or_insert_with(|| Box::new(RemoteQueue::new(queue, Arc::clone(&self.together))));
        remote_queue.set_unavailable(is_unavailable);
        Some(remote_queue)
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

    /// Gives what a remote queue has to say to `put`, with where it goes and in which session.
    pub(crate) fn flush(
        &mut self,
        queue: QueueId,
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
        if let LeaderLocation::Asked(node) | LeaderLocation::Led(node) = remote_queue.place() {
            remote_queue.flush(start, |what| put(node, session, what));
        }
    }

    /// Takes in what a leader says.
    pub(crate) fn receive(
        &mut self,
        queue: QueueId,
        from: NodeId,
        session: u64,
        message: Event,
        reach: &mut Reach<'_>,
    ) -> Received {
        let next = self.last_session + 1;
        let Some(entry) = self.entries.get_mut(&queue) else {
            return absent(&message);
        };
        let Some(remote_queue) = entry.remote_queue.as_deref_mut() else {
            return absent(&message);
        };
        // Only who leads is said outside of sessions.
        let is_placing = matches!(message, Event::Leading { .. } | Event::NotLeader { .. });
        if !is_placing && (remote_queue.session() != session || !remote_queue.is_with(from)) {
            return Received::Done;
        }
        remote_queue.receive(from, message, next, reach);
        if remote_queue.session() == next {
            self.last_session = next;
        }
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(queue);
        }
        self.let_go_on(reach);
        Received::Done
    }

    /// The next delivery of a queue that the replica here is to complete.
    pub(crate) fn next_local(
        &mut self,
        queue: QueueId,
        reach: &mut Reach<'_>,
    ) -> Option<LocalDelivery> {
        let remote_queue = self.entries.get_mut(&queue)?.remote_queue.as_deref_mut()?;
        remote_queue.next_local(reach)
    }

    /// What became of the message of that delivery.
    pub(crate) fn found_local(&mut self, queue: QueueId, found: Found, reach: &mut Reach<'_>) {
        let entry = self.entries.get_mut(&queue);
        let Some(remote_queue) = entry.and_then(|entry| entry.remote_queue.as_deref_mut()) else {
            return;
        };
        match found {
            Found::Message(message) => {
                self.counts.read += 1;
                self.counts.read_bytes += u64::from(message.size());
                remote_queue.complete(message, reach);
            }
            Found::Pending => remote_queue.await_read(reach.now),
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
            let Some(remote_queue) =
                busy.filter(|remote_queue| !matches!(remote_queue.place(), LeaderLocation::Led(_)))
            else {
                continue;
            };
            remote_queue.look_soon(now);
            if !entry.dirty {
                entry.dirty = true;
                self.dirty.push(*queue);
            }
        }
    }

    /// A node is down.
    pub(crate) fn peer_down(&mut self, node: NodeId, reach: &mut Reach<'_>) {
        self.up.retain(|up| *up != node);
        for (queue, entry) in &mut self.entries {
            let Some(remote_queue) = entry.remote_queue.as_deref_mut() else {
                continue;
            };
            if remote_queue.place() != LeaderLocation::Led(node)
                && remote_queue.place() != LeaderLocation::Asked(node)
            {
                continue;
            }
            if entry.single {
                remote_queue.abandon(reach);
            } else {
                remote_queue.lose(reach);
            }
            if !entry.dirty {
                entry.dirty = true;
                self.dirty.push(*queue);
            }
        }
        self.let_go_on(reach);
    }

    /// Marks the remote queues whose time has come.
    pub(crate) fn tick(&mut self, reach: &mut Reach<'_>) {
        while let Some(&(at, queue)) = self.deadlines.first() {
            if at > reach.now.monotonic_ms {
                break;
            }
            self.deadlines.remove(&(at, queue));
            if let Some(entry) = self.entries.get_mut(&queue) {
                entry.deadline_ms = 0;
            }
            if let Some(remote_queue) = self.used(queue) {
                remote_queue.expire(reach);
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

fn absent(message: &Event) -> Received {
    match message {
        Event::Leading { term } => Received::Answer(Command::Absent { term: *term }),
        _ => Received::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::ConnectionEvent;
    use crate::quorum::Notify;
    use crate::shard::ShardEffects;
    use leveret_types::ConnectionId;

    #[test]
    fn a_node_that_was_asked_and_is_down_is_not_waited_for() {
        let node = NodeId(1);
        let mut remote_queues = RemoteQueues::new(Origin { node, start: 1 }, 1);
        let (queue, now) = (QueueId(1), Now::both(1_000));
        let mut effects = ShardEffects::default();
        let reach = &mut Reach {
            now,
            node,
            effects: &mut effects,
        };
        remote_queues.place(queue, &[NodeId(2), NodeId(3)], false);
        for peer in [NodeId(2), NodeId(3)] {
            remote_queues.peer_up(now, peer);
        }
        let remote_queue = remote_queues.used(queue).expect("it is placed");
        remote_queue.keep(Operation::Nothing, Notify::Nobody);
        remote_queues.locate(now, queue, None);
        let place = |remote_queues: &RemoteQueues| {
            let remote_queue = remote_queues.known(queue).expect("it is used");
            remote_queue.place()
        };
        assert_eq!(place(&remote_queues), LeaderLocation::Asked(NodeId(2)));
        remote_queues.peer_down(NodeId(3), reach);
        assert_eq!(place(&remote_queues), LeaderLocation::Asked(NodeId(2)));
        remote_queues.peer_down(NodeId(2), reach);
        assert_eq!(place(&remote_queues), LeaderLocation::Unknown);
    }

    #[test]
    fn a_queue_that_was_never_placed_or_is_gone_is_not_had() {
        let node = NodeId(1);
        let mut remote_queues = RemoteQueues::new(Origin { node, start: 1 }, 1);
        let mut effects = ShardEffects::default();
        let reach = &mut Reach {
            now: Now::both(1),
            node,
            effects: &mut effects,
        };
        assert!(!remote_queues.has(QueueId(1)));
        remote_queues.place(QueueId(1), &[NodeId(2)], false);
        assert!(remote_queues.has(QueueId(1)) && !remote_queues.has(QueueId(2)));
        remote_queues.remove(QueueId(1), reach);
        assert!(!remote_queues.has(QueueId(1)));
    }

    /// A queue that keeps nothing itself is never heard of: others must let its publishers go on.
    #[test]
    fn who_was_held_back_for_other_queues_goes_on_when_those_keep_less_or_are_gone() {
        for is_gone in [false, true] {
            held_back_until(is_gone);
        }
    }

    fn held_back_until(is_gone: bool) {
        let node = NodeId(1);
        let mut remote_queues = RemoteQueues::new(Origin { node, start: 1 }, u16::MAX);
        let (busy, quiet, publisher) = (QueueId(1), QueueId(2), ConnectionId(7));
        let mut effects = ShardEffects::default();
        let reach = &mut Reach {
            now: Now::both(1),
            node,
            effects: &mut effects,
        };
        for queue in [busy, quiet] {
            remote_queues.place(queue, &[NodeId(2)], false);
        }
        let hold_back = |remote_queues: &mut RemoteQueues, queue| {
            let remote_queue = remote_queues.used(queue).expect("it is placed");
            remote_queue.hold_back(publisher)
        };
        let mut last = 0;
        while !hold_back(&mut remote_queues, quiet) {
            let remote_queue = remote_queues.used(busy).expect("it is placed");
            (last, _) = remote_queue.keep(Operation::Nothing, Notify::Nobody);
        }
        assert!(last > 1, "one operation is no bound");
        let through = Event::Committed { through: last };
        match is_gone {
            false => drop(remote_queues.receive(busy, NodeId(2), 0, through, reach)),
            true => remote_queues.remove(busy, reach),
        }
        assert!(!hold_back(&mut remote_queues, quiet));
        assert!(
            effects.posts.iter().any(|(to, event)| *to == publisher
                && matches!(event, ConnectionEvent::Room(queue) if *queue == quiet)),
            "{:?}",
            effects.posts
        );
    }
}
