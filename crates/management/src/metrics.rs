//! Prometheus metrics in the text format, under the names of RabbitMQ's plugin.
//!
//! `/metrics` sums over objects, so that its size does not grow with the number of queues.
//! `/metrics/per-object` shows each queue, channel and connection. `/metrics/detailed` shows the
//! families that the query names, with the prefix `rabbitmq_detailed_`.

use crate::api::{
    BrokerStats, ChannelStats, ConnectionStats, IoStats, MessageCounters, NodeStats, QueueStats,
};
use crate::app::App;
use crate::directory::Queue;
use crate::input::percent_decode;
use crate::overview::{RABBITMQ_VERSION, VERSION};
use crate::reply::ApiError;
use leveret_types::{ConnectionId, QueueId};
use std::collections::HashMap;
use std::fmt::{Display, Write};

/// A page of metrics being written.
struct Page {
    text: String,
    prefix: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}
use Kind::{Counter, Gauge};

impl Page {
    /// A metric with the values of all its series.
    fn metric<V: Display>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        series: impl IntoIterator<Item = (String, V)>,
    ) {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        let kind = match kind {
            Gauge => "gauge",
            Counter => "counter",
        };
        let prefix = self.prefix;
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# TYPE {prefix}{name} {kind}\n# HELP {prefix}{name} {help}"
        );
        for (labels, value) in series {
            let _ = match labels.is_empty() {
                true => writeln!(text, "{prefix}{name} {value}"),
                false => writeln!(text, "{prefix}{name}{{{labels}}} {value}"),
            };
        }
    }

    /// A histogram: its buckets, cumulative, by their label; how many there were; their sum in
    /// microseconds.
    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        buckets: Vec<(String, String)>,
        count: u64,
        sum_us: u64,
    ) {
        let prefix = self.prefix;
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# TYPE {prefix}{name} histogram\n# HELP {prefix}{name} {help}"
        );
        let all = ("le=\"+Inf\"".to_owned(), count.to_string());
        for (label, value) in buckets.into_iter().chain([all]) {
            let _ = writeln!(text, "{prefix}{name}_bucket{{{label}}} {value}");
        }
        let _ = writeln!(
            text,
            "{prefix}{name}_sum {}\n{prefix}{name}_count {count}",
            sum_us as f64 / 1e6
        );
    }

    /// A metric of one value.
    fn one<V: Display>(&mut self, name: &str, kind: Kind, help: &str, value: V) {
        self.metric(name, kind, help, [(String::new(), value)]);
    }
}

/// Labels in the text format.
fn labels(pairs: &[(&str, &str)]) -> String {
    let escape = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
        .collect();
    pairs.join(",")
}

/// One page by its path.
pub fn page(app: &App, path: &str, query: &str) -> Result<String, ApiError> {
    let per_object = match path {
        "/metrics" => app.per_object,
        "/metrics/per-object" => true,
        "/metrics/detailed" => return detailed(app, query),
        "/metrics/memory-breakdown" => false,
        _ => return Err(ApiError::NotFound),
    };
    let mut page = Page {
        text: String::with_capacity(16 * 1024),
        prefix: "rabbitmq_",
    };
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    identity(&mut page, &node);
    node_metrics(&mut page, &node);
    totals(&mut page, app, &broker);
    churn(&mut page, app, &broker);
    global(&mut page, &broker);
    let scope = Scope::default();
    queue_coarse(&mut page, app, &scope, per_object);
    queue_metrics(&mut page, app, &scope, per_object);
    channel_metrics(&mut page, app, per_object);
    connection_metrics(&mut page, app, per_object);
    Ok(page.text)
}

/// Which queues a detailed page is about.
#[derive(Default)]
struct Scope {
    vhosts: Vec<String>,
    queues: Vec<String>,
}

impl Scope {
    fn has(&self, queue: &Queue) -> bool {
        let within =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        within(&self.vhosts, &queue.vhost) && within(&self.queues, &queue.name)
    }
}

