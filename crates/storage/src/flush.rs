//! Plans for the segment writer (flushes, page-outs, compactions), and the bookkeeping of their
//! results. No IO.

use crate::chunk::{Bodies, ChunkLocation};
use crate::id::{ChunkSeq, FileId, Generation};
use crate::loaded::{Positions, Source};
use crate::log::{Block, Log};
use crate::segment::format::LogBlock;
use crate::segment::writer::{Unreadable, Written};
use crate::shard::{FileState, ShardLogs, live_parts};
use hashbrown::HashSet;
use leveret_types::LogId;
use leveret_types::limits::{SEGMENT_BYTES_MAX, SEGMENT_SMALL_BYTES, SEGMENT_SMALL_FILES_MAX};
use std::ops::Range;

/// A flush holds this part of the cache's budget of bodies at most.
const PINNED_PART: usize = 4;

/// A chunk that a flush reads.
#[derive(Clone, Debug)]
pub(crate) struct PlanChunk {
    pub(crate) seq: ChunkSeq,
    pub(crate) first_body: u64,
    pub(crate) count: u32,
    pub(crate) bytes: u32,
    pub(crate) location: Option<ChunkLocation>,
    pub(crate) bodies: Option<Bodies>,
}

impl PlanChunk {
    /// Where to read it from when it is not cached.
    pub(crate) fn source(&self, positions: Positions) -> Source {
        let Some(location) = self.location else {
            panic!("chunk {} is neither cached nor written", self.seq);
        };
        Source::Wal {
            location,
            seq: self.seq,
            count: self.count,
            bytes: self.bytes,
            positions,
            table: None,
        }
    }

    /// Which of its bodies to read for these pieces, all of which are of it.
    pub(crate) fn positions(&self, pieces: &[Piece]) -> Positions {
        let of = |piece: &Piece| piece.first_position..piece.first_position + piece.count;
        let mut ranges: Vec<Range<u32>> = pieces.iter().map(of).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        Positions::little_of(ranges, self.count, self.bytes)
    }
}

/// Consecutive entries of one log with consecutive bodies in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Position of the chunk in the plan.
    pub(crate) chunk: u32,
    /// Position of the first body in the chunk.
    pub(crate) first_position: u32,
    pub(crate) count: u32,
    pub(crate) log: LogId,
    pub(crate) first_index: u64,
}

impl Piece {
    pub(crate) fn indexes(&self) -> Range<u64> {
        self.first_index..self.first_index + u64::from(self.count)
    }
}

/// What a shard wants to have in segments. Carry it out with [`crate::SegmentWriter::flush`] and
/// give the result to [`ShardLogs::finish_flush`].
#[derive(Debug)]
pub struct FlushPlan {
    pub(crate) shard: u8,
    pub(crate) volatile: bool,
    /// For a flush of the write-ahead log: the last file that it covers.
    through: Generation,
    /// Bodies before this one will be in segments.
    end_body: u64,
    epoch: u64,
    pub(crate) chunks: Vec<PlanChunk>,
    pub(crate) pieces: Vec<Piece>,
    /// Logs of these that are placed apart.
    pub(crate) apart: Apart,
}

/// Logs that are placed apart.
pub(crate) type Apart = HashSet<LogId, foldhash::fast::FixedState>;

impl FlushPlan {
    /// The shard whose plan it is.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }

    /// Entries that will be written.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.pieces.iter().map(|p| u64::from(p.count)).sum()
    }

    /// Bytes of these, where those of a chunk count for its average.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.pieces.iter().map(|piece| {
            let chunk = &self.chunks[piece.chunk as usize];
            u64::from(chunk.bytes) * u64::from(piece.count) / u64::from(chunk.count)
        });
        bytes.sum()
    }
}

/// A block that a compaction reads, and which of its entries it keeps.
#[derive(Debug)]
pub(crate) struct CompactionPiece {
    pub(crate) log: LogId,
    pub(crate) volatile: bool,
    pub(crate) block: Block,
    pub(crate) live: Vec<Range<u64>>,
    /// Whether it follows right on the piece before: the two may share a block.
    pub(crate) joins_previous: bool,
}

/// Segment files that are mostly dead, and what of them must be kept. Carry it out with
/// [`crate::SegmentWriter::compact`] and give the result to [`ShardLogs::finish_compaction`].
#[derive(Debug)]
pub struct CompactionPlan {
    pub(crate) shard: u8,
    pub(crate) victims: HashSet<FileId, foldhash::fast::FixedState>,
    pub(crate) pieces: Vec<CompactionPiece>,
    /// Logs of these that are placed apart.
    pub(crate) apart: Apart,
    epoch: u64,
}

