//! A queue that is on this node alone, as the leader of proxies on other nodes.
//!
//! What a Raft leader does by committing, this does by the shard's own log: operations take effect
//! at once, and are told to be committed when the log is durable. Consumers on other nodes stand in
//! the queue as consumers of a connection that stands for their node; what is posted to it goes to
//! the proxy there instead.
//!
//! What it knows of a node goes with the way to that node: the proxy has given up everything by
//! then, so that nothing is taken twice.

use super::Asker;
use super::link::{Answer, Fetched, Operation, Origin, Standing, ToLeader, ToProxy};
use crate::env::{ConnectionEvent, QueueAnswer};
use crate::link::{ConsumerLink, Link};
use crate::shard::{Bodies, Deferred, Enqueued, GetOutcome, Shard, ShardEffects};
use hashbrown::HashMap;
use leveret_queue::Consumer;
use leveret_session::contract::{Delivery, Reply};
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now, QueueId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Connections that stand for nodes have this bit; no connection of a client has.
const STANDS_FOR_NODE: u64 = 1 << 63;

const fn stand_in(node: NodeId) -> ConnectionId {
    ConnectionId(STANDS_FOR_NODE | node.0 as u64)
}

fn stands_for(connection: ConnectionId) -> Option<NodeId> {
    let node = u32::try_from(connection.0 & !STANDS_FOR_NODE).ok()?;
    (connection.0 & STANDS_FOR_NODE != 0).then_some(NodeId(node))
}

/// Whether a connection is no client's but stands for another node.
pub(crate) fn stands_for_node(connection: ConnectionId) -> bool {
    stands_for(connection).is_some()
}

/// What is known of one node's proxy of one queue.
#[derive(Debug, Default)]
struct Guest {
    session: u64,
    start: u64,
    /// The last operation that was taken.
    taken: u64,
    /// Operations that are committed once the shard's log is durable through a chunk.
    awaiting: VecDeque<(u64, u64)>,
    /// Its consumers, and what may be under way to each.
    links: HashMap<ConsumerId, Arc<Link>, foldhash::fast::FixedState>,
    /// All who may hold something.
    holders: BTreeSet<ConsumerId>,
    /// Gets that wait for a message to be read from disk.
    gets: VecDeque<ConsumerId>,
}

/// The queues of a shard that other nodes use.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    guests: HashMap<(QueueId, NodeId), Guest, foldhash::fast::FixedState>,
}

impl Homes {
    /// Whether no other node uses anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    /// A queue is gone.
    pub(crate) fn remove(&mut self, queue: QueueId) {
        self.guests.retain(|(of, _), _| *of != queue);
    }

    /// A queue gets a leader instead: answers whose operations have been taken so far.
    pub(crate) fn take_origins(&mut self, queue: QueueId) -> Vec<(Origin, u64)> {
        let guests = self.guests.extract_if(|(of, _), _| *of == queue);
        let origin = |node, start| Origin { node, start };
        let mut taken: Vec<_> = guests
            .map(|((_, node), guest)| (origin(node, guest.start), guest.taken))
            .collect();
        taken.sort_unstable();
        taken
    }

    fn answer(&self, to: NodeId, queue: QueueId, message: ToProxy, answers: &mut Vec<Answer>) {
        if let Some(guest) = self.guests.get(&(queue, to)) {
            answers.push(Answer {
                to,
                queue,
                session: guest.session,
                message,
            });
        }
    }

    /// The shard's log is durable through `chunk`: tells what is committed by that.
    pub(crate) fn on_durable(&mut self, chunk: u64, answers: &mut Vec<Answer>) {
        for ((queue, to), guest) in &mut self.guests {
            let mut committed = None;
            while let Some((at, through)) = guest.awaiting.front() {
                if *at > chunk {
                    break;
                }
                committed = Some(*through);
                guest.awaiting.pop_front();
            }
            if let Some(through) = committed {
                answers.push(Answer {
                    to: *to,
                    queue: *queue,
                    session: guest.session,
                    message: ToProxy::Committed { through },
                });
            }
        }
    }

