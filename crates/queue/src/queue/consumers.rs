//! Who gets messages: consumers that come and go, and which of them is the single active one. Apart
//! because none of it touches a message but those that a leaver held.

use super::Queue;
use crate::consumer::{AttachError, Consumer, Slot};
use crate::effect::{Effect, Outcome};
use crate::priority_log::MessageRun;
use leveret_types::QueueKind;
use leveret_types::{ConsumerId, Now};

/// Who the single active consumer is, where the queue has that rule.
#[derive(Debug, Default)]
pub(super) struct Election {
    pub(super) active: Option<Slot>,
    /// The active consumer gets no more, so that one of higher priority can take over once it holds
    /// nothing.
    is_yielding: bool,
    /// Whether nobody is chosen for now.
    is_unsettled: bool,
}

impl Election {
    /// Whether a consumer is the active one and gets messages.
    fn serves(&self, slot: Slot) -> bool {
        self.active == Some(slot) && !self.is_yielding
    }

    /// Whether another one takes over as soon as this one holds nothing.
    pub(super) fn awaits(&self, slot: Slot) -> bool {
        self.is_yielding && self.active == Some(slot)
    }

    /// A consumer has gone.
    fn leave(&mut self, slot: Slot) {
        if self.active == Some(slot) {
            self.active = None;
            self.is_yielding = false;
        }
    }
}

impl Queue {
    /// Attaches a consumer.
    pub fn attach(
        &mut self,
        now: Now,
        consumer: Consumer,
        out: &mut Vec<Effect>,
    ) -> Result<(), AttachError> {
        if consumer.exclusive && self.settings.single_active {
            return Err(AttachError::ExclusiveOnSingleActive);
        }
        if self.exclusive || (consumer.exclusive && self.subscriptions.attached() > 0) {
            return Err(AttachError::ExclusiveTaken);
        }
        self.exclusive = consumer.exclusive;
        let slot = self.subscriptions.attach(consumer);
        self.touch(now);
        if self.settings.single_active {
            self.elect(out);
        } else {
            self.subscriptions.enter_ring(slot);
        }
        self.note_able(now);
        Ok(())
    }

    /// Whether it knows this subscription: a consumer, or one that holds messages.
    #[must_use]
    pub fn holds(&self, subscription: ConsumerId) -> bool {
        self.subscriptions.find(subscription).is_some()
    }

    /// How many messages a subscription holds, and when the oldest of them was handed to it: on the
    /// monotonic clock, to the second, where a timeout applies to it.
    #[must_use]
    pub fn unsettled_by(&self, subscription: ConsumerId) -> (u64, Option<u64>) {
        let slot = self.subscriptions.find(subscription);
        slot.map_or((0, None), |slot| {
            let subscription = self.subscriptions.get(slot);
            (subscription.unsettled_count, subscription.oldest_ms())
        })
    }

    /// Whether a subscription is an attached consumer.
    #[must_use]
    pub fn is_consumer(&self, subscription: ConsumerId) -> bool {
        let slot = self.subscriptions.find(subscription);
        slot.is_some_and(|slot| self.subscriptions.get(slot).consumer.is_some())
    }

    /// Stops delivering to a consumer. It keeps what it holds, and may settle that. False if it is
    /// no consumer.
    pub fn cancel(&mut self, now: Now, consumer: ConsumerId, out: &mut Vec<Effect>) -> bool {
        let Some(slot) = self.subscriptions.find(consumer) else {
            return false;
        };
        let cancelled = self.subscriptions.cancel(slot);
        if cancelled {
            self.consumer_left(now, slot, out);
            self.subscriptions.drop_if_done(slot);
        }
        cancelled
    }

    /// A subscription's channel is gone: what it holds returns, counted towards the delivery limit,
    /// unless it goes because it was too slow ([`Effect::TimedOut`]). Says how many messages that
    /// were.
    pub fn detach(&mut self, now: Now, subscription: ConsumerId, out: &mut Vec<Effect>) -> u64 {
        let slot = self.subscriptions.find(subscription);
        let outcome = match slot.is_some_and(|slot| self.subscriptions.get(slot).timed_out) {
            true => Outcome::Release,
            false => Outcome::Requeue { count: true },
        };
        self.take_away(now, subscription, outcome, out)
    }

