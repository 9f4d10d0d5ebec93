//! The elementary fields: how they are read and how they are written.

use crate::error::DecodeError;
use crate::table::RawTable;
use leveret_types::limits::SHORT_STRING_BYTES_MAX;

/// Reads fields from the front of a slice. After an error nothing more should be read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the beginning of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Asserts to the sender that all has been read.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if something is left.
    pub const fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// An octet.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], as of all that follow.
    pub fn octet(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[octet]| octet)
    }

    /// Two octets, as everything in network order.
    ///
    /// # Errors
    /// See [`Self::octet`].
    pub fn short(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four octets.
    ///
    /// # Errors
    /// See [`Self::octet`].
    pub fn long(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight octets.
    ///
    /// # Errors
    /// See [`Self::octet`].
    pub fn long_long(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of up to 255 octets.
    ///
    /// # Errors
    /// See [`Self::octet`].
    pub fn short_string(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.octet()?;
        self.take(usize::from(length))
    }

    /// A string of up to 255 octets that must be UTF-8.
    ///
    /// # Errors
    /// See [`Self::octet`], and [`DecodeError::NotUtf8`].
    pub fn short_text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.short_string()?).map_err(|_| DecodeError::NotUtf8)
    }

    /// A string with a length of four octets.
    ///
    /// # Errors
    /// See [`Self::octet`].
    pub fn long_string(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.long()?;
        self.take(length as usize)
    }

    /// A field table, checked whole.
    ///
    /// # Errors
    /// See [`Self::octet`] and [`RawTable::validate`].
    pub fn table(&mut self) -> Result<RawTable<'a>, DecodeError> {
        RawTable::validate(self.long_string()?)
    }
}

/// Appends a short string. What is longer than 255 octets is cut: names and texts are bounded where
/// they come into being.
pub fn put_short_string(out: &mut Vec<u8>, string: &[u8]) {
    let length = string.len().min(SHORT_STRING_BYTES_MAX);
    out.push(length as u8);
    out.extend_from_slice(&string[..length]);
}

/// Appends a long string.
///
/// # Panics
/// If it has 4 GiB or more, which nothing in the broker has.
pub fn put_long_string(out: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).expect("a long string has less than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(string);
}

/// Appends what `write` appends, with its length in four octets before it.
///
/// # Panics
/// As [`put_long_string`].
pub fn put_with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = u32::try_from(out.len() - start - 4).expect("a field has less than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_more() {
        let mut out = Vec::new();
        put_short_string(&mut out, b"ab");
        put_long_string(&mut out, b"cde");
        put_with_length(&mut out, |out| out.extend_from_slice(b"fg"));
        let mut reader = Reader::new(&out);
        assert_eq!(reader.short_text(), Ok("ab"));
        assert_eq!(reader.long_string(), Ok(&b"cde"[..]));
        assert_eq!(reader.finish(), Err(DecodeError::Trailing(6)));
        assert_eq!(reader.long_string(), Ok(&b"fg"[..]));
        assert_eq!(reader.finish(), Ok(()));
        assert_eq!(reader.octet(), Err(DecodeError::Truncated));
    }

    #[test]
    fn every_field_says_when_the_bytes_end_within_it() {
        for length in 0..8 {
            let bytes = vec![0xFF; length];
            assert_eq!(Reader::new(&bytes).long_long(), Err(DecodeError::Truncated));
            let long = Reader::new(&bytes).long();
            assert_eq!(long.is_ok(), length >= 4);
            assert_eq!(Reader::new(&bytes).short().is_ok(), length >= 2);
            let string = Reader::new(&bytes).long_string();
            assert_eq!(string, Err(DecodeError::Truncated));
            let string = Reader::new(&bytes).short_string();
            assert_eq!(string, Err(DecodeError::Truncated));
        }
    }

    #[test]
    fn a_short_string_is_cut_at_255_octets() {
        for (length, written) in [(255, 255), (256, 255)] {
            let mut out = Vec::new();
            put_short_string(&mut out, &vec![b'x'; length]);
            assert_eq!(out.len(), written + 1);
            assert_eq!(
                Reader::new(&out).short_string().map(<[u8]>::len),
                Ok(written)
            );
        }
    }
}
