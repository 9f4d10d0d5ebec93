//! What a large message takes of a node's memory on its whole way: its own size and little more.
//!
//! Alone in its program: all that is allocated in it counts.

#[expect(dead_code, reason = "this one starts its node in its own way")]
#[path = "it/client.rs"]
mod client;

use client::{Client, address, config, connect, scratch};
use leveret_amqp::{
    ContentHeader, FrameKind, Method, Properties, RawTable, basic, confirm, encode, queue,
};
use leveret_cluster::Env as _;
use leveret_session::Settings;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::Node;
use leveret_types::limits::{FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES};
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of what is given out, and of the most that was.
struct Counting;

fn grown(by: usize) {
    let live = LIVE.fetch_add(by, Ordering::Relaxed) + by;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// An allocator is an unsafe trait; this one only counts and hands on.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    // Large buffers grow by moving their pages, not by a copy.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) => grown(more),
            None => drop(LIVE.fetch_sub(layout.size() - size, Ordering::Relaxed)),
        }
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BODY_BYTES: usize = 64 * 1024 * 1024;
/// What a node has beside the message: caches, buffers of files that are prepared.
const CONSTANT_BYTES: usize = 12 * 1024 * 1024;

/// What `work` takes at most beside what there was before it.
fn taken<T>(work: impl FnOnce() -> T) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed) - before
}

fn is_little(what: &str, bytes: usize) {
    let most = BODY_BYTES + BODY_BYTES / 5 + CONSTANT_BYTES;
    assert!(bytes <= most, "{what}: {bytes} bytes, at most {most} are");
}

fn start(folder: &Path) -> Node {
    let mut config = config(folder, None);
    config.settings.session = Arc::new(Settings {
        mechanisms: "PLAIN".to_owned(),
        message_bytes_max: BODY_BYTES as u64,
        ..Settings::default()
    });
    Node::start(config, RealDisk::new()).expect("the node starts")
}

fn declare(client: &mut Client<TcpStream>) -> u32 {
    let declare = queue::Declare {
        queue: "large",
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    match Method::decode(&client.call(1, &declare).expect("an answer")) {
        Ok(Method::QueueDeclareOk(ok)) => ok.message_count,
        other => panic!("{other:?}"),
    }
}

/// Publishes a body of so many bytes, frame by frame, and waits for its confirm.
fn publish(client: &mut Client<TcpStream>, bytes: usize) {
    let properties = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let publish = basic::Publish {
        exchange: b"",
        routing_key: b"large",
        mandatory: false,
        immediate: false,
    };
    let mut frames = Vec::new();
    encode::method(&mut frames, 1, &publish);
    encode::frame(&mut frames, FrameKind::Header, 1, |out| {
        let header = ContentHeader {
            class: 60,
            body_size: bytes as u64,
            properties: &properties.to_bytes(),
        };
        header.encode(out);
    });
    client.send_bytes(&frames).expect("sent");
    let part = vec![7; (FRAME_BYTES_MAX - FRAME_OVERHEAD_BYTES) as usize];
    let mut rest = bytes;
    while rest > 0 {
        let part = &part[..rest.min(part.len())];
        rest -= part.len();
        frames.clear();
        encode::frame(&mut frames, FrameKind::Body, 1, |out| {
            out.extend_from_slice(part);
        });
        client.send_bytes(&frames).expect("sent");
    }
    let answer = client.answer().expect("an answer");
    assert!(matches!(Method::decode(&answer), Ok(Method::BasicAck(_))));
}

/// Gets the large message, without keeping what of it has come.
fn get(client: &mut Client<TcpStream>) {
    let get = basic::Get {
        queue: "large",
        no_ack: false,
    };
    let answer = client.call(1, &get).expect("an answer");
    assert!(matches!(Method::decode(&answer), Ok(Method::BasicGetOk(_))));
    declare(client);
}

fn segment_bytes(node: &Node) -> u64 {
    let shards = node.broker.shard_ids();
    shards
        .map(|shard| node.broker.shard(shard).logs.stats().segment_bytes)
        .sum()
}

#[test]
fn a_large_message_takes_its_size_and_little_more() {
    let scratch = scratch("large-message");
    let node = start(scratch.path());
    let socket = connect(address(&node, false));
    let mut client = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
    declare(&mut client);
    client
        .call(1, &confirm::Select { nowait: false })
        .expect("confirms");
    publish(&mut client, 1);
    is_little("published", taken(|| publish(&mut client, BODY_BYTES)));
    // The file of the log that has it is full: with what comes next it goes to a segment.
    let flushed = taken(|| {
        publish(&mut client, 1);
        while segment_bytes(&node) < BODY_BYTES as u64 {
            std::thread::yield_now();
        }
    });
    is_little("copied to a segment", flushed);
    // The small one is before it.
    get(&mut client);
    is_little("read and delivered", taken(|| get(&mut client)));
    client.close();
    node.shut_down();
}
