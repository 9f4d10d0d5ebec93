//! What the node counts, in the management interface's words: clients, memory, disks, replicas.
//! Apart because it only looks: nothing here changes the node or waits for it.

use super::Admin;
use super::client_stats::STREAM_PROTOCOL;
use crate::config::plugins::BUILT_IN;
use crate::serve::{certificates, process, settings};
use leveret_auth::Mechanism;
use leveret_cluster::{BorrowedShard as _, Env as _};
use leveret_management::api::{
    BrokerStats, Churn, Descriptors, DiskSpace, DiskUse, IoStats, Latencies, Listener, LoginCounts,
    MemoryStats, MemoryUse, MessageCounters, NodeFiles, NodeStats, OpenCounts, QueueDiskUse,
    ReplicaStats, ReplicaSums, SpanCounts, StreamProtocolStats,
};
use leveret_node::traces::Traces;
use leveret_node::{ConnectionStatus, CounterValues, Env as _};
use leveret_queue_host::quorum::LocalDeliveries;
use leveret_queue_host::quorum::replica::UnfitReplicas;
use leveret_replication::Role;
use leveret_shell::broker::Broker;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::each_portion;
use leveret_storage::files_set_aside;
use leveret_types::{QueueId, ReplicaId};

impl Admin {
    /// The name that an operator gave the cluster, or the configuration's. Where nobody gave one it
    /// is that of the first node, so that all nodes say the same.
    fn cluster_name(&self) -> String {
        let catalogue = self.broker.catalogue();
        let mut named = catalogue.global_parameters();
        let given = named.find(|(name, _)| *name == "cluster_name");
        let given = given
            .and_then(|(_, value)| value.as_text())
            .map(str::to_owned);
        let of_first = || {
            let is_unnamed = self.config.cluster_name == self.config.node_name;
            let first = catalogue.nodes().map(|node| node.id()).min();
            catalogue.node_label(first.filter(|_| is_unnamed)?)
        };
        given
            .or_else(of_first)
            .unwrap_or_else(|| self.config.cluster_name.clone())
    }

    /// The identity of the cluster; of a node alone, that of its store.
    fn cluster_id(&self) -> String {
        let cluster = self.broker.cluster();
        process::uuid_text(cluster.map_or(self.uuid, |cluster| cluster.identity().cluster))
    }

    /// The node's name, as the cluster's other nodes show it.
    pub(super) fn node_name(&self) -> String {
        let label = self.broker.catalogue().node_label(self.broker.node_id());
        label.unwrap_or_else(|| self.config.node_name.clone())
    }

