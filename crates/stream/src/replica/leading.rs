//! A leader's knowledge of its followers.

use crate::replica::{Attachment, Epoch};
use leveret_types::NodeId;
use leveret_types::limits::STREAM_FOLLOWERS_MAX;
use std::collections::BTreeMap;
use std::ops::Range;

/// A question for chunks that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingFetch {
    pub(crate) question: u64,
    pub(crate) from: u64,
    pub(crate) bytes: u32,
}

/// Where a follower that is read for from disk goes on without looking for its offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyCursor {
    pub(crate) next_offset: u64,
    pub(crate) segment: u64,
    pub(crate) position: u64,
}

/// One follower.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    pub(crate) attachment: Attachment,
    /// All below this is as durable there as the flush level asks.
    durable: u64,
    /// It has all that the leader had when the epoch began.
    is_whole: bool,
    /// The newest question.
    question: u64,
    pub(crate) pending_fetch: Option<PendingFetch>,
    /// The committed offset that it was told last.
    pub(crate) committed_sent: u64,
    /// The oldest offset that it was told last.
    pub(crate) first_sent: u64,
    /// Chunks are being read for it, or it waits for its turn to be served.
    pub(crate) is_served: bool,
    /// What it wants next is damaged in this segment: it is not read again while that is there.
    pub(crate) stuck_in: Option<u64>,
    pub(crate) cursor: Option<CopyCursor>,
}

/// The followers of a leader, and what is committed with them.
#[derive(Clone, Debug)]
pub(crate) struct Leading {
    pub(crate) epoch: Epoch,
    pub(crate) members: Vec<NodeId>,
    /// The offset at which the epoch began.
    pub(crate) start: u64,
    /// Whether the beginning of the epoch is durable: before that nothing is committed.
    pub(crate) is_begun: bool,
    followers: BTreeMap<NodeId, Follower>,
    /// Whether it was said that another one should lead.
    pub(crate) wants_other_leader: bool,
    /// The leader was chosen though its log is damaged at or behind this offset, as no other member
    /// has more.
    pub(crate) damaged_from: Option<u64>,
}

impl Leading {
    pub(crate) fn new(epoch: Epoch, members: Vec<NodeId>, start: u64) -> Self {
        Self {
            epoch,
            members,
            start,
            is_begun: false,
            followers: BTreeMap::new(),
            wants_other_leader: false,
            damaged_from: None,
        }
    }

    /// The offset below which a majority of the members, `me` among them, has all: `durable` is
    /// what `me` has.
    pub(crate) fn committed(&self, me: NodeId, durable: u64) -> u64 {
        self.committed_by(&self.members, me, durable)
    }

    /// The same where one was no member any more.
    pub(crate) fn committed_without(&self, gone: NodeId, me: NodeId, durable: u64) -> u64 {
        let stay = self.members.iter().copied().filter(|node| *node != gone);
        self.committed_by(&stay.collect::<Vec<_>>(), me, durable)
    }

    fn committed_by(&self, members: &[NodeId], me: NodeId, durable: u64) -> u64 {
        if !self.is_begun {
            return 0;
        }
        let has = |member: &NodeId| match self.followers.get(member) {
            _ if *member == me => durable,
            Some(follower) if follower.is_whole => follower.durable,
            _ => 0,
        };
        let mut have: Vec<u64> = members.iter().map(has).collect();
        have.sort_unstable_by(|a, b| b.cmp(a));
        let majority = have.get(members.len() / 2).copied();
        majority.unwrap_or(0).min(durable)
    }

    /// A follower attaches. False if it is an older attachment that comes late, or if there are
    /// followers enough.
    pub(crate) fn attach(&mut self, node: NodeId, attachment: Attachment) -> bool {
        let known = self.followers.get(&node);
        if known.is_some_and(|known| attachment.is_before(known.attachment))
            || known.is_none() && self.followers.len() >= STREAM_FOLLOWERS_MAX
        {
            return false;
        }
        if known.is_some_and(|known| known.attachment == attachment) {
            // The same once more: what it has said since stays.
            return true;
        }
        let follower = Follower {
            attachment,
            durable: 0,
            is_whole: false,
            question: 0,
            pending_fetch: None,
            committed_sent: 0,
            first_sent: 0,
            is_served: false,
            stuck_in: None,
            cursor: None,
        };
        self.followers.insert(node, follower);
        true
    }

    /// The members change. What one had that is no member any more does not count when it is one
    /// again: its files were deleted in between.
    pub(crate) fn set_members(&mut self, members: Vec<NodeId>) {
        let before = std::mem::replace(&mut self.members, members);
        for gone in before.iter().filter(|node| !self.members.contains(node)) {
            self.followers.remove(gone);
        }
    }

