//! What leaders say to other nodes' remote queues and there is no room for on the way there:
//! deliveries, and what is behind them.
//!
//! Invariant: to one remote queue, all that is said behind something that is held is held too. How
//! much that is at most, the credit of the consumers says.

use super::protocol::Event;
use hashbrown::HashMap;
use leveret_types::{NodeId, QueueId};
use std::collections::VecDeque;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies {
    /// For each remote queue what it is told, in order, with the session.
    held: HashMap<(NodeId, QueueId), VecDeque<(u64, Event)>, foldhash::fast::FixedState>,
}

impl PendingReplies {
    /// Whether something is held for a node's remote queue, so that more must wait behind it.
    pub(crate) fn has(&self, to: NodeId, queue: QueueId) -> bool {
        !self.held.is_empty() && self.held.contains_key(&(to, queue))
    }

    /// Holds what is said to a node's remote queue.
    pub(crate) fn hold(&mut self, to: NodeId, queue: QueueId, session: u64, event: Event) {
        let of_queue = self.held.entry((to, queue)).or_default();
        of_queue.push_back((session, event));
    }

    /// What a node's remote queue is told next, with the session; nothing where there is no `room`
    /// for it.
    pub(crate) fn next(
        &mut self,
        to: NodeId,
        queue: QueueId,
        room: impl FnOnce(&Event) -> bool,
    ) -> Option<(u64, Event)> {
        let of_queue = self.held.get_mut(&(to, queue))?;
        let next = of_queue.pop_front_if(|(_, event)| room(event));
        if of_queue.is_empty() {
            self.held.remove(&(to, queue));
        }
        next
    }

    /// A node is down: what it was to be told is void.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.held.retain(|(to, _), _| *to != node);
    }
}
