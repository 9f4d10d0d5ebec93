//! Command lines in, exact output and exit codes out, against an API whose answers are given.

use super::*;
use crate::cli::http::segment;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

mod definitions_and_json;

/// An HTTP server on loopback that answers from a table and remembers what it was asked.
struct Api {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// `METHOD path` to status and body; what is not there is a 404.
fn api(answers: &[(&str, u16, &str)]) -> Api {
    let answers: HashMap<String, (u16, String)> = answers
        .iter()
        .map(|(request, status, body)| ((*request).to_owned(), (*status, (*body).to_owned())))
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let mut line = String::new();
            reader.read_line(&mut line).expect("a request line");
            let request = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
            let mut length = 0;
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).expect("a header");
                if header.trim().is_empty() {
                    break;
                }
                if let Some(n) = header.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = n.trim().parse().expect("a length");
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let body = String::from_utf8(body).expect("text");
            log.lock()
                .expect("log")
                .push(format!("{request} {body}").trim_end().to_owned());
            let absent = (
                404,
                "{\"error\":\"Object Not Found\",\"reason\":\"Not Found\"}".to_owned(),
            );
            let (status, body) = answers.get(&request).unwrap_or(&absent);
            let answer = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).expect("an answer");
        }
    });
    Api { url, asked }
}

/// Runs a command line, and returns its exit code, its output (or its error), and what the node was
/// asked to change.
fn run_on(answers: &[(&str, u16, &str)], line: &str) -> (u8, String, Vec<String>) {
    let api = api(answers);
    let mut words = vec!["--url".to_owned(), api.url.clone()];
    words.extend(line.split('|').map(str::to_owned));
    let mut out = String::new();
    let result = run(&words, &mut |text| out.push_str(text));
    let asked = api.asked.lock().expect("log").clone();
    let changes = asked
        .into_iter()
        .filter(|a| !a.starts_with("GET "))
        .collect();
    match result {
        Ok(()) => (0, out, changes),
        Err(failure) => (failure.code, format!("{out}{}", failure.text), changes),
    }
}

