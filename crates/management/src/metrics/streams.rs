//! Metrics of subscriptions of the stream protocol, and of groups of consumers.

use super::queues::Scope;
use super::text::{Gauge, Page, labels};
use crate::app::App;
use crate::directory::Queue;
use leveret_types::QueueId;
use std::collections::HashMap;

/// How far the slowest subscription of each stream is behind: the family `stream_consumer_metrics`.
pub(super) fn stream_consumers(page: &mut Page, app: &App, scope: &Scope) {
    groups(page, app, scope);
    let consumers = app.node().stream_consumers();
    if consumers.is_empty() {
        return;
    }
    let mut lags = HashMap::new();
    for consumer in consumers {
        let lag = lags.entry(consumer.queue).or_insert(0);
        *lag = consumer.offset_lag.max(*lag);
    }
    let queues = records(app, lags.keys().copied());
    let of_known = lags.into_iter().filter_map(|(id, lag)| {
        let queue = queues.get(&id).filter(|queue| scope.has(queue))?;
        let labels = labels(&[("vhost", &queue.vhost), ("queue", &queue.name)]);
        Some((labels, lag))
    });
    let mut series: Vec<_> = of_known.collect();
    series.sort();
    let help = "Highest offset lag of the consumers of a stream";
    page.metric("stream_consumer_max_offset_lag", Gauge, help, series);
}

/// The records of these streams, by id: there may be very many other queues.
fn records(app: &App, streams: impl Iterator<Item = QueueId>) -> HashMap<QueueId, Queue> {
    let ids: Vec<QueueId> = streams.collect();
    let queues = app.node().queues_by_id(&ids).into_iter();
    queues.map(|queue| (queue.id, queue)).collect()
}

/// How far each group is behind whose offset this node keeps, whether anybody is connected or not.
fn groups(page: &mut Page, app: &App, scope: &Scope) {
    let kept = app.node().stream_groups(None);
    if kept.is_empty() {
        return;
    }
    let queues = records(app, kept.iter().map(|stream| stream.stream));
    let mut series = Vec::new();
    for stream in kept {
        let Some(queue) = queues.get(&stream.stream).filter(|queue| scope.has(queue)) else {
            continue;
        };
        for group in stream.groups {
            let of_it = [
                ("vhost", queue.vhost.as_str()),
                ("queue", &queue.name),
                ("group", &group.name),
            ];
            let last = stream.last_record.unwrap_or(0);
            series.push((labels(&of_it), last.saturating_sub(group.offset)));
        }
    }
    series.sort();
    let help = "Offsets from the one that a group of consumers has stored to the last message";
    page.metric("stream_group_offset_lag", Gauge, help, series);
}
