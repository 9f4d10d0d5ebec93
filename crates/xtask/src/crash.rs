//! Kill -9 under load, again and again, with a ledger outside the process.
//!
//! Sixteen publishers with confirms fill four durable queues while consumers with acks empty them.
//! At a random moment the broker is killed and started again on the same folder. The ledger knows
//! what was sent, what was confirmed and what came back, and holds the broker to three things:
//!
//! - what was confirmed is delivered at least once, in this life or a later one;
//! - what is delivered was sent, and is byte for byte what was sent;
//! - one channel's messages come out of one queue in the order that they went in.
//!
//! A settlement is not confirmed by the protocol, so that a message may come again after a crash.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::broker::{Broker, Kind};
use crate::client::{Client, Event};
use crate::numbers::Random;
use crate::suite::{Bench, Report};

pub(crate) const PUBLISHERS: usize = 16;
pub(crate) const QUEUES: usize = 4;
/// Unconfirmed messages that a publisher may have.
const WINDOW: u64 = 256;
/// A message's fixed part: publisher, sequence number, checksum of the rest.
const HEAD_BYTES: usize = 2 + 8 + 8;
const BODY_BYTES_MAX: u64 = 3_000;
/// Some are far larger, so that they span frames and WAL blocks.
const LARGE_BODY_BYTES: u64 = 200_000;
/// All queues are emptied and the books closed every so many rounds; in between, backlogs survive
/// several crashes.
const AUDIT_EVERY: u32 = 3;
const DRAIN_DEADLINE: Duration = Duration::from_secs(120);
const CI_ROUNDS: u32 = 25;

/// What is known of one publisher's messages.
#[derive(Default)]
struct Book {
    /// The next sequence number; all below were sent, or at least begun.
    next: u64,
    confirmed: HashSet<u64>,
    delivered: HashSet<u64>,
}

/// The ledger: a book for each publisher, and what was found wrong.
pub(crate) struct Ledger {
    books: Vec<Mutex<Book>>,
    wrong: Mutex<Vec<String>>,
    /// Whether deliveries are in order even if they are told to come again: as long as nobody but
    /// the broker's end can interrupt them.
    is_strict: bool,
}

impl Ledger {
    fn new() -> Ledger {
        let books = (0..PUBLISHERS)
            .map(|_| Mutex::new(Book::default()))
            .collect();
        Ledger {
            books,
            wrong: Mutex::new(Vec::new()),
            is_strict: true,
        }
    }

    /// A ledger for a cluster: what comes again may come out of order.
    pub(crate) fn unordered() -> Ledger {
        Ledger {
            is_strict: false,
            ..Ledger::new()
        }
    }

    fn book(&self, publisher: usize) -> std::sync::MutexGuard<'_, Book> {
        self.books[publisher]
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn accuse(&self, what: String) {
        let mut wrong = self
            .wrong
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // One fault tends to show a thousand times.
        if wrong.len() < 20 {
            wrong.push(what);
        }
    }

    /// Turns without a delivery after which an empty queue is believed to be empty.
    fn quiet_turns(&self) -> u32 {
        if self.is_strict { 1 } else { 20 }
    }

