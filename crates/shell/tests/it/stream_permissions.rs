//! Who may do what over the stream protocol, as the table of `permissions.txt` says, on a whole
//! node.

use crate::client::{connect, scratch, start};
use crate::stream_client::{OK, RESPONSE, StreamClient, text};
use leveret_auth::{HashingAlgorithm, PasswordHash};
use leveret_cluster::Env as _;
use leveret_metadata::Command;
use leveret_node::Env;
use leveret_shell::node::Node;
use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const TABLE: &str = include_str!("../../../../tests/interop/permissions.txt");
/// Access refused.
const REFUSED: u16 = 0x10;
/// No offset under this name.
const NO_OFFSET: u16 = 0x13;
/// What a user may have, on names that begin with `own`.
const LETTERS: [&str; 5] = ["-", "c", "w", "r", "cwr"];

/// A row: a command, and what it needs.
struct Row {
    command: &'static str,
    needs: &'static str,
}

impl Row {
    fn permits(&self, letters: &str, prefix: &str) -> bool {
        let has = |letter: &str| prefix == "own" && letters.contains(letter);
        self.needs == "-" || self.needs.split('+').all(has)
    }
}

fn rows() -> Vec<Row> {
    let rows = TABLE
        .lines()
        .filter_map(|line| line.strip_prefix("STREAM "));
    let words = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    words
        .map(|words| Row {
            command: words[0],
            needs: words[2],
        })
        .collect()
}

fn address(node: &Node) -> SocketAddr {
    node.stream_listening[0].0
}

fn user_of(letters: &str) -> String {
    format!("may-{letters}")
}

/// A user for each set of permissions, and one of another virtual host.
fn add_users(node: &Node) {
    let mut commands = vec![Command::VhostPut {
        vhost: "foreign".to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: None,
        tracing: None,
    }];
    for letters in LETTERS {
        let password = PasswordHash::new(HashingAlgorithm::Sha256, b"word", &[3; 16]);
        commands.push(Command::UserPut {
            user: user_of(letters),
            password: Some(password.expect("a password")),
            tags: Some(Vec::new()),
        });
        let pattern = |letter| match letters.contains(letter) {
            true => "^own".to_owned(),
            false => "^$".to_owned(),
        };
        commands.push(Command::PermissionSet {
            vhost: "/".to_owned(),
            user: user_of(letters),
            configure: pattern("c"),
            write: pattern("w"),
            read: pattern("r"),
        });
    }
    for command in &commands {
        let done = node.broker.execute(node.broker.now(), command);
        done.expect("carried out");
    }
}

/// One try of a command at objects of a prefix.
struct Try<'a> {
    /// Who may do everything.
    operator: &'a mut StreamClient,
    client: StreamClient,
    prefix: &'a str,
    letters: &'a str,
}

/// The list of one or no text.
fn list(texts: &[&str]) -> Vec<u8> {
    let mut bytes = (texts.len() as u32).to_be_bytes().to_vec();
    bytes.extend(texts.iter().flat_map(|word| text(word)));
    bytes
}

