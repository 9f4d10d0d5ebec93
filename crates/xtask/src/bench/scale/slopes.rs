//! What one more of something costs when there are many: memory and CPU of each, of the first third
//! and of the last, so that a cost that grows with the number shows. `docs/scale.md` has these.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::measure::{Figure, WAIT, figure, pipelined, publish_confirmed};
use crate::broker::{Broker, Kind};
use crate::client::{Client, Event, Table};
use crate::cluster::Cluster;
use crate::procfs::{self, Usage};

/// What allocators and caches need to come to rest.
const SETTLE: Duration = Duration::from_secs(2);
/// How long idle nodes are watched.
const WATCH: Duration = Duration::from_secs(10);

/// A third, by whether the run is a short one.
fn third(fast: bool, short: usize, long: usize) -> usize {
    if fast { short } else { long }
}

/// Makes three thirds of something and tells what one costs.
fn slope(
    what: &str,
    broker: &Broker,
    third: usize,
    mut make: impl FnMut(std::ops::Range<usize>) -> Result<()>,
) -> Result<Vec<Figure>> {
    let mut seen: Vec<Usage> = Vec::new();
    let mut cpu = Vec::new();
    for number in 0..3 {
        let before = procfs::usage(broker.pid())?.cpu_s;
        make(number * third..(number + 1) * third)?;
        cpu.push((procfs::usage(broker.pid())?.cpu_s - before) * 1e6 / third as f64);
        thread::sleep(SETTLE);
        seen.push(procfs::usage(broker.pid())?);
    }
    let bytes = seen[2].rss_bytes as f64 - seen[0].rss_bytes as f64;
    let count = 3 * third;
    let what = |of: &str| format!("{count} {what}: {of}");
    Ok(vec![
        figure(
            what("resident, one more"),
            bytes / (2 * third) as f64,
            "bytes",
        ),
        figure(what("CPU, one of the first third"), cpu[0], "µs"),
        figure(what("CPU, one of the last third"), cpu[2], "µs"),
    ])
}

