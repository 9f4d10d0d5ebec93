//! What is told to connections, by queues and by all others.

use leveret_auth::Verdict;
use leveret_metadata::{CatalogueError, Outcome};
use leveret_queue_host::events::{LogPosition, QueueEvent};
use leveret_queue_host::stream_events::StreamNews;
use leveret_types::ProtocolError;

/// What is posted to a connection from elsewhere.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// A queue has something to say to it.
    Queue(QueueEvent),
    /// The streams have something to say to it.
    Stream(StreamNews),
    /// The connection is to be closed with this error.
    Close(ProtocolError),
    /// What became of the check that it handed over ([`crate::Env::check_login`]).
    LoginChecked(Verdict),
    /// This node has seen what the cluster had agreed on when the connection asked for a look, or
    /// will not in time.
    Peeked,
    /// The cluster has carried out a change of the catalogue, or refused it.
    Executed {
        /// What [`crate::Proposal::Waiting`] said.
        id: ProposalId,
        /// What it did.
        result: Result<Outcome, CatalogueError>,
    },
}

impl From<QueueEvent> for ConnectionEvent {
    fn from(event: QueueEvent) -> Self {
        Self::Queue(event)
    }
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
