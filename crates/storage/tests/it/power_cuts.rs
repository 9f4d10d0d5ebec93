//! Processes that end before any call to the disk, with the machine's power or without: the next
//! start finds what was confirmed, and what it serves it still has after another cut.

use crate::common::power::{Left, PowerDisk};
use crate::common::streams::chunk;
use crate::common::{A, B, payload};
use leveret_storage::{
    Durability, Fatal, Folders, LogKind, Options, Read, Store, StoreError, StreamFiles,
};
use leveret_stream::{Epoch, ReplicaState, Seek};
use leveret_types::{LogId, QueueId};
use std::collections::BTreeMap;
use std::path::Path;

const FOLDER: &str = "streams";

/// A step of a process with streams. Each chunk has one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A segment begins at the stream's end.
    Begin(u64),
    /// Chunks with bodies of so many bytes.
    Append(u64, u64, usize),
    Sync(u64),
    /// Through another thread.
    SyncAside(u64),
    /// All streams.
    Together,
    /// What the journal asks for.
    JournalSyncs,
    Mark(u64),
    /// What a replica keeps, of this epoch.
    State(u64, u64),
    Cut(u64, u64),
    DeleteFirstSegment(u64),
    Delete(u64),
    SyncAll,
}

/// What there is of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plain {
    segments: Vec<u64>,
    next_offset: u64,
    /// All below is confirmed.
    durable: u64,
    epoch: Option<u64>,
}

type Streams = BTreeMap<QueueId, Plain>;

/// What a step makes of the streams, once it is done.
fn after(streams: &Streams, step: Step) -> Streams {
    let mut streams = streams.clone();
    let of = |streams: &mut Streams, stream: u64, change: &dyn Fn(&mut Plain)| {
        change(streams.entry(QueueId(stream)).or_default());
    };
    let sync = |plain: &mut Plain| plain.durable = plain.next_offset;
    match step {
        Step::Begin(stream) => of(&mut streams, stream, &|plain| {
            plain.segments.push(plain.next_offset);
            sync(plain);
        }),
        Step::Append(stream, chunks, _) => of(&mut streams, stream, &|plain| {
            plain.next_offset += chunks;
        }),
        Step::Sync(stream) | Step::SyncAside(stream) => of(&mut streams, stream, &sync),
        Step::Together | Step::SyncAll => streams.values_mut().for_each(sync),
        Step::JournalSyncs | Step::Mark(_) => {}
        Step::State(stream, epoch) => of(&mut streams, stream, &|plain| plain.epoch = Some(epoch)),
        Step::Cut(stream, next_offset) => of(&mut streams, stream, &|plain| {
            plain.segments.retain(|segment| *segment < next_offset);
            plain.next_offset = plain.next_offset.min(next_offset);
            sync(plain);
        }),
        Step::DeleteFirstSegment(stream) => of(&mut streams, stream, &|plain| {
            plain.segments.remove(0);
        }),
        Step::Delete(stream) => drop(streams.remove(&QueueId(stream))),
    }
    streams
}

fn body_bytes(stream: QueueId, offset: u64) -> usize {
    60 + (stream.0 as usize * 7 + offset as usize * 131) % 900
}

fn carry_out(
    files: &mut StreamFiles<PowerDisk>,
    streams: &Streams,
    step: Step,
) -> Result<(), Fatal> {
    let next_offset = |stream| streams.get(&stream).map_or(0, |plain| plain.next_offset);
    match step {
        Step::Begin(stream) => {
            let stream = QueueId(stream);
            files.begin_segment(stream, next_offset(stream)).unwrap();
        }
        Step::Append(stream, chunks, bytes) => {
            let stream = QueueId(stream);
            for offset in next_offset(stream)..next_offset(stream) + chunks {
                let bytes = bytes + body_bytes(stream, offset);
                files
                    .append(stream, &chunk(offset, 1, bytes), false)
                    .unwrap();
            }
        }
        Step::Sync(stream) => files.sync(QueueId(stream))?,
        Step::SyncAside(stream) => {
            if let Some(sync) = files.begin_sync(QueueId(stream))? {
                files.synced(&sync.run()?);
            }
        }
        Step::Together => {
            let all: Vec<QueueId> = streams.keys().copied().collect();
            files.sync_together(&all)?;
        }
        Step::JournalSyncs => {
            for sync in files.begin_journal_syncs()? {
                files.synced(&sync.run()?);
            }
        }
        Step::Mark(stream) => files.mark_durable(QueueId(stream))?,
        Step::State(stream, epoch) => {
            let state = ReplicaState {
                promised: Epoch(epoch),
                ..ReplicaState::default()
            };
            files.save_replica_state(QueueId(stream), &state).unwrap();
        }
        Step::Cut(stream, next_offset) => {
            files.cut_and_recover(QueueId(stream), next_offset)?;
        }
        Step::DeleteFirstSegment(stream) => {
            let stream = QueueId(stream);
            files.delete_segment(stream, streams[&stream].segments[0])?;
        }
        Step::Delete(stream) => files.delete_stream(QueueId(stream))?,
        Step::SyncAll => files.sync_all()?,
    }
    Ok(())
}

