//! What a simulated node's actors reach.

use super::relay::Relayed;
use super::streams::StreamInput;
use bytes::Bytes;
use leveret_auth::{HashMemory, LoginCheck, Verdict};
use leveret_cluster::streams::{ClientAddresses, StreamChange, StreamNews};
use leveret_cluster::{BorrowedShard, Env as _};
use leveret_cluster::{Cluster, Peers, Waiter};
use leveret_metadata::{Catalogue, CatalogueError, Change, Command};
use leveret_node::env::{
    ClusterEvent, ConnectionEvent, Env, Executed, LoginFrom, PeerFrame, Proposal, ProposalId,
};
use leveret_node::history::History;
use leveret_node::registry::Registry;
use leveret_node::reply_to::Replies;
use leveret_node::{Alarms, NodeCounters, NodeSettings};
use leveret_queue_host::shard::{Deferred, Shard};
use leveret_stream::{Event, SessionId};
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now, ShardId};
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Shards of each node.
pub const SHARDS: u16 = 2;

/// A change of the catalogue on its way, and who waits for what it answers.
pub type PendingChange = (Option<(ConnectionId, ProposalId)>, Command);

/// What a node's actors reach.
pub struct NodeEnv {
    /// Which node it is.
    pub node: NodeId,
    pub(super) shards: Vec<RefCell<Shard>>,
    /// How often shards were borrowed, all together.
    pub shards_borrowed: Cell<u64>,
    /// How often at most while the catalogue was borrowed once to change it.
    pub shards_borrowed_in_change: Cell<u64>,
    /// How often the catalogue was borrowed.
    pub catalogues_borrowed: Cell<u64>,
    pub(super) durable: Vec<Cell<u64>>,
    /// The catalogue as far as this node has applied it.
    pub catalogue: RefCell<Catalogue>,
    pub(super) posts: RefCell<VecDeque<(ConnectionId, ConnectionEvent)>>,
    /// What is on its way to other nodes, in order.
    pub frames: RefCell<VecDeque<(NodeId, PeerFrame)>>,
    pub(super) deferred: RefCell<VecDeque<Deferred>>,
    /// The most that was done of that in one turn, in units.
    pub deferred_work_most: Cell<usize>,
    pub(super) stream_inputs: RefCell<Vec<StreamInput>>,
    /// What queues of shards say to streams, in order.
    said: RefCell<VecDeque<(SessionId, leveret_stream::Command)>>,
    /// What streams say to queues of shards, in order.
    pub(super) heard: RefCell<VecDeque<(SessionId, Event)>>,
    /// The streams of other nodes, and their sessions at the streams of this one.
    pub(super) relayed: Relayed,
    /// Whether the streams have no room for publishes and new readers, and who was told so.
    are_streams_full: Cell<bool>,
    refused: RefCell<BTreeSet<ConnectionId>>,
    /// What this node's clients want changed in the catalogue, where that has no group of its own.
    pub proposals: RefCell<Vec<PendingChange>>,
    next_proposal: Cell<u64>,
    next_consumer: Cell<u64>,
    random: Cell<u64>,
    pub(super) alarms: Cell<Alarms>,
    /// When the node last looked which others are up: [`Shard::set_peers_checked_ms`].
    pub peers_checked_ms: Cell<u64>,
    pub(super) cluster: Option<Cluster>,
    peers: Peers,
    settings: NodeSettings,
    counters: NodeCounters,
    registry: Registry,
    replies: Replies,
    history: History,
}

impl NodeEnv {
    /// Pieces of work that were handed over and wait for their turn.
    pub fn deferred_count(&self) -> usize {
        self.deferred.borrow().len()
    }

    /// The environment of a node that has these shards, and this catalogue so far.
    pub(super) fn new(
        node: NodeId,
        start: u64,
        shards: Vec<Shard>,
        catalogue: Catalogue,
        cluster: Option<Cluster>,
    ) -> Self {
        let durable = shards.iter().map(|shard| shard.logs.durable_through());
        Self {
            node,
            durable: durable.map(Cell::new).collect(),
            shards: shards.into_iter().map(RefCell::new).collect(),
            shards_borrowed: Cell::new(0),
            shards_borrowed_in_change: Cell::new(0),
            catalogues_borrowed: Cell::new(0),
            catalogue: RefCell::new(catalogue),
            posts: RefCell::default(),
            frames: RefCell::default(),
            deferred: RefCell::default(),
            deferred_work_most: Cell::default(),
            stream_inputs: RefCell::default(),
            said: RefCell::default(),
            heard: RefCell::default(),
            relayed: Relayed::default(),
            are_streams_full: Cell::default(),
            refused: RefCell::default(),
            proposals: RefCell::default(),
            next_proposal: Cell::new(1),
            next_consumer: Cell::new(u64::from(node.0) << 40 | 1),
            random: Cell::new(start << 8 | u64::from(node.0)),
            alarms: Cell::default(),
            peers_checked_ms: Cell::new(u64::MAX),
            cluster,
            peers: Peers::default(),
            settings: settings(),
            counters: NodeCounters::default(),
            registry: Registry::default(),
            replies: Replies::default(),
            history: History::default(),
        }
    }

