//! Lists of a cluster: what they cost the nodes, and what moves between them.

use crate::client::{Answer, basic, exchange};
use crate::fake::{Fake, cluster};
use leveret_management::{App, Endpoint, Server, Service};
use leveret_types::NodeId;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Three nodes, the first of which is asked.
pub struct Cluster {
    pub nodes: Vec<Arc<Fake>>,
    server: Server,
}

pub fn start(make: impl Fn(&Fake)) -> Cluster {
    let nodes = cluster::nodes(3, |fake| {
        make(&fake);
        Arc::new(fake)
    });
    let nodes: Vec<_> = nodes.into_iter().map(|(node, _)| node).collect();
    let any = "127.0.0.1:0".parse().expect("an address");
    let app = App::new(Arc::clone(&nodes[0]) as _, None, false);
    let server = Server::start(app, &[Endpoint::plain(Service::Api, any)]).expect("a port");
    Cluster { nodes, server }
}

impl Cluster {
    fn ask(&self, path: &str) -> Answer {
        self.send("GET", path)
    }

    pub fn send(&self, method: &str, path: &str) -> Answer {
        let address = self.server.plain_address(Service::Api);
        let authorization = basic("administrator", "administrator");
        let request = format!(
            "{method} /api/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Authorization: {authorization}\r\n\r\n"
        );
        exchange(address.expect("an address"), request.as_bytes())
    }

    pub fn get(&self, path: &str) -> Value {
        for node in &self.nodes {
            node.rows_made.store(0, Relaxed);
            node.all_asked.store(0, Relaxed);
        }
        let member = &self.nodes[0].member;
        member.moved_bytes.store(0, Relaxed);
        member.longest_bytes.store(0, Relaxed);
        member.waits.store(0, Relaxed);
        member.questions.store(0, Relaxed);
        let answer = self.ask(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.head);
        answer.json()
    }

    /// Rows that all nodes have made for the last list.
    fn rows_made(&self) -> u64 {
        let made = self.nodes.iter().map(|node| node.rows_made.load(Relaxed));
        made.sum()
    }

    /// How often a node was asked for all it has.
    fn all_asked(&self) -> u64 {
        let asked = self.nodes.iter().map(|node| node.all_asked.load(Relaxed));
        asked.sum()
    }

    fn moved_bytes(&self) -> u64 {
        self.nodes[0].member.moved_bytes.load(Relaxed)
    }

    pub fn silence(&self, node: u32, answers_before: u64) {
        let member = &self.nodes[0].member;
        member.before_silence.store(answers_before, Relaxed);
        *member.silent.lock().expect("silent") = vec![NodeId(node)];
    }
}

fn queues(count: u64) -> Cluster {
    start(|node| node.more_queues.store(count, Relaxed))
}

/// Each of the three nodes has so many.
fn connections(count: u64) -> Cluster {
    start(|node| node.more_connections.store(count, Relaxed))
}

