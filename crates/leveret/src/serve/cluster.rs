//! The cluster as operators see and change it, over a running node.

use super::{process, reports};
use leveret_auth::Pattern;
use leveret_cluster::Env as _;
use leveret_management::cluster::{ClusterChange, ClusterNode, ClusterView};
use leveret_management::question::Question;
use leveret_metadata::{Catalogue, Command, NodeRecord, QueueKind, QueueRecord};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::limits::{GROUP_MEMBERS_MAX, NODE_STAY_MS};
use leveret_types::{NodeId, QueueId, ReplicaId, ShardId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The cluster, seen from this node; none if it is in none.
pub fn view(broker: &Broker) -> Option<ClusterView> {
    let cluster = broker.cluster()?;
    let status = cluster.status();
    let (leading, leaders_unknown) = (leading(broker), leaderless_queues(broker).len());
    let catalogue = broker.catalogue();
    let own = cluster.identity().node;
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
        is_to_vote: node.votes,
        draining: node.draining,
        outdated: match node.id() == own {
            true => cluster.missing_start().is_some(),
            false => broker.peers().is_outdated(node.id()),
        },
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
        leaders_unknown,
        nodes: nodes.collect(),
    })
}

/// How many queues each node leads now, of those that have a member here, and of all streams.
fn leading(broker: &Broker) -> BTreeMap<NodeId, usize> {
    let mut leading = BTreeMap::new();
    for stream in broker.catalogue().queues(None) {
        if stream.id().is_stream() && !stream.members().is_empty() {
            *leading.entry(stream.home()).or_default() += 1;
        }
    }
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
        ClusterChange::Promote { node } => promote(broker, node),
        ClusterChange::Transfer { vhost, queue, node } => transfer(broker, vhost, queue, node),
        ClusterChange::Grow {
            node,
            vhosts,
            queues,
            even,
        } => {
            let node = voting(broker, node)?.id();
            regroup(broker, vhosts, queues, |record, incarnation| {
                let members = meant(record, *even)?;
                grown(members, node, incarnation)
            })
        }
        ClusterChange::GrowTo {
            count,
            vhosts,
            queues,
            even,
        } => {
            let mut nodes = nodes_for_members(broker);
            regroup(broker, vhosts, queues, |record, incarnation| {
                let members = meant(record, *even)?;
                grown_to(members, *count, &mut nodes, incarnation)
            })
        }
        ClusterChange::AddMember { vhost, queue, node } => add_member(broker, vhost, queue, node),
        ClusterChange::RemoveMember { vhost, queue, node } => {
            remove_member(broker, vhost, queue, node)
        }
        ClusterChange::Shrink {
            node,
            vhosts,
            queues,
        } => {
            let node = named(broker, node)?.id();
            regroup(broker, vhosts, queues, |record, _| {
                shrunk(record.members(), node)
            })
        }
        ClusterChange::Rebalance => rebalance(broker),
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

/// The node of that number or name, if it may have members of replicated queues: on one that has
/// just joined, and may go again, they would count in the queues' majorities.
fn voting(broker: &Broker, name: &str) -> Result<NodeRecord, String> {
    let node = named(broker, name)?;
    if node.votes {
        return Ok(node);
    }
    Err(format!(
        "node {name} has joined just now and does not vote yet, so that it gets no members of \
         queues: wait until it has stayed for {} s, or say that it stays with `leveret cluster \
         promote {name}`",
        NODE_STAY_MS / 1_000,
    ))
}

/// Lets a node vote; returns when it does.
fn promote(broker: &Broker, name: &str) -> Result<usize, String> {
    let node = named(broker, name)?;
    check_majority(broker)?;
    execute(broker, &Command::NodePromote { node: node.node })?;
    let votes = || {
        let status = broker.cluster().map(|cluster| cluster.status());
        let mut voters = status
            .into_iter()
            .flat_map(|status| status.membership.voters);
        voters.any(|voter| voter.node() == node.id())
    };
    match comes_true(broker, votes) {
        true => Ok(0),
        false => Err(format!(
            "node {name} does not vote yet: it does as soon as it is up and has caught up; see \
             `leveret cluster status`"
        )),
    }
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
        let has_moved = || cluster.leader() == Some(to);
        return match comes_true(broker, has_moved) {
            true => Ok(0),
            false => Err(format!("the catalogue is not led by node {to}: {STAYED}")),
        };
    }
    let (id, mut members) = group(broker, vhost, queue)?;
    let at = members.iter().position(|member| member.node() == to);
    let Some(at) = at else {
        return Err(format!("queue '{queue}' has no member on node {to}"));
    };
    check_majority(broker)?;
    if !id.is_stream() {
        // The one that leads from now on is the one that is to lead after the next return of a
        // node. A stream stays with its leader anyway.
        members.swap(0, at);
        set_members(broker, id, &members, None)?;
    }
    let (mut asked, mut asked_others) = (None, None);
    let has_moved = || {
        // A wish may be lost, or fail because another member was ahead.
        if asked.is_none_or(|at: Instant| at.elapsed() >= TRANSFER_AGAIN) {
            asked = Some(Instant::now());
            leveret_cluster::transfer(broker.now(), id, to, broker);
            broker.run_deferred_work();
        }
        leads(broker, id, to).unwrap_or_else(|| {
            // Nothing tells a node without a member of the queue: it has to ask, now and then.
            let is_time = asked_others.is_none_or(|at: Instant| at.elapsed() >= ASK_AGAIN);
            let leads = is_time && says_it_leads(broker, id, to);
            if is_time {
                asked_others = Some(Instant::now());
            }
            leads
        })
    };
    match comes_true(broker, has_moved) {
        true => Ok(1),
        false => Err(format!("queue '{queue}' is not led by node {to}: {STAYED}")),
    }
}

