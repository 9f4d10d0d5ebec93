//! A backlog in three logs of one fan-out, taken by nobody and then worked off: what it costs in
//! memory does not depend on its length, and nothing of it remains.

use crate::common::{World, payload};
use leveret_storage::{Durability, LogKind, MemoryDisk, Read, Store};
use leveret_types::LogId;
use leveret_types::limits::CHUNK_BYTES;

const LOGS: [LogId; 3] = [LogId(1), LogId(2), LogId(3)];
const BODY_BYTES: usize = 200;
const BACKLOG: u64 = 60_000;
/// How often what gathered is written, in messages.
const BATCH: u64 = 100;

/// Bytes of bodies that the store holds in memory.
fn held(store: &Store<MemoryDisk>) -> usize {
    let stats = store.shards[0].stats();
    stats.cached_bytes + stats.loaded_bytes
}

fn publish(store: &mut Store<MemoryDisk>, n: u64) {
    let shard = &mut store.shards[0];
    let body = shard.body(Durability::Durable, &[&payload(n, BODY_BYTES)]);
    for log in LOGS {
        shard.append(log, body, BODY_BYTES as u32);
    }
}

fn write_out(store: &mut Store<MemoryDisk>) {
    store.sync().unwrap();
    if store.wants_flush() {
        store.flush().unwrap();
        store.checkpoint().unwrap();
    }
}

#[test]
fn memory_flattens_while_a_backlog_grows_and_nothing_of_it_remains() {
    let world = World::new();
    let (mut store, _) = world.open();
    for log in LOGS {
        store.shards[0].create_log(log, LogKind::Durable);
    }
    let (cache, loaded) = (world.options.cache_bytes, world.options.loaded_bytes);
    let (mut first_half, mut all) = (0, 0);
    for n in 0..BACKLOG {
        publish(&mut store, n);
        if n % BATCH == 0 {
            write_out(&mut store);
        }
        all = all.max(held(&store));
        if n == BACKLOG / 2 {
            first_half = all;
        }
    }
    assert!(
        all <= cache + CHUNK_BYTES,
        "{all} bytes, a cache of {cache}"
    );
    assert!(
        all <= first_half + first_half / 10,
        "{first_half}, then {all}"
    );
    let backlog = BACKLOG as usize * BODY_BYTES;
    assert!(all * 5 < backlog, "{all} bytes for a backlog of {backlog}");

    // What is in memory can be told from what is not, without a read.
    let shard = &store.shards[0];
    assert_eq!(shard.cached(LOGS[0], 0), None);
    let newest = BACKLOG - BATCH;
    let cached = shard.cached(LOGS[0], newest).expect("in memory");
    assert_eq!(cached, payload(newest, BODY_BYTES));
    assert!(!shard.has_reads());

    for n in 0..BACKLOG {
        for log in LOGS {
            let expected = Read::Ready(payload(n, BODY_BYTES).into());
            assert_eq!(store.read(log, n), expected, "entry {n} of log {log}");
            store.shards[0].settle(log, n..n + 1, BODY_BYTES as u64);
        }
        all = all.max(held(&store));
        if n % BATCH == 0 {
            write_out(&mut store);
        }
    }
    let limit = cache + loaded + CHUNK_BYTES;
    assert!(all <= limit, "{all} bytes while it clears, not {limit}");
    for log in LOGS {
        assert_eq!(store.shards[0].log_stats(log).unwrap().entries, 0);
    }
    store.flush().unwrap();
    store.close().unwrap();
    assert_eq!(world.files(".seg").len(), 0);
}

#[test]
fn a_plan_says_how_many_bytes_it_will_copy() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(LOGS[0], LogKind::Durable);
    for n in 0..10 {
        let shard = &mut store.shards[0];
        let body = shard.body(Durability::Durable, &[&payload(n, BODY_BYTES)]);
        shard.append(LOGS[0], body, BODY_BYTES as u32);
    }
    store.sync().unwrap();
    store.roll();
    for (settled, left) in [(0..0, 10), (0..4, 6), (4..10, 0)] {
        let shard = &mut store.shards[0];
        let bytes = settled.clone().count() * BODY_BYTES;
        shard.settle(LOGS[0], settled, bytes as u64);
        let plan = shard.begin_flush(u64::MAX);
        assert_eq!(plan.entries(), left);
        assert_eq!(plan.bytes(), left * BODY_BYTES as u64);
        shard.abandon_flush(&plan);
    }
}

#[test]
fn a_plan_says_whose_it_is() {
    let mut world = World::new();
    world.options.shards = 2;
    let (mut store, _) = world.open();
    for shard in [1, 0] {
        let logs = &mut store.shards[shard];
        let plan = logs.begin_flush(u64::MAX);
        assert_eq!(usize::from(plan.shard()), shard);
        logs.abandon_flush(&plan);
        let bytes = 20_000;
        logs.create_log(LOGS[shard], LogKind::Durable);
        for n in 0..100 {
            let body = logs.body(Durability::Durable, &[&payload(n, bytes)]);
            logs.append(LOGS[shard], body, bytes as u32);
        }
        store.sync().unwrap();
        store.roll();
        store.flush().unwrap();
        let logs = &mut store.shards[shard];
        logs.settle(LOGS[shard], 0..90, 90 * bytes as u64);
        let plan = logs.begin_compaction().expect("most of it is dead");
        assert_eq!(usize::from(plan.shard()), shard);
        logs.abandon_compaction(&plan);
    }
}
