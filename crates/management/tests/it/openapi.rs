//! The API's document, held against what a faked node answers over real HTTP on loopback.

use crate::api::{Api, start};
use crate::document::{differences, schema_of};
use crate::fake::Group;
use leveret_management::api::{Got, HeldAt, Holder, LookedAt, UnsettledMessage};
use leveret_types::{FieldTable, NodeId};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// A node that has something of everything.
fn full() -> Api {
    let api = start();
    api.node.has_stream.store(true, Relaxed);
    *api.node.group.lock().expect("the group") = Some(Group {
        leader: Some(NodeId(1)),
        ..Group::default()
    });
    let message = LookedAt {
        fingerprint: 7,
        taken_ms: 1_000,
        message: Got {
            exchange: String::new(),
            routing_key: "q".to_owned(),
            redelivered: false,
            remaining: 0,
            properties: FieldTable::new(),
            payload: b"x".to_vec(),
            body_bytes: 1,
        },
    };
    api.node
        .waiting
        .lock()
        .expect("messages")
        .push(message.clone());
    let at = HeldAt(1, 0, 7);
    *api.node.held.lock().expect("held") = Some(vec![UnsettledMessage {
        at,
        since_ms: Some(2_000),
        message: Some(message),
    }]);
    *api.node.holders.lock().expect("holders") = vec![Holder {
        at,
        ..Holder::default()
    }];
    api
}

/// A path of the document with names that the faked node has.
fn filled(path: &str) -> String {
    let of_stream = path.contains("/stream");
    let queue = if of_stream { "s" } else { "q" };
    let names = [
        ("{vhost}", "%2F"),
        ("{queue}", queue),
        ("{stream}", "s"),
        ("{exchange}", "x"),
        ("{destination}", "y"),
        ("{user}", "management"),
        ("{node}", "leveret%40burrow"),
        ("{permission}", "management"),
        ("{topic_permission}", "management"),
        ("{policy}", "ttl"),
        ("{component}", "c"),
    ];
    let path = names
        .iter()
        .fold(path.to_owned(), |path, (name, is)| path.replace(name, is));
    path.replace("{name}", queue)
}

/// The GETs of the document that the node answers with JSON, each with its description.
fn answered(api: &Api, document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut found = Vec::new();
    for (path, methods) in paths {
        let live = path == "/api/leveret/live";
        if methods.get("get").is_none() || live {
            continue;
        }
        let asked = filled(path);
        let answer = api.admin("GET", &asked, "");
        if answer.status == 200 && answer.head.contains("application/json") {
            found.push((path.clone(), asked, answer.json()));
        }
    }
    assert!(found.len() > 100, "{}", found.len());
    found
}

fn has_parameter(document: &Value, path: &str, name: &str) -> bool {
    let parameters = document["paths"][path]["get"]["parameters"].as_array();
    let mut parameters = parameters.expect("parameters").iter();
    parameters.any(|parameter| parameter["name"] == name && parameter["in"] == "query")
}

#[test]
fn the_document_says_which_resources_have_pages_columns_and_figures_over_time() {
    let api = full();
    let document = api.get("/api/openapi.json");
    let mut wrong = Vec::new();
    for (path, asked, whole) in answered(&api, &document) {
        let status = |query: &str| api.admin("GET", &format!("{asked}?{query}"), "").status;
        for (name, query) in [
            ("page", "page=0"),
            ("msg_rates_age", "msg_rates_age=0&msg_rates_incr=1"),
        ] {
            let reads = status(query) == 400;
            if reads != has_parameter(&document, &path, name) {
                wrong.push(format!("{path}: {name}: {reads}"));
            }
        }
        let rows = |value: &Value| {
            value
                .as_array()
                .map_or(usize::from(value.is_object()), Vec::len)
        };
        let picked = api
            .admin("GET", &format!("{asked}?columns=no_such_field"), "")
            .json();
        let is_empty = |row: &Value| *row == json!({});
        let reads = match picked.as_array() {
            Some(picked) => picked.iter().all(is_empty),
            None => is_empty(&picked),
        };
        // Of an empty list nobody knows.
        if rows(&whole) > 0
            && whole != json!({})
            && reads != has_parameter(&document, &path, "columns")
        {
            wrong.push(format!("{path}: columns: {reads}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "the document is wrong:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_document_has_every_field_of_every_answer() {
    let api = full();
    let document = api.get("/api/openapi.json");
    let mut wrong = Vec::new();
    for (path, asked, whole) in answered(&api, &document) {
        let schema = schema_of(&document, &path);
        wrong.extend(differences(&document, schema, &whole, &path));
        if has_parameter(&document, &path, "page") {
            let page = api.get(&format!("{asked}?page=1"));
            wrong.extend(differences(&document, schema, &page, &path));
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(
        wrong.is_empty(),
        "the document is wrong:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_main_resources_have_shapes_of_their_own() {
    let document = start().get("/api/openapi.json");
    for (path, shape) in [
        ("/api/overview", "Overview"),
        ("/api/nodes", "Node"),
        ("/api/queues/{vhost}/{name}", "Queue"),
        ("/api/exchanges", "Exchange"),
        ("/api/bindings", "Binding"),
        ("/api/connections", "Connection"),
        ("/api/channels", "Channel"),
        ("/api/consumers", "Consumer"),
        ("/api/users", "User"),
        ("/api/vhosts", "Vhost"),
        ("/api/permissions", "Permission"),
        ("/api/policies", "Policy"),
        ("/api/parameters", "Parameter"),
    ] {
        let schema = schema_of(&document, path);
        let named = format!("#/components/schemas/{shape}");
        assert!(schema.to_string().contains(&named), "{path}: {schema}");
        let shape = &document["components"]["schemas"][shape];
        assert!(
            shape["properties"]
                .as_object()
                .is_some_and(|all| all.len() > 2)
        );
    }
}
