//! One sync for many streams: what several of them wrote in a turn is written once more, into one
//! file, and that file is synced. Their segments are synced later, when nobody waits for it.
//!
//! ```text
//! file   head, zeros to the end of the sector, the same once more, batches
//! head   "LVRTSJNL" | version u16 | 0 u16 | crc u32 | generation u64 | salt u64
//! batch  "LVSJ" | crc u32 | bytes u32 | parts u32 | parts | zeros to the end of the sector
//! part   stream u64 | segment u64 | position u64 | stored bytes u32 | bytes u32 | bytes of the segment
//! ```
//!
//! All numbers are little-endian. A batch's crc is over what follows it, and begins with the salt,
//! the generation and the batch's position. `stored bytes` count zeros at the part's end that
//! are left away.
//!
//! There are two such files. One is written to until it is full; by then the segments of what the
//! other one has are synced, and it begins again with the next generation. A start writes what
//! both files have to where it belongs, the older one first: bytes that are there already are
//! written once more.
//!
//! Room for what a start writes so is kept by a file beside them ([`Reserve`]).
//!
//! Invariant: what a file has may be written to its place at any time until its generation ends.
//! So generations end before a segment is cut or its name given to another one.

use crate::bytes_io::{Put, Take, seed};
use crate::disk::{Disk, DiskFile, read_whole, write_zeros};
use crate::error::{Fatal, OpenError};
use crate::stream::journal_reserve::{Reserve, journal_end, room_of};
use crate::wal::pool::is_full;
use leveret_stream::segments::SECTOR_BYTES;
use leveret_types::QueueId;
use leveret_types::limits::STREAM_JOURNAL_ROOM;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

const NAMES: [&str; 2] = ["streams-0.journal", "streams-1.journal"];
const FILE_MAGIC: [u8; 8] = *b"LVRTSJNL";
/// Version of the file's format. A file of a later version is refused.
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 32;
/// Where the first batch begins.
pub(crate) const BATCHES_START: u64 = 2 * SECTOR_BYTES;
const BATCH_MAGIC: [u8; 4] = *b"LVSJ";
const BATCH_HEAD_BYTES: usize = 16;
/// A file grows by so much at once: its sync has no new length to write most of the time.
const GROWTH_BYTES: u64 = 1024 * 1024;
/// What is lost with a part of a file that is damaged, in words for an operator.
const MAY_BE_LOST: &str = "it had what streams with flush `sync` had confirmed until shortly \
     before the node ended, and what of that their segments lack is lost";

/// Bytes of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) stream: QueueId,
    /// First offset of the segment.
    pub(crate) segment: u64,
    pub(crate) position: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Part {
    fn encode(&self, out: &mut Vec<u8>) {
        let end = self.bytes.iter().rposition(|byte| *byte != 0);
        let kept = &self.bytes[..end.map_or(0, |end| end + 1)];
        for number in [self.stream.0, self.segment, self.position] {
            out.put_u64(number);
        }
        // Bounded by what one stream may have in a batch.
        out.put_u32(self.bytes.len() as u32);
        out.put_u32(kept.len() as u32);
        out.extend_from_slice(kept);
    }

    fn decode(take: &mut Take<'_>) -> Option<Self> {
        let (stream, segment, position) = (QueueId(take.u64()?), take.u64()?, take.u64()?);
        let (stored, kept) = (take.u32()? as usize, take.u32()? as usize);
        let mut bytes = take.bytes(kept)?.to_vec();
        (kept <= stored).then(|| bytes.resize(stored, 0))?;
        Some(Self {
            stream,
            segment,
            position,
            bytes,
        })
    }
}

/// Which generation of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) generation: u64,
    pub(crate) salt: u64,
}

