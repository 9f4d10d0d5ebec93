//! Three nodes with one shard each over disks in memory, a network that keeps the order of each
//! way, and clients with a ledger; everything else is drawn from a seed.

mod arriving;
mod astray;
mod corrupt;
mod expiring;
mod golden;
mod handing_over;
mod leading;
mod leased;
mod led;
mod local;
mod narrow;
mod non_voting;
mod peeking;
mod quiet;
mod reaching;
mod referring;
mod refused;
mod registered;
mod restored;
mod sending;
mod source;
mod spare;
mod stuck;
mod transferring;
mod viewed;

use super::HEADER_LOG;
use crate::delivery_credit::ConsumerCredit;
use crate::events::{PeerFrame, QueueAnswer, QueueEvent};
use crate::notify::Notify;
use crate::shard::{Bodies, Deferred, Enqueued, QueueSpec, Shard, queue_of};
use bytes::Bytes;
use leveret_queue::{Consumer, Outcome, QueueKind, Settings, Settle};
use leveret_storage::{
    Folders, MemoryDisk, Options, Reader, SealedChunk, StoreLock, WalWriter, recover,
};
use leveret_stream::SessionId;
use leveret_types::message::MessageSummary;
use leveret_types::{
    ConnectionId, ConsumerId, Message, MessageParts, NodeId, Now, QueueId, ReplicaId, ShardId,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

const QUEUE: QueueId = QueueId(256);
const CLIENT: ConnectionId = ConnectionId(1);

/// A xorshift generator: the tests need numbers, not quality.
struct Random(u64);
impl Random {
    fn new(seed: u64) -> Self {
        Self(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed + 1) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What runs on a node that is up.
struct Running {
    shard: Shard,
    wal: WalWriter<MemoryDisk>,
    reader: Reader<MemoryDisk>,
    _lock: StoreLock<MemoryDisk>,
    /// Publishes whose answer is awaited: the operation's number, and the message.
    published: BTreeMap<u64, u64>,
    consumer: Option<ConsumerId>,
    /// Deliveries to the client: priority log, index, message.
    held: VecDeque<(u8, u64, u64)>,
    /// Whether each delivery to it was flagged as redelivered.
    flags: Vec<bool>,
}

struct Node {
    id: NodeId,
    disk: MemoryDisk,
    starts: u64,
    running: Option<Running>,
}

/// What clients know.
#[derive(Default)]
struct Ledger {
    next: u64,
    confirmed: BTreeSet<u64>,
    /// Publishes that were refused.
    refused: usize,
    /// Acknowledged by a client whose node may die before that is committed.
    settled: BTreeSet<u64>,
    delivered: BTreeMap<u64, u32>,
    /// Where each message was seen.
    places: BTreeMap<u64, (u8, u64)>,
    requeued: u32,
    /// Nodes that live have lost sight of each other: two may have led at once.
    was_cut: bool,
    snapshots: u32,
    /// Deliveries that a replica on the consumer's node completed, and those that it could not.
    local: (u64, u64),
    /// Bytes that went each way.
    sent: BTreeMap<(usize, usize), usize>,
    /// References that named nothing.
    lacking: u32,
    /// The most bytes that waited on a way, and how often one was too narrow.
    most_waiting: usize,
    narrow: u32,
}

struct World {
    nodes: Vec<Node>,
    /// Frames on their way, by sender and receiver.
    ways: BTreeMap<(usize, usize), VecDeque<PeerFrame>>,
    /// Ways that are cut.
    cut: BTreeSet<(usize, usize)>,
    now: Now,
    random: Random,
    ledger: Ledger,
    spec: QueueSpec,
    consumers: u64,
    trace: Vec<String>,
    body_bytes: usize,
    /// Time to live of what is published from now on.
    expiration_ms: Option<u64>,
    /// How often, of a hundred times, a reference to what a node has published is to another run
    /// of the node.
    misreferring: u64,
    /// Nodes whose disks have damaged something.
    corrupt: BTreeSet<usize>,
    /// What views that nodes lead asked their stream.
    pending: Vec<(usize, SessionId, leveret_stream::Command)>,
    /// What nodes said of damage, each with the node.
    reported_damage: Vec<(usize, String)>,
    /// Bytes that may wait on a way before what can wait itself does.
    share: usize,
    /// Ways on which a node would send more than there is room for.
    awaited: BTreeSet<(usize, usize)>,
}

fn spec(count: u32) -> QueueSpec {
    QueueSpec {
        view: None,
        kind: QueueKind::Quorum,
        durable: true,
        members: (1..=count).map(|n| ReplicaId::new(NodeId(n), 0)).collect(),
        founders: (1..=count).map(|n| ReplicaId::new(NodeId(n), 0)).collect(),
        home: NodeId(0),
        auto_delete: false,
        settings: Settings {
            delivery_limit: None,
            ..Settings::default()
        },
    }
}

fn message(number: u64, len: usize, expiration_ms: Option<u64>, published_ms: u64) -> Message {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(len.max(8), b'x');
    let parts = MessageParts {
        exchange: b"",
        routing_key: b"q",
        properties: &[0, 0],
        body: &body,
    };
    let summary = MessageSummary {
        persistent: true,
        expiration_ms,
        published_ms,
        ..MessageSummary::default()
    };
    Message::from_parts(parts, summary)
}

fn number_of(message: &Message) -> u64 {
    u64::from_le_bytes(message.body()[..8].try_into().expect("eight bytes"))
}

impl Node {
    fn start(&mut self, now: Now, spec: &QueueSpec) {
        let options = Options {
            cache_bytes: 64 * 1024,
            loaded_bytes: 64 * 1024,
            wal_file_bytes: 1024 * 1024,
            uuid: [self.id.0 as u8; 16],
            ..Options::default()
        };
        let folders = Folders::within(Path::new("/store"));
        let mut recovered = recover(&self.disk, &folders, &options).expect("a store");
        let logs = recovered.shards.remove(0);
        let mut shard = Shard::new(ShardId(0), 1, self.id, logs);
        self.starts += 1;
        shard.set_start(self.starts);
        let found = recovered.logs.iter().map(|summary| queue_of(summary.log));
        let mut priority_logs: Vec<u8> = found.filter(|of| of.0 == QUEUE).map(|of| of.1).collect();
        priority_logs.sort_unstable();
        let mut reader = recovered.reader;
        shard.recover_queue(now, QUEUE, spec.clone(), priority_logs, &mut |logs| {
            for request in logs.take_reads() {
                let loaded = reader.read(request);
                logs.loaded(loaded);
            }
        });
        self.running = Some(Running {
            shard,
            wal: recovered.wal,
            reader,
            _lock: recovered.lock,
            published: BTreeMap::new(),
            consumer: None,
            held: VecDeque::new(),
            flags: Vec::new(),
        });
    }
}

impl World {
    fn new(seed: u64, count: u32, spec: QueueSpec) -> Self {
        let nodes = (1..=count).map(|id| Node {
            id: NodeId(id),
            disk: MemoryDisk::new(),
            starts: 0,
            running: None,
        });
        let mut world = Self {
            nodes: nodes.collect(),
            ways: BTreeMap::new(),
            cut: BTreeSet::new(),
            now: Now::both(1_000),
            random: Random::new(seed),
            ledger: Ledger::default(),
            spec,
            consumers: 0,
            trace: Vec::new(),
            // Some are sent, others referred to.
            body_bytes: if seed.is_multiple_of(2) { 64 } else { 300 },
            expiration_ms: None,
            misreferring: 0,
            corrupt: BTreeSet::new(),
            pending: Vec::new(),
            reported_damage: Vec::new(),
            share: usize::MAX,
            awaited: BTreeSet::new(),
        };
        for at in 0..world.nodes.len() {
            world.start(at);
        }
        world
    }

    fn say(&mut self, text: String) {
        self.trace
            .push(format!("{}: {text}", self.now.monotonic_ms));
    }

    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn is_up(&self, at: usize) -> bool {
        self.nodes[at].running.is_some()
    }

    fn connected(&self, a: usize, b: usize) -> bool {
        self.is_up(a) && self.is_up(b) && !self.cut.contains(&(a.min(b), a.max(b)))
    }

    fn start(&mut self, at: usize) {
        self.say(format!("start {at}"));
        let (now, spec) = (self.now, self.spec.clone());
        self.nodes[at].start(now, &spec);
        self.narrow_ways_of(at);
        self.with(at, |_, _| {});
        for other in 0..self.count() {
            if other != at && self.connected(at, other) {
                self.meet(at, other);
            }
        }
    }

    fn meet(&mut self, a: usize, b: usize) {
        self.ways.remove(&(a, b));
        self.ways.remove(&(b, a));
        for (at, other) in [(a, b), (b, a)] {
            let peer = self.nodes[other].id;
            self.with(at, |shard, now| shard.peer_up(now, peer));
        }
    }

    fn part(&mut self, a: usize, b: usize) {
        self.ways.remove(&(a, b));
        self.ways.remove(&(b, a));
        for (at, other) in [(a, b), (b, a)] {
            let peer = self.nodes[other].id;
            if self.is_up(at) {
                self.with(at, |shard, now| shard.peer_down(now, peer));
            }
        }
    }

    fn crash(&mut self, at: usize) {
        self.say(format!("crash {at}"));
        self.count_local(at);
        self.nodes[at].running = None;
        for other in 0..self.count() {
            if other != at && self.is_up(other) {
                self.part(at, other);
            }
        }
    }

    /// Runs something on a shard, and carries its effects out.
    fn with<R>(&mut self, at: usize, run: impl FnOnce(&mut Shard, Now) -> R) -> R {
        let now = self.now;
        let running = self.nodes[at].running.as_mut().expect("it runs");
        let result = run(&mut running.shard, now);
        running.shard.finish(now);
        self.carry_out(at);
        result
    }

    fn carry_out(&mut self, at: usize) {
        let running = self.nodes[at].running.as_mut().expect("it runs");
        let effects = std::mem::take(&mut running.shard.effects);
        let pending = effects.streams.into_iter();
        self.pending
            .extend(pending.map(|(session, command)| (at, session, command)));
        let mut said = Vec::new();
        for (_, event) in effects.posts {
            match event {
                QueueEvent::Committed { through, .. } => {
                    let later = running.published.split_off(&(through + 1));
                    let done = std::mem::replace(&mut running.published, later);
                    said.push(format!("{at} confirms {:?}", done.values()));
                    self.ledger.confirmed.extend(done.into_values());
                }
                QueueEvent::Refused { sequences, .. } => {
                    let before = running.published.len();
                    running
                        .published
                        .retain(|number, _| !sequences.contains(number));
                    self.ledger.refused += before - running.published.len();
                }
                QueueEvent::Deliver(delivery) => {
                    let number = number_of(&delivery.message);
                    said.push(format!(
                        "{at} gets {number} at {}{}",
                        delivery.index,
                        if delivery.redelivered { " again" } else { "" }
                    ));
                    let times = self.ledger.delivered.entry(number).or_default();
                    assert!(
                        *times == 0 || delivery.redelivered || self.ledger.was_cut,
                        "message {number} comes again, and is not flagged"
                    );
                    *times += 1;
                    let place = (delivery.priority_log, delivery.index);
                    let before = *self.ledger.places.entry(number).or_insert(place);
                    assert_eq!(before, place, "message {number} is in the queue twice");
                    running.flags.push(delivery.redelivered);
                    running
                        .held
                        .push_back((delivery.priority_log, delivery.index, number));
                }
                QueueEvent::Answered {
                    answer: QueueAnswer::Attached { result, .. },
                    ..
                } => said.push(format!("{at} attached {result:?}")),
                other => said.push(format!("{at} {other:?}")),
            }
        }
        let is_known =
            |said: &Deferred| matches!(said, Deferred::Damage { .. }) && self.corrupt.contains(&at);
        let unknown = effects.deferred.iter().find(|said| !is_known(said));
        assert!(unknown.is_none(), "{unknown:?}");
        let damage = effects.deferred.into_iter().filter_map(|said| match said {
            Deferred::Damage { what, .. } => Some((at, what)),
            _ => None,
        });
        self.reported_damage.extend(damage);
        for (to, frame) in effects.peer {
            let to = self
                .nodes
                .iter()
                .position(|node| node.id == to)
                .expect("a node");
            self.ledger.snapshots += u32::from(frame.pieces[0][0] == super::snapshot::OFFER);
            let bytes: usize = frame.pieces.iter().map(Bytes::len).sum();
            *self.ledger.sent.entry((at, to)).or_default() += bytes;
            self.ledger.lacking += u32::from(frame.pieces[0][0] == super::entry_payload::LACKING);
            if self.connected(at, to) {
                self.ways.entry((at, to)).or_default().push_back(frame);
            }
        }
        said.into_iter().for_each(|text| self.say(text));
        self.retry_for_room(at);
    }

    fn count_local(&mut self, at: usize) {
        if let Some(running) = &self.nodes[at].running {
            let local = running.shard.local_deliveries();
            self.ledger.local.0 += local.read;
            self.ledger.local.1 += local.fetched;
        }
    }

    /// Delivers the first frame of a way.
    fn deliver(&mut self, way: (usize, usize)) {
        let Some(frame) = self.ways.get_mut(&way).and_then(VecDeque::pop_front) else {
            return;
        };
        let from = self.nodes[way.0].id;
        let mut bytes = frame.pieces.concat();
        if bytes[0] == super::entry_payload::REFERRING && self.random.chance(self.misreferring) {
            bytes[1] ^= 0x40;
        }
        let bytes = Bytes::from(bytes);
        self.with(way.1, |shard, now| {
            shard.receive_peer(now, from, frame.queue, bytes);
        });
        self.give_room();
    }

    /// Makes a node's log durable.
    fn sync(&mut self, at: usize) {
        let now = self.now;
        let running = self.nodes[at].running.as_mut().expect("it runs");
        let mut chunks: Vec<SealedChunk> = Vec::new();
        running.shard.before_seal(now);
        running.shard.seal(&mut chunks);
        while !chunks.is_empty() {
            let outcome = running.wal.write(&mut chunks).expect("it writes");
            let written = outcome
                .written
                .iter()
                .map(|(_, chunk, place)| (*chunk, *place));
            running.shard.logs.on_durable(written.collect::<Vec<_>>());
        }
        running.shard.on_durable(now);
        self.carry_out(at);
    }

    fn read(&mut self, at: usize) {
        let now = self.now;
        let running = self.nodes[at].running.as_mut().expect("it runs");
        if !running.shard.logs.has_reads() {
            return;
        }
        for request in running.shard.logs.take_reads() {
            let loaded = running.reader.read(request);
            let logs = running.shard.logs.loaded(loaded);
            running.shard.loaded(now, logs);
        }
        running.shard.finish(now);
        self.carry_out(at);
    }

    fn tick(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.wall_ms += ms;
        self.give_room();
        for at in 0..self.count() {
            let Some(running) = &self.nodes[at].running else {
                continue;
            };
            if running.shard.next_deadline_ms() <= self.now.monotonic_ms {
                self.with(at, |shard, now| shard.tick(now));
            }
            self.read(at);
        }
    }

    fn publish(&mut self, at: usize) {
        let number = self.ledger.next;
        self.ledger.next += 1;
        let message = message(
            number,
            self.body_bytes,
            self.expiration_ms,
            self.now.wall_ms,
        );
        let (now, notify) = (self.now, Notify::Connection(CLIENT));
        let running = self.nodes[at].running.as_mut().expect("it runs");
        let shard = &mut running.shard;
        let enqueued = shard.publish(now, QUEUE, &message, &mut Bodies::default(), &notify);
        match enqueued {
            Enqueued::Kept { sequence, .. } => {
                running.published.insert(sequence, number);
            }
            other => panic!("{other:?}"),
        }
        self.say(format!("{at} publishes {number} as {enqueued:?}"));
        // A leader beside it may answer at once.
        self.with(at, |_, _| {});
    }

    fn consume(&mut self, at: usize, prefetch: u32) {
        self.consumers += 1;
        let id = ConsumerId(u64::from(self.nodes[at].id.0) << 40 | self.consumers);
        let consumer = Consumer {
            id,
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch,
            timeout_ms: None,
        };
        let credit = ConsumerCredit {
            connection: std::sync::Arc::default(),
            limiter: None,
        };
        self.say(format!("{at} consumes as {id}"));
        self.nodes[at].running.as_mut().expect("it runs").consumer = Some(id);
        self.with(at, |shard, now| {
            shard
                .attach(now, QUEUE, consumer, CLIENT, credit)
                .expect("it attaches");
        });
    }

    /// The client settles the first message that it holds.
    fn settle(&mut self, at: usize, outcome: Outcome) -> bool {
        let running = self.nodes[at].running.as_mut().expect("it runs");
        let Some(consumer) = running.consumer else {
            return false;
        };
        let Some((priority_log, index, number)) = running.held.pop_front() else {
            return false;
        };
        self.say(format!("{at} settles {number} at {index}: {outcome:?}"));
        match outcome {
            Outcome::Accept => drop(self.ledger.settled.insert(number)),
            _ => self.ledger.requeued += 1,
        }
        self.with(at, |shard, now| {
            let settle = Settle {
                subscription: consumer,
                priority_log,
                range: index..index + 1,
                outcome,
            };
            shard.settle(now, QUEUE, settle);
            shard.unblock(now, QUEUE, consumer);
        });
        true
    }

    /// Lets all happen that follows, and some time pass.
    fn rest(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for at in 0..self.count() {
                if self.is_up(at) {
                    self.sync(at);
                    self.read(at);
                }
            }
            loop {
                let ways: Vec<_> = self
                    .ways
                    .iter()
                    .filter(|(_, q)| !q.is_empty())
                    .map(|(w, _)| *w)
                    .collect();
                if ways.is_empty() {
                    break;
                }
                ways.into_iter().for_each(|way| self.deliver(way));
            }
            self.tick(10);
        }
    }

    fn leader(&self) -> Option<usize> {
        let serving = |at: &usize| {
            let running = self.nodes[*at].running.as_ref();
            running.is_some_and(|r| r.shard.replica_status(QUEUE).is_some_and(|s| s.is_serving))
        };
        (0..self.count()).find(serving)
    }

    /// One random step with faults.
    fn step(&mut self, faults: bool) {
        let at = self.random.below(self.count() as u64) as usize;
        let other = self.random.below(self.count() as u64) as usize;
        let up = self.is_up(at);
        match self.random.below(100) {
            0..20 if up => self.publish(at),
            20..50 => {
                for _ in 0..self.random.below(6) {
                    let ways: Vec<_> = self.ways.keys().copied().collect();
                    if !ways.is_empty() {
                        let way = ways[self.random.below(ways.len() as u64) as usize];
                        self.deliver(way);
                    }
                }
            }
            50..65 if up => self.sync(at),
            65..70 if up => self.read(at),
            70..80 => {
                let ms = self.random.below(60);
                self.tick(ms);
            }
            80..92 if up => {
                let outcome = match self.random.below(10) {
                    0 => Outcome::Requeue { count: true },
                    1 => Outcome::Requeue { count: false },
                    _ => Outcome::Accept,
                };
                self.settle(at, outcome);
            }
            92..95
                if up
                    && self.nodes[at]
                        .running
                        .as_ref()
                        .is_some_and(|r| r.consumer.is_none()) =>
            {
                let prefetch = 1 + self.random.below(5) as u32;
                self.consume(at, prefetch);
            }
            95 if faults && up && self.random.chance(30) => self.crash(at),
            96 if faults && !up => self.start(at),
            97 if faults && at != other && self.connected(at, other) && self.random.chance(50) => {
                self.say(format!("cut {at} {other}"));
                self.cut.insert((at.min(other), at.max(other)));
                self.ledger.was_cut = true;
                self.part(at, other);
            }
            98 if at != other
                && self.cut.remove(&(at.min(other), at.max(other)))
                && self.connected(at, other) =>
            {
                self.say(format!("join {at} {other}"));
                self.meet(at, other);
            }
            99 if faults && up && at != other => {
                let to = self.nodes[other].id;
                self.with(at, |shard, now| shard.transfer_leader(now, QUEUE, to));
            }
            _ => {}
        }
    }

    /// Other members from now on, or other settings: the catalogue says so to all nodes that run.
    fn update(&mut self, change: impl FnOnce(&mut QueueSpec)) {
        change(&mut self.spec);
        let spec = self.spec.clone();
        self.say(format!("members {:?}", spec.members));
        for at in 0..self.count() {
            if self.is_up(at) {
                self.with(at, |shard, now| {
                    shard.update_queue(now, QUEUE, spec.clone())
                });
            }
        }
    }

    fn voters(&self, at: usize) -> Vec<ReplicaId> {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        let status = running.shard.replica_status(QUEUE);
        status
            .map(|status| status.group.membership.voters)
            .unwrap_or_default()
    }

    /// Ends all faults, and lets one client take all there is.
    fn heal_and_drain(&mut self) {
        for at in 0..self.count() {
            if !self.is_up(at) {
                self.start(at);
            }
        }
        for (a, b) in std::mem::take(&mut self.cut) {
            self.meet(a, b);
        }
        self.say("healed".to_owned());
        let mut idle = 0;
        for _ in 0..3_000 {
            self.rest(1);
            let mut any = false;
            for at in 0..self.count() {
                if self.nodes[at]
                    .running
                    .as_ref()
                    .is_some_and(|r| r.consumer.is_none())
                {
                    self.consume(at, 10);
                }
                while self.settle(at, Outcome::Accept) {
                    any = true;
                }
                let running = self.nodes[at].running.as_ref().expect("it runs");
                any |= !running.published.is_empty();
            }
            idle = if any || self.leader().is_none() {
                0
            } else {
                idle + 1
            };
            if idle > 200 {
                return;
            }
        }
        panic!("no end; leader {:?}", self.leader());
    }

    /// Says what happened, for a seed that failed.
    fn tell(&self, seed: u64) -> ! {
        let from = self.trace.len().saturating_sub(400);
        for line in &self.trace[from..] {
            println!("{line}");
        }
        println!("members should be {:?}", self.spec.members);
        for node in &self.nodes {
            let status = node.running.as_ref().map(|r| r.shard.replica_status(QUEUE));
            println!("node {}: {status:?}", node.id);
        }
        panic!("seed {seed}");
    }

    /// What must hold at the end.
    fn check(&self) {
        for number in &self.ledger.confirmed {
            assert!(
                self.ledger.delivered.contains_key(number),
                "message {number} was confirmed and is lost"
            );
        }
        let live = |at: usize| {
            let running = self.nodes[at].running.as_ref().expect("it runs");
            let logs = &running.shard.logs;
            let mut live: Vec<_> = logs
                .log_ids()
                .filter(|log| queue_of(*log).0 == QUEUE && queue_of(*log).1 != HEADER_LOG)
                .map(|log| {
                    (
                        log,
                        logs.live(log),
                        logs.log_stats(log).map(|s| s.next_index),
                    )
                })
                .collect();
            live.sort_by_key(|(log, ..)| *log);
            live
        };
        let is_member = |at: &usize| {
            let node = self.nodes[*at].id;
            self.spec.members.iter().any(|member| member.node() == node)
        };
        let members: Vec<usize> = (0..self.count()).filter(is_member).collect();
        for at in members.iter().copied() {
            assert_eq!(live(at), live(members[0]), "node {at} has another queue");
            for (log, live, _) in live(at) {
                assert!(live.is_empty(), "log {log} keeps {live:?}");
            }
        }
    }
}

/// Runs a seed, and gives what it came to.
fn run(seed: u64, steps: u64, faults: bool, prepare: impl FnOnce(&mut World)) -> Ledger {
    let mut world = World::new(seed, 3, spec(3));
    world.misreferring = if faults { 5 } else { 0 };
    prepare(&mut world);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..steps {
            world.step(faults);
        }
        world.heal_and_drain();
        world.check();
    }));
    (0..world.count()).for_each(|at| world.count_local(at));
    let seen = &world.ledger;
    let deliveries = seen.delivered.values().sum::<u32>();
    if !faults && outcome.is_ok() {
        assert_eq!(
            seen.confirmed.len() as u64,
            seen.next,
            "each publish is confirmed"
        );
        assert_eq!(
            seen.delivered.len() as u64,
            seen.next,
            "each message is delivered"
        );
        assert_eq!(
            deliveries as u64,
            seen.next + u64::from(seen.requeued),
            "once"
        );
    }
    if outcome.is_err() {
        world.tell(seed);
    }
    world.ledger
}

