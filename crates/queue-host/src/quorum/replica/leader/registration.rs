//! Whom a leader serves on which node: sessions, subscriptions, and what becomes of them when a
//! node comes or goes.

use super::Leader;
use super::served::{ServedSubscription, Session};
use super::under_way::{GivenBack, Request};
use crate::quorum::protocol::{Event, Origin, Registration};
use crate::quorum::replica::ShardContext;
use crate::quorum::replica::applied_state::Applied;
use crate::shard::Deferred;
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId};

impl Leader {
    pub(in super::super) fn present(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        number: u64,
        registration: &Registration,
        applied: &Applied,
    ) {
        let is_of_term = registration.term == self.term || registration.term == 0;
        let before = self.served.run(from).copied();
        let is_old = before.is_some_and(|known| {
            known.origin.start > registration.start
                || (known.origin.start == registration.start && known.number >= Some(number))
        });
        if !is_of_term || is_old {
            return self.leading(context, from);
        }
        // Who is the active consumer stays it if it is registered again.
        self.queue.hold_election();
        self.forget_node(context, from);
        let origin = Origin {
            node: from,
            start: registration.start,
        };
        let through = applied.through(origin).unwrap_or(0);
        // What is in flight is not taken twice either.
        let taken = match before {
            Some(known) if known.origin == origin => known.taken,
            _ => through.max(registration.first_sequence.saturating_sub(1)),
        };
        self.served.begin(Session {
            origin,
            number: Some(number),
            taken,
            taken_before: taken,
            first: registration.first_sequence,
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
                .insert(subscription.id, ServedSubscription::new(from, no_ack));
            if let Some(consumer) = subscription.consumer {
                let result = self.queue.attach(context.now, consumer, &mut self.scratch);
                self.watermarks.consumers_changed();
                if result.is_err() {
                    let consumer = consumer.id;
                    self.answer(context, from, Event::Attached { consumer, result });
                } else {
                    self.usage.attached();
                    self.note_registered(subscription);
                    self.note_untold(consumer.id);
                }
            }
        }
        self.note_claims(registration, taken);
        self.stop_awaiting(context.now, from);
        self.hold_returns(context, from);
        let refused = applied.refused(origin).into_iter();
        for sequences in refused.flat_map(|of| of.since(registration.first_sequence)) {
            self.answer(context, from, Event::Refused { sequences });
        }
        self.answer(context, from, Event::Committed { through });
        self.dirty = true;
        self.carry_out(context);
    }

    /// On a node, all operations below `first` have reached whom they concern.
    pub(in super::super) fn acknowledged(&mut self, from: NodeId, first: u64) {
        if let Some(run) = self.served.run_mut(from) {
            run.first = run.first.max(first);
        }
    }

    /// What a node gave back stays with who had it until that is committed.
    pub(super) fn hold_returns(&mut self, context: &ShardContext<'_>, from: NodeId) {
        let returns = self.under_way.returns();
        for GivenBack { settle, .. } in returns.filter(|back| back.from == from) {
            self.served
                .subscriptions
                .entry(settle.subscription)
                .or_insert_with(|| ServedSubscription::new(from, false));
            let (now, range) = (context.now, settle.range.clone());
            self.queue
                .adopt(now, settle.subscription, settle.priority_log, range, 0);
        }
    }

    /// A node is down, or begins anew: its subscriptions are not there any more. What they hold
    /// returns, uncounted: the loss of a node is not the fault of who held a message on it.
    pub(super) fn forget_node(&mut self, context: &mut ShardContext<'_>, node: NodeId) {
        let gone = self.served.lose(node);
        self.under_way.forget_node(node);
        self.waiting_gets.retain(|waiting| waiting.node != node);
        for subscription in gone {
            self.take_away(context, subscription, false);
        }
        self.dirty = true;
    }

    /// A node is down.
    pub(in super::super) fn peer_down(&mut self, context: &mut ShardContext<'_>, node: NodeId) {
        self.forget_node(context, node);
        self.stop_awaiting(context.now, node);
    }

    /// A node is up again: it is told who leads.
    pub(in super::super) fn peer_up(&mut self, context: &mut ShardContext<'_>, node: NodeId) {
        self.leading(context, node);
    }

    pub(super) fn take_away(
        &mut self,
        context: &mut ShardContext<'_>,
        subscription: ConsumerId,
        counted: bool,
    ) {
        if self.served.subscriptions.remove(&subscription).is_none() {
            return;
        }
        self.decide_claims_of(context.now, subscription);
        let was_consumer = self.queue.is_consumer(subscription);
        if was_consumer {
            self.usage.detached();
        }
        self.watermarks.consumers_changed();
        let out = &mut self.scratch;
        match counted {
            true => self.queue.detach(context.now, subscription, out),
            false => self.queue.forget(context.now, subscription, out),
        };
        self.waiting_gets.retain(|pending| {
            !matches!(pending.request,
                Request::Get { subscription: of, .. } if of == subscription)
        });
        self.carry_out(context);
    }

    /// A subscription is gone, behind all operations that its node has sent.
    pub(in super::super) fn detach(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        subscription: ConsumerId,
    ) {
        if !self.under_way.goes_behind(from, subscription) {
            self.take_away(context, subscription, true);
            self.delete_if_unused(context);
        }
    }

    /// Whether a node may bring this subscription: it is no other node's, nor, as a consumer, there
    /// already. Nodes bring none like that; one that does is not to end this one.
    fn is_free(&self, from: NodeId, subscription: ConsumerId, is_consumer: bool) -> bool {
        let served = self.served.subscriptions.get(&subscription);
        let is_free = served.is_none_or(|served| served.node == from)
            && !(is_consumer && self.queue.holds(subscription));
        if !is_free {
            tracing::warn!(queue = %self.id, %from, %subscription, "a node brings a consumer that is not its own");
        }
        is_free
    }

    pub(in super::super) fn attach(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        consumer: Consumer,
    ) {
        if !self.is_free(from, consumer.id, true) {
            return;
        }
        let served = ServedSubscription::new(from, consumer.no_ack);
        let result = self.queue.attach(context.now, consumer, &mut self.scratch);
        if result.is_ok() {
            self.served.subscriptions.insert(consumer.id, served);
            self.usage.attached();
            self.watermarks.consumers_changed();
            self.note_untold(consumer.id);
        }
        let consumer = consumer.id;
        self.answer(context, from, Event::Attached { consumer, result });
        self.carry_out(context);
    }

    pub(in super::super) fn credit(
        &mut self,
        context: &mut ShardContext<'_>,
        consumer: ConsumerId,
        messages: u32,
        bytes: u64,
    ) {
        let Some(served) = self.served.subscriptions.get_mut(&consumer) else {
            return;
        };
        if served.node == context.node || served.window.give(messages, bytes) {
            self.queue.unblock(context.now, consumer);
        }
    }

    pub(super) fn delete_if_unused(&self, context: &mut ShardContext<'_>) {
        if self.usage.is_over() {
            context.effects.deferred.push(Deferred::DeleteQueue {
                queue: self.id,
                expired: false,
            });
        }
    }
}
