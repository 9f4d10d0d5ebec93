//! Answers that wait until what they tell of is durable, or committed by the cluster, and what must
//! wait behind them.
//!
//! The answer to a change of the catalogue waits in the output, behind a barrier: the session goes
//! on with what the client sends behind it, so that many changes share one sync of the log. All
//! other answers wait here, and the session with them.

use super::Connection;
use crate::env::{Env, LogPosition};
use leveret_client::{Reply, Session};
use leveret_types::limits::UNSYNCED_CHANGES_MAX;
use leveret_types::{ConsumerId, Now, ProtocolError, QueueId, ReplyCode};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::{AddAssign, Range, RangeInclusive};

/// What a connection holds back, and what waits behind that.
#[derive(Debug, Default)]
pub(super) struct HeldReplies {
    /// The answer to what was asked, held until what it tells of is durable.
    held: Option<Held>,
    /// Answers in the output that must not be written before what they tell of is durable.
    barriers: Barriers,
    /// Consumers whose queue has gone while an answer is held: told behind it.
    cancelled_behind: Vec<ConsumerId>,
    /// Deliveries encoded since the socket last took everything, but for those behind a barrier.
    encoded: Encoded,
    /// Publishes that wait for the log, so that the confirm ledger must hear of it.
    pub(super) awaiting: bool,
}

impl HeldReplies {
    /// Whether they wait for the write-ahead log to go on.
    pub(super) fn await_log(&self) -> bool {
        self.awaiting || self.held.is_some() || !self.barriers.is_empty()
    }

    /// A delivery is in the output.
    pub(super) fn delivered(&mut self, delivery: Encoded) {
        if !self.barriers.note(delivery) {
            self.encoded += delivery;
        }
    }

    /// The socket has taken all that stands before the first barrier: the deliveries among that.
    pub(super) fn take_encoded(&mut self) -> Encoded {
        std::mem::take(&mut self.encoded)
    }

    /// Takes the oldest barrier away if what it waits for is durable; whether it did.
    pub(super) fn lift_barrier<E: Env>(&mut self, env: &E) -> bool {
        let deliveries = self.barriers.pop_durable(env);
        self.encoded += deliveries.unwrap_or_default();
        deliveries.is_some()
    }

    /// The write-ahead log has become durable further; whether an answer is held.
    pub(super) fn durable<E: Env>(&mut self, env: &E) -> bool {
        if let Some(held) = &mut self.held {
            held.log_positions
                .retain(|log_position| env.durable(log_position.shard) < log_position.chunk);
        }
        self.held.is_some()
    }
}

/// An answer that waits until what it tells of is durable.
#[derive(Debug)]
struct Held {
    log_positions: SmallVec<[LogPosition; 1]>,
    /// Queues of the cluster, and what they must have committed: numbers up to the last one.
    queues: Vec<(QueueId, RangeInclusive<u64>)>,
    reply: Reply,
}

/// Deliveries that were encoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Encoded {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl AddAssign for Encoded {
    fn add_assign(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

/// What waits in the output, up to the next barrier, for one batch of the log.
#[derive(Debug)]
struct Barrier {
    log_position: LogPosition,
    /// Answers to changes.
    changes: usize,
    deliveries: Encoded,
}

/// The barriers that stand in a connection's output, the oldest first.
#[derive(Debug, Default)]
struct Barriers {
    queue_counts: VecDeque<Barrier>,
    changes: usize,
}

impl Barriers {
    fn is_empty(&self) -> bool {
        self.queue_counts.is_empty()
    }

    fn is_full(&self) -> bool {
        self.changes >= UNSYNCED_CHANGES_MAX
    }

    /// Takes note of an answer that waits for this log position; whether it needs a barrier of its
    /// own.
    fn add(&mut self, log_position: LogPosition) -> bool {
        self.changes += 1;
        match self.queue_counts.back_mut() {
            Some(last) if last.log_position == log_position => {
                last.changes += 1;
                false
            }
            _ => {
                self.queue_counts.push_back(Barrier {
                    log_position,
                    changes: 1,
                    deliveries: Encoded::default(),
                });
                true
            }
        }
    }

    /// Takes note of a delivery in the output; false if no barrier stands before it.
    fn note(&mut self, delivery: Encoded) -> bool {
        let last = self.queue_counts.back_mut();
        last.map(|last| last.deliveries += delivery).is_some()
    }

    /// Takes the oldest barrier away if its log position is durable; answers the deliveries behind
    /// it.
    fn pop_durable<E: Env>(&mut self, env: &E) -> Option<Encoded> {
        let LogPosition { shard, chunk } = self.queue_counts.front()?.log_position;
        if env.durable(shard) < chunk {
            return None;
        }
        let barrier = self.queue_counts.pop_front()?;
        self.changes -= barrier.changes;
        Some(barrier.deliveries)
    }
}

/// What a client hears of a transaction of which something was not taken, in RabbitMQ's words.
pub(super) fn partly_committed() -> Reply {
    let text = "partial tx completion";
    Reply::Failed(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
}

impl<S: Session> Connection<S> {
    /// A consumer has lost its queue. A client that deleted the queue itself hears of the deletion
    /// first.
    pub(super) fn queue_of_consumer_gone(&mut self, consumer: ConsumerId) {
        if self.replies.held.is_some() || self.pending.asked.is_some() {
            self.replies.cancelled_behind.push(consumer);
        } else {
            self.consumer_cancelled(consumer);
        }
    }

    /// A queue of the cluster, or a stream, has everything through a number.
    pub(super) fn release_committed(&mut self, queue: QueueId, through: u64, now: Now) {
        if let Some(held) = &mut self.replies.held {
            held.queues
                .retain(|(of, numbers)| *of != queue || *numbers.end() > through);
        }
        self.release_held(now);
    }

    /// A queue of the cluster, or a stream, does not take what was published to it under these
    /// numbers: a transaction that has some of them is not committed as a whole, and its client
    /// hears that in place of the answer.
    pub(super) fn refuse_committed(&mut self, of: QueueId, refused: &Range<u64>) {
        self.publisher.transaction.refuse(of, refused);
        if let Some(held) = &mut self.replies.held {
            let is_in = |(queue, numbers): &(QueueId, RangeInclusive<u64>)| {
                *queue == of && *numbers.start() < refused.end && refused.start <= *numbers.end()
            };
            if held.queues.iter().any(is_in) {
                held.reply = partly_committed();
            }
        }
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
    /// cluster have committed these numbers.
    pub(super) fn reply_when_committed<E: Env>(
        &mut self,
        now: Now,
        log_positions: impl IntoIterator<Item = LogPosition>,
        queues: Vec<(QueueId, RangeInclusive<u64>)>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::ShardId;

    #[test]
    fn as_many_changes_wait_for_the_log_as_the_limit_says_behind_a_barrier_for_each_batch() {
        let log_position = |chunk| LogPosition {
            shard: ShardId(0),
            chunk,
        };
        let mut barriers = Barriers::default();
        assert!(!barriers.note(Encoded::default()), "nothing stands");
        for change in 0..UNSYNCED_CHANGES_MAX {
            assert!(!barriers.is_full(), "{change}");
            let is_first_of_batch = change % 16 == 0;
            assert_eq!(
                barriers.add(log_position(change as u64 / 16)),
                is_first_of_batch
            );
        }
        assert!(barriers.is_full() && !barriers.is_empty());
        assert!(barriers.note(Encoded::default()));
        assert_eq!(barriers.queue_counts.len(), UNSYNCED_CHANGES_MAX / 16);
    }
}
