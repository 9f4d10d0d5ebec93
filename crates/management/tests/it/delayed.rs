//! Messages that delayed exchanges keep back on the nodes of a cluster: one list of all of them,
//! and how each is dropped.

use crate::parts::{self, Cluster};
use leveret_management::api::{DelayedMessage, Got};
use leveret_types::FieldTable;
use leveret_types::limits::DELAYED_SCAN_MESSAGES_MAX;
use serde_json::{Value, json};

fn message(due_ms: u64, index: u64, exchange: &str) -> DelayedMessage {
    DelayedMessage {
        due_ms,
        index,
        vhost: "/".to_owned(),
        message: Got {
            exchange: exchange.to_owned(),
            routing_key: String::new(),
            redelivered: false,
            remaining: 0,
            properties: FieldTable::new(),
            payload: b"later".to_vec(),
            body_bytes: 5,
        },
    }
}

/// Three nodes that keep these back.
fn start(kept: [Vec<DelayedMessage>; 3]) -> Cluster {
    let cluster = parts::start(|_| {});
    for (node, kept) in cluster.nodes.iter().zip(kept) {
        *node.kept_back.0.lock().expect("kept back") = kept;
    }
    cluster
}

fn ids(list: &Value) -> Vec<&str> {
    let messages = list["messages"].as_array().expect("messages").iter();
    messages
        .map(|row| row["id"].as_str().expect("an id"))
        .collect()
}

#[test]
fn all_nodes_keep_back_and_a_list_goes_on_where_it_ended() {
    let cluster = start([
        vec![message(1, 7, "x"), message(5, 8, "y")],
        vec![message(2, 7, "x"), message(5, 8, "x")],
        vec![message(3, 0, "y")],
    ]);
    let all = [
        "1-7@leveret@burrow",
        "2-7@leveret@burrow-1",
        "3-0@leveret@burrow-2",
        "5-8@leveret@burrow",
        "5-8@leveret@burrow-1",
    ];
    let list = cluster.get("leveret/delayed");
    assert_eq!((ids(&list), &list["total_count"]), (all.into(), &json!(5)));
    assert_eq!(list["next"], Value::Null);
    assert_eq!(list["messages"][4]["node"], "leveret@burrow-1");
    assert_eq!(
        list["nodes"][1],
        json!({"name": "leveret@burrow-1", "total_count": 2})
    );
    let mut seen: Vec<String> = Vec::new();
    let mut from = String::new();
    loop {
        let part = cluster.get(&format!("leveret/delayed?limit=1{from}"));
        seen.extend(ids(&part).into_iter().map(str::to_owned));
        match part["next"].as_str() {
            Some(next) => from = format!("&from={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all);
    let of_y = cluster.get("leveret/delayed?exchange=y&vhost=%2F");
    assert_eq!(ids(&of_y), [all[2], all[3]]);
    assert_eq!(ids(&cluster.get("leveret/delayed?vhost=other")), [""; 0]);
}

#[test]
fn what_is_due_later_than_many_others_is_found() {
    let before = DELAYED_SCAN_MESSAGES_MAX as u64 + 1;
    let mut many: Vec<_> = (0..before).map(|n| message(n, n, "x")).collect();
    many.push(message(before, 0, "y"));
    let cluster = start([many, vec![message(before + 1, 0, "y")], Vec::new()]);
    let first = cluster.get("leveret/delayed?exchange=y");
    assert_eq!(ids(&first), [""; 0]);
    let next = first["next"].as_str().expect("where to go on");
    let list = cluster.get(&format!("leveret/delayed?exchange=y&from={next}"));
    let found = [
        format!("{before}-0@leveret@burrow"),
        format!("{}-0@leveret@burrow-1", before + 1),
    ];
    assert_eq!(ids(&list), found);
    assert_eq!(list["next"], Value::Null);
}

#[test]
fn a_message_is_dropped_where_it_is_kept() {
    let cluster = start([
        vec![message(1, 7, "x")],
        vec![message(1, 7, "x")],
        vec![message(1, 7, "x")],
    ]);
    let drop = |id: &str| {
        let path = format!("leveret/delayed/{id}");
        cluster.send("DELETE", &path).status
    };
    assert_eq!(drop("1-7@leveret@burrow-1"), 204);
    assert_eq!(drop("1-7@leveret@burrow-1"), 404);
    // As ids were before they named a node.
    assert_eq!(drop("1-7"), 204);
    let left = cluster.get("leveret/delayed");
    assert_eq!(ids(&left), ["1-7@leveret@burrow-2"]);
    assert_eq!(drop("1-7@nowhere"), 404);
    assert_eq!(drop("seven"), 404);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cluster = start([Vec::new(), Vec::new(), Vec::new()]);
    for query in ["from=later", "queue=q", "limit=some"] {
        let answer = cluster.send("GET", &format!("leveret/delayed?{query}"));
        assert_eq!(answer.status, 400, "{query}");
    }
}
