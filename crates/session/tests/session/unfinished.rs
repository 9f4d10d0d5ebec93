//! Publishes of several connections of a node that have not arrived whole.

use crate::harness::begin_publish;
use bytes::Bytes;
use leveret_amqp::frame::FrameKind;
use leveret_amqp::{ContentHeader, PROTOCOL_HEADER, channel, connection, encode};
use leveret_client::SessionState;
use leveret_session::contract::{LoginOutcome, Reply, Request};
use leveret_session::{Connection, Settings, fuzz};
use leveret_types::limits::{
    CHUNK_BYTES, MESSAGE_BYTES_MAX, UNFINISHED_CHECK_MS, UNFINISHED_CROWD_MS_MAX,
    UNFINISHED_MS_MAX, UNFINISHED_NODE_BYTES_MAX, UNFINISHED_SILENCE_MS,
};
use leveret_types::unfinished::Reservation;
use leveret_types::{Now, ProtocolError, ReplyCode};
use std::sync::Arc;

/// Octets of properties: none are set.
const PROPERTIES: usize = 2;
const ALL: usize = UNFINISHED_NODE_BYTES_MAX;
/// Octets of a body with which a publish needs room among others.
const BEGINNING: usize = 8_000;

/// Connections of one node, and the time there.
struct Node {
    settings: Settings,
    now_ms: u64,
}

impl Node {
    fn new() -> Self {
        let settings = Settings {
            message_bytes_max: 2 * ALL as u64,
            heartbeat_seconds: 0,
            ..Settings::default()
        };
        Self {
            settings,
            now_ms: 2_000,
        }
    }

    fn connect(&self) -> Connection {
        fuzz::open_connection(self.settings.clone())
    }

    /// A connection of this user, with channel 1 open.
    fn connect_as(&self, user: &str) -> Connection {
        let now = Now::both(self.now_ms);
        let mut connection = Connection::new(Arc::new(self.settings.clone()), now);
        let bytes = [&PROTOCOL_HEADER[..], &fuzz::handshake(), &open(1)].concat();
        let mut requests = Vec::new();
        connection.receive(now, bytes.into(), &mut requests);
        while connection.suspended() {
            let reply = match requests.pop() {
                Some(Request::Login { .. }) => Reply::Login(LoginOutcome::Accepted {
                    user: user.to_owned(),
                }),
                pending_request => pending_request
                    .as_ref()
                    .and_then(fuzz::oblige)
                    .expect("it asks"),
            };
            connection.reply(now, reply, &mut requests);
        }
        assert_eq!(connection.user(), user);
        connection
    }

    fn say(&self, connection: &mut Connection, bytes: Vec<u8>) {
        fuzz::drive(connection, Now::both(self.now_ms), Bytes::from(bytes));
    }

    /// Lets time pass for this connection.
    fn pass(&mut self, connection: &mut Connection, milliseconds: u64) {
        self.now_ms += milliseconds;
        connection.tick(Now::both(self.now_ms), &mut Vec::new());
    }

    fn bytes(&self) -> usize {
        self.settings.unfinished.bytes()
    }

    /// Takes so much room for a publish of this user that nothing more comes of.
    fn hold(&self, user: &str, bytes: usize) -> Reservation {
        let mut reservation = self.settings.unfinished.reserve(user, bytes);
        assert!(reservation.grow(bytes, self.now_ms));
        reservation
    }
}

fn open(number: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::method(&mut bytes, number, &channel::Open {});
    bytes
}

/// A publish of this size in all, of which these octets of the body are there.
fn publish(number: u16, size: usize, there: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin_publish(&mut bytes, number);
    encode::frame(&mut bytes, FrameKind::Header, number, |out| {
        let header = ContentHeader {
            class: 60,
            body_size: (size - PROPERTIES) as u64,
            properties: b"\0\0",
        };
        header.encode(out);
    });
    body(&mut bytes, number, there);
    bytes
}

