//! What is told to connections, by queues and by all others.

use leveret_auth::Verdict;
use leveret_cluster::events::ClusterEvent;
use leveret_queue_host::events::QueueEvent;
use leveret_queue_host::stream_events::StreamNews;
use leveret_types::ProtocolError;

/// What is posted to a connection from elsewhere.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// A queue has something to say to it.
    Queue(QueueEvent),
    /// The streams have something to say to it.
    Stream(StreamNews),
    /// The cluster has something to say to it.
    Cluster(ClusterEvent),
    /// The connection is to be closed with this error.
    Close(ProtocolError),
    /// What became of the check that it handed over ([`crate::Env::check_login`]).
    LoginChecked(Verdict),
}

impl From<QueueEvent> for ConnectionEvent {
    fn from(event: QueueEvent) -> Self {
        Self::Queue(event)
    }
}

impl From<ClusterEvent> for ConnectionEvent {
    fn from(event: ClusterEvent) -> Self {
        Self::Cluster(event)
    }
}
