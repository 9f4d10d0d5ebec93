//! A message as it travels through the broker: one reference-counted slice of bytes and where its
//! parts lie in it.

use crate::encoded;
use bytes::Bytes;

/// Bytes by which sizes of messages are counted in metrics, as in RabbitMQ.
pub const MESSAGE_SIZES: [u64; 8] = [
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
];

/// Where a part lies in a message's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// The bytes that this span names within `of`.
    #[must_use]
    pub fn of(self, of: &[u8]) -> &[u8] {
        &of[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// A published message. Cloning it takes a reference, not a copy.
///
/// All parts lie in one buffer (the socket's read buffer, or a chunk of the write-ahead log), so
/// that a message costs one reference count however many parts it has. `properties` are the
/// validated wire bytes of the content header from the property flags on: they are handed on as
/// they came, never decoded and encoded again.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Bytes,
    exchange: Span,
    routing_key: Span,
    properties: Span,
    body: Span,
    /// What the broker itself must know of the properties.
    pub summary: MessageSummary,
}

/// The format in which a message came, and in which it is kept: what its properties and its body
/// are. It is converted where it leaves in another one, and not before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFormat {
    /// AMQP 0-9-1: the properties are the wire bytes of the content header from the property flags
    /// on, the body is the payload.
    #[default]
    Amqp091,
    /// AMQP 1.0: the properties are the sections before the body (header, annotations, properties,
    /// application properties), the body is the body's sections and the footer.
    Amqp10,
}

impl MessageFormat {
    /// The number that stands for it in logs and between nodes; below 16.
    #[must_use]
    pub const fn tag(self) -> u8 {
        match self {
            Self::Amqp091 => 0,
            Self::Amqp10 => 1,
        }
    }

    /// The format of this number; nothing if it is not known.
    #[must_use]
    pub const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Self::Amqp091),
            1 => Some(Self::Amqp10),
            _ => None,
        }
    }
}

/// What the broker reads out of a message's properties once, when it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageSummary {
    /// `delivery-mode` 2.
    pub persistent: bool,
    /// `priority`; a classic queue takes none for 0, a quorum queue for 4.
    pub priority: Option<u8>,
    /// `expiration` in milliseconds.
    pub expiration_ms: Option<u64>,
    /// When the broker took it, milliseconds since the Unix epoch.
    pub published_ms: u64,
    /// Whether the broker has dead-lettered it: then its `x-death` header is the broker's own
    /// record, and not a client's claim.
    pub dead_lettered: bool,
    /// What its properties and its body are.
    pub format: MessageFormat,
}

/// The parts of a message as slices, to build one from.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageParts<'a> {
    /// Name of the exchange it was published to.
    pub exchange: &'a [u8],
    /// Routing key.
    pub routing_key: &'a [u8],
    /// Its properties, as [`MessageFormat`] says: for AMQP 0-9-1 the wire bytes of the content
    /// header from the property flags on.
    pub properties: &'a [u8],
    /// Body, as [`MessageFormat`] says.
    pub body: &'a [u8],
}

impl Message {
    /// A message whose parts lie at the given places of `bytes`.
    ///
    /// # Panics
    /// If a span reaches beyond `bytes`.
    #[must_use]
    pub fn from_spans(
        bytes: Bytes,
        exchange: Span,
        routing_key: Span,
        properties: Span,
        body: Span,
        summary: MessageSummary,
    ) -> Self {
        for span in [exchange, routing_key, properties, body] {
            assert!(span.start as usize + span.len as usize <= bytes.len());
        }
        Self {
            bytes,
            exchange,
            routing_key,
            properties,
            body,
            summary,
        }
    }

    /// A message copied together from its parts.
    #[must_use]
    pub fn from_parts(parts: MessageParts<'_>, summary: MessageSummary) -> Self {
        let pieces = [
            parts.exchange,
            parts.routing_key,
            parts.properties,
            parts.body,
        ];
        let mut buffer = Vec::with_capacity(pieces.iter().map(|p| p.len()).sum());
        let [exchange, routing_key, properties, body] = pieces.map(|piece| {
            let start = buffer.len() as u32;
            buffer.extend_from_slice(piece);
            Span {
                start,
                len: piece.len() as u32,
            }
        });
        Self {
            bytes: Bytes::from(buffer),
            exchange,
            routing_key,
            properties,
            body,
            summary,
        }
    }

