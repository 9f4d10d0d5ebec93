//! Groups over a network that loses, delays, doubles and reorders, and disks that forget what was
//! not synced. One seed, one life.

use crate::check::{Checker, Found};
use crate::disk::{Disk, DiskLog, State};
use bytes::Bytes;
use leveret_replication::{
    Body, Entry, EntryKind, Group, GroupConfig, HardState, Host, Machine, Membership, Message,
    Role, RoleChange, SnapshotMark, StepError, drive, step,
};
use leveret_types::{NodeId, ReplicaId};
use std::collections::BTreeSet;

/// A bug that is put in on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    #[default]
    Nothing,
    /// Durability is reported before the disk has synced: appends are acknowledged too early.
    AcknowledgesEarly,
    /// Term and vote are forgotten in a crash: two votes in one term.
    ForgetsVotes,
    /// A suffix that was overwritten comes back after a restart.
    KeepsSuffixes,
    /// A member that lost its disk comes back as the same replica.
    ReusesReplicas,
    /// What the leader appended counts as committed.
    AppliesEarly,
}

/// splitmix64: good enough, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// One node with its replica.
pub struct Node {
    pub id: NodeId,
    pub replica: ReplicaId,
    pub disk: Disk,
    /// Absent while the node is down.
    pub group: Option<Host<DiskLog>>,
    pub applied: u64,
    pub state: State,
    /// The state that came with a snapshot, until it is installed.
    arrived: Option<State>,
    /// Which nodes it believes to be down.
    pub believes_down: BTreeSet<NodeId>,
    /// Whether it keeps out of elections: it may have forgotten what it promised.
    pub abstains: bool,
}

/// A message on its way, with the state beside it if it is a snapshot.
#[derive(Clone, Debug)]
pub struct Flying {
    pub bytes: Bytes,
    pub state: State,
    pub from: NodeId,
    pub to: NodeId,
}

pub struct World {
    pub nodes: Vec<Node>,
    pub flying: Vec<Flying>,
    /// Directions in which nothing arrives.
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub checker: Checker,
    pub planted: Planted,
    /// What was broken while a group was driven.
    found: Option<Found>,
    founding: SnapshotMark,
    /// Whether each commit can be counted: nobody joins or leaves.
    pub is_fixed: bool,
    pub sent: u64,
    /// All that happened, in one number.
    pub trace: u64,
}

pub fn replica(node: u32) -> ReplicaId {
    ReplicaId::new(NodeId(node), 1)
}

impl World {
    /// A group on nodes `1..=size`, founded, nobody leads.
    pub fn new(size: u32, planted: Planted) -> Self {
        let founding = SnapshotMark::founding((1..=size).map(replica));
        let mut world = Self {
            nodes: Vec::new(),
            flying: Vec::new(),
            cut: BTreeSet::new(),
            checker: Checker::default(),
            planted,
            found: None,
            founding,
            is_fixed: true,
            sent: 0,
            trace: 0,
        };
        for node in 1..=size {
            world.add_node(replica(node));
        }
        world
    }

    /// A node with a replica that knows nothing but how the group was founded.
    pub fn add_node(&mut self, replica: ReplicaId) {
        let mut disk = Disk::founding(self.founding.clone());
        disk.loses_votes = self.planted == Planted::ForgetsVotes;
        disk.keeps_suffixes = self.planted == Planted::KeepsSuffixes;
        self.nodes.push(Node {
            id: replica.node(),
            replica,
            disk,
            group: None,
            applied: 0,
            state: 0,
            arrived: None,
            believes_down: BTreeSet::new(),
            abstains: false,
        });
        let at = self.nodes.len() - 1;
        self.start(at);
    }

    pub fn start(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let content = node.disk.durable.clone();
        (node.applied, node.state) = (content.mark.index, content.state);
        node.believes_down.clear();
        let config = GroupConfig {
            replica: node.replica,
            seed: 7,
            weigh: |data| data.len() as u64 + 16,
        };
        let mut hard = content.hard_state;
        if self.planted == Planted::ForgetsVotes {
            // What else it has shows a term.
            let last = content.entries.last().map_or(1, |entry| entry.term);
            let is_anew = content.entries.is_empty() && content.mark.index == 1;
            let term = if is_anew {
                0
            } else {
                last.max(content.mark.term)
            };
            hard = HardState { term, vote: 0 };
        }
        let begin = content.mark.index;
        let made = Group::new(config, hard, content.mark, content.entries, 0);
        let made = made.expect("what was written can be read");
        node.group = Some(Host::new(made, DiskLog(node.id), begin));
    }

