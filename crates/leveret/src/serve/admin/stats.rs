//! What the node counts, in the management interface's words: queues, connections, memory, disks.
//! Apart because it only looks: nothing here changes the node or waits for it.

use super::Admin;
use crate::config::plugins::BUILT_IN;
use crate::serve::{certificates, process, settings};
use leveret_auth::Mechanism;
use leveret_cluster::{BorrowedShard as _, Env as _};
use leveret_management::Directory as _;
use leveret_management::api::{
    BrokerStats, ChannelStats, ConnectionContent, ConnectionStats, ConsumerStats, DiskUse,
    FlowStats, FlowsOf, IoStats, Listener, MemoryStats, MessageCounters, NodeStats, PublishedStats,
    QueueDiskUse, QueueStats, ReplicaStats, StreamConsumerStats, StreamProtocolStats,
    StreamPublisherStats, StreamStanding,
};
use leveret_metadata::{QueueKind, QueueRecord};
use leveret_node::traces::Traces;
use leveret_node::{ChannelStatus, ConnectionStatus, ConsumerStatus, CounterValues, Env};
use leveret_queue::Oldest;
use leveret_queue_host::quorum::LocalDeliveries;
use leveret_queue_host::quorum::replica::UnfitReplicas;
use leveret_queue_host::shard::{LocalQueueStats, Subscriber};
use leveret_replication::Role;
use leveret_shell::broker::Broker;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::{LISTED_MAX, Which, each_portion, some_connections};
use leveret_storage::files_set_aside;
use leveret_stream::StreamStats;
use leveret_types::{ConnectionId, ConsumerId, FieldValue, QueueId, ReplicaId};
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tags of consumers.
type Tags = HashMap<ConsumerId, String>;

impl Admin {
    /// The stats of the queues that are here, and whether each is a replica that does not lead.
    pub(super) fn queue_local_stats(&self) -> Vec<(LocalQueueStats, bool)> {
        let now = self.broker.now();
        let shards = self.broker.shard_ids();
        let of_shard = |id| {
            let shard = self.broker.shard(id);
            let local_stats = shard.all_local_stats(now);
            local_stats
                .map(|local_stats| {
                    let follows = shard.replica_leads(local_stats.id) == Some(false);
                    (local_stats, follows)
                })
                .collect::<Vec<_>>()
        };
        shards.flat_map(of_shard).collect()
    }

    /// Says of each queue that is led here its figures, but for tags of consumers: nobody is asked
    /// for these. Of all queues only ids are held.
    pub(super) fn each_led_queue(&self, see: &mut dyn FnMut(QueueStats)) {
        let mut ids = Vec::new();
        self.each_queue(None, &mut |id, _, _| {
            if !id.is_stream() {
                ids.push(id);
            }
        });
        for id in ids {
            if let Some(known) = self.local_stats_of(id).filter(|(_, follows)| !follows) {
                see(self.stats_of(&known, &Tags::new()));
            }
        }
        let streams = self.stats_of_all_streams().into_iter();
        streams.filter(|stream| !stream.follows).for_each(see);
    }

    /// Figures of the queues and streams in which something happened since this was asked last,
    /// each with its virtual host.
    pub(super) fn active_queue_stats(&self) -> Vec<(String, QueueStats)> {
        let mut active = Vec::new();
        for id in self.broker.shard_ids() {
            let mut shard = self.broker.shard(id);
            active.extend(shard.take_active());
            shard.release();
        }
        let known = active
            .iter()
            .filter_map(|queue| self.local_stats_of(*queue));
        // Nobody asks here whose consumers they are.
        let mut stats: Vec<QueueStats> = known
            .map(|known| self.stats_of(&known, &Tags::new()))
            .collect();
        stats.extend(self.stream_figures(self.broker.streams.take_active_stats()));
        let catalogue = self.broker.catalogue();
        let named = |stats: QueueStats| {
            let vhost = catalogue.queue(stats.id)?.vhost().to_owned();
            Some((vhost, stats))
        };
        stats.into_iter().filter_map(named).collect()
    }

