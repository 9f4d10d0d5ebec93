//! Connections, channels, consumers.

use crate::api::{ChannelStats, ConnectionStats, ConsumerStats};
use crate::app::App;
use crate::directory::Queue;
use crate::input::json_of;
use crate::overview::{Subject, message_stats};
use crate::page;
use crate::queues::rfc3339;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_types::{ConnectionId, QueueId};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Instant;

type Answer = Result<Reply, ApiError>;

/// What stands for an Erlang process id: text without a space, that scripts hand back to
/// `close_connection`.
fn pid(node: &str, connection: ConnectionId, channel: u16) -> String {
    format!("<{node}.{connection}.{channel}.0>")
}

fn address(end: Option<std::net::SocketAddr>) -> (String, u16) {
    end.map_or_else(Default::default, |end| {
        (end.ip().to_canonical().to_string(), end.port())
    })
}

fn connection_json(app: &App, node: &str, c: &ConnectionStats) -> Value {
    let ((host, port), (peer_host, peer_port)) = (address(c.local), address(c.peer));
    let [received, sent] =
        app.traffic_rates(c.id.0, [c.received_bytes, c.sent_bytes], Instant::now());
    let mut json = json!({
        "name": c.name,
        "user_provided_name": c.user_provided_name,
        "pid": pid(node, c.id, 0),
        "node": node,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "user": c.user,
        "user_who_performed_action": c.user,
        "vhost": c.vhost,
        "host": host,
        "port": port,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "auth_mechanism": c.mechanism,
        "state": c.state,
        "channels": c.channels,
        "channel_max": c.channels_max,
        "frame_max": c.frame_bytes_max,
        "timeout": c.heartbeat_seconds,
        "client_properties": json_of(&c.client_properties),
        "connected_at": c.connected_at_ms,
        "recv_oct": c.received_bytes,
        "recv_oct_details": {"rate": received},
        "recv_cnt": c.received_packets,
        "send_oct": c.sent_bytes,
        "send_oct_details": {"rate": sent},
        "send_cnt": c.sent_packets,
        "send_pend": c.pending_bytes,
        "ssl": c.tls.is_some(),
        "ssl_protocol": null,
        "ssl_cipher": null,
        "peer_cert_subject": null,
    });
    if let Some((version, cipher, subject)) = &c.tls {
        json["ssl_protocol"] = json!(version);
        json["ssl_cipher"] = json!(cipher);
        json["peer_cert_subject"] = json!(subject);
    }
    json
}

/// Whether this request may see a connection: its own user's, or all of them.
fn may_see(call: &Call<'_>, c: &ConnectionStats) -> bool {
    call.who.is_monitor() || c.user == call.who.name()
}

fn list_connections(call: &Call<'_>, keep: impl Fn(&ConnectionStats) -> bool) -> Answer {
    let app = call.app;
    let node = app.node().node_stats().name;
    let mut all = app.node().connections();
    all.retain(|c| may_see(call, c) && keep(c));
    all.sort_by_key(|c| c.id);
    let items = all.iter().map(|c| connection_json(app, &node, c)).collect();
    page::list(items, &call.query).map(Reply::Json)
}

/// `GET /api/connections`
pub fn connections(call: &Call<'_>) -> Answer {
    list_connections(call, |_| true)
}

/// `GET /api/vhosts/{vhost}/connections`
pub fn connections_of_vhost(call: &Call<'_>) -> Answer {
    list_connections(call, |c| c.vhost == call.param(0))
}

/// `GET /api/connections/username/{user}`
pub fn connections_of_user(call: &Call<'_>) -> Answer {
    list_connections(call, |c| c.user == call.param(0))
}

fn named(call: &Call<'_>) -> Result<ConnectionStats, ApiError> {
    let all = call.app.node().connections();
    let found = all.into_iter().find(|c| c.name == call.param(0));
    found.filter(|c| may_see(call, c)).ok_or(ApiError::NotFound)
}

