//! The choice of the next leader.

use crate::replica::{Epoch, LogPosition};
use leveret_types::NodeId;

/// What one member has answered to the question to prepare an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The member's node.
    pub node: NodeId,
    /// The newest epoch that it has promised.
    pub promised: Epoch,
    /// What it has.
    pub position: LogPosition,
    /// Whether it has all that it ever said it had.
    pub is_whole: bool,
}

/// Chooses the leader of an epoch: of a majority of the members that have promised it the one that
/// has most. Of several that have as much the first one of `preferred`, or of the members, leads.
/// `None` while there is no majority.
///
/// Members that have lost something do not count for the majority, and do not lead; but once *all*
/// members have answered there is nobody else to be heard, and whoever has most leads.
#[must_use]
pub fn choose(
    epoch: Epoch,
    members: &[NodeId],
    answers: &[Answer],
    preferred: &[NodeId],
) -> Option<NodeId> {
    let is_valid = |answer: &&Answer| answer.promised == epoch && members.contains(&answer.node);
    let valid_answers = || answers.iter().filter(is_valid);
    let count = |whole_only: bool| {
        let counts = |member: &&NodeId| {
            valid_answers().any(|a| a.node == **member && (a.is_whole || !whole_only))
        };
        members.iter().filter(counts).count()
    };
    let has_majority = 2 * count(true) > members.len();
    if !has_majority && count(false) < members.len() {
        return None;
    }
    let rank = |node: NodeId| {
        let order = preferred.iter().chain(members);
        let at = order.enumerate().find(|(_, other)| **other == node);
        std::cmp::Reverse(at.map_or(usize::MAX, |(at, _)| at))
    };
    let leads = valid_answers().filter(|answer| answer.is_whole || !has_majority);
    let most = leads.max_by_key(|a| (a.is_whole, a.position, rank(a.node)));
    most.map(|answer| answer.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    fn answer(node: u32, log_epoch: u64, next_offset: u64, is_whole: bool) -> Answer {
        let position = LogPosition {
            log_epoch: Epoch(log_epoch),
            next_offset,
        };
        Answer {
            node: NodeId(node),
            promised: Epoch(5),
            position,
            is_whole,
        }
    }

    fn chosen(answers: &[Answer], preferred: &[NodeId]) -> Option<u32> {
        choose(Epoch(5), &MEMBERS, answers, preferred).map(|node| node.0)
    }

    #[test]
    fn the_newest_log_leads_and_of_these_the_longest() {
        let (long, new) = (answer(1, 2, 90, true), answer(2, 4, 10, true));
        assert_eq!(chosen(&[long], &[]), None, "no majority");
        assert_eq!(chosen(&[long, long], &[]), None, "one member twice");
        assert_eq!(chosen(&[long, new], &[NodeId(1)]), Some(2));
        let longer = answer(3, 4, 11, true);
        assert_eq!(chosen(&[long, new, longer], &[]), Some(3));
        let same = answer(3, 4, 10, true);
        assert_eq!(chosen(&[same, new], &[]), Some(2));
        assert_eq!(chosen(&[same, new], &[NodeId(3)]), Some(3));
    }

    #[test]
    fn who_promised_another_epoch_or_is_no_member_is_not_heard() {
        let answers = [
            answer(1, 2, 90, true),
            answer(4, 9, 9, true),
            Answer {
                promised: Epoch(6),
                ..answer(2, 4, 9, true)
            },
        ];
        assert_eq!(chosen(&answers, &[]), None);
    }

    #[test]
    fn a_member_that_lost_something_counts_only_once_all_have_answered() {
        let lost = answer(1, 4, 90, false);
        let (second, third) = (answer(2, 1, 5, true), answer(3, 1, 6, true));
        assert_eq!(chosen(&[lost, second], &[]), None);
        assert_eq!(chosen(&[lost, second, third], &[]), Some(3));
        let lost_too = answer(2, 4, 91, false);
        assert_eq!(chosen(&[lost, lost_too, third], &[]), Some(3));
        let all_lost = answer(3, 4, 1, false);
        assert_eq!(chosen(&[lost, lost_too, all_lost], &[]), Some(2));
    }
}
