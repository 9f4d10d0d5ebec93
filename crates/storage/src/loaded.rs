//! Content read back from disk, for as long as its readers need it: a small bounded cache.

use crate::chunk::{Bodies, ChunkLocation};
use crate::id::{ChunkSeq, FileId};
use crate::log::Block;
use crate::read_buffer::ReadBuffers;
use bytes::{Bytes, BytesMut};
use hashbrown::{HashMap, HashSet};
use leveret_types::LogId;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// What is read from disk at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The bodies of a durable chunk.
    Chunk(ChunkSeq),
    /// Those of them that one log has.
    Part { seq: ChunkSeq, log: LogId },
    /// The table of a durable chunk's bodies, which came along with a part. It is never asked for.
    Table(ChunkSeq),
    /// A block of a segment file.
    Block { file: FileId, offset: u32 },
}

/// Where it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Wal {
        location: ChunkLocation,
        seq: ChunkSeq,
        count: u32,
        bytes: u32,
        positions: Positions,
        /// The chunk's table, if it was read before.
        table: Option<Bytes>,
    },
    Segment {
        file: FileId,
        offset: u32,
        len: u32,
    },
}

/// Which bodies of a chunk are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positions {
    #[default]
    All,
    /// Those in these stretches, which ascend and do not touch.
    These(Arc<[Stretch]>),
}

/// Consecutive bodies of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    first: u32,
    count: u32,
    /// Bodies in the stretches before.
    before: u32,
}

impl Positions {
    /// Those in these ranges, which ascend.
    pub(crate) fn these(ranges: impl IntoIterator<Item = Range<u32>>) -> Self {
        let mut stretches: Vec<Stretch> = Vec::new();
        for Range { start, end } in ranges {
            match stretches.last_mut() {
                Some(last) if start <= last.first + last.count => {
                    last.count = last.count.max(end.saturating_sub(last.first));
                }
                last => {
                    let before = last.map_or(0, |last| last.before + last.count);
                    stretches.push(Stretch {
                        first: start,
                        count: end - start,
                        before,
                    });
                }
            }
        }
        Self::These(stretches.into())
    }

    /// Of a chunk with `count` bodies in `bytes`, these ranges, which ascend: all, where that is
    /// not much more.
    pub(crate) fn little_of(
        ranges: impl IntoIterator<Item = Range<u32>>,
        count: u32,
        bytes: u32,
    ) -> Self {
        let these = Self::these(ranges);
        let share = u64::from(bytes) * these.count(count) as u64 / u64::from(count.max(1));
        match bytes > PART_CHUNK_BYTES_MIN && share <= u64::from(bytes / 4) {
            true => these,
            false => Self::All,
        }
    }

    /// How many bodies of a chunk that has `of`.
    pub(crate) fn count(&self, of: u32) -> usize {
        let count = match self {
            Self::All => of,
            Self::These(stretches) => stretches.last().map_or(0, |last| last.before + last.count),
        };
        count as usize
    }

    /// Which of them the body at `position` is.
    pub(crate) fn number_of(&self, position: u32) -> Option<usize> {
        let Self::These(stretches) = self else {
            return Some(position as usize);
        };
        let after = stretches.partition_point(|stretch| stretch.first <= position);
        let stretch = stretches.get(after.checked_sub(1)?)?;
        let offset = position - stretch.first;
        (offset < stretch.count).then_some((stretch.before + offset) as usize)
    }
}

/// A whole chunk was of use if this part of it was handed out.
const WHOLE_USED_PART: usize = 4;
/// Largest count of chunks that were read whole in vain: beyond, none is.
const WASTED_MAX: u32 = 8;
/// Chunks with no more bytes are read whole, whatever is wanted of them.
const PART_CHUNK_BYTES_MIN: u32 = 16 * 1024;

impl Source {
    /// Bytes to read into one buffer; about, where only some bodies of a chunk are read.
    pub(crate) fn buffer_bytes(&self) -> usize {
        match self {
            Self::Wal {
                bytes,
                count,
                positions,
                ..
            } => *bytes as usize * positions.count(*count) / (*count).max(1) as usize,
            Self::Segment { len, .. } => *len as usize,
        }
    }

    /// Bytes that it will take in memory; about, as [`Self::buffer_bytes`].
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Wal {
                count, positions, ..
            } => self.buffer_bytes() + positions.count(*count) * 4,
            Self::Segment { len, .. } => *len as usize,
        }
    }
}

