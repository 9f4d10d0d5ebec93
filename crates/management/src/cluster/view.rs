//! The cluster as the API shows it, and what operators do to it, as plain values.

/// The cluster, seen from one node.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// Its identity.
    pub id: String,
    /// The number of the node that was asked.
    pub own: u32,
    /// The node that leads the catalogue, if that is known.
    pub leader: Option<u32>,
    /// The catalogue's term.
    pub term: u64,
    /// Up to where the catalogue's log is committed.
    pub committed: u64,
    /// Up to where this node has carried it out.
    pub applied: u64,
    /// Replicated queues whose leader the node that was asked does not know: they have none, or no
    /// member there.
    pub leaders_unknown: usize,
    /// Its nodes, by number.
    pub nodes: Vec<ClusterNode>,
}

/// A node of the cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterNode {
    /// Its number.
    pub number: u32,
    /// Its name in listings.
    pub name: String,
    /// The identity of its data folder.
    pub uuid: String,
    /// Where it listens for other nodes.
    pub address: String,
    /// Whether the node that was asked can reach it, or is it.
    pub up: bool,
    /// Bytes that wait to be sent to it; 0 of the node that was asked.
    pub unsent_bytes: u64,
    /// Whether it votes on the catalogue.
    pub votes: bool,
    /// Whether it is to vote as soon as it has caught up: an operator has said so, or it has
    /// stayed.
    pub is_to_vote: bool,
    /// Whether it is being emptied.
    pub draining: bool,
    /// Whether its data folder is an older copy of itself, so that it takes no part in elections.
    pub outdated: bool,
    /// Members of queues' groups that are on it.
    pub members: usize,
    /// Queues that it is to lead.
    pub leads: usize,
    /// Queues that it leads now, as far as the node that was asked knows.
    pub leading: usize,
    /// Queues that are not replicated and live on it.
    pub homes: usize,
}

/// What operators do to the cluster. Nodes go by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// Takes a node out for good.
    Forget {
        /// The node.
        node: String,
    },
    /// Empties a node of leaders, and keeps new queues away from it; or lets them come again.
    Drain {
        /// The node.
        node: String,
        /// Whether it is to be empty.
        draining: bool,
    },
    /// Lets a node vote that has joined, before it has stayed.
    Promote {
        /// The node.
        node: String,
    },
    /// Hands a queue's leadership to another of its members; without a queue, the catalogue's.
    Transfer {
        /// The queue's virtual host.
        vhost: String,
        /// The queue; empty for the catalogue.
        queue: String,
        /// The node.
        node: String,
    },
    /// Adds a member on a node to queues that have none there.
    Grow {
        /// The node.
        node: String,
        /// Pattern of the queues' virtual hosts.
        vhosts: String,
        /// Pattern of the queues' names.
        queues: String,
        /// Whether only those are meant that have an even number of members.
        even: bool,
    },
    /// Adds members to queues that have fewer, on the nodes that are up and have least.
    GrowTo {
        /// How many members a queue is to have.
        count: usize,
        /// Pattern of the queues' virtual hosts.
        vhosts: String,
        /// Pattern of the queues' names.
        queues: String,
        /// Whether only those are meant that have an even number of members.
        even: bool,
    },
    /// Adds a member on a node to one queue, unless it has one there.
    AddMember {
        /// The queue's virtual host.
        vhost: String,
        /// The queue.
        queue: String,
        /// The node.
        node: String,
    },
    /// Takes the member on a node from one queue, if it has one there.
    RemoveMember {
        /// The queue's virtual host.
        vhost: String,
        /// The queue.
        queue: String,
        /// The node.
        node: String,
    },
    /// Takes the members on a node from queues that have others.
    Shrink {
        /// The node.
        node: String,
        /// Pattern of the queues' virtual hosts.
        vhosts: String,
        /// Pattern of the queues' names.
        queues: String,
    },
    /// Gives queues back to the nodes that are to lead them.
    Rebalance {
        /// Of virtual hosts whose names match.
        vhosts: String,
        /// Of queues whose names match.
        queues: String,
    },
}
