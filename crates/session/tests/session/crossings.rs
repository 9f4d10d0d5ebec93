//! What crosses on its way: several things that happen before the next answer, and publishes whose
//! frames are not the ones that belong there.

use crate::harness::{OPEN, begin_publish, check, check_open};
use bytes::Bytes;
use leveret_amqp::frame::FrameKind;
use leveret_amqp::{ContentHeader, basic, channel, encode};
use leveret_session::contract::Request;
use leveret_session::{Connection, Settings, fuzz};
use leveret_types::limits::{
    UNFINISHED_BYTES_MAX, UNFINISHED_CHECK_MS, UNFINISHED_CROWD_SILENCE_MS,
};
use leveret_types::{ChannelId, Now};

fn with_heartbeat(seconds: u16) -> String {
    OPEN.replace("tune-ok 16 8192 0", &format!("tune-ok 16 8192 {seconds}"))
}

#[test]
fn a_mistake_behind_a_publish_that_failed_counts_for_nothing_on_its_channel() {
    check_open(
        "
        hold =>
        pipelined 1:publish x k body + 1:flow => !1:publish #0 x/k body
        failed 1 channel gone => !closed 1; 1<close 404 NOT_FOUND - gone (0,0)
        answer =>
        state => Open
        ",
    );
    check_open(
        "
        hold =>
        pipelined 1:publish x k body + 1:flow => !1:publish #0 x/k body
        answer => !closed 1; 0<close 540 NOT_IMPLEMENTED - active=false (20,20)
        ",
    );
}

#[test]
fn what_asks_for_nothing_does_not_wait_for_what_comes_of_publishes() {
    check_open(
        "
        1:consume q c => ?1:consume q c prefetch=0; 1<consume-ok c
        deliver 1 c 10 & deliver 1 c 11 & deliver 1 c 12 => true; true; true; \
            1<deliver c 1 x/k body; 1<deliver c 2 x/k body; 1<deliver c 3 x/k body
        hold =>
        pipelined 1:publish x k a + 1:ack 1 + 1:publish x k b + 1:nack 2 + 1:reject 3 => \
            !1:publish #0 x/k a; !1:accept 10; !1:publish #0 x/k b; !1:reject 11-12
        suspended => false
        ",
    );
}

#[test]
fn a_channel_that_fails_behind_the_closing_of_its_connection_says_nothing() {
    check_open(
        "
        server-close bye & failed 1 channel late => 0<close 530 NOT_ALLOWED - bye (0,0)
        close-ok => !closed 1
        ",
    );
}

#[test]
fn content_that_reads_like_a_method_does_not_end_the_closing_of_a_channel() {
    check_open(
        "
        failed 1 channel gone => !closed 1; 1<close 404 NOT_FOUND - gone (0,0)
        raw 03 00 01 00 00 00 04 00 14 00 29 ce =>
        1:declare q =>
        1:close-ok =>
        1:open => ?channel 1; 1<open-ok
        ",
    );
}

