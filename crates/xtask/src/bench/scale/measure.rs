//! What the parts measure with.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::client::{Client, Event};

/// Methods that are sent before their answers are awaited.
const PIPELINED: usize = 1_000;
/// How long what follows a start may take before idle CPU is looked at, and for how long it is.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(5);
/// The longest that anything here is waited for.
pub(super) const WAIT: Duration = Duration::from_secs(120);

/// A figure: what it is of, and its value with its unit.
pub(super) type Figure = (String, f64, &'static str);

pub(super) fn figure(what: impl Into<String>, value: f64, unit: &'static str) -> Figure {
    (what.into(), value, unit)
}

/// Sends methods in batches, and awaits all answers of a batch before the next.
pub(super) fn pipelined(
    client: &mut Client,
    count: usize,
    mut send: impl FnMut(&mut Client, usize),
) -> Result<()> {
    for from in (0..count).step_by(PIPELINED) {
        let batch = from..count.min(from + PIPELINED);
        batch.clone().for_each(|number| send(client, number));
        client.flush()?;
        for _ in batch {
            if client.next(WAIT)?.is_none() {
                bail!("no answer within {} s", WAIT.as_secs());
            }
        }
    }
    Ok(())
}

/// Publishes persistent messages with confirms, and awaits all of these.
pub(super) fn publish_confirmed(
    client: &mut Client,
    count: usize,
    mut send: impl FnMut(&mut Client, usize),
) -> Result<()> {
    for number in 0..count {
        send(client, number);
        if client.buffered_bytes() > 64 * 1024 {
            client.flush()?;
        }
    }
    client.flush()?;
    let last = client.published();
    // All through this number, and some beyond: queues of different shards are synced apart.
    let (mut through, mut beyond) = (last - count as u64, BTreeSet::new());
    while through < last {
        match client.next(WAIT)? {
            Some(Event::Confirm {
                number,
                multiple,
                refused: false,
            }) => match multiple {
                true => through = through.max(number),
                false => {
                    beyond.insert(number);
                }
            },
            other => bail!("wanted a confirm, got {other:?}"),
        }
        while beyond.remove(&(through + 1)) {
            through += 1;
        }
        beyond = beyond.split_off(&through);
    }
    Ok(())
}

pub(super) fn rate(count: usize, since: Instant) -> f64 {
    count as f64 / since.elapsed().as_secs_f64()
}

/// Bytes that a process has read by system calls since it began.
pub(super) fn bytes_read(pid: u32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("rchar:"));
    Ok(line.context("the kernel counts no reads")?.trim().parse()?)
}

/// A client that publishes a message and gets it back, again and again.
pub(super) struct Stranger {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Vec<f64>>>,
}

impl Stranger {
    pub(super) fn start(address: SocketAddr) -> Stranger {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut client = Client::connect(address)?;
            client.declare("ping-pong", false)?;
            client.consume("ping-pong", true)?;
            let mut waits = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let asked = Instant::now();
                client.publish("", "ping-pong", b"ping", false);
                client.flush()?;
                while !matches!(client.next(WAIT)?, Some(Event::Deliver { .. })) {
                    if asked.elapsed() > WAIT {
                        bail!("a ping did not come back");
                    }
                }
                waits.push(asked.elapsed().as_secs_f64() * 1_000.0);
                thread::sleep(Duration::from_millis(2));
            }
            Ok(waits)
        });
        Stranger { over, thread }
    }

    pub(super) fn stop(self) -> Result<Vec<f64>> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a ping-pong does not panic")
    }
}
