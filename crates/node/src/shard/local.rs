//! What happens to a queue that is on this node alone.

use super::{Bodies, DeadLetter, Deferred, Enqueued, GetOutcome, Shard, classic_queue};
use crate::link::ConsumerLink;
use crate::stored;
use crate::subscriber::Subscriber;
use leveret_queue::{AttachError, Consumer, Got, Offer, Outcome};
use leveret_storage::{BodyId, Durability, ShardLogs, SharedBody};
use leveret_types::limits::CHUNK_BYTES;
use leveret_types::{ConsumerId, Message, Now, QueueId};
use std::ops::Range;

impl Shard {
    /// Puts a message into a queue.
    pub(crate) fn publish_local(
        &mut self,
        now: Now,
        queue: QueueId,
        message: &Message,
        bodies: &mut Bodies,
    ) -> Enqueued {
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return Enqueued::Gone;
        };
        let offer = classic_queue.offer(now, message.size(), &mut self.logs, &mut self.scratch);
        if !self.scratch.is_empty() {
            self.carry_out(queue);
        }
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return Enqueued::Gone;
        };
        match offer {
            Offer::Take => {}
            Offer::Reject { dead_letter } => {
                if dead_letter {
                    self.effects.deferred.push(Deferred::DeadLetter(DeadLetter {
                        queue,
                        position: None,
                        message: message.clone(),
                        reason: leveret_queue::Reason::MaxLength,
                    }));
                }
                return Enqueued::Rejected;
            }
        }
        let durable = classic_queue.durable && message.summary.persistent;
        let body = body_of(&mut self.logs, message, durable, bodies);
        classic_queue.enqueue(&mut self.logs, body, message);
        if !classic_queue.dirty {
            classic_queue.dirty = true;
            self.dirty.push(queue);
        }
        if durable {
            Enqueued::Durable
        } else {
            Enqueued::Volatile
        }
    }

    /// Takes note of what became of messages that a consumer held. Answers how many of them it
    /// really held; all, if the queue is gone and nobody can tell.
    pub(crate) fn settle_local(
        &mut self,
        now: Now,
        queue: QueueId,
        subscription: ConsumerId,
        priority_log: u8,
        range: Range<u64>,
        outcome: Outcome,
    ) -> u64 {
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return range.end - range.start;
        };
        let count = classic_queue.queue.settle(
            now,
            subscription,
            priority_log,
            range,
            outcome,
            &mut self.scratch,
        );
        self.mark(queue);
        self.carry_out(queue);
        count
    }

    /// Attaches a consumer.
    ///
    /// # Errors
    /// If the queue is in exclusive use, or gone.
    pub(crate) fn attach_local(
        &mut self,
        now: Now,
        queue: QueueId,
        consumer: Consumer,
        subscriber: Subscriber,
        link: ConsumerLink,
    ) -> Result<(), Option<AttachError>> {
        let classic_queue = self.queues.get_mut(&queue).ok_or(None)?;
        classic_queue.attach(now, consumer, subscriber, link, &mut self.scratch)?;
        self.mark(queue);
        self.carry_out(queue);
        Ok(())
    }

    /// Stops deliveries to a consumer; what it holds stays with it.
    pub(crate) fn cancel_local(&mut self, now: Now, queue: QueueId, consumer: ConsumerId) {
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return;
        };
        classic_queue.cancel(now, consumer, &mut self.scratch);
        self.mark(queue);
        self.carry_out(queue);
        self.delete_if_unused(queue);
    }

    /// Takes a subscription away; what it holds returns to the queue.
    pub(crate) fn detach_local(&mut self, now: Now, queue: QueueId, subscription: ConsumerId) {
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return;
        };
        classic_queue.detach(now, subscription, &mut self.scratch);
        self.mark(queue);
        self.carry_out(queue);
        self.delete_if_unused(queue);
    }

    /// A consumer's link or channel has credit again.
    pub(crate) fn unblock_local(&mut self, now: Now, queue: QueueId, consumer: ConsumerId) {
        if let Some(classic_queue) = self.queues.get_mut(&queue) {
            classic_queue.queue.unblock(now, consumer);
            self.mark(queue);
        }
    }

    /// Gets one message. If it is being read from disk, the subscriber is answered when it is
    /// there; without one, the caller asks again.
    pub(crate) fn get_local(
        &mut self,
        now: Now,
        queue: QueueId,
        subscription: ConsumerId,
        subscriber: Option<Subscriber>,
        no_ack: bool,
    ) -> GetOutcome {
        // What this batch has published so far must be seen, and what has expired must not.
        self.pump(now, queue);
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return GetOutcome::Gone;
        };
        let got = classic_queue.get(now, &mut self.logs, subscription, no_ack, &mut self.scratch);
        let outcome = match got {
            Got::Empty => GetOutcome::Empty,
            Got::Pending => {
                if let Some(subscriber) = subscriber {
                    classic_queue.waiting_gets.push(classic_queue::WaitingGet {
                        subscriber,
                        subscription,
                        no_ack,
                    });
                }
                GetOutcome::Pending
            }
            Got::Message { delivery, ready } => {
                if let Some(subscriber) = subscriber.filter(|_| !no_ack) {
                    classic_queue.note_subscription(subscription, subscriber);
                }
                match classic_queue.delivery(&mut self.logs, &delivery) {
                    Some(delivery) => GetOutcome::Message(delivery, ready),
                    None => GetOutcome::Empty,
                }
            }
        };
        self.mark(queue);
        self.carry_out(queue);
        outcome
    }

    /// Drops all ready messages; answers how many.
    pub(crate) fn purge_local(&mut self, now: Now, queue: QueueId) -> u64 {
        self.pump(now, queue);
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return 0;
        };
        let count = classic_queue.queue.purge(&mut self.scratch);
        self.mark(queue);
        self.carry_out(queue);
        count
    }
}

/// The body of `message` in the log, written once for all the queues that the message goes to.
fn body_of(logs: &mut ShardLogs, message: &Message, durable: bool, bodies: &mut Bodies) -> BodyId {
    let known = if durable {
        bodies.durable
    } else {
        bodies.durable.or(bodies.volatile)
    };
    let is_here = |body: &BodyId| body.shard().0 == u16::from(logs.shard());
    if let Some(body) = known.filter(is_here) {
        return body;
    }
    if !durable {
        let body = put(logs, message, Durability::Volatile, None);
        (bodies.durable, bodies.volatile) = (None, Some(body));
        return body;
    }
    let body = put(logs, message, Durability::Durable, bodies.shared);
    if bodies.shared.is_none() {
        bodies.shared = logs.share(body);
    }
    bodies.durable = Some(body);
    body
}

/// Puts the body of `message` into the chunk that gathers. A large one is not copied, where its
/// buffer is what is to be kept.
fn put(
    logs: &mut ShardLogs,
    message: &Message,
    durability: Durability,
    shared: Option<SharedBody>,
) -> BodyId {
    let is_large = message.weight() > CHUNK_BYTES;
    if let Some(bytes) = is_large.then(|| message.encoded()).flatten() {
        return match shared {
            Some(shared) => logs.body_shared_again(shared, bytes),
            None => logs.body_shared(durability, bytes),
        };
    }
    let header = stored::header(message);
    let pieces = stored::pieces(&header, message);
    match shared {
        Some(shared) => logs.body_again(shared, &pieces),
        None => logs.body(durability, &pieces),
    }
}
