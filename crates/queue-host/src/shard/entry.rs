//! What callers may do with a queue, whatever its kind, wherever it is led: the verbs of
//! [`QueueHost`], by the queue's id.

use super::{Bodies, Enqueued, GetOutcome, QueueSpec, Shard};
use crate::delivery_credit::ConsumerCredit;
use crate::events::QueueAnswer;
use crate::notify::Notify;
use crate::queue_host::{Asker, Get, HostContext, QueueHost, When};
use crate::quorum::protocol::{Fetched, QueueCounts};
use crate::subscriber::Subscriber;
use leveret_queue::{AttachError, Consumer, Settle};
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};

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

    /// Does something to a queue: in place if it is on this node alone, else through its remote
    /// queue, or what stands for a stream. Nothing if there is no such queue any more.
    fn on_queue<R>(
        &mut self,
        now: Now,
        queue: QueueId,
        run: impl FnOnce(&mut dyn QueueHost, &mut HostContext<'_>) -> R,
    ) -> Option<R> {
        let mut context = HostContext {
            now,
            node: self.node,
            logs: &mut self.logs,
            effects: &mut self.effects,
            answers: &mut self.answers,
            scratch: &mut self.scratch,
        };
        let mut stream;
        let host: &mut dyn QueueHost = match self.classic.used(queue) {
            Some(classic) => classic,
            None if queue.is_stream() => {
                stream = self.streams.at(queue);
                &mut stream
            }
            None => self.remote_queues.used(queue)?,
        };
        Some(run(host, &mut context))
    }

    /// A queue as it is, to be asked what it knows.
    fn known_queue(&self, queue: QueueId) -> Option<&dyn QueueHost> {
        match self.classic.get(queue) {
            Some(classic) => Some(classic),
            None => Some(self.remote_queues.known(queue)?),
        }
    }

    /// Puts a message into a queue. `notify` is told when one that is kept has been committed.
    pub fn publish(
        &mut self,
        now: Now,
        queue: QueueId,
        message: &Message,
        bodies: &mut Bodies,
        notify: &Notify,
    ) -> Enqueued {
        let put = self.on_queue(now, queue, |host, context| {
            host.publish(context, message, bodies, notify)
        });
        put.unwrap_or(Enqueued::Gone)
    }

    /// Takes note of what became of messages that a consumer held. Answers how many of them it
    /// really held; all, if the queue is gone and nobody can tell.
    pub fn settle(&mut self, now: Now, queue: QueueId, settle: Settle) -> u64 {
        let all = settle.range.end - settle.range.start;
        let count = self.on_queue(now, queue, |host, context| host.settle(context, settle));
        count.unwrap_or(all)
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
        credit: ConsumerCredit,
    ) -> Result<When, Option<AttachError>> {
        let client = Subscriber::Client(connection);
        let attached = self.on_queue(now, queue, |host, context| {
            host.attach(context, consumer, client, credit)
        });
        attached.ok_or(None)?
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
        let client = Subscriber::Client(connection);
        let when = self.on_queue(now, queue, |host, context| {
            host.cancel(context, consumer, client)
        });
        when.unwrap_or(When::Now)
    }

    /// Takes a subscription away; what it holds returns to the queue.
    pub fn detach(&mut self, now: Now, queue: QueueId, subscription: ConsumerId) {
        self.on_queue(now, queue, |host, context| {
            host.detach(context, subscription);
        });
    }

    /// Whether a consumer of this node is the single active one, where the queue has that rule and
    /// that is known here.
    #[must_use]
    pub fn single_active(&self, queue: QueueId, consumer: ConsumerId) -> Option<bool> {
        self.known_queue(queue)?.single_active(consumer)
    }

    /// How many messages of a queue a consumer of this node holds, and when the oldest of them was
    /// handed to it (monotonic), where that is known here.
    #[must_use]
    pub fn unsettled_by(&self, queue: QueueId, consumer: ConsumerId) -> (u64, Option<u64>) {
        let known = self.known_queue(queue);
        known.map_or((0, None), |host| host.unsettled_by(consumer))
    }

    /// Whether the queue, or its remote queue here, knows this subscription still.
    pub fn is_holding(&self, queue: QueueId, subscription: ConsumerId) -> bool {
        let known = self.known_queue(queue);
        known.is_some_and(|host| host.holds(subscription))
    }

    /// A consumer's connection or channel has credit again.
    pub fn unblock(&mut self, now: Now, queue: QueueId, consumer: ConsumerId) {
        self.on_queue(now, queue, |host, context| host.unblock(context, consumer));
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
        let get = Get {
            subscription,
            subscriber: connection.map(Subscriber::Client),
            no_ack,
        };
        let outcome = self.on_queue(now, queue, |host, context| host.get(context, get));
        outcome.unwrap_or(GetOutcome::Gone)
    }

    /// Drops all ready messages. Nothing if that is answered later.
    pub fn purge(&mut self, now: Now, queue: QueueId, asker: Asker) -> Option<QueueAnswer> {
        let answer = self.on_queue(now, queue, |host, context| host.purge(context, asker));
        answer.unwrap_or(Some(QueueAnswer::Purged(0)))
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
        let answer = self.on_queue(now, queue, |host, context| {
            host.peek(context, asker, before)
        });
        answer.unwrap_or(Some(QueueAnswer::Peeked(Fetched::Gone)))
    }

    /// How a queue stands: what a declaration answers. Nothing if that is answered later.
    pub fn queue_counts(&mut self, now: Now, queue: QueueId, asker: Asker) -> Option<QueueAnswer> {
        let answer = self.on_queue(now, queue, |host, context| host.count(context, asker));
        answer.unwrap_or_else(|| Some(QueueAnswer::Counted(QueueCounts::default())))
    }

    /// Whether a queue that is here, or led from here, has no consumers.
    pub fn is_unused(&self, now: Now, queue: QueueId) -> bool {
        let counts = self.counts(now, queue);
        counts.is_some_and(|counts| counts.consumers == 0)
    }
}
