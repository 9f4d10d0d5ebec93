//! The bytes of a segment file of a stream.
//!
//! ```text
//! file    head, the same once more, zeros to the end of the sector, records
//! head    "LVRTSTRM" | version u16 | 0 u16 | crc u32 | stream u64 | first offset u64 | salt u64
//! record  "LVSC" | head crc u32 | body crc u32 | chunk bytes u32 | durable u64 | replay from u64
//!         | chunk | zeros to the end of the sector
//! ```
//!
//! All numbers but those of the chunk are little-endian. The head crc is over what follows it and
//! the chunk's header, and begins with the salt, the stream, the file and the record's position: no
//! other bytes pass for this record. Publishers do not know the salt, so that no message can pass
//! for a record. The body crc is over the chunk behind its header.
//!
//! `durable` is the offset below which all of the stream was synced when the record was written;
//! `replay from` is the position from which on tracking is replayed to know it as of this record.

use crate::bytes_io::{Put, Take, seed};
use leveret_stream::SharedChunk;
use leveret_stream::chunk::{ChunkHeader, HEADER_BYTES as CHUNK_HEADER_BYTES};
use leveret_stream::segments::{RECORD_HEAD_BYTES, SECTOR_BYTES, stored_bytes};
use leveret_types::QueueId;

const FILE_MAGIC: [u8; 8] = *b"LVRTSTRM";
/// Version of the file's format. A file of a later version is refused.
const VERSION: u16 = 1;
const FILE_HEAD_COPY_BYTES: usize = 40;
/// Bytes of a file's head.
pub(crate) const FILE_HEAD_BYTES: u64 = 2 * FILE_HEAD_COPY_BYTES as u64;
/// Where the first record begins.
pub(crate) const RECORDS_START: u64 = SECTOR_BYTES;
/// What a record begins with.
const RECORD_MAGIC: [u8; 4] = *b"LVSC";
/// Bytes of a record that must be at hand to know it: its head and the chunk's header.
pub(crate) const RECORD_KNOWN_BYTES: usize = RECORD_HEAD_BYTES + CHUNK_HEADER_BYTES;

/// Whose segment file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(crate) stream: QueueId,
    pub(crate) first_offset: u64,
    pub(crate) salt: u64,
}

/// Why bytes are no head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// Neither copy is sound.
    Damaged,
    /// Of a later version.
    Newer(u16),
}

impl FileHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 * FILE_HEAD_COPY_BYTES);
        out.extend_from_slice(&FILE_MAGIC);
        out.put_u16(VERSION);
        out.put_u16(0);
        out.put_u32(0);
        for number in [self.stream.0, self.first_offset, self.salt] {
            out.put_u64(number);
        }
        let crc = crc32c::crc32c(&out).to_le_bytes();
        out[12..16].copy_from_slice(&crc);
        out.extend_from_within(..);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        let copies = bytes.chunks_exact(FILE_HEAD_COPY_BYTES).take(2);
        let mut sound = copies.filter_map(Self::decode_copy);
        sound.next().unwrap_or(Err(HeadError::Damaged))
    }

    fn decode_copy(bytes: &[u8]) -> Option<Result<Self, HeadError>> {
        let mut take = Take(bytes);
        let (magic, version) = (take.bytes(8)?, take.u16()?);
        let (_, crc) = (take.u16()?, take.u32()?);
        let mut without = bytes.to_vec();
        without[12..16].fill(0);
        if magic != FILE_MAGIC || crc != crc32c::crc32c(&without) {
            return None;
        }
        if version > VERSION {
            return Some(Err(HeadError::Newer(version)));
        }
        Some(Ok(Self {
            stream: QueueId(take.u64()?),
            first_offset: take.u64()?,
            salt: take.u64()?,
        }))
    }

    fn seed(&self, position: u64) -> u32 {
        seed(self.salt, &[self.stream.0, self.first_offset, position])
    }
}

/// What a record says before its chunk, and the chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    body_crc: u32,
    pub(crate) durable: u64,
    pub(crate) replay_from: u64,
    pub(crate) chunk: ChunkHeader,
}

impl RecordHead {
    /// The bytes before a chunk.
    pub(crate) fn encode(
        file: &FileHead,
        position: u64,
        chunk: &SharedChunk,
        durable: u64,
        replay_from: u64,
    ) -> Vec<u8> {
        let (header, body) = chunk.bytes().split_at(CHUNK_HEADER_BYTES);
        let mut covered = Vec::with_capacity(RECORD_HEAD_BYTES - 8);
        covered.put_u32(crc32c::crc32c(body));
        // A chunk is bounded by the largest message.
        covered.put_u32(chunk.bytes().len() as u32);
        covered.put_u64(durable);
        covered.put_u64(replay_from);
        let crc = crc32c::crc32c_append(file.seed(position), &covered);
        let crc = crc32c::crc32c_append(crc, header);
        let mut out = Vec::with_capacity(RECORD_HEAD_BYTES);
        out.extend_from_slice(&RECORD_MAGIC);
        out.put_u32(crc);
        out.extend_from_slice(&covered);
        out
    }

