//! Consumers, deliveries, settles and gets.

use super::Connection;
use super::consumers::Subscription;
use super::held_replies::Encoded;
use super::retry::Retry;
use crate::env::{Env, QueueEvent};
use crate::firehose::{self, TraceOrigin};
use crate::reply_to;
use crate::run::Run;
use crate::status::{ChannelStatus, ConsumerStatus, ConsumersShown};
use crate::topology::may_get;
use leveret_auth::Access;
use leveret_client::{
    Awaited, Consume, Delivery, Flow, Reply, Request, Session, Settle, SettleOutcome,
};
use leveret_metadata::{QueueKind, QueueRecord};
use leveret_queue::{AttachError, Consumer, Outcome};
use leveret_queue_host::delivery_credit::{ChannelBound, ConsumerCredit};
use leveret_queue_host::shard::{Deferred, When};
use leveret_types::limits::{
    CONSUMERS_IN_FULL_MEMORY_MAX, CREDIT_UNSETTLED_MAX, DETACHED_AT_ONCE, OUTBOX_BYTES_MAX,
};
use leveret_types::{ChannelId, ConsumerId, FieldTable, Now, ProtocolError, QueueId, ReplyCode};
use std::sync::Arc;

/// A connection has as many consumers as it may while memory is scarce.
fn no_memory_for_more() -> ProtocolError {
    ProtocolError::channel(
        ReplyCode::ResourceError,
        format!(
            "a connection has {CONSUMERS_IN_FULL_MEMORY_MAX} consumers at most while the node uses \
             nearly all of the memory that it may"
        ),
    )
}

impl<S: Session> Connection<S> {
    pub(super) fn consume<E: Env>(&mut self, consume: Consume, now: Now, env: &E) {
        if consume.queue == reply_to::PSEUDO_QUEUE {
            return self.consume_replies(consume, now, env);
        }
        if self.consumers.len() >= CONSUMERS_IN_FULL_MEMORY_MAX && env.alarms().memory_full {
            return self.fail(now, no_memory_for_more());
        }
        let queue = match self.readable_queue(&consume.queue, env) {
            Ok(queue) => queue,
            Err(error) => {
                let retry = || Retry::Consume(consume);
                if !self.await_barrier_if_missing(&error, retry, env) {
                    self.fail(now, error);
                }
                return;
            }
        };
        match self.permit_bound(&consume, queue, env) {
            Ok(()) => self.begin_consumer(consume, queue, now, env),
            Err(error) => self.fail(now, error),
        }
    }

    /// Begins a consumer of a queue of a shard.
    pub(super) fn attach<E: Env>(&mut self, consume: Consume, queue: QueueId, now: Now, env: &E) {
        let arguments = match ConsumerArguments::read(&consume.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return self.fail(now, error),
        };
        let name = consume.queue.clone();
        let subscription = Subscription::new(consume, Some(queue));
        let channel = self
            .consumers
            .channels
            .entry(subscription.channel)
            .or_default();
        let id = env.consumer_id();
        let bound = ChannelBound {
            limiter: Arc::clone(subscription.credit.as_ref().unwrap_or(&channel.limiter)),
            consumer: id,
            queue,
            counts: subscription.credit.is_some() || !subscription.no_ack,
        };
        let consumer = Consumer {
            id,
            priority: arguments.priority,
            exclusive: subscription.exclusive,
            no_ack: subscription.no_ack,
            prefetch: match subscription.flow {
                Flow::Prefetch(messages) => messages.into(),
                Flow::Credit(_) => CREDIT_UNSETTLED_MAX,
            },
            timeout_ms: arguments.timeout_ms,
        };
        if subscription.credit.is_some() {
            channel.credited.add(id, queue, |subscription, queue| {
                is_holding(subscription, queue, now, env)
            });
        }
        self.consumers.credit.count_in(env.registry().outboxes());
        let credit = ConsumerCredit {
            connection: Arc::clone(&self.consumers.credit),
            limiter: Some(bound),
        };
        // The answer goes through the inbox, where deliveries come after it.
        let attached = env.with_shard(now, env.shard_of(queue), |shard| {
            shard
                .attach(now, queue, consumer, self.identity.id, credit)
                .inspect(|when| {
                    if *when == When::Now {
                        let reply = QueueEvent::Reply(Reply::Consuming { consumer: id });
                        shard.effects.posts.push((self.identity.id, reply));
                    }
                })
        });
        match attached {
            Ok(when) => {
                if when == When::Later {
                    self.consumers.attaching = Some(id);
                }
                self.consumers.insert(id, subscription);
            }
            Err(error) => {
                let error = self.attach_error(error, &name);
                self.fail(now, error);
            }
        }
    }

