//! What fuzzing drives: functions that take any bytes and panic if a session breaks a promise; and
//! the pieces that they share with the tests: a node that agrees to everything.

use crate::{Connection, Settings, State};
use bytes::Bytes;
use leveret_amqp::client::Opening;
use leveret_amqp::encode;
use leveret_amqp::frame::{FrameKind, next_frame};
use leveret_amqp::fuzz::Random;
use leveret_amqp::{
    ContentHeader, EncodeMethod, Method, PROTOCOL_HEADER, Properties, RawTable, Sender, basic,
    channel, confirm, connection, queue, tx,
};
use leveret_client::contract::{
    Awaited, Consume, Delivery, LoginOutcome, Reply, Request, Settle, Topology,
};
use leveret_types::message::MessageSummary;
use leveret_types::{
    ChannelId, ConsumerId, Message, MessageParts, Now, ProtocolError, QueueId, ReplyCode, ShardId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node that agrees to everything: the answer to a request that asks for one.
#[must_use]
pub fn oblige(request: &Request) -> Option<Reply> {
    Some(match request {
        Request::Login { .. } => Reply::Login(LoginOutcome::Accepted {
            user: "guest".to_owned(),
        }),
        Request::OpenVhost { .. }
        | Request::UpdateSecret { .. }
        | Request::OpenChannel { .. }
        | Request::Cancel { .. }
        | Request::Turn
        | Request::Commit { .. } => Reply::Done,
        Request::Topology { operation, .. } => oblige_topology(operation),
        Request::Consume(Consume { channel, tag, .. }) => Reply::Consuming {
            consumer: consumer_of(*channel, tag),
        },
        Request::Get { .. } => Reply::Got(None),
        Request::ChannelClosed { .. }
        | Request::ChannelPrefetch { .. }
        | Request::Credit { .. }
        | Request::Publish(_)
        | Request::Check(_)
        | Request::Settle(_) => return None,
    })
}

fn oblige_topology(operation: &Topology) -> Reply {
    match operation {
        Topology::QueueDeclare { name, .. } => Reply::Queue {
            name: if name.is_empty() {
                "amq.gen-1".to_owned()
            } else {
                name.clone()
            },
            messages: 3,
            consumers: 2,
        },
        Topology::QueuePurge { .. } | Topology::QueueDelete { .. } => Reply::Count(5),
        _ => Reply::Done,
    }
}

/// The id that [`oblige`] gives a consumer: the same for the same tag, different for the few that a
/// test has.
#[must_use]
pub fn consumer_of(channel: ChannelId, tag: &str) -> ConsumerId {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let tag = tag.bytes().fold(0xCBF2_9CE4_8422_2325, hash);
    ConsumerId(tag << 16 | u64::from(channel.0))
}

/// A delivery of a small message from position `index` of a queue.
#[must_use]
pub fn delivery(consumer: ConsumerId, index: u64) -> Delivery {
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"k",
        properties: b"\0\0",
        body: b"body",
    };
    Delivery {
        consumer,
        queue: QueueId(9),
        priority_log: 0,
        index,
        redelivered: false,
        delivery_count: None,
        acquired_count: None,
        message: Message::from_parts(parts, MessageSummary::default()),
    }
}

/// A connection that has logged in over an obliging node, with nothing to be written, and channel 1
/// open.
#[must_use]
pub fn open_connection(settings: Settings) -> Connection {
    let now = Now::both(1_000);
    let mut connection = Connection::new(Arc::new(settings), now);
    let mut stream = PROTOCOL_HEADER.to_vec();
    stream.extend(handshake());
    encode::method(&mut stream, 1, &channel::Open {});
    let answered = drive(&mut connection, now, Bytes::from(stream));
    assert_eq!(connection.state(), State::Open, "{answered:?}");
    let written = connection.output().len();
    connection.output().advance(written);
    connection
}

/// What a client sends behind the protocol header until its virtual host is open.
#[must_use]
pub fn handshake() -> Vec<u8> {
    let mut out = Vec::new();
    let opening = Opening {
        frame_max: 4096,
        ..Opening::default()
    };
    opening.handshake(&mut out);
    out
}

