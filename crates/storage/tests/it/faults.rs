//! What the store makes of damaged, torn, stale, missing and full disks; and what it must not read,
//! keep or hold in memory.

use crate::common::{A, B, World, append, append_all, check_all, flush_all, payload};
use leveret_storage::{
    Disk, Durability, Folders, LogKind, MemoryDisk, OpenError, Read, Store, StoreError,
};
use leveret_types::LogId;
use std::path::{Path, PathBuf};

/// A store that was killed after three batches: A's, B's, and a mark that both are durable.
fn three_batches() -> World {
    let world = World::new();
    let (mut store, _) = world.open();
    for (log, n) in [(A, 1), (B, 2)] {
        append(&mut store, log, &payload(n, 100));
        append(&mut store, log, &payload(n + 10, 100));
        store.sync().unwrap();
    }
    store.mark_idle().unwrap();
    world
}

/// What is left of a log's two entries: whether each is as it was; `None` where the log is said to
/// be damaged.
fn state(store: &mut Store<MemoryDisk>, log: LogId, n: u64) -> Option<[bool; 2]> {
    if store.shards[0].damage(log).is_some() {
        return None;
    }
    let expected = [(0, payload(n, 100)), (1, payload(n + 10, 100))];
    Some(
        expected.map(|(index, payload)| match store.read(log, index) {
            Read::Ready(bytes) => {
                assert_eq!(bytes, payload, "nothing is ever served that was not stored");
                true
            }
            Read::Gone => false,
            other => panic!("{other:?}"),
        }),
    )
}

#[test]
fn every_flipped_bit_below_the_mark_is_harmless_or_quarantines_only_the_log_that_it_hit() {
    let world = three_batches();
    let wal = world.only_file(".wal");
    let mut quarantined = [0, 0];
    // Three sectors: the file's header, A's batch, B's batch.
    for bit in 0..3 * 4096 * 8_usize {
        // Padding and the insides of bodies are all alike: every seventh bit of them is enough.
        let within = (bit / 8) % 4096;
        if within > 500 && bit % 7 != 0 {
            continue;
        }
        let flipped = world.on_copy(|disk| {
            assert!(disk.tamper(&wal, |bytes| bytes[bit / 8] ^= 1 << (bit % 8)));
        });
        let (mut store, report) = flipped.open();
        assert_eq!(
            report.torn_bytes, 0,
            "bit {bit}: nothing below the mark is cut"
        );
        let (a, b) = (state(&mut store, A, 1), state(&mut store, B, 2));
        for (n, (log, state)) in [(A, a), (B, b)].into_iter().enumerate() {
            match state {
                None => quarantined[n] += 1,
                Some(state) => assert_eq!(state, [true; 2], "bit {bit}, log {log}: silent loss"),
            }
        }
        let hit = bit / 8 / 4096;
        assert!(a.is_some() || hit == 1, "bit {bit} quarantined A");
        assert!(b.is_some() || hit == 2, "bit {bit} quarantined B");
    }
    assert!(
        quarantined[0] > 1000 && quarantined[1] > 1000,
        "{quarantined:?}"
    );
}

#[test]
fn a_lost_sector_below_the_mark_costs_what_was_in_it_and_is_repaired_by_command_only() {
    let world = three_batches();
    let wal = world.only_file(".wal");
    let corrupt = world.on_copy(|disk| {
        assert!(disk.tamper(&wal, |bytes| bytes[4096..8192].fill(0xEE)));
    });
    let (mut store, _) = corrupt.open();
    // The head is known from its copy in B's batch, so it is known that only A was hit.
    assert_eq!(state(&mut store, B, 2), Some([true; 2]));
    let damage = store.shards[0].damage(A).expect("A is quarantined").clone();
    assert!(
        damage.notes.iter().any(|n| n.contains("log 1")),
        "{damage:?}"
    );
    drop(store);
    // A restart finds it quarantined still, also after the write-ahead log has gone.
    let (mut store, _) = corrupt.open();
    store.roll();
    store.flush().unwrap();
    store.close().unwrap();
    let (mut store, report) = corrupt.open();
    assert!(report.clean);
    assert!(store.shards[0].damage(A).is_some());
    store.shards[0].accept_loss(A);
    append(&mut store, A, b"after");
    store.sync().unwrap();
    drop(store);
    let (mut store, _) = corrupt.open();
    assert_eq!(store.shards[0].damage(A), None);
    assert_eq!(store.read(A, 0), Read::Ready("after".into()));
    assert_eq!(state(&mut store, B, 2), Some([true; 2]));
}

