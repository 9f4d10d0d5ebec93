//! Reads what is in the files of the write-ahead log, and tells a torn tail from damage.
//!
//! The files that count form a chain: the first batch of each says in which file, and where in it,
//! all that was durable ended. Files that no chain leads to were begun by a start that did not get
//! far, and hold nothing, unless they were cut: then what they held is what the chain misses.

use super::format::{
    ChunkHead, FileHeader, Head, Position, SECTOR_BYTES, decode_file_header, decode_head,
    least_bytes, peek_head,
};
use super::writer::{BATCH_CHUNKS_MAX, file_name, parse_file_name};
use crate::disk::{Disk, DiskFile, read_exact};
use crate::error::OpenError;
use crate::id::{ChunkSeq, Generation};
use leveret_types::limits::WAL_BATCH_BYTES_MAX;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes read at once while looking for the next batch behind a damaged one.
const SEARCH_BYTES: usize = 1 << 20;

/// A batch whose head is known.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) head: Head,
    pub(crate) chunks: Vec<ChunkHead>,
    /// The head's bytes.
    pub(crate) bytes: Vec<u8>,
    /// Where the head's bytes were read.
    pub(crate) head_at: Position,
    /// Whether the head was damaged and is known from its copy.
    pub(crate) from_copy: bool,
}

impl Batch {
    /// Where it begins.
    pub(crate) fn start(&self) -> Position {
        Position {
            generation: self.head.generation,
            offset: self.head.offset,
        }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.head.offset..self.head.end()
    }
}

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct FileScan {
    pub(crate) batches: Vec<Batch>,
    /// Stretches between batches of which nothing is known.
    pub(crate) gaps: Vec<Range<u64>>,
    /// Whether the file's header is damaged although it holds batches.
    pub(crate) header_damaged: bool,
    /// The end that the file once had and does not have any more. What was there nobody knows:
    /// the file after it, if there is one, may begin where the cut was found.
    pub(crate) cut: Option<Range<u64>>,
    /// The last chunks, of one shard each, that a start has found here and written again,
    /// elsewhere; of a file that was cut also those before it: what is lost came behind them.
    pub(crate) moved: BTreeMap<u16, ChunkSeq>,
}

impl FileScan {
    /// Where the last batch ends.
    pub(crate) fn end(&self) -> u64 {
        self.batches.last().map_or(SECTOR_BYTES, |b| b.head.end())
    }

    fn add_moved(&mut self, moved: &BTreeMap<u16, ChunkSeq>) {
        for (shard, seq) in moved {
            let last = self.moved.entry(*shard).or_default();
            *last = (*last).max(*seq);
        }
    }

    fn is_undamaged(&self) -> bool {
        self.cut.is_none() && self.gaps.is_empty() && !self.header_damaged
    }
}

/// The write-ahead log as found.
#[derive(Debug, Default)]
pub(crate) struct WalScan {
    /// The files that count, ascending.
    pub(crate) files: Vec<(Generation, FileScan)>,
    /// Up to where everything is known to have been durable.
    pub(crate) synced: Position,
    /// The highest generation that any file has, of those that count or not.
    pub(crate) newest: Generation,
    /// Files that show no damage, whether they count or not.
    pub(crate) undamaged: Vec<Generation>,
    /// The last file that holds anything, if that is little and sound to the last byte.
    pub(crate) movable: Option<Generation>,
    /// Bytes of a last batch that was never finished.
    pub(crate) torn_bytes: u64,
    pub(crate) notes: Vec<String>,
}

impl WalScan {
    /// Whether nothing of it is damaged or missing: what is has to be found by the next start too.
    pub(crate) fn is_undamaged(&self) -> bool {
        let is_whole = |(_, file): &(Generation, FileScan)| {
            file.is_undamaged() && !file.batches.iter().any(|batch| batch.from_copy)
        };
        self.notes.is_empty() && self.files.iter().all(is_whole)
    }

    /// From where on what was written is to be written again, elsewhere: the durable mark, or the
    /// beginning of the last file if that holds little. That file is free then, so that a start
    /// costs none, however many end before a checkpoint.
    pub(crate) fn tail_from(&self) -> Position {
        let last = self.files.last();
        let movable = last.filter(|(of, _)| self.movable == Some(*of) && self.is_undamaged());
        let first = movable.and_then(|(_, file)| file.batches.first());
        first.map_or(self.synced, |first| first.start().min(self.synced))
    }

