//! The bytes of a write-ahead log file, version 3. All numbers are little-endian.
//!
//! ```text
//! file   = header (one sector) batch batch ...              a sector is 4,096 bytes
//! header = "LVRTWAL\0" | version u16 | 0 u16 | crc u32 | salt u64 | generation u64
//!        | length u64 that the file was made with | crc u32 of that | zeros
//!        | of a file that grows, at 512 and at 1,024, in turns: length u64 that it has | crc u32 of that | zeros
//! batch  = head | copy of the head of the batch before | data | zeros to the sector's end
//!
//! head   = magic u32 "LVWB" | crc u32 of the head from here on
//!        | version u16 | chunks u16 | chain u32: crc of the head before
//!        | generation u64 | offset u64 of this batch | batch sequence u64
//!        | synced generation u64 | synced offset u64: what was durable when this batch was written
//!        | head length u32 | copy length u32 | data length u64
//!        then for each chunk:
//!          shard u16 | references u16 | bodies u32 | records u32 | record bytes u32 | body bytes u64 | chunk sequence u64 | first body u64
//!          for each body:      length u32 | crc u32
//!          for each reference: which body u32, ascending | offset u32 in this file
//!          for each record:    log u64 | length u32 | crc u32
//! data   = for each chunk: its records, its bodies but for those that are references
//! ```
//!
//! A body that is a reference has its bytes at that offset: in another chunk, of this batch or of
//! an earlier one in the same file. So a message that goes to several shards is written once.
//!
//! A body's checksum is over its length, the CRC-32C of its bytes and the checksum of the body
//! before it, the first one's over salt, generation, shard and chunk sequence; records go on where
//! the bodies end, with their bytes. So nothing that an earlier use of the file left behind is ever
//! taken for new, and whoever brings a body sums up its bytes, not the thread that writes.
//!
//! In version 2 a body's checksum is over its bytes as a record's is; in version 1 there are no
//! references either.
//!
//! No length is written before the file durably has it: a file that is shorter than any of them was
//! cut. Of those of a file that grows, one that is torn leaves the one before.
//!
//! The copy is what makes damage to a head survivable: lengths, logs and checksums are still known,
//! and only what is really damaged is lost. It lies in the next batch, thus in another sector,
//! however small the batch.

use super::layout::BatchLayout;
use crate::bytes_io::{Put, Take, chain, chain_crc, seed};
use crate::chunk::{SealedChunk, encode_body_table};
use crate::id::{ChunkSeq, Generation};
use leveret_types::LogId;
use std::ops::Range;

/// Batches begin at multiples of this: no batch ever shares a sector with one that is durable
/// already.
pub(crate) const SECTOR_BYTES: u64 = 4096;
pub(crate) const VERSION: u16 = 3;
const VERSION_FIRST: u16 = 1;
/// The version since which a body's checksum is over the CRC-32C of its bytes.
const VERSION_OF_OWN_CRCS: u16 = 3;
pub(crate) const FILE_MAGIC: [u8; 8] = *b"LVRTWAL\0";
pub(crate) const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"LVWB");
pub(crate) const HEAD_BYTES: usize = 72;
pub(crate) const CHUNK_HEAD_BYTES: usize = 40;
pub(crate) const BODY_ENTRY_BYTES: usize = 8;
pub(crate) const REFERENCE_BYTES: usize = 8;
pub(crate) const RECORD_ENTRY_BYTES: usize = 16;
/// Where a reference leads whose body is lost: the file's first sector, in which no body lies.
pub(crate) const LOST_AT: u32 = 0;

/// A position in the write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The file.
    pub generation: Generation,
    /// Bytes from the file's start.
    pub offset: u64,
}

/// The smallest multiple of a sector that is at least `bytes`.
pub(crate) fn sectors(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR_BYTES)
}

