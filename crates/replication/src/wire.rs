//! Numbers and bytes on the wire and in the log: LEB128, no padding, one spelling of each number.

use crate::error::Malformed;
use bytes::Bytes;

/// No index, term or length of ours comes near it, so that sums of two cannot overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes from the front of bytes; what it returns shares their buffer.
pub(crate) struct Take<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were taken.
    pub(crate) fn taken(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed("cut short"))?;
        self.at += 1;
        Ok(byte)
    }

    /// A number in its shortest form, up to [`NUMBER_MAX`].
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                let is_padded = byte == 0 && shift > 0;
                return match (is_padded, value <= NUMBER_MAX) {
                    (true, _) => Err(Malformed("a padded number")),
                    (_, false) => Err(Malformed("a number out of range")),
                    _ => Ok(value),
                };
            }
        }
        Err(Malformed("a number out of range"))
    }

    /// Any 64 bits.
    pub(crate) fn word(&mut self) -> Result<u64, Malformed> {
        let end = self.at + 8;
        let bytes = self.bytes.get(self.at..end);
        let word = bytes.and_then(|bytes| bytes.try_into().ok());
        self.at = end;
        word.map(u64::from_le_bytes).ok_or(Malformed("cut short"))
    }

    /// A count of up to `max`; more is called `what`.
    pub(crate) fn count(&mut self, max: usize, what: &'static str) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed(what))?;
        (count <= max).then_some(count).ok_or(Malformed(what))
    }

    /// Bytes with their length before them, of up to `max`.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<Bytes, Malformed> {
        let len = self.count(max, "an entry too large")?;
        let end = self.at + len;
        if end > self.bytes.len() {
            return Err(Malformed("cut short"));
        }
        let bytes = self.bytes.slice(self.at..end);
        self.at = end;
        Ok(bytes)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> Bytes {
        let rest = self.bytes.slice(self.at..);
        self.at = self.bytes.len();
        rest
    }
}
