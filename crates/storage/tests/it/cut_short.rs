//! Files of the write-ahead log that end before their time.

use crate::common::{A, B, World, append, append_all, check_all, payload};
use leveret_storage::{Disk, Durability, LogKind, MemoryDisk, Read, Store, inspect};
use leveret_types::LogId;
use std::path::PathBuf;

const BYTES: usize = 3_000;

/// Two logs in a prepared file, batch by batch; the file, and where each batch ends.
fn scene() -> (World, PathBuf, Vec<usize>) {
    let world = World::new();
    let (mut store, _) = world.open();
    store.prepare(1).unwrap();
    let mut ends = Vec::new();
    for n in 0..20 {
        append(&mut store, A, &payload(n, BYTES));
        append(&mut store, B, &payload(n, BYTES));
        store.sync().unwrap();
        ends.push(world.used_bytes(&world.only_file(".wal")));
    }
    drop(store);
    let path = world.only_file(".wal");
    (world, path, ends)
}

#[test]
fn a_file_cut_short_is_reported_and_what_it_may_have_held_is_set_aside() {
    let (world, path, ends) = scene();
    let whole = world.on_copy(|_| ());
    let (store, report) = whole.open();
    assert_eq!(
        report.notes, [""; 0],
        "nothing is wrong with the whole file"
    );
    assert!(store.found.iter().all(|log| log.damage.is_none()));
    drop(store);
    // Between two batches, within one, within the first, behind the header, behind all of them.
    let cuts = [ends[9], ends[9] + 5_000, 6_000, 4_096, ends[19], 4_000, 0];
    for cut in cuts {
        let short = world.on_copy(|disk| {
            disk.tamper(&path, |bytes| bytes.truncate(cut));
        });
        let inspected = inspect::inspect(&short.disk, &short.folders).unwrap();
        assert!(
            inspected
                .report
                .notes
                .iter()
                .any(|n| n.contains("cut short")),
            "{cut}: {inspected:?}"
        );
        let sound = ends.iter().filter(|end| **end <= cut).count() as u64;
        // Also when the start that found it ended before it had written that down.
        for start in 0..2 {
            let (mut store, report) = short.open();
            let told = report.notes.iter().any(|n| n.contains("cut short"));
            assert!(told, "{cut}, start {start}: {report:?}");
            for log in [A, B].into_iter().filter(|_| sound > 0) {
                assert!(
                    store.shards[0].damage(log).is_some(),
                    "{cut}, start {start}"
                );
                check_all(&mut store, log, 0..sound, BYTES);
                assert_eq!(store.read(log, sound), Read::Gone);
            }
        }
    }
}

/// A start that finds the newest file cut goes on in another one, which tells of the last batch
/// that it knows: with the first batch of the cut file gone, that one is in the file before.
#[test]
fn a_cut_file_stays_reported_when_a_start_has_gone_on_behind_it() {
    const C: LogId = LogId(3);
    const EACH: u64 = 5;
    let world = World::new();
    let (mut store, _) = world.open();
    store.prepare(2).unwrap();
    let mut ends = Vec::new();
    for n in 0..EACH * 2 {
        if n == EACH {
            store.roll();
        }
        append(&mut store, A, &payload(n, BYTES));
        append(&mut store, B, &payload(n, BYTES));
        store.sync().unwrap();
        if n >= EACH {
            ends.push(world.used_bytes(&world.files(".wal")[1]));
        }
    }
    drop(store);
    let path = world.files(".wal")[1].clone();
    for cut in [4_096, 6_000, ends[0], ends[0] + 5_000, ends[2]] {
        let sound = EACH + ends.iter().filter(|end| **end <= cut).count() as u64;
        for goes_on in [false, true] {
            let short = world.on_copy(|disk| {
                disk.tamper(&path, |bytes| bytes.truncate(cut));
            });
            for start in 0..3 {
                let (mut store, report) = short.open();
                let at = format!("{cut}, start {start}, goes on: {goes_on}");
                let told = report.notes.iter().any(|n| n.contains("cut short"));
                assert!(told, "{at}: {report:?}");
                for log in [A, B] {
                    assert!(store.shards[0].damage(log).is_some(), "{at}");
                    check_all(&mut store, log, 0..sound, BYTES);
                    assert_eq!(store.read(log, sound), Read::Gone, "{at}");
                }
                if goes_on {
                    append(&mut store, C, &payload(start, BYTES));
                    store.sync().unwrap();
                    assert_eq!(store.shards[0].damage(C), None, "{at}");
                    check_all(&mut store, C, 0..=start, BYTES);
                }
            }
        }
    }
}

