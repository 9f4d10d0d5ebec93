//! Bodies that wait in many logs: in segments once, whatever happens to the logs then.

use crate::common::{World, flush_all, payload};
use leveret_storage::inspect::{inspect, verify};
use leveret_storage::{Durability, LogKind, MemoryDisk, Read, Store};
use leveret_types::LogId;

const LOGS: u64 = 100;
const BODIES: u64 = 50;
const BODY_BYTES: usize = 10_000;

fn open(world: &World) -> Store<MemoryDisk> {
    let (mut store, _) = world.open();
    for log in 1..=LOGS {
        store.shards[0].create_log(LogId(log), LogKind::Durable);
    }
    store
}

/// Appends one body to all these logs.
fn fan_out(store: &mut Store<MemoryDisk>, logs: impl Iterator<Item = u64>, bytes: &[u8]) {
    let shard = &mut store.shards[0];
    let body = shard.body(Durability::Durable, &[bytes]);
    for log in logs {
        shard.append(LogId(log), body, bytes.len() as u32);
    }
}

fn segment_bytes(store: &Store<MemoryDisk>) -> u64 {
    store.shards[0].stats().segment_bytes
}

/// Every entry of these logs is the body of its index, or gone where `settled` says so.
fn check(
    store: &mut Store<MemoryDisk>,
    logs: std::ops::RangeInclusive<u64>,
    settled: fn(u64, u64) -> bool,
) {
    for log in logs {
        for index in 0..BODIES {
            let expected = match settled(log, index) {
                true => Read::Gone,
                false => Read::Ready(payload(index, BODY_BYTES).into()),
            };
            assert_eq!(
                store.read(LogId(log), index),
                expected,
                "entry {index} of log {log}"
            );
        }
    }
}

/// A store in whose segments every log has every body.
fn filled(world: &World) -> Store<MemoryDisk> {
    let mut store = open(world);
    for n in 0..BODIES {
        fan_out(&mut store, 1..=LOGS, &payload(n, BODY_BYTES));
        if n % 7 == 0 {
            store.sync().unwrap();
        }
    }
    flush_all(&mut store);
    store
}

#[test]
fn a_body_that_waits_in_many_logs_is_written_to_segments_once() {
    let world = World::new();
    let mut store = filled(&world);
    let (bytes, bodies) = (segment_bytes(&store), BODIES * BODY_BYTES as u64);
    println!("{bytes} bytes for {bodies} of bodies in {LOGS} logs");
    assert!(
        bytes < bodies * 11 / 10 + LOGS * BODIES * 64 / 8,
        "{bytes} bytes for {bodies}"
    );
    check(&mut store, 1..=LOGS, |_, _| false);
    store.close().unwrap();
    let (mut store, report) = world.open();
    assert!(report.clean);
    check(&mut store, 1..=LOGS, |_, _| false);
    drop(store);
    let verified = verify(&world.disk, &world.folders).unwrap();
    assert_eq!(verified.verified_entries, LOGS * BODIES);
    assert_eq!(verified.damaged().count(), 0);
}

#[test]
fn many_logs_read_a_shared_block_once() {
    let world = World::new();
    let (mut store, _) = {
        drop(filled(&world));
        world.open()
    };
    let before = world.disk.counts().read_bytes;
    let mut read = |index| {
        for log in 1..=LOGS {
            assert!(matches!(store.read(LogId(log), index), Read::Ready(_)));
        }
    };
    (0..BODIES).for_each(&mut read);
    let read = world.disk.counts().read_bytes - before;
    assert!(
        read < 2 * BODIES * BODY_BYTES as u64,
        "{read} bytes were read"
    );
}

