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
use bytes::{Bytes, BytesMut};
use leveret_types::limits::DELIVERY_LIMIT;
use leveret_types::{FieldValue, NodeId};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

/// Bytes for which a row has room without growing: most have somewhat less.
const ROW_BYTES: usize = 2_048;
/// Bytes that rows are made in together.
const ROWS_BYTES: usize = 16 * ROW_BYTES;

/// Fields that quorum queues alone have.
const QUORUM_ONLY: [&str; 2] = ["messages_dlx", "message_bytes_dlx"];

/// What happened to messages: an object of which what is 0 is not told either.
const MESSAGE_STATS: &str = "message_stats";

/// The fields of a queue in which nothing is and nothing happened, in the order of their names.
struct Zeros {
    names: Vec<String>,
    /// The fields in an object, one behind the other: `"name":value,"name":value`.
    text: Vec<u8>,
    /// Where each ends in it.
    ends: Vec<usize>,
}

impl Zeros {
    /// Those of this object that are meant.
    fn of(fields: Value, is_meant: impl Fn(&str) -> bool) -> Self {
        let mut zeros = Self {
            names: Vec::new(),
            text: Vec::new(),
            ends: Vec::new(),
        };
        let Value::Object(fields) = fields else {
            return zeros;
        };
        let fields = fields.into_iter().filter(|(name, _)| is_meant(name));
        let mut fields: Vec<(String, Value)> = fields.collect();
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, value) in fields {
            if !zeros.text.is_empty() {
                zeros.text.push(b',');
            }
            write_json(&mut zeros.text, &name);
            zeros.text.push(b':');
            write_json(&mut zeros.text, &value);
            zeros.ends.push(zeros.text.len());
            zeros.names.push(name);
        }
        zeros
    }

    /// The text of neighbours.
    fn text_of(&self, some: Range<usize>) -> &[u8] {
        let behind = |end: usize| self.ends[end] + 1;
        let start = some.start.checked_sub(1).map_or(0, behind);
        &self.text[start..self.ends[some.end - 1]]
    }

    /// Writes what is not told. Little is told of most queues, so that the text is in few pieces.
    fn write(&self, told: &Fields<'_>, out: &mut Object<'_>) {
        let place = |name: &str| {
            self.names
                .binary_search_by(|known| (**known).cmp(name))
                .ok()
        };
        let mut told: Vec<usize> = told.iter().filter_map(|(name, _)| place(name)).collect();
        told.sort_unstable();
        let mut from = 0;
        for at in told.into_iter().chain([self.names.len()]) {
            if from < at {
                out.whole(self.text_of(from..at));
            }
            from = at + 1;
        }
    }
}

static OF_QUORUM: LazyLock<Zeros> = LazyLock::new(|| Zeros::of(no_stats(), |_| true));

static OF_OTHERS: LazyLock<Zeros> =
    LazyLock::new(|| Zeros::of(no_stats(), |name| !QUORUM_ONLY.contains(&name)));

/// Those of what happened to messages.
static OF_MESSAGES: LazyLock<Zeros> =
    LazyLock::new(|| Zeros::of(no_stats()[MESSAGE_STATS].take(), |_| true));

/// Makes rows that share memory: of that each would take a piece too large to be had at once.
#[derive(Debug)]
pub(super) struct RowMaker {
    row: Vec<u8>,
    rows: BytesMut,
}

impl RowMaker {
    pub(super) fn new() -> Self {
        Self {
            row: Vec::with_capacity(ROW_BYTES),
            rows: BytesMut::with_capacity(ROWS_BYTES),
        }
    }

    /// A queue as RabbitMQ's API shows it, with what is told of it; this node's name is `node`.
    pub(super) fn row(
        &mut self,
        app: &App,
        node: &str,
        queue: &Queue,
        told: Option<&Told<'_>>,
    ) -> QueueRow {
        self.row.clear();
        QueueRow::write_to(&mut self.row, app, node, queue, told);
        self.rows.extend_from_slice(&self.row);
        QueueRow(self.rows.split().freeze())
    }
}

/// The row of a queue in lists: the text of an object.
#[derive(Debug)]
pub(crate) struct QueueRow(Bytes);

impl QueueRow {
    fn write_to(text: &mut Vec<u8>, app: &App, node: &str, queue: &Queue, told: Option<&Told<'_>>) {
        let led = leader(app, node, queue, told.map(|told| told.by));
        let mut row = Object::open(text);
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
            zeros.write(&fields, &mut row);
        }
        row.close();
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
        Self(text.into())
    }
}

impl Row for QueueRow {
    fn of(fields: Value) -> Self {
        let mut text = Vec::new();
        write_json(&mut text, &fields);
        Self(text.into())
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
                OF_MESSAGES.write(&told, &mut messages);
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

    /// What is written of these zeros where such fields are told.
    fn written(zeros: &Zeros, told: &Value) -> Value {
        let told = told.to_string();
        let told = Fields::of(told.as_bytes()).expect("an object");
        let mut out = Vec::new();
        let mut object = Object::open(&mut out);
        zeros.write(&told, &mut object);
        object.close();
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn zeros_are_written_but_for_those_that_are_told() {
        let zeros = json!({"c": 0, "a": {"rate": 0.0}, "b": null, "left out": 0});
        let zeros = Zeros::of(zeros, |name| name != "left out");
        for (told, expected) in [
            (json!({}), json!({"a": {"rate": 0.0}, "b": null, "c": 0})),
            (json!({"x": 1, "a": 1}), json!({"b": null, "c": 0})),
            (json!({"b": 1}), json!({"a": {"rate": 0.0}, "c": 0})),
            (json!({"c": 1, "b": 2}), json!({"a": {"rate": 0.0}})),
            (json!({"c": 1, "b": 2, "a": 3}), json!({})),
        ] {
            assert_eq!(written(&zeros, &told), expected, "{told}");
        }
        let none = Zeros::of(json!({"a": 0}), |_| false);
        assert_eq!(written(&none, &json!({"a": 1})), json!({}));
        assert_eq!(written(&none, &json!({})), json!({}));
    }

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
