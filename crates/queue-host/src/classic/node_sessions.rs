//! The nodes whose clients use a queue that is on another node alone.
//!
//! What a Raft leader does by committing, such a queue does by the shard's own log: operations take
//! effect at once, and are told to be committed when the log is durable. Consumers on other nodes
//! are the queue's consumers with their node as the subscriber.
//!
//! What the queue knows of a node goes with the way to that node: the remote queue there has given
//! up everything by then, so that nothing is taken twice.

use crate::delivery_credit::DeliveryCredit;
use crate::quorum::Refusals;
use crate::quorum::protocol::{Answer, Event, Origin};
use hashbrown::HashMap;
use leveret_types::{ConsumerId, NodeId, QueueId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// What is known of one node's remote queue.
#[derive(Debug, Default)]
pub(super) struct NodeSession {
    pub(super) session: u64,
    pub(super) start: u64,
    /// The last operation that was taken.
    pub(super) taken: u64,
    /// What of that was refused, as far as its node may not know it: a group that the queue becomes
    /// must say it.
    pub(super) refused: Refusals,
    /// Operations that are committed once the shard's log is durable through a chunk.
    awaiting: VecDeque<(u64, u64)>,
    /// Its consumers, and what may be under way to each.
    pub(super) credits: HashMap<ConsumerId, Arc<DeliveryCredit>, foldhash::fast::FixedState>,
    /// All who may hold something.
    pub(super) subscriptions: BTreeSet<ConsumerId>,
}

impl NodeSession {
    pub fn new(session: u64, start: u64, taken: u64) -> Self {
        Self {
            session,
            start,
            taken,
            ..Self::default()
        }
    }

    /// Operations up to `last` were taken, some of which the log must have when `is_durable`.
    /// Answers whether all of them are committed at once.
    pub(super) fn took(&mut self, last: u64, chunk: u64, is_durable: bool) -> bool {
        self.taken = last;
        match self.awaiting.back_mut() {
            Some(waits) if waits.0 == chunk || !is_durable => waits.1 = last,
            None if !is_durable => return true,
            _ => self.awaiting.push_back((chunk, last)),
        }
        false
    }
}

/// See the module's description: a handful of nodes at most.
#[derive(Debug, Default)]
pub(super) struct NodeSessions(Vec<(NodeId, NodeSession)>);

impl NodeSessions {
    pub(super) fn get(&self, node: NodeId) -> Option<&NodeSession> {
        let mut all = self.0.iter();
        all.find(|(of, _)| *of == node)
            .map(|(_, node_session)| node_session)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut NodeSession> {
        let mut all = self.0.iter_mut();
        all.find(|(of, _)| *of == node)
            .map(|(_, node_session)| node_session)
    }

    pub(super) fn add(&mut self, node: NodeId, node_session: NodeSession) {
        self.remove(node);
        self.0.push((node, node_session));
    }

    pub(super) fn remove(&mut self, node: NodeId) -> Option<NodeSession> {
        let at = self.0.iter().position(|(of, _)| *of == node)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Says something to a node's remote queue, if that has a session.
    pub(super) fn say(&self, to: NodeId, queue: QueueId, event: Event, answers: &mut Vec<Answer>) {
        if let Some(node_session) = self.get(to) {
            answers.push(Answer {
                to,
                queue,
                session: node_session.session,
                message: event,
            });
        }
    }

    /// Whether somebody's operations wait for the log.
    pub(super) fn await_log(&self) -> bool {
        self.0
            .iter()
            .any(|(_, node_session)| !node_session.awaiting.is_empty())
    }

    /// The shard's log is durable through `chunk`: tells what is committed by that.
    pub(super) fn on_durable(&mut self, queue: QueueId, chunk: u64, answers: &mut Vec<Answer>) {
        for (to, node_session) in &mut self.0 {
            let mut committed = None;
            while let Some((_, through)) =
                node_session.awaiting.pop_front_if(|(at, _)| *at <= chunk)
            {
                committed = Some(through);
            }
            if let Some(through) = committed {
                answers.push(Answer {
                    to: *to,
                    queue,
                    session: node_session.session,
                    message: Event::Committed { through },
                });
            }
        }
    }

    /// Whose operations have been taken, and how far.
    pub(super) fn origins(&self) -> Vec<(Origin, u64)> {
        let origin = |node, start| Origin { node, start };
        let all = self.0.iter();
        let taken =
            all.map(|(node, node_session)| (origin(*node, node_session.start), node_session.taken));
        let mut taken: Vec<_> = taken.collect();
        taken.sort_unstable();
        taken
    }

    /// Which of these operations were refused.
    pub(super) fn refused(&self) -> Vec<(Origin, Refusals)> {
        let refused = self.0.iter().map(|(node, node_session)| {
            let (node, start) = (*node, node_session.start);
            (Origin { node, start }, node_session.refused.clone())
        });
        let refused = refused.filter(|(_, refusals)| !refusals.numbers.is_empty());
        let mut refused: Vec<_> = refused.collect();
        refused.sort_unstable_by_key(|(origin, _)| *origin);
        refused
    }
}