    /// Says to streams what queues of the shards want said, and tells those what streams say; false
    /// if that was nothing. No shard is borrowed.
    pub(super) fn exchange_with_streams(&self, now: Now) -> bool {
        let said = self.said.take();
        let is_full = self.are_streams_full.get();
        let mut busy = !said.is_empty();
        for (session, command) in said {
            if matches!(command, leveret_stream::Command::Leave) {
                self.relayed.leave(session, VecDeque::new(), self);
                continue;
            }
            let is_publish = matches!(command, leveret_stream::Command::Publish { .. });
            let stream = command.stream().unwrap_or_default();
            if is_publish && is_full || self.relayed.say(session, command, self).is_err() {
                self.heard
                    .borrow_mut()
                    .push_back((session, Event::Lost { stream }));
            }
        }
        let heard = self.heard.take();
        busy |= !heard.is_empty();
        for (session, event) in heard {
            let SessionId::Queue(queue) = session else {
                unreachable!("{session:?} hears for itself");
            };
            self.with_shard(now, self.shard_of(queue), |shard| {
                shard.hear_stream(now, queue, StreamNews::Event(event));
            });
        }
        busy
    }

    /// The streams have no room for publishes and new readers from now on, or have some again.
    pub fn fill_streams(&self, are_full: bool) {
        self.are_streams_full.set(are_full);
        if !are_full {
            for connection in self.refused.take() {
                self.post(connection, ConnectionEvent::Stream(StreamNews::Room));
            }
        }
    }
}

fn settings() -> NodeSettings {
    NodeSettings {
        session: Arc::default(),
        session_tls: Arc::default(),
        stream: Default::default(),
        shard_count: SHARDS,
        node_name: "leveret@test".to_owned(),
        hashing: leveret_auth::HashingAlgorithm::Sha256,
        certificate_name: Default::default(),
        anonymous: None,
        login_failure_delay_ms: 0,
        traces: None,
    }
}

/// A borrowed shard.
pub struct Guard<'a> {
    env: &'a NodeEnv,
    shard: RefMut<'a, Shard>,
}

impl Deref for Guard<'_> {
    type Target = Shard;
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

/// Effects that nobody has let out would leave with whatever comes next, in another order than in
/// the broker.
impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let effects = &self.shard.effects;
        let are_out = effects.posts.is_empty()
            && effects.peer.is_empty()
            && effects.deferred.is_empty()
            && effects.streams.is_empty();
        assert!(
            are_out || std::thread::panicking(),
            "a shard was dropped with effects"
        );
    }
}

impl BorrowedShard for Guard<'_> {
    fn release(mut self) {
        let effects = std::mem::take(&mut self.shard.effects);
        let posts = effects.posts.into_iter();
        let posts = posts.map(|(connection, event)| (connection, event.into()));
        self.env.posts.borrow_mut().extend(posts);
        self.env.frames.borrow_mut().extend(effects.peer);
        self.env.deferred.borrow_mut().extend(effects.deferred);
        self.env.said.borrow_mut().extend(effects.streams);
    }
}

impl leveret_cluster::Env for NodeEnv {
    type ShardGuard<'a> = Guard<'a>;
    type CatalogueGuard<'a> = Ref<'a, Catalogue>;

