//! A stream that is damaged on disk where nobody else has what is damaged: it says so, once and
//! then now and then, goes on with all else, and asks nobody for what nobody has.

use crate::common::{declare, end_turn, give, publish};
use leveret_storage::{Disk, MemoryDisk, StreamFiles};
use leveret_stream::replica::{Attachment, Epoch};
use leveret_stream::{
    Command, Event, Events, Flush, OffsetSpec, ReaderId, Refusal, ReplicaEvent, ReplicaMessage,
    ReplicaOrder, ReplicaOrigin, ReplicaRole, RequestId, StreamSettings,
};
use leveret_stream_host::StreamHost;
use leveret_types::limits::STREAM_DAMAGE_TELL_MS;
use leveret_types::{NodeId, Now, QueueId};
use std::path::{Path, PathBuf};

const STREAM: QueueId = QueueId(7);
const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);
const ROUNDS: u64 = 40;

/// As small as segments can be: each of the stream's is damaged apart.
fn settings() -> StreamSettings {
    StreamSettings {
        segment_bytes: 4 * 1024,
        flush: Flush::Sync,
        ..StreamSettings::default()
    }
}

fn host(disk: &MemoryDisk, life: u64) -> StreamHost<MemoryDisk> {
    StreamHost::new(StreamFiles::open(disk.clone(), Path::new("streams"), life).unwrap())
}

fn fill(host: &mut StreamHost<MemoryDisk>) {
    declare(host, STREAM);
    for round in 0..ROUNDS {
        give(host, Now::both(0), publish(STREAM, round..round + 1));
        end_turn(host, Now::both(0));
    }
}

fn segments(disk: &MemoryDisk) -> Vec<PathBuf> {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "stream");
    let segments: Vec<PathBuf> = disk.paths().into_iter().filter(is_segment).collect();
    assert!(segments.len() > 3, "{segments:?}");
    segments
}

/// Changes the first segment.
fn tamper(disk: &MemoryDisk, change: fn(&mut [u8])) {
    assert!(disk.tamper(&segments(disk)[0], |bytes| change(bytes)));
}

/// Something in the middle is not what was written.
fn overwritten(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    bytes[middle..middle + 512].fill(0xEE);
}

/// It has its first records, and none behind them. Each of these takes one sector.
fn ended_early(bytes: &mut [u8]) {
    bytes[4 * 512..].fill(0);
}

fn lead(host: &mut StreamHost<MemoryDisk>, epoch: u64, members: &[NodeId]) {
    let (epoch, members) = (Epoch(epoch), members.to_vec());
    let order = ReplicaOrder::Lead { epoch, members };
    host.order(STREAM, order, &mut Events::new());
    end_turn(host, Now::both(0));
}

fn prepare(host: &mut StreamHost<MemoryDisk>, epoch: u64) {
    let prepare = ReplicaMessage::Prepare {
        epoch: Epoch(epoch),
    };
    host.receive(OTHER, STREAM, prepare, &mut Events::new());
    end_turn(host, Now::both(0));
}

/// A replica with several segments, the first of which is changed, that leads these members.
fn leader(members: &[NodeId], change: fn(&mut [u8])) -> StreamHost<MemoryDisk> {
    let disk = MemoryDisk::new();
    let mut first = host(&disk, 1);
    let begun = first.begin_replica(STREAM, settings(), ME, ReplicaOrigin::NewStream);
    assert!(begun.is_ok());
    lead(&mut first, 1, &[ME]);
    fill(&mut first);
    drop(first);
    tamper(&disk, change);
    let mut host = host(&disk, 2);
    let begun = host.begin_replica(STREAM, settings(), ME, ReplicaOrigin::Before);
    assert_eq!(begun.unwrap().damage, Vec::<String>::new(), "not known yet");
    prepare(&mut host, 2);
    lead(&mut host, 2, members);
    assert!(reports(&mut host).is_empty());
    host
}

fn reports(host: &mut StreamHost<MemoryDisk>) -> Vec<ReplicaEvent> {
    let reports = host.take_reports().into_iter();
    reports.map(|(_, event)| event).collect()
}

fn is_for_good(event: &ReplicaEvent) -> bool {
    matches!(event, ReplicaEvent::DamagedForGood { from: 0 })
}

/// Reads from an offset on: how many chunks come, and whether the reader ends at damage.
fn read_from(host: &mut StreamHost<MemoryDisk>, offset: OffsetSpec) -> (usize, bool) {
    let (stream, reader) = (STREAM, ReaderId(1));
    let subscribe = Command::Subscribe {
        request: RequestId(1),
        stream,
        reader,
        offset,
        credit: 1_000,
        filter: None,
    };
    let mut events = give(host, Now::both(0), subscribe);
    events.extend(end_turn(host, Now::both(0)));
    give(host, Now::both(0), Command::Unsubscribe { stream, reader });
    let chunks = events.iter().filter(|e| matches!(e, Event::Chunk { .. }));
    let chunks = chunks.count();
    let ends = events.iter().any(|event| {
        matches!(
            event,
            Event::ReaderEnded {
                refusal: Refusal::Damaged(_),
                ..
            }
        )
    });
    (chunks, ends)
}

