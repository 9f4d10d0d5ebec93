//! The ledger outside the brokers: what was sent, what was confirmed, what came back, what was
//! settled for good. What contradicts it is kept in words.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stream_ledger::StreamBooks;
use crate::broker;
use crate::numbers::Random;

/// Publishers, each with a book of its own.
pub const PUBLISHERS: usize = 16;
/// Queues; publisher `n` writes to queue `n % QUEUES`.
pub const QUEUES: usize = 4;
/// A message's fixed part: publisher, sequence number, length of the rest.
const HEAD_BYTES: usize = 2 + 8 + 8;
/// The longest body behind the fixed part.
pub const BODY_BYTES_MAX: u64 = 200_000;
/// One fault tends to show a thousand times.
const ACCUSATIONS_MAX: usize = 20;

/// What is known of one publisher's messages.
#[derive(Default)]
pub struct Book {
    /// The next sequence number; all below were sent, or at least begun.
    pub next: u64,
    /// The first number of each connection that it had.
    connections: Vec<u64>,
    /// What the broker has confirmed.
    pub confirmed: HashSet<u64>,
    /// How often each message came.
    delivered: HashMap<u64, u32>,
    /// What was settled in a transaction whose commit was answered.
    settled: HashSet<u64>,
}

impl Book {
    /// The publisher has a new connection; its first number.
    pub fn begin_connection(&mut self) -> u64 {
        self.connections.push(self.next);
        self.next
    }

    /// Which of its connections a message was sent on.
    fn connection_of(&self, sequence: u64) -> usize {
        self.connections.partition_point(|first| *first <= sequence)
    }
}

/// What a ledger takes for wrong, which depends on what happens to the brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// One broker, whose end is all that interrupts: deliveries are always in order.
    OneBroker,
    /// A cluster whose nodes die and stop: what comes again may come out of order, and an empty
    /// queue may still get back what consumers held whose connections have just gone. What a
    /// publisher sent to a node that stood still is read once it goes on, beside what the same one
    /// sends by then on its next connection: order is that of one connection.
    Cluster,
    /// The same, and a minority of nodes may refuse in words what only a majority can do.
    CutCluster,
}

/// A delivery as a consumer remembers it until its settlement is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    publisher: usize,
    sequence: u64,
    /// How often the message had come, with this time.
    times: u32,
}

/// What one consumer has seen, as far as it matters for what comes next.
pub struct ConsumerHistory {
    /// The last number of each publisher and connection of its.
    last_of: HashMap<(usize, usize), u64>,
    /// Its deliveries wait in a program of their own before they are heard of. What comes again to
    /// others may have been settled by them meanwhile.
    hears_late: bool,
}

impl ConsumerHistory {
    /// Nothing seen yet.
    pub fn new(hears_late: bool) -> ConsumerHistory {
        ConsumerHistory {
            last_of: HashMap::new(),
            hears_late,
        }
    }
}

/// A book for each publisher, and what was found wrong.
pub struct Ledger {
    books: Vec<Mutex<Book>>,
    wrong: Mutex<Vec<String>>,
    rules: Rules,
    pauses: Mutex<Pauses>,
    /// Nodes that others may take for dead, so that what their consumers settle may mean nothing.
    doubted: Mutex<HashSet<SocketAddr>>,
    /// The one node at which connections may break and publishes be refused; any where none is
    /// named.
    breaking: Mutex<Option<SocketAddr>>,
    streams: StreamBooks,
}

/// When confirms came.
pub struct Pauses {
    last: Instant,
    longest: Duration,
}

impl Pauses {
    /// None has come yet.
    pub fn begin() -> Pauses {
        Pauses {
            last: Instant::now(),
            longest: Duration::ZERO,
        }
    }

    /// One came.
    pub fn hear(&mut self) {
        self.longest = self.longest.max(self.last.elapsed());
        self.last = Instant::now();
    }

    /// The longest time without one since this was last asked, up to now.
    pub fn take_longest(&mut self) -> Duration {
        self.hear();
        std::mem::take(&mut self.longest)
    }
}

/// Counts over all publishers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Sent, or at least begun.
    pub sent: u64,
    /// Confirmed.
    pub confirmed: usize,
    /// Delivered at least once.
    pub delivered: usize,
    /// Settled for good.
    pub settled: usize,
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sent, confirmed, delivered) = (self.sent, self.confirmed, self.delivered);
        write!(
            f,
            "sent {sent}, confirmed {confirmed}, delivered {delivered}"
        )?;
        match self.settled {
            0 => Ok(()),
            settled => write!(f, ", settled {settled}"),
        }
    }
}

