//! Streams as operators see them: their clients' connections, publishers and subscriptions, what
//! they keep by name, super streams.

pub(crate) mod browse;
pub(crate) mod drains;
pub(crate) mod groups;
pub(crate) mod rows;
pub(crate) mod start;
pub(crate) mod stats;

use crate::api::{Binding, StreamConsumerStats, StreamPublisherStats, Topology};
use crate::app::App;
use crate::client_lists;
use crate::connections;
use crate::directory::{BindingScope, Exchange, Queue};
use crate::http::input::{Body, json_of};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::list_query;
use crate::peers;
use crate::question::Question;
use crate::queues::declared;
use crate::selection::{ClientSelection, Kind};
use crate::streams::rows::{
    consumer_json, own_consumers, own_publishers, own_replica, own_tracking, publisher_json,
    replica_row,
};
use leveret_auth::Access;
use leveret_routing::{
    PARTITION_ORDER, SUPER_STREAM, SUPER_STREAM_ROUTING, is_super_stream as is_marked,
    partition_order,
};
use leveret_types::limits::STREAM_PARTITIONS_MAX;
use leveret_types::{FieldTable, FieldValue, QueueId};
use serde_json::{Value, json};
use std::collections::HashMap;

type Answer = Result<Reply, ApiError>;

/// The rows of all nodes, this one's first, on the shape that they have here.
fn with_peers(app: &App, own: Vec<Value>, question: &Question, rest: Value) -> Vec<Value> {
    let details = json!({"name": "", "user": "", "node": "", "peer_host": "", "peer_port": 0});
    let mut shape = json!({"connection_details": details, "queue": {"name": "", "vhost": ""}});
    crate::http::reply::merge(&mut shape, rest);
    let rows = peers::rows(app, question).into_iter();
    let shaped = rows.map(|row| peers::shaped(&shape, row));
    own.into_iter().chain(shaped).collect()
}

fn all_publishers(app: &App) -> Vec<Value> {
    let shape = publisher_json(&StreamPublisherStats::default());
    with_peers(app, own_publishers(app), &Question::StreamPublishers, shape)
}

pub(crate) fn all_consumers(app: &App) -> Vec<Value> {
    let shape = consumer_json(&StreamConsumerStats::default());
    with_peers(app, own_consumers(app), &Question::StreamConsumers, shape)
}

/// What of these rows is wanted and may be seen.
fn list(call: &Call<'_>, mut rows: Vec<Value>, keep: impl Fn(&Value) -> bool) -> Answer {
    let mut seen: HashMap<String, bool> = HashMap::new();
    rows.retain(|row| {
        let vhost = row["queue"]["vhost"].as_str().unwrap_or_default();
        let may_see = || call.app.sees(call.who, vhost);
        keep(row) && *seen.entry(vhost.to_owned()).or_insert_with(may_see)
    });
    // They have no name: a filter looks at the stream's.
    list_query::list(rows, &call.query, |row| row["queue"]["name"].as_str())
}

/// `GET /api/stream/publishers`
pub fn publishers(call: &Call<'_>) -> Answer {
    list(call, all_publishers(call.app), |_| true)
}

/// `GET /api/stream/publishers/{vhost}`
pub fn publishers_of_vhost(call: &Call<'_>) -> Answer {
    let keep = |row: &Value| row["queue"]["vhost"] == call.param(0);
    list(call, all_publishers(call.app), keep)
}

/// `GET /api/stream/publishers/{vhost}/{stream}`
pub fn publishers_of_stream(call: &Call<'_>) -> Answer {
    let queue = declared(call)?;
    let keep =
        |row: &Value| row["queue"]["vhost"] == queue.vhost && row["queue"]["name"] == queue.name;
    list(call, all_publishers(call.app), keep)
}

/// `GET /api/stream/consumers`
pub fn consumers(call: &Call<'_>) -> Answer {
    list(call, all_consumers(call.app), |_| true)
}

/// `GET /api/stream/consumers/{vhost}`
pub fn consumers_of_vhost(call: &Call<'_>) -> Answer {
    let keep = |row: &Value| row["queue"]["vhost"] == call.param(0);
    list(call, all_consumers(call.app), keep)
}

