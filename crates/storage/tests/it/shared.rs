//! Bodies that several shards have: in the write-ahead log once, whatever happens to it then.

use crate::common::{World, payload};
use leveret_storage::inspect::inspect;
use leveret_storage::{Durability, LogKind, MemoryDisk, Read, SharedBody, Store};
use leveret_types::LogId;

const SHARDS: u16 = 4;
const BODY_BYTES: usize = 1_000;

fn log_of(shard: usize) -> LogId {
    LogId(shard as u64 + 1)
}

fn world() -> World {
    let mut world = World::new();
    world.options.shards = SHARDS;
    world
}

fn open(world: &World) -> Store<MemoryDisk> {
    let (mut store, report) = world.open();
    assert!(report.created);
    for (number, shard) in store.shards.iter_mut().enumerate() {
        shard.create_log(log_of(number), LogKind::Durable);
    }
    store
}

/// Appends a body to the log of the first shard, and says how others refer to it.
fn put_first(store: &mut Store<MemoryDisk>, n: u64) -> SharedBody {
    let shard = &mut store.shards[0];
    let body = shard.body(Durability::Durable, &[&payload(n, BODY_BYTES)]);
    shard.append(log_of(0), body, BODY_BYTES as u32);
    shard.share(body).expect("its chunk gathers")
}

fn put_again(store: &mut Store<MemoryDisk>, shard: usize, n: u64, shared: SharedBody) {
    let shard_logs = &mut store.shards[shard];
    let body = shard_logs.body_again(shared, &[&payload(n, BODY_BYTES)]);
    shard_logs.append(log_of(shard), body, BODY_BYTES as u32);
}

fn put_into_all(store: &mut Store<MemoryDisk>, n: u64) {
    let shared = put_first(store, n);
    (1..usize::from(SHARDS)).for_each(|shard| put_again(store, shard, n, shared));
}

fn assert_all_there(store: &mut Store<MemoryDisk>, count: u64) {
    for shard in 0..usize::from(SHARDS) {
        for n in 0..count {
            let read = store.read(log_of(shard), n);
            let expected = Read::Ready(payload(n, BODY_BYTES).into());
            assert_eq!(read, expected, "entry {n} of shard {shard}");
        }
        assert_eq!(store.read(log_of(shard), count), Read::Gone);
    }
}

/// Bytes of the write-ahead log that are not zero at the end.
fn log_bytes(world: &World) -> usize {
    let files = world.files(".wal");
    let used = files.iter().map(|path| {
        let mut used = 0;
        world.disk.tamper(path, |bytes| {
            used = bytes
                .iter()
                .rposition(|b| *b != 0)
                .map_or(0, |last| last + 1);
        });
        used
    });
    used.sum()
}

#[test]
fn a_body_of_every_shard_is_in_the_log_once() {
    const COUNT: u64 = 500;
    let world = world();
    let mut store = open(&world);
    for n in 0..COUNT {
        put_into_all(&mut store, n);
        if n % 50 == 49 {
            store.sync().unwrap();
        }
    }
    let body_bytes = COUNT as usize * BODY_BYTES;
    let written = log_bytes(&world);
    println!("{written} bytes for {body_bytes} of bodies in {SHARDS} shards");
    assert!(
        written < body_bytes * 12 / 10,
        "{written} bytes for {body_bytes} of bodies"
    );
    assert_all_there(&mut store, COUNT);
    drop(store);
    let told = inspect(&world.disk, &world.folders).unwrap().to_string();
    let references = COUNT * u64::from(SHARDS - 1);
    assert!(
        told.contains(&format!("{references} bodies there are those of other")),
        "{told}"
    );
    let (mut store, report) = world.open();
    assert_eq!(report.references, references);
    assert_eq!(report.notes, Vec::<String>::new());
    assert_all_there(&mut store, COUNT);
    store.close().unwrap();
    let (mut store, report) = world.open();
    assert!(report.clean);
    assert_all_there(&mut store, COUNT);
}

#[test]
fn a_body_is_referred_to_from_later_batches_of_its_file_and_written_again_in_another_file() {
    let world = world();
    let mut store = open(&world);
    let shared = put_first(&mut store, 0);
    store.sync().unwrap();
    let before = log_bytes(&world);
    put_again(&mut store, 1, 0, shared);
    store.sync().unwrap();
    let referred = log_bytes(&world) - before;
    store.roll();
    put_again(&mut store, 2, 0, shared);
    put_again(&mut store, 3, 0, shared);
    store.sync().unwrap();
    assert_eq!(world.files(".wal").len(), 2);
    let again = log_bytes(&world) - before - referred;
    // Batches begin at sectors: what counts is in which the body is.
    let holds = |path: &std::path::PathBuf| {
        let mut count = 0;
        let body = payload(0, BODY_BYTES);
        world.disk.tamper(path, |bytes| {
            count = bytes.windows(BODY_BYTES).filter(|w| *w == body).count();
        });
        count
    };
    let held: Vec<usize> = world.files(".wal").iter().map(holds).collect();
    assert_eq!(held, [1, 2], "{referred} and {again} bytes");
    for restart in 0..2 {
        assert_all_there(&mut store, 1);
        if restart == 0 {
            drop(store);
            store = world.open().0;
        }
    }
}

