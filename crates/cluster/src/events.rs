//! The cluster's answers to connections, and the outcomes of changes of the catalogue.

use leveret_metadata::{CatalogueError, Outcome};
use leveret_queue_host::events::LogPosition;

/// What the cluster tells a connection.
#[derive(Debug)]
pub enum ClusterEvent {
    /// This node has seen what the cluster had agreed on when the connection asked for a read
    /// barrier, or will not in time.
    ReadBarrierPassed,
    /// Other nodes have told anew what their clients have open of what is limited.
    CountsRenewed,
    /// The cluster has carried out a change of the catalogue, or refused it.
    Executed {
        /// What [`Cluster::propose`](crate::Cluster::propose) said.
        id: ProposalId,
        /// What it did.
        result: Result<Outcome, CatalogueError>,
    },
}

/// What a change of the catalogue answered, and when it is durable.
#[derive(Debug)]
pub struct Executed {
    /// What changed.
    pub outcome: Outcome,
    /// When the change is durable; nothing if it need not be.
    pub log_position: Option<LogPosition>,
}

/// A change of the catalogue that the cluster has been asked for, unique for the life of the
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProposalId(pub u64);
