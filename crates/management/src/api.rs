//! What the HTTP API needs of a node, as a trait of plain values: the shell implements it, a test
//! fakes it.
//!
//! Every call may block for as long as the node needs (a write waits for the disk), and is made
//! from a thread that may be blocked. All counters count from the node's start and never go back;
//! rates are this crate's affair.

use crate::cluster::view::{ClusterChange, ClusterView};
use crate::directory::Queue;
pub use crate::disk::values::{DiskUse, QueueDiskUse};
pub use crate::flows::{FlowStats, FlowsOf, PublishedStats};
pub use crate::held::{HeldAt, HeldLook, HeldMessage, Holder};
pub use crate::move_messages::{Move, MoveEnd, MoveMessages};
use crate::question::Question;
pub use crate::streams::start::{Browse, StreamStart};
pub use crate::streams::stats::{
    Browsed, STREAM_ERROR_CODES, StreamConsumerStats, StreamGroup, StreamGroups, StreamMessage,
    StreamProtocolStats, StreamPublisherStats, StreamStanding, StreamTracking,
};
use leveret_auth::Access;
use leveret_types::{
    ConnectionId, FieldTable, LatencyCounts, MESSAGE_SIZES, NodeId, ProtocolError, QueueId,
    RaftCounts,
};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// On whose behalf something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor<'a> {
    /// The operator at this machine, by the command line's token: may do everything.
    Operator,
    /// A user: permissions hold.
    User(&'a str),
}

/// A login by name and password.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// Where it comes from: some users may log in from this machine only.
    pub from: IpAddr,
}

/// What the node is, and how it is.
#[derive(Clone, Debug, Default)]
pub struct NodeStats {
    /// Its name, such as `leveret@host`.
    pub name: String,
    /// The cluster's name.
    pub cluster_name: String,
    /// The cluster's identity: text that never changes, a UUID.
    pub cluster_id: String,
    /// Its process.
    pub os_pid: u32,
    /// Milliseconds since its start.
    pub uptime_ms: u64,
    /// Processor cores that it may use.
    pub cores: usize,
    /// Resident memory in bytes.
    pub memory_used_bytes: u64,
    /// Memory in bytes above which publishers are held back.
    pub memory_limit_bytes: u64,
    /// Memory of the machine in bytes.
    pub memory_total_bytes: u64,
    /// Whether publishers are held back for memory.
    pub memory_alarm: bool,
    /// Free space in bytes where the data is.
    pub disk_free_bytes: u64,
    /// Free space in bytes below which publishers are held back.
    pub disk_limit_bytes: u64,
    /// Whether publishers are held back for the disk.
    pub disk_alarm: bool,
    /// File descriptors in use.
    pub fds_used: u64,
    /// File descriptors that the process may use.
    pub fds_max: u64,
    /// Clients' sockets among them.
    pub sockets_used: u64,
    /// Processor time used by the process, in milliseconds.
    pub cpu_ms: u64,
    /// Where the node keeps its data.
    pub data_dir: PathBuf,
    /// Where it writes logs; empty where only to the console.
    pub log_files: Vec<PathBuf>,
    /// Files that its configuration was read from.
    pub config_files: Vec<PathBuf>,
    /// SASL mechanisms that it offers, by their names.
    pub mechanisms: Vec<&'static str>,
    /// RabbitMQ's plugins whose work it does.
    pub plugins: &'static [&'static str],
    /// What an operator has marked the cluster and the node with.
    pub tags: [Vec<(String, String)>; 2],
    /// What it listens on.
    pub listeners: Vec<Listener>,
    /// Whether it takes clients: false before it is ready, after `stop_app`, while it stops.
    pub serving: bool,
    /// Whether its cluster has forgotten it: it takes no clients until it joins anew.
    pub forgotten: bool,
    /// What it did to its disk.
    pub io: IoStats,
    /// Connections that it admits; 0: no bound.
    pub connections_max: u64,
    /// Expiry of the certificates that are in use, in seconds since the Unix epoch, each with its
    /// file.
    pub certificates: Vec<(PathBuf, u64)>,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// RabbitMQ's word: `amqp`, `amqp/ssl`, `http`, `https`, `http/prometheus`,
    /// `https/prometheus`.
    pub protocol: &'static str,
    /// Where.
    pub address: SocketAddr,
}

