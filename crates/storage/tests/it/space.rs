//! What the store takes on disk, and what it writes to keep that small: files that logs share,
//! compaction, one entry that waits among many that do not.

use crate::common::{A, World, append, check_all, flush_all, payload};
use leveret_storage::{
    CheckpointError, Durability, Generation, LogKind, MemoryDisk, Read, Recovered, SegmentError,
    ShardLogs, Store, recover,
};
use leveret_types::LogId;
use leveret_types::limits::{SEGMENT_BYTES_MAX, SEGMENT_SMALL_FILES_MAX};
use std::ops::{ControlFlow, Range};

/// One log that fills and empties again and again, while many small ones only grow.
const LARGE: LogId = LogId(1_000_000);
const SMALL_LOGS: u64 = 500;
const SMALL_BYTES: usize = 400;
const LARGE_BYTES: usize = 10_000;

fn settle_all(store: &mut Store<MemoryDisk>, log: LogId) {
    let stats = store.shards[0].log_stats(log).expect("the log is there");
    store.shards[0].settle(log, 0..stats.next_index, stats.bytes);
}

/// Fills the large log and gives every small one an entry in between; all of it is flushed.
fn fill(store: &mut Store<MemoryDisk>, round: u64) {
    for n in 0..SMALL_LOGS {
        for _ in 0..4 {
            append(store, LARGE, &payload(n, LARGE_BYTES));
        }
        append(store, LogId(n), &payload(round, SMALL_BYTES));
    }
    flush_all(store);
}

fn segment_bytes(store: &Store<MemoryDisk>) -> u64 {
    store.shards[0].stats().segment_bytes
}

#[test]
fn small_logs_in_a_large_ones_files_are_copied_once_however_often_it_empties() {
    let world = World::with_wal_files_of(64 << 20);
    let (mut store, _) = world.open();
    const ROUNDS: u64 = 12;
    let mut copied = 0;
    for round in 0..ROUNDS {
        fill(&mut store, round);
        settle_all(&mut store, LARGE);
        let before = world.disk.counts().written_bytes;
        while store.compact().unwrap() {}
        copied += world.disk.counts().written_bytes - before;
        let small = (round + 1) * SMALL_LOGS * SMALL_BYTES as u64;
        let left = segment_bytes(&store);
        assert!(left < small * 2, "round {round}: {left} bytes hold {small}");
    }
    // What is copied comes into files of its own kind, which do not die with the large log: it is
    // not copied again in every round. The rest is checkpoints and heads of blocks.
    let small = ROUNDS * SMALL_LOGS * SMALL_BYTES as u64;
    assert!(copied < small * 2, "{copied} bytes written to keep {small}");
    for log in (0..SMALL_LOGS).step_by(17) {
        check_all(&mut store, LogId(log), 0..ROUNDS, SMALL_BYTES);
    }
}

#[test]
fn a_large_log_is_not_copied_when_small_ones_in_its_files_empty() {
    let world = World::with_wal_files_of(64 << 20);
    let (mut store, _) = world.open();
    fill(&mut store, 0);
    let full = segment_bytes(&store);
    for log in 0..SMALL_LOGS {
        settle_all(&mut store, LogId(log));
    }
    let before = world.disk.counts().written_bytes;
    assert!(!store.compact().unwrap(), "its files are mostly alive");
    assert_eq!(world.disk.counts().written_bytes, before);
    assert!(segment_bytes(&store) <= full);
    settle_all(&mut store, LARGE);
    store.checkpoint().unwrap();
    assert_eq!(segment_bytes(&store), 0);
}

#[test]
fn many_small_logs_share_files() {
    let world = World::with_wal_files_of(64 << 20);
    let (mut store, _) = world.open();
    for log in 0..10_000 {
        append(&mut store, LogId(log), &payload(0, 100));
        append(&mut store, LogId(log), &payload(1, 100));
    }
    store.close().unwrap();
    assert!(world.disk.paths().len() < 15, "{:?}", world.disk.paths());
    let (mut store, _) = world.open();
    for log in (0..10_000).step_by(97) {
        check_all(&mut store, LogId(log), 0..2, 100);
    }
}

#[test]
fn one_unsettled_message_does_not_hold_what_was_around_it() {
    let world = World::with_wal_files_of(8 << 20);
    let (mut store, _) = world.open();
    for n in 0..4000 {
        append(&mut store, A, &payload(n, 20_000));
        if n % 50 == 0 {
            store.sync().unwrap();
            store.flush().unwrap();
        }
    }
    flush_all(&mut store);
    let full = world.disk.bytes();
    assert!(full > 80_000_000, "{full}");
    // In each file one message stays.
    for start in (0..4000).step_by(400) {
        store.shards[0].settle(A, start + 1..start + 400, 399 * 20_000);
    }
    assert!(store.compact().unwrap());
    while store.compact().unwrap() {}
    let left = segment_bytes(&store);
    assert!(left < 1_000_000, "{left} bytes of segments");
    check_all(&mut store, A, (0..4000).step_by(400), 20_000);
    assert_eq!(store.read(A, 1), Read::Gone);
    drop(store);
    let (mut store, _) = world.open();
    check_all(&mut store, A, (0..4000).step_by(400), 20_000);
}

