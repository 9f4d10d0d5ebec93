//! Sends spans of traced messages to a collector: OTLP over HTTP, as JSON.
//!
//! Invariant: no message waits for the collector. What it does not take at once is dropped, and
//! counted.

use crate::config::{Config, settled};
use crate::http::{self, Answer, ServerAddress};
use crate::trust::Trust;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST};
use leveret_node::Env;
use leveret_node::traces::{Span, Stage, Traces};
use leveret_shell::broker::Broker;
use leveret_types::limits::{TRACE_BATCH_SPANS_MAX, TRACE_EXPORT_MS, TRACE_EXPORT_MS_MAX};
use rustls::ClientConfig;
use serde_json::{Value, json};
use std::io;
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
    tls(traces)?;
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| format!("no random bytes: {error}"))?;
    let seed = u64::from_le_bytes(seed);
    Ok(Some(Arc::new(Traces::new(now_ns, traces.ratio, seed))))
}

/// How TLS is spoken with a collector, if it is.
fn tls(collector: &settled::Traces) -> Result<Option<Arc<ClientConfig>>, String> {
    let tls = collector.tls.as_ref().map(Trust::client).transpose();
    tls.map_err(|error| format!("traces have no way to their collector: {error}"))
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
    let (Some(collector), Some(traces)) = (&config.traces, &broker.settings().traces) else {
        return Ok(None);
    };
    let authority = collector.authority.clone();
    let sender = Sender {
        address: ServerAddress::Tcp {
            authority: authority.clone(),
            tls: tls(collector)?,
        },
        authority,
        path: collector.path.clone(),
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
    address: ServerAddress,
    authority: String,
    path: String,
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
                        tracing::info!(
                            "the trace collector {} accepts spans again",
                            self.authority
                        );
                    }
                    left = rest;
                }
                Err(error) => {
                    self.traces.drop_spans(left.len() as u64);
                    if !std::mem::replace(&mut self.fails, true) {
                        tracing::warn!(
                            "{} takes no traces: {error}; spans are dropped until it does \
                             (`traces.endpoint`)",
                            self.authority
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
        let request = Request::post(&self.path)
            .header(HOST, self.authority.as_str())
            .header(CONNECTION, "close")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        rejected(&http::ask(
            &self.address,
            request,
            PATIENCE,
            ANSWER_BYTES_MAX,
        )?)
    }
}

/// Spans that an answer says were rejected; an error unless it says that the others were taken.
fn rejected(answer: &Answer) -> io::Result<u64> {
    if !answer.is_good() {
        return Err(io::Error::other(format!("HTTP status {}", answer.status)));
    }
    // 64-bit numbers are strings in protobuf's JSON; some write numbers all the same.
    let json = answer.json();
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
    fn an_answer_says_whether_spans_were_taken() {
        let of = |status, body: &str| {
            let body = Bytes::copy_from_slice(body.as_bytes());
            rejected(&Answer { status, body })
        };
        assert_eq!(of(200, "{}").expect("taken"), 0);
        assert_eq!(of(202, "").expect("taken"), 0);
        let part = |count: &str| {
            let body = format!("{{\"partialSuccess\":{{\"rejectedSpans\":{count}}}}}");
            of(200, &body).expect("taken")
        };
        assert_eq!((part("\"3\""), part("4"), part("null")), (3, 4, 0));
        let error = of(503, "").expect_err("not taken");
        assert_eq!(error.to_string(), "HTTP status 503");
    }
}
