//! Chunks: what one shard gathered for the next write, and the cache of the newest of them.

use crate::bytes_io::Put;
use crate::id::{ChunkSeq, Durability, Generation, SharedBody};
use bytes::{Bytes, BytesMut};
use leveret_types::LogId;
use leveret_types::limits::CHUNK_BYTES;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bodies back to back, shared without copies by the cache, the write-ahead log and whoever reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    /// Adjacent pieces; a body lies within one of them.
    parts: SmallVec<[Part; 1]>,
    /// Where each body ends, counted from the first byte of the first piece.
    ends: Arc<Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Part {
    start: u32,
    bytes: Bytes,
}

impl Bodies {
    /// Bodies that lie in one buffer and end where `ends` says.
    pub(crate) fn from_buffer(bytes: Bytes, ends: Vec<u32>) -> Self {
        assert_eq!(ends.last().map_or(0, |end| *end as usize), bytes.len());
        Self {
            parts: SmallVec::from_buf([Part { start: 0, bytes }]),
            ends: Arc::new(ends),
        }
    }

    /// The buffer, if all bodies are in one.
    pub(crate) fn into_buffer(mut self) -> Option<Bytes> {
        let only = self.parts.pop().filter(|_| self.parts.is_empty());
        only.map(|part| part.bytes)
    }

    /// The body at `position`; it shares the buffer.
    pub(crate) fn get(&self, position: usize) -> Bytes {
        slice(&self.parts, &self.ends, position)
    }

    /// The bytes of the body at `position`.
    pub(crate) fn slice(&self, position: usize) -> &[u8] {
        locate(&self.parts, &self.ends, position).map_or(&[], |(part, range)| &part.bytes[range])
    }

    /// How many bodies.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all bodies.
    pub(crate) fn bytes(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The bodies in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let mut parts = self.parts.iter().peekable();
        self.ends.iter().map(move |end| {
            while parts
                .peek()
                .is_some_and(|p| start >= p.start as usize + p.bytes.len())
                && start < *end as usize
            {
                parts.next();
            }
            let body = parts.peek().map_or(&[][..], |p| {
                let base = p.start as usize;
                &p.bytes[start.min(base + p.bytes.len()) - base..*end as usize - base]
            });
            start = *end as usize;
            body
        })
    }

    /// The bytes in order, for a vectored write, but for the bodies at these positions, which
    /// ascend.
    pub(crate) fn without(&self, positions: impl Iterator<Item = u32>) -> Vec<&[u8]> {
        let mut slices = Vec::with_capacity(self.parts.len());
        let mut from = 0;
        for position in positions {
            let left_out = self.range(position as usize);
            self.push_slices(from..left_out.start, &mut slices);
            from = left_out.end;
        }
        self.push_slices(from..self.bytes(), &mut slices);
        slices
    }

    fn push_slices<'a>(&'a self, range: Range<usize>, out: &mut Vec<&'a [u8]>) {
        for part in &self.parts {
            let base = part.start as usize;
            let start = range.start.max(base);
            let end = range.end.min(base + part.bytes.len());
            if start < end {
                out.push(&part.bytes[start - base..end - base]);
            }
        }
    }

    /// Where the body at `position` lies, counted from the first byte of the first one.
    pub(crate) fn range(&self, position: usize) -> Range<usize> {
        range(&self.ends, position)
    }

    /// Where each body ends.
    pub(crate) fn ends(&self) -> &Arc<Vec<u32>> {
        &self.ends
    }
}

fn slice(parts: &[Part], ends: &[u32], position: usize) -> Bytes {
    let place = locate(parts, ends, position);
    place.map_or_else(Bytes::new, |(part, range)| part.bytes.slice(range))
}

/// Where the body at `position` lies among bodies that end here.
pub(crate) fn range(ends: &[u32], position: usize) -> Range<usize> {
    let start = position.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[position] as usize
}

/// The piece that a body lies in, and where; `None` of an empty one.
fn locate<'a>(
    parts: &'a [Part],
    ends: &[u32],
    position: usize,
) -> Option<(&'a Part, Range<usize>)> {
    let Range { start, end } = range(ends, position);
    if start == end {
        return None;
    }
    let part = match parts {
        [only] => only,
        _ => &parts[parts.partition_point(|p| p.start as usize <= start) - 1],
    };
    let base = part.start as usize;
    Some((part, start - base..end - base))
}

/// Buffers that chunks have left, to be used again: a fresh one costs a page fault for every 4 KiB.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<BytesMut>);

/// Buffers that a shard keeps for reuse.
const SPARE_MAX: usize = 4;

impl Spare {
    fn buffer(&mut self, len: usize) -> BytesMut {
        if len > CHUNK_BYTES {
            return BytesMut::with_capacity(len);
        }
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.clear();
        buffer.reserve(CHUNK_BYTES);
        buffer
    }

