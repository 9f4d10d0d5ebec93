//! The load while something happens to brokers: publishers with confirms, consumers with acks, and
//! the audit that empties all queues and closes the books.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::ledger::{BODY_BYTES_MAX, Delivery, Ledger, PUBLISHERS, QUEUES, body};
use crate::client::{Client, Event};
use crate::numbers::Random;

/// Unconfirmed messages that a publisher may have.
pub const WINDOW: u64 = 256;
/// Most bodies are shorter; some are of the greatest length, so that they span frames and WAL
/// blocks.
const USUAL_BODY_BYTES: u64 = 3_000;
/// How long queues may take to be emptied.
const DRAIN_DEADLINE: Duration = Duration::from_secs(120);
/// Turns of a tenth of a second without a delivery after which an empty queue is believed to be
/// empty. One is too few: on a busy machine it was taken for the loss of 39 messages, which the
/// queue still had.
const QUIET_TURNS: u32 = 20;
/// Pause before whoever lost its connection tries again.
const RETRY: Duration = Duration::from_millis(100);

/// The name of a queue.
pub fn queue_name(queue: usize) -> String {
    format!("crash-{queue}")
}

/// Load on all addresses while `happen` runs; gives what that gives. Who loses its connection
/// tries again.
pub fn during<T>(
    addresses: &[SocketAddr],
    consuming: bool,
    random: &mut Random,
    ledger: &Ledger,
    happen: impl FnOnce(&mut Random) -> Result<T>,
) -> Result<T> {
    let at = |index: usize| addresses[index % addresses.len()];
    let consumers = if consuming { ledger.consumers() } else { 0 };
    let on = &AtomicBool::new(true);
    let result = thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (seed, address) = (random.next(), at(publisher / QUEUES + publisher));
            scope.spawn(move || {
                while on.load(Ordering::Relaxed) {
                    let result = publish(address, publisher, seed, ledger, on);
                    ledger.hear_end_of("publisher", address, result);
                    thread::sleep(RETRY);
                }
            });
        }
        for queue in 0..QUEUES {
            for consumer in 0..consumers {
                let (seed, address) = (random.next(), at(queue + consumer + 1));
                scope.spawn(move || {
                    while on.load(Ordering::Relaxed) {
                        let done = |_| !on.load(Ordering::Relaxed);
                        let result = consume(address, queue, seed, ledger, done);
                        ledger.hear_end_of("consumer", address, result);
                        thread::sleep(RETRY);
                    }
                });
            }
        }
        let happened = happen(random);
        on.store(false, Ordering::Relaxed);
        happened
    });
    ledger.trust_all();
    result
}

/// Publishes until the broker dies or the flag falls.
fn publish(
    address: SocketAddr,
    publisher: usize,
    seed: u64,
    ledger: &Ledger,
    on: &AtomicBool,
) -> Result<()> {
    let mut random = Random::new(seed);
    let mut client = Client::connect(address)?;
    client.confirm_select()?;
    let queue = queue_name(publisher % QUEUES);
    // Confirms count from one on each channel; the book counts over all lives.
    let base = ledger.book(publisher).next;
    let mut sent = 0;
    let mut oldest = 1;
    let mut open: HashSet<u64> = HashSet::new();
    while on.load(Ordering::Relaxed) {
        while (open.len() as u64) < WINDOW && client.buffered_bytes() < 65_536 {
            let large = random.between(0, 500) == 0;
            let length = if large {
                BODY_BYTES_MAX
            } else {
                random.between(0, USUAL_BODY_BYTES)
            };
            ledger.book(publisher).next += 1;
            client.publish("", &queue, &body(publisher, base + sent, length), true);
            sent += 1;
            open.insert(sent);
        }
        client.flush()?;
        let mut event = client.next(Duration::from_millis(200))?;
        if event.is_some() {
            ledger.hear_confirm();
        }
        let mut book = ledger.book(publisher);
        while let Some(Event::Confirm {
            number,
            multiple,
            refused,
        }) = event
        {
            let first = if multiple { oldest } else { number };
            for number in first..=number {
                if !open.remove(&number) {
                    if !multiple {
                        ledger.accuse(format!("publisher {publisher}: {number} confirmed twice"));
                    }
                } else if refused {
                    ledger.hear_refusal(publisher, address);
                } else {
                    book.confirmed.insert(base + number - 1);
                }
            }
            if multiple {
                oldest = number + 1;
            }
            event = client.next_buffered()?;
        }
    }
    Ok(())
}

