//! What a node answers when another one asks it: see [`crate::peers`].

use crate::api::QueueStats;
use crate::app::App;
use crate::peers::{asks, without_zeros};
use crate::pieces::write_json;
use crate::{connections, overview, queues, stream_rows, vhost_sums};
use leveret_types::{ConnectionId, QueueId};
use serde_json::{Value, json};

/// Answers what another node asks; nothing where the question makes no sense here, as one of a
/// later version may not.
#[must_use]
pub fn answer(app: &App, ask: &str) -> Option<Vec<u8>> {
    let answer = match ask {
        asks::QUEUES => return Some(led(app, app.node().queues())),
        asks::CONNECTIONS => connections::own_connections(app).into(),
        asks::CHANNELS => connections::own_channels(app).into(),
        asks::CONSUMERS => connections::own_consumers(app).into(),
        asks::STREAM_PUBLISHERS => stream_rows::own_publishers(app).into(),
        asks::STREAM_CONSUMERS => stream_rows::own_consumers(app).into(),
        asks::NODE => overview::own_node(app),
        asks::MEMORY => overview::own_memory(app),
        asks::OVERVIEW => overview::own_overview(app),
        asks::VHOSTS => vhost_sums::own(app, None),
        _ => return one(app, ask),
    };
    // Numbers and texts always are JSON.
    serde_json::to_vec(&without_zeros(answer)).ok()
}

/// Figures of those queues that are led here, as a list. One row is made at a time.
fn led(app: &App, queues: Vec<QueueStats>) -> Vec<u8> {
    let owners = queues::owners(app, &queues);
    let led = queues.into_iter().filter(|queue| !queue.follows);
    let mut out = Vec::new();
    for queue in led {
        out.push(if out.is_empty() { b'[' } else { b',' });
        let row = without_zeros(queues::stats(app, &queue, &owners));
        write_json(&mut out, &row);
    }
    out.extend_from_slice(if out.is_empty() { b"[]" } else { b"]" });
    out
}

/// Answers about some things.
fn one(app: &App, ask: &str) -> Option<Vec<u8>> {
    let answer = if let Some(ids) = ask.strip_prefix(asks::QUEUES_OF) {
        let ids = ids.split(' ').map(|id| id.parse().map(QueueId));
        let ids: Vec<QueueId> = ids.collect::<Result<_, _>>().ok()?;
        return Some(led(app, app.node().queues_of(&ids)));
    } else if let Some(queue) = ask.strip_prefix(asks::QUEUE) {
        let stats = app.node().queue(QueueId(queue.parse().ok()?));
        let led = stats.filter(|queue| !queue.follows);
        let of = |stats: QueueStats| queues::stats(app, &stats, &queues::owners(app, [&stats]));
        led.map_or(Value::Null, of)
    } else if let Some(vhost) = ask.strip_prefix(asks::VHOST) {
        vhost_sums::own(app, Some(vhost))
    } else if let Some(queue) = ask.strip_prefix(asks::REPLICA) {
        queues::own_replica(app, QueueId(queue.parse().ok()?))
    } else if let Some(stream) = ask.strip_prefix(asks::TRACKING) {
        stream_rows::own_tracking(app, QueueId(stream.parse().ok()?))
    } else if let Some(rest) = ask.strip_prefix(asks::STORE_OFFSET) {
        let (stream, rest) = rest.split_once(' ')?;
        let (offset, name) = rest.split_once(' ')?;
        let stream = QueueId(stream.parse().ok()?);
        let offset = offset.parse().ok()?;
        json!(app.node().store_stream_offset(stream, name, offset))
    } else if let Some(rest) = ask.strip_prefix(asks::ADD_REPLICA) {
        replica_changed(app, rest, true)?
    } else if let Some(rest) = ask.strip_prefix(asks::DELETE_REPLICA) {
        replica_changed(app, rest, false)?
    } else {
        let (connection, reason) = ask.strip_prefix(asks::CLOSE)?.split_once(' ')?;
        let connection = ConnectionId(connection.parse().ok()?);
        json!(app.node().close_connection(connection, reason))
    };
    serde_json::to_vec(&without_zeros(answer)).ok()
}

/// Changes the replicas of a stream that is led here: true, or why not in words; nothing where
/// another node leads it.
fn replica_changed(app: &App, rest: &str, adds: bool) -> Option<Value> {
    let (stream, node) = rest.split_once(' ')?;
    let stream = QueueId(stream.parse().ok()?);
    Some(match app.node().change_stream_replica(stream, node, adds) {
        Ok(true) => json!(true),
        Ok(false) => Value::Null,
        Err(why) => json!(why),
    })
}
