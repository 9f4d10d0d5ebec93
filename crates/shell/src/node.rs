//! A node from start to end: the store opened, the threads started, and all of it ended in order.

use crate::admission::AdmissionLimits;
use crate::broker::{Broker, BrokerParts, first_moment};
use crate::cluster::{self, ClusterConfig, ClusterError, Links, PrepareError};
use crate::disk::RealDisk;
use crate::found_streams;
use crate::inbox::Inbox;
pub use crate::io_thread::{CONSUMERS_LISTED, LISTED_MAX};
use crate::io_thread::{IoThread, TOKEN_WAKER};
use crate::listener::{Listener, Protocol, TlsSettings};
use crate::logins;
use crate::read_threads;
use crate::segment_thread::{SegmentFiles, SegmentThread, WalFiles};
use crate::stream_thread::StreamThread;
pub use crate::thread_event::Which;
use crate::thread_event::{Portion, ThreadEvent};
use crate::timers_and_alarms::{TimersAndAlarms, Watermarks};
use crate::tls::{TlsError, TlsFiles};
use crate::urgency::serve_promptly;
use crate::wal_thread::WalThread;
use leveret_cluster::catalogue::place_queues;
use leveret_cluster::{BorrowedShard, Env as _};
use leveret_cluster::{Cluster, group};
use leveret_metadata::{CatalogueError, Command};
use leveret_node::{
    ConnectionStatus, ConsumerStatus, Env, Holding, NodeSettings, StreamSessions, UnsettledPosition,
};
use leveret_queue_host::peer_rooms::PeerRooms;
use leveret_queue_host::shard::Shard;
use leveret_storage::{
    Disk, Folders, Generation, LogSummary, OpenError, Options, ReadRequest, Reader, Recovered,
    RecoveryReport, ShardLogs, StoreLock, StreamFiles, WalWriter, recover,
};
use leveret_stream_host::StreamHost;
use leveret_types::limits::PEER_OUTBOX_BYTES_CONGESTED;
use leveret_types::{ConnectionId, NodeId, ProtocolError, QueueId, ShardId};
use mio::{Poll, Waker};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Policies that apply to nothing which one line of the log names.
const POLICIES_SHOWN: usize = 20;

/// How a node is started. Everything is decided: there are no defaults here.
pub struct NodeConfig {
    /// Where it keeps what.
    pub folders: Folders,
    /// Addresses for AMQP.
    pub amqp: Vec<SocketAddr>,
    /// Addresses for AMQP over TLS.
    pub amqps: Vec<SocketAddr>,
    /// Addresses for the stream protocol.
    pub stream: Vec<StreamAddress>,
    /// Certificates, where there are addresses with TLS.
    pub tls: Option<TlsFiles>,
    /// IO threads, at least 1.
    pub io_threads: usize,
    /// Shards of a new node; a node that has data keeps its number.
    pub shards: u16,
    /// Bytes of message bodies in memory.
    pub cache_bytes: usize,
    /// Bytes of a file of the write-ahead log.
    pub wal_file_bytes: u64,
    /// When publishers are blocked.
    pub watermarks: Watermarks,
    /// Has the allocator give back to the system what it keeps of memory that is free. It is called
    /// while more is resident than the watermark allows.
    pub give_back_memory: fn(),
    /// How long connections may take to close at shutdown.
    pub drain: Duration,
    /// What the catalogue accepts.
    pub catalogue: leveret_metadata::Config,
    /// Which connections are let in.
    pub admission: AdmissionLimits,
    /// The cluster that the node is part of, or is to become part of.
    pub cluster: Option<ClusterConfig>,
    /// What a new node begins with.
    pub first_boot: Vec<Command>,
    /// What is to be done after that and before anyone can connect.
    pub prepare: Option<Prepare>,
    /// Settings for the queues and sessions; `shard_count` is set from the store.
    pub settings: NodeSettings,
}

/// Where the stream protocol is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAddress {
    /// The address.
    pub address: SocketAddr,
    /// Whether with TLS.
    pub tls: bool,
    /// Whether nobody asked for it: the node starts without it where something else is there.
    pub is_default: bool,
}

