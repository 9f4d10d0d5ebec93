//! The document of the HTTP API (`/api/openapi.json`), held against what a real node answers.

use crate::common::{Folder, Node, serve};
use crate::document::{differences, schema_of};
use serde_json::Value;

fn body_of(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Declares something of each kind.
fn declare(node: &Node) {
    for (method, path, body) in [
        (
            "PUT",
            "/api/vhosts/shop",
            r#"{"description": "d", "tags": "a,b"}"#,
        ),
        (
            "PUT",
            "/api/users/anna",
            r#"{"password": "p", "tags": "monitoring"}"#,
        ),
        (
            "PUT",
            "/api/permissions/%2f/anna",
            r#"{"configure": ".*", "write": ".*", "read": ".*"}"#,
        ),
        (
            "PUT",
            "/api/topic-permissions/%2f/anna",
            r#"{"exchange": "amq.topic", "write": ".*", "read": ".*"}"#,
        ),
        (
            "PUT",
            "/api/vhost-limits/shop/max-queues",
            r#"{"value": 7}"#,
        ),
        (
            "PUT",
            "/api/user-limits/anna/max-channels",
            r#"{"value": 7}"#,
        ),
        (
            "PUT",
            "/api/policies/%2f/short",
            r#"{"pattern": "^q", "definition": {"max-length": 9}}"#,
        ),
        (
            "PUT",
            "/api/operator-policies/%2f/least",
            r#"{"pattern": "^q", "apply-to": "queues", "definition": {"max-length": 8}}"#,
        ),
        ("PUT", "/api/global-parameters/team", r#"{"value": "blue"}"#),
        ("PUT", "/api/exchanges/%2f/x", r#"{"type": "topic"}"#),
        ("PUT", "/api/queues/%2f/q", r#"{"durable": true}"#),
        (
            "PUT",
            "/api/queues/%2f/s",
            r#"{"arguments": {"x-queue-type": "stream"}}"#,
        ),
        (
            "POST",
            "/api/bindings/%2f/e/x/q/q",
            r#"{"routing_key": "k"}"#,
        ),
    ] {
        let answer = node.http(method, path, body);
        assert!(
            answer.starts_with("HTTP/1.1 20"),
            "{method} {path}: {answer}"
        );
    }
    node.publish("%2f", "q", "x");
}

#[test]
fn every_field_that_a_node_answers_with_is_in_the_document() {
    let folder = Folder::new("document");
    let data = folder.data();
    let node = Node::start(serve(&data).args(["--http", "none"]), &data);
    declare(&node);
    let document = body_of(&node.http("GET", "/api/openapi.json", ""));
    let overview = body_of(&node.http("GET", "/api/overview", ""));
    let name = overview["node"]
        .as_str()
        .expect("a name")
        .replace('@', "%40");
    let of_node = |path: &str| path.replace("{node}", &name);
    let over_time = "?msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5";
    let mut wrong = Vec::new();
    for (path, asked) in [
        ("/api/overview", format!("/api/overview{over_time}")),
        ("/api/nodes", "/api/nodes".to_owned()),
        (
            "/api/nodes/{node}",
            of_node("/api/nodes/{node}?memory=true"),
        ),
        (
            "/api/nodes/{node}/memory",
            of_node("/api/nodes/{node}/memory"),
        ),
        ("/api/queues", format!("/api/queues{over_time}")),
        ("/api/queues/{vhost}/{name}", "/api/queues/%2f/q".to_owned()),
        ("/api/queues/{vhost}/{name}", "/api/queues/%2f/s".to_owned()),
        ("/api/exchanges", "/api/exchanges".to_owned()),
        ("/api/bindings", "/api/bindings".to_owned()),
        ("/api/vhosts", format!("/api/vhosts{over_time}")),
        ("/api/users", "/api/users".to_owned()),
        ("/api/whoami", "/api/whoami".to_owned()),
        ("/api/permissions", "/api/permissions".to_owned()),
        (
            "/api/topic-permissions",
            "/api/topic-permissions".to_owned(),
        ),
        ("/api/vhost-limits", "/api/vhost-limits".to_owned()),
        ("/api/user-limits", "/api/user-limits".to_owned()),
        ("/api/policies", "/api/policies".to_owned()),
        (
            "/api/operator-policies",
            "/api/operator-policies".to_owned(),
        ),
        ("/api/parameters", "/api/parameters".to_owned()),
        (
            "/api/global-parameters",
            "/api/global-parameters".to_owned(),
        ),
        ("/api/definitions", "/api/definitions".to_owned()),
        ("/api/feature-flags", "/api/feature-flags".to_owned()),
        ("/api/leveret/changes", "/api/leveret/changes".to_owned()),
        ("/api/leveret/disk", "/api/leveret/disk".to_owned()),
        ("/api/leveret/alarms", "/api/leveret/alarms".to_owned()),
        (
            "/api/leveret/nodes/{node}/impact",
            of_node("/api/leveret/nodes/{node}/impact"),
        ),
        (
            "/api/leveret/queues/{vhost}/{name}/growth",
            "/api/leveret/queues/%2f/q/growth".to_owned(),
        ),
        (
            "/api/leveret/queues/{vhost}/{name}/search",
            "/api/leveret/queues/%2f/q/search?key=q".to_owned(),
        ),
        (
            "/api/leveret/exchanges/{vhost}/{name}/route",
            "/api/leveret/exchanges/%2f/x/route?routing_key=k".to_owned(),
        ),
    ] {
        let schema = schema_of(&document, path);
        assert!(
            schema != &Value::Null && *schema != serde_json::json!({}),
            "{path}"
        );
        let answer = body_of(&node.http("GET", &asked, ""));
        wrong.extend(differences(&document, schema, &answer, path));
    }
    assert!(
        wrong.is_empty(),
        "the document is wrong:\n{}",
        wrong.join("\n")
    );
}
