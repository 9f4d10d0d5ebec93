//! What sessions cost: the paths that every message takes allocate nothing for it, an idle
//! connection is small, and a stranger has no more memory than it may.

use bytes::Bytes;
use leveret_amqp::encode;
use leveret_amqp::frame::FrameKind;
use leveret_amqp::{ContentHeader, PROTOCOL_HEADER, RawTable, basic, confirm, connection};
use leveret_session::contract::{Awaited, Delivery, Request};
use leveret_session::{Connection, Settings, fuzz};
use leveret_types::{ChannelId, Now, ShardId};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counts for each thread.
struct Counting;

fn grown(by: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    LIVE_BYTES.set(LIVE_BYTES.get().wrapping_add(by));
}

fn shrunk(by: usize) {
    LIVE_BYTES.set(LIVE_BYTES.get().wrapping_sub(by));
}

// An allocator is an unsafe trait; this one only counts and hands on.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrunk(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        shrunk(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCH: u64 = 1_000;
const NOW: Now = Now::both(1_000);

/// A connection that confirms and consumes, and what its batches need, all of it used once.
struct Bench {
    connection: Connection,
    requests: Vec<Request>,
    publishes: Bytes,
    deliveries: Vec<Delivery>,
    last_tag: u64,
    confirmed: u64,
}

impl Bench {
    fn new() -> Self {
        Self::over(fuzz::open_connection(Settings::default()))
    }

    fn over(mut connection: Connection) -> Self {
        let mut setup = Vec::new();
        encode::method(&mut setup, 1, &confirm::Select { nowait: true });
        let consume = basic::Consume {
            queue: "q",
            consumer_tag: "c",
            no_local: false,
            no_ack: false,
            exclusive: false,
            nowait: true,
            arguments: RawTable::EMPTY,
        };
        encode::method(&mut setup, 1, &consume);
        fuzz::drive(&mut connection, NOW, Bytes::from(setup));
        let consumer = fuzz::consumer_of(ChannelId(1), "c");
        let deliveries = (0..BATCH)
            .map(|index| fuzz::delivery(consumer, index))
            .collect();
        Self {
            connection,
            requests: Vec::new(),
            publishes: Bytes::from(publishes()),
            deliveries,
            last_tag: 0,
            confirmed: 0,
        }
    }

    /// A batch of publishes, written to one log and confirmed.
    fn publish(&mut self) {
        self.connection
            .receive(NOW, self.publishes.clone(), &mut self.requests);
        assert_eq!(self.requests.len() as u64, BATCH);
        for request in self.requests.drain(..) {
            let Request::Publish(publish) = request else {
                panic!("{request:?}");
            };
            self.confirmed = publish.number;
            self.connection.accepted(
                publish.channel,
                publish.number,
                &[(Awaited::Shard(ShardId(0)), self.confirmed / 100)],
            );
        }
        self.connection.durable(ShardId(0), self.confirmed / 100);
        self.written();
    }

    /// A batch of deliveries, settled one by one out of order, or all at once.
    fn deliver(&mut self, acks: &Bytes) {
        for delivery in &self.deliveries {
            assert!(self.connection.deliver(delivery));
        }
        self.last_tag += BATCH;
        self.written();
        self.connection
            .receive(NOW, acks.clone(), &mut self.requests);
        let settled = self.requests.drain(..).map(|request| match request {
            Request::Settle(settle) => settle.range.end - settle.range.start,
            other => panic!("{other:?}"),
        });
        assert_eq!(settled.sum::<u64>(), BATCH);
        self.measured();
    }

    fn written(&mut self) {
        self.connection.flush();
        let written = self.connection.output().len();
        assert!(written > 0);
        self.connection.output().advance(written);
        self.measured();
    }

    /// The node takes in what was measured.
    fn measured(&mut self) {
        let latencies = self.connection.latencies();
        latencies.confirms.drain(|_| {});
        latencies.acknowledgements.drain(|_| {});
    }

