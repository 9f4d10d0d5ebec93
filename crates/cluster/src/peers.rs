//! The other nodes of the cluster, and which of them are up.

use leveret_queue_host::alarms::Alarms;
use leveret_types::NodeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Who another node is, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its number.
    pub node: NodeId,
    /// The identity of its data folder.
    pub uuid: [u8; 16],
    /// Where it listens for other nodes: `host:port`.
    pub address: String,
}

/// What is known of one other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// Who it is, and where.
    pub peer: PeerAddress,
    /// Whether it is connected, in both directions, and answers.
    pub up: bool,
    /// Whether its data folder is an older copy of itself, as it has said since it was connected.
    pub outdated: bool,
    /// Its alarms, as far as it has said since it was connected.
    pub alarms: Alarms,
}

/// The other nodes of the cluster, shared by all that run on this one.
#[derive(Debug, Default)]
pub struct Peers {
    nodes: RwLock<Nodes>,
    /// Whether any of them has an alarm: asked for each message that is published.
    have_alarms: AtomicBool,
}

#[derive(Debug, Default)]
struct Nodes {
    views: BTreeMap<NodeId, PeerView>,
    /// Grows with every change of who there is.
    version: u64,
}

impl Peers {
    /// Takes note of who else there is. Who was up and is still there stays up.
    pub fn replace(&self, peers: Vec<PeerAddress>) {
        let mut nodes = self.write();
        let before = std::mem::take(&mut nodes.views);
        nodes.views = peers
            .into_iter()
            .map(|peer| {
                let view = before.get(&peer.node);
                let view = PeerView {
                    up: view.is_some_and(|view| view.up),
                    outdated: view.is_some_and(|view| view.outdated),
                    alarms: view.map(|view| view.alarms).unwrap_or_default(),
                    peer,
                };
                (view.peer.node, view)
            })
            .collect();
        nodes.version += 1;
        self.note_alarms(&nodes);
    }

    /// A number that grows with every change of who there is.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.read().version
    }

    /// Says whether a node is up; nothing happens if it is not part of the cluster.
    pub fn set_up(&self, node: NodeId, up: bool) {
        let mut nodes = self.write();
        if let Some(view) = nodes.views.get_mut(&node) {
            view.up = up;
            view.outdated = false;
            view.alarms = Alarms::default();
        }
        self.note_alarms(&nodes);
    }

    /// A node that is up has said which alarms it has; answers which it had before.
    pub fn set_alarms(&self, node: NodeId, alarms: Alarms) -> Alarms {
        let mut nodes = self.write();
        let view = nodes.views.get_mut(&node).filter(|view| view.up);
        let before = view.map_or(alarms, |view| std::mem::replace(&mut view.alarms, alarms));
        self.note_alarms(&nodes);
        before
    }

    fn note_alarms(&self, nodes: &Nodes) {
        let any = |view: &PeerView| view.alarms != Alarms::default();
        let have_alarms = nodes.views.values().any(any);
        self.have_alarms.store(have_alarms, Ordering::Release);
    }

    /// Whether any other node that is up has an alarm.
    #[must_use]
    pub fn have_alarms(&self) -> bool {
        self.have_alarms.load(Ordering::Acquire)
    }

    /// The alarms of another node: none of one that is down.
    #[must_use]
    pub fn alarms_of(&self, node: NodeId) -> Alarms {
        let nodes = self.read();
        let view = nodes.views.get(&node);
        view.map(|view| view.alarms).unwrap_or_default()
    }

    /// A node has said whether its data folder is an older copy of itself.
    pub fn set_outdated(&self, node: NodeId, outdated: bool) {
        if let Some(view) = self.write().views.get_mut(&node) {
            view.outdated = outdated;
        }
    }

    /// Whether a node that is up has said that its data folder is an older copy of itself.
    #[must_use]
    pub fn is_outdated(&self, node: NodeId) -> bool {
        let nodes = self.read();
        nodes.views.get(&node).is_some_and(|view| view.outdated)
    }

    /// Whether a node is up.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.read().views.get(&node).is_some_and(|view| view.up)
    }

    /// The other nodes that are up.
    #[must_use]
    pub fn up(&self) -> Vec<NodeId> {
        let nodes = self.read();
        let up = nodes.views.values().filter(|view| view.up);
        up.map(|view| view.peer.node).collect()
    }

    /// One of the other nodes.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<PeerView> {
        self.read().views.get(&node).cloned()
    }

    /// All other nodes, up or down.
    #[must_use]
    pub fn all(&self) -> Vec<PeerView> {
        self.read().views.values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Nodes> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Nodes> {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(node: u32) -> PeerAddress {
        PeerAddress {
            node: NodeId(node),
            ..PeerAddress::default()
        }
    }

    #[test]
    fn who_stays_stays_up_and_who_leaves_is_forgotten() {
        let peers = Peers::default();
        peers.set_up(NodeId(1), true);
        assert!(!peers.is_up(NodeId(1)), "it is not part of the cluster");
        peers.replace(vec![peer(1), peer(2)]);
        peers.set_up(NodeId(1), true);
        peers.set_up(NodeId(2), true);
        peers.replace(vec![peer(2), peer(3)]);
        assert_eq!(peers.up(), [NodeId(2)]);
        assert!(!peers.is_up(NodeId(1)) && !peers.is_up(NodeId(3)));
        assert_eq!(peers.version(), 2);
    }

    #[test]
    fn a_node_that_goes_takes_its_alarms_along() {
        let low = Alarms {
            disk: true,
            ..Alarms::default()
        };
        let peers = Peers::default();
        peers.replace(vec![peer(1), peer(2)]);
        peers.set_alarms(NodeId(1), low);
        assert!(!peers.have_alarms(), "it is not up");
        peers.set_up(NodeId(1), true);
        assert_eq!(peers.set_alarms(NodeId(1), low), Alarms::default());
        assert_eq!(peers.set_alarms(NodeId(1), low), low);
        assert!(peers.have_alarms() && peers.alarms_of(NodeId(1)) == low);
        peers.set_up(NodeId(1), false);
        assert!(!peers.have_alarms() && peers.alarms_of(NodeId(1)) == Alarms::default());
        peers.set_up(NodeId(1), true);
        peers.set_alarms(NodeId(1), low);
        peers.replace(vec![peer(2)]);
        assert!(!peers.have_alarms(), "it is forgotten");
    }
}
