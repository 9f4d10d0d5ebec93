//! Connections, channels, consumers.

use crate::api::{ChannelStats, ConnectionContent, ConnectionStats, ConsumerStats};
use crate::app::App;
use crate::client_lists;
use crate::directory::Queue;
use crate::history;
use crate::history::ranges::{Part, Ranges};
use crate::history::rates::Subject;
use crate::http::input::json_of;
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use crate::list_query;
use crate::message_stats::message_stats;
use crate::pairs::{self, ConsumerFigures};
use crate::peers;
use crate::question::Question;
use crate::rabbitmq_only_fields;
use crate::selection::{ClientSelection, Kind, PairSelection};
use crate::timestamps::rfc3339;
use leveret_types::limits::QUEUE_SHOWN_CONSUMERS_MAX;
use leveret_types::{ConnectionId, QueueId};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

type Answer = Result<Reply, ApiError>;

/// The connection that a [`pid`] names.
fn id_of(pid: &str) -> Option<ConnectionId> {
    let numbers = pid.strip_suffix(".0>")?;
    let (rest, _channel) = numbers.rsplit_once('.')?;
    let (_node, connection) = rest.rsplit_once('.')?;
    connection.parse().ok().map(ConnectionId)
}

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

pub(crate) fn connection_json(
    app: &App,
    node: &str,
    c: &ConnectionStats,
    ranges: &Ranges,
) -> Value {
    let ((host, port), (peer_host, peer_port)) = (address(c.local), address(c.peer));
    let [received, sent] =
        app.rates
            .traffic
            .of(c.id.0, [c.received_bytes, c.sent_bytes], Instant::now());
    let mut json = json!({
        "name": c.name,
        "user_provided_name": c.user_provided_name,
        "pid": pid(node, c.id, 0),
        "node": node,
        "type": "network",
        "protocol": c.protocol,
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
    merge(&mut json, rabbitmq_only_fields::of_connection());
    history::write(
        app,
        Subject::Connection(c.id.0),
        ranges,
        &[Part::Data],
        &mut json,
    );
    if let Some((version, cipher, subject)) = &c.tls {
        json["ssl_protocol"] = json!(version);
        json["ssl_cipher"] = json!(cipher);
        json["peer_cert_subject"] = json!(subject);
    }
    json
}

/// What a row has that is made here, whatever it says.
pub(crate) struct Shape;

impl Shape {
    /// A row in which nothing is said.
    pub(crate) fn of(kind: Kind, app: &App) -> Value {
        let (connection, ranges) = (ConnectionStats::default(), Ranges::default());
        match kind {
            Kind::Connections => connection_json(app, "", &connection, &ranges),
            Kind::Channels => channel_json(app, "", &connection, &ChannelStats::default(), &ranges),
            Kind::Consumers => {
                let (queue, consumer) = (Queue::default(), ConsumerStats::default());
                consumer_json(app, "", &queue, &connection, &consumer)
            }
        }
    }
}

/// Whether this request may see a connection, or what belongs to one: its own user's, or all.
fn may_see(call: &Call<'_>, row: &Value) -> bool {
    call.who.is_monitor() || row["user"] == call.who.name()
}

/// The connections of all nodes that are selected, this one's first.
pub(crate) fn everywhere(
    app: &Arc<App>,
    of: ClientSelection,
) -> impl Iterator<Item = Value> + use<> {
    client_lists::everywhere(app, Kind::Connections, of, &Ranges::default())
}

/// Those of this user.
fn of_user(user: &str) -> ClientSelection {
    ClientSelection {
        user: Some(user.to_owned()),
        ..ClientSelection::default()
    }
}

/// What is of the connection of this name.
fn of_connection(name: &str) -> ClientSelection {
    ClientSelection {
        connection: Some(name.to_owned()),
        ..ClientSelection::default()
    }
}

/// What is in this virtual host.
fn of_vhost(vhost: &str) -> ClientSelection {
    ClientSelection {
        vhost: Some(vhost.to_owned()),
        ..ClientSelection::default()
    }
}

/// The ids of all connections of a user, on whatever node.
pub(crate) fn ids_of_user(app: &Arc<App>, user: &str) -> HashSet<ConnectionId> {
    let ids = everywhere(app, of_user(user)).filter_map(|c| id_of(c["pid"].as_str()?));
    ids.collect()
}

/// The channels in a virtual host, on whatever node, that are wanted.
pub(crate) fn channels_where(
    app: &Arc<App>,
    vhost: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let ranges = Ranges::default();
    let channels = client_lists::everywhere(app, Kind::Channels, of_vhost(vhost), &ranges);
    channels.filter(is_wanted).collect()
}

/// `GET /api/connections`
pub fn connections(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Connections, ClientSelection::default())
}

/// `GET /api/vhosts/{vhost}/connections`
pub fn connections_of_vhost(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Connections, of_vhost(call.param(0)))
}

/// `GET /api/connections/username/{user}`
pub fn connections_of_user(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Connections, of_user(call.param(0)))
}