/// The first sector of a file that was made with so many bytes; with 0 it does not say.
pub(crate) fn encode_file_header(salt: u64, generation: Generation, made: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(SECTOR_BYTES as usize);
    out.extend_from_slice(&FILE_MAGIC);
    out.put_u16(VERSION);
    out.put_u16(0);
    out.put_u32(seed(salt, &[u64::from(VERSION), generation]));
    out.put_u64(salt);
    out.put_u64(generation);
    if made > 0 {
        put_length(&mut out, salt, generation, made);
    }
    out.resize(SECTOR_BYTES as usize, 0);
    out
}

/// Where a file's header says how long the file is at least: as it was made, and what a file that
/// grows has become, in turns.
const LENGTHS_AT: [usize; 3] = [32, 512, 1_024];

fn length_crc(salt: u64, generation: Generation, length: u64) -> u32 {
    seed(salt, &[u64::from_le_bytes(FILE_MAGIC), generation, length])
}

fn put_length(out: &mut Vec<u8>, salt: u64, generation: Generation, length: u64) {
    out.put_u64(length);
    out.put_u32(length_crc(salt, generation, length));
}

/// What the header of a file that grows says next, after so many times, of how long it has become:
/// where in the file, and the bytes.
pub(crate) fn encode_grown(
    salt: u64,
    generation: Generation,
    length: u64,
    times: u64,
) -> (u64, Vec<u8>) {
    let at = LENGTHS_AT[1 + (times % 2) as usize];
    let mut out = Vec::new();
    put_length(&mut out, salt, generation, length);
    (at as u64, out)
}

/// How long a file was at least, if its first sector says so: one that is shorter was cut. Files of
/// earlier versions may not say.
pub(crate) fn least_bytes(header: &[u8], salt: u64, generation: Generation) -> Option<u64> {
    let length = |at: &usize| {
        let mut take = Take(header.get(*at..)?);
        let (length, crc) = (take.u64()?, take.u32()?);
        (length > 0 && crc == length_crc(salt, generation, length)).then_some(length)
    };
    LENGTHS_AT.iter().filter_map(length).max()
}

/// What a file's first sector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileHeader {
    /// A file of this store.
    Ours(Generation),
    /// A file of a later version of Leveret.
    Newer(u16),
    /// Anything else: never used, of another store, or damaged.
    Unknown,
}

pub(crate) fn decode_file_header(bytes: &[u8], salt: u64) -> FileHeader {
    let fields = || {
        let mut take = Take(bytes);
        let magic = take.bytes(8)? == FILE_MAGIC;
        let (version, _) = (take.u16()?, take.u16()?);
        Some((magic, version, take.u32()?, take.u64()?, take.u64()?))
    };
    match fields() {
        Some((true, version, crc, found, generation))
            if found == salt && crc == seed(salt, &[u64::from(version), generation]) =>
        {
            if version > VERSION {
                FileHeader::Newer(version)
            } else {
                FileHeader::Ours(generation)
            }
        }
        _ => FileHeader::Unknown,
    }
}

/// The fixed part of a batch's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) crc: u32,
    pub(crate) version: u16,
    pub(crate) chunks: u16,
    pub(crate) chain: u32,
    pub(crate) generation: Generation,
    pub(crate) offset: u64,
    pub(crate) sequence: u64,
    pub(crate) synced: Position,
    pub(crate) head_len: u32,
    pub(crate) copy_len: u32,
    pub(crate) data_len: u64,
}

impl Head {
    /// Where the batch's data begin.
    pub(crate) fn data_at(&self) -> u64 {
        self.offset + u64::from(self.head_len) + u64::from(self.copy_len)
    }

    /// Where the next batch begins.
    pub(crate) fn end(&self) -> u64 {
        self.offset + sectors(u64::from(self.head_len) + u64::from(self.copy_len) + self.data_len)
    }
}

