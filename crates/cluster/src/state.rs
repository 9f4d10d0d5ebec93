//! The cluster's state that the threads of a node share.
//!
//! Invariant: nothing here reaches the rest of the node: what is to be done follows in
//! [`super::run`].

use super::election_request::ElectionRequest;
use super::elections;
use super::group::{CatalogueGroup, Recovered};
use super::leader_transfers::LeaderTransfers;
use super::peers::Peers;
use super::reports::Reports;
use super::starts::{KnownStarts, Starts, starts_in};
use crate::events::ProposalId;
use bytes::Bytes;
use leveret_metadata::{CatalogueError, Command, Outcome};
use leveret_replication::Status;
use leveret_stream::ReplicaMessage;
use leveret_types::limits::READ_BARRIERS_MAX;
use leveret_types::{ConnectionId, NodeId, Now, QueueId, ReplicaId};
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
    ReadBarrier(Vec<ConnectionId>),
    /// A thread that has the other end, which must have room for the answer.
    Operator(SyncSender<Result<Outcome, CatalogueError>>),
    /// Nobody.
    Nobody,
}

/// What has happened to the catalogue's group.
#[derive(Debug)]
pub(super) enum Event {
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
    AwaitReadBarrier(ConnectionId),
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
    pub(super) events: Mutex<Vec<Event>>,
    pub(super) waiting: AtomicBool,
    /// Whether the group waits for the write-ahead log, or is at work and may do so after.
    pub(super) awaits_log: AtomicBool,
    pub(super) group: Mutex<CatalogueGroup>,
    pub(super) transfers: Mutex<LeaderTransfers>,
    next_proposal: AtomicU64,
    /// The replica that leads the catalogue's group; 0 if none is known.
    leader: AtomicU64,
    wants_attention: AtomicBool,
    /// Whether the shards have their queues: from then on they follow the catalogue.
    pub(super) placed: AtomicBool,
    /// Whether the catalogue says that this node is to be emptied.
    pub(super) draining: AtomicBool,
    /// Connections that wait at a read barrier, and when members of queues are looked at next.
    read_barriers: AtomicUsize,
    due_ms: AtomicU64,
    /// Who leads streams next.
    pub(super) elections: Mutex<elections::Elections>,
    pub(super) election_events: Mutex<Vec<elections::Event>>,
    reports: Reports,
    pub(super) starts: Starts,
    /// The starts of nodes that the catalogue's log told of when this node started.
    pub(super) starts_found: BTreeMap<NodeId, u64>,
}

impl Cluster {
    /// A node's part in its cluster, with the catalogue's group as the disk has it.
    ///
    /// # Errors
    /// If that makes no sense.
    pub fn new(identity: Identity, found: Recovered) -> Result<Self, CatalogueError> {
        let starts_found = starts_in(&found.entries);
        let group = CatalogueGroup::new(identity.node, identity.start, found)?;
        Ok(Self {
            identity,
            events: Mutex::default(),
            waiting: AtomicBool::new(true),
            awaits_log: AtomicBool::new(true),
            group: Mutex::new(group),
            transfers: Mutex::default(),
            next_proposal: AtomicU64::new(1),
            leader: AtomicU64::new(0),
            wants_attention: AtomicBool::new(true),
            placed: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            read_barriers: AtomicUsize::new(0),
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

    /// Asks the cluster to carry out a command. [`super::run`] is to be called after.
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

    /// Lets a connection know, by [`crate::events::ClusterEvent::ReadBarrierPassed`], when this
    /// node has seen all that the cluster has agreed on by now, or after
    /// [`leveret_types::limits::READ_BARRIER_MS_MAX`]; false if too many wait already, or nobody
    /// leads, so that this node knows as much as it ever will. [`super::run`] is to be called
    /// after.
    pub fn await_read_barrier(&self, connection: ConnectionId, peers: &Peers) -> bool {
        if !self.reaches_leader(peers) {
            return false;
        }
        let waiting = |count| (count < READ_BARRIERS_MAX).then_some(count + 1);
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        if self
            .read_barriers
            .fetch_update(order.0, order.1, waiting)
            .is_err()
        {
            return false;
        }
        self.tell(Event::AwaitReadBarrier(connection));
        true
    }

    /// Whether somebody leads whom this node reaches: if not, it knows as much as it ever will.
    #[must_use]
    pub fn reaches_leader(&self, peers: &Peers) -> bool {
        let is_up = |leader| leader == self.identity.node || peers.is_up(leader);
        self.leader().is_some_and(is_up)
    }

    /// So many connections wait no more.
    pub(super) fn read_barriers_passed(&self, count: usize) {
        self.read_barriers.fetch_sub(count, Ordering::Relaxed);
    }

    /// Hands the leadership of the catalogue's group to another node, if this one has it.
    pub fn transfer(&self, to: NodeId) {
        self.tell(Event::Transfer(to));
    }

    pub(super) fn tell(&self, event: Event) {
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

    /// Whether something has happened that [`super::run`] is to see.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether it is time for [`super::run`] to see to the members of queues.
    #[must_use]
    pub fn is_due(&self, now: Now) -> bool {
        self.due_ms.load(Ordering::Relaxed) <= now.monotonic_ms
    }

    /// Whether [`super::run`] is to be called every [`leveret_types::limits::GROUP_TICK_MS`].
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.wants_attention.load(Ordering::Relaxed)
            || !lock(&self.transfers).is_empty()
            || !lock(&self.elections).is_empty()
    }

    /// A stream needs another epoch, as a node says. [`super::run`] is to be called after.
    pub fn stream_needs_leader(&self, from: NodeId, election_request: ElectionRequest) {
        self.tell_elections(elections::Event::ElectionRequest(from, election_request));
    }

    /// A node hands a stream that it leads over to another one. [`super::run`] is to be called
    /// after.
    pub fn move_stream(&self, from: NodeId, stream: QueueId, to: NodeId) {
        self.tell_elections(elections::Event::Move(from, stream, to));
    }

    /// A replica has answered whoever elects. [`super::run`] is to be called after.
    pub fn stream_prepared(&self, from: NodeId, stream: QueueId, message: ReplicaMessage) {
        self.tell_elections(elections::Event::Prepared(from, stream, message));
    }

    pub(super) fn tell_elections(&self, event: elections::Event) {
        lock(&self.election_events).push(event);
        self.waiting.store(true, Ordering::Release);
    }

    /// This node's alarms have changed: [`super::run`] is to see to what it leads.
    pub fn alarms_changed(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    /// The write-ahead log has gone on: whether the catalogue's group waits for that, so that
    /// [`super::run`] is to see how far.
    pub fn durable(&self) -> bool {
        let awaits = self.awaits_log.load(Ordering::SeqCst);
        if awaits {
            self.waiting.store(true, Ordering::Release);
        }
        awaits
    }

    pub(super) fn note(&self, leader: Option<ReplicaId>, wants_attention: bool, due_ms: u64) {
        self.due_ms.store(due_ms, Ordering::Relaxed);
        let leader = leader.map_or(0, |leader| leader.0);
        self.leader.store(leader, Ordering::Relaxed);
        self.wants_attention
            .store(wants_attention, Ordering::Relaxed);
    }

    pub(super) const fn transfers(&self) -> &Mutex<LeaderTransfers> {
        &self.transfers
    }

    /// Whether the shards have been given their queues, and follow the catalogue.
    pub fn has_placed_queues(&self) -> bool {
        self.placed.load(Ordering::Acquire)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
