//! Timers of a remote queue, and its end.

use super::{Question, RemoteContext, RemoteQueue, Request};
use crate::events::{QueueAnswer, QueueEvent};
use crate::notify::Notify;
use crate::queue_host::Asker;
use crate::quorum::protocol::Command;
use leveret_client::Reply;
use leveret_types::NodeId;

impl RemoteQueue {
    /// When the remote queue is to be looked at next.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let requests = self.questions.deadline_ms();
        let leaderless = !self.leader.is_known() && self.is_busy();
        let retry = leaderless.then(|| self.search_at_ms());
        let read = self.waiting_deliveries.read_at_ms();
        [requests, retry, read].into_iter().flatten().min()
    }

    /// Gives up questions that nobody has answered in time.
    pub(crate) fn expire(&mut self, context: &mut RemoteContext<'_>) {
        let now = context.now.monotonic_ms;
        while let Some(request) = self.questions.take(|request| request.until_ms <= now) {
            self.give_up(request, context);
        }
    }

    fn give_up(&mut self, request: Request, context: &mut RemoteContext<'_>) {
        match request.question {
            Question::Attach(consumer) => {
                self.subscriptions.remove(&consumer.id);
                self.say(Command::Detach(consumer.id));
            }
            Question::Cancel(consumer) => {
                self.questions.put_back(request);
                return self.cancelled(consumer, context);
            }
            Question::Get { subscription, .. } => self.forget_if_done(subscription),
            Question::Purge | Question::Count | Question::Peek { .. } => {}
        }
        self.tell(request.asker, QueueAnswer::Unavailable, context);
    }

    /// Nobody will ever answer, or not until the queue's only node is back: publishes are refused,
    /// questions answered so, consumers cancelled.
    pub(crate) fn abandon(&mut self, context: &mut RemoteContext<'_>) {
        self.give_up_all(context);
        let end = self.pending_operations.next();
        self.refused(self.pending_operations.first()..end, context);
        self.committed(NodeId(0), end - 1, context);
    }

    /// The queue is deleted: publishes that are under way are confirmed, as RabbitMQ does; those of
    /// dead letters that must arrive are refused, for they may have another place to go to.
    pub(crate) fn delete(&mut self, context: &mut RemoteContext<'_>) {
        self.give_up_all(context);
        for pending in self.pending_operations.iter() {
            if let Notify::Then(then) = &pending.notify {
                then.refuse();
            }
        }
        self.committed(NodeId(0), self.pending_operations.next() - 1, context);
    }

    /// Answers questions as those of an unavailable queue, and cancels consumers.
    fn give_up_all(&mut self, context: &mut RemoteContext<'_>) {
        self.lose(context);
        for request in self.questions.take_all() {
            match request.question {
                Question::Cancel(_) => {
                    if let Asker::Connection(connection) = request.asker {
                        context.post(connection, QueueEvent::Reply(Reply::Done));
                    }
                }
                _ => self.tell(request.asker, QueueAnswer::Unavailable, context),
            }
        }
        for (id, subscription) in self.subscriptions.drain() {
            if subscription.attached {
                context.post(subscription.connection, QueueEvent::CancelConsumer(id));
            }
        }
    }
}
