//! From what was typed to what holds.

use super::file::{FileConfig, Setting};
use super::keys::{self, Key, Kind, Meaning};
use super::rotation::Schedule;
use super::{ConfigError, Loaded, value};
use leveret_metadata::MembershipConfig;
use leveret_node::certificate::{AlternativeName, NameFrom};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// What the configuration must know of the machine to choose by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processor cores that the process may use.
    pub cores: usize,
    /// The machine's name.
    pub host_name: String,
}

/// The configuration of a node: all of it, valid, with every choice made.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of this node, such as `leveret@host`.
    pub node_name: String,
    /// Name of the cluster that it is.
    pub cluster_name: String,
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
    /// Threads.
    pub threads: Threads,
    /// Logs.
    pub log: Log,
    /// Whether `/metrics` shows each object.
    pub metrics_per_object: bool,
    /// Milliseconds within which a shutdown drains connections.
    pub shutdown_timeout_ms: u64,
}

/// Where things are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The folder of all others, unless these are elsewhere; holds the node's identity and the
    /// command line's token.
    pub root: PathBuf,
    /// Metadata, snapshots, classic queues' segments.
    pub data: PathBuf,
    /// Quorum queues' segments.
    pub segment: PathBuf,
    /// The write-ahead log.
    pub wal: PathBuf,
    /// Log files.
    pub logs: PathBuf,
}

impl Folders {
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
    /// Users that may log in from this machine only.
    pub loopback_users: Vec<String>,
    /// How new passwords are hashed.
    pub hashing: PasswordHashing,
    /// What of a client's certificate is its user name.
    pub certificate_name: NameFrom,
}

/// A SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the protocol's.
pub enum Mechanism {
    Plain,
    AmqPlain,
    External,
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
    /// Type of queues declared without one.
    pub queue_type: QueueType,
}

