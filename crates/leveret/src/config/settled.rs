//! The configuration that holds: what each choice is called, and in which unit. A flat list of
//! types without a way to read them, so that whoever uses a choice need not see where it comes
//! from.

use super::rotation::Schedule;
use crate::trust::Trust;
use leveret_auth::{Credentials, Mechanism};
use leveret_metadata::MembershipConfig;
use leveret_node::certificate::NameFrom;
use leveret_types::QueueKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The configuration of a node: all of it, valid, with every choice made.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of this node, such as `leveret@host`.
    pub node_name: String,
    /// Name of the cluster that it is.
    pub cluster_name: String,
    /// What an operator has marked the cluster with, and this node: names and values.
    pub tags: [Vec<(String, String)>; 2],
    /// Files in which anything of it was typed.
    pub files: Vec<PathBuf>,
    /// Where things are kept.
    pub folders: Folders,
    /// What is listened on.
    pub listeners: Listeners,
    /// TLS of the AMQP listeners; none where no listener speaks it.
    pub tls: Option<Tls>,
    /// How clients log in.
    pub login: Login,
    /// What an empty node begins with.
    pub first_boot: FirstBoot,
    /// Bounds.
    pub limits: Limits,
    /// Memory above which publishers are held back.
    pub memory_watermark: MemoryWatermark,
    /// Memory of the machine in bytes where the operator says it; none to ask the kernel.
    pub memory_total_bytes: Option<u64>,
    /// Free disk below which publishers are held back.
    pub disk_limit: DiskLimit,
    /// The storage engine.
    pub storage: Storage,
    /// The cluster that the node is part of; none for a node alone.
    pub cluster: Option<Cluster>,
    /// How many members the groups of replicated queues have.
    pub membership: MembershipConfig,
    /// Whether declaring a quorum queue that exists may ask for a classic one.
    pub relaxed_redeclaration: bool,
    /// Threads.
    pub threads: Threads,
    /// Logs.
    pub log: Log,
    /// What the stream protocol says.
    pub stream: Stream,
    /// Names by which browsers reach the HTTP API, beside addresses.
    pub management_hosts: Vec<String>,
    /// What stands before every path of the HTTP API; empty, or a slash and more.
    pub management_prefix: String,
    /// Origins whose pages may call the HTTP API; `*` is all.
    pub management_origins: Vec<String>,
    /// Seconds for which a browser need not ask again whether they may.
    pub management_cors_seconds: u64,
    /// Minutes that a login on the page lasts; 0: as long as its tab is open.
    pub management_session_minutes: u64,
    /// Requests that each user and each address may send to the HTTP API in a second; 0: no bound.
    pub management_requests_per_second: u64,
    /// Whether samples of figures are taken.
    pub samples: bool,
    /// Where spans of traced messages go; none where nothing is traced.
    pub traces: Option<Traces>,
    /// Whether logins are counted by where they come from.
    pub tracks_login_sources: bool,
    /// Whether `/metrics` shows each object.
    pub metrics_per_object: bool,
    /// Milliseconds within which a shutdown drains connections.
    pub shutdown_timeout_ms: u64,
}

/// Where spans of traced messages go.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// Host and port of a collector that takes OTLP over HTTP.
    pub authority: String,
    /// The path that they are posted to.
    pub path: String,
    /// Whose word is taken for who the collector is, where it speaks TLS.
    pub tls: Option<Trust>,
    /// The part of the traces that is sampled, above 0 and up to 1.
    pub ratio: f64,
}

/// Where things are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The folder of all others, unless these are elsewhere; holds the node's identity and the
    /// command line's token.
    pub root: PathBuf,
    /// What the node knows (identity, catalogue, checkpoints), and segments of classic queues.
    pub data: PathBuf,
    /// Segments of quorum queues, and streams.
    pub segment: PathBuf,
    /// The write-ahead log.
    pub wal: PathBuf,
    /// Log files.
    pub logs: PathBuf,
}

