//! Writes segment files: what a full file of the write-ahead log still holds, what overflows the
//! cache, what a compaction keeps.

use super::format::{
    BlockBuilder, HEADER_BYTES, LogBlock, encode_footer, encode_header, file_name,
};
use crate::disk::{Disk, DiskFile};
use crate::error::Fatal;
use crate::flush::{CompactionPlan, FlushPlan};
use crate::id::FileId;
use crate::loaded::{Content, Key, Positions, ReadRequest, Source};
use crate::read_buffer::ReadBuffers;
use crate::reader::Reader;
use crate::wal::pool::is_full;
use hashbrown::HashMap;
use leveret_types::LogId;
use leveret_types::limits::{SEGMENT_BLOCK_BYTES, SEGMENT_BYTES_MAX};
use std::io::{self, IoSlice};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

/// Bytes of blocks that gather at once. With more logs than this has blocks, blocks get smaller
/// than [`SEGMENT_BLOCK_BYTES`].
const GATHERED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes written to a segment file between two syncs: so that no sync of the write-ahead log waits
/// behind a whole file.
const SYNC_BYTES: u64 = 4 * 1024 * 1024;

/// A segment file that was written.
#[derive(Clone, Debug)]
pub(crate) struct WrittenFile {
    pub(crate) file: FileId,
    pub(crate) bytes: u64,
    pub(crate) blocks: Vec<LogBlock>,
}

/// Entries that could not be copied because they cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) log: LogId,
    pub(crate) range: Range<u64>,
    pub(crate) why: String,
}

/// What a [`SegmentWriter`] wrote. Durable when this exists.
#[derive(Debug)]
pub struct Written {
    pub(crate) files: Vec<WrittenFile>,
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Written {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }

    /// How many files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The disk is full. What was written is deleted again: the same plan can be tried again when
    /// there is space.
    #[error("no space for a segment file")]
    NoSpace,
    /// The caller's [`Pace`] broke it off. What was written is deleted again.
    #[error("broken off")]
    BrokenOff,
    /// End the process.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// Called with the number of bytes after each write, and after each read of a compaction, so that
/// the caller can keep a gentle rate by waiting there, or break the work off.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Writes segment files. Owned by one thread.
pub struct SegmentWriter<D: Disk> {
    disk: D,
    folder: PathBuf,
    salt: u64,
    next_file: FileId,
    reader: Reader<D>,
    buffers: ReadBuffers,
    /// Files of work that was left, which the disk did not let go of yet.
    leftover: Vec<PathBuf>,
}

impl<D: Disk> SegmentWriter<D> {
    pub(crate) fn new(
        disk: D,
        folder: &Path,
        salt: u64,
        next_file: FileId,
        reader: Reader<D>,
    ) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            salt,
            next_file,
            reader,
            buffers: ReadBuffers::default(),
            leftover: Vec::new(),
        }
    }

    /// Number that the next file will have: what [`crate::CheckpointWriter::write`] asks for.
    #[must_use]
    pub fn next_file(&self) -> FileId {
        self.next_file
    }

    /// Deletes what earlier work left. Some file systems need space to delete: what fails for want
    /// of it is tried again.
    fn delete_leftover(&mut self) -> Result<(), Fatal> {
        delete_all(&self.disk, &mut self.leftover)
    }

    /// Carries out a flush.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn flush(&mut self, plan: &FlushPlan, pace: Pace<'_>) -> Result<Written, SegmentError> {
        self.delete_leftover()?;
        let mut output = Output::new(self, pace);
        let result = output.flush(plan);
        output.end(result)
    }

    /// Carries out a compaction.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn compact(
        &mut self,
        plan: &CompactionPlan,
        pace: Pace<'_>,
    ) -> Result<Written, SegmentError> {
        self.delete_leftover()?;
        let mut output = Output::new(self, pace);
        let result = output.compact(plan);
        output.end(result)
    }
}

/// Deletes files from the last on, until the disk has no space for it.
fn delete_all<D: Disk>(disk: &D, paths: &mut Vec<PathBuf>) -> Result<(), Fatal> {
    while let Some(path) = paths.last() {
        match disk.delete(path) {
            Ok(()) => {}
            // An earlier try that failed, or somebody else, has deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(Fatal::new("delete", path, error)),
        }
        paths.pop();
    }
    Ok(())
}

struct OpenFile<F> {
    file: F,
    id: FileId,
    offset: u64,
    synced: u64,
    blocks: Vec<LogBlock>,
}

struct Output<'a, D: Disk> {
    writer: &'a mut SegmentWriter<D>,
    pace: Pace<'a>,
    open: Option<OpenFile<D::File>>,
    created: Vec<PathBuf>,
    gathering: HashMap<(LogId, bool), BlockBuilder, foldhash::fast::FixedState>,
    gathered_bytes: usize,
    written: Written,
}