    pub fn crash(&mut self, at: usize, kept: usize) {
        let node = &mut self.nodes[at];
        node.disk.crash(kept);
        node.group = None;
        node.arrived = None;
        let id = node.id;
        self.flying
            .retain(|flying| flying.from != id && flying.to != id);
    }

    /// The disk is lost; the node comes back with nothing.
    pub fn wipe(&mut self, at: usize) {
        self.crash(at, 0);
        let old = self.nodes.remove(at);
        let incarnation = old.replica.0 as u32 + 1;
        let replica = match self.planted {
            Planted::ReusesReplicas => old.replica,
            _ => ReplicaId::new(old.id, incarnation),
        };
        self.add_node(replica);
        self.nodes.sort_by_key(|node| node.id);
    }

    pub fn at(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|other| other.id == node)
    }

    pub fn group(&mut self, at: usize) -> &mut Group {
        self.nodes[at].group.as_mut().expect("the node is up")
    }

    pub fn leaders(&self) -> Vec<usize> {
        let is_leader = |at: &usize| {
            self.nodes[*at]
                .group
                .as_ref()
                .is_some_and(|g| g.is_leader())
        };
        (0..self.nodes.len()).filter(is_leader).collect()
    }

    /// Does what a node's group wants done.
    pub fn drain(&mut self, at: usize) -> Result<(), Found> {
        self.on_node(at, drive);
        self.found()
    }

    /// Runs something on the machine of a node, if that is up.
    fn on_node<R>(
        &mut self,
        at: usize,
        run: impl FnOnce(&mut OnNode, &mut Self) -> R,
    ) -> Option<R> {
        let host = self.nodes[at].group.take()?;
        let node = self.nodes[at].id;
        let mut machine = OnNode { node, host };
        let result = run(&mut machine, self);
        self.nodes[at].group = Some(machine.host);
        Some(result)
    }

    /// The first promise that was broken since it was asked last.
    fn found(&mut self) -> Result<(), Found> {
        self.found.take().map_or(Ok(()), Err)
    }

    fn note(&mut self, result: Result<(), Found>) {
        if let Err(found) = result {
            self.found.get_or_insert(found);
        }
    }

    fn apply(&mut self, at: usize, entry: &Entry, members: &Membership) -> Result<(), Found> {
        let node = &mut self.nodes[at];
        if entry.index <= node.applied && self.planted == Planted::AppliesEarly {
            return Ok(());
        }
        if entry.index != node.applied + 1 {
            return Err(format!("{entry:?} applied after {}", node.applied));
        }
        let (is_first, state) = self.checker.applies(entry, node.state)?;
        (node.applied, node.state) = (entry.index, state);
        if is_first && self.is_fixed && entry.kind != EntryKind::Membership {
            let has = |replica: ReplicaId| {
                let is_it = |node: &&Node| node.replica == replica;
                let node = self.nodes.iter().find(is_it);
                node.is_some_and(|node| node.disk.durable.has(entry.index, entry.term))
            };
            if !members.has_majority(has) {
                return Err(format!("{entry:?} applied, durable on no majority"));
            }
        }
        Ok(())
    }

    fn send(&mut self, at: usize, message: &Message) -> Result<(), Found> {
        let node = &self.nodes[at];
        if message.from == node.replica && self.planted != Planted::ForgetsVotes {
            self.checker.sends(message, &node.disk.durable)?;
        }
        self.fly(message, 0);
        Ok(())
    }

    fn fly(&mut self, message: &Message, state: State) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.sent += 1;
        for byte in &bytes {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        self.flying.push(Flying {
            bytes: bytes.into(),
            state,
            from: message.from.node(),
            to: message.to.node(),
        });
    }

    /// Delivers a message, or loses it when it cannot arrive.
    pub fn deliver(&mut self, which: usize) -> Result<(), Found> {
        let flying = self.flying.swap_remove(which);
        let is_cut = self.cut.contains(&(flying.from, flying.to));
        match self.at(flying.to) {
            Some(at) if !is_cut && self.nodes[at].group.is_some() => self.receive(at, flying),
            _ => self.lose(flying),
        }
    }

    /// A message does not arrive. A leader learns it of a snapshot.
    pub fn lose(&mut self, flying: Flying) -> Result<(), Found> {
        self.report_snapshot(&flying, false)
    }

    fn receive(&mut self, at: usize, flying: Flying) -> Result<(), Found> {
        let (message, _) = Message::decode(&flying.bytes).map_err(|why| why.to_string())?;
        let is_snapshot = matches!(message.body, Body::Snapshot(_));
        let node = &mut self.nodes[at];
        if is_snapshot && message.to == node.replica {
            node.arrived = Some(flying.state);
        }
        match self.on_node(at, |machine, world| step(machine, world, message)) {
            Some(Ok(()) | Err(StepError::NotForUs(_))) | None => {}
            Some(Err(why)) => return Err(format!("node {:?}: {why}", flying.to)),
        }
        self.drain(at)?;
        self.report_snapshot(&flying, true)
    }

    fn report_snapshot(&mut self, flying: &Flying, has_arrived: bool) -> Result<(), Found> {
        let (message, _) = Message::decode(&flying.bytes).map_err(|why| why.to_string())?;
        let leader = self.at(flying.from);
        if let (Body::Snapshot(_), Some(leader)) = (&message.body, leader)
            && self.nodes[leader].group.is_some()
        {
            self.group(leader).report_snapshot(message.to, has_arrived);
            self.drain(leader)?;
        }
        Ok(())
    }

    /// Syncs some of what a node's disk has waiting.
    pub fn sync(&mut self, at: usize, count: usize) -> Result<(), Found> {
        match self.nodes[at].disk.sync(count) {
            true => self.drain(at),
            false => Ok(()),
        }
    }

    pub fn tick(&mut self, at: usize) -> Result<(), Found> {
        if self.nodes[at]
            .group
            .as_ref()
            .is_some_and(|g| g.wants_tick())
        {
            self.group(at).tick();
        }
        self.drain(at)
    }

    /// Every detector says what is true.
    pub fn detect(&mut self, at: usize) -> Result<(), Found> {
        if self.nodes[at].group.is_none() {
            return Ok(());
        }
        for other in 0..self.nodes.len() {
            let (from, to) = (self.nodes[other].id, self.nodes[at].id);
            let is_down = self.nodes[other].group.is_none() || self.cut.contains(&(from, to));
            let was_down = self.nodes[at].believes_down.contains(&from);
            if from != to && is_down != was_down {
                match is_down {
                    true => {
                        self.nodes[at].believes_down.insert(from);
                        self.group(at).peer_down(from);
                    }
                    false => {
                        self.nodes[at].believes_down.remove(&from);
                        self.group(at).peer_up(from);
                    }
                }
            }
        }
        self.drain(at)
    }

    /// Delivers and syncs all until nothing moves.
    pub fn run(&mut self) -> Result<(), Found> {
        for _ in 0..10_000 {
            if !self.flying.is_empty() {
                self.deliver(0)?;
            } else if let Some(at) =
                (0..self.nodes.len()).find(|at| self.nodes[*at].disk.waiting() > 0)
            {
                self.sync(at, usize::MAX)?;
            } else {
                return Ok(());
            }
        }
        Err("messages without end".into())
    }

    /// Proposes on a node that leads; whether it was taken.
    pub fn propose(&mut self, at: usize, data: &[u8]) -> Result<bool, Found> {
        let is_taken = self.group(at).propose(Bytes::copy_from_slice(data)).is_ok();
        self.drain(at)?;
        Ok(is_taken)
    }

    /// Everything works again: a leader is found, and what it proposes is applied everywhere.
    pub fn recover(&mut self) -> Result<(), Found> {
        self.cut.clear();
        for at in 0..self.nodes.len() {
            if self.nodes[at].group.is_none() {
                self.start(at);
            }
        }
        for round in 0..400 {
            for at in 0..self.nodes.len() {
                self.detect(at)?;
                self.tick(at)?;
            }
            self.run()?;
            let leaders = self.leaders();
            if let (true, Some(leader)) = (round % 20 == 0, leaders.first()) {
                self.propose(*leader, b"recovered")?;
                self.run()?;
            }
            if round % 20 == 19 && self.is_caught_up() {
                return Ok(());
            }
        }
        Err(format!("no progress: {}", self.describe()))
    }

    /// Whether all members that the leader counts on are where it is.
    fn is_caught_up(&self) -> bool {
        let [leader] = self.leaders()[..] else {
            return false;
        };
        let Some(group) = self.nodes[leader].group.as_ref() else {
            return false;
        };
        let membership = group.membership();
        let mut members = self
            .nodes
            .iter()
            .filter(|node| membership.contains(node.replica));
        group.commit() == group.last_index() && members.all(|node| node.applied == group.commit())
    }

    pub fn describe(&self) -> String {
        let one = |node: &Node| match &node.group {
            None => format!("{}: down", node.id),
            Some(group) => {
                let status = group.status();
                format!(
                    "{}: {:?} term {} leader {} commit {} last {} applied {} durable {} down {:?} {}",
                    node.replica,
                    status.role,
                    status.term,
                    status.leader.map_or(0, |leader| leader.node().0),
                    status.commit,
                    status.last_index,
                    node.applied,
                    status.durable,
                    node.believes_down,
                    show(&status.membership),
                )
            }
        };
        self.nodes.iter().map(one).collect::<Vec<_>>().join("\n")
    }
}