    /// The record that begins at this position of the file, of which `bytes` are the first.
    pub(crate) fn decode(file: &FileHead, position: u64, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..RECORD_KNOWN_BYTES)?;
        let mut take = Take(bytes);
        let (magic, head_crc) = (take.bytes(4)?, take.u32()?);
        if magic != RECORD_MAGIC
            || crc32c::crc32c_append(file.seed(position), &bytes[8..]) != head_crc
        {
            return None;
        }
        let (body_crc, chunk_bytes) = (take.u32()?, take.u32()?);
        let (durable, replay_from) = (take.u64()?, take.u64()?);
        let chunk = ChunkHeader::decode(&bytes[RECORD_HEAD_BYTES..]).ok()?;
        (chunk.chunk_bytes() == u64::from(chunk_bytes)).then_some(Self {
            body_crc,
            durable,
            replay_from,
            chunk,
        })
    }

    /// Bytes of the whole record.
    pub(crate) fn bytes(&self) -> u64 {
        RECORD_HEAD_BYTES as u64 + self.chunk.chunk_bytes()
    }

    /// Bytes from the record's beginning to that of the next one.
    pub(crate) fn stride(&self) -> u64 {
        stored_bytes(&self.chunk)
    }

    /// Whether these are the chunk's bytes behind its header.
    pub(crate) fn has_body(&self, body: &[u8]) -> bool {
        crc32c::crc32c(body) == self.body_crc
    }
}

const SUFFIX: &str = ".stream";
const REPLICA_SUFFIX: &str = ".replica";
const NEWEST_SUFFIX: &str = ".newest";
/// Ends the names of files that are being made.
pub(crate) const NEW_SUFFIX: &str = ".new";

/// The name of the file of what a replica keeps beside its chunks.
pub(crate) fn replica_file_name(stream: QueueId) -> String {
    format!("{:016x}{REPLICA_SUFFIX}", stream.0)
}

/// Whose such file it is by its name, also while it is being made; `None` if it is none.
pub(crate) fn parse_replica_name(name: &str) -> Option<QueueId> {
    let name = name.strip_suffix(NEW_SUFFIX).unwrap_or(name);
    let stream = name.strip_suffix(REPLICA_SUFFIX)?;
    let stream = QueueId(u64::from_str_radix(stream, 16).ok()?);
    (replica_file_name(stream) == name).then_some(stream)
}

/// The name of a segment's file.
pub(crate) fn file_name(stream: QueueId, first_offset: u64) -> String {
    segment_name(stream, first_offset, SUFFIX)
}

/// Which segment a file is by its name; `None` if it is none.
pub(crate) fn parse_name(name: &str) -> Option<(QueueId, u64)> {
    parse_segment_name(name, SUFFIX)
}

/// What the name of an empty file says of the segment that was begun last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Newest {
    /// Its first offset.
    pub(crate) segment: u64,
    /// The stream's mark: all below this offset was synced.
    pub(crate) durable: Option<u64>,
}

impl Newest {
    /// The segment, of which nothing is said.
    pub(crate) const fn of(segment: u64) -> Self {
        Self {
            segment,
            durable: None,
        }
    }
}

/// The name of the empty file that says which segment was begun last.
pub(crate) fn newest_file_name(stream: QueueId, newest: Newest) -> String {
    let Newest { segment, durable } = newest;
    match durable {
        None => segment_name(stream, segment, NEWEST_SUFFIX),
        Some(durable) => {
            let suffix = format!("-{durable:020}{NEWEST_SUFFIX}");
            segment_name(stream, segment, &suffix)
        }
    }
}

/// What such a file says; `None` if it is none.
pub(crate) fn parse_newest_name(name: &str) -> Option<(QueueId, Newest)> {
    let mut parts = name.strip_suffix(NEWEST_SUFFIX)?.split('-');
    let stream = QueueId(u64::from_str_radix(parts.next()?, 16).ok()?);
    let segment = parts.next()?.parse().ok()?;
    let durable = parts.next().map(str::parse).transpose().ok()?;
    let newest = Newest { segment, durable };
    (newest_file_name(stream, newest) == name).then_some((stream, newest))
}

fn segment_name(stream: QueueId, first_offset: u64, suffix: &str) -> String {
    format!("{:016x}-{first_offset:020}{suffix}", stream.0)
}

fn parse_segment_name(name: &str, suffix: &str) -> Option<(QueueId, u64)> {
    let (stream, first_offset) = name.strip_suffix(suffix)?.split_once('-')?;
    let parsed = (
        QueueId(u64::from_str_radix(stream, 16).ok()?),
        first_offset.parse().ok()?,
    );
    (segment_name(parsed.0, parsed.1, suffix) == name).then_some(parsed)
}