const QUEUES: (&str, u16, &str) = (
    "GET /api/queues/%2F",
    200,
    r#"[{"name":"a","messages":3,"messages_ready":2,"arguments":{"x-max-length":5},"durable":true},{"name":"b c","messages":0}]"#,
);
const BOB: (&str, u16, &str) = (
    "GET /api/users/bob",
    200,
    r#"{"name":"bob","tags":["monitoring"],"password_hash":"abc","hashing_algorithm":"rabbit_password_hashing_sha256"}"#,
);
const ROOT: (&str, u16, &str) = ("GET /api/vhosts/%2F", 200, r#"{"name":"/"}"#);

#[test]
fn lists_have_rabbitmqctls_forms() {
    for (line, expected) in [
        (
            "list_queues",
            "Timeout: 60.0 seconds ...\nListing queues for vhost / ...\nname\tmessages\na\t3\nb c\t0\n",
        ),
        ("-q|list_queues", "name\tmessages\na\t3\nb c\t0\n"),
        ("list_queues|-s", "a\t3\nb c\t0\n"),
        (
            "list_queues|-q|--no-table-headers|name|messages_ready",
            "a\t2\nb c\t\n",
        ),
        (
            "-q|list_queues|-p|/|name|arguments",
            "name\targuments\na\t[{\"x-max-length\",5}]\nb c\t\n",
        ),
        (
            "list_queues|--formatter|json|name|messages",
            "[\n{\"messages\":3,\"name\":\"a\"}\n,{\"messages\":0,\"name\":\"b c\"}\n]\n",
        ),
        (
            "list_queues|--formatter|json_stream|name|messages",
            "{\"messages\":3,\"name\":\"a\"}\n{\"messages\":0,\"name\":\"b c\"}\n",
        ),
        (
            "list_queues|--formatter=csv|name|messages",
            "name,messages\na,3\nb c,0\n",
        ),
        (
            "-q|list_queues|--formatter|pretty_table",
            "┌──────┬──────────┐\n│ name │ messages │\n├──────┼──────────┤\n│ a    │ 3        │\n├──────┼──────────┤\n│ b c  │ 0        │\n└──────┴──────────┘\n",
        ),
    ] {
        let (code, out, _) = run_on(&[QUEUES], line);
        assert_eq!((code, out.as_str()), (0, expected), "{line}");
    }
}

#[test]
fn users_and_permissions() {
    let put = |path: &'static str| (path, 204, "");
    for (answers, line, code, expected, changes) in [
        (
            vec![put("PUT /api/users/eve")],
            "add_user|eve|pw",
            0,
            "Adding user \"eve\" ...\nDone. Don't forget to grant the user permissions to some virtual hosts! See 'rabbitmqctl help set_permissions' to learn more.\n",
            vec![r#"PUT /api/users/eve {"password":"pw","tags":""}"#],
        ),
        (
            vec![BOB],
            "-q|add_user|bob|pw",
            code::SOFTWARE,
            "Error:\nUser \"bob\" already exists",
            vec![],
        ),
        (
            vec![BOB, put("PUT /api/users/bob")],
            "-q|change_password|bob|new",
            0,
            "",
            vec![r#"PUT /api/users/bob {"password":"new","tags":["monitoring"]}"#],
        ),
        (
            vec![BOB, put("PUT /api/users/bob")],
            "-q|set_user_tags|bob|administrator|own",
            0,
            "",
            vec![
                r#"PUT /api/users/bob {"hashing_algorithm":"rabbit_password_hashing_sha256","password_hash":"abc","tags":["administrator","own"]}"#,
            ],
        ),
        (
            vec![BOB, put("PUT /api/users/bob")],
            "-q|set_user_tags|bob|",
            0,
            "",
            vec![
                r#"PUT /api/users/bob {"hashing_algorithm":"rabbit_password_hashing_sha256","password_hash":"abc","tags":[]}"#,
            ],
        ),
        (
            vec![],
            "-q|change_password|eve|new",
            code::NO_USER,
            "Error:\nUser \"eve\" does not exist",
            vec![],
        ),
        (
            vec![],
            "delete_user|eve",
            code::NO_USER,
            "Deleting user \"eve\" ...\nError:\nUser \"eve\" does not exist",
            vec!["DELETE /api/users/eve"],
        ),
        (
            vec![BOB, ROOT, put("PUT /api/permissions/%2F/bob")],
            "set_permissions|bob|^c|.*|",
            0,
            "Setting permissions for user \"bob\" in vhost \"/\" ...\n",
            vec![r#"PUT /api/permissions/%2F/bob {"configure":"^c","read":"","write":".*"}"#],
        ),
        (
            vec![BOB],
            "-q|-p|nowhere|set_permissions|bob|.*|.*|.*",
            code::UNAVAILABLE,
            "Virtual host 'nowhere' does not exist",
            vec![],
        ),
        (
            vec![(
                "GET /api/users",
                200,
                r#"[{"name":"guest","tags":["administrator","x"]},{"name":"bob","tags":[]}]"#,
            )],
            "list_users",
            0,
            "Listing users ...\nuser\ttags\nguest\t[administrator, x]\nbob\t[]\n",
            vec![],
        ),
        (
            vec![("POST /api/leveret/authenticate", 200, r#"{"ok":false}"#)],
            "-q|authenticate_user|bob|wrong",
            code::DATA,
            "Error: failed to authenticate user \"bob\"\nuser 'bob' - invalid credentials",
            vec![r#"POST /api/leveret/authenticate {"password":"wrong","username":"bob"}"#],
        ),
        (
            vec![ROOT, put("PUT /api/policies/%2F/ttl")],
            "set_policy|ttl|^q|{\"message-ttl\":5}|--priority|3|--apply-to|queues",
            0,
            "Setting policy \"ttl\" for pattern \"^q\" to \"{\"message-ttl\":5}\" with priority \"3\" for vhost \"/\" ...\n",
            vec![
                r#"PUT /api/policies/%2F/ttl {"apply-to":"queues","definition":{"message-ttl":5},"pattern":"^q","priority":3}"#,
            ],
        ),
        (
            vec![ROOT],
            "-q|set_policy|ttl|^q|{message-ttl}",
            code::UNAVAILABLE,
            "Error:\n\"{message-ttl}\" is not valid JSON (key must be a string at line 1 column 2)",
            vec![],
        ),
        (
            vec![ROOT],
            "-q|clear_policy|ttl",
            code::UNAVAILABLE,
            "Error:\nParameter does not exist",
            vec!["DELETE /api/policies/%2F/ttl"],
        ),
        (
            vec![ROOT, put("PUT /api/vhost-limits/%2F/max-queues")],
            "-q|set_vhost_limits|{\"max-queues\":7}",
            0,
            "",
            vec![r#"PUT /api/vhost-limits/%2F/max-queues {"value":7}"#],
        ),
        (
            vec![ROOT, put("PUT /api/vhosts/%2F")],
            "trace_on",
            0,
            "Starting tracing for vhost \"/\" ...\nTrace enabled for vhost /\n",
            vec![r#"PUT /api/vhosts/%2F {"tracing":true}"#],
        ),
    ] {
        let (got_code, out, got_changes) = run_on(&answers, line);
        assert_eq!((got_code, out.as_str()), (code, expected), "{line}");
        assert_eq!(got_changes, changes, "{line}");
    }
}

#[test]
fn the_node_and_its_queues() {
    let overview = ("GET /api/overview", 200, r#"{"node":"leveret@burrow"}"#);
    let connections = (
        "GET /api/connections",
        200,
        r#"[{"name":"1.2.3.4:5 -> 6.7.8.9:5672","pid":"<leveret@burrow.1.1.0>","vhost":"/","user":"bob"},{"name":"other","pid":"<leveret@burrow.1.2.0>","vhost":"v","user":"eve"}]"#,
    );
    let first = "DELETE /api/connections/1.2.3.4%3A5%20-%3E%206.7.8.9%3A5672";
    for (answers, line, code, expected, changes) in [
        (
            vec![("DELETE /api/queues/%2F/q/contents", 204, "")],
            "purge_queue|q",
            0,
            "Purging queue 'q' in vhost '/' ...\n",
            vec!["DELETE /api/queues/%2F/q/contents"],
        ),
        (
            vec![],
            "-q|purge_queue|q",
            code::DATA,
            "Error:\nQueue 'q' does not exist in vhost '/'",
            vec!["DELETE /api/queues/%2F/q/contents"],
        ),
        (
            vec![
                ("GET /api/queues/%2F/q", 200, r#"{"messages":4}"#),
                ("DELETE /api/queues/%2F/q?if-empty=true", 204, ""),
            ],
            "-q|delete_queue|q|--if-empty",
            0,
            "Queue was successfully deleted with 4 ready messages\n",
            vec!["DELETE /api/queues/%2F/q?if-empty=true"],
        ),
        (
            vec![connections, (first, 204, "")],
            "close_connection|<leveret@burrow.1.1.0>|maintenance",
            0,
            "Closing connection <leveret@burrow.1.1.0>, reason: maintenance...\n",
            vec![first],
        ),
        (
            vec![connections],
            "-q|close_connection|<x>|maintenance",
            code::DATA,
            "Error:\nthere is no connection <x>; see list_connections pid name",
            vec![],
        ),
        (
            vec![connections, (first, 204, "")],
            "close_all_connections|bye",
            0,
            "Closing all connections in vhost / (reason: bye)...\nClosed 1 connections\n",
            vec![first],
        ),
        (
            vec![connections],
            "-q|list_connections|pid|user",
            0,
            "pid\tuser\n<leveret@burrow.1.1.0>\tbob\n<leveret@burrow.1.2.0>\teve\n",
            vec![],
        ),
        (
            vec![overview, ("PUT /api/leveret/memory-watermark", 204, "")],
            "set_vm_memory_high_watermark|0.4",
            0,
            "Setting memory threshold on leveret@burrow to 0.4 ...\n",
            vec![r#"PUT /api/leveret/memory-watermark {"relative":0.4}"#],
        ),
        (
            vec![overview, ("PUT /api/leveret/memory-watermark", 204, "")],
            "-q|set_vm_memory_high_watermark|absolute|2GB",
            0,
            "",
            vec![r#"PUT /api/leveret/memory-watermark {"absolute":2000000000}"#],
        ),
        (
            vec![overview],
            "-q|set_vm_memory_high_watermark|1.5",
            code::DATA,
            "Error:\nthe memory watermark must be a number above 0, up to 1",
            vec![],
        ),
        (
            vec![overview, ("PUT /api/leveret/disk-free-limit", 204, "")],
            "-q|set_disk_free_limit|50MB",
            0,
            "",
            vec![r#"PUT /api/leveret/disk-free-limit {"absolute":50000000}"#],
        ),
        (
            vec![overview, ("PUT /api/leveret/serving", 204, "")],
            "stop_app",
            0,
            "Stopping rabbit application on node leveret@burrow ...\n",
            vec![r#"PUT /api/leveret/serving {"serving":false}"#],
        ),
        (
            vec![
                overview,
                (
                    "GET /api/health/checks/ready-to-serve-clients",
                    503,
                    r#"{"status":"failed","reason":"it is in maintenance","maintenance":true}"#,
                ),
            ],
            "-q|check_running",
            0,
            "RabbitMQ on node leveret@burrow is fully booted and running; it is in maintenance and \
             takes no clients\n",
            vec![],
        ),
        (
            vec![
                overview,
                (
                    "GET /api/health/checks/ready-to-serve-clients",
                    503,
                    r#"{"status":"failed","reason":"it starts"}"#,
                ),
            ],
            "-q|check_running",
            code::UNAVAILABLE,
            "Error:\nit starts",
            vec![],
        ),
        (
            vec![
                ("GET /api/overview", 200, r#"{"node":"a@x","listeners":[]}"#),
                (
                    "GET /api/health/checks/is-in-service",
                    503,
                    r#"{"status":"failed","reason":"it is in maintenance","maintenance":true}"#,
                ),
            ],
            "-q|check_port_connectivity",
            code::UNAVAILABLE,
            "Error:\nit is in maintenance",
            vec![],
        ),
        (
            vec![
                overview,
                (
                    "GET /api/health/checks/local-alarms",
                    503,
                    r#"{"status":"failed","reason":"memory"}"#,
                ),
            ],
            "-q|check_local_alarms",
            code::UNAVAILABLE,
            "Error:\nmemory",
            vec![],
        ),
    ] {
        let (got_code, out, got_changes) = run_on(&answers, line);
        assert_eq!((got_code, out.as_str()), (code, expected), "{line}");
        assert_eq!(got_changes, changes, "{line}");
    }
}

#[test]
fn a_queue_without_a_leader_is_listed_without_one() {
    let queues = (
        "GET /api/queues/%2F",
        200,
        r#"[{"name":"led","leader":"a@b","node":"a@b"},{"name":"not","leader":null,"node":"a@b"},{"name":"classic","node":"c@d"}]"#,
    );
    let (code, out, _) = run_on(&[queues], "-q|list_queues|name|leader");
    let expected = "name\tleader\nled\ta@b\nnot\t\nclassic\tc@d\n";
    assert_eq!((code, out.as_str()), (0, expected));
}

#[test]
fn members_of_quorum_queues() {
    const QUEUE: (&str, u16, &str) = (
        "GET /api/queues/v/q",
        200,
        r#"{"type":"quorum","leader":"leveret@burrow"}"#,
    );
    const CLASSIC: (&str, u16, &str) = ("GET /api/queues/%2F/c", 200, r#"{"type":"classic"}"#);
    let changed = |path: &'static str| (path, 200, r#"{"queues":3}"#);
    let members = "/api/queues/quorum/v/q/replicas";
    let (add, delete) = (
        format!("POST {members}/add"),
        format!("DELETE {members}/delete"),
    );
    let by_node = |request: &str| format!(r#"{request} {{"node":"leveret@form"}}"#);
    let none = "Error:\nQueue 'q' does not exist in vhost 'v'";
    for (answers, line, code, expected, changes) in [
        (
            vec![(add.as_str(), 204, "")],
            "-p|v|add_member|q|leveret@form|--membership|voter",
            0,
            "Adding a replica for queue q on node leveret@form...\n",
            vec![by_node(&add)],
        ),
        (
            vec![],
            "-q|-p|v|add_member|q|leveret@form",
            code::UNAVAILABLE,
            none,
            vec![by_node(&add)],
        ),
        (
            vec![(add.as_str(), 400, r#"{"reason":"queue 'q' in vhost 'v' is not replicated"}"#)],
            "-q|-p|v|add_member|q|leveret@form",
            code::UNAVAILABLE,
            "Error: queue 'q' in vhost 'v' is not replicated",
            vec![by_node(&add)],
        ),
        (
            vec![(delete.as_str(), 202, "")],
            "-p|v|delete_member|q|leveret@form",
            0,
            "Removing a replica of queue q on node leveret@form...\n",
            vec![by_node(&delete)],
        ),
        (
            vec![],
            "-q|-p|v|delete_member|q|leveret@form",
            code::DATA,
            none,
            vec![by_node(&delete)],
        ),
        (
            vec![changed("POST /api/leveret/cluster/grow")],
            "grow|leveret@form|even|--queue-pattern|^q|--errors-only",
            0,
            "Growing even quorum queues on leveret@form...\n3 queues\n",
            vec![r#"POST /api/leveret/cluster/grow {"node":"leveret@form","queues":"^q","strategy":"even","vhosts":".*"}"#.to_owned()],
        ),
        (
            vec![changed("POST /api/leveret/cluster/grow-to-count")],
            "grow_to_count|5|all|--vhost-pattern|^v",
            0,
            "Growing all quorum queues on 5 nodes...\n3 queues\n",
            vec![r#"POST /api/leveret/cluster/grow-to-count {"count":5,"queues":".*","strategy":"all","vhosts":"^v"}"#.to_owned()],
        ),
        (
            vec![QUEUE, changed("POST /api/leveret/cluster/transfer")],
            "-p|v|transfer_leadership|q|leveret@form",
            0,
            "Transferring leadership of quorum queue q to node leveret@form...\n",
            vec![r#"POST /api/leveret/cluster/transfer {"node":"leveret@form","queue":"q","vhost":"v"}"#.to_owned()],
        ),
        (
            vec![QUEUE],
            "-q|-p|v|transfer_leadership|q|leveret@burrow",
            code::SOFTWARE,
            "Error:\nThe target node is already the leader of this queue",
            vec![],
        ),
        (
            vec![],
            "-q|-p|v|transfer_leadership|q|leveret@form",
            code::DATA,
            none,
            vec![],
        ),
        (
            vec![QUEUE],
            "-p|v|reclaim_quorum_memory|q",
            0,
            "reclaim_quorum_memory: nothing to do, Leveret does this by itself.\n",
            vec![],
        ),
        (
            vec![CLASSIC],
            "-q|reclaim_quorum_memory|c",
            code::SOFTWARE,
            "Error:\nThis operation is not applicable to classic queues",
            vec![],
        ),
        (
            vec![],
            "-q|-p|v|reclaim_quorum_memory|q",
            code::DATA,
            none,
            vec![],
        ),
        (
            vec![],
            "force_checkpoint|--queue-pattern|^q",
            0,
            "force_checkpoint: nothing to do, Leveret does this by itself.\n",
            vec![],
        ),
    ] {
        let (got_code, out, got_changes) = run_on(&answers, line);
        assert_eq!((got_code, out.as_str()), (code, expected), "{line}");
        assert_eq!(got_changes, changes, "{line}");
    }
}

#[test]
fn wrong_use_is_told_with_64() {
    for (line, expected) in [
        (
            "list_quees",
            "\nCommand 'list_quees' not found.\nDid you mean 'list_queues'?",
        ),
        (
            "frobnicate_everything",
            "\nCommand 'frobnicate_everything' not found.\nSee `help` for the commands.",
        ),
        (
            "list_queues|nme",
            "Error (argument validation): Info key(s) nme are not supported",
        ),
        (
            "list_queues|--frob|x",
            "Error (argument validation): Invalid options for this command:\n--frob",
        ),
        (
            "list_queues|--formatter|xml",
            "Error (argument validation): --formatter needs one of table, pretty_table, json, json_stream, csv, not 'xml'",
        ),
        (
            "list_queues|-t|-5",
            "Error (argument validation): -t needs seconds, not '-5'",
        ),
        (
            "grow|leveret@form|odd",
            "Error (argument validation): strategy 'odd' is not recognised.",
        ),
        (
            "grow_to_count|0|all",
            "Error (argument validation): node count '0' must be greater than 0.",
        ),
        (
            "add_member|q|leveret@form|--membership|non_voter",
            "Error (argument validation): --membership needs promotable or voter, not 'non_voter'",
        ),
    ] {
        let (code, out, _) = run_on(&[QUEUES], line);
        assert_eq!((code, out.as_str()), (code::USAGE, expected), "{line}");
    }
    let (code, out, _) = run_on(&[], "delete_user");
    assert_eq!(code, code::USAGE);
    assert!(out.starts_with("Error (argument validation): not enough arguments."));
    let (code, out, _) = run_on(&[], "delete_user|a|b");
    assert_eq!(code, code::USAGE);
    assert!(out.starts_with("Error (argument validation): too many arguments."));
}

#[test]
fn a_node_that_is_not_there_is_69() {
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let silent = &mut |_: &str| {};
    let line = words(&["list_queues", "--data-dir", "/nonexistent/leveret"]);
    assert_eq!(run(&line, silent).unwrap_err().code, code::UNAVAILABLE);
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let url = format!("http://{}", free.expect("a port on loopback"));
    let failure = run(&words(&["ping", "--url", &url]), silent).unwrap_err();
    assert_eq!(failure.code, code::UNAVAILABLE);
    assert!(failure.text.contains("nodedown"), "{}", failure.text);
}

#[test]
fn no_command_acts_on_another_node_than_the_one_named() {
    let answers = [
        ("GET /api/overview", 200, r#"{"node":"leveret@burrow"}"#),
        ("DELETE /api/vhosts/shop", 204, ""),
        ("POST /api/leveret/stop", 204, ""),
    ];
    for spelling in ["-n|{}", "-n{}", "-n={}", "--node|{}", "--node={}"] {
        for command in ["delete_vhost|shop", "stop", "await_startup"] {
            let line = |name: &str| format!("{}|-q|{command}", spelling.replace("{}", name));
            let (code, text, changes) = run_on(&answers, &line("rabbit@elsewhere"));
            assert_eq!(code, code::UNAVAILABLE, "{spelling} {command}: {text}");
            assert!(text.contains("'rabbit@elsewhere'"), "{text}");
            assert!(text.contains("'leveret@burrow'"), "{text}");
            assert_eq!(changes, [] as [&str; 0]);
        }
        let line = format!(
            "{}|-q|delete_vhost|shop",
            spelling.replace("{}", "leveret@burrow")
        );
        let (code, text, changes) = run_on(&answers, &line);
        assert_eq!((code, text.as_str()), (0, ""), "{spelling}");
        assert_eq!(changes, ["DELETE /api/vhosts/shop"]);
    }
    // What only looks, and is taken for what does, is not done.
    let (code, _, changes) = run_on(&answers, "delete_vhost|shop|--dry-run");
    assert_eq!((code, changes.len()), (code::USAGE, 0));
}

#[test]
fn machines_get_one_object_of_what_is_one() {
    let nodes = r#"[{"name":"a@x","running":true,"mem_alarm":true,"os_pid":"7","uptime":5000},
                    {"name":"b@y","running":false}]"#;
    let answers = [
        (
            "GET /api/overview",
            200,
            r#"{"node":"a@x","cluster_name":"warren","listeners":[]}"#,
        ),
        ("GET /api/nodes", 200, nodes),
        (
            "GET /api/nodes/a%40x/memory",
            200,
            r#"{"memory":{"strategy":"rss"}}"#,
        ),
    ];
    let asked = |line: &str| {
        let (code, out, _) = run_on(&answers, line);
        assert_eq!(code, 0, "{line}: {out}");
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")
    };
    let status = asked("status|--formatter|json");
    assert_eq!(status["pid"], "7");
    assert_eq!(status["uptime"], 5);
    assert_eq!(
        status["alarms"],
        serde_json::json!(["Memory alarm on node a@x"])
    );
    assert_eq!(status["node"]["name"], "a@x");
    let cluster = asked("cluster_status|--formatter=json");
    assert_eq!(cluster["cluster_name"], "warren");
    assert_eq!(cluster["disk_nodes"], serde_json::json!(["a@x", "b@y"]));
    assert_eq!(cluster["running_nodes"], serde_json::json!(["a@x"]));
    assert_eq!(
        cluster["alarms"],
        serde_json::json!([{"node": "a@x", "resource": "memory"}])
    );
    assert_eq!(cluster["listeners"]["a@x"], serde_json::json!([]));
}

#[test]
fn the_status_shows_the_cluster_and_says_what_it_does_not_know() {
    let nodes = r#"[{"name":"a@x","running":true,"os_pid":"7","uptime":5000}]"#;
    let status = |view: &str| {
        let answers = [
            (
                "GET /api/overview",
                200,
                r#"{"node":"a@x","cluster_name":"warren","listeners":[]}"#,
            ),
            ("GET /api/nodes", 200, nodes),
            (
                "GET /api/nodes/a%40x/memory",
                200,
                r#"{"memory":{"strategy":"rss"}}"#,
            ),
            ("GET /api/leveret/cluster", 200, view),
        ];
        let (code, out, _) = run_on(&answers, "status");
        assert_eq!(code, 0, "{out}");
        out
    };
    let whole = status(
        r#"{"own":1,"leader":2,"leaders_unknown":0,"nodes":[
            {"number":1,"name":"a@x","up":true,"votes":true},
            {"number":2,"name":"b@y","up":true,"votes":true},
            {"number":3,"name":"c@z","up":true,"votes":true}]}"#,
    );
    for line in [
        "Nodes up: 3 of 3",
        "Nodes that vote: 3 of 3",
        "Catalogue led by: b@y",
        "(none)",
    ] {
        assert!(whole.contains(line), "{line}: {whole}");
    }
    for line in ["even number", "without a vote", "Damaged Queues"] {
        assert!(!whole.contains(line), "{line}: {whole}");
    }
    let joined = status(
        r#"{"own":1,"leader":1,"leaders_unknown":0,"nodes":[
            {"number":1,"name":"a@x","up":true,"votes":true},
            {"number":2,"name":"b@y","up":true,"votes":false,"is_to_vote":false}]}"#,
    );
    for line in ["Nodes that vote: 1 of 2", "Nodes without a vote: b@y"] {
        assert!(joined.contains(line), "{line}: {joined}");
    }
    let minority = status(
        r#"{"own":1,"leader":null,"leaders_unknown":4,"nodes":[
            {"number":1,"name":"a@x","up":true,"votes":true},
            {"number":2,"name":"b@y","up":false,"votes":true}]}"#,
    );
    for line in [
        "Nodes up: 1 of 2",
        "Nodes down: b@y",
        "Catalogue led by: nobody",
        "Replicated queues without a known leader: 4",
        "No majority: alarms of nodes that are not reached are not known",
        "2 nodes vote, an even number",
    ] {
        assert!(minority.contains(line), "{line}: {minority}");
    }
    assert!(!minority.contains("(none)"), "{minority}");
}

#[test]
fn the_status_names_queues_of_which_something_cannot_be_read() {
    let answers = [
        ("GET /api/overview", 200, r#"{"node":"a@x","listeners":[]}"#),
        ("GET /api/nodes", 200, r#"[{"name":"a@x","running":true}]"#),
        ("GET /api/nodes/a%40x/memory", 200, r#"{"memory":{}}"#),
        (
            "GET /api/leveret/damage",
            200,
            r#"[{"vhost":"shop","name":"orders","what":"2 entries cannot be read"}]"#,
        ),
    ];
    let (code, out, _) = run_on(&answers, "status");
    assert_eq!(code, 0, "{out}");
    let line = "queue 'orders' in vhost 'shop': 2 entries cannot be read";
    assert!(out.contains(line), "{out}");
}

#[test]
fn the_cluster_status_shows_who_votes() {
    let answers = [
        (
            "GET /api/overview",
            200,
            r#"{"node":"a@x","cluster_name":"warren","listeners":[]}"#,
        ),
        ("GET /api/nodes", 200, r#"[{"name":"a@x","running":true}]"#),
        (
            "GET /api/leveret/cluster",
            200,
            r#"{"nodes":[{"name":"b@y","votes":false},{"name":"a@x","votes":true}]}"#,
        ),
    ];
    let (code, out, _) = run_on(&answers, "cluster_status");
    assert_eq!(code, 0, "{out}");
    let shown = "Voting Nodes\n\na@x\n\nNodes Without a Vote\n\nb@y\n\nVersions\n";
    assert!(out.contains(shown), "{out}");
    let (_, out, _) = run_on(&answers, "cluster_status|--formatter=json");
    let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(object["non_voting_nodes"], serde_json::json!(["b@y"]));
}

#[test]
fn the_cluster_status_has_rabbitmqs_sections_and_names_the_node_of_each_listener() {
    let overview = r#"{"node":"a@x","cluster_name":"warren","product_name":"Leveret",
        "rabbitmq_version":"4.2.0","listeners":[
        {"node":"b@y","protocol":"amqp","ip_address":"::","port":5672},
        {"node":"a@x","protocol":"http","ip_address":"127.0.0.1","port":15672}]}"#;
    let nodes = r#"[
        {"name":"b@y","running":true,"being_drained":true,"processors":4,"rabbitmq_version":"4.1.0"},
        {"name":"a@x","running":true,"being_drained":false,"processors":2,"disk_free_alarm":true}]"#;
    let flags = r#"[{"name":"quorum_queue","state":"enabled"}]"#;
    let answers = [
        ("GET /api/overview", 200, overview),
        ("GET /api/nodes", 200, nodes),
        ("GET /api/feature-flags", 200, flags),
        ("GET /api/leveret/cluster", 404, "{}"),
    ];
    let (code, out, _) = run_on(&answers, "cluster_status|-q");
    assert_eq!(code, 0, "{out}");
    let expected = "Basics\n\nCluster name: warren\n\nDisk Nodes\n\na@x\nb@y\n\n\
        Running Nodes\n\na@x\nb@y\n\n\
        Versions\n\na@x: Leveret, as RabbitMQ 4.2.0\nb@y: Leveret, as RabbitMQ 4.1.0\n\n\
        CPU Cores\n\nNode: a@x, available CPU cores: 2\nNode: b@y, available CPU cores: 4\n\n\
        Maintenance status\n\nNode: a@x, status: not under maintenance\n\
        Node: b@y, status: marked for maintenance\n\n\
        Alarms\n\ndisk alarm on node a@x\n\nNetwork Partitions\n\n(none)\n\n\
        Listeners\n\nNode: a@x, interface: 127.0.0.1, port: 15672, protocol: http\n\
        Node: b@y, interface: ::, port: 5672, protocol: amqp\n\n\
        Feature flags\n\nFlag: quorum_queue, state: enabled\n";
    assert_eq!(out, expected);
    let (_, out, _) = run_on(&answers, "cluster_status|--formatter=json");
    let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let of_b = &object["listeners"]["b@y"][0];
    assert_eq!(
        (&of_b["interface"], &of_b["port"]),
        (&"::".into(), &5672.into())
    );
    assert_eq!(object["versions"]["b@y"]["rabbitmq_version"], "4.1.0");
    assert_eq!(
        object["maintenance_status"]["b@y"],
        "marked for maintenance"
    );
    assert_eq!(object["feature_flags"][0]["name"], "quorum_queue");
}

#[test]
fn queues_are_listed_by_where_they_are_and_how_they_stand() {
    let queues = (
        "GET /api/queues/%2F",
        200,
        r#"[{"name":"here","node":"hare@a","state":"running"},
            {"name":"elsewhere","node":"hare@b","state":"running"},
            {"name":"led","node":"hare@b","leader":"hare@a","state":"running"},
            {"name":"gone","node":"hare@c","state":"down"}]"#,
    );
    let overview = ("GET /api/overview", 200, r#"{"node":"hare@a"}"#);
    for (option, expected) in [
        ("--all", "here\nelsewhere\nled\ngone\n"),
        ("--online", "here\nelsewhere\nled\n"),
        ("--offline", "gone\n"),
        ("--local", "here\nled\n"),
    ] {
        let line = format!("-s|list_queues|{option}|name");
        let (code, text, _) = run_on(&[queues, overview], &line);
        assert_eq!((code, text.as_str()), (0, expected), "{option}");
    }
}

#[test]
fn whose_limits_are_listed_is_that_commands_option() {
    let words = ["list_user_limits", "--user", "bob", "--username", "admin"].map(str::to_owned);
    let (options, rest) = options::parse(&words).unwrap();
    assert_eq!(options.limits_of.as_deref(), Some("bob"));
    assert_eq!((options.address.user.as_str(), rest.len()), ("admin", 1));
    let words = ["--user", "bob", "list_users"].map(str::to_owned);
    let (options, _) = options::parse(&words).unwrap();
    assert_eq!(
        (options.address.user.as_str(), options.limits_of),
        ("bob", None)
    );
}

#[test]
fn a_plugin_is_enabled_only_if_the_broker_does_what_it_does() {
    for (line, expected) in [
        ("enable|rabbitmq_management", 0),
        ("enable|rabbitmq_management|rabbitmq_shovel", code::SOFTWARE),
        ("enable|rabbitmq_managment", code::SOFTWARE),
        ("set|rabbitmq_stomp", code::SOFTWARE),
        ("set|rabbitmq_prometheus", 0),
        ("disable|rabbitmq_management", code::SOFTWARE),
        ("disable|rabbitmq_stomp", 0),
    ] {
        let (code, text, _) = run_on(&[], line);
        assert_eq!(code, expected, "{line}: {text}");
    }
}

#[test]
fn options_stand_anywhere_and_a_bare_dash_ends_them() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (options, rest) = options::parse(&words("-p v set_policy -- --name -x {}")).unwrap();
    assert_eq!(options.vhost, "v");
    assert_eq!(rest, ["set_policy", "--name", "-x", "{}"]);
    let (options, rest) = options::parse(&words("list_queues -n rabbit@h -t 5 -s name")).unwrap();
    assert_eq!(options.address.timeout.as_secs(), 5);
    assert_eq!(options.address.node.as_deref(), Some("rabbit@h"));
    assert!(options.layout.silent);
    assert_eq!(rest, ["list_queues", "name"]);
    assert_eq!(segment(&options.vhost), "%2F");
}

#[test]
fn every_command_has_one_name_and_help() {
    let help = commands::usage(None);
    for name in [
        "add_user",
        "list_queues",
        "set_disk_free_limit",
        "trace_off",
    ] {
        assert!(
            help.contains(&format!("\n    {name} ")) || help.contains(&format!("\n    {name}\n"))
        );
        assert!(commands::usage(Some(name)).starts_with("Usage\n\nrabbitmqctl "));
    }
}

#[test]
fn an_option_that_a_command_does_not_take_is_refused_before_anything_is_done() {
    for (line, refused) in [
        ("purge_queue|orders|--if-empty", "--if-empty"),
        ("delete_vhost|shop|--if-unused|-e|-p|/", "--if-unused\n-e"),
        ("rebalance|all|--if-empty", "--if-empty"),
        ("delete_user|bob|--limit|1", "--limit"),
    ] {
        let (code, out, asked) = run_on(&[], line);
        assert_eq!(code, code::USAGE, "{line}");
        let text = format!("Invalid options for this command:\n{refused}");
        assert!(out.contains(&text), "{line}: {out}");
        assert!(asked.is_empty(), "{line}: {asked:?}");
    }
}

#[test]
fn what_serves_instead_is_said_whatever_options_are_given() {
    let (_, out, _) = run_on(&[], "decode|--if-empty");
    assert!(!out.contains("Invalid options"), "{out}");
}

/// Those that stand in scripts and tutorials; what they do here is in each command's page.
#[test]
fn options_of_rabbitmqs_commands_are_taken() {
    let answers = [
        ("GET /api/definitions", 200, "{}"),
        ("POST /api/rebalance/queues", 204, ""),
        ("GET /api/overview", 200, r#"{"node":"a@x","listeners":[]}"#),
        (
            "GET /api/nodes",
            200,
            r#"[{"name":"a@x","running":true,"mem_used":3145728}]"#,
        ),
        ("GET /api/nodes/a%40x/memory", 200, r#"{"memory":{}}"#),
        ("GET /api/deprecated-features", 200, "[]"),
        QUEUES,
    ];
    let vhosts = "--vhost-pattern|^shop|--queue-pattern|^a";
    for (line, shown) in [
        ("export_definitions|-|--format|json".to_owned(), "{}"),
        ("status|--unit|MiB".to_owned(), "used: 3.0000 mib"),
        ("status|--unit=bytes".to_owned(), "used: 3145728 bytes"),
        ("status".to_owned(), "used: 0.0031 gb"),
        (format!("rebalance|all|{vhosts}"), "Rebalancing"),
        ("list_deprecated_features|--used".to_owned(), ""),
        (
            "list_unresponsive_queues|--queue-timeout|5000".to_owned(),
            "",
        ),
        ("help|--list-commands".to_owned(), "\nlist_queues\n"),
        ("enable|--all".to_owned(), ""),
    ] {
        let (code, out, _) = run_on(&answers, &line);
        assert_eq!(code, 0, "{line}: {out}");
        assert!(out.contains(shown), "{line}: {out}");
    }
    for (line, code, text) in [
        (
            "export_definitions|-|--format|erlang",
            code::USAGE,
            "written and read as json",
        ),
        ("status|--unit|parsec", code::USAGE, "it is one of bytes"),
        (
            "forget_cluster_node|a@b|--offline",
            code::USAGE,
            "against a node that runs",
        ),
        (
            "disable|--all",
            code::SOFTWARE,
            "part of the broker and cannot be turned off",
        ),
        ("enable", code::USAGE, "name a plugin"),
    ] {
        let (found, out, asked) = run_on(&answers, line);
        assert_eq!(found, code, "{line}: {out}");
        assert!(out.contains(text), "{line}: {out}");
        assert!(asked.is_empty(), "{line}: {asked:?}");
    }
}

#[test]
fn keys_of_mirrored_queues_are_taken_out_of_policies() {
    let answers = [
        (
            "GET /api/policies",
            200,
            r#"[{"vhost":"/","name":"all","pattern":".*","apply-to":"queues","priority":1,
                 "definition":{"ha-mode":"all"}},
                {"vhost":"a b","name":"some","pattern":"^x","apply-to":"queues","priority":2,
                 "definition":{"ha-mode":"all","max-length":5}},
                {"vhost":"/","name":"none","definition":{"max-length":5}}]"#,
        ),
        ("GET /api/operator-policies", 200, "[]"),
        ("DELETE /api/policies/%2F/all", 204, ""),
        ("PUT /api/policies/a%20b/some", 204, ""),
    ];
    let (code, out, asked) = run_on(&answers, "remove_classic_queue_mirroring_from_policies");
    assert_eq!(code, 0, "{out}");
    let put = r#"PUT /api/policies/a%20b/some {"apply-to":"queues","definition":{"max-length":5},"pattern":"^x","priority":2}"#;
    assert_eq!(asked, ["DELETE /api/policies/%2F/all", put]);
}

#[test]
fn completion_knows_every_command_of_the_program() {
    use clap::CommandFactory as _;
    for shell in ["bash", "zsh", "fish"] {
        let (_, script, _) = run_on(&[], &format!("autocomplete|{shell}"));
        for command in crate::cli::Cli::command().get_subcommands() {
            let (name, is_hidden) = (command.get_name(), command.is_hide_set());
            let mut words = script.split(|c: char| !(c == '-' || c.is_ascii_alphanumeric()));
            assert!(
                is_hidden || words.any(|word| word == name),
                "{shell}: {name}"
            );
        }
    }
}
