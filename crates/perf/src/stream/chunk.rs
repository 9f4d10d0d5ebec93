//! Chunks as they are delivered, and the messages in them.
//!
//! ```text
//! at   0  u8   magic 5 in the upper half, version in the lower
//!      1  u8   type
//!      2  u16  entries
//!      4  u32  records: messages
//!      8  i64  timestamp
//!     16  u64  epoch
//!     24  u64  first offset
//!     32  u32  CRC-32 of the data
//!     36  u32  length of the data
//!     40  u32  length of the trailer
//!     44  u8   size of the bloom filter, and three octets
//!     48       data
//! ```
//!
//! Bloom filter and trailer are not sent with it, whatever the header says of their size. An entry
//! of the data is a message (`0 | length u31 | body`) or a batch of them.
//!
//! A body is, by agreement of the protocol's clients, a message of AMQP 1.0. Ours have one section:
//! `00 53 75`, the type of a binary (`A0` with a length of one octet, `B0` with four), the data.

/// Octets of a header.
const HEADER_BYTES: usize = 48;
/// The upper half of the first octet.
const MAGIC: u8 = 5;
/// What a section of data begins with: a described type, and the descriptor's small number.
const SECTION: [u8; 3] = [0x00, 0x53, 0x75];
/// A binary with a length of one octet, and with one of four.
const BINARY_8: u8 = 0xA0;
const BINARY_32: u8 = 0xB0;

/// What is wrong with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// It is shorter than it says.
    #[error("a chunk that ends early")]
    Truncated,
    /// It does not begin as chunks do.
    #[error("what is no chunk: its first octet is {0:#04x}")]
    Magic(u8),
    /// Its data is not what was written.
    #[error("the chunk at offset {first} has CRC {found:08x}, and {said:08x} in its header")]
    Checksum {
        /// Its first offset.
        first: u64,
        /// The sum of its data.
        found: u32,
        /// The sum in its header.
        said: u32,
    },
    /// It does not hold as many messages as it says.
    #[error("the chunk at offset {first} says {said} messages and has {found}")]
    Records {
        /// Its first offset.
        first: u64,
        /// In its header.
        said: u32,
        /// In its data.
        found: u64,
    },
    /// A batch is compressed, which nothing here asks for.
    #[error("a batch compressed by kind {0}")]
    Compressed(u8),
}

/// A chunk whose data is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The offset of its first message.
    pub first: u64,
    /// Messages in it.
    pub records: u32,
    data: &'a [u8],
}

/// A message of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset.
    pub offset: u64,
    /// What was published.
    pub body: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Reads a header and checks the data behind it.
    ///
    /// # Errors
    /// [`ChunkError`] if it is not as it was written.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ChunkError> {
        let (header, rest) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or(ChunkError::Truncated)?;
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|place| header[at + place]));
        let first = u64::from(number(24)) << 32 | u64::from(number(28));
        if header[0] >> 4 != MAGIC {
            return Err(ChunkError::Magic(header[0]));
        }
        let data = rest.get(..number(36) as usize);
        let data = data.ok_or(ChunkError::Truncated)?;
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let (found, said) = (crc.sum(), number(32));
        if found != said {
            return Err(ChunkError::Checksum { first, found, said });
        }
        Ok(Self {
            first,
            records: number(4),
            data,
        })
    }

    /// Gives each message to `take`.
    ///
    /// # Errors
    /// If there are not as many as the header says, or one cannot be read. Those before it were
    /// given.
    pub fn each(&self, mut take: impl FnMut(Record<'a>)) -> Result<(), ChunkError> {
        let mut rest = self.data;
        let mut found = 0;
        while !rest.is_empty() {
            let (count, messages, after) = entry(rest)?;
            rest = after;
            let mut messages = messages;
            for _ in 0..count {
                let (body, after) = message(messages)?;
                messages = after;
                take(Record {
                    offset: self.first + found,
                    body,
                });
                found += 1;
            }
        }
        match found == u64::from(self.records) {
            true => Ok(()),
            false => Err(ChunkError::Records {
                first: self.first,
                said: self.records,
                found,
            }),
        }
    }
}

/// An entry: how many messages it holds, their octets, and what follows it.
#[inline]
fn entry(bytes: &[u8]) -> Result<(u16, &[u8], &[u8]), ChunkError> {
    let first = *bytes.first().ok_or(ChunkError::Truncated)?;
    if first & 0x80 == 0 {
        let (_, after) = message(bytes)?;
        return Ok((1, bytes, after));
    }
    let compression = first >> 4 & 7;
    if compression != 0 {
        return Err(ChunkError::Compressed(compression));
    }
    let (head, rest) = bytes.split_at_checked(11).ok_or(ChunkError::Truncated)?;
    let length = u32::from_be_bytes([head[7], head[8], head[9], head[10]]);
    let data = rest.split_at_checked(length as usize);
    let (data, after) = data.ok_or(ChunkError::Truncated)?;
    Ok((u16::from_be_bytes([head[1], head[2]]), data, after))
}

/// A message, and what follows it.
#[inline]
fn message(bytes: &[u8]) -> Result<(&[u8], &[u8]), ChunkError> {
    let (length, rest) = bytes.split_first_chunk().ok_or(ChunkError::Truncated)?;
    let length = u32::from_be_bytes(*length) as usize;
    rest.split_at_checked(length).ok_or(ChunkError::Truncated)
}

/// Octets of a section around so many of data.
#[must_use]
#[inline]
pub fn section_bytes(data: usize) -> usize {
    let head = if data <= 255 { 2 } else { 5 };
    SECTION.len() + head + data
}

/// Appends the head of a section with so many octets of data.
#[inline]
pub fn put_section(out: &mut Vec<u8>, data: usize) {
    out.extend_from_slice(&SECTION);
    match u8::try_from(data) {
        Ok(short) => out.extend_from_slice(&[BINARY_8, short]),
        Err(_) => {
            out.push(BINARY_32);
            out.extend_from_slice(&(data as u32).to_be_bytes());
        }
    }
}

/// The data of a message that is one section of it, as ours are.
#[must_use]
#[inline]
pub fn section_data(body: &[u8]) -> Option<&[u8]> {
    let (&kind, rest) = body.strip_prefix(&SECTION)?.split_first()?;
    let (length, data) = match kind {
        BINARY_8 => {
            let (&length, data) = rest.split_first()?;
            (usize::from(length), data)
        }
        BINARY_32 => {
            let (length, data) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*length) as usize, data)
        }
        _ => return None,
    };
    (data.len() == length).then_some(data)
}