    /// Says of each queue that is led here and not empty its virtual host, and how many messages it
    /// has: all, those that wait, those that are not settled.
    pub(super) fn each_depth(&self, see: &mut dyn FnMut(&str, [u64; 3])) {
        // The catalogue is not held for longer, as whoever changes it waits.
        const AT_ONCE: usize = 1_024;
        let streams = self.stats_of_all_streams().into_iter();
        let mut depths: Vec<(QueueId, [u64; 3])> = streams
            .filter(|stream| !stream.follows)
            .map(|stream| (stream.id, [stream.ready, stream.ready, 0]))
            .collect();
        for id in self.broker.shard_ids() {
            depths.extend(self.broker.shard(id).depths());
        }
        for some in depths.chunks(AT_ONCE) {
            let catalogue = self.broker.catalogue();
            for (queue, depths) in some {
                if let Some(record) = catalogue.queue(*queue) {
                    see(record.vhost(), *depths);
                }
            }
        }
    }

    /// The same of one queue; none where it is not here.
    pub(super) fn local_stats_of(&self, queue: QueueId) -> Option<(LocalQueueStats, bool)> {
        let shard = self.broker.shard(self.broker.shard_of(queue));
        let follows = shard.replica_leads(queue) == Some(false);
        Some((shard.local_stats(self.broker.now(), queue)?, follows))
    }

    /// Figures of the streams that are here.
    fn stats_of_all_streams(&self) -> Vec<QueueStats> {
        self.stream_figures(self.broker.streams.stats())
    }

    /// Figures of these streams, as far as they are here.
    pub(super) fn stats_of_streams(&self, streams: Vec<QueueId>) -> Vec<QueueStats> {
        self.stream_figures(self.broker.streams.stats_of(streams))
    }

    /// What clients of AMQP here were delivered of a stream, and acknowledged.
    fn deliveries_of(&self, stream: QueueId) -> MessageCounters {
        let counted = self.broker.counters().stream_deliveries.get(stream);
        counted.map_or_else(MessageCounters::default, |counted| MessageCounters {
            delivered: counted.delivered.load(Ordering::Relaxed),
            delivered_auto_ack: counted.delivered_auto_ack.load(Ordering::Relaxed),
            acknowledged: counted.acknowledged.load(Ordering::Relaxed),
            ..MessageCounters::default()
        })
    }

    fn stream_figures(&self, streams: Vec<(QueueId, StreamStats)>) -> Vec<QueueStats> {
        let (catalogue, own) = (self.broker.catalogue(), self.broker.node_id());
        let stats = streams.into_iter().map(|(id, stream)| {
            let leader = catalogue.queue(id).map(QueueRecord::home);
            let first = stream.first_chunk.unwrap_or_default();
            let messages = stream
                .committed_offset
                .map_or(0, |last| (last + 1).saturating_sub(first));
            QueueStats {
                id,
                ready: messages,
                ready_bytes: stream.bytes,
                persistent: messages,
                persistent_bytes: stream.bytes,
                consumers: stream.readers,
                stream: Some(StreamStanding {
                    first_offset: stream.first_chunk,
                    committed_offset: stream.committed_offset,
                    last_offset: stream.last_offset,
                    segments: stream.segments,
                    held_bytes: stream.held_bytes,
                    readers: stream.readers,
                    publishers: stream.publishers,
                }),
                // Each message took an offset, also those that are gone.
                messages: MessageCounters {
                    published: stream.committed_offset.map_or(0, |last| last + 1),
                    ..self.deliveries_of(id)
                },
                follows: leader.is_some_and(|leader| leader != own),
                damaged: stream.damaged,
                ..QueueStats::default()
            }
        });
        stats.collect()
    }

    /// Local stats as the API has them. Connections are asked for their consumers' tags only where
    /// a queue shows one, and no others than those that have these consumers.
    pub(super) fn stats_of_all(&self, local_stats: &[(LocalQueueStats, bool)]) -> Vec<QueueStats> {
        let tags = self.tags_shown(local_stats);
        let stats = local_stats
            .iter()
            .map(|local_stats| self.stats_of(local_stats, &tags));
        let with_waiting = |stats: QueueStats| {
            let shard = self.broker.shard(self.broker.shard_of(stats.id));
            let waiting = shard.waiting(stats.id);
            QueueStats {
                waiting: waiting.map(|waiting| (waiting.by_priority_log, waiting.returned)),
                ..stats
            }
        };
        stats.map(with_waiting).collect()
    }

