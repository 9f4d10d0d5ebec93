//! The node as the management interface sees it.

use super::log::Logs;
use super::{cluster, messages, reports};
use crate::config::{Config, LogLevel};
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_auth::{is_loopback, verify_login};
use leveret_management::api::{
    Actor, AfterGet, BrokerStats, Changed, ChannelStats, ConnectionStats, ConsumerStats, Get, Got,
    IoStats, Level, Listener, Login, MemoryStats, MessageCounters, NodeStats, Publish, QueueStats,
    ReplicaStats, Topology,
};
use leveret_management::cluster::{ClusterChange, ClusterView};
use leveret_management::keeper::{ExecuteError, Keeper, MakeCommands};
use leveret_management::{Bound, Running, Service};
use leveret_metadata::Catalogue;
use leveret_node::quorum::LocalDeliveries;
use leveret_node::shard::QueueFacts;
use leveret_node::{Caller, ConnectionFacts, Env, Question, QueueAnswer, Ticket, operator};
use leveret_queue::Outcome;
use leveret_replication::Role;
use leveret_session::contract::{Reply, Topology as Operation};
use leveret_shell::broker::Broker;
use leveret_shell::housekeeping::{Housekeeping, Watermarks};
use leveret_shell::node::{close_connection, connections, set_listening};
use leveret_types::{ConnectionId, NodeId, ProtocolError, QueueId, ReplicaId, ReplyCode};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long an operator's command waits for the log before it is said to have failed.
const DURABLE_WAIT: Duration = Duration::from_secs(30);
/// How long a message may take to be read from disk.
const READ_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_micros(300);

/// A connection id that no client has: operators' declarations belong to nobody.
const NOBODY: ConnectionId = ConnectionId(0);

/// A running node.
pub struct Admin {
    /// The node.
    pub broker: Arc<Broker>,
    /// Its memory and disks.
    pub housekeeping: Arc<Housekeeping>,
    /// Identity of its store.
    pub uuid: [u8; 16],
    /// Its configuration.
    pub config: Config,
    /// The same, key by key, as operators know it.
    pub effective: Vec<(String, String)>,
    /// Its log.
    pub logs: Logs,
    /// What it listens on, once that is known.
    pub listening: Arc<OnceLock<Vec<Listener>>>,
}

