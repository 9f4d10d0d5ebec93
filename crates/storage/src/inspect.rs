//! The content of a store, in words: behind `leveret storage inspect`, `verify` and `repair`.

use crate::disk::Disk;
use crate::error::OpenError;
use crate::folders::Folders;
use crate::id::{FileId, Generation};
use crate::loaded::{Content, Key, Positions, ReadRequest, Source};
use crate::log::{Block, Damage, Log};
use crate::reader::Reader;
use crate::rebuild;
use crate::recover::{Options, RecoveryReport, load, summaries};
use crate::shard::ShardLogs;
use crate::store::{Store, StoreError};
use bytes::BytesMut;
use leveret_types::LogId;
use std::fmt;

/// A log as it is on disk.
#[derive(Clone, Debug)]
pub struct LogInspection {
    /// The log.
    pub log: LogId,
    /// The shard that holds it.
    pub shard: u8,
    /// Entries appended and not settled.
    pub entries: u64,
    /// Intervals of indexes that these are.
    pub intervals: usize,
    /// What they count for.
    pub bytes: u64,
    /// Index that the next entry will have.
    pub next_index: u64,
    /// Of the entries, how many lie in segment files; the others are in the write-ahead log alone.
    pub segment_entries: u64,
    /// What is wrong with it, if anything is.
    pub damage: Option<Damage>,
}

/// A store as it is on disk.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The store's identity.
    pub uuid: [u8; 16],
    /// Shards.
    pub shards: u16,
    /// What a start would find and do.
    pub report: RecoveryReport,
    /// The logs, ascending.
    pub logs: Vec<LogInspection>,
    /// Bytes of segment files.
    pub segment_bytes: u64,
    /// Of these, bytes of entries that live.
    pub segment_live_bytes: u64,
    /// Entries whose payload was read and found sound; only [`verify`] reads them.
    pub verified_entries: u64,
}

impl Inspection {
    /// The logs of which something cannot be read.
    pub fn damaged(&self) -> impl Iterator<Item = &LogInspection> {
        self.logs.iter().filter(|log| log.damage.is_some())
    }
}

/// Why a store could not be inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is none.
    #[error("there is no store in {0}")]
    NoStore(String),
    /// There is one where a new one was to be.
    #[error("there is a store in {0} already")]
    StoreThere(String),
    /// A write failed while it was repaired.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store that is looked at, entry by entry, and not changed on disk.
pub struct ReadOnly<D: Disk> {
    /// The store's identity.
    pub uuid: [u8; 16],
    /// The logs.
    pub shards: Vec<ShardLogs>,
    reader: Reader<D>,
    _locks: Vec<D::Lock>,
}

impl<D: Disk> ReadOnly<D> {
    /// Opens a store to be looked at.
    ///
    /// # Errors
    /// [`InspectError`], also when a process has the store open.
    pub fn open(disk: &D, folders: &Folders) -> Result<Self, InspectError> {
        let missing = || InspectError::NoStore(folders.data.display().to_string());
        let locks = folders.lock(disk)?;
        let identity = folders.identity(disk)?.ok_or_else(missing)?;
        let found = load(disk, folders, identity, &Options::default())?;
        Ok(Self {
            uuid: identity.uuid,
            shards: found.shards,
            reader: Reader::new(disk.clone(), folders, identity.salt()),
            _locks: locks,
        })
    }

    /// The logs of a shard, and what carries out the reads that they ask for.
    pub fn shard(&mut self, shard: usize) -> (&mut ShardLogs, impl FnMut(&mut ShardLogs)) {
        let reader = &mut self.reader;
        let load = |logs: &mut ShardLogs| {
            for request in logs.take_reads() {
                let loaded = reader.read(request);
                logs.loaded(loaded);
            }
        };
        (&mut self.shards[shard], load)
    }
}

/// How many shards a store has.
///
/// # Errors
/// [`InspectError`].
pub fn shard_count<D: Disk>(disk: &D, folders: &Folders) -> Result<u16, InspectError> {
    let missing = || InspectError::NoStore(folders.data.display().to_string());
    let identity = folders.identity(disk)?.ok_or_else(missing)?;
    Ok(identity.shards)
}

/// Says what a store holds, from its indexes alone. Changes nothing.
///
/// # Errors
/// [`InspectError`], also when a process has the store open.
pub fn inspect<D: Disk>(disk: &D, folders: &Folders) -> Result<Inspection, InspectError> {
    look(disk, folders, false)
}

