//! Chunks as tests want them.

use leveret_amqp::{Properties, TableBuilder};
use leveret_message::to_entry;
use leveret_stream::values::values_record;
use leveret_stream::{ChunkHeader, ChunkKind, SharedChunk, value_hash};
use leveret_types::{FieldTable, FieldValue, MessageParts};

/// When the chunks came, in milliseconds since the Unix epoch.
pub(crate) const CAME_MS: i64 = 5;

/// An entry of these bytes.
pub(crate) fn entry(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A message with a filter value, or without one, as AMQP 0-9-1 publishers make it: the bytes of
/// its entry.
pub(crate) fn message(value: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut headers = FieldTable::new();
    if let Some(value) = value {
        headers.set("x-stream-filter-value", FieldValue::text(value));
    }
    let table = TableBuilder::from(&headers);
    let properties = Properties {
        headers: value.map(|_| table.as_table()),
        ..Properties::default()
    };
    let properties = properties.to_bytes();
    let parts = MessageParts {
        exchange: b"",
        routing_key: b"s",
        properties: &properties,
        body,
    };
    let mut entry = Vec::new();
    to_entry(&parts, &mut entry);
    entry
}

/// A batch of so many messages, compressed by the codec of this number.
pub(crate) fn batch(compression: u8, records: u16, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | compression << 4];
    out.extend_from_slice(&records.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A chunk of these entries, which are so many messages.
pub(crate) fn chunk(first_offset: u64, records: u32, entries: &[Vec<u8>]) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: entries.len() as u16,
        records,
        timestamp_ms: CAME_MS,
        epoch: 1,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    SharedChunk::new(header, &[], &entries.concat(), &[])
}

/// The same chunk, whose entries were published with these filter values.
pub(crate) fn with_values(chunk: &SharedChunk, values: &[Option<&[u8]>]) -> SharedChunk {
    let hashes: Vec<u32> = values.iter().map(|value| value_hash(*value)).collect();
    SharedChunk::new(*chunk.header(), &[], &chunk.data(), &values_record(&hashes))
}
