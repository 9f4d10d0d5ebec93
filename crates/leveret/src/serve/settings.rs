//! From the configuration, as an operator sees it, to what the parts of a node need.

use super::definitions::{self, Import};
use crate::cli::cluster::left_to_join;
use crate::config::{Config, DiskLimit, MemoryWatermark, PasswordHashing, Tls, cgroup};
use leveret_auth::{HashingAlgorithm, Mechanism, PasswordHash};
use leveret_management::RABBITMQ_VERSION;
use leveret_metadata::{Catalogue, Command, QueueKind};
use leveret_node::{NodeSettings, StreamSessions, StreamSettings};
use leveret_session::{Settings as SessionSettings, Unfinished};
use leveret_shell::admission::AdmissionLimits;
use leveret_shell::cluster::ClusterConfig;
use leveret_shell::cluster::handshake::Protection;
use leveret_shell::cluster::link_tls::LinkTlsFiles;
use leveret_shell::node::{NodeConfig, Prepare, StreamAddress};
use leveret_shell::timers_and_alarms::Watermarks;
use leveret_types::{FieldTable, FieldValue, limits};
use std::sync::Arc;
use std::time::Duration;

/// What the shell starts a node with.
pub fn node_config(config: &Config) -> Result<NodeConfig, String> {
    let session = session_settings(config, false);
    Ok(NodeConfig {
        folders: config.folders.store(),
        amqp: config.listeners.amqp.clone(),
        amqps: config.listeners.amqps.clone(),
        stream: stream_addresses(config),
        tls: config.tls.as_ref().map(super::web::tls_files),
        io_threads: config.threads.io,
        shards: u16::try_from(config.threads.shards).unwrap_or(u16::MAX),
        cache_bytes: usize::try_from(config.storage.cache_bytes).unwrap_or(usize::MAX),
        wal_file_bytes: config.storage.wal_file_bytes,
        watermarks: watermarks(config),
        give_back_memory: crate::memory::give_back,
        drain: Duration::from_millis(config.shutdown_timeout_ms),
        catalogue: leveret_metadata::Config {
            queues_max: config.limits.admission.queues,
            exchanges_max: config.limits.admission.exchanges,
            vhosts_max: config.limits.admission.vhosts,
            argument_bytes_max: limits::CATALOGUE_ARGUMENTS_BYTES_MAX,
            default_queue_type: Some(config.first_boot.queue_type)
                .filter(|kind| *kind != QueueKind::Classic),
            relaxed_redeclaration: config.relaxed_redeclaration,
            loopback_users: config.login.loopback_users.clone(),
            hashing: hashing(config.login.hashing),
            consumer_timeout_ms: Some(config.limits.consumer_timeout_ms).filter(|ms| *ms > 0),
            timeout_closes_channel: config.limits.timeout_closes_channel,
            membership: config.membership,
        },
        admission: admission(config),
        cluster: config.cluster.as_ref().map(|cluster| ClusterConfig {
            address: cluster.address,
            advertised: cluster.advertised.clone(),
            join: match cluster.join.is_empty() {
                true => left_to_join(&config.folders.root),
                false => cluster.join.clone(),
            },
            secret: cluster.secret.clone().into_bytes(),
            secret_file: cluster.secret_file.clone(),
            protection: match cluster.plain_links {
                true => Protection::Plain,
                false => Protection::Sealed,
            },
            tls: cluster.tls.as_ref().map(|tls| LinkTlsFiles {
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
                authorities: tls.authorities.clone(),
            }),
            file: config.folders.root.join("cluster"),
            name: config.node_name.clone(),
        }),
        first_boot: match config.first_boot.definitions {
            // They are all that a node begins with then, as in RabbitMQ: no user that nobody named.
            Some(_) => Vec::new(),
            None => first_boot(config)?,
        },
        prepare: definitions(config),
        settings: NodeSettings {
            session_tls: Arc::new(SessionSettings {
                unfinished: Arc::clone(&session.unfinished),
                ..session_settings(config, true)
            }),
            stream: stream_sessions(config, &session.unfinished),
            session: Arc::new(session),
            shard_count: 0,
            node_name: config.node_name.clone(),
            hashing: hashing(config.login.hashing),
            certificate_name: config.login.certificate_name,
            anonymous: config.login.anonymous.clone(),
            login_failure_delay_ms: limits::LOGIN_FAILURE_DELAY_MS,
            traces: super::traces::of(config)?,
        },
    })
}

