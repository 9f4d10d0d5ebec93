//! Metrics of connections and their channels, each with its name, or their sum.

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
    if per_object {
        channel_counters(page, &series);
    }
}

fn channel_counters(page: &mut Page, series: &[(String, ChannelStats)]) {
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
            "channel_messages_delivered_total",
            Counter,
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
        ),
        (
            "channel_messages_delivered_ack_total",
            Counter,
            "Total number of messages delivered to consumers in manual acknowledgement mode",
        ),
        (
            "channel_messages_redelivered_total",
            Counter,
            "Total number of messages redelivered to consumers",
        ),
        (
            "channel_messages_acked_total",
            Counter,
            "Total number of messages acknowledged by consumers",
        ),
    ];
    let row = |(labels, c): &(String, ChannelStats)| {
        let m = &c.messages;
        let numbers = [
            m.published,
            m.confirmed,
            m.delivered_auto_ack,
            m.delivered,
            m.redelivered,
            m.acknowledged,
        ];
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(&Table::new(series.iter().map(row)), 0, &counters);
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

pub(super) fn connection_metrics(page: &mut Page, app: &App, per_object: bool) {
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
            c.received_bytes,
            c.sent_bytes,
            c.received_packets,
            c.sent_packets,
            c.pending_bytes,
            c.channels,
        ];
        (labels.clone(), numbers.map(|number| number as f64))
    };
    page.table(&Table::new(series.iter().map(row)), 0, &metrics);
}
