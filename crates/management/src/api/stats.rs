//! What a node counts and says of itself: the whole node, its queues, its clients.

use crate::streams::stats::{StreamProtocolStats, StreamStanding};
use leveret_types::{
    ConnectionId, FieldTable, LatencyCounts, MESSAGE_SIZES, NodeId, QueueId, RaftCounts,
};
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Its memory.
    pub memory: MemoryUse,
    /// The disk where the data is.
    pub disk: DiskSpace,
    /// File descriptors.
    pub descriptors: Descriptors,
    /// Processor time used by the process, in milliseconds.
    pub cpu_ms: u64,
    /// Its files.
    pub files: NodeFiles,
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

/// The memory that a node takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// What is resident.
    pub used_bytes: u64,
    /// Above this publishers are held back.
    pub limit_bytes: u64,
    /// What the machine has.
    pub total_bytes: u64,
    /// Whether publishers are held back.
    pub alarm: bool,
}

/// Space on the disk where a node's data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// What is free.
    pub free_bytes: u64,
    /// Below this publishers are held back.
    pub limit_bytes: u64,
    /// Whether publishers are held back.
    pub alarm: bool,
}

/// A node's file descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// Those in use.
    pub used: u64,
    /// How many the process may use.
    pub max: u64,
    /// Clients' sockets among those in use.
    pub sockets: u64,
}

/// Where a node's files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFiles {
    /// Its data.
    pub data: PathBuf,
    /// Where it writes logs; empty where only to the console.
    pub logs: Vec<PathBuf>,
    /// What its configuration was read from.
    pub config: Vec<PathBuf>,
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
    /// Batches that the write-ahead log has taken, their bytes, and files of it that were begun.
    pub log_batches: u64,
    pub log_bytes: u64,
    pub log_files: u64,
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
pub struct BrokerStats {
    /// By type of the queue that they passed: classic first, then quorum.
    pub messages: Vec<(&'static str, MessageCounters)>,
    /// Dead-lettered messages, by type of their queue and by reason (`expired`, `rejected`,
    /// `maxlen`, `delivery_limit`).
    pub dead_lettered: Vec<(&'static str, &'static str, u64)>,
    /// Messages that a queue has refused, whose publishers were told so.
    pub messages_refused: u64,
    /// Bodies of messages that came over AMQP, by size: how many were within each of
    /// [`MESSAGE_SIZES`] and none before, and at last how many were larger than all.
    pub message_sizes: [u64; MESSAGE_SIZES.len() + 1],
    /// Bytes of these bodies.
    pub message_bytes: u64,
    /// What came and went.
    pub churn: Churn,
    /// Who logged in, or tried to.
    pub logins: LoginCounts,
    /// What there is now.
    pub open: OpenCounts,
    /// Replicas of queues, here or led from here.
    pub replicas: ReplicaSums,
    /// How long things took.
    pub latencies: Latencies,
    /// What became of the spans of traced messages.
    pub spans: SpanCounts,
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

/// What came and went since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // Each counts what its name says.
pub struct Churn {
    pub connections_opened: u64,
    pub connections_closed: u64,
    pub channels_opened: u64,
    pub channels_closed: u64,
    pub queues_declared: u64,
    pub queues_created: u64,
    pub queues_deleted: u64,
}

/// Logins since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// Over AMQP, that succeeded and that failed.
    pub amqp: (u64, u64),
    /// The same over the stream protocol.
    pub stream: (u64, u64),
    /// Those, over whatever protocol, that were held because of many wrong passwords.
    pub held: u64,
}

/// What clients have open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // Each counts what its name says.
pub struct OpenCounts {
    pub connections: u64,
    pub channels: u64,
    pub consumers: u64,
    /// Channels that have published.
    pub publishers: u64,
}

/// Replicas of queues, as their nodes and their leaders see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSums {
    /// Replicas here that take no part: their logs are damaged, or lack what they acknowledged.
    pub quarantined: usize,
    /// Replicas on other nodes of queues that are led here, which are up and do not follow.
    pub stuck: usize,
    /// Deliveries that leaders on other nodes left to this node's replicas, which had the message.
    pub deliveries: u64,
    /// Bytes of these messages.
    pub delivered_bytes: u64,
    /// Those for which a replica had to ask for the message.
    pub fetches: u64,
}

/// How long things took since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// From the read of a publish to its confirm, over AMQP.
    pub confirms: LatencyCounts,
    /// The same over the stream protocol.
    pub stream_confirms: LatencyCounts,
    /// From a delivery to its acknowledgement.
    pub acknowledgements: LatencyCounts,
    /// From when a message was taken to its first delivery.
    pub waits: LatencyCounts,
}

/// Spans of traced messages since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Those that the collector took.
    pub exported: u64,
    /// Those that were dropped.
    pub dropped: u64,
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
    /// What names it on its connection.
    pub id: u64,
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