/// How many seeds to run: more, if the environment says so.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let more = std::env::var("LEVERET_SEEDS").ok();
    0..more.and_then(|more| more.parse().ok()).unwrap_or(count)
}

#[test]
fn a_queue_on_three_nodes_without_faults() {
    for seed in seeds(20) {
        run(seed, 2_000, false, |_| {});
    }
}

#[test]
fn crashes_and_cut_ways_lose_nothing() {
    let all: Vec<Ledger> = (0..100)
        .map(|seed| run(seed, 3_000, true, |_| {}))
        .collect();
    let snapshots: u32 = all.iter().map(|ledger| ledger.snapshots).sum();
    assert!(snapshots > 20, "{snapshots} snapshots");
    let confirmed: usize = all.iter().map(|ledger| ledger.confirmed.len()).sum();
    assert!(confirmed > all.len() * 100, "{confirmed} confirms");
    let local: u64 = all.iter().map(|ledger| ledger.local.0).sum();
    assert!(local > 1_000, "only {local} deliveries came from followers");
    let lacking: u32 = all.iter().map(|ledger| ledger.lacking).sum();
    assert!(lacking > 50, "only {lacking} references named nothing");
}

/// Replaces a member now and then, also by another one on its own node, as for a lost disk.
#[test]
fn members_come_and_go_under_faults() {
    for seed in seeds(60) {
        let mut world = World::new(seed, 4, spec(3));
        world.misreferring = 5;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for step in 0..3_000_u32 {
                world.step(true);
                // One change at a time, as the catalogue does it.
                let leader = world.leader();
                let mut wanted = world.spec.members.clone();
                wanted.sort_unstable();
                let is_settled = leader.is_some_and(|leader| world.voters(leader) == wanted);
                if step % 100 == 99 && is_settled {
                    let (at, node) = (
                        world.random.below(3) as usize,
                        world.random.below(4) as u32 + 1,
                    );
                    let is_taken = |m: &ReplicaId| m.node() == NodeId(node);
                    let others = world
                        .spec
                        .members
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| *i != at);
                    if !others.map(|(_, m)| m).any(is_taken) {
                        world.update(|spec| spec.members[at] = ReplicaId::new(NodeId(node), step));
                    }
                }
            }
            world.heal_and_drain();
            world.rest(500);
            let mut wanted = world.spec.members.clone();
            wanted.sort_unstable();
            let leader = world.leader().expect("a leader");
            assert_eq!(world.voters(leader), wanted);
            world.check();
        }));
        if outcome.is_err() {
            world.tell(seed);
        }
    }
}

