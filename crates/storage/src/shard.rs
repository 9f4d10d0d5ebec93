//! The logs of one shard: what gathers, what lives, where it is. No IO.

use crate::chunk::{Builder, Chunk, Chunks, Entry, Place, Run, SealedChunk, Spare};
use crate::id::{BodyId, ChunkSeq, Durability, FileId, Generation, LogKind, SharedBody};
use crate::loaded::{Content, Key, Loaded, LoadedCache, ReadRequest, Source};
use crate::log::{Cut, Damage, Freed, Log, Side, Spot, share_of};
use crate::record::Record;
use bytes::Bytes;
use hashbrown::HashMap;
use leveret_types::{LogId, RangeSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// The answer to [`ShardLogs::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The payload; it shares the chunk or block that it lies in.
    Ready(Bytes),
    /// It is being read from disk: carry out [`ShardLogs::take_reads`] and try again when
    /// [`ShardLogs::loaded`] names the log.
    Pending,
    /// No such entry, or it is settled.
    Gone,
    /// The entry lives but cannot be read; why. Its log is damaged from now on, see
    /// [`ShardLogs::damage`].
    Damaged(String),
}

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

/// Counts of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Entries appended and not settled.
    pub entries: u64,
    /// What they count for, as given to [`ShardLogs::append`].
    pub bytes: u64,
    /// Index that the next entry will have.
    pub next_index: u64,
    /// Entries that lie in segment files.
    pub segment_entries: u64,
    /// Bytes that these take on disk, roughly.
    pub segment_bytes: u64,
}

/// Counts of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Logs.
    pub logs: usize,
    /// Bytes of memory in which the logs note where their entries lie.
    pub index_bytes: usize,
    /// Bytes of chunks that are cached, unwritten ones included.
    pub cached_bytes: usize,
    /// Bytes read back from disk, or being read.
    pub loaded_bytes: usize,
    /// Segment files.
    pub segment_files: usize,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Of these, bytes of entries that live.
    pub segment_live_bytes: u64,
}

/// A segment file as its shard counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) bytes: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    /// Whether a compaction under way reads it.
    pub(crate) compacting: bool,
}

impl FileState {
    /// Whether it holds anything that lives, and no compaction under way reads it.
    pub(crate) fn may_be_merged(&self) -> bool {
        self.live > 0 && !self.compacting
    }
}

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
    pub(crate) volatile_builder: Builder,
    volatile_entries: Vec<Entry>,
    sealed: Vec<SealedChunk>,
    pub(crate) chunks: Chunks,
    pub(crate) volatile_chunks: Chunks,
    pub(crate) spare: Spare,
    pub(crate) budget: Budget,
    pub(crate) loaded: LoadedCache,
    pub(crate) files: BTreeMap<FileId, FileState>,
    /// Bodies before this one are in segments.
    pub(crate) flushed_body: u64,
    /// Files of the write-ahead log through this one hold nothing that is not in segments.
    pub(crate) flushed_through: Generation,
    durable_through: ChunkSeq,
    /// Logs with runs of durable bodies; the flag in [`Self::listed`] keeps them unique.
    pub(crate) with_runs: Vec<LogId>,
    pub(crate) listed: hashbrown::HashSet<LogId, foldhash::fast::FixedState>,
    /// Number of the last flush or compaction, and how many are under way.
    pub(crate) epoch: u64,
    pub(crate) outstanding: u32,
    /// Logs that were truncated while these were under way.
    pub(crate) truncated: Vec<LogId>,
    pub(crate) paging: bool,
    pub(crate) freed: Vec<Freed>,
}

impl ShardLogs {
    pub(crate) fn new(shard: u8, budget: Budget) -> Self {
        Self {
            shard,
            logs: HashMap::default(),
            builder: Builder::new(Durability::Durable),
            volatile_builder: Builder::new(Durability::Volatile),
            volatile_entries: Vec::new(),
            sealed: Vec::new(),
            chunks: Chunks::default(),
            volatile_chunks: Chunks::default(),
            spare: Spare::default(),
            budget,
            loaded: LoadedCache::new(budget.loaded_bytes),
            files: BTreeMap::new(),
            flushed_body: 0,
            flushed_through: 0,
            durable_through: 0,
            with_runs: Vec::new(),
            listed: hashbrown::HashSet::default(),
            epoch: 0,
            outstanding: 0,
            truncated: Vec::new(),
            paging: false,
            freed: Vec::new(),
        }
    }

