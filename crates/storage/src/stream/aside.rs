//! Files of streams that nobody knows. They may be all that is left of a stream of which something
//! else is missing, so they are moved out of the way and never deleted here.

use crate::disk::{Disk, DiskFile};
use crate::error::Fatal;
use crate::stream::files::StreamFiles;
use crate::stream::format::{RECORDS_START, stream_of};
use leveret_types::QueueId;
use std::io;
use std::path::{Path, PathBuf};

/// Folder of files that were set aside, within that of the streams.
pub(super) const FOLDER: &str = "set-aside";

/// What is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The folder that it is in.
    pub folder: PathBuf,
    /// How many files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl<D: Disk> StreamFiles<D> {
    /// Moves a stream's files out of the way, durably; a new stream of the same id does not find
    /// them. Each keeps its name, with a number behind it if one of that name is there already.
    ///
    /// # Errors
    /// Must end the process.
    pub fn set_aside(&mut self, stream: QueueId) -> Result<(), Fatal> {
        self.journal.synced(stream);
        let folder = self.files.folder().to_owned();
        let aside = folder.join(FOLDER);
        let disk = self.files.disk().clone();
        let failed = |call, error| Fatal::new(call, &aside, error);
        disk.create_dir_all(&aside).map_err(|e| failed("make", e))?;
        for segment in self.streams.remove(&stream).unwrap_or_default().segments {
            self.files.close((stream, segment));
        }
        let mut there = disk.list(&aside).map_err(|e| failed("list", e))?;
        let names = disk.list(&folder).map_err(|e| failed("list", e))?;
        for name in names
            .into_iter()
            .filter(|name| stream_of(name) == Some(stream))
        {
            let to = free_name(&name, &there);
            let moved = disk.rename(&folder.join(&name), &aside.join(&to));
            moved.map_err(|error| Fatal::new("rename", &folder.join(&name), error))?;
            there.push(to);
        }
        // What is moved has its new name for good before it loses the old one.
        for changed in [&aside, &folder] {
            let synced = disk.sync_dir(changed);
            synced.map_err(|error| Fatal::new("sync", changed, error))?;
        }
        Ok(())
    }

    /// Whether a stream's files have room for anything beside their heads.
    ///
    /// # Errors
    /// Must end the process.
    pub fn holds_anything(&mut self, stream: QueueId) -> Result<bool, Fatal> {
        let segments = self.streams.get(&stream).map(|state| &state.segments);
        for segment in segments.cloned().unwrap_or_default() {
            let name = (stream, segment);
            let bytes = self.files.get(name).and_then(|file| file.len());
            if bytes.map_err(|error| self.files.fatal("open", name, error))? > RECORDS_START {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What this start or an earlier one has set aside; nothing if there is none.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn what_is_set_aside(&self) -> io::Result<Option<SetAside>> {
        let folder = self.files.folder().join(FOLDER);
        let disk = self.files.disk();
        let names = match disk.list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            names => names?,
        };
        let bytes_of = |name: &String| disk.open(&folder.join(name)).and_then(|file| file.len());
        let bytes = names.iter().map(bytes_of).sum::<io::Result<u64>>()?;
        let files = names.len();
        let found = SetAside {
            folder,
            files,
            bytes,
        };
        Ok(Some(found).filter(|found| found.files > 0))
    }
}

/// The first of `name`, `name.2`, `name.3` and so on that is not there.
fn free_name(name: &str, there: &[String]) -> String {
    let numbered = (2_u64..).map(|number| format!("{name}.{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names.find(|name| !there.contains(name));
    free.unwrap_or_else(|| unreachable!("there are fewer files than numbers"))
}

/// A file of any stream in the folder of streams `folder`, if there is one.
///
/// # Errors
/// If the disk refuses.
pub(crate) fn any_file<D: Disk>(disk: &D, folder: &Path) -> io::Result<Option<PathBuf>> {
    let names = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        names => names?,
    };
    let mut names = names.into_iter();
    let found = names.find(|name| stream_of(name).is_some());
    Ok(found.map(|name| folder.join(name)))
}
