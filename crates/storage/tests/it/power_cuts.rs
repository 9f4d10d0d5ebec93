//! Processes that end before any call to the disk, with the machine's power or without: the next
//! start finds what was confirmed, and what it serves it still has after another cut.

use crate::common::power::{Left, PowerDisk, open_store};
use crate::common::streams::chunk;
use crate::common::{A, B, payload};
use leveret_storage::rebuild::mend_checkpoint;
use leveret_storage::{
    Disk, Durability, Fatal, Folders, LogKind, Read, Store, StoreError, StreamFiles,
    files_set_aside,
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
    let next = recovered.recovered.next_offset;
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
    let ends = offsets.last().map(|last| last + 1);
    if ends.is_some_and(|ends| ends != next) {
        return Err(format!("{offsets:?}, and the next one is {next}"));
    }
    Ok(Found {
        first: offsets.first().copied(),
        next,
        epoch: epoch.map(|state| state.promised.0),
    })
}

/// What a start has found of a stream: its first offset, if it has any, and the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    first: Option<u64>,
    next: u64,
    epoch: Option<u64>,
}

/// Whether that is all right, where a step may have been carried out or not.
fn agrees(found: &Found, before: &Plain, after: &Plain) -> bool {
    let plain = [before, after];
    let confirmed = before.durable.min(after.durable);
    let next = found.next;
    let first_of = |plain: &Plain| plain.segments.first().copied();
    let begins = |first| plain.iter().any(|plain| first_of(plain) == Some(first));
    (confirmed..=before.next_offset.max(after.next_offset)).contains(&next.max(confirmed))
        && found.first.is_none_or(begins)
        && (next >= confirmed || after.segments.is_empty())
        && plain.iter().any(|plain| plain.epoch == found.epoch)
}

/// A segment of which something was confirmed is named as the newest one: else nobody would miss
/// it.
fn check_named(disk: &PowerDisk, before: &Streams, after: &Streams) -> Result<(), String> {
    let names = disk.files(".newest");
    for (stream, plain) in before {
        let of = |plain: &Plain| plain.segments.last().copied();
        let stays = after.get(stream).and_then(of) == of(plain);
        let Some(segment) = of(plain).filter(|first| stays && *first < plain.durable) else {
            continue;
        };
        let name = format!("{FOLDER}/{:016x}-{segment:020}", stream.0);
        if !names
            .iter()
            .any(|path| path.to_string_lossy().starts_with(&name))
        {
            return Err(format!("{name} is not among {names:?}"));
        }
    }
    Ok(())
}