/// The protocol of the connections that are listed here.
const STREAM: &str = "stream";

fn is_stream(connection: &Value) -> bool {
    connection["protocol"] == STREAM
}

fn of_streams(vhost: Option<&str>) -> ClientSelection {
    ClientSelection {
        protocol: Some(STREAM.to_owned()),
        vhost: vhost.map(str::to_owned),
        ..ClientSelection::default()
    }
}

/// `GET /api/stream/connections`
pub fn connections(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Connections, of_streams(None))
}

/// `GET /api/stream/connections/{vhost}`
pub fn connections_of_vhost(call: &Call<'_>) -> Answer {
    client_lists::list(call, Kind::Connections, of_streams(Some(call.param(0))))
}

/// The stream connection that the path names, if it may be seen.
fn named(call: &Call<'_>) -> Result<Value, ApiError> {
    let found = connections::of_name(call, call.param(1))?;
    let found = found.filter(|c| is_stream(c) && c["vhost"] == call.param(0));
    found.ok_or(ApiError::NotFound)
}

/// `GET /api/stream/connections/{vhost}/{name}`
pub fn connection(call: &Call<'_>) -> Answer {
    Ok(Reply::Json(list_query::one(named(call)?, &call.query)))
}

/// `DELETE /api/stream/connections/{vhost}/{name}`
pub fn close(call: &Call<'_>) -> Answer {
    connections::close(call, &named(call)?)?;
    Ok(Reply::Done)
}

/// `GET /api/stream/connections/{vhost}/{name}/publishers`
pub fn publishers_of_connection(call: &Call<'_>) -> Answer {
    let connection = named(call)?;
    let keep = |row: &Value| row["connection_details"]["name"] == connection["name"];
    list(call, all_publishers(call.app), keep)
}

/// `GET /api/stream/connections/{vhost}/{name}/consumers`
pub fn consumers_of_connection(call: &Call<'_>) -> Answer {
    let connection = named(call)?;
    let keep = |row: &Value| row["connection_details"]["name"] == connection["name"];
    list(call, all_consumers(call.app), keep)
}

// --- what a stream keeps by name ---------------------------------------------------------------

/// The stream that the path names.
pub(crate) fn stream(call: &Call<'_>) -> Result<Queue, ApiError> {
    let queue = declared(call)?;
    match queue.kind.as_str() {
        "stream" => Ok(queue),
        kind => {
            let text = format!("'{}' is no stream but a {kind} queue", queue.name);
            Err(ApiError::BadRequest(text))
        }
    }
}

/// `GET /api/stream/{vhost}/{stream}/tracking`, with `?type=offset` or `?type=writer` for a part.
pub fn tracking(call: &Call<'_>) -> Answer {
    let (app, queue) = (call.app, stream(call)?);
    let told = match own_tracking(app, queue.id) {
        Value::Null => {
            let answers = peers::ask(app, &Question::Tracking { stream: queue.id.0 });
            let mut answers = answers.into_iter().map(|(_, answer)| answer);
            answers.find(Value::is_object)
        }
        own => Some(own),
    };
    let unavailable = || ApiError::Unavailable("The stream leader is not available".to_owned());
    let told = told.ok_or_else(unavailable)?;
    let part = |name: &str| -> Value {
        let pairs = told[name].as_array().into_iter().flatten();
        let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].clone()));
        Value::Object(pairs.filter_map(pair).collect())
    };
    let mut json = json!({});
    if call.query.get("type") != Some("writer") {
        json["offsets"] = part("offsets");
    }
    if call.query.get("type") != Some("offset") {
        json["writers"] = part("writers");
    }
    Ok(Reply::Json(json))
}

