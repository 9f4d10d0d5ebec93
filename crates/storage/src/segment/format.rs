//! The bytes of a segment file. Written once from front to back, sealed with a footer, never
//! changed. Little-endian. Version 2 is that of files with blocks that several logs share; a file
//! without has version 1, and nothing of what version 2 adds.
//!
//! ```text
//! file    = header | block block ... | footer
//! header  = "LVRTSEG\0" | version u16 | 0 u16 | crc u32 | salt u64 | file u64                                  32 bytes
//! block   = magic u32 "LVSB" | crc u32 of header and table from here on
//!         | log u64 | first index u64 | last index u64 | class u8 | 0 u8 u16
//!         | entries u32 | payload length u32
//!         then for each entry: index - first index u32 | length u32 | crc u32
//!         then the payloads
//! footer  = for each block: log u64 | first index u64 | last index u64 | offset u32 | length u32
//!         | entries u32 | class u8 | first entry u24                                 40 bytes
//!         | blocks u32 | crc u32 of the footer | file u64 | "LVRTSEGF"                                         24 bytes
//! ```
//!
//! The class of a block is 0 if its bodies are durable and 1 if volatile. Version 2 adds 2 and 3,
//! the same of a block that several logs share: its log is 0, its entries are numbered from 0, and
//! the footer lists it once for each stretch of entries that a log has in it, with the indexes that
//! they are there, and which entry of the block is the first. Behind it is a block of class 4,
//! which says the same for when the footer is damaged: its one entry has the shared block's offset
//! as index, and as payload the references, each:
//! log u64 | first index u64 | first entry u32 | entries u32.
//!
//! An entry's checksum is chained to that of the entry before, the first one's to salt, file, log
//! and offset: a block that lies in the wrong place is never taken for the right one.

use super::far::FarBlock;
use crate::bytes_io::{Put, Take, chain, seed};
use crate::id::FileId;
use crate::loaded::Span;
use crate::log::Block;
use leveret_types::LogId;

/// Version of a file without blocks that several logs share.
pub(crate) const VERSION_OWN: u16 = 1;
/// Version of a file with some.
pub(crate) const VERSION_SHARED: u16 = 2;
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const BLOCK_HEADER_BYTES: usize = 44;
pub(crate) const ENTRY_BYTES: usize = 12;
pub(crate) const FOOTER_ENTRY_BYTES: usize = 40;
/// Bytes of a reference in a block of references.
pub(crate) const REFERENCE_BYTES: usize = 24;
/// Bytes of a reference in its file, the file's index included.
pub(crate) const REFERENCE_DISK_BYTES: u64 = (REFERENCE_BYTES + FOOTER_ENTRY_BYTES) as u64;
pub(crate) const FOOTER_END_BYTES: usize = 24;
const FILE_MAGIC: [u8; 8] = *b"LVRTSEG\0";
const FOOTER_MAGIC: [u8; 8] = *b"LVRTSEGF";
pub(crate) const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"LVSB");

/// Name of a segment file.
pub(crate) fn file_name(file: FileId) -> String {
    format!("{file:016x}.seg")
}

/// The number in a segment file's name.
pub(crate) fn parse_file_name(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(".seg").filter(|d| d.len() == 16)?;
    FileId::from_str_radix(digits, 16).ok()
}

pub(crate) fn encode_header(salt: u64, file: FileId, version: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(&FILE_MAGIC);
    out.put_u16(version);
    out.put_u16(0);
    out.put_u32(seed(salt, &[u64::from(version), file]));
    out.put_u64(salt);
    out.put_u64(file);
    out
}

/// Class of a block of one log whose bodies are volatile. This bit is set in that of a shared one
/// as well.
const VOLATILE: u8 = 1;
/// Class of a block that several logs share.
const SHARED: u8 = 2;
/// Class of a block that says which logs share the one before it.
pub(crate) const REFERENCES: u8 = 4;

/// What a shared block and its references have in place of a log.
pub(crate) const NO_LOG: LogId = LogId(0);

/// Class of a block of one log.
pub(crate) fn own_class(volatile: bool) -> u8 {
    u8::from(volatile) * VOLATILE
}

/// Class of a block that several logs share.
pub(crate) fn shared_class(volatile: bool) -> u8 {
    SHARED | own_class(volatile)
}

/// A block with the log and the class that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogBlock {
    pub(crate) log: LogId,
    pub(crate) volatile: bool,
    pub(crate) block: Block,
}

