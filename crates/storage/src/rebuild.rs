//! A store whose checkpoint is lost in both copies: what can be put together again from the
//! segment files and the write-ahead log.
//!
//! Only the checkpoint says which entries of a segment are settled, so that settled ones may be
//! back afterwards. Nothing of the damaged store is changed: what is found is copied to another
//! folder.

use crate::checkpoint::{self, Checkpoint, ShardPart};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::folders::{Folders, Identity};
use crate::id::{Durability, LogKind};
use crate::inspect::InspectError;
use crate::loaded::{Content, Key, ReadRequest, Source};
use crate::log::{Block, Log};
use crate::reader::Reader;
use crate::recover::{Found, Options, RecoveryReport, load_from, read_index};
use crate::salvage::{Salvaged, salvage};
use crate::segment;
use crate::shard::{Read, ShardLogs};
use crate::store::Store;
use crate::wal;
use bytes::{Bytes, BytesMut};
use leveret_types::{LogId, RangeSet};
use std::collections::BTreeMap;
use std::fmt;
use std::io::IoSlice;
use std::path::PathBuf;

/// Bytes that are copied between two syncs of the new store.
const SYNC_BYTES: u64 = 4 * 1024 * 1024;

/// Puts the checkpoint in order in its place if its two damaged copies make up one that is whole:
/// that is certain, for its checksum covers all of it. Says whether there was need, and success.
///
/// # Errors
/// [`InspectError`].
pub fn mend_checkpoint<D: Disk>(disk: &D, folders: &Folders) -> Result<bool, InspectError> {
    let _locks = folders.lock(disk)?;
    let Some(identity) = folders.identity(disk)? else {
        return Ok(false);
    };
    let Some((path, bytes)) = checkpoint::newest(disk, &folders.data)? else {
        return Ok(false);
    };
    if checkpoint::decode(&bytes, identity.salt()).is_ok() {
        return Ok(false);
    }
    let Salvaged::Whole(copy, _) = salvage(&bytes, identity.salt()) else {
        return Ok(false);
    };
    let temporary = folders.data.join("checkpoint.tmp");
    let write = || {
        match disk.delete(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create_new(&temporary)?;
        file.write_at(&[IoSlice::new(&copy), IoSlice::new(&copy)], 0)?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        disk.sync_dir(&folders.data)
    };
    write().map_err(|error| OpenError::io(&path, error))?;
    Ok(true)
}

/// A log that was put together again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltLog {
    /// The log.
    pub log: LogId,
    /// Entries that the new store has.
    pub entries: u64,
    /// Entries that should be there and cannot be read.
    pub lost: u64,
    /// Whether the checkpoint still told which of its entries were settled, and its state. Of a log
    /// for which it did not, settled entries may be back, and a state older than the write-ahead
    /// log is lost.
    pub told: bool,
}

/// What a rebuild found.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// The logs, ascending.
    pub logs: Vec<RebuiltLog>,
    /// What else was noticed, in words.
    pub notes: Vec<String>,
}

/// Copies all that can be found of a damaged store into a new one. `shard_of` says on which shard a
/// log belongs, as it did when the log was created; `uuid` is the new store's identity.
///
/// # Errors
/// [`InspectError`]; also if there is a store in `into` already.
pub fn rebuild<D: Disk>(
    disk: &D,
    folders: &Folders,
    into: &Folders,
    uuid: [u8; 16],
    shard_of: &dyn Fn(LogId) -> u16,
) -> Result<Rebuilt, InspectError> {
    let _locks = folders.lock(disk)?;
    let missing = || InspectError::NoStore(folders.data.display().to_string());
    let identity = folders.identity(disk)?.ok_or_else(missing)?;
    let remains = Remains::find(disk, folders, identity, shard_of)?;
    let options = Options {
        uuid,
        shards: identity.shards,
        ..Options::default()
    };
    let (store, report) = Store::open(disk, into, &options)?;
    if !report.created {
        return Err(InspectError::StoreThere(into.data.display().to_string()));
    }
    remains.copy(store)
}

/// A block of a segment file, and which of its entries no newer file has.
#[derive(Debug)]
struct Piece {
    log: LogId,
    block: Block,
    indexes: RangeSet,
}

/// A damaged store, as far as it can be read.
struct Remains<D: Disk> {
    found: Found,
    reader: Reader<D>,
    pieces: BTreeMap<LogId, Vec<Piece>>,
    told: Vec<LogId>,
    notes: Vec<String>,
}

