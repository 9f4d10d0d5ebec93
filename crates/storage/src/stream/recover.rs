//! What a stream's files hold after a start: the last segment's end is looked for and read, the
//! other segments' first records.
//!
//! A record says how far the stream was synced when it was written, and so does the mark of a
//! stream that was idle (see [`super::newest`]). So of two places where a record is not what was
//! written one may tell: above that it is the torn end of what was being written, and is cut; below
//! it is corruption, which is reported, kept as it is and never served.

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::stream::files::{LastSegment, StreamFiles};
use crate::stream::format::{FileHead, HeadError, RECORDS_START};
use crate::stream::read::{Found, SegmentReader};
use leveret_stream::segments::SECTOR_BYTES;
use leveret_stream::{Recovered, Segment};
use leveret_types::QueueId;
use std::io;
use std::sync::Arc;

/// Bytes from the end of a segment in which its last records are looked for at first.
const WINDOW_BYTES: u64 = 1 << 20;

/// What was found of a stream.
#[derive(Debug, Default)]
pub struct RecoveredStream {
    /// For the stream's machine.
    pub recovered: Recovered,
    /// Bytes of a torn end that were cut.
    pub cut_bytes: u64,
    /// What is damaged, in words for an operator; it is not served.
    pub damage: Vec<String>,
    /// The first offset that is, where one is.
    pub damaged_from: Option<u64>,
}

impl RecoveredStream {
    pub(super) fn note_damage(&mut self, from: u64) {
        let first = self.damaged_from.map_or(from, |known| known.min(from));
        self.damaged_from = Some(first);
    }
}

/// The end of a segment.
struct End {
    head: FileHead,
    /// The last records without a hole, from the one where tracking begins.
    newest: Vec<Found>,
    /// Where the next record goes.
    end: u64,
    /// The offset behind the last record, or behind what is damaged there.
    next_offset: u64,
    /// How far the stream was synced, as its newest record and its mark know.
    durable: u64,
    damage: Vec<String>,
    damaged_from: Option<u64>,
}

impl<D: Disk> StreamFiles<D> {
    /// Makes a stream ready to be appended to. Must be called once before it is.
    ///
    /// # Errors
    /// If the disk refuses, or a file is of a later version.
    pub fn recover(&mut self, stream: QueueId) -> Result<RecoveredStream, OpenError> {
        self.recover_with(stream, false)
    }

    /// The same for a stream that has replicas on other nodes: a last segment whose head is damaged
    /// does not end it. It is left out and reported, and what it held is damage: others have it.
    ///
    /// # Errors
    /// If the disk refuses, or a file is of a later version.
    pub fn recover_replica(&mut self, stream: QueueId) -> Result<RecoveredStream, OpenError> {
        self.recover_with(stream, true)
    }

    fn recover_with(
        &mut self,
        stream: QueueId,
        has_replicas: bool,
    ) -> Result<RecoveredStream, OpenError> {
        let mut out = RecoveredStream::default();
        let newest = self.streams.get(&stream).and_then(|state| state.newest);
        let newest = newest.map(|newest| newest.segment);
        let missing = self.missing_segment(stream);
        if let Some(missing) = missing.filter(|_| !has_replicas) {
            return Err(self.no_segment(stream, missing));
        }
        while let Some(segment) = self.last_segment(stream) {
            let name = (stream, segment);
            let path = self.files.path(name);
            let failed = |error| OpenError::io(&path, error);
            let file = self.files.get(name).map_err(failed)?;
            match SegmentReader::open(&*file, name, None).map_err(failed)? {
                Ok(reader) => {
                    let mark = self.mark(stream, segment);
                    let end = end_of(&reader, mark).map_err(failed)?;
                    // Whoever goes on with the segment before begins this one again, with all that
                    // must be known without the chunks before it.
                    if end.newest.is_empty() && end.damage.is_empty() && !self.is_only(name) {
                        out.cut_bytes += reader.written_bytes(RECORDS_START).map_err(failed)?;
                        drop(file);
                        self.delete_segment(stream, segment)?;
                        continue;
                    }
                    self.take_end(stream, &reader, end, &mut out)
                        .map_err(failed)?;
                    break;
                }
                Err(HeadError::Newer(version)) => return Err(OpenError::Newer { path, version }),
                Err(HeadError::Damaged)
                    if newest == Some(segment) || file.len().map_err(failed)? > RECORDS_START =>
                {
                    // Records follow, or it was named: that head was durable once.
                    if has_replicas {
                        drop(file);
                        self.leave_out(stream, segment, &mut out);
                        continue;
                    }
                    return Err(self.damaged_segment(stream, segment));
                }
                // It was being made. Nothing in it was confirmed.
                Err(HeadError::Damaged) => {
                    drop(file);
                    self.delete_segment(stream, segment)?;
                }
            }
        }
        match missing {
            Some(missing) => self.note_missing(stream, missing, &mut out),
            // The process may have ended before it could name it.
            None => self.name_newest(stream, self.last_segment(stream))?,
        }
        // What was found may be in the page cache alone: it counts once it is synced.
        self.sync(stream)?;
        self.describe_segments(stream, &mut out)?;
        Ok(out)
    }