/// As [`inspect`], and reads every entry that lives. Changes nothing.
///
/// # Errors
/// [`InspectError`], also when a process has the store open.
pub fn verify<D: Disk>(disk: &D, folders: &Folders) -> Result<Inspection, InspectError> {
    look(disk, folders, true)
}

fn look<D: Disk>(disk: &D, folders: &Folders, read: bool) -> Result<Inspection, InspectError> {
    let missing = || InspectError::NoStore(folders.data.display().to_string());
    let _locks = folders.lock(disk)?;
    let identity = folders.identity(disk)?.ok_or_else(missing)?;
    let mut found = load(disk, folders, identity, &Options::default())?;
    let mut verified_entries = 0;
    if read {
        let mut reader = Reader::new(disk.clone(), folders, identity.salt());
        for shard in &mut found.shards {
            verified_entries += verify_shard(shard, &mut reader);
        }
    }
    let mut logs: Vec<_> = found.shards.iter().flat_map(inspect_logs).collect();
    logs.sort_unstable_by_key(|log| log.log);
    let stats = found.shards.iter().map(ShardLogs::stats);
    let (segment_bytes, segment_live_bytes) = stats.fold((0, 0), |(all, live), stats| {
        (all + stats.segment_bytes, live + stats.segment_live_bytes)
    });
    Ok(Inspection {
        uuid: identity.uuid,
        shards: identity.shards,
        report: found.report,
        logs,
        segment_bytes,
        segment_live_bytes,
        verified_entries,
    })
}

fn inspect_logs(shard: &ShardLogs) -> Vec<LogInspection> {
    let summaries = summaries(std::slice::from_ref(shard));
    let inspections = summaries.into_iter().map(|summary| LogInspection {
        log: summary.log,
        shard: summary.shard,
        entries: summary.live.len(),
        intervals: summary.live.interval_count(),
        bytes: summary.bytes,
        next_index: summary.next_index,
        segment_entries: shard
            .log_stats(summary.log)
            .map_or(0, |stats| stats.segment_entries),
        damage: summary.damage,
    });
    inspections.collect()
}

/// Reads every chunk and block that holds a live entry, once, and notes what cannot be read. Gives
/// how many entries can.
fn verify_shard<D: Disk>(shard: &mut ShardLogs, reader: &mut Reader<D>) -> u64 {
    let plan = shard.begin_flush(Generation::MAX);
    let mut unreadable: Vec<(LogId, u64, String)> = Vec::new();
    let mut sound = 0;
    let mut pieces = plan.pieces.iter().peekable();
    for (at, chunk) in plan.chunks.iter().enumerate() {
        let key = Key::Chunk(chunk.seq);
        let request = ReadRequest::new(
            plan.shard,
            key,
            chunk.source(Positions::All),
            BytesMut::new(),
        );
        let result = reader.read(request).result;
        while let Some(piece) = pieces.next_if(|p| p.chunk as usize == at) {
            for (position, index) in (piece.first_position..).zip(piece.indexes()) {
                match &result {
                    Ok(Content::Chunk { damaged, .. }) if !damaged.contains(&position) => {
                        sound += 1;
                    }
                    Ok(_) => unreadable.push((piece.log, index, "its checksum is wrong".into())),
                    Err(why) => unreadable.push((piece.log, index, why.clone())),
                }
            }
        }
    }
    shard.abandon_flush(&plan);
    sound += verify_blocks(shard, reader, &mut unreadable);
    for (log, index, why) in unreadable {
        let note = format!("entry {index} of log {log} cannot be read: {why}");
        shard.note_damage(log, index..index + 1, note);
    }
    sound
}

/// The same of the blocks in segments: each is read once, however many logs share it.
fn verify_blocks<D: Disk>(
    shard: &ShardLogs,
    reader: &mut Reader<D>,
    unreadable: &mut Vec<(LogId, u64, String)>,
) -> u64 {
    let of = |log: &'_ Log| -> Vec<(FileId, u32, LogId, Block)> {
        let blocks = log.durable.blocks.iter();
        let blocks = blocks.map(|block| (block.file, block.offset, log.id, *block));
        blocks.collect()
    };
    let mut blocks: Vec<_> = shard.logs.values().flat_map(|log| of(log)).collect();
    blocks.sort_unstable_by_key(|(file, offset, log, block)| {
        (*file, *offset, *log, block.first_index)
    });
    let mut sound = 0;
    for sharing in blocks.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (file, offset, len) = (sharing[0].0, sharing[0].1, sharing[0].3.len);
        let (key, source) = (
            Key::Block { file, offset },
            Source::Segment { file, offset, len },
        );
        let request = ReadRequest::new(shard.shard(), key, source, BytesMut::new());
        let result = reader.read(request).result;
        for (_, _, id, block) in sharing {
            let Some(log) = shard.logs.get(id) else {
                continue;
            };
            for index in log.durable.live.within(block.indexes()).flatten() {
                let entry = match &result {
                    Ok(content) => content.span(*id, block, index).map(drop),
                    Err(why) => Err(why.as_str()),
                };
                match entry {
                    Ok(()) => sound += 1,
                    Err(why) => unreadable.push((*id, index, why.to_owned())),
                }
            }
        }
    }
    sound
}

