//! Chunks: what one shard gathered for the next write, and the cache of the newest of them. Here is
//! what a chunk is; how it comes to be and where it is kept have modules of their own.

mod bodies;
mod builder;
mod chunks;

pub(crate) use bodies::{Bodies, range};
pub(crate) use builder::{Builder, Spare};
pub(crate) use chunks::Chunks;

use crate::bytes_io::Put;
use crate::id::{ChunkSeq, Generation, SharedBody};
use leveret_types::LogId;

/// A chunk that will not change: what a shard hands to the write-ahead log. Its bodies are shared
/// with the shard's cache.
///
/// The chunks of a shard must be written in the order of their sequence.
#[derive(Debug)]
pub struct SealedChunk {
    pub(crate) shard: u8,
    pub(crate) seq: ChunkSeq,
    pub(crate) first_body: u64,
    pub(crate) bodies: Bodies,
    /// CRC-32C of each body, made when it came in; none of volatile ones.
    pub(crate) crcs: Vec<u32>,
    pub(crate) meta: Vec<u8>,
    pub(crate) meta_ends: Vec<(LogId, u32)>,
    /// Bodies that another chunk has too, by their positions, which ascend: they need not be
    /// written again.
    pub(crate) shared: Vec<(u32, SharedBody)>,
    /// Bodies of which a start found nothing sound, by their positions, which ascend: they stay
    /// lost wherever the chunk is written again. None of them is shared.
    pub(crate) lost: Vec<u32>,
}

impl SealedChunk {
    /// The shard that it comes from.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }

    /// Its sequence within the shard.
    #[must_use]
    pub fn seq(&self) -> ChunkSeq {
        self.seq
    }

    /// Bytes of its bodies and records: what is written of it at most.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bodies.bytes() + self.meta.len()
    }

    /// The records with their logs, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (LogId, &[u8])> {
        let mut start = 0;
        self.meta_ends.iter().map(move |(log, end)| {
            let record = &self.meta[start..*end as usize];
            start = *end as usize;
            (*log, record)
        })
    }
}

/// Where a chunk's bodies lie in the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLocation {
    /// The file.
    pub(crate) generation: Generation,
    /// The file that holds the table of lengths and checksums: the next one where the head was
    /// damaged and its copy stands in.
    pub(crate) table_generation: Generation,
    /// Offset of that table.
    pub(crate) table_at: u32,
    /// Checksum of that table.
    pub(crate) table_crc: u32,
    /// Offset of the first body.
    pub(crate) bodies_at: u32,
    /// How many bodies do not lie there but elsewhere in the file, as the table says.
    pub(crate) references: u16,
    /// How the table's checksums are made.
    pub(crate) version: u16,
}

/// A chunk with bodies, as a shard remembers it.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) seq: ChunkSeq,
    pub(crate) first_body: u64,
    pub(crate) count: u32,
    pub(crate) bytes: u32,
    /// Where in the write-ahead log, once written.
    pub(crate) location: Option<ChunkLocation>,
    /// The bodies, while cached.
    pub(crate) bodies: Option<Bodies>,
    /// Bytes that were read of it in parts: when they are as many as it has, it is read whole. The
    /// largest number while that is under way.
    pub(crate) read_in_parts: u32,
    /// Volatile chunks only: which entries refer to its bodies. It says whether anybody still needs
    /// them.
    pub(crate) entries: Vec<Entry>,
}

/// Entries of one log that refer to consecutive bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) log: LogId,
    pub(crate) run: Run,
}

/// Consecutive entries of a log whose bodies are consecutive too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first_index: u64,
    pub(crate) first_body: u64,
    pub(crate) count: u32,
}

impl Run {
    pub(crate) fn end_index(&self) -> u64 {
        self.first_index + u64::from(self.count)
    }

    pub(crate) fn end_body(&self) -> u64 {
        self.first_body + u64::from(self.count)
    }

    /// What leads from an index to its body.
    pub(crate) fn shift(&self) -> u64 {
        self.first_body.wrapping_sub(self.first_index)
    }

    /// Takes one more entry in if it follows on.
    pub(crate) fn extend(&mut self, index: u64, body: u64) -> bool {
        let follows = self.end_index() == index && self.end_body() == body && self.count < u32::MAX;
        self.count += u32::from(follows);
        follows
    }
}

/// Encodes the table of a chunk's bodies: length and checksum of each; gives the last checksum.
pub(crate) fn encode_body_table(chunk: &SealedChunk, seed: u32, out: &mut Vec<u8>) -> u32 {
    assert_eq!(chunk.crcs.len(), chunk.bodies.count(), "a checksum a body");
    let mut start = 0;
    let bodies = chunk.bodies.ends().iter().zip(&chunk.crcs);
    bodies.fold(seed, |previous, (end, crc)| {
        let len = end - start;
        start = *end;
        let crc = crate::bytes_io::chain_crc(previous, len, *crc);
        out.put_u32(len);
        out.put_u32(crc);
        crc
    })
}
