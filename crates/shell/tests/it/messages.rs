//! Messages as a client sends them.

use leveret_amqp::{ContentHeader, FrameKind, Properties, basic, encode};

/// The class of a content header: `basic`.
const BASIC: u16 = 60;

/// The frames of a persistent message to a queue, by the default exchange, on channel 1.
pub fn publish(queue: &str, body: &[u8]) -> Vec<u8> {
    publish_to("", queue, body)
}

/// The frames of a persistent message to an exchange, on channel 1.
pub fn publish_to(exchange: &str, routing_key: &str, body: &[u8]) -> Vec<u8> {
    let properties = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let mut bytes = Vec::new();
    let publish = basic::Publish {
        exchange: exchange.as_bytes(),
        routing_key: routing_key.as_bytes(),
        mandatory: false,
        immediate: false,
    };
    encode::method(&mut bytes, 1, &publish);
    encode::frame(&mut bytes, FrameKind::Header, 1, |out| {
        let header = ContentHeader {
            class: BASIC,
            body_size: body.len() as u64,
            properties: &properties.to_bytes(),
        };
        header.encode(out);
    });
    if !body.is_empty() {
        encode::frame(&mut bytes, FrameKind::Body, 1, |out| {
            out.extend_from_slice(body)
        });
    }
    bytes
}