impl CompactionPlan {
    /// The shard whose plan it is.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }

    /// How many files it will make superfluous.
    #[must_use]
    pub fn victim_count(&self) -> usize {
        self.victims.len()
    }
}

impl ShardLogs {
    /// Plans to bring what lives only in files of the write-ahead log through `through` into
    /// segments. These files must be full, and durable as told through [`Self::on_durable`]. One
    /// flush at a time.
    pub fn begin_flush(&mut self, through: Generation) -> FlushPlan {
        let (chunks, end_body) = self.chunks_to_flush(through);
        let mut pieces = Vec::new();
        let start_body = self.flushed.body;
        for id in self.with_runs.iter() {
            let Some(log) = self.logs.get(id) else {
                continue;
            };
            for run in &log.durable.runs {
                let bodies = run.first_body.max(start_body)..run.end_body().min(end_body);
                if bodies.is_empty() {
                    continue;
                }
                let index_of = |body: u64| run.first_index + (body - run.first_body);
                let indexes = index_of(bodies.start)..index_of(bodies.end - 1) + 1;
                for live in log.durable.live.within(indexes) {
                    let body = run.first_body + (live.start - run.first_index);
                    split(&chunks, *id, live, body, &mut pieces);
                }
            }
        }
        let (mut chunks, pieces) = only_used(chunks, pieces);
        hold_the_newest(&mut chunks, self.budget.cache_bytes / PINNED_PART);
        FlushPlan {
            shard: self.shard,
            volatile: false,
            through,
            end_body,
            epoch: self.work.begin(),
            apart: self.apart(pieces.iter().map(|piece| piece.log)),
            chunks,
            pieces,
        }
    }

    /// Those of these logs that are placed apart.
    fn apart(&self, logs: impl Iterator<Item = LogId>) -> Apart {
        let is_apart = |id: &LogId| self.logs.get(id).is_some_and(|log| log.is_apart);
        logs.filter(is_apart).collect()
    }

    fn chunks_to_flush(&self, through: Generation) -> (Vec<PlanChunk>, u64) {
        let covered =
            |c: &&crate::chunk::Chunk| c.location.is_some_and(|p| p.generation <= through);
        let mut end_body = self.flushed.body;
        let mut chunks = Vec::new();
        for chunk in self.chunks.iter().take_while(covered) {
            let end = chunk.first_body + u64::from(chunk.count);
            if end > self.flushed.body {
                end_body = end;
                chunks.push(plan_chunk(chunk));
            }
        }
        (chunks, end_body)
    }

    /// Plans to bring the oldest volatile bodies that live into a segment, so that the cache fits
    /// its budget again.
    pub fn begin_page_out(&mut self) -> FlushPlan {
        assert!(!self.work.is_paging, "one page-out at a time");
        let mut chunks = Vec::new();
        let mut pieces = Vec::new();
        let mut end_body = self.volatile.chunks.first_body().unwrap_or(0);
        let mut bytes = self.volatile.chunks.cached_bytes;
        for chunk in self.volatile.chunks.iter() {
            if bytes <= self.budget.cache_bytes / 4 {
                break;
            }
            bytes -= chunk.bytes as usize;
            end_body = chunk.first_body + u64::from(chunk.count);
            chunks.push(plan_chunk(chunk));
            for entry in &chunk.entries {
                for live in live_parts(&self.logs, entry) {
                    let body = entry.run.first_body + (live.start - entry.run.first_index);
                    split(&chunks, entry.log, live, body, &mut pieces);
                }
            }
        }
        let (chunks, pieces) = only_used(chunks, pieces);
        self.work.is_paging = true;
        FlushPlan {
            shard: self.shard,
            volatile: true,
            through: 0,
            end_body,
            epoch: self.work.begin(),
            apart: self.apart(pieces.iter().map(|piece| piece.log)),
            chunks,
            pieces,
        }
    }

    /// Takes in that a flush or page-out is done.
    pub fn finish_flush(&mut self, plan: &FlushPlan, written: Written) {
        assert_eq!(plan.shard, self.shard, "a plan of another shard");
        self.take_in_files(&written, plan.epoch);
        self.take_in_unreadable(&written.unreadable, plan.epoch);
        if plan.volatile {
            self.work.is_paging = false;
            self.forget_paged_out(plan);
        } else {
            self.flushed.body = self.flushed.body.max(plan.end_body);
            self.flushed.through = self.flushed.through.max(plan.through);
            self.forget_chunks();
            self.loaded.forget_waste();
            self.forget_flushed_runs();
        }
        self.end_work();
        self.evict();
    }