fn stands_damaged(host: &StreamHost<MemoryDisk>) -> bool {
    let stats = host.stats_of(&[STREAM]).next();
    let all = host.stats().find(|(id, _)| *id == STREAM);
    assert_eq!(stats, all);
    stats.is_some_and(|(_, stats)| stats.damaged)
}

#[test]
fn the_only_copy_says_once_that_it_is_damaged_and_goes_on_to_lead() {
    let mut host = leader(&[ME], overwritten);
    assert!(!stands_damaged(&host));
    assert_eq!(host.changeable_members().count(), 1);
    let (before, ends) = read_from(&mut host, OffsetSpec::First);
    assert!(ends && before > 0, "{before} chunks");
    let told = reports(&mut host);
    assert!(told.len() == 1 && is_for_good(&told[0]), "{told:?}");
    // Whoever comes to it again hears the same, and nobody is asked to lead instead.
    for _ in 0..10 {
        assert_eq!(read_from(&mut host, OffsetSpec::First), (before, true));
    }
    assert_eq!(reports(&mut host), []);
    assert!(matches!(
        host.role(STREAM),
        Some(ReplicaRole::Leader { .. })
    ));
    assert!(stands_damaged(&host));
    assert_eq!(host.changeable_members().count(), 0, "it does not grow");
    let damaged: Vec<_> = host.damaged().collect();
    assert_eq!((damaged.len(), damaged[0].0), (1, STREAM));
    assert!(damaged[0].1.contains("no other replica has"), "{damaged:?}");
    // What lies behind is read, and what comes is stored.
    let (behind, ends) = read_from(&mut host, OffsetSpec::Offset(ROUNDS / 2));
    assert!(behind > 0 && !ends);
    declare(&mut host, STREAM);
    give(&mut host, Now::both(0), publish(STREAM, 100..101));
    let confirmed = end_turn(&mut host, Now::both(0));
    let is_confirmed = |event: &Event| matches!(event, Event::Confirmed { .. });
    assert!(confirmed.iter().any(is_confirmed), "{confirmed:?}");
}

#[test]
fn damage_is_said_again_only_where_readers_come_to_it_and_not_each_time() {
    let mut host = leader(&[ME], overwritten);
    let mut after = |ms: u64, reads: bool| {
        if reads {
            assert!(read_from(&mut host, OffsetSpec::First).1);
        }
        let now = Now::both(ms);
        host.expire(now);
        end_turn(&mut host, now);
        reports(&mut host).iter().filter(|e| is_for_good(e)).count()
    };
    let later = STREAM_DAMAGE_TELL_MS;
    assert_eq!(after(0, true), 1);
    assert_eq!(after(later - 1, true), 0, "too soon");
    assert_eq!(after(later, true), 1);
    assert_eq!(after(3 * later, false), 0, "nobody has read");
    assert_eq!(after(3 * later, true), 1);
}

#[test]
fn a_leader_that_was_chosen_though_all_are_damaged_asks_for_no_other_one_again() {
    let mut host = leader(&[ME, OTHER], overwritten);
    // It is not known yet whether the other one has what is damaged: that one should lead.
    attach(&mut host, 2, 1);
    let told = reports(&mut host);
    let damaged = |event: &ReplicaEvent| matches!(event, ReplicaEvent::Damaged { from: 0 });
    let needed = |event: &ReplicaEvent| matches!(event, ReplicaEvent::ElectionNeeded { .. });
    assert_eq!(told.iter().filter(|e| damaged(e)).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|e| needed(e)).count(), 1, "{told:?}");
    prepare(&mut host, 3);
    lead(&mut host, 3, &[ME, OTHER]);
    let told = reports(&mut host);
    assert!(told.len() == 1 && is_for_good(&told[0]), "{told:?}");
    assert!(stands_damaged(&host));
    // One that can never be whole can go again.
    assert!(!host.may_change_members(STREAM));
    assert_eq!(host.removable_members(STREAM), [OTHER]);
    // The other one wants to copy what is damaged: that is read once, and not again for each turn.
    attach(&mut host, 3, 2);
    assert_eq!(reports(&mut host), []);
    declare(&mut host, STREAM);
    for id in 200..210 {
        give(&mut host, Now::both(0), publish(STREAM, id..id + 1));
        let mut events = Events::new();
        host.end_turn(Now::both(0), &mut events).unwrap();
        assert_eq!(host.take_reads().len(), 0);
    }
    assert_eq!(reports(&mut host), []);
}

