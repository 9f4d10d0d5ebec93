//! What costs nothing when it does nothing: idle queues and connections, and the start.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::report::{Measured, Options};
use crate::broker::{self, Broker, Kind};
use crate::client::Client;
use crate::numbers::{median, table};
use crate::procfs;

/// How long the broker is watched while nothing happens.
const WATCH: Duration = Duration::from_secs(10);
/// Long enough for what follows a burst: confirms, allocator, garbage collection.
const SETTLE: Duration = Duration::from_secs(3);

/// Resident memory for each idle queue and connection, and CPU while nothing happens.
pub fn run(options: &Options) -> Result<Measured> {
    let count = if options.fast { 1_000 } else { 10_000 };
    let mut rows = Vec::new();
    let mut records = Vec::new();
    for kind in options.kinds() {
        let (bytes, cpu) = idle_queues(kind, count)?;
        rows.push(row("idle durable queue", kind, count, bytes, cpu));
        records.push(record("queue", kind, count, bytes, cpu));
        let (bytes, cpu) = idle_connections(kind, count)?;
        rows.push(row("idle connection, one channel", kind, count, bytes, cpu));
        records.push(record("connection", kind, count, bytes, cpu));
    }
    let head = [
        "what",
        "broker",
        "how many",
        "resident bytes each",
        "CPU % of a core, idle",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

fn row(what: &str, kind: Kind, count: usize, bytes: f64, cpu: f64) -> Vec<String> {
    let figures = [
        count.to_string(),
        format!("{bytes:.0}"),
        format!("{cpu:.2}"),
    ];
    [what.to_owned(), kind.name().to_owned()]
        .into_iter()
        .chain(figures)
        .collect()
}

fn record(what: &str, kind: Kind, count: usize, bytes: f64, cpu: f64) -> serde_json::Value {
    json!({
        "what": what,
        "broker": kind.name(),
        "count": count,
        "bytes_each": bytes,
        "cpu_percent": cpu,
    })
}

fn idle_queues(kind: Kind, count: usize) -> Result<(f64, f64)> {
    let broker = Broker::start(kind, "idle", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    // One queue first, so that what all share is not counted as the queues'.
    client.declare("idle-first", true)?;
    thread::sleep(SETTLE);
    let before = procfs::usage(broker.pid())?.rss_bytes;
    for number in 0..count {
        client.declare(&format!("idle-{number}"), true)?;
    }
    drop(client);
    watch(&broker, before, count)
}

fn idle_connections(kind: Kind, count: usize) -> Result<(f64, f64)> {
    let broker = Broker::start(kind, "idle", &[])?;
    let first = Client::connect(broker.amqp)?;
    thread::sleep(SETTLE);
    let before = procfs::usage(broker.pid())?.rss_bytes;
    let mut held = vec![first];
    for _ in 0..count {
        held.push(Client::connect(broker.amqp)?);
    }
    let figures = watch(&broker, before, count)?;
    drop(held);
    Ok(figures)
}

fn watch(broker: &Broker, before: u64, count: usize) -> Result<(f64, f64)> {
    thread::sleep(SETTLE);
    let started = procfs::usage(broker.pid())?;
    thread::sleep(WATCH);
    let ended = procfs::usage(broker.pid())?;
    let bytes = ended.rss_bytes.saturating_sub(before) as f64 / count as f64;
    let cpu = (ended.cpu_s - started.cpu_s) / WATCH.as_secs_f64() * 100.0;
    Ok((bytes, cpu))
}

/// From the start of the process to the first accepted connection, on an empty folder and on one
/// that was used.
pub fn start(options: &Options) -> Result<Measured> {
    let times = if options.fast { 3 } else { 10 };
    let mut rows = Vec::new();
    let mut records = Vec::new();
    for kind in options.kinds() {
        let times = if kind == Kind::RabbitMq { 2 } else { times };
        let mut empty = Vec::new();
        let mut used = Vec::new();
        for _ in 0..times {
            let (mut broker, first_ms) = timed_start(kind)?;
            empty.push(first_ms);
            let mut client = Client::connect(broker.amqp)?;
            client.declare("kept", true)?;
            drop(client);
            broker.stop()?;
            used.push(timed_launch(&mut broker)?);
            broker.stop()?;
        }
        for (what, figures) in [("empty folder", &empty), ("used folder", &used)] {
            let worst = figures.iter().copied().fold(0.0, f64::max);
            rows.push(vec![
                what.to_owned(),
                kind.name().to_owned(),
                format!("{:.0}", median(figures)),
                format!("{worst:.0}"),
            ]);
            records.push(json!({
                "what": what,
                "broker": kind.name(),
                "median_ms": median(figures),
                "worst_ms": worst,
            }));
        }
    }
    let head = [
        "start to first accepted connection",
        "broker",
        "median ms",
        "worst ms",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

fn timed_start(kind: Kind) -> Result<(Broker, f64)> {
    let mut broker = Broker::plan(kind, "start")?;
    let took_ms = timed_launch(&mut broker)?;
    Ok((broker, took_ms))
}

/// Starts a broker and dials it from the first moment on. Gives milliseconds.
pub fn timed_launch(broker: &mut Broker) -> Result<f64> {
    let address = broker.amqp;
    let started = Instant::now();
    let dialling = thread::spawn(move || {
        broker::await_accept(address, Duration::from_secs(120)).map(|_| started.elapsed())
    });
    broker.launch()?;
    let accepted = dialling.join().expect("dialling does not panic")?;
    drop(TcpStream::connect(address)?);
    Ok(accepted.as_secs_f64() * 1_000.0)
}
