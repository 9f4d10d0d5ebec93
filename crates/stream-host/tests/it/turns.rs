//! Turns of a node's streams over a disk in memory: what is confirmed is synced, one sync for each
//! stream and turn; full disks hold back; streams come back after a start.

use crate::common::{SESSION, declare, end_turn, give, host, publish, soon_ms, subscribe_first};
use leveret_storage::{MemoryDisk, StreamFiles};
use leveret_stream::{
    BatchBuilder, Command, Epoch, Event, Events, Flush, OffsetSpec, PublisherId, ReaderId, Refusal,
    ReplicaEvent, ReplicaOrder, ReplicaOrigin, RequestId, StoredBy, StreamSettings,
};
use leveret_stream_host::{Known, StreamHost};
use leveret_types::limits::{
    STREAM_CROWDED_TELL_MS, STREAM_EARLY_READER_MS, STREAM_EARLY_READERS_MAX, STREAM_OFFSETS_MAX,
    STREAM_TAIL_BYTES, STREAM_TAIL_BYTES_MAX, STREAM_TRACKING_GATHER_MS,
};
use leveret_types::{NodeId, Now, QueueId};
use std::path::Path;

fn with(flush: Flush) -> StreamSettings {
    StreamSettings {
        flush,
        ..StreamSettings::default()
    }
}

fn confirmed(events: &[Event]) -> usize {
    let ids = |event: &Event| match event {
        Event::Confirmed { ids, .. } => ids.len(),
        _ => 0,
    };
    events.iter().map(ids).sum()
}

/// Does what the host hands out; how many that are.
fn do_syncs(host: &mut StreamHost<MemoryDisk>) -> usize {
    let syncs = host.take_syncs();
    let count = syncs.len();
    for sync in syncs {
        host.synced(&sync.run().unwrap());
    }
    count
}

#[test]
fn streams_that_are_published_to_in_one_turn_share_a_sync() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let streams: Vec<QueueId> = (1..=10).map(QueueId).collect();
    for stream in &streams {
        host.begin(*stream, with(Flush::Sync)).unwrap();
        declare(&mut host, *stream);
        give(&mut host, Now::both(0), publish(*stream, 0..1));
    }
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(0))), 10);
    let before = disk.counts().syncs;
    for round in 1..=5 {
        for stream in &streams[..3] {
            let publish = publish(*stream, round * 10..round * 10 + 10);
            assert!(
                give(&mut host, Now::both(round), publish).is_empty(),
                "nothing is confirmed"
            );
        }
    }
    assert_eq!(disk.counts().syncs, before);
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(9))), 3 * 50);
    assert_eq!(disk.counts().syncs, before + 1);
    give(&mut host, Now::both(9), publish(streams[0], 90..91));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(9))), 1);
    assert_eq!(
        disk.counts().syncs,
        before + 2,
        "one alone is synced itself"
    );
    assert_eq!(soon_ms(&host), None, "nothing is left to do");
}

#[test]
fn what_is_much_for_one_turn_is_synced_in_its_segment_and_written_once() {
    const BODY_BYTES: usize = 64 * 1024;
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let streams = [QueueId(1), QueueId(2)];
    for stream in streams {
        host.begin(stream, with(Flush::Sync)).unwrap();
        declare(&mut host, stream);
        give(&mut host, Now::both(0), publish(stream, 0..1));
    }
    end_turn(&mut host, Now::both(0));
    let before = disk.counts();
    for stream in streams {
        let mut batch = BatchBuilder::new();
        assert!(batch.push(1, None, &[b'x'; BODY_BYTES]));
        let publish = Command::Publish {
            stream,
            publisher: PublisherId(1),
            batch: batch.take(),
        };
        give(&mut host, Now::both(1), publish);
    }
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(1))), 2);
    let after = disk.counts();
    assert_eq!(after.syncs, before.syncs + 2);
    let written = after.written_bytes - before.written_bytes;
    assert!(written < 2 * BODY_BYTES as u64 * 115 / 100, "{written}");
}

