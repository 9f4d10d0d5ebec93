//! Where the leader is, and what it is told when it is found.

use super::leader_search::{ANSWER_MS, LeaderLocation};
use super::{Put, Reach, RemoteQueue};
use crate::quorum::link::{
    Command, HeldRange, Operation, RegisteredSubscription, Registration, Settle,
};
use leveret_queue::Outcome;
use leveret_types::limits::QUORUM_QUIET_MS;
use leveret_types::{NodeId, Now};

/// Settles that are said together later than at once, at most.
const PATIENT_SETTLES: u64 = 4;

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
        self.session.begin(session, self.journal.first());
        for subscription in self.subscriptions.values_mut() {
            subscription.credit = (0, 0);
        }
    }

    /// A node says that it leads; whether that is news and the remote queue has presented itself.
    pub(crate) fn leading(
        &mut self,
        node: NodeId,
        term: u64,
        session: u64,
        reach: &mut Reach<'_>,
    ) -> bool {
        if !self.leader.hears_of(term) {
            return false;
        }
        self.end_waiting_deliveries(reach);
        self.present_to(reach.now, node, session);
        true
    }

    /// A node says that it does not lead.
    pub(super) fn not_leader(
        &mut self,
        from: NodeId,
        (term, leader): (u64, Option<NodeId>),
        next: u64,
        reach: &mut Reach<'_>,
    ) {
        if !self.leader.is_at(from) {
            return;
        }
        self.lose(reach);
        if let Some(leader) = leader.filter(|_| self.leader.follows(term)) {
            self.present_to(reach.now, leader, next);
        }
    }

    /// The leader is gone, or the way to it.
    pub(crate) fn lose(&mut self, reach: &mut Reach<'_>) {
        self.end_waiting_deliveries(reach);
        let was = self.leader.place != LeaderLocation::Unknown;
        self.session.end(was);
        self.leader.lose(reach.now);
    }

    /// A node is up that may lead, or know who does: it is worth asking before long.
    pub(crate) fn look_soon(&mut self, now: Now) {
        self.leader.look_soon(now);
    }

    pub(super) fn registration(&self, start: u64) -> Registration {
        let subscriptions = self.subscriptions.iter();
        let mut subscriptions: Vec<_> = subscriptions
            .map(|(id, subscription)| subscription.registered(*id))
            .collect();
        subscriptions.sort_unstable_by_key(|subscription| subscription.id);
        for (number, pending) in (self.journal.first()..).zip(self.journal.iter()) {
            let Operation::Settle(settle) = &pending.operation else {
                continue;
            };
            let held = HeldRange {
                priority_log: settle.priority_log,
                range: settle.range.clone(),
                acquired: u64::from(pending.acquired),
                settled_by: number,
            };
            match subscriptions
                .binary_search_by_key(&settle.subscription, |subscription| subscription.id)
            {
                Ok(at) => subscriptions[at].held.push(held),
                Err(at) => subscriptions.insert(
                    at,
                    RegisteredSubscription {
                        id: settle.subscription,
                        consumer: None,
                        activation: 0,
                        held: vec![held],
                    },
                ),
            }
        }
        Registration {
            start,
            term: self.leader.term,
            first_sequence: self.journal.first(),
            subscriptions,
        }
    }

    /// Puts out what is to be said to the leader.
    pub(crate) fn flush(
        &mut self,
        start: u64,
        mut put: impl FnMut(Put<'_, Box<dyn Iterator<Item = &'_ Operation> + '_>>),
    ) {
        match self.leader.place {
            LeaderLocation::Unknown => return,
            LeaderLocation::Asked(_) => {
                if std::mem::take(&mut self.session.present) {
                    let registration = Box::new(self.registration(start));
                    put(Put::Message(Command::Present(registration)));
                }
                return;
            }
            LeaderLocation::Led(_) => {}
        }
        loop {
            let until = self.session.control.front().map_or(u64::MAX, |(at, _)| *at);
            let until = until.min(self.journal.next());
            let sent = self.session.sent;
            if sent < until {
                let operations = self.journal.range(sent..until);
                put(Put::Operations(sent, Box::new(operations)));
                self.session.sent_until(until);
            }
            match self.session.control.pop_front() {
                Some((_, message)) => put(Put::Message(message)),
                None => break,
            }
        }
    }

    /// Whether nobody waits for what is to be said now: a few settles that come after a while, of
    /// consumers that may get as much as they hold without them.
    pub(crate) fn may_wait(&mut self, now: Now) -> bool {
        let unsent = self.session.sent..self.journal.next();
        if unsent.is_empty() {
            return false;
        }
        let said_ms = std::mem::replace(&mut self.session.said_ms, now.monotonic_ms);
        let is_after_a_while = now.monotonic_ms >= said_ms + QUORUM_QUIET_MS;
        let is_led = matches!(self.leader.place, LeaderLocation::Led(_));
        let are_few = unsent.end - unsent.start <= PATIENT_SETTLES;
        if !is_after_a_while || !is_led || !are_few || !self.session.control.is_empty() {
            return false;
        }
        let mut operations = self.journal.range(unsent);
        operations.all(|operation| match operation {
            Operation::Settle(settle) => self.has_credit_besides(settle),
            Operation::Publish(_) | Operation::Nothing => false,
        })
    }

    /// Whether a consumer may get at least as many messages as it holds, and has settled by this,
    /// before the leader hears of it.
    fn has_credit_besides(&self, settle: &Settle) -> bool {
        let is_for_nobody_else = settle.outcome == Outcome::Accept;
        let subscription = self.subscriptions.get(&settle.subscription);
        let of_consumer = subscription.and_then(|of| Some((of.consumer?.prefetch, of.held_count)));
        let has_credit = of_consumer.is_none_or(|(prefetch, held)| {
            let settled = settle.range.end - settle.range.start;
            prefetch == 0 || (held + PATIENT_SETTLES + settled) * 2 <= u64::from(prefetch)
        });
        is_for_nobody_else && has_credit
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
        !self.leader.is_known() && self.is_busy() && self.look_at_ms() <= now.monotonic_ms
    }

    /// When a leader is to be looked for: without haste if nobody waits for it.
    pub(super) fn look_at_ms(&self) -> u64 {
        match self.is_used() {
            true => self.leader.retry_at_ms,
            false => self.leader.retry_at_ms + ANSWER_MS,
        }
    }
}
