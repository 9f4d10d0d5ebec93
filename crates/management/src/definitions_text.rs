//! The text of definitions, made item by item while it is read: arguments are the catalogue's own,
//! and no more of them is text, or a value, than is on its way.

use crate::http::chunked_body::{Pieces, write_json};
use crate::http::reply::{EntityTag, Reply, Unfinished};
use crate::priority::let_others_run;
use bytes::Bytes;
use leveret_metadata::{
    BindingDefinition, Definitions, ExchangeDefinition, PermissionDefinition, QueueDefinition,
};
use leveret_types::limits::HTTP_PIECE_BYTES;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pieces that are looked at for the entity tag in one turn of a worker. A text of no more is kept
/// while it is looked at, and not made again.
const PIECES_A_TURN: usize = 16;

/// The answer that these definitions are, with the entity tag of their text: the same definitions
/// have the same one. A long text is made twice, once for its tag, which stands before it.
pub(crate) fn reply(definitions: Definitions) -> Reply {
    let text = Text::of(definitions);
    look_on(text.clone(), text, EntityTag::default())
}

/// One turn: looks at more of the text, of which `rest` has not been looked at.
fn look_on(text: Text, mut rest: Text, mut tag: EntityTag) -> Reply {
    let is_first = rest.is_whole();
    let mut seen: Vec<Bytes> = Vec::new();
    while seen.len() < PIECES_A_TURN {
        match rest.next() {
            Some(piece) => {
                tag.add(&piece);
                seen.push(piece);
            }
            None if is_first => {
                let texts = vec![seen.concat()];
                return Reply::Tagged(Pieces::of_texts(texts), tag.text());
            }
            None => {
                let held_bytes = text.held_bytes();
                return Reply::Tagged(Pieces::new(text, held_bytes), tag.text());
            }
        }
    }
    let next = move || Ok(look_on(text, rest, tag));
    Reply::Unfinished(Unfinished::new(next))
}

/// Gives the item at a place of a list; nothing behind the last one.
type Items = fn(&Definitions, usize) -> Option<Value>;

/// The lists of definitions.
const LISTS: [(&str, Items); 10] = [
    ("bindings", |of, at| value(of.bindings.get(at))),
    ("exchanges", |of, at| value(of.exchanges.get(at))),
    ("global_parameters", |of, at| {
        value(of.global_parameters.get(at))
    }),
    ("parameters", |of, at| value(of.parameters.get(at))),
    ("permissions", |of, at| value(of.permissions.get(at))),
    ("policies", |of, at| value(of.policies.get(at))),
    ("queues", |of, at| value(of.queues.get(at))),
    ("topic_permissions", |of, at| {
        value(of.topic_permissions.get(at))
    }),
    ("users", |of, at| value(of.users.get(at))),
    ("vhosts", |of, at| value(of.vhosts.get(at))),
];

/// An item's value: the fields of its text are in the order of their names.
fn value(item: Option<&impl Serialize>) -> Option<Value> {
    let value = serde_json::to_value(item?);
    Some(value.unwrap_or_else(|error| unreachable!("an item without a form in JSON: {error}")))
}

/// A field of definitions.
#[derive(Clone)]
enum Field {
    One(Value),
    Many(Items),
}

/// The text of definitions from some place on.
#[derive(Clone)]
struct Text {
    definitions: Arc<Definitions>,
    /// In the order of their names.
    fields: Arc<Vec<(String, Field)>>,
    /// The field that is next, and the next item of it.
    field: usize,
    item: usize,
}

impl Text {
    fn of(definitions: Definitions) -> Self {
        // What is said of the whole, and which lists are there when they are empty.
        let head = Definitions {
            rabbit_version: definitions.rabbit_version.clone(),
            rabbitmq_version: definitions.rabbitmq_version.clone(),
            product_name: definitions.product_name.clone(),
            product_version: definitions.product_version.clone(),
            rabbitmq_definition_format: definitions.rabbitmq_definition_format.clone(),
            original_cluster_name: definitions.original_cluster_name.clone(),
            original_vhost_name: definitions.original_vhost_name.clone(),
            explanation: definitions.explanation.clone(),
            description: definitions.description.clone(),
            metadata: definitions.metadata.clone(),
            limits: definitions.limits.clone(),
            ..Definitions::default()
        };
        let mut fields: BTreeMap<String, Field> = BTreeMap::new();
        if let Some(Value::Object(head)) = value(Some(&head)) {
            let ones = head.into_iter();
            fields.extend(ones.map(|(name, value)| (name, Field::One(value))));
        }
        for (name, items) in LISTS {
            if fields.contains_key(name) || items(&definitions, 0).is_some() {
                fields.insert(name.to_owned(), Field::Many(items));
            }
        }
        Self {
            definitions: Arc::new(definitions),
            fields: Arc::new(fields.into_iter().collect()),
            field: 0,
            item: 0,
        }
    }

    /// Whether nothing of it has been made.
    const fn is_whole(&self) -> bool {
        self.field == 0 && self.item == 0
    }