#[test]
fn the_head_of_a_batch_that_is_known_from_its_copy_alone_is_told_of() {
    let world = three_batches();
    let wal = world.only_file(".wal");
    world.disk.tamper(&wal, |bytes| bytes[4096 + 20] ^= 1);
    let (mut store, report) = world.open();
    let notes: Vec<_> = report.notes.iter().map(String::as_str).collect();
    assert_eq!(
        notes,
        ["the head of the batch at 4096 of file 1 is damaged; its copy is used"]
    );
    assert_eq!(state(&mut store, A, 1), Some([true; 2]));
    assert_eq!(state(&mut store, B, 2), Some([true; 2]));
}

/// The batch that created it is gone, and so is the copy of that batch's head.
#[test]
fn a_log_of_which_nothing_is_known_but_later_entries_is_there_and_damaged() {
    let world = World::new();
    let (mut store, _) = world.open();
    for (log, n) in [(A, 1), (A, 2), (B, 3)] {
        append(&mut store, log, &payload(n, 100));
        store.sync().unwrap();
    }
    store.mark_idle().unwrap();
    drop(store);
    let wal = world.only_file(".wal");
    let mut copy_at = 0;
    world.disk.tamper(&wal, |bytes| {
        let head = bytes[4096..4096 + 40].to_vec();
        let second = &bytes[2 * 4096..3 * 4096];
        let copy = second.windows(40).position(|part| part == head);
        copy_at = 2 * 4096 + copy.expect("the second batch has a copy");
        bytes[4096..2 * 4096].fill(0xEE);
        bytes[copy_at + 20] ^= 1;
    });
    let (mut store, _) = world.open();
    let damage = store.shards[0].damage(A).expect("it is damaged");
    let notes = damage.notes.join("; ");
    assert!(
        notes.contains("the record that created log 1 is lost"),
        "{notes}"
    );
    assert_eq!(store.read(A, 1), Read::Ready(payload(2, 100).into()));
    assert_eq!(store.read(B, 0), Read::Ready(payload(3, 100).into()));
}

/// A drive that lost the end of the log's file while the broker runs: what memory had let go of is
/// damaged, whoever asks first, a reader or a flush.
#[test]
fn entries_whose_part_of_the_log_cannot_be_read_are_damaged_and_no_others() {
    const BYTES: usize = 50_000;
    const EACH: u64 = 20;
    for is_flushed in [false, true] {
        let mut world = World::with_wal_files_of(64 << 20);
        world.options.cache_bytes = 64 * 1024;
        let (mut store, _) = world.open();
        let mut ends = Vec::new();
        for n in 0..EACH {
            append(&mut store, A, &payload(n, BYTES));
            store.sync().unwrap();
            ends.push(world.used_bytes(&world.only_file(".wal")));
        }
        let log = world.only_file(".wal");
        world.disk.tamper(&log, |bytes| bytes.truncate(ends[9]));
        if is_flushed {
            store.roll();
            store.flush().unwrap();
            let damage = store.shards[0]
                .damage(A)
                .expect("it cannot be read")
                .clone();
            assert_eq!(damage.lost.first_range(), Some(10..EACH));
        }
        for n in 0..EACH - 1 {
            let read = store.read(A, n);
            match n < 10 {
                true => assert_eq!(read, Read::Ready(payload(n, BYTES).into())),
                false => assert!(matches!(read, Read::Damaged(_)), "{n}: {read:?}"),
            }
        }
        if !is_flushed {
            // It is in memory still.
            let newest = Read::Ready(payload(EACH - 1, BYTES).into());
            assert_eq!(store.read(A, EACH - 1), newest);
        }
    }
}

