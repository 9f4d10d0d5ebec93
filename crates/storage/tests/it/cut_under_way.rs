//! Logs that are truncated while a flush or a compaction copies what they had: what was cut off
//! does not come back, and what came in its place stays, here and after a start.

use crate::common::{A, World, payload};
use leveret_storage::{
    CompactionPlan, Durability, FlushPlan, Generation, LogKind, MemoryDisk, Read, Recovered,
    recover,
};
use std::ops::{ControlFlow, Range};

const ENTRIES: u64 = 100;
const BYTES: u64 = 20_000;
/// What is appended after a cut, told from what was there before.
const NEW: Range<u64> = 200..203;

fn open(world: &World) -> Recovered<MemoryDisk> {
    recover(&world.disk, &world.folders, &world.options).unwrap()
}

fn append(parts: &mut Recovered<MemoryDisk>, numbers: Range<u64>) {
    let logs = &mut parts.shards[0];
    for n in numbers {
        let body = logs.body(Durability::Durable, &[&payload(n, BYTES as usize)]);
        logs.append(A, body, BYTES as u32);
    }
    let mut chunks = Vec::new();
    logs.seal(&mut chunks);
    while !chunks.is_empty() {
        let written = parts.wal.write(&mut chunks).unwrap().written;
        logs.on_durable(written.into_iter().map(|(_, chunk, place)| (chunk, place)));
    }
}

/// A store with entries whose file of the log is full; the file's number.
fn filled() -> (World, Recovered<MemoryDisk>, Generation) {
    let mut world = World::new();
    world.options.wal_file_bytes = 4 << 20;
    let mut parts = open(&world);
    parts.shards[0].create_log(A, LogKind::Durable);
    append(&mut parts, 0..ENTRIES);
    let through = parts.wal.roll().expect("there is a file");
    (world, parts, through)
}

fn finish_flush(parts: &mut Recovered<MemoryDisk>, plan: &FlushPlan) {
    let mut go_on = |_| ControlFlow::Continue(());
    let written = parts.segment.flush(plan, &mut go_on).unwrap();
    parts.shards[0].finish_flush(plan, written);
}

/// The entries from an index on are the payloads of these numbers.
fn check(parts: &mut Recovered<MemoryDisk>, from: u64, numbers: &[u64]) {
    let logs = &mut parts.shards[0];
    let next_index = logs.log_stats(A).expect("it is there").next_index;
    assert_eq!(next_index, from + numbers.len() as u64);
    for (index, n) in (from..).zip(numbers) {
        while logs.read(A, index) == Read::Pending {
            for request in logs.take_reads() {
                logs.loaded(parts.reader.read(request));
            }
        }
        let expected = Read::Ready(payload(*n, BYTES as usize).into());
        assert!(logs.read(A, index) == expected, "entry {index} is {n}");
    }
}

fn checkpoint(parts: &mut Recovered<MemoryDisk>) {
    let told = [parts.shards[0].checkpoint_part()];
    let next_file = parts.segment.next_file();
    let checkpoint = &mut parts.checkpoint;
    let written = checkpoint.write(&told, next_file, &mut parts.pool, 0);
    written.unwrap();
    parts.shards[0].finish_checkpoint(&told[0]);
}

fn compact(parts: &mut Recovered<MemoryDisk>, plan: &CompactionPlan) {
    let mut go_on = |_| ControlFlow::Continue(());
    let written = parts.segment.compact(plan, &mut go_on).unwrap();
    parts.shards[0].finish_compaction(plan, written);
}

/// The same, after a start as well, and once more when what came last is in a segment and the file
/// of what was there before was copied for the last entry that it has.
fn check_for_good(world: &World, mut parts: Recovered<MemoryDisk>, from: u64, numbers: &[u64]) {
    check(&mut parts, from, numbers);
    checkpoint(&mut parts);
    drop(parts);
    let mut parts = open(world);
    check(&mut parts, from, numbers);
    if let Some(through) = parts.wal.roll().or(parts.flush_through) {
        let plan = parts.shards[0].begin_flush(through);
        finish_flush(&mut parts, &plan);
    }
    let old = numbers.len() as u64 - (NEW.end - NEW.start);
    let dead = old.saturating_sub(1);
    parts.shards[0].settle(A, from..from + dead, dead * BYTES);
    if let Some(plan) = parts.shards[0].begin_compaction() {
        compact(&mut parts, &plan);
    }
    let (from, numbers) = (from + dead, &numbers[dead as usize..]);
    check(&mut parts, from, numbers);
    checkpoint(&mut parts);
    drop(parts);
    check(&mut open(world), from, numbers);
}

#[test]
fn what_is_cut_off_while_a_flush_copies_it_does_not_come_back() {
    // All of it, most, a little, and as it was before the last entry came.
    for from in [0, 1, 40, ENTRIES - 1] {
        let (world, mut parts, through) = filled();
        let plan = parts.shards[0].begin_flush(through);
        parts.shards[0].truncate(A, from);
        append(&mut parts, NEW);
        finish_flush(&mut parts, &plan);
        let expected: Vec<u64> = (0..from).chain(NEW).collect();
        check_for_good(&world, parts, 0, &expected);
    }
}

#[test]
fn what_is_cut_off_while_a_compaction_copies_it_does_not_come_back() {
    const LEFT: u64 = 10;
    for from in [ENTRIES - LEFT, ENTRIES - 5, ENTRIES - 1] {
        let (world, mut parts, through) = filled();
        let plan = parts.shards[0].begin_flush(through);
        finish_flush(&mut parts, &plan);
        parts.shards[0].settle(A, 0..ENTRIES - LEFT, (ENTRIES - LEFT) * BYTES);
        let plan = parts.shards[0].begin_compaction();
        let plan = plan.expect("most of it is dead");
        parts.shards[0].truncate(A, from);
        append(&mut parts, NEW);
        compact(&mut parts, &plan);
        let expected: Vec<u64> = (ENTRIES - LEFT..from).chain(NEW).collect();
        check_for_good(&world, parts, ENTRIES - LEFT, &expected);
    }
}

/// Volatile messages may be on their way out of memory while two flushes follow each other.
#[test]
fn what_came_after_a_cut_is_copied_whole_whatever_was_under_way_at_the_cut() {
    let (world, mut parts, _) = filled();
    let page_out = parts.shards[0].begin_page_out();
    parts.shards[0].truncate(A, 40);
    append(&mut parts, NEW);
    let through = parts.wal.roll().expect("there is a file");
    let plan = parts.shards[0].begin_flush(through);
    finish_flush(&mut parts, &plan);
    finish_flush(&mut parts, &page_out);
    let expected: Vec<u64> = (0..40).chain(NEW).collect();
    check_for_good(&world, parts, 0, &expected);
}
