//! The elementary fields: how they are read and how they are written.

use crate::code::ResponseCode;
use crate::error::DecodeError;
use leveret_types::limits::STREAM_LIST_ENTRIES_MAX;

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

    /// Whether all has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
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

    /// The next `count` octets.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self.rest.split_at_checked(count);
        let (taken, rest) = taken.ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` octets.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.rest.split_first_chunk();
        let (taken, rest) = taken.ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next field of a type.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn field<T: Field<'a>>(&mut self) -> Result<T, DecodeError> {
        T::read(self)
    }

    /// A string's octets; none where its length is -1.
    ///
    /// # Errors
    /// As for all fields.
    pub fn string(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = i16::from_be_bytes(self.array()?);
        self.sized(length.into())
    }

    /// Octets behind a length of four; none where it is -1.
    ///
    /// # Errors
    /// As for all fields.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = i32::from_be_bytes(self.array()?);
        self.sized(length)
    }

    fn sized(&mut self, length: i32) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(DecodeError::NegativeLength),
        }
    }
}

/// A value that stands in frames.
pub trait Field<'a>: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl<'a> Field<'a> for $number {
            fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                reader.array().map(Self::from_be_bytes)
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i64);

impl<'a> Field<'a> for ResponseCode {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.field().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

impl<'a> Field<'a> for &'a str {
    /// No string is read as an empty one.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = reader.string()?.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)
    }

    /// What is longer than a string may be is cut: names and texts are bounded where they come into
    /// being.
    fn write(&self, out: &mut Vec<u8>) {
        let mut end = self.len().min(i16::MAX as usize);
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        let length = u16::try_from(end).unwrap_or_default();
        length.write(out);
        out.extend_from_slice(&self.as_bytes()[..end]);
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = i32::from_be_bytes(reader.array()?);
        let count = match usize::try_from(count) {
            Ok(count) if count > STREAM_LIST_ENTRIES_MAX => return Err(DecodeError::ListEntries),
            Ok(count) => count,
            Err(_) if count == -1 => 0,
            Err(_) => return Err(DecodeError::NegativeLength),
        };
        // It grows with what is read, not by what is claimed.
        let mut items = Self::new();
        for _ in 0..count {
            items.push(reader.field()?);
        }
        Ok(items)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.len()).expect("a list is bounded where it comes into being");
        count.write(out);
        for item in self {
            item.write(out);
        }
    }
}

impl<'a, A: Field<'a>, B: Field<'a>> Field<'a> for (A, B) {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok((reader.field()?, reader.field()?))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
}

impl<'a, A: Field<'a>, B: Field<'a>, C: Field<'a>> Field<'a> for (A, B, C) {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok((reader.field()?, reader.field()?, reader.field()?))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }
}

/// Names with their values.
pub type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// A field at a frame's end that is left out where it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Optional<T>(pub T);

impl<'a> Field<'a> for Optional<Pairs<'a>> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.is_empty() {
            true => Ok(Self::default()),
            false => reader.field().map(Self),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if !self.0.is_empty() {
            self.0.write(out);
        }
    }
}

/// A field at a frame's end that may be missing in what is read, and is always written: clients
/// read it whatever the code before it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailing<T>(pub T);

impl<'a> Field<'a> for Trailing<Pairs<'a>> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Optional::read(reader).map(|Optional(pairs)| Self(pairs))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

impl<'a> Field<'a> for Optional<&'a [u8]> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.is_empty() {
            true => Ok(Self::default()),
            false => Ok(Self(reader.bytes()?.unwrap_or_default())),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if !self.0.is_empty() {
            put_bytes(out, self.0);
        }
    }
}

/// Octets with their length; what is empty is written as none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opaque<'a>(pub &'a [u8]);

impl<'a> Field<'a> for Opaque<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self(reader.bytes()?.unwrap_or_default()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self.0 {
            [] => out.extend_from_slice(&[0xFF; 4]),
            bytes => put_bytes(out, bytes),
        }
    }
}

/// Appends octets with their length.
///
/// # Panics
/// If they are 2 GiB or more, which nothing in the broker has.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = i32::try_from(bytes.len()).expect("a field has less than 2 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetSpec {
    /// Not said: only in the answer to `ConsumerUpdate`.
    #[default]
    None,
    /// With the oldest message.
    First,
    /// With the last chunk.
    Last,
    /// With what is published from now on.
    Next,
    /// With the chunk that holds this offset.
    Offset(u64),
    /// With the chunk that was written then, in milliseconds since 1970, or the next one.
    Timestamp(i64),
}

impl<'a> Field<'a> for OffsetSpec {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match reader.field::<u16>()? {
            0 => Self::None,
            1 => Self::First,
            2 => Self::Last,
            3 => Self::Next,
            4 => Self::Offset(reader.field()?),
            5 => Self::Timestamp(reader.field()?),
            other => return Err(DecodeError::OffsetType(other)),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => 0_u16.write(out),
            Self::First => 1_u16.write(out),
            Self::Last => 2_u16.write(out),
            Self::Next => 3_u16.write(out),
            Self::Offset(offset) => (4_u16, *offset).write(out),
            Self::Timestamp(timestamp) => (5_u16, *timestamp).write(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a, T: Field<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = reader.field()?;
        reader.finish().map(|()| value)
    }

    #[test]
    fn strings_are_none_empty_or_text() {
        assert_eq!(read::<&str>(b"\xFF\xFF"), Ok(""));
        assert_eq!(read::<&str>(b"\0\0"), Ok(""));
        assert_eq!(read::<&str>(b"\0\x02ab"), Ok("ab"));
        assert_eq!(read::<&str>(b"\0\x02a"), Err(DecodeError::Truncated));
        assert_eq!(read::<&str>(b"\0\x01\xFF"), Err(DecodeError::NotUtf8));
        assert_eq!(read::<&str>(b"\xFF\xFE"), Err(DecodeError::NegativeLength));
        assert_eq!(read::<&str>(b"\x80\0"), Err(DecodeError::NegativeLength));
        assert_eq!(read::<&str>(b"\0\x01ab"), Err(DecodeError::Trailing(1)));
    }

    #[test]
    fn a_list_has_its_number_of_entries_and_not_one_more() {
        let list = |count: usize| [&(count as u32).to_be_bytes()[..], &vec![7; count]].concat();
        let most = STREAM_LIST_ENTRIES_MAX;
        assert_eq!(read::<Vec<u8>>(&list(most)), Ok(vec![7; most]));
        let more = list(most + 1);
        assert_eq!(read::<Vec<u8>>(&more), Err(DecodeError::ListEntries));
        assert_eq!(read::<Vec<u8>>(&[0xFF; 4]), Ok(Vec::new()));
        let negative = [0xFF, 0xFF, 0xFF, 0xFE];
        assert_eq!(read::<Vec<u8>>(&negative), Err(DecodeError::NegativeLength));
        // A claim without the entries takes no memory.
        assert_eq!(
            read::<Vec<u64>>(&[0, 0, 15, 255]),
            Err(DecodeError::Truncated)
        );
    }

    #[test]
    fn a_string_too_long_is_cut_at_a_character() {
        let text = format!("a{}", "é".repeat(20_000));
        let mut out = Vec::new();
        text.as_str().write(&mut out);
        assert_eq!(read::<&str>(&out).map(str::len), Ok(i16::MAX as usize));
    }
}