    /// Bytes that it holds: those of the definitions but for their arguments, which are the
    /// catalogue's.
    fn held_bytes(&self) -> usize {
        let of = &*self.definitions;
        let binding = |of: &BindingDefinition| {
            let ends = of.source.len() + of.destination.len() + of.destination_type.len();
            size_of::<BindingDefinition>() + of.vhost.len() + ends + of.routing_key.len()
        };
        let queue = |of: &QueueDefinition| {
            let kind = of.kind.as_ref().map_or(0, String::len);
            size_of::<QueueDefinition>() + of.vhost.len() + of.name.len() + kind
        };
        let exchange = |of: &ExchangeDefinition| {
            size_of::<ExchangeDefinition>() + of.vhost.len() + of.name.len() + of.kind.len()
        };
        let permission = |of: &PermissionDefinition| {
            let patterns = of.configure.len() + of.write.len() + of.read.len();
            size_of::<PermissionDefinition>() + of.user.len() + of.vhost.len() + patterns
        };
        let bindings: usize = of.bindings.iter().map(binding).sum();
        let queues: usize = of.queues.iter().map(queue).sum();
        let exchanges: usize = of.exchanges.iter().map(exchange).sum();
        let permissions: usize = of.permissions.iter().map(permission).sum();
        bindings + queues + exchanges + permissions
    }

    /// Writes what comes next: a field, or an item of a list. False where there is no more.
    fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let Some((name, field)) = self.fields.get(self.field) else {
            if self.field == self.fields.len() {
                out.push(b'}');
                self.field += 1;
                return true;
            }
            return false;
        };
        let begin = |out: &mut Vec<u8>| {
            out.push(if self.field == 0 { b'{' } else { b',' });
            write_json(out, name);
            out.push(b':');
        };
        match field {
            Field::One(value) => {
                begin(out);
                write_json(out, value);
                self.field += 1;
            }
            Field::Many(items) => {
                let item = items(&self.definitions, self.item);
                if self.item == 0 {
                    begin(out);
                    out.push(b'[');
                } else if item.is_some() {
                    out.push(b',');
                }
                match item {
                    Some(item) => {
                        let_others_run(self.item);
                        write_json(out, &item);
                        self.item += 1;
                    }
                    None => {
                        out.push(b']');
                        (self.field, self.item) = (self.field + 1, 0);
                    }
                }
            }
        }
        true
    }
}

impl Iterator for Text {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::with_capacity(HTTP_PIECE_BYTES);
        while out.len() < HTTP_PIECE_BYTES && self.write_next(&mut out) {}
        (!out.is_empty()).then(|| Bytes::from(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_metadata::{Json, VhostMetadata};
    use serde_json::json;

    /// Definitions with something in each list, and so many bindings.
    fn definitions(bindings: usize) -> Definitions {
        let binding = |number| {
            json!({"source": "amq.topic", "vhost": "/", "destination": "q\"1\"",
                   "destination_type": "queue", "routing_key": format!("{number}.\u{e9}"),
                   "arguments": {"z": [1, {"y": null}], "a": 0.5, "k": number}})
        };
        let bindings: Vec<Value> = (0..bindings).map(binding).collect();
        let all = json!({
            "rabbit_version": "4.0.0", "rabbitmq_definition_format": "cluster",
            "users": [{"name": "u", "password_hash": "h", "tags": ["administrator"], "limits": {}}],
            "vhosts": [{"name": "/", "tags": []}, {"name": "v", "description": "d", "tags": ["a"]}],
            "permissions": [{"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""}],
            "topic_permissions":
                [{"user": "u", "vhost": "/", "exchange": "x", "write": "", "read": ""}],
            "parameters": [{"value": {}, "vhost": "/", "component": "c", "name": "p"}],
            "global_parameters": [{"name": "g", "value": 7}],
            "policies": [{"vhost": "/", "name": "p", "pattern": "", "apply-to": "all",
                          "definition": {"expires": 1}, "priority": 0}],
            "queues": [{"name": "q", "vhost": "/", "type": "classic", "durable": true}],
            "exchanges": [{"name": "x", "vhost": "/", "type": "topic", "durable": true}],
            "bindings": bindings,
        });
        serde_json::from_value(all).expect("definitions")
    }

    fn tagged(reply: Reply) -> (Vec<u8>, String, usize) {
        let mut turns = 1;
        let mut reply = reply;
        while let Reply::Unfinished(rest) = reply {
            turns += 1;
            reply = rest.go_on().expect("a text");
        }
        let Reply::Tagged(pieces, tag) = reply else {
            panic!("{reply:?}");
        };
        (pieces.flatten().collect(), tag, turns)
    }

    #[test]
    fn the_text_is_that_of_the_value_of_all_whatever_is_in_it() {
        let bare = Definitions {
            rabbitmq_definition_format: Some("single_virtual_host".to_owned()),
            description: Some("d".to_owned()),
            metadata: Some(VhostMetadata::default()),
            limits: Some(Json::default()),
            ..Definitions::default()
        };
        let all = [
            bare,
            Definitions::default(),
            definitions(0),
            definitions(1),
            definitions(20_000),
        ];
        for definitions in all {
            let value = serde_json::to_value(&definitions).expect("a value");
            let (text, tag, _) = tagged(reply(definitions));
            assert_eq!(String::from_utf8_lossy(&text), value.to_string());
            let Reply::Tagged(_, expected) = Reply::tagged(&value) else {
                panic!("a value has a tag");
            };
            assert_eq!(tag, expected);
        }
    }

    #[test]
    fn a_long_text_is_looked_at_in_bounded_turns_and_made_in_bounded_pieces() {
        let (text, _, turns) = tagged(reply(definitions(20_000)));
        let pieces = text.len() / HTTP_PIECE_BYTES;
        assert!(
            pieces > 2 * PIECES_A_TURN,
            "{pieces} pieces are no long text"
        );
        assert!(
            turns >= pieces / PIECES_A_TURN,
            "{turns} turns for {pieces} pieces"
        );
        let longest = Text::of(definitions(20_000)).map(|piece| piece.len()).max();
        assert!(longest < Some(HTTP_PIECE_BYTES + 1_024), "{longest:?}");
    }
}