/// The connection of this name, if it may be seen.
///
/// # Errors
/// If the query asks for figures over a time that makes no sense.
pub(crate) fn of_name(call: &Call<'_>, name: &str) -> Result<Option<Value>, ApiError> {
    let (app, ranges) = (call.app, Ranges::of(&call.query)?);
    // One of this node's is looked up alone, and no other node asked.
    let found = match app.node().connection(name) {
        Some(content) => {
            let node = app.node().name();
            Some(connection_json(app, &node, &content.connection, &ranges))
        }
        None => {
            let of = of_connection(name);
            client_lists::everywhere(app, Kind::Connections, of, &ranges).next()
        }
    };
    Ok(found.filter(|connection| may_see(call, connection)))
}

/// The connection that the path names.
fn named(call: &Call<'_>) -> Result<Value, ApiError> {
    of_name(call, call.param(0))?.ok_or(ApiError::NotFound)
}

/// `GET /api/connections/{name}`
pub fn connection(call: &Call<'_>) -> Answer {
    Ok(Reply::Json(list_query::one(named(call)?, &call.query)))
}

/// `GET /api/connections/{name}/sessions`: those are AMQP 1.0's.
pub fn sessions(call: &Call<'_>) -> Answer {
    named(call)?;
    let text = "connection does not use AMQP 1.0".to_owned();
    Err(ApiError::BadRequest(text))
}

const CLOSE_REASON: &str = "Closed via management plugin";

/// Closes a connection, if this request may: its own user's, or any for an administrator.
pub(crate) fn close(call: &Call<'_>, c: &Value) -> Result<(), ApiError> {
    if !call.who.is_administrator() && c["user"] != call.who.name() {
        let text = "Not administrator user".to_owned();
        return Err(ApiError::NotAuthorised(text));
    }
    let reason = call.reason.as_deref().unwrap_or(CLOSE_REASON);
    let app = call.app;
    let Some(id) = c["pid"].as_str().and_then(id_of) else {
        return Ok(());
    };
    if c["node"] == app.node().name() {
        app.node().close_connection(id, reason);
    } else {
        // Its own node knows it; the others have none of that number.
        peers::ask(app, &Question::close(id, reason));
    }
    Ok(())
}

/// `DELETE /api/connections/{name}`
pub fn close_one(call: &Call<'_>) -> Answer {
    close(call, &named(call)?)?;
    Ok(Reply::Done)
}

/// `DELETE /api/connections/username/{user}`
pub fn close_of_user(call: &Call<'_>) -> Answer {
    for c in everywhere(call.app, of_user(call.param(0))) {
        close(call, &c)?;
    }
    Ok(Reply::Done)
}

/// A connection's name, and where its client is.
pub(crate) fn connection_details(c: &ConnectionStats) -> Value {
    let (peer_host, peer_port) = address(c.peer);
    json!({"name": c.name, "peer_host": peer_host, "peer_port": peer_port})
}

pub(crate) fn channel_name(c: &ConnectionStats, number: u16) -> String {
    format!("{} ({number})", c.name)
}

pub(crate) fn channel_json(
    app: &App,
    node: &str,
    c: &ConnectionStats,
    channel: &ChannelStats,
    ranges: &Ranges,
) -> Value {
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
    merge(&mut json, rabbitmq_only_fields::of_channel());
    history::write(app, subject, ranges, &[Part::Messages], &mut json);
    if let Some(since) = channel.idle_since_ms {
        json["idle_since"] = rfc3339(since).into();
    }
    json
}

/// A channel of this node's, with its consumers.
fn own_channel(app: &App, name: &str, ranges: &Ranges) -> Option<Value> {
    let (of, number) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let number: u16 = number.parse().ok()?;
    let content = app.node().connection(of)?;
    let ConnectionContent {
        connection,
        channels,
        ..
    } = content;
    let channel = channels.iter().find(|channel| channel.number == number)?;
    let node = app.node().name();
    let mut json = channel_json(app, &node, &connection, channel, ranges);
    let mut consumers = app.node().consumers_on(connection.id);
    consumers.retain(|consumer| consumer.channel == number);
    let queues: Vec<QueueId> = consumers.iter().map(|consumer| consumer.queue).collect();
    let queues: HashMap<QueueId, Queue> = app
        .node()
        .queues_by_id(&queues)
        .into_iter()
        .map(|queue| (queue.id, queue))
        .collect();
    let rows = consumers.iter().filter_map(|consumer| {
        let queue = queues.get(&consumer.queue)?;
        Some(consumer_json(app, &node, queue, &connection, consumer))
    });
    json["consumer_details"] = rows.collect();
    Some(json)
}

fn channel_elsewhere(app: &Arc<App>, name: &str, ranges: &Ranges) -> Option<Value> {
    let (connection, _) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let of = || of_connection(connection);
    let mut channels = client_lists::everywhere(app, Kind::Channels, of(), ranges);
    let mut json = channels.find(|channel| channel["name"] == name)?;
    let consumers = client_lists::everywhere(app, Kind::Consumers, of(), ranges);
    let of_it = consumers.filter(|c| c["channel_details"]["name"] == name);
    json["consumer_details"] = of_it.collect();
    Some(json)
}

