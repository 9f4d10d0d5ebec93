//! The bytes of commands, frozen: a node must read the log that an older version of it wrote.

use leveret_auth::{HashingAlgorithm, PasswordHash};
use leveret_metadata::{Command, Endpoint, FORMAT_VERSION};
use leveret_types::{FieldTable, FieldValue};

const GOLDEN: &str = include_str!("golden/v1/commands.txt");

fn arguments() -> FieldTable {
    FieldTable::from([
        ("t", FieldValue::Bool(true)),
        ("b", FieldValue::I8(-1)),
        ("B", FieldValue::U8(1)),
        ("s", FieldValue::I16(-2)),
        ("u", FieldValue::U16(2)),
        ("I", FieldValue::I32(-3)),
        ("i", FieldValue::U32(3)),
        ("l", FieldValue::I64(-4)),
        ("f", FieldValue::F32(0.5)),
        ("d", FieldValue::F64(-0.25)),
        (
            "D",
            FieldValue::Decimal {
                scale: 2,
                value: 314,
            },
        ),
        ("S", FieldValue::LongString(vec![0xFF, b'a'])),
        ("x", FieldValue::Bytes(vec![0, 1])),
        (
            "A",
            FieldValue::Array(vec![FieldValue::Void, FieldValue::text("a")]),
        ),
        ("T", FieldValue::Timestamp(1_700_000_000)),
        (
            "F",
            FieldValue::Table(FieldTable::from([("k", FieldValue::I32(1))])),
        ),
        ("V", FieldValue::Void),
    ])
}

/// One of each.
fn commands() -> Vec<Command> {
    let text = |text: &str| text.to_owned();
    let (vhost, user) = (text("/"), text("u"));
    let password = PasswordHash {
        algorithm: HashingAlgorithm::Sha256,
        text: text("aGFzaA=="),
    };
    vec![
        Command::VhostPut {
            vhost: vhost.clone(),
            description: Some(text("d")),
            tags: Some(vec![text("t")]),
            default_queue_type: Some(text("quorum")),
            protected: Some(true),
            tracing: None,
        },
        Command::VhostDelete {
            vhost: vhost.clone(),
        },
        Command::UserPut {
            user: user.clone(),
            password: Some(password),
            tags: None,
        },
        Command::UserDelete { user: user.clone() },
        Command::PermissionSet {
            vhost: vhost.clone(),
            user: user.clone(),
            configure: text("c"),
            write: text("w"),
            read: text("r"),
        },
        Command::PermissionClear {
            vhost: vhost.clone(),
            user: user.clone(),
        },
        Command::TopicPermissionSet {
            vhost: vhost.clone(),
            user: user.clone(),
            exchange: text("x"),
            write: text("w"),
            read: text("r"),
        },
        Command::TopicPermissionClear {
            vhost: vhost.clone(),
            user: user.clone(),
            exchange: None,
        },
        Command::VhostLimitSet {
            vhost: vhost.clone(),
            limit: text("max-queues"),
            value: -1,
        },
        Command::VhostLimitClear {
            vhost: vhost.clone(),
            limit: None,
        },
        Command::UserLimitSet {
            user: user.clone(),
            limit: text("max-channels"),
            value: 9,
        },
        Command::UserLimitClear {
            user,
            limit: Some(text("max-channels")),
        },
        Command::PolicySet {
            vhost: vhost.clone(),
            name: text("p"),
            operator: true,
            pattern: text("^q"),
            apply_to: text("queues"),
            priority: 7,
            definition: FieldTable::from([("max-length", FieldValue::I64(1))]),
        },
        Command::PolicyClear {
            vhost: vhost.clone(),
            name: text("p"),
            operator: false,
        },
        Command::ParameterSet {
            vhost: vhost.clone(),
            component: text("shovel"),
            name: text("s"),
            value: FieldValue::Table(arguments()),
        },
        Command::ParameterClear {
            vhost: vhost.clone(),
            component: text("shovel"),
            name: text("s"),
        },
        Command::GlobalParameterSet {
            name: text("g"),
            value: FieldValue::text("v"),
        },
        Command::GlobalParameterClear { name: text("g") },
        Command::ExchangeDeclare {
            vhost: vhost.clone(),
            name: text("x"),
            kind: text("topic"),
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: FieldTable::new(),
        },
        Command::ExchangeDelete {
            vhost: vhost.clone(),
            name: text("x"),
            if_unused: true,
        },
        Command::QueueDeclare {
            vhost: vhost.clone(),
            name: text("q"),
            durable: true,
            exclusive: Some(5),
            auto_delete: true,
            arguments: arguments(),
            random: [0xAB; 16],
            shards: 2,
            id: Some(513),
        },
        Command::QueueDelete {
            vhost: vhost.clone(),
            name: text("q"),
            connection: None,
            id: Some(513),
        },
        Command::Bind {
            vhost: vhost.clone(),
            source: text("x"),
            destination: Endpoint::Queue(text("q")),
            routing_key: vec![0xFF, b'k'],
            arguments: FieldTable::new(),
        },
        Command::Unbind {
            vhost,
            source: text("x"),
            destination: Endpoint::Exchange(text("y")),
            routing_key: b"k".to_vec(),
            arguments: FieldTable::new(),
        },
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_never_change() {
    assert_eq!(FORMAT_VERSION, 1);
    let now: Vec<String> = commands()
        .iter()
        .map(|command| hex(&command.encode()))
        .collect();
    let frozen: Vec<&str> = GOLDEN.lines().collect();
    assert_eq!(now, frozen, "\n{}", now.join("\n"));
}

#[test]
fn frozen_bytes_are_still_read() {
    let bytes = |line: &str| -> Vec<u8> {
        let digits = (0..line.len()).step_by(2);
        digits
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex"))
            .collect()
    };
    let read: Vec<Command> = GOLDEN
        .lines()
        .map(|line| Command::decode(&bytes(line)).expect("a command"))
        .collect();
    assert_eq!(read, commands());
}

#[test]
fn damaged_bytes_are_refused() {
    for command in commands() {
        let bytes = command.encode();
        for length in 0..bytes.len() {
            assert!(
                Command::decode(&bytes[..length]).is_err(),
                "{command:?} cut to {length}"
            );
        }
    }
    let text = Command::decode(&[9]).map_err(|error| error.to_string());
    assert_eq!(text, Err("unreadable command: format version 9".to_owned()));
    // Nesting without end is refused, not followed.
    let mut deep = vec![FORMAT_VERSION];
    deep.extend(std::iter::repeat_n(0x81, 100_000));
    assert!(Command::decode(&deep).is_err());
}
