//! Streams over the API: their clients, what they keep by name, super streams.

use crate::api::Api;
use crate::fake::{Fake, STREAM};
use leveret_management::answers;
use leveret_management::question::Question;
use leveret_types::NodeId;
use leveret_types::limits::STREAM_PARTITIONS_MAX;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;

fn start() -> Api {
    let node = Fake::default();
    node.has_stream.store(true, Relaxed);
    Api::of(node, |app| app)
}

const CONNECTION: &str = "127.0.0.1:3%20-%3E%20127.0.0.1:5672";

/// Some fields of each row.
fn fields(rows: &Value, names: &[&str]) -> Vec<Vec<Value>> {
    let rows = rows.as_array().expect("a list").iter();
    rows.map(|row| names.iter().map(|name| row[*name].clone()).collect())
        .collect()
}

#[test]
fn readers_of_a_stream_count_at_whichever_replica_they_read() {
    let id = STREAM.0;
    let delivered = json!({"deliver": 5, "deliver_get": 5, "ack": 4});
    let at_form = json!([{
        "id": id,
        "follows": true,
        "consumers": 3,
        "readers": {"leveret@form": 3},
        "message_stats": delivered,
    }]);
    let at_warren =
        json!([{"id": id, "messages": 41, "consumers": 1, "readers": {"leveret@warren": 1}}]);
    let (here, two) = (
        json!({"leveret@burrow": 2, "leveret@form": 3}),
        json!({"leveret@burrow": 2, "leveret@form": 3, "leveret@warren": 1}),
    );
    // Led here, and by another node of which one more has a replica.
    for (follows, told, consumers, messages, readers) in [
        (false, vec![(NodeId(2), &at_form)], 5, 40, here),
        (
            true,
            vec![(NodeId(2), &at_form), (NodeId(3), &at_warren)],
            6,
            41,
            two,
        ),
    ] {
        let api = start();
        api.node.stream_follows.store(follows, Relaxed);
        let told = told
            .into_iter()
            .map(|(node, told)| (node, told.to_string()));
        *api.node.told_elsewhere.lock().expect("told") = told.collect();
        let page = api.get("/api/queues?page=1&page_size=9&name=s");
        let sorted = api.get("/api/queues?sort=consumers&sort_reverse=true");
        for row in [
            api.get("/api/queues/%2F/s"),
            page["items"][0].clone(),
            sorted[0].clone(),
        ] {
            assert_eq!(
                (&row["name"], &row["messages"]),
                (&json!("s"), &json!(messages))
            );
            assert_eq!(row["consumers"], consumers, "{row}");
            assert_eq!(row["readers"], readers);
            for (figure, count) in delivered.as_object().expect("figures") {
                assert_eq!(row["message_stats"][figure], *count, "{row}");
            }
        }
        let path = "/api/queues?sort=message_stats.deliver&sort_reverse=true";
        assert_eq!(api.get(path)[0]["name"], "s");
        // To others a node that does not lead tells of its readers alone.
        let asked = Question::QueuesOf {
            ids: vec![id],
            ranges: Default::default(),
        };
        let answer = answers::answer(&api.app, asked.encode().as_bytes());
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer[0]["readers"], json!({"leveret@burrow": 2}));
        assert_eq!(answer[0]["follows"] == true, follows, "{answer}");
        assert_eq!(answer[0].get("messages").is_some(), !follows, "{answer}");
    }
}

#[test]
fn publishers_are_listed_by_all_by_vhost_by_stream_and_by_connection() {
    let api = start();
    let expected = json!([{
        "connection_details": {
            "name": "127.0.0.1:3 -> 127.0.0.1:5672",
            "user": "management",
            "node": "leveret@burrow",
            "peer_host": "",
            "peer_port": 0,
        },
        "queue": {"name": "s", "vhost": "/"},
        "publisher_id": 7,
        "reference": "orders",
        "published": 40,
        "confirmed": 39,
        "errored": 1,
    }]);
    for path in [
        "publishers",
        "publishers/%2F",
        "publishers/%2F/s",
        &format!("connections/%2F/{CONNECTION}/publishers"),
    ] {
        assert_eq!(api.get(&format!("/api/stream/{path}")), expected, "{path}");
    }
    for path in ["publishers/other", "publishers/%2F/q"] {
        assert_eq!(api.get(&format!("/api/stream/{path}")), json!([]), "{path}");
    }
    let missing = api.admin("GET", "/api/stream/publishers/%2F/none", "");
    assert_eq!(missing.status, 404);
}

