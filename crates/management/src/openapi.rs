//! The API's own description, made from the table of routes: a document of OpenAPI for tools, and a
//! page for people.

pub(crate) mod bodies;
mod summaries;

use crate::access::Access;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::{Call, Method, Route};
use crate::live::subject::LIVE_PATH;
use crate::overview::VERSION;
use crate::routes::ROUTES;
use crate::{query_parameters, schemas};
use serde_json::{Map, Value, json};
use std::fmt::Write;

type Answer = Result<Reply, ApiError>;

/// What a user must have for a method, in words.
const fn needs(access: Access) -> &'static str {
    match access {
        Access::Anyone => "no login",
        Access::Management => "any management tag",
        Access::Visible => "permissions in the virtual host, or monitoring",
        Access::Member => "permissions in the virtual host, or administrator",
        Access::Policymaker => "policymaker, with permissions in the virtual host",
        Access::Monitoring => "monitoring",
        Access::Administrator => "administrator",
    }
}

/// The path as OpenAPI writes it, with the names of its parameters: each is called after the
/// segment before it (`/users/{}` has `{user}`).
fn templated(path: &str) -> (String, Vec<String>) {
    let (mut out, mut names, mut before) = (String::new(), Vec::<String>::new(), "");
    for part in path.split('/').skip(1) {
        out.push('/');
        if !part.starts_with('{') {
            out.push_str(part);
            before = part;
            continue;
        }
        let singular = before.strip_suffix('s').unwrap_or(before);
        let wanted = match part {
            "{}" if before == "e" && names.iter().any(|name| name == "exchange") => "destination",
            "{}" if before == "e" => "exchange",
            "{}" if before == "q" => "queue",
            "{}" => singular,
            _ => "vhost",
        };
        let taken = |name: &str| names.iter().any(|known| known == name);
        let name = match taken(wanted) {
            false if !wanted.is_empty() => wanted.replace('-', "_"),
            _ if !taken("name") => "name".to_owned(),
            _ => format!("part{}", names.len() + 1),
        };
        let _ = write!(out, "{{{name}}}");
        names.push(name);
        before = "";
    }
    (out, names)
}

/// A name for an operation that no other has: `get_queues_vhost_name`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.trim_start_matches("/api").replace(['-', '.'], "_");
    let words = words.split('/').filter(|word| !word.is_empty());
    let words = words.map(|word| word.trim_matches(['{', '}']));
    let mut id = method.to_ascii_lowercase();
    for word in words {
        id.push('_');
        id.push_str(word);
    }
    id
}

/// What an operation is about: the first segment of its path, of Leveret's own the second.
fn tag(path: &str) -> &str {
    let mut words = path.split('/').skip(2).filter(|word| *word != "leveret");
    words.next().unwrap_or("api")
}

fn operation(pattern: &str, method: &Method, (path, names): (&str, &[String])) -> Value {
    let in_path = names.iter().map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    );
    let parameters = in_path.chain(query_parameters::described(method.name, pattern));
    let good = match method.name {
        "GET" => "200",
        "PUT" | "POST" => "2XX",
        _ => "204",
    };
    let mut json = json!({
        "operationId": operation_id(method.name, path),
        "tags": [tag(pattern)],
        "summary": summaries::of(method.name, pattern).unwrap_or_default(),
        "description": format!("Needs: {}", needs(method.access)),
        "parameters": parameters.collect::<Value>(),
        "responses": {
            good: {"description": "done"},
            "4XX": {"description": "refused", "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Error"},
            }}},
        },
    });
    if method.name == "GET" {
        let (kind, schema) = match pattern {
            LIVE_PATH => ("text/event-stream", Some(json!({"type": "string"}))),
            _ => ("application/json", schemas::of(pattern)),
        };
        let schema = schema.unwrap_or_else(|| json!({}));
        json["responses"]["200"]["content"] = json!({kind: {"schema": schema}});
    }
    if let Some(body) = bodies::described(method.name, pattern) {
        json["requestBody"] = body;
    }
    if method.access != Access::Anyone {
        json["security"] = json!([{"basic": []}]);
    }
    json
}