/// Gives a connection bytes, and over an obliging node all answers that it asks for; what it sent
/// off is returned.
pub fn drive(connection: &mut Connection, now: Now, bytes: Bytes) -> Vec<Request> {
    let (mut requests, mut done) = (Vec::new(), Vec::new());
    connection.receive(now, bytes, &mut requests);
    while connection.suspended() {
        done.append(&mut requests);
        let reply = done.last().and_then(oblige).expect("the last request asks");
        connection.reply(now, reply, &mut requests);
    }
    done.append(&mut requests);
    done
}

/// Any bytes at all behind a handshake, or as one: the session answers with frames that a broker
/// may send, in an order that makes sense, the same however the bytes are split, and remembers no
/// more than has arrived.
///
/// The first octet chooses whether the rest comes behind a handshake and whether it is taken for
/// frames or for the script of [`frames`]; the second seeds the splits.
///
/// # Panics
/// If not.
pub fn session(input: &[u8]) {
    let [mode, seed, rest @ ..] = input else {
        return;
    };
    let mut stream = Vec::new();
    if mode & 1 == 1 {
        stream.extend(PROTOCOL_HEADER);
        stream.extend(handshake());
        encode::method(&mut stream, 1, &channel::Open {});
    }
    if mode & 2 == 2 {
        stream.extend(frames(rest));
    } else {
        stream.extend(rest);
    }
    let whole = transcript(&stream, None);
    let split = transcript(&stream, Some(Random::new(u64::from(*seed) + 1)));
    assert_eq!(
        whole, split,
        "the answer depends on how the bytes were split"
    );
}

/// What a session says to a stream, what it asks of the node, and whether it is over; each checked
/// as far as it can be.
fn transcript(stream: &[u8], mut splits: Option<Random>) -> (Vec<u8>, Vec<String>, State) {
    let now = Now::both(1_000);
    let mut connection = Connection::new(Arc::new(Settings::default()), now);
    let mut descriptions = Vec::new();
    let mut rest = Bytes::copy_from_slice(stream);
    while !rest.is_empty() && connection.state() != State::Closed {
        let most = rest.len() as u64;
        let count = splits
            .as_mut()
            .map_or(most, |random| 1 + random.below(most.min(300)));
        let requests = drive(&mut connection, now, rest.split_to(count as usize));
        descriptions.extend(requests.iter().filter_map(in_words));
    }
    let written = connection.output().to_vec();
    check_answers(&written);
    let state = connection.state();
    check_end(connection, stream);
    (written, descriptions, state)
}

/// A request in words that do not depend on how the input was split. Settles do: they merge within
/// a read; and what comes with one read waits its turn.
fn in_words(request: &Request) -> Option<String> {
    match request {
        Request::Settle(_) | Request::Turn => None,
        Request::Publish(publish) => {
            let (number, parts) = (publish.number, publish.message.parts());
            Some(format!("publish {} {number} {parts:?}", publish.channel))
        }
        request => Some(format!("{request:?}")),
    }
}

/// After its end a connection says nothing more, whatever it hears.
fn check_end(mut connection: Connection, stream: &[u8]) {
    let mut requests = Vec::new();
    connection.teardown(&mut requests);
    let before = connection.output().len();
    connection.receive(
        Now::both(1_000),
        Bytes::copy_from_slice(stream),
        &mut requests,
    );
    connection.tick(Now::both(u64::MAX / 2), &mut requests);
    for number in 0..9 {
        connection.accepted(ChannelId(1), number, &[]);
    }
    connection.flush();
    assert!(connection.output().len() <= before);
    assert_eq!(
        (connection.state(), connection.deadline()),
        (State::Closed, None)
    );
    assert!(
        requests
            .iter()
            .all(|r| matches!(r, Request::ChannelClosed { .. }))
    );
}

