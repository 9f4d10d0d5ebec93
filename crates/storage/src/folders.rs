//! The folders of a store, and the file in each that says whose they are.

use crate::bytes_io::{Put, Take};
use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::OpenError;
use crate::id::FileId;
use crate::segment;
use crate::stream::aside;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

const MARK_NAME: &str = "leveret.store";
/// Folder of the streams, within that of segments of logs that are placed apart.
const STREAM_FOLDER: &str = "stream";
const LOCK_NAME: &str = "leveret.lock";
const MAGIC: [u8; 8] = *b"LVRTDATA";
/// Version of the whole layout. A store of a later version is refused.
pub(crate) const VERSION: u16 = 1;

/// Whether a file of this name is made by a store that has its identity, and by nothing else.
fn is_of_a_store(name: &str) -> bool {
    let endings = [
        ".wal",
        ".free",
        ".begun",
        ".newest",
        ".seg",
        ".checkpoint",
        "leveret.reserve",
        crate::closed::CLOSED_NAME,
        "log.reserve",
    ];
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Where a store keeps what. Each may be on a drive of its own, and several may be the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// Identity and checkpoints, and the segment files of logs that are not placed elsewhere.
    pub data: PathBuf,
    /// Segment files of the logs that are placed there: see [`crate::ShardLogs::place_apart`].
    pub segment: PathBuf,
    /// The write-ahead log.
    pub wal: PathBuf,
    /// Text logs. The store only creates it.
    pub logs: PathBuf,
}

impl Folders {
    /// The four as folders within one.
    #[must_use]
    pub fn within(folder: &Path) -> Self {
        Self {
            data: folder.join("data"),
            segment: folder.join("segment"),
            wal: folder.join("wal"),
            logs: folder.join("logs"),
        }
    }

    /// Where streams are kept: for [`crate::StreamFiles::open`].
    #[must_use]
    pub fn streams(&self) -> PathBuf {
        self.segment.join(STREAM_FOLDER)
    }

    /// Where segment files lie.
    pub(crate) fn segments(&self) -> SegmentFolders {
        SegmentFolders {
            own: self.data.clone(),
            apart: self.segment.clone(),
        }
    }

    /// The folders that hold the store's files, each once.
    fn distinct(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = Vec::with_capacity(3);
        for folder in [&self.wal, &self.segment] {
            if *folder != self.data && !folders.contains(&folder.as_path()) {
                folders.push(folder);
            }
        }
        folders.push(&self.data);
        folders
    }

