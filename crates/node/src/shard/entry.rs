//! What callers may do with a queue, wherever it is: on this node alone, or through its remote
//! queue.

use super::{Bodies, Enqueued, GetOutcome, QueueSpec, Shard};
use crate::env::QueueAnswer;
use crate::link::ConsumerLink;
use crate::peeked::{self, Found};
use crate::quorum::link::{Fetched, QueueCounts, Settle};
use crate::quorum::{Asker, Notify};
use crate::subscriber::Subscriber;
use leveret_queue::{AttachError, Consumer, Outcome};
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};
use std::ops::Range;

/// When a question about a queue is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is.
    Now,
    /// The connection is posted the answer.
    Later,
}

impl Shard {
    /// Gives a queue that is elsewhere, or on several nodes, its remote queue; false if it is on
    /// this node alone.
    pub(super) fn place_remote_queue(&mut self, queue: QueueId, spec: &QueueSpec) -> bool {
        let own = self.node();
        if !spec.members.is_empty() {
            let nodes: Vec<NodeId> = spec.members.iter().map(|member| member.node()).collect();
            self.remote_queues.place(queue, &nodes, false);
            return true;
        }
        let is_elsewhere = spec.home != own && spec.home != NodeId(0);
        if is_elsewhere {
            self.remote_queues.place(queue, &[spec.home], true);
        }
        is_elsewhere
    }

    /// Whether the queue is on this node alone.
    pub(crate) fn is_here(&self, queue: QueueId) -> bool {
        self.queues.contains_key(&queue)
    }

    /// Puts a message into a queue. `notify` is told when one that is kept has been committed.
    pub(crate) fn publish(
        &mut self,
        now: Now,
        queue: QueueId,
        message: &Message,
        bodies: &mut Bodies,
        notify: &Notify,
    ) -> Enqueued {
        match self.is_remote(queue) {
            true => self.remote_queue_publish(queue, message, notify.clone()),
            false => self.publish_local(now, queue, message, bodies),
        }
    }

    /// Takes note of what became of messages that a consumer held. Answers how many of them it
    /// really held; all, if the queue is gone and nobody can tell.
    pub fn settle(
        &mut self,
        now: Now,
        queue: QueueId,
        subscription: ConsumerId,
        priority_log: u8,
        range: Range<u64>,
        outcome: Outcome,
    ) -> u64 {
        if !self.is_remote(queue) {
            return self.settle_local(now, queue, subscription, priority_log, range, outcome);
        }
        let settle = Settle {
            subscription,
            priority_log,
            range,
            outcome,
        };
        self.remote_queue_settle(queue, settle)
    }

    /// Attaches a consumer. If that is answered later, it is by [`QueueAnswer::Attached`].
    ///
    /// # Errors
    /// If the queue is in exclusive use, or gone.
    pub fn attach(
        &mut self,
        now: Now,
        queue: QueueId,
        consumer: Consumer,
        connection: ConnectionId,
        link: ConsumerLink,
    ) -> Result<When, Option<AttachError>> {
        if !self.is_remote(queue) {
            self.attach_local(now, queue, consumer, Subscriber::Client(connection), link)?;
            return Ok(When::Now);
        }
        self.remote_queue_attach(now, queue, consumer, connection, link);
        Ok(When::Later)
    }

    /// Stops deliveries to a consumer; what it holds stays with it. If that is answered later, it
    /// is by `Reply::Done`.
    pub fn cancel(
        &mut self,
        now: Now,
        queue: QueueId,
        consumer: ConsumerId,
        connection: ConnectionId,
    ) -> When {
        if !self.is_remote(queue) {
            self.cancel_local(now, queue, consumer);
            return When::Now;
        }
        self.remote_queue_cancel(now, queue, consumer, connection);
        When::Later
    }

    /// Takes a subscription away; what it holds returns to the queue.
    pub fn detach(&mut self, now: Now, queue: QueueId, subscription: ConsumerId) {
        match self.is_remote(queue) {
            true => self.remote_queue_detach(queue, subscription),
            false => self.detach_local(now, queue, subscription),
        }
    }

    /// Whether a consumer of this node is the single active one, where the queue has that rule and
    /// that is known here.
    #[must_use]
    pub fn single_active(&self, queue: QueueId, consumer: ConsumerId) -> Option<bool> {
        match self.queues.get(&queue) {
            Some(classic_queue) => {
                let queue = &classic_queue.queue;
                let rule = queue.settings().single_active;
                rule.then(|| queue.active() == Some(consumer))
            }
            None => self.remote_queues.known(queue)?.single_active(consumer),
        }
    }

    /// A consumer's link or channel has credit again.
    pub fn unblock(&mut self, now: Now, queue: QueueId, consumer: ConsumerId) {
        match self.is_remote(queue) {
            true => self.remote_queue_unblock(now, queue, consumer),
            false => self.unblock_local(now, queue, consumer),
        }
    }

    /// Gets one message. If that is answered later, `connection` is posted the answer; without a
    /// connection, the caller asks again.
    pub fn get(
        &mut self,
        now: Now,
        queue: QueueId,
        subscription: ConsumerId,
        connection: Option<ConnectionId>,
        no_ack: bool,
    ) -> GetOutcome {
        match self.is_remote(queue) {
            true => self.remote_queue_get(now, queue, subscription, connection, no_ack),
            false => {
                let client = connection.map(Subscriber::Client);
                self.get_local(now, queue, subscription, client, no_ack)
            }
        }
    }

    /// Drops all ready messages. Nothing if that is answered later.
    pub fn purge(&mut self, now: Now, queue: QueueId, asker: Asker) -> Option<QueueAnswer> {
        match self.is_remote(queue) {
            true => self.remote_queue_purge(now, queue, asker),
            false => Some(QueueAnswer::Purged(self.purge_local(now, queue))),
        }
    }

    /// Looks at the ready message that has so many before it, and leaves it there. Nothing if that
    /// is answered later, or when it has been read from disk: ask again.
    pub fn peek(
        &mut self,
        now: Now,
        queue: QueueId,
        asker: Asker,
        before: u64,
    ) -> Option<QueueAnswer> {
        if self.is_remote(queue) {
            return self.remote_queue_peek(now, queue, asker, before);
        }
        self.finish_local(now);
        let classic_queue = self.queues.get(&queue);
        let position =
            classic_queue.and_then(|classic_queue| classic_queue.queue.ready_behind(before));
        let found = position.map(|at| peeked::read(&mut self.logs, queue, at));
        Some(QueueAnswer::Peeked(match found {
            Some(Found::Message(message)) => Fetched::Message(message),
            Some(Found::Never) => Fetched::Unreadable,
            Some(Found::Pending) => return None,
            None => Fetched::Gone,
        }))
    }

    /// Whether a queue that is here, or led from here, has no consumers.
    pub(crate) fn is_unused(&self, now: Now, queue: QueueId) -> bool {
        let counts = self.counts(now, queue);
        let counts = counts.or_else(|| self.replicas.led_counts(now, queue));
        counts.is_some_and(|counts| counts.consumers == 0)
    }

    /// How a queue stands: what a declaration answers. Nothing if that is answered later.
    pub fn queue_counts(&mut self, now: Now, queue: QueueId, asker: Asker) -> Option<QueueAnswer> {
        if self.is_remote(queue) {
            return self.remote_queue_queue_counts(now, queue, asker);
        }
        self.finish_local(now);
        let counts = self.counts(now, queue).unwrap_or_default();
        Some(QueueAnswer::Counted(QueueCounts {
            ready: counts.ready,
            unsettled: counts.unsettled,
            consumers: counts.consumers as u64,
        }))
    }
}
