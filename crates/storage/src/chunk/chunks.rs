//! The sealed chunks that a shard remembers, oldest first, and which of them are in memory. Apart
//! because positions in it are kept stable while both ends move.

use super::Chunk;
use super::bodies::Bodies;
use crate::id::ChunkSeq;
use std::collections::VecDeque;
use std::ops::Range;

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
