//! Opening a store: the newest checkpoint, the footers of segment files, and what the write-ahead
//! log holds since. Never every message.

use crate::checkpoint::{self, Checkpoint, CheckpointWriter, ShardPart};
use crate::chunk::{Bodies, Chunk, Place, SealedChunk};
use crate::disk::{Disk, DiskFile, read_exact};
use crate::error::OpenError;
use crate::folders::{Folders, Identity};
use crate::id::{FileId, Generation, LogKind, SHARDS_MAX, SharedBody};
use crate::log::{Block, Cut, Damage, Log, Side};
use crate::reader::Reader;
use crate::record::Record;
use crate::segment;
use crate::segment::format::{HEADER_BYTES, LogBlock};
use crate::segment::writer::SegmentWriter;
use crate::shard::{Budget, FileState, ShardLogs};
use crate::wal::format::{ChunkHead, Position, Tables};
use crate::wal::pool::{self, PreparedFile, WalPool};
use crate::wal::scan::{Batch, Elsewhere, Item, WalScan, referred, scan, verify};
use crate::wal::writer::{Resume, WalWriter};
use bytes::Bytes;
use leveret_types::{LogId, RangeSet, limits};
use std::collections::BTreeMap;
use std::ops::Range;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Identity of a new store: random bytes. A store that exists keeps its own.
    pub uuid: [u8; 16],
    /// Shards of a new store, 1 to [`SHARDS_MAX`]. A store that exists keeps its number.
    pub shards: u16,
    /// Bytes of bodies that all shards together keep in memory.
    pub cache_bytes: usize,
    /// Bytes that all shards together read back from disk at once.
    pub loaded_bytes: usize,
    /// Bytes of a file of the write-ahead log; at most 1 GiB.
    pub wal_file_bytes: u64,
    /// Prepared files of the write-ahead log that are kept.
    pub wal_pool_files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            uuid: [0; 16],
            shards: 1,
            cache_bytes: limits::CACHE_BYTES,
            loaded_bytes: limits::LOADED_BYTES,
            wal_file_bytes: limits::WAL_FILE_BYTES,
            wal_pool_files: 2,
        }
    }
}

/// Largest file of the write-ahead log that may be configured: offsets within it have 32 bits.
const WAL_FILE_BYTES_MAX: u64 = 1 << 30;

/// A log as it was found.
#[derive(Clone, Debug)]
pub struct LogSummary {
    /// The log.
    pub log: LogId,
    /// The shard that holds it.
    pub shard: u8,
    /// Entries appended and not settled.
    pub live: RangeSet,
    /// What they count for.
    pub bytes: u64,
    /// Index that the next entry will have.
    pub next_index: u64,
    /// What is wrong with it, if anything is.
    pub damage: Option<Damage>,
}

/// What opening a store found.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Whether the store is new.
    pub created: bool,
    /// Whether the store was closed in order: nothing had to be read from the write-ahead log.
    pub clean: bool,
    /// Sequence of the checkpoint, 0 without one.
    pub checkpoint: u64,
    /// Segment files.
    pub segment_files: usize,
    /// Files of the write-ahead log that were read.
    pub wal_files: usize,
    /// Batches in them.
    pub batches: u64,
    /// Bytes of these batches.
    pub wal_bytes: u64,
    /// Bodies in them that are written once for several shards: how often one was not written.
    pub references: u64,
    /// Bytes of a last batch that was never finished, thus never confirmed, and was cut off.
    pub torn_bytes: u64,
    /// Bytes that were written again because nothing proved that they were durable.
    pub rewritten_bytes: u64,
    /// Segment files that were begun and never became part of the store.
    pub deleted_files: usize,
    /// What else was noticed, in words.
    pub notes: Vec<String>,
}

/// An open store, in its parts.
pub struct Recovered<D: Disk> {
    /// Each shard's logs, in the order of their numbers.
    pub shards: Vec<ShardLogs>,
    /// For the thread of the write-ahead log.
    pub wal: WalWriter<D>,
    /// For the thread that writes segments.
    pub segment: SegmentWriter<D>,
    /// For the same thread.
    pub checkpoint: CheckpointWriter<D>,
    /// For the same thread.
    pub pool: WalPool<D>,
    /// For the first reader thread; see [`Reader::another`].
    pub reader: Reader<D>,
    /// The logs, in no order.
    pub logs: Vec<LogSummary>,
    /// If some: files through this one wait to be flushed, as if they had just become full.
    pub flush_through: Option<Generation>,
    /// The store's identity.
    pub uuid: [u8; 16],
    /// What was found.
    pub report: RecoveryReport,
    /// Keeps other processes out.
    pub lock: StoreLock<D>,
}

