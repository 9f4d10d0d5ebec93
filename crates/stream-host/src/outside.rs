//! What other nodes and the embedder are to hear of replicas, until they take it.

use leveret_stream::{ReplicaEvent, ReplicaMessage, ReplicaReport};
use leveret_types::limits::STREAM_COPIES_WAITING_BYTES_MAX;
use leveret_types::{NodeId, QueueId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages for one node.
#[derive(Default)]
struct Outbox {
    messages: VecDeque<(QueueId, ReplicaMessage)>,
    bytes: usize,
    /// Streams with a follower on that node, to be served once there is room.
    waiting: BTreeSet<QueueId>,
}

/// What other nodes and the embedder are to hear.
#[derive(Default)]
pub(crate) struct Outside {
    outboxes: BTreeMap<NodeId, Outbox>,
    reports: Vec<ReplicaReport>,
}

impl Outside {
    pub(crate) fn send(&mut self, to: NodeId, stream: QueueId, message: ReplicaMessage) {
        let outbox = self.outboxes.entry(to).or_default();
        outbox.bytes += message.held_bytes();
        outbox.messages.push_back((stream, message));
    }

    pub(crate) fn report(&mut self, stream: QueueId, event: ReplicaEvent) {
        self.reports.push((stream, event));
    }

    /// Whether more chunks for a node may be read.
    pub(crate) fn has_room(&self, to: NodeId) -> bool {
        let outbox = self.outboxes.get(&to);
        outbox.is_none_or(|outbox| outbox.bytes < STREAM_COPIES_WAITING_BYTES_MAX)
    }

    pub(crate) fn register_waiter(&mut self, to: NodeId, stream: QueueId) {
        self.outboxes.entry(to).or_default().waiting.insert(stream);
    }

    /// Messages for a node, of about so many bytes, and the streams that can go on then.
    pub(crate) fn take(
        &mut self,
        to: NodeId,
        bytes_max: usize,
    ) -> (Vec<(QueueId, ReplicaMessage)>, BTreeSet<QueueId>) {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let Some(outbox) = self.outboxes.get_mut(&to) else {
            return (taken, BTreeSet::new());
        };
        while bytes < bytes_max
            && let Some((stream, message)) = outbox.messages.pop_front()
        {
            bytes += message.held_bytes();
            taken.push((stream, message));
        }
        outbox.bytes = outbox.bytes.saturating_sub(bytes);
        let has_room = outbox.bytes < STREAM_COPIES_WAITING_BYTES_MAX;
        let waiting = if has_room {
            std::mem::take(&mut outbox.waiting)
        } else {
            BTreeSet::new()
        };
        if outbox.messages.is_empty() && outbox.waiting.is_empty() {
            self.outboxes.remove(&to);
        }
        (taken, waiting)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let has = |outbox: &Outbox| !outbox.messages.is_empty();
        let nodes = self.outboxes.iter().filter(move |(_, outbox)| has(outbox));
        nodes.map(|(node, _)| *node)
    }

    pub(crate) fn take_reports(&mut self) -> Vec<ReplicaReport> {
        std::mem::take(&mut self.reports)
    }

    /// Drops what was for a node: the link to it is another one.
    pub(crate) fn disconnect(&mut self, node: NodeId) {
        self.outboxes.remove(&node);
    }

    /// Drops what was said of a stream: it is deleted.
    pub(crate) fn forget(&mut self, stream: QueueId) {
        for outbox in self.outboxes.values_mut() {
            outbox.messages.retain(|(of, _)| *of != stream);
            let held = outbox.messages.iter().map(|(_, m)| m.held_bytes());
            outbox.bytes = held.sum();
            outbox.waiting.remove(&stream);
        }
        self.reports.retain(|(of, _)| *of != stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use leveret_stream::Epoch;
    use leveret_stream::replica::Attachment;

    fn chunks(bytes: usize) -> ReplicaMessage {
        ReplicaMessage::Chunks {
            epoch: Epoch(1),
            attachment: Attachment(1),
            question: 1,
            from: 0,
            segment: 0,
            first_offset: 0,
            committed: 0,
            chunks: Bytes::from(vec![0; bytes]),
        }
    }

    #[test]
    fn no_more_is_read_for_a_node_whose_messages_wait_until_some_are_taken() {
        let (to, stream) = (NodeId(2), QueueId(1));
        let mut outside = Outside::default();
        let rest = STREAM_COPIES_WAITING_BYTES_MAX - chunks(0).held_bytes() - 1;
        outside.send(to, stream, chunks(rest));
        assert!(outside.has_room(to), "one octet less than the limit");
        outside.send(to, stream, chunks(0));
        assert!(!outside.has_room(to));
        assert!(outside.has_room(NodeId(3)), "each node has its own");
        outside.register_waiter(to, QueueId(7));
        let (taken, waiting) = outside.take(to, 1);
        assert_eq!((taken.len(), waiting.len()), (1, 1));
        assert_eq!(outside.nodes().count(), 1);
        assert_eq!(outside.take(to, usize::MAX).0.len(), 1);
        assert_eq!(outside.nodes().count(), 0);
    }
}
