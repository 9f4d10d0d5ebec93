//! Metrics of the node as a whole: who it is, what it uses, how much is open, what came and went.

use super::text::{Counter, Gauge, Page, Untyped, labels};
use crate::api::{BrokerStats, IoStats, NodeStats};
use crate::app::App;
use crate::overview::{RABBITMQ_VERSION, VERSION};
use leveret_auth::LoginCounts;

pub(super) fn identity(page: &mut Page, node: &NodeStats, endpoint: &str) {
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
        Untyped,
        "RabbitMQ & Erlang/OTP version info",
        [(build, 1)],
    );
    let identity = labels(&[
        ("rabbitmq_node", &node.name),
        ("rabbitmq_cluster", &node.cluster_name),
        ("rabbitmq_cluster_permanent_id", &node.cluster_id),
        ("rabbitmq_endpoint", endpoint),
    ]);
    page.metric(
        "identity_info",
        Untyped,
        "RabbitMQ node & cluster identity info",
        [(identity, 1)],
    );
    let alarm = |page: &mut Page, name: &str, help: &str, set: bool| {
        page.one(name, Untyped, help, u8::from(set));
    };
    let text = "is 1 if VM memory watermark is in effect";
    alarm(
        page,
        "alarms_memory_used_watermark",
        text,
        node.memory.alarm,
    );
    let text = "is 1 if free disk space watermark is in effect";
    alarm(
        page,
        "alarms_free_disk_space_watermark",
        text,
        node.disk.alarm,
    );
    let text = "is 1 if file descriptor limit alarm is in effect";
    let short = node.descriptors.max > 0 && node.descriptors.used >= node.descriptors.max;
    alarm(page, "alarms_file_descriptor_limit", text, short);
}

/// A metric of one value: its name, help, and value.
type One = (&'static str, &'static str, f64);

/// What the node may use: the family `node_metrics`.
pub(super) fn node_limits(page: &mut Page, node: &NodeStats) {
    let metrics: [One; 4] = [
        (
            "process_max_fds",
            "Open file descriptors limit",
            node.descriptors.max as f64,
        ),
        (
            "resident_memory_limit_bytes",
            "Memory high watermark in bytes",
            node.memory.limit_bytes as f64,
        ),
        (
            "disk_space_available_limit_bytes",
            "Free disk space low watermark in bytes",
            node.disk.limit_bytes as f64,
        ),
        (
            "erlang_uptime_seconds",
            "Node uptime",
            node.uptime_ms as f64 / 1_000.0,
        ),
    ];
    for (name, help, value) in metrics {
        page.one(name, Gauge, help, value);
    }
}

/// What it uses: the family `node_coarse_metrics`.
pub(super) fn node_usage(page: &mut Page, node: &NodeStats) {
    let metrics: [One; 3] = [
        (
            "process_open_fds",
            "Open file descriptors",
            node.descriptors.used as f64,
        ),
        (
            "process_resident_memory_bytes",
            "Memory used in bytes",
            node.memory.used_bytes as f64,
        ),
        (
            "disk_space_available_bytes",
            "Disk space available in bytes",
            node.disk.free_bytes as f64,
        ),
    ];
    for (name, help, value) in metrics {
        page.one(name, Gauge, help, value);
    }
}

/// What RabbitMQ has no metric of: sockets, processor time.
pub(super) fn node_process(page: &mut Page, node: &NodeStats) {
    let sockets = node.descriptors.sockets;
    page.one(
        "process_open_tcp_sockets",
        Gauge,
        "Open TCP sockets",
        sockets,
    );
    let most = node.descriptors.max;
    page.one(
        "process_max_tcp_sockets",
        Gauge,
        "Open TCP sockets limit",
        most,
    );
    let cpu = node.cpu_ms as f64 / 1_000.0;
    page.one(
        "process_cpu_seconds_total",
        Counter,
        "Processor time used",
        cpu,
    );
}

/// What it did to its disk: the family `node_persister_metrics`. Files of the log are not sought in
/// nor opened again, and there is neither Mnesia nor an index of queues: these are zero.
pub(super) fn node_persister(page: &mut Page, node: &NodeStats) {
    let io = &node.io;
    let seconds = |us: u64| us as f64 / 1e6;
    let metrics: [One; 17] = [
        (
            "io_read_ops_total",
            "Total number of I/O read operations",
            io.reads as f64,
        ),
        (
            "io_read_bytes_total",
            "Total number of I/O bytes read",
            io.read_bytes as f64,
        ),
        (
            "io_read_time_seconds_total",
            "Total I/O read time",
            seconds(io.read_us),
        ),
        (
            "io_write_ops_total",
            "Total number of I/O write operations",
            io.writes as f64,
        ),
        (
            "io_write_bytes_total",
            "Total number of I/O bytes written",
            io.write_bytes as f64,
        ),
        (
            "io_write_time_seconds_total",
            "Total I/O write time",
            seconds(io.write_us),
        ),
        (
            "io_sync_ops_total",
            "Total number of I/O sync operations",
            io.syncs as f64,
        ),
        (
            "io_sync_time_seconds_total",
            "Total I/O sync time",
            seconds(io.sync_us),
        ),
        (
            "io_seek_ops_total",
            "Total number of I/O seek operations",
            0.0,
        ),
        ("io_seek_time_seconds_total", "Total I/O seek time", 0.0),
        (
            "io_reopen_ops_total",
            "Total number of times files have been reopened",
            0.0,
        ),
        (
            "schema_db_ram_tx_total",
            "Total number of Schema DB memory transactions",
            0.0,
        ),
        (
            "schema_db_disk_tx_total",
            "Total number of Schema DB disk transactions",
            0.0,
        ),
        (
            "msg_store_read_total",
            "Total number of Message Store read operations",
            0.0,
        ),
        (
            "msg_store_write_total",
            "Total number of Message Store write operations",
            0.0,
        ),
        (
            "queue_index_read_ops_total",
            "Total number of Queue Index read operations",
            0.0,
        ),
        (
            "queue_index_write_ops_total",
            "Total number of Queue Index write operations",
            0.0,
        ),
    ];
    for (name, help, value) in metrics {
        page.one(name, Counter, help, value);
    }
}