/// What to do about a leader that stays.
const STAYED: &str = "that node's member may be behind, or not follow; see `rabbitmqctl \
                      quorum_status` or `rabbitmq-streams stream_status`, and the logs of both nodes";
/// How long a leader has to change.
const TRANSFER_WAIT: Duration = Duration::from_secs(10);
/// After which it is asked for again.
const TRANSFER_AGAIN: Duration = Duration::from_secs(2);
/// After which the other nodes are asked again who leads.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Whether something comes true in time: looked at whenever the cluster has gone on.
fn comes_true(broker: &Broker, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + TRANSFER_WAIT;
    let is_true = broker.wait_until(deadline, || holds().then_some(()));
    is_true.is_some()
}

/// Whether the member on a node leads a queue, as is known here: by the member here, of a stream by
/// the catalogue. Nothing where there is no member here.
fn leads(broker: &Broker, queue: QueueId, node: NodeId) -> Option<bool> {
    if queue.is_stream() {
        let catalogue = broker.catalogue();
        let record = catalogue.queue(queue);
        return Some(record.is_some_and(|record| record.home() == node));
    }
    let shard = broker.shard(broker.shard_of(queue));
    shard.replica_status(queue)?;
    Some(shard.replica_leader(queue) == Some(node))
}

/// Whether that node says that its member leads the queue.
fn says_it_leads(broker: &Broker, queue: QueueId, node: NodeId) -> bool {
    let question = Question::Replica { queue: queue.0 };
    let answers = reports::ask_others(broker, &question.encode());
    let mut told = answers.iter().filter(|(from, _)| *from == node);
    told.any(|(_, bytes)| {
        let row: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
        row.is_some_and(|row| row["Raft State"] == "leader")
    })
}

/// A queue and its members; none if it is not replicated.
fn group(broker: &Broker, vhost: &str, queue: &str) -> Result<(QueueId, Vec<ReplicaId>), String> {
    let catalogue = broker.catalogue();
    let record = catalogue
        .queue_by_name(vhost, queue)
        .ok_or_else(|| format!("no queue '{queue}' in vhost '{vhost}'"))?;
    Ok((record.id(), record.members().to_vec()))
}

fn add_member(broker: &Broker, vhost: &str, queue: &str, node: &str) -> Result<usize, String> {
    let to = voting(broker, node)?.id();
    if !is_up(broker, to) {
        return Err(format!("node {node} is not running"));
    }
    let (id, members) = group(broker, vhost, queue)?;
    if members.is_empty() {
        return Err(not_replicated(vhost, queue));
    }
    let incarnation = broker.catalogue().next_incarnation();
    let Some(members) = grown(&members, to, incarnation) else {
        return Ok(0);
    };
    set_members(broker, id, &members, Some(members.len()))?;
    Ok(1)
}

fn remove_member(broker: &Broker, vhost: &str, queue: &str, node: &str) -> Result<usize, String> {
    let from = named(broker, node)?.id();
    let (id, members) = group(broker, vhost, queue)?;
    if members.is_empty() {
        return Err(not_replicated(vhost, queue));
    }
    if members.iter().all(|member| member.node() == from) {
        return Err(format!(
            "the only member of queue '{queue}' in vhost '{vhost}' is on node {node}: delete the queue"
        ));
    }
    let Some(members) = shrunk(&members, from) else {
        return Ok(0);
    };
    set_members(broker, id, &members, Some(members.len()))?;
    Ok(1)
}