fn names(list: &Value) -> Vec<String> {
    let rows = list.as_array().or_else(|| list["items"].as_array());
    let rows = rows.expect("a list").iter();
    let name = |row: &Value| match &row["name"] {
        Value::String(name) => name.clone(),
        _ => row["channel_details"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    };
    rows.map(name).collect()
}

#[test]
fn a_page_of_a_clusters_queues_costs_a_page() {
    let cluster = queues(20_000);
    for (query, first, messages) in [
        ("page=1&page_size=100&sort=name&sort_reverse=true", "q", 10),
        (
            "page=1&page_size=100&sort=messages&sort_reverse=true",
            "more-00020999",
            20_999,
        ),
        ("page=2&page_size=100&sort=messages", "more-00001097", 1_097),
        (
            "page=1&page_size=100&sort=messages_ready&name=more-0000[56]&use_regex=true",
            "more-00005000",
            5_000,
        ),
        (
            "page=2&page_size=100&sort=messages_details.rate",
            "more-00001099",
            1_099,
        ),
        (
            "page=2&page_size=100&sort=message_stats.publish_details.rate",
            "more-00001099",
            1_099,
        ),
        (
            "page=2&page_size=100&sort=message_stats.ack",
            "more-00001099",
            1_099,
        ),
        ("page=7&page_size=100&sort=durable", "more-00001599", 1_599),
    ] {
        let page = cluster.get(&format!("queues?{query}"));
        let items = page["items"].as_array().expect("items");
        assert_eq!(items.len(), 100, "{query}");
        assert_eq!(items[0]["name"], first, "{query}");
        assert_eq!(items[0]["messages"], messages, "{query}");
        assert_eq!(items[99]["state"], "running", "{query}");
        if !query.contains("durable") {
            assert_eq!(cluster.rows_made(), 100, "{query}");
        }
        assert_eq!(cluster.all_asked(), 0, "{query}");
        let moved = cluster.moved_bytes();
        assert!(moved < 32_000, "{query}: {moved} bytes moved");
    }
}

#[test]
fn every_page_of_a_clusters_queues_is_the_whole_lists_own() {
    let cluster = queues(300);
    for query in [
        "sort=messages",
        "sort=messages&sort_reverse=true",
        "sort=consumers",
        "sort=consumers&sort_reverse=true",
        "sort=messages_details.rate",
        "sort=node&sort_reverse=true",
        "sort=name&sort_reverse=true",
        "sort=nothing.of.that.kind",
        "",
    ] {
        let list = cluster.get(&format!("queues?{query}"));
        let whole = names(&list);
        assert_eq!(whole.len(), 303, "{query}");
        let mut paged = Vec::new();
        for page in 1..=6 {
            let page = cluster.get(&format!("queues?page={page}&page_size=60&{query}"));
            assert_eq!(page["filtered_count"], 303);
            paged.extend(names(&page));
        }
        assert_eq!(paged, whole, "{query}");
    }
}

#[test]
fn a_list_of_a_clusters_queues_asks_for_some_at_a_time() {
    let cluster = queues(20_000);
    // By messages there is a question more, for what the queues are sorted by.
    for (query, of_order) in [("", 0), ("?sort=messages&sort_reverse=true", 1)] {
        let list = cluster.get(&format!("queues{query}"));
        let rows = list.as_array().expect("a list");
        assert_eq!(rows.len(), 20_003, "{query}");
        for row in rows {
            let number = row["name"]
                .as_str()
                .and_then(|name| name.strip_prefix("more-"));
            let messages: Option<u64> = number.and_then(|number| number.parse().ok());
            if let Some(messages) = messages {
                assert_eq!(row["messages"], messages, "{query}");
            }
        }
        // Those that are asked for ahead are not asked for again.
        let questions = cluster.nodes[0].member.questions.load(Relaxed);
        assert_eq!(questions, 20_003_u64.div_ceil(1_024) + of_order, "{query}");
        // The rows of all that one node leads are more than a megabyte.
        let longest = cluster.nodes[0].member.longest_bytes.load(Relaxed);
        assert!(longest < 128 * 1_024, "{query}: {longest} bytes at once");
        assert_eq!(cluster.all_asked(), 0, "{query}");
    }
}

#[test]
fn a_node_that_is_silent_is_waited_for_once() {
    let cluster = queues(5_000);
    // Which of node 2's queues are shown with their figures: none, or those asked about before.
    for (answers_before, query) in [
        (0, "queues"),
        (2, "queues"),
        (0, "queues?sort=messages"),
        (1, "queues?sort=messages"),
        (0, "queues?page=1&page_size=500&sort=messages"),
        (1, "queues?page=1&page_size=500&sort=messages"),
    ] {
        cluster.silence(2, answers_before);
        let list = cluster.get(query);
        let rows = list.as_array().or_else(|| list["items"].as_array());
        let rows = rows.expect("a list");
        let is_paged = query.contains("page=");
        assert_eq!(rows.len(), if is_paged { 500 } else { 5_003 }, "{query}");
        let is_down = |row: &&Value| row["state"] == "down";
        let down = rows.iter().filter(is_down).count();
        assert!(down > 0, "{answers_before}, {query}");
        assert!(
            down < rows.len() * 3 / 4 || is_paged,
            "{answers_before}, {query}: {down}"
        );
        assert_eq!(cluster.nodes[0].member.waits.load(Relaxed), 1, "{query}");
    }
}

#[test]
fn a_page_of_what_a_clusters_clients_have_costs_a_page() {
    let cluster = connections(5_000);
    for (path, total, made, first) in [
        (
            "connections?page=2&page_size=50",
            15_002,
            50,
            "more-00001144",
        ),
        (
            "connections?page=1&page_size=50&sort=recv_oct&sort_reverse=true",
            15_002,
            50,
            "more-00015999",
        ),
        (
            "connections?page=1&page_size=50&sort=name&name=more-0000200",
            15_002,
            10,
            "more-00002000",
        ),
        (
            "channels?page=1&page_size=50&sort=number&sort_reverse=true",
            30_001,
            50,
            "more-00015999 (2)",
        ),
        // And as many of the consumers' queues.
        (
            "consumers?page=2&page_size=50",
            15_001,
            100,
            "more-00001147 (1)",
        ),
    ] {
        let page = cluster.get(path);
        assert_eq!(names(&page)[0], first, "{path}");
        assert_eq!(page["total_count"], total, "{path}");
        assert_eq!(cluster.rows_made(), made, "{path}");
        assert_eq!(cluster.all_asked(), 0, "{path}");
        let moved = cluster.moved_bytes();
        assert!(moved < 64_000, "{path}: {moved} bytes moved");
    }
    // Pages behind all that is here are of the others.
    let page = cluster.get("connections?page=101&page_size=50");
    assert_eq!(names(&page)[2], "more-00001001");
    assert_eq!(page["items"][2]["node"], "leveret@burrow-1");
    assert_eq!(cluster.rows_made(), 50);
}

#[test]
fn every_page_of_what_a_clusters_clients_have_is_the_whole_lists_own() {
    let cluster = connections(100);
    for (path, count) in [
        ("connections?", 302),
        ("connections?sort_reverse=true", 302),
        ("connections?sort=recv_oct", 302),
        ("connections?sort=user&sort_reverse=true", 302),
        ("connections?sort=name", 302),
        ("connections?sort=recv_oct_details.rate", 302),
        ("connections?sort=node&sort_reverse=true&name=more", 300),
        ("vhosts/%2F/connections?sort=peer_host", 301),
        ("connections/username/administrator?", 1),
        (
            "connections/more-00001001/channels?sort=number&sort_reverse=true",
            2,
        ),
        ("channels?sort=number", 601),
        ("channels?sort=message_stats.ack&sort_reverse=true", 601),
        ("consumers?", 301),
        ("consumers?sort=channel_details.name&sort_reverse=true", 301),
    ] {
        let list = cluster.get(path);
        let whole = names(&list);
        assert_eq!(whole.len(), count, "{path}");
        let mut paged = Vec::new();
        for page in 1..=count.div_ceil(70) {
            let page = cluster.get(&format!("{path}&page={page}&page_size=70"));
            assert_eq!(page["filtered_count"], count, "{path}");
            paged.extend(names(&page));
        }
        assert_eq!(paged, whole, "{path}");
    }
}

#[test]
fn a_list_of_what_a_clusters_clients_have_asks_for_some_at_a_time() {
    let cluster = connections(5_000);
    for (path, count) in [("connections", 15_002), ("channels?sort=number", 30_001)] {
        let list = cluster.get(path);
        let rows = list.as_array().expect("a list");
        assert_eq!(rows.len(), count, "{path}");
        assert!(rows.iter().all(|row| row["state"].is_string()), "{path}");
        // Rows of all that one node has are more than two megabytes.
        let longest = cluster.nodes[0].member.longest_bytes.load(Relaxed);
        assert!(longest < 384 * 1_024, "{path}: {longest} bytes at once");
    }
}

#[test]
fn one_thing_of_another_node_costs_one() {
    let cluster = connections(5_000);
    for (path, made) in [
        ("connections/more-00001001", 1),
        ("channels/more-00001001%20(2)", 3),
        ("connections/more-00001002/channels", 2),
    ] {
        cluster.get(path);
        assert!(
            cluster.rows_made() <= made,
            "{path}: {}",
            cluster.rows_made()
        );
        let moved = cluster.moved_bytes();
        assert!(moved < 8_000, "{path}: {moved} bytes moved");
    }
    assert_eq!(cluster.ask("connections/nobody").status, 404);
    let queue = cluster.get("queues/other/q");
    assert_eq!(queue["consumer_details"], Value::Array(Vec::new()));
    assert!(cluster.moved_bytes() < 8_000, "{}", cluster.moved_bytes());
}

#[test]
fn a_node_that_is_silent_about_clients_is_waited_for_once() {
    let cluster = connections(5_000);
    for (answers_before, path, count) in [
        (0, "connections", 10_002),
        (1, "connections", 10_002),
        (0, "channels?sort=number", 20_001),
        (2, "channels?sort=number", 20_001),
        (0, "connections?page=1&page_size=500&sort=recv_oct", 500),
    ] {
        cluster.silence(2, answers_before);
        let list = cluster.get(path);
        let rows = list.as_array().or_else(|| list["items"].as_array());
        let rows = rows.expect("a list");
        assert!(rows.len() >= count, "{path}: {}", rows.len());
        assert!(rows.len() < count + 1_000, "{path}: {}", rows.len());
        assert_eq!(cluster.nodes[0].member.waits.load(Relaxed), 1, "{path}");
    }
}

/// The names of the fields of each object of a list, in its text, as often as they stand there.
fn fields_in(list: &str) -> Vec<Vec<String>> {
    struct Names(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Names {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Reader)
        }
    }
    struct Reader;
    impl<'de> serde::de::Visitor<'de> for Reader {
        type Value = Names;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
            let mut names = Vec::new();
            while let Some((name, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                names.push(name);
            }
            names.sort();
            Ok(Names(names))
        }
    }
    let rows: Vec<Names> = serde_json::from_str(list).expect("a list");
    rows.into_iter().map(|row| row.0).collect()
}

#[test]
fn each_queue_has_the_same_fields_once_whoever_leads_it_and_whatever_is_in_it() {
    let cluster = queues(30);
    let answer = cluster.ask("queues");
    let rows = fields_in(&answer.body);
    assert_eq!(rows.len(), 33);
    // A queue with an owner has a field more.
    let mut usual = rows[3].clone();
    for row in &rows {
        let own: Vec<&String> = row
            .iter()
            .filter(|name| *name != "owner_pid_details")
            .collect();
        assert_eq!(own, usual.iter().collect::<Vec<_>>());
    }
    usual.dedup();
    assert_eq!(usual, rows[3], "a field twice");
    for name in [
        "arguments",
        "memory",
        "message_stats",
        "messages_ready_details",
        "state",
    ] {
        assert!(usual.iter().any(|known| known == name), "{name}");
    }
    assert!(
        !usual.iter().any(|known| known == "messages_dlx"),
        "{usual:?}"
    );
}