    /// A follower by its attachment.
    pub(crate) fn follower(
        &mut self,
        node: NodeId,
        attachment: Attachment,
    ) -> Option<&mut Follower> {
        let follower = self.followers.get_mut(&node)?;
        (follower.attachment == attachment).then_some(follower)
    }

    pub(crate) fn follower_of(&mut self, node: NodeId) -> Option<&mut Follower> {
        self.followers.get_mut(&node)
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.followers.remove(&node);
    }

    /// Followers that could be served: there are chunks for them, a newer committed offset, or
    /// older segments have gone. Not those for which what comes next cannot be read.
    pub(crate) fn take_waiting(&mut self, log: Range<u64>, committed: u64) -> Vec<NodeId> {
        let mut waiting = Vec::new();
        for (node, follower) in &mut self.followers {
            let has_news = follower.committed_sent < committed || follower.first_sent < log.start;
            let wants = |pending_fetch: PendingFetch| pending_fetch.from < log.end || has_news;
            let is_stuck = follower.stuck_in.is_some_and(|of| of >= log.start);
            if !follower.is_served && !is_stuck && follower.pending_fetch.is_some_and(wants) {
                follower.is_served = true;
                waiting.push(*node);
            }
        }
        waiting
    }

    /// What each follower has, and whether it counts.
    pub(crate) fn have(&self) -> impl Iterator<Item = (NodeId, u64, bool)> {
        let have = |(node, f): (&NodeId, &Follower)| (*node, f.durable, f.is_whole);
        self.followers.iter().map(have)
    }
}

impl Follower {
    pub(crate) fn ask(&mut self, question: u64, from: u64, bytes: u32) {
        if question > self.question {
            self.question = question;
            self.pending_fetch = Some(PendingFetch {
                question,
                from,
                bytes,
            });
        }
    }

    pub(crate) fn set_durable(&mut self, next_offset: u64, is_whole: bool) {
        self.durable = self.durable.max(next_offset);
        self.is_whole |= is_whole;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;

    const ME: NodeId = NodeId(1);

    fn leading(members: &[u32]) -> Leading {
        let members = members.iter().copied().map(NodeId).collect();
        let mut leading = Leading::new(Epoch(3), members, 10);
        leading.is_begun = true;
        leading
    }

    fn has(leading: &mut Leading, node: u32, durable: u64, is_whole: bool) {
        assert!(leading.attach(NodeId(node), Attachment(1)));
        let follower = leading.follower(NodeId(node), Attachment(1)).unwrap();
        follower.set_durable(durable, is_whole);
    }

    #[test]
    fn committed_is_what_a_majority_with_the_leader_has() {
        let mut leading = leading(&[1, 2, 3]);
        assert_eq!(leading.committed(ME, 20), 0);
        has(&mut leading, 2, 15, true);
        assert_eq!(leading.committed(ME, 20), 15);
        has(&mut leading, 3, 30, true);
        assert_eq!(
            leading.committed(ME, 20),
            20,
            "never more than the leader has"
        );
        leading.is_begun = false;
        assert_eq!(leading.committed(ME, 20), 0);
    }

    #[test]
    fn who_is_no_member_or_not_whole_does_not_count() {
        let mut leading = leading(&[1, 2]);
        has(&mut leading, 3, 20, true);
        has(&mut leading, 2, 20, false);
        assert_eq!(leading.committed(ME, 20), 0);
        leading.members.push(NodeId(3));
        assert_eq!(leading.committed(ME, 20), 20, "two of three");
    }

    #[test]
    fn without_a_member_that_has_not_all_the_others_are_a_majority() {
        let mut leading = leading(&[1, 2]);
        has(&mut leading, 2, 5, false);
        assert_eq!(leading.committed(ME, 20), 0);
        assert_eq!(leading.committed_without(NodeId(2), ME, 20), 20);
        leading.members.push(NodeId(3));
        assert_eq!(
            leading.committed_without(NodeId(2), ME, 20),
            0,
            "one of two"
        );
    }

    #[test]
    fn one_member_commits_alone() {
        assert_eq!(leading(&[1]).committed(ME, 20), 20);
    }

    #[test]
    fn one_follower_too_many_is_not_taken() {
        let mut leading = leading(&[1, 2, 3]);
        for node in 0..STREAM_FOLLOWERS_MAX as u32 {
            assert!(leading.attach(NodeId(node + 2), Attachment(1)));
        }
        assert!(!leading.attach(NodeId(99), Attachment(1)));
        assert!(leading.attach(NodeId(2), Attachment(2)));
        assert!(!leading.attach(NodeId(2), Attachment(1)), "it comes late");
    }
}