/// Entries of one log and class that gather to become a block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    entries: Vec<(u64, u32)>,
    payload: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + self.entries.len() * ENTRY_BYTES + BLOCK_HEADER_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an entry of this index can be in one block with the first one.
    pub(crate) fn reaches(&self, index: u64) -> bool {
        self.entries
            .first()
            .is_none_or(|(first, _)| index - first <= u64::from(u32::MAX))
    }

    pub(crate) fn push(&mut self, index: u64, payload: &[u8]) {
        if let Some((last, _)) = self.entries.last() {
            assert!(index > *last, "entry {index} after {last}");
        }
        self.entries.push((index, payload.len() as u32));
        self.payload.extend_from_slice(payload);
    }

    /// The block's header and table, its payload, and what the index says of it.
    pub(crate) fn encode(
        &self,
        salt: u64,
        file: FileId,
        of: (LogId, u8),
        offset: u32,
    ) -> (Vec<u8>, &[u8], LogBlock) {
        let (head, block) = encode_block((&self.entries, &self.payload), salt, (file, offset), of);
        (head, &self.payload, block)
    }

    /// The entries: indexes with lengths.
    pub(crate) fn entries(&self) -> &[(u64, u32)] {
        &self.entries
    }

    /// The payload, of all entries one after the other.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.payload.clear();
    }
}

/// Header and table of a block of these entries, indexes with lengths, whose payloads lie one after
/// the other; and what the index says of it.
pub(crate) fn encode_block(
    (entries, payload): (&[(u64, u32)], &[u8]),
    salt: u64,
    (file, offset): (FileId, u32),
    (log, class): (LogId, u8),
) -> (Vec<u8>, LogBlock) {
    let (first_index, last_index) = (entries[0].0, entries[entries.len() - 1].0);
    let mut head = begin_head(
        (log, class),
        (first_index, last_index),
        entries.len(),
        payload.len() as u32,
    );
    let mut previous = block_seed(salt, file, log, offset);
    let mut start = 0;
    for (index, len) in entries {
        let payload = &payload[start..start + *len as usize];
        previous = chain(previous, payload);
        head.put_u32((index - first_index) as u32);
        head.put_u32(*len);
        head.put_u32(previous);
        start += *len as usize;
    }
    let entries = (first_index, last_index, entries.len() as u32);
    end_head(
        head,
        (salt, file, offset),
        (log, class),
        entries,
        payload.len() as u32,
    )
}

/// The same of a block of one body, whose checksum is known.
pub(crate) fn encode_far_head(block: &FarBlock, len: u32, crc: u32) -> (Vec<u8>, LogBlock) {
    let mut head = begin_head(block.of, (block.index, block.index), 1, len);
    head.put_u32(0);
    head.put_u32(len);
    head.put_u32(crc);
    let (file, offset) = block.at;
    let entries = (block.index, block.index, 1);
    end_head(head, (block.salt, file, offset), block.of, entries, len)
}

fn begin_head(
    (log, class): (LogId, u8),
    (first_index, last_index): (u64, u64),
    entries: usize,
    payload: u32,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(BLOCK_HEADER_BYTES + entries * ENTRY_BYTES);
    head.put_u32(BLOCK_MAGIC);
    head.put_u32(0);
    head.put_u64(log.0);
    head.put_u64(first_index);
    head.put_u64(last_index);
    head.put_u8(class);
    head.put_u8(0);
    head.put_u16(0);
    head.put_u32(entries as u32);
    head.put_u32(payload);
    assert_eq!(head.len(), BLOCK_HEADER_BYTES);
    head
}

fn end_head(
    mut head: Vec<u8>,
    (salt, file, offset): (u64, FileId, u32),
    (log, class): (LogId, u8),
    (first_index, last_index, count): (u64, u64, u32),
    payload: u32,
) -> (Vec<u8>, LogBlock) {
    let crc = crc32c::crc32c_append(block_seed(salt, file, log, offset), &head[8..]);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    let block = LogBlock {
        log,
        volatile: class & VOLATILE != 0,
        block: Block {
            first_index,
            last_index,
            file,
            offset,
            len: head.len() as u32 + payload,
            count,
            live: 0,
            shared_from: None,
        },
    };
    (head, block)
}

/// Where the checksums of a block start from.
pub(crate) fn block_seed(salt: u64, file: FileId, log: LogId, offset: u32) -> u32 {
    seed(salt, &[file, log.0, u64::from(offset)])
}

