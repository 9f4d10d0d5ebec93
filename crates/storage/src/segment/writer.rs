//! Writes segment files: what a full file of the write-ahead log still holds, what overflows the
//! cache, what a compaction keeps.

mod large;

use super::format::{
    BLOCK_HEADER_BYTES, BlockBuilder, ENTRY_BYTES, HEADER_BYTES, LogBlock, NO_LOG, REFERENCES,
    VERSION_OWN, VERSION_SHARED, encode_block, encode_footer, encode_header, file_name, own_class,
    shared_class,
};

use super::shared::{
    Reference, SharedBuilder, encode_references, fanned_out, log_block, references_bytes,
};
use crate::disk::{Disk, DiskFile};
use crate::error::Fatal;
use crate::flush::{CompactionPiece, CompactionPlan, FlushPlan, Piece};
use crate::folders::SegmentFolders;
use crate::id::FileId;
use crate::loaded::{Content, Key, Positions, ReadRequest, Source};
use crate::log::Block;
use crate::read_buffer::ReadBuffers;
use crate::reader::Reader;
use crate::wal::pool::is_full;
use hashbrown::HashMap;
use leveret_types::LogId;
use leveret_types::limits::{SEGMENT_BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_REFERENCE_BYTES_MIN};
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
    /// Whether it lies where earlier versions of Leveret do not look.
    pub(crate) is_own: bool,
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

    /// How many stretches of entries lie in blocks that several logs share.
    #[must_use]
    pub fn shared_part_count(&self) -> usize {
        let blocks = self.files.iter().flat_map(|file| &file.blocks);
        let shared = blocks.filter(|part| part.block.shared_from.is_some());
        shared.count()
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
    folders: SegmentFolders,
    salt: u64,
    next_file: FileId,
    reader: Reader<D>,
    buffers: ReadBuffers,
    /// What large bodies are copied through.
    piece: Vec<u8>,
    /// Files of work that was left, which the disk did not let go of yet.
    leftover: Vec<PathBuf>,
}

impl<D: Disk> SegmentWriter<D> {
    pub(crate) fn new(
        disk: D,
        folders: SegmentFolders,
        salt: u64,
        next_file: FileId,
        reader: Reader<D>,
    ) -> Self {
        Self {
            disk,
            folders,
            salt,
            next_file,
            reader,
            buffers: ReadBuffers::default(),
            piece: Vec::new(),
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
    version: u16,
    offset: u64,
    synced: u64,
    blocks: Vec<LogBlock>,
}

struct Output<'a, D: Disk> {
    writer: &'a mut SegmentWriter<D>,
    pace: Pace<'a>,
    open: Option<OpenFile<D::File>>,
    created: Vec<PathBuf>,
    /// Whether what is written is of logs that are placed apart.
    apart: bool,
    gathering: HashMap<(LogId, bool), BlockBuilder, foldhash::fast::FixedState>,
    gathered_bytes: usize,
    shared: SharedBuilder,
    /// Entries of fewer bytes are copied rather than referred to.
    reference_bytes_min: usize,
    /// Version of the next file.
    version: u16,
    written: Written,
}

/// Bodies that are copied: those of a chunk by their positions, or of a shared block by their
/// numbers.
struct Bodies<'a> {
    content: &'a Content,
    volatile: bool,
    /// Which of them go to a shared block; empty if none does.
    shared: Vec<bool>,
    count: u32,
    /// Of a chunk, the sequence of its first body.
    first_body: Option<u64>,
}

impl Bodies<'_> {
    /// One of them, unless it is damaged.
    fn body(&self, position: u32) -> Option<&[u8]> {
        match self.content {
            Content::Chunk {
                positions,
                bodies,
                damaged,
            } => {
                let number = positions.number_of(position)?;
                (!damaged.contains(&position)).then(|| bodies.slice(number))
            }
            Content::Block { bytes, spans, .. } => {
                let span = spans.get(position as usize).filter(|span| span.sound)?;
                Some(&bytes[span.range()])
            }
            Content::Table(_) => None,
        }
    }

    /// Sequence of a body, if these are a chunk's. What a log has between two entries of a shared
    /// block may be elsewhere.
    fn sequence(&self, position: u32) -> Option<u64> {
        Some(self.first_body? + u64::from(position))
    }

    fn why_unsound(&self) -> &'static str {
        match self.content {
            Content::Chunk { .. } | Content::Table(_) => {
                "its checksum in the write-ahead log is wrong"
            }
            Content::Block { .. } => "its checksum in the segment file is wrong",
        }
    }
}

