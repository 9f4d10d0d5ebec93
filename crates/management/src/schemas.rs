//! The shapes of the API's answers, from one table of text (`schemas.txt`), as OpenAPI has them.
//!
//! Tests hold answers against the table: a field that an answer has and the table has not is a
//! failure.

use crate::query_parameters::is_list;
use serde_json::{Map, Value, json};

/// A line without an indent names a shape and the paths that answer with it, or with a list of it
/// (a path with `[]` behind it: a list that has no pages); those below it are its fields with their
/// types: `text`, `number`, `flag`, `map` (an object of any fields), `any`, another shape, `[...]`
/// of a list; `?` where it may be null.
const TABLE: &str = include_str!("schemas.txt");

/// Behind the path of a list that has no pages.
const WITHOUT_PAGES: &str = "[]";

fn lines() -> impl Iterator<Item = &'static str> {
    let lines = TABLE.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// What the table calls a type, as OpenAPI has it.
pub(crate) fn typed(text: &str) -> Value {
    if let Some(some) = text.strip_suffix('?') {
        let some = typed(some);
        return match some.get("$ref") {
            Some(_) => json!({"nullable": true, "allOf": [some]}),
            None => with(some, "nullable", true),
        };
    }
    let within = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    match (within, text) {
        (Some(item), _) => json!({"type": "array", "items": typed(item)}),
        (None, "text") => json!({"type": "string"}),
        (None, "number") => json!({"type": "number"}),
        (None, "flag") => json!({"type": "boolean"}),
        (None, "map") => json!({"type": "object", "additionalProperties": true}),
        (None, "any") => json!({}),
        (None, shape) => json!({"$ref": format!("#/components/schemas/{shape}")}),
    }
}

fn with(mut value: Value, name: &str, of: impl Into<Value>) -> Value {
    value[name] = of.into();
    value
}

/// All shapes, by name.
pub(crate) fn all() -> Map<String, Value> {
    let mut shapes = Map::new();
    let mut name = "";
    for line in lines() {
        match line.strip_prefix("  ") {
            None => {
                name = line.split_whitespace().next().unwrap_or_default();
                let shape = json!({"type": "object", "properties": {}});
                shapes.insert(name.to_owned(), shape);
            }
            Some(field) => {
                // Names may have spaces in them, types have none.
                let (field, kind) = field.rsplit_once(' ').unwrap_or((field, "any"));
                shapes[name]["properties"][field] = typed(kind);
            }
        }
    }
    shapes
}

/// A page of these rows.
fn page(rows: Value) -> Value {
    let number = || json!({"type": "integer"});
    json!({
        "type": "object",
        "properties": {
            "total_count": number(),
            "filtered_count": number(),
            "item_count": number(),
            "page": number(),
            "page_size": number(),
            "page_count": number(),
            "items": rows,
        },
    })
}

/// What a path answers, if the table says it.
pub(crate) fn of(pattern: &str) -> Option<Value> {
    let shapes = lines().filter(|line| !line.starts_with(' '));
    let (shape, path) = shapes
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let shape = words.next()?;
            let path = words.find(|path| path.trim_end_matches(WITHOUT_PAGES) == pattern)?;
            Some((shape, path))
        })
        .next()?;
    let one = typed(shape);
    if path.ends_with(WITHOUT_PAGES) {
        return Some(json!({"type": "array", "items": one}));
    }
    if !is_list(pattern) {
        return Some(one);
    }
    let rows = json!({"type": "array", "items": one});
    Some(json!({"oneOf": [rows, page(rows.clone())]}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn the_table_names_paths_that_are_there_and_shapes_that_it_has() {
        let shapes = all();
        for line in lines() {
            if let Some(field) = line.strip_prefix("  ") {
                let (_, kind) = field.rsplit_once(' ').expect("a field and its type");
                let kind = kind.trim_matches(['[', ']', '?']);
                let is_simple = ["text", "number", "flag", "map", "any"].contains(&kind);
                assert!(is_simple || shapes.contains_key(kind), "{line}");
                continue;
            }
            for path in line.split_whitespace().skip(1) {
                let path = path.trim_end_matches(WITHOUT_PAGES);
                let route = ROUTES.iter().find(|route| route.path == path);
                let methods = route.map(|route| route.methods).unwrap_or_default();
                assert!(methods.iter().any(|m| m.name == "GET"), "{path}");
            }
        }
    }

    #[test]
    fn types_are_those_of_openapi() {
        for (text, expected) in [
            ("text", json!({"type": "string"})),
            ("number?", json!({"type": "number", "nullable": true})),
            (
                "[flag]",
                json!({"type": "array", "items": {"type": "boolean"}}),
            ),
            (
                "Rate?",
                json!({"nullable": true, "allOf": [{"$ref": "#/components/schemas/Rate"}]}),
            ),
            ("any", json!({})),
        ] {
            assert_eq!(typed(text), expected, "{text}");
        }
    }
}
