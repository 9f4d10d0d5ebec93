//! What a user may publish, over AMQP and as the management interface does it.

use crate::client::{Client, address, connect, scratch, start};
use crate::messages;
use leveret_amqp::{
    ContentHeader, FrameKind, Method, Properties, RawTable, TableBuilder, basic, confirm, encode,
    queue,
};
use leveret_auth::{HashingAlgorithm, LoginCheck, PasswordHash, Verdict};
use leveret_cluster::Env as _;
use leveret_metadata::Command;
use leveret_node::{Caller, Env};
use leveret_routing::SUPER_STREAM;
use leveret_shell::node::Node;
use leveret_types::limits::GUESSES_FREE_PER_USER_AND_ADDRESS;
use leveret_types::{ConnectionId, FieldTable, FieldValue, Message, MessageParts, ReplyCode};
use std::net::Ipv4Addr;

/// Hashes of the passwords `p` and `q`, as cheap as argon2id can be: they go the way of slow ones
/// and take no time that a busy machine may not have.
const HASH_OF_P: &str =
    "$argon2id$v=19$m=8,t=1,p=1$YWJjZGVmZ2g$fO+bKVx3ADBlM9dlwkVJJKxvSan6ikiL1QZArpYVYNc";
const HASH_OF_Q: &str =
    "$argon2id$v=19$m=8,t=1,p=1$YWJjZGVmZ2g$zEIgiki10lYiCj1G+dMMEoreu+ESFkibGIeodXb2iWU";

fn slow(hash: &str) -> PasswordHash {
    PasswordHash::parse(HashingAlgorithm::Argon2id, hash).expect("a hash")
}

/// A user `u` whose password is checked as slow ones are, and who may publish to `amq.topic` with
/// keys that begin with `mine`.
fn add_user(node: &Node, tags: &[&str]) {
    let (user, vhost) = ("u".to_owned(), "/".to_owned());
    let all = ".*".to_owned();
    let commands = [
        Command::UserPut {
            user: user.clone(),
            password: Some(slow(HASH_OF_P)),
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
        },
        Command::PermissionSet {
            vhost: vhost.clone(),
            user: user.clone(),
            configure: all.clone(),
            write: all.clone(),
            read: all,
        },
        Command::TopicPermissionSet {
            vhost,
            user,
            exchange: "amq.topic".to_owned(),
            write: "^mine".to_owned(),
            read: "^mine".to_owned(),
        },
    ];
    for command in &commands {
        let done = node.broker.execute(node.broker.now(), command);
        done.expect("carried out");
    }
}

/// What is published: a routing key, keys of copies by header, and who it claims to be from.
#[derive(Clone, Copy)]
struct Case {
    key: &'static str,
    copies: &'static [(&'static str, &'static str)],
    claims: Option<&'static str>,
    refused: Option<ReplyCode>,
}

const CASES: [Case; 8] = [
    case("mine.a", &[], None, None),
    case("other", &[], None, Some(ReplyCode::AccessRefused)),
    case("mine.a", &[("CC", "mine.b"), ("BCC", "mine.c")], None, None),
    case(
        "mine.a",
        &[("CC", "other")],
        None,
        Some(ReplyCode::AccessRefused),
    ),
    case(
        "mine.a",
        &[("BCC", "other")],
        None,
        Some(ReplyCode::AccessRefused),
    ),
    case(
        "mine.a",
        &[("CC", "mine.b"), ("BCC", "other")],
        None,
        Some(ReplyCode::AccessRefused),
    ),
    case("mine.a", &[], Some("u"), None),
    case(
        "mine.a",
        &[],
        Some("guest"),
        Some(ReplyCode::PreconditionFailed),
    ),
];

const fn case(
    key: &'static str,
    copies: &'static [(&'static str, &'static str)],
    claims: Option<&'static str>,
    refused: Option<ReplyCode>,
) -> Case {
    Case {
        key,
        copies,
        claims,
        refused,
    }
}

impl Case {
    fn properties(&self) -> Vec<u8> {
        let mut headers = TableBuilder::new();
        for (name, key) in self.copies {
            headers.push(name, &FieldValue::Array(vec![FieldValue::text(key)]));
        }
        let properties = Properties {
            headers: Some(headers.as_table()),
            user_id: self.claims.map(str::as_bytes),
            ..Properties::default()
        };
        properties.to_bytes().to_vec()
    }

    /// The frames of such a message without a body.
    fn frames(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let publish = basic::Publish {
            exchange: b"amq.topic",
            routing_key: self.key.as_bytes(),
            mandatory: false,
            immediate: false,
        };
        encode::method(&mut bytes, 1, &publish);
        let properties = self.properties();
        encode::frame(&mut bytes, FrameKind::Header, 1, |out| {
            let header = ContentHeader {
                class: 60,
                body_size: 0,
                properties: &properties,
            };
            header.encode(out);
        });
        bytes
    }

