//! The surroundings that a queue's host may use while it runs.

use crate::effects::ShardEffects;
use crate::peer_rooms::PeerRooms;
use crate::queue_host::HostContext;
use crate::quorum::Clients;
use crate::quorum::protocol::Answer;
use crate::quorum::replica::Transfers;
use leveret_queue::Effect;
use leveret_storage::ShardLogs;
use leveret_types::{NodeId, Now};

/// What the hosts of a shard's queues may reach while they run.
pub struct ShardContext<'a> {
    /// The moment.
    pub now: Now,
    /// This node.
    pub node: NodeId,
    /// Other nodes that are up.
    pub up: &'a [NodeId],
    /// Whether this node has been silent for so long that other members may lead in the place of
    /// those here, without their knowing.
    pub may_be_deposed: bool,
    /// Whether this node's data folder is an older copy of itself: its members may have voted and
    /// acknowledged what they do not know of, and take no part in elections.
    pub is_outdated: bool,
    /// The shard's logs.
    pub logs: &'a mut ShardLogs,
    /// What is to happen outside the shard.
    pub effects: &'a mut ShardEffects,
    /// What leaders say to remote queues, those on this node included.
    pub answers: &'a mut Vec<Answer>,
    /// States of queues on their way to other nodes.
    pub transfers: &'a Transfers,
    /// Room on the way to other nodes.
    pub peer_rooms: &'a mut PeerRooms,
    /// The clients of this node.
    pub clients: &'a mut dyn Clients,
    /// What queue machines want done: empty between calls.
    pub scratch: &'a mut Vec<Effect>,
}

impl ShardContext<'_> {
    /// The part of it that a queue reaches which is on this node alone.
    pub(crate) const fn host_context(&mut self) -> HostContext<'_> {
        HostContext {
            now: self.now,
            node: self.node,
            logs: self.logs,
            effects: self.effects,
            answers: self.answers,
            scratch: self.scratch,
        }
    }
}
