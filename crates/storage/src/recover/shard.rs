//! One shard while the write-ahead log is replayed: its logs become what the checkpoint, the
//! records and the segment files say together, and what none of them can say is noted as damage. No
//! IO.

use crate::checkpoint::ShardPart;
use crate::chunk::{Chunk, ChunkLocation};
use crate::id::{ChunkSeq, FileId, LogKind};
use crate::log::{Cut, Log, Side};
use crate::record::Record;
use crate::segment::format::LogBlock;
use crate::shard::{FileState, LogsWithRuns, ShardLogs};
use crate::wal::format::ChunkHead;
use crate::wal::scan::Batch;
use leveret_types::{LogId, RangeSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// One shard while the write-ahead log is replayed.
pub(super) struct ShardReplay {
    logs: ShardLogs,
    /// Effects of chunks through this one are in the checkpoint.
    after: u64,
    last_seq: Option<u64>,
    pub(super) bad_bodies: RangeSet,
    /// Whether chunks are missing, so that nobody knows what was in them.
    pub(super) missing: Vec<String>,
    /// Places so far at which something may be missing.
    pub(super) gaps: usize,
    /// The chunk behind which something may be missing, if it is still to come: the start that
    /// missed it had written what it knew again.
    cut_after: Option<ChunkSeq>,
    /// Logs that were begun or accepted behind that many of these: what was lost there is no
    /// longer theirs.
    sound_after: BTreeMap<LogId, usize>,
    /// Segment files before this one are older than any truncation that is replayed.
    pub(super) cut_before: FileId,
}

impl ShardReplay {
    pub(super) fn new(logs: ShardLogs) -> Self {
        Self {
            logs,
            after: 0,
            last_seq: None,
            bad_bodies: RangeSet::new(),
            missing: Vec::new(),
            gaps: 0,
            cut_after: None,
            sound_after: BTreeMap::new(),
            cut_before: 0,
        }
    }

    pub(super) fn begin_from(&mut self, part: ShardPart) {
        self.after = part.after;
        self.logs.builder.seq = part.after + 1;
        self.logs.builder.first_body = part.next_body;
        self.logs.flushed.body = part.flushed_body;
        self.logs.flushed.through = part.flushed_through;
        for log in part.logs {
            self.logs.logs.insert(log.id, Box::new(log));
        }
    }

    /// A file was cut, of which these are the last chunks that were written again behind it.
    pub(super) fn pass_cut(&mut self, moved: &BTreeMap<u16, ChunkSeq>) {
        self.pass_last_cut();
        self.cut_after = moved.get(&u16::from(self.logs.shard())).copied();
        self.gaps += usize::from(self.cut_after.is_none());
    }

    /// All has come that was written again.
    pub(super) fn pass_last_cut(&mut self) {
        self.gaps += usize::from(self.cut_after.take().is_some());
    }

    pub(super) fn chunk(&mut self, batch: &Batch, chunk: &ChunkHead) {
        if self.cut_after.is_some_and(|last| chunk.seq > last) {
            self.pass_last_cut();
        }
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
        if chunk.bodies == 0 || end_body <= self.logs.flushed.body {
            return;
        }
        let location = ChunkLocation {
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
            location: Some(location),
            bodies: None,
            read_in_parts: 0,
            entries: Vec::new(),
        });
    }

    pub(super) fn record(&mut self, seq: u64, id: LogId, record: Record<'_>) {
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
                add_run(&mut log.durable, run, self.logs.flushed.body);
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

    pub(super) fn lost_record(&mut self, seq: u64, id: LogId) {
        if seq <= self.after {
            return;
        }
        let log = self.logs.logs.entry(id);
        let log = log.or_insert_with(|| Box::new(Log::new(id, LogKind::Durable)));
        log.damage_mut()
            .note(format!("a record about log {id} in chunk {seq} is damaged"));
    }

    /// Takes in a segment file's index.
    pub(super) fn add_file(
        &mut self,
        file: FileId,
        is_own: bool,
        (bytes, blocks): (u64, Vec<LogBlock>),
    ) {
        self.logs.files.insert(file, FileState::new(bytes, is_own));
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
                state.add(&block, live);
            }
        }
    }

    /// Accounts for what is damaged, and gives the logs as they can be used.
    pub(super) fn finish(mut self) -> ShardLogs {
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
        logs.with_runs = LogsWithRuns::new(with_runs);
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
