//! What a member sends to the others: messages of the group, and behind their entries the messages
//! of the queue, out of memory or out of the log.

use super::{Around, Replica, attachment};
use crate::shard::log_of;
use bytes::Bytes;
use leveret_replication::{Body, Entry, Message};
use leveret_storage::{Read, ShardLogs};
use leveret_types::QueueId;
use leveret_types::limits::QUORUM_SENT_BYTES;
use std::collections::VecDeque;

/// A message that waits until what lies behind its entries has been read.
#[derive(Debug)]
struct Parked {
    message: Message,
    /// What lies behind its first entries.
    built: Vec<Bytes>,
}

/// What is kept for sending.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// What lies behind the newest entries, ascending by index: all followers get the same bytes.
    kept: VecDeque<(u64, Bytes)>,
    kept_bytes: usize,
    parked: VecDeque<Parked>,
}

impl Outgoing {
    /// Keeps what lies behind an entry that this member proposes.
    pub(super) fn keep(&mut self, index: u64, attachment: Bytes) {
        self.kept_bytes += attachment.len();
        self.kept.push_back((index, attachment));
        while self.kept_bytes > QUORUM_SENT_BYTES && self.kept.len() > 1 {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, bytes)) = self.kept.pop_front() {
            self.kept_bytes -= bytes.len();
        }
    }

    /// The entry at `index` is applied: whoever does not have it yet is served from the log.
    pub(super) fn applied(&mut self, index: u64) {
        while self.kept.front().is_some_and(|(first, _)| *first <= index) {
            self.drop_first();
        }
        if self.kept.is_empty() && self.kept.capacity() > 16 {
            self.kept = VecDeque::new();
        }
    }

    pub(super) fn forget_from(&mut self, index: u64) {
        while let Some((_, bytes)) = self.kept.pop_back_if(|(last, _)| *last >= index) {
            self.kept_bytes -= bytes.len();
        }
    }

    /// Nothing is to be sent any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn get(&self, index: u64) -> Option<Bytes> {
        let at = self.kept.binary_search_by_key(&index, |(index, _)| *index);
        Some(self.kept[at.ok()?].1.clone())
    }

    /// What lies behind an entry; nothing while it is being read.
    fn attachment(&self, logs: &mut ShardLogs, queue: QueueId, entry: &Entry) -> Option<Bytes> {
        if let Some(bytes) = self.get(entry.index) {
            return Some(bytes);
        }
        let Ok(Some(header)) = attachment::header_of(entry) else {
            return Some(Bytes::new());
        };
        let mut out = Vec::with_capacity(usize::try_from(header.weight).unwrap_or(0).min(1 << 20));
        for came in &header.came {
            for index in came.range.clone() {
                match logs.read(log_of(queue, came.lane), index) {
                    Read::Ready(bytes) => attachment::put_message(&mut out, &[&bytes]),
                    Read::Gone => attachment::put_gone(&mut out),
                    Read::Pending => return None,
                    Read::Damaged(why) => {
                        tracing::error!(%queue, why, "a message cannot be sent to a follower");
                        return None;
                    }
                }
            }
        }
        Some(Bytes::from(out))
    }
}

impl Replica {
    /// Sends a message of the group.
    pub(super) fn send(&mut self, around: &mut Around<'_>, message: Message) {
        if matches!(message.body, Body::Vote { .. }) && self.is_mute() {
            return;
        }
        let has_entries = !message.entries().is_empty();
        // What follows the entries must not overtake them.
        let parked = &self.outgoing.parked;
        let waits = has_entries && parked.iter().any(|p| p.message.to == message.to);
        let mut parked = Parked {
            message,
            built: Vec::new(),
        };
        if waits || !self.try_send(around, &mut parked) {
            self.outgoing.parked.push_back(parked);
        }
    }

    fn try_send(&self, around: &mut Around<'_>, parked: &mut Parked) -> bool {
        let Parked { message, built } = parked;
        for entry in &message.entries()[built.len()..] {
            match self.outgoing.attachment(around.logs, self.id, entry) {
                Some(bytes) => built.push(bytes),
                None => return false,
            }
        }
        let frame = attachment::frame(self.id, message, built.drain(..));
        around.effects.peer.push((message.to.node(), frame));
        true
    }

    /// Tries again what waited for a read.
    pub(super) fn retry_outgoing(&mut self, around: &mut Around<'_>) {
        let mut blocked = Vec::new();
        for mut parked in std::mem::take(&mut self.outgoing.parked) {
            let to = parked.message.to;
            if blocked.contains(&to) || !self.try_send(around, &mut parked) {
                blocked.push(to);
                self.outgoing.parked.push_back(parked);
            }
        }
    }

    /// What was to go to this node is void.
    pub(super) fn forget_outgoing(&mut self, node: leveret_types::NodeId) {
        let to = |parked: &Parked| parked.message.to.node() == node;
        self.outgoing.parked.retain(|parked| !to(parked));
    }
}
