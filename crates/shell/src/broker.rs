//! The node in the hands of threads: the shards behind their locks, the inboxes, and what carries
//! the shards' effects out.

mod env;
mod stream_growth;
mod streams;

pub use env::ShardGuard;

use crate::admission::{Admission, AdmissionLimits};
use crate::clock::{self, Clock};
use crate::cluster::Links;
use crate::inbox::Inbox;
use crate::io_thread::ThreadEvent;
use crate::logins::Logins;
use crate::news::DurableNews;
use crate::progress::Progress;
use crate::signal::Signal;
use crate::stream_thread::StreamHandle;
use crate::wake_ups::{self, HeldWakeUps, ThreadWaker, WakeUps};
use leveret_cluster::catalogue::execute_in_parts;
use leveret_cluster::streams::StreamRelay;
use leveret_cluster::{BorrowedShard as _, Env};
use leveret_cluster::{Cluster, HeldStreams, Peers, Waiter, alarms_together};
use leveret_metadata::{Catalogue, CatalogueError, Command, Outcome};
use leveret_node::registry::Registry;
use leveret_node::reply_to::Replies;
use leveret_node::{Alarms, LogPosition, NodeCounters, NodeSettings, growth, history::History};
use leveret_queue_host::shard::{Deferred, Shard};
use leveret_routing::Scratch;
use leveret_storage::ReadRequest;
use leveret_types::limits::PROPOSAL_MS_MAX;
use leveret_types::{ConnectionId, NodeId, Now, ShardId};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Bytes that may wait for the write-ahead log before publishers' sockets are left unread.
const LOG_BACKLOG_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A lock in a cache line of its own, so that threads at different shards do not disturb each
/// other.
#[repr(align(128))]
struct ShardCell {
    shard: Mutex<Shard>,
    /// Through which chunk the shard's part of the write-ahead log is durable.
    durable: AtomicU64,
    /// Bytes that the shard has gathered and the write-ahead log has not taken.
    backlog_bytes: AtomicUsize,
    /// When the shard wants to be looked at, monotonic; `u64::MAX` is never.
    deadline_ms: AtomicU64,
}

/// The node, shared by all threads.
pub struct Broker {
    clock: Clock,
    started_wall_ms: u64,
    settings: NodeSettings,
    counters: NodeCounters,
    catalogue: RwLock<Catalogue>,
    shards: Box<[ShardCell]>,
    inboxes: Arc<[Inbox<ThreadEvent>]>,
    news: DurableNews,
    /// Where operators' commands wait.
    pub(crate) progress: Progress,
    /// Wakes the write-ahead log's thread.
    pub(crate) wal: Signal,
    /// Wakes the timers and alarms thread.
    pub(crate) timers_and_alarms: Signal,
    /// Wakes the segment writer's thread.
    pub(crate) segments: Signal,
    reads: Sender<ReadRequest>,
    deferred: Mutex<Vec<Deferred>>,
    deferred_waiting: AtomicBool,
    deferred_runner: Mutex<Scratch>,
    /// This node's own alarms.
    alarms: AtomicU8,
    /// Whether any stream takes no publishes because of alarms.
    are_streams_held: AtomicBool,
    segments_behind: AtomicBool,
    out_of_space: AtomicU8,
    next_consumer: AtomicU64,
    connections: AtomicUsize,
    pub(crate) admission: Admission,
    /// Where slow passwords are checked.
    pub logins: Logins,
    serving: AtomicBool,
    /// The cluster has this node no more.
    forgotten: AtomicBool,
    listening: AtomicBool,
    /// The ways to the other nodes.
    pub(crate) cluster_links: Links,
    cluster: Option<Cluster>,
    peers: Peers,
    /// When the links' thread last looked after the other nodes, monotonic; `u64::MAX` outside
    /// clusters.
    peers_checked_ms: AtomicU64,
    registry: Registry,
    replies: Replies,
    history: History,
    /// The way to the streams of this node.
    pub streams: StreamHandle,
    /// The way to the streams of other nodes.
    pub(crate) stream_relay: StreamRelay,
}

/// The threads that write to disks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DiskWriter {
    /// The write-ahead log's.
    Wal = 1,
    /// The segment writer's.
    Segments = 2,
}

/// Bits of a consumer's id that a node counts up; those above are the node's number.
const CONSUMER_BITS: u32 = 40;
/// Commands of an import that are carried out before others get at the catalogue.
const COMMANDS_AT_ONCE: usize = 64;
/// How often an import is prepared that is refused because others have changed the catalogue.
const PREPARATIONS_MAX: u32 = 3;
const ALARM_MEMORY: u8 = 1;
const ALARM_DISK: u8 = 2;
const ALARM_MEMORY_FULL: u8 = 4;