/// Something to be read from disk. Give it to a [`crate::Reader`] and the answer to the shard that
/// asked.
#[derive(Debug)]
pub struct ReadRequest {
    pub(crate) shard: u8,
    pub(crate) key: Key,
    pub(crate) source: Source,
    /// What to read into; another is made if it is too small.
    pub(crate) buffer: BytesMut,
}

impl ReadRequest {
    pub(crate) fn new(shard: u8, key: Key, source: Source, buffer: BytesMut) -> Self {
        Self {
            shard,
            key,
            source,
            buffer,
        }
    }

    /// The shard that asks.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }

    /// Bytes that will be read.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }
}

/// Where an entry lies in a block, and how far its index is from the block's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) delta: u32,
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// Whether its checksum was right.
    pub(crate) sound: bool,
}

/// What was read, verified and indexed.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A chunk's bodies at these positions, and the positions of those whose checksum was wrong.
    Chunk {
        positions: Positions,
        bodies: Bodies,
        damaged: Vec<u32>,
    },
    /// The table of a chunk's bodies, verified.
    Table(Bytes),
    /// A block's entries. One that several logs share has no log, and numbers them from 0.
    Block {
        bytes: Bytes,
        log: LogId,
        is_shared: bool,
        first_index: u64,
        spans: Vec<Span>,
    },
}

impl Span {
    /// Where the entry lies.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

impl Content {
    /// Whether all checksums were right.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Self::Chunk { damaged, .. } => damaged.is_empty(),
            Self::Block { spans, .. } => spans.iter().all(|span| span.sound),
            Self::Table(_) => true,
        }
    }

    /// How many entries a block has.
    pub(crate) fn entry_count(&self) -> u32 {
        match self {
            Self::Chunk { .. } | Self::Table(_) => 0,
            Self::Block { spans, .. } => spans.len() as u32,
        }
    }

    /// Where an entry of a log lies in the block that was read for it, or what is wrong.
    pub(crate) fn span(&self, id: LogId, of: &Block, index: u64) -> Result<Span, &'static str> {
        let Self::Block {
            log,
            is_shared,
            first_index,
            spans,
            ..
        } = self
        else {
            unreachable!("a block was asked for");
        };
        let from_first = index.checked_sub(of.first_index);
        let delta = match of.shared_from {
            Some(from) if *is_shared => from_first.map(|delta| delta + u64::from(from)),
            None if !is_shared && *log == id => index.checked_sub(*first_index),
            _ => None,
        };
        let at = delta.and_then(|delta| {
            let found = spans.binary_search_by_key(&delta, |s| u64::from(s.delta));
            found.ok()
        });
        match at.map(|at| spans[at]) {
            Some(span) if span.sound => Ok(span),
            Some(_) => Err("its checksum in the segment file is wrong"),
            None => Err("the segment block that should hold it does not"),
        }
    }

    /// The payload of such an entry.
    pub(crate) fn entry(&self, id: LogId, of: &Block, index: u64) -> Result<&[u8], &'static str> {
        let span = self.span(id, of, index)?;
        match self {
            Self::Block { bytes, .. } => Ok(&bytes[span.range()]),
            _ => unreachable!("a block was asked for"),
        }
    }

    /// The same, sharing the block.
    pub(crate) fn entry_bytes(
        &self,
        id: LogId,
        of: &Block,
        index: u64,
    ) -> Result<Bytes, &'static str> {
        let span = self.span(id, of, index)?;
        match self {
            Self::Block { bytes, .. } => Ok(bytes.slice(span.range())),
            _ => unreachable!("a block was asked for"),
        }
    }

    /// Bytes that it takes in memory.
    fn bytes(&self) -> usize {
        match self {
            Self::Table(table) => table.len(),
            Self::Chunk { bodies, .. } => bodies.bytes() + bodies.count() * 4,
            Self::Block { bytes, .. } => bytes.len(),
        }
    }
}

/// A [`ReadRequest`] carried out.
#[derive(Debug)]
pub struct Loaded {
    pub(crate) shard: u8,
    pub(crate) key: Key,
    pub(crate) result: Result<Content, String>,
    /// The table that was read for a part of a chunk: others' parts need it as well.
    pub(crate) table: Option<Bytes>,
}

impl Loaded {
    /// The shard that asked.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.shard
    }
}

#[derive(Debug)]
pub(crate) struct CachedContent {
    pub(crate) content: Content,
    bytes: usize,
    stamp: u64,
    /// Whether what follows it was asked for already.
    pub(crate) went_ahead: bool,
    /// Bytes of bodies that were handed out of it.
    pub(crate) given_bytes: usize,
}

