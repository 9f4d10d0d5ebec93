//! Metrics of queues, each with its name, or their sum.

use super::text::{Gauge, Page, labels};
use crate::api::QueueStats;
use crate::app::App;
use crate::directory::Queue;
use leveret_types::QueueId;
use std::collections::HashMap;

/// Which queues a detailed page is about.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) vhosts: Vec<String>,
    pub(super) queues: Vec<String>,
}

impl Scope {
    fn has(&self, queue: &Queue) -> bool {
        let within =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        within(&self.vhosts, &queue.vhost) && within(&self.queues, &queue.name)
    }
}

/// The stats of queues with their labels, or their sum without any.
fn queue_series(app: &App, scope: &Scope, per_object: bool) -> Vec<(String, QueueStats)> {
    let mut stats = app.node().queues();
    // Each queue's figures are its leader's: sums over the nodes are right then.
    stats.retain(|queue| !queue.follows);
    if !per_object {
        let mut sum = QueueStats::default();
        for s in &stats {
            sum.ready += s.ready;
            sum.unacknowledged += s.unacknowledged;
            sum.ready_bytes += s.ready_bytes;
            sum.unacknowledged_bytes += s.unacknowledged_bytes;
            sum.dead_letters += s.dead_letters;
            sum.dead_letter_bytes += s.dead_letter_bytes;
            sum.in_memory += s.in_memory;
            sum.in_memory_bytes += s.in_memory_bytes;
            sum.persistent += s.persistent;
            sum.persistent_bytes += s.persistent_bytes;
            sum.memory_bytes += s.memory_bytes;
            sum.consumers += s.consumers;
            sum.consumer_capacity += s.consumer_capacity;
        }
        return vec![(String::new(), sum)];
    }
    let declared = app.node().declared_queues(None);
    let declared: HashMap<QueueId, Queue> = declared.into_iter().map(|q| (q.id, q)).collect();
    let mut series: Vec<_> = stats
        .into_iter()
        .filter_map(|s| Some((declared.get(&s.id)?, s)))
        .filter(|(queue, _)| scope.has(queue))
        .map(|(queue, s)| {
            (
                labels(&[("vhost", &queue.vhost), ("queue", &queue.name)]),
                s,
            )
        })
        .collect();
    series.sort_by(|a, b| a.0.cmp(&b.0));
    series
}

type QueueValue = fn(&QueueStats) -> u64;

fn queue_values(
    page: &mut Page,
    series: &[(String, QueueStats)],
    metrics: &[(&str, &str, QueueValue)],
) {
    for (name, help, value) in metrics {
        let values = series.iter().map(|(labels, s)| (labels.clone(), value(s)));
        page.metric(name, Gauge, help, values);
    }
}

pub(super) fn queue_coarse(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let series = queue_series(app, scope, per_object);
    let metrics: [(&str, &str, QueueValue); 3] = [
        (
            "queue_messages_ready",
            "Messages ready to be delivered to consumers",
            |s| s.ready,
        ),
        (
            "queue_messages_unacked",
            "Messages delivered to consumers but not yet acknowledged",
            |s| s.unacknowledged,
        ),
        (
            "queue_messages",
            "Sum of ready and unacknowledged messages - total queue depth",
            QueueStats::depth,
        ),
    ];
    queue_values(page, &series, &metrics);
}

pub(super) fn queue_metrics(page: &mut Page, app: &App, scope: &Scope, per_object: bool) {
    let series = queue_series(app, scope, per_object);
    let metrics: [(&str, &str, QueueValue); 9] = [
        ("queue_consumers", "Consumers on a queue", |s| s.consumers),
        (
            "queue_process_memory_bytes",
            "Memory in bytes used by the queue",
            |s| s.memory_bytes,
        ),
        (
            "queue_messages_ram",
            "Ready and unacknowledged messages stored in memory",
            |s| s.in_memory,
        ),
        (
            "queue_messages_ram_bytes",
            "Size of ready and unacknowledged messages stored in memory",
            |s| s.in_memory_bytes,
        ),
        ("queue_messages_persistent", "Persistent messages", |s| {
            s.persistent
        }),
        (
            "queue_messages_persistent_bytes",
            "Size in bytes of persistent messages",
            |s| s.persistent_bytes,
        ),
        (
            "queue_messages_bytes",
            "Size in bytes of ready and unacknowledged messages",
            QueueStats::depth_bytes,
        ),
        (
            "queue_messages_ready_bytes",
            "Size in bytes of ready messages",
            |s| s.ready_bytes,
        ),
        (
            "queue_messages_unacked_bytes",
            "Size in bytes of all unacknowledged messages",
            |s| s.unacknowledged_bytes,
        ),
    ];
    queue_values(page, &series, &metrics);
    let capacity: Vec<_> = series
        .iter()
        .map(|(l, s)| (l.clone(), s.consumer_capacity))
        .collect();
    page.metric(
        "queue_consumer_capacity",
        Gauge,
        "Consumer capacity",
        capacity.clone(),
    );
    page.metric(
        "queue_consumer_utilisation",
        Gauge,
        "Same as consumer capacity",
        capacity,
    );
    if per_object {
        let heads = series
            .iter()
            .filter_map(|(l, s)| Some((l.clone(), s.head_timestamp?)));
        page.metric(
            "queue_head_message_timestamp",
            Gauge,
            "Timestamp of the first message in the queue, if any",
            heads,
        );
    }
}