    pub(crate) fn found(&self) -> Vec<String> {
        self.wrong
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Every confirmed message must have come back by now.
    fn close_books(&self) {
        for publisher in 0..PUBLISHERS {
            let book = self.book(publisher);
            let mut lost: Vec<u64> = book
                .confirmed
                .difference(&book.delivered)
                .copied()
                .collect();
            lost.sort_unstable();
            if let Some(first) = lost.first() {
                self.accuse(format!(
                    "publisher {publisher}: {} confirmed messages lost, the first is {first}",
                    lost.len()
                ));
            }
        }
    }

    pub(crate) fn totals(&self) -> (u64, usize, usize) {
        (0..PUBLISHERS).fold((0, 0, 0), |(sent, confirmed, delivered), publisher| {
            let book = self.book(publisher);
            (
                sent + book.next,
                confirmed + book.confirmed.len(),
                delivered + book.delivered.len(),
            )
        })
    }
}

/// A message whose every byte follows from its publisher, number and length.
fn body(publisher: usize, sequence: u64, length: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(HEAD_BYTES + length as usize);
    body.extend_from_slice(&(publisher as u16).to_be_bytes());
    body.extend_from_slice(&sequence.to_be_bytes());
    let mut filler = Random::new(sequence ^ ((publisher as u64) << 48));
    let mut rest = Vec::with_capacity(length as usize + 8);
    while (rest.len() as u64) < length {
        rest.extend_from_slice(&filler.next().to_be_bytes());
    }
    rest.truncate(length as usize);
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(&rest);
    body
}

/// Publisher and number of a message, if it is one of ours and whole.
fn read_body(bytes: &[u8]) -> Option<(usize, u64)> {
    let publisher = u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?) as usize;
    let sequence = u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
    let length = u64::from_be_bytes(bytes.get(10..18)?.try_into().ok()?);
    let whole = publisher < PUBLISHERS
        && length <= LARGE_BODY_BYTES
        && bytes == body(publisher, sequence, length);
    whole.then_some((publisher, sequence))
}

fn queue_name(publisher: usize) -> String {
    format!("crash-{}", publisher % QUEUES)
}

/// Publishes until the broker dies or the flag falls.
pub(crate) fn publish(
    address: SocketAddr,
    publisher: usize,
    seed: u64,
    ledger: &Ledger,
    on: &AtomicBool,
) {
    let attempt = || -> Result<()> {
        let mut random = Random::new(seed);
        let mut client = Client::connect(address)?;
        client.confirm_select()?;
        let queue = queue_name(publisher);
        // Confirms count from one on each channel; the book counts over all lives.
        let base = ledger.book(publisher).next;
        let mut sent = 0;
        let mut oldest = 1;
        let mut open: HashSet<u64> = HashSet::new();
        while on.load(Ordering::Relaxed) {
            while (open.len() as u64) < WINDOW && client.buffered_bytes() < 65_536 {
                let large = random.between(0, 500) == 0;
                let length = if large {
                    LARGE_BODY_BYTES
                } else {
                    random.between(0, BODY_BYTES_MAX)
                };
                ledger.book(publisher).next += 1;
                client.publish("", &queue, &body(publisher, base + sent, length), true);
                sent += 1;
                open.insert(sent);
            }
            client.flush()?;
            let mut event = client.next(Duration::from_millis(200))?;
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
                            ledger
                                .accuse(format!("publisher {publisher}: {number} confirmed twice"));
                        }
                    } else if !refused {
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
    };
    report_protocol_error(attempt(), ledger, "publisher");
}

/// A socket that breaks is the test; a refusal in words is not.
pub(crate) fn report_protocol_error(result: Result<()>, ledger: &Ledger, who: &str) {
    if let Err(error) = result {
        let text = format!("{error:#}");
        // 320 is how a broker that is going down says so.
        if text.contains("closed with") && !text.contains("closed with 320") {
            ledger.accuse(format!("{who}: {text}"));
        }
    }
}

/// Consumes until the broker dies or `done` says that it is enough.
pub(crate) fn consume(
    address: SocketAddr,
    queue: usize,
    seed: u64,
    ledger: &Ledger,
    mut done: impl FnMut(bool) -> bool,
) -> Result<()> {
    let mut random = Random::new(seed);
    let mut client = Client::connect(address)?;
    client.qos(200)?;
    client.consume(&format!("crash-{queue}"), false)?;
    let mut last_of: Vec<Option<u64>> = vec![None; PUBLISHERS];
    let mut unsettled = 0;
    loop {
        let event = client.next(Duration::from_millis(100))?;
        let idle = event.is_none();
        if let Some(Event::Deliver {
            tag,
            redelivered,
            body,
        }) = event
        {
            if redelivered && !ledger.is_strict {
                last_of.fill(None);
            }
            audit_delivery(&body, queue, ledger, &mut last_of);
            unsettled += 1;
            if unsettled >= random.between(1, 60) {
                client.ack(tag, true);
                unsettled = 0;
                client.flush()?;
            }
            if unsettled > 0 && client.buffered_bytes() == 0 && random.between(0, 4) == 0 {
                client.ack(tag, true);
                unsettled = 0;
                client.flush()?;
            }
        }
        if done(idle) {
            return Ok(());
        }
    }
}