/// What the next process does, and the one after the next power cut.
fn go_on(disk: &PowerDisk, step: Step, before: &Streams, after: &Streams) -> Result<(), String> {
    check_named(disk, before, after)?;
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
        let next = found.next;
        if files.last_segment(stream).is_none() {
            files
                .begin_segment(stream, next)
                .map_err(|e| e.to_string())?;
        }
        let appended = files.append(stream, &chunk(next, 1, 100), true);
        appended.map_err(|error| error.to_string())?;
        files.sync(stream).map_err(|error| error.to_string())?;
        let mut files = open(&again.ended(Left::Nothing));
        let now = served(&mut files, stream)?.next;
        if now != next + 1 {
            return Err(format!("{now} behind what was appended at {next}"));
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
        Step::DeleteFirstSegment(1),
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

/// Streams with one segment of so many chunks each, which are synced.
fn filled(disk: &PowerDisk, streams: &[QueueId], chunks: u64) -> StreamFiles<PowerDisk> {
    let mut files = open(disk);
    for stream in streams {
        files.begin_segment(*stream, 0).unwrap();
        for offset in 0..chunks {
            files.append(*stream, &chunk(offset, 1, 100), true).unwrap();
        }
        files.sync(*stream).unwrap();
    }
    files
}

#[test]
fn a_mark_that_has_no_room_is_left_away_and_a_cut_needs_none() {
    const STREAM: QueueId = QueueId(1);
    let disk = PowerDisk::default();
    let mut files = filled(&disk, &[STREAM], 4);
    let unmarked = disk.files(".newest");
    disk.refuse_names(true);
    files.mark_durable(STREAM).unwrap();
    assert_eq!(disk.files(".newest"), unmarked);
    // It is tried again, and goes before what it says is cut.
    disk.refuse_names(false);
    files.mark_durable(STREAM).unwrap();
    assert_ne!(disk.files(".newest"), unmarked);
    disk.refuse_names(true);
    files.cut(STREAM, 2).unwrap();
    assert!(disk.files(".newest").is_empty());
    disk.refuse_names(false);
    let found = open(&disk).recover(STREAM).unwrap();
    assert_eq!((found.damage.len(), found.recovered.next_offset), (0, 2));
}

/// Else a segment that is missing later would be missed by nobody.
#[test]
fn a_name_that_fails_for_another_reason_than_want_of_room_ends_the_process() {
    const STREAM: QueueId = QueueId(1);
    let disk = PowerDisk::default();
    let mut files = filled(&disk, &[STREAM], 4);
    files.begin_segment(STREAM, 4).unwrap();
    files.append(STREAM, &chunk(4, 1, 100), true).unwrap();
    files.sync(STREAM).unwrap();
    disk.break_names();
    assert!(files.mark_durable(STREAM).is_err());
    assert!(files.begin_segment(STREAM, 5).is_err());
}

/// An operator lets a stream go on without what is missing so.
#[test]
fn a_note_of_the_newest_segment_that_somebody_has_deleted_is_made_again_or_is_gone() {
    const STREAM: QueueId = QueueId(1);
    for is_deleted in [true, false] {
        let disk = PowerDisk::default();
        let mut files = filled(&disk, &[STREAM], 4);
        let note = disk.files(".newest").remove(0);
        disk.delete(&note).unwrap();
        match is_deleted {
            true => {
                files.delete_stream(STREAM).unwrap();
                assert!(disk.files(".stream").is_empty());
            }
            false => {
                files.begin_segment(STREAM, 4).unwrap();
                assert_eq!(disk.files(".newest").len(), 1);
            }
        }
    }
}

#[test]
fn nothing_is_set_aside_where_there_is_no_folder_for_it() {
    let disk = PowerDisk::default();
    let folders = Folders::within(Path::new("/store"));
    let (folder, files) = files_set_aside(&disk, &folders).unwrap();
    assert_eq!((folder.starts_with("/store"), files.len()), (true, 0));
    let mut streams = filled(&disk, &[QueueId(1), QueueId(2)], 1);
    assert_eq!(streams.what_is_set_aside().unwrap(), None);
    streams.set_aside(QueueId(1)).unwrap();
    let found = streams.what_is_set_aside().unwrap();
    assert_eq!(found.map(|found| found.files), Some(2));
}

/// Who is told that a stream was set aside forgets it: no cut may bring it back, or lose it.
#[test]
fn what_is_set_aside_is_in_one_folder_or_the_other() {
    let disk = PowerDisk::default();
    let mut files = filled(&disk, &[QueueId(1), QueueId(2)], 2);
    let before = disk.calls();
    files.set_aside(QueueId(1)).unwrap();
    drop(files);
    for call in before..=disk.calls() {
        for left in Left::EACH {
            let found = match call < disk.calls() {
                true => disk.ended_before(call, left).1,
                false => disk.ended(left),
            };
            let stream = |path: &&std::path::PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with("0000000000000001-"))
            };
            let files = found.files(".stream");
            let count = files.iter().filter(stream).count();
            assert!(count == 1 || count == 2, "{call}, {left:?}: {files:?}");
            if call == disk.calls() {
                assert_eq!(count, 1);
                assert_eq!(open(&found).streams().collect::<Vec<_>>(), [QueueId(2)]);
            }
        }
    }
}

