//! The files of streams that starts have set aside, one by one, for whoever decides about them. The
//! store need not be open, and nothing is changed.

use crate::disk::{Disk, DiskFile};
use crate::folders::Folders;
use crate::stream::aside::FOLDER;
use crate::stream::format::{parse_name, parse_newest_name, parse_replica_name};
use leveret_types::QueueId;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;

/// A file that a start has set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsideFile {
    /// Its name in the folder; one that was taken has got a number behind it.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// What it is.
    pub what: AsideWhat,
}

/// What a file is that was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsideWhat {
    /// Messages of a stream.
    Messages {
        /// The stream's id, which the catalogue has never given.
        stream: QueueId,
        /// Offset of the first of them.
        from: u64,
    },
    /// What a replica of a stream keeps beside its messages.
    Replica {
        /// The stream's id.
        stream: QueueId,
    },
    /// That a segment of a stream was begun.
    Newest {
        /// The stream's id.
        stream: QueueId,
        /// Offset of the first message of the segment.
        from: u64,
    },
    /// Nothing that a start sets aside.
    Unknown,
}

impl Display for AsideWhat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages { stream, from } => write!(
                f,
                "messages of the stream {:016x} from offset {from} on",
                stream.0
            ),
            Self::Replica { stream } => write!(
                f,
                "what a replica of the stream {:016x} has promised",
                stream.0
            ),
            Self::Newest { stream, from } => write!(
                f,
                "the note that messages of the stream {:016x} from offset {from} on were begun",
                stream.0
            ),
            Self::Unknown => f.write_str("no file of a stream"),
        }
    }
}

/// Where files of these folders are set aside, and those that are, in the order of their names.
///
/// # Errors
/// If the disk refuses.
pub fn files_set_aside<D: Disk>(
    disk: &D,
    folders: &Folders,
) -> io::Result<(PathBuf, Vec<AsideFile>)> {
    let folder = folders.streams().join(FOLDER);
    let mut names = match disk.list(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    names.sort_unstable();
    let file = |name: String| {
        Ok(AsideFile {
            bytes: disk.open(&folder.join(&name))?.len()?,
            what: what(&name),
            name,
        })
    };
    let files: io::Result<Vec<AsideFile>> = names.into_iter().map(file).collect();
    files.map(|files| (folder, files))
}

fn what(name: &str) -> AsideWhat {
    let parse = |name: &str| {
        let messages = parse_name(name);
        let messages = messages.map(|(stream, from)| AsideWhat::Messages { stream, from });
        let newest = parse_newest_name(name);
        let newest = newest.map(|(stream, newest)| AsideWhat::Newest {
            stream,
            from: newest.segment,
        });
        messages.or(newest).or_else(|| {
            let stream = parse_replica_name(name)?;
            Some(AsideWhat::Replica { stream })
        })
    };
    let numbered = name.rsplit_once('.');
    let numbered = numbered.filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    parse(name)
        .or_else(|| parse(numbered?.0))
        .unwrap_or(AsideWhat::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use std::path::Path;

    #[test]
    fn what_was_set_aside_is_told_file_by_file() {
        let disk = MemoryDisk::new();
        let folders = Folders::within(Path::new("store"));
        let (folder, files) = files_set_aside(&disk, &folders).unwrap();
        assert_eq!(folder, Path::new("store/segment/stream/set-aside"));
        assert_eq!(files, []);
        disk.create_dir_all(&folder).unwrap();
        let messages = "000000000000000a-00000000000000000007.stream";
        for (name, bytes) in [
            ("odd.2", 0),
            ("000000000000000a.replica.2", 3),
            (messages, 5),
        ] {
            let file = disk.create_new(&folder.join(name)).unwrap();
            file.write_at(&[io::IoSlice::new(&vec![1; bytes])], 0)
                .unwrap();
        }
        let (_, files) = files_set_aside(&disk, &folders).unwrap();
        let told: Vec<String> = files
            .iter()
            .map(|file| format!("{} {} {}", file.name, file.bytes, file.what))
            .collect();
        assert_eq!(
            told,
            [
                "000000000000000a-00000000000000000007.stream 5 messages of the stream \
                 000000000000000a from offset 7 on",
                "000000000000000a.replica.2 3 what a replica of the stream 000000000000000a has \
                 promised",
                "odd.2 0 no file of a stream",
            ]
        );
    }
}
