//! A simulated node's segment writer: what the broker has a thread for.

use super::{Node, SHARDS};
use leveret_cluster::Env;
use leveret_storage::{
    CheckpointError, CheckpointWriter, Disk, FlushPlan, Generation, PrepareError, SegmentError,
    SegmentWriter, WalPool,
};
use leveret_types::{Now, ShardId};
use std::ops::ControlFlow;

/// Prepared files that are kept for the write-ahead log.
const READY_FILES: usize = 2;

/// What the segment writer has for its own.
pub(super) struct Segments<D: Disk> {
    pub(super) writer: SegmentWriter<D>,
    pub(super) checkpoints: CheckpointWriter<D>,
    pub(super) pool: WalPool<D>,
    /// The last full file of the log that is not in segments yet.
    pub(super) full: Option<Generation>,
}

/// Why a round of the segment writer ends early.
enum Stop {
    /// The disk is full: later.
    NoSpace,
    /// The process ends.
    Died,
}

impl From<SegmentError> for Stop {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::NoSpace | SegmentError::BrokenOff => Self::NoSpace,
            SegmentError::Fatal(_) => Self::Died,
        }
    }
}

impl<D: Disk> Node<D> {
    /// Lets the segment writer work: full files of the log go to segments, what is mostly dead is
    /// copied together, a checkpoint is written. `None` when the process died of it.
    pub fn tidy(&mut self, now: Now) -> Option<()> {
        match self.tidy_round(now) {
            Ok(()) | Err(Stop::NoSpace) => Some(()),
            Err(Stop::Died) => None,
        }
    }

    fn tidy_round(&mut self, now: Now) -> Result<(), Stop> {
        if let Some(through) = self.segments.full {
            for shard in (0..SHARDS).map(ShardId) {
                let plan = self.env.shard(shard).logs.begin_flush(through);
                self.flush(shard, &plan)?;
            }
            self.checkpoint(now)?;
            self.segments.full = self.segments.full.filter(|full| *full > through);
        }
        for shard in (0..SHARDS).map(ShardId) {
            let plan = {
                let logs = &mut self.env.shard(shard).logs;
                logs.wants_page_out().then(|| logs.begin_page_out())
            };
            if let Some(plan) = plan {
                self.flush(shard, &plan)?;
            }
            let plan = self.env.shard(shard).logs.begin_compaction();
            if let Some(plan) = plan {
                match self
                    .segments
                    .writer
                    .compact(&plan, &mut |_| ControlFlow::Continue(()))
                {
                    Ok(written) => {
                        let logs = &mut self.env.shard(shard).logs;
                        logs.finish_compaction(&plan, written);
                    }
                    Err(error) => {
                        self.env.shard(shard).logs.abandon_compaction(&plan);
                        return Err(error.into());
                    }
                }
                self.checkpoint(now)?;
            }
        }
        while self.wal.prepared_files() < READY_FILES {
            match self.segments.pool.prepare() {
                Ok(file) => self.wal.supply(file),
                Err(PrepareError::NoSpace) => return Err(Stop::NoSpace),
                Err(PrepareError::Fatal(_)) => return Err(Stop::Died),
            }
        }
        Ok(())
    }

    fn flush(&mut self, shard: ShardId, plan: &FlushPlan) -> Result<(), Stop> {
        match self
            .segments
            .writer
            .flush(plan, &mut |_| ControlFlow::Continue(()))
        {
            Ok(written) => {
                self.env.shard(shard).logs.finish_flush(plan, written);
                Ok(())
            }
            Err(error) => {
                self.env.shard(shard).logs.abandon_flush(plan);
                Err(error.into())
            }
        }
    }

    fn checkpoint(&mut self, now: Now) -> Result<(), Stop> {
        let shards = || (0..SHARDS).map(ShardId);
        for shard in shards() {
            self.env
                .with_shard(now, shard, |shard| shard.save_states(false));
        }
        let parts: Vec<_> = shards()
            .map(|shard| self.env.shard(shard).logs.checkpoint_part())
            .collect();
        self.sync(now).ok_or(Stop::Died)?;
        let behind = parts
            .iter()
            .any(|part| self.env.durable(ShardId(u16::from(part.shard()))) < part.after());
        if behind {
            // The log has no space: a checkpoint would tell of what it lacks.
            return Err(Stop::NoSpace);
        }
        let next_file = self.segments.writer.next_file();
        let pooled = self.wal.prepared_files();
        let Segments {
            checkpoints, pool, ..
        } = &mut self.segments;
        let released = match checkpoints.write(&parts, next_file, pool, pooled) {
            Ok(released) => released,
            Err(CheckpointError::NoSpace) => return Err(Stop::NoSpace),
            Err(CheckpointError::Fatal(_)) => return Err(Stop::Died),
        };
        for (shard, part) in shards().zip(&parts) {
            self.env.shard(shard).logs.finish_checkpoint(part);
        }
        for file in released.recycled {
            self.wal.supply(file);
        }
        Ok(())
    }
}
