//! `/api/leveret/queues/{vhost}/{name}/unacked`: messages that clients hold, looked at where they
//! are, each with who holds it and since when. The node that leads the queue shows the messages;
//! the nodes that clients are connected to say whose they are.

use crate::api::{Actor, HeldAt, HeldLook, HeldMessage, Holder};
use crate::app::App;
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use crate::moves::{SHOWN_BYTES, looked_at_json, number};
use crate::peers;
use crate::question::Question;
use crate::queues::declared;
use leveret_types::limits::{HTTP_BODY_BYTES_MAX, QUEUE_LOOK_MESSAGES_MAX};
use leveret_types::{NodeId, QueueId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;

type Answer = Result<Reply, ApiError>;

/// Messages of a look that says nothing else.
const COUNT: usize = 20;

/// A message, and where it is.
#[derive(Serialize, Deserialize)]
struct Row(HeldAt, Value);

/// What other nodes say in a text, as fields that are 0 are left out of anything else.
fn told<T: for<'a> Deserialize<'a>>(answers: Vec<(NodeId, Value)>) -> impl Iterator<Item = T> {
    answers.into_iter().filter_map(|(_, answer)| {
        let text = answer[0].as_str()?;
        serde_json::from_str(text).ok()
    })
}

fn text_of(value: &impl Serialize) -> Value {
    // Numbers and texts always are JSON.
    json!([serde_json::to_string(value).unwrap_or_default()])
}

/// `GET /api/leveret/queues/{vhost}/{name}/unacked?consumer=&position=&count=&truncate=`: messages
/// that somebody holds, those of one holder after those of another, in the order of the queue.
pub fn unacked(call: &Call<'_>) -> Answer {
    let queue = declared(call)?;
    if queue.kind == "stream" {
        let reason = "nothing is taken out of a stream: its messages are at \
                      /api/leveret/streams/{vhost}/{name}/messages";
        return Err(ApiError::BadRequest(reason.to_owned()));
    }
    let position = number(call, "position", 1, u64::MAX)?.unwrap_or(1);
    let count = number(call, "count", 1, QUEUE_LOOK_MESSAGES_MAX as u64)?;
    let truncate = number(call, "truncate", 0, HTTP_BODY_BYTES_MAX as u64)?;
    let truncate = truncate.map_or(SHOWN_BYTES, |bytes| bytes as usize);
    let tag = call.query.get("consumer");
    let look = HeldLook {
        of: tag.map(|tag| consumers_tagged(call.app, queue.id, tag)),
        before: position - 1,
        count: count.map_or(COUNT, |count| count as usize),
    };
    let (vhost, name) = (&queue.vhost, &queue.name);
    let node = call.app.node();
    let own = node.held_messages(call.who.actor(), vhost, name, &look)?;
    let rows = match own {
        Some(own) => rows(own, truncate),
        None => {
            let question = Question::Held {
                vhost: vhost.clone(),
                queue: name.clone(),
                look,
                truncate,
            };
            let first = told(peers::ask(call.app, &question)).next();
            first.ok_or_else(|| {
                ApiError::Unavailable(format!(
                    "no node that leads the queue '{name}' answers: try again"
                ))
            })?
        }
    };
    let held: Vec<HeldAt> = rows.iter().map(|Row(at, _)| *at).collect();
    let holders = holders(call.app, &held);
    let now_ms = call.app.moment().wall_ms;
    let shown = rows.into_iter().zip(position..);
    let shown = shown.map(|(Row(at, row), position)| {
        let holder = holders.get(&at);
        with_holder(row, position, holder, now_ms)
    });
    Ok(Reply::Json(shown.collect()))
}

/// The numbers of all consumers of this tag that a queue has.
fn consumers_tagged(app: &App, queue: QueueId, tag: &str) -> Vec<u64> {
    let mut found = app.node().consumers_tagged(queue, tag);
    let question = Question::ConsumersTagged {
        queue: queue.0,
        tag: tag.to_owned(),
    };
    found.extend(told::<Vec<u64>>(peers::ask(app, &question)).flatten());
    found.truncate(QUEUE_LOOK_MESSAGES_MAX);
    found
}

/// Those of this node.
pub(crate) fn own_consumers_tagged(app: &App, queue: QueueId, tag: &str) -> Value {
    let mut found = app.node().consumers_tagged(queue, tag);
    found.truncate(QUEUE_LOOK_MESSAGES_MAX);
    text_of(&found)
}

fn rows(held: Vec<HeldMessage>, truncate: usize) -> Vec<Row> {
    let mut left = HTTP_BODY_BYTES_MAX;
    let rows = held.into_iter().map(|held| {
        let mut row = match &held.message {
            Some(message) => looked_at_json(message, 0, truncate, &mut left),
            None => json!({"unreadable": true}),
        };
        row["held_since"] = held.since_ms.into();
        Row(held.at, row)
    });
    rows.collect()
}

/// The messages that this node shows another one, which has seen to it that its user may read
/// them; nothing where this node does not lead the queue.
pub(crate) fn own_messages(
    app: &App,
    (vhost, queue): (&str, &str),
    look: &HeldLook,
    truncate: usize,
) -> Value {
    let node = app.node();
    match node.held_messages(Actor::Operator, vhost, queue, look) {
        Ok(Some(held)) => text_of(&rows(held, truncate)),
        Ok(None) | Err(_) => Value::Null,
    }
}

fn holder_json(app: &App, holder: &Holder) -> Value {
    let connection = &holder.connection;
    json!({
        "connection": connection,
        "channel": format!("{connection} ({})", holder.channel),
        "node": app.node().name(),
        "user": holder.user,
        "consumer_tag": holder.consumer_tag,
        "delivery_tag": holder.delivery_tag,
        "redelivered": holder.redelivered,
        "held_since": holder.since_ms,
    })
}

fn holder_rows(app: &App, held: &[HeldAt]) -> Vec<Row> {
    let holders = app.node().holders(held).into_iter();
    holders
        .map(|holder| Row(holder.at, holder_json(app, &holder)))
        .collect()
}

/// Who of this node's clients holds which of these messages.
pub(crate) fn own_holders(app: &App, held: &[HeldAt]) -> Value {
    text_of(&holder_rows(app, held))
}

/// Who holds these messages, on all nodes.
fn holders(app: &App, held: &[HeldAt]) -> HashMap<HeldAt, Value> {
    if held.is_empty() {
        return HashMap::new();
    }
    let question = Question::Holders {
        held: held.to_vec(),
    };
    let others = told::<Vec<Row>>(peers::ask(app, &question)).flatten();
    let all = holder_rows(app, held).into_iter().chain(others);
    all.map(|Row(at, holder)| (at, holder)).collect()
}

/// A message with who holds it; without, where nobody knows (its client may just have gone).
fn with_holder(mut row: Value, position: u64, holder: Option<&Value>, now_ms: u64) -> Value {
    let nobody = json!({
        "connection": null, "channel": null, "node": null, "user": null, "consumer_tag": null,
        "delivery_tag": null, "redelivered": null,
    });
    row["position"] = position.into();
    merge(&mut row, holder.cloned().unwrap_or(nobody));
    let since_ms = row["held_since"].as_u64();
    let held_s = since_ms.map(|since| now_ms.saturating_sub(since) / 1_000);
    row["held_seconds"] = held_s.into();
    row
}