fn open(disk: &PowerDisk) -> StreamFiles<PowerDisk> {
    let files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 7).unwrap();
    files.with_journal_bytes_max(16 * 1024)
}

/// The offsets that are served, from the first to the last, each as it was appended; and the epoch
/// that the replica has promised.
fn served(files: &mut StreamFiles<PowerDisk>, stream: QueueId) -> Result<Found, String> {
    let epoch = files.replica_state(stream).map_err(|e| e.to_string())?;
    let recovered = files.recover(stream).map_err(|e| e.to_string())?;
    if !recovered.damage.is_empty() {
        return Err(recovered.damage.join("; "));
    }
    let mut offsets = Vec::new();
    for segment in recovered.recovered.segments {
        let mut seek = Seek::Offset(segment.first_offset);
        loop {
            let read = files.read(stream, segment.first_offset, seek, u64::MAX, u32::MAX);
            let read = read.map_err(|e| e.to_string())?;
            if read.chunks.is_empty() {
                break;
            }
            for read in read.chunks {
                let offset = read.header().first_offset;
                let bytes = read.header().data_bytes as usize - 4;
                if read != chunk(offset, 1, bytes) {
                    return Err(format!("offset {offset} is another"));
                }
                offsets.push(offset);
            }
            seek = Seek::Position(read.position);
        }
    }
    if offsets.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
        return Err(format!("a gap: {offsets:?}"));
    }
    let first = offsets.first().copied();
    Ok(Found {
        offsets: first.map(|first| (first, offsets[offsets.len() - 1] + 1)),
        epoch: epoch.map(|state| state.promised.0),
    })
}

/// What a start has found of a stream: its offsets, first and next, if it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    offsets: Option<(u64, u64)>,
    epoch: Option<u64>,
}

/// Whether that is all right, where a step may have been carried out or not.
fn agrees(found: &Found, before: &Plain, after: &Plain) -> bool {
    let plain = [before, after];
    let confirmed = before.durable.min(after.durable);
    let next = found.offsets.map_or(0, |(_, next)| next);
    let first_of = |plain: &Plain| plain.segments.first().copied();
    let begins = |first| plain.iter().any(|plain| first_of(plain) == Some(first));
    (confirmed..=before.next_offset.max(after.next_offset)).contains(&next.max(confirmed))
        && found.offsets.is_none_or(|(first, _)| begins(first))
        && (next >= confirmed || first_of(after).is_none_or(|first| first >= confirmed))
        && plain.iter().any(|plain| plain.epoch == found.epoch)
}

