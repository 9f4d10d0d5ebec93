//! What was found to hold with very many of something, and must stay: a figure that is lost is seen
//! here.

use std::collections::VecDeque;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::measure::{
    Figure, IDLE_AFTER, WAIT, bytes_read, figure, pipelined, publish_confirmed, rate,
};
use crate::bench::idle;
use crate::broker::{Broker, Kind};
use crate::client::{Client, Event, Table};
use crate::numbers::median;
use crate::{certificates, procfs, run};

/// How often a count that is awaited is asked for.
const POLL: Duration = Duration::from_millis(20);

/// CPU seconds that a broker has used.
fn cpu_s(broker: &Broker) -> Result<f64> {
    Ok(procfs::usage(broker.pid())?.cpu_s)
}

/// One large message: what it takes of the broker's memory.
pub fn large_message(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let sizes: &[usize] = if fast { &[16] } else { &[128, 512] };
    let mut figures = Vec::new();
    for size in sizes {
        let bytes = size << 20;
        let most = format!("max_message_size = {bytes}");
        let broker = Broker::start(kind, "scale-large", &[&most])?;
        let mut client = Client::connect(broker.amqp)?;
        client.declare("large", true)?;
        client.confirm_select()?;
        let before = procfs::usage(broker.pid())?.rss_bytes;
        publish_confirmed(&mut client, 1, |client, _| {
            client.publish("", "large", &vec![b'l'; bytes], true);
        })?;
        let published = procfs::usage(broker.pid())?.rss_bytes_max;
        // The file of the log is full: what is next in it has the message go to a segment.
        client.declare("other", true)?;
        publish_confirmed(&mut client, 1, |client, _| {
            client.publish("", "other", b"small", true);
        })?;
        thread::sleep(IDLE_AFTER);
        client.get("large")?;
        let delivered = procfs::usage(broker.pid())?.rss_bytes_max;
        for (what, peak) in [("published", published), ("moved and delivered", delivered)] {
            let of = (peak - before) as f64 / bytes as f64;
            let what = format!("a message of {size} MiB {what}: most resident, by its size");
            figures.push(figure(what, of, "times"));
        }
    }
    Ok(figures)
}

/// Idle durable queues, and the same with a message in each after an orderly end.
pub fn idle_queues(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 2_000 } else { 100_000 };
    let name = |number: usize| format!("held-{number}");
    let mut broker = Broker::start(kind, "held-queues", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    pipelined(&mut client, count, |client, number| {
        client.send_declare(&name(number), true);
    })?;
    thread::sleep(IDLE_AFTER);
    let first = procfs::usage(broker.pid())?;
    thread::sleep(IDLE_AFTER);
    let idle = procfs::usage(broker.pid())?;
    drop(client);
    broker.stop()?;
    let empty_ms = idle::timed_launch(&mut broker)?;
    let mut client = Client::connect(broker.amqp)?;
    client.confirm_select()?;
    publish_confirmed(&mut client, count, |client, number| {
        client.publish("", &name(number), b"body", true);
    })?;
    drop(client);
    broker.stop()?;
    let ready_ms = idle::timed_launch(&mut broker)?;
    let mut client = Client::connect(broker.amqp)?;
    let mut gets = Vec::new();
    for number in 0..count.min(2_000) {
        let asked = Instant::now();
        client.get(&name(number * 7_919 % count))?;
        gets.push(asked.elapsed().as_secs_f64() * 1_000.0);
    }
    let cpu = (idle.cpu_s - first.cpu_s) / IDLE_AFTER.as_secs_f64() * 100.0;
    let what = |of: &str| format!("{count} durable queues: {of}");
    let mut figures = vec![
        figure(what("resident, idle"), idle.rss_bytes as f64 / 1e6, "MB"),
        figure(what("CPU, idle"), cpu, "% of a core"),
        figure(what("orderly end, first client"), empty_ms, "ms"),
        figure(what("the same with a message in each"), ready_ms, "ms"),
        figure(what("first basic.get then, median"), median(&gets), "ms"),
    ];
    if let Ok(bytes) = bytes_read(broker.pid()) {
        figures.push(figure(what("read since then"), bytes as f64 / 1e6, "MB"));
    }
    Ok(figures)
}

/// A backlog that is drained by one consumer, and one that is purged.
pub fn drain(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 100_000 } else { 10_000_000 };
    let broker = Broker::start(kind, "held-drain", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare("backlog", true)?;
    client.confirm_select()?;
    let fill = |client: &mut Client| {
        publish_confirmed(client, count, |client, _| {
            client.publish("", "backlog", &[b'd'; 16], true);
        })
    };
    fill(&mut client)?;
    let mut consumer = Client::connect(broker.amqp)?;
    let before = cpu_s(&broker)?;
    consumer.consume("backlog", true)?;
    let mut came = 0;
    while came < count {
        match consumer.next(WAIT)? {
            Some(Event::Deliver { .. }) => came += 1,
            Some(_) => {}
            None => bail!("{came} of {count} deliveries came"),
        }
    }
    let drained = (cpu_s(&broker)? - before) * 1e6 / count as f64;
    drop(consumer);
    fill(&mut client)?;
    let asked = Instant::now();
    client.purge("backlog")?;
    let purged = asked.elapsed().as_secs_f64() * 1_000.0;
    let what = |of: &str| format!("{count} messages of 16 B: {of}");
    Ok(vec![
        figure(what("drained, CPU"), drained, "s a million"),
        figure(what("purged"), purged, "ms"),
    ])
}

