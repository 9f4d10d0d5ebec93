//! Whether a store without a checkpoint is one that never had any, or one that has lost it. Apart
//! because it is asked before anything is read, and because everything that is not listed in a
//! checkpoint is deleted afterwards.

use super::{RecoveryReport, read_index};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::folders::Folders;
use crate::segment;
use crate::wal;
use crate::wal::format::{FileHeader, SECTOR_BYTES, decode_file_header};
use std::path::{Path, PathBuf};

/// The first file of every store's write-ahead log. Only a checkpoint lets it go.
pub(super) const FIRST_GENERATION: u64 = 1;

/// A store that has no checkpoint must never have had one: its write-ahead log is there from the
/// first file on, and all that it holds is told there.
pub(super) fn never_had_a_checkpoint<D: Disk>(
    disk: &D,
    folders: &Folders,
    salt: u64,
) -> Result<(), OpenError> {
    let list = |folder: &Path| disk.list(folder).map_err(|e| OpenError::io(folder, e));
    let mut logs = list(&folders.wal)?;
    logs.sort_unstable();
    let mut generations = logs
        .iter()
        .filter_map(|name| Some((wal::writer::parse_file_name(name)?, name)));
    let witness = match generations.next() {
        Some((FIRST_GENERATION, _)) => return Ok(()),
        Some((_, name)) => Some(folders.wal.join(name)),
        None => match with_durable_block(disk, folders, salt)? {
            Some(found) => Some(found),
            None => used_before(disk, folders, &logs, salt)?,
        },
    };
    witness.map_or(Ok(()), |found| {
        Err(OpenError::NoCheckpoint {
            data: folders.data.clone(),
            found,
        })
    })
}

/// A segment file with entries that were in the write-ahead log first. Volatile ones may be paged
/// out before anything is written there.
fn with_durable_block<D: Disk>(
    disk: &D,
    folders: &Folders,
    salt: u64,
) -> Result<Option<PathBuf>, OpenError> {
    for (file, folder) in folders.segments().list(disk)? {
        let path = folder.join(segment::format::file_name(file));
        let bytes = disk.open(&path).and_then(|open| open.len());
        let bytes = bytes.map_err(|e| OpenError::io(&path, e))?;
        let mut unread = RecoveryReport::default();
        let (_, blocks) = read_index(disk, folders, salt, file, bytes, &mut unread);
        if blocks.iter().any(|block| !block.volatile) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A prepared file that was part of this store's write-ahead log: a checkpoint has let it go.
fn used_before<D: Disk>(
    disk: &D,
    folders: &Folders,
    logs: &[String],
    salt: u64,
) -> Result<Option<PathBuf>, OpenError> {
    for name in logs {
        if wal::pool::parse_file_name(name).is_none() {
            continue;
        }
        let path = folders.wal.join(name);
        let mut header = vec![0; SECTOR_BYTES as usize];
        let read = disk
            .open(&path)
            .and_then(|file| file.read_at(&mut header, 0));
        let read = read.map_err(|e| OpenError::io(&path, e))?;
        if decode_file_header(&header[..read], salt) != FileHeader::Unknown {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
