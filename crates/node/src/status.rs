//! What listings show of connections, channels and consumers.

use crate::identity::Peer;
use bytes::Bytes;
use leveret_amqp::{RawTable, TableBuilder};
use leveret_client::{ChannelCounters, DeliveredTo, UnsettledDelivery};
use leveret_stream_session::{PublisherStatus, SubscriptionStatus};
use leveret_types::limits::CONSUMER_ARGUMENTS_BYTES_MAX;
use leveret_types::{ChannelId, ConnectionId, ConsumerId, FieldTable, QueueId};
use std::sync::Arc;

/// Messages that a connection holds, of those that were asked about.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The connection's name.
    pub connection: String,
    /// Its user.
    pub user: String,
    /// The messages, each with the tag of the consumer that it was delivered to; without, where
    /// that was cancelled, or it was fetched.
    pub deliveries: Vec<(UnsettledDelivery, Option<String>)>,
}

/// What is known of a connection, for listings.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// The connection.
    pub id: ConnectionId,
    /// The protocol, as listings name it.
    pub protocol: &'static str,
    /// `client address -> broker address`, its name in listings.
    pub name: String,
    /// Who is at the other end.
    pub peer: Peer,
    /// Who logged in; empty before.
    pub user: String,
    /// The virtual host; empty before it is opened.
    pub vhost: String,
    /// What the client says of itself.
    pub client_properties: FieldTable,
    /// `starting`, `running`, `blocked`, `blocking` or `closing`.
    pub state: &'static str,
    /// Negotiated frame size in bytes.
    pub frame_max: u32,
    /// Negotiated number of channels.
    pub channel_max: u16,
    /// Negotiated heartbeat in seconds.
    pub heartbeat_seconds: u16,
    /// When it was accepted, milliseconds since the Unix epoch.
    pub connected_at_ms: u64,
    /// Bytes read from it.
    pub received_bytes: u64,
    /// Bytes written to it.
    pub sent_bytes: u64,
    /// Bytes that wait to be written to it.
    pub unsent_bytes: u64,
    /// TLS version and cipher suite.
    pub tls: Option<(String, String)>,
    /// SASL mechanism.
    pub mechanism: String,
    /// Its channels.
    pub channels: Vec<ChannelStatus>,
    /// Its consumers.
    pub consumers: Vec<ConsumerStatus>,
    /// What it has published, by channel and exchange.
    pub published: Vec<PublishedStatus>,
    /// Whether it has published anything.
    pub publishes: bool,
    /// Its publishers, where it speaks the stream protocol.
    pub stream_publishers: Vec<PublisherStatus>,
    /// Its subscriptions, where it speaks the stream protocol.
    pub stream_subscriptions: Vec<SubscriptionStatus>,
}

/// What is known of a channel, for listings.
#[derive(Clone, Debug)]
pub struct ChannelStatus {
    /// Its number.
    pub number: ChannelId,
    /// Consumers.
    pub consumers: usize,
    /// Those of them that consume from queues, not replies.
    pub queue_consumers: usize,
    /// `basic.qos` for new consumers.
    pub prefetch: u16,
    /// `basic.qos` with `global`.
    pub global_prefetch: u16,
    /// Deliveries that the client has not settled.
    pub unacknowledged: usize,
    /// Publishes that the client has no answer to yet.
    pub unconfirmed: usize,
    /// Messages of the open transaction.
    pub uncommitted: usize,
    /// Settles of the open transaction.
    pub uncommitted_acks: usize,
    /// Whether it is in confirm mode.
    pub confirm: bool,
    /// Whether it is transactional.
    pub transactional: bool,
    /// What happened to its messages.
    pub counters: ChannelCounters,
}

/// What is known of a consumer, for listings.
#[derive(Clone, Debug)]
pub struct ConsumerStatus {
    /// The consumer.
    pub id: ConsumerId,
    /// Its channel.
    pub channel: ChannelId,
    /// Its tag.
    pub tag: String,
    /// Its queue.
    pub queue: QueueId,
    /// Whether it settles.
    pub ack_required: bool,
    /// Whether it is the only one allowed.
    pub exclusive: bool,
    /// How many messages it may hold.
    pub prefetch: u16,
    /// When it was given the oldest message that it holds, in monotonic milliseconds; none where it
    /// holds none, or that is not known.
    pub oldest_held_ms: Option<u64>,
    /// Its arguments.
    pub arguments: KeptArguments,
    /// What it was given.
    pub delivered: DeliveredTo,
    /// Messages that it has acknowledged.
    pub acknowledged: u64,
}

/// A consumer's place among those of its connection: they are shown channel by channel.
pub type ConsumerPlace = (ChannelId, ConsumerId);

/// Which of a connection's consumers its status shows.
#[derive(Clone, Copy, Debug)]
pub enum ConsumersShown<'a> {
    /// None.
    None,
    /// All.
    All,
    /// These, as far as they are there.
    These(&'a [ConsumerId]),
    /// No more than so many of those behind a place; from the first one on where there is none.
    Behind(Option<ConsumerPlace>, usize),
}

/// What a channel has published to an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedStatus {
    /// The channel.
    pub channel: ChannelId,
    /// The exchange; the default one has the empty name.
    pub exchange: Arc<str>,
    /// Messages.
    pub messages: u64,
    /// Queues that they went into, by id, with how many did.
    pub queues: Vec<(QueueId, u64)>,
}

/// A consumer's arguments as they are kept for listings: as bytes, which take a fraction of the
/// memory of values, once for all that show them; of many, those that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptArguments(Bytes);

impl KeptArguments {
    /// Keeps what fits into [`CONSUMER_ARGUMENTS_BYTES_MAX`].
    pub(crate) fn of(arguments: &FieldTable) -> Self {
        let mut kept = Vec::new();
        for (name, value) in arguments.iter() {
            let mut one = TableBuilder::new();
            one.push(name, value);
            let one = one.as_table();
            if kept.len() + one.as_bytes().len() <= CONSUMER_ARGUMENTS_BYTES_MAX {
                kept.extend_from_slice(one.as_bytes());
            }
        }
        Self(kept.into_boxed_slice().into())
    }

    /// The arguments.
    pub fn to_table(&self) -> FieldTable {
        RawTable::trusted(&self.0).to_table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::FieldValue;

    #[test]
    fn a_consumer_keeps_the_arguments_that_fit() {
        let value = |length: usize| FieldValue::LongString(vec![b'x'; length]);
        let few = FieldTable::from_iter([
            ("x-priority".to_owned(), FieldValue::I32(7)),
            ("own".to_owned(), FieldValue::Array(vec![value(3)])),
        ]);
        assert_eq!(KeptArguments::of(&few).to_table(), few);
        let none = KeptArguments::of(&FieldTable::new());
        assert_eq!((none.0.len(), none.to_table()), (0, FieldTable::new()));

        let mut many = FieldTable::new();
        many.set("large", value(CONSUMER_ARGUMENTS_BYTES_MAX));
        many.set("x-priority", FieldValue::I32(7));
        for number in 0..2_000 {
            many.set(&format!("n{number}"), FieldValue::Void);
        }
        let kept = KeptArguments::of(&many);
        assert!(kept.0.len() <= CONSUMER_ARGUMENTS_BYTES_MAX);
        let shown = kept.to_table();
        assert_eq!(shown.get("large"), None);
        assert_eq!(shown.get("x-priority"), Some(&FieldValue::I32(7)));
        assert!(shown.get("n100").is_some() && shown.get("n1999").is_none());
    }
}
