//! Field tables: checked bytes that are visited on demand, and the way to and from [`FieldTable`].
//!
//! ```text
//! table   size u32, entries: name (short string), type u8, value
//! array   size u32, items: type u8, value
//! ```
//!
//! The types are those of RabbitMQ's dialect: `t` bool, `b` i8, `B` u8, `s` i16, `u` u16, `I` i32,
//! `i` u32, `l` and `L` i64, `f` f32, `d` f64, `D` decimal, `S` long string, `x` bytes, `T`
//! timestamp, `A` array, `F` table, `V` nothing.

use crate::error::DecodeError;
use crate::wire::{self, Reader};
use leveret_types::limits::{TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX};
use leveret_types::{FieldTable, FieldValue};
use std::fmt;

/// A field table's entries as bytes, without the size before them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RawTable<'a>(&'a [u8]);

/// An array's items as bytes, without the size before them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RawArray<'a>(&'a [u8]);

/// One entry of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawEntry<'a> {
    /// Its name, which nobody has promised to be text.
    pub name: &'a [u8],
    /// Its value.
    pub value: RawValue<'a>,
    /// Name, type and value as they stand in the table: what a copy needs.
    pub bytes: &'a [u8],
}

/// A value in a table or an array.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // The variants are those of `FieldValue`.
pub enum RawValue<'a> {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    F32(f32),
    F64(f64),
    Decimal { scale: u8, value: u32 },
    LongString(&'a [u8]),
    Bytes(&'a [u8]),
    Array(RawArray<'a>),
    Timestamp(u64),
    Table(RawTable<'a>),
    Void,
}

impl<'a> RawTable<'a> {
    /// The table without entries.
    pub const EMPTY: RawTable<'static> = RawTable(&[]);

    /// Checks a table's entries, and those of all tables and arrays within.
    ///
    /// The table itself is the first of [`TABLE_DEPTH_MAX`] levels, and its entries count with
    /// those within towards [`TABLE_ENTRIES_MAX`].
    ///
    /// # Errors
    /// If anything reaches beyond what encloses it, is of a type that does not exist, or exceeds a
    /// limit.
    pub fn validate(entries: &'a [u8]) -> Result<Self, DecodeError> {
        Validation::new(entries).run()?;
        Ok(Self(entries))
    }

    /// A table whose entries were checked before, such as those of a stored message.
    ///
    /// Of bytes that were not, a visit ends at the first thing that makes no sense; but
    /// [`Self::to_table`] follows them as deep as they go.
    #[must_use]
    pub const fn trusted(entries: &'a [u8]) -> Self {
        Self(entries)
    }

    /// The entries' bytes.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The entries in order.
    #[must_use]
    pub const fn iter(self) -> Entries<'a> {
        Entries(Reader::new(self.0))
    }

    /// The value under `name`; of several, the first, as RabbitMQ has it.
    #[must_use]
    pub fn get(self, name: &[u8]) -> Option<RawValue<'a>> {
        self.iter()
            .find(|entry| entry.name == name)
            .map(|entry| entry.value)
    }

    /// The table as a value. Names that are no text have their wrong octets replaced.
    #[must_use]
    pub fn to_table(self) -> FieldTable {
        self.iter()
            .map(|e| {
                (
                    String::from_utf8_lossy(e.name).into_owned(),
                    e.value.to_value(),
                )
            })
            .collect()
    }
}

impl fmt::Debug for RawTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTable({} octets)", self.0.len())
    }
}

impl fmt::Debug for RawArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawArray({} octets)", self.0.len())
    }
}

impl<'a> RawArray<'a> {
    /// The items in order.
    #[must_use]
    pub const fn iter(self) -> Items<'a> {
        Items(Reader::new(self.0))
    }
}

/// The entries of a table in order.
#[derive(Clone, Debug)]
pub struct Entries<'a>(Reader<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = RawEntry<'a>;

    fn next(&mut self) -> Option<RawEntry<'a>> {
        let before = self.0.rest();
        let name = self.0.short_string().ok()?;
        let value = RawValue::read(&mut self.0)?;
        let (bytes, _) = before.split_at(before.len() - self.0.rest().len());
        Some(RawEntry { name, value, bytes })
    }
}

/// The items of an array in order.
#[derive(Clone, Debug)]
pub struct Items<'a>(Reader<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = RawValue<'a>;

    fn next(&mut self) -> Option<RawValue<'a>> {
        RawValue::read(&mut self.0)
    }
}

