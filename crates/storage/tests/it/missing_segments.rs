//! A stream whose newest segments are not there, and folders of streams that are older copies of
//! themselves: nothing is taken for all there was on the word of what is absent.

use crate::common::streams::{chunk, path_of};
use leveret_storage::{Disk, MemoryDisk, OpenError, StreamFiles};
use leveret_stream::ReplicaState;
use leveret_types::QueueId;
use std::path::{Path, PathBuf};

const STREAM: QueueId = QueueId(7);
const STREAMS: &str = "streams";
const DATA: &str = "data";

fn open(disk: &MemoryDisk, salt: u64) -> StreamFiles<MemoryDisk> {
    StreamFiles::open(disk.clone(), Path::new(STREAMS), salt).unwrap()
}

/// Segments of one chunk each, with one record each.
fn filled(segments: u64) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut files = open(&disk, 1);
    files.recover(STREAM).unwrap();
    for offset in 0..segments {
        files.begin_segment(STREAM, offset).unwrap();
        files.append(STREAM, &chunk(offset, 1, 10), true).unwrap();
        files.sync(STREAM).unwrap();
    }
    disk
}

fn with_ending(disk: &MemoryDisk, ending: &str) -> Vec<PathBuf> {
    let paths = disk.paths().into_iter();
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension() == Some(ending.as_ref()))
        .collect();
    paths.sort();
    paths
}

/// Deletes all segments from this one on.
fn lose(disk: &MemoryDisk, from: usize) {
    for path in &with_ending(disk, "stream")[from..] {
        disk.delete(path).unwrap();
    }
}

#[test]
fn a_stream_of_one_node_without_its_newest_segment_is_not_begun_anew() {
    for left in 0..4 {
        let disk = filled(4);
        lose(&disk, left);
        let mut files = open(&disk, 2);
        assert!(files.streams().any(|stream| stream == STREAM));
        let Err(OpenError::NoSegment { missing, named_by }) = files.recover(STREAM) else {
            panic!("{left} of 4 segments were all there was");
        };
        assert!(missing.ends_with("0000000000000007-00000000000000000003.stream"));
        assert_eq!(with_ending(&disk, "stream").len(), left, "nothing is made");
        // An operator lets it go on with what is left.
        disk.delete(&named_by).unwrap();
        let found = open(&disk, 3).recover(STREAM).unwrap();
        assert_eq!(found.recovered.segments.len(), left);
    }
    let found = open(&filled(4), 2).recover(STREAM).unwrap();
    assert_eq!(
        (found.recovered.segments.len(), found.damaged_from),
        (4, None)
    );
}

#[test]
fn a_replica_without_its_newest_segments_is_damaged_behind_what_is_left() {
    for left in 0..4 {
        let disk = filled(4);
        lose(&disk, left);
        for salt in 2..4 {
            let mut files = open(&disk, salt);
            let found = files.recover_replica(STREAM).unwrap();
            assert_eq!(found.damaged_from, Some(left as u64));
            assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
            assert!(found.damage[0].contains("00003.stream is missing"));
        }
        // Once it has all that others have, an end before the missing one is its end.
        let mut files = open(&disk, 4);
        files.recover_replica(STREAM).unwrap();
        files.miss_nothing(STREAM).unwrap();
        let found = open(&disk, 5).recover_replica(STREAM).unwrap();
        assert_eq!((found.damaged_from, found.damage.len()), (None, 0));
    }
}

#[test]
fn what_a_replica_cuts_or_begins_again_is_not_missed() {
    let disk = filled(4);
    let mut files = open(&disk, 2);
    files.recover_replica(STREAM).unwrap();
    for cut in [3, 2, 0] {
        let found = files.cut_and_recover(STREAM, cut).unwrap();
        assert_eq!((found.damaged_from, found.damage.len()), (None, 0));
        let found = open(&disk, 3).recover_replica(STREAM).unwrap();
        assert_eq!((found.damaged_from, found.damage.len()), (None, 0));
    }
    // It copies again, in other segments.
    let disk = filled(4);
    lose(&disk, 2);
    let mut files = open(&disk, 2);
    files.recover_replica(STREAM).unwrap();
    files.begin_segment(STREAM, 2).unwrap();
    files.append(STREAM, &chunk(2, 1, 10), true).unwrap();
    files.sync(STREAM).unwrap();
    let found = open(&disk, 3).recover_replica(STREAM).unwrap();
    assert_eq!((found.damaged_from, found.damage.len()), (None, 0));
}

/// Whoever goes on with the segment before begins it again.
#[test]
fn an_empty_newest_segment_that_a_start_lets_go_is_not_missed() {
    let disk = filled(2);
    let mut files = open(&disk, 2);
    files.recover(STREAM).unwrap();
    files.begin_segment(STREAM, 2).unwrap();
    for salt in 3..5 {
        let found = open(&disk, salt).recover(STREAM).unwrap();
        assert_eq!(found.recovered.segments.len(), 2);
    }
}

