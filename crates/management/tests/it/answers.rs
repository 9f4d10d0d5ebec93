//! Answers about many objects: what they cost, and what becomes of them when nobody reads.

use crate::client::{Answer, basic, exchange};
use crate::fake::Fake;
use leveret_management::{App, Endpoint, Server, Service};
use leveret_types::limits::{
    HTTP_CHANGES_OF_USER_MAX, HTTP_WORKERS_MAX, HTTP_WORKERS_OF_ADDRESS_MAX,
    HTTP_WORKERS_OF_USER_MAX,
};
use serde_json::Value;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// More rows than the kernel holds of an answer that nobody reads.
const MANY: u64 = 50_000;
/// More than there are threads that work for the API.
const CLIENTS: usize = 12;

struct Api {
    node: Arc<Fake>,
    server: Server,
}

fn start(more_queues: u64) -> Api {
    let node = Arc::new(Fake::default());
    node.more_queues.store(more_queues, Relaxed);
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoints = [Service::Api, Service::Metrics].map(|service| Endpoint::plain(service, any));
    let app = App::new(Arc::clone(&node) as _, None, false);
    let server = Server::start(app, &endpoints).expect("ports on loopback");
    Api { node, server }
}

fn request(method: &str, path: &str) -> Vec<u8> {
    let authorization = basic("administrator", "administrator");
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    )
    .into_bytes()
}

impl Api {
    fn address(&self, service: Service) -> SocketAddr {
        self.server.plain_address(service).expect("an address")
    }

    fn get(&self, service: Service, path: &str) -> Answer {
        let answer = exchange(self.address(service), &request("GET", path));
        assert_eq!(answer.status, 200, "{path}: {}", answer.head);
        answer
    }

    /// A client that has asked.
    fn ask(&self, service: Service, path: &str) -> TcpStream {
        self.send(service, "GET", path)
    }

    fn send(&self, service: Service, method: &str, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address(service)).expect("a server");
        stream.write_all(&request(method, path)).expect("sent");
        stream
    }

    /// Clients that ask and do not read.
    fn unread(&self, service: Service, path: &str) -> Vec<TcpStream> {
        (0..CLIENTS).map(|_| self.ask(service, path)).collect()
    }
}

#[test]
fn a_page_costs_a_page() {
    let api = start(20_000);
    for (query, first) in [
        ("page=2&page_size=50", "more-00001049"),
        ("page=1&page_size=50&name=more", "more-00001000"),
        ("page=1&page_size=50&sort=name&sort_reverse=true", "q"),
        (
            "page=1&page_size=50&sort=messages&sort_reverse=true",
            "more-00020999",
        ),
        ("page=401&page_size=50", "more-00020999"),
    ] {
        api.node.rows_made.store(0, Relaxed);
        let page = api
            .get(Service::Api, &format!("/api/queues?{query}"))
            .json();
        let items = page["items"].as_array().expect("items");
        assert_eq!(items[0]["name"], first, "{query}");
        assert_eq!(page["item_count"], items.len(), "{query}");
        assert_eq!(page["total_count"], 20_003, "{query}");
        assert_eq!(
            api.node.rows_made.load(Relaxed),
            items.len() as u64,
            "{query}"
        );
    }
}

#[test]
fn a_page_of_exchanges_or_bindings_costs_a_page() {
    let api = start(0);
    api.node.more_exchanges.store(20_000, Relaxed);
    api.node.more_bindings.store(20_000, Relaxed);
    for (path, total, first) in [
        ("exchanges?page=2&page_size=50", 20_004, "z-00000046"),
        (
            "exchanges?page=1&page_size=50&name=z-",
            20_004,
            "z-00000000",
        ),
        (
            "exchanges?page=1&page_size=50&sort=name&sort_reverse=true",
            20_004,
            "z-00019999",
        ),
        ("bindings?page=2&page_size=50", 20_003, "00001047"),
    ] {
        api.node.rows_made.store(0, Relaxed);
        let page = api.get(Service::Api, &format!("/api/{path}")).json();
        let items = page["items"].as_array().expect("items");
        let of_first = [&items[0]["name"], &items[0]["routing_key"]];
        assert!(of_first.contains(&&first.into()), "{path}: {of_first:?}");
        assert_eq!(items.len(), 50, "{path}");
        assert_eq!(page["total_count"], total, "{path}");
        assert_eq!(api.node.rows_made.load(Relaxed), 50, "{path}");
    }
    let list = api
        .get(
            Service::Api,
            "/api/bindings?sort=routing_key&sort_reverse=true",
        )
        .json();
    let rows = list.as_array().expect("a list");
    assert_eq!(rows.len(), 20_003);
    assert_eq!(rows[0]["routing_key"], "a.*");
    assert_eq!(rows[3]["routing_key"], "00020997");
}

