//! Messages that an operator moves between queues of a running node, and how old they are.

use crate::common::{Folder, Node, serve};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

fn start(folder: &Folder) -> Node {
    let data = folder.data();
    Node::start(serve(&data).args(["--http", "none"]), &data)
}

fn body_of(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    body.and_then(|body| serde_json::from_str(body).ok())
        .unwrap_or_else(|| panic!("no JSON: {answer}"))
}

fn declare(node: &Node, queue: &str, arguments: &Value) {
    let body = json!({"durable": true, "arguments": arguments}).to_string();
    let created = node.http("PUT", &format!("/api/queues/%2f/{queue}"), &body);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
}

/// Payloads of what waits in a queue, and how often each was sent back to it.
fn waiting(node: &Node, queue: &str) -> Vec<(String, Option<u64>)> {
    let found = node.http(
        "GET",
        &format!("/api/leveret/queues/%2f/{queue}/messages"),
        "",
    );
    let found = body_of(&found);
    let found = found.as_array().expect("a list").iter();
    let seen = |message: &Value| {
        let payload = message["payload"].as_str().expect("text").to_owned();
        (
            payload,
            message["properties"]["headers"]["x-redriven"].as_u64(),
        )
    };
    found.map(seen).collect()
}

/// What became of a move, once it has ended.
fn moved(node: &Node, queue: &str, body: &Value) -> Value {
    let path = format!("/api/leveret/queues/%2f/{queue}/moves");
    let begun = body_of(&node.http("POST", &path, &body.to_string()));
    let id = begun["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no id: {begun}"));
    let deadline = Instant::now() + DEADLINE;
    loop {
        let told = body_of(&node.http("GET", &format!("{path}/{id}"), ""));
        if told["state"] != "running" {
            return told;
        }
        assert!(Instant::now() < deadline, "it does not end: {told}");
    }
}

fn payloads(all: &[&str]) -> Vec<(String, Option<u64>)> {
    all.iter().map(|one| ((*one).to_owned(), None)).collect()
}