/// Keeps other processes out of a store for as long as it lives.
pub struct StoreLock<D: Disk> {
    _locks: Vec<D::Lock>,
}

/// Opens a store, or begins one.
///
/// # Errors
/// [`OpenError`]. Damage to single logs is no error: see [`LogSummary::damage`].
///
/// # Panics
/// If the options are out of their bounds.
pub fn recover<D: Disk>(
    disk: &D,
    folders: &Folders,
    options: &Options,
) -> Result<Recovered<D>, OpenError> {
    assert!(
        (1..=SHARDS_MAX).contains(&usize::from(options.shards)),
        "{options:?}"
    );
    assert!(options.wal_file_bytes <= WAL_FILE_BYTES_MAX, "{options:?}");
    folders.create(disk)?;
    let lock = StoreLock {
        _locks: folders.lock(disk)?,
    };
    let (identity, created) = match folders.identity(disk)? {
        Some(identity) => {
            folders.sync(disk)?;
            (identity, false)
        }
        None => {
            let identity = Identity {
                uuid: options.uuid,
                shards: options.shards,
            };
            folders.mark(disk, identity)?;
            (identity, true)
        }
    };
    let mut found = load(disk, folders, identity, options)?;
    found.report.created = created;
    make_ready(disk, folders, identity, options, found, lock)
}

/// A store as found, before anything is changed.
pub(crate) struct Found {
    pub(crate) shards: Vec<ShardLogs>,
    pub(crate) report: RecoveryReport,
    resume: Resume,
    previous_head: Vec<u8>,
    tail: Vec<SealedChunk>,
    tail_bytes: u64,
    next_file: FileId,
    listed: Vec<FileId>,
    retained: Option<Generation>,
}

/// Reads a store without changing it.
pub(crate) fn load<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
    options: &Options,
) -> Result<Found, OpenError> {
    let checkpoint = checkpoint::read_newest(disk, &folders.data, identity.salt())?;
    load_from(
        disk,
        folders,
        identity,
        options,
        checkpoint.unwrap_or_default(),
    )
}

/// Reads a store that was as this checkpoint says, without changing it.
pub(crate) fn load_from<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
    options: &Options,
    checkpoint: Checkpoint,
) -> Result<Found, OpenError> {
    let salt = identity.salt();
    let mut report = RecoveryReport {
        checkpoint: checkpoint.sequence,
        ..RecoveryReport::default()
    };
    if checkpoint.repaired {
        report
            .notes
            .push("one of the two copies of the checkpoint is damaged".into());
    }
    let budget = Budget {
        cache_bytes: options.cache_bytes / usize::from(identity.shards),
        loaded_bytes: (options.loaded_bytes / usize::from(identity.shards))
            .max(limits::SEGMENT_BLOCK_BYTES * 4),
    };
    let mut shards: Vec<ShardReplay> = (0..identity.shards)
        .map(|shard| ShardReplay::new(ShardLogs::new(shard as u8, budget)))
        .collect();
    let wal_from = checkpoint.wal_from;
    let mut next_file = checkpoint.next_file;
    let listed = begin_from(checkpoint, &mut shards, &mut report);
    let wal = scan(disk, &folders.wal, salt, wal_from)?;
    let mut blocks = Vec::new();
    for (shard, file, bytes) in &listed {
        blocks.push((
            *shard,
            *file,
            read_index(disk, folders, salt, *file, *bytes, &mut report),
        ));
        next_file = next_file.max(file + 1);
    }
    for shard in &mut shards {
        shard.cut_before = next_file;
    }
    let names = disk
        .list(&folders.segment)
        .map_err(|e| OpenError::io(&folders.segment, e))?;
    let highest = names
        .iter()
        .filter_map(|n| segment::format::parse_file_name(n))
        .max();
    next_file = next_file.max(highest.map_or(1, |h| h + 1));

    let mut replay = Replay {
        salt,
        shards,
        report,
        resume: Resume {
            next_generation: wal.newest.max(wal_from.saturating_sub(1)) + 1,
            ..Resume::default()
        },
        previous_head: Vec::new(),
        tail: Vec::new(),
        tail_bytes: 0,
    };
    replay.resume.synced = wal.synced;
    replay.run(disk, folders, &wal)?;
    let retained = wal.files.last().map(|(generation, _)| *generation);
    let mut report = replay.report;
    report.clean = wal.files.is_empty();
    report.torn_bytes = wal.torn_bytes;
    report.wal_files = wal.files.len();
    report.segment_files = listed.len();
    report.notes.extend(wal.notes);
    for (shard, file, blocks) in blocks {
        replay.shards[usize::from(shard)].add_file(file, blocks);
    }
    let finish = |shard: ShardReplay| shard.finish();
    Ok(Found {
        shards: replay.shards.into_iter().map(finish).collect(),
        report,
        resume: replay.resume,
        previous_head: replay.previous_head,
        tail: replay.tail,
        tail_bytes: replay.tail_bytes,
        next_file,
        listed: listed.into_iter().map(|(_, file, _)| file).collect(),
        retained,
    })
}

