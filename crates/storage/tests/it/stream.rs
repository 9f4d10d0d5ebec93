//! Segment files of streams: what was appended is read back, by offset and time, also after a
//! start; torn ends are cut, damage is reported.

use crate::common::streams::{chunk, path_of};
use leveret_storage::{
    Disk, DiskFile, MemoryDisk, OpenError, RecoveredStream, StreamFiles, StreamReadError,
};
use leveret_stream::{Seek, SharedChunk};
use leveret_types::QueueId;
use leveret_types::limits::{STREAM_JOURNAL_ROOM, STREAM_READ_BYTES};
use std::path::{Path, PathBuf};

const STREAM: QueueId = QueueId(7);
const FOLDER: &str = "streams";

fn open(disk: &MemoryDisk) -> (StreamFiles<MemoryDisk>, RecoveredStream) {
    let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 42).unwrap();
    let recovered = files.recover(STREAM).unwrap();
    (files, recovered)
}

fn open_err(disk: &MemoryDisk) -> OpenError {
    let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 42).unwrap();
    files.recover(STREAM).unwrap_err()
}

/// Chunks of two records each, `per_segment` of them in a segment, each synced.
fn filled(chunks: u64, per_segment: u64, body_bytes: usize) -> (MemoryDisk, Vec<SharedChunk>) {
    let disk = MemoryDisk::new();
    let (mut files, _) = open(&disk);
    let mut appended = Vec::new();
    for n in 0..chunks {
        if n.is_multiple_of(per_segment) {
            files.begin_segment(STREAM, n * 2).unwrap();
        }
        let chunk = chunk(n * 2, 2, body_bytes);
        files.append(STREAM, &chunk, true).unwrap();
        files.sync(STREAM).unwrap();
        appended.push(chunk);
    }
    (disk, appended)
}

/// All files but those that only name a segment.
fn paths(disk: &MemoryDisk) -> Vec<PathBuf> {
    let is_name = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "newest");
    let mut paths = disk.paths();
    paths.retain(|path| !is_name(path));
    paths
}

/// All chunks that are served, from the first to the last.
fn read_all(
    files: &mut StreamFiles<MemoryDisk>,
    segments: &[u64],
) -> Result<Vec<SharedChunk>, StreamReadError> {
    let mut chunks = Vec::new();
    for segment in segments {
        let mut seek = Seek::Offset(*segment);
        loop {
            let loaded = files.read(STREAM, *segment, seek, u64::MAX, u32::MAX)?;
            if loaded.chunks.is_empty() {
                break;
            }
            chunks.extend(loaded.chunks);
            seek = Seek::Position(loaded.position);
        }
    }
    Ok(chunks)
}

#[test]
fn every_offset_and_time_is_found_in_its_chunk() {
    let (disk, appended) = filled(1_000, 400, 300);
    let (mut files, found) = open(&disk);
    assert!(found.damage.is_empty());
    assert_eq!(found.cut_bytes, 0);
    let segments: Vec<u64> = found
        .recovered
        .segments
        .iter()
        .map(|s| s.first_offset)
        .collect();
    assert_eq!(segments, [0, 800, 1_600]);
    let times: Vec<i64> = found
        .recovered
        .segments
        .iter()
        .map(|s| s.first_timestamp_ms)
        .collect();
    assert_eq!(times, [0, 8_000, 16_000]);
    assert_eq!(read_all(&mut files, &segments).unwrap(), appended);
    for offset in (0..2_000).step_by(7) {
        let segment = segments.iter().rfind(|first| **first <= offset).unwrap();
        let expected = &appended[offset as usize / 2];
        for seek in [
            Seek::Offset(offset),
            Seek::TimestampMs(offset as i64 / 2 * 20),
        ] {
            let loaded = files.read(STREAM, *segment, seek, u64::MAX, 1).unwrap();
            assert_eq!(loaded.chunks[0].header(), expected.header(), "{seek:?}");
        }
        // Nothing that begins at the bound is shown.
        let until = files.read(STREAM, *segment, Seek::Offset(offset), offset / 2 * 2, 9);
        assert!(until.unwrap().chunks.is_empty());
    }
}

