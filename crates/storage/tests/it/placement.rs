//! Which folder the segments of a log are in, so that drives can be sized for what they hold.

use crate::common;
use crate::common::{A, B, World, append_all, check_all};
use leveret_storage::{Folders, LogKind, MemoryDisk, Read, Store};
use std::path::{Path, PathBuf};

const BYTES: usize = 10_000;

/// Segment files in the folder of the data and in the one for what is placed apart.
fn placed(world: &World) -> (usize, usize) {
    let within = |folder: &PathBuf| {
        let files = world.files(".seg");
        files.iter().filter(|path| path.starts_with(folder)).count()
    };
    (within(&world.folders.data), within(&world.folders.segment))
}

/// Two logs, the second one placed apart if the first one is so or not.
fn fill(world: &World, is_first_apart: bool) -> Store<MemoryDisk> {
    let (mut store, _) = world.open();
    for log in [A, B] {
        store.shards[0].create_log(log, LogKind::Durable);
        append_all(&mut store, log, 20, BYTES);
    }
    if is_first_apart {
        store.shards[0].place_apart(A);
    }
    assert!(!store.shards[0].is_apart(B));
    store.shards[0].place_apart(B);
    assert!(store.shards[0].is_apart(B));
    move_all(&mut store);
    store
}

fn move_all(store: &mut Store<MemoryDisk>) {
    store.sync().unwrap();
    store.roll();
    store.flush().unwrap();
}

fn version_of_checkpoint(world: &World) -> u8 {
    let mut version = 0;
    let path = world.only_file(".checkpoint");
    world.disk.tamper(&path, |bytes| version = bytes[8]);
    version
}

#[test]
fn segments_lie_in_the_folder_of_their_log() {
    let world = World::new();
    let mut store = fill(&world, false);
    assert_eq!(placed(&world), (1, 1));
    check_all(&mut store, A, 0..20, BYTES);
    check_all(&mut store, B, 0..20, BYTES);
    // What only one folder holds goes from that one alone.
    store.shards[0].settle(A, 0..20, 20 * BYTES as u64);
    store.checkpoint().unwrap();
    assert_eq!(placed(&world), (0, 1));
    drop(store);
    let (mut store, _) = world.open();
    assert_eq!(store.read(A, 0), Read::Gone);
    check_all(&mut store, B, 0..20, BYTES);
}

#[test]
fn a_body_that_logs_of_both_folders_have_is_in_both_once() {
    let world = World::new();
    let (mut store, _) = world.open();
    let logs: Vec<_> = (1..=4).map(leveret_types::LogId).collect();
    for log in &logs {
        store.shards[0].create_log(*log, LogKind::Durable);
    }
    for log in &logs[2..] {
        store.shards[0].place_apart(*log);
    }
    let bytes = common::payload(7, BYTES);
    let body = store.shards[0].body(leveret_storage::Durability::Durable, &[&bytes]);
    for log in &logs {
        store.shards[0].append(*log, body, BYTES as u32);
    }
    move_all(&mut store);
    assert_eq!(placed(&world), (1, 1));
    for file in world.files(".seg") {
        let mut len = 0;
        world.disk.tamper(&file, |bytes| len = bytes.len());
        assert!(len < 2 * BYTES, "{}: {len} bytes", file.display());
    }
    drop(store);
    let (mut store, _) = world.open();
    for log in logs {
        assert_eq!(store.read(log, 0), Read::Ready(bytes.clone().into()));
    }
}

#[test]
fn a_store_that_has_all_in_one_place_opens_and_moves_over() {
    let world = World::new();
    // As earlier versions of Leveret have written it.
    drop(fill(&world, true));
    assert_eq!(placed(&world), (0, 1));
    assert_eq!(version_of_checkpoint(&world), 1);
    let (mut store, report) = world.open();
    assert_eq!(report.notes, Vec::<String>::new());
    check_all(&mut store, A, 0..20, BYTES);
    check_all(&mut store, B, 0..20, BYTES);
    store.shards[0].place_apart(B);
    append_all(&mut store, A, 1, BYTES);
    move_all(&mut store);
    assert_eq!(placed(&world), (1, 1));
    // What lived in the old place goes to its own when that is merged.
    store.shards[0].settle(A, 0..15, 15 * BYTES as u64);
    store.shards[0].settle(B, 0..15, 15 * BYTES as u64);
    assert!(store.compact().unwrap(), "most of the old file is dead");
    assert_eq!(placed(&world), (2, 1));
    drop(store);
    let (mut store, _) = world.open();
    check_all(&mut store, A, 15..20, BYTES);
    check_all(&mut store, B, 15..20, BYTES);
}

#[test]
fn an_earlier_version_of_leveret_refuses_segments_where_it_does_not_look() {
    let world = World::new();
    let mut store = fill(&world, false);
    assert_eq!(version_of_checkpoint(&world), 3);
    store.shards[0].settle(A, 0..20, 20 * BYTES as u64);
    store.checkpoint().unwrap();
    assert_eq!(version_of_checkpoint(&world), 1, "it has none any more");
    // A start finds out by itself.
    append_all(&mut store, A, 1, BYTES);
    move_all(&mut store);
    drop(store);
    let (mut store, _) = world.open();
    store.checkpoint().unwrap();
    assert_eq!(version_of_checkpoint(&world), 3);
}

#[test]
fn both_folders_may_be_one() {
    let mut world = World::new();
    let one = Path::new("/one");
    world.folders = Folders {
        data: one.to_owned(),
        segment: one.to_owned(),
        ..world.folders
    };
    let mut store = fill(&world, false);
    assert_eq!(version_of_checkpoint(&world), 1);
    check_all(&mut store, A, 0..20, BYTES);
    drop(store);
    let (mut store, report) = world.open();
    assert_eq!((report.segment_files, report.deleted_files), (2, 0));
    check_all(&mut store, A, 0..20, BYTES);
    check_all(&mut store, B, 0..20, BYTES);
}

#[test]
fn what_was_begun_and_is_in_no_checkpoint_goes_from_both_folders() {
    use leveret_storage::Disk;
    let world = World::new();
    drop(fill(&world, false));
    for folder in [&world.folders.data, &world.folders.segment] {
        let path = folder.join("00000000000000ff.seg");
        world.disk.create_new(&path).unwrap();
    }
    let (_, report) = world.open();
    assert_eq!(report.deleted_files, 2);
    assert_eq!(placed(&world), (1, 1));
}
