//! Metrics of the node as a whole: who it is, what it uses, how much is open, what came and went.

use super::text::{Counter, Gauge, Page, labels};
use crate::api::{BrokerStats, IoStats, NodeStats};
use crate::app::App;
use crate::overview::{RABBITMQ_VERSION, VERSION};

pub(super) fn identity(page: &mut Page, node: &NodeStats) {
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

pub(super) fn node_metrics(page: &mut Page, node: &NodeStats) {
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

pub(super) fn totals(page: &mut Page, app: &App, broker: &BrokerStats) {
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

pub(super) fn churn(page: &mut Page, app: &App, broker: &BrokerStats) {
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