/// Every frame is one that a broker may send, and no channel is spoken on that is not open.
fn check_answers(written: &[u8]) {
    let mut rest = written;
    if let Some(behind) = rest.strip_prefix(&PROTOCOL_HEADER) {
        assert!(
            behind.is_empty(),
            "a stranger is told the protocol and nothing else"
        );
        return;
    }
    let (mut open, mut awaited, mut first) = (BTreeMap::new(), 0_u64, true);
    while !rest.is_empty() {
        let frame = next_frame(rest, 1 << 20)
            .expect("frames can be read")
            .expect("frames are whole");
        rest = &rest[frame.wire_len()..];
        match frame.kind {
            FrameKind::Method => {
                assert_eq!(awaited, 0, "a method before the content was whole");
                let method = Method::decode(frame.payload).expect("methods can be read");
                assert_ne!(method.sender(), Sender::Client, "{}", method.name());
                assert_eq!(first, matches!(method, Method::ConnectionStart(_)));
                first = false;
                match method {
                    Method::ChannelOpenOk(_) => drop(open.insert(frame.channel, ())),
                    Method::ChannelClose(_) => assert!(open.contains_key(&frame.channel)),
                    Method::ChannelCloseOk(_) => drop(open.remove(&frame.channel)),
                    _ => assert!(frame.channel == 0 || open.contains_key(&frame.channel)),
                }
            }
            FrameKind::Header => {
                let header = ContentHeader::decode(frame.payload).expect("headers can be read");
                Properties::decode(header.properties).expect("properties can be read");
                awaited = header.body_size;
            }
            FrameKind::Body => awaited -= frame.payload.len() as u64,
            FrameKind::Heartbeat => assert_eq!(frame.channel, 0),
        }
    }
}

/// Frames that a client may send, or almost: each two octets of `script` are a kind and an
/// argument.
#[must_use]
pub fn frames(script: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for pair in script.chunks_exact(2) {
        frame(&mut out, pair[0], pair[1]);
    }
    out
}

fn frame(out: &mut Vec<u8>, kind: u8, argument: u8) {
    let number = 1 + u16::from(argument >> 6);
    match kind % 24 {
        kind @ 0..7 => channel_frame(out, number, kind, argument),
        kind @ 7..11 => settle_frame(out, number, kind, argument),
        kind @ 11..16 => asking_frame(out, number, kind, argument),
        16 => header(out, number, u64::from(argument & 15)),
        17 => encode::frame(out, FrameKind::Body, number, |out| {
            out.resize(out.len() + usize::from(argument & 15), 0);
        }),
        18 => out.extend(encode::HEARTBEAT),
        19 => encode::method(out, 0, &connection::CloseOk {}),
        // Whole publishes are most of what there is.
        _ => {
            let publish = basic::Publish {
                exchange: name(argument).as_bytes(),
                routing_key: b"k",
                mandatory: argument & 8 == 8,
                immediate: argument == 255,
            };
            encode::method(out, number, &publish);
            let size = usize::from(argument & 31);
            header(out, number, size as u64);
            for part in vec![7; size].chunks(20) {
                encode::frame(out, FrameKind::Body, number, |out| {
                    out.extend_from_slice(part);
                });
            }
        }
    }
}

const fn name(argument: u8) -> &'static str {
    ["", "a", "b", "amq.rabbitmq.reply-to"][(argument & 3) as usize]
}

fn channel_frame(out: &mut Vec<u8>, number: u16, kind: u8, argument: u8) {
    let nowait = argument & 8 == 8;
    match kind {
        0 => encode::method(out, number, &channel::Open {}),
        1 => encode::method(out, number, &channel::CloseOk {}),
        2 => {
            let close = channel::Close {
                reply_code: 200,
                reply_text: "bye",
                class_id: 0,
                method_id: 0,
            };
            encode::method(out, number, &close);
        }
        3 => encode::method(out, number, &confirm::Select { nowait }),
        4 => encode::method(out, number, &tx::Select {}),
        5 => encode::method(out, number, &tx::Commit {}),
        _ => encode::method(out, number, &tx::Rollback {}),
    }
}