impl Try<'_> {
    /// The name of an object that the command is tried on.
    fn name(&self, kind: &str) -> Vec<u8> {
        text(&format!("{}-{kind}", self.prefix))
    }

    fn ask(&mut self, key: u16, parts: &[&[u8]]) -> bool {
        self.client.ask(key, parts).0 != REFUSED
    }

    /// Whether the command is carried out.
    fn is_permitted(&mut self, command: &str) -> bool {
        let (stream, super_stream) = (self.name("stream"), self.name("super"));
        let first = 1_u16.to_be_bytes();
        match command {
            "DeclarePublisher" => self.client.ask(0x01, &[&[1], &text(""), &stream]).0 == OK,
            "Publish" => self.publishes(),
            "QueryPublisherSequence" => self.ask(0x05, &[&text("ref"), &stream]),
            "DeletePublisher" => self.ask(0x06, &[&[9]]),
            "Subscribe" => {
                self.client
                    .ask(0x07, &[&[1], &stream, &first, &[0, 0], &list(&[])])
                    .0
                    == OK
            }
            "Credit" => {
                self.client.send(0x09, &[&[9], &first]);
                self.client.heard().0 == 0x09 | RESPONSE
            }
            "StoreOffset" => self.stores_an_offset(),
            "QueryOffset" => self.ask(0x0b, &[&text("ref"), &stream]),
            "Unsubscribe" => self.ask(0x0c, &[&[9]]),
            "Create" => {
                let name = self.name("new");
                let made = self.client.ask(0x0d, &[&name, &list(&[])]).0 == OK;
                assert_eq!(
                    self.operator.ask(0x0e, &[&name]).0 == OK,
                    made,
                    "it is there if it was made"
                );
                made
            }
            "Delete" => {
                let name = self.name("gone");
                assert_eq!(self.operator.ask(0x0d, &[&name, &list(&[])]).0, OK);
                let gone = self.client.ask(0x0e, &[&name]).0 == OK;
                assert_eq!(self.operator.ask(0x0e, &[&name]).0 == OK, !gone);
                gone
            }
            "Metadata" => self.ask(0x0f, &[&1_u32.to_be_bytes(), &stream]),
            "Close" => self.client.ask(0x16, &[&first, &text("it is enough")]).0 == OK,
            "Heartbeat" => {
                self.client.send(0x17, &[]);
                self.ask(0x0f, &[&list(&[])])
            }
            "Route" => self.ask(0x18, &[&text("a"), &super_stream]),
            "Partitions" => self.ask(0x19, &[&super_stream]),
            "ExchangeCommandVersions" => self.ask(0x1b, &[&list(&[])]),
            "StreamStats" => self.ask(0x1c, &[&stream]),
            "CreateSuperStream" => {
                let (name, part) = (self.name("new-super"), self.name("new-part"));
                let made = create_super_stream(&mut self.client, &name, &part) == OK;
                assert_eq!(self.operator.ask(0x1e, &[&name]).0 == OK, made);
                made
            }
            "DeleteSuperStream" => {
                let (name, part) = (self.name("gone-super"), self.name("gone-part"));
                assert_eq!(create_super_stream(self.operator, &name, &part), OK);
                let gone = self.client.ask(0x1e, &[&name]).0 == OK;
                assert_eq!(self.operator.ask(0x1e, &[&name]).0 == OK, !gone);
                gone
            }
            "ResolveOffsetSpec" => self.ask(0x1f, &[&stream, &first]),
            other => panic!("what is done by {other} is not known here"),
        }
    }

    fn publishes(&mut self) -> bool {
        let stream = self.name("stream");
        let declared = self.client.ask(0x01, &[&[1], &text(""), &stream]).0;
        let message = [&0_u64.to_be_bytes()[..], &4_u32.to_be_bytes(), b"word"].concat();
        self.client
            .send(0x02, &[&[1], &1_u32.to_be_bytes(), &message]);
        let (answer, _) = self.client.heard();
        assert!([0x03, 0x04].contains(&answer), "a confirm or an error");
        assert_eq!(declared == OK, answer == 0x03);
        answer == 0x03
    }

    /// Nothing answers it: who may look it up does.
    fn stores_an_offset(&mut self) -> bool {
        let (stream, name) = (self.name("stream"), text(&format!("of-{}", self.letters)));
        self.client
            .send(0x0a, &[&name, &stream, &5_u64.to_be_bytes()]);
        // Behind it: it was looked at.
        self.client.ask(0x0f, &[&1_u32.to_be_bytes(), &stream]);
        let may = self.prefix == "own" && self.letters.contains('r');
        let started = Instant::now();
        loop {
            let found = self.operator.ask(0x0b, &[&name, &stream]).0;
            assert!([OK, NO_OFFSET].contains(&found), "{found}");
            // A refused one never comes; one that is late is waited for.
            if found == OK || !may || started.elapsed() > Duration::from_secs(20) {
                return found == OK;
            }
        }
    }
}

fn create_super_stream(client: &mut StreamClient, name: &[u8], partition: &[u8]) -> u16 {
    let one = 1_u32.to_be_bytes();
    let parts: [&[u8]; 6] = [name, &one, partition, &one, &text("a"), &list(&[])];
    client.ask(0x1d, &parts).0
}

