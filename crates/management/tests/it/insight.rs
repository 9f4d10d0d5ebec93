//! What no other broker tells its operators: who changed what, why a queue grows, what an alarm
//! holds back, what breaks if a node stops. And logins that are counted anew.

use crate::api::{Api, start};
use crate::client::basic;
use crate::fake::{Fake, Group};
use leveret_types::limits::CHANGE_VALUE_BYTES_MAX;
use serde_json::{Value, json};

fn changes(api: &Api) -> Vec<Value> {
    let changes = api.get("/api/leveret/changes");
    changes.as_array().expect("a list").clone()
}

#[test]
fn a_change_is_kept_with_who_made_it_and_how_it_was_before_and_is_after() {
    let api = start();
    let body = r#"{"password": "geheim", "tags": "monitoring", "x": 0}"#;
    let answer = api.admin("PUT", "/api/users/monitoring", body);
    assert_eq!(answer.status, 204, "{answer:?}");
    let refused = api.admin("PUT", "/api/queues/%2F/refused", r#"{"durable": true}"#);
    assert_eq!(refused.status, 401, "{refused:?}");
    // What only looks, and what only publishes, is no change.
    api.get("/api/queues");
    let message = r#"{"routing_key": "q", "payload": "", "properties": {}}"#;
    api.admin("POST", "/api/exchanges/%2F/x/publish", message);
    let changes = changes(&api);
    assert_eq!(changes.len(), 2, "{changes:?}");
    let (queue, user) = (&changes[0], &changes[1]);
    for change in &changes {
        assert_eq!(change["user"], "administrator");
        assert_eq!(change["from"], "127.0.0.1");
        assert_eq!(change["node"], "leveret@burrow");
        assert_eq!(change["method"], "PUT");
        assert!(
            change["time"]
                .as_str()
                .is_some_and(|time| time.ends_with("+00:00"))
        );
    }
    assert_eq!(queue["path"], "/api/queues/%2F/refused");
    assert_eq!(
        (&queue["status"], &queue["before"]),
        (&json!(401), &Value::Null)
    );
    assert!(
        queue["reason"]
            .as_str()
            .expect("why")
            .contains("refused for user")
    );
    assert_eq!(
        (&user["status"], &user["reason"]),
        (&json!(204), &Value::Null)
    );
    assert_eq!(
        user["asked"],
        json!({"password": "(hidden)", "tags": "monitoring", "x": 0})
    );
    for moment in ["before", "after"] {
        let shown = &user[moment];
        assert_eq!(shown["tags"], json!(["monitoring"]), "{moment}");
        assert_eq!(shown["password_hash"], "(hidden)", "{moment}");
    }
    let answer = api.by("monitoring", "GET", "/api/leveret/changes", "");
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[test]
fn a_change_says_how_a_queue_is_and_not_what_happens_in_it() {
    let api = start();
    let declared = api.admin("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#);
    assert_eq!(declared.status, 204, "{declared:?}");
    let change = changes(&api).remove(0);
    assert_eq!(change["before"]["arguments"], json!({"x-max-length": 5}));
    for field in ["messages", "message_stats", "consumer_details", "state"] {
        assert_eq!(change["before"][field], Value::Null, "{field}");
    }
    let long = format!(
        r#"{{"arguments": {{"a": "{}"}}}}"#,
        "x".repeat(CHANGE_VALUE_BYTES_MAX)
    );
    api.admin("PUT", "/api/queues/%2F/q", &long);
    let asked = changes(&api).remove(0)["asked"].take();
    let expected = format!("{} bytes: too much to keep", long.len());
    assert_eq!(asked, json!(expected));
}

/// What a path without a `GET` of its own changes is shown by another one.
#[test]
fn limits_and_protection_are_shown_before_and_after_their_change() {
    let api = start();
    let body = r#"{"value": 7}"#;
    for (method, path, body) in [
        ("PUT", "/api/vhost-limits/%2F/max-queues", body),
        ("PUT", "/api/user-limits/monitoring/max-channels", body),
        ("POST", "/api/vhosts/%2F/deletion/protection", ""),
        (
            "PUT",
            "/api/leveret/disk-free-limit",
            r#"{"absolute": 1000}"#,
        ),
    ] {
        let answer = api.admin(method, path, body);
        assert!(answer.status < 300, "{path}: {answer:?}");
        let change = changes(&api).remove(0);
        assert_eq!(change["path"], path);
        for moment in ["before", "after"] {
            assert!(!change[moment].is_null(), "{path} {moment}: {change}");
        }
    }
}

#[test]
fn the_audit_is_filtered_by_user_and_by_path() {
    let api = start();
    api.admin("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#);
    api.admin("DELETE", "/api/policies/%2F/none", "");
    let paths = |query: &str| -> Vec<String> {
        let changes = api.get(&format!("/api/leveret/changes?{query}"));
        let changes = changes.as_array().expect("a list").iter();
        changes
            .map(|change| change["path"].as_str().expect("a path").to_owned())
            .collect()
    };
    assert_eq!(paths("name=policies"), ["/api/policies/%2F/none"]);
    assert_eq!(paths("user=administrator").len(), 2);
    assert_eq!(paths("user=nobody"), [""; 0]);
}

#[test]
fn a_disk_is_that_of_the_node_that_is_named() {
    let api = start();
    let own = api.get("/api/leveret/disk");
    assert_eq!(own["node"], "leveret@burrow");
    assert_eq!(api.get("/api/leveret/disk/leveret@burrow"), own);
    let unknown = api.admin("GET", "/api/leveret/disk/nowhere", "");
    assert_eq!(unknown.status, 404, "{unknown:?}");
}

#[test]
fn an_alarm_names_the_connections_that_it_holds_back() {
    let api = start();
    let calm = api.get("/api/leveret/alarms");
    assert_eq!(
        (&calm["memory"], &calm["held_back"]),
        (&json!(false), &json!([]))
    );
    *api.node.alarm.lock().expect("alarm") = true;
    let alarm = api.get("/api/leveret/alarms");
    assert_eq!(
        (&alarm["memory"], &alarm["disk"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(alarm["nodes"][0]["mem_alarm"], true);
    let held = alarm["held_back"].as_array().expect("connections");
    let names: Vec<&str> = held
        .iter()
        .filter_map(|held| held["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "127.0.0.1:1 -> 127.0.0.1:5672",
            "127.0.0.1:2 -> 127.0.0.1:5672"
        ]
    );
    assert_eq!(held[0]["user"], "management");
}

#[test]
fn a_node_alone_takes_all_with_it() {
    let api = start();
    let impact = api.get("/api/leveret/nodes/leveret@burrow/impact");
    assert_eq!(impact["harmless"], false);
    assert_eq!(impact["declarations_stop"], true);
    assert_eq!(impact["connections_closed"], 2);
    assert_eq!(impact["queues_gone"]["count"], 3);
    let named = &impact["queues_gone"]["queues"][0];
    assert_eq!(
        *named,
        json!({"name": "a/b", "vhost": "/", "type": "classic"})
    );
    let unknown = api.admin("GET", "/api/leveret/nodes/nowhere/impact", "");
    assert_eq!(unknown.status, 404);
}

#[test]
fn a_node_of_three_takes_what_has_no_majority_without_it() {
    let node = Fake::default();
    *node.group.lock().expect("group") = Some(Group::default());
    let api = Api::of(node, |app| app);
    let path = "/api/leveret/nodes/leveret@form/impact";
    let impact = api.get(path);
    assert_eq!(impact["queues_going_on"]["count"], 1, "{impact}");
    assert_eq!(impact["queues_without_majority"]["count"], 0);
    let down = leveret_types::NodeId(3);
    api.node
        .group
        .lock()
        .expect("group")
        .as_mut()
        .expect("one")
        .down = Some(down);
    let impact = api.get(path);
    assert_eq!(impact["queues_without_majority"]["count"], 1, "{impact}");
    assert_eq!(impact["queues_without_majority"]["queues"][0]["name"], "r");
}

#[test]
fn a_queue_says_why_it_grows() {
    let api = start();
    let growth = api.get("/api/leveret/queues/%2F/q/growth");
    assert_eq!(growth["messages_ready"], 4);
    assert_eq!(growth["consumers"][0]["consumer_tag"], "ctag");
    assert_eq!(growth["consumers"][0]["channel_unacknowledged"], 3);
    assert_eq!(growth["consumers"][0]["oldest_unacknowledged_at"], 1_000);
    let words = |growth: &Value| -> Vec<String> {
        let findings = growth["findings"].as_array().expect("findings").iter();
        findings
            .map(|f| f["finding"].as_str().expect("a word").to_owned())
            .collect()
    };
    assert_eq!(words(&growth), ["nothing_acknowledged"], "{growth}");
    let growth = api.get("/api/leveret/queues/other/q/growth");
    assert_eq!(words(&growth), ["no_consumers"], "{growth}");
    let unknown = api.admin("GET", "/api/leveret/queues/%2F/none/growth", "");
    assert_eq!(unknown.status, 404);
}

#[test]
fn the_node_says_where_a_message_would_go_and_why() {
    let api = start();
    let path = "/api/leveret/exchanges/%2F/x/route";
    let way = api.get(&format!("{path}?routing_key=a.b&headers=%7B%22n%22%3A1%7D"));
    assert_eq!(way["queues"][0]["queue"], "q", "{way}");
    assert_eq!(way["queues"][0]["by"][0], "x -[a.*]-> q", "{way}");
    let steps = way["steps"].as_array().expect("steps");
    let taken: Vec<&Value> = steps.iter().map(|step| &step["taken"]).collect();
    assert_eq!(taken, [true, true, false], "{way}");
    assert_eq!(steps[2]["why"], "\"\" does not match", "{way}");
    let default = api.get("/api/leveret/exchanges/%2F/amq.default/route?routing_key=q");
    assert_eq!(default["queues"][0]["by"][0], "the queue's name");
    let path_of_none = "/api/leveret/exchanges/%2F/none/route";
    for (path, status) in [
        (path_of_none.to_owned(), 404),
        (format!("{path}?headers=1"), 400),
    ] {
        assert_eq!(api.admin("GET", &path, "").status, status, "{path}");
    }
}

#[test]
fn logins_are_counted_anew_when_somebody_wants_that() {
    let api = start();
    let path = "/api/auth/attempts/leveret@burrow";
    let of = |protocol: &str| {
        let rows = api.get(path);
        let mut rows = rows.as_array().expect("rows").iter();
        let row = rows.find(|row| row["protocol"] == protocol).expect("a row");
        (
            row["auth_attempts_succeeded"].clone(),
            row["auth_attempts_failed"].clone(),
        )
    };
    assert_eq!(of("stream"), (json!(4), json!(5)));
    let forgotten = api.by("monitoring", "DELETE", path, "");
    assert_eq!(forgotten.status, 204, "{forgotten:?}");
    assert_eq!(of("stream"), (json!(0), json!(0)));
    // That one itself came by HTTP.
    assert_ne!(of("http").0, json!(0));
    let source = format!("{path}/source");
    assert_eq!(api.get(&source), json!([]), "nobody has asked for that");
    let tracked = r#"{"tracked":true}"#;
    assert_eq!(api.by("monitoring", "PUT", &source, tracked).status, 401);
    assert_eq!(api.admin("PUT", &source, "{}").status, 400);
    assert_eq!(api.admin("PUT", &source, tracked).status, 204);
    api.send(&basic("a \"stranger\"", "x"), "GET", "/api/overview", "");
    let rows = api.get(&source);
    let mut rows = rows.as_array().expect("rows").iter();
    let row = rows.find(|row| row["username"] == "a \"stranger\"");
    let expected = json!({"remote_address": "127.0.0.1", "username": "a \"stranger\"",
        "protocol": "http", "auth_attempts": 1, "auth_attempts_failed": 1,
        "auth_attempts_succeeded": 0});
    assert_eq!(row, Some(&expected));
    let line = "auth_attempts_detailed_failed_total{remote_address=\"127.0.0.1\",\
                username=\"a \\\"stranger\\\"\",protocol=\"http\"} 1\n";
    for (page, prefix) in [
        ("/metrics/per-object", "rabbitmq_"),
        (
            "/metrics/detailed?family=auth_attempt_detailed_metrics",
            "rabbitmq_detailed_",
        ),
    ] {
        let text = api.metrics(page).body;
        assert!(text.contains(&format!("\n{prefix}{line}")), "{text}");
    }
    let sums = api.metrics("/metrics").body;
    assert!(!sums.contains("attempts_detailed"), "{sums}");
    let untracked = r#"{"tracked":false}"#;
    assert_eq!(api.admin("PUT", &source, untracked).status, 204);
    assert_eq!(api.admin("DELETE", &source, "").status, 204);
    assert_eq!(api.get(&source), json!([]));
    // By protocol too: there were these two questions since.
    assert_eq!(of("http"), (json!(2), json!(0)));
    for method in ["GET", "DELETE"] {
        let unknown = api.admin(method, "/api/auth/attempts/nowhere", "");
        assert_eq!(unknown.status, 404, "{method}");
    }
}

#[test]
fn a_users_queues_are_those_that_its_connections_own() {
    let api = start();
    let names = |user: &str| -> Vec<String> {
        let queues = api.get(&format!("/api/users/{user}/queues"));
        let queues = queues.as_array().expect("queues").iter();
        queues
            .map(|q| q["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names("monitoring"), [""; 0]);
    assert_eq!(names("administrator"), ["a/b"]);
}

#[test]
fn rates_are_begun_anew_at_the_node_that_is_named_or_that_is_refused() {
    let api = start();
    *api.node.group.lock().expect("the group") = Some(Group::default());
    let reset = |node: &str| {
        let path = format!("/api/reset/{node}");
        api.admin("DELETE", &path, "").status
    };
    assert_eq!(reset("leveret%40burrow"), 204);
    // It is in the cluster, and does not answer.
    assert_eq!(reset("leveret%40form"), 503);
    assert_eq!(reset("nowhere"), 404);
}
