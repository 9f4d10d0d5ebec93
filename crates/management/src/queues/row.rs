//! Rows of queues, as text. Most of what is said of most queues is 0 or nothing: nodes do not tell
//! it each other, and its text, which is the same in each row, is put where it is missing.

use super::WITHOUT_STATS;
use super::remote_stats::{Teller, Told, no_stats};
use crate::app::App;
use crate::directory::Queue;
use crate::http::chunked_body::write_json;
use crate::http::input::json_of;
use crate::json_writer::{Fields, Object};
use crate::row_lists::Row;
use leveret_types::limits::DELIVERY_LIMIT;
use leveret_types::{FieldValue, NodeId};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Bytes for which a row has room without growing: most have somewhat less.
const ROW_BYTES: usize = 2_048;

/// Fields that quorum queues alone have.
const QUORUM_ONLY: [&str; 2] = ["messages_dlx", "message_bytes_dlx"];

/// What happened to messages: an object of which what is 0 is not told either.
const MESSAGE_STATS: &str = "message_stats";

/// A field of a queue in which nothing is and nothing happened.
struct Zero {
    name: String,
    /// The field in an object: `"name":value`.
    text: Vec<u8>,
}

impl Zero {
    fn of((name, value): (String, Value)) -> Self {
        let mut text = Vec::new();
        write_json(&mut text, &name);
        text.push(b':');
        write_json(&mut text, &value);
        Self { name, text }
    }
}

fn zeros(fields: Value) -> Vec<Zero> {
    match fields {
        Value::Object(fields) => fields.into_iter().map(Zero::of).collect(),
        _ => Vec::new(),
    }
}

static OF_QUORUM: LazyLock<Vec<Zero>> = LazyLock::new(|| zeros(no_stats()));

static OF_OTHERS: LazyLock<Vec<Zero>> = LazyLock::new(|| {
    let zeros = zeros(no_stats()).into_iter();
    let is_meant = |zero: &Zero| !QUORUM_ONLY.contains(&zero.name.as_str());
    zeros.filter(is_meant).collect()
});

/// Those of what happened to messages.
static OF_MESSAGES: LazyLock<Vec<Zero>> = LazyLock::new(|| zeros(no_stats()[MESSAGE_STATS].take()));

/// Writes what is not told.
fn write_zeros(zeros: &[Zero], told: &Fields<'_>, out: &mut Object<'_>) {
    for zero in zeros {
        if told.get(&zero.name).is_none() {
            out.whole(&zero.text);
        }
    }
}

/// The row of a queue in lists: the text of an object.
#[derive(Debug)]
pub(crate) struct QueueRow(Vec<u8>);

impl QueueRow {
    /// A queue as RabbitMQ's API shows it, with what is told of it; this node's name is `node`.
    pub(crate) fn new(app: &App, node: &str, queue: &Queue, told: Option<&Told<'_>>) -> Self {
        let led = leader(app, node, queue, told.map(|told| told.by));
        let mut text = Vec::with_capacity(ROW_BYTES);
        let mut row = Object::open(&mut text);
        write_record(node, queue, led, &mut row);
        let is_quorum = queue.kind == "quorum";
        if is_quorum || queue.kind == "stream" {
            write_members(app, node, queue, led, &mut row);
        }
        let fields = told.map(Told::fields).unwrap_or_default();
        match state_told(told, &fields) {
            Some(state) => row.raw("state", state),
            // Its leader may be up and slow to tell how it is.
            None => {
                let is_led = led.is_some_and(|led| led.is_up);
                row.field("state", if is_led { "running" } else { "down" });
            }
        }
        write_told(&fields, is_quorum, &mut row);
        match (&*queue.kind, told.is_some()) {
            ("quorum", _) => write_unless_told(quorum_fields(queue), &fields, &mut row),
            ("stream", told) => write_unless_told(stream_fields(told), &fields, &mut row),
            _ => {}
        }
        if told.is_some() {
            let zeros = if is_quorum { &OF_QUORUM } else { &OF_OTHERS };
            write_zeros(zeros, &fields, &mut row);
        }
        row.close();
        Self(text)
    }

    /// The row with these of its fields alone, none of which is within another.
    pub(super) fn with_columns(&self, columns: &str) -> Self {
        let fields = Fields::of(&self.0).unwrap_or_default();
        let wanted: BTreeSet<&str> = columns.split(',').map(str::trim).collect();
        let mut text = Vec::new();
        let mut row = Object::open(&mut text);
        for name in wanted {
            if let Some(value) = fields.get(name) {
                row.raw(name, value);
            }
        }
        row.close();
        Self(text)
    }
}

impl Row for QueueRow {
    fn of(fields: Value) -> Self {
        let mut text = Vec::new();
        write_json(&mut text, &fields);
        Self(text)
    }

    fn whole(self) -> Value {
        // It was written here, of parts that have been looked at.
        serde_json::from_slice(&self.0).unwrap_or_default()
    }