/// One chunk of a batch's head: what it holds and where in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    pub(crate) shard: u16,
    pub(crate) seq: ChunkSeq,
    pub(crate) first_body: u64,
    pub(crate) bodies: u32,
    pub(crate) records: u32,
    /// How many bodies are references.
    pub(crate) references: u16,
    /// Where in the head the table of bodies lies, with that of references; that of records
    /// follows.
    pub(crate) table: Range<usize>,
    /// Where in the batch's data the records lie.
    pub(crate) record_data: Range<u64>,
    /// Where in the batch's data the bodies lie that are no references.
    pub(crate) body_data: Range<u64>,
}

impl ChunkHead {
    /// The tables of bodies and of references.
    pub(crate) fn tables<'a>(&self, head: &'a [u8]) -> Tables<'a> {
        Tables::new(&head[self.table.clone()], self.bodies)
    }
}

/// Where a chunk's checksums start from.
pub(crate) fn chunk_seed(salt: u64, generation: Generation, shard: u16, seq: ChunkSeq) -> u32 {
    seed(salt, &[generation, u64::from(shard), seq])
}

/// Whether bodies are summed up by themselves, and what came before comes in behind.
pub(crate) fn is_summed_alone(version: u16) -> bool {
    version >= VERSION_OF_OWN_CRCS
}

/// Checksum of a body as the table of a chunk has it.
pub(crate) fn body_crc(version: u16, previous: u32, body: &[u8]) -> u32 {
    if !is_summed_alone(version) {
        return chain(previous, body);
    }
    chain_crc(previous, body.len() as u32, crc32c::crc32c(body))
}

/// What a batch says beside its chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchContext {
    pub(crate) salt: u64,
    pub(crate) chain: u32,
    pub(crate) at: Position,
    pub(crate) sequence: u64,
    pub(crate) synced: Position,
    pub(crate) copy_len: u32,
}