#[test]
fn a_page_of_what_clients_have_costs_a_page() {
    let api = start(0);
    api.node.more_connections.store(5_000, Relaxed);
    for (path, total, made, first) in [
        (
            "connections?page=2&page_size=50",
            5_002,
            50,
            "more-00001048",
        ),
        (
            "connections?page=1&page_size=50&name=more-",
            5_002,
            50,
            "more-00001000",
        ),
        (
            "connections?page=1&page_size=50&sort=name&sort_reverse=true",
            5_002,
            50,
            "more-00005999",
        ),
        (
            "channels?page=2&page_size=50",
            10_001,
            26,
            "more-00001024 (2)",
        ),
        ("vhosts/%2F/channels?page=1&page_size=2", 10_001, 2, ""),
        // And as many of the consumers' queues.
        ("consumers?page=2&page_size=50", 5_001, 100, ""),
    ] {
        api.node.rows_made.store(0, Relaxed);
        let all_asked = api.node.all_asked.load(Relaxed);
        let page = api.get(Service::Api, &format!("/api/{path}")).json();
        let items = page["items"].as_array().expect("items");
        if !first.is_empty() {
            assert_eq!(items[0]["name"], first, "{path}");
        }
        assert_eq!(page["total_count"], total, "{path}");
        assert_eq!(api.node.rows_made.load(Relaxed), made, "{path}");
        assert_eq!(api.node.all_asked.load(Relaxed), all_asked, "{path}");
    }
}

#[test]
fn long_lists_of_what_clients_have_are_whole_and_in_order() {
    let api = start(0);
    api.node.more_connections.store(2_000, Relaxed);
    for (path, count, last) in [
        ("connections", 2_002, "more-00002999"),
        ("connections?sort=recv_oct", 2_002, "more-00002999"),
        ("channels", 4_001, "more-00002999 (2)"),
        ("channels?sort=number", 4_001, "more-00002999 (2)"),
        (
            "consumers?sort=channel_details.name",
            2_001,
            "more-00002999 (1)",
        ),
    ] {
        api.node.stats_asked.store(0, Relaxed);
        let list = api.get(Service::Api, &format!("/api/{path}")).json();
        let rows = list.as_array().expect("a list");
        assert_eq!(rows.len(), count, "{path}");
        let row = &rows[count - 1];
        let names = [&row["name"], &row["channel_details"]["name"]];
        assert!(names.contains(&&last.into()), "{path}: {names:?}");
        let asked = api.node.stats_asked.load(Relaxed);
        assert!(asked < 2_000 / 16, "{path}: asked {asked} times");
    }
}

#[test]
fn a_long_list_is_whole_and_in_order() {
    let api = start(2_000);
    for (query, first, last) in [
        ("", "a/b", "q"),
        (
            "?sort=messages&columns=name,messages",
            "a/b",
            "more-00002999",
        ),
        ("?sort=message_stats.ack&sort_reverse=true", "q", "a/b"),
    ] {
        let list = api.get(Service::Api, &format!("/api/queues{query}")).json();
        let rows = list.as_array().expect("a list");
        assert_eq!(rows.len(), 2_003, "{query}");
        assert_eq!(rows[0]["name"], first, "{query}");
        assert_eq!(rows[2_002]["name"], last, "{query}");
    }
    let metrics = api.get(Service::Metrics, "/metrics/per-object").body;
    let ready = metrics
        .lines()
        .filter(|line| line.starts_with("rabbitmq_queue_messages_ready{"));
    assert_eq!(ready.count(), 2_003);
    assert!(metrics.contains("{vhost=\"/\",queue=\"more-00002999\"} 2999\n"));
}

#[test]
fn a_list_in_any_order_asks_for_many_queues_at_once() {
    let api = start(2_000);
    for query in ["", "?sort=messages", "?sort=message_stats.ack"] {
        api.node.stats_asked.store(0, Relaxed);
        api.get(Service::Api, &format!("/api/queues{query}"));
        let asked = api.node.stats_asked.load(Relaxed);
        assert!(asked < 2_000 / 32, "{query}: {asked}");
    }
}