/// `GET /api/channels`
pub fn channels(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Channels, ClientSelection::default())
}

/// `GET /api/vhosts/{vhost}/channels`
pub fn channels_of_vhost(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Channels, of_vhost(call.param(0)))
}

/// `GET /api/connections/{name}/channels`
pub fn channels_of_connection(call: &Call<'_>) -> Answer {
    named(call)?;
    client_lists::list(call, Kind::Channels, of_connection(call.param(0)))
}

/// `GET /api/channels/{name}`
pub fn channel(call: &Call<'_>) -> Answer {
    let (app, name) = (call.app, call.param(0));
    let ranges = Ranges::of(&call.query)?;
    let own = own_channel(app, name, &ranges);
    let found = own.or_else(|| channel_elsewhere(app, name, &ranges));
    let found = found.filter(|channel| may_see(call, channel));
    let mut json = found.ok_or(ApiError::NotFound)?;
    let of = PairSelection::Channel {
        connection: json["connection_details"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        number: json["number"].as_u64().map_or(0, |number| number as u16),
    };
    let publishes = pairs::everywhere(app, of).channels;
    json["publishes"] = pairs::without(publishes, "channel_details");
    json["deliveries"] = pairs::deliveries(&json["consumer_details"], "queue");
    Ok(Reply::Json(list_query::one(json, &call.query)))
}

/// A consumer's row. It is no value before one is wanted: there may be very many, and a value takes
/// several times as long to be made as the text.
#[derive(Serialize)]
pub(crate) struct ConsumerRow<'a> {
    ack_required: bool,
    active: bool,
    activity_status: &'static str,
    arguments: Value,
    channel_details: &'a Value,
    consumer_tag: &'a str,
    exclusive: bool,
    message_stats: ConsumerFigures,
    messages_unacknowledged: u64,
    oldest_unacknowledged_at: Option<u64>,
    prefetch_count: u16,
    queue: QueueNames<'a>,
}

/// What names a queue in a row of something else.
#[derive(Serialize)]
struct QueueNames<'a> {
    name: &'a str,
    vhost: &'a str,
}

impl<'a> ConsumerRow<'a> {
    /// The row of a consumer on a channel that is named like this.
    pub(crate) fn of(
        app: &App,
        queue: &'a Queue,
        channel_details: &'a Value,
        consumer: &'a ConsumerStats,
    ) -> Self {
        Self {
            ack_required: consumer.ack_required,
            active: consumer.single_active != Some(false),
            activity_status: match consumer.single_active {
                None => "up",
                Some(true) => "single_active",
                Some(false) => "waiting",
            },
            arguments: json_of(&consumer.arguments),
            channel_details,
            consumer_tag: &consumer.tag,
            exclusive: consumer.exclusive,
            message_stats: ConsumerFigures::of(app, consumer),
            messages_unacknowledged: consumer.unacknowledged,
            oldest_unacknowledged_at: consumer.oldest_unacknowledged_ms,
            prefetch_count: consumer.prefetch,
            queue: QueueNames {
                name: &queue.name,
                vhost: &queue.vhost,
            },
        }
    }

    /// Its text.
    pub(crate) fn text(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self)
            .unwrap_or_else(|error| unreachable!("a row without a form in JSON: {error}"))
    }
}

/// The same as a value.
pub(crate) fn consumer_json(
    app: &App,
    node: &str,
    queue: &Queue,
    connection: &ConnectionStats,
    consumer: &ConsumerStats,
) -> Value {
    let channel = channel_details(node, connection, consumer.channel);
    json!(ConsumerRow::of(app, queue, &channel, consumer))
}

/// What names a channel wherever it is.
pub(crate) fn channel_details(node: &str, connection: &ConnectionStats, number: u16) -> Value {
    let (peer_host, peer_port) = address(connection.peer);
    json!({
        "name": channel_name(connection, number),
        "number": number,
        "pid": pid(node, connection.id, number),
        "node": node,
        "user": connection.user,
        "connection_name": connection.name,
        "peer_host": peer_host,
        "peer_port": peer_port,
    })
}

/// The consumers of a queue, this node's first, as many as are shown with it.
pub fn consumers_of(app: &Arc<App>, queue: &Queue) -> Value {
    let node = app.node().name();
    let own = app.node().consumers_of(queue.id, QUEUE_SHOWN_CONSUMERS_MAX);
    let own = own
        .iter()
        .map(|(connection, consumer)| consumer_json(app, &node, queue, connection, consumer));
    let of = ClientSelection {
        queue: Some(queue.id.0),
        ..ClientSelection::default()
    };
    let all = own.chain(client_lists::elsewhere(app, Kind::Consumers, of));
    all.take(QUEUE_SHOWN_CONSUMERS_MAX).collect()
}

/// `GET /api/consumers`
pub fn consumers(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Consumers, ClientSelection::default())
}

/// `GET /api/consumers/{vhost}`
pub fn consumers_of_vhost(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Consumers, of_vhost(call.param(0)))
}