impl Admin {
    fn wait(&self, tickets: impl IntoIterator<Item = Ticket>) -> Result<(), ProtocolError> {
        let deadline = Instant::now() + DURABLE_WAIT;
        for ticket in tickets {
            while self.broker.durable(ticket.shard) < ticket.chunk {
                if Instant::now() > deadline {
                    return Err(ProtocolError::channel(
                        ReplyCode::ResourceError,
                        "the write-ahead log has not taken the change; is the disk full?",
                    ));
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    fn caller(&self, actor: Actor<'_>, vhost: &str) -> Caller {
        let rights = match actor {
            Actor::Operator => None,
            Actor::User(user) => Some(self.broker.catalogue().rights(user, vhost, "")),
        };
        Caller {
            connection: NOBODY,
            vhost: vhost.to_owned(),
            rights,
        }
    }

    /// Facts about the queues that are here, and whether each is a replica that does not lead.
    fn queue_facts(&self) -> Vec<(QueueFacts, bool)> {
        let now = self.broker.now();
        let shards = self.broker.shard_ids();
        let of_shard = |id| {
            let shard = self.broker.shard(id);
            let facts = shard.all_facts(now);
            facts
                .map(|facts| {
                    let follows = shard.replica_leads(facts.id) == Some(false);
                    (facts, follows)
                })
                .collect::<Vec<_>>()
        };
        shards.flat_map(of_shard).collect()
    }

    fn stats_of(
        &self,
        (facts, follows): &(QueueFacts, bool),
        connections: &[ConnectionFacts],
    ) -> QueueStats {
        let (counts, counters) = (&facts.counts, &facts.counters);
        let tag = |consumer: leveret_types::ConsumerId| {
            connections
                .iter()
                .flat_map(|connection| &connection.consumers)
                .find(|known| known.id == consumer)
                .map(|known| known.tag.clone())
        };
        let exclusive = facts
            .consumers
            .iter()
            .find(|(view, _)| view.consumer.exclusive);
        let age_ms = self.broker.now().monotonic_ms.max(1);
        QueueStats {
            id: facts.id,
            follows: *follows,
            ready: counts.ready,
            unacknowledged: counts.unsettled,
            ready_bytes: counts.ready_bytes,
            unacknowledged_bytes: counts.unsettled_bytes,
            persistent: if facts.durable {
                counts.ready + counts.unsettled
            } else {
                0
            },
            persistent_bytes: if facts.durable {
                counts.ready_bytes + counts.unsettled_bytes
            } else {
                0
            },
            memory_bytes: counts.memory_bytes as u64,
            consumers: counts.consumers as u64,
            consumer_capacity: (counts.able_ms as f64 / age_ms as f64).min(1.0),
            exclusive_consumer_tag: exclusive.and_then(|(view, _)| tag(view.consumer.id)),
            single_active_consumer_tag: counts.active.and_then(tag),
            owner: self
                .broker
                .catalogue()
                .queue(facts.id)
                .and_then(|queue| queue.exclusive()),
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

    /// The name that an operator gave the cluster, or the configuration's.
    fn cluster_name(&self) -> String {
        let catalogue = self.broker.catalogue();
        let mut named = catalogue.global_parameters();
        let given = named.find(|(name, _)| *name == "cluster_name");
        let given = given
            .and_then(|(_, value)| value.as_text())
            .map(str::to_owned);
        given.unwrap_or_else(|| self.config.cluster_name.clone())
    }

    fn watermark(&self, level: Level) -> u64 {
        let total = super::settings::total_memory_bytes(&self.config);
        match level {
            Level::Relative(part) => (total as f64 * part) as u64,
            Level::Absolute(bytes) => bytes,
        }
    }

    fn change_watermarks(&self, change: impl FnOnce(&mut Watermarks)) {
        change(&mut self.housekeeping.watermarks.write());
        self.housekeeping.look(&self.broker);
    }
}

impl Keeper for Admin {
    fn with_catalogue(&self, read: &mut dyn FnMut(&Catalogue)) {
        read(&self.broker.catalogue());
    }

    fn execute(&self, by: &str, make: MakeCommands<'_>) -> Result<(), ExecuteError> {
        let now = self.broker.now();
        let (tickets, result) = self.broker.execute_all(now, make);
        self.broker.run_deferred_work();
        self.wait(tickets)
            .map_err(|error| ExecuteError::Failed(error.text.into_owned()))?;
        tracing::info!(
            by,
            refused = result.is_err(),
            "catalogue changed by the management API"
        );
        result.map_err(ExecuteError::from)
    }

    fn salt(&self) -> [u8; SALT_BYTES_GIVEN] {
        self.broker.random()
    }

    fn shards(&self) -> u16 {
        self.broker.settings().shard_count
    }
}

impl Admin {
    /// The node's name, as the cluster's other nodes show it.
    fn node_name(&self) -> String {
        let label = self.broker.catalogue().node_label(self.broker.node_id());
        label.unwrap_or_else(|| self.config.node_name.clone())
    }
}

impl Running for Admin {
    fn cluster(&self) -> Option<ClusterView> {
        cluster::view(&self.broker)
    }

    fn change_cluster(&self, change: &ClusterChange) -> Result<usize, String> {
        cluster::change(&self.broker, change)
    }

    fn ask_peers(&self, what: &str) -> Vec<(NodeId, Vec<u8>)> {
        reports::ask_others(&self.broker, what)
    }

    fn leaderless_queues(&self) -> Vec<(String, String)> {
        cluster::leaderless_queues(&self.broker)
    }

    fn critical_queues(&self) -> Vec<(String, String)> {
        cluster::critical_queues(&self.broker)
    }

    fn replica(&self, queue: QueueId) -> Option<ReplicaStats> {
        let shard = self.broker.shard(self.broker.shard_of(queue));
        let group = shard.replica_status(queue)?.group;
        let is_here = |replica: &ReplicaId| replica.node() == self.broker.node_id();
        let members = &group.membership;
        Some(ReplicaStats {
            role: match group.role {
                Role::Leader => "leader",
                Role::Candidate => "candidate",
                Role::Follower => "follower",
            },
            membership: if members.voters.iter().any(is_here) {
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
        })
    }

    fn queue_leader(&self, queue: QueueId) -> Option<NodeId> {
        let shard = self.broker.shard(self.broker.shard_of(queue));
        shard.replica_leader(queue)
    }

    fn is_up(&self, node: NodeId) -> bool {
        node == self.broker.node_id() || self.broker.peers().is_up(node)
    }

    fn cluster_size(&self) -> (usize, usize) {
        let nodes = self.broker.catalogue().nodes().len().max(1);
        (1 + self.broker.peers().up().len(), nodes)
    }

    fn authenticate(&self, login: Login<'_>) -> bool {
        let hash = {
            let catalogue = self.broker.catalogue();
            catalogue
                .user(login.user)
                .map(|user| user.password().clone())
        };
        let hashing = self.broker.settings().hashing;
        let right = verify_login(hash.as_ref(), login.password.as_bytes(), hashing);
        let loopback = self
            .broker
            .catalogue()
            .check_loopback(login.user, Some(login.from))
            .is_ok();
        if right && !loopback {
            tracing::warn!(
                user = login.user,
                from = %login.from,
                local = is_loopback(login.from),
                "login refused: this user may only come from this host",
            );
        }
        right && loopback
    }

    fn node_stats(&self) -> NodeStats {
        let resources = *self.housekeeping.resources.read();
        let watermarks = *self.housekeeping.watermarks.read();
        let alarms = self.broker.alarms();
        let process = super::process::usage();
        NodeStats {
            name: self.node_name(),
            cluster_name: self.cluster_name(),
            cluster_id: super::process::uuid_text(self.uuid),
            os_pid: std::process::id(),
            uptime_ms: self.broker.now().monotonic_ms,
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_used_bytes: resources.memory_bytes,
            memory_limit_bytes: watermarks.memory_bytes,
            memory_total_bytes: super::settings::total_memory_bytes(&self.config),
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
            listeners: self.listeners(),
            serving: self.broker.serving(),
            connections_max: self.config.limits.admission.connections as u64,
            certificates: super::certificates::expiries(&self.config),
            io: io_stats(),
        }
    }

    fn memory(&self) -> MemoryStats {
        let connections = connections(&self.broker);
        let resident = super::process::resident();
        let mut memory = MemoryStats {
            resident_bytes: resident.bytes,
            program_bytes: resident.program_bytes,
            unsent_bytes: connections.iter().map(|c| c.unsent_bytes).sum(),
            ..MemoryStats::default()
        };
        (memory.live_bytes, memory.unused_bytes) = crate::memory::allocated();
        for shard in self.broker.shard_ids() {
            let stats = self.broker.shard(shard).logs.stats();
            memory.bodies_bytes += (stats.cached_bytes + stats.loaded_bytes) as u64;
            memory.index_bytes += stats.index_bytes as u64;
        }
        let facts = self.queue_facts();
        let catalogue = self.broker.catalogue();
        for (facts, _) in facts {
            let record = catalogue.queue(facts.id);
            let replicated = record.is_some_and(|queue| !queue.members().is_empty());
            let sum = match replicated {
                true => &mut memory.quorum_queue_bytes,
                false => &mut memory.classic_queue_bytes,
            };
            *sum += facts.counts.memory_bytes as u64;
        }
        memory
    }

    fn broker_stats(&self) -> BrokerStats {
        let counters = self.broker.counters().values();
        let connections = connections(&self.broker);
        let mut classic = MessageCounters {
            published: counters.messages_received,
            published_confirm: counters.messages_received_confirm,
            confirmed: counters.messages_confirmed,
            routed: counters.messages_routed,
            returned: counters.messages_unroutable_returned,
            dropped: counters.messages_unroutable_dropped,
            ..MessageCounters::default()
        };
        for (facts, _) in self.queue_facts() {
            classic.delivered += facts.counters.delivered;
            classic.delivered_auto_ack += facts.counters.delivered_settled;
            classic.got += facts.counters.got;
            classic.got_auto_ack += facts.counters.got_settled;
            classic.got_empty += facts.counters.got_empty;
            classic.redelivered += facts.counters.redelivered;
            classic.acknowledged += facts.counters.accepted;
        }
        let kind = "rabbit_classic_queue";
        let shards = self.broker.shard_ids();
        let local = shards.map(|id| self.broker.shard(id).local_deliveries());
        let local = local.fold(LocalDeliveries::default(), |sum, of| LocalDeliveries {
            read: sum.read + of.read,
            read_bytes: sum.read_bytes + of.read_bytes,
            fetched: sum.fetched + of.fetched,
        });
        BrokerStats {
            messages: vec![(kind, classic)],
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
            connections_opened: counters.connections_opened,
            connections_closed: counters.connections_closed,
            channels_opened: counters.channels_opened,
            channels_closed: counters.channels_closed,
            queues_declared: counters.queues_declared,
            queues_created: counters.queues_created,
            queues_deleted: counters.queues_deleted,
            logins_succeeded: counters.logins_succeeded,
            logins_failed: counters.logins_failed,
            connections: connections.len() as u64,
            channels: connections.iter().map(|c| c.channels.len() as u64).sum(),
            consumers: connections.iter().map(|c| c.consumers.len() as u64).sum(),
            publishers: connections.iter().filter(|c| c.publishes).count() as u64,
            replica_deliveries: local.read,
            replica_delivered_bytes: local.read_bytes,
            replica_fetches: local.fetched,
        }
    }

    fn queues(&self) -> Vec<QueueStats> {
        let connections = connections(&self.broker);
        self.queue_facts()
            .iter()
            .map(|facts| self.stats_of(facts, &connections))
            .collect()
    }

    fn queue(&self, queue: QueueId) -> Option<QueueStats> {
        let now = self.broker.now();
        let facts = {
            let shard = self.broker.shard(self.broker.shard_of(queue));
            let follows = shard.replica_leads(queue) == Some(false);
            (shard.facts(now, queue)?, follows)
        };
        Some(self.stats_of(&facts, &connections(&self.broker)))
    }

    fn connections(&self) -> Vec<ConnectionStats> {
        let known = connections(&self.broker);
        known
            .into_iter()
            .filter(|c| !c.vhost.is_empty())
            .map(connection_stats)
            .collect()
    }

    fn channels(&self) -> Vec<ChannelStats> {
        let known = connections(&self.broker);
        known.iter().flat_map(channel_stats).collect()
    }

    fn consumers(&self) -> Vec<ConsumerStats> {
        let single_active = |queue, consumer| {
            let shard = self.broker.shard(self.broker.shard_of(queue));
            shard.single_active(queue, consumer)
        };
        let known = connections(&self.broker);
        let consumers = known.iter().flat_map(|connection| {
            connection.consumers.iter().map(|consumer| ConsumerStats {
                connection: connection.id,
                channel: consumer.channel.0,
                queue: consumer.queue,
                tag: consumer.tag.clone(),
                ack_required: consumer.ack_required,
                exclusive: consumer.exclusive,
                prefetch: consumer.prefetch,
                single_active: single_active(consumer.queue, consumer.id),
                arguments: consumer.arguments.clone(),
            })
        });
        consumers.collect()
    }

    fn close_connection(&self, connection: ConnectionId, reason: &str) -> bool {
        let known = connections(&self.broker).iter().any(|c| c.id == connection);
        close_connection(
            &self.broker,
            connection,
            ProtocolError::connection(ReplyCode::ConnectionForced, reason.to_owned()),
        );
        known
    }

    fn change(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        change: Topology,
    ) -> Result<Changed, ProtocolError> {
        let now = self.broker.now();
        let caller = self.caller(actor, vhost);
        let existed = self.exists(vhost, &change);
        let ask = |queue, question| self.ask(queue, question);
        let (reply, ticket) = caller.topology_asking(operation(change), now, &*self.broker, ask)?;
        self.broker.run_deferred_work();
        self.wait(ticket)?;
        Ok(Changed {
            created: !existed,
            messages: match reply {
                Reply::Count(count) => u64::from(count),
                _ => 0,
            },
        })
    }

    fn publish(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        message: Publish,
    ) -> Result<bool, ProtocolError> {
        let now = self.broker.now();
        let message = messages::from_operator(&message, now)?;
        let (routed, tickets) = self
            .caller(actor, vhost)
            .publish(&message, now, &*self.broker)?;
        self.broker.run_deferred_work();
        self.wait(tickets)?;
        Ok(routed)
    }

    fn get(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        get: Get,
    ) -> Result<Vec<Got>, ProtocolError> {
        let queue = self
            .caller(actor, vhost)
            .readable_queue(queue, &*self.broker)?;
        let holder = self.broker.consumer_id();
        let mut taken = Vec::new();
        let deadline = Instant::now() + READ_WAIT;
        while taken.len() < get.count as usize {
            match operator::get(queue, holder, self.broker.now(), &*self.broker) {
                Ok(Some(found)) => taken.push(found),
                Ok(None) => break,
                Err(operator::Pending) if Instant::now() > deadline => break,
                Err(operator::Pending) => std::thread::sleep(POLL),
            }
        }
        let outcome = match get.then {
            AfterGet::Accept => Outcome::Accept,
            AfterGet::Requeue => Outcome::Requeue { count: false },
            AfterGet::Reject => Outcome::Reject,
        };
        for (delivery, _) in &taken {
            operator::settle(delivery, outcome, self.broker.now(), &*self.broker);
        }
        self.broker.run_deferred_work();
        Ok(taken
            .iter()
            .map(|(delivery, left)| messages::to_operator(delivery, *left))
            .collect())
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.effective.clone()
    }

    fn set_memory_watermark(&self, level: Level) {
        let bytes = self.watermark(level);
        self.change_watermarks(|watermarks| watermarks.memory_bytes = bytes);
    }

    fn set_disk_limit(&self, level: Level) {
        let bytes = self.watermark(level);
        self.change_watermarks(|watermarks| watermarks.disk_free_bytes = bytes);
    }

    fn set_serving(&self, serving: bool) {
        self.broker.set_serving(serving);
    }

    fn set_listening(&self, listen: bool) -> Result<(), String> {
        set_listening(&self.broker, listen)
            .map_err(|error| format!("cannot listen for clients again: {error}"))?;
        tracing::info!(
            listen,
            "an operator has changed whether clients may connect"
        );
        Ok(())
    }

    fn set_log_level(&self, level: &str) -> Result<(), String> {
        self.logs.set_level(LogLevel::named(level)?)
    }

    fn rotate_logs(&self) -> Result<(), String> {
        self.logs.rotate()
    }

    fn stop(&self) {
        // The way that every supervisor takes: one path to the end.
        if let Err(error) = signal_hook::low_level::raise(signal_hook::consts::SIGTERM) {
            tracing::error!(%error, "cannot stop");
        }
    }
}

impl Admin {
    /// What is listened on now: for clients, unless an operator has suspended that.
    fn listeners(&self) -> Vec<Listener> {
        let all = self.listening.get().cloned().unwrap_or_default();
        let listens = self.broker.listening();
        let of_clients = |listener: &Listener| listener.protocol.starts_with("amqp");
        let listening = all.into_iter().filter(|l| listens || !of_clients(l));
        listening.collect()
    }

    /// Asks a queue, whose leader may be on another node, and waits for the answer.
    fn ask(&self, queue: QueueId, question: Question) -> QueueAnswer {
        let number = self.broker.consumer_id().0;
        let deadline = Instant::now() + READ_WAIT;
        loop {
            let now = self.broker.now();
            match operator::ask(queue, question, number, now, &*self.broker) {
                Some(answer) => return answer,
                None if Instant::now() > deadline => return QueueAnswer::Unavailable,
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Whether what a declaration would create is there already.
    fn exists(&self, vhost: &str, change: &Topology) -> bool {
        let catalogue = self.broker.catalogue();
        let Some(vhost) = catalogue.vhost(vhost) else {
            return false;
        };
        match change {
            Topology::DeclareExchange { name, .. } => vhost.exchange(name).is_some(),
            Topology::DeclareQueue { name, .. } => vhost.queue_id(name).is_some(),
            _ => true,
        }
    }
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

fn operation(change: Topology) -> Operation {
    match change {
        Topology::DeclareExchange {
            name,
            kind,
            durable,
            auto_delete,
            internal,
            arguments,
        } => Operation::ExchangeDeclare {
            name,
            kind,
            passive: false,
            durable,
            auto_delete,
            internal,
            arguments,
        },
        Topology::DeleteExchange { name, if_unused } => {
            Operation::ExchangeDelete { name, if_unused }
        }
        Topology::DeclareQueue {
            name,
            durable,
            exclusive,
            auto_delete,
            arguments,
        } => Operation::QueueDeclare {
            name,
            passive: false,
            durable,
            exclusive,
            auto_delete,
            arguments,
        },
        Topology::DeleteQueue {
            name,
            if_unused,
            if_empty,
        } => Operation::QueueDelete {
            queue: name,
            if_unused,
            if_empty,
        },
        Topology::PurgeQueue { name } => Operation::QueuePurge { queue: name },
        Topology::Bind(binding) => bound(binding, true),
        Topology::Unbind(binding) => bound(binding, false),
    }
}

fn bound(binding: leveret_management::api::Binding, bind: bool) -> Operation {
    let leveret_management::api::Binding {
        source,
        destination,
        to_queue,
        routing_key,
        arguments,
    } = binding;
    let routing_key = routing_key.into_bytes();
    match (to_queue, bind) {
        (true, true) => Operation::QueueBind {
            queue: destination,
            exchange: source,
            routing_key,
            arguments,
        },
        (true, false) => Operation::QueueUnbind {
            queue: destination,
            exchange: source,
            routing_key,
            arguments,
        },
        (false, true) => Operation::ExchangeBind {
            destination,
            source,
            routing_key,
            arguments,
        },
        (false, false) => Operation::ExchangeUnbind {
            destination,
            source,
            routing_key,
            arguments,
        },
    }
}

fn connection_stats(facts: ConnectionFacts) -> ConnectionStats {
    let name = facts.client_properties.get("connection_name");
    ConnectionStats {
        id: facts.id,
        user_provided_name: name.and_then(|name| name.as_text()).map(str::to_owned),
        name: facts.name,
        user: facts.user,
        vhost: facts.vhost,
        local: Some(facts.peer.local),
        peer: Some(facts.peer.remote),
        tls: facts
            .tls
            .map(|(version, suite)| (version, suite, String::new())),
        mechanism: facts.mechanism,
        state: facts.state,
        channels: facts.channels.len() as u64,
        channels_max: facts.channel_max,
        frame_bytes_max: facts.frame_max,
        heartbeat_seconds: facts.heartbeat_seconds,
        client_properties: facts.client_properties,
        connected_at_ms: facts.connected_at_ms,
        received_bytes: facts.received_bytes,
        sent_bytes: facts.sent_bytes,
        pending_bytes: facts.unsent_bytes,
        ..ConnectionStats::default()
    }
}

fn channel_stats(connection: &ConnectionFacts) -> impl Iterator<Item = ChannelStats> + '_ {
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
        ..ChannelStats::default()
    })
}

/// What the node listens on, in RabbitMQ's words.
pub fn listeners(amqp: &[(SocketAddr, bool)], web: &[Bound]) -> Vec<Listener> {
    let amqp = amqp.iter().map(|(address, tls)| Listener {
        protocol: if *tls { "amqp/ssl" } else { "amqp" },
        address: *address,
    });
    let web = web.iter().map(|bound| Listener {
        protocol: match (bound.service, bound.tls) {
            (Service::Api, false) => "http",
            (Service::Api, true) => "https",
            (Service::Metrics, false) => "http/prometheus",
            (Service::Metrics, true) => "https/prometheus",
        },
        address: bound.address,
    });
    amqp.chain(web).collect()
}
