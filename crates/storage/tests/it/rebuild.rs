//! A checkpoint of which both copies are damaged: what is mended in its place, and what is put
//! together again elsewhere.

use crate::common;
use crate::common::{A, B, World, append, append_all, check_all, payload};
use leveret_storage::rebuild::{Rebuilt, rebuild};
use leveret_storage::{
    Disk, DiskFile, Durability, Folders, LogKind, MemoryDisk, OpenError, Read, Store, inspect,
};
use leveret_types::LogId;
use leveret_types::limits::WAL_FILE_BYTES;
use std::io::IoSlice;
use std::path::Path;

const C: LogId = LogId(3);
const BYTES: usize = 3_000;

/// Three logs in segments with some entries settled; further entries and settles in the write-ahead
/// log alone.
fn scene() -> World {
    let world = World::new();
    let (mut store, _) = world.open();
    for log in [A, B, C] {
        append_all(&mut store, log, 60, BYTES);
    }
    store.shards[0].set_state(A, b"state of A");
    store.shards[0].set_term_and_vote(A, 5, 2);
    common::flush_all(&mut store);
    for log in [A, B] {
        store.shards[0].settle(log, 0..10, 10 * BYTES as u64);
    }
    store.checkpoint().unwrap();
    common::flush_all(&mut store);
    for n in 60..70 {
        append(&mut store, B, &payload(n, BYTES));
    }
    store.shards[0].settle(C, 5..7, 2 * BYTES as u64);
    store.sync().unwrap();
    store.mark_idle().unwrap();
    world
}

/// Damages both copies of the checkpoint where `at` says, as offsets in a copy of this many bytes.
fn spoil(world: &World, at: impl FnOnce(usize, &[u8]) -> [usize; 2]) {
    let path = world.only_file(".checkpoint");
    world.disk.tamper(&path, |bytes| {
        let half = bytes.len() / 2;
        let [first, second] = at(half, &bytes[..half]);
        bytes[first] ^= 0x40;
        bytes[half + second] ^= 0x41;
    });
    let opened = Store::open(&world.disk, &world.folders, &world.options);
    assert!(matches!(opened.err(), Some(OpenError::Damaged { .. })));
}

/// Where a log's part of the checkpoint begins.
fn place_of(copy: &[u8], log: LogId) -> usize {
    let id = log.0.to_le_bytes();
    let found = copy.windows(8).rposition(|window| window == id);
    found.expect("the log's number is there")
}

fn rebuilt(world: &World) -> (Rebuilt, World) {
    let into = Folders::within(Path::new("/rebuilt"));
    let before: Vec<_> = world.disk.paths();
    let report = rebuild(&world.disk, &world.folders, &into, [9; 16], &|_| 0).unwrap();
    let left = |path: &&std::path::PathBuf| !path.starts_with("/rebuilt");
    let after: Vec<_> = world.disk.paths();
    let after: Vec<_> = after.iter().filter(left).cloned().collect();
    assert_eq!(after, before, "what is damaged is left alone");
    let mut new = world.on_copy(|_| ());
    new.folders = into;
    (report, new)
}

fn told(report: &Rebuilt) -> Vec<(LogId, u64, u64, bool)> {
    let logs = report.logs.iter();
    logs.map(|l| (l.log, l.entries, l.lost, l.told)).collect()
}

/// What is there whatever happens to the checkpoint.
fn check_unsettled(store: &mut Store<MemoryDisk>) {
    check_all(store, A, 10..60, BYTES);
    check_all(store, B, 10..70, BYTES);
    check_all(store, C, (0..5).chain(7..60), BYTES);
    assert_eq!(
        store.read(C, 5),
        Read::Gone,
        "the log says that it is settled"
    );
}