fn body(bytes: &mut Vec<u8>, number: u16, mut left: usize) {
    let part = vec![7; 4_000];
    while left > 0 {
        let size = left.min(part.len());
        encode::frame(bytes, FrameKind::Body, number, |out| {
            out.extend_from_slice(&part[..size]);
        });
        left -= size;
    }
}

fn channels(connection: &Connection) -> usize {
    connection.channels().count()
}

#[test]
fn what_would_pass_the_nodes_bound_is_not_read_before_there_is_room() {
    let mut node = Node::new();
    let (mut first, mut second) = (node.connect(), node.connect());
    let most = node.hold("most", ALL - 24_000);
    node.say(&mut first, publish(1, 300_000, 100_000));
    assert!(first.is_blocked(), "more has come than there is room for");
    assert!((ALL - 24_000 + BEGINNING..ALL - 5_000).contains(&node.bytes()));
    let small = publish(1, 5_000, 5_000 - PROPERTIES);
    node.say(&mut second, small);
    assert!(second.is_blocked(), "it would fit, and came later");
    node.pass(&mut first, UNFINISHED_CHECK_MS);
    node.pass(&mut second, 0);
    assert!(
        first.is_blocked() && second.is_blocked(),
        "nothing has changed"
    );
    drop(most);
    node.pass(&mut first, UNFINISHED_CHECK_MS);
    node.pass(&mut second, 0);
    assert!(!first.is_blocked() && second.published_yet());
    assert!(node.bytes() >= 100_000 && node.bytes() <= 300_000);
    let mut rest = Vec::new();
    body(&mut rest, 1, 200_000 - PROPERTIES);
    node.say(&mut first, rest);
    assert!(first.published_yet());
    assert_eq!(node.bytes(), 0);
}

/// Whoever claims room by headers alone, or with an octet or two, holds up nobody.
#[test]
fn what_headers_claim_keeps_nobody_waiting() {
    let mut node = Node::new();
    let mut claiming: Vec<Connection> = (0..5).map(|_| node.connect_as("mallory")).collect();
    for (round, connection) in claiming.iter_mut().enumerate() {
        for number in 1..=16 {
            if number > 1 {
                node.say(connection, open(number));
            }
            node.say(connection, publish(number, ALL / 16, round));
        }
        assert!(!connection.is_blocked() && channels(connection) == 16);
    }
    assert_eq!(node.bytes(), 0);
    let mut honest = node.connect_as("honest");
    let size = 1_000_000;
    node.say(&mut honest, publish(1, size, 600_000));
    assert!(!honest.is_blocked() && node.bytes() >= 600_000);
    let mut rest = Vec::new();
    body(&mut rest, 1, size - PROPERTIES - 600_000);
    node.say(&mut honest, rest);
    assert!(honest.published_yet());
    for connection in &mut claiming {
        node.pass(connection, UNFINISHED_MS_MAX);
        assert_eq!(channels(connection), 16, "they are in nobody's way");
    }
}

#[test]
fn small_publishes_go_by_who_waits() {
    let mut node = Node::new();
    let (mut second, mut third) = (node.connect(), node.connect());
    let _all = node.hold("all", ALL);
    node.say(&mut second, publish(1, 100_000, BEGINNING));
    assert!(second.is_blocked());
    node.say(&mut third, publish(1, 1_000, 0));
    assert!(!third.is_blocked(), "small");
    let mut rest = Vec::new();
    body(&mut rest, 1, 1_000 - PROPERTIES);
    node.say(&mut third, rest);
    assert!(third.published_yet());
    node.pass(&mut second, UNFINISHED_CHECK_MS);
    assert!(second.is_blocked());
}

