//! A queue that was on this node alone becomes a replicated one, with its messages: a group of one,
//! which others join.
//!
//! Consumers on this node are cancelled, because what they hold is known to the queue alone;
//! consumers on other nodes stay, because their remote queues know. What is neither settled nor
//! held by such a one comes again.

use super::{QueueSpec, Shard};
use crate::classic::HandedOver;
use crate::quorum::replica::Adopted;
use leveret_types::{Now, QueueId};

impl Shard {
    /// Makes a queue of this node the first member of its group.
    pub(super) fn begin_group(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        let (mut context, classic, _) = self.parts(now);
        let Some(handed_over) = classic.hand_over(&mut context.host_context(), id) else {
            return;
        };
        let HandedOver {
            priority_logs,
            state,
            view,
            origins,
            refused,
        } = handed_over;
        self.place_remote_queue(id, &spec);
        self.with_replicas(now, |replicas, context| {
            let known = Adopted {
                state,
                view,
                is_view: spec.view.is_some(),
                origins,
                refused,
            };
            replicas.adopt(context, id, spec, &priority_logs, &known);
        });
    }
}
