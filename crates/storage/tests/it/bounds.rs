//! Bounds of what is written at once, kept ready and kept open, and what is done once and not
//! again.

use crate::common::{A, B, World, append, append_all, check_all, flush_all, payload};
use leveret_storage::{
    Durability, LogKind, MemoryDisk, Read, Recovered, SealedChunk, Store, WalOutcome, recover,
};
use leveret_types::limits::WAL_BATCH_BYTES_MAX;
use std::ops::ControlFlow;

/// As many as the head of a batch may tell of.
const BATCH_CHUNKS_MAX: usize = 4_096;

fn recovered(world: &World) -> Recovered<MemoryDisk> {
    recover(&world.disk, &world.folders, &world.options).unwrap_or_else(|e| panic!("{e}"))
}

/// Begins log A.
fn begin(parts: &mut Recovered<MemoryDisk>) {
    let mut chunks = Vec::new();
    parts.shards[0].create_log(A, LogKind::Durable);
    parts.shards[0].seal(&mut chunks);
    assert_eq!(written(parts, chunks), [1]);
}

/// So many chunks of log A, with one entry of so many bytes each.
fn chunks(parts: &mut Recovered<MemoryDisk>, count: usize, bytes: usize) -> Vec<SealedChunk> {
    let (shard, mut chunks) = (&mut parts.shards[0], Vec::new());
    for n in 0..count {
        let body = shard.body(Durability::Durable, &[&payload(n as u64, bytes)]);
        shard.append(A, body, bytes as u32);
        shard.seal(&mut chunks);
    }
    assert_eq!(chunks.len(), count);
    chunks
}

/// How many chunks each write takes until none is left.
fn written(parts: &mut Recovered<MemoryDisk>, mut chunks: Vec<SealedChunk>) -> Vec<usize> {
    let mut counts = Vec::new();
    while !chunks.is_empty() {
        let outcome: WalOutcome = parts.wal.write(&mut chunks).expect("there is space");
        counts.push(outcome.written.len());
        let places = outcome.written.into_iter();
        parts.shards[0].on_durable(places.map(|(_, seq, place)| (seq, place)));
    }
    counts
}

#[test]
fn a_batch_has_no_more_chunks_than_its_head_can_tell_of() {
    let world = World::with_wal_files_of(8 << 20);
    let mut parts = recovered(&world);
    begin(&mut parts);
    let chunks = chunks(&mut parts, BATCH_CHUNKS_MAX + 10, 20);
    assert_eq!(written(&mut parts, chunks), [BATCH_CHUNKS_MAX, 10]);
    drop(parts);
    let (mut store, report) = world.open();
    assert_eq!((report.batches, report.notes), (3, Vec::new()));
    check_all(&mut store, A, (0..4_106).step_by(97), 20);
    assert_eq!(store.found[0].live.len(), 4_106);
}

#[test]
fn a_batch_has_no_more_bytes_than_its_bound_unless_one_chunk_has() {
    let world = World::with_wal_files_of(64 << 20);
    let mut parts = recovered(&world);
    begin(&mut parts);
    // Three and what describes them fit, four do not.
    let each = WAL_BATCH_BYTES_MAX / 4;
    let several = chunks(&mut parts, 7, each);
    assert_eq!(written(&mut parts, several), [3, 3, 1]);
    let mut mixed = chunks(&mut parts, 1, WAL_BATCH_BYTES_MAX + 1);
    mixed.extend(chunks(&mut parts, 1, 100));
    assert_eq!(written(&mut parts, mixed), [1, 1]);
}

#[test]
fn what_is_durable_is_said_once() {
    let world = World::new();
    let mut parts = recovered(&world);
    assert_eq!(parts.wal.mark_idle().expect("there is space").bytes, 0);
    begin(&mut parts);
    for _ in 0..2 {
        let one = chunks(&mut parts, 1, 100);
        written(&mut parts, one);
        assert!(parts.wal.mark_idle().expect("there is space").bytes > 0);
        let before = world.disk.counts();
        for _ in 0..3 {
            let outcome = parts.wal.mark_idle().expect("there is space");
            assert_eq!(outcome, WalOutcome::default());
        }
        assert_eq!(world.disk.counts(), before);
    }
}

