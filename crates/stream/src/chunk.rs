//! Chunks: the batches of entries that a stream consists of, in the format of the RabbitMQ stream
//! protocol, on disk as on the wire.
//!
//! ```text
//!  0  magic 5 (4 bits) | version 0 (4 bits)
//!  1  kind u8              0 user, 1 tracking delta, 2 tracking snapshot
//!  2  entries u16          what an offset of the chunk's own counts: a message or a sub-batch
//!  4  records u32          messages; a sub-batch counts all of its own
//!  8  timestamp i64        milliseconds since the Unix epoch
//! 16  epoch u64            of the leader that made it
//! 24  first offset u64     which is the chunk's id; its last one is first + records - 1
//! 32  CRC-32 u32           of the data alone
//! 36  data bytes u32
//! 40  trailer bytes u32
//! 44  bloom bytes u8
//! 45  reserved u24
//! 48  bloom filter | data | trailer
//! ```
//!
//! All numbers are big-endian. Data are entries one after the other; see [`Entries`]. A client gets
//! the header as it is and the data, but neither the filter nor the trailer.

use bytes::Bytes;
use leveret_types::pool::Buffer;

/// Bytes of a chunk's header.
pub const HEADER_BYTES: usize = 48;
/// The first byte: the magic number in the upper half, the version in the lower.
const MAGIC_AND_VERSION: u8 = 0x50;
/// The bit of an entry's first byte that says that it is a sub-batch.
const SUB_BATCH: u8 = 0x80;
/// Bytes before the body of a simple entry: its length.
const SIMPLE_HEAD_BYTES: usize = 4;
/// Bytes before the body of a sub-batch: kind, records, uncompressed length, length.
const SUB_BATCH_HEAD_BYTES: usize = 11;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkKind {
    /// What was published.
    User = 0,
    /// Offsets and sequences that have changed; see [`crate::host`]. One record.
    TrackingDelta = 1,
    /// All offsets and sequences. One record.
    TrackingSnapshot = 2,
}

/// Why bytes are no chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Bytes are missing.
    #[error("the chunk has fewer bytes than it says")]
    Short,
    /// No chunk begins here, or one of a format that is not known.
    #[error("no chunk of a known version begins here")]
    Magic,
    /// A kind that is not known.
    #[error("chunk kind {0} is not known")]
    Kind(u8),
    /// The data differ from what the checksum was made of.
    #[error("the chunk's data do not have its checksum")]
    Checksum,
    /// The data are not the entries that the header counts.
    #[error("the chunk's entries are not those that its header counts")]
    Entries,
    /// Offsets would not fit in 64 bits.
    #[error("the chunk's offsets are too large")]
    Offset,
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What it holds.
    pub kind: ChunkKind,
    /// Entries: messages and sub-batches.
    pub entries: u16,
    /// Messages, those of sub-batches included: so many offsets the chunk takes.
    pub records: u32,
    /// Milliseconds since the Unix epoch at which it was made.
    pub timestamp_ms: i64,
    /// The term of the leader that made it.
    pub epoch: u64,
    /// Offset of its first message, which is the chunk's id.
    pub first_offset: u64,
    /// CRC-32 of the data.
    pub crc: u32,
    /// Bytes of the data.
    pub data_bytes: u32,
    /// Bytes of the trailer.
    pub trailer_bytes: u32,
    /// Bytes of the bloom filter.
    pub bloom_bytes: u8,
}

