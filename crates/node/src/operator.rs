//! What operators do to messages through the management interface: publish one, look at some.

use crate::counters::add;
use crate::env::{Env, LogPosition, QueueAnswer};
use crate::firehose::{self, TraceOrigin};
use crate::properties::without_blind_copies;
use crate::route_publish::{self, Routed, Sender};
use crate::run::{Outcome as Enqueued, Run, enqueue};
use crate::topology::{Caller, Question, may_get};
use leveret_amqp::Properties;
use leveret_auth::{Access, Resource, check_user_id};
use leveret_client::{Answered, Awaited, Delivery};
use leveret_queue::{Outcome, Settle};
use leveret_queue_host::delayed;
use leveret_queue_host::shard::GetOutcome;
use leveret_queue_host::{
    effects::Then,
    notify::{Afterwards, Notify},
    queue_host::Asker,
};
use leveret_routing::Scratch;
use leveret_types::{ChannelId, ConsumerId, Message, Now, ProtocolError, QueueId, ShardId};
use std::sync::Arc;

impl Caller {
    /// Publishes a message, as a client does whose channel confirms and who wants to hear of a
    /// message that reaches no queue: it counts as such a client's. Nothing may be borrowed.
    ///
    /// # Errors
    /// If there is no such exchange, the caller may not publish to it, or a view or a drained
    /// partition of a super stream is named as the queue.
    pub fn publish<E: Env>(
        &self,
        message: &Message,
        now: Now,
        env: &E,
    ) -> Result<Published, ProtocolError> {
        self.check_claimed_user(message, env)?;
        Run::with(env, now, |run| self.publish_to(message, run))
    }

    fn publish_to<E: Env>(
        &self,
        message: &Message,
        run: &mut Run<'_, E>,
    ) -> Result<Published, ProtocolError> {
        let (env, mut queues) = (run.env, Vec::new());
        let mut scratch = Scratch::new(run.now.wall_ms);
        let sender = Sender {
            rights: self.rights.as_ref(),
            origin: self.trace_origin(env),
        };
        // What is refused counts nowhere, and is not traced.
        match route_publish::route(sender, message, &mut scratch, &mut queues, run)? {
            Routed::Delayed => return Ok(kept_back(message, run)),
            Routed::To(_) => {}
        }
        let exchange = route_publish::name(message.exchange())?;
        let flows = env.registry().flows();
        flows.count(exchange, &queues, run.catalogue());
        let visible = without_blind_copies(message);
        let queues_took_it = Afterwards::of_publish();
        count_received(message, env);
        let outcome = enqueue(
            visible.as_ref().unwrap_or(message),
            &queues,
            &Notify::Then(Arc::clone(&queues_took_it)),
            run,
        );
        if outcome.rejected {
            queues_took_it.refuse();
        }
        let is_routed = !queues.is_empty() && !outcome.is_nowhere;
        match is_routed {
            true => add(&env.counters().messages_routed, 1),
            false => add(&env.counters().messages_unroutable_returned, 1),
        }
        // This was the last place that could be filled here; nothing follows.
        drop(queues_took_it.filled());
        let log_positions = positions(&outcome);
        Ok(Published {
            is_routed,
            log_positions,
            queues_took_it,
        })
    }

    /// The queue of that name, if the caller may put messages into it past all exchanges: as
    /// whoever publishes to the default exchange may.
    ///
    /// # Errors
    /// If there is none, it is another connection's, a view or a drained partition, or the caller
    /// may not write to the default exchange.
    pub fn queue_to_put_into<E: Env>(&self, name: &str, env: &E) -> Result<QueueId, ProtocolError> {
        if let Some(rights) = &self.rights {
            rights.check(Access::Write, Resource::Exchange(""))?;
        }
        let queue = self.usable_queue(name, env)?;
        leveret_cluster::streams::refuse_by_name(&env.catalogue(), true, &[queue])?;
        Ok(queue)
    }

