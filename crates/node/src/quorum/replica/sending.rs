//! A member sends to the others: see [`super::outgoing`] for what it keeps to that end.

use super::outgoing::Parked;
use super::{Around, Replica, entry_payload};
use leveret_replication::Message;
use leveret_types::NodeId;

impl Replica {
    /// Sends a message of the group.
    pub(super) fn send_message(&mut self, around: &mut Around<'_>, message: Message) {
        let has_entries = !message.entries().is_empty();
        // What follows the entries must not overtake them.
        let parked = &self.outgoing.parked;
        let waits = has_entries && parked.iter().any(|p| p.message.to == message.to);
        let mut parked = Parked::new(message);
        if waits || !self.try_send(around, &mut parked) {
            self.outgoing.parked.push_back(parked);
            self.note_corruption(around.logs);
        }
    }

    fn try_send(&self, around: &mut Around<'_>, parked: &mut Parked) -> bool {
        while parked.entries < parked.message.entries().len() {
            if !parked.build(&self.outgoing, around.logs, self.id) {
                return false;
            }
        }
        let message = &parked.message;
        let (run, built) = (parked.referring, parked.built.drain(..));
        let mut frame = entry_payload::frame(self.id, message, run, built);
        frame.may_wait = self.sends_lazily(around, message);
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
        if !blocked.is_empty() {
            self.note_corruption(around.logs);
        }
    }

    /// What was to go to this node is void.
    pub(super) fn forget_outgoing(&mut self, node: NodeId) {
        let to = |parked: &Parked| parked.message.to.node() == node;
        self.outgoing.parked.retain(|parked| !to(parked));
    }

    /// A node does not have what the entry at `index` refers to: it gets all entries again, whole.
    /// Several frames may have been on their way; the first that is told of does for all of them.
    pub(super) fn told_lacking(&mut self, around: &mut Around<'_>, node: NodeId, index: u64) {
        if self.leads.is_none() || !self.outgoing.may_refer(node, index) {
            return;
        }
        self.forget_outgoing(node);
        let outgoing = &mut self.outgoing;
        outgoing.lacking.retain(|(of, _)| *of != node);
        outgoing.lacking.push((node, self.group.last_index()));
        self.group.lost(node);
        self.drive(around);
    }
}