    /// Locks every folder against other processes.
    pub(crate) fn lock<D: Disk>(&self, disk: &D) -> Result<Vec<D::Lock>, OpenError> {
        let lock = |folder: &Path| {
            let path = folder.join(LOCK_NAME);
            disk.lock(&path).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => OpenError::Locked {
                    folder: folder.to_owned(),
                },
                _ => OpenError::io(&path, error),
            })
        };
        self.distinct().into_iter().map(lock).collect()
    }

    /// Makes the names in all folders durable. An earlier process may have been killed between a
    /// rename and its sync: what is seen then is not yet safe to build upon.
    pub(crate) fn sync<D: Disk>(&self, disk: &D) -> Result<(), OpenError> {
        let mut folders = self.distinct().into_iter();
        folders.try_for_each(|f| disk.sync_dir(f).map_err(|e| OpenError::io(f, e)))
    }

    pub(crate) fn create<D: Disk>(&self, disk: &D) -> Result<(), OpenError> {
        let all = [&self.data, &self.segment, &self.wal, &self.logs];
        all.into_iter()
            .try_for_each(|f| disk.create_dir_all(f).map_err(|e| OpenError::io(f, e)))
    }

    /// Whose folders these are; `None` if they are nobody's yet.
    pub(crate) fn identity<D: Disk>(&self, disk: &D) -> Result<Option<Identity>, OpenError> {
        let found = read_mark(disk, &self.data)?;
        let Some(identity) = found else {
            return self.begun(disk).map(|_| None);
        };
        for folder in self.distinct() {
            if read_mark(disk, folder)? != Some(identity) {
                return Err(OpenError::ForeignFolder {
                    folder: folder.to_owned(),
                    data: self.data.clone(),
                });
            }
        }
        Ok(Some(identity))
    }

    /// The identity that a first start has begun to give to these folders, if it has ended before
    /// it was done with that. There is nothing else of a store then.
    ///
    /// # Errors
    /// If there is: the folder of the identity, or its drive, is missing.
    pub(crate) fn begun<D: Disk>(&self, disk: &D) -> Result<Option<Identity>, OpenError> {
        self.untouched(disk)?;
        let mut begun = None;
        let mut is_complete = true;
        for folder in self.distinct() {
            let mark = read_mark(disk, folder)?;
            // They are marked in this order, so that none is before one that is not.
            if mark.is_some() && (!is_complete || begun.is_some_and(|begun| Some(begun) != mark)) {
                return Err(self.no_identity(folder.join(MARK_NAME)));
            }
            is_complete &= mark.is_some();
            begun = begun.or(mark);
        }
        Ok(begun)
    }

    /// Without an identity there must be no data either.
    fn untouched<D: Disk>(&self, disk: &D) -> Result<(), OpenError> {
        for folder in self.distinct() {
            let names = disk.list(folder).map_err(|e| OpenError::io(folder, e))?;
            if let Some(name) = names.into_iter().find(|name| is_of_a_store(name)) {
                return Err(self.no_identity(folder.join(name)));
            }
        }
        let streams = self.streams();
        let found = aside::any_file(disk, &streams).map_err(|e| OpenError::io(&streams, e))?;
        found.map_or(Ok(()), |found| Err(self.no_identity(found)))
    }

    fn no_identity(&self, found: PathBuf) -> OpenError {
        OpenError::NoIdentity {
            data: self.data.clone(),
            found,
        }
    }

    /// Marks the folders as those of a new store; that of `data` last, so that the marks are
    /// complete when it is there.
    pub(crate) fn mark<D: Disk>(&self, disk: &D, identity: Identity) -> Result<(), OpenError> {
        for folder in self.distinct() {
            let path = folder.join(MARK_NAME);
            let temporary = folder.join(format!("{MARK_NAME}.tmp"));
            write_mark(disk, folder, &temporary, &path, identity)
                .map_err(|e| OpenError::io(&path, e))?;
        }
        Ok(())
    }
}

/// The two folders of segment files. A file is in one of them, which its number does not tell:
/// earlier versions of Leveret had all in that of the logs that are placed apart.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFolders {
    /// Of logs that are not placed apart.
    own: PathBuf,
    apart: PathBuf,
}

impl SegmentFolders {
    /// Where new files go, of logs that are placed apart or not.
    pub(crate) fn folder(&self, apart: bool) -> &Path {
        if apart { &self.apart } else { &self.own }
    }

    /// Whether they are two.
    pub(crate) fn are_two(&self) -> bool {
        self.own != self.apart
    }

    /// Each once.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &Path> {
        let own = Some(self.own.as_path()).filter(|_| self.are_two());
        std::iter::once(self.apart.as_path()).chain(own)
    }

    /// Opens a file, wherever it is.
    pub(crate) fn open<D: Disk>(&self, disk: &D, file: FileId) -> io::Result<D::File> {
        let name = segment::format::file_name(file);
        match disk.open(&self.apart.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.are_two() => {
                disk.open(&self.own.join(&name))
            }
            opened => opened,
        }
    }

    /// All segment files, with the folder that each is in.
    pub(crate) fn list<D: Disk>(&self, disk: &D) -> Result<Vec<(FileId, &Path)>, OpenError> {
        let mut files = Vec::new();
        for folder in self.distinct() {
            let names = disk.list(folder).map_err(|e| OpenError::io(folder, e))?;
            let ids = names.iter();
            let ids = ids.filter_map(|name| segment::format::parse_file_name(name));
            files.extend(ids.map(|id| (id, folder)));
        }
        Ok(files)
    }
}