    /// A message may say of itself that it is its publisher's, and somebody else's only if that one
    /// may speak for others.
    fn check_claimed_user<E: Env>(&self, message: &Message, env: &E) -> Result<(), ProtocolError> {
        if let Some(rights) = &self.rights
            && let Some(claimed) = Properties::trusted(message.properties()).user_id
        {
            let catalogue = env.catalogue();
            let user = catalogue.user(rights.user());
            let impersonates = user.is_some_and(|user| user.has_tag("impersonator"));
            check_user_id(claimed, rights.user(), impersonates)?;
        }
        Ok(())
    }

    /// Copies a message that the caller has got to the firehose, if that is on.
    pub fn trace_got<E: Env>(&self, delivery: &Delivery, env: &E) {
        firehose::copy_delivered(self.trace_origin(env), delivery, env);
    }

    /// Where the firehose says that this caller's messages come from, or go to.
    fn trace_origin<'a, E: Env>(&'a self, env: &'a E) -> TraceOrigin<'a> {
        TraceOrigin {
            node: &env.settings().node_name,
            vhost: &self.vhost,
            connection: "HTTP API",
            channel: ChannelId(1),
            user: self.rights.as_ref().map_or("", |rights| rights.user()),
        }
    }

    /// The queue of that name, if the caller may get messages from it.
    ///
    /// # Errors
    /// As [`Self::readable_queue`]; or the queue gives its messages to consumers alone.
    pub fn gettable_queue<E: Env>(&self, name: &str, env: &E) -> Result<QueueId, ProtocolError> {
        let queue = self.readable_queue(name, env)?;
        env.catalogue().queue(queue).map_or(Ok(()), may_get)?;
        Ok(queue)
    }

    /// The queue of that name, if the caller may read it.
    ///
    /// # Errors
    /// If there is none, it is another connection's, or the caller may not read it.
    pub fn readable_queue<E: Env>(&self, name: &str, env: &E) -> Result<QueueId, ProtocolError> {
        let queue = self.queue_to_look_into(name, env)?;
        leveret_cluster::streams::refuse(&env.catalogue(), queue, "basic.get")?;
        Ok(queue)
    }

    /// A queue or a stream that this operator may read.
    ///
    /// # Errors
    /// If there is none of this name, or the caller may not read it.
    pub fn queue_to_look_into<E: Env>(
        &self,
        name: &str,
        env: &E,
    ) -> Result<QueueId, ProtocolError> {
        let queue = self.usable_queue(name, env)?;
        if let Some(rights) = &self.rights {
            rights.check(Access::Read, Resource::Queue(name))?;
        }
        Ok(queue)
    }
}

/// A message is kept back.
fn kept_back<E: Env>(message: &Message, run: &mut Run<'_, E>) -> Published {
    count_received(message, run.env);
    let log_position = run.shard(delayed::SHARD).log_position();
    let queues_took_it = Afterwards::new(Then::Nothing);
    drop(queues_took_it.filled());
    Published {
        is_routed: true,
        log_positions: match message.summary.persistent {
            true => vec![log_position],
            false => Vec::new(),
        },
        queues_took_it,
    }
}

/// Puts a message into one queue as it is, whatever its exchange and key. It counts as published
/// by a client whose channel confirms. Nothing may be borrowed.
#[must_use]
pub fn put<E: Env>(message: &Message, queue: QueueId, now: Now, env: &E) -> Published {
    let queues_took_it = Afterwards::new(Then::Nothing);
    count_received(message, env);
    add(&env.counters().messages_routed, 1);
    let notify = Notify::Then(Arc::clone(&queues_took_it));
    let log_positions = Run::with(env, now, |run| {
        let outcome = enqueue(message, &[queue], &notify, run);
        if outcome.rejected {
            queues_took_it.refuse();
        }
        // This was the last place that could be filled here; nothing follows.
        drop(queues_took_it.filled());
        positions(&outcome)
    });
    Published {
        is_routed: true,
        log_positions,
        queues_took_it,
    }
}

/// Why a queue has refused a message that was [`put`] into it, for an operator: it is full, but for
/// a stream, which takes none while an alarm is on. Nothing may be borrowed.
#[must_use]
pub fn why_refused<E: Env>(queue: QueueId, now: Now, env: &E) -> String {
    if !queue.is_stream() {
        return "it is full".to_owned();
    }
    let alarms = env.alarms().reason();
    match alarms.or_else(|| Run::with(env, now, |run| run.alarm_of(queue))) {
        Some(alarm) => format!("an alarm is on: {alarm}"),
        None => "the stream cannot take it now".to_owned(),
    }
}

