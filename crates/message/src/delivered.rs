//! From an entry of a stream to AMQP 0-9-1.

use crate::codec::{Items, Malformed, Value};
use crate::entry::TYPE_OF_SECTIONS;
use crate::section::{Sections, descriptor};
use crate::{deaths, ids};
use bytes::Bytes;
use leveret_amqp::{Properties, RawTable, wire};
use leveret_types::limits::{
    CONVERTED_PROPERTIES_BYTES_MAX, SHORT_STRING_BYTES_MAX, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX,
};
use leveret_types::message::{MessageSummary, Span};
use leveret_types::{Message, MessageFormat, MessageParts};

/// Where in which stream an entry lies.
#[derive(Clone, Copy, Debug)]
pub struct StreamPosition<'a> {
    /// The stream's name: the routing key of an entry that has none.
    pub stream: &'a str,
    /// The entry's offset, for the header `x-stream-offset`.
    pub offset: u64,
}

/// An entry of a stream as a message of AMQP 0-9-1, with the header `x-stream-offset`.
///
/// An entry that is no message of AMQP 1.0 is the body, as it is; so is one whose properties would
/// be more than AMQP 0-9-1 has room for ([`CONVERTED_PROPERTIES_BYTES_MAX`], and the limits of a
/// field table), with the type `amqp-1.0`.
#[must_use]
pub fn delivered(entry: &[u8], position: StreamPosition<'_>) -> Message {
    let sections = Sections::read(entry);
    let (key, offset) = (position.stream.as_bytes(), Some(position.offset));
    match sections.and_then(|sections| converted(&sections, key, offset)) {
        Ok(message) => message,
        Err(Malformed) => as_it_is(entry, position, sections.is_ok()),
    }
}

/// How many entries of tables and arrays may still come.
pub struct Budget {
    entries: usize,
}

impl Budget {
    /// Takes some.
    pub fn take(&mut self, entries: usize) -> Result<(), Malformed> {
        self.entries = self.entries.checked_sub(entries).ok_or(Malformed)?;
        Ok(())
    }
}

fn as_it_is(entry: &[u8], position: StreamPosition<'_>, is_sections: bool) -> Message {
    let mut headers = Vec::new();
    append_offset(&mut headers, position.offset);
    let properties = Properties {
        headers: Some(RawTable::trusted(&headers)),
        kind: is_sections.then_some(TYPE_OF_SECTIONS),
        ..Properties::default()
    };
    let mut bytes = Vec::new();
    let exchange = append(&mut bytes, b"");
    let routing_key = append(&mut bytes, position.stream.as_bytes());
    let properties = append(&mut bytes, &properties.to_bytes());
    let body = append(&mut bytes, entry);
    let summary = MessageSummary::default();
    Message::from_spans(
        bytes.into(),
        exchange,
        routing_key,
        properties,
        body,
        summary,
    )
}

/// Appends to the bytes of a message.
fn append(bytes: &mut Vec<u8>, part: &[u8]) -> Span {
    let start = bytes.len();
    bytes.extend_from_slice(part);
    span(start, bytes.len())
}

/// A message is far smaller than 4 GiB: the entry that it is made of was in a frame.
fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        len: (end - start) as u32,
    }
}

/// A message as one of AMQP 0-9-1, where it is of another format: what a client of AMQP 0-9-1 is
/// delivered, and what routing, dead-lettering and tracing look at. Nothing where it is one.
#[inline]
#[must_use]
pub fn as_amqp091(message: &Message) -> Option<Message> {
    match message.summary.format {
        MessageFormat::Amqp091 => None,
        MessageFormat::Amqp10 => Some(from_sections(message)),
    }
}

#[cold]
fn from_sections(message: &Message) -> Message {
    let sections = [message.properties(), message.body()].concat();
    let read = Sections::read(&sections);
    let plain = read.and_then(|read| converted(&read, message.routing_key(), None));
    // As what a stream has: what cannot be converted is the body, as it is.
    let kind = Properties {
        kind: Some(TYPE_OF_SECTIONS),
        ..Properties::default()
    };
    let kind = kind.to_bytes();
    let (properties, body) = match &plain {
        Ok(plain) => (plain.properties(), plain.body()),
        Err(Malformed) => (&kind[..], &sections[..]),
    };
    let parts = MessageParts {
        exchange: message.exchange(),
        routing_key: message.routing_key(),
        properties,
        body,
    };
    let summary = MessageSummary {
        format: MessageFormat::Amqp091,
        ..message.summary
    };
    Message::from_parts(parts, summary)
}

