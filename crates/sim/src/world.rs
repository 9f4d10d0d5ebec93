//! A store, a disk under it, and the model beside it: driven by a seed, in the order of calls that
//! the broker's threads make.
//!
//! The write-ahead log's thread seals, writes and tells; the segment writer's thread plans, writes
//! and takes in, then checkpoints; between any two of these steps the shards go on. Here each step
//! is an action that the seed picks, so that they interleave in any order that threads could give.

mod coverage;
mod logs;
mod threads;

pub use coverage::Covered;

use crate::check::{Tolerance, Violation, check_recovered};
use crate::disk::SimDisk;
use crate::file_system::FileSystem;
use crate::model::Model;
use leveret_amqp::fuzz::Random;
use leveret_storage::{Fatal, Folders, OpenError, Options, Recovered, recover};
use logs::Handed;
use std::path::Path;
use threads::Engine;

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

/// A store under way.
pub struct World {
    /// What it stands on.
    pub disk: SimDisk,
    /// What it must hold.
    pub model: Model,
    /// What has happened.
    pub covered: Covered,
    /// Works of the segment writer so far.
    segment_works: u64,
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
            segment_works: 0,
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
}