impl Head {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BATCHES_START as usize);
        out.extend_from_slice(&FILE_MAGIC);
        out.put_u16(VERSION);
        out.put_u16(0);
        out.put_u32(0);
        out.put_u64(self.generation);
        out.put_u64(self.salt);
        let crc = crc32c::crc32c(&out).to_le_bytes();
        out[12..16].copy_from_slice(&crc);
        out.resize(SECTOR_BYTES as usize, 0);
        out.extend_from_within(..);
        out
    }

    /// What the copies say; the later one where only one of them was renewed.
    fn decode(path: &Path, bytes: &[u8]) -> Result<Option<Self>, OpenError> {
        let mut head: Option<Self> = None;
        for copy in bytes.chunks_exact(SECTOR_BYTES as usize).take(2) {
            let mut take = Take(&copy[..HEAD_BYTES]);
            let read = (|| Some((take.bytes(8)?, take.u16()?, take.u16()?, take.u32()?)))();
            let mut without = copy[..HEAD_BYTES].to_vec();
            without[12..16].fill(0);
            let Some((magic, version, _, crc)) = read else {
                continue;
            };
            if magic != FILE_MAGIC || crc != crc32c::crc32c(&without) {
                continue;
            }
            if version > VERSION {
                let path = path.to_owned();
                return Err(OpenError::Newer { path, version });
            }
            let found = take.u64().zip(take.u64());
            let found = found.map(|(generation, salt)| Self { generation, salt });
            let later = found.filter(|found| head.is_none_or(|h| found.generation > h.generation));
            head = later.or(head);
        }
        Ok(head)
    }

    fn seed(self, position: u64) -> u32 {
        seed(self.salt, &[self.generation, position])
    }

    /// A batch that begins at a position of the file, with zeros to the end of the sector.
    pub(crate) fn batch(self, position: u64, parts: &[Part]) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(&BATCH_MAGIC);
        out.put_u32(0);
        out.put_u32(0);
        out.put_u32(parts.len() as u32);
        for part in parts {
            part.encode(&mut out);
        }
        let bytes = (out.len() - BATCH_HEAD_BYTES) as u32;
        out[8..12].copy_from_slice(&bytes.to_le_bytes());
        let crc = crc32c::crc32c_append(self.seed(position), &out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out.resize(out.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        out
    }

    /// The batch at a position of the file, and where the next one is.
    pub(crate) fn decode_batch(self, position: u64, file: &[u8]) -> Option<(Vec<Part>, u64)> {
        let bytes = file.get(usize::try_from(position).ok()?..)?;
        let mut take = Take(bytes.get(..BATCH_HEAD_BYTES)?);
        let (magic, crc) = (take.bytes(4)?, take.u32()?);
        let (len, count) = (take.u32()? as usize, take.u32()?);
        if magic != BATCH_MAGIC {
            return None;
        }
        let covered = bytes.get(8..BATCH_HEAD_BYTES + len)?;
        if crc32c::crc32c_append(self.seed(position), covered) != crc {
            return None;
        }
        let mut take = Take(&covered[8..]);
        let parts = (0..count).map(|_| Part::decode(&mut take));
        let parts = parts.collect::<Option<Vec<Part>>>()?;
        let end = position + (BATCH_HEAD_BYTES + len) as u64;
        Some((parts, end.next_multiple_of(SECTOR_BYTES)))
    }
}

/// What the journal had at a start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What is to be written to its place, in this order.
    pub(crate) parts: Vec<Part>,
    /// What is damaged, in words for an operator.
    pub(crate) damage: Vec<String>,
}

/// One of the two files.
struct Half<F> {
    path: PathBuf,
    file: Option<F>,
    generation: u64,
    /// Where the next batch goes.
    end: u64,
    /// Bytes of the file.
    len: u64,
    /// Streams that have parts in this generation: the segment of the last one, and where its last
    /// block ends.
    mentioned: BTreeMap<QueueId, (u64, u64)>,
    /// Bytes that segments may have to grow for all parts.
    room: u64,
    /// Those of which a segment may not be synced.
    unsynced: BTreeSet<QueueId>,
}

/// The streams' journal.
pub(crate) struct Journal<D: Disk> {
    disk: D,
    salt: u64,
    bytes_max: u64,
    halves: [Half<D::File>; 2],
    current: usize,
    reserve: Reserve<D>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is durable.
    Durable,
    /// The file that is written to has no room for it: see [`Journal::turn_over`].
    Full,
    /// It is too large, or the disk is full.
    Refused,
}

