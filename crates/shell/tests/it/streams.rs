//! Streams on a whole node: real sockets and files, and a client that says frame by frame what it
//! wants.

use crate::client::{ANSWER, config, scratch, start};
use crate::stream_client::{OK, StreamClient, text};
use leveret_shell::disk::RealDisk;
use leveret_shell::node::Node;
use leveret_types::ReaderMemory;
use leveret_types::limits::STREAM_READ_BYTES;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the starts of a node are counted in, beside the files of its streams.
const STARTS: &str = "streams.start";

fn address(node: &Node) -> SocketAddr {
    node.stream_listening[0].0
}

#[test]
fn what_was_confirmed_is_read_from_the_first_message_also_after_a_restart() {
    let scratch = scratch("streams");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.create("s"), 5, "it exists already");
    assert_eq!(client.declare_publisher("s"), OK);
    assert_eq!(client.declare_publisher("t"), 0x11, "the id is taken");
    client.publish(1, &["one", "two", "three"]);
    assert_eq!(client.read("s", 3), ["one", "two", "three"]);
    drop(client);
    node.shut_down();

    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.read("s", 3), ["one", "two", "three"]);
    // Who has a subscription hears that the stream has gone, behind the answer.
    assert_eq!(client.ask(0x0e, &[&text("s")]).0, OK);
    let (key, _) = client.heard();
    assert_eq!(key, 0x10, "an update of its metadata");
    drop(client);
    node.shut_down();
    let left = names(&scratch.path().join("segment/stream"));
    assert_eq!(left, [STARTS], "its files have gone with it");
}

#[test]
fn of_batches_with_filter_values_only_those_cross_the_socket_that_were_asked_for() {
    let scratch = scratch("streams-filtered-batches");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.declare_publisher("s"), OK);
    let values = [Some("red"), Some("blue"), None, Some("green"), Some("blue")];
    let mut all = Vec::new();
    let mut offset = 0;
    for (number, value) in values.iter().cycle().take(50).enumerate() {
        let name = value.unwrap_or("none");
        let bodies: Vec<String> = (0..=number % 7)
            .map(|of| format!("{name} {number} {of}"))
            .collect();
        let count = bodies.len() as u64;
        all.push((*value, offset, bodies));
        offset += count;
    }
    // Several of a frame are of one chunk.
    for (frame, batches) in all.chunks(10).enumerate() {
        let batches: Vec<(Option<&str>, &[String])> = batches
            .iter()
            .map(|(value, _, bodies)| (*value, &bodies[..]))
            .collect();
        client.publish_batches(1 + 10 * frame as u64, &batches);
    }
    drop(client);
    node.shut_down();
    // What each was published with is on the disk.
    let node = start(scratch.path(), None);
    for wanted in [&["red"][..], &["green", "blue"]] {
        let matching = all.iter().filter(|(value, ..)| {
            let is_wanted = |value: &&str| wanted.contains(value);
            value.as_ref().is_some_and(is_wanted)
        });
        let matching = matching.map(|(_, offset, bodies)| (*offset, bodies.clone()));
        let matching: Vec<(u64, Vec<String>)> = matching.collect();
        let mut client = StreamClient::open(address(&node), "guest").expect("open");
        assert_eq!(client.read_batches("s", wanted, matching.len()), matching);
    }
    node.shut_down();
}

