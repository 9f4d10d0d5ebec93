//! The status of a shard's replicas.

use super::Replicas;
use crate::quorum::replica::Replica;
use leveret_queue::Counts as QueueCounts;
use leveret_replication::Status;
use leveret_storage::ShardLogs;
use leveret_types::{QueueId, RaftCounts};

/// How a replicated queue stands, seen from one member.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// The queue.
    pub queue: QueueId,
    /// Its group.
    pub group: Status,
    /// Whether the member acts as the queue's leader: an entry of its term is committed.
    pub is_serving: bool,
    /// Milliseconds from proposal to commit of the entry that was committed last, where the member
    /// acts as the leader; 0 elsewhere.
    pub commit_ms: u64,
    /// What the member has done.
    pub counts: RaftCounts,
}

/// How many members do not do what they are there for, as far as one node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfitReplicas {
    /// Here: their logs are damaged, or lack what they had acknowledged.
    pub quarantined: usize,
    /// On other nodes, of queues that are led here: they are up and do not follow.
    pub stuck: usize,
}

impl Replicas {
    /// How a queue's group stands, seen from here.
    #[must_use]
    pub fn status(&self, queue: QueueId) -> Option<ReplicaStatus> {
        let replica = self.map.get(&queue)?;
        Some(ReplicaStatus {
            queue,
            group: replica.group.status(),
            is_serving: replica.leader.is_some(),
            commit_ms: replica
                .leader
                .as_ref()
                .map_or(0, |leader| leader.commit_ms()),
            counts: *replica.group.counts(),
        })
    }

    /// The queues of which the replica here takes no part, in no order.
    pub fn quarantined(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.quarantined.keys().copied()
    }

    /// Whether a queue has a replica here that takes no part.
    #[must_use]
    pub fn is_quarantined(&self, queue: QueueId) -> bool {
        self.quarantined.contains_key(&queue)
    }

    /// How many members do not do what they are there for.
    #[must_use]
    pub fn unfit(&self) -> UnfitReplicas {
        let stuck = self
            .map
            .values()
            .map(|replica| replica.reported_stuck.len());
        UnfitReplicas {
            quarantined: self.quarantined.len(),
            stuck: stuck.sum(),
        }
    }

    /// How all groups stand, in the order of their queues' ids.
    #[must_use]
    pub fn all(&self) -> Vec<ReplicaStatus> {
        let mut all: Vec<ReplicaStatus> =
            self.map.keys().filter_map(|id| self.status(*id)).collect();
        all.sort_unstable_by_key(|status| status.queue);
        all
    }
}

impl Replica {
    pub(super) fn live_counts(&self, logs: &ShardLogs) -> QueueCounts {
        if let Some((view, _)) = self.applied.known_view() {
            return QueueCounts {
                ready: view.unsettled.len(),
                ..QueueCounts::default()
            };
        }
        let stats = self
            .priority_logs
            .numbers()
            .filter_map(|priority_log| logs.log_stats(self.priority_logs.log(priority_log)));
        stats.fold(QueueCounts::default(), |mut counts, stats| {
            counts.ready += stats.entries;
            counts.ready_bytes += stats.bytes;
            counts
        })
    }
}