fn alarm_bits(alarms: Alarms) -> u8 {
    let all = [
        (alarms.memory, ALARM_MEMORY),
        (alarms.disk, ALARM_DISK),
        (alarms.memory_full, ALARM_MEMORY_FULL),
    ];
    let set = all.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, bit)| bit).sum()
}

const fn alarms_of(bits: u8) -> Alarms {
    Alarms {
        memory: bits & ALARM_MEMORY != 0,
        disk: bits & ALARM_DISK != 0,
        memory_full: bits & ALARM_MEMORY_FULL != 0,
    }
}

impl ThreadWaker for Broker {
    fn wake_now(&self, wake_ups: WakeUps) {
        if wake_ups.wal {
            self.wal.notify();
        } else if wake_ups.wal_soon {
            self.wal.notify_soon();
        } else if wake_ups.wal_lazily {
            self.wal.notify_lazily();
        }
        if wake_ups.links {
            self.cluster_links.ring();
        }
        let mut woken = wake_ups.io_threads;
        while woken != 0 {
            let thread = woken.trailing_zeros() as usize;
            woken &= woken - 1;
            self.inboxes[thread].ring();
        }
    }
}

impl Broker {
    /// A node over these shards and this catalogue.
    pub(crate) fn new(
        settings: NodeSettings,
        catalogue: Catalogue,
        shards: Vec<Shard>,
        inboxes: Vec<Inbox<ThreadEvent>>,
        reads: Sender<ReadRequest>,
        (links, cluster): (Links, Option<Cluster>),
        admission: AdmissionLimits,
    ) -> Self {
        assert_eq!(shards.len(), usize::from(settings.shard_count));
        let cells = shards.into_iter().map(|shard| ShardCell {
            durable: AtomicU64::new(shard.logs.durable_through()),
            shard: Mutex::new(shard),
            backlog_bytes: AtomicUsize::new(0),
            deadline_ms: AtomicU64::new(u64::MAX),
        });
        let registry = Registry::default();
        registry.set_traces(leveret_node::any_traced(&catalogue));
        Self {
            clock: Clock::start(),
            started_wall_ms: clock::system_ms(),
            settings,
            counters: NodeCounters::default(),
            catalogue: RwLock::new(catalogue),
            shards: cells.collect(),
            news: DurableNews::new(inboxes.len()),
            progress: Progress::default(),
            inboxes: inboxes.into(),
            wal: Signal::default(),
            timers_and_alarms: Signal::default(),
            segments: Signal::default(),
            reads,
            deferred: Mutex::new(Vec::new()),
            deferred_waiting: AtomicBool::new(false),
            deferred_runner: Mutex::new(Scratch::new(clock::system_ms())),
            alarms: AtomicU8::new(0),
            are_streams_held: AtomicBool::new(false),
            segments_behind: AtomicBool::new(false),
            out_of_space: AtomicU8::new(0),
            // Unique among all nodes: the node is part of it.
            next_consumer: AtomicU64::new(u64::from(links.node.0) << CONSUMER_BITS | 1),
            connections: AtomicUsize::new(0),
            admission: Admission::new(admission),
            logins: Logins::new(env::random_bytes()),
            serving: AtomicBool::new(true),
            forgotten: AtomicBool::new(false),
            listening: AtomicBool::new(true),
            cluster_links: links,
            peers_checked_ms: AtomicU64::new(if cluster.is_some() { 0 } else { u64::MAX }),
            cluster,
            peers: Peers::default(),
            registry,
            replies: Replies::default(),
            history: History::default(),
            streams: StreamHandle::default(),
            stream_relay: StreamRelay::default(),
        }
    }

    /// The time, on both clocks.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// The node's clock, for whoever keeps it with the system's.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When the node started, milliseconds since the Unix epoch.
    pub fn started_wall_ms(&self) -> u64 {
        self.started_wall_ms
    }

    /// How many IO threads there are.
    pub fn thread_count(&self) -> usize {
        self.inboxes.len()
    }

    /// How many shards there are.
    pub fn shard_ids(&self) -> impl DoubleEndedIterator<Item = ShardId> + use<> {
        (0..self.settings.shard_count).map(ShardId)
    }

    /// Connections that are open.
    pub fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.counters
            .connections_opened
            .fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.counters
            .connections_closed
            .fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn inbox(&self, thread: usize) -> &Inbox<ThreadEvent> {
        &self.inboxes[thread]
    }