/// A type of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are RabbitMQ's.
pub enum QueueType {
    Classic,
    Quorum,
    Stream,
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
    /// What they share; empty for none.
    pub secret: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("address", &self.address)
            .field("advertised", &self.advertised)
            .field("join", &self.join)
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

impl Config {
    /// Judges what was typed. All errors are told, not just the first, in the order of the keys'
    /// names.
    pub fn build(typed: &FileConfig, machine: &Machine) -> Result<Loaded, Vec<ConfigError>> {
        let (mut errors, mut notices) = (Vec::new(), Vec::new());
        for (name, setting) in typed.iter() {
            match judge(name, setting) {
                Ok(None) => {}
                Ok(Some(notice)) => notices.push(notice),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        // A value that only makes no sense beside another: one at a time is enough.
        let config = Reader { typed }.config(machine).map_err(|e| vec![e])?;
        Ok(Loaded {
            config,
            notices,
            effective: effective(typed),
        })
    }
}

/// What holds for every key that has a value, in the order of their names.
fn effective(typed: &FileConfig) -> Vec<(String, String)> {
    let shown = |kind: Kind, text: &str| match kind {
        Kind::Secret => "(hidden)".to_owned(),
        _ => text.to_owned(),
    };
    let typed_keys = typed
        .iter()
        .filter_map(|(name, setting)| match keys::find(name) {
            Some(Meaning::Key(key)) => Some((name.to_owned(), shown(key.kind, &setting.text))),
            _ => None,
        });
    let defaults = keys::KEYS.iter().filter(|key| !key.default.is_empty());
    let defaults = defaults.map(|key| (key.name.to_owned(), shown(key.kind, key.default)));
    let mut all: std::collections::BTreeMap<String, String> = defaults.collect();
    for (name, value) in typed_keys {
        // A named one stands for its family's default.
        if let Some((family, _)) = name.rsplit_once('.') {
            all.remove(&format!("{family}.$name"));
        }
        all.insert(name, value);
    }
    all.into_iter()
        .map(|(name, value)| (name.replace(".$name", ".default"), value))
        .collect()
}

/// One setting by itself: in order, worth a notice, or an error.
fn judge(name: &str, setting: &Setting) -> Result<Option<String>, ConfigError> {
    let error = |what| Err(ConfigError::at(setting.source.clone(), what));
    match keys::find(name) {
        Some(Meaning::Key(key)) => match value::check(key.kind, &setting.text) {
            Ok(()) => Ok(None),
            Err(what) if key.kind == Kind::Secret => error(format!("\"{name}\" {what}")),
            Err(what) => error(format!("\"{name}\" {what}, not \"{}\"", setting.text)),
        },
        Some(Meaning::Ignored(why)) => Ok(Some(format!(
            "{}: \"{name}\" has no effect here: {why}",
            setting.source
        ))),
        Some(Meaning::Refused(what)) => error(format!("\"{name}\" cannot be obeyed: {what}")),
        None => {
            let hint = keys::nearest(name).map(|k| format!("; did you mean \"{k}\"?"));
            error(format!(
                "unknown key \"{name}\"{}",
                hint.unwrap_or_default()
            ))
        }
    }
}

/// The names of the keys of one family of listeners with TLS.
struct TlsKeys {
    /// What makes such a listener.
    listener: &'static str,
    ip: &'static str,
    port: &'static str,
    authorities: &'static str,
    certificate: &'static str,
    key: &'static str,
    verify: &'static str,
    required: &'static str,
    versions: &'static str,
}

macro_rules! tls_keys {
    ($listener:literal, $prefix:literal) => {
        TlsKeys {
            listener: $listener,
            ip: concat!($prefix, ".ip"),
            port: concat!($prefix, ".port"),
            authorities: concat!($prefix, ".cacertfile"),
            certificate: concat!($prefix, ".certfile"),
            key: concat!($prefix, ".keyfile"),
            verify: concat!($prefix, ".verify"),
            required: concat!($prefix, ".fail_if_no_peer_cert"),
            versions: concat!($prefix, ".versions"),
        }
    };
}

/// AMQP's listeners have addresses of their own: `ip` and `port` are not used.
const AMQP_TLS: TlsKeys = tls_keys!("listeners.ssl", "ssl_options");

/// The names of the keys of something that is served by HTTP.
struct HttpKeys {
    ip: &'static str,
    port: &'static str,
    tls: TlsKeys,
}

const HTTP: HttpKeys = HttpKeys {
    ip: "management.tcp.ip",
    port: "management.tcp.port",
    tls: tls_keys!("management.ssl", "management.ssl"),
};
const METRICS: HttpKeys = HttpKeys {
    ip: "prometheus.tcp.ip",
    port: "prometheus.tcp.port",
    tls: tls_keys!("prometheus.ssl", "prometheus.ssl"),
};

/// Reads typed values by name, or the key's default.
///
/// Invariant: every setting has passed [`judge`], and every default its kind (a test builds the
/// empty configuration), so that a value which does not parse here is a bug and not an error.
struct Reader<'a> {
    typed: &'a FileConfig,
}

impl Reader<'_> {
    /// The text of the key: typed, or its default; none where it has neither.
    fn text(&self, name: &'static str) -> Option<&str> {
        let typed = self.typed.get(name).map(|s| s.text.as_str());
        typed.or_else(|| Some(self.key(name).default).filter(|d| !d.is_empty()))
    }

