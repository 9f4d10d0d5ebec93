//! Starts on a disk that has not one byte free: what they write goes into what is there, however
//! many of them there are, so that a node can be drained. Also where the file system writes
//! elsewhere what is written over, and needs room for that.

use crate::common;
use crate::common::{A, World, append, append_all, check_all, payload};
use leveret_storage::{
    Durability, LogKind, MemoryDisk, PrepareError, Read, Recovered, Store, WalError, recover,
};

/// Tests a disk that writes over in place what is written over, and one that writes it elsewhere.
fn on_either(wal_file_bytes: u64, test: impl Fn(&World)) {
    test(&World::with_wal_files_of(wal_file_bytes));
    let copying = World::with_wal_files_of(wal_file_bytes);
    copying.disk.copy_on_write();
    test(&copying);
}

/// A store whose log has one entry, with so many prepared files; the process has ended.
fn begun(world: &World, prepared: usize) {
    let mut parts = open(world);
    for _ in 0..prepared {
        let file = parts.pool.prepare().unwrap();
        parts.wal.supply(file);
    }
    parts.shards[0].create_log(A, LogKind::Durable);
    write(&mut parts, 0, 100).unwrap();
}

fn open(world: &World) -> Recovered<MemoryDisk> {
    recover(&world.disk, &world.folders, &world.options).unwrap_or_else(|e| panic!("{e}"))
}

fn write(parts: &mut Recovered<MemoryDisk>, n: u64, len: usize) -> Result<(), WalError> {
    let shard = &mut parts.shards[0];
    let body = shard.body(Durability::Durable, &[&payload(n, len)]);
    shard.append(A, body, len as u32);
    let mut chunks = Vec::new();
    shard.seal(&mut chunks);
    while !chunks.is_empty() {
        let written = parts.wal.write(&mut chunks)?.written;
        let places = written.into_iter().map(|(_, seq, place)| (seq, place));
        parts.shards[0].on_durable(places);
    }
    Ok(())
}

/// Others take what is free.
fn fill(world: &World) {
    world.disk.set_bytes_max(Some(world.disk.bytes()));
}

/// Starts that write an entry each and end without warning.
fn starts(world: &World, numbers: std::ops::Range<u64>, len: usize) {
    for n in numbers {
        let mut parts = open(world);
        write(&mut parts, n, len).unwrap_or_else(|e| panic!("start {n}: {e}"));
        if n % 3 == 0 {
            // All is known to be durable: nothing would have to be written again.
            parts.wal.mark_idle().unwrap();
        }
    }
}

fn holds(world: &World, count: u64, len: usize) {
    world.disk.set_bytes_max(None);
    let (mut store, report): (Store<MemoryDisk>, _) = world.open();
    assert_eq!(report.notes, Vec::<String>::new());
    for n in 1..count {
        assert_eq!(store.read(A, n), Read::Ready(payload(n, len).into()));
    }
}

#[test]
fn a_start_costs_no_file_of_the_log_however_many_there_are() {
    on_either(1 << 20, |world| {
        // The first file stays until there is a checkpoint; the tail goes to and fro between
        // others.
        begun(world, 3);
        fill(world);
        starts(world, 1..40, 1_000);
        holds(world, 40, 1_000);
    });
}

#[test]
fn a_log_that_was_checkpointed_starts_as_often() {
    on_either(1 << 20, |world| {
        let (mut store, _) = world.open();
        append(&mut store, A, &payload(0, 100));
        common::flush_all(&mut store);
        store.prepare(2).unwrap();
        drop(store);
        fill(world);
        starts(world, 1..40, 1_000);
        holds(world, 40, 1_000);
    });
}

#[test]
fn a_start_without_a_prepared_file_has_one_that_is_kept_for_it() {
    on_either(16 << 20, |world| {
        begun(world, 0);
        assert!(open(world).pool.keep_reserve().unwrap());
        fill(world);
        starts(world, 1..20, 1_000);
        holds(world, 20, 1_000);
    });
}

/// Whoever gives up the only prepared file, which has its name already, leaves a log that a start
/// takes for whole: also where none has a checkpoint to begin from.
#[test]
fn a_file_that_cannot_be_written_over_is_given_up_for_one_that_grows() {
    for is_checkpointed in [false, true] {
        let world = World::with_wal_files_of(1 << 20);
        world.disk.copy_on_write();
        if is_checkpointed {
            let (mut store, _) = world.open();
            append(&mut store, A, &payload(0, 100));
            common::flush_all(&mut store);
        }
        let mut parts = open(&world);
        if parts.wal.prepared_files() == 0 {
            parts.wal.supply(parts.pool.prepare().unwrap());
        }
        let before = parts.wal.generation();
        fill(&world);
        let first = u64::from(is_checkpointed);
        if !is_checkpointed {
            parts.shards[0].create_log(A, LogKind::Durable);
        }
        write(&mut parts, first, 1_000).unwrap();
        assert_eq!(parts.wal.prepared_files(), 0);
        assert_eq!(parts.wal.generation(), before, "no number is left out");
        drop(parts);
        starts(&world, first + 1..10, 1_000);
        holds(&world, 10, 1_000);
    }
}

