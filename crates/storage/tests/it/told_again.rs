//! What a start is told twice, by a checkpoint and by the write-ahead log, and what work that is
//! done again and again leaves behind.

use crate::common::{A, B, World, append, append_all, check_all, flush_all, payload};
use leveret_storage::{Durability, LogKind, MemoryDisk, Read, Store};

const STATE: &[u8] = b"a state that nothing else looks like";

/// A record whose effect the checkpoint has is not needed any more.
#[test]
fn damage_to_what_a_checkpoint_tells_as_well_hits_no_log() {
    for has_checkpoint in [true, false] {
        let world = World::new();
        let (mut store, _) = world.open();
        append_all(&mut store, A, 3, 100);
        store.shards[0].set_state(A, STATE);
        append(&mut store, B, &payload(7, 100));
        store.sync().unwrap();
        store.mark_idle().unwrap();
        if has_checkpoint {
            store.checkpoint().unwrap();
        }
        drop(store);
        world.flip_within(&world.only_file(".wal"), STATE);
        let (mut store, _) = world.open();
        assert_eq!(store.shards[0].damage(A).is_none(), has_checkpoint);
        assert_eq!(store.shards[0].damage(B), None);
        if has_checkpoint {
            assert_eq!(store.shards[0].state(A), STATE);
            check_all(&mut store, A, 0..3, 100);
        }
    }
}

/// What was settled, truncated or deleted before the checkpoint stays so, although the write-ahead
/// log that is read again has all of it.
#[test]
fn what_a_checkpoint_has_is_not_done_again() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 10, 100);
    append_all(&mut store, B, 4, 100);
    store.sync().unwrap();
    store.shards[0].settle(A, 0..4, 400);
    store.shards[0].truncate(A, 8);
    store.shards[0].set_term_and_vote(A, 3, 1);
    store.shards[0].delete_log(B);
    store.sync().unwrap();
    store.checkpoint().unwrap();
    // The same number again, for another log.
    store.shards[0].create_log(B, LogKind::Durable);
    append(&mut store, B, &payload(40, 100));
    store.shards[0].set_term_and_vote(A, 4, 2);
    store.sync().unwrap();
    drop(store);
    for start in 0..3 {
        let (mut store, _) = world.open();
        let live: Vec<u64> = store.shards[0].live(A).iter().flatten().collect();
        assert_eq!(live, [4, 5, 6, 7], "start {start}");
        let stats = store.shards[0].log_stats(A).unwrap();
        assert_eq!((stats.entries, stats.bytes, stats.next_index), (4, 400, 8));
        assert_eq!(store.shards[0].term_and_vote(A), Some((4, 2)));
        check_all(&mut store, A, 4..8, 100);
        assert_eq!(store.read(B, 0), Read::Ready(payload(40, 100).into()));
        assert_eq!(store.read(B, 1), Read::Gone);
        assert_eq!(store.shards[0].log_stats(B).unwrap().next_index, 1);
    }
}

/// A checkpoint never takes the place of the one that holds while it is written.
#[test]
fn each_checkpoint_has_a_number_and_a_file_of_its_own() {
    let world = World::new();
    let (mut store, report) = world.open();
    let (mut last, mut names) = (report.checkpoint, Vec::new());
    for round in 0..3 {
        for n in 0..2 {
            append(&mut store, A, &payload(2 * round + n, 100));
            store.sync().unwrap();
            store.checkpoint().unwrap();
            let file = world.only_file(".checkpoint");
            assert!(!names.contains(&file), "{file:?} again");
            names.push(file);
        }
        drop(store);
        let report;
        (store, report) = world.open();
        assert!(report.checkpoint >= last + 2, "{report:?} after {last}");
        last = report.checkpoint;
        check_all(&mut store, A, 0..2 * round + 2, 100);
    }
}

/// Entries that are in segments and entries that are not, of one log and of several: each start
/// finds each where it is, and goes on behind them.
#[test]
fn a_log_goes_on_behind_what_it_has_wherever_that_is() {
    let world = World::with_wal_files_of(64 << 10);
    let mut count = 0;
    for round in 0..6 {
        let (mut store, _) = world.open();
        check_all(&mut store, A, 0..count, 300);
        check_all(&mut store, B, 0..count, 300);
        for _ in 0..20 {
            for log in [A, B] {
                let index = append(&mut store, log, &payload(count, 300));
                assert_eq!(index, count, "round {round}");
            }
            count += 1;
        }
        match round % 3 {
            0 => store.sync().unwrap(),
            1 => flush_all(&mut store),
            _ => {
                store.sync().unwrap();
                store.roll();
                for n in 0..3 {
                    append(&mut store, A, &payload(count + n, 300));
                    append(&mut store, B, &payload(count + n, 300));
                }
                count += 3;
                store.sync().unwrap();
                store.flush().unwrap();
            }
        }
        check_all(&mut store, A, 0..count, 300);
    }
    let (mut store, _) = world.open();
    for log in [A, B] {
        check_all(&mut store, log, 0..count, 300);
        assert_eq!(store.shards[0].log_stats(log).unwrap().next_index, count);
        assert_eq!(store.shards[0].log_stats(log).unwrap().entries, count);
    }
}

/// A record tells of entries whose bodies lie in two files of the write-ahead log, and the older
/// one has gone: of that record only the rest counts.
#[test]
fn entries_behind_those_that_are_in_segments_are_found_by_a_record_that_tells_of_both() {
    let world = World::new();
    let (mut store, _) = world.open();
    for log in [A, B] {
        store.shards[0].create_log(log, LogKind::Durable);
    }
    let body = |store: &mut Store<MemoryDisk>, n: u64| {
        store.shards[0].body(Durability::Durable, &[&payload(n, 100)])
    };
    let early = [0, 1].map(|n| body(&mut store, n));
    store.sync().unwrap();
    store.roll();
    let late = [2, 3, 4].map(|n| body(&mut store, n));
    for body in early.into_iter().chain(late) {
        store.shards[0].append(A, body, 100);
    }
    store.sync().unwrap();
    store.flush().unwrap();
    assert_eq!(store.shards[0].log_stats(A).unwrap().segment_entries, 2);
    drop(store);
    let (mut store, _) = world.open();
    assert_eq!(store.shards[0].damage(A), None);
    check_all(&mut store, A, 0..5, 100);
    // What comes next has a place of its own.
    append(&mut store, B, &payload(50, 100));
    append(&mut store, A, &payload(5, 100));
    check_all(&mut store, A, 0..6, 100);
    assert_eq!(store.read(B, 0), Read::Ready(payload(50, 100).into()));
    flush_all(&mut store);
    check_all(&mut store, A, 0..6, 100);
    drop(store);
    let (mut store, _) = world.open();
    check_all(&mut store, A, 0..6, 100);
    assert_eq!(store.read(B, 0), Read::Ready(payload(50, 100).into()));
}

#[test]
#[should_panic(expected = "one page-out at a time")]
fn a_page_out_is_over_before_the_next_one_begins() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Volatile);
    for n in 0..500 {
        let body = store.shards[0].body(Durability::Volatile, &[&payload(n, 5_000)]);
        store.shards[0].append(A, body, 5_000);
    }
    let plan = store.shards[0].begin_page_out();
    // One that was not carried out is planned again.
    store.shards[0].abandon_flush(&plan);
    store.shards[0].begin_page_out();
    store.shards[0].begin_page_out();
}