    fn leave_out(&mut self, stream: QueueId, segment: u64, out: &mut RecoveredStream) {
        if let Some(state) = self.streams.get_mut(&stream) {
            state
                .segments
                .retain(|first_offset| *first_offset != segment);
            state.left_out.push(segment);
        }
        out.note_damage(segment);
        let path = self.files.path((stream, segment));
        out.damage.push(format!(
            "the head of segment {segment} is damaged on disk: {} is not served, and is deleted \
             once another replica begins to send what it held",
            path.display()
        ));
    }

    fn is_only(&self, (stream, segment): (QueueId, u64)) -> bool {
        let state = self.streams.get(&stream);
        state.is_none_or(|state| state.segments == [segment])
    }

    /// The first offset of the segment that is written to; `None` if there is none.
    #[must_use]
    pub fn last_segment(&self, stream: QueueId) -> Option<u64> {
        self.streams.get(&stream)?.segments.last().copied()
    }

    /// Cuts what is torn, and notes where the stream ends.
    fn take_end(
        &mut self,
        stream: QueueId,
        reader: &SegmentReader<'_, D::File>,
        end: End,
        out: &mut RecoveredStream,
    ) -> io::Result<()> {
        let torn_bytes = reader.written_bytes(end.end)?;
        if torn_bytes > 0 {
            // What is cut must not be found again behind what is written over its beginning.
            self.write_zeros(reader.file, end.end..reader.end)?;
            reader.file.sync_data()?;
            out.cut_bytes += torn_bytes;
        }
        for found in &end.newest {
            match reader.chunk(found)? {
                Some(chunk) => out.recovered.newest.push(chunk),
                None => {
                    let from = found.1.chunk.first_offset;
                    out.note_damage(from);
                    let damage = format!("the chunk with offset {from} cannot be read again");
                    out.damage.push(damage);
                }
            }
        }
        out.damage.extend(end.damage);
        if let Some(from) = end.damaged_from {
            out.note_damage(from);
        }
        // Also the head, where nothing behind it was synced.
        let unsure_from = match end.durable > end.head.first_offset {
            true => reader.search(|record| record.chunk.next_offset() <= end.durable)?,
            false => 0,
        };
        let last = end.newest.last().map(|(_, record)| record);
        let next_offset = end.next_offset;
        out.recovered.next_offset = next_offset;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.next_offset = next_offset;
            state.durable = end.head.first_offset;
            state.unsure_from = unsure_from.min(end.end);
            state.last = Some(LastSegment {
                head: end.head,
                end: end.end,
                replay_from: last.map_or(RECORDS_START, |last| last.replay_from),
            });
        }
        self.files.set_dirty((stream, end.head.first_offset));
        Ok(())
    }

    fn describe_segments(
        &mut self,
        stream: QueueId,
        out: &mut RecoveredStream,
    ) -> Result<(), OpenError> {
        let segments = self
            .streams
            .get(&stream)
            .map(|state| state.segments.clone());
        for first_offset in segments.unwrap_or_default() {
            let name = (stream, first_offset);
            let path = self.files.path(name);
            let failed = |error| OpenError::io(&path, error);
            let file: Arc<D::File> = self.files.get(name).map_err(failed)?;
            let first = match SegmentReader::open(&*file, name, None).map_err(failed)? {
                Ok(reader) => reader.record_at(RECORDS_START).map_err(failed)?,
                Err(HeadError::Newer(version)) => return Err(OpenError::Newer { path, version }),
                Err(HeadError::Damaged) => None,
            };
            let is_last = self.last_segment(stream) == Some(first_offset);
            if first.is_none() && !is_last {
                out.note_damage(first_offset);
                let name = path.display();
                out.damage
                    .push(format!("{name} does not begin with a chunk"));
            }
            let before = out.recovered.segments.last();
            let unknown_ms = before.map_or(0, |before| before.first_timestamp_ms);
            out.recovered.segments.push(Segment {
                first_offset,
                first_timestamp_ms: first.map_or(unknown_ms, |first| first.chunk.timestamp_ms),
                bytes: file.len().map_err(failed)?.saturating_sub(RECORDS_START),
            });
        }
        Ok(())
    }
}

/// Looks for the end of a segment from its back. All below the mark was synced.
fn end_of<F: DiskFile>(reader: &SegmentReader<'_, F>, mark: Option<u64>) -> io::Result<End> {
    let mut window = WINDOW_BYTES;
    loop {
        let from = reader.end.saturating_sub(window).max(RECORDS_START);
        let records = sound_records(reader, from)?;
        // How far the stream was synced, as the newest record knows it.
        let durable = records.iter().map(|(_, record)| record.durable).max();
        let durable = durable.max(mark).unwrap_or(reader.head.first_offset);
        let is_durable = |(_, record): &Found| record.chunk.first_offset <= durable;
        // All before a record below the mark was synced: it needs no look.
        let is_anchored = from == RECORDS_START || records.iter().any(is_durable);
        if is_anchored {
            let end = cut(reader, records, durable, from);
            let replay_from = end.newest.last().map(|(_, record)| record.replay_from);
            let begins = end.newest.first().map_or(from, |(position, _)| *position);
            if from == RECORDS_START || replay_from.is_some_and(|replay| replay >= begins) {
                return Ok(with_replay(end));
            }
        }
        window = window.saturating_mul(4);
    }
}