fn detailed(app: &App, query: &str) -> Result<String, ApiError> {
    let bad = || ApiError::BadRequest("the query is not percent-encoded UTF-8".to_owned());
    let (mut families, mut scope) = (Vec::new(), Scope::default());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode(&value.replace('+', " ")).ok_or_else(bad)?;
        match name {
            "family" => families.push(value),
            "vhost" => scope.vhosts.push(value),
            "queue" => scope.queues.push(value),
            _ => {}
        }
    }
    let mut page = Page {
        text: String::new(),
        prefix: "rabbitmq_",
    };
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    identity(&mut page, &node);
    page.prefix = "rabbitmq_detailed_";
    for family in &families {
        match family.as_str() {
            "connection_churn_metrics" => churn(&mut page, app, &broker),
            "node_metrics" | "node_coarse_metrics" => node_metrics(&mut page, &node),
            "queue_coarse_metrics" => queue_coarse(&mut page, app, &scope, true),
            "queue_metrics" | "queue_consumer_count" => queue_metrics(&mut page, app, &scope, true),
            "channel_metrics" => channel_metrics(&mut page, app, true),
            "connection_metrics" | "connection_coarse_metrics" => {
                connection_metrics(&mut page, app, true);
            }
            "vhost_status" => {
                page.prefix = "rabbitmq_cluster_";
                let vhosts = app.node().vhosts();
                let up = vhosts.iter().map(|v| (labels(&[("vhost", &v.name)]), 1));
                page.metric(
                    "vhost_status",
                    Gauge,
                    "Whether a given vhost is running",
                    up,
                );
                page.prefix = "rabbitmq_detailed_";
            }
            _ => {}
        }
    }
    Ok(page.text)
}

fn identity(page: &mut Page, node: &NodeStats) {
    let build = labels(&[
        ("rabbitmq_version", RABBITMQ_VERSION),
        ("prometheus_plugin_version", VERSION),
        ("prometheus_client_version", VERSION),
        ("erlang_version", "0"),
        ("product_name", "Leveret"),
        ("product_version", VERSION),
    ]);
    page.metric(
        "build_info",
        Gauge,
        "RabbitMQ & Erlang/OTP version info",
        [(build, 1)],
    );
    let identity = labels(&[
        ("rabbitmq_node", &node.name),
        ("rabbitmq_cluster", &node.cluster_name),
        ("rabbitmq_cluster_permanent_id", &node.cluster_id),
    ]);
    page.metric(
        "identity_info",
        Gauge,
        "RabbitMQ node & cluster identity info",
        [(identity, 1)],
    );
    let alarm = |page: &mut Page, name: &str, help: &str, set: bool| {
        page.one(name, Gauge, help, u8::from(set));
    };
    let text = "is 1 if VM memory watermark is in effect";
    alarm(
        page,
        "alarms_memory_used_watermark",
        text,
        node.memory_alarm,
    );
    let text = "is 1 if free disk space watermark is in effect";
    alarm(
        page,
        "alarms_free_disk_space_watermark",
        text,
        node.disk_alarm,
    );
    let text = "is 1 if file descriptor limit alarm is in effect";
    let short = node.fds_max > 0 && node.fds_used >= node.fds_max;
    alarm(page, "alarms_file_descriptor_limit", text, short);
}

fn node_metrics(page: &mut Page, node: &NodeStats) {
    let io = &node.io;
    page.one(
        "process_open_fds",
        Gauge,
        "Open file descriptors",
        node.fds_used,
    );
    page.one(
        "process_max_fds",
        Gauge,
        "Open file descriptors limit",
        node.fds_max,
    );
    page.one(
        "process_open_tcp_sockets",
        Gauge,
        "Open TCP sockets",
        node.sockets_used,
    );
    page.one(
        "process_max_tcp_sockets",
        Gauge,
        "Open TCP sockets limit",
        node.fds_max,
    );
    page.one(
        "process_resident_memory_bytes",
        Gauge,
        "Memory used in bytes",
        node.memory_used_bytes,
    );
    page.one(
        "resident_memory_limit_bytes",
        Gauge,
        "Memory high watermark in bytes",
        node.memory_limit_bytes,
    );
    page.one(
        "disk_space_available_bytes",
        Gauge,
        "Disk space available in bytes",
        node.disk_free_bytes,
    );
    page.one(
        "disk_space_available_limit_bytes",
        Gauge,
        "Free disk space low watermark in bytes",
        node.disk_limit_bytes,
    );
    page.one(
        "erlang_uptime_seconds",
        Gauge,
        "Node uptime",
        node.uptime_ms as f64 / 1_000.0,
    );
    page.one(
        "process_cpu_seconds_total",
        Counter,
        "Processor time used",
        node.cpu_ms as f64 / 1_000.0,
    );
    page.one(
        "io_read_ops_total",
        Counter,
        "Total number of I/O read operations",
        io.reads,
    );
    page.one(
        "io_read_bytes_total",
        Counter,
        "Total number of I/O bytes read",
        io.read_bytes,
    );
    page.one(
        "io_read_time_seconds_total",
        Counter,
        "Total I/O read time",
        io.read_us as f64 / 1e6,
    );
    page.one(
        "io_write_ops_total",
        Counter,
        "Total number of I/O write operations",
        io.writes,
    );
    page.one(
        "io_write_bytes_total",
        Counter,
        "Total number of I/O bytes written",
        io.write_bytes,
    );
    page.one(
        "io_write_time_seconds_total",
        Counter,
        "Total I/O write time",
        io.write_us as f64 / 1e6,
    );
    page.one(
        "io_sync_ops_total",
        Counter,
        "Total number of I/O sync operations",
        io.syncs,
    );
    page.one(
        "io_sync_time_seconds_total",
        Counter,
        "Total I/O sync time",
        io.sync_us as f64 / 1e6,
    );
    sync_histogram(page, io);
}