    /// A quorum queue or a stream has no part in a bound for all consumers of a channel: as in
    /// RabbitMQ, who has asked for one is told so, and not left with less than was asked for.
    fn permit_bound<E: Env>(
        &self,
        consume: &Consume,
        queue: QueueId,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let channel = self.consumers.channels.get(&consume.channel);
        if channel.is_none_or(|channel| channel.limiter.limit() == 0) {
            return Ok(());
        }
        let has_no_part = |record: &QueueRecord| record.kind() != QueueKind::Classic;
        if !env.catalogue().queue(queue).is_some_and(has_no_part) {
            return Ok(());
        }
        let (name, vhost) = (&consume.queue, self.login.vhost_name());
        Err(ProtocolError::connection(
            ReplyCode::NotImplemented,
            format!("queue '{name}' in vhost '{vhost}' does not support global qos"),
        ))
    }

    pub(super) fn attach_error(&self, error: Option<AttachError>, queue: &str) -> ProtocolError {
        let vhost = self.login.vhost_name();
        match error {
            None => ProtocolError::channel(
                ReplyCode::NotFound,
                format!("no queue '{queue}' in vhost '{vhost}'"),
            ),
            Some(_) => ProtocolError::channel(
                ReplyCode::AccessRefused,
                format!("queue '{queue}' in vhost '{vhost}' in exclusive use"),
            ),
        }
    }

    fn consume_replies<E: Env>(&mut self, consume: Consume, now: Now, env: &E) {
        if !consume.no_ack {
            return self.fail(
                now,
                ProtocolError::channel(
                    ReplyCode::PreconditionFailed,
                    "reply consumer cannot acknowledge",
                ),
            );
        }
        let taken = self.publisher.reply_tokens.contains_key(&consume.channel);
        if taken {
            return self.fail(
                now,
                ProtocolError::channel(ReplyCode::PreconditionFailed, "reply consumer already set"),
            );
        }
        let id = env.consumer_id();
        self.publisher.set_reply_token(
            consume.channel,
            env.replies()
                .register(self.login.vhost_name(), self.identity.id, id, env.random()),
        );
        self.consumers.insert(id, Subscription::new(consume, None));
        self.reply(now, Reply::Consuming { consumer: id });
    }

    pub(super) fn deliver<E: Env>(&mut self, delivery: &Delivery, env: &E) {
        if delivery.queue == reply_to::NO_QUEUE {
            return self.deliver_reply(delivery);
        }
        let encoded = Encoded {
            messages: 1,
            bytes: delivery.message.size() as usize,
        };
        self.replies.delivered(encoded);
        // A consumer that is gone has been detached, and with that the message went back.
        if !self.session.deliver(delivery) {
            return;
        }
        if env.registry().traces()
            && let Some(channel) = self.consumers.channel_of(delivery.consumer)
        {
            self.trace(channel, delivery, env);
        }
        if env.settings().traces.is_some() {
            let consumer = self.consumers.get(delivery.consumer);
            let settles = consumer.is_some_and(|consumer| !consumer.no_ack);
            self.trace_delivered(delivery, settles, env);
        }
    }

    /// A reply comes from no queue: it has taken no credit of the connection and gives none back.
    /// It is delivered at most once, and not to a client that leaves its socket unread.
    fn deliver_reply(&mut self, delivery: &Delivery) {
        if self.session.output().len() < OUTBOX_BYTES_MAX {
            self.session.deliver(delivery);
        }
    }

    /// Copies what was delivered to the firehose, if that is on in this virtual host.
    pub(super) fn trace<E: Env>(&self, channel: ChannelId, delivery: &Delivery, env: &E) {
        let origin = TraceOrigin {
            node: &env.settings().node_name,
            vhost: self.login.vhost_name(),
            connection: &self.identity.name,
            channel,
            user: self.login.user_name(),
        };
        firehose::copy_delivered(origin, delivery, env);
    }

    /// The same for an answer to `basic.get`.
    pub(super) fn trace_got<E: Env>(&mut self, reply: &Reply, env: &E) {
        let Reply::Got(Some((delivery, _))) = reply else {
            return;
        };
        if env.registry().traces()
            && let Some(channel) = self.consumers.getting_channel(delivery.consumer)
        {
            self.trace(channel, delivery, env);
        }
        // Whether it is to be settled is not known here.
        self.trace_delivered(delivery, false, env);
    }

