//! What a shard keeps in memory: the limit at which volatile bodies go to segments, and buffers
//! that it was given as they are.

use crate::common::{A, B, World, append, flush_all, payload};
use bytes::Bytes;
use leveret_storage::{Durability, LogKind, MemoryDisk, Read, Store, recover};
use leveret_types::LogId;
use leveret_types::limits::{CHUNK_BYTES, SEGMENT_BLOCK_BYTES};

/// A quarter of a chunk: four of them and no more go into one.
const QUARTER_BYTES: usize = CHUNK_BYTES / 4;

/// A store whose cache holds so many chunks, with a log for bodies of each class.
fn with_cache_of(chunks: usize) -> Store<MemoryDisk> {
    let mut world = World::with_wal_files_of(64 << 20);
    world.options.cache_bytes = chunks * CHUNK_BYTES;
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Volatile);
    store.shards[0].create_log(B, LogKind::Durable);
    store
}

/// Fills whole chunks of volatile bodies; the last one is not sealed before more comes.
fn fill_volatile(store: &mut Store<MemoryDisk>, chunks: usize) {
    for n in 0..chunks as u64 * 4 {
        let shard = &mut store.shards[0];
        let body = shard.body(Durability::Volatile, &[&payload(n, QUARTER_BYTES)]);
        shard.append(A, body, QUARTER_BYTES as u32);
    }
}

/// Fills chunks of durable bodies that are on no disk yet, of a chunk's size and one body each.
fn fill_durable(store: &mut Store<MemoryDisk>, chunks: u64) {
    for n in 0..chunks {
        let shard = &mut store.shards[0];
        let body = shard.body(Durability::Durable, &[&payload(n, CHUNK_BYTES)]);
        shard.append(B, body, CHUNK_BYTES as u32);
    }
}

#[test]
fn volatile_bodies_go_to_segments_when_they_exceed_the_cache_by_a_byte() {
    let mut store = with_cache_of(4);
    // One that still gathers does not count.
    fill_volatile(&mut store, 5);
    assert!(!store.shards[0].wants_page_out(), "they fill the cache");
    fill_volatile(&mut store, 1);
    assert!(store.shards[0].wants_page_out());
    let plan = store.shards[0].begin_page_out();
    assert!(!store.shards[0].wants_page_out(), "it is under way");
    store.shards[0].abandon_flush(&plan);
    assert!(store.shards[0].wants_page_out());
    store.page_out().unwrap();
    assert!(!store.shards[0].wants_page_out());
    assert!(store.shards[0].stats().segment_files > 0);
    for n in 0..24 {
        let expected = Read::Ready(payload(n % 20, QUARTER_BYTES).into());
        assert_eq!(store.read(A, n), expected, "entry {n}");
    }
}

/// Durable ones are let go as soon as they are on the disk: no page-out helps against them.
#[test]
fn volatile_bodies_that_are_taken_at_once_take_no_more_than_the_cache() {
    let mut store = with_cache_of(4);
    for n in 0..40 {
        let shard = &mut store.shards[0];
        let body = shard.body(Durability::Volatile, &[&payload(n, CHUNK_BYTES)]);
        shard.append(A, body, CHUNK_BYTES as u32);
        shard.settle(A, n..n + 1, CHUNK_BYTES as u64);
    }
    // One more still gathers.
    let cached = store.shards[0].stats().cached_bytes;
    assert!(cached < 6 * CHUNK_BYTES, "{cached}");
}

#[test]
fn volatile_bodies_stay_while_durable_ones_take_half_of_the_cache() {
    let mut store = with_cache_of(4);
    fill_durable(&mut store, 4);
    fill_volatile(&mut store, 3);
    let cached = store.shards[0].stats().cached_bytes;
    assert!(cached > 6 * CHUNK_BYTES, "more than there may be: {cached}");
    assert!(!store.shards[0].wants_page_out(), "half of it is volatile");
    fill_volatile(&mut store, 1);
    assert!(store.shards[0].wants_page_out(), "more than half is");
    // Less than there may be, most of it volatile.
    let mut store = with_cache_of(4);
    fill_volatile(&mut store, 4);
    assert!(!store.shards[0].wants_page_out());
}

