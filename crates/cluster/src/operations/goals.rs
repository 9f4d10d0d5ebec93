//! The goals that a plan's commands are to reach.

use crate::env::Env;
use crate::state::Cluster;
use leveret_types::{NodeId, Now, QueueId};

/// What is to come true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A node votes on the catalogue.
    Votes(NodeId),
    /// A node leads the catalogue's group, which this one hands over once.
    CatalogueLedBy(NodeId),
    /// A node leads a queue: see [`LeaderMove`].
    LedBy {
        /// The queue or stream.
        queue: QueueId,
        /// The node.
        node: NodeId,
    },
}

impl Goal {
    /// Whether it is so, as far as is known here; nothing of a queue without a member here: nothing
    /// tells this node. The catalogue may not be borrowed, nor a shard.
    pub fn is_met<E: Env>(self, env: &E) -> Option<bool> {
        match self {
            Self::Votes(node) => {
                let cluster = env.cluster();
                let status = cluster.map(Cluster::status);
                let mut voters = status.iter().flat_map(|status| &status.membership.voters);
                Some(voters.any(|voter| voter.node() == node))
            }
            Self::CatalogueLedBy(node) => {
                Some(env.cluster().and_then(Cluster::leader) == Some(node))
            }
            Self::LedBy { queue, node } if queue.is_stream() => {
                let catalogue = env.catalogue();
                let record = catalogue.queue(queue);
                Some(record.is_some_and(|record| record.home() == node))
            }
            Self::LedBy { queue, node } => {
                let shard = env.shard(env.shard_of(queue));
                shard.replica_status(queue)?;
                Some(shard.replica_leader(queue) == Some(node))
            }
        }
    }
}

/// After which a leader is asked again to hand over: the request may be lost, or fail because
/// another member was ahead.
const HAND_OVER_AGAIN_MS: u64 = 2_000;
/// After which the other nodes are asked again who leads.
const ASK_AGAIN_MS: u64 = 50;

/// A leader that is to change, and what whoever waits for that does meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaderMove {
    /// When the leader was asked to hand over.
    handed_over_ms: Option<u64>,
    /// When the other nodes were asked who leads.
    requested_ms: Option<u64>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// The leader is to be asked to hand over; then there is another step at once.
    HandOver,
    /// The other nodes are to be asked who leads, and [`LeaderMove::told`] what they say.
    Ask,
    /// Nothing, until something has happened.
    Wait,
    /// Nothing more: the leader has changed.
    Done,
}

impl LeaderMove {
    /// Goes on; `is_met` says whether the leader has changed, as far as is known here.
    pub fn step(&mut self, now: Now, is_met: impl FnOnce() -> Option<bool>) -> MoveStep {
        if is_over(self.handed_over_ms, HAND_OVER_AGAIN_MS, now) {
            self.handed_over_ms = Some(now.monotonic_ms);
            return MoveStep::HandOver;
        }
        match is_met() {
            Some(true) => MoveStep::Done,
            Some(false) => MoveStep::Wait,
            None if is_over(self.requested_ms, ASK_AGAIN_MS, now) => MoveStep::Ask,
            None => MoveStep::Wait,
        }
    }

    /// The other nodes have answered whether the leader has changed.
    pub fn told(&mut self, now: Now, is_met: bool) -> MoveStep {
        self.requested_ms = Some(now.monotonic_ms);
        match is_met {
            true => MoveStep::Done,
            false => MoveStep::Wait,
        }
    }
}

/// Whether so many milliseconds have gone by since then, or it never was.
fn is_over(since_ms: Option<u64>, pause_ms: u64, now: Now) -> bool {
    since_ms.is_none_or(|since| now.monotonic_ms.saturating_sub(since) >= pause_ms)
}