#[test]
fn subscriptions_show_how_far_they_are_and_who_is_active() {
    let api = start();
    for path in [
        "consumers",
        "consumers/%2F",
        &format!("connections/%2F/{CONNECTION}/consumers"),
    ] {
        let rows = api.get(&format!("/api/stream/{path}"));
        let names = [
            "subscription_id",
            "consumed",
            "offset",
            "offset_lag",
            "credits",
            "active",
            "activity_status",
        ];
        let expected = [
            json!([0, 30, 29, 10, 10, true, "single_active"]),
            json!([1, 0, 0, 40, 10, false, "waiting"]),
        ];
        assert_eq!(json!(fields(&rows, &names)), json!(expected), "{path}");
        let properties = json!({"name": "group", "single-active-consumer": "true"});
        assert_eq!(rows[0]["properties"], properties);
    }
    assert_eq!(api.get("/api/stream/consumers/other"), json!([]));
    // They have no name of their own.
    for (stream, count) in [("s", 2), ("t", 0)] {
        let page = api.get(&format!("/api/stream/consumers?page=1&name={stream}"));
        assert_eq!(page["filtered_count"], count, "{stream}");
    }
}

#[test]
fn only_connections_of_the_stream_protocol_are_among_those_of_streams() {
    let api = start();
    for path in ["connections", "connections/%2F"] {
        let rows = api.get(&format!("/api/stream/{path}"));
        assert_eq!(
            json!(fields(&rows, &["protocol"])),
            json!([["stream"]]),
            "{path}"
        );
    }
    assert_eq!(api.get("/api/stream/connections/other"), json!([]));
    let path = format!("/api/stream/connections/%2F/{CONNECTION}");
    assert_eq!(api.get(&path)["protocol"], "stream");
    assert_eq!(api.by("management", "GET", &path, "").status, 200);
    // Another user's, one of AMQP, and one that is in another virtual host.
    assert_eq!(api.by("policymaker", "GET", &path, "").status, 404);
    let amqp = "/api/stream/connections/%2F/127.0.0.1:1%20-%3E%20127.0.0.1:5672";
    assert_eq!(api.admin("GET", amqp, "").status, 404);
    let elsewhere = format!("/api/stream/connections/other/{CONNECTION}");
    assert_eq!(api.admin("GET", &elsewhere, "").status, 404);
    assert_eq!(api.admin("DELETE", &path, "").status, 204);
    assert_eq!(api.asked(), ["close 3 Closed via management plugin"]);
}

/// The rows of the table of permissions that are about one connection of the stream protocol.
fn rows_of_stream_connections() -> impl Iterator<Item = Vec<&'static str>> {
    let table = include_str!("../../../../tests/interop/permissions.txt");
    let rows = table.lines().filter(|row| row.starts_with("OWNER "));
    let rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[2].starts_with("/api/stream/connections/"))
}

#[test]
fn a_stream_connection_is_its_users_own_affair() {
    // The users of the table's columns, without those who have no tag.
    let users = ["management", "policymaker", "monitoring", "administrator"];
    let api = start();
    let path = |row: &str| row.replace("{vhost}", "%2F").replace("{}", CONNECTION);
    let may = |user: &str, method: &str, path: &str| api.by(user, method, path, "").status < 300;
    let mut rows = 0;
    for row in rows_of_stream_connections() {
        let (method, path, own, foreign) = (row[1], path(row[2]), row[3], row[4]);
        rows += 1;
        for (at, user) in (2..).zip(users) {
            // It is the first one's.
            let expected = if at == 2 { own } else { foreign };
            let found = may(user, method, &path);
            assert_eq!(found, expected.as_bytes()[at] == b'+', "{row:?} {user}");
            let closed = "close 3 Closed via management plugin".to_owned();
            let closes = method == "DELETE" && found;
            assert_eq!(api.asked(), if closes { vec![closed] } else { vec![] });
        }
    }
    assert_eq!(rows, 4);
}

