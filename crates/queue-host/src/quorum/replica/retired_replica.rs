//! Replicas that cannot take part, and what becomes of their logs.
//!
//! What a damaged log says of itself may be old: which member it was, how it voted, what it
//! acknowledged. So it never takes part again. It stays as it is for as long as the catalogue says
//! that the node has the member that it may have been; when the member has been taken out the logs
//! begin again, empty, and a member that is added then is another one, which has promised nothing.
//!
//! Invariant: a member begins with empty logs only if no other start on this disk may have begun
//! it. A node's queues get their places from a catalogue that is newer than its start, so that a
//! member that the catalogue names later is new.

use super::applied_state::VOTES_NEVER;
use super::blank::{priority_logs, renew};
use super::members::member_on;
use super::{HEADER_LOG, Replica, Replicas, ShardContext};
use crate::shard::{Deferred, QueueSpec, log_of};
use leveret_replication::store_snapshot;
use leveret_storage::ShardLogs;
use leveret_types::{QueueId, ReplicaId};

impl Replicas {
    /// Follows the catalogue for a queue of which no replica takes part here: begins one if the
    /// node is to have one, and empties what is left of one that it is to have no more.
    pub(crate) fn begin(&mut self, context: &mut ShardContext<'_>, id: QueueId, spec: QueueSpec) {
        let me = member_on(&spec, context.node);
        let quarantined = self.quarantined.get(&id).copied();
        if me.is_some() && me == quarantined {
            return;
        }
        let has_retired_replica =
            quarantined.is_some() || context.logs.has_log(log_of(id, HEADER_LOG));
        if me.is_none() && !has_retired_replica {
            return;
        }
        let priority_logs = priority_logs(context.logs, id);
        if me.is_none() || quarantined.is_some() {
            self.quarantined.remove(&id);
            renew(context.logs, id, &priority_logs);
        }
        if me.is_some() {
            self.add(context, id, spec, &priority_logs, &mut |_| {});
        }
    }

    /// Gives a replica up that has found that it must not take part.
    pub(super) fn give_up(&mut self, context: &mut ShardContext<'_>, id: QueueId) {
        let Some(mut replica) = self.map.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(replica.deadline_ms, id));
        replica.take_leader(context);
        self.quarantined.insert(id, replica.group.replica());
        self.begin(context, id, replica.spec);
    }

    /// Has another member lead in the place of one that cannot read what the others need, and gives
    /// it up.
    pub(super) fn retire_if_corrupt(&mut self, context: &mut ShardContext<'_>, id: QueueId) {
        let Some(replica) = self.map.get(&id).filter(|replica| replica.may_retire()) else {
            return;
        };
        if replica.group.is_leader() {
            self.with(context, id, |replica, context| {
                replica.group.resign();
                replica.drive(context);
            });
            return;
        }
        let what = "the replica on this node has messages that cannot be read, and is given up; \
                    remove it from the queue's members and add it again";
        context.effects.deferred.push(Deferred::Damage {
            queue: id,
            what: what.to_owned(),
        });
        self.give_up(context, id);
    }

    /// Deletes all logs of a queue that is gone.
    pub(crate) fn delete_retired_replica(&mut self, logs: &mut ShardLogs, id: QueueId) {
        self.quarantined.remove(&id);
        for priority_log in priority_logs(logs, id) {
            logs.delete_log(log_of(id, priority_log));
        }
    }
}

impl Replica {
    /// Makes what is applied the beginning of `me`, another member on this node; or nothing of it,
    /// if it is damaged. Answers the priority logs that have a log.
    pub(super) fn hand_down(&self, logs: &mut ShardLogs, me: ReplicaId) -> Vec<u8> {
        let all = self.logs();
        let is_sound = |priority_log: &u8| logs.damage(log_of(self.id, *priority_log)).is_none();
        if all.iter().all(is_sound) {
            self.keep_applied(logs, me);
        } else {
            renew(logs, self.id, &all);
        }
        all
    }

    /// Whether it is corrupt and leads, or has said all that it had to say as it ceased to lead.
    pub(super) fn may_retire(&self) -> bool {
        self.is_corrupt && (self.group.is_leader() || !self.group.is_writing())
    }

    /// Notes for the starts to come that this member has lost what it had acknowledged, or its
    /// group has.
    pub(super) fn note_lost(&mut self, context: &mut ShardContext<'_>) {
        self.applied.votes_from = VOTES_NEVER;
        self.applied.votes_from_term = 0;
        store_snapshot(self, context);
    }

    /// Something that is to be sent is not there yet, or never will be.
    pub(super) fn note_corruption(&mut self, logs: &ShardLogs) {
        let mut priority_logs = self.logs().into_iter();
        self.is_corrupt |=
            priority_logs.any(|priority_log| logs.damage(log_of(self.id, priority_log)).is_some());
    }

    /// The priority logs that have a log, that of the headers included.
    pub(super) fn logs(&self) -> Vec<u8> {
        self.priority_logs.numbers().chain([HEADER_LOG]).collect()
    }
}