/// How long syncs took, as a histogram of Prometheus: each bucket has all up to its bound.
fn sync_histogram(page: &mut Page, io: &IoStats) {
    let mut within = 0;
    let mut series: Vec<(String, String)> = Vec::new();
    for (bound_us, count) in io.sync_slots.iter().filter(|(bound_us, _)| *bound_us > 0) {
        within += count;
        let label = format!("le=\"{}\"", *bound_us as f64 / 1e6);
        series.push((label, within.to_string()));
    }
    let name = "io_sync_duration_seconds";
    page.histogram(
        name,
        "How long I/O sync operations took",
        series,
        io.syncs,
        io.sync_us,
    );
}

fn totals(page: &mut Page, app: &App, broker: &BrokerStats) {
    page.one(
        "connections",
        Gauge,
        "Connections currently open",
        broker.connections,
    );
    page.one(
        "channels",
        Gauge,
        "Channels currently open",
        broker.channels,
    );
    page.one(
        "consumers",
        Gauge,
        "Consumers currently connected",
        broker.consumers,
    );
    page.one("queues", Gauge, "Queues available", app.counts().queues);
}

fn churn(page: &mut Page, app: &App, broker: &BrokerStats) {
    let (by_http, failed_by_http) = app.http_logins();
    let succeeded = broker.logins_succeeded + by_http;
    let failed = broker.logins_failed + failed_by_http;
    for (name, help, count) in [
        (
            "connections_opened_total",
            "Total number of connections opened",
            broker.connections_opened,
        ),
        (
            "connections_closed_total",
            "Total number of connections closed or terminated",
            broker.connections_closed,
        ),
        (
            "channels_opened_total",
            "Total number of channels opened",
            broker.channels_opened,
        ),
        (
            "channels_closed_total",
            "Total number of channels closed",
            broker.channels_closed,
        ),
        (
            "queues_declared_total",
            "Total number of queues declared",
            broker.queues_declared,
        ),
        (
            "queues_created_total",
            "Total number of queues created",
            broker.queues_created,
        ),
        (
            "queues_deleted_total",
            "Total number of queues deleted",
            broker.queues_deleted,
        ),
        (
            "auth_attempts_total",
            "Total number of authorization attempts",
            succeeded + failed,
        ),
        (
            "auth_attempts_succeeded_total",
            "Total number of successful authentication attempts",
            succeeded,
        ),
        (
            "auth_attempts_failed_total",
            "Total number of failed authentication attempts",
            failed,
        ),
    ] {
        page.one(name, Counter, help, count);
    }
}

type Count = fn(&MessageCounters) -> u64;