    /// Where all ends that was before the first batch that counts.
    pub(crate) fn begins_after(&self) -> Position {
        let first = self
            .files
            .first()
            .and_then(|(_, file)| file.batches.first());
        first.map_or(self.synced, |first| first.head.synced)
    }
}

/// The last file that holds anything, if it goes into one batch and shows no damage: what is
/// damaged stays where it is.
fn movable<F: DiskFile>(
    scans: &Scans<F>,
    found: &WalScan,
    salt: u64,
) -> io::Result<Option<Generation>> {
    let mut last = scans.iter().rev();
    let Some((generation, (scan, file))) = last.find(|(_, (scan, _))| !scan.batches.is_empty())
    else {
        return Ok(None);
    };
    if !found.undamaged.contains(generation) || !fits_one_batch(&scan.batches) {
        return Ok(None);
    }
    for batch in &scan.batches {
        if batch.from_copy || !is_whole(file, batch, salt)? {
            return Ok(None);
        }
    }
    Ok(Some(*generation))
}

/// Whether the chunks of these batches, each with bodies of its own, go into one: what is written
/// again is there whole or not at all.
fn fits_one_batch(batches: &[Batch]) -> bool {
    let mut heads = batches.iter().flat_map(|batch| &batch.chunks);
    if heads.any(|chunk| chunk.references > 0) {
        return false;
    }
    let chunks = || {
        batches
            .iter()
            .flat_map(|b| b.chunks.iter().map(move |c| (b, c)))
    };
    let bytes = |(batch, chunk): (&Batch, &ChunkHead)| {
        let records = chunk.record_data.end - chunk.record_data.start;
        chunk.tables(&batch.bytes).body_bytes() + records
    };
    let all: u64 = chunks().map(bytes).sum();
    chunks().count() <= BATCH_CHUNKS_MAX && all <= WAL_BATCH_BYTES_MAX as u64
}

struct Scanner<'a, F> {
    file: &'a F,
    generation: Generation,
    salt: u64,
}

impl<F: DiskFile> Scanner<'_, F> {
    fn scan(&self) -> io::Result<FileScan> {
        let mut scan = FileScan::default();
        let len = self.file.len()?;
        let mut at = SECTOR_BYTES;
        while at < len {
            if let Some(batch) = self.batch(at)? {
                at = batch.head.end();
                scan.batches.push(batch);
                continue;
            }
            let Some((found, copy)) = self.search(at + SECTOR_BYTES, len)? else {
                break;
            };
            let copy = copy.filter(|c| c.head.offset >= at && c.head.end() <= found);
            let known = copy.as_ref().map_or(found, |c| c.head.offset);
            if known > at {
                scan.gaps.push(at..known);
            }
            if let Some(copy) = copy {
                if copy.head.end() < found {
                    scan.gaps.push(copy.head.end()..found);
                }
                scan.batches.push(copy);
            }
            at = found;
        }
        Ok(scan)
    }

    /// The batch at `at`, if its head is sound.
    fn batch(&self, at: u64) -> io::Result<Option<Batch>> {
        let mut first = vec![0; SECTOR_BYTES as usize];
        let read = self.file.read_at(&mut first, at)?;
        first.truncate(read);
        let Some(head) = peek_head(&first).filter(|h| self.belongs(h, at)) else {
            return Ok(None);
        };
        let head_len = head.head_len as usize;
        if head_len > first.len() {
            if at + head_len as u64 > self.file.len()? {
                return Ok(None);
            }
            first = read_exact(self.file, at, head_len)?;
        }
        first.truncate(head_len);
        Ok(decode_head(&first, self.salt).map(|(head, chunks)| Batch {
            head,
            chunks,
            bytes: first,
            head_at: Position {
                generation: self.generation,
                offset: at,
            },
            from_copy: false,
        }))
    }

    fn belongs(&self, head: &Head, at: u64) -> bool {
        head.generation == self.generation && head.offset == at
    }

    /// The next sound batch from `from` on, and the copy of a head that it carries.
    fn search(&self, from: u64, len: u64) -> io::Result<Option<(u64, Option<Batch>)>> {
        let mut buffer = vec![0; SEARCH_BYTES];
        let mut at = from;
        while at < len {
            let read = self.file.read_at(&mut buffer, at)?;
            for start in (0..read).step_by(SECTOR_BYTES as usize) {
                let position = at + start as u64;
                let plausible = peek_head(&buffer[start..read])
                    .is_some_and(|head| self.belongs(&head, position));
                if plausible && let Some(batch) = self.batch(position)? {
                    return Ok(Some((position, self.copy(&batch)?)));
                }
            }
            if read < SEARCH_BYTES {
                break;
            }
            at += read as u64;
        }
        Ok(None)
    }

    /// The copy of the head before that a batch carries, if it is of this file.
    fn copy(&self, batch: &Batch) -> io::Result<Option<Batch>> {
        let copy = read_copy(self.file, batch, self.salt)?;
        Ok(copy.filter(|c| c.head.generation == self.generation))
    }
}