/// The two folders that a start is noted in are of one age wherever it ends.
#[test]
fn a_start_that_ends_while_it_is_noted_finds_the_folders_to_be_of_one_start() {
    let data = Path::new("data");
    let mut disk = PowerDisk::default();
    for salt in 1..4 {
        let start = |disk: &PowerDisk, salt: u64| {
            let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), salt).unwrap();
            files.note_start(data).unwrap()
        };
        disk = disk.ended(Left::Nothing);
        assert!(start(&disk, salt));
        for call in 0..disk.calls() {
            for left in Left::EACH {
                let (_, found) = disk.ended_before(call, left);
                for again in 1..3 {
                    let is_same = start(&found, 10 * salt + again);
                    assert!(is_same, "start {salt}, call {call}, {left:?} left, {again}");
                }
            }
        }
    }
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
    /// It has segments in a folder of its own from now on.
    Apart(LogId),
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
        LogStep::Apart(id) => shard.place_apart(id),
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
        LogStep::Apart(B),
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

/// Else nobody would miss the file before, which is the newest one then.
#[test]
fn a_file_of_the_log_that_is_given_up_leaves_the_one_before_named() {
    let disk = PowerDisk::default();
    let mut store = open_store(&disk).unwrap();
    let mut logs = Logs::new();
    let mut play = |store: &mut Store<PowerDisk>, steps: &[LogStep]| {
        for step in steps {
            carry_out_on_logs(store, &mut logs, *step).unwrap();
        }
    };
    let begun = [
        LogStep::Prepare(2),
        LogStep::Create(A),
        LogStep::Append(A, 1, 900),
        LogStep::Sync,
    ];
    play(&mut store, &begun);
    store.roll();
    let before = disk.calls();
    disk.refuse_next_write();
    play(&mut store, &[LogStep::Append(A, 1, 900), LogStep::Sync]);
    for call in before..disk.calls() {
        let (_, found) = disk.ended_before(call, Left::All);
        assert_eq!(found.files(".newest").len(), 1, "call {call}");
        // Before the file goes, the one before is named for good.
        let goes = found.files("2.wal").len() == 1
            && call + 1 < disk.calls()
            && disk
                .ended_before(call + 1, Left::All)
                .1
                .files("2.wal")
                .is_empty();
        if goes {
            let named = disk.ended_before(call, Left::Nothing).1.files("1.newest");
            assert_eq!(named.len(), 1, "call {call}");
        }
        let mut store = open_store(&found).unwrap();
        assert_eq!(store.read(A, 0), Read::Ready(payload(0, 900).into()));
    }
}

/// A later sync of the folder succeeds, and does not make durable what the one before has lost.
#[test]
fn a_log_that_gives_up_a_file_goes_on_after_no_sync_of_its_folder_that_failed() {
    for syncs in 0.. {
        let disk = PowerDisk::default();
        let mut store = open_store(&disk).unwrap();
        let mut logs = Logs::new();
        let mut play = |store: &mut Store<PowerDisk>, steps: &[LogStep]| {
            let mut steps = steps.iter();
            steps.try_for_each(|step| carry_out_on_logs(store, &mut logs, *step))
        };
        let begun = [
            LogStep::Prepare(2),
            LogStep::Create(A),
            LogStep::Append(A, 1, 900),
            LogStep::Sync,
        ];
        play(&mut store, &begun).unwrap();
        store.roll();
        disk.refuse_next_write();
        disk.fail_folder_sync_after(syncs);
        let played = play(&mut store, &[LogStep::Append(A, 1, 900), LogStep::Sync]);
        if disk.is_folder_sync_to_fail() {
            assert!(syncs >= 3, "it is begun, not named any more, and deleted");
            break;
        }
        let error = played.expect_err("a sync has failed");
        assert!(!error.is_no_space(), "sync {syncs}: {error}");
    }
}

