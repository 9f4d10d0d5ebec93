//! Figures over time, as clients ask for them: on a node that is faked, by a clock that is set.

use crate::api::Api;
use crate::fake::Fake;
use leveret_management::Moment;
use leveret_management::api::{MessageCounters, QueueStats};
use leveret_types::QueueId;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A multiple of ten seconds.
const WALL_MS: u64 = 1_700_000_000_000;

struct Timed {
    api: Api,
    ms: Arc<AtomicU64>,
}

impl Timed {
    fn start() -> Self {
        let ms = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&ms);
        let api = Api::of(Fake::default(), |app| {
            app.with_clock(move || Moment {
                monotonic_ms: 1_000 + clock.load(Relaxed),
                wall_ms: WALL_MS + clock.load(Relaxed),
            })
        });
        Self { api, ms }
    }

    /// The queue `q` has taken so many messages by this second, and four of them wait.
    fn at(&self, second: u64, published: u64) {
        self.ms.store(second * 1_000, Relaxed);
        let messages = MessageCounters {
            published,
            ..MessageCounters::default()
        };
        *self.api.node.counters.lock().expect("the counters") = messages;
        let stats = QueueStats {
            id: QueueId(1),
            ready: 4,
            unacknowledged: 1,
            messages,
            ..QueueStats::default()
        };
        let active = &self.api.node.active;
        active
            .lock()
            .expect("the queues")
            .push(("/".to_owned(), stats));
        self.api.app.take_samples();
    }
}

fn sample(second: u64, value: u64) -> Value {
    json!({"sample": value, "timestamp": WALL_MS + second * 1_000})
}

const AGES: &str = "msg_rates_age=10&msg_rates_incr=5&lengths_age=10&lengths_incr=5\
    &data_rates_age=10&data_rates_incr=5&node_stats_age=10&node_stats_incr=5";

#[test]
fn figures_over_time_are_shown_where_they_are_asked_for() {
    let timed = Timed::start();
    timed.at(0, 0);
    timed.at(5, 100);
    timed.at(10, 400);
    let expected = json!({
        "rate": 60.0,
        "avg_rate": 40.0,
        "avg": 500.0 / 3.0,
        "samples": [sample(10, 400), sample(5, 100), sample(0, 0)],
    });
    let published = |json: &Value| json["message_stats"]["publish_details"].clone();
    for path in ["/api/overview", "/api/queues/%2F/q", "/api/vhosts/%2F"] {
        let answer = timed.api.get(&format!("{path}?{AGES}"));
        assert_eq!(published(&answer), expected, "{path}");
        // Without the question there is the rate alone: known to who asks for the first time, too.
        assert_eq!(
            published(&timed.api.get(path)),
            json!({"rate": 60.0}),
            "{path}"
        );
    }
    let queue = timed.api.get(&format!("/api/queues/%2F?{AGES}&name=q"));
    assert_eq!(published(&queue[0]), expected, "in lists, too");
    let lengths = &queue[0]["messages_details"]["samples"];
    assert_eq!(*lengths, json!([sample(10, 5), sample(5, 5), sample(0, 5)]));
    let overview = timed.api.get(&format!("/api/overview?{AGES}"));
    let lengths = &overview["queue_totals"]["messages_ready_details"]["samples"];
    assert_eq!(lengths[0], sample(10, 13));
    let created = &overview["churn_rates"]["queue_created_details"]["samples"];
    assert_eq!(created[2], sample(0, 0));
    let node = timed.api.get("/api/nodes")[0]["name"].clone();
    let node = node.as_str().expect("a name");
    let node = timed.api.get(&format!("/api/nodes/{node}?{AGES}"));
    assert_eq!(node["mem_used_details"]["samples"][2]["timestamp"], WALL_MS);
    let connections = timed.api.get(&format!("/api/connections?{AGES}"));
    let received = &connections[0]["recv_oct_details"]["samples"];
    assert_eq!(
        *received,
        json!([sample(10, 0), sample(5, 0), sample(0, 0)])
    );
    // What is asked for over time by itself is that alone.
    let queue = timed
        .api
        .get("/api/queues/%2F/q?lengths_age=10&lengths_incr=10");
    assert_eq!(queue["messages_details"]["samples"][1], sample(0, 5));
    assert_eq!(published(&queue).get("samples"), None);
}