    /// The SASL mechanisms that are offered on any listener: EXTERNAL needs one that verifies
    /// clients' certificates.
    fn mechanisms(&self) -> Vec<&'static str> {
        let tls = self.config.tls.as_ref();
        let proves_names = tls.is_some_and(|tls| tls.client_authorities.is_some());
        let offered = self.config.login.mechanisms.iter();
        offered
            .filter(|mechanism| proves_names || **mechanism != Mechanism::External)
            .map(|mechanism| mechanism.name())
            .collect()
    }

    /// What is listened on now: for clients, unless an operator has suspended that.
    fn listeners(&self) -> Vec<Listener> {
        let all = self.listening.get().cloned().unwrap_or_default();
        let listens = self.broker.listening();
        let of_clients = |listener: &Listener| {
            let protocol = listener.protocol;
            protocol.starts_with("amqp") || protocol.starts_with("stream")
        };
        let listening = all.into_iter().filter(|l| listens || !of_clients(l));
        listening.collect()
    }

    pub(super) fn replica_stats(&self, queue: QueueId) -> Option<ReplicaStats> {
        let shard = self.broker.shard(self.broker.shard_of(queue));
        if shard.has_quarantined(queue) {
            return Some(ReplicaStats {
                role: "quarantined",
                membership: "unknown",
                ..ReplicaStats::default()
            });
        }
        let status = shard.replica_status(queue)?;
        let (group, commit_ms, counts) = (status.group, status.commit_ms, status.counts);
        let cluster = self.broker.cluster();
        let is_outdated = cluster.is_some_and(|cluster| cluster.missing_start().is_some());
        let stuck = group.members.iter().filter(|member| member.is_stuck);
        let is_here = |replica: &ReplicaId| replica.node() == self.broker.node_id();
        let members = &group.membership;
        Some(ReplicaStats {
            role: match group.role {
                Role::Leader => "leader",
                Role::Candidate => "candidate",
                Role::Follower => "follower",
            },
            stuck: stuck.map(|member| member.replica.node()).collect(),
            membership: if is_outdated {
                "outdated"
            } else if members.voters.iter().any(is_here) {
                "voter"
            } else if members.learners.iter().any(is_here) {
                "promotable"
            } else {
                "unknown"
            },
            term: group.term,
            last_index: group.last_index,
            written: group.durable,
            applied: group.applied,
            committed: group.commit,
            commit_ms,
            counts,
        })
    }

    pub(super) fn node_stats(&self) -> NodeStats {
        let resources = *self.timers_and_alarms.resources.read();
        let watermarks = *self.timers_and_alarms.watermarks.read();
        let alarms = self.broker.own_alarms();
        let process = process::usage();
        NodeStats {
            name: self.node_name(),
            cluster_name: self.cluster_name(),
            cluster_id: self.cluster_id(),
            os_pid: std::process::id(),
            uptime_ms: self.broker.now().monotonic_ms,
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory: MemoryUse {
                used_bytes: resources.memory_bytes,
                limit_bytes: watermarks.memory_bytes,
                total_bytes: settings::total_memory_bytes(&self.config),
                alarm: alarms.memory,
            },
            disk: DiskSpace {
                free_bytes: resources.disk_free_bytes,
                limit_bytes: watermarks.disk_free_bytes,
                alarm: alarms.disk,
            },
            descriptors: Descriptors {
                used: process.fds_used,
                max: process.fds_max,
                sockets: self.broker.connection_count() as u64,
            },
            cpu_ms: process.cpu_ms,
            files: NodeFiles {
                data: self.config.folders.root.clone(),
                logs: self
                    .config
                    .log
                    .file
                    .iter()
                    .map(|(path, _)| path.clone())
                    .collect(),
                config: self.config.files.clone(),
            },
            mechanisms: self.mechanisms(),
            plugins: BUILT_IN,
            tags: self.config.tags.clone(),
            listeners: self.listeners(),
            serving: self.broker.serving(),
            forgotten: self.broker.is_forgotten(),
            connections_max: self.config.limits.admission.connections as u64,
            certificates: certificates::expiries(&self.config),
            io: io_stats(),
        }
    }

    pub(super) fn memory_stats(&self) -> MemoryStats {
        let resident = process::resident();
        let mut memory = MemoryStats {
            resident_bytes: resident.bytes,
            program_bytes: resident.program_bytes,
            ..MemoryStats::default()
        };
        each_portion(&self.broker, &mut |portion| {
            let unsent = portion.iter().map(|connection| connection.unsent_bytes);
            memory.unsent_bytes += unsent.sum::<u64>();
        });
        (memory.live_bytes, memory.unused_bytes) = crate::memory::allocated();
        for shard in self.broker.shard_ids() {
            let stats = self.broker.shard(shard).logs.stats();
            memory.bodies_bytes += (stats.cached_bytes + stats.loaded_bytes) as u64;
            memory.index_bytes += stats.index_bytes as u64;
        }
        let local_stats = self.queue_local_stats();
        let catalogue = self.broker.catalogue();
        for (local_stats, _) in local_stats {
            let record = catalogue.queue(local_stats.id);
            let replicated = record.is_some_and(|queue| !queue.members().is_empty());
            let sum = match replicated {
                true => &mut memory.quorum_queue_bytes,
                false => &mut memory.classic_queue_bytes,
            };
            *sum += local_stats.counts.memory_bytes as u64;
        }
        memory
    }

    pub(super) fn disk_use(&self) -> DiskUse {
        let files = std::fs::read_dir(&self.config.folders.wal)
            .into_iter()
            .flatten();
        let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
        let wal = sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size));
        let aside = files_set_aside(&RealDisk::new(), &self.config.folders.store());
        let (set_aside_folder, aside) = aside.unwrap_or_default();
        let mut disk = DiskUse {
            wal,
            set_aside: (
                aside.len() as u64,
                aside.iter().map(|file| file.bytes).sum(),
            ),
            set_aside_folder: set_aside_folder.display().to_string(),
            ..DiskUse::default()
        };
        for id in self.broker.shard_ids() {
            let shard = self.broker.shard(id);
            let stats = shard.logs.stats();
            disk.segments.0 += stats.segment_files as u64;
            disk.segments.1 += stats.segment_bytes;
            disk.live_bytes += stats.segment_live_bytes;
            disk.queues
                .extend(shard.stored().into_iter().map(|(queue, stats)| {
                    let used = QueueDiskUse {
                        entries: stats.entries,
                        bytes: stats.bytes,
                        segment_entries: stats.segment_entries,
                        segment_bytes: stats.segment_bytes,
                    };
                    (queue, used)
                }));
        }
        for stream in self.stats_of_all_streams() {
            let standing = stream.stream.unwrap_or_default();
            disk.streams.0 += standing.segments;
            disk.streams.1 += stream.ready_bytes;
            let used = QueueDiskUse {
                entries: stream.ready,
                bytes: stream.ready_bytes,
                segment_entries: stream.ready,
                segment_bytes: stream.ready_bytes,
            };
            disk.queues.push((stream.id, used));
        }
        disk
    }

    pub(super) fn broker_stats(&self) -> BrokerStats {
        let counters = self.broker.counters().values();
        let there = self.there();
        let mut classic = MessageCounters {
            published: counters.messages_received,
            published_confirm: counters.messages_received_confirm,
            confirmed: counters.messages_confirmed,
            routed: counters.messages_routed,
            returned: counters.messages_unroutable_returned,
            dropped: counters.messages_unroutable_dropped,
            ..MessageCounters::default()
        };
        let mut quorum = MessageCounters::default();
        self.add_deliveries(&mut classic, &mut quorum);
        let kind = "classic";
        let traces = self.broker.settings().traces.as_deref();
        let spans = traces.map_or((0, 0), Traces::counts);
        BrokerStats {
            messages: vec![(kind, classic), ("quorum", quorum)],
            dead_lettered: vec![
                (kind, "expired", counters.messages_dead_lettered_expired),
                (kind, "rejected", counters.messages_dead_lettered_rejected),
                (kind, "maxlen", counters.messages_dead_lettered_maxlen),
                (
                    kind,
                    "delivery_limit",
                    counters.messages_dead_lettered_delivery_limit,
                ),
            ],
            messages_refused: counters.messages_refused,
            message_sizes: counters.message_sizes,
            message_bytes: counters.message_bytes,
            churn: churn(&counters),
            logins: self.logins(&counters),
            open: OpenCounts {
                connections: there.connections,
                channels: there.channels,
                consumers: there.consumers,
                publishers: there.publishers,
            },
            replicas: self.replica_sums(),
            latencies: latencies(&counters),
            spans: SpanCounts {
                exported: spans.0,
                dropped: spans.1,
            },
            stream: stream_protocol_stats(&counters, &there),
        }
    }

    fn logins(&self, counters: &CounterValues) -> LoginCounts {
        LoginCounts {
            amqp: (counters.logins_succeeded, counters.logins_failed),
            stream: (
                counters.stream_logins_succeeded,
                counters.stream_logins_failed,
            ),
            held: self.broker.logins.held().0,
        }
    }

    fn replica_sums(&self) -> ReplicaSums {
        let unfit = unfit_replicas(&self.broker);
        let shards = self.broker.shard_ids();
        let local = shards.map(|id| self.broker.shard(id).local_deliveries());
        let local = local.fold(LocalDeliveries::default(), |sum, of| LocalDeliveries {
            read: sum.read + of.read,
            read_bytes: sum.read_bytes + of.read_bytes,
            fetched: sum.fetched + of.fetched,
        });
        ReplicaSums {
            quarantined: unfit.quarantined,
            stuck: unfit.stuck,
            deliveries: local.read,
            delivered_bytes: local.read_bytes,
            fetches: local.fetched,
        }
    }

    /// Counts what clients have, a few connections at a time.
    fn there(&self) -> There {
        let mut there = There::default();
        each_portion(&self.broker, &mut |portion| {
            portion.iter().for_each(|connection| there.add(connection));
        });
        there
    }

    /// Adds what queues have delivered, by their type.
    fn add_deliveries(&self, classic: &mut MessageCounters, quorum: &mut MessageCounters) {
        for id in self.broker.shard_ids() {
            let mut shard = self.broker.shard(id);
            let counters = shard.counters();
            shard.release();
            for (sum, counters) in [
                (&mut *classic, counters.classic),
                (&mut *quorum, counters.quorum),
            ] {
                sum.delivered += counters.delivered;
                sum.delivered_auto_ack += counters.delivered_settled;
                sum.got += counters.got;
                sum.got_auto_ack += counters.got_settled;
                sum.got_empty += counters.got_empty;
                sum.redelivered += counters.redelivered;
                sum.acknowledged += counters.accepted;
            }
        }
    }
}