#[test]
fn small_bodies_in_a_row_are_shared_and_single_ones_are_copied() {
    let world = World::new();
    let mut store = open(&world);
    for n in 0..2_000 {
        fan_out(&mut store, 1..=LOGS, &payload(n, 100));
        store.sync().unwrap();
    }
    flush_all(&mut store);
    let in_a_row = segment_bytes(&store);
    assert!(in_a_row < 2 * 200_000, "{in_a_row} bytes");
    // Between two of them each log has one of its own: a reference each would cost memory.
    for n in 0..200 {
        fan_out(&mut store, 1..=LOGS, &payload(n, 100));
        (1..=LOGS).for_each(|log| fan_out(&mut store, log..=log, &[log as u8]));
    }
    let index_bytes = store.shards[0].stats().index_bytes;
    flush_all(&mut store);
    let copied = segment_bytes(&store) - in_a_row;
    assert!(copied > 200 * 100 * LOGS, "{copied} bytes");
    assert!(store.shards[0].stats().index_bytes <= index_bytes);
    for log in 1..=LOGS {
        for n in 0..2_000 {
            assert_eq!(
                store.read(LogId(log), n),
                Read::Ready(payload(n, 100).into())
            );
        }
        for n in 0..200 {
            let at = 2_000 + 2 * n;
            assert_eq!(
                store.read(LogId(log), at),
                Read::Ready(payload(n, 100).into())
            );
            assert_eq!(
                store.read(LogId(log), at + 1),
                Read::Ready(vec![log as u8].into())
            );
        }
    }
}

#[test]
fn logs_that_have_some_of_the_bodies_and_their_own_between_keep_their_order() {
    let world = World::new();
    let mut store = open(&world);
    let mut expected = vec![Vec::new(); LOGS as usize + 1];
    for n in 0..300_u64 {
        let has = |log: u64| (log * 7 + n * 13) % 5 < 2 || log == 1;
        let len = if n % 3 == 0 { 6_000 } else { 600 };
        fan_out(
            &mut store,
            (1..=LOGS).filter(|log| has(*log)),
            &payload(n, len),
        );
        (1..=LOGS).filter(|log| has(*log)).for_each(|log| {
            expected[log as usize].push(payload(n, len));
        });
        let own = 1 + n % LOGS;
        fan_out(&mut store, own..=own, &payload(n + 7, 900));
        expected[own as usize].push(payload(n + 7, 900));
        if n % 50 == 49 {
            store.sync().unwrap();
        }
        if n == 100 || n == 220 {
            flush_all(&mut store);
        }
    }
    flush_all(&mut store);
    let check = |store: &mut Store<MemoryDisk>, gone: &dyn Fn(u64, usize) -> bool| {
        for log in 1..=LOGS {
            for (index, bytes) in expected[log as usize].iter().enumerate() {
                let wanted = match gone(log, index) {
                    true => Read::Gone,
                    false => Read::Ready(bytes.clone().into()),
                };
                let is_it = store.read(LogId(log), index as u64) == wanted;
                assert!(is_it, "{index} of {log}");
            }
        }
    };
    check(&mut store, &|_, _| false);
    let gone = |log: u64, index: usize| !(log as usize * 3 + index).is_multiple_of(4);
    for log in 1..=LOGS {
        for index in (0..expected[log as usize].len()).filter(|index| gone(log, *index)) {
            let bytes = expected[log as usize][index].len() as u64;
            let index = index as u64;
            assert_eq!(
                store.shards[0].settle(LogId(log), index..index + 1, bytes),
                1
            );
        }
    }
    check(&mut store, &gone);
    for round in 0..4 {
        while store.compact().unwrap() {}
        check(&mut store, &gone);
        drop(store);
        store = world.open().0;
        check(&mut store, &gone);
        let again = payload(round, 5_000);
        fan_out(&mut store, 1..=1, &again);
        flush_all(&mut store);
        let log = LogId(1);
        let last = store.shards[0].log_stats(log).unwrap().next_index - 1;
        assert_eq!(store.read(log, last), Read::Ready(again.into()));
    }
    drop(store);
    let verified = verify(&world.disk, &world.folders).unwrap();
    assert_eq!(verified.damaged().count(), 0);
}