    /// Posts an event to every IO thread.
    pub fn broadcast(&self, mut event: impl FnMut() -> ThreadEvent) {
        for inbox in self.inboxes.iter() {
            inbox.post([event()]);
            inbox.ring();
        }
    }

    /// Moves to the thread at hand the news that something became durable.
    pub(crate) fn durable_news(&self, thread: usize) -> bool {
        self.news.take(thread)
    }

    /// Whether such news wait.
    pub(crate) fn durable_pending(&self, thread: usize) -> bool {
        self.news.wait(thread)
    }

    /// A number that grows whenever something became durable.
    pub(crate) fn durable_epoch(&self) -> u64 {
        self.news.epoch()
    }

    /// The thread wants to hear when something becomes durable. `epoch` is from before it looked
    /// how far that is: if it has grown since, the news are there already.
    pub(crate) fn await_durable(&self, thread: usize, epoch: u64) {
        self.news.ask(thread, epoch);
    }

    /// A shard's part of the write-ahead log is durable through this chunk.
    pub(crate) fn set_durable(&self, shard: ShardId, chunk: u64) {
        self.shards[usize::from(shard.0)]
            .durable
            .store(chunk, Ordering::Release);
    }

    /// Wakes the threads that wait for the write-ahead log.
    pub(crate) fn tell_durable(&self) {
        self.news
            .tell(|thread| self.wake(WakeUps::io_thread(thread)));
        self.progress.tell();
    }

    /// Has an operator's command wait until a look finds something: whenever the log has become
    /// durable, another node has said something or has been sent something, the catalogue's group
    /// has gone on, or something has been read. Nothing where the deadline comes first.
    pub fn wait_until<T>(&self, deadline: Instant, look: impl FnMut() -> Option<T>) -> Option<T> {
        self.progress.wait(deadline, look)
    }

    /// The same until the log is durable up to there; whether it is.
    #[must_use]
    pub fn wait_durable(&self, deadline: Instant, place: LogPosition) -> bool {
        let is_durable = || (self.durable(place.shard) >= place.chunk).then_some(());
        self.wait_until(deadline, is_durable).is_some()
    }

    /// Wakes threads that have something to do; at the end of this thread's turn, if that holds
    /// wake-ups back.
    pub(crate) fn wake(&self, wake_ups: WakeUps) {
        if !wake_ups::hold_back(wake_ups) {
            self.wake_now(wake_ups);
        }
    }

