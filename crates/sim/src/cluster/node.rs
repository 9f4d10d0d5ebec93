//! One node without threads: its environment, its store on a disk of the caller's choice, its
//! connections. The three nodes of `leveret-node`'s tests are these, on disks in memory.
//!
//! The catalogue's group is left to whoever drives the node: what is proposed waits in
//! [`NodeEnv::proposals`].

use bytes::Bytes;
use leveret_metadata::{Catalogue, CatalogueError, Command, Config, NodeRecord};
use leveret_node::cluster::{Cluster, Peers};
use leveret_node::env::{ConnectionEvent, Env, Executed, PeerFrame, Proposal, ProposalId};
use leveret_node::history::History;
use leveret_node::registry::Registry;
use leveret_node::reply_to::Replies;
use leveret_node::shard::{Deferred, Shard, shard_of};
use leveret_node::{Alarms, Connection, NodeCounters, NodeSettings, Peer, catalogue, deferred};
use leveret_routing::Scratch;
use leveret_storage::{Disk, Folders, Options, Reader, SealedChunk, ShardLogs, WalWriter, recover};
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now, QueueId, ShardId};
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

/// Shards of each node.
pub const SHARDS: u16 = 2;

/// A change of the catalogue on its way, and who waits for what it answers.
pub type PendingChange = (Option<(ConnectionId, ProposalId)>, Command);

/// What a node's actors reach.
pub struct NodeEnv {
    /// Which node it is.
    pub node: NodeId,
    shards: Vec<RefCell<Shard>>,
    durable: Vec<Cell<u64>>,
    /// The catalogue as far as this node has applied it.
    pub catalogue: RefCell<Catalogue>,
    posts: RefCell<VecDeque<(ConnectionId, ConnectionEvent)>>,
    /// What is on its way to other nodes, in order.
    pub frames: RefCell<VecDeque<(NodeId, PeerFrame)>>,
    deferred: RefCell<Vec<Deferred>>,
    /// What this node's clients want changed in the catalogue.
    pub proposals: RefCell<Vec<PendingChange>>,
    next_proposal: Cell<u64>,
    next_consumer: Cell<u64>,
    random: Cell<u64>,
    peers: Peers,
    settings: NodeSettings,
    counters: NodeCounters,
    registry: Registry,
    replies: Replies,
    history: History,
}

/// A borrowed shard, whose effects leave when it is let go.
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

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let effects = std::mem::take(&mut self.shard.effects);
        self.env.posts.borrow_mut().extend(effects.posts);
        self.env.frames.borrow_mut().extend(effects.peer);
        self.env.deferred.borrow_mut().extend(effects.deferred);
    }
}

impl Env for NodeEnv {
    type ShardGuard<'a> = Guard<'a>;
    type CatalogueGuard<'a> = Ref<'a, Catalogue>;

    fn shard(&self, shard: ShardId) -> Guard<'_> {
        Guard {
            env: self,
            shard: self.shards[usize::from(shard.0)].borrow_mut(),
        }
    }

    fn catalogue(&self) -> Ref<'_, Catalogue> {
        self.catalogue.borrow()
    }

    fn execute(&self, _now: Now, command: &Command) -> Result<Executed, CatalogueError> {
        self.proposals.borrow_mut().push((None, command.clone()));
        Ok(Executed {
            outcome: Default::default(),
            ticket: None,
        })
    }

    fn propose(
        &self,
        _now: Now,
        connection: ConnectionId,
        command: &Command,
    ) -> Result<Proposal, CatalogueError> {
        let id = ProposalId(self.next_proposal.replace(self.next_proposal.get() + 1));
        let waiter = Some((connection, id));
        self.proposals.borrow_mut().push((waiter, command.clone()));
        Ok(Proposal::Waiting(id))
    }

    fn durable(&self, shard: ShardId) -> u64 {
        self.durable[usize::from(shard.0)].get()
    }

    fn log_congested(&self) -> bool {
        false
    }

    fn post(&self, connection: ConnectionId, event: ConnectionEvent) {
        self.posts.borrow_mut().push_back((connection, event));
    }

    fn node_id(&self) -> NodeId {
        self.node
    }

    fn peers(&self) -> &Peers {
        &self.peers
    }

    fn cluster(&self) -> Option<&Cluster> {
        None
    }

    fn wake_cluster(&self) {}

    fn change_catalogue<R>(&self, work: impl FnOnce(&mut Catalogue) -> R) -> R {
        work(&mut self.catalogue.borrow_mut())
    }

    fn post_peer(&self, to: NodeId, frame: PeerFrame) {
        self.frames.borrow_mut().push_back((to, frame));
    }

    fn peer_congested(&self, _peer: NodeId) -> bool {
        false
    }

    fn defer(&self, work: Deferred) {
        self.deferred.borrow_mut().push(work);
    }

    fn alarms(&self) -> Alarms {
        Alarms::default()
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
}