#[test]
fn a_shared_body_lives_as_long_as_one_log_needs_it_and_is_compacted_to_one() {
    let world = World::new();
    let mut store = filled(&world);
    let before = segment_bytes(&store);
    // All but the last fifth of the bodies is settled everywhere but in two logs.
    let settled = |log: u64, index: u64| log > 2 && index < BODIES * 4 / 5;
    for log in 3..=LOGS {
        let bytes = BODIES * 4 / 5 * BODY_BYTES as u64;
        store.shards[0].settle(LogId(log), 0..BODIES * 4 / 5, bytes);
    }
    assert!(!store.compact().unwrap(), "every body is still needed");
    check(&mut store, 1..=LOGS, settled);
    let settled = |_: u64, index: u64| index < BODIES * 4 / 5;
    for log in 1..=2 {
        let bytes = BODIES * 4 / 5 * BODY_BYTES as u64;
        store.shards[0].settle(LogId(log), 0..BODIES * 4 / 5, bytes);
    }
    assert!(store.compact().unwrap());
    let after = segment_bytes(&store);
    assert!(after < before / 3, "{after} of {before} bytes");
    check(&mut store, 1..=LOGS, settled);
    drop(store);
    let (mut store, report) = world.open();
    assert_eq!(report.notes, Vec::<String>::new());
    check(&mut store, 1..=LOGS, settled);
    for log in 1..=LOGS {
        store.shards[0].delete_log(LogId(log));
    }
    store.checkpoint().unwrap();
    assert_eq!(segment_bytes(&store), 0);
}

#[test]
fn references_are_found_without_the_index_of_the_file() {
    let world = World::new();
    let store = filled(&world);
    drop(store);
    for file in world.files(".seg") {
        world.disk.tamper(&file, |bytes| {
            let last = bytes.len() - 10;
            bytes[last] ^= 1;
        });
    }
    let (mut store, report) = world.open();
    assert!(
        report.notes.iter().any(|note| note.contains("rebuilt")),
        "{:?}",
        report.notes
    );
    check(&mut store, 1..=LOGS, |_, _| false);
}

#[test]
fn a_damaged_shared_body_is_lost_in_all_its_logs_and_nowhere_silently() {
    let world = World::new();
    let store = filled(&world);
    drop(store);
    let file = world.only_file(".seg");
    world.flip_within(&file, &payload(20, BODY_BYTES));
    let verified = verify(&world.disk, &world.folders).unwrap();
    assert_eq!(verified.damaged().count() as u64, LOGS);
    assert_eq!(verified.verified_entries, LOGS * (BODIES - 1));
    let (mut store, _) = world.open();
    assert!(matches!(store.read(LogId(5), 20), Read::Damaged(_)));
    let sound = Read::Ready(payload(21, BODY_BYTES).into());
    assert_eq!(store.read(LogId(5), 21), sound);
}

#[test]
fn a_log_that_is_truncated_gives_up_its_part_of_a_shared_block() {
    let world = World::new();
    let mut store = filled(&world);
    store.shards[0].truncate(LogId(1), 10);
    let body = store.shards[0].body(Durability::Durable, &[b"another"]);
    assert_eq!(store.shards[0].append(LogId(1), body, 7), 10);
    flush_all(&mut store);
    for _ in 0..2 {
        assert_eq!(store.read(LogId(1), 10), Read::Ready("another".into()));
        assert_eq!(store.read(LogId(1), 11), Read::Gone);
        let sound = Read::Ready(payload(9, BODY_BYTES).into());
        assert_eq!(store.read(LogId(1), 9), sound);
        check(&mut store, 2..=LOGS, |_, _| false);
        drop(store);
        store = world.open().0;
    }
    drop(store);
    let told = inspect(&world.disk, &world.folders).unwrap();
    assert_eq!(told.damaged().count(), 0);
}

#[test]
fn a_file_whose_references_outweigh_its_bodies_is_not_compacted_again_and_again() {
    let world = World::new();
    let (mut store, _) = world.open();
    for log in 1..=1_000 {
        store.shards[0].create_log(LogId(log), LogKind::Durable);
    }
    fan_out(&mut store, 1..=1_000, &payload(0, BODY_BYTES));
    flush_all(&mut store);
    assert!(!store.compact().unwrap(), "all of it lives");
    for log in 1..=900 {
        store.shards[0].settle(LogId(log), 0..1, BODY_BYTES as u64);
    }
    assert!(store.compact().unwrap(), "most references are dead");
    assert!(!store.compact().unwrap(), "all of it lives");
    let sound = Read::Ready(payload(0, BODY_BYTES).into());
    assert_eq!(store.read(LogId(1_000), 0), sound);
}