/// Where the node's memory is, in bytes. What it holds for clients is counted, not estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// Of it, the program and the files that it maps.
    pub program_bytes: u64,
    /// What the allocator has given out.
    pub live_bytes: u64,
    /// What the allocator keeps for later; parts of it may not be resident.
    pub unused_bytes: u64,
    /// Bodies of messages: cached, on their way to the disk, or read back from it.
    pub bodies_bytes: u64,
    /// Where messages lie on disk.
    pub index_bytes: u64,
    /// Classic queues: which messages wait, and who holds which.
    pub classic_queue_bytes: u64,
    /// The same of replicated queues that are led here.
    pub quorum_queue_bytes: u64,
    /// What waits to be written to clients' sockets.
    pub unsent_bytes: u64,
}

/// What a node did to its disk.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // Each is a count, or what its name says.
pub struct IoStats {
    pub reads: u64,
    pub read_bytes: u64,
    pub read_us: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub write_us: u64,
    pub syncs: u64,
    pub sync_us: u64,
    /// Syncs by how long they took: the longest time of each slot in microseconds, ascending, and
    /// how many were within it and no slot before. What took longer than all is in none.
    pub sync_slots: [(u64, u64); IO_SYNC_SLOTS],
}

/// Slots of [`IoStats::sync_slots`].
pub const IO_SYNC_SLOTS: usize = 31;

/// What happened to messages: of a queue, a channel, or the whole node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounters {
    /// Published to the queue, by the channel, or to the node.
    pub published: u64,
    /// Published by a channel in confirm mode.
    pub published_confirm: u64,
    /// Confirmed to their publishers.
    pub confirmed: u64,
    /// Reached a queue; a message that reached two counts once.
    pub routed: u64,
    /// Reached no queue and were sent back.
    pub returned: u64,
    /// Reached no queue and were dropped.
    pub dropped: u64,
    /// Delivered to consumers that settle.
    pub delivered: u64,
    /// Delivered to consumers that do not.
    pub delivered_auto_ack: u64,
    /// Got by `basic.get`, to be settled.
    pub got: u64,
    /// Got by `basic.get`, settled at once.
    pub got_auto_ack: u64,
    /// `basic.get` on an empty queue.
    pub got_empty: u64,
    /// Delivered or got again.
    pub redelivered: u64,
    /// Accepted by consumers.
    pub acknowledged: u64,
}

impl MessageCounters {
    /// Adds those of another.
    pub const fn add(&mut self, c: &Self) {
        self.published += c.published;
        self.published_confirm += c.published_confirm;
        self.confirmed += c.confirmed;
        self.routed += c.routed;
        self.returned += c.returned;
        self.dropped += c.dropped;
        self.delivered += c.delivered;
        self.delivered_auto_ack += c.delivered_auto_ack;
        self.got += c.got;
        self.got_auto_ack += c.got_auto_ack;
        self.got_empty += c.got_empty;
        self.redelivered += c.redelivered;
        self.acknowledged += c.acknowledged;
    }
}

/// Counters of the whole node.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // Each counts what its name says since the node's start.
pub struct BrokerStats {
    /// By type of the queue that they passed: classic first, then quorum.
    pub messages: Vec<(&'static str, MessageCounters)>,
    /// Dead-lettered messages, by type of their queue and by reason (`expired`, `rejected`,
    /// `maxlen`, `delivery_limit`).
    pub dead_lettered: Vec<(&'static str, &'static str, u64)>,
    pub connections_opened: u64,
    pub connections_closed: u64,
    pub channels_opened: u64,
    pub channels_closed: u64,
    pub queues_declared: u64,
    pub queues_created: u64,
    pub queues_deleted: u64,
    pub logins_succeeded: u64,
    pub logins_failed: u64,
    /// Logins over the stream protocol.
    pub stream_logins_succeeded: u64,
    pub stream_logins_failed: u64,
    /// Logins, over whatever protocol, that were held because of many wrong passwords.
    pub logins_held: u64,
    /// Open connections.
    pub connections: u64,
    /// Open channels.
    pub channels: u64,
    /// Consumers.
    pub consumers: u64,
    /// Channels that have published.
    pub publishers: u64,
    /// Replicas here that take no part: their logs are damaged, or lack what they acknowledged.
    pub replicas_quarantined: usize,
    pub messages_refused: u64,
    /// Replicas on other nodes of queues that are led here, which are up and do not follow.
    pub replicas_stuck: usize,
    /// Deliveries that leaders on other nodes left to this node's replicas: those that had the
    /// message, bytes of these messages, and those that had to ask for it.
    pub replica_deliveries: u64,
    pub replica_delivered_bytes: u64,
    pub replica_fetches: u64,
    /// Bodies of messages that came over AMQP, by size: how many were within each of
    /// [`MESSAGE_SIZES`] and none before, and at last how many were larger than all.
    pub message_sizes: [u64; MESSAGE_SIZES.len() + 1],
    /// Bytes of these bodies.
    pub message_bytes: u64,
    /// From the read of a publish to its confirm, over AMQP.
    pub confirms: LatencyCounts,
    /// The same over the stream protocol.
    pub stream_confirms: LatencyCounts,
    /// From a delivery to its acknowledgement.
    pub acknowledgements: LatencyCounts,
    /// From when a message was taken to its first delivery.
    pub waits: LatencyCounts,
    /// Spans of traced messages that the collector took, and that were dropped.
    pub trace_spans_exported: u64,
    pub trace_spans_dropped: u64,
    /// Clients of the stream protocol.
    pub stream: StreamProtocolStats,
}

impl BrokerStats {
    /// The counters of all types together.
    #[must_use]
    pub fn all_messages(&self) -> MessageCounters {
        let mut sum = MessageCounters::default();
        for (_, counters) in &self.messages {
            sum.add(counters);
        }
        sum
    }
}

/// A queue of which something cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedQueue {
    /// Its virtual host.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// What cannot be read, and what to do.
    pub what: String,
}

