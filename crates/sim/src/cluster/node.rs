//! One node without threads: its environment, its store on a disk of the caller's choice, its
//! connections. The three nodes of `leveret-node`'s tests are these, on disks in memory.
//!
//! A node [starts](Node::start) with a catalogue of which somebody else takes care: what is
//! proposed waits in [`NodeEnv::proposals`]. Or it [enters](Node::enter) a cluster, whose catalogue
//! is a group of its own, as in the broker.

mod connections;
mod env;
mod relay;
mod segments;
mod streams;

pub use connections::AnyConnection;
pub use env::{Guard, NodeEnv, PendingChange, SHARDS};

use bytes::Bytes;
use leveret_client::Session;
use leveret_cluster::{BorrowedShard, Env as _};
use leveret_cluster::{Cluster, Identity, PeerAddress, Waiter, catalogue, group};
use leveret_metadata::{Catalogue, CatalogueError, Command, Config, NodeRecord, Outcome};
use leveret_node::env::{Env, PeerFrame};
use leveret_node::{Alarms, Connection, Peer, deferred};
use leveret_queue_host::quorum::replica::HEADER_LOG;
use leveret_queue_host::shard::{Shard, log_of};
use leveret_routing::Scratch;
use leveret_session::Connection as AmqpSession;
use leveret_storage::{
    Disk, Folders, LogSummary, Options, Reader, Recovered, SealedChunk, ShardLogs, WalError,
    WalOutcome, WalWriter, recover,
};
use leveret_types::limits::GROUP_TICK_MS;
use leveret_types::{ConnectionId, NodeId, Now, QueueId, ShardId};
use segments::Segments;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Bytes of a file of the log, for nodes of which nobody looks after the segments.
const WAL_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of messages that a node keeps in memory: so few that it reads them again.
const CACHE_BYTES: usize = 64 * 1024;

/// A node that runs.
pub struct Node<D: Disk> {
    /// What its actors reach.
    pub env: NodeEnv,
    /// Its clients' connections.
    pub connections: BTreeMap<ConnectionId, Box<dyn AnyConnection>>,
    next_connection: u64,
    wal: WalWriter<D>,
    segments: Segments<D>,
    streams: streams::Streams<D>,
    reader: Reader<D>,
    chunks: Vec<SealedChunk>,
    scratch: Scratch,
    /// What its cluster has not answered yet, while its queues are not in their places.
    entering: Option<Entering>,
    /// Planted: what cannot be read counts as settled, and nobody is told.
    accepts_losses: bool,
    /// When the catalogue's group was last given its time.
    ran_ms: u64,
    _lock: leveret_storage::StoreLock<D>,
}

struct Entering {
    answer: Option<Receiver<Result<Outcome, CatalogueError>>>,
    started: Command,
    found: Vec<LogSummary>,
}

/// How a node enters its cluster.
pub struct Entrance {
    /// Who it is.
    pub identity: Identity,
    /// Where it listens for others.
    pub address: String,
    /// All nodes that it knows of, until the catalogue says more.
    pub members: Vec<PeerAddress>,
    /// Bytes of a file of its write-ahead log.
    pub wal_file_bytes: u64,
}

