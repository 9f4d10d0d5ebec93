//! The segment writer's thread: what still lives in a full file of the write-ahead log goes to
//! segments, and the file is used again.

use crate::broker::{Broker, DiskWriter};
use crate::node::WAL_FILES_KEPT;
use crate::waker::Woken;
use leveret_cluster::Env;
use leveret_storage::{
    CheckpointError, CheckpointPart, CheckpointWriter, CompactionPlan, Disk, Fatal, FlushPlan,
    Generation, PrepareError, PreparedFile, SegmentError, SegmentWriter, WalPool, Written,
};
use leveret_types::ShardId;
use leveret_types::limits::WAL_FILES_MAX;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// How often mostly dead segments are looked for when nothing else happens.
const COMPACT_EVERY: Duration = Duration::from_secs(2);
/// Bytes of dead segment files that are worth a checkpoint of their own.
const DEAD_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// How long to wait before a full disk is tried again.
const SPACE_RETRY: Duration = Duration::from_millis(500);
/// How long one wait for the log lasts at most, before the next one.
const DURABLE_WAIT: Duration = Duration::from_secs(60);
/// Files of the log that it has in the long run: the one that it writes, and one to go on with.
const READY_FILES: usize = 2;
/// A flush that copies more lasts as long as the log may need for a file: another file is made
/// before it. After a shorter one the file that it has emptied is used again, which costs no
/// writing.
const FLUSH_BYTES_SHORT: u64 = 8 * 1024 * 1024;

/// How long an orderly end goes on copying what waits. What it does not get done stays in the log,
/// where the next start finds it: an end that takes longer than a supervisor waits is no orderly
/// one.
const END_COPY_MAX: Duration = Duration::from_secs(1);

/// What the thread writes to.
pub struct SegmentFiles<D: Disk> {
    /// The segments.
    pub writer: SegmentWriter<D>,
    /// The checkpoints.
    pub checkpoints: CheckpointWriter<D>,
    /// Where new files of the log come from.
    pub pool: WalPool<D>,
}

/// The files of the log on their way between its thread and this one.
pub struct WalFiles {
    /// Those that are full.
    pub rolled: Receiver<Generation>,
    /// Those to write next.
    pub prepared: Sender<PreparedFile>,
    /// Files handed to the log and not rolled since: it has these, less the one that it writes.
    pub ready: usize,
}

/// The segment writer's thread.
pub struct SegmentThread<D: Disk> {
    broker: Arc<Broker>,
    writer: SegmentWriter<D>,
    checkpoints: CheckpointWriter<D>,
    pool: WalPool<D>,
    wal_files: WalFiles,
    /// Prepared files that are kept when the log no longer needs them.
    keep: usize,
    /// The last full file, and the last one that a checkpoint has let go.
    full: Option<Generation>,
    done: Generation,
    /// Whether the disk was found full in this round.
    no_space: bool,
    /// Whether it was told that the next file of the log finds no space.
    has_told_no_space: bool,
    /// Until when an orderly end may copy; set when it begins.
    copy_until: Option<Instant>,
}

impl<D: Disk> SegmentThread<D> {
    /// The thread of these writers.
    pub fn new(broker: Arc<Broker>, files: SegmentFiles<D>, wal_files: WalFiles) -> Self {
        Self {
            broker,
            writer: files.writer,
            checkpoints: files.checkpoints,
            pool: files.pool,
            wal_files,
            keep: WAL_FILES_KEPT,
            full: None,
            done: 0,
            no_space: false,
            has_told_no_space: false,
            copy_until: None,
        }
    }

    /// Works until it is told to stop; gives itself back, for the last flush of an orderly end.
    pub fn run(mut self) -> Self {
        self.keep_ready(READY_FILES);
        loop {
            let woken = self
                .broker
                .signals
                .segments
                .wait(COMPACT_EVERY, COMPACT_EVERY);
            if woken == Woken::Stop {
                return self;
            }
            self.no_space = false;
            self.flush_rolled();
            self.page_out();
            self.compact();
            self.keep_ready(READY_FILES);
            self.broker
                .set_out_of_space(DiskWriter::Segments, self.no_space);
        }
    }

