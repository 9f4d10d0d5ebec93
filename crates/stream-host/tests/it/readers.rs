//! Readers of a stream of several segments on disk, and where they begin.

use leveret_storage::MemoryDisk;
use leveret_stream::{Command, Event, Events, OffsetSpec, ReaderId, RequestId, StreamSettings};
use leveret_stream_host::StreamHost;
use leveret_types::limits::STREAM_EARLY_READERS_MAX;
use leveret_types::{Now, QueueId};

use crate::common::{declare, end_turn, give, host, publish, subscribe_first};

/// A stream of several small segments: a message in each chunk, one each 10 ms from 10 on.
fn in_small_segments(disk: &MemoryDisk, stream: QueueId, messages: u64) -> StreamHost<MemoryDisk> {
    let mut host = host(disk);
    let settings = StreamSettings {
        segment_bytes: 2_000,
        bytes_max: Some(8_000),
        ..StreamSettings::default()
    };
    host.begin(stream, settings).unwrap();
    declare(&mut host, stream);
    publish_one_by_one(&mut host, stream, 0..messages);
    host
}

fn publish_one_by_one(
    host: &mut StreamHost<MemoryDisk>,
    stream: QueueId,
    ids: std::ops::Range<u64>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for id in ids {
        let now = Now::both(10 + id * 10);
        give(host, now, publish(stream, id..id + 1));
        events.extend(end_turn(host, now));
    }
    events
}

/// What is told until there is nothing more to do at once.
fn all_turns(host: &mut StreamHost<MemoryDisk>, now: Now) -> Vec<Event> {
    let mut events = end_turn(host, now);
    while host.due_ms() == Some(0) {
        events.extend(end_turn(host, now));
    }
    events
}

#[test]
fn retention_ends_no_reader_wherever_it_stands() {
    const BEFORE: u64 = 12;
    for had in 0..BEFORE {
        let (disk, stream) = (MemoryDisk::new(), QueueId(1));
        let mut host = in_small_segments(&disk, stream, BEFORE);
        let now = Now::both(10_000);
        let mut events = give(&mut host, now, subscribe_first(stream, 0));
        for _ in 0..had {
            events.extend(give(&mut host, now, credit(stream, 1)));
            events.extend(all_turns(&mut host, now));
        }
        let first = |host: &StreamHost<MemoryDisk>| host.stats().next().unwrap().1.first_chunk;
        assert_eq!(first(&host), Some(0));
        let mut next = BEFORE;
        while first(&host) < Some(had) {
            events.extend(publish_one_by_one(&mut host, stream, next..next + 1));
            next += 1;
        }
        events.extend(give(&mut host, now, credit(stream, 1_000)));
        events.extend(all_turns(&mut host, now));
        let ended = events
            .iter()
            .find(|event| matches!(event, Event::ReaderEnded { .. }));
        assert!(ended.is_none(), "{had}: {ended:?}");
        let Some(Event::Chunk { chunk, .. }) = events.pop() else {
            panic!("{had}: nothing more came");
        };
        assert_eq!(chunk.header().first_offset, next - 1, "{had}");
    }
}

/// The same where it stands while its read is under way.
#[test]
fn retention_ends_no_reader_for_which_a_read_is_under_way() {
    const BEFORE: u64 = 12;
    for had in 0..BEFORE {
        let (disk, stream) = (MemoryDisk::new(), QueueId(1));
        let mut host = in_small_segments(&disk, stream, BEFORE);
        let now = Now::both(10_000);
        let mut events = give(&mut host, now, subscribe_first(stream, 0));
        for _ in 0..had {
            events.extend(give(&mut host, now, credit(stream, 1)));
            events.extend(all_turns(&mut host, now));
        }
        give(&mut host, now, credit(stream, 1));
        let mut told = Events::new();
        host.end_turn(now, &mut told).unwrap();
        let reads = host.take_reads();
        let mut next = BEFORE;
        // All segments that there were have gone, and some that came since.
        while host.stats().next().unwrap().1.first_chunk < Some(2 * BEFORE) {
            events.extend(publish_one_by_one(&mut host, stream, next..next + 1));
            next += 1;
        }
        for read in reads {
            host.was_read(read.run(), &mut told);
        }
        events.extend(told.into_iter().map(|(_, event)| event));
        events.extend(give(&mut host, now, credit(stream, 1_000)));
        events.extend(all_turns(&mut host, now));
        let ended = events
            .iter()
            .find(|event| matches!(event, Event::ReaderEnded { .. }));
        assert!(ended.is_none(), "{had}: {ended:?}");
        let Some(Event::Chunk { chunk, .. }) = events.pop() else {
            panic!("{had}: nothing more came");
        };
        assert_eq!(chunk.header().first_offset, next - 1, "{had}");
    }
}

fn credit(stream: QueueId, chunks: u32) -> Command {
    Command::Credit {
        stream,
        reader: ReaderId(1),
        chunks,
    }
}

fn resolve(stream: QueueId, request: u64, time: i64) -> Command {
    Command::ResolveOffset {
        request: RequestId(request),
        stream,
        offset: OffsetSpec::TimestampMs(time),
    }
}

/// Which request was answered with which offset.
fn resolved(events: &[Event]) -> Vec<(u64, Option<u64>)> {
    let answer = |event: &Event| match event {
        Event::ResolvedOffset { request, result } => Some((request.0, result.clone().ok())),
        _ => None,
    };
    events.iter().filter_map(answer).collect()
}

#[test]
fn a_time_begins_with_the_first_chunk_that_is_not_older_in_whichever_segment() {
    const MESSAGES: u64 = 12;
    let (disk, stream) = (MemoryDisk::new(), QueueId(1));
    let mut host = in_small_segments(&disk, stream, MESSAGES);
    let now = Now::both(10_000);
    assert!(host.stats().next().unwrap().1.segments > 2);
    for time in 0..=(MESSAGES as i64 * 10 + 5) {
        let mut events = give(&mut host, now, resolve(stream, 3, time));
        events.extend(all_turns(&mut host, now));
        let first = (0..MESSAGES).find(|id| 10 + *id as i64 * 10 >= time);
        let expected = [(3, Some(first.unwrap_or(MESSAGES)))];
        assert_eq!(resolved(&events), expected, "{time}");
    }
}

#[test]
fn so_many_questions_where_a_time_begins_wait_for_the_disk_and_one_more_is_refused() {
    let (disk, stream) = (MemoryDisk::new(), QueueId(1));
    let mut host = in_small_segments(&disk, stream, 3);
    let now = Now::both(10_000);
    let most = STREAM_EARLY_READERS_MAX as u64;
    for request in 0..most {
        let events = give(&mut host, now, resolve(stream, request, 20));
        assert!(events.is_empty(), "{request}: {events:?}");
    }
    let events = give(&mut host, now, resolve(stream, most, 20));
    assert_eq!(resolved(&events), [(most, None)]);
    let answers = resolved(&all_turns(&mut host, now));
    assert_eq!(answers.len() as u64, most);
    assert!(answers.iter().all(|(_, offset)| *offset == Some(1)));

    // Whoever has gone, or whose stream goes, does not wait.
    give(&mut host, now, resolve(stream, 1, 20));
    give(&mut host, now, Command::Leave);
    give(&mut host, now, resolve(stream, 2, 20));
    let mut events = Events::new();
    host.delete(stream, &mut events).unwrap();
    let events: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
    assert_eq!(resolved(&events), [(2, None)]);
}
