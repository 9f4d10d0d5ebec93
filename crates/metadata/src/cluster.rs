//! The nodes of a cluster, and which of them have what: members of the groups of replicated queues,
//! and the homes of all others.
//!
//! In a cluster the commands themselves are replicated, in [`Batch`]es, and every node applies each
//! of them. What their effect depends on besides the catalogue (who asked, who was up, which limits
//! held) was decided by the leader and travels with them.

use crate::catalogue::{Catalogue, Change, Outcome};
use crate::command::{Command, decode, encode};
use crate::error::CatalogueError;
use crate::record::QueueRecord;
use leveret_types::QueueKind;
use leveret_types::limits::{CLUSTER_NODES_MAX, GROUP_SIZE_DEFAULT};
use leveret_types::{NodeId, QueueId, ReplicaId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its number, never used twice.
    pub node: u32,
    /// The identity of its data folder.
    pub uuid: [u8; 16],
    /// Where it listens for other nodes: `host:port`.
    pub address: String,
    /// Its name in listings.
    pub name: String,
    /// Its newest start: another, greater number for each run of its process.
    pub start: u64,
    /// The last proposal of that start that was applied.
    pub applied: u64,
    /// Whether it is being emptied: it gets no leaders and no new queues.
    pub draining: bool,
    /// Whether it may vote, and have members of replicated queues: an operator has said so, or it
    /// has stayed. Nodes in what older versions wrote voted.
    #[serde(default = "voted")]
    pub votes: bool,
}

const fn voted() -> bool {
    true
}

impl NodeRecord {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        NodeId(self.node)
    }

    /// Whether members of replicated queues may be put on it: it is to stay, and is not being
    /// emptied.
    #[must_use]
    pub const fn takes_members(&self) -> bool {
        self.votes && !self.draining
    }
}

/// What a cluster adds to the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    pub(crate) nodes: BTreeMap<u32, NodeRecord>,
    next_node: u32,
    pub(crate) next_incarnation: u32,
    /// Addresses of nodes that founded the cluster by being listed and have not come yet: whoever
    /// made the list has said that they vote.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    expected: BTreeSet<String>,
}

/// Which limits hold for what is declared: the leader's, so that all nodes decide alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    queues_max: u64,
    exchanges_max: u64,
    vhosts_max: u64,
    default_queue_type: Option<String>,
    relaxed_redeclaration: bool,
    /// Nothing in what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    initial_group_size: Option<u64>,
    /// Whether nodes that have equally many members take turns. Not in what older versions wrote:
    /// their entries must be carried out again as they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    takes_turns: bool,
    /// Whether a declaration replaces a queue that went with its node's process. Not in what older
    /// versions wrote, either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replaces_lost: bool,
    /// Nothing in what older versions wrote, which had no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    argument_bytes_max: Option<u64>,
}

/// A command that a node wants carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposed {
    /// The node.
    pub origin: u32,
    /// Its start.
    pub start: u64,
    /// A number of its own, ascending within a start.
    pub id: u64,
    /// What is wanted.
    pub command: Command,
}

/// An entry of the catalogue's group: commands in the order in which they are carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The rules that hold.
    pub rules: Rules,
    /// The nodes that are up, for the places of new queues.
    pub up: Vec<u32>,
    /// The commands.
    pub commands: Vec<Proposed>,
}

impl Batch {
    /// The bytes of the batch.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The batch that these bytes are.
    ///
    /// # Errors
    /// If they are of another version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogueError> {
        decode("batch of commands", bytes)
    }
}

/// The bytes of commands on their way to the leader.
#[must_use]
pub fn encode_proposed(commands: &[Proposed]) -> Vec<u8> {
    encode(&commands)
}

/// The inverse of [`encode_proposed`].
///
/// # Errors
/// If they are of another version, or damaged.
pub fn decode_proposed(bytes: &[u8]) -> Result<Vec<Proposed>, CatalogueError> {
    decode("commands of another node", bytes)
}

/// Where a queue is, in snapshots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueuePlacement {
    queue: u64,
    members: Vec<u64>,
    /// Nothing in what older versions wrote, nor where they are the members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    founders: Vec<u64>,
    home: u32,
    /// 0 in what older versions wrote: as many as there are.
    #[serde(default)]
    size: u32,
    /// Of a replicated stream alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    epoch: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What snapshots of a cluster's catalogue have besides the commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClusterSnapshot {
    cluster: Cluster,
    next_transient_queue: u64,
    placed: Vec<QueuePlacement>,
}

/// For whom, and in which circumstances, a command is carried out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Circumstances {
    pub(crate) origin: NodeId,
    pub(crate) up: Vec<NodeId>,
    pub(crate) takes_turns: bool,
    pub(crate) replaces_lost: bool,
}

