//! Checkpoints: what lives, at one position of the write-ahead log, without which everything would
//! have to be read.
//!
//! ```text
//! file  = copy | the same copy again
//! copy  = "LVRTCKPT" | version u16 | shards u16 | crc u32 of the copy from here on | length u64 of the copy
//!       | salt u64 | sequence u64 | first file of the write-ahead log that is still needed u64 | next segment file u64
//!       then for each shard:
//!         shard u16 | chunk sequence u64 through which it is told | next body u64
//!         | flushed body u64 | flushed file u64
//!         | files u32, each: file u64, bytes u64
//!         | logs u32, each:
//!             log u64 | next index u64 | bytes u64 | next body u64 | ranges
//!             | state length u32, state | has vote u8 [term u64, vote u64]
//!             | cuts u32, each: before u64, from u64
//!             | damaged u8 [ranges, notes u32, each: length u32, text]
//! ranges = count u32, each: start u64, end u64
//! ```

use crate::bytes_io::{Put, Take, seed};
use crate::closed;
use crate::disk::{Disk, DiskFile, read_whole, write_filler};
use crate::error::{Fatal, OpenError};
use crate::id::{ChunkSeq, FileId, Generation, LogKind};
use crate::log::{Cut, Damage, Log};
use crate::open_files::{Name, OpenFiles};
use crate::segment;
use crate::shard::ShardLogs;
use crate::wal;
use crate::wal::pool::{PreparedFile, WalPool, is_full};
use leveret_types::{LogId, RangeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"LVRTCKPT";
/// Version 2 says that segment files may have blocks that several logs share; only a store with
/// such files has it, so that one without can be opened by earlier versions of Leveret.
/// Version 3 says that segment files lie in two folders.
const VERSION: u16 = 3;
const VERSION_WITH_SHARED: u16 = 2;
const VERSION_FIRST: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 56;
const CRC_AT: usize = 12;
pub(crate) const RESERVE_NAME: &str = "leveret.reserve";
/// Bytes of a log in a checkpoint, about: room is made for all at once.
const LOG_BYTES: usize = 128;
/// Bytes kept aside so that a checkpoint, which frees space, can be written to a full disk.
const RESERVE_BYTES: u64 = 4 * 1024 * 1024;

pub(crate) fn file_name(sequence: u64) -> String {
    format!("{sequence:016x}.checkpoint")
}

pub(crate) fn parse_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".checkpoint").filter(|d| d.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// What one shard has to say in a checkpoint.
#[derive(Debug)]
pub struct CheckpointPart {
    shard: u8,
    after: ChunkSeq,
    flushed_through: Generation,
    bytes: Vec<u8>,
    dead: Vec<FileId>,
    /// The version that the files need which are kept.
    version: u16,
}

impl CheckpointPart {
    /// The shard whose part it is.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }

    /// What must be durable before the checkpoint may be written: wait until
    /// [`ShardLogs::durable_through`] has reached it.
    #[must_use]
    pub fn after(&self) -> ChunkSeq {
        self.after
    }
}

impl ShardLogs {
    /// Whether a checkpoint would free much: segment files of `bytes_min` together wait only for
    /// one to be deleted.
    #[must_use]
    pub fn wants_checkpoint(&self, bytes_min: u64) -> bool {
        let dead = self.files.values().filter(|f| f.live == 0).map(|f| f.bytes);
        dead.sum::<u64>() >= bytes_min.max(1)
    }

    /// Says what lives now. The chunk that gathers is part of it and ends here: what comes later is
    /// not told, and must not be taken for told. Wait for [`CheckpointPart::after`].
    #[must_use]
    pub fn checkpoint_part(&mut self) -> CheckpointPart {
        self.end_chunk();
        let mut bytes = Vec::with_capacity(64 + self.logs.len() * LOG_BYTES);
        bytes.put_u16(u16::from(self.shard));
        bytes.put_u64(self.position());
        bytes.put_u64(self.builder.next_body());
        bytes.put_u64(self.flushed.body);
        bytes.put_u64(self.flushed.through);
        let (kept, dead): (Vec<_>, Vec<_>) = self.files.iter().partition(|(_, f)| f.live > 0);
        let versions = kept
            .iter()
            .map(|(_, file)| match (file.is_own, file.has_shared) {
                (true, _) => VERSION,
                (false, true) => VERSION_WITH_SHARED,
                (false, false) => VERSION_FIRST,
            });
        let version = versions.max().unwrap_or(VERSION_FIRST);
        bytes.put_u32(kept.len() as u32);
        for (file, state) in kept {
            bytes.put_u64(*file);
            bytes.put_u64(state.bytes);
        }
        // Sorted by what the table has: the logs themselves lie all over memory.
        let logs = self.logs.iter().map(|(id, log)| (*id, log));
        let mut logs: Vec<_> = logs.filter(|(_, l)| l.kind == LogKind::Durable).collect();
        logs.sort_unstable_by_key(|(id, _)| *id);
        bytes.put_u32(logs.len() as u32);
        for (_, log) in logs {
            encode_log(log, &mut bytes);
        }
        CheckpointPart {
            shard: self.shard,
            after: self.position(),
            flushed_through: self.flushed.through,
            bytes,
            dead: dead.into_iter().map(|(file, _)| *file).collect(),
            version,
        }
    }

    /// Takes in that the checkpoint with this part is written: dead files are gone.
    pub fn finish_checkpoint(&mut self, part: &CheckpointPart) {
        assert_eq!(part.shard, self.shard, "a part of another shard");
        for file in &part.dead {
            self.files.remove(file);
        }
        let oldest = self.files.keys().next().copied().unwrap_or(FileId::MAX);
        for log in self.logs.values_mut().filter(|log| !log.cuts.is_empty()) {
            log.cuts.retain(|cut| cut.before > oldest);
        }
    }
}

fn encode_ranges(ranges: &RangeSet, out: &mut Vec<u8>) {
    out.put_u32(ranges.interval_count() as u32);
    for range in ranges.iter() {
        out.put_u64(range.start);
        out.put_u64(range.end);
    }
}

fn encode_log(log: &Log, out: &mut Vec<u8>) {
    out.put_u64(log.id.0);
    out.put_u64(log.next_index);
    out.put_u64(log.durable.live_bytes);
    out.put_u64(log.durable.next_body);
    encode_ranges(&log.durable.live, out);
    out.put_u32(log.state.len() as u32);
    out.extend_from_slice(&log.state);
    out.put_u8(u8::from(log.term_and_vote.is_some()));
    if let Some((term, vote)) = log.term_and_vote {
        out.put_u64(term);
        out.put_u64(vote);
    }
    out.put_u32(log.cuts.len() as u32);
    for cut in &log.cuts {
        out.put_u64(cut.before);
        out.put_u64(cut.from);
    }
    out.put_u8(u8::from(log.damage.is_some()));
    if let Some(damage) = &log.damage {
        encode_ranges(&damage.lost, out);
        out.put_u32(damage.notes.len() as u32);
        for note in &damage.notes {
            out.put_u32(note.len() as u32);
            out.extend_from_slice(note.as_bytes());
        }
    }
}

/// A checkpoint as read.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub(crate) sequence: u64,
    pub(crate) wal_from: Generation,
    pub(crate) next_file: FileId,
    pub(crate) shards: Vec<ShardPart>,
    /// Whether one of the two copies was damaged.
    pub(crate) repaired: bool,
}

