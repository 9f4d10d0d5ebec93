//! What the remote queue does by the clock, and its end.

use super::{Question, Reach, RemoteQueue, Request};
use crate::events::{QueueAnswer, QueueEvent};
use crate::queue_host::Asker;
use crate::quorum::link::Command;
use leveret_client::Reply;
use leveret_types::NodeId;

impl RemoteQueue {
    /// When the remote queue is to be looked at next.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let requests = self.questions.deadline_ms();
        let leaderless = !self.leader.is_known() && self.is_busy();
        let retry = leaderless.then(|| self.look_at_ms());
        let read = self.waiting_deliveries.read_at_ms();
        [requests, retry, read].into_iter().flatten().min()
    }

    /// Gives up questions that nobody has answered in time.
    pub(crate) fn expire(&mut self, reach: &mut Reach<'_>) {
        let now = reach.now.monotonic_ms;
        while let Some(request) = self.questions.take(|request| request.until_ms <= now) {
            self.give_up(request, reach);
        }
    }

    fn give_up(&mut self, request: Request, reach: &mut Reach<'_>) {
        match request.question {
            Question::Attach(consumer) => {
                self.subscriptions.remove(&consumer.id);
                self.say(Command::Detach(consumer.id));
            }
            Question::Cancel(consumer) => {
                self.questions.put_back(request);
                return self.cancelled(consumer, reach);
            }
            Question::Get { subscription, .. } => self.forget_if_done(subscription),
            Question::Purge | Question::Count | Question::Peek { .. } => {}
        }
        self.tell(request.asker, QueueAnswer::Unavailable, reach);
    }

    /// Nobody will ever answer, or not until the queue's only node is back: publishes are refused,
    /// questions answered so, consumers cancelled.
    pub(crate) fn abandon(&mut self, reach: &mut Reach<'_>) {
        self.lose(reach);
        for request in self.questions.take_all() {
            match request.question {
                Question::Cancel(_) => {
                    if let Asker::Connection(connection) = request.asker {
                        reach.post(connection, QueueEvent::Reply(Reply::Done));
                    }
                }
                _ => self.tell(request.asker, QueueAnswer::Unavailable, reach),
            }
        }
        for (id, subscription) in self.subscriptions.drain() {
            if subscription.attached {
                reach.post(subscription.connection, QueueEvent::CancelConsumer(id));
            }
        }
        let end = self.journal.next();
        self.refused(self.journal.first()..end, reach);
        self.committed(NodeId(0), end - 1, reach);
    }
}