/// The machine of a node's group while it runs.
struct OnNode {
    node: NodeId,
    host: Host<DiskLog>,
}

impl OnNode {
    fn at(&self, world: &World) -> usize {
        world.at(self.node).expect("it runs on a node")
    }
}

impl Machine<World> for OnNode {
    type Log = DiskLog;

    fn is_snapshot_due(&self, entries: u64) -> bool {
        entries >= 16
    }

    fn host(&mut self) -> &mut Host<DiskLog> {
        &mut self.host
    }

    fn takes_part(&self, world: &World, _body: &Body) -> bool {
        !world.nodes[self.at(world)].abstains
    }

    fn role_changed(&mut self, world: &mut World, change: RoleChange) {
        if change.role == Role::Leader {
            let led = world.checker.leads(&self.host);
            world.note(led);
        }
    }

    fn install(&mut self, world: &mut World, mark: &SnapshotMark) -> Vec<u8> {
        let at = self.at(world);
        let node = &mut world.nodes[at];
        let state = node.arrived.take().expect("a snapshot comes with a state");
        (node.applied, node.state) = (mark.index, state);
        state.to_be_bytes().to_vec()
    }

    fn appending(&mut self, world: &mut World, _truncate_from: Option<u64>, entries: &[Entry]) {
        let at = self.at(world);
        for entry in entries {
            // Where the place before is in a snapshot of another, its term is not known.
            if let Some(before) = self.host.term_at(entry.index - 1) {
                let appended = world.checker.appends(entry, before);
                world.note(appended);
            }
        }
        if world.planted == Planted::AppliesEarly && self.host.is_leader() {
            for entry in entries {
                let applied = world.apply(at, entry, self.host.membership());
                world.note(applied);
            }
        }
    }