fn settle_frame(out: &mut Vec<u8>, number: u16, kind: u8, argument: u8) {
    let delivery_tag = u64::from(argument & 7);
    let (multiple, requeue) = (argument & 8 == 8, argument & 16 == 16);
    match kind {
        7 => {
            let ack = basic::Ack {
                delivery_tag,
                multiple,
            };
            encode::method(out, number, &ack);
        }
        8 => {
            let nack = basic::Nack {
                delivery_tag,
                multiple,
                requeue,
            };
            encode::method(out, number, &nack);
        }
        9 => encode::method(out, number, &basic::Recover { requeue }),
        _ => {
            let qos = basic::Qos {
                prefetch_size: u32::from(requeue),
                prefetch_count: u16::from(argument),
                global: multiple,
            };
            encode::method(out, number, &qos);
        }
    }
}

/// The methods that the node answers.
fn asking_frame(out: &mut Vec<u8>, number: u16, kind: u8, argument: u8) {
    let queue = name(argument);
    let (no_ack, flag) = (argument & 8 == 8, argument & 16 == 16);
    let nowait = argument & 32 == 32;
    let arguments = RawTable::EMPTY;
    match kind {
        11 => {
            let consume = basic::Consume {
                queue,
                consumer_tag: queue,
                no_local: false,
                no_ack,
                exclusive: flag,
                nowait,
                arguments,
            };
            encode::method(out, number, &consume);
        }
        12 => {
            let consumer_tag = queue;
            let cancel = basic::Cancel {
                consumer_tag,
                nowait,
            };
            encode::method(out, number, &cancel);
        }
        13 => encode::method(out, number, &basic::Get { queue, no_ack }),
        14 => {
            let declare = queue::Declare {
                queue,
                passive: no_ack,
                durable: flag,
                exclusive: false,
                auto_delete: false,
                nowait,
                arguments,
            };
            encode::method(out, number, &declare);
        }
        _ => encode::method(out, number, &queue::Purge { queue, nowait }),
    }
}

fn header(out: &mut Vec<u8>, number: u16, body_size: u64) {
    let properties = &[0, 0];
    let class = basic::CLASS;
    encode::frame(out, FrameKind::Header, number, |out| {
        ContentHeader {
            class,
            body_size,
            properties,
        }
        .encode(out);
    });
}

/// Deliveries, settles, transactions and confirms of one channel, against a model that is a plain
/// map.
///
/// # Panics
/// If session and model do not agree.
pub fn channel_model(input: &[u8]) {
    let Some((&mode, script)) = input.split_first() else {
        return;
    };
    let mut model = Model::new(mode % 3);
    for pair in script.chunks_exact(2) {
        if !model.step(pair[0], pair[1]) {
            return;
        }
    }
    model.finish();
}

/// What a channel must do, said as plainly as possible.
struct Model {
    connection: Connection,
    transactional: bool,
    confirming: bool,
    /// Position in the queue by delivery tag, of what the client holds.
    deliveries: BTreeMap<u64, u64>,
    last_tag: u64,
    /// What the transaction has settled, to be undone, and how many publishes it holds.
    settled: Vec<(u64, u64)>,
    published: usize,
    /// Publishes without an answer, and those of them that the node accepted, with what they wait
    /// for.
    unanswered: BTreeMap<u64, Option<u64>>,
    issued: u64,
    durable: u64,
}

const CONSUMER: &str = "c";

impl Model {
    fn new(mode: u8) -> Self {
        let mut model = Self {
            connection: open_connection(Settings::default()),
            transactional: mode == 1,
            confirming: mode == 2,
            deliveries: BTreeMap::new(),
            last_tag: 0,
            settled: Vec::new(),
            published: 0,
            unanswered: BTreeMap::new(),
            issued: 0,
            durable: 0,
        };
        match mode {
            1 => drop(model.say(&tx::Select {})),
            2 => drop(model.say(&confirm::Select { nowait: true })),
            _ => {}
        }
        model.say(&basic::Consume {
            queue: "q",
            consumer_tag: CONSUMER,
            no_local: false,
            no_ack: false,
            exclusive: false,
            nowait: true,
            arguments: RawTable::EMPTY,
        });
        model
    }

