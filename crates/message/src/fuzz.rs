//! What fuzzing drives: functions that take any bytes and panic if the crate breaks a promise.

use crate::{StreamPosition, delivered, to_entry, unpack};
use bytes::Bytes;
use leveret_amqp::{Properties, TableBuilder};
use leveret_types::limits::CONVERTED_PROPERTIES_BYTES_MAX;
use leveret_types::{FieldTable, FieldValue, MessageParts};

const POSITION: StreamPosition<'static> = StreamPosition {
    stream: "s",
    offset: 7,
};

/// Any entry becomes a message whose properties a client can read. Once it has been through AMQP
/// 0-9-1, it stays the same on the way there and back.
///
/// # Panics
/// If not.
pub fn entry(input: &[u8]) {
    let message = delivered(input, POSITION);
    let properties = Properties::decode(message.properties());
    let properties = properties.expect("what is delivered is valid");
    assert!(message.properties().len() <= CONVERTED_PROPERTIES_BYTES_MAX);
    assert!(properties.headers().get(b"x-stream-offset").is_some());
    assert!(message.exchange().len() <= 255 && message.routing_key().len() <= 255);
    let mut again = Vec::new();
    to_entry(&message.parts(), &mut again);
    let once = delivered(&again, POSITION);
    Properties::decode(once.properties()).expect("what is delivered is valid");
    again.clear();
    to_entry(&once.parts(), &mut again);
    let twice = delivered(&again, POSITION);
    assert_eq!(once.parts().body, twice.parts().body);
    assert_eq!(once.parts().exchange, twice.parts().exchange);
    assert_eq!(once.parts().routing_key, twice.parts().routing_key);
    for compression in 0..3 {
        let records = input.first().copied().unwrap_or(0).into();
        if let Ok(batch) = unpack(compression, records, Bytes::copy_from_slice(input)) {
            assert_eq!(batch.count(), usize::from(records));
        }
    }
}

/// Any properties that are valid become an entry, which is read again.
///
/// # Panics
/// If not.
pub fn properties(input: &[u8]) {
    if Properties::decode(input).is_err() {
        return;
    }
    let parts = MessageParts {
        exchange: b"e",
        routing_key: b"k",
        properties: input,
        body: b"body",
    };
    let mut out = Vec::new();
    to_entry(&parts, &mut out);
    let message = delivered(&out, POSITION);
    Properties::decode(message.properties()).expect("what is delivered is valid");
    if message.exchange() == b"e" {
        assert_eq!(
            (message.routing_key(), message.body()),
            (&b"k"[..], &b"body"[..])
        );
    } else {
        assert_eq!(message.body(), out);
    }
    entry(&out);
}

/// Properties of a message, as many as there are.
fn example() -> Vec<u8> {
    let mut headers = FieldTable::new();
    headers.set("name", FieldValue::text("value"));
    headers.set("x-number", FieldValue::I64(-1));
    let list = vec![FieldValue::text("a"), FieldValue::Array(Vec::new())];
    headers.set("x-list", FieldValue::Array(list));
    headers.set("CC", FieldValue::Array(vec![FieldValue::text("copy")]));
    let table = TableBuilder::from(&headers);
    let properties = Properties {
        message_id: Some(b"urn:uuid:01234567-89ab-cdef-0123-456789abcdef"),
        timestamp: Some(1_700_000_000),
        expiration: Some(b"60000"),
        kind: Some(b"kind"),
        headers: Some(table.as_table()),
        ..Properties::default()
    };
    properties.to_bytes()
}

/// Inputs to begin with: properties of AMQP 0-9-1.
#[must_use]
pub fn property_seeds() -> Vec<Vec<u8>> {
    let of_sections = Properties {
        kind: Some(b"amqp-1.0"),
        app_id: Some(b"app"),
        ..Properties::default()
    };
    vec![example(), of_sections.to_bytes(), vec![0, 0]]
}

/// Inputs to begin with: entries of several forms.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let parts = MessageParts {
        exchange: b"logs",
        routing_key: b"a.b",
        properties: &example(),
        body: b"hello",
    };
    let mut whole = Vec::new();
    to_entry(&parts, &mut whole);
    vec![
        whole,
        b"\x00\x53\x75\xA0\x05hello".to_vec(),
        b"\x00\x53\x77\xA1\x05hello".to_vec(),
        b"\x00\xA3\x10amqp:data:binary\xA0\x01x".to_vec(),
        b"\x00\x53\x74\xC1\x06\x02\xA1\x01k\x54\x05\x00\x53\x76\xC0\x03\x02\x43\x44".to_vec(),
        b"\x00\x53\x72\xC1\x0F\x02\xA3\x03x-a\xF0\0\0\0\x05\0\0\0\x09\x40".to_vec(),
        b"no sections".to_vec(),
    ]
}
