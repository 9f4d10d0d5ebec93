//! A queue that was on this node alone becomes a replicated one, with its messages: a group of one,
//! which others join.
//!
//! Consumers on this node are cancelled, because what they hold is known to the queue alone;
//! consumers on other nodes stay, because their proxies know. What is neither settled nor held by
//! such a one comes again.

use super::{QueueSpec, Shard};
use crate::events::ConnectionEvent;
use crate::subscriber::Subscriber;
use leveret_session::contract::Reply;
use leveret_types::{Now, QueueId};

impl Shard {
    /// Makes a queue of this node the first member of its group.
    pub(super) fn begin_group(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        let Some(actor) = self.queues.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(actor.deadline_ms, id));
        for (consumer, attached) in &actor.consumers {
            self.effects.cancelled(attached.subscriber, *consumer);
        }
        for waiting in &actor.waiting_gets {
            if let Subscriber::Client(connection) = waiting.subscriber {
                let event = ConnectionEvent::Reply(Reply::Got(None));
                self.effects.posts.push((connection, event));
            }
        }
        let origins = self.homes.take_origins(id);
        self.place_proxy(id, &spec);
        let (lanes, state) = (actor.lanes, actor.queue.state());
        self.with_replicas(now, |replicas, around| {
            replicas.adopt(around, id, spec, &lanes, &state, origins);
        });
    }
}
