//! The node in the hands of threads: the shards behind their locks, the inboxes, and what carries
//! the shards' effects out.

mod accepting;
mod clients;
mod deferred;
mod env;
mod in_cluster;
mod pressure;
mod shards;
mod stream_growth;
mod streams;

pub(crate) use pressure::DiskWriter;
pub use shards::ShardGuard;

use crate::admission::{Admission, AdmissionLimits};
use crate::clock::{self, Clock};
use crate::cluster::Links;
use crate::durable_signal::DurableSignal;
use crate::handshakes::{Handshakes, Step};
use crate::inbox::Inbox;
use crate::logins::Logins;
use crate::progress::Progress;
use crate::stream_thread::StreamHandle;
use crate::thread_event::ThreadEvent;
use crate::timers_and_alarms::TimersAndAlarms;
use crate::transport::HandshakeStep;
use crate::wake_ups::{self, HeldWakeUps, ThreadWaker, WakeUps};
use crate::waker::Signal;
use accepting::Accepting;
use clients::Clients;
use deferred::DeferredWork;
use in_cluster::InCluster;
use leveret_cluster::catalogue::execute_in_parts;
use leveret_cluster::streams::StreamRelay;
use leveret_cluster::{BorrowedShard as _, Env};
use leveret_cluster::{Cluster, Waiter, alarms_together, known_without_majority};
use leveret_metadata::{Catalogue, CatalogueError, Command, Outcome};
use leveret_node::{Alarms, LogPosition, NodeSettings, memory_permit};
use leveret_queue_host::events::QueueEvent;
use leveret_queue_host::shard::Shard;
use leveret_storage::ReadRequest;
use leveret_types::limits::{PROPOSAL_MS_MAX, READ_BARRIER_MS_MAX};
use leveret_types::{ConnectionId, NodeId, Now, ShardId};
use parking_lot::{MutexGuard, RwLock, RwLockWriteGuard};
use pressure::Pressure;
use shards::Shards;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The node, shared by all threads.
pub struct Broker {
    clock: Clock,
    settings: NodeSettings,
    catalogue: RwLock<Catalogue>,
    shards: Shards,
    io: IoThreads,
    /// Who knows how much memory is used; nobody until the node runs.
    memory: OnceLock<Arc<TimersAndAlarms>>,
    /// Where operators' commands wait.
    pub(crate) progress: Progress,
    /// Wakes the threads that have no inbox.
    pub(crate) signals: Signals,
    deferred: DeferredWork,
    pressure: Pressure,
    accepting: Accepting,
    clients: Clients,
    /// Where slow passwords are checked.
    pub logins: Logins,
    /// Where TLS handshakes are computed.
    pub(crate) handshakes: Handshakes,
    cluster: InCluster,
    /// The way to the streams of this node.
    pub streams: StreamHandle,
    /// The way to the streams of other nodes.
    pub(crate) stream_relay: StreamRelay,
}

/// The ways to the IO threads: an inbox each, and the news that something became durable.
struct IoThreads {
    inboxes: Arc<[Inbox<ThreadEvent>]>,
    news: DurableSignal,
}

impl IoThreads {
    fn new(inboxes: Vec<Inbox<ThreadEvent>>) -> Self {
        Self {
            news: DurableSignal::new(inboxes.len()),
            inboxes: inboxes.into(),
        }
    }

    /// Posts events of queues to the inboxes of their connections' threads, and wakes nobody;
    /// answers which threads, as bits.
    fn post(&self, posts: &mut Vec<(ConnectionId, QueueEvent)>) -> u64 {
        let mut threads = 0;
        let mut posts = posts.drain(..).peekable();
        while let Some((first, event)) = posts.next() {
            let thread = thread_of(first);
            threads |= 1 << thread;
            let more = std::iter::from_fn(|| posts.next_if(|(next, _)| thread_of(*next) == thread));
            let run = std::iter::once((first, event)).chain(more);
            self.inboxes[thread]
                .post(run.map(|(id, event)| ThreadEvent::Connection(id, event.into())));
        }
        threads
    }