impl ChunkHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0] = MAGIC_AND_VERSION;
        out[1] = self.kind as u8;
        out[2..4].copy_from_slice(&self.entries.to_be_bytes());
        out[4..8].copy_from_slice(&self.records.to_be_bytes());
        out[8..16].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        out[16..24].copy_from_slice(&self.epoch.to_be_bytes());
        out[24..32].copy_from_slice(&self.first_offset.to_be_bytes());
        out[32..36].copy_from_slice(&self.crc.to_be_bytes());
        out[36..40].copy_from_slice(&self.data_bytes.to_be_bytes());
        out[40..44].copy_from_slice(&self.trailer_bytes.to_be_bytes());
        out[44] = self.bloom_bytes;
        out
    }

    /// Reads a header from the front of `bytes`.
    ///
    /// # Errors
    /// If there is none, or one that says what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, ChunkError> {
        let (head, _) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(ChunkError::Short)?;
        if head[0] != MAGIC_AND_VERSION {
            return Err(ChunkError::Magic);
        }
        let kind = match head[1] {
            0 => ChunkKind::User,
            1 => ChunkKind::TrackingDelta,
            2 => ChunkKind::TrackingSnapshot,
            other => return Err(ChunkError::Kind(other)),
        };
        let header = Self {
            kind,
            entries: u16::from_be_bytes(array(head, 2)),
            records: u32::from_be_bytes(array(head, 4)),
            timestamp_ms: i64::from_be_bytes(array(head, 8)),
            epoch: u64::from_be_bytes(array(head, 16)),
            first_offset: u64::from_be_bytes(array(head, 24)),
            crc: u32::from_be_bytes(array(head, 32)),
            data_bytes: u32::from_be_bytes(array(head, 36)),
            trailer_bytes: u32::from_be_bytes(array(head, 40)),
            bloom_bytes: head[44],
        };
        let end = header.first_offset.checked_add(u64::from(header.records));
        end.map(|_| header).ok_or(ChunkError::Offset)
    }

    /// The offset after the chunk's last one.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.first_offset.saturating_add(u64::from(self.records))
    }

    /// Bytes of the whole chunk, its header included.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        HEADER_BYTES as u64
            + u64::from(self.bloom_bytes)
            + u64::from(self.data_bytes)
            + u64::from(self.trailer_bytes)
    }
}

fn array<const N: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&head[at..at + N]);
    out
}

/// A whole chunk, shared by all who read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedChunk {
    header: ChunkHeader,
    bytes: Bytes,
}

impl SharedChunk {
    /// Puts a chunk together. The header's checksum and lengths are made here.
    ///
    /// # Panics
    /// If a part is longer than its length field counts: its maker keeps to the limits.
    #[must_use]
    pub fn new(mut header: ChunkHeader, bloom: &[u8], data: &[u8], trailer: &[u8]) -> Self {
        header.bloom_bytes = u8::try_from(bloom.len()).expect("a filter has 255 bytes at most");
        header.data_bytes = u32::try_from(data.len()).expect("a chunk's data are bounded");
        header.trailer_bytes = u32::try_from(trailer.len()).expect("a trailer is bounded");
        header.crc = crc32fast::hash(data);
        let len = HEADER_BYTES + bloom.len() + data.len() + trailer.len();
        let mut bytes = Buffer::with_capacity(len);
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(bloom);
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(trailer);
        Self {
            header,
            bytes: bytes.freeze(),
        }
    }

    /// As [`Self::new`], without a filter, of a buffer that has room for the header and the data
    /// behind it.
    ///
    /// # Panics
    /// As [`Self::new`], and if there is no room for the trailer.
    pub(crate) fn in_place(mut header: ChunkHeader, mut buffer: Buffer, trailer: &[u8]) -> Self {
        let data = &buffer.filled()[HEADER_BYTES..];
        header.bloom_bytes = 0;
        header.data_bytes = u32::try_from(data.len()).expect("a chunk's data are bounded");
        header.trailer_bytes = u32::try_from(trailer.len()).expect("a trailer is bounded");
        header.crc = crc32fast::hash(data);
        buffer.extend_from_slice(trailer);
        buffer.write_over(0, &header.encode());
        Self {
            header,
            bytes: buffer.freeze(),
        }
    }

    /// Takes a chunk from the front of `bytes`, which may hold more. Checks lengths, but neither
    /// the checksum nor the entries: see [`Self::verify`].
    ///
    /// # Errors
    /// If there is no whole chunk.
    pub fn split_from(bytes: &mut Bytes) -> Result<Self, ChunkError> {
        let header = ChunkHeader::decode(bytes)?;
        let len = usize::try_from(header.chunk_bytes()).map_err(|_| ChunkError::Short)?;
        if bytes.len() < len {
            return Err(ChunkError::Short);
        }
        let bytes = bytes.split_to(len);
        Ok(Self { header, bytes })
    }

    /// Checks the checksum of the data, and of a user chunk that its entries are whole and as many
    /// as the header says.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), ChunkError> {
        if crc32fast::hash(self.data_slice()) != self.header.crc {
            return Err(ChunkError::Checksum);
        }
        if self.header.kind != ChunkKind::User {
            return Ok(());
        }
        let (mut entries, mut records) = (0_u64, 0_u64);
        for entry in self.entries() {
            let entry = entry?;
            entries += 1;
            records += u64::from(entry.records);
        }
        let sound =
            entries == u64::from(self.header.entries) && records == u64::from(self.header.records);
        sound.then_some(()).ok_or(ChunkError::Entries)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// All of the chunk's bytes, as they are on disk.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What a client gets first: the header, unchanged.
    #[must_use]
    pub fn header_bytes(&self) -> Bytes {
        self.bytes.slice(..HEADER_BYTES)
    }