#[test]
fn a_file_that_grew_and_was_cut_to_nothing_is_reported_and_one_that_was_begun_is_not() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..6 {
        if n == 3 {
            store.roll();
        }
        append(&mut store, A, &payload(n, BYTES));
        store.sync().unwrap();
    }
    drop(store);
    let newest = world.files(".wal")[1].clone();
    for cut in [0, 1, 4_095] {
        let short = world.on_copy(|disk| {
            disk.tamper(&newest, |bytes| bytes.truncate(cut));
        });
        for start in 0..2 {
            let (mut store, report) = short.open();
            let told = report.notes.iter().any(|n| n.contains("cut short"));
            assert!(told, "{cut}, start {start}: {report:?}");
            assert!(store.shards[0].damage(A).is_some(), "{cut}, start {start}");
            check_all(&mut store, A, 0..3, BYTES);
        }
    }
    // The start that makes a file ended before its header was durable.
    let begun = newest.with_file_name("00000000000000ff.begun");
    world.disk.create_new(&begun).unwrap();
    let (mut store, report) = world.open();
    assert_eq!(report.notes, [""; 0]);
    check_all(&mut store, A, 0..6, BYTES);
    assert!(!world.disk.paths().contains(&begun));
}

/// The bytes of an entry of a batch: most are small, some are too large to be written ahead of.
fn mixed(n: u64) -> Vec<u8> {
    payload(n, if n % 5 == 3 { 70_000 } else { BYTES })
}

/// A log that began in this batch.
fn begun_in(n: u64) -> LogId {
    LogId(100 + n)
}

/// Whoever looks finds that a file was cut there, and that the logs of the batches before `sound`
/// may have had more.
fn check_cut(world: &World, path: &std::path::Path, cut: usize, sound: u64) {
    let short = world.on_copy(|disk| {
        assert!(disk.tamper(path, |bytes| {
            assert!(cut < bytes.len(), "it is shorter than that");
            bytes.truncate(cut);
        }));
    });
    for start in 0..3 {
        let at = format!("{cut} after {sound}, start {start}");
        let (mut store, report) = short.open();
        let told = report.notes.iter().any(|n| n.contains("cut short"));
        assert!(told, "{at}: {report:?}");
        for n in 0..sound {
            assert_eq!(store.read(A, n), Read::Ready(mixed(n).into()), "{at}");
            for log in [A, begun_in(n)] {
                assert!(store.shards[0].damage(log).is_some(), "{at}: log {log}");
            }
        }
        assert_eq!(store.read(A, sound), Read::Gone, "{at}");
    }
}

/// A new store has no prepared file: its first one grows as it is written. Whatever has become
/// durable in it is missed from then on.
#[test]
fn a_file_that_grows_is_reported_wherever_it_is_cut_after_any_batch() {
    // With room that is written ahead of small batches, and on a disk that has none for that.
    for has_room in [true, false] {
        let world = World::new();
        let (mut store, _) = world.open();
        let mut before = 4_096;
        for n in 0..25 {
            if !has_room {
                let needed = world.disk.bytes() + mixed(n).len() as u64 + 12_000;
                world.disk.set_bytes_max(Some(needed));
            }
            append(&mut store, A, &mixed(n));
            append(&mut store, begun_in(n), b"begun");
            store.sync().unwrap();
            let path = world.only_file(".wal");
            // Between two batches, within the last one, behind it, and with nothing but the header.
            check_cut(&world, &path, before, n);
            check_cut(&world, &path, before + 512, n);
            check_cut(&world, &path, 4_096, 0);
            before = world.used_bytes(&path);
            check_cut(&world, &path, before - 1, n + 1);
        }
        // All that was confirmed is there.
        world.disk.set_bytes_max(None);
        drop(store);
        let (mut store, report) = world.open();
        assert_eq!(report.notes, [""; 0]);
        for n in 0..25 {
            assert_eq!(store.read(A, n), Read::Ready(mixed(n).into()));
            assert_eq!(store.shards[0].damage(begun_in(n)), None);
        }
    }
}

