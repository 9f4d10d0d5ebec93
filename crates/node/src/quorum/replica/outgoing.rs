//! What a member keeps to send it to the others: messages of the group, and behind their entries
//! the messages of the queue, out of memory or out of the log.

use super::entry_payload::{self, EntryPayload};
use crate::quorum::link::Origin;
use crate::shard::log_of;
use bytes::Bytes;
use leveret_replication::Message;
use leveret_storage::{Read, ShardLogs};
use leveret_types::limits::QUORUM_SENT_BYTES;
use leveret_types::{NodeId, QueueId};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A message that waits until what lies behind its entries has been read.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) message: Message,
    /// What lies behind its first entries, and how many these are.
    pub(super) built: Vec<Bytes>,
    pub(super) entries: usize,
    /// The run of the receiver's node that has published what is referred to in it.
    pub(super) referring: Option<u64>,
    /// The same of the entry that follows these, as far as it was read, and how many messages that
    /// is: what has been read is not held until all is there.
    partial: Vec<u8>,
    read: usize,
}

/// What is kept for sending.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// What lies behind the newest entries, ascending by index: all followers get the same bytes.
    kept: VecDeque<(u64, EntryPayload)>,
    kept_bytes: usize,
    pub(super) parked: VecDeque<Parked>,
    /// Nodes that did not have what they were referred to: entries up to that one go whole.
    pub(super) lacking: SmallVec<[(NodeId, u64); 2]>,
}

impl Outgoing {
    /// Keeps what lies behind an entry that this member proposes.
    pub(super) fn keep(&mut self, index: u64, entry_payload: EntryPayload) {
        self.kept_bytes += entry_payload.weight();
        self.kept.push_back((index, entry_payload));
        while self.kept_bytes > QUORUM_SENT_BYTES && self.kept.len() > 1 {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, entry_payload)) = self.kept.pop_front() {
            self.kept_bytes -= entry_payload.weight();
        }
    }

    /// The entry at `index` is applied: whoever does not have it yet is served from the log.
    pub(super) fn applied(&mut self, index: u64) {
        while self.kept.front().is_some_and(|(first, _)| *first <= index) {
            self.drop_first();
        }
        self.lacking.retain(|(_, through)| *through > index);
        if self.kept.is_empty() && self.kept.capacity() > 16 {
            self.kept = VecDeque::new();
        }
    }

    pub(super) fn forget_from(&mut self, index: u64) {
        while let Some((_, entry_payload)) = self.kept.pop_back_if(|(last, _)| *last >= index) {
            self.kept_bytes -= entry_payload.weight();
        }
    }

    /// Nothing is to be sent any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn get(&self, index: u64) -> Option<&EntryPayload> {
        let at = self.kept.binary_search_by_key(&index, |(index, _)| *index);
        Some(&self.kept[at.ok()?].1)
    }

    /// Whether a node may be referred to what it has published of the entry at `index`.
    pub(super) fn may_refer(&self, node: NodeId, index: u64) -> bool {
        let lacks = |(of, through): &(NodeId, u64)| *of == node && index <= *through;
        !self.lacking.iter().any(lacks)
    }
}

impl Parked {
    pub(super) const fn new(message: Message) -> Self {
        Self {
            message,
            built: Vec::new(),
            entries: 0,
            referring: None,
            partial: Vec::new(),
            read: 0,
        }
    }

    /// Reads what lies behind the next entry; false while that is under way.
    pub(super) fn build(
        &mut self,
        outgoing: &Outgoing,
        logs: &mut ShardLogs,
        queue: QueueId,
    ) -> bool {
        let Some(entry) = self.message.entries().get(self.entries) else {
            return true;
        };
        if self.read == 0
            && let Some(entry_payload) = outgoing.get(entry.index)
        {
            let node = self.message.to.node();
            let run = entry_payload.run_of(node);
            match run.filter(|_| outgoing.may_refer(node, entry.index)) {
                Some(run) if self.referring.is_none_or(|referring| referring == run) => {
                    self.referring = Some(run);
                    entry_payload.referring(Origin { node, start: run }, &mut self.built);
                }
                _ => self.built.push(entry_payload.bytes.clone()),
            }
            self.entries += 1;
            return true;
        }
        let header = entry_payload::header_of(entry).ok().flatten();
        let header = header.unwrap_or_default();
        let came = header.came.iter();
        let all = came.flat_map(|came| came.range.clone().map(|index| (came.priority_log, index)));
        for (priority_log, index) in all.skip(self.read) {
            match logs.read(log_of(queue, priority_log), index) {
                Read::Ready(bytes) => entry_payload::put_message(&mut self.partial, &[&bytes]),
                Read::Gone => entry_payload::put_gone(&mut self.partial),
                Read::Pending => return false,
                Read::Damaged(why) => {
                    tracing::error!(%queue, why, "a message cannot be sent to a follower");
                    return false;
                }
            }
            self.read += 1;
        }
        self.built
            .push(Bytes::from(std::mem::take(&mut self.partial)));
        self.entries += 1;
        self.read = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(bytes: usize) -> EntryPayload {
        EntryPayload {
            bytes: Bytes::from(vec![0; bytes]),
            published: Vec::new(),
        }
    }

    #[test]
    fn what_is_applied_takes_no_room_any_more() {
        let mut outgoing = Outgoing::default();
        (1..=1_000).for_each(|index| outgoing.keep(index, payload(8)));
        outgoing.applied(999);
        assert_eq!((outgoing.kept.len(), outgoing.kept_bytes), (1, 8));
        outgoing.applied(1_000);
        assert_eq!((outgoing.kept.capacity(), outgoing.kept_bytes), (0, 0));
    }

    #[test]
    fn the_newest_entries_are_kept_as_far_as_there_is_room_and_the_last_in_any_case() {
        let mut outgoing = Outgoing::default();
        (1..=4).for_each(|index| outgoing.keep(index, payload(QUORUM_SENT_BYTES / 4)));
        assert_eq!(outgoing.kept.len(), 4, "as much as there may be");
        outgoing.keep(5, payload(1));
        assert!(outgoing.get(1).is_none() && outgoing.get(2).is_some());
        outgoing.keep(6, payload(QUORUM_SENT_BYTES + 1));
        assert!(outgoing.get(5).is_none() && outgoing.get(6).is_some());
        outgoing.forget_from(6);
        assert_eq!((outgoing.kept.len(), outgoing.kept_bytes), (0, 0));
    }
}