/// A node that runs.
pub struct Node<D: Disk> {
    /// What its actors reach.
    pub env: NodeEnv,
    /// Its clients' connections.
    pub connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    wal: WalWriter<D>,
    reader: Reader<D>,
    chunks: Vec<SealedChunk>,
    scratch: Scratch,
    _lock: leveret_storage::StoreLock<D>,
}

fn settings() -> NodeSettings {
    NodeSettings {
        session: Arc::default(),
        session_tls: Arc::default(),
        shard_count: SHARDS,
        node_name: "leveret@test".to_owned(),
        hashing: leveret_auth::HashingAlgorithm::Sha256,
        certificate_name: Default::default(),
        login_failure_delay_ms: 0,
    }
}

impl<D: Disk> Node<D> {
    /// Starts a node on what its disk has. `catalogue` is what the cluster has agreed on so far;
    /// `start` is greater than at all its starts before.
    ///
    /// # Errors
    /// If its store does not open.
    pub fn start(
        node: NodeId,
        start: u64,
        disk: &D,
        catalogue: Catalogue,
        now: Now,
    ) -> Result<Self, String> {
        let options = Options {
            shards: SHARDS,
            uuid: [node.0 as u8; 16],
            wal_file_bytes: 4 * 1024 * 1024,
            ..Options::default()
        };
        let folders = Folders::within(Path::new("/store"));
        let mut recovered = recover(disk, &folders, &options)
            .map_err(|why| format!("node {node} does not start: {why}"))?;
        let mut durable = Vec::new();
        let mut shards = Vec::new();
        for (number, logs) in (0..).zip(recovered.shards) {
            durable.push(Cell::new(logs.durable_through()));
            let mut shard = Shard::new(ShardId(number), SHARDS, node, logs);
            shard.set_start(start);
            shards.push(RefCell::new(shard));
        }
        {
            let mut borrowed: Vec<_> = shards.iter().map(RefCell::borrow_mut).collect();
            let reader = &mut recovered.reader;
            catalogue::place_queues(
                &catalogue,
                &mut borrowed,
                &recovered.logs,
                now,
                |logs: &mut ShardLogs| {
                    for request in logs.take_reads() {
                        logs.loaded(reader.read(request));
                    }
                },
            );
        }
        Ok(Self {
            env: NodeEnv {
                node,
                shards,
                durable,
                catalogue: RefCell::new(catalogue),
                posts: RefCell::default(),
                frames: RefCell::default(),
                deferred: RefCell::default(),
                proposals: RefCell::default(),
                next_proposal: Cell::new(1),
                next_consumer: Cell::new(u64::from(node.0) << 40 | 1),
                random: Cell::new(start << 8 | u64::from(node.0)),
                peers: Peers::default(),
                settings: settings(),
                counters: NodeCounters::default(),
                registry: Registry::default(),
                replies: Replies::default(),
                history: History::default(),
            },
            connections: BTreeMap::new(),
            next_connection: 1,
            wal: recovered.wal,
            reader: recovered.reader,
            chunks: Vec::new(),
            scratch: Scratch::new(1),
            _lock: recovered.lock,
        })
    }