/// `GET /api/connections/{name}`
pub fn connection(call: &Call<'_>) -> Answer {
    let node = call.app.node().node_stats().name;
    let json = connection_json(call.app, &node, &named(call)?);
    Ok(Reply::Json(page::one(json, &call.query)))
}

const CLOSE_REASON: &str = "Closed via management plugin";

/// Whether this request may close a connection: its own user's, or any for an administrator.
fn close(call: &Call<'_>, c: &ConnectionStats) -> Result<(), ApiError> {
    if !call.who.is_administrator() && c.user != call.who.name() {
        let text = "Not administrator user".to_owned();
        return Err(ApiError::NotAuthorised(text));
    }
    let reason = call.reason.as_deref().unwrap_or(CLOSE_REASON);
    call.app.node().close_connection(c.id, reason);
    Ok(())
}

/// `DELETE /api/connections/{name}`
pub fn close_one(call: &Call<'_>) -> Answer {
    close(call, &named(call)?)?;
    Ok(Reply::Done)
}

/// `DELETE /api/connections/username/{user}`
pub fn close_of_user(call: &Call<'_>) -> Answer {
    for c in call.app.node().connections() {
        if c.user == call.param(0) {
            close(call, &c)?;
        }
    }
    Ok(Reply::Done)
}

fn connection_details(c: &ConnectionStats) -> Value {
    let (peer_host, peer_port) = address(c.peer);
    json!({"name": c.name, "peer_host": peer_host, "peer_port": peer_port})
}

fn channel_name(c: &ConnectionStats, number: u16) -> String {
    format!("{} ({number})", c.name)
}

fn channel_json(app: &App, node: &str, c: &ConnectionStats, channel: &ChannelStats) -> Value {
    let subject = Subject::Channel(c.id.0, channel.number);
    let mut json = json!({
        "name": channel_name(c, channel.number),
        "pid": pid(node, c.id, channel.number),
        "number": channel.number,
        "node": node,
        "user": c.user,
        "user_who_performed_action": c.user,
        "vhost": c.vhost,
        "connection_details": connection_details(c),
        "state": channel.state,
        "confirm": channel.confirm,
        "transactional": channel.transactional,
        "consumer_count": channel.consumers,
        "messages_unacknowledged": channel.unacknowledged,
        "messages_unconfirmed": channel.unconfirmed,
        "messages_uncommitted": channel.uncommitted,
        "acks_uncommitted": channel.uncommitted_settles,
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": channel.global_prefetch,
        "message_stats": message_stats(app, subject, &channel.messages),
    });
    if let Some(since) = channel.idle_since_ms {
        json["idle_since"] = rfc3339(since).into();
    }
    json
}

/// Connections by id, but for those that this request may not see.
fn visible(call: &Call<'_>) -> HashMap<ConnectionId, ConnectionStats> {
    let mut all = call.app.node().connections();
    all.retain(|c| may_see(call, c));
    all.into_iter().map(|c| (c.id, c)).collect()
}

fn list_channels(call: &Call<'_>, keep: impl Fn(&ConnectionStats) -> bool) -> Answer {
    let app = call.app;
    let node = app.node().node_stats().name;
    let connections = visible(call);
    let mut channels = app.node().channels();
    channels.sort_by_key(|c| (c.connection, c.number));
    let items = channels
        .iter()
        .filter_map(|channel| Some((connections.get(&channel.connection)?, channel)))
        .filter(|(connection, _)| keep(connection))
        .map(|(connection, channel)| channel_json(app, &node, connection, channel))
        .collect();
    page::list(items, &call.query).map(Reply::Json)
}

/// `GET /api/channels`
pub fn channels(call: &Call<'_>) -> Answer {
    list_channels(call, |_| true)
}

/// `GET /api/vhosts/{vhost}/channels`
pub fn channels_of_vhost(call: &Call<'_>) -> Answer {
    list_channels(call, |c| c.vhost == call.param(0))
}

/// `GET /api/connections/{name}/channels`
pub fn channels_of_connection(call: &Call<'_>) -> Answer {
    let connection = named(call)?;
    list_channels(call, |c| c.id == connection.id)
}

