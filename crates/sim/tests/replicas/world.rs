//! The nodes, what lies between them, and what happens to them.

use crate::catalogue::Catalogue;
use crate::client::{Client, noise};
use crate::group::{self, Group};
use crate::ledger::Ledger;
use crate::network::{Network, Packet};
use crate::node::{Died, Node, STREAM};
use leveret_amqp::fuzz::Random;
use leveret_sim::SimDisk;
use leveret_stream::replica::Answer;
use leveret_stream::{
    Command, Event, Events, Flush, ReplicaEvent, ReplicaMessage, ReplicaOrigin, ReplicaReport,
    ReplicaRole, StoredBy, StreamSettings,
};
use leveret_stream_host::StreamHost;
use leveret_types::{NodeId, Now};

const NODES: u32 = 4;
const STEPS: u64 = 700;
/// Rounds without a fault within which all must be well again.
const ROUNDS: u64 = 400;
/// Whoever elects.
const ELECTOR: NodeId = NodeId(99);

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// What is confirmed has not waited for the majority.
    pub confirms_early: bool,
    /// The longest log leads, of whatever epoch.
    pub ignores_log_epoch: bool,
    /// Offsets are compared where chunks should be.
    pub trusts_lengths: bool,
    /// An offset is taken of a consumer that was active in its group before another one.
    pub takes_stale_offsets: bool,
}

struct World {
    seed: u64,
    random: Random,
    now_ms: u64,
    nodes: Vec<Node>,
    network: Network,
    catalogue: Catalogue,
    client: Client,
    group: Group,
    ledger: Ledger,
    settings: StreamSettings,
    planted: Planted,
    /// A member whose disk was lost and that is not whole again.
    lost: Option<NodeId>,
    /// The member whose files were damaged: it stays the one that has lost something, as nobody
    /// knows when it has found it.
    damaged: Option<NodeId>,
    /// Whether an election is asked for.
    is_needed: bool,
}

/// Plays one seed.
///
/// # Panics
/// If an invariant does not hold.
pub fn play(seed: u64, planted: Planted) {
    let mut world = World::new(seed, planted);
    world.found();
    for _ in 0..STEPS {
        world.step();
    }
    world.settle();
    let deletes = world.settings.bytes_max.is_some();
    world.ledger.check(seed, deletes);
}

impl World {
    fn new(seed: u64, planted: Planted) -> Self {
        let mut random = Random::new(seed);
        let bytes_max = (random.below(2) == 0).then(|| 4_000 + random.below(60_000));
        let flush = match random.below(4) {
            0 => Flush::Interval(20),
            1 => Flush::Os,
            _ => Flush::Sync,
        };
        let settings = StreamSettings {
            bytes_max,
            segment_bytes: 2_000 + random.below(20_000),
            flush,
            ..StreamSettings::default()
        };
        let members: Vec<NodeId> = (1..=3).map(NodeId).collect();
        Self {
            seed,
            random,
            now_ms: 1,
            nodes: (1..=NODES).map(|id| Node::new(NodeId(id))).collect(),
            network: Network::default(),
            catalogue: Catalogue::new(&members),
            client: Client::default(),
            group: Group::default(),
            ledger: Ledger::default(),
            settings,
            planted,
            lost: None,
            damaged: None,
            is_needed: false,
        }
    }

    fn now(&self) -> Now {
        Now::both(self.now_ms)
    }

    fn at(&self, id: NodeId) -> usize {
        id.0 as usize - 1
    }

    /// The stream is made on its members.
    fn found(&mut self) {
        for at in 0..3 {
            self.start(at, ReplicaOrigin::NewStream);
        }
    }

    fn start(&mut self, at: usize, origin: ReplicaOrigin) {
        let salt = self.random.next_u64();
        if self.nodes[at].start(&self.settings, salt, origin).is_err() {
            return self.crash(at);
        }
        let id = self.nodes[at].id;
        self.network.lose(id);
        for node in &mut self.nodes {
            if let Some(host) = node.host.as_mut().filter(|_| node.id != id) {
                host.connected(id);
            }
        }
    }

    fn crash(&mut self, at: usize) {
        let may_lose = self.settings.flush == Flush::Sync;
        self.nodes[at].crash(&mut self.random, may_lose);
        let id = self.nodes[at].id;
        self.network.lose(id);
        if self.client.at.is_some_and(|(node, _)| node == id) {
            self.client.leave();
        }
    }