/// Whose file it is by its name; `None` if it is no stream's.
pub(crate) fn stream_of(name: &str) -> Option<QueueId> {
    let of_segment = parse_name(name).map(|(stream, _)| stream);
    of_segment
        .or_else(|| parse_newest_name(name).map(|(stream, _)| stream))
        .or_else(|| parse_replica_name(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_stream::ChunkKind;

    const FILE: FileHead = FileHead {
        stream: QueueId(0x0102),
        first_offset: 7,
        salt: 0x1122_3344_5566_7788,
    };

    fn chunk() -> SharedChunk {
        let header = ChunkHeader {
            kind: ChunkKind::User,
            entries: 1,
            records: 1,
            timestamp_ms: 1,
            epoch: 1,
            first_offset: 7,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        };
        SharedChunk::new(header, &[], b"\0\0\0\x02hi", b"tail")
    }

    #[test]
    fn the_format_stays_as_it_is() {
        let head = FILE.encode();
        assert_eq!(head.len() as u64, FILE_HEAD_BYTES);
        let frozen = b"LVRTSTRM\x01\0\0\0";
        assert_eq!(head[..12], frozen[..]);
        assert_eq!(head[16..24], [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(head[24..32], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            head[32..40],
            [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
        );
        let record = RecordHead::encode(&FILE, 80, &chunk(), 7, 80);
        assert_eq!(record[..4], *b"LVSC");
        assert_eq!(record[12..16], [58, 0, 0, 0]);
        assert_eq!(
            record[16..],
            [7, 0, 0, 0, 0, 0, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0]
        );
        let crcs = [&head[12..16], &record[4..8], &record[8..12]].concat();
        assert_eq!(crcs, FROZEN_CRCS);
        assert_eq!(
            file_name(FILE.stream, 7),
            "0000000000000102-00000000000000000007.stream"
        );
        assert_eq!(
            newest_file_name(FILE.stream, Newest::of(7)),
            "0000000000000102-00000000000000000007.newest"
        );
        let marked = Newest {
            segment: 7,
            durable: Some(12),
        };
        assert_eq!(
            newest_file_name(FILE.stream, marked),
            "0000000000000102-00000000000000000007-00000000000000000012.newest"
        );
    }

    const FROZEN_CRCS: [u8; 12] = [25, 3, 223, 247, 255, 204, 160, 216, 44, 71, 168, 70];

    #[test]
    fn a_record_is_known_at_its_own_place_only_and_by_every_bit() {
        let chunk = chunk();
        let mut bytes = RecordHead::encode(&FILE, 80, &chunk, 7, 80);
        bytes.extend_from_slice(chunk.bytes());
        let head = RecordHead::decode(&FILE, 80, &bytes).unwrap();
        assert_eq!((head.durable, head.replay_from), (7, 80));
        assert!(head.has_body(&bytes[RECORD_KNOWN_BYTES..]));
        assert_eq!(RecordHead::decode(&FILE, 81, &bytes), None);
        for other in [
            FileHead { salt: 1, ..FILE },
            FileHead {
                first_offset: 8,
                ..FILE
            },
            FileHead {
                stream: QueueId(1),
                ..FILE
            },
        ] {
            assert_eq!(RecordHead::decode(&other, 80, &bytes), None);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let read = RecordHead::decode(&FILE, 80, &flipped);
            let is_sound = read.is_some_and(|r| r.has_body(&flipped[RECORD_KNOWN_BYTES..]));
            assert!(!is_sound, "bit {bit}");
        }
    }

    #[test]
    fn a_head_survives_any_flipped_bit_and_a_later_version_is_told_from_damage() {
        let bytes = FILE.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHead::decode(&flipped), Ok(FILE), "bit {bit}");
        }
        assert_eq!(FileHead::decode(&[0; 80]), Err(HeadError::Damaged));
        assert_eq!(FileHead::decode(&bytes[..39]), Err(HeadError::Damaged));
        let mut later = bytes[..40].to_vec();
        later[8] = 2;
        later[12..16].fill(0);
        let crc = crc32c::crc32c(&later).to_le_bytes();
        later[12..16].copy_from_slice(&crc);
        assert_eq!(FileHead::decode(&later), Err(HeadError::Newer(2)));
    }

    #[test]
    fn only_names_that_are_written_are_read() {
        assert_eq!(parse_name(&file_name(QueueId(9), 3)), Some((QueueId(9), 3)));
        for durable in [None, Some(0), Some(u64::MAX)] {
            let newest = Newest {
                segment: 3,
                durable,
            };
            let name = newest_file_name(QueueId(9), newest);
            assert_eq!(parse_newest_name(&name), Some((QueueId(9), newest)));
            assert_eq!(stream_of(&name), Some(QueueId(9)));
        }
        for name in [
            "0000000000000009-00000000000000000003-4.newest",
            "0000000000000009-00000000000000000003-00000000000000000004-5.newest",
            "0000000000000009-00000000000000000003-.newest",
        ] {
            assert_eq!(parse_newest_name(name), None, "{name}");
        }
        for name in [
            "9-3.stream",
            "leveret.lock",
            "0000000000000009-3.stream",
            "x-y.stream",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
