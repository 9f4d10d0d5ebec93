//! What operators' tools see: RabbitMQ's codes, compressed answers, other origins, metrics.

use crate::api::{Api, start};
use crate::client::{basic, exchange};
use crate::fake::Fake;
use leveret_management::Service;
use leveret_types::limits::HTTP_BODY_VALUES_MAX;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

/// RabbitMQ's words for what is refused, where clients look at them.
#[test]
fn refusals_have_rabbitmqs_codes() {
    let api = start();
    for (method, path, body, status, reason) in [
        (
            "POST",
            "/api/bindings/%2F/e/x/q/none",
            "{}",
            404,
            "no queue 'none' in vhost '/'",
        ),
        (
            "POST",
            "/api/bindings/%2F/e/none/q/q",
            "{}",
            404,
            "no exchange 'none' in vhost '/'",
        ),
        (
            "POST",
            "/api/exchanges/%2F/none/publish",
            r#"{"routing_key":"","payload":"","properties":{}}"#,
            404,
            "exchange_not_found",
        ),
        (
            "PUT",
            "/api/users/u",
            r#"{"password":"x"}"#,
            400,
            "tags_not_present",
        ),
        (
            "PUT",
            "/api/users/u",
            r#"{"password":"x","password_hash":"y","tags":""}"#,
            400,
            "both_password_and_password_hash_are_provided",
        ),
        (
            "GET",
            "/api/definitions/nowhere",
            "",
            400,
            "vhost_not_found",
        ),
        (
            "POST",
            "/api/vhosts/%2F/start/nowhere",
            "",
            400,
            "Unknown node: nowhere",
        ),
        (
            "PUT",
            "/api/queues/%2F/new",
            r#"{"node":"nowhere"}"#,
            400,
            "Node nowhere is not a cluster member",
        ),
        (
            "GET",
            "/api/queues/quorum/%2F/q/status",
            "",
            503,
            "classic_queue_not_supported",
        ),
    ] {
        let answer = api.admin(method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.json()["reason"], reason, "{method} {path}");
    }
    assert_eq!(api.get("/api/bindings/%2F/e/x/q/none"), json!([]));
    for (method, path, status) in [
        ("DELETE", "/api/reset", 204),
        ("DELETE", "/api/reset/nowhere", 404),
        ("DELETE", "/api/login", 204),
        ("OPTIONS", "/api/queues", 200),
        ("GET", "/api", 301),
        ("GET", "/api/openapi.json", 200),
    ] {
        assert_eq!(
            api.admin(method, path, "").status,
            status,
            "{method} {path}"
        );
    }
}

#[test]
fn virtual_hosts_have_the_sums_of_what_is_in_them() {
    let api = start();
    api.node.counters.lock().expect("counters").published = 7;
    let vhosts = api.get("/api/vhosts");
    assert_eq!(vhosts[0]["messages"], 6);
    assert_eq!(vhosts[0]["message_stats"]["publish"], 14);
    assert_eq!(vhosts[1]["messages"], 10);
    assert_eq!(vhosts[1]["recv_oct_details"]["rate"], 0.0);
    assert_eq!(api.get("/api/vhosts/other")["messages_ready"], 9);
    let quick = api.get("/api/vhosts?disable_stats=true");
    assert_eq!(quick[0].get("messages"), None);
}

/// A list is not made for a client that takes none of what the API answers with.
#[test]
fn clients_that_do_not_take_json_are_told() {
    let api = start();
    let ask = |accept: &str| {
        let authorization = basic("administrator", "administrator");
        let request = format!(
            "GET /api/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: {accept}\r\nAuthorization: {authorization}\r\n\r\n"
        );
        let address = api.server.plain_address(Service::Api).expect("http");
        exchange(address, request.as_bytes()).status
    };
    assert_eq!(ask("text/html"), 406);
    assert_eq!(ask("text/html,application/xhtml+xml,*/*;q=0.8"), 200);
    assert_eq!(ask("application/json; charset=utf-8"), 200);
}