    fn step(&mut self) {
        self.now_ms += self.random.below(4);
        let at = self.random.below(u64::from(NODES)) as usize;
        if self.seed.is_multiple_of(3) {
            self.contend();
        }
        match self.random.below(100) {
            0..=34 => self.deliver(),
            35..=64 => self.turn(at),
            65..=66 => self.make_noise(at),
            67 => (0..4).for_each(|_| self.consume()),
            68..=76 => {
                let new = self.random.below(4);
                self.publish(new);
            }
            77..=86 => self.tell(at),
            87..=89 => self.elect_if_needed(),
            90 => self.elect(),
            91..=92 => self.fault(at),
            93..=95 if self.nodes[at].host.is_none() && self.catalogue.has(self.nodes[at].id) => {
                self.start(at, ReplicaOrigin::Before);
            }
            96 => self.change_members(),
            97 => self.heal(),
            _ => self.turn_all(),
        }
    }

    /// Leaders are cut off and come back, and elections follow each other.
    fn contend(&mut self) {
        match self.random.below(120) {
            0 => self.isolate(self.at(self.catalogue.leader)),
            1 | 2 => self.elect(),
            3 => {
                self.heal();
                self.elect();
            }
            4 => self.hand_over(),
            _ => {}
        }
    }

    /// The leader is to go in order.
    fn hand_over(&mut self) {
        let (now, leader) = (self.now(), self.catalogue.leader);
        let to = self.catalogue.members.iter().find(|node| **node != leader);
        let (to, at) = (to.copied(), self.at(leader));
        if let (Some(host), Some(to)) = (&mut self.nodes[at].host, to) {
            host.hand_over(now, STREAM, to);
        }
    }

    fn fault(&mut self, at: usize) {
        let disk = &self.nodes[at].disk;
        match self.random.below(9) {
            0..=1 => self.crash(at),
            8 => self.damage(at),
            2 => disk.crash_at(disk.operations() + self.random.below(8)),
            3 => disk.set_bytes_max(Some(disk.bytes() + self.random.below(4_000))),
            4 => self.lose_disk(at),
            5 => self.isolate(at),
            _ => {
                let other = self.random.below(u64::from(NODES)) as usize;
                let (a, b) = (self.nodes[at].id, self.nodes[other].id);
                if a != b {
                    self.network.cut(a, b);
                }
            }
        }
    }

    /// Nobody reaches a node but the clients that are there.
    fn isolate(&mut self, at: usize) {
        let id = self.nodes[at].id;
        let others = self.nodes.iter().map(|node| node.id).chain([ELECTOR]);
        for other in others.filter(|other| *other != id) {
            self.network.cut(id, other);
        }
    }

    /// One member's disk at a time: a majority's live.
    fn lose_disk(&mut self, at: usize) {
        let id = self.nodes[at].id;
        let is_member = self.catalogue.members.contains(&id);
        if is_member && self.catalogue.members.len() == 3 && self.lost.is_none() {
            self.crash(at);
            self.nodes[at].disk = SimDisk::new();
            self.lost = Some(id);
        }
    }

    /// Changes what one member has on its disk, up or down: a bit of a segment that is whole and
    /// synced, or the head of the last one.
    fn damage(&mut self, at: usize) {
        let id = self.nodes[at].id;
        let is_member = self.catalogue.members.contains(&id);
        let is_synced = self.settings.flush == Flush::Sync;
        if !is_member || self.catalogue.members.len() != 3 || self.lost.is_some() || !is_synced {
            return;
        }
        let disk = &self.nodes[at].disk;
        let is_segment = |path: &std::path::PathBuf| path.extension() == Some("stream".as_ref());
        let mut segments: Vec<_> = disk.paths().into_iter().filter(is_segment).collect();
        segments.sort();
        let Some(last) = segments.pop() else {
            return;
        };
        let (which, bit) = (
            self.random.below(segments.len() as u64 + 1),
            self.random.next_u64(),
        );
        let is_changed = match segments.get(which as usize) {
            Some(path) => disk.tamper(path, |bytes| {
                let at = bit as usize % bytes.len();
                bytes[at] ^= 1 << (bit % 8);
            }),
            None => disk.tamper(&last, |bytes| {
                let head = bytes.len().min(80);
                bytes[..head].fill(0);
            }),
        };
        if is_changed {
            self.lost = Some(id);
            self.damaged = Some(id);
        }
    }

    fn heal(&mut self) {
        for (a, b) in self.network.heal() {
            for (at, other) in [(a, b), (b, a)] {
                if a == ELECTOR || b == ELECTOR {
                    continue;
                }
                let at = self.at(at);
                if let Some(host) = &mut self.nodes[at].host {
                    host.connected(other);
                }
            }
        }
        for node in &self.nodes {
            node.disk.set_bytes_max(None);
        }
    }