    /// Posts an event to every thread.
    fn broadcast(&self, mut event: impl FnMut() -> ThreadEvent) {
        for inbox in self.inboxes.iter() {
            inbox.post([event()]);
            inbox.ring();
        }
    }

    /// Wakes these threads, as bits.
    fn ring(&self, mut threads: u64) {
        while threads != 0 {
            let thread = threads.trailing_zeros() as usize;
            threads &= threads - 1;
            self.inboxes[thread].ring();
        }
    }
}

/// What wakes the threads that have no inbox.
#[derive(Default)]
pub(crate) struct Signals {
    /// The write-ahead log's.
    pub(crate) wal: Signal,
    /// The timers and alarms'.
    pub(crate) timers_and_alarms: Signal,
    /// The segment writer's.
    pub(crate) segments: Signal,
}

/// Commands of an import that are carried out before others get at the catalogue.
const COMMANDS_AT_ONCE: usize = 64;
/// Commands of an import that are carried out before memory is looked at again: these take a few
/// megabytes, and the alarm for it would come half a second later.
const COMMANDS_PER_LOOK: usize = 1024;
/// How often an import is prepared that is refused because others have changed the catalogue.
const PREPARATIONS_MAX: u32 = 3;

/// What a broker is made of.
pub(crate) struct BrokerParts {
    pub(crate) settings: NodeSettings,
    pub(crate) catalogue: Catalogue,
    pub(crate) shards: Vec<Shard>,
    /// One for each IO thread.
    pub(crate) inboxes: Vec<Inbox<ThreadEvent>>,
    /// Where the reader threads take what is to be read.
    pub(crate) reads: Sender<ReadRequest>,
    pub(crate) links: Links,
    /// The cluster, if the node is in one.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) admission: AdmissionLimits,
}

impl ThreadWaker for Broker {
    fn wake_now(&self, wake_ups: WakeUps) {
        if wake_ups.wal {
            self.signals.wal.notify();
        } else if wake_ups.wal_soon {
            self.signals.wal.notify_soon();
        } else if wake_ups.wal_lazily {
            self.signals.wal.notify_lazily();
        }
        if wake_ups.links {
            self.cluster.links.ring();
        }
        self.io.ring(wake_ups.io_threads);
    }
}