    /// The tags of the consumers of this node's clients that are named in figures of their queues.
    fn tags_shown(&self, local_stats: &[(LocalQueueStats, bool)]) -> Tags {
        let (mut shown, mut clients) = (HashSet::new(), Vec::new());
        for (local_stats, _) in local_stats {
            let active = local_stats.counts.active;
            for (view, subscriber) in &local_stats.consumers {
                let id = view.consumer.id;
                if let Subscriber::Client(client) = subscriber
                    && (view.consumer.exclusive || active == Some(id))
                {
                    shown.insert(id);
                    clients.push(*client);
                }
            }
        }
        if shown.is_empty() {
            return Tags::new();
        }
        clients.sort_unstable();
        clients.dedup();
        let connections = some_connections(&self.broker, &Which::These(clients.into()));
        let consumers = connections.into_iter().flat_map(|of| of.consumers);
        let consumers = consumers.filter(|consumer| shown.contains(&consumer.id));
        consumers
            .map(|consumer| (consumer.id, consumer.tag))
            .collect()
    }

    fn stats_of(
        &self,
        (local_stats, follows): &(LocalQueueStats, bool),
        tags: &Tags,
    ) -> QueueStats {
        let (counts, counters) = (&local_stats.counts, &local_stats.counters);
        let tag = |consumer: ConsumerId| tags.get(&consumer).cloned();
        let exclusive = local_stats
            .consumers
            .iter()
            .find(|(view, _)| view.consumer.exclusive);
        let age_ms = self.broker.now().monotonic_ms.max(1);
        let catalogue = self.broker.catalogue();
        let record = catalogue.queue(local_stats.id);
        // A classic queue's count as gone once they are on their way.
        let stay = record.is_some_and(|record| record.kind() == QueueKind::Quorum);
        let (dead_letters, dead_letter_bytes) = match stay {
            true => (counts.leaving, counts.leaving_bytes),
            false => (0, 0),
        };
        QueueStats {
            id: local_stats.id,
            follows: *follows,
            ready: counts.ready,
            unacknowledged: counts.unsettled,
            ready_bytes: counts.ready_bytes,
            unacknowledged_bytes: counts.unsettled_bytes,
            dead_letters,
            dead_letter_bytes,
            persistent: if local_stats.durable {
                counts.ready + counts.unsettled + dead_letters
            } else {
                0
            },
            persistent_bytes: if local_stats.durable {
                counts.ready_bytes + counts.unsettled_bytes + dead_letter_bytes
            } else {
                0
            },
            memory_bytes: counts.memory_bytes as u64,
            consumers: counts.consumers as u64,
            consumer_capacity: (counts.able_ms as f64 / age_ms as f64).min(1.0),
            exclusive_consumer_tag: exclusive.and_then(|(view, _)| tag(view.consumer.id)),
            single_active_consumer_tag: counts.active.and_then(tag),
            oldest_ms: match local_stats.oldest {
                Oldest::Published(ms) => Some(ms),
                Oldest::None | Oldest::Unknown { .. } => None,
            },
            owner: record.and_then(|queue| queue.exclusive()),
            damaged: counts.damaged > 0,
            messages: MessageCounters {
                published: counters.enqueued,
                delivered: counters.delivered,
                delivered_auto_ack: counters.delivered_settled,
                got: counters.got,
                got_auto_ack: counters.got_settled,
                got_empty: counters.got_empty,
                redelivered: counters.redelivered,
                acknowledged: counters.accepted,
                ..MessageCounters::default()
            },
            ..QueueStats::default()
        }
    }

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
            memory_used_bytes: resources.memory_bytes,
            memory_limit_bytes: watermarks.memory_bytes,
            memory_total_bytes: settings::total_memory_bytes(&self.config),
            memory_alarm: alarms.memory,
            disk_free_bytes: resources.disk_free_bytes,
            disk_limit_bytes: watermarks.disk_free_bytes,
            disk_alarm: alarms.disk,
            fds_used: process.fds_used,
            fds_max: process.fds_max,
            sockets_used: self.broker.connection_count() as u64,
            cpu_ms: process.cpu_ms,
            data_dir: self.config.folders.root.clone(),
            log_files: self
                .config
                .log
                .file
                .iter()
                .map(|(path, _)| path.clone())
                .collect::<Vec<PathBuf>>(),
            config_files: self.config.files.clone(),
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
        let unfit = unfit_replicas(&self.broker);
        let kind = "classic";
        let shards = self.broker.shard_ids();
        let local = shards.map(|id| self.broker.shard(id).local_deliveries());
        let local = local.fold(LocalDeliveries::default(), |sum, of| LocalDeliveries {
            read: sum.read + of.read,
            read_bytes: sum.read_bytes + of.read_bytes,
            fetched: sum.fetched + of.fetched,
        });
        let traces = self.broker.settings().traces.as_deref();
        let spans = traces.map_or((0, 0), Traces::counts);
        BrokerStats {
            trace_spans_exported: spans.0,
            trace_spans_dropped: spans.1,
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
            connections_opened: counters.connections_opened,
            connections_closed: counters.connections_closed,
            channels_opened: counters.channels_opened,
            channels_closed: counters.channels_closed,
            queues_declared: counters.queues_declared,
            queues_created: counters.queues_created,
            queues_deleted: counters.queues_deleted,
            logins_succeeded: counters.logins_succeeded,
            logins_failed: counters.logins_failed,
            stream_logins_succeeded: counters.stream_logins_succeeded,
            stream_logins_failed: counters.stream_logins_failed,
            logins_held: self.broker.logins.held().0,
            connections: there.connections,
            channels: there.channels,
            consumers: there.consumers,
            publishers: there.publishers,
            replicas_quarantined: unfit.quarantined,
            replicas_stuck: unfit.stuck,
            replica_deliveries: local.read,
            replica_delivered_bytes: local.read_bytes,
            replica_fetches: local.fetched,
            message_sizes: counters.message_sizes,
            message_bytes: counters.message_bytes,
            confirms: counters.confirms,
            stream_confirms: counters.stream_confirms,
            waits: counters.waits,
            acknowledgements: counters.acknowledgements,
            stream: stream_protocol_stats(&counters, &there),
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

    /// A connection that has logged in.
    pub(super) fn content_of_connection(&self, name: &str) -> Option<ConnectionContent> {
        let mut known = some_connections(&self.broker, &Which::Named(name.into()));
        known.retain(|connection| !connection.vhost.is_empty());
        let status = known.into_iter().min_by_key(|connection| connection.id)?;
        self.content_of(status)
    }

    /// What is in a connection; none where it has not logged in.
    fn content_of(&self, status: ConnectionStatus) -> Option<ConnectionContent> {
        (!status.vhost.is_empty()).then(|| ConnectionContent {
            channels: channel_stats(&status).collect(),
            consumers: self.consumers_in(&status),
            published: published_stats(&status),
            connection: connection_stats(status),
        })
    }

    /// Shows all connections that have logged in.
    pub(super) fn each_content(&self, see: &mut dyn FnMut(ConnectionContent)) {
        each_portion(&self.broker, &mut |portion| {
            let contents = portion
                .into_iter()
                .filter_map(|status| self.content_of(status));
            contents.for_each(&mut *see);
        });
    }

    /// Those of these connections that are there. Their threads copy a few in one turn.
    pub(super) fn contents_of(&self, ids: &[ConnectionId]) -> Vec<ConnectionContent> {
        let some = |ids: &[ConnectionId]| some_connections(&self.broker, &Which::These(ids.into()));
        let found = ids.chunks(LISTED_MAX).flat_map(some);
        found.filter_map(|status| self.content_of(status)).collect()
    }

    pub(super) fn flows_of(&self, of: FlowsOf<'_>) -> Vec<FlowStats> {
        let flows = self.broker.registry().flows();
        let flows = match of {
            FlowsOf::Node => flows.all(None),
            FlowsOf::Vhost(vhost) => flows.all(Some(vhost)),
            FlowsOf::Queue(queue) => flows.to_queue(queue),
            FlowsOf::Exchange { vhost, exchange } => flows.from_exchange(vhost, exchange),
        };
        let stats = flows.iter().map(|flow| FlowStats {
            vhost: Arc::clone(&flow.vhost),
            exchange: Arc::clone(&flow.exchange),
            queue: flow.queue,
            queue_name: Arc::clone(&flow.queue_name),
            messages: flow.messages(),
        });
        stats.collect()
    }

    pub(super) fn consumers_of_queue(
        &self,
        queue: QueueId,
    ) -> Vec<(ConnectionStats, ConsumerStats)> {
        let mut found = Vec::new();
        for mut status in some_connections(&self.broker, &Which::Consuming(queue)) {
            status.consumers.retain(|consumer| consumer.queue == queue);
            let subscriptions = &mut status.stream_subscriptions;
            subscriptions.retain(|subscription| subscription.stream == queue);
            let consumers = self.consumers_in(&status);
            let connection = connection_stats(status);
            found.extend(consumers.into_iter().map(|of| (connection.clone(), of)));
        }
        found
    }

    fn consumers_in(&self, connection: &ConnectionStatus) -> Vec<ConsumerStats> {
        let now = self.broker.now();
        let at_queue = |consumer: &ConsumerStatus| {
            let (queue, id) = (consumer.queue, consumer.id);
            let shard = self.broker.shard(self.broker.shard_of(queue));
            let (held, since_ms) = shard.held_by(queue, id);
            // A classic queue with a timeout knows it too, to the second, rounded up.
            let since_ms = [consumer.oldest_held_ms, since_ms]
                .into_iter()
                .flatten()
                .min();
            let age_ms = since_ms.map(|since| now.monotonic_ms.saturating_sub(since));
            let since_ms = age_ms.map(|age| now.wall_ms.saturating_sub(age));
            (shard.single_active(queue, id), held, since_ms)
        };
        let consumers = connection.consumers.iter().map(|consumer| {
            let (single_active, held, since_ms) = at_queue(consumer);
            ConsumerStats {
                connection: connection.id,
                channel: consumer.channel.0,
                queue: consumer.queue,
                tag: consumer.tag.clone(),
                ack_required: consumer.ack_required,
                exclusive: consumer.exclusive,
                prefetch: consumer.prefetch,
                single_active,
                unacknowledged: held,
                oldest_unacknowledged_ms: since_ms,
                arguments: consumer.arguments.to_table(),
                delivered: consumer.delivered.messages,
                redelivered: consumer.delivered.redelivered,
                acknowledged: consumer.acknowledged,
            }
        });
        let subscriptions = connection.stream_subscriptions.iter();
        let of_streams = subscriptions.map(|subscription| ConsumerStats {
            connection: connection.id,
            channel: 0,
            queue: subscription.stream,
            tag: format!("stream.subid-{}", subscription.id),
            single_active: subscription.single_active.then_some(subscription.active),
            arguments: subscription
                .properties
                .iter()
                .map(|(key, value)| (key.clone(), FieldValue::text(value)))
                .collect(),
            ..ConsumerStats::default()
        });
        consumers.chain(of_streams).collect()
    }
}

impl Admin {
    pub(super) fn all_stream_publishers(&self) -> Vec<StreamPublisherStats> {
        let of_one = |connection: &ConnectionStatus| {
            let id = connection.id;
            let publishers = connection.stream_publishers.iter();
            let stats = publishers.map(move |publisher| StreamPublisherStats {
                connection: id,
                id: publisher.id,
                queue: publisher.stream,
                reference: publisher.reference.clone(),
                published: publisher.published,
                confirmed: publisher.confirmed,
                errored: publisher.errored,
            });
            stats.collect::<Vec<_>>()
        };
        let mut all = Vec::new();
        each_portion(&self.broker, &mut |portion| {
            all.extend(portion.iter().flat_map(of_one));
        });
        all
    }

