//! The figures of answers that are counted over time, with their names as RabbitMQ has them, and
//! with the rates at which they grow.

use crate::api::{BrokerStats, MessageCounters, NodeStats};
use crate::app::App;
use crate::history::latencies;
use crate::history::rates::{MESSAGE_FIELDS, NODE_FIELDS, Subject};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// The fields of `message_stats`, by counter.
pub(crate) fn fields(c: &MessageCounters) -> [(&'static str, u64); MESSAGE_FIELDS] {
    [
        ("publish", c.published),
        ("confirm", c.confirmed),
        ("return_unroutable", c.returned),
        ("drop_unroutable", c.dropped),
        ("deliver", c.delivered),
        ("deliver_no_ack", c.delivered_auto_ack),
        ("get", c.got),
        ("get_no_ack", c.got_auto_ack),
        ("get_empty", c.got_empty),
        ("redeliver", c.redelivered),
        ("ack", c.acknowledged),
        (
            "deliver_get",
            c.delivered + c.delivered_auto_ack + c.got + c.got_auto_ack,
        ),
    ]
}

/// What a node has, did, and saw come and go, by RabbitMQ's names where it has them. `p99_ms` is of
/// confirms, first deliveries and acknowledgements in the minute before.
pub(crate) fn node_fields(
    node: &NodeStats,
    broker: &BrokerStats,
    p99_ms: [u64; 3],
) -> [(&'static str, u64); NODE_FIELDS] {
    let [confirms, waits, acknowledgements] = latencies::of_clients(broker);
    [
        ("mem_used", node.memory.used_bytes),
        ("fd_used", node.descriptors.used),
        ("sockets_used", node.descriptors.sockets),
        ("disk_free", node.disk.free_bytes),
        ("io_read_count", node.io.reads),
        ("io_read_bytes", node.io.read_bytes),
        ("io_write_count", node.io.writes),
        ("io_write_bytes", node.io.write_bytes),
        ("io_sync_count", node.io.syncs),
        ("io_sync_us", node.io.sync_us),
        ("publish_confirm_count", confirms.count),
        ("publish_confirm_ms", confirms.total_ms),
        ("publish_confirm_p99_ms", p99_ms[0]),
        ("publish_deliver_count", waits.count),
        ("publish_deliver_ms", waits.total_ms),
        ("publish_deliver_p99_ms", p99_ms[1]),
        ("deliver_ack_count", acknowledgements.count),
        ("deliver_ack_ms", acknowledgements.total_ms),
        ("deliver_ack_p99_ms", p99_ms[2]),
        ("cpu_ms", node.cpu_ms),
        ("connection_created", broker.churn.connections_opened),
        ("connection_closed", broker.churn.connections_closed),
        ("channel_created", broker.churn.channels_opened),
        ("channel_closed", broker.churn.channels_closed),
        ("queue_declared", broker.churn.queues_declared),
        ("queue_created", broker.churn.queues_created),
        ("queue_deleted", broker.churn.queues_deleted),
    ]
}

/// Those of them that say what came and went.
pub(crate) const CHURN: [&str; 7] = [
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
];

/// Those of them that say how long clients wait, and are waited for.
pub(crate) const LATENCIES: [&str; 6] = [
    "publish_confirm_count",
    "publish_confirm_ms",
    "publish_deliver_count",
    "publish_deliver_ms",
    "deliver_ack_count",
    "deliver_ack_ms",
];

/// The names of [`fields`].
pub(crate) const MESSAGE_NAMES: [&str; MESSAGE_FIELDS] = [
    "publish",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "redeliver",
    "ack",
    "deliver_get",
];

/// The names of [`node_fields`].
pub(crate) const NODE_NAMES: [&str; NODE_FIELDS] = [
    "mem_used",
    "fd_used",
    "sockets_used",
    "disk_free",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
    "io_sync_us",
    "publish_confirm_count",
    "publish_confirm_ms",
    "publish_confirm_p99_ms",
    "publish_deliver_count",
    "publish_deliver_ms",
    "publish_deliver_p99_ms",
    "deliver_ack_count",
    "deliver_ack_ms",
    "deliver_ack_p99_ms",
    "cpu_ms",
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
];

/// How many messages there are, by name.
pub(crate) const DEPTHS: [&str; 3] = ["messages", "messages_ready", "messages_unacknowledged"];

/// `message_stats`: each counter, and its rate.
pub(crate) fn message_stats(app: &App, subject: Subject, counters: &MessageCounters) -> Value {
    messages_at(counters, message_rates(app, subject, counters))
}

/// The rates at which counters grow, in the order of [`fields`].
pub(crate) fn message_rates(
    app: &App,
    subject: Subject,
    counters: &MessageCounters,
) -> [f64; MESSAGE_FIELDS] {
    let counts = fields(counters).map(|(_, count)| count);
    app.rates.messages.of(subject, counts, Instant::now())
}

/// Counters with the rates at which they grow.
pub(crate) fn messages_at(counters: &MessageCounters, rates: [f64; MESSAGE_FIELDS]) -> Value {
    let mut out = Map::new();
    for ((name, count), rate) in fields(counters).into_iter().zip(rates) {
        out.insert(name.to_owned(), count.into());
        out.insert(format!("{name}_details"), json!({"rate": rate}));
    }
    Value::Object(out)
}

/// `messages`, `messages_ready` and `messages_unacknowledged` with the rates at which they change.
pub(crate) fn depths(app: &App, subject: Subject, depths: [u64; 3]) -> Value {
    let rates = app.rates.depths.of(subject, depths, Instant::now());
    depths_at(depths, rates)
}

/// Depths with the rates at which they change.
pub(crate) fn depths_at(depths: [u64; 3], rates: [f64; 3]) -> Value {
    let mut out = Map::new();
    for ((name, depth), rate) in DEPTHS.into_iter().zip(depths).zip(rates) {
        out.insert(name.to_owned(), depth.into());
        out.insert(format!("{name}_details"), json!({"rate": rate}));
    }
    Value::Object(out)
}
