//! Delivery by a leader: how far it may deliver, and to whom it need not send messages whole.
//!
//! It may as far as a committed entry says so ([`DeliveryWatermarks`]). Whoever leads next flags
//! all below that as redelivered, for it may have been. The mark runs ahead of what is handed out,
//! by what consumers may take, so that deliveries need not wait for it: entries that bring or take
//! messages carry it along.
//!
//! A delivery need not carry its message to a node whose member has the message in its own logs
//! ([`ReplicatedTo`]).

use super::Leader;
use crate::quorum::replica::applied_state::VIEW_LOG;
use crate::quorum::replica::header::Header;
use crate::quorum::replica::priority_logs::PriorityLogs;
use leveret_queue::Position;
use leveret_types::limits::{
    ENTRIES_REMEMBERED, QUORUM_WATERMARK_MESSAGES_GOT, QUORUM_WATERMARK_MESSAGES_MAX,
    QUORUM_WATERMARK_MESSAGES_MIN,
};
use leveret_types::{NodeId, ReplicaId};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// How far one priority log's messages may be handed out.
#[derive(Clone, Copy, Debug)]
struct Watermark {
    priority_log: u8,
    /// A committed entry says so.
    committed: u64,
    /// An entry that is under way says so.
    proposed: u64,
    /// Messages lie beyond that one.
    has_more: bool,
}

/// How far a leader may hand messages out.
#[derive(Debug, Default)]
pub(super) struct DeliveryWatermarks {
    marks: Vec<Watermark>,
    /// Whether an entry is to move a mark, for what is below it will soon be handed out or is.
    pub(super) is_wanted: bool,
    /// Whether somebody waits for that entry.
    pub(super) is_awaited: bool,
    /// Whether messages are got one by one.
    is_got: bool,
    /// How far ahead the marks run; nothing once consumers have come or gone.
    ahead: Option<u64>,
}

impl DeliveryWatermarks {
    pub fn new(handed_out: impl Iterator<Item = (u8, u64)>) -> Self {
        let mark = |(priority_log, through)| Watermark {
            priority_log,
            committed: through,
            proposed: through,
            has_more: true,
        };
        Self {
            marks: handed_out.map(mark).collect(),
            is_wanted: false,
            is_awaited: false,
            is_got: false,
            ahead: None,
        }
    }

    fn mark(&mut self, priority_log: u8) -> &mut Watermark {
        let at = match self
            .marks
            .iter()
            .position(|mark| mark.priority_log == priority_log)
        {
            Some(at) => at,
            None => {
                self.marks.push(Watermark {
                    priority_log,
                    committed: 0,
                    proposed: 0,
                    has_more: true,
                });
                self.marks.len() - 1
            }
        };
        &mut self.marks[at]
    }

    /// Whether a message may be handed out now. If not, an entry is to say that it may; and the
    /// next one is wanted when half of what the last one permitted is used, so that nobody waits
    /// for it.
    pub(super) fn allows(&mut self, position: Position) -> bool {
        let half = self.ahead.unwrap_or(0) / 2;
        let mark = *self.mark(position.priority_log);
        let is_beyond = position.index >= mark.proposed;
        self.is_awaited |= is_beyond;
        self.is_wanted |= is_beyond || mark.has_more && position.index + half >= mark.proposed;
        position.index < mark.committed
    }

    /// An entry is committed that says so.
    pub(super) fn committed(&mut self, priority_log: u8, through: u64) {
        let mark = self.mark(priority_log);
        mark.committed = mark.committed.max(through);
        mark.proposed = mark.proposed.max(through);
    }

    /// What was to be proposed last was not.
    pub(super) fn not_proposed(&mut self) {
        for mark in &mut self.marks {
            mark.proposed = mark.committed;
            mark.has_more = true;
        }
        self.is_wanted = true;
    }