fn global(page: &mut Page, broker: &BrokerStats) {
    let protocol = labels(&[("protocol", "amqp091")]);
    let all = broker.all_messages();
    // What happens before a message reaches a queue has no queue type.
    for (name, help, count) in [
        (
            "received",
            "Total number of messages received from publishers",
            all.published,
        ),
        (
            "received_confirm",
            "Total number of messages received from publishers expecting confirmations",
            all.published_confirm,
        ),
        (
            "routed",
            "Total number of messages routed to queues or streams",
            all.routed,
        ),
        (
            "unroutable_dropped",
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            all.dropped,
        ),
        (
            "unroutable_returned",
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            all.returned,
        ),
        (
            "confirmed",
            "Total number of messages confirmed to publishers",
            all.confirmed,
        ),
    ] {
        let name = format!("global_messages_{name}_total");
        page.metric(&name, Counter, help, [(protocol.clone(), count)]);
    }
    let delivered: [(&str, &str, Count); 8] = [
        (
            "delivered",
            "Total number of messages delivered to consumers",
            |c| c.delivered + c.delivered_auto_ack + c.got + c.got_auto_ack,
        ),
        (
            "delivered_consume_manual_ack",
            "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
            |c| c.delivered,
        ),
        (
            "delivered_consume_auto_ack",
            "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
            |c| c.delivered_auto_ack,
        ),
        (
            "delivered_get_manual_ack",
            "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
            |c| c.got,
        ),
        (
            "delivered_get_auto_ack",
            "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
            |c| c.got_auto_ack,
        ),
        (
            "get_empty",
            "Total number of times basic.get operations fetched no message",
            |c| c.got_empty,
        ),
        (
            "redelivered",
            "Total number of messages redelivered to consumers",
            |c| c.redelivered,
        ),
        (
            "acknowledged",
            "Total number of message acknowledgements received from consumers",
            |c| c.acknowledged,
        ),
    ];
    let by_type = |kind: &str| {
        let kind = format!("rabbit_{kind}_queue");
        labels(&[("protocol", "amqp091"), ("queue_type", &kind)])
    };
    for (name, help, count) in delivered {
        let series = broker
            .messages
            .iter()
            .map(|(kind, c)| (by_type(kind), count(c)));
        page.metric(
            &format!("global_messages_{name}_total"),
            Counter,
            help,
            series,
        );
    }
    dead_lettered(page, broker);
    from_replicas(page, broker);
    page.metric(
        "global_publishers",
        Gauge,
        "Publishers currently connected",
        [(protocol.clone(), broker.publishers)],
    );
    page.metric(
        "global_consumers",
        Gauge,
        "Consumers currently connected",
        [(protocol, broker.consumers)],
    );
}

/// What consumers at a follower's node got from the replica there; RabbitMQ has no such thing.
fn from_replicas(page: &mut Page, broker: &BrokerStats) {
    for (name, help, count) in [
        (
            "messages_delivered_from_replica",
            "Total number of messages delivered out of a follower's log to consumers on its node",
            broker.replica_deliveries,
        ),
        (
            "bytes_delivered_from_replica",
            "Total number of bytes of bodies of these messages",
            broker.replica_delivered_bytes,
        ),
        (
            "messages_fetched_for_replica",
            "Total number of messages that a follower had to ask its leader for, to deliver them",
            broker.replica_fetches,
        ),
    ] {
        page.one(&format!("leveret_{name}_total"), Counter, help, count);
    }
}

fn dead_lettered(page: &mut Page, broker: &BrokerStats) {
    let mut reasons: Vec<&str> = broker
        .dead_lettered
        .iter()
        .map(|(_, reason, _)| *reason)
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let series = broker.dead_lettered.iter().filter(|(_, r, _)| *r == reason);
        let series = series.map(|(kind, _, count)| {
            let kind = format!("rabbit_{kind}_queue");
            let labels = labels(&[
                ("queue_type", &kind),
                ("dead_letter_strategy", "at_most_once"),
            ]);
            (labels, *count)
        });
        let name = format!("global_messages_dead_lettered_{reason}_total");
        page.metric(
            &name,
            Counter,
            "Total number of messages dead-lettered for this reason",
            series,
        );
    }
}

/// The stats of queues with their labels, or their sum without any.
fn queue_series(app: &App, scope: &Scope, per_object: bool) -> Vec<(String, QueueStats)> {
    let mut stats = app.node().queues();
    // Each queue's figures are its leader's: sums over the nodes are right then.
    stats.retain(|queue| !queue.follows);
    if !per_object {
        let mut sum = QueueStats::default();
        for s in &stats {
            sum.ready += s.ready;
            sum.unacknowledged += s.unacknowledged;
            sum.ready_bytes += s.ready_bytes;
            sum.unacknowledged_bytes += s.unacknowledged_bytes;
            sum.in_memory += s.in_memory;
            sum.in_memory_bytes += s.in_memory_bytes;
            sum.persistent += s.persistent;
            sum.persistent_bytes += s.persistent_bytes;
            sum.memory_bytes += s.memory_bytes;
            sum.consumers += s.consumers;
            sum.consumer_capacity += s.consumer_capacity;
        }
        return vec![(String::new(), sum)];
    }
    let declared = app.node().declared_queues(None);
    let declared: HashMap<QueueId, Queue> = declared.into_iter().map(|q| (q.id, q)).collect();
    let mut series: Vec<_> = stats
        .into_iter()
        .filter_map(|s| Some((declared.get(&s.id)?, s)))
        .filter(|(queue, _)| scope.has(queue))
        .map(|(queue, s)| {
            (
                labels(&[("vhost", &queue.vhost), ("queue", &queue.name)]),
                s,
            )
        })
        .collect();
    series.sort_by(|a, b| a.0.cmp(&b.0));
    series
}