impl Catalogue {
    /// Whether this is the catalogue of a cluster.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        !self.cluster.nodes.is_empty()
    }

    /// Whether the cluster has had this node and has forgotten it: numbers are given once.
    #[must_use]
    pub fn has_forgotten(&self, node: NodeId) -> bool {
        let was_given = (1..self.cluster.next_node).contains(&node.0);
        was_given && !self.cluster.nodes.contains_key(&node.0)
    }

    /// The nodes of the cluster, by number; none outside of clusters.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeRecord> {
        self.cluster.nodes.values()
    }

    /// A node of the cluster.
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<&NodeRecord> {
        self.cluster.nodes.get(&node.0)
    }

    /// What operators see as the name of a node: its own, with its number before the `@` where
    /// another node of the cluster has the same.
    #[must_use]
    pub fn node_label(&self, node: NodeId) -> Option<String> {
        let record = self.node(node)?;
        let shared = self.nodes().filter(|other| other.name == record.name);
        if shared.count() == 1 {
            return Some(record.name.clone());
        }
        Some(match record.name.split_once('@') {
            Some((name, host)) => format!("{name}-{node}@{host}"),
            None => format!("{}-{node}", record.name),
        })
    }

    /// The node whose data folder has this identity.
    #[must_use]
    pub fn node_by_uuid(&self, uuid: &[u8; 16]) -> Option<&NodeRecord> {
        self.nodes().find(|node| node.uuid == *uuid)
    }

    /// The rules of this node's configuration.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let config = &self.config;
        Rules {
            queues_max: config.queues_max as u64,
            exchanges_max: config.exchanges_max as u64,
            vhosts_max: config.vhosts_max as u64,
            default_queue_type: config.default_queue_type.map(|kind| kind.name().to_owned()),
            relaxed_redeclaration: config.relaxed_redeclaration,
            initial_group_size: Some(config.membership.initial_size as u64),
            takes_turns: true,
            replaces_lost: true,
            argument_bytes_max: Some(config.argument_bytes_max),
        }
    }

    /// Turns the catalogue of a node without cluster into that of a cluster of one: what there is
    /// lives on this node. The first node to come from each of the `listed` addresses votes as soon
    /// as it has caught up.
    pub fn found(&mut self, first: NodeRecord, listed: &[String]) {
        assert!(!self.is_clustered(), "a cluster is founded once");
        let others = listed.iter().filter(|address| **address != first.address);
        self.cluster.expected = others.take(CLUSTER_NODES_MAX).cloned().collect();
        let node = first.id();
        self.cluster.next_node = first.node + 1;
        self.cluster.next_incarnation = 1;
        self.cluster.nodes.insert(first.node, first);
        for queue in self.queues.values_mut() {
            match queue.kind {
                QueueKind::Quorum => {
                    queue.members = vec![ReplicaId::new(node, 0)];
                    let initial = self.config.membership.initial_size;
                    queue.group_size = queue.settings.initial_size.unwrap_or(initial);
                }
                QueueKind::Classic | QueueKind::Stream => queue.home = node,
            }
        }
        self.recount();
    }

    /// Takes the place of another catalogue: what was derived from that one holds no more.
    pub fn follows(&mut self, other: &Self) {
        self.generation = self.generation.max(other.generation) + 1;
    }

    /// Carries out a batch: for each command whether it was carried out now (and not before), and
    /// with what result.
    pub fn apply_batch(&mut self, batch: &Batch) -> Vec<Option<Result<Outcome, CatalogueError>>> {
        let own = self.config.clone();
        let rules = &batch.rules;
        self.config.queues_max = usize::try_from(rules.queues_max).unwrap_or(usize::MAX);
        self.config.exchanges_max = usize::try_from(rules.exchanges_max).unwrap_or(usize::MAX);
        self.config.vhosts_max = usize::try_from(rules.vhosts_max).unwrap_or(usize::MAX);
        self.config.argument_bytes_max = rules.argument_bytes_max.unwrap_or(u64::MAX);
        self.config.relaxed_redeclaration = rules.relaxed_redeclaration;
        let size = rules.initial_group_size.map(usize::try_from);
        self.config.membership.initial_size = match size {
            Some(size) => size.unwrap_or(usize::MAX),
            None => GROUP_SIZE_DEFAULT,
        };
        let default = rules.default_queue_type.as_deref();
        self.config.default_queue_type = default.and_then(QueueKind::parse);
        let up: Vec<NodeId> = batch.up.iter().copied().map(NodeId).collect();
        let results = batch.commands.iter().map(|proposed| {
            self.is_new(proposed).then(|| {
                self.circumstances = Some(Circumstances {
                    origin: NodeId(proposed.origin),
                    up: up.clone(),
                    takes_turns: rules.takes_turns,
                    replaces_lost: rules.replaces_lost,
                });
                let result = self.apply(&proposed.command);
                self.circumstances = None;
                result
            })
        });
        let results = results.collect();
        self.config = own;
        results
    }

    /// Takes note of a proposal; false if it was applied before. What a node proposed in an earlier
    /// run is void: nobody waits for it any more.
    fn is_new(&mut self, proposed: &Proposed) -> bool {
        // A node that wants to join has no record yet, and asks through another one.
        let Some(node) = self.cluster.nodes.get_mut(&proposed.origin) else {
            return true;
        };
        if proposed.start < node.start
            || proposed.start == node.start && proposed.id <= node.applied
        {
            return false;
        }
        if proposed.start > node.start {
            node.applied = 0;
            node.start = proposed.start;
        }
        node.applied = proposed.id;
        true
    }

    pub(crate) fn apply_to_cluster(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        match command {
            Command::NodeJoin {
                uuid,
                address,
                name,
            } => self.join_node(*uuid, address, name),
            Command::NodeForget { node } => self.forget_node(*node),
            Command::NodeStarted {
                node,
                address,
                name,
            } => self.start_node(*node, address, name),
            Command::NodeLost { node, start } => self.lose_node(*node, *start),
            Command::NodeDrain { node, draining } => {
                let record = self.node_mut(*node)?;
                record.draining = *draining;
                Ok(nodes_changed())
            }
            Command::NodePromote { node } => {
                let record = self.node_mut(*node)?;
                record.votes = true;
                Ok(nodes_changed())
            }
            Command::QueueMembers { id, members, size } => {
                self.set_members(QueueId(*id), members, *size)
            }
            Command::StreamLeader {
                stream,
                after,
                epoch,
                leader,
            } => Ok(self.set_stream_leader(QueueId(*stream), *after, *epoch, NodeId(*leader))),
            Command::StreamMembers {
                stream,
                before,
                members,
            } => self.set_stream_members(QueueId(*stream), before, members),
            Command::Look => Ok(Outcome::default()),
            other => unreachable!("{other:?} is not about the cluster"),
        }
    }

    fn node_mut(&mut self, node: u32) -> Result<&mut NodeRecord, CatalogueError> {
        self.cluster
            .nodes
            .get_mut(&node)
            .ok_or(CatalogueError::NoNode(NodeId(node)))
    }

    fn join_node(
        &mut self,
        uuid: [u8; 16],
        address: &str,
        name: &str,
    ) -> Result<Outcome, CatalogueError> {
        let known = self.node_by_uuid(&uuid).map(NodeRecord::id);
        let node = match known {
            Some(node) => node.0,
            None if self.cluster.nodes.len() >= CLUSTER_NODES_MAX => {
                return Err(CatalogueError::NodeLimit {
                    limit: CLUSTER_NODES_MAX,
                });
            }
            None => {
                let node = self.cluster.next_node;
                self.cluster.next_node += 1;
                node
            }
        };
        let record = NodeRecord {
            node,
            uuid,
            address: address.to_owned(),
            name: name.to_owned(),
            start: 0,
            applied: 0,
            draining: false,
            votes: known.is_none() && self.cluster.expected.remove(address),
        };
        match self.cluster.nodes.get_mut(&node) {
            Some(known) => address.clone_into(&mut known.address),
            None => drop(self.cluster.nodes.insert(node, record)),
        }
        Ok(Outcome {
            node: Some(NodeId(node)),
            created: known.is_none(),
            ..nodes_changed()
        })
    }

    fn forget_node(&mut self, node: u32) -> Result<Outcome, CatalogueError> {
        self.node_mut(node)?;
        let mut others = self
            .cluster
            .nodes
            .values()
            .filter(|other| other.node != node);
        if !others.any(|other| other.votes) {
            return Err(CatalogueError::LastNode(NodeId(node)));
        }
        self.cluster.nodes.remove(&node);
        let mut outcome = nodes_changed();
        let gone = NodeId(node);
        let mut lost: Vec<QueueId> = self.at_home(gone, |_| true);
        let only_there = |queue: &QueueRecord| {
            !queue.members.is_empty() && queue.members.iter().all(|m| m.node() == gone)
        };
        let groups = self.queues.values().filter(|queue| only_there(queue));
        lost.extend(groups.map(|queue| queue.id));
        lost.sort_unstable();
        self.remove_all(&lost, &mut outcome)?;
        for (id, queue) in &mut self.queues {
            if queue.members.iter().any(|member| member.node() == gone) {
                queue.keep_founders();
                queue.members.retain(|member| member.node() != gone);
                outcome.changes.push(Change::QueueChanged(*id));
            }
        }
        // The order of a hash table is no order.
        outcome.changes.sort_by_key(change_order);
        self.recount();
        Ok(outcome)
    }

    /// A node has started (again): what lived as long as its process is gone.
    fn start_node(
        &mut self,
        node: u32,
        address: &str,
        name: &str,
    ) -> Result<Outcome, CatalogueError> {
        let record = self.node_mut(node)?;
        address.clone_into(&mut record.address);
        name.clone_into(&mut record.name);
        record.draining = false;
        let mut outcome = nodes_changed();
        self.remove_transient(NodeId(node), &mut outcome)?;
        Ok(outcome)
    }

    /// A node's run has been down for long: what lived as long as that is gone. Nothing changes if
    /// it has started anew, or is up again.
    fn lose_node(&mut self, node: u32, start: u64) -> Result<Outcome, CatalogueError> {
        let is_that_run = self.node_mut(node)?.start == start;
        let around = self.circumstances.as_ref();
        let is_up = around.is_some_and(|around| around.up.contains(&NodeId(node)));
        let mut outcome = Outcome::default();
        if is_that_run && !is_up {
            self.remove_transient(NodeId(node), &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Whether exclusive or transient queues live on a node: these go with its process.
    #[must_use]
    pub fn has_transient_queues(&self, node: NodeId) -> bool {
        let mut queues = self.queues.values();
        queues.any(|queue| lives_with_process(queue, node))
    }

    fn remove_transient(
        &mut self,
        node: NodeId,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        let gone = self.at_home(node, |queue| lives_with_process(queue, node));
        self.remove_all(&gone, outcome)
    }

    fn at_home(&self, node: NodeId, wanted: impl Fn(&QueueRecord) -> bool) -> Vec<QueueId> {
        let mut found: Vec<QueueId> = self
            .queues
            .values()
            .filter(|queue| queue.members.is_empty() && queue.home == node && wanted(queue))
            .map(|queue| queue.id)
            .collect();
        found.sort_unstable();
        found
    }

    fn remove_all(
        &mut self,
        queues: &[QueueId],
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        for id in queues {
            let Some(vhost) = self.queues.get(id).map(|queue| queue.vhost.clone()) else {
                continue;
            };
            let unbound = self.remove_queue(*id, outcome);
            self.remove_idle(&vhost, unbound, outcome)?;
        }
        Ok(())
    }

    pub(crate) fn cluster_snapshot(&self) -> Option<ClusterSnapshot> {
        self.is_clustered().then(|| {
            let mut placed: Vec<QueuePlacement> = self
                .queues
                .values()
                .map(|queue| QueuePlacement {
                    queue: queue.id.0,
                    members: queue.members.iter().map(|member| member.0).collect(),
                    founders: queue.founders.iter().map(|member| member.0).collect(),
                    home: queue.home.0,
                    size: u32::try_from(queue.group_size).unwrap_or(u32::MAX),
                    epoch: queue.epoch,
                })
                .collect();
            placed.sort_unstable_by_key(|placed| placed.queue);
            ClusterSnapshot {
                cluster: self.cluster.clone(),
                next_transient_queue: self.next_transient_queue,
                placed,
            }
        })
    }

    pub(crate) fn restore_cluster(&mut self, snapshot: ClusterSnapshot) {
        self.cluster = snapshot.cluster;
        self.next_transient_queue = snapshot.next_transient_queue;
        for placed in snapshot.placed {
            if let Some(queue) = self.queues.get_mut(&QueueId(placed.queue)) {
                queue.members = placed.members.into_iter().map(ReplicaId).collect();
                queue.founders = placed.founders.into_iter().map(ReplicaId).collect();
                queue.home = NodeId(placed.home);
                queue.group_size = placed.size as usize;
                queue.epoch = placed.epoch;
            }
        }
        self.recount();
    }
}

/// Whether a queue is exclusive or transient, and on that node.
fn lives_with_process(queue: &QueueRecord, node: NodeId) -> bool {
    queue.members.is_empty() && queue.home == node && !queue.survives_restart()
}

fn nodes_changed() -> Outcome {
    Outcome {
        changes: vec![Change::NodesChanged],
        ..Outcome::default()
    }
}

fn change_order(change: &Change) -> (u8, u64) {
    match change {
        Change::NodesChanged => (0, 0),
        Change::QueueDeleted(record) => (1, record.id().0),
        Change::QueueChanged(id) => (2, id.0),
        _ => (3, 0),
    }
}