#[test]
fn a_stream_shows_what_it_has_beside_what_all_queues_have() {
    let api = start();
    let stream = api.get("/api/queues/%2F/s");
    for (field, expected) in [
        ("type", json!("stream")),
        ("messages", json!(40)),
        ("segments", json!(1)),
        ("readers", json!({"leveret@burrow": 2})),
        ("publishers", json!(1)),
        ("first_offset", json!(0)),
        ("committed_offset", json!(39)),
        ("leader", json!("leveret@burrow")),
        ("members", json!(["leveret@burrow"])),
        ("online", json!(["leveret@burrow"])),
    ] {
        assert_eq!(stream[field], expected, "{field}");
    }
    assert_eq!(api.get("/api/queues/%2F/q").get("segments"), None);
}

#[test]
fn what_a_stream_keeps_by_name_is_shown_whole_or_in_part() {
    let api = start();
    let (offsets, writers) = (json!({"group": 0, "other": 17}), json!({"orders": 39}));
    for (query, expected) in [
        ("", json!({"offsets": offsets, "writers": writers})),
        ("?type=offset", json!({"offsets": offsets})),
        ("?type=writer", json!({"writers": writers})),
    ] {
        let path = format!("/api/stream/%2F/s/tracking{query}");
        assert_eq!(api.get(&path), expected, "{query}");
    }
    assert_eq!(
        api.admin("GET", "/api/stream/%2F/none/tracking", "").status,
        404
    );
    assert_eq!(
        api.admin("GET", "/api/stream/%2F/q/tracking", "").status,
        400
    );
}

#[test]
fn every_replica_of_a_stream_says_how_it_stands() {
    let api = start();
    let path = "/api/leveret/streams/%2F/s/status";
    let row = |role: &str, node: &str, offsets: [i64; 3], counts: [u64; 2]| {
        json!({
            "role": role,
            "node": node,
            "offset": offsets[0],
            "committed_offset": offsets[1],
            "first_offset": offsets[2],
            "readers": counts[0],
            "segments": counts[1],
            "state": if role == "unknown" { role } else { "running" },
        })
    };
    let alone = row("writer", "leveret@burrow", [41, 39, 0], [2, 1]);
    assert_eq!(api.get(path), json!([alone]));
    // The leader comes first; one that does not answer is shown as well.
    api.node.stream_follows.store(true, Relaxed);
    let led = r#"{"role": "writer", "offset": 50, "committed_offset": 41, "segments": 3}"#;
    *api.node.told_elsewhere.lock().expect("told") = vec![(NodeId(3), led.to_owned())];
    let rows = json!([
        row("writer", "leveret@warren", [50, 41, 0], [0, 3]),
        row("replica", "leveret@burrow", [41, 39, 0], [2, 1]),
        row("unknown", "leveret@form", [-1, -1, -1], [0, 0]),
    ]);
    assert_eq!(api.get(path), rows);
    let asked = Question::StreamReplica { stream: STREAM.0 };
    let answer = answers::answer(&api.app, asked.encode().as_bytes());
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(
        (&answer["role"], &answer["offset"]),
        (&json!("replica"), &json!(41))
    );
    let elsewhere = Question::StreamReplica { stream: 1 };
    let answer = answers::answer(&api.app, elsewhere.encode().as_bytes());
    assert_eq!(answer, b"null");
    let of_no_stream = "/api/leveret/streams/%2F/q/status";
    assert_eq!(api.admin("GET", of_no_stream, "").status, 400);
    let none = "/api/leveret/streams/%2F/none/status";
    assert_eq!(api.admin("GET", none, "").status, 404);
}