fn stream_addresses(config: &Config) -> Vec<StreamAddress> {
    let listeners = &config.listeners;
    let plain = listeners.stream.iter().map(|address| StreamAddress {
        address: *address,
        tls: false,
        is_default: listeners.stream_is_default,
    });
    let tls = listeners.stream_tls.iter().map(|address| StreamAddress {
        address: *address,
        tls: true,
        is_default: false,
    });
    plain.chain(tls).collect()
}

/// Imports the definitions that the configuration names, before anyone can connect.
fn definitions(config: &Config) -> Option<Prepare> {
    let import = import(config)?;
    Some(Box::new(move |broker| import.run(broker)))
}

/// The import of a start, if the configuration names one.
pub(super) fn import(config: &Config) -> Option<Import> {
    Some(Import {
        source: config.first_boot.definitions.clone()?,
        mark: config
            .first_boot
            .definitions_skip_if_unchanged
            .then(|| config.folders.root.join(definitions::MARK_FILE)),
        skip_unsupported: config.first_boot.definitions_skip_unsupported,
    })
}

fn admission(config: &Config) -> AdmissionLimits {
    let admission = &config.limits.admission;
    AdmissionLimits {
        connections: match admission.connections {
            0 => usize::MAX,
            connections => connections,
        },
        pending: admission.pending,
        pending_per_address: admission.pending_per_address,
    }
}

fn hashing(hashing: PasswordHashing) -> HashingAlgorithm {
    match hashing {
        PasswordHashing::Sha256 => HashingAlgorithm::Sha256,
        PasswordHashing::Sha512 => HashingAlgorithm::Sha512,
        PasswordHashing::Md5 => HashingAlgorithm::Md5,
        PasswordHashing::Argon2id => HashingAlgorithm::Argon2id,
    }
}

/// Bytes above and below which publishers are held back.
fn watermarks(config: &Config) -> Watermarks {
    let total = total_memory_bytes(config);
    Watermarks {
        memory_bytes: match config.memory_watermark {
            MemoryWatermark::Relative(part) => (total as f64 * part) as u64,
            MemoryWatermark::Absolute(bytes) => bytes,
        },
        memory_full_bytes: (u128::from(total) * u128::from(limits::MEMORY_FULL_PERCENT) / 100)
            as u64,
        disk_free_bytes: match config.disk_limit {
            DiskLimit::Relative(part) => (total as f64 * part) as u64,
            DiskLimit::Absolute(bytes) => bytes,
        },
    }
}

/// Memory that watermarks are relative to.
pub fn total_memory_bytes(config: &Config) -> u64 {
    config
        .memory_total_bytes
        .unwrap_or_else(machine_memory_bytes)
}

/// Memory of the machine, or what the process's control groups leave it, where that is less.
fn machine_memory_bytes() -> u64 {
    let of_machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(kilobytes * 1024)
        });
    let of_group = cgroup::memory_bytes();
    let known = [of_machine, of_group].into_iter().flatten().min();
    // Without either file the kernel is none that this runs on; a small machine is the safe guess.
    known.unwrap_or(1 << 30)
}

/// Sessions are told of `EXTERNAL` where clients' certificates are verified, which alone proves a
/// name.
fn session_settings(config: &Config, tls: bool) -> SessionSettings {
    let verifies = |tls: &Tls| tls.client_authorities.is_some();
    let proves_names = tls && config.tls.as_ref().is_some_and(verifies);
    SessionSettings {
        frame_max: config.limits.frame_bytes_max,
        channel_max: config.limits.channels_max,
        heartbeat_seconds: config.limits.heartbeat_seconds,
        message_bytes_max: config.limits.message_bytes_max,
        consumers_per_channel_max: config.limits.consumers_per_channel_max,
        mechanisms: offered(&config.login.mechanisms, proves_names),
        server_properties: server_properties(config),
        handshake_ms_max: config.limits.handshake_timeout_ms,
        unfinished: Arc::default(),
    }
}