    fn key(&self, name: &'static str) -> &'static Key {
        let found = keys::KEYS.iter().find(|k| k.name == name);
        found.unwrap_or_else(|| panic!("no key {name} in the table"))
    }

    fn parsed<T>(&self, name: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let text = self
            .text(name)
            .unwrap_or_else(|| panic!("{name} has no default"));
        parse(text).unwrap_or_else(|error| panic!("{name} was judged valid and {error}"))
    }

    fn count(&self, name: &'static str) -> u64 {
        self.parsed(name, |text| value::count(text, 0, u64::MAX))
    }

    fn size(&self, name: &'static str) -> u64 {
        self.parsed(name, |text| value::bytes(text, 0, u64::MAX))
    }

    fn optional_size(&self, name: &'static str) -> Option<u64> {
        self.text(name).map(|_| self.size(name))
    }

    fn flag(&self, name: &'static str) -> bool {
        self.parsed(name, value::boolean)
    }

    fn words(&self, name: &'static str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// `name` if it was typed, else `other`, which means the same.
    fn either(&self, name: &'static str, other: &'static str) -> &'static str {
        if self.typed.get(name).is_some() {
            name
        } else {
            other
        }
    }

    fn conflict(&self, name: &str, what: &str) -> ConfigError {
        match self.typed.get(name) {
            Some(setting) => ConfigError::at(setting.source.clone(), what),
            None => ConfigError::whole(what),
        }
    }

    fn config(&self, machine: &Machine) -> Result<Config, ConfigError> {
        let folders = self.folders();
        let listeners = self.listeners()?;
        let tls = match listeners.amqps.is_empty() {
            true => None,
            false => Some(self.tls(&AMQP_TLS)?),
        };
        let node_name = self
            .text("node_name")
            .map_or_else(|| self.own_name(machine), str::to_owned);
        let choose = |typed: u64, automatic: usize| match typed {
            0 => automatic,
            n => usize::try_from(n).unwrap_or(automatic),
        };
        Ok(Config {
            cluster_name: self.text("cluster_name").unwrap_or(&node_name).to_owned(),
            node_name,
            login: self.login(),
            tls,
            listeners,
            first_boot: self.first_boot()?,
            limits: self.limits()?,
            memory_watermark: self.memory_watermark(),
            memory_total_bytes: self.optional_size("total_memory_available_override_value"),
            disk_limit: self.disk_limit(),
            storage: Storage {
                cache_bytes: self.size("cache_size"),
                wal_file_bytes: self.size("wal.file_size"),
            },
            cluster: self.cluster(),
            membership: self.membership(),
            threads: Threads {
                io: choose(self.count("io_threads"), machine.cores.clamp(1, 64)),
                shards: choose(self.count("shards"), machine.cores.clamp(1, 64)),
            },
            log: self.log(&folders),
            folders,
            metrics_per_object: self.flag("prometheus.return_per_object_metrics"),
            shutdown_timeout_ms: self.count("shutdown_timeout"),
        })
    }

    /// A node's name where nobody gave it one: nodes of a cluster may share a machine, but never an
    /// address.
    fn own_name(&self, machine: &Machine) -> String {
        match self.cluster() {
            Some(cluster) => format!("leveret@{}", cluster.advertised),
            None => format!("leveret@{}", machine.host_name),
        }
    }

    fn cluster(&self) -> Option<Cluster> {
        self.text("cluster.address")?;
        let address = self.parsed("cluster.address", value::address);
        let listed = self.typed.below("cluster.join");
        Some(Cluster {
            address,
            advertised: self
                .text("cluster.advertised")
                .map_or_else(|| address.to_string(), str::to_owned),
            join: listed.map(|(_, setting)| setting.text.clone()).collect(),
            secret: self.words("cluster.secret"),
        })
    }

    fn membership(&self) -> MembershipConfig {
        let target = "quorum_queue.continuous_membership_reconciliation.target_group_size";
        MembershipConfig {
            initial_size: narrow(self.count("quorum_queue.initial_cluster_size")),
            reconciles: self.flag("quorum_queue.continuous_membership_reconciliation.enabled"),
            target_size: self.text(target).map(|_| narrow(self.count(target))),
            interval_ms: self.count("quorum_queue.continuous_membership_reconciliation.interval"),
            trigger_interval_ms: self
                .count("quorum_queue.continuous_membership_reconciliation.trigger_interval"),
        }
    }

    fn folders(&self) -> Folders {
        let root = PathBuf::from(self.words("data_dir"));
        let folder = |name, default: &str| {
            self.text(name)
                .map_or_else(|| root.join(default), PathBuf::from)
        };
        Folders {
            data: folder("folders.data", "data"),
            segment: folder("folders.segment", "segment"),
            wal: folder("folders.wal", "wal"),
            logs: folder(self.either("log.dir", "folders.logs"), "logs"),
            root,
        }
    }

    fn listeners(&self) -> Result<Listeners, ConfigError> {
        let family = |prefix: &'static str, default: &str| -> Vec<SocketAddr> {
            let typed: Vec<_> = self
                .typed
                .below(prefix)
                .map(|(_, s)| s.text.as_str())
                .collect();
            let off = self.typed.get(prefix).is_some();
            let texts = match typed.is_empty() {
                false => typed,
                true if off || default.is_empty() => Vec::new(),
                true => vec![default],
            };
            texts
                .into_iter()
                .map(|t| value::address(t).unwrap_or_else(|e| panic!("{prefix}: {t} {e}")))
                .collect()
        };
        Ok(Listeners {
            amqp: family("listeners.tcp", self.key("listeners.tcp.$name").default),
            amqps: family("listeners.ssl", self.key("listeners.ssl.$name").default),
            http: self.http_address(&HTTP),
            https: self.https_address(&HTTP)?,
            metrics: self.http_address(&METRICS),
            metrics_tls: self.https_address(&METRICS)?,
        })
    }

    /// Where HTTP is served without TLS: as in RabbitMQ nowhere where TLS alone is configured.
    fn http_address(&self, keys: &HttpKeys) -> Option<SocketAddr> {
        let HttpKeys { ip, port, tls, .. } = keys;
        let typed = |name| self.typed.get(name).is_some();
        if typed(tls.port) && !typed(ip) && !typed(port) {
            return None;
        }
        self.socket_address(ip, port)
    }

