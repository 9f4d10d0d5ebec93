//! The mark of a stream that was idle, or whose node ended in order: what the disk has changed
//! below it is damage, also at the stream's end.

use crate::common::streams::{chunk, path_of};
use leveret_storage::{MemoryDisk, RecoveredStream, StreamFiles};
use leveret_stream::Seek;
use leveret_types::QueueId;
use std::path::Path;

const STREAM: QueueId = QueueId(7);
/// Each record takes one.
const SECTOR: usize = 512;

fn open(disk: &MemoryDisk, salt: u64) -> StreamFiles<MemoryDisk> {
    StreamFiles::open(disk.clone(), Path::new("streams"), salt).unwrap()
}

/// A segment of synced chunks with one record each.
fn filled(disk: &MemoryDisk, chunks: u64) -> StreamFiles<MemoryDisk> {
    let mut files = open(disk, 1);
    files.recover(STREAM).unwrap();
    files.begin_segment(STREAM, 0).unwrap();
    for offset in 0..chunks {
        append(&mut files, offset);
        files.sync(STREAM).unwrap();
    }
    files
}

fn append(files: &mut StreamFiles<MemoryDisk>, offset: u64) {
    let is_replay_start = offset == 0;
    let chunk = chunk(offset, 1, 10);
    files.append(STREAM, &chunk, is_replay_start).unwrap();
}

/// A changed bit of the last record, its head or its body; zeros; a file that is cut short.
const CHANGES: [fn(&mut Vec<u8>); 4] = [
    |bytes| {
        let last = bytes.len() - SECTOR;
        bytes[last + 5] ^= 1;
    },
    |bytes| {
        let last = bytes.len() - SECTOR;
        bytes[last + 85] ^= 1;
    },
    |bytes| {
        let last = bytes.len() - SECTOR;
        bytes[last..].fill(0);
    },
    |bytes| bytes.truncate(bytes.len() - SECTOR),
];

/// What a start finds once the last record of the only segment is changed.
fn changed(disk: &MemoryDisk, change: fn(&mut Vec<u8>)) -> RecoveredStream {
    assert!(disk.tamper(&path_of(disk, ".stream"), change));
    let mut found = [2, 3].map(|salt| {
        let with_replicas = open(disk, salt).recover_replica(STREAM).unwrap();
        let alone = open(disk, salt).recover(STREAM).unwrap();
        assert_eq!(with_replicas.damaged_from, alone.damaged_from);
        alone
    });
    assert_eq!(found[0].damage, found[1].damage, "however often it starts");
    std::mem::take(&mut found[0])
}

#[test]
fn a_last_chunk_that_the_disk_has_changed_below_the_mark_is_damage() {
    for change in CHANGES {
        let disk = MemoryDisk::new();
        filled(&disk, 4).mark_durable(STREAM).unwrap();
        let found = changed(&disk, change);
        assert_eq!((found.damaged_from, found.cut_bytes), (Some(3), 0));
        assert!(found.damage[0].contains("offsets 3 to 3"));
        assert_eq!(found.recovered.next_offset, 4, "none is given twice");
        assert_eq!(found.recovered.newest.len(), 3);
    }
}

#[test]
fn an_only_chunk_is_damage_as_well() {
    let disk = MemoryDisk::new();
    filled(&disk, 1).mark_durable(STREAM).unwrap();
    let found = changed(&disk, CHANGES[1]);
    assert_eq!(
        (found.damaged_from, found.recovered.next_offset),
        (Some(0), 1)
    );
    assert_eq!(found.recovered.segments.len(), 1);
}

#[test]
fn without_a_mark_it_is_the_torn_end_of_a_write() {
    let disk = MemoryDisk::new();
    drop(filled(&disk, 4));
    let found = changed(&disk, CHANGES[1]);
    assert_eq!((found.damaged_from, found.recovered.next_offset), (None, 3));
}