    fn send(&mut self, world: &mut World, message: Message) {
        let sent = world.send(self.at(world), &message);
        world.note(sent);
    }

    /// Carries what is applied now, which may be more than was asked for.
    fn send_snapshot(&mut self, world: &mut World, mut message: Message) {
        let mark = self.host.mark(self.host.status().applied);
        let mark = mark.expect("what is applied has a mark");
        let state = world.checker.state(mark.index);
        assert!(
            matches!(&message.body, Body::Snapshot(requested) if requested.index <= mark.index)
        );
        message.body = Body::Snapshot(mark);
        world.fly(&message, state);
    }

    fn apply(&mut self, world: &mut World, entry: &Entry) {
        let applied = world.apply(self.at(world), entry, self.host.membership());
        world.note(applied);
    }

    fn snapshot(&mut self, world: &mut World, mark: &SnapshotMark) -> Vec<u8> {
        world.checker.state(mark.index).to_be_bytes().to_vec()
    }
}

fn show(membership: &Membership) -> String {
    let lists = [
        ("voters", &membership.voters),
        ("outgoing", &membership.voters_outgoing),
        ("learners", &membership.learners),
    ];
    let show = |replica: &ReplicaId| format!("{}.{}", replica.node(), replica.0 as u32);
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let lists = lists.map(|(name, list)| {
        let all: Vec<String> = list.iter().map(show).collect();
        format!("{name} {}", all.join(" "))
    });
    lists.collect::<Vec<_>>().join(", ")
}
