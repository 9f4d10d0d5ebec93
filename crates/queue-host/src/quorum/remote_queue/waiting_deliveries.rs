//! Deliveries that came without their message, and what waits behind them.
//!
//! The replica on this node completes them: at once, or when it has read from disk; or the leader
//! does, if the replica does not have the message. Until then all later deliveries of the queue
//! wait, whoever they are for: a client that consumes twice over one channel gets them in order.
//!
//! Invariant: nobody holds what stands in line, so that a leader that is told what is held returns
//! it. With its session the line ends.

use super::{LeaderLocation, RemoteContext, RemoteQueue, acquired};
use crate::queue_host::QueueHost;
use crate::quorum::protocol::{Command, Fetched, LocalDelivery};
use leveret_client::Delivery;
use leveret_queue::{Outcome, Settle};
use leveret_types::limits::LINK_CONSUMER_MESSAGES_MAX;
use leveret_types::{ConsumerId, Message, Now};
use std::collections::VecDeque;

/// Milliseconds after which a read from disk is asked for again, should nobody tell of its end.
const READ_AGAIN_MS: u64 = 1_000;
/// What may stand in line for each subscription: what may be under way to a consumer, and its end.
const WAITING_DELIVERIES_MAX: usize = LINK_CONSUMER_MESSAGES_MAX as usize + 1;

/// What a leader has said and must not be overtaken by a delivery, nor overtake one.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A delivery with its message.
    Whole(Delivery),
    /// A delivery whose message the replica here has.
    Local(LocalDelivery),
    /// A consumer's end.
    Cancelled(ConsumerId),
}

impl Incoming {
    const fn consumer(&self) -> ConsumerId {
        match self {
            Self::Whole(delivery) => delivery.consumer,
            Self::Local(delivery) => delivery.consumer,
            Self::Cancelled(consumer) => *consumer,
        }
    }

