//! The logs of one shard: entries not yet written, live entries, and their places. No IO.

mod chunks;
mod read;
mod stats;
mod work;

pub use chunks::Urgency;
pub(crate) use chunks::live_parts;
pub use read::Read;
pub(crate) use stats::FileState;
pub use stats::{LogStats, ShardStats};
pub(crate) use work::{Flushed, LogsWithRuns, Work};

use crate::chunk::{Builder, Chunks, Entry, Run, SealedChunk, Spare};
use crate::id::{BodyId, ChunkSeq, Durability, FileId, LogKind, SharedBody};
use crate::loaded::LoadedCache;
use crate::log::{Cut, Damage, Freed, Log, Spot, share_of};
use crate::record::Record;
use bytes::Bytes;
use hashbrown::HashMap;
use leveret_types::{LogId, RangeSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a shard may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes of cached chunks.
    pub(crate) cache_bytes: usize,
    /// Bytes of what is read back.
    pub(crate) loaded_bytes: usize,
}

/// The logs of one shard.
///
/// A crash leaves a prefix of what was done, cut between two chunks: what went into one chunk
/// happened as a whole or not at all. A chunk ends in [`Self::seal`], in [`Self::checkpoint_part`],
/// and in [`Self::body`] when it is full; any other calls that follow on each other are in one.
///
/// Entries of a log are numbered from 0, densely but for [`Self::skip_to`]. Bodies are put into the
/// shard first and appended to any number of its logs then, before the next call of [`Self::seal`]:
/// a body of which nobody holds an entry is forgotten.
#[derive(Debug)]
pub struct ShardLogs {
    pub(crate) shard: u8,
    pub(crate) logs: HashMap<LogId, Box<Log>, foldhash::fast::FixedState>,
    pub(crate) builder: Builder,
    sealed: Vec<SealedChunk>,
    pub(crate) chunks: Chunks,
    pub(crate) volatile: VolatileBodies,
    pub(crate) spare: Spare,
    pub(crate) budget: Budget,
    pub(crate) loaded: LoadedCache,
    pub(crate) files: BTreeMap<FileId, FileState>,
    pub(crate) flushed: Flushed,
    durable_through: ChunkSeq,
    pub(crate) with_runs: LogsWithRuns,
    pub(crate) work: Work,
    pub(crate) freed: Vec<Freed>,
    pub(crate) closed_in_order: bool,
}

/// The bodies that go into no write-ahead log.
#[derive(Debug)]
pub(crate) struct VolatileBodies {
    pub(crate) builder: Builder,
    /// The entries that refer to what gathers.
    entries: Vec<Entry>,
    pub(crate) chunks: Chunks,
}

impl VolatileBodies {
    fn new() -> Self {
        Self {
            builder: Builder::new(Durability::Volatile),
            entries: Vec::new(),
            chunks: Chunks::default(),
        }
    }

    /// Notes that an entry refers to a body, where the body's chunk is.
    fn note(&mut self, log: LogId, first_index: u64, first_body: u64) {
        let entries = if first_body >= self.builder.first_body {
            &mut self.entries
        } else {
            match self.chunks.find_mut(first_body) {
                Some(chunk) => &mut chunk.entries,
                None => panic!("volatile body {first_body} is forgotten"),
            }
        };
        if let Some(last) = entries.last_mut().filter(|last| last.log == log)
            && last.run.extend(first_index, first_body)
        {
            return;
        }
        let run = Run {
            first_index,
            first_body,
            count: 1,
        };
        entries.push(Entry { log, run });
    }
}

impl ShardLogs {
    pub(crate) fn new(shard: u8, budget: Budget) -> Self {
        Self {
            shard,
            logs: HashMap::default(),
            builder: Builder::new(Durability::Durable),
            sealed: Vec::new(),
            chunks: Chunks::default(),
            volatile: VolatileBodies::new(),
            spare: Spare::default(),
            budget,
            loaded: LoadedCache::new(budget.loaded_bytes),
            files: BTreeMap::new(),
            flushed: Flushed::default(),
            durable_through: 0,
            with_runs: LogsWithRuns::default(),
            work: Work::default(),
            freed: Vec::new(),
            closed_in_order: true,
        }
    }

    /// Which shard this is.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }

    /// Whether the store was closed in order before this start, or is new: the states of its logs
    /// are what was saved last, and nothing has happened since. After a crash much may have, also
    /// where nothing of it was written.
    #[must_use]
    pub fn was_closed_in_order(&self) -> bool {
        self.closed_in_order
    }