impl<D: Disk> Remains<D> {
    fn find(
        disk: &D,
        folders: &Folders,
        identity: Identity,
        shard_of: &dyn Fn(LogId) -> u16,
    ) -> Result<Self, InspectError> {
        let salt = identity.salt();
        let bytes = checkpoint::newest(disk, &folders.data)?.map_or(Vec::new(), |(_, b)| b);
        let mut reader = Reader::new(disk.clone(), folders, salt);
        let mut report = RecoveryReport::default();
        let (pieces, told, checkpoint) = match salvage(&bytes, salt) {
            Salvaged::Whole(_, checkpoint) => {
                let logs = checkpoint.shards.iter().flat_map(|shard| &shard.logs);
                let told = logs.map(|log| log.id).collect();
                (BTreeMap::new(), told, checkpoint)
            }
            Salvaged::Parts(parts) => {
                let pieces = segment_pieces(disk, folders, salt, &mut reader, &mut report)?;
                let told = parts.iter().map(|(_, log)| log.id).collect();
                let shards = wal_begins(disk, folders, identity)?;
                let checkpoint = stand_in(shards, parts, &pieces, shard_of);
                (pieces, told, checkpoint)
            }
        };
        let options = Options::default();
        let mut found = load_from(disk, folders, identity, &options, checkpoint)?;
        let mut notes = report.notes;
        notes.append(&mut found.report.notes);
        Ok(Self {
            found,
            reader,
            pieces,
            told,
            notes,
        })
    }

    fn copy(mut self, mut store: Store<D>) -> Result<Rebuilt, InspectError> {
        let mut rebuilt = Rebuilt::default();
        for mut shard in std::mem::take(&mut self.found.shards) {
            let mut ids: Vec<LogId> = shard.log_ids().collect();
            ids.sort_unstable();
            for id in ids {
                let copied = self.copy_log(&mut shard, id, &mut store)?;
                rebuilt.logs.push(copied);
            }
        }
        store.checkpoint_all()?;
        rebuilt.logs.sort_unstable_by_key(|log| log.log);
        rebuilt.notes = self.notes;
        Ok(rebuilt)
    }

    fn copy_log(
        &mut self,
        from: &mut ShardLogs,
        id: LogId,
        store: &mut Store<D>,
    ) -> Result<RebuiltLog, InspectError> {
        let at = usize::from(from.shard());
        let next_index = from.log_stats(id).map_or(0, |stats| stats.next_index);
        let mut copied = RebuiltLog {
            log: id,
            entries: 0,
            lost: 0,
            told: self.told.contains(&id),
        };
        store.shards[at].create_log(id, LogKind::Durable);
        let mut pieces = Blocks::new(self.pieces.remove(&id).unwrap_or_default());
        let mut unsynced = 0;
        for index in from.live(id).iter().flatten() {
            let found = match read_found(from, &mut self.reader, id, index) {
                Some(payload) => Some(payload),
                None => pieces.read(from.shard(), &mut self.reader, index),
            };
            let Some(payload) = found else {
                copied.lost += 1;
                continue;
            };
            let logs = &mut store.shards[at];
            logs.skip_to(id, index);
            let body = logs.body(Durability::Durable, &[&payload]);
            logs.append(id, body, u32::try_from(payload.len()).unwrap_or(u32::MAX));
            copied.entries += 1;
            unsynced += payload.len() as u64;
            if unsynced > SYNC_BYTES {
                unsynced = 0;
                store.sync()?;
                store.flush()?;
            }
        }
        let logs = &mut store.shards[at];
        logs.skip_to(id, next_index);
        if !from.state(id).is_empty() {
            logs.set_state(id, from.state(id));
        }
        if let Some((term, vote)) = from.term_and_vote(id) {
            logs.set_term_and_vote(id, term, vote);
        }
        Ok(copied)
    }
}

/// An entry as the write-ahead log has it, or a segment that a sound checkpoint lists.
fn read_found<D: Disk>(
    shard: &mut ShardLogs,
    reader: &mut Reader<D>,
    id: LogId,
    index: u64,
) -> Option<Bytes> {
    loop {
        match shard.read(id, index) {
            Read::Ready(bytes) => return Some(bytes),
            Read::Pending => {
                for request in shard.take_reads() {
                    let loaded = reader.read(request);
                    shard.loaded(loaded);
                }
            }
            Read::Gone | Read::Damaged(_) => return None,
        }
    }
}

