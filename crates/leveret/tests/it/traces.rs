//! Traces of messages: the real binary, a load with a `traceparent`, and a collector that is a
//! socket of the test's own.

use crate::common::{BINARY, Folder, Node, certificate, serve_with_metrics};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// Messages of a load.
const MESSAGES: usize = 3;
/// What a collector answers that has taken all.
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector: its address, and the spans that it is sent.
fn collector(answer: &'static str) -> (String, Receiver<Value>) {
    listen(move |stream| take_request(stream, answer))
}

/// A collector that speaks TLS, with this certificate.
fn tls_collector(settings: Arc<ServerConfig>) -> (String, Receiver<Value>) {
    listen(move |stream| {
        let session = ServerConnection::new(Arc::clone(&settings)).ok()?;
        take_request(StreamOwned::new(session, stream), TAKEN)
    })
}

/// A collector that takes requests in this way.
fn listen(take: impl Fn(TcpStream) -> Option<Value> + Send + 'static) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            for span in take(stream).iter().flat_map(spans_of) {
                let _ = sender.send(span);
            }
        }
    });
    (address, receiver)
}

/// Reads a request and answers it; its body. None of who goes before it has said anything.
fn take_request(stream: impl Read + Write, answer: &str) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    assert_eq!(first, "POST /v1/traces HTTP/1.1\r\n");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        if line == "\r\n" {
            break;
        }
        let (name, value) = line.split_once(": ").expect("a header");
        match name {
            "content-length" => length = value.trim().parse().expect("a length"),
            "content-type" => assert_eq!(value.trim(), "application/json"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    reader
        .get_mut()
        .write_all(answer.as_bytes())
        .expect("answered");
    Some(serde_json::from_slice(&body).expect("JSON"))
}

fn spans_of(body: &Value) -> Vec<Value> {
    let resource = &body["resourceSpans"][0];
    let service = &resource["resource"]["attributes"][0];
    assert_eq!(service["key"], "service.name");
    assert_eq!(service["value"]["stringValue"], "leveret");
    let spans = resource["scopeSpans"][0]["spans"].as_array();
    spans.expect("spans").clone()
}

/// A node that traces, or not.
fn start(folder: &Folder, settings: &str) -> Node {
    let data = folder.data();
    let config = folder.write("node.conf", settings);
    let mut command = serve_with_metrics(&data, "127.0.0.1:0");
    command.args(["--http", "none", "--config"]).arg(config);
    Node::start(&mut command, &data)
}

/// Messages with confirms and acknowledgements, of which each has this `traceparent`.
fn run_load(node: &Node, folder: &Folder, traceparent: &str) {
    let load = format!(
        r#"
name = "traced"
duration_s = 60.0
warm_up_s = 0.0
[[load]]
count = {MESSAGES}
size = 100
confirm_window = 1
prefetch = 10
queue_name = "orders"
properties = {{ headers = {{ traceparent = "{traceparent}" }} }}
"#
    );
    let load = folder.write("load.toml", &load);
    let uri = format!("amqp://guest:guest@127.0.0.1:{}/", node.port("amqp"));
    let mut command = Command::new(BINARY);
    command
        .args(["perf", "run"])
        .arg(load)
        .args(["--uri", &uri]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

/// One of the node's counters.
fn counter(node: &Node, name: &str) -> u64 {
    let answer = node.metrics();
    let name = format!("rabbitmq_leveret_{name} ");
    let value = answer.lines().find_map(|line| line.strip_prefix(&name));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {answer}"))
}

/// Waits until a counter has a value.
fn await_counter(node: &Node, name: &str, wanted: u64) {
    let until = Instant::now() + PATIENCE;
    while counter(node, name) != wanted {
        assert!(Instant::now() < until, "{name} is {}", counter(node, name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    let of_name: Vec<&Value> = spans.iter().filter(|span| span["name"] == name).collect();
    assert_eq!(of_name.len(), MESSAGES, "{name}: {spans:?}");
    of_name
}

fn nanoseconds(span: &Value, key: &str) -> u64 {
    let text = span[key].as_str().expect("64-bit numbers are strings");
    text.parse().expect("a number")
}

#[test]
fn a_traced_message_leaves_a_span_of_each_part_of_its_way() {
    let (address, received) = collector(TAKEN);
    let folder = Folder::new("traces");
    let node = start(&folder, &format!("traces.endpoint = http://{address}\n"));
    run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-01"));
    let next = |_| received.recv_timeout(PATIENCE).expect("a span");
    let spans: Vec<Value> = (0..5 * MESSAGES).map(next).collect();
    for span in &spans {
        assert_eq!(span["traceId"], TRACE);
        let (start, end) = ("startTimeUnixNano", "endTimeUnixNano");
        assert!(nanoseconds(span, start) <= nanoseconds(span, end), "{span}");
    }
    let published = named(&spans, "publish");
    let delivered = named(&spans, "deliver orders");
    assert!(
        [&published[..], &delivered]
            .concat()
            .iter()
            .all(|span| span["parentSpanId"] == PARENT)
    );
    for (part, whole) in [
        ("route", &published),
        ("store", &published),
        ("settle orders", &delivered),
    ] {
        for span in named(&spans, part) {
            let above = whole
                .iter()
                .filter(|whole| whole["spanId"] == span["parentSpanId"]);
            assert_eq!(above.count(), 1, "{span}");
        }
    }
    let settled = named(&spans, "settle orders")[0];
    let attributes = settled["attributes"].as_array().expect("attributes");
    assert!(
        attributes
            .iter()
            .any(|of| of["value"]["stringValue"] == "accepted")
    );
    await_counter(&node, "trace_spans_exported_total", 5 * MESSAGES as u64);
    assert_eq!(counter(&node, "trace_spans_dropped_total"), 0);
    // What its publisher does not sample leaves nothing, nor what is no `traceparent`.
    run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-00"));
    run_load(&node, &folder, "00-of-no-trace-01");
    assert!(node.terminate());
    assert_eq!(received.try_iter().count(), 0);
}

#[test]
fn a_collector_that_takes_nothing_costs_spans_and_no_message() {
    for (name, answer) in [
        (
            "refuses",
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "rejects",
            "HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"99\"}}",
        ),
    ] {
        let (address, _received) = collector(answer);
        let folder = Folder::new(&format!("traces-{name}"));
        let node = start(&folder, &format!("traces.endpoint = http://{address}\n"));
        run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-01"));
        await_counter(&node, "trace_spans_dropped_total", 5 * MESSAGES as u64);
        assert_eq!(counter(&node, "trace_spans_exported_total"), 0);
        assert!(node.terminate());
    }
}

#[test]
fn a_collector_is_believed_by_its_certificate() {
    let folder = Folder::new("traces-tls");
    let (its, another) = (
        folder.path().join("its.pem"),
        folder.path().join("another.pem"),
    );
    let settings = certificate(&its);
    certificate(&another);
    let (address, received) = tls_collector(settings);
    let (_, port) = address.rsplit_once(':').expect("a port");
    let settings = |file: &Path| {
        let file = file.display();
        format!("traces.endpoint = https://localhost:{port}\ntraces.cacertfile = {file}\n")
    };
    let node = start(&folder, &settings(&its));
    run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-01"));
    await_counter(&node, "trace_spans_exported_total", 5 * MESSAGES as u64);
    assert!(node.terminate());
    assert_eq!(received.try_iter().count(), 5 * MESSAGES);
    // Who is not believed learns nothing.
    let node = start(&folder, &settings(&another));
    run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-01"));
    await_counter(&node, "trace_spans_dropped_total", 5 * MESSAGES as u64);
    assert!(node.terminate());
    assert_eq!(received.try_iter().count(), 0);
}

/// A collector that answers with a byte now and then, and never to an end.
fn dripping_collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                while stream.write_all(b"H").is_ok() {
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        }
    });
    address
}

#[test]
fn a_collector_whose_answer_never_ends_is_given_up() {
    let folder = Folder::new("traces-drip");
    let settings = format!(
        "traces.endpoint = http://{}/v1/traces\n",
        dripping_collector()
    );
    let node = start(&folder, &settings);
    run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-01"));
    await_counter(&node, "trace_spans_dropped_total", 5 * MESSAGES as u64);
    assert!(node.terminate());
}

#[test]
fn nothing_is_traced_where_nobody_asked_for_it() {
    let folder = Folder::new("traces-off");
    let node = start(&folder, "");
    run_load(&node, &folder, &format!("00-{TRACE}-{PARENT}-01"));
    assert_eq!(counter(&node, "trace_spans_exported_total"), 0);
    assert_eq!(counter(&node, "trace_spans_dropped_total"), 0);
    assert!(node.terminate());
}

#[test]
fn an_endpoint_that_is_none_is_refused_with_its_line() {
    let folder = Folder::new("traces-wrong");
    for (endpoint, what) in [
        ("collector:4318", "must be an http:// or https:// URL"),
        (
            "https://collector:4318\ntraces.cacertfile = /nonexistent.pem",
            "cannot read authorities from /nonexistent.pem",
        ),
        ("http://:4318", "must be http://host:port"),
    ] {
        let config = folder.write("node.conf", &format!("traces.endpoint = {endpoint}\n"));
        let mut command = serve_with_metrics(&folder.data(), "none");
        let output = command
            .arg("--config")
            .arg(config)
            .stderr(std::process::Stdio::piped())
            .output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(what), "{said}");
    }
}