    fn tell(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.told == self.catalogue.version {
            return;
        }
        let Some(host) = &mut node.host else {
            return;
        };
        let mut events = Events::new();
        if self.catalogue.has(node.id) {
            host.order(STREAM, self.catalogue.order(node.id), &mut events);
            node.told = self.catalogue.version;
        } else {
            // It is a member no more: its files go.
            node.host = None;
            node.disk = SimDisk::new();
        }
        self.hear(at, events);
    }

    fn elect_if_needed(&mut self) {
        let leader = self.at(self.catalogue.leader);
        if self.nodes[leader].host.is_none() || std::mem::take(&mut self.is_needed) {
            self.elect();
        }
    }

    fn elect(&mut self) {
        let epoch = self.catalogue.begin_election();
        // Who copies is asked as well: it may have forgotten what it promised as a member.
        let learner = self.catalogue.learner;
        for to in self.catalogue.members.iter().copied().chain(learner) {
            let bytes = ReplicaMessage::Prepare { epoch }.encode();
            let from = ELECTOR;
            self.network.send(Packet { from, to, bytes });
        }
    }

    /// Whether the leader has heard of the last change, and says that there may be another one.
    fn may_change_members(&self) -> bool {
        let leader = &self.nodes[self.at(self.catalogue.leader)];
        let newest = self.catalogue.epoch;
        let is_of_epoch =
            |role| matches!(role, ReplicaRole::Leader { epoch, .. } if epoch == newest);
        let may = |host: &StreamHost<SimDisk>| host.may_change_members(STREAM);
        leader.told == self.catalogue.version
            && leader.role().is_some_and(is_of_epoch)
            && leader.host.as_ref().is_some_and(may)
    }

    /// A spare node begins to copy, becomes a member, and another one leaves for it.
    fn change_members(&mut self) {
        if !self.may_change_members() || self.lost.is_some() {
            return;
        }
        if self.catalogue.members.len() > 3 {
            let others: Vec<NodeId> = self.catalogue.members.clone();
            let mut others = others.into_iter().filter(|m| *m != self.catalogue.leader);
            let gone = others.nth(self.random.below(3) as usize).unwrap();
            self.catalogue.members.retain(|member| *member != gone);
            self.catalogue.version += 1;
            return;
        }
        if self.catalogue.learner.is_none() {
            let spare = (0..self.nodes.len()).find(|at| !self.catalogue.has(self.nodes[*at].id));
            let spare = spare.unwrap();
            self.nodes[spare].host = None;
            self.nodes[spare].disk = SimDisk::new();
            self.catalogue.learner = Some(self.nodes[spare].id);
            self.start(spare, ReplicaOrigin::NewReplica);
        }
    }

    fn publish(&mut self, new: u64) {
        let now = self.now();
        if self.random.below(30) == 0 {
            // It has waited for long enough, and looks for another leader.
            self.client.leave();
        }
        if let Some((node, session)) = self.client.at {
            let bytes = self.random.below(600) as usize;
            if let Some(command) = self.client.publish(STREAM, new, bytes) {
                self.command(node, session, command, now);
            }
            return;
        }
        let leads = |node: &&Node| matches!(node.role(), Some(ReplicaRole::Leader { .. }));
        let leaders: Vec<&Node> = self.nodes.iter().filter(leads).collect();
        if leaders.is_empty() {
            return;
        }
        let node = leaders[self.random.below(leaders.len() as u64) as usize];
        self.now_ms += 1;
        let (id, session) = (node.id, node.session(16 + self.now_ms % 200));
        let command = self.client.declare(id, session, STREAM);
        self.command(id, session, command, now);
    }

    /// Somebody else publishes, to whoever takes it.
    fn make_noise(&mut self, at: usize) {
        let (now, id) = (self.now(), self.nodes[at].id);
        let session = self.nodes[at].session(3);
        for command in noise(STREAM, 1 + self.random.below(12)) {
            self.command(id, session, command, now);
        }
    }