    fn say(&mut self, method: &impl EncodeMethod) -> Vec<Request> {
        let mut out = Vec::new();
        encode::method(&mut out, 1, method);
        drive(&mut self.connection, Now::both(1_000), Bytes::from(out))
    }

    /// One operation; false if it was an error and closed the channel.
    fn step(&mut self, kind: u8, argument: u8) -> bool {
        let tag = self.last_tag.saturating_sub(u64::from(argument & 15));
        let multiple = argument & 16 == 16;
        match kind % 10 {
            0..3 => self.deliver(u64::from(argument & 1)),
            3..5 => return self.settle(tag, multiple),
            5 => {
                self.recover();
            }
            6 if self.transactional => self.end_transaction(argument & 1 == 1),
            6 | 7 => self.publish(),
            8 => self.decide(argument),
            _ => self.answer(),
        }
        true
    }

    fn deliver(&mut self, gap: u64) {
        self.last_tag += 1;
        // Positions mostly follow each other, so that settles merge.
        let index = self.last_tag * 2 - gap;
        let consumer = consumer_of(ChannelId(1), CONSUMER);
        assert!(self.connection.deliver(&delivery(consumer, index)));
        self.deliveries.insert(self.last_tag, index);
    }

    fn settle(&mut self, tag: u64, multiple: bool) -> bool {
        let requests = self.say(&basic::Ack {
            delivery_tag: tag,
            multiple,
        });
        let through = if tag == 0 { u64::MAX } else { tag };
        let known = self.deliveries.contains_key(&tag) || (tag == 0 && multiple);
        let taken: Vec<(u64, u64)> = match (known, multiple) {
            (false, _) => Vec::new(),
            (true, true) => self
                .deliveries
                .range(..=through)
                .map(|(t, i)| (*t, *i))
                .collect(),
            (true, false) => vec![(tag, self.deliveries[&tag])],
        };
        self.deliveries
            .retain(|t, _| !taken.iter().any(|(gone, _)| gone == t));
        if !known {
            assert!(
                matches!(requests[..], [Request::ChannelClosed { .. }]),
                "{requests:?}"
            );
            return false;
        }
        let expected = if self.transactional {
            Vec::new()
        } else {
            positions(&taken)
        };
        assert_eq!(settled_positions(&requests), expected);
        if self.transactional {
            self.settled.extend(taken);
        }
        true
    }

    fn recover(&mut self) {
        let requests = self.say(&basic::RecoverAsync { requeue: true });
        let all: Vec<_> = std::mem::take(&mut self.deliveries).into_iter().collect();
        assert_eq!(settled_positions(&requests), positions(&all));
    }

    fn end_transaction(&mut self, commit: bool) {
        let settled = std::mem::take(&mut self.settled);
        let published = std::mem::take(&mut self.published);
        if !commit {
            let requests = self.say(&tx::Rollback {});
            assert!(requests.is_empty(), "{requests:?}");
            self.deliveries.extend(settled);
            return;
        }
        let requests = self.say(&tx::Commit {});
        let publishes = requests.iter().filter(|r| matches!(r, Request::Publish(_)));
        assert_eq!(publishes.count(), published);
        assert_eq!(settled_positions(&requests), positions(&settled));
        assert!(matches!(requests.last(), Some(Request::Commit { .. })));
    }

    fn publish(&mut self) {
        let mut out = Vec::new();
        frame(&mut out, 20, 3);
        let requests = drive(&mut self.connection, Now::both(1_000), Bytes::from(out));
        if self.transactional {
            assert!(matches!(requests[..], [Request::Check(_)]));
            self.published += 1;
            return;
        }
        let [Request::Publish(publish)] = &requests[..] else {
            panic!("{requests:?}");
        };
        self.issued += u64::from(self.confirming);
        assert_eq!(publish.number, self.issued);
        if self.confirming {
            self.unanswered.insert(self.issued, None);
        }
    }

