//! What the nodes of a cluster tell each other so that each shows all: figures of the queues that a
//! node leads, its connections, how it is itself.
//!
//! A node answers with the JSON that it would show for its own part; whoever asked puts the parts
//! together. Zeros are left out on the way: most queues of a large cluster are idle.

use crate::api::QueueStats;
use crate::app::App;
use crate::queues;
use crate::queues::Owners;
use leveret_types::limits::REPORT_ASK_BYTES_MAX;
use leveret_types::{NodeId, QueueId};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// What is asked of other nodes.
pub mod asks {
    /// Figures of all queues that are led there, each with its `id`.
    pub const QUEUES: &str = "queues";
    /// The same of some queues: their numbers follow.
    pub const QUEUES_OF: &str = "queues of ";
    /// Figures of one queue: its number follows.
    pub const QUEUE: &str = "queue ";
    /// Clients' connections there.
    pub const CONNECTIONS: &str = "connections";
    /// Their channels.
    pub const CHANNELS: &str = "channels";
    /// Their consumers.
    pub const CONSUMERS: &str = "consumers";
    /// How the node is.
    pub const NODE: &str = "node";
    /// Its alarms: a list of the resources. They block publishers, so that they are not answered
    /// here, in turn with listings, but at once where the question arrives.
    pub const ALARMS: &str = "alarms";
    /// Where its memory is.
    pub const MEMORY: &str = "memory";
    /// Its part of `/api/overview`.
    pub const OVERVIEW: &str = "overview";
    /// What happens in its virtual hosts: sums.
    pub const VHOSTS: &str = "vhosts";
    /// The same of one: its name follows.
    pub const VHOST: &str = "vhost ";
    /// How a queue's replica there stands: its number follows.
    pub const REPLICA: &str = "replica ";
    /// Publishers of its clients of the stream protocol.
    pub const STREAM_PUBLISHERS: &str = "stream publishers";
    /// Subscriptions of its clients of the stream protocol.
    pub const STREAM_CONSUMERS: &str = "stream consumers";
    /// What a stream there keeps by name: its number follows.
    pub const TRACKING: &str = "tracking ";
    /// Store an offset in a stream there: its number, the offset and a consumer's name follow.
    pub const STORE_OFFSET: &str = "store-offset ";
    /// Give a stream that is led there a replica: its number and the name of a node follow.
    pub const ADD_REPLICA: &str = "add-replica ";
    /// Take a replica of such a stream away: the same follows.
    pub const DELETE_REPLICA: &str = "delete-replica ";
    /// Close a connection: its number and the reason follow.
    pub const CLOSE: &str = "close ";
}

/// What the other nodes answer, each with its number; who does not answer in time is left out.
pub fn ask(app: &App, what: &str) -> Vec<(NodeId, Value)> {
    let answers = app.node().ask_peers(what);
    // One that makes no sense is of another version, and as good as none.
    let parse =
        |(node, bytes): (NodeId, Vec<u8>)| Some((node, serde_json::from_slice(&bytes).ok()?));
    answers.into_iter().filter_map(parse).collect()
}

/// The rows of all answers to a question that is answered with a list.
pub fn rows(app: &App, what: &str) -> Vec<Value> {
    let of_one = |(_, answer): (NodeId, Value)| match answer {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    ask(app, what).into_iter().flat_map(of_one).collect()
}

/// Who tells of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// This node, which leads it or has it alone.
    Here,
    /// Another node, which leads it or has it alone.
    Elsewhere(NodeId),
    /// This node, which has a replica that does not lead: better than nothing.
    Follower,
}

/// A queue's figures, and whose they are.
#[derive(Clone, Debug)]
pub struct Told {
    /// Who tells them.
    pub by: Teller,
    /// The figures.
    pub stats: Value,
}

impl Told {
    pub(crate) fn here(app: &App, stats: &QueueStats, owners: &Owners) -> Self {
        let by = match stats.follows {
            true => Teller::Follower,
            false => Teller::Here,
        };
        let stats = queues::stats(app, stats, owners);
        Self { by, stats }
    }

    fn elsewhere(node: NodeId, row: Value) -> Self {
        let (by, stats) = (Teller::Elsewhere(node), with_zeros(row));
        Self { by, stats }
    }
}

/// What another node tells of a queue, as it came: a row's text takes a part of its value.
pub(crate) struct Row {
    node: NodeId,
    text: Box<RawValue>,
}

impl Row {
    /// What is told; nothing where it makes no sense.
    pub(crate) fn told(&self) -> Option<Told> {
        let row = serde_json::from_str(self.text.get()).ok()?;
        Some(Told::elsewhere(self.node, row))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.text.get().len()
    }
}

/// What other nodes tell of the queues that they lead.
pub(crate) fn told_elsewhere(app: &App) -> HashMap<QueueId, Row> {
    led_elsewhere(app, asks::QUEUES).collect()
}

