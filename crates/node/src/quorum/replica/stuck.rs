//! A log that does not become durable, for its disk is full or hangs: who leads on it hands over to
//! members whose disks write. A follower on it acknowledges nothing, and holds nobody up.

use super::host::Replicas;
use super::{Around, Replica};
use leveret_types::{QueueId, ReplicaId};

impl Replica {
    /// The member that is to lead because this one's log is stuck.
    fn way_out(&self) -> Option<ReplicaId> {
        self.group.successor().filter(|_| self.group.is_leader())
    }
}

impl Replicas {
    /// Hands over what is led here if the log is stuck; again after as long, for a transfer may
    /// fail.
    pub(super) fn give_way(&mut self, around: &mut Around<'_>) {
        let waits = self.waits_for_log();
        self.standstill.note(around.now, waits);
        let due = self.standstill.deadline_ms();
        if due.is_none_or(|due| due > around.now.monotonic_ms) {
            return;
        }
        self.standstill.ended(around.now, waits);
        let led = self.map.iter();
        let led = led.filter_map(|(id, replica)| Some((*id, replica.way_out()?)));
        let mut led: Vec<(QueueId, ReplicaId)> = led.collect();
        led.sort_unstable();
        if led.is_empty() {
            return;
        }
        let queues = led.len();
        tracing::warn!(
            queues,
            "the log is not written; others are to lead its queues"
        );
        for (id, to) in led {
            if let Some(Err(error)) = self.transfer(around, id, to.node()) {
                tracing::debug!(queue = %id, %error, "nobody else is to lead yet");
            }
        }
    }
}