/// The head of an answer, and its body as it came.
fn raw(api: &Api, head: &str) -> (String, Vec<u8>) {
    let authorization = basic("administrator", "administrator");
    let request = format!(
        "{head}\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    );
    let address = api.server.plain_address(Service::Api).expect("http");
    let mut stream = TcpStream::connect(address).expect("a server");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let body = bytes.split_off(end.expect("a head") + 4);
    (String::from_utf8(bytes).expect("text").to_lowercase(), body)
}

#[test]
fn long_answers_are_compressed_for_who_takes_that() {
    let api = start();
    let whole = api.get("/api/overview");
    let (head, body) = raw(
        &api,
        "GET /api/overview HTTP/1.1\r\nAccept-Encoding: deflate, gzip",
    );
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&body[..])
        .read_to_string(&mut text)
        .expect("gzip");
    let got: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(got["object_totals"], whole["object_totals"]);
    let (head, body) = raw(&api, "GET /app.js HTTP/1.1\r\nAccept-Encoding: gzip");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let (_, whole) = raw(&api, "GET /app.js HTTP/1.1");
    let mut script = Vec::new();
    flate2::read::GzDecoder::new(&body[..])
        .read_to_end(&mut script)
        .expect("gzip");
    assert!(script == whole && body.len() < whole.len());
    for refused in ["identity", "gzip;q=0"] {
        let (head, _) = raw(
            &api,
            &format!("GET /api/overview HTTP/1.1\r\nAccept-Encoding: {refused}"),
        );
        assert!(!head.contains("content-encoding"), "{head}");
    }
}

#[test]
fn pages_of_other_origins_may_call_the_api_where_the_operator_lets_them() {
    let api = Api::of(Fake::default(), |app| {
        app.with_origins(vec!["https://page.example.com".to_owned()], 60)
            .with_path_prefix("/mq".to_owned())
    });
    let let_in = "Origin: https://page.example.com\r\nSec-Fetch-Site: cross-site";
    let (head, _) = raw(
        &api,
        &format!(
            "OPTIONS /mq/api/queues HTTP/1.1\r\n{let_in}\r\nAccess-Control-Request-Headers: authorization"
        ),
    );
    for line in [
        "access-control-allow-origin: https://page.example.com",
        "access-control-allow-methods: head, get, options",
        "access-control-allow-headers: authorization",
        "access-control-max-age: 60",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let delete = "DELETE /api/connections/username/management HTTP/1.1";
    assert!(
        raw(&api, &format!("{delete}\r\n{let_in}"))
            .0
            .starts_with("http/1.1 204")
    );
    let other = "Origin: https://other.example.com\r\nSec-Fetch-Site: cross-site";
    let (head, _) = raw(&api, &format!("{delete}\r\n{other}"));
    assert!(head.starts_with("http/1.1 403"), "{head}");
    assert!(!head.contains("access-control"), "{head}");
    // What stands before the paths may be left out.
    for path in [
        "/mq/api/whoami",
        "/api/whoami",
        "/mq/",
        "/mq/api/queues?page=1",
    ] {
        let (head, _) = raw(&api, &format!("GET {path} HTTP/1.1"));
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
    }
    let (head, _) = raw(&api, "GET /mq/api HTTP/1.1");
    assert!(head.contains("location: /mq/api/index.html"), "{head}");
    assert!(
        raw(&api, "GET /mqapi/whoami HTTP/1.1")
            .0
            .starts_with("http/1.1 404")
    );
}

/// What the rules and the dashboard in `packaging/` ask for, a node with a stream has.
#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let node = Fake::default();
    node.has_stream.store(true, Relaxed);
    let api = Api::of(node, |app| app);
    let metrics = api.metrics("/metrics").body;
    let packaging = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for file in ["prometheus/leveret-alerts.yml", "grafana/leveret.json"] {
        let text = std::fs::read_to_string(packaging.join(file)).expect(file);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c| !is_word(c));
        // These are labels.
        let named = words.filter(|word| {
            word.starts_with("rabbitmq_") && !["rabbitmq_node", "rabbitmq_cluster"].contains(word)
        });
        let mut seen = 0;
        for name in named {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            let head = format!("# TYPE {name} ");
            assert!(metrics.contains(&head), "{file}: {name}");
            seen += 1;
        }
        assert!(seen > 8, "{file}: {seen}");
    }
}

