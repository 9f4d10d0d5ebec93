//! Messages as operators see them.

use leveret_types::FieldTable;

/// A message that was got.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    /// The exchange it was published to.
    pub exchange: String,
    /// Its routing key.
    pub routing_key: String,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Messages that wait behind it.
    pub remaining: u64,
    /// Properties by RabbitMQ's names.
    pub properties: FieldTable,
    /// Body, or as much of it as was wanted.
    pub payload: Vec<u8>,
    /// Bytes of the whole body.
    pub body_bytes: usize,
}

/// A message that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct LookedAt {
    /// What tells it from others: the same for the same exchange, key, properties and body.
    pub fingerprint: u64,
    /// When the broker took it, in milliseconds since the Unix epoch.
    pub taken_ms: u64,
    /// The message.
    pub message: Got,
}