/// Gives a stream that this node leads a replica on a node, or takes that one away. It is
/// false if another node leads the stream.
///
/// # Errors
/// Why nothing changes, for an operator.
pub fn change_stream_replica(
    broker: &Broker,
    stream: QueueId,
    node: &str,
    adds: bool,
) -> Result<bool, String> {
    if broker.streams.members(stream).is_none() {
        return Ok(false);
    }
    let node = match adds {
        true => voting(broker, node)?.id(),
        false => named(broker, node)?.id(),
    };
    if adds && !is_up(broker, node) {
        return Err(format!("node {node} is not running"));
    }
    broker.change_stream_replica(stream, node, adds)?;
    Ok(true)
}

fn not_replicated(vhost: &str, queue: &str) -> String {
    format!("queue '{queue}' in vhost '{vhost}' is not replicated")
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
    mut change: impl FnMut(&QueueRecord, u32) -> Option<Vec<ReplicaId>>,
) -> Result<usize, String> {
    let pattern = |text| Pattern::new(text).map_err(|error| error.to_string());
    let (vhosts, queues) = (pattern(vhosts)?, pattern(queues)?);
    let changes: Vec<(QueueId, Vec<ReplicaId>)> = {
        let catalogue = broker.catalogue();
        let incarnation = catalogue.next_incarnation();
        let matching = catalogue
            .queues(None)
            .filter(|record| record.kind() != QueueKind::Stream)
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

/// The members of a queue; none if only those are meant that have an even number, and it has not.
fn meant(record: &QueueRecord, even: bool) -> Option<&[ReplicaId]> {
    let members = record.members();
    (!even || members.len().is_multiple_of(2)).then_some(members)
}

/// These members and one on a node; nothing if that has one, or there is no group or no room in it.
fn grown(members: &[ReplicaId], node: NodeId, incarnation: u32) -> Option<Vec<ReplicaId>> {
    let mut members = members.to_vec();
    let has_room = (1..GROUP_MEMBERS_MAX).contains(&members.len());
    if !has_room || members.iter().any(|member| member.node() == node) {
        return None;
    }
    members.push(ReplicaId::new(node, incarnation));
    Some(members)
}

/// The nodes that can have new members, with how many they have.
fn nodes_for_members(broker: &Broker) -> BTreeMap<NodeId, usize> {
    let catalogue = broker.catalogue();
    let nodes = catalogue.nodes().filter(|node| node.takes_members());
    let nodes = nodes
        .map(|node| node.id())
        .filter(|node| is_up(broker, *node));
    nodes
        .map(|node| (node, load(&catalogue, node).members))
        .collect()
}

/// These members and more on the nodes that have least, which are counted there, until there are
/// `count` or no node is left; nothing if none comes.
fn grown_to(
    members: &[ReplicaId],
    count: usize,
    nodes: &mut BTreeMap<NodeId, usize>,
    incarnation: u32,
) -> Option<Vec<ReplicaId>> {
    let mut wanted = members.to_vec();
    while wanted.len() < count {
        let is_free = |node: NodeId| wanted.iter().all(|member| member.node() != node);
        let free = nodes.iter_mut().filter(|(node, _)| is_free(**node));
        let Some((node, load)) = free.min_by_key(|(_, load)| **load) else {
            break;
        };
        match grown(&wanted, *node, incarnation) {
            Some(more) => wanted = more,
            None => break,
        }
        *load += 1;
    }
    (wanted.len() > members.len()).then_some(wanted)
}

fn shrunk(members: &[ReplicaId], node: NodeId) -> Option<Vec<ReplicaId>> {
    let mut members = members.to_vec();
    let before = members.len();
    members.retain(|member| member.node() != node);
    (!members.is_empty() && members.len() < before).then_some(members)
}

/// Spreads the leaders over the nodes that are up, each queue among its members, and moves those
/// that are elsewhere.
fn rebalance(broker: &Broker) -> Result<usize, String> {
    check_majority(broker)?;
    let wanted = {
        let catalogue = broker.catalogue();
        spread(&catalogue, |node| {
            let draining = catalogue.node(node).is_none_or(|node| node.draining);
            let is_up = node == broker.node_id() || broker.peers().is_up(node);
            !draining && is_up && !broker.alarms_of(node).disk
        })
    };
    let mut moved = 0;
    for (queue, members) in wanted {
        let to = members[0].node();
        match set_members(broker, queue, &members, None) {
            Ok(()) => leveret_cluster::transfer(broker.now(), queue, to, broker),
            Err(_) if broker.catalogue().queue(queue).is_none() => continue,
            Err(error) => {
                broker.run_deferred_work();
                return Err(format!(
                    "{error}; the leaders of {moved} queues were moved before"
                ));
            }
        }
        moved += 1;
    }
    broker.run_deferred_work();
    Ok(moved)
}

/// Whether the cluster can agree on anything, as far as this node knows.
fn check_majority(broker: &Broker) -> Result<(), String> {
    let status = broker.cluster().map(|cluster| cluster.status());
    let Some(status) = status else { return Ok(()) };
    let voters = &status.membership;
    if voters.has_majority(|voter| is_up(broker, voter.node())) {
        return Ok(());
    }
    let up = voters.voters.iter();
    let up = up.filter(|voter| is_up(broker, voter.node())).count();
    Err(format!(
        "nothing can be changed: this node reaches {up} of the cluster's {} voting nodes, itself \
         included, which is no majority; start the others, or mend the network between them",
        voters.voters.len(),
    ))
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

/// The replicated queues and streams with members that are up on fewer nodes than make a majority,
/// or whose leader is not up: that of a stream as all nodes know it, that of a queue as its member
/// here does.
pub fn leaderless_queues(broker: &Broker) -> Vec<(String, String)> {
    let is_down = |leader: NodeId| !is_up(broker, leader);
    replicated(broker, |queue, nodes| {
        let up = nodes.iter().filter(|node| is_up(broker, **node)).count();
        if queue.id.is_stream() {
            return up * 2 <= nodes.len() || is_down(queue.home);
        }
        if !nodes.contains(&broker.node_id()) {
            return up * 2 <= nodes.len();
        }
        let shard = broker.shard(broker.shard_of(queue.id));
        shard.replica_leader(queue.id).is_none_or(is_down)
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

/// A queue that has members, as the catalogue has it.
struct Replicated {
    id: QueueId,
    /// Of a stream the node that leads it.
    home: NodeId,
    vhost: String,
    name: String,
}

/// Virtual host and name of the replicated queues and streams that are as asked, by their records
/// and nodes; none of a node alone, which has nobody to lose.
fn replicated(
    broker: &Broker,
    wanted: impl Fn(&Replicated, &[NodeId]) -> bool,
) -> Vec<(String, String)> {
    if broker.cluster().is_none() {
        return Vec::new();
    }
    let all: Vec<_> = {
        let catalogue = broker.catalogue();
        let replicated = catalogue
            .queues(None)
            .filter(|queue| !queue.members().is_empty());
        let known = replicated.map(|queue| {
            let nodes: Vec<_> = queue.members().iter().map(|member| member.node()).collect();
            let known = Replicated {
                id: queue.id(),
                home: queue.home(),
                vhost: queue.vhost().to_owned(),
                name: queue.name().to_owned(),
            };
            (known, nodes)
        });
        known.collect()
    };
    let wanted = all
        .into_iter()
        .filter(|(queue, nodes)| wanted(queue, nodes));
    wanted.map(|(queue, _)| (queue.vhost, queue.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(nodes: &[u32]) -> Vec<ReplicaId> {
        let members = nodes.iter().map(|node| ReplicaId::new(NodeId(*node), 0));
        members.collect()
    }

    fn nodes_of(members: Option<Vec<ReplicaId>>) -> Option<Vec<u32>> {
        members.map(|members| members.iter().map(|member| member.node().0).collect())
    }

    #[test]
    fn new_members_go_to_the_nodes_that_have_least() {
        let mut nodes: BTreeMap<_, _> = [(1, 4), (2, 0), (3, 1), (4, 1)]
            .map(|(node, members)| (NodeId(node), members))
            .into();
        let mut grow =
            |from: &[u32], count| nodes_of(grown_to(&members(from), count, &mut nodes, 7));
        assert_eq!(grow(&[1], 3), Some(vec![1, 2, 3]));
        // What the first queue got is counted for the second one.
        assert_eq!(grow(&[2], 3), Some(vec![2, 4, 3]));
        assert_eq!(grow(&[1, 2], 9), Some(vec![1, 2, 4, 3]));
        for (enough, count) in [
            (&[1, 2, 3][..], 3),
            (&[1, 2, 3], 2),
            (&[1, 2, 3, 4], 5),
            (&[], 3),
        ] {
            assert_eq!(grow(enough, count), None, "{enough:?} to {count}");
        }
    }

    #[test]
    fn a_member_comes_once_and_the_last_one_does_not_go() {
        let grow = |from: &[u32], node| nodes_of(grown(&members(from), NodeId(node), 7));
        assert_eq!(grow(&[1, 2], 3), Some(vec![1, 2, 3]));
        assert_eq!(grow(&[1, 2], 2), None);
        assert_eq!(grow(&[], 2), None);
        let all: Vec<u32> = (0..GROUP_MEMBERS_MAX as u32).collect();
        assert_eq!(grow(&all, 99), None);
        let shrink = |from: &[u32], node| nodes_of(shrunk(&members(from), NodeId(node)));
        assert_eq!(shrink(&[1, 2], 1), Some(vec![2]));
        assert_eq!(shrink(&[1, 2], 3), None);
        assert_eq!(shrink(&[1], 1), None);
    }
}
