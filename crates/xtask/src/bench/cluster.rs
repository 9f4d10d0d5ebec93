//! What clusters cost beyond a load: many quorum queues, and a leader's death.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::report::{Measured, Options};
use crate::broker::Kind;
use crate::client::{Client, Event};
use crate::cluster::Cluster;
use crate::numbers::{median, table};
use crate::procfs::{self, Usage};

/// A part's name and what measures it.
type Part = (&'static str, fn(&Options) -> Result<Measured>);

/// All parts.
pub const PARTS: [Part; 2] = [("many-queues", many_queues), ("failover", failover)];

/// How long nodes are watched while nothing happens.
const WATCH: Duration = Duration::from_secs(10);
/// Long enough for what follows a burst.
const SETTLE: Duration = Duration::from_secs(5);
/// Connections that declare queues at once, at each node.
const DECLARING: usize = 8;
/// How long all queues may take to confirm a message.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(120);

fn usage(cluster: &Cluster) -> Result<Vec<Usage>> {
    let nodes = cluster.nodes.iter();
    nodes.map(|node| procfs::usage(node.pid())).collect()
}

/// 10,000 quorum queues on three nodes of ours: how long declaring them takes, what they cost while
/// nothing happens, and how long it takes until all confirm again after a node's death.
fn many_queues(options: &Options) -> Result<Measured> {
    let count = if options.fast { 1_000 } else { 10_000 };
    if !options.kinds().contains(&Kind::Leveret) {
        bail!("many-queues is measured on Leveret alone: 10,000 of RabbitMQ's do not fit here");
    }
    let mut cluster = Cluster::start("bench-many", 3)?;
    // One queue first, so that what all share is not counted as the queues'.
    Client::connect(cluster.amqp(0))?.declare_quorum("many-first")?;
    thread::sleep(SETTLE);
    let before = usage(&cluster)?;
    let started = Instant::now();
    declare_many(&cluster.addresses(), count)?;
    let declared_s = started.elapsed().as_secs_f64();
    println!("many-queues | declared in {declared_s:.1} s");
    thread::sleep(SETTLE);
    let idle = usage(&cluster)?;
    thread::sleep(WATCH);
    let watched = usage(&cluster)?;
    let publish = |node| publish_to_all(cluster.amqp(node), count);
    let first_s = publish(1)?.as_secs_f64();
    let warm_s = publish(1)?.as_secs_f64();
    println!("many-queues | a message to each: {first_s:.1} s, {warm_s:.1} s");
    cluster.nodes[0].kill()?;
    let killed = publish_to_all(cluster.amqp(1), count);
    let killed = match &killed {
        Ok(took) => format!("{:.1} s", took.as_secs_f64()),
        Err(missing) => format!("{missing:#}"),
    };
    println!("many-queues | after a node's death: {killed}");
    let each = |at: usize| {
        let bytes = watched[at].rss_bytes.saturating_sub(before[at].rss_bytes);
        bytes as f64 / count as f64
    };
    let cpu = |at: usize| (watched[at].cpu_s - idle[at].cpu_s) / WATCH.as_secs_f64() * 100.0;
    let most = |of: &dyn Fn(usize) -> f64| (0..3).map(of).fold(0.0, f64::max);
    let (bytes, cpu) = (most(&each), most(&cpu));
    let rows = [
        ("declared", format!("{declared_s:.1} s")),
        ("resident, each and node, at most", format!("{bytes:.0} B")),
        (
            "CPU of a node, idle, at most",
            format!("{cpu:.2} % of a core"),
        ),
        ("a message to each, first", format!("{first_s:.1} s")),
        ("a message to each, again", format!("{warm_s:.1} s")),
        (
            "a message to each, right after a node's kill -9",
            killed.clone(),
        ),
    ];
    let rows: Vec<_> = rows
        .map(|(what, figure)| vec![what.to_owned(), figure])
        .into();
    Ok(Measured {
        text: table(
            &[&format!("{count} quorum queues on three nodes"), "figure"],
            &rows,
        ),
        json: json!({
            "queues": count,
            "declared_s": declared_s,
            "bytes_each_and_node": bytes,
            "idle_cpu_percent": cpu,
            "message_to_each_s": [first_s, warm_s],
            "message_to_each_after_kill": killed,
        }),
    })
}

fn many_name(number: usize) -> String {
    format!("many-{number}")
}

/// Declares the queues from all nodes at once.
fn declare_many(addresses: &[SocketAddr], count: usize) -> Result<()> {
    let connections = DECLARING * addresses.len();
    thread::scope(|scope| {
        let declaring: Vec<_> = (0..connections)
            .map(|connection| {
                let address = addresses[connection % addresses.len()];
                scope.spawn(move || -> Result<()> {
                    let mut client = Client::connect(address)?;
                    for number in (connection..count).step_by(connections) {
                        client.declare_quorum(&many_name(number))?;
                    }
                    Ok(())
                })
            })
            .collect();
        declaring
            .into_iter()
            .try_for_each(|one| one.join().expect("declaring does not panic"))
    })
}

/// Publishes a message to each of the queues; gives how long it takes until all are confirmed.
fn publish_to_all(address: SocketAddr, count: usize) -> Result<Duration> {
    let started = Instant::now();
    let mut client = Client::connect(address)?;
    client.confirm_select()?;
    for number in 0..count {
        client.publish("", &many_name(number), b"one message", true);
    }
    client.flush()?;
    let mut open: std::collections::BTreeSet<u64> = (1..=count as u64).collect();
    while !open.is_empty() {
        let left = CONFIRM_DEADLINE.checked_sub(started.elapsed());
        let first = open.first().map_or(0, |number| *number as usize - 1);
        let left = left.with_context(|| {
            let seconds = CONFIRM_DEADLINE.as_secs();
            let (name, open) = (many_name(first), open.len());
            format!("{open} of {count} not confirmed after {seconds} s, the first is to {name}")
        })?;
        if let Some(Event::Confirm {
            number,
            multiple,
            refused,
        }) = client.next(left)?
        {
            if refused {
                bail!("message {number} was refused");
            }
            match multiple {
                true => open = open.split_off(&(number + 1)),
                false => drop(open.remove(&number)),
            }
        }
    }
    Ok(started.elapsed())
}

/// How long confirms stay away when the leader of a queue is killed under load, for a publisher
/// that is connected to another node.
fn failover(options: &Options) -> Result<Measured> {
    let times = if options.fast { 2 } else { 7 };
    let mut rows = Vec::new();
    let mut records = Vec::new();
    for kind in options.kinds() {
        let mut cluster = Cluster::start_kind(kind, "bench-failover", 3)?;
        Client::connect(cluster.amqp(0))?.declare_quorum("failover")?;
        let mut pauses = Vec::new();
        for _ in 0..times {
            let pause = fail_over(&mut cluster)?.as_secs_f64();
            println!("failover | {} | {pause:.2} s", kind.name());
            pauses.push(pause);
        }
        let worst = pauses.iter().copied().fold(0.0, f64::max);
        rows.push(vec![
            kind.name().to_owned(),
            times.to_string(),
            format!("{:.2}", median(&pauses)),
            format!("{worst:.2}"),
        ]);
        records.push(json!({ "broker": kind.name(), "pauses_s": pauses }));
    }
    let head = [
        "no confirm after kill -9 of the leader",
        "kills",
        "median s",
        "worst s",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

/// One kill; gives the longest time without a confirm from it on. The node comes back afterwards.
fn fail_over(cluster: &mut Cluster) -> Result<Duration> {
    let leader = cluster.leader_of("failover", 0)?;
    let follower = (leader + 1) % cluster.nodes.len();
    let address = cluster.amqp(follower);
    let (on, killed) = (AtomicBool::new(true), AtomicBool::new(false));
    let pause = thread::scope(|scope| {
        let publishing = scope.spawn(|| longest_pause(address, &on, &killed));
        thread::sleep(Duration::from_secs(2));
        killed.store(true, Ordering::Relaxed);
        let result = cluster.nodes[leader].kill();
        thread::sleep(Duration::from_secs(8));
        on.store(false, Ordering::Relaxed);
        result?;
        publishing.join().expect("publishing does not panic")
    })?;
    cluster.launch(&[leader])?;
    // The returned node takes its leaders back a few seconds later.
    thread::sleep(SETTLE);
    Ok(pause)
}

/// Publishes with a small window; gives the longest time without a confirm since the flag rose.
fn longest_pause(address: SocketAddr, on: &AtomicBool, killed: &AtomicBool) -> Result<Duration> {
    let mut client = Client::connect(address)?;
    client.confirm_select()?;
    let (mut sent, mut confirmed) = (0, 0);
    let mut longest = Duration::ZERO;
    let mut last = Instant::now();
    while on.load(Ordering::Relaxed) {
        while sent - confirmed < 20 {
            client.publish("", "failover", &[0x55; 1_000], true);
            sent += 1;
        }
        client.flush()?;
        let mut event = client.next(Duration::from_millis(20))?;
        if killed.load(Ordering::Relaxed) {
            longest = longest.max(last.elapsed());
        }
        while let Some(Event::Confirm {
            number, multiple, ..
        }) = event
        {
            confirmed = if multiple { number } else { confirmed + 1 };
            last = Instant::now();
            event = client.next_buffered()?;
        }
    }
    Ok(longest)
}