/// One replica of a queue, as its own node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStats {
    /// `leader`, `follower` or `candidate`; `quarantined` if it takes no part, for its logs are
    /// damaged or lack what it had acknowledged.
    pub role: &'static str,
    /// `voter`, `promotable` (it will be one), `outdated` where the node's data folder is an older
    /// copy of itself and does not vote, or `unknown` where it does not belong to the group.
    pub membership: &'static str,
    /// Of a leader: nodes whose members are up and do not follow.
    pub stuck: Vec<NodeId>,
    /// The latest term that it knows.
    pub term: u64,
    /// Its last entry, durable or not.
    pub last_index: u64,
    /// Up to where its log is durable.
    pub written: u64,
    /// Up to where it has applied.
    pub applied: u64,
    /// Up to where it knows the log to be committed.
    pub committed: u64,
    /// Milliseconds from proposal to commit of the entry that was committed last, where it leads.
    pub commit_ms: u64,
    /// What it has done.
    pub counts: RaftCounts,
}

/// A queue, as its shard knows it. What was declared is in the catalogue, under the same id.
#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    /// Which queue.
    pub id: QueueId,
    /// Whether it is a replica that does not lead: then these figures are what its log has, and
    /// the leader knows better.
    pub follows: bool,
    /// Messages that wait.
    pub ready: u64,
    /// Of a quorum queue that is asked for by name or shown in a list: how many messages wait of
    /// each priority of which any do, and how many of all somebody had before.
    pub waiting: Option<(Vec<(u8, u64)>, u64)>,
    /// Messages that were delivered and are not settled.
    pub unacknowledged: u64,
    /// Bytes of the bodies of messages that wait.
    pub ready_bytes: u64,
    /// Bytes of the bodies of unsettled messages.
    pub unacknowledged_bytes: u64,
    /// Messages of a quorum queue that stay until a queue of its dead-letter exchange has them.
    pub dead_letters: u64,
    /// Bytes of their bodies.
    pub dead_letter_bytes: u64,
    /// Messages whose body is in memory.
    pub in_memory: u64,
    /// Bytes of these bodies.
    pub in_memory_bytes: u64,
    /// Persistent messages.
    pub persistent: u64,
    /// Bytes of their bodies.
    pub persistent_bytes: u64,
    /// Memory that the queue itself takes, in bytes.
    pub memory_bytes: u64,
    /// Consumers.
    pub consumers: u64,
    /// Part of the time in which the queue could deliver at once, 0 to 1.
    pub consumer_capacity: f64,
    /// The `timestamp` property of the first message that waits, in seconds since the Unix epoch.
    pub head_timestamp: Option<u64>,
    /// When the ready message was taken that has waited longest, in milliseconds since the Unix
    /// epoch; none where none waits, or that is on disk alone and nobody has looked at it.
    pub oldest_ms: Option<u64>,
    /// Since when it has been idle, in milliseconds since the Unix epoch; none where it is not.
    pub idle_since_ms: Option<u64>,
    /// Tag of the exclusive consumer.
    pub exclusive_consumer_tag: Option<String>,
    /// Tag of the consumer that is served, with single active consumer.
    pub single_active_consumer_tag: Option<String>,
    /// The connection that owns it, where it is exclusive.
    pub owner: Option<ConnectionId>,
    /// Whether a part of its messages cannot be read any more: it is quarantined.
    pub damaged: bool,
    /// Where it stands as a stream, if it is one.
    pub stream: Option<StreamStanding>,
    /// What happened to its messages.
    pub messages: MessageCounters,
}