    /// The node accepts the oldest publish that it has not, or its log becomes durable.
    fn decide(&mut self, argument: u8) {
        let undecided = self
            .unanswered
            .iter_mut()
            .find(|(_, waits)| waits.is_none());
        match undecided {
            Some((number, waits)) if argument & 1 == 0 => {
                let through = self.durable + 1 + u64::from(argument >> 6);
                *waits = Some(through);
                self.connection.accepted(
                    ChannelId(1),
                    *number,
                    &[(Awaited::Shard(ShardId(0)), through)],
                );
            }
            _ => {
                self.durable += u64::from(argument & 3);
                self.connection.durable(ShardId(0), self.durable);
            }
        }
    }

    fn answer(&mut self) {
        let durable = self.durable;
        let due = |waits: &Option<u64>| waits.is_some_and(|through| through <= durable);
        let expected: Vec<u64> = self
            .unanswered
            .iter()
            .filter(|(_, w)| due(w))
            .map(|(n, _)| *n)
            .collect();
        assert_eq!(self.confirms(), expected);
        self.unanswered.retain(|_, waits| !due(waits));
    }

    /// Reads what is to be written, and what confirms in it mean.
    fn confirms(&mut self) -> Vec<u64> {
        self.connection.flush();
        let written = self.connection.output().to_vec();
        self.connection.output().advance(written.len());
        let (mut rest, mut confirmed) = (&written[..], Vec::new());
        let mut open: Vec<u64> = self.unanswered.keys().copied().collect();
        while let Ok(Some(frame)) = next_frame(rest, 1 << 20) {
            rest = &rest[frame.wire_len()..];
            let method = (frame.kind == FrameKind::Method).then(|| Method::decode(frame.payload));
            if let Some(Ok(Method::BasicAck(ack))) = method {
                let hit = |n: &u64| *n == ack.delivery_tag || ack.multiple && *n < ack.delivery_tag;
                confirmed.extend(open.iter().copied().filter(hit));
                open.retain(|n| !hit(n));
            }
        }
        assert!(rest.is_empty());
        confirmed.sort_unstable();
        confirmed
    }

    fn finish(mut self) {
        let summary = self
            .connection
            .channels()
            .next()
            .expect("the channel is open");
        assert_eq!(summary.unacknowledged, self.deliveries.len());
        assert_eq!(summary.uncommitted, self.published);
        assert_eq!(summary.uncommitted_acks, self.settled.len());
        assert_eq!(summary.unconfirmed, self.unanswered.len());
        let error = ProtocolError::connection(ReplyCode::ConnectionForced, "end");
        self.connection.close(error);
        let mut requests = Vec::new();
        self.connection.teardown(&mut requests);
        assert!(matches!(requests[..], [Request::ChannelClosed { .. }]));
    }
}

/// The positions of settled deliveries, in the order of the queue.
fn positions(taken: &[(u64, u64)]) -> Vec<u64> {
    let mut positions: Vec<u64> = taken.iter().map(|(_, index)| *index).collect();
    positions.sort_unstable();
    positions
}

fn settled_positions(requests: &[Request]) -> Vec<u64> {
    let settles = requests.iter().filter_map(|request| match request {
        Request::Settle(Settle { range, .. }) => Some(range.clone()),
        _ => None,
    });
    let mut positions: Vec<u64> = settles.flatten().collect();
    positions.sort_unstable();
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_hold_over_seeded_input() {
        for seed in 1..6_000 {
            let mut random = Random::new(seed);
            let mut input = random.bytes(120);
            input.resize(input.len().max(4), 3);
            session(&input);
            channel_model(&input);
            // Frames that are right but for one octet.
            let mut stream = vec![1, input[1]];
            stream.extend(frames(&input[2..]));
            let at = 2 + random.below(stream.len() as u64 - 2) as usize;
            stream[at] ^= 1 << random.below(8);
            session(&stream);
        }
    }
}