#[test]
fn few_entries_that_are_left_of_shared_blocks_do_not_keep_their_files() {
    const COUNT: u64 = 2_560;
    let world = World::new();
    let mut store = open(&world);
    for n in 0..COUNT {
        fan_out(&mut store, 1..=2, &payload(n, 1_000));
    }
    flush_all(&mut store);
    let before = segment_bytes(&store);
    for log in 1..=2 {
        for first in (0..COUNT).step_by(128) {
            let settled = first + 1..first + 128;
            store.shards[0].settle(LogId(log), settled, 127_000);
        }
    }
    assert!(store.compact().unwrap());
    let after = segment_bytes(&store);
    assert!(after < before / 20, "{after} of {before} bytes");
    assert!(!store.compact().unwrap());
    let sound = Read::Ready(payload(128, 1_000).into());
    assert_eq!(store.read(LogId(2), 128), sound);
    assert_eq!(store.read(LogId(2), 129), Read::Gone);
}

#[test]
fn an_entry_that_could_not_be_copied_is_never_read_as_the_body_of_another_log() {
    let mut world = World::new();
    world.options.cache_bytes = 0;
    let mut store = open(&world);
    for (n, first) in [(0, 1), (1, 1), (2, 2), (3, 1)] {
        fan_out(&mut store, first..=first + 1, &payload(n, BODY_BYTES));
    }
    store.sync().unwrap();
    for file in world.files(".wal") {
        let body = payload(1, BODY_BYTES);
        world.disk.tamper(&file, |bytes| {
            if let Some(at) = bytes.windows(BODY_BYTES).position(|w| *w == body) {
                bytes[at + 7] ^= 1;
            }
        });
    }
    flush_all(&mut store);
    let read = store.read(LogId(1), 1);
    assert!(matches!(read, Read::Damaged(_) | Read::Gone), "{read:?}");
    for (index, n) in [(0, 0), (2, 3)] {
        let sound = Read::Ready(payload(n, BODY_BYTES).into());
        assert_eq!(store.read(LogId(1), index), sound);
    }
}

#[test]
fn durable_and_volatile_bodies_of_several_logs_are_merged_apart() {
    const DURABLE: u64 = 48;
    const ALL: u64 = 200;
    let world = World::new();
    let mut store = open(&world);
    for n in 0..ALL {
        let durability = match n < DURABLE {
            true => Durability::Durable,
            false => Durability::Volatile,
        };
        let shard = &mut store.shards[0];
        let body = shard.body(durability, &[&payload(n, BODY_BYTES)]);
        for log in 1..=3 {
            shard.append(LogId(log), body, BODY_BYTES as u32);
        }
    }
    flush_all(&mut store);
    assert!(store.shards[0].wants_page_out());
    store.page_out().unwrap();
    let stays = |n: &u64| n % 8 == 3;
    for n in (0..ALL).filter(|n| !stays(n)) {
        let shard = &mut store.shards[0];
        for log in 1..=3 {
            shard.settle(LogId(log), n..n + 1, BODY_BYTES as u64);
        }
    }
    assert!(store.compact().unwrap(), "most of both is dead");
    for (log, n) in (1..=3).flat_map(|log| (0..ALL).filter(stays).map(move |n| (log, n))) {
        let expected = Read::Ready(payload(n, BODY_BYTES).into());
        assert_eq!(store.read(LogId(log), n), expected, "entry {n} of {log}");
    }
    // Volatile ones end with the process, and no others do.
    store.close().unwrap();
    let (mut store, _) = world.open();
    for (log, n) in (1..=3).flat_map(|log| (0..ALL).filter(stays).map(move |n| (log, n))) {
        let read = store.read(LogId(log), n);
        assert_eq!(matches!(read, Read::Ready(_)), n < DURABLE, "{n} of {log}");
    }
}