#[test]
fn a_stream_of_an_earlier_version_opens_as_before_and_is_noted() {
    let disk = filled(3);
    disk.delete(&path_of(&disk, ".newest")).unwrap();
    let found = open(&disk, 2).recover(STREAM).unwrap();
    assert_eq!(found.recovered.segments.len(), 3);
    lose(&disk, 2);
    let recovered = open(&disk, 3).recover(STREAM);
    assert!(matches!(recovered, Err(OpenError::NoSegment { .. })));
}

#[test]
fn a_stream_that_is_deleted_leaves_no_note() {
    let disk = filled(3);
    open(&disk, 2).delete_stream(STREAM).unwrap();
    assert_eq!(with_ending(&disk, "newest"), [""; 0].map(PathBuf::from));
}

/// A node's start; whether it found its folders to be of the same one before.
fn start(disk: &MemoryDisk, salt: u64) -> bool {
    open(disk, salt).note_start(Path::new(DATA)).unwrap()
}

fn noted(disk: &MemoryDisk, folder: &str) -> Vec<u8> {
    let mut noted = Vec::new();
    disk.tamper(&Path::new(folder).join("streams.start"), |bytes| {
        noted = bytes.clone();
    });
    noted
}

fn put_back(disk: &MemoryDisk, folder: &str, old: &[u8]) {
    let path = Path::new(folder).join("streams.start");
    assert!(disk.tamper(&path, |bytes| *bytes = old.to_vec()));
}

fn replica_state(disk: &MemoryDisk) -> ReplicaState {
    open(disk, 99).replica_state(STREAM).unwrap().unwrap()
}

#[test]
fn replicas_of_an_older_copy_of_the_streams_folder_have_forgotten_what_they_promised() {
    for folder in [STREAMS, DATA] {
        let disk = filled(3);
        let state = ReplicaState {
            is_whole: true,
            ..ReplicaState::default()
        };
        open(&disk, 2).save_replica_state(STREAM, &state).unwrap();
        assert!(start(&disk, 3) && start(&disk, 4), "{folder}");
        let old = noted(&disk, folder);
        assert!(start(&disk, 5));
        assert_eq!(replica_state(&disk), state);
        put_back(&disk, folder, &old);
        assert!(!start(&disk, 6), "{folder}");
        let doubted = replica_state(&disk);
        assert!(doubted.forgot && !doubted.is_whole);
        assert!(start(&disk, 7), "it is said once");
        assert_eq!(replica_state(&disk), doubted, "until it has all again");
    }
}

#[test]
fn a_start_whose_note_is_missing_or_damaged_in_one_folder_is_another_one() {
    for folder in [STREAMS, DATA] {
        let disk = MemoryDisk::new();
        assert!(start(&disk, 1) && start(&disk, 2));
        let damaged = disk.copy();
        let mut bytes = noted(&disk, folder);
        bytes[20] ^= 1;
        put_back(&damaged, folder, &bytes);
        assert!(!start(&damaged, 3), "{folder}");
        let path = Path::new(folder).join("streams.start");
        disk.delete(&path).unwrap();
        assert!(!start(&disk, 3), "{folder}");
        let mut later = noted(&disk, folder);
        later[8] = 2;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&later[8..12]), &later[16..]);
        later[12..16].copy_from_slice(&crc.to_le_bytes());
        put_back(&disk, folder, &later);
        let noted = open(&disk, 4).note_start(Path::new(DATA));
        assert!(matches!(noted, Err(OpenError::Newer { version: 2, .. })));
    }
}

/// The note is made in steps: a crash between any two of them is no older copy.
#[test]
fn a_start_that_ends_while_it_is_noted_is_no_older_copy() {
    let disk = MemoryDisk::new();
    let mut before = [Vec::new(), Vec::new()];
    for salt in 1..4 {
        let streams_before = before[1].clone();
        assert!(start(&disk, salt));
        let settled = [noted(&disk, DATA), noted(&disk, STREAMS)];
        if salt > 1 {
            // The data's is written first, with the start that the streams' may still have.
            let crashed = disk.copy();
            let mut first = settled[0].clone();
            first[24..32].copy_from_slice(&(salt - 1).to_le_bytes());
            let crc = crc32c::crc32c_append(crc32c::crc32c(&first[8..12]), &first[16..]);
            first[12..16].copy_from_slice(&crc.to_le_bytes());
            for streams in [&streams_before, &settled[1]] {
                put_back(&crashed, DATA, &first);
                put_back(&crashed, STREAMS, streams);
                assert!(start(&crashed, 50 + salt));
            }
        }
        before = settled;
    }
}

#[test]
fn a_start_on_a_full_disk_is_not_noted_and_begins_all_the_same() {
    let disk = MemoryDisk::new();
    assert!(start(&disk, 1));
    let full = disk.copy();
    full.set_bytes_max(Some(full.bytes()));
    assert!(start(&full, 2) && start(&full, 3));
    full.set_bytes_max(None);
    assert!(start(&full, 4));
}