/// `GET /api/leveret/streams/{vhost}/{stream}/status`: every replica of a stream, the nodes' own
/// words; the one that leads first.
pub fn status(call: &Call<'_>) -> Answer {
    let (app, queue) = (call.app, stream(call)?);
    let own_name = app.node().name();
    let own = own_replica(app, queue.id);
    if queue.nodes.is_empty() {
        return Ok(Reply::Json(json!([replica_row(&own_name, Some(own))])));
    }
    let stream = queue.id.0;
    let mut told = peers::ask(app, &Question::StreamReplica { stream });
    let rows = queue.nodes.iter().map(|(node, name)| {
        let told = match *name == own_name {
            true => Some(own.clone()),
            false => {
                let at = told.iter().position(|(from, _)| from == node);
                at.map(|at| told.swap_remove(at).1)
            }
        };
        replica_row(name, told)
    });
    let mut rows: Vec<Value> = rows.collect();
    let name = |row: &Value| row["node"].as_str().map(str::to_owned);
    rows.sort_by_key(|row| (row["role"] != "writer", name(row)));
    Ok(Reply::Json(rows.into()))
}

/// `PUT /api/leveret/streams/{vhost}/{stream}/offsets/{name}`: stores an offset for a consumer's
/// name, as the consumer itself would; it takes it up where it subscribes next.
pub fn store_offset(call: &Call<'_>) -> Answer {
    let queue = stream(call)?;
    let body = call.body()?;
    let bad = || ApiError::BadRequest("\"offset\" must be a whole number, 0 or more".to_owned());
    body.required("offset")?;
    let offset = u64::try_from(body.integer_or("offset", 0)?).map_err(|_| bad())?;
    let node = call.app.node();
    let name = call.param(2);
    if node.store_stream_offset(queue.id, name, offset) {
        return Ok(Reply::Done);
    }
    let question = Question::StoreOffset {
        stream: queue.id.0,
        offset,
        name: name.to_owned(),
    };
    let answers = peers::ask(call.app, &question);
    match answers.iter().any(|(_, stored)| *stored == true) {
        true => Ok(Reply::Done),
        false => Err(ApiError::Unavailable(format!(
            "the stream '{}' is not available, or a name of {} bytes is none of a consumer",
            queue.name,
            name.len()
        ))),
    }
}

// --- super streams -----------------------------------------------------------------------------

/// The partitions of a super stream with their keys, in their order.
pub(crate) fn partitions(app: &App, vhost: &str, name: &str) -> Vec<(String, String)> {
    let found = ordered_partitions(app, vhost, name).into_iter();
    found.map(|(_, stream, key)| (stream, key)).collect()
}

/// The same, each behind its place, which is the greatest number where its binding says none.
pub(crate) fn ordered_partitions(app: &App, vhost: &str, name: &str) -> Vec<(i64, String, String)> {
    let scope = BindingScope::Source {
        vhost,
        exchange: name,
    };
    let mut found: Vec<(i64, String, String)> = Vec::new();
    for (_, binding) in app.node().bindings(scope) {
        let order = partition_order(&binding.arguments);
        let queue = || app.node().declared_queue(vhost, &binding.destination);
        if binding.to_queue && queue().is_none_or(|queue| queue.kind == "stream") {
            found.push((order, binding.destination, binding.routing_key));
        }
    }
    found.sort();
    // While one is being drained, or no longer, it is bound twice.
    found.dedup();
    found
}

/// Whether an exchange is that of a super stream.
pub(crate) fn is_super_stream(exchange: &Exchange) -> bool {
    is_marked(&exchange.arguments)
}

fn super_streams_in(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let app = call.app;
    let exchanges = app.node().exchanges(vhost).into_iter();
    let marked = exchanges
        .filter(|exchange| is_super_stream(exchange) && app.sees(call.who, &exchange.vhost));
    let rows = marked.map(|exchange| {
        let partitions = partitions(app, &exchange.vhost, &exchange.name);
        let drained = drains::drained(app, &exchange.vhost, &exchange.name);
        let one = |(stream, key): &(String, String)| {
            json!({"name": stream, "binding_key": key, "drained": drained.contains(stream)})
        };
        json!({
            "name": exchange.name,
            "vhost": exchange.vhost,
            "arguments": json_of(&exchange.arguments),
            "partitions": partitions.iter().map(one).collect::<Value>(),
        })
    });
    list_query::list_of(rows.collect(), &call.query)
}