fn dead_letters_go_back(kind: &str) {
    let folder = Folder::new(&format!("redrive-{kind}"));
    let node = start(&folder);
    let dies = json!({"x-queue-type": kind, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead"});
    declare(&node, "dead", &json!({"x-queue-type": kind}));
    declare(&node, "alive", &dies);
    for text in ["a", "b", "c"] {
        node.publish("%2f", "alive", text);
    }
    let reject = r#"{"count": 3, "ackmode": "reject_requeue_false", "encoding": "auto"}"#;
    let rejected = node.http("POST", "/api/queues/%2f/alive/get", reject);
    assert!(rejected.starts_with("HTTP/1.1 200"), "{rejected}");
    node.publish("%2f", "dead", "no dead letter");

    let dry = moved(
        &node,
        "dead",
        &json!({"reason": "rejected", "dry_run": true}),
    );
    assert_eq!(dry["moved"], json!({"alive": 3}), "{dry}");
    assert_eq!(dry["kept"], json!({"died for another reason": 1}), "{dry}");
    let look = r#"{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    let first = node.http("POST", "/api/queues/%2f/dead/get", look);
    assert!(first.contains(r#""redelivered":false"#), "{first}");
    let two = moved(&node, "dead", &json!({"limit": 2}));
    assert_eq!(
        (&two["moved"], &two["looked_at"]),
        (&json!({"alive": 2}), &json!(2))
    );
    let back = |text: &str| (text.to_owned(), Some(1));
    assert_eq!(waiting(&node, "alive"), [back("a"), back("b")]);
    let rest = moved(&node, "dead", &json!({}));
    assert_eq!(
        (&rest["state"], &rest["moved"]),
        (&json!("done"), &json!({"alive": 1}))
    );
    assert_eq!(waiting(&node, "alive"), [back("a"), back("b"), back("c")]);
    assert_eq!(waiting(&node, "dead"), payloads(&["no dead letter"]));
}

#[test]
fn dead_letters_go_back_to_a_classic_queue() {
    dead_letters_go_back("classic");
}

#[test]
fn dead_letters_go_back_to_a_quorum_queue() {
    dead_letters_go_back("quorum");
}

/// Has all that waits in a queue of the default exchange's rejected.
fn reject_all(node: &Node, queue: &str) {
    let reject = r#"{"count": 100, "ackmode": "reject_requeue_false", "encoding": "auto"}"#;
    let rejected = node.http("POST", &format!("/api/queues/%2f/{queue}/get"), reject);
    assert!(rejected.starts_with("HTTP/1.1 200"), "{rejected}");
}

#[test]
fn a_dead_letter_goes_to_one_queue_whoever_it_names() {
    let folder = Folder::new("redrive-names");
    let node = start(&folder);
    let dies = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    declare(&node, "dead", &json!({}));
    declare(&node, "alive", &dies);
    declare(&node, "named", &json!({}));
    let publish = json!({"routing_key": "alive", "payload": "a", "payload_encoding": "string",
        "properties": {"headers": {"CC": ["named"]}}});
    let path = "/api/exchanges/%2f/amq.default/publish";
    let published = node.http("POST", path, &publish.to_string());
    assert!(published.contains(r#""routed":true"#), "{published}");
    reject_all(&node, "alive");
    assert_eq!(node.says(&["redrive", "dead"]), "1 went to alive\n");
    assert_eq!(waiting(&node, "alive"), [("a".to_owned(), Some(1))]);
    assert_eq!(waiting(&node, "named"), payloads(&["a"]));
}

#[test]
fn the_command_line_sends_dead_letters_back_and_copies_messages() {
    let folder = Folder::new("redrive-command");
    let node = start(&folder);
    let dies = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    declare(&node, "dead", &json!({}));
    declare(&node, "alive", &dies);
    declare(&node, "other", &json!({}));
    for text in ["a", "b", "c"] {
        node.publish("%2f", "alive", text);
    }
    reject_all(&node, "alive");
    for (words, said) in [
        (&["--dry-run"][..], "3 would go to alive\n"),
        (&["--limit", "1"], "1 went to alive\n"),
        (&["--to", "other", "--copy"], "2 were copied to other\n"),
        (
            &["--reason", "expired"],
            "2 stayed: died for another reason\n",
        ),
        (&["--to", "other"], "2 went to other\n"),
        (&[], "dead is empty\n"),
    ] {
        assert_eq!(
            node.says(&[&["redrive", "dead"], words].concat()),
            said,
            "{words:?}"
        );
    }
    let told = node.says(&["redrive", "other", "--to", "dead", "--json"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(
        (&told["state"], &told["moved"]),
        (&json!("done"), &json!({"dead": 4}))
    );
    for (words, why) in [
        (&["dead", "--to", "none"][..], "none"),
        (&["none"], "there is no queue 'none' in vhost '/'"),
        (&["dead", "--stop", "99@none"], "there is no move '99@none'"),
    ] {
        let refused = node.run(&[&["redrive"], words].concat());
        let said = String::from_utf8(refused.stderr).expect("text");
        assert!(
            !refused.status.success() && said.contains(why),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn a_copy_leaves_messages_where_they_are_and_a_full_queue_takes_no_more() {
    let folder = Folder::new("move-full");
    let node = start(&folder);
    declare(&node, "from", &json!({}));
    declare(
        &node,
        "small",
        &json!({"x-max-length": 1, "x-overflow": "reject-publish"}),
    );
    node.publish("%2f", "from", "a");
    node.publish("%2f", "from", "b");
    let copied = moved(&node, "from", &json!({"to": "small", "copy": true}));
    assert_eq!(copied["moved"], json!({"small": 1}), "{copied}");
    assert_eq!(copied["kept"], json!({"small: it is full": 1}), "{copied}");
    assert_eq!(waiting(&node, "small"), payloads(&["a"]));
    assert_eq!(waiting(&node, "from"), payloads(&["a", "b"]));
    let nothing = moved(&node, "from", &json!({"to": "small"}));
    assert_eq!(nothing["moved"], json!({}), "{nothing}");
    assert_eq!(waiting(&node, "from"), payloads(&["a", "b"]));
    for (body, status) in [
        (json!({"to": "none"}), "404"),
        (json!({"to": "from"}), "400"),
        (json!({"limit": 0}), "400"),
    ] {
        let path = "/api/leveret/queues/%2f/from/moves";
        let refused = node.http("POST", path, &body.to_string());
        assert!(
            refused.starts_with(&format!("HTTP/1.1 {status}")),
            "{refused}"
        );
    }
    let stopped = node.http("DELETE", "/api/leveret/queues/%2f/from/moves/99@none", "");
    assert!(stopped.starts_with("HTTP/1.1 404"), "{stopped}");
}

#[test]
fn a_stream_that_an_alarm_holds_back_is_not_said_to_be_full() {
    let folder = Folder::new("move-alarm");
    let node = start(&folder);
    declare(&node, "from", &json!({}));
    declare(&node, "s", &json!({"x-queue-type": "stream"}));
    node.publish("%2f", "from", "a");
    let limit = json!({"absolute": 1_u64 << 60}).to_string();
    let set = node.http("PUT", "/api/leveret/disk-free-limit", &limit);
    assert!(set.starts_with("HTTP/1.1 20"), "{set}");
    let kept = moved(&node, "from", &json!({"to": "s"}));
    let why = json!({"s: an alarm is on: low on disk": 1});
    assert_eq!((&kept["moved"], &kept["kept"]), (&json!({}), &why));
    assert_eq!(waiting(&node, "from"), payloads(&["a"]));
}

#[test]
fn the_age_of_the_oldest_message_is_told_also_after_a_restart() {
    let folder = Folder::new("oldest");
    let node = start(&folder);
    let age = |node: &Node, queue: &str| {
        let row = body_of(&node.http("GET", &format!("/api/queues/%2f/{queue}"), ""));
        row["oldest_message_age"].as_f64()
    };
    for kind in ["classic", "quorum"] {
        declare(&node, kind, &json!({"x-queue-type": kind}));
        assert_eq!(age(&node, kind), None, "nothing waits in the {kind} queue");
        node.publish("%2f", kind, "waits");
        assert!(age(&node, kind).is_some(), "{kind}");
    }
    let list = node.told(&["-s", "list_queues", "name", "oldest_message_age"]);
    let told = list.lines().filter(|line| !line.ends_with('\t'));
    assert_eq!(told.count(), 2, "{list}");
    drop(node);
    let node = start(&folder);
    for kind in ["classic", "quorum"] {
        let deadline = Instant::now() + DEADLINE;
        while age(&node, kind).is_none() {
            assert!(Instant::now() < deadline, "{kind}: not known");
        }
    }
}