    /// Acknowledgements of the batch of deliveries that comes next.
    fn acks(&self, one_by_one: bool) -> Bytes {
        let mut out = Vec::new();
        let tags = self.last_tag + 1..=self.last_tag + BATCH;
        if one_by_one {
            // Pairs in the wrong order, so that there are holes.
            for tag in tags.step_by(2) {
                encode::method(
                    &mut out,
                    1,
                    &basic::Ack {
                        delivery_tag: tag + 1,
                        multiple: false,
                    },
                );
                encode::method(
                    &mut out,
                    1,
                    &basic::Ack {
                        delivery_tag: tag,
                        multiple: false,
                    },
                );
            }
        } else {
            let delivery_tag = *tags.end();
            encode::method(
                &mut out,
                1,
                &basic::Ack {
                    delivery_tag,
                    multiple: true,
                },
            );
        }
        Bytes::from(out)
    }
}

fn publishes() -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..BATCH {
        let publish = basic::Publish {
            exchange: b"",
            routing_key: b"queue",
            mandatory: false,
            immediate: false,
        };
        encode::method(&mut out, 1, &publish);
        let (class, body_size) = (basic::CLASS, 16);
        let properties = b"\x10\x00\x02";
        encode::frame(&mut out, FrameKind::Header, 1, |out| {
            ContentHeader {
                class,
                body_size,
                properties,
            }
            .encode(out);
        });
        encode::frame(&mut out, FrameKind::Body, 1, |out| {
            out.extend_from_slice(&[7; 16])
        });
    }
    out
}

fn count(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(count(|| drop(std::hint::black_box(vec![1_u8; 100]))), 1);
}

#[test]
fn publishing_and_confirming_allocate_nothing() {
    let mut bench = Bench::new();
    // Twice, for the buffers to reach their size.
    bench.publish();
    bench.publish();
    assert_eq!(count(|| bench.publish()), 0);
}

#[test]
fn delivering_and_settling_allocate_nothing() {
    for one_by_one in [false, true] {
        let mut bench = Bench::new();
        for _ in 0..2 {
            let acks = bench.acks(one_by_one);
            bench.deliver(&acks);
        }
        let acks = bench.acks(one_by_one);
        assert_eq!(count(|| bench.deliver(&acks)), 0);
    }
}

/// Bytes that `make` has allocated and what it returns still holds.
fn delivery<T>(make: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE_BYTES.get();
    let made = make();
    (LIVE_BYTES.get().wrapping_sub(before), made)
}

#[test]
fn an_idle_connection_is_small() {
    let settings = Settings::default();
    let (bytes, _) = delivery(|| {
        let mut connection = Box::new(fuzz::open_connection(settings));
        let mut burst = Bench::over(*connection);
        burst.publish();
        let acks = burst.acks(true);
        burst.deliver(&acks);
        connection = Box::new(burst.connection);
        connection.shrink();
        connection
    });
    assert!(bytes <= 4_096, "{bytes} octets");
}

#[test]
fn a_stranger_has_no_more_than_64_kib() {
    let server = Arc::new(Settings::default());
    // As many entries as fit into a frame: decoded, they would be thirty times as large.
    let mut properties = [0, b'V'].repeat(3_900);
    properties.extend(b"\x0Fconnection_nameS\0\0\0\x02me");
    let start_ok = connection::StartOk {
        client_properties: RawTable::validate(&properties).unwrap(),
        mechanism: "PLAIN",
        response: &[0; 256],
        locale: "",
    };
    let mut stream = PROTOCOL_HEADER.to_vec();
    encode::method(&mut stream, 0, &start_ok);
    // And the beginning of a frame that never ends.
    stream.extend([1, 0, 0, 0, 0, 0x20, 0]);
    stream.resize(stream.len() + 8_000, 0);
    let (bytes, (session, requests)) = delivery(|| {
        let mut session = Box::new(Connection::new(server, NOW));
        let mut requests = Vec::new();
        for octet in &stream {
            session.receive(NOW, Bytes::copy_from_slice(&[*octet]), &mut requests);
            if session.suspended() {
                let answer = fuzz::oblige(requests.last().unwrap()).unwrap();
                session.reply(NOW, answer, &mut requests);
            }
        }
        (session, requests)
    });
    assert!(matches!(requests[..], [Request::Login { .. }]));
    assert_eq!(session.client_properties().len(), 3_901);
    assert_eq!(session.client_name(), Some("me"));
    assert!(bytes <= 65_536, "{bytes} octets");
}
