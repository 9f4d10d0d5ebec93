//! The connections to the other nodes of the cluster.

use leveret_node::PeerFrame;
use leveret_types::NodeId;

/// The ways to the other nodes.
#[derive(Debug, Default)]
pub struct Links {
    /// This node's number; 0 outside clusters.
    pub node: NodeId,
}

impl Links {
    /// Sends frames, each behind what was sent to its node before.
    pub fn post(&self, frames: impl IntoIterator<Item = (NodeId, PeerFrame)>) {
        for (to, _) in frames {
            debug_assert_ne!(to, self.node, "a frame to itself");
        }
    }

    /// Whether too much waits for a node.
    #[must_use]
    pub fn congested(&self, _peer: NodeId) -> bool {
        false
    }
}