    /// Keeps the buffers of a chunk that is no longer cached, unless someone still reads from them.
    pub(crate) fn reclaim(&mut self, bodies: Option<Bodies>) {
        for part in bodies.into_iter().flat_map(|bodies| bodies.parts) {
            if self.0.len() < SPARE_MAX
                && let Ok(buffer) = part.bytes.try_into_mut()
                && buffer.capacity() <= CHUNK_BYTES
            {
                self.0.push(buffer);
            }
        }
    }
}

/// A chunk that gathers.
#[derive(Debug)]
pub(crate) struct Builder {
    /// Sequence that the chunk will have.
    pub(crate) seq: ChunkSeq,
    /// Sequence of its first body.
    pub(crate) first_body: u64,
    buffer: BytesMut,
    parts: SmallVec<[Part; 1]>,
    parts_bytes: usize,
    ends: Vec<u32>,
    /// CRC-32C of each body, for chunks that will be written to the log.
    crcs: Option<Vec<u32>>,
    meta: Vec<u8>,
    meta_ends: Vec<(LogId, u32)>,
    /// Bodies that another chunk has too, by their positions, which ascend.
    shared: Vec<(u32, SharedBody)>,
    /// Whether it holds more than settles: something that someone may be waiting for.
    pub(crate) awaited: bool,
}

impl Builder {
    pub(crate) fn new(durability: Durability) -> Self {
        Self {
            seq: 1,
            first_body: 0,
            buffer: BytesMut::new(),
            parts: SmallVec::new(),
            parts_bytes: 0,
            ends: Vec::new(),
            crcs: (durability == Durability::Durable).then(Vec::new),
            meta: Vec::new(),
            meta_ends: Vec::new(),
            shared: Vec::new(),
            awaited: false,
        }
    }

    /// Bytes gathered so far, of bodies and of records.
    pub(crate) fn bytes(&self) -> usize {
        self.parts_bytes + self.buffer.len() + self.meta.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.meta_ends.is_empty()
    }

    pub(crate) fn next_body(&self) -> u64 {
        self.first_body + self.ends.len() as u64
    }

    /// Whether `len` more bytes of a body belong into the next chunk.
    pub(crate) fn is_full_for(&self, len: usize) -> bool {
        self.bytes() + len > CHUNK_BYTES && !self.is_empty()
    }

    /// Copies a body in, and says its sequence.
    pub(crate) fn push(&mut self, pieces: &[&[u8]], len: usize, spare: &mut Spare) -> u64 {
        if self.buffer.capacity() - self.buffer.len() < len {
            self.freeze();
            self.buffer = spare.buffer(len);
        }
        let start = self.buffer.len();
        for piece in pieces {
            self.buffer.extend_from_slice(piece);
        }
        // Now, while the bytes are in the processor's cache and the log's thread has other work.
        if let Some(crcs) = &mut self.crcs {
            crcs.push(crc32c::crc32c(&self.buffer[start..]));
        }
        let sequence = self.next_body();
        self.ends
            .push((self.parts_bytes + self.buffer.len()) as u32);
        sequence
    }

    /// Notes that the body pushed last is the one that another chunk has.
    pub(crate) fn note_shared(&mut self, shared: SharedBody) {
        let position = (self.ends.len() - 1) as u32;
        assert_eq!(
            range(&self.ends, position as usize).len(),
            shared.len as usize,
            "{shared:?} is another body"
        );
        self.shared.push((position, shared));
    }

    /// The position and the length of the body with this sequence, if this chunk has it.
    pub(crate) fn find(&self, sequence: u64) -> Option<(u32, u32)> {
        let position = usize::try_from(sequence.checked_sub(self.first_body)?).ok()?;
        let is_here = position < self.ends.len();
        is_here.then(|| (position as u32, range(&self.ends, position).len() as u32))
    }

    /// Adds a record about a log, and says where in the chunk's records it lies.
    pub(crate) fn push_record(&mut self, log: LogId, record: crate::record::Record<'_>) -> u32 {
        let at = self.meta.len() as u32;
        record.encode(&mut self.meta);
        self.meta_ends.push((log, self.meta.len() as u32));
        at
    }

    /// Adds to the `u32` and the `u64` of the run at `at`.
    pub(crate) fn extend_run(&mut self, at: u32, bytes: u64) {
        let at = at as usize;
        add_u32(&mut self.meta, at + crate::record::RUN_COUNT_AT, 1);
        add_u64(&mut self.meta, at + crate::record::RUN_BYTES_AT, bytes);
    }

