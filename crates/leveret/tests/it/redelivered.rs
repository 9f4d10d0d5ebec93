//! Whether a message may have been delivered before, over orderly ends and crashes of a node.

use crate::common::{Folder, Node, serve};
use serde_json::Value;

const QUEUES: [(&str, &str); 3] = [
    ("classic", "{}"),
    ("priority", r#"{"x-max-priority":2}"#),
    ("quorum", r#"{"x-queue-type":"quorum"}"#),
];

/// Whether the first messages of a queue are flagged as redelivered, as they are looked at.
fn flags(node: &Node, queue: &str, count: usize) -> Vec<bool> {
    let get = format!(r#"{{"count":{count},"ackmode":"ack_requeue_true","encoding":"auto"}}"#);
    let answer = node.http("POST", &format!("/api/queues/%2f/{queue}/get"), &get);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let Some(Ok(Value::Array(messages))) = body.map(serde_json::from_str) else {
        panic!("no messages: {answer}");
    };
    let flags = messages.iter().map(|one| one["redelivered"].as_bool());
    flags.map(|flag| flag.expect("a flag")).collect()
}

#[test]
fn a_crash_flags_what_was_delivered_since_an_orderly_start_though_nothing_else_was_done() {
    let folder = Folder::new("redelivered");
    let start = || Node::start(&mut serve(&folder.data()), &folder.data());
    let node = start();
    for (queue, arguments) in QUEUES {
        let body = format!(r#"{{"durable":true,"arguments":{arguments}}}"#);
        node.http("PUT", &format!("/api/queues/%2f/{queue}"), &body);
        node.publish("%2f", queue, "first");
        node.publish("%2f", queue, "second");
    }
    assert!(node.terminate());
    let node = start();
    for (queue, _) in QUEUES {
        assert_eq!(flags(&node, queue, 1), [false], "{queue}");
    }
    drop(node);
    let node = start();
    for (queue, _) in QUEUES {
        assert!(flags(&node, queue, 1)[0], "{queue}");
        node.publish("%2f", queue, "third");
    }
    // An orderly end knows what was delivered, and what was not.
    assert!(node.terminate());
    let node = start();
    for (queue, _) in QUEUES {
        let of_all = flags(&node, queue, 3);
        assert!(of_all[0] && !of_all[2], "{queue}: {of_all:?}");
    }
}