/// Nothing is confirmed that a cut would take unseen, also where the file's header cannot be
/// written over.
#[test]
fn a_file_that_grows_on_a_full_disk_that_writes_elsewhere_says_how_long_it_is_or_takes_nothing() {
    const LARGE: usize = 300_000;
    let begun = World::with_wal_files_of(8 << 20);
    let (mut store, _) = begun.open();
    append(&mut store, A, &payload(0, LARGE));
    store.sync().unwrap();
    drop(store);
    let (mut taken, mut refused) = (0, 0);
    for room in (60..90).map(|sectors| sectors * 4_096) {
        let world = begun.on_copy(MemoryDisk::copy_on_write);
        let (mut store, _) = world.open();
        // A start has written the first one again; this is the first of its own.
        append(&mut store, A, &payload(1, LARGE));
        store.sync().unwrap();
        world.disk.set_bytes_max(Some(world.disk.bytes() + room));
        append(&mut store, A, &payload(2, LARGE));
        if store.sync().is_err() {
            refused += 1;
            continue;
        }
        taken += 1;
        drop(store);
        world.disk.set_bytes_max(None);
        let newest = world.files(".wal").pop().unwrap();
        let end = world.used_bytes(&newest);
        world.disk.tamper(&newest, |bytes| bytes.truncate(end - 1));
        let (_, report) = world.open();
        let told = report.notes.iter().any(|n| n.contains("cut short"));
        assert!(told, "with room for {room}: {report:?}");
        if taken == 4 {
            break;
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}

#[test]
fn a_file_that_was_cut_and_whose_header_is_damaged_beside_is_reported() {
    for prepared in [0, 1] {
        let world = World::new();
        let (mut store, _) = world.open();
        store.prepare(prepared).unwrap();
        append(&mut store, A, &payload(0, BYTES));
        store.sync().unwrap();
        drop(store);
        let path = world.only_file(".wal");
        assert!(world.disk.tamper(&path, |bytes| {
            bytes.truncate(4_096);
            bytes[1] ^= 1;
        }));
        let (_, report) = world.open();
        let told = report.notes.iter().any(|n| n.contains("cut short"));
        assert!(told, "{prepared} prepared: {report:?}");
    }
}

#[test]
fn a_log_that_began_in_the_batch_before_a_file_that_was_cut_is_not_taken_for_sound_later() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.prepare(2).unwrap();
    for n in 0..6 {
        if n == 2 {
            append(&mut store, B, b"begun");
        }
        if n == 3 {
            store.roll();
        }
        append(&mut store, A, &payload(n, BYTES));
        store.sync().unwrap();
    }
    drop(store);
    let newest = &world.files(".wal")[1];
    assert!(world.disk.tamper(newest, |bytes| bytes.truncate(4_096)));
    // The first start writes what it knows again, behind the file.
    for start in 0..3 {
        let (mut store, report) = world.open();
        for log in [A, B] {
            let damage = store.shards[0].damage(log);
            assert!(damage.is_some(), "log {log}, start {start}: {report:?}");
        }
        check_all(&mut store, A, 0..3, BYTES);
    }
}

/// That the file has room for a batch costs a sync of its own only where the batch is large.
#[test]
fn small_batches_in_a_file_that_grows_are_one_sync_each_and_all_in_a_prepared_one() {
    for prepared in [0, 1] {
        let world = World::with_wal_files_of(8 << 20);
        let (mut store, _) = world.open();
        store.prepare(prepared).unwrap();
        append(&mut store, A, &payload(0, BYTES));
        store.sync().unwrap();
        let mut syncs_of = |n, len| {
            append(&mut store, A, &payload(n, len));
            let before = world.disk.counts().syncs;
            store.sync().unwrap();
            world.disk.counts().syncs - before
        };
        for n in 1..300 {
            let len = [100, BYTES, 60_000][n as usize % 3];
            assert_eq!(syncs_of(n, len), 1, "batch {n}, {prepared} prepared");
        }
        assert_eq!(syncs_of(0, 400_000), 2 - prepared as u64);
    }
}

#[test]
fn what_was_cut_off_stays_known_until_its_loss_is_accepted() {
    let (world, path, ends) = scene();
    world.disk.tamper(&path, |bytes| bytes.truncate(ends[4]));
    let (store, _) = world.open();
    store.close().unwrap();
    let (mut store, report) = world.open();
    assert!(report.clean);
    for log in [A, B] {
        assert!(store.shards[0].damage(log).is_some());
        store.shards[0].accept_loss(log);
    }
    append(&mut store, A, b"after");
    store.close().unwrap();
    let (mut store, _) = world.open();
    assert_eq!(store.shards[0].damage(A), None);
    check_all(&mut store, A, 0..5, BYTES);
}

#[test]
fn a_file_that_grows_and_one_that_is_used_again_are_not_taken_for_cut() {
    let world = World::with_wal_files_of(64 * 1024);
    let (mut store, _) = world.open();
    append_all(&mut store, A, 3, BYTES);
    store.sync().unwrap();
    drop(store);
    let (mut store, report) = world.open();
    assert_eq!(report.notes, [""; 0]);
    store.prepare(2).unwrap();
    for n in 3..60 {
        append(&mut store, A, &payload(n, BYTES));
        store.sync().unwrap();
        store.flush().unwrap();
    }
    drop(store);
    let (mut store, report) = world.open();
    assert_eq!(report.notes, [""; 0]);
    check_all(&mut store, A, 0..60, BYTES);
}

/// Where the heads of batches lie in a file, and their copies, by where they begin.
fn heads(world: &World, path: &std::path::Path) -> Vec<usize> {
    let mut found = Vec::new();
    world.disk.tamper(path, |bytes| {
        let magics = bytes.windows(4).enumerate();
        found.extend(magics.filter(|(_, w)| w == b"LVWB").map(|(at, _)| at));
    });
    found
}

/// Makes the head that begins there unreadable.
fn spoil(world: &World, path: &std::path::Path, at: usize) {
    let there = world.disk.tamper(path, |bytes| bytes[at + 4] ^= 0xFF);
    assert!(there);
}

#[test]
fn what_was_synced_is_not_cut_with_the_torn_batch_behind_it() {
    let world = World::new();
    let (mut store, _) = world.open();
    append(&mut store, A, &payload(1, BYTES));
    store.sync().unwrap();
    append(&mut store, B, &payload(2, BYTES));
    store.sync().unwrap();
    drop(store);
    let tells_of_a_cut = || {
        let seen = inspect::inspect(&world.disk, &world.folders).unwrap();
        seen.to_string().contains("a start cuts them off")
    };
    assert!(!tells_of_a_cut(), "all is whole");
    let path = world.only_file(".wal");
    world.flip_within(&path, &payload(1, BYTES));
    world.flip_within(&path, &payload(2, BYTES));
    assert!(tells_of_a_cut());
    let (store, report) = world.open();
    assert!(
        report.torn_bytes > 0,
        "the last one may never have been finished"
    );
    let damage = store.shards[0].damage(A).expect("A was durable");
    assert!(damage.lost.contains(0), "{damage:?}");
    assert!(!store.shards[0].has_log(B), "B was not");
}

/// Two shards with a log each; the second one's last chunk is in a batch of which nothing is left,
/// and only the file tells that there was one.
fn lost_batch(create_in_log: bool) -> World {
    let mut world = World::new();
    world.options.shards = 2;
    let (mut store, _) = world.open();
    let put = |store: &mut Store<MemoryDisk>, shard: usize, log: LogId| {
        if !store.shards[shard].has_log(log) {
            store.shards[shard].create_log(log, LogKind::Durable);
        }
        let body = store.shards[shard].body(Durability::Durable, &[b"body"]);
        store.shards[shard].append(log, body, 4);
    };
    put(&mut store, 0, A);
    put(&mut store, 1, B);
    store.sync().unwrap();
    if !create_in_log {
        store.roll();
        store.flush().unwrap();
    }
    put(&mut store, 1, B);
    store.sync().unwrap();
    put(&mut store, 0, A);
    store.sync().unwrap();
    drop(store);
    let path = world.files(".wal").pop().expect("a file");
    let heads = heads(&world, &path);
    let is_head = |at: &&usize| at.is_multiple_of(4_096);
    let batches: Vec<usize> = heads.iter().filter(is_head).copied().collect();
    let [.., hit, last] = batches[..] else {
        panic!("two batches: {heads:?}")
    };
    // The last one has a copy of the head before it.
    let copy = heads.iter().find(|at| **at > last).expect("a copy");
    spoil(&world, &path, hit);
    spoil(&world, &path, *copy);
    world
}

#[test]
fn a_log_that_was_begun_before_a_lost_batch_is_not_taken_for_sound() {
    let world = lost_batch(true);
    let (store, report) = world.open();
    assert!(!report.notes.is_empty());
    assert!(store.shards[1].damage(B).is_some(), "{report:?}");
}

#[test]
fn a_lost_batch_is_known_also_to_the_start_after_the_one_that_found_it() {
    let world = lost_batch(false);
    for start in 0..3 {
        let (store, report) = world.open();
        let damage = store.shards[1].damage(B);
        assert!(damage.is_some(), "start {start}: {report:?}");
    }
}

#[test]
fn the_last_batch_of_a_file_is_known_from_the_copy_of_its_head_in_the_next_file() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..4 {
        if n == 2 {
            store.roll();
        }
        append(&mut store, A, &payload(n, BYTES));
        store.sync().unwrap();
    }
    drop(store);
    let [first, second] = &world.files(".wal")[..] else {
        panic!("two files");
    };
    let is_head = |at: &usize| at.is_multiple_of(4_096);
    let last = heads(&world, first).into_iter().rfind(is_head);
    spoil(&world, first, last.expect("a batch"));
    let without_copy = world.on_copy(|_| {});
    for _ in 0..2 {
        let (mut store, _) = world.open();
        assert_eq!(store.shards[0].damage(A), None);
        check_all(&mut store, A, 0..4, BYTES);
    }
    // Without the copy it is known that there was a batch, and that is said.
    let copy = heads(&world, second)
        .into_iter()
        .find(|at| !is_head(at))
        .expect("a copy");
    spoil(&without_copy, second, copy);
    for _ in 0..2 {
        let (mut store, report) = without_copy.open();
        assert!(store.shards[0].damage(A).is_some(), "{report:?}");
        check_all(&mut store, A, 0..1, BYTES);
        assert_eq!(store.read(A, 1), Read::Gone);
    }
}

#[test]
fn what_a_start_wrote_again_is_read_from_its_new_place() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..3 {
        append(&mut store, A, &payload(n, 1_000));
    }
    store.sync().unwrap();
    drop(store);
    let first = world.files(".wal").remove(0);
    let (mut store, report) = world.open();
    assert!(report.rewritten_bytes > 0, "{report:?}");
    // The first place may have been in the page cache alone, and be lost by now.
    let body = payload(0, 1_000);
    world.flip_within(&first, &body[..300]);
    assert_eq!(store.read(A, 0), Read::Ready(body.into()));
}
