//! A member sends to the others: messages of the group, and behind their entries the messages of
//! the queue, out of what it keeps to that end or out of the log, as far as there is room on the
//! way to them.

use super::entry_payload::{self, EntryPayload};
use super::shared_bytes::SharedBytes;
use super::{Replica, ShardContext, header};
use crate::peer_rooms::{PeerRooms, Waiter};
use crate::quorum::protocol::Origin;
use crate::shard::log_of;
use bytes::Bytes;
use leveret_replication::Message;
use leveret_storage::{Read, ShardLogs};
use leveret_types::limits::QUORUM_SENT_BYTES;
use leveret_types::{NodeId, QueueId};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A message that waits for room on its way, or until what lies behind its entries has been read.
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
    /// What it keeps together with others, once it keeps something.
    together: Option<SharedBytes>,
    pub(super) parked: VecDeque<Parked>,
    /// Nodes that did not have what they were referred to: entries up to that one go whole.
    pub(super) lacking: SmallVec<[(NodeId, u64); 2]>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.reweigh(self.kept_bytes, 0);
    }
}

impl Outgoing {
    /// Keeps what lies behind an entry that this member proposes: the newest, as far as neither
    /// this queue nor all `together` keep too much.
    pub(super) fn keep(&mut self, index: u64, entry_payload: EntryPayload, together: &SharedBytes) {
        self.together.get_or_insert_with(|| together.clone());
        self.reweigh(0, entry_payload.weight());
        self.kept.push_back((index, entry_payload));
        while self.kept.len() > 1 && (self.kept_bytes > QUORUM_SENT_BYTES || together.is_exceeded())
        {
            self.drop_first();
        }
    }

    fn reweigh(&mut self, from: usize, to: usize) {
        self.kept_bytes = self.kept_bytes - from + to;
        if let Some(together) = &self.together {
            together.change(from, to);
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, entry_payload)) = self.kept.pop_front() {
            self.reweigh(entry_payload.weight(), 0);
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
            self.reweigh(entry_payload.weight(), 0);
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

    /// The group sends a member entries again, from some place on: what waits to be sent from there
    /// on is not sent twice.
    fn forget_superseded(&mut self, message: &Message) {
        let first = message.entries().first().map(|entry| entry.index);
        let is_superseded = |parked: &Parked| {
            let of_it = parked.message.entries().first().map(|entry| entry.index);
            parked.message.to == message.to && of_it >= first
        };
        self.parked.retain(|parked| !is_superseded(parked));
    }

    /// Whether a node may be referred to what it has published of the entry at `index`.
    pub(super) fn may_refer(&self, node: NodeId, index: u64) -> bool {
        let lacks = |(of, through): &(NodeId, u64)| *of == node && index <= *through;
        !self.lacking.iter().any(lacks)
    }
}

impl Parked {
    pub const fn new(message: Message) -> Self {
        Self {
            message,
            built: Vec::new(),
            entries: 0,
            referring: None,
            partial: Vec::new(),
            read: 0,
        }
    }

    /// Its entries with what lies behind them, in bytes.
    fn weight(&self) -> usize {
        let entries = self.message.entries().iter();
        let weight: u64 = entries.map(|entry| header::weigh(&entry.data)).sum();
        usize::try_from(weight).unwrap_or(usize::MAX)
    }

    /// Takes the room on its way; whether there is so much.
    fn take_room(&self, peer_rooms: &mut PeerRooms, queue: QueueId) -> bool {
        let (bytes, to) = (self.weight(), self.message.to.node());
        bytes == 0 || peer_rooms.take(to, bytes, Waiter::Entries(queue))
    }