/// `key` is the routing key of one that has none of its own, `offset` where it is in a stream.
fn converted(
    sections: &Sections<'_>,
    key: &[u8],
    offset: Option<u64>,
) -> Result<Message, Malformed> {
    let mut parts = Parts::default();
    if let Some(items) = sections.header {
        parts.header(items)?;
    }
    let mut headers = Headers {
        bytes: Vec::new(),
        budget: Budget {
            entries: TABLE_ENTRIES_MAX - 1,
        },
    };
    if let Some(offset) = offset {
        append_offset(&mut headers.bytes, offset);
    }
    if let Some(items) = sections.annotations {
        parts.annotations(items, &mut headers)?;
    }
    if let Some(items) = sections.properties {
        parts.properties(items, &mut headers)?;
    }
    if let Some(items) = sections.application {
        parts.application(items, &mut headers)?;
    }
    if sections
        .body_kind
        .is_some_and(|kind| kind != descriptor::DATA)
    {
        parts.kind = Some(TYPE_OF_SECTIONS);
    }
    let mut bytes = Vec::with_capacity(256 + headers.bytes.len() + sections.body.len());
    let exchange = append(&mut bytes, parts.exchange.unwrap_or_default());
    let key = parts.routing_key.unwrap_or(key);
    let routing_key = append(&mut bytes, key);
    let start = bytes.len();
    let summary = parts.encode(&headers.bytes, &mut bytes);
    let properties = span(start, bytes.len());
    if bytes.len() - start > CONVERTED_PROPERTIES_BYTES_MAX {
        return Err(Malformed);
    }
    let start = bytes.len();
    sections.append_body(&mut bytes)?;
    let body = span(start, bytes.len());
    let bytes = Bytes::from(bytes);
    Ok(Message::from_spans(
        bytes,
        exchange,
        routing_key,
        properties,
        body,
        summary,
    ))
}

/// What is found in the sections.
#[derive(Default)]
struct Parts<'a> {
    exchange: Option<&'a [u8]>,
    routing_key: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    reply_to: Option<&'a [u8]>,
    app_id: Option<&'a [u8]>,
    user_id: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    content_encoding: Option<&'a [u8]>,
    message_id: Option<Vec<u8>>,
    correlation_id: Option<Vec<u8>>,
    timestamp: Option<u64>,
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    expiration_ms: Option<u64>,
}

/// Bytes that a short string holds.
fn short(value: Value<'_>) -> Option<&[u8]> {
    let bytes = value.bytes();
    bytes.filter(|bytes| bytes.len() <= SHORT_STRING_BYTES_MAX)
}

fn seconds(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds / 1_000).unwrap_or(0)
}

impl<'a> Parts<'a> {
    fn header(&mut self, mut items: Items<'a>) -> Result<(), Malformed> {
        self.delivery_mode = Some(match items.next()? {
            Some(Value::Bool(true)) => 2,
            _ => 1,
        });
        if let Some(Value::U8(priority)) = items.next()? {
            self.priority = Some(priority);
        }
        if let Some(Value::U32(ttl)) = items.next()? {
            self.expiration_ms = Some(ttl.into());
        }
        Ok(())
    }