#[test]
fn a_command_needs_what_the_table_says() {
    let scratch = scratch("stream-permissions");
    let node = start(scratch.path(), None);
    add_users(&node);
    let mut operator = StreamClient::open(address(&node), "guest").expect("open");
    for prefix in ["own", "other"] {
        assert_eq!(operator.create(&format!("{prefix}-stream")), OK);
        let (name, part) = (
            text(&format!("{prefix}-super")),
            text(&format!("{prefix}-part")),
        );
        assert_eq!(create_super_stream(&mut operator, &name, &part), OK);
    }
    let mut wrong = Vec::new();
    for (row, letters) in rows()
        .iter()
        .flat_map(|row| LETTERS.map(|letters| (row, letters)))
    {
        for prefix in ["own", "other"] {
            let client = StreamClient::open_as(address(&node), &user_of(letters), "word", "/");
            let mut tried = Try {
                operator: &mut operator,
                client: client.expect("open"),
                prefix,
                letters,
            };
            let permitted = tried.is_permitted(row.command);
            if permitted != row.permits(letters, prefix) {
                wrong.push(format!(
                    "{} with {letters} at {prefix}: {permitted}",
                    row.command
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    drop(operator);
    node.shut_down();
}

#[test]
fn a_virtual_host_is_for_its_users() {
    let scratch = scratch("stream-foreign");
    let node = start(scratch.path(), None);
    add_users(&node);
    for letters in LETTERS {
        let opened = StreamClient::open_as(address(&node), &user_of(letters), "word", "foreign");
        assert_eq!(opened.err(), Some(0x0c), "no access to the virtual host");
    }
    node.shut_down();
}

#[test]
fn who_is_not_logged_in_may_do_nothing() {
    let scratch = scratch("stream-strangers");
    let node = start(scratch.path(), None);
    let mut operator = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(operator.create("s"), OK);
    // Every command, those that only the broker sends and those that nobody knows included, but for
    // those by which one logs in.
    let login = [0x11, 0x12, 0x13];
    for key in (0x00..=0x20).filter(|key| !login.contains(key)) {
        let mut stranger = StreamClient(connect(address(&node)));
        let stream = text("s");
        stranger.send(key, &[&7_u32.to_be_bytes(), &stream, &stream, &[0; 16]]);
        let mut said = Vec::new();
        // The broker ends it; a reset is an end too.
        let _ = stranger.0.read_to_end(&mut said);
        let answered = said
            .get(4..6)
            .map(|key| u16::from_be_bytes([key[0], key[1]]));
        assert_ne!(answered, Some(key | RESPONSE), "command {key:#x}: {said:?}");
    }
    assert_eq!(operator.declare_publisher("s"), OK, "it is still there");
    drop(operator);
    node.shut_down();
}

#[test]
fn a_login_over_the_stream_protocol_is_counted_as_one() {
    let scratch = scratch("stream-logins");
    let node = start(scratch.path(), None);
    let counted = || {
        let counters = node.broker.counters().values();
        let of_streams = (
            counters.stream_logins_succeeded,
            counters.stream_logins_failed,
        );
        (
            of_streams,
            counters.logins_succeeded,
            counters.logins_failed,
        )
    };
    assert_eq!(StreamClient::open(address(&node), "wrong").err(), Some(8));
    assert_eq!(counted(), ((0, 1), 0, 0));
    let client = StreamClient::open(address(&node), "guest").expect("open");
    assert_eq!(counted(), ((1, 1), 0, 0));
    drop(client);
    // A response that names nobody is one that has failed, too.
    let mut malformed = StreamClient(connect(address(&node)));
    assert_eq!(malformed.ask(0x11, &[&0_u32.to_be_bytes()]).0, OK);
    assert_eq!(malformed.ask(0x12, &[]).0, OK);
    let (code, _) = malformed.ask(0x13, &[&text("PLAIN"), &1_u32.to_be_bytes(), b"?"]);
    assert_eq!(code, 8);
    assert_eq!(counted(), ((1, 2), 0, 0));
    drop(malformed);
    node.shut_down();
}
