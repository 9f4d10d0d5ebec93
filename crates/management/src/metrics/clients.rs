//! Metrics of connections and their channels, each with its name, or their sum.

use super::deliveries::{delivered, deliveries};
use super::text::{Counter, Gauge, Page, Table, labels};
use crate::api::{ChannelStats, ConnectionStats};
use crate::app::App;
use leveret_types::ConnectionId;
use std::collections::HashMap;

/// Connections by id, for the labels of channels.
fn connections_by_id(app: &App) -> HashMap<ConnectionId, ConnectionStats> {
    let all = app.node().connections();
    all.into_iter().map(|c| (c.id, c)).collect()
}

/// Channels with their labels, or their sum without any.
fn channel_series(app: &App, per_object: bool) -> Vec<(String, ChannelStats)> {
    let channels = app.node().channels();
    if !per_object {
        let mut sum = ChannelStats::default();
        for c in &channels {
            sum.consumers += c.consumers;
            sum.unacknowledged += c.unacknowledged;
            sum.unconfirmed += c.unconfirmed;
            sum.uncommitted += c.uncommitted;
            sum.uncommitted_settles += c.uncommitted_settles;
            sum.messages.add(&c.messages);
        }
        return vec![(String::new(), sum)];
    }
    let connections = connections_by_id(app);
    let label = |c: &ChannelStats| {
        let connection = connections.get(&c.connection)?;
        let name = format!("{} ({})", connection.name, c.number);
        Some(labels(&[("channel", &name)]))
    };
    let channels = channels.into_iter();
    channels.filter_map(|c| Some((label(&c)?, c))).collect()
}

pub(super) fn channel_metrics(page: &mut Page, app: &App, per_object: bool) {
    let series = channel_series(app, per_object);
    let gauges = [
        ("channel_consumers", Gauge, "Consumers on a channel"),
        (
            "channel_messages_unacked",
            Gauge,
            "Delivered but not yet acknowledged messages",
        ),
        (
            "channel_messages_unconfirmed",
            Gauge,
            "Published but not yet confirmed messages",
        ),
        (
            "channel_messages_uncommitted",
            Gauge,
            "Messages received in a transaction but not yet committed",
        ),
        (
            "channel_acks_uncommitted",
            Gauge,
            "Message acknowledgements in a transaction not yet committed",
        ),
    ];
    let row = |(labels, c): &(String, ChannelStats)| {
        let numbers = [
            c.consumers,
            c.unacknowledged,
            c.unconfirmed,
            c.uncommitted,
            c.uncommitted_settles,
        ];
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(&Table::new(series.iter().map(row)), 0, &gauges);
    let prefetch = |of: fn(&ChannelStats) -> u16| {
        let row = move |(labels, c): &(String, ChannelStats)| (labels.clone(), u64::from(of(c)));
        series.iter().map(row).collect::<Vec<_>>()
    };
    let help = "Limit of unacknowledged messages for each consumer";
    page.metric("consumer_prefetch", Gauge, help, prefetch(|c| c.prefetch));
    let help = "Total limit of unacknowledged messages for all consumers on a channel";
    page.metric(
        "channel_prefetch",
        Gauge,
        help,
        prefetch(|c| c.global_prefetch),
    );
}

/// What channels published: the family `channel_exchange_metrics`.
pub(super) fn channel_publishes(page: &mut Page, app: &App, per_object: bool) {
    let series = channel_series(app, per_object);
    let counters = [
        (
            "channel_messages_published_total",
            Counter,
            "Total number of messages published into an exchange on a channel",
        ),
        (
            "channel_messages_confirmed_total",
            Counter,
            "Total number of messages published into an exchange and confirmed on the channel",
        ),
        (
            "channel_messages_unroutable_returned_total",
            Counter,
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        ),
        (
            "channel_messages_unroutable_dropped_total",
            Counter,
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        ),
    ];
    let row = |(labels, c): &(String, ChannelStats)| {
        let m = &c.messages;
        let numbers = [m.published, m.confirmed, m.returned, m.dropped];
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(&Table::new(series.iter().map(row)), 0, &counters);
}

/// What channels got: the family `channel_queue_metrics`.
pub(super) fn channel_deliveries(page: &mut Page, app: &App, per_object: bool) {
    let series = channel_series(app, per_object);
    let row = |(labels, c): &(String, ChannelStats)| {
        let numbers = delivered(&c.messages);
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(
        &Table::new(series.iter().map(row)),
        0,
        &deliveries!("channel"),
    );
}

/// Connections with their labels, or their sum without any.
fn connection_series(app: &App, per_object: bool) -> Vec<(String, ConnectionStats)> {
    let connections = app.node().connections();
    if !per_object {
        let mut sum = ConnectionStats::default();
        for c in &connections {
            sum.received_bytes += c.received_bytes;
            sum.sent_bytes += c.sent_bytes;
            sum.pending_bytes += c.pending_bytes;
            sum.received_packets += c.received_packets;
            sum.sent_packets += c.sent_packets;
            sum.channels += c.channels;
        }
        return vec![(String::new(), sum)];
    }
    let connections = connections.into_iter();
    connections
        .map(|c| (labels(&[("connection", &c.name)]), c))
        .collect()
}

/// The bytes of connections: the family `connection_coarse_metrics`.
pub(super) fn connection_bytes(page: &mut Page, app: &App, per_object: bool) {
    let series = connection_series(app, per_object);
    let metrics = [
        (
            "connection_incoming_bytes_total",
            Counter,
            "Total number of bytes received on a connection",
        ),
        (
            "connection_outgoing_bytes_total",
            Counter,
            "Total number of bytes sent on a connection",
        ),
        (
            "connection_process_reductions_total",
            Counter,
            "Total number of connection process reductions",
        ),
    ];
    let row = |(labels, c): &(String, ConnectionStats)| {
        // There are no processes of Erlang's.
        let numbers = [c.received_bytes, c.sent_bytes, 0];
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(&Table::new(series.iter().map(row)), 0, &metrics);
}

/// The rest of what connections do: the family `connection_metrics`.
pub(super) fn connection_metrics(page: &mut Page, app: &App, per_object: bool) {
    let series = connection_series(app, per_object);
    let metrics = [
        (
            "connection_incoming_packets_total",
            Counter,
            "Total number of packets received on a connection",
        ),
        (
            "connection_outgoing_packets_total",
            Counter,
            "Total number of packets sent on a connection",
        ),
        (
            "connection_pending_packets",
            Gauge,
            "Number of packets waiting to be sent on a connection",
        ),
        ("connection_channels", Gauge, "Channels on a connection"),
    ];
    let row = |(labels, c): &(String, ConnectionStats)| {
        let numbers = [
            c.received_packets,
            c.sent_packets,
            c.pending_bytes,
            c.channels,
        ];
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(&Table::new(series.iter().map(row)), 0, &metrics);
}