#[test]
fn a_start_reads_the_end_of_the_last_segment_only() {
    let (disk, appended) = filled(300, 250, 100_000);
    let total: usize = appended.iter().map(|chunk| chunk.bytes().len()).sum();
    let before = disk.counts().read_bytes;
    let (_, found) = open(&disk);
    let read = disk.counts().read_bytes - before;
    assert!(total > 50 << 20, "{total}");
    assert!(read < 4 << 20, "{read} of {total} bytes were read");
    let last = found.recovered.newest.last().unwrap();
    assert_eq!(last, appended.last().unwrap());
}

#[test]
fn a_chunk_that_is_larger_than_a_read_is_read() {
    let (disk, appended) = filled(3, 10, STREAM_READ_BYTES);
    let (mut files, _) = open(&disk);
    assert_eq!(read_all(&mut files, &[0]).unwrap(), appended);
}

#[test]
fn tracking_is_replayed_from_where_the_last_record_says() {
    let disk = MemoryDisk::new();
    let (mut files, _) = open(&disk);
    files.begin_segment(STREAM, 0).unwrap();
    for n in 0..40 {
        let is_replay_start = n == 10;
        files
            .append(STREAM, &chunk(n, 1, 200_000), is_replay_start)
            .unwrap();
        files.sync(STREAM).unwrap();
    }
    let (_, found) = open(&disk);
    let offsets = found
        .recovered
        .newest
        .iter()
        .map(|c| c.header().first_offset);
    assert!(
        offsets.eq(10..40),
        "more than the window that is looked at first"
    );
}

/// The last record is cut short, or garbled, anywhere: the ones before it are kept, the torn one is
/// gone for good, and the stream goes on.
#[test]
fn a_torn_end_is_cut() {
    let (disk, appended) = filled(6, 10, 50);
    let path = paths(&disk).pop().unwrap();
    let whole = {
        let mut len = 0;
        disk.tamper(&path, |bytes| len = bytes.len());
        len
    };
    let record = 512;
    for keep in (0..32 + appended[5].bytes().len()).step_by(3) {
        let torn = disk.copy();
        torn.tamper(&path, |bytes| {
            bytes.truncate(whole - record + keep);
            bytes.resize(whole, 0xEE);
        });
        let (mut files, found) = open(&torn);
        assert!(found.damage.is_empty(), "{keep}: {:?}", found.damage);
        assert_eq!(read_all(&mut files, &[0]).unwrap(), appended[..5], "{keep}");
        let other = chunk(10, 3, 70);
        files.append(STREAM, &other, true).unwrap();
        files.sync(STREAM).unwrap();
        let (mut files, found) = open(&torn);
        assert_eq!((found.cut_bytes, found.damage.len()), (0, 0), "{keep}");
        let expected = [&appended[..5], &[other]].concat();
        assert_eq!(read_all(&mut files, &[0]).unwrap(), expected, "{keep}");
    }
}

