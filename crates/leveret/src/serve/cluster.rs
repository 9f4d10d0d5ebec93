//! The cluster as operators see and change it, over a running node.

use super::process;
use leveret_auth::Pattern;
use leveret_management::cluster::{ClusterChange, ClusterNode, ClusterView};
use leveret_metadata::{Catalogue, Command, NodeRecord, QueueRecord};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::{NodeId, QueueId, ReplicaId, ShardId};
use std::collections::BTreeMap;

/// The cluster, seen from this node; none if it is in none.
pub fn view(broker: &Broker) -> Option<ClusterView> {
    let cluster = broker.cluster()?;
    let status = cluster.status();
    let leading = leading(broker);
    let catalogue = broker.catalogue();
    let own = cluster.identity().node;
    let replicated = catalogue.queues(None).filter(|q| !q.members().is_empty());
    let leaders_known: usize = leading.values().sum();
    let nodes = catalogue.nodes().map(|node| ClusterNode {
        number: node.node,
        name: catalogue.node_label(node.id()).unwrap_or_default(),
        uuid: process::uuid_text(node.uuid),
        address: node.address.clone(),
        up: node.id() == own || broker.peers().is_up(node.id()),
        votes: status
            .membership
            .voters
            .iter()
            .any(|voter| voter.node() == node.id()),
        draining: node.draining,
        leading: leading.get(&node.id()).copied().unwrap_or(0),
        ..load(&catalogue, node.id())
    });
    Some(ClusterView {
        id: process::uuid_text(cluster.identity().cluster),
        own: own.0,
        leader: status.leader.map(|leader| leader.node().0),
        term: status.term,
        committed: status.commit,
        applied: status.applied,
        leaders_unknown: replicated.count().saturating_sub(leaders_known),
        nodes: nodes.collect(),
    })
}

/// How many queues each node leads now, of those that have a member here.
fn leading(broker: &Broker) -> BTreeMap<NodeId, usize> {
    let mut leading = BTreeMap::new();
    for shard in 0..broker.settings().shard_count {
        for status in broker.shard(ShardId(shard)).replica_statuses() {
            if let Some(leader) = status.group.leader {
                *leading.entry(leader.node()).or_default() += 1;
            }
        }
    }
    leading
}

fn load(catalogue: &Catalogue, node: NodeId) -> ClusterNode {
    let mut load = ClusterNode::default();
    for queue in catalogue.queues(None) {
        let members = queue.members();
        load.members += usize::from(members.iter().any(|member| member.node() == node));
        load.leads += usize::from(members.first().is_some_and(|first| first.node() == node));
        load.homes += usize::from(members.is_empty() && queue.home() == node);
    }
    load
}

/// Changes the cluster; answers how many queues it concerns.
pub fn change(broker: &Broker, change: &ClusterChange) -> Result<usize, String> {
    if broker.cluster().is_none() {
        return Err("this node is in no cluster: start it with --cluster".to_owned());
    }
    match change {
        ClusterChange::Forget { node } => forget(broker, node),
        ClusterChange::Drain { node, draining } => {
            let node = named(broker, node)?.node;
            let draining = *draining;
            execute(broker, &Command::NodeDrain { node, draining })?;
            Ok(0)
        }
        ClusterChange::Transfer { vhost, queue, node } => transfer(broker, vhost, queue, node),
        ClusterChange::Grow {
            node,
            vhosts,
            queues,
        } => {
            let node = named(broker, node)?.id();
            regroup(broker, vhosts, queues, |record, incarnation| {
                grown(record, node, incarnation)
            })
        }
        ClusterChange::Shrink {
            node,
            vhosts,
            queues,
        } => {
            let node = named(broker, node)?.id();
            regroup(broker, vhosts, queues, |record, _| shrunk(record, node))
        }
        ClusterChange::Rebalance => Ok(rebalance(broker)),
    }
}