impl Ledger {
    /// Empty books.
    pub fn new(rules: Rules) -> Ledger {
        let books = (0..PUBLISHERS).map(|_| Mutex::default()).collect();
        Ledger {
            books,
            wrong: Mutex::new(Vec::new()),
            rules,
            pauses: Mutex::new(Pauses::begin()),
            doubted: Mutex::default(),
            breaking: Mutex::default(),
            streams: StreamBooks::default(),
        }
    }

    /// What is known of streams.
    pub fn streams(&self) -> &StreamBooks {
        &self.streams
    }

    /// One publisher's book.
    pub fn book(&self, publisher: usize) -> MutexGuard<'_, Book> {
        lock(&self.books[publisher])
    }

    /// Notes what is wrong. The brokers leave their data for whoever looks into it.
    pub fn accuse(&self, what: String) {
        broker::keep_data();
        let mut wrong = lock(&self.wrong);
        if wrong.len() < ACCUSATIONS_MAX {
            wrong.push(what);
        }
    }

    /// What was found wrong so far.
    pub fn found(&self) -> Vec<String> {
        lock(&self.wrong).clone()
    }

    /// Whether consumers settle in transactions, so that they know what is settled for good.
    pub fn settles_in_transactions(&self) -> bool {
        self.rules != Rules::OneBroker
    }

    /// Consumers of each queue while there is load.
    pub fn consumers(&self) -> usize {
        match self.rules {
            Rules::OneBroker => 1,
            Rules::Cluster | Rules::CutCluster => 2,
        }
    }

    /// From now on connections may break, and publishes be refused, at one node alone; at all of
    /// them, if none is named.
    pub fn allow_breaks(&self, at: Option<SocketAddr>) {
        *lock(&self.breaking) = at;
    }

    fn may_break(&self, node: SocketAddr) -> bool {
        lock(&self.breaking).is_none_or(|breaking| breaking == node)
    }

    /// Notes that a publish was refused.
    pub fn hear_refusal(&self, publisher: usize, node: SocketAddr) {
        if !self.may_break(node) {
            self.accuse(format!("publisher {publisher}: refused at {node}"));
        }
    }

    /// A socket that breaks is the test; a refusal in words is not.
    pub fn hear_end_of(&self, who: &str, node: SocketAddr, result: anyhow::Result<()>) {
        let Err(error) = result else { return };
        let text = format!("{error:#}");
        if !self.may_break(node) {
            return self.accuse(format!("{who} at {node}, where all is well: {text}"));
        }
        // 320 is how a broker that is going down says so; 506, and 541 for want of a leader, how a
        // minority does.
        let is_expected = !text.contains("closed with")
            || text.contains("closed with 320")
            || (self.rules == Rules::CutCluster
                && (text.contains("closed with 506") || text.contains("has no leader")));
        if !is_expected {
            self.accuse(format!("{who}: {text}"));
        }
    }

    /// Notes that a confirm came.
    pub fn hear_confirm(&self) {
        lock(&self.pauses).hear();
    }

    /// The longest time without a confirm since this was last asked, up to now.
    pub fn longest_pause(&self) -> Duration {
        lock(&self.pauses).take_longest()
    }

    /// Holds a delivery from a node against the books.
    pub fn audit_delivery(
        &self,
        node: SocketAddr,
        bytes: &[u8],
        redelivered: bool,
        queue: usize,
        view: &mut ConsumerHistory,
    ) -> Option<Delivery> {
        let Some((publisher, sequence)) = read_body(bytes) else {
            self.accuse(format!(
                "queue {queue}: a message of {} bytes that nobody sent",
                bytes.len()
            ));
            return None;
        };
        if publisher % QUEUES != queue {
            self.accuse(format!(
                "queue {queue}: publisher {publisher} never wrote to it"
            ));
        }
        let mut book = self.book(publisher);
        if sequence >= book.next {
            self.accuse(format!(
                "publisher {publisher}: number {sequence} was never sent"
            ));
        }
        // What a node had on its way to a client when others took it for dead still arrives.
        let may_be_late = view.hears_late || lock(&self.doubted).contains(&node);
        if book.settled.contains(&sequence) && !may_be_late {
            self.accuse(format!(
                "publisher {publisher}: {sequence} came again after its settlement was committed"
            ));
        }
        let times = book.delivered.entry(sequence).or_insert(0);
        *times += 1;
        let delivery = Delivery {
            publisher,
            sequence,
            times: *times,
        };
        if redelivered && self.rules != Rules::OneBroker {
            view.last_of.clear();
        }
        let connection = match self.rules {
            Rules::OneBroker => 0,
            Rules::Cluster | Rules::CutCluster => book.connection_of(sequence),
        };
        // What a consumer sees for the first time is in the queue's own order.
        let last = view.last_of.insert((publisher, connection), sequence);
        if let Some(last) = last
            && last >= sequence
        {
            self.accuse(format!(
                "publisher {publisher}: {sequence} came after {last}"
            ));
        }
        Some(delivery)
    }

    /// From now on until [`Ledger::trust_all`] others may take a node for dead: its consumers'
    /// messages go to others, what they settle settles nothing, and what was on its way to them
    /// still arrives, as `docs/guarantees.md` says.
    pub fn doubt(&self, node: SocketAddr) {
        lock(&self.doubted).insert(node);
    }

    /// The consumers that were doubted are gone.
    pub fn trust_all(&self) {
        lock(&self.doubted).clear();
    }

    /// Notes settlements at a node whose transaction was committed. What another consumer has got
    /// meanwhile was settled too late, and is the other's.
    pub fn settled(&self, node: SocketAddr, deliveries: &[Delivery]) {
        if lock(&self.doubted).contains(&node) {
            return;
        }
        for delivery in deliveries {
            let mut book = self.book(delivery.publisher);
            if book.delivered.get(&delivery.sequence) == Some(&delivery.times) {
                book.settled.insert(delivery.sequence);
            }
        }
    }

    /// Every confirmed message must have come back by now.
    pub fn close_books(&self) {
        for publisher in 0..PUBLISHERS {
            let book = self.book(publisher);
            let is_lost = |sequence: &&u64| !book.delivered.contains_key(*sequence);
            let mut lost: Vec<u64> = book.confirmed.iter().filter(is_lost).copied().collect();
            lost.sort_unstable();
            if let Some(first) = lost.first() {
                self.accuse(format!(
                    "publisher {publisher}: {} confirmed messages lost, the first is {first}",
                    lost.len()
                ));
            }
        }
    }

    /// Accuses every publisher of which nothing was ever confirmed: its part proves nothing.
    pub fn accuse_the_silent(&self) {
        for publisher in 0..PUBLISHERS {
            if self.book(publisher).confirmed.is_empty() {
                self.accuse(format!("publisher {publisher}: nothing was ever confirmed"));
            }
        }
    }

    /// Messages of queues, and of streams, that were confirmed.
    pub fn confirmed(&self) -> [u64; 2] {
        let of_queues = self.totals().confirmed as u64;
        [of_queues, self.streams.totals().confirmed]
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for publisher in 0..PUBLISHERS {
            let book = self.book(publisher);
            totals.sent += book.next;
            totals.confirmed += book.confirmed.len();
            totals.delivered += book.delivered.len();
            totals.settled += book.settled.len();
        }
        totals
    }
}