fn open<D: Disk>(
    node: NodeId,
    uuid: [u8; 16],
    wal_file_bytes: u64,
    disk: &D,
) -> Result<Recovered<D>, String> {
    let options = Options {
        shards: SHARDS,
        uuid,
        wal_file_bytes,
        cache_bytes: CACHE_BYTES,
        loaded_bytes: CACHE_BYTES,
        ..Options::default()
    };
    let folders = Folders::within(Path::new("/store"));
    recover(disk, &folders, &options).map_err(|why| format!("node {node} does not start: {why}"))
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
        let recovered = open(node, [node.0 as u8; 16], WAL_FILE_BYTES, disk)?;
        let streams = streams::Streams::open(disk)?;
        let mut node = Self::assemble(node, start, (recovered, streams), catalogue, None);
        node.place(now);
        Ok(node)
    }

    /// Starts a node that is in a cluster. Its queues have their places when the cluster has
    /// answered it: see [`Self::is_placed`].
    ///
    /// # Errors
    /// If its store or the catalogue's log does not open.
    pub fn enter(entrance: Entrance, disk: &D) -> Result<Self, String> {
        let Identity {
            node, uuid, start, ..
        } = entrance.identity;
        let mut recovered = open(node, uuid, entrance.wal_file_bytes, disk)?;
        let refused = |why: CatalogueError| format!("node {node} does not start: {why}");
        let reader = &mut recovered.reader;
        let mut load = |logs: &mut ShardLogs| {
            for request in logs.take_reads() {
                logs.loaded(reader.read(request));
            }
        };
        let logs = &mut recovered.shards[0];
        catalogue::recover(logs, Config::default(), &mut load).map_err(refused)?;
        if !group::is_on_disk(logs) {
            match node {
                NodeId(1) => group::found(
                    &mut first_catalogue(Config::default()),
                    record_of(1, uuid),
                    &[],
                    logs,
                ),
                _ => group::join(logs),
            }
        }
        let (catalogue, found) =
            group::recover(logs, Config::default(), &mut load).map_err(refused)?;
        let cluster = Cluster::new(entrance.identity, found).map_err(refused)?;
        let streams = streams::Streams::open(disk)?;
        let mut node = Self::assemble(node, start, (recovered, streams), catalogue, Some(cluster));
        let others = entrance.members.into_iter();
        let others = others.filter(|member| member.node != node.env.node);
        node.env.peers().replace(others.collect());
        {
            let catalogue = node.env.catalogue();
            if catalogue.is_clustered() {
                leveret_cluster::follow_nodes(&catalogue, &node.env);
            }
        }
        if let Some(entering) = &mut node.entering {
            entering.started = Command::NodeStarted {
                node: node.env.node.0,
                name: format!("leveret@{}", node.env.node),
                address: entrance.address,
            };
        }
        Ok(node)
    }

    fn assemble(
        node: NodeId,
        start: u64,
        (recovered, streams): (Recovered<D>, streams::Streams<D>),
        catalogue: Catalogue,
        cluster: Option<Cluster>,
    ) -> Self {
        let shards = (0..).zip(recovered.shards).map(|(number, logs)| {
            let mut shard = Shard::new(ShardId(number), SHARDS, node, logs);
            shard.set_start(start);
            shard
        });
        let entering = Entering {
            answer: None,
            started: Command::NodeDrain {
                node: node.0,
                draining: false,
            },
            found: recovered.logs,
        };
        Self {
            env: NodeEnv::new(node, start, shards.collect(), catalogue, cluster),
            connections: BTreeMap::new(),
            next_connection: 1,
            wal: recovered.wal,
            segments: Segments {
                writer: recovered.segment,
                checkpoints: recovered.checkpoint,
                pool: recovered.pool,
                full: recovered.flush_through,
            },
            streams,
            reader: recovered.reader,
            chunks: Vec::new(),
            scratch: Scratch::new(1),
            entering: Some(entering),
            accepts_losses: false,
            ran_ms: 0,
            _lock: recovered.lock,
        }
    }

    /// Whether its queues are in their places, so that clients can be served.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.entering.is_none()
    }

    /// Gives the shards their queues.
    fn place(&mut self, now: Now) {
        let Some(entering) = self.entering.take() else {
            return;
        };
        let (env, reader) = (&self.env, &mut self.reader);
        let mut place = |catalogue: &Catalogue| {
            let mut shards: Vec<_> = (0..SHARDS).map(|id| env.shard(ShardId(id))).collect();
            catalogue::place_queues(
                catalogue,
                &mut shards,
                &entering.found,
                now,
                |logs: &mut ShardLogs| {
                    for request in logs.take_reads() {
                        logs.loaded(reader.read(request));
                    }
                },
            );
            shards.into_iter().for_each(BorrowedShard::release);
        };
        match env.cluster() {
            Some(_) => leveret_cluster::place(env, place),
            None => place(&env.catalogue()),
        }
        self.streams.place(&self.env);
    }

    /// Asks the cluster to take note of this start until it has; then all queues are placed.
    fn go_in(&mut self, now: Now) -> bool {
        let (Some(entering), Some(cluster)) = (&mut self.entering, self.env.cluster()) else {
            return false;
        };
        let answered = entering.answer.as_ref().map(Receiver::try_recv);
        match answered {
            Some(Err(TryRecvError::Empty)) => return false,
            Some(Ok(Ok(_))) => self.place(now),
            None | Some(Ok(Err(_)) | Err(TryRecvError::Disconnected)) => {
                let (answer, answers) = sync_channel(1);
                cluster.propose(Waiter::Operator(answer), entering.started.clone());
                entering.answer = Some(answers);
            }
        }
        true
    }

    /// Lets the catalogue's group go on if there is something for it.
    fn run_cluster(&mut self, now: Now) -> bool {
        let busy = self.env.cluster().is_some_and(Cluster::has_work);
        if busy {
            self.ran_ms = now.monotonic_ms;
            leveret_cluster::run(now, &self.env);
        }
        busy
    }

    /// The socket of an AMQP 0-9-1 client is accepted.
    pub fn connect(&mut self, now: Now) -> ConnectionId {
        let settings = Arc::clone(&self.env.settings().session);
        self.connect_with(AmqpSession::new(settings, now), now)
    }

    /// A client's socket is accepted, with whom this session speaks.
    pub fn connect_with(&mut self, session: impl Session + 'static, now: Now) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let address = "127.0.0.1:1".parse().expect("an address");
        let peer = Peer {
            remote: address,
            local: address,
            tls: false,
        };
        let connection = Connection::new(id, peer, session, now);
        self.connections.insert(id, Box::new(connection));
        id
    }

    /// A client's bytes.
    pub fn receive(&mut self, connection: ConnectionId, bytes: Bytes, now: Now) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.receive(now, bytes, &self.env);
        }
    }

    /// Takes what a connection has for its socket; nothing if it is gone.
    pub fn take_output(&mut self, connection: ConnectionId, now: Now) -> Vec<u8> {
        let Some(connection) = self.connections.get_mut(&connection) else {
            return Vec::new();
        };
        connection.flush();
        let written = connection.output().to_vec();
        if !written.is_empty() {
            connection.output().advance(written.len());
            connection.written(now, &self.env);
        }
        written
    }

    /// A client's socket is gone.
    pub fn drop_client(&mut self, connection: ConnectionId, now: Now) {
        if let Some(mut connection) = self.connections.remove(&connection) {
            connection.teardown(now, &self.env);
        }
    }

    /// Whether its streams could not be written: its process ends.
    pub fn has_failed(&self) -> bool {
        self.streams.has_failed
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
        let next = || self.env.deferred.borrow_mut().pop_front();
        let work = deferred::run(next, &mut self.scratch, now, &self.env);
        self.env.deferred_work_most.update(|most| most.max(work));
        busy |= work > 0;
        busy |= self.go_in(now);
        busy |= self.run_cluster(now);
        busy |= self.env.exchange_with_streams(now);
        busy |= self.is_placed() && self.streams.step(&self.env, now);
        for number in 0..SHARDS {
            busy |= self.read(ShardId(number), now);
        }
        if self.accepts_losses {
            self.accept_losses_of_replicas();
        }
        busy
    }

    fn accept_losses_of_replicas(&self) {
        for number in 0..SHARDS {
            let mut shard = self.env.shard(ShardId(number));
            for status in shard.replica_statuses() {
                for priority_log in 0..HEADER_LOG {
                    let log = log_of(status.queue, priority_log);
                    if shard.logs.damage(log).is_some() {
                        shard.logs.accept_loss(log);
                    }
                }
            }
        }
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

    /// Plants a bug: what cannot be read counts as settled, at a start as well, and nobody is told.
    pub fn accept_losses(&mut self) {
        self.accepts_losses = true;
        for found in self.entering.iter_mut().flat_map(|one| &mut one.found) {
            if found.damage.take().is_some() {
                let mut shard = self.env.shard(ShardId(u16::from(found.shard)));
                shard.logs.accept_loss(found.log);
            }
        }
    }

    /// Writes to the disk what has gathered: whether that was something. `None` when the process
    /// died in the middle of it.
    pub fn sync(&mut self, now: Now) -> Option<bool> {
        for number in 0..SHARDS {
            let mut shard = self.env.shard(ShardId(number));
            shard.before_seal(now);
            shard.seal(&mut self.chunks);
            shard.release();
        }
        let mut busy = false;
        while !self.chunks.is_empty() {
            busy = true;
            match self.wal.write(&mut self.chunks) {
                Ok(outcome) => self.written(&outcome, now),
                Err(WalError::NoSpace) => {
                    // What gathered stays, and publishers are blocked until there is space.
                    self.set_disk_alarm(true, now);
                    return Some(false);
                }
                Err(WalError::Fatal(_)) => return None,
            }
        }
        if busy {
            self.set_disk_alarm(false, now);
            for connection in self.connections.values_mut() {
                if connection.awaiting() {
                    connection.durable(now, &self.env);
                }
            }
        }
        Some(busy)
    }

    /// Writes all that has gathered, and that it is written: what rots from now on is not taken for
    /// what was never finished. `None` when the process died of it, false when there is no space.
    pub fn come_to_rest(&mut self, now: Now) -> Option<bool> {
        while self.sync(now)? {}
        let is_written = !self.env.alarms.get().disk && self.wal.mark_idle().is_ok();
        Some(is_written)
    }

    fn written(&mut self, outcome: &WalOutcome, now: Now) {
        for number in 0..SHARDS {
            let of_shard =
                |(of, ..): &&(u8, u64, leveret_storage::ChunkLocation)| u16::from(*of) == number;
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
            shard.release();
        }
        if let Some(cluster) = self.env.cluster() {
            cluster.durable();
        }
        self.segments.full = outcome.rolled.or(self.segments.full);
    }

    /// Its drive has too little space, or has enough again.
    pub fn set_disk_alarm(&mut self, disk: bool, now: Now) {
        if self.env.alarms.get().disk == disk {
            return;
        }
        let alarms = Alarms {
            disk,
            ..Alarms::default()
        };
        self.set_alarms(alarms, now);
    }

    /// The node has these alarms from now on.
    pub fn set_alarms(&mut self, alarms: Alarms, now: Now) {
        self.env.alarms.set(alarms);
        self.tell_of_alarms(now);
    }

    /// Another node has told this one which alarms it has.
    pub fn hear_of_alarms(&mut self, of: NodeId, alarms: Alarms, now: Now) {
        if leveret_cluster::set_alarms_of(now, &[(of, alarms)], &self.env) {
            self.tell_of_alarms(now);
        }
    }

    fn tell_of_alarms(&mut self, now: Now) {
        for connection in self.connections.values_mut() {
            connection.alarms_changed(now, &self.env);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        let wanted = |cluster: &Cluster| cluster.wants_attention() || cluster.is_due(now);
        let attentive = self.env.cluster().is_some_and(wanted);
        if attentive && now.monotonic_ms >= self.ran_ms + GROUP_TICK_MS {
            self.ran_ms = now.monotonic_ms;
            leveret_cluster::run(now, &self.env);
        }
        for number in 0..SHARDS {
            let mut shard = self.env.shard(ShardId(number));
            if shard.next_deadline_ms() <= now.monotonic_ms {
                shard.tick(now);
                shard.release();
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
        let connections = self
            .connections
            .values()
            .filter_map(|connection| connection.deadline());
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
        leveret_cluster::receive(now, from, vec![(frame.queue, bytes)], &self.env);
    }

    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Option<QueueId> {
        self.env.catalogue.borrow().vhost("/")?.queue_id(name)
    }

    /// How many readers a stream has on this node; `None` if it does not run here.
    pub fn stream_readers(&self, name: &str) -> Option<u64> {
        self.streams.readers(self.queue(name)?)
    }
}

fn first_catalogue(config: Config) -> Catalogue {
    let mut catalogue = Catalogue::new(config);
    let algorithm = leveret_auth::HashingAlgorithm::Sha256;
    let password = leveret_auth::PasswordHash::new(algorithm, b"guest", &[1; 16]);
    let password = password.expect("a password");
    for command in Catalogue::defaults("guest", password, "/") {
        catalogue.apply(&command).expect("a default");
    }
    catalogue
}

fn record_of(node: u32, uuid: [u8; 16]) -> NodeRecord {
    NodeRecord {
        node,
        uuid,
        address: format!("127.0.0.1:{node}"),
        name: format!("leveret@{node}"),
        start: 0,
        applied: 0,
        draining: false,
        votes: true,
    }
}

/// The catalogue of a cluster of nodes 1 to `nodes`, as each of them has it at the beginning.
pub fn catalogue_of(nodes: u32, config: Config) -> Catalogue {
    let mut catalogue = first_catalogue(config);
    let listed: Vec<String> = (2..=nodes)
        .map(|node| format!("127.0.0.1:{node}"))
        .collect();
    catalogue.found(record_of(1, [1; 16]), &listed);
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
