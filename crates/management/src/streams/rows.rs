//! What this node knows of its streams' clients, and of what streams keep by name.

use crate::api::{ConnectionStats, StreamConsumerStats, StreamPublisherStats};
use crate::app::App;
use crate::connections;
use crate::directory::Queue;
use crate::row_lists::BATCH;
use leveret_types::{ConnectionId, QueueId};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Who and what a row of a publisher or subscription is about.
fn row(
    node: &str,
    connections: &HashMap<ConnectionId, ConnectionStats>,
    queues: &HashMap<QueueId, Queue>,
    (connection, stream): (ConnectionId, QueueId),
    rest: Value,
) -> Option<Value> {
    let (connection, queue) = (connections.get(&connection)?, queues.get(&stream)?);
    let mut details = connections::connection_details(connection);
    details["user"] = json!(connection.user);
    details["node"] = json!(node);
    let mut row = json!({
        "connection_details": details,
        "queue": {"name": queue.name, "vhost": queue.vhost},
    });
    crate::http::reply::merge(&mut row, rest);
    Some(row)
}

/// A publisher, without who and where.
pub(crate) fn publisher_json(publisher: &StreamPublisherStats) -> Value {
    json!({
        "publisher_id": publisher.id,
        "reference": publisher.reference,
        "published": publisher.published,
        "confirmed": publisher.confirmed,
        "errored": publisher.errored,
    })
}

/// The same of a subscription.
pub(crate) fn consumer_json(consumer: &StreamConsumerStats) -> Value {
    let pairs = consumer.properties.iter();
    let properties: Map<String, Value> = pairs
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    json!({
        "subscription_id": consumer.id,
        "credits": consumer.credits,
        "consumed": consumer.consumed,
        "offset": consumer.offset,
        "offset_lag": consumer.offset_lag,
        "active": consumer.active,
        "activity_status": consumer.activity(),
        "properties": properties,
    })
}

/// The publishers of this node's clients of the stream protocol.
pub fn own_publishers(app: &App) -> Vec<Value> {
    let publishers = app.node().stream_publishers();
    own(app, &publishers, |p| {
        ((p.connection, p.queue), publisher_json(p))
    })
}

/// The subscriptions of this node's clients of the stream protocol.
pub fn own_consumers(app: &App) -> Vec<Value> {
    let consumers = app.node().stream_consumers();
    own(app, &consumers, |c| {
        ((c.connection, c.queue), consumer_json(c))
    })
}

fn own<T>(
    app: &App,
    items: &[T],
    of: impl Fn(&T) -> ((ConnectionId, QueueId), Value),
) -> Vec<Value> {
    if items.is_empty() {
        return Vec::new();
    }
    let node = app.node().name();
    let mut rows = Vec::new();
    // Of their connections and queues few are held.
    for some in items.chunks(BATCH) {
        let some: Vec<_> = some.iter().map(&of).collect();
        let (mut of_connections, mut of_queues): (Vec<_>, Vec<_>) =
            some.iter().map(|(ids, _)| *ids).unzip();
        of_connections.sort_unstable();
        of_connections.dedup();
        of_queues.sort_unstable();
        of_queues.dedup();
        let connections = app.node().connections_of(&of_connections).into_iter();
        let connections = connections
            .map(|of| (of.connection.id, of.connection))
            .collect();
        let queues = app.node().queues_by_id(&of_queues).into_iter();
        let queues = queues.map(|queue| (queue.id, queue)).collect();
        let of_known = some.into_iter();
        rows.extend(
            of_known.filter_map(|(ids, rest)| row(&node, &connections, &queues, ids, rest)),
        );
    }
    rows
}

/// How the replica of a stream stands that this node has, in RabbitMQ's words; nothing if it is not
/// here.
pub(crate) fn own_replica(app: &App, stream: QueueId) -> Value {
    let stats = app.node().queues_of(&[stream]).pop();
    let Some(stats) = stats else {
        return Value::Null;
    };
    let (follows, is_damaged) = (stats.follows, stats.damaged);
    let Some(standing) = stats.stream else {
        return Value::Null;
    };
    // An empty stream has none, which RabbitMQ writes as -1.
    let offset = |offset: Option<u64>| offset.map_or(json!(-1), Value::from);
    json!({
        "role": if follows { "replica" } else { "writer" },
        "state": if is_damaged { "damaged" } else { "running" },
        "offset": offset(standing.last_offset),
        "committed_offset": offset(standing.committed_offset),
        "first_offset": offset(standing.first_offset),
        "readers": standing.readers,
        "segments": standing.segments,
    })
}

/// The row of a replica from what its node says of it: that may be nothing.
pub(crate) fn replica_row(node: &str, told: Option<Value>) -> Value {
    // Fields that are 0 are left out on the way between nodes.
    let (role, state, offset) = match told {
        Some(Value::Object(_)) => ("", "running", 0),
        _ => ("unknown", "unknown", -1),
    };
    let shape = json!({
        "role": role,
        "state": state,
        "node": node,
        "offset": offset,
        "committed_offset": offset,
        "first_offset": offset,
        "readers": 0,
        "segments": 0,
    });
    match told {
        Some(told @ Value::Object(_)) => crate::peers::shaped(&shape, told),
        _ => shape,
    }
}

/// What a stream of this node keeps by name; nothing if it is not here.
pub(crate) fn own_tracking(app: &App, stream: QueueId) -> Value {
    let Some(tracking) = app.node().stream_tracking(stream) else {
        return Value::Null;
    };
    let pairs = |pairs: Vec<(String, u64)>| -> Value {
        let pairs = pairs.into_iter().map(|(name, value)| json!([name, value]));
        pairs.collect()
    };
    // In lists: fields that are 0 are left out on the way between nodes.
    json!({"offsets": pairs(tracking.offsets), "writers": pairs(tracking.writers)})
}
