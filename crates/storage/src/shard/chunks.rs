//! The way of a shard's chunks: sealed, handed to the write-ahead log, durable, out of memory when
//! the budget is spent. Apart from the logs, whose changes only fill the chunk that gathers.

use super::ShardLogs;
use crate::chunk::{Chunk, ChunkLocation, Entry, SealedChunk};
use crate::id::ChunkSeq;
use crate::loaded::Key;
use crate::log::Log;
use hashbrown::HashMap;
use leveret_types::LogId;
use std::ops::Range;

/// What a shard has gathered for the write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing.
    Nothing,
    /// Only settles: nobody waits for them, they may gather.
    Lazy,
    /// Something that someone may wait for.
    Awaited,
}

impl ShardLogs {
    /// What waits to be handed to the write-ahead log.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        if self.builder.awaited || !self.sealed.is_empty() {
            Urgency::Awaited
        } else if self.builder.is_empty() {
            Urgency::Nothing
        } else {
            Urgency::Lazy
        }
    }

    /// Whether somebody may wait for something that has gathered.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.urgency() == Urgency::Awaited
    }

    /// Nobody waits for what has gathered: it may go on gathering, as settles do, unless a chunk of
    /// it is full. For who appends where nothing was [awaited](Self::is_awaited).
    pub fn await_nothing(&mut self) {
        self.builder.awaited = false;
    }

    /// Bytes that wait to be handed to the write-ahead log.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        let sealed: usize = self.sealed.iter().map(SealedChunk::bytes).sum();
        sealed + self.builder.bytes()
    }

    /// Ends the chunk that gathers and gives all that the write-ahead log does not have yet, in the
    /// order in which it must be written.
    pub fn seal(&mut self, out: &mut Vec<SealedChunk>) {
        self.end_chunk();
        out.append(&mut self.sealed);
    }

    /// Ends the chunk that gathers, if there is anything in it.
    pub(crate) fn end_chunk(&mut self) {
        if !self.builder.is_empty() {
            self.seal_durable();
        }
    }

    /// The chunk that gathers. What was appended so far is durable when [`Self::durable_through`]
    /// has reached it.
    #[must_use]
    pub fn position(&self) -> ChunkSeq {
        if self.builder.is_empty() {
            self.builder.seq - 1
        } else {
            self.builder.seq
        }
    }

    /// The last chunk that is durable, with all before it.
    #[must_use]
    pub fn durable_through(&self) -> ChunkSeq {
        self.durable_through
    }

    pub(super) fn seal_durable(&mut self) {
        let chunk = self.builder.seal(self.shard);
        if chunk.bodies.count() > 0 {
            self.chunks.push(Chunk {
                seq: chunk.seq,
                first_body: chunk.first_body,
                count: chunk.bodies.count() as u32,
                bytes: chunk.bodies.bytes() as u32,
                location: None,
                bodies: Some(chunk.bodies.clone()),
                read_in_parts: 0,
                entries: Vec::new(),
            });
        }
        self.sealed.push(chunk);
        self.evict();
    }

    pub(crate) fn seal_volatile(&mut self) {
        let chunk = self.volatile.builder.seal(self.shard);
        self.volatile.chunks.push(Chunk {
            seq: chunk.seq,
            first_body: chunk.first_body,
            count: chunk.bodies.count() as u32,
            bytes: chunk.bodies.bytes() as u32,
            location: None,
            bodies: Some(chunk.bodies),
            read_in_parts: 0,
            entries: std::mem::take(&mut self.volatile.entries),
        });
        self.evict();
    }

    /// Takes in what the write-ahead log made durable: of [`crate::WalOutcome::written`], this
    /// shard's part.
    pub fn on_durable(&mut self, written: impl IntoIterator<Item = (ChunkSeq, ChunkLocation)>) {
        for (seq, location) in written {
            assert!(seq > self.durable_through, "chunk {seq} is durable twice");
            self.durable_through = seq;
            if let Some(chunk) = self.chunks.find_seq(seq) {
                chunk.location = Some(location);
            }
        }
        self.evict();
    }

    pub(crate) fn set_durable_through(&mut self, seq: ChunkSeq) {
        self.durable_through = seq;
    }

    /// Brings the cache back into its budget, as far as that can be done without IO.
    pub(crate) fn evict(&mut self) {
        while self.chunks.cached_bytes + self.volatile.chunks.cached_bytes > self.budget.cache_bytes
        {
            let volatile_first = self.volatile.chunks.cached_bytes > self.chunks.cached_bytes;
            let done = (volatile_first && self.evict_volatile())
                || self.evict_durable()
                || self.evict_volatile();
            if !done {
                break;
            }
        }
        self.forget_chunks();
    }

    fn evict_durable(&mut self) -> bool {
        let written = self
            .chunks
            .oldest_cached()
            .is_some_and(|c| c.location.is_some());
        if written {
            let bodies = self.chunks.evict_oldest();
            self.spare.reclaim(bodies);
        }
        written
    }

    /// Drops the oldest volatile chunk if nobody needs it.
    fn evict_volatile(&mut self) -> bool {
        let logs = &self.logs;
        let dead = self.volatile.chunks.oldest_cached().is_some_and(|chunk| {
            chunk
                .entries
                .iter()
                .all(|entry| live_parts(logs, entry).next().is_none())
        });
        if dead {
            let bodies = self.volatile.chunks.evict_oldest();
            self.spare.reclaim(bodies);
            self.volatile.chunks.pop_while(|_| true);
        }
        dead
    }

    /// Forgets chunks that are neither cached nor only in the write-ahead log.
    pub(crate) fn forget_chunks(&mut self) {
        let through = self.flushed.through;
        let (chunks, loaded) = (&mut self.chunks, &mut self.loaded);
        chunks.pop_while(|c| {
            let done = c.location.is_some_and(|p| p.generation <= through);
            if done {
                loaded.forget(Key::Chunk(c.seq));
                loaded.forget(Key::Table(c.seq));
            }
            done
        });
    }

    /// Whether live volatile bodies exceed the cache, so that they must go to a segment: see
    /// [`Self::begin_page_out`].
    #[must_use]
    pub fn wants_page_out(&self) -> bool {
        !self.work.is_paging
            && self.chunks.cached_bytes + self.volatile.chunks.cached_bytes
                > self.budget.cache_bytes
            && self.volatile.chunks.cached_bytes * 2 > self.budget.cache_bytes
    }
}

/// The parts of an entry's run whose entries live, and still have these bodies: after a truncation
/// others may have their indexes.
pub(crate) fn live_parts<'a>(
    logs: &'a HashMap<LogId, Box<Log>, foldhash::fast::FixedState>,
    entry: &Entry,
) -> impl Iterator<Item = Range<u64>> + 'a {
    let run = entry.run;
    let side = logs.get(&entry.log).map(|log| &log.volatile);
    side.into_iter().flat_map(move |side| {
        let first = side
            .runs
            .partition_point(|r| r.end_index() <= run.first_index);
        let same = side
            .runs
            .range(first..)
            .take_while(move |r| r.first_index < run.end_index());
        let same = same.filter(move |r| r.shift() == run.shift());
        same.flat_map(move |r| {
            let start = r.first_index.max(run.first_index);
            side.live.within(start..r.end_index().min(run.end_index()))
        })
    })
}
