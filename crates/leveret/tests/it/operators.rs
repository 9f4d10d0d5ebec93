//! What operators see of a running node: streams, live figures, metrics by type of queue, names
//! that strangers have chosen.

use crate::common::{Folder, Node, serve, serve_with_metrics};

fn start(folder: &Folder) -> Node {
    let data = folder.data();
    Node::start(serve(&data).args(["--http", "none"]), &data)
}

#[test]
fn a_super_stream_is_made_shown_and_deleted_from_the_command_line() {
    let folder = Folder::new("super-stream");
    let node = start(&folder);
    let made = node.told(&[
        "-q",
        "add_super_stream",
        "invoices",
        "--binding-keys",
        "eu,us",
    ]);
    assert_eq!(made, "Super stream invoices has been created\n");
    let again = node.ctl(&["-q", "add_super_stream", "invoices"]);
    assert_eq!(again.status.code(), Some(65));
    let queues = node.told(&["-s", "list_queues", "name", "type"]);
    for stream in ["invoices-eu\tstream\n", "invoices-us\tstream\n"] {
        assert!(queues.contains(stream), "{queues}");
    }
    let status = node.told(&["-s", "stream_status", "invoices-eu"]);
    let fields: Vec<&str> = status.trim_end().split('\t').collect();
    assert_eq!(
        (fields[0], &fields[2..]),
        ("writer", &["-1", "-1", "-1", "0", "0"][..])
    );
    assert_eq!(
        node.told(&["-s", "list_stream_tracking", "invoices-eu"]),
        ""
    );
    let more = node.told(&[
        "-q",
        "add_super_stream_partitions",
        "invoices",
        "--partitions",
        "1",
    ]);
    assert_eq!(more, "Super stream invoices has been given invoices-2\n");
    let queues = node.told(&["-s", "list_queues", "name", "type"]);
    assert!(queues.contains("invoices-2\tstream\n"), "{queues}");
    drains_partitions(&node);
    node.told(&["-q", "delete_super_stream", "invoices"]);
    assert_eq!(node.told(&["-s", "list_queues", "name"]), "");
}

