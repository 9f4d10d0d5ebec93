//! The cluster as a node sees it: who else there is, who of them is up, where their frames go, and
//! the catalogue that all of them share.
//!
//! Invariant: nothing here owns a socket or a clock. The shell brings frames and tells which nodes
//! are connected; what is to be sent leaves through [`Env::post_peer`].
//! Invariant: the catalogue of a node that is in a cluster changes in [`run`] alone.

pub mod control;
pub mod detector;
pub mod forming;
pub mod group;
pub mod reports;
pub mod wire;

mod alarms;
mod elections;
mod leaders;
pub(crate) mod needed;
mod outdated;
mod peers;
mod reconcile;
mod stays;

pub use alarms::{alarms_together, are_streams_held, held_by, set_alarms_of};
pub use leaders::{hand_over_leaders, transfer};
pub use needed::Needed;
pub use outdated::KnownStarts;

pub use peers::{PeerAddress, PeerView, Peers};

use crate::env::{Env, Executed, ProposalId};
use crate::shard::Shard;
use crate::stream_relay::STREAM_LINK;
use bytes::Bytes;
use group::{CatalogueAround, CatalogueGroup};
use leaders::Moves;
use leveret_metadata::{Catalogue, CatalogueError, Change, Command, Outcome};
use leveret_replication::Status;
use leveret_stream::ReplicaMessage;
use leveret_types::limits::LOOKS_MAX;
use leveret_types::{ConnectionId, NodeId, Now, QueueId, ReplicaId, ShardId};
use outdated::{KIND_STARTS, Starts};
use reports::{KIND_ANSWER, KIND_ASK, Reports};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The queue id under which frames of the catalogue's group travel: no queue has it.
pub const CATALOGUE_GROUP: QueueId = QueueId(0);

/// Who waits for the cluster to carry out a command.
#[derive(Debug)]
pub enum Waiter {
    /// A connection.
    Connection(ConnectionId),
    /// Connections that want to know whether there is something that this node does not know.
    Looks(Vec<ConnectionId>),
    /// A thread that has the other end, which must have room for the answer.
    Operator(SyncSender<Result<Outcome, CatalogueError>>),
    /// Nobody.
    Nobody,
}

/// What has happened to the catalogue's group.
#[derive(Debug)]
enum Event {
    Propose {
        id: ProposalId,
        waiter: Waiter,
        command: Command,
    },
    Frame(NodeId, Bytes),
    PeerUp(NodeId),
    PeerDown(NodeId),
    Transfer(NodeId),
    Drain,
    Look(ConnectionId),
    Outdated,
}

/// Who this node is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: [u8; 16],
    /// The number that the cluster gave this node.
    pub node: NodeId,
    /// The identity of its data folder.
    pub uuid: [u8; 16],
    /// Another, greater number for each run of its process.
    pub start: u64,
}

/// A node's part in its cluster: what its threads share.
pub struct Cluster {
    identity: Identity,
    events: Mutex<Vec<Event>>,
    waiting: AtomicBool,
    group: Mutex<CatalogueGroup>,
    moves: Mutex<Moves>,
    next_proposal: AtomicU64,
    /// The replica that leads the catalogue's group; 0 if none is known.
    leader: AtomicU64,
    wants_attention: AtomicBool,
    /// Whether the shards have their queues: from then on they follow the catalogue.
    placed: AtomicBool,
    /// Whether the catalogue says that this node is to be emptied.
    draining: AtomicBool,
    /// Connections that wait for a look, and when members of queues are looked at next.
    looks: AtomicUsize,
    due_ms: AtomicU64,
    /// Who leads streams next.
    elections: Mutex<elections::Elections>,
    election_events: Mutex<Vec<elections::Event>>,
    reports: Reports,
    starts: Starts,
    /// The starts of nodes that the catalogue's log told of when this node started.
    starts_found: BTreeMap<NodeId, u64>,
}