fn count_received<E: Env>(message: &Message, env: &E) {
    env.counters().received(message.size());
    add(&env.counters().messages_received_confirm, 1);
}

/// When a message is durable in queues of this node alone.
fn positions(outcome: &Enqueued) -> Vec<LogPosition> {
    let waits = outcome.waits.iter();
    let positions = waits.filter_map(|(awaited, chunk)| match awaited {
        Awaited::Shard(shard) => Some(LogPosition {
            shard: *shard,
            chunk: *chunk,
        }),
        Awaited::Queue(_) => None,
    });
    positions.collect()
}

/// A message that an operator has published.
#[derive(Debug)]
pub struct Published {
    /// Whether there is a queue for it.
    pub is_routed: bool,
    /// When it is durable in queues of this node alone.
    pub log_positions: Vec<LogPosition>,
    /// What streams, and queues of the cluster, say.
    queues_took_it: Arc<Afterwards>,
}

impl Published {
    /// Whether all queues have taken the message; none while a stream, or a queue of the cluster,
    /// has not said.
    #[must_use]
    pub fn is_taken(&self) -> Option<bool> {
        self.queues_took_it.outcome()
    }

    /// Whoever published it is told what became of it: that counts as a confirm if all queues have
    /// taken it, as a refusal if one has refused it.
    pub fn told<E: Env>(self, env: &E) {
        if let Some(is_taken) = self.is_taken() {
            env.counters().answered(Answered {
                confirmed: u64::from(is_taken),
                refused: u64::from(!is_taken),
            });
        }
    }
}

/// What a queue has for who gets one message.
#[derive(Debug)]
pub enum GotOne {
    /// A message, and how many are left behind it.
    Message(Delivery, u64),
    /// It is empty, or gone.
    Nothing,
    /// It has no leader that answers.
    Unavailable,
}

/// Takes one message out of a queue for `subscription`. `Err` while it is being read from disk: ask
/// again.
///
/// # Errors
/// See above.
pub fn get<E: Env>(
    queue: QueueId,
    subscription: ConsumerId,
    now: Now,
    env: &E,
) -> Result<GotOne, Pending> {
    let outcome = env.with_shard(now, env.shard_of(queue), |shard| {
        shard.get(now, queue, subscription, None, false)
    });
    match outcome {
        GetOutcome::Message(delivery, left) => Ok(GotOne::Message(delivery, left)),
        GetOutcome::Empty | GetOutcome::Gone => Ok(GotOne::Nothing),
        GetOutcome::Unavailable => Ok(GotOne::Unavailable),
        GetOutcome::Pending => Err(Pending),
    }
}

/// Asks a queue something; nothing while the answer is not there: ask again with the same number,
/// one that [`Env::consumer_id`] gave.
pub fn ask<E: Env>(
    queue: QueueId,
    question: Question,
    number: u64,
    now: Now,
    env: &E,
) -> Option<QueueAnswer> {
    question.ask(queue, Asker::Poll(number), now, env)
}

/// A message is being read from disk.
#[derive(Clone, Copy, Debug)]
pub struct Pending;

/// Says what becomes of a message that [`get`] has given.
pub fn settle<E: Env>(delivery: &Delivery, outcome: Outcome, now: Now, env: &E) {
    let settle = Settle {
        subscription: delivery.consumer,
        priority_log: delivery.priority_log,
        range: delivery.index..delivery.index + 1,
        outcome,
    };
    env.with_shard(now, env.shard_of(delivery.queue), |shard| {
        shard.settle(now, delivery.queue, settle);
    });
}

/// The places of everything done so far, on all shards: what an operator's command waits for.
pub fn log_positions<E: Env>(now: Now, env: &E) -> Vec<LogPosition> {
    let shards = (0..env.settings().shard_count).map(ShardId);
    shards
        .map(|id| env.with_shard(now, id, |shard| shard.urgent_log_position()))
        .collect()
}
