//! Answers that wait until what they tell of is durable, or committed by the cluster, and what must
//! wait behind them.
//!
//! The answer to a change of the catalogue waits in the output, behind a barrier: the session goes
//! on with what the client sends behind it, so that many changes share one sync of the log. All
//! other answers wait here, and the session with them.

use super::Connection;
use super::held_replies::Held;
use crate::env::{Env, LogPosition};
use leveret_client::{Reply, Session};
use leveret_types::{Now, QueueId, ShardId};
use smallvec::SmallVec;

impl<S: Session> Connection<S> {
    /// The write-ahead log has become durable further.
    pub fn durable<E: Env>(&mut self, now: Now, env: &E) {
        for shard in 0..env.settings().shard_count {
            let shard = ShardId(shard);
            self.session.durable(shard, env.durable(shard));
        }
        self.trace_durable(env);
        self.replies.awaiting = self.session.awaits_durability();
        while let Some(deliveries) = self.replies.barriers.pop_durable(env) {
            self.session.output().lift_barrier();
            self.replies.encoded += deliveries;
        }
        if let Some(held) = &mut self.replies.held {
            held.log_positions
                .retain(|log_position| env.durable(log_position.shard) < log_position.chunk);
            if self.release_held(now) {
                self.process(now, env);
            }
        }
    }

    /// A queue of the cluster, or a stream, has everything through a number.
    pub(super) fn release_committed(&mut self, queue: QueueId, through: u64, now: Now) {
        if let Some(held) = &mut self.replies.held {
            held.queues.retain(|(of, at)| *of != queue || *at > through);
        }
        self.release_held(now);
    }

    /// Gives the answer that was held if nothing holds it any more.
    pub(super) fn release_held(&mut self, now: Now) -> bool {
        let is_free = |held: &mut Held| held.log_positions.is_empty() && held.queues.is_empty();
        let Some(held) = self.replies.held.take_if(is_free) else {
            return false;
        };
        self.reply(now, held.reply);
        self.tell_cancelled();
        true
    }

    fn tell_cancelled(&mut self) {
        for consumer in std::mem::take(&mut self.replies.cancelled_behind) {
            self.consumer_cancelled(consumer);
        }
    }

    /// Whether [`Self::durable`] is to be called when the write-ahead log goes on.
    pub fn awaiting(&self) -> bool {
        self.replies.awaiting || self.replies.held.is_some() || !self.replies.barriers.is_empty()
    }

    /// Answers a change of the catalogue, once it is durable. The session goes on at once, unless
    /// too many of its changes wait for the log.
    pub(super) fn reply_when_durable<E: Env>(
        &mut self,
        now: Now,
        log_position: Option<LogPosition>,
        reply: Reply,
        env: &E,
    ) {
        let pending = log_position
            .filter(|log_position| env.durable(log_position.shard) < log_position.chunk);
        match pending {
            Some(log_position) if !self.replies.barriers.is_full() => {
                if self.replies.barriers.add(log_position) {
                    self.session.output().put_barrier();
                }
                self.reply(now, reply);
                self.tell_cancelled();
            }
            pending => self.reply_when_committed(now, pending, Vec::new(), reply, env),
        }
    }

    /// Answers once everything that the answer tells of is durable, and once these queues of the
    /// cluster have committed through these numbers.
    pub(super) fn reply_when_committed<E: Env>(
        &mut self,
        now: Now,
        log_positions: impl IntoIterator<Item = LogPosition>,
        queues: Vec<(QueueId, u64)>,
        reply: Reply,
        env: &E,
    ) {
        let mut log_positions: SmallVec<[LogPosition; 1]> = log_positions.into_iter().collect();
        log_positions.retain(|log_position| env.durable(log_position.shard) < log_position.chunk);
        self.replies.held = Some(Held {
            log_positions,
            queues,
            reply,
        });
        self.release_held(now);
    }
}