    fn https_address(&self, keys: &HttpKeys) -> Result<Option<(SocketAddr, Tls)>, ConfigError> {
        if self.text(keys.tls.port).is_none() {
            return Ok(None);
        }
        match self.socket_address(keys.tls.ip, keys.tls.port) {
            Some(address) => Ok(Some((address, self.tls(&keys.tls)?))),
            None => Ok(None),
        }
    }

    fn socket_address(&self, ip: &'static str, port: &'static str) -> Option<SocketAddr> {
        let address = match (self.text(ip).is_some(), self.typed.get(port).is_some()) {
            (true, _) => self.parsed(ip, value::ip),
            (false, true) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            (false, false) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        self.parsed(port, value::port)
            .map(|port| SocketAddr::new(address, port))
    }

    fn tls(&self, keys: &TlsKeys) -> Result<Tls, ConfigError> {
        let needed = |name| {
            let missing = || {
                let listener = keys.listener;
                ConfigError::whole(format!("a listener with TLS ({listener}) needs \"{name}\""))
            };
            self.text(name).map(PathBuf::from).ok_or_else(missing)
        };
        let verify = self.words(keys.verify) == "verify_peer";
        let required = self.flag(keys.required);
        if required && !verify {
            let what = format!(
                "\"{}\" needs {} = \"verify_peer\"",
                keys.required, keys.verify
            );
            return Err(self.conflict(keys.required, &what));
        }
        let mut versions: Vec<_> = self
            .typed
            .below(keys.versions)
            .map(|(_, s)| match s.text.as_str() {
                "tlsv1.2" => TlsVersion::V12,
                _ => TlsVersion::V13,
            })
            .collect();
        if versions.is_empty() {
            versions = vec![TlsVersion::V12, TlsVersion::V13];
        }
        let client_authorities = match verify {
            true => Some(needed(keys.authorities)?),
            false => None,
        };
        Ok(Tls {
            certificate: needed(keys.certificate)?,
            key: needed(keys.key)?,
            client_authorities,
            client_certificate_required: required,
            versions,
        })
    }

    fn login(&self) -> Login {
        let named = self.typed.below("auth_mechanisms");
        let mut mechanisms: Vec<_> = named
            .map(|(_, setting)| match setting.text.as_str() {
                "PLAIN" => Mechanism::Plain,
                "AMQPLAIN" => Mechanism::AmqPlain,
                _ => Mechanism::External,
            })
            .collect();
        if mechanisms.is_empty() {
            mechanisms = vec![Mechanism::Plain, Mechanism::AmqPlain];
        }
        let hashing = match self.words("password_hashing_module").as_str() {
            "rabbit_password_hashing_sha512" => PasswordHashing::Sha512,
            "rabbit_password_hashing_md5" => PasswordHashing::Md5,
            "argon2id" => PasswordHashing::Argon2id,
            _ => PasswordHashing::Sha256,
        };
        Login {
            mechanisms,
            loopback_users: self.loopback_users(),
            hashing,
            certificate_name: self.certificate_name(),
        }
    }

    fn loopback_users(&self) -> Vec<String> {
        let named: Vec<_> = self.typed.below("loopback_users").collect();
        let open = self.typed.get("loopback_users").is_some()
            || named
                .iter()
                .any(|(u, s)| *u == "guest" && value::boolean(&s.text) == Ok(false));
        let mut users: Vec<String> = named
            .iter()
            .filter(|(_, s)| value::boolean(&s.text) == Ok(true))
            .map(|(user, _)| (*user).to_owned())
            .collect();
        if !open && !users.iter().any(|u| u == "guest") {
            users.push("guest".to_owned());
        }
        users
    }

    fn certificate_name(&self) -> NameFrom {
        match self.words("ssl_cert_login_from").as_str() {
            "common_name" => NameFrom::CommonName,
            "subject_alternative_name" => {
                let kind = match self.words("ssl_cert_login_san_type").as_str() {
                    "ip" => AlternativeName::Ip,
                    "email" => AlternativeName::Email,
                    "uri" => AlternativeName::Uri,
                    _ => AlternativeName::Dns,
                };
                NameFrom::AlternativeName(kind, narrow(self.count("ssl_cert_login_san_index")))
            }
            _ => NameFrom::DistinguishedName,
        }
    }

    fn first_boot(&self) -> Result<FirstBoot, ConfigError> {
        let mut tags: Vec<String> = self
            .typed
            .below("default_user_tags")
            .filter(|(_, s)| value::boolean(&s.text) == Ok(true))
            .map(|(tag, _)| tag.to_owned())
            .collect();
        if self.typed.below("default_user_tags").next().is_none() {
            tags.push("administrator".to_owned());
        }
        for name in ["default_user", "default_vhost"] {
            if self.words(name).is_empty() {
                return Err(self.conflict(name, &format!("\"{name}\" must not be empty")));
            }
        }
        let definitions = [
            "load_definitions",
            "definitions.local.path",
            "management.load_definitions",
        ]
        .into_iter()
        .find_map(|name| self.text(name));
        let permission = |name| self.words(name);
        Ok(FirstBoot {
            user: self.words("default_user"),
            password: self.words("default_pass"),
            tags,
            vhost: self.words("default_vhost"),
            permissions: [
                permission("default_permissions.configure"),
                permission("default_permissions.write"),
                permission("default_permissions.read"),
            ],
            definitions: definitions.map(PathBuf::from),
            definitions_skip_if_unchanged: self.flag("definitions.skip_if_unchanged"),
            queue_type: match self.words("default_queue_type").as_str() {
                "quorum" => QueueType::Quorum,
                "stream" => QueueType::Stream,
                _ => QueueType::Classic,
            },
        })
    }

    fn limits(&self) -> Result<Limits, ConfigError> {
        Ok(Limits {
            heartbeat_seconds: narrow(self.count("heartbeat")),
            frame_bytes_max: narrow(self.count("frame_max")),
            channels_max: narrow(
                self.count(self.either("max_channels_per_connection", "channel_max")),
            ),
            consumers_per_channel_max: narrow(self.count("consumer_max_per_channel")),
            message_bytes_max: self.size("max_message_size"),
            consumer_timeout_ms: self.count("consumer_timeout"),
            handshake_timeout_ms: self.count("handshake_timeout"),
            admission: Admission {
                connections: narrow(self.count(self.either("connection_max", "max_connections"))),
                pending: narrow(self.count("pending_connections_max")),
                pending_per_address: narrow(self.count("pending_connections_per_address_max")),
                vhosts: narrow(self.count("vhost_max")),
                queues: narrow(self.count("cluster_queue_limit")),
                exchanges: narrow(self.count("cluster_exchange_limit")),
            },
        })
    }

    fn memory_watermark(&self) -> MemoryWatermark {
        match self.optional_size("vm_memory_high_watermark.absolute") {
            Some(bytes) => MemoryWatermark::Absolute(bytes),
            None => {
                let name = "vm_memory_high_watermark.relative";
                MemoryWatermark::Relative(self.parsed(name, |t| value::fraction(t, 1.0)))
            }
        }
    }

    fn disk_limit(&self) -> DiskLimit {
        let (absolute, relative) = ("disk_free_limit.absolute", "disk_free_limit.relative");
        if self.typed.get(absolute).is_none() && self.typed.get(relative).is_some() {
            return DiskLimit::Relative(self.parsed(relative, |t| value::fraction(t, 100.0)));
        }
        DiskLimit::Absolute(self.size(absolute))
    }

    fn log(&self, folders: &Folders) -> Log {
        let sink = |level: &'static str, format: &'static str| {
            let level = LogLevel::named(&self.words(level)).ok().flatten()?;
            let format = match self.words(format).as_str() {
                "json" => LogFormat::Json,
                _ => LogFormat::Plain,
            };
            Some(LogSink { level, format })
        };
        let console = sink("log.console.level", "log.console.formatter");
        let file = sink("log.file.level", "log.file.formatter");
        let name = self.words("log.file");
        Log {
            console: console.filter(|_| self.flag("log.console")),
            file: file
                .filter(|_| name != "false")
                .map(|sink| (folders.logs.join(name), sink)),
            rotation: Rotation {
                bytes_max: match self.size("log.file.rotation.size") {
                    0 => u64::MAX,
                    bytes => bytes,
                },
                at: Schedule::parse(&self.words("log.file.rotation.date")).ok(),
                archives: self.count("log.file.rotation.count"),
            },
        }
    }
}

/// A count as a narrower number.
///
/// Invariant: the key's bounds lie within the narrower type.
fn narrow<T: TryFrom<u64>>(count: u64) -> T {
    T::try_from(count).unwrap_or_else(|_| panic!("{count} is beyond its key's bounds"))
}
