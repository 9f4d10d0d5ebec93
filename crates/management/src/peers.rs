//! What the nodes of a cluster tell each other so that each shows all: figures of the queues that a
//! node leads, its connections, how it is itself.
//!
//! A node answers with the JSON that it would show for its own part; whoever asked puts the parts
//! together. Zeros are left out on the way: most queues of a large cluster are idle.

use crate::api::Answers;
use crate::app::App;
use crate::cluster_lists::Part;
use crate::history;
use crate::question::Question;
use leveret_types::NodeId;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What the other nodes answer, each with its number; who does not answer in time is left out.
pub fn ask(app: &App, question: &Question) -> Vec<(NodeId, Value)> {
    let answers = app.node().ask_peers(question);
    // One that makes no sense is of another version, and as good as none.
    let parse =
        |(node, bytes): (NodeId, Vec<u8>)| Some((node, serde_json::from_slice(&bytes).ok()?));
    answers.into_iter().filter_map(parse).collect()
}

/// The other nodes, as far as they answer: who has not once is not waited for again.
pub(crate) struct Peers {
    app: Arc<App>,
    /// Those that answered; none before the first question.
    answering: Option<Vec<NodeId>>,
}

impl Peers {
    pub(crate) fn of(app: &Arc<App>) -> Self {
        Self {
            app: Arc::clone(app),
            answering: None,
        }
    }

    /// What they answer, in the order of their numbers.
    pub(crate) fn ask(&mut self, question: &Question) -> Vec<(NodeId, Vec<u8>)> {
        let answers = self.begin(question);
        self.finish(answers)
    }

    /// Asks them something before the answers are wanted; none where nobody is asked.
    pub(crate) fn begin(&self, question: &Question) -> Option<Answers> {
        let asks = question.fits()
            && self
                .answering
                .as_ref()
                .is_none_or(|nodes| !nodes.is_empty());
        let only = self.answering.as_deref();
        asks.then(|| self.app.node().begin_asking(only, question))
    }

    /// What they answer to what they have been asked, in the order of their numbers.
    pub(crate) fn finish(&mut self, answers: Option<Answers>) -> Vec<(NodeId, Vec<u8>)> {
        let Some(answers) = answers else {
            return Vec::new();
        };
        let mut answers = answers();
        answers.sort_by_key(|(node, _)| *node);
        self.answering = Some(answers.iter().map(|(node, _)| *node).collect());
        answers
    }

    /// What one of them answers.
    pub(crate) fn ask_one(&mut self, node: NodeId, question: &Question) -> Option<Vec<u8>> {
        let nodes = self.answering.as_mut()?;
        let at = nodes.iter().position(|answering| *answering == node)?;
        let answer = self.app.node().ask_nodes(&[node], question).pop();
        if answer.is_none() {
            nodes.remove(at);
        }
        Some(answer?.1)
    }

    /// Their parts of a list.
    pub(crate) fn parts<K: DeserializeOwned>(
        &mut self,
        question: &Question,
    ) -> Vec<(NodeId, Part<K>)> {
        let answers = self.begin(question);
        self.parts_in(answers)
    }

    /// The same in what they answer to what they have been asked.
    pub(crate) fn parts_in<K: DeserializeOwned>(
        &mut self,
        answers: Option<Answers>,
    ) -> Vec<(NodeId, Part<K>)> {
        // One that makes no sense is of another version, and as good as none.
        let part = |(node, bytes): (NodeId, Vec<u8>)| {
            let part = serde_json::from_slice(&bytes).ok()?;
            Some((node, part))
        };
        self.finish(answers).into_iter().filter_map(part).collect()
    }
}

/// The rows of all answers to a question that is answered with a list.
pub fn rows(app: &App, question: &Question) -> Vec<Value> {
    let of_one = |(_, answer): (NodeId, Value)| match answer {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    ask(app, question).into_iter().flat_map(of_one).collect()
}

/// Puts the fields of one object into another, deeply.
pub(crate) fn merge_deeply(into: &mut Value, from: Value) {
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