impl<'a> RawValue<'a> {
    /// Reads type and value; nothing if that makes no sense, which it does after validation.
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Self::try_read(reader).ok().flatten()
    }

    fn try_read(reader: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match reader.octet()? {
            b't' => Self::Bool(reader.octet()? != 0),
            b'b' => Self::I8(reader.octet()? as i8),
            b'B' => Self::U8(reader.octet()?),
            b's' => Self::I16(reader.short()? as i16),
            b'u' => Self::U16(reader.short()?),
            b'I' => Self::I32(reader.long()? as i32),
            b'i' => Self::U32(reader.long()?),
            b'l' | b'L' => Self::I64(reader.long_long()? as i64),
            b'f' => Self::F32(f32::from_bits(reader.long()?)),
            b'd' => Self::F64(f64::from_bits(reader.long_long()?)),
            b'D' => Self::Decimal {
                scale: reader.octet()?,
                value: reader.long()?,
            },
            b'S' => Self::LongString(reader.long_string()?),
            b'x' => Self::Bytes(reader.long_string()?),
            b'A' => Self::Array(RawArray(reader.long_string()?)),
            b'T' => Self::Timestamp(reader.long_long()?),
            b'F' => Self::Table(RawTable(reader.long_string()?)),
            b'V' => Self::Void,
            _ => return Ok(None),
        }))
    }

    /// The value, with its bytes copied.
    #[must_use]
    pub fn to_value(self) -> FieldValue {
        match self {
            Self::Bool(v) => FieldValue::Bool(v),
            Self::I8(v) => FieldValue::I8(v),
            Self::U8(v) => FieldValue::U8(v),
            Self::I16(v) => FieldValue::I16(v),
            Self::U16(v) => FieldValue::U16(v),
            Self::I32(v) => FieldValue::I32(v),
            Self::U32(v) => FieldValue::U32(v),
            Self::I64(v) => FieldValue::I64(v),
            Self::F32(v) => FieldValue::F32(v),
            Self::F64(v) => FieldValue::F64(v),
            Self::Decimal { scale, value } => FieldValue::Decimal { scale, value },
            Self::LongString(v) => FieldValue::LongString(v.to_vec()),
            Self::Bytes(v) => FieldValue::Bytes(v.to_vec()),
            // Validation has bounded the depth, so that this recursion ends.
            Self::Array(v) => FieldValue::Array(v.iter().map(RawValue::to_value).collect()),
            Self::Timestamp(v) => FieldValue::Timestamp(v),
            Self::Table(v) => FieldValue::Table(v.to_table()),
            Self::Void => FieldValue::Void,
        }
    }

    /// The value as an integer, where it is of any integer type.
    #[must_use]
    pub fn as_integer(self) -> Option<i64> {
        Some(match self {
            Self::I8(v) => i64::from(v),
            Self::U8(v) => i64::from(v),
            Self::I16(v) => i64::from(v),
            Self::U16(v) => i64::from(v),
            Self::I32(v) => i64::from(v),
            Self::U32(v) => i64::from(v),
            Self::I64(v) => v,
            _ => return None,
        })
    }
}

/// How many octets a value of a type has.
enum Width {
    Fixed(usize),
    /// A size of four octets, then as many.
    String,
    /// The same, and what they hold must be checked.
    Table,
    Array,
}

const fn width(kind: u8) -> Option<Width> {
    Some(match kind {
        b'V' => Width::Fixed(0),
        b't' | b'b' | b'B' => Width::Fixed(1),
        b's' | b'u' => Width::Fixed(2),
        b'I' | b'i' | b'f' => Width::Fixed(4),
        b'D' => Width::Fixed(5),
        b'l' | b'L' | b'd' | b'T' => Width::Fixed(8),
        b'S' | b'x' => Width::String,
        b'F' => Width::Table,
        b'A' => Width::Array,
        _ => return None,
    })
}

/// Checks nested tables with a stack of its own: the input must not choose how deep ours goes.
struct Validation<'a> {
    bytes: &'a [u8],
    position: usize,
    entries: usize,
    /// Where the tables and arrays that enclose the position end, outermost first.
    ends: [usize; TABLE_DEPTH_MAX],
    depth: usize,
    /// Bit n: whether that at depth n is an array.
    arrays: u128,
}

const _: () = assert!(TABLE_DEPTH_MAX <= 128, "one bit for each level");

