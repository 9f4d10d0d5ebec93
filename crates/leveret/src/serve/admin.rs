//! The node as the management interface sees it.

pub(super) mod audit;
mod client_stats;
mod held;
mod moves;
mod operations;
mod queue_stats;
mod stats;
mod streams;

pub use moves::Moves;

use super::log::Logs;
use super::{cluster, limited_counts, reports};
use crate::config::{Config, LogLevel};
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_auth::{Access, LoginCheck, LoginProtocol, LoginSources, Verdict};
use leveret_cluster::Env as _;
use leveret_management::api::{
    Actor, Answers, BrokerStats, Browse, Browsed, Changed, ConnectionContent, ConnectionStats,
    ConsumerStats, DamagedQueue, DelayedMessage, DiskUse, FlowStats, FlowsOf, Get, Got, HeldAt,
    HeldLook, Holder, Level, Listener, Login, LoginAnswer, LoginVerdict, LookedAt, MemoryStats,
    Move, MoveMessages, NodeStats, Publish, QueueStats, ReplicaStats, StreamConsumerStats,
    StreamGroups, StreamPublisherStats, StreamStart, StreamTracking, Taken, Topology,
    UnsettledMessage,
};
use leveret_management::catalogue_directory::{CatalogueDirectory, ExecuteError, MakeCommands};
use leveret_management::cluster::{ClusterChange, ClusterView};
use leveret_management::directory::Queue;
use leveret_management::question::Question;
use leveret_management::{Bound, Running, Service};
use leveret_metadata::{Catalogue, QueueRecord};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_shell::logins::LoginWaiter;
use leveret_shell::node::{Which, close_connection, set_listening, some_connections};
use leveret_shell::timers_and_alarms::{TimersAndAlarms, Watermarks};
use leveret_stream::Reference;
use leveret_types::{ConnectionId, NodeId, ProtocolError, QueueId, ReplyCode, ShardId};
use serde_json::Value;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

/// A running node.
pub struct Admin {
    /// The node.
    pub broker: Arc<Broker>,
    /// Its memory and disks.
    pub timers_and_alarms: Arc<TimersAndAlarms>,
    /// Identity of its store.
    pub uuid: [u8; 16],
    /// Its configuration.
    pub config: Config,
    /// The same, key by key, as operators know it.
    pub effective: Vec<(String, String)>,
    /// Its log.
    pub logs: Logs,
    /// Messages that operators move.
    pub moves: Moves,
    /// What it listens on, once that is known.
    pub listening: Arc<OnceLock<Vec<Listener>>>,
}

impl Admin {
    fn watermark(&self, level: Level) -> u64 {
        let total = super::settings::total_memory_bytes(&self.config);
        match level {
            Level::Relative(part) => (total as f64 * part) as u64,
            Level::Absolute(bytes) => bytes,
        }
    }

    fn change_watermarks(&self, change: impl FnOnce(&mut Watermarks)) {
        change(&mut self.timers_and_alarms.watermarks.write());
        self.timers_and_alarms.look(&self.broker);
    }
}

impl CatalogueDirectory for Admin {
    fn with_catalogue(&self, read: &mut dyn FnMut(&Catalogue)) {
        read(&self.broker.catalogue());
    }

    fn execute(&self, by: &str, make: MakeCommands<'_>) -> Result<(), ExecuteError> {
        let now = self.broker.now();
        // What it is can be told only when the commands are made.
        let mut subject = ("change", String::new());
        let (log_positions, result) = self.broker.execute_all(now, &mut || {
            let commands = make()?;
            subject = audit::subject_of_all(&commands);
            Ok(commands)
        });
        self.broker.run_deferred_work();
        self.wait(log_positions)
            .map_err(|error| ExecuteError::Failed(error.text.into_owned()))?;
        let refused = result.as_ref().err().map(|error| error as &dyn Display);
        audit::note(by, subject.0, &subject.1, refused);
        result.map_err(ExecuteError::from)
    }

    fn salt(&self) -> [u8; SALT_BYTES_GIVEN] {
        self.broker.random()
    }

    fn shards(&self) -> u16 {
        self.broker.settings().shard_count
    }

    fn memory_left(&self, wanted: u64) -> u64 {
        self.broker.memory_left_of(wanted)
    }

    fn note_passed_over(&self, by: &str, lines: &[String]) {
        for line in lines {
            tracing::warn!(?by, "passed over in an import: {line}");
        }
    }
}