    /// A consumer of the group says something to a leader.
    fn consume(&mut self) {
        let (now, which) = (self.now(), self.random.below(group::CONSUMERS));
        let choice = self.random.below(4);
        let first = self.random.below(u64::from(NODES)) as usize;
        let mut nodes = (first..first + self.nodes.len()).map(|at| at % self.nodes.len());
        let Some((at, led)) = nodes.find_map(|at| Some((at, self.led(at)?))) else {
            return;
        };
        let Some((mut command, stored)) = self.group.say(which, led, STREAM, choice) else {
            return;
        };
        if let Command::StoreOffset { by, .. } = &mut command
            && self.planted.takes_stale_offsets
        {
            *by = StoredBy::Anyone;
        }
        let session = self.nodes[at].session(220 + which);
        self.command(self.nodes[at].id, session, command, now);
        let host = self.nodes[at].host.as_ref();
        let tracking = host.and_then(|host| host.tracking(STREAM));
        let kept = tracking.and_then(|tracking| tracking.offset(&group::name()));
        if let Some((offset, by)) = stored
            && kept == Some(offset)
        {
            self.group.kept(led, offset, by);
        }
    }

    /// In which run and epoch a node leads, if it does.
    fn led(&self, at: usize) -> Option<group::Led> {
        let node = &self.nodes[at];
        match node.role()? {
            ReplicaRole::Leader { epoch, .. } => Some((node.session(0), epoch)),
            _ => None,
        }
    }

    fn command(
        &mut self,
        node: NodeId,
        session: leveret_stream::SessionId,
        command: Command,
        now: Now,
    ) {
        let at = self.at(node);
        let events = self.nodes[at].handle(now, session, command);
        self.hear(at, events);
    }

    fn hear(&mut self, at: usize, events: Events) {
        let id = self.nodes[at].id;
        for (session, event) in events {
            match &event {
                Event::Subscribed { result: Ok(()), .. } => self.ledger.begin(id),
                Event::Subscribed { .. } | Event::ReaderEnded { .. } => {
                    self.nodes[at].stops_reading();
                }
                Event::Chunk { chunk, .. } => self.ledger.show(id, chunk),
                Event::Activity { .. } => {
                    if let Some(led) = self.led(at) {
                        self.group.hear(led, &event);
                    }
                }
                event => self.client.hear(session, event, &mut self.ledger),
            }
        }
    }

    fn turn_all(&mut self) {
        (0..self.nodes.len()).for_each(|at| self.turn(at));
    }

    fn turn(&mut self, at: usize) {
        let now = self.now();
        match self.nodes[at].turn(now) {
            Ok((events, reports)) => {
                self.hear(at, events);
                self.note(at, reports);
            }
            Err(Died) => return self.crash(at),
        }
        if let Some(events) = self.nodes[at].subscribe(now) {
            self.hear(at, events);
        }
        let from = self.nodes[at].id;
        let bytes_max = 1 + self.random.below(3_000) as usize;
        for (to, bytes) in self.nodes[at].messages(bytes_max) {
            self.network.send(Packet { from, to, bytes });
        }
    }

    fn note(&mut self, at: usize, reports: Vec<ReplicaReport>) {
        let id = self.nodes[at].id;
        for (_, report) in reports {
            match report {
                ReplicaEvent::ElectionNeeded { promised, .. } => {
                    self.catalogue.promised = self.catalogue.promised.max(promised);
                    self.is_needed = true;
                }
                ReplicaEvent::Whole { .. } => {
                    if self.lost == Some(id) && self.damaged != Some(id) {
                        self.lost = None;
                    }
                    if self.catalogue.learner == Some(id) && self.may_change_members() {
                        self.catalogue.learner = None;
                        self.catalogue.members.push(id);
                        self.catalogue.version += 1;
                    }
                }
                ReplicaEvent::Rejected { from, reason } => {
                    panic!("{id} rejects what {from} says: {reason}")
                }
                ReplicaEvent::Damaged { from } | ReplicaEvent::DamagedForGood { from } => {
                    let is_damaged = self.damaged == Some(id);
                    assert!(
                        is_damaged,
                        "{id} finds damage from {from} on that nobody has done"
                    );
                }
                ReplicaEvent::Fenced(fence) => {
                    panic!("{id} knows of more than its leader: {fence:?}")
                }
                ReplicaEvent::MayMove { .. } => self.elect(),
                ReplicaEvent::Cut { .. } => {}
            }
        }
    }