impl<D: Disk> Journal<D> {
    /// Reads what is there. A file is made when there is something to write.
    pub(crate) fn open(disk: D, folder: &Path, salt: u64) -> Result<(Self, Found), OpenError> {
        let mut found = Found::default();
        let mut read: Vec<(u64, Vec<Part>)> = Vec::new();
        for name in NAMES {
            let path = folder.join(name);
            let bytes = match read_whole(&disk, &path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(OpenError::io(&path, error)),
            };
            match Head::decode(&path, &bytes)? {
                Some(head) => {
                    let parts = batches(&path, head, &bytes, &mut found.damage);
                    read.push((head.generation, parts));
                }
                // Nothing is behind the head of a file that was being made.
                None if bytes.len() as u64 <= BATCHES_START => {}
                None => found.damage.push(format!(
                    "the head of {}, and with it the whole file: {MAY_BE_LOST}",
                    path.display()
                )),
            }
        }
        read.sort_by_key(|(generation, _)| *generation);
        let newest = read.last().map_or(0, |(generation, _)| *generation);
        found.parts = read.into_iter().flat_map(|(_, parts)| parts).collect();
        let half = |number: usize| Half {
            path: folder.join(NAMES[number]),
            file: None,
            // Not that of any batch that was read.
            generation: newest + 1 + number as u64,
            end: BATCHES_START,
            len: 0,
            mentioned: BTreeMap::new(),
            room: 0,
            unsynced: BTreeSet::new(),
        };
        let reserve = Reserve::open(disk.clone(), folder);
        let journal = Self {
            reserve: reserve.map_err(|error| OpenError::io(folder, error))?,
            disk,
            salt,
            bytes_max: leveret_types::limits::STREAM_JOURNAL_BYTES,
            halves: [half(0), half(1)],
            current: 0,
        };
        Ok((journal, found))
    }