#[test]
fn a_checkpoint_that_has_no_room_even_in_what_is_kept_for_it_can_be_written_later() {
    let world = World::new();
    let options = &world.options;
    let mut parts = leveret_storage::recover(&world.disk, &world.folders, options).unwrap();
    assert!(parts.checkpoint.keep_reserve().unwrap());
    assert!(parts.checkpoint.keep_reserve().unwrap(), "it is there");
    let told = [parts.shards[0].checkpoint_part()];
    let next_file = parts.segment.next_file();
    world.disk.set_bytes_max(Some(0));
    for _ in 0..2 {
        let refused = parts.checkpoint.write(&told, next_file, &mut parts.pool, 0);
        assert!(matches!(
            refused,
            Err(leveret_storage::CheckpointError::NoSpace)
        ));
    }
    world.disk.set_bytes_max(None);
    let written = parts.checkpoint.write(&told, next_file, &mut parts.pool, 0);
    assert!(written.unwrap().checkpoint_bytes > 0);
}

#[test]
fn a_damaged_body_is_known_by_its_entry() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..3 {
        append(&mut store, A, &payload(n, 5000));
        append(&mut store, B, &payload(n, 5000));
    }
    store.sync().unwrap();
    store.mark_idle().unwrap();
    drop(store);
    let wal = world.only_file(".wal");
    let body = payload(1, 5000);
    let mut at = Vec::new();
    world.disk.tamper(&wal, |bytes| {
        at = (0..bytes.len() - 5000)
            .filter(|i| bytes[*i..].starts_with(&body))
            .collect();
        bytes[at[0] + 2500] ^= 1;
    });
    assert_eq!(at.len(), 2, "one body of each log");
    let (mut store, report) = world.open();
    assert_eq!(report.torn_bytes, 0);
    let damage = store.shards[0].damage(A).expect("A is damaged").clone();
    assert_eq!(
        (damage.lost.first_range(), damage.lost.len()),
        (Some(1..2), 1)
    );
    assert_eq!(store.shards[0].damage(B), None);
    assert!(matches!(store.read(A, 1), Read::Damaged(_)));
    assert_eq!(store.read(A, 2), Read::Ready(payload(2, 5000).into()));
    // A flush keeps what can be read, and remembers what cannot.
    store.roll();
    store.flush().unwrap();
    assert!(matches!(store.read(A, 1), Read::Damaged(_)));
    store.close().unwrap();
    let (mut store, _) = world.open();
    let damage = store.shards[0].damage(A).expect("A is damaged").clone();
    assert_eq!(
        (damage.lost.first_range(), damage.lost.len()),
        (Some(1..2), 1)
    );
    assert_eq!(store.shards[0].accept_loss(A), 1);
    assert_eq!(store.read(A, 1), Read::Gone);
    assert_eq!(store.read(A, 2), Read::Ready(payload(2, 5000).into()));
    assert_eq!(store.shards[0].damage(A), None);
}

