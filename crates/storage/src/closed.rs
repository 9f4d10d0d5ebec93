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

/// Takes the note away, durably; whether there was one that goes with this checkpoint. A note that
/// cannot be read is none.
pub(crate) fn take(
    disk: &impl Disk,
    data: &Path,
    salt: u64,
    checkpoint: u64,
) -> Result<bool, OpenError> {
    let path = data.join(CLOSED_NAME);
    let found = match read_whole(disk, &path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read.unwrap_or_default(),
    };
    disk.delete(&path)
        .and_then(|()| disk.sync_dir(data))
        .map_err(|e| OpenError::io(&path, e))?;
    Ok(found == encode(salt, checkpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    #[test]
    fn a_note_counts_once_whole_and_with_its_checkpoint() {
        let data = Path::new("/data");
        for (salt, checkpoint, damage, counts) in [
            (7, 3, None, true),
            (8, 3, None, false),
            (7, 4, None, false),
            (7, 3, Some(0), false),
            (7, 3, Some(19), false),
        ] {
            let disk = MemoryDisk::new();
            disk.create_dir_all(data).unwrap();
            assert!(!take(&disk, data, 7, 3).unwrap(), "none was left");
            note(&disk, data, 7, 3).unwrap();
            if let Some(at) = damage {
                assert!(
                    disk.tamper(&data.join(CLOSED_NAME), |bytes: &mut Vec<u8>| bytes[at] ^=
                        1)
                );
            }
            assert_eq!(take(&disk, data, salt, checkpoint).unwrap(), counts);
            assert!(!take(&disk, data, 7, 3).unwrap(), "it was taken away");
        }
        let disk = MemoryDisk::new();
        disk.create_dir_all(data).unwrap();
        note(&disk, data, 7, 3).unwrap();
        disk.tamper(&data.join(CLOSED_NAME), |bytes: &mut Vec<u8>| {
            bytes.truncate(12)
        });
        assert!(!take(&disk, data, 7, 3).unwrap(), "it is cut short");
    }
}
