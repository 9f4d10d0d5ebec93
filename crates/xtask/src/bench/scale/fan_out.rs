//! One message in a thousand queues, many times over: what it takes in the log, in segments once
//! other traffic has used the log up, at an orderly end, and at the start after it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::measure::{Figure, IDLE_AFTER, WAIT, figure, publish_confirmed};
use crate::bench::idle;
use crate::bench::report::metric;
use crate::broker::{Broker, Kind};
use crate::client::{Client, Event};
use crate::procfs;

const MESSAGES: usize = 500;
const BODY_BYTES: usize = 10_000;
/// Messages of other traffic that are published and consumed at a time.
const OTHERS: usize = 2_500;
/// So many bytes of them at least, and at most if the log has not been used up by then.
const OTHERS_BYTES_MIN: usize = 200_000_000;
const OTHERS_BYTES_MAX: usize = 2_000_000_000;
/// Files that stay as large for so long are not written to any more.
const AT_REST: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(200);

/// Bytes of the files in a folder and its folders that have a name with this end.
fn bytes_of_files(folder: &Path, end: &str) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            bytes += bytes_of_files(&path, end)?;
        } else if path.to_string_lossy().ends_with(end) {
            // It may have been deleted since.
            bytes += path.metadata().map_or(0, |file| file.len());
        }
    }
    Ok(bytes)
}

fn segment_bytes(broker: &Broker) -> Result<u64> {
    bytes_of_files(&broker.folder, ".seg")
}

/// The same once nothing is written to them any more.
fn segment_bytes_at_rest(broker: &Broker) -> Result<u64> {
    let began = Instant::now();
    let (mut bytes, mut since) = (segment_bytes(broker)?, Instant::now());
    while since.elapsed() < AT_REST {
        thread::sleep(LOOK);
        let now = segment_bytes(broker)?;
        if now != bytes {
            (bytes, since) = (now, Instant::now());
        }
        if began.elapsed() > WAIT {
            bail!("segments still change after {} s", WAIT.as_secs());
        }
    }
    Ok(bytes)
}

/// Publishes to a queue of its own and consumes all of that, until what waits elsewhere has gone
/// from the log to segments; gives how many bytes that took.
fn use_the_log_up(broker: &Broker, client: &mut Client) -> Result<usize> {
    client.declare("other", true)?;
    let mut consumer = Client::connect(broker.amqp)?;
    consumer.consume("other", true)?;
    let mut bytes = 0;
    let waits = |broker: &Broker| -> Result<bool> {
        let moved = segment_bytes(broker)? >= (MESSAGES * BODY_BYTES) as u64;
        Ok(broker.kind == Kind::Leveret && !moved)
    };
    while bytes < OTHERS_BYTES_MIN || (bytes < OTHERS_BYTES_MAX && waits(broker)?) {
        publish_confirmed(client, OTHERS, |client, _| {
            client.publish("", "other", &[b'o'; BODY_BYTES], true);
        })?;
        let mut came = 0;
        while came < OTHERS {
            match consumer.next(WAIT)? {
                Some(Event::Deliver { .. }) => came += 1,
                Some(_) => {}
                None => bail!("{came} of {OTHERS} other messages came"),
            }
        }
        bytes += OTHERS * BODY_BYTES;
    }
    Ok(bytes)
}

/// Bytes that a broker has written, as it counts them; none where it does not say so.
fn written_bytes(broker: &Broker) -> Result<f64> {
    match broker.kind {
        Kind::Leveret => metric(broker, "rabbitmq_io_write_bytes_total"),
        Kind::RabbitMq => Ok(f64::NAN),
    }
}

/// Takes the first message of a queue, which must have all of them.
fn check(client: &mut Client, queue: &str) -> Result<()> {
    let ready = client.ready_count(queue)? as usize;
    if ready != MESSAGES {
        bail!("{queue} has {ready} of {MESSAGES} confirmed messages");
    }
    client.get(queue)
}

/// Many messages to very many queues, other traffic, an orderly end, and a start.
pub fn fan_out(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let queues = if fast { 100 } else { 1_000 };
    let mut broker = Broker::start(kind, "scale-fan-out", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    for number in 0..queues {
        let queue = format!("fan-{number}");
        client.declare(&queue, true)?;
        client.bind(&queue, "amq.fanout", "")?;
    }
    client.confirm_select()?;
    let before = written_bytes(&broker)?;
    publish_confirmed(&mut client, MESSAGES, |client, _| {
        client.publish("amq.fanout", "", &[b'f'; BODY_BYTES], true);
    })?;
    let logged = written_bytes(&broker)? - before;
    let others = use_the_log_up(&broker, &mut client)?;
    let segments = segment_bytes_at_rest(&broker)?;
    drop(client);
    let started = Instant::now();
    broker.stop()?;
    let end_s = started.elapsed().as_secs_f64();
    let ready_ms = idle::timed_launch(&mut broker)?;
    let first = procfs::usage(broker.pid())?.cpu_s;
    thread::sleep(IDLE_AFTER);
    let later_s = procfs::usage(broker.pid())?.cpu_s - first;
    let after = segment_bytes(&broker)?;
    let mut client = Client::connect(broker.amqp)?;
    for number in [0, queues / 2, queues - 1] {
        check(&mut client, &format!("fan-{number}"))?;
    }
    let what = |of: &str| format!("{MESSAGES} × 10 kB to {queues} queues: {of}");
    let mut figures = Vec::new();
    if kind == Kind::Leveret {
        let moved = format!("segments after {} MB of others", others / 1_000_000);
        figures.push(figure(what("written to the log"), logged / 1e6, "MB"));
        figures.push(figure(what(&moved), segments as f64 / 1e6, "MB"));
    }
    figures.push(figure(what("orderly end"), end_s, "s"));
    figures.push(figure(what("first client after it"), ready_ms, "ms"));
    figures.push(figure(what("CPU in 5 s after that"), later_s * 1e3, "ms"));
    if kind == Kind::Leveret {
        figures.push(figure(what("segments then"), after as f64 / 1e6, "MB"));
    }
    Ok(figures)
}
