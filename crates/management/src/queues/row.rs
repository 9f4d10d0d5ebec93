//! Rows of queues. Most of what is said of most queues is 0 or nothing: a row is held without
//! that, and where a list is written, the text of what is missing in it is put behind.

use super::told::no_stats;
use crate::listing::Row;
use crate::pieces::write_json;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// A field of a queue in which nothing is and nothing happened.
struct Zero {
    name: String,
    value: Value,
    /// The field behind others in an object: `,"name":value`.
    text: Vec<u8>,
}

/// All of them, but for those that each row has of its own.
static ZEROS: LazyLock<Vec<Zero>> = LazyLock::new(|| {
    let Value::Object(fields) = no_stats() else {
        return Vec::new();
    };
    let fields = fields.into_iter();
    let zeros = fields.filter(|(name, _)| name != "id" && name != "state");
    zeros
        .map(|(name, value)| {
            let mut text = b",".to_vec();
            write_json(&mut text, &name.as_str().into());
            text.push(b':');
            write_json(&mut text, &value);
            Zero { name, value, text }
        })
        .collect()
});

/// Fields that quorum queues alone have.
pub(super) const OF_QUORUM: [&str; 2] = ["messages_dlx", "message_bytes_dlx"];

/// Which fields stand for 0, or nothing, where a row lacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// None: the row is as it is, as nobody tells of the queue.
    Nothing,
    /// Those of a quorum queue.
    Quorum,
    /// Those of any other queue.
    Others,
}

impl Lacks {
    fn zeros(self) -> impl Iterator<Item = &'static Zero> {
        let zeros: &[Zero] = if self == Self::Nothing { &[] } else { &ZEROS };
        let is_meant =
            move |zero: &&Zero| self == Self::Quorum || !OF_QUORUM.contains(&zero.name.as_str());
        zeros.iter().filter(is_meant)
    }
}

/// The row of a queue in lists.
#[derive(Debug)]
pub(crate) struct QueueRow {
    /// What it has; an object.
    pub fields: Value,
    /// What it lacks.
    pub lacks: Lacks,
}

impl QueueRow {
    /// The fields that are not there.
    fn missing(&self) -> impl Iterator<Item = &'static Zero> {
        // Both are in the order of their names, so that one pass tells what is missing.
        let fields = self.fields.as_object().into_iter().flat_map(Map::keys);
        let mut names = fields.peekable();
        self.lacks.zeros().filter(move |zero| {
            while names.next_if(|name| **name < zero.name).is_some() {}
            names.peek() != Some(&&zero.name)
        })
    }
}

impl Row for QueueRow {
    fn of(fields: Value) -> Self {
        let lacks = Lacks::Nothing;
        Self { fields, lacks }
    }

    fn whole(mut self) -> Value {
        let missing: Vec<&Zero> = self.missing().collect();
        if let Some(fields) = self.fields.as_object_mut() {
            let missing = missing.into_iter();
            fields.extend(missing.map(|zero| (zero.name.clone(), zero.value.clone())));
        }
        self.fields
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_json(out, &self.fields);
        // A row has a name at least, so that what follows is behind a field.
        if self.lacks != Lacks::Nothing && out.pop_if(|last| *last == b'}').is_some() {
            for zero in self.missing() {
                out.extend_from_slice(&zero.text);
            }
            out.push(b'}');
        }
    }
}

/// What a queue is said to have where nothing else is told.
pub(super) fn zero(field: &str) -> &'static Value {
    let zero = ZEROS.iter().find(|zero| zero.name == field);
    zero.map_or(&Value::Null, |zero| &zero.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_written_with_all_that_it_is_held_without() {
        let all = no_stats().as_object().map_or(0, serde_json::Map::len);
        for (lacks, added) in [
            (Lacks::Nothing, 0),
            (Lacks::Quorum, all - 2),
            (Lacks::Others, all - 2 - OF_QUORUM.len()),
        ] {
            let fields = json!({"name": "a \"name\"", "state": "running"});
            let row = QueueRow { fields, lacks };
            let mut text = Vec::new();
            row.write(&mut text);
            let written: Value = serde_json::from_slice(&text).expect("JSON");
            let whole = row.whole();
            assert_eq!(written, whole, "{lacks:?}");
            let count = whole.as_object().map_or(0, serde_json::Map::len);
            assert_eq!(count, 2 + added, "{lacks:?}");
        }
    }

    #[test]
    fn what_a_row_has_is_not_written_again() {
        let fields = json!({"name": "q", "state": "running", "messages": 7, "memory": 3});
        let lacks = Lacks::Others;
        let mut text = Vec::new();
        QueueRow { fields, lacks }.write(&mut text);
        let text = String::from_utf8(text).expect("text");
        assert_eq!(text.matches("\"messages\":").count(), 1, "{text}");
        assert!(text.contains("\"messages\":7"), "{text}");
        assert!(text.contains("\"messages_ready\":0"), "{text}");
    }
}