    /// Turns what was posted to connections that stand for nodes into messages to the proxies
    /// there.
    pub(crate) fn redirect(&mut self, effects: &mut ShardEffects, answers: &mut Vec<Answer>) {
        if self.guests.is_empty() {
            return effects.activated.clear();
        }
        let stands = |(connection, _): &mut (ConnectionId, ConnectionEvent)| {
            stands_for(*connection).is_some()
        };
        for (connection, event) in effects.posts.extract_if(.., stands) {
            let Some(node) = stands_for(connection) else {
                continue;
            };
            match event {
                ConnectionEvent::Deliver(delivery) => {
                    let queue = delivery.queue;
                    self.answer(node, queue, ToProxy::Deliver(delivery), answers);
                }
                ConnectionEvent::Reply(Reply::Got(got)) => self.got(node, got, answers),
                // The proxy learns of a deletion from the catalogue of its own node.
                _ => {}
            }
        }
        for (connection, queue, consumer) in effects.activated.drain(..) {
            if let Some(node) = stands_for(connection) {
                let message = ToProxy::Active {
                    consumer,
                    activation: 1,
                };
                self.answer(node, queue, message, answers);
            }
        }
        let is_remote = |work: &mut Deferred| {
            matches!(work, Deferred::TimedOut { connection, .. }
                if stands_for(*connection).is_some())
        };
        for work in effects.deferred.extract_if(.., is_remote) {
            let Deferred::TimedOut {
                connection,
                consumer,
            } = work
            else {
                continue;
            };
            for ((queue, to), guest) in &self.guests {
                if Some(*to) == stands_for(connection) && guest.holders.contains(&consumer) {
                    self.answer(*to, *queue, ToProxy::TimedOut(consumer), answers);
                }
            }
        }
    }

    /// A get that waited is answered.
    fn got(&mut self, node: NodeId, got: Option<(Delivery, u32)>, answers: &mut Vec<Answer>) {
        let of_node = |(_, to): &&(QueueId, NodeId)| *to == node;
        let found = match &got {
            Some((delivery, _)) => Some((delivery.queue, delivery.consumer)),
            None => {
                let mut waiting = self.guests.iter();
                waiting.find_map(|((queue, to), guest)| {
                    (*to == node).then_some((*queue, *guest.gets.front()?))
                })
            }
        };
        debug_assert!(self.guests.keys().any(|key| of_node(&key)));
        let Some((queue, holder)) = found else {
            return;
        };
        if let Some(guest) = self.guests.get_mut(&(queue, node)) {
            guest.gets.retain(|get| *get != holder);
        }
        let got = got.map(|(delivery, left)| (delivery, u64::from(left)));
        self.answer(node, queue, ToProxy::Got { holder, got }, answers);
    }
}

impl Shard {
    /// Takes what the proxy of another node says to a queue that is here alone.
    pub(super) fn home_receive(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: ToLeader,
    ) {
        let key = (queue, from);
        if let ToLeader::Present(presentation) = &message {
            let known = self.homes.guests.get(&key);
            if known.is_some_and(|guest| guest.session >= session) {
                return;
            }
            let same = known.filter(|guest| guest.start == presentation.start);
            let taken = same.map_or(0, |guest| guest.taken);
            self.home_forget(now, key);
            let guest = Guest {
                session,
                start: presentation.start,
                taken: taken.max(presentation.first_sequence.saturating_sub(1)),
                ..Guest::default()
            };
            let through = guest.taken;
            self.homes.guests.insert(key, guest);
            return self.home_answer(key, ToProxy::Committed { through });
        }
        match self.homes.guests.get(&key).map(|guest| guest.session) {
            Some(known) if known == session => {}
            Some(known) if known > session => return,
            _ => {
                return self.answers.push(Answer {
                    to: from,
                    queue,
                    session: 0,
                    message: ToProxy::Leading { term: 0 },
                });
            }
        }
        match message {
            ToLeader::Operations { first, operations } => {
                self.home_operations(now, key, first, operations);
            }
            ToLeader::Attach(consumer) => self.home_attach(now, key, consumer),
            ToLeader::Cancel(consumer) => {
                self.cancel_here(now, queue, consumer);
                // Behind the deliveries that were made before.
                self.homes.redirect(&mut self.effects, &mut self.answers);
                self.home_answer(key, ToProxy::Cancelled(consumer));
            }
            ToLeader::Detach(holder) => {
                self.detach_here(now, queue, holder);
                if let Some(guest) = self.homes.guests.get_mut(&key) {
                    guest.links.remove(&holder);
                    guest.holders.remove(&holder);
                    guest.gets.retain(|get| *get != holder);
                }
            }
            ToLeader::Credit {
                consumer,
                messages,
                bytes,
            } => {
                let guest = self.homes.guests.get(&key);
                let link = guest.and_then(|guest| guest.links.get(&consumer));
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if link.is_some_and(|link| link.give(messages as usize, bytes)) {
                    self.unblock_here(now, queue, consumer);
                }
            }
            ToLeader::Get { holder, no_ack } => self.home_get(now, key, holder, no_ack),
            ToLeader::Purge { request } => {
                let count = self.purge_here(now, queue);
                self.home_answer(key, ToProxy::Purged { request, count });
            }
            ToLeader::Count { request } => {
                self.finish_here(now);
                // A client asks because it declares the queue, which keeps its lease.
                self.touch(now, queue);
                let counts = self.counts(now, queue).unwrap_or_default();
                let standing = Standing {
                    ready: counts.ready,
                    unsettled: counts.unsettled,
                    consumers: counts.consumers as u64,
                };
                self.home_answer(key, ToProxy::Counted { request, standing });
            }
            ToLeader::Peek { request, before } => {
                let fetched = match self.peek(now, queue, Asker::Poll(0), before) {
                    Some(QueueAnswer::Peeked(fetched)) => fetched,
                    _ => Fetched::Unreadable,
                };
                self.home_answer(key, ToProxy::Peeked { request, fetched });
            }
            ToLeader::Present(_) | ToLeader::Absent { .. } | ToLeader::Fetch { .. } => {}
        }
    }