    /// Begins a log with no entries. Its id must be new: segment files may still hold blocks of one
    /// that was deleted. [`Self::renew_log`] uses an id again.
    ///
    /// # Panics
    /// If there is a log of that id.
    pub fn create_log(&mut self, id: LogId, kind: LogKind) {
        let before = self.logs.insert(id, Box::new(Log::new(id, kind)));
        assert!(before.is_none(), "log {id} exists already");
        if kind == LogKind::Durable {
            self.record(id, Record::Create, true);
        }
    }

    /// What of a log is moved to segments from now on goes to [`crate::Folders::segment`]; that of
    /// all others to [`crate::Folders::data`]. What has been moved before stays where it is until
    /// its files are merged. Not kept over a restart: who knows what the log is says so again
    /// before the first flush. Nothing happens if there is no such log.
    pub fn place_apart(&mut self, id: LogId) {
        if let Some(log) = self.logs.get_mut(&id) {
            log.is_apart = true;
        }
    }

    /// Whether it was placed so.
    #[must_use]
    pub fn is_apart(&self, id: LogId) -> bool {
        self.logs.get(&id).is_some_and(|log| log.is_apart)
    }

    /// Ends a log and all its entries. Nothing happens if there is no such log.
    pub fn delete_log(&mut self, id: LogId) {
        let Some(mut log) = self.logs.remove(&id) else {
            return;
        };
        let mut freed = std::mem::take(&mut self.freed);
        log.durable.clear(&mut freed);
        log.volatile.clear(&mut freed);
        self.freed = freed;
        self.account_freed();
        if log.kind == LogKind::Durable {
            self.record(id, Record::Delete, true);
        }
    }

    /// Whether there is such a log.
    #[must_use]
    pub fn has_log(&self, id: LogId) -> bool {
        self.logs.contains_key(&id)
    }

