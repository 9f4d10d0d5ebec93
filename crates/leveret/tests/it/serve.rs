//! The binary as a supervisor and an operator meet it: it says when it is ready and when it stops,
//! answers the command line, and begins with the definitions that it is given.

use crate::common::{BINARY, Folder, Node, free_addresses, serve};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A client's connection, logged in as guest.
pub fn connect(port: u16) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    socket.write_all(b"AMQP\0\0\x09\x01").expect("written");
    let send = |socket: &mut TcpStream, method: &[u8]| {
        let length = u32::try_from(method.len()).expect("short").to_be_bytes();
        let frame = [&[1, 0, 0][..], &length, method, &[0xCE]].concat();
        socket.write_all(&frame).expect("written");
    };
    read_frame(&mut socket).expect("connection.start");
    let start_ok = b"\0\x0a\0\x0b\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US";
    send(&mut socket, start_ok);
    read_frame(&mut socket).expect("connection.tune");
    send(&mut socket, b"\0\x0a\0\x1f\x07\xff\0\x02\0\0\0\0");
    send(&mut socket, b"\0\x0a\0\x28\x01/\0\0");
    read_frame(&mut socket).expect("connection.open-ok");
    socket
}

/// A frame on channel 1.
pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&[kind, 0, 1][..], &length, payload, &[0xCE]].concat()
}

/// The method of the next frame, class and number.
pub fn read_frame(socket: &mut TcpStream) -> std::io::Result<[u8; 4]> {
    let mut head = [0; 7];
    socket.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let mut payload = vec![0; length + 1];
    socket.read_exact(&mut payload)?;
    Ok([payload[0], payload[1], payload[2], payload[3]])
}

#[test]
fn a_supervisor_hears_when_it_is_ready_and_when_it_stops() {
    let folder = Folder::new("notify");
    let path = folder.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).expect("a socket");
    let patience = Some(Duration::from_secs(60));
    supervisor.set_read_timeout(patience).expect("a deadline");
    let hear = || {
        let mut text = [0; 100];
        let length = supervisor.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut command = serve(&folder.data());
    command
        .args(["--http", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path);
    let node = Node::start(&mut command, &folder.data());
    assert_eq!(hear(), "READY=1");
    assert!(node.terminate(), "an orderly end");
    assert_eq!(hear(), "STOPPING=1");
}

#[test]
fn the_command_line_needs_no_http_listener() {
    let folder = Folder::new("control");
    let mut command = serve(&folder.data());
    let node = Node::start(command.args(["--http", "none"]), &folder.data());
    assert_eq!(node.told(&["-q", "ping"]), "Ping succeeded\n");
    node.told(&["set_cluster_name", "hares"]);
    assert!(
        node.told(&["cluster_status"])
            .contains("Cluster name: hares")
    );
    assert!(
        node.told(&["environment"])
            .contains("management.tcp.port\tnone")
    );
    let report = node.told(&["report"]);
    for part in ["## Status", "## Permissions", "guest", "## Bindings"] {
        assert!(report.contains(part), "{part} is not in {report}");
    }
    let refused = node.ctl(&["eval", "rabbit:status()."]);
    let text = String::from_utf8(refused.stderr).expect("text");
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        text.contains("HTTP API") && text.trim_end().lines().count() == 1,
        "{text}"
    );
    assert!(node.terminate(), "an orderly end");
    assert!(!folder.data().join("control.sock").exists());
}

const DEFINITIONS: &str = r#"{
    "vhosts": [{"name": "warren"}],
    "users": [{"name": "boss", "password": "boss", "tags": ["administrator"]}],
    "queues": [{"vhost": "warren", "name": "orders", "durable": true, "auto_delete": false, "arguments": {}}]
}"#;

#[test]
fn a_node_does_nothing_that_another_was_named_for() {
    let folder = Folder::new("named");
    let data = folder.data();
    let mut command = serve(&data);
    command.env("RABBITMQ_NODENAME", "rabbit@burrow");
    let node = Node::start(command.args(["--http", "none"]), &data);
    node.told(&["add_vhost", "shop"]);
    let run = |name: Option<&str>, words: &[&str]| {
        let mut command = Command::new(BINARY);
        command.env_clear().env("LEVERET_DATA_DIR", &data);
        if let Some(name) = name {
            command.env("RABBITMQ_NODENAME", name);
        }
        command.args(words).output().expect("it runs")
    };
    let elsewhere = Some("rabbit@elsewhere");
    for (name, words) in [
        (
            None,
            &["ctl", "-n", "rabbit@elsewhere", "delete_vhost", "shop"][..],
        ),
        (None, &["ctl", "stop", "-nrabbit@elsewhere"]),
        (elsewhere, &["ctl", "delete_vhost", "shop"]),
        (elsewhere, &["ctl", "shutdown"]),
        (elsewhere, &["status"]),
        (None, &["list", "queues", "--node", "rabbit@elsewhere"]),
        (None, &["cluster", "rebalance", "-n", "rabbit@elsewhere"]),
    ] {
        let output = run(name, words);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(why.contains("'rabbit@elsewhere'"), "{words:?}: {why}");
    }
    assert!(node.told(&["-q", "list_vhosts"]).contains("shop"));
    // What is said with the command goes before the environment.
    let words = ["ctl", "-n", "rabbit@burrow", "delete_vhost", "shop"];
    assert!(run(elsewhere, &words).status.success());
    assert!(run(Some("rabbit@burrow"), &["status"]).status.success());
    assert!(!node.told(&["-q", "list_vhosts"]).contains("shop"));
}

