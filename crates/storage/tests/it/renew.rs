//! Logs that begin again under their ids: what was before never comes back, whatever was damaged
//! and whenever the process ends.

use crate::common::{A, B, World, append, append_all, check_all, flush_all, payload};
use leveret_storage::{MemoryDisk, Read, Store, recover};
use leveret_types::LogId;
use std::ops::ControlFlow;

const OLD_BYTES: usize = 3_000;
const NEW_BYTES: usize = 500;

/// The log holds `count` entries of its second life, and nothing of its first.
fn check_new(store: &mut Store<MemoryDisk>, log: LogId, count: u64) {
    let logs = &store.shards[0];
    assert_eq!(logs.damage(log), None);
    assert_eq!(logs.state(log), b"");
    assert_eq!(logs.term_and_vote(log), None);
    let stats = logs.log_stats(log).expect("it is there");
    assert_eq!((stats.entries, stats.next_index), (count, count));
    check_all(store, log, 0..count, NEW_BYTES);
    assert_eq!(store.read(log, count), Read::Gone);
}

/// A log of which a part is in segments, and a part in the write-ahead log.
fn with_a_first_life(world: &World) -> Store<MemoryDisk> {
    let (mut store, _) = world.open();
    append_all(&mut store, A, 100, OLD_BYTES);
    append_all(&mut store, B, 10, OLD_BYTES);
    flush_all(&mut store);
    append_all(&mut store, A, 50, OLD_BYTES);
    store.shards[0].set_state(A, b"of the first life");
    store.shards[0].set_term_and_vote(A, 7, 1);
    store.sync().unwrap();
    store.mark_idle().unwrap();
    store
}

#[test]
fn a_crash_leaves_the_old_log_or_the_new_one() {
    let world = World::new();
    let mut store = with_a_first_life(&world);
    store.shards[0].renew_log(A);
    append_all(&mut store, A, 60, NEW_BYTES);
    check_new(&mut store, A, 60);
    let unwritten = world.on_copy(|_| ());
    let (old, _) = unwritten.open();
    assert_eq!(old.shards[0].log_stats(A).map(|s| s.entries), Some(150));
    assert_eq!(old.shards[0].state(A), b"of the first life");
    drop(old);
    flush_all(&mut store);
    // More than the new log's first block, so that the old one's would be looked at too.
    for n in 60..100 {
        append(&mut store, A, &payload(n, NEW_BYTES));
    }
    store.sync().unwrap();
    // In the write-ahead log, with the old entries in segments and before it; then in segments
    // itself; then merged with what was left; then closed in order.
    let moments: [fn(&mut Store<MemoryDisk>); 4] = [
        |_| (),
        flush_all,
        |store| while store.compact().unwrap() {},
        |store| {
            store.checkpoint().unwrap();
        },
    ];
    for go_on in moments {
        go_on(&mut store);
        check_new(&mut store, A, 100);
        let (mut crashed, _) = world.on_copy(|_| ()).open();
        check_new(&mut crashed, A, 100);
        check_all(&mut crashed, B, 0..10, OLD_BYTES);
        // And what a crashed start makes of it.
        flush_all(&mut crashed);
        check_new(&mut crashed, A, 100);
    }
    store.close().unwrap();
    let (mut store, report) = world.open();
    assert!(report.clean);
    check_new(&mut store, A, 100);
}

#[test]
fn what_the_old_log_had_in_segments_is_not_counted_as_alive() {
    let world = World::new();
    let mut store = with_a_first_life(&world);
    flush_all(&mut store);
    let alive = |store: &Store<MemoryDisk>| store.shards[0].stats().segment_live_bytes;
    let both = alive(&store);
    store.shards[0].renew_log(A);
    // Of 160 entries 10 are the other log's.
    let left = alive(&store);
    assert!(left > 0 && left < both / 10, "{left} of {both}");
}

#[test]
fn an_id_is_used_over_and_over_while_files_of_the_log_are_recycled() {
    let world = World::with_wal_files_of(64 * 1024);
    let (mut store, _) = world.open();
    append_all(&mut store, B, 10, OLD_BYTES);
    for life in 0..40_u64 {
        append_all(&mut store, A, 12, OLD_BYTES);
        store.sync().unwrap();
        if life % 3 == 0 && store.wants_flush() {
            store.flush().unwrap();
        }
        store.shards[0].renew_log(A);
        append_all(&mut store, A, life % 5, NEW_BYTES);
        store.sync().unwrap();
        let (mut crashed, _) = world.on_copy(|_| ()).open();
        check_new(&mut crashed, A, life % 5);
        check_all(&mut crashed, B, 0..10, OLD_BYTES);
        store.shards[0].renew_log(A);
        if life % 7 == 0 {
            drop(store);
            (store, _) = world.open();
            store.shards[0].renew_log(A);
        }
    }
}