/// The blocks of one log, read one after the other.
struct Blocks {
    pieces: Vec<Piece>,
    /// The one that was read last: where it stands, and what is in it.
    at: usize,
    read: Option<Content>,
}

impl Blocks {
    fn new(mut pieces: Vec<Piece>) -> Self {
        pieces.sort_unstable_by_key(|piece| piece.indexes.first());
        Self {
            pieces,
            at: 0,
            read: None,
        }
    }

    fn read<D: Disk>(&mut self, shard: u8, reader: &mut Reader<D>, index: u64) -> Option<Bytes> {
        // Entries are asked for in their order: the next one is mostly in the same block, or in the
        // one behind it.
        let count = self.pieces.len();
        let mut order = (self.at..count).chain(0..self.at);
        let at = order.find(|at| self.pieces[*at].indexes.contains(index))?;
        if self.read.is_none() || self.at != at {
            self.read = read_block(reader, shard, &self.pieces[at].block);
            self.at = at;
        }
        let (content, piece) = (self.read.as_ref()?, &self.pieces[at]);
        content.entry_bytes(piece.log, &piece.block, index).ok()
    }
}

fn read_block<D: Disk>(reader: &mut Reader<D>, shard: u8, block: &Block) -> Option<Content> {
    let (file, offset, len) = (block.file, block.offset, block.len);
    let (key, source) = (
        Key::Block { file, offset },
        Source::Segment { file, offset, len },
    );
    let request = ReadRequest::new(shard, key, source, BytesMut::new());
    reader.read(request).result.ok()
}

/// All blocks of all segment files, and the sound entries of each. What several files have, the
/// newest one tells.
fn segment_pieces<D: Disk>(
    disk: &D,
    folders: &Folders,
    salt: u64,
    reader: &mut Reader<D>,
    report: &mut RecoveryReport,
) -> Result<BTreeMap<LogId, Vec<Piece>>, InspectError> {
    let segments = folders.segments();
    let mut files = segments.list(disk)?;
    files.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    let mut taken: BTreeMap<LogId, RangeSet> = BTreeMap::new();
    let mut pieces: BTreeMap<LogId, Vec<Piece>> = BTreeMap::new();
    let mut unsound: BTreeMap<(LogId, PathBuf), RangeSet> = BTreeMap::new();
    for (file, folder) in files {
        let path = folder.join(segment::format::file_name(file));
        let len = disk.open(&path).and_then(|open| open.len());
        let len = len.map_err(|e| OpenError::io(&path, e))?;
        let (_, blocks) = read_index(disk, folders, salt, file, len, report);
        // The logs of a shared block follow on each other: it is read once.
        let mut read = None;
        for block in blocks.into_iter().filter(|block| !block.volatile) {
            let (log, block) = (block.log, block.block);
            if read
                .as_ref()
                .is_none_or(|(offset, _)| *offset != block.offset)
            {
                let content = read_block(reader, 0, &block);
                if content.is_none() {
                    let at = block.offset;
                    let note = format!("the block at {at} of {} is damaged", path.display());
                    report.notes.push(note);
                }
                read = Some((block.offset, content));
            }
            let Some((_, Some(content))) = &read else {
                continue;
            };
            let taken = taken.entry(log).or_default();
            let (indexes, damaged) = untaken(content, log, &block, taken);
            for range in indexes.iter() {
                taken.insert_range(range);
            }
            if !damaged.is_empty() {
                let unsound = unsound.entry((log, path.clone())).or_default();
                damaged.iter().for_each(|range| {
                    unsound.insert_range(range);
                });
            }
            if !indexes.is_empty() {
                pieces.entry(log).or_default().push(Piece {
                    log,
                    block,
                    indexes,
                });
            }
        }
    }
    note_unsound(unsound, &taken, report);
    Ok(pieces)
}

