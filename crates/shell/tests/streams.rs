//! Streams on a whole node: real sockets and files, and a client that says frame by frame what it
//! wants.

#[expect(dead_code, reason = "this one speaks no AMQP")]
mod client;
#[path = "client/stream.rs"]
mod stream_client;

use client::{Scratch, start};
use leveret_shell::node::Node;
use std::net::SocketAddr;
use stream_client::{OK, StreamClient, text};

fn address(node: &Node) -> SocketAddr {
    node.stream_listening[0].0
}

#[test]
fn what_was_confirmed_is_read_from_the_first_message_also_after_a_restart() {
    let scratch = Scratch::new("streams");
    let node = start(&scratch.0, None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.create("s"), OK);
    assert_eq!(client.create("s"), 5, "it exists already");
    assert_eq!(client.declare_publisher("s"), OK);
    assert_eq!(client.declare_publisher("t"), 0x11, "the id is taken");
    client.publish(1, &["one", "two", "three"]);
    assert_eq!(client.read("s", 3), ["one", "two", "three"]);
    drop(client);
    node.shut_down();

    let node = start(&scratch.0, None);
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.read("s", 3), ["one", "two", "three"]);
    // Who has a subscription hears that the stream has gone, behind the answer.
    assert_eq!(client.ask(0x0e, &[&text("s")]).0, OK);
    let (key, _) = client.heard();
    assert_eq!(key, 0x10, "an update of its metadata");
    drop(client);
    node.shut_down();
    let files = scratch
        .0
        .join("segment/stream")
        .read_dir()
        .expect("a folder");
    assert_eq!(files.count(), 0, "its files have gone with it");
}

#[test]
fn of_batches_with_filter_values_only_those_cross_the_socket_that_were_asked_for() {
    let scratch = Scratch::new("streams-filtered-batches");
    let node = start(&scratch.0, None);
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
    let node = start(&scratch.0, None);
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
fn a_wrong_password_and_what_is_not_there_are_refused() {
    let scratch = Scratch::new("streams-refused");
    let node = start(&scratch.0, None);
    assert_eq!(StreamClient::open(address(&node), "wrong").err(), Some(8));
    let mut client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(client.declare_publisher("none"), 2, "no such stream");
    assert_eq!(client.ask(0x0e, &[&text("none")]).0, 2);
    assert_eq!(client.ask(0x19, &[&text("none")]).0, 2, "no super stream");
    // A node that goes down says so.
    let ended = std::thread::spawn(move || node.shut_down());
    let (key, _) = client.heard();
    assert_eq!(key, 0x16, "a close");
    drop(client);
    ended.join().expect("ended");
}

#[test]
fn a_super_stream_leads_keys_to_its_partitions_in_their_order() {
    let scratch = Scratch::new("streams-super");
    let node = start(&scratch.0, None);
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
    let scratch = Scratch::new("streams-super-hash");
    let node = start(&scratch.0, None);
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
