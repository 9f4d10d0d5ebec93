//! Small files that a node replaces when it starts: whole or not at all, and also on a full disk.
//!
//! A node whose disk is full must start, or nobody can drain it. Beside such files lie reserves of
//! a block each. Where there is no room, a new file is written into one of them and changes places
//! with the old one, which is the reserve from then on: nobody else gets the block meanwhile, nor
//! when the node is killed.

use leveret_storage::disk::filler;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Reserves of a folder: one for each of a node's small files, and one for their folder.
const RESERVES: usize = 4;
/// Bytes of a reserve: a block.
const RESERVE_BYTES: usize = 4 * 1024;

/// Replaces a file by one of these bytes and this mode: durable when this returns.
///
/// # Errors
/// If the disk refuses, its reserves included.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut written = write_and_rename(path, bytes, mode);
    for reserve in reserves(folder_of(path)) {
        match &written {
            Err(error) if is_full(error) => {}
            _ => break,
        }
        written = match write_into(&reserve, path, bytes, mode) {
            // A file system that writes elsewhere what is written over: it has room without it.
            Err(error) if is_full(&error) => {
                remove(&reserve).and_then(|()| write_and_rename(path, bytes, mode))
            }
            // There is no such reserve.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            others => others,
        };
    }
    written?;
    set_aside(folder_of(path));
    Ok(())
}

/// Writes the file into a reserve, and has them change places.
fn write_into(reserve: &Path, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(reserve)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    // There is no old file at the first start, and some file systems cannot exchange.
    let exchanged = renameat_with(CWD, reserve, CWD, path, RenameFlags::EXCHANGE);
    exchanged.or_else(|_| fs::rename(reserve, path))?;
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn reserves(folder: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=RESERVES).map(|number| folder.join(format!("start.reserve-{number}")))
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn write_and_rename(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_extension("new");
    // A file left by a crash may have other rights: it is replaced, not written into.
    remove(&new)?;
    let written = write_new(&new, bytes, mode);
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        // What cannot be removed is replaced by the next try.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    File::open(folder_of(path))?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the reserves of a folder where they are missing and there is room for them, at the latest
/// when a node ends: the next start may find none.
pub fn set_aside(folder: &Path) {
    for reserve in reserves(folder) {
        // An empty one is what a crash has left of one.
        if fs::metadata(&reserve).is_ok_and(|file| file.len() > 0) {
            continue;
        }
        let made = remove(&reserve);
        let made = made.and_then(|()| write_new(&reserve, &filler(0, RESERVE_BYTES), 0o600));
        if made.is_err() {
            let _ = fs::remove_file(&reserve);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_has_reserves_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(path.with_extension("new"), "left by a crash").unwrap();
        for text in ["one", "two"] {
            replace(&path, text.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let bytes = reserves(folder.path()).map(|reserve| fs::read(reserve).unwrap().len());
        assert!(bytes.eq([RESERVE_BYTES; RESERVES]));
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn a_file_changes_places_with_a_reserve_and_takes_one_where_it_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let reserve = reserves(folder.path()).next().unwrap();
        set_aside(folder.path());
        write_into(&reserve, &path, b"one", 0o644).unwrap();
        assert!(!reserve.exists());
        set_aside(folder.path());
        write_into(&reserve, &path, b"the second", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the second");
        assert_eq!(fs::read_to_string(&reserve).unwrap(), "one");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // What was a file before is as good a reserve as a whole one.
        write_into(&reserve, &path, b"three", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
    }
}
