//! Who belongs to the group, and who should.

use super::{Around, Replica};
use crate::shard::QueueSpec;
use leveret_replication::{Membership, MembershipChange};
use leveret_types::{NodeId, ReplicaId};

impl Replica {
    /// Proposes the next step from the members that the group has to those that it should have:
    /// new ones come as learners, vote when they have caught up, and only then does another leave;
    /// the leader itself last.
    pub(super) fn reconcile(&mut self, around: &mut Around<'_>) {
        let membership = self.group.membership();
        if self.leader.is_none() || membership.is_joint() || self.spec.members.is_empty() {
            return;
        }
        let (me, wanted) = (self.group.replica(), &self.spec.members);
        let members = membership.members();
        // A node has one member at a time: another one's place must be free.
        let has_room = |new: &ReplicaId| !members.iter().any(|m| m.node() == new.node());
        let new = wanted.iter().find(|new| has_room(new));
        let is_old = |member: &&ReplicaId| !wanted.contains(member);
        let in_the_way = |old: &&ReplicaId| wanted.iter().any(|new| new.node() == old.node());
        let mut old: Vec<&ReplicaId> = members.iter().filter(is_old).collect();
        old.sort_by_key(|old| (**old == me, !in_the_way(old)));
        let learner = self.group.promotable_learner();
        let learner = learner.filter(|learner| wanted.contains(learner));
        let is_learning = membership.learners.iter().any(|of| wanted.contains(of));
        let change = match (learner, new, old.first()) {
            (Some(learner), ..) => MembershipChange::promote(learner),
            (None, ..) if is_learning => return,
            (None, Some(new), _) => MembershipChange::add(*new),
            (None, None, Some(old)) => MembershipChange::remove(**old),
            (None, None, None) => return,
        };
        match self.group.propose_membership(&change) {
            Ok(_) => self.drive(around),
            Err(error) => tracing::debug!(queue = %self.id, %error, "a change of members waits"),
        }
    }

    /// Tells who is no member any more that it is none, if it does not know.
    pub(super) fn answer_stranger(&self, around: &mut Around<'_>, from: ReplicaId) {
        let is_known = self.group.membership().contains(from) || self.spec.members.contains(&from);
        if self.leader.is_some() && !is_known {
            self.say_gone(around, from);
        }
    }

    /// Tells those who were members that they are none any more.
    pub(super) fn tell_who_is_gone(&self, around: &mut Around<'_>, now: &Membership) {
        for before in &self.members {
            if self.leads.is_some() && !now.contains(*before) {
                self.say_gone(around, *before);
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
        let (has, wanted) = (self.group.membership(), &self.spec.members);
        has.learners.is_empty()
            && !has.is_joint()
            && has.voters.len() == wanted.len()
            && wanted.iter().all(|member| has.voters.contains(member))
    }

    /// Whether others are a majority without this member, so that they may have elected a leader
    /// that it does not know of.
    pub(super) fn can_be_deposed(&self) -> bool {
        let me = self.group.replica();
        !self.group.membership().has_majority(|voter| voter == me)
    }
}

/// The member of a queue that is on a node.
pub(super) fn member_on(spec: &QueueSpec, node: NodeId) -> Option<ReplicaId> {
    let mut members = spec.members.iter().copied();
    members.find(|member| member.node() == node)
}