    /// Brings what waits into segments and writes a checkpoint, so that the next start has no log
    /// to read, or no more of it than cannot be copied in a second. The log's thread has ended by
    /// now, and `last` is its last file.
    pub fn finish(mut self, last: Option<Generation>) {
        while let Ok(generation) = self.wal_files.rolled.try_recv() {
            self.full = Some(generation);
        }
        self.full = last.or(self.full);
        self.copy_until
            .get_or_insert_with(|| Instant::now() + END_COPY_MAX);
        if let Some(through) = self.full
            && !self.flush(through)
        {
            tracing::info!(
                "the end did not wait for copying messages out of the log; the next start reads \
                 them there"
            );
        }
        if self.write_checkpoint()
            && let Err(error) = self.checkpoints.close()
        {
            tracing::warn!(
                %error,
                "cannot note that this was an orderly end: after the next start, messages that \
                 wait are flagged as redelivered"
            );
        }
    }

    fn flush_rolled(&mut self) {
        while let Ok(generation) = self.wal_files.rolled.try_recv() {
            self.note_rolled(generation);
        }
        let Some(through) = self.full.filter(|full| *full > self.done) else {
            return;
        };
        if self.flush(through) && self.checkpoint() {
            self.done = through;
            self.broker.set_segments_behind(false);
        }
    }

    fn note_rolled(&mut self, generation: Generation) {
        self.full = Some(generation);
        self.wal_files.ready = self.wal_files.ready.saturating_sub(1);
        let behind = generation.saturating_sub(self.done) > WAL_FILES_MAX as u64;
        if self.done != 0 && behind {
            self.broker.set_segments_behind(true);
        }
    }

    /// Brings what lives in the log's files through this one into segments; false if there is no
    /// space, or an orderly end leaves it.
    fn flush(&mut self, through: Generation) -> bool {
        let mut is_long = false;
        for shard in self.broker.shard_ids() {
            let plan = self.broker.lock_shard(shard).logs.begin_flush(through);
            if plan.bytes() > FLUSH_BYTES_SHORT && !self.broker.signals.segments.stopped() {
                is_long = true;
                self.keep_ready(READY_FILES);
            }
            if !self.carry_out(shard, &plan) {
                return false;
            }
        }
        // While a backlog grows fast, the log goes on in more files: made once, they are kept until
        // it has long been without need of them.
        self.keep = match is_long {
            true => WAL_FILES_MAX,
            false => self.keep.saturating_sub(1).max(WAL_FILES_KEPT),
        };
        self.checkpoints.keep_prepared(self.keep);
        true
    }

    fn page_out(&mut self) {
        for shard in self.broker.shard_ids() {
            let plan = {
                let mut shard = self.broker.lock_shard(shard);
                shard
                    .logs
                    .wants_page_out()
                    .then(|| shard.logs.begin_page_out())
            };
            if let Some(plan) = plan {
                self.carry_out(shard, &plan);
            }
        }
    }

    fn carry_out(&mut self, shard: ShardId, plan: &FlushPlan) -> bool {
        let mut pace = Pace::new(BYTES_PER_SECOND);
        let stop = &self.broker.signals.segments;
        let mut copy_until = self.copy_until;
        let written = self.writer.flush(plan, &mut |bytes| {
            // A copy that an orderly end finds under way goes on at full speed, for its second.
            if copy_until.is_none() && stop.stopped() {
                copy_until = Some(Instant::now() + END_COPY_MAX);
            }
            match copy_until {
                Some(until) if Instant::now() >= until => return ControlFlow::Break(()),
                Some(_) => {}
                None => pace.wrote(bytes),
            }
            ControlFlow::Continue(())
        });
        self.copy_until = copy_until;
        match self.or_no_space(written) {
            Some(written) => {
                self.broker
                    .lock_shard(shard)
                    .logs
                    .finish_flush(plan, written);
                true
            }
            None => {
                self.broker.lock_shard(shard).logs.abandon_flush(plan);
                false
            }
        }
    }

