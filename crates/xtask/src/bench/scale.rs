//! What very many of something cost: queues that a kill -9 interrupts, bindings, unsettled
//! messages, one message in a thousand queues; and what a node does in narrow places. Each part
//! counts the broker's own CPU, so that a cost that grows with the number shows on a busy machine
//! too.

mod api;
mod beside;
mod fan_out;
mod held;
mod measure;
mod narrow;
mod slopes;
mod streams;

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use self::measure::{
    Figure, IDLE_AFTER, Stranger, WAIT, bytes_read, figure, pipelined, publish_confirmed, rate,
};
use super::idle;
use super::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::client::{Client, Event, Table};
use crate::numbers::{Random, median, table};
use crate::procfs;

/// A part measures one broker.
type Part = fn(Kind, bool) -> Result<Vec<Figure>>;

const PARTS: &[(&str, Part)] = &[
    ("crash-queues", queues),
    ("bindings-direct", |kind, fast| {
        bindings("direct", kind, fast)
    }),
    ("bindings-topic", |kind, fast| bindings("topic", kind, fast)),
    ("bindings-headers", |kind, fast| {
        bindings("headers", kind, fast)
    }),
    ("unsettled", unsettled),
    ("fan-out", fan_out::fan_out),
    ("api-lists", api::lists),
    ("api-beside", beside::lists),
    ("api-import", api::import),
    ("large-message", held::large_message),
    ("control-group", narrow::control_group),
    ("few-descriptors", narrow::few_descriptors),
    ("oversize-body", narrow::oversize_body),
    ("held-queues", held::idle_queues),
    ("held-drain", held::drain),
    ("held-priorities", held::priorities),
    ("held-expiry", held::expiry),
    ("held-consumers", held::consumers),
    ("held-connections", held::connections),
    ("held-tls", held::handshakes),
    ("held-churn", held::churn),
    ("streams-idle", streams::idle_streams),
    ("streams-many", streams::many),
    ("streams-retained", streams::retained),
    ("streams-readers", streams::readers),
    ("streams-catch-up", streams::catch_up),
    ("slope-queues", slopes::queues),
    ("slope-bindings", slopes::bindings),
    ("slope-connections", slopes::connections),
    ("slope-channels", slopes::channels),
    ("slope-consumers", slopes::consumers),
    ("slope-unsettled", slopes::unsettled),
    ("slope-fan-out", slopes::fan_out),
    ("slope-quorum-queues", slopes::quorum_queues),
    ("slope-nodes", slopes::nodes),
];

/// Measures each part of each broker.
pub fn run(options: &Options) -> Result<Measured> {
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for (name, part) in PARTS.iter().filter(|(name, _)| options.wants(name)) {
        for kind in options.kinds() {
            println!("{name}, {}", kind.name());
            let figures = part(kind, options.fast)
                .with_context(|| format!("part {name} of {}", kind.name()))?;
            for (what, value, unit) in figures {
                println!("  {what}: {value:.3} {unit}");
                let precise = if value < 100.0 { 2 } else { 0 };
                rows.push(vec![
                    what.clone(),
                    kind.name().to_owned(),
                    format!("{value:.precise$} {unit}"),
                ]);
                records.push(json!({
                    "part": name, "what": what, "broker": kind.name(), "value": value, "unit": unit,
                }));
            }
        }
    }
    Ok(Measured {
        text: table(&["what", "broker", "figure"], &rows),
        json: json!(records),
    })
}

