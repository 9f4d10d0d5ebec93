//! Chunks of the tail put together again as they were handed to the write-ahead log: nothing proves
//! that the last batches are durable, so that they are written once more.

use crate::chunk::{Bodies, SealedChunk};
use crate::id::SharedBody;
use crate::wal::format::{ChunkHead, Tables};
use crate::wal::scan::{Batch, Elsewhere, referred};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where in the file the bodies lie that a batch holds itself.
pub(super) fn owned_bodies(batch: &Batch) -> BTreeMap<u32, SharedBody> {
    let mut owned = BTreeMap::new();
    if batch.chunks.iter().all(|chunk| chunk.references == 0) {
        return owned;
    }
    for chunk in &batch.chunks {
        let mut at = (batch.head.data_at() + chunk.body_data.start) as u32;
        for (position, entry) in (0..).zip(chunk.tables(&batch.bytes).entries()) {
            if entry.elsewhere.is_none() && entry.len > 0 {
                let body = SharedBody {
                    shard: chunk.shard as u8,
                    seq: chunk.seq,
                    position,
                    len: entry.len,
                };
                owned.insert(at, body);
                at += entry.len;
            }
        }
    }
    owned
}

/// The bodies of a chunk that are references to such bodies.
pub(super) fn shared_again(
    batch: &Batch,
    chunk: &ChunkHead,
    owned: &BTreeMap<u32, SharedBody>,
) -> Vec<(u32, SharedBody)> {
    let entries = (0..).zip(chunk.tables(&batch.bytes).entries());
    let shared = entries.filter_map(|(position, entry)| {
        let body = owned.get(&entry.elsewhere?)?;
        (body.len == entry.len).then_some((position, *body))
    });
    shared.collect()
}

/// A chunk of the tail, to be written again, with all of its bodies.
pub(crate) fn sealed(
    batch: &Batch,
    chunk: &ChunkHead,
    data: &Bytes,
    elsewhere: Elsewhere<'_>,
) -> SealedChunk {
    let span = |r: &Range<u64>| r.start as usize..r.end as usize;
    let tables = chunk.tables(&batch.bytes);
    let mut end = 0;
    let ends = tables.entries().map(|entry| {
        end += entry.len;
        end
    });
    let ends: Vec<u32> = ends.collect();
    let own = data.slice(span(&chunk.body_data));
    let bodies = match chunk.references {
        0 => own,
        _ => Bytes::from(with_referred(batch, tables, &own, data, elsewhere)),
    };
    let bodies = Bodies::from_buffer(bodies, ends);
    let mut end = 0;
    let meta_ends = crate::wal::format::record_entries(&batch.bytes, chunk).map(|entry| {
        end += entry.len;
        (entry.log, end)
    });
    SealedChunk {
        shard: chunk.shard as u8,
        seq: chunk.seq,
        first_body: chunk.first_body,
        meta_ends: meta_ends.collect(),
        crcs: bodies.iter().map(crc32c::crc32c).collect(),
        bodies,
        meta: data[span(&chunk.record_data)].to_vec(),
        shared: Vec::new(),
        lost: Vec::new(),
    }
}

/// The bodies of a chunk with those that lie elsewhere in their places. What cannot be read becomes
/// zeros: that it is lost is found where it is verified, see [`SealedChunk::lost`].
fn with_referred(
    batch: &Batch,
    tables: Tables<'_>,
    own: &[u8],
    data: &[u8],
    elsewhere: Elsewhere<'_>,
) -> Vec<u8> {
    let mut all = Vec::with_capacity(tables.body_bytes() as usize);
    let mut own_at = 0;
    for entry in tables.entries() {
        let end = all.len() + entry.len as usize;
        match entry.elsewhere {
            None => {
                all.extend_from_slice(&own[own_at..own_at + entry.len as usize]);
                own_at += entry.len as usize;
            }
            Some(offset) => {
                let body = referred(batch, data, (offset, entry.len), elsewhere);
                all.extend_from_slice(&body.unwrap_or_default());
            }
        }
        all.resize(end, 0);
    }
    all
}