/// Puts the checkpoint's logs into their shards. Gives the segment files that it lists, with their
/// shards and lengths.
fn begin_from(
    checkpoint: Checkpoint,
    shards: &mut [ShardReplay],
    report: &mut RecoveryReport,
) -> Vec<(u16, FileId, u64)> {
    let mut files = Vec::new();
    for part in checkpoint.shards {
        let number = part.shard;
        let Some(shard) = shards.get_mut(usize::from(number)) else {
            report.notes.push(format!(
                "the checkpoint tells of shard {number}, which is not"
            ));
            continue;
        };
        files.extend(
            part.files
                .iter()
                .map(|(file, bytes)| (number, *file, *bytes)),
        );
        shard.begin_from(part);
    }
    files
}

/// Reads a segment file's index: its footer, or if that is damaged, the heads of all its blocks.
pub(crate) fn read_index<D: Disk>(
    disk: &D,
    folders: &Folders,
    salt: u64,
    file: FileId,
    bytes: u64,
    report: &mut RecoveryReport,
) -> (u64, Vec<LogBlock>) {
    let name = segment::format::file_name(file);
    let open = match disk.open(&folders.segment.join(&name)) {
        Ok(open) => open,
        Err(error) => {
            report.notes.push(format!("segment file {name}: {error}"));
            return (bytes, Vec::new());
        }
    };
    let footer = read_footer(&open, salt, file, bytes);
    let blocks = footer.unwrap_or_else(|| {
        report.notes.push(format!(
            "the index of segment file {name} is damaged: rebuilt"
        ));
        rebuild_index(&open, salt, file, bytes)
    });
    (bytes, blocks)
}

fn read_footer(file: &impl DiskFile, salt: u64, id: FileId, bytes: u64) -> Option<Vec<LogBlock>> {
    use segment::format::{FOOTER_END_BYTES, decode_footer, footer_len};
    let end = read_exact(
        file,
        bytes.checked_sub(FOOTER_END_BYTES as u64)?,
        FOOTER_END_BYTES,
    );
    let len = footer_len(&end.ok()?, id)?;
    let footer = read_exact(file, bytes.checked_sub(len)?, usize::try_from(len).ok()?);
    decode_footer(&footer.ok()?, salt, id)
}

/// Finds the blocks of a file one after the other; a damaged head hides only its own block, if
/// another is found behind it.
fn rebuild_index(file: &impl DiskFile, salt: u64, id: FileId, bytes: u64) -> Vec<LogBlock> {
    use segment::format::{BLOCK_HEADER_BYTES, peek_block, verify_block_head};
    let mut blocks = Vec::new();
    let mut at = HEADER_BYTES as u64;
    let mut buffer = vec![0; BLOCK_HEADER_BYTES];
    while at + BLOCK_HEADER_BYTES as u64 <= bytes {
        let header = file
            .read_at(&mut buffer, at)
            .ok()
            .and_then(|_| peek_block(&buffer))
            .filter(|h| at + h.len() <= bytes)
            .and_then(|h| read_exact(file, at, h.head_len() as usize).ok())
            .and_then(|head| verify_block_head(&head, salt, id, at as u32));
        let Some(header) = header else {
            at += 1;
            continue;
        };
        blocks.push(LogBlock {
            log: header.log,
            volatile: header.volatile,
            block: Block {
                first_index: header.first_index,
                last_index: header.last_index,
                file: id,
                offset: at as u32,
                len: header.len() as u32,
                count: header.entries,
                live: 0,
            },
        });
        at += header.len();
    }
    blocks
}