/// `GET /api/channels/{name}`
pub fn channel(call: &Call<'_>) -> Answer {
    let app = call.app;
    let node = app.node().node_stats().name;
    let connections = visible(call);
    let all = app.node().channels();
    let found = all.iter().find_map(|channel| {
        let connection = connections.get(&channel.connection)?;
        let is_it = channel_name(connection, channel.number) == call.param(0);
        is_it.then_some((connection, channel))
    });
    let (connection, channel) = found.ok_or(ApiError::NotFound)?;
    let mut json = channel_json(app, &node, connection, channel);
    let names = queue_names(app);
    let consumers = app.node().consumers();
    json["consumer_details"] = consumers
        .iter()
        .filter(|c| (c.connection, c.channel) == (channel.connection, channel.number))
        .filter_map(|c| consumer_json(&node, names.get(&c.queue)?, Some(connection), c))
        .collect();
    Ok(Reply::Json(page::one(json, &call.query)))
}

fn queue_names(app: &App) -> HashMap<QueueId, Queue> {
    let queues = app.node().declared_queues(None);
    queues.into_iter().map(|q| (q.id, q)).collect()
}

fn consumer_json(
    node: &str,
    queue: &Queue,
    connection: Option<&ConnectionStats>,
    consumer: &ConsumerStats,
) -> Option<Value> {
    let connection = connection?;
    let (peer_host, peer_port) = address(connection.peer);
    Some(json!({
        "consumer_tag": consumer.tag,
        "ack_required": consumer.ack_required,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "active": consumer.active,
        "activity_status": if consumer.active { "up" } else { "waiting" },
        "consumer_timeout": "undefined",
        "arguments": json_of(&consumer.arguments),
        "queue": {"name": queue.name, "vhost": queue.vhost},
        "channel_details": {
            "name": channel_name(connection, consumer.channel),
            "number": consumer.channel,
            "pid": pid(node, connection.id, consumer.channel),
            "node": node,
            "user": connection.user,
            "connection_name": connection.name,
            "peer_host": peer_host,
            "peer_port": peer_port,
        },
    }))
}

/// The consumers of a queue.
pub fn consumers_of(app: &App, queue: QueueId) -> Value {
    let consumers = app.node().consumers();
    if consumers.iter().all(|c| c.queue != queue) {
        return json!([]);
    }
    let node = app.node().node_stats().name;
    let connections = app.node().connections();
    let names = queue_names(app);
    consumers
        .iter()
        .filter(|c| c.queue == queue)
        .filter_map(|c| {
            let connection = connections.iter().find(|x| x.id == c.connection);
            consumer_json(&node, names.get(&queue)?, connection, c)
        })
        .collect()
}

fn list_consumers(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let app = call.app;
    let node = app.node().node_stats().name;
    let names = queue_names(app);
    let connections: HashMap<_, _> = app
        .node()
        .connections()
        .into_iter()
        .map(|c| (c.id, c))
        .collect();
    let mut seen: HashMap<String, bool> = HashMap::new();
    let mut items = Vec::new();
    for consumer in app.node().consumers() {
        let Some(queue) = names.get(&consumer.queue) else {
            continue;
        };
        if vhost.is_some_and(|vhost| vhost != queue.vhost) {
            continue;
        }
        let may = seen
            .entry(queue.vhost.clone())
            .or_insert_with(|| app.sees(call.who, &queue.vhost));
        if *may {
            let connection = connections.get(&consumer.connection);
            items.extend(consumer_json(&node, queue, connection, &consumer));
        }
    }
    page::list(items, &call.query).map(Reply::Json)
}

/// `GET /api/consumers`
pub fn consumers(call: &Call<'_>) -> Answer {
    list_consumers(call, None)
}

/// `GET /api/consumers/{vhost}`
pub fn consumers_of_vhost(call: &Call<'_>) -> Answer {
    list_consumers(call, Some(call.param(0)))
}