#[test]
fn an_orderly_end_marks_all_streams() {
    let disk = MemoryDisk::new();
    let mut files = filled(&disk, 3);
    append(&mut files, 3);
    files.sync_all().unwrap();
    let found = changed(&disk, CHANGES[0]);
    assert_eq!(
        (found.damaged_from, found.recovered.next_offset),
        (Some(3), 4)
    );
}

#[test]
fn a_torn_end_behind_the_mark_is_cut_as_before() {
    let disk = MemoryDisk::new();
    let mut files = filled(&disk, 3);
    files.mark_durable(STREAM).unwrap();
    append(&mut files, 3);
    let found = changed(&disk, CHANGES[1]);
    assert_eq!((found.damaged_from, found.cut_bytes), (None, 0));
    assert_eq!(found.recovered.next_offset, 3);
}

#[test]
fn what_is_appended_behind_damage_is_read_back() {
    for change in CHANGES {
        let disk = MemoryDisk::new();
        filled(&disk, 4).mark_durable(STREAM).unwrap();
        changed(&disk, change);
        let mut files = open(&disk, 4);
        files.recover(STREAM).unwrap();
        files.begin_segment(STREAM, 4).unwrap();
        append(&mut files, 4);
        files.sync(STREAM).unwrap();
        let mut files = open(&disk, 5);
        assert_eq!(files.recover(STREAM).unwrap().damaged_from, None);
        let read = files.read(STREAM, 4, Seek::Offset(4), 5, 1).unwrap();
        assert_eq!(read.chunks.len(), 1);
        let damaged = files.read(STREAM, 0, Seek::Offset(3), 5, 1);
        assert!(damaged.map_or(true, |read| read.chunks.is_empty()));
    }
}

#[test]
fn a_replica_that_cuts_below_the_mark_lacks_nothing_afterwards() {
    for cut in 0..4 {
        let disk = MemoryDisk::new();
        let mut files = filled(&disk, 4);
        files.mark_durable(STREAM).unwrap();
        files.cut(STREAM, cut).unwrap();
        for salt in 2..4 {
            let found = open(&disk, salt).recover_replica(STREAM).unwrap();
            assert_eq!((found.damaged_from, found.damage.len()), (None, 0));
            assert_eq!(found.recovered.next_offset, cut);
        }
    }
    let disk = MemoryDisk::new();
    let mut files = filled(&disk, 4);
    files.mark_durable(STREAM).unwrap();
    files.cut(STREAM, 4).unwrap();
    let found = changed(&disk, CHANGES[0]);
    assert_eq!(found.damaged_from, Some(3), "nothing was cut");
}

/// The segment before was synced when the one began that a start lets go, as it is empty.
#[test]
fn what_is_before_an_empty_segment_has_no_torn_end() {
    let disk = MemoryDisk::new();
    filled(&disk, 4).begin_segment(STREAM, 4).unwrap();
    open(&disk, 2).recover(STREAM).unwrap();
    let found = changed(&disk, CHANGES[1]);
    assert_eq!(
        (found.damaged_from, found.recovered.next_offset),
        (Some(3), 4)
    );
}

#[test]
fn a_mark_follows_what_is_synced_and_goes_with_its_stream() {
    let disk = MemoryDisk::new();
    let mut files = filled(&disk, 2);
    let names = || {
        let paths = disk.paths().into_iter();
        let names = paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".newest")).collect();
        names.sort();
        names
    };
    let (stream, zero) = ("0000000000000007", "00000000000000000000");
    assert_eq!(names(), [format!("{stream}-{zero}.newest")]);
    append(&mut files, 2);
    files.mark_durable(STREAM).unwrap();
    let marked = |durable: u64| [format!("{stream}-{zero}-{durable:020}.newest")];
    assert_eq!(names(), marked(2), "what is not synced is not marked");
    files.sync(STREAM).unwrap();
    files.mark_durable(STREAM).unwrap();
    assert_eq!(names(), marked(3));
    files.begin_segment(STREAM, 3).unwrap();
    files.mark_durable(STREAM).unwrap();
    assert_eq!(names(), [format!("{stream}-{:020}.newest", 3)]);
    files.delete_stream(STREAM).unwrap();
    assert!(names().is_empty());
}