    pub(super) fn settle<E: Env>(&mut self, settle: &Settle, run: &mut Run<'_, E>) {
        // Nor what it settled behind a publish that closed the channel.
        if !self.session.counts(settle.channel) {
            return;
        }
        if self.traced.is_some() {
            self.trace_settled(settle, run.env);
        }
        if settle.outcome == SettleOutcome::Accept {
            let count = settle.range.end.saturating_sub(settle.range.start);
            self.consumers.acknowledged(settle.subscription, count);
        }
        self.settle_where_hosted(settle, run);
    }

    /// Settles messages of a queue of a shard.
    pub(super) fn settle_in_shard<E: Env>(&mut self, settle: &Settle, run: &mut Run<'_, E>) {
        let outcome = match settle.outcome {
            SettleOutcome::Accept => Outcome::Accept,
            SettleOutcome::RequeueRejected => Outcome::Requeue { count: true },
            SettleOutcome::Requeue => Outcome::Requeue { count: false },
            SettleOutcome::Reject => Outcome::Reject,
        };
        let now = run.now;
        let shard = run.shard(run.env.shard_of(settle.queue));
        let of_queue = leveret_queue::Settle {
            subscription: settle.subscription,
            priority_log: settle.priority_log,
            range: settle.range.clone(),
            outcome,
        };
        let count = shard.settle(now, settle.queue, of_queue);
        let awaited = match shard.is_remote(settle.queue) {
            true => Awaited::Queue(settle.queue),
            false => Awaited::Shard(run.env.shard_of(settle.queue)),
        };
        self.note_transacted(settle.channel, &[(awaited, 0)]);
        let Some(channel) = self.consumers.channels.get(&settle.channel) else {
            return;
        };
        // What was got was never counted, what came by credit not here.
        if !channel.getters.contains(settle.subscription)
            && !channel.credited.contains(settle.subscription)
            && channel
                .limiter
                .give(u32::try_from(count).unwrap_or(u32::MAX))
        {
            run.release();
            self.unblock_channel(now, settle.channel, run.env);
        }
    }

    /// A consumer that is served by credit has more of it.
    pub(super) fn credit<E: Env>(
        &mut self,
        consumer: ConsumerId,
        messages: u32,
        now: Now,
        env: &E,
    ) {
        self.credit_stream(consumer, messages, env);
        let subscription = self.consumers.get(consumer);
        let Some(credit) = subscription.and_then(|subscription| subscription.credit.as_ref())
        else {
            return;
        };
        if credit.give(messages)
            && let Some((consumer, queue)) = credit.next_refused(consumer)
        {
            unblock(now, queue, consumer, env);
        }
    }

    /// Lets consumers go on whose connection has credit again.
    pub(super) fn unblock_consumers<E: Env>(&self, now: Now, env: &E) {
        for (id, subscription) in self.consumers.iter() {
            if let Some(queue) = subscription.queue {
                unblock(now, queue, id, env);
            }
        }
    }

    /// Lets the consumers of a channel go on that its bound has refused, while it has room: in
    /// turn, and each with an equal part first, so that no queue and no consumer has all of it. It
    /// looks at no more of them than there is room for, and at those who leave it unused.
    pub(super) fn unblock_channel<E: Env>(&mut self, now: Now, channel: ChannelId, env: &E) {
        let Some(state) = self.consumers.channels.get_mut(&channel) else {
            return;
        };
        let limiter = &state.limiter;
        // How many have not had their turn in this round.
        let mut waiting = 0_usize;
        while limiter.room() != Some(0)
            && let Some((id, queue)) = limiter.next_refused(state.last_served)
        {
            waiting = match waiting {
                0 => limiter.refused(),
                more => more - 1,
            };
            limiter.share(waiting);
            state.last_served = id;
            unblock(now, queue, id, env);
            limiter.share(0);
        }
    }

    pub(super) fn limit_channel<E: Env>(
        &mut self,
        channel: ChannelId,
        limit: u16,
        run: &mut Run<'_, E>,
    ) {
        let state = self.consumers.channels.entry(channel).or_default();
        state.limiter.set_limit(u32::from(limit));
        run.release();
        self.unblock_channel(run.now, channel, run.env);
    }

