//! What lists over HTTP cost where very many queues are in them, who reads them or not; and what
//! it costs to import as many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::measure::{Figure, Stranger, WAIT, figure, pipelined};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::cluster::Cluster;
use crate::{http, procfs};

/// All queues.
pub(super) const WHOLE: &str = "/api/queues";
/// The first page of them.
const PAGE: &str = "/api/queues?page=1&page_size=100";
/// Lists that are asked for at once.
const IN_PARALLEL: usize = 16;
/// Clients that ask for all queues and do not read.
const UNREAD: usize = 8;
/// Clients that send many requests in one write and do not read.
const PIPELINING: usize = 20;
/// Requests that each of them sends.
const PIPELINED_EACH: usize = 20;
/// How long a publisher is watched beside one client that asks, and beside none.
const WATCHED: Duration = Duration::from_secs(3);

/// What was asked of a broker, and what it took.
struct Asked {
    seconds: f64,
    cpu_s: f64,
    /// The most resident memory so far beyond what was there before any list.
    grown_bytes: f64,
}

impl Asked {
    /// Rows of it; `base` is what was resident before.
    fn figures(&self, what: &str) -> [Figure; 3] {
        [
            figure(format!("{what}: time"), self.seconds * 1_000.0, "ms"),
            figure(format!("{what}: CPU"), self.cpu_s * 1_000.0, "ms"),
            figure(
                format!("{what}: most resident beyond before"),
                self.grown_bytes / 1e6,
                "MB",
            ),
        ]
    }
}

/// Does something, and looks what it took of the broker. What is resident grows only: the parts are
/// measured from the small to the large.
fn asked(broker: &Broker, base: u64, what: impl FnOnce() -> Result<()>) -> Result<Asked> {
    asked_of(slice::from_ref(broker), base, what)
}

/// The same of the nodes of a cluster: CPU of all, and what the first, which is asked, holds.
fn asked_of(nodes: &[Broker], base: u64, what: impl FnOnce() -> Result<()>) -> Result<Asked> {
    let cpu = || {
        let used = nodes.iter().map(|node| procfs::usage(node.pid()));
        let seconds = used.map(|used| used.map(|used| used.cpu_s));
        seconds.sum::<Result<f64>>()
    };
    let before = cpu()?;
    let started = Instant::now();
    what()?;
    let seconds = started.elapsed().as_secs_f64();
    let after = procfs::usage(nodes[0].pid())?;
    Ok(Asked {
        seconds,
        cpu_s: cpu()? - before,
        grown_bytes: after.rss_bytes_max.saturating_sub(base) as f64,
    })
}

/// Lists of very many queues: one, a page, some at once, and some that nobody reads.
pub fn lists(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 1_000 } else { 20_000 };
    let broker = Broker::start(kind, "scale-api", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    pipelined(&mut client, count, |client, number| {
        client.send_declare(&format!("scale-{number}"), true);
    })?;
    await_listed(&broker, count)?;
    let base = procfs::usage(broker.pid())?.rss_bytes_max;
    let quiet = watched(&broker, || {
        thread::sleep(WATCHED);
        Ok(())
    })?;
    let of = |what: &str| format!("{count} queues over HTTP, {what}");
    let mut figures = Vec::new();
    let page = asked(&broker, base, || ask(&broker, PAGE).map(drop))?;
    figures.extend(page.figures(&of("a page of 100")));
    let mut bytes = 0;
    let whole = asked(&broker, base, || {
        bytes = ask(&broker, WHOLE)?;
        Ok(())
    })?;
    figures.push(figure(of("all: bytes"), bytes as f64 / 1e6, "MB"));
    figures.extend(whole.figures(&of("all")));
    let beside_one = watched(&broker, || {
        let over = Instant::now() + WATCHED;
        while Instant::now() < over {
            ask(&broker, WHOLE)?;
        }
        Ok(())
    })?;
    let mut beside = 0.0;
    let parallel = asked(&broker, base, || {
        beside = watched(&broker, || in_parallel(&broker, WHOLE))?;
        Ok(())
    })?;
    figures.extend(parallel.figures(&of(&format!("{IN_PARALLEL} at once"))));
    figures.push(figure(of("nobody asks: ping-pong p99"), quiet, "ms"));
    let what = of("all, one after the other: ping-pong p99");
    figures.push(figure(what, beside_one, "ms"));
    let what = of(&format!("{IN_PARALLEL} at once: ping-pong p99"));
    figures.push(figure(what, beside, "ms"));
    let unread = unread(&broker, UNREAD, 1)?;
    let page = asked(&broker, base, || ask(&broker, PAGE).map(drop))?;
    let what = of(&format!("a page beside {UNREAD} that do not read"));
    figures.extend(page.figures(&what));
    drop(unread);
    let unread = self::unread(&broker, PIPELINING, PIPELINED_EACH)?;
    let page = asked(&broker, base, || ask(&broker, PAGE).map(drop))?;
    let what = of(&format!(
        "a page beside {PIPELINING} that pipeline and do not read"
    ));
    figures.extend(page.figures(&what));
    drop(unread);
    drop(broker);
    figures.extend(other_lists(kind, fast)?);
    figures.extend(cluster_lists(kind, fast)?);
    Ok(figures)
}

