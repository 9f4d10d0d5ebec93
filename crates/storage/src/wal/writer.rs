//! The write-ahead log's writer: one vectored write and one fdatasync for all that gathered.

use super::format::{
    BatchContext, Position, SECTOR_BYTES, encode_file_header, encode_grown, encode_head,
};
use super::layout::{BatchLayout, Recent};
use super::newest;
use super::pool::{self, PreparedFile, is_full};
use crate::chunk::{ChunkLocation, SealedChunk};
use crate::disk::{Disk, DiskFile, write_zeros, zeros};
use crate::error::{Fatal, WalError};
use crate::id::{ChunkSeq, Generation};
use leveret_types::limits::WAL_BATCH_BYTES_MAX;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Chunks of one batch at most: their number has sixteen bits.
pub(crate) const BATCH_CHUNKS_MAX: usize = 4_096;
/// Zeros that a file that grows gets with small batches: one sync then pays for the metadata of
/// many.
const AHEAD_BYTES: u64 = 256 * 1024;
/// And this part of a file at most.
const AHEAD_PART: u64 = 16;
/// How the name of a file ends that does not have its header yet.
pub(crate) const BEGUN_SUFFIX: &str = "begun";
/// Batches below this, or below half of these zeros, bring zeros with them: of larger ones their
/// own bytes are what their sync costs.
const SMALL_BATCH_BYTES: u64 = 16 * 1024;

/// What one write made durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalOutcome {
    /// For each chunk written: its shard, its sequence, and where its bodies lie. Hand each shard
    /// its own through [`crate::ShardLogs::on_durable`].
    pub written: Vec<(u8, ChunkSeq, ChunkLocation)>,
    /// A file that is full now: the segment writer may begin with it.
    pub rolled: Option<Generation>,
    /// Bytes written, padding included.
    pub bytes: u64,
    /// Bodies that were not written because the file had them already.
    pub references: u64,
}

/// Name of a file of the write-ahead log.
pub(crate) fn file_name(generation: Generation) -> String {
    format!("{generation:016x}.wal")
}

/// The generation in a file's name.
pub(crate) fn parse_file_name(name: &str) -> Option<Generation> {
    let digits = name.strip_suffix(".wal").filter(|d| d.len() == 16)?;
    Generation::from_str_radix(digits, 16).ok()
}

struct Current<F> {
    file: F,
    generation: Generation,
    /// Where the next batch begins; 0 while the file's header is unwritten.
    offset: u64,
    /// Up to here the file has its blocks, so that a write changes no metadata. All of it is
    /// durable between two batches.
    filled: u64,
    /// Length with which the file was made; 0 if it grows.
    made: u64,
    /// How long the header of a file that grows says that it is, and how often it was told so.
    told: (u64, u64),
}

impl<F> Current<F> {
    /// How long it may get, where files grow to `file_bytes`.
    fn limit(&self, file_bytes: u64) -> u64 {
        match self.made {
            0 => file_bytes,
            made => made,
        }
    }

    /// Where the next batch goes.
    fn next(&self) -> Position {
        Position {
            generation: self.generation,
            offset: self.offset.max(SECTOR_BYTES),
        }
    }
}

/// Writes chunks to the write-ahead log. Owned by one thread.
///
/// Whatever fails in writing or syncing is [`Fatal`]: the process must end, because nobody knows
/// any more what is on the disk. The one exception is a full disk found before anything was
/// written.
pub struct WalWriter<D: Disk> {
    disk: D,
    folder: PathBuf,
    salt: u64,
    file_bytes: u64,
    current: Option<Current<D::File>>,
    next_generation: Generation,
    sequence: u64,
    chain: u32,
    synced: Position,
    /// Whether a batch was written that no later batch has called synced yet.
    uncovered: bool,
    /// A file that is full and of which nobody has been told.
    rolled: Option<Generation>,
    head: Vec<u8>,
    previous_head: Vec<u8>,
    pool: Vec<PreparedFile>,
    /// What later chunks may refer to.
    recent: Recent,
    /// The file that is named as the newest one.
    named: Option<Generation>,
    /// The one that was before the current file was.
    named_before: Option<Generation>,
}