#[test]
fn a_last_batch_that_was_never_finished_is_cut_wherever_it_was_torn() {
    let world = World::new();
    let (mut store, _) = world.open();
    append(&mut store, A, &payload(1, 100));
    append(&mut store, A, &payload(11, 100));
    store.sync().unwrap();
    let wal = world.only_file(".wal");
    let written = world.used_bytes(&wal);
    append(&mut store, B, &payload(2, 30_000));
    store.sync().unwrap();
    drop(store);
    for sector in written / 4096..world.used_bytes(&wal) / 4096 {
        for garbage in [0x00, 0xA5] {
            let torn = world.on_copy(|disk| {
                let sector = sector * 4096..(sector + 1) * 4096;
                disk.tamper(&wal, |bytes| bytes[sector].fill(garbage));
            });
            let (mut store, report) = torn.open();
            assert_eq!(state(&mut store, A, 1), Some([true; 2]));
            let head = sector == written / 4096;
            assert!(report.torn_bytes > 0 || head, "sector {sector}: {report:?}");
            assert_eq!(store.read(B, 0), Read::Gone);
            assert_eq!(store.shards[0].damage(B), None);
            // What was cut stays cut when later batches call all before them durable.
            append(&mut store, A, b"later");
            store.sync().unwrap();
            store.mark_idle().unwrap();
            drop(store);
            let (mut store, report) = torn.open();
            assert_eq!(report.torn_bytes, 0);
            assert_eq!(store.read(A, 2), Read::Ready("later".into()));
            assert_eq!(store.shards[0].damage(A), None);
            assert_eq!(store.read(B, 0), Read::Gone);
        }
    }
}

#[test]
fn a_tail_that_nothing_proves_durable_is_written_again() {
    let world = World::new();
    let (mut store, _) = world.open();
    append(&mut store, A, &payload(1, 100));
    append(&mut store, A, &payload(11, 100));
    store.sync().unwrap();
    drop(store);
    let old = world.only_file(".wal");
    for _ in 0..3 {
        // Each start dies right after it has opened.
        let (mut store, report) = world.open();
        assert!(report.rewritten_bytes > 0);
        assert_eq!(state(&mut store, A, 1), Some([true; 2]));
    }
    // The first file may vanish in a power cut: it was never known to be durable.
    world.disk.tamper(&old, |bytes| bytes.fill(0));
    let (mut store, _) = world.open();
    assert_eq!(state(&mut store, A, 1), Some([true; 2]));
}

#[test]
fn what_an_earlier_use_of_a_file_left_behind_is_never_taken_for_new() {
    let mut world = World::new();
    world.options.wal_pool_files = 3;
    world.options.wal_file_bytes = 65_536;
    let (mut store, _) = world.open();
    for n in 0..20 {
        append(&mut store, A, &payload(n, 3000));
        store.sync().unwrap();
    }
    store.prepare(1).unwrap();
    let recycled_before = world.files(".free");
    store.flush().unwrap();
    store.shards[0].settle(A, 0..20, 60_000);
    store.roll();
    store.flush().unwrap();
    assert!(!recycled_before.is_empty());
    // The file in use is one that was used before: its old batches follow right on the new one.
    append(&mut store, A, b"new");
    store.sync().unwrap();
    drop(store);
    let wal = world.only_file(".wal");
    world.disk.tamper(&wal, |bytes| {
        assert_eq!(
            &bytes[4096 * 3..4096 * 3 + 4],
            b"LVWB",
            "an old batch follows"
        );
    });
    let (mut store, report) = world.open();
    // The settle, which the last checkpoint waited for, and the new entry.
    assert_eq!(report.batches, 2, "{report:?}");
    assert_eq!(report.torn_bytes, 0);
    assert_eq!(store.shards[0].damage(A), None);
    let live = store.shards[0].live(A);
    assert_eq!((live.first_range(), live.len()), (Some(20..21), 1));
    assert_eq!(store.read(A, 20), Read::Ready("new".into()));
}

#[test]
fn damaged_segments_quarantine_their_log_and_no_other() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 40, 10_000);
    append(&mut store, B, b"of B");
    store.sync().unwrap();
    store.close().unwrap();
    let segment = world.only_file(".seg");
    world.flip_within(&segment, &payload(20, 10_000));
    let (mut store, _) = world.open();
    for n in 0..40 {
        match store.read(A, n) {
            Read::Ready(bytes) => assert!(n != 20 && bytes == payload(n, 10_000), "{n}"),
            Read::Damaged(why) => assert!(n == 20 && why.contains("checksum"), "{n}: {why}"),
            other => panic!("{n}: {other:?}"),
        }
    }
    assert!(store.shards[0].damage(A).is_some());
    assert_eq!(store.read(B, 0), Read::Ready("of B".into()));
    assert_eq!(store.shards[0].damage(B), None);
}