/// Lists of very many queues that three nodes share, asked of the first: pages in an order that
/// each node knows for its own queues alone, and all.
fn cluster_lists(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 999 } else { 20_001 };
    let cluster = Cluster::start_kind(kind, "scale-api-cluster", 3)?;
    for (at, node) in cluster.nodes.iter().enumerate() {
        let mut client = Client::connect(node.amqp)?;
        pipelined(&mut client, count / 3, |client, number| {
            client.send_declare(&format!("scale-{number}-{at}"), true);
        })?;
    }
    let first = &cluster.nodes[0];
    await_listed(first, count)?;
    let base = procfs::usage(first.pid())?.rss_bytes_max;
    let of = |what: &str| format!("{count} queues of three nodes over HTTP, {what}");
    let mut figures = Vec::new();
    for (what, path) in [
        ("a page of 100 by name", format!("{PAGE}&sort=name")),
        ("a page of 100 by messages", format!("{PAGE}&sort=messages")),
        ("all", WHOLE.to_owned()),
        ("all by messages", format!("{WHOLE}?sort=messages")),
    ] {
        let asked = asked_of(&cluster.nodes, base, || ask(first, &path).map(drop))?;
        figures.extend(asked.figures(&of(what)));
    }
    let parallel = asked_of(&cluster.nodes, base, || in_parallel(first, WHOLE))?;
    figures.extend(parallel.figures(&of(&format!("{IN_PARALLEL} at once"))));
    Ok(figures)
}

/// Lists of very many exchanges and bindings, and of many connections, channels and consumers: a
/// page, all, and all for some clients at once.
fn other_lists(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let (count, connections) = if fast { (1_000, 100) } else { (20_000, 2_000) };
    let broker = Broker::start(kind, "scale-api-others", &[])?;
    let name = |number: usize| format!("scale-{number}");
    let exchange = |number: usize| {
        json!({"name": name(number), "vhost": "/", "type": "direct", "durable": true,
               "auto_delete": false, "internal": false, "arguments": {}})
    };
    let binding = |number: usize| {
        json!({"source": name(number), "vhost": "/", "destination": "amq.topic",
               "destination_type": "exchange", "arguments": {}, "routing_key": "key"})
    };
    let exchanges: Vec<_> = (0..count).map(exchange).collect();
    let bindings: Vec<_> = (0..count).map(binding).collect();
    let text = json!({"exchanges": exchanges, "bindings": bindings}).to_string();
    http::post(broker.http, "/api/definitions", &text)?;
    Client::connect(broker.amqp)?.declare("shared", true)?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(broker.amqp)?;
        client.consume("shared", true)?;
        client.next(WAIT)?;
        clients.push(client);
    }
    let base = procfs::usage(broker.pid())?.rss_bytes_max;
    let mut figures = Vec::new();
    for (what, count) in [
        ("exchanges", count),
        ("bindings", count),
        ("connections", connections),
        ("channels", connections),
        ("consumers", connections),
    ] {
        let of = |part: &str| format!("{count} {what} over HTTP, {part}");
        let whole = format!("/api/{what}");
        let first = format!("{whole}?page=1&page_size=100");
        let page = asked(&broker, base, || ask(&broker, &first).map(drop))?;
        figures.extend(page.figures(&of("a page of 100")));
        let all = asked(&broker, base, || ask(&broker, &whole).map(drop))?;
        figures.extend(all.figures(&of("all")));
        let parallel = asked(&broker, base, || in_parallel(&broker, &whole))?;
        figures.extend(parallel.figures(&of(&format!("{IN_PARALLEL} at once"))));
    }
    Ok(figures)
}

