//! A sync fails and the process ends. The next one finds in memory what the disk never got, and no
//! later sync writes it: it must not build on that.

use leveret_sim::disk::{Call, Fault, SimDisk};
use leveret_sim::file_system::Cut;
use leveret_storage::{Durability, Folders, LogKind, Options, Read, RecoveryReport, Store};
use leveret_types::LogId;
use std::io::ErrorKind;
use std::path::Path;

const LOG: LogId = LogId(1);

fn open(disk: &SimDisk) -> (Store<SimDisk>, RecoveryReport) {
    let options = Options {
        uuid: [7; 16],
        wal_file_bytes: 64 * 1024,
        ..Options::default()
    };
    let folders = Folders::within(Path::new("/store"));
    Store::open(disk, &folders, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn append(store: &mut Store<SimDisk>, count: u64) {
    let shard = &mut store.shards[0];
    if !shard.has_log(LOG) {
        shard.create_log(LOG, LogKind::Durable);
    }
    for _ in 0..count {
        let body = shard.body(Durability::Durable, &[b"what was confirmed"]);
        shard.append(LOG, body, 18);
    }
}

/// Files are prepared, written, flushed and recycled, as far as the disk lets them.
fn work(store: &mut Store<SimDisk>) -> Option<u64> {
    append(store, 3);
    store.sync().ok()?;
    store.roll();
    store.flush().ok()?;
    store.prepare(2).ok()?;
    append(store, 2);
    store.sync().ok()?;
    Some(5)
}

#[test]
fn files_whose_sync_failed_are_none_that_the_next_start_uses() {
    for nth in 0.. {
        let disk = SimDisk::new();
        let (mut store, _) = open(&disk);
        disk.set_fault(Some(Fault {
            call: Call::Sync,
            nth,
            kind: ErrorKind::Other,
            sticky: false,
        }));
        let done = work(&mut store);
        let has_failed = disk.fault_fired();
        drop(store);
        disk.kill();

        // The process starts again, on what is in memory, and goes through all files that there
        // are.
        let (mut store, _) = open(&disk);
        let before = store.shards[0]
            .log_stats(LOG)
            .map_or(0, |stats| stats.next_index);
        for _ in 0..4 {
            append(&mut store, 1);
            store.sync().expect("nothing fails any more");
            store.roll();
        }
        drop(store);
        disk.power_cut(&mut Cut::LoseAll);

        let (mut store, report) = open(&disk);
        assert_eq!(report.notes, [""; 0], "sync {nth} failed");
        let damaged = store.found.iter().find_map(|log| log.damage.clone());
        assert!(damaged.is_none(), "sync {nth} failed: {damaged:?}");
        for index in 0..before + 4 {
            let read = store.read(LOG, index);
            assert!(
                matches!(read, Read::Ready(_)),
                "sync {nth} failed: {read:?}"
            );
        }
        if !has_failed {
            assert_eq!(done, Some(5));
            assert!(nth > 6, "{nth} syncs are made");
            return;
        }
    }
}