/// One shard of a checkpoint as read.
#[derive(Debug, Default)]
pub(crate) struct ShardPart {
    pub(crate) shard: u16,
    pub(crate) after: ChunkSeq,
    pub(crate) next_body: u64,
    pub(crate) flushed_body: u64,
    pub(crate) flushed_through: Generation,
    pub(crate) files: Vec<(FileId, u64)>,
    pub(crate) logs: Vec<Log>,
}

pub(crate) fn encode(
    salt: u64,
    sequence: u64,
    wal_from: Generation,
    next_file: FileId,
    parts: &[CheckpointPart],
) -> Vec<u8> {
    let body: usize = parts.iter().map(|p| p.bytes.len()).sum();
    let mut out = Vec::with_capacity((HEADER_BYTES + body) * 2);
    out.extend_from_slice(&MAGIC);
    let versions = parts.iter().map(|part| part.version);
    let version = versions.max().unwrap_or(VERSION_FIRST);
    out.put_u16(version);
    out.put_u16(parts.len() as u16);
    out.put_u32(0);
    out.put_u64((HEADER_BYTES + body) as u64);
    out.put_u64(salt);
    out.put_u64(sequence);
    out.put_u64(wal_from);
    out.put_u64(next_file);
    assert_eq!(out.len(), HEADER_BYTES);
    for part in parts {
        out.extend_from_slice(&part.bytes);
    }
    let crc = crc32c::crc32c_append(seed(salt, &[u64::from(version)]), &out[CRC_AT + 4..]);
    out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    out.extend_from_within(..);
    out
}

