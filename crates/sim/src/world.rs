//! A store, a disk under it, and the model beside it: driven by a seed, in the order of calls that
//! the broker's threads make.
//!
//! The write-ahead log's thread seals, writes and tells; the segment writer's thread plans, writes
//! and takes in, then checkpoints; between any two of these steps the shards go on. Here each step
//! is an action that the seed picks, so that they interleave in any order that threads could give.

use crate::check::{Tolerance, Violation, check_read, check_recovered, read};
use crate::disk::SimDisk;
use crate::file_system::FileSystem;
use crate::model::{Entry, Model, Operation};
use leveret_amqp::fuzz::Random;
use leveret_storage::{
    BodyId, CheckpointError, CheckpointPart, CheckpointWriter, CompactionPlan, Durability, Fatal,
    FlushPlan, Folders, Generation, LogKind, OpenError, Options, PrepareError, Read, Reader,
    Recovered, SealedChunk, SegmentError, SegmentWriter, ShardLogs, SharedBody, StoreLock,
    WalError, WalOutcome, WalPool, WalWriter, Written, recover,
};
use leveret_types::LogId;
use std::path::Path;

/// Shards of a simulated store.
pub const SHARDS: u16 = 3;
/// Bytes of a file of the write-ahead log: a few batches.
pub const WAL_FILE_BYTES: u64 = 48 * 1024;
/// Logs that live at most.
const LOGS_MAX: usize = 14;
/// Logs that one body is appended to at most, of all shards.
pub const FAN_OUT_MAX: u64 = 3;
/// Prepared files that are kept for the write-ahead log.
const READY_FILES: usize = 2;

/// Why a world does not go on.
#[derive(Debug)]
pub enum Stop {
    /// The process has ended, as it must after a failed write or sync, or in a crash.
    Ended(String),
    /// A promise was broken.
    Violation(Violation),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl From<Fatal> for Stop {
    fn from(fatal: Fatal) -> Self {
        Self::Ended(fatal.to_string())
    }
}

/// What the segment writer's thread is at.
enum Work {
    Idle,
    Flush {
        through: Generation,
        shard: usize,
        plan: FlushPlan,
        written: Option<Written>,
    },
    PageOut {
        shard: usize,
        plan: FlushPlan,
    },
    Compaction {
        shard: usize,
        plan: CompactionPlan,
        written: Option<Written>,
    },
    Checkpoint {
        parts: Vec<CheckpointPart>,
        flushed: Option<Generation>,
    },
}

/// What the seed has seen happen: whether a workload covers what it should.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Files of the write-ahead log that became full.
    pub rolls: u64,
    /// Flushes taken in.
    pub flushes: u64,
    /// Page-outs taken in.
    pub page_outs: u64,
    /// Compactions taken in.
    pub compactions: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Files of the write-ahead log that were used again.
    pub recycled: u64,
    /// Logs deleted.
    pub deleted_logs: u64,
    /// Logs that began again under their ids.
    pub renewed_logs: u64,
    /// Truncations that reached entries in segment files.
    pub deep_truncations: u64,
    /// Bodies that the write-ahead log referred to instead of writing them again.
    pub references: u64,
    /// Refusals because the disk was full.
    pub no_space: u64,
}

impl Covered {
    /// Adds what another run has seen.
    pub fn add(&mut self, other: Self) {
        self.rolls += other.rolls;
        self.flushes += other.flushes;
        self.page_outs += other.page_outs;
        self.compactions += other.compactions;
        self.checkpoints += other.checkpoints;
        self.recycled += other.recycled;
        self.deleted_logs += other.deleted_logs;
        self.renewed_logs += other.renewed_logs;
        self.deep_truncations += other.deep_truncations;
        self.references += other.references;
        self.no_space += other.no_space;
    }

    /// Whether everything has happened that a crash could fall into.
    #[must_use]
    pub fn all(&self) -> bool {
        let seen = [self.rolls, self.flushes, self.page_outs, self.compactions];
        let more = [
            self.checkpoints,
            self.recycled,
            self.deleted_logs,
            self.references,
        ];
        seen.iter().chain(&more).all(|count| *count > 0)
    }
}