#[test]
fn metrics_have_rabbitmqs_names() {
    let api = start();
    api.node.counters.lock().expect("counters").published = 7;
    let page = api.metrics("/metrics");
    assert_eq!(page.status, 200);
    assert!(
        page.head
            .contains("content-type: text/plain; version=0.0.4")
    );
    for line in [
        "rabbitmq_identity_info{rabbitmq_node=\"leveret@burrow\",rabbitmq_cluster=\"hares\",rabbitmq_cluster_permanent_id=\"id-1\",rabbitmq_endpoint=\"aggregated\"} 1",
        "rabbitmq_queue_messages_ready 13",
        "rabbitmq_queue_messages_unacked 3",
        "rabbitmq_queues 3",
        "rabbitmq_connections 2",
        "rabbitmq_global_messages_received_total{protocol=\"amqp091\"} 7",
        "rabbitmq_global_messages_acknowledged_total{protocol=\"amqp091\",queue_type=\"rabbit_quorum_queue\"} 0",
        "rabbitmq_global_messages_dead_lettered_expired_total{queue_type=\"rabbit_classic_queue\",dead_letter_strategy=\"at_most_once\"} 3",
        "rabbitmq_alarms_memory_used_watermark 0",
        "rabbitmq_process_max_fds 1024",
        "rabbitmq_channel_messages_unacked 3",
        "# TYPE rabbitmq_queue_messages_ready gauge",
        "# TYPE rabbitmq_identity_info untyped",
        "rabbitmq_auth_attempts_total{protocol=\"amqp091\"} 0",
        "rabbitmq_queue_messages_published_total 21",
        "rabbitmq_channel_get_empty_total 0",
        "rabbitmq_unreachable_cluster_peers_count 0",
        "rabbitmq_raft_term 0",
        "rabbitmq_raft_batches 5",
        "rabbitmq_raft_bytes_written 20480",
        "rabbitmq_raft_wal_files 2",
        "rabbitmq_global_stream_error_unknown_frame_total{protocol=\"stream\"} 0",
    ] {
        assert!(
            page.body.lines().any(|l| l == line),
            "{line} is not in\n{}",
            page.body
        );
    }
    // The format forbids a second TYPE line of one metric.
    let mut types: Vec<_> = page
        .body
        .lines()
        .filter(|l| l.starts_with("# TYPE"))
        .collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all);
    let each = api.metrics("/metrics/per-object").body;
    assert!(each.contains("rabbitmq_queue_messages_ready{vhost=\"other\",queue=\"q\"} 9"));
    assert!(
        each.contains(
            "rabbitmq_connection_channels{connection=\"127.0.0.1:1 -> 127.0.0.1:5672\"} 0"
        )
    );
    let detailed = api
        .metrics("/metrics/detailed?family=queue_coarse_metrics&vhost=%2F&queue=q")
        .body;
    assert!(detailed.contains("rabbitmq_detailed_queue_messages_ready{vhost=\"/\",queue=\"q\"} 4"));
    assert!(!detailed.contains("other") && !detailed.contains("queue_consumers"));
    for (family, metrics) in [
        ("queue_consumer_count", "queue_consumers"),
        ("queue_delivery_metrics", "queue_messages_acked_total"),
        ("exchange_metrics", "exchange_messages_published_total"),
        (
            "channel_exchange_metrics",
            "channel_messages_published_total",
        ),
        ("channel_queue_metrics", "channel_get_total"),
        (
            "channel_process_metrics",
            "channel_process_reductions_total",
        ),
        ("ra_metrics", "raft_mem_tables"),
        ("ra_metrics", "raft_batches"),
        ("node_persister_metrics", "io_sync_ops_total"),
        (
            "connection_coarse_metrics",
            "connection_incoming_bytes_total",
        ),
    ] {
        let page = api.metrics(&format!(
            "/metrics/detailed?family={family}&family={family}"
        ));
        let heads = page.body.lines().filter(|l| l.starts_with("# TYPE"));
        let named = format!("# TYPE rabbitmq_detailed_{metrics} ");
        let of_it = heads.filter(|head| head.starts_with(&named)).count();
        assert_eq!(of_it, 1, "{family}:\n{}", page.body);
    }
    let names = api
        .metrics("/metrics/detailed?family=exchange_names&vhost=other")
        .body;
    assert!(names.contains(
        "rabbitmq_cluster_exchange_name{vhost=\"other\",exchange=\"x\",type=\"topic\"} 1"
    ));
    assert!(!names.contains("vhost=\"/\""));
    let memory = api.metrics("/metrics/memory-breakdown").body;
    assert!(
        memory.contains("rabbitmq_memory_binary_heap_bytes 0"),
        "{memory}"
    );
    assert!(!memory.contains("rabbitmq_queues"));
    assert_eq!(api.metrics("/api/overview").status, 404);
    assert_eq!(api.metrics("/").status, 404);
}

#[test]
fn a_body_has_so_many_values_and_not_one_more() {
    let api = start();
    // The object, the list within it, its values but one, and what follows the list.
    let body = |values: usize| {
        let list = vec!["0"; values].join(",");
        format!("{{\"tags\":\"\",\"password\":\"p\",\"x\":[{list}]}}")
    };
    for (values, status) in [
        (HTTP_BODY_VALUES_MAX - 3, 201),
        (HTTP_BODY_VALUES_MAX - 2, 400),
    ] {
        let answer = api.admin("PUT", "/api/users/u", &body(values));
        assert_eq!(answer.status, status, "{values}: {answer:?}");
    }
    let text = format!("\"{}\"", ",".repeat(2 * HTTP_BODY_VALUES_MAX));
    let body = format!("{{\"tags\":\"\",\"password\":\"p\",\"x\":{text}}}");
    assert_eq!(api.admin("PUT", "/api/users/u", &body).status, 201);
}
