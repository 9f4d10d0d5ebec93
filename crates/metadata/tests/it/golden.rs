//! The bytes of commands and of a cluster's snapshot, frozen: a node must read the log that an
//! older version of it wrote. The snapshot is written anew by
//! `LEVERET_GOLDEN=write cargo test -p leveret-metadata --test it golden::`.

use leveret_auth::{HashingAlgorithm, PasswordHash};
use leveret_metadata::{
    Batch, Catalogue, Command, Config, Endpoint, FORMAT_VERSION, NodeRecord, Proposed,
};
use leveret_types::{FieldTable, FieldValue, NodeId};
use std::path::Path;

const GOLDEN: &str = include_str!("../golden/v1/commands.txt");

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
        Command::NodeLost { node: 2, start: 7 },
        Command::SuperStreamDeclare {
            vhost: text("/"),
            name: text("s"),
            arguments: arguments(),
            partitions: vec![(text("p"), text("k"))],
        },
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(line: &str) -> Vec<u8> {
    let digits = (0..line.len()).step_by(2);
    digits
        .map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex"))
        .collect()
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
    let read: Vec<Command> = GOLDEN
        .lines()
        .map(|line| Command::decode(&bytes_of(line)).expect("a command"))
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

/// The catalogue of a cluster of three nodes that has some of everything.
fn clustered() -> Catalogue {
    let mut catalogue = Catalogue::new(Config::default());
    let first = NodeRecord {
        node: 1,
        uuid: [1; 16],
        address: "a:1".to_owned(),
        name: "node-1".to_owned(),
        start: 3,
        applied: 0,
        draining: false,
        votes: true,
    };
    catalogue.found(first, &["b:1".to_owned()]);
    let join = |node: u8, address: &str| Command::NodeJoin {
        uuid: [node; 16],
        address: address.to_owned(),
        name: format!("node-{node}"),
    };
    let mut all = vec![join(2, "b:1"), join(3, "c:1")];
    // What deletes is left out, what only a queue's owner may do, and what needs streams.
    all.extend(commands().into_iter().filter(|command| {
        let name = format!("{command:?}");
        let makes = ["Put", "Set", "Declare", "Bind "];
        let needs_streams = matches!(command, Command::SuperStreamDeclare { .. });
        makes.iter().any(|part| name.contains(part)) && !needs_streams
    }));
    for (id, command) in (1..).zip(all) {
        let batch = Batch {
            rules: catalogue.rules(),
            up: vec![1, 2, 3],
            commands: vec![Proposed {
                origin: 1,
                start: 7,
                id,
                command,
            }],
        };
        catalogue.apply_batch(&batch);
    }
    catalogue
}

#[test]
fn a_snapshot_of_a_cluster_is_written_and_read_as_it_ever_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/snapshot.txt");
    let now = hex(&clustered().snapshot());
    if std::env::var_os("LEVERET_GOLDEN").is_some() {
        std::fs::write(&path, now.clone() + "\n").expect("a file");
    }
    let frozen = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(now, frozen.trim_end(), "the format has changed");
    let read = Catalogue::restore(Config::default(), &bytes_of(frozen.trim_end()));
    let read = read.expect("a snapshot");
    assert_eq!(hex(&read.snapshot()), now);
    assert!(read.is_clustered());
    let nodes: Vec<NodeId> = read.nodes().map(|node| node.id()).collect();
    assert_eq!(nodes, [NodeId(1), NodeId(2), NodeId(3)]);
    assert_eq!(read.queues(Some("/")).count(), 1);
}