#[test]
fn a_publish_that_does_not_become_whole_is_given_up_for_those_who_wait_and_only_then() {
    let mut node = Node::new();
    let (mut silent, mut waiting) = (node.connect(), node.connect());
    node.say(&mut silent, publish(1, ALL, BEGINNING));
    node.pass(&mut silent, 10 * UNFINISHED_MS_MAX);
    assert_eq!(channels(&silent), 1, "nobody waits");
    node.say(&mut waiting, publish(1, 100_000, BEGINNING));
    assert!(waiting.is_blocked());
    node.pass(&mut silent, UNFINISHED_CHECK_MS);
    assert_eq!(channels(&silent), 0, "its time was over long ago");
    node.pass(&mut waiting, UNFINISHED_CHECK_MS);
    assert!(!waiting.is_blocked());
}

#[test]
fn a_client_that_waits_for_itself_is_let_go_on() {
    let mut node = Node::new();
    let mut client = node.connect();
    node.say(&mut client, [open(2), publish(2, ALL, BEGINNING)].concat());
    node.say(&mut client, publish(1, 100_000, BEGINNING));
    assert!(client.is_blocked());
    for _ in 0..UNFINISHED_SILENCE_MS / UNFINISHED_CHECK_MS {
        assert!(client.is_blocked());
        node.pass(&mut client, UNFINISHED_CHECK_MS);
    }
    assert!(
        !client.is_blocked() && channels(&client) == 1,
        "channel 2 is closed"
    );
}

/// A client that has begun a publish that holds all room but so much, which its user holds
/// otherwise.
fn holding(node: &Node, user: &str, beside: usize) -> (Connection, Option<Reservation>) {
    let mut client = node.connect_as(user);
    let reservation = (beside > 0).then(|| node.hold(user, beside));
    node.say(&mut client, publish(1, ALL - beside, BEGINNING));
    assert_eq!(node.bytes(), ALL);
    (client, reservation)
}

/// Milliseconds until this one is held no more.
fn waits_ms(node: &mut Node, waiting: &mut Connection, claiming: &mut Connection) -> u64 {
    let began_ms = node.now_ms;
    assert!(waiting.is_blocked());
    while waiting.is_blocked() && node.now_ms < began_ms + 2 * UNFINISHED_MS_MAX {
        node.pass(claiming, UNFINISHED_CHECK_MS);
        node.pass(waiting, 0);
    }
    node.now_ms - began_ms
}

#[test]
fn who_holds_room_and_sends_nothing_gives_way_and_soon_with_more_than_an_even_share() {
    for (beside, owner, expected_ms) in [
        (0, "mallory", 10_000),
        (1_000_000, "mallory", 2_000),
        (1_000_000, "honest", 10_000),
    ] {
        let mut node = Node::new();
        let (mut silent, _place) = holding(&node, owner, beside);
        let mut honest = node.connect_as("honest");
        node.say(&mut honest, publish(1, 300_000, BEGINNING));
        let waited_ms = waits_ms(&mut node, &mut honest, &mut silent);
        assert_eq!(waited_ms, expected_ms, "{beside} of {owner}");
        assert_eq!(channels(&silent), 0);
        let told = String::from_utf8_lossy(&silent.output().to_vec()).into_owned();
        let why = format!("made no progress for {} s", expected_ms / 1_000);
        assert!(told.contains(&why), "{told}");
        assert_eq!(
            told.contains("an even share"),
            expected_ms == 2_000,
            "{told}"
        );
    }
}