/// Somebody who waits for the check of a password.
struct ApiLogin {
    broker: Arc<Broker>,
    user: String,
    from: IpAddr,
    /// Whether the user may come from there.
    loopback: bool,
    answer: LoginAnswer,
}

impl LoginWaiter for ApiLogin {
    fn waits(&self) -> bool {
        self.answer.waits()
    }

    fn tell(self: Box<Self>, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::Busy => LoginVerdict::Busy,
            Verdict::Wrong => {
                tracing::warn!(
                    // What a stranger sent is escaped: it must not make lines of its own.
                    user = ?self.user,
                    from = %self.from,
                    protocol = "http",
                    "login refused: wrong password, or no such user",
                );
                LoginVerdict::Wrong
            }
            Verdict::Right if self.loopback => LoginVerdict::Right,
            Verdict::Right => {
                tracing::warn!(
                    user = ?self.user,
                    from = %self.from,
                    protocol = "http",
                    "login refused: this user may only come from this host",
                );
                LoginVerdict::Wrong
            }
        };
        if verdict != LoginVerdict::Busy {
            let sources = &self.broker.counters().login_sources;
            let is_let_in = verdict == LoginVerdict::Right;
            sources.note(LoginProtocol::Http, self.from, &self.user, is_let_in);
        }
        self.answer.tell(verdict);
    }
}

impl Running for Admin {
    fn cluster(&self) -> Option<ClusterView> {
        cluster::view(&self.broker)
    }

    fn change_cluster(&self, change: &ClusterChange) -> Result<usize, String> {
        cluster::change(&self.broker, change)
    }

    fn ask_peers(&self, question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        self.begin_asking(None, question)()
    }

    fn ask_nodes(&self, nodes: &[NodeId], question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        self.begin_asking(Some(nodes), question)()
    }

    fn begin_asking(&self, only: Option<&[NodeId]>, question: &Question) -> Answers {
        reports::begin_asking(&self.broker, only, &question.encode())
    }

    fn leaderless_queues(&self) -> Vec<(String, String)> {
        cluster::leaderless_queues(&self.broker)
    }

    fn critical_queues(&self) -> Vec<(String, String)> {
        cluster::critical_queues(&self.broker)
    }

    fn replica(&self, queue: QueueId) -> Option<ReplicaStats> {
        self.replica_stats(queue)
    }

    fn damaged_queues(&self) -> Vec<DamagedQueue> {
        let mut damaged = damage(&self.broker);
        damaged.extend(named(&self.broker, self.broker.streams.damaged()));
        damaged
    }