#[test]
fn two_copies_damaged_at_different_places_are_mended_by_repair_and_by_nothing_else() {
    let world = scene();
    spoil(&world, |len, _| [20, len - 3]);
    assert!(inspect::inspect(&world.disk, &world.folders).is_err());
    let repairs = inspect::repair(&world.disk, &world.folders, &[]).unwrap();
    assert_eq!(repairs, [], "nothing was lost");
    let (mut store, report) = world.open();
    assert!(report.notes.is_empty(), "{report:?}");
    check_unsettled(&mut store);
    assert_eq!(store.read(A, 9), Read::Gone);
    assert_eq!(store.shards[0].state(A), b"state of A");
}

#[test]
fn a_rebuild_takes_no_folder_that_has_a_store() {
    let world = scene();
    let (other, into) = (World::new(), Folders::within(Path::new("/rebuilt")));
    let mut in_place = world.on_copy(|_| ());
    in_place.folders = into.clone();
    in_place.options.uuid = [9; 16];
    let (mut store, _) = in_place.open();
    append_all(&mut store, A, 2, 10);
    store.close().unwrap();
    let rebuilt = rebuild(&in_place.disk, &other.folders, &into, [8; 16], &|_| 0);
    let refused = rebuilt.expect_err("there is a store").to_string();
    assert!(refused.contains("there is a store in /rebuilt/data already"));
    let (mut store, _) = in_place.open();
    check_all(&mut store, A, 0..2, 10);
}

#[test]
fn damage_at_one_place_of_both_copies_costs_what_was_said_there() {
    let world = scene();
    // What the entries of B count for.
    spoil(&world, |_, copy| [place_of(copy, B) + 17; 2]);
    assert!(inspect::repair(&world.disk, &world.folders, &[]).is_err());
    let (report, new) = rebuilt(&world);
    let expected = [(A, 50, 0, true), (B, 70, 0, false), (C, 58, 0, true)];
    assert_eq!(told(&report), expected, "{report}");
    let (mut store, _) = new.open();
    check_unsettled(&mut store);
    assert_eq!(store.read(A, 9), Read::Gone);
    assert_eq!(store.shards[0].state(A), b"state of A");
    assert_eq!(store.shards[0].term_and_vote(A), Some((5, 2)));
    check_all(&mut store, B, 0..10, BYTES);
    assert_eq!(append(&mut store, B, b"next"), 70);
    let again = rebuild(&new.disk, &world.folders, &new.folders, [9; 16], &|_| 0);
    assert!(again.is_err(), "there is a store already");
}

#[test]
fn a_block_that_cannot_be_read_is_told_once_and_costs_no_other_log_anything() {
    let world = scene();
    spoil(&world, |len, _| [len / 2, len / 2]);
    let path = world.files(".seg").remove(0);
    let first_block = 32;
    assert!(world.disk.tamper(&path, |bytes| bytes[first_block] ^= 1));
    let (report, new) = rebuilt(&world);
    let note = format!(
        "the block at {first_block} of {} is damaged",
        path.display()
    );
    assert_eq!(report.notes, [note]);
    let entries: Vec<_> = report.logs.iter().map(|log| log.entries).collect();
    assert!(entries[0] < 50 && entries[1..] == [60, 58], "{report:?}");
    let (mut store, _) = new.open();
    check_all(&mut store, B, 10..70, BYTES);
}

#[test]
fn without_a_checkpoint_everything_that_is_on_disk_is_there_again() {
    let world = scene();
    let path = world.only_file(".checkpoint");
    world.disk.tamper(&path, |bytes| bytes.fill(0));
    let segment = world.files(".seg").remove(0);
    world.flip_within(&segment, &payload(33, BYTES));
    let (report, new) = rebuilt(&world);
    let logs = told(&report);
    assert!(logs.iter().all(|(.., told)| !told), "{report}");
    let entries: u64 = logs.iter().map(|(_, entries, ..)| entries).sum();
    assert_eq!(entries, 60 + 70 + 58 - 1, "one is damaged: {report}");
    let note = format!(
        "1 of the entries 33 to 33 of log {A} fail their checksums in {} and are left out",
        segment.display()
    );
    assert_eq!(report.notes, [note]);
    let (mut store, _) = new.open();
    check_all(&mut store, A, 10..33, BYTES);
    check_all(&mut store, C, 50..60, BYTES);
    check_all(&mut store, B, 60..70, BYTES);
}

