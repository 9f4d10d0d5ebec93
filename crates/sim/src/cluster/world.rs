//! Nodes, the connections between them, their disks, clocks and clients.

use super::Planted;
use super::client::{self, Client, Heard};
use super::ledger::{Body, ClientId, Ledger};
use super::node::{Node, catalogue_of};
use crate::Random;
use crate::disk::{Lies, SimDisk};
use crate::file_system::{Cut, FileSystem};
use bytes::Bytes;
use leveret_metadata::{Batch, Catalogue, CatalogueError, Outcome, Proposed};
use leveret_node::catalogue::follow;
use leveret_node::env::{ConnectionEvent, Env, PeerFrame};
use leveret_types::{NodeId, Now, QueueId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Rounds after which a world that does not come to rest is said to be in a loop.
const ROUNDS_MAX: usize = 20_000;
/// Milliseconds between two turns of the clock while all is well.
const TURN_MS: u64 = 25;
/// Milliseconds within which a cluster of which everything works must have answered everybody.
const CALM_MS: u64 = 20_000;
/// Messages that a publisher has unconfirmed at most.
pub(super) const UNCONFIRMED_MAX: usize = 40;

/// A machine: what outlives its process.
pub(super) struct Host {
    disk: SimDisk,
    pub(super) node: Option<Node<SimDisk>>,
    /// How its clock differs, and by how many of a thousand it runs faster.
    skew_ms: u64,
    drift: u64,
    /// Its disk does not write.
    pub(super) is_stalled: bool,
    /// Acknowledgements that its process may take with it.
    unsure: BTreeSet<Body>,
    /// Planted: its disk as it was.
    image: Option<FileSystem>,
}

/// What a client does.
pub(super) enum Part {
    Publisher {
        sent: u64,
        unconfirmed: BTreeMap<u64, Body>,
    },
    Consumer {
        held: BTreeMap<u64, Body>,
    },
    Asker {
        answer: Option<u32>,
    },
}

pub(super) struct Person {
    pub(super) client: Client,
    pub(super) queue: usize,
    pub(super) part: Part,
}

/// See the module's description.
pub(super) struct World {
    pub(super) clock_ms: u64,
    pub(super) hosts: BTreeMap<NodeId, Host>,
    agreed: Vec<Batch>,
    proposals: u64,
    /// Frames under way, by sender and receiver.
    wires: BTreeMap<(NodeId, NodeId), VecDeque<PeerFrame>>,
    /// Which node believes to be connected to which.
    sees: BTreeSet<(NodeId, NodeId)>,
    /// Directions in which nothing arrives.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    pub(super) people: BTreeMap<ClientId, Person>,
    next_client: ClientId,
    next_body: Body,
    pub(super) queues: Vec<String>,
    pub(super) ledger: Ledger,
    /// Who led which queue in which term.
    leaders: BTreeMap<(QueueId, u64), NodeId>,
    starts: u64,
    planted: Planted,
    /// All that was said, in one number.
    pub(super) trace: u64,
}

impl World {
    pub(super) fn new(
        nodes: u32,
        queues: usize,
        planted: Planted,
        random: &mut Random,
    ) -> Result<Self, String> {
        let mut world = Self {
            clock_ms: 0,
            hosts: BTreeMap::new(),
            agreed: Vec::new(),
            proposals: 0,
            wires: BTreeMap::new(),
            sees: BTreeSet::new(),
            cut: BTreeSet::new(),
            people: BTreeMap::new(),
            next_client: 1,
            next_body: 1,
            queues: (0..queues).map(|queue| format!("q{queue}")).collect(),
            ledger: Ledger::default(),
            leaders: BTreeMap::new(),
            starts: 0,
            planted,
            trace: 0,
        };
        for node in (1..=nodes).map(NodeId) {
            let disk = SimDisk::new();
            disk.set_lies(Lies {
                sync: planted == Planted::ConfirmsEarly,
                ..Lies::default()
            });
            let host = Host {
                disk,
                node: None,
                skew_ms: random.below(60_000),
                drift: random.below(5),
                is_stalled: false,
                unsure: BTreeSet::new(),
                image: None,
            };
            world.hosts.insert(node, host);
            world.start(node)?;
        }
        world.connect_all();
        for queue in 0..world.queues.len() {
            let asker = Part::Asker { answer: None };
            let asker = world.come(NodeId(1), queue, asker);
            let name = world.queues[queue].clone();
            world.say(asker, client::declare(&name, false));
            world.rest()?;
            world.leave(asker);
        }
        world.calm()?;
        Ok(world)
    }

    pub(super) fn ids(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.hosts[&node].node.is_some()
    }

    fn now(&self, node: NodeId) -> Now {
        let host = &self.hosts[&node];
        Now {
            monotonic_ms: 1 + self.clock_ms * (1_000 + host.drift) / 1_000,
            wall_ms: 1_700_000_000_000 + self.clock_ms + host.skew_ms,
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn catalogue(&self) -> Catalogue {
        let mut catalogue = catalogue_of(self.hosts.len().max(3) as u32);
        for batch in &self.agreed {
            catalogue.apply_batch(batch);
        }
        catalogue
    }

    /// Starts a node's process.
    pub(super) fn start(&mut self, node: NodeId) -> Result<(), String> {
        self.starts += 1;
        let now = self.now(node);
        let start = match self.planted {
            Planted::ForgetsOrigins => 1,
            _ => now.wall_ms + self.starts,
        };
        let disk = self.hosts[&node].disk.clone();
        let started = Node::start(node, start, &disk, self.catalogue(), now)?;
        if let Some(host) = self.hosts.get_mut(&node) {
            host.node = Some(started);
            host.is_stalled = false;
        }
        Ok(())
    }

    /// Ends a node's process: by a signal, or with the machine's power.
    pub(super) fn crash(&mut self, node: NodeId, random: &mut Random, with_power: bool) {
        let planted = self.planted;
        let Some(host) = self.hosts.get_mut(&node) else {
            return;
        };
        host.node = None;
        match with_power {
            true => host.disk.power_cut(&mut Cut::Chance(random)),
            false => host.disk.kill(),
        }
        match planted {
            Planted::ForgetsVotes => host.go_back(random),
            Planted::TruncatesOnRot => host.rot(),
            _ => {}
        }
        let unsure = std::mem::take(&mut host.unsure);
        let gone: Vec<ClientId> = self.people_at(node);
        for client in gone {
            self.people.remove(&client);
            self.ledger.gone(client, &unsure);
        }
        self.ledger.gone(0, &unsure);
        self.sees.retain(|(one, _)| *one != node);
    }

    /// The process dies at one of its next calls to the disk.
    pub(super) fn arm(&mut self, node: NodeId, calls: u64) {
        if let Some(host) = self.hosts.get(&node) {
            host.disk.crash_at(host.disk.operations() + calls);
        }
    }

    fn people_at(&self, node: NodeId) -> Vec<ClientId> {
        let is_there = |(_, person): &(&ClientId, &Person)| person.client.node == node;
        self.people
            .iter()
            .filter(is_there)
            .map(|(id, _)| *id)
            .collect()
    }

    // Connections between nodes.

    fn is_open(&self, one: NodeId, other: NodeId) -> bool {
        self.is_up(one)
            && self.is_up(other)
            && !self.cut.contains(&(one, other))
            && !self.cut.contains(&(other, one))
    }

    /// A node notices that its connection to another is gone.
    fn lose(&mut self, node: NodeId, other: NodeId) {
        self.wires.remove(&(node, other));
        if self.sees.remove(&(node, other)) {
            for client in self.people_at(other) {
                self.ledger.doubt(client);
            }
            // Whoever leads there may have returned it before it heard of the acknowledgement.
            self.ledger.gone(0, &self.hosts[&other].unsure);
            let now = self.now(node);
            if let Some(node) = &self.hosts[&node].node {
                node.each_shard(now, |shard| shard.peer_down(now, other));
            }
        }
    }

    fn connect(&mut self, one: NodeId, other: NodeId) {
        for (from, to) in [(one, other), (other, one)] {
            self.lose(from, to);
        }
        for (from, to) in [(one, other), (other, one)] {
            self.wires.insert((from, to), VecDeque::new());
            self.sees.insert((from, to));
            let now = self.now(from);
            if let Some(node) = &self.hosts[&from].node {
                node.each_shard(now, |shard| shard.peer_up(now, to));
            }
        }
    }

    /// A detector's turn: one node looks at another.
    pub(super) fn detect(&mut self, node: NodeId, other: NodeId) {
        if node == other || !self.is_up(node) {
            return;
        }
        let both = self.sees.contains(&(node, other)) && self.sees.contains(&(other, node));
        match self.is_open(node, other) {
            true if !both => self.connect(node, other),
            false => self.lose(node, other),
            true => {}
        }
    }

    pub(super) fn connect_all(&mut self) {
        for one in self.ids() {
            for other in self.ids() {
                self.detect(one, other);
            }
        }
    }

    /// A connection breaks: what is under way is lost.
    pub(super) fn blink(&mut self, one: NodeId, other: NodeId) {
        if one != other && self.is_open(one, other) {
            self.connect(one, other);
        }
    }

    /// The next frame of one direction arrives.
    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId) -> bool {
        if self.cut.contains(&(from, to)) {
            return false;
        }
        let frame = self
            .wires
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front);
        let Some(frame) = frame else {
            return false;
        };
        let is_heard = self.sees.contains(&(to, from));
        let now = self.now(to);
        if let (Some(node), true) = (&self.hosts[&to].node, is_heard) {
            node.frame(from, &frame, now);
        }
        true
    }

    pub(super) fn directions(&self) -> Vec<(NodeId, NodeId)> {
        let busy = self.wires.iter().filter(|(_, frames)| !frames.is_empty());
        busy.map(|(direction, _)| *direction).collect()
    }

    // What nodes do.

    /// A node does what it can without its disk's syncs and without others.
    pub(super) fn work(&mut self, id: NodeId) -> Result<bool, String> {
        let now = self.now(id);
        let Some(node) = self.hosts.get_mut(&id).and_then(|host| host.node.as_mut()) else {
            return Ok(false);
        };
        let mut busy = node.step(now);
        let frames: Vec<_> = node.env.frames.borrow_mut().drain(..).collect();
        for (to, frame) in frames {
            if to == id {
                return Err(format!("node {id} sends to itself"));
            }
            busy = true;
            let bytes = frame.pieces.concat();
            self.note(&bytes);
            if let Some(wire) = self.wires.get_mut(&(id, to)) {
                wire.push_back(frame);
            }
        }
        busy |= self.agree(id);
        busy |= self.write_out(id)?;
        self.check_leaders(id)?;
        Ok(busy)
    }

    /// A node's disk writes what has gathered. The process may die of it.
    pub(super) fn sync(&mut self, id: NodeId, random: &mut Random) -> bool {
        let now = self.now(id);
        let Some(host) = self.hosts.get_mut(&id).filter(|host| !host.is_stalled) else {
            return false;
        };
        let Some(node) = host.node.as_mut() else {
            return false;
        };
        match node.sync(now) {
            Some(busy) => busy,
            None => {
                let with_power = random.below(2) == 0;
                self.crash(id, random, with_power);
                true
            }
        }
    }

    pub(super) fn pass(&mut self, milliseconds: u64) {
        self.clock_ms += milliseconds;
        for id in self.ids() {
            let now = self.now(id);
            if let Some(node) = self.hosts.get_mut(&id).and_then(|host| host.node.as_mut()) {
                node.tick(now);
            }
        }
    }

    /// Lets everything happen that needs no time.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        let mut random = Random::new(1);
        for _ in 0..ROUNDS_MAX {
            let mut busy = false;
            for id in self.ids() {
                busy |= self.work(id)?;
            }
            for (from, to) in self.directions() {
                busy |= self.deliver(from, to);
            }
            if !busy {
                for id in self.ids() {
                    busy |= self.sync(id, &mut random);
                }
            }
            if !busy {
                return Ok(());
            }
        }
        Err("the cluster does not come to rest".into())
    }

    /// Everything works again, for long enough that all is answered.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.cut.clear();
        for id in self.ids() {
            if let Some(host) = self.hosts.get_mut(&id) {
                host.is_stalled = false;
                host.disk.crash_at(u64::MAX);
            }
            if !self.is_up(id) {
                self.start(id)?;
            }
        }
        self.connect_all();
        let end = self.clock_ms + CALM_MS;
        loop {
            self.rest()?;
            // Long enough for what is told lazily; a minute's quiet follows from it.
            let is_early = self.clock_ms + CALM_MS < end + 1_000;
            if !is_early && self.unanswered().is_none() {
                break;
            }
            if self.clock_ms > end {
                let why = self.unanswered().unwrap_or_default();
                return Err(format!("everything works, and for {CALM_MS} ms {why}"));
            }
            self.pass(TURN_MS);
        }
        self.ledger.calm();
        for host in self.hosts.values_mut() {
            host.unsure.clear();
        }
        Ok(())
    }

    /// What is still owed to somebody.
    fn unanswered(&self) -> Option<String> {
        for (id, person) in &self.people {
            if let Part::Publisher { unconfirmed, .. } = &person.part
                && let Some((tag, body)) = unconfirmed.first_key_value()
            {
                return Some(format!(
                    "client {id} at node {} has no answer to publish {tag}, message {body}",
                    person.client.node
                ));
            }
        }
        let led = (0..self.queues.len()).find(|queue| self.leader(*queue).is_none());
        led.map(|queue| {
            format!(
                "nobody leads {}{}",
                self.queues[queue],
                self.standing(queue)
            )
        })
    }

    /// How a queue's group stands on each node.
    fn standing(&self, queue: usize) -> String {
        let mut all = String::new();
        for (id, host) in &self.hosts {
            let Some(node) = &host.node else {
                continue;
            };
            let queue = node.queue(&self.queues[queue]);
            let status = queue.and_then(|queue| {
                let shard = node.env.shard(node.env.shard_of(queue));
                shard.replica_status(queue)
            });
            all += &match status {
                Some(status) => format!(
                    "\n  node {id}: {:?} of term {}, leader {:?}, commit {}, applied {}, durable {}, last {}, serving {}",
                    status.group.role,
                    status.group.term,
                    status.group.leader.map(|leader| leader.node().0),
                    status.group.commit,
                    status.group.applied,
                    status.group.durable,
                    status.group.last_index,
                    status.is_serving
                ),
                None => format!("\n  node {id}: no replica"),
            };
        }
        all
    }

    fn leader(&self, queue: usize) -> Option<NodeId> {
        let mut up = self.hosts.values().filter_map(|host| host.node.as_ref());
        let leader = up.find(|node| {
            let id = node.queue(&self.queues[queue]);
            id.is_some_and(|id| {
                let shard = node.env.shard(node.env.shard_of(id));
                shard
                    .replica_status(id)
                    .is_some_and(|status| status.is_serving)
            })
        });
        leader.map(|node| node.env.node)
    }

    /// At most one leader of a queue in a term.
    fn check_leaders(&mut self, id: NodeId) -> Result<(), String> {
        let Some(node) = &self.hosts[&id].node else {
            return Ok(());
        };
        for number in 0..super::node::SHARDS {
            let shard = node.env.shard(leveret_types::ShardId(number));
            for status in shard.replica_statuses() {
                let group = &status.group;
                if group.role != leveret_replication::Role::Leader {
                    continue;
                }
                let key = (status.queue, group.term);
                let first = *self.leaders.entry(key).or_insert(id);
                if first != id {
                    return Err(format!("nodes {first} and {id} lead {key:?}"));
                }
            }
        }
        Ok(())
    }

    /// Carries out what nodes want changed in the catalogue, on all of them. Its own group is not
    /// part of this world: it agrees at once, where there is a majority.
    fn agree(&mut self, id: NodeId) -> bool {
        let Some(node) = &self.hosts[&id].node else {
            return false;
        };
        let proposals = std::mem::take(&mut *node.env.proposals.borrow_mut());
        let busy = !proposals.is_empty();
        for (waiter, command) in proposals {
            self.proposals += 1;
            let up = self.ids().into_iter().filter(|id| self.is_up(*id));
            let rules = self.hosts[&id]
                .node
                .as_ref()
                .map(|node| node.env.catalogue.borrow().rules());
            let Some(rules) = rules else {
                continue;
            };
            let batch = Batch {
                rules,
                up: up.map(|node| node.0).collect(),
                commands: vec![Proposed {
                    origin: id.0,
                    start: 1,
                    id: self.proposals,
                    command,
                }],
            };
            self.agreed.push(batch.clone());
            let mut result: Option<Result<Outcome, CatalogueError>> = None;
            for of in self.ids() {
                let now = self.now(of);
                let Some(node) = &self.hosts[&of].node else {
                    continue;
                };
                let mut results = node.env.catalogue.borrow_mut().apply_batch(&batch);
                let Some(applied) = results.pop().flatten() else {
                    continue;
                };
                if let Ok(outcome) = &applied {
                    let catalogue = node.env.catalogue.borrow();
                    for change in &outcome.changes {
                        follow(&catalogue, change, now, &node.env);
                    }
                }
                if of == id {
                    result = Some(applied);
                }
            }
            if let (Some((connection, id_of)), Some(result)) = (waiter, result)
                && let Some(node) = &self.hosts[&id].node
            {
                node.env
                    .post(connection, ConnectionEvent::Executed { id: id_of, result });
            }
        }
        busy
    }

    // Clients.

    pub(super) fn come(&mut self, node: NodeId, queue: usize, part: Part) -> ClientId {
        let id = self.next_client;
        self.next_client += 1;
        let now = self.now(node);
        let Some(of) = self
            .hosts
            .get_mut(&node)
            .and_then(|host| host.node.as_mut())
        else {
            return id;
        };
        let connection = of.connect(now);
        let is_publisher = matches!(part, Part::Publisher { .. });
        let is_consumer = matches!(part, Part::Consumer { .. });
        let client = Client::new(node, connection);
        self.people.insert(
            id,
            Person {
                client,
                queue,
                part,
            },
        );
        self.say(id, client::opening());
        if is_publisher {
            self.say(id, client::select_confirms());
        }
        if is_consumer {
            let name = self.queues[queue].clone();
            self.say(id, client::consume(&name, 8));
        }
        id
    }

    /// A client goes away without a word.
    pub(super) fn leave(&mut self, id: ClientId) {
        let Some(person) = self.people.remove(&id) else {
            return;
        };
        self.ledger.gone(id, &BTreeSet::new());
        let now = self.now(person.client.node);
        if let Some(node) = self
            .hosts
            .get_mut(&person.client.node)
            .and_then(|h| h.node.as_mut())
        {
            node.drop_client(person.client.connection, now);
        }
    }

    pub(super) fn say(&mut self, id: ClientId, bytes: Vec<u8>) {
        let Some(person) = self.people.get(&id) else {
            return;
        };
        let (at, connection) = (person.client.node, person.client.connection);
        let now = self.now(at);
        if let Some(node) = self.hosts.get_mut(&at).and_then(|host| host.node.as_mut()) {
            node.receive(connection, Bytes::from(bytes), now);
        }
    }

    pub(super) fn publish(&mut self, id: ClientId, bytes: usize) {
        let body = self.next_body;
        let Some(person) = self.people.get_mut(&id) else {
            return;
        };
        let Part::Publisher { sent, unconfirmed } = &mut person.part else {
            return;
        };
        if unconfirmed.len() >= UNCONFIRMED_MAX {
            return;
        }
        self.next_body += 1;
        *sent += 1;
        unconfirmed.insert(*sent, body);
        let name = self.queues[person.queue].clone();
        self.ledger.published(body);
        self.say(id, client::publish(&name, body, bytes));
    }

    /// A consumer answers one of the messages that it holds.
    pub(super) fn answer(&mut self, id: ClientId, which: usize, is_acknowledged: bool) {
        let Some(person) = self.people.get_mut(&id) else {
            return;
        };
        let Part::Consumer { held } = &mut person.part else {
            return;
        };
        let Some((tag, body)) = held.iter().nth(which).map(|(tag, body)| (*tag, *body)) else {
            return;
        };
        held.remove(&tag);
        let node = person.client.node;
        match is_acknowledged {
            true => {
                self.ledger.acknowledged(body, id);
                if let Some(host) = self.hosts.get_mut(&node) {
                    host.unsure.insert(body);
                }
                self.say(id, client::acknowledge(tag));
            }
            false => {
                self.ledger.given_back(body, id);
                self.say(id, client::give_back(tag));
            }
        }
    }

    /// Sockets take what connections have for them.
    fn write_out(&mut self, at: NodeId) -> Result<bool, String> {
        let mut busy = false;
        for id in self.people_at(at) {
            let now = self.now(at);
            let Some(node) = self.hosts.get_mut(&at).and_then(|host| host.node.as_mut()) else {
                continue;
            };
            let Some(person) = self.people.get_mut(&id) else {
                continue;
            };
            let Some(connection) = node.connections.get_mut(&person.client.connection) else {
                continue;
            };
            connection.flush();
            let written = connection.output().to_vec();
            if written.is_empty() {
                continue;
            }
            busy = true;
            connection.output().advance(written.len());
            connection.written(now, &node.env);
            let heard = person.client.hear(&written)?;
            self.note(&written);
            for one in heard {
                self.hear(id, one)?;
            }
        }
        Ok(busy)
    }

    fn hear(&mut self, id: ClientId, heard: Heard) -> Result<(), String> {
        let Some(person) = self.people.get_mut(&id) else {
            return Ok(());
        };
        match (&mut person.part, heard) {
            (
                Part::Publisher { unconfirmed, .. },
                Heard::Confirmed {
                    tag,
                    multiple,
                    is_taken,
                },
            ) => {
                let first = if multiple { 0 } else { tag };
                let tags: Vec<u64> = unconfirmed
                    .range(first..=tag)
                    .map(|(tag, _)| *tag)
                    .collect();
                let bodies: Vec<Body> = tags
                    .iter()
                    .filter_map(|tag| unconfirmed.remove(tag))
                    .collect();
                if is_taken {
                    bodies
                        .into_iter()
                        .for_each(|body| self.ledger.confirmed(body));
                }
            }
            (Part::Consumer { held }, Heard::Delivered { tag, body }) => {
                held.insert(tag, body);
                self.ledger.delivered(body, id)?;
            }
            (Part::Asker { answer }, Heard::Declared(count)) => *answer = Some(count),
            (_, Heard::Closed(_) | Heard::Cancelled) => self.leave(id),
            _ => {}
        }
        Ok(())
    }

    /// All that is left is consumed; what was confirmed must have been there.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        for id in self.people.keys().copied().collect::<Vec<_>>() {
            self.leave(id);
        }
        self.calm()?;
        for queue in 0..self.queues.len() {
            let node = NodeId(1 + (queue % self.hosts.len()) as u32);
            let held = BTreeMap::new();
            self.come(node, queue, Part::Consumer { held });
        }
        let end = self.clock_ms + CALM_MS;
        while self.clock_ms < end {
            self.rest()?;
            if !self.take_all() {
                self.pass(TURN_MS);
            }
        }
        self.calm()?;
        let owed = self.ledger.owed();
        match owed.first() {
            Some(first) => Err(format!(
                "{} messages were confirmed and are lost, the first is {first}",
                owed.len()
            )),
            None => self.check_empty(),
        }
    }

    /// Consumers acknowledge all that they hold; whether that was something.
    fn take_all(&mut self) -> bool {
        let mut has_taken = false;
        for id in self.people.keys().copied().collect::<Vec<_>>() {
            while let Some(Part::Consumer { held }) = self.people.get(&id).map(|one| &one.part)
                && !held.is_empty()
            {
                self.answer(id, 0, true);
                has_taken = true;
            }
        }
        has_taken
    }

    /// All queues are empty, seen from every node.
    fn check_empty(&mut self) -> Result<(), String> {
        for queue in 0..self.queues.len() {
            for node in self.ids() {
                let asker = self.come(node, queue, Part::Asker { answer: None });
                let name = self.queues[queue].clone();
                self.say(asker, client::declare(&name, true));
                self.rest()?;
                self.pass(TURN_MS);
                self.rest()?;
                let answer = match self.people.get(&asker).map(|person| &person.part) {
                    Some(Part::Asker { answer }) => *answer,
                    _ => None,
                };
                if answer != Some(0) {
                    return Err(format!(
                        "node {node} says {answer:?} of {name}, which is empty"
                    ));
                }
                self.leave(asker);
            }
        }
        Ok(())
    }

    /// Planted: remembers a disk, to go back to it.
    pub(super) fn remember(&mut self, node: NodeId) {
        if let (Planted::ForgetsVotes, Some(host)) = (self.planted, self.hosts.get_mut(&node)) {
            host.image = Some(host.disk.files());
        }
    }
}

impl Host {
    /// Planted: what was written since is forgotten, terms and votes among it.
    fn go_back(&mut self, random: &mut Random) {
        if let (Some(image), true) = (self.image.take(), random.below(2) == 0) {
            self.disk = SimDisk::with(image);
        }
    }

    /// Planted: the last of what was written to the log has rotted, and is taken for never written.
    fn rot(&mut self) {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
        for path in paths {
            self.disk.tamper(&path, |bytes| {
                let end = bytes
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                let start = end.saturating_sub(4_096).max(4_096.min(end));
                bytes[start..end].fill(0);
            });
        }
    }
}