    fn deliver(&mut self) {
        if let Some(packet) = self.network.take(&mut self.random) {
            self.arrive(packet);
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let message = ReplicaMessage::decode(packet.bytes).unwrap();
        if packet.to == ELECTOR {
            return self.answer(packet.from, &message);
        }
        let at = self.at(packet.to);
        let mut events = Events::new();
        let message = self.plant(packet.from, at, message);
        if let Some(host) = &mut self.nodes[at].host {
            host.receive(packet.from, STREAM, message, &mut events);
        }
        self.hear(at, events);
    }

    fn answer(&mut self, node: NodeId, message: &ReplicaMessage) {
        if let ReplicaMessage::Prepared {
            epoch,
            promised,
            position,
            is_whole,
        } = *message
        {
            let answer = Answer {
                node,
                promised,
                position,
                is_whole,
            };
            let ignores = self.planted.ignores_log_epoch;
            self.catalogue.take(answer, epoch, ignores);
        }
    }

    /// Makes wrong what is to be.
    fn plant(&mut self, from: NodeId, at: usize, message: ReplicaMessage) -> ReplicaMessage {
        match message {
            ReplicaMessage::Fetch {
                epoch, attachment, ..
            } if self.planted.confirms_early => {
                let durable = ReplicaMessage::Durable {
                    epoch,
                    attachment,
                    next_offset: u64::MAX,
                    is_whole: true,
                };
                if let Some(host) = &mut self.nodes[at].host {
                    let mut events = Events::new();
                    host.receive(from, STREAM, durable, &mut events);
                    self.hear(at, events);
                }
                message
            }
            ReplicaMessage::Attached {
                epoch,
                attachment,
                first_offset,
                whole_at,
                committed,
                epochs,
                ..
            } if self.planted.trusts_lengths => ReplicaMessage::Attached {
                epoch,
                attachment,
                parted_at: self.nodes[at].host.as_ref().map_or(0, |host| {
                    host.stats()
                        .next()
                        .map_or(0, |(_, s)| s.last_chunk.map_or(0, |l| l + 1))
                }),
                first_offset,
                whole_at,
                committed,
                epochs,
            },
            message => message,
        }
    }

    /// No faults any more: everything becomes well again, and all replicas show the same.
    fn settle(&mut self) {
        let mut steady = 0;
        for round in 0.. {
            self.now_ms += 5;
            self.heal();
            for at in 0..self.nodes.len() {
                let node = &self.nodes[at];
                if node.disk.is_dead() {
                    self.crash(at);
                }
                if self.nodes[at].host.is_none() && self.catalogue.has(self.nodes[at].id) {
                    self.start(at, ReplicaOrigin::Before);
                }
                self.tell(at);
            }
            let leader = self.at(self.catalogue.leader);
            let epoch = self.catalogue.epoch;
            let role = self.nodes[leader].role();
            let leads = matches!(role, Some(ReplicaRole::Leader { epoch: at, .. }) if at == epoch);
            if (!leads || self.is_needed || self.is_unfinished()) && round % 8 == 0 {
                self.is_needed = false;
                self.elect();
            }
            self.turn_all();
            for _ in 0..200 {
                let Some(packet) = self.network.take_first() else {
                    break;
                };
                self.arrive(packet);
            }
            self.publish(0);
            let is_well = leads && self.client.is_done() && self.is_even();
            steady = if is_well { steady + 1 } else { 0 };
            if steady == 10 {
                return;
            }
            assert!(
                round < ROUNDS,
                "seed {}: it does not become well again: {}",
                self.seed,
                self.describe()
            );
        }
    }

    /// Whether members have promised an epoch that nobody leads: an election has not ended.
    fn is_unfinished(&mut self) -> bool {
        let epoch = self.catalogue.epoch;
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let newest = hosts.flat_map(|host| host.waiting_replicas().map(|(_, at)| at));
        let newest = newest.max().filter(|promised| *promised > epoch);
        self.catalogue.promised = self.catalogue.promised.max(newest.unwrap_or_default());
        newest.is_some()
    }

    /// Whether all members show all.
    fn is_even(&self) -> bool {
        let leader = self.catalogue.leader;
        let end = self.ledger.reader(leader);
        let is_even = |member: &NodeId| self.ledger.reader(*member) == end;
        self.catalogue.members.iter().all(is_even)
    }

    fn describe(&self) -> String {
        let node = |node: &Node| {
            let stats = node.host.as_ref().map(|host| host.stats().next());
            let followers = node.host.as_ref().map(|host| host.followers(STREAM));
            let reader = self.ledger.reader(node.id);
            format!(
                "\n{} {:?} reader {reader} {stats:?} {followers:?}",
                node.id,
                node.role()
            )
        };
        let nodes: String = self.nodes.iter().map(node).collect();
        format!(
            "epoch {}, leader {}, members {:?}, client done {}{nodes}",
            self.catalogue.epoch,
            self.catalogue.leader,
            self.catalogue.members,
            self.client.is_done(),
        )
    }
}