/// Encodes a batch's head into `out`. Gives for each chunk where its tables of bodies and
/// references lie in the head, and their checksum.
pub(crate) fn encode_head(
    context: BatchContext,
    chunks: &[SealedChunk],
    layout: &BatchLayout,
    out: &mut Vec<u8>,
) -> Vec<(Range<usize>, u32)> {
    out.clear();
    out.resize(HEAD_BYTES, 0);
    let mut tables = Vec::with_capacity(chunks.len());
    for (chunk, layout) in chunks.iter().zip(&layout.chunks) {
        let shard = u16::from(chunk.shard);
        out.put_u16(shard);
        out.put_u16(layout.references.len() as u16);
        out.put_u32(chunk.bodies.count() as u32);
        out.put_u32(chunk.meta_ends.len() as u32);
        out.put_u32(chunk.meta.len() as u32);
        out.put_u64(layout.body_bytes);
        out.put_u64(chunk.seq);
        out.put_u64(chunk.first_body);
        let start = chunk_seed(context.salt, context.at.generation, shard, chunk.seq);
        let table_at = out.len();
        let mut previous = encode_body_table(chunk, start, out);
        for reference in &layout.references {
            out.put_u32(reference.position);
            out.put_u32(reference.offset);
        }
        let table = table_at..out.len();
        tables.push((table.clone(), crc32c::crc32c(&out[table])));
        for (log, record) in chunk.records() {
            previous = chain(previous, record);
            out.put_u64(log.0);
            out.put_u32(record.len() as u32);
            out.put_u32(previous);
        }
    }
    assert_eq!(
        out.len(),
        layout.head_bytes,
        "a head is as long as laid out"
    );
    let mut fixed = Vec::with_capacity(HEAD_BYTES);
    fixed.put_u32(BATCH_MAGIC);
    fixed.put_u32(0);
    fixed.put_u16(VERSION);
    fixed.put_u16(chunks.len() as u16);
    fixed.put_u32(context.chain);
    fixed.put_u64(context.at.generation);
    fixed.put_u64(context.at.offset);
    fixed.put_u64(context.sequence);
    fixed.put_u64(context.synced.generation);
    fixed.put_u64(context.synced.offset);
    fixed.put_u32(out.len() as u32);
    fixed.put_u32(context.copy_len);
    fixed.put_u64(layout.data_bytes);
    assert_eq!(fixed.len(), HEAD_BYTES);
    out[..HEAD_BYTES].copy_from_slice(&fixed);
    let crc = head_crc(context.salt, &out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    tables
}

pub(crate) fn head_crc(salt: u64, after_crc: &[u8]) -> u32 {
    crc32c::crc32c_append(seed(salt, &[]), after_crc)
}

/// The fixed part of a head, unverified but plausible: magic and version are right, and its lengths
/// can be.
pub(crate) fn peek_head(bytes: &[u8]) -> Option<Head> {
    let mut take = Take(bytes.get(..HEAD_BYTES)?);
    let (magic, crc, version) = (take.u32()?, take.u32()?, take.u16()?);
    let head = Head {
        crc,
        version,
        chunks: take.u16()?,
        chain: take.u32()?,
        generation: take.u64()?,
        offset: take.u64()?,
        sequence: take.u64()?,
        synced: Position {
            generation: take.u64()?,
            offset: take.u64()?,
        },
        head_len: take.u32()?,
        copy_len: take.u32()?,
        data_len: take.u64()?,
    };
    let plausible = magic == BATCH_MAGIC
        && (VERSION_FIRST..=VERSION).contains(&version)
        && head.head_len as usize >= HEAD_BYTES
        && head.data_len <= u64::from(u32::MAX);
    plausible.then_some(head)
}

/// A head whose checksum is right, and its chunks. Total: any bytes may be given.
pub(crate) fn decode_head(bytes: &[u8], salt: u64) -> Option<(Head, Vec<ChunkHead>)> {
    let head = peek_head(bytes)?;
    let bytes = bytes.get(..head.head_len as usize)?;
    if head_crc(salt, &bytes[8..]) != head.crc {
        return None;
    }
    let mut chunks = Vec::with_capacity(usize::from(head.chunks));
    let (mut at, mut data_at) = (HEAD_BYTES, 0_u64);
    for _ in 0..head.chunks {
        let mut take = Take(bytes.get(at..)?);
        let (shard, references) = (take.u16()?, take.u16()?);
        let (bodies, records, record_bytes) = (take.u32()?, take.u32()?, take.u32()?);
        let (body_bytes, seq, first_body) = (take.u64()?, take.u64()?, take.u64()?);
        at += CHUNK_HEAD_BYTES;
        let table_len = table_bytes(bodies, references);
        let table = at..at + table_len;
        at = table.end + records as usize * RECORD_ENTRY_BYTES;
        bytes.get(..at)?;
        if !Tables::new(&bytes[table.clone()], bodies).are_plausible() {
            return None;
        }
        let record_data = data_at..data_at + u64::from(record_bytes);
        let body_data = record_data.end..record_data.end.checked_add(body_bytes)?;
        data_at = body_data.end;
        chunks.push(ChunkHead {
            shard,
            seq,
            first_body,
            bodies,
            records,
            references,
            table,
            record_data,
            body_data,
        });
    }
    (at == bytes.len() && data_at == head.data_len).then_some((head, chunks))
}

/// A record of a chunk as its table describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordEntry {
    pub(crate) log: LogId,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

/// The table of a chunk's records within its batch's head.
pub(crate) fn record_entries<'a>(
    head: &'a [u8],
    chunk: &ChunkHead,
) -> impl Iterator<Item = RecordEntry> + 'a {
    let start = chunk.table.end;
    let table = &head[start..start + chunk.records as usize * RECORD_ENTRY_BYTES];
    table.chunks_exact(RECORD_ENTRY_BYTES).map(|entry| {
        let mut log = [0; 8];
        log.copy_from_slice(&entry[..8]);
        RecordEntry {
            log: LogId(u64::from_le_bytes(log)),
            len: crate::bytes_io::u32_at(entry, 8),
            crc: crate::bytes_io::u32_at(entry, 12),
        }
    })
}

