//! Messages that clients hold: the node that leads the queue shows them, those that clients are
//! connected to say whose they are.

use crate::parts::{self, Cluster};
use leveret_management::api::{Got, HeldAt, Holder, LookedAt, UnsettledMessage};
use leveret_types::FieldTable;
use serde_json::{Value, json};

fn message(at: HeldAt, since_ms: Option<u64>) -> UnsettledMessage {
    let message = LookedAt {
        fingerprint: 0,
        taken_ms: 0,
        message: Got {
            exchange: String::new(),
            routing_key: "q".to_owned(),
            redelivered: false,
            remaining: 0,
            properties: FieldTable::new(),
            payload: format!("{}", at.2).into_bytes(),
            body_bytes: format!("{}", at.2).len(),
        },
    };
    UnsettledMessage {
        at,
        since_ms,
        message: (at.2 != 13).then_some(message),
    }
}

fn holder(at: HeldAt, connection: &str, tag: Option<&str>) -> Holder {
    Holder {
        at,
        connection: connection.to_owned(),
        user: "u".to_owned(),
        channel: 0,
        consumer_tag: tag.map(str::to_owned),
        delivery_tag: 0,
        redelivered: at.2 > 0,
        since_ms: 1_000,
    }
}

/// The second of three nodes leads the queue; clients of the first and of the third hold messages
/// of it, and one has gone.
fn start() -> Cluster {
    let cluster = parts::start(|_| {});
    let (here, there, gone) = (HeldAt(1, 0, 0), HeldAt(u64::MAX, 3, 5), HeldAt(8, 0, 13));
    let held = [(here, None), (there, None), (gone, Some(4_000))];
    let held = held.map(|(at, since_ms)| message(at, since_ms));
    *cluster.nodes[1].held.lock().expect("held") = Some(held.into());
    let told = |node: usize, holder| {
        *cluster.nodes[node].holders.lock().expect("holders") = vec![holder];
    };
    told(0, holder(here, "a -> b", Some("t")));
    told(2, holder(there, "c -> d", None));
    cluster
}

fn of(rows: &Value, field: &str) -> Vec<Value> {
    let rows = rows.as_array().expect("a list").iter();
    rows.map(|row| row[field].clone()).collect()
}

#[test]
fn messages_are_shown_with_who_holds_them_on_whatever_node() {
    let cluster = start();
    let rows = cluster.get("leveret/queues/%2F/q/unacked");
    assert_eq!(of(&rows, "payload"), [json!("0"), json!("5"), Value::Null]);
    assert_eq!(of(&rows, "position"), [1, 2, 3].map(|n| json!(n)));
    let channels = [json!("a -> b (0)"), json!("c -> d (0)"), Value::Null];
    assert_eq!(of(&rows, "channel"), channels);
    let nodes = [
        json!("leveret@burrow"),
        json!("leveret@burrow-2"),
        Value::Null,
    ];
    assert_eq!(of(&rows, "node"), nodes);
    assert_eq!(
        of(&rows, "consumer_tag"),
        [json!("t"), Value::Null, Value::Null]
    );
    // Fields that are 0 or nothing are not lost between the nodes.
    assert_eq!(of(&rows, "delivery_tag"), [json!(0), json!(0), Value::Null]);
    assert_eq!(
        of(&rows, "redelivered"),
        [json!(false), json!(true), Value::Null]
    );
    assert_eq!(of(&rows, "timestamp"), [json!(0), json!(0), Value::Null]);
    assert_eq!(
        of(&rows, "held_since"),
        [1_000, 1_000, 4_000].map(|n| json!(n))
    );
    assert_eq!(
        of(&rows, "unreadable"),
        [Value::Null, Value::Null, json!(true)]
    );
}

#[test]
fn those_of_one_consumer_are_shown_and_parts_of_all() {
    let cluster = start();
    let get = |query: &str| cluster.get(&format!("leveret/queues/%2F/q/unacked?{query}"));
    assert_eq!(of(&get("consumer=t"), "payload"), ["0"]);
    assert_eq!(get("consumer=nobody"), json!([]));
    let second = get("position=2&count=1");
    assert_eq!(
        (of(&second, "payload"), of(&second, "position")),
        (vec![json!("5")], vec![json!(2)])
    );
    for wrong in ["position=0", "count=0", "count=101", "truncate=-1"] {
        let path = format!("leveret/queues/%2F/q/unacked?{wrong}");
        assert_eq!(cluster.send("GET", &path).status, 400, "{wrong}");
    }
}

#[test]
fn those_that_have_something_are_found_on_whatever_node() {
    let cluster = start();
    let search = |query: &str| cluster.get(&format!("leveret/queues/%2F/q/search?{query}"));
    let found = search("unacked=true&body=5");
    assert_eq!(of(&found["messages"], "position"), [json!(2)]);
    assert_eq!(of(&found["messages"], "channel"), [json!("c -> d (0)")]);
    assert_eq!(
        (&found["looked_at"], &found["next_position"]),
        (&json!(3), &Value::Null)
    );
    // One that cannot be read has nothing that could be sought.
    let all = search("unacked=true&key=q");
    assert_eq!(of(&all["messages"], "payload"), ["0", "5"]);
    let first = search("unacked=true&key=q&count=1");
    assert_eq!(of(&first["messages"], "payload"), ["0"]);
    assert_eq!(first["next_position"], 2);
    let rest = search("unacked=true&key=q&count=1&position=2");
    assert_eq!(of(&rest["messages"], "payload"), ["5"]);
    let of_one = search("unacked=true&consumer=t&key=q");
    assert_eq!(of(&of_one["messages"], "payload"), ["0"]);
    assert_eq!(search("unacked=true&key=none")["messages"], json!([]));
    let wrong = "leveret/queues/%2F/q/search?unacked=true&older_than=x";
    assert_eq!(cluster.send("GET", wrong).status, 400);
}

#[test]
fn a_queue_that_no_node_leads_shows_nothing_and_says_so() {
    let cluster = start();
    *cluster.nodes[1].held.lock().expect("held") = None;
    assert_eq!(
        cluster.send("GET", "leveret/queues/%2F/q/unacked").status,
        503
    );
    assert_eq!(
        cluster
            .send("GET", "leveret/queues/%2F/none/unacked")
            .status,
        404
    );
}