    /// Gives that room back: others may send while something is read for this one.
    fn give_room_back(&self, peer_rooms: &mut PeerRooms) {
        peer_rooms.give_back(self.message.to.node(), self.weight());
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

impl Replica {
    /// Sends a message of the group.
    pub(super) fn send_message(&mut self, context: &mut ShardContext<'_>, message: Message) {
        let has_entries = !message.entries().is_empty();
        // What follows the entries must not overtake them.
        let parked = &self.outgoing.parked;
        let waits = has_entries && parked.iter().any(|p| p.message.to == message.to);
        if waits {
            self.outgoing.forget_superseded(&message);
        }
        let mut parked = Parked::new(message);
        if waits || !self.try_send(context, &mut parked) {
            self.outgoing.parked.push_back(parked);
            self.note_corruption(context.logs);
        }
    }

    fn try_send(&self, context: &mut ShardContext<'_>, parked: &mut Parked) -> bool {
        if !parked.take_room(context.peer_rooms, self.id) {
            return false;
        }
        while parked.entries < parked.message.entries().len() {
            if !parked.build(&self.outgoing, context.logs, self.id) {
                parked.give_room_back(context.peer_rooms);
                return false;
            }
        }
        let message = &parked.message;
        let (run, built) = (parked.referring, parked.built.drain(..));
        let mut frame = entry_payload::frame(self.id, message, run, built);
        frame.may_wait = self.sends_lazily(context, message);
        context.effects.peer.push((message.to.node(), frame));
        true
    }

    /// Tries again what waited for room or a read.
    pub(super) fn retry_outgoing(&mut self, context: &mut ShardContext<'_>) {
        let mut blocked = Vec::new();
        for mut parked in std::mem::take(&mut self.outgoing.parked) {
            let to = parked.message.to;
            if blocked.contains(&to) || !self.try_send(context, &mut parked) {
                blocked.push(to);
                self.outgoing.parked.push_back(parked);
            }
        }
        if !blocked.is_empty() {
            self.note_corruption(context.logs);
        }
    }

    /// What was to go to this node is void.
    pub(super) fn forget_outgoing(&mut self, node: NodeId) {
        let to = |parked: &Parked| parked.message.to.node() == node;
        self.outgoing.parked.retain(|parked| !to(parked));
    }

    /// A node does not have what the entry at `index` refers to: it gets all entries again, whole.
    /// Several frames may have been on their way; the first that is told of does for all of them.
    pub(super) fn on_lacking(&mut self, context: &mut ShardContext<'_>, node: NodeId, index: u64) {
        if self.leads.is_none() || !self.outgoing.may_refer(node, index) {
            return;
        }
        self.forget_outgoing(node);
        let outgoing = &mut self.outgoing;
        outgoing.lacking.retain(|(of, _)| *of != node);
        outgoing.lacking.push((node, self.group.last_index()));
        self.group.lost(node);
        self.drive(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::limits::QUORUM_SENT_NODE_BYTES;
    use std::sync::atomic::Ordering;

    fn payload(bytes: usize) -> EntryPayload {
        EntryPayload {
            bytes: Bytes::from(vec![0; bytes]),
            published: Vec::new(),
        }
    }

    #[test]
    fn what_is_applied_takes_no_room_any_more() {
        let (mut outgoing, together) = (Outgoing::default(), SharedBytes::of_shard(1));
        (1..=1_000).for_each(|index| outgoing.keep(index, payload(8), &together));
        outgoing.applied(999);
        assert_eq!((outgoing.kept.len(), outgoing.kept_bytes), (1, 8));
        outgoing.applied(1_000);
        assert_eq!((outgoing.kept.capacity(), outgoing.kept_bytes), (0, 0));
    }

    #[test]
    fn the_newest_entries_are_kept_as_far_as_there_is_room_and_the_last_in_any_case() {
        let (mut outgoing, together) = (Outgoing::default(), SharedBytes::of_shard(1));
        let quarter = || payload(QUORUM_SENT_BYTES / 4);
        (1..=4).for_each(|index| outgoing.keep(index, quarter(), &together));
        assert_eq!(outgoing.kept.len(), 4, "as much as there may be");
        outgoing.keep(5, payload(1), &together);
        assert!(outgoing.get(1).is_none() && outgoing.get(2).is_some());
        outgoing.keep(6, payload(QUORUM_SENT_BYTES + 1), &together);
        assert!(outgoing.get(5).is_none() && outgoing.get(6).is_some());
        outgoing.forget_from(6);
        assert_eq!((outgoing.kept.len(), outgoing.kept_bytes), (0, 0));
    }

    #[test]
    fn all_queues_of_a_shard_together_keep_so_much_and_of_each_the_newest_entry() {
        let together = SharedBytes::of_shard(16);
        let (each, max) = (QUORUM_SENT_BYTES / 4, QUORUM_SENT_NODE_BYTES / 16);
        let mut queues: Vec<Outgoing> = (0..max / each).map(|_| Outgoing::default()).collect();
        for queue in &mut queues {
            queue.keep(1, payload(each), &together);
        }
        assert!(!together.is_exceeded(), "to the last byte");
        queues[0].keep(2, payload(1), &together);
        assert_eq!(
            queues[0].kept.len(),
            1,
            "the older one is read from the log"
        );
        queues[0].keep(3, payload(each + 1), &together);
        assert_eq!(queues[0].kept.len(), 1, "the newest is kept");
        assert!(together.is_exceeded());
        queues.pop();
        assert!(!together.is_exceeded(), "what is gone keeps nothing");
        queues[0].clear();
        queues[1].applied(1);
        let left = (queues.len() - 2) * each;
        assert_eq!(together.bytes.load(Ordering::Relaxed), left);
    }
}
