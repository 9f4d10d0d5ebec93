//! Behaviour that publishers and readers of one stream see, case by case.

use bytes::Bytes;
use leveret_stream::tracking::Tracking;
use leveret_stream::{
    BatchBuilder, ChunkKind, Command, Effect, Event, Events, Filter, Generation, MemberId,
    OffsetSpec, PublisherId, ReaderId, Recovered, Reference, Refusal, RequestId, SessionId,
    SharedChunk, StoredBy, Stream, StreamSettings,
};
use leveret_types::limits::{
    SHORT_STRING_BYTES_MAX, STREAM_CHUNK_BYTES, STREAM_CHUNK_ENTRIES_MAX,
    STREAM_CLOCK_AHEAD_MS_MAX, STREAM_CREDIT_MAX, STREAM_FILTER_VALUES_BYTES_MAX,
    STREAM_FILTER_VALUES_MAX, STREAM_OFFSETS_MAX, STREAM_RUNS_HELD_MAX,
};
use leveret_types::{ConnectionId, Now, QueueId};

const STREAM: QueueId = QueueId(1);
const SESSION: SessionId = connection(1);
/// Publishing id, filter value and body.
type Message<'a> = (u64, Option<&'a [u8]>, &'a [u8]);

const NOW: Now = Now::both(5_000);

const fn connection(number: u64) -> SessionId {
    SessionId::Connection(ConnectionId(number))
}

fn stream() -> Stream {
    Stream::new(STREAM, StreamSettings::default(), Recovered::default()).unwrap()
}