impl Cluster {
    /// A node's part in its cluster, with the catalogue's group as the disk has it.
    ///
    /// # Errors
    /// If that makes no sense.
    pub fn new(identity: Identity, found: group::Recovered) -> Result<Self, CatalogueError> {
        let starts_found = outdated::starts_in(&found.entries);
        let group = CatalogueGroup::new(identity.node, identity.start, found)?;
        Ok(Self {
            identity,
            events: Mutex::default(),
            waiting: AtomicBool::new(true),
            group: Mutex::new(group),
            moves: Mutex::default(),
            next_proposal: AtomicU64::new(1),
            leader: AtomicU64::new(0),
            wants_attention: AtomicBool::new(true),
            placed: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            looks: AtomicUsize::new(0),
            due_ms: AtomicU64::new(u64::MAX),
            elections: Mutex::default(),
            election_events: Mutex::default(),
            reports: Reports::default(),
            starts: Starts::default(),
            starts_found,
        })
    }

    /// Says which starts of its process this node's data folder knows of, so that it is told if
    /// that is an older copy of itself; without it never.
    #[must_use]
    pub fn with_starts(mut self, known: KnownStarts) -> Self {
        self.starts = Starts::new(self.identity.start, known);
        self
    }

    /// The start of this node that the cluster knows and its data folder does not, if that has
    /// turned out to be an older copy of itself.
    #[must_use]
    pub fn missing_start(&self) -> Option<u64> {
        self.starts.missing()
    }

    /// Who this node is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What this node asks others for operators, and others ask it.
    #[must_use]
    pub const fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Asks the cluster to carry out a command. [`run`] is to be called after.
    pub fn propose(&self, waiter: Waiter, command: Command) -> ProposalId {
        // Numbers are given under the lock, so that they are handed on in their order.
        let mut events = lock(&self.events);
        let id = ProposalId(self.next_proposal.fetch_add(1, Ordering::Relaxed));
        events.push(Event::Propose {
            id,
            waiter,
            command,
        });
        self.waiting.store(true, Ordering::Release);
        id
    }

    /// Lets a connection know, by [`crate::env::ConnectionEvent::Peeked`], when this node has seen
    /// all that the cluster has agreed on by now, or after
    /// [`leveret_types::limits::LOOK_MS_MAX`]; false if too many wait
    /// already, or nobody leads, so that this node knows as much as it ever will. [`run`] is to be
    /// called after.
    pub fn look(&self, connection: ConnectionId, peers: &Peers) -> bool {
        let is_up = |leader| leader == self.identity.node || peers.is_up(leader);
        if !self.leader().is_some_and(is_up) {
            return false;
        }
        let waiting = |count| (count < LOOKS_MAX).then_some(count + 1);
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        if self.looks.fetch_update(order.0, order.1, waiting).is_err() {
            return false;
        }
        self.tell(Event::Look(connection));
        true
    }

    /// So many connections wait no more.
    fn looked(&self, count: usize) {
        self.looks.fetch_sub(count, Ordering::Relaxed);
    }

    /// Hands the leadership of the catalogue's group to another node, if this one has it.
    pub fn transfer(&self, to: NodeId) {
        self.tell(Event::Transfer(to));
    }

    fn tell(&self, event: Event) {
        lock(&self.events).push(event);
        self.waiting.store(true, Ordering::Release);
    }

