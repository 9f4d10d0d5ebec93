//! Attacks on a running node, each as somebody outside would carry it out: over sockets, with what
//! a client may have. Loads are small: what is measured at length is measured in benchmarks.

use crate::common::{Folder, Node, free_addresses, serve};
use crate::serve::{connect, frame, read_frame};
use leveret_amqp::{
    ContentHeader, EncodeMethod, FrameKind, Method, PROTOCOL_HEADER, Properties, TableBuilder,
    basic, channel, confirm, connection, encode, next_frame, queue,
};
use leveret_types::FieldValue;
use leveret_types::limits::{
    FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES, OUTBOX_BYTES_SCARCE, SOCKET_OUTPUTS_BYTES_MAX,
    SOCKET_READ_BYTES,
};
use socket2::{Domain, Socket, Type};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Long enough for an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn dial(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let patience = Some(PATIENCE);
    socket.set_read_timeout(patience).expect("a deadline");
    socket
}

/// An AMQP client that does nothing by itself.
struct Client {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Client {
    /// Connects and says who it is, and what it is called; what is answered waits to be read.
    fn greet(port: u16, user: &str, password: &str, name: &str) -> Self {
        let mut client = Self {
            socket: dial(port),
            input: Vec::new(),
        };
        client.send_bytes(&PROTOCOL_HEADER);
        client.answer().expect("connection.start");
        let mut properties = TableBuilder::new();
        properties.push("connection_name", &FieldValue::text(name));
        let response = format!("\0{user}\0{password}");
        client.send(
            0,
            &connection::StartOk {
                client_properties: properties.as_table(),
                mechanism: "PLAIN",
                response: response.as_bytes(),
                locale: "en_US",
            },
        );
        client
    }

    /// Logs in, and opens channel 1.
    fn log_in(port: u16, user: &str, password: &str) -> Self {
        let mut client = Self::greet(port, user, password, "honest");
        client.answer().expect("connection.tune");
        client.send(
            0,
            &connection::TuneOk {
                channel_max: 2_047,
                frame_max: FRAME_BYTES_MAX,
                heartbeat: 0,
            },
        );
        client.call(0, &connection::Open { virtual_host: "/" });
        client.call(1, &channel::Open {});
        client
    }

    fn send(&mut self, channel: u16, method: &impl EncodeMethod) {
        let mut bytes = Vec::new();
        encode::method(&mut bytes, channel, method);
        self.send_bytes(&bytes);
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it is sent");
    }

    fn call(&mut self, channel: u16, method: &impl EncodeMethod) -> Vec<u8> {
        self.send(channel, method);
        self.answer().expect("an answer")
    }

