//! Starts on segment files and journals of streams that were changed. What is served must be what
//! was appended, and where something is missing before it, that must be reported.

use super::recovery::apply;
use crate::SimDisk;
use crate::file_system::FileSystem;
use leveret_amqp::fuzz::Random;
use leveret_storage::{OpenError, StreamFiles};
use leveret_stream::{ChunkHeader, ChunkKind, Seek, SharedChunk};
use leveret_types::QueueId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folders of streams to be changed.
const WORLDS: u64 = 5;
const STREAMS: u64 = 3;
/// Changes to one folder at most.
const CHANGES_MAX: usize = 6;
/// Bytes of each file of the journal: some batches.
const JOURNAL_BYTES: u64 = 8 * 1024;

type Files = StreamFiles<SimDisk>;

/// What one stream was given.
#[derive(Default)]
struct Written {
    chunks: Vec<SharedChunk>,
    /// First offsets of its segments.
    segments: Vec<u64>,
    /// Bytes of its last segment before the last sync, which was one for all streams.
    len_before: usize,
}

/// Streams at rest, in which everything is durable.
struct World {
    files: FileSystem,
    streams: BTreeMap<QueueId, Written>,
}

fn worlds() -> &'static [World] {
    static WORLD: OnceLock<Vec<World>> = OnceLock::new();
    WORLD.get_or_init(|| (0..WORLDS).map(world).collect())
}

fn folder() -> &'static Path {
    Path::new("streams")
}

fn path((stream, segment): (QueueId, u64)) -> PathBuf {
    folder().join(format!("{:016x}-{segment:020}.stream", stream.0))
}

fn open(disk: &SimDisk, salt: u64) -> Result<Files, OpenError> {
    let files = StreamFiles::open(disk.clone(), folder(), salt)?;
    Ok(files.with_journal_bytes_max(JOURNAL_BYTES))
}

fn chunk(random: &mut Random, first_offset: u64) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: 1,
        records: 1,
        timestamp_ms: first_offset as i64,
        epoch: 1,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let body = vec![random.below(256) as u8; random.below(900) as usize];
    let entry = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
    SharedChunk::new(header, &[], &entry, &random.bytes(9))
}

fn world(seed: u64) -> World {
    let (disk, mut random) = (SimDisk::new(), Random::new(seed));
    let mut files = open(&disk, seed).expect("a disk without faults");
    let mut streams: BTreeMap<QueueId, Written> = (1..=STREAMS)
        .map(|stream| (QueueId(stream), Written::default()))
        .collect();
    let rounds = 4 + seed * 9;
    for round in 0..=rounds {
        for (&stream, written) in &mut streams {
            let next = written.chunks.len() as u64;
            if written
                .segments
                .last()
                .is_none_or(|first| *first < next && round < rounds && random.below(6) == 0)
            {
                let begun = files.begin_segment(stream, next);
                begun.expect("a disk without faults");
                written.segments.push(next);
            }
            let last = written.segments.last().copied().unwrap_or(0);
            let before = disk.read(&path((stream, last)));
            written.len_before = before.map_or(0, |bytes| bytes.len());
            let chunk = chunk(&mut random, next);
            let appended = files.append(stream, &chunk, random.below(3) == 0);
            appended.expect("a disk without faults");
            written.chunks.push(chunk);
            if round < rounds && random.below(5) == 0 {
                files.sync(stream).expect("a disk without faults");
            }
        }
        let all: Vec<QueueId> = streams.keys().copied().collect();
        files.sync_together(&all).expect("a disk without faults");
    }
    drop(files);
    let files = disk.files();
    World { files, streams }
}