    /// The logs, in no order.
    pub fn log_ids(&self) -> impl Iterator<Item = LogId> + '_ {
        self.logs.keys().copied()
    }

    /// Copies a body, given in pieces, into the chunk that gathers.
    pub fn body(&mut self, durability: Durability, pieces: &[&[u8]]) -> BodyId {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        match durability {
            Durability::Durable => {
                if self.builder.is_full_for(len) {
                    self.seal_durable();
                }
                BodyId::new(
                    self.shard,
                    false,
                    self.builder.push(pieces, len, &mut self.spare),
                )
            }
            Durability::Volatile => {
                if self.volatile.builder.is_full_for(len) {
                    self.seal_volatile();
                }
                BodyId::new(
                    self.shard,
                    true,
                    self.volatile.builder.push(pieces, len, &mut self.spare),
                )
            }
        }
    }

    /// As [`Self::body`], of a body that is a buffer already: the chunk shares it, and it should be
    /// a large one.
    pub fn body_shared(&mut self, durability: Durability, bytes: Bytes) -> BodyId {
        let is_volatile = durability == Durability::Volatile;
        let builder = match is_volatile {
            false => &self.builder,
            true => &self.volatile.builder,
        };
        if builder.is_full_for(bytes.len()) {
            match is_volatile {
                false => self.seal_durable(),
                true => self.seal_volatile(),
            }
        }
        let builder = match is_volatile {
            false => &mut self.builder,
            true => &mut self.volatile.builder,
        };
        BodyId::new(self.shard, is_volatile, builder.push_shared(bytes))
    }

    /// What other shards may refer to instead of writing this body again. Nothing if it is
    /// volatile, empty, or its chunk gathers no more: ask right after [`Self::body`].
    #[must_use]
    pub fn share(&self, body: BodyId) -> Option<SharedBody> {
        if body.is_volatile() || body.shard().0 != u16::from(self.shard) {
            return None;
        }
        let (position, len) = self
            .builder
            .find(body.sequence())
            .filter(|(_, len)| *len > 0)?;
        Some(SharedBody {
            shard: self.shard,
            seq: self.builder.seq,
            position,
            len,
        })
    }

    /// As [`Self::body`], of a durable body that another shard was given before: it is cached here
    /// as any other, but the write-ahead log refers to the bytes that it has. So that it can, the
    /// other shard's chunk must be handed to it before this one's or together with it; else it
    /// writes them again.
    ///
    /// # Panics
    /// If the length is not that of the other body.
    pub fn body_again(&mut self, shared: SharedBody, pieces: &[&[u8]]) -> BodyId {
        let body = self.body(Durability::Durable, pieces);
        self.builder.note_shared(shared);
        body
    }

    /// As [`Self::body_again`], of a body that is a buffer already.
    ///
    /// # Panics
    /// If the length is not that of the other body.
    pub fn body_shared_again(&mut self, shared: SharedBody, bytes: Bytes) -> BodyId {
        let body = self.body_shared(Durability::Durable, bytes);
        self.builder.note_shared(shared);
        body
    }

    /// Appends an entry with this body, which counts for `bytes`, and gives its index.
    ///
    /// # Panics
    /// If there is no such log, if the body is of another shard or was put in before the log's last
    /// one of its class.
    pub fn append(&mut self, id: LogId, body: BodyId, bytes: u32) -> u64 {
        assert_eq!(
            body.shard().0,
            u16::from(self.shard),
            "{body:?} is of another shard"
        );
        let Some(log) = self.logs.get_mut(&id) else {
            panic!("append to log {id}, which does not exist");
        };
        let (index, sequence) = (log.next_index, body.sequence());
        log.next_index += 1;
        if body.is_volatile() {
            log.volatile.append(index, sequence, bytes);
            self.volatile.note(id, index, sequence);
            return index;
        }
        assert!(sequence >= self.flushed.body, "{body:?} is forgotten");
        if log.durable.runs.is_empty() {
            self.with_runs.add(id);
        }
        log.durable.append(index, sequence, bytes);
        self.builder.awaited = true;
        if log.kind == LogKind::Volatile {
            return index;
        }
        let spot = &mut log.run_spot;
        if (spot.seq, spot.next_index, spot.next_body) == (self.builder.seq, index, sequence) {
            self.builder.extend_run(spot.at, u64::from(bytes));
        } else {
            let run = Record::Run {
                first_index: index,
                first_body: sequence,
                count: 1,
                bytes: u64::from(bytes),
            };
            (spot.seq, spot.at) = (self.builder.seq, self.builder.push_record(id, run));
            // A settle of these entries must be read after the run, so it may not join one that was
            // recorded before.
            log.settle_spot = Spot::default();
        }
        let spot = &mut log.run_spot;
        (spot.next_index, spot.next_body) = (index + 1, sequence + 1);
        index
    }

    /// Ends the life of entries. `bytes` is what they counted for. Gives how many there were;
    /// settled and unknown ones are passed over.
    pub fn settle(&mut self, id: LogId, range: Range<u64>, bytes: u64) -> u64 {
        let Some(log) = self.logs.get_mut(&id) else {
            return 0;
        };
        // What is recorded must not reach entries that are appended later: their run may be
        // recorded before.
        let range = range.start..range.end.min(log.next_index);
        if range.is_empty() {
            return 0;
        }
        let freed = &mut self.freed;
        let (removed, volatile, durable_bytes) = if log.volatile.live.is_empty() {
            (log.durable.settle(range.clone(), bytes, freed), 0, bytes)
        } else {
            let durable = log.durable.live.count_within(range.clone());
            let volatile = log.volatile.live.count_within(range.clone());
            let share = share_of(bytes, durable, durable + volatile);
            log.volatile.settle(range.clone(), bytes - share, freed);
            (
                log.durable.settle(range.clone(), share, freed),
                volatile,
                share,
            )
        };
        if removed > 0 && log.kind == LogKind::Durable {
            let spot = &mut log.settle_spot;
            if (spot.seq, spot.next_index) == (self.builder.seq, range.start) {
                self.builder
                    .extend_settle(spot.at, range.end, durable_bytes);
            } else {
                let settle = Record::Settle {
                    start: range.start,
                    end: range.end,
                    bytes: durable_bytes,
                };
                (spot.seq, spot.at) = (self.builder.seq, self.builder.push_record(id, settle));
            }
            spot.next_index = range.end;
        }
        if !self.freed.is_empty() {
            self.account_freed();
        }
        removed + volatile
    }

    /// Replaces a log's opaque state, which is kept as the log is: in the write-ahead log, then in
    /// checkpoints.
    pub fn set_state(&mut self, id: LogId, blob: &[u8]) {
        let Some(log) = self.logs.get_mut(&id) else {
            panic!("state of log {id}, which does not exist");
        };
        log.state.clear();
        log.state.extend_from_slice(blob);
        if log.kind == LogKind::Durable {
            self.record(id, Record::State(blob), true);
        }
    }

    /// A log's opaque state; empty where there is none.
    #[must_use]
    pub fn state(&self, id: LogId) -> &[u8] {
        self.logs.get(&id).map_or(&[], |log| &log.state)
    }

    /// Records the term and vote of the Raft group whose log this is. Neither counts before it is
    /// durable.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn set_term_and_vote(&mut self, id: LogId, term: u64, vote: u64) {
        let Some(log) = self.logs.get_mut(&id) else {
            panic!("vote of log {id}, which does not exist");
        };
        log.term_and_vote = Some((term, vote));
        if log.kind == LogKind::Durable {
            self.record(id, Record::Vote { term, vote }, true);
        }
    }

    /// Term and vote as last recorded.
    #[must_use]
    pub fn term_and_vote(&self, id: LogId) -> Option<(u64, u64)> {
        self.logs.get(&id)?.term_and_vote
    }

    /// Makes `index` the next entry's, although the entries before it were never appended here:
    /// they count as settled. Nothing happens if the log is there or further already.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn skip_to(&mut self, id: LogId, index: u64) {
        let Some(log) = self.logs.get_mut(&id) else {
            panic!("skip in log {id}, which does not exist");
        };
        if index <= log.next_index {
            return;
        }
        log.next_index = index;
        if log.kind == LogKind::Durable {
            self.record(id, Record::Skip { to: index }, true);
        }
    }

    /// Lets an opaque state stand for all entries below `index`: they are settled, the next entry
    /// has at least this index, and the state is `blob`. All of it is in one chunk, so that a crash
    /// leaves all or nothing.
    ///
    /// What the entries counted for is taken in proportion to their number, which is exact where
    /// none remains.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn set_snapshot(&mut self, id: LogId, index: u64, blob: &[u8]) {
        let stats = self.log_stats(id).unwrap_or_default();
        let gone = self.live(id).count_within(0..index);
        let bytes = share_of(stats.bytes, gone, stats.entries);
        self.settle(id, 0..index, bytes);
        self.skip_to(id, index);
        self.set_state(id, blob);
    }

    /// Makes entries from `from` on never to have been; the next one appended has this index.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn truncate(&mut self, id: LogId, from: u64) {
        let Some(log) = self.logs.get_mut(&id) else {
            panic!("truncation of log {id}, which does not exist");
        };
        if from >= log.next_index {
            return;
        }
        log.next_index = from;
        log.durable.truncate(from, &mut self.freed);
        log.volatile.truncate(from, &mut self.freed);
        (log.run_spot, log.settle_spot) = (Spot::default(), Spot::default());
        if log.kind == LogKind::Durable {
            self.record(id, Record::Truncate { from }, true);
        }
        self.cut(id, from);
        self.account_freed();
    }

    /// What files hold of a log from `from` on is no longer its own.
    pub(crate) fn cut(&mut self, id: LogId, from: u64) {
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        // Blocks that a flush writes just now may hold what was truncated: they are cut when they
        // arrive.
        let before = self.files.keys().next_back().map_or(0, |last| last + 1);
        log.cut(Cut { before, from });
        if let Some(epoch) = self.work.truncate(id) {
            log.truncations.push((epoch, from));
        }
    }

    pub(crate) fn record(&mut self, id: LogId, record: Record<'_>, awaited: bool) {
        self.builder.push_record(id, record);
        self.builder.awaited |= awaited;
        // What comes later must not be taken for earlier: no record from before this one grows any
        // more.
        if let Some(log) = self.logs.get_mut(&id) {
            (log.run_spot, log.settle_spot) = (Spot::default(), Spot::default());
        }
    }

    pub(crate) fn note_damage(&mut self, id: LogId, lost: Range<u64>, note: String) {
        if let Some(log) = self.logs.get_mut(&id) {
            let damage = log.damage_mut();
            damage.lost.insert_range(lost);
            damage.note(note);
        }
    }

    /// What is wrong with a log, if anything is. Nothing of such a log should be served before
    /// [`Self::accept_loss`]; or nothing of it is wanted any more: [`Self::renew_log`].
    #[must_use]
    pub fn damage(&self, id: LogId) -> Option<&Damage> {
        self.logs.get(&id)?.damage.as_deref()
    }

    /// Accepts that the damaged entries of a log are lost: they count as settled, and the log is
    /// sound again. Gives how many these are.
    pub fn accept_loss(&mut self, id: LogId) -> u64 {
        let Some(log) = self.logs.get_mut(&id) else {
            return 0;
        };
        let Some(damage) = log.damage.take() else {
            return 0;
        };
        let stats = self.log_stats(id).unwrap_or_default();
        let mut lost = 0;
        for range in damage.lost.iter() {
            let count = self.live(id).count_within(range.clone());
            let bytes = share_of(stats.bytes, count, stats.entries);
            lost += self.settle(id, range, bytes);
        }
        self.record(id, Record::Accept, true);
        lost
    }

    /// The entries of a log that live.
    #[must_use]
    pub fn live(&self, id: LogId) -> RangeSet {
        let Some(log) = self.logs.get(&id) else {
            return RangeSet::new();
        };
        let mut live = log.durable.live.clone();
        for range in log.volatile.live.iter() {
            live.insert_range(range);
        }
        live
    }
}
