//! The properties of AMQP 0-9-1 of a message that is as its client sent it.

use leveret_amqp::{Properties, Property};
use leveret_types::{Message, MessageParts};

/// Whether these wire bytes hold a property, without decoding them.
#[must_use]
pub fn has(properties: &[u8], property: Property) -> bool {
    properties
        .first_chunk::<2>()
        .is_some_and(|flags| u16::from_be_bytes(*flags) & property as u16 != 0)
}

/// A copy of `message` with other properties.
#[must_use]
pub fn with_properties(message: &Message, properties: &Properties<'_>) -> Message {
    let bytes = properties.to_bytes();
    Message::from_parts(
        MessageParts {
            properties: &bytes,
            ..message.parts()
        },
        message.summary,
    )
}