/// All priorities of one queue at once: what waits, and the order in which it leaves.
pub fn priorities(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 20_000 } else { 1_000_000 };
    let broker = Broker::start(kind, "held-priorities", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    let mut table = Table::default();
    table.number("x-max-priority", 255);
    client.declare_as("ranked", &table)?;
    client.confirm_select()?;
    publish_confirmed(&mut client, count, |client, number| {
        let priority = (number * 7 % 256) as u8;
        client.publish_with_priority("ranked", priority, &[priority]);
    })?;
    let resident = procfs::usage(broker.pid())?.rss_bytes;
    // A copy out of the log that is under way has a plan of all that it copies.
    thread::sleep(IDLE_AFTER);
    let at_rest = procfs::usage(broker.pid())?.rss_bytes;
    let before = cpu_s(&broker)?;
    client.consume("ranked", true)?;
    let (mut came, mut last) = (0, u8::MAX);
    while came < count {
        match client.next(WAIT)? {
            Some(Event::Deliver { body, .. }) => {
                let priority = *body.first().context("a body")?;
                if priority > last {
                    bail!("priority {priority} came after {last}");
                }
                (came, last) = (came + 1, priority);
            }
            Some(_) => {}
            None => bail!("{came} of {count} deliveries came"),
        }
    }
    let cpu = (cpu_s(&broker)? - before) * 1e6 / count as f64;
    let what = |of: &str| format!("{count} messages of 256 priorities: {of}");
    Ok(vec![
        figure(what("resident at once"), resident as f64 / 1e6, "MB"),
        figure(what("resident 5 s later"), at_rest as f64 / 1e6, "MB"),
        figure(what("drained in their order, CPU"), cpu, "s a million"),
    ])
}

/// Messages that all expire at the same moment and are dead-lettered.
pub fn expiry(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count: u32 = if fast { 20_000 } else { 1_000_000 };
    let broker = Broker::start(kind, "held-expiry", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare("dead", true)?;
    let mut table = Table::default();
    table.text("x-dead-letter-exchange", "");
    table.text("x-dead-letter-routing-key", "dead");
    client.declare_as("brief", &table)?;
    client.confirm_select()?;
    publish_confirmed(&mut client, count as usize, |client, _| {
        client.publish("", "brief", b"body", true);
    })?;
    let before = cpu_s(&broker)?;
    let started = Instant::now();
    let definition = "{\"message-ttl\":1}";
    broker.ctl(&[
        "set_policy",
        "--apply-to",
        "queues",
        "ttl",
        "^brief$",
        definition,
    ])?;
    while client.ready_count("dead")? < count {
        if started.elapsed() > WAIT {
            bail!(
                "{} of {count} are dead-lettered",
                client.ready_count("dead")?
            );
        }
        thread::sleep(POLL);
    }
    let a_second = rate(count as usize, started);
    let cpu = (cpu_s(&broker)? - before) * 1e6 / f64::from(count);
    let what = |of: &str| format!("{count} messages expire at once and are dead-lettered: {of}");
    Ok(vec![
        figure(what("rate"), a_second, "a second"),
        figure(what("CPU"), cpu, "s a million"),
    ])
}

/// Many consumers of one queue, each with a connection of its own, and then a hundred on each:
/// what a delivery costs that is sent alone, and beside others.
pub fn consumers(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 100 } else { 2_000 };
    [1, 100]
        .into_iter()
        .map(|of_each| consumers_of_connections(kind, count / of_each, of_each))
        .collect()
}

/// Consumers of one queue, so many on each connection: each connection gets as many messages as any
/// other.
fn consumers_of_connections(kind: Kind, connections: usize, of_each: usize) -> Result<Figure> {
    const EACH: usize = 100;
    let broker = Broker::start(kind, "held-consumers", &[])?;
    let mut publisher = Client::connect(broker.amqp)?;
    publisher.declare("shared", false)?;
    publisher.confirm_select()?;
    let mut consumers = Vec::new();
    for _ in 0..connections {
        let mut consumer = Client::connect(broker.amqp)?;
        for _ in 0..of_each {
            consumer.consume("shared", true)?;
            // The answer to it: nothing is delivered yet.
            consumer.next(WAIT)?;
        }
        consumers.push((consumer, 0_usize));
    }
    let total = connections * of_each * EACH;
    let before = cpu_s(&broker)?;
    publish_confirmed(&mut publisher, total, |client, _| {
        client.publish("", "shared", b"body", false);
    })?;
    let (mut left, deadline) = (total, Instant::now() + WAIT);
    while left > 0 {
        for (consumer, came) in &mut consumers {
            while let Some(Event::Deliver { .. }) = consumer.next(Duration::from_millis(1))? {
                (*came, left) = (*came + 1, left - 1);
                if *came >= of_each * EACH {
                    break;
                }
            }
        }
        if Instant::now() > deadline {
            bail!("{left} deliveries did not come, or some connections had more than others");
        }
    }
    let cpu = (cpu_s(&broker)? - before) * 1e6 / total as f64;
    let count = connections * of_each;
    let what = format!("{count} consumers of one queue, {of_each} on each connection: CPU");
    Ok(figure(what, cpu, "s a million"))
}