/// Leaves one message waiting for each flush, and compacts whenever there is reason to. Gives the
/// bytes that compactions wrote.
fn leave_behind(store: &mut Store<MemoryDisk>, world: &World, numbers: Range<u64>) -> u64 {
    let mut copied = 0;
    for number in numbers {
        append(store, A, &payload(number, SMALL_BYTES));
        flush_all(store);
        let before = world.disk.counts().written_bytes;
        while store.compact().unwrap() {}
        copied += world.disk.counts().written_bytes - before;
    }
    copied
}

#[test]
fn files_are_merged_when_there_is_one_small_one_too_many() {
    let world = World::new();
    let (mut store, _) = world.open();
    let most = SEGMENT_SMALL_FILES_MAX as u64;
    assert_eq!(leave_behind(&mut store, &world, 0..most), 0);
    assert_eq!(store.shards[0].stats().segment_files, most as usize);
    assert!(leave_behind(&mut store, &world, most..most + 1) > 0);
    assert_eq!(store.shards[0].stats().segment_files, 1);
    check_all(&mut store, A, 0..=most, SMALL_BYTES);
}

#[test]
fn messages_that_stay_behind_are_in_few_files_and_copied_a_few_times() {
    let world = World::new();
    let (mut store, _) = world.open();
    const FLUSHES: u64 = 2_000;
    let copied = leave_behind(&mut store, &world, 0..FLUSHES);
    let files = store.shards[0].stats().segment_files;
    assert!(files <= 3 * SEGMENT_SMALL_FILES_MAX + 2, "{files} files");
    let live = FLUSHES * SMALL_BYTES as u64;
    // Once for each class of sizes, of which there are three; and heads, footers, checkpoints.
    assert!(copied < live * 5, "{copied} bytes copied of {live}");
    check_all(&mut store, A, 0..FLUSHES, SMALL_BYTES);
}

#[test]
fn what_is_being_drained_is_not_copied_until_that_pauses() {
    let world = World::with_wal_files_of(8 << 20);
    let (mut store, _) = world.open();
    for log in 0..1_000 {
        append(&mut store, LogId(log), &payload(log, SMALL_BYTES));
    }
    flush_all(&mut store);
    let shard = &mut store.shards[0];
    for log in 0..800 {
        shard.settle(LogId(log), 0..1, SMALL_BYTES as u64);
        let plan = shard.begin_compaction_if_quiet();
        assert!(plan.is_none(), "{log}: the next one goes soon");
    }
    let plan = shard.begin_compaction_if_quiet();
    let plan = plan.expect("nothing went since, and most of it is dead");
    assert_eq!(plan.victim_count(), 1);
    shard.abandon_compaction(&plan);
}

#[test]
fn a_drain_that_leaves_more_than_a_files_dead_bytes_does_not_hold_up_a_merge() {
    const BYTES: usize = 17_000;
    let world = World::with_wal_files_of(64 << 20);
    let (mut store, _) = world.open();
    // Each round is a file of its own.
    for round in 0..13 {
        for log in 0..500 {
            append(&mut store, LogId(log), &payload(round, BYTES));
        }
        flush_all(&mut store);
    }
    let shard = &mut store.shards[0];
    let settle = |shard: &mut ShardLogs, round: u64, logs: Range<u64>| {
        for log in logs {
            shard.settle(LogId(log), round..round + 1, BYTES as u64);
        }
        let stats = shard.stats();
        stats.segment_bytes - stats.segment_live_bytes > SEGMENT_BYTES_MAX
    };
    for round in 0..13 {
        // Something goes from each of the files before as well.
        for before in 0..round {
            settle(shard, before, 300 + round..301 + round);
        }
        let is_much = settle(shard, round, 0..300);
        assert_eq!(is_much, round == 12);
        let plan = shard.begin_compaction_if_quiet();
        assert_eq!(plan.is_some(), is_much, "round {round}");
    }
}

/// Writes a hundred messages of 20,000 bytes to the log and ends its file; gives the file's number.
fn fill_a_file(parts: &mut Recovered<MemoryDisk>) -> Generation {
    let logs = &mut parts.shards[0];
    logs.create_log(A, LogKind::Durable);
    for n in 0..100 {
        let body = logs.body(Durability::Durable, &[&payload(n, 20_000)]);
        logs.append(A, body, 20_000);
    }
    let mut chunks = Vec::new();
    logs.seal(&mut chunks);
    while !chunks.is_empty() {
        let written = parts.wal.write(&mut chunks).unwrap().written;
        logs.on_durable(written.into_iter().map(|(_, chunk, place)| (chunk, place)));
    }
    parts.wal.roll().expect("there is a file")
}

