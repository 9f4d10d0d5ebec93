//! Whom a leader serves on which node: sessions, subscriptions, and what becomes of them when a
//! node comes or goes.

use super::Leader;
use super::served::{Place, Session};
use super::under_way::{GivenBack, Request};
use crate::quorum::link::{Event, Origin, Registration};
use crate::quorum::replica::Around;
use crate::shard::Deferred;
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId};

impl Leader {
    pub(in super::super) fn present(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        number: u64,
        registration: &Registration,
        committed: impl FnOnce(Origin) -> Option<u64>,
    ) {
        let is_of_term = registration.term == self.term || registration.term == 0;
        let before = self.served.run(from).copied();
        let is_old = before.is_some_and(|known| {
            known.origin.start > registration.start
                || (known.origin.start == registration.start && known.number >= Some(number))
        });
        if !is_of_term || is_old {
            return self.leading(around, from);
        }
        // Who is the active consumer stays it if it is registered again.
        self.queue.hold_election();
        self.forget_node(around, from);
        let origin = Origin {
            node: from,
            start: registration.start,
        };
        let through = committed(origin).unwrap_or(0);
        // What is in flight is not taken twice either.
        let taken = match before {
            Some(known) if known.origin == origin => known.taken,
            _ => through.max(registration.first_sequence.saturating_sub(1)),
        };
        self.served.begin(Session {
            origin,
            number: Some(number),
            taken,
        });
        self.under_way.forget_node(from);
        for subscription in &registration.subscriptions {
            let is_itself = subscription
                .consumer
                .is_none_or(|consumer| consumer.id == subscription.id);
            if !is_itself || !self.is_free(from, subscription.id, subscription.consumer.is_some()) {
                continue;
            }
            let no_ack = subscription
                .consumer
                .is_some_and(|consumer| consumer.no_ack);
            self.served
                .subscriptions
                .insert(subscription.id, Place::new(from, no_ack));
            if let Some(consumer) = subscription.consumer {
                let result = self.queue.attach(around.now, consumer, &mut self.scratch);
                self.reach.consumers_changed();
                if result.is_err() {
                    let consumer = consumer.id;
                    self.answer(around, from, Event::Attached { consumer, result });
                } else {
                    self.usage.attached();
                    self.note_registered(subscription);
                    self.note_untold(consumer.id);
                }
            }
        }
        self.note_claims(registration, taken);
        self.heard_of(around.now, from);
        self.hold_returns(around, from);
        self.answer(around, from, Event::Committed { through });
        self.dirty = true;
        self.carry_out(around);
    }

    /// What a node gave back stays with who had it until that is committed.
    pub(super) fn hold_returns(&mut self, around: &Around<'_>, from: NodeId) {
        let returns = self.under_way.returns();
        for GivenBack { settle, .. } in returns.filter(|back| back.from == from) {
            self.served
                .subscriptions
                .entry(settle.subscription)
                .or_insert_with(|| Place::new(from, false));
            let (now, range) = (around.now, settle.range.clone());
            self.queue
                .adopt(now, settle.subscription, settle.priority_log, range, 0);
        }
    }

    /// A node is down, or begins anew: its subscriptions are not there any more. What they hold
    /// returns, uncounted: the loss of a node is not the fault of who held a message on it.
    pub(super) fn forget_node(&mut self, around: &mut Around<'_>, node: NodeId) {
        let gone = self.served.lose(node);
        self.under_way.forget_node(node);
        self.waiting_gets.retain(|waiting| waiting.node != node);
        for subscription in gone {
            self.take_away(around, subscription, false);
        }
        self.dirty = true;
    }

    /// A node is down.
    pub(in super::super) fn peer_down(&mut self, around: &mut Around<'_>, node: NodeId) {
        self.forget_node(around, node);
        self.heard_of(around.now, node);
    }

    /// A node is up again: it is told who leads.
    pub(in super::super) fn peer_up(&mut self, around: &mut Around<'_>, node: NodeId) {
        self.leading(around, node);
    }

    pub(super) fn take_away(
        &mut self,
        around: &mut Around<'_>,
        subscription: ConsumerId,
        counted: bool,
    ) {
        if self.served.subscriptions.remove(&subscription).is_none() {
            return;
        }
        self.decide_claims_of(around.now, subscription);
        let was_consumer = self.queue.is_consumer(subscription);
        if was_consumer {
            self.usage.detached();
        }
        self.reach.consumers_changed();
        let out = &mut self.scratch;
        match counted {
            true => self.queue.detach(around.now, subscription, out),
            false => self.queue.forget(around.now, subscription, out),
        };
        self.waiting_gets.retain(|asked| {
            !matches!(asked.request,
                Request::Get { subscription: of, .. } if of == subscription)
        });
        self.carry_out(around);
    }

    /// A subscription is gone, behind all operations that its node has sent.
    pub(in super::super) fn detach(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        subscription: ConsumerId,
    ) {
        if !self.under_way.goes_behind(from, subscription) {
            self.take_away(around, subscription, true);
            self.delete_if_unused(around);
        }
    }

    /// Whether a node may bring this subscription: it is no other node's, nor, as a consumer, there
    /// already. Nodes bring none like that; one that does is not to end this one.
    fn is_free(&self, from: NodeId, subscription: ConsumerId, is_consumer: bool) -> bool {
        let place = self.served.subscriptions.get(&subscription);
        let is_free = place.is_none_or(|place| place.node == from)
            && !(is_consumer && self.queue.holds(subscription));
        if !is_free {
            tracing::warn!(queue = %self.id, %from, %subscription, "a node brings a consumer that is not its own");
        }
        is_free
    }

    pub(in super::super) fn attach(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        consumer: Consumer,
    ) {
        if !self.is_free(from, consumer.id, true) {
            return;
        }
        let place = Place::new(from, consumer.no_ack);
        let result = self.queue.attach(around.now, consumer, &mut self.scratch);
        if result.is_ok() {
            self.served.subscriptions.insert(consumer.id, place);
            self.usage.attached();
            self.reach.consumers_changed();
            self.note_untold(consumer.id);
        }
        let consumer = consumer.id;
        self.answer(around, from, Event::Attached { consumer, result });
        self.carry_out(around);
    }

    pub(in super::super) fn credit(
        &mut self,
        around: &mut Around<'_>,
        consumer: ConsumerId,
        messages: u32,
        bytes: u64,
    ) {
        let Some(place) = self.served.subscriptions.get_mut(&consumer) else {
            return;
        };
        if place.node == around.node || place.window.give(messages, bytes) {
            self.queue.unblock(around.now, consumer);
        }
    }

    pub(super) fn delete_if_unused(&self, around: &mut Around<'_>) {
        if self.usage.is_over() {
            around.effects.deferred.push(Deferred::DeleteQueue {
                queue: self.id,
                expired: false,
            });
        }
    }
}
