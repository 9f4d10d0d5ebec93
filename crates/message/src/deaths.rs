//! The history of a dead-lettered message: the header `x-death` in AMQP 0-9-1, the annotation
//! `x-opt-deaths` in AMQP 1.0, an array of maps.
//!
//! ```text
//! x-death    array of tables: count, reason, queue, time, exchange, routing-keys,
//!            original-expiration
//! x-opt-deaths  array of maps: ttl, queue, reason, count, first-time, last-time, exchange,
//!            routing-keys
//! ```

use crate::codec::{Items, Malformed, Value, code, put_symbol, put_text, put_uint, put_ulong};
use crate::delivered::Budget;
use crate::entry::put_timestamp;
use leveret_amqp::wire;
use leveret_amqp::{RawArray, RawTable, RawValue};

/// Appends the records; false if they are none of the broker's.
pub fn put(out: &mut Vec<u8>, records: RawArray<'_>) -> bool {
    let start = begin_array(out, code::MAP_32);
    let mut count = 0;
    for record in records.iter() {
        let RawValue::Table(record) = record else {
            return false;
        };
        let Some(()) = put_record(out, record) else {
            return false;
        };
        count += 1;
    }
    end_array(out, start, count);
    count > 0
}

/// Begins an array of values of this constructor; [`end_array`] fills its sizes in.
fn begin_array(out: &mut Vec<u8>, constructor: u8) -> usize {
    let start = out.len();
    out.push(code::ARRAY_32);
    out.extend_from_slice(&[0; 8]);
    out.push(constructor);
    start
}

fn end_array(out: &mut [u8], start: usize, count: u32) {
    let size = u32::try_from(out.len() - start - 5).expect("a field has less than 4 GiB");
    out[start + 1..start + 5].copy_from_slice(&size.to_be_bytes());
    out[start + 5..start + 9].copy_from_slice(&count.to_be_bytes());
}

fn put_record(out: &mut Vec<u8>, record: RawTable<'_>) -> Option<()> {
    let text = |name: &[u8]| match record.get(name)? {
        RawValue::LongString(text) => Some(text),
        _ => None,
    };
    let count = u64::try_from(record.get(b"count")?.as_integer()?).ok()?;
    let RawValue::Timestamp(seconds) = record.get(b"time")? else {
        return None;
    };
    // A map in an array has wide sizes, and no constructor of its own.
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let mut values = 14;
    let ttl = text(b"original-expiration").and_then(|text| std::str::from_utf8(text).ok());
    if let Some(ttl) = ttl.and_then(|ttl| ttl.parse().ok()) {
        put_symbol(out, b"ttl");
        put_uint(out, ttl);
        values += 2;
    }
    put_symbol(out, b"queue");
    put_text(out, text(b"queue")?);
    put_symbol(out, b"reason");
    put_symbol(out, text(b"reason")?);
    put_symbol(out, b"count");
    put_ulong(out, count);
    for name in [&b"first-time"[..], b"last-time"] {
        put_symbol(out, name);
        put_timestamp(out, seconds);
    }
    put_symbol(out, b"exchange");
    put_text(out, text(b"exchange")?);
    put_symbol(out, b"routing-keys");
    let RawValue::Array(keys) = record.get(b"routing-keys")? else {
        return None;
    };
    let array = begin_array(out, code::STRING_32);
    let mut count = 0;
    for key in keys.iter() {
        let RawValue::LongString(key) = key else {
            return None;
        };
        wire::put_long_string(out, key);
        count += 1;
    }
    end_array(out, array, count);
    let size = u32::try_from(out.len() - start - 4).ok()?;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&u32::to_be_bytes(values));
    Some(())
}

/// Appends the header `x-death` with the records of an annotation; false if they are no records.
pub fn append_header(
    out: &mut Vec<u8>,
    records: Items<'_>,
    budget: &mut Budget,
) -> Result<bool, Malformed> {
    let start = out.len();
    wire::put_short_string(out, b"x-death");
    out.push(b'A');
    let mut fits = true;
    let mut result = Ok(());
    wire::put_with_length(out, |out| {
        let mut records = records;
        loop {
            match records.next() {
                Ok(Some(Value::Map(record))) => match append_record(out, record, budget) {
                    Ok(Some(())) => {}
                    Ok(None) => return fits = false,
                    Err(error) => return result = Err(error),
                },
                Ok(Some(_)) => return fits = false,
                Ok(None) => return,
                Err(error) => return result = Err(error),
            }
        }
    });
    result?;
    if !fits {
        out.truncate(start);
    }
    Ok(fits)
}

fn append_record(
    out: &mut Vec<u8>,
    record: Items<'_>,
    budget: &mut Budget,
) -> Result<Option<()>, Malformed> {
    let text = |name: &[u8]| Ok(record.get(name)?.and_then(Value::bytes));
    let parts = (
        record.get(b"count")?,
        text(b"reason")?,
        text(b"queue")?,
        record.get(b"first-time")?,
        text(b"exchange")?,
        record.get(b"routing-keys")?,
    );
    let (
        Some(Value::U64(count)),
        Some(reason),
        Some(queue),
        Some(Value::Timestamp(time)),
        Some(exchange),
        Some(Value::Array(keys)),
    ) = parts
    else {
        return Ok(None);
    };
    budget.take(8)?;
    let ttl = match record.get(b"ttl")? {
        Some(Value::U32(ttl)) => Some(ttl.to_string()),
        _ => None,
    };
    out.push(b'F');
    let mut result = Ok(());
    wire::put_with_length(out, |out| {
        let number = i64::try_from(count).unwrap_or(i64::MAX);
        wire::put_short_string(out, b"count");
        out.push(b'l');
        out.extend_from_slice(&number.to_be_bytes());
        for (name, value) in [(&b"reason"[..], reason), (b"queue", queue)] {
            append_text(out, name, value);
        }
        wire::put_short_string(out, b"time");
        out.push(b'T');
        let seconds = u64::try_from(time / 1_000).unwrap_or(0);
        out.extend_from_slice(&seconds.to_be_bytes());
        append_text(out, b"exchange", exchange);
        wire::put_short_string(out, b"routing-keys");
        out.push(b'A');
        wire::put_with_length(out, |out| result = append_keys(out, keys, budget));
        if let Some(ttl) = ttl {
            append_text(out, b"original-expiration", ttl.as_bytes());
        }
    });
    result.map(Some)
}

fn append_text(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    wire::put_short_string(out, name);
    out.push(b'S');
    wire::put_long_string(out, value);
}

fn append_keys(
    out: &mut Vec<u8>,
    mut keys: Items<'_>,
    budget: &mut Budget,
) -> Result<(), Malformed> {
    while let Some(key) = keys.next()? {
        budget.take(1)?;
        out.push(b'S');
        wire::put_long_string(out, key.bytes().unwrap_or_default());
    }
    Ok(())
}
