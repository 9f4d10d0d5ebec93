//! A file that keeps room for what the streams' journal has: a start writes that to segments, which
//! may have to grow for it, and must not fail for a disk that others have filled meanwhile.

use crate::disk::{Disk, DiskFile, write_filler};
use crate::error::Fatal;
use crate::stream::journal::Part;
use crate::wal::pool::is_full;
use std::io;
use std::path::{Path, PathBuf};

/// Its name in the streams' folder.
const NAME: &str = "journal.reserve";
/// It grows by so much at once.
const GROWTH_BYTES: u64 = 1024 * 1024;
/// Beside the blocks of segments: what a file system needs to say where they are.
const BESIDE_BYTES: u64 = 256 * 1024;
/// What a file takes of a disk is counted in these.
const BLOCK_BYTES: u64 = 4096;

/// Bytes that a segment may have to grow for a part, of which it has all blocks before `held`.
pub(crate) fn room_of(part: &Part, held: u64) -> u64 {
    let begins = part.position / BLOCK_BYTES * BLOCK_BYTES;
    journal_end(part).saturating_sub(begins.max(held))
}

/// Where the last block of a part ends.
pub(crate) const fn journal_end(part: &Part) -> u64 {
    (part.position + part.bytes.len() as u64).next_multiple_of(BLOCK_BYTES)
}

/// The file.
pub(crate) struct Reserve<D: Disk> {
    disk: D,
    path: PathBuf,
    /// Bytes of it that are durable.
    len: u64,
}

impl<D: Disk> Reserve<D> {
    /// The one that an earlier process has left, if any.
    pub(crate) fn open(disk: D, folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        let len = match disk.open(&path) {
            Ok(file) => file.len()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { disk, path, len })
    }

    /// Keeps room for so many bytes of segments from now on; false if the disk has none.
    pub(crate) fn hold(&mut self, bytes: u64) -> Result<bool, Fatal> {
        let wanted = bytes + BESIDE_BYTES;
        if bytes == 0 || wanted <= self.len {
            return Ok(true);
        }
        let len = wanted.next_multiple_of(GROWTH_BYTES);
        match self.grow(len) {
            Ok(()) => {
                self.len = len;
                Ok(true)
            }
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(Fatal::new("write", &self.path, error)),
        }
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let (file, is_new) = match self.disk.open(&self.path) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (self.disk.create_new(&self.path)?, true)
            }
            Err(error) => return Err(error),
        };
        write_filler(&file, self.len..len)?;
        file.sync_data()?;
        match self.path.parent().filter(|_| is_new) {
            Some(folder) => self.disk.sync_dir(folder),
            None => Ok(()),
        }
    }

    /// Gives its room away; whether there was any.
    pub(crate) fn give(&mut self) -> Result<bool, Fatal> {
        self.len = 0;
        let deleted = match self.disk.delete(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            deleted => deleted,
        };
        // Some file systems have the room only once that is durable.
        let folder = self.path.parent().unwrap_or(&self.path);
        let given = deleted.and_then(|()| self.disk.sync_dir(folder));
        given.map_err(|error| Fatal::new("delete", &self.path, error))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::disk::MemoryDisk;
    use leveret_types::QueueId;

    fn part(position: u64, bytes: usize) -> Part {
        Part {
            stream: QueueId(1),
            segment: 0,
            position,
            bytes: vec![1; bytes],
        }
    }

    #[test]
    fn a_part_needs_the_blocks_that_its_segment_may_not_have() {
        // Position, bytes, blocks that it has: where its last block ends, what it may need.
        for (position, bytes, held, end, needed) in [
            (512, 100, 0, 4_096, 4_096),
            (512, 3_584, 0, 4_096, 4_096),
            (512, 3_585, 0, 8_192, 8_192),
            (512, 3_585, 4_096, 8_192, 4_096),
            (5_000, 100, 0, 8_192, 4_096),
            (5_000, 100, 8_192, 8_192, 0),
            (4_096, 4_096, 4_096, 8_192, 4_096),
            (4_096, 4_096, 12_288, 8_192, 0),
        ] {
            let part = part(position, bytes);
            let at = format!("{position}, {bytes}, {held}");
            assert_eq!(journal_end(&part), end, "{at}");
            assert_eq!(room_of(&part, held), needed, "{at}");
        }
    }

    #[test]
    fn room_is_kept_in_steps_found_again_and_given_away_once() {
        let (disk, folder) = (MemoryDisk::new(), Path::new("streams"));
        let mut reserve = Reserve::open(disk.clone(), folder).unwrap();
        assert!(reserve.hold(0).unwrap());
        assert_eq!(disk.bytes(), 0, "nothing is needed");
        assert!(reserve.hold(1).unwrap());
        assert_eq!(disk.bytes(), GROWTH_BYTES);
        let counts = disk.counts();
        assert!(reserve.hold(GROWTH_BYTES - BESIDE_BYTES).unwrap());
        assert_eq!(disk.counts(), counts, "there is room: no write, no sync");
        assert!(reserve.hold(GROWTH_BYTES - BESIDE_BYTES + 1).unwrap());
        assert_eq!(disk.bytes(), 2 * GROWTH_BYTES);
        // It never shrinks by itself, and a start finds it.
        assert!(reserve.hold(1).unwrap());
        let mut reserve = Reserve::open(disk.clone(), folder).unwrap();
        disk.set_bytes_max(Some(disk.bytes()));
        assert!(reserve.hold(2 * GROWTH_BYTES - BESIDE_BYTES).unwrap());
        assert!(!reserve.hold(2 * GROWTH_BYTES).unwrap(), "no room");
        assert!(reserve.give().unwrap());
        assert_eq!(disk.bytes(), 0);
        assert!(!reserve.give().unwrap(), "there is none any more");
        assert!(reserve.hold(1).unwrap());
    }
}