impl Broker {
    /// A node over these shards and this catalogue.
    pub(crate) fn new(parts: BrokerParts) -> Self {
        let BrokerParts {
            settings,
            catalogue,
            shards,
            inboxes,
            reads,
            links,
            cluster,
            admission,
        } = parts;
        assert_eq!(shards.len(), usize::from(settings.shard_count));
        let are_traced = leveret_node::any_traced(&catalogue);
        Self {
            clock: Clock::start(),
            settings,
            catalogue: RwLock::new(catalogue),
            shards: Shards::new(shards, reads, cluster.is_some()),
            io: IoThreads::new(inboxes),
            memory: OnceLock::new(),
            progress: Progress::default(),
            signals: Signals::default(),
            deferred: DeferredWork::new(clock::system_ms()),
            pressure: Pressure::default(),
            accepting: Accepting::new(admission),
            clients: Clients::new(links.node, are_traced),
            logins: Logins::new(random_bytes()),
            handshakes: Handshakes::default(),
            cluster: InCluster::new(links, cluster),
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
        self.clock.started_wall_ms()
    }

    /// How many IO threads there are.
    pub fn thread_count(&self) -> usize {
        self.io.inboxes.len()
    }

    /// How many shards there are.
    pub fn shard_ids(&self) -> impl DoubleEndedIterator<Item = ShardId> + use<> {
        (0..self.settings.shard_count).map(ShardId)
    }

    /// Bytes that wait to be sent to another node of the cluster.
    #[must_use]
    pub fn unsent_to_peer_bytes(&self, peer: NodeId) -> usize {
        self.cluster.links.waiting_bytes(peer)
    }

    /// Connections that are open.
    pub fn connection_count(&self) -> usize {
        self.clients.open_count()
    }

    pub(crate) fn connection_opened(&self) {
        self.clients.opened();
    }

    pub(crate) fn connection_closed(&self) {
        self.clients.closed();
        self.progress.tell();
    }

    /// Who is let in of the clients that come.
    pub(crate) fn admission(&self) -> &Admission {
        &self.accepting.admission
    }

    /// The ways to the other nodes.
    pub(crate) fn cluster_links(&self) -> &Links {
        &self.cluster.links
    }

    pub(crate) fn inbox(&self, thread: usize) -> &Inbox<ThreadEvent> {
        &self.io.inboxes[thread]
    }

    /// Has a step of a connection's TLS handshake computed, which comes back by the inbox of its
    /// thread; false if too many wait.
    pub(crate) fn compute_handshake(&self, id: ConnectionId, step: HandshakeStep) -> bool {
        let inboxes = Arc::clone(&self.io.inboxes);
        self.handshakes.push(Step {
            from: step.from(),
            is_familiar: self.logins.is_familiar(step.from()),
            wanted: step.wanted(),
            work: Box::new(move || {
                let inbox = &inboxes[thread_of(id)];
                inbox.post([ThreadEvent::Handshake(id, step.run())]);
                inbox.ring();
            }),
        })
    }

    /// Posts an event to every IO thread.
    pub fn broadcast(&self, event: impl FnMut() -> ThreadEvent) {
        self.io.broadcast(event);
    }

    /// Moves to the thread at hand the news that something became durable.
    pub(crate) fn durable_news(&self, thread: usize) -> bool {
        self.io.news.take(thread)
    }

    /// Whether such news wait.
    pub(crate) fn durable_pending(&self, thread: usize) -> bool {
        self.io.news.is_pending(thread)
    }

    /// A number that grows whenever something became durable.
    pub(crate) fn durable_epoch(&self) -> u64 {
        self.io.news.epoch()
    }

    /// The thread wants to hear when something becomes durable. `epoch` is from before it looked
    /// how far that is: if it has grown since, the news are there already.
    pub(crate) fn await_durable(&self, thread: usize, epoch: u64) {
        self.io.news.ask(thread, epoch);
    }

    /// A shard's part of the write-ahead log is durable through this chunk.
    pub(crate) fn set_durable(&self, shard: ShardId, chunk: u64) {
        self.shards.set_durable(shard, chunk);
    }

    /// Wakes the threads that wait for the write-ahead log.
    pub(crate) fn tell_durable(&self) {
        self.io
            .news
            .tell(|thread| self.wake(WakeUps::io_thread(thread)));
        self.progress.tell();
    }

    /// Waits until a look finds something: whenever the log has become durable, another node has
    /// said something or has been sent something, the catalogue's group has gone on, something has
    /// been read, or a connection has been closed. Nothing where the deadline comes first.
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
        self.shards.cell(shard).shard.lock()
    }

    /// What a shard had gathered has been taken by the write-ahead log.
    pub(crate) fn backlog_taken(&self, shard: ShardId) {
        self.shards.cell(shard).set_backlog(0);
    }

    /// When the first shard wants to be looked at, monotonic.
    pub(crate) fn shard_deadline_ms(&self) -> u64 {
        self.shards.deadline_ms()
    }

    /// Lets every shard do what is due.
    pub(crate) fn tick_shards(&self, now: Now) {
        if !self.has_queues() {
            return;
        }
        for id in self.shards.due(now.monotonic_ms) {
            let mut shard = self.shard(id);
            shard.tick(now);
            shard.release();
        }
        // With what is due for many queues at once, others' deadlines would pass meanwhile.
        self.deferred.leave();
        self.run_deferred(now);
    }

    /// Carries out a turn of what shards have handed over, and leaves the rest to the timers'
    /// thread. One thread at a time does it, so that its order is kept; another that comes
    /// meanwhile leaves its work to that one.
    pub(crate) fn run_deferred(&self, now: Now) {
        if self.has_queues() && self.deferred.run(now, self) {
            self.signals.timers_and_alarms.notify();
        }
    }