/// One shard while the write-ahead log is replayed.
struct ShardReplay {
    logs: ShardLogs,
    /// Effects of chunks through this one are in the checkpoint.
    after: u64,
    last_seq: Option<u64>,
    bad_bodies: RangeSet,
    /// Whether chunks are missing, so that nobody knows what was in them.
    missing: Vec<String>,
    /// Places so far at which something may be missing.
    gaps: usize,
    /// Logs that were begun or accepted behind that many of these: what was lost there is no
    /// longer theirs.
    sound_after: BTreeMap<LogId, usize>,
    /// Segment files before this one are older than any truncation that is replayed.
    cut_before: FileId,
}

impl ShardReplay {
    fn new(logs: ShardLogs) -> Self {
        Self {
            logs,
            after: 0,
            last_seq: None,
            bad_bodies: RangeSet::new(),
            missing: Vec::new(),
            gaps: 0,
            sound_after: BTreeMap::new(),
            cut_before: 0,
        }
    }

    fn begin_from(&mut self, part: ShardPart) {
        self.after = part.after;
        self.logs.builder.seq = part.after + 1;
        self.logs.builder.first_body = part.next_body;
        self.logs.flushed_body = part.flushed_body;
        self.logs.flushed_through = part.flushed_through;
        for log in part.logs {
            self.logs.logs.insert(log.id, Box::new(log));
        }
    }

    fn chunk(&mut self, batch: &Batch, chunk: &ChunkHead) {
        let expected = self.last_seq.map_or(self.after + 1, |last| last + 1);
        if chunk.seq > expected {
            let range = expected..chunk.seq;
            self.gaps += 1;
            self.missing.push(format!(
                "chunks {range:?} of shard {} are lost",
                chunk.shard
            ));
        }
        self.last_seq = Some(chunk.seq);
        let end_body = chunk.first_body + u64::from(chunk.bodies);
        self.logs.builder.seq = self.logs.builder.seq.max(chunk.seq + 1);
        self.logs.builder.first_body = self.logs.builder.first_body.max(end_body);
        if chunk.bodies == 0 || end_body <= self.logs.flushed_body {
            return;
        }
        let place = Place {
            generation: batch.head.generation,
            table_generation: batch.head_at.generation,
            table_at: (batch.head_at.offset + chunk.table.start as u64) as u32,
            table_crc: crc32c::crc32c(&batch.bytes[chunk.table.clone()]),
            bodies_at: (batch.head.data_at() + chunk.body_data.start) as u32,
            references: chunk.references,
            version: batch.head.version,
        };
        self.logs.chunks.push(Chunk {
            seq: chunk.seq,
            first_body: chunk.first_body,
            count: chunk.bodies,
            bytes: chunk.tables(&batch.bytes).body_bytes() as u32,
            place: Some(place),
            bodies: None,
            entries: Vec::new(),
        });
    }

    fn record(&mut self, seq: u64, id: LogId, record: Record<'_>) {
        let new = seq > self.after;
        let logs = &mut self.logs.logs;
        if new && matches!(record, Record::Create | Record::Accept) {
            self.sound_after.insert(id, self.gaps);
        }
        if record == Record::Create {
            if new {
                logs.insert(id, Box::new(Log::new(id, LogKind::Durable)));
            }
            return;
        }
        if record == Record::Delete {
            if new {
                logs.remove(&id);
            }
            return;
        }
        if new && !logs.contains_key(&id) {
            let mut log = Log::new(id, LogKind::Durable);
            log.damage_mut()
                .note(format!("the record that created log {id} is lost"));
            logs.insert(id, Box::new(log));
        }
        let Some(log) = logs.get_mut(&id) else {
            return;
        };
        match record {
            Record::Create | Record::Delete => {}
            Record::Run {
                first_index,
                first_body,
                count,
                bytes,
            } => {
                let run = crate::chunk::Run {
                    first_index,
                    first_body,
                    count,
                };
                if new {
                    log.durable.live.insert_range(first_index..run.end_index());
                    log.durable.live_bytes += bytes;
                    log.next_index = log.next_index.max(run.end_index());
                    log.durable.next_body = log.durable.next_body.max(run.end_body());
                }
                add_run(&mut log.durable, run, self.logs.flushed_body);
            }
            Record::Truncate { from } => {
                log.durable.truncate_runs(from);
                if new {
                    log.durable.truncate(from, &mut Vec::new());
                    log.next_index = from;
                    log.cut(Cut {
                        before: self.cut_before,
                        from,
                    });
                }
            }
            Record::Settle { start, end, bytes } if new => {
                log.durable.settle(start..end, bytes, &mut Vec::new());
            }
            Record::State(blob) if new => log.state = blob.to_vec(),
            Record::Vote { term, vote } if new => log.term_and_vote = Some((term, vote)),
            Record::Accept if new => log.damage = None,
            Record::Skip { to } if new => log.next_index = log.next_index.max(to),
            Record::Settle { .. }
            | Record::State(_)
            | Record::Vote { .. }
            | Record::Accept
            | Record::Skip { .. } => {}
        }
    }