/// Every byte below the durable mark: what it was part of is reported at the start, or when it is
/// read; nothing else than what was appended is ever served, and nothing is cut.
#[test]
fn damage_below_the_mark_is_reported_and_not_served() {
    let (disk, appended) = filled(6, 10, 50);
    let path = paths(&disk).pop().unwrap();
    let record = 32 + appended[0].bytes().len();
    let hits = (0..4_u64).flat_map(|hit| (0..record).step_by(5).map(move |at| (hit, at)));
    for (hit, at) in hits {
        let at = 512 * (hit as usize + 1) + at;
        let damaged = disk.copy();
        damaged.tamper(&path, |bytes| bytes[at] ^= 0x10);
        let (mut files, found) = open(&damaged);
        assert_eq!(found.cut_bytes, 0, "{at}");
        assert_eq!(found.damage.len(), 1, "{at}: {:?}", found.damage);
        let first = format!("offsets {} to {} ", hit * 2, hit * 2 + 1);
        assert!(
            found.damage[0].starts_with(&first),
            "{at}: {}",
            found.damage[0]
        );
        let read = files.read(STREAM, 0, Seek::Offset(hit * 2), u64::MAX, 9);
        assert!(matches!(read, Err(StreamReadError::Damaged { .. })), "{at}");
        for (n, chunk) in appended.iter().enumerate().take(hit as usize) {
            let loaded = files.read(STREAM, 0, Seek::Offset(n as u64 * 2), u64::MAX, 1);
            assert_eq!(
                loaded.unwrap().chunks[..],
                *std::slice::from_ref(chunk),
                "{at}"
            );
        }
        // The stream goes on where it was.
        files.append(STREAM, &chunk(12, 1, 1), true).unwrap();
    }
}

#[test]
fn a_segment_that_was_being_made_is_forgotten_and_a_damaged_or_later_one_is_refused() {
    let (disk, appended) = filled(4, 2, 50);
    let last = paths(&disk).pop().unwrap();
    let made = disk.copy();
    made.tamper(&last, |bytes| bytes.truncate(33));
    // Once it is named, it was durable.
    let named = open_err(&made);
    let newest = path_of(&made, ".newest");
    let OpenError::DamagedSegment {
        damaged,
        named_by: Some(named_by),
    } = &named
    else {
        panic!("{named}");
    };
    assert_eq!((damaged, named_by), (&last, &newest));
    // The operator is told what to do, and the stream goes on once that is done.
    let text = named.to_string();
    let delete = format!("delete it and {} to let", newest.display());
    assert!(
        text.contains("Put the file back") && text.contains(&delete),
        "{text}"
    );
    let mended = made.copy();
    mended.delete(damaged).unwrap();
    mended.delete(named_by).unwrap();
    let (_, found) = open(&mended);
    assert_eq!(found.recovered.segments.len(), 1);
    made.rename(&newest, &paths(&made)[0].with_extension("newest"))
        .unwrap();
    let (mut files, found) = open(&made);
    assert_eq!(found.recovered.segments.len(), 1);
    assert_eq!(read_all(&mut files, &[0]).unwrap(), appended[..2]);
    files.begin_segment(STREAM, 4).unwrap();
    files.append(STREAM, &appended[2], true).unwrap();
    let damaged = disk.copy();
    damaged.tamper(&last, |bytes| bytes[..80].fill(0));
    let mut files = StreamFiles::open(damaged, Path::new(FOLDER), 1).unwrap();
    assert!(matches!(
        files.recover(STREAM),
        Err(OpenError::DamagedSegment { .. })
    ));
}

#[test]
fn a_last_segment_with_a_damaged_head_is_left_out_where_others_have_what_it_held() {
    for (per_segment, left) in [(2, 4), (10, 0)] {
        let (disk, appended) = filled(6, per_segment, 50);
        let last = paths(&disk).pop().unwrap();
        disk.tamper(&last, |bytes| bytes[..80].fill(0));
        let recover = || {
            let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 1).unwrap();
            let found = files.recover_replica(STREAM).unwrap();
            (files, found)
        };
        // Every start finds it, until it is copied again.
        for _ in 0..2 {
            let (_, found) = recover();
            assert_eq!(found.damaged_from, Some(left as u64 * 2));
            assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
            assert_eq!(found.recovered.newest.last(), appended[..left].last());
        }
        let (mut files, _) = recover();
        files.begin_segment(STREAM, left as u64 * 2).unwrap();
        for chunk in &appended[left..] {
            files.append(STREAM, chunk, true).unwrap();
        }
        files.sync(STREAM).unwrap();
        let (mut files, found) = recover();
        assert_eq!((found.damaged_from, found.damage.len()), (None, 0));
        assert_eq!(found.recovered.newest.last(), appended.last());
        files.delete_stream(STREAM).unwrap();
        assert!(paths(&disk).is_empty());
    }
    let left_out = |per_segment| {
        let (disk, _) = filled(6, per_segment, 50);
        let last = paths(&disk).pop().unwrap();
        disk.tamper(&last, |bytes| bytes[..80].fill(0));
        let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 1).unwrap();
        files.recover_replica(STREAM).unwrap();
        (disk, files)
    };
    // Its leader has come further: retention took what it would have begun with.
    let (disk, mut files) = left_out(10);
    files.begin_segment(STREAM, 100).unwrap();
    assert_eq!(paths(&disk).len(), 1, "the file of the other is gone");
    let (disk, mut files) = left_out(2);
    files.delete_stream(STREAM).unwrap();
    assert!(
        paths(&disk).is_empty(),
        "what was left out goes with its stream"
    );
}