    /// Holds back whom this thread wakes until what is given is dropped.
    pub(crate) fn hold_wake_ups(&self) -> HeldWakeUps<'_> {
        HeldWakeUps::new(self)
    }

    /// A shard's lock alone, without the effects being carried out: for the threads of the storage
    /// engine.
    pub(crate) fn lock_shard(&self, shard: ShardId) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(shard.0)].shard.lock()
    }

    /// What a shard had gathered has been taken by the write-ahead log.
    pub(crate) fn backlog_taken(&self, shard: ShardId) {
        self.shards[usize::from(shard.0)]
            .backlog_bytes
            .store(0, Ordering::Relaxed);
    }

    /// When the first shard wants to be looked at, monotonic.
    pub(crate) fn shard_deadline_ms(&self) -> u64 {
        self.shards
            .iter()
            .map(|cell| cell.deadline_ms.load(Ordering::Relaxed))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Lets every shard do what is due.
    pub(crate) fn tick_shards(&self, now: Now) {
        for (index, cell) in self.shards.iter().enumerate() {
            if cell.deadline_ms.load(Ordering::Relaxed) <= now.monotonic_ms {
                let mut shard = self.shard(ShardId(index as u16));
                shard.tick(now);
                shard.release();
            }
        }
        self.run_deferred(now);
    }

    /// Carries out what shards have handed over. One thread at a time does it, so that its order is
    /// kept; another that comes meanwhile leaves its work to that one.
    pub(crate) fn run_deferred(&self, now: Now) {
        while self.deferred_waiting.load(Ordering::Acquire) {
            let Some(mut scratch) = self.deferred_runner.try_lock() else {
                return;
            };
            self.deferred_waiting.store(false, Ordering::Release);
            let work = std::mem::take(&mut *self.deferred.lock());
            leveret_node::deferred::run(work, &mut scratch, now, self);
        }
    }

    /// Carries out what shards have handed over: for threads that have changed something and hold
    /// nothing.
    pub fn run_deferred_work(&self) {
        self.run_deferred(self.now());
    }

    /// Carries out commands in their order, some at a time: others get at the catalogue between.
    /// `prepare` makes them, and is called again where one of several is refused that may have been
    /// right when it was made; it is called while nothing is locked. Answers what to wait for, and
    /// how it ended: those before a refused one hold; in a cluster those after it as well.
    pub fn execute_all(
        &self,
        now: Now,
        prepare: &mut dyn FnMut() -> Result<Vec<Command>, CatalogueError>,
    ) -> (Vec<LogPosition>, Result<(), CatalogueError>) {
        let mut log_positions = Vec::new();
        let mut attempt = 1;
        loop {
            let commands = match prepare() {
                Ok(commands) => commands,
                Err(error) => return (log_positions, Err(error)),
            };
            let is_one = commands.len() == 1;
            let result = match self.cluster.is_some() {
                true => self.execute_all_in_cluster(commands),
                false => self.execute_all_here(now, &commands, &mut log_positions),
            };
            let may_be_stale = !is_one
                && !matches!(
                    result,
                    Ok(()) | Err(CatalogueError::NoMemory | CatalogueError::NoMajority)
                );
            if !may_be_stale || attempt == PREPARATIONS_MAX {
                return (log_positions, result);
            }
            attempt += 1;
        }
    }

    fn execute_all_here(
        &self,
        now: Now,
        commands: &[Command],
        log_positions: &mut Vec<LogPosition>,
    ) -> Result<(), CatalogueError> {
        let mut catalogue = self.catalogue.write();
        for (number, command) in commands.iter().enumerate() {
            if number > 0 && number % COMMANDS_AT_ONCE == 0 {
                // Who waits is let in before the next ones.
                RwLockWriteGuard::bump(&mut catalogue);
            }
            growth::permit_in(&catalogue, command, alarms_together(self))?;
            let let_in = RwLockWriteGuard::bump;
            let executed = execute_in_parts(&mut catalogue, now, command, self, let_in)?;
            log_positions.extend(executed.log_position);
        }
        Ok(())
    }

    fn execute_all_in_cluster(&self, commands: Vec<Command>) -> Result<(), CatalogueError> {
        let (permitted, refused) = self.permitted(commands);
        let results = self.ask_cluster(permitted);
        let done = results.into_iter().try_for_each(|result| result.map(drop));
        done.and(refused)
    }

    /// The commands before the first one that would make something new where there is no memory
    /// left for it, and its error.
    fn permitted(&self, mut commands: Vec<Command>) -> (Vec<Command>, Result<(), CatalogueError>) {
        let alarms = alarms_together(self);
        if !alarms.memory_full {
            return (commands, Ok(()));
        }
        let catalogue = self.catalogue.read();
        let permit = |command: &Command| growth::permit_in(&catalogue, command, alarms);
        let refused = commands.iter().enumerate();
        let mut refused = refused.filter_map(|(at, command)| Some((at, permit(command).err()?)));
        let Some((at, error)) = refused.next() else {
            return (commands, Ok(()));
        };
        drop(refused);
        commands.truncate(at);
        (commands, Err(error))
    }

    /// Asks the cluster to carry out a command, and waits until it has.
    ///
    /// # Errors
    /// What is wrong with the command, or that the cluster does not answer.
    pub fn execute_in_cluster(&self, command: &Command) -> Result<Outcome, CatalogueError> {
        let mut results = self.ask_cluster(vec![command.clone()]);
        results.pop().unwrap_or(Err(CatalogueError::NoMajority))
    }

    /// Asks the cluster to carry out commands, in this order, and waits for all answers.
    fn ask_cluster(&self, commands: Vec<Command>) -> Vec<Result<Outcome, CatalogueError>> {
        let Some(cluster) = &self.cluster else {
            return Vec::new();
        };
        let answers: Vec<_> = commands
            .into_iter()
            .map(|command| {
                let (answer, answers) = sync_channel(1);
                cluster.propose(Waiter::Operator(answer), command);
                answers
            })
            .collect();
        self.wake_cluster();
        let patience = Duration::from_millis(2 * PROPOSAL_MS_MAX);
        let wait = |answers: Receiver<_>| {
            let answer = answers.recv_timeout(patience);
            answer.unwrap_or(Err(CatalogueError::NoMajority))
        };
        answers.into_iter().map(wait).collect()
    }

    /// The other nodes were told that this one is up, and who was silent is down at all shards: see
    /// [`Shard::set_peers_checked_ms`].
    pub(crate) fn peers_checked(&self, now: Now) {
        self.peers_checked_ms
            .store(now.monotonic_ms, Ordering::Release);
    }

    /// Whether clients are taken.
    pub fn serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// The cluster has forgotten this node: what it would confirm from now on, nobody else has.
    pub(crate) fn forgotten(&self) {
        if !self.forgotten.swap(true, Ordering::AcqRel) {
            self.set_serving(false);
            tracing::error!(
                "the cluster has forgotten this node: it takes no clients any more, and closes the \
                 connections that it has. What its queues hold is on its disk alone. Stop it; with \
                 an empty data folder it joins anew"
            );
        }
    }

    /// Whether the cluster has forgotten this node.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Takes clients, or closes all connections and takes none.
    pub fn set_serving(&self, serving: bool) {
        let serving = serving && !self.is_forgotten();
        self.serving.store(serving, Ordering::Release);
        if !serving {
            self.broadcast(|| ThreadEvent::CloseAll);
        }
    }

    /// Whether an operator lets the node listen for clients.
    pub fn listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Has the IO threads listen for clients, or listen no more; each of them answers.
    pub(crate) fn set_listening(&self, listen: bool, answer: &SyncSender<io::Result<()>>) {
        self.listening.store(listen, Ordering::Release);
        self.broadcast(|| ThreadEvent::Listen(listen, answer.clone()));
    }

    /// Sets this node's own alarms, and tells the IO threads if they have changed.
    pub(crate) fn set_alarms(&self, alarms: Alarms) {
        let bits = alarm_bits(alarms);
        if self.alarms.swap(bits, Ordering::AcqRel) != bits {
            match alarms.reason() {
                Some(_) if alarms.memory_full => {
                    tracing::warn!(
                        "alarm: nearly all memory is used; publishers are blocked, and nothing new \
                         is declared"
                    );
                }
                Some(reason) => {
                    tracing::warn!("alarm: {reason}; publishers are blocked until it clears");
                }
                None => tracing::info!("alarms of this node cleared"),
            }
            self.hold_streams();
            self.broadcast(|| ThreadEvent::AlarmsChanged);
            if let Some(cluster) = &self.cluster {
                cluster.alarms_changed();
                self.wake_cluster();
            }
        }
    }

    /// Takes in what other nodes say of their alarms.
    pub fn set_alarms_of(&self, nodes: &[(NodeId, Alarms)]) {
        let has_changed = leveret_cluster::set_alarms_of(self.now(), nodes, self);
        // Also without news: a node may have gone.
        self.hold_streams();
        if has_changed {
            self.broadcast(|| ThreadEvent::AlarmsChanged);
        }
    }

    /// Holds back those who publish to streams from here, or lets them go on.
    fn hold_streams(&self) {
        let held = leveret_cluster::held_streams(self);
        let are_held = held != HeldStreams::None;
        let were_held = self.are_streams_held.swap(are_held, Ordering::AcqRel);
        if are_held || were_held {
            self.streams.hold(held);
        }
    }

    /// This node's own alarms, whatever others have.
    #[must_use]
    pub fn own_alarms(&self) -> Alarms {
        alarms_of(self.alarms.load(Ordering::Acquire))
    }

    /// Whether the segment writer is so far behind that publishers must wait.
    pub(crate) fn set_segments_behind(&self, behind: bool) {
        self.segments_behind.store(behind, Ordering::Relaxed);
        if !behind {
            self.tell_durable();
        }
    }

    /// Whether a thread that writes to a disk finds it full.
    pub(crate) fn set_out_of_space(&self, writer: DiskWriter, full: bool) {
        let bit = writer as u8;
        let before = if full {
            self.out_of_space.fetch_or(bit, Ordering::AcqRel)
        } else {
            self.out_of_space.fetch_and(!bit, Ordering::AcqRel)
        };
        if (before & bit != 0) != full {
            self.timers_and_alarms.notify();
        }
    }

    /// Whether any thread finds its disk full.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.out_of_space.load(Ordering::Acquire) != 0
    }

    fn lower_deadline(&self, cell: &ShardCell, deadline: u64) {
        let before = cell.deadline_ms.swap(deadline, Ordering::Relaxed);
        if deadline < before {
            self.timers_and_alarms.notify();
        }
    }
}

/// The moment at which a node begins: its monotonic clock starts at 0.
pub(crate) fn first_moment() -> Now {
    Now {
        monotonic_ms: 0,
        wall_ms: clock::system_ms(),
    }
}

/// The IO thread of a connection: part of its id.
pub(crate) fn thread_of(connection: ConnectionId) -> usize {
    (connection.0 & 0xFF) as usize
}
