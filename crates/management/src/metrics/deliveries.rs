//! Metrics of what was delivered, which queues and channels have alike.

use crate::api::MessageCounters;

/// Metrics of what was delivered, by what it was delivered to: a queue, a channel.
macro_rules! deliveries {
    ($of:literal) => {
        [
            (
                concat!($of, "_get_ack_total"),
                Counter,
                "Total number of messages fetched with basic.get in manual acknowledgement mode",
            ),
            (
                concat!($of, "_get_total"),
                Counter,
                "Total number of messages fetched with basic.get in automatic acknowledgement mode",
            ),
            (
                concat!($of, "_messages_delivered_ack_total"),
                Counter,
                "Total number of messages delivered to consumers in manual acknowledgement mode",
            ),
            (
                concat!($of, "_messages_delivered_total"),
                Counter,
                "Total number of messages delivered to consumers in automatic acknowledgement mode",
            ),
            (
                concat!($of, "_messages_redelivered_total"),
                Counter,
                "Total number of messages redelivered to consumers",
            ),
            (
                concat!($of, "_messages_acked_total"),
                Counter,
                "Total number of messages acknowledged by consumers",
            ),
            (
                concat!($of, "_get_empty_total"),
                Counter,
                "Total number of times basic.get operations fetched no message",
            ),
        ]
    };
}
pub(super) use deliveries;

/// What [`deliveries`] are about, in its order.
pub(super) fn delivered(m: &MessageCounters) -> [u64; 7] {
    [
        m.got,
        m.got_auto_ack,
        m.delivered,
        m.delivered_auto_ack,
        m.redelivered,
        m.acknowledged,
        m.got_empty,
    ]
}