/// A drive wrote the head of one segment over that of another: it is sound, and not the file's own.
#[test]
fn a_head_in_the_wrong_place_is_damage_and_no_data_go_for_it() {
    let head_of = |disk: &MemoryDisk, path: &Path| {
        let mut head = Vec::new();
        disk.tamper(path, |bytes| head = bytes[..80].to_vec());
        head
    };
    // Of another segment; of another stream, whose segment has the same name but for that.
    for (per_segment, left) in [(2, 4), (10, 0)] {
        let (disk, appended) = filled(6, per_segment, 50);
        let last = paths(&disk).pop().unwrap();
        let mut others = StreamFiles::open(disk.clone(), Path::new(FOLDER), 5).unwrap();
        others.begin_segment(QueueId(9), 0).unwrap();
        drop(others);
        let of_other = path_of(&disk, "9-00000000000000000000.stream");
        let from = if left == 0 {
            of_other
        } else {
            paths(&disk)[0].clone()
        };
        let (own, wrong) = (head_of(&disk, &last), head_of(&disk, &from));
        disk.tamper(&last, |bytes| bytes[..80].copy_from_slice(&wrong));
        let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 1).unwrap();
        let refused = files.recover(STREAM);
        assert!(
            matches!(refused, Err(OpenError::DamagedSegment { damaged, .. }) if damaged == last)
        );
        let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 1).unwrap();
        let found = files.recover_replica(STREAM).unwrap();
        assert_eq!(found.damaged_from, Some(left as u64 * 2));
        assert_eq!(found.recovered.newest.last(), appended[..left].last());
        // With its own head, all is there.
        disk.tamper(&last, |bytes| bytes[..80].copy_from_slice(&own));
        let (_, found) = open(&disk);
        assert_eq!((found.damage, found.cut_bytes), (Vec::new(), 0));
        assert_eq!(found.recovered.newest.last(), appended.last());
    }
    // One that is not the last is not looked at by a start, but by whoever reads it.
    let (disk, _) = filled(6, 2, 50);
    let all = paths(&disk);
    let wrong = head_of(&disk, &all[2]);
    disk.tamper(&all[1], |bytes| bytes[..80].copy_from_slice(&wrong));
    let (mut files, found) = open(&disk);
    assert_eq!((found.damage.len(), found.damaged_from), (1, Some(4)));
    let read = files.read(STREAM, 4, Seek::Offset(4), u64::MAX, 9);
    assert!(matches!(
        read,
        Err(StreamReadError::Damaged {
            segment: 4,
            position: 0
        })
    ));
}