fn give(stream: &mut Stream, command: Command) -> Vec<Event> {
    let mut events = Events::new();
    stream.handle(NOW, SESSION, command, &mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

fn declare(stream: &mut Stream, publisher: u32, reference: Option<&'static str>) {
    let reference = reference.and_then(|r| Reference::new(Bytes::from_static(r.as_bytes())));
    let declare = Command::DeclarePublisher {
        request: RequestId(0),
        stream: STREAM,
        publisher: PublisherId(publisher),
        reference,
    };
    let events = give(stream, declare);
    assert!(matches!(
        events[..],
        [Event::PublisherDeclared { result: Ok(()), .. }]
    ));
}

fn publish(stream: &mut Stream, publisher: u32, messages: &[Message<'_>]) -> Vec<Event> {
    let mut batch = BatchBuilder::new();
    for (id, filter, body) in messages {
        assert!(batch.push(*id, *filter, body));
    }
    let publish = Command::Publish {
        stream: STREAM,
        publisher: PublisherId(publisher),
        batch: batch.take(),
    };
    give(stream, publish)
}

fn subscribe(stream: &mut Stream, reader: u32, credit: u32, filter: Option<Filter>) -> Vec<Event> {
    let subscribe = Command::Subscribe {
        request: RequestId(0),
        stream: STREAM,
        reader: ReaderId(reader),
        offset: OffsetSpec::Next,
        credit,
        filter: filter.map(Box::new),
    };
    give(stream, subscribe)
}

/// Ends the turn; the chunks that it appends.
fn seal(stream: &mut Stream, now: Now) -> (Option<u64>, Vec<SharedChunk>) {
    let turn = stream.seal(now);
    let chunk = |effect| match effect {
        Effect::Append { chunk, .. } => Some(chunk),
        _ => None,
    };
    (
        turn,
        stream
            .take_effects()
            .into_iter()
            .filter_map(chunk)
            .collect(),
    )
}

fn commit(stream: &mut Stream, turn: u64) -> Vec<Event> {
    let mut events = Events::new();
    stream.commit(turn, &mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

fn confirmed(events: &[Event]) -> Vec<(PublisherId, Vec<u64>)> {
    let confirmed = |event: &Event| match event {
        Event::Confirmed { publisher, ids } => Some((*publisher, ids.clone())),
        _ => None,
    };
    events.iter().filter_map(confirmed).collect()
}

#[test]
fn a_chunk_takes_as_many_entries_as_its_header_counts() {
    for (count, chunks) in [
        (STREAM_CHUNK_ENTRIES_MAX, 1),
        (STREAM_CHUNK_ENTRIES_MAX + 1, 2),
    ] {
        let mut stream = stream();
        declare(&mut stream, 1, None);
        let messages: Vec<_> = (0..count as u64).map(|id| (id, None, &b""[..])).collect();
        publish(&mut stream, 1, &messages);
        let (_, sealed) = seal(&mut stream, NOW);
        assert_eq!(sealed.len(), chunks);
        let records: u32 = sealed.iter().map(|chunk| chunk.header().records).sum();
        assert_eq!(records as usize, count);
    }
}

#[test]
fn a_chunk_takes_as_many_bytes_as_the_limit_says_and_a_larger_entry_is_alone() {
    let half = vec![7; STREAM_CHUNK_BYTES / 2 - 4];
    let more = vec![7; STREAM_CHUNK_BYTES / 2 - 3];
    let huge = vec![7; STREAM_CHUNK_BYTES + 1];
    for (bodies, chunks) in [
        ([&half[..], &half, b""], 2),
        ([&half[..], &more, b""], 2),
        ([&half[..half.len() - 4], &half, b""], 1),
        ([&b"a"[..], &huge, b"b"], 3),
    ] {
        let mut stream = stream();
        declare(&mut stream, 1, None);
        publish(&mut stream, 1, &bodies.map(|body| (1, None, body)));
        let (_, sealed) = seal(&mut stream, NOW);
        assert_eq!(sealed.len(), chunks);
        sealed.iter().for_each(|chunk| chunk.verify().unwrap());
    }
}

#[test]
fn a_duplicate_is_confirmed_when_its_first_copy_is_committed_and_not_before() {
    let mut stream = stream();
    declare(&mut stream, 1, Some("orders"));
    declare(&mut stream, 2, Some("orders"));
    publish(&mut stream, 1, &[(5, None, b"first")]);
    let (first, chunks) = seal(&mut stream, NOW);
    assert_eq!(chunks.len(), 1);
    assert!(publish(&mut stream, 2, &[(5, None, b"again"), (4, None, b"late")]).is_empty());
    let (second, chunks) = seal(&mut stream, NOW);
    assert!(chunks.is_empty(), "nothing is stored twice");
    let events = commit(&mut stream, first.unwrap());
    assert_eq!(confirmed(&events), [(PublisherId(1), vec![5])]);
    let events = commit(&mut stream, second.unwrap());
    assert_eq!(confirmed(&events), [(PublisherId(2), vec![5, 4])]);
}

#[test]
fn a_publishers_last_id_is_told_once_it_is_committed_and_not_before() {
    let ask = |stream: &mut Stream| {
        let query = Command::QuerySequence {
            request: RequestId(3),
            stream: STREAM,
            reference: Reference::new(Bytes::from_static(b"ref")).unwrap(),
        };
        give(stream, query)
    };
    let told = |events: &[Event]| match events {
        [Event::Sequence { request, result }] => {
            assert_eq!(*request, RequestId(3));
            Some(result.clone())
        }
        _ => None,
    };
    let mut stream = stream();
    declare(&mut stream, 1, Some("ref"));
    assert_eq!(told(&ask(&mut stream)), Some(Ok(None)));
    publish(&mut stream, 1, &[(5, None, b"m")]);
    assert!(ask(&mut stream).is_empty(), "it is in no chunk yet");
    let (first, _) = seal(&mut stream, NOW);
    assert!(ask(&mut stream).is_empty(), "its chunk is not committed");
    let (second, chunks) = seal(&mut stream, NOW);
    assert!(chunks.is_empty());
    let events = commit(&mut stream, first.unwrap());
    assert_eq!(told(&events[1..]), Some(Ok(Some(5))));
    assert_eq!(told(&ask(&mut stream)), Some(Ok(Some(5))), "at once now");
    assert_eq!(
        told(&commit(&mut stream, second.unwrap())),
        Some(Ok(Some(5)))
    );
    publish(&mut stream, 1, &[(6, None, b"m")]);
    assert!(ask(&mut stream).is_empty());
    let mut events = Events::new();
    stream.end(&mut events);
    let events: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
    assert_eq!(told(&events[..1]), Some(Err(Refusal::NotFound)));
}

#[test]
fn a_publisher_that_was_not_declared_is_refused_with_its_ids() {
    let mut stream = stream();
    let events = publish(&mut stream, 1, &[(1, None, b"a"), (2, None, b"b")]);
    let [Event::Refused { ids, refusal, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((&ids[..], refusal), (&[1, 2][..], &Refusal::Id));
    assert_eq!(seal(&mut stream, NOW).0, None);
}

#[test]
fn a_reader_that_filters_is_sent_only_chunks_that_may_match() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    let wants = |value: &'static str, match_unfiltered| Filter {
        values: vec![Bytes::from_static(value.as_bytes())],
        match_unfiltered,
        messages: false,
    };
    subscribe(&mut stream, 1, 100, Some(wants("eu", false)));
    subscribe(&mut stream, 2, 100, Some(wants("eu", true)));
    subscribe(&mut stream, 3, 100, None);
    let mut seen = [0; 4];
    for filter in [Some(&b"eu"[..]), Some(b"us"), None] {
        publish(&mut stream, 1, &[(0, filter, b"m")]);
        let turn = seal(&mut stream, NOW).0.unwrap();
        for event in commit(&mut stream, turn) {
            if let Event::Chunk { reader, .. } = event {
                seen[reader.0 as usize] += 1;
            }
        }
    }
    assert_eq!(seen, [0, 1, 2, 3]);
}

#[test]
fn filter_values_and_credit_are_bounded() {
    let mut stream = stream();
    let longest = SHORT_STRING_BYTES_MAX;
    let most_of_longest = STREAM_FILTER_VALUES_BYTES_MAX / longest;
    for (number, (count, bytes, is_taken)) in (10..).zip([
        (STREAM_FILTER_VALUES_MAX, 1, true),
        (STREAM_FILTER_VALUES_MAX + 1, 1, false),
        (1, longest, true),
        (1, longest + 1, false),
        (most_of_longest, longest, true),
        (most_of_longest + 1, longest, false),
    ]) {
        let filter = Filter {
            values: vec![Bytes::from(vec![b'v'; bytes]); count],
            ..Filter::default()
        };
        let events = subscribe(&mut stream, number, 1, Some(filter));
        let [Event::Subscribed { result, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(result.is_ok(), is_taken);
    }
    subscribe(&mut stream, 1, u32::MAX, None);
    declare(&mut stream, 1, None);
    let mut chunks = 0;
    for _ in 0..STREAM_CREDIT_MAX + 1 {
        publish(&mut stream, 1, &[(0, None, b"m")]);
        let turn = seal(&mut stream, NOW).0.unwrap();
        chunks += commit(&mut stream, turn)
            .iter()
            .filter(|event| matches!(event, Event::Chunk { .. }))
            .count();
    }
    assert_eq!(chunks, STREAM_CREDIT_MAX as usize);
}

/// A snapshot may be durable without the chunk after it. What that chunk would have stored must not
/// be taken for a duplicate then.
#[test]
fn a_snapshot_does_not_say_what_only_a_later_chunk_stores() {
    let settings = StreamSettings {
        segment_bytes: 1,
        ..StreamSettings::default()
    };
    let mut stream = Stream::new(STREAM, settings, Recovered::default()).unwrap();
    declare(&mut stream, 1, Some("orders"));
    publish(&mut stream, 1, &[(1, None, b"a")]);
    drop(seal(&mut stream, NOW));
    publish(&mut stream, 1, &[(2, None, b"b")]);
    let (_, chunks) = seal(&mut stream, NOW);
    let kinds: Vec<_> = chunks.iter().map(|chunk| chunk.header().kind).collect();
    assert_eq!(kinds, [ChunkKind::TrackingSnapshot, ChunkKind::User]);
    let (mut tracking, name) = (Tracking::default(), Bytes::from_static(b"orders"));
    let name = Reference::new(name).unwrap();
    for (chunk, last) in chunks.iter().zip([1, 2]) {
        tracking.replay(chunk).unwrap();
        assert_eq!(tracking.sequence(&name), Some(last));
    }
}

#[test]
fn offsets_that_are_stored_while_nothing_is_published_gather_before_they_are_a_chunk() {
    let mut stream = stream();
    let reference = Reference::new(Bytes::from_static(b"group")).unwrap();
    for offset in [1, 2, 3] {
        let (stream_id, reference) = (STREAM, reference.clone());
        let store = Command::StoreOffset {
            stream: stream_id,
            reference,
            offset,
            by: StoredBy::Anyone,
        };
        give(&mut stream, store);
        assert_eq!(seal(&mut stream, NOW).0, None);
    }
    let due = Now::both(stream.due_ms().unwrap());
    let (turn, chunks) = seal(&mut stream, due);
    assert!(turn.is_some());
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].header().kind, ChunkKind::TrackingDelta);
    assert_eq!(stream.due_ms(), None);
}

#[test]
fn offsets_that_groups_store_take_offsets_after_the_last_record() {
    let mut stream = stream();
    let store = |stream: &mut Stream, offset| {
        let store = Command::StoreOffset {
            stream: STREAM,
            reference: Reference::new(Bytes::from_static(b"group")).unwrap(),
            offset,
            by: StoredBy::Anyone,
        };
        give(stream, store);
        let (turn, chunks) = seal(stream, Now::both(NOW.monotonic_ms + 1_000 * offset));
        commit(stream, turn.unwrap());
        chunks
    };
    let stands = |stream: &Stream| {
        let stats = stream.stats();
        (stats.last_record, stats.committed_offset)
    };
    assert_eq!(stands(&stream), (None, None));
    declare(&mut stream, 1, None);
    publish(&mut stream, 1, &COLOURS);
    let (turn, mut newest) = seal(&mut stream, NOW);
    assert_eq!(stands(&stream), (None, None), "before it is committed");
    commit(&mut stream, turn.unwrap());
    assert_eq!(stands(&stream), (Some(5), Some(5)));
    newest.extend((3..6).flat_map(|offset| store(&mut stream, offset)));
    assert_eq!(stands(&stream), (Some(5), Some(8)));
    let found = |newest| {
        let recovered = Recovered {
            newest,
            ..Recovered::default()
        };
        Stream::new(STREAM, StreamSettings::default(), recovered).unwrap()
    };
    assert_eq!(stands(&found(newest.clone())), (Some(5), Some(8)));
    newest.remove(0);
    let stands = stands(&found(newest));
    assert_eq!(stands, (Some(8), Some(8)), "no record is known");
}

#[test]
fn the_end_of_a_stream_is_told_to_each_of_its_sessions_once() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    subscribe(&mut stream, 1, 1, None);
    let mut events = Events::new();
    let elsewhere = Command::DeclarePublisher {
        request: RequestId(0),
        stream: STREAM,
        publisher: PublisherId(1),
        reference: None,
    };
    stream.handle(NOW, connection(2), elsewhere, &mut events);
    stream.handle(NOW, connection(2), Command::Leave, &mut events);
    events.clear();
    stream.end(&mut events);
    assert!(matches!(
        events[..],
        [(SESSION, Event::Gone { stream: STREAM })]
    ));
}

#[test]
fn a_clock_that_was_wrong_and_is_right_again_is_followed_in_a_segment_of_its_own() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    let year_ms = 365 * 24 * 3_600_000;
    let hour_ms = u64::try_from(STREAM_CLOCK_AHEAD_MS_MAX).unwrap();
    let ahead = year_ms + NOW.wall_ms;
    // Small steps are hidden, so that times ascend; what is more than that was never true.
    for (wall_ms, time_ms, begins) in [
        (NOW.wall_ms, NOW.wall_ms, true),
        (NOW.wall_ms - 1, NOW.wall_ms, false),
        (ahead, ahead, false),
        (ahead - hour_ms, ahead, false),
        (ahead - hour_ms - 1, ahead - hour_ms - 1, true),
        (NOW.wall_ms, NOW.wall_ms, true),
        (NOW.wall_ms + 5, NOW.wall_ms + 5, false),
    ] {
        publish(&mut stream, 1, &[(1, None, b"m")]);
        let turn = stream.seal(Now::both(wall_ms));
        let effects = stream.take_effects();
        let begun = |effect: &Effect| matches!(effect, Effect::BeginSegment { .. });
        assert_eq!(effects.iter().any(begun), begins, "{wall_ms}");
        let time = effects.iter().find_map(|effect| match effect {
            Effect::Append { chunk, .. } => Some(chunk.header().timestamp_ms),
            _ => None,
        });
        assert_eq!(time, i64::try_from(time_ms).ok(), "{wall_ms}");
        commit(&mut stream, turn.unwrap());
    }
}

#[test]
fn chunks_in_memory_go_with_the_last_reader() {
    for unsubscribes in [true, false] {
        let mut stream = stream();
        declare(&mut stream, 1, None);
        subscribe(&mut stream, 1, 10, None);
        publish(&mut stream, 1, &[(1, None, b"a")]);
        let (turn, _) = seal(&mut stream, NOW);
        let sent = commit(&mut stream, turn.unwrap());
        let is_chunk = |event: &Event| matches!(event, Event::Chunk { .. });
        assert!(sent.iter().any(is_chunk), "out of memory");
        let end = match unsubscribes {
            true => Command::Unsubscribe {
                stream: STREAM,
                reader: ReaderId(1),
            },
            false => Command::Leave,
        };
        give(&mut stream, end);
        let again = Command::Subscribe {
            request: RequestId(0),
            stream: STREAM,
            reader: ReaderId(2),
            offset: OffsetSpec::First,
            credit: 1,
            filter: None,
        };
        assert!(!give(&mut stream, again).iter().any(is_chunk));
        let effects = stream.take_effects();
        assert!(matches!(effects[..], [Effect::Read { .. }]), "{effects:?}");
    }
}

#[test]
fn an_offset_that_is_one_too_many_for_a_turn_is_counted() {
    let mut stream = stream();
    let store = |stream: &mut Stream, name: String| {
        let store = Command::StoreOffset {
            stream: STREAM,
            reference: Reference::new(name.into()).unwrap(),
            offset: 1,
            by: StoredBy::Anyone,
        };
        assert!(give(stream, store).is_empty());
    };
    for n in 0..STREAM_OFFSETS_MAX {
        store(&mut stream, format!("r{n}"));
    }
    assert_eq!(stream.stats().offsets_refused, 0);
    store(&mut stream, "more".to_owned());
    assert_eq!(stream.stats().offsets_refused, 1);
    let due = Now::both(stream.due_ms().unwrap());
    drop(seal(&mut stream, due));
    assert_eq!(stream.due_ms(), None);
    store(&mut stream, "more".to_owned());
    assert_eq!(stream.stats().offsets_refused, 1, "an old one has gone");
}

#[test]
fn a_forgotten_group_is_found_neither_by_a_start_nor_by_a_replica() {
    let mut stream = stream();
    let name = |name: &'static str| Reference::new(name.into()).unwrap();
    let mut chunks = Vec::new();
    for (group, offset) in [("kept", 5), ("gone", 7)] {
        let store = Command::StoreOffset {
            stream: STREAM,
            reference: name(group),
            offset,
            by: StoredBy::Anyone,
        };
        give(&mut stream, store);
        let due = Now::both(stream.due_ms().unwrap());
        chunks.extend(seal(&mut stream, due).1);
    }
    assert!(stream.forget_offset(NOW, &name("gone")));
    assert!(!stream.forget_offset(NOW, &name("gone")), "it is gone");
    let (turn, said) = seal(&mut stream, NOW);
    assert!(turn.is_some(), "it is committed as what is published is");
    chunks.extend(said);
    let mut replayed = Tracking::default();
    for chunk in &chunks {
        replayed.replay(chunk).unwrap();
    }
    assert_eq!(replayed.offset(&name("gone")), None);
    assert_eq!(replayed.offset(&name("kept")), Some(5));
    // Also the last one goes: nothing is left to be said.
    assert!(stream.forget_offset(NOW, &name("kept")));
    for chunk in seal(&mut stream, NOW).1 {
        replayed.replay(&chunk).unwrap();
    }
    assert_eq!(replayed.all_offsets().count(), 0);
}

#[test]
fn groups_are_told_with_their_offsets_and_how_fast_they_go_on() {
    let mut stream = stream();
    let mut store = |at_ms, offset| {
        let store = Command::StoreOffset {
            stream: STREAM,
            reference: Reference::new(Bytes::from_static(b"group")).unwrap(),
            offset,
            by: StoredBy::Anyone,
        };
        let mut events = Events::new();
        stream.handle(Now::both(at_ms), SESSION, store, &mut events);
        let groups: Vec<_> = stream.groups(Now::both(at_ms + 1_000)).collect();
        (groups[0].offset, groups[0].per_second)
    };
    assert_eq!(store(0, 100), (100, 0.0));
    assert_eq!(store(1_000, 300), (300, 100.0));
    assert_eq!(store(2_000, 50), (50, 0.0), "it went back");
}

/// What a reader was sent: the offset of each message, and its body.
fn sent(events: &[Event], of: u32) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    for event in events {
        let Event::Chunk { reader, chunk, .. } = event else {
            continue;
        };
        if *reader != ReaderId(of) {
            continue;
        }
        chunk.verify().unwrap();
        let mut offset = chunk.header().first_offset;
        for entry in chunk.entries() {
            let entry = entry.unwrap();
            found.push((offset, entry.body.to_vec()));
            offset += u64::from(entry.records);
        }
    }
    found
}

fn messages_of(values: &[&'static str], match_unfiltered: bool) -> Option<Filter> {
    let values = values
        .iter()
        .map(|value| Bytes::from_static(value.as_bytes()));
    Some(Filter {
        values: values.collect(),
        match_unfiltered,
        messages: true,
    })
}

/// Publishes one turn and commits it.
fn turn(stream: &mut Stream, messages: &[Message<'_>]) -> Vec<Event> {
    publish(stream, 1, messages);
    let turn = seal(stream, NOW).0.unwrap();
    commit(stream, turn)
}

const COLOURS: [Message<'static>; 6] = [
    (0, Some(b"red"), b"a"),
    (0, Some(b"red"), b"b"),
    (0, Some(b"blue"), b"c"),
    (0, None, b"d"),
    (0, Some(b"red"), b"e"),
    (0, Some(b"green"), b"f"),
];

fn credit(stream: &mut Stream, reader: u32, chunks: u32) -> Vec<Event> {
    let (stream_id, reader) = (STREAM, ReaderId(reader));
    let credit = Command::Credit {
        stream: stream_id,
        reader,
        chunks,
    };
    give(stream, credit)
}

#[test]
fn a_reader_that_asks_for_messages_is_sent_those_alone_at_their_own_offsets() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    subscribe(&mut stream, 1, 100, messages_of(&["red"], false));
    subscribe(&mut stream, 2, 100, messages_of(&["blue", "green"], true));
    subscribe(
        &mut stream,
        3,
        100,
        messages_of(&["red", "blue", "green"], true),
    );
    let events = turn(&mut stream, &COLOURS);
    let expected = |wanted: &[(u64, &str)]| -> Vec<(u64, Vec<u8>)> {
        let one = |(offset, body): &(u64, &str)| (*offset, body.as_bytes().to_vec());
        wanted.iter().map(one).collect()
    };
    assert_eq!(sent(&events, 1), expected(&[(0, "a"), (1, "b"), (4, "e")]));
    assert_eq!(sent(&events, 2), expected(&[(2, "c"), (3, "d"), (5, "f")]));
    assert_eq!(sent(&events, 3).len(), COLOURS.len());
    let chunks = |of| {
        let is_chunk =
            |event: &&Event| matches!(event, Event::Chunk { reader, .. } if reader.0 == of);
        events.iter().filter(is_chunk).count()
    };
    assert_eq!(
        [chunks(1), chunks(2), chunks(3)],
        [2, 2, 1],
        "one chunk for each run"
    );
}

#[test]
fn each_run_of_messages_takes_a_credit_and_the_rest_waits_for_more() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    subscribe(&mut stream, 1, 1, messages_of(&["red"], false));
    let events = turn(&mut stream, &COLOURS);
    assert_eq!(sent(&events, 1), [(0, b"a".to_vec()), (1, b"b".to_vec())]);
    assert!(sent(&turn(&mut stream, &COLOURS), 1).is_empty());
    assert_eq!(sent(&credit(&mut stream, 1, 1), 1), [(4, b"e".to_vec())]);
    let rest = sent(&credit(&mut stream, 1, 9), 1);
    let offsets: Vec<u64> = rest.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, [6, 7, 10]);
}

#[test]
fn readers_beyond_those_that_keep_a_part_of_a_chunk_miss_nothing_of_it() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    let readers = STREAM_RUNS_HELD_MAX as u32 + 1;
    for reader in 1..=readers {
        subscribe(&mut stream, reader, 1, messages_of(&["red"], false));
    }
    let mut found = vec![Vec::new(); readers as usize + 1];
    let mut events = turn(&mut stream, &COLOURS);
    for _ in 0..3 {
        for reader in 1..=readers {
            found[reader as usize].extend(sent(&events, reader));
        }
        events = (1..=readers)
            .flat_map(|reader| credit(&mut stream, reader, 1))
            .collect();
    }
    for reader in 1..=readers {
        let offsets: Vec<u64> = found[reader as usize].iter().map(|(at, _)| *at).collect();
        assert_eq!(offsets, [0, 1, 4], "reader {reader}");
    }
}