/// `GET /api/stream/super-streams`
pub fn super_streams(call: &Call<'_>) -> Answer {
    super_streams_in(call, None)
}

/// `GET /api/stream/super-streams/{vhost}`
pub fn super_streams_of_vhost(call: &Call<'_>) -> Answer {
    super_streams_in(call, Some(call.param(0)))
}

/// `POST /api/leveret/streams/{vhost}/{stream}/replicas/{node}`: gives the stream a replica there.
pub fn add_replica(call: &Call<'_>) -> Answer {
    change_replica(call, true)
}

/// `DELETE /api/leveret/streams/{vhost}/{stream}/replicas/{node}`: takes that replica away.
pub fn delete_replica(call: &Call<'_>) -> Answer {
    change_replica(call, false)
}

/// Has the node that leads the stream change its members.
fn change_replica(call: &Call<'_>, adds: bool) -> Answer {
    let (queue, node) = (stream(call)?, call.param(2));
    match call.app.node().change_stream_replica(queue.id, node, adds) {
        Ok(true) => return Ok(Reply::Done),
        Err(why) => return bad(why),
        Ok(false) => {}
    }
    let question = Question::ChangeReplica {
        stream: queue.id.0,
        node: node.to_owned(),
        adds,
    };
    let answers = peers::ask(call.app, &question);
    match answers.into_iter().find(|(_, told)| !told.is_null()) {
        Some((_, Value::String(why))) => bad(why),
        Some(_) => Ok(Reply::Done),
        None if queue.nodes.is_empty() => bad(format!(
            "the stream '{}' is on this node alone: the node is in no cluster, where other nodes \
             could have a replica",
            queue.name
        )),
        None => Err(ApiError::Unavailable(format!(
            "the leader of the stream '{}' is not available: try again when it has one",
            queue.name
        ))),
    }
}

fn bad<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::BadRequest(text.into()))
}

/// The keys of the partitions that a body asks for: as many numbers, or those that it names.
fn keys(body: &Body) -> Result<Vec<String>, ApiError> {
    let keys: Vec<String> = match (body.get("partitions"), body.get("binding-keys")) {
        (None, None) => return bad("Must specify partitions or binding keys"),
        (Some(_), Some(_)) => return bad("Specify partitions or binding keys, not both"),
        (Some(_), None) => {
            let count = body.integer_or("partitions", 0);
            let not_a_number = |_| ApiError::BadRequest("The partitions must be a number".into());
            match usize::try_from(count.map_err(not_a_number)?).unwrap_or(0) {
                0 => return bad("The partition number must be greater than 0"),
                count if count > STREAM_PARTITIONS_MAX => {
                    let text = "The partition number must not exceed";
                    return bad(format!("{text} {STREAM_PARTITIONS_MAX}"));
                }
                count => (0..count).map(|key| key.to_string()).collect(),
            }
        }
        (None, Some(_)) => {
            let keys = body.text("binding-keys")?.split(',').map(str::trim);
            keys.filter(|key| !key.is_empty())
                .map(str::to_owned)
                .collect()
        }
    };
    let mut distinct = keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    match keys.len() {
        0 => bad("The number of binding keys must be greater than 0"),
        count if count > STREAM_PARTITIONS_MAX => bad(format!(
            "The number of binding keys must not exceed {STREAM_PARTITIONS_MAX}"
        )),
        count if count > distinct.len() => bad("There are duplicate binding keys"),
        _ => Ok(keys),
    }
}

/// The arguments of each partition, which are those of a stream without `x-` before them. Those of
/// all of a super stream are not among them.
fn partition_arguments(body: &Body) -> Result<FieldTable, ApiError> {
    let mut table = FieldTable::from([("x-queue-type", FieldValue::text("stream"))]);
    for (key, value) in body.table("arguments")?.iter() {
        // Numbers may stand in strings, as the stream protocol has them.
        let number = value.as_text().and_then(|text| text.parse().ok());
        let value = number.map_or_else(|| value.clone(), FieldValue::I64);
        let key = format!("x-{}", key.strip_prefix("x-").unwrap_or(key));
        if key == "x-queue-type" && value.as_text() != Some("stream") {
            return bad("a partition of a super stream is a stream");
        }
        if key != SUPER_STREAM_ROUTING {
            table.set(&key, value);
        }
    }
    Ok(table)
}