    /// Bounds each of the two files, instead of `STREAM_JOURNAL_BYTES`.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Forgets what was found: it has been written to its place, and synced.
    pub(crate) fn begin(&mut self) -> Result<(), Fatal> {
        for half in &mut self.halves {
            // Both may be there, or one, or none.
            let file = match self.disk.open(&half.path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Fatal::new("open", &half.path, error)),
            };
            let len = file.len();
            half.len = len.map_err(|error| Fatal::new("read", &half.path, error))?;
            if half.len < BATCHES_START {
                // It was being made: it is made anew.
                let deleted = self.disk.delete(&half.path);
                deleted.map_err(|error| Fatal::new("delete", &half.path, error))?;
                half.len = 0;
                continue;
            }
            half.file = Some(file);
            half.begin(&self.disk, self.salt, half.generation)?;
        }
        Ok(())
    }

    /// Whether parts of this stream may be written to their place again.
    pub(crate) fn mentions(&self, stream: QueueId) -> bool {
        self.halves
            .iter()
            .any(|half| half.mentioned.contains_key(&stream))
    }

    /// All segments of this stream are synced.
    pub(crate) fn synced(&mut self, stream: QueueId) {
        for half in &mut self.halves {
            half.unsynced.remove(&stream);
        }
    }

    /// The generation of the file that is not written to, and the streams in it of which a segment
    /// may not be synced.
    pub(crate) fn to_sync(&self) -> (u64, &BTreeSet<QueueId>) {
        let half = &self.halves[1 - self.current];
        (half.generation, &half.unsynced)
    }

    /// All streams of which a segment may not be synced.
    pub(crate) fn unsynced(&self) -> BTreeSet<QueueId> {
        let unsynced = self.halves.iter().flat_map(|half| &half.unsynced);
        unsynced.copied().collect()
    }

    /// All that a stream had in this generation is in its segments, which are synced.
    pub(crate) fn synced_of(&mut self, generation: u64, stream: QueueId) {
        let mut halves = self.halves.iter_mut();
        if let Some(half) = halves.find(|half| half.generation == generation) {
            half.unsynced.remove(&stream);
        }
    }

    /// Writes and syncs parts, of different streams.
    pub(crate) fn write(&mut self, parts: &[Part]) -> Result<Written, Fatal> {
        let half = &mut self.halves[self.current];
        let head = Head {
            generation: half.generation,
            salt: self.salt,
        };
        let batch = head.batch(half.end, parts);
        let end = half.end + batch.len() as u64;
        let room = half.room + half.room_of(parts);
        if end > self.bytes_max || room > STREAM_JOURNAL_ROOM * self.bytes_max {
            return Ok(match half.end {
                BATCHES_START => Written::Refused,
                _ => Written::Full,
            });
        }
        let held = room + self.halves[1 - self.current].room;
        if !self.reserve.hold(held)? {
            return Ok(Written::Refused);
        }
        let half = &mut self.halves[self.current];
        match half.write(&self.disk, head, &batch, self.bytes_max)? {
            Ok(()) => {}
            Err(error) if is_full(&error) => return Ok(Written::Refused),
            Err(error) => return Err(Fatal::new("write", &half.path, error)),
        }
        half.sync()?;
        (half.end, half.room) = (end, room);
        let mentioned = |part: &Part| (part.stream, (part.segment, journal_end(part)));
        half.mentioned.extend(parts.iter().map(mentioned));
        half.unsynced.extend(parts.iter().map(|part| part.stream));
        Ok(Written::Durable)
    }

    /// Gives away the room that is kept for what was found; whether there was any.
    pub(crate) fn give_room(&mut self) -> Result<bool, Fatal> {
        self.reserve.give()
    }

    /// Gives away the room that is kept for what it has, if it has nothing; whether there was any.
    pub(crate) fn give_unneeded_room(&mut self) -> Result<bool, Fatal> {
        match self.halves.iter().all(|half| half.mentioned.is_empty()) {
            true => self.reserve.give(),
            false => Ok(false),
        }
    }

    /// Goes on with the other file, whose segments must be synced.
    pub(crate) fn turn_over(&mut self) -> Result<(), Fatal> {
        let generation = self.halves[self.current].generation + 1;
        self.current = 1 - self.current;
        let half = &mut self.halves[self.current];
        assert!(half.unsynced.is_empty(), "segments are synced first");
        half.begin(&self.disk, self.salt, generation)
    }

    /// Ends it with its files: what all streams have must be synced.
    pub(crate) fn end(&mut self) -> Result<(), Fatal> {
        for half in &mut self.halves {
            assert!(half.unsynced.is_empty(), "segments are synced first");
            if half.file.take().is_some() {
                let deleted = self.disk.delete(&half.path);
                deleted.map_err(|error| Fatal::new("delete", &half.path, error))?;
            }
            half.begin(&self.disk, self.salt, half.generation + 2)?;
            half.len = 0;
        }
        self.reserve.give()?;
        Ok(())
    }

    /// Forgets all that is in it: what all streams have must be synced.
    pub(crate) fn forget(&mut self) -> Result<(), Fatal> {
        let newest = self.halves[self.current].generation;
        for (at, half) in self.halves.iter_mut().enumerate() {
            assert!(half.unsynced.is_empty(), "segments are synced first");
            if !half.mentioned.is_empty() {
                let later = if at == self.current { 2 } else { 1 };
                half.begin(&self.disk, self.salt, newest + later)?;
            }
        }
        Ok(())
    }
}

