//! The load while something happens to brokers: publishers with confirms, consumers with acks, and
//! the audit that empties all queues and closes the books.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::foreign::{Library, Programs};
use super::ledger::{BODY_BYTES_MAX, ConsumerHistory, Delivery, Ledger, PUBLISHERS, QUEUES, body};
use super::streams::{self, StreamNode};
use crate::broker;
use crate::client::{Client, Event};
use crate::numbers::Random;

/// Unconfirmed messages that a publisher may have.
pub const WINDOW: u64 = 256;
/// Most bodies are shorter; some are of the greatest length, so that they span frames and WAL
/// blocks.
const USUAL_BODY_BYTES: u64 = 3_000;
/// How long nothing may come from a queue that is not empty.
const STALL_MAX: Duration = Duration::from_secs(60);
/// How long queues may take to be emptied: what comes again and again empties none.
const DRAIN_MAX: Duration = Duration::from_secs(900);
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

/// A connection with one channel, as a publisher or a consumer uses it.
pub trait Connection {
    /// Has publishes confirmed from now on, numbered from one.
    fn select_confirms(&mut self) -> Result<()>;
    /// Consumes with so many unsettled messages at most, and settles in transactions or not.
    fn subscribe(&mut self, queue: &str, prefetch: u16, in_transactions: bool) -> Result<()>;
    /// Puts a durable message for a queue into the output buffer.
    fn publish(&mut self, queue: &str, body: &[u8]);
    /// Puts an acknowledgement of all up to a delivery into it, and a commit if asked for.
    fn settle(&mut self, tag: u64, in_transaction: bool);
    /// Bytes that wait for [`Connection::flush`].
    fn buffered_bytes(&self) -> usize;
    /// Sends what is in the output buffer.
    fn flush(&mut self) -> Result<()>;
    /// The next event, if one comes within the wait. A closed connection is an error.
    fn next(&mut self, wait: Duration) -> Result<Option<Event>>;
    /// The next event that is there already.
    fn next_buffered(&mut self) -> Result<Option<Event>>;
}

impl Connection for Client {
    fn select_confirms(&mut self) -> Result<()> {
        self.confirm_select()
    }

    fn subscribe(&mut self, queue: &str, prefetch: u16, in_transactions: bool) -> Result<()> {
        if in_transactions {
            self.tx_select()?;
        }
        self.qos(prefetch)?;
        self.consume(queue, false)
    }

    fn publish(&mut self, queue: &str, body: &[u8]) {
        Client::publish(self, "", queue, body, true);
    }

    fn settle(&mut self, tag: u64, in_transaction: bool) {
        self.ack(tag, true);
        if in_transaction {
            self.tx_commit();
        }
    }

    fn buffered_bytes(&self) -> usize {
        Client::buffered_bytes(self)
    }

    fn flush(&mut self) -> Result<()> {
        Client::flush(self)
    }

    fn next(&mut self, wait: Duration) -> Result<Option<Event>> {
        Client::next(self, wait)
    }

    fn next_buffered(&mut self) -> Result<Option<Event>> {
        Client::next_buffered(self)
    }
}

/// Where load goes, and who makes it.
#[derive(Clone, Debug)]
pub struct Load {
    /// The nodes.
    pub addresses: Vec<SocketAddr>,
    /// Whether there are consumers.
    pub consuming: bool,
    /// Other people's clients, which a quarter of the publishers and of the consumers use each.
    pub programs: Option<Programs>,
    /// The nodes that the load of streams goes to; none for no such load.
    pub streams: Vec<StreamNode>,
}

impl Load {
    /// Publishers and consumers with this tool's own client.
    pub fn own(addresses: Vec<SocketAddr>) -> Load {
        Load {
            addresses,
            consuming: true,
            programs: None,
            streams: Vec::new(),
        }
    }

    fn at(&self, index: usize) -> SocketAddr {
        self.addresses[index % self.addresses.len()]
    }

    /// Whose client the one of this number uses, if it is not this tool's own.
    fn library(&self, number: usize) -> Option<(&Programs, Library)> {
        let programs = self.programs.as_ref()?;
        match number % 4 {
            1 => Some((programs, Library::Pika)),
            3 => Some((programs, Library::Go)),
            _ => None,
        }
    }

    /// Connects the one of this number.
    fn connect(&self, number: usize, address: SocketAddr) -> Result<Connected> {
        let Some((programs, library)) = self.library(number) else {
            return Connected::own(address);
        };
        Ok(Connected {
            client: Box::new(programs.connect(library, address)?),
            address,
            hears_late: true,
        })
    }
}

/// A connection to a node.
struct Connected {
    client: Box<dyn Connection>,
    address: SocketAddr,
    /// Whether what it hears may have waited after it had arrived.
    hears_late: bool,
}

