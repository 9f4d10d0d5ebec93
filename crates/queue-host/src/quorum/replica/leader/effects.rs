//! The queue machine's effects, and how a leader carries them out.

use super::Leader;
use crate::effects::delivery_of;
use crate::peeked::Found;
use crate::quorum::protocol::{Event, LocalDelivery};
use crate::quorum::replica::ShardContext;
use crate::quorum::replica::header::{Leaving, Returned};
use crate::shard::Deferred;
use leveret_client::Delivery;
use leveret_queue::{Effect, Position};
use leveret_storage::ShardLogs;
use leveret_types::{Message, NodeId};
use std::ops::Range;

impl Leader {
    /// Looks a message up where the queue keeps its messages.
    pub(super) fn find(&mut self, logs: &mut ShardLogs, position: Position) -> Found {
        match &self.viewing {
            Some(viewing) => viewing.view.find(position.index),
            None => self.peeked.find(logs, self.id, position),
        }
    }

    pub(super) fn message(&mut self, logs: &mut ShardLogs, position: Position) -> Option<Message> {
        match self.find(logs, position) {
            Found::Message(message) => Some(message),
            Found::Pending | Found::Never => None,
        }
    }

    pub(super) fn delivery(
        &mut self,
        logs: &mut ShardLogs,
        delivery: &leveret_queue::Delivery,
    ) -> Option<Delivery> {
        let message = self.message(logs, delivery.position)?;
        Some(delivery_of(self.id, delivery, message))
    }

    /// The delivery without its message, if the member on the consumer's node has that.
    fn by_reference(&self, node: NodeId, delivery: &Delivery) -> Option<LocalDelivery> {
        let entry = self
            .replicated_to
            .by(node, delivery.priority_log, delivery.index)?;
        Some(LocalDelivery {
            consumer: delivery.consumer,
            priority_log: delivery.priority_log,
            index: delivery.index,
            redelivered: delivery.redelivered,
            delivery_count: delivery.delivery_count,
            acquired_count: delivery.acquired_count,
            bytes: delivery.message.size(),
            entry,
            term: self.term,
        })
    }

    pub(super) fn carry_out(&mut self, context: &mut ShardContext<'_>) {
        let mut effects = std::mem::take(&mut self.scratch);
        for effect in effects.drain(..) {
            self.carry_out_one(context, effect);
        }
        assert!(self.scratch.is_empty(), "an effect of an effect");
        self.scratch = effects;
    }

    fn left(&mut self, priority_log: u8, range: Range<u64>, bytes: u64) {
        if let Some(viewing) = &mut self.viewing {
            viewing.view.settled(range.clone());
        }
        self.under_way.batch.header.left(priority_log, range, bytes);
    }

    pub(super) fn carry_out_one(&mut self, context: &mut ShardContext<'_>, effect: Effect) {
        match effect {
            Effect::Deliver(delivery) => {
                let Some(served) = self.served.subscriptions.get(&delivery.consumer) else {
                    return;
                };
                let node = served.node;
                let is_near = node == context.node;
                // What is delivered without acknowledgement leaves the replicas at once, and those
                // of a view have no messages.
                let may_read = !is_near && !served.no_ack && self.viewing.is_none();
                let Some(delivery) = self.delivery(context.logs, &delivery) else {
                    tracing::error!(queue = %self.id, "a message that was there cannot be read");
                    return;
                };
                let local = may_read.then(|| self.by_reference(node, &delivery));
                let message = match local.flatten() {
                    Some(local) => Event::DeliverLocal(local),
                    None => Event::Deliver(delivery),
                };
                self.answer(context, node, message);
            }
            Effect::Settled {
                priority_log,
                range,
                bytes,
            } => self.left(priority_log, range, bytes),
            Effect::Returned { .. } if self.under_way.is_foreseen => {}
            Effect::Returned {
                priority_log,
                range,
                returns: known,
            } => {
                let returned = Returned {
                    priority_log,
                    range,
                    known,
                };
                self.under_way.batch.header.returned.push(returned);
            }
            Effect::DeadLetter {
                priority_log,
                range,
                reason,
            } => self.under_way.batch.header.leaving.push(Leaving {
                priority_log,
                range,
                reason,
            }),
            Effect::TimedOut { subscription } => {
                if let Some(node) = self
                    .served
                    .subscriptions
                    .get(&subscription)
                    .map(|served| served.node)
                {
                    self.answer(context, node, Event::TimedOut(subscription));
                }
            }
            Effect::Damaged { position } => context.effects.deferred.push(Deferred::Damage {
                queue: self.id,
                what: format!(
                    "message {} of priority log {} cannot be read; it is set aside, see \
                     `leveret storage verify`",
                    position.index, position.priority_log,
                ),
            }),
            Effect::Expired => context.effects.deferred.push(Deferred::DeleteQueue {
                queue: self.id,
                expired: true,
            }),
            Effect::Activate { consumer } => self.activated(context, consumer),
            Effect::Deactivate { consumer } => self.tell_activation(context, consumer, 0),
        }
    }

    /// Hands messages over to be dead-lettered; those that are on disk only once they have been
    /// read.
    pub(super) fn send_dead_letters(&mut self, context: &mut ShardContext<'_>) {
        if self.is_lease_expired {
            self.dirty = true;
            return;
        }
        let (queue, peeked, viewing) = (self.id, &mut self.peeked, self.viewing.as_ref());
        let mut find = |at: Position| match viewing {
            Some(viewing) => viewing.view.find(at.index),
            None => peeked.find(context.logs, queue, at),
        };
        while let Some(dead) = self.dead.take(queue, &mut find) {
            context.effects.deferred.push(Deferred::DeadLetter(dead));
        }
    }
}