/// The journal's files are used again once the segments are synced, which nobody waits for.
#[test]
fn the_segments_of_what_was_synced_together_are_synced_while_nobody_waits() {
    let disk = MemoryDisk::new();
    let files = StreamFiles::open(disk.clone(), Path::new("streams"), 9).unwrap();
    let mut host = StreamHost::new(files.with_journal_bytes_max(64 * 1024));
    let streams = [QueueId(1), QueueId(2)];
    for stream in streams {
        host.begin(stream, with(Flush::Sync)).unwrap();
        declare(&mut host, stream);
    }
    let (mut syncs, mut most) = (0, 0);
    for round in 0..500 {
        let before = disk.counts().syncs;
        for stream in streams {
            give(
                &mut host,
                Now::both(round),
                publish(stream, round..round + 1),
            );
        }
        assert_eq!(confirmed(&end_turn(&mut host, Now::both(round))), 2);
        if round > 0 {
            most = most.max(disk.counts().syncs - before);
        }
        syncs += do_syncs(&mut host);
    }
    assert!(
        (4..=20).contains(&syncs),
        "two for each file that was filled: {syncs}"
    );
    assert!(
        most <= 3,
        "a file that begins again, and what is written to it: {most}"
    );
    // With the file that keeps room for what a start writes.
    assert!(disk.bytes() < 64 * 1024 * 4 + 500 * 2 * 1024 + 1024 * 1024);
}

#[test]
fn a_stream_with_an_interval_confirms_at_once_and_syncs_when_it_is_over() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let (slow, never) = (QueueId(1), QueueId(2));
    host.begin(slow, with(Flush::Interval(100))).unwrap();
    host.begin(never, with(Flush::Os)).unwrap();
    for stream in [slow, never] {
        declare(&mut host, stream);
        give(&mut host, Now::both(0), publish(stream, 0..1));
    }
    end_turn(&mut host, Now::both(0));
    end_turn(&mut host, Now::both(1_000));
    do_syncs(&mut host);
    let before = disk.counts().syncs;
    for stream in [slow, never] {
        give(&mut host, Now::both(1_000), publish(stream, 1..5));
    }
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(1_000))), 8);
    assert_eq!((disk.counts().syncs, host.due_ms()), (before, Some(1_100)));
    end_turn(&mut host, Now::both(1_099));
    assert_eq!(disk.counts().syncs, before);
    end_turn(&mut host, Now::both(1_100));
    assert_eq!(do_syncs(&mut host), 1);
    assert_eq!((disk.counts().syncs, soon_ms(&host)), (before + 1, None));
}

#[test]
fn nobody_waits_for_a_sync_that_no_confirm_waits_for() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let stream = QueueId(1);
    host.begin(stream, with(Flush::Interval(100))).unwrap();
    declare(&mut host, stream);
    give(&mut host, Now::both(0), publish(stream, 0..5));
    end_turn(&mut host, Now::both(0));
    end_turn(&mut host, Now::both(100));
    let sync = host.take_syncs().pop().expect("a sync is due");
    // While it is under way, what comes is written, confirmed and read, and no other one begins.
    give(&mut host, Now::both(150), publish(stream, 5..9));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(150))), 4);
    give(&mut host, Now::both(150), subscribe_first(stream, 9));
    end_turn(&mut host, Now::both(500));
    assert!(host.take_syncs().is_empty());
    assert_eq!(soon_ms(&host), None);
    // Afterwards the next one is due at once, for what came meanwhile.
    host.synced(&sync.run().unwrap());
    assert_eq!(host.due_ms(), Some(250));
    end_turn(&mut host, Now::both(500));
    assert_eq!(do_syncs(&mut host), 1);
    assert_eq!(soon_ms(&host), None);
}

#[test]
fn what_an_interval_has_confirmed_is_synced_on_a_full_disk_too() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let stream = QueueId(1);
    host.begin(stream, with(Flush::Interval(100))).unwrap();
    declare(&mut host, stream);
    give(&mut host, Now::both(0), publish(stream, 0..5));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(0))), 5);
    disk.set_bytes_max(Some(disk.bytes()));
    give(&mut host, Now::both(50), publish(stream, 5..9));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(50))), 0);
    end_turn(&mut host, Now::both(100));
    assert!(host.is_disk_full());
    assert_eq!(do_syncs(&mut host), 1);
}

