//! A fleet: many nodes and very many quorum queues, of which only the records and the groups'
//! elections are there. What a node's death costs, how evenly queues are led, and what changes of
//! the catalogue and signs of life are in bytes.
//!
//! A group is played by itself, with the product's own member code under virtual time: messages
//! take a time, syncs take a time, and nothing waits for another group. So what is said of
//! elections holds as long as processors and disks keep up with the messages that are counted.

use crate::cluster::node::catalogue_of;
use leveret_cluster::wire::{self, Integrity};
use leveret_metadata::{Batch, Catalogue, Command, Config, Proposed};
use leveret_replication::{Group, GroupConfig, HardState, Message, SnapshotMark};
use leveret_types::limits::{GROUP_TICK_MS, PEER_HEARTBEAT_MS, PEER_SILENCE_MS_MAX};
use leveret_types::{FieldTable, FieldValue, NodeId, ReplicaId};
use std::collections::BTreeMap;
use std::fmt;

/// Declarations of one entry of the catalogue.
const BATCH: u32 = 256;
/// A group that nobody leads after so long has found nobody.
const PATIENCE_MS: u64 = 60_000;

/// What is played.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Nodes.
    pub nodes: u32,
    /// Quorum queues of three members.
    pub queues: u32,
    /// Milliseconds that a message takes from node to node.
    pub latency_ms: u64,
    /// Milliseconds that a sync takes.
    pub sync_ms: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 10,
            queues: 1_000,
            latency_ms: 1,
            sync_ms: 2,
        }
    }
}

/// The least, the mean and the most of what nodes have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The least.
    pub least: u64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub most: u64,
}

impl Spread {
    fn of(nodes: impl ExactSizeIterator<Item = u64> + Clone) -> Self {
        let count = nodes.len().max(1) as f64;
        Self {
            least: nodes.clone().min().unwrap_or(0),
            mean: nodes.clone().sum::<u64>() as f64 / count,
            most: nodes.max().unwrap_or(0),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}, mean {:.0}", self.least, self.most, self.mean)
    }
}

/// What a catalogue of a fleet is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Declared {
    /// Bytes of the log that a declaration takes, and that the leader sends to each other node.
    pub change_bytes: f64,
    /// Bytes of the state that a node gets which joins.
    pub snapshot_bytes: u64,
    /// Queues that nodes lead.
    pub leaders: Spread,
    /// Members that nodes have.
    pub members: Spread,
    /// Bytes a second of signs of life that a node sends when nothing else is to be said, what
    /// carries them not included.
    pub heartbeat_bytes: u64,
}

/// What came of a node's death.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Death {
    /// Queues that the dead node led.
    pub led: u64,
    /// Milliseconds from the death until half of them were led again.
    pub half_ms: u64,
    /// The same for all of them.
    pub all_ms: u64,
    /// Messages between members of these groups.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Syncs that the groups asked for, if none is shared.
    pub syncs: u64,
    /// Queues that the other nodes lead afterwards.
    pub leaders: Spread,
}

/// A fleet whose queues are declared.
pub struct Fleet {
    plan: Plan,
    catalogue: Catalogue,
    /// Bytes of the entries of all declarations.
    entry_bytes: u64,
}