/// What memory has let go of before it came into a segment is read from the log.
#[test]
fn an_entry_that_is_corrupted_in_the_log_while_it_waits_is_damaged_and_no_other() {
    const BYTES: usize = 50_000;
    let mut world = World::with_wal_files_of(64 << 20);
    world.options.cache_bytes = 64 * 1024;
    let (mut store, _) = world.open();
    for n in 0..20 {
        append(&mut store, A, &payload(n, BYTES));
        append(&mut store, B, &payload(100 + n, BYTES));
        store.sync().unwrap();
    }
    let log = world.only_file(".wal");
    world.flip_within(&log, &payload(3, BYTES));
    assert!(matches!(store.read(A, 3), Read::Damaged(_)));
    assert!(store.shards[0].damage(A).is_some());
    for n in (0..20).filter(|n| *n != 3) {
        assert_eq!(store.read(A, n), Read::Ready(payload(n, BYTES).into()));
    }
    for n in 0..20 {
        assert_eq!(
            store.read(B, n),
            Read::Ready(payload(100 + n, BYTES).into())
        );
    }
    assert_eq!(store.shards[0].damage(B), None);
}

/// What was read beside another entry, while the drive gave other bytes than it has.
#[test]
fn an_entry_is_given_up_only_when_it_is_read_wrongly_now() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 200, 500);
    flush_all(&mut store);
    // After a start nothing is in memory.
    drop(store);
    let (mut store, _) = world.open();
    let segment = world.only_file(".seg");
    let mut sound = Vec::new();
    world.disk.tamper(&segment, |bytes| sound.clone_from(bytes));
    world.flip_within(&segment, &payload(20, 500));
    assert_eq!(store.read(A, 19), Read::Ready(payload(19, 500).into()));
    world
        .disk
        .tamper(&segment, |bytes| bytes.clone_from(&sound));
    assert_eq!(store.read(A, 20), Read::Ready(payload(20, 500).into()));
    store.close().unwrap();
    // The drive has lost it, and what is given up is not read again for each who asks.
    world.flip_within(&segment, &payload(21, 500));
    let (mut store, _) = world.open();
    assert!(matches!(store.read(A, 21), Read::Damaged(_)));
    let before = world.disk.counts().read_bytes;
    for _ in 0..10 {
        assert!(matches!(store.read(A, 21), Read::Damaged(_)));
    }
    assert_eq!(world.disk.counts().read_bytes, before);
}

#[test]
fn a_segment_index_is_rebuilt_and_a_missing_segment_is_reported() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 40, 10_000);
    store.close().unwrap();
    let segment = world.only_file(".seg");
    let world2 = world.on_copy(|disk| {
        disk.tamper(&segment, |bytes| {
            let last = bytes.len() - 30;
            bytes[last] ^= 1;
        });
    });
    let (mut store, report) = world2.open();
    assert!(
        report.notes.iter().any(|n| n.contains("rebuilt")),
        "{report:?}"
    );
    check_all(&mut store, A, 0..40, 10_000);
    let world3 = world.on_copy(|disk| disk.delete(&segment).unwrap());
    let (store, report) = world3.open();
    assert!(!report.notes.is_empty());
    let damage = store.shards[0].damage(A).expect("A is damaged");
    assert_eq!(damage.lost.len(), 40);
    let says = |note: &String| note.contains("0..40") && note.contains("nowhere on disk");
    assert!(damage.notes.iter().any(says), "{damage:?}");
}