#[test]
fn a_full_disk_holds_back_and_loses_nothing() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let stream = QueueId(1);
    host.begin(stream, with(Flush::Sync)).unwrap();
    declare(&mut host, stream);
    give(&mut host, Now::both(0), publish(stream, 0..10));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(0))), 10);
    disk.set_bytes_max(Some(disk.bytes()));
    give(&mut host, Now::both(1), publish(stream, 10..20));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(1))), 0);
    assert!(host.is_disk_full());
    give(&mut host, Now::both(2), publish(stream, 20..30));
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(2))), 0);
    // Who reads what is there is not held back.
    give(&mut host, Now::both(2), subscribe_first(stream, 5));
    let events = end_turn(&mut host, Now::both(2));
    assert!(matches!(events[..], [Event::Chunk { .. }]), "{events:?}");
    disk.set_bytes_max(None);
    assert_eq!(confirmed(&end_turn(&mut host, Now::both(3))), 20);
    assert!(!host.is_disk_full());
}

#[test]
fn a_stream_is_read_from_its_beginning_after_a_start() {
    let disk = MemoryDisk::new();
    let stream = QueueId(1);
    let mut before = host(&disk);
    before.begin(stream, with(Flush::Sync)).unwrap();
    declare(&mut before, stream);
    for round in 0..50_u64 {
        let now = Now::both(round);
        give(
            &mut before,
            now,
            publish(stream, round * 10..round * 10 + 10),
        );
        assert_eq!(confirmed(&end_turn(&mut before, now)), 10);
    }
    drop(before);
    let mut host = host(&disk);
    let found = host.begin(stream, with(Flush::Sync)).unwrap();
    assert_eq!((found.cut_bytes, found.damage.len()), (0, 0));
    let now = Now::both(100);
    let mut events = give(&mut host, now, subscribe_first(stream, 1_000));
    assert!(matches!(
        events[..],
        [Event::Subscribed { result: Ok(()), .. }]
    ));
    events.clear();
    while host.due_ms().is_some() {
        events.extend(end_turn(&mut host, now));
    }
    let mut bodies = Vec::new();
    for event in &events {
        if let Event::Chunk { chunk, .. } = event {
            bodies.extend(chunk.entries().map(|entry| entry.unwrap().body.to_vec()));
        }
    }
    let expected: Vec<Vec<u8>> = (0..500_u64).map(|id| id.to_be_bytes().to_vec()).collect();
    assert_eq!(bodies, expected);
}

#[test]
fn a_session_that_ends_leaves_each_stream_that_it_had_to_do_with() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let streams: Vec<QueueId> = (1..=3).map(QueueId).collect();
    for stream in &streams {
        host.begin(*stream, with(Flush::Sync)).unwrap();
    }
    declare(&mut host, streams[0]);
    give(&mut host, Now::both(0), subscribe_first(streams[1], 1));
    let standing = |host: &StreamHost<MemoryDisk>| {
        let stats = host.stats();
        let of = |(_, s): (_, leveret_stream::StreamStats)| (s.publishers, s.readers);
        stats.map(of).collect::<Vec<_>>()
    };
    assert_eq!(standing(&host), [(1, 0), (0, 1), (0, 0)]);
    give(&mut host, Now::both(0), Command::Leave);
    assert_eq!(standing(&host), [(0, 0); 3]);
}

