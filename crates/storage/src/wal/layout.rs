//! Where in a file the parts of a batch go, and which bodies are not written again because equal
//! ones lie in the file already, or are written with the same batch.
//!
//! Invariant: what is referred to lies in the same file, at a place that was durable before or
//! becomes so with the same write: a batch that is whole never refers to what is not there, and a
//! file is used again only when no shard needs anything in it.

use super::format::{
    BODY_ENTRY_BYTES, CHUNK_HEAD_BYTES, HEAD_BYTES, LOST_AT, Position, RECORD_ENTRY_BYTES,
    REFERENCE_BYTES, sectors,
};
use crate::chunk::{SealedChunk, range};
use crate::id::{ChunkSeq, Generation, SharedBody};
use std::collections::VecDeque;
use std::sync::Arc;

/// Chunks that are remembered so that later batches can refer to them. A publish that the log's
/// thread passes by between two shards refers to the batch before; a few more are for threads that
/// were interrupted there.
const RECENT_MAX: usize = 64;

/// A body of a chunk that lies elsewhere in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Position of the body in its chunk.
    pub(crate) position: u32,
    /// Where in the file its bytes are.
    pub(crate) offset: u32,
    /// Bytes of all references of the chunk through this one.
    through_bytes: u32,
}

/// One chunk of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkLayout {
    /// Bodies that lie elsewhere, by their positions, ascending.
    pub(crate) references: Vec<Reference>,
    /// Where in the file the other bodies begin, one after the other.
    pub(crate) bodies_at: u64,
    /// Bytes of these.
    pub(crate) body_bytes: u64,
}

impl ChunkLayout {
    /// Positions of the bodies that are not written with the chunk.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = u32> + '_ {
        self.references.iter().map(|reference| reference.position)
    }

    /// Where in the file a body lies that is written with the chunk, and has this length.
    fn offset_of(&self, ends: &[u32], shared: SharedBody) -> Option<u32> {
        let position = shared.position as usize;
        let here = (position < ends.len()).then(|| range(ends, position))?;
        let before = self
            .references
            .partition_point(|reference| reference.position < shared.position);
        let is_reference = self
            .references
            .get(before)
            .is_some_and(|reference| reference.position == shared.position);
        if is_reference || here.len() != shared.len as usize {
            return None;
        }
        let left_out = before
            .checked_sub(1)
            .map_or(0, |last| self.references[last].through_bytes);
        u32::try_from(self.bodies_at + here.start as u64 - u64::from(left_out)).ok()
    }
}

/// A chunk that was written to the file at hand.
#[derive(Debug)]
struct Known {
    shard: u8,
    seq: ChunkSeq,
    ends: Arc<Vec<u32>>,
    layout: ChunkLayout,
}

/// The chunks written to one file last.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    generation: Generation,
    chunks: VecDeque<Known>,
}

impl Recent {
    /// Takes in what was written to this file, and is durable.
    pub(crate) fn add(
        &mut self,
        generation: Generation,
        chunks: &[SealedChunk],
        layouts: Vec<ChunkLayout>,
    ) {
        if self.generation != generation {
            self.generation = generation;
            self.chunks.clear();
        }
        for (chunk, layout) in chunks.iter().zip(layouts) {
            if chunk.bodies.count() == 0 {
                continue;
            }
            if self.chunks.len() == RECENT_MAX {
                self.chunks.pop_front();
            }
            self.chunks.push_back(Known {
                shard: chunk.shard,
                seq: chunk.seq,
                ends: Arc::clone(chunk.bodies.ends()),
                layout,
            });
        }
    }

    fn offset_of(&self, generation: Generation, shared: SharedBody) -> Option<u32> {
        if self.generation != generation {
            return None;
        }
        let of = (shared.shard, shared.seq);
        let known = self.chunks.iter().rev().find(|k| (k.shard, k.seq) == of)?;
        known.layout.offset_of(&known.ends, shared)
    }
}

/// What is known of a shared body before all chunks have their places.
#[derive(Clone, Copy)]
enum Origin {
    Recent(u32),
    /// In the chunk of this number of the same batch.
    Batch(usize),
}

/// A body that is not written with its chunk.
#[derive(Clone, Copy)]
enum OmittedBody {
    Shared(SharedBody, Origin),
    Lost,
}

/// A batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchLayout {
    /// Bytes of the head.
    pub(crate) head_bytes: usize,
    /// Bytes of what follows the head and the copy of the head before.
    pub(crate) data_bytes: u64,
    pub(crate) chunks: Vec<ChunkLayout>,
}

