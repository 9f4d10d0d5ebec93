//! Metrics of connections and their channels, each with its name, or their sum.

use super::deliveries::{delivered, deliveries};
use super::text::{Counter, Gauge, Page, Table, labels};
use crate::api::{ChannelStats, ConnectionStats};
use crate::app::App;

/// Numbers of a channel.
const OF_CHANNEL: usize = 19;
/// The first of them that are its prefetch counts, which have no sum.
const PREFETCH: usize = 5;
/// The first of what was published.
const PUBLISHED: usize = 7;
/// The first of what was delivered.
const DELIVERED: usize = 11;
/// Where the reductions of Erlang's process stand, which there is not.
const REDUCTIONS: usize = OF_CHANNEL - 1;
/// Numbers of a connection.
const OF_CONNECTION: usize = 7;
/// The first of them that are no bytes.
const PACKETS: usize = 3;

/// What is known of channels and of connections: numbers of each, or of all together.
pub(super) struct ClientTables {
    channels: Table<OF_CHANNEL>,
    connections: Table<OF_CONNECTION>,
}

/// The rows of a table that is being made.
enum Rows<const N: usize> {
    Each(Vec<(String, [f64; N])>),
    Sum([f64; N]),
}

impl<const N: usize> Rows<N> {
    const fn new(per_object: bool) -> Self {
        match per_object {
            true => Self::Each(Vec::new()),
            false => Self::Sum([0.0; N]),
        }
    }

    fn add(&mut self, labels: impl FnOnce() -> String, numbers: [u64; N]) {
        let numbers = numbers.map(|number| number as f64);
        match self {
            Self::Each(rows) => rows.push((labels(), numbers)),
            Self::Sum(sum) => {
                for (sum, number) in sum.iter_mut().zip(numbers) {
                    *sum += number;
                }
            }
        }
    }

    fn table(self) -> Table<N> {
        Table::new(match self {
            Self::Each(rows) => rows,
            Self::Sum(sum) => vec![(String::new(), sum)],
        })
    }
}

/// Looks at all connections once, a few at a time.
pub(super) fn client_tables(app: &App, per_object: bool) -> ClientTables {
    let (mut channels, mut connections) = (Rows::new(per_object), Rows::new(per_object));
    app.node().each_connection(&mut |content| {
        let connection = &content.connection;
        let named = || labels(&[("connection", &connection.name)]);
        connections.add(named, of_connection(connection));
        for channel in &content.channels {
            let named = || {
                let name = format!("{} ({})", connection.name, channel.number);
                labels(&[("channel", &name)])
            };
            let mut numbers = of_channel(channel);
            if !per_object {
                numbers[PREFETCH..PUBLISHED].fill(0);
            }
            channels.add(named, numbers);
        }
    });
    ClientTables {
        channels: channels.table(),
        connections: connections.table(),
    }
}

fn of_channel(c: &ChannelStats) -> [u64; OF_CHANNEL] {
    let m = &c.messages;
    let mut numbers = [0; OF_CHANNEL];
    numbers[..DELIVERED].copy_from_slice(&[
        c.consumers,
        c.unacknowledged,
        c.unconfirmed,
        c.uncommitted,
        c.uncommitted_settles,
        c.prefetch.into(),
        c.global_prefetch.into(),
        m.published,
        m.confirmed,
        m.returned,
        m.dropped,
    ]);
    numbers[DELIVERED..REDUCTIONS].copy_from_slice(&delivered(m));
    numbers
}

const fn of_connection(c: &ConnectionStats) -> [u64; OF_CONNECTION] {
    [
        c.received_bytes,
        c.sent_bytes,
        // There are no processes of Erlang's.
        0,
        c.received_packets,
        c.sent_packets,
        c.pending_bytes,
        c.channels,
    ]
}

pub(super) fn channel_metrics(page: &mut Page, tables: &ClientTables) {
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
    page.table(&tables.channels, 0, &gauges);
    let limits = [
        (
            "consumer_prefetch",
            Gauge,
            "Limit of unacknowledged messages for each consumer",
        ),
        (
            "channel_prefetch",
            Gauge,
            "Total limit of unacknowledged messages for all consumers on a channel",
        ),
    ];
    page.table(&tables.channels, PREFETCH, &limits);
}

/// The processes of channels: the family `channel_process_metrics`.
pub(super) fn channel_processes(page: &mut Page, tables: &ClientTables) {
    let counters = [(
        "channel_process_reductions_total",
        Counter,
        "Total number of channel process reductions",
    )];
    page.table(&tables.channels, REDUCTIONS, &counters);
}

/// What channels published: the family `channel_exchange_metrics`.
pub(super) fn channel_publishes(page: &mut Page, tables: &ClientTables) {
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
    page.table(&tables.channels, PUBLISHED, &counters);
}

/// What channels got: the family `channel_queue_metrics`.
pub(super) fn channel_deliveries(page: &mut Page, tables: &ClientTables) {
    page.table(&tables.channels, DELIVERED, &deliveries!("channel"));
}

/// The bytes of connections: the family `connection_coarse_metrics`.
pub(super) fn connection_bytes(page: &mut Page, tables: &ClientTables) {
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
    page.table(&tables.connections, 0, &metrics);
}

/// The rest of what connections do: the family `connection_metrics`.
pub(super) fn connection_metrics(page: &mut Page, tables: &ClientTables) {
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
    page.table(&tables.connections, PACKETS, &metrics);
}