    /// Name of the exchange it was published to.
    #[must_use]
    pub fn exchange(&self) -> &[u8] {
        self.exchange.of(&self.bytes)
    }

    /// Routing key it was published with.
    #[must_use]
    pub fn routing_key(&self) -> &[u8] {
        self.routing_key.of(&self.bytes)
    }

    /// Its properties, as its [`MessageFormat`] says: for AMQP 0-9-1 the wire bytes of the content
    /// header from the property flags on.
    #[must_use]
    pub fn properties(&self) -> &[u8] {
        self.properties.of(&self.bytes)
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.body.of(&self.bytes)
    }

    /// The body as a slice that shares the message's buffer.
    #[must_use]
    pub fn body_shared(&self) -> Bytes {
        let start = self.body.start as usize;
        self.bytes.slice(start..start + self.body.len as usize)
    }

    /// The parts as slices.
    #[must_use]
    pub fn parts(&self) -> MessageParts<'_> {
        MessageParts {
            exchange: self.exchange(),
            routing_key: self.routing_key(),
            properties: self.properties(),
            body: self.body(),
        }
    }

    /// The message as logs keep it ([`crate::encoded`]), if its buffer is that and nothing else:
    /// then it need not be copied. Nothing also where its summary has changed since it was made.
    #[must_use]
    pub fn encoded(&self) -> Option<Bytes> {
        let mut end = encoded::HEADER_BYTES as u32;
        let follows = |span: Span| {
            let follows = span.start == end || span.len == 0;
            end += span.len;
            follows
        };
        let parts = [self.exchange, self.routing_key, self.properties, self.body];
        let is_whole = parts.map(follows) == [true; 4] && end as usize == self.bytes.len();
        (is_whole && self.bytes.starts_with(&encoded::header(self))).then(|| self.bytes.clone())
    }

    /// What the message counts towards a queue's `x-max-length-bytes` and `message_bytes`: its
    /// body, as in RabbitMQ.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.body.len
    }

    /// What the message holds in memory while something refers to it, at least: all its parts.
    #[must_use]
    pub const fn weight(&self) -> usize {
        self.exchange.len as usize
            + self.routing_key.len as usize
            + self.properties.len as usize
            + self.body.len as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_as_they_went_in() {
        let parts = MessageParts {
            exchange: b"logs",
            routing_key: b"a.b",
            properties: &[0, 0],
            body: b"hello",
        };
        let message = Message::from_parts(parts, MessageSummary::default());
        assert_eq!(message.exchange(), b"logs");
        assert_eq!(message.routing_key(), b"a.b");
        assert_eq!(message.properties(), [0, 0]);
        assert_eq!(message.body(), b"hello");
        assert_eq!(&message.body_shared()[..], b"hello");
        assert_eq!(message.size(), 5);
        assert_eq!(message.weight(), 14);
    }

    #[test]
    fn a_message_in_its_encoded_form_is_not_copied_and_others_have_none() {
        let parts = MessageParts {
            exchange: b"logs",
            routing_key: b"",
            properties: &[0, 0],
            body: b"hello",
        };
        let plain = Message::from_parts(parts, MessageSummary::default());
        assert_eq!(plain.encoded(), None);
        let bytes = Bytes::from(encoded::pieces(&encoded::header(&plain), &plain).concat());
        let mut message = encoded::decode(bytes.clone()).expect("of this layout");
        let same = message.encoded().expect("as it came");
        assert_eq!((same.as_ptr(), same.len()), (bytes.as_ptr(), bytes.len()));
        message.summary.dead_lettered = true;
        assert_eq!(message.encoded(), None, "its header says otherwise");
        let more = [&bytes[..], b"!"].concat();
        let longer = Message::from_spans(
            Bytes::from(more),
            message.exchange,
            message.routing_key,
            message.properties,
            message.body,
            MessageSummary::default(),
        );
        assert_eq!(longer.encoded(), None, "something is behind it");
    }

    #[test]
    #[should_panic(expected = "span.start")]
    fn a_span_beyond_the_bytes_is_a_bug() {
        let beyond = Span { start: 1, len: 1 };
        let none = Span::default();
        drop(Message::from_spans(
            Bytes::from_static(b"x"),
            none,
            none,
            none,
            beyond,
            MessageSummary::default(),
        ));
    }
}
