//! Chunks are found and read back here.

use crate::disk::{Disk, DiskFile, read_exact, read_exact_into};
use crate::stream::files::StreamFiles;
use crate::stream::format::{
    FILE_HEAD_BYTES, FileHead, HeadError, RECORD_KNOWN_BYTES, RECORDS_START, RecordHead,
};
use crate::stream::open::Name;
use bytes::Bytes;
use leveret_stream::segments::{RECORD_HEAD_BYTES, SECTOR_BYTES};
use leveret_stream::{Loaded, Seek, SharedChunk};
use leveret_types::limits::STREAM_READ_BYTES;
use leveret_types::pool::Buffer;
use leveret_types::{QueueId, ReaderMemory};
use std::io;
use std::sync::Arc;

/// Why chunks could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamReadError {
    /// What is there is not what was written.
    #[error("segment {segment} of the stream is damaged at position {position}")]
    Damaged {
        /// The segment's first offset.
        segment: u64,
        /// Where in its file.
        position: u64,
    },
    /// The disk refused.
    #[error("segment {segment} of the stream cannot be read: {source}")]
    Io {
        /// The segment's first offset.
        segment: u64,
        /// What the disk said.
        source: io::Error,
    },
}

/// A segment file that is read, as far as it is written.
pub(crate) struct SegmentReader<'a, F> {
    pub(crate) file: &'a F,
    pub(crate) head: FileHead,
    pub(crate) end: u64,
}

/// A record and where it begins.
pub(crate) type Found = (u64, RecordHead);

impl<'a, F: DiskFile> SegmentReader<'a, F> {
    /// Reads the head of the file, which must be the one of this segment: one that a drive has put
    /// in the wrong place is damage.
    pub(crate) fn open(
        file: &'a F,
        (stream, first_offset): Name,
        end: Option<u64>,
    ) -> io::Result<Result<Self, HeadError>> {
        let len = file.len()?;
        let end = end.unwrap_or(len).min(len);
        let mut bytes = vec![0; FILE_HEAD_BYTES.min(end) as usize];
        let read = file.read_at(&mut bytes, 0)?;
        let head = FileHead::decode(&bytes[..read]).and_then(|head| {
            let is_own = head.stream == stream && head.first_offset == first_offset;
            is_own.then_some(head).ok_or(HeadError::Damaged)
        });
        Ok(head.map(|head| Self { file, head, end }))
    }

    /// The record at a position, if one is there; its body is not looked at.
    pub(crate) fn record_at(&self, position: u64) -> io::Result<Option<RecordHead>> {
        let mut known = [0; RECORD_KNOWN_BYTES];
        let read = self.file.read_at(&mut known, position)?;
        let record = RecordHead::decode(&self.head, position, &known[..read]);
        Ok(record.filter(|record| position + record.bytes() <= self.end))
    }

    /// Bytes from a position to the end, or none where all of them are zeros.
    pub(crate) fn written_bytes(&self, position: u64) -> io::Result<u64> {
        let is_zero = self.is_zero_from(position)?;
        Ok(if is_zero {
            0
        } else {
            self.end.saturating_sub(position)
        })
    }

    /// The first record that begins at `from` or behind it, and before `before`.
    pub(crate) fn find(&self, from: u64, before: u64) -> io::Result<Option<Found>> {
        const WINDOW_BYTES: u64 = 64 * 1024;
        let (mut at, before) = (from.next_multiple_of(SECTOR_BYTES), before.min(self.end));
        while at < before {
            let len = (self.end - at).min(WINDOW_BYTES) as usize;
            let window = read_exact(self.file, at, len)?;
            for sector in (0..len).step_by(SECTOR_BYTES as usize) {
                let position = at + sector as u64;
                let record = RecordHead::decode(&self.head, position, &window[sector..]);
                let record = record.filter(|record| position + record.bytes() <= self.end);
                if let Some(record) = record {
                    return Ok((position < before).then_some((position, record)));
                }
            }
            at += WINDOW_BYTES;
        }
        Ok(None)
    }

