//! Which followers have a message in their own logs, so that a delivery need not carry it there.

use leveret_types::limits::ENTRIES_REMEMBERED;
use leveret_types::{NodeId, ReplicaId};
use std::collections::VecDeque;

/// Of the newest entries of a leader's term, which messages they brought; and how far the logs of
/// the other members are the same as the leader's.
#[derive(Debug)]
pub(super) struct ReplicatedTo {
    /// The first entry of the leader's term: who has it has all that came before.
    first: u64,
    /// For each priority log the newest entries that brought it messages, ascending: the index
    /// after the last message, and the entry.
    priority_logs: Vec<(u8, VecDeque<(u64, u64)>)>,
    matched: Vec<(NodeId, u64)>,
}

impl ReplicatedTo {
    pub(super) const fn new(first: u64) -> Self {
        Self {
            first,
            priority_logs: Vec::new(),
            matched: Vec::new(),
        }
    }

    /// An entry of this term is committed that brought a priority log messages up to `end`.
    pub(super) fn came(&mut self, entry: u64, priority_log: u8, end: u64) {
        let at = match self
            .priority_logs
            .iter()
            .position(|(of, _)| *of == priority_log)
        {
            Some(at) => at,
            None => {
                self.priority_logs.push((priority_log, VecDeque::new()));
                self.priority_logs.len() - 1
            }
        };
        let entries = &mut self.priority_logs[at].1;
        if entries.len() == ENTRIES_REMEMBERED {
            entries.pop_front();
        }
        entries.push_back((end, entry));
    }

    /// How far the other members are.
    pub(super) fn set_matched(&mut self, matched: impl Iterator<Item = (ReplicaId, u64)>) {
        self.matched.clear();
        let of_nodes = matched.map(|(replica, matched)| (replica.node(), matched));
        self.matched.extend(of_nodes);
    }

    /// The entry by which the member on `node` has a message: its own, or a later one. Nothing if
    /// there is no member, or it is not known to have the message.
    pub(super) fn by(&self, node: NodeId, priority_log: u8, index: u64) -> Option<u64> {
        let mut matched = self.matched.iter();
        let (_, matched) = matched.find(|(of, _)| *of == node)?;
        let entry = self.entry(priority_log, index);
        (*matched >= entry).then_some(entry)
    }

    fn entry(&self, priority_log: u8, index: u64) -> u64 {
        let Some((_, entries)) = self
            .priority_logs
            .iter()
            .find(|(of, _)| *of == priority_log)
        else {
            return self.first;
        };
        let at = entries.partition_point(|(end, _)| *end <= index);
        entries.get(at).map_or(u64::MAX, |(_, entry)| *entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLLOWER: NodeId = NodeId(2);

    fn matched(replicated_to: &mut ReplicatedTo, index: u64) {
        let members = [
            (ReplicaId::new(FOLLOWER, 0), index),
            (ReplicaId::new(NodeId(3), 0), 1_000),
        ];
        replicated_to.set_matched(members.into_iter());
    }

    #[test]
    fn a_member_has_a_message_from_its_entry_on() {
        let mut replicated_to = ReplicatedTo::new(10);
        replicated_to.came(11, 0, 5);
        replicated_to.came(12, 1, 1);
        replicated_to.came(13, 0, 6);
        // The priority log, the index, and the entry that is needed.
        for (priority_log, index, entry) in [
            (0, 0, 11),
            (0, 4, 11),
            (0, 5, 13),
            (1, 0, 12),
            // No entry of this term brought this priority log anything.
            (2, 9, 10),
        ] {
            matched(&mut replicated_to, entry - 1);
            assert_eq!(
                replicated_to.by(FOLLOWER, priority_log, index),
                None,
                "{priority_log} {index}"
            );
            matched(&mut replicated_to, entry);
            assert_eq!(
                replicated_to.by(FOLLOWER, priority_log, index),
                Some(entry),
                "{priority_log} {index}"
            );
        }
        matched(&mut replicated_to, 1_000);
        assert_eq!(
            replicated_to.by(FOLLOWER, 0, 6),
            None,
            "no entry brought it"
        );
        assert_eq!(replicated_to.by(NodeId(4), 0, 0), None, "no member");
    }

    #[test]
    fn what_is_forgotten_counts_as_brought_later() {
        let mut replicated_to = ReplicatedTo::new(10);
        let last = 10 + ENTRIES_REMEMBERED as u64 + 1;
        for entry in 11..=last {
            replicated_to.came(entry, 0, entry);
        }
        matched(&mut replicated_to, 11);
        assert_eq!(replicated_to.by(FOLLOWER, 0, 0), None);
        matched(&mut replicated_to, 12);
        assert_eq!(replicated_to.by(FOLLOWER, 0, 0), Some(12));
    }
}