#[test]
fn a_stream_that_does_not_run_here_is_not_available_as_it_may_be_elsewhere_or_soon() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let stream = QueueId(1);
    host.begin(stream, with(Flush::Sync)).unwrap();
    declare(&mut host, stream);
    give(&mut host, Now::both(0), publish(stream, 0..1));
    end_turn(&mut host, Now::both(0));
    assert!(!disk.paths().is_empty());
    let mut events = Events::new();
    host.delete(stream, &mut events).unwrap();
    assert!(matches!(events[..], [(SESSION, Event::Gone { .. })]));
    assert!(disk.paths().is_empty());
    let events = give(&mut host, Now::both(0), publish(stream, 7..9));
    let [Event::Refused { ids, refusal, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(ids[..], [7, 8]);
    assert!(matches!(refusal, Refusal::NotAvailable(_)), "{refusal}");
}

/// A crash came between the deletion of a stream and that of its files.
#[test]
fn files_of_streams_that_do_not_exist_are_deleted_at_a_start() {
    let disk = MemoryDisk::new();
    let mut before = host(&disk);
    for stream in [QueueId(1), QueueId(2)] {
        before.begin(stream, with(Flush::Sync)).unwrap();
        declare(&mut before, stream);
        give(&mut before, Now::both(0), publish(stream, 0..1));
    }
    end_turn(&mut before, Now::both(0));
    drop(before);
    let segments = || {
        let paths = disk.paths().into_iter();
        paths
            .filter(|path| path.extension().is_some_and(|ending| ending == "stream"))
            .count()
    };
    assert_eq!(segments(), 2);
    let known = |stream| match stream {
        QueueId(2) => Known::Here,
        _ => Known::Gone,
    };
    host(&disk).sort_out(known).unwrap();
    assert_eq!(segments(), 1);
}

#[test]
fn files_of_a_stream_that_nobody_knows_are_set_aside_and_never_deleted() {
    let disk = MemoryDisk::new();
    let stream = QueueId(1);
    let fill = |bodies: std::ops::Range<u64>| {
        let mut host = host(&disk);
        host.begin(stream, StreamSettings::default()).unwrap();
        declare(&mut host, stream);
        give(&mut host, Now::both(0), publish(stream, bodies));
        end_turn(&mut host, Now::both(0));
    };
    let aside = || {
        let found = host(&disk).files().what_is_set_aside().unwrap();
        found.map_or((0, 0), |found| (found.files, found.bytes))
    };
    let path = Path::new("streams/0000000000000001-00000000000000000000.stream");
    let (mut files, mut bytes) = (0, 0);
    // Also where one of that name was set aside before: ids are given again by a catalogue that
    // does not know of them.
    for _ in 0..3 {
        fill(0..3);
        assert!(disk.tamper(path, |stored| bytes += stored.len() as u64));
        // The segment, and its name as the newest one.
        files += 2;
        host(&disk).sort_out(|_| Known::Never).unwrap();
        assert_eq!(aside(), (files, bytes));
        assert!(!disk.tamper(path, |_| ()), "it is out of the way");
        assert_eq!(host(&disk).files().streams().count(), 0);
    }
    // One that holds nothing was begun by a declaration that was never confirmed.
    fill(0..3);
    assert!(disk.tamper(path, |stored| stored.truncate(512)));
    host(&disk).sort_out(|_| Known::Never).unwrap();
    assert_eq!(aside(), (files, bytes));
    assert!(!disk.tamper(path, |_| ()), "it is deleted");
}

/// A stream that this node leads, and whose followers are not reached.
fn lead(host: &mut StreamHost<MemoryDisk>, stream: QueueId) {
    let me = NodeId(1);
    host.begin_replica(stream, with(Flush::Sync), me, ReplicaOrigin::NewStream)
        .unwrap();
    let members = (1..=3).map(NodeId).collect();
    let lead = ReplicaOrder::Lead {
        epoch: Epoch(1),
        members,
    };
    host.order(stream, lead, &mut Events::new());
    end_turn(host, Now::both(0));
    declare(host, stream);
}

#[test]
fn what_no_majority_has_is_bounded_in_memory_over_all_streams() {
    let streams: Vec<QueueId> = (1..=8).map(QueueId).collect();
    let filled = |bytes_max: usize| {
        let mut host = host(&MemoryDisk::new()).with_tails_bytes_max(bytes_max);
        for stream in &streams {
            lead(&mut host, *stream);
            give(&mut host, Now::both(1), publish(*stream, 0..100));
            assert_eq!(confirmed(&end_turn(&mut host, Now::both(1))), 0);
        }
        host.tails_bytes()
    };
    let all = filled(usize::MAX);
    assert!(all > 8 * 800, "{all}");
    assert_eq!(filled(all), all, "as much as there may be");
    let left = filled(all - 1);
    assert!(left <= all / 4 * 3, "{left} of {all}");
    assert!(left >= all / 2, "only as many let go as have to");
}

#[test]
fn readers_at_the_end_get_all_where_nothing_may_stay_in_memory() {
    let mut host = host(&MemoryDisk::new()).with_tails_bytes_max(0);
    let stream = QueueId(1);
    host.begin(stream, with(Flush::Sync)).unwrap();
    declare(&mut host, stream);
    give(&mut host, Now::both(0), subscribe_first(stream, 100));
    for round in 0..10 {
        give(
            &mut host,
            Now::both(round),
            publish(stream, round..round + 1),
        );
        let events = end_turn(&mut host, Now::both(round));
        let is_chunk = |event: &Event| matches!(event, Event::Chunk { .. });
        assert_eq!(events.iter().filter(|e| is_chunk(e)).count(), 1, "{round}");
        assert_eq!(host.tails_bytes(), 0);
    }
}

/// Publishes so many chunks of nearly a mebibyte each, a turn for each; how many chunks came.
fn publish_mebibytes(host: &mut StreamHost<MemoryDisk>, stream: QueueId, count: u64) -> usize {
    let mut chunks = 0;
    for id in 0..count {
        let mut batch = BatchBuilder::new();
        assert!(batch.push(id, None, &[7; 1_000_000]));
        let publish = Command::Publish {
            stream,
            publisher: PublisherId(1),
            batch: batch.take(),
        };
        give(host, Now::both(id), publish);
        let events = end_turn(host, Now::both(id));
        let is_chunk = |event: &&Event| matches!(event, Event::Chunk { .. });
        chunks += events.iter().filter(is_chunk).count();
    }
    chunks
}

#[test]
fn what_a_reader_needs_that_pauses_stays_in_memory_up_to_a_bound() {
    // The last of the chunks that are kept is counted with its head, and may be one too many.
    const KEPT: u64 = (STREAM_TAIL_BYTES_MAX / 1_000_100) as u64;
    let stream = QueueId(1);
    let chunks_read_after = |published: u64| {
        let mut host = host(&MemoryDisk::new());
        host.begin(stream, StreamSettings::default()).unwrap();
        declare(&mut host, stream);
        give(&mut host, Now::both(0), subscribe_first(stream, 1));
        assert_eq!(publish_mebibytes(&mut host, stream, published + 1), 1);
        assert!(host.tails_bytes() <= STREAM_TAIL_BYTES_MAX);
        let credit = Command::Credit {
            stream,
            reader: ReaderId(1),
            chunks: 100,
        };
        let is_chunk = |event: &&Event| matches!(event, Event::Chunk { .. });
        let at_once = give(&mut host, Now::both(99), credit);
        let at_once = at_once.iter().filter(is_chunk).count() as u64;
        let events = end_turn(&mut host, Now::both(99));
        let later = events.iter().filter(is_chunk).count() as u64;
        assert_eq!(at_once + later, published);
        later
    };
    assert_eq!(chunks_read_after(KEPT), 0, "all of them were in memory");
    assert!(chunks_read_after(KEPT + 2) > 0, "it was too far behind");
}

#[test]
fn readers_that_keep_up_or_are_far_behind_keep_little_in_memory() {
    let stream = QueueId(1);
    let mut host = host(&MemoryDisk::new());
    host.begin(stream, StreamSettings::default()).unwrap();
    declare(&mut host, stream);
    // One is behind all that is kept; it does not count when another one keeps up.
    give(&mut host, Now::both(0), subscribe_first(stream, 1));
    publish_mebibytes(
        &mut host,
        stream,
        2 * (STREAM_TAIL_BYTES_MAX / 1_000_000) as u64,
    );
    assert!(host.tails_bytes() <= STREAM_TAIL_BYTES);
    let subscribe = Command::Subscribe {
        request: RequestId(2),
        stream,
        reader: ReaderId(2),
        offset: OffsetSpec::Next,
        credit: 100,
        filter: None,
    };
    give(&mut host, Now::both(99), subscribe);
    assert_eq!(publish_mebibytes(&mut host, stream, 20), 20);
    assert!(host.tails_bytes() <= STREAM_TAIL_BYTES);
}

#[test]
fn a_leader_whose_disk_is_full_asks_for_another_one_and_lets_its_publishers_go_to_it() {
    let disk = MemoryDisk::new();
    let mut host = host(&disk);
    let stream = QueueId(1);
    lead(&mut host, stream);
    assert!(host.take_reports().is_empty());
    disk.set_bytes_max(Some(disk.bytes()));
    let mut needed = 0;
    for round in 0..3 {
        give(
            &mut host,
            Now::both(round),
            publish(stream, round..round + 1),
        );
        end_turn(&mut host, Now::both(round));
        assert!(host.is_disk_full());
        let reports = host.take_reports().into_iter();
        let is_needed = |event: &ReplicaEvent| matches!(event, ReplicaEvent::ElectionNeeded { .. });
        needed += reports.filter(|(_, event)| is_needed(event)).count();
    }
    assert_eq!(needed, 1, "said once");
    let follow = ReplicaOrder::Follow {
        epoch: Epoch(2),
        leader: NodeId(2),
    };
    let mut events = Events::new();
    host.order(stream, follow, &mut events);
    assert!(
        matches!(events[..], [(SESSION, Event::Lost { .. })]),
        "{events:?}"
    );
}

#[test]
fn what_a_named_group_has_not_had_stays_whatever_its_age_and_an_operator_is_told_once() {
    let mut host = host(&MemoryDisk::new());
    let stream = QueueId(1);
    let settings = StreamSettings {
        bytes_max: Some(2_000),
        segment_bytes: 1_000,
        retention_groups: leveret_stream::retention_groups("billing,search").unwrap(),
        retention_alarm_bytes: 20_000,
        ..StreamSettings::default()
    };
    host.begin(stream, settings.clone()).unwrap();
    declare(&mut host, stream);
    let fill = |host: &mut StreamHost<MemoryDisk>, rounds: std::ops::Range<u64>| {
        for round in rounds {
            give(
                host,
                Now::both(round),
                publish(stream, round * 10..round * 10 + 10),
            );
            end_turn(host, Now::both(round));
        }
        host.expire(Now::both(0));
        end_turn(host, Now::both(0));
        let alarms = host.take_retention_alarms();
        let (_, stats) = host.stats().next().unwrap();
        (stats.first_chunk, stats.held_bytes, alarms)
    };
    let store = |host: &mut StreamHost<MemoryDisk>, group: &'static [u8], offset| {
        let reference = leveret_stream::Reference::new(group.into()).unwrap();
        let store = Command::StoreOffset {
            stream,
            reference,
            offset,
            by: StoredBy::Anyone,
        };
        give(host, Now::both(0), store);
    };
    let (first, held, alarms) = fill(&mut host, 0..20);
    assert_eq!(first, Some(0), "no group has stored anything");
    assert!((1..=20_000).contains(&held), "{held}");
    assert!(alarms.is_empty());
    let (_, held, alarms) = fill(&mut host, 20..60);
    assert!(held > 20_000);
    assert_eq!(alarms.len(), 1);
    let alarm = alarms[0].1.as_ref().unwrap();
    assert_eq!((alarm.offset, alarm.bytes), (None, held));
    assert!(fill(&mut host, 60..61).2.is_empty(), "told once");
    // The slower one decides, and what it has stored stays.
    store(&mut host, b"billing", 600);
    store(&mut host, b"search", 105);
    let (first, _, _) = fill(&mut host, 61..62);
    assert!((91..=105).contains(&first.unwrap()), "{first:?}");
    fill(&mut host, 62..63);
    store(&mut host, b"billing", 640);
    store(&mut host, b"search", 640);
    let (first, held, alarms) = fill(&mut host, 63..63);
    assert!(first.unwrap() > 500, "{first:?}");
    assert_eq!((held, alarms.as_slice()), (0, &[(stream, None)][..]));
    // Without groups size alone decides.
    let settings = StreamSettings {
        retention_groups: Vec::new(),
        ..settings
    };
    host.set_settings(stream, settings);
    let (first, held, _) = fill(&mut host, 63..90);
    assert!(first.unwrap() > 800 && held == 0, "{first:?}");
}

