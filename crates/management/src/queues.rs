//! Queues: lists, declarations, contents.

mod list;
mod readers;
mod remote_stats;
mod row;

use crate::api::{AfterGet, Get, Got, Publish, Taken, Topology};
use crate::app::App;
use crate::directory::Queue;
use crate::history::ranges::Ranges;
use crate::http::input::{Query, json_of};
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use crate::list_query;
use crate::message_stats::DEPTHS;
use crate::pairs;
use crate::peers;
use crate::question::Question;
use crate::row_lists::Row as _;
use crate::selection::PairSelection;
use crate::written::{base64_bytes, fitting, fitting_base64};
use base64::Engine;
use leveret_types::limits::{HTTP_BODY_BYTES_MAX, HTTP_GET_MESSAGES_MAX};
use leveret_types::{NodeId, QueueId};
use serde_json::{Value, json};

pub(crate) use list::{list_among, own_part};
pub(crate) use readers::at_replica;
use remote_stats::{Told, told_elsewhere_of};
pub(crate) use remote_stats::{owners, write_stats};
use row::RowMaker;

type Answer = Result<Reply, ApiError>;

/// Bytes of messages, as they are written, that one answer carries.
const GET_BYTES_MAX: usize = HTTP_BODY_BYTES_MAX;

/// `GET /api/queues`
pub fn all(call: &Call<'_>) -> Answer {
    list::list(call, None)
}

/// `GET /api/queues/{vhost}`
pub fn of_vhost(call: &Call<'_>) -> Answer {
    list::list(call, Some(call.param(0)))
}

/// The queue that the path names by virtual host and name.
pub(crate) fn declared(call: &Call<'_>) -> Result<Queue, ApiError> {
    let queue = call.app.node().declared_queue(call.param(0), call.param(1));
    queue.ok_or(ApiError::NotFound)
}

/// A queue's row, with its figures wherever it is led.
pub(crate) fn row(call: &Call<'_>, queue: &Queue) -> Result<Value, ApiError> {
    let app = call.app;
    let ranges = Ranges::of(&call.query)?;
    let own = app.node().queue(queue.id);
    let elsewhere = told_elsewhere_of(app, own.as_ref(), queue.id, &ranges);
    let owners = owners(app, &own);
    let told = Told::of(app, own.as_ref(), elsewhere.as_ref(), &owners, &ranges);
    let name = app.node().name();
    Ok(RowMaker::new()
        .row(app, &name, queue, told.as_ref())
        .whole())
}

/// `GET /api/queues/{vhost}/{name}`
pub fn one(call: &Call<'_>) -> Answer {
    let app = call.app;
    let queue = declared(call)?;
    let mut json = row(call, &queue)?;
    // Who wants none of what happens in it is spared a look at all consumers.
    if !call.query.flag("disable_stats") {
        json["consumer_details"] = crate::connections::consumers_of(app, &queue);
        let flows = pairs::everywhere(app, PairSelection::Queue(queue.id.0)).flows;
        json["incoming"] = pairs::without(flows, "queue");
        json["deliveries"] = pairs::deliveries(&json["consumer_details"], "channel_details");
    }
    Ok(Reply::Json(list_query::one(
        as_wanted(json, &call.query),
        &call.query,
    )))
}

/// What a queue is, without what happens in it.
const WITHOUT_STATS: [&str; 17] = [
    "name",
    "vhost",
    "type",
    "durable",
    "auto_delete",
    "exclusive",
    "arguments",
    "node",
    "internal",
    "internal_owner",
    "policy",
    "operator_policy",
    "effective_policy_definition",
    "delivery_limit",
    "leader",
    "members",
    "online",
];

/// A queue's row with as much as the query wants: `disable_stats` leaves what happens in it away,
/// `enable_queue_totals` then still tells how many messages it has.
fn as_wanted(mut row: Value, query: &Query) -> Value {
    if query.flag("disable_stats")
        && let Some(fields) = row.as_object_mut()
    {
        let totals = query.flag("enable_queue_totals");
        fields.retain(|name, _| {
            let name = name.as_str();
            name == "state" || WITHOUT_STATS.contains(&name) || totals && DEPTHS.contains(&name)
        });
    }
    row
}