/// How long syncs took, as a histogram of Prometheus: each bucket has all up to its bound.
pub(super) fn sync_histogram(page: &mut Page, io: &IoStats) {
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

pub(super) fn totals(page: &mut Page, app: &App, broker: &BrokerStats) {
    page.one(
        "connections",
        Gauge,
        "Connections currently open",
        broker.open.connections,
    );
    page.one(
        "channels",
        Gauge,
        "Channels currently open",
        broker.open.channels,
    );
    page.one(
        "consumers",
        Gauge,
        "Consumers currently connected",
        broker.open.consumers,
    );
    page.one("queues", Gauge, "Queues available", app.counts().queues);
}

/// Logins by protocol: the family `auth_attempt_metrics`.
pub(super) fn auth_attempts(page: &mut Page, app: &App, broker: &BrokerStats) {
    let (by_http, failed_by_http) = app.http_logins();
    let logins = &broker.logins;
    let by_protocol = [
        ("amqp091", logins.amqp.0, logins.amqp.1),
        ("stream", logins.stream.0, logins.stream.1),
        ("http", by_http, failed_by_http),
    ];
    for (name, help, count) in ATTEMPTS {
        let row = |(protocol, succeeded, failed): (&str, u64, u64)| {
            (labels(&[("protocol", protocol)]), count(succeeded, failed))
        };
        page.metric(name, Counter, help, by_protocol.map(row));
    }
}

/// Out of how many succeeded and failed.
type Count = fn(u64, u64) -> u64;

const ATTEMPTS: [(&str, &str, Count); 3] = [
    (
        "auth_attempts_total",
        "Total number of authorization attempts",
        |s, f| s + f,
    ),
    (
        "auth_attempts_succeeded_total",
        "Total number of successful authentication attempts",
        |s, _| s,
    ),
    (
        "auth_attempts_failed_total",
        "Total number of failed authentication attempts",
        |_, f| f,
    ),
];

const ATTEMPTS_BY_SOURCE: [(&str, &str, Count); 3] = [
    (
        "auth_attempts_detailed_total",
        "Total number of authorization attempts with source info",
        |s, f| s + f,
    ),
    (
        "auth_attempts_detailed_succeeded_total",
        "Total number of successful authorization attempts with source info",
        |s, _| s,
    ),
    (
        "auth_attempts_detailed_failed_total",
        "Total number of failed authorization attempts with source info",
        |_, f| f,
    ),
];

/// Logins by protocol, address and user, while they are counted so: the family
/// `auth_attempt_detailed_metrics`.
pub(super) fn auth_attempts_by_source(page: &mut Page, app: &App) {
    let rows = app.node().login_sources().rows();
    for (name, help, count) in ATTEMPTS_BY_SOURCE {
        let rows = rows
            .iter()
            .map(|(source, LoginCounts { succeeded, failed })| {
                let address = source.address.map(|address| address.to_string());
                let all = [
                    ("remote_address", address.as_deref().unwrap_or_default()),
                    ("username", &*source.user),
                    ("protocol", source.protocol.name()),
                ];
                // As in RabbitMQ, what is not known is no label.
                let known: Vec<_> = all.into_iter().filter(|(_, of)| !of.is_empty()).collect();
                (labels(&known), count(*succeeded, *failed))
            });
        page.metric(name, Counter, help, rows);
    }
}

pub(super) fn churn(page: &mut Page, broker: &BrokerStats) {
    for (name, help, count) in [
        (
            "connections_opened_total",
            "Total number of connections opened",
            broker.churn.connections_opened,
        ),
        (
            "connections_closed_total",
            "Total number of connections closed or terminated",
            broker.churn.connections_closed,
        ),
        (
            "channels_opened_total",
            "Total number of channels opened",
            broker.churn.channels_opened,
        ),
        (
            "channels_closed_total",
            "Total number of channels closed",
            broker.churn.channels_closed,
        ),
        (
            "queues_declared_total",
            "Total number of queues declared",
            broker.churn.queues_declared,
        ),
        (
            "queues_created_total",
            "Total number of queues created",
            broker.churn.queues_created,
        ),
        (
            "queues_deleted_total",
            "Total number of queues deleted",
            broker.churn.queues_deleted,
        ),
        (
            "leveret_logins_held_total",
            "Total number of logins held because of many wrong passwords before them",
            broker.logins.held,
        ),
        (
            "leveret_trace_spans_exported_total",
            "Total number of spans of traced messages that the collector took",
            broker.spans.exported,
        ),
        (
            "leveret_trace_spans_dropped_total",
            "Total number of spans of traced messages that were dropped",
            broker.spans.dropped,
        ),
    ] {
        page.one(name, Counter, help, count);
    }
}