/// Whatever a group says, it has had nothing that is not there yet.
#[test]
fn a_named_group_with_an_offset_beyond_the_end_holds_what_comes() {
    let mut host = host(&MemoryDisk::new());
    let stream = QueueId(1);
    let settings = StreamSettings {
        bytes_max: Some(2_000),
        segment_bytes: 1_000,
        retention_groups: leveret_stream::retention_groups("billing").unwrap(),
        ..StreamSettings::default()
    };
    host.begin(stream, settings).unwrap();
    declare(&mut host, stream);
    let store = |host: &mut StreamHost<MemoryDisk>, group: &'static [u8], offset| {
        let reference = leveret_stream::Reference::new(group.into()).unwrap();
        let by = StoredBy::Anyone;
        let store = Command::StoreOffset {
            stream,
            reference: reference.clone(),
            offset,
            by,
        };
        give(host, Now::both(0), store);
        let tracking = host.tracking(stream);
        tracking.and_then(|tracking| tracking.offset(&reference))
    };
    assert_eq!(store(&mut host, b"billing", 1 << 63), None, "it is empty");
    let fill = |host: &mut StreamHost<MemoryDisk>, rounds: std::ops::Range<u64>| {
        for round in rounds {
            let ids = round * 10..round * 10 + 10;
            give(host, Now::both(round), publish(stream, ids));
            end_turn(host, Now::both(round));
        }
        host.expire(Now::both(0));
        end_turn(host, Now::both(0));
        let (_, stats) = host.stats().next().unwrap();
        stats.first_chunk.unwrap()
    };
    assert_eq!(fill(&mut host, 0..20), 0);
    assert_eq!(store(&mut host, b"billing", 1 << 63), Some(199));
    assert_eq!(store(&mut host, b"others", 1 << 63), Some(1 << 63));
    assert!((150..=199).contains(&fill(&mut host, 20..60)));
}