/// Many durable queues with a message in each: kill -9, start, first `basic.get` of each.
fn queues(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    const BODY: usize = 200;
    let count = if fast || kind == Kind::RabbitMq {
        5_000
    } else {
        100_000
    };
    let name = |number: usize| format!("scale-{number}");
    let mut broker = Broker::start(kind, "scale-queues", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    let started = Instant::now();
    pipelined(&mut client, count, |client, number| {
        client.send_declare(&name(number), true);
    })?;
    let declared = rate(count, started);
    client.confirm_select()?;
    publish_confirmed(&mut client, count, |client, number| {
        client.publish("", &name(number), &[b'x'; BODY], true);
    })?;
    drop(client);
    broker.kill()?;
    let ready_ms = idle::timed_launch(&mut broker)?;
    let before = bytes_read(broker.pid());
    let mut client = Client::connect(broker.amqp)?;
    let mut first_gets = Vec::new();
    for number in 0..count {
        // All over the queues, none twice: the factor is a prime.
        let queue = name(number * 7_919 % count);
        let asked = Instant::now();
        client.get(&queue)?;
        first_gets.push(asked.elapsed().as_secs_f64() * 1_000.0);
    }
    let worst = first_gets.iter().copied().fold(0.0, f64::max);
    thread::sleep(IDLE_AFTER);
    let idle = procfs::usage(broker.pid())?;
    thread::sleep(IDLE_AFTER);
    let usage = procfs::usage(broker.pid())?;
    let cpu = (usage.cpu_s - idle.cpu_s) / IDLE_AFTER.as_secs_f64() * 100.0;
    let started = Instant::now();
    pipelined(&mut client, count, |client, number| {
        client.send_delete(&name(number));
    })?;
    let deleted = rate(count, started);
    let mut figures = vec![
        figure(
            format!("{count} durable queues declared"),
            declared,
            "a second",
        ),
        figure(
            "kill -9 with a message in each: first client",
            ready_ms,
            "ms",
        ),
        figure(
            "first basic.get of a queue, median",
            median(&first_gets),
            "ms",
        ),
        figure("first basic.get of a queue, worst", worst, "ms"),
        figure("idle 5 s later", cpu, "% of a core"),
        figure("resident", usage.rss_bytes as f64 / 1e6, "MB"),
        figure("deleted", deleted, "a second"),
    ];
    if let (Ok(before), Ok(after)) = (before, bytes_read(broker.pid())) {
        let of = (after - before) as f64 / (count * BODY) as f64;
        figures.push(figure(
            "read since the start, by bytes that wait",
            of,
            "times",
        ));
    }
    Ok(figures)
}

/// Many bindings of one exchange, each selective: what a publish costs, and a start.
fn bindings(exchange_kind: &str, kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 5_000 } else { 100_000 };
    let published = if fast { 2_000 } else { 50_000 };
    let mut broker = Broker::start(kind, "scale-bindings", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare("bound", true)?;
    client.declare_exchange("x", exchange_kind)?;
    let key = |number: usize| format!("tenant{}.order{number}.created", number % 500);
    let headers = |number: usize| {
        let mut table = Table::default();
        table.text("type", "order");
        table.text("id", &number.to_string());
        table
    };
    let started = Instant::now();
    pipelined(&mut client, count, |client, number| {
        client.send_bind("bound", "x", &key(number), &headers(number));
    })?;
    let bound = rate(count, started);
    client.confirm_select()?;
    let mut random = Random::new(2);
    let before = procfs::usage(broker.pid())?.cpu_s;
    publish_confirmed(&mut client, published, |client, _| {
        let number = random.between(0, count as u64) as usize;
        client.publish_with_headers("x", &key(number), &headers(number), b"body");
    })?;
    let cpu_us = (procfs::usage(broker.pid())?.cpu_s - before) * 1e6 / published as f64;
    drop(client);
    broker.kill()?;
    let ready_ms = idle::timed_launch(&mut broker)?;
    let ready = Client::connect(broker.amqp)?.ready_count("bound")?;
    if ready as usize != published {
        bail!("{published} messages were confirmed, and {ready} are there");
    }
    let what = |of: &str| format!("{count} bindings, {exchange_kind}: {of}");
    Ok(vec![
        figure(what("bound"), bound, "a second"),
        figure(what("CPU of a publish"), cpu_us, "µs"),
        figure(what("kill -9, first client"), ready_ms, "ms"),
    ])
}

/// Many unsettled messages that are acknowledged in random order, and what another client notices.
fn unsettled(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count: usize = if fast { 20_000 } else { 1_000_000 };
    let broker = Broker::start(kind, "scale-unsettled", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare("held", true)?;
    client.confirm_select()?;
    publish_confirmed(&mut client, count, |client, _| {
        client.publish("", "held", b"body", false);
    })?;
    client.consume("held", false)?;
    let mut tags = Vec::with_capacity(count);
    while tags.len() < count {
        match client.next(WAIT)? {
            Some(Event::Deliver { tag, .. }) => tags.push(tag),
            Some(_) => {}
            None => bail!("{} of {count} deliveries came", tags.len()),
        }
    }
    let mut random = Random::new(3);
    for at in (1..tags.len()).rev() {
        tags.swap(at, random.between(0, at as u64 + 1) as usize);
    }
    let stranger = Stranger::start(broker.amqp);
    let before = procfs::usage(broker.pid())?.cpu_s;
    for tag in tags {
        client.ack(tag, false);
        if client.buffered_bytes() > 64 * 1024 {
            client.flush()?;
        }
    }
    client.flush()?;
    // What is answered behind the last acknowledgement says that all of them were taken.
    client.qos(0)?;
    let cpu_us = (procfs::usage(broker.pid())?.cpu_s - before) * 1e6 / count as f64;
    let mut waits = stranger.stop()?;
    waits.sort_by(f64::total_cmp);
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0.0);
    let what = |of: &str| format!("{count} unsettled, acknowledged in random order: {of}");
    Ok(vec![
        figure(what("CPU of one, another client's included"), cpu_us, "µs"),
        figure(what("another client's ping-pong, p99"), p99, "ms"),
    ])
}