/// What a consumer has on its way to being settled.
#[derive(Default)]
struct Settling {
    /// Delivered and not acknowledged yet.
    open: Vec<Delivery>,
    /// Acknowledged in transactions that are not answered yet, oldest first.
    committing: VecDeque<Vec<Delivery>>,
}

/// Consumes until the broker dies or `done` says that it is enough.
fn consume(
    address: SocketAddr,
    queue: usize,
    seed: u64,
    ledger: &Ledger,
    mut done: impl FnMut(bool) -> bool,
) -> Result<()> {
    let mut random = Random::new(seed);
    let mut client = Client::connect(address)?;
    let in_transactions = ledger.settles_in_transactions();
    if in_transactions {
        client.tx_select()?;
    }
    client.qos(200)?;
    client.consume(&queue_name(queue), false)?;
    let mut last_of: Vec<Option<u64>> = vec![None; PUBLISHERS];
    let mut settling = Settling::default();
    // A commit is waited for by the disks of a majority, and costs as much.
    let batch_max = if in_transactions { 150 } else { 12 };
    let mut batch = 1;
    loop {
        let event = client.next(Duration::from_millis(100))?;
        let idle = event.is_none();
        match event {
            Some(Event::Deliver {
                tag,
                redelivered,
                body,
            }) => {
                let delivery =
                    ledger.audit_delivery(address, &body, redelivered, queue, &mut last_of);
                settling.open.extend(delivery);
                if settling.open.len() as u64 >= batch {
                    batch = random.between(1, batch_max);
                    client.ack(tag, true);
                    let settled = std::mem::take(&mut settling.open);
                    if in_transactions {
                        client.tx_commit();
                        settling.committing.push_back(settled);
                    }
                    client.flush()?;
                }
            }
            Some(answer) if answer.is_tx_committed() => match settling.committing.pop_front() {
                Some(settled) => ledger.settled(address, &settled),
                None => ledger.accuse("a commit was answered twice".to_owned()),
            },
            _ => {}
        }
        if done(idle) {
            return Ok(());
        }
    }
}

/// Empties every queue and holds the ledger against what came.
pub fn audit(address: SocketAddr, random: &mut Random, ledger: &Ledger) -> Result<()> {
    let started = Instant::now();
    thread::scope(|scope| {
        let drains: Vec<_> = (0..QUEUES)
            .map(|queue| {
                let seed = random.next();
                scope.spawn(move || drain(address, queue, seed, ledger, started))
            })
            .collect();
        for drain in drains {
            drain.join().expect("a drain does not panic")?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    ledger.close_books();
    Ok(())
}

fn drain(
    address: SocketAddr,
    queue: usize,
    seed: u64,
    ledger: &Ledger,
    started: Instant,
) -> Result<()> {
    let mut asking = Client::connect(address)?;
    let name = queue_name(queue);
    let (mut overdue, mut idle_for) = (false, 0);
    let mut left = None;
    consume(address, queue, seed, ledger, |idle| {
        overdue = started.elapsed() > DRAIN_DEADLINE;
        idle_for = if idle { idle_for + 1 } else { 0 };
        // What consumers held whose connections have just gone is on its way back, and what is no
        // longer ready may be on its way here.
        let quiet = idle_for >= QUIET_TURNS;
        if overdue || quiet {
            left = asking.ready_count(&name).ok();
        }
        overdue || left == Some(0)
    })?;
    if left != Some(0) {
        bail!(
            "queue {queue} is not empty after {} s: {left:?} messages are ready",
            DRAIN_DEADLINE.as_secs()
        );
    }
    Ok(())
}