#[test]
fn a_store_whose_checkpoint_is_missing_does_not_start_and_is_left_alone() {
    let world = scene();
    let path = world.only_file(".checkpoint");
    world.disk.delete(&path).unwrap();
    let before = world.disk.paths();
    let opened = Store::open(&world.disk, &world.folders, &world.options);
    let error = opened.err().expect("it does not open").to_string();
    assert!(error.contains("no checkpoint"), "{error}");
    assert!(error.contains("leveret storage rebuild"), "{error}");
    assert!(inspect::inspect(&world.disk, &world.folders).is_err());
    assert_eq!(world.disk.paths(), before, "nothing is deleted");
    let (report, new) = rebuilt(&world);
    let (mut store, _) = new.open();
    check_unsettled(&mut store);
    assert!(report.logs.iter().all(|log| !log.told), "{report}");
}

#[test]
fn a_checkpoint_is_missed_whatever_else_is_left() {
    let world = scene();
    let (segments, logs) = (world.files(".seg"), world.files(".wal"));
    assert!(!segments.is_empty() && !logs.is_empty());
    let without = |gone: &[&Vec<std::path::PathBuf>]| {
        let left = world.on_copy(|disk| {
            disk.delete(&world.only_file(".checkpoint")).unwrap();
            for path in gone.iter().copied().flatten() {
                disk.delete(path).unwrap();
            }
        });
        assert!(!left.disk.paths().is_empty());
        Store::open(&left.disk, &left.folders, &left.options).err()
    };
    for gone in [&[][..], &[&segments], &[&logs]] {
        let error = without(gone);
        assert!(
            matches!(error, Some(OpenError::NoCheckpoint { .. })),
            "without {gone:?}: {error:?}"
        );
    }
    // Of a store that was emptied and closed in order, a file that waits to be used again is left.
    let world = World::new();
    let (mut store, _) = world.open();
    store.prepare(1).unwrap();
    append_all(&mut store, A, 3, BYTES);
    store.shards[0].settle(A, 0..3, 3 * BYTES as u64);
    store.close().unwrap();
    assert_eq!(world.files(".wal").len() + world.files(".seg").len(), 0);
    assert!(!world.files(".free").is_empty());
    drop(world.on_copy(|_| ()).open());
    world.disk.delete(&world.only_file(".checkpoint")).unwrap();
    let opened = Store::open(&world.disk, &world.folders, &world.options);
    assert!(matches!(opened.err(), Some(OpenError::NoCheckpoint { .. })));
}

#[test]
fn a_store_that_never_had_a_checkpoint_starts_with_all_that_it_has() {
    let world = World::new();
    drop(world.open());
    let (mut store, report) = world.open();
    assert!(!report.created, "an identity alone is a store");
    store.prepare(2).unwrap();
    append_all(&mut store, A, 40, BYTES);
    store.sync().unwrap();
    drop(store);
    for start in 0..3 {
        let (mut store, report) = world.open();
        assert_eq!(report.checkpoint, 0, "start {start}");
        assert!(world.files(".checkpoint").is_empty());
        check_all(&mut store, A, 0..40, BYTES);
        append(&mut store, B, b"more");
        store.sync().unwrap();
    }
}

#[test]
fn volatile_messages_that_were_paged_out_do_not_make_a_checkpoint_missed() {
    let mut world = World::new();
    world.options.cache_bytes = 10_000;
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Volatile);
    for n in 0..400 {
        let body = store.shards[0].body(Durability::Volatile, &[&payload(n, BYTES)]);
        store.shards[0].append(A, body, BYTES as u32);
        store.page_out().unwrap();
    }
    assert!(world.files(".wal").is_empty() && !world.files(".seg").is_empty());
    drop(store);
    let (_, report) = world.open();
    assert!(report.deleted_files > 0, "they began with nothing durable");
}

