//! What a connection remembers of messages that are traced: see [`crate::traces`].
//!
//! Invariant: where tracing is off, this costs a look at one setting.

use super::Connection;
use crate::env::Env;
use crate::traces::{Context, Span, Stage, Traces};
use leveret_client::{Awaited, Delivery, Publish, Session, Settle, SettleOutcome};
use leveret_types::limits::TRACED_MESSAGES_MAX;
use leveret_types::{ConsumerId, Message, QueueId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;

/// Traced messages of a connection whose way goes on.
#[derive(Debug, Default)]
pub(super) struct Traced {
    /// Put into queues, and not durable.
    stored: VecDeque<Stored>,
    /// Delivered, and not settled.
    delivered: VecDeque<Delivered>,
}

/// A publish that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    context: Context,
    start_ns: u64,
    routed_ns: u64,
}

#[derive(Debug)]
struct Stored {
    waits: SmallVec<[(Awaited, u64); 2]>,
    span: Span,
    refused: bool,
}

#[derive(Debug)]
struct Delivered {
    subscription: ConsumerId,
    queue: QueueId,
    priority_log: u8,
    index: u64,
    span: Span,
}

/// What a span tells of a message, for whoever reads it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Keeps what goes on; the oldest makes room, whose span nobody will see.
fn keep<T>(of: &mut VecDeque<T>, new: T, traces: &Traces) {
    if of.len() == TRACED_MESSAGES_MAX {
        of.pop_front();
        traces.drop_spans(1);
    }
    of.push_back(new);
}

impl<S: Session> Connection<S> {
    /// A publish begins: something if it is traced.
    pub(super) fn trace_begun<E: Env>(&self, message: &Message, env: &E) -> Option<Box<Begun>> {
        let traces = env.settings().traces.as_deref()?;
        let context = traces.context_of(message)?;
        let start_ns = traces.now_ns();
        Some(Box::new(Begun {
            context,
            start_ns,
            routed_ns: start_ns,
        }))
    }

    /// Its queues have been found.
    pub(super) fn trace_routed<E: Env>(begun: &mut Option<Box<Begun>>, env: &E) {
        if let (Some(begun), Some(traces)) = (begun, env.settings().traces.as_deref()) {
            begun.routed_ns = traces.now_ns();
        }
    }

    /// It has been put into its queues, and waits for these; without any, it was for none.
    pub(super) fn trace_put<E: Env>(
        &mut self,
        begun: Option<Box<Begun>>,
        publish: &Publish,
        queues: usize,
        waits: &[(Awaited, u64)],
        env: &E,
    ) {
        let (Some(begun), Some(traces)) = (begun, env.settings().traces.as_deref()) else {
            return;
        };
        let Begun {
            context,
            start_ns,
            routed_ns,
        } = *begun;
        let id = traces.span_id();
        let message = &publish.message;
        let span = |stage, context, id, start_ns, end_ns| Span {
            stage,
            context,
            id,
            start_ns,
            end_ns,
            destination: text(message.exchange()),
            routing_key: text(message.routing_key()),
            outcome: (queues == 0).then_some("unroutable"),
        };
        let below = Context {
            parent: id,
            ..context
        };
        let now_ns = traces.now_ns().max(routed_ns);
        let connection = self.identity.id;
        traces.record(
            connection,
            span(Stage::Publish, context, id, start_ns, now_ns),
        );
        let routed_ns = routed_ns.max(start_ns);
        let route = span(Stage::Route, below, traces.span_id(), start_ns, routed_ns);
        traces.record(connection, route);
        // Without a confirm nobody here hears of it.
        if publish.number == 0 || waits.is_empty() {
            return;
        }
        let stored = Stored {
            waits: SmallVec::from_slice(waits),
            span: span(Stage::Store, below, traces.span_id(), now_ns, now_ns),
            refused: false,
        };
        let traced = self.traced.get_or_insert_default();
        keep(&mut traced.stored, stored, traces);
    }

    /// Ends the storing of what waits for nothing any more, once `reached` has taken out of its
    /// waits what has come true.
    fn trace_stored<E: Env>(&mut self, env: &E, mut reached: impl FnMut(&mut Stored)) {
        let connection = self.identity.id;
        let Some(traced) = &mut self.traced else {
            return;
        };
        let Some(traces) = env.settings().traces.as_deref() else {
            return;
        };
        traced.stored.retain_mut(|stored| {
            reached(stored);
            if !stored.waits.is_empty() {
                return true;
            }
            let mut span = stored.span.clone();
            span.end_ns = traces.now_ns().max(span.start_ns);
            span.outcome = stored.refused.then_some("refused");
            traces.record(connection, span);
            false
        });
    }