    fn message(&self) -> Message {
        let properties = self.properties();
        let parts = MessageParts {
            exchange: b"amq.topic",
            routing_key: self.key.as_bytes(),
            properties: &properties,
            body: b"",
        };
        Message::from_parts(parts, Default::default())
    }
}

#[test]
fn every_key_of_a_message_needs_the_topic_permission_and_its_user_is_its_publisher() {
    let scratch = scratch("topics");
    let node = start(scratch.path(), None);
    add_user(&node, &[]);
    let by_hand = Caller {
        connection: ConnectionId(0),
        vhost: "/".to_owned(),
        rights: Some(node.broker.catalogue().rights("u", "/", "")),
    };
    for (number, case) in CASES.iter().enumerate() {
        let mut client =
            Client::log_in(connect(address(&node, false)), "PLAIN", b"\0u\0p").expect("logged in");
        client
            .call(1, &confirm::Select { nowait: false })
            .expect("confirms");
        client.send_bytes(&case.frames()).expect("sent");
        let answer = client.answer().expect("an answer");
        let refused = match Method::decode(&answer) {
            Ok(Method::BasicAck(_)) => None,
            Ok(Method::ChannelClose(close)) => Some(close.reply_code),
            other => panic!("{other:?}"),
        };
        let expected = case.refused;
        assert_eq!(refused, expected.map(ReplyCode::code), "case {number}");
        if refused.is_none() {
            client.close();
        }
        let published = by_hand.publish(&case.message(), node.broker.now(), &*node.broker);
        assert_eq!(published.err().map(|e| e.code), expected, "case {number}");
    }
    add_user(&node, &["impersonator"]);
    let forged = CASES[7].message();
    let published = by_hand.publish(&forged, node.broker.now(), &*node.broker);
    assert!(published.is_ok(), "{published:?}");
    node.shut_down();
}

/// A topic permission on an exchange of another type says nothing, as in RabbitMQ.
#[test]
fn topic_permissions_concern_topic_exchanges_alone_also_for_who_publishes_by_hand() {
    let scratch = scratch("no-topics");
    let node = start(scratch.path(), None);
    add_user(&node, &[]);
    for exchange in ["amq.fanout", "amq.topic"] {
        let command = Command::TopicPermissionSet {
            vhost: "/".to_owned(),
            user: "u".to_owned(),
            exchange: exchange.to_owned(),
            write: "^mine".to_owned(),
            read: "^mine".to_owned(),
        };
        let done = node.broker.execute(node.broker.now(), &command);
        done.expect("carried out");
    }
    let by_hand = Caller {
        connection: ConnectionId(0),
        vhost: "/".to_owned(),
        rights: Some(node.broker.catalogue().rights("u", "/", "")),
    };
    for (exchange, expected) in [
        ("amq.fanout", None),
        ("amq.topic", Some(ReplyCode::AccessRefused)),
    ] {
        let parts = MessageParts {
            exchange: exchange.as_bytes(),
            routing_key: b"other",
            properties: &Properties::default().to_bytes(),
            body: b"",
        };
        let message = Message::from_parts(parts, Default::default());
        let published = by_hand.publish(&message, node.broker.now(), &*node.broker);
        assert_eq!(published.err().map(|e| e.code), expected, "{exchange}");
        let mut client =
            Client::log_in(connect(address(&node, false)), "PLAIN", b"\0u\0p").expect("logged in");
        client
            .call(1, &confirm::Select { nowait: false })
            .expect("confirms");
        let sent = client.send_bytes(&messages::publish_to(exchange, "other", b""));
        sent.expect("sent");
        let answer = client.answer().expect("an answer");
        let refused = match Method::decode(&answer) {
            Ok(Method::BasicAck(_)) => None,
            Ok(Method::ChannelClose(close)) => Some(close.reply_code),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, expected.map(ReplyCode::code), "{exchange}");
    }
    node.shut_down();
}

