//! Content headers and message properties.
//!
//! ```text
//! class u16, weight u16 (0), body size u64, flags u16, then the properties whose flags are set:
//!
//! bit 15 content-type     short string     bit 8 expiration  short string
//!     14 content-encoding short string         7 message-id  short string
//!     13 headers          table                6 timestamp   u64, seconds since the Unix epoch
//!     12 delivery-mode    octet                5 type        short string
//!     11 priority         octet                4 user-id     short string
//!     10 correlation-id   short string         3 app-id      short string
//!      9 reply-to         short string         2 cluster-id  short string
//! ```
//!
//! Bit 1 has no property, and bit 0 would announce more flags, of which there are none.

use crate::error::DecodeError;
use crate::table::RawTable;
use crate::wire::{self, Reader};

/// A content header's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// Class of the method that it belongs to.
    pub class: u16,
    /// Octets of the body.
    pub body_size: u64,
    /// Property flags and properties, unchecked.
    pub properties: &'a [u8],
}

impl<'a> ContentHeader<'a> {
    /// Reads a header frame's payload; [`Properties::decode`] reads the rest.
    ///
    /// # Errors
    /// If it is too short or its weight is not 0.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let class = reader.short()?;
        let weight = reader.short()?;
        let body_size = reader.long_long()?;
        if weight != 0 {
            return Err(DecodeError::Weight(weight));
        }
        Ok(Self {
            class,
            body_size,
            properties: reader.rest(),
        })
    }

    /// Appends a header frame's payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.class.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.body_size.to_be_bytes());
        out.extend_from_slice(self.properties);
    }
}

/// A property, by the bit of its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The specification's names.
#[repr(u16)]
pub enum Property {
    ContentType = 1 << 15,
    ContentEncoding = 1 << 14,
    Headers = 1 << 13,
    DeliveryMode = 1 << 12,
    Priority = 1 << 11,
    CorrelationId = 1 << 10,
    ReplyTo = 1 << 9,
    Expiration = 1 << 8,
    MessageId = 1 << 7,
    Timestamp = 1 << 6,
    Type = 1 << 5,
    UserId = 1 << 4,
    AppId = 1 << 3,
    ClusterId = 1 << 2,
}

/// Flags that no property has.
const UNKNOWN_FLAGS: u16 = 0b11;

/// The properties of a message. To change some, decode, assign and encode: what is not changed is
/// copied as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    /// MIME type.
    pub content_type: Option<&'a [u8]>,
    /// MIME encoding.
    pub content_encoding: Option<&'a [u8]>,
    /// Headers.
    pub headers: Option<RawTable<'a>>,
    /// 2 for a message that must survive a restart.
    pub delivery_mode: Option<u8>,
    /// Higher goes first, in a queue that has priorities.
    pub priority: Option<u8>,
    /// What a reply refers to.
    pub correlation_id: Option<&'a [u8]>,
    /// Where replies go.
    pub reply_to: Option<&'a [u8]>,
    /// Milliseconds that the message may wait, as decimal text.
    pub expiration: Option<&'a [u8]>,
    /// The application's name of this message.
    pub message_id: Option<&'a [u8]>,
    /// Seconds since the Unix epoch.
    pub timestamp: Option<u64>,
    /// The application's kind of message.
    pub kind: Option<&'a [u8]>,
    /// Who published it: checked by the broker.
    pub user_id: Option<&'a [u8]>,
    /// Which application published it.
    pub app_id: Option<&'a [u8]>,
    /// Unused since AMQP 0-9, handed on all the same.
    pub cluster_id: Option<&'a [u8]>,
}