/// Tells of the entries that fail their checksums and of which no other file has a sound copy.
fn note_unsound(
    unsound: BTreeMap<(LogId, PathBuf), RangeSet>,
    taken: &BTreeMap<LogId, RangeSet>,
    report: &mut RecoveryReport,
) {
    for ((log, path), mut indexes) in unsound {
        let found = taken.get(&log).into_iter().flat_map(RangeSet::iter);
        found.for_each(|range| {
            indexes.remove_range(range);
        });
        if let (Some(first), Some(last)) = (indexes.first(), indexes.last()) {
            report.notes.push(format!(
                "{} of the entries {first} to {last} of log {log} fail their checksums in {} and are \
                 left out",
                indexes.len(),
                path.display()
            ));
        }
    }
}

/// The sound entries of a block that are not taken yet, and those that fail their checksums.
fn untaken(content: &Content, id: LogId, block: &Block, taken: &RangeSet) -> (RangeSet, RangeSet) {
    let (mut indexes, mut damaged) = (RangeSet::new(), RangeSet::new());
    let Content::Block {
        first_index, spans, ..
    } = content
    else {
        return (indexes, damaged);
    };
    let mut note = |index: u64| {
        if taken.contains(index) {
            return;
        }
        match content.span(id, block, index) {
            Ok(_) => indexes.insert(index),
            Err(_) => damaged.insert(index),
        };
    };
    match block.shared_from {
        Some(_) => block.indexes().take(spans.len()).for_each(note),
        None => {
            let deltas = spans.iter().map(|span| u64::from(span.delta));
            deltas.for_each(|delta| note(first_index + delta));
        }
    }
    (indexes, damaged)
}

/// For each shard, where the write-ahead log that is there begins.
fn wal_begins<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
) -> Result<Checkpoint, InspectError> {
    let fail = |e| OpenError::io(&folders.wal, e);
    let names = disk.list(&folders.wal).map_err(fail)?;
    let generations = names.iter().filter_map(|n| wal::writer::parse_file_name(n));
    let wal_from = generations.min().unwrap_or(0);
    let mut shards: Vec<ShardPart> = (0..identity.shards)
        .map(|shard| ShardPart {
            shard,
            after: u64::MAX,
            ..ShardPart::default()
        })
        .collect();
    let scan = wal::scan::scan(disk, &folders.wal, identity.salt(), wal_from)?;
    let batches = scan.files.iter().flat_map(|(_, file)| &file.batches);
    for chunk in batches.flat_map(|batch| &batch.chunks) {
        if let Some(part) = shards.get_mut(usize::from(chunk.shard)) {
            part.after = part.after.min(chunk.seq.saturating_sub(1));
        }
    }
    for part in shards.iter_mut().filter(|part| part.after == u64::MAX) {
        part.after = 0;
    }
    Ok(Checkpoint {
        wal_from,
        shards,
        ..Checkpoint::default()
    })
}

/// A checkpoint from before the write-ahead log begins: what segments hold lives, but for the logs
/// of which more is known.
fn stand_in(
    mut checkpoint: Checkpoint,
    parts: Vec<(u16, Log)>,
    pieces: &BTreeMap<LogId, Vec<Piece>>,
    shard_of: &dyn Fn(LogId) -> u16,
) -> Checkpoint {
    let told: Vec<LogId> = parts.iter().map(|(_, log)| log.id).collect();
    for (shard, mut log) in parts {
        log.damage = None;
        log.cuts.clear();
        if let Some(part) = checkpoint.shards.get_mut(usize::from(shard)) {
            part.logs.push(log);
        }
    }
    for (id, pieces) in pieces.iter().filter(|(id, _)| !told.contains(id)) {
        let mut log = Log::new(*id, LogKind::Durable);
        for range in pieces.iter().flat_map(|piece| piece.indexes.iter()) {
            log.next_index = log.next_index.max(range.end);
            log.durable.live.insert_range(range);
        }
        if let Some(part) = checkpoint.shards.get_mut(usize::from(shard_of(*id))) {
            part.logs.push(log);
        }
    }
    checkpoint
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for log in &self.logs {
            write!(f, "log {}: {} entries", log.log, log.entries)?;
            if log.lost > 0 {
                write!(f, ", {} lost", log.lost)?;
            }
            let doubt = "; settled ones may be back, and its state may be lost";
            writeln!(f, "{}", if log.told { "" } else { doubt })?;
        }
        let (entries, lost) = self.logs.iter().fold((0, 0), |(entries, lost), log| {
            (entries + log.entries, lost + log.lost)
        });
        writeln!(
            f,
            "{} logs with {entries} entries were copied, {lost} entries are lost",
            self.logs.len()
        )
    }
}
