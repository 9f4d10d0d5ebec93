//! A stream that was idle before its node was killed: a last chunk that the disk has changed since
//! is damage, and not the torn end of a write.

use crate::common::{declare, end_turn, give, publish};
use leveret_storage::{MemoryDisk, StreamFiles};
use leveret_stream::{
    Command, Event, Flush, OffsetSpec, ReaderId, Refusal, ReplicaEvent, ReplicaOrigin, RequestId,
    StreamSettings,
};
use leveret_stream_host::StreamHost;
use leveret_types::limits::STREAM_IDLE_MS;
use leveret_types::{NodeId, Now, QueueId};
use std::path::{Path, PathBuf};

const STREAM: QueueId = QueueId(7);

fn host(disk: &MemoryDisk, life: u64) -> StreamHost<MemoryDisk> {
    StreamHost::new(StreamFiles::open(disk.clone(), Path::new("streams"), life).unwrap())
}

fn settings(flush: Flush) -> StreamSettings {
    StreamSettings {
        flush,
        ..StreamSettings::default()
    }
}

fn publish_at(host: &mut StreamHost<MemoryDisk>, ms: u64, id: u64) -> Vec<Event> {
    give(host, Now::both(ms), publish(STREAM, id..id + 1));
    let mut events = end_turn(host, Now::both(ms));
    // Syncs for nobody who waits.
    while let Some(due_ms) = host.due_ms().filter(|due_ms| *due_ms < ms + STREAM_IDLE_MS) {
        events.extend(end_turn(host, Now::both(due_ms.max(ms))));
        for sync in host.take_syncs() {
            host.synced(&sync.run().unwrap());
        }
    }
    events
}

/// Changes the last byte that is not zero.
fn change_last_chunk(disk: &MemoryDisk) {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "stream");
    let segment = disk.paths().into_iter().rfind(is_segment).unwrap();
    assert!(disk.tamper(&segment, |bytes| {
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[last] ^= 1;
    }));
}

/// The first offsets of the chunks that come, and whether the reader ends at damage.
fn read_from(host: &mut StreamHost<MemoryDisk>, offset: u64) -> (Vec<u64>, bool) {
    let (stream, reader) = (STREAM, ReaderId(1));
    let subscribe = Command::Subscribe {
        request: RequestId(1),
        stream,
        reader,
        offset: OffsetSpec::Offset(offset),
        credit: 1_000,
        filter: None,
    };
    let now = Now::both(0);
    let mut events = give(host, now, subscribe);
    events.extend(end_turn(host, now));
    give(host, now, Command::Unsubscribe { stream, reader });
    let chunks = events.iter().filter_map(|event| match event {
        Event::Chunk { chunk, .. } => Some(chunk.header().first_offset),
        _ => None,
    });
    let is_end = |event: &Event| {
        matches!(
            event,
            Event::ReaderEnded {
                refusal: Refusal::Damaged(_),
                ..
            }
        )
    };
    (chunks.collect(), events.iter().any(is_end))
}