#[test]
fn a_compaction_tells_its_pace_of_what_it_reads_and_of_what_it_writes() {
    let world = World::new();
    let mut parts: Recovered<MemoryDisk> =
        recover(&world.disk, &world.folders, &world.options).unwrap();
    let through = fill_a_file(&mut parts);
    let logs = &mut parts.shards[0];
    let plan = logs.begin_flush(through);
    let written = parts
        .segment
        .flush(&plan, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    logs.finish_flush(&plan, written);
    logs.settle(A, 0..90, 90 * 20_000);
    let plan = logs.begin_compaction().expect("most of it is dead");
    let before = world.disk.counts();
    let mut told = 0;
    let written = parts
        .segment
        .compact(&plan, &mut |bytes| {
            told += bytes;
            ControlFlow::Continue(())
        })
        .unwrap();
    let after = world.disk.counts();
    logs.finish_compaction(&plan, written);
    let moved = after.read_bytes - before.read_bytes + after.written_bytes - before.written_bytes;
    // Headers and footers of files are not told.
    assert!(
        told <= moved && told + 4096 > moved,
        "told {told} of {moved}"
    );
}

#[test]
fn a_checkpoint_that_frees_a_full_disk_is_written_into_what_was_kept_aside() {
    let world = World::new();
    let mut parts: Recovered<MemoryDisk> =
        recover(&world.disk, &world.folders, &world.options).unwrap();
    assert!(parts.checkpoint.keep_reserve().unwrap(), "there is space");
    let reserve = world.only_file(".reserve");
    let full = world.disk.bytes();
    world.disk.set_bytes_max(Some(full));
    let write = |parts: &mut Recovered<MemoryDisk>| {
        let part = parts.shards[0].checkpoint_part();
        let next_file = parts.segment.next_file();
        parts
            .checkpoint
            .write(&[part], next_file, &mut parts.pool, 0)
    };
    write(&mut parts).expect("the space that was kept aside");
    assert!(
        !world.disk.paths().contains(&reserve),
        "it was given up for the checkpoint"
    );
    world.disk.set_bytes_max(Some(world.disk.bytes()));
    let refused = write(&mut parts);
    assert!(
        matches!(refused, Err(CheckpointError::NoSpace)),
        "{refused:?}"
    );
    assert!(
        !parts.checkpoint.keep_reserve().unwrap(),
        "there is none yet"
    );
    assert!(
        !world.disk.paths().contains(&reserve),
        "nothing is left of the attempt"
    );
    world.disk.set_bytes_max(None);
    assert!(parts.checkpoint.keep_reserve().unwrap());
    assert!(world.disk.paths().contains(&reserve));
    write(&mut parts).expect("there is space");
    assert!(
        world.disk.paths().contains(&reserve),
        "it is kept while there is"
    );
}

/// Appends one small entry and makes it durable; answers how long the log's only file is then.
fn log_file_bytes(world: &World, store: &mut Store<MemoryDisk>, n: u64) -> usize {
    append(store, SMALL, &payload(n, 100));
    store.sync().unwrap();
    let mut len = 0;
    world
        .disk
        .tamper(&world.only_file(".wal"), |b| len = b.len());
    len
}

const SMALL: LogId = LogId(7);

#[test]
fn the_logs_file_grows_ahead_of_small_batches_and_not_with_each() {
    let world = World::with_wal_files_of(8 << 20);
    let (mut store, _) = world.open();
    let mut lengths: Vec<usize> = (0..200)
        .map(|n| log_file_bytes(&world, &mut store, n))
        .collect();
    lengths.dedup();
    assert!((2..=8).contains(&lengths.len()), "{lengths:?}");
    drop(store);
    let (mut store, report) = world.open();
    assert_eq!((report.batches, report.torn_bytes), (200, 0), "{report:?}");
    for n in 0..200 {
        assert_eq!(store.read(SMALL, n), Read::Ready(payload(n, 100).into()));
    }
}

#[test]
fn a_batch_is_written_where_there_is_no_room_for_what_is_ahead_of_it() {
    let world = World::with_wal_files_of(8 << 20);
    let (mut store, _) = world.open();
    let first = log_file_bytes(&world, &mut store, 0);
    let mut written = 0;
    world.disk.set_bytes_max(Some(world.disk.bytes() + 20_000));
    let last = loop {
        written += 1;
        let len = log_file_bytes(&world, &mut store, written);
        if len > first {
            break len;
        }
    };
    assert!(last - first <= 20_000, "{first} {last}");
    assert_eq!(
        store.read(SMALL, written),
        Read::Ready(payload(written, 100).into())
    );
}

#[test]
fn a_flush_that_is_broken_off_leaves_no_file_and_can_be_done_again() {
    let world = World::new();
    let mut parts: Recovered<MemoryDisk> =
        recover(&world.disk, &world.folders, &world.options).unwrap();
    let through = fill_a_file(&mut parts);
    let logs = &mut parts.shards[0];
    let segments = || world.files(".seg").len();
    let plan = logs.begin_flush(through);
    let mut blocks = 0;
    let broken = parts.segment.flush(&plan, &mut |_| {
        blocks += 1;
        assert_eq!(segments(), 1);
        match blocks {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(broken, Err(SegmentError::BrokenOff)));
    assert_eq!((blocks, segments()), (3, 0));
    logs.abandon_flush(&plan);

    let plan = logs.begin_flush(through);
    let written = parts
        .segment
        .flush(&plan, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    logs.finish_flush(&plan, written);
    assert_eq!(segments(), 1);
}

#[test]
fn what_was_read_and_is_deleted_is_closed_by_all_readers() {
    let mut world = World::with_wal_files_of(1 << 20);
    world.options.wal_pool_files = 0;
    world.options.cache_bytes = 0;
    let Recovered {
        mut shards,
        mut wal,
        mut segment,
        mut checkpoint,
        mut pool,
        reader,
        lock: _lock,
        ..
    } = recover(&world.disk, &world.folders, &world.options).unwrap();
    let shard = &mut shards[0];
    shard.create_log(A, LogKind::Durable);
    let mut readers = [reader.another(), reader.another()];
    let mut read = |shard: &mut ShardLogs, index: u64| {
        let reader = &mut readers[index as usize % 2];
        while shard.read(A, index) == Read::Pending {
            for request in shard.take_reads() {
                shard.loaded(reader.read(request));
            }
        }
        assert!(
            matches!(shard.read(A, index), Read::Ready(_)),
            "entry {index}"
        );
    };
    let mut at = 0;
    for _ in 0..4 {
        let mut chunks = Vec::new();
        for _ in 0..100 {
            let bytes = payload(at, LARGE_BYTES);
            let body = shard.body(Durability::Durable, &[&bytes]);
            shard.append(A, body, LARGE_BYTES as u32);
            at += 1;
        }
        shard.seal(&mut chunks);
        while !chunks.is_empty() {
            let written = wal.write(&mut chunks).unwrap().written;
            shard.on_durable(written.into_iter().map(|(_, seq, place)| (seq, place)));
        }
        // Out of the log, then out of segments.
        (at - 100..at).for_each(|index| read(shard, index));
        let through = wal.roll().expect("something was written");
        let plan = shard.begin_flush(through);
        let written = segment
            .flush(&plan, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        shard.finish_flush(&plan, written);
        (0..at).for_each(|index| read(shard, index));
    }
    let stats = shard.log_stats(A).expect("the log is there");
    shard.settle(A, 0..at, stats.bytes);
    let part = shard.checkpoint_part();
    let mut chunks = Vec::new();
    shard.seal(&mut chunks);
    let written = wal.write(&mut chunks).unwrap().written;
    shard.on_durable(written.into_iter().map(|(_, seq, place)| (seq, place)));
    let next_file = segment.next_file();
    let released = checkpoint.write(&[part], next_file, &mut pool, 0).unwrap();
    assert!(released.deleted_files > 1, "{released:?}");
    let named: u64 = world
        .disk
        .paths()
        .iter()
        .map(|path| {
            let mut len = 0;
            world.disk.tamper(path, |bytes| len = bytes.len());
            len as u64
        })
        .sum();
    assert_eq!(world.disk.bytes(), named, "nobody has open what is deleted");
}

#[test]
fn a_log_file_that_cannot_grow_any_more_gives_way_to_a_prepared_one() {
    let world = World::with_wal_files_of(1 << 20);
    let (mut store, _) = world.open();
    append(&mut store, SMALL, &payload(0, 100));
    store.sync().unwrap();
    store.prepare(1).unwrap();
    world.disk.set_bytes_max(Some(world.disk.bytes()));
    for n in 1..60 {
        append(&mut store, SMALL, &payload(n, 10_000));
        store.sync().expect("the prepared file has its space");
    }
    assert_eq!(world.files(".wal").len(), 2);
    world.disk.set_bytes_max(None);
    drop(store);
    let (mut store, report) = world.open();
    assert_eq!((report.batches, report.torn_bytes), (60, 0), "{report:?}");
    for n in 1..60 {
        assert_eq!(store.read(SMALL, n), Read::Ready(payload(n, 10_000).into()));
    }
}
