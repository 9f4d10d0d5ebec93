//! What a node holds while what it is asked for has very many arguments, counted by the allocator:
//! one test, for the count is of the whole process.

#[allow(dead_code)] // Other tests use the rest.
mod api;
#[allow(dead_code)] // Other tests use the rest.
mod client;
#[allow(dead_code)] // Other tests use the rest.
mod counting;
#[allow(dead_code)] // Other tests use the rest.
mod fake;

use client::basic;
use counting::{LIVE_BYTES, MOST_BYTES};
use leveret_management::{Running as _, Service};
use leveret_types::{FieldTable, FieldValue};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;

/// Queues and bindings with large arguments.
const OBJECTS: usize = 150;
/// Arguments of each.
const ARGUMENTS: usize = 4_000;
/// Bytes of the text of each argument, at least.
const ARGUMENT_BYTES: usize = "\"k0\":true,".len();
/// What may be held for one answer: a row as a value and as text, the pieces that are ready, and
/// what the server has for a connection.
const HELD_MAX: usize = 4 * 1024 * 1024;

fn arguments() -> FieldTable {
    let argument = |number| (format!("k{number}"), FieldValue::Bool(true));
    (0..ARGUMENTS).map(argument).collect()
}

/// How long the answer is, which must be a good one. It is not held.
fn read(address: SocketAddr, path: &str) -> usize {
    let authorization = basic("administrator", "administrator");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).expect("a server");
    stream.write_all(request.as_bytes()).expect("sent");
    let (mut part, mut length) = ([0; 4_096], 0);
    stream.read_exact(&mut part[..12]).expect("a status");
    assert_eq!(&part[..12], b"HTTP/1.1 200", "{path}");
    loop {
        match stream.read(&mut part).expect("the answer goes on") {
            0 => return length,
            more => length += more,
        }
    }
}

#[test]
fn however_many_arguments_there_are_a_few_rows_at_most_are_held() {
    let api = api::start();
    let address = api.address(Service::Api);
    *api.node.arguments.lock().expect("arguments") = arguments();
    api.node.more_queues.store(OBJECTS as u64, Relaxed);
    api.node.more_bindings.store(OBJECTS as u64, Relaxed);
    api.node.more_settings.store(OBJECTS as u64, Relaxed);
    // Before anybody is answered, as what an answer held is let go when its reader has it.
    let copied = bytes_of_a_copied_connection(&api);
    // What is kept once it has been asked for is kept from here on.
    read(address, "/api/overview");
    for path in [
        "/api/bindings",
        "/api/bindings?page=1&page_size=500",
        "/api/bindings?sort=arguments",
        "/api/queues",
        "/api/queues?page=1&page_size=500",
        "/api/queues?sort=arguments&columns=arguments",
        "/api/definitions",
        "/api/policies",
        "/api/policies/%2F?sort=definition&columns=name,definition",
        "/api/operator-policies?page=1&page_size=500",
        "/api/parameters",
        "/api/parameters/mine/%2F?page=1&page_size=500",
        "/api/global-parameters",
    ] {
        let (length, most) = held_for(address, path);
        // A page may end before the last of them, for the usual ones are there as well.
        let least = OBJECTS * 9 / 10 * ARGUMENTS * ARGUMENT_BYTES;
        assert!(length > least, "{path}: {length} bytes");
        assert!(
            most < HELD_MAX,
            "{path}: {most} bytes were held for {length}"
        );
    }
    the_rows_of_consumers_of_one_connection_are_held_as_text_at_most(&api, copied);
}

/// How long the answer is, and how much was held for it at most.
fn held_for(address: SocketAddr, path: &str) -> (usize, usize) {
    let before = LIVE_BYTES.load(Relaxed);
    MOST_BYTES.store(before, Relaxed);
    let length = read(address, path);
    (length, MOST_BYTES.load(Relaxed) - before)
}

/// Consumers of the one connection that has many.
const CONSUMERS: u64 = OBJECTS as u64 / 2;

fn bytes_of_a_copied_connection(api: &api::Api) -> usize {
    api.node.more_consumers.store(CONSUMERS, Relaxed);
    let before = LIVE_BYTES.load(Relaxed);
    let mut contents = Vec::new();
    api.node
        .each_connection(&mut |content| contents.push(content));
    let copied = LIVE_BYTES.load(Relaxed) - before;
    drop(contents);
    api.node.more_consumers.store(0, Relaxed);
    copied
}

/// A connection is copied as a whole; what is made of that is to be small beside it.
fn the_rows_of_consumers_of_one_connection_are_held_as_text_at_most(api: &api::Api, copied: usize) {
    api.node.more_consumers.store(CONSUMERS, Relaxed);
    let (length, most) = held_for(api.address(Service::Api), "/api/consumers");
    assert!(length > OBJECTS / 2 * ARGUMENTS * ARGUMENT_BYTES);
    assert!(
        most < copied + length + HELD_MAX,
        "{most} bytes were held for {length}, of a copy of {copied}"
    );
}