#[test]
fn a_deleted_stream_leaves_no_file() {
    let (disk, _) = filled(6, 2, 50);
    let (mut files, _) = open(&disk);
    files.delete_segment(STREAM, 0).unwrap();
    assert_eq!(paths(&disk).len(), 2);
    let (mut files, found) = open(&disk);
    assert_eq!(found.recovered.segments[0].first_offset, 4);
    assert_eq!(files.streams().collect::<Vec<_>>(), [STREAM]);
    files.delete_stream(STREAM).unwrap();
    assert!(paths(&disk).is_empty());
    assert_eq!(files.streams().count(), 0);
    // Without a start in between.
    for segments in [1, 3] {
        let disk = MemoryDisk::new();
        let (mut files, _) = open(&disk);
        for segment in 0..segments {
            files.begin_segment(STREAM, segment * 2).unwrap();
            let chunk = chunk(segment * 2, 2, 50);
            files.append(STREAM, &chunk, true).unwrap();
        }
        assert_eq!(paths(&disk).len() as u64, segments);
        files.delete_stream(STREAM).unwrap();
        assert!(paths(&disk).is_empty(), "{segments}");
    }
}

#[test]
fn a_full_disk_refuses_a_chunk_which_may_be_appended_later() {
    let (disk, mut appended) = filled(2, 10, 50);
    let (mut files, _) = open(&disk);
    disk.set_bytes_max(Some(disk.bytes() + 511));
    let next = chunk(4, 2, 50);
    assert!(files.append(STREAM, &next, true).is_err());
    assert!(files.begin_segment(STREAM, 4).is_err());
    disk.set_bytes_max(None);
    files.begin_segment(STREAM, 4).unwrap();
    files.append(STREAM, &next, true).unwrap();
    appended.push(next);
    assert_eq!(read_all(&mut files, &[0, 4]).unwrap(), appended);
}

#[test]
fn a_segment_without_a_chunk_is_begun_again_with_what_the_one_before_knew() {
    let (disk, appended) = filled(3, 10, 100);
    let (mut files, _) = open(&disk);
    files.begin_segment(STREAM, 6).unwrap();
    drop(files);
    let (mut files, found) = open(&disk);
    let first_offsets = found.recovered.segments.iter().map(|s| s.first_offset);
    assert_eq!(first_offsets.collect::<Vec<_>>(), [0]);
    assert_eq!(found.recovered.newest.last(), appended.last());
    files.begin_segment(STREAM, 6).unwrap();
    files.append(STREAM, &chunk(6, 2, 10), true).unwrap();
}

#[test]
fn a_cut_leaves_what_lies_before_it_and_another_chunk_takes_its_place() {
    // Within a segment, at its beginning, and all of the stream.
    for (next_offset, left) in [(14, 7), (10, 5), (8, 4), (20, 10), (0, 0)] {
        let (disk, appended) = filled(10, 5, 3_000);
        let (mut files, _) = open(&disk);
        let found = files.cut_and_recover(STREAM, next_offset).unwrap();
        assert_eq!(found.damage, [""; 0]);
        assert_eq!(found.recovered.newest.last(), appended[..left].last());
        if left == 0 {
            assert!(found.recovered.segments.is_empty());
            files.begin_segment(STREAM, 0).unwrap();
        }
        let other = chunk(next_offset, 1, 9);
        files.append(STREAM, &other, true).unwrap();
        files.sync(STREAM).unwrap();
        let (mut files, found) = open(&disk);
        assert_eq!((found.damage.len(), found.cut_bytes), (0, 0));
        let segments: Vec<u64> = found
            .recovered
            .segments
            .iter()
            .map(|s| s.first_offset)
            .collect();
        let read = read_all(&mut files, &segments).unwrap();
        assert_eq!(
            read,
            [&appended[..left], &[other]].concat(),
            "cut to {next_offset}"
        );
    }
}

