//! A node whose memory is nearly all used: what exists stays usable, and nothing new is declared.

use crate::client::{Client, address, connect, scratch, start};
use leveret_amqp::{Method, RawTable, basic, queue};
use leveret_shell::node::Node;
use leveret_types::limits::CONSUMERS_IN_FULL_MEMORY_MAX;
use std::net::TcpStream;

fn log_in(node: &Node) -> Client<TcpStream> {
    let socket = connect(address(node, false));
    Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in")
}

/// Declares a queue, and gives the code with which that closes the channel, if it does; the channel
/// is open afterwards.
fn declare(client: &mut Client<TcpStream>, name: &str, durable: bool) -> Option<u16> {
    let declare = queue::Declare {
        queue: name,
        passive: false,
        durable,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    heard(client, &declare)
}

/// Asks, and gives the code with which that closes the channel, if it does.
fn heard(client: &mut Client<TcpStream>, ask: &impl leveret_amqp::EncodeMethod) -> Option<u16> {
    let mut answer = client.call(1, ask).expect("an answer");
    while matches!(Method::decode(&answer), Ok(Method::ConnectionBlocked(_))) {
        answer = client.answer().expect("another one");
    }
    let Ok(Method::ChannelClose(close)) = Method::decode(&answer) else {
        return None;
    };
    let code = close.reply_code;
    client
        .send(1, &leveret_amqp::channel::CloseOk {})
        .expect("sent");
    let opened = client.call(1, &leveret_amqp::channel::Open {});
    opened.expect("the channel opens again");
    Some(code)
}

/// Sets the bytes from which nothing new is declared, beside a watermark that is long exceeded.
fn allow(node: &Node, memory_full_bytes: u64) {
    let watermarks = &node.timers_and_alarms.watermarks;
    watermarks.write().memory_bytes = 0;
    watermarks.write().memory_full_bytes = memory_full_bytes;
    node.timers_and_alarms.look(&node.broker);
}

#[test]
fn what_is_there_stays_usable_and_nothing_new_is_declared() {
    let scratch = scratch("memory-full");
    let node = start(scratch.path(), None);
    let mut client = log_in(&node);
    assert_eq!(declare(&mut client, "old", true), None);
    // Publishers are blocked, and that alone keeps nobody from declaring.
    allow(&node, u64::MAX);
    assert_eq!(declare(&mut client, "made-in-time", true), None);
    allow(&node, 0);
    let bind = |key: &'static str| queue::Bind {
        queue: "old",
        exchange: "amq.direct",
        routing_key: key,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    assert_eq!(declare(&mut client, "new", true), Some(506));
    assert_eq!(declare(&mut client, "", false), Some(506), "a named one");
    assert_eq!(heard(&mut client, &bind("a")), Some(506));
    assert_eq!(declare(&mut client, "old", true), None, "as it is");
    assert_eq!(declare(&mut client, "old", false), Some(406), "otherwise");
    let delete = queue::Delete {
        queue: "made-in-time",
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    assert_eq!(heard(&mut client, &delete), None);
    allow(&node, u64::MAX);
    assert_eq!(declare(&mut client, "new", true), None);
    assert_eq!(heard(&mut client, &bind("a")), None);
    allow(&node, 0);
    assert_eq!(heard(&mut client, &bind("a")), None, "it is bound");
    client.close();
    node.shut_down();
}

/// Who drains queues gives memory back; who makes consumers in mass takes it.
#[test]
fn a_connection_has_consumers_to_drain_queues_by_and_no_more_while_memory_is_full() {
    let scratch = scratch("memory-full-consumers");
    let node = start(scratch.path(), None);
    let mut client = log_in(&node);
    assert_eq!(declare(&mut client, "old", true), None);
    let consume = |client: &mut Client<TcpStream>| {
        let consume = basic::Consume {
            queue: "old",
            consumer_tag: "",
            no_local: false,
            no_ack: true,
            exclusive: false,
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        heard(client, &consume)
    };
    allow(&node, 0);
    for _ in 0..CONSUMERS_IN_FULL_MEMORY_MAX {
        assert_eq!(consume(&mut client), None);
    }
    assert_eq!(consume(&mut client), Some(506));
    // The channel is closed for it, with its consumers.
    assert_eq!(consume(&mut client), None);
    allow(&node, u64::MAX);
    for _ in 0..CONSUMERS_IN_FULL_MEMORY_MAX {
        assert_eq!(consume(&mut client), None);
    }
    client.close();
    node.shut_down();
}
