//! From AMQP 0-9-1 to an entry of a stream.

use crate::codec::{
    Compound, code, put_bool, put_number, put_symbol, put_text, put_uint, put_variable,
};
use crate::section::{self, descriptor};
use crate::{deaths, ids};
use leveret_amqp::{Properties, RawTable, RawValue};
use leveret_types::{Message, MessageFormat, MessageParts};

/// The type of a message whose body is sections of AMQP 1.0.
pub const TYPE_OF_SECTIONS: &[u8] = b"amqp-1.0";
/// The header whose value a reader of a stream may filter by.
const FILTER_VALUE: &[u8] = b"x-stream-filter-value";

/// Appends a message of AMQP 0-9-1 as an entry of a stream: see the table at the crate's head.
pub fn to_entry(message: &MessageParts<'_>, out: &mut Vec<u8>) {
    let properties = Properties::trusted(message.properties);
    let has_sections = properties.kind == Some(TYPE_OF_SECTIONS) && section::is_body(message.body);
    let ttl = properties.expiration.map(milliseconds);
    out.reserve(64 + message.properties.len() + message.routing_key.len() + message.body.len());
    header(&properties, ttl.flatten(), out);
    let annotated = Annotated {
        message,
        properties: &properties,
        // The header section holds 32 bits of milliseconds.
        expiration: properties.expiration.filter(|_| ttl == Some(None)),
        kind: properties.kind.filter(|_| !has_sections),
    };
    annotated.append(out);
    bare_properties(&properties, out);
    application_properties(properties.headers(), out);
    if has_sections {
        out.extend_from_slice(message.body);
    } else {
        section::begin(out, descriptor::DATA);
        put_variable(out, code::BINARY_8, message.body);
    }
}

/// Appends a message as an entry of a stream: one of AMQP 1.0 as it is, one of AMQP 0-9-1
/// converted.
pub fn entry_of(message: &Message, out: &mut Vec<u8>) {
    match message.summary.format {
        MessageFormat::Amqp091 => to_entry(&message.parts(), out),
        MessageFormat::Amqp10 => {
            out.extend_from_slice(message.properties());
            out.extend_from_slice(message.body());
        }
    }
}

/// What readers may filter by: the header `x-stream-filter-value`, if that is a text of 255 octets
/// at most.
#[must_use]
pub fn filter_value(properties: &[u8]) -> Option<&[u8]> {
    match Properties::trusted(properties).headers?.get(FILTER_VALUE)? {
        RawValue::LongString(value) if value.len() <= 255 => {
            std::str::from_utf8(value).ok().map(str::as_bytes)
        }
        _ => None,
    }
}

/// The milliseconds that an `expiration` says, where 32 bits hold them.
fn milliseconds(expiration: &[u8]) -> Option<u32> {
    std::str::from_utf8(expiration).ok()?.parse().ok()
}

fn header(properties: &Properties<'_>, ttl: Option<u32>, out: &mut Vec<u8>) {
    section::begin(out, descriptor::HEADER);
    let mut list = Compound::begin(out, code::LIST_8);
    list.count = 4;
    put_bool(out, properties.delivery_mode == Some(2));
    match properties.priority {
        Some(priority) => put_number(out, code::UBYTE, [priority]),
        None => out.push(code::NULL),
    }
    match ttl {
        Some(ttl) => put_uint(out, ttl),
        None => out.push(code::NULL),
    }
    // First acquirer: nobody has had the message before.
    put_bool(out, true);
    list.end(out);
}

/// What becomes annotations of the message.
struct Annotated<'a> {
    message: &'a MessageParts<'a>,
    properties: &'a Properties<'a>,
    expiration: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl Annotated<'_> {
    fn append(&self, out: &mut Vec<u8>) {
        section::begin(out, descriptor::MESSAGE_ANNOTATIONS);
        let mut map = Compound::begin(out, code::MAP_8);
        let is_text = |value: &[u8]| std::str::from_utf8(value).is_ok();
        let properties = self.properties;
        let texts = [
            (&b"x-exchange"[..], Some(self.message.exchange)),
            (b"x-routing-key", Some(self.message.routing_key)),
            (b"x-basic-type", self.kind),
            (b"x-basic-expiration", self.expiration),
            // Where a string is wanted, octets that are no text have no place.
            (
                b"x-basic-reply-to",
                properties.reply_to.filter(|v| !is_text(v)),
            ),
            (b"x-basic-app-id", properties.app_id.filter(|v| !is_text(v))),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                put_symbol(out, name);
                put_text(out, value);
                map.count += 2;
            }
        }
        for entry in self.properties.headers().iter() {
            let start = out.len();
            let is_put = match (entry.name, entry.value) {
                (b"CC", value @ RawValue::Array(_)) => {
                    put_symbol(out, b"x-cc");
                    put_value(out, value)
                }
                (b"x-death", RawValue::Array(records)) => {
                    put_symbol(out, b"x-opt-deaths");
                    deaths::put(out, records)
                }
                (name, value) if name.starts_with(b"x-") => {
                    put_symbol(out, name);
                    put_value(out, value)
                }
                _ => false,
            };
            if is_put {
                map.count += 2;
            } else {
                out.truncate(start);
            }
        }
        map.end(out);
    }
}

