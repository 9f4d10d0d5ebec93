//! All parts of a store in one struct, run in place: for tools, tests, examples, and for embedding
//! without threads.

use crate::checkpoint::{CheckpointError, CheckpointWriter};
use crate::chunk::SealedChunk;
use crate::disk::Disk;
use crate::error::{OpenError, WalError};
use crate::folders::Folders;
use crate::id::Generation;
use crate::reader::Reader;
use crate::recover::{LogSummary, Options, RecoveryReport, StoreLock, recover};
use crate::segment::writer::{SegmentError, SegmentWriter};
use crate::shard::{Read, ShardLogs};
use crate::wal::pool::{PrepareError, WalPool};
use crate::wal::writer::{WalOutcome, WalWriter};
use leveret_types::LogId;
use std::ops::ControlFlow;

/// What can fail in a [`Store`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The write-ahead log.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// A flush, page-out or compaction.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A prepared file.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
}

impl StoreError {
    /// Whether the disk is full: the same call can be made again when there is space. Anything else
    /// must end the process.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(
            self,
            Self::Wal(WalError::NoSpace)
                | Self::Segment(SegmentError::NoSpace)
                | Self::Checkpoint(CheckpointError::NoSpace)
                | Self::Prepare(PrepareError::NoSpace)
        )
    }
}

/// A store that does its IO when it is told to, in the calling thread.
///
/// ```
/// use leveret_storage::{Durability, Folders, LogKind, MemoryDisk, Options, Read, Store};
/// use leveret_types::LogId;
/// use std::path::Path;
///
/// let disk = MemoryDisk::new();
/// let folders = Folders::within(Path::new("/store"));
/// let (mut store, _) = Store::open(&disk, &folders, &Options::default())?;
/// let shard = &mut store.shards[0];
/// shard.create_log(LogId(1), LogKind::Durable);
/// shard.create_log(LogId(2), LogKind::Durable);
/// let body = shard.body(Durability::Durable, &[b"hello, ", b"world"]);
/// let index = shard.append(LogId(1), body, 12);
/// shard.append(LogId(2), body, 12);
/// store.sync()?; // From here on both entries are durable.
/// store.shards[0].settle(LogId(1), index..index + 1, 12);
/// store.close()?;
///
/// let (mut store, report) = Store::open(&disk, &folders, &Options::default())?;
/// assert!(report.clean);
/// assert_eq!(store.read(LogId(1), 0), Read::Gone);
/// assert_eq!(store.read(LogId(2), 0), Read::Ready("hello, world".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store<D: Disk> {
    /// The logs.
    pub shards: Vec<ShardLogs>,
    /// What each log held when the store was opened.
    pub found: Vec<LogSummary>,
    wal: WalWriter<D>,
    segment: SegmentWriter<D>,
    checkpoint: CheckpointWriter<D>,
    pool: WalPool<D>,
    reader: Reader<D>,
    pending: Vec<SealedChunk>,
    flush_through: Option<Generation>,
    _lock: StoreLock<D>,
}

