//! Quorum queues over the API, on a node that is faked as one of a cluster.

use crate::api::Api;
use crate::fake::{Fake, Group};
use leveret_types::NodeId;
use serde_json::json;

fn start(group: Group) -> Api {
    let node = Fake::default();
    *node.group.lock().expect("the group") = Some(group);
    Api::of(node, |app| app)
}

#[test]
fn a_quorum_queue_is_led_by_who_leads_it_and_by_nobody_where_nobody_does() {
    let [form, warren] = [2, 3].map(NodeId);
    let [first, second, third] = ["leveret@burrow", "leveret@form", "leveret@warren"];
    // Whom the member here takes for the leader, who says that it leads, who is down; and the
    // node, the leader and the state that are shown.
    for (leader, leads, down, shown) in [
        (None, None, None, (first, None, "down")),
        (Some(form), None, None, (second, Some(second), "running")),
        (Some(form), None, Some(form), (second, None, "down")),
        (
            Some(form),
            Some(warren),
            None,
            (third, Some(third), "running"),
        ),
        (
            None,
            Some(warren),
            Some(form),
            (third, Some(third), "running"),
        ),
    ] {
        let api = start(Group {
            leader,
            down,
            leads,
        });
        let listed = api.get("/api/queues/other");
        let listed = listed.as_array().expect("a list").last().cloned();
        for queue in [api.get("/api/queues/other/r"), listed.expect("a queue")] {
            let (node, leader, state) = shown;
            let expected = json!({"node": node, "leader": leader, "state": state});
            for (field, value) in expected.as_object().expect("an object") {
                assert_eq!(queue.get(field), Some(value), "{field} of {queue}");
            }
            let messages = if leads.is_some() { 7 } else { 0 };
            assert_eq!(queue["messages"], messages);
        }
    }
}

#[test]
fn what_a_replica_has_done_is_told_by_queue_and_summed_up() {
    let api = start(Group::default());
    let of_queue = "{vhost=\"other\",queue=\"r\"}";
    let family = "/metrics/detailed?family=ra_metrics";
    for (page, prefix, labels) in [("/metrics", "", ""), (family, "detailed_", of_queue)] {
        let text = api.metrics(page).body;
        for (name, value) in [
            ("term", 7),
            ("aer_received_follower", 40),
            ("elections", 2),
            ("commands", 0),
        ] {
            let line = format!("rabbitmq_{prefix}raft_{name}{labels} {value}");
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let head = format!("# TYPE rabbitmq_{prefix}raft_elections counter");
        assert!(text.lines().any(|found| found == head), "{text}");
    }
    // As in RabbitMQ, the page of all objects has fewer of a queue.
    let each = api.metrics("/metrics/per-object").body;
    assert!(each.contains(&format!("rabbitmq_raft_term{of_queue} 7")));
    assert!(!each.contains("raft_elections"), "{each}");
}

#[test]
fn a_virtual_host_names_all_nodes_that_serve_it() {
    let api = start(Group {
        down: Some(NodeId(2)),
        ..Group::default()
    });
    let serving = json!({"leveret@burrow": "running", "leveret@warren": "running"});
    assert_eq!(api.get("/api/vhosts/other")["cluster_state"], serving);
    let listed = api.get("/api/vhosts");
    let rows = listed.as_array().expect("a list").iter();
    assert!(rows.len() > 1);
    for row in rows {
        assert_eq!(row["cluster_state"], serving);
    }
}

const OF_QUEUE: &str = "/api/queues/quorum/other/r/replicas";
const ON_NODE: &str = "/api/queues/quorum/replicas/on";

#[test]
fn members_of_quorum_queues_come_and_go() {
    let api = start(Group::default());
    let (queue, on) = (OF_QUEUE, ON_NODE);
    let body = r#"{"node":"leveret@form"}"#;
    let which = r#"{"vhost_pattern":"^o","queue_pattern":"r$","strategy":"even"}"#;
    for (method, path, body, status, asked) in [
        (
            "POST",
            format!("{queue}/add"),
            body,
            204,
            r#"AddMember { vhost: "other", queue: "r", node: "leveret@form" }"#,
        ),
        (
            "DELETE",
            format!("{queue}/delete"),
            body,
            202,
            r#"RemoveMember { vhost: "other", queue: "r", node: "leveret@form" }"#,
        ),
        (
            "POST",
            format!("{on}/leveret@form/grow"),
            which,
            204,
            r#"Grow { node: "leveret@form", vhosts: "^o", queues: "r$", even: true }"#,
        ),
        (
            "POST",
            format!("{on}/2/grow"),
            r#"{"strategy":"all"}"#,
            204,
            r#"Grow { node: "leveret@form", vhosts: ".*", queues: ".*", even: false }"#,
        ),
        (
            "DELETE",
            format!("{on}/leveret%40warren/shrink"),
            "",
            202,
            r#"Shrink { node: "leveret@warren", vhosts: ".*", queues: ".*" }"#,
        ),
        (
            "POST",
            "/api/leveret/cluster/grow-to-count".to_owned(),
            r#"{"count":3,"strategy":"even"}"#,
            200,
            r#"GrowTo { count: 3, vhosts: ".*", queues: ".*", even: true }"#,
        ),
    ] {
        let answer = api.admin(method, &path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(api.asked(), [asked], "{method} {path}");
    }
}

#[test]
fn members_that_cannot_come_or_go_are_refused() {
    let api = start(Group {
        down: Some(NodeId(3)),
        ..Group::default()
    });
    let (queue, on) = (OF_QUEUE, ON_NODE);
    for (method, path, body, status, part) in [
        ("POST", format!("{queue}/add"), "{}", 400, "node"),
        (
            "POST",
            format!("{queue}/add"),
            r#"{"node":"nowhere"}"#,
            400,
            "the cluster has no node nowhere",
        ),
        (
            "POST",
            "/api/queues/quorum/other/none/replicas/add".to_owned(),
            r#"{"node":"leveret@form"}"#,
            404,
            "Not Found",
        ),
        (
            "POST",
            format!("{on}/leveret@form/grow"),
            r#"{"strategy":"odd"}"#,
            400,
            "strategy 'odd' is not recognised",
        ),
        ("POST", format!("{on}/nowhere/grow"), "{}", 404, "Not Found"),
        // It is down.
        ("POST", format!("{on}/3/grow"), "{}", 404, "Not Found"),
        (
            "DELETE",
            format!("{on}/nowhere/shrink"),
            "",
            404,
            "Not Found",
        ),
        ("GET", format!("{queue}/add"), "", 405, "POST"),
    ] {
        let answer = api.admin(method, &path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let reason = answer.json()["reason"].to_string();
        assert!(reason.contains(part), "{method} {path}: {answer:?}");
    }
}

#[test]
fn bytes_that_wait_for_another_node_are_told_by_its_name() {
    let page = start(Group::default()).metrics("/metrics").body;
    for (peer, bytes) in [("leveret@form", 14), ("leveret@warren", 21)] {
        let line = format!("rabbitmq_leveret_peer_unsent_bytes{{peer=\"{peer}\"}} {bytes}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
    let own = "rabbitmq_leveret_peer_unsent_bytes{peer=\"leveret@burrow\"}";
    assert!(!page.contains(own), "nothing waits for the node itself");
}
