//! What is refused or given up, and that all is there afterwards: files of later versions, work for
//! which the disk has no room.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod common;

use common::{A, World, append_all, check_all};
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
    let crc_of = |body: &[u8]| crc32c::crc32c_append(seed(&world, &[u64::from(LATER)]), body);
    world.disk.tamper(&path, |bytes| {
        let half = bytes.len() / 2;
        for copy in bytes.chunks_mut(half) {
            copy[8..10].copy_from_slice(&LATER.to_le_bytes());
            let crc = crc_of(&copy[16..]);
            copy[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    });
    let before = world.disk.paths();
    refused(&world, &path, LATER);
    let mut after = world.disk.paths();
    after.retain(|path| before.contains(path));
    assert_eq!(after, before, "nothing is deleted");
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