impl<F: DiskFile> Half<F> {
    /// Begins a generation: what was written before is void once this is done. What it had must be
    /// synced in its place: the file goes where its head cannot be written over, as on a full disk
    /// of a file system that writes elsewhere.
    fn begin<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        salt: u64,
        generation: u64,
    ) -> Result<(), Fatal> {
        (self.generation, self.end) = (generation, BATCHES_START);
        self.room = 0;
        self.mentioned.clear();
        self.unsynced.clear();
        let Some(file) = &self.file else {
            return Ok(());
        };
        let head = Head { generation, salt }.encode();
        // One copy after the other, so that one of them is sound at any time.
        for (at, copy) in (0..)
            .step_by(head.len() / 2)
            .zip(head.chunks(head.len() / 2))
        {
            match file.write_at(&[IoSlice::new(copy)], at) {
                Err(error) if is_full(&error) => return self.delete(disk),
                written => written.map_err(|error| Fatal::new("write", &self.path, error))?,
            }
            self.sync()?;
        }
        Ok(())
    }

    /// Deletes the file, durably: it is made again when there is something to write.
    fn delete<D: Disk<File = F>>(&mut self, disk: &D) -> Result<(), Fatal> {
        (self.file, self.len) = (None, 0);
        let folder = self.path.parent().unwrap_or(&self.path);
        let deleted = disk.delete(&self.path).and_then(|()| disk.sync_dir(folder));
        deleted.map_err(|error| Fatal::new("delete", &self.path, error))
    }

    /// Bytes that segments may have to grow for parts of different streams, beyond what they may
    /// have to already.
    fn room_of(&self, parts: &[Part]) -> u64 {
        let held = |part: &Part| match self.mentioned.get(&part.stream) {
            Some((segment, held)) if *segment == part.segment => *held,
            _ => 0,
        };
        parts.iter().map(|part| room_of(part, held(part))).sum()
    }

    /// Writes a batch behind the others; that the disk is full is an answer.
    fn write<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        head: Head,
        batch: &[u8],
        bytes_max: u64,
    ) -> Result<io::Result<()>, Fatal> {
        if self.file.is_none()
            && let Err(error) = self.make(disk, head)?
        {
            return Ok(Err(error));
        }
        let Some(file) = &self.file else {
            return Ok(Err(io::ErrorKind::NotFound.into()));
        };
        let end = self.end + batch.len() as u64;
        if end > self.len {
            let len = (end + GROWTH_BYTES).min(bytes_max);
            if let Err(error) = write_zeros(file, self.len..len) {
                return Ok(Err(error));
            }
            self.len = len;
        }
        Ok(file.write_at(&[IoSlice::new(batch)], self.end))
    }

    /// Makes the file. One that a full disk left half made is made again.
    fn make<D: Disk<File = F>>(&mut self, disk: &D, head: Head) -> Result<io::Result<()>, Fatal> {
        match disk.delete(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Ok(Err(error)),
            _ => {}
        }
        let file = match disk.create_new(&self.path) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = file.write_at(&[IoSlice::new(&head.encode())], 0) {
            return Ok(Err(error));
        }
        self.len = BATCHES_START;
        self.file = Some(file);
        self.sync()?;
        let folder = self.path.parent().unwrap_or(&self.path);
        let synced = disk.sync_dir(folder);
        synced.map_err(|error| Fatal::new("sync", folder, error))?;
        Ok(Ok(()))
    }

    fn sync(&self) -> Result<(), Fatal> {
        let synced = self.file.as_ref().map_or(Ok(()), DiskFile::sync_data);
        synced.map_err(|error| Fatal::new("sync", &self.path, error))
    }
}