/// The other replica attaches and wants all there is, until the leader can give no more.
fn attach(host: &mut StreamHost<MemoryDisk>, epoch: u64, attachment: u64) {
    let (epoch, attachment) = (Epoch(epoch), Attachment(attachment));
    let say = |host: &mut StreamHost<MemoryDisk>, message| {
        host.receive(OTHER, STREAM, message, &mut Events::new());
        end_turn(host, Now::both(0));
        host.take_messages(OTHER, usize::MAX)
    };
    let ends = Vec::new();
    say(
        host,
        ReplicaMessage::Attach {
            epoch,
            attachment,
            ends,
        },
    );
    let (mut from, mut question) = (0, 0);
    loop {
        question += 1;
        let fetch = ReplicaMessage::Fetch {
            epoch,
            attachment,
            question,
            from,
            bytes: 1,
        };
        let answers = say(host, fetch);
        let next = answers.iter().rev().find_map(|(_, message)| match message {
            ReplicaMessage::Chunks { chunks, from, .. } if !chunks.is_empty() => {
                let mut chunks = chunks.clone();
                let mut next = *from;
                while !chunks.is_empty() {
                    let chunk = leveret_stream::SharedChunk::split_from(&mut chunks).unwrap();
                    next = chunk.header().next_offset();
                }
                Some(next)
            }
            _ => None,
        });
        match next {
            Some(next) => from = next,
            None => return,
        }
    }
}

#[test]
fn a_segment_that_ends_too_early_for_a_follower_is_damage_and_read_once() {
    let mut host = leader(&[ME, OTHER], ended_early);
    attach(&mut host, 2, 1);
    let told = reports(&mut host);
    assert!(
        told.contains(&ReplicaEvent::Damaged { from: 0 }),
        "{told:?}"
    );
    assert_eq!(host.take_reads().len(), 0);
    // A reader hears of it as well.
    let mut host = leader(&[ME], ended_early);
    let (before, ends) = read_from(&mut host, OffsetSpec::First);
    assert!(before > 0 && ends);
    assert!(stands_damaged(&host));
}

#[test]
fn a_stream_of_one_node_is_damaged_until_retention_deletes_what_is_damaged() {
    let disk = MemoryDisk::new();
    let mut first = host(&disk, 1);
    assert!(first.begin(STREAM, settings()).is_ok());
    fill(&mut first);
    drop(first);
    tamper(&disk, overwritten);
    let mut host = host(&disk, 2);
    assert!(host.begin(STREAM, settings()).is_ok());
    for _ in 0..3 {
        assert!(read_from(&mut host, OffsetSpec::First).1);
    }
    let told = reports(&mut host);
    assert!(told.len() == 1 && is_for_good(&told[0]), "{told:?}");
    assert!(stands_damaged(&host));
    let short = StreamSettings {
        bytes_max: Some(1),
        ..settings()
    };
    host.set_settings(STREAM, short);
    host.expire(Now::both(0));
    end_turn(&mut host, Now::both(0));
    assert!(!stands_damaged(&host), "it is not there any more");
    assert_eq!(host.damaged().count(), 0);
}

#[test]
fn a_stream_of_one_node_whose_newest_segments_are_gone_says_so_and_is_not_begun_anew() {
    for left in [0, 2] {
        let disk = MemoryDisk::new();
        let mut first = host(&disk, 1);
        assert!(first.begin(STREAM, settings()).is_ok());
        fill(&mut first);
        drop(first);
        for path in &segments(&disk)[left..] {
            disk.delete(path).unwrap();
        }
        let mut host = host(&disk, 2);
        assert!(host.begin(STREAM, settings()).is_err());
        assert!(stands_damaged(&host));
        let damaged: Vec<_> = host.damaged().collect();
        assert!(damaged[0].1.contains(".stream is missing"), "{damaged:?}");
        assert!(damaged[0].1.contains(".newest to let"), "{damaged:?}");
    }
}

#[test]
fn a_stream_that_is_not_served_stands_damaged_and_refuses_what_it_is_asked() {
    let disk = MemoryDisk::new();
    let mut first = host(&disk, 1);
    assert!(first.begin(STREAM, settings()).is_ok());
    fill(&mut first);
    drop(first);
    let all = segments(&disk);
    let mut paths: Vec<&PathBuf> = all.iter().collect();
    paths.sort();
    disk.tamper(paths[paths.len() - 1], |bytes| bytes[..512].fill(0));
    let mut host = host(&disk, 2);
    assert!(host.begin(STREAM, settings()).is_err());
    assert!(stands_damaged(&host));
    let damaged: Vec<_> = host.damaged().collect();
    assert!(
        damaged[0].1.starts_with("it is not served: "),
        "{damaged:?}"
    );
    let resolve = Command::ResolveOffset {
        request: RequestId(5),
        stream: STREAM,
        offset: OffsetSpec::First,
    };
    let refused = give(&mut host, Now::both(0), resolve);
    assert!(matches!(
        &refused[..],
        [Event::ResolvedOffset {
            result: Err(Refusal::NotAvailable(_)),
            ..
        }]
    ));
    let mut out = Events::new();
    host.delete(STREAM, &mut out).unwrap();
    assert_eq!(host.damaged().count(), 0, "it is deleted");
    assert_eq!(host.stats().count(), 0);
}