#[test]
fn clients_that_do_not_read_hold_bounded_memory_and_get_all_once_they_do() {
    const BODY_BYTES: usize = 100_000;
    let scratch = scratch("streams-unread");
    let memory = ReaderMemory::new(4 * STREAM_READ_BYTES);
    let mut config = config(scratch.path(), None);
    let sessions = &mut config.settings.stream;
    Arc::make_mut(&mut sessions.plain).memory = memory.clone();
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.declare_publisher("s"), OK);
    // Several times what the system keeps for a socket; in fewer chunks than there is credit for.
    let bodies: Vec<String> = (0..320)
        .map(|number| format!("{number} {}", "x".repeat(BODY_BYTES)))
        .collect();
    for (number, some) in bodies.chunks(8).enumerate() {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        client.publish(1 + 8 * number as u64, &some);
    }
    let mut idle: Vec<StreamClient> = (0..6)
        .map(|_| StreamClient::open(address(&node), "guest").expect("open"))
        .collect();
    for client in &mut idle {
        assert_eq!(client.subscribe("s"), OK);
    }
    // They are sent what the system takes for them, and what may be held waits for them.
    let deadline = Instant::now() + ANSWER;
    while !memory.is_crowded() {
        assert!(Instant::now() < deadline, "nothing is held");
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..3 {
        let mut reader = StreamClient::open(address(&node), "guest").expect("open");
        assert!(reader.read("s", bodies.len()) == bodies);
        assert!(memory.block_bytes() <= memory.bytes_max());
    }
    for client in &mut idle {
        let got = client.bodies(bodies.len()).expect("deliveries");
        assert!(
            got == bodies,
            "what was handed back comes again, whole and once"
        );
        assert!(memory.block_bytes() <= memory.bytes_max());
    }
    drop((client, idle));
    node.shut_down();
    assert_eq!((memory.block_bytes(), memory.in_hand_bytes()), (0, 0));
}

#[test]
fn a_wrong_password_and_what_is_not_there_are_refused() {
    let scratch = scratch("streams-refused");
    let node = start(scratch.path(), None);
    assert_eq!(StreamClient::open(address(&node), "wrong").err(), Some(8));
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.declare_publisher("none"), 2, "no such stream");
    assert_eq!(client.ask(0x0e, &[&text("none")]).0, 2);
    assert_eq!(client.ask(0x19, &[&text("none")]).0, 2, "no super stream");
    node.shut_down();
    // Without a close, so that clients connect again.
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).expect("the socket ends");
    assert_eq!(rest, []);
}

#[test]
fn a_super_stream_leads_keys_to_its_partitions_in_their_order() {
    let scratch = scratch("streams-super");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    let two = 2_u32.to_be_bytes();
    let names = [text("s-b"), text("s-a")].concat();
    let keys = [text("b"), text("a")].concat();
    let none = 0_u32.to_be_bytes();
    let create: [&[u8]; 6] = [&text("s"), &two, &names, &two, &keys, &none];
    assert_eq!(client.ask(0x1d, &create).0, OK);
    let partitions = client.ask(0x19, &[&text("s")]);
    assert_eq!(partitions, (OK, [&two[..], &names].concat()));
    let one = 1_u32.to_be_bytes();
    let route = client.ask(0x18, &[&text("a"), &text("s")]);
    assert_eq!(route, (OK, [&one[..], &text("s-a")].concat()));
    let route = client.ask(0x18, &[&text("hello1"), &text("s")]);
    assert_eq!(route, (OK, none.to_vec()), "no hash was asked for");
    assert_eq!(client.ask(0x1e, &[&text("s")]).0, OK);
    assert_eq!(client.declare_publisher("s-a"), 2, "gone with it");
    drop(client);
    node.shut_down();
}

#[test]
fn a_super_stream_is_asked_for_that_hashes_keys() {
    let scratch = scratch("streams-super-hash");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    let (one, two) = (1_u32.to_be_bytes(), 2_u32.to_be_bytes());
    let names = [text("s-b"), text("s-a")].concat();
    let keys = [text("b"), text("a")].concat();
    let mut create = |name: &str, routing: &str| {
        let argument = [text("super-stream-routing"), text(routing)].concat();
        let fields: [&[u8]; 7] = [&text(name), &two, &names, &two, &keys, &one, &argument];
        client.ask(0x1d, &fields).0
    };
    assert_eq!(create("s", "murmur"), 17, "there is no such routing");
    assert_eq!(create("s", "hash"), OK, "no partition was left");
    // Of two, the first: what stream clients hash "hello1" and "hello4" to is even.
    for key in ["hello1", "hello4"] {
        let route = client.ask(0x18, &[&text(key), &text("s")]);
        assert_eq!(route, (OK, [&one[..], &text("s-b")].concat()), "{key}");
    }
    let route = client.ask(0x18, &[&text("0"), &text("s")]);
    assert_eq!(route, (OK, [&one[..], &text("s-a")].concat()));
    let route = client.ask(0x18, &[&text("0"), &text("none")]);
    assert_eq!(route.0, 2, "no super stream");
    drop(client);
    node.shut_down();
}