    fn annotations(
        &mut self,
        mut items: Items<'a>,
        headers: &mut Headers,
    ) -> Result<(), Malformed> {
        while let Some((key, value)) = items.next_pair()? {
            let Value::Symbol(name) = key else {
                continue;
            };
            match (name, value) {
                (b"x-exchange", value) => self.exchange = short(value),
                (b"x-routing-key", value) => self.routing_key = short(value),
                (b"x-basic-type", value) => self.kind = short(value),
                (b"x-basic-reply-to", value) => self.reply_to = short(value),
                (b"x-basic-app-id", value) => self.app_id = short(value),
                (b"x-basic-delivery-mode", Value::U8(mode)) => {
                    self.delivery_mode = self.delivery_mode.or(Some(mode));
                }
                (b"x-basic-priority", Value::U8(priority)) => {
                    self.priority = self.priority.or(Some(priority));
                }
                (b"x-basic-expiration", value) => {
                    let text = value.bytes().and_then(|v| std::str::from_utf8(v).ok());
                    let text = text.and_then(|text| text.parse().ok());
                    self.expiration_ms = self.expiration_ms.or(text);
                }
                (b"x-cc", value) => headers.push(b"CC", value)?,
                (b"x-opt-deaths", Value::Array(records)) => {
                    let Headers { bytes, budget } = headers;
                    deaths::append_header(bytes, records, budget)?;
                }
                (b"x-opt-rabbitmq-received-time", Value::Timestamp(at)) => {
                    headers.push(b"timestamp_in_ms", Value::I64(at))?;
                }
                (b"x-death" | b"x-stream-offset", _) => {}
                (name, value) if is_header(name) => headers.push(name, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn properties(&mut self, mut items: Items<'a>, headers: &mut Headers) -> Result<(), Malformed> {
        let mut next = || Ok(items.next()?.unwrap_or(Value::Null));
        self.message_id = id(next()?, b"x-message-id", headers)?;
        let user = short(next()?).filter(|user| std::str::from_utf8(user).is_ok());
        self.user_id = user;
        // Where it goes to and its subject have no counterpart.
        next()?;
        next()?;
        self.reply_to = short(next()?).or(self.reply_to);
        self.correlation_id = id(next()?, b"x-correlation-id", headers)?;
        self.content_type = short(next()?);
        self.content_encoding = short(next()?);
        next()?;
        if let Value::Timestamp(at) = next()? {
            self.timestamp = Some(seconds(at));
        }
        self.app_id = short(next()?).or(self.app_id);
        Ok(())
    }

    fn application(
        &mut self,
        mut items: Items<'a>,
        headers: &mut Headers,
    ) -> Result<(), Malformed> {
        while let Some((key, value)) = items.next_pair()? {
            let (Value::Text(name) | Value::Symbol(name)) = key else {
                continue;
            };
            match name {
                // RabbitMQ 3 has type and application here.
                b"x-basic-type" => self.kind = self.kind.or(short(value)),
                b"x-basic-app-id" => self.app_id = self.app_id.or(short(value)),
                b"x-stream-offset" => {}
                name if name.len() <= SHORT_STRING_BYTES_MAX => headers.push(name, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn encode(&self, headers: &[u8], out: &mut Vec<u8>) -> MessageSummary {
        let expiration = self.expiration_ms.map(|ms| ms.to_string());
        let properties = Properties {
            content_type: self.content_type,
            content_encoding: self.content_encoding,
            headers: Some(RawTable::trusted(headers)),
            delivery_mode: self.delivery_mode,
            priority: self.priority,
            correlation_id: self.correlation_id.as_deref(),
            reply_to: self.reply_to,
            expiration: expiration.as_deref().map(str::as_bytes),
            message_id: self.message_id.as_deref(),
            timestamp: self.timestamp,
            kind: self.kind,
            user_id: self.user_id,
            app_id: self.app_id,
            cluster_id: None,
        };
        properties.encode(out);
        MessageSummary {
            persistent: self.delivery_mode == Some(2),
            priority: self.priority,
            expiration_ms: self.expiration_ms,
            ..MessageSummary::default()
        }
    }
}

/// Whether an annotation is a header of AMQP 0-9-1, and not what a conversion has added.
fn is_header(name: &[u8]) -> bool {
    name.starts_with(b"x-")
        && !name.starts_with(b"x-basic-")
        && name.len() <= SHORT_STRING_BYTES_MAX
}

/// An id as text; one that no short string holds becomes a header.
fn id(
    value: Value<'_>,
    header: &[u8],
    headers: &mut Headers,
) -> Result<Option<Vec<u8>>, Malformed> {
    Ok(match value {
        Value::Uuid(uuid) => Some(ids::uuid_text(uuid)),
        Value::U64(number) => Some(number.to_string().into_bytes()),
        Value::Text(text) if text.len() <= SHORT_STRING_BYTES_MAX => Some(text.to_vec()),
        Value::Text(_) | Value::Binary(_) => {
            headers.push(header, value)?;
            None
        }
        _ => None,
    })
}

fn append_offset(headers: &mut Vec<u8>, offset: u64) {
    wire::put_short_string(headers, b"x-stream-offset");
    headers.push(b'l');
    headers.extend_from_slice(&offset.to_be_bytes());
}

/// Headers that are being put together.
struct Headers {
    bytes: Vec<u8>,
    budget: Budget,
}

impl Headers {
    /// Appends a header, if its value has a counterpart.
    fn push(&mut self, name: &[u8], value: Value<'_>) -> Result<(), Malformed> {
        let Self { bytes, budget } = self;
        budget.take(1)?;
        let start = bytes.len();
        wire::put_short_string(bytes, name);
        if !put_value(bytes, value, 1, budget)? {
            bytes.truncate(start);
        }
        Ok(())
    }
}

/// Appends type and value of a table's entry; false if there is no counterpart. `depth` is that of
/// the table around it, and thus bounds the depth of this.
fn put_value(
    out: &mut Vec<u8>,
    value: Value<'_>,
    depth: usize,
    budget: &mut Budget,
) -> Result<bool, Malformed> {
    if out.len() > CONVERTED_PROPERTIES_BYTES_MAX {
        return Err(Malformed);
    }
    let mut put = |tag: u8, octets: &[u8]| {
        out.push(tag);
        out.extend_from_slice(octets);
    };
    match value {
        Value::Null => put(b'V', &[]),
        Value::Bool(v) => put(b't', &[u8::from(v)]),
        Value::U8(v) => put(b'B', &v.to_be_bytes()),
        Value::I8(v) => put(b'b', &v.to_be_bytes()),
        Value::U16(v) => put(b'u', &v.to_be_bytes()),
        Value::I16(v) => put(b's', &v.to_be_bytes()),
        Value::U32(v) => put(b'i', &v.to_be_bytes()),
        Value::I32(v) => put(b'I', &v.to_be_bytes()),
        Value::I64(v) => put(b'l', &v.to_be_bytes()),
        Value::F32(v) => put(b'f', &v.to_be_bytes()),
        Value::F64(v) => put(b'd', &v.to_be_bytes()),
        Value::Timestamp(v) => put(b'T', &seconds(v).to_be_bytes()),
        Value::U64(v) => match i64::try_from(v) {
            Ok(v) => put(b'l', &v.to_be_bytes()),
            Err(_) => put_string(out, b'S', v.to_string().as_bytes()),
        },
        Value::Char(v) => {
            let text = char::from_u32(v).ok_or(Malformed)?;
            put_string(out, b'S', text.to_string().as_bytes());
        }
        Value::Uuid(v) => put_string(out, b'S', &ids::uuid_text(v)),
        Value::Text(v) | Value::Symbol(v) => put_string(out, b'S', v),
        Value::Binary(v) => put_string(out, b'x', v),
        Value::Decimal(_) => return Ok(false),
        Value::List(items) | Value::Array(items) => {
            nested(out, b'A', depth, |out| {
                put_items(out, items, depth + 1, budget)
            })?;
        }
        Value::Map(items) => {
            nested(out, b'F', depth, |out| {
                put_entries(out, items, depth + 1, budget)
            })?;
        }
    }
    Ok(true)
}

fn put_string(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    wire::put_long_string(out, bytes);
}

fn nested(
    out: &mut Vec<u8>,
    tag: u8,
    depth: usize,
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    if depth >= TABLE_DEPTH_MAX {
        return Err(Malformed);
    }
    out.push(tag);
    let mut result = Ok(());
    wire::put_with_length(out, |out| result = put(out));
    result
}

fn put_items(
    out: &mut Vec<u8>,
    mut items: Items<'_>,
    depth: usize,
    budget: &mut Budget,
) -> Result<(), Malformed> {
    while let Some(item) = items.next()? {
        budget.take(1)?;
        put_value(out, item, depth, budget)?;
    }
    Ok(())
}

fn put_entries(
    out: &mut Vec<u8>,
    mut items: Items<'_>,
    depth: usize,
    budget: &mut Budget,
) -> Result<(), Malformed> {
    while let Some((key, value)) = items.next_pair()? {
        budget.take(1)?;
        let Some(name) = short(key) else {
            continue;
        };
        let start = out.len();
        wire::put_short_string(out, name);
        if !put_value(out, value, depth, budget)? {
            out.truncate(start);
        }
    }
    Ok(())
}
