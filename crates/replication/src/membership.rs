//! The members of a group, and how they change.
//!
//! ```text
//! membership   version u8 | flags u8 | voters | outgoing | learners | learners to be
//! change       version u8 | voters | learners | removed
//! snapshot     index number | term number | membership
//! each list    count number | replica u64, ascending
//! ```

use crate::error::Malformed;
use crate::wire::{NUMBER_MAX, Take, put_number};
use bytes::Bytes;
use leveret_types::ReplicaId;
use leveret_types::limits::GROUP_MEMBERS_MAX;

const VERSION: u8 = 1;
const LEAVES_BY_ITSELF: u8 = 1;

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Who votes, ascending.
    pub voters: Vec<ReplicaId>,
    /// While several members change at once: who voted before, and whose majority is needed as
    /// well.
    pub voters_outgoing: Vec<ReplicaId>,
    /// Who receives entries without a vote.
    pub learners: Vec<ReplicaId>,
    /// Of `voters_outgoing`: who becomes a learner when the change ends.
    pub learners_next: Vec<ReplicaId>,
    /// Whether the leader ends the change by itself.
    pub leaves_by_itself: bool,
}

impl Membership {
    /// A group of these voters, in any order.
    #[must_use]
    pub fn of_voters(voters: impl IntoIterator<Item = ReplicaId>) -> Self {
        Self {
            voters: sorted(voters),
            ..Self::default()
        }
    }

    /// Whether a change of several members is under way.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Whether it votes, or votes until the change under way has ended.
    #[must_use]
    pub fn is_voter(&self, replica: ReplicaId) -> bool {
        self.voters.contains(&replica) || self.voters_outgoing.contains(&replica)
    }

    /// Whether it belongs to the group in any way.
    #[must_use]
    pub fn contains(&self, replica: ReplicaId) -> bool {
        self.is_voter(replica) || self.learners.contains(&replica)
    }

    /// All members, ascending.
    #[must_use]
    pub fn members(&self) -> Vec<ReplicaId> {
        let lists = [&self.voters, &self.voters_outgoing, &self.learners];
        sorted(lists.into_iter().flatten().copied())
    }

    /// Whether these of the voters are a majority, of both electorates while they change.
    #[must_use]
    pub fn has_majority(&self, mut is_counted: impl FnMut(ReplicaId) -> bool) -> bool {
        [&self.voters, &self.voters_outgoing].iter().all(|voters| {
            let counted = voters.iter().filter(|voter| is_counted(**voter)).count();
            voters.is_empty() || counted > voters.len() / 2
        })
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(if self.leaves_by_itself {
            LEAVES_BY_ITSELF
        } else {
            0
        });
        put_list(out, &self.voters);
        put_list(out, &self.voters_outgoing);
        put_list(out, &self.learners);
        put_list(out, &self.learners_next);
    }

    /// The membership that `bytes` are.
    ///
    /// # Errors
    /// What [`Self::encode`] did not write, and what no group can be.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let membership = Self::take(&mut take)?;
        ended(&take)?;
        Ok(membership)
    }

    pub(crate) fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        version(take)?;
        let flags = take.u8()?;
        if flags & !LEAVES_BY_ITSELF != 0 {
            return Err(Malformed("unknown flags of a membership"));
        }
        let membership = Self {
            voters: take_list(take)?,
            voters_outgoing: take_list(take)?,
            learners: take_list(take)?,
            learners_next: take_list(take)?,
            leaves_by_itself: flags == LEAVES_BY_ITSELF,
        };
        membership.check()?;
        Ok(membership)
    }

    /// Whether a group can be this.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        let lists = [
            &self.voters,
            &self.voters_outgoing,
            &self.learners,
            &self.learners_next,
        ];
        if !lists.iter().all(|list| is_ascending(list)) {
            return Err(Malformed("members out of order"));
        }
        if self.voters.is_empty() {
            return Err(Malformed("a group without voters"));
        }
        if self.members().len() > GROUP_MEMBERS_MAX {
            return Err(Malformed("too many members"));
        }
        if self.learners.iter().any(|learner| self.is_voter(*learner)) {
            return Err(Malformed("a learner that votes"));
        }
        let outgoing = &self.voters_outgoing;
        let is_odd = |next: &ReplicaId| !outgoing.contains(next) || self.voters.contains(next);
        if self.learners_next.iter().any(is_odd) {
            return Err(Malformed("a learner to be that does not leave the voters"));
        }
        if !self.is_joint() && self.leaves_by_itself {
            return Err(Malformed("the end of a change without a change"));
        }
        Ok(())
    }
}