/// Files of the log that are full of log A; nothing is flushed.
fn full_files(world: &World, count: u64) -> Store<MemoryDisk> {
    let (mut store, _) = world.open();
    for n in 0..count {
        append(&mut store, A, &payload(n, 50_000));
        store.sync().expect("there is space");
        store.roll();
    }
    assert_eq!(world.files(".wal").len() as u64, count);
    store
}

#[test]
fn of_files_that_are_given_back_no_more_are_kept_than_are_wanted() {
    for wanted in [0, 1, 3] {
        let mut world = World::with_wal_files_of(256 * 1024);
        world.options.wal_pool_files = wanted;
        let mut store = full_files(&world, 6);
        store.flush().expect("there is space");
        assert_eq!(world.files(".free").len(), wanted);
        assert_eq!(world.files(".wal").len(), 0);
        for path in world.files(".free") {
            let mut len = 0;
            world.disk.tamper(&path, |bytes| len = bytes.len());
            assert_eq!(len, 256 * 1024, "one that grew gets its size");
        }
        drop(store);
        let (mut store, _) = world.open();
        check_all(&mut store, A, 0..6, 50_000);
    }
}

#[test]
fn a_file_that_has_outgrown_its_size_is_not_kept() {
    let world = World::with_wal_files_of(256 * 1024);
    let (mut store, _) = world.open();
    append(&mut store, A, &payload(0, 700_000));
    store.sync().expect("there is space");
    store.roll();
    append(&mut store, A, &payload(1, 700));
    store.sync().expect("there is space");
    store.roll();
    assert_eq!(world.files(".wal").len(), 2);
    store.flush().expect("there is space");
    assert_eq!(world.files(".wal").len(), 0);
    let mut lengths = Vec::new();
    for path in world.files(".free") {
        world.disk.tamper(&path, |bytes| lengths.push(bytes.len()));
    }
    assert_eq!(lengths, [256 * 1024]);
    assert_eq!(store.read(A, 0), Read::Ready(payload(0, 700_000).into()));
}

/// Where files of the log are small, one of them is what a start on a full disk needs.
#[test]
fn a_file_that_is_given_back_becomes_the_one_for_starts_where_that_is_missing() {
    let world = World::with_wal_files_of(1 << 20);
    let mut parts = recovered(&world);
    let file = parts.pool.prepare().expect("there is space");
    parts.wal.supply(file);
    begin(&mut parts);
    let one = chunks(&mut parts, 1, 1_000);
    written(&mut parts, one);
    world.disk.set_bytes_max(Some(world.disk.bytes() + 100_000));
    let reserve = || world.files("log.reserve").len();
    assert!(!parts.pool.keep_reserve().expect("no failure"));
    assert_eq!(reserve(), 0);
    let through = parts.wal.roll().expect("it was written to");
    let plan = parts.shards[0].begin_flush(through);
    let each = &mut |_| ControlFlow::Continue(());
    let flushed = parts.segment.flush(&plan, each).expect("there is space");
    parts.shards[0].finish_flush(&plan, flushed);
    let part = parts.shards[0].checkpoint_part();
    let next_file = parts.segment.next_file();
    let released = parts
        .checkpoint
        .write(&[part], next_file, &mut parts.pool, 0)
        .expect("there is space");
    assert!(released.recycled.is_empty());
    assert_eq!((reserve(), world.files(".free").len()), (1, 0));
    assert!(parts.pool.keep_reserve().expect("no failure"));
}