    /// A client's socket is accepted.
    pub fn connect(&mut self, now: Now) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let address = "127.0.0.1:1".parse().expect("an address");
        let peer = Peer {
            remote: address,
            local: address,
            tls: false,
        };
        self.connections
            .insert(id, Connection::new(id, peer, now, &self.env));
        id
    }

    /// A client's bytes.
    pub fn receive(&mut self, connection: ConnectionId, bytes: Bytes, now: Now) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.receive(now, bytes, &self.env);
        }
    }

    /// A client's socket is gone.
    pub fn drop_client(&mut self, connection: ConnectionId, now: Now) {
        if let Some(mut connection) = self.connections.remove(&connection) {
            connection.teardown(now, &self.env);
        }
    }

    /// Does what is to be done inside the node; false if that was nothing.
    pub fn step(&mut self, now: Now) -> bool {
        let mut busy = false;
        loop {
            let post = self.env.posts.borrow_mut().pop_front();
            let Some((id, event)) = post else {
                break;
            };
            busy = true;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.event(now, event, &self.env);
            }
        }
        let work = std::mem::take(&mut *self.env.deferred.borrow_mut());
        if !work.is_empty() {
            busy = true;
            deferred::run(work, &mut self.scratch, now, &self.env);
        }
        for number in 0..SHARDS {
            busy |= self.read(ShardId(number), now);
        }
        busy
    }

    fn read(&mut self, shard: ShardId, now: Now) -> bool {
        let requests = self.env.shard(shard).logs.take_reads();
        let busy = !requests.is_empty();
        for request in requests {
            let loaded = self.reader.read(request);
            self.env.with_shard(now, shard, |shard| {
                let logs = shard.logs.loaded(loaded);
                shard.loaded(now, logs);
            });
        }
        busy
    }

    /// Writes to the disk what has gathered: whether that was something. `None` when the process
    /// died in the middle of it.
    pub fn sync(&mut self, now: Now) -> Option<bool> {
        for number in 0..SHARDS {
            let mut shard = self.env.shard(ShardId(number));
            shard.before_seal(now);
            shard.seal(&mut self.chunks);
        }
        let mut busy = false;
        while !self.chunks.is_empty() {
            busy = true;
            let outcome = self.wal.write(&mut self.chunks).ok()?;
            for number in 0..SHARDS {
                let of_shard =
                    |(of, ..): &&(u8, u64, leveret_storage::Place)| u16::from(*of) == number;
                let written: Vec<_> = outcome.written.iter().filter(of_shard).copied().collect();
                let Some((_, through, _)) = written.last() else {
                    continue;
                };
                let mut shard = self.env.shard(ShardId(number));
                shard
                    .logs
                    .on_durable(written.iter().map(|(_, chunk, place)| (*chunk, *place)));
                self.env.durable[usize::from(number)].set(*through);
                shard.on_durable(now);
            }
        }
        if busy {
            for connection in self.connections.values_mut() {
                if connection.awaiting() {
                    connection.durable(now, &self.env);
                }
            }
        }
        Some(busy)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        for number in 0..SHARDS {
            let mut shard = self.env.shard(ShardId(number));
            if shard.next_deadline_ms() <= now.monotonic_ms {
                shard.tick(now);
            }
        }
        for connection in self.connections.values_mut() {
            if connection
                .deadline()
                .is_some_and(|at| at <= now.monotonic_ms)
            {
                connection.tick(now, &self.env);
            }
        }
    }

    /// When [`Self::tick`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        let shards = self.shards_deadline();
        let connections = self.connections.values().filter_map(Connection::deadline);
        connections.chain(shards).min()
    }

    fn shards_deadline(&self) -> Option<u64> {
        let shards = (0..SHARDS).map(|number| self.env.shard(ShardId(number)).next_deadline_ms());
        shards.min().filter(|at| *at < u64::MAX)
    }

    /// Does something to each shard, and lets it go.
    pub fn each_shard(&self, now: Now, act: impl Fn(&mut Shard)) {
        for number in 0..SHARDS {
            self.env.with_shard(now, ShardId(number), &act);
        }
    }

    /// A frame of another node.
    pub fn frame(&self, from: NodeId, frame: &PeerFrame, now: Now) {
        let bytes = Bytes::from(frame.pieces.concat());
        let shard = shard_of(frame.queue, SHARDS);
        self.env.with_shard(now, shard, |shard| {
            shard.receive_peer(now, from, frame.queue, bytes);
        });
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Option<QueueId> {
        self.env.catalogue.borrow().vhost("/")?.queue_id(name)
    }
}

/// The catalogue of a cluster of nodes 1 to `nodes`, as each of them has it at the beginning.
pub fn catalogue_of(nodes: u32) -> Catalogue {
    let mut catalogue = Catalogue::new(Config::default());
    let algorithm = leveret_auth::HashingAlgorithm::Sha256;
    let password = leveret_auth::PasswordHash::new(algorithm, b"guest", &[1; 16]);
    let password = password.expect("a password");
    for command in Catalogue::defaults("guest", password, "/") {
        catalogue.apply(&command).expect("a default");
    }
    catalogue.found(NodeRecord {
        node: 1,
        uuid: [1; 16],
        address: "127.0.0.1:1".to_owned(),
        name: "leveret@1".to_owned(),
        start: 0,
        applied: 0,
        draining: false,
    });
    for node in 2..=nodes {
        let join = Command::NodeJoin {
            uuid: [node as u8; 16],
            address: format!("127.0.0.1:{node}"),
            name: format!("leveret@{node}"),
        };
        catalogue.apply(&join).expect("a node joins");
    }
    catalogue
}
