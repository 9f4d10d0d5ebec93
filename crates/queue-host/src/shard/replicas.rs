//! The shard's replicas of queues that live on several nodes.

use super::{CATALOGUE_LOG, QueueSpec, Shard, queue_of};
use crate::peeked::Found;
use crate::quorum::protocol::LocalDelivery;
use crate::quorum::replica::{ReplicaState, ReplicaStatus, UnfitReplicas};
use leveret_replication::ProposeError;
use leveret_storage::{ShardLogs, Urgency};
use leveret_types::{NodeId, Now, QueueId};
use std::collections::BTreeMap;

impl Shard {
    /// Says when this node last told the others that it is up, and looked which of them are, on the
    /// monotonic clock: to be called whenever the shard is borrowed. For [`LEADER_LEASE_MS`]
    /// from then on the others do not take this node for down, so that its leaders lead; after it
    /// they deliver nothing until the next look. A shard that is never told takes it for
    /// granted that they lead.
    ///
    /// [`LEADER_LEASE_MS`]: leveret_types::limits::LEADER_LEASE_MS
    pub const fn set_peers_checked_ms(&mut self, checked_ms: u64) {
        self.standing.checked_ms = checked_ms;
    }

    /// This node's data folder is an older copy of itself: its replicas take no part in elections
    /// any more, and lead nothing that others could.
    pub fn set_outdated(&mut self, now: Now) {
        if !std::mem::replace(&mut self.standing.is_outdated, true) {
            self.with_replicas(now, |replicas, context| replicas.resign_all(context));
        }
    }