#[test]
fn suspended_listeners_refuse_clients_until_they_are_resumed() {
    let folder = Folder::new("suspend");
    let mut command = serve(&folder.data());
    let node = Node::start(command.args(["--http", "none"]), &folder.data());
    let port = node.port("amqp");
    let mut open = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    node.told(&["suspend_listeners"]);
    let refused = TcpStream::connect(("127.0.0.1", port));
    assert!(refused.is_err(), "it listens no more");
    assert!(
        !node
            .ctl(&["check_port_listener", &port.to_string()])
            .status
            .success()
    );
    // Connections that are open go on.
    open.write_all(b"AMQP\0\0\x09\x01").expect("written");
    open.read_exact(&mut [0; 7]).expect("the first frame");
    node.told(&["suspend_listeners"]);
    node.told(&["resume_listeners"]);
    node.told(&["resume_listeners"]);
    connect(port);
    node.told(&["check_port_listener", &port.to_string()]);
}

#[test]
fn the_log_changes_its_level_and_is_rotated_while_the_node_runs() {
    let folder = Folder::new("log");
    let config = folder.write(
        "rabbitmq.conf",
        "log.file = leveret.log\nlog.file.level = error\nlog.file.rotation.count = 2\n",
    );
    let mut command = serve(&folder.data());
    command.args(["--http", "none", "--config"]).arg(&config);
    let node = Node::start(&mut command, &folder.data());
    let log = |name: &str| fs::read_to_string(folder.data().join("logs").join(name));
    node.told(&["set_cluster_name", "quiet"]);
    assert_eq!(log("leveret.log").expect("a log"), "");
    node.told(&["set_log_level", "info"]);
    node.told(&["set_cluster_name", "loud"]);
    let text = log("leveret.log").expect("a log");
    for part in [
        "changed by an operator",
        "PUT /api/leveret/log-level",
        "set global parameter",
        "parameter 'cluster_name'",
        "(operator)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    node.told(&["rotate_logs"]);
    assert_eq!(log("leveret.log.0").expect("an archive"), text);
    assert!(log("leveret.log").expect("a log").contains("rotated"));

    // As logrotate does it: moved away, then told.
    let logs = folder.data().join("logs");
    fs::rename(logs.join("leveret.log"), logs.join("taken")).expect("moved");
    node.told(&["rotate_logs"]);
    assert!(log("leveret.log").expect("a log").contains("new file"));

    node.told(&["set_log_level", "none"]);
    let before = log("leveret.log").expect("a log");
    node.told(&["set_cluster_name", "silent"]);
    assert_eq!(log("leveret.log").expect("a log"), before);

    for wrong in [
        &["set_log_level", "loud"][..],
        &["set_log_level", "queue", "info"],
    ] {
        assert_eq!(node.ctl(wrong).status.code(), Some(69), "{wrong:?}");
    }
}

/// Looks until it is right, for a minute.
pub fn eventually(look: impl Fn() -> String, right: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut seen = look();
    while !right(&seen) {
        assert!(Instant::now() < deadline, "it stays {seen}");
        seen = look();
    }
}

/// Three nodes of one cluster, each of which knows that the others are up.
pub fn start_three(folder: &Folder) -> Vec<Node> {
    let addresses = free_addresses(3);
    let join = addresses.join(",");
    let nodes: Vec<Node> = thread::scope(|scope| {
        let start = |address: &String| {
            let data = folder.path().join(address.replace(':', "-"));
            let mut command = serve(&data);
            command.args(["--http", "none", "--cluster", address, "--join", &join]);
            command.env("LEVERET_CLUSTER_SECRET", "of these three");
            scope.spawn(move || Node::start(&mut command, &data))
        };
        let starting: Vec<_> = addresses.iter().map(start).collect();
        let started = starting
            .into_iter()
            .map(|node| node.join().expect("it starts"));
        started.collect()
    });
    for node in &nodes {
        node.told(&["await_online_nodes", "3"]);
    }
    nodes
}

/// Whether an answer has this status.
fn is(answer: &str, status: u16) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
}