impl<D: Disk> Store<D> {
    /// Opens a store, or begins one.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        disk: &D,
        folders: &Folders,
        options: &Options,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        let mut recovered = recover(disk, folders, options)?;
        let rolled = recovered.wal.roll();
        let store = Self {
            shards: recovered.shards,
            found: recovered.logs,
            wal: recovered.wal,
            segment: recovered.segment,
            checkpoint: recovered.checkpoint,
            pool: recovered.pool,
            reader: recovered.reader,
            pending: Vec::new(),
            flush_through: rolled.or(recovered.flush_through),
            _lock: recovered.lock,
        };
        Ok((store, recovered.report))
    }

    /// Makes everything durable that was done so far.
    ///
    /// # Errors
    /// [`StoreError::Wal`].
    pub fn sync(&mut self) -> Result<(), StoreError> {
        for shard in &mut self.shards {
            shard.seal(&mut self.pending);
        }
        while !self.pending.is_empty() {
            let outcome = self.wal.write(&mut self.pending)?;
            self.take_in(outcome);
        }
        Ok(())
    }

    /// Says on disk that all before is durable: see [`WalWriter::mark_idle`].
    ///
    /// # Errors
    /// [`StoreError::Wal`].
    pub fn mark_idle(&mut self) -> Result<(), StoreError> {
        let outcome = self.wal.mark_idle()?;
        self.take_in(outcome);
        Ok(())
    }

    fn take_in(&mut self, outcome: WalOutcome) {
        self.flush_through = outcome.rolled.or(self.flush_through);
        for (shard, seq, place) in outcome.written {
            self.shards[usize::from(shard)].on_durable([(seq, place)]);
        }
    }

    /// Whether a file of the write-ahead log is full and waits for [`Self::flush`].
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.flush_through.is_some()
    }

    /// Ends the current file of the write-ahead log, so that the next [`Self::flush`] takes in all
    /// that is durable.
    pub fn roll(&mut self) {
        self.flush_through = self.wal.roll().or(self.flush_through);
    }

    /// Brings what lives only in full files of the write-ahead log into segments, and lets the
    /// files go.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn flush(&mut self) -> Result<(), StoreError> {
        let Some(through) = self.flush_through else {
            return Ok(());
        };
        for shard in &mut self.shards {
            let plan = shard.begin_flush(through);
            match self
                .segment
                .flush(&plan, &mut |_| ControlFlow::Continue(()))
            {
                Ok(written) => shard.finish_flush(&plan, written),
                Err(error) => {
                    shard.abandon_flush(&plan);
                    return Err(error.into());
                }
            }
        }
        self.flush_through = None;
        self.checkpoint()
    }

    /// Brings volatile bodies that exceed the cache into segments, if any do.
    ///
    /// # Errors
    /// [`StoreError::Segment`].
    pub fn page_out(&mut self) -> Result<(), StoreError> {
        for shard in self
            .shards
            .iter_mut()
            .filter(|shard| shard.wants_page_out())
        {
            let plan = shard.begin_page_out();
            match self
                .segment
                .flush(&plan, &mut |_| ControlFlow::Continue(()))
            {
                Ok(written) => shard.finish_flush(&plan, written),
                Err(error) => {
                    shard.abandon_flush(&plan);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Merges mostly dead segment files, once. Says whether there were any.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn compact(&mut self) -> Result<bool, StoreError> {
        let mut any = false;
        for shard in &mut self.shards {
            let Some(plan) = shard.begin_compaction() else {
                continue;
            };
            match self
                .segment
                .compact(&plan, &mut |_| ControlFlow::Continue(()))
            {
                Ok(written) => shard.finish_compaction(&plan, written),
                Err(error) => {
                    shard.abandon_compaction(&plan);
                    return Err(error.into());
                }
            }
            any = true;
        }
        if any {
            self.checkpoint()?;
        }
        Ok(any)
    }

    /// Writes a checkpoint, and removes what it makes superfluous.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn checkpoint(&mut self) -> Result<(), StoreError> {
        let parts: Vec<_> = self
            .shards
            .iter_mut()
            .map(ShardLogs::checkpoint_part)
            .collect();
        self.sync()?;
        for (shard, part) in self.shards.iter().zip(&parts) {
            assert!(
                shard.durable_through() >= part.after(),
                "a checkpoint ahead of the log"
            );
        }
        let pooled = self.wal.prepared_files();
        let next_file = self.segment.next_file();
        let released = self
            .checkpoint
            .write(&parts, next_file, &mut self.pool, pooled)?;
        for file in released.recycled {
            self.wal.supply(file);
        }
        for (shard, part) in self.shards.iter_mut().zip(&parts) {
            shard.finish_checkpoint(part);
        }
        Ok(())
    }

    /// Prepares files for the write-ahead log until `count` wait.
    ///
    /// # Errors
    /// [`StoreError::Prepare`].
    pub fn prepare(&mut self, count: usize) -> Result<(), StoreError> {
        while self.wal.prepared_files() < count {
            let file = self.pool.prepare()?;
            self.wal.supply(file);
        }
        Ok(())
    }

    /// Reads an entry, wherever it is.
    pub fn read(&mut self, log: LogId, index: u64) -> Read {
        let holder = self.shards.iter_mut().find(|shard| shard.has_log(log));
        let Some(shard) = holder else {
            return Read::Gone;
        };
        loop {
            match shard.read(log, index) {
                Read::Pending => {
                    for request in shard.take_reads() {
                        let loaded = self.reader.read(request);
                        shard.loaded(loaded);
                    }
                }
                read => return read,
            }
        }
    }

    /// Closes the store in order: the next start reads nothing from the write-ahead log, and takes
    /// the logs' states for exact ([`RecoveryReport::closed_in_order`]).
    ///
    /// # Errors
    /// [`StoreError`]. The store is then as after a crash, which loses nothing.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.checkpoint_all()?;
        Ok(self.checkpoint.close()?)
    }

    /// Brings all into segments and a checkpoint. A tool ends with this: what has happened to the
    /// messages since the logs' states were saved, only the node knows that ran with the store.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn checkpoint_all(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.roll();
        if self.wants_flush() {
            self.flush()
        } else {
            self.checkpoint()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fatal;
    use std::io;
    use std::path::Path;

    #[test]
    fn a_full_disk_is_told_from_what_must_end_the_process() {
        let fatal = || Fatal::new("write", Path::new("f"), io::ErrorKind::Other.into());
        for (error, is_no_space) in [
            (StoreError::from(WalError::NoSpace), true),
            (SegmentError::NoSpace.into(), true),
            (CheckpointError::NoSpace.into(), true),
            (PrepareError::NoSpace.into(), true),
            (WalError::from(fatal()).into(), false),
            (SegmentError::from(fatal()).into(), false),
            (CheckpointError::from(fatal()).into(), false),
            (PrepareError::from(fatal()).into(), false),
            (SegmentError::BrokenOff.into(), false),
        ] {
            assert_eq!(error.is_no_space(), is_no_space, "{error}");
        }
    }
}
