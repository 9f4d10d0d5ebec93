//! What is refused or given up, and that all is there afterwards: files of later versions, work for
//! which the disk has no room.

use crate::common::{A, World, append_all, check_all};
use leveret_storage::{LogKind, OpenError, Store};
use std::path::Path;

const BYTES: usize = 10_000;

/// Checksums of the store's files start from its salt and these numbers.
fn seed(world: &World, numbers: &[u64]) -> u32 {
    let salt = crc32c::crc32c(&world.options.uuid[..8]);
    let append = |crc, number: &u64| crc32c::crc32c_append(crc, &number.to_le_bytes());
    numbers.iter().fold(salt, append)
}

fn refused(world: &World, path: &Path, expected: u16) {
    match Store::open(&world.disk, &world.folders, &world.options).err() {
        Some(OpenError::Newer { path: of, version }) => {
            assert_eq!((&*of, version), (path, expected))
        }
        other => panic!("{other:?}"),
    }
}

fn filled() -> World {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Durable);
    append_all(&mut store, A, 20, BYTES);
    store.sync().unwrap();
    store.roll();
    store.flush().unwrap();
    append_all(&mut store, A, 1, BYTES);
    store.sync().unwrap();
    world
}

#[test]
fn a_checkpoint_of_a_later_version_is_refused_and_left_alone() {
    const LATER: u16 = 4;
    let world = filled();
    let path = world.only_file(".checkpoint");
    change_checkpoint(&world, &path, |copy| {
        copy[8..10].copy_from_slice(&LATER.to_le_bytes());
    });
    let before = world.disk.paths();
    refused(&world, &path, LATER);
    let mut after = world.disk.paths();
    after.retain(|path| before.contains(path));
    assert_eq!(after, before, "nothing is deleted");
}

/// Changes both copies of a checkpoint so that their checksums are right.
fn change_checkpoint(world: &World, path: &Path, change: impl Fn(&mut [u8])) {
    world.disk.tamper(path, |bytes| {
        let half = bytes.len() / 2;
        for copy in bytes.chunks_mut(half) {
            change(copy);
            let version = u16::from_le_bytes(copy[8..10].try_into().unwrap());
            let seed = seed(world, &[u64::from(version)]);
            let crc = crc32c::crc32c_append(seed, &copy[16..]);
            copy[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    });
}

/// What lives is a list of ranges; one that ends before it begins is none.
#[test]
fn a_checkpoint_with_a_range_that_ends_before_it_begins_is_damaged() {
    for (start, end, is_sound) in [(3_u64, 21_u64, true), (21, 21, true), (22, 21, false)] {
        let world = World::new();
        let (mut store, _) = world.open();
        store.shards[0].create_log(A, LogKind::Durable);
        append_all(&mut store, A, 21, BYTES);
        store.shards[0].settle(A, 0..3, 3 * BYTES as u64);
        store.close().unwrap();
        let path = world.only_file(".checkpoint");
        let is_changed = std::cell::Cell::new(0);
        change_checkpoint(&world, &path, |copy| {
            let range = [3_u64, 21].map(u64::to_le_bytes).concat();
            let wanted = [&1_u32.to_le_bytes()[..], &range].concat();
            let at = copy.windows(wanted.len()).position(|bytes| bytes == wanted);
            let at = at.expect("it is told what lives") + 4;
            copy[at..at + 8].copy_from_slice(&start.to_le_bytes());
            copy[at + 8..at + 16].copy_from_slice(&end.to_le_bytes());
            is_changed.set(is_changed.get() + 1);
        });
        assert_eq!(is_changed.get(), 2, "both copies");
        match Store::open(&world.disk, &world.folders, &world.options) {
            Ok(_) => assert!(is_sound, "{start}..{end}"),
            Err(OpenError::Damaged { path: of, .. }) => {
                assert!(!is_sound && of == path, "{start}..{end} of {of:?}")
            }
            Err(other) => panic!("{start}..{end}: {other}"),
        }
    }
}

#[test]
fn a_log_file_of_a_later_version_is_refused_and_left_alone() {
    const LATER: u16 = 99;
    let world = filled();
    let path = world.files(".wal").pop().unwrap();
    world.disk.tamper(&path, |bytes| {
        let generation = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        bytes[8..10].copy_from_slice(&LATER.to_le_bytes());
        let crc = seed(&world, &[u64::from(LATER), generation]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    });
    refused(&world, &path, LATER);
    assert!(world.files(".wal").contains(&path));
}

#[test]
fn a_flush_and_a_compaction_without_room_are_given_up_and_done_later() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Durable);
    append_all(&mut store, A, 20, BYTES);
    store.sync().unwrap();
    store.roll();
    let no_room = |store: &mut Store<_>, work: fn(&mut Store<_>) -> bool| {
        let files = world.files(".seg");
        world.disk.set_bytes_max(Some(world.disk.bytes()));
        assert!(work(store), "there is no room");
        assert_eq!(world.files(".seg"), files, "nothing is left");
        world.disk.set_bytes_max(None);
        check_all(store, A, 18..20, BYTES);
    };
    no_room(&mut store, |store| store.flush().unwrap_err().is_no_space());
    assert!(store.wants_flush());
    store.flush().unwrap();
    check_all(&mut store, A, 0..20, BYTES);
    store.shards[0].settle(A, 0..18, 18 * BYTES as u64);
    no_room(&mut store, |store| {
        store.compact().unwrap_err().is_no_space()
    });
    assert!(store.compact().unwrap(), "it is planned again");
    check_all(&mut store, A, 18..20, BYTES);
    drop(store);
    let (mut store, _) = world.open();
    check_all(&mut store, A, 18..20, BYTES);
}