impl BatchLayout {
    /// Lays out a batch of these chunks that begins here and carries so many bytes of another head.
    pub(crate) fn new(
        chunks: &[SealedChunk],
        recent: &Recent,
        at: Position,
        copy_bytes: usize,
    ) -> Self {
        let origins: Vec<_> = (0..chunks.len())
            .map(|number| origins(chunks, number, recent, at.generation))
            .collect();
        let tables = chunks.iter().zip(&origins).map(|(chunk, origins)| {
            CHUNK_HEAD_BYTES
                + chunk.bodies.count() * BODY_ENTRY_BYTES
                + origins.len() * REFERENCE_BYTES
                + chunk.meta_ends.len() * RECORD_ENTRY_BYTES
        });
        let head_bytes = HEAD_BYTES + tables.sum::<usize>();
        let data_at = at.offset + (head_bytes + copy_bytes) as u64;
        let mut layout = Self {
            head_bytes,
            ..Self::default()
        };
        for (chunk, origins) in chunks.iter().zip(&origins) {
            let mut through_bytes = 0;
            let references = origins.iter().map(|(position, _)| {
                through_bytes += chunk.bodies.range(*position as usize).len() as u32;
                Reference {
                    position: *position,
                    offset: 0,
                    through_bytes,
                }
            });
            let references: Vec<_> = references.collect();
            let body_bytes = chunk.bodies.bytes() as u64 - u64::from(through_bytes);
            layout.chunks.push(ChunkLayout {
                references,
                bodies_at: data_at + layout.data_bytes + chunk.meta.len() as u64,
                body_bytes,
            });
            layout.data_bytes += chunk.meta.len() as u64 + body_bytes;
        }
        layout.resolve(chunks, &origins);
        layout
    }

    /// Says where what is referred to lies, now that every chunk has its place.
    fn resolve(&mut self, chunks: &[SealedChunk], origins: &[Vec<(u32, OmittedBody)>]) {
        for (number, origins) in origins.iter().enumerate() {
            for (at, (_, absent)) in origins.iter().enumerate() {
                let offset = match absent {
                    OmittedBody::Lost => Some(LOST_AT),
                    OmittedBody::Shared(_, Origin::Recent(offset)) => Some(*offset),
                    OmittedBody::Shared(shared, Origin::Batch(of)) => {
                        self.chunks[*of].offset_of(chunks[*of].bodies.ends(), *shared)
                    }
                };
                let Some(offset) = offset else {
                    unreachable!("a shared body was looked up and is written with its chunk");
                };
                self.chunks[number].references[at].offset = offset;
            }
        }
    }

    /// Bytes of the whole batch.
    pub(crate) fn bytes(&self, copy_bytes: usize) -> u64 {
        sectors((self.head_bytes + copy_bytes) as u64 + self.data_bytes)
    }
}

/// Puts a batch's data into one buffer.
pub(crate) fn put_data(chunks: &[SealedChunk], layout: &BatchLayout, out: &mut Vec<u8>) {
    for (chunk, layout) in chunks.iter().zip(&layout.chunks) {
        out.extend_from_slice(&chunk.meta);
        let bodies = chunk.bodies.without(layout.left_out());
        bodies.iter().for_each(|bytes| out.extend_from_slice(bytes));
    }
}

/// The bodies of a chunk that need not be written, with where they are. The others are written: a
/// body whose first chunk is in another file, is forgotten, or is still to come.
fn origins(
    chunks: &[SealedChunk],
    number: usize,
    recent: &Recent,
    generation: Generation,
) -> Vec<(u32, OmittedBody)> {
    let mut last = 0;
    let find = |(position, shared): &(u32, SharedBody)| {
        let is_it = |chunk: &SealedChunk| (chunk.shard, chunk.seq) == (shared.shard, shared.seq);
        // Bodies that follow on each other mostly come from one chunk.
        if !is_it(&chunks[last])
            && let Some(found) = chunks.iter().position(is_it)
        {
            last = found;
        }
        let origin = if is_it(&chunks[last]) {
            is_first(&chunks[last], *shared).then_some(Origin::Batch(last))
        } else {
            recent.offset_of(generation, *shared).map(Origin::Recent)
        };
        origin.map(|origin| (*position, OmittedBody::Shared(*shared, origin)))
    };
    let lost = &chunks[number].lost;
    let found = chunks[number].shared.iter().filter_map(find);
    let mut absent: Vec<_> = found
        .take(usize::from(u16::MAX).saturating_sub(lost.len()))
        .collect();
    if !lost.is_empty() {
        absent.extend(lost.iter().map(|position| (*position, OmittedBody::Lost)));
        absent.sort_unstable_by_key(|(position, _)| *position);
    }
    absent
}