    fn compact(&mut self) {
        let (mut wanted, mut interrupted) = (false, false);
        // On a full disk a little room is what all wait for.
        let dead_bytes_min = match self.no_space {
            true => 1,
            false => DEAD_BYTES_MIN,
        };
        for shard in self.broker.shard_ids() {
            let plan = if interrupted {
                None
            } else {
                self.broker
                    .lock_shard(shard)
                    .logs
                    .begin_compaction_if_quiet()
            };
            if let Some(plan) = plan {
                let (written, rolled) = self.write_compaction(&plan);
                interrupted = !rolled.is_empty();
                rolled.into_iter().for_each(|file| self.note_rolled(file));
                match self.or_no_space(written) {
                    Some(written) => {
                        let mut shard = self.broker.lock_shard(shard);
                        shard.logs.finish_compaction(&plan, written);
                    }
                    None => self.broker.lock_shard(shard).logs.abandon_compaction(&plan),
                }
            }
            wanted |= self
                .broker
                .lock_shard(shard)
                .logs
                .wants_checkpoint(dead_bytes_min);
        }
        if wanted {
            self.checkpoint();
        }
    }

    /// Carries out a compaction, slowly unless a full file of the log waits behind it. Gives the
    /// files that became full meanwhile.
    fn write_compaction(
        &mut self,
        plan: &CompactionPlan,
    ) -> (Result<Written, SegmentError>, Vec<Generation>) {
        let Self {
            writer,
            wal_files,
            broker,
            ..
        } = self;
        let mut waiting = Vec::new();
        let mut pace = Pace::new(COMPACTION_BYTES_PER_SECOND);
        let written = writer.compact(plan, &mut |bytes| {
            waiting.extend(wal_files.rolled.try_iter());
            if broker.signals.segments.stopped() {
                return ControlFlow::Break(());
            }
            if waiting.is_empty() {
                pace.wrote(bytes);
            }
            ControlFlow::Continue(())
        });
        (written, waiting)
    }

    /// Writes a checkpoint of what is and has been; false if there is no space.
    fn checkpoint(&mut self) -> bool {
        leveret_cluster::catalogue::snapshot(&*self.broker);
        for shard in self.broker.shard_ids() {
            let mut queues = self.broker.lock_shard(shard).queues();
            while !queues.is_empty() {
                self.broker.lock_shard(shard).save_states_of(&mut queues);
            }
        }
        self.write_checkpoint()
    }

    fn write_checkpoint(&mut self) -> bool {
        let shards = self.broker.shard_ids();
        let parts: Vec<_> = shards
            .map(|shard| self.broker.lock_shard(shard).logs.checkpoint_part())
            .collect();
        let after = |part: &CheckpointPart| (ShardId(u16::from(part.shard())), part.after());
        self.await_durable(parts.iter().map(after));
        let durable = |(shard, chunk)| self.broker.durable(shard) >= chunk;
        if !parts.iter().map(after).all(durable) {
            // The log's thread has ended without space: it would tell of what the log lacks.
            return false;
        }
        let next_file = self.writer.next_file();
        let released =
            match self
                .checkpoints
                .write(&parts, next_file, &mut self.pool, self.wal_files.ready)
            {
                Ok(released) => released,
                Err(CheckpointError::NoSpace) => {
                    self.wait_for_space();
                    return false;
                }
                Err(CheckpointError::Fatal(error)) => crate::fatal(&error.to_string()),
            };
        for part in &parts {
            let shard = ShardId(u16::from(part.shard()));
            self.broker.lock_shard(shard).logs.finish_checkpoint(part);
        }
        for file in released.recycled {
            self.supply(file);
        }
        true
    }