/// A leader without followers in reach does not know what is committed.
fn begin_follower_of_nobody(host: &mut StreamHost<MemoryDisk>, stream: QueueId) {
    let me = NodeId(1);
    host.begin_replica(stream, with(Flush::Sync), me, ReplicaOrigin::NewStream)
        .unwrap();
    end_turn(host, Now::both(0));
}

#[test]
fn who_subscribes_before_the_replicas_have_found_each_other_waits_for_that() {
    let stream = QueueId(1);
    let mut host = host(&MemoryDisk::new());
    begin_follower_of_nobody(&mut host, stream);
    assert!(give(&mut host, Now::both(10), subscribe_first(stream, 1)).is_empty());
    assert!(end_turn(&mut host, Now::both(10)).is_empty());
    // It leads alone: all that there is is committed.
    let lead = ReplicaOrder::Lead {
        epoch: Epoch(1),
        members: vec![NodeId(1)],
    };
    let mut events = Events::new();
    host.order(stream, lead, &mut events);
    let mut heard: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
    for round in 0..5 {
        heard.extend(end_turn(&mut host, Now::both(20 + round)));
    }
    assert!(
        matches!(heard[..], [Event::Subscribed { result: Ok(()), .. }]),
        "{heard:?}"
    );
}

#[test]
fn who_has_waited_in_vain_is_refused_and_so_is_one_too_many() {
    let stream = QueueId(1);
    let mut host = host(&MemoryDisk::new());
    begin_follower_of_nobody(&mut host, stream);
    let is_refused = |events: &[Event]| {
        let refused = |event: &&Event| {
            let Event::ResolvedOffset { result, .. } = event else {
                return false;
            };
            matches!(result, Err(Refusal::NotAvailable(_)))
        };
        events.iter().filter(refused).count()
    };
    let resolve = || Command::ResolveOffset {
        request: RequestId(1),
        stream,
        offset: OffsetSpec::First,
    };
    for _ in 0..STREAM_EARLY_READERS_MAX {
        assert!(give(&mut host, Now::both(10), resolve()).is_empty());
    }
    let one_more = give(&mut host, Now::both(10), resolve());
    assert_eq!(is_refused(&one_more), 1);
    let just_before = Now::both(10 + STREAM_EARLY_READER_MS - 1);
    assert_eq!(end_turn(&mut host, just_before).len(), 0);
    let due = Now::both(host.due_ms().unwrap());
    assert_eq!(due.monotonic_ms, just_before.monotonic_ms + 1);
    assert_eq!(
        is_refused(&end_turn(&mut host, due)),
        STREAM_EARLY_READERS_MAX
    );
    // Who has gone hears nothing.
    assert!(give(&mut host, due, subscribe_first(stream, 1)).is_empty());
    let unsubscribe = Command::Unsubscribe {
        stream,
        reader: ReaderId(1),
    };
    assert!(give(&mut host, due, unsubscribe).is_empty());
    let late = Now::both(due.monotonic_ms + STREAM_EARLY_READER_MS);
    assert!(end_turn(&mut host, late).is_empty());
}