/// A flush lasts, and what it holds the cache cannot let go of: it holds a quarter of the cache's
/// bytes, the newest ones, and reads the others from the log's file.
#[test]
fn a_flush_holds_a_quarter_of_the_cache_and_not_a_byte_more() {
    for (count, read) in [(1, 0), (2, 0), (3, 1), (8, 6)] {
        let mut world = World::with_wal_files_of(64 << 20);
        world.options.cache_bytes = 8 * CHUNK_BYTES;
        let (mut store, _) = world.open();
        store.shards[0].create_log(B, LogKind::Durable);
        fill_durable(&mut store, count);
        store.sync().unwrap();
        store.roll();
        let before = world.disk.counts().read_bytes;
        store.flush().unwrap();
        let bytes = (world.disk.counts().read_bytes - before) as usize;
        let read = read * CHUNK_BYTES..(read + 1) * CHUNK_BYTES;
        assert!(
            read.contains(&bytes),
            "{bytes} bytes read of {count} chunks"
        );
        for n in 0..count {
            let expected = Read::Ready(payload(n, CHUNK_BYTES).into());
            assert!(store.read(B, n) == expected, "entry {n}");
        }
    }
}

#[test]
fn a_buffer_that_is_given_as_it_is_is_read_as_it_was_everywhere() {
    let world = World::with_wal_files_of(64 << 20);
    let (mut store, _) = world.open();
    let lens = [0, 1, 40, 5_000, CHUNK_BYTES, 3 * CHUNK_BYTES + 1];
    let body = |at: usize| payload(at as u64, lens[at % lens.len()]);
    let count = 3 * lens.len();
    for log in [A, B] {
        store.shards[0].create_log(log, LogKind::Durable);
    }
    for at in 0..count {
        let (shard, bytes) = (&mut store.shards[0], body(at));
        let len = bytes.len() as u32;
        let own = match at % 3 {
            0 => shard.body(Durability::Durable, &[&bytes]),
            _ => shard.body_shared(Durability::Durable, Bytes::from(bytes)),
        };
        shard.append(A, own, len);
        shard.append(B, own, len);
        if at % 4 == 0 {
            store.sync().unwrap();
        }
    }
    let check = |store: &mut Store<MemoryDisk>| {
        for (log, at) in [A, B]
            .into_iter()
            .flat_map(|log| (0..count).map(move |at| (log, at)))
        {
            let read = store.read(log, at as u64);
            assert!(read == Read::Ready(body(at).into()), "{log} {at}");
        }
    };
    check(&mut store);
    store.sync().unwrap();
    drop(store);
    let (mut store, _) = world.open();
    check(&mut store);
    store.close().unwrap();
    let (mut store, report) = world.open();
    assert!(report.clean);
    check(&mut store);
}

#[test]
fn volatile_buffers_that_are_given_as_they_are_fill_chunks_as_others_do() {
    let mut store = with_cache_of(4);
    for n in 0..24 {
        let shard = &mut store.shards[0];
        let bytes = Bytes::from(payload(n, QUARTER_BYTES));
        let body = shard.body_shared(Durability::Volatile, bytes);
        shard.append(A, body, QUARTER_BYTES as u32);
        assert_eq!(shard.wants_page_out(), n >= 20, "body {n}");
    }
    store.page_out().unwrap();
    for n in 0..24 {
        let expected = Read::Ready(payload(n, QUARTER_BYTES).into());
        assert_eq!(store.read(A, n), expected, "entry {n}");
    }
}