    pub(super) fn cancel<E: Env>(
        &mut self,
        channel: ChannelId,
        consumer: ConsumerId,
        now: Now,
        env: &E,
    ) {
        let Some(subscription) = self.consumers.remove(consumer) else {
            return self.reply(now, Reply::Done);
        };
        let Some(queue) = subscription.queue else {
            self.publisher.clear_reply_token(channel, env.replies());
            return self.reply(now, Reply::Done);
        };
        self.leave_stream(consumer, env);
        if !subscription.no_ack {
            let state = self.consumers.channels.entry(channel).or_default();
            state
                .subscriptions
                .add(consumer, queue, |subscription, queue| {
                    is_holding(subscription, queue, now, env)
                });
        }
        // The answer goes through the inbox, behind the deliveries that are there already.
        env.with_shard(now, env.shard_of(queue), |shard| {
            if shard.cancel(now, queue, consumer, self.identity.id) == When::Now {
                let done = QueueEvent::Reply(Reply::Done);
                shard.effects.posts.push((self.identity.id, done));
            }
        });
        self.consumers.wait_no_more(channel, consumer);
    }

    pub(super) fn get<E: Env>(
        &mut self,
        channel: ChannelId,
        name: &str,
        no_ack: bool,
        now: Now,
        env: &E,
    ) {
        let queue = match self.readable_queue(name, env) {
            Ok(queue) => queue,
            Err(error) => {
                let retry = || Retry::Get {
                    channel,
                    queue: name.to_owned(),
                    no_ack,
                };
                if !self.await_barrier_if_missing(&error, retry, env) {
                    self.fail(now, error);
                }
                return;
            }
        };
        let may = {
            let catalogue = env.catalogue();
            let is_refused = leveret_cluster::streams::refuse(&catalogue, queue, "basic.get");
            is_refused.and_then(|()| catalogue.queue(queue).map_or(Ok(()), may_get))
        };
        if let Err(error) = may {
            return self.fail(now, error);
        }
        let state = self.consumers.channels.entry(channel).or_default();
        let subscription = state.getters.of(queue).unwrap_or_else(|| {
            let subscription = env.consumer_id();
            state
                .getters
                .add(subscription, queue, |subscription, queue| {
                    is_holding(subscription, queue, now, env)
                });
            subscription
        });
        let outcome = env.with_shard(now, env.shard_of(queue), |shard| {
            shard.get(now, queue, subscription, Some(self.identity.id), no_ack)
        });
        if let Some(reply) = outcome.reply() {
            self.trace_got(&reply, env);
            self.reply(now, reply);
        }
    }

    /// Its consumers go at once, so that nothing more comes to them. Where more than
    /// [`DETACHED_AT_ONCE`] others hold messages, the rest of them go when this is called again,
    /// before anything else that the client wants.
    pub(super) fn close_channel<E: Env>(&mut self, channel: ChannelId, run: &mut Run<'_, E>) {
        let consumers = self.consumers.remove_channel(channel);
        if self.is_torn_down {
            self.consumers.leave_behind(consumers);
        } else {
            for (consumer, queue) in consumers {
                self.detach(consumer, queue, run);
            }
        }
        for _ in 0..DETACHED_AT_ONCE {
            let Some((subscription, queue)) = self.consumers.next_leaving() else {
                break;
            };
            self.detach(subscription, queue, run);
        }
        if self.consumers.has_leaving() {
            return self.turn.again(Request::ChannelClosed {
                channel,
                error: None,
            });
        }
        self.publisher.clear_reply_token(channel, run.env.replies());
        self.publisher.forget_channel(channel);
        self.channel_counted_out(run.env);
    }

    /// Who holds messages of a queue gives them back and gets no more.
    fn detach<E: Env>(&mut self, subscription: ConsumerId, queue: QueueId, run: &mut Run<'_, E>) {
        self.leave_stream(subscription, run.env);
        run.detach(subscription, queue);
    }

    /// The client is gone, and nothing more comes to its consumers: they leave their queues. Where
    /// they are very many, most leave while others are let in.
    pub(super) fn detach_left_behind<E: Env>(&mut self, now: Now, env: &E) {
        let mut leaving = self.consumers.take_left_behind();
        let at_once = leaving.split_off(leaving.len().saturating_sub(DETACHED_AT_ONCE));
        Run::with(env, now, |run| {
            for (subscription, queue) in at_once.into_iter().rev() {
                self.detach(subscription, queue, run);
            }
        });
        for (subscription, _) in &leaving {
            self.leave_stream(*subscription, env);
        }
        if !leaving.is_empty() {
            env.defer(Deferred::Detach(leaving));
        }
    }