    fn queue_leader(&self, queue: QueueId) -> Option<NodeId> {
        if queue.is_stream() {
            let catalogue = self.broker.catalogue();
            return catalogue.queue(queue).map(QueueRecord::home);
        }
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

    fn authenticate(&self, login: Login<'_>, answer: LoginAnswer) {
        let catalogue = self.broker.catalogue();
        let user = catalogue.user(login.user);
        let hash = user.map(|user| user.password().clone());
        let loopback = catalogue
            .check_loopback(login.user, Some(login.from))
            .is_ok();
        drop(catalogue);
        let hashing = self.broker.settings().hashing;
        let check = LoginCheck::new(login.user, hash, login.password.into(), hashing);
        let waiter = ApiLogin {
            broker: Arc::clone(&self.broker),
            user: login.user.to_owned(),
            from: login.from,
            loopback,
            answer,
        };
        let logins = &self.broker.logins;
        logins.check(login.from, check, Box::new(waiter));
    }

    fn login_sources(&self) -> &LoginSources {
        &self.broker.counters().login_sources
    }

    fn is_familiar(&self, address: IpAddr) -> bool {
        self.broker.logins.is_familiar(address)
    }

    fn is_clustered(&self) -> bool {
        self.broker.cluster().is_some()
    }

    fn pass_read_barrier(&self) -> bool {
        self.broker.pass_read_barrier()
    }

    fn node_stats(&self) -> NodeStats {
        self.node_stats()
    }

    fn name(&self) -> String {
        self.node_name()
    }

    fn memory(&self) -> MemoryStats {
        self.memory_stats()
    }

    fn limited_counts(&self) -> Value {
        limited_counts::answer(&self.broker)
    }

    fn broker_stats(&self) -> BrokerStats {
        self.broker_stats()
    }

    fn each_led(&self, see: &mut dyn FnMut(QueueStats)) {
        self.each_led_queue(see);
    }

    fn queues_of(&self, queues: &[QueueId]) -> Vec<QueueStats> {
        let local_stats = queues
            .iter()
            .filter_map(|queue| self.local_stats_of(*queue));
        let mut stats = self.stats_of_all(&local_stats.collect::<Vec<_>>());
        let streams: Vec<QueueId> = queues
            .iter()
            .copied()
            .filter(|queue| queue.is_stream())
            .collect();
        if !streams.is_empty() {
            stats.extend(self.stats_of_streams(streams));
        }
        stats
    }

    fn queue(&self, queue: QueueId) -> Option<QueueStats> {
        if queue.is_stream() {
            return self.stats_of_streams(vec![queue]).pop();
        }
        self.stats_of_all(&[self.local_stats_with_oldest(queue)?])
            .pop()
    }

    fn active_queues(&self) -> Vec<(String, QueueStats)> {
        self.active_queue_stats()
    }

    fn depths(&self, see: &mut dyn FnMut(&str, [u64; 3])) {
        self.each_depth(see);
    }

    fn each_connection(&self, see: &mut dyn FnMut(ConnectionContent)) {
        self.each_content(see);
    }

    fn flows(&self, of: FlowsOf<'_>) -> Vec<FlowStats> {
        self.flows_of(of)
    }

    fn connections_of(&self, ids: &[ConnectionId]) -> Vec<ConnectionContent> {
        self.contents_of(ids)
    }

    fn consumers_on(&self, connection: ConnectionId) -> Vec<ConsumerStats> {
        self.consumers_of_connection(connection)
    }

    fn consumers_by_id(&self, consumers: &[(ConnectionId, u64)]) -> Vec<ConnectionContent> {
        self.contents_with(consumers)
    }

    fn connection(&self, name: &str) -> Option<ConnectionContent> {
        self.content_of_connection(name)
    }

    fn consumers_of(
        &self,
        queue: QueueId,
        at_most: usize,
    ) -> Vec<(Arc<ConnectionStats>, ConsumerStats)> {
        self.consumers_of_queue(queue, at_most)
    }

    fn stream_publishers(&self) -> Vec<StreamPublisherStats> {
        self.all_stream_publishers()
    }

    fn stream_consumers(&self) -> Vec<StreamConsumerStats> {
        self.all_stream_consumers()
    }

    fn stream_tracking(&self, stream: QueueId) -> Option<StreamTracking> {
        let tracking = self.broker.streams.tracking(stream)?;
        Some(StreamTracking {
            offsets: tracking.offsets,
            writers: tracking.sequences,
        })
    }

    fn store_stream_offset(&self, stream: QueueId, name: &str, offset: u64) -> bool {
        matches!(self.store_offset(stream, name, offset), Some(Ok(())))
    }

    fn stream_groups(&self, only: Option<QueueId>) -> Vec<StreamGroups> {
        self.groups_of_streams(only)
    }

    fn set_stream_group(
        &self,
        stream: QueueId,
        name: &str,
        to: StreamStart,
    ) -> Option<Result<u64, String>> {
        self.set_group(stream, name, to)
    }

    fn move_stream_group(&self, stream: &Queue, name: &str, offset: u64) {
        self.move_group(stream, name, offset);
    }

    fn forget_stream_group(&self, stream: QueueId, name: &str) -> Option<bool> {
        let group = Reference::new(name.as_bytes().to_vec().into())?;
        self.broker.streams.forget_offset(stream, group)
    }

    fn browse_stream(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        stream: &str,
        browse: &Browse,
    ) -> Result<Option<Browsed>, ProtocolError> {
        let id = self.readable_stream(actor, vhost, stream)?;
        let shown = self.browse(id, stream, browse);
        shown.map_err(|why| {
            let text = format!("stream '{stream}' in vhost '{vhost}' cannot be read: {why}");
            ProtocolError::channel(ReplyCode::PreconditionFailed, text)
        })
    }

    fn change_stream_replica(
        &self,
        stream: QueueId,
        node: &str,
        adds: bool,
    ) -> Result<bool, String> {
        super::cluster::change_stream_replica(&self.broker, stream, node, adds)
    }

    fn close_connection(&self, connection: ConnectionId, reason: &str) -> bool {
        let known = !some_connections(&self.broker, &Which::These([connection].into())).is_empty();
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
        let (operation, object) = audit::subject(&change, vhost);
        let result = self.change_topology(actor, vhost, change);
        let refused = result.as_ref().err().map(|error| error as &dyn Display);
        audit::note(audit::name_of(actor), operation, &object, refused);
        result
    }

    fn delete_this_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        name: &str,
        queue: QueueId,
    ) -> Result<(), ProtocolError> {
        let result = self.delete_queue_by_id(actor, vhost, name, queue);
        let refused = result.as_ref().err().map(|error| error as &dyn Display);
        let object = format!("queue '{name}' in vhost '{vhost}'");
        audit::note(audit::name_of(actor), "delete queue", &object, refused);
        result
    }