#[test]
fn what_one_node_has_answered_for_the_others_know_when_they_are_asked() {
    const TIMES: usize = 100;
    let folder = Folder::new("asked-elsewhere");
    let nodes = start_three(&folder);
    for number in 0..TIMES {
        let at = |offset: usize| &nodes[(number + offset) % nodes.len()];
        let queue = format!("/api/queues/%2F/q{number}");
        let binding = format!("/api/bindings/%2F/e/amq.fanout/q/q{number}");
        let steps = [
            ("PUT", queue.clone(), "{}", 201),
            ("GET", queue.clone(), "", 200),
            ("POST", binding, "{}", 201),
            ("DELETE", queue.clone(), "", 204),
            ("PUT", format!("/api/vhosts/v{number}"), "{}", 201),
            ("GET", format!("/api/queues/v{number}"), "", 200),
            ("DELETE", format!("/api/vhosts/v{number}"), "", 204),
        ];
        for (step, (method, path, body, status)) in steps.iter().enumerate() {
            let answer = at(step).http(method, path, body);
            assert!(is(&answer, *status), "{number}, {method} {path}: {answer}");
        }
        let (name, user) = (format!("u{number}"), format!("/api/users/u{number}"));
        let made = at(0).http("PUT", &user, r#"{"password": "a", "tags": "management"}"#);
        assert!(is(&made, 201), "{made}");
        let told = at(1).http_as(&name, "a", "/api/whoami");
        assert!(is(&told, 200), "{number}: {told}");
        let changed = at(2).http("PUT", &user, r#"{"password": "b", "tags": "management"}"#);
        assert!(is(&changed, 201) || is(&changed, 204), "{changed}");
        let told = at(1).http_as(&name, "b", "/api/whoami");
        assert!(is(&told, 200), "{number}, with a new password: {told}");
        let deleted = at(0).http("DELETE", &user, "");
        assert!(is(&deleted, 204), "{deleted}");
    }
}

#[test]
fn users_are_deleted_together_those_that_another_node_has_just_made_as_well() {
    const USERS: usize = 600;
    let folder = Folder::new("bulk-delete");
    let nodes = start_three(&folder);
    let names: Vec<String> = (0..USERS).map(|number| format!("u{number}")).collect();
    let users = names.iter().map(|name| {
        format!(r#"{{"name": "{name}", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []}}"#)
    });
    let users = users.collect::<Vec<_>>().join(",");
    let imported = nodes[0].http(
        "POST",
        "/api/definitions",
        &format!(r#"{{"users": [{users}]}}"#),
    );
    assert!(is(&imported, 204), "{imported}");
    let last = nodes[2].http("PUT", "/api/users/last", r#"{"password": "a", "tags": ""}"#);
    assert!(is(&last, 201), "{last}");
    let list = names
        .iter()
        .map(|name| format!("\"{name}\", \"not-{name}\", \"{name}\""));
    let list = list.collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"users": [{list}, "last"]}}"#);
    let deleted = nodes[1].http("POST", "/api/users/bulk-delete", &body);
    assert!(is(&deleted, 204), "{deleted}");
    let left = nodes[1].http("GET", "/api/users?columns=name", "");
    assert!(
        !left.contains("\"u1\"") && !left.contains("\"last\""),
        "{left}"
    );
    assert_eq!(left.matches("\"name\"").count(), 1, "{left}");
}

pub const QUORUM: &str = r#"{"durable": true, "arguments": {"x-queue-type": "quorum"}}"#;

#[test]
fn the_members_of_a_quorum_queue_change_by_command() {
    let folder = Folder::new("members");
    let nodes = start_three(&folder);
    let node = &nodes[0];
    let created = node.http("PUT", "/api/queues/%2f/q", QUORUM);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let status = || node.told(&["-q", "quorum_status", "q", "--formatter", "json"]);
    let voters = |count: usize| {
        eventually(status, |text| {
            text.matches("\"voter\"").count() == count && text.contains("\"leader\"")
        });
    };
    voters(3);
    node.told(&["delete_member", "q", "3"]);
    voters(2);
    node.told(&["add_member", "q", "3"]);
    voters(3);
    node.told(&["delete_member", "q", "2"]);
    voters(2);
    let grown = node.told(&["-q", "grow_to_count", "3", "even", "--queue-pattern", "^q$"]);
    assert_eq!(grown, "1 queues\n");
    voters(3);
    for leader in [1_u64, 2, 3] {
        node.told(&["transfer_leadership", "q", &leader.to_string()]);
        let leads = || {
            let answer = node.http("GET", "/api/leveret/cluster", "");
            let body = answer.split("\r\n\r\n").nth(1).expect("a body");
            let view: serde_json::Value = serde_json::from_str(body).expect("JSON");
            let mut nodes = view["nodes"].as_array().expect("nodes").iter();
            let wanted = nodes.find(|node| node["number"] == leader);
            wanted.expect("its node")["queues_leading"].to_string()
        };
        eventually(leads, |queues| queues == "1");
    }
    node.told(&["reclaim_quorum_memory", "q"]);
    node.told(&["force_checkpoint"]);
    let created = node.http("PUT", "/api/queues/%2f/classic", r#"{"durable": true}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    for (wrong, code, part) in [
        (
            &["add_member", "none", "3"][..],
            69,
            "'none' does not exist",
        ),
        (&["add_member", "classic", "3"], 69, "is not replicated"),
        (&["add_member", "q", "9"], 69, "the cluster has no node 9"),
        (
            &["transfer_leadership", "none", "3"],
            65,
            "'none' does not exist",
        ),
        (&["peek", "q", "1"], 69, "no message at position 1"),
        (&["peek", "q", "0"], 69, "position must be 1 or more"),
        (&["peek", "classic", "1"], 69, "not supported by classic"),
    ] {
        let refused = node.ctl(wrong);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{wrong:?}: {text}");
        assert!(text.contains(part), "{wrong:?}: {text}");
    }
}

#[test]
fn all_nodes_name_the_leader_of_a_stream_which_moves_by_command() {
    let folder = Folder::new("stream-leader");
    let nodes = start_three(&folder);
    let stream = r#"{"durable": true, "arguments": {"x-queue-type": "stream"}}"#;
    let created = nodes[0].http("PUT", "/api/queues/%2f/s", stream);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let json = |node: &Node, path: &str| -> serde_json::Value {
        let answer = node.http("GET", path, "");
        let body = answer.split("\r\n\r\n").nth(1).expect("a body");
        serde_json::from_str(body).expect("JSON")
    };
    let name = |node: &Node| json(node, "/api/overview")["node"].clone();
    for wanted in [&nodes[1], &nodes[2], &nodes[0]] {
        let leader = name(wanted);
        let words = ["restart_stream", "s", "--preferred-leader-node"];
        nodes[0].told(&[&words[..], &[leader.as_str().expect("a name")]].concat());
        for asked in &nodes {
            let seen = || json(asked, "/api/queues/%2f/s")["leader"].to_string();
            let leader = leader.to_string();
            eventually(seen, |seen| seen == leader);
        }
    }
}

/// What a node shows of the message at this place.
fn peeked(node: &Node, position: &str) -> String {
    node.told(&["-q", "peek", "q", position])
}

#[test]
fn a_message_of_a_quorum_queue_is_shown_at_any_node_and_stays() {
    let folder = Folder::new("peek");
    let mut nodes = start_three(&folder);
    let data = folder.data();
    nodes.push(Node::start(serve(&data).args(["--http", "none"]), &data));
    for at in [0, 3] {
        let created = nodes[at].http("PUT", "/api/queues/%2f/q", QUORUM);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        nodes[at].publish("%2f", "q", "first");
        nodes[at].publish("%2f", "q", "second");
    }
    for node in &nodes {
        let first = peeked(node, "1");
        assert!(first.contains("payload (max 64 bytes)\tfirst\n"), "{first}");
        let second = peeked(node, "2");
        for part in ["\tsecond\n", "routing_key\tq\n", "delivery_mode\t2\n"] {
            assert!(second.contains(part), "{second}");
        }
        assert_eq!(node.ctl(&["peek", "q", "3"]).status.code(), Some(69));
    }
    for at in [0, 3] {
        let listed = || nodes[at].told(&["-q", "list_queues", "name", "messages_ready"]);
        eventually(listed, |text| text.contains("q\t2"));
    }
}

#[test]
fn the_http_api_gets_nothing_past_a_single_active_consumer() {
    let folder = Folder::new("active-get");
    let data = folder.data();
    let node = Node::start(serve(&data).args(["--http", "none"]), &data);
    let body = r#"{"durable": true, "arguments":
        {"x-queue-type": "quorum", "x-single-active-consumer": true}}"#;
    let created = node.http("PUT", "/api/queues/%2f/q", body);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    node.publish("%2f", "q", "for the consumer");
    let get = r#"{"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    let refused = node.http("POST", "/api/queues/%2f/q/get", get);
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(
        refused.contains("cannot obtain access to locked queue"),
        "{refused}"
    );
    assert!(peeked(&node, "1").contains("for the consumer"));
}

#[test]
fn a_publish_over_http_says_that_a_full_queue_refused_it() {
    let folder = Folder::new("full-queue");
    let data = folder.data();
    let node = Node::start(serve(&data).args(["--http", "none"]), &data);
    for kind in ["classic", "quorum"] {
        let body = format!(
            r#"{{"durable": true, "arguments": {{"x-queue-type": "{kind}", "x-max-length": 1,
                "x-overflow": "reject-publish"}}}}"#
        );
        let created = node.http("PUT", &format!("/api/queues/%2f/{kind}"), &body);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        node.publish("%2f", kind, "taken");
        let message = format!(
            r#"{{"properties":{{}},"routing_key":"{kind}","payload":"","payload_encoding":"string"}}"#
        );
        // A queue may take a few more than its limit.
        let refused = || node.http("POST", "/api/exchanges/%2f/amq.default/publish", &message);
        let last = (0..10)
            .map(|_| refused())
            .find(|answer| answer.contains("\"routed\":false"));
        let last = last.expect("a full queue refuses");
        assert!(last.contains("a queue refused the message"), "{last}");
    }
}