    /// The bound of `basic.qos` with `global` counts so many deliveries less.
    pub(super) fn give_back<E: Env>(
        &mut self,
        channel: ChannelId,
        count: usize,
        now: Now,
        env: &E,
    ) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let state = self.consumers.channels.get(&channel);
        if state.is_some_and(|state| state.limiter.give(count)) {
            self.unblock_channel(now, channel, env);
        }
    }

    /// The queue of that name, if this user may read it and no other connection has it for itself.
    fn readable_queue<E: Env>(&mut self, name: &str, env: &E) -> Result<QueueId, ProtocolError> {
        let catalogue = env.catalogue();
        // First, so that whoever may not read it does not learn whether it is there.
        self.login.permit_queue(&catalogue, name, Access::Read)?;
        self.usable_queue(&catalogue, name)
    }

    pub(super) fn consumer_status(&self, shown: ConsumersShown<'_>) -> Vec<ConsumerStatus> {
        let all = || self.consumers.behind(None).collect();
        let shown: Vec<(ConsumerId, &Subscription)> = match shown {
            ConsumersShown::None => Vec::new(),
            ConsumersShown::All => all(),
            ConsumersShown::These(ids) => {
                let known = |id: &ConsumerId| Some((*id, self.consumers.get(*id)?));
                ids.iter().filter_map(known).collect()
            }
            ConsumersShown::Behind(place, limit) => {
                let behind = self.consumers.behind(place);
                behind
                    .filter(|(_, of)| of.queue.is_some())
                    .take(limit)
                    .collect()
            }
        };
        let mut channels: Vec<ChannelId> = shown.iter().map(|(_, of)| of.channel).collect();
        channels.sort_unstable();
        channels.dedup();
        let mut held = self.session.oldest_unsettled(&channels);
        held.sort_unstable();
        let oldest_ms = |id: ConsumerId| {
            let at = held.binary_search_by_key(&id, |(of, _)| *of).ok()?;
            Some(held[at].1)
        };
        let status = shown.into_iter().filter_map(|(id, subscription)| {
            Some(ConsumerStatus {
                id,
                channel: subscription.channel,
                tag: subscription.tag.clone(),
                queue: subscription.queue?,
                ack_required: !subscription.no_ack,
                exclusive: subscription.exclusive,
                prefetch: subscription.flow.prefetch(),
                oldest_held_ms: oldest_ms(id),
                arguments: subscription.arguments.clone(),
                delivered: self.session.delivered_to(id),
                acknowledged: subscription.acknowledged,
            })
        });
        status.collect()
    }

    pub(super) fn channel_status(&self) -> Vec<ChannelStatus> {
        let limits = |channel: ChannelId| {
            u16::try_from(self.consumers.channels.get(&channel)?.limiter.limit()).ok()
        };
        let status = self
            .session
            .channels()
            .into_iter()
            .map(|channel| ChannelStatus {
                number: channel.number,
                consumers: channel.consumers,
                queue_consumers: self.consumers.of_queues(channel.number),
                prefetch: channel.prefetch,
                global_prefetch: limits(channel.number).unwrap_or(0),
                unacknowledged: channel.unacknowledged,
                unconfirmed: channel.unconfirmed,
                uncommitted: channel.uncommitted,
                uncommitted_acks: channel.uncommitted_acks,
                confirm: channel.confirm,
                transactional: channel.transactional,
                counters: channel.counters,
            });
        status.collect()
    }
}

/// Whether a queue still knows a subscription: one that holds nothing and consumes nothing it
/// forgets.
fn is_holding<E: Env>(subscription: ConsumerId, queue: QueueId, now: Now, env: &E) -> bool {
    env.with_shard(now, env.shard_of(queue), |shard| {
        shard.is_holding(queue, subscription)
    })
}

/// What a consumer's arguments say.
struct ConsumerArguments {
    priority: i64,
    timeout_ms: Option<u64>,
}

impl ConsumerArguments {
    fn read(arguments: &FieldTable) -> Result<Self, ProtocolError> {
        let refuse = |text: String| ProtocolError::channel(ReplyCode::PreconditionFailed, text);
        let integer = |name: &str| match arguments.get(name) {
            None => Ok(None),
            Some(value) => value.as_integer().map(Some).ok_or_else(|| {
                refuse(format!(
                    "invalid arg '{name}' for consumer: unacceptable type {}",
                    value.type_name()
                ))
            }),
        };
        let priority = integer("x-priority")?.unwrap_or(0);
        let timeout_ms = integer("x-consumer-timeout")?
            .map(|value| {
                u64::try_from(value).map_err(|_| {
                    refuse(format!(
                        "invalid arg 'x-consumer-timeout' for consumer: {value}"
                    ))
                })
            })
            .transpose()?;
        Ok(Self {
            priority,
            timeout_ms,
        })
    }
}

/// Lets a consumer go on.
fn unblock<E: Env>(now: Now, queue: QueueId, consumer: ConsumerId, env: &E) {
    env.with_shard(now, env.shard_of(queue), |shard| {
        shard.unblock(now, queue, consumer);
    });
}
