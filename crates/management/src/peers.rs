//! What the nodes of a cluster tell each other so that each shows all: figures of the queues that a
//! node leads, its connections, how it is itself.
//!
//! A node answers with the JSON that it would show for its own part; whoever asked puts the parts
//! together. Zeros are left out on the way: most queues of a large cluster are idle.

use crate::api::QueueStats;
use crate::app::App;
use crate::history;
use crate::question::Question;
use crate::queues;
use crate::queues::Owners;
use crate::ranges::Ranges;
use leveret_types::{NodeId, QueueId};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// What the other nodes answer, each with its number; who does not answer in time is left out.
pub fn ask(app: &App, question: &Question) -> Vec<(NodeId, Value)> {
    let answers = app.node().ask_peers(question);
    // One that makes no sense is of another version, and as good as none.
    let parse =
        |(node, bytes): (NodeId, Vec<u8>)| Some((node, serde_json::from_slice(&bytes).ok()?));
    answers.into_iter().filter_map(parse).collect()
}

/// The rows of all answers to a question that is answered with a list.
pub fn rows(app: &App, question: &Question) -> Vec<Value> {
    let of_one = |(_, answer): (NodeId, Value)| match answer {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    ask(app, question).into_iter().flat_map(of_one).collect()
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
    pub(crate) fn here(app: &App, stats: &QueueStats, owners: &Owners, ranges: &Ranges) -> Self {
        let by = match stats.follows {
            true => Teller::Follower,
            false => Teller::Here,
        };
        let stats = queues::stats(app, stats, owners, ranges);
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
pub(crate) fn told_elsewhere(app: &App, ranges: &Ranges) -> HashMap<QueueId, Row> {
    led_elsewhere(app, &Question::Queues { ranges: *ranges }).collect()
}

/// The same, of these queues.
pub(crate) fn told_elsewhere_of(
    app: &App,
    ids: &[QueueId],
    ranges: &Ranges,
) -> HashMap<QueueId, Row> {
    let ask = |ids: &[QueueId]| {
        let ids = ids.iter().map(|id| id.0).collect();
        let ranges = *ranges;
        led_elsewhere(app, &Question::QueuesOf { ids, ranges })
    };
    ids.chunks(Question::QUEUES_MAX).flat_map(ask).collect()
}

fn led_elsewhere(app: &App, question: &Question) -> impl Iterator<Item = (QueueId, Row)> + use<> {
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
    app.node().ask_peers(question).into_iter().flat_map(of_one)
}

/// What is told of one queue, wherever it is led.
pub fn told_of(app: &App, queue: QueueId, ranges: &Ranges) -> Option<Told> {
    let own = app.node().queue(queue);
    if let Some(led) = own.as_ref().filter(|stats| !stats.follows) {
        let owners = queues::owners(app, [led]);
        return Some(Told::here(app, led, &owners, ranges));
    }
    let answers = ask(app, &Question::of_queue(queue, *ranges));
    let mut answers = answers.into_iter();
    match answers.find(|(_, answer)| answer.is_object()) {
        Some((node, row)) => Some(Told::elsewhere(node, row)),
        None => own.map(|stats| {
            let owners = queues::owners(app, [&stats]);
            Told::here(app, &stats, &owners, ranges)
        }),
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

/// Fields whose contents are clients' or operators', or samples: a 0 in them says something.
const AS_THEY_ARE: [&str; 6] = [
    "arguments",
    "client_properties",
    "samples",
    "asked",
    "before",
    "after",
];

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
                match (into.get_mut(name), value) {
                    (Some(Value::Array(sums)), Value::Array(samples)) if name == "samples" => {
                        history::add_samples(sums, samples);
                    }
                    (Some(sum), value) => add(sum, value),
                    (None, value) => drop(into.insert(name.clone(), value.clone())),
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