    /// Which shard this is.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
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
                if self.volatile_builder.is_full_for(len) {
                    self.seal_volatile();
                }
                BodyId::new(
                    self.shard,
                    true,
                    self.volatile_builder.push(pieces, len, &mut self.spare),
                )
            }
        }
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
            self.volatile_entry(id, index, sequence);
            return index;
        }
        assert!(sequence >= self.flushed_body, "{body:?} is forgotten");
        if log.durable.runs.is_empty() && self.listed.insert(id) {
            self.with_runs.push(id);
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

    /// Notes that an entry refers to a volatile body, where the body's chunk is.
    fn volatile_entry(&mut self, log: LogId, first_index: u64, first_body: u64) {
        let entries = if first_body >= self.volatile_builder.first_body {
            &mut self.volatile_entries
        } else {
            match self.volatile_chunks.find_mut(first_body) {
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
        if self.outstanding > 0 {
            log.truncations.push((self.epoch, from));
            self.truncated.push(id);
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

    fn seal_durable(&mut self) {
        let chunk = self.builder.seal(self.shard);
        if chunk.bodies.count() > 0 {
            self.chunks.push(Chunk {
                seq: chunk.seq,
                first_body: chunk.first_body,
                count: chunk.bodies.count() as u32,
                bytes: chunk.bodies.bytes() as u32,
                place: None,
                bodies: Some(chunk.bodies.clone()),
                entries: Vec::new(),
            });
        }
        self.sealed.push(chunk);
        self.evict();
    }

    pub(crate) fn seal_volatile(&mut self) {
        let chunk = self.volatile_builder.seal(self.shard);
        self.volatile_chunks.push(Chunk {
            seq: chunk.seq,
            first_body: chunk.first_body,
            count: chunk.bodies.count() as u32,
            bytes: chunk.bodies.bytes() as u32,
            place: None,
            bodies: Some(chunk.bodies),
            entries: std::mem::take(&mut self.volatile_entries),
        });
        self.evict();
    }

    /// Takes in what the write-ahead log made durable: of [`crate::WalOutcome::written`], this
    /// shard's part.
    pub fn on_durable(&mut self, written: impl IntoIterator<Item = (ChunkSeq, Place)>) {
        for (seq, place) in written {
            assert!(seq > self.durable_through, "chunk {seq} is durable twice");
            self.durable_through = seq;
            if let Some(chunk) = self.chunks.find_seq(seq) {
                chunk.place = Some(place);
            }
        }
        self.evict();
    }

    pub(crate) fn set_durable_through(&mut self, seq: ChunkSeq) {
        self.durable_through = seq;
    }

    /// Brings the cache back into its budget, as far as that can be done without IO.
    pub(crate) fn evict(&mut self) {
        while self.chunks.cached_bytes + self.volatile_chunks.cached_bytes > self.budget.cache_bytes
        {
            let volatile_first = self.volatile_chunks.cached_bytes > self.chunks.cached_bytes;
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
            .is_some_and(|c| c.place.is_some());
        if written {
            let bodies = self.chunks.evict_oldest();
            self.spare.reclaim(bodies);
        }
        written
    }

    /// Drops the oldest volatile chunk if nobody needs it.
    fn evict_volatile(&mut self) -> bool {
        let logs = &self.logs;
        let dead = self.volatile_chunks.oldest_cached().is_some_and(|chunk| {
            chunk
                .entries
                .iter()
                .all(|entry| live_parts(logs, entry).next().is_none())
        });
        if dead {
            let bodies = self.volatile_chunks.evict_oldest();
            self.spare.reclaim(bodies);
            self.volatile_chunks.pop_while(|_| true);
        }
        dead
    }

    /// Forgets chunks that are neither cached nor only in the write-ahead log.
    pub(crate) fn forget_chunks(&mut self) {
        let through = self.flushed_through;
        let (chunks, loaded) = (&mut self.chunks, &mut self.loaded);
        chunks.pop_while(|c| {
            let done = c.place.is_some_and(|p| p.generation <= through);
            if done {
                loaded.forget(Key::Chunk(c.seq));
            }
            done
        });
    }

    /// Whether live volatile bodies exceed the cache, so that they must go to a segment: see
    /// [`Self::begin_page_out`].
    #[must_use]
    pub fn wants_page_out(&self) -> bool {
        !self.paging
            && self.volatile_chunks.cached_bytes > 0
            && self.chunks.cached_bytes + self.volatile_chunks.cached_bytes
                > self.budget.cache_bytes
            && self.volatile_chunks.cached_bytes * 2 > self.budget.cache_bytes
    }

    /// Reads an entry.
    pub fn read(&mut self, id: LogId, index: u64) -> Read {
        let Some(log) = self.logs.get(&id) else {
            return Read::Gone;
        };
        let volatile = if log.durable.live.contains(index) {
            false
        } else if log.volatile.live.contains(index) {
            true
        } else {
            return Read::Gone;
        };
        let side = if volatile {
            &log.volatile
        } else {
            &log.durable
        };
        let (builder, chunks) = if volatile {
            (&mut self.volatile_builder, &self.volatile_chunks)
        } else {
            (&mut self.builder, &self.chunks)
        };
        if let Some(body) = side.body(index) {
            if let Some(bytes) = builder.get(body) {
                return Read::Ready(bytes);
            }
            if let Some(chunk) = chunks.find(body) {
                if let Some(bodies) = &chunk.bodies {
                    return Read::Ready(bodies.get((body - chunk.first_body) as usize));
                }
                return self.read_chunk(id, index, body);
            }
        }
        match side.block(index) {
            Some(at) => self.read_block(id, volatile, index, at),
            None => self.lost(id, index, "no place on disk is known for it"),
        }
    }

    /// Reads from a chunk that is no longer cached.
    fn read_chunk(&mut self, id: LogId, index: u64, body: u64) -> Read {
        let Some((chunk, source)) = self
            .chunks
            .find(body)
            .and_then(|c| Some((c, wal_source(c)?)))
        else {
            return self.lost(id, index, "its chunk has no place in the write-ahead log");
        };
        let key = Key::Chunk(chunk.seq);
        let position = (body - chunk.first_body) as usize;
        let after = chunk.first_body + u64::from(chunk.count);
        let Some(held) = self.loaded.get(key) else {
            if let Some(why) = self.loaded.failure(key) {
                let why = why.to_owned();
                return self.lost(id, index, &why);
            }
            self.loaded.demand(self.shard, id, key, source);
            return Read::Pending;
        };
        let Content::Chunk { bodies, damaged } = &held.content else {
            unreachable!("{key:?} holds a chunk");
        };
        if damaged.contains(&(position as u32)) {
            return self.lost(id, index, "its checksum in the write-ahead log is wrong");
        }
        let bytes = bodies.get(position);
        if !std::mem::replace(&mut held.went_ahead, true) {
            self.read_ahead_chunk(after);
        }
        Read::Ready(bytes)
    }

    fn read_ahead_chunk(&mut self, body: u64) {
        if let Some(chunk) = self.chunks.find(body).filter(|c| c.bodies.is_none())
            && let Some(source) = wal_source(chunk)
        {
            self.loaded.ahead(self.shard, Key::Chunk(chunk.seq), source);
        }
    }

    fn read_block(&mut self, id: LogId, volatile: bool, index: u64, at: usize) -> Read {
        let Some(log) = self.logs.get_mut(&id) else {
            return Read::Gone;
        };
        let blocks = &log.side(volatile).blocks;
        let (block, next) = (blocks[at], blocks.get(at + 1).copied());
        let key = Key::Block {
            file: block.file,
            offset: block.offset,
        };
        let Some(held) = self.loaded.get(key) else {
            if let Some(why) = self.loaded.failure(key) {
                let why = why.to_owned();
                return self.lost(id, index, &why);
            }
            self.loaded
                .demand(self.shard, id, key, segment_source(&block));
            return Read::Pending;
        };
        let Content::Block {
            bytes,
            log,
            first_index,
            spans,
        } = &held.content
        else {
            unreachable!("{key:?} holds a block");
        };
        let place = index.checked_sub(*first_index).and_then(|delta| {
            spans
                .binary_search_by_key(&delta, |s| u64::from(s.delta))
                .ok()
        });
        let payload = match place.map(|at| spans[at]) {
            Some(span) if span.sound && *log == id => {
                Ok(bytes.slice(span.start as usize..(span.start + span.len) as usize))
            }
            Some(_) => Err("its checksum in the segment file is wrong"),
            None => Err("the segment block that should hold it does not"),
        };
        let ahead = !std::mem::replace(&mut held.went_ahead, true);
        if let Some(next) = next.filter(|_| ahead) {
            let key = Key::Block {
                file: next.file,
                offset: next.offset,
            };
            self.loaded.ahead(self.shard, key, segment_source(&next));
        }
        match payload {
            Ok(bytes) => {
                if index == block.last_index {
                    self.loaded.retire(key);
                }
                Read::Ready(bytes)
            }
            Err(why) => self.lost(id, index, why),
        }
    }

    /// An entry that lives cannot be read.
    fn lost(&mut self, id: LogId, index: u64, why: &str) -> Read {
        let text = format!("entry {index} of log {id} cannot be read: {why}");
        self.note_damage(id, index..index + 1, text.clone());
        Read::Damaged(text)
    }

    pub(crate) fn note_damage(&mut self, id: LogId, lost: Range<u64>, note: String) {
        if let Some(log) = self.logs.get_mut(&id) {
            let damage = log.damage_mut();
            damage.lost.insert_range(lost);
            damage.note(note);
        }
    }

    /// What is to be read from disk, for [`crate::Reader::read`] on a thread that may wait.
    #[must_use]
    pub fn take_reads(&mut self) -> Vec<ReadRequest> {
        self.loaded.take_requests()
    }

    /// Whether [`Self::take_reads`] would give anything.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.loaded.has_requests()
    }

    /// Takes in what was read. Gives the logs for which a read may go on now: read at once, others'
    /// blocks may need the room.
    pub fn loaded(&mut self, loaded: Loaded) -> Vec<LogId> {
        assert_eq!(loaded.shard, self.shard, "an answer to another shard");
        let key = loaded.key;
        let result = match loaded.result {
            Err(_) if !self.refers_to(key) => {
                // It was moved while the read was under way: whoever waits finds it where it is
                // now.
                let logs = self.loaded.loaded(key, Err(String::new()));
                self.loaded.forget(key);
                return logs;
            }
            result => result,
        };
        self.loaded.loaded(key, result)
    }

    fn refers_to(&mut self, key: Key) -> bool {
        match key {
            Key::Chunk(seq) => {
                let through = self.flushed_through;
                let place = self.chunks.find_seq(seq).and_then(|c| c.place);
                place.is_some_and(|p| p.generation > through)
            }
            Key::Block { file, offset } => self.logs.values().any(|log| {
                let sides = [&log.durable, &log.volatile];
                let mut blocks = sides.into_iter().flat_map(|side: &Side| &side.blocks);
                blocks.any(|b| (b.file, b.offset) == (file, offset))
            }),
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

    /// Counts of a log.
    #[must_use]
    pub fn log_stats(&self, id: LogId) -> Option<LogStats> {
        let log = self.logs.get(&id)?;
        let blocks = log.durable.blocks.iter().chain(&log.volatile.blocks);
        let (segment_entries, segment_bytes) = blocks.fold((0, 0), |(entries, bytes), block| {
            (
                entries + u64::from(block.live),
                bytes + block.share(block.live),
            )
        });
        Some(LogStats {
            entries: log.durable.live.len() + log.volatile.live.len(),
            bytes: log.durable.live_bytes + log.volatile.live_bytes,
            next_index: log.next_index,
            segment_entries,
            segment_bytes,
        })
    }

    /// Counts of the shard.
    #[must_use]
    pub fn stats(&self) -> ShardStats {
        let files = || self.files.values();
        ShardStats {
            logs: self.logs.len(),
            index_bytes: self.logs.values().map(|log| log.memory_bytes()).sum(),
            cached_bytes: self.chunks.cached_bytes
                + self.volatile_chunks.cached_bytes
                + self.builder.bytes()
                + self.volatile_builder.bytes(),
            loaded_bytes: self.loaded.bytes(),
            segment_files: self.files.len(),
            segment_bytes: files().map(|f| f.bytes).sum(),
            segment_live_bytes: files().map(|f| f.live_bytes).sum(),
        }
    }

    /// Counts what was freed against the files that it lay in.
    pub(crate) fn account_freed(&mut self) {
        for freed in self.freed.drain(..) {
            let Some(file) = self.files.get_mut(&freed.file) else {
                panic!("segment file {} is not known", freed.file);
            };
            let entries = u64::from(freed.entries);
            assert!(
                entries <= file.live,
                "{entries} settled of {} in a file",
                file.live
            );
            file.live -= entries;
            file.live_bytes = file.live_bytes.saturating_sub(freed.bytes);
            if let Some(offset) = freed.dead {
                let file = freed.file;
                self.loaded.forget(Key::Block { file, offset });
            }
        }
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

fn wal_source(chunk: &Chunk) -> Option<Source> {
    Some(Source::Wal {
        place: chunk.place?,
        seq: chunk.seq,
        count: chunk.count,
        bytes: chunk.bytes,
    })
}

fn segment_source(block: &crate::log::Block) -> Source {
    Source::Segment {
        file: block.file,
        offset: block.offset,
        len: block.len,
    }
}