#[test]
fn what_a_replica_keeps_is_replaced_and_goes_with_the_stream() {
    let disk = MemoryDisk::new();
    let (mut files, _) = open(&disk);
    assert_eq!(files.replica_state(STREAM).unwrap(), None);
    for promised in [3, 4] {
        let state = leveret_stream::ReplicaState {
            promised: leveret_stream::Epoch(promised),
            ..Default::default()
        };
        files.save_replica_state(STREAM, &state).unwrap();
        let (files, _) = open(&disk);
        assert_eq!(files.replica_state(STREAM).unwrap(), Some(state));
        assert_eq!(files.streams().collect::<Vec<_>>(), [STREAM]);
    }
    files.delete_stream(STREAM).unwrap();
    let left = paths(&disk);
    assert!(
        matches!(&left[..], [reserve] if reserve.ends_with("replica.reserve")),
        "{left:?}"
    );
}

const PAIR: [QueueId; 2] = [QueueId(1), QueueId(2)];

/// Two streams with one chunk each that the journal has.
fn journaled() -> (MemoryDisk, StreamFiles<MemoryDisk>) {
    let disk = MemoryDisk::new();
    let mut files = StreamFiles::open(disk.clone(), Path::new("streams"), 7).unwrap();
    for stream in PAIR {
        files.begin_segment(stream, 0).unwrap();
        files.append(stream, &chunk(0, 1, 100), true).unwrap();
    }
    files.sync_together(&PAIR).unwrap();
    (disk, files)
}

fn newest(files: &mut StreamFiles<MemoryDisk>, stream: QueueId) -> Option<u64> {
    let found = files.recover(stream).unwrap();
    assert_eq!(found.damage, [""; 0]);
    found
        .recovered
        .newest
        .last()
        .map(|chunk| chunk.header().first_offset)
}

#[test]
fn a_start_writes_what_only_the_journal_has_to_its_segment() {
    let (disk, files) = journaled();
    drop(files);
    // What a power cut leaves of a segment that was not synced.
    let segment = path_of(&disk, "1-00000000000000000000.stream");
    disk.tamper(&segment, |bytes| bytes.truncate(512));
    let mut files = StreamFiles::open(disk, Path::new("streams"), 8).unwrap();
    assert_eq!(files.take_journal_damage(), [""; 0]);
    assert_eq!(PAIR.map(|stream| newest(&mut files, stream)), [Some(0); 2]);
}

#[test]
fn a_start_writes_what_only_the_journal_has_on_a_disk_without_a_free_byte() {
    let (disk, mut files) = journaled();
    for offset in 1..30 {
        for stream in PAIR {
            files
                .append(stream, &chunk(offset, 1, 2_000), true)
                .unwrap();
        }
        files.sync_together(&PAIR).unwrap();
    }
    drop(files);
    for segment in [
        "1-00000000000000000000.stream",
        "2-00000000000000000000.stream",
    ] {
        disk.tamper(&path_of(&disk, segment), |bytes| bytes.truncate(512));
    }
    // Others have written to what the power cut has left free.
    disk.set_bytes_max(Some(disk.bytes()));
    let mut files = StreamFiles::open(disk.clone(), Path::new("streams"), 8).unwrap();
    assert_eq!(PAIR.map(|stream| newest(&mut files, stream)), [Some(29); 2]);
    // While there is no room to keep, each stream is synced by itself.
    disk.set_bytes_max(Some(disk.bytes() + 8_192));
    for offset in 30..32 {
        let before = disk.counts().syncs;
        for stream in PAIR {
            files.append(stream, &chunk(offset, 1, 100), true).unwrap();
        }
        files.sync_together(&PAIR).unwrap();
        assert_eq!(disk.counts().syncs - before, 2);
    }
}

