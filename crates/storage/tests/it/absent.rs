//! Stores of which a part is missing: they are refused, and nothing of what is there is changed.

use crate::common::{A, World, append_all, check_all, flush_all};
use leveret_storage::rebuild::rebuild;
use leveret_storage::{Disk, Folders, OpenError, Store, recover};
use std::path::{Path, PathBuf};

const BYTES: usize = 3_000;

/// All files with their bytes, without those that keep other processes out.
fn all(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let bytes_of = |path: PathBuf| {
        let mut copy = Vec::new();
        world.disk.tamper(&path, |bytes| copy.clone_from(bytes));
        (path, copy)
    };
    world.files("").into_iter().map(bytes_of).collect()
}

fn refused(world: &World) -> OpenError {
    let before = all(world);
    let opened = Store::open(&world.disk, &world.folders, &world.options);
    let error = opened.err().expect("it is refused");
    assert!(all(world) == before, "nothing is changed: {error}");
    error
}

fn without(world: &World, is_missing: impl Fn(&Path) -> bool) -> World {
    world.on_copy(|disk| {
        for path in disk.paths().iter().filter(|path| is_missing(path)) {
            disk.delete(path).unwrap();
        }
    })
}

#[test]
fn folders_with_anything_of_a_store_get_no_identity_where_that_is_missing() {
    let mut world = World::new();
    let (mut store, _) = world.open();
    store.prepare(2).unwrap();
    append_all(&mut store, A, 20, BYTES);
    store.close().unwrap();
    // One that went on under another number would take this store's prepared files.
    world.options.uuid = *b"of another store";
    let in_data = |path: &Path| path.starts_with("/store/data");
    let error = refused(&without(&world, in_data));
    assert!(matches!(error, OpenError::NoIdentity { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("/store/data") && text.contains("mounted"),
        "{text}"
    );
    // Of the rest, one thing alone is enough.
    let stream = "/store/segment/stream/0000000000000001-00000000000000000000.stream";
    for left in [
        stream,
        "/store/wal/0000000000000001.free",
        "/store/wal/log.reserve",
    ] {
        let lone = World::new();
        lone.disk.create_new(Path::new(left)).unwrap();
        let error = refused(&lone);
        assert!(error.to_string().contains(left), "{error}");
    }
    let (mut store, _) = world.open();
    check_all(&mut store, A, 0..20, BYTES);
}

#[test]
fn a_first_start_that_ended_among_the_marks_of_its_folders_is_completed() {
    let mut world = World::new();
    drop(world.open());
    world.options.uuid = *b"a later attempt!";
    let missing = |folders: &[&str]| {
        let paths: Vec<PathBuf> = folders
            .iter()
            .map(|folder| Path::new("/store").join(folder).join("leveret.store"))
            .collect();
        without(&world, |path| paths.iter().any(|missing| missing == path))
    };
    let uuid = |world: &World| {
        recover(&world.disk, &world.folders, &world.options)
            .unwrap()
            .uuid
    };
    // In the order in which they are marked.
    assert_eq!(uuid(&missing(&["data"])), *b"an uuid for test");
    assert_eq!(uuid(&missing(&["data", "segment"])), *b"an uuid for test");
    assert_eq!(
        uuid(&missing(&["data", "segment", "wal"])),
        *b"a later attempt!"
    );
    // And not: what is marked was once a part of a whole.
    let error = refused(&missing(&["data", "wal"]));
    assert!(matches!(error, OpenError::NoIdentity { .. }), "{error}");
    let error = refused(&missing(&["wal"]));
    assert!(matches!(error, OpenError::ForeignFolder { .. }), "{error}");
}

/// Drives of two nodes that were set up and never used, mounted at one: the next start would be
/// either node.
#[test]
fn folders_that_first_starts_of_two_stores_have_marked_are_no_store() {
    let at = |data: &str, segment: &str, wal: &str| Folders {
        data: Path::new("/data").join(data),
        segment: Path::new("/segment").join(segment),
        wal: Path::new("/wal").join(wal),
        logs: "/logs".into(),
    };
    let mut world = World::new();
    for (name, uuid) in [("one", *b"of the first one"), ("two", *b"of the other one")] {
        world.options.uuid = uuid;
        world.folders = at(name, name, name);
        drop(world.open());
    }
    world.options.uuid = *b"neither of these";
    world.folders = at("three", "two", "one");
    let error = refused(&world);
    assert!(matches!(error, OpenError::NoIdentity { .. }), "{error}");
    // Both of one store, of which that of the identity is made anew.
    world.folders = at("three", "one", "one");
    let found = recover(&world.disk, &world.folders, &world.options).unwrap();
    assert_eq!(found.uuid, *b"of the first one");
}

/// A store that was killed: with entries in its log, in the files of these numbers.
fn killed(world: &World, checkpointed: bool, files: u64) {
    let (mut store, _) = world.open();
    append_all(&mut store, A, 5, BYTES);
    store.sync().unwrap();
    if checkpointed {
        flush_all(&mut store);
        store.checkpoint().unwrap();
    }
    for _ in 0..files {
        store.roll();
        append_all(&mut store, A, 5, BYTES);
        store.sync().unwrap();
        store.mark_idle().unwrap();
    }
}

#[test]
fn the_newest_file_of_the_log_is_missed_and_named() {
    for (checkpointed, files) in [(false, 0), (false, 2), (true, 1), (true, 2)] {
        let world = World::new();
        killed(&world, checkpointed, files);
        let logs = world.files(".wal");
        let newest = logs.last().expect("a file").clone();
        let error = refused(&without(&world, |path| *path == *newest));
        assert!(matches!(error, OpenError::NoLog { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&newest.display().to_string()), "{text}");
        assert!(text.contains("storage rebuild"), "{text}");
        let error = refused(&without(&world, |path| logs.iter().any(|log| log == path)));
        assert!(matches!(error, OpenError::NoLog { .. }), "{error}");
        // The rest can be had.
        let short = without(&world, |path| *path == *newest);
        let into = Folders::within(Path::new("/rebuilt"));
        rebuild(&short.disk, &short.folders, &into, [9; 16], &|_| 0).unwrap();
        // And with it in its place, all is there.
        let entries = 5 * (1 + files);
        for _ in 0..3 {
            let (mut store, report) = world.open();
            assert_eq!(report.notes, [""; 0]);
            assert_eq!(store.shards[0].log_stats(A).unwrap().entries, entries);
            store.sync().unwrap();
        }
    }
}

#[test]
fn a_log_that_is_no_longer_needed_or_names_no_newest_file_is_not_missed() {
    let world = World::new();
    killed(&world, true, 1);
    let of_earlier_version = without(&world, |path| {
        path.extension().is_some_and(|e| e == "newest")
    });
    let (store, _) = of_earlier_version.open();
    assert_eq!(store.shards[0].log_stats(A).unwrap().entries, 10);
    let (store, _) = world.open();
    store.close().unwrap();
    assert!(world.files(".wal").is_empty());
    let (store, report) = world.open();
    assert!(report.clean);
    assert_eq!(store.shards[0].log_stats(A).unwrap().entries, 10);
}

#[test]
fn a_newest_file_that_is_named_no_more_is_named_again_with_the_next_one() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..3 {
        append_all(&mut store, A, 1, BYTES);
        store.sync().unwrap();
        let newest = world.files(".wal").pop().expect("a file");
        let named = world.only_file(".newest");
        assert_eq!(named.file_stem(), newest.file_stem());
        if n == 0 {
            world.disk.delete(&named).unwrap();
        }
        store.roll();
    }
}