    /// A subscription is not known any more for no fault of its own: what it holds returns,
    /// uncounted. Says how many messages that were.
    pub fn forget(&mut self, now: Now, subscription: ConsumerId, out: &mut Vec<Effect>) -> u64 {
        self.take_away(now, subscription, Outcome::Release, out)
    }

    fn take_away(
        &mut self,
        now: Now,
        subscription: ConsumerId,
        outcome: Outcome,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let Some(slot) = self.subscriptions.find(subscription) else {
            return 0;
        };
        let (gone, was_consumer) = self.subscriptions.remove(slot);
        for (priority_log, unsettled_messages) in &gone.unsettled_messages {
            for (range, unsettled_messages) in unsettled_messages.iter() {
                let run = MessageRun {
                    priority_log: *priority_log,
                    range,
                    bytes: unsettled_messages.bytes,
                };
                self.release(now, run, outcome, out);
            }
        }
        if was_consumer {
            self.consumer_left(now, slot, out);
        }
        self.flush(out);
        gone.unsettled_count
    }

    fn consumer_left(&mut self, now: Now, slot: Slot, out: &mut Vec<Effect>) {
        self.touch(now);
        // An exclusive consumer is the only one, so it is the one that left.
        self.exclusive = false;
        self.election.leave(slot);
        if self.settings.single_active {
            self.elect(out);
        }
        self.note_able(now);
    }

    /// What [`crate::Log::admit`] refused this consumer for is over.
    pub fn unblock(&mut self, now: Now, consumer: ConsumerId) {
        if let Some(slot) = self.subscriptions.find(consumer) {
            self.subscriptions.get_mut(slot).blocked = false;
            self.enter(slot);
            self.note_able(now);
        }
    }

    /// Lets a consumer take its turn, if the rule of the single active consumer allows.
    pub(super) fn enter(&mut self, slot: Slot) {
        if !self.settings.single_active || self.election.serves(slot) {
            self.subscriptions.enter_ring(slot);
        }
    }

    /// From now on the place of a single active consumer that goes is left free, until
    /// [`Self::resume_election`]: for consumers that come again, or have not all come yet.
    pub const fn hold_election(&mut self) {
        self.election.is_unsettled = true;
    }

    /// The end of that. If the place is free, it goes to `before` rather than to another; that is
    /// told as if it were new.
    pub fn resume_election(&mut self, now: Now, before: Option<ConsumerId>, out: &mut Vec<Effect>) {
        let unsettled_messages = std::mem::take(&mut self.election.is_unsettled);
        if !unsettled_messages || !self.settings.single_active {
            return;
        }
        let before = before.filter(|_| self.election.active.is_none());
        let found = before.and_then(|id| Some((id, self.subscriptions.find(id)?)));
        if let Some((consumer, slot)) = found
            && self.subscriptions.get(slot).consumer.is_some()
        {
            self.election.active = Some(slot);
            out.push(Effect::Activate { consumer });
        }
        self.elect(out);
        self.note_able(now);
    }

    /// Chooses the single active consumer. A classic queue keeps the one that it has; a quorum
    /// queue gives way to a higher priority, as soon as the active one holds nothing.
    pub(super) fn elect(&mut self, out: &mut Vec<Effect>) {
        if self.election.is_unsettled {
            return;
        }
        let Some((first, foremost)) = self.subscriptions.foremost() else {
            return;
        };
        if let Some(active) = self.election.active {
            let subscription = self.subscriptions.get(active);
            let (id, holds) = (subscription.id, subscription.unsettled_count > 0);
            let outranked = subscription
                .consumer
                .is_some_and(|c| c.priority < foremost.priority);
            self.election.is_yielding = outranked && self.kind == QueueKind::Quorum;
            if !self.election.is_yielding {
                self.subscriptions.enter_ring(active);
                return;
            }
            self.subscriptions.leave_ring(active);
            if holds {
                return;
            }
            out.push(Effect::Deactivate { consumer: id });
        }
        self.election.active = Some(first);
        self.election.is_yielding = false;
        self.subscriptions.enter_ring(first);
        out.push(Effect::Activate {
            consumer: foremost.id,
        });
    }
}
