//! Nodes, their disks and clocks, and what all of them do.

use super::client::{STREAM, VIEW};
use super::ledger::{Body, ClientId, Ledger};
use super::node::{Entrance, Node};
use super::people::Person;
use super::watch::Watch;
use super::{Plan, Planted};
use crate::Random;
use crate::disk::{Lies, SimDisk};
use crate::file_system::{Cut, FileSystem};
use leveret_cluster::Env;
use leveret_cluster::{Identity, PeerAddress, Waiter};
use leveret_metadata::{Catalogue, CatalogueError, Command, Outcome};
use leveret_node::env::PeerFrame;
use leveret_types::{NodeId, Now, QueueId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, sync_channel};

/// Rounds after which a world that does not come to rest is said to be in a loop.
const ROUNDS_MAX: usize = 20_000;
/// Milliseconds between two turns of the clock while all is well.
pub(super) const TURN_MS: u64 = 25;
/// Bytes of a file of the write-ahead log: a life fills some.
const WAL_FILE_BYTES: u64 = 256 * 1024;
/// The cluster.
const CLUSTER: [u8; 16] = *b"simulated-nodes!";

/// A machine: what outlives its process.
pub(super) struct Host {
    pub(super) disk: SimDisk,
    pub(super) node: Option<Node<SimDisk>>,
    uuid: [u8; 16],
    /// Whom it was told of when it was let in.
    members: Vec<PeerAddress>,
    last_start: u64,
    /// How its clock differs, and by how many of a thousand it runs faster.
    pub(super) skew_ms: u64,
    drift: u64,
    /// Its disk does not write.
    pub(super) is_stalled: bool,
    /// Its disk has lost or changed what was durable, or the machine is gone: until another one has
    /// taken its place, nothing of the kind may happen to the others.
    pub(super) is_corrupt: bool,
    /// Reads of it went wrong, or may: what its replicas could not read they have given up.
    pub(super) has_bad_reads: bool,
    /// It does not start on what its disk has.
    pub(super) is_hopeless: bool,
    /// It is switched off, and nobody starts it while it belongs to the cluster.
    pub(super) is_gone: bool,
    /// The others have forgotten it.
    pub(super) is_forgotten: bool,
    /// Acknowledgements that its process may take with it.
    pub(super) unsure: BTreeSet<Body>,
    /// Planted: its disk as it was.
    pub(super) image: Option<FileSystem>,
}

/// A queue of the world.
pub(super) struct QueueOf {
    pub(super) name: String,
    /// `quorum`, `classic`, or [`VIEW`].
    pub(super) kind: &'static str,
    /// Whether it is deleted and declared anew now and then.
    pub(super) comes_and_goes: bool,
}

impl Host {
    /// The identity of its data folder.
    pub(super) const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }
}

impl QueueOf {
    pub(super) fn is_classic(&self) -> bool {
        self.kind == "classic"
    }

    pub(super) fn is_view(&self) -> bool {
        self.kind == VIEW
    }

    /// The queue, or stream, that its messages are published to.
    pub(super) fn published_to(&self) -> &str {
        match self.is_view() {
            true => STREAM,
            false => &self.name,
        }
    }
}

/// See the module's description.
pub(super) struct World {
    pub(super) clock_ms: u64,
    pub(super) hosts: BTreeMap<NodeId, Host>,
    /// Frames under way, by sender and receiver.
    pub(super) wires: BTreeMap<(NodeId, NodeId), VecDeque<PeerFrame>>,
    /// Presentations that [`Planted::ForgetsOperations`] has changed.
    pub(super) presented: u64,
    /// Which node believes to be connected to which.
    pub(super) sees: BTreeSet<(NodeId, NodeId)>,
    /// New connections of which one end has not heard yet: that end, and the other.
    pub(super) waking: BTreeSet<(NodeId, NodeId)>,
    /// Directions in which nothing arrives.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    pub(super) people: BTreeMap<ClientId, Person>,
    pub(super) next_client: ClientId,
    pub(super) next_body: Body,
    pub(super) queues: Vec<QueueOf>,
    /// The nodes that queues were on alone when all was well.
    pub(super) homes: Vec<Option<NodeId>>,
    pub(super) ledger: Ledger,
    pub(super) watch: Watch,
    /// Whether all groups have all their members, and those all that is durable: only then may one
    /// machine lose what it has.
    pub(super) is_whole: bool,
    machines: u8,
    pub(super) planted: Planted,
    /// Processes that ended.
    pub(super) crashes: u64,
    /// Reads that went wrong of disks that are gone.
    pub(super) bad_reads_before: u64,
    /// All that was said, in one number.
    pub(super) trace: u64,
}

