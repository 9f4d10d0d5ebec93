//! The specifications of a node's queues, and their status.

use crate::subscriber::Subscriber;
use leveret_queue::{ConsumerView, Counters, Counts, Oldest, QueueKind, Settings};
use leveret_types::{FieldValue, NodeId, QueueId, ReplicaId};

/// What the catalogue says of a queue.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    /// Classic or quorum.
    pub kind: QueueKind,
    /// Whether persistent messages survive a restart.
    pub durable: bool,
    /// The members of its group, the preferred leader first; none of a queue that is not
    /// replicated.
    pub members: Vec<ReplicaId>,
    /// The members that its group began with.
    pub founders: Vec<ReplicaId>,
    /// Where a queue that is not replicated lives; 0 outside clusters.
    pub home: NodeId,
    /// Whether the queue goes with its last consumer.
    pub auto_delete: bool,
    /// Arguments and policies, resolved.
    pub settings: Settings,
    /// What it is a view of, if it is one.
    pub view: Option<Box<ViewSpec>>,
}

/// What the catalogue says of a view.
#[derive(Clone, Debug)]
pub struct ViewSpec {
    /// The stream whose messages it has; none, if there is no such stream any more.
    pub source: Option<QueueId>,
    /// The stream's name.
    pub name: Box<str>,
    /// `x-stream-offset`: where it begins; with the first message, if nothing is said.
    pub start: Option<FieldValue>,
}

/// How a queue stands.
#[derive(Clone, Debug)]
pub struct LocalQueueStats {
    /// The queue.
    pub id: QueueId,
    /// Messages and consumers.
    pub counts: Counts,
    /// When the message was taken that has waited longest, where that is known without a read; of a
    /// queue that is led elsewhere nothing is.
    pub oldest: Oldest,
    /// What it has done.
    pub counters: Counters,
    /// Its consumers, with those who hear for them.
    pub consumers: Vec<(ConsumerView, Subscriber)>,
    /// Whether its persistent messages survive a restart.
    pub durable: bool,
}