/// A reply goes by the default exchange: who may not write to that sends none.
#[test]
fn a_reply_needs_the_permission_to_write() {
    let scratch = scratch("replies");
    let node = start(scratch.path(), None);
    add_user(&node, &[]);
    for (write, refused) in [(".*", None), ("^mine", Some(403))] {
        let permission = Command::PermissionSet {
            vhost: "/".to_owned(),
            user: "u".to_owned(),
            configure: String::new(),
            write: write.to_owned(),
            read: String::new(),
        };
        let done = node.broker.execute(node.broker.now(), &permission);
        done.expect("carried out");
        let mut client =
            Client::log_in(connect(address(&node, false)), "PLAIN", b"\0u\0p").expect("logged in");
        client
            .call(1, &confirm::Select { nowait: false })
            .expect("confirms");
        let reply = messages::publish(
            "amq.rabbitmq.reply-to.00000000000000000000000000000000",
            b"",
        );
        client.send_bytes(&reply).expect("sent");
        let answer = client.answer().expect("an answer");
        let code = match Method::decode(&answer) {
            Ok(Method::BasicAck(_)) => None,
            Ok(Method::ChannelClose(close)) => Some(close.reply_code),
            other => panic!("{other:?}"),
        };
        assert_eq!(code, refused, "{write}");
    }
    node.shut_down();
}

/// Who may only publish to a stream can neither drain it nor have it deleted with a super stream.
#[test]
fn who_makes_a_stream_a_partition_needs_what_who_deletes_it_needs() {
    let scratch = scratch("partitions");
    let node = start(scratch.path(), None);
    add_user(&node, &[]);
    let execute = |command: &Command| {
        let done = node.broker.execute(node.broker.now(), command);
        done.expect("carried out");
    };
    let exchange = |name: &str, marked: bool| Command::ExchangeDeclare {
        vhost: "/".to_owned(),
        name: name.to_owned(),
        kind: "direct".to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: FieldTable::from([(SUPER_STREAM, FieldValue::Bool(marked))]),
    };
    execute(&exchange("plain", false));
    execute(&exchange("super", true));
    execute(&Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: "s".to_owned(),
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: FieldTable::from([("x-queue-type", FieldValue::text("stream"))]),
        random: [7; 16],
        shards: 1,
        id: None,
    });
    let cases = [
        ("", "plain", None),
        ("", "super", Some(403)),
        ("^s$", "super", None),
    ];
    for (configure, from, expected) in cases {
        execute(&Command::PermissionSet {
            vhost: "/".to_owned(),
            user: "u".to_owned(),
            configure: configure.to_owned(),
            write: "^s$".to_owned(),
            read: ".*".to_owned(),
        });
        let mut client =
            Client::log_in(connect(address(&node, false)), "PLAIN", b"\0u\0p").expect("logged in");
        let bind = queue::Bind {
            queue: "s",
            exchange: from,
            routing_key: "k",
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        let answer = client.call(1, &bind).expect("an answer");
        let refused = match Method::decode(&answer) {
            Ok(Method::QueueBindOk(_)) => None,
            Ok(Method::ChannelClose(close)) => Some(close.reply_code),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, expected, "{from}, with configure on {configure:?}");
    }
    node.shut_down();
}

#[test]
fn a_slow_password_lets_in_who_knows_it_and_nobody_else() {
    let scratch = scratch("slow-logins");
    let node = start(scratch.path(), None);
    add_user(&node, &[]);
    let log_in = |response: &[u8]| {
        let socket = connect(address(&node, false));
        Client::log_in(socket, "PLAIN", response)
    };
    let failed = || node.broker.counters().values().logins_failed;
    assert!(log_in(b"\0u\0p").is_ok());
    assert_eq!(failed(), 0);
    assert!(log_in(b"\0u\0q").is_err());
    assert_eq!(failed(), 1);
    // A new password is the only one at once.
    let command = Command::UserPut {
        user: "u".to_owned(),
        password: Some(slow(HASH_OF_Q)),
        tags: None,
    };
    let changed = node.broker.execute(node.broker.now(), &command);
    changed.expect("carried out");
    assert!(log_in(b"\0u\0p").is_err());
    assert!(log_in(b"\0u\0q").is_ok());
    node.shut_down();
}

#[test]
fn who_guesses_passwords_is_held_and_others_are_not() {
    let scratch = scratch("guesses");
    let node = start(scratch.path(), None);
    add_user(&node, &[]);
    let log_in = |response: &[u8]| {
        let socket = connect(address(&node, false));
        Client::log_in(socket, "PLAIN", response)
    };
    // Over HTTP and AMQP it is one count: guesses of a client that has hung up count as well.
    for guess in 0..GUESSES_FREE_PER_USER_AND_ADDRESS {
        let check = LoginCheck::new(
            "nobody",
            None,
            guess.to_string().into(),
            HashingAlgorithm::Sha256,
        );
        let verdict = node
            .broker
            .logins
            .at_once(Ipv4Addr::LOCALHOST.into(), &check);
        assert_eq!(verdict, Some(Verdict::Wrong));
    }
    assert!(log_in(b"\0nobody\0another").is_err());
    assert_eq!(node.broker.logins.held().0, 1);
    assert!(log_in(b"\0u\0p").is_ok());
    assert_eq!(node.broker.logins.held().0, 1);
    node.shut_down();
}