/// `input` is the folder to take, which streams lost what only the journal had durably, whether
/// others have a copy, and eight bytes for each change of a file whose name ends so.
///
/// # Panics
/// If something else than was appended is served, or less without a word.
pub fn changed_files(input: &[u8], suffix: &str) {
    let [number, lost, changes @ ..] = input else {
        return;
    };
    let world = &worlds()[usize::from(*number) % WORLDS as usize];
    let disk = SimDisk::with(world.files.clone());
    for (&stream, written) in &world.streams {
        let last = written.segments.last().copied().unwrap_or(0);
        if (lost >> stream.0) & 1 == 1 {
            disk.tamper(&path((stream, last)), |bytes| {
                bytes.truncate(written.len_before)
            });
        }
    }
    let named = |path: &PathBuf| path.extension().is_some_and(|end| end == suffix);
    let paths: Vec<PathBuf> = disk.paths().into_iter().filter(named).collect();
    let mut is_changed = false;
    for change in changes.chunks_exact(8).take(CHANGES_MAX) {
        apply(&disk, &paths, change);
        is_changed = true;
    }
    let mut files = open(&disk, 99).unwrap_or_else(|error| panic!("{error}"));
    let journal_damage = files.take_journal_damage();
    assert!(
        is_changed || journal_damage.is_empty(),
        "{journal_damage:?}"
    );
    for (stream, written) in &world.streams {
        let reported = !journal_damage.is_empty();
        check(
            &mut files,
            *stream,
            written,
            (lost & 1 == 1, is_changed, reported),
        );
    }
    drop(files);
    check_appended(&disk, lost & 1 == 1, &world.streams);
}

fn recover(
    files: &mut Files,
    stream: QueueId,
    has_replicas: bool,
) -> Result<leveret_storage::RecoveredStream, OpenError> {
    match has_replicas {
        true => files.recover_replica(stream),
        false => files.recover(stream),
    }
}

/// A stream serves what it was given, or a beginning of that, unless it says that more is missing.
fn check(
    files: &mut Files,
    stream: QueueId,
    written: &Written,
    (has_replicas, is_changed, mut reported): (bool, bool, bool),
) {
    let found = match recover(files, stream, has_replicas) {
        Ok(found) => found,
        Err(error) => return assert!(is_changed, "{error}"),
    };
    reported |= !found.damage.is_empty();
    let mut served = 0;
    for segment in &found.recovered.segments {
        let first = segment.first_offset;
        let (mut seek, mut expected) = (Seek::Offset(first), first);
        while let Ok(loaded) = files.read(stream, first, seek, u64::MAX, u32::MAX) {
            if loaded.chunks.is_empty() {
                break;
            }
            for chunk in &loaded.chunks {
                let offset = chunk.header().first_offset;
                assert_eq!(
                    Some(chunk),
                    written.chunks.get(offset as usize),
                    "something else than was appended is served"
                );
                assert!(reported || offset == expected, "{expected} is passed over");
                expected = offset + 1;
                served += 1;
            }
            seek = Seek::Position(loaded.position);
        }
    }
    assert!(
        is_changed || (served == written.chunks.len() && !reported),
        "{served} of {} chunks, {:?}",
        written.chunks.len(),
        found.damage,
    );
}

/// Streams go on, whatever was found, and have what they are given then.
fn check_appended(disk: &SimDisk, has_replicas: bool, streams: &BTreeMap<QueueId, Written>) {
    let mut files = open(disk, 100).unwrap_or_else(|error| panic!("{error}"));
    let mut appended = Vec::new();
    for &stream in streams.keys() {
        // One whose last segment has no head says so again.
        let Ok(found) = recover(&mut files, stream, has_replicas) else {
            continue;
        };
        let found = found.recovered;
        let newest = found
            .newest
            .last()
            .map(|chunk| chunk.header().next_offset());
        let begun = found.segments.last().map(|segment| segment.first_offset);
        let next = newest.or(begun).unwrap_or(0);
        if files.last_segment(stream).is_none() {
            let begun = files.begin_segment(stream, next);
            begun.expect("a disk without faults");
        }
        let chunk = chunk(&mut Random::new(next), next);
        let written = files.append(stream, &chunk, true);
        written.expect("a disk without faults");
        appended.push((stream, chunk));
    }
    let all: Vec<QueueId> = appended.iter().map(|(stream, _)| *stream).collect();
    files.sync_together(&all).expect("a disk without faults");
    drop(files);
    let mut files = open(disk, 101).unwrap_or_else(|error| panic!("{error}"));
    for (stream, chunk) in appended {
        let found = recover(&mut files, stream, has_replicas);
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.recovered.newest.last(), Some(&chunk), "{stream}");
    }
}
