//! Opening a store: the newest checkpoint, the footers of segment files, and what the write-ahead
//! log holds since. Never every message.

mod begun;
mod index;
mod ready;
mod replay;
mod shard;
mod tail;

pub(crate) use index::read_index;
pub(crate) use tail::sealed;

use crate::checkpoint::{self, Checkpoint, CheckpointWriter};
use crate::chunk::SealedChunk;
use crate::closed;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::folders::{Folders, Identity};
use crate::id::{FileId, Generation};
use crate::log::Damage;
use crate::reader::Reader;
use crate::segment::writer::SegmentWriter;
use crate::shard::{Budget, ShardLogs};
use crate::wal::format::Position;
use crate::wal::newest;
use crate::wal::pool::WalPool;
use crate::wal::scan::{WalScan, scan};
use crate::wal::writer::{Resume, WalWriter};
use begun::FIRST_GENERATION;
use leveret_types::limits::{SHARDS_MAX, WAL_FILE_BYTES_MAX};
use leveret_types::{LogId, RangeSet, limits};
use ready::make_ready;
use replay::Replay;
use shard::ShardReplay;
use std::collections::BTreeSet;
use std::io;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Identity of a new store: random bytes. A store that exists keeps its own.
    pub uuid: [u8; 16],
    /// Shards of a new store, 1 to [`SHARDS_MAX`]. A store that exists keeps its number.
    pub shards: u16,
    /// Bytes of bodies that all shards together keep in memory.
    pub cache_bytes: usize,
    /// Bytes that all shards together read back from disk at once.
    pub loaded_bytes: usize,
    /// Bytes of a file of the write-ahead log; at most 1 GiB.
    pub wal_file_bytes: u64,
    /// Prepared files of the write-ahead log that are kept.
    pub wal_pool_files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            uuid: [0; 16],
            shards: 1,
            cache_bytes: limits::CACHE_BYTES,
            loaded_bytes: limits::LOADED_BYTES,
            wal_file_bytes: limits::WAL_FILE_BYTES,
            wal_pool_files: 2,
        }
    }
}

/// A log as it was found.
#[derive(Clone, Debug)]
pub struct LogSummary {
    /// The log.
    pub log: LogId,
    /// The shard that holds it.
    pub shard: u8,
    /// Entries appended and not settled.
    pub live: RangeSet,
    /// What they count for.
    pub bytes: u64,
    /// Index that the next entry will have.
    pub next_index: u64,
    /// What is wrong with it, if anything is.
    pub damage: Option<Damage>,
}

/// What opening a store found.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Whether the store is new.
    pub created: bool,
    /// Whether nothing had to be read from the write-ahead log.
    pub clean: bool,
    /// Whether the store was closed in order and has not been open since, or is new: see
    /// [`ShardLogs::was_closed_in_order`].
    pub closed_in_order: bool,
    /// Sequence of the checkpoint, 0 without one.
    pub checkpoint: u64,
    /// Segment files.
    pub segment_files: usize,
    /// Files of the write-ahead log that were read.
    pub wal_files: usize,
    /// Batches in them.
    pub batches: u64,
    /// Bytes of these batches.
    pub wal_bytes: u64,
    /// Bodies in them that are written once for several shards: how often one was not written.
    pub references: u64,
    /// Bytes of a last batch that was never finished, thus never confirmed, and was cut off.
    pub torn_bytes: u64,
    /// Bytes that were written again because nothing proved that they were durable.
    pub rewritten_bytes: u64,
    /// Segment files that were begun and never became part of the store.
    pub deleted_files: usize,
    /// What else was noticed, in words.
    pub notes: Vec<String>,
}

/// An open store, in its parts.
pub struct Recovered<D: Disk> {
    /// Each shard's logs, in the order of their numbers.
    pub shards: Vec<ShardLogs>,
    /// For the thread of the write-ahead log.
    pub wal: WalWriter<D>,
    /// For the thread that writes segments.
    pub segment: SegmentWriter<D>,
    /// For the same thread.
    pub checkpoint: CheckpointWriter<D>,
    /// For the same thread.
    pub pool: WalPool<D>,
    /// For the first reader thread; see [`Reader::another`].
    pub reader: Reader<D>,
    /// The logs, in no order.
    pub logs: Vec<LogSummary>,
    /// If some: files through this one wait to be flushed, as if they had just become full.
    pub flush_through: Option<Generation>,
    /// The store's identity.
    pub uuid: [u8; 16],
    /// What was found.
    pub report: RecoveryReport,
    /// Keeps other processes out.
    pub lock: StoreLock<D>,
}