    fn field(self, path: &str) -> Value {
        Fields::of(&self.0).unwrap_or_default().at(path)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// What the catalogue says of a queue, and which node has it.
fn write_record(node: &str, queue: &Queue, led: Option<Leader<'_>>, row: &mut Object<'_>) {
    let first = queue.nodes.first().map_or(node, |(_, name)| &**name);
    row.field("name", &queue.name);
    row.field("vhost", &queue.vhost);
    row.field("type", &queue.kind);
    row.field("durable", &queue.durable);
    row.field("auto_delete", &queue.auto_delete);
    row.field("exclusive", &queue.exclusive);
    row.field("arguments", &json_of(&queue.arguments));
    // Always a name, as clients want it: without a leader, of the one that is to be it.
    row.field("node", led.map_or(first, |led| led.node));
    row.field("internal", &false);
    row.field("internal_owner", &false);
    row.field("policy", &queue.policy);
    row.field("operator_policy", &queue.operator_policy);
    let definition = json_of(&queue.effective_policy);
    row.field("effective_policy_definition", &definition);
}

/// Who has a replicated queue.
fn write_members(
    app: &App,
    node: &str,
    queue: &Queue,
    led: Option<Leader<'_>>,
    row: &mut Object<'_>,
) {
    let leader = led.filter(|led| led.is_up);
    row.field("leader", &leader.map(|led| led.node));
    row.field("members", &members(queue, node, |_| true));
    row.field("online", &members(queue, node, |at| app.node().is_up(at)));
}

/// The state that is told, where it says how the queue is: a replica that is well does not make a
/// queue that runs.
fn state_told<'t>(told: Option<&Told<'_>>, fields: &Fields<'t>) -> Option<&'t RawValue> {
    let state = fields.get("state")?;
    let by = told.map(|told| told.by);
    (by != Some(Teller::Follower) || state.get() != "\"running\"").then_some(state)
}

/// What is told of what happens in a queue. What it is only its record says.
fn write_told(told: &Fields<'_>, is_quorum: bool, row: &mut Object<'_>) {
    for (name, value) in told.iter() {
        match name {
            "id" | "state" => {}
            name if WITHOUT_STATS.contains(&name) => {}
            name if QUORUM_ONLY.contains(&name) && !is_quorum => {}
            MESSAGE_STATS => {
                let told = Fields::of(value.get().as_bytes()).unwrap_or_default();
                let mut messages = row.object(MESSAGE_STATS);
                for (name, value) in told.iter() {
                    messages.raw(name, value);
                }
                write_zeros(&OF_MESSAGES, &told, &mut messages);
                messages.close();
            }
            name => row.raw(name, value),
        }
    }
}

fn write_unless_told<const N: usize>(
    fields: [(&str, Value); N],
    told: &Fields<'_>,
    row: &mut Object<'_>,
) {
    for (name, value) in fields {
        if told.get(name).is_none() {
            row.field(name, &value);
        }
    }
}

/// What RabbitMQ says of quorum queues beside.
fn quorum_fields(queue: &Queue) -> [(&'static str, Value); 8] {
    let argument = queue.arguments.get("x-delivery-limit");
    let limit = argument.or_else(|| queue.effective_policy.get("delivery-limit"));
    let limit = limit.and_then(FieldValue::as_integer);
    let limit = limit.unwrap_or(i64::from(DELIVERY_LIMIT));
    [
        ("delivery_limit", limit.into()),
        ("delayed_retry", "disabled".into()),
        ("messages_delayed", 0.into()),
        ("messages_by_priority", json!({})),
        ("messages_active_priorities", 0.into()),
        ("messages_ready_returned", 0.into()),
        ("open_files", json!({})),
        ("publishers", 0.into()),
    ]
}

/// What RabbitMQ says of streams beside. Zeros may be left out of what is told of it.
fn stream_fields(is_told: bool) -> [(&'static str, Value); 6] {
    let offset = is_told.then_some(0);
    [
        ("segments", 0.into()),
        ("retention_held_bytes", 0.into()),
        ("readers", json!({})),
        ("publishers", 0.into()),
        ("first_offset", offset.into()),
        ("committed_offset", offset.into()),
    ]
}

/// The node that leads a queue, or has it.
#[derive(Clone, Copy)]
struct Leader<'q> {
    node: &'q str,
    is_up: bool,
}

/// Who leads a queue, or has it, as far as that is known: who tells of it as its leader knows, else
/// whom the replica here follows.
fn leader<'q>(
    app: &App,
    own: &'q str,
    queue: &'q Queue,
    told_by: Option<Teller>,
) -> Option<Leader<'q>> {
    let leads = match told_by {
        Some(Teller::Here) => {
            return Some(Leader {
                node: own,
                is_up: true,
            });
        }
        Some(Teller::Elsewhere(node)) => Some(node),
        Some(Teller::Follower) | None => app.node().queue_leader(queue.id),
    };
    let (id, node) = queue.nodes.iter().find(|(node, _)| Some(*node) == leads)?;
    let is_up = app.node().is_up(*id);
    Some(Leader { node, is_up })
}

/// The names of a queue's nodes that are as asked; this node's on a node without cluster.
fn members<'q>(queue: &'q Queue, own: &'q str, wanted: impl Fn(NodeId) -> bool) -> Vec<&'q str> {
    if queue.nodes.is_empty() {
        return vec![own];
    }
    let nodes = queue.nodes.iter().filter(|(node, _)| wanted(*node));
    nodes.map(|(_, name)| &**name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::input::Query;
    use crate::list_query;

    #[test]
    fn columns_are_the_same_picked_from_a_rows_text_and_from_its_values() {
        let row = json!({"name": "a\"b", "messages": 3, "arguments": {"x-max-length": 1}});
        for columns in [
            "name",
            "messages,name",
            "arguments",
            "name,none,name",
            "none",
        ] {
            let query = Query::parse(&format!("columns={columns}")).expect("a query");
            let picked = QueueRow::of(row.clone()).with_columns(columns).whole();
            assert_eq!(picked, list_query::one(row.clone(), &query), "{columns}");
        }
    }
}