#[test]
fn the_last_chunk_of_an_idle_stream_is_not_cut_in_silence() {
    for flush in [Flush::Sync, Flush::Interval(100)] {
        let disk = MemoryDisk::new();
        let mut first = host(&disk, 1);
        first.begin(STREAM, settings(flush)).unwrap();
        declare(&mut first, STREAM);
        for id in 0..4 {
            publish_at(&mut first, 10, id);
        }
        // It becomes idle, and then costs nothing.
        let due_ms = first.due_ms().unwrap();
        assert!((10 + STREAM_IDLE_MS..=10 + 2 * STREAM_IDLE_MS).contains(&due_ms));
        end_turn(&mut first, Now::both(due_ms));
        assert_eq!(first.due_ms(), None);
        drop(first);
        change_last_chunk(&disk);
        let mut host = host(&disk, 2);
        let found = host.begin(STREAM, settings(flush)).unwrap();
        assert_eq!(found.cut_bytes, 0);
        assert!(found.damage[0].contains("offsets 3 to 3"), "{found:?}");
        let told: Vec<ReplicaEvent> = reports(&mut host);
        assert_eq!(told, [ReplicaEvent::DamagedForGood { from: 3 }]);
        assert_eq!(read_from(&mut host, 0), (vec![0, 1, 2], true));
        // It goes on behind the damage, where readers are not stopped by it.
        declare(&mut host, STREAM);
        let confirmed = publish_at(&mut host, 20, 4);
        let is_confirmed = |event: &Event| matches!(event, Event::Confirmed { .. });
        assert!(confirmed.iter().any(is_confirmed), "{confirmed:?}");
        assert_eq!(read_from(&mut host, 4), (vec![4], false));
        drop(host);
        let mut again = self::host(&disk, 3);
        again.begin(STREAM, settings(flush)).unwrap();
        assert_eq!(read_from(&mut again, 4), (vec![4], false));
        assert_eq!(read_from(&mut again, 0), (vec![0, 1, 2], true));
    }
}

fn reports(host: &mut StreamHost<MemoryDisk>) -> Vec<ReplicaEvent> {
    end_turn(host, Now::both(0));
    let reports = host.take_reports().into_iter();
    reports.map(|(_, event)| event).collect()
}

/// One that is written to is looked at now and then, and marked when it is idle.
#[test]
fn a_stream_that_is_written_to_is_not_marked() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk, 1);
    host.begin(STREAM, settings(Flush::Sync)).unwrap();
    declare(&mut host, STREAM);
    let marks = || {
        let paths = disk.paths().into_iter();
        paths.filter(|path| path.to_string_lossy().matches('-').count() > 1)
    };
    for second in 0..20 {
        publish_at(&mut host, second * 1_000, second);
        assert_eq!(marks().count(), 0, "after {second} s");
    }
    let mut turns = 0;
    while let Some(due_ms) = host.due_ms() {
        end_turn(&mut host, Now::both(due_ms));
        turns += 1;
    }
    assert_eq!(marks().count(), 1);
    assert!(turns <= 3, "{turns} turns");
}

/// What was found after a kill is synced, and may not be taken for torn later on.
#[test]
fn what_a_start_has_found_is_marked() {
    let disk = MemoryDisk::new();
    let mut first = host(&disk, 1);
    first.begin(STREAM, settings(Flush::Sync)).unwrap();
    declare(&mut first, STREAM);
    publish_at(&mut first, 0, 0);
    drop(first);
    let mut second = host(&disk, 2);
    second.begin(STREAM, settings(Flush::Sync)).unwrap();
    end_turn(&mut second, Now::both(0));
    assert_eq!(second.due_ms(), None);
    drop(second);
    change_last_chunk(&disk);
    let found = host(&disk, 3).begin(STREAM, settings(Flush::Sync)).unwrap();
    assert!(found.damage[0].contains("offsets 0 to 0"), "{found:?}");
}

#[test]
fn a_replica_without_its_last_chunk_does_not_lead() {
    let disk = MemoryDisk::new();
    let mut first = host(&disk, 1);
    first.begin(STREAM, settings(Flush::Sync)).unwrap();
    declare(&mut first, STREAM);
    publish_at(&mut first, 0, 0);
    publish_at(&mut first, 0, 1);
    first.sync_all().unwrap();
    drop(first);
    change_last_chunk(&disk);
    let mut host = host(&disk, 2);
    let (settings, origin) = (settings(Flush::Sync), ReplicaOrigin::NewReplica);
    let begun = host.begin_replica(STREAM, settings, NodeId(1), origin);
    assert_eq!(begun.unwrap().damage.len(), 1);
    let told = reports(&mut host);
    assert_eq!(told, [ReplicaEvent::Damaged { from: 1 }]);
}