    /// Consumers have come or gone.
    pub(super) const fn consumers_changed(&mut self) {
        self.ahead = None;
    }
}

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
    pub const fn new(first: u64) -> Self {
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

impl Leader {
    /// How many messages consumers may take before the next entry: twice what they may hold, and so
    /// many at least that who settles and gets more finds the mark ahead.
    fn ahead(&mut self) -> u64 {
        if let Some(ahead) = self.watermarks.ahead {
            return ahead;
        }
        let takes = self.queue.consumers().map(|one| match one.consumer {
            consumer if consumer.no_ack || consumer.prefetch == 0 => QUORUM_WATERMARK_MESSAGES_MAX,
            consumer => 2 * u64::from(consumer.prefetch),
        });
        let sum = takes.fold(0, u64::saturating_add);
        let ahead = match sum {
            // Somebody gets messages one by one.
            0 => QUORUM_WATERMARK_MESSAGES_GOT,
            sum => sum.clamp(QUORUM_WATERMARK_MESSAGES_MIN, QUORUM_WATERMARK_MESSAGES_MAX),
        };
        self.watermarks.ahead = Some(ahead);
        ahead
    }

    /// Says in a header that is about to be proposed how far messages may be handed out once it is
    /// committed.
    pub(super) fn put_watermarks(&mut self, header: &mut Header, priority_logs: &PriorityLogs) {
        let is_wanted = std::mem::take(&mut self.watermarks.is_wanted);
        self.watermarks.is_awaited = false;
        let has_consumers = self.usage.has_consumers();
        self.watermarks.is_got |= is_wanted && !has_consumers;
        let ahead = match is_wanted || has_consumers || self.watermarks.is_got {
            true => self.ahead(),
            // Nobody is there to take anything.
            false => 0,
        };
        let ends: SmallVec<[(u8, u64); 4]> = match &self.viewing {
            Some(viewing) => viewing
                .proposed
                .map(|end| (VIEW_LOG, end))
                .into_iter()
                .collect(),
            None => priority_logs
                .numbers()
                .map(|priority_log| (priority_log, priority_logs.end(priority_log)))
                .collect(),
        };
        for (priority_log, end) in ends {
            let came = header
                .came
                .iter()
                .rev()
                .find(|came| came.priority_log == priority_log);
            let end = came.map_or(end, |came| came.range.end);
            let handed_out = self.queue.delivered_through(priority_log);
            let next = self.queue.next_index_from(priority_log, handed_out);
            let through = match ahead {
                0 => handed_out,
                ahead => end.min(next + ahead).max(handed_out),
            };
            let mark = self.watermarks.mark(priority_log);
            mark.has_more = through < end;
            if through > mark.proposed {
                mark.proposed = through;
                header.delivered.push((priority_log, through));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_mark_is_wanted_when_half_is_used_and_awaited_by_nobody_then() {
        let mut watermarks = DeliveryWatermarks::new([(4, 100)].into_iter());
        watermarks.ahead = Some(64);
        let at = |index| Position {
            priority_log: 4,
            index,
        };
        assert!(watermarks.allows(at(67)) && !watermarks.is_wanted);
        assert!(watermarks.allows(at(68)) && watermarks.is_wanted && !watermarks.is_awaited);
        assert!(!watermarks.allows(at(100)) && watermarks.is_awaited);
        // At the end of what there is, the next message brings its own.
        (watermarks.is_wanted, watermarks.mark(4).has_more) = (false, false);
        assert!(watermarks.allows(at(99)) && !watermarks.is_wanted);
    }

    #[test]
    fn only_what_is_committed_is_reached_and_what_is_under_way_is_not_asked_for_again() {
        let mut watermarks = DeliveryWatermarks::new([(4, 10)].into_iter());
        let at = |priority_log, index| Position {
            priority_log,
            index,
        };
        assert!(watermarks.allows(at(4, 9)) && !watermarks.is_wanted);
        assert!(!watermarks.allows(at(4, 10)) && watermarks.is_wanted);
        watermarks.is_wanted = false;
        watermarks.mark(4).proposed = 20;
        assert!(
            !watermarks.allows(at(4, 19)) && !watermarks.is_wanted,
            "under way"
        );
        assert!(!watermarks.allows(at(4, 20)) && watermarks.is_wanted);
        watermarks.committed(4, 20);
        assert!(watermarks.allows(at(4, 19)));
        assert!(
            !watermarks.allows(at(5, 0)),
            "a priority log of which nothing is known"
        );
        watermarks.mark(4).proposed = 30;
        watermarks.is_wanted = false;
        watermarks.not_proposed();
        assert!(watermarks.is_wanted);
        assert_eq!(watermarks.mark(4).proposed, 20);
    }

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