/// Keeps other processes out of a store for as long as it lives.
pub struct StoreLock<D: Disk> {
    _locks: Vec<D::Lock>,
}

/// Opens a store, or begins one.
///
/// # Errors
/// [`OpenError`]. Damage to single logs is no error: see [`LogSummary::damage`].
///
/// # Panics
/// If the options are out of their bounds.
pub fn recover<D: Disk>(
    disk: &D,
    folders: &Folders,
    options: &Options,
) -> Result<Recovered<D>, OpenError> {
    assert!(
        (1..=SHARDS_MAX).contains(&usize::from(options.shards)),
        "{options:?}"
    );
    assert!(options.wal_file_bytes <= WAL_FILE_BYTES_MAX, "{options:?}");
    folders.create(disk)?;
    let lock = StoreLock {
        _locks: folders.lock(disk)?,
    };
    let (identity, created) = match folders.identity(disk)? {
        Some(identity) => {
            folders.sync(disk)?;
            (identity, false)
        }
        None => {
            let identity = folders.begun(disk)?.unwrap_or(Identity {
                uuid: options.uuid,
                shards: options.shards,
            });
            folders.mark(disk, identity)?;
            (identity, true)
        }
    };
    let mut found = load(disk, folders, identity, options)?;
    found.report.created = created;
    closed::remove(disk, &folders.data)?;
    found.report.closed_in_order |= created;
    for shard in &mut found.shards {
        shard.closed_in_order = found.report.closed_in_order;
    }
    make_ready(disk, folders, identity, options, found, lock)
}

/// A store as found, before anything is changed.
pub(crate) struct Found {
    pub(crate) shards: Vec<ShardLogs>,
    pub(crate) report: RecoveryReport,
    resume: Resume,
    previous_head: Vec<u8>,
    tail: Vec<SealedChunk>,
    tail_bytes: u64,
    next_file: FileId,
    listed: Vec<FileId>,
    /// The last file of the log that holds what is written nowhere else.
    retained: Option<Generation>,
    /// Files of the log that hold nothing once the tail is written again.
    superseded: Vec<Generation>,
}

/// Reads a store without changing it.
pub(crate) fn load<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
    options: &Options,
) -> Result<Found, OpenError> {
    let salt = identity.salt();
    let checkpoint = match checkpoint::read_newest(disk, &folders.data, salt)? {
        Some(checkpoint) => checkpoint,
        None => {
            begun::never_had_a_checkpoint(disk, folders, salt)?;
            Checkpoint::default()
        }
    };
    newest::check(disk, &folders.wal, checkpoint.wal_from)?;
    let closed_in_order = closed::is_noted(disk, &folders.data, salt, checkpoint.sequence);
    let mut found = load_from(disk, folders, identity, options, checkpoint)?;
    found.report.closed_in_order = closed_in_order;
    Ok(found)
}

