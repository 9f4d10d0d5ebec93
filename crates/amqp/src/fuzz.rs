//! What fuzzing drives: functions that take any bytes and panic if the crate breaks a promise. The
//! unit tests run them over seeded input, a fuzzer over what it finds.

use crate::content::{ContentHeader, Properties};
use crate::error::FrameError;
use crate::frame::next_frame;
use crate::generated::Method;
use crate::table::{RawTable, RawValue, TableBuilder};
use leveret_types::{FieldTable, FieldValue};

/// A frame found, or the error at which the search ended, by where it began.
type Found = (usize, Result<(u8, u16, usize), FrameError>);

/// Frames are the same however the bytes are split: `input` gives the sizes of the pieces first,
/// then the bytes.
///
/// # Panics
/// If they are not.
pub fn frame_stream(input: &[u8]) {
    let split = input.len().min(8);
    let (sizes, stream) = input.split_at(split);
    let whole = frames_of(stream, &[]);
    assert_eq!(whole, frames_of(stream, &[0]), "octet by octet");
    assert_eq!(whole, frames_of(stream, sizes), "in pieces of {sizes:?}");
}

/// The frames of a stream that arrives in pieces of one octet more than `sizes` says in turn; at
/// once if it says nothing.
fn frames_of(stream: &[u8], sizes: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    let (mut start, mut arrived) = (0, 0);
    let mut sizes = sizes.iter().cycle();
    while arrived < stream.len() {
        arrived += sizes
            .next()
            .map_or(stream.len(), |size| usize::from(*size) + 1);
        arrived = arrived.min(stream.len());
        loop {
            match next_frame(&stream[start..arrived], 4096) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    let seen = (frame.kind as u8, frame.channel, frame.payload.len());
                    found.push((start, Ok(seen)));
                    start += frame.wire_len();
                }
                Err(error) => {
                    found.push((start, Err(error)));
                    return found;
                }
            }
        }
    }
    found
}

/// What can be read as a method can be written, and is read as the same again.
///
/// # Panics
/// If not.
pub fn method_decode(payload: &[u8]) {
    let Ok(method) = Method::decode(payload) else {
        return;
    };
    let mut again = Vec::new();
    method.encode(&mut again);
    let decoded = Method::decode(&again).expect("what was written can be read");
    // Compared as bytes: a table may hold a NaN, which is not equal to itself.
    let mut third = Vec::new();
    decoded.encode(&mut third);
    assert_eq!(again, third);
    assert_eq!(method.ids(), decoded.ids());
    assert!(again.len() <= payload.len() + 1024);
}

/// A table that is accepted can be visited, made a value, and written; what that gives is accepted
/// too and is the same value.
///
/// # Panics
/// If not.
pub fn table(entries: &[u8]) {
    let Ok(raw) = RawTable::validate(entries) else {
        return;
    };
    let visited: usize = raw.iter().map(|entry| entry.bytes.len()).sum();
    assert_eq!(visited, entries.len(), "a visit sees every octet");
    let value = raw.to_table();
    assert_eq!(value.len(), raw.iter().count());
    let copy = TableBuilder::copy_of(raw, &[]);
    assert_eq!(copy.as_table(), raw);
    let written = TableBuilder::from(&value);
    let again = RawTable::validate(written.as_table().as_bytes());
    // A name that is no text may grow beyond 255 octets when its wrong ones are replaced, and is
    // then cut.
    let again = again.expect("a table that was accepted is accepted again");
    assert_eq!(again.iter().count(), value.len());
    let bytes = decoded_bytes(raw);
    assert!(
        bytes <= 64 * entries.len(),
        "{bytes} octets of memory for {}",
        entries.len()
    );
}

/// An upper bound of the memory that the value of a table takes.
fn decoded_bytes(table: RawTable<'_>) -> usize {
    let of_value = |value: &RawValue<'_>| match value {
        RawValue::LongString(v) | RawValue::Bytes(v) => v.len(),
        RawValue::Table(v) => decoded_bytes(*v),
        RawValue::Array(v) => v.iter().count() * size_of::<FieldValue>(),
        _ => 0,
    };
    let of_entry = size_of::<(String, FieldValue)>();
    table
        .iter()
        .map(|entry| of_entry + 3 * entry.name.len() + of_value(&entry.value))
        .sum()
}

/// A content header that is accepted can be written and gives the same bytes.
///
/// # Panics
/// If not.
pub fn content(payload: &[u8]) {
    let Ok(header) = ContentHeader::decode(payload) else {
        return;
    };
    let mut again = Vec::new();
    header.encode(&mut again);
    assert_eq!(again, payload);
    let Ok(properties) = Properties::decode(header.properties) else {
        let _ = Properties::trusted(header.properties);
        return;
    };
    assert_eq!(properties.to_bytes(), header.properties);
    assert_eq!(Properties::trusted(header.properties), properties);
    table(properties.headers().as_bytes());
}

/// A xorshift generator: tests need numbers that can be had again, not good ones.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next_u64() >> 16) % bound
    }

    /// Some bytes, fewer than `bound`.
    pub fn bytes(&mut self, bound: u64) -> Vec<u8> {
        (0..self.below(bound))
            .map(|_| self.below(256) as u8)
            .collect()
    }

    /// A table of a few entries, nested at most `depth` deep.
    pub fn table(&mut self, depth: usize) -> FieldTable {
        let names = ["", "a", "x-death", "count"];
        let entry = |random: &mut Self| {
            let name = names[random.below(4) as usize].to_owned();
            (name, random.value(depth))
        };
        (0..self.below(5)).map(|_| entry(self)).collect()
    }

    fn value(&mut self, depth: usize) -> FieldValue {
        let number = self.next_u64();
        match self.below(if depth > 1 { 17 } else { 15 }) {
            0 => FieldValue::Bool(number & 1 == 1),
            1 => FieldValue::I8(number as i8),
            2 => FieldValue::U8(number as u8),
            3 => FieldValue::I16(number as i16),
            4 => FieldValue::U16(number as u16),
            5 => FieldValue::I32(number as i32),
            6 => FieldValue::U32(number as u32),
            7 => FieldValue::I64(number as i64),
            8 => FieldValue::F32(number as f32),
            9 => FieldValue::F64(number as f64),
            10 => FieldValue::Decimal {
                scale: number as u8,
                value: (number >> 8) as u32,
            },
            11 => FieldValue::LongString(self.bytes(20)),
            12 => FieldValue::Bytes(self.bytes(20)),
            13 => FieldValue::Timestamp(number),
            14 => FieldValue::Void,
            15 => FieldValue::Array((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => FieldValue::Table(self.table(depth - 1)),
        }
    }
}

#[cfg(test)]
#[path = "fuzz_tests.rs"]
mod tests;