    /// Moves the end of the settle at `at`.
    pub(crate) fn extend_settle(&mut self, at: u32, end: u64, bytes: u64) {
        let at = at as usize;
        let end_at = at + crate::record::SETTLE_END_AT;
        self.meta[end_at..end_at + 8].copy_from_slice(&end.to_le_bytes());
        add_u64(&mut self.meta, at + crate::record::SETTLE_BYTES_AT, bytes);
    }

    /// Makes what the buffer holds a shared piece; the rest of the buffer stays for what comes.
    fn freeze(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let bytes = self.buffer.split().freeze();
        let start = self.parts_bytes as u32;
        self.parts_bytes += bytes.len();
        self.parts.push(Part { start, bytes });
    }

    /// The body with this sequence, if this chunk has it.
    pub(crate) fn get(&mut self, sequence: u64) -> Option<Bytes> {
        let position = usize::try_from(sequence.checked_sub(self.first_body)?).ok()?;
        let end = *self.ends.get(position)? as usize;
        if end > self.parts_bytes {
            self.freeze();
        }
        Some(slice(&self.parts, &self.ends, position))
    }

    /// Ends the chunk and begins the next one, which goes on in the same buffer.
    pub(crate) fn seal(&mut self, shard: u8) -> SealedChunk {
        assert!(!self.is_empty(), "an empty chunk is never sealed");
        self.freeze();
        let capacity = self.ends.len().min(1024);
        let next = Self {
            seq: self.seq + 1,
            first_body: self.next_body(),
            ends: Vec::with_capacity(capacity),
            crcs: self.crcs.as_ref().map(|_| Vec::with_capacity(capacity)),
            buffer: std::mem::take(&mut self.buffer),
            ..Self::new(Durability::Volatile)
        };
        let done = std::mem::replace(self, next);
        SealedChunk {
            shard,
            seq: done.seq,
            first_body: done.first_body,
            bodies: Bodies {
                parts: done.parts,
                ends: Arc::new(done.ends),
            },
            crcs: done.crcs.unwrap_or_default(),
            meta: done.meta,
            meta_ends: done.meta_ends,
            shared: done.shared,
            lost: Vec::new(),
        }
    }
}

