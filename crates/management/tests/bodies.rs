//! What a node holds for clients whose requests do not become whole, counted by the allocator: one
//! test, for the count is of the whole process.

#[allow(dead_code)] // Other tests use the rest.
mod api;
#[allow(dead_code)] // Other tests use the rest.
mod client;
#[allow(dead_code)] // Another test uses the rest.
mod counting;
#[allow(dead_code)] // Other tests use the rest.
mod fake;

use client::{basic, exchange};
use counting::{LIVE_BYTES, MOST_BYTES};
use leveret_management::Service;
use leveret_types::limits::{
    HTTP_BODIES_BYTES_MAX, HTTP_BODY_BYTES_FREE, HTTP_BODY_BYTES_MAX, HTTP_BODY_SILENCE_MS,
    HTTP_BODY_WAIT_MS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_LOGIN_BYTES_MAX,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Clients that send bodies and no end of them.
const CLIENTS: usize = 200;
/// What each of them sends, if it is read: all together four times the bound.
const SENT: usize = 4 * HTTP_BODIES_BYTES_MAX / CLIENTS;
/// What a connection holds beside: its buffer, a part that waits for room, and the next one.
const BESIDE: usize = HTTP_BODY_BYTES_FREE + 4 * HTTP_HEAD_BYTES_MAX;

fn head(user: &str, length: usize) -> String {
    let authorization = basic(user, user);
    format!(
        "PUT /api/queues/%2F/q HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\nContent-Length: {length}\r\n\r\n"
    )
}

fn unfinished(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a server");
    let head = head("management", HTTP_BODY_BYTES_MAX);
    stream.write_all(head.as_bytes()).expect("sent");
    stream.set_nonblocking(true).expect("a socket");
    stream
}

/// Sends as much of each body as is read; until nothing is for a while.
fn fill(streams: &mut [TcpStream]) {
    let part = vec![b' '; 64 * 1024];
    let mut sent = vec![0; streams.len()];
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(300) {
        for (stream, sent) in streams.iter_mut().zip(&mut sent) {
            while *sent < SENT
                && let Ok(more) = stream.write(&part)
            {
                *sent += more;
                last = Instant::now();
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The statuses that have come of the bodies, by now.
fn statuses(streams: &mut [TcpStream]) -> Vec<String> {
    let status = |stream: &mut TcpStream| {
        let mut text = [0; 12];
        match stream.read(&mut text) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            // Its last bytes were not read, so that the answer may be lost.
            Err(_) | Ok(0) => Some("closed".to_owned()),
            Ok(_) => Some(String::from_utf8_lossy(&text).into_owned()),
        }
    };
    streams.iter_mut().filter_map(status).collect()
}

fn a_body_of(size: usize) -> String {
    let body = r#"{"auto_delete":false,"durable":true,"arguments":{}}"#;
    format!("{body}{}", " ".repeat(size - body.len()))
}

#[test]
fn bodies_that_do_not_become_whole_hold_little_and_others_are_answered() {
    let api = api::start();
    let address = api.address(Service::Api);
    let put = |size: usize| api.admin("PUT", "/api/queues/%2F/q", &a_body_of(size));
    assert_eq!(put(100).status, 204);
    let before = LIVE_BYTES.load(Relaxed);
    MOST_BYTES.store(before, Relaxed);
    let mut streams: Vec<TcpStream> = (0..CLIENTS).map(|_| unfinished(address)).collect();
    fill(&mut streams);
    let most = MOST_BYTES.load(Relaxed) - before;
    let bound = HTTP_BODIES_BYTES_MAX + CLIENTS * BESIDE;
    assert!(most < bound, "{most} bytes were held, not {bound}");
    assert!(most > HTTP_BODIES_BYTES_MAX / 2, "{most}: room was used");

    // A short request needs no room; a stranger's body has the room of a login form.
    assert_eq!(put(HTTP_BODY_BYTES_FREE).status, 204);
    for (length, status) in [(HTTP_LOGIN_BYTES_MAX, 200), (HTTP_LOGIN_BYTES_MAX + 1, 413)] {
        let body = " ".repeat(length);
        let request = format!(
            "GET /api/auth HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        assert_eq!(exchange(address, request.as_bytes()).status, status);
    }
    // A long one has room made for it by those who send nothing more.
    let begun = Instant::now();
    assert_eq!(put(HTTP_BODY_BYTES_MAX).status, 204);
    let took = begun.elapsed();
    let patience = Duration::from_millis(HTTP_BODY_SILENCE_MS + HTTP_BODY_WAIT_MS_MAX);
    assert!(took < patience, "{took:?}");
    let most = MOST_BYTES.load(Relaxed) - before;
    let bound = bound + 3 * HTTP_BODY_BYTES_MAX;
    assert!(most < bound, "{most} bytes were held, not {bound}");
    let told = statuses(&mut streams);
    assert!(
        told.iter().any(|status| status == "HTTP/1.1 408"),
        "{told:?}"
    );
    drop(streams);
    let over = Instant::now() + Duration::from_secs(30);
    while LIVE_BYTES.load(Relaxed) > before + HTTP_BODIES_BYTES_MAX / 16 {
        assert!(Instant::now() < over, "what was held is not given back");
        thread::sleep(Duration::from_millis(1));
    }
}