    fn lost_record(&mut self, seq: u64, id: LogId) {
        if seq <= self.after {
            return;
        }
        let log = self.logs.logs.entry(id);
        let log = log.or_insert_with(|| Box::new(Log::new(id, LogKind::Durable)));
        log.damage_mut()
            .note(format!("a record about log {id} in chunk {seq} is damaged"));
    }

    /// Takes in a segment file's index.
    fn add_file(&mut self, file: FileId, (bytes, blocks): (u64, Vec<LogBlock>)) {
        self.logs.files.insert(
            file,
            FileState {
                bytes,
                ..FileState::default()
            },
        );
        for LogBlock {
            log,
            volatile,
            mut block,
        } in blocks
        {
            let Some(log) = self.logs.logs.get_mut(&log).filter(|_| !volatile) else {
                continue;
            };
            let cuts = log.cuts.iter().filter(|cut| file < cut.before);
            let end = cuts
                .map(|cut| cut.from)
                .fold(block.last_index + 1, u64::min);
            if end <= block.first_index {
                continue;
            }
            block.last_index = end - 1;
            let live = log.durable.insert_block(block);
            if let Some(state) = self.logs.files.get_mut(&file) {
                state.live += u64::from(live);
                state.live_bytes += block.share(live);
            }
        }
    }

    /// Accounts for what is damaged, and gives the logs as they can be used.
    fn finish(mut self) -> ShardLogs {
        let logs = &mut self.logs;
        logs.set_durable_through(logs.builder.seq - 1);
        let mut with_runs: Vec<LogId> = Vec::new();
        for log in logs.logs.values_mut() {
            if self.sound_after.get(&log.id) != Some(&self.gaps) {
                for note in &self.missing {
                    log.damage_mut().note(note.clone());
                }
            }
            if !log.durable.runs.is_empty() {
                with_runs.push(log.id);
            }
            find_lost(log, &logs.chunks, &self.bad_bodies);
        }
        with_runs.sort_unstable();
        logs.listed = with_runs.iter().copied().collect();
        logs.with_runs = with_runs;
        self.logs
    }
}

/// Adds where entries are, as far as they live and are not in segments.
fn add_run(side: &mut Side, run: crate::chunk::Run, flushed_body: u64) {
    if side.live.count_within(run.first_index..run.end_index()) == 0 {
        return;
    }
    let mut run = run;
    if run.end_body() <= flushed_body {
        return;
    }
    // Indexes are given twice only after a truncation. Its record may be damaged, and counts in the
    // checkpoint that tells of it already.
    side.truncate_runs(run.first_index);
    let cut = flushed_body.saturating_sub(run.first_body);
    run.first_index += cut;
    run.first_body += cut;
    run.count -= cut as u32;
    if let Some(last) = side.runs.back_mut()
        && (last.end_index(), last.end_body()) == (run.first_index, run.first_body)
        && last.count.checked_add(run.count).is_some()
    {
        last.count += run.count;
        return;
    }
    side.runs.push_back(run);
}

/// Entries that live must be somewhere: in a chunk that is there and sound, or in a block.
fn find_lost(log: &mut Log, chunks: &crate::chunk::Chunks, bad: &RangeSet) {
    let side = &log.durable;
    let mut missing = side.live.clone();
    let mut lost = RangeSet::new();
    for run in &side.runs {
        for live in side.live.within(run.first_index..run.end_index()) {
            let body = run.first_body + (live.start - run.first_index);
            let bodies = body..body + (live.end - live.start);
            let to_index = |r: Range<u64>| {
                let start = live.start + (r.start - bodies.start);
                start..start + (r.end - r.start)
            };
            for there in chunks.covered(bodies.clone()) {
                missing.remove_range(to_index(there));
            }
            for damaged in bad.within(bodies.clone()) {
                lost.insert_range(to_index(damaged));
            }
        }
    }
    for block in &side.blocks {
        missing.remove_range(block.indexes());
    }
    if missing.is_empty() && lost.is_empty() {
        return;
    }
    let id = log.id;
    let damage = log.damage.get_or_insert_default();
    for range in lost.iter() {
        damage.note(format!(
            "bodies of entries {range:?} of log {id} are damaged"
        ));
        damage.lost.insert_range(range);
    }
    for range in missing.iter() {
        damage.note(format!("entries {range:?} of log {id} are nowhere on disk"));
        damage.lost.insert_range(range);
    }
}