/// Waits until the API lists all queues: RabbitMQ's counts them some seconds later.
pub(super) fn await_listed(broker: &Broker, count: usize) -> Result<()> {
    let deadline = Instant::now() + WAIT;
    loop {
        let page = http::get(broker.http, PAGE)?;
        if page["total_count"] == count {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "{count} queues are there, and {} are listed",
                page["total_count"]
            );
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Asks, and reads all of the answer: its bytes.
fn ask(broker: &Broker, path: &str) -> Result<usize> {
    Ok(http::get_text(broker.http, path)?.len())
}

/// Asks for a list with several clients at once.
fn in_parallel(broker: &Broker, path: &str) -> Result<()> {
    let address = broker.http;
    let client = || {
        let path = path.to_owned();
        thread::spawn(move || http::get_text(address, &path).map(drop))
    };
    let clients: Vec<_> = (0..IN_PARALLEL).map(|_| client()).collect();
    clients
        .into_iter()
        .try_for_each(|client| client.join().expect("a client does not panic"))
}

/// The 99th percentile of a publisher's ping-pong while something is done, in milliseconds.
pub(super) fn watched(broker: &Broker, what: impl FnOnce() -> Result<()>) -> Result<f64> {
    let stranger = Stranger::start(broker.amqp);
    let done = what();
    let mut waits = stranger.stop()?;
    done?;
    waits.sort_by(f64::total_cmp);
    Ok(waits.get(waits.len() * 99 / 100).copied().unwrap_or(0.0))
}

/// Clients that ask for all queues, so often each, and read one byte: the answers have begun.
fn unread(broker: &Broker, clients: usize, requests: usize) -> Result<Vec<TcpStream>> {
    let request = http::request(broker.http, &format!("GET {WHOLE} HTTP/1.1"), &[]);
    (0..clients)
        .map(|_| {
            let mut stream = TcpStream::connect(broker.http)?;
            stream.set_read_timeout(Some(WAIT))?;
            stream.write_all(request.repeat(requests).as_bytes())?;
            let begun = stream.read_exact(&mut [0]);
            begun.context("a list does not begin")?;
            Ok(stream)
        })
        .collect()
}

/// An import of definitions with as many durable queues as bindings.
pub fn import(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count: usize = if fast { 1_000 } else { 100_000 };
    let broker = Broker::start(kind, "scale-import", &[])?;
    let name = |number: usize| format!("scale-{number}");
    let queues: Vec<_> = (0..count)
        .map(|number| {
            json!({"name": name(number), "vhost": "/", "durable": true,
                   "auto_delete": false, "arguments": {}})
        })
        .collect();
    let bindings: Vec<_> = (0..count)
        .map(|number| {
            json!({"source": "amq.topic", "vhost": "/", "destination": name(number),
                   "destination_type": "queue", "arguments": {},
                   "routing_key": format!("tenant{}.order{number}.created", number % 500)})
        })
        .collect();
    let text = json!({"queues": queues, "bindings": bindings}).to_string();
    let before = procfs::usage(broker.pid())?.cpu_s;
    let started = Instant::now();
    http::post(broker.http, "/api/definitions", &text)?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_s = procfs::usage(broker.pid())?.cpu_s - before;
    let last = Client::connect(broker.amqp)?.ready_count(&name(count - 1));
    last.context("the last queue of the definitions is missing")?;
    let objects = (count * 2) as f64;
    let of = |what: &str| format!("{count} queues and bindings imported over HTTP: {what}");
    Ok(vec![
        figure(of("rate"), objects / seconds, "a second"),
        figure(of("CPU of one"), cpu_s * 1e6 / objects, "µs"),
    ])
}