    /// Waits until the log is durable as far as a checkpoint must find it.
    fn await_durable(&self, wanted: impl Iterator<Item = (ShardId, u64)>) {
        let wal = &self.broker.signals.wal;
        for (shard, chunk) in wanted {
            let look = || {
                let is_over = self.broker.durable(shard) >= chunk || wal.stopped();
                if !is_over {
                    wal.notify();
                }
                is_over.then_some(())
            };
            while self
                .broker
                .wait_until(Instant::now() + DURABLE_WAIT, look)
                .is_none()
            {}
        }
    }

    /// Keeps files ready for the log, so that it never writes to one that grows. What a start on a
    /// full disk needs comes first: it is little.
    fn keep_ready(&mut self, count: usize) {
        let kept = self.checkpoints.keep_reserve();
        if let Err(error) = kept.and_then(|_| self.pool.keep_reserve()) {
            crate::fatal(&error.to_string());
        }
        while self.wal_files.ready < count {
            match self.pool.prepare() {
                Ok(file) => {
                    self.has_told_no_space = false;
                    self.supply(file);
                }
                Err(PrepareError::NoSpace) => {
                    self.tell_no_space();
                    self.no_space = true;
                    self.broker.set_out_of_space(DiskWriter::Segments, true);
                    return;
                }
                Err(PrepareError::Fatal(error)) => crate::fatal(&error.to_string()),
            }
        }
    }

    /// Says once how much space the next file of the log lacks.
    fn tell_no_space(&mut self) {
        if std::mem::replace(&mut self.has_told_no_space, true) {
            return;
        }
        let missing = match self.pool.lacks_bytes() {
            Some(bytes) if bytes > 0 => format!("{bytes} bytes"),
            _ => "space, perhaps of a quota,".to_owned(),
        };
        tracing::error!(
            "no space for the next file of the write-ahead log: {missing} more must be free in {}; \
             publishers are blocked until then",
            self.pool.folder().display()
        );
    }

    fn supply(&mut self, file: PreparedFile) {
        self.wal_files.ready += 1;
        // At an orderly end the log's thread has gone before this one; the file stays where it is,
        // for the next start.
        let _ = self.wal_files.prepared.send(file);
    }

    fn wait_for_space(&mut self) {
        self.no_space = true;
        self.broker.set_out_of_space(DiskWriter::Segments, true);
        std::thread::sleep(SPACE_RETRY);
    }

    fn or_no_space(&mut self, written: Result<Written, SegmentError>) -> Option<Written> {
        match written {
            Ok(written) => Some(written),
            Err(SegmentError::NoSpace) => {
                self.wait_for_space();
                None
            }
            Err(SegmentError::BrokenOff) => None,
            Err(SegmentError::Fatal(error)) => crate::fatal(&Fatal::to_string(&error)),
        }
    }
}

/// Bytes a second that the segment writer writes at most, so that the log's own writes do not wait
/// behind it.
const BYTES_PER_SECOND: u64 = 400 * 1024 * 1024;
/// Bytes a second that a compaction reads and writes together at most: nobody waits for it.
const COMPACTION_BYTES_PER_SECOND: u64 = 48 * 1024 * 1024;

/// Bytes after which a gentle rate is kept by a pause: one for every block would be a tenth of what
/// a flush costs.
const PACE_BYTES: u64 = 1024 * 1024;

/// Keeps a rate.
struct Pace {
    bytes_per_second: u64,
    /// Bytes since the last pause.
    bytes: u64,
}

impl Pace {
    const fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            bytes: 0,
        }
    }

    fn wrote(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= PACE_BYTES {
            let micros = self.bytes * 1_000_000 / self.bytes_per_second;
            std::thread::sleep(Duration::from_micros(micros));
            self.bytes = 0;
        }
    }
}