#[test]
fn a_checkpoint_that_is_mended_is_whole_or_can_be_mended_once_more() {
    let disk = PowerDisk::default();
    let mut store = open_store(&disk).unwrap();
    let mut logs = Logs::new();
    for step in [
        LogStep::Create(A),
        LogStep::Append(A, 3, 900),
        LogStep::Sync,
        LogStep::Flush,
    ] {
        carry_out_on_logs(&mut store, &mut logs, step).unwrap();
    }
    drop(store);
    let [checkpoint] = &disk.files(".checkpoint")[..] else {
        panic!("a checkpoint");
    };
    disk.tamper(checkpoint, |bytes| {
        let half = bytes.len() / 2;
        bytes[20] ^= 1;
        bytes[half + 40] ^= 1;
    });
    let folders = Folders::within(Path::new("/store"));
    assert!(open_store(&disk).is_err());
    // An earlier try has ended while it wrote.
    let begun = Path::new("/store/data/checkpoint.tmp");
    disk.create_new(begun).unwrap();
    let before = disk.calls();
    assert!(mend_checkpoint(&disk, &folders).unwrap());
    let mended = disk.ended(Left::Nothing);
    assert_eq!(logs_of(&mut open_store(&mended).unwrap()), Ok(logs.clone()));
    for call in before..disk.calls() {
        for left in Left::EACH {
            let (_, found) = disk.ended_before(call, left);
            mend_checkpoint(&found, &folders).unwrap();
            let again = logs_of(&mut open_store(&found).unwrap()).unwrap();
            assert_eq!(again, logs, "call {call}, {left:?} left");
        }
    }
}

/// What is read wrongly may be said to be damaged, or be refused: it is not put in the place of
/// what is there.
#[test]
fn a_start_that_reads_wrongly_once_costs_nothing() {
    let sound = PowerDisk::default();
    let mut store = open_store(&sound).unwrap();
    let mut logs = Logs::new();
    let steps = [
        LogStep::Prepare(2),
        LogStep::Create(A),
        LogStep::Append(A, 2, 3_000),
        LogStep::Sync,
        LogStep::Create(B),
        LogStep::Append(B, 2, 3_000),
        LogStep::Sync,
        LogStep::Idle,
    ];
    for step in steps {
        carry_out_on_logs(&mut store, &mut logs, step).unwrap();
    }
    drop(store);
    for read in 0.. {
        let disk = sound.ended(Left::All);
        disk.read_wrongly(read);
        drop(open_store(&disk));
        if disk.reads() <= read {
            break;
        }
        let found = open_store(&disk.ended(Left::All));
        let found = found.and_then(|mut store| logs_of(&mut store));
        assert_eq!(found, Ok(logs.clone()), "read {read}");
    }
}

/// It counts as closed from the last call of its close on, and until its next start is through.
#[test]
fn a_store_counts_as_closed_in_order_once_it_is_and_until_it_is_opened() {
    const CLOSE: usize = 1;
    const START: usize = 2;
    const RUN: usize = 3;
    let disk = PowerDisk::default();
    let mut store = open_store(&disk).unwrap();
    store.shards[0].create_log(A, LogKind::Durable);
    store.shards[0].set_state(A, b"of the end");
    store.sync().unwrap();
    disk.begin_step(CLOSE);
    store.close().unwrap();
    disk.begin_step(START);
    let closed = disk.calls();
    let mut store = open_store(&disk).unwrap();
    assert!(store.shards[0].was_closed_in_order());
    disk.begin_step(RUN);
    store.shards[0].set_state(A, b"of the run");
    store.sync().unwrap();
    for call in 0..disk.calls() {
        for left in Left::EACH {
            let (step, found) = disk.ended_before(call, left);
            let store = open_store(&found).unwrap();
            let logs = &store.shards[0];
            let is_closed = logs.was_closed_in_order();
            let place = format!("step {step}, call {call}, {left:?} left");
            match step {
                // A store that is new has nothing that could differ.
                0 => assert!(!is_closed || !logs.has_log(A), "{place}"),
                RUN => assert!(!is_closed, "{place}"),
                _ if is_closed => assert_eq!(logs.state(A), b"of the end", "{place}"),
                _ => assert_ne!(call, closed, "{place}"),
            }
        }
    }
    assert!(!open_store(&disk).unwrap().shards[0].was_closed_in_order());
}