impl Folders {
    /// All of them.
    pub fn all(&self) -> [&Path; 5] {
        [&self.root, &self.data, &self.segment, &self.wal, &self.logs].map(PathBuf::as_path)
    }

    /// Those of them that the storage engine works with.
    pub fn store(&self) -> leveret_storage::Folders {
        leveret_storage::Folders {
            data: self.data.clone(),
            segment: self.segment.clone(),
            wal: self.wal.clone(),
            logs: self.logs.clone(),
        }
    }
}

/// What is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// Plain AMQP.
    pub amqp: Vec<SocketAddr>,
    /// AMQP with TLS.
    pub amqps: Vec<SocketAddr>,
    /// For the stream protocol.
    pub stream: Vec<SocketAddr>,
    /// Whether nobody chose these: where they are taken, the node starts without them.
    pub stream_is_default: bool,
    /// For the stream protocol over TLS.
    pub stream_tls: Vec<SocketAddr>,
    /// The HTTP API; none where it is off.
    pub http: Option<SocketAddr>,
    /// The HTTP API with TLS.
    pub https: Option<(SocketAddr, Tls)>,
    /// Metrics; none where they are off.
    pub metrics: Option<SocketAddr>,
    /// Metrics with TLS.
    pub metrics_tls: Option<(SocketAddr, Tls)>,
}

/// TLS of a listener, or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the server's certificate chain.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM file of the authorities of clients' certificates; none where these are not looked at.
    pub client_authorities: Option<PathBuf>,
    /// Whether a client must show a certificate.
    pub client_certificate_required: bool,
    /// Certificates that may lie between a client's and the authority's.
    pub depth: usize,
    /// Protocol versions spoken; never empty.
    pub versions: Vec<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    V12,
    /// 1.3
    V13,
}

impl TlsVersion {
    /// RabbitMQ's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V12 => "tlsv1.2",
            Self::V13 => "tlsv1.3",
        }
    }
}

/// How clients log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Mechanisms offered on every listener, in the order in which they are offered. EXTERNAL only
    /// where TLS is.
    pub mechanisms: Vec<Mechanism>,
    /// As whom those log in who do not say who they are; `ANONYMOUS` is not offered where it is
    /// none.
    pub anonymous: Option<Credentials>,
    /// Users that may log in from this machine only.
    pub loopback_users: Vec<String>,
    /// How new passwords are hashed.
    pub hashing: PasswordHashing,
    /// What of a client's certificate is its user name.
    pub certificate_name: NameFrom,
}

/// How passwords are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the algorithms'.
pub enum PasswordHashing {
    Sha256,
    Sha512,
    Md5,
    Argon2id,
}

/// What an empty node begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstBoot {
    /// Name of the first user.
    pub user: String,
    /// Its password.
    pub password: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The first virtual host.
    pub vhost: String,
    /// The user's permissions in it: configure, write, read.
    pub permissions: [String; 3],
    /// Definitions to import at every boot: a JSON file, or a folder of them; none where there are
    /// none.
    pub definitions: Option<PathBuf>,
    /// Whether definitions that did not change since the last boot are left alone.
    pub definitions_skip_if_unchanged: bool,
    /// Whether what is not supported is left out of definitions.
    pub definitions_skip_unsupported: bool,
    /// Type of queues declared without one.
    pub queue_type: QueueKind,
}

/// What the stream protocol says of this node, and proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Host and port at which clients reach it without TLS.
    pub advertised: (String, u16),
    /// The same with TLS.
    pub advertised_tls: (String, u16),
    /// Octets of a frame.
    pub frame_bytes_max: u32,
    /// Seconds between heartbeats; 0 proposes none.
    pub heartbeat_seconds: u32,
}

