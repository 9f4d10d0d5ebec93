//! Metrics of subscriptions of the stream protocol.

use super::queues::Scope;
use super::text::{Gauge, Page, labels};
use crate::app::App;
use crate::connections::queue_names;
use std::collections::HashMap;

/// How far the slowest subscription of each stream is behind: the family `stream_consumer_metrics`.
pub(super) fn stream_consumers(page: &mut Page, app: &App, scope: &Scope) {
    let consumers = app.node().stream_consumers();
    if consumers.is_empty() {
        return;
    }
    let mut lags = HashMap::new();
    for consumer in consumers {
        let lag = lags.entry(consumer.queue).or_insert(0);
        *lag = consumer.offset_lag.max(*lag);
    }
    let queues = queue_names(app);
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