impl Fleet {
    /// A fleet without queues.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let config = Config {
            queues_max: usize::MAX,
            ..Config::default()
        };
        Self {
            plan,
            catalogue: catalogue_of(plan.nodes, config),
            entry_bytes: 0,
        }
    }

    /// Declares all queues, as clients at all nodes do.
    ///
    /// # Panics
    /// If the catalogue refuses one.
    pub fn declare(&mut self) {
        let up: Vec<u32> = (1..=self.plan.nodes).collect();
        let mut number = 0;
        while number < self.plan.queues {
            let end = self.plan.queues.min(number + BATCH);
            let origin = 1 + number / BATCH % self.plan.nodes;
            let commands = (number..end).map(|queue| Proposed {
                origin,
                start: 1,
                id: u64::from(queue) + 1,
                command: declaration(queue),
            });
            let batch = Batch {
                rules: self.catalogue.rules(),
                up: up.clone(),
                commands: commands.collect(),
            };
            self.entry_bytes += batch.encode().len() as u64;
            for result in self.catalogue.apply_batch(&batch) {
                assert!(matches!(result, Some(Ok(_))), "{result:?}");
            }
            number = end;
        }
    }

    /// What the declarations have made.
    #[must_use]
    pub fn declared(&self) -> Declared {
        let (leaders, members) = self.load();
        let others = u64::from(self.plan.nodes.saturating_sub(1));
        let beat = wire::heartbeat(Integrity::Checksum).len() as u64;
        Declared {
            change_bytes: self.entry_bytes as f64 / f64::from(self.plan.queues.max(1)),
            snapshot_bytes: self.catalogue.snapshot().len() as u64,
            leaders: Spread::of(leaders.values().copied()),
            members: Spread::of(members.values().copied()),
            heartbeat_bytes: others * beat * 1_000 / PEER_HEARTBEAT_MS,
        }
    }

    /// How many queues each node leads where all are led by whom they should be, and how many
    /// members it has.
    fn load(&self) -> (BTreeMap<NodeId, u64>, BTreeMap<NodeId, u64>) {
        let nodes = (1..=self.plan.nodes).map(|node| (NodeId(node), 0));
        let (mut leaders, mut members): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (nodes.clone().collect(), nodes.collect());
        for queue in self.catalogue.queues(None) {
            for (place, member) in queue.members().iter().enumerate() {
                *members.entry(member.node()).or_default() += 1;
                *leaders.entry(member.node()).or_default() += u64::from(place == 0);
            }
        }
        (leaders, members)
    }

    /// A node dies, and the groups that it led choose other leaders.
    ///
    /// # Panics
    /// If one of them finds nobody.
    #[must_use]
    pub fn lose(&self, dead: NodeId) -> Death {
        let (mut leaders, _) = self.load();
        leaders.remove(&dead);
        let mut death = Death::default();
        let mut times = Vec::new();
        for queue in self.catalogue.queues(None) {
            if queue.members().first().map(|member| member.node()) != Some(dead) {
                continue;
            }
            let mut life = Life::begin(queue.members(), queue.id().0, self.plan);
            let (leader, at_ms) = life.lose(dead);
            *leaders.entry(leader).or_default() += 1;
            times.push(at_ms);
            death.messages += life.messages;
            death.bytes += life.bytes;
            death.syncs += life.syncs;
        }
        times.sort_unstable();
        death.led = times.len() as u64;
        death.half_ms = times.get(times.len() / 2).copied().unwrap_or(0);
        death.all_ms = times.last().copied().unwrap_or(0);
        death.leaders = Spread::of(leaders.values().copied());
        death
    }
}

fn declaration(queue: u32) -> Command {
    Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: format!("orders.tenant-{queue:06}"),
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: FieldTable::from([("x-queue-type", FieldValue::text("quorum"))]),
        random: [0; 16],
        shards: 16,
        id: None,
    }
}

/// What is to happen in a group.
enum Event {
    Arrives(Message),
    Persisted(ReplicaId, u64),
    Down(ReplicaId),
    Tick,
}

/// One group under virtual time.
struct Life {
    plan: Plan,
    members: BTreeMap<ReplicaId, Group>,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    now_ms: u64,
    messages: u64,
    bytes: u64,
    syncs: u64,
}

impl Life {
    /// A group that its first member leads, and that has come to rest.
    fn begin(members: &[ReplicaId], seed: u64, plan: Plan) -> Self {
        let member = |replica: &ReplicaId| {
            let config = GroupConfig {
                replica: *replica,
                seed,
                weigh: |data| data.len() as u64,
            };
            let mark = SnapshotMark::founding(members.iter().copied());
            let group = Group::new(config, HardState::default(), mark, Vec::new(), 0);
            (*replica, group.expect("a new group makes sense"))
        };
        let mut life = Self {
            plan,
            members: members.iter().map(member).collect(),
            events: BTreeMap::new(),
            number: 0,
            now_ms: 0,
            messages: 0,
            bytes: 0,
            syncs: 0,
        };
        if let Some(first) = life.members.get_mut(&members[0]) {
            first.campaign();
        }
        life.settle();
        life.run_until(|life| life.leader() == Some(members[0].node()));
        // What has not been said yet is, and the time of what follows begins.
        life.run_until(|life| life.events.is_empty());
        (life.now_ms, life.messages, life.bytes, life.syncs) = (0, 0, 0, 0);
        life
    }

    /// A node dies now; answers who leads then, and when.
    fn lose(&mut self, dead: NodeId) -> (NodeId, u64) {
        self.members.retain(|replica, _| replica.node() != dead);
        let survivors: Vec<ReplicaId> = self.members.keys().copied().collect();
        for replica in survivors {
            // Each node looks at the others at moments of its own.
            let look = u64::from(replica.node().0) * 37 % PEER_HEARTBEAT_MS;
            self.after(PEER_SILENCE_MS_MAX + look, Event::Down(replica));
        }
        self.dead(dead);
        self.run_until(|life| life.leader().is_some());
        let leader = self.leader().expect("one of them leads");
        (leader, self.now_ms)
    }

