//! What becomes of dead letters that wait for their turn.

use crate::client::{Client, address, connect, scratch, start};
use crate::messages;
use leveret_amqp::{Method, RawTable, TableBuilder, exchange, queue};
use leveret_shell::node::Node;
use leveret_types::FieldValue;
use std::net::TcpStream;

/// Queues that each dead letter goes to: a turn does some twenty.
const QUEUES: usize = 200;
/// Dead letters: a lot of turns.
const LETTERS: u32 = 1_000;

fn log_in(node: &Node) -> Client<TcpStream> {
    let stream = connect(address(node, false));
    Client::log_in(stream, "PLAIN", b"\0guest\0guest").expect("logged in")
}

/// Declares a durable queue, or looks whether it is there; gives how many messages are ready.
fn declare(client: &mut Client<TcpStream>, queue: &str, arguments: Option<RawTable<'_>>) -> u32 {
    let declare = queue::Declare {
        queue,
        passive: arguments.is_none(),
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: arguments.unwrap_or(RawTable::EMPTY),
    };
    let answer = client.call(1, &declare).expect("an answer");
    match Method::decode(&answer) {
        Ok(Method::QueueDeclareOk(ok)) => ok.message_count,
        other => panic!("{other:?}"),
    }
}

/// A queue `full` that has room for one message and refuses what more comes, which goes to
/// [`QUEUES`] queues then: no queue keeps it meanwhile.
fn declare_all(client: &mut Client<TcpStream>) {
    let fanout = exchange::Declare {
        exchange: "letters",
        kind: "fanout",
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    client.call(1, &fanout).expect("declared");
    for number in 0..QUEUES {
        let name = format!("letters-{number}");
        declare(client, &name, Some(RawTable::EMPTY));
        let bind = queue::Bind {
            queue: &name,
            exchange: "letters",
            routing_key: "",
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        client.call(1, &bind).expect("bound");
    }
    let mut arguments = TableBuilder::new();
    arguments.push("x-max-length", &FieldValue::I64(1));
    arguments.push("x-overflow", &FieldValue::text("reject-publish-dlx"));
    arguments.push("x-dead-letter-exchange", &FieldValue::text("letters"));
    declare(client, "full", Some(arguments.as_table()));
}

#[test]
fn dead_letters_that_wait_for_their_turn_when_the_node_ends_arrive_all_and_once() {
    let scratch = scratch("dead-letters");
    let node = start(scratch.path(), None);
    let mut client = log_in(&node);
    declare_all(&mut client);
    let message = messages::publish("full", b"1");
    let all = message.repeat(LETTERS as usize + 1);
    client.send_bytes(&all).expect("sent");
    assert_eq!(
        declare(&mut client, "full", None),
        1,
        "the others are refused"
    );
    client.close();
    node.shut_down();

    let node = start(scratch.path(), None);
    let mut client = log_in(&node);
    for number in [0, QUEUES / 2, QUEUES - 1] {
        let name = format!("letters-{number}");
        assert_eq!(declare(&mut client, &name, None), LETTERS, "{name}");
    }
    assert_eq!(declare(&mut client, "full", None), 1);
    client.close();
    node.shut_down();
}