fn read_copy(file: &impl DiskFile, batch: &Batch, salt: u64) -> io::Result<Option<Batch>> {
    let at = batch.head.offset + u64::from(batch.head.head_len);
    let mut bytes = vec![0; batch.head.copy_len as usize];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(decode_head(&bytes, salt).map(|(head, chunks)| Batch {
        head,
        chunks,
        bytes,
        head_at: Position {
            generation: batch.head.generation,
            offset: at,
        },
        from_copy: true,
    }))
}

/// Reads the heads of all batches from file `from` on, and the data of the last batch to see
/// whether it was finished.
pub(crate) fn scan<D: Disk>(
    disk: &D,
    folder: &Path,
    salt: u64,
    from: Generation,
) -> Result<WalScan, OpenError> {
    let names = disk.list(folder).map_err(|e| OpenError::io(folder, e))?;
    let mut generations: Vec<_> = names.iter().filter_map(|n| parse_file_name(n)).collect();
    generations.sort_unstable();
    let mut found = WalScan {
        newest: generations.last().copied().unwrap_or(0),
        ..WalScan::default()
    };
    let mut scans = BTreeMap::new();
    for generation in generations.into_iter().filter(|g| *g >= from) {
        let path = folder.join(file_name(generation));
        let fail = |e| OpenError::io(&path, e);
        let file = disk.open(&path).map_err(fail)?;
        let mut header = vec![0; SECTOR_BYTES as usize];
        let read = file.read_at(&mut header, 0).map_err(fail)?;
        let least = least_bytes(&header[..read], salt, generation);
        let header = decode_file_header(&header[..read], salt);
        if let FileHeader::Newer(version) = header {
            return Err(OpenError::Newer { path, version });
        }
        let scanner = Scanner {
            file: &file,
            generation,
            salt,
        };
        let mut scan = scanner.scan().map_err(fail)?;
        let len = file.len().map_err(fail)?;
        // No file is named before its header is durable.
        let least = least.unwrap_or(SECTOR_BYTES);
        scan.cut = Some(len..least).filter(|cut| !cut.is_empty());
        scan.header_damaged = header != FileHeader::Ours(generation) && !scan.batches.is_empty();
        scans.insert(generation, (scan, file));
    }
    let synced = scans
        .values()
        .flat_map(|(s, _)| &s.batches)
        .map(|b| b.head.synced);
    found.synced = synced.max().unwrap_or_default();
    let undamaged = scans.iter().filter(|(_, (scan, _))| scan.is_undamaged());
    found.undamaged = undamaged.map(|(generation, _)| *generation).collect();
    cut_torn_tail(&mut scans, &mut found, salt).map_err(|e| OpenError::io(folder, e))?;
    found.movable = movable(&scans, &found, salt).map_err(|e| OpenError::io(folder, e))?;
    link(scans, &mut found, from, salt).map_err(|e| OpenError::io(folder, e))?;
    Ok(found)
}

type Scans<F> = BTreeMap<Generation, (FileScan, F)>;