impl World {
    pub(super) fn new(plan: &Plan, random: &mut Random) -> Result<Self, String> {
        let queue = |name: String, kind, comes_and_goes| QueueOf {
            name,
            kind,
            comes_and_goes,
        };
        let mut queues: Vec<QueueOf> = (0..plan.queues)
            .map(|number| queue(format!("q{number}"), "quorum", false))
            .collect();
        if plan.has_all_queues {
            queues.push(queue("classic".to_owned(), "classic", false));
            queues.push(queue("passing".to_owned(), "quorum", true));
        }
        if plan.has_view {
            queues.push(queue("view".to_owned(), VIEW, false));
        }
        let mut world = Self {
            clock_ms: 0,
            hosts: BTreeMap::new(),
            wires: BTreeMap::new(),
            presented: 0,
            sees: BTreeSet::new(),
            waking: BTreeSet::new(),
            cut: BTreeSet::new(),
            people: BTreeMap::new(),
            next_client: 1,
            next_body: 1,
            queues,
            homes: Vec::new(),
            ledger: Ledger::default(),
            watch: Watch::default(),
            is_whole: false,
            machines: 0,
            planted: plan.planted,
            crashes: 0,
            bad_reads_before: 0,
            trace: 0,
        };
        world.bring(NodeId(1), random);
        world.start(NodeId(1))?;
        world.rest()?;
        for _ in 1..plan.nodes {
            let node = world.add_machine(random)?.0;
            world.carry_out(&Command::NodePromote { node })?;
        }
        world.calm()?;
        Ok(world)
    }

    /// The nodes that belong to the cluster.
    pub(super) fn ids(&self) -> Vec<NodeId> {
        let known = self.hosts.iter().filter(|(_, host)| !host.is_forgotten);
        known.map(|(id, _)| *id).collect()
    }

