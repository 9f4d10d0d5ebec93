//! The members of the group, and those that it should have.

use super::{Replica, ShardContext};
use crate::shard::QueueSpec;
use leveret_replication::{Leaving, Membership, WantedMembers};
use leveret_types::{NodeId, ReplicaId};

impl Replica {
    /// Proposes the next step from the members that the group has to those that it should have.
    pub(super) fn reconcile(&mut self, context: &mut ShardContext<'_>) {
        if self.leader.is_none() || self.spec.members.is_empty() {
            return;
        }
        let wanted = WantedMembers {
            voters: &self.spec.members,
            learners: &[],
            leaving: Leaving::Last,
        };
        match self.group.approach(&wanted) {
            Ok(true) => self.drive(context),
            Ok(false) => {}
            Err(error) => tracing::debug!(queue = %self.id, %error, "a change of members waits"),
        }
    }

    /// Tells who is no member any more that it is none, if it does not know.
    pub(super) fn answer_stranger(&self, context: &mut ShardContext<'_>, from: ReplicaId) {
        let is_known = self.group.membership().contains(from) || self.spec.members.contains(&from);
        if self.leader.is_some() && !is_known {
            self.say_gone(context, from);
        }
    }

    /// Tells those who were members that they are none any more.
    pub(super) fn tell_who_is_gone(&self, context: &mut ShardContext<'_>, now: &Membership) {
        for before in &self.members {
            if self.leads.is_some() && !now.contains(*before) {
                self.say_gone(context, *before);
            }
        }
    }

    /// Notes whether the group has let this member go, and the catalogue has too. One that was not
    /// let in yet is not gone.
    pub(super) fn note_if_gone(&mut self) {
        let me = self.group.replica();
        let was_in = self.group.commit() > 1 && self.group.last_applied() > 1;
        let is_in = self.members.contains(&me) || self.spec.members.contains(&me);
        self.is_gone |= was_in && !is_in;
    }

    /// Whether those belong to the group who should, and all vote.
    pub(super) fn has_wanted_members(&self) -> bool {
        self.group.membership().is_of_voters(&self.spec.members)
    }
}

/// The member of a queue that is on a node.
pub(super) fn member_on(spec: &QueueSpec, node: NodeId) -> Option<ReplicaId> {
    let mut members = spec.members.iter().copied();
    members.find(|member| member.node() == node)
}
