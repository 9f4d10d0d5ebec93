//! Many logs with one message each, interleaved in the chunks of the write-ahead log and in no
//! cache: what is read of a chunk is what is wanted of it, and not much else.

use crate::common::{World, append, payload};
use leveret_storage::{MemoryDisk, Read, Store};
use leveret_types::LogId;

const LOGS: u64 = 10_000;
const BODY_BYTES: usize = 200;
/// Messages of a chunk.
const BATCH: u64 = 500;
const ALL_BYTES: u64 = LOGS * BODY_BYTES as u64;

fn log(n: u64) -> LogId {
    LogId(n + 1)
}

fn body(n: u64) -> Vec<u8> {
    let mut body = payload(n, BODY_BYTES);
    body[..8].copy_from_slice(&n.to_le_bytes());
    body
}

/// A store that was killed with a message in each log.
fn killed() -> World {
    let mut world = World::with_wal_files_of(4 << 20);
    // Less than a tenth of what waits.
    world.options.loaded_bytes = ALL_BYTES as usize / 10;
    let (mut store, _) = world.open();
    for n in 0..LOGS {
        append(&mut store, log(n), &body(n));
        if n % BATCH == BATCH - 1 {
            store.sync().unwrap();
        }
    }
    drop(store);
    world
}

fn check(store: &mut Store<MemoryDisk>, n: u64) {
    let expected = Read::Ready(body(n).into());
    assert_eq!(store.read(log(n), 0), expected, "log {n}");
}

/// Bytes that this reads from disk.
fn bytes_read(world: &World, work: impl FnOnce()) -> u64 {
    let before = world.disk.counts().read_bytes;
    work();
    world.disk.counts().read_bytes - before
}

#[test]
fn a_message_of_one_log_is_read_without_those_of_others() {
    let world = killed();
    let (mut store, _) = world.open();
    let read = bytes_read(&world, || {
        // All over the logs, none twice: the factor is a prime.
        (0..200).for_each(|n| check(&mut store, n * 7_919 % LOGS));
    });
    assert!(read <= ALL_BYTES, "{read} bytes for 200 of {ALL_BYTES}");
}

#[test]
fn all_logs_are_read_one_after_the_other_for_little_more_than_their_bytes() {
    let world = killed();
    let (mut store, _) = world.open();
    let read = bytes_read(&world, || (0..LOGS).for_each(|n| check(&mut store, n)));
    assert!(read <= ALL_BYTES * 3 / 2, "{read} bytes for {ALL_BYTES}");
}

#[test]
fn all_logs_are_read_all_over_for_little_more_than_their_bytes() {
    let world = killed();
    let (mut store, _) = world.open();
    let read = bytes_read(&world, || {
        (0..LOGS).for_each(|n| check(&mut store, n * 7_919 % LOGS));
    });
    assert!(read <= ALL_BYTES * 2, "{read} bytes for {ALL_BYTES}");
}

#[test]
fn a_get_from_every_log_after_a_crash_reads_less_than_four_times_what_waits() {
    let world = killed();
    let (mut store, _) = world.open();
    let read = bytes_read(&world, || {
        for n in 0..LOGS {
            let log_number = n * 7_919 % LOGS;
            check(&mut store, log_number);
            let shard = &mut store.shards[0];
            shard.settle(log(log_number), 0..1, BODY_BYTES as u64);
            if n == LOGS / 2 {
                store.roll();
                store.flush().unwrap();
            } else if n % BATCH == 0 {
                let merge = shard.begin_compaction_if_quiet();
                assert!(merge.is_none(), "what it copied would go soon");
            }
        }
    });
    assert!(read < ALL_BYTES * 4, "{read} bytes for {ALL_BYTES}");
}

#[test]
fn chunks_are_read_whole_again_when_other_ones_are_read_in_order() {
    let world = killed();
    let (mut store, _) = world.open();
    (0..LOGS / 2).for_each(|n| check(&mut store, n * 7_919 % LOGS));
    store.roll();
    store.flush().unwrap();
    for n in LOGS..2 * LOGS {
        append(&mut store, log(n), &body(n));
        if n % BATCH == BATCH - 1 {
            store.sync().unwrap();
        }
    }
    let before = world.disk.counts().reads;
    (LOGS..2 * LOGS).for_each(|n| check(&mut store, n));
    let reads = world.disk.counts().reads - before;
    assert!(reads <= LOGS / 4, "{reads} reads for {LOGS} messages");
}

#[test]
fn a_flush_reads_what_still_waits_in_a_chunk() {
    let world = killed();
    let (mut store, _) = world.open();
    let waits = |n: &u64| n % 50 == 7;
    for n in (0..LOGS).filter(|n| !waits(n)) {
        store.shards[0].settle(log(n), 0..1, BODY_BYTES as u64);
    }
    store.sync().unwrap();
    store.roll();
    let waiting = (0..LOGS).filter(waits).count() as u64 * BODY_BYTES as u64;
    let read = bytes_read(&world, || store.flush().unwrap());
    assert!(read <= 4 * waiting, "{read} bytes read for {waiting}");
    (0..LOGS).filter(waits).for_each(|n| check(&mut store, n));

    store.checkpoint().unwrap();
    store.close().unwrap();
    let (mut store, _) = world.open();
    (0..LOGS).filter(waits).for_each(|n| check(&mut store, n));
}

#[test]
fn damage_to_one_message_is_told_of_that_one_alone() {
    let world = killed();
    let damaged = body(777);
    for path in world.files(".wal") {
        world.disk.tamper(&path, |bytes| {
            let found = bytes.windows(BODY_BYTES).position(|body| *body == damaged);
            if let Some(at) = found {
                bytes[at + 9] ^= 4;
            }
        });
    }
    let (mut store, _) = world.open();
    let other = |n: &u64| n % 100 == 77 && *n != 777;
    (0..LOGS).filter(other).for_each(|n| check(&mut store, n));
    assert!(matches!(store.read(log(777), 0), Read::Damaged(_)));
}

/// The memory that a message keeps from being freed.
fn memory_bytes(message: Read) -> usize {
    let Read::Ready(body) = message else {
        panic!("{message:?}");
    };
    let buffer = body.try_into_mut().expect("nobody else has it");
    buffer.capacity()
}

#[test]
fn a_small_message_takes_little_memory_for_as_long_as_it_is_held() {
    let world = killed();
    let (mut store, _) = world.open();
    let of_chunk = store.read(log(7), 0);
    store.roll();
    store.flush().unwrap();
    let of_segment = store.read(log(8), 0);
    drop(store);
    for message in [of_chunk, of_segment] {
        let bytes = memory_bytes(message);
        assert!(bytes <= 4 * BODY_BYTES, "{bytes} bytes for {BODY_BYTES}");
    }
}

#[test]
fn a_large_message_among_small_ones_counts_for_what_it_is() {
    const LARGE_BYTES: usize = 100_000;
    let world = World::with_wal_files_of(4 << 20);
    let (mut store, _) = world.open();
    append(&mut store, log(0), &payload(0, LARGE_BYTES));
    for n in 1..BATCH {
        append(&mut store, log(n), &body(n));
    }
    store.sync().unwrap();
    drop(store);
    let (mut store, _) = world.open();
    let large = store.read(log(0), 0);
    assert_eq!(large, Read::Ready(payload(0, LARGE_BYTES).into()));
    let counted = store.shards[0].stats().loaded_bytes;
    assert!(counted >= LARGE_BYTES, "{counted}");
}
