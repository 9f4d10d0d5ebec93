//! The replicas of a shard: how they are made, changed, handed over and removed.

use super::Replicas;
use crate::quorum::replica::blank::renew;
use crate::quorum::replica::members::member_on;
use crate::quorum::replica::restore::{Adopted, adopt, sole_founder};
use crate::quorum::replica::{HEADER_LOG, Replica, ShardContext};
use crate::shard::{Deferred, QueueSpec, log_of};
use leveret_replication::ProposeError;
use leveret_storage::ShardLogs;
use leveret_types::{NodeId, QueueId, ReplicaId};

impl Replicas {
    /// Adds the member of a queue that is on this node, with what the logs have of it.
    pub(crate) fn add(
        &mut self,
        context: &mut ShardContext<'_>,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: &[u8],
        load: &mut dyn FnMut(&mut ShardLogs),
    ) {
        let wanted = member_on(&spec, context.node);
        let was_member = !context.logs.state(log_of(id, HEADER_LOG)).is_empty();
        // Who was a member stays one until the group has let it go.
        let Some(me) = wanted.or(was_member.then_some(ReplicaId(0))) else {
            return renew(context.logs, id, priority_logs);
        };
        match Replica::open(id, me, spec, priority_logs, context.logs, load) {
            Ok(mut replica) => {
                replica.begin(context.up, priority_logs.is_empty());
                self.map.insert(id, Box::new(replica));
                self.with(context, id, |replica, context| {
                    replica.drive(context);
                });
            }
            Err(error) if wanted.is_some() => {
                self.quarantined.insert(id, me);
                let what = format!(
                    "the replica on this node cannot take part: {error}; remove it from the queue's \
                     members and add it again"
                );
                context
                    .effects
                    .deferred
                    .push(Deferred::Damage { queue: id, what });
            }
            Err(error) => {
                tracing::warn!(queue = %id, %error, "what is left of a removed replica is emptied");
                renew(context.logs, id, priority_logs);
            }
        }
    }

    /// Adds the first member of a queue that was on this node alone so far, with what its logs
    /// have, and what else is `known`.
    pub(crate) fn adopt(
        &mut self,
        context: &mut ShardContext<'_>,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: &[u8],
        known: &Adopted,
    ) {
        let Some(me) = sole_founder(&spec, context.node) else {
            tracing::error!(
                queue = %id,
                "this node is not the one founder of the queue's group: the queue has no replica here"
            );
            return;
        };
        adopt(id, me, priority_logs, known, context.logs);
        let mut priority_logs = priority_logs.to_vec();
        priority_logs.push(HEADER_LOG);
        self.add(context, id, spec, &priority_logs, &mut |_| {});
    }

    /// Changes what policies and arguments make of a queue, and who its members are.
    pub(crate) fn update(&mut self, context: &mut ShardContext<'_>, id: QueueId, spec: QueueSpec) {
        self.with(context, id, |replica, context| {
            if let Some(leader) = &mut replica.leader {
                leader.update(context.now, &spec);
            }
            replica.spec = spec;
            replica.note_if_gone();
            replica.reconcile(context);
        });
    }

    /// A replica that is no member any more goes; or begins again as another member, if the node
    /// is to have one.
    pub(super) fn leave_if_gone(&mut self, context: &mut ShardContext<'_>, queue: QueueId) {
        let Some(replica) = self.map.get_mut(&queue).filter(|replica| replica.is_gone) else {
            return;
        };
        replica.take_leader(context);
        let spec = replica.spec.clone();
        let me = member_on(&spec, context.node);
        let priority_logs = match me {
            Some(me) => replica.hand_down(context.logs, me),
            None => {
                renew(context.logs, queue, &replica.logs());
                Vec::new()
            }
        };
        self.deadlines.remove(&(replica.deadline_ms, queue));
        self.map.remove(&queue);
        if me.is_some() {
            self.add(context, queue, spec, &priority_logs, &mut |_| {});
        }
    }

    /// Hands a queue's leadership to the member on another node.
    ///
    /// # Errors
    /// It does not lead, or the other cannot; nothing if there is no such queue here.
    pub(crate) fn transfer(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        to: NodeId,
    ) -> Option<Result<(), ProposeError>> {
        self.with(context, queue, |replica, context| {
            replica.close_batch(context);
            replica.group.transfer_to(to)?;
            replica.drive(context);
            Ok(())
        })
    }

    /// This node's data folder has turned out to be an older copy of itself: what it leads here was
    /// won with votes that may have been given twice.
    pub(crate) fn resign_all(&mut self, context: &mut ShardContext<'_>) {
        self.for_each(context, |replica, context| {
            if replica.group.can_be_deposed() {
                replica.group.resign();
                replica.drive(context);
            }
        });
    }
}
