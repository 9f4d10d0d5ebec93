//! The cluster as operators see and change it, over a running node. What may be done, and what it
//! comes down to, is decided by [`leveret_cluster::operations`].

use super::{process, reports};
use leveret_auth::Pattern;
use leveret_cluster::operations::{
    Availability, CatalogueView, Goal, LeaderMove, Meant, MoveStep, Plan, Planner, Rebalance,
    Refused,
};
use leveret_cluster::{Env as _, Group};
use leveret_management::cluster::{ClusterChange, ClusterNode, ClusterView};
use leveret_management::question::Question;
use leveret_metadata::{CatalogueError, Command, QueueRecord};
use leveret_shell::broker::Broker;
use leveret_shell::cluster::electorate::Electorate;
use leveret_types::{NodeId, QueueId};
use std::time::{Duration, Instant};

/// The cluster, seen from this node; none if it is in none.
pub fn view(broker: &Broker) -> Option<ClusterView> {
    let cluster = broker.cluster()?;
    let status = cluster.status();
    let leading = leveret_cluster::leaders_known(broker);
    let leaders_unknown = leaderless_queues(broker).len();
    let catalogue = broker.catalogue();
    let loads = leveret_cluster::loads(&catalogue);
    let own = cluster.identity().node;
    let nodes = catalogue.nodes().map(|node| {
        let load = loads.get(&node.id()).copied().unwrap_or_default();
        ClusterNode {
            number: node.node,
            name: catalogue.node_label(node.id()).unwrap_or_default(),
            uuid: process::uuid_text(node.uuid),
            address: node.address.clone(),
            up: node.id() == own || broker.peers().is_up(node.id()),
            unsent_bytes: broker.unsent_to_peer_bytes(node.id()) as u64,
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
            members: load.members,
            leads: load.leads,
            leading: leading.get(&node.id()).copied().unwrap_or(0),
            homes: load.homes,
        }
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

/// Changes the cluster; answers how many queues it concerns.
pub fn change(broker: &Broker, change: &ClusterChange) -> Result<usize, String> {
    let work = plan(broker, |planner| wanted(planner, change));
    let done = work.and_then(|work| match work {
        Work::Plan(plan) => carry_out(broker, plan),
        Work::Rebalance(moves) => rebalance(broker, moves),
    });
    done.map_err(|refused| in_words(broker, &refused))
}

/// Why nothing comes of what an operator wants. Of a minority all is said that this node knows.
fn in_words(broker: &Broker, refused: &Refused) -> String {
    let seen = Electorate::seen_by(broker).filter(|seen| !seen.is_majority());
    match (refused, seen) {
        (Refused::NoMajority { .. }, Some(seen)) => format!(
            "nothing can be changed: {seen}; start the others, or mend the network between them"
        ),
        _ => refused.to_string(),
    }
}

/// What is to be done.
enum Work {
    Plan(Plan),
    Rebalance(Rebalance),
}

/// Plans something by what this node knows now.
fn plan<T>(
    broker: &Broker,
    make: impl FnOnce(&Planner<'_>) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let group = CatalogueView::of(broker).ok_or(Refused::NoCluster)?;
    let availability = Availability::of(broker);
    let catalogue = broker.catalogue();
    make(&Planner {
        availability: &availability,
        group: &group,
        catalogue: &catalogue,
    })
}

fn wanted(planner: &Planner<'_>, change: &ClusterChange) -> Result<Work, Refused> {
    let plan = match change {
        ClusterChange::Forget { node } => planner.forget(node),
        ClusterChange::Drain { node, draining } => planner.drain(node, *draining),
        ClusterChange::Promote { node } => planner.promote(node),
        ClusterChange::Transfer { vhost, queue, node } => match queue.is_empty() {
            true => planner.transfer_catalogue(node),
            false => planner.transfer(vhost, queue, node),
        },
        ClusterChange::Grow {
            node,
            vhosts,
            queues,
            even,
        } => matching(vhosts, queues, *even, |meant| planner.grow(node, meant)),
        ClusterChange::GrowTo {
            count,
            vhosts,
            queues,
            even,
        } => matching(vhosts, queues, *even, |meant| {
            Ok(planner.grow_to(*count, meant))
        }),
        ClusterChange::AddMember { vhost, queue, node } => planner.add_member(vhost, queue, node),
        ClusterChange::RemoveMember { vhost, queue, node } => {
            planner.remove_member(vhost, queue, node)
        }
        ClusterChange::Shrink {
            node,
            vhosts,
            queues,
        } => matching(vhosts, queues, false, |meant| planner.shrink(node, meant)),
        ClusterChange::Rebalance { vhosts, queues } => {
            let moves = matching(vhosts, queues, false, |meant| planner.rebalance(meant));
            return moves.map(Work::Rebalance);
        }
    };
    plan.map(Work::Plan)
}

/// Plans for the queues whose virtual host and name match.
fn matching<T>(
    vhosts: &str,
    queues: &str,
    is_even: bool,
    plan: impl FnOnce(Meant<'_>) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let pattern = |text| Pattern::new(text).map_err(CatalogueError::from);
    let (vhosts, queues) = (pattern(vhosts)?, pattern(queues)?);
    let matches =
        |record: &QueueRecord| vhosts.matches(record.vhost()) && queues.matches(record.name());
    plan(Meant {
        matches: &matches,
        is_even,
    })
}

fn carry_out(broker: &Broker, plan: Plan) -> Result<usize, Refused> {
    for command in &plan.commands {
        execute(broker, command)?;
    }
    match plan.goal {
        Some((goal, unmet)) if !is_reached(broker, goal) => Err(unmet),
        _ => Ok(plan.queues),
    }
}

fn rebalance(broker: &Broker, mut moves: Rebalance) -> Result<usize, Refused> {
    while let Some(next) = moves.next_move() {
        let result = execute(broker, &next.command);
        let exists = || broker.catalogue().queue(next.queue).is_some();
        match moves.executed(result, exists) {
            Ok(true) => leveret_cluster::transfer(broker.now(), next.queue, next.to, broker),
            Ok(false) => {}
            Err(refused) => {
                broker.run_deferred_work();
                return Err(refused);
            }
        }
    }
    broker.run_deferred_work();
    Ok(moves.moved())
}

fn execute(broker: &Broker, command: &Command) -> Result<(), CatalogueError> {
    broker.execute_in_cluster(command).map(drop)
}

/// How long what is to come true has.
const GOAL_WAIT: Duration = Duration::from_secs(10);

/// Whether something comes true in time: looked at whenever the cluster has gone on.
fn is_reached(broker: &Broker, goal: Goal) -> bool {
    let deadline = Instant::now() + GOAL_WAIT;
    let wait = |look: &mut dyn FnMut() -> bool| {
        let met = broker.wait_until(deadline, || look().then_some(()));
        met.is_some()
    };
    match goal {
        Goal::Votes(_) => wait(&mut || goal.is_met(broker) == Some(true)),
        Goal::CatalogueLedBy(node) => {
            if let Some(cluster) = broker.cluster() {
                cluster.transfer(node);
                broker.wake_cluster();
            }
            wait(&mut || goal.is_met(broker) == Some(true))
        }
        Goal::LedBy { queue, node } => {
            let mut moving = LeaderMove::default();
            wait(&mut || has_moved(broker, &mut moving, queue, node))
        }
    }
}

/// Carries the move of a leader on; whether it is done.
fn has_moved(broker: &Broker, moving: &mut LeaderMove, queue: QueueId, node: NodeId) -> bool {
    let goal = Goal::LedBy { queue, node };
    let mut step = moving.step(broker.now(), || goal.is_met(broker));
    if step == MoveStep::HandOver {
        leveret_cluster::transfer(broker.now(), queue, node, broker);
        broker.run_deferred_work();
        step = moving.step(broker.now(), || goal.is_met(broker));
    }
    if step == MoveStep::Ask {
        let leads = says_it_leads(broker, queue, node);
        step = moving.told(broker.now(), leads);
    }
    step == MoveStep::Done
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
    let node = plan(broker, |planner| match adds {
        true => planner.node_for_member(node),
        false => planner.named(node).map(leveret_metadata::NodeRecord::id),
    });
    let node = node.map_err(|refused| in_words(broker, &refused))?;
    broker.change_stream_replica(stream, node, adds)?;
    Ok(true)
}

/// The replicated queues and streams that nobody leads, or too few members are up for.
pub fn leaderless_queues(broker: &Broker) -> Vec<(String, String)> {
    groups(broker, |group, availability| {
        group.is_leaderless(availability, || {
            let shard = broker.shard(broker.shard_of(group.id));
            shard.replica_leader(group.id)
        })
    })
}

/// The replicated queues that would lose their majority with this node; none on a node alone.
pub fn critical_queues(broker: &Broker) -> Vec<(String, String)> {
    groups(broker, Group::needs_this_node)
}

/// Virtual host and name of the replicated queues and streams that are as asked; none of a node
/// alone, which has nobody to lose.
fn groups(
    broker: &Broker,
    wanted: impl Fn(&Group, &Availability) -> bool,
) -> Vec<(String, String)> {
    if broker.cluster().is_none() {
        return Vec::new();
    }
    let all = Group::all(&broker.catalogue());
    let availability = Availability::of(broker);
    let wanted = all.into_iter().filter(|group| wanted(group, &availability));
    wanted.map(|group| (group.vhost, group.name)).collect()
}