#[test]
fn a_checkpoint_is_wanted_from_just_so_many_dead_bytes_on() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 10, 1_000);
    append_all(&mut store, B, 1, 1_000);
    assert!(!store.shards[0].wants_checkpoint(0), "nothing is dead");
    flush_all(&mut store);
    let bytes = store.shards[0].stats().segment_bytes;
    let wants = |store: &Store<MemoryDisk>, least| store.shards[0].wants_checkpoint(least);
    store.shards[0].settle(A, 0..10, 10_000);
    assert!(!wants(&store, 0), "B needs the file");
    store.shards[0].settle(B, 0..1, 1_000);
    assert!(wants(&store, 0) && wants(&store, bytes));
    assert!(!wants(&store, bytes + 1));
    store.checkpoint().expect("there is space");
    assert_eq!(world.files(".seg").len(), 0);
    assert!(!wants(&store, 0));
}

/// The search for the next batch behind a damaged one reads a megabyte at a time.
#[test]
fn what_lies_behind_a_long_stretch_of_damage_is_found() {
    let world = World::with_wal_files_of(16 << 20);
    let (mut store, _) = world.open();
    store.prepare(1).expect("there is space");
    append(&mut store, A, &payload(0, 1_000));
    store.sync().expect("there is space");
    let path = world.only_file(".wal");
    let start = world.used_bytes(&path);
    for n in 0..5 {
        append(&mut store, B, &payload(n, 700_000));
        store.sync().expect("there is space");
    }
    let end = world.used_bytes(&path);
    for n in 1..4 {
        append(&mut store, A, &payload(n, 1_000));
        store.sync().expect("there is space");
    }
    drop(store);
    assert!(end - start > 3 << 20);
    // All sectors of heads, or all bytes: it is behind three full reads, or right at their end.
    for lost in [
        start..end,
        start..start + (1 << 20) + 4_096,
        start..start + (1 << 20),
    ] {
        let corrupt = world.on_copy(|disk| {
            assert!(disk.tamper(&path, |bytes| bytes[lost.clone()].fill(0xEE)));
        });
        for start in 0..2 {
            let (mut store, report) = corrupt.open();
            assert!(!report.notes.is_empty(), "{lost:?}");
            check_all(&mut store, A, 0..4, 1_000);
            assert!(
                store.shards[0].damage(B).is_some(),
                "{lost:?}, start {start}"
            );
            assert!(!matches!(store.read(B, 0), Read::Ready(_)), "{lost:?}");
        }
    }
}

/// So that no sync of the log waits behind all of a segment file.
#[test]
fn a_segment_file_is_synced_as_it_is_written() {
    let world = World::with_wal_files_of(64 << 20);
    let (mut store, _) = world.open();
    for n in 0..22 {
        append(&mut store, A, &payload(n, 1 << 20));
    }
    store.sync().expect("there is space");
    store.roll();
    let before = world.disk.counts().syncs;
    store.flush().expect("there is space");
    let syncs = world.disk.counts().syncs - before;
    assert!((22 / 4..22 / 4 + 4).contains(&syncs), "{syncs}");
}

/// What a checkpoint says of a log that was truncated it says for as long as there are files from
/// before.
#[test]
fn a_truncation_is_forgotten_with_the_last_file_from_before_it() {
    let bytes = |world: &World| {
        let mut len = 0;
        world
            .disk
            .tamper(&world.only_file(".checkpoint"), |bytes| len = bytes.len());
        len
    };
    let lengths = |is_truncated: bool| {
        let world = World::new();
        let (mut store, _) = world.open();
        append_all(&mut store, A, if is_truncated { 10 } else { 5 }, 1_000);
        flush_all(&mut store);
        if is_truncated {
            store.shards[0].truncate(A, 5);
        }
        store.checkpoint().expect("there is space");
        let with_file = bytes(&world);
        store.shards[0].settle(A, 0..5, 5_000);
        store.checkpoint().expect("there is space");
        assert_eq!(world.files(".seg").len(), 0);
        store.checkpoint().expect("there is space");
        (with_file, bytes(&world))
    };
    let (truncated, plain) = (lengths(true), lengths(false));
    // Twice what says where it was cut, and for which files.
    assert_eq!(truncated.0, plain.0 + 2 * 16);
    assert_eq!(truncated.1, plain.1);
}