fn churn(counters: &CounterValues) -> Churn {
    Churn {
        connections_opened: counters.connections_opened,
        connections_closed: counters.connections_closed,
        channels_opened: counters.channels_opened,
        channels_closed: counters.channels_closed,
        queues_declared: counters.queues_declared,
        queues_created: counters.queues_created,
        queues_deleted: counters.queues_deleted,
    }
}

fn latencies(counters: &CounterValues) -> Latencies {
    Latencies {
        confirms: counters.confirms,
        stream_confirms: counters.stream_confirms,
        acknowledgements: counters.acknowledgements,
        waits: counters.waits,
    }
}

/// How much there is of what clients have.
#[derive(Default)]
struct There {
    connections: u64,
    channels: u64,
    consumers: u64,
    /// Connections that publish, but for those of the stream protocol.
    publishers: u64,
    stream_publishers: u64,
    stream_subscriptions: u64,
}

impl There {
    fn add(&mut self, connection: &ConnectionStatus) {
        self.connections += 1;
        self.channels += connection.channels.len() as u64;
        let consumers = connection.channels.iter().map(|of| of.queue_consumers);
        self.consumers += consumers.sum::<usize>() as u64;
        let publishes = connection.publishes && connection.protocol != STREAM_PROTOCOL;
        self.publishers += u64::from(publishes);
        self.stream_publishers += connection.stream_publishers.len() as u64;
        self.stream_subscriptions += connection.stream_subscriptions.len() as u64;
    }
}