#[test]
fn nothing_before_the_offset_that_was_asked_for_comes_in_a_run_of_its_own() {
    let mut stream = stream();
    declare(&mut stream, 1, None);
    // A reader at the tail keeps it in memory.
    subscribe(&mut stream, 9, 0, None);
    turn(&mut stream, &COLOURS);
    let subscribe = Command::Subscribe {
        request: RequestId(0),
        stream: STREAM,
        reader: ReaderId(1),
        offset: OffsetSpec::Offset(3),
        credit: 10,
        filter: messages_of(&["red"], false).map(Box::new),
    };
    assert_eq!(sent(&give(&mut stream, subscribe), 1), [(4, b"e".to_vec())]);
}

fn app() -> Reference {
    Reference::new(Bytes::from_static(b"app")).unwrap()
}

fn store(stream: &mut Stream, offset: u64, by: StoredBy) -> Events {
    let mut events = Events::new();
    let store = Command::StoreOffset {
        stream: STREAM,
        reference: app(),
        offset,
        by,
    };
    stream.handle(NOW, SESSION, store, &mut events);
    events
}

/// A session joins the group; who is told what of being active.
fn join(stream: &mut Stream, session: u64) -> Vec<(SessionId, bool, Generation)> {
    let mut events = Events::new();
    let join = Command::JoinGroup {
        request: RequestId(3),
        stream: STREAM,
        group: app(),
        partition: 0,
        member: MemberId(1),
    };
    stream.handle(NOW, connection(session), join, &mut events);
    let (to, joined) = events.remove(0);
    let is_answer = matches!(
        joined,
        Event::Joined {
            request: RequestId(3),
            result: Ok(())
        }
    );
    assert!(is_answer && to == connection(session), "{joined:?}");
    activity(events)
}