/// What a repair gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The log.
    pub log: LogId,
    /// Entries that are lost.
    pub lost: u64,
    /// What was wrong.
    pub damage: Damage,
}

/// Accepts the loss of all that is damaged, in the logs named or, with none named, in all: these
/// entries count as settled from now on. This cannot be undone: copy the folders first.
///
/// # Errors
/// [`InspectError`].
pub fn repair<D: Disk>(
    disk: &D,
    folders: &Folders,
    logs: &[LogId],
) -> Result<Vec<Repair>, InspectError> {
    rebuild::mend_checkpoint(disk, folders)?;
    let inspection = verify(disk, folders)?;
    let chosen = |log: LogId| logs.is_empty() || logs.contains(&log);
    let damaged: Vec<_> = inspection.damaged().filter(|log| chosen(log.log)).collect();
    let (mut store, _) = Store::open(disk, folders, &Options::default())?;
    let mut repairs = Vec::new();
    for log in damaged {
        let Some(damage) = log.damage.clone() else {
            continue;
        };
        let shard = &mut store.shards[usize::from(log.shard)];
        for range in damage.lost.iter() {
            shard.note_damage(log.log, range, "found by verification".into());
        }
        let lost = shard.accept_loss(log.log);
        repairs.push(Repair {
            log: log.log,
            lost,
            damage,
        });
    }
    store.checkpoint_all()?;
    Ok(repairs)
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f, &|_| None)
    }
}

impl Inspection {
    /// The whole in words, with what else is known of a log beside its number.
    #[must_use]
    pub fn text(&self, name: &dyn Fn(LogId) -> Option<String>) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.tell(&mut text, name);
        text
    }

    fn tell(&self, f: &mut dyn fmt::Write, name: &dyn Fn(LogId) -> Option<String>) -> fmt::Result {
        let uuid: String = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let report = &self.report;
        writeln!(
            f,
            "store {uuid}, {} shards, checkpoint {}",
            self.shards, report.checkpoint
        )?;
        let not = if report.closed_in_order { "" } else { "not " };
        if report.clean {
            writeln!(
                f,
                "{not}closed in order: a start reads nothing from the write-ahead log"
            )?;
        } else {
            writeln!(
                f,
                "{not}closed in order: a start replays {} batches ({} bytes) in {} files",
                report.batches, report.wal_bytes, report.wal_files
            )?;
        }
        if report.references > 0 {
            let count = report.references;
            writeln!(
                f,
                "{count} bodies there are those of other shards and not written again"
            )?;
        }
        if report.torn_bytes > 0 {
            let bytes = report.torn_bytes;
            writeln!(
                f,
                "{bytes} bytes at the end were never finished: a start cuts them off"
            )?;
        }
        writeln!(
            f,
            "{} segment files, {} bytes, {} of them live",
            report.segment_files, self.segment_bytes, self.segment_live_bytes
        )?;
        for note in &report.notes {
            writeln!(f, "note: {note}")?;
        }
        for log in &self.logs {
            let name = name(log.log).map_or(String::new(), |name| format!(" ({name})"));
            writeln!(
                f,
                "log {}{name}: {} entries in {} intervals, {} bytes, {} in segments, next index {}",
                log.log, log.entries, log.intervals, log.bytes, log.segment_entries, log.next_index
            )?;
            if let Some(damage) = &log.damage {
                writeln!(f, "  DAMAGED: {} entries cannot be read", damage.lost.len())?;
                for note in &damage.notes {
                    writeln!(f, "  {note}")?;
                }
            }
        }
        let damaged = self.damaged().count();
        if damaged > 0 {
            writeln!(
                f,
                "{damaged} logs are quarantined; `leveret storage repair` accepts the loss"
            )?;
        }
        if self.verified_entries > 0 {
            writeln!(
                f,
                "{} entries were read and are sound",
                self.verified_entries
            )?;
        }
        Ok(())
    }
}
