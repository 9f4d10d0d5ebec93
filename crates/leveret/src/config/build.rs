//! From what was typed to what holds.

mod listeners;
mod login;

use super::file::{FileConfig, Setting, Source};
use super::keys::{self, Key, Kind, Meaning};
use super::rotation::Schedule;
use super::settled::{
    Admission, Cluster, ClusterTls, Config, DiskLimit, Folders, Limits, Log, LogFormat, LogLevel,
    LogSink, MemoryWatermark, Rotation, Storage, Threads, Traces,
};
use super::{ConfigError, Loaded, Refused, aliases, value};
use crate::trust::Trust;
use leveret_metadata::MembershipConfig;
use leveret_types::limits::IO_THREADS_MAX;
use listeners::AMQP_TLS;
use std::path::PathBuf;

/// What the configuration must know of the machine to choose by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processor cores that the process may use.
    pub cores: usize,
    /// The machine's name.
    pub host_name: String,
}

/// The keys of the certificates that nodes show to each other.
const CLUSTER_TLS: [&str; 3] = [
    "cluster.tls.certfile",
    "cluster.tls.keyfile",
    "cluster.tls.cacertfile",
];

impl Config {
    /// Judges what was typed. All errors are told, not just the first, in the order of the keys'
    /// names.
    pub fn build(typed: &FileConfig, machine: &Machine) -> Result<Loaded, Refused> {
        let typed = &aliases::resolved(typed);
        let (mut errors, mut notices) = (Vec::new(), Vec::new());
        let is_settled = cluster_is_settled(typed);
        for (name, setting) in typed.iter() {
            match judge(name, setting, is_settled) {
                Ok(None) => {}
                Ok(Some(notice)) => notices.push(notice),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(Refused { errors, notices });
        }
        // A value that only makes no sense beside another: one at a time is enough.
        let config = match (Reader { typed }).config(machine) {
            Ok(config) => config,
            Err(error) => {
                let errors = vec![error];
                return Err(Refused { errors, notices });
            }
        };
        Ok(Loaded {
            config,
            notices,
            effective: effective(typed),
            secret_files: secret_files(typed),
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

/// The files in which a password or a secret was typed, each once.
fn secret_files(typed: &FileConfig) -> Vec<PathBuf> {
    let secret = |name: &str, setting: &Setting| match keys::find(name) {
        Some(Meaning::Key(key)) => key.kind == Kind::Secret && setting.variable.is_none(),
        _ => false,
    };
    files_of(typed, secret)
}

/// The files in which keys were typed that are as `is_meant` says, each once.
fn files_of(typed: &FileConfig, is_meant: impl Fn(&str, &Setting) -> bool) -> Vec<PathBuf> {
    let files = typed
        .iter()
        .filter(|(name, setting)| is_meant(name, setting));
    let files = files.filter_map(|(_, setting)| match &setting.source {
        Source::Line(file, _) => Some(PathBuf::from(file)),
        Source::Variable(_) | Source::Flag(_) => None,
    });
    let files: std::collections::BTreeSet<PathBuf> = files.collect();
    files.into_iter().collect()
}

/// Whether it is said in the node's own words who is in the cluster, or that nobody else is: then
/// RabbitMQ's words for it mislead nobody.
fn cluster_is_settled(typed: &FileConfig) -> bool {
    let hint = typed.get("cluster_formation.target_cluster_size_hint");
    typed.get("cluster.address").is_some()
        || typed.below("cluster.join").next().is_some()
        || hint.is_some_and(|hint| hint.text.trim() == "1")
}

/// One setting: in order, worth a notice, or an error.
fn judge(
    name: &str,
    setting: &Setting,
    cluster_is_settled: bool,
) -> Result<Option<String>, ConfigError> {
    let error = |what| Err(ConfigError::at(setting.source.clone(), what));
    let ignored = |why: &str| {
        let source = &setting.source;
        Ok(Some(format!(
            "{source}: \"{name}\" has no effect here: {why}"
        )))
    };
    match keys::find(name) {
        Some(Meaning::Key(key)) => match value::check(key.kind, &setting.text) {
            Ok(()) => Ok(None),
            Err(what) if key.kind == Kind::Secret => error(format!("\"{name}\" {what}")),
            Err(what) => {
                let why = keys::reason(name).map(|reason| format!(": {reason}"));
                let why = why.unwrap_or_default();
                error(format!("\"{name}\" {what}, not \"{}\"{why}", setting.text))
            }
        },
        Some(Meaning::BuiltIn) => Ok(None),
        Some(Meaning::Ignored(why)) => ignored(why),
        Some(Meaning::Refused(_))
            if cluster_is_settled && name.starts_with("cluster_formation.") =>
        {
            ignored(keys::FORMATION)
        }
        Some(Meaning::Refused(what)) => error(format!("\"{name}\" cannot be obeyed: {what}")),
        None if name.starts_with("enabled_plugins.") => error(format!(
            "\"{name}\" is a plugin that is not known here: take it out of the list"
        )),
        None => {
            let hint = keys::nearest(name).map(|k| format!("; did you mean \"{k}\"?"));
            error(format!(
                "unknown key \"{name}\"{}",
                hint.unwrap_or_default()
            ))
        }
    }
}

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
        let tls = match listeners.amqps.is_empty() && listeners.stream_tls.is_empty() {
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
            login: self.login()?,
            tls,
            stream: self.stream(&listeners, machine),
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
            cluster: self.checked_cluster()?,
            membership: self.membership(),
            relaxed_redeclaration: self
                .flag("quorum_queue.property_equivalence.relaxed_checks_on_redeclaration"),
            threads: Threads {
                io: choose(
                    self.count("io_threads"),
                    machine.cores.clamp(1, IO_THREADS_MAX),
                ),
                shards: choose(self.count("shards"), machine.cores.clamp(1, 64)),
            },
            log: self.log(&folders),
            folders,
            tags: ["cluster_tags", "node_tags"].map(|family| {
                let tags = self.typed.below(family);
                tags.map(|(tag, setting)| (tag.to_owned(), setting.text.clone()))
                    .collect()
            }),
            files: files_of(self.typed, |_, _| true),
            management_prefix: {
                let words = self.words("management.path_prefix");
                match words.trim_matches('/') {
                    "" => String::new(),
                    prefix => format!("/{prefix}"),
                }
            },
            management_origins: {
                let origins = self.typed.below("management.cors.allow_origins");
                origins.map(|(_, setting)| setting.text.clone()).collect()
            },
            management_cors_seconds: self.count("management.cors.max_age"),
            management_session_minutes: self.count("management.login_session_timeout"),
            management_requests_per_second: self.count("management.rate_limit.requests_per_second"),
            management_hosts: {
                let hosts = self.typed.below("management.hosts");
                hosts.map(|(_, host)| host.text.clone()).collect()
            },
            samples: !self.flag("management.disable_stats"),
            traces: self.traces()?,
            tracks_login_sources: self.flag("track_auth_attempt_source"),
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

    /// A node that is told of others and has no address for them would be a broker of its own.
    fn checked_cluster(&self) -> Result<Option<Cluster>, ConfigError> {
        self.check_cluster_tls()?;
        let told = self.typed.below("cluster.join").next();
        let told = told.map(|(_, setting)| setting);
        let told = told.or_else(|| self.typed.get("cluster.advertised"));
        match (self.cluster(), told) {
            (None, Some(setting)) => Err(ConfigError::at(
                setting.source.clone(),
                "a node that is to be part of a cluster needs its own address for the other nodes: \
                 `cluster.address`, or --cluster",
            )),
            (cluster, _) => {
                for (name, setting) in self.typed.below("cluster.join") {
                    value::host_and_port(&setting.text).map_err(|what| {
                        let what =
                            format!("\"cluster.join.{name}\" {what}, not \"{}\"", setting.text);
                        ConfigError::at(setting.source.clone(), what)
                    })?;
                }
                Ok(cluster)
            }
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
            secret_file: self.text("cluster.secret_file").map(PathBuf::from),
            plain_links: self.words("cluster.links") == "plain",
            tls: self.cluster_tls(),
        })
    }

    /// The certificates of links: [`Self::checked_cluster`] has found none or all of them.
    fn cluster_tls(&self) -> Option<ClusterTls> {
        let [certificate, key, authorities] = CLUSTER_TLS.map(|name| self.text(name));
        Some(ClusterTls {
            certificate: certificate?.into(),
            key: key?.into(),
            authorities: authorities?.into(),
        })
    }

    fn check_cluster_tls(&self) -> Result<(), ConfigError> {
        let Some(given) = CLUSTER_TLS.iter().find(|name| self.text(name).is_some()) else {
            return Ok(());
        };
        if let Some(missing) = CLUSTER_TLS.iter().find(|name| self.text(name).is_none()) {
            return Err(self.conflict(given, &format!("\"{given}\" needs \"{missing}\"")));
        }
        if self.words("cluster.links") == "plain" {
            let what = "certificates protect no plain links: leave out `cluster.links = plain` or \
                        `cluster.tls.*`";
            return Err(self.conflict(given, what));
        }
        Ok(())
    }

    fn traces(&self) -> Result<Option<Traces>, ConfigError> {
        let Some(setting) = self.typed.get("traces.endpoint") else {
            return Ok(None);
        };
        let (speaks_tls, authority, path) = value::collector(&setting.text).map_err(|what| {
            let what = format!("\"traces.endpoint\" {what}, not \"{}\"", setting.text);
            ConfigError::at(setting.source.clone(), what)
        })?;
        let file = self.text("traces.cacertfile");
        let trust = file.map_or(Trust::System, |file| Trust::File(file.into()));
        let ratio = self.parsed("traces.sample_ratio", |text| value::fraction(text, 1.0));
        Ok(Some(Traces {
            authority,
            path,
            tls: speaks_tls.then_some(trust),
            ratio,
        }))
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
            timeout_closes_channel: self.words("consumer_timeout_response") == "close_channel",
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
