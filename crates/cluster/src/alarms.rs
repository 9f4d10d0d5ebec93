//! The effects of one node's alarms on the others: which publishers wait, and who leads.
//!
//! A node's alarm holds back all publishers that are connected to it. Publishers at other nodes
//! wait where a message could only be kept by nodes with alarms: see [`blocked_by`]. A node whose
//! disk is full hands over what it leads to members that have space:
//! [`super::hand_over_leaders`].

use super::state::{Cluster, lock};
use crate::env::Env;
use leveret_metadata::QueueRecord;
use leveret_queue_host::alarms::Alarms;
use leveret_types::{NodeId, Now, QueueId, QueueKind};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Why publishers to a queue wait: the node that leads it has an alarm, or its members that are up
/// and have none are no majority while others have one. Nothing if they do not wait. A queue that
/// is on one node has that as its only member.
pub fn blocked_by<E: Env>(
    members: &[NodeId],
    leader: Option<NodeId>,
    env: &E,
) -> Option<&'static str> {
    let is_up = |node: NodeId| node == env.node_id() || env.peers().is_up(node);
    reason_of(members, leader, |node| env.alarms_of(node), is_up)
}

fn reason_of(
    members: &[NodeId],
    leader: Option<NodeId>,
    alarms_of: impl Fn(NodeId) -> Alarms,
    is_up: impl Fn(NodeId) -> bool,
) -> Option<&'static str> {
    if let Some(reason) = leader.and_then(|leader| alarms_of(leader).reason()) {
        return Some(reason);
    }
    let has_none = |node: &&NodeId| alarms_of(**node).reason().is_none();
    let able = members.iter().filter(has_none);
    if 2 * able.filter(|node| is_up(**node)).count() > members.len() {
        return None;
    }
    let together = members.iter().map(|node| alarms_of(*node));
    together.fold(Alarms::default(), Alarms::or).reason()
}

/// The alarms that any node of the cluster has, as far as it has told this one.
pub fn alarms_together<E: Env>(env: &E) -> Alarms {
    let own = env.alarms();
    if !env.peers().have_alarms() {
        return own;
    }
    let all = env.peers().all();
    all.iter().fold(own, |all, view| all.or(view.alarms))
}

/// The nodes that have a queue, and the one of them that leads it, if the catalogue says that: for
/// a quorum queue it does not.
pub fn members_of(record: &QueueRecord) -> (SmallVec<[NodeId; 5]>, Option<NodeId>) {
    let members = record.members().iter().map(|member| member.node());
    let mut members: SmallVec<[NodeId; 5]> = members.collect();
    let is_led_by_home = members.is_empty() || record.epoch() > 0;
    if members.is_empty() {
        members.push(record.home());
    }
    (members, is_led_by_home.then(|| record.home()))
}

/// Streams to which nobody on this node publishes for now, because of alarms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlockedStreams {
    /// None of them.
    #[default]
    None,
    /// These: see [`blocked_by`].
    These(BTreeSet<QueueId>),
    /// All of them: this node has an alarm itself. What publishers at other nodes send is not
    /// taken either.
    All,
}

impl BlockedStreams {
    /// Whether this stream is one of them.
    #[must_use]
    pub fn has(&self, stream: QueueId) -> bool {
        match self {
            Self::None => false,
            Self::These(streams) => streams.contains(&stream),
            Self::All => true,
        }
    }
}

/// The streams to which nobody on this node may publish now.
pub fn blocked_streams<E: Env>(env: &E) -> BlockedStreams {
    if env.alarms().reason().is_some() {
        return BlockedStreams::All;
    }
    if !env.peers().have_alarms() {
        return BlockedStreams::None;
    }
    let catalogue = env.catalogue();
    let streams = catalogue.queues(None);
    let streams = streams.filter(|record| record.kind() == QueueKind::Stream);
    let is_held = |record: &&QueueRecord| {
        let (members, leader) = members_of(record);
        blocked_by(&members, leader, env).is_some()
    };
    let held: BTreeSet<QueueId> = streams.filter(is_held).map(QueueRecord::id).collect();
    match held.is_empty() {
        true => BlockedStreams::None,
        false => BlockedStreams::These(held),
    }
}

/// Takes in what the other nodes have said of their alarms; answers whether anything is new.
pub fn set_alarms_of<E: Env>(now: Now, nodes: &[(NodeId, Alarms)], env: &E) -> bool {
    let mut any = false;
    for (node, alarms) in nodes {
        let before = env.peers().set_alarms(*node, *alarms);
        any |= before != *alarms;
        if before.disk && !alarms.disk {
            // What it is to lead goes back to it.
            let transfers = env.cluster().map(Cluster::transfers);
            transfers
                .iter()
                .for_each(|transfers| lock(transfers).returned(now, *node));
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Alarms = Alarms {
        memory: false,
        disk: true,
        memory_full: false,
    };

    /// Of nodes 1 to 5, why publishers wait where these have a full disk and these are down.
    fn reason(members: u32, leader: u32, low: &[u32], down: &[u32]) -> Option<&'static str> {
        let members: Vec<NodeId> = (1..=members).map(NodeId).collect();
        let alarms_of = |node: NodeId| match low.contains(&node.0) {
            true => DISK,
            false => Alarms::default(),
        };
        let leader = (leader > 0).then_some(NodeId(leader));
        reason_of(&members, leader, alarms_of, |node| !down.contains(&node.0))
    }

    #[test]
    fn publishers_wait_for_the_leader_and_for_a_majority_and_for_no_other_node() {
        let low = Some("low on disk");
        assert_eq!(reason(3, 1, &[1], &[]), low, "the leader's node");
        assert_eq!(reason(3, 1, &[2], &[]), None, "a follower's");
        assert_eq!(reason(3, 1, &[2, 3], &[]), low, "two of three");
        assert_eq!(reason(3, 0, &[2], &[]), None, "nobody is known to lead");
        assert_eq!(reason(3, 1, &[4, 5], &[]), None, "they are no members");
        assert_eq!(reason(5, 1, &[2, 3], &[]), None);
        assert_eq!(reason(5, 1, &[2, 3, 4], &[]), low);
        assert_eq!(reason(2, 1, &[2], &[]), low, "both must write");
        assert_eq!(reason(1, 1, &[1], &[]), low);
        assert_eq!(reason(1, 1, &[2], &[]), None);
    }

    #[test]
    fn who_is_down_leaves_no_majority_without_the_node_that_has_an_alarm() {
        assert_eq!(reason(3, 1, &[2], &[3]), Some("low on disk"));
        assert_eq!(reason(3, 1, &[], &[2, 3]), None, "that is no alarm");
        assert_eq!(reason(5, 1, &[2], &[3]), None);
    }
}