/// What the next process does, and the one after the next power cut.
fn go_on(disk: &PowerDisk, step: Step, before: &Streams, after: &Streams) -> Result<(), String> {
    let mut files = open(disk);
    let damage = files.take_journal_damage();
    if !damage.is_empty() {
        return Err(damage.join("; "));
    }
    // Who was told to do so does it again.
    match step {
        Step::Delete(stream) => files.delete_stream(QueueId(stream)),
        Step::Cut(stream, next_offset) => files.cut(QueueId(stream), next_offset),
        _ => Ok(()),
    }
    .map_err(|error| error.to_string())?;
    let mut first = BTreeMap::new();
    let nothing = Plain::default();
    let streams: Vec<QueueId> = files.streams().collect();
    for stream in before.keys().chain(after.keys()) {
        let known = |streams: &Streams| streams.get(stream).unwrap_or(&nothing).clone();
        let found = served(&mut files, *stream)?;
        if !agrees(&found, &known(before), &known(after)) {
            let (before, after) = (known(before), known(after));
            return Err(format!("{found:?} of {before:?} or {after:?}"));
        }
        first.insert(*stream, found);
    }
    if let Some(other) = streams.iter().find(|stream| !first.contains_key(stream)) {
        return Err(format!("{other:?} was deleted"));
    }
    drop(files);
    // What was served is there once more, whatever is done to the disk.
    let again = disk.ended(Left::Nothing);
    let mut files = open(&again);
    for (stream, found) in first {
        let now = served(&mut files, stream)?;
        if now != found {
            return Err(format!("{now:?} once more, {found:?} before"));
        }
        let next = found.offsets.map_or(0, |(_, next)| next);
        if files.last_segment(stream).is_none() {
            files
                .begin_segment(stream, next)
                .map_err(|e| e.to_string())?;
        }
        let appended = files.append(stream, &chunk(next, 1, 100), true);
        appended.map_err(|error| error.to_string())?;
        files.sync(stream).map_err(|error| error.to_string())?;
        let mut files = open(&again.ended(Left::Nothing));
        let now = served(&mut files, stream)?.offsets.map(|(_, next)| next);
        if now != Some(next + 1) {
            return Err(format!("{now:?} behind what was appended at {next}"));
        }
    }
    Ok(())
}

/// Plays steps, and every end that the process may have in them.
fn check(steps: &[Step]) {
    let disk = PowerDisk::default();
    let mut files = open(&disk);
    let mut states = vec![Streams::new()];
    for (number, step) in steps.iter().enumerate() {
        disk.begin_step(number);
        let before = &states[number];
        carry_out(&mut files, before, *step).unwrap();
        states.push(after(before, *step));
    }
    drop(files);
    for call in 0..disk.calls() {
        for left in Left::EACH {
            let (number, found) = disk.ended_before(call, left);
            let (before, after) = (&states[number], &states[number + 1]);
            if let Err(error) = go_on(&found, steps[number], before, after) {
                panic!(
                    "call {call}, step {number}: {:?}, {left:?} left: {error}",
                    steps[number]
                );
            }
        }
    }
}

#[test]
fn streams_that_are_synced_one_by_one_keep_what_was_confirmed() {
    check(&[
        Step::Begin(1),
        Step::Append(1, 3, 0),
        Step::Sync(1),
        Step::Append(1, 2, 700),
        Step::SyncAside(1),
        Step::Mark(1),
        Step::Append(1, 1, 0),
        Step::Begin(1),
        Step::Append(1, 2, 0),
        Step::Sync(1),
        Step::Begin(2),
        Step::Append(2, 4, 0),
        Step::SyncAside(2),
        Step::Append(2, 1, 0),
        Step::Begin(2),
        Step::Append(2, 1, 0),
        Step::Begin(2),
        Step::DeleteFirstSegment(2),
        Step::Append(2, 1, 0),
        Step::DeleteFirstSegment(1),
        Step::SyncAll,
        Step::Delete(1),
        Step::Begin(1),
        Step::Append(1, 1, 300),
        Step::Sync(1),
    ]);
}

#[test]
fn streams_that_are_synced_together_keep_what_was_confirmed() {
    let mut steps = vec![Step::Begin(1), Step::Begin(2), Step::Begin(3)];
    for _ in 0..6 {
        steps.extend([
            Step::Append(1, 1, 0),
            Step::Append(2, 2, 500),
            Step::Together,
            Step::Append(3, 1, 0),
            Step::Append(1, 1, 0),
            Step::Together,
            Step::JournalSyncs,
        ]);
    }
    steps.extend([
        Step::Begin(1),
        Step::Append(1, 1, 0),
        Step::Append(2, 1, 0),
        Step::Together,
        Step::Delete(2),
        Step::Begin(2),
        Step::Append(2, 1, 0),
        Step::Append(1, 1, 0),
        Step::Together,
        Step::SyncAll,
        Step::Append(2, 1, 0),
        Step::Append(1, 1, 0),
        Step::Together,
    ]);
    check(&steps);
}