#[test]
fn a_range_that_makes_no_sense_is_refused() {
    let api = Timed::start().api;
    for path in [
        "/api/overview",
        "/api/queues",
        "/api/queues/%2F/q",
        "/api/nodes",
        "/api/channels",
    ] {
        let path = format!("{path}?msg_rates_age=501&msg_rates_incr=1");
        let answer = api.admin("GET", &path, "");
        assert_eq!(answer.status, 400, "{path}");
        let reason = answer.json()["reason"].clone();
        assert_eq!(reason, "Invalid range parameters: age 501, incr 1");
    }
}

#[test]
fn a_time_in_which_the_node_stood_still_has_no_samples() {
    let timed = Timed::start();
    timed.at(0, 0);
    timed.at(5, 100);
    timed.at(20, 700);
    let path = "/api/overview?msg_rates_age=20&msg_rates_incr=5";
    let details = timed.api.get(path)["message_stats"]["publish_details"].clone();
    let expected = json!([sample(20, 700), sample(5, 100), sample(0, 0)]);
    assert_eq!(details["samples"], expected);
    assert_eq!(details["rate"], 40.0);
}

#[test]
fn how_long_confirms_deliveries_and_acknowledgements_took_is_told_of_a_node_over_time() {
    let timed = Timed::start();
    let took = |protocol: usize, ms: u64, count: u64| {
        let mut latencies = timed.api.node.latencies.lock().expect("the latencies");
        latencies[protocol].add(ms, count);
    };
    timed.at(0, 0);
    took(0, 3, 99);
    took(1, 15, 1);
    took(2, 250, 4);
    took(3, 40, 5);
    timed.at(5, 100);
    timed.at(10, 100);
    let node = timed.api.get(&format!("/api/nodes/leveret@burrow?{AGES}"));
    for (name, count, total_ms, p99_ms) in [
        ("publish_confirm", 100, 99 * 3 + 15, 3),
        ("publish_deliver", 5, 200, 50),
        ("deliver_ack", 4, 1_000, 300),
    ] {
        for (field, value) in [
            (format!("{name}_count"), count),
            (format!("{name}_ms"), total_ms),
            (format!("{name}_p99_ms"), p99_ms),
        ] {
            assert_eq!(node[&field], value, "{field}");
            let samples = &node[format!("{field}_details")]["samples"];
            let expected = [sample(10, value), sample(5, value), sample(0, 0)];
            assert_eq!(*samples, json!(expected), "{field}");
        }
    }
    let overview = timed.api.get(&format!("/api/overview?{AGES}"));
    assert_eq!(overview["latencies"]["publish_confirm_ms"], 99 * 3 + 15);
    let samples = &overview["latencies"]["deliver_ack_ms_details"]["samples"];
    let expected = [sample(10, 1_000), sample(5, 1_000), sample(0, 0)];
    assert_eq!(*samples, json!(expected));
    // What is spent in syncs is kept as well, so that a mean is one of its time.
    let syncs = &node["io_sync_us_details"]["samples"];
    assert_eq!(*syncs, json!([10, 5, 0].map(|second| sample(second, 0))));
    let metrics = timed.api.metrics("/metrics").body;
    let of = |name: &str| format!("rabbitmq_message_{name}_duration_seconds");
    for line in [
        format!("# TYPE {} histogram", of("confirm")),
        of("confirm") + "_bucket{protocol=\"amqp091\",le=\"0.002\"} 0",
        of("confirm") + "_bucket{protocol=\"amqp091\",le=\"0.003\"} 99",
        of("confirm") + "_bucket{protocol=\"amqp091\",le=\"+Inf\"} 99",
        of("confirm") + "_sum{protocol=\"amqp091\"} 0.297",
        of("confirm") + "_count{protocol=\"stream\"} 1",
        of("acknowledgement") + "_bucket{protocol=\"amqp091\",le=\"0.3\"} 4",
        of("acknowledgement") + "_sum{protocol=\"amqp091\"} 1",
        of("queue") + "_count{protocol=\"amqp091\"} 5",
    ] {
        let is_there = metrics.lines().any(|found| found == line);
        assert!(is_there, "{line} in {metrics}");
    }
}

#[test]
fn how_long_samples_are_kept_is_told_where_they_are_taken() {
    let timed = Timed::start();
    let kept = |api: &Api| api.get("/api/overview")["sample_retention_policies"]["global"].clone();
    assert_eq!(kept(&timed.api), json!([]));
    timed.at(0, 0);
    assert_eq!(kept(&timed.api), json!([3_600, 86_400]));
}
