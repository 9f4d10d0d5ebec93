//! The log file: written line by line, put away as an archive when it is full or its time has come,
//! and opened anew when somebody else has moved it away.

use crate::config::Rotation;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The log file.
pub struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    bytes: u64,
    /// When it is put away by the clock, in seconds since 1970; `u64::MAX` is never.
    due: u64,
}

/// What became of the log file when it was asked to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// Somebody had moved the file away: a new one is open in its place.
    OpenedAnew,
    /// The file is an archive now, and a new one open in its place.
    Archived,
    /// No archives are kept: the file was emptied.
    Emptied,
}

impl LogFile {
    /// Opens the file to go on at its end; its folder is created.
    ///
    /// # Errors
    /// If the folder or the file cannot be created or opened.
    pub fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let open = Open::at(&path, &rotation)?;
        Ok(Self {
            path,
            rotation,
            open: Mutex::new(open),
        })
    }

    /// Makes room: opens the file anew if it was moved away, else puts it away.
    ///
    /// # Errors
    /// If a file cannot be renamed or opened; lines go on to the file that is open.
    pub fn rotate(&self) -> io::Result<Rotated> {
        self.locked(|open| self.make_room(open))
    }

    /// Opens the file anew if somebody has moved it away, as `logrotate` does.
    ///
    /// # Errors
    /// If it cannot be opened; lines go on to the file that was moved.
    pub fn follow(&self) -> io::Result<bool> {
        self.locked(|open| {
            let moved = open.was_moved_from(&self.path);
            if moved {
                *open = Open::at(&self.path, &self.rotation)?;
            }
            Ok(moved)
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut Open) -> T) -> T {
        // A line that panicked on its way has left the file as it was.
        work(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn make_room(&self, open: &mut Open) -> io::Result<Rotated> {
        let rotated = if open.was_moved_from(&self.path) {
            Rotated::OpenedAnew
        } else if self.rotation.archives == 0 {
            open.file.set_len(0)?;
            Rotated::Emptied
        } else {
            for number in (1..self.rotation.archives).rev() {
                let from = archive(&self.path, number - 1);
                if from.exists() {
                    fs::rename(from, archive(&self.path, number))?;
                }
            }
            fs::rename(&self.path, archive(&self.path, 0))?;
            Rotated::Archived
        };
        *open = Open::at(&self.path, &self.rotation)?;
        Ok(rotated)
    }
}

impl Open {
    fn at(path: &Path, rotation: &Rotation) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        let now = seconds();
        Ok(Self {
            file,
            bytes,
            due: rotation.at.map_or(u64::MAX, |at| at.next_after(now)),
        })
    }

    fn was_moved_from(&self, path: &Path) -> bool {
        match (self.file.metadata(), fs::metadata(path)) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) != (there.dev(), there.ino()),
            (_, Err(error)) => error.kind() == io::ErrorKind::NotFound,
            (Err(_), _) => false,
        }
    }
}

impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.locked(|open| {
            let full = open.bytes > 0
                && open.bytes.saturating_add(line.len() as u64) > self.rotation.bytes_max;
            // What cannot be put away is still the log.
            if (full || open.due <= seconds()) && self.make_room(open).is_err() {
                open.due = self
                    .rotation
                    .at
                    .map_or(u64::MAX, |at| at.next_after(seconds()));
            }
            open.file.write_all(line)?;
            open.bytes += line.len() as u64;
            Ok(line.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.locked(|open| open.file.flush())
    }
}

/// Where archive `number` of a log file is: `leveret.log.0` is the newest.
fn archive(path: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Seconds since 1970; 0 with a clock that is before that.
fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("log-file-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn log(&self, bytes_max: u64, archives: u64) -> LogFile {
            let rotation = Rotation {
                bytes_max,
                archives,
                at: None,
            };
            LogFile::open(self.0.join("a/leveret.log"), rotation).expect("opens")
        }

        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.0.join("a").join(name)).ok()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(log: &LogFile, line: &str) {
        let mut log = log;
        log.write_all(line.as_bytes()).expect("written");
    }

    #[test]
    fn a_file_that_would_grow_beyond_its_size_is_put_away_and_the_oldest_archive_goes() {
        let folder = Folder::new("size");
        let log = folder.log(8, 2);
        for line in ["aaaa", "bbbb", "cccc", "dddddddddd", "e"] {
            write(&log, line);
        }
        assert_eq!(folder.text("leveret.log").as_deref(), Some("e"));
        assert_eq!(folder.text("leveret.log.0").as_deref(), Some("dddddddddd"));
        assert_eq!(folder.text("leveret.log.1").as_deref(), Some("cccc"));
        assert_eq!(folder.text("leveret.log.2"), None);
    }

    #[test]
    fn a_file_goes_on_at_its_end_after_a_start() {
        let folder = Folder::new("append");
        write(&folder.log(u64::MAX, 1), "one ");
        write(&folder.log(u64::MAX, 1), "two");
        assert_eq!(folder.text("leveret.log").as_deref(), Some("one two"));
    }

    #[test]
    fn rotating_by_hand_archives_or_follows_or_empties() {
        let folder = Folder::new("hand");
        let log = folder.log(u64::MAX, 3);
        write(&log, "one");
        assert_eq!(log.rotate().expect("rotated"), Rotated::Archived);
        write(&log, "two");
        let path = folder.0.join("a/leveret.log");
        fs::rename(&path, folder.0.join("a/taken")).expect("renamed");
        write(&log, " and three");
        assert_eq!(log.rotate().expect("rotated"), Rotated::OpenedAnew);
        write(&log, "four");
        assert_eq!(folder.text("leveret.log.0").as_deref(), Some("one"));
        assert_eq!(folder.text("taken").as_deref(), Some("two and three"));
        assert_eq!(folder.text("leveret.log").as_deref(), Some("four"));
        assert!(!log.follow().expect("looked"), "nobody moved it");

        let log = folder.log(u64::MAX, 0);
        assert_eq!(log.rotate().expect("rotated"), Rotated::Emptied);
        write(&log, "five");
        assert_eq!(folder.text("leveret.log").as_deref(), Some("five"));
    }
}