/// How the replica of a queue stands that this node has, in RabbitMQ's words.
pub(crate) fn own_replica(app: &App, queue: QueueId) -> Value {
    let Some(replica) = app.node().replica(queue) else {
        return Value::Null;
    };
    json!({
        "Node Name": app.node().name(),
        "Raft State": replica.role,
        "Membership": replica.membership,
        "Last Log Index": replica.last_index,
        "Last Written": replica.written,
        "Last Applied": replica.applied,
        "Commit Index": replica.committed,
        // Entries leave the log one by one, when their messages have left.
        "Snapshot Index": 0,
        "Term": replica.term,
        "Machine Version": 0,
        STUCK: replica.stuck.iter().map(|node| node.0).collect::<Vec<_>>(),
    })
}

/// What a leader says beside its row: the numbers of nodes whose members do not follow.
const STUCK: &str = "Stuck";

/// `GET /api/queues/quorum/{vhost}/{name}/status`: every replica of a queue, the nodes' own words.
pub fn replicas(call: &Call<'_>) -> Answer {
    let app = call.app;
    let queue = declared(call)?;
    if queue.kind != "quorum" {
        let reason = format!("{}_queue_not_supported", queue.kind);
        return Ok(Reply::Unwell(json!({"status": "failed", "reason": reason})));
    }
    let empty = [
        "Last Log Index",
        "Last Written",
        "Last Applied",
        "Commit Index",
        "Term",
    ];
    let own_name = app.node().name();
    let mut told: Vec<(NodeId, Value)> = peers::ask(app, &Question::Replica { queue: queue.id.0 });
    let own = own_replica(app, queue.id);
    let row = |name: &str, told: Option<Value>| {
        let mut row = json!({"Node Name": name, "Raft State": "noproc", "Membership": "unknown"});
        for field in empty
            .into_iter()
            .chain(["Snapshot Index", "Machine Version"])
        {
            row[field] = 0.into();
        }
        merge(&mut row, told.unwrap_or(Value::Null));
        row
    };
    if queue.nodes.is_empty() {
        // A queue of a node alone has no group: what it holds is here, and led here.
        let own = match own {
            Value::Null => json!({"Raft State": "leader", "Membership": "voter"}),
            own => own,
        };
        return Ok(Reply::Json(json!([row(&own_name, Some(own))])));
    }
    let all = told.iter().map(|(_, told)| told).chain([&own]);
    let stuck = all.filter_map(|told| told[STUCK].as_array()).flatten();
    let stuck: Vec<u64> = stuck.filter_map(Value::as_u64).collect();
    let rows = queue.nodes.iter().map(|(node, name)| {
        let mut row = if *name == own_name {
            row(name, Some(own.clone()))
        } else {
            let at = told.iter().position(|(from, _)| from == node);
            row(name, at.map(|at| told.swap_remove(at).1))
        };
        if let Some(row) = row.as_object_mut() {
            row.remove(STUCK);
        }
        if stuck.contains(&u64::from(node.0)) && row["Raft State"] == "follower" {
            row["Raft State"] = "stuck".into();
        }
        row
    });
    Ok(Reply::Json(rows.collect()))
}

/// `PUT /api/queues/{vhost}/{name}`
pub fn put(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    if let Some(node) = body.get("node") {
        let node = node.as_str().unwrap_or_default();
        if !crate::overview::knows_node(call.app, node) {
            let text = format!("Node {node} is not a cluster member");
            return Err(ApiError::BadRequest(text));
        }
    }
    let change = Topology::DeclareQueue {
        name: call.param(1).to_owned(),
        durable: body.flag_or("durable", true)?,
        exclusive: body.flag_or("exclusive", false)?,
        auto_delete: body.flag_or("auto_delete", false)?,
        arguments: body.table("arguments")?,
    };
    changed(call, change)
}

/// Makes a change that creates something, or finds it as it is wanted.
pub fn changed(call: &Call<'_>, change: Topology) -> Answer {
    let actor = call.who.actor();
    let changed = call.app.node().change(actor, call.param(0), change)?;
    Ok(match changed.created {
        true => Reply::Created(None),
        false => Reply::Done,
    })
}