/// A block's header, unverified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) crc: u32,
    pub(crate) log: LogId,
    pub(crate) first_index: u64,
    pub(crate) last_index: u64,
    class: u8,
    pub(crate) entries: u32,
    pub(crate) payload: u32,
}

impl BlockHeader {
    pub(crate) fn is_volatile(&self) -> bool {
        self.class & VOLATILE != 0
    }

    /// Whether several logs share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.class & SHARED != 0
    }

    /// Whether it says which logs share the block before it.
    pub(crate) fn is_references(&self) -> bool {
        self.class == REFERENCES
    }

    pub(crate) fn head_len(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + u64::from(self.entries) * ENTRY_BYTES as u64
    }

    pub(crate) fn len(&self) -> u64 {
        self.head_len() + u64::from(self.payload)
    }
}

pub(crate) fn peek_block(bytes: &[u8]) -> Option<BlockHeader> {
    let mut take = Take(bytes);
    let (magic, crc) = (take.u32()?, take.u32()?);
    let (log, first_index, last_index) = (LogId(take.u64()?), take.u64()?, take.u64()?);
    let (class, _, _) = (take.u8()?, take.u8()?, take.u16()?);
    let (entries, payload) = (take.u32()?, take.u32()?);
    let sound = magic == BLOCK_MAGIC
        && class <= REFERENCES
        && entries > 0
        && last_index.checked_sub(first_index).is_some();
    sound.then_some(BlockHeader {
        crc,
        log,
        first_index,
        last_index,
        class,
        entries,
        payload,
    })
}

/// A block's header if header and table are sound. Total: any bytes may be given.
pub(crate) fn verify_block_head(
    bytes: &[u8],
    salt: u64,
    file: FileId,
    offset: u32,
) -> Option<BlockHeader> {
    let header = peek_block(bytes)?;
    let head = bytes.get(..usize::try_from(header.head_len()).ok()?)?;
    let crc = crc32c::crc32c_append(block_seed(salt, file, header.log, offset), &head[8..]);
    (crc == header.crc).then_some(header)
}

/// A block's header and where its entries lie; each is marked with whether its checksum is right.
/// Total: any bytes may be given.
pub(crate) fn decode_block(
    bytes: &[u8],
    salt: u64,
    file: FileId,
    offset: u32,
) -> Option<(BlockHeader, Vec<Span>)> {
    let header = verify_block_head(bytes, salt, file, offset)?;
    let head_len = header.head_len() as usize;
    let mut spans = Vec::with_capacity(header.entries as usize);
    let mut previous = block_seed(salt, file, header.log, offset);
    let mut start = head_len;
    for entry in bytes[BLOCK_HEADER_BYTES..head_len].chunks_exact(ENTRY_BYTES) {
        let mut take = Take(entry);
        let (delta, len, crc) = (take.u32()?, take.u32()?, take.u32()?);
        let end = start.checked_add(len as usize)?;
        let sound = bytes
            .get(start..end)
            .is_some_and(|payload| chain(previous, payload) == crc);
        spans.push(Span {
            delta,
            start: start as u32,
            len,
            sound,
        });
        (previous, start) = (crc, end);
    }
    (start as u64 == header.len()).then_some((header, spans))
}

pub(crate) fn encode_footer(salt: u64, file: FileId, blocks: &[LogBlock]) -> Vec<u8> {
    let mut out = Vec::with_capacity(blocks.len() * FOOTER_ENTRY_BYTES + FOOTER_END_BYTES);
    for LogBlock {
        log,
        volatile,
        block,
    } in blocks
    {
        out.put_u64(log.0);
        out.put_u64(block.first_index);
        out.put_u64(block.last_index);
        out.put_u32(block.offset);
        out.put_u32(block.len);
        out.put_u32(block.count);
        out.put_u32(match block.shared_from {
            None => u32::from(own_class(*volatile)),
            Some(from) => u32::from(shared_class(*volatile)) | (from << 8),
        });
    }
    out.put_u32(blocks.len() as u32);
    let crc = crc32c::crc32c_append(seed(salt, &[file]), &out);
    out.put_u32(crc);
    out.put_u64(file);
    out.extend_from_slice(&FOOTER_MAGIC);
    out
}