/// What a mutex guards, also where somebody who held it has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message whose every byte follows from its publisher, number and length.
pub fn body(publisher: usize, sequence: u64, length: u64) -> Vec<u8> {
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
pub fn read_body(bytes: &[u8]) -> Option<(usize, u64)> {
    let publisher = u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?) as usize;
    let sequence = u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
    let length = u64::from_be_bytes(bytes.get(10..18)?.try_into().ok()?);
    let whole = publisher < PUBLISHERS
        && length <= BODY_BYTES_MAX
        && bytes == body(publisher, sequence, length);
    whole.then_some((publisher, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

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

    const NODE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5672);

    #[test]
    fn the_ledger_finds_loss_invention_and_disorder() {
        let ledger = Ledger::new(Rules::OneBroker);
        ledger.book(0).next = 3;
        ledger.book(0).confirmed.extend([0, 1, 2]);
        let mut view = ConsumerHistory::new(false);
        let mut deliver = |sequence| {
            ledger.audit_delivery(NODE, &body(0, sequence, 5), false, 0, &mut view);
        };
        deliver(0);
        deliver(2);
        assert_eq!(ledger.found(), Vec::<String>::new());
        deliver(0);
        deliver(9);
        ledger.close_books();
        let found = ledger.found();
        assert!(found[0].contains("0 came after 2"), "{found:?}");
        assert!(found[1].contains("9 was never sent"), "{found:?}");
        assert!(
            found[2].contains("1 confirmed messages lost, the first is 1"),
            "{found:?}"
        );
    }

    #[test]
    fn what_a_node_that_stood_still_reads_late_may_come_behind_the_next_connections() {
        let disorder = |rules, sequences: &[u64]| {
            let ledger = Ledger::new(rules);
            for next in [3, 6] {
                ledger.book(0).begin_connection();
                ledger.book(0).next = next;
            }
            let mut view = ConsumerHistory::new(false);
            for sequence in sequences {
                ledger.audit_delivery(NODE, &body(0, *sequence, 5), false, 0, &mut view);
            }
            ledger.found()
        };
        let late = [0, 3, 1, 4, 2, 5];
        assert_eq!(disorder(Rules::CutCluster, &late), Vec::<String>::new());
        assert_eq!(disorder(Rules::OneBroker, &late).len(), 2);
        let wrong = disorder(Rules::CutCluster, &[1, 3, 0, 5, 4]);
        let expected = ["publisher 0: 0 came after 1", "publisher 0: 4 came after 5"];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn what_was_settled_for_good_must_not_come_again() {
        let ledger = Ledger::new(Rules::Cluster);
        ledger.book(0).next = 2;
        let mut view = ConsumerHistory::new(false);
        let mut deliver = |sequence, redelivered| {
            ledger
                .audit_delivery(NODE, &body(0, sequence, 5), redelivered, 0, &mut view)
                .expect("it is whole")
        };
        let late = deliver(0, false);
        let other = deliver(0, true);
        // The first holder's commit is too late to mean anything.
        ledger.settled(NODE, &[late]);
        let again = deliver(0, true);
        ledger.doubt(NODE);
        ledger.settled(NODE, &[again]);
        let again = deliver(0, true);
        assert_eq!(ledger.found(), Vec::<String>::new());
        ledger.trust_all();
        ledger.settled(NODE, &[other, again]);
        ledger.doubt(NODE);
        deliver(0, true);
        assert_eq!(ledger.found(), Vec::<String>::new(), "on its way before");
        ledger.trust_all();
        deliver(0, true);
        let found = ledger.found();
        assert!(
            found[0].contains("0 came again after its settlement"),
            "{found:?}"
        );
    }

    #[test]
    fn what_was_heard_late_may_have_been_settled_elsewhere() {
        let ledger = Ledger::new(Rules::Cluster);
        ledger.book(0).next = 1;
        let deliver = |hears_late| {
            let mut view = ConsumerHistory::new(hears_late);
            ledger.audit_delivery(NODE, &body(0, 0, 5), true, 0, &mut view)
        };
        let settled = deliver(false).expect("it is whole");
        ledger.settled(NODE, &[settled]);
        deliver(true);
        assert_eq!(ledger.found(), Vec::<String>::new());
        deliver(false);
        assert_eq!(ledger.found().len(), 1);
    }

    #[test]
    fn a_minority_may_refuse_only_where_nodes_are_cut_off() {
        let refusal = || Err(anyhow::anyhow!("closed with 506 RESOURCE_ERROR"));
        for (rules, accusations) in [(Rules::Cluster, 1), (Rules::CutCluster, 0)] {
            let ledger = Ledger::new(rules);
            ledger.hear_end_of("consumer", NODE, refusal());
            ledger.hear_end_of("consumer", NODE, broken());
            ledger.hear_end_of(
                "consumer",
                NODE,
                Err(anyhow::anyhow!("closed with 320 going down")),
            );
            assert_eq!(ledger.found().len(), accusations, "{rules:?}");
        }
    }

    fn broken() -> anyhow::Result<()> {
        Err(anyhow::anyhow!("connection reset"))
    }

    #[test]
    fn while_one_node_is_worked_on_nothing_breaks_elsewhere() {
        let ledger = Ledger::new(Rules::CutCluster);
        let other = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5673);
        ledger.hear_refusal(1, other);
        ledger.allow_breaks(Some(NODE));
        ledger.hear_end_of("consumer", NODE, broken());
        ledger.hear_end_of("consumer", other, Ok(()));
        ledger.hear_refusal(2, NODE);
        assert_eq!(ledger.found(), Vec::<String>::new());
        ledger.hear_end_of("consumer", other, broken());
        ledger.hear_refusal(3, other);
        ledger.allow_breaks(None);
        ledger.hear_end_of("consumer", other, broken());
        let found = ledger.found();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("connection reset"), "{found:?}");
        assert!(found[1].contains("publisher 3: refused"), "{found:?}");
    }
}
