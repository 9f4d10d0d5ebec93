//! The write-ahead log's thread: one write and one fdatasync for all that gathered during the last
//! ones.

use crate::broker::{Broker, DiskWriter};
use crate::disk::log_took;
use crate::group_commit_delay::{GroupCommitDelay, Rule};
use crate::waker::Woken;
use leveret_cluster::{BorrowedShard as _, Env};
use leveret_storage::{Disk, Generation, SealedChunk, WalError, WalOutcome, WalWriter};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// How long settles, for which nobody waits, may gather.
const GATHER: Duration = Duration::from_millis(5);
/// How far apart writes are at least of what may share one: entries of quiet replicated queues. An
/// entry waits for a follower meanwhile, which lets it gather as well.
const MOMENT: Duration = Duration::from_millis(2);
/// After how long without work the log notes that all of it is durable.
const IDLE: Duration = Duration::from_millis(10);
/// Sleeping without end, in practice.
const FOREVER: Duration = Duration::from_secs(3_600);
/// How long to wait before a full disk is tried again.
const SPACE_RETRY: Duration = Duration::from_millis(200);
/// How often a full disk is tried at an orderly end. What is not written then was never confirmed.
const LAST_ATTEMPTS: u32 = 25;

/// The write-ahead log's thread.
pub struct WalThread<D: Disk> {
    broker: Arc<Broker>,
    writer: WalWriter<D>,
    chunks: Vec<SealedChunk>,
    /// Files that are full, for the segment writer.
    rolled: Sender<Generation>,
    /// Files that are ready to be written to, from the segment writer.
    prepared: Receiver<leveret_storage::PreparedFile>,
    out_of_space: bool,
    /// Attempts to write to a full disk since the thread was told to stop.
    last_attempts: u32,
    group_commit_delay: GroupCommitDelay,
    /// When it has written last.
    written_at: Instant,
}

impl<D: Disk> WalThread<D> {
    /// The thread of this writer.
    pub fn new(
        broker: Arc<Broker>,
        writer: WalWriter<D>,
        rolled: Sender<Generation>,
        prepared: Receiver<leveret_storage::PreparedFile>,
    ) -> Self {
        Self {
            broker,
            writer,
            chunks: Vec::new(),
            rolled,
            prepared,
            out_of_space: false,
            last_attempts: 0,
            group_commit_delay: GroupCommitDelay::new(&Rule::LOG),
            written_at: Instant::now(),
        }
    }

    /// Writes until it is told to stop, and then all that is left; gives the writer back.
    pub fn run(mut self) -> WalWriter<D> {
        let mut idle = FOREVER;
        loop {
            let moment = self.written_at + MOMENT;
            match self.broker.signals.wal.wait_from(idle, GATHER, moment) {
                Woken::Now | Woken::Lazily => {
                    if let Some(pause) = self.group_commit_delay.pause(Instant::now()) {
                        std::thread::sleep(pause);
                    }
                    self.write_all();
                    self.written_at = Instant::now();
                    idle = IDLE;
                }
                Woken::TimedOut => {
                    self.mark_idle();
                    idle = FOREVER;
                }
                Woken::Stop => {
                    self.write_all();
                    return self.writer;
                }
            }
        }
    }

    /// Takes what the shards have gathered and writes it, as one batch unless it is very large.
    ///
    /// A message that goes to several shards is given to them ascending. From the last shard to the
    /// first, no second copy of it is taken without the first one, which it refers to.
    fn write_all(&mut self) {
        let now = self.broker.now();
        // What goes to other nodes before it is written here goes together.
        let wake_ups = self.broker.hold_wake_ups();
        for shard in self.broker.shard_ids().rev() {
            let mut guard = self.broker.shard(shard);
            guard.before_seal(now);
            guard.seal(&mut self.chunks);
            guard.release();
            self.broker.backlog_taken(shard);
        }
        drop(wake_ups);
        self.chunks.sort_by_key(SealedChunk::shard);
        while !self.chunks.is_empty() {
            self.writer_supply();
            match self.writer.write(&mut self.chunks) {
                Ok(outcome) => self.written(&outcome),
                Err(WalError::NoSpace) if self.last_attempts == LAST_ATTEMPTS => {
                    let count = self.chunks.len();
                    tracing::error!("{count} chunks were not written: the disk is full");
                    return;
                }
                Err(WalError::NoSpace) => self.wait_for_space(),
                Err(WalError::Fatal(error)) => crate::fatal(&error.to_string()),
            }
        }
    }

    fn writer_supply(&mut self) {
        while let Ok(file) = self.prepared.try_recv() {
            self.writer.supply(file);
        }
    }

    fn written(&mut self, outcome: &WalOutcome) {
        if self.out_of_space {
            self.out_of_space = false;
            self.broker.set_out_of_space(DiskWriter::Wal, false);
            tracing::info!("there is space for the write-ahead log again");
        }
        log_took(outcome.bytes, outcome.rolled.is_some());
        self.group_commit_delay.wrote(outcome.bytes, Instant::now());
        let _wake_ups = self.broker.hold_wake_ups();
        let now = self.broker.now();
        for shard in self.broker.shard_ids() {
            let part = || {
                outcome
                    .written
                    .iter()
                    .filter(move |(of, ..)| u16::from(*of) == shard.0)
            };
            let Some((_, through, _)) = part().next_back() else {
                continue;
            };
            let written = part().map(|(_, chunk, place)| (*chunk, *place));
            let mut guard = self.broker.shard(shard);
            guard.logs.on_durable(written);
            self.broker.set_durable(shard, *through);
            guard.on_durable(now);
            guard.release();
        }
        self.broker.tell_durable();
        if let Some(cluster) = self.broker.cluster()
            && cluster.durable()
        {
            self.broker.wake_cluster();
        }
        self.rolled(outcome.rolled);
    }

    fn rolled(&self, generation: Option<Generation>) {
        if let Some(generation) = generation {
            // The segment writer outlives this thread.
            let _ = self.rolled.send(generation);
            self.broker.signals.segments.notify();
        }
    }

    fn mark_idle(&mut self) {
        match self.writer.mark_idle() {
            Ok(outcome) => self.rolled(outcome.rolled),
            Err(WalError::NoSpace) => {}
            Err(WalError::Fatal(error)) => crate::fatal(&error.to_string()),
        }
    }

    /// The disk is full: publishers have been blocked by now, and what they wait for stays here
    /// until there is space.
    fn wait_for_space(&mut self) {
        if !self.out_of_space {
            self.out_of_space = true;
            self.broker.set_out_of_space(DiskWriter::Wal, true);
            tracing::error!("no space for the write-ahead log; confirms wait until there is some");
        }
        self.last_attempts += u32::from(self.broker.signals.wal.stopped());
        std::thread::sleep(SPACE_RETRY);
    }
}