fn write_mark<D: Disk>(
    disk: &D,
    folder: &Path,
    temporary: &Path,
    path: &Path,
    identity: Identity,
) -> io::Result<()> {
    match disk.delete(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create_new(temporary)?;
    file.write_at(&[IoSlice::new(&identity.encode())], 0)?;
    file.sync_data()?;
    disk.rename(temporary, path)?;
    disk.sync_dir(folder)
}

fn read_mark<D: Disk>(disk: &D, folder: &Path) -> Result<Option<Identity>, OpenError> {
    let path = folder.join(MARK_NAME);
    let bytes = match read_whole(disk, &path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(&path, error)),
    };
    match Identity::decode(&bytes) {
        Ok(identity) => Ok(Some(identity)),
        Err(Some(version)) => Err(OpenError::Newer { path, version }),
        Err(None) => Err(OpenError::Damaged {
            path,
            what: "the store's identity",
        }),
    }
}

/// Which store this is. Written once.
///
/// ```text
/// "LVRTDATA" | version u16 | shards u16 | uuid 16 bytes | crc u32      and the same once more
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    pub(crate) shards: u16,
}

const IDENTITY_BYTES: usize = 32;

impl Identity {
    /// What makes checksums of this store differ from those of any other.
    pub(crate) fn salt(&self) -> u64 {
        let mut salt = [0; 8];
        salt.copy_from_slice(&self.uuid[..8]);
        u64::from_le_bytes(salt)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(IDENTITY_BYTES * 2);
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u16(self.shards);
        out.extend_from_slice(&self.uuid);
        let crc = crc32c::crc32c(&out);
        out.put_u32(crc);
        out.extend_from_within(..);
        out
    }

    /// # Errors
    /// The version if it is a later one; `None` if both copies are damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Option<u16>> {
        let mut copies = bytes.chunks(IDENTITY_BYTES).filter_map(Self::decode_copy);
        copies.next().unwrap_or(Err(None))
    }

    fn decode_copy(bytes: &[u8]) -> Option<Result<Self, Option<u16>>> {
        let mut take = Take(bytes);
        let (magic, version, shards) = (take.bytes(8)?, take.u16()?, take.u16()?);
        let uuid: [u8; 16] = take.bytes(16)?.try_into().ok()?;
        let sound = magic == MAGIC && take.u32()? == crc32c::crc32c(&bytes[..IDENTITY_BYTES - 4]);
        sound.then_some(if version > VERSION {
            Err(Some(version))
        } else {
            Ok(Self { uuid, shards })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        uuid: *b"0123456789abcdef",
        shards: 4,
    };

    #[test]
    fn an_identity_survives_any_flipped_bit() {
        let bytes = IDENTITY.encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Identity::decode(&damaged), Ok(IDENTITY), "bit {bit}");
        }
        assert_eq!(Identity::decode(&[0; 64]), Err(None));
        assert_eq!(Identity::decode(&[]), Err(None));
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let mut later = IDENTITY.encode()[..IDENTITY_BYTES].to_vec();
        later[8] = 2;
        let crc = crc32c::crc32c(&later[..IDENTITY_BYTES - 4]).to_le_bytes();
        later[IDENTITY_BYTES - 4..].copy_from_slice(&crc);
        assert_eq!(Identity::decode(&later), Err(Some(2)));
    }

    #[test]
    fn shared_folders_are_locked_once() {
        let folder = |name: &str| PathBuf::from(name);
        let folders = |data, segment, wal| Folders {
            data: folder(data),
            segment: folder(segment),
            wal: folder(wal),
            logs: folder("l"),
        };
        for (folders, count) in [
            (folders("a", "b", "c"), 3),
            (folders("a", "a", "c"), 2),
            (folders("a", "b", "a"), 2),
            (folders("a", "b", "b"), 2),
            (folders("a", "a", "a"), 1),
        ] {
            let distinct = folders.distinct();
            assert_eq!(distinct.len(), count, "{folders:?}: {distinct:?}");
            assert_eq!(
                distinct.last(),
                Some(&folders.data.as_path()),
                "that of data last"
            );
        }
    }
}
