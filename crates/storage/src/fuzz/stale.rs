//! What a broken promise would look like: for tests that show that it would be found.

use crate::bytes_io::Put;
use crate::chunk::SealedChunk;
use crate::folders::Identity;
use crate::id::Generation;
use crate::recover::sealed;
use crate::wal::format as wal;
use crate::wal::layout::{BatchLayout, Recent, put_data};
use crate::wal::scan::Batch;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rewrites what an earlier use of this file of the write-ahead log left behind, so that it passes
/// for new: what a start would see that does not tell one use of a file from another. Gives how
/// many batches. For tests that show that such a start would be found out.
pub fn revive_stale(file: &mut Vec<u8>, uuid: [u8; 16]) -> usize {
    let salt = Identity { uuid, shards: 1 }.salt();
    let wal::FileHeader::Ours(generation) = wal::decode_file_header(file, salt) else {
        return 0;
    };
    let mut next: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    let mut at = wal::SECTOR_BYTES;
    let mut last: Option<Batch> = None;
    while let Some(batch) = batch_at(file, at, salt).filter(|b| b.head.generation == generation) {
        for chunk in &batch.chunks {
            let end = chunk.first_body + u64::from(chunk.bodies);
            next.insert(chunk.shard, (chunk.seq + 1, end));
        }
        at = batch.head.end();
        last = Some(batch);
    }
    let Some(mut last) = last else { return 0 };
    let stale: Vec<Batch> = (at..file.len() as u64)
        .step_by(wal::SECTOR_BYTES as usize)
        .filter_map(|at| batch_at(file, at, salt))
        .collect();
    let mut revived = 0;
    for batch in stale {
        let Some(chunks) = renumbered(file, &batch, &mut next) else {
            continue;
        };
        at = write_batch(file, at, salt, generation, &last, &chunks);
        let Some(written) = batch_at(file, last.head.end(), salt) else {
            break;
        };
        last = written;
        revived += 1;
    }
    revived
}

pub(super) fn batch_at(file: &[u8], at: u64, salt: u64) -> Option<Batch> {
    let bytes = file.get(at as usize..)?;
    let (head, chunks) = wal::decode_head(bytes, salt).filter(|(head, _)| head.offset == at)?;
    let bytes = bytes[..head.head_len as usize].to_vec();
    let head_at = wal::Position {
        generation: head.generation,
        offset: at,
    };
    Some(Batch {
        head,
        chunks,
        bytes,
        head_at,
        from_copy: false,
    })
}

/// The chunks of a stale batch with numbers that follow on what is there; `None` if there are none,
/// or their bytes are gone.
fn renumbered(
    file: &[u8],
    batch: &Batch,
    next: &mut BTreeMap<u16, (u64, u64)>,
) -> Option<Vec<SealedChunk>> {
    let start = batch.head.data_at() as usize;
    let data = file.get(start..start + batch.head.data_len as usize)?;
    let data = Bytes::copy_from_slice(data);
    let mut chunks = Vec::new();
    for chunk in &batch.chunks {
        let (seq, first_body) = next.get_mut(&chunk.shard)?;
        let mut elsewhere = |at: u64, len: usize| {
            let at = usize::try_from(at).ok()?;
            file.get(at..at.checked_add(len)?).map(<[u8]>::to_vec)
        };
        let mut revived = sealed(batch, chunk, &data, &mut elsewhere);
        (revived.seq, revived.first_body) = (*seq, *first_body);
        *seq += 1;
        *first_body += u64::from(chunk.bodies);
        chunks.push(revived);
    }
    (!chunks.is_empty()).then_some(chunks)
}

fn write_batch(
    file: &mut Vec<u8>,
    at: u64,
    salt: u64,
    generation: Generation,
    last: &Batch,
    chunks: &[SealedChunk],
) -> u64 {
    let position = wal::Position {
        generation,
        offset: at,
    };
    let context = wal::BatchContext {
        salt,
        chain: last.head.crc,
        at: position,
        sequence: last.head.sequence + 1,
        synced: position,
        copy_len: last.bytes.len() as u32,
    };
    let mut out = Vec::new();
    let layout = BatchLayout::new(chunks, &Recent::default(), position, last.bytes.len());
    wal::encode_head(context, chunks, &layout, &mut out);
    out.extend_from_slice(&last.bytes);
    put_data(chunks, &layout, &mut out);
    while !(out.len() as u64).is_multiple_of(wal::SECTOR_BYTES) {
        out.put_u8(0);
    }
    let end = at + out.len() as u64;
    if file.len() < end as usize {
        file.resize(end as usize, 0);
    }
    file[at as usize..end as usize].copy_from_slice(&out);
    end
}