struct Replay {
    salt: u64,
    shards: Vec<ShardReplay>,
    report: RecoveryReport,
    resume: Resume,
    previous_head: Vec<u8>,
    tail: Vec<SealedChunk>,
    tail_bytes: u64,
}

impl Replay {
    fn run<D: Disk>(
        &mut self,
        disk: &D,
        folders: &Folders,
        wal: &WalScan,
    ) -> Result<(), OpenError> {
        for (generation, file) in &wal.files {
            let path = folders.wal.join(crate::wal::writer::file_name(*generation));
            let open = disk.open(&path).map_err(|e| OpenError::io(&path, e))?;
            if file.header_damaged {
                self.report
                    .notes
                    .push(format!("the header of {} is damaged", path.display()));
            }
            for gap in &file.gaps {
                let note = format!("bytes {gap:?} of {} are damaged", path.display());
                self.report.notes.push(note);
            }
            let mut gaps = file.gaps.iter().peekable();
            for batch in &file.batches {
                while gaps.next_if(|gap| gap.start < batch.head.offset).is_some() {
                    self.pass_gap();
                }
                let len = batch.head.data_len as usize;
                let mut data = vec![0; len];
                let read = open.read_at(&mut data, batch.head.data_at());
                let read = read.map_err(|e| OpenError::io(&path, e))?;
                data.truncate(read);
                let mut elsewhere = |at, len| read_exact(&open, at, len).ok();
                self.batch(batch, data, wal.synced, &mut elsewhere);
            }
            gaps.for_each(|_| self.pass_gap());
        }
        if !wal.notes.is_empty() {
            // Nobody knows where: behind all that is known.
            self.pass_gap();
        }
        self.note_missing_tails();
        Ok(())
    }

    fn pass_gap(&mut self) {
        for shard in &mut self.shards {
            shard.gaps += 1;
        }
    }

    fn batch(&mut self, batch: &Batch, data: Vec<u8>, synced: Position, elsewhere: Elsewhere<'_>) {
        if batch.from_copy {
            let note = format!(
                "the head of the batch at {} of file {} is damaged; its copy is used",
                batch.head.offset, batch.head.generation
            );
            self.report.notes.push(note);
        }
        let start = Position {
            generation: batch.head.generation,
            offset: batch.head.offset,
        };
        let data = Bytes::from(data);
        self.report.batches += 1;
        self.report.wal_bytes += batch.range().end - batch.range().start;
        let tail = start >= synced && !batch.chunks.is_empty();
        let owned = if tail {
            owned_bodies(batch)
        } else {
            BTreeMap::new()
        };
        for chunk in &batch.chunks {
            self.report.references += u64::from(chunk.references);
            let lost = self.chunk(batch, chunk, &data, elsewhere);
            if tail {
                let mut sealed = sealed(batch, chunk, &data, elsewhere);
                sealed.shared = shared_again(batch, chunk, &owned);
                sealed
                    .shared
                    .retain(|(at, _)| lost.binary_search(at).is_err());
                sealed.lost = lost;
                self.tail.push(sealed);
            }
        }
        if tail {
            self.tail_bytes += batch.head.data_len;
        } else {
            self.resume.sequence = batch.head.sequence + 1;
            self.resume.chain = batch.head.crc;
            self.resume.synced = Position {
                generation: batch.head.generation,
                offset: batch.head.end(),
            };
            self.previous_head.clone_from(&batch.bytes);
        }
    }

    /// Takes a chunk in; gives the positions of its bodies that are not what they were.
    fn chunk(
        &mut self,
        batch: &Batch,
        chunk: &ChunkHead,
        data: &[u8],
        elsewhere: Elsewhere<'_>,
    ) -> Vec<u32> {
        let mut lost = Vec::new();
        let salt = self.salt;
        let Some(shard) = self.shards.get_mut(usize::from(chunk.shard)) else {
            let note = format!("a chunk of shard {}, which is not", chunk.shard);
            self.report.notes.push(note);
            return lost;
        };
        shard.chunk(batch, chunk);
        verify(
            batch,
            chunk,
            data,
            salt,
            elsewhere,
            |item, sound| match item {
                Item::Body(position) | Item::Reference(position) => {
                    if !sound {
                        lost.push(position);
                        shard
                            .bad_bodies
                            .insert(chunk.first_body + u64::from(position));
                    }
                }
                Item::Record(log, bytes) => {
                    match Record::decode(bytes).filter(|_| sound) {
                        Some(record) => shard.record(chunk.seq, log, record),
                        None => shard.lost_record(chunk.seq, log),
                    };
                }
            },
        );
        lost
    }

