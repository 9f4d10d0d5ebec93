//! Metrics of connections and their channels, each with its name, or their sum.

use super::global::Count;
use super::text::{Counter, Gauge, Kind, Page, labels};
use crate::api::{ChannelStats, ConnectionStats};
use crate::app::App;
use leveret_types::ConnectionId;
use std::collections::HashMap;

/// Connections by id, for the labels of channels.
fn connections_by_id(app: &App) -> HashMap<ConnectionId, ConnectionStats> {
    let all = app.node().connections();
    all.into_iter().map(|c| (c.id, c)).collect()
}

type ChannelValue = fn(&ChannelStats) -> u64;

pub(super) fn channel_metrics(page: &mut Page, app: &App, per_object: bool) {
    let channels = app.node().channels();
    let series: Vec<(String, ChannelStats)> = match per_object {
        true => {
            let connections = connections_by_id(app);
            let label = |c: &ChannelStats| {
                let connection = connections.get(&c.connection)?;
                Some(labels(&[(
                    "channel",
                    &format!("{} ({})", connection.name, c.number),
                )]))
            };
            channels
                .into_iter()
                .filter_map(|c| Some((label(&c)?, c)))
                .collect()
        }
        false => {
            let mut sum = ChannelStats::default();
            for c in &channels {
                sum.consumers += c.consumers;
                sum.unacknowledged += c.unacknowledged;
                sum.unconfirmed += c.unconfirmed;
                sum.uncommitted += c.uncommitted;
                sum.uncommitted_settles += c.uncommitted_settles;
            }
            vec![(String::new(), sum)]
        }
    };
    let metrics: [(&str, &str, ChannelValue); 5] = [
        ("channel_consumers", "Consumers on a channel", |c| {
            c.consumers
        }),
        (
            "channel_messages_unacked",
            "Delivered but not yet acknowledged messages",
            |c| c.unacknowledged,
        ),
        (
            "channel_messages_unconfirmed",
            "Published but not yet confirmed messages",
            |c| c.unconfirmed,
        ),
        (
            "channel_messages_uncommitted",
            "Messages received in a transaction but not yet committed",
            |c| c.uncommitted,
        ),
        (
            "channel_acks_uncommitted",
            "Message acknowledgements in a transaction not yet committed",
            |c| c.uncommitted_settles,
        ),
    ];
    for (name, help, value) in metrics {
        let values = series.iter().map(|(labels, c)| (labels.clone(), value(c)));
        page.metric(name, Gauge, help, values);
    }
    if !per_object {
        return;
    }
    let counters: [(&str, &str, Count); 6] = [
        (
            "channel_messages_published_total",
            "Total number of messages published into an exchange on a channel",
            |m| m.published,
        ),
        (
            "channel_messages_confirmed_total",
            "Total number of messages published into an exchange and confirmed on the channel",
            |m| m.confirmed,
        ),
        (
            "channel_messages_delivered_total",
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
            |m| m.delivered_auto_ack,
        ),
        (
            "channel_messages_delivered_ack_total",
            "Total number of messages delivered to consumers in manual acknowledgement mode",
            |m| m.delivered,
        ),
        (
            "channel_messages_redelivered_total",
            "Total number of messages redelivered to consumers",
            |m| m.redelivered,
        ),
        (
            "channel_messages_acked_total",
            "Total number of messages acknowledged by consumers",
            |m| m.acknowledged,
        ),
    ];
    for (name, help, count) in counters {
        let values = series
            .iter()
            .map(|(labels, c)| (labels.clone(), count(&c.messages)));
        page.metric(name, Counter, help, values);
    }
}

type ConnectionValue = fn(&ConnectionStats) -> u64;

pub(super) fn connection_metrics(page: &mut Page, app: &App, per_object: bool) {
    let connections = app.node().connections();
    let series: Vec<(String, ConnectionStats)> = match per_object {
        true => connections
            .into_iter()
            .map(|c| (labels(&[("connection", &c.name)]), c))
            .collect(),
        false => {
            let mut sum = ConnectionStats::default();
            for c in &connections {
                sum.received_bytes += c.received_bytes;
                sum.sent_bytes += c.sent_bytes;
                sum.pending_bytes += c.pending_bytes;
                sum.received_packets += c.received_packets;
                sum.sent_packets += c.sent_packets;
                sum.channels += c.channels;
            }
            vec![(String::new(), sum)]
        }
    };
    let metrics: [(&str, Kind, &str, ConnectionValue); 6] = [
        (
            "connection_incoming_bytes_total",
            Counter,
            "Total number of bytes received on a connection",
            |c| c.received_bytes,
        ),
        (
            "connection_outgoing_bytes_total",
            Counter,
            "Total number of bytes sent on a connection",
            |c| c.sent_bytes,
        ),
        (
            "connection_incoming_packets_total",
            Counter,
            "Total number of packets received on a connection",
            |c| c.received_packets,
        ),
        (
            "connection_outgoing_packets_total",
            Counter,
            "Total number of packets sent on a connection",
            |c| c.sent_packets,
        ),
        (
            "connection_pending_packets",
            Gauge,
            "Number of packets waiting to be sent on a connection",
            |c| c.pending_bytes,
        ),
        (
            "connection_channels",
            Gauge,
            "Channels on a connection",
            |c| c.channels,
        ),
    ];
    for (name, kind, help, value) in metrics {
        let values = series.iter().map(|(labels, c)| (labels.clone(), value(c)));
        page.metric(name, kind, help, values);
    }
}
