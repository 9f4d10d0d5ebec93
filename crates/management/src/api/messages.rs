//! Messages as operators see them.

use crate::http::input::json_of;
use crate::written::{base64_bytes, written_bytes};
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

impl Got {
    /// Bytes that it takes, about, where it is shown: a text of control characters takes six times
    /// its own.
    #[must_use]
    pub fn shown_bytes(&self) -> usize {
        let payload = match std::str::from_utf8(&self.payload) {
            Ok(text) => written_bytes(text),
            Err(_) => base64_bytes(self.payload.len()),
        };
        let names = written_bytes(&self.exchange) + written_bytes(&self.routing_key);
        payload + names + json_of(&self.properties).to_string().len()
    }
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
