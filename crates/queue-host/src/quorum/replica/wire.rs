//! Numbers as the replica's bytes have them: LEB128, so that what is small takes one byte.

use leveret_types::RangeSet;

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is wrong with bytes that were written by a replica, here or on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read at {left} bytes before the end")]
pub struct Malformed {
    /// What was to be read.
    pub what: &'static str,
    /// Bytes that were left.
    pub left: usize,
}

/// Reads numbers out of bytes that may be anything.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn fail(&self, what: &'static str) -> Malformed {
        Malformed {
            what,
            left: self.rest.len(),
        }
    }

    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(self.fail(what))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7F);
            if bits.leading_zeros() < shift {
                return Err(self.fail(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // One way to write each number: what is decoded is encoded to the same bytes.
                return match byte == 0 && shift > 0 {
                    true => Err(self.fail(what)),
                    false => Ok(value),
                };
            }
        }
        Err(self.fail(what))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.number(what)?).map_err(|_| self.fail(what))
    }

    /// How many items follow, each of at least one byte.
    pub(super) fn count(&mut self, what: &'static str) -> Result<usize, Malformed> {
        let count = self.number(what)?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.rest.len())
            .ok_or(self.fail(what))
    }

    pub(super) fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.fail(what))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A range of indexes that is not empty and does not end beyond what indexes can be.
    pub(super) fn range(&mut self, what: &'static str) -> Result<std::ops::Range<u64>, Malformed> {
        let start = self.number(what)?;
        let count = self.number(what)?;
        match start.checked_add(count) {
            Some(end) if count > 0 => Ok(start..end),
            _ => Err(self.fail(what)),
        }
    }

    pub(super) fn end(&self, what: &'static str) -> Result<(), Malformed> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.fail(what)),
        }
    }
}

/// Appends a range as its start and its length.
pub(super) fn put_range(out: &mut Vec<u8>, range: &std::ops::Range<u64>) {
    put(out, range.start);
    put(out, range.end - range.start);
}

/// Appends a set of numbers as how far each of its ranges is from the one before, and its length.
pub(super) fn put_set(out: &mut Vec<u8>, set: &RangeSet) {
    put(out, set.interval_count() as u64);
    let mut end = 0;
    for range in set.iter() {
        put(out, range.start - end);
        put(out, range.end - range.start);
        end = range.end;
    }
}

/// Reads such a set.
pub(super) fn take_set(reader: &mut Reader<'_>, what: &'static str) -> Result<RangeSet, Malformed> {
    let mut set = RangeSet::new();
    let mut end: u64 = 0;
    for at in 0..reader.count(what)? {
        let between = reader.number(what)?;
        let length = reader.number(what)?;
        let start = end.checked_add(between);
        let next = start.and_then(|start| start.checked_add(length));
        match start.zip(next) {
            Some((start, next)) if length > 0 && (at == 0 || between > 0) => {
                set.insert_range(start..next);
                end = next;
            }
            _ => return Err(reader.fail(what)),
        }
    }
    Ok(set)
}