    /// What was on its way to a node that is dead does not arrive.
    fn dead(&mut self, dead: NodeId) {
        self.events.retain(|_, event| match event {
            Event::Arrives(message) => message.to.node() != dead,
            Event::Persisted(replica, _) => replica.node() != dead,
            Event::Down(_) | Event::Tick => true,
        });
    }

    fn leader(&self) -> Option<NodeId> {
        let mut leading = self.members.values().filter(|group| group.is_leader());
        leading.next().map(|group| group.replica().node())
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.now_ms + ms, self.number), event);
    }

    fn run_until(&mut self, is_reached: impl Fn(&Self) -> bool) {
        while !is_reached(self) {
            let next = self.events.pop_first();
            let Some(((at, _), event)) = next else {
                panic!("nobody leads, and nothing is to happen");
            };
            assert!(at < PATIENCE_MS, "nobody leads after {at} ms");
            self.now_ms = at;
            self.take(event);
            self.settle();
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Arrives(message) => {
                if let Some(group) = self.members.get_mut(&message.to) {
                    // Messages of earlier terms are refused.
                    let _ = group.step(message);
                }
            }
            Event::Persisted(replica, number) => {
                if let Some(group) = self.members.get_mut(&replica) {
                    group.persisted(number);
                }
            }
            Event::Down(replica) => {
                let others = self.plan.nodes;
                let known: Vec<NodeId> = self.members.keys().map(|other| other.node()).collect();
                if let Some(group) = self.members.get_mut(&replica) {
                    let gone = (1..=others)
                        .map(NodeId)
                        .filter(|node| !known.contains(node));
                    gone.for_each(|node| group.peer_down(node));
                }
            }
            Event::Tick => {
                for group in self.members.values_mut() {
                    if group.wants_tick() {
                        group.tick();
                    }
                }
            }
        }
    }

    /// Does what the members want done.
    fn settle(&mut self) {
        let replicas: Vec<ReplicaId> = self.members.keys().copied().collect();
        for replica in replicas {
            while let Some(ready) = self.members.get_mut(&replica).and_then(Group::ready) {
                if ready.must_sync {
                    self.syncs += 1;
                    self.after(self.plan.sync_ms, Event::Persisted(replica, ready.number));
                }
                for message in ready.messages {
                    let mut bytes = vec![0];
                    message.encode(&mut bytes);
                    self.messages += 1;
                    self.bytes += (bytes.len() + wire::HEADER_BYTES) as u64;
                    if self.members.contains_key(&message.to) {
                        self.after(self.plan.latency_ms, Event::Arrives(message));
                    }
                }
                if let (Some(entry), Some(group)) =
                    (ready.committed.last(), self.members.get_mut(&replica))
                {
                    group.applied(entry.index);
                }
            }
        }
        let is_ticking = self
            .events
            .values()
            .any(|event| matches!(event, Event::Tick));
        if !is_ticking && self.members.values().any(Group::wants_tick) {
            self.after(GROUP_TICK_MS, Event::Tick);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(nodes: u32, queues: u32) -> Fleet {
        let mut fleet = Fleet::new(Plan {
            nodes,
            queues,
            ..Plan::default()
        });
        fleet.declare();
        fleet
    }

    #[test]
    fn queues_are_spread_evenly_and_led_again_when_a_node_dies() {
        for (nodes, queues) in [(3, 30), (10, 600), (50, 1_000)] {
            let fleet = fleet(nodes, queues);
            let declared = fleet.declared();
            let (leaders, members) = (declared.leaders, declared.members);
            assert!(leaders.most - leaders.least <= 2, "{nodes}: {leaders}");
            assert!(members.most - members.least <= 2, "{nodes}: {members}");
            let death = fleet.lose(NodeId(2));
            assert!(death.led > 0 && death.half_ms > PEER_SILENCE_MS_MAX);
            // Nobody's first election fails, whichever of the others notices the death first.
            let first_try_ms = PEER_SILENCE_MS_MAX + 500;
            assert!(death.all_ms < first_try_ms, "{nodes}: {death:?}");
            let sum = death.leaders.mean * f64::from(nodes - 1);
            assert_eq!(sum.round() as u32, queues, "each is led once");
            assert_eq!(fleet.lose(NodeId(2)), death, "the same again");
        }
    }

    #[test]
    fn signs_of_life_grow_with_the_nodes_and_not_with_the_queues() {
        let few = fleet(10, 10).declared().heartbeat_bytes;
        assert_eq!(fleet(10, 500).declared().heartbeat_bytes, few);
        assert_eq!(fleet(19, 10).declared().heartbeat_bytes, 2 * few);
    }
}