    pub(super) fn all_stream_consumers(&self) -> Vec<StreamConsumerStats> {
        // They are looked at where anybody reads one.
        let streams = LazyCell::new(|| {
            let stats = self.broker.streams.stats().into_iter();
            stats.collect::<HashMap<QueueId, StreamStats>>()
        });
        let of_one = |connection: &ConnectionStatus| {
            let subscriptions = connection.stream_subscriptions.iter();
            let stats = subscriptions.map(|subscription| {
                let stream = streams.get(&subscription.stream);
                let last = stream.and_then(|stream| stream.last_record);
                // The offsets that it has not been sent, of those that are there.
                let first = stream
                    .and_then(|stream| stream.first_chunk)
                    .unwrap_or_default();
                let next = subscription.offset.map_or(first, |offset| offset + 1);
                StreamConsumerStats {
                    connection: connection.id,
                    id: subscription.id,
                    queue: subscription.stream,
                    credits: subscription.credits,
                    consumed: subscription.consumed,
                    offset: subscription.offset.unwrap_or_default(),
                    offset_lag: last.map_or(0, |last| (last + 1).saturating_sub(next)),
                    single_active: subscription.single_active,
                    active: subscription.active,
                    properties: subscription.properties.clone(),
                }
            });
            stats.collect::<Vec<_>>()
        };
        let mut all = Vec::new();
        each_portion(&self.broker, &mut |portion| {
            all.extend(portion.iter().flat_map(of_one));
        });
        all
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
        self.consumers += connection.consumers.len() as u64;
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

/// What connections of the stream protocol say that they speak.
const STREAM_PROTOCOL: &str = "stream";

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
    use leveret_shell::disk::{SYNC_SLOT_US, io_counts, sync_slots};
    let (counts, slots) = (io_counts(), sync_slots());
    IoStats {
        reads: counts.reads.count,
        read_bytes: counts.reads.bytes,
        read_us: counts.reads.microseconds,
        writes: counts.writes.count,
        write_bytes: counts.writes.bytes,
        write_us: counts.writes.microseconds,
        syncs: counts.syncs.count,
        sync_us: counts.syncs.microseconds,
        sync_slots: std::array::from_fn(|at| (SYNC_SLOT_US[at], slots[at])),
    }
}

pub(super) fn connection_stats(local_stats: ConnectionStatus) -> ConnectionStats {
    let name = local_stats.client_properties.get("connection_name");
    ConnectionStats {
        id: local_stats.id,
        protocol: local_stats.protocol,
        user_provided_name: name.and_then(|name| name.as_text()).map(str::to_owned),
        name: local_stats.name,
        user: local_stats.user,
        vhost: local_stats.vhost,
        local: Some(local_stats.peer.local),
        peer: Some(local_stats.peer.remote),
        tls: local_stats
            .tls
            .map(|(version, suite)| (version, suite, String::new())),
        mechanism: local_stats.mechanism,
        state: local_stats.state,
        channels: local_stats.channels.len() as u64,
        channels_max: local_stats.channel_max,
        frame_bytes_max: local_stats.frame_max,
        heartbeat_seconds: local_stats.heartbeat_seconds,
        client_properties: local_stats.client_properties,
        connected_at_ms: local_stats.connected_at_ms,
        received_bytes: local_stats.received_bytes,
        sent_bytes: local_stats.sent_bytes,
        pending_bytes: local_stats.unsent_bytes,
        ..ConnectionStats::default()
    }
}

pub(super) fn channel_stats(
    connection: &ConnectionStatus,
) -> impl Iterator<Item = ChannelStats> + '_ {
    connection.channels.iter().map(|channel| ChannelStats {
        connection: connection.id,
        number: channel.number.0,
        consumers: channel.consumers as u64,
        unacknowledged: channel.unacknowledged as u64,
        unconfirmed: channel.unconfirmed as u64,
        uncommitted: channel.uncommitted as u64,
        uncommitted_settles: channel.uncommitted_acks as u64,
        prefetch: channel.prefetch,
        global_prefetch: channel.global_prefetch,
        confirm: channel.confirm,
        transactional: channel.transactional,
        state: "running",
        messages: channel_counters(channel),
        ..ChannelStats::default()
    })
}

fn published_stats(connection: &ConnectionStatus) -> Vec<PublishedStats> {
    let published = connection.published.iter().map(|published| PublishedStats {
        channel: published.channel.0,
        exchange: Arc::clone(&published.exchange),
        messages: published.messages,
        queues: published.queues.clone(),
    });
    published.collect()
}

fn channel_counters(channel: &ChannelStatus) -> MessageCounters {
    let counters = &channel.counters;
    MessageCounters {
        published: counters.published,
        published_confirm: if channel.confirm {
            counters.published
        } else {
            0
        },
        confirmed: counters.confirmed,
        returned: counters.returned,
        delivered: counters.delivered,
        delivered_auto_ack: counters.delivered_auto_ack,
        got: counters.got,
        got_auto_ack: counters.got_auto_ack,
        got_empty: counters.got_empty,
        redelivered: counters.redelivered,
        acknowledged: counters.acknowledged,
        ..MessageCounters::default()
    }
}
