//! Settings of sessions that an operator may choose.

use leveret_types::unfinished::Unfinished;
use leveret_types::{FieldTable, FieldValue, limits};
use std::sync::Arc;

/// Settings of all sessions of a listener, shared between them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Octets of a frame that the broker proposes, and accepts at most.
    pub frame_max: u32,
    /// Channels of one connection; 0 leaves their number to the client.
    pub channel_max: u16,
    /// Heartbeat interval that the broker proposes, in seconds; 0 proposes none.
    pub heartbeat_seconds: u16,
    /// Octets of a message's body.
    pub message_bytes_max: u64,
    /// Consumers of one channel.
    pub consumers_per_channel_max: usize,
    /// SASL mechanisms on offer, in the order of preference, with spaces between them.
    pub mechanisms: String,
    /// What the broker says of itself.
    pub server_properties: FieldTable,
    /// Milliseconds that a client has to log in and open its virtual host.
    pub handshake_ms_max: u64,
    /// What publishes that have not arrived whole hold, of all connections of the node: shared by
    /// the settings of all its listeners.
    pub unfinished: Arc<Unfinished>,
}

impl Default for Settings {
    /// RabbitMQ's defaults.
    fn default() -> Self {
        Self {
            frame_max: limits::FRAME_BYTES_MAX,
            channel_max: limits::CHANNELS_MAX,
            heartbeat_seconds: limits::HEARTBEAT_SECONDS,
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
            consumers_per_channel_max: limits::CONSUMERS_PER_CHANNEL_MAX,
            mechanisms: "PLAIN AMQPLAIN".to_owned(),
            server_properties: FieldTable::from([("capabilities", capabilities())]),
            handshake_ms_max: limits::HANDSHAKE_MS_MAX,
            unfinished: Arc::default(),
        }
    }
}

/// The `capabilities` of a RabbitMQ server: clients test them before they use what they name.
#[must_use]
pub fn capabilities() -> FieldValue {
    let names = [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ];
    FieldValue::Table(names.map(|name| (name, FieldValue::Bool(true))).into())
}
