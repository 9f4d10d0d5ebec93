//! Which file of the write-ahead log was begun last: the name of an empty file beside it says so.
//! Without it nobody would miss that file, for only files that follow tell of one.
//!
//! Invariant: a file has its name durably before it is named here, and when it goes, a later one is
//! there or a checkpoint says that it is not needed. So none that is needed is missing after a
//! crash.

use super::pool::is_full;
use super::writer;
use crate::disk::Disk;
use crate::error::{Fatal, OpenError};
use crate::id::Generation;
use std::io;
use std::path::Path;

fn file_name(generation: Generation) -> String {
    format!("{generation:016x}.newest")
}

fn parse_file_name(name: &str) -> Option<Generation> {
    let digits = name.strip_suffix(".newest").filter(|d| d.len() == 16)?;
    Generation::from_str_radix(digits, 16).ok()
}

fn highest(names: &[String], parse: fn(&str) -> Option<Generation>) -> Option<Generation> {
    names.iter().filter_map(|name| parse(name)).max()
}

/// The file that is named as the newest one. Logs of earlier versions of Leveret name none.
pub(crate) fn named<D: Disk>(disk: &D, folder: &Path) -> Result<Option<Generation>, OpenError> {
    let names = disk.list(folder).map_err(|e| OpenError::io(folder, e))?;
    Ok(highest(&names, parse_file_name))
}

/// Names a file as the newest one instead of `before`; gives which one is named now. On a full disk
/// it is the one before. Nothing is synced: the name is on the disk soon, and at the latest when
/// the next file is begun.
pub(crate) fn name<D: Disk>(
    disk: &D,
    folder: &Path,
    before: Option<Generation>,
    generation: Generation,
) -> Result<Option<Generation>, Fatal> {
    let path = folder.join(file_name(generation));
    let renamed = before.map(|before| disk.rename(&folder.join(file_name(before)), &path));
    let named = match renamed {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Some(Ok(())) => Ok(()),
        Some(Err(_)) | None => disk.create_new(&path).map(drop),
    };
    match named {
        Ok(()) => Ok(Some(generation)),
        Err(error) if is_full(&error) => Ok(before),
        Err(error) => Err(Fatal::new("name", &path, error)),
    }
}

/// Names the file that was named before `generation` again, durably, for that one goes and has held
/// nothing; gives which one is named now.
pub(crate) fn unname<D: Disk>(
    disk: &D,
    folder: &Path,
    before: Option<Generation>,
    generation: Generation,
) -> Result<Option<Generation>, Fatal> {
    let path = folder.join(file_name(generation));
    let unnamed = match before {
        Some(before) => disk.rename(&path, &folder.join(file_name(before))),
        None => disk.delete(&path),
    };
    unnamed.map_err(|error| Fatal::new("name", &path, error))?;
    let synced = disk.sync_dir(folder);
    synced.map_err(|error| Fatal::new("sync of the folder", folder, error))?;
    Ok(before)
}

/// That the newest file is there, unless a checkpoint that needs files from `from` on has let it
/// go.
///
/// # Errors
/// [`OpenError::NoLog`] if it is not, and no later one.
pub(crate) fn check<D: Disk>(disk: &D, folder: &Path, from: Generation) -> Result<(), OpenError> {
    let names = disk.list(folder).map_err(|e| OpenError::io(folder, e))?;
    let newest = highest(&names, writer::parse_file_name).unwrap_or(0);
    match highest(&names, parse_file_name) {
        Some(named) if named >= from && named > newest => Err(OpenError::NoLog {
            missing: folder.join(writer::file_name(named)),
        }),
        _ => Ok(()),
    }
}