    /// Carries out a turn of what others have left of that. Answers whether it is to be called
    /// again.
    pub(crate) fn go_on_with_deferred(&self, now: Now) -> bool {
        self.has_queues() && self.deferred.go_on(now, self)
    }

    /// Carries out what is left of that at the end, until then at most. Answers how much is left
    /// still.
    pub(crate) fn finish_deferred(&self, deadline: Instant) -> usize {
        let is_over = || Instant::now() >= deadline;
        match self.has_queues() {
            true => self.deferred.finish(is_over, self.now(), self),
            false => 0,
        }
    }

    /// Whether shards have their queues: at the start of a member of a cluster they have none yet.
    /// What is due then, such as a delayed message, would find nowhere to go.
    pub(crate) fn has_queues(&self) -> bool {
        self.cluster().is_none_or(Cluster::has_placed_queues)
    }

    /// Carries out what shards have handed over: for threads that have changed something and hold
    /// nothing.
    pub fn run_deferred_work(&self) {
        self.run_deferred(self.now());
    }

    /// Has this tell how much memory is used; before anything is imported.
    pub(crate) fn watch_memory(&self, timers_and_alarms: Arc<TimersAndAlarms>) {
        // Called once, at the start.
        let _ = self.memory.set(timers_and_alarms);
    }

    /// Bytes that the process may take, as of this moment, until nothing new is declared.
    pub fn memory_left(&self) -> u64 {
        let known = self.memory.get();
        known.map_or(u64::MAX, |known| known.memory_left())
    }