#[test]
fn replicas_that_cut_and_promise_keep_what_was_confirmed() {
    check(&[
        Step::Begin(1),
        Step::State(1, 3),
        Step::Append(1, 3, 0),
        Step::Sync(1),
        Step::Mark(1),
        Step::State(1, 4),
        Step::Cut(1, 2),
        Step::Append(1, 2, 40),
        Step::Begin(2),
        Step::Append(2, 2, 0),
        Step::Together,
        Step::Cut(2, 1),
        Step::Append(2, 1, 2_000),
        Step::Append(1, 1, 0),
        Step::Together,
        Step::Begin(1),
        Step::Append(1, 1, 0),
        Step::Sync(1),
        Step::State(2, 9),
        Step::Cut(1, 1),
        Step::Append(1, 1, 0),
        Step::Sync(1),
        Step::Cut(1, 0),
        Step::Begin(1),
        Step::Append(1, 1, 0),
        Step::Sync(1),
        Step::Delete(2),
        Step::SyncAll,
    ]);
}

/// A step of a process with logs.
#[derive(Clone, Copy, Debug)]
enum LogStep {
    Create(LogId),
    /// So many entries of so many bytes.
    Append(LogId, u64, usize),
    /// So many of the oldest entries.
    Settle(LogId, usize),
    Truncate(LogId, u64),
    Vote(LogId, u64),
    State(LogId, u8),
    Delete(LogId),
    Sync,
    Idle,
    Prepare(usize),
    /// What the log has goes into segments.
    Flush,
    Compact,
    Checkpoint,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PlainLog {
    /// Bytes of each live entry.
    live: BTreeMap<u64, usize>,
    next_index: u64,
    vote: Option<(u64, u64)>,
    state: Vec<u8>,
}

type Logs = BTreeMap<LogId, PlainLog>;

fn carry_out_on_logs(
    store: &mut Store<PowerDisk>,
    logs: &mut Logs,
    step: LogStep,
) -> Result<(), StoreError> {
    let shard = &mut store.shards[0];
    match step {
        LogStep::Create(id) => {
            shard.create_log(id, LogKind::Durable);
            logs.insert(id, PlainLog::default());
        }
        LogStep::Append(id, count, bytes) => {
            let log = logs.get_mut(&id).expect("it was created");
            for _ in 0..count {
                let payload = payload(log.next_index, bytes);
                let body = shard.body(Durability::Durable, &[&payload]);
                log.live.insert(shard.append(id, body, bytes as u32), bytes);
                log.next_index += 1;
            }
        }
        LogStep::Settle(id, count) => {
            let log = logs.get_mut(&id).expect("it was created");
            for _ in 0..count {
                let (index, bytes) = log.live.pop_first().expect("it has so many");
                shard.settle(id, index..index + 1, bytes as u64);
            }
        }
        LogStep::Truncate(id, from) => {
            let log = logs.get_mut(&id).expect("it was created");
            shard.truncate(id, from);
            log.live.split_off(&from);
            log.next_index = from;
        }
        LogStep::Vote(id, term) => {
            shard.set_term_and_vote(id, term, 1);
            logs.get_mut(&id).expect("it was created").vote = Some((term, 1));
        }
        LogStep::State(id, byte) => {
            shard.set_state(id, &[byte; 40]);
            logs.get_mut(&id).expect("it was created").state = vec![byte; 40];
        }
        LogStep::Delete(id) => {
            shard.delete_log(id);
            logs.remove(&id);
        }
        LogStep::Sync => store.sync()?,
        LogStep::Idle => store.mark_idle()?,
        LogStep::Prepare(count) => store.prepare(count)?,
        LogStep::Flush => {
            store.roll();
            store.flush()?;
        }
        LogStep::Compact => drop(store.compact()?),
        LogStep::Checkpoint => store.checkpoint()?,
    }
    Ok(())
}

fn open_store(disk: &PowerDisk) -> Result<Store<PowerDisk>, String> {
    let options = Options {
        uuid: *b"power may be cut",
        wal_file_bytes: 64 * 1024,
        wal_pool_files: 2,
        cache_bytes: 64 * 1024,
        ..Options::default()
    };
    let opened = Store::open(disk, &Folders::within(Path::new("/store")), &options);
    let (store, report) = opened.map_err(|error| error.to_string())?;
    match &report.notes[..] {
        [] => Ok(store),
        notes => Err(notes.join("; ")),
    }
}

/// What a store has, of entries that are as they were appended.
fn logs_of(store: &mut Store<PowerDisk>) -> Result<Logs, String> {
    let mut logs = Logs::new();
    for found in store.found.clone() {
        if let Some(damage) = found.damage {
            return Err(format!("{damage:?}"));
        }
        let mut log = PlainLog {
            next_index: found.next_index,
            vote: store.shards[0].term_and_vote(found.log),
            state: store.shards[0].state(found.log).to_vec(),
            ..PlainLog::default()
        };
        for index in found.live.iter().flatten() {
            match store.read(found.log, index) {
                Read::Ready(bytes) if bytes == payload(index, bytes.len()) => {
                    log.live.insert(index, bytes.len());
                }
                other => return Err(format!("entry {index} of {}: {other:?}", found.log)),
            }
        }
        logs.insert(found.log, log);
    }
    Ok(logs)
}

fn go_on_with_logs(disk: &PowerDisk, confirmed: &Logs, tried: &Logs) -> Result<(), String> {
    let found = logs_of(&mut open_store(disk)?)?;
    // Files that never became part of the store are gone for good: their numbers are used again.
    let segments = disk.files(".seg");
    if disk.ended(Left::Nothing).files(".seg") != segments {
        return Err(format!("others beside {segments:?} come back"));
    }
    if found != *confirmed && found != *tried {
        return Err(format!("{found:?} is neither {confirmed:?} nor {tried:?}"));
    }
    // What was found is there once more, whatever is done to the disk, and so is what comes then.
    let disk = disk.ended(Left::Nothing);
    let mut store = open_store(&disk)?;
    let again = logs_of(&mut store)?;
    if again != found {
        return Err(format!("{again:?} once more, {found:?} before"));
    }
    let mut with_another = found;
    let new = LogId(99);
    for step in [
        LogStep::Create(new),
        LogStep::Append(new, 2, 500),
        LogStep::Sync,
    ] {
        let done = carry_out_on_logs(&mut store, &mut with_another, step);
        done.map_err(|error| error.to_string())?;
    }
    let now = logs_of(&mut open_store(&disk.ended(Left::Nothing))?)?;
    match now == with_another {
        true => Ok(()),
        false => Err(format!("{now:?} after {with_another:?}")),
    }
}

#[test]
fn logs_keep_what_was_confirmed() {
    let steps = [
        LogStep::Create(A),
        LogStep::Append(A, 3, 300),
        LogStep::Sync,
        LogStep::Prepare(1),
        LogStep::Create(B),
        LogStep::Append(B, 4, 9_000),
        LogStep::Vote(A, 7),
        LogStep::Sync,
        LogStep::Idle,
        LogStep::Settle(A, 1),
        LogStep::Append(A, 1, 20_000),
        LogStep::Sync,
        LogStep::Flush,
        LogStep::Truncate(B, 2),
        LogStep::State(B, 5),
        LogStep::Append(B, 3, 15_000),
        LogStep::Sync,
        LogStep::Append(A, 2, 100),
        LogStep::Sync,
        LogStep::Flush,
        LogStep::Settle(B, 4),
        LogStep::Settle(A, 3),
        LogStep::Checkpoint,
        LogStep::Compact,
        LogStep::Append(A, 2, 25_000),
        LogStep::Sync,
        LogStep::Append(B, 2, 25_000),
        LogStep::Sync,
        LogStep::Prepare(2),
        LogStep::Append(B, 2, 25_000),
        LogStep::Sync,
        LogStep::Delete(A),
        LogStep::Flush,
        LogStep::Idle,
        LogStep::Checkpoint,
    ];
    let disk = PowerDisk::default();
    let mut store = open_store(&disk).unwrap();
    let begun = disk.calls();
    let (mut confirmed, mut tried) = (vec![Logs::new()], Logs::new());
    let mut all_tried = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        disk.begin_step(number);
        carry_out_on_logs(&mut store, &mut tried, step).unwrap();
        all_tried.push(tried.clone());
        let confirms = matches!(
            step,
            LogStep::Sync | LogStep::Checkpoint | LogStep::Flush | LogStep::Compact
        );
        let before = &confirmed[number];
        let now = if confirms { &tried } else { before };
        confirmed.push(now.clone());
    }
    drop(store);
    for call in 0..disk.calls() {
        for left in Left::EACH {
            let (number, found) = disk.ended_before(call, left);
            // A store that is being made is made anew.
            let tried = if call < begun {
                &Logs::new()
            } else {
                &all_tried[number]
            };
            if let Err(error) = go_on_with_logs(&found, &confirmed[number], tried) {
                panic!(
                    "call {call}, step {number}: {:?}, {left:?} left: {error}",
                    steps[number]
                );
            }
        }
    }
}