    /// The node that leads the catalogue's group, if that is known.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        match self.leader.load(Ordering::Relaxed) {
            0 => None,
            leader => Some(ReplicaId(leader).node()),
        }
    }

    /// How the catalogue's group stands.
    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.group).status()
    }

    /// Whether something has happened that [`run`] is to see.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether it is time for [`run`] to see to the members of queues.
    #[must_use]
    pub fn is_due(&self, now: Now) -> bool {
        self.due_ms.load(Ordering::Relaxed) <= now.monotonic_ms
    }

    /// Whether [`run`] is to be called every [`leveret_types::limits::GROUP_TICK_MS`].
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.wants_attention.load(Ordering::Relaxed)
            || !lock(&self.moves).is_empty()
            || !lock(&self.elections).is_empty()
    }

    /// A stream needs another epoch, as a node says. [`run`] is to be called after.
    pub fn stream_needs_leader(&self, from: NodeId, needed: Needed) {
        self.tell_elections(elections::Event::Needed(from, needed));
    }

    /// A node hands a stream that it leads over to another one. [`run`] is to be called after.
    pub fn move_stream(&self, from: NodeId, stream: QueueId, to: NodeId) {
        self.tell_elections(elections::Event::Move(from, stream, to));
    }

    /// A replica has answered whoever elects. [`run`] is to be called after.
    pub fn stream_prepared(&self, from: NodeId, stream: QueueId, message: ReplicaMessage) {
        self.tell_elections(elections::Event::Prepared(from, stream, message));
    }

    fn tell_elections(&self, event: elections::Event) {
        lock(&self.election_events).push(event);
        self.waiting.store(true, Ordering::Release);
    }

    /// This node's alarms have changed: [`run`] is to see to what it leads.
    pub fn alarms_changed(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    /// The write-ahead log has gone on: [`run`] is to see how far.
    pub fn durable(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    fn note(&self, leader: Option<ReplicaId>, wants_attention: bool, due_ms: u64) {
        self.due_ms.store(due_ms, Ordering::Relaxed);
        let leader = leader.map_or(0, |leader| leader.0);
        self.leader.store(leader, Ordering::Relaxed);
        self.wants_attention
            .store(wants_attention, Ordering::Relaxed);
    }

    const fn moves(&self) -> &Mutex<Moves> {
        &self.moves
    }

    fn is_placed(&self) -> bool {
        self.placed.load(Ordering::Acquire)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the catalogue's group go on: what has been proposed, what has come, what has become
/// durable. One thread does this. Nothing may be borrowed.
pub fn run<E: Env>(now: Now, env: &E) {
    let Some(cluster) = env.cluster() else {
        return;
    };
    let mut group = lock(&cluster.group);
    cluster.waiting.store(false, Ordering::Release);
    let events = std::mem::take(&mut *lock(&cluster.events));
    let mut around = CatalogueAround { now, cluster, env };
    let mut drains = false;
    for event in events {
        drains |= matches!(event, Event::Drain);
        group.handle(&around, event);
    }
    if drains {
        group.hand_over_leadership(|_| true);
        lock(&cluster.moves).leave(env);
    }
    let is_due = lock(&cluster.moves).leaves_full_disk(now, env.alarms().disk);
    if is_due && cluster.is_placed() {
        group.hand_over_leadership(|node| !env.alarms_of(node).disk);
        hand_over_leaders(now, env);
    }
    group.advance(&mut around);
    drop(group);
    if cluster.is_placed() {
        elections::run(now, cluster, env);
        lock(&cluster.moves).run(now, env);
    }
}

/// The answer to a command that changes nothing as far as this node knows, if it reaches too few
/// others to ask them: clients of a minority declare again what they use, and go on. Nothing where
/// the cluster can be asked, or something would change.
pub fn known_without_majority<E: Env>(command: &Command, env: &E) -> Option<Executed> {
    let cluster = env.cluster()?;
    let is_up = |node: NodeId| node == env.node_id() || env.peers().is_up(node);
    if cluster.leader().is_some_and(is_up) {
        return None;
    }
    let membership = cluster.status().membership;
    if membership.has_majority(|voter| is_up(voter.node())) {
        return None;
    }
    let outcome = env.catalogue().unchanged_by(command)?;
    Some(Executed {
        outcome,
        log_position: None,
    })
}

/// Hands what this node leads to others, as far as they can take it. Nothing may be borrowed.
pub fn leave_leaders<E: Env>(env: &E) {
    if let Some(cluster) = env.cluster() {
        lock(&cluster.moves).leave(env);
        env.wake_cluster();
    }
}

/// Takes in frames that another node has sent, in their order. Nothing may be borrowed.
pub fn receive<E: Env>(now: Now, from: NodeId, frames: Vec<(QueueId, Bytes)>, env: &E) {
    let mut held: Option<(ShardId, E::ShardGuard<'_>)> = None;
    for (queue, frame) in frames {
        if queue == CATALOGUE_GROUP && frame.first() == Some(&leaders::KIND_TRANSFER) {
            if let Some((_, mut shard)) = held.take() {
                shard.finish(now);
            }
            leaders::receive(now, &frame, env);
            continue;
        }
        if queue == CATALOGUE_GROUP && frame.first() == Some(&KIND_STARTS) {
            if let Some((_, mut shard)) = held.take() {
                shard.finish(now);
            }
            outdated::receive(now, from, &frame, env);
            continue;
        }
        if queue == STREAM_LINK {
            if let Some((_, mut shard)) = held.take() {
                shard.finish(now);
            }
            env.receive_of_streams(from, frame);
            continue;
        }
        if queue == CATALOGUE_GROUP {
            if let Some(cluster) = env.cluster() {
                if matches!(frame.first(), Some(&(KIND_ASK | KIND_ANSWER))) {
                    cluster.reports.receive(from, &frame);
                    continue;
                }
                cluster.tell(Event::Frame(from, frame));
            }
            continue;
        }
        let id = env.shard_of(queue);
        if held.as_ref().is_some_and(|(of, _)| *of != id)
            && let Some((_, mut shard)) = held.take()
        {
            shard.finish(now);
        }
        let (_, shard) = held.get_or_insert_with(|| (id, env.shard(id)));
        shard.receive_peer(now, from, queue, frame);
    }
    if let Some((_, mut shard)) = held {
        shard.finish(now);
    }
}

/// Another node is connected, in both directions, from now on. Nothing may be borrowed.
pub fn peer_up<E: Env>(now: Now, peer: NodeId, env: &E) {
    env.peers().set_up(peer, true);
    // Before anything that it could vote on.
    outdated::greet(now, peer, env);
    if let Some(cluster) = env.cluster() {
        cluster.tell(Event::PeerUp(peer));
        cluster.tell_elections(elections::Event::Peer(peer, true));
        lock(&cluster.moves).returned(now, peer);
    }
    env.peer_of_streams(peer, true);
    for_each_shard(env, now, |shard| shard.peer_up(now, peer));
}

/// Another node is down, or the way to it is: what was sent and not answered may be lost. Nothing
/// may be borrowed.
pub fn peer_down<E: Env>(now: Now, peer: NodeId, env: &E) {
    env.peers().set_up(peer, false);
    if let Some(cluster) = env.cluster() {
        cluster.tell(Event::PeerDown(peer));
        cluster.tell_elections(elections::Event::Peer(peer, false));
        lock(&cluster.moves).gone(peer);
    }
    env.peer_of_streams(peer, false);
    for_each_shard(env, now, |shard| shard.peer_down(now, peer));
}

fn for_each_shard<E: Env>(env: &E, now: Now, mut act: impl FnMut(&mut Shard)) {
    for shard in 0..env.settings().shard_count {
        env.with_shard(now, ShardId(shard), &mut act);
    }
}

/// Gives the shards their queues with `place`, and lets them follow the catalogue from then on.
/// Nothing may be borrowed.
pub fn place<E: Env>(env: &E, place: impl FnOnce(&Catalogue)) {
    let Some(cluster) = env.cluster() else {
        return;
    };
    env.change_catalogue(|catalogue| {
        place(catalogue);
        cluster.placed.store(true, Ordering::Release);
    });
}

/// Takes note of who else is in the cluster.
pub fn follow_nodes<E: Env>(catalogue: &Catalogue, env: &E) {
    if !catalogue.is_clustered() {
        // It has not come yet; until then those count that let this node in.
        return;
    }
    let others = catalogue.nodes().filter(|node| node.id() != env.node_id());
    let peers = others.map(|node| PeerAddress {
        node: node.id(),
        uuid: node.uuid,
        address: node.address.clone(),
    });
    env.peers().replace(peers.collect());
    if let Some(cluster) = env.cluster() {
        let own = catalogue.node(env.node_id());
        let draining = own.is_some_and(|own| own.draining);
        if draining && !cluster.draining.swap(true, Ordering::Relaxed) {
            cluster.tell(Event::Drain);
        } else if !draining {
            cluster.draining.store(false, Ordering::Relaxed);
        }
    }
}

/// Puts a catalogue that has come as a whole in the place of the one that there was.
fn replace<E: Env>(
    catalogue: &mut Catalogue,
    mut next: Catalogue,
    now: Now,
    placed: bool,
    env: &E,
) {
    next.follows(catalogue);
    let before = std::mem::replace(catalogue, next);
    follow_nodes(catalogue, env);
    if !placed {
        return;
    }
    for record in before.queues(None) {
        let change = match catalogue.queue(record.id()) {
            None => Change::QueueDeleted(Box::new(record.clone())),
            Some(kept) if kept != record => Change::QueueChanged(record.id()),
            Some(_) => continue,
        };
        crate::catalogue::follow(catalogue, &change, now, env);
    }
    let new: Vec<QueueId> = catalogue
        .queues(None)
        .map(leveret_metadata::QueueRecord::id)
        .filter(|id| before.queue(*id).is_none())
        .collect();
    for id in new {
        crate::catalogue::follow(catalogue, &Change::QueueCreated(id), now, env);
    }
}