impl<'a> Validation<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut ends = [0; TABLE_DEPTH_MAX];
        ends[0] = bytes.len();
        Self {
            bytes,
            position: 0,
            entries: 0,
            ends,
            depth: 1,
            arrays: 0,
        }
    }

    fn run(&mut self) -> Result<(), DecodeError> {
        while self.depth > 0 {
            let level = self.depth - 1;
            if self.position == self.ends[level] {
                self.depth = level;
                continue;
            }
            self.entries += 1;
            if self.entries > TABLE_ENTRIES_MAX {
                return Err(DecodeError::TableEntries);
            }
            if self.arrays & (1 << level) == 0 {
                let name = self.octet()?;
                self.skip(usize::from(name))?;
            }
            self.value()?;
        }
        Ok(())
    }

    fn value(&mut self) -> Result<(), DecodeError> {
        let kind = self.octet()?;
        match width(kind).ok_or(DecodeError::TableType(kind))? {
            Width::Fixed(count) => self.skip(count),
            Width::String => {
                let size = self.size()?;
                self.skip(size)
            }
            Width::Table => self.enter(false),
            Width::Array => self.enter(true),
        }
    }

    fn enter(&mut self, array: bool) -> Result<(), DecodeError> {
        let size = self.size()?;
        let start = self.position;
        self.skip(size)?;
        if self.depth == TABLE_DEPTH_MAX {
            return Err(DecodeError::TableDepth);
        }
        self.ends[self.depth] = self.position;
        self.position = start;
        let bit = 1_u128 << self.depth;
        self.arrays = if array {
            self.arrays | bit
        } else {
            self.arrays & !bit
        };
        self.depth += 1;
        Ok(())
    }

    /// What is left of the table or array that encloses the position.
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..self.ends[self.depth - 1]]
    }

    fn octet(&mut self) -> Result<u8, DecodeError> {
        let octet = *self.rest().first().ok_or(DecodeError::TableTruncated)?;
        self.position += 1;
        Ok(octet)
    }

    fn size(&mut self) -> Result<usize, DecodeError> {
        let size = self
            .rest()
            .first_chunk()
            .ok_or(DecodeError::TableTruncated)?;
        self.position += 4;
        Ok(u32::from_be_bytes(*size) as usize)
    }

    fn skip(&mut self, count: usize) -> Result<(), DecodeError> {
        if count > self.rest().len() {
            return Err(DecodeError::TableTruncated);
        }
        self.position += count;
        Ok(())
    }
}

/// A table that is being put together from entries of another one and new ones, without decoding
/// what is only copied.
#[derive(Clone, Debug, Default)]
pub struct TableBuilder {
    entries: Vec<u8>,
}

impl TableBuilder {
    /// Begins with no entries.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Begins with the entries of `table` but those whose names `without` lists.
    #[must_use]
    pub fn copy_of(table: RawTable<'_>, without: &[&str]) -> Self {
        let mut builder = Self {
            entries: Vec::with_capacity(table.0.len() + 64),
        };
        for entry in table.iter() {
            if !without.iter().any(|name| name.as_bytes() == entry.name) {
                builder.entries.extend_from_slice(entry.bytes);
            }
        }
        builder
    }

    /// Appends an entry, whether or not there is one of that name.
    pub fn push(&mut self, name: &str, value: &FieldValue) -> &mut Self {
        wire::put_short_string(&mut self.entries, name.as_bytes());
        encode_value(&mut self.entries, value);
        self
    }

    /// The table so far.
    #[must_use]
    pub fn as_table(&self) -> RawTable<'_> {
        RawTable(&self.entries)
    }
}

impl From<&FieldTable> for TableBuilder {
    fn from(table: &FieldTable) -> Self {
        let mut builder = Self::new();
        encode_entries(&mut builder.entries, table);
        builder
    }
}

/// Appends a table with its size.
pub fn encode_table(out: &mut Vec<u8>, table: &FieldTable) {
    wire::put_with_length(out, |out| encode_entries(out, table));
}

fn encode_entries(out: &mut Vec<u8>, table: &FieldTable) {
    for (name, value) in table.iter() {
        wire::put_short_string(out, name.as_bytes());
        encode_value(out, value);
    }
}

/// Appends a value with its type.
fn encode_value(out: &mut Vec<u8>, value: &FieldValue) {
    out.push(tag(value));
    match value {
        FieldValue::Bool(v) => out.push(u8::from(*v)),
        FieldValue::I8(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::U8(v) => out.push(*v),
        FieldValue::I16(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::U16(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::I32(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::U32(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::I64(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::F32(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::F64(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::Decimal { scale, value } => {
            out.push(*scale);
            out.extend_from_slice(&value.to_be_bytes());
        }
        FieldValue::LongString(v) | FieldValue::Bytes(v) => wire::put_long_string(out, v),
        FieldValue::Array(items) => wire::put_with_length(out, |out| {
            for item in items {
                encode_value(out, item);
            }
        }),
        FieldValue::Timestamp(v) => out.extend_from_slice(&v.to_be_bytes()),
        FieldValue::Table(v) => encode_table(out, v),
        FieldValue::Void => {}
    }
}

const fn tag(value: &FieldValue) -> u8 {
    match value {
        FieldValue::Bool(_) => b't',
        FieldValue::I8(_) => b'b',
        FieldValue::U8(_) => b'B',
        FieldValue::I16(_) => b's',
        FieldValue::U16(_) => b'u',
        FieldValue::I32(_) => b'I',
        FieldValue::U32(_) => b'i',
        FieldValue::I64(_) => b'l',
        FieldValue::F32(_) => b'f',
        FieldValue::F64(_) => b'd',
        FieldValue::Decimal { .. } => b'D',
        FieldValue::LongString(_) => b'S',
        FieldValue::Bytes(_) => b'x',
        FieldValue::Array(_) => b'A',
        FieldValue::Timestamp(_) => b'T',
        FieldValue::Table(_) => b'F',
        FieldValue::Void => b'V',
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