#[test]
fn a_forgotten_group_is_not_there_after_a_start_and_others_are() {
    let (disk, stream) = (MemoryDisk::new(), QueueId(1));
    let mut before = host(&disk);
    before.begin(stream, with(Flush::Sync)).unwrap();
    let name = |name: &'static [u8]| leveret_stream::Reference::new(name.into()).unwrap();
    for group in [&b"kept"[..], b"gone"] {
        let store = Command::StoreOffset {
            stream,
            reference: name(group),
            offset: 7,
            by: StoredBy::Anyone,
        };
        give(&mut before, Now::both(0), store);
        end_turn(&mut before, Now::both(STREAM_TRACKING_GATHER_MS));
    }
    assert_eq!(
        before.forget_offset(Now::both(1), stream, &name(b"gone")),
        Some(true)
    );
    assert_eq!(
        before.forget_offset(Now::both(1), stream, &name(b"gone")),
        Some(false)
    );
    assert_eq!(
        before.forget_offset(Now::both(1), QueueId(2), &name(b"gone")),
        None
    );
    end_turn(&mut before, Now::both(1));
    drop(before);
    let mut after = host(&disk);
    after.begin(stream, with(Flush::Sync)).unwrap();
    let all: Vec<_> = after.groups(Now::both(2)).collect();
    let offsets: Vec<_> = all[0]
        .2
        .iter()
        .map(|group| (group.group.clone(), group.offset))
        .collect();
    assert_eq!(offsets, [(name(b"kept"), 7)]);
}