/// Work on a node before anyone can connect; the error is one line for the operator.
pub type Prepare = Box<dyn FnOnce(&Broker) -> Result<(), String> + Send>;

/// Why a node does not start. One line says what and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; is something else there, such as another broker?"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The node does not become part of its cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The data folder is a cluster's.
    #[error(
        "this data folder is that of a cluster's node: start it with --cluster and the address \
            that it has for the other nodes"
    )]
    Clustered,
    /// The catalogue in the store makes no sense.
    #[error("the catalogue cannot be read: {0}")]
    Catalogue(#[from] CatalogueError),
    /// What was to be done before anyone can connect has failed.
    #[error("{0}")]
    Prepare(String),
    /// The system refuses what every process needs.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Files of the write-ahead log that are used again rather than deleted while consumers keep up.
pub(crate) const WAL_FILES_KEPT: usize = 4;

/// A node that runs.
pub struct Node {
    /// The shared state: what the management interface works on.
    pub broker: Arc<Broker>,
    /// Memory, disks, and their watermarks.
    pub timers_and_alarms: Arc<TimersAndAlarms>,
    /// What opening the store found.
    pub report: RecoveryReport,
    /// The store's identity.
    pub uuid: [u8; 16],
    /// Where AMQP is served, and whether with TLS.
    pub listening: Vec<(SocketAddr, bool)>,
    /// The same for the stream protocol.
    pub stream_listening: Vec<(SocketAddr, bool)>,
    tls: Option<(TlsFiles, TlsSettings)>,
    io_threads: Vec<JoinHandle<()>>,
    wal_thread: JoinHandle<WalWriter<RealDisk>>,
    segment_thread: JoinHandle<SegmentThread<RealDisk>>,
    timers_and_alarms_thread: JoinHandle<()>,
    stream_thread: JoinHandle<()>,
    login_threads: Vec<JoinHandle<()>>,
    cluster: Option<cluster::Running>,
    drain: Duration,
    _lock: StoreLock<RealDisk>,
}

impl Node {
    /// Starts a node. When it returns, connections are accepted.
    ///
    /// # Errors
    /// Why it does not start; nothing of it runs then.
    pub fn start(config: NodeConfig, disk: RealDisk) -> Result<Self, StartError> {
        let (listeners, tls) = listen(&config)?;
        let uuid = random()?;
        let options = Options {
            uuid,
            shards: config.shards,
            cache_bytes: config.cache_bytes,
            loaded_bytes: config.cache_bytes / 2,
            wal_file_bytes: config.wal_file_bytes,
            wal_pool_files: WAL_FILES_KEPT,
        };
        let recovered = recover(&disk, &config.folders, &options)?;
        // Only now is it certain that these files are of this store, and that no other process has
        // them.
        let folder = config.folders.streams();
        let mut streams = StreamFiles::open(disk, &folder, u64::from_ne_bytes(random()?))?;
        if !streams.note_start(&config.folders.data)? {
            tracing::error!(
                "{} and {} were not in use together at the last start: one of them is a copy that \
                 was put back, or is new. Replicas of streams count for nothing until they have \
                 all that others have; streams of this node alone may lack messages, and give \
                 their offsets to others",
                folder.display(),
                config.folders.data.display()
            );
        }
        Self::run(config, recovered, streams, listeners, tls)
    }

    fn run(
        mut config: NodeConfig,
        mut recovered: Recovered<RealDisk>,
        streams: StreamFiles<RealDisk>,
        listeners: Vec<Listener>,
        tls: Option<(TlsFiles, TlsSettings)>,
    ) -> Result<Self, StartError> {
        let of = |protocol| -> Vec<(SocketAddr, bool)> {
            let of = listeners.iter().filter(|l| l.protocol() == protocol);
            of.map(|l| (l.local(), l.is_tls())).collect()
        };
        let (listening, stream_listening) = (of(Protocol::Amqp), of(Protocol::Stream));
        advertise(&mut config.settings, &stream_listening);
        let mut settings = config.settings;
        settings.shard_count = u16::try_from(recovered.shards.len()).unwrap_or(u16::MAX);
        let reader = &mut recovered.reader;
        let mut load = |shard: &mut ShardLogs| {
            for request in shard.take_reads() {
                let loaded = reader.read(request);
                shard.loaded(loaded);
            }
        };
        let first = &mut recovered.shards[0];
        let catalogue = leveret_cluster::catalogue::recover(first, config.catalogue, &mut load)?;
        let (catalogue, links, cluster, entering) = match config.cluster {
            Some(cluster) => {
                let parts = cluster::prepare(cluster, recovered.uuid, first, catalogue, load)?;
                let (links, cluster) = (parts.links, Some(parts.cluster));
                (parts.catalogue, links, cluster, Some(parts.prepared))
            }
            None if group::is_on_disk(first) => return Err(StartError::Clustered),
            None => (catalogue, Links::none(), None, None),
        };
        let mut shards = make_shards(recovered.shards, links.node, cluster.as_ref());
        let (polls, inboxes) = inboxes(config.io_threads)?;
        let ((reads, read_requests), now) = (channel(), first_moment());
        if cluster.is_none() {
            let mut all: Vec<&mut Shard> = shards.iter_mut().collect();
            place_queues(&catalogue, &mut all, &recovered.logs, now, |_| {});
        }
        let broker = Arc::new(Broker::new(BrokerParts {
            settings,
            catalogue,
            shards,
            inboxes,
            reads,
            links,
            cluster,
            admission: config.admission,
        }));
        let ((rolled, rolled_files), (prepared, prepared_files)) = (channel(), channel());
        let first_files = recovered.wal.files_with_room();
        let first_rolled = rolled.clone();
        let wal = WalThread::new(Arc::clone(&broker), recovered.wal, rolled, prepared_files);
        let segment_files = SegmentFiles {
            writer: recovered.segment,
            checkpoints: recovered.checkpoint,
            pool: recovered.pool,
        };
        let wal_files = WalFiles {
            rolled: rolled_files,
            prepared,
            ready: first_files,
        };
        let segment = SegmentThread::new(Arc::clone(&broker), segment_files, wal_files);
        let wal_thread = spawn("wal", move || wal.run())?;
        let segment_thread = spawn("segments", move || segment.run())?;
        start_readers(&broker, &recovered.reader, read_requests)?;
        let login_threads = start_logins(&broker)?;
        let (timers_and_alarms, timers_and_alarms_thread) = start_timers_and_alarms(
            &broker,
            config.watermarks,
            &config.folders,
            config.give_back_memory,
        )?;
        broker.watch_memory(Arc::clone(&timers_and_alarms));
        let cluster = match entering {
            Some(entering) => Some(join_in(
                entering,
                &broker,
                &recovered.logs,
                &mut recovered.reader,
            )?),
            None => None,
        };
        flush_first(&broker, &first_rolled, recovered.flush_through);
        drop(first_rolled);
        let stream_thread = start_streams(&broker, streams)?;
        first_boot(&broker, &config.first_boot)?;
        if let Some(prepare) = config.prepare {
            prepare(&broker).map_err(StartError::Prepare)?;
        }
        warn_of_policies(&broker.catalogue().policies_too_costly());
        let io_threads = start_io(&broker, polls, listeners)?;
        Ok(Self {
            broker,
            timers_and_alarms,
            report: recovered.report,
            uuid: recovered.uuid,
            listening,
            stream_listening,
            tls,
            io_threads,
            wal_thread,
            segment_thread,
            timers_and_alarms_thread,
            stream_thread,
            login_threads,
            cluster,
            drain: config.drain,
            _lock: recovered.lock,
        })
    }

    /// Where other nodes come in; nothing outside clusters.
    #[must_use]
    pub fn cluster_address(&self) -> Option<SocketAddr> {
        self.cluster.as_ref().map(|cluster| cluster.address)
    }

    /// Reads the certificates again: new connections get the new ones.
    ///
    /// # Errors
    /// What is wrong with the files; the old certificates stay in use.
    pub fn reload_certificates(&self) -> Result<(), TlsError> {
        if let Some((files, settings)) = &self.tls {
            let loaded = files.load()?;
            *settings.write() = loaded;
            tracing::info!("certificates loaded again");
        }
        Ok(())
    }

    /// Reads the cluster's secrets and certificates again; a node alone has none.
    ///
    /// # Errors
    /// What is wrong with a file; all stays as it was.
    pub fn reload_cluster(&self) -> Result<(), ClusterError> {
        self.cluster
            .as_ref()
            .map_or(Ok(()), cluster::Running::reload)
    }

    /// Ends the node in order: no new connections, those that are open are told and given time,
    /// everything is brought to disk.
    pub fn shut_down(self) {
        tracing::info!("shutting down");
        self.broker.broadcast(|| ThreadEvent::Drain);
        let deadline = Instant::now() + self.drain;
        let have_gone = || (self.broker.connection_count() == 0).then_some(());
        self.broker.wait_until(deadline, have_gone);
        self.broker.broadcast(|| ThreadEvent::Stop);
        for thread in self.io_threads {
            join(thread);
        }
        // Before the other nodes are left, whose queues may be where it goes.
        let deadline = Instant::now() + self.drain;
        self.broker.finish_deferred(deadline);
        self.broker.leave_streams_to_others();
        self.broker.streams.stop();
        join(self.stream_thread);
        self.broker.logins.stop();
        self.broker.handshakes.stop();
        for thread in self.login_threads {
            join(thread);
        }
        if let Some(cluster) = self.cluster {
            cluster.stop(&self.broker);
        }
        self.broker.signals.timers_and_alarms.stop();
        join(self.timers_and_alarms_thread);
        let left = self.broker.finish_deferred(deadline);
        if left > 0 {
            tracing::warn!(
                "there was no time for {left} pieces of work of queues; what was on its way to a \
                 dead-letter exchange, or due after a delay, goes there after the next start",
            );
        }
        for shard in self.broker.shard_ids() {
            let mut guard = self.broker.shard(shard);
            guard.save_states(true);
            guard.release();
        }
        leveret_cluster::catalogue::snapshot(&*self.broker);
        self.broker.signals.wal.stop();
        let Some(mut wal) = join(self.wal_thread) else {
            return;
        };
        let last = wal.roll();
        self.broker.signals.segments.stop();
        if let Some(segment) = join(self.segment_thread) {
            segment.finish(last);
        }
        tracing::info!("everything is on disk");
    }
}

/// The status of some connections, asked of their threads, which copy nothing of the others; a
/// thread that does not answer within a second is left out.
pub fn some_connections(broker: &Broker, which: &Which) -> Vec<ConnectionStatus> {
    let (answer, answers) = sync_channel(broker.thread_count());
    broker.broadcast(|| ThreadEvent::List(which.clone(), answer.clone()));
    drop(answer);
    let deadline = Instant::now() + Duration::from_secs(1);
    let mut all = Vec::new();
    for _ in 0..broker.thread_count() {
        let left = deadline.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left) {
            Ok(some) => all.extend(some),
            Err(_) => break,
        }
    }
    all
}