/// A property of AMQP 1.0, and how it is appended.
type Field<'a> = (Option<&'a [u8]>, fn(&mut Vec<u8>, &[u8]));

fn bare_properties(properties: &Properties<'_>, out: &mut Vec<u8>) {
    let text = |value: Option<&'_ [u8]>| value.is_none_or(|v| std::str::from_utf8(v).is_ok());
    let kept = |value| if text(value) { value } else { None };
    let fields: [Field<'_>; 8] = [
        (properties.message_id, ids::put),
        (properties.user_id, ids::put_user),
        (None, put_text),
        (None, put_text),
        (kept(properties.reply_to), put_text),
        (properties.correlation_id, ids::put),
        (properties.content_type, put_symbol),
        (properties.content_encoding, put_symbol),
    ];
    let group = kept(properties.app_id);
    let last = match (group, properties.timestamp) {
        (Some(_), _) => 11,
        (None, Some(_)) => 10,
        (None, None) => fields
            .iter()
            .rposition(|(value, _)| value.is_some())
            .map_or(0, |place| place + 1),
    };
    if last == 0 {
        return;
    }
    section::begin(out, descriptor::PROPERTIES);
    let mut list = Compound::begin(out, code::LIST_8);
    list.count = last as u32;
    for (value, put) in fields.into_iter().take(last) {
        match value {
            Some(value) => put(out, value),
            None => out.push(code::NULL),
        }
    }
    if last >= 10 {
        out.push(code::NULL);
        match properties.timestamp {
            Some(seconds) => put_timestamp(out, seconds),
            None => out.push(code::NULL),
        }
    }
    if let Some(group) = group {
        put_text(out, group);
    }
    list.end(out);
}

fn application_properties(headers: RawTable<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    section::begin(out, descriptor::APPLICATION_PROPERTIES);
    let mut map = Compound::begin(out, code::MAP_8);
    for entry in headers.iter() {
        let is_compound = matches!(entry.value, RawValue::Array(_) | RawValue::Table(_));
        let is_named = !entry.name.starts_with(b"x-") && std::str::from_utf8(entry.name).is_ok();
        if is_compound || !is_named {
            continue;
        }
        let start = out.len();
        put_text(out, entry.name);
        if put_value(out, entry.value) {
            map.count += 2;
        } else {
            out.truncate(start);
        }
    }
    if map.count == 0 {
        out.truncate(start);
    } else {
        map.end(out);
    }
}

/// Appends a time in seconds as milliseconds.
pub fn put_timestamp(out: &mut Vec<u8>, seconds: u64) {
    let milliseconds = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
    put_number(out, code::TIMESTAMP, milliseconds.to_be_bytes());
}

/// Appends a value of a table; false for a decimal number, which has no counterpart.
///
/// The tables of a message were checked when it arrived, so that the depth of this is bounded by
/// [`leveret_types::limits::TABLE_DEPTH_MAX`].
pub fn put_value(out: &mut Vec<u8>, value: RawValue<'_>) -> bool {
    match value {
        RawValue::Bool(v) => put_bool(out, v),
        RawValue::I8(v) => put_number(out, code::BYTE, v.to_be_bytes()),
        RawValue::U8(v) => put_number(out, code::UBYTE, v.to_be_bytes()),
        RawValue::I16(v) => put_number(out, code::SHORT, v.to_be_bytes()),
        RawValue::U16(v) => put_number(out, code::USHORT, v.to_be_bytes()),
        RawValue::I32(v) => put_number(out, code::INT, v.to_be_bytes()),
        RawValue::U32(v) => put_number(out, code::UINT, v.to_be_bytes()),
        RawValue::I64(v) => put_number(out, code::LONG, v.to_be_bytes()),
        RawValue::F32(v) => put_number(out, code::FLOAT, v.to_be_bytes()),
        RawValue::F64(v) => put_number(out, code::DOUBLE, v.to_be_bytes()),
        RawValue::LongString(v) => put_text(out, v),
        RawValue::Bytes(v) => put_variable(out, code::BINARY_8, v),
        RawValue::Timestamp(v) => put_timestamp(out, v),
        RawValue::Void => out.push(code::NULL),
        RawValue::Decimal { .. } => return false,
        RawValue::Array(items) => {
            let mut list = Compound::begin(out, code::LIST_8);
            for item in items.iter() {
                list.count += u32::from(put_value(out, item));
            }
            list.end(out);
        }
        RawValue::Table(table) => {
            let mut map = Compound::begin(out, code::MAP_8);
            for entry in table.iter() {
                let start = out.len();
                put_symbol(out, entry.name);
                if put_value(out, entry.value) {
                    map.count += 2;
                } else {
                    out.truncate(start);
                }
            }
            map.end(out);
        }
    }
    true
}
