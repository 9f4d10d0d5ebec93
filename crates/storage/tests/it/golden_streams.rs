//! Freezes the files of streams, and the one that says which start was the last: what this version
//! writes is byte for byte what `golden/stream` holds, and what that holds is read; what a later
//! version wrote is refused by name. One replica's state is that of a sound log, of version 1; the
//! other one's tells of damage, of version 2.
//!
//! A change here is a change of format: it needs a new version number, a new folder, and code that
//! reads the old one. `LEVERET_GOLDEN=write cargo test -p leveret-storage --test it
//! golden_streams::` writes the folder anew.

use leveret_storage::{Disk, DiskFile, MemoryDisk, OpenError, StreamFiles};
use leveret_stream::replica::EpochStart;
use leveret_stream::{ChunkHeader, ChunkKind, Epoch, ReplicaState, Seek, SharedChunk};
use leveret_types::QueueId;
use std::io::IoSlice;
use std::path::{Path, PathBuf};

const STREAM: QueueId = QueueId(7);
const DAMAGED: QueueId = QueueId(8);
const FOLDER: &str = "streams";
/// Where the same start is noted.
const DATA: &str = "data";
/// Bytes of each of the two copies of a segment file's head.
const HEAD_COPY_BYTES: usize = 40;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/stream")
}

fn chunk(first_offset: u64) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: 2,
        records: 2,
        timestamp_ms: 1_700_000_000_000 + first_offset as i64,
        epoch: 3,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let entry = [&5_u32.to_be_bytes()[..], b"entry"].concat();
    SharedChunk::new(header, &[], &entry.repeat(2), b"trailer")
}

fn state() -> ReplicaState {
    ReplicaState {
        promised: Epoch(4),
        log_epoch: Epoch(3),
        is_whole: true,
        forgot: false,
        cut: None,
        damaged: None,
        fenced: None,
        epochs: vec![EpochStart {
            epoch: Epoch(3),
            first_offset: 0,
        }],
    }
}

/// One in which all is said that can be.
fn state_of_damaged() -> ReplicaState {
    ReplicaState {
        forgot: true,
        is_whole: false,
        cut: Some(40),
        damaged: Some(30),
        epochs: [(2, 0), (3, 20)]
            .map(|(epoch, first_offset)| EpochStart {
                epoch: Epoch(epoch),
                first_offset,
            })
            .to_vec(),
        ..state()
    }
}

/// Two segments of a replica, as they lie on its disk.
fn scene() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 42).unwrap();
    assert!(files.note_start(Path::new(DATA)).unwrap());
    files.recover(STREAM).unwrap();
    for first_offset in [0, 2, 4] {
        if first_offset != 2 {
            files.begin_segment(STREAM, first_offset).unwrap();
        }
        files.append(STREAM, &chunk(first_offset), true).unwrap();
        files.sync(STREAM).unwrap();
    }
    files.save_replica_state(STREAM, &state()).unwrap();
    files.recover(DAMAGED).unwrap();
    files
        .save_replica_state(DAMAGED, &state_of_damaged())
        .unwrap();
    disk
}

/// All files but the one that is there for its room alone.
fn files_of(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let read = |path: PathBuf| {
        let mut bytes = Vec::new();
        disk.tamper(&path, |b| bytes.clone_from(b));
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, bytes)
    };
    let files = disk.paths().into_iter().map(read);
    files
        .filter(|(name, _)| name != "replica.reserve")
        .collect()
}

/// What the golden folder holds, changed by `change`, which is given each file's name.
fn put_on_disk(change: impl Fn(&str, &mut Vec<u8>)) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_dir_all(Path::new(FOLDER)).unwrap();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        change(name, &mut bytes);
        for folder in [FOLDER, DATA] {
            let file = disk.create_new(&Path::new(folder).join(name)).unwrap();
            file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
        }
    }
    disk
}

