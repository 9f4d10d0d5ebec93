//! Whether a message may have been delivered before, over orderly ends and crashes of a node.

use crate::common::{BINARY, Folder, Node};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

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

/// A node on which each queue has two messages that nobody has had, after an orderly end.
fn restarted(data: &Path) -> Node {
    let node = Node::without_http(data);
    for (queue, arguments) in QUEUES {
        let body = format!(r#"{{"durable":true,"arguments":{arguments}}}"#);
        node.http("PUT", &format!("/api/queues/%2f/{queue}"), &body);
        node.publish("%2f", queue, "first");
        node.publish("%2f", queue, "second");
    }
    assert!(node.terminate());
    Node::without_http(data)
}

/// What `leveret storage` says with these words.
fn storage(data: &Path, words: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    command.env_clear().arg("storage").args(words);
    let output = command.arg("--data-dir").arg(data).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_crash_flags_what_was_delivered_since_an_orderly_start_though_nothing_else_was_done() {
    let folder = Folder::new("redelivered");
    let node = restarted(&folder.data());
    for (queue, _) in QUEUES {
        assert_eq!(flags(&node, queue, 1), [false], "{queue}");
    }
    drop(node);
    let node = Node::without_http(&folder.data());
    for (queue, _) in QUEUES {
        assert!(flags(&node, queue, 1)[0], "{queue}");
        node.publish("%2f", queue, "third");
    }
    // An orderly end knows what was delivered, and what was not.
    assert!(node.terminate());
    let node = Node::without_http(&folder.data());
    for (queue, _) in QUEUES {
        let of_all = flags(&node, queue, 3);
        assert!(of_all[0] && !of_all[2], "{queue}: {of_all:?}");
    }
}

#[test]
fn a_crash_stays_one_when_the_store_is_repaired_or_made_anew_before_the_next_start() {
    let folder = Folder::new("redelivered-repaired");
    let (data, anew) = (folder.data(), folder.path().join("anew"));
    let node = restarted(&data);
    for (queue, _) in QUEUES {
        assert_eq!(flags(&node, queue, 1), [false], "{queue}");
    }
    drop(node);
    let told = storage(&data, &["verify"]);
    assert!(told.contains("not closed in order"), "{told}");
    storage(&data, &["repair", "--accept-loss"]);
    let into = anew.to_str().expect("text");
    storage(&data, &["rebuild", "--into", into]);
    for data in [&data, &anew] {
        let told = storage(data, &["verify"]);
        assert!(told.contains("not closed in order"), "{told}");
        let node = Node::without_http(data);
        for (queue, _) in QUEUES {
            assert!(flags(&node, queue, 1)[0], "{queue} of {}", data.display());
        }
    }
}