/// Why the output of one plan ended early.
enum Failure {
    /// This call failed.
    Call(&'static str, io::Error),
    BrokenOff,
}

impl From<(&'static str, io::Error)> for Failure {
    fn from((call, error): (&'static str, io::Error)) -> Self {
        Self::Call(call, error)
    }
}

impl<'a, D: Disk> Output<'a, D> {
    fn new(writer: &'a mut SegmentWriter<D>, pace: Pace<'a>) -> Self {
        Self {
            writer,
            pace,
            open: None,
            created: Vec::new(),
            gathering: HashMap::default(),
            gathered_bytes: 0,
            written: Written {
                files: Vec::new(),
                unreadable: Vec::new(),
            },
        }
    }

    fn end(self, result: Result<(), Failure>) -> Result<Written, SegmentError> {
        match result {
            Ok(()) => Ok(self.written),
            Err(Failure::BrokenOff) => {
                self.discard()?;
                Err(SegmentError::BrokenOff)
            }
            Err(Failure::Call(_, error)) if is_full(&error) => {
                self.discard()?;
                Err(SegmentError::NoSpace)
            }
            Err(Failure::Call(call, error)) => {
                Err(Fatal::new(call, &self.writer.folder, error).into())
            }
        }
    }

    /// Deletes what was written. What remains all the same is in no checkpoint, and is deleted with
    /// the next work, or at the next start.
    fn discard(mut self) -> Result<(), Fatal> {
        drop(self.open.take());
        self.writer.leftover.append(&mut self.created);
        self.writer.delete_leftover()
    }

    /// Tells the caller of so many bytes.
    fn pace(&mut self, bytes: u64) -> Result<(), Failure> {
        match (self.pace)(bytes) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Failure::BrokenOff),
        }
    }

    fn flush(&mut self, plan: &FlushPlan) -> Result<(), Failure> {
        let mut rest = &plan.pieces[..];
        for (at, chunk) in plan.chunks.iter().enumerate() {
            let count = rest.partition_point(|piece| piece.chunk as usize <= at);
            let (pieces, after) = rest.split_at(count);
            rest = after;
            let content = match &chunk.bodies {
                Some(bodies) => Ok(Content::Chunk {
                    positions: Positions::All,
                    bodies: bodies.clone(),
                    damaged: Vec::new(),
                }),
                None => {
                    let source = chunk.source(chunk.positions(pieces));
                    self.read(plan.shard, Key::Chunk(chunk.seq), source)
                }
            };
            let (positions, bodies, damaged) = match &content {
                Ok(Content::Chunk {
                    positions,
                    bodies,
                    damaged,
                }) => (positions, bodies, damaged),
                Ok(Content::Block { .. }) => unreachable!("a chunk was asked for"),
                Err(why) => {
                    for piece in pieces {
                        self.unreadable(piece.log, piece.indexes(), why);
                    }
                    continue;
                }
            };
            for piece in pieces {
                for (position, index) in (piece.first_position..).zip(piece.indexes()) {
                    if damaged.contains(&position) {
                        let why = "its checksum in the write-ahead log is wrong";
                        self.unreadable(piece.log, index..index + 1, why);
                    } else if let Some(number) = positions.number_of(position) {
                        let body = bodies.slice(number);
                        self.push((piece.log, plan.volatile), index, body)?;
                    } else {
                        unreachable!("every body of a piece was asked for");
                    }
                }
            }
            content
                .into_iter()
                .for_each(|content| self.writer.buffers.give(content));
        }
        self.finish()
    }

    fn compact(&mut self, plan: &CompactionPlan) -> Result<(), Failure> {
        for piece in &plan.pieces {
            let of = (piece.log, piece.volatile);
            if !piece.joins_previous {
                self.emit(of)?;
            }
            let block = &piece.block;
            let key = Key::Block {
                file: block.file,
                offset: block.offset,
            };
            let source = Source::Segment {
                file: block.file,
                offset: block.offset,
                len: block.len,
            };
            let content = self.read(plan.shard, key, source);
            self.pace(u64::from(block.len))?;
            let content = match content {
                Ok(content) => content,
                Err(why) => {
                    for range in &piece.live {
                        self.unreadable(piece.log, range.clone(), &why);
                    }
                    continue;
                }
            };
            let Content::Block {
                bytes,
                first_index,
                spans,
                ..
            } = &content
            else {
                unreachable!("a block was asked for");
            };
            for index in piece.live.iter().cloned().flatten() {
                let delta = index - first_index;
                let found = spans.binary_search_by_key(&delta, |s| u64::from(s.delta));
                match found.map(|at| spans[at]) {
                    Ok(span) if span.sound => {
                        let start = span.start as usize;
                        self.push(of, index, &bytes[start..start + span.len as usize])?;
                    }
                    _ => {
                        let why = "its checksum in the segment file is wrong";
                        self.unreadable(piece.log, index..index + 1, why);
                    }
                }
            }
            self.writer.buffers.give(content);
        }
        self.finish()
    }

    fn read(&mut self, shard: u8, key: Key, source: Source) -> Result<Content, String> {
        let buffer = self.writer.buffers.take(source.buffer_bytes());
        let request = ReadRequest::new(shard, key, source, buffer);
        self.writer.reader.read(request).result
    }