/// The batches of a file, in order. The first that is not sound was being written, unless others
/// are behind it.
fn batches(path: &Path, head: Head, bytes: &[u8], damage: &mut Vec<String>) -> Vec<Part> {
    let (mut parts, mut position) = (Vec::new(), BATCHES_START);
    let mut unsound_from = None;
    while position < bytes.len() as u64 {
        match head.decode_batch(position, bytes) {
            Some((batch, next)) => {
                if let Some(from) = Option::take(&mut unsound_from) {
                    damage.push(format!(
                        "bytes {from} to {position} of {}: {MAY_BE_LOST}",
                        path.display()
                    ));
                }
                parts.extend(batch);
                position = next;
            }
            None => {
                unsound_from.get_or_insert(position);
                position += SECTOR_BYTES;
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::disk::MemoryDisk;

    const SALT: u64 = 3;

    fn head(generation: u64) -> Head {
        let salt = SALT;
        Head { generation, salt }
    }

    /// The copies of two heads, as a crash between their writes leaves them.
    fn copies(first: Option<u64>, second: Option<u64>) -> Vec<u8> {
        let copy = |generation: Option<u64>| match generation {
            Some(generation) => head(generation).encode()[..SECTOR_BYTES as usize].to_vec(),
            None => vec![0xEE; SECTOR_BYTES as usize],
        };
        [copy(first), copy(second)].concat()
    }

    #[test]
    fn of_two_copies_of_the_head_the_later_sound_one_counts() {
        for (first, second, found) in [
            (Some(5), Some(5), Some(5)),
            (Some(6), Some(5), Some(6)),
            (Some(5), Some(6), Some(6)),
            (None, Some(5), Some(5)),
            (Some(5), None, Some(5)),
            (None, None, None),
        ] {
            let read = Head::decode(Path::new("j"), &copies(first, second)).unwrap();
            let read = read.map(|head| (head.generation, head.salt));
            assert_eq!(read, found.map(|of| (of, SALT)), "{first:?}, {second:?}");
        }
        // A later version in either copy.
        for at in [0, SECTOR_BYTES as usize] {
            let mut bytes = copies(Some(5), Some(5));
            let copy = &mut bytes[at..at + HEAD_BYTES];
            copy[8] = 2;
            copy[12..16].fill(0);
            let crc = crc32c::crc32c(copy).to_le_bytes();
            copy[12..16].copy_from_slice(&crc);
            let refused = Head::decode(Path::new("j"), &bytes);
            assert!(matches!(refused, Err(OpenError::Newer { version: 2, .. })));
        }
    }

    fn part(stream: u64, bytes: usize) -> Part {
        Part {
            stream: QueueId(stream),
            segment: 0,
            position: 512,
            bytes: vec![stream as u8; bytes],
        }
    }

    /// What a journal with these two files has to write, and what of it is damaged.
    fn found(files: [Option<Vec<u8>>; 2]) -> (Vec<u64>, usize) {
        let (disk, folder) = (MemoryDisk::new(), Path::new("streams"));
        for (name, bytes) in NAMES.iter().zip(files) {
            if let Some(bytes) = bytes {
                let file = disk.create_new(&folder.join(name)).unwrap();
                file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
            }
        }
        let (_, found) = Journal::open(disk, folder, SALT).unwrap();
        let streams = found.parts.iter().map(|part| part.stream.0);
        (streams.collect(), found.damage.len())
    }

    /// A file of this generation with a batch for each of these streams.
    fn file(generation: u64, streams: &[u64]) -> Vec<u8> {
        let mut bytes = head(generation).encode();
        for stream in streams {
            let position = bytes.len() as u64;
            bytes.extend(head(generation).batch(position, &[part(*stream, 700)]));
        }
        bytes
    }

    #[test]
    fn the_older_file_is_written_first_and_damage_is_told_from_an_end() {
        let zeros = vec![0; 5_000];
        let with_room = |file: Vec<u8>| [file, zeros.clone()].concat();
        assert_eq!(found([None, None]), (vec![], 0));
        let newer = with_room(file(8, &[1, 2]));
        let older = with_room(file(7, &[3, 4]));
        let both = [Some(newer.clone()), Some(older.clone())];
        assert_eq!(found(both), (vec![3, 4, 1, 2], 0));
        assert_eq!(found([Some(older), Some(newer.clone())]).0, [3, 4, 1, 2]);
        // What an earlier use of the file left behind is no part of it.
        let mut used = file(8, &[1]);
        used.extend_from_slice(&file(7, &[3, 4, 5])[used.len()..]);
        assert_eq!(found([Some(used), None]), (vec![1], 0));
        // The last batch was being written; one with others behind it was durable.
        for (hit, expected) in [
            (0, (vec![2, 3], 1)),
            (1, (vec![1, 3], 1)),
            (2, (vec![1, 2], 0)),
        ] {
            let mut bytes = file(8, &[1, 2, 3]);
            let batch = (bytes.len() - BATCHES_START as usize) / 3;
            bytes[BATCHES_START as usize + batch * hit + 100] ^= 1;
            assert_eq!(found([None, Some(with_room(bytes))]), expected, "{hit}");
        }
        // Without its head nothing of a file can be read. One without batches was being made.
        let mut headless = newer;
        headless[..BATCHES_START as usize].fill(0);
        assert_eq!(found([Some(headless.clone()), None]), (vec![], 1));
        headless.truncate(BATCHES_START as usize);
        assert_eq!(found([Some(headless), None]), (vec![], 0));
    }

    /// Both at once may be torn by a power cut, and would need twice the room on a full disk that
    /// writes elsewhere what is written over.
    #[test]
    fn the_copies_of_a_head_are_renewed_one_after_the_other_and_both_durably() {
        let (disk, folder) = (MemoryDisk::new(), Path::new("streams"));
        disk.copy_on_write();
        let (mut journal, _) = Journal::open(disk.clone(), folder, SALT).unwrap();
        journal.write(&[part(1, 900)]).unwrap();
        journal.synced(QueueId(1));
        let before = disk.bytes();
        disk.set_bytes_max(Some(before + SECTOR_BYTES));
        journal.forget().unwrap();
        assert_eq!(disk.bytes(), before, "nothing waits for a sync");
        let path = folder.join(NAMES[0]);
        let bytes = read_whole(&disk, &path).expect("it was not given up for want of room");
        for copy in bytes.chunks_exact(SECTOR_BYTES as usize).take(2) {
            let head = Head::decode(&path, copy).unwrap().expect("it is sound");
            assert_eq!(head.generation, 3);
        }
    }

    /// What went to the one that is gone would be confirmed and nowhere.
    #[test]
    fn a_file_that_is_given_up_on_a_full_disk_is_made_anew_for_the_next_batch() {
        let (disk, folder) = (MemoryDisk::new(), Path::new("streams"));
        disk.copy_on_write();
        let (mut journal, _) = Journal::open(disk.clone(), folder, SALT).unwrap();
        journal.write(&[part(1, 900)]).unwrap();
        journal.synced(QueueId(1));
        disk.set_bytes_max(Some(disk.bytes()));
        journal.forget().unwrap();
        assert!(!disk.paths().contains(&folder.join(NAMES[0])));
        disk.set_bytes_max(None);
        let next = [part(2, 700)];
        assert_eq!(journal.write(&next).unwrap(), Written::Durable);
        let (_, found) = Journal::open(disk, folder, SALT).unwrap();
        assert_eq!((found.parts, found.damage), (next.to_vec(), Vec::new()));
    }

    #[test]
    fn a_batch_that_does_not_fit_is_for_the_other_file_or_for_none() {
        let (disk, folder) = (MemoryDisk::new(), Path::new("streams"));
        let (mut journal, _) = Journal::open(disk.clone(), folder, SALT).unwrap();
        let most = BATCHES_START + 4 * SECTOR_BYTES;
        journal.set_bytes_max(most);
        // Blocks of segments count as well, so all is of one stream.
        let small = [part(1, 900)];
        assert_eq!(journal.write(&[part(1, 2_100)]).unwrap(), Written::Refused);
        assert_eq!(journal.write(&small).unwrap(), Written::Durable);
        assert_eq!(journal.write(&small).unwrap(), Written::Durable);
        assert_eq!(journal.write(&small).unwrap(), Written::Full);
        assert!(journal.mentions(QueueId(1)) && !journal.mentions(QueueId(2)));
        journal.turn_over().unwrap();
        assert_eq!(journal.to_sync().1.len(), 1);
        assert_eq!(journal.write(&small).unwrap(), Written::Durable);
        journal.synced(QueueId(1));
        assert!(journal.unsynced().is_empty());
        assert!(journal.mentions(QueueId(1)), "it may be written once more");
        journal.forget().unwrap();
        assert!(!journal.mentions(QueueId(1)));
        let (_, found) = Journal::open(disk, folder, SALT).unwrap();
        assert_eq!((found.parts, found.damage), (Vec::new(), Vec::new()));
    }
}