#[test]
fn lists_that_nobody_reads_are_not_made_and_hold_up_nobody() {
    for path in [
        "/api/queues",
        "/api/exchanges",
        "/api/bindings",
        "/api/connections",
        "/api/channels",
        "/api/consumers",
    ] {
        let api = start(if path == "/api/queues" { MANY } else { 0 });
        api.node.more_connections.store(MANY, Relaxed);
        api.node.more_exchanges.store(MANY, Relaxed);
        api.node.more_bindings.store(MANY, Relaxed);
        let unread = api.unread(Service::Api, path);
        // Each of these waits for a worker behind all that have asked before.
        for _ in 0..3 {
            let who: Value = api.get(Service::Api, "/api/whoami").json();
            assert_eq!(who["name"], "administrator");
        }
        let made = api.node.rows_made.load(Relaxed);
        assert!(
            made < CLIENTS as u64 * MANY / 2,
            "{path}: {made} rows were made"
        );
        drop(unread);
    }
}

#[test]
fn whoever_asks_for_little_has_a_turn_while_lists_of_the_same_address_are_put_in_order() {
    const QUEUES: u64 = 20_000;
    let api = start(QUEUES);
    let gate = &api.node.gate;
    gate.shut();
    let list = |_| api.ask(Service::Api, "/api/queues?sort=durable&page=1");
    let lists: Vec<TcpStream> = (0..HTTP_WORKERS_OF_USER_MAX).map(list).collect();
    gate.await_waiting(HTTP_WORKERS_OF_USER_MAX);
    let other = api.ask(Service::Api, "/api/whoami");
    let look = Some(Duration::from_millis(20));
    other.set_read_timeout(look).expect("a timeout");
    let is_answered = || {
        gate.let_one_pass();
        other.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    };
    // Each list asks for the records of 128 queues at once, so that none of them is in order then.
    let passed = (1..QUEUES / 128).find(|_| is_answered());
    assert!(passed.is_some(), "it waits until a list is in order");
    gate.open();
    drop(lists);
}

#[test]
fn who_asks_for_much_keeps_no_other_user_of_the_same_address_waiting() {
    for path in ["/api/queues", "/api/queues?sort=durable"] {
        let api = start(MANY);
        let (gate, change_gate) = (&api.node.gate, &api.node.change_gate);
        gate.shut();
        change_gate.shut();
        let ask = |_| api.ask(Service::Api, path);
        let asked: Vec<TcpStream> = (0..2 * HTTP_WORKERS_OF_ADDRESS_MAX).map(ask).collect();
        gate.await_waiting(HTTP_WORKERS_OF_USER_MAX);
        let change = |number| api.send(Service::Api, "PUT", &format!("/api/vhosts/v{number}"));
        let changes: Vec<TcpStream> = (0..2 * HTTP_CHANGES_OF_USER_MAX).map(change).collect();
        change_gate.await_waiting(HTTP_CHANGES_OF_USER_MAX);
        let other = basic("monitoring", "monitoring");
        let whoami = format!(
            "GET /api/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {other}\r\n\r\n"
        );
        let answer = exchange(api.address(Service::Api), whoami.as_bytes());
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        gate.open();
        change_gate.open();
        drop((asked, changes));
    }
}

#[test]
fn changes_that_wait_for_the_cluster_hold_up_nobody_who_looks() {
    let api = start(MANY);
    let gate = &api.node.change_gate;
    gate.shut();
    let change = |number| api.send(Service::Api, "PUT", &format!("/api/vhosts/v{number}"));
    let mut changes: Vec<TcpStream> = (0..HTTP_CHANGES_OF_USER_MAX).map(change).collect();
    gate.await_waiting(HTTP_CHANGES_OF_USER_MAX);
    changes.push(change(HTTP_CHANGES_OF_USER_MAX));
    for _ in 0..2 * HTTP_WORKERS_MAX {
        let overview: Value = api.get(Service::Api, "/api/overview").json();
        assert!(overview["node"].is_string());
    }
    // One more of this user waits for its turn.
    gate.await_waiting(HTTP_CHANGES_OF_USER_MAX);
    gate.open();
    drop(changes);
}

#[test]
fn scrapes_that_nobody_reads_hold_up_nobody() {
    let api = start(MANY);
    let unread = api.unread(Service::Metrics, "/metrics/per-object");
    let metrics = api.get(Service::Metrics, "/metrics").body;
    assert!(metrics.contains("rabbitmq_identity_info"));
    drop(unread);
}