#[test]
fn a_full_disk_that_writes_elsewhere_is_drained() {
    const ENTRIES: u64 = 50;
    const BYTES: usize = 10_000;
    let world = World::new();
    world.disk.copy_on_write();
    let (mut store, _) = world.open();
    append_all(&mut store, A, ENTRIES, BYTES);
    common::flush_all(&mut store);
    append(&mut store, A, &payload(ENTRIES, BYTES));
    store.sync().unwrap();
    store.prepare(1).unwrap();
    drop(store);
    let full = world.disk.bytes();
    fill(&world);
    let (mut store, _) = world.open();
    check_all(&mut store, A, 0..=ENTRIES, BYTES);
    for n in 0..=ENTRIES {
        store.shards[0].settle(A, n..n + 1, BYTES as u64);
        store.sync().unwrap();
    }
    common::flush_all(&mut store);
    let (left, freed) = (world.disk.bytes(), (ENTRIES - 5) * BYTES as u64);
    assert!(left + freed <= full, "{left} of {full}");
    drop(store);
    let (store, report) = world.open();
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(store.found.iter().all(|log| log.live.is_empty()));
}

#[test]
fn what_is_kept_for_a_start_gives_room_to_a_log_that_cannot_go_on_and_is_made_again() {
    let world = World::with_wal_files_of(1 << 20);
    world.disk.copy_on_write();
    let mut parts = open(&world);
    parts.wal.supply(parts.pool.prepare().unwrap());
    assert!(parts.pool.keep_reserve().unwrap());
    parts.shards[0].create_log(A, LogKind::Durable);
    write(&mut parts, 0, 100).unwrap();
    fill(&world);
    for n in 1..30 {
        write(&mut parts, n, 1_000).unwrap();
    }
    assert_eq!(world.files("log.reserve").len(), 0);
    world.disk.set_bytes_max(None);
    assert!(parts.pool.keep_reserve().unwrap());
    assert_eq!(world.files("log.reserve").len(), 1);
    drop(parts);
    holds(&world, 30, 1_000);
}

#[test]
fn a_file_that_is_given_back_makes_room_first_for_what_starts_need() {
    let world = World::with_wal_files_of(16 << 20);
    begun(&world, 1);
    let mut parts = open(&world);
    world.disk.set_bytes_max(Some(world.disk.bytes()));
    assert!(!parts.pool.keep_reserve().unwrap(), "there is no room");
    let through = parts.wal.roll().expect("the entry was written again");
    world.disk.set_bytes_max(Some(world.disk.bytes() + 100_000));
    let plan = parts.shards[0].begin_flush(through);
    let each = &mut |_| std::ops::ControlFlow::Continue(());
    let written = parts.segment.flush(&plan, each).unwrap();
    parts.shards[0].finish_flush(&plan, written);
    let part = parts.shards[0].checkpoint_part();
    let next_file = parts.segment.next_file();
    let checkpoint = &mut parts.checkpoint;
    checkpoint
        .write(&[part], next_file, &mut parts.pool, 0)
        .unwrap();
    assert_eq!(world.files("log.reserve").len(), 1);
    assert!(parts.pool.keep_reserve().unwrap());
}

#[test]
fn prepared_files_of_another_size_go_with_the_next_start() {
    let mut world = World::with_wal_files_of(1 << 20);
    begun(&world, 3);
    assert_eq!(world.files(".free").len(), 2);
    world.options.wal_file_bytes = 2 << 20;
    let parts = open(&world);
    assert_eq!(world.files(".free").len(), parts.wal.prepared_files());
    drop(parts);
    holds(&world, 1, 100);
}

#[test]
fn no_file_is_prepared_where_there_is_no_room_for_it() {
    let world = World::with_wal_files_of(4 << 20);
    let mut parts = open(&world);
    let needed = world.disk.bytes() + (4 << 20) + (1 << 20);
    let written = || world.disk.counts().written_bytes;
    let before = written();
    world.disk.set_bytes_max(Some(needed - 1));
    let refused = parts.pool.prepare().expect_err("a byte too little");
    assert!(matches!(refused, PrepareError::NoSpace));
    assert_eq!(written(), before, "nobody else is without space meanwhile");
    world.disk.set_bytes_max(Some(needed));
    parts.pool.prepare().expect("it leaves enough to others");
}
