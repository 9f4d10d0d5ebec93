//! Scrapes of the metrics, whoever asks for them: how much work they are.

use crate::api::start;
use leveret_types::limits::{METRICS_NAMES_MAX, METRICS_SCRAPES_MAX};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Families that are about queues.
const FAMILIES: [&str; 4] = [
    "queue_coarse_metrics",
    "queue_metrics",
    "queue_delivery_metrics",
    "queue_info",
];

#[test]
fn a_scrape_of_some_queues_looks_at_all_of_them_once() {
    let api = start();
    let families: String = FAMILIES.map(|name| format!("family={name}&")).concat();
    let page = api.metrics(&format!("/metrics/detailed?{families}queue=q"));
    assert!(page.body.contains("queue=\"q\""), "{page:?}");
    assert_eq!(api.node.all_asked.load(Relaxed), 1);
}

#[test]
fn families_of_queues_say_once_which_queues_there_are() {
    let api = start();
    let page = |families: &[&str]| {
        let families: String = families
            .iter()
            .map(|name| format!("family={name}&"))
            .collect();
        api.metrics(&format!("/metrics/detailed?{families}")).body
    };
    for family in [
        "queue_coarse_metrics",
        "queue_metrics",
        "queue_consumer_count",
    ] {
        assert!(
            page(&[family]).contains("rabbitmq_detailed_queue_info{"),
            "{family}"
        );
    }
    let all = page(&FAMILIES);
    assert_eq!(
        all.matches("# TYPE rabbitmq_detailed_queue_info ").count(),
        1
    );
    assert!(!page(&["queue_delivery_metrics"]).contains("queue_info"));
}

#[test]
fn a_scrape_may_name_so_many_queues_and_not_one_more() {
    let api = start();
    let page = |names: usize| {
        let queues: String = (1..names).map(|name| format!("&queue={name}")).collect();
        api.metrics(&format!("/metrics/detailed?family=queue_info{queues}"))
    };
    assert_eq!(page(METRICS_NAMES_MAX).status, 200);
    assert_eq!(page(METRICS_NAMES_MAX + 1).status, 400);
}

#[test]
fn scrapes_leave_threads_to_the_api() {
    let api = start();
    let held = api.node.all_held.lock().unwrap();
    thread::scope(|scope| {
        let scrapes: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| api.metrics("/metrics/detailed?family=queue_info&queue=q")))
            .collect();
        // They are where they are held, and no more of them come however many others are answered.
        while api.node.all_asked.load(Relaxed) < METRICS_SCRAPES_MAX as u64 {
            thread::yield_now();
        }
        for _ in 0..20 {
            assert_eq!(api.admin("GET", "/api/whoami", "").status, 200);
        }
        assert_eq!(api.node.all_asked.load(Relaxed), METRICS_SCRAPES_MAX as u64);
        drop(held);
        for scrape in scrapes {
            assert_eq!(scrape.join().expect("an answer").status, 200);
        }
    });
    assert_eq!(api.node.all_asked.load(Relaxed), 20);
}
