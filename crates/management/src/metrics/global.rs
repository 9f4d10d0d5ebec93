//! Metrics of messages, over all queues of a type: the families that RabbitMQ calls global.

use super::text::{Counter, Gauge, Page, labels};
use crate::api::{BrokerStats, MessageCounters, StreamProtocolStats};
use leveret_types::MESSAGE_SIZES;

/// What clients speak.
const PROTOCOLS: [&str; 2] = ["amqp091", "stream"];

type Count = fn(&MessageCounters) -> u64;

/// What happens before a message reaches a queue, which has no queue type.
fn received(page: &mut Page, broker: &BrokerStats) {
    let [protocol, stream] = PROTOCOLS.map(|name| labels(&[("protocol", name)]));
    let all = broker.all_messages();
    for (name, help, count) in [
        (
            "received",
            "Total number of messages received from publishers",
            all.published,
        ),
        (
            "received_confirm",
            "Total number of messages received from publishers expecting confirmations",
            all.published_confirm,
        ),
        (
            "routed",
            "Total number of messages routed to queues or streams",
            all.routed,
        ),
        (
            "unroutable_dropped",
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            all.dropped,
        ),
        (
            "unroutable_returned",
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            all.returned,
        ),
        (
            "confirmed",
            "Total number of messages confirmed to publishers",
            all.confirmed,
        ),
    ] {
        let of_streams = match name {
            "received" | "received_confirm" => broker.stream.received,
            "confirmed" => broker.stream.confirmed,
            _ => 0,
        };
        let name = format!("global_messages_{name}_total");
        let series = [(protocol.clone(), count), (stream.clone(), of_streams)];
        page.metric(&name, Counter, help, series);
    }
}

/// What queues have refused, and their publishers were told of; RabbitMQ has no such thing. Of
/// streams, response codes are counted.
fn refused(page: &mut Page, broker: &BrokerStats) {
    page.metric(
        "global_messages_refused_total",
        Counter,
        "Total number of messages that a queue has refused and whose publishers were told so",
        [(labels(&[("protocol", "amqp091")]), broker.messages_refused)],
    );
}

/// How large messages are that come over AMQP; each bucket has all up to its bound.
fn sizes(page: &mut Page, broker: &BrokerStats) {
    let mut within = 0;
    let buckets = MESSAGE_SIZES
        .iter()
        .zip(broker.message_sizes)
        .map(|(most, count)| {
            within += count;
            (
                format!("protocol=\"amqp091\",le=\"{most}\""),
                within.to_string(),
            )
        });
    let buckets: Vec<(String, String)> = buckets.collect();
    page.histogram_of(
        (
            "message_size_bytes",
            "Size of messages received from publishers",
        ),
        "protocol=\"amqp091\"",
        buckets,
        (
            broker.message_sizes.iter().sum(),
            broker.message_bytes as f64,
        ),
    );
}

/// How long clients waited for the broker, messages in their queues, and it for clients; RabbitMQ
/// has no such thing.
fn latencies(page: &mut Page, broker: &BrokerStats) {
    let [amqp, stream] = PROTOCOLS.map(|name| labels(&[("protocol", name)]));
    page.latencies(
        (
            "message_confirm_duration_seconds",
            "Time from the read of a publish to the write of its confirm",
        ),
        &[
            (amqp.clone(), broker.latencies.confirms),
            (stream, broker.latencies.stream_confirms),
        ],
    );
    page.latencies(
        (
            "message_queue_duration_seconds",
            "Time from when a message was taken to its first delivery",
        ),
        &[(amqp.clone(), broker.latencies.waits)],
    );
    page.latencies(
        (
            "message_acknowledgement_duration_seconds",
            "Time from the delivery of a message to its acknowledgement",
        ),
        &[(amqp, broker.latencies.acknowledgements)],
    );
}

pub(super) fn global(page: &mut Page, broker: &BrokerStats) {
    received(page, broker);
    refused(page, broker);
    sizes(page, broker);
    latencies(page, broker);
    let delivered: [(&str, &str, Count); 8] = [
        (
            "delivered",
            "Total number of messages delivered to consumers",
            |c| c.delivered + c.delivered_auto_ack + c.got + c.got_auto_ack,
        ),
        (
            "delivered_consume_manual_ack",
            "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
            |c| c.delivered,
        ),
        (
            "delivered_consume_auto_ack",
            "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
            |c| c.delivered_auto_ack,
        ),
        (
            "delivered_get_manual_ack",
            "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
            |c| c.got,
        ),
        (
            "delivered_get_auto_ack",
            "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
            |c| c.got_auto_ack,
        ),
        (
            "get_empty",
            "Total number of times basic.get operations fetched no message",
            |c| c.got_empty,
        ),
        (
            "redelivered",
            "Total number of messages redelivered to consumers",
            |c| c.redelivered,
        ),
        (
            "acknowledged",
            "Total number of message acknowledgements received from consumers",
            |c| c.acknowledged,
        ),
    ];
    let by_type = |kind: &str| {
        let kind = format!("rabbit_{kind}_queue");
        labels(&[("protocol", "amqp091"), ("queue_type", &kind)])
    };
    for (name, help, count) in delivered {
        let series = broker
            .messages
            .iter()
            .map(|(kind, c)| (by_type(kind), count(c)));
        let of_streams = match name {
            "delivered" => broker.stream.delivered,
            _ => 0,
        };
        let streams = labels(&[
            ("protocol", "stream"),
            ("queue_type", "rabbit_stream_queue"),
        ]);
        let series = series.chain([(streams, of_streams)]);
        page.metric(
            &format!("global_messages_{name}_total"),
            Counter,
            help,
            series,
        );
    }
    dead_lettered(page, broker);
    stream_errors(page, &broker.stream);
    from_replicas(page, broker);
    unfit_replicas(page, broker);
    clients(page, broker);
}