impl World {
    /// Two members that have a hundred messages, and a third one that the queue is to have from now
    /// on.
    fn about_to_grow() -> Self {
        let mut world = Self::new(1, 3, spec(2));
        world.rest(100);
        for _ in 0..100 {
            world.publish(0);
            world.rest(1);
        }
        world.rest(20);
        assert_eq!(world.ledger.confirmed.len(), 100);
        world.update(|spec| spec.members.push(ReplicaId::new(NodeId(3), 7)));
        world
    }

    /// The first member leaves; those that stay have all hundred messages.
    fn shrink_and_drain(&mut self) {
        self.update(|spec| {
            spec.members.remove(0);
        });
        self.rest(200);
        let left = self.spec.members.clone();
        assert_eq!((self.voters(0), self.voters(1)), (Vec::new(), left));
        self.crash(1);
        self.start(1);
        self.heal_and_drain();
        assert_eq!(self.ledger.delivered.len(), 100);
    }
}

#[test]
fn a_queue_grows_onto_a_node_and_shrinks_off_another() {
    let mut world = World::about_to_grow();
    world.rest(100);
    assert_eq!(world.voters(2), world.spec.members);
    assert!(world.ledger.snapshots > 0, "its state came as a whole");
    world.shrink_and_drain();
}

#[test]
fn a_member_whose_node_hears_late_that_it_is_one_becomes_it_though_nothing_else_happens() {
    let mut world = World::new(1, 2, spec(1));
    world.rest(5);
    world.spec.members.push(ReplicaId::new(NodeId(2), 1));
    for at in 0..2 {
        let spec = world.spec.clone();
        world.with(at, |shard, now| shard.update_queue(now, QUEUE, spec));
        world.rest(5);
    }
    world.rest(200);
    assert_eq!(world.voters(0), world.spec.members);
}