/// All records from a position on whose bytes are sound, in order.
fn sound_records<F: DiskFile>(reader: &SegmentReader<'_, F>, from: u64) -> io::Result<Vec<Found>> {
    let (mut records, mut at) = (Vec::new(), from);
    while let Some(found) = reader.find(at, reader.end)? {
        if reader.chunk(&found)?.is_some() {
            at = found.0 + found.1.stride();
            records.push(found);
        } else {
            at = found.0 + SECTOR_BYTES;
        }
    }
    Ok(records)
}

/// Tells holes below the mark, which are damage, from those above it, where the stream ends.
fn cut<F>(reader: &SegmentReader<'_, F>, records: Vec<Found>, durable: u64, from: u64) -> End {
    let mut end = End {
        head: reader.head,
        newest: Vec::new(),
        end: RECORDS_START,
        next_offset: reader.head.first_offset,
        durable,
        damage: Vec::new(),
        damaged_from: None,
    };
    for found in records {
        let (position, record) = found;
        // What lies before the window is known to be sound as far as it needs to be.
        let is_first = end.newest.is_empty() && end.damage.is_empty() && from > RECORDS_START;
        let follows = position == end.end && record.chunk.first_offset == end.next_offset;
        if !is_first && !follows {
            if end.next_offset >= durable {
                break;
            }
            end.note_hole(record.chunk.first_offset);
            end.newest.clear();
        }
        end.end = position + record.stride();
        end.next_offset = record.chunk.next_offset();
        end.newest.push(found);
    }
    if end.next_offset < durable {
        // What follows is written behind all that was there.
        end.note_hole(durable);
        end.end = reader.end.next_multiple_of(SECTOR_BYTES).max(end.end);
        end.next_offset = durable;
    }
    end
}

impl End {
    /// What was synced is not there, from the end as it is known so far to before this offset.
    fn note_hole(&mut self, before: u64) {
        self.damage.push(format!(
            "offsets {} to {} of segment {} are damaged on disk, at position {}: they are not \
             served, and offsets or sequences that were stored with them may be older ones",
            self.next_offset,
            before.saturating_sub(1),
            self.head.first_offset,
            self.end,
        ));
        self.damaged_from.get_or_insert(self.next_offset);
    }
}

/// Leaves the records from which tracking is replayed.
fn with_replay(mut end: End) -> End {
    if let Some((_, last)) = end.newest.last() {
        let replay_from = last.replay_from;
        end.newest.retain(|(position, _)| *position >= replay_from);
    }
    end
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::disk::MemoryDisk;
    use leveret_stream::{ChunkHeader, ChunkKind, SharedChunk};
    use std::path::Path;

    const STREAM: QueueId = QueueId(7);

    fn chunk(first_offset: u64) -> SharedChunk {
        let header = ChunkHeader {
            kind: ChunkKind::User,
            entries: 1,
            records: 1,
            timestamp_ms: 0,
            epoch: 1,
            first_offset,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        };
        SharedChunk::new(header, &[], &[&[0, 0, 0, 50], &[7; 50][..]].concat(), &[])
    }

    /// A drive may give other bytes when it is read again: what was sound a moment before.
    #[test]
    fn chunks_that_cannot_be_read_again_are_damage_from_the_first_one_on() {
        let disk = MemoryDisk::new();
        let mut files = StreamFiles::open(disk.clone(), Path::new("streams"), 1).unwrap();
        files.recover(STREAM).unwrap();
        files.begin_segment(STREAM, 0).unwrap();
        for offset in 0..4 {
            // All of them are needed to know what is kept by name.
            files.append(STREAM, &chunk(offset), offset == 0).unwrap();
        }
        files.sync(STREAM).unwrap();
        let name = (STREAM, 0);
        let (file, path) = (files.files.get(name).unwrap(), files.files.path(name));
        let reader = SegmentReader::open(&*file, name, None).unwrap().unwrap();
        let end = end_of(&reader, None).unwrap();
        assert_eq!(end.newest.len(), 4);
        for (position, record) in &end.newest[1..3] {
            let last = (position + record.bytes()) as usize - 1;
            assert!(disk.tamper(&path, |bytes| bytes[last] ^= 1));
        }
        let mut out = RecoveredStream::default();
        files.take_end(STREAM, &reader, end, &mut out).unwrap();
        assert_eq!((out.damaged_from, out.damage.len()), (Some(1), 2));
        let newest = out.recovered.newest.iter();
        let served: Vec<u64> = newest.map(|chunk| chunk.header().first_offset).collect();
        assert_eq!(served, [0, 3]);
    }
}