#[test]
fn a_checkpoint_survives_damage_to_either_copy_and_a_store_without_one_is_refused() {
    let world = World::new();
    let (mut store, _) = world.open();
    append(&mut store, A, &payload(1, 100));
    append(&mut store, A, &payload(11, 100));
    store.close().unwrap();
    let checkpoint = world.only_file(".checkpoint");
    let mut len = 0;
    world.disk.tamper(&checkpoint, |bytes| len = bytes.len());
    for at in (0..len).step_by(3) {
        let flipped = world.on_copy(|disk| {
            disk.tamper(&checkpoint, |bytes| bytes[at] ^= 0x10);
        });
        let (mut store, report) = flipped.open();
        assert!(
            report.notes.iter().any(|n| n.contains("copies")),
            "byte {at}"
        );
        assert_eq!(state(&mut store, A, 1), Some([true; 2]), "byte {at}");
    }
    let both = world.on_copy(|disk| {
        disk.tamper(&checkpoint, |bytes| {
            bytes[20] ^= 1;
            bytes[len / 2 + 20] ^= 1;
        });
    });
    let opened = Store::open(&both.disk, &both.folders, &both.options);
    assert!(matches!(opened.err(), Some(OpenError::Damaged { .. })));
}

#[test]
fn a_store_has_one_owner_and_its_folders_belong_together() {
    let world = World::new();
    let (store, _) = world.open();
    let second = Store::open(&world.disk, &world.folders, &world.options);
    assert!(matches!(second.err(), Some(OpenError::Locked { .. })));
    drop(store);
    drop(world.open());
    let unmounted = Folders {
        wal: PathBuf::from("/elsewhere"),
        ..world.folders.clone()
    };
    let opened = Store::open(&world.disk, &unmounted, &world.options);
    assert!(matches!(
        opened.err(),
        Some(OpenError::ForeignFolder { .. })
    ));
    let (mut store, _) = world.open();
    append(&mut store, A, b"something");
    store.sync().unwrap();
    drop(store);
    let no_identity = world.on_copy(|disk| {
        disk.delete(&world.folders.data.join("leveret.store"))
            .unwrap();
    });
    let opened = Store::open(&no_identity.disk, &world.folders, &world.options);
    assert!(matches!(opened.err(), Some(OpenError::NoIdentity { .. })));
}

#[test]
fn a_start_reads_no_message_that_waits_in_segments() {
    let world = World::with_wal_files_of(4 << 20);
    let (mut store, _) = world.open();
    for n in 0..3000 {
        append(&mut store, A, &payload(n, 10_000));
        if n % 100 == 0 {
            store.sync().unwrap();
            store.flush().unwrap();
        }
    }
    store.close().unwrap();
    let before = world.disk.counts().read_bytes;
    let (mut store, report) = world.open();
    let read = world.disk.counts().read_bytes - before;
    assert!(report.clean);
    assert!(read < 50_000, "{read} bytes were read of 30 MB");
    assert_eq!(store.shards[0].log_stats(A).unwrap().entries, 3000);
    assert_eq!(
        store.read(A, 2999),
        Read::Ready(payload(2999, 10_000).into())
    );
}

#[test]
fn the_last_entry_of_a_block_can_be_looked_at_and_then_taken() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Durable);
    let count = 10;
    for n in 0..count {
        append(&mut store, A, &payload(n, 100));
    }
    store.close().expect("an orderly end");
    let (mut store, _) = world.open();
    for n in 0..count {
        let first = store.read(A, n);
        assert!(matches!(first, Read::Ready(_)), "{n}: {first:?}");
        // Without a read from disk in between: whoever looks at an entry takes it next.
        assert_eq!(store.shards[0].read(A, n), first, "entry {n}");
    }
}

#[test]
fn entries_settled_before_the_flush_never_reach_a_segment() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..500 {
        let index = append(&mut store, A, &payload(n, 5_000));
        store.sync().unwrap();
        store.shards[0].settle(A, index..index + 1, 5_000);
        store.flush().unwrap();
    }
    store.close().unwrap();
    assert_eq!(world.files(".seg"), Vec::<PathBuf>::new());
}