/// Who is there now, by what they speak.
fn clients(page: &mut Page, broker: &BrokerStats) {
    let [amqp, stream] = PROTOCOLS.map(|name| labels(&[("protocol", name)]));
    page.metric(
        "global_publishers",
        Gauge,
        "Publishers currently connected",
        [
            (amqp.clone(), broker.open.publishers),
            (stream.clone(), broker.stream.publishers),
        ],
    );
    page.metric(
        "global_consumers",
        Gauge,
        "Consumers currently connected",
        [
            (amqp, broker.open.consumers),
            (stream, broker.stream.consumers),
        ],
    );
}

/// Errors that RabbitMQ's stream protocol counts, and messages whose arrival at a dead letter queue
/// was confirmed: dashboards sum them up.
fn stream_errors(page: &mut Page, streams: &StreamProtocolStats) {
    /// By response code, from 2 on; 0x13, `NO_OFFSET`, has two names.
    const ERRORS: [&str; 19] = [
        "stream_does_not_exist",
        "subscription_id_already_exists",
        "subscription_id_does_not_exist",
        "stream_already_exists",
        "stream_not_available",
        "sasl_mechanism_not_supported",
        "authentication_failure",
        "sasl_error",
        "sasl_challenge",
        "sasl_authentication_failure_loopback",
        "vhost_access_failure",
        "unknown_frame",
        "frame_too_large",
        "internal_error",
        "access_refused",
        "precondition_failed",
        "publisher_does_not_exist",
        "no_offset",
        "offset_not_found",
    ];
    for (code, error) in (2..).zip(ERRORS) {
        let name = format!("global_stream_error_{error}_total");
        let count = streams.errors.get(code).copied().unwrap_or_default();
        let series = [(labels(&[("protocol", "stream")]), count)];
        page.metric(
            &name,
            Counter,
            "Total number of errors of this kind",
            series,
        );
    }
    let quorum = labels(&[
        ("queue_type", "rabbit_quorum_queue"),
        ("dead_letter_strategy", "at_least_once"),
    ]);
    page.metric(
        "global_messages_dead_lettered_confirmed_total",
        Counter,
        "Total number of messages dead-lettered and confirmed by target queues",
        [(quorum, 0)],
    );
}

/// Replicas that do not do what they are there for; RabbitMQ has no such thing.
fn unfit_replicas(page: &mut Page, broker: &BrokerStats) {
    for (name, help, count) in [
        (
            "replicas_quarantined",
            "Replicas on this node that take no part, as their logs are damaged or lack what they \
             had acknowledged",
            broker.replicas.quarantined,
        ),
        (
            "replicas_stuck",
            "Replicas of queues led on this node whose nodes are up, and that do not follow",
            broker.replicas.stuck,
        ),
    ] {
        page.one(&format!("leveret_{name}"), Gauge, help, count as u64);
    }
}

/// What consumers at a follower's node got from the replica there; RabbitMQ has no such thing.
fn from_replicas(page: &mut Page, broker: &BrokerStats) {
    for (name, help, count) in [
        (
            "messages_delivered_from_replica",
            "Total number of messages delivered out of a follower's log to consumers on its node",
            broker.replicas.deliveries,
        ),
        (
            "bytes_delivered_from_replica",
            "Total number of bytes of bodies of these messages",
            broker.replicas.delivered_bytes,
        ),
        (
            "messages_fetched_for_replica",
            "Total number of messages that a follower had to ask its leader for, to deliver them",
            broker.replicas.fetches,
        ),
    ] {
        page.one(&format!("leveret_{name}_total"), Counter, help, count);
    }
}

fn dead_lettered(page: &mut Page, broker: &BrokerStats) {
    let mut reasons: Vec<&str> = broker
        .dead_lettered
        .iter()
        .map(|(_, reason, _)| *reason)
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let series = broker.dead_lettered.iter().filter(|(_, r, _)| *r == reason);
        let series = series.map(|(kind, _, count)| {
            let kind = format!("rabbit_{kind}_queue");
            let labels = labels(&[
                ("queue_type", &kind),
                ("dead_letter_strategy", "at_most_once"),
            ]);
            (labels, *count)
        });
        let name = format!("global_messages_dead_lettered_{reason}_total");
        page.metric(
            &name,
            Counter,
            "Total number of messages dead-lettered for this reason",
            series,
        );
    }
}
