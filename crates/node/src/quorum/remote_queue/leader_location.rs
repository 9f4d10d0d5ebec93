//! Where the leader is, and what it is told when it is found.

use super::{ANSWER_MS, HINTS_MAX, LeaderLocation, Put, RETRY_MS, Reach, RemoteQueue};
use crate::quorum::link::{Command, HeldRange, Operation, RegisteredSubscription, Registration};
use leveret_types::{NodeId, Now};

impl RemoteQueue {
    /// Looks for the leader: `candidates` in the order in which they are worth asking.
    pub(crate) fn locate(&mut self, now: Now, session: u64, candidates: &[NodeId]) {
        if candidates.is_empty() {
            self.retry_at_ms = now.monotonic_ms + self.retry_after_ms();
            return;
        }
        let at = self.attempts as usize % candidates.len();
        self.attempts = self.attempts.saturating_add(1);
        self.present_to(now, candidates[at], session);
    }

    /// Presents itself to a node: with that a session begins.
    pub(super) fn present_to(&mut self, now: Now, node: NodeId, session: u64) {
        self.place = LeaderLocation::Asked(node);
        self.session = session;
        self.present = true;
        self.retry_at_ms = now.monotonic_ms + ANSWER_MS;
        self.sent = self.journal.first();
        self.control.clear();
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
        if term < self.term {
            return false;
        }
        self.term = term;
        self.hints = 0;
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
        let ours =
            self.place == LeaderLocation::Asked(from) || self.place == LeaderLocation::Led(from);
        if !ours {
            return;
        }
        self.lose(reach);
        if let Some(leader) = leader.filter(|_| term >= self.term && self.hints < HINTS_MAX) {
            self.hints += 1;
            self.present_to(reach.now, leader, next);
        }
    }

    /// The leader is gone, or the way to it.
    pub(crate) fn lose(&mut self, reach: &mut Reach<'_>) {
        self.end_waiting_deliveries(reach);
        // It may not have heard what was said to it last, and may not know that it is lost.
        self.owes |= self.place != LeaderLocation::Unknown;
        self.place = LeaderLocation::Unknown;
        self.present = false;
        self.control.clear();
        self.retry_at_ms = reach.now.monotonic_ms + self.retry_after_ms();
    }

    /// How long not to look for the leader, the longer the more often that was in vain.
    fn retry_after_ms(&self) -> u64 {
        let doubled = RETRY_MS.start << self.attempts.min(8);
        doubled.min(RETRY_MS.end)
    }

    /// A node is up that may lead, or know who does: it is worth asking before long.
    pub(crate) fn look_soon(&mut self, now: Now) {
        if self.place == LeaderLocation::Unknown {
            self.retry_at_ms = self.retry_at_ms.min(now.monotonic_ms + RETRY_MS.start);
        }
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
            term: self.term,
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
        match self.place {
            LeaderLocation::Unknown => return,
            LeaderLocation::Asked(_) => {
                if std::mem::take(&mut self.present) {
                    let registration = Box::new(self.registration(start));
                    put(Put::Message(Command::Present(registration)));
                }
                return;
            }
            LeaderLocation::Led(_) => {}
        }
        loop {
            let until = self.control.front().map_or(u64::MAX, |(at, _)| *at);
            let until = until.min(self.journal.next());
            if self.sent < until {
                let operations = self.journal.range(self.sent..until);
                put(Put::Operations(self.sent, Box::new(operations)));
                self.sent = until;
                self.ever_sent = self.ever_sent.max(until);
            }
            match self.control.pop_front() {
                Some((_, message)) => put(Put::Message(message)),
                None => break,
            }
        }
    }

    /// The leader has taken the session: all that has no answer is said again.
    pub(super) fn established(&mut self, node: NodeId) {
        self.place = LeaderLocation::Led(node);
        self.owes = false;
        (self.attempts, self.hints) = (0, 0);
        let questions: Vec<Command> = self
            .requests
            .iter()
            .map(|request| request.question.message(request.id))
            .collect();
        for question in questions {
            self.say(question);
        }
    }

    /// Whether a leader is to be looked for now.
    pub(crate) fn wants_leader(&self, now: Now) -> bool {
        !matches!(self.place, LeaderLocation::Led(_))
            && self.is_busy()
            && self.look_at_ms() <= now.monotonic_ms
    }

    /// When a leader is to be looked for: without haste if nobody waits for it.
    pub(super) fn look_at_ms(&self) -> u64 {
        match self.is_used() {
            true => self.retry_at_ms,
            false => self.retry_at_ms + ANSWER_MS,
        }
    }
}