    /// The same; where fewer than `wanted` are left, what is free is given back first. For threads
    /// that hold nothing.
    pub fn memory_left_of(&self, wanted: u64) -> u64 {
        let known = self.memory.get();
        known.map_or(u64::MAX, |known| known.memory_left_of(wanted))
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
            if let Err(error) = commands.iter().try_for_each(Command::check_size) {
                return (log_positions, Err(error));
            }
            let is_one = commands.len() == 1;
            let result = match self.cluster.part.is_some() {
                true => self.execute_all_in_cluster(commands),
                false => self.execute_all_here(now, &commands, &mut log_positions),
            };
            let may_be_stale = !is_one
                && !matches!(
                    result,
                    Ok(())
                        | Err(CatalogueError::NoMemory
                            | CatalogueError::NoMemoryForImport { .. }
                            | CatalogueError::ArgumentBytes { .. }
                            | CatalogueError::NoMajority)
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
        // Freed behind the catalogue: it may be a virtual host with very many bindings.
        let mut taken_out = Vec::new();
        let mut catalogue = self.catalogue.write();
        let mut is_full = false;
        for (number, command) in commands.iter().enumerate() {
            if number > 0 && number % COMMANDS_PER_LOOK == 0 {
                is_full = self.memory_left() == 0;
            }
            if number > 0 && number % COMMANDS_AT_ONCE == 0 {
                // Who waits is let in before the next ones.
                RwLockWriteGuard::bump(&mut catalogue);
            }
            let mut alarms = alarms_together(self);
            alarms.memory_full |= is_full;
            memory_permit::permit_in(&catalogue, command, alarms)?;
            let let_in = RwLockWriteGuard::bump;
            let executed = execute_in_parts(&mut catalogue, now, command, self, let_in)?;
            log_positions.extend(executed.log_position);
            taken_out.push(executed.outcome.taken_out);
            taken_out.pop_if(|taken_out| taken_out.is_empty());
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
        let mut alarms = alarms_together(self);
        alarms.memory_full |= self.memory_left() == 0;
        if !alarms.memory_full {
            return (commands, Ok(()));
        }
        let catalogue = self.catalogue.read();
        let permit = |command: &Command| memory_permit::permit_in(&catalogue, command, alarms);
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

    /// Waits until this node has seen all that the cluster has agreed on by now, or for
    /// [`READ_BARRIER_MS_MAX`]; false where that was not to be had, or the node is in no cluster.
    pub fn pass_read_barrier(&self) -> bool {
        let Some(cluster) = &self.cluster.part else {
            return false;
        };
        if !cluster.reaches_leader(self.peers()) {
            return false;
        }
        let (answer, answers) = sync_channel(1);
        cluster.propose(Waiter::Operator(answer), Command::Look);
        self.wake_cluster();
        let patience = Duration::from_millis(READ_BARRIER_MS_MAX);
        matches!(answers.recv_timeout(patience), Ok(Ok(_)))
    }

    /// Asks the cluster to carry out commands, in this order, and waits for all answers. Without a
    /// majority those that come first and change nothing are answered at once: what is behind one
    /// that waits may be about what that one changes.
    fn ask_cluster(&self, commands: Vec<Command>) -> Vec<Result<Outcome, CatalogueError>> {
        let Some(cluster) = &self.cluster.part else {
            return Vec::new();
        };
        let mut commands = commands.into_iter().peekable();
        let mut results = Vec::with_capacity(commands.len());
        while let Some(command) = commands.peek()
            && let Some(known) = known_without_majority(command, self)
        {
            results.push(known.map(|executed| executed.outcome));
            commands.next();
        }
        let answers: Vec<_> = commands
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
        results.extend(answers.into_iter().map(wait));
        results
    }

    /// The other nodes were told that this one is up, and who was silent is down at all shards: see
    /// [`Shard::set_peers_checked_ms`].
    pub(crate) fn peers_checked(&self, now: Now) {
        self.shards.set_peers_checked_ms(now.monotonic_ms);
    }

    /// Whether clients are taken.
    pub fn serving(&self) -> bool {
        self.accepting.is_serving()
    }

    /// The cluster has forgotten this node: what it would confirm from now on, nobody else has.
    pub(crate) fn forgotten(&self) {
        if self.accepting.forget() {
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
        self.accepting.is_forgotten()
    }

    /// Takes clients, or closes all connections and takes none.
    pub fn set_serving(&self, serving: bool) {
        if !self.accepting.set_serving(serving) {
            self.broadcast(|| ThreadEvent::CloseAll);
        }
    }

    /// Whether an operator lets the node listen for clients.
    pub fn listening(&self) -> bool {
        self.accepting.is_listening()
    }

    /// Has the IO threads listen for clients, or listen no more; each of them answers.
    pub(crate) fn set_listening(&self, listen: bool, answer: &SyncSender<io::Result<()>>) {
        self.accepting.set_listening(listen);
        self.broadcast(|| ThreadEvent::Listen(listen, answer.clone()));
    }

    /// Sets this node's own alarms, and tells the IO threads if they have changed.
    pub(crate) fn set_alarms(&self, alarms: Alarms) {
        if self.pressure.set_alarms(alarms) {
            self.hold_streams();
            self.broadcast(|| ThreadEvent::AlarmsChanged);
            if let Some(cluster) = &self.cluster.part {
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
        self.streams.hold(leveret_cluster::blocked_streams(self));
    }

    /// This node's own alarms, whatever others have.
    #[must_use]
    pub fn own_alarms(&self) -> Alarms {
        self.pressure.alarms()
    }

    /// Whether the segment writer is so far behind that publishers must wait.
    pub(crate) fn set_segments_behind(&self, behind: bool) {
        self.pressure.set_segments_behind(behind);
        if !behind {
            self.tell_durable();
        }
    }

    /// Whether a thread that writes to a disk finds it full.
    pub(crate) fn set_out_of_space(&self, writer: DiskWriter, full: bool) {
        if self.pressure.set_out_of_space(writer, full) {
            self.signals.timers_and_alarms.notify();
        }
    }

    /// Whether any thread finds its disk full.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.pressure.is_out_of_space()
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

/// Unguessable bytes.
fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        crate::fatal(&format!("the system gives no random bytes: {error}"));
    }
    bytes
}
