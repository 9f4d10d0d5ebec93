//! From a store as found to one that can be used. The only part of opening it that changes the
//! disk: the tail is written again, and files that never became part of the store go.

use super::{Found, Options, Recovered, StoreLock, summaries};
use crate::checkpoint::{CheckpointWriter, RESERVE_NAME};
use crate::chunk::ChunkLocation;
use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, WalError};
use crate::folders::{Folders, Identity};
use crate::id::FileId;
use crate::reader::Reader;
use crate::segment;
use crate::segment::writer::SegmentWriter;
use crate::shard::ShardLogs;
use crate::wal::newest;
use crate::wal::pool::{self, PreparedFile, WalPool};
use crate::wal::writer::{BEGUN_SUFFIX, WalWriter, file_name as wal_file_name};
use std::io;

/// Makes the tail durable again, removes what never became part of the store, and hands out the
/// parts.
pub(super) fn make_ready<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
    options: &Options,
    mut found: Found,
    lock: StoreLock<D>,
) -> Result<Recovered<D>, OpenError> {
    let salt = identity.salt();
    let file_bytes = options.wal_file_bytes;
    let mut wal = WalWriter::new(disk.clone(), &folders.wal, salt, file_bytes, found.resume);
    wal.set_named(newest::named(disk, &folders.wal)?);
    wal.set_previous_head(std::mem::take(&mut found.previous_head));
    // Before the tail is written again: with a full disk, the prepared files are the space that
    // there is.
    let (next_number, mut prepared) = pooled_files(disk, folders, file_bytes)?;
    let mut pool = WalPool::new(disk.clone(), &folders.wal, file_bytes, next_number);
    if prepared.is_empty() {
        prepared.extend(pool.take_reserve()?);
    }
    for file in prepared {
        wal.supply(file);
    }
    while !found.tail.is_empty() {
        // The tail may be in the page cache and nowhere else, and marked as clean there: only
        // writing it again, elsewhere, is sure.
        let outcome = match wal.write(&mut found.tail) {
            // What is set aside is for a node that has to start, above all: else nobody can drain
            // it.
            Err(WalError::NoSpace) if give_up_reserve(disk, folders)? => continue,
            outcome => outcome?,
        };
        for (shard, seq, location) in outcome.written {
            found.shards[usize::from(shard)].move_chunk(seq, location);
        }
        found.report.rewritten_bytes = found.tail_bytes;
        found.retained = outcome.rolled.or(found.retained);
    }
    if is_marked(&mut wal, &mut found)? {
        for generation in found.superseded {
            let path = folders.wal.join(wal_file_name(generation));
            if wal.prepared_files() >= options.wal_pool_files {
                disk.delete(&path).map_err(|e| OpenError::io(&path, e))?;
            } else if let Some(file) = pool.take_back(&path)? {
                wal.supply(file);
            }
        }
    }
    found.report.deleted_files = delete_leftovers(disk, folders, &found.listed)?;
    let reader = Reader::new(disk.clone(), folders, salt);
    let segment = SegmentWriter::new(
        disk.clone(),
        folders.segments(),
        salt,
        found.next_file,
        reader.another(),
    );
    let checkpoint = CheckpointWriter::new(
        disk.clone(),
        &folders.data,
        reader.files(),
        salt,
        found.report.checkpoint,
        options.wal_pool_files,
    );
    Ok(Recovered {
        logs: summaries(&found.shards),
        shards: found.shards,
        wal,
        segment,
        checkpoint,
        pool,
        reader,
        flush_through: found.retained,
        uuid: identity.uuid,
        report: found.report,
        lock,
    })
}

/// Says in the log that what was written again is durable, so that damage to it is none to a batch
/// that was perhaps never finished; false if there is no space for that.
fn is_marked<D: Disk>(wal: &mut WalWriter<D>, found: &mut Found) -> Result<bool, OpenError> {
    if found.superseded.is_empty() {
        return Ok(false);
    }
    match wal.mark_idle() {
        Ok(outcome) => {
            found.retained = outcome.rolled.or(found.retained);
            Ok(true)
        }
        Err(WalError::NoSpace) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Deletes the file that keeps space aside; false if there is none.
fn give_up_reserve<D: Disk>(disk: &D, folders: &Folders) -> Result<bool, OpenError> {
    let path = folders.data.join(RESERVE_NAME);
    match disk.delete(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(OpenError::io(&path, error)),
    }
}

/// Deletes files that were begun and never became part of the store.
fn delete_leftovers<D: Disk>(
    disk: &D,
    folders: &Folders,
    listed: &[FileId],
) -> Result<usize, OpenError> {
    let mut deleted = 0;
    let segments = folders.segments();
    for (id, folder) in segments.list(disk)? {
        if !listed.contains(&id) {
            let path = folder.join(segment::format::file_name(id));
            disk.delete(&path).map_err(|e| OpenError::io(&path, e))?;
            deleted += 1;
        }
    }
    if deleted > 0 {
        // A number may be used again only when the file that had it is gone for good.
        for folder in segments.distinct() {
            let synced = disk.sync_dir(folder);
            synced.map_err(|e| OpenError::io(folder, e))?;
        }
    }
    Ok(deleted)
}

/// The prepared files that an earlier process left, one among them that was kept for a start; those
/// of another size are deleted, and files of the log that do not have their header.
fn pooled_files<D: Disk>(
    disk: &D,
    folders: &Folders,
    file_bytes: u64,
) -> Result<(u64, Vec<PreparedFile>), OpenError> {
    let (mut highest, mut prepared) = (0, Vec::new());
    for name in disk
        .list(&folders.wal)
        .map_err(|e| OpenError::io(&folders.wal, e))?
    {
        let path = folders.wal.join(&name);
        let fail = |e| OpenError::io(&path, e);
        if path.extension().is_some_and(|end| end == BEGUN_SUFFIX) {
            disk.delete(&path).map_err(fail)?;
            continue;
        }
        let Some(number) = pool::parse_file_name(&name) else {
            continue;
        };
        highest = highest.max(number);
        let bytes = disk.open(&path).and_then(|f| f.len()).map_err(fail)?;
        if bytes == file_bytes || bytes == pool::reserve_bytes(file_bytes) {
            prepared.push(PreparedFile { path, bytes });
        } else {
            disk.delete(&path).map_err(fail)?;
        }
    }
    Ok((highest, prepared))
}

impl ShardLogs {
    /// A chunk has been written again, elsewhere.
    fn move_chunk(&mut self, seq: u64, location: ChunkLocation) {
        if let Some(chunk) = self.chunks.find_seq(seq) {
            chunk.location = Some(location);
        }
    }
}