/// The folders of every simulated store.
#[must_use]
pub fn folders() -> Folders {
    Folders::within(Path::new("/store"))
}

/// The options of every simulated store: everything small, so that much happens.
#[must_use]
pub fn options() -> Options {
    Options {
        uuid: *b"simulated-store!",
        shards: SHARDS,
        cache_bytes: 48 * 1024,
        loaded_bytes: 1024 * 1024,
        wal_file_bytes: WAL_FILE_BYTES,
        wal_pool_files: READY_FILES,
    }
}

/// The parts of an open store.
struct Engine {
    shards: Vec<ShardLogs>,
    wal: WalWriter<SimDisk>,
    segment: SegmentWriter<SimDisk>,
    checkpoint: CheckpointWriter<SimDisk>,
    pool: WalPool<SimDisk>,
    reader: Reader<SimDisk>,
    pending: Vec<SealedChunk>,
    full: Option<Generation>,
    work: Work,
    _lock: StoreLock<SimDisk>,
}

impl Engine {
    fn new(recovered: Recovered<SimDisk>) -> Self {
        Self {
            shards: recovered.shards,
            wal: recovered.wal,
            segment: recovered.segment,
            checkpoint: recovered.checkpoint,
            pool: recovered.pool,
            reader: recovered.reader,
            pending: Vec::new(),
            full: recovered.flush_through,
            work: Work::Idle,
            _lock: recovered.lock,
        }
    }
}

/// A body that may be given to other shards too.
#[derive(Clone, Copy)]
struct Handed {
    shared: SharedBody,
    entry: Entry,
    /// Logs that it may be appended to yet.
    left: u64,
}

/// A store under way.
pub struct World {
    /// What it stands on.
    pub disk: SimDisk,
    /// What it must hold.
    pub model: Model,
    /// What has happened.
    pub covered: Covered,
    random: Random,
    /// Whether logs are treated as Raft groups treat theirs: suffixes are overwritten, snapshots
    /// stand for prefixes. So it is with every fifth seed.
    replicated: bool,
    /// Whether bodies go to several shards: not where a seed has a name for what it found before
    /// they could.
    shares: bool,
    next_log: u64,
    handed: Option<Handed>,
    engine: Engine,
}

/// Why a store could not be opened, or what was wrong with it.
#[derive(Debug)]
pub enum Refused {
    /// It said so.
    Open(OpenError),
    /// It should have.
    Violation(Violation),
}

/// Opens the store on a disk and checks it against the model, which goes on from there.
///
/// # Errors
/// [`Refused`].
pub fn open_checked(
    disk: &SimDisk,
    model: &mut Model,
    tolerance: Tolerance,
) -> Result<Recovered<SimDisk>, Refused> {
    let mut recovered = recover(disk, &folders(), &options()).map_err(Refused::Open)?;
    check_recovered(&mut recovered, model, tolerance).map_err(Refused::Violation)?;
    Ok(recovered)
}