    fn unreadable(&mut self, log: LogId, range: Range<u64>, why: &str) {
        if let Some(last) = self.written.unreadable.last_mut()
            && (last.log, last.range.end) == (log, range.start)
            && last.why == why
        {
            last.range.end = range.end;
            return;
        }
        self.written.unreadable.push(Unreadable {
            log,
            range,
            why: why.to_owned(),
        });
    }

    fn push(&mut self, of: (LogId, bool), index: u64, payload: &[u8]) -> Result<(), Failure> {
        let builder = self.gathering.entry(of).or_default();
        let full = builder.bytes() + payload.len() > SEGMENT_BLOCK_BYTES || !builder.reaches(index);
        if full && !builder.is_empty() {
            self.emit(of)?;
        }
        let builder = self.gathering.entry(of).or_default();
        let before = if builder.is_empty() {
            0
        } else {
            builder.bytes()
        };
        builder.push(index, payload);
        self.gathered_bytes += builder.bytes() - before;
        if self.gathered_bytes > GATHERED_BYTES_MAX {
            self.emit_largest()?;
        }
        Ok(())
    }

    /// Writes the largest blocks until half of what gathers is gone.
    fn emit_largest(&mut self) -> Result<(), Failure> {
        let mut sizes: Vec<_> = self
            .gathering
            .iter()
            .map(|(of, b)| (b.bytes(), *of))
            .collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        for (_, of) in sizes {
            if self.gathered_bytes <= GATHERED_BYTES_MAX / 2 {
                break;
            }
            self.emit(of)?;
            self.gathering.remove(&of);
        }
        Ok(())
    }

    /// Writes the block that gathers for a log, if there is one.
    fn emit(&mut self, of: (LogId, bool)) -> Result<(), Failure> {
        let Some(mut builder) = self.gathering.remove(&of).filter(|b| !b.is_empty()) else {
            return Ok(());
        };
        self.gathered_bytes -= builder.bytes();
        let mut open = match self.open.take() {
            Some(open) if open.offset + builder.bytes() as u64 <= SEGMENT_BYTES_MAX => open,
            Some(full) => {
                self.close(full)?;
                self.create()?
            }
            None => self.create()?,
        };
        let offset = open.offset as u32;
        let (head, payload, block) = builder.encode(self.writer.salt, open.id, of, offset);
        let slices = [IoSlice::new(&head), IoSlice::new(payload)];
        let slices = if payload.is_empty() {
            &slices[..1]
        } else {
            &slices[..]
        };
        open.file
            .write_at(slices, open.offset)
            .map_err(|e| ("write", e))?;
        let block_len = block.block.len;
        open.offset += u64::from(block_len);
        open.blocks.push(block);
        if open.offset - open.synced >= SYNC_BYTES {
            open.file.sync_data().map_err(|e| ("sync", e))?;
            open.synced = open.offset;
        }
        self.open = Some(open);
        self.pace(u64::from(block_len))?;
        builder.clear();
        self.gathering.insert(of, builder);
        Ok(())
    }

    fn create(&mut self) -> Result<OpenFile<D::File>, Failure> {
        let id = self.writer.next_file;
        self.writer.next_file += 1;
        let path = self.writer.folder.join(file_name(id));
        let file = self
            .writer
            .disk
            .create_new(&path)
            .map_err(|e| ("create", e))?;
        self.created.push(path);
        let header = encode_header(self.writer.salt, id);
        file.write_at(&[IoSlice::new(&header)], 0)
            .map_err(|e| ("write", e))?;
        Ok(OpenFile {
            file,
            id,
            offset: HEADER_BYTES as u64,
            synced: 0,
            blocks: Vec::new(),
        })
    }

    fn close(&mut self, open: OpenFile<D::File>) -> Result<(), Failure> {
        let footer = encode_footer(self.writer.salt, open.id, &open.blocks);
        let slices = [IoSlice::new(&footer)];
        open.file
            .write_at(&slices, open.offset)
            .map_err(|e| ("write", e))?;
        open.file.sync_data().map_err(|e| ("sync", e))?;
        let bytes = open.offset + footer.len() as u64;
        self.written.files.push(WrittenFile {
            file: open.id,
            bytes,
            blocks: open.blocks,
        });
        Ok(())
    }

    /// Writes what still gathers, log by log, and makes all of it durable.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut rest: Vec<_> = self.gathering.keys().copied().collect();
        rest.sort_unstable();
        for of in rest {
            self.emit(of)?;
        }
        if let Some(open) = self.open.take() {
            self.close(open)?;
        }
        if !self.created.is_empty() {
            let synced = self.writer.disk.sync_dir(&self.writer.folder);
            synced.map_err(|e| ("sync of the folder", e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    #[test]
    fn a_leftover_that_is_gone_already_is_deleted() {
        let disk = MemoryDisk::new();
        let (there, gone) = (PathBuf::from("f/there"), PathBuf::from("f/gone"));
        disk.create_new(&there).expect("a file");
        let mut leftover = vec![there, gone];
        assert!(delete_all(&disk, &mut leftover).is_ok());
        assert!(leftover.is_empty());
        assert!(disk.paths().is_empty());
    }
}