/// Takes batches at the end away that are above the durable mark and not whole. More than one only
/// if an earlier start found a tail that was in memory but never on the disk, and was cut short
/// itself while writing it again.
fn cut_torn_tail<F: DiskFile>(
    scans: &mut Scans<F>,
    found: &mut WalScan,
    salt: u64,
) -> io::Result<()> {
    for (generation, (scan, file)) in scans.iter_mut().rev() {
        while let Some(batch) = scan.batches.last() {
            let start = Position {
                generation: *generation,
                offset: batch.head.offset,
            };
            if start < found.synced || is_whole(file, batch, salt)? {
                return Ok(());
            }
            found.torn_bytes += batch.range().end - batch.range().start;
            scan.batches.pop();
        }
    }
    Ok(())
}

fn is_whole(file: &impl DiskFile, batch: &Batch, salt: u64) -> io::Result<bool> {
    let mut data = vec![0; batch.head.data_len as usize];
    let read = file.read_at(&mut data, batch.head.data_at())?;
    if read < data.len() {
        return Ok(false);
    }
    let mut whole = true;
    let mut elsewhere = |_, _| None;
    for chunk in &batch.chunks {
        verify(batch, chunk, &data, salt, &mut elsewhere, |item, sound| {
            // What is referred to is in this batch, and is looked at there, or was durable before.
            whole &= sound || matches!(item, Item::Reference(_));
        });
    }
    Ok(whole)
}

/// Bytes of a file outside of the batch at hand: from this offset on, so many.
pub(crate) type Elsewhere<'a> = &'a mut dyn FnMut(u64, usize) -> Option<Vec<u8>>;

/// The bytes of a body that is a reference.
pub(crate) fn referred<'a>(
    batch: &Batch,
    data: &'a [u8],
    (offset, len): (u32, u32),
    elsewhere: Elsewhere<'_>,
) -> Option<Cow<'a, [u8]>> {
    let (offset, len) = (u64::from(offset), len as usize);
    match offset.checked_sub(batch.head.data_at()) {
        Some(at) => {
            let at = usize::try_from(at).ok()?;
            data.get(at..at.checked_add(len)?).map(Cow::Borrowed)
        }
        None => elsewhere(offset, len).map(Cow::Owned),
    }
}

/// A record or body of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// The body at this position.
    Body(u32),
    /// The body at this position, whose bytes are elsewhere in the file.
    Reference(u32),
    /// A record about this log.
    Record(leveret_types::LogId, &'a [u8]),
}

/// Goes through a chunk in a batch's data and says of each body and record whether its checksum is
/// right. What is referred to is asked for from `elsewhere` where it is not in the batch.
pub(crate) fn verify<'a>(
    batch: &Batch,
    chunk: &ChunkHead,
    data: &'a [u8],
    salt: u64,
    elsewhere: Elsewhere<'_>,
    mut each: impl FnMut(Item<'a>, bool),
) {
    let head = &batch.head;
    let mut previous = super::format::chunk_seed(salt, head.generation, chunk.shard, chunk.seq);
    let mut at = chunk.body_data.start as usize;
    for (position, entry) in (0..).zip(chunk.tables(&batch.bytes).entries()) {
        let is_sound =
            |body: &[u8]| super::format::body_crc(head.version, previous, body) == entry.crc;
        if let Some(offset) = entry.elsewhere {
            let mut body = || referred(batch, data, (offset, entry.len), elsewhere);
            let sound = !entry.is_lost() && body().is_some_and(|body| is_sound(&body));
            each(Item::Reference(position), sound);
        } else {
            let end = at + entry.len as usize;
            each(
                Item::Body(position),
                data.get(at..end).is_some_and(is_sound),
            );
            at = end;
        }
        previous = entry.crc;
    }
    let mut at = chunk.record_data.start as usize;
    for entry in super::format::record_entries(&batch.bytes, chunk) {
        let end = at + entry.len as usize;
        let record = data.get(at..end);
        let sound = record.is_some_and(|r| crate::bytes_io::chain(previous, r) == entry.crc);
        each(Item::Record(entry.log, record.unwrap_or_default()), sound);
        (at, previous) = (end, entry.crc);
    }
}