/// Where a writer goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resume {
    pub(crate) next_generation: Generation,
    pub(crate) sequence: u64,
    pub(crate) chain: u32,
    pub(crate) synced: Position,
}

impl<D: Disk> WalWriter<D> {
    pub(crate) fn new(disk: D, folder: &Path, salt: u64, file_bytes: u64, resume: Resume) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            salt,
            file_bytes,
            current: None,
            next_generation: resume.next_generation,
            sequence: resume.sequence,
            chain: resume.chain,
            synced: resume.synced,
            uncovered: false,
            rolled: None,
            head: Vec::new(),
            previous_head: Vec::new(),
            pool: Vec::new(),
            recent: Recent::default(),
            named: None,
            named_before: None,
        }
    }

    /// The head of the last batch before a restart, to be copied into the next one.
    pub(crate) fn set_previous_head(&mut self, head: Vec<u8>) {
        self.previous_head = head;
    }

    /// The file that an earlier process has named as the newest one.
    pub(crate) fn set_named(&mut self, named: Option<Generation>) {
        self.named = named;
    }

    /// How many prepared files wait to be used. With none, the next file grows as it is written: a
    /// sync of large batches costs up to three times as much, and room for small ones is written
    /// ahead of them. Keep at least one, made by
    /// [`WalPool::prepare`](super::pool::WalPool::prepare) on another thread.
    #[must_use]
    pub fn prepared_files(&self) -> usize {
        self.pool.len()
    }

    /// How many files it has that have their room: those that wait, and the one that is being
    /// written unless that one grows.
    #[must_use]
    pub fn files_with_room(&self) -> usize {
        let current = self.current.as_ref().is_some_and(|c| c.made > 0);
        self.pool.len() + usize::from(current)
    }

    /// Takes a prepared file into the pool.
    pub fn supply(&mut self, file: PreparedFile) {
        self.pool.push(file);
    }

    /// The generation that is being written, or will be next.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.current
            .as_ref()
            .map_or(self.next_generation, |c| c.generation)
    }

    /// Writes chunks from the front of `chunks` as one batch, makes them durable and takes them
    /// out. What exceeds [`WAL_BATCH_BYTES_MAX`] stays for the next call.
    ///
    /// # Errors
    /// [`WalError::NoSpace`]: nothing was written, `chunks` is as it was; call again when there is
    /// space. [`WalError::Fatal`]: end the process.
    pub fn write(&mut self, chunks: &mut Vec<SealedChunk>) -> Result<WalOutcome, WalError> {
        let count = batch_len(chunks);
        if count == 0 {
            return Ok(WalOutcome::default());
        }
        let outcome = loop {
            match self.write_batch(&chunks[..count]) {
                Err(WalError::NoSpace) if self.could_grow_no_more() => {
                    self.rolled = self.roll().or(self.rolled);
                }
                Err(WalError::NoSpace) if self.gives_room()? => {}
                written => break written?,
            }
        };
        chunks.drain(..count);
        Ok(outcome)
    }

    /// Whether the current file is one that grows, for which there was no space, while a prepared
    /// one has its space. What of a batch was written behind the end of the first is no part of the
    /// log: the next one says where that ended.
    fn could_grow_no_more(&self) -> bool {
        let grows = |current: &Current<D::File>| current.offset > 0 && current.made == 0;
        !self.pool.is_empty() && self.current.as_ref().is_some_and(grows)
    }

    /// Gives up a file that was to keep room for the log, where there is none for a batch in the
    /// current one though that was made before: a file system that writes elsewhere what is written
    /// over, such as Btrfs or ZFS, needs room for that, and has it once such a file is gone. False
    /// if there is none.
    fn gives_room(&mut self) -> Result<bool, Fatal> {
        if self.current.as_ref().is_none_or(|c| c.made == 0) {
            return Ok(false);
        }
        if let Some(prepared) = self.pool.pop() {
            return self.give_up(&prepared.path);
        }
        if let Some(empty) = self.current.take_if(|c| c.offset == 0) {
            // The log goes on in a file that grows, within the room that this one had.
            let generation = empty.generation;
            drop(empty);
            if self.named == Some(generation) {
                let before = self.named_before;
                self.named = newest::unname(&self.disk, &self.folder, before, generation)?;
            }
            self.next_generation = generation;
            return self.give_up(&self.folder.join(file_name(generation)));
        }
        self.give_up(&self.folder.join(pool::RESERVE_NAME))
    }

    /// Deletes a file, durably: some file systems have its room only then. False if it is not
    /// there.
    fn give_up(&self, path: &Path) -> Result<bool, Fatal> {
        match self.disk.delete(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            deleted => deleted.map_err(|error| Fatal::new("delete", path, error))?,
        }
        let synced = self.disk.sync_dir(&self.folder);
        synced.map_err(|error| Fatal::new("sync of the folder", &self.folder, error))?;
        Ok(true)
    }

    /// Writes an empty batch that says that the batches before it are durable, unless the last one
    /// said so already. To be called when nothing has come for a few milliseconds: it turns damage
    /// to the last batch from "perhaps never finished" into "was durable, is damaged".
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn mark_idle(&mut self) -> Result<WalOutcome, WalError> {
        if !self.uncovered {
            return Ok(WalOutcome::default());
        }
        let outcome = self.write_batch(&[])?;
        self.uncovered = false;
        Ok(outcome)
    }

    /// Ends the current file, so that everything written so far can be flushed. Gives its
    /// generation, if anything was written to it.
    pub fn roll(&mut self) -> Option<Generation> {
        let ended = self.current.take_if(|c| c.offset > 0)?;
        Some(ended.generation)
    }

    fn write_batch(&mut self, chunks: &[SealedChunk]) -> Result<WalOutcome, WalError> {
        let (copy_bytes, file_bytes) = (self.previous_head.len(), self.file_bytes);
        let lay_out = |recent: &Recent, at| BatchLayout::new(chunks, recent, at, copy_bytes);
        let mut layout = self
            .current
            .as_ref()
            .map(|current| lay_out(&self.recent, current.next()));
        let is_full = |current: &Current<D::File>, layout: &BatchLayout| {
            let end = current.offset + layout.bytes(copy_bytes);
            current.offset > SECTOR_BYTES && end > current.limit(file_bytes)
        };
        if let (Some(current), Some(laid_out)) = (&self.current, &layout)
            && is_full(current, laid_out)
        {
            layout = None;
            self.rolled = self.roll().or(self.rolled);
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.next_file()?,
        };
        let layout = layout.unwrap_or_else(|| lay_out(&self.recent, current.next()));
        let written = self.write_into(&mut current, chunks, layout);
        let (generation, offset) = (current.generation, current.offset);
        self.current = Some(current);
        let mut outcome = written?;
        outcome.rolled = self.rolled.take();
        self.synced = Position { generation, offset };
        self.uncovered = true;
        Ok(outcome)
    }

    fn write_into(
        &mut self,
        current: &mut Current<D::File>,
        chunks: &[SealedChunk],
        layout: BatchLayout,
    ) -> Result<WalOutcome, WalError> {
        let fresh = current.offset == 0;
        let at = current.next().offset;
        let context = BatchContext {
            salt: self.salt,
            chain: self.chain,
            at: current.next(),
            sequence: self.sequence,
            synced: self.synced,
            copy_len: self.previous_head.len() as u32,
        };
        let tables = encode_head(context, chunks, &layout, &mut self.head);
        let made = current.made.max(current.told.0);
        let header = fresh.then(|| encode_file_header(self.salt, current.generation, made));
        let heads = (self.head.len() + self.previous_head.len()) as u64;
        let unpadded = heads + layout.data_bytes;
        let padding = [0; SECTOR_BYTES as usize];
        let padded = layout.bytes(self.previous_head.len());

        let mut slices = Vec::with_capacity(4 + chunks.len() * 2);
        slices.extend(header.as_deref().map(IoSlice::new));
        slices.push(IoSlice::new(&self.head));
        slices.push(IoSlice::new(&self.previous_head));
        for (chunk, layout) in chunks.iter().zip(&layout.chunks) {
            slices.push(IoSlice::new(&chunk.meta));
            let bodies = chunk.bodies.without(layout.left_out());
            slices.extend(bodies.into_iter().map(IoSlice::new));
        }
        slices.push(IoSlice::new(&padding[..(padded - unpadded) as usize]));
        slices.retain(|slice| !slice.is_empty());
        let start = if fresh { 0 } else { at };
        let (was, end) = (current.filled, at + padded);
        let written = current.file.write_at(&slices, start);
        written.map_err(|e| self.failed("write", e))?;
        current.filled = was.max(end);
        self.write_ahead(current, was, end, padded)?;
        self.sync_grown(current, was, end)?;

        let mut written = Vec::with_capacity(chunks.len());
        let laid_out = chunks.iter().zip(&layout.chunks);
        for ((chunk, layout), (table, table_crc)) in laid_out.zip(tables) {
            let location = ChunkLocation {
                generation: current.generation,
                table_generation: current.generation,
                table_at: (at + table.start as u64) as u32,
                table_crc,
                bodies_at: layout.bodies_at as u32,
                references: layout.references.len() as u16,
                version: super::format::VERSION,
            };
            written.push((chunk.shard, chunk.seq, location));
        }
        let references = written
            .iter()
            .map(|(.., location)| u64::from(location.references));
        let references = references.sum();
        self.recent.add(current.generation, chunks, layout.chunks);
        current.offset = at + padded;
        self.chain = crate::bytes_io::u32_at(&self.head, 4);
        self.sequence += 1;
        std::mem::swap(&mut self.head, &mut self.previous_head);
        Ok(WalOutcome {
            written,
            rolled: None,
            references,
            bytes: padded + if fresh { SECTOR_BYTES } else { 0 },
        })
    }

    /// Gives a file that has its blocks up to `was` more of them, if the batch of `bytes` that ends
    /// at `end` asks for that. That there is no space for these is no failure.
    fn write_ahead(
        &self,
        current: &mut Current<D::File>,
        was: u64,
        end: u64,
        bytes: u64,
    ) -> Result<(), Fatal> {
        let ahead = self.ahead(current, was, end, bytes);
        match write_zeros(&current.file, ahead.clone()) {
            Ok(()) => current.filled = current.filled.max(ahead.end),
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(Fatal::new("write", &self.folder, error)),
        }
        Ok(())
    }

    fn ahead(&self, current: &Current<D::File>, was: u64, end: u64, bytes: u64) -> Range<u64> {
        let step = self.ahead_bytes();
        // A file that grows does so while the next batch still fits what its header can say then.
        let wanted = end + if current.made == 0 { step / 2 } else { 0 };
        let from = current.filled;
        match wanted > was && bytes < SMALL_BATCH_BYTES.max(step / 2) {
            true => from..(end + step).min(self.file_bytes).max(from),
            false => from..from,
        }
    }

    fn ahead_bytes(&self) -> u64 {
        AHEAD_BYTES.min(self.file_bytes / AHEAD_PART)
    }

    /// Syncs a batch that ends at `end` of a file that was durable up to `was` before. When it
    /// returns, the header of a file that grows says that it is long enough for the batch: else one
    /// that is cut there could not be told from one that never came so far.
    fn sync_grown(
        &self,
        current: &mut Current<D::File>,
        was: u64,
        end: u64,
    ) -> Result<(), WalError> {
        let sync = |file: &D::File| {
            let synced = file.sync_data();
            synced.map_err(|e| Fatal::new("sync", &self.folder, e))
        };
        match self.tell_grown(current, was) {
            // It is told below if it must be.
            Ok(()) | Err(WalError::NoSpace) => {}
            Err(error) => return Err(error),
        }
        sync(&current.file)?;
        if current.made == 0 && current.told.0 < end {
            self.tell_grown(current, current.filled)?;
            sync(&current.file)?;
        }
        Ok(())
    }

    /// Writes into the header of a file that grows that it has so many bytes, which are durable. A
    /// file system that writes elsewhere what is written over may have no room for it.
    fn tell_grown(&self, current: &mut Current<D::File>, bytes: u64) -> Result<(), WalError> {
        let (told, times) = current.told;
        if current.made > 0 || bytes <= told {
            return Ok(());
        }
        let (at, length) = encode_grown(self.salt, current.generation, bytes, times);
        let written = current.file.write_at(&[IoSlice::new(&length)], at);
        written.map_err(|e| self.failed("write", e))?;
        current.told = (bytes, times + 1);
        Ok(())
    }

    /// A full disk is no failure of the disk: the batch can be written again, at the same place,
    /// once there is space.
    fn failed(&self, call: &'static str, error: io::Error) -> WalError {
        match is_full(&error) {
            true => WalError::NoSpace,
            false => Fatal::new(call, &self.folder, error).into(),
        }
    }

    fn next_file(&mut self) -> Result<Current<D::File>, WalError> {
        let generation = self.next_generation;
        let path = self.folder.join(file_name(generation));
        let file = match self.pool.pop() {
            Some(prepared) => {
                // One that has its name and could not be opened has come back to the pool with it.
                let named = match prepared.path == path {
                    true => Ok(()),
                    false => self.disk.rename(&prepared.path, &path),
                };
                let now_at = if named.is_ok() { &path } else { &prepared.path };
                let file = named.and_then(|()| self.disk.open(&path));
                let bytes = prepared.bytes;
                if file.is_err() {
                    let path = now_at.clone();
                    self.pool.push(PreparedFile { path, bytes });
                }
                file.map(|file| (file, bytes, bytes, 0))
            }
            None => {
                let file = self.begin_file(&path, generation);
                file.map(|(file, filled)| (file, filled, 0, filled))
            }
        };
        let (file, filled, made, told) = file.map_err(|e| self.failed("create", e))?;
        let synced = self.disk.sync_dir(&self.folder);
        synced.map_err(|e| Fatal::new("sync of the folder", &self.folder, e))?;
        self.named_before = self.named;
        self.named = newest::name(&self.disk, &self.folder, self.named, generation)?;
        self.next_generation += 1;
        Ok(Current {
            file,
            generation,
            offset: 0,
            filled,
            made,
            told: (told, 0),
        })
    }

    /// Makes a file that grows as it is written, with room for small batches where there is space
    /// for that; gives its length too. It has its name only when its header is durable, and that
    /// room: so a file that is shorter has lost something.
    fn begin_file(&self, path: &Path, generation: Generation) -> io::Result<(D::File, u64)> {
        let temporary = path.with_extension(BEGUN_SUFFIX);
        let file = match self.disk.create_new(&temporary) {
            // An earlier try found the disk full behind this.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.open(&temporary)?
            }
            created => created?,
        };
        let begin = |bytes: u64| {
            let header = encode_file_header(self.salt, generation, bytes);
            let room = zeros(bytes - SECTOR_BYTES);
            let slices: Vec<_> = std::iter::once(IoSlice::new(&header)).chain(room).collect();
            file.write_at(&slices, 0).map(|()| bytes)
        };
        let bytes = match begin(SECTOR_BYTES + self.ahead_bytes()) {
            Err(error) if is_full(&error) => begin(SECTOR_BYTES)?,
            begun => begun?,
        };
        file.sync_data()?;
        self.disk.rename(&temporary, path)?;
        Ok((file, bytes))
    }
}

/// How many chunks from the front fit one batch; at least one.
fn batch_len(chunks: &[SealedChunk]) -> usize {
    let mut bytes = 0;
    let fits = chunks.iter().take(BATCH_CHUNKS_MAX).take_while(|chunk| {
        bytes += chunk.bytes();
        bytes <= WAL_BATCH_BYTES_MAX
    });
    fits.count().max(1).min(chunks.len())
}