/// The arguments of a super stream's exchange.
fn exchange_arguments(body: &Body) -> Result<FieldTable, ApiError> {
    let mut table = FieldTable::from([(SUPER_STREAM, FieldValue::Bool(true))]);
    let asked = body.table("arguments")?;
    let routing = asked.get(SUPER_STREAM_ROUTING);
    let routing = routing.or_else(|| asked.get(SUPER_STREAM_ROUTING.strip_prefix("x-")?));
    if let Some(routing) = routing {
        table.set(SUPER_STREAM_ROUTING, routing.clone());
    }
    Ok(table)
}

/// Whether all of these partitions are names that are free.
fn check_free(call: &Call<'_>, streams: &[(String, String)]) -> Result<(), ApiError> {
    let vhost = call.param(0);
    let is_taken =
        |(stream, _): &&(String, String)| call.app.node().declared_queue(vhost, stream).is_some();
    match streams.iter().find(is_taken) {
        Some((stream, _)) => bad(format!("there is a queue '{stream}' already")),
        None => Ok(()),
    }
}

/// `PUT /api/stream/super-streams/{vhost}/{name}`, with `partitions` or `binding-keys` in the body.
pub fn put_super_stream(call: &Call<'_>) -> Answer {
    let (vhost, name) = (call.param(0), call.param(1));
    let body = call.body()?;
    let keys = keys(&body)?;
    let arguments = partition_arguments(&body)?;
    if let Some(node) = body.get("node")
        && *node != call.app.node().name()
    {
        let node = node.as_str().unwrap_or_default();
        return bad(format!(
            "Node {node} is not a cluster member, or not the one that is asked"
        ));
    }
    let streams: Vec<_> = keys
        .into_iter()
        .map(|key| (format!("{name}-{key}"), key))
        .collect();
    let taken = || bad(format!("there is an exchange '{name}' already"));
    if call.app.node().exchange(vhost, name).is_some() {
        return taken();
    }
    check_free(call, &streams)?;
    let change = |change| call.app.node().change(call.who.actor(), vhost, change);
    let exchange = Topology::DeclareExchange {
        name: name.to_owned(),
        kind: "direct".to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: exchange_arguments(&body)?,
    };
    if !change(exchange)?.created {
        // Somebody else has made it since.
        return taken();
    }
    make_partitions(call, &streams, 0, &arguments).inspect_err(|_| {
        // A super stream without all of its partitions must not be found.
        let _ = change(Topology::DeleteExchange {
            name: name.to_owned(),
            if_unused: false,
        });
    })?;
    Ok(Reply::Done)
}