#[test]
fn what_comes_of_a_frame_is_progress_of_its_publish_until_that_takes_too_long() {
    for (beside, expected_ms) in [(0, UNFINISHED_MS_MAX), (1_000_000, UNFINISHED_CROWD_MS_MAX)] {
        let mut node = Node::new();
        let (mut slow, _place) = holding(&node, "slow", beside);
        let mut honest = node.connect_as("honest");
        node.say(&mut honest, publish(1, 300_000, BEGINNING));
        // One sends a frame octet by octet, the other one frames of an octet each.
        let mut octets = Vec::new();
        body(&mut octets, 1, 4_000);
        let mut octets = octets.into_iter();
        let mut small = Vec::new();
        body(&mut small, 1, 1);
        let began_ms = node.now_ms;
        while channels(&slow) == 1 {
            let sent = match beside {
                0 => octets.by_ref().take(1).collect(),
                _ => small.clone(),
            };
            assert!(!sent.is_empty() && node.now_ms < began_ms + 2 * UNFINISHED_MS_MAX);
            node.say(&mut slow, sent);
            node.pass(&mut slow, UNFINISHED_CHECK_MS);
            node.pass(&mut honest, 0);
        }
        assert_eq!(node.now_ms - began_ms, expected_ms);
        assert!(!honest.is_blocked());
    }
}

/// A client that waits is worth keeping for while what it has to say can become whole.
#[test]
fn what_is_missing_of_the_publish_that_waits_is_known() {
    let mut node = Node::new();
    let (mut client, all) = (node.connect(), node.hold("all", ALL));
    assert_eq!(client.lacks_bytes(), None);
    let (size, there) = (100_000, 20_000);
    node.say(&mut client, publish(1, size, there));
    assert!(client.is_blocked());
    let lacks = client.lacks_bytes().expect("it waits");
    let frames = there / 4_000 * 8;
    assert!((size - PROPERTIES - there - frames..size - there).contains(&lacks));
    let mut rest = Vec::new();
    body(&mut rest, 1, size - PROPERTIES - there);
    node.say(&mut client, rest);
    assert_eq!(client.lacks_bytes(), Some(0), "it has come");
    drop(all);
    node.pass(&mut client, UNFINISHED_CHECK_MS);
    assert!(client.published_yet());
    assert_eq!(client.lacks_bytes(), None);
}

#[test]
fn who_finishes_a_publish_and_begins_the_next_at_once_goes_behind_who_waits() {
    let mut node = Node::new();
    let (mut greedy, mut honest) = (node.connect(), node.connect());
    let claim = publish(1, ALL, BEGINNING);
    node.say(&mut greedy, claim.clone());
    node.say(&mut honest, publish(1, 300_000, BEGINNING));
    assert!(honest.is_blocked());
    let mut rest = Vec::new();
    body(&mut rest, 1, ALL - PROPERTIES - BEGINNING);
    node.say(&mut greedy, [rest, claim].concat());
    assert!(greedy.is_blocked(), "it is the other's turn");
    node.pass(&mut honest, UNFINISHED_CHECK_MS);
    assert!(!honest.is_blocked());
}

#[test]
fn who_is_not_read_for_an_alarm_is_not_silent() {
    let mut node = Node::new();
    let (mut blocked, _) = holding(&node, "blocked", 0);
    let mut waiting = node.connect_as("waiting");
    node.say(&mut waiting, publish(1, 300_000, BEGINNING));
    blocked.blocked(Some("low on disk"));
    node.say(&mut blocked, [open(2), publish(2, 100, 0)].concat());
    assert!(blocked.is_blocked());
    let waited_ms = waits_ms(&mut node, &mut waiting, &mut blocked);
    assert_eq!(waited_ms, UNFINISHED_MS_MAX);
}

#[test]
fn many_channels_of_many_connections_hold_no_more_than_the_node_allows() {
    let mut node = Node::new();
    node.settings.message_bytes_max = MESSAGE_BYTES_MAX;
    let size = MESSAGE_BYTES_MAX as usize;
    let mut connections: Vec<Connection> = (0..8).map(|_| node.connect()).collect();
    for connection in &mut connections {
        for number in 1..=16 {
            if number > 1 {
                node.say(connection, open(number));
            }
            if connection.is_blocked() {
                break;
            }
            // What is beyond the connection's own bound closes the channel at once.
            let there = if number < 8 {
                size - PROPERTIES - 1
            } else {
                100_000
            };
            node.say(connection, publish(number, size, there));
            assert!(node.bytes() <= ALL, "{}", node.bytes());
        }
    }
    let delivery = connections
        .iter()
        .filter(|connection| connection.is_blocked());
    assert!(delivery.count() >= 4, "most wait");
    drop(connections);
    assert_eq!(node.bytes(), 0);
}

