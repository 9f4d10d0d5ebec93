//! Publishes and their confirms.

use crate::harness::{begin_publish, check_open, check_with};
use bytes::Bytes;
use leveret_amqp::frame::FrameKind;
use leveret_amqp::{ContentHeader, channel, encode};
use leveret_session::{Connection, Settings, fuzz};
use leveret_types::Now;
use leveret_types::limits::{MESSAGE_BYTES_MAX, UNFINISHED_BYTES_MAX, UNFINISHED_LARGE};

#[test]
fn a_publish_is_sent_off_when_all_of_it_is_here() {
    check_open(
        "
        1:publish x key body => !1:publish #0 x/key body
        1:publish '' q hello mandatory => !1:publish #0 /q hello mandatory
        1:publish x k '' => !1:publish #0 x/k
        1:publish x k body mode=2 priority=9 expiration=60000 \
            => !1:publish #0 x/k body persistent priority=9 expiration=60000
        1:publish x k body mode=1 priority=0 => !1:publish #0 x/k body priority=0
        1:publish-method x k =>
        1:content 10 =>
        1:body hello =>
        1:body '' =>
        1:body wo =>
        1:body rld => !1:publish #0 x/k helloworld
        ",
    );
}

#[test]
fn publishes_on_several_channels_may_arrive_in_turns() {
    check_open(
        "
        2:open => ?channel 2; 2<open-ok
        1:publish-method x one =>
        2:publish-method x two =>
        2:content 4 =>
        1:content 6 =>
        2:body tw =>
        1:body first =>
        heartbeat =>
        2:body o! => !2:publish #0 x/two two!
        1:body ! => !1:publish #0 x/one first!
        ",
    );
}

#[test]
fn content_comes_in_its_order() {
    let none = "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead (0,0)";
    let header = "505 UNEXPECTED_FRAME - expected content header for class 60, \
        got non content header frame instead (60,40)";
    let body =
        "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead (60,40)";
    let cases = [
        ("1:content 4 =>", none),
        ("1:body abc =>", none),
        ("1:publish-method x k =>\n 1:body abc =>", header),
        ("1:publish-method x k =>\n 1:ack 1 =>", header),
        ("1:publish-method x k =>\n 1:publish-method x k =>", header),
        (
            "1:publish-method x k =>\n 1:content 4 =>\n 1:content 4 =>",
            body,
        ),
        (
            "1:publish-method x k =>\n 1:content 4 =>\n 1:close =>",
            body,
        ),
        (
            "1:publish-method x k =>\n 1:content 4 =>\n 1:body ab =>\n 1:ack 1 =>",
            body,
        ),
    ];
    for (said, text) in cases {
        check_open(&format!("{said} !closed 1; 0<close {text}"));
    }
    // Of a channel that is not open as well.
    check_open(&format!("2:body abc => !closed 1; 0<close {none}"));
}

#[test]
fn a_content_header_says_what_follows() {
    let text = "expected content header for class 60, got one for class 10 instead";
    check_open(&format!(
        "1:publish-method x k =>
        1:content 4 class=10 => !closed 1; 0<close 505 UNEXPECTED_FRAME - {text} (60,40)"
    ));
    let text = "content body frame exceeds remaining content size";
    check_open(&format!(
        "1:publish-method x k =>
        1:content 4 =>
        1:body abcde => !closed 1; 0<close 501 FRAME_ERROR - {text} (60,40)"
    ));
    check_open(&format!(
        "1:publish-method x k =>
        1:content 4 =>
        1:body abc =>
        1:body de => !closed 1; 0<close 501 FRAME_ERROR - {text} (60,40)"
    ));
    for (properties, text) in [
        ("zz", "unknown property flags 0x0002"),
        ("z", "the frame ends within a field"),
        ("", "the frame ends within a field"),
    ] {
        check_open(&format!(
            "1:publish-method x k =>
            1:content 4 properties={properties} => !closed 1; \
                0<close 502 SYNTAX_ERROR - {text} (60,40)"
        ));
    }
}

