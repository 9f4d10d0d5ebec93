//! What streams have on disk: any bytes are refused or read as they were written, and a changed bit
//! is noticed.

use super::SALT;
use super::flipped::flip;
use crate::disk::{Disk, DiskFile, MemoryDisk};
use crate::stream::format::{FileHead, RECORD_KNOWN_BYTES, RECORDS_START, RecordHead};
use crate::stream::journal::{BATCHES_START, Head, Journal, Part};
use leveret_stream::segments::SECTOR_BYTES;
use leveret_stream::{ChunkHeader, ChunkKind, SharedChunk};
use leveret_types::QueueId;
use std::io::IoSlice;
use std::path::Path;

/// The file whose records the entrances read.
const FILE: FileHead = FileHead {
    stream: QueueId(5),
    first_offset: 3,
    salt: SALT,
};

const JOURNAL: Head = Head {
    generation: 9,
    salt: SALT,
};

/// Any bytes as the head of a segment file of a stream, and as a record of one; whether they are
/// either.
///
/// # Panics
/// If what is read is not what is there.
#[must_use]
pub fn segment(bytes: &[u8]) -> bool {
    let head = FileHead::decode(bytes).ok();
    if let Some(head) = head {
        let copy = &head.encode()[..40];
        assert!(bytes.chunks_exact(40).take(2).any(|there| there == copy));
    }
    let record = RecordHead::decode(&FILE, RECORDS_START, bytes);
    if let Some(record) = &record {
        assert!(record.stride() >= record.bytes() && record.stride() % SECTOR_BYTES == 0);
    }
    head.is_some() || record.is_some()
}

/// Any bytes as a file of the streams' journal; whether anything is in it.
///
/// # Panics
/// If it does more than to read it.
#[must_use]
pub fn journal(bytes: &[u8]) -> bool {
    let disk = MemoryDisk::new();
    let folder = Path::new("streams");
    let made = disk.create_new(&folder.join("streams-0.journal"));
    let written = made.and_then(|file| file.write_at(&[IoSlice::new(bytes)], 0));
    written.expect("a disk in memory does not fail");
    let Ok((_, found)) = Journal::open(disk.clone(), folder, SALT) else {
        return false;
    };
    let kept = |part: &Part| part.bytes.iter().rposition(|byte| *byte != 0);
    let bytes_kept: usize = found.parts.iter().map(|part| kept(part).unwrap_or(0)).sum();
    assert!(bytes_kept <= bytes.len(), "more than there is");
    !found.parts.is_empty()
}