    /// Whether a node's process runs.
    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.node(node).is_some()
    }

    /// Whether it takes clients.
    pub(super) fn is_serving(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(Node::is_placed)
    }

    pub(super) fn node(&self, node: NodeId) -> Option<&Node<SimDisk>> {
        self.hosts.get(&node).and_then(|host| host.node.as_ref())
    }

    pub(super) fn now(&self, node: NodeId) -> Now {
        // Of a machine that has been taken away others may still notice that it is gone: it has no
        // clock, and nobody on it looks at one.
        let host = self.hosts.get(&node);
        let (drift, skew_ms) = host.map_or((0, 0), |host| (host.drift, host.skew_ms));
        Now {
            monotonic_ms: 1 + self.clock_ms * (1_000 + drift) / 1_000,
            wall_ms: 1_700_000_000_000 + self.clock_ms + skew_ms,
        }
    }

    pub(super) fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    // Machines.

    /// A machine with an empty disk, as this node.
    fn bring(&mut self, node: NodeId, random: &mut Random) {
        self.machines += 1;
        let disk = SimDisk::new();
        disk.set_lies(Lies {
            sync: self.planted == Planted::ConfirmsEarly,
            ..Lies::default()
        });
        let members = self.hosts.iter().filter(|(_, host)| !host.is_forgotten);
        let members = members.map(|(id, host)| PeerAddress {
            node: *id,
            uuid: host.uuid,
            address: address_of(*id),
        });
        let host = Host {
            disk,
            node: None,
            uuid: [self.machines; 16],
            members: members.collect(),
            last_start: 0,
            skew_ms: random.below(60_000),
            drift: random.below(5),
            is_stalled: false,
            is_corrupt: false,
            has_bad_reads: false,
            is_hopeless: false,
            is_gone: false,
            is_forgotten: false,
            unsure: BTreeSet::new(),
            image: None,
        };
        self.hosts.insert(node, host);
    }

    /// Asks a node for a change of the catalogue.
    pub(super) fn ask(&self, node: NodeId, command: Command) -> Option<Answer> {
        let (answer, answers) = sync_channel(1);
        let cluster = self.node(node)?.env.cluster()?;
        cluster.propose(Waiter::Operator(answer), command);
        Some(answers)
    }

    /// Asks until it is done, while all is well.
    pub(super) fn carry_out(&mut self, command: &Command) -> Result<Outcome, String> {
        let mut last = String::new();
        for _ in 0..10 {
            for id in self.ids() {
                if self.is_up(id) && self.is_soon_serving(id)? {
                    break;
                }
            }
            let at = self.ids().into_iter().find(|id| self.is_serving(*id));
            let Some(answers) = at.and_then(|at| self.ask(at, command.clone())) else {
                let standing = self.catalogue_standing();
                return Err(format!("nobody can be asked for {command:?}{standing}"));
            };
            for _ in 0..1_000 {
                self.rest()?;
                match answers.try_recv() {
                    Ok(Ok(outcome)) => return Ok(outcome),
                    Ok(Err(error)) => {
                        last = error.to_string();
                        break;
                    }
                    Err(_) => self.turn()?,
                }
            }
        }
        Err(format!(
            "everything works, and {command:?} is not carried out: {last}"
        ))
    }

    /// Another machine joins the cluster.
    pub(super) fn add_machine(&mut self, random: &mut Random) -> Result<NodeId, String> {
        let node = self.begin_to_join(random)?;
        self.rest()?;
        Ok(node)
    }

    /// The same, as far as to the first of its links.
    pub(super) fn begin_to_join(&mut self, random: &mut Random) -> Result<NodeId, String> {
        let uuid = [self.machines + 1; 16];
        let join = Command::NodeJoin {
            uuid,
            address: String::new(),
            name: String::new(),
        };
        let outcome = self.carry_out(&join)?;
        let node = outcome.node.ok_or("a node that joined has no number")?;
        self.bring(node, random);
        self.start(node)?;
        self.connect_all();
        Ok(node)
    }

    /// Asks for another leader of a queue.
    pub(super) fn transfer(&self, at: NodeId, queue: QueueId, to: NodeId) {
        if let Some(node) = self.node(at) {
            leveret_cluster::transfer(self.now(at), queue, to, &node.env);
        }
    }

    /// The catalogue is to be led elsewhere.
    pub(super) fn transfer_catalogue(&self, to: NodeId) {
        for node in self.hosts.values().filter_map(|host| host.node.as_ref()) {
            if let Some(cluster) = node.env.cluster() {
                cluster.transfer(to);
            }
        }
    }

    // Processes.

    /// Starts a node's process. It may die of a call to the disk that fails.
    pub(super) fn start(&mut self, node: NodeId) -> Result<(), String> {
        let now = self.now(node);
        let planted = self.planted;
        let Some(host) = self.hosts.get_mut(&node) else {
            return Ok(());
        };
        host.last_start = match planted {
            Planted::ForgetsOrigins => 1,
            _ => now.wall_ms.max(host.last_start + 1),
        };
        host.is_stalled = false;
        let entrance = Entrance {
            identity: Identity {
                cluster: CLUSTER,
                node,
                uuid: host.uuid,
                start: host.last_start,
            },
            address: address_of(node),
            members: host.members.clone(),
            wal_file_bytes: WAL_FILE_BYTES,
        };
        match Node::enter(entrance, &host.disk) {
            Ok(mut started) => {
                if planted == Planted::ForgetsUnreadable {
                    started.accept_losses();
                }
                host.node = Some(started);
            }
            Err(_) if host.disk.is_dead() || host.disk.fault_fired() || host.disk.is_limited() => {
                host.disk.kill();
            }
            // It says what it has found, and a machine takes its place.
            Err(_) if host.is_corrupt || host.has_bad_reads => {
                host.disk.kill();
                host.is_hopeless = true;
            }
            Err(why) => return Err(why),
        }
        self.watch.started(node);
        Ok(())
    }

    /// Ends a node's process: by a signal, or with the machine's power.
    pub(super) fn crash(&mut self, node: NodeId, random: &mut Random, with_power: bool) {
        let planted = self.planted;
        let Some(host) = self.hosts.get_mut(&node) else {
            return;
        };
        match with_power {
            true => host.disk.power_cut(&mut Cut::Chance(random)),
            false => host.disk.kill(),
        }
        match planted {
            Planted::ForgetsVotes => host.go_back(random),
            Planted::TruncatesOnCorruption => host.forget_the_end(),
            _ => {}
        }
        self.ended(node);
    }

    /// A node's process ends by itself.
    fn kill(&mut self, node: NodeId) {
        if let Some(host) = self.hosts.get_mut(&node) {
            host.disk.kill();
        }
        self.ended(node);
    }

    fn ended(&mut self, node: NodeId) {
        let Some(host) = self.hosts.get_mut(&node) else {
            return;
        };
        self.crashes += 1;
        host.node = None;
        let unsure = std::mem::take(&mut host.unsure);
        for client in self.people_at(node) {
            self.people.remove(&client);
            self.ledger.gone(client, &unsure);
        }
        self.ledger.gone(0, &unsure);
        self.estranged();
        self.sees.retain(|(one, _)| *one != node);
        self.waking.retain(|(one, _)| *one != node);
        self.wires.retain(|(_, to), _| *to != node);
    }

    /// The ways between nodes are not what they were.
    pub(super) fn estranged(&mut self) {
        self.ledger.disturbed();
        for (number, queue) in self.queues.iter().enumerate() {
            if queue.is_classic() {
                self.ledger.estranged(number);
            }
        }
    }

    // What nodes do.

    /// A node does what it can without its disk's syncs and without others.
    pub(super) fn work(&mut self, id: NodeId) -> Result<bool, String> {
        let now = self.now(id);
        let Some(node) = self.hosts.get_mut(&id).and_then(|host| host.node.as_mut()) else {
            return Ok(false);
        };
        let mut busy = node.step(now);
        if node.has_failed() {
            self.kill(id);
            return Ok(true);
        }
        let frames: Vec<_> = node.env.frames.borrow_mut().drain(..).collect();
        for (to, frame) in frames {
            if to == id {
                return Err(format!("node {id} sends to itself"));
            }
            busy = true;
            let bytes = frame.pieces.concat();
            self.note(&bytes);
            if self.sees.contains(&(id, to)) {
                self.wires.entry((id, to)).or_default().push_back(frame);
            }
        }
        busy |= self.part_with_strangers(id);
        busy |= self.write_out(id)?;
        self.check(id)?;
        Ok(busy)
    }

    /// A node's disk writes what has gathered. The process may die of it.
    pub(super) fn sync(&mut self, id: NodeId, random: &mut Random) -> bool {
        self.with_disk(id, random, |node, now| node.sync(now))
    }

    /// A node's segment writer works. The process may die of it.
    pub(super) fn tidy(&mut self, id: NodeId, random: &mut Random) -> bool {
        self.with_disk(id, random, |node, now| node.tidy(now).map(|()| true))
    }

    pub(super) fn with_disk(
        &mut self,
        id: NodeId,
        random: &mut Random,
        act: impl FnOnce(&mut Node<SimDisk>, Now) -> Option<bool>,
    ) -> bool {
        let now = self.now(id);
        let planted = self.planted;
        let Some(host) = self.hosts.get_mut(&id).filter(|host| !host.is_stalled) else {
            return false;
        };
        let Some(node) = host.node.as_mut() else {
            return false;
        };
        if planted == Planted::AnswersEarly {
            host.disk.set_lies(Lies {
                sync: !node.leads(),
                ..Lies::default()
            });
        }
        match act(node, now) {
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
        for id in self.all() {
            let now = self.now(id);
            if let Some(node) = self.hosts.get_mut(&id).and_then(|host| host.node.as_mut()) {
                node.tick(now);
            }
        }
    }

    /// All machines, those included that were forgotten.
    pub(super) fn all(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
    }

    /// Lets everything happen that needs no time.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        let mut random = Random::new(1);
        for _ in 0..ROUNDS_MAX {
            let mut busy = false;
            for id in self.all() {
                busy |= self.work(id)?;
            }
            for (from, to) in self.directions() {
                busy |= self.deliver(from, to);
            }
            if !busy {
                for id in self.all() {
                    busy |= self.sync(id, &mut random);
                }
            }
            if !busy {
                return Ok(());
            }
        }
        Err("the cluster does not come to rest".into())
    }

    /// The catalogue as the first node has it that serves.
    pub(super) fn with_catalogue<R>(&self, look: impl FnOnce(&Catalogue) -> R) -> Option<R> {
        let serving = self.ids().into_iter().find(|id| self.is_serving(*id))?;
        let node = self.node(serving)?;
        Some(look(&node.env.catalogue.borrow()))
    }
}

/// What became of a change of the catalogue.
pub(super) type Answer = Receiver<Result<Outcome, CatalogueError>>;

fn address_of(node: NodeId) -> String {
    format!("127.0.0.1:{node}")
}
