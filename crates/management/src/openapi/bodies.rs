//! What the API reads of the bodies of requests, from one table of text (`bodies.txt`), as OpenAPI
//! has it.
//!
//! Whatever a handler reads of a body is held against the table wherever assertions are checked: a
//! field that is not there is a failure.

use crate::schemas::typed;
use serde_json::{Map, Value, json};

const TABLE: &str = include_str!("bodies.txt");

/// A field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    name: &'static str,
    is_required: bool,
    kind: &'static str,
    /// What it says, for people.
    says: &'static str,
}

impl Field {
    fn of(line: &'static str) -> Self {
        let mut words = line.trim_start().splitn(3, ' ');
        let name = words.next().unwrap_or_default();
        let required = name.strip_suffix('!');
        Self {
            name: required.unwrap_or(name),
            is_required: required.is_some(),
            kind: words.next().unwrap_or("any"),
            says: words.next().unwrap_or_default(),
        }
    }
}

/// The fields that a method of a resource reads; none where the table has no row of it.
fn fields(method: &str, pattern: &str) -> Option<Vec<Field>> {
    let lines = TABLE.lines().map(str::trim_end);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_row = |line: &&str| {
        let mut words = line.split(' ');
        words.next() == Some(method) && words.any(|path| path == pattern)
    };
    lines.find(|line| is_row(line))?;
    let below = lines.take_while(|line| line.starts_with("  "));
    Some(below.map(Field::of).collect())
}

/// Whether a method of a resource is described to read this field.
pub(crate) fn is_known((method, pattern): (&str, &str), name: &str) -> bool {
    let known = fields(method, pattern);
    known.is_some_and(|known| known.iter().any(|field| field.name == name))
}

/// The body of a method of a resource as OpenAPI has it; none where no body is read.
pub(crate) fn described(method: &str, pattern: &str) -> Option<Value> {
    let fields = fields(method, pattern).filter(|fields| !fields.is_empty())?;
    let properties = fields.iter().map(|field| {
        let mut schema = typed(field.kind);
        schema["description"] = field.says.into();
        (field.name.to_owned(), schema)
    });
    let properties: Map<String, Value> = properties.collect();
    let required = fields.iter().filter(|field| field.is_required);
    let required: Vec<_> = required.map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Some(json!({
        "required": !required.is_empty(),
        "content": {"application/json": {"schema": schema}},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_method_that_takes_a_body_is_described_and_nothing_else() {
        let mut described = 0;
        for route in ROUTES {
            for method in route.methods {
                let row = fields(method.name, route.path);
                if matches!(method.name, "PUT" | "POST") {
                    assert!(row.is_some(), "{} {} has no row", method.name, route.path);
                }
                described += usize::from(row.is_some());
                for field in row.into_iter().flatten() {
                    let known = ["text", "number", "flag", "map", "any", "[text]", "[map]"];
                    assert!(known.contains(&field.kind), "{field:?}");
                    assert!(!field.says.is_empty(), "{field:?} says nothing");
                }
            }
        }
        let rows = TABLE
            .lines()
            .filter(|line| line.starts_with(char::is_alphabetic));
        let paths: usize = rows.map(|row| row.split(' ').count() - 1).sum();
        assert_eq!(
            described, paths,
            "a row is of no route, or one is there twice"
        );
    }

    #[test]
    fn a_body_is_described_with_its_types_and_what_must_be_there() {
        let get = described("POST", "/api/queues/{vhost}/{}/get").expect("a body");
        let schema = &get["content"]["application/json"]["schema"];
        assert_eq!(schema["required"], json!(["ackmode"]));
        assert_eq!(schema["properties"]["count"]["type"], "number");
        assert_eq!(described("POST", "/api/leveret/stop"), None);
        assert_eq!(described("GET", "/api/overview"), None);
    }
}