/// The blocks of many streams are more than what they have in the journal.
#[test]
fn the_room_that_is_kept_for_the_journal_is_bounded() {
    const JOURNAL_BYTES: u64 = 64 * 1024;
    let disk = MemoryDisk::new();
    let files = StreamFiles::open(disk.clone(), Path::new("streams"), 7).unwrap();
    let mut files = files.with_journal_bytes_max(JOURNAL_BYTES);
    let streams: Vec<QueueId> = (1..=20).map(QueueId).collect();
    for stream in &streams {
        files.begin_segment(*stream, 0).unwrap();
    }
    let mut most = 0;
    for offset in 0..200 {
        for stream in &streams {
            files.append(*stream, &chunk(offset, 1, 100), true).unwrap();
        }
        files.sync_together(&streams).unwrap();
        let reserve = disk.open(&path_of(&disk, "journal.reserve")).unwrap();
        most = most.max(reserve.len().unwrap());
    }
    let bound = 2 * STREAM_JOURNAL_ROOM * JOURNAL_BYTES;
    assert!(most >= bound && most <= bound + (1 << 20), "{most}");
    files.sync_all().unwrap();
    assert!(
        disk.paths()
            .iter()
            .all(|path| !path.ends_with("journal.reserve"))
    );
}

#[test]
fn damage_in_the_journal_is_reported_where_something_was_synced_behind_it() {
    let (disk, mut files) = journaled();
    for offset in 1..3 {
        for stream in PAIR {
            files.append(stream, &chunk(offset, 1, 100), true).unwrap();
        }
        files.sync_together(&PAIR).unwrap();
    }
    drop(files);
    let journal = path_of(&disk, "streams-0.journal");
    let damaged = |flip: usize| {
        let disk = disk.copy();
        disk.tamper(&journal, |bytes| bytes[flip] ^= 1);
        let mut files = StreamFiles::open(disk, Path::new("streams"), 8).unwrap();
        files.take_journal_damage()
    };
    let [damage] = &damaged(1_100)[..] else {
        panic!("the first batch is damaged, and two are behind it");
    };
    assert!(damage.starts_with("bytes 1024 to 1536 of "), "{damage}");
    assert_eq!(
        damaged(2_048 + 100),
        [""; 0],
        "the last one was being written"
    );
    assert_eq!(damaged(20), [""; 0], "one of two copies of the head");
}

#[test]
fn a_journal_of_a_later_version_is_refused() {
    let (disk, files) = journaled();
    drop(files);
    disk.tamper(&path_of(&disk, "streams-0.journal"), |bytes| {
        for copy in [0, 512] {
            bytes[copy + 8] = 2;
            bytes[copy + 12..copy + 16].fill(0);
            let crc = crc32c::crc32c(&bytes[copy..copy + 32]);
            bytes[copy + 12..copy + 16].copy_from_slice(&crc.to_le_bytes());
        }
    });
    let opened = StreamFiles::open(disk, Path::new("streams"), 8);
    assert!(matches!(opened, Err(OpenError::Newer { version: 2, .. })));
}

#[test]
fn a_disk_without_room_for_the_journal_has_each_segment_synced() {
    let disk = MemoryDisk::new();
    let mut files = StreamFiles::open(disk.clone(), Path::new("streams"), 7).unwrap();
    for stream in PAIR {
        files.begin_segment(stream, 0).unwrap();
        files.append(stream, &chunk(0, 1, 100), true).unwrap();
    }
    let before = disk.counts().syncs;
    disk.set_bytes_max(Some(disk.bytes()));
    files.sync_together(&PAIR).unwrap();
    assert_eq!(disk.counts().syncs, before + 2);
}

#[test]
fn an_orderly_end_leaves_no_journal() {
    let (disk, mut files) = journaled();
    files.sync_all().unwrap();
    let is_journal = |path: &PathBuf| path.to_string_lossy().contains("journal");
    assert!(!disk.paths().iter().any(is_journal));
    // What comes after that all the same is in another one, which a start finds.
    let segment = path_of(&disk, "1-00000000000000000000.stream");
    let mut synced = Vec::new();
    disk.tamper(&segment, |bytes| synced = bytes.clone());
    for stream in PAIR {
        files.append(stream, &chunk(1, 1, 100), true).unwrap();
    }
    files.sync_together(&PAIR).unwrap();
    drop(files);
    // A power cut leaves of the segment what was synced in it.
    disk.tamper(&segment, |bytes| *bytes = synced);
    let mut files = StreamFiles::open(disk, Path::new("streams"), 8).unwrap();
    assert_eq!(files.take_journal_damage(), [""; 0]);
    assert_eq!(PAIR.map(|stream| newest(&mut files, stream)), [Some(1); 2]);
}