    /// Where the message is that it brings, and how often somebody had it before.
    fn message(&self) -> Option<(u8, u64, u32)> {
        match self {
            Self::Whole(of) => Some((
                of.priority_log,
                of.index,
                acquired(of.acquired_count, of.redelivered),
            )),
            Self::Local(of) => Some((
                of.priority_log,
                of.index,
                acquired(of.acquired_count, of.redelivered),
            )),
            Self::Cancelled(_) => None,
        }
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct WaitingDeliveries {
    incoming: VecDeque<Incoming>,
    /// The delivery for which the leader was asked: consumer, priority log, index. It is the first,
    /// or is in line no more.
    fetching: Option<(ConsumerId, u8, u64)>,
    /// When a read is asked for again.
    read_at_ms: Option<u64>,
}

const fn key(of: &LocalDelivery) -> (ConsumerId, u8, u64) {
    (of.consumer, of.priority_log, of.index)
}

impl WaitingDeliveries {
    fn first_local(&self) -> Option<LocalDelivery> {
        match self.incoming.front() {
            Some(Incoming::Local(delivery)) => Some(*delivery),
            _ => None,
        }
    }

    fn pop(&mut self) -> Option<Incoming> {
        (self.fetching, self.read_at_ms) = (None, None);
        self.incoming.pop_front()
    }

    /// Takes out what is for one consumer.
    fn take(&mut self, consumer: ConsumerId) -> VecDeque<Incoming> {
        let all = std::mem::take(&mut self.incoming).into_iter();
        let (taken, pending) = all.partition(|incoming| incoming.consumer() == consumer);
        self.incoming = pending;
        taken
    }

    pub(super) const fn read_at_ms(&self) -> Option<u64> {
        self.read_at_ms
    }
}

impl RemoteQueue {
    /// Takes in what must keep its place among deliveries.
    pub(super) fn arrive(&mut self, incoming: Incoming, context: &mut RemoteContext<'_>) {
        let is_local = matches!(incoming, Incoming::Local(_));
        if self.waiting_deliveries.incoming.is_empty() && !is_local {
            return self.let_in(incoming, context);
        }
        // What is for nobody waits for nothing.
        if !self.holds(incoming.consumer()) {
            return match incoming {
                Incoming::Cancelled(consumer) => self.cancelled(consumer, context),
                other => self.say_gone(other.consumer()),
            };
        }
        if self.waiting_deliveries.incoming.len()
            >= self.subscriptions.len() * WAITING_DELIVERIES_MAX
        {
            tracing::error!(queue = %self.queue, "the leader sent more than allowed: registering anew");
            return self.lose(context);
        }
        self.waiting_deliveries.incoming.push_back(incoming);
    }

    fn let_in(&mut self, incoming: Incoming, context: &mut RemoteContext<'_>) {
        match incoming {
            Incoming::Whole(delivery) => self.deliver(delivery, context),
            Incoming::Local(delivery) => unreachable!("{delivery:?} has no message"),
            Incoming::Cancelled(consumer) => self.cancelled(consumer, context),
        }
    }

    /// The delivery that the replica here is to complete, once all before it have gone on.
    pub(crate) fn next_local(&mut self, context: &mut RemoteContext<'_>) -> Option<LocalDelivery> {
        loop {
            let Some(first) = self.waiting_deliveries.first_local() else {
                let incoming = self.waiting_deliveries.pop()?;
                self.let_in(incoming, context);
                continue;
            };
            if !self.holds(first.consumer) {
                self.waiting_deliveries.pop();
                self.say_gone(first.consumer);
                continue;
            }
            return (self.waiting_deliveries.fetching != Some(key(&first))).then_some(first);
        }
    }

    /// The first in line has its message.
    pub(crate) fn complete(&mut self, message: Message, context: &mut RemoteContext<'_>) {
        if let Some(first) = self.waiting_deliveries.first_local() {
            self.waiting_deliveries.pop();
            self.deliver(first.complete(self.queue, message), context);
        }
    }

    /// The message of the first in line is being read from disk.
    pub(crate) fn await_read(&mut self, now: Now) {
        self.waiting_deliveries.read_at_ms = Some(now.monotonic_ms + READ_AGAIN_MS);
    }

    /// Whether something stands in line.
    pub(crate) fn has_waiting_deliveries(&self) -> bool {
        !self.waiting_deliveries.incoming.is_empty()
    }

    /// The replica does not have the message of the first in line: the leader is to send it.
    pub(crate) fn fetch(&mut self) {
        let Some(first) = self.waiting_deliveries.first_local() else {
            return;
        };
        (
            self.waiting_deliveries.fetching,
            self.waiting_deliveries.read_at_ms,
        ) = (Some(key(&first)), None);
        self.say(Command::Fetch {
            consumer: first.consumer,
            priority_log: first.priority_log,
            index: first.index,
        });
    }

    /// The leader has sent a message that was not here, or says why not.
    pub(super) fn fetched(
        &mut self,
        of: (ConsumerId, u8, u64),
        fetched: Fetched,
        context: &mut RemoteContext<'_>,
    ) {
        let Some(first) = self
            .waiting_deliveries
            .first_local()
            .filter(|first| key(first) == of)
        else {
            return;
        };
        if self.waiting_deliveries.fetching != Some(of) {
            return;
        }
        match fetched {
            Fetched::Message(message) => return self.complete(message, context),
            Fetched::Gone => {}
            Fetched::Unreadable => {
                let acquired = acquired(first.acquired_count, first.redelivered);
                self.release((first.priority_log, first.index, acquired), of.0);
            }
        }
        self.waiting_deliveries.pop();
        self.give_room_back(first.consumer, first.bytes);
    }

    /// Gives back what a consumer was to get, and is not the subscription of here.
    fn release(
        &mut self,
        (priority_log, index, acquired): (u8, u64, u32),
        subscription: ConsumerId,
    ) {
        let settle = Settle {
            subscription,
            priority_log,
            range: index..index + 1,
            outcome: Outcome::Release,
        };
        self.push_settle(settle, acquired);
    }

    /// What was to be delivered to a consumer that is cancelled returns; or is delivered, if it
    /// cannot.
    pub(super) fn clear_waiting_deliveries_of(
        &mut self,
        consumer: ConsumerId,
        keeps: bool,
        context: &mut RemoteContext<'_>,
    ) {
        for incoming in self.waiting_deliveries.take(consumer) {
            match incoming {
                Incoming::Whole(delivery) if !keeps => self.deliver(delivery, context),
                incoming => {
                    if let Some(message) = incoming.message() {
                        self.release(message, consumer);
                    }
                }
            }
        }
    }

    /// A subscription is gone: nothing in line is for it any more.
    pub(super) fn leave_waiting_deliveries(&mut self, consumer: ConsumerId) {
        if self.has_waiting_deliveries() {
            self.waiting_deliveries.take(consumer);
        }
    }

    /// The session is over, and what stands in line returns by that; but what was delivered without
    /// acknowledgement has left its queue.
    pub(super) fn end_waiting_deliveries(&mut self, context: &mut RemoteContext<'_>) {
        for incoming in std::mem::take(&mut self.waiting_deliveries).incoming {
            if let Incoming::Whole(delivery) = incoming
                && let Some(subscription) = self.subscriptions.get(&delivery.consumer)
                && !subscription.settles()
            {
                self.deliver(delivery, context);
            }
        }
    }

    /// Whether the leader is on this node.
    pub(super) fn is_led_here(&self, context: &RemoteContext<'_>) -> bool {
        use LeaderLocation::{Contacted, Led};
        matches!(self.leader.location, Contacted(node) | Led(node) if node == context.node)
    }
}

#[cfg(test)]
mod tests;