    /// What has gathered for the write-ahead log, with what leaders will add when it is sealed.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        match self.logs.urgency() {
            Urgency::Nothing if self.replicas.has_open() => Urgency::Lazy,
            urgency => urgency,
        }
    }

    /// Adds a queue as [`Self::add_queue`] does. `load` carries out the reads from disk that the
    /// logs ask for: a replica reads its headers.
    pub fn recover_queue(
        &mut self,
        now: Now,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: Vec<u8>,
        load: &mut dyn FnMut(&mut ShardLogs),
    ) {
        if spec.members.is_empty() {
            return self.add_queue(now, id, spec, priority_logs);
        }
        self.place_remote_queue(id, &spec);
        self.with_replicas(now, |replicas, context| {
            replicas.add(context, id, spec, &priority_logs, load);
        });
    }

    /// Changes what is to be known of a queue that has a replica here; or begins one, if this node
    /// has become a member.
    pub(super) fn update_replica(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        if spec.members.is_empty() {
            return;
        }
        self.place_remote_queue(id, &spec);
        self.with_replicas(now, |replicas, context| match replicas.has(id) {
            true => replicas.update(context, id, spec),
            false => replicas.begin(context, id, spec),
        });
    }

    /// The message of a delivery, if the replica here has it.
    pub(crate) fn replica_message(&mut self, queue: QueueId, of: &LocalDelivery) -> Found {
        self.replicas.message(&mut self.logs, queue, of)
    }

    /// The node that leads a queue, as far as the replica here knows.
    #[must_use]
    pub fn replica_leader(&self, queue: QueueId) -> Option<NodeId> {
        self.replicas.leader(queue)
    }

    /// The node that leads a queue, as far as the replica here or those who use the queue know.
    pub fn known_leader(&self, queue: QueueId) -> Option<NodeId> {
        let here = self.replicas.leader(queue);
        here.or_else(|| self.remote_queues.known(queue)?.leader())
    }

    /// Whether the only node that has a queue is down: it takes nothing until that is back.
    #[must_use]
    pub fn is_unavailable(&self, queue: QueueId) -> bool {
        self.remote_queues.is_unavailable(queue)
    }

    /// Lets members on these nodes lead what is led here, as far as they can; answers how many
    /// queues that concerns.
    pub fn hand_over_leaders(&mut self, now: Now, nodes: &[NodeId]) -> usize {
        if nodes.is_empty() || self.replicas.is_empty() {
            return 0;
        }
        self.with_replicas(now, |replicas, context| replicas.hand_over(context, nodes))
    }

    /// Whether the replica here leads the queue and serves; none if there is no replica here.
    #[must_use]
    pub fn replica_leads(&self, queue: QueueId) -> Option<bool> {
        let has = self.replicas.has(queue);
        has.then(|| self.replicas.is_leader(queue))
    }

    /// How the group of a queue stands, seen from the member here.
    #[must_use]
    pub fn replica_status(&self, queue: QueueId) -> Option<ReplicaStatus> {
        self.replicas.status(queue)
    }

    /// What the member of a queue that is here has made of its group's entries.
    #[must_use]
    pub fn replica_state(&self, queue: QueueId) -> Option<ReplicaState> {
        self.replicas.state(&self.logs, queue)
    }

    /// For each priority of a queue, below which index its leader here has delivered messages;
    /// nothing if no leader is here.
    #[must_use]
    pub fn handed_out(&self, queue: QueueId) -> Option<Vec<(u8, u64)>> {
        self.replicas.handed_out(queue)
    }

    /// Whether what was asked of a queue is on its way to being committed: at the leader, if it is
    /// here, or among what clients of this node have asked for, of which no leader has said that it
    /// is. Settles gather before they are proposed, so that clients are told nothing of it.
    #[must_use]
    pub fn has_work_under_way(&self, queue: QueueId) -> bool {
        let remote_queue = self.remote_queues.known(queue);
        remote_queue.is_some_and(|remote_queue| remote_queue.has_operations_under_way())
            || self.replicas.has_work_under_way(queue) == Some(true)
    }

    /// Whether a queue has a replica here that takes no part, for its logs are damaged or lack what
    /// it had acknowledged.
    #[must_use]
    pub fn has_quarantined(&self, queue: QueueId) -> bool {
        self.replicas.is_quarantined(queue)
    }

    /// The queues of which something cannot be read here, ascending, each with what that is.
    #[must_use]
    pub fn damaged_queues(&self) -> Vec<(QueueId, String)> {
        let lost = self.lost_entries().into_iter();
        let lost = lost.map(|(queue, count)| {
            (
                queue,
                format!("{count} entries cannot be read and are set aside"),
            )
        });
        let mut all: BTreeMap<QueueId, String> = lost.collect();
        for queue in self.replicas.quarantined() {
            let what = "the replica on this node is quarantined: remove it from the queue's members \
                        and add it again";
            all.insert(queue, what.to_owned());
        }
        all.into_iter().collect()
    }

    /// How many entries of queues' logs cannot be read, of those that have such.
    fn lost_entries(&self) -> BTreeMap<QueueId, u64> {
        let mut lost = BTreeMap::new();
        for log in self.logs.log_ids() {
            if let Some(damage) = self.logs.damage(log) {
                *lost.entry(queue_of(log).0).or_default() += damage.lost.len();
            }
        }
        lost.remove(&queue_of(CATALOGUE_LOG).0);
        lost
    }

    /// How many members do not do what they are there for, as far as is known here.
    #[must_use]
    pub fn unfit_replicas(&self) -> UnfitReplicas {
        self.replicas.unfit()
    }

    /// How all groups with a member here stand.
    #[must_use]
    pub fn replica_statuses(&self) -> Vec<ReplicaStatus> {
        self.replicas.all()
    }

    /// Hands a queue's leadership to the member on another node.
    ///
    /// # Errors
    /// The member here does not lead, or the other cannot; nothing if there is none here.
    pub fn transfer_leader(
        &mut self,
        now: Now,
        queue: QueueId,
        to: NodeId,
    ) -> Option<Result<(), ProposeError>> {
        self.with_replicas(now, |replicas, context| {
            replicas.transfer(context, queue, to)
        })
    }
}
