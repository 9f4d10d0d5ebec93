//! The note that a store was closed in order and that nothing has happened to it since: what was
//! saved last is how things are. A start takes the note away before anything can happen, so that a
//! crash leaves none, also one before which nothing was written.

use crate::bytes_io::{Put, seed};
use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::OpenError;
use std::io::{self, IoSlice};
use std::path::Path;

pub(crate) const CLOSED_NAME: &str = "leveret.closed";
const MAGIC: [u8; 8] = *b"LVRTDONE";

/// The note of a store that was closed with this checkpoint.
fn encode(salt: u64, checkpoint: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.put_u64(checkpoint);
    bytes.put_u32(crc32c::crc32c_append(seed(salt, &[]), &bytes));
    bytes
}

/// Leaves the note, durably.
pub(crate) fn note(disk: &impl Disk, data: &Path, salt: u64, checkpoint: u64) -> io::Result<()> {
    let file = disk.create_new(&data.join(CLOSED_NAME))?;
    file.write_at(&[IoSlice::new(&encode(salt, checkpoint))], 0)?;
    file.sync_data()?;
    disk.sync_dir(data)
}

/// Whether there is a note that goes with this checkpoint. One that cannot be read is none.
pub(crate) fn is_noted(disk: &impl Disk, data: &Path, salt: u64, checkpoint: u64) -> bool {
    read_whole(disk, &data.join(CLOSED_NAME)).is_ok_and(|found| found == encode(salt, checkpoint))
}

/// Takes the note away, durably, whatever it says.
pub(crate) fn remove(disk: &impl Disk, data: &Path) -> Result<(), OpenError> {
    let path = data.join(CLOSED_NAME);
    match disk.delete(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        deleted => deleted,
    }
    .and_then(|()| disk.sync_dir(data))
    .map_err(|e| OpenError::io(&path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    const DATA: &str = "/data";

    /// A disk with the note of salt 7 and checkpoint 3, changed so.
    fn noted(change: impl FnOnce(&mut Vec<u8>)) -> MemoryDisk {
        let (disk, data) = (MemoryDisk::new(), Path::new(DATA));
        disk.create_dir_all(data).unwrap();
        assert!(!is_noted(&disk, data, 7, 3), "none was left");
        note(&disk, data, 7, 3).unwrap();
        assert!(disk.tamper(&data.join(CLOSED_NAME), change));
        disk
    }

    #[test]
    fn a_note_counts_once_whole_and_with_its_checkpoint() {
        let data = Path::new(DATA);
        for (salt, checkpoint, counts) in [(7, 3, true), (8, 3, false), (7, 4, false)] {
            let disk = noted(|_| {});
            assert_eq!(is_noted(&disk, data, salt, checkpoint), counts);
            remove(&disk, data).unwrap();
            assert!(!is_noted(&disk, data, 7, 3), "it was taken away");
            remove(&disk, data).expect("nothing to do");
        }
        for at in [0, 8, 19] {
            let flipped = noted(|bytes| bytes[at] ^= 1);
            assert!(!is_noted(&flipped, data, 7, 3), "byte {at}");
        }
        let cut_short = noted(|bytes| bytes.truncate(12));
        assert!(!is_noted(&cut_short, data, 7, 3));
    }
}