/// Drains all but one of the partitions of `invoices`, and shows what is drained over a restart's
/// definitions.
fn drains_partitions(node: &Node) {
    let listed = || {
        let rows = node.told(&[
            "-s",
            "list_super_streams",
            "partition",
            "routing",
            "drained",
        ]);
        rows.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let drain =
        |partition: &str| node.ctl(&["-q", "drain_super_stream_partition", "invoices", partition]);
    let drained = [
        "invoices-eu\tkey\ttrue",
        "invoices-us\tkey\tfalse",
        "invoices-2\tkey\ttrue",
    ];
    for partition in ["invoices-eu", "invoices-2", "invoices-2"] {
        assert!(drain(partition).status.success(), "{partition}");
    }
    assert_eq!(listed(), drained);
    let last = drain("invoices-us");
    let said = String::from_utf8_lossy(&last.stderr).into_owned();
    assert!(
        !last.status.success() && said.contains("last partition"),
        "{said}"
    );
    let definitions = node.http("GET", "/api/definitions", "");
    let marks = definitions
        .matches("\"x-stream-partition-drained\":true")
        .count();
    assert_eq!(marks, 2, "{definitions}");
    let undrain = [
        "-q",
        "undrain_super_stream_partition",
        "invoices",
        "invoices-2",
    ];
    node.told(&undrain);
    let drained = [
        "invoices-eu\tkey\ttrue",
        "invoices-us\tkey\tfalse",
        "invoices-2\tkey\tfalse",
    ];
    assert_eq!(listed(), drained);
}

#[test]
fn an_offset_that_an_operator_stores_is_kept_by_the_stream() {
    let folder = Folder::new("stream-offset");
    let node = start(&folder);
    let stream = r#"{"durable": true, "arguments": {"x-queue-type": "stream"}}"#;
    let created = node.http("PUT", "/api/queues/%2f/s", stream);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let path = "/api/leveret/streams/%2f/s/offsets/group";
    let stored = node.http("PUT", path, r#"{"offset": 12}"#);
    assert!(stored.starts_with("HTTP/1.1 204"), "{stored}");
    // What is stored and what is asked for go one after the other.
    let kept = node.told(&["-s", "list_stream_tracking", "s", "--offset"]);
    assert_eq!(kept, "offset\tgroup\t12\n");
    node.told(&[
        "-q",
        "reset_offset",
        "--stream",
        "s",
        "--reference",
        "group",
    ]);
    let kept = node.told(&["-s", "list_stream_tracking", "s", "--offset"]);
    assert_eq!(kept, "offset\tgroup\t0\n");
}

#[test]
fn messages_are_counted_under_the_type_of_their_queue() {
    let folder = Folder::new("queue-types");
    let data = folder.data();
    let mut command = serve_with_metrics(&data, "127.0.0.1:0");
    let node = Node::start(command.args(["--http", "none"]), &data);
    for (kind, messages) in [("classic", 1), ("quorum", 2)] {
        let body = format!(r#"{{"durable": true, "arguments": {{"x-queue-type": "{kind}"}}}}"#);
        let created = node.http("PUT", &format!("/api/queues/%2f/{kind}"), &body);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        for _ in 0..messages {
            node.publish("%2f", kind, "x");
        }
        let get = r#"{"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
        let got = node.http("POST", &format!("/api/queues/%2f/{kind}/get"), get);
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    }
    let metrics = node.metrics();
    for (kind, messages) in [("classic", 1), ("quorum", 2)] {
        let labels = format!(r#"{{protocol="amqp091",queue_type="rabbit_{kind}_queue"}}"#);
        let line = format!("rabbitmq_global_messages_delivered_total{labels} {messages}");
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} in {metrics}"
        );
    }
}

#[test]
fn stats_are_shown_again_and_again() {
    let folder = Folder::new("live");
    let node = start(&folder);
    let created = node.http("PUT", "/api/queues/%2f/q", r#"{"durable": true}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    node.publish("%2f", "q", "x");
    let lines = node.says(&["watch", "queue", "q", "--count", "2"]);
    let rows: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..2], ["ready", "unacked"]);
    assert_eq!(
        (rows[1].len(), &rows[2][..5]),
        (4, &["1", "0", "0", "0", "0"][..])
    );
    let oldest: u64 = rows[2][5].parse().expect("seconds");
    assert!(oldest < 3_600, "{lines}");
    let top = node.says(&["top", "--count", "1"]);
    assert!(top.contains("1 queues") && top.contains("1 ready"), "{top}");
    let json = node.says(&["top", "--count", "1", "--json"]);
    assert!(
        json.contains(r#""name":"q""#) && json.contains(r#""ready":1"#),
        "{json}"
    );
}

#[test]
fn messages_published_over_http_are_counted_as_a_clients_are() {
    let folder = Folder::new("http-publish");
    let data = folder.data();
    let mut command = serve_with_metrics(&data, "127.0.0.1:0");
    let node = Node::start(command.args(["--http", "none"]), &data);
    let created = node.http("PUT", "/api/queues/%2f/q", r#"{"durable": true}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    for _ in 0..3 {
        node.publish("%2f", "q", "four");
    }
    let body = r#"{"properties":{},"routing_key":"nowhere","payload":"x"}"#;
    let path = "/api/exchanges/%2f/amq.default/publish";
    let answer = node.http("POST", path, body);
    assert!(answer.contains("\"routed\":false"), "{answer}");
    let overview = node.http("GET", "/api/overview", "");
    for field in [
        "\"publish\":4",
        "\"confirm\":4",
        "\"return_unroutable\":1",
        "\"publish_details\":",
    ] {
        assert!(overview.contains(field), "{field} in {overview}");
    }
    let metrics = node.metrics();
    let of = r#"{protocol="amqp091"}"#;
    for line in [
        format!("rabbitmq_global_messages_received_total{of} 4"),
        format!("rabbitmq_global_messages_routed_total{of} 3"),
        format!("rabbitmq_message_size_bytes_count{of} 4"),
        format!("rabbitmq_message_size_bytes_sum{of} 13"),
        r#"rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="100"} 4"#.to_owned(),
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} in {metrics}"
        );
    }
}

/// What is got from a queue over HTTP, and stays away from it.
fn got(node: &Node, queue: &str) -> serde_json::Value {
    let get = r#"{"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    body_of(&node.http("POST", &format!("/api/queues/%2f/{queue}/get"), get))
}

