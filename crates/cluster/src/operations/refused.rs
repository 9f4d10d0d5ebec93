//! Why nothing comes of what an operator wants.

use leveret_metadata::CatalogueError;
use leveret_types::NodeId;
use leveret_types::limits::NODE_STAY_MS;

/// Why nothing comes of what an operator wants, in words for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The texts say what each case is.
pub enum Refused {
    #[error("this node is in no cluster: start it with --cluster")]
    NoCluster,
    #[error("the cluster has no node {name}; it has {}", .known.join(", "))]
    NoNode { name: String, known: Vec<String> },
    #[error(
        "node {0} has joined just now and does not vote yet, so that it gets no members of \
         queues: wait until it has stayed for {stay_s} s, or say that it stays with \
         `leveret cluster promote {0}`",
        stay_s = NODE_STAY_MS / 1_000
    )]
    NotVoting(String),
    #[error(
        "node {0} does not vote yet: it does as soon as it is up and has caught up; see \
         `leveret cluster status`"
    )]
    NotYetVoting(String),
    #[error("a node cannot forget itself: ask another one")]
    OwnNode,
    #[error("node {0} is running: stop it first, or drain it if it is to come back")]
    Running(String),
    #[error("node {0} is not running")]
    NotRunning(String),
    #[error("no queue '{1}' in vhost '{0}'")]
    NoQueue(String, String),
    #[error("queue '{1}' in vhost '{0}' is not replicated")]
    NotReplicated(String, String),
    #[error("queue '{0}' has no member on node {1}")]
    NoMember(String, NodeId),
    #[error(
        "the only member of queue '{queue}' in vhost '{vhost}' is on node {node}: delete the queue"
    )]
    LastMember {
        vhost: String,
        queue: String,
        node: String,
    },
    #[error("another node leads the catalogue: ask that one")]
    CatalogueLedElsewhere,
    #[error("the catalogue is not led by node {0}: {STAYED}")]
    CatalogueStays(NodeId),
    #[error("queue '{0}' is not led by node {1}: {STAYED}")]
    LeaderStays(String, NodeId),
    #[error(
        "nothing can be changed: this node reaches {up} of the cluster's {voters} voting nodes, \
         itself included, which is no majority; start the others, or mend the network between them"
    )]
    NoMajority { up: usize, voters: usize },
    #[error("{error}; the leaders of {moved} queues were moved before")]
    Interrupted { error: CatalogueError, moved: usize },
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

/// What to do about a leader that stays.
const STAYED: &str = "that node's member may be behind, or not follow; see `rabbitmqctl \
                      quorum_status` or `rabbitmq-streams stream_status`, and the logs of both \
                      nodes";