    /// With a gap somewhere, a shard of which nothing came after it may have lost chunks too.
    fn note_missing_tails(&mut self) {
        let text = "a part of the write-ahead log is damaged, and nothing tells whose it was";
        for shard in &mut self.shards {
            if shard.gaps > 0 && shard.missing.is_empty() {
                shard.missing.push(text.to_owned());
            }
        }
    }
}

/// Where in the file the bodies lie that a batch holds itself.
fn owned_bodies(batch: &Batch) -> BTreeMap<u32, SharedBody> {
    let mut owned = BTreeMap::new();
    if batch.chunks.iter().all(|chunk| chunk.references == 0) {
        return owned;
    }
    for chunk in &batch.chunks {
        let mut at = (batch.head.data_at() + chunk.body_data.start) as u32;
        for (position, entry) in (0..).zip(chunk.tables(&batch.bytes).entries()) {
            if entry.elsewhere.is_none() && entry.len > 0 {
                let body = SharedBody {
                    shard: chunk.shard as u8,
                    seq: chunk.seq,
                    position,
                    len: entry.len,
                };
                owned.insert(at, body);
                at += entry.len;
            }
        }
    }
    owned
}

/// The bodies of a chunk that are references to such bodies.
fn shared_again(
    batch: &Batch,
    chunk: &ChunkHead,
    owned: &BTreeMap<u32, SharedBody>,
) -> Vec<(u32, SharedBody)> {
    let entries = (0..).zip(chunk.tables(&batch.bytes).entries());
    let shared = entries.filter_map(|(position, entry)| {
        let body = owned.get(&entry.elsewhere?)?;
        (body.len == entry.len).then_some((position, *body))
    });
    shared.collect()
}

/// A chunk of the tail, to be written again, with all of its bodies.
pub(crate) fn sealed(
    batch: &Batch,
    chunk: &ChunkHead,
    data: &Bytes,
    elsewhere: Elsewhere<'_>,
) -> SealedChunk {
    let span = |r: &Range<u64>| r.start as usize..r.end as usize;
    let tables = chunk.tables(&batch.bytes);
    let mut end = 0;
    let ends = tables.entries().map(|entry| {
        end += entry.len;
        end
    });
    let ends: Vec<u32> = ends.collect();
    let own = data.slice(span(&chunk.body_data));
    let bodies = match chunk.references {
        0 => own,
        _ => Bytes::from(with_referred(batch, tables, &own, data, elsewhere)),
    };
    let bodies = Bodies::from_buffer(bodies, ends);
    let mut end = 0;
    let meta_ends = crate::wal::format::record_entries(&batch.bytes, chunk).map(|entry| {
        end += entry.len;
        (entry.log, end)
    });
    SealedChunk {
        shard: chunk.shard as u8,
        seq: chunk.seq,
        first_body: chunk.first_body,
        meta_ends: meta_ends.collect(),
        crcs: bodies.iter().map(crc32c::crc32c).collect(),
        bodies,
        meta: data[span(&chunk.record_data)].to_vec(),
        shared: Vec::new(),
        lost: Vec::new(),
    }
}

/// The bodies of a chunk with those that lie elsewhere in their places. What cannot be read becomes
/// zeros: that it is lost is found where it is verified, see [`SealedChunk::lost`].
fn with_referred(
    batch: &Batch,
    tables: Tables<'_>,
    own: &[u8],
    data: &[u8],
    elsewhere: Elsewhere<'_>,
) -> Vec<u8> {
    let mut all = Vec::with_capacity(tables.body_bytes() as usize);
    let mut own_at = 0;
    for entry in tables.entries() {
        let end = all.len() + entry.len as usize;
        match entry.elsewhere {
            None => {
                all.extend_from_slice(&own[own_at..own_at + entry.len as usize]);
                own_at += entry.len as usize;
            }
            Some(offset) => {
                let body = referred(batch, data, (offset, entry.len), elsewhere);
                all.extend_from_slice(&body.unwrap_or_default());
            }
        }
        all.resize(end, 0);
    }
    all
}