    fn home_answer(&mut self, (queue, to): (QueueId, NodeId), message: ToProxy) {
        self.homes.answer(to, queue, message, &mut self.answers);
    }

    fn home_operations(
        &mut self,
        now: Now,
        key: (QueueId, NodeId),
        first: u64,
        operations: Vec<Operation>,
    ) {
        let queue = key.0;
        let taken = self.homes.guests.get(&key).map_or(0, |guest| guest.taken);
        if first > taken + 1 {
            self.homes.guests.remove(&key);
            return self.answers.push(Answer {
                to: key.1,
                queue,
                session: 0,
                message: ToProxy::Leading { term: 0 },
            });
        }
        let mut is_durable = false;
        let mut last = taken;
        for (sequence, operation) in (first..).zip(operations) {
            if sequence <= taken {
                continue;
            }
            last = sequence;
            match operation {
                Operation::Nothing => {}
                Operation::Publish(message) => {
                    match self.publish_here(now, queue, &message, &mut Bodies::default()) {
                        Enqueued::Durable => is_durable = true,
                        Enqueued::Rejected | Enqueued::Gone => {
                            let sequences = sequence..sequence + 1;
                            self.home_answer(key, ToProxy::Refused { sequences });
                        }
                        Enqueued::Volatile | Enqueued::Kept { .. } => {}
                    }
                }
                Operation::Settle(settle) => {
                    self.settle_here(
                        now,
                        queue,
                        settle.holder,
                        settle.lane,
                        settle.range,
                        settle.outcome,
                    );
                }
            }
        }
        let chunk = self.ticket().chunk;
        let Some(guest) = self.homes.guests.get_mut(&key) else {
            return;
        };
        guest.taken = last;
        match guest.awaiting.back_mut() {
            Some(waits) if waits.0 == chunk || !is_durable => waits.1 = last,
            Some(_) => guest.awaiting.push_back((chunk, last)),
            None if is_durable => guest.awaiting.push_back((chunk, last)),
            None => self.home_answer(key, ToProxy::Committed { through: last }),
        }
    }

    fn home_attach(&mut self, now: Now, key: (QueueId, NodeId), consumer: Consumer) {
        let (queue, node) = key;
        let link = Arc::<Link>::default();
        let id = consumer.id;
        let place = ConsumerLink {
            link: Arc::clone(&link),
            limiter: None,
        };
        let result = self.attach_here(now, queue, consumer, stand_in(node), place);
        let result = match result {
            Ok(()) => {
                if let Some(guest) = self.homes.guests.get_mut(&key) {
                    guest.links.insert(id, link);
                    guest.holders.insert(id);
                }
                Ok(())
            }
            Err(Some(error)) => Err(error),
            // The queue is gone; the node will hear of it.
            Err(None) => return,
        };
        let consumer = id;
        self.home_answer(key, ToProxy::Attached { consumer, result });
        if self.single_active(queue, consumer) == Some(false) {
            let activation = 0;
            let message = ToProxy::Active {
                consumer,
                activation,
            };
            self.home_answer(key, message);
        }
    }

    fn home_get(&mut self, now: Now, key: (QueueId, NodeId), holder: ConsumerId, no_ack: bool) {
        let (queue, node) = key;
        if let Some(guest) = self.homes.guests.get_mut(&key) {
            guest.holders.insert(holder);
        }
        let got = match self.get_here(now, queue, holder, Some(stand_in(node)), no_ack) {
            GetOutcome::Message(delivery, left) => Some((delivery, left)),
            GetOutcome::Empty | GetOutcome::Gone | GetOutcome::Unavailable => None,
            GetOutcome::Pending => {
                if let Some(guest) = self.homes.guests.get_mut(&key) {
                    guest.gets.push_back(holder);
                }
                return;
            }
        };
        self.home_answer(key, ToProxy::Got { holder, got });
    }

    /// What a node's proxy had is given back.
    fn home_forget(&mut self, now: Now, key: (QueueId, NodeId)) {
        if let Some(guest) = self.homes.guests.remove(&key) {
            for holder in guest.holders {
                self.detach_here(now, key.0, holder);
            }
        }
    }

    /// A node is down: what its consumers hold returns.
    pub(super) fn home_peer_down(&mut self, now: Now, node: NodeId) {
        let of_node = self.homes.guests.keys().filter(|(_, of)| *of == node);
        let mut gone: Vec<_> = of_node.copied().collect();
        gone.sort_unstable();
        for key in gone {
            self.home_forget(now, key);
        }
    }
}