impl QueueStats {
    /// All messages that it has.
    #[must_use]
    pub const fn depth(&self) -> u64 {
        self.ready + self.unacknowledged + self.dead_letters
    }

    /// Seconds for which the message has waited that has waited longest. As clocks of nodes differ
    /// it may come from later than now: that is no time.
    #[must_use]
    pub fn oldest_age_seconds(&self, now_ms: u64) -> Option<f64> {
        let age_ms = now_ms.saturating_sub(self.oldest_ms?);
        Some(age_ms as f64 / 1e3)
    }

    /// Bytes of their bodies.
    #[must_use]
    pub const fn depth_bytes(&self) -> u64 {
        self.ready_bytes + self.unacknowledged_bytes + self.dead_letter_bytes
    }
}

/// A connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionStats {
    /// Which connection.
    pub id: ConnectionId,
    /// What it speaks: `AMQP 0-9-1` or `stream`.
    pub protocol: &'static str,
    /// Its name: `peer:port -> host:port`.
    pub name: String,
    /// The name that the client gave it (`connection_name`).
    pub user_provided_name: Option<String>,
    /// User.
    pub user: String,
    /// Virtual host.
    pub vhost: String,
    /// Our end.
    pub local: Option<SocketAddr>,
    /// Their end.
    pub peer: Option<SocketAddr>,
    /// TLS, where it is spoken: version, cipher, subject of the peer's certificate.
    pub tls: Option<(String, String, String)>,
    /// SASL mechanism.
    pub mechanism: String,
    /// `running`, `blocked` (an alarm), `blocking`, `flow`, `closing`...
    pub state: &'static str,
    /// Open channels.
    pub channels: u64,
    /// Channels that it may open.
    pub channels_max: u16,
    /// Bytes of a frame.
    pub frame_bytes_max: u32,
    /// Heartbeat in seconds.
    pub heartbeat_seconds: u16,
    /// What the client says of itself.
    pub client_properties: FieldTable,
    /// When it logged in, milliseconds since the Unix epoch.
    pub connected_at_ms: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Reads from the socket.
    pub received_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Writes to the socket.
    pub sent_packets: u64,
    /// Bytes that wait to be sent.
    pub pending_bytes: u64,
}

/// A channel.
#[derive(Clone, Debug, Default)]
pub struct ChannelStats {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its number.
    pub number: u16,
    /// Consumers.
    pub consumers: u64,
    /// Deliveries that are not settled.
    pub unacknowledged: u64,
    /// Publishes that are not confirmed.
    pub unconfirmed: u64,
    /// Publishes of an open transaction.
    pub uncommitted: u64,
    /// Settles of an open transaction.
    pub uncommitted_settles: u64,
    /// Prefetch that new consumers get.
    pub prefetch: u16,
    /// Prefetch of the whole channel.
    pub global_prefetch: u16,
    /// Whether it is in confirm mode.
    pub confirm: bool,
    /// Whether it is transactional.
    pub transactional: bool,
    /// `running`, `flow`, `idle`...
    pub state: &'static str,
    /// Since when it has been idle, in milliseconds since the Unix epoch; none where it is not.
    pub idle_since_ms: Option<u64>,
    /// What happened to its messages.
    pub messages: MessageCounters,
}

/// A consumer.
#[derive(Clone, Debug, Default)]
pub struct ConsumerStats {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its channel.
    pub channel: u16,
    /// Its queue.
    pub queue: QueueId,
    /// Its tag.
    pub tag: String,
    /// Whether it settles.
    pub ack_required: bool,
    /// Whether it is exclusive.
    pub exclusive: bool,
    /// How many messages it may hold.
    pub prefetch: u16,
    /// Whether it is the single active consumer, where its queue has one.
    pub single_active: Option<bool>,
    /// Messages that it has and has not settled.
    pub unacknowledged: u64,
    /// When it was given the oldest of them, in milliseconds since the Unix epoch; nothing where it
    /// has none, or that is not known.
    pub oldest_unacknowledged_ms: Option<u64>,
    /// Arguments.
    pub arguments: FieldTable,
    /// Messages that it was given.
    pub delivered: u64,
    /// Those of them that had been delivered before.
    pub redelivered: u64,
    /// Messages that it has acknowledged.
    pub acknowledged: u64,
}