#[test]
fn a_shard_reads_what_it_refers_to_when_the_first_one_has_done_with_it() {
    const COUNT: u64 = 2_000;
    let mut world = world();
    world.options.cache_bytes = 64 * 1024;
    let mut store = open(&world);
    for n in 0..COUNT {
        put_into_all(&mut store, n);
        if n % 20 == 19 {
            store.sync().unwrap();
        }
        // The first shard's consumer keeps up; its parts of files are flushed first, too.
        store.shards[0].settle(log_of(0), n..n + 1, BODY_BYTES as u64);
        if store.wants_flush() {
            store.flush().unwrap();
        }
    }
    for round in 0..2 {
        assert_eq!(store.read(log_of(0), 0), Read::Gone);
        for shard in 1..usize::from(SHARDS) {
            for n in 0..COUNT {
                let expected = Read::Ready(payload(n, BODY_BYTES).into());
                assert_eq!(store.read(log_of(shard), n), expected, "round {round}");
            }
        }
        drop(store);
        store = world.open().0;
    }
}

#[test]
fn a_tail_that_is_written_again_is_no_longer_than_it_was() {
    const COUNT: u64 = 100;
    let world = world();
    let mut store = open(&world);
    for n in 0..COUNT {
        put_into_all(&mut store, n);
    }
    store.sync().unwrap();
    drop(store);
    let before = log_bytes(&world);
    let (mut store, report) = world.open();
    assert!(report.rewritten_bytes > 0, "{report:?}");
    let after = log_bytes(&world) - before;
    assert!(after <= before, "{after} bytes were {before}");
    assert_all_there(&mut store, COUNT);
}

#[test]
fn corruption_of_a_shared_body_is_reported_by_all_that_have_it_and_by_nobody_else() {
    let world = world();
    let mut store = open(&world);
    put_into_all(&mut store, 0);
    let shared = put_first(&mut store, 1);
    put_again(&mut store, 2, 1, shared);
    store.sync().unwrap();
    store.mark_idle().unwrap();
    drop(store);
    let path = world.only_file(".wal");
    let body = payload(1, BODY_BYTES);
    world.disk.tamper(&path, |bytes| {
        let at = bytes.windows(BODY_BYTES).position(|w| *w == body);
        bytes[at.expect("the body is there") + 7] ^= 1;
    });
    let (store, _) = world.open();
    let damaged = store.found.iter().filter(|log| log.damage.is_some());
    let mut damaged: Vec<LogId> = damaged.map(|log| log.log).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, [log_of(0), log_of(2)]);
    let lost = |log: LogId| {
        let shard = &store.shards[log.0 as usize - 1];
        shard
            .damage(log)
            .map(|damage| damage.lost.iter().flatten().collect::<Vec<u64>>())
    };
    assert_eq!(lost(log_of(0)), Some(vec![1]));
    assert_eq!(lost(log_of(2)), Some(vec![1]));
}

#[test]
fn a_body_that_has_rotted_stays_lost_when_what_refers_to_it_is_written_again() {
    let world = world();
    let mut store = open(&world);
    let shared = put_first(&mut store, 0);
    store.sync().unwrap();
    // A start finds nothing that says of this batch that it is durable, and writes it again.
    put_again(&mut store, 1, 0, shared);
    store.sync().unwrap();
    drop(store);
    let path = world.only_file(".wal");
    let body = payload(0, BODY_BYTES);
    world.disk.tamper(&path, |bytes| {
        let at = bytes.windows(BODY_BYTES).position(|w| *w == body);
        bytes[at.expect("the body is there") + 7] ^= 1;
    });
    for start in 0..3 {
        let (mut store, report) = world.open();
        assert!(report.rewritten_bytes > 0 || start > 0, "{report:?}");
        for shard in 0..2 {
            let read = store.read(log_of(shard), 0);
            assert!(
                matches!(read, Read::Damaged(_)),
                "shard {shard} at start {start}: {read:?}"
            );
        }
        // What comes after it is as sound as ever.
        let after = put_first(&mut store, 10 + start);
        put_again(&mut store, 1, 10 + start, after);
        store.sync().unwrap();
        for shard in 0..2 {
            for n in 0..=start {
                let expected = Read::Ready(payload(10 + n, BODY_BYTES).into());
                assert_eq!(store.read(log_of(shard), n + 1), expected);
            }
        }
    }
}

#[test]
fn a_body_is_referred_to_until_so_many_chunks_have_come_after_it() {
    for (others, references) in [(63, 1), (64, 0)] {
        let world = world();
        let mut store = open(&world);
        let shared = put_first(&mut store, 0);
        store.sync().unwrap();
        for n in 1..=others {
            put_first(&mut store, n);
            store.sync().unwrap();
        }
        put_again(&mut store, 1, 0, shared);
        store.sync().unwrap();
        drop(store);
        let seen = inspect(&world.disk, &world.folders).unwrap();
        assert_eq!(seen.report.references, references, "{others} others");
        let (mut store, _) = world.open();
        let read = store.read(log_of(1), 0);
        assert_eq!(read, Read::Ready(payload(0, BODY_BYTES).into()));
    }
}