#[test]
fn a_volatile_backlog_goes_to_disk_and_not_to_the_log_and_dies_with_the_process() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Volatile);
    let mut most = 0;
    for n in 0..2000 {
        let body = store.shards[0].body(Durability::Volatile, &[&payload(n, 5_000)]);
        store.shards[0].append(A, body, 5_000);
        store.page_out().unwrap();
        most = most.max(store.shards[0].stats().cached_bytes);
    }
    assert!(most < 2 << 20, "{most} bytes in memory of 10 MB");
    assert_eq!(world.files(".wal"), Vec::<PathBuf>::new());
    for n in 0..2000 {
        assert_eq!(store.read(A, n), Read::Ready(payload(n, 5_000).into()));
        store.shards[0].settle(A, n..n + 1, 5_000);
    }
    store.checkpoint().unwrap();
    assert_eq!(world.files(".seg"), Vec::<PathBuf>::new());
    drop(store);
    let (store, _) = world.open();
    assert!(!store.shards[0].has_log(A));
}

#[test]
fn volatile_bodies_that_are_settled_in_time_cost_no_io() {
    let world = World::new();
    let (mut store, _) = world.open();
    store.shards[0].create_log(A, LogKind::Volatile);
    let before = world.disk.counts().written_bytes;
    for n in 0..5000 {
        let body = store.shards[0].body(Durability::Volatile, &[&payload(n, 5_000)]);
        let index = store.shards[0].append(A, body, 5_000);
        store.shards[0].settle(A, index..index + 1, 5_000);
        store.page_out().unwrap();
        store.sync().unwrap();
    }
    assert_eq!(world.disk.counts().written_bytes, before);
    assert!(store.shards[0].stats().cached_bytes < 2 << 20);
}

#[test]
fn a_full_disk_takes_nothing_and_loses_nothing_and_goes_on_when_there_is_space() {
    let world = World::with_wal_files_of(256 << 10);
    let (mut store, _) = world.open();
    let mut confirmed = 0;
    world.disk.set_bytes_max(Some(2 << 20));
    let mut refused = 0;
    for n in 0..400 {
        append(&mut store, A, &payload(n, 10_000));
        match store.sync().and_then(|()| store.flush()) {
            Ok(()) => confirmed = n + 1,
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                refused += 1;
                break;
            }
        }
    }
    assert!(refused > 0 && confirmed > 50, "{confirmed}");
    check_all(&mut store, A, 0..confirmed, 10_000);
    world.disk.set_bytes_max(None);
    store.sync().unwrap();
    store.flush().unwrap();
    check_all(&mut store, A, 0..=confirmed, 10_000);
    drop(store);
    let (mut store, _) = world.open();
    check_all(&mut store, A, 0..=confirmed, 10_000);
}

#[test]
fn a_failed_open_says_what_failed() {
    let error = StoreError::from(leveret_storage::WalError::NoSpace);
    assert_eq!(error.to_string(), "no space for the write-ahead log");
}

#[test]
fn a_body_that_exceeds_every_limit_of_size_is_stored_all_the_same() {
    let world = World::new();
    let (mut store, _) = world.open();
    let large = payload(1, 9 << 20);
    append(&mut store, A, &large);
    append(&mut store, A, b"small");
    store.sync().unwrap();
    assert_eq!(store.read(A, 0), Read::Ready(large.clone().into()));
    drop(store);
    let (mut store, _) = world.open();
    assert_eq!(store.read(A, 0), Read::Ready(large.clone().into()));
    store.close().unwrap();
    let (mut store, _) = world.open();
    assert_eq!(store.read(A, 0), Read::Ready(large.into()));
    assert_eq!(store.read(A, 1), Read::Ready("small".into()));
}