/// The same, of these queues.
pub(crate) fn told_elsewhere_of(app: &App, ids: &[QueueId]) -> HashMap<QueueId, Row> {
    // A number has 20 digits at most, and a space before it.
    const IDS: usize = (REPORT_ASK_BYTES_MAX - asks::QUEUES_OF.len()) / 21;
    let ask = |ids: &[QueueId]| {
        let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
        led_elsewhere(app, &format!("{}{}", asks::QUEUES_OF, ids.join(" ")))
    };
    ids.chunks(IDS).flat_map(ask).collect()
}

fn led_elsewhere(app: &App, what: &str) -> impl Iterator<Item = (QueueId, Row)> + use<> {
    #[derive(serde::Deserialize)]
    struct Id {
        id: u64,
    }
    let of_one = |(node, bytes): (NodeId, Vec<u8>)| {
        let rows: Vec<Box<RawValue>> = serde_json::from_slice(&bytes).unwrap_or_default();
        rows.into_iter().filter_map(move |text| {
            let Id { id } = serde_json::from_str(text.get()).ok()?;
            Some((QueueId(id), Row { node, text }))
        })
    };
    app.node().ask_peers(what).into_iter().flat_map(of_one)
}

/// What is told of one queue, wherever it is led.
pub fn told_of(app: &App, queue: QueueId) -> Option<Told> {
    let own = app.node().queue(queue);
    if let Some(led) = own.as_ref().filter(|stats| !stats.follows) {
        return Some(Told::here(app, led, &queues::owners(app, [led])));
    }
    let answers = ask(app, &format!("{}{}", asks::QUEUE, queue.0));
    let mut answers = answers.into_iter();
    match answers.find(|(_, answer)| answer.is_object()) {
        Some((node, row)) => Some(Told::elsewhere(node, row)),
        None => own.map(|stats| Told::here(app, &stats, &queues::owners(app, [&stats]))),
    }
}

/// A queue's figures with those that were left out because they are 0.
fn with_zeros(row: Value) -> Value {
    let mut stats = queues::no_stats();
    merge_deeply(&mut stats, row);
    stats
}

fn merge_deeply(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge_deeply(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Fields whose contents are clients': a 0 in them says something.
const AS_THEY_ARE: [&str; 2] = ["arguments", "client_properties"];

/// Takes the fields away that are 0, nothing, or hold nothing else.
pub(crate) fn without_zeros(value: Value) -> Value {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let value = match AS_THEY_ARE.contains(&name.as_str()) {
                    true => value,
                    false => without_zeros(value),
                };
                (name, value)
            });
            Value::Object(fields.filter(|(_, v)| !is_nothing(v)).collect())
        }
        Value::Array(items) => items.into_iter().map(without_zeros).collect(),
        other => other,
    }
}

/// Adds the numbers of one object to those of another, deeply; what only one has stays.
pub fn add(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                match into.get_mut(name) {
                    Some(sum) => add(sum, value),
                    None => drop(into.insert(name.clone(), value.clone())),
                }
            }
        }
        (into @ Value::Number(_), Value::Number(more)) => {
            *into = match (into.as_u64(), more.as_u64()) {
                (Some(sum), Some(more)) => sum.saturating_add(more).into(),
                _ => {
                    let of = |value: &Value| value.as_f64().unwrap_or(0.0);
                    json!(of(into) + more.as_f64().unwrap_or(0.0))
                }
            };
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from.iter().cloned()),
        _ => {}
    }
}

/// An object with some fields of another.
pub fn pick(from: &Value, fields: &[&str]) -> Value {
    let mut out = Map::new();
    for field in fields {
        out.insert((*field).to_owned(), from[*field].clone());
    }
    Value::Object(out)
}

/// Rows as they come from another node, on the shape that a row of this node has.
pub fn shaped(shape: &Value, row: Value) -> Value {
    let mut shaped = shape.clone();
    merge_deeply(&mut shaped, row);
    shaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_on_the_way_is_there_again_at_its_end() {
        let full = json!({"id": 7, "messages": 0, "message_stats": {"ack": 3, "get": 0}});
        let sent = without_zeros(full);
        let arguments = json!({"arguments": {"x-priority": 0}});
        assert_eq!(without_zeros(arguments.clone()), arguments);
        assert_eq!(sent, json!({"id": 7, "message_stats": {"ack": 3}}));
        let seen = with_zeros(sent);
        assert_eq!(seen["messages"], 0);
        assert_eq!(seen["message_stats"]["ack"], 3);
        assert_eq!(seen["message_stats"]["get"], 0);
        assert_eq!(seen["message_stats"]["get_details"]["rate"], 0.0);
    }

    #[test]
    fn numbers_add_up_and_lists_go_on() {
        let mut sum = json!({"a": 1, "b": {"rate": 0.5}, "list": [1], "text": "x"});
        add(
            &mut sum,
            &json!({"a": 2, "b": {"rate": 1}, "list": [2], "text": "y", "new": 4}),
        );
        let expected = json!({"a": 3, "b": {"rate": 1.5}, "list": [1, 2], "text": "x", "new": 4});
        assert_eq!(sum, expected);
    }
}