/// Hands over the status of all connections, portion by portion, so that no thread copies many in
/// one turn; a thread that does not answer within a second is left out from there on.
///
/// Each shows its first consumers alone, [`CONSUMERS_LISTED`]: see [`consumers_behind`].
pub fn each_portion(broker: &Broker, see: &mut dyn FnMut(Vec<ConnectionStatus>)) {
    let question = |slot, answer| ThreadEvent::ListFrom(slot, None, answer);
    portions(broker, question, see);
}

/// The same of those that consume from a queue.
pub fn each_consuming(broker: &Broker, queue: QueueId, see: &mut dyn FnMut(Vec<ConnectionStatus>)) {
    let question = |slot, answer| ThreadEvent::ListFrom(slot, Some(queue), answer);
    portions(broker, question, see);
}

/// The consumers of a connection that come after these, as many as its thread copies in one turn.
/// Where these are fewer than that many, all are known, and nobody is asked.
pub fn consumers_behind(
    broker: &Broker,
    connection: ConnectionId,
    known: &[ConsumerStatus],
) -> Vec<ConsumerStatus> {
    if known.len() < CONSUMERS_LISTED {
        return Vec::new();
    }
    let place = known.last().map(|last| (last.channel, last.id));
    let told = some_connections(broker, &Which::Behind(connection, place));
    told.into_iter()
        .flat_map(|status| status.consumers)
        .collect()
}

