//! A drive that fails a sync says so once: later syncs succeed, though what it lost is lost. So the
//! call that asked for the sync must fail, whichever it is, and nothing is confirmed on top of it.

use crate::common::power::{PowerDisk, open_store};
use crate::common::streams::chunk;
use crate::common::{A, B};
use leveret_storage::{Durability, LogKind, Store, StreamFiles};
use leveret_stream::{Epoch, ReplicaState};
use leveret_types::{LogId, QueueId};
use std::path::Path;

type Told = Result<(), String>;
/// A call, or a few of which any one may fail.
type Step<'a, T> = (&'a str, &'a dyn Fn(&mut T) -> Told);

fn told<T, E: ToString>(result: Result<T, E>) -> Told {
    result.map(drop).map_err(|error| error.to_string())
}

/// The step that also makes the reserve, whose sync alone may fail without a word: without a
/// reserve all goes on, and a later step makes it.
const WITH_RESERVE: &str = "state";

/// Opens and carries out the steps once for each sync that there is: that one fails, and so does
/// the step that asked for it. Gives how many syncs there were.
fn fail_each_sync<T>(
    open: impl Fn(&PowerDisk) -> Result<T, String>,
    steps: &[Step<'_, T>],
) -> usize {
    let mut without_reserve = 0;
    for syncs in 0.. {
        let disk = PowerDisk::default();
        disk.fail_sync_after(syncs);
        let opened = open(&disk);
        assert_eq!(opened.is_ok(), disk.is_sync_to_fail(), "sync {syncs}: open");
        let Ok(mut opened) = opened else {
            continue;
        };
        for (name, step) in steps {
            let done = step(&mut opened);
            if *name == WITH_RESERVE && done.is_ok() && !disk.is_sync_to_fail() {
                without_reserve += 1;
                break;
            }
            assert_eq!(done.is_ok(), disk.is_sync_to_fail(), "sync {syncs}: {name}");
            if done.is_err() {
                break;
            }
        }
        if disk.is_sync_to_fail() {
            assert!(without_reserve <= 1, "{without_reserve}");
            return syncs;
        }
    }
    unreachable!("there are not so many syncs")
}

const FIRST: QueueId = QueueId(1);
const SECOND: QueueId = QueueId(2);

fn append(files: &mut StreamFiles<PowerDisk>, stream: QueueId, offset: u64) -> Told {
    told(files.append(stream, &chunk(offset, 1, 100), true))
}

#[test]
fn each_failed_sync_of_streams_fails_the_call_that_asked_for_it() {
    let open = |disk: &PowerDisk| {
        let files = StreamFiles::open(disk.clone(), Path::new("streams"), 7);
        files.map_err(|error| error.to_string())
    };
    let state = ReplicaState {
        promised: Epoch(3),
        ..ReplicaState::default()
    };
    let syncs = fail_each_sync(
        open,
        &[
            ("begin", &|files| told(files.begin_segment(FIRST, 0))),
            ("begin", &|files| told(files.begin_segment(SECOND, 0))),
            ("append", &|files| append(files, FIRST, 0)),
            ("append", &|files| append(files, SECOND, 0)),
            ("together", &|files| {
                told(files.sync_together(&[FIRST, SECOND]))
            }),
            ("append", &|files| append(files, FIRST, 1)),
            ("sync", &|files| told(files.sync(FIRST))),
            ("append", &|files| append(files, FIRST, 2)),
            ("sync aside", &|files| {
                let sync = files.begin_sync(FIRST).map_err(|e| e.to_string())?;
                let synced = sync.expect("a chunk is not durable").run();
                synced
                    .map(|synced| files.synced(&synced))
                    .map_err(|e| e.to_string())
            }),
            ("mark", &|files| told(files.mark_durable(FIRST))),
            (WITH_RESERVE, &|files| {
                told(files.save_replica_state(FIRST, &state))
            }),
            ("next segment", &|files| told(files.begin_segment(FIRST, 3))),
            ("append", &|files| append(files, FIRST, 3)),
            ("append", &|files| append(files, SECOND, 1)),
            ("together", &|files| {
                told(files.sync_together(&[FIRST, SECOND]))
            }),
            ("cut", &|files| told(files.cut_and_recover(FIRST, 3))),
            ("delete segment", &|files| {
                told(files.delete_segment(FIRST, 0))
            }),
            ("set aside", &|files| told(files.set_aside(FIRST))),
            ("delete", &|files| told(files.delete_stream(SECOND))),
            ("begin", &|files| told(files.begin_segment(SECOND, 0))),
            ("end", &|files| told(files.sync_all())),
        ],
    );
    assert!(syncs >= 20, "{syncs}");
}

fn append_to(store: &mut Store<PowerDisk>, log: LogId, entries: u64) -> Told {
    let shard = &mut store.shards[0];
    for _ in 0..entries {
        let body = shard.body(Durability::Durable, &[&[5; 900]]);
        shard.append(log, body, 900);
    }
    Ok(())
}

#[test]
fn each_failed_sync_of_a_store_fails_the_call_that_asked_for_it() {
    let flush = |store: &mut Store<PowerDisk>| {
        store.roll();
        told(store.flush())
    };
    let syncs = fail_each_sync(
        open_store,
        &[
            ("create", &|store| {
                store.shards[0].create_log(A, LogKind::Durable);
                store.shards[0].create_log(B, LogKind::Durable);
                store.shards[0].place_apart(B);
                Ok(())
            }),
            ("append", &|store| append_to(store, A, 40)),
            ("append", &|store| append_to(store, B, 10)),
            ("sync", &|store| told(store.sync())),
            ("idle", &|store| told(store.mark_idle())),
            ("prepare", &|store| told(store.prepare(1))),
            ("flush", &flush),
            ("checkpoint", &|store| told(store.checkpoint())),
            ("append", &|store| append_to(store, A, 80)),
            ("sync", &|store| told(store.sync())),
            ("settle", &|store| {
                store.shards[0].settle(A, 0..39, 39 * 900);
                Ok(())
            }),
            ("flush", &flush),
            ("compact", &|store| told(store.compact())),
            ("checkpoint", &|store| told(store.checkpoint())),
        ],
    );
    assert!(syncs >= 10, "{syncs}");
}

#[test]
fn a_start_in_which_a_sync_fails_is_none() {
    let open = |disk: &PowerDisk| {
        // Everything before the start is on the disk: what is counted begins with the start.
        let before = PowerDisk::default();
        let mut store = open_store(&before)?;
        store.shards[0].create_log(A, LogKind::Durable);
        append_to(&mut store, A, 20)?;
        told(store.sync())?;
        drop(store);
        disk.begin_with(&before);
        open_store(disk)
    };
    let syncs = fail_each_sync(open, &[]);
    assert!(syncs >= 3, "{syncs}");
}