#[test]
fn a_message_has_a_largest_size() {
    let settings = Settings {
        message_bytes_max: 5,
        ..Settings::default()
    };
    let open = crate::harness::OPEN;
    let text = "message size 6 is larger than configured max size 5 (60,40)";
    check_with(
        &settings,
        &format!(
            "{open}
            1:publish x k abcde => !1:publish #0 x/k abcde
            1:publish-method x k =>
            1:content 6 => !closed 1; 1<close 406 PRECONDITION_FAILED - {text}
            1:body abcdef =>
            1:close-ok =>
            "
        ),
    );
    check_with(
        &settings,
        &format!(
            "{open}\n 1:publish x k abcdef => !closed 1; 1<close 406 PRECONDITION_FAILED - {text}"
        ),
    );
    let text = "content body size 536870913 exceeds maximum allowed size 536870912 (60,40)";
    for size in ["536870913", "9223372036854775808", "18446744073709551615"] {
        let text = text.replace("536870913", size);
        check_open(&format!(
            "1:publish-method x k =>
            1:content {size} => !closed 1; 0<close 501 FRAME_ERROR - {text}"
        ));
    }
    let text = "message size 536870912 is larger than configured max size 16777216 (60,40)";
    check_open(&format!(
        "1:publish-method x k =>
        1:content 536870912 => !closed 1; 1<close 406 PRECONDITION_FAILED - {text}"
    ));
    let hard = Settings {
        message_bytes_max: 536_870_912,
        ..Settings::default()
    };
    check_with(
        &hard,
        &format!("{open}\n 1:publish-method x k =>\n 1:content 536870912 =>"),
    );
}

