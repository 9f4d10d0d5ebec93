//! The chunk that gathers, and the buffers that it gathers in. The only place where a chunk
//! changes: what it seals never does.

use super::SealedChunk;
use super::bodies::{Bodies, Part, range, slice};
use crate::id::{ChunkSeq, Durability, SharedBody};
use bytes::{Bytes, BytesMut};
use leveret_types::LogId;
use leveret_types::limits::CHUNK_BYTES;
use smallvec::SmallVec;
use std::sync::Arc;

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

    /// Takes a body in as it is, sharing its buffer, and says its sequence.
    pub(crate) fn push_shared(&mut self, bytes: Bytes) -> u64 {
        self.freeze();
        if let Some(crcs) = &mut self.crcs {
            crcs.push(crc32c::crc32c(&bytes));
        }
        let sequence = self.next_body();
        let start = self.parts_bytes as u32;
        self.parts_bytes += bytes.len();
        self.ends.push(self.parts_bytes as u32);
        if !bytes.is_empty() {
            self.parts.push(Part { start, bytes });
        }
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
    fn buffers_that_are_taken_in_as_they_are_lie_among_those_that_are_copied() {
        for durability in [Durability::Durable, Durability::Volatile] {
            let mut builder = Builder::new(durability);
            let bodies = [3, 1_000, 0, 0, 7, 500, 2].map(|len| vec![len as u8; len]);
            for (at, body) in bodies.iter().enumerate() {
                let sequence = match at % 2 {
                    0 => builder.push(&[body], body.len(), &mut Spare::default()),
                    _ => builder.push_shared(Bytes::copy_from_slice(body)),
                };
                assert_eq!(sequence, at as u64);
                for (at, body) in bodies[..=at].iter().enumerate() {
                    let (position, len) = (at as u32, body.len() as u32);
                    assert_eq!(builder.find(at as u64), Some((position, len)));
                }
            }
            assert_eq!(builder.bytes(), bodies.concat().len());
            for (at, body) in bodies.iter().enumerate() {
                assert_eq!(builder.get(at as u64).unwrap(), *body);
            }
            let sealed = builder.seal(0);
            assert_eq!(sealed.bodies.iter().collect::<Vec<_>>(), bodies);
            assert_eq!(sealed.bodies.bytes(), bodies.concat().len());
            let crcs = bodies.iter().map(|body| crc32c::crc32c(body));
            let crcs: Vec<u32> = crcs.collect();
            match durability {
                Durability::Durable => assert_eq!(sealed.crcs, crcs),
                Durability::Volatile => assert_eq!(sealed.crcs, []),
            }
        }
    }

    #[test]
    fn a_buffer_that_is_taken_in_is_not_copied() {
        let mut builder = Builder::new(Durability::Durable);
        let body = Bytes::from(vec![7; 1_000]);
        builder.push_shared(body.clone());
        assert_eq!(builder.get(0).unwrap().as_ptr(), body.as_ptr());
        let sealed = builder.seal(0);
        assert_eq!(sealed.bodies.get(0).as_ptr(), body.as_ptr());
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

    #[test]
    fn few_buffers_are_kept_and_no_large_ones() {
        let mut spare = Spare::default();
        let give = |len: usize, spare: &mut Spare| {
            let mut builder = Builder::new(Durability::Durable);
            builder.push(&[&vec![1; len]], len, &mut Spare::default());
            let sealed = builder.seal(0);
            drop(builder);
            spare.reclaim(Some(sealed.bodies));
        };
        give(CHUNK_BYTES + 1, &mut spare);
        assert!(spare.0.is_empty(), "one for a large body is its own");
        (0..SPARE_MAX + 2).for_each(|_| give(CHUNK_BYTES, &mut spare));
        assert_eq!(spare.0.len(), SPARE_MAX);
        spare.buffer(CHUNK_BYTES + 1);
        assert_eq!(spare.0.len(), SPARE_MAX, "none of them is made larger");
        let buffer = spare.buffer(10);
        assert_eq!((buffer.len(), spare.0.len()), (0, SPARE_MAX - 1));
    }
}