/// Blocks and chunks read back, within a budget of bytes.
#[derive(Debug)]
pub(crate) struct LoadedCache {
    budget: usize,
    held: HashMap<Key, CachedContent, foldhash::fast::FixedState>,
    waiting: HashMap<Key, Waiting, foldhash::fast::FixedState>,
    failed: HashMap<Key, Failed, foldhash::fast::FixedState>,
    /// Entries that were read once, wrongly, and are read again.
    doubted: HashSet<(LogId, u64), foldhash::fast::FixedState>,
    /// What is held, by the clock of its last use.
    used: BTreeSet<(u64, Key)>,
    /// What is asked for while the budget is taken by reads under way, in the order in which it was
    /// asked for: whoever waits for it is woken by it, once, and by nothing else.
    backlog: VecDeque<(u8, Key, Source)>,
    requests: Vec<ReadRequest>,
    buffers: ReadBuffers,
    bytes: usize,
    pending_bytes: usize,
    clock: u64,
    /// How often of late a whole chunk had to make room before it was of use, less how often one
    /// had been of use by then.
    wasted: u32,
}

/// How often a read that failed is carried out again for entries that want what it was to bring.
const FAILED_READ_REPEATS_MAX: u8 = 3;
/// Entries that are read again at once; others are given up when they were read wrongly once.
const DOUBTED_MAX: usize = 1_024;

/// A read that failed.
#[derive(Debug, Default)]
struct Failed {
    why: String,
    /// How often it was carried out again.
    repeats: u8,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    logs: SmallVec<[LogId; 2]>,
}