#[test]
fn every_node_of_a_cluster_lists_what_the_others_have() {
    let folder = Folder::new("cluster");
    let nodes = start_three(&folder);
    for (name, body) in [("replicated", QUORUM), ("classic", r#"{"durable": true}"#)] {
        let path = format!("/api/queues/%2f/{name}");
        let created = nodes[0].http("PUT", &path, body);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        for _ in 0..3 {
            nodes[0].publish("%2f", name, "x");
        }
    }
    for node in &nodes {
        let expected = "name\tmessages\tstate\nclassic\t3\trunning\nreplicated\t3\trunning\n";
        let list = ["-q", "list_queues", "name", "messages", "state"];
        eventually(|| node.told(&list), |text| text == expected);
        let get = |path: &str| node.http("GET", path, "");
        let one = || get("/api/queues/%2f/replicated");
        eventually(one, |text| text.contains("\"messages_ready\":3"));
        // Leaders may still move to where they are to be: for a moment nobody leads.
        let overview = || get("/api/overview");
        eventually(overview, |text| text.contains("\"messages_ready\":6"));
        let nodes = || get("/api/nodes");
        let of_all = |text: &str, what: &str| text.matches(what).count() == 3;
        eventually(nodes, |text| {
            of_all(text, "\"running\":true") && of_all(text, "\"mem_used\":")
        });
        let status = ["-q", "quorum_status", "replicated", "--formatter", "json"];
        let count = |text: &str, role: &str| text.matches(role).count();
        eventually(
            || node.told(&status),
            |text| count(text, "\"leader\"") == 1 && count(text, "\"follower\"") == 2,
        );
        let safe = node.ctl(&["check_if_node_is_quorum_critical"]);
        assert!(safe.status.success(), "{safe:?}");
    }
    let mut client = connect(nodes[2].port("amqp"));
    for node in &nodes {
        let list = node.told(&["-q", "list_connections", "user", "node", "channels"]);
        let rows: Vec<_> = list.lines().skip(1).collect();
        assert!(rows.len() == 1 && rows[0].starts_with("guest\t"), "{list}");
    }
    nodes[0].told(&["close_all_connections", "--global", "enough"]);
    let closed = read_frame(&mut client).expect("connection.close");
    assert_eq!(closed, [0, 10, 0, 50]);
    drop(client);
    let [first, second, third] = <[Node; 3]>::try_from(nodes).unwrap_or_else(|_| unreachable!());
    assert!(third.terminate(), "an orderly end");
    // Without one of three, each of the two others is needed.
    for node in [&first, &second] {
        let check = || {
            format!(
                "{:?}",
                node.ctl(&["check_if_node_is_quorum_critical"])
                    .status
                    .code()
            )
        };
        eventually(check, |code| code == "Some(69)");
    }
}

/// Opens connections with channels, each with a publish of which the last byte is missing: the node
/// holds all that came. Bodies are of many sizes, so that what they leave is in many places.
fn unfinished_publishes(port: u16, connections: usize) -> Vec<TcpStream> {
    let connection = |_| {
        let mut socket = connect(port);
        for channel in 1..=40_u16 {
            let size = [500, 3_000, 20_000, 60_000, 100_000][usize::from(channel % 5)];
            let mut frames = Vec::new();
            let mut frame = |kind: u8, payload: &[u8]| {
                let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
                frames.extend(
                    [
                        &[kind],
                        &channel.to_be_bytes()[..],
                        &length,
                        payload,
                        &[0xCE],
                    ]
                    .concat(),
                );
            };
            frame(1, b"\0\x14\0\x0a\0");
            frame(1, b"\0\x3c\0\x28\0\0\0\x01q\0");
            frame(
                2,
                &[b"\0\x3c\0\0", &u64::to_be_bytes(size)[..], b"\0\0"].concat(),
            );
            frame(3, &vec![b'x'; usize::try_from(size - 1).expect("short")]);
            socket.write_all(&frames).expect("written");
        }
        socket
    };
    (0..connections).map(connection).collect()
}

#[test]
fn the_memory_alarm_goes_when_what_raised_it_is_gone() {
    const ALLOWED: u64 = 64 << 20;
    let folder = Folder::new("spike");
    let data = folder.data();
    let node = Node::start(serve(&data).args(["--http", "none"]), &data);
    let resident = || {
        let statm = fs::read_to_string(format!("/proc/{}/statm", node.process.id()));
        let statm = statm.expect("it runs");
        let pages = statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        pages.expect("a number") * 4_096
    };
    let watermark = |bytes: &str| {
        node.told(&["set_vm_memory_high_watermark", "absolute", bytes]);
    };
    let alarm = || String::from_utf8_lossy(&node.ctl(&["-q", "alarms"]).stdout).into_owned();
    let spike = unfinished_publishes(node.port("amqp"), 60);
    eventually(
        || resident().to_string(),
        |bytes| bytes.parse::<u64>().is_ok_and(|bytes| bytes > 72 << 20),
    );
    watermark(&ALLOWED.to_string());
    eventually(alarm, |text| text.to_lowercase().contains("memory"));
    // So that nothing but memory that is kept can hold it up.
    watermark("100GB");
    drop(spike);
    eventually(|| node.told(&["-q", "list_connections"]), str::is_empty);
    watermark(&ALLOWED.to_string());
    eventually(alarm, |text| !text.to_lowercase().contains("memory"));
    assert!(resident() < ALLOWED);
}

#[test]
fn an_alarm_of_one_node_is_one_of_the_cluster() {
    let folder = Folder::new("alarms");
    let nodes = start_three(&folder);
    let open = || frame(1, b"\0\x14\0\x0a\0");
    let declare = |queue: &[u8]| {
        let method = [b"\0\x32\0\x0a\0\0\x01", queue, b"\0\0\0\0\0"].concat();
        frame(1, &method)
    };
    let publish = |queue: &[u8]| {
        let method = [b"\0\x3c\0\x28\0\0\0\x01", queue, b"\0"].concat();
        let header = b"\0\x3c\0\0\0\0\0\0\0\0\0\x01\0\0";
        [frame(1, &method), frame(2, header), frame(3, b"x")].concat()
    };
    for (node, queue) in [(&nodes[1], b"h"), (&nodes[2], b"q")] {
        let mut declarer = connect(node.port("amqp"));
        let asked = [open(), declare(queue)].concat();
        declarer.write_all(&asked).expect("written");
        while read_frame(&mut declarer).expect("an answer") != [0, 50, 0, 11] {}
        let listed = || nodes[1].told(&["-q", "-s", "list_queues", "name"]);
        let name = String::from_utf8_lossy(queue).into_owned();
        eventually(listed, |text| text.lines().any(|line| line == name));
    }
    let mut publisher = connect(nodes[1].port("amqp"));
    publisher
        .write_all(&[open(), publish(b"q")].concat())
        .expect("written");
    let state = || nodes[1].told(&["-s", "list_connections", "state", "channels"]);
    eventually(state, |text| text == "running\t1\n");
    nodes[2].told(&["set_vm_memory_high_watermark", "0"]);
    let alarms = || nodes[1].told(&["-q", "alarms"]);
    eventually(alarms, |text| text.starts_with("memory alarm"));
    publisher.write_all(&publish(b"h")).expect("written");
    let waiting = || nodes[1].told(&["-q", "-s", "list_queues", "name", "messages"]);
    eventually(waiting, |text| text.contains("h\t1"));
    let publishes = || {
        (&publisher).write_all(&publish(b"q")).expect("written");
        state()
    };
    eventually(publishes, |text| text.starts_with("blocked"));
    let file = fs::read_to_string(nodes[2].data.join("node.json")).expect("it runs");
    let name = file
        .split("\"name\": \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let name = name.expect("a name");
    let said = |node: &Node, command: &str| {
        let output = node.ctl(&["-q", command]);
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    for node in &nodes {
        let (well, text) = said(node, "check_alarms");
        assert!(
            !well && text.contains(&format!("memory on {name}")),
            "{text}"
        );
        let (_, text) = said(node, "alarms");
        assert!(
            text.contains(&format!("memory alarm on node {name}")),
            "{text}"
        );
        let (_, text) = said(node, "status");
        assert!(
            text.contains(&format!("Memory alarm on node {name}")),
            "{text}"
        );
    }
    assert!(said(&nodes[1], "check_local_alarms").0);
    assert!(!said(&nodes[2], "check_local_alarms").0);
    nodes[2].told(&["set_vm_memory_high_watermark", "absolute", "100GB"]);
    eventually(state, |text| text.starts_with("running"));
    assert!(said(&nodes[0], "check_alarms").0);
}

#[test]
fn all_nodes_give_their_cluster_one_name() {
    let folder = Folder::new("identity");
    let nodes = start_three(&folder);
    for (path, before) in [
        ("/api/cluster-name", "\"name\":\""),
        ("/api/overview", "\"cluster_name\":\""),
    ] {
        let told = nodes.iter().map(|node| {
            let answer = node.http("GET", path, "");
            let value = answer
                .split(before)
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            value
                .map(str::to_owned)
                .unwrap_or_else(|| panic!("no name in {answer}"))
        });
        let told: Vec<String> = told.collect();
        assert!(!told[0].is_empty());
        assert!(told.iter().all(|name| *name == told[0]), "{path}: {told:?}");
    }
}

#[test]
fn memory_is_told_by_its_parts() {
    let folder = Folder::new("memory");
    let mut command = serve(&folder.data());
    let node = Node::start(command.args(["--http", "none"]), &folder.data());
    let parts = node.told(&["-q", "memory_breakdown", "--unit", "bytes"]);
    let bytes = |part: &str| -> f64 {
        let line = parts.lines().find_map(|line| line.strip_prefix(part));
        let line = line.and_then(|line| line.strip_prefix(": "));
        let number = line.and_then(|line| line.split(' ').next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {part} in {parts}"))
    };
    for part in ["code", "other_proc"] {
        assert!(bytes(part) > 0.0, "{part} of {parts}");
    }
    assert!(node.told(&["status"]).contains("allocated_unused: "));
}

#[test]
fn a_password_is_not_shown_while_it_is_typed() {
    let folder = Folder::new("password");
    let data = folder.data();
    let node = Node::start(serve(&data).args(["--http", "none"]), &data);
    let line = format!("{BINARY} ctl --data-dir {} hash_password", data.display());
    let script = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut script) = script else {
        return eprintln!("left out: no script(1) here for a terminal");
    };
    let mut screen = BufReader::new(script.stdout.take().expect("its output"));
    let mut shown = String::new();
    while !shown.contains("Password:") {
        let mut line = String::new();
        assert!(screen.read_line(&mut line).expect("a line") > 0, "{shown}");
        shown.push_str(&line);
    }
    let mut typed = script.stdin.take().expect("its input");
    typed.write_all(b"carrot\n").expect("typed");
    screen.read_to_string(&mut shown).expect("the rest");
    drop(typed);
    assert!(script.wait().expect("it ends").success(), "{shown}");
    assert!(!shown.contains("carrot"), "{shown}");
    drop(node);
}

#[test]
fn a_load_that_is_not_let_in_says_so() {
    let folder = Folder::new("perf-login");
    let mut command = serve(&folder.data());
    let node = Node::start(command.args(["--http", "none"]), &folder.data());
    let uri = format!("amqp://guest:wrong@127.0.0.1:{}", node.port("amqp"));
    let mut load = Command::new(BINARY);
    let output = load.args(["perf", "run", "-z", "1", "-h", &uri]).output();
    let output = output.expect("it runs");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    let expected = "refused the login of user 'guest': ACCESS_REFUSED - Login was refused";
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(expected), "{said}");
}

#[test]
fn definitions_are_all_that_a_node_begins_with() {
    let folder = Folder::new("definitions");
    let file = folder.write("definitions.json", DEFINITIONS);
    let configuration = folder.write(
        "rabbitmq.conf",
        &format!(
            "load_definitions = {}\ndefinitions.skip_if_unchanged = true\n",
            file.display()
        ),
    );
    let start = || {
        let mut command = serve(&folder.data());
        command
            .args(["--http", "none", "--config"])
            .arg(&configuration);
        Node::start(&mut command, &folder.data())
    };
    let node = start();
    // As in RabbitMQ no guest is made where definitions say who there is.
    assert_eq!(node.told(&["-s", "list_users"]), "boss\t[administrator]\n");
    assert_eq!(node.told(&["-s", "list_vhosts"]), "warren\n");
    assert_eq!(
        node.told(&["-s", "list_queues", "-p", "warren"]),
        "orders\t0\n"
    );
    node.told(&["delete_queue", "-p", "warren", "orders"]);
    assert!(node.terminate(), "an orderly end");
    // The same definitions are not imported again, others are.
    let node = start();
    assert_eq!(node.told(&["-s", "list_queues", "-p", "warren"]), "");
    assert!(node.terminate(), "an orderly end");
    fs::write(&file, DEFINITIONS.replace("orders", "invoices")).expect("a file");
    let node = start();
    assert_eq!(
        node.told(&["-s", "list_queues", "-p", "warren"]),
        "invoices\t0\n"
    );
    assert!(node.terminate(), "an orderly end");
}

fn storage(word: &str, data: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.env_clear().args(["storage", word, "--data-dir"]);
    let output = command.arg(data).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn what_a_node_left_on_disk_is_told_by_the_names_of_its_queues() {
    let folder = Folder::new("names");
    let file = folder.write("definitions.json", DEFINITIONS);
    let text = format!("load_definitions = {}\n", file.display());
    let configuration = folder.write("rabbitmq.conf", &text);
    let start = || {
        let mut command = serve(&folder.data());
        command
            .args(["--http", "none", "--config"])
            .arg(&configuration);
        Node::start(&mut command, &folder.data())
    };
    let expected = |count| format!("(queue 'orders' in vhost 'warren'): {count} entries");
    let node = start();
    node.publish("warren", "orders", "first");
    // Killed: the catalogue is in the write-ahead log, as the message.
    drop(node);
    for word in ["inspect", "verify"] {
        let told = storage(word, &folder.data());
        assert!(told.contains("not closed in order"), "{told}");
        assert!(told.contains("(the catalogue)"), "{told}");
        assert!(told.contains(&expected(1)), "{told}");
    }
    let node = start();
    node.publish("warren", "orders", "second");
    assert!(node.terminate(), "an orderly end");
    let mut told = storage("verify", &folder.data());
    // An end on a busy disk copies for a second; what it leaves is for the next one.
    for _ in 0..20 {
        if !told.contains("not closed in order") {
            break;
        }
        assert!(start().terminate(), "an orderly end");
        told = storage("verify", &folder.data());
    }
    assert!(!told.contains("not closed in order"), "{told}");
    assert!(told.contains(&expected(2)), "{told}");
}

#[test]
fn a_node_that_cannot_start_says_why() {
    let folder = Folder::new("refusals");
    let broken = folder.write("broken.json", "{\"queues\": [{\"name\": 1}]}");
    let empty = folder.write("empty.pem", "");
    let tls = format!(
        "management.ssl.port = 1\nmanagement.ssl.ip = 127.0.0.1\nmanagement.ssl.certfile = {0}\nmanagement.ssl.keyfile = {0}\n",
        empty.display()
    );
    for (configuration, expected) in [
        (
            "load_definitions = /nonexistent.json\n".to_owned(),
            "cannot read definitions /nonexistent.json",
        ),
        (
            format!("load_definitions = {}\n", broken.display()),
            "these are no definitions",
        ),
        (tls, "cannot read a certificate from"),
    ] {
        let file = folder.write("rabbitmq.conf", &configuration);
        let mut command = serve(&folder.data());
        command
            .args(["--http", "none", "--config"])
            .arg(file)
            .stderr(Stdio::piped());
        let output = command.output().expect("it runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(
            !output.status.success() && text.contains(expected),
            "{expected}: {text}"
        );
    }
}

/// Everything below a folder, and the folder itself, with their permissions.
fn modes(folder: &Path) -> Vec<(PathBuf, bool, u32)> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        // What is replaced while this looks has been seen as what it was before.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        found.push((path, metadata.is_dir(), metadata.mode() & 0o777));
    }
    found
}

/// Whatever the umask of who starts a node.
#[test]
fn what_a_node_keeps_is_its_users_alone() {
    let folder = Folder::new("modes");
    let config = folder.write(
        "rabbitmq.conf",
        "log.file = leveret.log\ndefault_pass = hidden\nmanagement.tcp.port = none\n",
    );
    let permit = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(path, mode).expect("its own");
    };
    permit(&config, 0o644);
    let data = folder.data();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\"", BINARY]);
    let mut arguments = serve(&data);
    arguments
        .args(["--http", "none", "--cluster"])
        .args(free_addresses(1));
    command
        .env_clear()
        .args(arguments.get_args())
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let node = Node::start(&mut command, &data);
    node.told(&["set_cluster_name", "modes"]);
    node.told(&["rotate_logs"]);
    let first_log = fs::read_to_string(data.join("logs/leveret.log.0")).expect("a log");
    let exposed = format!("a password or secret in {}", config.display());
    assert!(first_log.contains(&exposed), "{first_log}");
    assert!(!first_log.contains("look into the folder"), "{first_log}");
    let look = || {
        let found = modes(&data);
        assert!(found.len() > 10, "{found:?}");
        for (path, is_folder, mode) in found {
            // A socket file needs no right to be executed, and has none to be read by others.
            assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
            assert!(!is_folder || mode == 0o700, "{} {mode:o}", path.display());
        }
    };
    look();
    assert!(node.terminate());
    look();
    // What an earlier version or somebody else has made is told.
    permit(&data, 0o755);
    permit(&config, 0o600);
    let node = Node::start(&mut command, &data);
    let log = fs::read_to_string(data.join("logs/leveret.log")).expect("a log");
    let exposed = format!("look into the folder {} (mode 755)", data.display());
    assert!(log.contains(&exposed), "{log}");
    assert!(!log.contains("a password or secret in"), "{log}");
    drop(node);
}