fn execute(broker: &Broker, command: &Command) -> Result<(), String> {
    broker
        .execute_in_cluster(command)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The node of that number or name.
fn named(broker: &Broker, name: &str) -> Result<NodeRecord, String> {
    let catalogue = broker.catalogue();
    let number = name.parse().ok();
    let label = |node: &NodeRecord| catalogue.node_label(node.id()).unwrap_or_default();
    let found = catalogue
        .nodes()
        .find(|node| Some(node.node) == number || label(node) == name);
    found.cloned().ok_or_else(|| {
        let known: Vec<_> = catalogue
            .nodes()
            .map(|node| format!("{} ({})", node.node, label(node)))
            .collect();
        format!(
            "the cluster has no node {name}; it has {}",
            known.join(", ")
        )
    })
}

fn forget(broker: &Broker, name: &str) -> Result<usize, String> {
    let node = named(broker, name)?;
    if node.id() == broker.node_id() {
        return Err("a node cannot forget itself: ask another one".to_owned());
    }
    if broker.peers().is_up(node.id()) {
        return Err(format!(
            "node {name} is running: stop it first, or drain it if it is to come back"
        ));
    }
    let queues = load(&broker.catalogue(), node.id());
    execute(broker, &Command::NodeForget { node: node.node })?;
    Ok(queues.members + queues.homes)
}

fn transfer(broker: &Broker, vhost: &str, queue: &str, to: &str) -> Result<usize, String> {
    let to = named(broker, to)?.id();
    if queue.is_empty() {
        let cluster = broker.cluster().ok_or("this node is in no cluster")?;
        if cluster.leader() != Some(broker.node_id()) {
            return Err("another node leads the catalogue: ask that one".to_owned());
        }
        cluster.transfer(to);
        broker.wake_cluster();
        return Ok(0);
    }
    let (id, mut members) = {
        let catalogue = broker.catalogue();
        let record = catalogue
            .queue_by_name(vhost, queue)
            .ok_or_else(|| format!("no queue '{queue}' in vhost '{vhost}'"))?;
        (record.id(), record.members().to_vec())
    };
    let at = members.iter().position(|member| member.node() == to);
    let Some(at) = at else {
        return Err(format!("queue '{queue}' has no member on node {to}"));
    };
    // The one that leads from now on is the one that is to lead after the next return of a node.
    members.swap(0, at);
    set_members(broker, id, &members, None)?;
    leveret_node::cluster::transfer(broker.now(), id, to, broker);
    broker.run_deferred_work();
    Ok(1)
}

/// Sets a queue's members; `size` is how many it is to have from now on, where that changes.
fn set_members(
    broker: &Broker,
    queue: QueueId,
    members: &[ReplicaId],
    size: Option<usize>,
) -> Result<(), String> {
    let members = members.iter().map(|member| member.0).collect();
    let size = size.and_then(|size| u32::try_from(size).ok());
    let id = queue.0;
    execute(broker, &Command::QueueMembers { id, members, size })
}

/// Changes the members of the queues that match, where `change` says how.
fn regroup(
    broker: &Broker,
    vhosts: &str,
    queues: &str,
    change: impl Fn(&QueueRecord, u32) -> Option<Vec<ReplicaId>>,
) -> Result<usize, String> {
    let pattern = |text| Pattern::new(text).map_err(|error| error.to_string());
    let (vhosts, queues) = (pattern(vhosts)?, pattern(queues)?);
    let changes: Vec<(QueueId, Vec<ReplicaId>)> = {
        let catalogue = broker.catalogue();
        let incarnation = catalogue.next_incarnation();
        let matching = catalogue
            .queues(None)
            .filter(|record| vhosts.matches(record.vhost()) && queues.matches(record.name()));
        matching
            .filter_map(|record| Some((record.id(), change(record, incarnation)?)))
            .collect()
    };
    for (queue, members) in &changes {
        // An operator's word holds: what was taken away does not come back by itself.
        set_members(broker, *queue, members, Some(members.len()))?;
    }
    Ok(changes.len())
}

fn grown(record: &QueueRecord, node: NodeId, incarnation: u32) -> Option<Vec<ReplicaId>> {
    let mut members = record.members().to_vec();
    if members.is_empty() || members.iter().any(|member| member.node() == node) {
        return None;
    }
    members.push(ReplicaId::new(node, incarnation));
    Some(members)
}

fn shrunk(record: &QueueRecord, node: NodeId) -> Option<Vec<ReplicaId>> {
    let mut members = record.members().to_vec();
    let before = members.len();
    members.retain(|member| member.node() != node);
    (!members.is_empty() && members.len() < before).then_some(members)
}

/// Spreads the leaders over the nodes that are up, each queue among its members, and moves those
/// that are elsewhere.
fn rebalance(broker: &Broker) -> usize {
    let wanted = {
        let catalogue = broker.catalogue();
        spread(&catalogue, |node| {
            let draining = catalogue.node(node).is_none_or(|node| node.draining);
            !draining && (node == broker.node_id() || broker.peers().is_up(node))
        })
    };
    let mut moved = 0;
    for (queue, members) in wanted {
        let to = members[0].node();
        if set_members(broker, queue, &members, None).is_ok() {
            leveret_node::cluster::transfer(broker.now(), queue, to, broker);
            moved += 1;
        }
    }
    broker.run_deferred_work();
    moved
}

/// Whose first member changes so that no node leads more queues than it must.
fn spread(
    catalogue: &Catalogue,
    may_lead: impl Fn(NodeId) -> bool,
) -> Vec<(QueueId, Vec<ReplicaId>)> {
    let mut queues: Vec<&QueueRecord> = catalogue
        .queues(None)
        .filter(|record| record.members().len() > 1)
        .collect();
    queues.sort_unstable_by_key(|record| record.id());
    let mut leads = BTreeMap::<NodeId, usize>::new();
    for record in &queues {
        *leads.entry(record.members()[0].node()).or_default() += 1;
    }
    let mut changes = Vec::new();
    for record in queues {
        let members = record.members();
        let from = members[0].node();
        let load = |node: NodeId| leads.get(&node).copied().unwrap_or(0);
        let best = (0..members.len())
            .filter(|at| may_lead(members[*at].node()))
            .min_by_key(|at| load(members[*at].node()));
        let Some(at) = best.filter(|at| *at != 0) else {
            continue;
        };
        let to = members[at].node();
        if may_lead(from) && load(to) + 1 >= load(from) {
            continue;
        }
        *leads.entry(from).or_default() -= 1;
        *leads.entry(to).or_default() += 1;
        let mut members = members.to_vec();
        members.swap(0, at);
        changes.push((record.id(), members));
    }
    changes
}

/// The replicated queues with members that are up on fewer nodes than make a majority, or whose
/// member here knows of no leader that is up.
pub fn leaderless_queues(broker: &Broker) -> Vec<(String, String)> {
    replicated(broker, |queue, nodes| {
        let up = nodes.iter().filter(|node| is_up(broker, **node)).count();
        if !nodes.contains(&broker.node_id()) {
            return up * 2 <= nodes.len();
        }
        let shard = broker.shard(broker.shard_of(queue));
        let leader = shard.replica_leader(queue);
        leader.is_none_or(|leader| !is_up(broker, leader))
    })
}

/// The replicated queues that would lose their majority with this node; none on a node alone.
pub fn critical_queues(broker: &Broker) -> Vec<(String, String)> {
    replicated(broker, |_, nodes| {
        let others = nodes.iter().filter(|node| **node != broker.node_id());
        let left = others.filter(|node| is_up(broker, **node)).count();
        nodes.contains(&broker.node_id()) && left * 2 <= nodes.len()
    })
}

fn is_up(broker: &Broker, node: NodeId) -> bool {
    node == broker.node_id() || broker.peers().is_up(node)
}

/// Virtual host and name of the replicated queues that are as asked, by id and nodes; none of a
/// node alone, which has nobody to lose.
fn replicated(
    broker: &Broker,
    wanted: impl Fn(QueueId, &[NodeId]) -> bool,
) -> Vec<(String, String)> {
    if broker.cluster().is_none() {
        return Vec::new();
    }
    let all: Vec<_> = {
        let catalogue = broker.catalogue();
        let replicated = catalogue
            .queues(None)
            .filter(|queue| !queue.members().is_empty());
        replicated
            .map(|queue| {
                let nodes: Vec<_> = queue.members().iter().map(|member| member.node()).collect();
                (
                    queue.id(),
                    queue.vhost().to_owned(),
                    queue.name().to_owned(),
                    nodes,
                )
            })
            .collect()
    };
    let wanted = all
        .into_iter()
        .filter(|(queue, _, _, nodes)| wanted(*queue, nodes));
    wanted.map(|(_, vhost, name, _)| (vhost, name)).collect()
}
