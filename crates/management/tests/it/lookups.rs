//! Whoever looks at one thing, or at numbers, costs nothing of all the others.

use crate::api::start;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn who_looks_at_one_thing_has_no_others_copied() {
    let api = start();
    let connection = "127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672";
    let channel = format!("/api/channels/{connection}%20%281%29");
    let paths = [
        "/api/queues/%2F/q".to_owned(),
        format!("/api/connections/{connection}"),
        channel.clone(),
        "/api/overview".to_owned(),
    ];
    for path in paths {
        let before = api.node.all_asked.load(Relaxed);
        let page = api.admin("GET", &path, "");
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(api.node.all_asked.load(Relaxed), before, "{path}");
    }
    let page = api.admin("GET", &channel, "");
    assert!(page.body.contains("\"consumer_tag\":\"ctag\""), "{page:?}");
    let missing = channel.replace("%281%29", "%282%29");
    assert_eq!(api.admin("GET", &missing, "").status, 404);
}

#[test]
fn a_scrape_or_an_overview_looks_at_each_connection_once() {
    let api = start();
    api.node.more_connections.store(2_000, Relaxed);
    let families = [
        "channel_metrics",
        "channel_queue_metrics",
        "connection_metrics",
    ];
    let families = families.map(|family| format!("family={family}")).join("&");
    for (path, walks) in [
        ("/metrics", 1),
        ("/metrics/per-object", 1),
        (&*format!("/metrics/detailed?{families}"), 1),
        ("/metrics/detailed?family=queue_coarse_metrics", 0),
    ] {
        api.node.walks.store(0, Relaxed);
        let page = api.metrics(path).body;
        assert!(page.contains("rabbitmq_identity_info"), "{path}");
        assert_eq!(api.node.walks.load(Relaxed), walks, "{path}");
    }
    let page = api.metrics("/metrics").body;
    assert!(page.contains("\nrabbitmq_channel_consumers 0\n"), "{page}");
    assert!(
        page.contains("\nrabbitmq_channel_messages_unacked 12003\n"),
        "{page}"
    );
    assert!(
        page.contains("\nrabbitmq_connection_channels 0\n"),
        "{page}"
    );
    let page = api.metrics("/metrics/per-object").body;
    assert!(
        page.contains("\nrabbitmq_channel_messages_unacked{channel=\"more-00002999 (2)\"} 3\n")
    );
}

#[test]
fn very_many_consumers_of_one_connection_are_copied_a_few_times_each() {
    const MORE: u64 = 10_000;
    let api = start();
    api.node.more_consumers.store(MORE, Relaxed);
    for path in [
        "/api/consumers",
        "/api/consumers?sort=consumer_tag",
        "/api/consumers?page=100&page_size=100",
        "/api/queues/%2F/q",
    ] {
        api.node.consumers_copied.store(0, Relaxed);
        let page = api.admin("GET", path, "");
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(page.body.contains("\"consumer_tag\":\"more-9"), "{path}");
        let copied = api.node.consumers_copied.load(Relaxed);
        assert!(copied <= 3 * (MORE + 1), "{path}: {copied}");
    }
    let rows = api.get("/api/consumers");
    let tags = rows.as_array().expect("rows").iter();
    let tags: BTreeSet<_> = tags.map(|row| row["consumer_tag"].to_string()).collect();
    assert_eq!(tags.len() as u64, MORE + 1);
}

#[test]
fn a_scrape_of_very_many_queues_and_exchanges_copies_some_at_a_time() {
    let api = start();
    api.node.more_queues.store(20_000, Relaxed);
    api.node.more_exchanges.store(20_000, Relaxed);
    let families = ["queue_metrics", "exchange_metrics", "exchange_names"];
    let families = families.map(|family| format!("family={family}")).join("&");
    for path in [
        "/metrics",
        "/metrics/per-object",
        &*format!("/metrics/detailed?{families}"),
    ] {
        api.node.rows_made.store(0, Relaxed);
        api.node.most_at_once.store(0, Relaxed);
        let page = api.metrics(path).body;
        let is_summed = path == "/metrics";
        assert_eq!(
            page.contains("queue=\"more-00020999\""),
            !is_summed,
            "{path}"
        );
        assert_eq!(
            page.contains("exchange=\"z-00019999\""),
            !is_summed,
            "{path}"
        );
        assert_eq!(api.node.all_copied.load(Relaxed), 0, "{path}");
        assert!(api.node.most_at_once.load(Relaxed) <= 1_024, "{path}");
        // Exchanges have no rows of their own there, and sums need none of queues.
        let made = api.node.rows_made.load(Relaxed);
        assert!(
            made <= if is_summed { 100 } else { 20_100 },
            "{path}: {made}"
        );
    }
}

#[test]
fn one_thing_of_any_kind_has_the_columns_that_are_asked_for() {
    let api = start();
    for (path, expected) in [
        ("users/monitoring", json!({"name": "monitoring"})),
        ("vhosts/%2F", json!({"name": "/"})),
        ("permissions/%2F/monitoring", json!({"vhost": "/"})),
        ("policies/%2F/ttl", json!({"name": "ttl", "vhost": "/"})),
    ] {
        let answer = api.get(&format!("/api/{path}?columns=name,vhost,none"));
        assert_eq!(answer, expected, "{path}");
    }
}