    /// Takes in that a flush or page-out was not carried out: it will be planned again.
    pub fn abandon_flush(&mut self, plan: &FlushPlan) {
        self.work.is_paging &= !plan.volatile;
        self.end_work();
    }

    fn end_work(&mut self) {
        for id in self.work.end() {
            if let Some(log) = self.logs.get_mut(&id) {
                log.truncations.clear();
            }
        }
    }

    fn forget_flushed_runs(&mut self) {
        let kept_from = self.chunks.first_body().unwrap_or(self.flushed.body);
        let kept_from = kept_from.min(self.flushed.body);
        let logs = &mut self.logs;
        self.with_runs.retain(|id| {
            logs.get_mut(&id).is_some_and(|log| {
                log.durable.drop_runs_before(kept_from);
                !log.durable.runs.is_empty()
            })
        });
    }

    fn forget_paged_out(&mut self, plan: &FlushPlan) {
        let end = plan.end_body;
        let chunks = &mut self.volatile.chunks;
        while chunks.first_body().is_some_and(|first| first < end) {
            self.spare.reclaim(chunks.evict_oldest());
            chunks.pop_while(|chunk| chunk.first_body < end);
        }
        let mut logs: Vec<LogId> = plan.pieces.iter().map(|p| p.log).collect();
        logs.dedup();
        for id in logs {
            if let Some(log) = self.logs.get_mut(&id) {
                log.volatile.drop_runs_before(plan.end_body);
            }
        }
    }

    /// Registers new files and their blocks.
    fn take_in_files(&mut self, written: &Written, epoch: u64) {
        for file in &written.files {
            let mut state = FileState::new(file.bytes, file.is_own);
            for LogBlock {
                log,
                volatile,
                block,
            } in &file.blocks
            {
                let Some(log) = self.logs.get_mut(log) else {
                    continue;
                };
                let Some(block) = cut_block(log, *block, epoch) else {
                    continue;
                };
                let live = log.side(*volatile).insert_block(block);
                state.add(&block, live);
            }
            self.files.insert(file.file, state);
        }
    }

    fn take_in_unreadable(&mut self, unreadable: &[Unreadable], epoch: u64) {
        for Unreadable { log, range, why } in unreadable {
            let Some(found) = self.logs.get(log) else {
                continue;
            };
            // After a truncation, others have these indexes.
            let since = found.truncations.iter().filter(|(at, _)| *at >= epoch);
            let end = since.map(|(_, from)| *from).fold(range.end, u64::min);
            let range = range.start..end.max(range.start);
            if found.durable.live.count_within(range.clone()) > 0 {
                let note = format!("entries {range:?} of log {log} cannot be read: {why}");
                self.note_damage(*log, range, note);
            }
        }
    }

    /// Plans to merge what lives in mostly dead segment files, or many small ones, if it is worth
    /// it.
    pub fn begin_compaction(&mut self) -> Option<CompactionPlan> {
        self.begin_compaction_of(Vec::new())
    }

    /// The same, but leaves files alone from which anything went since this was asked last, as long
    /// as there are no more than [`SEGMENT_BYTES_MAX`] dead bytes in those: what is being drained
    /// is empty soon, and whatever is copied of it is copied, and read, in vain.
    pub fn begin_compaction_if_quiet(&mut self) -> Option<CompactionPlan> {
        let (mut draining, mut dead) = (Vec::new(), 0);
        for (file, state) in &mut self.files {
            if !state.was_quiet() && state.may_be_merged() && state.is_mostly_dead() {
                draining.push(*file);
                dead += state.bytes - state.live_bytes;
            }
        }
        if dead > SEGMENT_BYTES_MAX {
            draining.clear();
        }
        self.begin_compaction_of(draining)
    }

    /// Plans a compaction that leaves these files alone.
    fn begin_compaction_of(&mut self, draining: Vec<FileId>) -> Option<CompactionPlan> {
        let victims = match self.mostly_dead(&draining) {
            dead if dead.is_empty() => self.too_many_small(&draining)?,
            dead => dead,
        };
        let mut ids: Vec<LogId> = self.logs.keys().copied().collect();
        ids.sort_unstable();
        let mut pieces = Vec::new();
        for id in ids {
            for volatile in [false, true] {
                if let Some(log) = self.logs.get_mut(&id) {
                    compaction_pieces(log, volatile, &victims, &mut pieces);
                }
            }
        }
        for victim in &victims {
            if let Some(state) = self.files.get_mut(victim) {
                state.compacting = true;
            }
        }
        Some(CompactionPlan {
            shard: self.shard,
            victims,
            apart: self.apart(pieces.iter().map(|piece| piece.log)),
            pieces,
            epoch: self.work.begin(),
        })
    }