#[test]
fn a_journal_that_cannot_be_deleted_ends_no_process_in_order() {
    let (disk, mut files) = journaled();
    disk.delete(&path_of(&disk, "streams-0.journal")).unwrap();
    assert!(files.sync_all().is_err());
}

#[test]
fn few_chunks_of_what_was_read_keep_no_more_memory_than_their_own() {
    let (disk, appended) = filled(STREAM_READ_BYTES as u64 / 8_000, u64::MAX, 8_000);
    let (mut files, _) = open(&disk);
    let loaded = files.read(STREAM, 0, Seek::Offset(0), u64::MAX, 2).unwrap();
    assert_eq!(loaded.chunks, appended[..2]);
    for chunk in loaded.chunks {
        let bytes = chunk.bytes().clone();
        drop(chunk);
        let len = bytes.len();
        let capacity = bytes.try_into_mut().map(|bytes| bytes.capacity());
        assert!(capacity.is_ok_and(|capacity| capacity < 2 * len));
    }
}

#[test]
fn a_reader_that_is_behind_gets_several_blocks_at_once_and_no_more_than_it_asks_for() {
    const BYTES: usize = 100_000;
    let (disk, appended) = filled(100, u64::MAX, BYTES / 2);
    let (mut files, _) = open(&disk);
    let read = |files: &mut StreamFiles<MemoryDisk>, from: u64, chunks: u32, bytes: u64| {
        let read = files.begin_read(STREAM, 0, Seek::Offset(from), u64::MAX, chunks);
        let before = disk.counts().read_bytes;
        let loaded = read.unwrap().with_bytes(bytes).run();
        (loaded, disk.counts().read_bytes - before)
    };
    let four = 4 * STREAM_READ_BYTES as u64;
    let (loaded, _) = read(&mut files, 0, u32::MAX, four);
    let count = loaded.unwrap().chunks.len();
    assert!((four as usize / BYTES..60).contains(&count), "{count}");
    for chunks in [1, 10, 11, 30] {
        let (loaded, bytes) = read(&mut files, 0, chunks, four);
        let loaded = loaded.unwrap();
        assert_eq!(loaded.chunks, appended[..chunks as usize]);
        let blocks = (chunks as usize * BYTES).div_ceil(STREAM_READ_BYTES) + 1;
        assert!(
            bytes <= (blocks * STREAM_READ_BYTES) as u64,
            "{chunks}: {bytes}"
        );
        let seek = Seek::Position(loaded.position);
        let next = files.read(STREAM, 0, seek, u64::MAX, 1).unwrap();
        assert_eq!(next.chunks, appended[chunks as usize..][..1]);
    }
    // The end of the segment, and the offset that is not shown, end it as well.
    let (loaded, _) = read(&mut files, 80 * 2, u32::MAX, four);
    assert_eq!(loaded.unwrap().chunks, appended[80..]);
    let bounded = files.begin_read(STREAM, 0, Seek::Offset(0), 30, u32::MAX);
    let loaded = bounded.unwrap().with_bytes(four).run().unwrap();
    assert_eq!(loaded.chunks, appended[..15]);
    // What is sound before damage is served, and the damage is told behind it.
    disk.tamper(&paths(&disk).pop().unwrap(), |bytes| {
        bytes[25 * BYTES] ^= 1;
    });
    let (loaded, _) = read(&mut files, 0, u32::MAX, four);
    let loaded = loaded.unwrap();
    assert!((20..25).contains(&loaded.chunks.len()));
    let seek = Seek::Position(loaded.position);
    let behind = files.read(STREAM, 0, seek, u64::MAX, 1);
    assert!(matches!(behind, Err(StreamReadError::Damaged { .. })));
}