fn stream_sessions(config: &Config, unfinished: &Arc<Unfinished>) -> StreamSessions {
    let plain = StreamSettings {
        unfinished: Arc::clone(unfinished),
        ..stream_settings(config, false)
    };
    let tls = StreamSettings {
        memory: plain.memory.clone(),
        unfinished: Arc::clone(unfinished),
        ..stream_settings(config, true)
    };
    StreamSessions {
        plain: Arc::new(plain),
        tls: Arc::new(tls),
    }
}

fn stream_settings(config: &Config, tls: bool) -> StreamSettings {
    let amqp = session_settings(config, tls);
    let (host, port) = match tls {
        true => &config.stream.advertised_tls,
        false => &config.stream.advertised,
    };
    // Clients choose by `version` what they ask for; what says who this is comes beside it.
    let own = server_properties(config);
    let text = |name: &str| {
        own.get(name)
            .map(|value| (name.to_owned(), value.to_string()))
    };
    let names = [
        "cluster_name",
        "copyright",
        "information",
        "platform",
        "product",
        "version",
    ];
    StreamSettings {
        frame_max: config.stream.frame_bytes_max,
        heartbeat_seconds: config.stream.heartbeat_seconds,
        mechanisms: amqp.mechanisms.split(' ').map(str::to_owned).collect(),
        server_properties: names.into_iter().filter_map(text).collect(),
        handshake_ms_max: amqp.handshake_ms_max,
        ..StreamSettings::new(host, *port)
    }
}

/// The mechanisms that a listener offers; `proves_names` where it verifies clients' certificates.
fn offered(mechanisms: &[Mechanism], proves_names: bool) -> String {
    let mechanisms = mechanisms
        .iter()
        .filter(|mechanism| proves_names || **mechanism != Mechanism::External)
        .map(|mechanism| mechanism.name());
    mechanisms.collect::<Vec<_>>().join(" ")
}

fn server_properties(config: &Config) -> FieldTable {
    FieldTable::from([
        ("capabilities", leveret_session::settings::capabilities()),
        ("cluster_name", FieldValue::text(&config.cluster_name)),
        (
            "copyright",
            FieldValue::text("Copyright (c) the Leveret authors"),
        ),
        (
            "information",
            FieldValue::text("Licensed under the Apache License 2.0"),
        ),
        (
            "platform",
            FieldValue::text(concat!("Leveret ", env!("CARGO_PKG_VERSION"))),
        ),
        ("product", FieldValue::text("RabbitMQ")),
        ("version", FieldValue::text(RABBITMQ_VERSION)),
    ])
}

/// What a node without data begins with: its first virtual host, and its first user.
fn first_boot(config: &Config) -> Result<Vec<Command>, String> {
    let first = &config.first_boot;
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| format!("no random bytes: {error}"))?;
    let password = PasswordHash::new(
        hashing(config.login.hashing),
        first.password.as_bytes(),
        &salt,
    )
    .map_err(|error| format!("default_pass: {error}"))?;
    let mut commands = Catalogue::defaults(&first.user, password, &first.vhost);
    for command in &mut commands {
        match command {
            Command::UserPut { tags, .. } => *tags = Some(first.tags.clone()),
            Command::PermissionSet {
                configure,
                write,
                read,
                ..
            } => {
                [configure, write, read]
                    .into_iter()
                    .zip(&first.permissions)
                    .for_each(|(pattern, given)| pattern.clone_from(given));
            }
            _ => {}
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_is_offered_where_certificates_are_verified() {
        let all = [Mechanism::External, Mechanism::Plain, Mechanism::AmqPlain];
        assert_eq!(offered(&all, true), "EXTERNAL PLAIN AMQPLAIN");
        assert_eq!(offered(&all, false), "PLAIN AMQPLAIN");
        assert_eq!(offered(&all[..1], false), "");
    }
}