    /// Files of which less than half lives, as many as fit one file together, but for these.
    fn mostly_dead(&self, draining: &[FileId]) -> HashSet<FileId, foldhash::fast::FixedState> {
        let mut victims = HashSet::default();
        let mut live_bytes = 0;
        for (file, state) in self.files.iter().filter(|(_, state)| state.may_be_merged()) {
            if !state.is_mostly_dead() || draining.contains(file) {
                continue;
            }
            if live_bytes + state.live_bytes > SEGMENT_BYTES_MAX {
                break;
            }
            live_bytes += state.live_bytes;
            victims.insert(*file);
        }
        victims
    }

    /// The small files of one class of sizes, if these are too many: a few messages that wait leave
    /// one with every full file of the write-ahead log. What is merged goes to the next class, so
    /// that a message is copied once for each class at most. These are left alone.
    fn too_many_small(
        &self,
        draining: &[FileId],
    ) -> Option<HashSet<FileId, foldhash::fast::FixedState>> {
        let classes = [
            0..SEGMENT_SMALL_BYTES / 64,
            SEGMENT_SMALL_BYTES / 64..SEGMENT_SMALL_BYTES / 8,
            SEGMENT_SMALL_BYTES / 8..SEGMENT_SMALL_BYTES,
        ];
        classes.into_iter().find_map(|class| {
            let small = self.files.iter().filter(|(_, state)| state.may_be_merged());
            let small = small.filter(|(_, state)| class.contains(&state.bytes));
            let small = small.filter(|(file, _)| !draining.contains(file));
            let victims: HashSet<_, _> = small.map(|(file, _)| *file).collect();
            (victims.len() > SEGMENT_SMALL_FILES_MAX).then_some(victims)
        })
    }

    /// Takes in that a compaction is done: the victims are dead now, and go with the next
    /// checkpoint.
    pub fn finish_compaction(&mut self, plan: &CompactionPlan, written: Written) {
        assert_eq!(plan.shard, self.shard, "a plan of another shard");
        // Pieces follow on each other by log and side: each is gone through once.
        let mut last = None;
        for piece in &plan.pieces {
            let of = (piece.log, piece.volatile);
            if last.replace(of) == Some(of) {
                continue;
            }
            if let Some(log) = self.logs.get_mut(&piece.log) {
                let blocks = &mut log.side(piece.volatile).blocks;
                blocks.retain(|block| !plan.victims.contains(&block.file));
            }
        }
        for victim in &plan.victims {
            if let Some(state) = self.files.get_mut(victim) {
                state.end();
            }
        }
        self.take_in_files(&written, plan.epoch);
        self.take_in_unreadable(&written.unreadable, plan.epoch);
        self.end_work();
    }

    /// Takes in that a compaction was not carried out.
    pub fn abandon_compaction(&mut self, plan: &CompactionPlan) {
        for victim in &plan.victims {
            if let Some(state) = self.files.get_mut(victim) {
                state.compacting = false;
            }
        }
        self.end_work();
    }
}

fn plan_chunk(chunk: &crate::chunk::Chunk) -> PlanChunk {
    PlanChunk {
        seq: chunk.seq,
        first_body: chunk.first_body,
        count: chunk.count,
        bytes: chunk.bytes,
        location: chunk.location,
        bodies: chunk.bodies.clone(),
    }
}

/// Leaves cached bodies in a plan as far as these bytes go, newest first: a plan lasts, and what it
/// holds is memory beyond the cache's budget once the cache has let it go. The older ones would be
/// let go before their turn, and are read from the log's file.
fn hold_the_newest(chunks: &mut [PlanChunk], budget: usize) {
    let mut held = 0;
    for chunk in chunks.iter_mut().rev() {
        held += chunk.bytes as usize;
        if held > budget && chunk.location.is_some() {
            chunk.bodies = None;
        }
    }
}

/// Cuts entries with consecutive bodies where chunks end.
fn split(
    chunks: &[PlanChunk],
    log: LogId,
    indexes: Range<u64>,
    first_body: u64,
    pieces: &mut Vec<Piece>,
) {
    let (mut index, mut body) = (indexes.start, first_body);
    while index < indexes.end {
        let at = chunks.partition_point(|c| c.first_body <= body) - 1;
        let chunk = &chunks[at];
        let position = body - chunk.first_body;
        assert!(
            position < u64::from(chunk.count),
            "body {body} is in no chunk of the plan"
        );
        let count = (u64::from(chunk.count) - position).min(indexes.end - index);
        pieces.push(Piece {
            chunk: at as u32,
            first_position: position as u32,
            count: count as u32,
            log,
            first_index: index,
        });
        index += count;
        body += count;
    }
}