/// Durable classic queues.
pub fn queues(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let broker = Broker::start(kind, "slope-queues", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    slope(
        "durable queues",
        &broker,
        third(fast, 2_000, 33_000),
        |part| {
            let from = part.start;
            pipelined(&mut client, part.len(), |client, number| {
                client.send_declare(&format!("q{}", from + number), true);
            })
        },
    )
}

/// Bindings of each type of exchange, each to one of a hundred queues.
pub fn bindings(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    // Debian's RabbitMQ has the last one as a plugin, which is not enabled here.
    let all = ["direct", "fanout", "topic", "headers", "x-consistent-hash"];
    for exchange in &all[..if kind == Kind::Leveret { 5 } else { 4 }] {
        let broker = Broker::start(kind, "slope-bindings", &[])?;
        let mut client = Client::connect(broker.amqp)?;
        let third = third(fast, 1_000, 33_000);
        client.declare_exchange("x", exchange)?;
        // A binding has its key as its weight there, so that queues must differ.
        let queues = if *exchange == "x-consistent-hash" {
            3 * third
        } else {
            100
        };
        pipelined(&mut client, queues, |client, number| {
            client.send_declare(&format!("q{number}"), true);
        })?;
        let what = format!("bindings, {exchange}");
        figures.extend(slope(&what, &broker, third, |part| {
            let from = part.start;
            pipelined(&mut client, part.len(), |client, number| {
                let number = from + number;
                let mut table = Table::default();
                if *exchange == "headers" {
                    table.text("id", &number.to_string());
                }
                let key = match *exchange {
                    "x-consistent-hash" => "1".to_owned(),
                    _ => format!("tenant{}.order{number}", number % 500),
                };
                client.send_bind(&format!("q{}", number % queues), "x", &key, &table);
            })
        })?);
        if *exchange != "fanout" {
            let published = if fast { 1_000 } else { 20_000 };
            client.confirm_select()?;
            let before = procfs::usage(broker.pid())?.cpu_s;
            publish_confirmed(&mut client, published, |client, number| {
                let number = number * 7_919 % (3 * third);
                let mut table = Table::default();
                table.text("id", &number.to_string());
                let key = format!("tenant{}.order{number}", number % 500);
                client.publish_with_headers("x", &key, &table, b"body");
            })?;
            let cpu = (procfs::usage(broker.pid())?.cpu_s - before) * 1e6 / published as f64;
            let what = format!("{} {what}: CPU of a publish", 3 * third);
            figures.push(figure(what, cpu, "µs"));
        }
    }
    Ok(figures)
}

/// Connections with one channel.
pub fn connections(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let broker = Broker::start(kind, "slope-connections", &[])?;
    let mut held = Vec::new();
    slope("connections", &broker, third(fast, 200, 6_000), |part| {
        for _ in part {
            held.push(Client::connect(broker.amqp)?);
        }
        Ok(())
    })
}

/// Channels, a hundred of each connection.
pub fn channels(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    const EACH: usize = 100;
    let broker = Broker::start(kind, "slope-channels", &[])?;
    let mut held: Vec<Client> = Vec::new();
    slope("channels", &broker, third(fast, 1_000, 20_000), |part| {
        for number in part {
            if number % EACH == 0 {
                held.push(Client::connect(broker.amqp)?);
            }
            let client = &mut held[number / EACH];
            client.open_channel((2 + number % EACH) as u16)?;
        }
        Ok(())
    })
}

/// Consumers of one queue, a hundred of each connection.
pub fn consumers(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    const EACH: usize = 100;
    let broker = Broker::start(kind, "slope-consumers", &[])?;
    let mut held: Vec<Client> = Vec::new();
    Client::connect(broker.amqp)?.declare("shared", true)?;
    slope(
        "consumers of one queue",
        &broker,
        third(fast, 500, 6_000),
        |part| {
            for number in part {
                if number % EACH == 0 {
                    held.push(Client::connect(broker.amqp)?);
                }
                let client = &mut held[number / EACH];
                client.consume("shared", false)?;
                client.next(WAIT)?;
            }
            Ok(())
        },
    )
}

/// Messages that one consumer holds.
pub fn unsettled(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let broker = Broker::start(kind, "slope-unsettled", &[])?;
    let mut publisher = Client::connect(broker.amqp)?;
    publisher.declare("held", true)?;
    publisher.confirm_select()?;
    let mut consumer = Client::connect(broker.amqp)?;
    consumer.consume("held", false)?;
    consumer.next(WAIT)?;
    slope(
        "unsettled messages",
        &broker,
        third(fast, 10_000, 333_000),
        |part| {
            let count = part.len();
            publish_confirmed(&mut publisher, count, |client, _| {
                client.publish("", "held", b"body", false);
            })?;
            for _ in 0..count {
                if !matches!(consumer.next(WAIT)?, Some(Event::Deliver { .. })) {
                    bail!("a delivery did not come");
                }
            }
            Ok(())
        },
    )
}

/// Queues that one message goes to: CPU of one copy.
pub fn fan_out(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let third = third(fast, 100, 1_000);
    let published = if fast { 100 } else { 200 };
    let broker = Broker::start(kind, "slope-fan-out", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.confirm_select()?;
    let mut figures = Vec::new();
    for part in [0..third, third..3 * third] {
        for number in part.clone() {
            client.declare(&format!("fan-{number}"), true)?;
            client.bind(&format!("fan-{number}"), "amq.fanout", "")?;
        }
        let before = procfs::usage(broker.pid())?.cpu_s;
        publish_confirmed(&mut client, published, |client, _| {
            client.publish("amq.fanout", "", &[b'f'; 1_000], true);
        })?;
        let copies = (published * part.end) as f64;
        let cpu = (procfs::usage(broker.pid())?.cpu_s - before) * 1e6 / copies;
        let what = format!("1 kB to {} queues: CPU of one copy", part.end);
        figures.push(figure(what, cpu, "µs"));
        // The confirms of one part do not come into the next one's.
        client = Client::connect(broker.amqp)?;
        client.confirm_select()?;
    }
    Ok(figures)
}

/// Quorum queues of three nodes: what each takes of one node.
pub fn quorum_queues(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let cluster = Cluster::start_kind(kind, "slope-quorum", 3)?;
    let mut client = Client::connect(cluster.amqp(0))?;
    let what = "quorum queues on three nodes, at one of them";
    let mut figures = slope(what, &cluster.nodes[0], third(fast, 200, 3_300), |part| {
        for number in part {
            client.declare_quorum(&format!("q{number}"))?;
        }
        Ok(())
    })?;
    figures.push(idle_cpu("with them", &cluster)?);
    Ok(figures)
}

/// Idle clusters of one to five nodes on this machine.
pub fn nodes(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let counts: &[usize] = if fast { &[3] } else { &[3, 5, 7] };
    for count in counts {
        let cluster = Cluster::start_kind(kind, "slope-nodes", *count)?;
        figures.push(idle_cpu(&format!("in a cluster of {count}"), &cluster)?);
    }
    Ok(figures)
}

/// CPU of one idle node.
fn idle_cpu(what: &str, cluster: &Cluster) -> Result<Figure> {
    thread::sleep(SETTLE);
    let before = procfs::usage(cluster.nodes[0].pid())?.cpu_s;
    thread::sleep(WATCH);
    let cpu = procfs::usage(cluster.nodes[0].pid())?.cpu_s - before;
    let percent = cpu / WATCH.as_secs_f64() * 100.0;
    Ok(figure(
        format!("an idle node {what}: CPU"),
        percent,
        "% of a core",
    ))
}
