//! What a fake has counted.

use leveret_management::api::{
    BrokerStats, Latencies, LoginCounts, MessageCounters, OpenCounts, StreamProtocolStats,
};
use leveret_types::LatencyCounts;

/// Counters of the whole node: these of messages of classic queues, and these latencies of confirms
/// over AMQP and over the stream protocol, acknowledgements, and first deliveries.
pub fn of_node(
    messages: MessageCounters,
    latencies: [LatencyCounts; 4],
    has_stream: bool,
) -> BrokerStats {
    let [confirms, stream_confirms, acknowledgements, waits] = latencies;
    let dead_lettered = [
        ("expired", 3),
        ("maxlen", 0),
        ("rejected", 0),
        ("delivery_limit", 0),
    ];
    BrokerStats {
        messages: vec![
            ("classic", messages),
            ("quorum", MessageCounters::default()),
        ],
        dead_lettered: dead_lettered
            .map(|(reason, count)| ("classic", reason, count))
            .into(),
        open: OpenCounts {
            connections: 2,
            ..OpenCounts::default()
        },
        logins: LoginCounts {
            amqp: (0, 0),
            stream: (4, 5),
            held: 7,
        },
        latencies: Latencies {
            confirms,
            stream_confirms,
            acknowledgements,
            waits,
        },
        stream: match has_stream {
            true => StreamProtocolStats {
                received: 40,
                confirmed: 39,
                delivered: 30,
                publishers: 1,
                consumers: 2,
                errors: std::array::from_fn(|code| if code == 2 { 3 } else { 0 }),
            },
            false => StreamProtocolStats::default(),
        },
        ..BrokerStats::default()
    }
}
