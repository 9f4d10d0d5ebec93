//! The leader's location, and the registration that it gets when it is found.

use super::leader_search::{ANSWER_MS, LeaderLocation};
use super::{RemoteContext, RemoteQueue};
use crate::quorum::protocol::{Operation, RegisteredSubscription, Registration, UnsettledRange};
use leveret_types::{NodeId, Now};

impl RemoteQueue {
    /// Looks for the leader: `candidates` in the order in which they are worth asking.
    pub(crate) fn locate(&mut self, now: Now, session: u64, candidates: &[NodeId]) {
        if let Some(node) = self.leader.next_of(now, candidates) {
            self.present_to(now, node, session);
        }
    }

    /// Presents itself to a node: with that a session begins.
    pub(super) fn present_to(&mut self, now: Now, node: NodeId, session: u64) {
        self.leader.ask(now, node);
        self.session.begin(session, self.pending_operations.first());
        for subscription in self.subscriptions.values_mut() {
            subscription.credit = (0, 0);
        }
    }

    /// A node says that it leads; whether that is news and the remote queue has registered.
    pub(crate) fn leading(
        &mut self,
        node: NodeId,
        term: u64,
        session: u64,
        context: &mut RemoteContext<'_>,
    ) -> bool {
        if !self.leader.hears_of(term) {
            return false;
        }
        self.end_waiting_deliveries(context);
        self.present_to(context.now, node, session);
        true
    }

    /// A node says that it does not lead.
    pub(super) fn not_leader(
        &mut self,
        from: NodeId,
        (term, leader): (u64, Option<NodeId>),
        next: u64,
        context: &mut RemoteContext<'_>,
    ) {
        if !self.leader.is_at(from) {
            return;
        }
        self.lose(context);
        if let Some(leader) = leader.filter(|_| self.leader.follows(term)) {
            self.present_to(context.now, leader, next);
        }
    }

    /// The leader is gone, or the way to it.
    pub(crate) fn lose(&mut self, context: &mut RemoteContext<'_>) {
        self.end_waiting_deliveries(context);
        let was = self.leader.location != LeaderLocation::Unknown;
        self.session.end(was);
        self.leader.lose(context.now);
    }

    /// A node is up that may lead, or know who does: it is worth asking before long.
    pub(crate) fn search_soon(&mut self, now: Now) {
        self.leader.search_soon(now);
    }

    pub(super) fn registration(&self, start: u64) -> Registration {
        let subscriptions = self.subscriptions.iter();
        let mut subscriptions: Vec<_> = subscriptions
            .map(|(id, subscription)| subscription.registered(*id))
            .collect();
        subscriptions.sort_unstable_by_key(|subscription| subscription.id);
        for (number, pending) in
            (self.pending_operations.first()..).zip(self.pending_operations.iter())
        {
            let Operation::Settle(settle) = &pending.operation else {
                continue;
            };
            let unsettled = UnsettledRange {
                priority_log: settle.priority_log,
                range: settle.range.clone(),
                acquired: u64::from(pending.acquired),
                settled_by: number,
            };
            match subscriptions
                .binary_search_by_key(&settle.subscription, |subscription| subscription.id)
            {
                Ok(at) => subscriptions[at].unsettled.push(unsettled),
                Err(at) => subscriptions.insert(
                    at,
                    RegisteredSubscription {
                        id: settle.subscription,
                        consumer: None,
                        activation: 0,
                        unsettled: vec![unsettled],
                    },
                ),
            }
        }
        Registration {
            start,
            term: self.leader.term,
            first_sequence: self.pending_operations.first(),
            subscriptions,
        }
    }

    /// The leader has taken the session: all that has no answer is said again.
    pub(super) fn established(&mut self, node: NodeId) {
        self.leader.found(node);
        self.session.owes = false;
        for question in self.questions.messages() {
            self.say(question);
        }
    }

    /// Whether a leader is to be looked for now.
    pub(crate) fn wants_leader(&self, now: Now) -> bool {
        !self.leader.is_known() && self.is_busy() && self.search_at_ms() <= now.monotonic_ms
    }

    /// When a leader is to be looked for: without haste if nobody waits for it.
    pub(super) fn search_at_ms(&self) -> u64 {
        match self.is_used() {
            true => self.leader.retry_at_ms,
            false => self.leader.retry_at_ms + ANSWER_MS,
        }
    }
}
