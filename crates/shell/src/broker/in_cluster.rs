//! The node's part in its cluster, and the ways to the other nodes.

use crate::cluster::Links;
use leveret_cluster::{Cluster, Peers};
use leveret_node::PeerFrame;
use leveret_types::NodeId;

/// See the module's description.
pub(super) struct InCluster {
    pub(super) links: Links,
    /// None outside clusters.
    pub(super) part: Option<Cluster>,
    pub(super) peers: Peers,
}

impl InCluster {
    pub(super) fn new(links: Links, part: Option<Cluster>) -> Self {
        Self {
            links,
            part,
            peers: Peers::default(),
        }
    }

    /// This node; 0 outside clusters.
    pub(super) const fn own(&self) -> NodeId {
        self.links.node
    }

    /// Tells the cluster's machines something, and wakes the thread that runs them.
    pub(super) fn tell(&self, tell: impl FnOnce(&Cluster)) {
        if let Some(part) = &self.part {
            tell(part);
            self.links.wake();
        }
    }

    /// Sends something to another node, without waking the links' thread: it is woken once all was
    /// posted.
    pub(super) fn post_unheard(&self, to: NodeId, frame: PeerFrame) {
        self.links.post([(to, frame)]);
    }
}