impl<'a> Properties<'a> {
    /// Reads and checks the properties of a message that arrives: `bytes` are all from the flags to
    /// the end of the header.
    ///
    /// # Errors
    /// If a flag has no property, if the bytes are not exactly those properties, or if the headers
    /// are no valid table.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::read(bytes, Reader::table)
    }

    /// Reads properties that were checked when they arrived, without checking the headers again. Of
    /// bytes that were never checked it finds none, or headers that do not make sense: see
    /// [`RawTable::trusted`].
    #[must_use]
    pub fn trusted(bytes: &'a [u8]) -> Self {
        let headers = |reader: &mut Reader<'a>| reader.long_string().map(RawTable::trusted);
        Self::read(bytes, headers).unwrap_or_default()
    }

    fn read(
        bytes: &'a [u8],
        headers: impl FnOnce(&mut Reader<'a>) -> Result<RawTable<'a>, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let flags = reader.short()?;
        if flags & UNKNOWN_FLAGS != 0 {
            return Err(DecodeError::PropertyFlags(flags & UNKNOWN_FLAGS));
        }
        let mut properties = Self::default();
        // Most messages have few properties or none; the fields' order is that of the wire.
        macro_rules! read {
            ($($field:ident: $flag:ident = $read:expr;)*) => {
                $(if flags & Property::$flag as u16 != 0 {
                    properties.$field = Some($read);
                })*
            };
        }
        read! {
            content_type: ContentType = reader.short_string()?;
            content_encoding: ContentEncoding = reader.short_string()?;
            headers: Headers = headers(&mut reader)?;
            delivery_mode: DeliveryMode = reader.octet()?;
            priority: Priority = reader.octet()?;
            correlation_id: CorrelationId = reader.short_string()?;
            reply_to: ReplyTo = reader.short_string()?;
            expiration: Expiration = reader.short_string()?;
            message_id: MessageId = reader.short_string()?;
            timestamp: Timestamp = reader.long_long()?;
            kind: Type = reader.short_string()?;
            user_id: UserId = reader.short_string()?;
            app_id: AppId = reader.short_string()?;
            cluster_id: ClusterId = reader.short_string()?;
        }
        reader.finish()?;
        Ok(properties)
    }

    /// Appends flags and properties: what a [`leveret_types::Message`] keeps.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut flags = 0_u16;
        out.extend_from_slice(&[0; 2]);
        macro_rules! write {
            ($($field:ident: $flag:ident, $value:ident => $write:expr;)*) => {
                $(if let Some($value) = self.$field {
                    flags |= Property::$flag as u16;
                    $write;
                })*
            };
        }
        write! {
            content_type: ContentType, v => wire::put_short_string(out, v);
            content_encoding: ContentEncoding, v => wire::put_short_string(out, v);
            headers: Headers, v => wire::put_long_string(out, v.as_bytes());
            delivery_mode: DeliveryMode, v => out.push(v);
            priority: Priority, v => out.push(v);
            correlation_id: CorrelationId, v => wire::put_short_string(out, v);
            reply_to: ReplyTo, v => wire::put_short_string(out, v);
            expiration: Expiration, v => wire::put_short_string(out, v);
            message_id: MessageId, v => wire::put_short_string(out, v);
            timestamp: Timestamp, v => out.extend_from_slice(&v.to_be_bytes());
            kind: Type, v => wire::put_short_string(out, v);
            user_id: UserId, v => wire::put_short_string(out, v);
            app_id: AppId, v => wire::put_short_string(out, v);
            cluster_id: ClusterId, v => wire::put_short_string(out, v);
        }
        out[start..start + 2].copy_from_slice(&flags.to_be_bytes());
    }

    /// Flags and properties in bytes of their own.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// The headers, or none.
    #[must_use]
    pub fn headers(&self) -> RawTable<'a> {
        self.headers.unwrap_or(RawTable::EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::Random;
    use crate::table::TableBuilder;
    use leveret_types::FieldValue;

    fn random_properties<'a>(random: &mut Random, strings: &'a [Vec<u8>]) -> Properties<'a> {
        let mut string = || {
            let string = &strings[random.below(strings.len() as u64) as usize];
            (random.below(2) == 0).then_some(&string[..])
        };
        Properties {
            content_type: string(),
            content_encoding: string(),
            correlation_id: string(),
            reply_to: string(),
            expiration: string(),
            message_id: string(),
            kind: string(),
            user_id: string(),
            app_id: string(),
            cluster_id: string(),
            headers: None,
            delivery_mode: Some(2),
            priority: None,
            timestamp: Some(u64::MAX),
        }
    }

    #[test]
    fn random_properties_survive_the_way_there_and_back() {
        let strings = [vec![], b"x".to_vec(), vec![0xFF; 255]];
        for seed in 1..300 {
            let mut random = Random::new(seed);
            let headers = TableBuilder::from(&random.table(3));
            let mut properties = random_properties(&mut random, &strings);
            properties.headers = (seed % 3 == 0).then_some(headers.as_table());
            let bytes = properties.to_bytes();
            assert_eq!(Properties::decode(&bytes), Ok(properties));
            assert_eq!(Properties::trusted(&bytes), properties);
            for cut in 0..bytes.len() {
                assert!(Properties::decode(&bytes[..cut]).is_err(), "{cut}");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            let refused = Properties::decode(&longer);
            assert_eq!(refused, Err(DecodeError::Trailing(1)));
        }
    }

    /// Wire bytes, and what they set.
    type Case = (&'static [u8], fn(&mut Properties<'static>));

    const TEXT: Option<&[u8]> = Some(b"v");

    const CASES: [Case; 15] = [
        (b"\x00\x00", |_| {}),
        (b"\x80\x00\x01v", |p| p.content_type = TEXT),
        (b"\x40\x00\x01v", |p| p.content_encoding = TEXT),
        (b"\x20\x00\0\0\0\0", |p| p.headers = Some(RawTable::EMPTY)),
        (b"\x10\x00\x02", |p| p.delivery_mode = Some(2)),
        (b"\x08\x00\xFF", |p| p.priority = Some(255)),
        (b"\x04\x00\x01v", |p| p.correlation_id = TEXT),
        (b"\x02\x00\x01v", |p| p.reply_to = TEXT),
        (b"\x01\x00\x01v", |p| p.expiration = TEXT),
        (b"\x00\x80\x01v", |p| p.message_id = TEXT),
        (b"\x00\x40\0\0\0\0\0\0\0\x07", |p| p.timestamp = Some(7)),
        (b"\x00\x20\x01v", |p| p.kind = TEXT),
        (b"\x00\x10\x01v", |p| p.user_id = TEXT),
        (b"\x00\x08\x01v", |p| p.app_id = TEXT),
        (b"\x00\x04\x01v", |p| p.cluster_id = TEXT),
    ];

    #[test]
    fn each_flag_stands_for_its_own_property() {
        for (bytes, set) in CASES {
            let mut properties = Properties::default();
            set(&mut properties);
            assert_eq!(Properties::decode(bytes), Ok(properties));
            assert_eq!(properties.to_bytes(), bytes);
        }
        for flags in [1, 2, 3] {
            let bytes = [0, flags, 0, 0];
            let refused = Properties::decode(&bytes);
            assert_eq!(refused, Err(DecodeError::PropertyFlags(u16::from(flags))));
        }
    }

    #[test]
    fn headers_are_checked_on_arrival() {
        let refused = Properties::decode(b"\x20\x00\0\0\0\x03\x01kZ");
        assert_eq!(refused, Err(DecodeError::TableType(b'Z')));
        let refused = Properties::decode(b"\x20\x00\0\0\0\x09\x01kV");
        assert_eq!(refused, Err(DecodeError::Truncated));
    }

    #[test]
    fn a_header_is_read_as_far_as_the_flags() {
        let header = ContentHeader {
            class: 60,
            body_size: u64::MAX,
            properties: b"\x10\x00\x02",
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(ContentHeader::decode(&bytes), Ok(header));
        for cut in 0..12 {
            let refused = ContentHeader::decode(&bytes[..cut]);
            assert_eq!(refused, Err(DecodeError::Truncated));
        }
        bytes[3] = 1;
        let refused = ContentHeader::decode(&bytes);
        assert_eq!(refused, Err(DecodeError::Weight(1)));
    }

    #[test]
    fn one_property_is_changed_and_the_others_stay() {
        let mut original = Properties {
            content_type: Some(b"t"),
            headers: Some(RawTable::trusted(b"\x01aL\0\0\0\0\0\0\0\x01")),
            delivery_mode: Some(2),
            expiration: Some(b"60"),
            ..Properties::default()
        };
        let bytes = original.to_bytes();
        let decoded = Properties::decode(&bytes);
        assert_eq!(decoded, Ok(original));
        let mut headers = TableBuilder::copy_of(original.headers(), &[]);
        headers.push("x", &FieldValue::Void);
        original.expiration = None;
        original.headers = Some(headers.as_table());
        let expected = b"\xB0\x00\x01t\0\0\0\x0E\x01aL\0\0\0\0\0\0\0\x01\x01xV\x02";
        assert_eq!(original.to_bytes(), expected);
    }
}