    /// What a client gets after the header: the data, without filter and trailer.
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.bytes.slice(self.data_range())
    }

    /// The bloom filter; empty where no message of the chunk has a filter value.
    #[must_use]
    pub fn bloom(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..self.data_range().start]
    }

    /// The trailer of a user chunk: what has changed of offsets and sequences.
    #[must_use]
    pub fn trailer(&self) -> &[u8] {
        &self.bytes[self.data_range().end..]
    }

    /// The entries of a user chunk.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries(self.data_slice())
    }

    fn data_slice(&self) -> &[u8] {
        &self.bytes[self.data_range()]
    }

    fn data_range(&self) -> std::ops::Range<usize> {
        let start = HEADER_BYTES + usize::from(self.header.bloom_bytes);
        start..start + self.header.data_bytes as usize
    }
}

/// One entry as it is in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// All of its bytes, its length included.
    pub bytes: &'a [u8],
    /// The message, or the messages of a sub-batch, compressed or not.
    pub body: &'a [u8],
    /// Messages in it.
    pub records: u16,
    /// How a sub-batch is compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd; `None` for a message.
    pub sub_batch: Option<u8>,
}

/// The entries in a part of a chunk or of a publish.
///
/// ```text
/// message    0 (1 bit), length u31 | body
/// sub-batch  1 (1 bit), compression u3, reserved u4 | records u16 | uncompressed u32 | length u32
///            | body
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a>(pub &'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, ChunkError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0;
        if rest.is_empty() {
            return None;
        }
        let entry = first_entry(rest);
        // After an error there is nothing more to be found.
        self.0 = entry.map_or(&[], |entry| &rest[entry.bytes.len()..]);
        Some(entry)
    }
}