#[test]
fn an_operator_stores_an_offset_for_a_consumer() {
    let api = start();
    let path = "/api/leveret/streams/%2F/s/offsets/a%20group";
    assert_eq!(api.admin("PUT", path, r#"{"offset": 12}"#).status, 204);
    assert_eq!(api.asked(), ["store 8 a group 12"]);
    for body in ["{}", r#"{"offset": -1}"#, r#"{"offset": "first"}"#] {
        assert_eq!(api.admin("PUT", path, body).status, 400, "{body}");
    }
    assert_eq!(
        api.by("monitoring", "PUT", path, r#"{"offset": 1}"#).status,
        401
    );
    assert_eq!(api.asked(), [""; 0]);
}

#[test]
fn an_operator_gives_a_stream_a_replica_and_takes_it_away() {
    let api = start();
    let path = "/api/leveret/streams/%2F/s/replicas/leveret@b";
    assert_eq!(api.admin("POST", path, "").status, 204);
    assert_eq!(api.admin("DELETE", path, "").status, 204);
    let asked = ["replica 8 leveret@b true", "replica 8 leveret@b false"];
    assert_eq!(api.asked(), asked);
    let nowhere = "/api/leveret/streams/%2F/s/replicas/nowhere";
    let refused = api.admin("POST", nowhere, "");
    assert_eq!(refused.status, 400);
    let alone = "/api/leveret/streams/%2F/s/replicas/alone";
    let refused = api.admin("POST", alone, "");
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("in no cluster"), "{}", refused.body);
    let of_no_stream = "/api/leveret/streams/%2F/q/replicas/leveret@b";
    assert_eq!(api.admin("POST", of_no_stream, "").status, 400);
    assert_eq!(api.by("monitoring", "POST", path, "").status, 401);
}

#[test]
fn a_super_stream_is_an_exchange_and_a_stream_for_each_key() {
    let api = start();
    let path = "/api/stream/super-streams/%2F/invoices";
    let body =
        r#"{"binding-keys": "eu, us", "arguments": {"max-length-bytes": "1000", "max-age": "1h"}}"#;
    assert_eq!(api.admin("PUT", path, body).status, 204);
    let asked = api.asked();
    let named = |line: &str, wanted: &[&str]| wanted.iter().all(|word| line.contains(word));
    for (line, wanted) in asked.iter().zip([
        &[
            "DeclareExchange",
            "\"invoices\"",
            "direct",
            "x-super-stream",
        ][..],
        &[
            "DeclareQueue",
            "\"invoices-eu\"",
            "x-queue-type",
            "x-max-length-bytes\", I64(1000",
            "x-max-age",
        ],
        &[
            "Bind",
            "\"invoices-eu\"",
            "\"eu\"",
            "x-stream-partition-order\", I64(0",
        ],
        &["DeclareQueue", "\"invoices-us\""],
        &[
            "Bind",
            "\"invoices-us\"",
            "\"us\"",
            "x-stream-partition-order\", I64(1",
        ],
    ]) {
        assert!(named(line, wanted), "{line}: {wanted:?}");
    }
    assert_eq!(asked.len(), 5);
    assert_eq!(api.admin("PUT", path, r#"{"partitions": 2}"#).status, 204);
    let asked = api.asked();
    assert!(named(&asked[1], &["\"invoices-0\""]) && named(&asked[3], &["\"invoices-1\""]));
}

#[test]
fn how_keys_lead_to_partitions_is_said_by_the_exchange_alone() {
    let api = start();
    let path = "/api/stream/super-streams/%2F/invoices";
    for argument in ["super-stream-routing", "x-super-stream-routing"] {
        let body = format!(r#"{{"partitions": 1, "arguments": {{"{argument}": "hash"}}}}"#);
        assert_eq!(api.admin("PUT", path, &body).status, 204);
        let asked = api.asked();
        let routing = "x-super-stream-routing\", LongString([104, 97, 115, 104]";
        assert!(
            asked[0].contains("DeclareExchange") && asked[0].contains(routing),
            "{asked:?}"
        );
        assert!(
            asked[1..].iter().all(|line| !line.contains("routing\"")),
            "{asked:?}"
        );
    }
}

#[test]
fn super_streams_are_refused_in_rabbitmqs_words() {
    let api = start();
    let path = "/api/stream/super-streams/%2F/invoices";
    let many = format!(r#"{{"partitions": {}}}"#, STREAM_PARTITIONS_MAX + 1);
    for (body, reason) in [
        ("{}", "Must specify partitions or binding keys"),
        (
            r#"{"partitions": 1, "binding-keys": "a"}"#,
            "Specify partitions or binding keys, not both",
        ),
        (
            r#"{"partitions": 0}"#,
            "The partition number must be greater than 0",
        ),
        (r#"{"partitions": "x"}"#, "The partitions must be a number"),
        (&many, "The partition number must not exceed 1000"),
        (
            r#"{"binding-keys": " , "}"#,
            "The number of binding keys must be greater than 0",
        ),
        (
            r#"{"binding-keys": "a,a"}"#,
            "There are duplicate binding keys",
        ),
        (
            r#"{"partitions": 1, "arguments": {"queue-type": "quorum"}}"#,
            "a partition of a super stream is a stream",
        ),
    ] {
        let answer = api.admin("PUT", path, body);
        assert_eq!(
            (answer.status, &answer.json()["reason"]),
            (400, &json!(reason)),
            "{body}"
        );
    }
    let taken = api.admin(
        "PUT",
        "/api/stream/super-streams/%2F/x",
        r#"{"partitions": 1}"#,
    );
    assert_eq!(taken.status, 400);
    assert_eq!(api.asked(), [""; 0]);
}

#[test]
fn a_super_stream_that_cannot_be_made_whole_is_not_there() {
    let api = start();
    // The faked node refuses a queue of that name.
    let path = "/api/stream/super-streams/%2F/inequivalent";
    let body = r#"{"binding-keys": "one,refused"}"#;
    let refused = "inequivalent-refused".to_owned();
    *api.node.refused_queue.lock().expect("the queue") = Some(refused);
    assert_eq!(api.admin("PUT", path, body).status, 401);
    let asked = api.asked();
    let deleted = deleted(&asked);
    assert_eq!(deleted.len(), 2, "{asked:?}");
    assert!(
        deleted[0].ends_with("DeleteQueue inequivalent-one 77"),
        "{asked:?}"
    );
    assert!(deleted[1].contains("DeleteExchange"), "{asked:?}");
}

/// What was asked for that deletes something.
fn deleted(asked: &[String]) -> Vec<&String> {
    let deletes = |line: &&String| line.contains("Delete");
    asked.iter().filter(deletes).collect()
}

#[test]
fn a_super_stream_that_cannot_be_made_leaves_what_others_made_meanwhile() {
    let api = start();
    let path = "/api/stream/super-streams/%2F/late";
    let body = r#"{"binding-keys": "a,b,c"}"#;
    let somebody_makes = |name: &str| {
        *api.node.made_meanwhile.lock().expect("the name") = Some(name.to_owned());
    };
    somebody_makes("late-b");
    let answer = api.admin("PUT", path, body);
    let reason = "there is a queue 'late-b' already";
    assert_eq!(
        (answer.status, &answer.json()["reason"]),
        (400, &json!(reason))
    );
    let asked = api.asked();
    let gone = deleted(&asked);
    assert_eq!(gone.len(), 2, "{asked:?}");
    assert!(gone[0].ends_with("DeleteQueue late-a 77"), "{asked:?}");
    assert!(gone[1].contains("DeleteExchange"), "{asked:?}");
    somebody_makes("late");
    let answer = api.admin("PUT", path, body);
    let reason = "there is an exchange 'late' already";
    assert_eq!(
        (answer.status, &answer.json()["reason"]),
        (400, &json!(reason))
    );
    let asked = api.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    // So it is with partitions that are added.
    somebody_makes("orders-y");
    let more = "/api/leveret/super-streams/%2F/orders/partitions";
    assert_eq!(
        api.admin("POST", more, r#"{"binding-keys": "y,z"}"#).status,
        400
    );
    assert_eq!(deleted(&api.asked()), [""; 0]);
}

#[test]
fn a_super_stream_of_which_a_partition_may_not_be_deleted_stays_whole() {
    let api = start();
    *api.node.kept_queue.lock().expect("the queue") = Some("orders-b".to_owned());
    let path = "/api/stream/super-streams/%2F/orders";
    assert_eq!(api.admin("DELETE", path, "").status, 401);
    assert_eq!(api.asked(), [""; 0]);
}

#[test]
fn super_streams_are_listed_with_their_partitions_in_order_and_deleted_with_them() {
    let api = start();
    let partitions = json!([
        {"name": "orders-a", "binding_key": "a", "drained": false},
        {"name": "orders-b", "binding_key": "b", "drained": false},
    ]);
    for path in ["", "/%2F"] {
        let rows = api.get(&format!("/api/stream/super-streams{path}"));
        assert_eq!(
            json!(fields(&rows, &["name", "partitions"])),
            json!([["orders", partitions]])
        );
    }
    let path = "/api/stream/super-streams/%2F/orders";
    assert_eq!(api.admin("DELETE", path, "").status, 204);
    let asked = api.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(
        api.admin("DELETE", "/api/stream/super-streams/%2F/x", "")
            .status,
        404
    );
}

#[test]
fn partitions_are_added_behind_those_that_are_there() {
    let api = start();
    let path = "/api/leveret/super-streams/%2F/orders/partitions";
    let answer = api.admin("POST", path, r#"{"binding-keys": "c"}"#);
    assert_eq!(answer.status, 200);
    let added = json!([{"name": "orders-c", "binding_key": "c"}]);
    assert_eq!(answer.json(), json!({"name": "orders", "added": added}));
    let asked = api.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].contains("DeclareQueue") && asked[0].contains("\"orders-c\""));
    assert!(asked[1].contains("Bind") && asked[1].contains("x-stream-partition-order\", I64(2"));
    // As many as are wanted, by the next numbers.
    let body = r#"{"partitions": 2, "arguments": {"max-age": "1h"}}"#;
    assert_eq!(api.admin("POST", path, body).status, 200);
    let asked = api.asked();
    assert!(asked[0].contains("\"orders-2\"") && asked[0].contains("x-max-age"));
    assert!(asked[2].contains("\"orders-3\"") && asked[3].contains("order\", I64(3"));
}

#[test]
fn a_partition_is_drained_by_its_binding_and_keeps_its_place() {
    let api = start();
    let path =
        |partition: &str| format!("/api/leveret/super-streams/%2F/orders/drained/{partition}");
    let row = json!({"name": "orders-b", "binding_key": "b", "drained": false});
    assert_eq!(api.get(&path("orders-b")), row);
    assert_eq!(api.admin("PUT", &path("orders-b"), "").status, 204);
    let asked = api.asked();
    let [bind, unbind] = &asked[..] else {
        panic!("{asked:?}");
    };
    let order = "x-stream-partition-order\", I64(1)";
    let drained = "x-stream-partition-drained\", Bool(true)";
    assert!(
        bind.contains(" Bind(") && bind.contains(order) && bind.contains(drained),
        "{bind}"
    );
    assert!(
        unbind.contains("Unbind(") && unbind.contains(order),
        "{unbind}"
    );
    assert!(!unbind.contains("drained"), "{unbind}");
    // It is none: nothing is to be done.
    assert_eq!(api.admin("DELETE", &path("orders-b"), "").status, 204);
    for unknown in ["orders-z", "q"] {
        assert_eq!(api.admin("PUT", &path(unknown), "").status, 404);
    }
    let elsewhere = "/api/leveret/super-streams/%2F/x/drained/q";
    assert_eq!(api.admin("PUT", elsewhere, "").status, 404);
    assert_eq!(api.asked(), [""; 0]);
}

#[test]
fn partitions_that_cannot_be_added_change_nothing() {
    let api = start();
    let path = "/api/leveret/super-streams/%2F/orders/partitions";
    let post = |body: &str| api.admin("POST", path, body).status;
    for (count, status) in [(STREAM_PARTITIONS_MAX - 1, 400), (0, 400)] {
        assert_eq!(post(&format!(r#"{{"partitions": {count}}}"#)), status);
    }
    assert_eq!(
        post(r#"{"binding-keys": "new,a"}"#),
        400,
        "a key that is there"
    );
    let unknown = "/api/leveret/super-streams/%2F/x/partitions";
    let answer = api.admin("POST", unknown, r#"{"partitions": 1}"#);
    assert_eq!(answer.status, 404);
    assert_eq!(api.asked(), [""; 0]);
    let most = format!(r#"{{"partitions": {}}}"#, STREAM_PARTITIONS_MAX - 2);
    assert_eq!(post(&most), 200, "as many as may be");
    api.asked();
    // The last one is refused: what was made before it goes.
    *api.node.refused_queue.lock().expect("the queue") = Some("orders-z".to_owned());
    assert_eq!(post(r#"{"binding-keys": "y,z"}"#), 401);
    let asked = api.asked();
    let deleted = asked.iter().filter(|line| line.contains("DeleteQueue"));
    assert_eq!(deleted.count(), 1, "{asked:?}");
    assert!(!asked.iter().any(|line| line.contains("DeleteExchange")));
}

#[test]
fn metrics_tell_clients_of_streams_from_those_of_amqp() {
    let api = start();
    let page = api.metrics("/metrics").body;
    for line in [
        r#"rabbitmq_global_messages_received_total{protocol="stream"} 40"#,
        r#"rabbitmq_global_messages_confirmed_total{protocol="stream"} 39"#,
        r#"rabbitmq_global_messages_delivered_total{protocol="stream",queue_type="rabbit_stream_queue"} 30"#,
        r#"rabbitmq_global_publishers{protocol="stream"} 1"#,
        r#"rabbitmq_global_consumers{protocol="stream"} 2"#,
        r#"rabbitmq_global_stream_error_stream_does_not_exist_total{protocol="stream"} 3"#,
        r#"rabbitmq_global_stream_error_access_refused_total{protocol="stream"} 0"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in {page}");
    }
    let page = api
        .metrics("/metrics/detailed?family=stream_consumer_metrics")
        .body;
    let line = r#"rabbitmq_detailed_stream_consumer_max_offset_lag{vhost="/",queue="s"} 40"#;
    assert!(page.lines().any(|found| found == line), "{page}");
    let page = api.metrics("/metrics/detailed?family=queue_metrics").body;
    let line = r#"rabbitmq_detailed_stream_segments{vhost="/",queue="s"} 1"#;
    assert!(page.lines().any(|found| found == line), "{page}");
}

#[test]
fn groups_are_listed_with_offset_lag_rate_and_members_also_of_those_without_any() {
    let api = start();
    let rows = api.get("/api/leveret/stream-groups");
    let names = [
        "vhost",
        "stream",
        "name",
        "unused",
        "lag",
        "rate",
        "super_stream",
    ];
    let expected = [
        json!(["/", "s", "group", false, 36, 0.0, false]),
        json!(["/", "s", "other", true, 19, 2.5, false]),
    ];
    assert_eq!(json!(fields(&rows, &names)), json!(expected));
    assert_eq!(rows[0]["members"].as_array().map(Vec::len), Some(2));
    let partition = json!([{
        "stream": "s",
        "offset": 17,
        "first_offset": 0,
        "committed_offset": 39,
        "lag": 19,
        "rate": 2.5,
    }]);
    assert_eq!(rows[1]["partitions"], partition);
    for path in ["", "/%2F", "/%2F/s"] {
        let again = api.get(&format!("/api/leveret/stream-groups{path}"));
        assert_eq!(again, rows, "{path}");
    }
    assert_eq!(api.get("/api/leveret/stream-groups/%2F/s/other"), rows[1]);
    let unused = api.get("/api/leveret/stream-groups?unused=true");
    assert_eq!(unused, json!([rows[1]]));
    for path in ["%2F/s/none", "%2F/none/group", "%2F/q/group"] {
        let path = format!("/api/leveret/stream-groups/{path}");
        assert_eq!(api.admin("GET", &path, "").status, 404, "{path}");
    }
}

#[test]
fn an_operator_sets_the_offset_of_a_group_and_its_consumers_are_moved() {
    let api = start();
    let path = "/api/leveret/stream-groups/%2F/s/group";
    for (body, place) in [
        (r#"{"offset": "first"}"#, "First"),
        (r#"{"offset": "last"}"#, "Last"),
        (r#"{"offset": 7, "partition": "s"}"#, "Offset(7)"),
        (r#"{"timestamp": 5}"#, "TimestampMs(5)"),
        (
            r#"{"timestamp": "1970-01-01T02:00:00.005+02:00"}"#,
            "TimestampMs(5)",
        ),
    ] {
        let answer = api.admin("PUT", path, body);
        assert_eq!(answer.status, 200, "{body}");
        let told = json!({"name": "group", "partitions": [{"stream": "s", "offset": 12}]});
        assert_eq!(answer.json(), told);
        assert_eq!(
            api.asked(),
            [format!("set 8 group {place}"), "move s group 12".to_owned()]
        );
    }
    for (body, status) in [
        (r#"{"timestamp": 0}"#, 400),
        (r#"{"timestamp": 1}"#, 503),
        (r#"{"offset": 7, "partition": "other"}"#, 404),
    ] {
        assert_eq!(api.admin("PUT", path, body).status, status, "{body}");
    }
    drop(api.asked());
    for body in [
        "{}",
        r#"{"offset": -1}"#,
        r#"{"offset": "next"}"#,
        r#"{"offset": 1, "timestamp": 1}"#,
        r#"{"timestamp": "soon"}"#,
    ] {
        assert_eq!(api.admin("PUT", path, body).status, 400, "{body}");
    }
    let most = "g".repeat(255);
    let path = |name: &str| format!("/api/leveret/stream-groups/%2F/s/{name}");
    assert_eq!(
        api.admin("PUT", &path(&most), r#"{"offset": 1, "create": true}"#)
            .status,
        200
    );
    drop(api.asked());
    let unknown = api.admin("PUT", &path("nosuch"), r#"{"offset": 1}"#);
    assert_eq!(unknown.status, 400, "a name that nobody stores under");
    assert_eq!(
        api.admin("PUT", &path(&(most + "g")), r#"{"offset": 1}"#)
            .status,
        400
    );
    assert_eq!(
        api.by("monitoring", "PUT", &path("g"), r#"{"offset": 1}"#)
            .status,
        401
    );
    assert_eq!(api.asked(), [""; 0]);
}

#[test]
fn a_group_is_deleted_once_nobody_is_connected_under_it() {
    let api = start();
    let path = |name| format!("/api/leveret/stream-groups/%2F/s/{name}");
    assert_eq!(
        api.admin("DELETE", &path("group"), "").status,
        412,
        "it has members"
    );
    assert_eq!(api.admin("DELETE", &path("none"), "").status, 404);
    assert_eq!(api.asked(), [""; 0]);
    assert_eq!(api.admin("DELETE", &path("other"), "").status, 204);
    assert_eq!(api.asked(), ["forget 8 other"]);
}

#[test]
fn messages_of_a_stream_are_shown_from_a_place_on_with_what_they_are() {
    let api = start();
    let path = "/api/leveret/streams/%2F/s/messages";
    let shown = api.get(path);
    let asked = "browse User(\"administrator\") / s Browse { from: First, count: 20, filter: [], \
                 match_unfiltered: false }";
    assert_eq!(api.asked(), [asked]);
    let message = |offset: u64, payload: &str, bytes: usize, encoding: &str| {
        json!({
            "offset": offset,
            "timestamp": 1000,
            "exchange": "",
            "routing_key": "s",
            "properties": {"app_id": "shop"},
            "payload": payload,
            "payload_bytes": bytes,
            "payload_encoding": encoding,
        })
    };
    let expected = json!({
        "messages": [
            message(0, "[\n  7\n]", 3, "json"),
            message(1, "ff00", 2, "hex"),
            {"offset": 2, "timestamp": 1000, "messages": 30, "unreadable": "packed"},
        ],
        "next_offset": 32,
        "first_offset": 0,
        "committed_offset": 39,
    });
    assert_eq!(shown, expected);
    let query = "?offset=last&count=1000&filter=a,b&match_unfiltered=true";
    drop(api.get(&format!("{path}{query}")));
    let wanted =
        "Browse { from: Last, count: 1000, filter: [\"a\", \"b\"], match_unfiltered: true }";
    assert!(api.asked()[0].ends_with(wanted));
    let dated = format!("{path}?timestamp=1970-01-01T00:00:00.005Z&count=1");
    api.admin("GET", &dated, "");
    let asked = api.asked().join("");
    assert!(asked.contains("from: TimestampMs(5), count: 1,"), "{asked}");
    for query in [
        "offset=-1",
        "offset=next",
        "timestamp=soon",
        "offset=1&timestamp=1",
        "count=0",
        "count=1001",
        "filter=a,,b",
    ] {
        assert_eq!(
            api.admin("GET", &format!("{path}?{query}"), "").status,
            400,
            "{query}"
        );
    }
    assert_eq!(
        api.admin("GET", "/api/leveret/streams/%2F/q/messages", "")
            .status,
        400
    );
    assert_eq!(api.asked(), [""; 0]);
}
