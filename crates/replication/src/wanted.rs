//! From the members that a group has to those that it should have, one safe change at a time.

use crate::error::ProposeError;
use crate::group::Group;
use crate::membership::{Membership, MembershipChange};
use leveret_types::ReplicaId;

/// Who leaves when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Before others come: what leaves is known to be gone for good, and would count against every
    /// majority.
    First,
    /// When those who come have caught up and vote: what leaves does its part until then.
    Last,
}

/// Who should belong to a group.
#[derive(Clone, Copy, Debug)]
pub struct WantedMembers<'a> {
    /// Who should vote: each comes as a learner, and votes when it has caught up.
    pub voters: &'a [ReplicaId],
    /// Who should receive entries; who votes already goes on.
    pub learners: &'a [ReplicaId],
    /// When the others leave. A node has one member at a time, and the leader itself leaves last,
    /// either way.
    pub leaving: Leaving,
}

impl WantedMembers<'_> {
    fn contains(&self, member: ReplicaId) -> bool {
        self.voters.contains(&member) || self.learners.contains(&member)
    }
}

impl Membership {
    /// Whether the group is made of these voters, and nothing else is under way.
    #[must_use]
    pub fn is_of_voters(&self, voters: &[ReplicaId]) -> bool {
        self.learners.is_empty()
            && !self.is_joint()
            && self.voters.len() == voters.len()
            && voters.iter().all(|voter| self.voters.contains(voter))
    }
}

impl Group {
    /// Whether others are a majority without this member, so that they may have elected a leader
    /// that it does not know of: who has heard of nobody for long must not go on as the leader.
    #[must_use]
    pub fn can_be_deposed(&self) -> bool {
        let me = self.replica();
        !self.membership().has_majority(|voter| voter == me)
    }

    /// As leader, proposes the next step to the members that the group should have; whether it was
    /// taken. Does nothing elsewhere, or while a change is under way.
    ///
    /// # Errors
    /// The step was not taken.
    pub fn approach(&mut self, wanted: &WantedMembers<'_>) -> Result<bool, ProposeError> {
        if !self.is_leader() || self.membership().is_joint() {
            return Ok(false);
        }
        match self.next_step(wanted) {
            Some(change) => self.propose_membership(&change).map(|_| true),
            None => Ok(false),
        }
    }

    fn next_step(&self, wanted: &WantedMembers<'_>) -> Option<MembershipChange> {
        let leaving = self.leaving(wanted).map(MembershipChange::remove);
        if wanted.leaving == Leaving::First && leaving.is_some() {
            return leaving;
        }
        let mut learners = self.promotable_learners();
        if let Some(learner) = learners.find(|learner| wanted.voters.contains(learner)) {
            return Some(MembershipChange::promote(learner));
        }
        let learners = &self.membership().learners;
        let is_learning = learners.iter().any(|of| wanted.voters.contains(of));
        if wanted.leaving == Leaving::Last && is_learning {
            return None;
        }
        let members = self.membership().members();
        let has_room = |new: &&ReplicaId| !members.iter().any(|m| m.node() == new.node());
        let mut all = wanted.voters.iter().chain(wanted.learners);
        let new = all.find(has_room);
        new.map(|new| MembershipChange::add(*new)).or(leaving)
    }

    /// Who is to leave next, of those that can be spared: first who is in the way of another member
    /// on its node, last this one.
    fn leaving(&self, wanted: &WantedMembers<'_>) -> Option<ReplicaId> {
        let me = self.replica();
        let all = wanted.voters.iter().chain(wanted.learners);
        let in_the_way = |old: &ReplicaId| all.clone().any(|new| new.node() == old.node());
        let old = self.membership().members().into_iter();
        let old = old.filter(|member| !wanted.contains(*member) && self.can_spare(*member));
        old.min_by_key(|old| (*old == me, !in_the_way(old)))
    }
    /// Whether the voters that are left without a member have a majority that has all that is
    /// committed. Else the group would hang on this leader until they do, and nobody could take its
    /// place if it were lost meanwhile.
    fn can_spare(&self, member: ReplicaId) -> bool {
        let voters = self.membership().voters.iter().copied();
        let left = Membership::of_voters(voters.filter(|voter| *voter != member));
        let has_all: Vec<ReplicaId> = self
            .matched()
            .filter(|(_, matched)| *matched >= self.commit())
            .map(|(other, _)| other)
            .collect();
        left.has_majority(|voter| voter == self.replica() || has_all.contains(&voter))
    }
}
