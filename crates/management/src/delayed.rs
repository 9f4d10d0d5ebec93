//! `/api/leveret/delayed`: the messages that delayed exchanges keep back on the nodes of a cluster,
//! those that are due first, and how to drop one before it is.
//!
//! A message is known by when it is due, by its place among those of its node, and by that node. In
//! this order they are listed, and a list says where to go on: what was listed before is not looked
//! at again. Only where a virtual host, an exchange or a queue is meant must messages be looked at
//! that are not shown, of which there is a bound.

use crate::api::DelayedMessage;
use crate::app::App;
use crate::directory::BindingScope;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview::knows_node;
use crate::peers;
use crate::question::Question;
use crate::queues::message_json;
use crate::selection::DelayedSelection;
use crate::timestamps::rfc3339;
use leveret_types::limits::{
    DELAYED_SCAN_MESSAGES_MAX, DELAYED_SHOWN_BYTES_MAX, HTTP_PAGE_MAX, QUEUE_SEARCH_MS_MAX,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Instant;

type Answer = Result<Reply, ApiError>;

/// Bytes of a body that are shown where the client does not say.
const SHOWN_BYTES: usize = 1_024;
/// Messages that are in memory at once while a node looks for those that are meant.
const PORTION: usize = 100;

/// A message: when it is due, its place on its node, and that node. Where no node is named, the
/// message is this node's, or the place is before that of any node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    due_ms: u64,
    index: u64,
    node: String,
}

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let (place, node) = text.split_once('@').unwrap_or((text, ""));
        let (due, index) = place.split_once('-')?;
        Some(Self {
            due_ms: due.parse().ok()?,
            index: index.parse().ok()?,
            node: node.to_owned(),
        })
    }

    fn text(&self) -> String {
        format!("{}-{}@{}", self.due_ms, self.index, self.node)
    }

    fn of_row(row: &Value) -> Option<Self> {
        Self::parse(row["id"].as_str()?)
    }
}

/// What a node tells of what it keeps back.
#[derive(Default, Serialize, Deserialize)]
struct Told {
    node: String,
    total: u64,
    /// The first that are wanted.
    rows: Vec<Value>,
    /// Where to go on looking, as it has not looked at all that are due before the last one wanted.
    looked_to: Option<(u64, u64)>,
}

fn number(call: &Call<'_>, name: &str, default: usize) -> Result<usize, ApiError> {
    let bad = |_| ApiError::BadRequest(format!("{name} must be a whole number"));
    call.query
        .get(name)
        .map_or(Ok(default), |text| text.parse().map_err(bad))
}

/// The delayed exchanges that a queue is bound to.
fn exchanges_of(app: &App, vhost: &str, queue: &str) -> HashSet<String> {
    let node = app.node();
    let mut places = Vec::new();
    node.each_binding(BindingScope::ToQueue { vhost, queue }, &mut |_, place| {
        places.push(place);
    });
    let mut sources = HashSet::new();
    for place in places {
        if let Some(binding) = node.binding_at(vhost, place)
            && binding.to_queue
            && binding.destination == queue
        {
            sources.insert(binding.source);
        }
    }
    let delays = |name: &String| {
        let exchange = node.exchange(vhost, name);
        exchange.is_some_and(|exchange| exchange.kind == "x-delayed-message")
    };
    sources.retain(delays);
    sources
}

fn row(node: &str, kept: &DelayedMessage, truncate: usize, left: &mut usize) -> Value {
    let id = Id {
        due_ms: kept.due_ms,
        index: kept.index,
        node: node.to_owned(),
    };
    let mut row = message_json(&kept.message, truncate, left);
    row["id"] = id.text().into();
    row["due"] = rfc3339(kept.due_ms).into();
    row["vhost"] = kept.vhost.as_str().into();
    row["node"] = node.into();
    row
}

/// What this node keeps back of what is wanted.
fn own(app: &App, wanted: &DelayedSelection) -> Told {
    let name = app.node().name();
    let queue = wanted.queue.as_ref().zip(wanted.vhost.as_ref());
    let bound = queue.map(|(queue, vhost)| exchanges_of(app, vhost, queue));
    let is_meant = |kept: &DelayedMessage| {
        let exchange = &kept.message.exchange;
        wanted
            .vhost
            .as_ref()
            .is_none_or(|vhost| *vhost == kept.vhost)
            && wanted
                .exchange
                .as_ref()
                .is_none_or(|meant| meant == exchange)
            && bound.as_ref().is_none_or(|bound| bound.contains(exchange))
    };
    let mut told = Told {
        node: name.clone(),
        ..Told::default()
    };
    // Nothing is on its way to a queue that no delayed exchange knows.
    if bound.as_ref().is_some_and(HashSet::is_empty) {
        told.total = app.node().delayed((0, 0), 0).0;
        return told;
    }
    let (begun, most) = (Instant::now(), wanted.limit.min(HTTP_PAGE_MAX + 1));
    let is_enough = |looked_at: usize| {
        let took_ms = begun.elapsed().as_millis();
        looked_at >= DELAYED_SCAN_MESSAGES_MAX || took_ms >= u128::from(QUEUE_SEARCH_MS_MAX)
    };
    let (mut from, mut looked_at, mut left) = (wanted.from, 0, DELAYED_SHOWN_BYTES_MAX);
    loop {
        let (total, kept) = app.node().delayed(from, PORTION);
        told.total = total;
        if kept.is_empty() {
            return told;
        }
        looked_at += kept.len();
        for message in &kept {
            from = (message.due_ms, message.index.saturating_add(1));
            if is_meant(message) {
                let row = row(&name, message, wanted.truncate, &mut left);
                told.rows.push(row);
                if told.rows.len() >= most {
                    return told;
                }
            }
        }
        if is_enough(looked_at) {
            told.looked_to = Some(from);
            return told;
        }
    }
}

