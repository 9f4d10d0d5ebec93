//! Messages on their way in. An entry is checked for its length alone and goes into a chunk as it
//! is:
//!
//! ```text
//! a message    0 | length u31 | body
//! a batch      1 | compression u3 | reserved u4 | records u16 | uncompressed u32
//!              | length u32 | data
//!
//! version 1    publishing id u64 | entry
//! version 2    publishing id u64 | filter value, a string; -1 is none | entry
//! ```
//!
//! RabbitMQ takes messages alone in version 2. Here a batch may have a filter value, which is that
//! of all its messages.

use crate::error::DecodeError;
use crate::wire::{Field, Reader};

/// The bit of an entry's first octet that says it is a batch.
const BATCH_BIT: u8 = 0x80;

/// `Publish`, with entries that have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    publisher_id: u8,
    version: u16,
    count: u32,
    entries: &'a [u8],
}

/// An entry of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// By which the publisher knows it.
    pub publishing_id: u64,
    /// The value to filter by, if it has one.
    pub filter: Option<&'a [u8]>,
    /// The records that it stands for: 1, or those of a batch.
    pub records: u16,
    /// As it stands in a chunk.
    pub bytes: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Reads the content of a frame of this version.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(version: u16, content: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(content);
        let publisher_id = reader.field()?;
        let count: u32 = reader.field()?;
        if i32::try_from(count).is_err() {
            return Err(DecodeError::NegativeLength);
        }
        let entries = reader.rest();
        for _ in 0..count {
            entry(version, &mut reader)?;
        }
        reader.finish()?;
        Ok(Self {
            publisher_id,
            version,
            count,
            entries,
        })
    }

    /// The publisher.
    #[must_use]
    pub const fn publisher_id(&self) -> u8 {
        self.publisher_id
    }

    /// The version of the frame.
    #[must_use]
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// How many entries there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The entries as they came.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.entries
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        Entries {
            version: self.version,
            reader: Reader::new(self.entries),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        (self.publisher_id, self.count).write(out);
        out.extend_from_slice(self.entries);
    }
}

struct Entries<'a> {
    version: u16,
    reader: Reader<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        // All have been read once without an error.
        match self.reader.is_empty() {
            true => None,
            false => entry(self.version, &mut self.reader).ok(),
        }
    }
}

fn entry<'a>(version: u16, reader: &mut Reader<'a>) -> Result<Entry<'a>, DecodeError> {
    let publishing_id = reader.field()?;
    let filter = match version {
        1 => None,
        _ => reader.string()?,
    };
    let start = reader.rest();
    let first = *start.first().ok_or(DecodeError::Truncated)?;
    let is_batch = first & BATCH_BIT != 0;
    let records = match is_batch {
        false => 1,
        true => batch_records(reader)?,
    };
    let length: u32 = reader.field()?;
    reader.take(length as usize)?;
    let length = start.len() - reader.rest().len();
    Ok(Entry {
        publishing_id,
        filter,
        records,
        bytes: &start[..length],
    })
}

/// Reads a batch's head up to the length of its data; answers how many records it holds.
fn batch_records(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    let _kind: u8 = reader.field()?;
    let records = reader.field()?;
    let _uncompressed_bytes: u32 = reader.field()?;
    match records {
        0 => Err(DecodeError::Batch),
        records => Ok(records),
    }
}

/// Appends an entry of version 1 with one message, as clients do.
pub fn put_message(out: &mut Vec<u8>, publishing_id: u64, body: &[u8]) {
    publishing_id.write(out);
    crate::wire::put_bytes(out, body);
}

/// Appends an entry of version 2.
pub fn put_filtered(out: &mut Vec<u8>, publishing_id: u64, filter: Option<&str>, body: &[u8]) {
    publishing_id.write(out);
    match filter {
        Some(filter) => filter.write(out),
        None => out.extend_from_slice(&[0xFF; 2]),
    }
    crate::wire::put_bytes(out, body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(count: u32, entries: &[u8]) -> Vec<u8> {
        [&[7][..], &count.to_be_bytes(), entries].concat()
    }

    #[test]
    fn entries_stay_as_they_came() {
        let mut entries = Vec::new();
        put_message(&mut entries, 5, b"one");
        // A batch of 300 records, compressed by kind 1 to three octets.
        let batch = b"\x90\x01\x2C\0\0\x10\0\0\0\0\x03zip";
        entries.extend_from_slice(&6_u64.to_be_bytes());
        entries.extend_from_slice(batch);
        let content = content(2, &entries);
        let publish = Publish::decode(1, &content).expect("a publish");
        let found: Vec<_> = publish
            .entries()
            .map(|e| (e.publishing_id, e.records, e.bytes))
            .collect();
        let message = &b"\0\0\0\x03one"[..];
        assert_eq!(found, [(5, 1, message), (6, 300, &batch[..])]);
        assert_eq!((publish.publisher_id(), publish.count()), (7, 2));
        let mut again = Vec::new();
        publish.write(&mut again);
        assert_eq!(again, content);
    }

    #[test]
    fn the_second_version_has_filter_values_of_messages_and_batches() {
        let mut entries = Vec::new();
        put_filtered(&mut entries, 1, Some("red"), b"a");
        put_filtered(&mut entries, 2, Some(""), b"b");
        put_filtered(&mut entries, 3, None, b"");
        let whole = content(3, &entries);
        let publish = Publish::decode(2, &whole).expect("a publish");
        let filters: Vec<_> = publish.entries().map(|e| e.filter).collect();
        assert_eq!(filters, [Some(&b"red"[..]), Some(b""), None]);
        assert_eq!(publish.entries().last().map(|e| e.bytes), Some(&[0; 4][..]));
        let head = b"\0\0\0\0\0\0\0\x01\0\x03red";
        let batch = b"\x90\0\x02\0\0\0\0\0\0\0\x01z";
        let whole = content(1, &[&head[..], batch].concat());
        let publish = Publish::decode(2, &whole).expect("a publish");
        let found: Vec<_> = publish.entries().collect();
        assert_eq!((found[0].filter, found[0].records), (Some(&b"red"[..]), 2));
        assert_eq!(found[0].bytes, batch);
        let none = b"\x90\0\0\0\0\0\0\0\0\0\0";
        let none = content(1, &[&head[..], none].concat());
        assert_eq!(Publish::decode(2, &none), Err(DecodeError::Batch));
    }

    #[test]
    fn claims_that_the_bytes_do_not_keep_are_refused() {
        let mut one = Vec::new();
        put_message(&mut one, 5, b"one");
        for (count, entries, expected) in [
            (0, &[][..], Ok(0)),
            (1, &one[..], Ok(1)),
            (0, &one, Err(DecodeError::Trailing(15))),
            (2, &one, Err(DecodeError::Truncated)),
            (1, &one[..14], Err(DecodeError::Truncated)),
            (i32::MAX as u32, &one, Err(DecodeError::Truncated)),
            (u32::MAX, &one, Err(DecodeError::NegativeLength)),
            // A batch of no records.
            (
                1,
                b"\0\0\0\0\0\0\0\x01\x90\0\0\0\0\0\0\0\0\0\0",
                Err(DecodeError::Batch),
            ),
            // A body of 2 GiB less one octet.
            (
                1,
                b"\0\0\0\0\0\0\0\x01\x7F\xFF\xFF\xFFx",
                Err(DecodeError::Truncated),
            ),
        ] {
            let content = content(count, entries);
            let found = Publish::decode(1, &content).map(|p| p.entries().count());
            assert_eq!(found, expected, "{count}");
        }
    }
}