/// Copies a node's folder as it is, as a crash would leave it.
fn as_after_a_crash(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => as_after_a_crash(&path, &copy),
            false => drop(std::fs::copy(&path, &copy)),
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten();
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    names
}

/// Deletes the files of a folder whose names end so.
fn delete(folder: &Path, endings: &[&str]) {
    for name in names(folder) {
        if endings.iter().any(|ending| name.ends_with(ending)) {
            std::fs::remove_file(folder.join(name)).expect("deleted");
        }
    }
}

#[test]
fn files_of_a_stream_that_the_catalogue_has_never_known_are_set_aside() {
    let scratch = scratch("streams-unknown");
    let node = start(&scratch.path().join("live"), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.declare_publisher("s"), OK);
    client.publish(1, &["one", "two", "three"]);
    let killed = scratch.path().join("killed");
    as_after_a_crash(&scratch.path().join("live"), &killed);
    drop(client);
    node.shut_down();
    let folder = killed.join("segment/stream");
    let all = names(&folder);
    let stored: Vec<_> = all.iter().filter(|name| *name != STARTS).collect();
    let [newest, segment] = &stored[..] else {
        panic!("{all:?}");
    };
    assert!(newest.ends_with(".newest") && segment.ends_with(".stream"));
    let bytes = std::fs::read(folder.join(segment)).expect("a file");
    // The log as a whole: it is missed, by name.
    delete(&killed.join("wal"), &[".wal"]);
    let error = Node::start(config(&killed, None), RealDisk::new());
    let error = error.err().expect("it does not start").to_string();
    assert!(error.contains("0000000000000001.wal is missing"), "{error}");
    assert_eq!(names(&folder), all);
    // Also what tells that it is missing.
    delete(&killed.join("wal"), &[".newest"]);

    let node = start(&killed, None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK, "the node knows of none");
    assert_eq!(client.declare_publisher("s"), OK);
    client.publish(1, &["four"]);
    assert_eq!(client.read("s", 1), ["four"]);
    drop(client);
    node.shut_down();
    let aside = folder.join("set-aside");
    assert!(names(&aside).iter().eq(stored.iter().copied()));
    let kept = std::fs::read(aside.join(segment)).expect("a file");
    assert!(kept == bytes, "what was published is all there");
}

#[test]
fn files_that_a_crash_has_left_of_a_deleted_stream_are_deleted() {
    let scratch = scratch("streams-left");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.declare_publisher("s"), OK);
    client.publish(1, &["one", "two", "three"]);
    let folder = scratch.path().join("segment/stream");
    let before = scratch.path().join("before");
    as_after_a_crash(&folder, &before);
    assert_eq!(client.ask(0x0e, &[&text("s")]).0, OK);
    drop(client);
    node.shut_down();
    as_after_a_crash(&before, &folder);
    assert_eq!(names(&folder), names(&before));
    start(scratch.path(), None).shut_down();
    assert_eq!(names(&folder), [STARTS]);
}

#[test]
fn a_node_whose_data_folder_is_not_mounted_does_not_start_and_changes_nothing() {
    let scratch = scratch("streams-unmounted");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.declare_publisher("s"), OK);
    client.publish(1, &["one", "two", "three"]);
    drop(client);
    node.shut_down();
    let (data, away) = (scratch.path().join("data"), scratch.path().join("away"));
    std::fs::rename(&data, &away).expect("renamed");
    let error = Node::start(config(scratch.path(), None), RealDisk::new());
    let error = error.err().expect("it does not start").to_string();
    assert!(error.contains("mounted"), "{error}");
    std::fs::remove_dir_all(&data).expect("it was made as an empty one");
    std::fs::rename(&away, &data).expect("renamed");
    let node = start(scratch.path(), None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.read("s", 3), ["one", "two", "three"]);
    drop(client);
    node.shut_down();
}