/// What clients of the stream protocol did, and how many publishers and subscriptions they have.
fn stream_protocol_stats(counters: &CounterValues, there: &There) -> StreamProtocolStats {
    StreamProtocolStats {
        received: counters.stream_messages_received,
        confirmed: counters.stream_messages_confirmed,
        delivered: counters.stream_messages_delivered,
        publishers: there.stream_publishers,
        consumers: there.stream_subscriptions,
        errors: counters.stream_errors,
    }
}
/// Members of replicated queues that do not do what they are there for, as far as this node knows,
/// and replicas of streams that are fenced.
fn unfit_replicas(broker: &Broker) -> UnfitReplicas {
    let mut all = UnfitReplicas::default();
    let streams = broker.streams.stats().into_iter();
    all.quarantined += streams.filter(|(_, stats)| stats.fenced).count();
    for shard in broker.shard_ids() {
        let unfit = broker.shard(shard).unfit_replicas();
        all.quarantined += unfit.quarantined;
        all.stuck += unfit.stuck;
    }
    all
}

fn io_stats() -> IoStats {
    use leveret_shell::disk::{SYNC_SLOT_US, io_counts, log_counts, sync_slots};
    let (counts, slots, log) = (io_counts(), sync_slots(), log_counts());
    IoStats {
        reads: counts.reads.count,
        read_bytes: counts.reads.bytes,
        read_us: counts.reads.microseconds,
        writes: counts.writes.count,
        write_bytes: counts.writes.bytes,
        write_us: counts.writes.microseconds,
        syncs: counts.syncs.count,
        sync_us: counts.syncs.microseconds,
        log_batches: log.batches,
        log_bytes: log.bytes,
        log_files: log.files,
        sync_slots: std::array::from_fn(|at| (SYNC_SLOT_US[at], slots[at])),
    }
}