impl Connected {
    fn own(address: SocketAddr) -> Result<Connected> {
        Ok(Connected {
            client: Box::new(Client::connect(address)?),
            address,
            hears_late: false,
        })
    }
}

/// Load while `happen` runs; gives what that gives. Who loses its connection tries again.
pub fn during<T>(
    load: &Load,
    random: &mut Random,
    ledger: &Ledger,
    happen: impl FnOnce(&mut Random) -> Result<T>,
) -> Result<T> {
    let consumers = if load.consuming {
        ledger.consumers()
    } else {
        0
    };
    let on = &AtomicBool::new(true);
    let result = thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (seed, address) = (random.next(), load.at(publisher / QUEUES + publisher));
            // One of each queue's four.
            let number = publisher / QUEUES + publisher % QUEUES;
            scope.spawn(move || {
                while on.load(Ordering::Relaxed) {
                    let result = load
                        .connect(number, address)
                        .and_then(|connected| publish(connected, publisher, seed, ledger, on));
                    ledger.hear_end_of("publisher", address, result);
                    thread::sleep(RETRY);
                }
            });
        }
        for queue in 0..QUEUES {
            for consumer in 0..consumers {
                let (seed, address) = (random.next(), load.at(queue + consumer + 1));
                let number = queue + 2 * consumer;
                scope.spawn(move || {
                    while on.load(Ordering::Relaxed) {
                        let done = |_| !on.load(Ordering::Relaxed);
                        let result = load
                            .connect(number, address)
                            .and_then(|connected| consume(connected, queue, seed, ledger, done));
                        ledger.hear_end_of("consumer", address, result);
                        thread::sleep(RETRY);
                    }
                });
            }
        }
        streams::spawn(scope, &load.streams, ledger, on);
        let happened = happen(random);
        on.store(false, Ordering::Relaxed);
        happened
    });
    ledger.trust_all();
    result
}

/// Publishes until the broker dies or the flag falls.
fn publish(
    connected: Connected,
    publisher: usize,
    seed: u64,
    ledger: &Ledger,
    on: &AtomicBool,
) -> Result<()> {
    let mut random = Random::new(seed);
    let Connected {
        mut client,
        address,
        ..
    } = connected;
    client.select_confirms()?;
    let queue = queue_name(publisher % QUEUES);
    // Confirms count from one on each channel; the book counts over all lives.
    let base = ledger.book(publisher).begin_connection();
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
            client.publish(&queue, &body(publisher, base + sent, length));
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
    connected: Connected,
    queue: usize,
    seed: u64,
    ledger: &Ledger,
    mut done: impl FnMut(bool) -> bool,
) -> Result<()> {
    let mut random = Random::new(seed);
    let Connected {
        mut client,
        address,
        hears_late,
    } = connected;
    let in_transactions = ledger.settles_in_transactions();
    client.subscribe(&queue_name(queue), 200, in_transactions)?;
    let mut view = ConsumerHistory::new(hears_late);
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
                let delivery = ledger.audit_delivery(address, &body, redelivered, queue, &mut view);
                settling.open.extend(delivery);
                if settling.open.len() as u64 >= batch {
                    batch = random.between(1, batch_max);
                    client.settle(tag, in_transactions);
                    let settled = std::mem::take(&mut settling.open);
                    if in_transactions {
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
    thread::scope(|scope| {
        let drains: Vec<_> = (0..QUEUES)
            .map(|queue| {
                let seed = random.next();
                scope.spawn(move || drain(address, queue, seed, ledger))
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

fn drain(address: SocketAddr, queue: usize, seed: u64, ledger: &Ledger) -> Result<()> {
    let mut asking = Client::connect(address)?;
    let name = queue_name(queue);
    let started = Instant::now();
    let (mut heard, mut overdue, mut idle_for) = (started, false, 0);
    let mut left = None;
    consume(Connected::own(address)?, queue, seed, ledger, |idle| {
        if idle {
            idle_for += 1;
        } else {
            (heard, idle_for) = (Instant::now(), 0);
        }
        overdue = heard.elapsed() > STALL_MAX || started.elapsed() > DRAIN_MAX;
        // What consumers held whose connections have just gone is on its way back, and what is no
        // longer ready may be on its way here.
        let quiet = idle_for >= QUIET_TURNS;
        if overdue || quiet {
            left = asking.ready_count(&name).ok();
        }
        overdue || left == Some(0)
    })?;
    if left != Some(0) {
        broker::keep_data();
        bail!(
            "queue {queue} is not empty after {} s, the last {} of them without a message: {left:?} \
             messages are ready",
            started.elapsed().as_secs(),
            heard.elapsed().as_secs()
        );
    }
    Ok(())
}