#[test]
fn a_message_published_over_http_is_remembered_by_a_recent_history_exchange() {
    let folder = Folder::new("http-history");
    let node = start(&folder);
    let exchange = r#"{"type": "x-recent-history", "arguments": {"x-recent-history-length": 2}}"#;
    let exchange = node.http("PUT", "/api/exchanges/%2f/recent", exchange);
    assert!(exchange.starts_with("HTTP/1.1 201"), "{exchange}");
    for payload in ["1", "2", "3"] {
        let body = format!(r#"{{"properties":{{}},"routing_key":"","payload":"{payload}"}}"#);
        let answer = node.http("POST", "/api/exchanges/%2f/recent/publish", &body);
        assert!(answer.contains("\"routed\":false"), "{answer}");
    }
    let queue = node.http("PUT", "/api/queues/%2f/q", "{}");
    assert!(queue.starts_with("HTTP/1.1 201"), "{queue}");
    let bound = node.http("POST", "/api/bindings/%2f/e/recent/q/q", "{}");
    assert!(bound.starts_with("HTTP/1.1 201"), "{bound}");
    let got = got(&node, "q");
    let payloads: Vec<_> = got.as_array().expect("a list").iter().collect();
    assert_eq!(payloads.len(), 2, "{got}");
    assert_eq!(
        (&payloads[0]["payload"], &payloads[1]["payload"]),
        (&"2".into(), &"3".into())
    );
}

#[test]
fn a_message_published_over_http_is_copied_by_the_firehose() {
    let folder = Folder::new("http-firehose");
    let node = start(&folder);
    let traced = node.http("PUT", "/api/vhosts/%2f", r#"{"tracing": true}"#);
    assert!(traced.starts_with("HTTP/1.1 204"), "{traced}");
    for queue in ["q", "copies"] {
        let queue = node.http("PUT", &format!("/api/queues/%2f/{queue}"), "{}");
        assert!(queue.starts_with("HTTP/1.1 201"), "{queue}");
    }
    let path = "/api/bindings/%2f/e/amq.rabbitmq.trace/q/copies";
    let bound = node.http("POST", path, r##"{"routing_key": "publish.#"}"##);
    assert!(bound.starts_with("HTTP/1.1 201"), "{bound}");
    let body = r#"{"properties":{},"routing_key":"q","payload":"seen"}"#;
    let answer = node.http("POST", "/api/exchanges/%2f/amq.default/publish", body);
    assert!(answer.contains("\"routed\":true"), "{answer}");
    let copy = &got(&node, "copies")[0];
    assert_eq!(copy["payload"], "seen", "{copy}");
    assert_eq!(copy["routing_key"], "publish.");
    let headers = &copy["properties"]["headers"];
    assert_eq!(headers["routed_queues"][0], "q", "{headers}");
    assert_eq!(headers["routing_keys"][0], "q");
}

#[test]
fn a_message_published_over_http_is_in_its_stream_and_its_queue_when_that_is_answered() {
    let folder = Folder::new("http-stream");
    let node = start(&folder);
    let stream = r#"{"arguments": {"x-queue-type": "stream"}}"#;
    let view = r#"{"arguments": {"x-stream-source": "s"}}"#;
    for (queue, arguments) in [("s", stream), ("q", "{}"), ("v", view)] {
        let made = node.http("PUT", &format!("/api/queues/%2f/{queue}"), arguments);
        assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    }
    for queue in ["s", "q"] {
        let path = format!("/api/bindings/%2f/e/amq.fanout/q/{queue}");
        let bound = node.http("POST", &path, "{}");
        assert!(bound.starts_with("HTTP/1.1 201"), "{bound}");
    }
    let publish = |exchange: &str, key: &str, text: &str| {
        let body = format!(r#"{{"properties":{{}},"routing_key":"{key}","payload":"{text}"}}"#);
        let path = format!("/api/exchanges/%2f/{exchange}/publish");
        node.http("POST", &path, &body)
    };
    for number in 1..=8 {
        let (exchange, key) = match number % 2 {
            0 => ("amq.fanout", ""),
            _ => ("amq.default", "s"),
        };
        let answer = publish(exchange, key, &number.to_string());
        assert!(answer.contains("\"routed\":true"), "{answer}");
        let path = "/api/leveret/streams/%2f/s/messages?offset=last&count=1";
        let newest = body_of(&node.http("GET", path, ""));
        let newest = &newest["messages"][0];
        assert_eq!(newest["offset"], number - 1, "{newest}");
        assert_eq!(newest["payload"], number.to_string(), "{newest}");
    }
    let in_queue = got(&node, "q");
    let in_queue = in_queue.as_array().expect("messages").iter();
    let texts: Vec<_> = in_queue.map(|message| &message["payload"]).collect();
    assert_eq!(texts, ["2", "4", "6", "8"]);
    let refused = publish("amq.default", "v", "of a view");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("publish to the stream"), "{refused}");
}

#[test]
fn a_message_published_over_http_to_a_delayed_exchange_waits() {
    let folder = Folder::new("http-delay");
    let node = start(&folder);
    let queue = node.http("PUT", "/api/queues/%2f/q", r#"{"durable": true}"#);
    assert!(queue.starts_with("HTTP/1.1 201"), "{queue}");
    let exchange = r#"{"type": "x-delayed-message", "durable": true, "arguments": {"x-delayed-type": "fanout"}}"#;
    let exchange = node.http("PUT", "/api/exchanges/%2f/later", exchange);
    assert!(exchange.starts_with("HTTP/1.1 201"), "{exchange}");
    let bound = node.http("POST", "/api/bindings/%2f/e/later/q/q", "{}");
    assert!(bound.starts_with("HTTP/1.1 201"), "{bound}");
    let publish = |delay_ms: u64| {
        let body = format!(
            r#"{{"properties":{{"headers":{{"x-delay":{delay_ms}}}}},"routing_key":"","payload":"{delay_ms}"}}"#
        );
        let answer = node.http("POST", "/api/exchanges/%2f/later/publish", &body);
        assert!(answer.contains("\"routed\":true"), "{answer}");
    };
    publish(3_600_000);
    publish(0);
    let get = r#"{"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    let got = node.http("POST", "/api/queues/%2f/q/get", get);
    assert!(got.contains("\"payload\":\"0\""), "{got}");
    assert!(!got.contains("3600000"), "{got}");
    let kept = body_of(&node.http("GET", "/api/leveret/delayed", ""));
    assert_eq!(kept["total_count"], 1, "{kept}");
    let message = &kept["messages"][0];
    assert_eq!(
        (&message["payload"], &message["exchange"]),
        (&"3600000".into(), &"later".into())
    );
    assert_eq!(message["vhost"], "/");
    assert!(
        message["due"]
            .as_str()
            .is_some_and(|due| due.starts_with("20")),
        "{kept}"
    );
    let path = format!(
        "/api/leveret/delayed/{}",
        message["id"].as_str().expect("an id")
    );
    let dropped = node.http("DELETE", &path, "");
    assert!(dropped.starts_with("HTTP/1.1 204"), "{dropped}");
    let again = node.http("DELETE", &path, "");
    assert!(again.starts_with("HTTP/1.1 404"), "{again}");
    let kept = body_of(&node.http("GET", "/api/leveret/delayed", ""));
    assert_eq!(kept["total_count"], 0, "{kept}");
}

fn body_of(answer: &str) -> serde_json::Value {
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    body.and_then(|body| serde_json::from_str(body).ok())
        .unwrap_or_else(|| panic!("no JSON: {answer}"))
}

#[test]
fn the_queues_that_keep_the_disk_are_named() {
    let folder = Folder::new("disk-use");
    let node = start(&folder);
    for queue in ["idle", "kept"] {
        let created = node.http(
            "PUT",
            &format!("/api/queues/%2f/{queue}"),
            r#"{"durable": true}"#,
        );
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    }
    for _ in 0..5 {
        node.publish("%2f", "kept", "0123456789");
    }
    let disk = body_of(&node.http("GET", "/api/leveret/disk", ""));
    let wal_bytes = disk["wal_bytes"].as_u64().expect("bytes");
    assert!(wal_bytes > 50 && disk["wal_files"] != 0, "{disk}");
    let first = &disk["queues"][0];
    assert_eq!(
        (&first["name"], &first["entries"]),
        (&"kept".into(), &5.into()),
        "{disk}"
    );
    assert!(
        first["bytes"].as_u64().is_some_and(|bytes| bytes >= 50),
        "{disk}"
    );
    assert!(!node.says(&["disk"]).contains("set aside"));
    let aside = folder.data().join("segment/stream/set-aside");
    std::fs::create_dir_all(&aside).expect("a folder");
    std::fs::write(aside.join("of a lost stream"), [1; 12]).expect("a file");
    let disk = body_of(&node.http("GET", "/api/leveret/disk", ""));
    let set_aside = (&disk["set_aside_files"], &disk["set_aside_bytes"]);
    assert_eq!(set_aside, (&1.into(), &12.into()), "{disk}");
    let text = node.says(&["disk"]);
    let told = text.lines().find(|line| line.starts_with("set aside"));
    let path = aside.to_str().expect("text");
    assert!(told.is_some_and(|line| line.ends_with(path)), "{text}");
    assert!(text.contains("or delete them"), "{text}");
}

/// Turns what follows, speaks to a terminal in a byte of its own, and turns words apart.
const HOSTILE: &str = "txt.\u{202e}gpj\u{9b}31m\u{2067}";
const HOSTILE_IN_A_PATH: &str = "txt.%E2%80%AEgpj%C2%9B31m%E2%81%A7";

#[test]
fn no_name_of_a_stranger_turns_or_orders_what_the_command_line_shows() {
    let folder = Folder::new("hostile-names");
    let node = start(&folder);
    let queue = r#"{"durable": true, "arguments": {"x-queue-type": "quorum"}}"#;
    let created = node.http(
        "PUT",
        &format!("/api/queues/%2f/{HOSTILE_IN_A_PATH}"),
        queue,
    );
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let message = serde_json::json!({
        "properties": {"headers": {(HOSTILE): HOSTILE}}, "routing_key": HOSTILE,
        "payload": HOSTILE, "payload_encoding": "string",
    });
    let path = "/api/exchanges/%2f/amq.default/publish";
    let published = node.http("POST", path, &message.to_string());
    assert!(published.contains("\"routed\":true"), "{published}");
    let gone = format!("{HOSTILE}gone");
    for words in [
        &["list", "queues"][..],
        &["list", "queues", "--json"],
        &["top", "--count", "1"],
        &["top", "--count", "1", "--json"],
        &["disk"],
        &["audit"],
        &["audit", "--json"],
        &["export"],
        &["growth", HOSTILE],
        &["peek", HOSTILE],
        &["peek", HOSTILE, "--json"],
        // What is refused names it as well.
        &["peek", &gone],
        &["watch", "queue", &gone, "--count", "1"],
        &["growth", &gone],
        &["redrive", &gone],
        &["list", "queues", "-p", &gone],
    ] {
        check_plain(words, &node.run(words));
    }
    for words in [
        &["list_queues", "name", "messages"][..],
        &["list_queues", "name", "messages", "--formatter", "json"],
        &["list_queues", "name", "messages", "--formatter", "csv"],
        &["list_bindings", "--formatter", "pretty_table"],
        &["quorum_status", HOSTILE],
        &["delete_queue", &gone],
    ] {
        check_plain(words, &node.ctl(words));
    }
    let listed = node.told(&["-s", "list_queues", "name"]);
    assert_eq!(listed, "txt.\\u202egpj\\u009b31m\\u2067\n");
    let exported: serde_json::Value =
        serde_json::from_str(&node.says(&["export"])).expect("JSON, as it was");
    assert_eq!(exported["queues"][0]["name"], HOSTILE);
}

fn check_plain(words: &[&str], output: &std::process::Output) {
    for said in [&output.stdout, &output.stderr] {
        let said = String::from_utf8(said.clone()).expect("text");
        let is_hostile = |letter: char| HOSTILE.contains(letter) && !letter.is_ascii();
        assert!(!said.contains(is_hostile), "{words:?}: {said:?}");
    }
}

#[test]
fn commands_name_what_is_not_there_and_how_to_find_what_is() {
    let folder = Folder::new("not-there");
    let node = start(&folder);
    node.http("PUT", "/api/vhosts/shop", "");
    node.http("PUT", "/api/queues/shop/orders", "{}");
    node.http("PUT", "/api/queues/%2f/hello", "{}");
    for (words, said) in [
        (
            &["growth", "none"][..],
            "there is no queue 'none' in vhost '/'; `leveret list queues` shows what there is",
        ),
        (
            &["watch", "queue", "none", "--count", "1"],
            "there is no queue 'none' in vhost '/'",
        ),
        (
            &["redrive", "none", "-p", "shop"],
            "there is no queue 'none' in vhost 'shop'",
        ),
        (
            &["route", "none", "key"],
            "there is no exchange 'none' in vhost '/'",
        ),
        (&["impact", "none"], "there is no node 'none'"),
        (&["disk", "none"], "there is no node 'none'"),
        (
            &["delayed", "--cancel", "77"],
            "there is no delayed message '77'",
        ),
        (
            &["list", "queues", "-p", "none"],
            "there is no virtual host 'none'",
        ),
        (
            &["list", "permissions", "-p", "none"],
            "there is no virtual host 'none'",
        ),
    ] {
        let refused = node.run(words);
        let text = String::from_utf8(refused.stderr).expect("text");
        assert!(
            !refused.status.success() && text.contains(said),
            "{words:?}: {text}"
        );
    }
    let listed = node.says(&["list", "queues", "-p", "shop"]);
    assert!(listed.contains("orders") && !listed.contains("hello"));
    for what in [
        "connections",
        "channels",
        "consumers",
        "exchanges",
        "bindings",
        "permissions",
        "topic-permissions",
        "policies",
        "operator-policies",
        "parameters",
        "vhost-limits",
        "stream-groups",
    ] {
        let listed = node.says(&["list", what, "-p", "shop", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        let rows = listed.as_array().expect("a list");
        assert!(
            rows.iter().all(|row| row["vhost"] == "shop"),
            "{what}: {listed}"
        );
    }
}
