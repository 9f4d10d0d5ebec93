//! References that lead to the wrong place: for a test that shows that it would be found.

use super::stale::batch_at;
use crate::bytes_io::u32_at;
use crate::folders::Identity;
use crate::wal::format as wal;

/// Makes every reference of the batches in this file of the write-ahead log lead eight bytes
/// further than it should, with heads that pass for sound: what a writer would leave that counts
/// wrongly. Gives how many references.
pub fn lead_astray(file: &mut [u8], uuid: [u8; 16]) -> usize {
    let salt = Identity { uuid, shards: 1 }.salt();
    let mut count = 0;
    for at in (wal::SECTOR_BYTES..file.len() as u64).step_by(wal::SECTOR_BYTES as usize) {
        let Some(batch) = batch_at(file, at, salt) else {
            continue;
        };
        let mut head = batch.bytes.clone();
        for chunk in &batch.chunks {
            let references = usize::from(chunk.references);
            count += references;
            for back in 1..=references {
                let offset_at = chunk.table.end - back * wal::REFERENCE_BYTES + 4;
                let astray = u32_at(&head, offset_at) + 8;
                head[offset_at..offset_at + 4].copy_from_slice(&astray.to_le_bytes());
            }
        }
        let crc = wal::head_crc(salt, &head[8..]);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        file[at as usize..at as usize + head.len()].copy_from_slice(&head);
    }
    count
}