fn audit_delivery(bytes: &[u8], queue: usize, ledger: &Ledger, last_of: &mut [Option<u64>]) {
    let Some((publisher, sequence)) = read_body(bytes) else {
        ledger.accuse(format!(
            "queue {queue}: a message of {} bytes that nobody sent",
            bytes.len()
        ));
        return;
    };
    if publisher % QUEUES != queue {
        ledger.accuse(format!(
            "queue {queue}: publisher {publisher} never wrote to it"
        ));
    }
    let mut book = ledger.book(publisher);
    if sequence >= book.next {
        ledger.accuse(format!(
            "publisher {publisher}: number {sequence} was never sent"
        ));
    }
    book.delivered.insert(sequence);
    // One consumer, nothing requeued: what it sees is the queue's own order, first to last.
    if let Some(last) = last_of[publisher].replace(sequence)
        && last >= sequence
    {
        ledger.accuse(format!(
            "publisher {publisher}: {sequence} came after {last}"
        ));
    }
}

/// One life of the broker: load for a random time, then the kill.
fn live_and_die(broker: &mut Broker, random: &mut Random, ledger: &Ledger) -> Result<()> {
    let address = broker.amqp;
    let consuming = random.between(0, 3) > 0;
    let life = Duration::from_millis(random.between(150, 1_200));
    let on = AtomicBool::new(true);
    let started = Instant::now();
    thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let seed = random.next();
            let on = &on;
            scope.spawn(move || publish(address, publisher, seed, ledger, on));
        }
        for queue in 0..QUEUES {
            let seed = random.next();
            let on = &on;
            if consuming {
                scope.spawn(move || {
                    let done = |_| !on.load(Ordering::Relaxed);
                    let result = consume(address, queue, seed, ledger, done);
                    report_protocol_error(result, ledger, "consumer");
                });
            }
        }
        thread::sleep(life.saturating_sub(started.elapsed()));
        let alive = broker.is_alive();
        let killed = broker.kill();
        on.store(false, Ordering::Relaxed);
        if !alive {
            bail!("the broker died by itself: see {}", broker.log().display());
        }
        killed
    })
}

/// Empties every queue and holds the ledger against what came.
pub(crate) fn audit(address: SocketAddr, random: &mut Random, ledger: &Ledger) -> Result<()> {
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
    let name = format!("crash-{queue}");
    let (mut overdue, mut idle_for) = (false, 0);
    consume(address, queue, seed, ledger, |idle| {
        overdue = started.elapsed() > DRAIN_DEADLINE;
        idle_for = if idle { idle_for + 1 } else { 0 };
        // What consumers held whose connections have just gone is on its way back.
        let quiet = idle_for >= ledger.quiet_turns();
        overdue || (quiet && asking.ready_count(&name).is_ok_and(|ready| ready == 0))
    })?;
    if overdue {
        bail!(
            "queue {queue} is not empty after {} s",
            DRAIN_DEADLINE.as_secs()
        );
    }
    Ok(())
}

