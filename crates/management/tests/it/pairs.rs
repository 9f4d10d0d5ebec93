//! Figures by pairs, as RabbitMQ has them: who publishes what where, and who gets what whence.

use crate::api::{Api, start};
use crate::fake::Fake;
use crate::parts;
use leveret_management::Moment;
use leveret_management::api::MessageCounters;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CHANNEL: &str = "127.0.0.1:1 -> 127.0.0.1:5672 (1)";
const CHANNEL_PATH: &str = "/api/channels/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672%20(1)";

fn publish(messages: u64, rate: f64) -> Value {
    json!({"publish": messages, "publish_details": {"rate": rate}})
}

#[test]
fn what_is_published_is_told_by_exchange_queue_and_channel() {
    let api = start();
    for (path, field) in [
        ("/api/exchanges/%2F/x", "incoming"),
        ("/api/exchanges/%2F/x", "outgoing"),
        ("/api/queues/%2F/q", "incoming"),
        (CHANNEL_PATH, "publishes"),
    ] {
        assert_eq!(api.get(path)[field], json!([]), "{path}: nothing yet");
    }
    api.node.published.store(8, Relaxed);
    let exchange = api.get("/api/exchanges/%2F/x");
    let incoming = &exchange["incoming"][0];
    assert_eq!(incoming["stats"], publish(8, 0.0));
    assert_eq!(incoming["channel_details"]["name"], CHANNEL);
    assert_eq!(incoming["channel_details"]["number"], 1);
    let to = json!([{"queue": {"name": "q", "vhost": "/"}, "stats": publish(7, 0.0)}]);
    assert_eq!(exchange["outgoing"], to);
    let from = json!([{"exchange": {"name": "x", "vhost": "/"}, "stats": publish(7, 0.0)}]);
    assert_eq!(api.get("/api/queues/%2F/q")["incoming"], from);
    let publishes = json!([{"exchange": {"name": "x", "vhost": "/"}, "stats": publish(8, 0.0)}]);
    assert_eq!(api.get(CHANNEL_PATH)["publishes"], publishes);
    for other in ["/api/exchanges/%2F/y", "/api/exchanges/other/x"] {
        let answer = api.admin("GET", other, "");
        if answer.status == 200 {
            assert_eq!(answer.json()["incoming"], json!([]), "{other}");
        }
    }
    assert_eq!(api.get("/api/queues/other/q")["incoming"], json!([]));
}

#[test]
fn what_is_delivered_is_told_by_queue_and_channel() {
    let api = start();
    let queue = api.get("/api/queues/%2F/q");
    let delivered = &queue["deliveries"][0];
    assert_eq!(delivered["channel_details"]["name"], CHANNEL);
    let stats = &delivered["stats"];
    for (name, count) in [
        ("deliver", 9),
        ("deliver_no_ack", 0),
        ("deliver_get", 9),
        ("redeliver", 2),
        ("ack", 6),
    ] {
        assert_eq!(stats[name], count, "{name}");
        assert_eq!(stats[format!("{name}_details")], json!({"rate": 0.0}));
    }
    let channel = api.get(CHANNEL_PATH);
    let from = json!([{"queue": {"name": "q", "vhost": "/"}, "stats": stats}]);
    assert_eq!(channel["deliveries"], from);
    assert_eq!(api.get("/api/queues/other/q")["deliveries"], json!([]));
}

#[test]
fn a_growing_queue_names_who_publishes_to_it_and_nobody_else() {
    let ms = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&ms);
    let api = Api::of(Fake::default(), |app| {
        app.with_clock(move || Moment {
            monotonic_ms: 1_000 + clock.load(Relaxed),
            wall_ms: 1_700_000_000_000 + clock.load(Relaxed),
        })
    });
    let sample = |second: u64, published: u64| {
        ms.store(second * 1_000, Relaxed);
        api.node.published.store(published, Relaxed);
        *api.node.counters.lock().expect("the counters") = MessageCounters {
            published,
            ..MessageCounters::default()
        };
        api.app.take_samples();
    };
    sample(0, 1);
    sample(5, 101);
    let growth = api.get("/api/leveret/queues/%2F/q/growth");
    let publishers = growth["publishers"].as_array().expect("publishers");
    assert_eq!(publishers.len(), 1, "{growth}");
    assert_eq!(publishers[0]["channel"], CHANNEL);
    assert_eq!(publishers[0]["exchange"], "x");
    assert_eq!(publishers[0]["publishes_per_second"], 20.0);
    let growth = api.get("/api/leveret/queues/%2F/a%2Fb/growth");
    assert_eq!(growth["publishers"], json!([]), "nothing comes to it");
    // Whoever asks for the first time is told the rate, too.
    let exchange = api.get("/api/exchanges/%2F/x");
    assert_eq!(exchange["outgoing"][0]["stats"], publish(100, 20.0));
    sample(10, 101);
    let growth = api.get("/api/leveret/queues/%2F/q/growth");
    assert_eq!(growth["publishers"], json!([]), "it publishes no more");
}

#[test]
fn what_clients_of_all_nodes_publish_adds_up() {
    let cluster = parts::start(|fake| fake.published.store(3, Relaxed));
    let queue = cluster.get("queues/%2F/q");
    let from = json!([{"exchange": {"name": "x", "vhost": "/"}, "stats": publish(6, 0.0)}]);
    assert_eq!(queue["incoming"], from, "two of each of three nodes");
}

#[test]
fn metrics_tell_what_came_to_each_queue_from_each_exchange() {
    let api = start();
    api.node.published.store(8, Relaxed);
    let name = "queue_exchange_messages_published_total";
    let labels = r#"{vhost="/",exchange="x",queue="q"}"#;
    for (path, line) in [
        ("/metrics", format!("rabbitmq_{name} 7")),
        ("/metrics/per-object", format!("rabbitmq_{name}{labels} 7")),
        (
            "/metrics/detailed?family=queue_exchange_metrics",
            format!("rabbitmq_detailed_{name}{labels} 7"),
        ),
        (
            "/metrics/detailed?family=queue_exchange_metrics&vhost=%2F",
            format!("rabbitmq_detailed_{name}{labels} 7"),
        ),
    ] {
        let page = api.metrics(path).body;
        assert!(page.lines().any(|of| of == line), "{path}: {line}");
    }
    let page = api.metrics("/metrics/detailed?family=queue_exchange_metrics&vhost=other");
    let page = page.body;
    assert!(!page.contains(labels));
}