/// `DELETE /api/queues/{vhost}/{name}`
pub fn delete(call: &Call<'_>) -> Answer {
    declared(call)?;
    let change = Topology::DeleteQueue {
        name: call.param(1).to_owned(),
        if_unused: call.query.flag("if-unused"),
        if_empty: call.query.flag("if-empty"),
    };
    changed(call, change).map(|_| Reply::Done)
}

/// `DELETE /api/queues/{vhost}/{name}/contents`
pub fn purge(call: &Call<'_>) -> Answer {
    declared(call)?;
    let name = call.param(1).to_owned();
    changed(call, Topology::PurgeQueue { name }).map(|_| Reply::Done)
}

/// `POST /api/queues/{vhost}/{name}/actions`: there is none since mirrors have gone.
pub fn actions(call: &Call<'_>) -> Answer {
    declared(call)?;
    let body = call.body()?;
    let action = body.text("action")?;
    Err(ApiError::BadRequest(format!("unknown action \"{action}\"")))
}

/// `POST /api/queues/{vhost}/{name}/get`
pub fn get(call: &Call<'_>) -> Answer {
    declared(call)?;
    let body = call.body()?;
    let count = u32::try_from(body.integer_or("count", 1)?).ok();
    let count = count.filter(|count| (1..=HTTP_GET_MESSAGES_MAX).contains(count));
    let bad = || format!("count must be from 1 to {HTTP_GET_MESSAGES_MAX}");
    let count = count.ok_or_else(|| ApiError::BadRequest(bad()))?;
    let then = match body.text("ackmode")? {
        "ack_requeue_true" | "reject_requeue_true" => AfterGet::Requeue,
        "ack_requeue_false" => AfterGet::Accept,
        "reject_requeue_false" => AfterGet::Reject,
        other => {
            return Err(ApiError::BadRequest(format!("unknown ackmode \"{other}\"")));
        }
    };
    let is_base64 = match body.text_or("encoding", "auto")? {
        "auto" => false,
        "base64" => true,
        other => {
            return Err(ApiError::BadRequest(format!(
                "unknown encoding \"{other}\""
            )));
        }
    };
    let truncate = match body.get("truncate") {
        Some(_) => usize::try_from(body.integer_or("truncate", 0)?).unwrap_or(0),
        None => usize::MAX,
    };
    // What is not shown is not got: it would be gone unseen.
    let get = Get {
        count,
        shown: truncate,
        bytes: GET_BYTES_MAX,
        then,
    };
    let (vhost, name) = (call.param(0), call.param(1));
    let got = call.app.node().get(call.who.actor(), vhost, name, get)?;
    // The last one may exceed it.
    let mut left = usize::MAX;
    let items = got
        .iter()
        .map(|m| got_json(m, is_base64, truncate, &mut left));
    Ok(Reply::Json(items.collect()))
}

/// `GET /api/queues/quorum/{vhost}/{name}/peek/{position}`: the message at that place, from 1 on,
/// among those that are ready. It stays where it is.
pub fn peek(call: &Call<'_>) -> Answer {
    if declared(call)?.kind != "quorum" {
        let text = "peek is not supported by classic queues".to_owned();
        return Err(ApiError::BadRequest(text));
    }
    let (vhost, name, position) = (call.param(0), call.param(1), call.param(2));
    let before = position.parse::<u64>().ok().and_then(|p| p.checked_sub(1));
    let bad = || ApiError::BadRequest(format!("position must be 1 or more, not \"{position}\""));
    let before = before.ok_or_else(bad)?;
    let found = call
        .app
        .node()
        .peek(call.who.actor(), vhost, name, before)?;
    let none = || ApiError::BadRequest(format!("no message at position {position}"));
    let got = found.ok_or_else(none)?;
    let mut left = GET_BYTES_MAX;
    Ok(Reply::Json(message_json(&got, usize::MAX, &mut left)))
}

/// A message as `get` shows it, without what that says of the queue.
pub(crate) fn message_json(got: &Got, truncate: usize, left: &mut usize) -> Value {
    let mut shown = got_json(got, false, truncate, left);
    if let Value::Object(fields) = &mut shown {
        // Nobody was given it.
        fields.remove("redelivered");
        fields.remove("message_count");
    }
    shown
}