/// A change to what is declared, as the AMQP method of the same name makes it. Permissions of the
/// actor are the node's affair.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are those of the AMQP methods of the same names.
pub enum Topology {
    DeclareExchange {
        name: String,
        kind: String,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: FieldTable,
    },
    DeleteExchange {
        name: String,
        if_unused: bool,
    },
    DeclareQueue {
        name: String,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: FieldTable,
    },
    DeleteQueue {
        name: String,
        if_unused: bool,
        if_empty: bool,
    },
    PurgeQueue {
        name: String,
    },
    Bind(Binding),
    Unbind(Binding),
}

/// A binding, in the words of AMQP.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The exchange that messages come from.
    pub source: String,
    /// What they go to.
    pub destination: String,
    /// Whether that is a queue (and not an exchange).
    pub to_queue: bool,
    /// Routing key.
    pub routing_key: String,
    /// Arguments.
    pub arguments: FieldTable,
}

/// What became of a change to what is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Whether something was created that was not there: by this change, and no other one.
    pub created: bool,
    /// The queue that was declared.
    pub queue: Option<QueueId>,
    /// How many messages went, of a purge or a deletion.
    pub messages: u64,
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// Exchange.
    pub exchange: String,
    /// Routing key.
    pub routing_key: String,
    /// Properties by RabbitMQ's names (`content_type`, `headers`, `delivery_mode`...).
    pub properties: FieldTable,
    /// Body.
    pub payload: Vec<u8>,
}

/// What became of a message that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// There is no queue for it.
    Nowhere,
    /// A queue that it goes to does not take it: it is full, and refuses publishes.
    Refused,
    /// All queues that it goes to have it.
    ByAll,
}

/// How messages are to be got from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// How many at most.
    pub count: u32,
    /// Bytes of each body that are wanted.
    pub shown: usize,
    /// No further one is got when so many bytes have been.
    pub bytes: usize,
    /// What becomes of them.
    pub then: AfterGet,
}

/// What becomes of a message that was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterGet {
    /// It is accepted: it is gone.
    Accept,
    /// It is requeued as a consumer's `nack` would, marked redelivered.
    Requeue,
    /// It is rejected: dropped or dead-lettered.
    Reject,
}

/// A message that was got.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    /// The exchange it was published to.
    pub exchange: String,
    /// Its routing key.
    pub routing_key: String,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Messages that wait behind it.
    pub remaining: u64,
    /// Properties by RabbitMQ's names.
    pub properties: FieldTable,
    /// Body, or as much of it as was wanted.
    pub payload: Vec<u8>,
    /// Bytes of the whole body.
    pub body_bytes: usize,
}

/// A message that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct LookedAt {
    /// What tells it from others: the same for the same exchange, key, properties and body.
    pub fingerprint: u64,
    /// When the broker took it, in milliseconds since the Unix epoch.
    pub taken_ms: u64,
    /// The message.
    pub message: Got,
}

/// A level of memory or of disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// A part (or a multiple) of the machine's memory.
    Relative(f64),
    /// Bytes.
    Absolute(u64),
}

/// What became of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginVerdict {
    /// The user is let in.
    Right,
    /// Wrong password, no such user, or not from there.
    Wrong,
    /// Too many others wait.
    Busy,
}

/// Logins by name and password over HTTP: each request that brings a password is one.
#[derive(Debug, Default)]
pub(crate) struct LoginTally {
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// A message that is kept back by a delayed exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayedMessage {
    /// When it is due, in milliseconds since the Unix epoch.
    pub due_ms: u64,
    /// Its place among those that its node keeps back.
    pub index: u64,
    /// Its virtual host.
    pub vhost: String,
    /// The message.
    pub message: Got,
}

/// Who waits to hear what became of a login.
#[derive(Debug)]
pub struct LoginAnswer {
    sender: oneshot::Sender<LoginVerdict>,
    tally: Arc<LoginTally>,
}

impl LoginAnswer {
    /// One who waits, and where the answer comes out. What became of it is counted also if its
    /// client has hung up by then.
    pub(crate) fn new(tally: Arc<LoginTally>) -> (Self, oneshot::Receiver<LoginVerdict>) {
        let (sender, answered) = oneshot::channel();
        (Self { sender, tally }, answered)
    }

