//! A queue that was on this node alone becomes a replicated one, with its messages: a group of one,
//! which others join.
//!
//! Consumers on this node are cancelled, because what they hold is known to the queue alone;
//! consumers on other nodes stay, because their remote queues know. What is neither settled nor
//! held by such a one comes again.

use super::{QueueSpec, Shard};
use crate::events::ConnectionEvent;
use crate::subscriber::Subscriber;
use leveret_session::contract::Reply;
use leveret_types::{Now, QueueId};

impl Shard {
    /// Makes a queue of this node the first member of its group.
    pub(super) fn begin_group(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        let Some(classic_queue) = self.queues.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(classic_queue.deadline_ms, id));
        for (consumer, attached) in &classic_queue.consumers {
            self.effects.cancelled(attached.subscriber, *consumer);
        }
        for waiting in &classic_queue.waiting_gets {
            if let Subscriber::Client(connection) = waiting.subscriber {
                let event = ConnectionEvent::Reply(Reply::Got(None));
                self.effects.posts.push((connection, event));
            }
        }
        let origins = self.local_leaders.take_origins(id);
        self.place_remote_queue(id, &spec);
        let (priority_logs, state) = (classic_queue.priority_logs, classic_queue.queue.state());
        self.with_replicas(now, |replicas, around| {
            replicas.adopt(around, id, spec, &priority_logs, &state, origins);
        });
    }
}
