//! What the threads behind the shards do: the write-ahead log's writes, the segment writer's
//! flushes, compactions and checkpoints, each a step that ends where a thread could be interrupted.

use super::{READY_FILES, Stop, World};
use crate::check::Violation;
use crate::disk::SimDisk;
use crate::model::Model;
use leveret_storage::{
    CheckpointError, CheckpointPart, CheckpointWriter, CompactionPlan, FlushPlan, Generation,
    LogKind, PrepareError, Reader, Recovered, SealedChunk, SegmentError, SegmentWriter, ShardLogs,
    StoreLock, WalError, WalOutcome, WalPool, WalWriter, Written,
};
use std::ops::ControlFlow;

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

/// The parts of an open store.
pub(super) struct Engine {
    pub(super) shards: Vec<ShardLogs>,
    wal: WalWriter<SimDisk>,
    segment: SegmentWriter<SimDisk>,
    checkpoint: CheckpointWriter<SimDisk>,
    pool: WalPool<SimDisk>,
    pub(super) reader: Reader<SimDisk>,
    pending: Vec<SealedChunk>,
    full: Option<Generation>,
    work: Work,
    _lock: StoreLock<SimDisk>,
}

impl Engine {
    pub(super) fn new(recovered: Recovered<SimDisk>) -> Self {
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

impl World {
    /// What the write-ahead log's thread does: everything that gathered, as few batches as can be.
    pub(super) fn write_wal(&mut self) -> Result<(), Stop> {
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
    pub(super) fn work(&mut self) -> Result<(), Stop> {
        match std::mem::replace(&mut self.engine.work, Work::Idle) {
            Work::Idle => self.begin_work(),
            Work::Flush {
                through,
                shard,
                plan,
                written: Some(written),
            } => {
                self.covered.shared_blocks += written.shared_part_count() as u64;
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
                self.covered.shared_compactions += u64::from(written.shared_part_count() > 0);
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
        let mut pace = self.pace();
        match self.engine.segment.flush(plan, &mut pace) {
            Ok(written) => Ok(Some(written)),
            Err(error) => {
                self.engine.shards[shard].abandon_flush(plan);
                self.no_space(error).map(|()| None)
            }
        }
    }

    fn compact(&mut self, shard: usize, plan: CompactionPlan) -> Result<(), Stop> {
        let mut pace = self.pace();
        match self.engine.segment.compact(&plan, &mut pace) {
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

    /// How the work of the segment writer is broken off: now and then, behind its second write.
    fn pace(&mut self) -> impl FnMut(u64) -> ControlFlow<()> + use<> {
        self.segment_works += 1;
        let broken_off = self.segment_works.is_multiple_of(5);
        let mut writes = 0;
        move |_| {
            writes += 1;
            match broken_off && writes > 1 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    fn no_space(&mut self, error: SegmentError) -> Result<(), Stop> {
        match error {
            SegmentError::NoSpace => {
                self.covered.no_space += 1;
                Ok(())
            }
            SegmentError::BrokenOff => {
                self.covered.broken_off += 1;
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
        self.finish_work()?;
        // Something is written for sure, so that files that a crash left empty are behind the last
        // flush too.
        self.create(0, LogKind::Durable);
        self.write_wal()?;
        self.engine.full = self.engine.wal.roll().or(self.engine.full);
        match self.engine.full {
            Some(through) => self.flush_next(through, 0),
            None => self.begin_checkpoint(None),
        }
        let broken_off = self.covered.broken_off;
        self.finish_work()?;
        if self.covered.broken_off == broken_off {
            self.check_orphans()?;
        } else {
            // What was not copied stays in the log, behind a checkpoint as always.
            self.begin_checkpoint(None);
            self.finish_work()?;
        }
        Ok(self.into_parts())
    }

    fn finish_work(&mut self) -> Result<(), Stop> {
        while !matches!(self.engine.work, Work::Idle) {
            self.work()?;
        }
        Ok(())
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