type QueueValue = fn(&QueueStats) -> u64;

fn queue_values(
    page: &mut Page,
    series: &[(String, QueueStats)],
    metrics: &[(&str, &str, QueueValue)],
) {
    for (name, help, value) in metrics {
        let values = series.iter().map(|(labels, s)| (labels.clone(), value(s)));
        page.metric(name, Gauge, help, values);
    }
}

fn queue_coarse(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let series = queue_series(app, scope, per_object);
    let metrics: [(&str, &str, QueueValue); 3] = [
        (
            "queue_messages_ready",
            "Messages ready to be delivered to consumers",
            |s| s.ready,
        ),
        (
            "queue_messages_unacked",
            "Messages delivered to consumers but not yet acknowledged",
            |s| s.unacknowledged,
        ),
        (
            "queue_messages",
            "Sum of ready and unacknowledged messages - total queue depth",
            |s| s.ready + s.unacknowledged,
        ),
    ];
    queue_values(page, &series, &metrics);
}

fn queue_metrics(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let series = queue_series(app, scope, per_object);
    let metrics: [(&str, &str, QueueValue); 9] = [
        ("queue_consumers", "Consumers on a queue", |s| s.consumers),
        (
            "queue_process_memory_bytes",
            "Memory in bytes used by the queue",
            |s| s.memory_bytes,
        ),
        (
            "queue_messages_ram",
            "Ready and unacknowledged messages stored in memory",
            |s| s.in_memory,
        ),
        (
            "queue_messages_ram_bytes",
            "Size of ready and unacknowledged messages stored in memory",
            |s| s.in_memory_bytes,
        ),
        ("queue_messages_persistent", "Persistent messages", |s| {
            s.persistent
        }),
        (
            "queue_messages_persistent_bytes",
            "Size in bytes of persistent messages",
            |s| s.persistent_bytes,
        ),
        (
            "queue_messages_bytes",
            "Size in bytes of ready and unacknowledged messages",
            |s| s.ready_bytes + s.unacknowledged_bytes,
        ),
        (
            "queue_messages_ready_bytes",
            "Size in bytes of ready messages",
            |s| s.ready_bytes,
        ),
        (
            "queue_messages_unacked_bytes",
            "Size in bytes of all unacknowledged messages",
            |s| s.unacknowledged_bytes,
        ),
    ];
    queue_values(page, &series, &metrics);
    let capacity: Vec<_> = series
        .iter()
        .map(|(l, s)| (l.clone(), s.consumer_capacity))
        .collect();
    page.metric(
        "queue_consumer_capacity",
        Gauge,
        "Consumer capacity",
        capacity.clone(),
    );
    page.metric(
        "queue_consumer_utilisation",
        Gauge,
        "Same as consumer capacity",
        capacity,
    );
    if per_object {
        let heads = series
            .iter()
            .filter_map(|(l, s)| Some((l.clone(), s.head_timestamp?)));
        page.metric(
            "queue_head_message_timestamp",
            Gauge,
            "Timestamp of the first message in the queue, if any",
            heads,
        );
    }
}

/// Connections by id, for the labels of channels.
fn connections_by_id(app: &App) -> HashMap<ConnectionId, ConnectionStats> {
    let all = app.node().connections();
    all.into_iter().map(|c| (c.id, c)).collect()
}

type ChannelValue = fn(&ChannelStats) -> u64;

