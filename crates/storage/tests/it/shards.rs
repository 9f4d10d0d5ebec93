//! Shards of one store whose entries go into segments at different times: the files of the
//! write-ahead log that one of them waits for tell of the others' entries as well.

use crate::common::{A, B, World, payload};
use leveret_storage::{Durability, LogKind, MemoryDisk, Read, Recovered, ShardLogs, recover};
use leveret_types::LogId;
use std::ops::ControlFlow;

const C: LogId = LogId(3);

fn append(shard: &mut ShardLogs, log: LogId, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let payload = payload(n, 900);
        let body = shard.body(Durability::Durable, &[&payload]);
        shard.append(log, body, payload.len() as u32);
    }
}

fn sync(parts: &mut Recovered<MemoryDisk>) {
    let mut chunks = Vec::new();
    for shard in &mut parts.shards {
        shard.seal(&mut chunks);
    }
    while !chunks.is_empty() {
        for (shard, seq, place) in parts.wal.write(&mut chunks).unwrap().written {
            parts.shards[usize::from(shard)].on_durable([(seq, place)]);
        }
    }
}

/// Brings what one shard has into a segment, and writes a checkpoint of all.
fn flush(parts: &mut Recovered<MemoryDisk>, shard: usize) {
    let through = parts.wal.roll().expect("something was written");
    let plan = parts.shards[shard].begin_flush(through);
    let each = &mut |_| ControlFlow::Continue(());
    let written = parts.segment.flush(&plan, each).unwrap();
    parts.shards[shard].finish_flush(&plan, written);
    checkpoint(parts);
}

/// Writes a checkpoint of all shards.
fn checkpoint(parts: &mut Recovered<MemoryDisk>) {
    let told: Vec<_> = parts
        .shards
        .iter_mut()
        .map(|s| s.checkpoint_part())
        .collect();
    sync(parts);
    let next_file = parts.segment.next_file();
    let (checkpoint, pool) = (&mut parts.checkpoint, &mut parts.pool);
    checkpoint.write(&told, next_file, pool, 0).unwrap();
    for (shard, told) in parts.shards.iter_mut().zip(&told) {
        shard.finish_checkpoint(told);
    }
}

#[test]
fn what_one_shard_has_in_segments_is_not_looked_for_in_the_log_that_another_waits_for() {
    let mut world = World::new();
    world.options.shards = 2;
    let mut parts = recover(&world.disk, &world.folders, &world.options).unwrap();
    for (shard, log) in [(0, A), (0, C), (1, B)] {
        parts.shards[shard].create_log(log, LogKind::Durable);
    }
    append(&mut parts.shards[0], A, 0..3);
    append(&mut parts.shards[0], C, 0..3);
    append(&mut parts.shards[1], B, 0..3);
    sync(&mut parts);
    flush(&mut parts, 0);
    append(&mut parts.shards[0], C, 3..5);
    append(&mut parts.shards[1], B, 3..5);
    sync(&mut parts);
    drop(parts);
    for start in 0..2 {
        let (mut store, report) = world.open();
        assert_eq!(report.notes, Vec::<String>::new(), "start {start}");
        assert_eq!(report.segment_files, 1);
        for (log, count) in [(A, 3), (C, 5), (B, 5)] {
            for n in 0..count {
                let expected = Read::Ready(payload(n, 900).into());
                assert_eq!(store.read(log, n), expected, "entry {n} of log {log}");
            }
            assert_eq!(store.read(log, count), Read::Gone);
        }
        assert!(store.found.iter().all(|log| log.damage.is_none()));
    }
}
