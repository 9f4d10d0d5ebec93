//! Sends spans of traced messages to a collector: OTLP over HTTP, as JSON.
//!
//! Invariant: no message waits for the collector. What it does not take at once is dropped, and
//! counted.

use crate::config::{Config, settled};
use leveret_node::Env;
use leveret_node::traces::{Span, Stage, Traces};
use leveret_shell::broker::Broker;
use leveret_types::limits::{TRACE_BATCH_SPANS_MAX, TRACE_EXPORT_MS, TRACE_EXPORT_MS_MAX};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of a collector's answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_millis(TRACE_EXPORT_MS_MAX);
/// What OpenTelemetry calls a span inside a program, and one that serves another program's.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;

/// Where spans of this node wait; none where nothing is traced.
pub fn of(config: &Config) -> Result<Option<Arc<Traces>>, String> {
    let Some(traces) = &config.traces else {
        return Ok(None);
    };
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| format!("no random bytes: {error}"))?;
    let seed = u64::from_le_bytes(seed);
    Ok(Some(Arc::new(Traces::new(now_ns, traces.ratio, seed))))
}

fn now_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The thread that sends.
pub struct Exporter {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

/// Starts it, where messages are traced.
pub fn start(config: &Config, broker: &Arc<Broker>) -> Result<Option<Exporter>, String> {
    let (Some(place), Some(traces)) = (&config.traces, &broker.settings().traces) else {
        return Ok(None);
    };
    let sender = Sender {
        place: place.clone(),
        node: config.node_name.clone(),
        traces: Arc::clone(traces),
        fails: false,
    };
    let stop = Arc::new((Mutex::new(false), Condvar::new()));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("traces".to_owned())
        .spawn(move || sender.run(&stopped))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(Some(Exporter { stop, thread }))
}

impl Exporter {
    /// Sends what is left, and ends.
    pub fn end(self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_one();
        // It has said what it had to say.
        let _ = self.thread.join();
    }
}

struct Sender {
    place: settled::Traces,
    node: String,
    traces: Arc<Traces>,
    /// Whether the last spans were not taken: said once, not each second.
    fails: bool,
}

impl Sender {
    fn run(mut self, stop: &(Mutex<bool>, Condvar)) {
        loop {
            let guard = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = Duration::from_millis(TRACE_EXPORT_MS);
            let waited = stop.1.wait_timeout_while(guard, wait, |stop| !*stop);
            let ends = *waited.unwrap_or_else(PoisonError::into_inner).0;
            if ends {
                return self.send_all(Some(Instant::now() + PATIENCE));
            }
            self.send_all(None);
        }
    }

    /// Sends what waits; with the first spans that are not taken, or once it is too late for more,
    /// the others are dropped as well.
    fn send_all(&mut self, until: Option<Instant>) {
        let spans = self.traces.take();
        let mut left = spans.as_slice();
        while let Some((batch, rest)) = left.split_at_checked(left.len().min(TRACE_BATCH_SPANS_MAX))
            && !batch.is_empty()
        {
            if until.is_some_and(|until| Instant::now() >= until) {
                return self.traces.drop_spans(left.len() as u64);
            }
            match self.send(batch) {
                Ok(rejected) => {
                    let rejected = rejected.min(batch.len() as u64);
                    self.traces.note_exported(batch.len() as u64 - rejected);
                    self.traces.drop_spans(rejected);
                    if std::mem::take(&mut self.fails) {
                        tracing::info!("{} takes traces again", self.place.authority);
                    }
                    left = rest;
                }
                Err(error) => {
                    self.traces.drop_spans(left.len() as u64);
                    if !std::mem::replace(&mut self.fails, true) {
                        tracing::warn!(
                            "{} takes no traces: {error}; spans are dropped until it does \
                             (`traces.endpoint`)",
                            self.place.authority
                        );
                    }
                    return;
                }
            }
        }
    }