#[test]
fn what_is_written_is_what_the_golden_files_hold() {
    let files = files_of(&scene());
    // Two segments and the name of the newer one, two replicas' states, and a start twice.
    assert_eq!(files.len(), 7);
    let versions = files.iter().filter(|(name, _)| name.ends_with(".replica"));
    let versions = versions.map(|(_, bytes)| bytes[8..10].to_vec());
    assert_eq!(versions.collect::<Vec<_>>(), [[0, 1], [0, 2]]);
    if std::env::var_os("LEVERET_GOLDEN").is_some() {
        std::fs::create_dir_all(golden()).unwrap();
        for (name, bytes) in &files {
            std::fs::write(golden().join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in files {
        let frozen = std::fs::read(golden().join(&name)).unwrap();
        assert!(bytes == frozen, "the format of {name} has changed");
    }
}

#[test]
fn what_the_golden_files_hold_is_read() {
    let disk = put_on_disk(|_, _| {});
    let mut files = StreamFiles::open(disk.clone(), Path::new(FOLDER), 42).unwrap();
    files.recover(STREAM).unwrap();
    for (segment, expected) in [(0, vec![chunk(0), chunk(2)]), (4, vec![chunk(4)])] {
        let (offset, end) = (Seek::Offset(segment), u64::MAX);
        let read = files.read(STREAM, segment, offset, end, u32::MAX).unwrap();
        let bytes = |chunks: &[SharedChunk]| -> Vec<_> {
            chunks.iter().map(|chunk| chunk.bytes().clone()).collect()
        };
        assert_eq!(bytes(&read.chunks), bytes(&expected));
    }
    assert_eq!(files.replica_state(STREAM).unwrap(), Some(state()));
    let damaged = files.replica_state(DAMAGED).unwrap();
    assert_eq!(damaged, Some(state_of_damaged()));
    // It is that of both folders, and of no other start than the one of salt 42.
    assert!(files.note_start(Path::new(DATA)).unwrap());
    let note = |folder: &str| Path::new(folder).join("streams.start");
    disk.delete(&note(FOLDER)).unwrap();
    assert!(!files.note_start(Path::new(DATA)).unwrap());
    // The newest segment is missed by its name.
    let mut segments = disk.paths();
    segments
        .retain(|path| path.starts_with(FOLDER) && path.to_string_lossy().ends_with("4.stream"));
    disk.delete(&segments[0]).unwrap();
    let mut files = StreamFiles::open(disk, Path::new(FOLDER), 42).unwrap();
    let missing = files.recover(STREAM);
    assert!(matches!(missing, Err(OpenError::NoSegment { .. })));
}

#[test]
fn a_segment_of_a_later_version_is_refused_by_name() {
    let first = "-00000000000000000000";
    let disk = put_on_disk(|name, bytes| {
        if !name.contains(first) {
            return;
        }
        for copy in bytes[..2 * HEAD_COPY_BYTES].chunks_exact_mut(HEAD_COPY_BYTES) {
            copy[8..10].copy_from_slice(&99_u16.to_le_bytes());
            copy[12..16].fill(0);
            let crc = crc32c::crc32c(copy);
            copy[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    });
    let mut files = StreamFiles::open(disk, Path::new(FOLDER), 42).unwrap();
    let refused = files.recover(STREAM).unwrap_err();
    let OpenError::Newer { path, version } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*version, 99);
    assert!(path.to_string_lossy().contains(first), "{refused}");
}

#[test]
fn the_state_of_a_replica_of_a_later_version_is_refused_by_name() {
    let disk = put_on_disk(|_, bytes| {
        if !bytes.starts_with(b"LVRTREPL") {
            return;
        }
        bytes[8..10].copy_from_slice(&99_u16.to_be_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&bytes[8..12]);
        crc.update(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.finalize().to_be_bytes());
    });
    let files = StreamFiles::open(disk, Path::new(FOLDER), 42).unwrap();
    let refused = files.replica_state(STREAM).unwrap_err();
    let is_named = matches!(&refused, OpenError::Newer { version: 99, .. });
    assert!(
        is_named && refused.to_string().contains(FOLDER),
        "{refused}"
    );
}