fn document_of(routes: &[Route]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let (path, names) = templated(route.path);
        let operations = route.methods.iter().map(|method| {
            let name = method.name.to_ascii_lowercase();
            (name, operation(route.path, method, (&path, &names)))
        });
        let operations = Value::Object(operations.collect());
        paths.insert(path, operations);
    }
    let error = json!({
        "type": "object",
        "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
    });
    let mut shapes = schemas::all();
    shapes.insert("Error".to_owned(), error);
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Leveret HTTP API", "version": VERSION},
        "servers": [{"url": ".."}],
        "paths": paths,
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": shapes,
        },
    })
}

/// `GET /api/openapi.json`
pub fn document(_: &Call<'_>) -> Answer {
    Ok(Reply::tagged(&document_of(ROUTES)))
}

/// `GET /api`
pub fn moved(call: &Call<'_>) -> Answer {
    Ok(Reply::Moved(format!("{}/api/index.html", call.app.prefix)))
}

/// `GET /api/index.html`
pub fn page(_: &Call<'_>) -> Answer {
    let mut rows = String::new();
    for route in ROUTES {
        let (path, _) = templated(route.path);
        for method in route.methods {
            // Writing to a string cannot fail; nothing of a client stands in it.
            let _ = writeln!(
                rows,
                "<tr><td>{}<td><code>{path}</code><td>{}<td>{}",
                method.name,
                summaries::of(method.name, route.path).unwrap_or_default(),
                needs(method.access)
            );
        }
    }
    Ok(Reply::Html(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Leveret HTTP API</title>\n\
         <link rel=\"stylesheet\" href=\"../style.css\">\n<main><h1>Leveret HTTP API</h1>\n\
         <p>The same for tools: <a href=\"openapi.json\">openapi.json</a>.\n\
         <table><tr><th>method<th>path<th>what it does<th>needs\n{rows}</table></main></html>\n"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn parameters_of_a_path_have_names_of_their_own() {
        for (path, expected) in [
            ("/api/users/{}/permissions", "/api/users/{user}/permissions"),
            (
                "/api/bindings/{vhost}/e/{}/e/{}/{}",
                "/api/bindings/{vhost}/e/{exchange}/e/{destination}/{name}",
            ),
            ("/api/vhosts/{vhost?}", "/api/vhosts/{vhost}"),
        ] {
            assert_eq!(templated(path).0, expected);
        }
        for route in ROUTES {
            let (path, names) = templated(route.path);
            let distinct: HashSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "{path}");
        }
    }

    #[test]
    fn each_operation_has_a_name_of_its_own_a_tag_and_says_what_it_does() {
        let document = document_of(ROUTES);
        let mut ids = HashSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let id = operation["operationId"].as_str().expect("a name");
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                assert!(id.chars().all(is_name), "{id}");
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
                assert_ne!(operation["summary"], "", "{method} {path}");
                assert_ne!(operation["tags"][0], "", "{method} {path}");
            }
        }
        assert!(ids.contains("get_queues_vhost_name"));
        let purge = &document["paths"]["/api/queues/{vhost}/{name}/contents"]["delete"];
        assert_eq!(purge["tags"], json!(["queues"]));
        assert_eq!(purge["summary"], "Deletes the ready messages of a queue.");
    }

    #[test]
    fn the_document_has_every_route_and_method() {
        let document = document_of(ROUTES);
        let paths = document["paths"].as_object().expect("paths");
        assert_eq!(paths.len(), ROUTES.len());
        let methods = |path: &Value| path.as_object().map_or(0, Map::len);
        let described: usize = paths.values().map(methods).sum();
        let there: usize = ROUTES.iter().map(|route| route.methods.len()).sum();
        assert_eq!(described, there);
    }
}