/// What is wrong with a checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Newer(u16),
    Damaged,
}

/// The checkpoint in a file's bytes. Total: any bytes may be given.
pub(crate) fn decode(bytes: &[u8], salt: u64) -> Result<Checkpoint, Unusable> {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    match decode_copy(first, salt) {
        Ok(checkpoint) => Ok(Checkpoint {
            repaired: first != second,
            ..checkpoint
        }),
        Err(Unusable::Newer(version)) => Err(Unusable::Newer(version)),
        Err(Unusable::Damaged) => decode_copy(second, salt).map(|checkpoint| Checkpoint {
            repaired: true,
            ..checkpoint
        }),
    }
}

pub(crate) fn decode_copy(bytes: &[u8], salt: u64) -> Result<Checkpoint, Unusable> {
    let mut take = Take(bytes);
    let header = |take: &mut Take<'_>| {
        let magic = take.bytes(8)? == MAGIC;
        Some((
            magic,
            take.u16()?,
            take.u16()?,
            take.u32()?,
            take.u64()?,
            take.u64()?,
        ))
    };
    let Some((true, version, shards, crc, length, found)) = header(&mut take) else {
        return Err(Unusable::Damaged);
    };
    let expected = crc32c::crc32c_append(seed(salt, &[u64::from(version)]), &bytes[CRC_AT + 4..]);
    if found != salt || crc != expected || length != bytes.len() as u64 {
        return Err(Unusable::Damaged);
    }
    if version > VERSION {
        return Err(Unusable::Newer(version));
    }
    decode_body(&mut take, shards).ok_or(Unusable::Damaged)
}

fn decode_body(take: &mut Take<'_>, shards: u16) -> Option<Checkpoint> {
    let mut checkpoint = Checkpoint {
        sequence: take.u64()?,
        wal_from: take.u64()?,
        next_file: take.u64()?,
        ..Checkpoint::default()
    };
    for _ in 0..shards {
        let mut part = ShardPart {
            shard: take.u16()?,
            after: take.u64()?,
            next_body: take.u64()?,
            flushed_body: take.u64()?,
            flushed_through: take.u64()?,
            ..ShardPart::default()
        };
        for _ in 0..take.u32()? {
            part.files.push((take.u64()?, take.u64()?));
        }
        for _ in 0..take.u32()? {
            part.logs.push(decode_log(take)?);
        }
        checkpoint.shards.push(part);
    }
    take.is_empty().then_some(checkpoint)
}

fn decode_ranges(take: &mut Take<'_>) -> Option<RangeSet> {
    let mut ranges = RangeSet::new();
    for _ in 0..take.u32()? {
        let range = take.u64()?..take.u64()?;
        if range.start > range.end {
            return None;
        }
        ranges.insert_range(range);
    }
    Some(ranges)
}

pub(crate) fn decode_log(take: &mut Take<'_>) -> Option<Log> {
    let mut log = Log::new(LogId(take.u64()?), LogKind::Durable);
    log.next_index = take.u64()?;
    log.durable.live_bytes = take.u64()?;
    log.durable.next_body = take.u64()?;
    log.durable.live = decode_ranges(take)?;
    let state = take.u32()? as usize;
    log.state = take.bytes(state)?.to_vec();
    if take.u8()? != 0 {
        log.term_and_vote = Some((take.u64()?, take.u64()?));
    }
    for _ in 0..take.u32()? {
        log.cuts.push(Cut {
            before: take.u64()?,
            from: take.u64()?,
        });
    }
    if take.u8()? != 0 {
        let mut damage = Damage {
            lost: decode_ranges(take)?,
            notes: Vec::new(),
        };
        for _ in 0..take.u32()? {
            let len = take.u32()? as usize;
            damage
                .notes
                .push(String::from_utf8_lossy(take.bytes(len)?).into_owned());
        }
        log.damage = Some(Box::new(damage));
    }
    Some(log)
}