fn activity(events: Events) -> Vec<(SessionId, bool, Generation)> {
    let told = events.into_iter().map(|(session, event)| match event {
        Event::Activity {
            stream: STREAM,
            member: MemberId(1),
            is_active,
            generation,
        } => (session, is_active, generation),
        other => panic!("{other:?}"),
    });
    told.collect()
}

#[test]
fn an_offset_of_a_consumer_that_was_active_is_refused_once_another_one_is() {
    let mut stream = stream();
    let first = join(&mut stream, 1)[0].2;
    assert_eq!(join(&mut stream, 2), []);
    store(&mut stream, 10, StoredBy::Member(first));
    let mut events = Events::new();
    stream.handle(NOW, connection(1), Command::Leave, &mut events);
    let told = activity(events);
    assert!(matches!(told[..], [(to, true, second)] if to == connection(2) && second > first));
    // It was on its way, or its session has not heard of it yet.
    store(&mut stream, 11, StoredBy::Member(first));
    assert_eq!(stream.tracking().offset(&app()), Some(10));
    assert_eq!(stream.stats().offsets_refused, 1);
    store(&mut stream, 12, StoredBy::Member(told[0].2));
    assert_eq!(stream.tracking().offset(&app()), Some(12));
}

#[test]
fn an_offset_that_an_operator_has_set_is_stored_again_before_the_next_one_is_told() {
    let mut stream = stream();
    let first = join(&mut stream, 1)[0].2;
    let told = activity(store(&mut stream, 40, StoredBy::Operator));
    assert_eq!(told, [(connection(1), false, first)]);
    // It is given the time to say how far it has come.
    store(&mut stream, 7, StoredBy::Member(first));
    assert_eq!(stream.tracking().offset(&app()), Some(7));
    let answers = give(
        &mut stream,
        Command::SteppedDown {
            stream: STREAM,
            group: app(),
            member: MemberId(1),
        },
    );
    assert!(matches!(
        answers[..],
        [Event::Activity {
            is_active: true,
            ..
        }]
    ));
    assert_eq!(stream.tracking().offset(&app()), Some(40));
}

