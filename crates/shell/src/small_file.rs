//! Small files that a node replaces when it starts: whole or not at all, and also on a full disk.
//!
//! A node whose disk is full must start, or nobody can drain it. Beside such files lies a reserve:
//! it is deleted when one of them finds no room, and made again as soon as there is.

use leveret_storage::disk::filler;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the reserve in a folder.
const RESERVE_NAME: &str = "start.reserve";
/// Bytes of the reserve: a block for each of a node's small files, and one for their folder.
const RESERVE_BYTES: usize = 16 * 1024;

/// Replaces a file by one of these bytes and this mode: durable when this returns.
///
/// # Errors
/// If the disk refuses, its reserve included.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let reserve = path.with_file_name(RESERVE_NAME);
    with_reserve(&reserve, || write_and_rename(path, bytes, mode))?;
    keep_reserve(&reserve);
    Ok(())
}

/// Does what needs room on the disk, and once more without the reserve if there is none.
fn with_reserve(reserve: &Path, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match work() {
        Err(error) if is_full(&error) && fs::remove_file(reserve).is_ok() => work(),
        result => result,
    }
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
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
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

/// Makes the reserve of a folder where it is missing and there is room for it, at the latest when a
/// node ends: the next start may find none.
pub fn set_aside(folder: &Path) {
    keep_reserve(&folder.join(RESERVE_NAME));
}

fn keep_reserve(reserve: &Path) {
    let is_whole = |file: fs::Metadata| file.len() == RESERVE_BYTES as u64;
    if fs::metadata(reserve).is_ok_and(is_whole) {
        return;
    }
    // A smaller one is better than none, and is made anew when there is more.
    for bytes in [RESERVE_BYTES, RESERVE_BYTES / 2, RESERVE_BYTES / 4] {
        let made = remove(reserve).and_then(|()| write_new(reserve, &filler(0, bytes), 0o600));
        if made.is_ok() {
            return;
        }
    }
    let _ = fs::remove_file(reserve);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> std::path::PathBuf {
        let name = format!("leveret-small-file-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_has_a_reserve_beside() {
        let folder = folder("replace");
        let path = folder.join("token");
        fs::write(path.with_extension("new"), "left by a crash").unwrap();
        for text in ["one", "two"] {
            replace(&path, text.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let reserve = fs::metadata(folder.join(RESERVE_NAME)).unwrap();
        assert_eq!(reserve.len(), RESERVE_BYTES as u64);
        assert!(!path.with_extension("new").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_disk_takes_the_reserve_once() {
        let folder = folder("full");
        let reserve = folder.join(RESERVE_NAME);
        let mut tries = 0;
        let mut full_while_reserved = || {
            tries += 1;
            match reserve.exists() {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        };
        keep_reserve(&reserve);
        with_reserve(&reserve, &mut full_while_reserved).unwrap();
        assert_eq!(tries, 2);
        // Nothing is left to give, or room is not what is missing.
        for kind in [
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::PermissionDenied,
        ] {
            let mut tries = 0;
            let refused = with_reserve(&reserve, || {
                tries += 1;
                Err(kind.into())
            });
            assert_eq!((refused.unwrap_err().kind(), tries), (kind, 1));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