/// Reads a store that was as this checkpoint says, without changing it.
pub(crate) fn load_from<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
    options: &Options,
    checkpoint: Checkpoint,
) -> Result<Found, OpenError> {
    let salt = identity.salt();
    let mut report = RecoveryReport {
        checkpoint: checkpoint.sequence,
        ..RecoveryReport::default()
    };
    if checkpoint.repaired {
        report
            .notes
            .push("one of the two copies of the checkpoint is damaged".into());
    }
    let budget = Budget {
        cache_bytes: options.cache_bytes / usize::from(identity.shards),
        loaded_bytes: (options.loaded_bytes / usize::from(identity.shards))
            .max(limits::SEGMENT_BLOCK_BYTES * 4),
    };
    let mut shards: Vec<ShardReplay> = (0..identity.shards)
        .map(|shard| ShardReplay::new(ShardLogs::new(shard as u8, budget)))
        .collect();
    let wal_from = checkpoint.wal_from;
    let mut next_file = checkpoint.next_file;
    let listed = begin_from(checkpoint, &mut shards, &mut report);
    let wal = scan(disk, &folders.wal, salt, wal_from)?;
    let mut blocks = Vec::new();
    for (shard, file, bytes) in &listed {
        blocks.push((
            *shard,
            *file,
            read_index(disk, folders, salt, *file, *bytes, &mut report),
        ));
        next_file = next_file.max(file + 1);
    }
    for shard in &mut shards {
        shard.cut_before = next_file;
    }
    let segments = folders.segments();
    let files = segments.list(disk)?;
    let highest = files.iter().map(|(file, _)| *file).max();
    let own = files.iter();
    let own = own.filter(|(_, folder)| segments.are_two() && *folder == segments.folder(false));
    let own: BTreeSet<FileId> = own.map(|(file, _)| *file).collect();
    next_file = next_file.max(highest.map_or(1, |h| h + 1));

    let mut replay = Replay {
        salt,
        shards,
        report,
        resume: Resume {
            next_generation: wal.newest.max(wal_from.saturating_sub(1)) + 1,
            ..Resume::default()
        },
        tail_from: wal.tail_from(),
        freed: wal.movable.filter(|_| wal.is_undamaged()),
        has_changed: false,
        previous_head: Vec::new(),
        tail: Vec::new(),
        tail_bytes: 0,
    };
    replay.resume.synced = wal.begins_after();
    replay.run(disk, folders, &wal)?;
    if replay.has_changed {
        // Its only copy would be given up for one of what was read wrongly.
        let error = io::Error::other("it was read twice and was not the same");
        return Err(OpenError::io(&folders.wal, error));
    }
    let (retained, superseded) = divide(&wal, replay.resume.synced, replay.tail.is_empty());
    let mut report = replay.report;
    report.clean = wal.files.is_empty();
    report.torn_bytes = wal.torn_bytes;
    report.wal_files = wal.files.len();
    report.segment_files = listed.len();
    report.notes.extend(wal.notes);
    for (shard, file, blocks) in blocks {
        replay.shards[usize::from(shard)].add_file(file, own.contains(&file), blocks);
    }
    let finish = |shard: ShardReplay| shard.finish();
    Ok(Found {
        shards: replay.shards.into_iter().map(finish).collect(),
        report,
        resume: replay.resume,
        previous_head: replay.previous_head,
        tail: replay.tail,
        tail_bytes: replay.tail_bytes,
        next_file,
        listed: listed.into_iter().map(|(_, file, _)| file).collect(),
        retained,
        superseded,
    })
}

/// The last file that is needed when the tail is written again, and those that are not. All that is
/// not in the tail ends at `end`.
fn divide(wal: &WalScan, end: Position, no_tail: bool) -> (Option<Generation>, Vec<Generation>) {
    // The first one says that there never was a checkpoint, until there is one.
    let is_needed =
        |generation: &Generation| no_tail || *generation <= end.generation.max(FIRST_GENERATION);
    let counting = wal.files.iter().map(|(generation, _)| generation);
    let retained = counting.rev().find(|generation| is_needed(generation));
    // Copies of the heads of damaged batches are in the files behind them, and read from there.
    let is_undamaged = wal.is_undamaged();
    let superseded = wal.undamaged.iter();
    let superseded = superseded.filter(|of| is_undamaged && !is_needed(of));
    (retained.copied(), superseded.copied().collect())
}

/// Puts the checkpoint's logs into their shards. Gives the segment files that it lists, with their
/// shards and lengths.
fn begin_from(
    checkpoint: Checkpoint,
    shards: &mut [ShardReplay],
    report: &mut RecoveryReport,
) -> Vec<(u16, FileId, u64)> {
    let mut files = Vec::new();
    for part in checkpoint.shards {
        let number = part.shard;
        let Some(shard) = shards.get_mut(usize::from(number)) else {
            report.notes.push(format!(
                "the checkpoint tells of shard {number}, which is not"
            ));
            continue;
        };
        files.extend(
            part.files
                .iter()
                .map(|(file, bytes)| (number, *file, *bytes)),
        );
        shard.begin_from(part);
    }
    files
}

pub(crate) fn summaries(shards: &[ShardLogs]) -> Vec<LogSummary> {
    let all = shards
        .iter()
        .flat_map(|shard| shard.logs.values().map(move |log| (shard, log)));
    all.map(|(shard, log)| LogSummary {
        log: log.id,
        shard: shard.shard(),
        live: log.durable.live.clone(),
        bytes: log.durable.live_bytes,
        next_index: log.next_index,
        damage: log.damage.as_deref().cloned(),
    })
    .collect()
}