fn channel_metrics(page: &mut Page, app: &App, per_object: bool) {
    let channels = app.node().channels();
    let series: Vec<(String, ChannelStats)> = match per_object {
        true => {
            let connections = connections_by_id(app);
            let label = |c: &ChannelStats| {
                let connection = connections.get(&c.connection)?;
                Some(labels(&[(
                    "channel",
                    &format!("{} ({})", connection.name, c.number),
                )]))
            };
            channels
                .into_iter()
                .filter_map(|c| Some((label(&c)?, c)))
                .collect()
        }
        false => {
            let mut sum = ChannelStats::default();
            for c in &channels {
                sum.consumers += c.consumers;
                sum.unacknowledged += c.unacknowledged;
                sum.unconfirmed += c.unconfirmed;
                sum.uncommitted += c.uncommitted;
                sum.uncommitted_settles += c.uncommitted_settles;
            }
            vec![(String::new(), sum)]
        }
    };
    let metrics: [(&str, &str, ChannelValue); 5] = [
        ("channel_consumers", "Consumers on a channel", |c| {
            c.consumers
        }),
        (
            "channel_messages_unacked",
            "Delivered but not yet acknowledged messages",
            |c| c.unacknowledged,
        ),
        (
            "channel_messages_unconfirmed",
            "Published but not yet confirmed messages",
            |c| c.unconfirmed,
        ),
        (
            "channel_messages_uncommitted",
            "Messages received in a transaction but not yet committed",
            |c| c.uncommitted,
        ),
        (
            "channel_acks_uncommitted",
            "Message acknowledgements in a transaction not yet committed",
            |c| c.uncommitted_settles,
        ),
    ];
    for (name, help, value) in metrics {
        let values = series.iter().map(|(labels, c)| (labels.clone(), value(c)));
        page.metric(name, Gauge, help, values);
    }
    if !per_object {
        return;
    }
    let counters: [(&str, &str, Count); 6] = [
        (
            "channel_messages_published_total",
            "Total number of messages published into an exchange on a channel",
            |m| m.published,
        ),
        (
            "channel_messages_confirmed_total",
            "Total number of messages published into an exchange and confirmed on the channel",
            |m| m.confirmed,
        ),
        (
            "channel_messages_delivered_total",
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
            |m| m.delivered_auto_ack,
        ),
        (
            "channel_messages_delivered_ack_total",
            "Total number of messages delivered to consumers in manual acknowledgement mode",
            |m| m.delivered,
        ),
        (
            "channel_messages_redelivered_total",
            "Total number of messages redelivered to consumers",
            |m| m.redelivered,
        ),
        (
            "channel_messages_acked_total",
            "Total number of messages acknowledged by consumers",
            |m| m.acknowledged,
        ),
    ];
    for (name, help, count) in counters {
        let values = series
            .iter()
            .map(|(labels, c)| (labels.clone(), count(&c.messages)));
        page.metric(name, Counter, help, values);
    }
}

type ConnectionValue = fn(&ConnectionStats) -> u64;

fn connection_metrics(page: &mut Page, app: &App, per_object: bool) {
    let connections = app.node().connections();
    let series: Vec<(String, ConnectionStats)> = match per_object {
        true => connections
            .into_iter()
            .map(|c| (labels(&[("connection", &c.name)]), c))
            .collect(),
        false => {
            let mut sum = ConnectionStats::default();
            for c in &connections {
                sum.received_bytes += c.received_bytes;
                sum.sent_bytes += c.sent_bytes;
                sum.pending_bytes += c.pending_bytes;
                sum.received_packets += c.received_packets;
                sum.sent_packets += c.sent_packets;
                sum.channels += c.channels;
            }
            vec![(String::new(), sum)]
        }
    };
    let metrics: [(&str, Kind, &str, ConnectionValue); 6] = [
        (
            "connection_incoming_bytes_total",
            Counter,
            "Total number of bytes received on a connection",
            |c| c.received_bytes,
        ),
        (
            "connection_outgoing_bytes_total",
            Counter,
            "Total number of bytes sent on a connection",
            |c| c.sent_bytes,
        ),
        (
            "connection_incoming_packets_total",
            Counter,
            "Total number of packets received on a connection",
            |c| c.received_packets,
        ),
        (
            "connection_outgoing_packets_total",
            Counter,
            "Total number of packets sent on a connection",
            |c| c.sent_packets,
        ),
        (
            "connection_pending_packets",
            Gauge,
            "Number of packets waiting to be sent on a connection",
            |c| c.pending_bytes,
        ),
        (
            "connection_channels",
            Gauge,
            "Channels on a connection",
            |c| c.channels,
        ),
    ];
    for (name, kind, help, value) in metrics {
        let values = series.iter().map(|(labels, c)| (labels.clone(), value(c)));
        page.metric(name, kind, help, values);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_are_escaped() {
        let got = super::labels(&[("queue", "a\"b\\c\nd"), ("vhost", "/")]);
        assert_eq!(got, "queue=\"a\\\"b\\\\c\\nd\",vhost=\"/\"");
    }
}
