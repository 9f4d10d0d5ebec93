//! Clients that send many changes before they read an answer: what that costs the disk. Alone in
//! its process, whose syncs it counts.

#[path = "it/client.rs"]
mod client;

use client::{Client, address, connect, scratch, start, start_on};
use leveret_amqp::{Method, RawTable, encode, queue};
use leveret_shell::disk::{DeviceModel, RealDisk, io_counts};
use leveret_shell::node::Node;
use std::net::TcpStream;

/// A disk whose syncs take so long that a node has carried out all that has arrived before one is
/// over, however busy the machine is.
const SLOW: DeviceModel = DeviceModel {
    seek_us: 0,
    bytes_per_second: 1_000_000_000,
    sync_us: 100_000,
};
/// Changes that a client sends at once.
const CHANGES: usize = 200;
/// Syncs that these may take: many fewer than changes, and more than a busy machine needs.
const SYNCS_MAX: u64 = 40;

fn log_in(node: &Node) -> Client<TcpStream> {
    let socket = connect(address(node, false));
    Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in")
}

fn name(client: usize, number: usize) -> String {
    format!("q-{client}-{number}")
}

fn send_declares(client: &mut Client<TcpStream>, of: usize, passive: bool) {
    let mut bytes = Vec::new();
    for number in 0..CHANGES {
        let declare = queue::Declare {
            queue: &name(of, number),
            passive,
            durable: true,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        encode::method(&mut bytes, 1, &declare);
    }
    client.send_bytes(&bytes).expect("sent");
}

fn send_deletes(client: &mut Client<TcpStream>, of: usize) {
    let mut bytes = Vec::new();
    for number in 0..CHANGES {
        let delete = queue::Delete {
            queue: &name(of, number),
            if_unused: false,
            if_empty: false,
            nowait: false,
        };
        encode::method(&mut bytes, 1, &delete);
    }
    client.send_bytes(&bytes).expect("sent");
}

fn await_declared(client: &mut Client<TcpStream>, of: usize) {
    for number in 0..CHANGES {
        let answer = client.answer().expect("an answer");
        match Method::decode(&answer) {
            Ok(Method::QueueDeclareOk(ok)) => assert_eq!(ok.queue, name(of, number)),
            other => panic!("{other:?}"),
        }
    }
}

fn await_deleted(client: &mut Client<TcpStream>) {
    for _ in 0..CHANGES {
        let answer = client.answer().expect("an answer");
        assert!(matches!(
            Method::decode(&answer),
            Ok(Method::QueueDeleteOk(_))
        ));
    }
}

fn syncs(work: impl FnOnce()) -> u64 {
    let before = io_counts().syncs.count;
    work();
    io_counts().syncs.count - before
}

#[test]
fn many_changes_share_a_sync_and_are_answered_in_order() {
    let scratch = scratch("pipelined");
    let node = start_on(RealDisk::with_model(SLOW), scratch.path(), None);
    let mut one = log_in(&node);
    let mut other = log_in(&node);

    let declared = syncs(|| {
        send_declares(&mut one, 1, false);
        await_declared(&mut one, 1);
    });
    assert!(declared <= SYNCS_MAX, "{declared} syncs");
    let deleted = syncs(|| {
        send_deletes(&mut one, 1);
        await_deleted(&mut one);
    });
    assert!(deleted <= SYNCS_MAX, "{deleted} syncs");
    let both = syncs(|| {
        send_declares(&mut one, 1, false);
        send_declares(&mut other, 2, false);
        await_declared(&mut one, 1);
        await_declared(&mut other, 2);
    });
    assert!(both <= SYNCS_MAX, "{both} syncs");
    for syncs in [declared, deleted, both] {
        assert!(syncs > 0, "answered before it was durable");
    }

    one.close();
    other.close();
    node.shut_down();
    let node = start(scratch.path(), None);
    let mut client = log_in(&node);
    for of in [1, 2] {
        send_declares(&mut client, of, true);
        await_declared(&mut client, of);
    }
    client.close();
    node.shut_down();
}