impl World {
    /// Opens the store on this disk, which must hold what the model says.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(disk: SimDisk, mut model: Model, seed: u64) -> Result<Self, Refused> {
        let recovered = open_checked(&disk, &mut model, Tolerance::None)?;
        // No log's name is used again: not even that of one of which a crash left no trace.
        let mut random = Random::new(seed);
        let next_log = random.next_u64() >> 1;
        Ok(Self {
            disk,
            model,
            covered: Covered::default(),
            random,
            replicated: seed % 5 == 3,
            shares: !matches!(seed % 5, 1 | 4),
            next_log,
            handed: None,
            engine: Engine::new(recovered),
        })
    }

    /// A new store on a new disk.
    ///
    /// # Panics
    /// If it cannot be made, which nothing explains.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        match Self::open(SimDisk::new(), Model::new(SHARDS), seed) {
            Ok(world) => world,
            Err(refused) => panic!("a new store: {refused:?}"),
        }
    }

    /// Ends the process and gives what remains.
    #[must_use]
    pub fn into_parts(self) -> (SimDisk, Model) {
        self.disk.kill();
        (self.disk, self.model)
    }

    /// Does one thing that the seed picks.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn step(&mut self) -> Result<(), Stop> {
        match self.random.below(100) {
            68 | 69 if self.replicated => self.replicate(),
            34..38 if self.shares => self.append_again(),
            0..38 => self.append(),
            38..60 => self.settle(),
            60..64 => self.create_log(),
            64..66 => self.delete_log(),
            66..68 => self.set_state(),
            68..70 => self.truncate(),
            70..71 => self.flood(),
            71..84 => self.write_wal()?,
            84..87 => self.mark_idle()?,
            87..97 => self.work()?,
            _ => self.read_some()?,
        }
        Ok(())
    }

    /// Does `count` things and shows `visit` every moment between two changes of the disk, with
    /// what must hold there.
    ///
    /// # Errors
    /// [`Stop`], of the world or of the visitor.
    pub fn watch(
        &mut self,
        count: u64,
        visit: &mut dyn FnMut(FileSystem, &Model) -> Result<(), Violation>,
    ) -> Result<(), Stop> {
        self.disk.watch();
        for _ in 0..count {
            let before = self.model.clone();
            self.step()?;
            // What the step has confirmed was not yet confirmed when its changes were made.
            for image in self.disk.take_images() {
                visit(image, &before)?;
            }
        }
        Ok(())
    }

    fn any_shard(&mut self) -> usize {
        self.random.below(u64::from(SHARDS)) as usize
    }

    /// Some log of a shard.
    fn any_log(&mut self, shard: usize) -> Option<LogId> {
        let logs = &self.model.shards[shard].now;
        let at = self.random.below(logs.len().max(1) as u64) as usize;
        logs.keys().nth(at).copied()
    }

    /// Tells the model what was done, with the chunk that it went into.
    fn done(&mut self, shard: usize, log: LogId, operation: Operation) {
        let chunk = self.engine.shards[shard].position();
        self.model.shards[shard].done(chunk, log, operation);
    }

    fn create_log(&mut self) {
        let shard = self.any_shard();
        let logs: usize = self.model.shards.iter().map(|s| s.now.len()).sum();
        if logs >= LOGS_MAX {
            return;
        }
        let kind = if self.random.below(6) == 0 {
            LogKind::Volatile
        } else {
            LogKind::Durable
        };
        self.create(shard, kind);
    }

    fn create(&mut self, shard: usize, kind: LogKind) {
        self.next_log += 1;
        let id = LogId(self.next_log);
        self.engine.shards[shard].create_log(id, kind);
        self.done(shard, id, Operation::Create(kind));
    }

    fn delete_log(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        if self.replicated && self.random.below(2) == 0 {
            self.engine.shards[shard].renew_log(id);
            self.done(shard, id, Operation::Renew);
            self.covered.renewed_logs += 1;
            return;
        }
        self.engine.shards[shard].delete_log(id);
        self.done(shard, id, Operation::Delete);
        self.covered.deleted_logs += 1;
    }

    fn set_state(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        if self.model.shards[shard].now[&id].kind == LogKind::Volatile {
            return;
        }
        if self.random.below(2) == 0 {
            let blob = self.random.bytes(40);
            self.engine.shards[shard].set_state(id, &blob);
            self.done(shard, id, Operation::State(blob));
        } else {
            let (term, vote) = (self.random.below(9), self.random.below(3));
            self.engine.shards[shard].set_term_and_vote(id, term, vote);
            self.done(shard, id, Operation::Vote(term, vote));
        }
    }

    fn truncate(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let next = self.model.shards[shard].now[&id].next_index;
        let from = next.saturating_sub(self.random.below(6));
        self.engine.shards[shard].truncate(id, from);
        self.done(shard, id, Operation::Truncate(from));
    }

    fn replicate(&mut self) {
        match self.random.below(4) {
            0 | 1 => self.overwrite(),
            2 => self.skip(),
            _ => self.flood(),
        }
    }

    /// What a follower does whose entries were never committed: they give way to others with the
    /// same indexes, and its term may change in the same breath.
    fn overwrite(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let log = &self.model.shards[shard].now[&id];
        let (next, kind) = (log.next_index, log.kind);
        // Mostly a few entries; sometimes so many that their bodies are in segments.
        let most = if self.random.below(3) == 0 { next } else { 12 };
        let from = next - self.random.below(next.min(most) + 1);
        if kind == LogKind::Durable && self.random.below(2) == 0 {
            let (term, vote) = (self.random.below(9), self.random.below(3));
            self.engine.shards[shard].set_term_and_vote(id, term, vote);
            self.done(shard, id, Operation::Vote(term, vote));
        }
        let in_segments = |logs: &ShardLogs| logs.log_stats(id).map(|stats| stats.segment_entries);
        let logs = &mut self.engine.shards[shard];
        let before = in_segments(logs);
        logs.truncate(id, from);
        self.covered.deep_truncations += u64::from(in_segments(logs) < before);
        self.done(shard, id, Operation::Truncate(from));
        for _ in 0..self.random.below(12) {
            let volatile = self.random.below(8) == 0;
            let len = self.random.below(2_000) as u32;
            let (entry, body) = self.body(shard, len, volatile);
            self.append_to(shard, id, entry, body);
        }
    }

    /// Leaves indexes out, or lets a state stand for entries: some, or more than there are.
    fn skip(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let next = self.model.shards[shard].now[&id].next_index;
        let index = match self.random.below(4) {
            0 => self.random.below(next + 1),
            1 => next + (self.random.next_u64() >> 30),
            _ => next + self.random.below(20),
        };
        if self.random.below(2) == 0 {
            self.engine.shards[shard].skip_to(id, index);
            self.done(shard, id, Operation::Skip(index));
        } else {
            let blob = self.random.bytes(200);
            self.engine.shards[shard].set_snapshot(id, index, &blob);
            self.done(shard, id, Operation::Snapshot(index, blob));
        }
    }

    fn append(&mut self) {
        let len = match self.random.below(100) {
            0..70 => self.random.below(300),
            70..99 => self.random.below(3_000),
            _ => self.random.below(40_000),
        };
        let volatile = self.random.below(8) == 0;
        self.append_one(len as u32, volatile);
    }

    /// So much at once that chunks fill, files overflow and volatile bodies must leave the cache.
    fn flood(&mut self) {
        let volatile = self.random.below(2) == 0;
        for _ in 0..self.random.below(4) + 2 {
            let len = 30_000 + self.random.below(60_000);
            self.append_one(len as u32, volatile);
        }
    }

    fn append_one(&mut self, len: u32, volatile: bool) {
        let shard = self.any_shard();
        if self.model.shards[shard].now.is_empty() {
            return;
        }
        let (entry, body) = self.body(shard, len, volatile);
        let shared = self.engine.shards[shard].share(body);
        let count = self.random.below(FAN_OUT_MAX) + 1;
        for _ in 0..count {
            let Some(id) = self.any_log(shard) else {
                return;
            };
            self.append_to(shard, id, entry, body);
        }
        if let Some(shared) = shared {
            let left = FAN_OUT_MAX - count;
            self.handed = Some(Handed {
                shared,
                entry,
                left,
            });
            if self.shares && self.random.below(2) == 0 {
                self.append_again();
            }
        }
    }

    /// Gives another shard the last body, as a publish to queues of several shards does: at once,
    /// or after the write-ahead log has passed by.
    fn append_again(&mut self) {
        while let Some(handed) = self.handed.as_mut().filter(|handed| handed.left > 0) {
            handed.left -= 1;
            let Handed { shared, entry, .. } = *handed;
            let shard = self.any_shard();
            let Some(id) = self.any_log(shard) else {
                return;
            };
            let payload = entry.payload();
            let body = self.engine.shards[shard].body_again(shared, &[&payload]);
            self.append_to(shard, id, entry, body);
            if self.random.below(2) == 0 {
                return;
            }
        }
    }

    fn body(&mut self, shard: usize, len: u32, volatile: bool) -> (Entry, BodyId) {
        let seed = self.random.next_u64();
        let entry = Entry {
            seed,
            len,
            volatile,
        };
        let durability = if volatile {
            Durability::Volatile
        } else {
            Durability::Durable
        };
        let payload = entry.payload();
        let (head, tail) = payload.split_at(payload.len() / 3);
        let body = self.engine.shards[shard].body(durability, &[head, tail]);
        (entry, body)
    }

    fn append_to(&mut self, shard: usize, id: LogId, entry: Entry, body: BodyId) {
        let expected = self.model.shards[shard].now[&id].next_index;
        let index = self.engine.shards[shard].append(id, body, entry.len);
        assert_eq!(index, expected, "entries of log {id} are numbered densely");
        self.done(shard, id, Operation::Append(index, entry));
    }

    fn settle(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let log = &self.model.shards[shard].now[&id];
        let count = log.live.len() as u64;
        // Mostly from the front, as consumers do; sometimes most of it, so that segments die.
        let skip = if self.random.below(3) == 0 {
            self.random.below(count.max(1))
        } else {
            0
        };
        let Some(start) = log.live.keys().nth(skip as usize).copied() else {
            return;
        };
        let reach = if self.random.below(4) == 0 { count } else { 4 };
        let end = start + 1 + self.random.below(reach.max(1));
        let bytes = log.bytes_within(start..end);
        let settled = self.engine.shards[shard].settle(id, start..end, bytes);
        let expected = log.live.range(start..end).count() as u64;
        assert_eq!(settled, expected, "settled of log {id}");
        self.done(shard, id, Operation::Settle(start..end));
    }

    fn read_some(&mut self) -> Result<(), Stop> {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return Ok(());
        };
        let live = self.model.shards[shard].now[&id].live.clone();
        let skip = self.random.below(live.len().max(1) as u64) as usize;
        let engine = &mut self.engine;
        for (index, entry) in live.iter().skip(skip).take(8) {
            let read = read(&mut engine.shards[shard], &mut engine.reader, id, *index);
            if matches!(read, Read::Damaged(_)) && self.disk.fault_fired() {
                return Err(Stop::Ended("a read has failed".into()));
            }
            check_read(id, *index, entry, read)?;
        }
        Ok(())
    }

    /// What the write-ahead log's thread does: everything that gathered, as few batches as can be.
    fn write_wal(&mut self) -> Result<(), Stop> {
        let engine = &mut self.engine;
        for shard in &mut engine.shards {
            shard.seal(&mut engine.pending);
        }
        while !self.engine.pending.is_empty() {
            let engine = &mut self.engine;
            match engine.wal.write(&mut engine.pending) {
                Ok(outcome) => self.written(outcome),
                Err(WalError::NoSpace) => {
                    self.covered.no_space += 1;
                    return Ok(());
                }
                Err(WalError::Fatal(fatal)) => return Err(fatal.into()),
            }
        }
        Ok(())
    }

    fn written(&mut self, outcome: WalOutcome) {
        let engine = &mut self.engine;
        self.covered.rolls += u64::from(outcome.rolled.is_some());
        self.covered.references += outcome.references;
        engine.full = outcome.rolled.or(engine.full);
        for (shard, chunk, place) in outcome.written {
            let shard = usize::from(shard);
            engine.shards[shard].on_durable([(chunk, place)]);
            self.model.shards[shard].confirm(chunk);
        }
    }

    /// Says that all is durable: from then on damage to any of it is damage, and no torn tail.
    ///
    /// # Errors
    /// [`Stop::Ended`].
    pub fn mark_idle(&mut self) -> Result<(), Stop> {
        match self.engine.wal.mark_idle() {
            Ok(outcome) => self.written(outcome),
            Err(WalError::NoSpace) => self.covered.no_space += 1,
            Err(WalError::Fatal(fatal)) => return Err(fatal.into()),
        }
        Ok(())
    }

    /// One step of what the segment writer's thread does.
    fn work(&mut self) -> Result<(), Stop> {
        match std::mem::replace(&mut self.engine.work, Work::Idle) {
            Work::Idle => self.begin_work(),
            Work::Flush {
                through,
                shard,
                plan,
                written: Some(written),
            } => {
                self.engine.shards[shard].finish_flush(&plan, written);
                self.covered.flushes += 1;
                self.flush_next(through, shard + 1);
                Ok(())
            }
            Work::Flush {
                through,
                shard,
                plan,
                written: None,
            } => {
                let written = self.write_segments(shard, &plan)?;
                if written.is_some() {
                    self.engine.work = Work::Flush {
                        through,
                        shard,
                        plan,
                        written,
                    };
                }
                Ok(())
            }
            Work::PageOut { shard, plan } => {
                if let Some(written) = self.write_segments(shard, &plan)? {
                    self.engine.shards[shard].finish_flush(&plan, written);
                    self.covered.page_outs += 1;
                }
                Ok(())
            }
            Work::Compaction {
                shard,
                plan,
                written: Some(written),
            } => {
                self.engine.shards[shard].finish_compaction(&plan, written);
                self.covered.compactions += 1;
                self.begin_checkpoint(None);
                Ok(())
            }
            Work::Compaction {
                shard,
                plan,
                written: None,
            } => self.compact(shard, plan),
            Work::Checkpoint { parts, flushed } => self.checkpoint(&parts, flushed),
        }
    }

    /// Carries out a flush or page-out; nothing if the disk is full.
    fn write_segments(&mut self, shard: usize, plan: &FlushPlan) -> Result<Option<Written>, Stop> {
        match self.engine.segment.flush(plan, &mut |_| ()) {
            Ok(written) => Ok(Some(written)),
            Err(error) => {
                self.engine.shards[shard].abandon_flush(plan);
                self.no_space(error).map(|()| None)
            }
        }
    }

    fn compact(&mut self, shard: usize, plan: CompactionPlan) -> Result<(), Stop> {
        match self.engine.segment.compact(&plan, &mut |_| ()) {
            Ok(written) => {
                let written = Some(written);
                self.engine.work = Work::Compaction {
                    shard,
                    plan,
                    written,
                };
                Ok(())
            }
            Err(error) => {
                self.engine.shards[shard].abandon_compaction(&plan);
                self.no_space(error)
            }
        }
    }

    fn no_space(&mut self, error: SegmentError) -> Result<(), Stop> {
        match error {
            SegmentError::NoSpace => {
                self.covered.no_space += 1;
                Ok(())
            }
            SegmentError::Fatal(fatal) => Err(fatal.into()),
        }
    }

    fn begin_work(&mut self) -> Result<(), Stop> {
        self.keep_ready()?;
        if let Some(through) = self.engine.full {
            self.flush_next(through, 0);
            return Ok(());
        }
        for (shard, logs) in self.engine.shards.iter_mut().enumerate() {
            if logs.wants_page_out() {
                self.engine.work = Work::PageOut {
                    shard,
                    plan: logs.begin_page_out(),
                };
                return Ok(());
            }
            if let Some(plan) = logs.begin_compaction() {
                self.engine.work = Work::Compaction {
                    shard,
                    plan,
                    written: None,
                };
                return Ok(());
            }
        }
        if self.random.below(8) == 0 {
            self.begin_checkpoint(None);
        }
        Ok(())
    }

    fn flush_next(&mut self, through: Generation, shard: usize) {
        match self.engine.shards.get_mut(shard) {
            Some(logs) => {
                let plan = logs.begin_flush(through);
                self.engine.work = Work::Flush {
                    through,
                    shard,
                    plan,
                    written: None,
                };
            }
            None => self.begin_checkpoint(Some(through)),
        }
    }

    fn begin_checkpoint(&mut self, flushed: Option<Generation>) {
        let parts = self
            .engine
            .shards
            .iter_mut()
            .map(ShardLogs::checkpoint_part)
            .collect();
        self.engine.work = Work::Checkpoint { parts, flushed };
    }

    fn checkpoint(
        &mut self,
        parts: &[CheckpointPart],
        flushed: Option<Generation>,
    ) -> Result<(), Stop> {
        let behind =
            |(shard, part): (&ShardLogs, &CheckpointPart)| shard.durable_through() < part.after();
        if self.engine.shards.iter().zip(parts).any(behind) {
            self.write_wal()?;
        }
        if self.engine.shards.iter().zip(parts).any(behind) {
            // The disk is full: what the checkpoint would tell of is not durable.
            return Ok(());
        }
        let engine = &mut self.engine;
        let (pooled, next_file) = (engine.wal.prepared_files(), engine.segment.next_file());
        let released = match engine
            .checkpoint
            .write(parts, next_file, &mut engine.pool, pooled)
        {
            Ok(released) => released,
            Err(CheckpointError::NoSpace) => {
                self.covered.no_space += 1;
                return Ok(());
            }
            Err(CheckpointError::Fatal(fatal)) => return Err(fatal.into()),
        };
        for (shard, part) in engine.shards.iter_mut().zip(parts) {
            shard.finish_checkpoint(part);
        }
        self.covered.checkpoints += 1;
        self.covered.recycled += released.recycled.len() as u64;
        released
            .recycled
            .into_iter()
            .for_each(|file| engine.wal.supply(file));
        if flushed.is_some() && engine.full == flushed {
            engine.full = None;
        }
        Ok(())
    }

    fn keep_ready(&mut self) -> Result<(), Stop> {
        if self.engine.wal.prepared_files() >= READY_FILES || self.random.below(3) > 0 {
            return Ok(());
        }
        match self.engine.pool.prepare() {
            Ok(file) => self.engine.wal.supply(file),
            Err(PrepareError::NoSpace) => self.covered.no_space += 1,
            Err(PrepareError::Fatal(fatal)) => return Err(fatal.into()),
        }
        Ok(())
    }

    /// Makes all that was done durable.
    ///
    /// # Errors
    /// [`Stop::Ended`].
    pub fn sync(&mut self) -> Result<(), Stop> {
        self.write_wal()
    }

    /// Ends in order: everything is durable, flushed and in a checkpoint. Then the disk holds
    /// nothing that is not accounted for.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn close(mut self) -> Result<(SimDisk, Model), Stop> {
        while !matches!(self.engine.work, Work::Idle) {
            self.work()?;
        }
        // Something is written for sure, so that files that a crash left empty are behind the last
        // flush too.
        self.create(0, LogKind::Durable);
        self.write_wal()?;
        self.engine.full = self.engine.wal.roll().or(self.engine.full);
        match self.engine.full {
            Some(through) => self.flush_next(through, 0),
            None => self.begin_checkpoint(None),
        }
        while !matches!(self.engine.work, Work::Idle) {
            self.work()?;
        }
        self.check_orphans()?;
        Ok(self.into_parts())
    }

    /// After a checkpoint, every file must have an owner.
    fn check_orphans(&self) -> Result<(), Violation> {
        let names: Vec<String> = self
            .disk
            .paths()
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count();
        let segments: usize = self
            .engine
            .shards
            .iter()
            .map(|s| s.stats().segment_files)
            .sum();
        let counts = (
            count(".seg"),
            count(".checkpoint"),
            count(".wal"),
            count(".tmp"),
        );
        if counts != (segments, 1, 0, 0) || count(".free") > READY_FILES {
            let what = format!("{segments} segments are owned, and there are {names:?}");
            return Err(Violation::new("I19", what));
        }
        Ok(())
    }
}