/// What `input` says, as a chunk.
fn chunk_of(input: &[u8]) -> Option<SharedChunk> {
    let (first, rest) = input.split_first()?;
    let (bloom, data) = rest.split_at(rest.len().min(usize::from(first >> 4)));
    let kinds = [
        ChunkKind::User,
        ChunkKind::TrackingDelta,
        ChunkKind::TrackingSnapshot,
    ];
    let header = ChunkHeader {
        kind: kinds[usize::from(first % 3)],
        entries: 1,
        records: 1 + u32::from(first & 7),
        timestamp_ms: i64::from(*first) - 9,
        epoch: 2,
        first_offset: FILE.first_offset + u64::from(*first),
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let trailer = &data[..data.len() / 3];
    Some(SharedChunk::new(header, bloom, data, trailer))
}

fn record_of(chunk: &SharedChunk, position: u64) -> Vec<u8> {
    let mut bytes = RecordHead::encode(&FILE, position, chunk, FILE.first_offset, RECORDS_START);
    bytes.extend_from_slice(chunk.bytes());
    bytes
}

/// A record of a segment file, and the file's head.
///
/// # Panics
/// If what is read is not what was written, or changed bytes are accepted.
pub fn flipped_segment(input: &[u8]) {
    let mut head = FILE.encode();
    if flip(&mut head, input) {
        assert_eq!(FileHead::decode(&head), Ok(FILE), "one copy is still good");
    }
    let Some(chunk) = chunk_of(input) else {
        return;
    };
    let read = |bytes: &[u8], position| {
        let record = RecordHead::decode(&FILE, position, bytes)?;
        let body = bytes.get(RECORD_KNOWN_BYTES..usize::try_from(record.bytes()).ok()?)?;
        record.has_body(body).then_some(record)
    };
    let mut bytes = record_of(&chunk, RECORDS_START);
    let record = read(&bytes, RECORDS_START).expect("it was written");
    assert_eq!(record.chunk, *chunk.header());
    assert_eq!(record.bytes(), bytes.len() as u64);
    assert_eq!(
        (record.durable, record.replay_from),
        (FILE.first_offset, RECORDS_START)
    );
    let elsewhere = RECORDS_START + SECTOR_BYTES;
    assert_eq!(read(&bytes, elsewhere), None, "taken at another place");
    if flip(&mut bytes, input) {
        assert_eq!(read(&bytes, RECORDS_START), None, "a changed bit is read");
    }
}

/// What `input` says, as parts of segments.
fn parts_of(input: &[u8]) -> Vec<Part> {
    let parts = input.chunks(19).take(40).map(|piece| Part {
        stream: QueueId(u64::from(piece[0] & 3)),
        segment: u64::from(piece[0] >> 2),
        position: SECTOR_BYTES * u64::from(piece[piece.len() - 1]),
        // What ends with zeros is kept without them.
        bytes: [piece, &[0; 70][..usize::from(piece[0] & 63)]].concat(),
    });
    parts.collect()
}

/// A batch of the journal.
///
/// # Panics
/// As [`flipped_segment`].
pub fn flipped_journal(input: &[u8]) {
    let parts = parts_of(input);
    if parts.is_empty() {
        return;
    }
    let mut batch = JOURNAL.batch(BATCHES_START, &parts);
    let read = |head: Head, position: u64, batch: &[u8]| {
        let file = [&vec![0; position as usize][..], batch].concat();
        head.decode_batch(position, &file)
    };
    let end = BATCHES_START + batch.len() as u64;
    let (as_written, next) = read(JOURNAL, BATCHES_START, &batch).expect("it was written");
    assert_eq!((&as_written, next), (&parts, end));
    let elsewhere = BATCHES_START + SECTOR_BYTES;
    assert_eq!(read(JOURNAL, elsewhere, &batch), None, "at another place");
    let earlier = Head {
        generation: JOURNAL.generation - 1,
        ..JOURNAL
    };
    assert_eq!(read(earlier, BATCHES_START, &batch), None, "an earlier use");
    if flip(&mut batch, input) {
        // Nothing reads the zeros behind it.
        let found = read(JOURNAL, BATCHES_START, &batch);
        assert!(found.is_none_or(|found| found == (parts, end)));
    }
}

/// Inputs that are a segment's head and its first record, and a file of the journal.
#[must_use]
pub fn seeds() -> [Vec<Vec<u8>>; 2] {
    let text = b"\x22what a stream has in its segments, and in its journal\0\0\0";
    let record = chunk_of(text).map(|chunk| record_of(&chunk, RECORDS_START));
    let batches = [&text[..], &text[..9]].concat();
    let batch = JOURNAL.batch(BATCHES_START, &parts_of(&batches));
    let next = BATCHES_START + batch.len() as u64;
    let second = JOURNAL.batch(next, &parts_of(&text[..30]));
    let segments = [Some(FILE.encode()), record].into_iter().flatten();
    [
        segments.collect(),
        vec![[JOURNAL.encode(), batch, second].concat()],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_what_they_say_and_changed_ones_are_noticed() {
        let [segments, journals] = seeds();
        assert!(segments.iter().all(|bytes| segment(bytes)));
        assert!(journals.iter().all(|bytes| journal(bytes)));
        for at in 0..600_u16 {
            let [low, high] = at.to_le_bytes();
            let input = [&[low, high, at as u8][..], b"some bytes that are changed"].concat();
            flipped_segment(&input);
            flipped_journal(&input);
        }
    }
}