/// What a reference has of a shared block of so many entries: from the first that lives to the
/// last.
fn living_piece(piece: &CompactionPiece, count: u32) -> Option<Piece> {
    let (first, last) = (piece.live.first()?.start, piece.live.last()?.end);
    let from = piece.block.shared_from.unwrap_or(0);
    let first_position = from + (first - piece.block.first_index) as u32;
    let len = (last - first) as u32;
    let is_inside = first_position
        .checked_add(len)
        .is_some_and(|end| end <= count);
    is_inside.then_some(Piece {
        chunk: 0,
        first_position,
        count: len,
        log: piece.log,
        first_index: first,
    })
}

/// Which of so many entries of a shared block live in one of these references.
fn needed(sharing: &[&CompactionPiece], count: u32) -> Vec<bool> {
    let mut needed = vec![false; count as usize];
    for piece in sharing {
        let from = u64::from(piece.block.shared_from.unwrap_or(0));
        for live in &piece.live {
            let at = |index: u64| (from + index - piece.block.first_index) as usize;
            if let Some(part) = needed.get_mut(at(live.start)..at(live.end)) {
                part.fill(true);
            }
        }
    }
    needed
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
            apart: false,
            gathering: HashMap::default(),
            gathered_bytes: 0,
            shared: SharedBuilder::default(),
            reference_bytes_min: SEGMENT_REFERENCE_BYTES_MIN,
            version: VERSION_OWN,
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
            Err(Failure::Call(call, error)) => Err(Fatal::new(call, self.folder(), error).into()),
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

    /// The folder of what is written.
    fn folder(&self) -> &Path {
        self.writer.folders.folder(self.apart)
    }

    /// First what is placed apart, then the rest: each has files of its own.
    fn flush(&mut self, plan: &FlushPlan) -> Result<(), Failure> {
        if plan.apart.is_empty() {
            return self.flush_pieces(plan, &plan.pieces);
        }
        for apart in [true, false] {
            let of_these = plan.pieces.iter();
            let of_these = of_these.filter(|piece| plan.apart.contains(&piece.log) == apart);
            let pieces: Vec<Piece> = of_these.copied().collect();
            self.apart = apart;
            self.flush_pieces(plan, &pieces)?;
        }
        Ok(())
    }

    fn flush_pieces(&mut self, plan: &FlushPlan, pieces: &[Piece]) -> Result<(), Failure> {
        let mut rest = pieces;
        for (at, chunk) in plan.chunks.iter().enumerate() {
            let count = rest.partition_point(|piece| piece.chunk as usize <= at);
            let (pieces, after) = rest.split_at(count);
            rest = after;
            if pieces.is_empty() {
                continue;
            }
            if self.flush_large(plan, chunk, pieces)? {
                continue;
            }
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
            match content {
                Ok(content) => {
                    let source = Bodies {
                        content: &content,
                        volatile: plan.volatile,
                        shared: fanned_out(pieces, chunk.count),
                        count: chunk.count,
                        first_body: Some(chunk.first_body),
                    };
                    self.copy(&source, pieces)?;
                    self.writer.buffers.give(content);
                }
                Err(why) => {
                    for piece in pieces {
                        self.unreadable(piece.log, piece.indexes(), &why);
                    }
                }
            }
        }
        self.emit_shared()?;
        self.finish()
    }

    /// Copies what these pieces have of a chunk or of a shared block: what several logs have to a
    /// shared block.
    fn copy(&mut self, source: &Bodies<'_>, pieces: &[Piece]) -> Result<(), Failure> {
        // Numbers in the shared block that gathers, by position.
        let mut numbers = vec![None; source.shared.len()];
        let mut start = 0;
        while start < source.count {
            let end = match source.shared.is_empty() {
                true => source.count,
                false => self.share(source, start, &mut numbers)?,
            };
            for piece in pieces {
                let first = piece.first_position;
                for position in start.max(first)..end.min(first + piece.count) {
                    let index = piece.first_index + u64::from(position - first);
                    let Some(body) = source.body(position) else {
                        self.unreadable(piece.log, index..index + 1, source.why_unsound());
                        continue;
                    };
                    let number = numbers.get(position as usize).copied().flatten();
                    let sequence = source.sequence(position);
                    let ended = match number {
                        Some(number) => self.shared.refer(piece.log, index, number, sequence),
                        // Nobody needs it any more.
                        None if sequence.is_none() => continue,
                        None => self.shared.end(piece.log),
                    };
                    if let Some(reference) = ended {
                        self.place(reference)?;
                    }
                    if number.is_none() {
                        self.push((piece.log, source.volatile), index, body)?;
                    }
                }
            }
            start = end;
        }
        Ok(())
    }

    /// Takes bodies that are shared into the shared block that gathers, from a position on, as many
    /// as fit it. Gives the position at which it ends.
    fn share(
        &mut self,
        source: &Bodies<'_>,
        start: u32,
        numbers: &mut [Option<u32>],
    ) -> Result<u32, Failure> {
        for position in start..source.count {
            let is_shared = source.shared[position as usize];
            let Some(body) = source.body(position).filter(|_| is_shared) else {
                continue;
            };
            let bytes = self.shared.bodies.bytes() + body.len();
            if bytes > SEGMENT_BLOCK_BYTES && !self.shared.is_empty() {
                if position > start {
                    return Ok(position);
                }
                self.emit_shared()?;
            }
            self.shared.volatile = source.volatile;
            numbers[position as usize] = Some(self.shared.push(body));
        }
        Ok(source.count)
    }

    /// Makes a reference that does not grow any more part of the shared block that gathers; or
    /// copies its entries, where they are too few bytes to be worth one.
    fn place(&mut self, reference: Reference) -> Result<(), Failure> {
        let of = (reference.log, self.shared.volatile);
        if reference.bytes >= self.reference_bytes_min {
            self.version = VERSION_SHARED;
            // Blocks of a log do not overlap: what gathers of it comes before.
            self.emit(of)?;
            self.shared.references.push(reference);
            return Ok(());
        }
        let shared = std::mem::take(&mut self.shared);
        let mut entries = reference.entries();
        let copied = entries.try_for_each(|(index, at)| self.push(of, index, shared.body(at)));
        self.shared = shared;
        copied
    }

    /// Writes the shared block that gathers, and behind it the references to it.
    fn emit_shared(&mut self) -> Result<(), Failure> {
        for log in self.shared.open_logs() {
            if let Some(reference) = self.shared.end(log) {
                self.place(reference)?;
            }
        }
        let shared = std::mem::take(&mut self.shared);
        if shared.references.is_empty() {
            return Ok(());
        }
        let count = shared.references.len();
        self.make_room(shared.bodies.bytes() + references_bytes(count))?;
        let of = (NO_LOG, shared_class(shared.volatile));
        let block = self.write(&shared.bodies, of)?;
        let references = encode_references(block.block.offset, &shared.references);
        self.write(&references, (NO_LOG, REFERENCES))?;
        if let Some(open) = &mut self.open {
            let blocks = shared.references.iter().map(|r| log_block(r, &block));
            open.blocks.extend(blocks);
        }
        Ok(())
    }

    fn compact(&mut self, plan: &CompactionPlan) -> Result<(), Failure> {
        for apart in [true, false] {
            let pieces = plan.pieces.iter();
            let pieces = pieces.filter(|piece| plan.apart.contains(&piece.log) == apart);
            self.apart = apart;
            self.compact_pieces(plan, &pieces.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn compact_pieces(
        &mut self,
        plan: &CompactionPlan,
        pieces: &[&CompactionPiece],
    ) -> Result<(), Failure> {
        self.compact_shared(plan, pieces)?;
        let is_own = |piece: &&&CompactionPiece| piece.block.shared_from.is_none();
        for piece in pieces.iter().filter(is_own) {
            let of = (piece.log, piece.volatile);
            if !piece.joins_previous {
                self.emit(of)?;
            }
            if self.compact_large(piece)? {
                continue;
            }
            let content = match self.read_block(plan.shard, &piece.block)? {
                Ok(content) => content,
                Err(why) => {
                    for range in &piece.live {
                        self.unreadable(piece.log, range.clone(), &why);
                    }
                    continue;
                }
            };
            for index in piece.live.iter().cloned().flatten() {
                match content.entry(piece.log, &piece.block, index) {
                    Ok(body) => self.push(of, index, body)?,
                    Err(why) => self.unreadable(piece.log, index..index + 1, why),
                }
            }
            self.writer.buffers.give(content);
        }
        self.finish()
    }

    /// Carries out the part of a compaction that concerns shared blocks: each is read once, and
    /// what any log still needs of it goes to another one.
    fn compact_shared(
        &mut self,
        plan: &CompactionPlan,
        pieces: &[&CompactionPiece],
    ) -> Result<(), Failure> {
        // What is left of a reference is not copied, however little it is: it would have to be put
        // in between blocks of the log that are already written.
        self.reference_bytes_min = 0;
        let pieces = pieces.iter().copied();
        let mut pieces: Vec<_> = pieces.filter(|p| p.block.shared_from.is_some()).collect();
        let block = |piece: &CompactionPiece| {
            let block = &piece.block;
            (piece.volatile, block.file, block.offset)
        };
        pieces.sort_by_key(|piece| block(piece));
        for sharing in pieces.chunk_by(|a, b| block(a) == block(b)) {
            if self.compact_large_shared(sharing)? {
                continue;
            }
            let (first, volatile) = (&sharing[0].block, sharing[0].volatile);
            let content = match self.read_block(plan.shard, first)? {
                Ok(content) => content,
                Err(why) => {
                    for piece in sharing {
                        for range in &piece.live {
                            self.unreadable(piece.log, range.clone(), &why);
                        }
                    }
                    continue;
                }
            };
            if self.shared.volatile != volatile {
                self.emit_shared()?;
            }
            let count = content.entry_count();
            let live = sharing
                .iter()
                .filter_map(|piece| living_piece(piece, count));
            let live: Vec<Piece> = live.collect();
            let source = Bodies {
                content: &content,
                volatile,
                shared: needed(sharing, count),
                count,
                first_body: None,
            };
            self.copy(&source, &live)?;
            self.writer.buffers.give(content);
        }
        self.emit_shared()
    }

    /// Reads a block for a compaction; why not, if it cannot be read.
    fn read_block(&mut self, shard: u8, block: &Block) -> Result<Result<Content, String>, Failure> {
        let (file, offset, len) = (block.file, block.offset, block.len);
        let source = Source::Segment { file, offset, len };
        let content = self.read(shard, Key::Block { file, offset }, source);
        self.pace(u64::from(len))?;
        Ok(content)
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
        if payload.len() > SEGMENT_BLOCK_BYTES {
            return self.write_alone(of, index, payload);
        }
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

    /// Writes a block of one large entry, which is not copied for that.
    fn write_alone(
        &mut self,
        of: (LogId, bool),
        index: u64,
        payload: &[u8],
    ) -> Result<(), Failure> {
        // Blocks of a log do not overlap: what gathers of it comes before.
        self.emit(of)?;
        self.make_room(BLOCK_HEADER_BYTES + ENTRY_BYTES + payload.len())?;
        let (log, volatile) = of;
        let entries = [(index, payload.len() as u32)];
        let block = self.write_block((&entries, payload), (log, own_class(volatile)))?;
        if let Some(open) = &mut self.open {
            open.blocks.push(block);
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
        self.make_room(builder.bytes())?;
        let (log, volatile) = of;
        let block = self.write(&builder, (log, own_class(volatile)))?;
        if let Some(open) = &mut self.open {
            open.blocks.push(block);
        }
        builder.clear();
        self.gathering.insert(of, builder);
        Ok(())
    }

    /// Sees to it that a file is open that can take so many bytes more.
    fn make_room(&mut self, bytes: usize) -> Result<(), Failure> {
        let version = self.version;
        let fits = |open: &OpenFile<D::File>| {
            open.version == version && open.offset + bytes as u64 <= SEGMENT_BYTES_MAX
        };
        if self.open.as_ref().is_some_and(fits) {
            return Ok(());
        }
        if let Some(full) = self.open.take() {
            self.close(full)?;
        }
        self.open = Some(self.create()?);
        Ok(())
    }

    /// Writes a block to the file that is open.
    fn write(&mut self, builder: &BlockBuilder, of: (LogId, u8)) -> Result<LogBlock, Failure> {
        self.write_block((builder.entries(), builder.payload()), of)
    }

    /// The same of a block that is given by its entries and their payloads.
    fn write_block(
        &mut self,
        (entries, payload): (&[(u64, u32)], &[u8]),
        of: (LogId, u8),
    ) -> Result<LogBlock, Failure> {
        let Some(open) = &mut self.open else {
            unreachable!("room was made");
        };
        let at = (open.id, open.offset as u32);
        let (head, block) = encode_block((entries, payload), self.writer.salt, at, of);
        let slices = [IoSlice::new(&head), IoSlice::new(payload)];
        let slices = if payload.is_empty() {
            &slices[..1]
        } else {
            &slices[..]
        };
        open.file
            .write_at(slices, open.offset)
            .map_err(|e| ("write", e))?;
        open.offset += u64::from(block.block.len);
        if open.offset - open.synced >= SYNC_BYTES {
            open.file.sync_data().map_err(|e| ("sync", e))?;
            open.synced = open.offset;
        }
        self.pace(u64::from(block.block.len))?;
        Ok(block)
    }

    fn create(&mut self) -> Result<OpenFile<D::File>, Failure> {
        let id = self.writer.next_file;
        self.writer.next_file += 1;
        let path = self.folder().join(file_name(id));
        let file = self
            .writer
            .disk
            .create_new(&path)
            .map_err(|e| ("create", e))?;
        self.created.push(path);
        let header = encode_header(self.writer.salt, id, self.version);
        file.write_at(&[IoSlice::new(&header)], 0)
            .map_err(|e| ("write", e))?;
        Ok(OpenFile {
            file,
            id,
            version: self.version,
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
            is_own: !self.apart && self.writer.folders.are_two(),
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
            let synced = self.writer.disk.sync_dir(self.folder());
            synced.map_err(|e| ("sync of the folder", e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::folders::Folders;
    use crate::recover::{Options, recover};

    #[test]
    fn blocks_of_many_logs_are_written_before_they_gather_more_than_they_may() {
        let (disk, folders) = (MemoryDisk::new(), Folders::within(Path::new("/store")));
        let mut parts = recover(&disk, &folders, &Options::default()).expect("a store");
        let mut pace = |_| ControlFlow::Continue(());
        let mut output = Output::new(&mut parts.segment, &mut pace);
        let payload = vec![7; SEGMENT_BLOCK_BYTES / 2];
        let (mut logs, mut before, mut fullest) = (0, 0, 0);
        while logs < 4 * (GATHERED_BYTES_MAX / payload.len()) as u64 {
            assert!(output.push((LogId(logs), false), 0, &payload).is_ok());
            logs += 1;
            let bytes = output.gathering.values().map(BlockBuilder::bytes).sum();
            assert_eq!(output.gathered_bytes, bytes);
            if bytes < before {
                assert!(bytes <= GATHERED_BYTES_MAX / 2, "half is written at once");
            }
            (before, fullest) = (bytes, bytes.max(fullest));
        }
        let one = payload.len() + ENTRY_BYTES;
        assert!((GATHERED_BYTES_MAX - one..=GATHERED_BYTES_MAX).contains(&fullest));
        assert!(output.finish().is_ok());
        let written = output.written.files.iter().map(|file| file.blocks.len());
        assert_eq!(written.sum::<usize>() as u64, logs);
    }

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
