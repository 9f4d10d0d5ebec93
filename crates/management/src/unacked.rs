//! `/api/leveret/queues/{vhost}/{name}/unacked`: messages that clients hold, looked at where they
//! are, each with who holds it and since when. The node that leads the queue shows the messages;
//! the nodes that clients are connected to say whose they are.

use crate::api::{Actor, HeldAt, HeldLook, Holder, UnsettledMessage};
use crate::app::App;
use crate::directory::Queue;
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use crate::moves::{SHOWN_BYTES, looked_at_json, number};
use crate::peers;
use crate::question::Question;
use crate::queue_search::Wanted;
use crate::queues::declared;
use crate::sought::Sought;
use leveret_types::limits::{
    HTTP_BODY_BYTES_MAX, QUEUE_PEEK_MESSAGES_MAX, QUEUE_SEARCH_MESSAGES_MAX,
};
use leveret_types::{NodeId, QueueId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Instant;

type Answer = Result<Reply, ApiError>;

/// Messages of a look that says nothing else.
const COUNT: usize = 20;

/// A message, and where it is.
#[derive(Serialize, Deserialize)]
struct Row(HeldAt, Value);

/// What one look has found.
#[derive(Default, Serialize, Deserialize)]
struct Found {
    /// Those that are wanted, each with its position.
    rows: Vec<Row>,
    /// How many messages were looked at for them.
    looked_at: u64,
}

/// Which messages a client wants to see, and how much of each.
pub(crate) struct Look {
    /// The position of the first one.
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// Bytes of a body that are shown.
    pub(crate) truncate: usize,
    /// What they must have.
    pub(crate) sought: Option<Sought>,
}

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
    let count = number(call, "count", 1, QUEUE_PEEK_MESSAGES_MAX as u64)?;
    let truncate = number(call, "truncate", 0, HTTP_BODY_BYTES_MAX as u64)?;
    let look = Look {
        first: number(call, "position", 1, u64::MAX)?.unwrap_or(1),
        count: count.map_or(COUNT, |count| count as usize),
        truncate: truncate.map_or(SHOWN_BYTES, |bytes| bytes as usize),
        sought: None,
    };
    let held = HeldLook {
        of: consumers(call, &queue),
        before: look.first - 1,
        count: look.count,
    };
    let found = found(call, &queue, held, &look)?;
    Ok(Reply::Json(shown(call.app, found.rows).into()))
}

/// The next messages that somebody holds and that have what is sought, how many were looked at, and
/// where to go on.
pub(crate) fn search(call: &Call<'_>, queue: &Queue, look: &Look, over: Instant) -> Answer {
    let of = consumers(call, queue);
    let (mut rows, mut position) = (Vec::new(), look.first);
    let (mut has_ended, mut bytes) = (false, 0);
    while rows.len() < look.count
        && bytes < HTTP_BODY_BYTES_MAX
        && position - look.first < QUEUE_SEARCH_MESSAGES_MAX
        && Instant::now() < over
    {
        let held = HeldLook {
            of: of.clone(),
            before: position - 1,
            count: QUEUE_PEEK_MESSAGES_MAX,
        };
        let found = found(call, queue, held, look)?;
        if found.looked_at == 0 {
            has_ended = true;
            break;
        }
        position += found.looked_at;
        let bodies = found.rows.iter();
        let bodies = bodies.filter_map(|Row(_, row)| row["payload"].as_str());
        bytes += bodies.map(str::len).sum::<usize>();
        rows.extend(found.rows);
    }
    // Whoever goes on does so behind the last one that is shown.
    if rows.len() > look.count {
        rows.truncate(look.count);
        let last = rows.last().and_then(|Row(_, row)| row["position"].as_u64());
        position = last.map_or(position, |last| last + 1);
    }
    Ok(Reply::Json(json!({
        "messages": shown(call.app, rows),
        "looked_at": position - look.first,
        "next_position": (!has_ended).then_some(position),
        "unreadable": null,
    })))
}

/// The consumers whose messages are wanted; none where those of all are.
fn consumers(call: &Call<'_>, queue: &Queue) -> Option<Vec<u64>> {
    let tag = call.query.get("consumer");
    tag.map(|tag| consumers_tagged(call.app, queue.id, tag))
}

