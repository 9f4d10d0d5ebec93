//! What callers may do with a queue, wherever it is: on this node alone, or through its proxy.

use super::{Bodies, Enqueued, GetOutcome, QueueSpec, Shard};
use crate::env::QueueAnswer;
use crate::link::ConsumerLink;
use crate::looked::{self, Found};
use crate::quorum::link::{Fetched, Settle, Standing};
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
    /// Gives a queue that is elsewhere, or on several nodes, its proxy; false if it is on this node
    /// alone.
    pub(super) fn place_proxy(&mut self, queue: QueueId, spec: &QueueSpec) -> bool {
        let own = self.node();
        if !spec.members.is_empty() {
            let nodes: Vec<NodeId> = spec.members.iter().map(|member| member.node()).collect();
            self.proxies.place(queue, &nodes, false);
            return true;
        }
        let is_elsewhere = spec.home != own && spec.home != NodeId(0);
        if is_elsewhere {
            self.proxies.place(queue, &[spec.home], true);
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
        match self.is_proxied(queue) {
            true => self.proxy_publish(queue, message, notify.clone()),
            false => self.publish_here(now, queue, message, bodies),
        }
    }

    /// Takes note of what became of messages that a consumer held. Answers how many of them it
    /// really held; all, if the queue is gone and nobody can tell.
    pub fn settle(
        &mut self,
        now: Now,
        queue: QueueId,
        holder: ConsumerId,
        lane: u8,
        range: Range<u64>,
        outcome: Outcome,
    ) -> u64 {
        if !self.is_proxied(queue) {
            return self.settle_here(now, queue, holder, lane, range, outcome);
        }
        let settle = Settle {
            holder,
            lane,
            range,
            outcome,
        };
        self.proxy_settle(queue, settle)
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
        if !self.is_proxied(queue) {
            self.attach_here(now, queue, consumer, Subscriber::Client(connection), link)?;
            return Ok(When::Now);
        }
        self.proxy_attach(now, queue, consumer, connection, link);
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
        if !self.is_proxied(queue) {
            self.cancel_here(now, queue, consumer);
            return When::Now;
        }
        self.proxy_cancel(now, queue, consumer, connection);
        When::Later
    }

    /// Takes a holder away; what it holds returns to the queue.
    pub fn detach(&mut self, now: Now, queue: QueueId, holder: ConsumerId) {
        match self.is_proxied(queue) {
            true => self.proxy_detach(queue, holder),
            false => self.detach_here(now, queue, holder),
        }
    }

    /// Whether a consumer of this node is the single active one, where the queue has that rule and
    /// that is known here.
    #[must_use]
    pub fn single_active(&self, queue: QueueId, consumer: ConsumerId) -> Option<bool> {
        match self.queues.get(&queue) {
            Some(actor) => {
                let queue = &actor.queue;
                let rule = queue.settings().single_active;
                rule.then(|| queue.active() == Some(consumer))
            }
            None => self.proxies.known(queue)?.single_active(consumer),
        }
    }

    /// A consumer's link or channel has credit again.
    pub fn unblock(&mut self, now: Now, queue: QueueId, consumer: ConsumerId) {
        match self.is_proxied(queue) {
            true => self.proxy_unblock(now, queue, consumer),
            false => self.unblock_here(now, queue, consumer),
        }
    }

    /// Gets one message. If that is answered later, `connection` is posted the answer; without a
    /// connection, the caller asks again.
    pub fn get(
        &mut self,
        now: Now,
        queue: QueueId,
        holder: ConsumerId,
        connection: Option<ConnectionId>,
        no_ack: bool,
    ) -> GetOutcome {
        match self.is_proxied(queue) {
            true => self.proxy_get(now, queue, holder, connection, no_ack),
            false => {
                let client = connection.map(Subscriber::Client);
                self.get_here(now, queue, holder, client, no_ack)
            }
        }
    }

    /// Drops all ready messages. Nothing if that is answered later.
    pub fn purge(&mut self, now: Now, queue: QueueId, asker: Asker) -> Option<QueueAnswer> {
        match self.is_proxied(queue) {
            true => self.proxy_purge(now, queue, asker),
            false => Some(QueueAnswer::Purged(self.purge_here(now, queue))),
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
        if self.is_proxied(queue) {
            return self.proxy_peek(now, queue, asker, before);
        }
        self.finish_here(now);
        let actor = self.queues.get(&queue);
        let position = actor.and_then(|actor| actor.queue.ready_behind(before));
        let found = position.map(|at| looked::read(&mut self.logs, queue, at));
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
    pub fn standing(&mut self, now: Now, queue: QueueId, asker: Asker) -> Option<QueueAnswer> {
        if self.is_proxied(queue) {
            return self.proxy_standing(now, queue, asker);
        }
        self.finish_here(now);
        let counts = self.counts(now, queue).unwrap_or_default();
        Some(QueueAnswer::Counted(Standing {
            ready: counts.ready,
            unsettled: counts.unsettled,
            consumers: counts.consumers as u64,
        }))
    }
}