/// Bytes of a chunk's tables of bodies and references.
pub(crate) fn table_bytes(bodies: u32, references: u16) -> usize {
    bodies as usize * BODY_ENTRY_BYTES + usize::from(references) * REFERENCE_BYTES
}

/// What a chunk's tables say of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyEntry {
    pub(crate) len: u32,
    pub(crate) crc: u32,
    /// Where in the file it lies if it is a reference.
    pub(crate) elsewhere: Option<u32>,
}

impl BodyEntry {
    /// Whether it was lost before the chunk was written again: no bytes are the right ones.
    pub(crate) fn is_lost(&self) -> bool {
        self.elsewhere == Some(LOST_AT)
    }
}

/// The tables of a chunk's bodies and references.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    bodies: &'a [u8],
    references: &'a [u8],
}

impl<'a> Tables<'a> {
    /// The tables in these bytes, of so many bodies.
    pub(crate) fn new(tables: &'a [u8], bodies: u32) -> Self {
        let (bodies, references) = tables.split_at(bodies as usize * BODY_ENTRY_BYTES);
        Self { bodies, references }
    }

    /// What they say of each body, in order.
    pub(crate) fn entries(self) -> impl Iterator<Item = BodyEntry> + 'a {
        let mut references = self.references().peekable();
        let entries = self.bodies.chunks_exact(BODY_ENTRY_BYTES).enumerate();
        entries.map(move |(position, entry)| {
            let reference = references.next_if(|(of, _)| *of as usize == position);
            BodyEntry {
                len: crate::bytes_io::u32_at(entry, 0),
                crc: crate::bytes_io::u32_at(entry, 4),
                elsewhere: reference.map(|(_, offset)| offset),
            }
        })
    }

    /// Bytes of all bodies, references or not.
    pub(crate) fn body_bytes(self) -> u64 {
        self.entries().map(|entry| u64::from(entry.len)).sum()
    }

    fn references(self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let pair = |e| (crate::bytes_io::u32_at(e, 0), crate::bytes_io::u32_at(e, 4));
        self.references.chunks_exact(REFERENCE_BYTES).map(pair)
    }

    /// Whether each reference is of another body that is there.
    fn are_plausible(self) -> bool {
        let bodies = self.bodies.len() / BODY_ENTRY_BYTES;
        let positions = || self.references().map(|(position, _)| position);
        positions().is_sorted_by(|a, b| a < b)
            && positions().all(|position| (position as usize) < bodies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 0x1122_3344_5566_7788;

    #[test]
    fn of_the_lengths_that_a_header_says_one_that_was_torn_leaves_the_one_before() {
        let mut header = encode_file_header(SALT, 5, 8_192);
        let least = |header: &[u8]| least_bytes(header, SALT, 5);
        assert_eq!(least(&header), Some(8_192));
        let mut before = 8_192;
        for times in 0..5 {
            let length = 12_288 + times * 4_096;
            let (at, bytes) = encode_grown(SALT, 5, length, times);
            let place = at as usize..at as usize + bytes.len();
            for torn in 0..bytes.len() {
                let mut torn_header = header.clone();
                torn_header[place.clone()][..torn].copy_from_slice(&bytes[..torn]);
                let read = least(&torn_header);
                // The bytes behind a torn write may happen to be the same as before.
                assert!(
                    read == Some(before) || read == Some(length),
                    "{torn}: {read:?}"
                );
            }
            header[place.clone()].copy_from_slice(&bytes);
            assert_eq!(least(&header), Some(length));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = header.clone();
                flipped[place.start + bit / 8] ^= 1 << (bit % 8);
                assert_eq!(least(&flipped), Some(before), "bit {bit}");
            }
            before = length;
        }
        assert_eq!(least_bytes(&header, SALT, 6), None, "of another file");
        assert_eq!(least_bytes(&header, SALT + 1, 5), None, "of another store");
        assert_eq!(least_bytes(&encode_file_header(SALT, 5, 0), SALT, 5), None);
        assert_eq!(least_bytes(&header[..40], SALT, 5), None);
    }
}