#[test]
fn publishes_on_their_way_count_where_they_would_be_refused() {
    let mut limited = spec(3);
    limited.settings.length_max = Some(5);
    limited.settings.overflow = leveret_queue::Overflow::RejectPublish;
    let mut world = World::new(1, 3, limited);
    world.rest(100);
    for _ in 0..20 {
        world.publish(1);
    }
    world.rest(20);
    assert_eq!(world.ledger.confirmed, (0..5).collect());
    world.heal_and_drain();
    world.publish(2);
    world.rest(20);
    assert!(world.ledger.confirmed.contains(&20));
}

#[test]
fn a_queue_with_one_member_needs_nobody_else() {
    let mut world = World::new(1, 3, spec(1));
    world.rest(5);
    world.publish(2);
    world.publish(0);
    world.rest(5);
    assert_eq!(world.ledger.confirmed.len(), 2);
    world.crash(0);
    world.publish(1);
    world.start(0);
    world.heal_and_drain();
    assert_eq!(world.ledger.delivered.len(), 3);
}

#[test]
fn what_a_leader_may_have_handed_out_is_flagged_by_the_next_one() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    for _ in 0..100 {
        world.publish(1);
    }
    world.rest(20);
    let first = world.leader().expect("a leader");
    world.consume(first, 5);
    world.rest(20);
    assert_eq!(world.ledger.delivered.len(), 5);
    // The acknowledgements are not committed when the leader dies, nor what follows from them.
    for _ in 0..5 {
        world.settle(first, Outcome::Accept);
    }
    assert!(world.ledger.delivered.len() > 5, "more was handed out");
    world.crash(first);
    let other = (first + 1) % 3;
    world.rest(200);
    world.consume(other, 100);
    world.rest(50);
    let flags = &world.nodes[other].running.as_ref().expect("it runs").flags;
    assert_eq!(flags.len(), 100, "all come");
    let again = flags.iter().filter(|flag| **flag).count();
    assert!((10..=80).contains(&again), "{again} of 100 are flagged");
}

#[test]
fn what_nobody_could_have_got_is_not_flagged_by_the_next_leader() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    for _ in 0..100 {
        world.publish(1);
    }
    world.rest(20);
    let first = world.leader().expect("a leader");
    world.crash(first);
    let other = (first + 1) % 3;
    world.rest(200);
    world.consume(other, 100);
    world.rest(50);
    let flags = &world.nodes[other].running.as_ref().expect("it runs").flags;
    assert_eq!(flags, &[false; 100]);
}

#[test]
fn large_messages_and_small_caches() {
    let mut local = 0;
    for seed in seeds(20) {
        let ledger = run(seed, 1_500, true, |world| world.body_bytes = 20_000);
        local += ledger.local.0;
    }
    assert!(local > 500, "only {local} deliveries came from followers");
}