fn add_u32(bytes: &mut [u8], at: usize, value: u32) {
    let sum = crate::bytes_io::u32_at(bytes, at) + value;
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn add_u64(bytes: &mut [u8], at: usize, value: u64) {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    let sum = u64::from_le_bytes(number) + value;
    bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
}

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
pub struct Place {
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
    pub(crate) place: Option<Place>,
    /// The bodies, while cached.
    pub(crate) bodies: Option<Bodies>,
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

/// The sealed chunks of one class of bodies, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    chunks: VecDeque<Chunk>,
    /// How many chunks were taken from the front ever: what makes positions stable.
    popped: u64,
    /// The first chunk that may be cached, as a stable position.
    cached_from: u64,
    /// Bytes of cached chunks.
    pub(crate) cached_bytes: usize,
}

impl Chunks {
    pub(crate) fn push(&mut self, chunk: Chunk) {
        if chunk.bodies.is_some() {
            self.cached_bytes += chunk.bytes as usize;
        }
        self.chunks.push_back(chunk);
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Chunk> + ExactSizeIterator {
        self.chunks.iter()
    }

    pub(crate) fn first_body(&self) -> Option<u64> {
        self.chunks.front().map(|c| c.first_body)
    }

    pub(crate) fn find(&self, body: u64) -> Option<&Chunk> {
        let at = self.position(body)?;
        Some(&self.chunks[at])
    }

    pub(crate) fn find_mut(&mut self, body: u64) -> Option<&mut Chunk> {
        let at = self.position(body)?;
        Some(&mut self.chunks[at])
    }

    fn position(&self, body: u64) -> Option<usize> {
        let last = self.chunks.back()?;
        let at = if last.first_body <= body {
            self.chunks.len() - 1
        } else {
            self.chunks
                .partition_point(|c| c.first_body <= body)
                .checked_sub(1)?
        };
        let chunk = &self.chunks[at];
        (body < chunk.first_body + u64::from(chunk.count)).then_some(at)
    }

    /// The parts of a range of bodies that are in chunks.
    pub(crate) fn covered(&self, bodies: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self
            .chunks
            .partition_point(|c| c.first_body + u64::from(c.count) <= bodies.start);
        let end = bodies.end;
        self.chunks
            .range(first..)
            .map(|c| c.first_body..c.first_body + u64::from(c.count))
            .take_while(move |c| c.start < end)
            .map(move |c| c.start.max(bodies.start)..c.end.min(bodies.end))
    }

    /// The chunk with this sequence.
    pub(crate) fn find_seq(&mut self, seq: ChunkSeq) -> Option<&mut Chunk> {
        let at = self.chunks.binary_search_by_key(&seq, |c| c.seq).ok()?;
        Some(&mut self.chunks[at])
    }

    /// The oldest chunk whose bodies are in memory.
    pub(crate) fn oldest_cached(&mut self) -> Option<&mut Chunk> {
        loop {
            let at = usize::try_from(self.cached_from - self.popped).ok()?;
            match self.chunks.get(at) {
                None => return None,
                Some(chunk) if chunk.bodies.is_some() => return self.chunks.get_mut(at),
                Some(_) => self.cached_from += 1,
            }
        }
    }

    /// Takes the bodies of the oldest cached chunk out of memory.
    pub(crate) fn evict_oldest(&mut self) -> Option<Bodies> {
        let chunk = self.oldest_cached()?;
        let (bodies, bytes) = (chunk.bodies.take(), chunk.bytes as usize);
        self.cached_from += 1;
        self.cached_bytes -= bytes;
        bodies
    }

    /// Forgets chunks from the front as long as `done` says so and they are not cached.
    pub(crate) fn pop_while(&mut self, mut done: impl FnMut(&Chunk) -> bool) {
        while let Some(front) = self.chunks.front() {
            if front.bodies.is_some() || !done(front) {
                break;
            }
            self.chunks.pop_front();
            self.popped += 1;
            self.cached_from = self.cached_from.max(self.popped);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_while_the_chunk_gathers_and_after() {
        let mut builder = Builder::new(Durability::Durable);
        builder.first_body = 10;
        let bodies: Vec<Vec<u8>> = (0..50).map(|i| vec![i as u8; i * 7 % 40]).collect();
        for (i, body) in bodies.iter().enumerate() {
            let (head, tail) = body.split_at(body.len() / 2);
            let sequence = builder.push(&[head, tail], body.len(), &mut Spare::default());
            assert_eq!(sequence, 10 + i as u64);
            if i % 3 == 0 {
                let back = i / 2;
                assert_eq!(builder.get(10 + back as u64).unwrap(), bodies[back]);
                assert_eq!(builder.get(10 + i as u64).unwrap(), *body);
            }
        }
        assert_eq!(builder.get(9), None);
        assert_eq!(builder.get(60), None);
        let sealed = builder.seal(0);
        assert_eq!((builder.seq, builder.first_body), (2, 60));
        assert_eq!(sealed.bodies.count(), 50);
        let all: Vec<&[u8]> = sealed.bodies.iter().collect();
        assert_eq!(all, bodies);
        for (i, body) in bodies.iter().enumerate() {
            assert_eq!(sealed.bodies.get(i), *body);
        }
        let buffers = sealed.bodies.without(std::iter::empty());
        assert_eq!(buffers.concat(), bodies.concat());
        for left_out in [&[0][..], &[49], &[3, 4, 30], &(0..50).collect::<Vec<u32>>()] {
            let kept = (0..50).filter(|at| !left_out.contains(at));
            let kept: Vec<u8> = kept.flat_map(|at| bodies[at as usize].clone()).collect();
            let buffers = sealed.bodies.without(left_out.iter().copied());
            assert_eq!(buffers.concat(), kept, "without {left_out:?}");
        }
    }

    #[test]
    fn a_buffer_is_used_again_when_nobody_reads_from_it() {
        let mut spare = Spare::default();
        let mut builder = Builder::new(Durability::Durable);
        builder.push(&[&[1; 1000]], 1000, &mut spare);
        let first = builder.seal(0);
        builder.push(&[&[2; 1000]], 1000, &mut spare);
        let second = builder.seal(0);
        let (reader, address) = (first.bodies.get(0), first.bodies.get(0).as_ptr());
        drop(builder);
        spare.reclaim(Some(first.bodies));
        spare.reclaim(Some(second.bodies.clone()));
        assert!(spare.0.is_empty(), "someone reads");
        drop(reader);
        spare.reclaim(Some(second.bodies));
        assert_eq!(spare.0.len(), 1);
        let buffer = spare.buffer(1000);
        assert_eq!(
            buffer.as_ptr(),
            address,
            "the whole buffer, not only its end"
        );
        assert!(buffer.capacity() >= CHUNK_BYTES);
    }

    #[test]
    fn a_chunk_takes_its_limit_and_not_a_byte_more() {
        let mut builder = Builder::new(Durability::Durable);
        let half = vec![0; CHUNK_BYTES / 2];
        builder.push(&[&half], half.len(), &mut Spare::default());
        assert!(!builder.is_full_for(half.len()));
        assert!(builder.is_full_for(half.len() + 1));
        assert!(
            !Builder::new(Durability::Durable).is_full_for(CHUNK_BYTES * 2),
            "a large body has a chunk of its own"
        );
    }
}