/// Makes the tail durable again, removes what never became part of the store, and hands out the
/// parts.
fn make_ready<D: Disk>(
    disk: &D,
    folders: &Folders,
    identity: Identity,
    options: &Options,
    mut found: Found,
    lock: StoreLock<D>,
) -> Result<Recovered<D>, OpenError> {
    let salt = identity.salt();
    let file_bytes = options.wal_file_bytes;
    let mut wal = WalWriter::new(disk.clone(), &folders.wal, salt, file_bytes, found.resume);
    wal.set_previous_head(std::mem::take(&mut found.previous_head));
    // Before the tail is written again: with a full disk, the prepared files are the space that
    // there is.
    let (next_number, prepared) = pooled_files(disk, folders, file_bytes)?;
    for file in prepared {
        wal.supply(file);
    }
    while !found.tail.is_empty() {
        // The tail may be in the page cache and nowhere else, and marked as clean there: only
        // writing it again, elsewhere, is sure.
        let outcome = wal.write(&mut found.tail)?;
        for (shard, seq, place) in outcome.written {
            found.shards[usize::from(shard)].move_chunk(seq, place);
        }
        found.report.rewritten_bytes = found.tail_bytes;
    }
    let rewritten = wal.roll();
    found.report.deleted_files = delete_leftovers(disk, folders, &found.listed)?;
    let reader = Reader::new(
        disk.clone(),
        folders.wal.clone(),
        folders.segment.clone(),
        salt,
    );
    let segment = SegmentWriter::new(
        disk.clone(),
        &folders.segment,
        salt,
        found.next_file,
        reader.another(),
    );
    let checkpoint = CheckpointWriter::new(
        disk.clone(),
        folders,
        salt,
        found.report.checkpoint,
        options.wal_pool_files,
    );
    Ok(Recovered {
        logs: summaries(&found.shards),
        shards: found.shards,
        wal,
        segment,
        checkpoint,
        pool: WalPool::new(disk.clone(), &folders.wal, file_bytes, next_number),
        reader,
        flush_through: rewritten.or(found.retained),
        uuid: identity.uuid,
        report: found.report,
        lock,
    })
}

pub(crate) fn summaries(shards: &[ShardLogs]) -> Vec<LogSummary> {
    let all = shards
        .iter()
        .flat_map(|shard| shard.logs.values().map(move |log| (shard, log)));
    all.map(|(shard, log)| LogSummary {
        log: log.id,
        shard: shard.shard(),
        live: log.durable.live.clone(),
        bytes: log.durable.live_bytes,
        next_index: log.next_index,
        damage: log.damage.as_deref().cloned(),
    })
    .collect()
}

/// Deletes files that were begun and never became part of the store.
fn delete_leftovers<D: Disk>(
    disk: &D,
    folders: &Folders,
    listed: &[FileId],
) -> Result<usize, OpenError> {
    let mut deleted = 0;
    let list = |folder| disk.list(folder).map_err(|e| OpenError::io(folder, e));
    for name in list(folders.segment.as_path())? {
        let id = segment::format::parse_file_name(&name);
        if id.is_some_and(|id| !listed.contains(&id)) {
            let path = folders.segment.join(name);
            disk.delete(&path).map_err(|e| OpenError::io(&path, e))?;
            deleted += 1;
        }
    }
    if deleted > 0 {
        // A number may be used again only when the file that had it is gone for good.
        let synced = disk.sync_dir(&folders.segment);
        synced.map_err(|e| OpenError::io(&folders.segment, e))?;
    }
    Ok(deleted)
}

/// The prepared files that an earlier process left; those of another size are deleted.
fn pooled_files<D: Disk>(
    disk: &D,
    folders: &Folders,
    file_bytes: u64,
) -> Result<(u64, Vec<PreparedFile>), OpenError> {
    let (mut highest, mut prepared) = (0, Vec::new());
    for name in disk
        .list(&folders.wal)
        .map_err(|e| OpenError::io(&folders.wal, e))?
    {
        let Some(number) = pool::parse_file_name(&name) else {
            continue;
        };
        highest = highest.max(number);
        let path = folders.wal.join(name);
        let fail = |e| OpenError::io(&path, e);
        if disk.open(&path).and_then(|f| f.len()).map_err(fail)? == file_bytes {
            prepared.push(PreparedFile { path });
        } else {
            disk.delete(&path).map_err(fail)?;
        }
    }
    Ok((highest, prepared))
}

impl ShardLogs {
    /// A chunk has been written again, elsewhere.
    fn move_chunk(&mut self, seq: u64, place: Place) {
        if let Some(chunk) = self.chunks.find_seq(seq) {
            chunk.place = Some(place);
        }
    }
}