    /// Whether anybody still waits: a client that hung up does not.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Tells what became of it.
    pub fn tell(self, verdict: LoginVerdict) {
        match verdict {
            LoginVerdict::Right => self.tally.succeeded.fetch_add(1, Ordering::Relaxed),
            LoginVerdict::Wrong => self.tally.failed.fetch_add(1, Ordering::Relaxed),
            LoginVerdict::Busy => 0,
        };
        // Whoever asked may have gone.
        let _ = self.sender.send(verdict);
    }
}

/// A connection with what is in it.
#[derive(Clone, Debug, Default)]
pub struct ConnectionContent {
    /// The connection.
    pub connection: ConnectionStats,
    /// Its channels, in no order.
    pub channels: Vec<ChannelStats>,
    /// Its consumers, in no order.
    pub consumers: Vec<ConsumerStats>,
    /// What its channels have published, by channel and exchange.
    pub published: Vec<PublishedStats>,
}

/// Waits for what other nodes answer; who drops it does not.
pub type Answers = Box<dyn FnOnce() -> Vec<(NodeId, Vec<u8>)> + Send>;

/// The part of a node that has nothing to do with the catalogue.
pub trait Running: Send + Sync + 'static {
    /// Whether this user may log in: password, loopback. The check of a slow password waits for its
    /// turn and is told from another thread; it is not run if nobody waits for it by then.
    fn authenticate(&self, login: Login<'_>, answer: LoginAnswer);
    /// Whether somebody has logged in from this address of late, over whatever protocol.
    fn is_familiar(&self, _address: IpAddr) -> bool {
        false
    }
    /// What the node is and how it is.
    fn node_stats(&self) -> NodeStats;
    /// Its name, which takes no look at how it is.
    fn name(&self) -> String {
        self.node_stats().name
    }
    /// Counters of the whole node.
    fn broker_stats(&self) -> BrokerStats;
    /// Where the node's memory is.
    fn memory(&self) -> MemoryStats {
        MemoryStats::default()
    }
    /// What its clients have open of users and virtual hosts that have a limit on it, as another
    /// node of its kind reads it.
    fn limited_counts(&self) -> Value {
        Value::Null
    }
    /// Says of each queue that is led here its figures, in no order, but for tags of consumers. Few
    /// are copied at a time.
    fn each_led(&self, see: &mut dyn FnMut(QueueStats));
    /// One queue; none where it is gone.
    fn queue(&self, queue: QueueId) -> Option<QueueStats>;
    /// Those of these queues that are here, in no order.
    fn queues_of(&self, queues: &[QueueId]) -> Vec<QueueStats> {
        queues.iter().filter_map(|id| self.queue(*id)).collect()
    }
    /// The queues in which something happened since this was asked last, each with its virtual
    /// host, in no order; no more than are sampled. Who samples asks.
    fn active_queues(&self) -> Vec<(String, QueueStats)> {
        Vec::new()
    }
    /// Says of each queue that this node leads and that is not empty its virtual host, and how many
    /// messages it has: all, those that wait, those that are not settled.
    fn depths(&self, _see: &mut dyn FnMut(&str, [u64; 3])) {}
    /// Shows each connection that has logged in, with what is in it, in no order. No thread of the
    /// node works for many of them at once, and none is held when it has been shown.
    fn each_connection(&self, see: &mut dyn FnMut(ConnectionContent));
    /// Those of these connections that are there, in no order.
    fn connections_of(&self, ids: &[ConnectionId]) -> Vec<ConnectionContent>;
    /// The connection of that name with what is in it; none where it has not logged in or is gone.
    fn connection(&self, name: &str) -> Option<ConnectionContent>;
    /// What came to queues from exchanges, in no order. What connections have gathered is in it
    /// once they have been looked at.
    fn flows(&self, _of: FlowsOf<'_>) -> Vec<FlowStats> {
        Vec::new()
    }
    /// The consumers of a queue, each with its connection, in no order.
    fn consumers_of(&self, queue: QueueId) -> Vec<(ConnectionStats, ConsumerStats)>;
    /// All publishers of the stream protocol, in no order.
    fn stream_publishers(&self) -> Vec<StreamPublisherStats> {
        Vec::new()
    }
    /// All subscriptions of the stream protocol, in no order.
    fn stream_consumers(&self) -> Vec<StreamConsumerStats> {
        Vec::new()
    }
    /// What a stream keeps by name; none if it is not here.
    fn stream_tracking(&self, _stream: QueueId) -> Option<StreamTracking> {
        None
    }
    /// Stores an offset in a stream for a consumer's name; false if the stream is not here, or the
    /// name is none of a consumer.
    fn store_stream_offset(&self, _stream: QueueId, _name: &str, _offset: u64) -> bool {
        false
    }
    /// The groups of streams whose offsets this node keeps: of all that have any, or of one stream,
    /// whether it has any or not.
    fn stream_groups(&self, _only: Option<QueueId>) -> Vec<StreamGroups> {
        Vec::new()
    }
    /// Stores an offset for a group, and answers which. None where the stream's offsets are not
    /// kept here.
    ///
    /// # Errors
    /// Why it cannot be, for an operator.
    fn set_stream_group(
        &self,
        _stream: QueueId,
        _name: &str,
        _to: StreamStart,
    ) -> Option<Result<u64, String>> {
        None
    }
    /// Has the consumers of a group that are connected to this node go on behind an offset, which
    /// was stored.
    fn move_stream_group(&self, _stream: &Queue, _name: &str, _offset: u64) {}
    /// Forgets the offset of a group: whether there was one. None where the stream's offsets are
    /// not kept here.
    fn forget_stream_group(&self, _stream: QueueId, _name: &str) -> Option<bool> {
        None
    }
    /// Shows messages of a stream, and leaves all as it is; none where nothing of it is here.
    fn browse_stream(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _stream: &str,
        _browse: &Browse,
    ) -> Result<Option<Browsed>, ProtocolError> {
        Ok(None)
    }
    /// Gives a stream that this node leads a replica on another node, or takes that one away; false
    /// where this node does not lead it.
    ///
    /// # Errors
    /// Why nothing changes, for an operator.
    fn change_stream_replica(
        &self,
        _stream: QueueId,
        _node: &str,
        _adds: bool,
    ) -> Result<bool, String> {
        Ok(false)
    }
    /// Closes a connection with 320 and this reason; false where it is gone.
    fn close_connection(&self, connection: ConnectionId, reason: &str) -> bool;
    /// Changes what is declared; durable when it returns.
    fn change(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        change: Topology,
    ) -> Result<Changed, ProtocolError>;
    /// Deletes a queue, whatever it holds, if it is this one: another one that has come to its name
    /// stays. Durable when it returns.
    fn delete_this_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        name: &str,
        queue: QueueId,
    ) -> Result<(), ProtocolError>;
    /// Whether the actor has this permission on queues of that name.
    ///
    /// # Errors
    /// If not, as the actor is told.
    fn permit_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        access: Access,
        queue: &str,
    ) -> Result<(), ProtocolError>;
    /// Publishes, and says what became of the message; durable when it returns.
    fn publish(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        message: Publish,
    ) -> Result<Taken, ProtocolError>;
    /// Gets messages from a queue.
    fn get(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        get: Get,
    ) -> Result<Vec<Got>, ProtocolError>;
    /// Looks at the ready message of a queue that has so many before it, and leaves it there.
    fn peek(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _before: u64,
    ) -> Result<Option<Got>, ProtocolError> {
        Ok(None)
    }
    /// Looks at ready messages of a queue, from the one on that has so many before it, and leaves
    /// them there: so many, fewer where they are large or no more are there.
    ///
    /// # Errors
    /// If there is no such queue, the actor may not read it, it has no leader, or
    /// ([`leveret_types::ReplyCode::PreconditionFailed`]) the first of them cannot be read.
    fn look(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _before: u64,
        _count: usize,
    ) -> Result<Vec<LookedAt>, ProtocolError> {
        Ok(Vec::new())
    }
    /// Looks at messages of a queue that clients hold, and leaves them there: those of one holder
    /// after those of another, in the order of the queue; fewer than are wanted where they are
    /// large. None where this node does not lead the queue.
    ///
    /// # Errors
    /// If there is no such queue, or the actor may not read it.
    fn held_messages(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _look: &HeldLook,
    ) -> Result<Option<Vec<HeldMessage>>, ProtocolError> {
        Ok(None)
    }
    /// Who of this node's clients holds which of these messages.
    fn holders(&self, _held: &[HeldAt]) -> Vec<Holder> {
        Vec::new()
    }
    /// The consumers of this tag that clients of this node have at a queue, by the numbers under
    /// which they hold messages.
    fn consumers_tagged(&self, _queue: QueueId, _tag: &str) -> Vec<u64> {
        Vec::new()
    }
    /// Begins to move messages of a queue.
    ///
    /// # Errors
    /// If there is no such queue, the actor may not do so, or too many moves run.
    fn begin_move(
        &self,
        _actor: Actor<'_>,
        _vhost: &str,
        _queue: &str,
        _wanted: MoveMessages,
    ) -> Result<Move, ProtocolError> {
        Ok(Move::default())
    }
    /// The moves that run on this node, or did lately, oldest first.
    fn moves(&self) -> Vec<Move> {
        Vec::new()
    }
    /// Stops a move behind the messages that are under way; whether this node knows it.
    fn stop_move(&self, _number: u64) -> bool {
        false
    }
    /// How many messages delayed exchanges of this node keep back, and some of them by when they
    /// are due: the first from that moment and place on.
    fn delayed(&self, _from: (u64, u64), _most: usize) -> (u64, Vec<DelayedMessage>) {
        (0, Vec::new())
    }
    /// Drops such a message; whether it was there. Durable when it returns.
    ///
    /// # Errors
    /// If the log does not take it.
    fn cancel_delayed(&self, _due_ms: u64, _index: u64) -> Result<bool, ProtocolError> {
        Ok(false)
    }
    /// What this node has on its disk.
    fn disk(&self) -> DiskUse {
        DiskUse::default()
    }
    /// The configuration in force, key by key; secrets are hidden.
    fn configuration(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Replicated queues that have no leader, as virtual host and name.
    fn leaderless_queues(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Replicated queues that would lose their majority with this node.
    fn critical_queues(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// How the replica of a queue stands that is here; none if there is none.
    fn replica(&self, _queue: QueueId) -> Option<ReplicaStats> {
        None
    }
    /// The queues of which something cannot be read on this node.
    fn damaged_queues(&self) -> Vec<DamagedQueue> {
        Vec::new()
    }
    /// The node that leads a replicated queue, as far as is known here.
    fn queue_leader(&self, _queue: QueueId) -> Option<NodeId> {
        None
    }
    /// Whether a node of the cluster is up, seen from here.
    fn is_up(&self, _node: NodeId) -> bool {
        true
    }
    /// The cluster; none of a node alone.
    fn cluster(&self) -> Option<ClusterView> {
        None
    }
    /// Does something to the cluster; answers how many queues it concerns.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn change_cluster(&self, _change: &ClusterChange) -> Result<usize, String> {
        Err("this node is in no cluster".to_owned())
    }
    /// Asks the other nodes of the cluster that are up, each of which answers as
    /// [`answer`](crate::answers::answer) does; who does not in time is left out.
    fn ask_peers(&self, _question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        Vec::new()
    }
    /// The same of some of the nodes.
    fn ask_nodes(&self, _nodes: &[NodeId], _question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        Vec::new()
    }
    /// Asks the other nodes, or some of them, and does not wait: who wants the answers does.
    fn begin_asking(&self, only: Option<&[NodeId]>, question: &Question) -> Answers {
        let answers = match only {
            None => self.ask_peers(question),
            Some(nodes) => self.ask_nodes(nodes, question),
        };
        Box::new(move || answers)
    }
    /// How many nodes the cluster has, and how many it is to have.
    fn cluster_size(&self) -> (usize, usize) {
        (1, 1)
    }
    /// Sets the memory above which publishers are held back, until the next start.
    fn set_memory_watermark(&self, level: Level);
    /// Sets the free space below which publishers are held back, until the next start.
    fn set_disk_limit(&self, level: Level);
    /// Takes clients, or closes all connections and takes none.
    fn set_serving(&self, serving: bool);
    /// Lets clients connect, or no new ones; connections that are open go on.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn set_listening(&self, _listen: bool) -> Result<(), String> {
        Err("this node has no listeners that can be suspended".to_owned())
    }
    /// Has the log take lines of this level (`debug`, `info`, `warning`, `error`, `none`) and
    /// graver ones, until the next start.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn set_log_level(&self, _level: &str) -> Result<(), String> {
        Err("this node has no log".to_owned())
    }
    /// Puts the log file away, or opens it anew where somebody has moved it.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn rotate_logs(&self) -> Result<(), String> {
        Err("this node has no log file".to_owned())
    }

    /// Writes to the log for good that somebody has changed something, or, with the reason, that
    /// it was refused. For what [`Running::change`] and the catalogue's directory do not write
    /// down.
    fn note_change(&self, _by: &str, _operation: &str, _object: &str, _refused: Option<&str>) {}

    /// Begins to stop the node; returns at once.
    fn stop(&self);
}
