//! What listings show of connections, channels and consumers.

use crate::identity::Peer;
use leveret_client::ChannelCounters;
use leveret_stream_session::{PublisherStatus, SubscriptionStatus};
use leveret_types::{ChannelId, ConnectionId, ConsumerId, FieldTable, QueueId};

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
    pub arguments: FieldTable,
}