    /// The payload of the next method.
    fn answer(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = next_frame(&self.input, FRAME_BYTES_MAX).expect("frames") {
                let (payload, kind) = (frame.payload.to_vec(), frame.kind);
                self.input
                    .drain(..payload.len() + FRAME_OVERHEAD_BYTES as usize);
                if kind == FrameKind::Method {
                    return Ok(payload);
                }
                continue;
            }
            let mut bytes = [0; 4_096];
            match self.socket.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// The code with which the node closes the channel or the connection next, if it does.
    fn refusal(&mut self) -> Option<u16> {
        let payload = self.answer().expect("an answer");
        match Method::decode(&payload).expect("a method") {
            Method::ChannelClose(close) => Some(close.reply_code),
            Method::ConnectionClose(close) => Some(close.reply_code),
            _ => None,
        }
    }

    fn publish(&mut self, exchange: &str, key: &[u8]) {
        self.publish_body(exchange, key, &[]);
    }

    fn publish_body(&mut self, exchange: &str, key: &[u8], body: &[u8]) {
        let mut out = Vec::new();
        let publish = basic::Publish {
            exchange: exchange.as_bytes(),
            routing_key: key,
            mandatory: false,
            immediate: false,
        };
        encode::method(&mut out, 1, &publish);
        let properties = Properties {
            delivery_mode: Some(2),
            ..Properties::default()
        };
        encode::frame(&mut out, FrameKind::Header, 1, |out| {
            let header = ContentHeader {
                class: 60,
                body_size: body.len() as u64,
                properties: &properties.to_bytes(),
            };
            header.encode(out);
        });
        for part in body.chunks(FRAME_BYTES_MAX as usize - FRAME_OVERHEAD_BYTES as usize) {
            encode::frame(&mut out, FrameKind::Body, 1, |out| {
                out.extend_from_slice(part)
            });
        }
        self.send_bytes(&out);
    }

    /// Whether nothing has been answered yet.
    fn is_silent(&mut self) -> bool {
        self.socket.set_nonblocking(true).expect("a socket");
        let read = self.socket.read(&mut [0; 1]);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Asks the HTTP API as a user over TCP: the answer, head and body.
fn ask(port: u16, user: &str, method: &str, path: &str, body: &str) -> String {
    use base64::Engine as _;
    let login = base64::engine::general_purpose::STANDARD.encode(user);
    let mut socket = dial(port);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Basic {login}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

fn status_of(answer: &str) -> u16 {
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no status in {answer}"))
}

/// A node with an HTTP API on a port of its own, and what more its command says.
fn start(folder: &Folder, more: &[&str]) -> Node {
    let mut command = serve(&folder.data());
    command.args(["--http", "127.0.0.1:0"]).args(more);
    Node::start(&mut command, &folder.data())
}

/// A user with this tag, if any, and these permissions in the default virtual host. The password
/// is the name.
fn add_user(node: &Node, user: &str, tag: &str, [configure, write, read]: [&str; 3]) {
    node.told(&["add_user", user, user]);
    if !tag.is_empty() {
        node.told(&["set_user_tags", user, tag]);
    }
    node.told(&["set_permissions", "-p", "/", user, configure, write, read]);
}

const ALL: [&str; 3] = [".*"; 3];

#[test]
fn wrong_logins_that_nobody_awaits_hold_up_no_publisher() {
    const FLOOD: usize = 40;
    let folder = Folder::new("login-flood");
    let config = folder.write("flood.conf", "password_hashing_module = argon2id\n");
    let node = start(&folder, &["--config", config.to_str().expect("text")]);
    let port = node.port("amqp");
    let mut publisher = Client::log_in(port, "guest", "guest");
    publisher.call(1, &confirm::Select { nowait: false });
    let greet = |number| Client::greet(port, &format!("nobody-{number}"), "guess", "flood");
    let mut flood: Vec<Client> = (0..FLOOD).map(greet).collect();
    for _ in 0..10 {
        publisher.publish("amq.topic", b"key");
        let confirm = publisher.answer().expect("a confirm");
        assert!(matches!(Method::decode(&confirm), Ok(Method::BasicAck(_))));
    }
    let waiting = flood.iter_mut().map(Client::is_silent);
    let waiting = waiting.filter(|is_silent| *is_silent).count();
    assert!(
        waiting > FLOOD / 2,
        "the confirms came after {} of {FLOOD} logins",
        FLOOD - waiting
    );
}

#[test]
fn parameters_of_reserved_components_are_no_way_to_a_policy() {
    let folder = Folder::new("components");
    let node = start(&folder, &[]);
    let port = node.port("http");
    add_user(&node, "pat", "policymaker", ALL);
    let policy = r#"{"value":{"pattern":".*","definition":{"max-length":0},"apply-to":"queues"}}"#;
    let limits = r#"{"value":{"max-connections":0}}"#;
    for (component, name, body) in [
        ("operator_policy", "mine", policy),
        ("policy", "mine", policy),
        ("vhost-limits", "limits", limits),
        ("user-limits", "limits", limits),
        ("global", "cluster_name", r#"{"value":"mine"}"#),
        ("nobody-knows-it", "mine", limits),
        ("operator_policy%00", "mine", policy),
    ] {
        let path = format!("/api/parameters/{component}/%2F/{name}");
        let answer = ask(port, "pat:pat", "PUT", &path, body);
        let status = status_of(&answer);
        assert!((400..500).contains(&status), "{component}: {answer}");
    }
    let told = ask(port, "guest:guest", "GET", "/api/definitions", "");
    assert_eq!(status_of(&told), 200);
    let (_, all) = told.split_once("\r\n\r\n").expect("a body");
    for stored in ["\"mine\"", "max-connections", "max-length"] {
        assert!(!all.contains(stored), "{stored} in {all}");
    }
    // What is exported can be imported.
    let again = ask(port, "guest:guest", "POST", "/api/definitions", all);
    assert!(status_of(&again) < 300, "{again}");
}

#[test]
fn silent_sockets_of_one_address_keep_nobody_else_from_the_http_api_and_do_not_stay() {
    const SOCKETS: usize = 300;
    let folder = Folder::new("silent");
    let node = start(&folder, &[]);
    let port = node.port("http");
    let from_elsewhere = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let own = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0));
        socket.bind(&own.into()).expect("it is bound");
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        socket.connect(&to.into()).expect("it listens");
        TcpStream::from(socket)
    };
    // Whoever has begun a request has five times as long for its head as the others for a byte.
    let mut begun = dial(port);
    begun.write_all(b"G").expect("a byte");
    let silent: Vec<TcpStream> = (0..SOCKETS).map(|_| from_elsewhere()).collect();
    let answer = ask(port, "guest:guest", "GET", "/api/whoami", "");
    assert_eq!(status_of(&answer), 200, "{answer}");
    // Those that say nothing are dropped. The last ones have had no longer than the first.
    let is_late = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    for mut socket in silent {
        socket.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut said = Vec::new();
        let ended = socket.read_to_end(&mut said);
        assert!(!ended.is_err_and(|error| is_late(&error)), "it stays");
    }
    // Came before all of them, and is still waited for.
    begun.set_nonblocking(true).expect("a socket");
    let ended = begun.read(&mut [0]);
    let waits = ended.is_err_and(|error| is_late(&error));
    assert!(waits, "who has begun a request outlives who is silent");
}

/// A node that may have so many file descriptors; its log goes to a file of the folder.
fn with_few_descriptors(folder: &Folder, descriptors: u32) -> Node {
    let config = folder.write("small.conf", "wal.file_size = 4MiB\n");
    let serve = serve(&folder.data());
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .args([
            "-c",
            &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""),
        ])
        .arg(serve.get_program())
        .args(serve.get_args())
        .args(["--http", "127.0.0.1:0", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stderr(File::create(folder.path().join("log")).expect("a file"));
    Node::start(&mut command, &folder.data())
}

fn come(port: u16) -> Option<TcpStream> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok()
}

#[test]
fn strangers_who_take_all_descriptors_that_they_get_leave_the_log_its_own() {
    const SOCKETS: usize = 300;
    let folder = Folder::new("few-descriptors");
    let mut node = with_few_descriptors(&folder, 256);
    let mut publisher = Client::log_in(node.port("amqp"), "guest", "guest");
    publisher.call(1, &confirm::Select { nowait: false });
    let declare = queue::Declare {
        queue: "kept",
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: leveret_amqp::RawTable::EMPTY,
    };
    publisher.call(1, &declare);
    let ports = [node.port("http"), node.port("amqp")];
    let crowd: Vec<TcpStream> = ports
        .iter()
        .flat_map(|port| (0..SOCKETS).filter_map(move |_| come(*port)))
        .collect();
    // Several files of the log are used up, and new ones are made, while the crowd is there.
    let body = vec![b'k'; 64 * 1024];
    for _ in 0..400 {
        publisher.publish_body("", b"kept", &body);
        let confirm = publisher.answer().expect("a confirm");
        assert!(matches!(Method::decode(&confirm), Ok(Method::BasicAck(_))));
    }
    drop(crowd);
    assert!(matches!(node.process.try_wait(), Ok(None)), "it has ended");
}

#[test]
fn files_of_many_streams_fit_into_what_clients_leave() {
    const STREAMS: usize = 250;
    const CROWD: usize = 300;
    let folder = Folder::new("few-descriptors-streams");
    let mut node = with_few_descriptors(&folder, 256);
    let port = node.port("amqp");
    let mut client = Client::log_in(port, "guest", "guest");
    // Whoever comes when there is no descriptor left is turned away, and the log says why.
    let crowd: Vec<TcpStream> = (0..CROWD).filter_map(|_| come(port)).collect();
    let mut last = crowd.last().expect("it is accepted by the system");
    last.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let turned_away = match last.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    };
    assert!(turned_away, "the last of {CROWD} was let in");
    let log = fs::read_to_string(folder.path().join("log")).expect("text");
    assert!(
        log.contains("connection refused: cannot accept it"),
        "{log}"
    );
    client.call(1, &confirm::Select { nowait: false });
    let mut arguments = TableBuilder::new();
    arguments.push("x-queue-type", &FieldValue::text("stream"));
    let names: Vec<String> = (0..STREAMS).map(|n| format!("s{n}")).collect();
    for name in &names {
        let declare = queue::Declare {
            queue: name,
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: arguments.as_table(),
        };
        let declared = client.call(1, &declare);
        let declared = Method::decode(&declared).expect("a method");
        assert!(matches!(declared, Method::QueueDeclareOk(_)), "{name}");
        client.publish_body("", name.as_bytes(), name.as_bytes());
        let confirm = client.answer().expect("a confirm");
        let confirm = Method::decode(&confirm).expect("a method");
        assert!(matches!(confirm, Method::BasicAck(_)), "{name}");
    }
    assert!(matches!(node.process.try_wait(), Ok(None)), "it has ended");
    read_each_from_its_first(&mut client, &names);
    drop(crowd);
    assert!(node.terminate(), "an orderly end");
}

/// Consumes from each stream, which has one message, and stays its consumer.
fn read_each_from_its_first(client: &mut Client, streams: &[String]) {
    let qos = basic::Qos {
        prefetch_size: 0,
        prefetch_count: 1,
        global: false,
    };
    client.call(1, &qos);
    let mut arguments = TableBuilder::new();
    arguments.push("x-stream-offset", &FieldValue::text("first"));
    for name in streams {
        let consume = basic::Consume {
            queue: name,
            consumer_tag: name,
            no_local: false,
            no_ack: false,
            exclusive: false,
            nowait: false,
            arguments: arguments.as_table(),
        };
        let consumes = client.call(1, &consume);
        let consumes = Method::decode(&consumes).expect("a method");
        assert!(matches!(consumes, Method::BasicConsumeOk(_)), "{name}");
        let delivered = client.answer().expect("a delivery");
        let delivered = Method::decode(&delivered).expect("a method");
        assert!(matches!(delivered, Method::BasicDeliver(_)), "{name}");
    }
}

#[test]
fn no_name_of_a_stranger_makes_a_line_of_the_log() {
    const FORGED: &str = "2026-01-01T00:00:00Z  INFO everything is well";
    let folder = Folder::new("forged");
    let path = folder.path().join("log");
    let mut command = serve(&folder.data());
    command.args(["--http", "127.0.0.1:0"]);
    command.stderr(File::create(&path).expect("a file"));
    let node = Node::start(&mut command, &folder.data());
    let name = format!("eve\n{FORGED}\r\x1b[2J\x1b[31mred\u{9b}31m");
    let mut stranger = Client::greet(node.port("amqp"), &name, "wrong", &name);
    // The failure is told late, to a guesser, or by the end of the connection.
    let _ = stranger.answer();
    drop(stranger);
    let refused = ask(
        node.port("http"),
        &format!("{name}:wrong"),
        "GET",
        "/api/whoami",
        "",
    );
    assert_eq!(status_of(&refused), 401);
    // Who knows a password names a connection so.
    let mut insider = Client::greet(node.port("amqp"), "guest", "guest", &name);
    insider.answer().expect("connection.tune");
    drop(insider);
    assert!(node.terminate(), "an orderly end");
    let log = fs::read(&path).expect("the log");
    let log = String::from_utf8(log).expect("text");
    assert!(log.contains("everything is well"), "it is told: {log}");
    // One filter finds both failed logins.
    let refused = log.lines().filter(|line| line.contains(" login refused: "));
    let refused: Vec<&str> = refused.filter(|line| line.contains("user=")).collect();
    assert_eq!(refused.len(), 2, "{log}");
    assert!(refused[1].contains("protocol=\"http\""), "{refused:?}");
    for line in log.lines() {
        assert!(!line.starts_with(FORGED), "a forged line in {log}");
        let is_plain = |c: char| !c.is_control() || c == '\t';
        assert!(line.chars().all(is_plain), "{line:?}");
    }
}

#[test]
fn who_does_not_know_the_secret_of_a_cluster_on_this_machine_is_no_member() {
    let folder = Folder::new("stranger");
    let addresses = free_addresses(3);
    let joining = |at: usize, name: &str| {
        let mut command = serve(&folder.path().join(name));
        command.args(["--http", "none", "--cluster", &addresses[at]]);
        command.args(["--join", &addresses[0]]);
        command
    };
    let founder = Node::start(&mut joining(0, "data"), &folder.data());
    // Without a secret it does not even start. With one of its own it tries again and again.
    let ended = joining(1, "without").stdout(Stdio::null()).status();
    assert!(!ended.expect("it ends").success());
    let mut guess = joining(1, "guess");
    guess.env("LEVERET_CLUSTER_SECRET", "a guess");
    let mut guess = guess.stdout(Stdio::null()).spawn().expect("it starts");
    // Who can read the founder's file comes in meanwhile.
    let mut member = joining(2, "member");
    member.env(
        "LEVERET_CLUSTER_SECRET_FILE",
        folder.data().join("cluster.secret"),
    );
    let member = Node::start(&mut member, &folder.path().join("member"));
    let told = founder.http("GET", "/api/nodes", "");
    let _ = guess.kill();
    let _ = guess.wait();
    let (_, nodes) = told.split_once("\r\n\r\n").expect("a body");
    let nodes: serde_json::Value = serde_json::from_str(nodes).expect("JSON");
    assert_eq!(nodes.as_array().map(Vec::len), Some(2), "{nodes}");
    assert!(member.terminate() && founder.terminate(), "an orderly end");
}

#[test]
fn a_topic_permission_for_a_client_id_permits_nothing_where_there_is_none() {
    let folder = Folder::new("client-id");
    let node = start(&folder, &[]);
    add_user(&node, "ida", "", ALL);
    let pattern = "^{client_id}";
    node.told(&[
        "set_topic_permissions",
        "-p",
        "/",
        "ida",
        "amq.topic",
        pattern,
        pattern,
    ]);
    for key in [&b""[..], b"anything", b"{client_id}", b"undefined"] {
        let mut client = Client::log_in(node.port("amqp"), "ida", "ida");
        client.publish("amq.topic", key);
        assert_eq!(client.refusal(), Some(403), "{key:?}");
    }
}

#[test]
fn a_pattern_matches_no_name_that_only_looks_alike() {
    let folder = Folder::new("alike");
    let node = start(&folder, &[]);
    add_user(&node, "uma", "", [r"(?i)^(\d+|k)$", "^$", "^$"]);
    let declare = |name: &str| {
        let mut client = Client::log_in(node.port("amqp"), "uma", "uma");
        client.send(
            1,
            &queue::Declare {
                queue: name,
                passive: false,
                durable: true,
                exclusive: false,
                auto_delete: false,
                nowait: false,
                arguments: TableBuilder::new().as_table(),
            },
        );
        client.refusal()
    };
    for name in ["3", "k", "K"] {
        assert_eq!(declare(name), None, "{name}");
    }
    // An Arabic three and the Kelvin sign.
    for name in ["\u{663}", "\u{212a}", "kk"] {
        assert_eq!(declare(name), Some(403), "{name:?}");
    }
}

/// Publishes that nobody takes, and that come back, to a client that reads none of them: until it
/// can send no more.
fn leave_returns_unread(port: u16) -> TcpStream {
    const BODY: usize = 100_000;
    let mut client = connect(port);
    client
        .write_all(&frame(1, &[0, 20, 0, 10, 0]))
        .expect("written");
    read_frame(&mut client).expect("channel.open-ok");
    let publish = b"\0\x3c\0\x28\0\0\x0aamq.direct\x06nobody\x01";
    let size = (BODY as u64).to_be_bytes();
    let header = [&[0, 60, 0, 0][..], &size, &[0, 0]].concat();
    let message = [frame(1, publish), frame(2, &header), frame(3, &[0; BODY])].concat();
    let patience = Some(Duration::from_secs(3));
    client.set_write_timeout(patience).expect("a deadline");
    // More than its and the node's sockets hold, and what the node would keep of one connection.
    for _ in 0..400 {
        if client.write_all(&message).is_err() {
            break;
        }
    }
    client
}

#[test]
fn what_clients_leave_unread_is_bounded_for_all_together() {
    const CLIENTS: usize = 60;
    let folder = Folder::new("unread");
    let data = folder.data();
    let node = Node::without_http(&data);
    let port = node.port("amqp");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| thread::spawn(move || leave_returns_unread(port)))
        .collect();
    let clients: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
    let answer = node.http("GET", "/api/connections?columns=send_pend", "");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(body.expect("a body")).expect("a list of connections");
    assert_eq!(rows.len(), CLIENTS);
    let unread = rows.iter().filter_map(|row| row["send_pend"].as_u64());
    let unread = unread.sum::<u64>() as usize;
    // What one read brings may exceed a bound.
    let most = SOCKET_OUTPUTS_BYTES_MAX + CLIENTS * 2 * (OUTBOX_BYTES_SCARCE + SOCKET_READ_BYTES);
    assert!(unread > SOCKET_OUTPUTS_BYTES_MAX / 2, "{unread}");
    assert!(unread < most, "{unread} of {most}");
    assert!(clients.iter().all(Result::is_ok));
    // Others are served.
    let mut other = connect(port);
    other
        .write_all(&frame(1, &[0, 20, 0, 10, 0]))
        .expect("written");
    assert_eq!(read_frame(&mut other).expect("an answer"), [0, 20, 0, 11]);
}