/// The last chunks, of one shard each, that a start has found from `end` on and written again: what
/// is there and not whole was none.
fn moved(
    scan: &FileScan,
    file: &impl DiskFile,
    end: u64,
    salt: u64,
) -> io::Result<BTreeMap<u16, ChunkSeq>> {
    let mut moved = BTreeMap::new();
    for batch in scan.batches.iter().filter(|b| b.head.offset >= end) {
        if is_whole(file, batch, salt)? {
            moved.extend(batch.chunks.iter().map(|chunk| (chunk.shard, chunk.seq)));
        }
    }
    Ok(moved)
}

/// Follows the chain of files backwards from the newest that holds a batch.
fn link<F: DiskFile>(
    mut scans: Scans<F>,
    found: &mut WalScan,
    from: Generation,
    salt: u64,
) -> io::Result<()> {
    let mut next: Option<Batch> = None;
    let mut next_copy: Option<Batch> = None;
    // Which of the files found were cut and are passed over.
    let mut passed: Vec<usize> = Vec::new();
    while let Some((generation, (mut scan, file))) = scans.pop_last() {
        if let Some(next) = &next {
            if generation != next.head.synced.generation {
                if scan.cut.is_some() {
                    // A start has found it cut and gone on behind it, from what was left: its
                    // batches were written again, and what was cut off is as lost as it was then.
                    scan.moved = moved(&scan, &file, 0, salt)?;
                    scan.batches.clear();
                    scan.gaps.clear();
                    passed.push(found.files.len());
                    found.files.push((generation, scan));
                }
                continue;
            }
            if scan.cut.is_some() || !passed.is_empty() {
                scan.moved = moved(&scan, &file, next.head.synced.offset, salt)?;
            }
            end_at(
                &mut scan,
                next.head.synced.offset,
                next_copy.take(),
                generation,
            );
            for cut in passed.drain(..) {
                found.files[cut].1.add_moved(&scan.moved);
            }
        } else if scan.batches.is_empty() && scan.cut.is_none() {
            continue;
        }
        let Some(first) = scan.batches.first().cloned() else {
            // Its only batch was damaged or cut; what came before it is not known from here.
            found.files.push((generation, scan));
            continue;
        };
        next_copy = read_copy(&file, &first, salt)?;
        let known_start = scan.gaps.first().is_none_or(|gap| gap.start > SECTOR_BYTES);
        if !known_start {
            let path = file_name(generation);
            found
                .notes
                .push(format!("the beginning of {path} is damaged"));
        }
        next = known_start
            .then_some(first)
            .or(previous_file(&scans, generation));
        found.files.push((generation, scan));
    }
    found.files.reverse();
    if let Some(first) = &next {
        note_missing(found, first, from);
    }
    Ok(())
}

/// Notes that the file is missing in which all ended that was before the first batch that counts,
/// if there was anything in it.
fn note_missing(found: &mut WalScan, first: &Batch, from: Generation) {
    let Position { generation, offset } = first.head.synced;
    let is_there = found.files.iter().any(|(of, _)| *of == generation);
    if generation >= from && !is_there && offset > SECTOR_BYTES {
        let missing = file_name(generation);
        found.notes.push(format!("{missing} is missing"));
    }
}

/// Stands in for a first batch that is not known: the file before ends where its last batch does.
fn previous_file<F>(scans: &Scans<F>, generation: Generation) -> Option<Batch> {
    let (previous, (scan, _)) = scans.range(..generation).next_back()?;
    let mut batch = scan.batches.last()?.clone();
    batch.head.synced = Position {
        generation: *previous,
        offset: scan.end(),
    };
    Some(batch)
}

/// Brings a scan in line with where its successor says that the file ends.
fn end_at(scan: &mut FileScan, end: u64, copy: Option<Batch>, generation: Generation) {
    scan.batches.retain(|batch| batch.head.offset < end);
    scan.gaps.retain(|gap| gap.start < end);
    let known = scan.end();
    if known >= end {
        return;
    }
    let copy = copy.filter(|c| c.head.generation == generation && c.head.offset >= known);
    let gap_end = copy.as_ref().map_or(end, |c| c.head.offset);
    if gap_end > known {
        scan.gaps.push(known..gap_end);
    }
    scan.batches.extend(copy);
}
