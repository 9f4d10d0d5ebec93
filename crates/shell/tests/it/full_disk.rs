//! A node whose disk is full: who waits, who does not, and what is there afterwards.

use crate::client::{Client, address, connect, scratch, start, start_on};
use crate::messages;
use leveret_amqp::{Method, RawTable, basic, confirm, queue};
use leveret_shell::disk::RealDisk;
use std::net::TcpStream;

/// Room for the files of the write-ahead log that are prepared, the space that is kept aside, and a
/// backlog.
const QUOTA_BYTES: u64 = 48 * 1024 * 1024;
const BODY_BYTES: usize = 64 * 1024;

fn log_in(node: &leveret_shell::node::Node) -> Client<TcpStream> {
    let socket = connect(address(node, false));
    Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in")
}

fn declare(client: &mut Client<TcpStream>, passive: bool) -> u32 {
    let declare = queue::Declare {
        queue: "backlog",
        passive,
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

fn publish() -> Vec<u8> {
    messages::publish("backlog", &[7; BODY_BYTES])
}

/// What a publisher with one message on its way hears.
#[derive(Debug, PartialEq, Eq)]
enum PublisherEvent {
    Confirm,
    Blocked,
    Unblocked,
}

fn hear(client: &mut Client<TcpStream>) -> PublisherEvent {
    match Method::decode(&client.answer().expect("an answer")) {
        Ok(Method::BasicAck(_)) => PublisherEvent::Confirm,
        Ok(Method::ConnectionBlocked(_)) => PublisherEvent::Blocked,
        Ok(Method::ConnectionUnblocked(_)) => PublisherEvent::Unblocked,
        other => panic!("{other:?}"),
    }
}

/// Gets and settles one message.
fn take(client: &mut Client<TcpStream>) {
    let get = basic::Get {
        queue: "backlog",
        no_ack: false,
    };
    let answer = client.call(1, &get).expect("an answer");
    let Ok(Method::BasicGetOk(got)) = Method::decode(&answer) else {
        panic!("{:?}", Method::decode(&answer));
    };
    let ack = basic::Ack {
        delivery_tag: got.delivery_tag,
        multiple: false,
    };
    client.send(1, &ack).expect("sent");
}

#[test]
fn a_full_disk_makes_publishers_wait_and_nobody_else_and_all_goes_on_when_there_is_space() {
    let scratch = scratch("full-disk");
    let disk = RealDisk::with_quota(QUOTA_BYTES);
    let node = start_on(disk.clone(), scratch.path(), None);
    let mut publisher = log_in(&node);
    declare(&mut publisher, false);
    let select = confirm::Select { nowait: false };
    publisher.call(1, &select).expect("confirms");

    // Until it is told to wait, every publish is confirmed.
    let (mut published, mut confirmed) = (0_u32, 0_u32);
    let blocked = loop {
        assert!(
            u64::from(published) * (BODY_BYTES as u64) < QUOTA_BYTES,
            "never blocked"
        );
        publisher.send_bytes(&publish()).expect("sent");
        published += 1;
        match hear(&mut publisher) {
            PublisherEvent::Confirm => confirmed += 1,
            heard => break heard,
        }
    };
    assert_eq!(blocked, PublisherEvent::Blocked);
    assert!(
        confirmed > 100,
        "{confirmed}: it was blocked long before the disk was full"
    );

    // From here on not a byte more is to be had.
    disk.set_quota(0);
    let mut consumer = log_in(&node);
    let taken = confirmed / 2;
    (0..taken).for_each(|_| take(&mut consumer));
    assert!(declare(&mut consumer, true) >= confirmed - taken);

    disk.set_quota(u64::MAX);
    let mut unblocked = false;
    while confirmed < published || !unblocked {
        match hear(&mut publisher) {
            PublisherEvent::Confirm => confirmed += 1,
            PublisherEvent::Unblocked => unblocked = true,
            // It may have been settled so much that there was room for a moment.
            PublisherEvent::Blocked => unblocked = false,
        }
    }
    publisher.send_bytes(&publish()).expect("sent");
    published += 1;
    assert_eq!(hear(&mut publisher), PublisherEvent::Confirm);
    assert_eq!(declare(&mut consumer, true), published - taken);
    publisher.close();
    consumer.close();
    node.shut_down();

    let node = start(scratch.path(), None);
    assert!(node.report.clean, "{:?}", node.report);
    let mut client = log_in(&node);
    assert_eq!(declare(&mut client, true), published - taken);
    client.close();
    node.shut_down();
}

#[test]
fn a_node_ends_although_its_disk_is_full_and_what_was_confirmed_is_there() {
    let scratch = scratch("full-disk-end");
    let disk = RealDisk::with_quota(QUOTA_BYTES);
    let node = start_on(disk.clone(), scratch.path(), None);
    let mut publisher = log_in(&node);
    declare(&mut publisher, false);
    let select = confirm::Select { nowait: false };
    publisher.call(1, &select).expect("confirms");
    let mut confirmed = 0;
    publisher.send_bytes(&publish()).expect("sent");
    while hear(&mut publisher) == PublisherEvent::Confirm {
        confirmed += 1;
        publisher.send_bytes(&publish()).expect("sent");
    }
    disk.set_quota(0);
    drop(publisher);
    node.shut_down();

    let node = start(scratch.path(), None);
    let mut client = log_in(&node);
    let found = declare(&mut client, true);
    // The last one may have been written although nobody was told.
    assert!(
        (confirmed..=confirmed + 1).contains(&found),
        "{found} of {confirmed}"
    );
    client.close();
    node.shut_down();
}
