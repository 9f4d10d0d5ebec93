//! A whole node on real sockets and files, started and ended in this process.

mod client;

use client::{Client, PENDING_MAX, Scratch, address, config, connect, start};
use leveret_amqp::{
    ContentHeader, FrameKind, Method, Properties, RawTable, basic, confirm, encode, queue,
};
use leveret_shell::disk::RealDisk;
use leveret_shell::node::Node;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};

fn log_in(address: SocketAddr) -> Client<TcpStream> {
    Client::log_in(connect(address), "PLAIN", b"\0guest\0guest").expect("logged in")
}

/// Declares the queue `durable`, or looks whether it is there; gives how many messages are ready.
fn declare(client: &mut Client<TcpStream>, passive: bool) -> u32 {
    let declare = queue::Declare {
        queue: "durable",
        passive,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    let answer = client.call(1, &declare).expect("an answer");
    match Method::decode(&answer) {
        Ok(Method::QueueDeclareOk(ok)) => ok.message_count,
        other => panic!("{other:?}"),
    }
}

/// A persistent message to the queue `durable`.
fn publish(body: &[u8]) -> Vec<u8> {
    let properties = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let mut bytes = Vec::new();
    let publish = basic::Publish {
        exchange: b"",
        routing_key: b"durable",
        mandatory: false,
        immediate: false,
    };
    encode::method(&mut bytes, 1, &publish);
    encode::frame(&mut bytes, FrameKind::Header, 1, |out| {
        let header = ContentHeader {
            class: 60,
            body_size: body.len() as u64,
            properties: &properties.to_bytes(),
        };
        header.encode(out);
    });
    encode::frame(&mut bytes, FrameKind::Body, 1, |out| {
        out.extend_from_slice(body)
    });
    bytes
}

#[test]
fn what_was_confirmed_is_there_after_an_orderly_end() {
    let scratch = Scratch::new("orderly");
    let node = start(&scratch.0, None);
    assert!(node.report.created);
    let mut client = log_in(address(&node, false));
    assert_eq!(declare(&mut client, false), 0);
    client
        .call(1, &confirm::Select { nowait: false })
        .expect("confirms");
    let three = [publish(b"one"), publish(b"two"), publish(&[3; 100_000])];
    client.send_bytes(&three.concat()).expect("sent");
    let mut confirmed = 0;
    while confirmed < 3 {
        let answer = client.answer().expect("confirms");
        match Method::decode(&answer) {
            Ok(Method::BasicAck(ack)) if ack.multiple => confirmed = ack.delivery_tag,
            Ok(Method::BasicAck(_)) => confirmed += 1,
            other => panic!("{other:?}"),
        }
    }
    client.close();
    node.shut_down();

    let node = start(&scratch.0, None);
    assert!(!node.report.created);
    assert!(node.report.clean, "{:?}", node.report);
    let mut client = log_in(address(&node, false));
    assert_eq!(declare(&mut client, true), 3);
    // A client that is still there is told, and hears nothing more.
    let ended = std::thread::spawn(move || node.shut_down());
    let answer = client.answer().expect("told");
    match Method::decode(&answer) {
        Ok(Method::ConnectionClose(close)) => assert_eq!(close.reply_code, 320),
        other => panic!("{other:?}"),
    }
    client
        .send(0, &leveret_amqp::connection::CloseOk {})
        .expect("answered");
    ended.join().expect("ended in order");
}

#[test]
fn who_goes_with_its_last_words_is_gone() {
    let scratch = Scratch::new("last-words");
    let node = start(&scratch.0, None);
    let at = address(&node, false);
    let clients: Vec<_> = (0..100).map(|_| log_in(at)).collect();
    assert_eq!(node.broker.connection_count(), clients.len());
    // While the node is at work on one of them, both have come of the next.
    for mut client in clients {
        client.send_bytes(&publish(b"bye")).expect("sent");
    }
    let mut looks = 0;
    while node.broker.connection_count() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        looks += 1;
        assert!(looks < 1_000, "some have not been seen to go");
    }
    node.shut_down();
}

/// Whether the node keeps a connection that says nothing yet.
fn is_kept(socket: &mut TcpStream) -> bool {
    socket.set_nonblocking(true).expect("an option");
    let mut byte = [0];
    let kept = !matches!(socket.read(&mut byte), Ok(0))
        && !matches!(socket.read(&mut byte), Err(e) if e.kind() == ErrorKind::ConnectionReset);
    socket.set_nonblocking(false).expect("an option");
    kept
}

#[test]
fn clients_that_do_not_log_in_are_bounded_and_those_who_have_do_not_count() {
    let scratch = Scratch::new("guests");
    let node = start(&scratch.0, None);
    let at = address(&node, false);
    // Connections are accepted in their order: one that is served tells that those before it are.
    let logged_in = log_in(at);
    let mut silent: Vec<_> = (0..PENDING_MAX).map(|_| connect(at)).collect();
    let mut refused = connect(at);
    let ended = refused.read(&mut [0]);
    assert!(
        matches!(&ended, Ok(0))
            || matches!(&ended, Err(e) if e.kind() == ErrorKind::ConnectionReset),
        "{ended:?}"
    );
    assert!(silent.iter_mut().all(is_kept));
    drop(silent);
    // The node has their places back once it has seen them go.
    let again = (0..1_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Client::log_in(connect(at), "PLAIN", b"\0guest\0guest").ok()
    });
    again.expect("a place").close();
    logged_in.close();
    node.shut_down();
}

#[test]
fn a_node_has_as_many_connections_as_it_may() {
    const CONNECTIONS_MAX: usize = 3;
    let scratch = Scratch::new("full");
    let mut config = config(&scratch.0, None);
    config.admission.connections = CONNECTIONS_MAX;
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let at = address(&node, false);
    let mut inside: Vec<_> = (0..CONNECTIONS_MAX).map(|_| log_in(at)).collect();
    let ended = connect(at).read(&mut [0]);
    assert!(
        matches!(&ended, Ok(0))
            || matches!(&ended, Err(e) if e.kind() == ErrorKind::ConnectionReset),
        "{ended:?}"
    );
    for client in &mut inside {
        declare(client, false);
    }
    inside.pop().expect("a client").close();
    // The node has the place back once it has seen the client go.
    let again = (0..1_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Client::log_in(connect(at), "PLAIN", b"\0guest\0guest").ok()
    });
    again.expect("a place").close();
    for client in inside {
        client.close();
    }
    node.shut_down();
}