/// Members that come and go in one step. One is changed at once; several go through a joint
/// membership, which the leader leaves by itself.
///
/// A member comes as a learner and is made a voter when it has caught up: a voter without the log
/// would count against the majority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipChange {
    /// Learners that become voters.
    pub voters: Vec<ReplicaId>,
    /// Who comes as a learner.
    pub learners: Vec<ReplicaId>,
    /// Who leaves.
    pub removed: Vec<ReplicaId>,
}

impl MembershipChange {
    /// Brings a new member in as a learner.
    #[must_use]
    pub fn add(learner: ReplicaId) -> Self {
        Self {
            learners: vec![learner],
            ..Self::default()
        }
    }

    /// Makes a learner a voter.
    #[must_use]
    pub fn promote(learner: ReplicaId) -> Self {
        Self {
            voters: vec![learner],
            ..Self::default()
        }
    }

    /// Lets a member go.
    #[must_use]
    pub fn remove(member: ReplicaId) -> Self {
        Self {
            removed: vec![member],
            ..Self::default()
        }
    }

    /// Makes a learner a voter in the place of another, in one step.
    #[must_use]
    pub fn replace(member: ReplicaId, learner: ReplicaId) -> Self {
        Self {
            voters: vec![learner],
            removed: vec![member],
            ..Self::default()
        }
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_list(out, &self.voters);
        put_list(out, &self.learners);
        put_list(out, &self.removed);
    }

    /// The change that `bytes` are: the data of an entry of the kind
    /// [`Membership`](crate::EntryKind::Membership).
    ///
    /// # Errors
    /// What [`Self::encode`] did not write.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        version(&mut take)?;
        let change = Self {
            voters: take_list(&mut take)?,
            learners: take_list(&mut take)?,
            removed: take_list(&mut take)?,
        };
        ended(&take)?;
        change.check()?;
        Ok(change)
    }

    pub(crate) fn check(&self) -> Result<(), Malformed> {
        let lists = [&self.voters, &self.learners, &self.removed];
        if !lists.iter().all(|list| is_ascending(list)) {
            return Err(Malformed("members out of order"));
        }
        let all: Vec<ReplicaId> = lists.into_iter().flatten().copied().collect();
        match all.len() {
            0 => Err(Malformed("a change of nothing")),
            count if count > GROUP_MEMBERS_MAX => Err(Malformed("too many members")),
            count if sorted(all).len() < count => Err(Malformed("a member that changes twice")),
            _ => Ok(()),
        }
    }
}

/// Up to where a snapshot has the log, and who belonged to the group there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMark {
    /// The last entry that it contains.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The members once that entry was applied.
    pub membership: Membership,
}

impl SnapshotMark {
    /// The state of a group that is founded with these voters: the same on each of them.
    #[must_use]
    pub fn founding(voters: impl IntoIterator<Item = ReplicaId>) -> Self {
        Self {
            index: 1,
            term: 1,
            membership: Membership::of_voters(voters),
        }
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.index);
        put_number(out, self.term);
        self.membership.encode(out);
    }

    /// The mark that `bytes` are.
    ///
    /// # Errors
    /// What [`Self::encode`] did not write.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let mark = Self::take(&mut take)?;
        ended(&take)?;
        Ok(mark)
    }

    pub(crate) fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mark = Self {
            index: take.number()?,
            term: take.number()?,
            membership: Membership::take(take)?,
        };
        mark.check()?;
        Ok(mark)
    }

    pub(crate) fn check(&self) -> Result<(), Malformed> {
        if self.index == 0 || self.term == 0 || self.index > NUMBER_MAX || self.term > NUMBER_MAX {
            return Err(Malformed("a snapshot of nothing"));
        }
        self.membership.check()
    }
}

pub(crate) fn sorted(replicas: impl IntoIterator<Item = ReplicaId>) -> Vec<ReplicaId> {
    let mut list: Vec<ReplicaId> = replicas.into_iter().collect();
    list.sort_unstable();
    list.dedup();
    list
}

fn is_ascending(list: &[ReplicaId]) -> bool {
    list.first() != Some(&ReplicaId(0)) && list.is_sorted_by(|a, b| a < b)
}

fn put_list(out: &mut Vec<u8>, list: &[ReplicaId]) {
    put_number(out, list.len() as u64);
    for replica in list {
        out.extend_from_slice(&replica.0.to_le_bytes());
    }
}

fn take_list(take: &mut Take<'_>) -> Result<Vec<ReplicaId>, Malformed> {
    let count = take.count(GROUP_MEMBERS_MAX, "too many members")?;
    (0..count).map(|_| take.word().map(ReplicaId)).collect()
}

fn version(take: &mut Take<'_>) -> Result<(), Malformed> {
    match take.u8()? {
        VERSION => Ok(()),
        _ => Err(Malformed("a membership of an unknown version")),
    }
}

fn ended(take: &Take<'_>) -> Result<(), Malformed> {
    take.is_empty()
        .then_some(())
        .ok_or(Malformed("more than was announced"))
}
