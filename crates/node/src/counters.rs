//! Counters of the whole node.

use crate::latency_totals::LatencyTotals;
use crate::stream_deliveries::StreamDeliveries;
use leveret_auth::{LoginProtocol, LoginSources};
use leveret_client::Answered;
use leveret_stream_session::{CODES as STREAM_CODES, Totals};
use leveret_types::{LatencyCounts, MESSAGE_SIZES};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that only grow, written by any thread.
        #[derive(Debug, Default)]
        pub struct NodeCounters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Bodies of messages over AMQP by size: within each of [`MESSAGE_SIZES`] and none
            /// before, and those that are larger than all.
            pub message_sizes: [AtomicU64; MESSAGE_SIZES.len() + 1],
            /// Errors that clients of the stream protocol were told, by their response codes.
            pub stream_errors: [AtomicU64; STREAM_CODES],
            /// Logins over all protocols by where they come from.
            pub login_sources: LoginSources,
            /// What clients of AMQP were delivered of streams.
            pub stream_deliveries: StreamDeliveries,
            /// From the read of a publish to its confirm; not over the stream protocol.
            pub confirms: LatencyTotals,
            /// The same over the stream protocol.
            pub stream_confirms: LatencyTotals,
            /// From when a message was taken to its first delivery.
            pub waits: LatencyTotals,
            /// From a delivery to its acknowledgement.
            pub acknowledgements: LatencyTotals,
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct CounterValues {
            $($(#[$doc])* pub $name: u64,)*
            /// Bodies of messages over AMQP by size.
            pub message_sizes: [u64; MESSAGE_SIZES.len() + 1],
            /// Errors that clients of the stream protocol were told, by their response codes.
            pub stream_errors: [u64; STREAM_CODES],
            /// From the read of a publish to its confirm; not over the stream protocol.
            pub confirms: LatencyCounts,
            /// The same over the stream protocol.
            pub stream_confirms: LatencyCounts,
            /// From when a message was taken to its first delivery.
            pub waits: LatencyCounts,
            /// From a delivery to its acknowledgement.
            pub acknowledgements: LatencyCounts,
        }

        impl NodeCounters {
            /// The values now; each is exact, and they may be a moment apart.
            #[must_use]
            pub fn values(&self) -> CounterValues {
                let errors = self.stream_errors.iter();
                let mut errors = errors.map(|count| count.load(Ordering::Relaxed));
                CounterValues {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    message_sizes: std::array::from_fn(|at| {
                        self.message_sizes[at].load(Ordering::Relaxed)
                    }),
                    stream_errors: std::array::from_fn(|_| errors.next().unwrap_or_default()),
                    confirms: self.confirms.values(),
                    stream_confirms: self.stream_confirms.values(),
                    waits: self.waits.values(),
                    acknowledgements: self.acknowledgements.values(),
                }
            }
        }
    };
}

counters! {
    /// Messages received from publishers.
    messages_received,
    /// Bytes of their bodies.
    message_bytes,
    /// Messages received on channels in confirm mode.
    messages_received_confirm,
    /// Messages whose publishers were told that they are confirmed. Those that were refused are
    /// none of them.
    messages_confirmed,
    /// Messages whose publishers were told that a queue has refused them, wherever it is led; not
    /// those over the stream protocol.
    messages_refused,
    /// Messages put into at least one queue.
    messages_routed,
    /// Messages that reached no queue and were dropped.
    messages_unroutable_dropped,
    /// Messages that reached no queue and were returned.
    messages_unroutable_returned,
    /// Deliveries sent, gets included.
    messages_delivered,
    /// Messages that went to a dead-letter exchange, by reason.
    messages_dead_lettered_expired,
    /// See above.
    messages_dead_lettered_rejected,
    /// See above.
    messages_dead_lettered_maxlen,
    /// See above.
    messages_dead_lettered_delivery_limit,
    /// Connections accepted.
    connections_opened,
    /// Connections that ended.
    connections_closed,
    /// Channels opened.
    channels_opened,
    /// Channels closed.
    channels_closed,
    /// Queues declared anew.
    queues_declared,
    /// Queues created.
    queues_created,
    /// Queues deleted.
    queues_deleted,
    /// Logins over AMQP that succeeded.
    logins_succeeded,
    /// Logins over AMQP that failed.
    logins_failed,
    /// Logins over the stream protocol that succeeded.
    stream_logins_succeeded,
    /// Logins over the stream protocol that failed.
    stream_logins_failed,
    /// Entries received from publishers of the stream protocol.
    stream_messages_received,
    /// Entries confirmed to them.
    stream_messages_confirmed,
    /// Messages sent to subscriptions of the stream protocol.
    stream_messages_delivered,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl NodeCounters {
    /// Somebody has tried to log in over AMQP.
    pub(crate) fn logged_in(&self, from: IpAddr, user: &str, is_let_in: bool) {
        match is_let_in {
            true => add(&self.logins_succeeded, 1),
            false => add(&self.logins_failed, 1),
        }
        let sources = &self.login_sources;
        sources.note(LoginProtocol::Amqp, from, user, is_let_in);
    }

    /// The same over the stream protocol.
    pub(crate) fn stream_logged_in(&self, from: IpAddr, user: &str, is_let_in: bool) {
        match is_let_in {
            true => add(&self.stream_logins_succeeded, 1),
            false => add(&self.stream_logins_failed, 1),
        }
        let sources = &self.login_sources;
        sources.note(LoginProtocol::Stream, from, user, is_let_in);
    }

    /// A message has come whose body has so many bytes.
    pub(crate) fn received(&self, bytes: u32) {
        add(&self.messages_received, 1);
        add(&self.message_bytes, u64::from(bytes));
        let slot = MESSAGE_SIZES
            .iter()
            .position(|most| u64::from(bytes) <= *most);
        add(&self.message_sizes[slot.unwrap_or(MESSAGE_SIZES.len())], 1);
    }

    /// Publishers were told so of their messages.
    pub(crate) fn answered(&self, Answered { confirmed, refused }: Answered) {
        for (counter, count) in [
            (&self.messages_confirmed, confirmed),
            (&self.messages_refused, refused),
        ] {
            if count > 0 {
                add(counter, count);
            }
        }
    }

    /// Adds what a stream connection has done since it was last asked.
    pub(crate) fn stream_went_on(&self, before: &Totals, now: &Totals) {
        add(
            &self.stream_messages_received,
            now.received - before.received,
        );
        add(
            &self.stream_messages_confirmed,
            now.confirmed - before.confirmed,
        );
        add(
            &self.stream_messages_delivered,
            now.delivered - before.delivered,
        );
        if before.errors != now.errors {
            let both = now.errors.iter().zip(&before.errors);
            for (counter, (now, before)) in self.stream_errors.iter().zip(both) {
                add(counter, now.wrapping_sub(*before).into());
            }
        }
    }

    pub(crate) fn dead_lettered(&self, reason: leveret_queue::Reason) {
        use leveret_queue::Reason;
        let counter = match reason {
            Reason::Expired => &self.messages_dead_lettered_expired,
            Reason::Rejected => &self.messages_dead_lettered_rejected,
            Reason::MaxLength => &self.messages_dead_lettered_maxlen,
            Reason::DeliveryLimit => &self.messages_dead_lettered_delivery_limit,
        };
        add(counter, 1);
    }
}
