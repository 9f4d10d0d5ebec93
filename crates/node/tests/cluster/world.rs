//! Three nodes, the network between them, and their clients.

use crate::client::{self, Client, Speaks};
use crate::line_session::LineSession;
use bytes::Bytes;
use leveret_cluster::Env;
use leveret_cluster::PeerAddress;
use leveret_cluster::catalogue::follow;
use leveret_metadata::{Batch, Catalogue, CatalogueError, Command, Config, Outcome, Proposed};
use leveret_node::Alarms;
use leveret_node::env::{ClusterEvent, PeerFrame};
use leveret_queue::Counters;
use leveret_sim::cluster::node::{Node, catalogue_of};
use leveret_storage::MemoryDisk;
use leveret_types::{FieldTable, FieldValue, NodeId, Now, QueueId, QueueKind, ReplicaId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Rounds after which a world that does not come to rest is said to be in a loop.
const ROUNDS_MAX: usize = 100_000;
const HEARTBEAT_MS: u64 = 100;

/// See the module's description.
pub struct World {
    pub now: Now,
    pub nodes: BTreeMap<NodeId, Node<MemoryDisk>>,
    disks: BTreeMap<NodeId, MemoryDisk>,
    /// What the cluster has agreed on.
    agreed: Vec<Batch>,
    /// Frames under way, by sender and receiver.
    wires: BTreeMap<(NodeId, NodeId), VecDeque<PeerFrame>>,
    /// Pairs of nodes that do not reach each other.
    cut: BTreeSet<(NodeId, NodeId)>,
    pub clients: BTreeMap<String, Client>,
    /// Nodes of which nothing arrives, and that nobody takes for down.
    pub mute: BTreeSet<NodeId>,
    starts: u64,
    proposals: u64,
    /// Whether nodes write to their disks.
    pub syncing: BTreeSet<NodeId>,
    config: Config,
    /// Nodes that nothing arrives at, and that nobody takes for down.
    pub ignoring_input: BTreeSet<NodeId>,
    /// Clients whose sockets take nothing.
    pub unread: BTreeSet<String>,
    /// Nodes whose processes are stopped, and those of which the thread that looks after the others
    /// has not run since.
    stopped: BTreeSet<NodeId>,
    drowsy: BTreeSet<NodeId>,
    /// Nodes that hear later of what the cluster agrees on, with what they have not heard yet.
    pub behind: BTreeMap<NodeId, Vec<Batch>>,
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    (a.min(b), a.max(b))
}

/// A node learns what the cluster has agreed on.
fn apply(node: &Node<MemoryDisk>, batch: &Batch, now: Now) -> Result<Outcome, CatalogueError> {
    let mut results = node.env.catalogue.borrow_mut().apply_batch(batch);
    let applied = results.pop().flatten().expect("it is new");
    if let Ok(outcome) = &applied {
        let catalogue = node.env.catalogue.borrow();
        for change in &outcome.changes {
            follow(&catalogue, change, now, &node.env);
        }
    }
    applied
}

impl World {
    pub fn new(nodes: u32) -> Self {
        Self::configured(nodes, Config::default())
    }

    /// Nodes that have all this configuration.
    pub fn configured(nodes: u32, config: Config) -> Self {
        let mut world = Self {
            config,
            now: Now::both(1_700_000_000_000),
            nodes: BTreeMap::new(),
            disks: BTreeMap::new(),
            agreed: Vec::new(),
            wires: BTreeMap::new(),
            cut: BTreeSet::new(),
            clients: BTreeMap::new(),
            mute: BTreeSet::new(),
            starts: 1,
            proposals: 0,
            syncing: BTreeSet::new(),
            ignoring_input: BTreeSet::new(),
            unread: BTreeSet::new(),
            stopped: BTreeSet::new(),
            drowsy: BTreeSet::new(),
            behind: BTreeMap::new(),
        };
        for node in (1..=nodes).map(NodeId) {
            world.disks.insert(node, MemoryDisk::new());
        }
        for node in (1..=nodes).map(NodeId) {
            world.start(node);
        }
        world
    }

    /// The catalogue that the cluster has agreed on.
    pub fn catalogue(&self) -> Catalogue {
        let mut catalogue = catalogue_of(self.disks.len() as u32, self.config.clone());
        for batch in &self.agreed {
            catalogue.apply_batch(batch);
        }
        catalogue
    }

    /// Starts a node; others that are up and in reach learn of it.
    pub fn start(&mut self, node: NodeId) {
        self.starts += 1;
        let disk = &self.disks[&node];
        let start = self.now.wall_ms + self.starts;
        let started = Node::start(node, start, disk, self.catalogue(), self.now);
        let started = started.expect("the store opens");
        self.nodes.insert(node, started);
        self.syncing.insert(node);
        let others: Vec<NodeId> = self.nodes.keys().copied().filter(|n| *n != node).collect();
        for other in others {
            if !self.cut.contains(&pair(node, other)) {
                self.join(node, other);
            }
        }
    }

    fn join(&mut self, a: NodeId, b: NodeId) {
        for (one, other) in [(a, b), (b, a)] {
            self.wires.insert((one, other), VecDeque::new());
            let now = self.now;
            if let Some(node) = self.nodes.get(&one) {
                node.env.peer_of_streams(other, true);
                node.each_shard(now, |shard| shard.peer_up(now, other));
            }
        }
    }

    fn part(&mut self, a: NodeId, b: NodeId) {
        for (one, other) in [(a, b), (b, a)] {
            self.wires.remove(&(one, other));
            let now = self.now;
            if let Some(node) = self.nodes.get(&one) {
                node.env.peer_of_streams(other, false);
                node.each_shard(now, |shard| shard.peer_down(now, other));
            }
        }
    }

    /// Ends a node's process at once: what was not written to its disk is lost.
    pub fn kill(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.clients.retain(|_, client| client.node != node);
        let others: Vec<NodeId> = self.nodes.keys().copied().collect();
        for other in others {
            self.part(node, other);
        }
    }

    /// What a node's disk has now.
    pub fn copy_of_disk(&self, node: NodeId) -> MemoryDisk {
        self.disks[&node].copy()
    }

    /// Puts a copy of its disk back to a node that is not up.
    pub fn put_back(&mut self, node: NodeId, copy: MemoryDisk) {
        assert!(!self.nodes.contains_key(&node), "it runs");
        self.disks.insert(node, copy);
    }

    /// A node learns that its disk is an older copy of itself.
    pub fn find_outdated(&mut self, node: NodeId) {
        let now = self.now;
        self.nodes[&node].each_shard(now, |shard| shard.set_outdated(now));
        self.rest();
    }

    /// Members that do not do what they are there for, as far as a node knows: those here that take
    /// no part, and those elsewhere that do not follow.
    pub fn unfit(&self, node: NodeId) -> (usize, usize) {
        let unfit = std::cell::Cell::new((0, 0));
        self.nodes[&node].each_shard(self.now, |shard| {
            let (quarantined, stuck) = unfit.get();
            let more = shard.unfit_replicas();
            unfit.set((quarantined + more.quarantined, stuck + more.stuck));
        });
        unfit.get()
    }

    /// What the classic queues and the quorum queues count at all nodes, which each shard sums up
    /// and holds on to; the same by asking each queue.
    pub fn counters(&self) -> [Counters; 2] {
        let sums = std::cell::Cell::new([Counters::default(); 2]);
        let each = std::cell::Cell::new([Counters::default(); 2]);
        let catalogue = self.catalogue();
        for node in self.nodes.values() {
            node.each_shard(self.now, |shard| {
                let [mut classic, mut quorum] = sums.get();
                let here = shard.counters();
                classic += here.classic;
                quorum += here.quorum;
                sums.set([classic, quorum]);
                let mut by_type = each.get();
                for stats in shard.all_local_stats(self.now) {
                    let record = catalogue.queue(stats.id).expect("it is known");
                    by_type[usize::from(record.kind() == QueueKind::Quorum)] += stats.counters;
                }
                each.set(by_type);
            });
        }
        assert_eq!(sums.get(), each.get(), "no sum is older than its queues");
        sums.get()
    }

    /// A node has these alarms from now on, and the others that are up hear of it.
    pub fn set_alarms(&mut self, of: NodeId, alarms: Alarms) {
        let now = self.now;
        let all: Vec<NodeId> = self.nodes.keys().copied().collect();
        for (id, node) in &mut self.nodes {
            let peers = node.env.peers();
            let address = |node| PeerAddress {
                node,
                ..PeerAddress::default()
            };
            if peers.all().is_empty() {
                peers.replace(
                    all.iter()
                        .copied()
                        .filter(|peer| peer != id)
                        .map(address)
                        .collect(),
                );
                all.iter().for_each(|peer| peers.set_up(*peer, true));
            }
            match *id == of {
                true => node.set_alarms(alarms, now),
                false => node.hear_of_alarms(of, alarms, now),
            }
        }
        self.rest();
    }

    /// A node whose disk is full lets others lead what it leads.
    pub fn hand_over_leaders(&mut self, node: NodeId) {
        leveret_cluster::hand_over_leaders(self.now, &self.nodes[&node].env);
        self.pass(1_000);
    }

    /// Changes a bit of what a node's disk has of this text, wherever it has it.
    pub fn corruption(&mut self, node: NodeId, text: &[u8]) {
        let disk = &self.disks[&node];
        let mut hit = 0;
        for path in disk.paths() {
            disk.tamper(&path, |bytes| {
                let places = bytes.windows(text.len()).enumerate();
                let places = places.filter(|(_, window)| *window == text);
                for at in places.map(|(at, _)| at).collect::<Vec<_>>() {
                    bytes[at] ^= 4;
                    hit += 1;
                }
            });
        }
        assert!(hit > 0, "node {node} has it nowhere");
    }

    /// Cuts a node off from the others.
    pub fn isolate(&mut self, node: NodeId) {
        let others: Vec<NodeId> = self.disks.keys().copied().filter(|n| *n != node).collect();
        for other in others {
            self.cut.insert(pair(node, other));
            if self.nodes.contains_key(&node) && self.nodes.contains_key(&other) {
                self.part(node, other);
            }
        }
    }

    /// All nodes that are up reach each other again.
    pub fn heal(&mut self) {
        for (a, b) in std::mem::take(&mut self.cut) {
            if self.nodes.contains_key(&a) && self.nodes.contains_key(&b) {
                self.join(a, b);
            }
        }
    }

    /// Breaks the connection between two nodes: what is under way is lost.
    pub fn blink(&mut self, a: NodeId, b: NodeId) {
        self.part(a, b);
        self.join(a, b);
    }

    /// One node loses another from sight, which does not notice.
    pub fn lose(&mut self, node: NodeId, other: NodeId) {
        let now = self.now;
        self.nodes[&node].each_shard(now, |shard| shard.peer_down(now, other));
    }

    /// The end of that.
    pub fn find(&mut self, node: NodeId, other: NodeId) {
        let now = self.now;
        self.nodes[&node].each_shard(now, |shard| shard.peer_up(now, other));
    }

    /// Stops a node's process (SIGSTOP): it does nothing, and keeps what it knows.
    pub fn stop(&mut self, node: NodeId) {
        self.stopped.insert(node);
    }

    /// The others find a node that is stopped silent, and give it up.
    pub fn give_up(&mut self, node: NodeId) {
        for other in self.others(node) {
            self.lose(other, node);
            self.wires.remove(&(node, other));
            self.wires.remove(&(other, node));
        }
    }

    /// A node that was stopped goes on, all its threads but the one that looks after the others.
    pub fn wake(&mut self, node: NodeId) {
        self.stopped.remove(&node);
        self.drowse(node);
        self.nodes.get_mut(&node).expect("it is up").tick(self.now);
        self.rest();
    }

    /// The thread that looks after the others does nothing.
    pub fn drowse(&mut self, node: NodeId) {
        self.drowsy.insert(node);
    }

    /// The thread that looks after the others goes on too: all are down, and connected again.
    pub fn look(&mut self, node: NodeId) {
        for other in self.others(node) {
            self.part(node, other);
        }
        self.drowsy.remove(&node);
        self.check_peers();
        for other in self.others(node) {
            if !self.drowsy.contains(&other) && !self.stopped.contains(&other) {
                self.join(node, other);
            }
        }
        self.rest();
    }

    fn others(&self, node: NodeId) -> Vec<NodeId> {
        let all = self.nodes.keys().copied();
        all.filter(|other| *other != node).collect()
    }

    fn check_peers(&self) {
        let is_looking = |id: &NodeId| !self.stopped.contains(id) && !self.drowsy.contains(id);
        for (_, node) in self.nodes.iter().filter(|(id, _)| is_looking(id)) {
            node.env.peers_checked_ms.set(self.now.monotonic_ms);
        }
    }

    pub fn connect(&mut self, name: &str, node: NodeId) {
        let connection = self
            .nodes
            .get_mut(&node)
            .expect("the node is up")
            .connect(self.now);
        self.clients
            .insert(name.to_owned(), Client::new(node, connection));
        self.send(name, client::opening());
    }

    /// A client of the line protocol connects and says who it is.
    pub fn connect_line(&mut self, name: &str, node: NodeId) {
        let up = self.nodes.get_mut(&node).expect("the node is up");
        let connection = up.connect_with(LineSession::new(), self.now);
        let client = Client::of_lines(node, connection);
        self.clients.insert(name.to_owned(), client);
        self.send(name, b"hello guest guest /\n".to_vec());
    }

    /// Says several things in the words of the client's protocol, in one read.
    pub fn say_all(&mut self, name: &str, words: &[&str]) {
        let speaks = self.clients[name].speaks;
        let said = words.split(|word| *word == "&");
        let said = match speaks {
            Speaks::Amqp => said.flat_map(client::say).collect(),
            Speaks::Lines => said
                .flat_map(|words| (words.join(" ") + "\n").into_bytes())
                .collect(),
        };
        self.send(name, said);
    }

    pub fn drop_client(&mut self, name: &str) {
        if let Some(client) = self.clients.remove(name)
            && let Some(node) = self.nodes.get_mut(&client.node)
        {
            node.drop_client(client.connection, self.now);
        }
    }

    /// Says something in words: [`client::say`].
    pub fn say(&mut self, name: &str, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.send(name, client::say(&words));
        self.rest();
    }

    pub fn send(&mut self, name: &str, bytes: Vec<u8>) {
        let client = &self.clients[name];
        let node = self.nodes.get_mut(&client.node).expect("the node is up");
        node.receive(client.connection, Bytes::from(bytes), self.now);
    }

    /// Lets everything happen that needs no time.
    pub fn rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.round() {
                return;
            }
        }
        panic!("the cluster does not come to rest");
    }

    /// Lets time pass.
    pub fn pass(&mut self, milliseconds: u64) {
        let end = self.now.monotonic_ms + milliseconds;
        self.rest();
        while self.now.monotonic_ms < end {
            let awake = |id: &NodeId| !self.stopped.contains(id);
            let running = self.nodes.iter().filter(|(id, _)| awake(id));
            let next = running.filter_map(|(_, node)| node.deadline()).min();
            let at = next.unwrap_or(u64::MAX).max(self.now.monotonic_ms + 1);
            let at = at.min(end).min(self.now.monotonic_ms + HEARTBEAT_MS);
            let step = at - self.now.monotonic_ms;
            self.now.monotonic_ms += step;
            self.now.wall_ms += step;
            self.check_peers();
            for (id, node) in &mut self.nodes {
                if !self.stopped.contains(id) {
                    node.tick(self.now);
                }
            }
            self.rest();
        }
    }

    fn round(&mut self) -> bool {
        let mut busy = false;
        let awake = |id: &NodeId| !self.stopped.contains(id);
        let nodes: Vec<NodeId> = self.nodes.keys().copied().filter(awake).collect();
        for id in nodes {
            let node = self.nodes.get_mut(&id).expect("it is up");
            busy |= node.step(self.now);
            let frames: Vec<_> = node.env.frames.borrow_mut().drain(..).collect();
            for (to, frame) in frames {
                assert_ne!(to, id, "a node sends to itself");
                if let Some(wire) = self.wires.get_mut(&(id, to)) {
                    busy = true;
                    wire.push_back(frame);
                }
            }
            busy |= self.agree(id);
            busy |= self.write_out(id);
        }
        let wires: Vec<_> = self.wires.keys().copied().collect();
        let is_lost = |from: &NodeId, to: &NodeId| {
            self.mute.contains(from)
                || self.ignoring_input.contains(to)
                || self.stopped.contains(to)
        };
        let wires: Vec<_> = wires.into_iter().filter(|(a, b)| !is_lost(a, b)).collect();
        for (from, to) in wires {
            let frame = self
                .wires
                .get_mut(&(from, to))
                .and_then(VecDeque::pop_front);
            if let (Some(frame), Some(node)) = (frame, self.nodes.get_mut(&to)) {
                busy = true;
                node.frame(from, &frame, self.now);
            }
        }
        if !busy {
            for id in self.syncing.clone() {
                if let Some(node) = self.nodes.get_mut(&id)
                    && !self.stopped.contains(&id)
                {
                    busy |= node.sync(self.now).expect("memory is written");
                }
            }
        }
        busy
    }

    /// Sockets take what connections have for them.
    fn write_out(&mut self, id: NodeId) -> bool {
        let node = self.nodes.get_mut(&id).expect("it is up");
        let mut busy = false;
        let unread = &self.unread;
        let clients = self
            .clients
            .iter_mut()
            .filter(|(name, client)| client.node == id && !unread.contains(*name));
        for (_, client) in clients {
            let written = node.take_output(client.connection, self.now);
            if written.is_empty() {
                continue;
            }
            busy = true;
            client.hear(&written);
        }
        busy
    }

    /// Carries out what nodes want changed in the catalogue, on all nodes. A node without a
    /// majority in reach waits.
    fn agree(&mut self, id: NodeId) -> bool {
        let in_reach = self
            .nodes
            .keys()
            .filter(|other| **other == id || !self.cut.contains(&pair(id, **other)));
        if in_reach.count() * 2 <= self.disks.len() {
            return false;
        }
        let proposals = std::mem::take(&mut *self.nodes[&id].env.proposals.borrow_mut());
        let busy = !proposals.is_empty();
        for (waiter, command) in proposals {
            self.proposals += 1;
            let batch = Batch {
                rules: self.nodes[&id].env.catalogue.borrow().rules(),
                up: self.nodes.keys().map(|node| node.0).collect(),
                commands: vec![Proposed {
                    origin: id.0,
                    start: 1,
                    id: self.proposals,
                    command,
                }],
            };
            self.agreed.push(batch.clone());
            let mut result: Option<Result<Outcome, CatalogueError>> = None;
            for (of, node) in &self.nodes {
                if let Some(missed) = self.behind.get_mut(of) {
                    missed.push(batch.clone());
                    continue;
                }
                let applied = apply(node, &batch, self.now);
                if *of == id {
                    result = Some(applied);
                }
            }
            if let (Some((connection, id_of)), Some(result)) = (waiter, result) {
                let executed = ClusterEvent::Executed { id: id_of, result };
                self.nodes[&id].env.tell(connection, executed);
            }
        }
        busy
    }

    /// The end of a node's being behind.
    pub fn catch_up(&mut self, node: NodeId) {
        for batch in self.behind.remove(&node).unwrap_or_default() {
            let applied = apply(&self.nodes[&node], &batch, self.now);
            applied.expect("as at the other nodes");
        }
        self.rest();
    }

    /// Lets the cluster carry out a change.
    pub fn change(&mut self, command: Command) {
        let first = self.nodes.values().next().expect("a node is up");
        first.env.proposals.borrow_mut().push((None, command));
        self.rest();
    }

    /// Sets the policy for queues whose names begin with "ha", or takes it away.
    pub fn mirror(&mut self, mode: Option<&str>, count: Option<i64>) {
        let (vhost, name, operator) = ("/".to_owned(), "ha".to_owned(), false);
        let Some(mode) = mode else {
            return self.change(Command::PolicyClear {
                vhost,
                name,
                operator,
            });
        };
        let mut definition = FieldTable::new();
        definition.set("ha-mode", FieldValue::text(mode));
        if let Some(count) = count {
            definition.set("ha-params", FieldValue::I64(count));
        }
        self.change(Command::PolicySet {
            vhost,
            name,
            operator,
            pattern: "^ha".to_owned(),
            apply_to: "queues".to_owned(),
            priority: 0,
            definition,
        });
    }

    /// Gives queues the members that are due to them, and the groups time to follow.
    pub fn reconcile(&mut self) {
        for _ in 0..10 {
            let due: Vec<Command> = {
                let first = self.nodes.values().next().expect("a node is up");
                let catalogue = first.env.catalogue.borrow();
                let is_up = |node| self.nodes.contains_key(&node);
                let queues = catalogue.queues(None);
                let due = queues.filter_map(|record| {
                    let members = catalogue.members_due(record, is_up)?;
                    Some(Command::QueueMembers {
                        id: record.id().0,
                        members: members.iter().map(|member| member.0).collect(),
                        size: None,
                    })
                });
                due.collect()
            };
            if due.is_empty() {
                return;
            }
            due.into_iter().for_each(|command| self.change(command));
            self.pass(2_000);
        }
        panic!("there is always something due");
    }

    /// The nodes of a queue's members that vote, as its leader has them.
    pub fn voters(&self, queue: &str) -> Vec<u32> {
        let leader = self.leader(queue).expect("the queue is led");
        let node = &self.nodes[&leader];
        let id = node.queue(queue).expect("it is there");
        let shard = node.env.shard(node.env.shard_of(id));
        let status = shard.replica_status(id).expect("it is here");
        let voters = status.group.membership.voters.iter();
        let mut voters: Vec<u32> = voters.map(|voter| voter.node().0).collect();
        voters.sort_unstable();
        voters
    }

    /// The members that the catalogue says that a queue has, and a number for one more.
    pub fn members(&self, queue: &str) -> (Vec<ReplicaId>, u32) {
        let catalogue = self.catalogue();
        let record = catalogue.queue_by_name("/", queue).expect("it is there");
        (record.members().to_vec(), catalogue.next_incarnation())
    }

    /// A node that has no member of a queue, and the first that has one and does not lead it.
    pub fn outsider_and_follower(&self, queue: &str) -> (NodeId, NodeId) {
        let leader = self.leader(queue).expect("it is led");
        let members: Vec<NodeId> = self.members(queue).0.iter().map(|m| m.node()).collect();
        let outsider = (1..).map(NodeId).find(|node| !members.contains(node));
        let follower = members.into_iter().find(|node| *node != leader);
        (
            outsider.expect("there are more"),
            follower.expect("it has several"),
        )
    }

    /// Makes a queue that is on one node alone a group of that node.
    pub fn found_group(&mut self, queue: &str, node: NodeId) {
        self.set_members(queue, &[ReplicaId::new(node, 0)]);
    }

    /// Takes a node out of a queue's members.
    pub fn shrink(&mut self, queue: &str, out: NodeId) {
        let (mut members, _) = self.members(queue);
        members.retain(|member| member.node() != out);
        self.set_members(queue, &members);
    }

    /// Adds a node to a queue's members.
    pub fn grow(&mut self, queue: &str, node: NodeId) {
        let (mut members, incarnation) = self.members(queue);
        members.push(ReplicaId::new(node, incarnation));
        self.set_members(queue, &members);
    }

    fn set_members(&mut self, queue: &str, members: &[ReplicaId]) {
        let id = self.id(queue).0;
        let members = members.iter().map(|member| member.0).collect();
        let size = None;
        self.change(Command::QueueMembers { id, members, size });
        self.pass(3_000);
    }

    pub fn id(&self, queue: &str) -> QueueId {
        let node = self.nodes.values().next().expect("a node is up");
        node.queue(queue).expect("it is there")
    }

    /// Whether a member of a queue takes part on this node.
    pub fn has_replica(&self, queue: &str, node: NodeId) -> bool {
        let (id, node) = (self.id(queue), &self.nodes[&node]);
        let shard = node.env.shard(node.env.shard_of(id));
        shard.replica_status(id).is_some()
    }

    /// Hands the leadership of a queue to a node.
    pub fn transfer(&mut self, queue: &str, to: NodeId) {
        let (id, now) = (self.id(queue), self.now);
        let leader = self.leader(queue).expect("the queue is led");
        if leader == to {
            return;
        }
        self.nodes[&leader].each_shard(now, |shard| {
            if let Some(handed) = shard.transfer_leader(now, id, to) {
                handed.expect("it can lead");
            }
        });
        self.pass(1_000);
    }

    /// The node that leads a queue.
    pub fn leader(&self, queue: &str) -> Option<NodeId> {
        let mut leaders = self.nodes.iter().filter(|(_, node)| {
            node.queue(queue).is_some_and(|id| {
                let shard = node.env.shard(node.env.shard_of(id));
                shard.replica_leader(id) == Some(node.env.node)
            })
        });
        leaders.next().map(|(id, _)| *id)
    }

    /// What clients have heard since that was last asked.
    pub fn heard(&mut self) -> String {
        let heard = self.clients.iter_mut().filter(|(_, c)| !c.heard.is_empty());
        let heard: Vec<String> = heard
            .map(|(name, client)| {
                format!(
                    "{name}: {}",
                    client.heard.drain(..).collect::<Vec<_>>().join(", ")
                )
            })
            .collect();
        heard.join("; ")
    }
}
