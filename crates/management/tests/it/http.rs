//! The API over real HTTP on loopback, on a node faked at the trait seam.

use crate::api::Api;
use crate::client::{basic, exchange};
use crate::fake::{Fake, USERS};
use leveret_management::access::Access;
use leveret_management::routes::ROUTES;
use leveret_management::{App, Endpoint, ListenAddress, Server, Service};
use leveret_types::limits::{
    HTTP_BODY_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_LOGIN_BYTES_MAX, JSON_DEPTH_MAX,
    QUEUE_SHOWN_CONSUMERS_MAX,
};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn start() -> Api {
    Api::of(Fake::default(), |app| {
        app.with_token_on_loopback()
            .with_failure_delay(std::time::Duration::ZERO)
    })
}

#[test]
fn checks_of_a_node_in_maintenance_say_so() {
    let api = start();
    for (body, says) in [
        (
            r#"{"serving":false,"maintenance":true}"#,
            "it is in maintenance",
        ),
        (r#"{"serving":false}"#, "it starts, stops"),
        (
            r#"{"serving":false,"maintenance":true}"#,
            "it is in maintenance",
        ),
        (r#"{"serving":true,"maintenance":true}"#, ""),
        (r#"{"serving":false}"#, "it starts, stops"),
    ] {
        let answer = api.admin("PUT", "/api/leveret/serving", body);
        assert_eq!(answer.status, 204, "{answer:?}");
        for check in ["is-in-service", "ready-to-serve-clients"] {
            let path = format!("/api/health/checks/{check}");
            let answer = api.admin("GET", &path, "");
            let reason = answer.json()["reason"].as_str().unwrap_or("").to_owned();
            assert!(reason.contains(says), "{body}: {answer:?}");
            let is_maintenance = says.contains("maintenance");
            assert_eq!(
                answer.json()["maintenance"] == true,
                is_maintenance,
                "{body}"
            );
        }
    }
}

#[test]
fn the_overview_has_what_exporters_and_clients_read() {
    let api = start();
    let overview = api.get("/api/overview");
    for (path, expected) in [
        ("/rabbitmq_version", json!("4.2.0")),
        ("/product_name", json!("Leveret")),
        ("/cluster_name", json!("hares")),
        ("/node", json!("leveret@burrow")),
        ("/object_totals/queues", json!(3)),
        ("/object_totals/connections", json!(2)),
        ("/queue_totals/messages", json!(16)),
        ("/queue_totals/messages_ready", json!(13)),
        ("/queue_totals/messages_unacknowledged", json!(3)),
        ("/message_stats/publish", json!(0)),
        ("/message_stats/publish_details/rate", json!(0.0)),
        ("/listeners/0/protocol", json!("amqp")),
        ("/listeners/0/port", json!(5672)),
        // Typed clients want a map.
        ("/cluster_tags", json!({"region": "eu"})),
        ("/node_tags", json!({})),
    ] {
        assert_eq!(overview.pointer(path), Some(&expected), "{path}");
    }
    let node = &api.get("/api/nodes")[0];
    assert_eq!(node["fd_total"], 1024);
    assert_eq!(node["config_files"], json!(["/etc/leveret.toml"]));
    assert_eq!(node["enabled_plugins"], json!(["rabbitmq_stream"]));
    let mechanisms = node["auth_mechanisms"].as_array().expect("a list").iter();
    let mechanisms: Vec<_> = mechanisms.map(|one| &one["name"]).collect();
    assert_eq!(mechanisms, ["PLAIN", "EXTERNAL"]);
    assert_eq!(api.get("/api/nodes/leveret%40burrow")["running"], true);
    assert_eq!(api.admin("GET", "/api/nodes/other", "").status, 404);
    let memory = api.get("/api/nodes/leveret%40burrow/memory");
    assert_eq!(memory["memory"]["reserved_unallocated"], 0);
    assert_eq!(
        memory["memory"]["total"]["rss"],
        memory["memory"]["other_system"]
    );
    assert_eq!(api.get("/api/shovels/%2F"), json!([]));
    let flags = api.get("/api/feature-flags");
    let stream = flags
        .as_array()
        .expect("a list")
        .iter()
        .find(|f| f["name"] == "stream_queue");
    assert_eq!(stream.expect("NServiceBus asks for it")["state"], "enabled");
    assert_eq!(api.get("/api/whoami")["name"], "administrator");
}

#[test]
fn queues_are_listed_paged_and_shown() {
    let api = start();
    let names = |v: &Value| -> Vec<String> {
        let items = v.as_array().expect("a list").iter();
        items
            .map(|q| format!("{} {}", q["vhost"], q["name"]).replace('"', ""))
            .collect()
    };
    assert_eq!(names(&api.get("/api/queues")), ["/ a/b", "/ q", "other q"]);
    assert_eq!(names(&api.get("/api/queues/%2F")), ["/ a/b", "/ q"]);
    let page = api.get(
        "/api/queues?page=1&page_size=1&name=%5Eq&use_regex=true&sort=messages&sort_reverse=true",
    );
    assert_eq!(page["filtered_count"], 2);
    assert_eq!(page["page_count"], 2);
    assert_eq!(names(&page["items"]), ["other q"]);
    let queue = api.get("/api/queues/%2F/q");
    for (path, expected) in [
        ("/messages", json!(5)),
        ("/messages_ready", json!(4)),
        ("/messages_unacknowledged", json!(1)),
        ("/message_stats/deliver_get_details/rate", json!(0.0)),
        ("/arguments/x-max-length", json!(5)),
        ("/policy", json!("ttl")),
        ("/type", json!("classic")),
        ("/state", json!("running")),
        ("/consumer_details/0/consumer_tag", json!("ctag")),
        ("/consumer_details/0/messages_unacknowledged", json!(3)),
        ("/consumer_details/0/oldest_unacknowledged_at", json!(1_000)),
    ] {
        assert_eq!(queue.pointer(path), Some(&expected), "{path}");
    }
    // Only quorum queues have it.
    assert_eq!(queue.get("messages_dlx"), None);
    assert_eq!(
        api.get("/api/queues/%2F/a%2Fb?columns=name,messages"),
        json!({"name": "a/b", "messages": 1})
    );
    assert_eq!(api.admin("GET", "/api/queues/%2F/none", "").status, 404);
    assert_eq!(api.admin("GET", "/api/queues/nowhere/q", "").status, 404);
    // A user sees the virtual hosts that it has permissions in; a monitor sees all.
    let seen = api.by("management", "GET", "/api/queues", "").json();
    assert_eq!(names(&seen), ["/ a/b", "/ q"]);
    assert_eq!(
        names(&api.by("monitoring", "GET", "/api/queues", "").json()).len(),
        3
    );
}

#[test]
fn a_queue_is_shown_with_so_many_of_its_consumers() {
    let api = start();
    for (more, shown) in [
        (QUEUE_SHOWN_CONSUMERS_MAX - 1, QUEUE_SHOWN_CONSUMERS_MAX),
        (QUEUE_SHOWN_CONSUMERS_MAX, QUEUE_SHOWN_CONSUMERS_MAX),
    ] {
        api.node.more_consumers.store(more as u64, Relaxed);
        let queue = api.get("/api/queues/%2F/q");
        let details = queue["consumer_details"].as_array();
        assert_eq!(details.map(Vec::len), Some(shown));
    }
}

#[test]
fn a_list_of_queues_tells_no_more_than_it_is_asked_for() {
    let api = start();
    let fields = |path: &str| -> Vec<String> {
        let answer = api.get(path);
        let row = answer.get(0).unwrap_or(&answer);
        let fields = row.as_object().expect("a queue").keys().cloned();
        fields.collect()
    };
    // As RabbitMQ's management has them for a classic queue.
    let plain = [
        "arguments",
        "auto_delete",
        "durable",
        "effective_policy_definition",
        "exclusive",
        "internal",
        "internal_owner",
        "name",
        "node",
        "operator_policy",
        "policy",
        "state",
        "type",
        "vhost",
    ];
    for path in ["/api/queues", "/api/queues/%2F", "/api/queues/%2F/q"] {
        assert_eq!(fields(&format!("{path}?disable_stats=true")), plain);
        let totals = fields(&format!(
            "{path}?disable_stats=true&enable_queue_totals=true"
        ));
        let more: Vec<&String> = totals
            .iter()
            .filter(|field| !plain.contains(&field.as_str()))
            .collect();
        assert_eq!(
            more,
            ["messages", "messages_ready", "messages_unacknowledged"]
        );
    }
}

#[test]
fn queues_are_listed_by_type() {
    let api = start();
    api.node.has_stream.store(true, Relaxed);
    let names = |path: &str| -> Vec<String> {
        let list = api.get(path);
        let rows = list["items"].as_array().or(list.as_array());
        let rows = rows.expect("a list").iter();
        rows.map(|row| row["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(names("/api/queues?type=stream"), ["s"]);
    assert_eq!(names("/api/queues?type=classic"), ["a/b", "q", "q"]);
    assert_eq!(names("/api/queues?type=quorum"), [""; 0]);
    let page = "/api/queues/%2F?type=classic&page=1&page_size=1&sort=name";
    assert_eq!(names(page), ["a/b"]);
    assert_eq!(api.get(page)["total_count"], 2);
}

#[test]
fn declarations_reach_the_node_as_their_user() {
    let api = start();
    for (method, path, body, status, asked) in [
        (
            "PUT",
            "/api/queues/%2F/new",
            r#"{"durable":"false","arguments":{"x-expires":9}}"#,
            201,
            r#"User("management") / DeclareQueue { name: "new", durable: false, exclusive: false, auto_delete: false, arguments: FieldTable([("x-expires", I64(9))]) }"#,
        ),
        (
            "PUT",
            "/api/queues/%2F/q",
            "",
            204,
            r#"User("management") / DeclareQueue { name: "q", durable: true, exclusive: false, auto_delete: false, arguments: FieldTable([]) }"#,
        ),
        (
            "DELETE",
            "/api/queues/%2F/q?if-empty=true",
            "",
            204,
            r#"User("management") / DeleteQueue { name: "q", if_unused: false, if_empty: true }"#,
        ),
        (
            "DELETE",
            "/api/queues/%2F/q/contents",
            "",
            204,
            r#"User("management") / PurgeQueue { name: "q" }"#,
        ),
        (
            "PUT",
            "/api/exchanges/%2F/z",
            r#"{"type":"fanout","internal":true}"#,
            201,
            r#"User("management") / DeclareExchange { name: "z", kind: "fanout", durable: true, auto_delete: false, internal: true, arguments: FieldTable([]) }"#,
        ),
        (
            "DELETE",
            "/api/exchanges/%2F/x?if-unused=true",
            "",
            204,
            r#"User("management") / DeleteExchange { name: "x", if_unused: true }"#,
        ),
        (
            "POST",
            "/api/bindings/%2F/e/x/q/q",
            r#"{"routing_key":"k"}"#,
            201,
            r#"User("management") / Bind(Binding { source: "x", destination: "q", to_queue: true, routing_key: "k", arguments: FieldTable([]) })"#,
        ),
        (
            "DELETE",
            "/api/bindings/%2F/e/x/q/q/~",
            "",
            204,
            r#"User("management") / Unbind(Binding { source: "x", destination: "q", to_queue: true, routing_key: "", arguments: FieldTable([]) })"#,
        ),
        (
            "DELETE",
            "/api/bindings/%2F/e/x/e/y/%2523",
            "",
            204,
            "User(\"management\") / Unbind(Binding { source: \"x\", destination: \"y\", to_queue: false, routing_key: \"#\", arguments: FieldTable([]) })",
        ),
    ] {
        let answer = api.by("management", method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(api.asked(), [asked], "{method} {path}");
    }
    let bound = api.by(
        "management",
        "POST",
        "/api/bindings/%2F/e/x/q/q",
        r#"{"routing_key":"a/b"}"#,
    );
    assert!(bound.head.contains("location: q/a%252fb"), "{}", bound.head);
}

#[test]
fn what_the_node_refuses_has_rabbitmqs_form() {
    let api = start();
    for (method, path, body, status, error, reason) in [
        (
            "PUT",
            "/api/queues/%2F/refused",
            "",
            401,
            "not_authorised",
            "ACCESS_REFUSED - configure access to queue 'refused' in vhost '/' refused for user 'x'",
        ),
        (
            "PUT",
            "/api/queues/%2F/other",
            "",
            400,
            "bad_request",
            "inequivalent arg 'durable' for queue 'other'",
        ),
        (
            "PUT",
            "/api/queues/%2F/new",
            "{",
            400,
            "bad_request",
            "this is not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "PUT",
            "/api/queues/%2F/new",
            r#"{"durable":7}"#,
            400,
            "bad_request",
            "the field \"durable\" must be true or false",
        ),
        (
            "DELETE",
            "/api/users/none",
            "",
            404,
            "Object Not Found",
            "Not Found",
        ),
        (
            "PUT",
            "/api/policies/%2F/p",
            r#"{"pattern":"(","definition":{"expires":1}}"#,
            400,
            "bad_request",
            "the pattern is broken",
        ),
        (
            "PUT",
            "/api/policies/%2F/p",
            r#"{"pattern":"a"}"#,
            400,
            "bad_request",
            "the field \"definition\" is missing",
        ),
        (
            "POST",
            "/api/definitions",
            "[]",
            400,
            "bad_request",
            "definitions are a JSON object",
        ),
        (
            "GET",
            "/api/nothing",
            "",
            404,
            "Object Not Found",
            "Not Found",
        ),
        (
            "GET",
            "/api/queues/%FF",
            "",
            400,
            "bad_request",
            "the path is not percent-encoded UTF-8",
        ),
        (
            "POST",
            "/api/overview",
            "",
            405,
            "Method Not Allowed",
            "this resource has: HEAD, GET, OPTIONS",
        ),
        (
            "POST",
            "/api/queues/%2F/q/get",
            r#"{"count":0,"ackmode":"ack_requeue_true"}"#,
            400,
            "bad_request",
            "count must be from 1 to 10000",
        ),
        (
            "POST",
            "/api/queues/%2F/q/get",
            r#"{"count":10001,"ackmode":"ack_requeue_true"}"#,
            400,
            "bad_request",
            "count must be from 1 to 10000",
        ),
        (
            "GET",
            "/api/queues?page=1&page_size=501",
            "",
            400,
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 501",
        ),
        (
            "GET",
            "/api/queues?page=2&page_size=500",
            "",
            400,
            "page_out_of_range",
            "Page out of range, page: 2 page size: 500, len: 3",
        ),
    ] {
        let answer = api.admin(method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(
            answer.json(),
            json!({"error": error, "reason": reason}),
            "{method} {path}"
        );
    }
    assert!(
        api.admin("PATCH", "/api/users/x", "")
            .head
            .contains("allow: head, get, put, delete, options")
    );
}

#[test]
fn messages_are_got_and_published() {
    let api = start();
    let body = r#"{"count":2,"ackmode":"ack_requeue_false","encoding":"auto","truncate":3}"#;
    let got = api.admin("POST", "/api/queues/%2F/q/get", body).json();
    assert_eq!(got[0]["payload"], "tex");
    assert_eq!(got[0]["payload_bytes"], 4);
    assert_eq!(got[0]["properties"]["delivery_mode"], 2);
    assert_eq!(got[1]["payload_encoding"], "base64");
    assert_eq!(got[1]["payload"], "/wA=");
    assert_eq!(
        api.asked(),
        ["get q Get { count: 2, shown: 3, bytes: 10000000, then: Accept }"]
    );
    let most = r#"{"count":10000,"ackmode":"ack_requeue_true"}"#;
    let all = usize::MAX;
    let all_of_each =
        format!("get q Get {{ count: 10000, shown: {all}, bytes: 10000000, then: Requeue }}");
    api.admin("POST", "/api/queues/%2F/q/get", most).json();
    assert_eq!(api.asked(), [all_of_each.as_str()]);
    let body = r#"{"properties":{"headers":{"a":1}},"routing_key":"q","payload":"aGk=","payload_encoding":"base64"}"#;
    let published = api.admin("POST", "/api/exchanges/%2F/amq.default/publish", body);
    assert_eq!(published.json(), json!({"routed": true}));
    let full = body.replace("\"q\"", "\"full\"");
    let refused = api.admin("POST", "/api/exchanges/%2F/amq.default/publish", &full);
    assert_eq!(refused.json()["routed"], false);
    assert!(refused.body.contains("reject-publish"), "{refused:?}");
    api.node.asked.lock().expect("log").pop();
    assert_eq!(
        api.asked(),
        [
            r#"/ Publish { exchange: "", routing_key: "q", properties: FieldTable([("headers", Table(FieldTable([("a", I64(1))])))]), payload: [104, 105] }"#
        ]
    );
}

#[test]
fn the_catalogue_is_changed_in_the_users_name() {
    let api = start();
    for (method, path, body, status, asked) in [
        (
            "PUT",
            "/api/users/eve",
            r#"{"password":"pw","tags":"management, own"}"#,
            201,
            r#"administrator: PutUser { name: "eve", tags: ["management", "own"], secret: Password("pw") }"#,
        ),
        (
            "PUT",
            "/api/users/nobody",
            r#"{"tags":["x"]}"#,
            204,
            r#"administrator: PutUser { name: "nobody", tags: ["x"], secret: Hash { hash: "", algorithm: None } }"#,
        ),
        (
            "PUT",
            "/api/vhosts/other",
            r#"{"tags":"a,b","tracing":true}"#,
            204,
            r#"administrator: VhostPut { vhost: "other", description: None, tags: Some(["a", "b"]), default_queue_type: None, protected: None, tracing: Some(true) }"#,
        ),
        (
            "PUT",
            "/api/permissions/%2F/nobody",
            r#"{"configure":"a","write":"b","read":"c"}"#,
            204,
            r#"administrator: PermissionSet { vhost: "/", user: "nobody", configure: "a", write: "b", read: "c" }"#,
        ),
        (
            "PUT",
            "/api/vhost-limits/%2F/max-queues",
            r#"{"value":"12"}"#,
            204,
            r#"administrator: VhostLimitSet { vhost: "/", limit: "max-queues", value: 12 }"#,
        ),
        (
            "DELETE",
            "/api/user-limits/nobody/max-channels",
            "",
            204,
            r#"administrator: UserLimitClear { user: "nobody", limit: Some("max-channels") }"#,
        ),
        (
            "PUT",
            "/api/operator-policies/%2F/new",
            r#"{"pattern":"^q","definition":{"max-length":1},"priority":2}"#,
            201,
            r#"administrator: PolicySet { vhost: "/", name: "new", operator: true, pattern: "^q", apply_to: "queues", priority: 2, definition: FieldTable([("max-length", I64(1))]) }"#,
        ),
        (
            "DELETE",
            "/api/topic-permissions/%2F/nobody/x",
            "",
            204,
            r#"administrator: TopicPermissionClear { vhost: "/", user: "nobody", exchange: Some("x") }"#,
        ),
        (
            "POST",
            "/api/definitions/other",
            r#"{"vhosts":[]}"#,
            204,
            r#"administrator: import into Some("other"): {"vhosts":[]}"#,
        ),
        (
            "PUT",
            "/api/leveret/memory-watermark",
            r#"{"relative":0.0}"#,
            204,
            "memory Relative(0.0)",
        ),
        (
            "PUT",
            "/api/leveret/disk-free-limit",
            r#"{"absolute":5}"#,
            204,
            "disk Absolute(5)",
        ),
        (
            "PUT",
            "/api/leveret/serving",
            r#"{"serving":false}"#,
            204,
            "serving false",
        ),
    ] {
        let answer = api.admin(method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(api.asked(), [asked], "{method} {path}");
    }
    let definitions = api.get("/api/definitions");
    assert_eq!(definitions["rabbitmq_version"], "4.2.0");
    assert_eq!(definitions["vhosts"][0]["name"], "/");
    assert_eq!(api.get("/api/users/nobody")["limits"]["max-channels"], 7);
    assert_eq!(
        api.get("/api/policies/%2F/ttl")["definition"],
        json!({"message-ttl": 5})
    );
    assert_eq!(
        api.get("/api/global-parameters/cluster_name")["value"],
        "hares"
    );
}

#[test]
fn connections_are_seen_and_closed_by_their_own_user_or_an_administrator() {
    let api = start();
    assert_eq!(
        api.get("/api/connections").as_array().map(Vec::len),
        Some(2)
    );
    let own = api.by("management", "GET", "/api/connections", "").json();
    assert_eq!(own.as_array().map(Vec::len), Some(1));
    assert_eq!(own[0]["client_properties"]["product"], "<script>");
    let foreign = "/api/connections/127.0.0.1%3A2%20-%3E%20127.0.0.1%3A5672";
    let own = "/api/connections/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672";
    assert_eq!(api.by("management", "GET", foreign, "").status, 404);
    assert_eq!(api.by("monitoring", "DELETE", foreign, "").status, 401);
    assert_eq!(api.by("management", "DELETE", own, "").status, 204);
    assert_eq!(api.admin("DELETE", foreign, "").status, 204);
    assert_eq!(
        api.asked(),
        [
            "close 1 Closed via management plugin",
            "close 2 Closed via management plugin"
        ]
    );
    let request = format!(
        "DELETE {own} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {}\r\nX-Reason: spring cleaning\r\n\r\n",
        basic("administrator", "administrator")
    );
    exchange(
        api.server.plain_address(Service::Api).expect("http"),
        request.as_bytes(),
    );
    assert_eq!(api.asked(), ["close 1 spring cleaning"]);
    let channels = api.get("/api/channels");
    assert_eq!(channels[0]["name"], "127.0.0.1:1 -> 127.0.0.1:5672 (1)");
    assert_eq!(channels[0]["pid"], "<leveret@burrow.1.1.0>");
    assert_eq!(
        api.get("/api/consumers/%2F")[0]["queue"],
        json!({"name": "q", "vhost": "/"})
    );
}

#[test]
fn health_checks_answer_200_or_503() {
    let api = start();
    for (path, status) in [
        ("alarms", 200),
        ("local-alarms", 200),
        ("port-listener/5672", 200),
        ("port-listener/1", 503),
        ("port-listener/x", 400),
        ("protocol-listener/amqp091", 200),
        ("protocol-listener/mqtt,amqp", 200),
        ("protocol-listener/mqtt", 503),
        ("virtual-hosts", 200),
        ("node-is-quorum-critical", 200),
        ("is-in-service", 200),
        ("below-node-connection-limit", 200),
        ("ready-to-serve-clients", 200),
        ("certificate-expiration/1/weeks", 503),
        ("certificate-expiration/1/fortnights", 400),
        ("certificate-expiration/99999999999999999999/weeks", 400),
    ] {
        let answer = api.admin("GET", &format!("/api/health/checks/{path}"), "");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    *api.node.alarm.lock().expect("alarm") = true;
    let answer = api.admin("GET", "/api/health/checks/local-alarms", "");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["status"], "failed");
    assert_eq!(answer.json()["alarms"][0]["resource"], "memory");
    assert_eq!(
        api.admin("GET", "/api/healthchecks/node", "").status,
        503,
        "the old check knows alarms too"
    );
}

#[test]
fn the_aliveness_test_declares_publishes_and_gets() {
    let api = start();
    assert_eq!(api.get("/api/aliveness-test/%2F"), json!({"status": "ok"}));
    let (asked, all) = (api.asked(), usize::MAX);
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0].contains("DeclareQueue"), "{asked:?}");
    assert!(
        asked[1].contains("routing_key: \"aliveness-test\""),
        "{asked:?}"
    );
    assert_eq!(
        asked[2],
        format!("get aliveness-test Get {{ count: 1, shown: {all}, bytes: {all}, then: Accept }}")
    );
}

/// Every route and method, by every kind of user, in a virtual host of its own and in another: let
/// in or not, as the table says.
#[test]
fn the_authorization_matrix_of_all_routes() {
    let api = start();
    let let_in = |access: Access, tag: &str, member: bool| match access {
        Access::Anyone => true,
        _ if tag == "nobody" => false,
        Access::Management => true,
        Access::Visible => member || matches!(tag, "administrator" | "monitoring"),
        Access::Member => member || tag == "administrator",
        Access::Policymaker => tag == "administrator" || (member && tag == "policymaker"),
        Access::Monitoring => matches!(tag, "administrator" | "monitoring"),
        Access::Administrator => tag == "administrator",
    };
    let mut tried = 0;
    for route in ROUTES {
        for method in route.methods {
            for user in USERS {
                for vhost in ["%2F", "other"] {
                    let path = route
                        .path
                        .replace("{vhost}", vhost)
                        .replace("{vhost?}", vhost)
                        .replace("{}", "nothing-of-this-name");
                    let has_vhost = route.path.contains("{vhost");
                    let member = !has_vhost || vhost == "%2F";
                    let answer = api.by(user, method.name, &path, "{}");
                    let expected = let_in(method.access, user, member);
                    let hidden = r#"{"error":"not_found","reason":"Not Found"}"#;
                    let refused = answer.status == 401 || answer.body == hidden;
                    assert_eq!(
                        !refused, expected,
                        "{user}: {} {path}: {answer:?}",
                        method.name
                    );
                    assert!(answer.status < 500 || answer.status == 503, "{answer:?}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn logins() {
    let api = start();
    let path = "/api/overview";
    assert_eq!(
        api.send(&basic("administrator", "administrator"), "GET", path, "")
            .status,
        200
    );
    assert_eq!(api.send("Bearer token", "GET", path, "").status, 200);
    assert_eq!(api.send("bearer token", "HEAD", path, "").status, 200);
    for refused in [
        basic("administrator", "wrong"),
        basic("eve", "eve"),
        "Bearer toke".to_owned(),
        "Bearer tokenx".to_owned(),
        "Bearer ".to_owned(),
        "Basic !!!".to_owned(),
        "Basic YQ==".to_owned(),
        "Digest x".to_owned(),
        String::new(),
    ] {
        let answer = api.send(&refused, "GET", path, "");
        assert_eq!(answer.status, 401, "{refused}");
        assert!(
            answer.head.contains("www-authenticate: basic realm="),
            "{refused}"
        );
    }
    let bare = exchange(
        api.server.plain_address(Service::Api).expect("http"),
        b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        bare.json(),
        json!({"error": "not_authorised", "reason": "Login failed"})
    );
}

#[test]
fn logins_over_http_are_counted() {
    let api = start();
    let attempts = || {
        let rows = api.get("/api/auth/attempts/leveret@burrow");
        let row = |row: &Value| row["protocol"] == "http";
        let rows = rows.as_array().expect("rows");
        let http = rows.iter().find(|of| row(of)).expect("a row of http");
        [
            "auth_attempts",
            "auth_attempts_succeeded",
            "auth_attempts_failed",
        ]
        .map(|name| http[name].as_u64().expect("a count"))
    };
    assert_eq!(attempts(), [1, 1, 0]);
    let rows = api.get("/api/auth/attempts/leveret@burrow");
    let is_of_streams = |row: &&Value| row["protocol"] == "stream";
    let rows = rows.as_array().expect("rows");
    let of_streams = rows.iter().find(is_of_streams).expect("a row of streams");
    assert_eq!(of_streams["auth_attempts"], 9);
    assert_eq!(of_streams["auth_attempts_failed"], 5);
    api.send(&basic("administrator", "wrong"), "GET", "/api/overview", "");
    // The operator's token is no password, and who brings nothing tries nothing.
    api.send("Bearer token", "GET", "/api/overview", "");
    api.send("", "GET", "/api/overview", "");
    assert_eq!(attempts(), [4, 3, 1]);
    let page = api.metrics("/metrics");
    for line in [
        "rabbitmq_auth_attempts_total{protocol=\"http\"} 4",
        "rabbitmq_auth_attempts_succeeded_total{protocol=\"http\"} 3",
        "rabbitmq_auth_attempts_failed_total{protocol=\"stream\"} 5",
        "rabbitmq_auth_attempts_failed_total{protocol=\"http\"} 1",
        "rabbitmq_leveret_logins_held_total 7",
    ] {
        assert!(
            page.body.lines().any(|l| l == line),
            "{line}: {}",
            page.body
        );
    }
}

#[test]
fn bodies_and_heads_are_bounded() {
    let api = start();
    let address = api.server.plain_address(Service::Api).expect("http");
    let admin = basic("administrator", "administrator");
    let announce = |path: &str, length: usize| {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {admin}\r\nContent-Length: {length}\r\n\r\n"
        );
        exchange(address, head.as_bytes()).status
    };
    // Refused by its announced length, before a byte of it is read.
    assert_eq!(announce("/api/vhosts/v", HTTP_BODY_BYTES_MAX + 1), 413);
    let body = |size: usize| format!("{{\"description\":\"{}\"}}", "a".repeat(size - 18));
    assert_eq!(
        api.admin("PUT", "/api/vhosts/v", &body(HTTP_BODY_BYTES_MAX))
            .status,
        201
    );
    let chunk = "a".repeat(1 << 20);
    let mut request = format!(
        "PUT /api/vhosts/v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {admin}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for _ in 0..10 {
        request.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    request.push_str("0\r\n\r\n");
    assert_eq!(exchange(address, request.as_bytes()).status, 413);
    let deep = format!(
        "{{\"tags\":{}{}}}",
        "[".repeat(JSON_DEPTH_MAX),
        "]".repeat(JSON_DEPTH_MAX)
    );
    let answer = api.admin("PUT", "/api/vhosts/v", &deep);
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("nested deeper"), "{answer:?}");
    let many = format!(
        "GET /api/auth HTTP/1.1\r\nHost: x\r\n{}\r\n",
        "A: b\r\n".repeat(1_000)
    );
    assert_eq!(exchange(address, many.as_bytes()).status, 431);
    for (bytes, status) in [(HTTP_HEAD_BYTES_MAX, 200), (HTTP_HEAD_BYTES_MAX + 1, 431)] {
        let around = "GET /api/auth HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: \r\n\r\n";
        let head = around.replace("A: ", &format!("A: {}", "b".repeat(bytes - around.len())));
        assert_eq!(exchange(address, head.as_bytes()).status, status, "{bytes}");
    }
    let long = format!(
        "GET /api/auth HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n",
        "b".repeat(10 << 20)
    );
    assert!(matches!(exchange(address, long.as_bytes()).status, 431 | 0));
    // Both lengths at once is an attempt to smuggle.
    let both = format!(
        "PUT /api/vhosts/v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {admin}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    let both = exchange(address, both.as_bytes());
    assert!(
        both.status == 400 || both.head.contains("connection: close"),
        "{both:?}"
    );
}

#[test]
fn a_server_that_is_dropped_frees_its_port() {
    let api = start();
    let address = api.server.plain_address(Service::Api).expect("http");
    drop(api);
    assert!(TcpStream::connect(address).is_err());
    std::net::TcpListener::bind(address).expect("the port is free");
}

/// A folder of this test's own, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("leveret-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub const WHOAMI: &str = "GET /api/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer token\r\n\r\n";

#[test]
fn the_command_line_comes_in_by_a_socket_file() {
    let folder = Folder::new("socket-file");
    let path = folder.0.join("control.sock");
    let place = Endpoint {
        service: Service::Api,
        address: ListenAddress::File(path.clone()),
    };
    let serve = || {
        let app = App::new(Arc::new(Fake::default()), Some("token".to_owned()), false);
        let tcp = Endpoint::plain(Service::Api, ([127, 0, 0, 1], 0).into());
        Server::start(app, &[place.clone(), tcp])
    };
    let ask = || -> io::Result<String> {
        let mut stream = UnixStream::connect(&path)?;
        stream.write_all(WHOAMI.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    // One that a process left which is gone.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket file"));
    let server = serve().expect("a socket file");
    assert!(ask().expect("an answer").contains("(operator)"));
    let mode = std::fs::metadata(&path).expect("there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    // Its token is taken nowhere else.
    let by_tcp = exchange(server.bound()[0].address, WHOAMI.as_bytes());
    assert_eq!((server.bound().len(), by_tcp.status), (1, 401));
    drop(server);
    assert!(ask().is_err() && !path.exists());
    // What is no socket is not taken away.
    std::fs::write(&path, "a file").expect("a file");
    assert!(serve().is_err());
    assert_eq!(std::fs::read(&path).expect("still there"), b"a file");
}

#[test]
fn definitions_come_as_a_form_and_go_with_a_tag() {
    let api = start();
    let address = api.server.plain_address(Service::Api).expect("http");
    let admin = basic("administrator", "administrator");
    let send = |method: &str, headers: &str, body: &str| {
        let request = format!(
            "{method} /api/definitions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {admin}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(address, request.as_bytes())
    };
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    let part = |name: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"d.json\"\r\nContent-Type: application/json\r\n\r\n{{\"vhosts\":[]}}\r\n--b--\r\n"
        )
    };
    assert_eq!(send("POST", form, &part("file")).status, 204);
    assert_eq!(
        api.asked(),
        ["administrator: import into None: {\"vhosts\":[]}"]
    );
    let other = send("POST", form, &part("other"));
    assert_eq!(other.status, 400);
    assert!(other.body.contains("no part named"), "{other:?}");

    let first = send("GET", "", "");
    let tag = first.head.lines().find_map(|l| l.strip_prefix("etag: "));
    let tag = tag.expect("a tag").trim();
    for (known, status) in [
        (tag.to_owned(), 304),
        (format!("W/{tag}"), 304),
        (format!("\"x\", {tag}"), 304),
        ("*".to_owned(), 304),
        ("\"x\"".to_owned(), 200),
    ] {
        let answer = send("GET", &format!("If-None-Match: {known}\r\n"), "");
        assert_eq!(answer.status, status, "{known}");
        assert_eq!(answer.body.is_empty(), status == 304, "{known}");
        assert!(answer.head.contains(tag), "{known}: {answer:?}");
    }
}

#[test]
fn a_login_is_checked_and_its_body_bounded() {
    let api = start();
    let address = api.server.plain_address(Service::Api).expect("http");
    let send = |kind: &str, body: &str| {
        let request = format!(
            "POST /api/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(address, request.as_bytes())
    };
    let form = "application/x-www-form-urlencoded";
    let good = "username=management&password=management";
    let told = send(form, good);
    assert!(!told.head.contains("set-cookie"), "{told:?}");
    let user = json!({
        "name": "management", "tags": ["management"], "is_internal_user": true,
        "login_session_timeout": 0,
    });
    let token = basic("management", "management");
    let token = token.strip_prefix("Basic ").expect("a scheme");
    let token = json!({"type": "basic", "value": token});
    assert_eq!(told.json(), json!({"user": user, "token": token}));
    let send = |kind: &str, body: &str| send(kind, body).status;
    for (kind, body, status) in [
        (form, good, 200),
        (form, "username=management&password=wrong", 401),
        (form, "username=nobody&password=nobody", 401),
        (form, "username=management", 400),
        (form, "%", 400),
        (
            "application/json",
            r#"{"username":"management","password":"management"}"#,
            200,
        ),
        ("application/json", "[]", 400),
    ] {
        assert_eq!(send(kind, body), status, "{body}");
    }
    let padded = |length: usize| format!("{good}{}", "&".repeat(length - good.len()));
    assert_eq!(send(form, &padded(HTTP_LOGIN_BYTES_MAX)), 200);
    assert_eq!(send(form, &padded(HTTP_LOGIN_BYTES_MAX + 1)), 413);
}

#[test]
fn checks_say_what_is_missing() {
    let api = start();
    let leaders = "/api/health/checks/quorum-queues-without-elected-leaders";
    for (path, status, part) in [
        ("/api/health/checks/is-in-service".to_owned(), 200, "ok"),
        (format!("{leaders}/all-vhosts"), 503, "\"name\":\"orphan\""),
        (format!("{leaders}/all-vhosts/pattern/%5Eo"), 503, "orphan"),
        (format!("{leaders}/all-vhosts/pattern/%5Ex"), 200, "ok"),
        (
            format!("{leaders}/all-vhosts/pattern/("),
            400,
            "regular expression",
        ),
        (format!("{leaders}/vhost/%2F"), 200, "ok"),
        (format!("{leaders}/vhost/other"), 503, "orphan"),
        (format!("{leaders}/vhost/other/pattern/x"), 200, "ok"),
        (format!("{leaders}/vhost/nowhere"), 404, "Not Found"),
        (
            "/api/health/checks/node-is-quorum-critical".to_owned(),
            200,
            "ok",
        ),
        (
            "/api/health/checks/reached-target-cluster-size".to_owned(),
            200,
            "ok",
        ),
        (
            "/api/health/checks/ready-to-serve-clients".to_owned(),
            200,
            "ok",
        ),
        (
            "/api/health/checks/protocol-listener/mqtt,amqp".to_owned(),
            200,
            "\"protocol\":\"amqp\"",
        ),
        (
            "/api/health/checks/protocol-listener/mqtt".to_owned(),
            503,
            "mqtt",
        ),
    ] {
        let answer = api.admin("GET", &path, "");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.contains(part), "{path}: {answer:?}");
    }
    *api.node.stopped.lock().expect("flag") = true;
    for check in [
        "is-in-service",
        "ready-to-serve-clients",
        "virtual-hosts",
        "port-listener/5672",
        "protocol-listener/amqp",
    ] {
        let path = format!("/api/health/checks/{check}");
        assert_eq!(api.admin("GET", &path, "").status, 503, "{check}");
    }
}