    /// The log has become durable further.
    pub(super) fn trace_durable<E: Env>(&mut self, env: &E) {
        if self.traced.is_some() {
            self.trace_stored(env, |stored| {
                stored.waits.retain(|(awaited, chunk)| match awaited {
                    Awaited::Shard(shard) => env.durable(*shard) < *chunk,
                    Awaited::Queue(_) => true,
                });
            });
        }
    }

    /// A queue of the cluster, or a stream, has everything through a number.
    pub(super) fn trace_committed<E: Env>(&mut self, queue: QueueId, through: u64, env: &E) {
        if self.traced.is_some() {
            self.trace_stored(env, |stored| {
                let waits = &mut stored.waits;
                waits.retain(|wait| wait.0 != Awaited::Queue(queue) || wait.1 > through);
            });
        }
    }

    /// A queue of the cluster, or a stream, refuses these.
    pub(super) fn trace_refused<E: Env>(&mut self, queue: QueueId, refused: &Range<u64>, env: &E) {
        if self.traced.is_some() {
            self.trace_stored(env, |stored| {
                let before = stored.waits.len();
                let is_refused = |wait: &(Awaited, u64)| {
                    wait.0 == Awaited::Queue(queue) && refused.contains(&wait.1)
                };
                stored.waits.retain(|wait| !is_refused(wait));
                stored.refused |= stored.waits.len() < before;
            });
        }
    }

    /// A message was written for a consumer, who is to settle it or not.
    pub(super) fn trace_delivered<E: Env>(&mut self, delivery: &Delivery, settles: bool, env: &E) {
        let Some(traces) = env.settings().traces.as_deref() else {
            return;
        };
        let Some(context) = traces.context_of(&delivery.message) else {
            return;
        };
        let id = traces.span_id();
        let end_ns = traces.now_ns();
        let taken_ns = delivery
            .message
            .summary
            .published_ms
            .saturating_mul(1_000_000);
        let queue = env
            .catalogue()
            .queue(delivery.queue)
            .map(|queue| queue.name().to_owned());
        let span = Span {
            stage: Stage::Deliver,
            context,
            id,
            // A message of a clock that is ahead has not waited at all.
            start_ns: if taken_ns == 0 {
                end_ns
            } else {
                taken_ns.min(end_ns)
            },
            end_ns,
            destination: queue.unwrap_or_default(),
            routing_key: text(delivery.message.routing_key()),
            outcome: delivery.redelivered.then_some("redelivered"),
        };
        if settles {
            let below = Context {
                parent: id,
                ..context
            };
            let delivered = Delivered {
                subscription: delivery.consumer,
                queue: delivery.queue,
                priority_log: delivery.priority_log,
                index: delivery.index,
                span: Span {
                    stage: Stage::Settle,
                    context: below,
                    id: traces.span_id(),
                    start_ns: end_ns,
                    ..span.clone()
                },
            };
            let traced = self.traced.get_or_insert_default();
            keep(&mut traced.delivered, delivered, traces);
        }
        traces.record(self.identity.id, span);
    }

    /// A consumer has settled these.
    pub(super) fn trace_settled<E: Env>(&mut self, settle: &Settle, env: &E) {
        let connection = self.identity.id;
        let Some(traced) = &mut self.traced else {
            return;
        };
        let Some(traces) = env.settings().traces.as_deref() else {
            return;
        };
        let is_settled = |of: &Delivered| {
            (of.subscription, of.queue, of.priority_log)
                == (settle.subscription, settle.queue, settle.priority_log)
                && settle.range.contains(&of.index)
        };
        traced.delivered.retain(|of| {
            if !is_settled(of) {
                return true;
            }
            let mut span = of.span.clone();
            span.end_ns = traces.now_ns().max(span.start_ns);
            span.outcome = Some(match settle.outcome {
                SettleOutcome::Accept => "accepted",
                SettleOutcome::RequeueRejected | SettleOutcome::Requeue => "requeued",
                SettleOutcome::Reject => "rejected",
            });
            traces.record(connection, span);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_where_one_more_than_the_bound_is_traced() {
        let traces = Traces::new(|| 0, 1.0, 1);
        let mut kept = VecDeque::new();
        (0..TRACED_MESSAGES_MAX).for_each(|message| keep(&mut kept, message, &traces));
        assert_eq!((kept.len(), traces.counts()), (TRACED_MESSAGES_MAX, (0, 0)));
        keep(&mut kept, TRACED_MESSAGES_MAX, &traces);
        assert_eq!((kept.len(), traces.counts()), (TRACED_MESSAGES_MAX, (0, 1)));
        assert_eq!(
            (kept.front(), kept.back()),
            (Some(&1), Some(&TRACED_MESSAGES_MAX))
        );
    }
}