    /// Whether all bytes from a position to the end are zeros: what was cut there once.
    pub(crate) fn is_zero_from(&self, position: u64) -> io::Result<bool> {
        let mut at = position;
        while at < self.end {
            let len = (self.end - at).min(1 << 20) as usize;
            if read_exact(self.file, at, len)?
                .iter()
                .any(|byte| *byte != 0)
            {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }

    /// The position of the first record that is not before what is looked for. Which record is
    /// before must be so in the file's order.
    pub(crate) fn search(&self, is_before: impl Fn(&RecordHead) -> bool) -> io::Result<u64> {
        /// Below this, records are looked at one by one.
        const STEPS_BYTES: u64 = 64 * 1024;
        let (mut low, mut high) = (RECORDS_START, self.end);
        while high.saturating_sub(low) > STEPS_BYTES {
            let middle = low + (high - low) / 2;
            match self.find(middle, high)? {
                Some((position, record)) if is_before(&record) => low = position + record.stride(),
                _ => high = middle,
            }
        }
        while let Some(record) = self.record_at(low)?.filter(&is_before) {
            low += record.stride();
        }
        Ok(low)
    }

    /// Reads whole records from a position on: their chunks, and where they end. Of what lies
    /// together so many bytes are read, and up to one block more. What is read is counted where
    /// there is a count; where that leaves no room to go on, one block is enough.
    fn read(&self, from: u64, bounds: Bounds, memory: Option<&ReaderMemory>) -> io::Result<Read> {
        let mut read = Read {
            chunks: Vec::new(),
            position: from,
            is_sound: true,
        };
        while self.read_block(&mut read, bounds, memory)?
            && read.position - from < bounds.bytes
            && memory.is_none_or(ReaderMemory::has_room_to_go_on)
        {}
        Ok(read)
    }

    /// Reads the records of one block behind what was read. Whether the next one has what is wanted
    /// as well.
    fn read_block(
        &self,
        read: &mut Read,
        bounds: Bounds,
        memory: Option<&ReaderMemory>,
    ) -> io::Result<bool> {
        let counted = |bytes: Bytes| match memory {
            Some(memory) => memory.block(bytes),
            None => bytes,
        };
        let start = read.position;
        let had = read.chunks.len();
        let mut block = counted(self.block(start, STREAM_READ_BYTES)?);
        let mut block_bytes = block.len();
        let mut is_cut_short = false;
        while read.chunks.len() < bounds.chunks && !block.is_empty() {
            let Some(record) = RecordHead::decode(&self.head, read.position, &block) else {
                // The end of a block may cut a record short, also its head: the next read has it.
                read.is_sound = !read.chunks.is_empty() || self.is_zero_from(read.position)?;
                is_cut_short = read.chunks.len() > had && block.len() < RECORD_KNOWN_BYTES;
                break;
            };
            if record.chunk.first_offset >= bounds.before {
                break;
            }
            let bytes = usize::try_from(record.bytes()).unwrap_or(usize::MAX);
            if bytes > block.len() {
                if !read.chunks.is_empty() {
                    is_cut_short = read.chunks.len() > had;
                    break;
                }
                block = counted(self.block(read.position, bytes)?);
                block_bytes = block.len();
            }
            if bytes > block.len() || !record.has_body(&block[RECORD_KNOWN_BYTES..bytes]) {
                read.is_sound = !read.chunks.is_empty();
                break;
            }
            let stride = usize::try_from(record.stride()).unwrap_or(usize::MAX);
            let mut chunk = block.slice(RECORD_HEAD_BYTES..bytes);
            // A file that was cut short may lack the zeros behind its last record.
            block = block.split_off(stride.min(block.len()));
            let Ok(chunk) = SharedChunk::split_from(&mut chunk) else {
                read.is_sound = false;
                break;
            };
            read.chunks.push(chunk);
            read.position += record.stride();
        }
        let goes_on = is_cut_short || block.is_empty() && read.chunks.len() > had;
        if read.position - start < block_bytes as u64 / 2 {
            // Whoever keeps a chunk keeps all of the block that it came in.
            let chunks = read.chunks.split_off(had);
            read.chunks.extend(copied(chunks, block, counted));
        }
        Ok(goes_on && read.chunks.len() < bounds.chunks)
    }

    fn block(&self, position: u64, bytes: usize) -> io::Result<Bytes> {
        let len = self.end.saturating_sub(position).min(bytes as u64) as usize;
        let mut block = Buffer::with_capacity(len);
        block.extend_by(len, |room| read_exact_into(self.file, position, room))?;
        Ok(block.freeze())
    }

    /// The chunk of a record that is known to begin here, if its body is sound.
    pub(crate) fn chunk(&self, (position, record): &Found) -> io::Result<Option<SharedChunk>> {
        let bytes = usize::try_from(record.bytes()).unwrap_or(usize::MAX);
        let block = self.block(*position, bytes)?;
        if block.len() < bytes || !record.has_body(&block[RECORD_KNOWN_BYTES..]) {
            return Ok(None);
        }
        let mut chunk = block.slice(RECORD_HEAD_BYTES..);
        Ok(SharedChunk::split_from(&mut chunk).ok())
    }
}

/// Chunks in memory of their own; what is left of the block that they came in goes with them.
fn copied(
    chunks: Vec<SharedChunk>,
    block: Bytes,
    counted: impl Fn(Bytes) -> Bytes,
) -> Vec<SharedChunk> {
    let copies = chunks
        .iter()
        .map(|chunk| Bytes::copy_from_slice(chunk.bytes()));
    let copies: Vec<Bytes> = copies.collect();
    drop((chunks, block));
    let chunk = |bytes| SharedChunk::split_from(&mut counted(bytes)).expect("it was one before");
    copies.into_iter().map(chunk).collect()
}

/// What is read at most.
#[derive(Clone, Copy)]
struct Bounds {
    /// Nothing from this offset on.
    before: u64,
    chunks: usize,
    bytes: u64,
}

struct Read {
    chunks: Vec<SharedChunk>,
    position: u64,
    is_sound: bool,
}

/// A read of what a segment had when it was asked for. It may be done on another thread while more
/// is appended and segments are deleted; not while the stream is cut.
#[must_use]
pub struct StreamRead<D: Disk> {
    file: Arc<D::File>,
    stream: QueueId,
    segment: u64,
    /// Where its last record ended, if it is written to.
    end: Option<u64>,
    seek: Seek,
    bounds: Bounds,
    memory: Option<ReaderMemory>,
}

impl<D: Disk> StreamRead<D> {
    /// Counts what is read for as long as any of it is kept.
    pub fn counted(mut self, memory: ReaderMemory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Reads so many bytes where they lie together, instead of one block of
    /// [`STREAM_READ_BYTES`].
    pub const fn with_bytes(mut self, bytes: u64) -> Self {
        self.bounds.bytes = bytes;
        self
    }

    /// Does it.
    ///
    /// # Errors
    /// If the file is damaged where it is read, or the disk refuses.
    pub fn run(self) -> Result<Loaded, StreamReadError> {
        let Self {
            stream,
            segment,
            seek,
            bounds,
            memory,
            ..
        } = self;
        let failed = |source| StreamReadError::Io { segment, source };
        let damaged = |position| StreamReadError::Damaged { segment, position };
        let reader = SegmentReader::open(&*self.file, (stream, segment), self.end);
        let reader = reader.map_err(failed)?;
        let reader = reader.map_err(|_| damaged(0))?;
        let position = match seek {
            Seek::Position(position) => Ok(position),
            Seek::Offset(offset) => reader.search(|r| r.chunk.next_offset() <= offset),
            Seek::TimestampMs(time) => reader.search(|r| r.chunk.timestamp_ms < time),
        };
        let position = position.map_err(failed)?;
        let read = reader.read(position, bounds, memory.as_ref());
        let read = read.map_err(failed)?;
        if !read.is_sound {
            return Err(damaged(read.position));
        }
        Ok(Loaded {
            segment,
            chunks: read.chunks,
            position: read.position,
        })
    }
}

impl<D: Disk> StreamFiles<D> {
    /// A read of chunks of one segment, none of which begins at `before` or later; about as many
    /// bytes as are read from disk at once. It finds none where the segment has no more.
    ///
    /// # Errors
    /// If the disk refuses to open the file.
    pub fn begin_read(
        &mut self,
        stream: QueueId,
        segment: u64,
        seek: Seek,
        before: u64,
        chunks_max: u32,
    ) -> Result<StreamRead<D>, StreamReadError> {
        let file = self.files.get((stream, segment));
        let last = self.streams.get(&stream).and_then(|state| state.last);
        let last = last.filter(|last| last.head.first_offset == segment);
        Ok(StreamRead {
            file: file.map_err(|source| StreamReadError::Io { segment, source })?,
            stream,
            segment,
            end: last.map(|last| last.end),
            seek,
            bounds: Bounds {
                before,
                chunks: chunks_max as usize,
                bytes: 0,
            },
            memory: None,
        })
    }

    /// The same, done at once.
    ///
    /// # Errors
    /// If the file is damaged where it is read, or the disk refuses.
    pub fn read(
        &mut self,
        stream: QueueId,
        segment: u64,
        seek: Seek,
        before: u64,
        chunks_max: u32,
    ) -> Result<Loaded, StreamReadError> {
        self.begin_read(stream, segment, seek, before, chunks_max)?
            .run()
    }
}
