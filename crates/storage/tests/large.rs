//! Messages that are many times what the segment writer holds at once.

mod common;

use common::{A, B, World, append, flush_all, payload};
use leveret_storage::{MemoryDisk, Read, Store};
use leveret_types::limits::{SEGMENT_BLOCK_BYTES, SEGMENT_PART_BYTES};

const LARGE_BYTES: usize = 5 * SEGMENT_PART_BYTES + 7;

/// A store that was killed with a large message between small ones, none of them in its cache.
fn killed() -> World {
    let world = World::with_wal_files_of(16 << 20);
    let (mut store, _) = world.open();
    append(&mut store, A, &payload(0, 100));
    append(&mut store, A, &payload(1, LARGE_BYTES));
    append(&mut store, A, &payload(2, 100));
    store.sync().unwrap();
    drop(store);
    world
}

fn check(store: &mut Store<MemoryDisk>, index: u64, bytes: usize) {
    let expected = Read::Ready(payload(index, bytes).into());
    assert!(store.read(A, index) == expected, "entry {index}");
}

/// Most bytes that were read at once while this was done.
fn largest_read(world: &World, work: impl FnOnce()) -> usize {
    world.disk.reset_counts();
    work();
    usize::try_from(world.disk.counts().largest_read_bytes).unwrap()
}

#[test]
fn a_large_message_goes_to_a_segment_in_parts_and_is_the_same_there() {
    let world = killed();
    let (mut store, _) = world.open();
    let largest = largest_read(&world, || flush_all(&mut store));
    assert!(largest <= SEGMENT_PART_BYTES, "{largest} bytes at once");
    drop(store);
    let (mut store, _) = world.open();
    for (index, bytes) in [(0, 100), (1, LARGE_BYTES), (2, 100)] {
        check(&mut store, index, bytes);
    }
}

#[test]
fn a_compaction_copies_a_large_message_in_parts() {
    let world = killed();
    let (mut store, _) = world.open();
    let dead: u64 = 150;
    for n in 0..dead {
        append(&mut store, B, &payload(n, SEGMENT_BLOCK_BYTES));
    }
    flush_all(&mut store);
    store.shards[0].settle(B, 0..dead, dead * SEGMENT_BLOCK_BYTES as u64);
    flush_all(&mut store);
    let mut compacted = false;
    let largest = largest_read(&world, || {
        compacted = store.compact().unwrap();
    });
    assert!(compacted, "most of the file is dead");
    assert!(largest <= SEGMENT_PART_BYTES, "{largest} bytes at once");
    drop(store);
    let (mut store, _) = world.open();
    check(&mut store, 1, LARGE_BYTES);
}

#[test]
fn a_damaged_large_message_is_reported_and_the_others_are_moved() {
    let world = killed();
    let (mut store, _) = world.open();
    let file = world.files(".wal").remove(0);
    let middle = payload(1, LARGE_BYTES)[SEGMENT_PART_BYTES..][..64].to_vec();
    world.disk.tamper(&file, |bytes| {
        let large = bytes
            .windows(64)
            .rposition(|window| window == middle)
            .unwrap();
        bytes[large] ^= 1;
    });
    flush_all(&mut store);
    assert!(
        matches!(store.read(A, 1), Read::Damaged(_)),
        "{:?}",
        store.read(A, 1)
    );
    check(&mut store, 0, 100);
    check(&mut store, 2, 100);
}

#[test]
fn a_message_of_one_part_and_one_of_a_byte_more_are_moved() {
    let world = World::with_wal_files_of(16 << 20);
    let (mut store, _) = world.open();
    let sizes = [SEGMENT_PART_BYTES, SEGMENT_PART_BYTES + 1];
    for (n, bytes) in (0..).zip(sizes) {
        append(&mut store, A, &payload(n, bytes));
    }
    store.sync().unwrap();
    drop(store);
    let (mut store, _) = world.open();
    flush_all(&mut store);
    drop(store);
    let (mut store, _) = world.open();
    for (n, bytes) in (0..).zip(sizes) {
        check(&mut store, n, bytes);
    }
}