#[test]
fn an_offset_that_an_operator_sets_is_written_at_once_and_told_when_it_is_committed() {
    let mut stream = stream();
    let operator = SessionId::Operator(1);
    let ask = |stream: &mut Stream, session| {
        let (request, reference) = (RequestId(3), app());
        let query = Command::QueryOffset {
            request,
            stream: STREAM,
            reference,
        };
        let mut events = Events::new();
        stream.handle(NOW, session, query, &mut events);
        events
            .into_iter()
            .map(|(_, event)| event)
            .collect::<Vec<_>>()
    };
    let told = |events: &[Event]| match events {
        [Event::StoredOffset { result, .. }] => Some(result.clone()),
        _ => None,
    };
    assert_eq!(told(&ask(&mut stream, operator)), Some(Ok(None)));
    store(&mut stream, 5, StoredBy::Operator);
    assert!(ask(&mut stream, operator).is_empty());
    assert_eq!(told(&ask(&mut stream, SESSION)), Some(Ok(Some(5))));
    let (turn, chunks) = seal(&mut stream, NOW);
    assert_eq!(chunks.len(), 1);
    assert_eq!(told(&commit(&mut stream, turn.unwrap())), Some(Ok(Some(5))));
    assert_eq!(told(&ask(&mut stream, operator)), Some(Ok(Some(5))));
}

#[test]
fn members_of_groups_hear_that_their_stream_is_deleted() {
    let mut stream = stream();
    join(&mut stream, 1);
    let mut events = Events::new();
    assert!(stream.knows(connection(1)));
    stream.end(&mut events);
    assert!(matches!(
        events[..],
        [(SESSION, Event::Gone { stream: STREAM })]
    ));
    assert!(!stream.knows(connection(1)));
}