/// The path and the bytes of a store's newest checkpoint, if it has one.
pub(crate) fn newest<D: Disk>(
    disk: &D,
    data: &Path,
) -> Result<Option<(PathBuf, Vec<u8>)>, OpenError> {
    let names = disk.list(data).map_err(|e| OpenError::io(data, e))?;
    let Some(newest) = names.iter().filter_map(|n| parse_file_name(n)).max() else {
        return Ok(None);
    };
    let path = data.join(file_name(newest));
    let bytes = read_whole(disk, &path).map_err(|e| OpenError::io(&path, e))?;
    Ok(Some((path, bytes)))
}

/// The newest checkpoint of a store, if it has one.
pub(crate) fn read_newest<D: Disk>(
    disk: &D,
    data: &Path,
    salt: u64,
) -> Result<Option<Checkpoint>, OpenError> {
    let Some((path, bytes)) = newest(disk, data)? else {
        return Ok(None);
    };
    match decode(&bytes, salt) {
        Ok(checkpoint) => Ok(Some(checkpoint)),
        Err(Unusable::Newer(version)) => Err(OpenError::Newer { path, version }),
        Err(Unusable::Damaged) => Err(OpenError::Damaged {
            path,
            what: "both copies of the checkpoint",
        }),
    }
}

/// What a checkpoint made superfluous.
#[derive(Debug, Default)]
pub struct Released {
    /// Files that the write-ahead log can use again: give them to [`crate::WalWriter::supply`].
    pub recycled: Vec<PreparedFile>,
    /// Segment files that were deleted.
    pub deleted_files: usize,
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
}

/// Why no checkpoint was written. The one before is still good.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk is full, even with what was kept aside.
    #[error("no space for a checkpoint")]
    NoSpace,
    /// End the process.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// Writes checkpoints and removes what they make superfluous. Owned by one thread, that of the
/// [`crate::SegmentWriter`].
pub struct CheckpointWriter<D: Disk> {
    disk: D,
    data: PathBuf,
    files: OpenFiles<D>,
    salt: u64,
    sequence: u64,
    reserve: bool,
    pool_target: usize,
}

impl<D: Disk> CheckpointWriter<D> {
    pub(crate) fn new(
        disk: D,
        data: &Path,
        files: OpenFiles<D>,
        salt: u64,
        sequence: u64,
        pool_target: usize,
    ) -> Self {
        Self {
            disk,
            data: data.to_owned(),
            files,
            salt,
            sequence,
            reserve: false,
            pool_target,
        }
    }

    /// From now on up to so many files are kept prepared of those that the write-ahead log no
    /// longer needs; the others are deleted.
    pub fn keep_prepared(&mut self, files: usize) {
        self.pool_target = files;
    }

    /// Makes the file that keeps space aside; false when there is no space for it. To be called
    /// again once there is.
    ///
    /// # Errors
    /// Any other failure is [`Fatal`].
    pub fn keep_reserve(&mut self) -> Result<bool, Fatal> {
        let path = self.data.join(RESERVE_NAME);
        if self.reserve {
            return Ok(true);
        }
        let made = self.disk.create_new(&path).and_then(|file| {
            write_filler(&file, 0..RESERVE_BYTES)?;
            file.sync_data()
        });
        match made {
            Ok(()) => self.reserve = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.reserve = true,
            Err(error) if is_full(&error) => drop(self.disk.delete(&path)),
            Err(error) => return Err(Fatal::new("write", &path, error)),
        }
        Ok(self.reserve)
    }