impl LoadedCache {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            held: HashMap::default(),
            waiting: HashMap::default(),
            failed: HashMap::default(),
            doubted: HashSet::default(),
            used: BTreeSet::new(),
            backlog: VecDeque::new(),
            requests: Vec::new(),
            buffers: ReadBuffers::default(),
            bytes: 0,
            pending_bytes: 0,
            clock: 0,
            wasted: 0,
        }
    }

    /// Whether a chunk of so many bytes is read whole when so many were read of it in parts: as
    /// many as it has at first. Each time that one had to make room unused, it takes twice as many:
    /// with more logs read all over than there is room for their chunks, each chunk would be read
    /// again and again for a few messages.
    pub(crate) fn is_whole_worth(&self, read_in_parts: u32, bytes: u32) -> bool {
        read_in_parts == u32::MAX || u64::from(read_in_parts) > u64::from(bytes) << self.wasted
    }

    /// Other chunks are read from now on: what was learned of those before is forgotten.
    pub(crate) fn forget_waste(&mut self) {
        self.wasted = 0;
    }

    /// The table of a chunk, if it is held.
    pub(crate) fn table(&mut self, seq: ChunkSeq) -> Option<Bytes> {
        match &self.get(Key::Table(seq))?.content {
            Content::Table(table) => Some(table.clone()),
            _ => unreachable!("a table is held as one"),
        }
    }

    /// Keeps the table of a chunk, which came along with a part of it.
    pub(crate) fn keep_table(&mut self, seq: ChunkSeq, table: Bytes) {
        if !self.held.contains_key(&Key::Table(seq)) {
            self.hold(Key::Table(seq), Content::Table(table));
        }
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut CachedContent> {
        let held = self.held.get_mut(&key)?;
        // What is read again and again is the newest already.
        if held.stamp != self.clock {
            self.clock += 1;
            self.used.remove(&(held.stamp, key));
            self.used.insert((self.clock, key));
            held.stamp = self.clock;
        }
        Some(held)
    }

    /// Why something could not be read, if it is not worth another try. A drive may fail for a
    /// moment, so that a read is carried out again, a few times in all, when another entry wants
    /// what it was to bring.
    pub(crate) fn failure(&mut self, key: Key) -> Option<&str> {
        let is_under_way = self.waiting.contains_key(&key);
        let failed = self.failed.get_mut(&key).filter(|_| !is_under_way)?;
        if failed.repeats < FAILED_READ_REPEATS_MAX {
            failed.repeats += 1;
            return None;
        }
        Some(&failed.why)
    }

    /// Whether an entry that was read wrongly is to be read again before it is given up: it is when
    /// it was not before. What is held may have been read long ago, and wrongly only then.
    pub(crate) fn doubt(&mut self, log: LogId, index: u64) -> bool {
        let is_first = !self.doubted.remove(&(log, index)) && self.doubted.len() < DOUBTED_MAX;
        if is_first {
            self.doubted.insert((log, index));
        }
        is_first
    }

    /// An entry was read, and is right.
    pub(crate) fn trust(&mut self, log: LogId, index: u64) {
        if !self.doubted.is_empty() {
            self.doubted.remove(&(log, index));
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.pending_bytes
    }

    /// Asks for something that `log` waits for.
    pub(crate) fn demand(&mut self, shard: u8, log: LogId, key: Key, source: Source) {
        if let Some(waiting) = self.waiting.get_mut(&key) {
            if !waiting.logs.contains(&log) {
                waiting.logs.push(log);
            }
            return;
        }
        let bytes = source.bytes();
        let logs = SmallVec::from_slice(&[log]);
        self.waiting.insert(key, Waiting { bytes, logs });
        match self.has_room(bytes) && self.backlog.is_empty() {
            true => self.request(shard, key, source),
            false => self.backlog.push_back((shard, key, source)),
        }
    }

    /// Whether so much may be read now; one read always may.
    fn has_room(&self, bytes: usize) -> bool {
        self.pending_bytes == 0 || self.pending_bytes + bytes <= self.budget
    }

    /// Asks for something that will be needed soon, if there is room.
    pub(crate) fn ahead(&mut self, shard: u8, key: Key, source: Source) {
        let there = self.held.contains_key(&key)
            || self.waiting.contains_key(&key)
            || self.failed.contains_key(&key);
        if !there && self.pending_bytes + source.bytes() <= self.budget / 2 {
            let (bytes, logs) = (source.bytes(), SmallVec::new());
            self.waiting.insert(key, Waiting { bytes, logs });
            self.request(shard, key, source);
        }
    }

    fn request(&mut self, shard: u8, key: Key, source: Source) {
        self.pending_bytes += source.bytes();
        let buffer = self.buffers.take(source.buffer_bytes());
        let request = ReadRequest::new(shard, key, source, buffer);
        self.requests.push(request);
    }

    pub(crate) fn take_requests(&mut self) -> Vec<ReadRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Whether there is anything to read.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Takes in what was read. Gives the logs that can go on.
    pub(crate) fn loaded(&mut self, key: Key, result: Result<Content, String>) -> Vec<LogId> {
        let Some(waiting) = self.waiting.remove(&key) else {
            return Vec::new();
        };
        self.pending_bytes -= waiting.bytes;
        match result {
            Ok(content) => {
                self.failed.remove(&key);
                self.hold(key, content);
            }
            Err(why) => self.failed.entry(key).or_default().why = why,
        }
        while let Some((shard, key, source)) = self.backlog.pop_front() {
            if !self.has_room(source.bytes()) {
                self.backlog.push_front((shard, key, source));
                break;
            }
            self.request(shard, key, source);
        }
        waiting.logs.into_vec()
    }

    fn hold(&mut self, key: Key, content: Content) {
        let bytes = content.bytes();
        while self.bytes + bytes > self.budget {
            let Some((_, oldest)) = self.used.first().copied() else {
                break;
            };
            self.learn_from(oldest);
            self.forget(oldest);
        }
        self.clock += 1;
        let stamp = self.clock;
        self.bytes += bytes;
        self.used.insert((stamp, key));
        self.held.insert(
            key,
            CachedContent {
                content,
                bytes,
                stamp,
                went_ahead: false,
                given_bytes: 0,
            },
        );
    }

    /// Something has to make room: says of a whole chunk whether reading it was of use.
    fn learn_from(&mut self, key: Key) {
        let (Key::Chunk(_), Some(held)) = (key, self.held.get(&key)) else {
            return;
        };
        self.wasted = match held.given_bytes < held.bytes / WHOLE_USED_PART {
            true => (self.wasted + 1).min(WASTED_MAX),
            false => self.wasted.saturating_sub(1),
        };
    }

    /// What is probably not read again makes room first. It is not dropped: whoever looked at a
    /// message and then takes it reads twice, and must find it the second time.
    pub(crate) fn retire(&mut self, key: Key) {
        if let Some(held) = self.held.get_mut(&key) {
            self.used.remove(&(held.stamp, key));
            self.used.insert((0, key));
            held.stamp = 0;
        }
    }

    /// Drops what nobody will read again.
    pub(crate) fn forget(&mut self, key: Key) {
        self.failed.remove(&key);
        if let Some(held) = self.held.remove(&key) {
            self.bytes -= held.bytes;
            self.used.remove(&(held.stamp, key));
            self.buffers.give(held.content);
        }
    }
}

#[cfg(test)]
mod tests;