/// Makes partitions of a super stream, of which the first one has this place. If one cannot be made
/// those that were made before it go again, and nothing of anybody else's.
fn make_partitions(
    call: &Call<'_>,
    streams: &[(String, String)],
    first: i64,
    arguments: &FieldTable,
) -> Result<(), ApiError> {
    let mut made = Vec::new();
    for ((stream, key), order) in streams.iter().zip(first..) {
        if let Err(error) = make_partition(call, (stream, key), order, arguments, &mut made) {
            for (stream, queue) in made {
                let (node, vhost) = (call.app.node(), call.param(0));
                let _ = node.delete_this_queue(call.who.actor(), vhost, stream, queue);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Makes one, and notes that among what was `made` as soon as it is there.
fn make_partition<'a>(
    call: &Call<'_>,
    (stream, key): (&'a str, &str),
    order: i64,
    arguments: &FieldTable,
    made: &mut Vec<(&'a str, QueueId)>,
) -> Result<(), ApiError> {
    let (vhost, name) = (call.param(0), call.param(1));
    let change = |change| call.app.node().change(call.who.actor(), vhost, change);
    let declared = change(Topology::DeclareQueue {
        name: stream.to_owned(),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: arguments.clone(),
    })?;
    match declared.queue.filter(|_| declared.created) {
        Some(queue) => made.push((stream, queue)),
        // Somebody else has made it since it was looked for.
        None => return bad(format!("there is a queue '{stream}' already")),
    }
    change(Topology::Bind(Binding {
        source: name.to_owned(),
        destination: stream.to_owned(),
        to_queue: true,
        routing_key: key.to_owned(),
        arguments: FieldTable::from([(PARTITION_ORDER, FieldValue::I64(order))]),
    }))?;
    Ok(())
}

/// `POST /api/leveret/super-streams/{vhost}/{name}/partitions`, with `partitions` (how many more)
/// or `binding-keys` in the body: adds them behind those that are there, which keep their places
/// and keys. They get the `arguments` of the body, or those of the last partition.
pub fn add_partitions(call: &Call<'_>) -> Answer {
    let (vhost, name) = (call.param(0), call.param(1));
    let node = call.app.node();
    let exchange = node.exchange(vhost, name);
    if !exchange.is_some_and(|exchange| is_super_stream(&exchange)) {
        return Err(ApiError::NotFound);
    }
    let there = ordered_partitions(call.app, vhost, name);
    let body = call.body()?;
    let mut keys = keys(&body)?;
    if body.get("partitions").is_some() {
        // As many, by the next numbers that are no keys yet.
        let is_free = |key: &String| there.iter().all(|(_, _, taken)| taken != key);
        let free = (there.len()..).map(|n| n.to_string()).filter(is_free);
        keys = free.take(keys.len()).collect();
    }
    if there.len() + keys.len() > STREAM_PARTITIONS_MAX {
        return bad(format!(
            "'{name}' has {} partitions: with {} more there were more than {STREAM_PARTITIONS_MAX}",
            there.len(),
            keys.len()
        ));
    }
    if let Some((.., key)) = there.iter().find(|(_, _, key)| keys.contains(key)) {
        return bad(format!("there is a partition of the key '{key}' already"));
    }
    let last = there.last();
    let first = last.map_or(Some(0), |(order, ..)| order.checked_add(1));
    let Some(first) = first else {
        return bad(format!(
            "a partition of '{name}' is bound without {PARTITION_ORDER}: none could come behind it"
        ));
    };
    let arguments = match last.filter(|_| body.get("arguments").is_none()) {
        Some((_, stream, _)) => node.declared_queue(vhost, stream).map(|q| q.arguments),
        None => None,
    };
    let arguments = arguments.map_or_else(|| partition_arguments(&body), Ok)?;
    let streams: Vec<_> = keys
        .into_iter()
        .map(|key| (format!("{name}-{key}"), key))
        .collect();
    check_free(call, &streams)?;
    make_partitions(call, &streams, first, &arguments)?;
    let one = |(stream, key): &(String, String)| json!({"name": stream, "binding_key": key});
    let added: Value = streams.iter().map(one).collect();
    Ok(Reply::Json(json!({"name": name, "added": added})))
}

/// `DELETE /api/stream/super-streams/{vhost}/{name}`: the exchange goes, and its partitions with
/// what they hold; nothing does where one of them may not be deleted.
pub fn delete_super_stream(call: &Call<'_>) -> Answer {
    let (vhost, name) = (call.param(0), call.param(1));
    let exchange = call.app.node().exchange(vhost, name);
    if !exchange.is_some_and(|exchange| is_super_stream(&exchange)) {
        return Err(ApiError::NotFound);
    }
    // What is deleted is what is found now: nothing that comes to one of the names meanwhile.
    let (node, actor) = (call.app.node(), call.who.actor());
    let partitions = partitions(call.app, vhost, name).into_iter();
    let found = partitions.filter_map(|(stream, _)| node.declared_queue(vhost, &stream));
    let streams: Vec<Queue> = found.collect();
    for stream in &streams {
        node.permit_queue(actor, vhost, Access::Configure, &stream.name)?;
    }
    let exchange = Topology::DeleteExchange {
        name: name.to_owned(),
        if_unused: false,
    };
    node.change(actor, vhost, exchange)?;
    for stream in &streams {
        node.delete_this_queue(actor, vhost, &stream.name, stream.id)?;
    }
    Ok(Reply::Done)
}