    fn shard(&self, shard: ShardId) -> Guard<'_> {
        self.shards_borrowed.update(|borrowed| borrowed + 1);
        let mut borrowed = self.shards[usize::from(shard.0)].borrow_mut();
        borrowed.set_peers_checked_ms(self.peers_checked_ms.get());
        Guard {
            env: self,
            shard: borrowed,
        }
    }

    fn catalogue(&self) -> Ref<'_, Catalogue> {
        self.catalogues_borrowed.update(|borrowed| borrowed + 1);
        self.catalogue.borrow()
    }

    fn execute(&self, _now: Now, command: &Command) -> Result<Executed, CatalogueError> {
        self.proposals.borrow_mut().push((None, command.clone()));
        Ok(Executed {
            outcome: Default::default(),
            log_position: None,
        })
    }

    fn durable(&self, shard: ShardId) -> u64 {
        self.durable[usize::from(shard.0)].get()
    }

    fn node_id(&self) -> NodeId {
        self.node
    }

    fn peers(&self) -> &Peers {
        &self.peers
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// [`super::Node::step`] looks for itself.
    fn wake_cluster(&self) {}

    fn change_catalogue<R>(&self, work: impl FnOnce(&mut Catalogue) -> R) -> R {
        let before = self.shards_borrowed.get();
        let result = work(&mut self.catalogue.borrow_mut());
        let borrowed = self.shards_borrowed.get() - before;
        self.shards_borrowed_in_change
            .update(|most| most.max(borrowed));
        result
    }

    fn unlink_bindings(&self) {
        self.defer(Deferred::UnlinkBindings);
    }

    fn post_peer(&self, to: NodeId, frame: PeerFrame) {
        self.frames.borrow_mut().push_back((to, frame));
    }

    fn alarms(&self) -> Alarms {
        self.alarms.get()
    }

    fn follow_stream(&self, change: StreamChange) {
        self.relayed.place(&change);
        let input = StreamInput::Change(change);
        self.stream_inputs.borrow_mut().push(input);
    }

    fn receive_of_streams(&self, from: NodeId, frame: Bytes) {
        self.relayed.receive(from, frame, self);
    }

    fn peer_of_streams(&self, peer: NodeId, is_up: bool) {
        self.relayed.peer(peer, is_up, self);
    }

    fn stream_clients(&self, node: NodeId) -> Option<ClientAddresses> {
        self.relayed.clients(node)
    }

    fn clients_follow(&self, catalogue: &Catalogue, change: &Change, now: Now) {
        leveret_node::clients_follow(catalogue, change, now, self);
    }

    fn tell(&self, connection: ConnectionId, event: ClusterEvent) {
        self.post(connection, event.into());
    }

    fn shard_count(&self) -> u16 {
        self.settings.shard_count
    }
}

impl Env for NodeEnv {
    fn propose(
        &self,
        _now: Now,
        connection: ConnectionId,
        command: &Command,
    ) -> Result<Proposal, CatalogueError> {
        if let Some(cluster) = &self.cluster {
            let id = cluster.propose(Waiter::Connection(connection), command.clone());
            return Ok(Proposal::Waiting(id));
        }
        let id = ProposalId(self.next_proposal.replace(self.next_proposal.get() + 1));
        let waiter = Some((connection, id));
        self.proposals.borrow_mut().push((waiter, command.clone()));
        Ok(Proposal::Waiting(id))
    }

    fn log_congested(&self) -> bool {
        false
    }

    fn check_login_at_once(&self, _: IpAddr, check: &LoginCheck) -> Option<Verdict> {
        (!check.is_slow()).then(|| check.run(&mut HashMemory::default()).into())
    }

    fn check_login(&self, from: LoginFrom, check: LoginCheck) {
        let event = ConnectionEvent::LoginChecked(check.run(&mut HashMemory::default()).into());
        self.post(from.connection, event);
    }

    fn post(&self, connection: ConnectionId, event: ConnectionEvent) {
        self.posts.borrow_mut().push_back((connection, event));
    }

    fn peer_congested(&self, _peer: NodeId) -> bool {
        false
    }

    fn defer(&self, work: Deferred) {
        self.deferred.borrow_mut().push_back(work);
    }

    fn consumer_id(&self) -> ConsumerId {
        ConsumerId(self.next_consumer.replace(self.next_consumer.get() + 1))
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let next = self.random.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
        self.random.set(next);
        bytes[..8].copy_from_slice(&next.to_le_bytes());
        bytes
    }

    fn settings(&self) -> &NodeSettings {
        &self.settings
    }

    fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn replies(&self) -> &Replies {
        &self.replies
    }

    fn history(&self) -> &History {
        &self.history
    }

    fn say_to_streams(
        &self,
        connection: ConnectionId,
        command: leveret_stream::Command,
    ) -> Result<(), Box<leveret_stream::Command>> {
        let takes_room = matches!(
            command,
            leveret_stream::Command::Publish { .. } | leveret_stream::Command::Subscribe { .. }
        );
        if takes_room && self.are_streams_full.get() {
            self.refused.borrow_mut().insert(connection);
            return Err(Box::new(command));
        }
        self.relayed
            .say(SessionId::Connection(connection), command, self)
    }

    fn leave_streams(&self, connection: ConnectionId, unsaid: VecDeque<leveret_stream::Command>) {
        self.relayed
            .leave(SessionId::Connection(connection), unsaid, self);
    }
}