#[test]
fn an_expiration_must_be_a_number() {
    for (value, why) in [
        ("abc", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1e9", "{leftover_string,\"e9\"}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ] {
        let text = format!("invalid expiration '{value}': {why} (60,40)");
        check_open(&format!(
            "1:publish x k body expiration={value} => !closed 1; \
                1<close 406 PRECONDITION_FAILED - {text}"
        ));
    }
}

#[test]
fn immediate_is_not_there() {
    check_open(
        "1:publish x k body immediate => !closed 1; \
            0<close 540 NOT_IMPLEMENTED - immediate=true (60,40)",
    );
}

#[test]
fn publishes_are_numbered_in_confirm_mode_and_confirmed_together() {
    check_open(
        "
        1:publish x k zero => !1:publish #0 x/k zero
        1:confirm => 1<select-ok
        1:confirm nowait =>
        pipelined 1:publish x k a + 1:publish x k b + 1:publish x k c \
            => !1:publish #1 x/k a; !1:publish #2 x/k b; !1:publish #3 x/k c
        status => 1: consumers=0 prefetch=0 unacked=0 unconfirmed=3 uncommitted=0+0 confirm
        accepted 1 1 0@7 =>
        accepted 1 2 0@7 =>
        accepted 1 3 0@8 1@2 =>
        durable 0 6 =>
        durable 0 7 => 1<ack 2 multiple
        durable 0 9 =>
        durable 1 2 => 1<ack 3
        1:publish x k d => !1:publish #4 x/k d
        rejected 1 4 => 1<nack 4
        1:publish x k e => !1:publish #5 x/k e
        accepted 1 5 => 1<ack 5
        status => 1: consumers=0 prefetch=0 unacked=0 unconfirmed=0 uncommitted=0+0 confirm
        accepted 1 5 =>
        accepted 1 6 =>
        accepted 7 1 =>
        ",
    );
}

#[test]
fn a_confirm_took_from_the_read_of_its_publish_to_the_write_of_it() {
    check_open(
        "
        1:confirm nowait =>
        time 2000 & 1:publish x k a => !1:publish #1 x/k a
        time 2010 & 1:publish x k b => !1:publish #2 x/k b
        accepted 1 1 0@7 & accepted 1 2 0@8 =>
        now 2030 & durable 0 7 => 1<ack 1
        latencies => confirmed 1 in 30 ms
        now 2050 & durable 0 8 => 1<ack 2
        1:publish x k c => !1:publish #3 x/k c
        now 2060 & rejected 1 3 => 1<nack 3
        latencies => confirmed 1 in 40 ms
        latencies =>
        ",
    );
}

#[test]
fn each_channel_counts_its_own_publishes() {
    check_open(
        "
        2:open => ?channel 2; 2<open-ok
        1:confirm nowait =>
        2:confirm nowait =>
        pipelined 1:publish x k a + 2:publish x k b + 1:publish x k c \
            => !1:publish #1 x/k a; !2:publish #1 x/k b; !1:publish #2 x/k c
        accepted 1 1 0@1 =>
        accepted 2 1 0@1 =>
        accepted 1 2 0@2 =>
        durable 0 1 => 1<ack 1; 2<ack 1
        durable 0 2 => 1<ack 2
        1:close => !closed 1; 1<close-ok
        1:open => ?channel 1; 1<open-ok
        1:confirm nowait =>
        1:publish x k a => !1:publish #1 x/k a
        ",
    );
}

#[test]
fn a_return_comes_before_its_confirm() {
    check_open(
        "
        1:confirm nowait =>
        1:publish x k body mandatory => !1:publish #1 x/k body mandatory
        accepted 1 1 0@1 =>
        returned 1 => 1<return 312 NO_ROUTE x/k body
        durable 0 1 => 1<ack 1
        returned 9 =>
        ",
    );
}

#[test]
fn confirms_that_are_ready_are_not_lost_when_the_channel_or_the_connection_closes() {
    let published = "
        1:confirm nowait =>
        pipelined 1:publish x k a + 1:publish x k b => !1:publish #1 x/k a; !1:publish #2 x/k b
        accepted 1 1 0@1 =>";
    // The harness flushes after each line, so that confirm and end must come from one.
    check_open(&format!(
        "{published}\n accepted 1 2 0@2 =>\n durable 0 1 => 1<ack 1"
    ));
    check_open(&format!(
        "{published}
        1:close => !closed 1; 1<close-ok
        durable 0 1 =>
        accepted 1 2 =>
        "
    ));
}

#[test]
fn an_asynchronous_failure_closes_what_it_says() {
    check_open(
        "
        1:publish nowhere k body => !1:publish #0 nowhere/k body
        failed 1 channel no exchange 'nowhere' in vhost '/' \
            => !closed 1; 1<close 404 NOT_FOUND - no exchange 'nowhere' in vhost '/' (0,0)
        failed 1 channel again =>
        1:publish x k body =>
        1:close-ok =>
        failed 1 channel too late =>
        failed 1 connection bad => 0<close 530 NOT_ALLOWED - bad (0,0)
        failed 1 connection worse =>
        ",
    );
}

#[test]
fn confirms_and_transactions_do_not_mix() {
    let text = "cannot switch from confirm to tx mode (90,10)";
    check_open(&format!(
        "1:confirm nowait =>
        1:tx => !closed 1; 1<close 406 PRECONDITION_FAILED - {text}"
    ));
    let text = "cannot switch from tx to confirm mode (85,10)";
    check_open(&format!(
        "1:tx => 1<select-ok
        1:confirm => !closed 1; 1<close 406 PRECONDITION_FAILED - {text}"
    ));
}

/// One connection whose publishes arrive in parts.
struct InParts {
    connection: Connection,
}

impl InParts {
    fn new(message_bytes_max: u64) -> Self {
        let settings = Settings {
            message_bytes_max,
            ..Settings::default()
        };
        Self {
            connection: fuzz::open_connection(settings),
        }
    }

    fn say(&mut self, bytes: Vec<u8>) {
        let now = Now::both(2_000);
        fuzz::drive(&mut self.connection, now, Bytes::from(bytes));
    }

    /// Opens the channel, if it is not the first, and begins a publish with so large a body.
    fn begin(&mut self, number: u16, size: usize) {
        let mut bytes = Vec::new();
        if number > 1 {
            encode::method(&mut bytes, number, &channel::Open {});
        }
        begin_publish(&mut bytes, number);
        encode::frame(&mut bytes, FrameKind::Header, number, |out| {
            let header = ContentHeader {
                class: 60,
                body_size: size as u64,
                properties: b"\0\0",
            };
            header.encode(out);
        });
        self.say(bytes);
    }

    /// So many octets of the body, each frame in a read of its own.
    fn send(&mut self, number: u16, size: usize) {
        let part = vec![7; 4_000];
        let mut left = size;
        while left > 0 {
            let part = &part[..left.min(part.len())];
            let mut bytes = Vec::new();
            encode::frame(&mut bytes, FrameKind::Body, number, |out| {
                out.extend_from_slice(part);
            });
            self.say(bytes);
            left -= part.len();
        }
    }

    fn open(&self) -> Vec<u16> {
        let mut open: Vec<u16> = self.connection.channels().map(|c| c.number.0).collect();
        open.sort_unstable();
        open
    }
}

#[test]
fn unfinished_publishes_of_all_channels_together_are_bounded() {
    let size = MESSAGE_BYTES_MAX as usize;
    let mut client = InParts::new(MESSAGE_BYTES_MAX);
    // All but one octet of a body on each channel.
    for number in 1..16 {
        client.begin(number, size);
        client.send(number, size - 1);
    }
    let fit = 1 + (UNFINISHED_BYTES_MAX / size).max(UNFINISHED_LARGE);
    let expected: Vec<u16> = (1..=fit as u16).collect();
    assert_eq!(client.open(), expected);
    // One that is whole makes room.
    client.send(2, 1);
    client.begin(16, size);
    client.send(16, size - 1);
    assert!(client.open().contains(&16));
}

#[test]
fn small_publishes_go_by_one_that_is_larger_than_the_bound() {
    let size = 100 * 1024 * 1024;
    let mut client = InParts::new(size as u64);
    client.begin(1, size);
    client.send(1, UNFINISHED_BYTES_MAX + 8_000);
    client.begin(2, 10_000);
    client.send(2, 10_000);
    assert_eq!(client.open(), [1, 2]);
    // So does a second one as large.
    client.begin(3, size);
    client.send(3, UNFINISHED_BYTES_MAX + 8_000);
    assert_eq!(client.open(), [1, 2, 3]);
}
