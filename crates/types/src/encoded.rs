//! A message as queues' logs keep it and nodes send it: the layout of what a log refers to.
//!
//! ```text
//! offset  0  u8   layout version: 1 for a message of AMQP 0-9-1, 2 for one of another format
//!         1  u8   flags: 1 persistent, 2 has an expiration, 4 has a priority, 8 dead-lettered;
//!                 in version 2 the upper four bits are the format's number
//!         2  u8   priority
//!         3  u8   length of the exchange's name
//!         4  u32  length of the properties
//!         8  u64  when the broker took it, ms since the Unix epoch
//!        16  u64  expiration in ms (0 without the flag)
//!        24  u8   length of the routing key
//!        25  exchange, routing key, properties, body
//! ```
//! Integers are little-endian. The engine's checksum covers all of it.
//!
//! So what every version of Leveret has written is read, and a message of AMQP 0-9-1 can be read by
//! all of them. A version or a format that is not known is no message: nothing of it is guessed.

use crate::Message;
use crate::message::{MessageFormat, MessageSummary, Span};
use bytes::Bytes;

/// Bytes before the exchange's name.
pub const HEADER_BYTES: usize = 25;
const VERSION_OF_AMQP_091: u8 = 1;
const VERSION_OF_FORMATS: u8 = 2;
const FLAG_PERSISTENT: u8 = 1;
const FLAG_EXPIRATION: u8 = 2;
const FLAG_PRIORITY: u8 = 4;
const FLAG_DEAD_LETTERED: u8 = 8;
const FORMAT_SHIFT: u32 = 4;

/// The header of `message`: what goes before its exchange, routing key, properties and body.
#[must_use]
pub fn header(message: &Message) -> [u8; HEADER_BYTES] {
    let parts = message.parts();
    let lengths = [parts.exchange, parts.routing_key, parts.properties].map(<[u8]>::len);
    header_of(lengths, message.summary)
}

/// The same of a message whose exchange, routing key and properties have so many bytes.
///
/// # Panics
/// If exchange or routing key are no short strings.
#[must_use]
pub fn header_of(
    [exchange, routing_key, properties]: [usize; 3],
    summary: MessageSummary,
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = match summary.format {
        MessageFormat::Amqp091 => VERSION_OF_AMQP_091,
        MessageFormat::Amqp10 => VERSION_OF_FORMATS,
    };
    header[1] = if summary.persistent {
        FLAG_PERSISTENT
    } else {
        0
    } | if summary.expiration_ms.is_some() {
        FLAG_EXPIRATION
    } else {
        0
    } | if summary.priority.is_some() {
        FLAG_PRIORITY
    } else {
        0
    } | if summary.dead_lettered {
        FLAG_DEAD_LETTERED
    } else {
        0
    };
    header[1] |= summary.format.tag() << FORMAT_SHIFT;
    header[2] = summary.priority.unwrap_or(0);
    header[3] = u8::try_from(exchange).expect("a short string");
    header[4..8].copy_from_slice(&(properties as u32).to_le_bytes());
    header[8..16].copy_from_slice(&summary.published_ms.to_le_bytes());
    header[16..24].copy_from_slice(&summary.expiration_ms.unwrap_or(0).to_le_bytes());
    header[24] = u8::try_from(routing_key).expect("a short string");
    header
}

/// What is written of `message`, in order; `header` is its [`header`].
#[must_use]
pub fn pieces<'a>(header: &'a [u8; HEADER_BYTES], message: &'a Message) -> [&'a [u8]; 5] {
    let parts = message.parts();
    [
        header,
        parts.exchange,
        parts.routing_key,
        parts.properties,
        parts.body,
    ]
}

/// What the broker reads of a message without its parts; nothing if the bytes are not of this
/// layout.
#[must_use]
pub fn summary(bytes: &[u8]) -> Option<(MessageSummary, u32)> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let integer = |at: usize| {
        u64::from_le_bytes(
            header[at..at + 8]
                .try_into()
                .expect("eight bytes of an array"),
        )
    };
    let format = match header[0] {
        VERSION_OF_AMQP_091 => MessageFormat::Amqp091,
        VERSION_OF_FORMATS => MessageFormat::from_tag(header[1] >> FORMAT_SHIFT)?,
        _ => return None,
    };
    let summary = MessageSummary {
        persistent: header[1] & FLAG_PERSISTENT != 0,
        priority: (header[1] & FLAG_PRIORITY != 0).then_some(header[2]),
        expiration_ms: (header[1] & FLAG_EXPIRATION != 0).then(|| integer(16)),
        published_ms: integer(8),
        dead_lettered: header[1] & FLAG_DEAD_LETTERED != 0,
        format,
    };
    let before = HEADER_BYTES
        + usize::from(header[3])
        + usize::from(header[24])
        + u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let body = bytes.len().checked_sub(before)?;
    Some((summary, u32::try_from(body).ok()?))
}

