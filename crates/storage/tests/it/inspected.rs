//! The output of `leveret storage` for a store, and the damage that a repair accepts.

use crate::common::{A, B, World, append, append_all, check_all, payload};
use leveret_storage::inspect::{self, InspectError, ReadOnly};
use leveret_storage::{Durability, Folders, LogKind, Read};
use leveret_types::LogId;
use std::path::Path;

const BYTES: usize = 2_000;

fn text_of(world: &World) -> String {
    let seen = inspect::inspect(&world.disk, &world.folders).unwrap();
    seen.text(&|log| (log == B).then(|| "the queue of B".to_owned()))
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}

#[test]
fn a_store_that_was_not_closed_says_what_a_start_will_do() {
    let mut world = World::new();
    world.options.shards = 2;
    let (mut store, _) = world.open();
    append_all(&mut store, A, 3, BYTES);
    store.sync().unwrap();
    // A body that another shard refers to.
    let [first, second] = &mut store.shards[..] else {
        panic!("two shards");
    };
    second.create_log(B, LogKind::Durable);
    let bytes = payload(3, BYTES);
    let body = first.body(Durability::Durable, &[&bytes]);
    first.append(A, body, BYTES as u32);
    let shared = first.share(body).unwrap();
    let body = second.body_again(shared, &[&bytes]);
    second.append(B, body, BYTES as u32);
    first.settle(A, 1..2, BYTES as u64);
    store.sync().unwrap();
    drop(store);
    let text = text_of(&world);
    let uuid: String = b"an uuid for test"
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    has(&text, &format!("store {uuid}, 2 shards, checkpoint 0\n"));
    has(&text, "not closed in order: a start replays 2 batches (");
    has(&text, " bytes) in 1 files\n");
    has(&text, "1 bodies there are those of other shards");
    has(&text, "0 segment files, 0 bytes, 0 of them live\n");
    has(
        &text,
        "log 1: 3 entries in 2 intervals, 6000 bytes, 0 in segments, next index 4\n",
    );
    has(&text, "log 2 (the queue of B): 1 entries in 1 intervals, ");
    for part in [
        "never finished",
        "note:",
        "DAMAGED",
        "quarantined",
        "were read",
    ] {
        assert!(!text.contains(part), "{part:?} is in:\n{text}");
    }
    assert_eq!(
        inspect::shard_count(&world.disk, &world.folders).unwrap(),
        2
    );
    let seen = inspect::verify(&world.disk, &world.folders).unwrap();
    has(&seen.to_string(), "4 entries were read and are sound\n");
    let (store, _) = world.open();
    store.close().unwrap();
    let text = text_of(&world);
    has(&text, "closed in order: a start reads nothing");
    assert!(!text.contains("not closed"), "{text}");
    assert!(!text.contains("of other shards"), "{text}");
    // Half of the message of A that was settled is in none.
    has(&text, "3 in segments");
    let seen = inspect::inspect(&world.disk, &world.folders).unwrap();
    assert_eq!(seen.report.segment_files, 2);
    assert!(seen.segment_bytes > 4 * BYTES as u64);
    assert!(seen.segment_live_bytes > 4 * BYTES as u64 - 100);
    assert!(seen.segment_live_bytes <= seen.segment_bytes);
}

/// Two logs with a damaged entry each.
fn damaged() -> World {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 5, BYTES);
    for n in 10..13 {
        append(&mut store, B, &payload(n, BYTES));
    }
    store.close().unwrap();
    let segment = world.only_file(".seg");
    world.flip_within(&segment, &payload(2, BYTES));
    world.flip_within(&segment, &payload(11, BYTES));
    world
}

#[test]
fn a_repair_of_no_log_by_name_is_one_of_all() {
    let world = damaged();
    let repairs = inspect::repair(&world.disk, &world.folders, &[]).unwrap();
    let lost: Vec<_> = repairs.iter().map(|r| (r.log, r.lost)).collect();
    assert_eq!(lost, [(A, 1), (B, 1)]);
    assert!(repairs[0].damage.lost.contains(2) && repairs[1].damage.lost.contains(1));
    let (mut store, report) = world.open();
    assert!(report.clean, "it was closed in order");
    check_all(&mut store, A, [0, 1, 3, 4].into_iter(), BYTES);
    assert_eq!(store.read(A, 2), Read::Gone);
    assert_eq!(store.read(B, 1), Read::Gone);
    assert_eq!(
        [A, B].map(|log| store.shards[0].damage(log).is_some()),
        [false; 2]
    );
    drop(store);
    assert_eq!(
        inspect::repair(&world.disk, &world.folders, &[]).unwrap(),
        []
    );
}

#[test]
fn a_repair_of_one_log_leaves_the_other_as_it_is() {
    let world = damaged();
    let repairs = inspect::repair(&world.disk, &world.folders, &[B, LogId(77)]).unwrap();
    assert_eq!(repairs.iter().map(|r| r.log).collect::<Vec<_>>(), [B]);
    let seen = inspect::verify(&world.disk, &world.folders).unwrap();
    assert_eq!(seen.damaged().map(|log| log.log).collect::<Vec<_>>(), [A]);
    assert_eq!(seen.verified_entries, 4 + 2);
    has(
        &seen.to_string(),
        "1 logs are quarantined; `leveret storage repair`",
    );
}

#[test]
fn no_store_is_told_from_one_that_is_in_use() {
    let world = damaged();
    let nowhere = Folders::within(Path::new("/nowhere"));
    let no_store = |error: InspectError| {
        assert!(matches!(&error, InspectError::NoStore(_)), "{error}");
        has(&error.to_string(), "there is no store in /nowhere/data");
    };
    no_store(inspect::inspect(&world.disk, &nowhere).unwrap_err());
    no_store(inspect::verify(&world.disk, &nowhere).unwrap_err());
    no_store(inspect::shard_count(&world.disk, &nowhere).unwrap_err());
    no_store(ReadOnly::open(&world.disk, &nowhere).err().unwrap());
    let (store, _) = world.open();
    for refused in [
        inspect::inspect(&world.disk, &world.folders).err(),
        inspect::verify(&world.disk, &world.folders).err(),
        inspect::repair(&world.disk, &world.folders, &[]).err(),
        ReadOnly::open(&world.disk, &world.folders).err(),
    ] {
        assert!(
            matches!(refused, Some(InspectError::Open(_))),
            "{refused:?}"
        );
    }
    drop(store);
    // Whoever looks keeps others out meanwhile.
    let mut looking = ReadOnly::open(&world.disk, &world.folders).unwrap();
    assert!(inspect::inspect(&world.disk, &world.folders).is_err());
    {
        let (shard, mut load) = looking.shard(0);
        let mut read = shard.read(A, 1);
        if matches!(read, Read::Pending) {
            load(shard);
            read = shard.read(A, 1);
        }
        assert_eq!(read, Read::Ready(payload(1, BYTES).into()));
    }
    drop(looking);
    inspect::inspect(&world.disk, &world.folders).unwrap();
}