/// Many connections, each with a queue that it publishes to and consumes from.
pub fn connections(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 300 } else { 18_000 };
    let rounds = if fast { 20 } else { 10 };
    let broker = Broker::start(kind, "held-connections", &[])?;
    let mut clients = Vec::new();
    for number in 0..count {
        let mut client = Client::connect(broker.amqp)?;
        let queue = format!("own-{number}");
        client.declare(&queue, false)?;
        client.consume(&queue, true)?;
        client.next(WAIT)?;
        clients.push((client, queue));
    }
    let before = cpu_s(&broker)?;
    for _ in 0..rounds {
        for (client, queue) in &mut clients {
            client.publish("", queue, b"body", false);
            client.flush()?;
        }
        for (client, queue) in &mut clients {
            if !matches!(client.next(WAIT)?, Some(Event::Deliver { .. })) {
                bail!("the message of {queue} did not come");
            }
        }
    }
    let usage = procfs::usage(broker.pid())?;
    let cpu = (usage.cpu_s - before) * 1e6 / (count * rounds) as f64;
    let what = |of: &str| format!("{count} active connections: {of}");
    Ok(vec![
        figure(what("CPU of a message"), cpu, "µs"),
        figure(what("resident"), usage.rss_bytes as f64 / 1e6, "MB"),
    ])
}

/// Clients that connect with TLS one after the other, as fast as they can.
pub fn handshakes(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let seconds = if fast { 2 } else { 15 };
    let folder = run::target_folder("bench/certificates")?;
    certificates::make(&folder)?;
    let broker = Broker::start_with_tls(kind, "held-tls", &folder)?;
    let address = broker.tls.context("no port for TLS")?;
    let before = cpu_s(&broker)?;
    let mut command = Command::new("openssl");
    command.current_dir(&folder).args([
        "s_time",
        "-new",
        "-connect",
        &address.to_string(),
        "-time",
        &seconds.to_string(),
        "-cert",
        "client_certificate.pem",
        "-key",
        "client_key.pem",
    ]);
    let said = command.output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // Its last line: so many connections in so many real seconds.
    let line = said.lines().find(|line| line.contains("real seconds"));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let count = count.with_context(|| format!("openssl s_time says: {said}"))?;
    let cpu_ms = (cpu_s(&broker)? - before) * 1_000.0 / count.max(1.0);
    Ok(vec![
        figure(
            "TLS handshakes, one after the other",
            count / f64::from(seconds),
            "a second",
        ),
        figure("CPU of one, its connection included", cpu_ms, "ms"),
    ])
}

/// Clients that come, declare, publish, consume, delete and go: memory stays.
pub fn churn(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let time = Duration::from_secs(if fast { 6 } else { 660 });
    let broker = Broker::start(kind, "held-churn", &[])?;
    let started = Instant::now();
    let (mut early, mut rounds) = (None, 0);
    let mut open: VecDeque<Client> = VecDeque::new();
    while started.elapsed() < time {
        let queue = format!("churn-{rounds}");
        let mut client = Client::connect(broker.amqp)?;
        client.declare(&queue, true)?;
        client.bind(&queue, "amq.topic", &queue)?;
        for _ in 0..10 {
            client.publish("amq.topic", &queue, &[b'c'; 500], true);
        }
        client.flush()?;
        client.consume(&queue, true)?;
        let mut came = 0;
        while came < 10 {
            match client.next(WAIT)? {
                Some(Event::Deliver { .. }) => came += 1,
                Some(_) => {}
                None => bail!("{came} of 10 deliveries came"),
            }
        }
        client.send_delete(&queue);
        client.flush()?;
        open.push_back(client);
        if open.len() > 50 {
            open.pop_front();
        }
        rounds += 1;
        if early.is_none() && started.elapsed() > time / 3 {
            early = Some(procfs::usage(broker.pid())?.rss_bytes);
        }
    }
    let late = procfs::usage(broker.pid())?.rss_bytes;
    let grown = late as f64 - early.unwrap_or(late) as f64;
    let what = |of: &str| format!("{} s of churn: {of}", time.as_secs());
    Ok(vec![
        figure(
            what("clients that came and went"),
            f64::from(rounds),
            "clients",
        ),
        figure(what("resident, more than after a third"), grown / 1e6, "MB"),
        figure(what("resident"), late as f64 / 1e6, "MB"),
    ])
}