#[test]
fn terms_votes_and_truncations_are_found_again() {
    let world = World::new();
    let (mut store, _) = world.open();
    for n in 0..10 {
        append(&mut store, A, &payload(n, 100));
    }
    store.shards[0].set_term_and_vote(A, 7, 3);
    flush_all(&mut store);
    store.shards[0].truncate(A, 6);
    for n in 100..103 {
        append(&mut store, A, &payload(n, 100));
    }
    store.sync().unwrap();
    let check = |store: &mut Store<MemoryDisk>| {
        assert_eq!(store.shards[0].term_and_vote(A), Some((7, 3)));
        check_all(store, A, 0..6, 100);
        for index in 6..9 {
            let expected = Read::Ready(payload(index + 94, 100).into());
            assert_eq!(store.read(A, index), expected, "entry {index}");
        }
        assert_eq!(store.read(A, 9), Read::Gone);
    };
    check(&mut store);
    drop(store);
    let (mut store, _) = world.open();
    check(&mut store);
    store.close().unwrap();
    let (mut store, _) = world.open();
    check(&mut store);
}

#[test]
fn inspection_says_what_is_there_and_repair_accepts_what_verification_found() {
    use leveret_storage::inspect;
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 40, 10_000);
    append(&mut store, B, b"of B");
    store.sync().unwrap();
    assert!(
        inspect::inspect(&world.disk, &world.folders).is_err(),
        "the store is open"
    );
    store.close().unwrap();
    let segment = world.only_file(".seg");
    world.flip_within(&segment, &payload(20, 10_000));
    let files = world.disk.paths();
    let seen = inspect::inspect(&world.disk, &world.folders).unwrap();
    assert_eq!(
        seen.logs.iter().map(|l| l.entries).collect::<Vec<_>>(),
        [40, 1]
    );
    assert_eq!(seen.damaged().count(), 0, "an inspection reads no entries");
    let seen = inspect::verify(&world.disk, &world.folders).unwrap();
    assert_eq!(seen.verified_entries, 40);
    let text = seen.to_string();
    for part in [
        "closed in order",
        "log 1: 40 entries in 1 intervals, 400000 bytes, 40 in segments, next index 40",
        "DAMAGED: 1 entries cannot be read",
        "entry 20 of log 1 cannot be read: its checksum in the segment file is wrong",
        "1 logs are quarantined",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert_eq!(world.disk.paths(), files, "looking changes nothing");
    assert_eq!(
        inspect::repair(&world.disk, &world.folders, &[B]).unwrap(),
        []
    );
    let repairs = inspect::repair(&world.disk, &world.folders, &[A]).unwrap();
    assert_eq!(
        repairs.iter().map(|r| (r.log, r.lost)).collect::<Vec<_>>(),
        [(A, 1)]
    );
    let seen = inspect::verify(&world.disk, &world.folders).unwrap();
    assert_eq!((seen.damaged().count(), seen.verified_entries), (0, 40));
    let nowhere = Folders::within(Path::new("/nowhere"));
    assert!(inspect::inspect(&world.disk, &nowhere).is_err());
}

#[test]
fn a_store_opens_on_a_full_disk_as_long_as_a_prepared_file_is_there() {
    let mut world = World::new();
    world.options.wal_pool_files = 2;
    let (mut store, _) = world.open();
    store.prepare(2).unwrap();
    append(&mut store, A, &payload(1, 100));
    append(&mut store, A, &payload(11, 100));
    store.sync().unwrap();
    drop(store);
    world.disk.set_bytes_max(Some(0));
    let (mut store, report) = world.open();
    assert!(report.rewritten_bytes > 0);
    assert_eq!(state(&mut store, A, 1), Some([true; 2]));
}

#[test]
fn entries_that_are_in_the_log_alone_count_as_verified() {
    let world = World::new();
    let (mut store, _) = world.open();
    append_all(&mut store, A, 5, 1_000);
    store.sync().unwrap();
    drop(store);
    let seen = leveret_storage::inspect::verify(&world.disk, &world.folders).unwrap();
    assert_eq!(seen.verified_entries, 5);
}