/// Whether a chunk has a body of its own there, and of that length: no reference leads to another.
fn is_first(chunk: &SealedChunk, shared: SharedBody) -> bool {
    let position = shared.position as usize;
    position < chunk.bodies.count()
        && chunk.bodies.range(position).len() == shared.len as usize
        && chunk
            .shared
            .binary_search_by_key(&shared.position, |(at, _)| *at)
            .is_err()
        && chunk.lost.binary_search(&shared.position).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{BodyId, Durability, LogKind};
    use crate::shard::{Budget, ShardLogs};
    use leveret_types::LogId;

    const AT: Position = Position {
        generation: 3,
        offset: 8192,
    };

    fn shard(number: u8) -> ShardLogs {
        let budget = Budget {
            cache_bytes: 1 << 20,
            loaded_bytes: 1 << 20,
        };
        let mut shard = ShardLogs::new(number, budget);
        shard.create_log(LogId(u64::from(number)), LogKind::Durable);
        shard
    }

    fn put(shard: &mut ShardLogs, bytes: &[u8], shared: Option<SharedBody>) -> BodyId {
        let log = LogId(u64::from(shard.shard()));
        let body = match shared {
            Some(shared) => shard.body_again(shared, &[bytes]),
            None => shard.body(Durability::Durable, &[bytes]),
        };
        shard.append(log, body, bytes.len() as u32);
        body
    }

    fn seal(shards: &mut [ShardLogs]) -> Vec<SealedChunk> {
        let mut chunks = Vec::new();
        shards.iter_mut().for_each(|shard| shard.seal(&mut chunks));
        chunks
    }

    /// A file through the end of this batch.
    fn written(layout: &BatchLayout, chunks: &[SealedChunk]) -> Vec<u8> {
        let mut file = vec![0; AT.offset as usize + layout.head_bytes];
        put_data(chunks, layout, &mut file);
        let data_at = AT.offset as usize + layout.head_bytes;
        assert_eq!((file.len() - data_at) as u64, layout.data_bytes);
        file
    }

    #[test]
    fn references_lead_to_the_bytes_within_the_batch_and_in_the_batch_before() {
        let mut shards = [shard(0), shard(1), shard(2)];
        let mut shared = Vec::new();
        for n in 0..20_u8 {
            let bytes = [n; 100];
            if n % 3 == 0 {
                put(&mut shards[1], &[0xEE; 7], None);
            }
            let body = put(&mut shards[0], &bytes, None);
            let handle = shards[0].share(body).unwrap();
            put(&mut shards[1], &bytes, Some(handle));
            shared.push((handle, bytes));
        }
        let first = seal(&mut shards[..2]);
        let mut recent = Recent::default();
        let layout = BatchLayout::new(&first, &recent, AT, 0);
        let mut file = written(&layout, &first);
        let second = &layout.chunks[1];
        assert_eq!((second.references.len(), second.body_bytes), (20, 7 * 7));
        for (reference, (_, bytes)) in second.references.iter().zip(&shared) {
            assert_eq!(file[reference.offset as usize..][..100], bytes[..]);
        }
        recent.add(AT.generation, &first, layout.chunks);

        for (handle, bytes) in &shared {
            put(&mut shards[2], bytes, Some(*handle));
        }
        let later = seal(&mut shards[2..]);
        let next = Position {
            offset: 1 << 20,
            ..AT
        };
        let layout = BatchLayout::new(&later, &recent, next, 0);
        assert_eq!(layout.chunks[0].body_bytes, 0);
        file.resize(1 << 20, 0);
        for (reference, (_, bytes)) in layout.chunks[0].references.iter().zip(&shared) {
            assert_eq!(file[reference.offset as usize..][..100], bytes[..]);
        }
        let elsewhere = Position {
            generation: AT.generation + 1,
            offset: 4096,
        };
        let layout = BatchLayout::new(&later, &recent, elsewhere, 0);
        let chunk = &layout.chunks[0];
        assert_eq!(
            (chunk.references.len(), chunk.body_bytes),
            (0, 2_000),
            "a file never refers to another"
        );
    }

    #[test]
    fn what_is_not_known_is_written() {
        let mut shards = [shard(0), shard(1)];
        let body = put(&mut shards[0], b"body", None);
        let handle = shards[0].share(body).unwrap();
        put(&mut shards[1], b"body", Some(handle));
        let alone = seal(&mut shards[1..]);
        let layout = BatchLayout::new(&alone, &Recent::default(), AT, 0);
        assert!(
            layout.chunks[0].references.is_empty(),
            "its first is to come"
        );
        assert_eq!(shards[1].share(body), None, "of another shard");
        seal(&mut shards[..1]);
        assert_eq!(shards[0].share(body), None, "its chunk is sealed");
        let empty = put(&mut shards[0], b"", None);
        assert_eq!(shards[0].share(empty), None, "there is nothing to save");
    }

    #[test]
    fn only_so_many_chunks_are_remembered() {
        let mut shards = [shard(0), shard(1)];
        let body = put(&mut shards[0], b"body", None);
        let handle = shards[0].share(body).unwrap();
        let mut recent = Recent::default();
        for written in 0..=RECENT_MAX {
            let chunks = seal(&mut shards[..1]);
            let layout = BatchLayout::new(&chunks, &recent, AT, 0);
            recent.add(AT.generation, &chunks, layout.chunks);
            let found = recent.offset_of(AT.generation, handle);
            assert_eq!(
                found.is_some(),
                written < RECENT_MAX,
                "after {written} more"
            );
            put(&mut shards[0], b"more", None);
        }
    }
}