#[test]
fn what_was_said_or_waits_is_heartbeat_enough() {
    // Confirms are.
    check(&format!(
        "{}
        1:confirm => 1<select-ok
        1:publish x k a => !1:publish #1 x/k a
        tick 6000 =>
        accepted 1 1 => 1<ack 1
        tick 11000 =>
        heartbeat =>
        tick 16000 => 0<heartbeat
        ",
        with_heartbeat(10)
    ));
    // So are messages, given back or delivered.
    check(&format!(
        "{}
        1:consume q c noack => ?1:consume q c prefetch=0 noack; 1<consume-ok c
        tick 6000 =>
        returned 1 => 1<return 312 NO_ROUTE x/k body
        tick 11000 =>
        heartbeat =>
        deliver 1 c 1 => true; 1<deliver c 1 x/k body
        tick 16000 =>
        tick 21000 => 0<heartbeat
        ",
        with_heartbeat(10)
    ));
    // So is what the socket has not taken yet, before a barrier as well.
    check(&format!(
        "{}
        returned 1 & tick 6000 & tick 11000 => 1<return 312 NO_ROUTE x/k body
        ",
        with_heartbeat(10)
    ));
    check(&format!(
        "{}
        returned 1 & barrier & tick 11000 => 1<return 312 NO_ROUTE x/k body
        lift =>
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn silence_counts_from_the_end_of_an_alarm_however_seldom_time_was_told() {
    check(&format!(
        "{}
        1:publish x k body => !1:publish #0 x/k body
        blocked memory => 0<blocked memory
        1:publish x k late =>
        time 100000 =>
        unblocked => !1:publish #0 x/k late; 0<unblocked
        tick 100001 =>
        state => Open
        tick 120000 => 0<heartbeat
        state => Open
        tick 120001 => !closed 1
        ",
        with_heartbeat(10)
    ));
}

#[test]
fn a_limit_of_none_for_all_is_no_limit_that_another_one_lifts() {
    check_open(
        "
        1:qos 0 0 global => !1:prefetch 0; 1<qos-ok
        1:qos 0 5 => 1<qos-ok
        1:qos 0 7 global => !1:prefetch 7; 1<qos-ok
        1:qos 0 5 => !1:prefetch 0; 1<qos-ok
        1:qos 0 5 => 1<qos-ok
        ",
    );
}

#[test]
fn a_stranger_that_cannot_be_understood_is_told_so_and_not_waited_for() {
    check(
        "
        header => 0<start
        raw 09 00 00 00 00 00 00 ce => 0<close 501 FRAME_ERROR - \
            type 9, all octets = <<>>: unknown_frame (0,0)
        tick 1000 =>
        state => Closing
        tick 9000 =>
        state => Closed
        ",
    );
}

/// A publish of two octets of body, as frames of these kinds and channels.
fn frames(kinds: [FrameKind; 2], channels: [u16; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin_publish(&mut bytes, channels[0]);
    encode::frame(&mut bytes, kinds[0], channels[1], |out| {
        let header = ContentHeader {
            class: 60,
            body_size: 4,
            properties: b"\0\0",
        };
        header.encode(out);
    });
    encode::frame(&mut bytes, kinds[1], channels[2], |out| {
        out.extend_from_slice(b"body");
    });
    bytes
}

fn publishes(requests: &[Request]) -> Vec<&[u8]> {
    let bodies = requests.iter().filter_map(|request| match request {
        Request::Publish(publish) => Some(publish.message.body()),
        _ => None,
    });
    bodies.collect()
}

#[test]
fn only_frames_of_the_right_kinds_and_channel_make_a_publish() {
    use FrameKind::{Body, Header, Heartbeat, Method};
    for (kinds, channels, is_one) in [
        ([Header, Body], [1, 1, 1], true),
        ([Body, Body], [1, 1, 1], false),
        ([Method, Body], [1, 1, 1], false),
        ([Header, Header], [1, 1, 1], false),
        ([Header, Method], [1, 1, 1], false),
        ([Header, Heartbeat], [1, 1, 1], false),
        ([Header, Body], [1, 2, 1], false),
        ([Header, Body], [1, 1, 2], false),
    ] {
        let mut connection = fuzz::open_connection(Settings::default());
        let mut second = Vec::new();
        encode::method(&mut second, 2, &channel::Open {});
        fuzz::drive(&mut connection, Now::both(1_000), second.into());
        let bytes = Bytes::from(frames(kinds, channels));
        let requests = fuzz::drive(&mut connection, Now::both(1_000), bytes);
        let expected: &[&[u8]] = if is_one { &[b"body"] } else { &[] };
        assert_eq!(publishes(&requests), expected, "{kinds:?} {channels:?}");
        assert_eq!(connection.end().is_none(), is_one, "{kinds:?} {channels:?}");
    }
}

#[test]
fn a_publish_that_came_whole_lies_where_it_was_read() {
    let mut connection = fuzz::open_connection(Settings::default());
    let one = frames([FrameKind::Header, FrameKind::Body], [1; 3]);
    let bytes = Bytes::from([&one[..], &one[..]].concat());
    let place = bytes.as_ptr_range();
    let requests = fuzz::drive(&mut connection, Now::both(1_000), bytes.clone());
    let bodies = publishes(&requests);
    assert_eq!(bodies, [b"body", b"body"]);
    for body in bodies {
        assert!(place.contains(&body.as_ptr()), "it was copied");
    }
}

/// A publish with so many octets of properties, and one octet of two of its body.
fn unfinished(number: u16, properties: usize, body: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin_publish(&mut bytes, number);
    encode::frame(&mut bytes, FrameKind::Header, number, |out| {
        let mut octets = vec![0; properties];
        if properties > 2 {
            // Headers, of one long text: flags, length of the table, name, kind, length.
            octets[..2].copy_from_slice(&[0x20, 0]);
            let table = properties as u32 - 6;
            octets[2..6].copy_from_slice(&table.to_be_bytes());
            octets[6..9].copy_from_slice(&[1, b'h', b'S']);
            octets[9..13].copy_from_slice(&(table - 7).to_be_bytes());
        }
        let header = ContentHeader {
            class: 60,
            body_size: body as u64 + 1,
            properties: &octets,
        };
        header.encode(out);
    });
    let part = vec![7; 4_000];
    let mut left = body;
    while left > 0 {
        let size = left.min(part.len());
        encode::frame(&mut bytes, FrameKind::Body, number, |out| {
            out.extend_from_slice(&part[..size]);
        });
        left -= size;
    }
    bytes
}

/// How many channels begin such a publish before one is closed for it.
fn begun_before_one_is_refused(properties: usize, body: usize) -> usize {
    let mut settings = Settings {
        message_bytes_max: 1 << 20,
        heartbeat_seconds: 0,
        ..Settings::default()
    };
    settings.frame_max = 131_072;
    let mut connection = open_with_frames_of(settings, 131_072);
    for number in 2..2_000 {
        let mut bytes = Vec::new();
        encode::method(&mut bytes, number, &channel::Open {});
        bytes.extend(unfinished(number, properties, body));
        let requests = fuzz::drive(&mut connection, Now::both(1_000), bytes.into());
        if requests
            .iter()
            .any(|request| matches!(request, Request::ChannelClosed { .. }))
        {
            return usize::from(number) - 2;
        }
        assert!(!connection.is_blocked(), "the node has room");
    }
    panic!("none was refused");
}

fn open_with_frames_of(settings: Settings, frame_max: u32) -> Connection {
    use leveret_amqp::{PROTOCOL_HEADER, RawTable, connection};
    let mut connection = Connection::new(settings.into(), Now::both(1_000));
    let mut bytes = PROTOCOL_HEADER.to_vec();
    let start_ok = connection::StartOk {
        client_properties: RawTable::trusted(&[]),
        mechanism: "PLAIN",
        response: b"\0guest\0guest",
        locale: "en_US",
    };
    encode::method(&mut bytes, 0, &start_ok);
    let tune_ok = connection::TuneOk {
        channel_max: 2_047,
        frame_max,
        heartbeat: 0,
    };
    encode::method(&mut bytes, 0, &tune_ok);
    encode::method(&mut bytes, 0, &connection::Open { virtual_host: "/" });
    fuzz::drive(&mut connection, Now::both(1_000), bytes.into());
    connection
}

#[test]
fn what_the_unfinished_publishes_of_a_connection_hold_is_bounded_be_it_properties_or_bodies() {
    for (properties, body) in [(100_000, 0), (100_000, 1), (2, 500_000)] {
        let begun = begun_before_one_is_refused(properties, body);
        let each = properties + body;
        let fit = UNFINISHED_BYTES_MAX / each;
        // Small parts are not counted, and memory is taken ahead of a body, up to twice as much.
        assert!(
            (fit / 2..fit * 11 / 10 + 2).contains(&begun),
            "{begun} of {properties} and {body} octets, {fit} fit"
        );
    }
}

#[test]
fn nobody_is_woken_for_unfinished_publishes_when_there_is_nothing_to_give_up() {
    let settings = Settings {
        heartbeat_seconds: 0,
        ..Settings::default()
    };
    let mut connection = fuzz::open_connection(settings);
    fuzz::drive(
        &mut connection,
        Now::both(1_000),
        unfinished(1, 2, 0).into(),
    );
    assert_eq!(connection.deadline(), None, "a small one");
    let mut second = Vec::new();
    encode::method(&mut second, 2, &channel::Open {});
    fuzz::drive(&mut connection, Now::both(1_000), second.into());
    let mut bytes = unfinished(2, 2, 100_000);
    bytes.truncate(9_000);
    let two_frames = bytes.split_off(200);
    fuzz::drive(&mut connection, Now::both(1_000), bytes.into());
    assert_eq!(connection.deadline(), None, "a claim holds nothing");
    fuzz::drive(&mut connection, Now::both(1_000), two_frames.into());
    let at = 1_000 + UNFINISHED_CROWD_SILENCE_MS;
    assert_eq!(connection.deadline(), Some(at));
    // Nothing of it comes, but nobody waits: it is looked at again and again.
    for round in 0..3 {
        let now = at + round * UNFINISHED_CHECK_MS;
        connection.tick(Now::both(now), &mut Vec::new());
        assert_eq!(connection.deadline(), Some(now + UNFINISHED_CHECK_MS));
    }
    let mut bytes = Vec::new();
    bytes.extend(unfinished(2, 2, 100_000).split_off(9_000));
    encode::frame(&mut bytes, FrameKind::Body, 2, |out| out.push(7));
    fuzz::drive(&mut connection, Now::both(at + 1_000), bytes.into());
    connection.tick(Now::both(at + 1_000), &mut Vec::new());
    assert_eq!(connection.deadline(), None, "none is under way");
}

#[test]
fn what_a_consumer_holds_is_counted_until_it_is_settled_for_good() {
    let mut connection = fuzz::open_connection(Settings::default());
    let mut bytes = Vec::new();
    for tag in ["a", "b"] {
        let consume = basic::Consume {
            queue: "q",
            consumer_tag: tag,
            no_local: false,
            no_ack: false,
            exclusive: false,
            nowait: true,
            arguments: leveret_amqp::RawTable::trusted(&[]),
        };
        encode::method(&mut bytes, 1, &consume);
    }
    encode::method(&mut bytes, 1, &leveret_amqp::tx::Select {});
    fuzz::drive(&mut connection, Now::both(1_000), bytes.into());
    let channel = ChannelId(1);
    let (first, second) = (
        fuzz::consumer_of(channel, "a"),
        fuzz::consumer_of(channel, "b"),
    );
    for index in 0..3 {
        assert!(connection.deliver(&fuzz::delivery(first, index)));
    }
    assert!(connection.deliver(&fuzz::delivery(second, 9)));
    let delivery = |connection: &Connection| {
        [first, second].map(|consumer| connection.unsettled_by(channel, consumer))
    };
    assert_eq!(delivery(&connection), [3, 1]);
    let unsent = connection.unsent_bytes();
    assert!(unsent > 100, "{unsent} octets of four deliveries");
    let mut bytes = Vec::new();
    let ack = basic::Ack {
        delivery_tag: 2,
        multiple: true,
    };
    encode::method(&mut bytes, 1, &ack);
    fuzz::drive(&mut connection, Now::both(1_000), bytes.into());
    assert_eq!(delivery(&connection), [3, 1], "it may be rolled back");
    let mut bytes = Vec::new();
    encode::method(&mut bytes, 1, &leveret_amqp::tx::Commit {});
    fuzz::drive(&mut connection, Now::both(1_000), bytes.into());
    assert_eq!(delivery(&connection), [1, 1]);
    assert_eq!(connection.unsettled_by(ChannelId(2), first), 0);
}