/// The same for another node. As a text: fields that are 0 are left out on the way between nodes.
pub(crate) fn told(app: &App, wanted: &DelayedSelection) -> Value {
    json!([json!(own(app, wanted)).to_string()])
}

fn told_by(answer: &Value) -> Option<Told> {
    serde_json::from_str(answer[0].as_str()?).ok()
}

/// The nodes of the cluster that have not told.
fn silent(app: &App, told: &[Told]) -> Vec<String> {
    let nodes = app
        .node()
        .cluster()
        .map_or_else(Vec::new, |view| view.nodes);
    let names = nodes.into_iter().map(|node| node.name);
    names
        .filter(|name| told.iter().all(|told| told.node != *name))
        .collect()
}

/// `GET /api/leveret/delayed?vhost=&exchange=&queue=&from=&limit=&truncate=`
pub fn list(call: &Call<'_>) -> Answer {
    let text = |name| call.query.get(name).map(str::to_owned);
    let from = match call.query.get("from") {
        None => Id::default(),
        Some(text) => Id::parse(text).ok_or_else(|| {
            ApiError::BadRequest("from must be what an earlier list told as \"next\"".to_owned())
        })?,
    };
    let limit = number(call, "limit", HTTP_PAGE_MAX)?.min(HTTP_PAGE_MAX);
    let wanted = DelayedSelection {
        from: (from.due_ms, from.index),
        // One more says whether there is more.
        limit: limit + 1,
        truncate: number(call, "truncate", SHOWN_BYTES)?,
        vhost: text("vhost"),
        exchange: text("exchange"),
        queue: text("queue"),
    };
    if wanted.queue.is_some() && wanted.vhost.is_none() {
        let text = "queue needs the vhost that it is in".to_owned();
        return Err(ApiError::BadRequest(text));
    }
    let app = call.app;
    let mut told = vec![own(app, &wanted)];
    let answers = peers::ask(app, &Question::Delayed { of: wanted });
    told.extend(answers.iter().filter_map(|(_, answer)| told_by(answer)));
    let silent = silent(app, &told);
    // What one node has not looked at yet may be due before what another one found.
    let end = told.iter().filter_map(|told| told.looked_to).min();
    let end = end.map(|(due_ms, index)| Id {
        due_ms,
        index,
        node: String::new(),
    });
    let nodes: Vec<Value> = told
        .iter()
        .map(|told| json!({"name": told.node, "total_count": told.total}))
        .collect();
    let total: u64 = told.iter().map(|told| told.total).sum();
    let rows = told.into_iter().flat_map(|told| told.rows);
    let mut rows: Vec<(Id, Value)> = rows
        .filter_map(|row| Some((Id::of_row(&row)?, row)))
        .filter(|(id, _)| *id >= from && end.as_ref().is_none_or(|end| id < end))
        .collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    let next = rows.get(limit).map(|(id, _)| id).or(end.as_ref());
    let next = next.map(Id::text);
    rows.truncate(limit);
    Ok(Reply::Json(json!({
        "total_count": total,
        "node": app.node().name(),
        "nodes": nodes,
        "silent_nodes": silent,
        "next": next,
        "messages": rows.into_iter().map(|(_, row)| row).collect::<Value>(),
    })))
}

fn is_here(app: &App, id: &Id) -> bool {
    id.node.is_empty() || id.node == app.node().name()
}

/// Drops a message of this node for another one: whether it was there, or why not in words; nothing
/// where it is not this node's.
pub(crate) fn cancel_told(app: &App, id: &str) -> Value {
    match Id::parse(id).filter(|id| is_here(app, id)) {
        None => Value::Null,
        Some(id) => match app.node().cancel_delayed(id.due_ms, id.index) {
            Ok(was_there) => json!(was_there),
            Err(why) => json!(why.text),
        },
    }
}

/// `DELETE /api/leveret/delayed/{id}`: the message never reaches a queue.
pub fn cancel(call: &Call<'_>) -> Answer {
    let id = Id::parse(call.param(0)).ok_or(ApiError::NotFound)?;
    let answer = |was_there| match was_there {
        true => Ok(Reply::Done),
        false => Err(ApiError::NotFound),
    };
    if is_here(call.app, &id) {
        return answer(call.app.node().cancel_delayed(id.due_ms, id.index)?);
    }
    let question = Question::CancelDelayed { id: id.text() };
    let answers = peers::ask(call.app, &question).into_iter();
    let told = answers.map(|(_, told)| told).find(|told| !told.is_null());
    let silent = || format!("the node '{}' does not answer: try again", id.node);
    match told {
        Some(Value::Bool(was_there)) => answer(was_there),
        Some(Value::String(why)) => Err(ApiError::Unavailable(why)),
        _ if !knows_node(call.app, &id.node) => Err(ApiError::NotFound),
        _ => Err(ApiError::Unavailable(silent())),
    }
}