    /// Posts a batch; how many of it the collector did not want.
    fn send(&self, batch: &[Span]) -> io::Result<u64> {
        let body = export(&self.node, batch).to_string();
        let mut stream = connect(&self.place.authority)?;
        let (path, authority) = (&self.place.path, &self.place.authority);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let deadline = Instant::now() + PATIENCE;
        write_all(&mut stream, (head + &body).as_bytes(), deadline)?;
        rejected(&read_answer(&mut stream, deadline)?)
    }
}

/// How much of the time until a deadline is left.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// Writes all of it before the deadline, however slowly it is read.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Reads an answer to its end, the connection's or the bound, before the deadline, however slowly
/// it comes.
fn read_answer(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !is_whole(&answer) && answer.len() < ANSWER_BYTES_MAX {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut part)? {
            0 => break,
            read => answer.extend_from_slice(&part[..read]),
        }
    }
    Ok(answer)
}

/// Whether an answer has all of the body whose length it tells.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

fn connect(authority: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Spans that an answer says were rejected; an error unless it says that the others were taken.
fn rejected(answer: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(answer);
    let status = text
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|status| status.parse::<u16>().ok());
    match status {
        Some(200..300) => {}
        Some(status) => return Err(io::Error::other(format!("HTTP status {status}"))),
        None => return Err(io::Error::other("no answer of HTTP")),
    }
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // 64-bit numbers are strings in protobuf's JSON; some write numbers all the same.
    let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let count = &json["partialSuccess"]["rejectedSpans"];
    let typed = count.as_str().and_then(|count| count.parse().ok());
    Ok(typed.or(count.as_u64()).unwrap_or(0))
}

/// The body of a request: `ExportTraceServiceRequest` as OTLP has it in JSON.
fn export(node: &str, spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            attribute("service.name", "leveret"),
            attribute("service.instance.id", node),
            attribute("service.version", version),
        ]},
        "scopeSpans": [{ "scope": { "name": "leveret", "version": version }, "spans": spans }],
    }]})
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn span(span: &Span) -> Value {
    let stage = span.stage.name();
    let kind = match span.stage {
        Stage::Publish | Stage::Settle => SERVER,
        Stage::Route | Stage::Store | Stage::Deliver => INTERNAL,
    };
    let mut attributes = vec![
        attribute("messaging.system", "rabbitmq"),
        attribute("messaging.operation.name", stage),
        attribute("messaging.destination.name", &span.destination),
    ];
    if !span.routing_key.is_empty() {
        let key = "messaging.rabbitmq.destination.routing_key";
        attributes.push(attribute(key, &span.routing_key));
    }
    if let Some(outcome) = span.outcome {
        attributes.push(attribute("leveret.outcome", outcome));
    }
    json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.id),
        "parentSpanId": format!("{:016x}", span.context.parent),
        "name": format!("{stage} {}", span.destination).trim_end(),
        "kind": kind,
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_the_body_that_it_tells_of() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 2";
        for (rest, whole) in [
            ("", false),
            ("\r\n\r\n", false),
            ("\r\n\r\n{", false),
            ("\r\n\r\n{}", true),
            ("\r\nX: y\r\n\r\n{}", true),
        ] {
            assert_eq!(
                is_whole((head.to_owned() + rest).as_bytes()),
                whole,
                "{rest:?}"
            );
        }
        // Its end is the connection's.
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n\r\n{}"));
    }

    #[test]
    fn an_answer_says_whether_spans_were_taken() {
        let of = |answer: &str| rejected(answer.as_bytes());
        assert_eq!(of("HTTP/1.1 200 OK\r\n\r\n{}").expect("taken"), 0);
        assert_eq!(
            of("HTTP/1.1 202 Accepted\r\nX: y\r\n\r\n").expect("taken"),
            0
        );
        let part = |count: &str| {
            let body = format!("{{\"partialSuccess\":{{\"rejectedSpans\":{count}}}}}");
            of(&format!("HTTP/1.0 200 OK\r\n\r\n{body}")).expect("taken")
        };
        assert_eq!((part("\"3\""), part("4"), part("null")), (3, 4, 0));
        for answer in ["", "HTTP/1.1", "HTTP/1.1 x", "nonsense\r\n\r\n{}"] {
            assert!(of(answer).is_err(), "{answer}");
        }
        let error = of("HTTP/1.1 503 Busy\r\n\r\n").expect_err("not taken");
        assert_eq!(error.to_string(), "HTTP status 503");
    }
}