/// Damages the disk, renews what is damaged, and ends the process at once and once more.
fn renew_what_is_hit(world: &World, hit: impl FnOnce(&MemoryDisk)) -> usize {
    let world = world.on_copy(hit);
    let (mut store, _) = world.open();
    let is_hit = |log: &LogId| store.shards[0].damage(*log).is_some();
    let renewed: Vec<LogId> = [A, B].into_iter().filter(is_hit).collect();
    for log in &renewed {
        store.shards[0].renew_log(*log);
        append_all(&mut store, *log, 3, NEW_BYTES);
    }
    store.sync().unwrap();
    drop(store);
    for _ in 0..2 {
        let (mut store, _) = world.open();
        for log in &renewed {
            check_new(&mut store, *log, 3);
        }
    }
    let (mut store, _) = world.open();
    flush_all(&mut store);
    for log in &renewed {
        check_new(&mut store, *log, 3);
    }
    renewed.len()
}

#[test]
fn a_damaged_log_is_sound_when_it_has_begun_again_and_stays_so() {
    let world = World::new();
    drop(with_a_first_life(&world));
    let mut renewed = 0;
    for file in [".wal", ".seg"].iter().flat_map(|end| world.files(end)) {
        let sectors = world.used_bytes(&file) / 512;
        for sector in (0..sectors).step_by(3) {
            renewed += renew_what_is_hit(&world, |disk| {
                disk.tamper(&file, |bytes| bytes[sector * 512] ^= 0x10);
            });
        }
    }
    assert!(renewed > 50, "{renewed}");
}

#[test]
fn what_is_lost_without_a_trace_before_a_log_begins_again_is_not_its_own() {
    let mut world = World::new();
    // What is in the log's files says where a batch is.
    world.options.wal_pool_files = 0;
    let mut store = with_a_first_life(&world);
    let wal = world.files(".wal").pop().expect("it writes one");
    // Two batches, the second of which has the copy of the first one's head: with both heads lost,
    // nobody knows whose the first one was.
    let start = world.used_bytes(&wal);
    for n in 0..2 {
        append(&mut store, B, &payload(n, 9_000));
        store.sync().unwrap();
    }
    let lost = (start..world.used_bytes(&wal)).step_by(512);
    store.mark_idle().unwrap();
    drop(store);
    let corrupt = world.on_copy(|disk| {
        disk.tamper(&wal, |bytes| {
            lost.for_each(|at| bytes[at..at + 8].fill(0xEE));
        });
    });
    let (mut store, _) = corrupt.open();
    assert!(store.shards[0].damage(A).is_some());
    assert!(store.shards[0].damage(B).is_some());
    store.shards[0].renew_log(A);
    append_all(&mut store, A, 3, NEW_BYTES);
    store.sync().unwrap();
    drop(store);
    let (mut store, _) = corrupt.open();
    check_new(&mut store, A, 3);
    assert!(store.shards[0].damage(B).is_some(), "B did not begin again");
}

#[test]
fn what_a_flush_cannot_read_of_the_first_life_does_not_hurt_the_second() {
    let mut world = World::new();
    // Nothing is cached, so that the flush reads the file.
    world.options.cache_bytes = 0;
    drop(with_a_first_life(&world));
    let wal = world.files(".wal").pop().expect("it writes one");
    world.flip_within(&wal, &payload(3, OLD_BYTES));
    let found = recover(&world.disk, &world.folders, &world.options);
    let mut found = found.unwrap_or_else(|error| panic!("{error}"));
    let logs = &mut found.shards[0];
    let plan = logs.begin_flush(found.flush_through.expect("there is a log to flush"));
    assert!(plan.entries() > 0);
    logs.renew_log(A);
    for n in 0..150 {
        let body = logs.body(
            leveret_storage::Durability::Durable,
            &[&payload(n, NEW_BYTES)],
        );
        logs.append(A, body, NEW_BYTES as u32);
    }
    let written = found
        .segment
        .flush(&plan, &mut |_| ControlFlow::Continue(()));
    logs.finish_flush(&plan, written.expect("memory is written"));
    assert_eq!(logs.damage(A), None);
    assert_eq!(logs.log_stats(A).map(|stats| stats.entries), Some(150));
}
