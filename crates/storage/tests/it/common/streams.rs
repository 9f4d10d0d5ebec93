//! Chunks of streams.

use leveret_storage::MemoryDisk;
use leveret_stream::{ChunkHeader, ChunkKind, SharedChunk};
use std::path::PathBuf;

/// A chunk of so many records with these many bytes each.
pub fn chunk(first_offset: u64, records: u32, body_bytes: usize) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: u16::try_from(records).expect("a chunk has few records"),
        records,
        timestamp_ms: first_offset as i64 * 10,
        epoch: 1,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let body = vec![first_offset as u8; body_bytes];
    let entry = [&(body_bytes as u32).to_be_bytes()[..], &body].concat();
    SharedChunk::new(header, &[], &entry.repeat(records as usize), b"trailer")
}

/// The first file whose name ends so.
pub fn path_of(disk: &MemoryDisk, ending: &str) -> PathBuf {
    let mut paths = disk.paths().into_iter();
    let found = paths.find(|path| path.to_string_lossy().ends_with(ending));
    found.unwrap_or_else(|| panic!("no file {ending}"))
}