/// How many bytes a footer has, from its last bytes.
pub(crate) fn footer_len(end: &[u8], file: FileId) -> Option<u64> {
    let mut take = Take(end);
    let (blocks, _, named) = (take.u32()?, take.u32()?, take.u64()?);
    let sound = named == file && take.0 == FOOTER_MAGIC;
    let len = u64::from(blocks) * FOOTER_ENTRY_BYTES as u64 + FOOTER_END_BYTES as u64;
    sound.then_some(len)
}

/// The blocks that a footer lists. Total: any bytes may be given.
pub(crate) fn decode_footer(bytes: &[u8], salt: u64, file: FileId) -> Option<Vec<LogBlock>> {
    let entries = bytes.len().checked_sub(FOOTER_END_BYTES)?;
    if footer_len(&bytes[entries..], file)? != bytes.len() as u64 {
        return None;
    }
    let crc = crc32c::crc32c_append(seed(salt, &[file]), &bytes[..entries + 4]);
    if crc != crate::bytes_io::u32_at(bytes, entries + 4) {
        return None;
    }
    let blocks = bytes[..entries]
        .chunks_exact(FOOTER_ENTRY_BYTES)
        .map(|entry| {
            let mut take = Take(entry);
            let (log, first_index, last_index) = (LogId(take.u64()?), take.u64()?, take.u64()?);
            let (offset, len, count) = (take.u32()?, take.u32()?, take.u32()?);
            let class = take.u32()?;
            let is_shared = class & u32::from(SHARED) != 0;
            Some(LogBlock {
                log,
                volatile: class & u32::from(VOLATILE) != 0,
                block: Block {
                    first_index,
                    last_index,
                    file,
                    offset,
                    len,
                    count,
                    live: 0,
                    shared_from: is_shared.then_some(class >> 8),
                },
            })
        });
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, LogBlock) {
        let mut builder = BlockBuilder::default();
        for (index, payload) in [(5, &b"one"[..]), (6, b""), (9, b"three")] {
            builder.push(index, payload);
        }
        let (mut bytes, payload, block) = builder.encode(7, 3, (LogId(11), own_class(true)), 32);
        bytes.extend_from_slice(payload);
        (bytes, block)
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let (
            bytes,
            LogBlock {
                log,
                volatile,
                block,
            },
        ) = sample();
        assert_eq!((log, volatile), (LogId(11), true));
        assert_eq!(
            (block.first_index, block.last_index, block.count),
            (5, 9, 3)
        );
        assert_eq!(block.len as usize, bytes.len());
        let (header, spans) = decode_block(&bytes, 7, 3, 32).unwrap();
        assert_eq!(
            (header.log, header.first_index, header.is_volatile()),
            (LogId(11), 5, true)
        );
        let entries: Vec<_> = spans
            .iter()
            .map(|s| {
                (
                    s.delta,
                    s.sound,
                    &bytes[s.start as usize..][..s.len as usize],
                )
            })
            .collect();
        assert_eq!(
            entries,
            [(0, true, &b"one"[..]), (1, true, b""), (4, true, b"three")]
        );
    }

    #[test]
    fn every_flipped_bit_of_a_block_is_noticed() {
        let (bytes, _) = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let noticed = decode_block(&damaged, 7, 3, 32)
                .is_none_or(|(_, spans)| spans.iter().any(|span| !span.sound));
            assert!(noticed, "bit {bit}");
        }
    }

    #[test]
    fn a_block_in_a_wrong_place_is_no_block() {
        let (bytes, _) = sample();
        for (salt, file, offset) in [(8, 3, 32), (7, 4, 32), (7, 3, 33)] {
            assert!(decode_block(&bytes, salt, file, offset).is_none());
        }
        for len in 0..bytes.len() {
            let sound = decode_block(&bytes[..len], 7, 3, 32)
                .is_some_and(|(_, spans)| spans.iter().all(|s| s.sound));
            assert!(!sound, "cut to {len}");
        }
    }

    #[test]
    fn a_footer_is_read_as_it_was_written_and_every_flipped_bit_is_noticed() {
        let (_, block) = sample();
        let blocks = [
            block,
            LogBlock {
                volatile: false,
                ..block
            },
        ]
        .map(|mut b| {
            b.block.file = 3;
            b
        });
        let bytes = encode_footer(7, 3, &blocks);
        assert_eq!(decode_footer(&bytes, 7, 3).unwrap(), blocks);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_footer(&damaged, 7, 3).is_none(), "bit {bit}");
        }
        assert!(decode_footer(&bytes, 7, 4).is_none());
        assert!(decode_footer(&[], 7, 3).is_none());
    }
}