    /// Writes a checkpoint of all shards, deletes dead segment files and takes files of the
    /// write-ahead log back.
    ///
    /// # Panics
    /// If parts are missing. The caller must have waited for [`CheckpointPart::after`] of each.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn write(
        &mut self,
        parts: &[CheckpointPart],
        next_file: FileId,
        pool: &mut WalPool<D>,
        pooled: usize,
    ) -> Result<Released, CheckpointError> {
        assert!(!parts.is_empty(), "a checkpoint of no shard");
        let flushed = parts.iter().map(|p| p.flushed_through).min().unwrap_or(0);
        let bytes = encode(self.salt, self.sequence + 1, flushed + 1, next_file, parts);
        self.write_file(&bytes)?;
        self.sequence += 1;
        let released = self.release(parts, flushed, pool, pooled)?;
        Ok(Released {
            checkpoint_bytes: bytes.len() as u64,
            ..released
        })
    }

    /// Notes that the store is closed in order. To be called last of all, once a checkpoint is
    /// written of which nothing differs any more, by who knows that the logs' states are exact.
    ///
    /// # Errors
    /// [`CheckpointError`]. The store is then as after a crash, which loses nothing.
    pub fn close(self) -> Result<(), CheckpointError> {
        closed::note(&self.disk, &self.data, self.salt, self.sequence).map_err(
            |error| match is_full(&error) {
                true => CheckpointError::NoSpace,
                false => Fatal::new("write", &self.data.join(closed::CLOSED_NAME), error).into(),
            },
        )
    }

    fn write_file(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let temporary = self.data.join("checkpoint.tmp");
        let path = self.data.join(file_name(self.sequence + 1));
        let fail = |call, error| CheckpointError::from(Fatal::new(call, &path, error));
        if let Err(error) = self.write_temporary(&temporary, bytes) {
            if !is_full(&error) {
                return Err(fail("write", error));
            }
            if !std::mem::take(&mut self.reserve) {
                return Err(CheckpointError::NoSpace);
            }
            let kept = self.data.join(RESERVE_NAME);
            self.disk.delete(&kept).map_err(|e| fail("delete", e))?;
            self.write_temporary(&temporary, bytes).map_err(|error| {
                if is_full(&error) {
                    CheckpointError::NoSpace
                } else {
                    fail("write", error)
                }
            })?;
        }
        self.disk
            .rename(&temporary, &path)
            .map_err(|e| fail("rename", e))?;
        self.disk
            .sync_dir(&self.data)
            .map_err(|e| fail("sync of the folder", e))
    }

    fn write_temporary(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.disk.delete(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.create_new(path)?;
        file.write_at(&[IoSlice::new(bytes)], 0)?;
        file.sync_data()
    }

    fn release(
        &self,
        parts: &[CheckpointPart],
        flushed: Generation,
        pool: &mut WalPool<D>,
        pooled: usize,
    ) -> Result<Released, Fatal> {
        let (segments, logs) = (self.files.segments(), self.files.wal());
        let mut released = Released::default();
        for name in self.names(&self.data)? {
            if parse_file_name(&name).is_some_and(|sequence| sequence < self.sequence) {
                self.delete(&self.data.join(name))?;
            }
        }
        for file in parts.iter().flat_map(|p| &p.dead) {
            let name = segment::format::file_name(*file);
            segments
                .distinct()
                .try_for_each(|folder| self.delete(&folder.join(&name)))?;
            self.files.close(Name::Segment(*file));
            released.deleted_files += 1;
        }
        let mut wal: Vec<_> = self
            .names(logs)?
            .iter()
            .filter_map(|n| wal::writer::parse_file_name(n))
            .collect();
        wal.retain(|generation| *generation <= flushed);
        wal.sort_unstable();
        for generation in wal {
            let path = logs.join(wal::writer::file_name(generation));
            if pooled + released.recycled.len() < self.pool_target {
                released.recycled.extend(pool.recycle(&path)?);
            } else {
                self.delete(&path)?;
            }
            self.files.close(Name::Wal(generation));
        }
        Ok(released)
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>, Fatal> {
        self.disk
            .list(folder)
            .map_err(|e| Fatal::new("list", folder, e))
    }

    fn delete(&self, path: &Path) -> Result<(), Fatal> {
        match self.disk.delete(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Fatal::new("delete", path, error))
            }
            _ => Ok(()),
        }
    }
}
