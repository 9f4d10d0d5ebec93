//! What a node holds for clients that ask for long lists and do not read them, and how much is made
//! for a row, counted by the allocator: one test, for the count is of the whole process.

#[allow(dead_code)] // Other tests use the rest.
mod client;
mod counting;
#[allow(dead_code)] // Other tests use the rest.
mod fake;

use client::basic;
use counting::{ALLOCATIONS, LIVE_BYTES, MOST_BYTES};
use fake::cluster;
use leveret_management::{App, Endpoint, Server, Service};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Queues of the three nodes.
const QUEUES: usize = 20_000;
/// Clients that ask and do not read.
const CLIENTS: usize = 16;
/// Bytes that the node holds for each of them: keys, what other nodes tell of the next rows, the
/// next pieces, what they are made from, and rows that wait for the next one.
const EACH_MAX: usize = 2_250 * 1024;
/// Allocations for a row of a queue that another node leads, at both nodes, the fake ones' own
/// among them. A row that is made of values takes more than a hundred.
const FOR_A_ROW: usize = 40;

/// A list is longer than the system holds of it.
const LONG: usize = 12 * 1024 * 1024;

/// A client that has asked and has read the first byte of the answer.
fn asked(address: SocketAddr, path: &str) -> TcpStream {
    let authorization = basic("administrator", "administrator");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).expect("a server");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a socket");
    stream.write_all(request.as_bytes()).expect("sent");
    stream.read_exact(&mut [0]).expect("an answer begins");
    stream
}

/// How long the rest of the answer is. It is not held.
fn rest(mut stream: TcpStream) -> usize {
    let (mut part, mut length) = ([0; 4_096], 0);
    loop {
        match stream.read(&mut part).expect("the answer goes on") {
            0 => return length,
            more => length += more,
        }
    }
}

#[test]
fn lists_that_nobody_reads_hold_little_and_the_next_one_is_answered() {
    let nodes = cluster::nodes(3, |fake| {
        fake.more_queues.store(QUEUES as u64, Relaxed);
        fake.more_connections.store(10_000, Relaxed);
        Arc::new(fake)
    });
    let any = "127.0.0.1:0".parse().expect("an address");
    let app = App::new(Arc::clone(&nodes[0].0) as _, None, false);
    let server = Server::start(app, &[Endpoint::plain(Service::Api, any)]).expect("a port");
    let address = server.plain_address(Service::Api).expect("an address");
    let paths = [
        "/api/queues",
        "/api/queues?sort=messages",
        "/api/connections",
        "/api/connections?sort=recv_oct",
    ];
    // Figures from which rates are made are kept from the first list on.
    for path in paths {
        let before = ALLOCATIONS.load(Relaxed);
        let length = rest(asked(address, path));
        let made = ALLOCATIONS.load(Relaxed) - before;
        if path == "/api/queues" {
            let for_a_row = made / QUEUES;
            assert!(for_a_row <= FOR_A_ROW, "{for_a_row} allocations for a row");
        }
        assert!(length > LONG, "{path}: {length} bytes are no long list");
    }
    let idle = LIVE_BYTES.load(Relaxed);
    for path in paths {
        // What was held for those before goes when the server sees that they are gone.
        let over = Instant::now() + Duration::from_secs(30);
        while LIVE_BYTES.load(Relaxed) > idle + EACH_MAX {
            assert!(
                Instant::now() < over,
                "{path}: what was held before is not given back"
            );
            thread::sleep(Duration::from_millis(1));
        }
        let before = LIVE_BYTES.load(Relaxed);
        MOST_BYTES.store(before, Relaxed);
        let unread: Vec<TcpStream> = (0..CLIENTS).map(|_| asked(address, path)).collect();
        let length = rest(asked(address, path));
        assert!(length > LONG, "{path}: the next one has {length} bytes");
        let most = MOST_BYTES.load(Relaxed).saturating_sub(before);
        let bound = (CLIENTS + 1) * EACH_MAX;
        assert!(most < bound, "{path}: {most} bytes were held");
        drop(unread);
    }
}