/// Bounds that an operator may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Seconds between heartbeats that are proposed; 0 proposes none.
    pub heartbeat_seconds: u16,
    /// Bytes of a frame that are proposed.
    pub frame_bytes_max: u32,
    /// Channels of one connection; 0 leaves it to the client.
    pub channels_max: u16,
    /// Consumers of one channel.
    pub consumers_per_channel_max: usize,
    /// Bytes of a message's body.
    pub message_bytes_max: u64,
    /// Milliseconds within which a delivery must be settled; 0: no bound.
    pub consumer_timeout_ms: u64,
    /// Whether that always closes the channel.
    pub timeout_closes_channel: bool,
    /// Milliseconds within which a client must have logged in.
    pub handshake_timeout_ms: u64,
    /// How many of each thing the node admits.
    pub admission: Admission,
}

/// How many of each thing the node admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Connections; 0: no bound.
    pub connections: usize,
    /// Connections that have not logged in.
    pub pending: usize,
    /// Those of them that come from one address.
    pub pending_per_address: usize,
    /// Virtual hosts.
    pub vhosts: usize,
    /// Queues.
    pub queues: usize,
    /// Exchanges.
    pub exchanges: usize,
}

/// Memory above which publishers are held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryWatermark {
    /// A part of the machine's memory, above 0 and up to 1.
    Relative(f64),
    /// Bytes.
    Absolute(u64),
}

/// Free disk below which publishers are held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskLimit {
    /// A multiple of the machine's memory.
    Relative(f64),
    /// Bytes.
    Absolute(u64),
}

/// The storage engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Bytes of memory for message bodies.
    pub cache_bytes: u64,
    /// Bytes of one file of the write-ahead log.
    pub wal_file_bytes: u64,
}

/// A node's way into its cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Where it listens for other nodes.
    pub address: SocketAddr,
    /// Where they reach it.
    pub advertised: String,
    /// The nodes that form the cluster.
    pub join: Vec<String>,
    /// What they share; empty if it is in a file.
    pub secret: String,
    /// That file; one in the data folder if none is named.
    pub secret_file: Option<PathBuf>,
    /// Whether what they say to each other is neither encrypted nor authenticated.
    pub plain_links: bool,
    /// The certificates that the nodes show to each other, where they do.
    pub tls: Option<ClusterTls>,
}

/// Certificates of a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTls {
    /// PEM file of the node's certificate chain.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM file of the authorities of all nodes' certificates.
    pub authorities: PathBuf,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("address", &self.address)
            .field("advertised", &self.advertised)
            .field("join", &self.join)
            .field("plain_links", &self.plain_links)
            .finish_non_exhaustive()
    }
}

/// Threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads that serve client sockets; at least 1.
    pub io: usize,
    /// Parts into which queues are spread; at least 1.
    pub shards: usize,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The console (standard error); none where it is off.
    pub console: Option<LogSink>,
    /// The log file and its path; none where there is none.
    pub file: Option<(PathBuf, LogSink)>,
    /// When the log file is put away.
    pub rotation: Rotation,
}

/// When a log file is put away, and how many such files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes that it does not grow beyond; `u64::MAX`: no bound.
    pub bytes_max: u64,
    /// When it is put away by the clock.
    pub at: Option<Schedule>,
    /// Files that are kept beside it; with 0 it is emptied.
    pub archives: u64,
}

/// What a sink of the log takes, and how it writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSink {
    /// Least level.
    pub level: LogLevel,
    /// Form of lines.
    pub format: LogFormat,
}

/// How grave a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The names are RabbitMQ's.
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

impl LogLevel {
    /// The level of this name, in any of the words that RabbitMQ has for it, or none for `none`.
    ///
    /// # Errors
    /// The words that there are.
    pub fn named(word: &str) -> Result<Option<Self>, String> {
        Ok(Some(match word {
            "debug" => Self::Debug,
            "info" | "notice" => Self::Info,
            "warning" => Self::Warning,
            "error" | "critical" | "alert" | "emergency" => Self::Error,
            "none" => return Ok(None),
            _ => {
                return Err(format!(
                    "\"{word}\" is no level: one of debug, info, warning, error, critical, none"
                ));
            }
        }))
    }
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Plain,
    /// One JSON object a line.
    Json,
}
