//! What the log tells an operator of clients' connections.

use crate::common::{Folder, Node, serve};
use crate::serve::{connect, frame, read_frame};
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;

const CHANNEL_CLOSE: [u8; 4] = [0, 20, 0, 40];
const CONNECTION_CLOSE: [u8; 4] = [0, 10, 0, 50];
const CONNECTION_CLOSE_OK: [u8; 4] = [0, 10, 0, 51];

fn send(socket: &mut TcpStream, bytes: &[u8]) {
    socket.write_all(bytes).expect("written");
}

/// Reads until this method comes.
fn await_method(socket: &mut TcpStream, method: [u8; 4]) {
    while read_frame(socket).expect("a frame") != method {}
}

#[test]
fn the_log_says_why_a_connection_or_a_channel_was_closed() {
    let folder = Folder::new("connection-log");
    let path = folder.path().join("log");
    let mut command = serve(&folder.data());
    command.args(["--http", "none"]);
    command.stderr(File::create(&path).expect("a file"));
    let node = Node::start(&mut command, &folder.data());
    let port = node.port("amqp");

    let mut orderly = connect(port);
    send(&mut orderly, &frame(1, b"\0\x14\0\x0a\0"));
    // A passive declaration of a queue that there is not.
    send(
        &mut orderly,
        &frame(1, b"\0\x32\0\x0a\0\0\x04nope\x01\0\0\0\0"),
    );
    await_method(&mut orderly, CHANNEL_CLOSE);
    let close = b"\0\x0a\0\x32\0\xc8\x03bye\0\0\0\0";
    let length = (close.len() as u32).to_be_bytes();
    send(
        &mut orderly,
        &[&[1, 0, 0][..], &length, close, &[0xCE]].concat(),
    );
    await_method(&mut orderly, CONNECTION_CLOSE_OK);
    drop(orderly);

    let mut garbled = connect(port);
    // A method that there is not.
    send(&mut garbled, &frame(1, b"\0\x14\0\x0a\0"));
    send(&mut garbled, &frame(1, b"\0\x32\x03\xe7"));
    await_method(&mut garbled, CONNECTION_CLOSE);
    drop(garbled);
    drop(connect(port));
    // A probe.
    drop(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
    let _stays = connect(port);
    assert!(node.terminate(), "an orderly end");

    let log = fs::read_to_string(&path).expect("the log");
    let ends: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" closed:") || line.contains(" closed by "))
        .collect();
    for (text, of) in [
        (
            "channel closed: NOT_FOUND (404): no queue 'nope'",
            "channel=1",
        ),
        ("connection closed by the client", "vhost=\"/\""),
        ("connection closed: NOT_IMPLEMENTED (540)", "user=\"guest\""),
        (
            "connection closed: the client's socket ended without a close of the connection",
            "user=\"guest\"",
        ),
        (
            "connection closed: CONNECTION_FORCED (320)",
            "user=\"guest\"",
        ),
    ] {
        let found = ends
            .iter()
            .filter(|line| line.contains(text) && line.contains(of));
        assert_eq!(found.count(), 1, "{text} {of}: {log}");
    }
    assert_eq!(ends.len(), 5, "{log}");
}