#[test]
fn an_overwritten_suffix_does_not_come_back() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 20, BYTES);
    common::flush_all(&mut store);
    store.shards[0].truncate(A, 10);
    for n in 100..115 {
        append(&mut store, A, &payload(n, BYTES));
    }
    common::flush_all(&mut store);
    drop(store);
    let path = world.only_file(".checkpoint");
    world.disk.tamper(&path, |bytes| bytes.fill(0));
    let (report, new) = rebuilt(&world);
    assert_eq!(told(&report), [(A, 25, 0, false)]);
    let (mut store, _) = new.open();
    check_all(&mut store, A, 0..10, BYTES);
    for index in 10..25 {
        let expected = Read::Ready(payload(index + 90, BYTES).into());
        assert_eq!(store.read(A, index), expected, "entry {index}");
    }
}

/// A process that ends after a compaction leaves the files that it has copied.
#[test]
fn an_entry_that_is_damaged_in_one_file_and_sound_in_another_is_not_lost_and_not_told_of() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 40, BYTES);
    common::flush_all(&mut store);
    let old = world.only_file(".seg");
    let mut bytes = Vec::new();
    world.disk.tamper(&old, |found| bytes.clone_from(found));
    store.shards[0].settle(A, 0..30, 30 * BYTES as u64);
    assert!(store.compact().unwrap());
    drop(store);
    let new = world.only_file(".seg");
    assert_ne!(new, old);
    let again = world.disk.create_new(&old).unwrap();
    again.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
    world.flip_within(&new, &payload(33, BYTES));
    let path = world.only_file(".checkpoint");
    world.disk.tamper(&path, |bytes| bytes.fill(0));
    let (report, rebuilt) = rebuilt(&world);
    assert_eq!(told(&report), [(A, 10, 0, false)]);
    assert_eq!(report.notes, [""; 0]);
    check_all(&mut rebuilt.open().0, A, 30..40, BYTES);
}

/// What was copied goes from the log into segments as it comes: its files are not all there at
/// once.
#[test]
fn a_rebuild_needs_no_more_room_than_what_is_copied_and_a_few_files_of_the_log() {
    const ENTRIES: u64 = 260;
    const LEN: usize = 1_000_000;
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..ENTRIES {
        append(&mut store, A, &payload(n, LEN));
        store.sync().unwrap();
        if store.wants_flush() {
            store.flush().unwrap();
        }
    }
    store.close().unwrap();
    let path = world.only_file(".checkpoint");
    world.disk.tamper(&path, |bytes| bytes.fill(0));
    let copied = ENTRIES * LEN as u64;
    let room = copied + 3 * WAL_FILE_BYTES;
    assert!(room < 2 * copied);
    world.disk.set_bytes_max(Some(world.disk.bytes() + room));
    let into = Folders::within(Path::new("/rebuilt"));
    let report = rebuild(&world.disk, &world.folders, &into, [9; 16], &|_| 0).unwrap();
    assert_eq!(told(&report), [(A, ENTRIES, 0, false)]);
}

#[test]
fn any_bytes_in_place_of_a_checkpoint_are_read_without_a_panic() {
    let world = scene();
    let path = world.only_file(".checkpoint");
    let mut sound = Vec::new();
    world.disk.tamper(&path, |bytes| sound = bytes.clone());
    for seed in 0..100_usize {
        let changed = world.on_copy(|disk| {
            disk.tamper(&path, |bytes| {
                bytes.truncate(sound.len() - (seed * 7) % sound.len());
                let len = bytes.len();
                for n in 0..1 + seed % 40 {
                    bytes[(seed * 131 + n * 977) % len] ^= (n + 1) as u8;
                }
            });
        });
        let (report, new) = rebuilt(&changed);
        let (mut store, _) = new.open();
        check_all(&mut store, B, 60..70, BYTES);
        assert!(report.logs.len() >= 3, "{report}");
    }
}