/// The message in these bytes, sharing them; nothing if they are not of this layout.
#[must_use]
pub fn decode(bytes: Bytes) -> Option<Message> {
    let (summary, body_len) = summary(&bytes)?;
    let mut start = HEADER_BYTES as u32;
    let mut span = |len: u32| {
        let span = Span { start, len };
        start += len;
        span
    };
    let exchange = span(u32::from(bytes[3]));
    let routing_key = span(u32::from(bytes[24]));
    let properties = span(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
    let body = span(body_len);
    Some(Message::from_spans(
        bytes,
        exchange,
        routing_key,
        properties,
        body,
        summary,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageParts;

    fn encode(message: &Message) -> Vec<u8> {
        let parts = message.parts();
        let header = header(message);
        [
            &header[..],
            parts.exchange,
            parts.routing_key,
            parts.properties,
            parts.body,
        ]
        .concat()
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        for expiration_ms in [None, Some(0), Some(u64::MAX)] {
            let parts = MessageParts {
                exchange: &[b'x'; 255],
                routing_key: b"key",
                properties: &[0x10, 0, 2],
                body: b"body",
            };
            let summary = MessageSummary {
                persistent: true,
                priority: Some(9),
                expiration_ms,
                published_ms: 1 << 40,
                dead_lettered: true,
                format: MessageFormat::Amqp10,
            };
            let message = Message::from_parts(parts, summary);
            let again = decode(Bytes::from(encode(&message))).expect("of this layout");
            assert_eq!(again.summary, summary);
            assert_eq!(again.exchange(), parts.exchange);
            assert_eq!(again.routing_key(), parts.routing_key);
            assert_eq!(again.properties(), parts.properties);
            assert_eq!(again.body(), parts.body);
        }
    }

    #[test]
    fn every_cut_of_a_message_is_refused_or_shorter_in_its_body_alone() {
        let parts = MessageParts {
            exchange: b"e",
            routing_key: b"k",
            properties: &[0, 0],
            body: b"",
        };
        let bytes = encode(&Message::from_parts(parts, MessageSummary::default()));
        for end in 0..bytes.len() {
            assert!(
                decode(Bytes::copy_from_slice(&bytes[..end])).is_none(),
                "cut at {end}"
            );
        }
    }

    /// Frozen: nodes of all versions write and read these bytes.
    const GOLDEN_AMQP_091: &[u8] =
        b"\x01\x05\x07\x01\x03\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\0\0\0\0\0\0\0\0\x02ekk\x10\0\x02body";
    const GOLDEN_AMQP_10: &[u8] = b"\x02\x13\0\x01\x03\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\
        \x0a\0\0\0\0\0\0\0\x02ekk\0\x53\x70\0\x53\x75\xa0\x01m";

    fn golden(format: MessageFormat) -> Message {
        let is_plain = format == MessageFormat::Amqp091;
        let parts = MessageParts {
            exchange: b"e",
            routing_key: b"kk",
            properties: if is_plain {
                &[0x10, 0, 2]
            } else {
                &[0, 0x53, 0x70]
            },
            body: if is_plain {
                b"body"
            } else {
                b"\0\x53\x75\xa0\x01m"
            },
        };
        let summary = MessageSummary {
            persistent: true,
            priority: is_plain.then_some(7),
            expiration_ms: (!is_plain).then_some(10),
            published_ms: 0x0102_0304_0506_0708,
            dead_lettered: false,
            format,
        };
        Message::from_parts(parts, summary)
    }

    #[test]
    fn the_layouts_of_all_versions_are_written_and_read_as_they_were() {
        let layouts = [
            (MessageFormat::Amqp091, GOLDEN_AMQP_091),
            (MessageFormat::Amqp10, GOLDEN_AMQP_10),
        ];
        for (format, bytes) in layouts {
            let message = golden(format);
            assert_eq!(encode(&message), bytes, "{format:?}");
            let read = decode(Bytes::from_static(bytes)).expect("of this layout");
            assert_eq!(read.summary, message.summary);
            assert_eq!(read.properties(), message.properties());
            assert_eq!(read.body(), message.body());
        }
    }

    #[test]
    fn a_later_layout_or_format_is_no_message() {
        let mut later = GOLDEN_AMQP_10.to_vec();
        later[0] = 3;
        assert_eq!(summary(&later), None);
        let mut unknown = GOLDEN_AMQP_10.to_vec();
        unknown[1] = 0xF3;
        assert_eq!(summary(&unknown), None);
    }
}
