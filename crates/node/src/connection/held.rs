//! Answers that wait until what they tell of is durable, or committed by the cluster, and what must
//! wait behind them.

use super::Connection;
use crate::env::{Env, Ticket};
use leveret_session::contract::Reply;
use leveret_types::{Now, QueueId, ShardId};
use smallvec::SmallVec;

/// An answer that waits until what it tells of is durable.
#[derive(Debug)]
pub(super) struct Held {
    tickets: SmallVec<[Ticket; 1]>,
    /// Queues of the cluster, and the number up to which they must have committed.
    pub(super) queues: Vec<(QueueId, u64)>,
    reply: Reply,
}

impl Connection {
    /// The write-ahead log has become durable further.
    pub fn durable<E: Env>(&mut self, now: Now, env: &E) {
        for shard in 0..env.settings().shard_count {
            let shard = ShardId(shard);
            self.session.durable(shard, env.durable(shard));
        }
        self.awaiting = self.session.awaits_durability();
        if let Some(held) = &mut self.held {
            held.tickets
                .retain(|ticket| env.durable(ticket.shard) < ticket.chunk);
            if self.release_held(now) {
                self.process(now, env);
            }
        }
    }

    /// Gives the answer that was held if nothing holds it any more.
    pub(super) fn release_held(&mut self, now: Now) -> bool {
        let is_free = |held: &mut Held| held.tickets.is_empty() && held.queues.is_empty();
        let Some(held) = self.held.take_if(is_free) else {
            return false;
        };
        self.reply(now, held.reply);
        self.tell_cancelled();
        true
    }

    fn tell_cancelled(&mut self) {
        for consumer in std::mem::take(&mut self.cancelled_behind) {
            self.consumer_cancelled(consumer);
        }
    }

    /// Whether [`Self::durable`] is to be called when the write-ahead log goes on.
    pub fn awaiting(&self) -> bool {
        self.awaiting || self.held.is_some()
    }

    /// Answers once everything that the answer tells of is durable.
    pub(super) fn reply_when_durable<E: Env>(
        &mut self,
        now: Now,
        tickets: impl IntoIterator<Item = Ticket>,
        reply: Reply,
        env: &E,
    ) {
        self.reply_when_committed(now, tickets, Vec::new(), reply, env);
    }

    /// The same, and once these queues of the cluster have committed through these numbers.
    pub(super) fn reply_when_committed<E: Env>(
        &mut self,
        now: Now,
        tickets: impl IntoIterator<Item = Ticket>,
        queues: Vec<(QueueId, u64)>,
        reply: Reply,
        env: &E,
    ) {
        let mut tickets: SmallVec<[Ticket; 1]> = tickets.into_iter().collect();
        tickets.retain(|ticket| env.durable(ticket.shard) < ticket.chunk);
        self.held = Some(Held {
            tickets,
            queues,
            reply,
        });
        self.release_held(now);
    }
}