#[test]
fn a_stream_to_which_more_names_store_offsets_than_it_keeps_is_told_of_now_and_then() {
    let mut host = host(&MemoryDisk::new());
    let stream = QueueId(1);
    host.begin(stream, StreamSettings::default()).unwrap();
    declare(&mut host, stream);
    let store = |host: &mut StreamHost<MemoryDisk>, number: usize| {
        let reference = format!("one-off-{number}").into_bytes();
        let store = Command::StoreOffset {
            stream,
            reference: leveret_stream::Reference::new(reference.into()).unwrap(),
            offset: 1,
            by: StoredBy::Anyone,
        };
        give(host, Now::both(0), store);
    };
    let told = |host: &mut StreamHost<MemoryDisk>, at_ms| {
        host.expire(Now::both(at_ms));
        host.take_crowded()
    };
    (0..STREAM_OFFSETS_MAX).for_each(|number| store(&mut host, number));
    assert_eq!(told(&mut host, 1), []);
    store(&mut host, STREAM_OFFSETS_MAX);
    store(&mut host, 0);
    assert_eq!(told(&mut host, 2), [(stream, 1)]);
    (0..3).for_each(|more| store(&mut host, STREAM_OFFSETS_MAX + 1 + more));
    assert_eq!(told(&mut host, 1 + STREAM_CROWDED_TELL_MS), []);
    assert_eq!(told(&mut host, 2 + STREAM_CROWDED_TELL_MS), [(stream, 3)]);
    assert_eq!(told(&mut host, 2 + 3 * STREAM_CROWDED_TELL_MS), []);
}

#[test]
fn samples_look_at_streams_that_something_happened_to_and_at_no_others() {
    let disk = MemoryDisk::default();
    let mut host = host(&disk);
    let [busy, idle] = [QueueId(1), QueueId(2)];
    for stream in [busy, idle] {
        host.begin(stream, with(Flush::Sync)).unwrap();
        declare(&mut host, stream);
    }
    let active = |host: &mut StreamHost<MemoryDisk>| {
        let active: Vec<_> = host.active_stats().collect();
        host.forget_active();
        active
    };
    end_turn(&mut host, Now::both(0));
    let new: Vec<QueueId> = active(&mut host).into_iter().map(|(id, _)| id).collect();
    assert_eq!(new, [busy, idle], "both are new");
    assert_eq!(active(&mut host), []);
    give(&mut host, Now::both(0), publish(busy, 0..3));
    end_turn(&mut host, Now::both(0));
    let [(id, stats)] = active(&mut host)[..] else {
        panic!("one stream was published to");
    };
    assert_eq!((id, stats.committed_offset), (busy, Some(2)));
    assert_eq!(active(&mut host), []);
}