/// The entry at the front of `bytes`, which may hold more.
///
/// # Errors
/// If it is not whole, or a sub-batch of no records.
pub fn first_entry(bytes: &[u8]) -> Result<Entry<'_>, ChunkError> {
    let first = *bytes.first().ok_or(ChunkError::Short)?;
    let (head_bytes, len, records, sub_batch) = if first & SUB_BATCH == 0 {
        let head = bytes
            .first_chunk::<SIMPLE_HEAD_BYTES>()
            .ok_or(ChunkError::Short)?;
        (SIMPLE_HEAD_BYTES, u32::from_be_bytes(*head), 1, None)
    } else {
        let head = bytes
            .first_chunk::<SUB_BATCH_HEAD_BYTES>()
            .ok_or(ChunkError::Short)?;
        let records = u16::from_be_bytes([head[1], head[2]]);
        let len = u32::from_be_bytes([head[7], head[8], head[9], head[10]]);
        (SUB_BATCH_HEAD_BYTES, len, records, Some(first >> 4 & 0x7))
    };
    if records == 0 {
        return Err(ChunkError::Entries);
    }
    let len = usize::try_from(len).map_err(|_| ChunkError::Short)?;
    let end = head_bytes.checked_add(len).ok_or(ChunkError::Short)?;
    let entry = bytes.get(..end).ok_or(ChunkError::Short)?;
    Ok(Entry {
        bytes: entry,
        body: &entry[head_bytes..],
        records,
        sub_batch,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_be_bytes(), body].concat()
    }

    fn sub_batch(compression: u8, records: u16, body: &[u8]) -> Vec<u8> {
        let mut out = vec![SUB_BATCH | compression << 4];
        out.extend_from_slice(&records.to_be_bytes());
        out.extend_from_slice(&1_000_u32.to_be_bytes());
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    fn header(entries: u16, records: u32) -> ChunkHeader {
        ChunkHeader {
            kind: ChunkKind::User,
            entries,
            records,
            timestamp_ms: 0x0102_0304_0506_0708,
            epoch: 9,
            first_offset: 0x1112_1314_1516_1718,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        }
    }

    #[test]
    fn the_format_is_that_of_the_stream_protocol_to_the_byte() {
        let chunk = SharedChunk::new(header(1, 1), &[0xBB; 16], &message(b"hello"), b"tail");
        let expected = [
            &[0x50, 0][..],
            &[0, 1],
            &[0, 0, 0, 1],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 0, 0, 0, 0, 0, 9],
            &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
            // zlib.crc32(b"\0\0\0\5hello")
            &crc32fast::hash(b"\0\0\0\x05hello").to_be_bytes(),
            &[0, 0, 0, 9],
            &[0, 0, 0, 4],
            &[16],
            &[0, 0, 0],
            &[0xBB; 16],
            b"\0\0\0\x05hello",
            b"tail",
        ]
        .concat();
        assert_eq!(chunk.bytes()[..], expected[..]);
        assert_eq!(chunk.header_bytes()[..], expected[..48]);
        assert_eq!(chunk.data()[..], b"\0\0\0\x05hello"[..]);
        assert_eq!(
            (chunk.bloom(), chunk.trailer()),
            (&[0xBB; 16][..], &b"tail"[..])
        );
        let mut bytes = Bytes::from([&expected[..], b"more"].concat());
        assert_eq!(SharedChunk::split_from(&mut bytes).unwrap(), chunk);
        assert_eq!(bytes[..], b"more"[..]);
    }

    #[test]
    fn the_checksum_is_the_crc_32_of_zlib() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn entries_are_messages_and_sub_batches() {
        let data = [message(b"a"), sub_batch(4, 300, b"zz"), message(b"")].concat();
        let chunk = SharedChunk::new(header(3, 302), &[], &data, &[]);
        chunk.verify().unwrap();
        let entries: Vec<_> = chunk.entries().map(Result::unwrap).collect();
        let seen: Vec<_> = entries
            .iter()
            .map(|e| (e.body, e.records, e.sub_batch))
            .collect();
        let expected: [(&[u8], u16, Option<u8>); 3] =
            [(b"a", 1, None), (b"zz", 300, Some(4)), (b"", 1, None)];
        assert_eq!(seen, expected);
        let whole: Vec<u8> = entries.iter().flat_map(|e| e.bytes.to_vec()).collect();
        assert_eq!(whole, data);
    }

    #[test]
    fn a_header_that_counts_otherwise_is_refused() {
        let data = [message(b"a"), sub_batch(0, 2, b"xy")].concat();
        for (entries, records, sound) in [(2, 3, true), (1, 3, false), (2, 2, false), (3, 3, false)]
        {
            let chunk = SharedChunk::new(header(entries, records), &[], &data, &[]);
            let expected = if sound {
                Ok(())
            } else {
                Err(ChunkError::Entries)
            };
            assert_eq!(chunk.verify(), expected, "{entries} {records}");
        }
    }

    #[test]
    fn every_flipped_bit_of_the_data_is_noticed_and_none_panics() {
        let data = [message(b"abc"), sub_batch(1, 2, b"de")].concat();
        let chunk = SharedChunk::new(header(2, 3), &[7; 16], &data, b"t");
        for bit in 0..chunk.bytes().len() * 8 {
            let mut bytes = chunk.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut bytes = Bytes::from(bytes);
            let read = SharedChunk::split_from(&mut bytes);
            let verified = read.and_then(|chunk| chunk.verify());
            let in_data = (64 * 8..(64 + data.len()) * 8).contains(&bit);
            assert!(!in_data || verified.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_prefix_is_too_short() {
        let chunk = SharedChunk::new(header(1, 1), &[7; 16], &message(b"abc"), b"t");
        for len in 0..chunk.bytes().len() {
            let mut bytes = chunk.bytes().slice(..len);
            assert_eq!(SharedChunk::split_from(&mut bytes), Err(ChunkError::Short));
            assert_eq!(bytes.len(), len, "nothing is taken");
        }
        let data = sub_batch(1, 2, b"de");
        for len in 1..data.len() {
            assert_eq!(first_entry(&data[..len]), Err(ChunkError::Short));
        }
        assert_eq!(first_entry(&[]), Err(ChunkError::Short));
        assert_eq!(first_entry(&sub_batch(0, 0, b"")), Err(ChunkError::Entries));
    }

    #[test]
    fn offsets_end_where_64_bits_end() {
        let mut last = header(1, 1);
        last.first_offset = u64::MAX - 1;
        assert_eq!(ChunkHeader::decode(&last.encode()), Ok(last));
        last.first_offset = u64::MAX;
        assert_eq!(ChunkHeader::decode(&last.encode()), Err(ChunkError::Offset));
    }
}