#[test]
fn a_frame_that_came_in_pieces_and_found_no_room_is_read_when_there_is() {
    let mut node = Node::new();
    let (mut second, all) = (node.connect(), node.hold("all", ALL));
    let size = 10_000;
    let mut begun = publish(1, size, BEGINNING);
    let last = begun.split_off(begun.len() - 3);
    node.say(&mut second, begun);
    assert!(!second.is_blocked());
    node.say(&mut second, last);
    assert!(second.is_blocked());
    drop(all);
    node.pass(&mut second, UNFINISHED_CHECK_MS);
    assert!(!second.is_blocked() && (BEGINNING..=size).contains(&node.bytes()));
    let mut rest = Vec::new();
    body(&mut rest, 1, size - PROPERTIES - BEGINNING);
    let now = Now::both(node.now_ms);
    let pending_request = fuzz::drive(&mut second, now, Bytes::from(rest));
    assert!(
        matches!(&pending_request[..], [Request::Publish(_)]),
        "{pending_request:?}"
    );
}

#[test]
fn a_message_that_is_larger_than_may_be_is_refused_whatever_room_there_is() {
    let mut node = Node::new();
    node.settings.message_bytes_max = 100_000;
    let (mut first, mut second) = (node.connect(), node.connect());
    let _all = node.hold("all", ALL);
    node.say(&mut first, publish(1, 100_000 + PROPERTIES, BEGINNING));
    assert!(first.is_blocked(), "it may be, and there is no room");
    node.say(&mut second, publish(1, 100_001 + PROPERTIES, 0));
    assert!(!second.is_blocked());
    assert_eq!(channels(&second), 0, "it is refused");
}

#[test]
fn a_publish_is_counted_when_it_is_one_octet_larger_than_a_small_one() {
    let node = Node::new();
    for (size, counted) in [(4_096, 0), (4_097, 4_097)] {
        let mut client = node.connect();
        node.say(&mut client, publish(1, size, size - PROPERTIES - 1));
        assert_eq!(node.bytes(), counted);
    }
    assert_eq!(node.bytes(), 0, "they have gone");
}

#[test]
fn who_waits_for_room_is_heard_when_the_broker_closes_the_connection() {
    let node = Node::new();
    let (mut second, _all) = (node.connect(), node.hold("all", ALL));
    node.say(&mut second, publish(1, 10_000, BEGINNING));
    assert!(second.is_blocked());
    let forced = ProtocolError::connection(ReplyCode::ConnectionForced, "bye");
    second.close(forced);
    assert!(!second.is_blocked());
    let mut close_ok = Vec::new();
    encode::method(&mut close_ok, 0, &connection::CloseOk {});
    node.say(&mut second, close_ok);
    assert_eq!(second.state(), SessionState::Lingering);
}

/// A message that is put together as logs keep it.
#[test]
fn a_large_message_arrives_as_it_was_sent() {
    let node = Node::new();
    let mut client = node.connect();
    let size = CHUNK_BYTES + 1_000;
    let bytes = publish(1, size, size - PROPERTIES);
    let pending_request = fuzz::drive(&mut client, Now::both(node.now_ms), Bytes::from(bytes));
    let [Request::Publish(publish)] = &pending_request[..] else {
        panic!("{pending_request:?}");
    };
    let message = &publish.message;
    assert_eq!(message.exchange(), b"x");
    assert_eq!(message.routing_key(), b"k");
    assert_eq!(message.properties(), b"\0\0");
    assert_eq!(message.body(), vec![7; size - PROPERTIES]);
}