/// The connections that hold any of these messages, given in ascending order, asked for portion by
/// portion; a thread that does not answer within a second is left out from there on.
pub fn holding_connections(broker: &Broker, messages: &Arc<[UnsettledPosition]>) -> Vec<Holding> {
    let mut all = Vec::new();
    let question = |slot, answer| ThreadEvent::HoldingFrom(slot, Arc::clone(messages), answer);
    portions(broker, question, &mut |found| all.extend(found));
    all
}

/// Asks one IO thread after the other, from one slot on, until it has looked at all of them.
fn portions<T>(
    broker: &Broker,
    question: impl Fn(usize, SyncSender<Portion<T>>) -> ThreadEvent,
    see: &mut dyn FnMut(Vec<T>),
) {
    for thread in 0..broker.thread_count() {
        let mut from = Some(0);
        while let Some(slot) = from {
            let (answer, answers) = sync_channel(1);
            let inbox = broker.inbox(thread);
            inbox.post([question(slot, answer)]);
            inbox.ring();
            let Ok(portion) = answers.recv_timeout(Duration::from_secs(1)) else {
                break;
            };
            from = portion.next;
            if !portion.found.is_empty() {
                see(portion.found);
            }
        }
    }
}

/// Has the node listen for clients, or listen no more; connections that are open go on.
///
/// # Errors
/// What kept a listener from it, or that a thread did not answer within five seconds.
pub fn set_listening(broker: &Broker, listen: bool) -> io::Result<()> {
    let (answer, answers) = sync_channel(broker.thread_count());
    broker.set_listening(listen, &answer);
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut result = Ok(());
    for _ in 0..broker.thread_count() {
        let left = deadline.saturating_duration_since(Instant::now());
        let answered = answers.recv_timeout(left).map_err(io::Error::other);
        result = result.and(answered.flatten());
    }
    result
}