    fn permit_queue(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        access: Access,
        queue: &str,
    ) -> Result<(), ProtocolError> {
        self.caller(actor, vhost).permit_queue(access, queue)
    }

    fn publish(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        message: Publish,
    ) -> Result<Taken, ProtocolError> {
        self.publish_message(actor, vhost, message)
    }

    fn get(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        get: Get,
    ) -> Result<Vec<Got>, ProtocolError> {
        self.take_messages(actor, vhost, queue, get)
    }

    fn peek(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        before: u64,
    ) -> Result<Option<Got>, ProtocolError> {
        self.look_at(actor, vhost, queue, before)
    }

    fn look(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        before: u64,
        count: usize,
    ) -> Result<Vec<LookedAt>, ProtocolError> {
        self.look_into(actor, vhost, queue, before, count)
    }

    fn held_messages(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        look: &HeldLook,
    ) -> Result<Option<Vec<UnsettledMessage>>, ProtocolError> {
        self.look_at_held(actor, vhost, queue, look)
    }

    fn holders(&self, held: &[HeldAt]) -> Vec<Holder> {
        self.holders_among(held)
    }

    fn consumers_tagged(&self, queue: QueueId, tag: &str) -> Vec<u64> {
        self.consumers_with_tag(queue, tag)
    }

    fn begin_move(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        wanted: MoveMessages,
    ) -> Result<Move, ProtocolError> {
        let result = self.start_move(actor, vhost, queue, wanted);
        let refused = result.as_ref().err().map(|error| error as &dyn Display);
        let object = format!("queue '{queue}' in vhost '{vhost}'");
        audit::note(audit::name_of(actor), "move messages", &object, refused);
        result
    }

    fn moves(&self) -> Vec<Move> {
        self.moves.all()
    }

    fn stop_move(&self, number: u64) -> bool {
        self.moves.stop(number)
    }

    fn delayed(&self, from: (u64, u64), most: usize) -> (u64, Vec<DelayedMessage>) {
        self.delayed_messages(from, most)
    }

    fn cancel_delayed(&self, due_ms: u64, index: u64) -> Result<bool, ProtocolError> {
        self.drop_delayed((due_ms, index))
    }

    fn disk(&self) -> DiskUse {
        self.disk_use()
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

    fn note_change(&self, by: &str, operation: &str, object: &str, refused: Option<&str>) {
        audit::note(
            by,
            operation,
            object,
            refused.as_ref().map(|why| why as &dyn Display),
        );
    }

    fn stop(&self) {
        // The way that every supervisor takes: one path to the end.
        if let Err(error) = signal_hook::low_level::raise(signal_hook::consts::SIGTERM) {
            tracing::error!(%error, "cannot stop");
        }
    }
}

/// What the node listens on, in RabbitMQ's words.
pub fn listeners(
    amqp: &[(SocketAddr, bool)],
    stream: &[(SocketAddr, bool)],
    web: &[Bound],
) -> Vec<Listener> {
    let stream = stream.iter().map(|(address, tls)| Listener {
        protocol: if *tls { "stream/ssl" } else { "stream" },
        address: *address,
    });
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
    amqp.chain(stream).chain(web).collect()
}

/// The queues of which something cannot be read on this node, without streams.
pub(super) fn damage(broker: &Broker) -> Vec<DamagedQueue> {
    let shards = (0..broker.settings().shard_count).map(ShardId);
    let damaged: Vec<(QueueId, String)> = shards
        .flat_map(|shard| broker.shard(shard).damaged_queues())
        .collect();
    named(broker, damaged)
}

/// With the names that the catalogue has for them.
fn named(broker: &Broker, damaged: Vec<(QueueId, String)>) -> Vec<DamagedQueue> {
    let catalogue = broker.catalogue();
    let named = damaged.into_iter().filter_map(|(queue, what)| {
        let record = catalogue.queue(queue)?;
        Some(DamagedQueue {
            vhost: record.vhost().to_owned(),
            name: record.name().to_owned(),
            what,
        })
    });
    named.collect()
}