fn got_json(got: &Got, is_base64: bool, truncate: usize, left: &mut usize) -> Value {
    let shown = &got.payload[..got.payload.len().min(truncate)];
    let text = std::str::from_utf8(shown).ok().filter(|_| !is_base64);
    let (encoding, payload, written) = match text {
        Some(text) => {
            let (text, written) = fitting(text, *left);
            ("string", text.to_owned(), written)
        }
        None => {
            let shown = &shown[..shown.len().min(fitting_base64(*left))];
            let engine = base64::engine::general_purpose::STANDARD;
            ("base64", engine.encode(shown), base64_bytes(shown.len()))
        }
    };
    *left -= written;
    json!({
        "exchange": got.exchange,
        "routing_key": got.routing_key,
        "redelivered": got.redelivered,
        "message_count": got.remaining,
        "properties": json_of(&got.properties),
        "payload": payload,
        "payload_bytes": got.body_bytes,
        "payload_encoding": encoding,
    })
}

/// `POST /api/exchanges/{vhost}/{name}/publish`
pub fn publish(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let text = body.text("payload")?;
    let payload = match body.text_or("payload_encoding", "string")? {
        "string" => text.as_bytes().to_vec(),
        "base64" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|_| ApiError::BadRequest("the payload is not valid base64".to_owned()))?,
        other => {
            let text = format!("unknown payload_encoding \"{other}\"");
            return Err(ApiError::BadRequest(text));
        }
    };
    let message = Publish {
        exchange: exchange_name(call.param(1)).to_owned(),
        routing_key: body.text("routing_key")?.to_owned(),
        properties: body.table("properties")?,
        payload,
    };
    let actor = call.who.actor();
    if call
        .app
        .node()
        .exchange(call.param(0), &message.exchange)
        .is_none()
    {
        return Err(ApiError::Missing("exchange_not_found".to_owned()));
    }
    let taken = call.app.node().publish(actor, call.param(0), message)?;
    Ok(Reply::Json(match taken {
        Taken::Nowhere => json!({"routed": false}),
        Taken::Refused => json!({
            "routed": false,
            "reason": "a queue refused the message: it is full, and its overflow is \
                reject-publish; or a stream cannot take it now",
        }),
        Taken::ByAll => json!({"routed": true}),
    }))
}

/// The default exchange cannot stand in a path by its own name, which is empty.
#[must_use]
pub fn exchange_name(param: &str) -> &str {
    if param == "amq.default" { "" } else { param }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::{FieldTable, FieldValue};

    /// A message with this body; its names and properties are hard to write too.
    fn message(payload: &[u8]) -> Got {
        let headers = FieldTable::from([("h", FieldValue::text(&"\u{2}".repeat(100)))]);
        Got {
            exchange: "\u{1}".repeat(100),
            routing_key: "\"".repeat(100),
            redelivered: false,
            remaining: 0,
            properties: FieldTable::from([("headers", FieldValue::Table(headers))]),
            payload: payload.to_vec(),
            body_bytes: payload.len(),
        }
    }

    #[test]
    fn a_message_counts_as_what_is_written_of_it() {
        // The names of fields and what stands between them.
        const AROUND: usize = 250;
        for payload in [&[b'a'; 5_000][..], &[1; 5_000], &[0xFF; 5_000], b""] {
            let got = message(payload);
            let mut left = usize::MAX;
            let written = got_json(&got, false, usize::MAX, &mut left).to_string();
            let counted = got.shown_bytes();
            assert!(counted <= written.len(), "{counted} of {}", written.len());
            assert!(
                written.len() <= counted + AROUND,
                "{counted} of {}",
                written.len()
            );
        }
    }

    #[test]
    fn of_a_body_is_written_what_there_is_room_for() {
        for (payload, shown) in [
            (&[b'a'; 500][..], 100),
            (&[1; 500], 16),
            // In base64.
            (&[0xFF; 500], 75),
        ] {
            let mut left = 100;
            let row = got_json(&message(payload), false, usize::MAX, &mut left);
            let text = row["payload"].to_string();
            assert_eq!(left, 100 - (text.len() - 2), "{text}");
            let bytes = match row["payload_encoding"] == "base64" {
                true => (text.len() - 2) / 4 * 3,
                false => row["payload"].as_str().map_or(0, str::len),
            };
            assert_eq!(bytes, shown, "{text}");
        }
    }
}