/// Closes a connection as an operator.
pub fn close_connection(broker: &Broker, connection: ConnectionId, error: ProtocolError) {
    broker.post(connection, leveret_node::ConnectionEvent::Close(error));
}

type Listening = (Vec<Listener>, Option<(TlsFiles, TlsSettings)>);

fn listen(config: &NodeConfig) -> Result<Listening, StartError> {
    let tls = match &config.tls {
        Some(files) => Some((files.clone(), Arc::new(RwLock::new(files.load()?)))),
        None => None,
    };
    let bind = |address: &SocketAddr, protocol, with_tls| {
        let settings = tls.as_ref().map(|(_, settings)| Arc::clone(settings));
        let settings = settings.filter(|_| with_tls);
        if with_tls && settings.is_none() {
            return Err(StartError::from(TlsError::Settings(format!(
                "{address} is to speak TLS, but ssl_options.certfile and keyfile are not set"
            ))));
        }
        Listener::bind(*address, protocol, settings).map_err(|source| StartError::Listen {
            address: *address,
            source,
        })
    };
    let mut listeners = Vec::new();
    for address in &config.amqp {
        listeners.push(bind(address, Protocol::Amqp, false)?);
    }
    for address in &config.amqps {
        listeners.push(bind(address, Protocol::Amqp, true)?);
    }
    for stream in &config.stream {
        match bind(&stream.address, Protocol::Stream, stream.tls) {
            Ok(listener) => listeners.push(listener),
            // Nobody has asked for it, and nodes that share a machine are to start as before.
            Err(error) if stream.is_default => {
                tracing::warn!(
                    "the stream protocol is not served: {error} Give the node another address \
                     with --stream, or `none`"
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok((listeners, tls))
}

type Inboxes = (Vec<Poll>, Vec<Inbox<ThreadEvent>>);

fn inboxes(threads: usize) -> io::Result<Inboxes> {
    let mut polls = Vec::new();
    let mut inboxes = Vec::new();
    for _ in 0..threads {
        let poll = Poll::new()?;
        inboxes.push(Inbox::new(Waker::new(poll.registry(), TOKEN_WAKER)?));
        polls.push(poll);
    }
    Ok((polls, inboxes))
}

fn make_shards(logs: Vec<ShardLogs>, node: NodeId, cluster: Option<&Cluster>) -> Vec<Shard> {
    let count = u16::try_from(logs.len()).unwrap_or(u16::MAX);
    logs.into_iter()
        .enumerate()
        .map(|(index, logs)| {
            let mut shard = Shard::new(ShardId(index as u16), count, node, logs);
            if let Some(cluster) = cluster {
                shard.set_start(cluster.identity().start);
                let share = PEER_OUTBOX_BYTES_CONGESTED / usize::from(count.max(1));
                shard.peer_rooms = PeerRooms::bounded(share);
            }
            shard
        })
        .collect()
}

/// Where the system chose the port of a listener, that is the one that clients are told.
fn advertise(settings: &mut NodeSettings, listening: &[(SocketAddr, bool)]) {
    let StreamSessions { plain, tls } = &mut settings.stream;
    for (sessions, with_tls) in [(plain, false), (tls, true)] {
        let listener = listening.iter().find(|(_, tls)| *tls == with_tls);
        if let Some((address, _)) = listener.filter(|_| sessions.advertised_port == 0) {
            Arc::make_mut(sessions).advertised_port = address.port();
        }
    }
}

/// Starts the streams of this node, deletes what a crash has left of others, and sets aside what
/// the catalogue has never known.
fn start_streams(
    broker: &Arc<Broker>,
    mut files: StreamFiles<RealDisk>,
) -> Result<JoinHandle<()>, StartError> {
    for what in files.take_journal_damage() {
        tracing::warn!("the journal in which streams share syncs is damaged: {what}");
    }
    let memory = broker.settings().stream.plain.memory.clone();
    let mut host = StreamHost::new(files).with_reader_memory(memory);
    found_streams::sort_out(broker, &mut host)?;
    let (clock, hear) = (Arc::clone(broker), Arc::clone(broker));
    let thread = StreamThread::new(
        host,
        broker.streams.clone(),
        move || clock.now(),
        move |heard| hear.hear_streams(heard),
    )?;
    Ok(spawn("streams", move || thread.run())?)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

fn start_readers<D: Disk + Send + 'static>(
    broker: &Arc<Broker>,
    reader: &Reader<D>,
    requests: Receiver<ReadRequest>,
) -> io::Result<()>
where
    Reader<D>: Send,
{
    let requests = Arc::new(Mutex::new(requests));
    for number in 0..read_threads::READERS {
        let (broker, reader) = (Arc::clone(broker), reader.another());
        let requests = Arc::clone(&requests);
        spawn(&format!("reader-{number}"), move || {
            read_threads::run(&broker, reader, &requests);
        })?;
    }
    Ok(())
}

/// The threads that compute what strangers bring: passwords' hashes and TLS handshakes.
fn start_logins(broker: &Arc<Broker>) -> io::Result<Vec<JoinHandle<()>>> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut threads = Vec::new();
    for number in 0..logins::thread_count(processors) {
        let of_logins = Arc::clone(broker);
        let run = move || of_logins.logins.run();
        threads.push(spawn(&format!("login-{number}"), run)?);
        let of_handshakes = Arc::clone(broker);
        let run = move || of_handshakes.handshakes.run();
        threads.push(spawn(&format!("tls-{number}"), run)?);
    }
    Ok(threads)
}

fn start_timers_and_alarms(
    broker: &Arc<Broker>,
    watermarks: Watermarks,
    folders: &Folders,
    give_back: fn(),
) -> io::Result<(Arc<TimersAndAlarms>, JoinHandle<()>)> {
    let folders = [&folders.data, &folders.segment, &folders.wal];
    let watched = folders.into_iter().cloned().collect();
    let timers_and_alarms = Arc::new(TimersAndAlarms::new(watermarks, watched, give_back));
    let thread = {
        let (timers_and_alarms, broker) = (Arc::clone(&timers_and_alarms), Arc::clone(broker));
        spawn("timers", move || timers_and_alarms.run(&broker))?
    };
    Ok((timers_and_alarms, thread))
}

fn start_io(
    broker: &Arc<Broker>,
    polls: Vec<Poll>,
    listeners: Vec<Listener>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    for (index, poll) in polls.into_iter().enumerate() {
        let own = listeners.take().unwrap_or_default();
        let thread = IoThread::new(index, Arc::clone(broker), poll, own)?;
        threads.push(spawn(&format!("io-{index}"), move || {
            serve_promptly();
            thread.run();
        })?);
    }
    Ok(threads)
}

/// Has what the last run left in full files of the log moved to segments, now that the queues are
/// there: until then nobody has said where their segments go.
fn flush_first(broker: &Broker, rolled: &Sender<Generation>, through: Option<Generation>) {
    if let Some(through) = through {
        // The receiver lives as long as its thread.
        let _ = rolled.send(through);
        broker.signals.segments.notify();
    }
}

/// Says which policies apply to nothing, as everybody would wait while their patterns are matched.
fn warn_of_policies(policies: &[String]) {
    if policies.is_empty() {
        return;
    }
    let shown = policies.len().min(POLICIES_SHOWN);
    let more = match policies.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    tracing::warn!(
        "these apply to nothing, as their patterns take too much work for each name: {}{more}; \
         give them other patterns",
        policies[..shown].join(", "),
    );
}

/// Lets a node serve its cluster, and gives the shards their queues once it has caught up.
fn join_in<D: Disk>(
    prepared: cluster::Prepared,
    broker: &Arc<Broker>,
    found: &[LogSummary],
    reader: &mut Reader<D>,
) -> io::Result<cluster::Running> {
    let running = prepared.start(broker)?;
    let now = broker.now();
    leveret_cluster::place(&**broker, |catalogue| {
        let mut shards: Vec<_> = broker.shard_ids().map(|id| broker.shard(id)).collect();
        leveret_cluster::catalogue::place_queues(catalogue, &mut shards, found, now, |logs| {
            for request in logs.take_reads() {
                logs.loaded(reader.read(request));
            }
        });
        shards.into_iter().for_each(BorrowedShard::release);
    });
    broker.run_deferred(now);
    Ok(running)
}

/// What a new node begins with, durable before anyone can connect.
fn first_boot(broker: &Broker, commands: &[Command]) -> Result<(), StartError> {
    // In a cluster the first node is alone when it begins; the others find what it began with.
    let begins = broker.node_id().0 <= 1;
    if !begins || broker.catalogue().vhosts().next().is_some() {
        return Ok(());
    }
    let now = broker.now();
    let mut last = None;
    for command in commands {
        last = broker.execute(now, command)?.log_position.or(last);
    }
    if let Some(log_position) = last {
        // Nobody is there yet who could do without it.
        while !broker.wait_durable(Instant::now() + Duration::from_secs(60), log_position) {}
    }
    Ok(())
}

impl From<PrepareError> for StartError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Cluster(error) => Self::Cluster(error),
            PrepareError::Catalogue(error) => Self::Catalogue(error),
            PrepareError::System(error) => Self::System(error),
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new()
        .name(format!("leveret-{name}"))
        .spawn(work)
}

fn join<T>(thread: JoinHandle<T>) -> Option<T> {
    // A thread that panicked has ended the process already where panics abort; elsewhere it has
    // been reported.
    thread.join().ok()
}