/// What this node finds if it leads the queue, or else what the one does that leads it.
fn found(call: &Call<'_>, queue: &Queue, held: HeldLook, look: &Look) -> Result<Found, ApiError> {
    let (vhost, name) = (&queue.vhost, &queue.name);
    let before = held.before;
    let own = call
        .app
        .node()
        .held_messages(call.who.actor(), vhost, name, &held)?;
    if let Some(own) = own {
        return rows(call.app, own, before, (look.sought.as_ref(), look.truncate));
    }
    let question = Question::Held {
        vhost: vhost.clone(),
        queue: name.clone(),
        look: held,
        sought: look.sought.clone(),
        truncate: look.truncate,
    };
    let first = told(peers::ask(call.app, &question)).next();
    first.ok_or_else(|| {
        ApiError::Unavailable(format!(
            "no node that leads the queue '{name}' answers: try again"
        ))
    })
}

/// The messages with who holds them.
fn shown(app: &App, rows: Vec<Row>) -> Vec<Value> {
    let held: Vec<HeldAt> = rows.iter().map(|Row(at, _)| *at).collect();
    let holders = holders(app, &held);
    let now_ms = app.moment().wall_ms;
    let rows = rows.into_iter();
    rows.map(|Row(at, row)| with_holder(row, holders.get(&at), now_ms))
        .collect()
}

/// The numbers of all consumers of this tag that a queue has.
fn consumers_tagged(app: &App, queue: QueueId, tag: &str) -> Vec<u64> {
    let mut found = app.node().consumers_tagged(queue, tag);
    let question = Question::ConsumersTagged {
        queue: queue.0,
        tag: tag.to_owned(),
    };
    found.extend(told::<Vec<u64>>(peers::ask(app, &question)).flatten());
    found
}

/// Those of this node.
pub(crate) fn own_consumers_tagged(app: &App, queue: QueueId, tag: &str) -> Value {
    text_of(&app.node().consumers_tagged(queue, tag))
}

/// Those of these messages that have what is sought; so many others are before them.
fn rows(
    app: &App,
    held: Vec<UnsettledMessage>,
    before: u64,
    (sought, truncate): (Option<&Sought>, usize),
) -> Result<Found, ApiError> {
    let wanted = sought.map(Wanted::of).transpose()?;
    let now_ms = app.moment().wall_ms;
    let takes = |held: &UnsettledMessage| match (&wanted, &held.message) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wanted), Some(message)) => wanted.takes(message, now_ms),
    };
    let looked_at = held.len() as u64;
    let mut left = HTTP_BODY_BYTES_MAX;
    let meant = held.into_iter().zip(before + 1..);
    let rows = meant
        .filter(|(held, _)| takes(held))
        .map(|(held, position)| {
            let mut row = match &held.message {
                Some(message) => looked_at_json(message, position, truncate, &mut left),
                None => json!({"unreadable": true, "position": position}),
            };
            row["held_since"] = held.since_ms.into();
            Row(held.at, row)
        });
    Ok(Found {
        rows: rows.collect(),
        looked_at,
    })
}

/// What this node shows another one, which has seen to it that its user may read the messages;
/// nothing where this node does not lead the queue.
pub(crate) fn own_messages(
    app: &App,
    (vhost, queue): (&str, &str),
    look: &HeldLook,
    shown: (Option<&Sought>, usize),
) -> Value {
    let node = app.node();
    match node.held_messages(Actor::Operator, vhost, queue, look) {
        Ok(Some(held)) => {
            let found = rows(app, held, look.before, shown);
            found.map_or(Value::Null, |found| text_of(&found))
        }
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
fn with_holder(mut row: Value, holder: Option<&Value>, now_ms: u64) -> Value {
    let nobody = json!({
        "connection": null, "channel": null, "node": null, "user": null, "consumer_tag": null,
        "delivery_tag": null, "redelivered": null,
    });
    merge(&mut row, holder.cloned().unwrap_or(nobody));
    let since_ms = row["held_since"].as_u64();
    let held_s = since_ms.map(|since| now_ms.saturating_sub(since) / 1_000);
    row["held_seconds"] = held_s.into();
    row
}