/// Orders pieces as their chunks are read, and leaves out chunks that nobody needs.
fn only_used(chunks: Vec<PlanChunk>, mut pieces: Vec<Piece>) -> (Vec<PlanChunk>, Vec<Piece>) {
    pieces.sort_unstable_by_key(|p| (p.chunk, p.log, p.first_index));
    let mut used: Vec<PlanChunk> = Vec::new();
    let mut chunks = chunks.into_iter().enumerate();
    let mut last = None;
    for piece in &mut pieces {
        if last != Some(piece.chunk) {
            last = Some(piece.chunk);
            used.extend(
                chunks
                    .find(|(at, _)| *at == piece.chunk as usize)
                    .map(|(_, c)| c),
            );
        }
        piece.chunk = used.len() as u32 - 1;
    }
    (used, pieces)
}

/// What is left of a block after the truncations since it was planned.
fn cut_block(log: &mut Log, mut block: Block, epoch: u64) -> Option<Block> {
    for (at, from) in log.truncations.clone() {
        if at < epoch || from > block.last_index {
            continue;
        }
        // A restart finds the block whole in its file: it must know of the cut.
        log.cut(crate::log::Cut {
            before: block.file + 1,
            from,
        });
        block.last_index = from
            .checked_sub(1)
            .filter(|last| *last >= block.first_index)?;
    }
    Some(block)
}

fn compaction_pieces(
    log: &mut Log,
    volatile: bool,
    victims: &HashSet<FileId, foldhash::fast::FixedState>,
    pieces: &mut Vec<CompactionPiece>,
) {
    let id = log.id;
    let side = log.side(volatile);
    let mut joins_previous = false;
    for block in &side.blocks {
        if !victims.contains(&block.file) {
            joins_previous = false;
            continue;
        }
        pieces.push(CompactionPiece {
            log: id,
            volatile,
            block: *block,
            live: side.live.within(block.indexes()).collect(),
            joins_previous: joins_previous && block.shared_from.is_none(),
        });
        joins_previous = block.shared_from.is_none();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use crate::{Durability, Folders, LogKind, MemoryDisk, Options, Store};
    use leveret_types::LogId;
    use std::path::Path;

    const LOG: LogId = LogId(1);
    const BYTES: u64 = 20_000;

    fn filled() -> Store<MemoryDisk> {
        let folders = Folders::within(Path::new("/store"));
        let options = Options::default();
        let opened = Store::open(&MemoryDisk::new(), &folders, &options);
        let (mut store, _) = opened.unwrap();
        let logs = &mut store.shards[0];
        logs.create_log(LOG, LogKind::Durable);
        for n in 0..100 {
            let body = logs.body(Durability::Durable, &[&[n; BYTES as usize]]);
            logs.append(LOG, body, BYTES as u32);
        }
        store.sync().unwrap();
        store.roll();
        store
    }

    #[test]
    fn what_one_compaction_copies_no_other_does_until_it_is_given_up() {
        let mut store = filled();
        store.flush().unwrap();
        store.shards[0].settle(LOG, 0..90, 90 * BYTES);
        let plan = store.shards[0].begin_compaction().unwrap();
        assert!(store.shards[0].begin_compaction().is_none());
        store.shards[0].abandon_compaction(&plan);
        assert!(store.shards[0].begin_compaction().is_some());
    }

    /// Each entry that is cut off for good would be noted once more, for as long as the node runs.
    #[test]
    fn truncations_are_noted_for_work_under_way_and_not_after_it_was_given_up() {
        let mut store = filled();
        let noted = |store: &Store<MemoryDisk>| store.shards[0].logs[&LOG].truncations.len();
        let plan = store.shards[0].begin_flush(u64::MAX);
        store.shards[0].truncate(LOG, 99);
        assert_eq!(noted(&store), 1);
        store.shards[0].abandon_flush(&plan);
        assert_eq!(noted(&store), 0);
        store.flush().unwrap();
        store.shards[0].settle(LOG, 0..90, 90 * BYTES);
        let plan = store.shards[0].begin_compaction().unwrap();
        store.shards[0].truncate(LOG, 98);
        assert_eq!(noted(&store), 1);
        store.shards[0].abandon_compaction(&plan);
        store.shards[0].truncate(LOG, 97);
        assert_eq!(noted(&store), 0, "nobody writes what was cut off");
    }
}
