//! A log that does not become durable, for its disk is full or hangs: who leads on it hands over to
//! members whose disks write. A follower on it acknowledges nothing, and holds nobody up. And
//! followers that do not follow, for whatever reason: the leader says so.

use super::host::Replicas;
use super::{Replica, ShardContext};
use leveret_replication::MemberStatus;
use leveret_types::{NodeId, QueueId, ReplicaId};

impl Replica {
    /// The member that is to lead because this one's log is stuck.
    fn way_out(&self, writing: &[NodeId]) -> Option<ReplicaId> {
        let writes = |member: ReplicaId| writing.contains(&member.node());
        self.group.successor(writes)
    }

    /// Says of members that do not follow that they do not, and that they do again.
    pub(super) fn report_stuck(&mut self) {
        let stuck: Vec<ReplicaId> = self.group.stuck().collect();
        if stuck == self.reported_stuck {
            return;
        }
        let is_new = |member: &&ReplicaId| !self.reported_stuck.contains(member);
        if let Some(new) = stuck.iter().find(is_new) {
            let status = self.group.status();
            let mut others = status.members.iter();
            let matched = others.find(|member: &&MemberStatus| member.replica == *new);
            tracing::warn!(
                queue = %self.id,
                node = %new.node(),
                has = matched.map_or(0, |member| member.matched),
                of = status.last_index,
                "a member of a queue does not follow its leader though its node is up; if its disk \
                 writes and this stays, remove it from the queue's members and add it again",
            );
        }
        self.reported_stuck = stuck;
    }
}

impl Replicas {
    /// Hands over what is led here if the log is stuck, to members whose logs are known to move: on
    /// a drive that all share nobody would gain. Again after as long, for a transfer may fail.
    pub(super) fn give_way(&mut self, context: &mut ShardContext<'_>) {
        let waits = self.waits_for_log();
        if !self.stalled_log.is_due(context.now, waits) {
            return;
        }
        let writing = self.writing_elsewhere();
        match self.hand_over(context, &writing) {
            0 => {
                self.propose_open(context);
                self.stalled_log.recheck_soon(context.now);
            }
            queues => tracing::warn!(
                queues,
                "the disk has not taken writes of the log for 2 s: handing over queues that this node leads"
            ),
        }
    }

    /// Lets members on these nodes lead what is led here, where a majority is up without this
    /// node's; answers how many queues that concerns.
    pub(crate) fn hand_over(&mut self, context: &mut ShardContext<'_>, nodes: &[NodeId]) -> usize {
        let led = self.map.iter();
        let led = led.filter_map(|(id, replica)| Some((*id, replica.way_out(nodes)?)));
        let mut led: Vec<(QueueId, ReplicaId)> = led.collect();
        led.sort_unstable();
        for (id, to) in &led {
            if let Some(Err(error)) = self.transfer(context, *id, to.node()) {
                tracing::debug!(queue = %id, %error, "nobody else is to lead yet");
            }
        }
        led.len()
    }

    /// Nodes whose logs have what this one's has not.
    fn writing_elsewhere(&self) -> Vec<NodeId> {
        let led = self.map.values();
        let ahead = led.flat_map(|replica| replica.group.ahead_on_disk());
        let mut nodes: Vec<NodeId> = ahead.map(ReplicaId::node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Proposes what waits for the next seal, which does not come: whether the others write it says
    /// whether their logs move.
    fn propose_open(&mut self, context: &mut ShardContext<'_>) {
        for id in self.open.clone() {
            self.with(context, id, |replica, context| replica.close_batch(context));
        }
    }
}
