//! The single active consumer, where the queue has that rule.
//!
//! The leader tells the nodes' remote queues which consumer that is, with a number that is greater
//! each time, and they register with what they were told. A new leader chooses when all nodes have
//! registered or had their time for it; who was the active one last stays it.

use super::Leader;
use crate::quorum::protocol::{Event, RegisteredSubscription};
use crate::quorum::replica::ShardContext;
use leveret_types::ConsumerId;

/// What a leader knows of the single active consumer beside the queue.
#[derive(Debug, Default)]
pub(super) struct Active {
    /// The number of the last activation.
    activation: u64,
    /// Who was activated by that; it may be gone since.
    consumer: Option<ConsumerId>,
    /// Whether this leader has chosen: it knows better then than who registers.
    has_chosen: bool,
    /// Consumers that were attached and not told yet whether they wait.
    untold: Vec<ConsumerId>,
}

impl Leader {
    /// A consumer is attached.
    pub(super) fn note_untold(&mut self, consumer: ConsumerId) {
        if self.queue.settings().single_active {
            self.active.untold.push(consumer);
        }
    }

    /// A node says what it was told of one of its subscriptions.
    pub(super) fn note_registered(&mut self, subscription: &RegisteredSubscription) {
        if subscription.activation > self.active.activation {
            self.active.activation = subscription.activation;
            if !self.active.has_chosen {
                self.active.consumer = Some(subscription.id);
            }
        }
    }

    /// Chooses the active consumer, if that was put off, and tells new consumers that they wait.
    pub(super) fn choose_active(&mut self, context: &mut ShardContext<'_>) {
        let before = self.active.consumer;
        self.active.has_chosen = true;
        self.queue
            .resume_election(context.now, before, &mut self.scratch);
        self.carry_out(context);
        for consumer in std::mem::take(&mut self.active.untold) {
            if self.queue.active() != Some(consumer) {
                self.tell_activation(context, consumer, 0);
            }
        }
    }

    /// The queue has made this consumer the active one.
    pub(super) fn activated(&mut self, context: &mut ShardContext<'_>, consumer: ConsumerId) {
        let activation = self.active.activation.saturating_add(1);
        self.active.activation = activation;
        self.active.consumer = Some(consumer);
        self.tell_activation(context, consumer, activation);
    }

    /// Tells a consumer's node the number of its activation; 0 if it waits.
    pub(super) fn tell_activation(
        &self,
        context: &mut ShardContext<'_>,
        consumer: ConsumerId,
        activation: u64,
    ) {
        if let Some(served) = self.served.subscriptions.get(&consumer) {
            let message = Event::Active {
                consumer,
                activation,
            };
            self.answer(context, served.node, message);
        }
    }
}