/// Runs the rounds; gives what was found wrong.
fn rounds(kind: Kind, name: &str, count: u32, seed: u64) -> Result<Vec<String>> {
    let mut random = Random::new(seed);
    let ledger = Ledger::new();
    let mut broker = Broker::start(kind, name, &[])?;
    let mut client = Client::connect(broker.amqp)?;
    for queue in 0..QUEUES {
        client.declare(&format!("crash-{queue}"), true)?;
    }
    drop(client);
    let mut recovery_s_max: f64 = 0.0;
    for round in 1..=count {
        live_and_die(&mut broker, &mut random, &ledger)?;
        let started = Instant::now();
        broker.launch()?;
        recovery_s_max = recovery_s_max.max(started.elapsed().as_secs_f64());
        if round % AUDIT_EVERY == 0 || round == count {
            audit(broker.amqp, &mut random, &ledger)?;
            let (sent, confirmed, delivered) = ledger.totals();
            println!(
                "      round {round}/{count}: sent {sent}, confirmed {confirmed}, \
                 delivered {delivered}, slowest start {recovery_s_max:.2} s"
            );
        }
        if !ledger.found().is_empty() {
            println!("      seed {seed}, round {round}");
            break;
        }
    }
    let (_, confirmed, _) = ledger.totals();
    if confirmed == 0 {
        bail!("nothing was ever confirmed: the audit proves nothing");
    }
    Ok(ledger.found())
}

/// The rounds as a suite: one test a round.
pub fn suite(bench: &Bench) -> Result<Report> {
    let wrong = rounds(bench.kind, bench.name, CI_ROUNDS, 1)?;
    let passed = if wrong.is_empty() {
        CI_ROUNDS as usize
    } else {
        0
    };
    Ok(Report {
        passed,
        failed: wrong,
        ..Report::default()
    })
}

/// `cargo xtask crash`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let (mut count, mut kind) = (CI_ROUNDS, Kind::Leveret);
    let mut seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let in_cluster = arguments.iter().any(|word| word == "--cluster");
    let arguments: Vec<String> = arguments
        .iter()
        .filter(|word| *word != "--cluster")
        .cloned()
        .collect();
    for pair in arguments.chunks(2) {
        match pair {
            [flag, value] if flag == "--rounds" => count = value.parse()?,
            [flag, value] if flag == "--seed" => seed = value.parse()?,
            [flag, value] if flag == "--broker" => kind = Kind::parse(value)?,
            other => {
                bail!("crash takes --cluster, --rounds N, --seed N, --broker KIND, not {other:?}")
            }
        }
    }
    kind.prepare()?;
    println!("      seed {seed}");
    let wrong = match in_cluster {
        true => crate::cluster_crash::rounds("crash-cluster", count, seed)?,
        false => rounds(kind, "crash", count, seed)?,
    };
    for what in &wrong {
        println!("FAILED {what}");
    }
    println!("\n{} rounds, {} faults", count, wrong.len());
    Ok(wrong.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_noticed() {
        let message = body(3, 77, 100);
        assert_eq!(read_body(&message), Some((3, 77)));
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert_ne!(read_body(&changed), Some((3, 77)), "byte {at}");
        }
    }

    #[test]
    fn the_ledger_finds_loss_invention_and_disorder() {
        let ledger = Ledger::new();
        ledger.book(0).next = 3;
        ledger.book(0).confirmed.extend([0, 1, 2]);
        let mut last_of = vec![None; PUBLISHERS];
        for sequence in [0, 2] {
            audit_delivery(&body(0, sequence, 5), 0, &ledger, &mut last_of);
        }
        assert_eq!(ledger.found(), Vec::<String>::new());
        audit_delivery(&body(0, 0, 5), 0, &ledger, &mut last_of);
        audit_delivery(&body(0, 9, 5), 0, &ledger, &mut last_of);
        ledger.close_books();
        let found = ledger.found();
        assert!(found[0].contains("0 came after 2"), "{found:?}");
        assert!(found[1].contains("9 was never sent"), "{found:?}");
        assert!(
            found[2].contains("1 confirmed messages lost, the first is 1"),
            "{found:?}"
        );
    }
}
