//! Spare followers: a majority does without them.
//!
//! An entry is committed once it is durable at a majority: in a group of three, the answer of one
//! of the two followers is one too many. Where a queue's entries are small and far apart, a
//! follower whose answer is not needed therefore lets what has come gather for its next write of
//! the log, and the frames to it and from it go with whatever else goes there. It costs its node a
//! part of a write then, instead of one of its own, and wakes nobody.
//!
//! Whose answer is needed each member knows by itself: of the voters that are up, those behind the
//! leader in the ring of their ids, as many as a majority wants besides the leader. Nothing is
//! promised by that. A spare follower has each entry a few milliseconds later than the others, and
//! answers; if one that is needed fails, is slow, or counts as spare in the eyes of the others, an
//! entry waits no longer than that.

use super::{Replica, ShardContext};
use leveret_replication::{Body, Membership, Message};
use leveret_types::limits::QUORUM_QUIET_MS;
use leveret_types::{NodeId, ReplicaId};

/// Messages that the entries of a quiet queue bring at most.
const QUIET_MESSAGES: u64 = 16;

/// How a queue's entries come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When entries were appended last, on the monotonic clock.
    appended_ms: u64,
    /// Whether that was long after the ones before, and they were small.
    is_quiet: bool,
    /// Whether somebody waited for the log before they were appended.
    pub(super) was_log_awaited: bool,
    /// When an entry was applied last, on the monotonic clock.
    pub(super) applied_ms: u64,
    /// Whether what the leader proposes now comes alone.
    proposes_alone: bool,
    /// Whether an entry was appended that may share its write with others.
    pub(super) writes_soon: bool,
}

/// Whether a majority can do without the answers of `member`, as far as is known on `node`, where
/// the nodes `up` are known to be up.
pub(super) fn is_spare(
    membership: &Membership,
    (leader, member): (ReplicaId, ReplicaId),
    (node, up): (NodeId, &[NodeId]),
) -> bool {
    let voters = &membership.voters;
    let Ok(at) = voters.binary_search(&leader) else {
        return false;
    };
    // While members change, two majorities are needed.
    if member == leader || !voters.contains(&member) || !membership.voters_outgoing.is_empty() {
        return false;
    }
    let behind = voters[at + 1..].iter().chain(&voters[..at]);
    let is_up = |voter: &&ReplicaId| voter.node() == node || up.contains(&voter.node());
    let mut needed = behind.filter(is_up).take(voters.len() / 2);
    needed.all(|needed| *needed != member)
}

impl Replica {
    /// Whether a member is spare, and the queue so quiet that it may take its time.
    fn may_take_time(&self, context: &ShardContext<'_>, member: ReplicaId) -> bool {
        let Some(leader) = self.group.leader().filter(|_| self.pace.is_quiet) else {
            return false;
        };
        let at = (context.node, context.up);
        is_spare(self.group.membership(), (leader, member), at)
    }

    /// Whether nobody waits for what is appended here now.
    pub(super) fn appends_lazily(&self, context: &ShardContext<'_>) -> bool {
        self.leads.is_none() && self.may_take_time(context, self.group.replica())
    }

    /// Whether what is appended here now may wait a moment for others, with which it shares a write
    /// of the log.
    pub(super) const fn appends_soon(&self) -> bool {
        match self.leads {
            Some(_) => self.pace.proposes_alone,
            None => self.pace.is_quiet,
        }
    }

    /// Proposes what has come after a while, and with nothing on its way: its entry goes to the
    /// followers before the log is written, whose write here and there it shares with others.
    /// `was_log_awaited` is from before the batch's messages were appended.
    pub(super) fn propose_alone(&mut self, context: &mut ShardContext<'_>, was_log_awaited: bool) {
        let is_after_a_while = context.now.monotonic_ms >= self.pace.applied_ms + QUORUM_QUIET_MS;
        let leader = self.leader.as_ref().filter(|_| is_after_a_while);
        if leader.is_some_and(|leader| leader.is_alone(QUIET_MESSAGES as usize)) {
            self.pace.was_log_awaited = was_log_awaited;
            self.pace.proposes_alone = true;
            self.close_batch(context);
            self.pace.proposes_alone = false;
        }
    }

    /// Whether a message may wait for others to the same node.
    pub(super) fn sends_lazily(&self, context: &ShardContext<'_>, message: &Message) -> bool {
        match &message.body {
            Body::Append { entries, .. } if !entries.is_empty() => {
                self.may_take_time(context, message.to)
            }
            Body::AppendReply { refused: None, .. } => self.may_take_time(context, message.from),
            _ => false,
        }
    }

    /// So many entries were appended: whether they are small, and follow the last ones after a
    /// while.
    pub(super) fn note_appended(&mut self, context: &ShardContext<'_>, count: usize) {
        let now_ms = context.now.monotonic_ms;
        let newest = self.tail.iter().rev().take(count);
        let messages: u64 = newest.map(|pending| pending.header.messages()).sum();
        let is_after_a_while = now_ms >= self.pace.appended_ms + QUORUM_QUIET_MS;
        self.pace.is_quiet = is_after_a_while && messages <= QUIET_MESSAGES;
        self.pace.appended_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(node: u32) -> ReplicaId {
        ReplicaId::new(NodeId(node), 0)
    }

    /// Who is spare in a group of the nodes up to `count` that is led by `leader`, while these
    /// others are up, seen from `node`.
    fn spare(count: u32, leader: u32, node: u32, up: &[u32]) -> Vec<u32> {
        let membership = Membership::of_voters((1..=count).map(replica));
        let up: Vec<NodeId> = up.iter().copied().map(NodeId).collect();
        let is_spare = |member: &u32| {
            let of = (replica(leader), replica(*member));
            is_spare(&membership, of, (NodeId(node), &up))
        };
        (1..=count).filter(is_spare).collect()
    }

    #[test]
    fn a_majority_does_without_those_farthest_behind_the_leader() {
        assert_eq!(spare(3, 1, 1, &[2, 3]), [3]);
        assert_eq!(spare(3, 2, 2, &[1, 3]), [1]);
        assert_eq!(spare(3, 3, 2, &[1, 3]), [2], "a follower sees the same");
        assert_eq!(spare(5, 4, 4, &[1, 2, 3, 5]), [2, 3]);
        assert_eq!(spare(4, 1, 1, &[2, 3, 4]), [4]);
    }

    #[test]
    fn nobody_is_spare_where_each_answer_is_needed() {
        assert_eq!(spare(1, 1, 1, &[]), []);
        assert_eq!(spare(2, 1, 1, &[2]), []);
        assert_eq!(spare(3, 1, 1, &[3]), [2], "who is down is not waited for");
        assert_eq!(spare(3, 1, 3, &[1]), [2], "and the other one knows");
        assert_eq!(spare(3, 7, 1, &[2, 3]), [], "the leader is no voter");
    }

    #[test]
    fn a_group_whose_members_change_needs_all_answers() {
        let mut membership = Membership::of_voters((1..=3).map(replica));
        let of = (replica(1), replica(3));
        let up = [NodeId(2), NodeId(3)];
        assert!(is_spare(&membership, of, (NodeId(1), &up)));
        assert!(
            !is_spare(&membership, (of.0, replica(4)), (NodeId(1), &up)),
            "no voter"
        );
        membership.voters_outgoing = vec![replica(1), replica(2)];
        assert!(!is_spare(&membership, of, (NodeId(1), &up)));
    }
}
