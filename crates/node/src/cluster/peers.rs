//! The other nodes of the cluster, and which of them are up.

use leveret_types::NodeId;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// What is known of one other node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerView {
    /// Whether it is connected, in both directions, and answers.
    pub up: bool,
}

/// The other nodes of the cluster, shared by all that run on this one.
#[derive(Debug, Default)]
pub struct Peers {
    nodes: RwLock<BTreeMap<NodeId, PeerView>>,
}

impl Peers {
    /// Takes note of a node that is part of the cluster; it is down until something else is said.
    pub fn add(&self, node: NodeId) {
        self.write().entry(node).or_default();
    }

    /// Forgets a node that has left the cluster.
    pub fn remove(&self, node: NodeId) {
        self.write().remove(&node);
    }

    /// Says whether a node is up.
    pub fn set_up(&self, node: NodeId, up: bool) {
        self.write().entry(node).or_default().up = up;
    }

    /// Whether a node is up.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.read().get(&node).is_some_and(|view| view.up)
    }

    /// The other nodes that are up.
    #[must_use]
    pub fn up(&self) -> Vec<NodeId> {
        let nodes = self.read();
        let up = nodes.iter().filter(|(_, view)| view.up);
        up.map(|(node, _)| *node).collect()
    }

    /// All other nodes, up or down.
    #[must_use]
    pub fn all(&self) -> Vec<(NodeId, PeerView)> {
        let nodes = self.read();
        nodes
            .iter()
            .map(|(node, view)| (*node, view.clone()))
            .collect()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<NodeId, PeerView>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<NodeId, PeerView>> {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner)
    }
}