/// A body that two shards have is written once, also where it was given as a buffer.
#[test]
fn a_buffer_that_another_shard_has_is_not_written_again() {
    const BYTES: usize = 100_000;
    let mut written = Vec::new();
    for is_shared in [true, false] {
        let mut world = World::with_wal_files_of(8 << 20);
        world.options.shards = 2;
        let (mut store, _) = world.open();
        store.shards[0].create_log(A, LogKind::Durable);
        store.shards[1].create_log(B, LogKind::Durable);
        store.prepare(1).unwrap();
        let before = world.disk.counts().written_bytes;
        let bytes = Bytes::from(payload(1, BYTES));
        let body = store.shards[0].body_shared(Durability::Durable, bytes.clone());
        store.shards[0].append(A, body, BYTES as u32);
        let shared = store.shards[0].share(body).expect("it gathers still");
        let body = match is_shared {
            true => store.shards[1].body_shared_again(shared, bytes.clone()),
            false => store.shards[1].body_shared(Durability::Durable, bytes.clone()),
        };
        store.shards[1].append(B, body, BYTES as u32);
        store.sync().unwrap();
        written.push(world.disk.counts().written_bytes - before);
        drop(store);
        let (mut store, _) = world.open();
        assert_eq!(store.read(A, 0), Read::Ready(bytes.clone()));
        assert_eq!(store.read(B, 0), Read::Ready(bytes));
    }
    // Sectors are written as a whole.
    let (once, twice) = (BYTES as u64, 2 * BYTES as u64);
    assert!(written[0] < once * 5 / 4, "{written:?}");
    assert!(written[1] >= twice, "{written:?}");
}

#[test]
fn no_more_is_read_at_once_than_there_is_room_for_and_all_in_the_end() {
    const LOGS: u64 = 8;
    // The least that a shard has.
    let room = 4 * SEGMENT_BLOCK_BYTES;
    // With its head one is too large, which is read all the same, if nothing else is.
    for (bytes, most) in [
        (room, 1),
        (room / 2, 1),
        (room / 2 - 1_000, 2),
        (room / 5, 4),
    ] {
        let mut world = World::with_wal_files_of(64 << 20);
        world.options.loaded_bytes = 0;
        let (mut store, _) = world.open();
        for log in 0..LOGS {
            append(&mut store, LogId(log), &payload(log, bytes));
            store.sync().unwrap();
        }
        flush_all(&mut store);
        store.close().unwrap();
        let mut parts = recover(&world.disk, &world.folders, &world.options).unwrap();
        let logs = &mut parts.shards[0];
        for log in 0..LOGS {
            assert_eq!(logs.read(LogId(log), 0), Read::Pending);
        }
        let (mut done, mut at_once) = (0, 0);
        while logs.has_reads() {
            let requests = logs.take_reads();
            at_once = at_once.max(requests.len());
            for request in requests {
                for log in logs.loaded(parts.reader.read(request)) {
                    let expected = Read::Ready(payload(log.0, bytes).into());
                    assert_eq!(logs.read(log, 0), expected);
                    done += 1;
                }
            }
        }
        assert_eq!((at_once, done), (most, LOGS), "of {bytes} bytes");
    }
}

/// Else a large one might wait for ever, with small ones that always fit.
#[test]
fn nothing_is_read_before_what_was_asked_for_earlier_and_waits_for_room() {
    let room = 4 * SEGMENT_BLOCK_BYTES;
    let mut world = World::with_wal_files_of(64 << 20);
    world.options.loaded_bytes = 0;
    let (mut store, _) = world.open();
    for (log, bytes) in [(0, room / 10 * 6), (1, room / 10 * 6), (2, room / 10 * 3)] {
        append(&mut store, LogId(log), &payload(log, bytes));
        store.sync().unwrap();
    }
    flush_all(&mut store);
    store.close().unwrap();
    let mut parts = recover(&world.disk, &world.folders, &world.options).unwrap();
    let logs = &mut parts.shards[0];
    for log in 0..3 {
        assert_eq!(logs.read(LogId(log), 0), Read::Pending);
    }
    let mut read: Vec<Vec<LogId>> = Vec::new();
    while logs.has_reads() {
        let requests = logs.take_reads().into_iter();
        let loaded = requests.map(|request| parts.reader.read(request));
        let loaded: Vec<_> = loaded.collect();
        read.push(loaded.into_iter().flat_map(|of| logs.loaded(of)).collect());
    }
    assert_eq!(read, [vec![LogId(0)], vec![LogId(1), LogId(2)]]);
}
