//! Publishing: from a message to the queues that it goes to.

use super::Connection;
use super::held_replies::partly_committed;
use super::message_traces::Begun;
use super::published::{Portion, Sums};
use super::publisher::Publisher;
use super::retry::Retry;
use crate::counters::add;
use crate::env::{Env, LogPosition, QueueEvent};
use crate::properties::{with_reply_to, without_blind_copies};
use crate::reply_to;
use crate::route_publish::{self, Routed, has_headers, name};
use crate::run::{Outcome, Run, Targets};
use leveret_amqp::{Properties, Property};
use leveret_client::{Awaited, Delivery, Publish, Reply, Session};
use leveret_message::{as_amqp091, has_property};
use leveret_queue_host::delayed;
use leveret_queue_host::notify::Notify;
use leveret_types::{ChannelId, Message, Now, ProtocolError, QueueId, ReplyCode};
use smallvec::SmallVec;

impl<S: Session> Connection<S> {
    pub(super) fn publish<E: Env>(&mut self, mut publish: Publish, run: &mut Run<'_, E>) {
        // What a client sent behind a publish that closed the channel never happened.
        if !self.session.counts(publish.channel) {
            return;
        }
        let counters = run.env.counters();
        counters.received(publish.message.size());
        if publish.number != 0 {
            add(&counters.messages_received_confirm, 1);
        }
        let mut begun = self.trace_begun(&publish.message, run.env);
        // What the broker itself reads of a message in another format.
        let converted = as_amqp091(&publish.message);
        if let Err(error) = self.prepare(&mut publish, converted.as_ref()) {
            return self
                .session
                .fail(run.now, publish.channel, error, &mut self.requests);
        }
        if publish.message.routing_key().starts_with(reply_to::PREFIX)
            && publish.message.exchange().is_empty()
        {
            return self.publish_reply(&publish, run);
        }
        let readable = converted.as_ref().unwrap_or(&publish.message);
        let targets = self.targets(publish.channel, readable, run);
        run.spend(self.publisher.scratch.take_work());
        let targets = match targets {
            Ok(Way::To(targets)) => targets,
            Ok(Way::Delayed) => return self.answer_delayed(&publish, run),
            Err(error) => {
                run.release();
                let channel = publish.channel;
                if self.await_barrier_if_missing(&error, || Retry::Publish(publish), run.env) {
                    return;
                }
                return self
                    .session
                    .fail(run.now, channel, error, &mut self.requests);
            }
        };
        Self::trace_routed(&mut begun, run.env);
        if targets.is_empty() {
            self.trace_put(begun, &publish, 0, &[], run.env);
            self.unroutable(&publish, run.env);
            if publish.number != 0 {
                self.session.accepted(publish.channel, publish.number, &[]);
            }
            return;
        }
        let readable = converted.as_ref().unwrap_or(&publish.message);
        if has_property(readable.properties(), Property::Headers)
            && let Some(visible) = without_blind_copies(readable)
        {
            publish.message = visible;
        }
        match self.alarm_at(&targets, run) {
            Some(reason) => self.wait_for_alarm(publish, targets, reason, run),
            None => self.put(publish, &targets, begun, run),
        }
    }

    /// A publish goes to no queue: its client gets it back if it has asked for that.
    fn unroutable<E: Env>(&mut self, publish: &Publish, env: &E) {
        let counters = env.counters();
        if !publish.mandatory {
            return add(&counters.messages_unroutable_dropped, 1);
        }
        add(&counters.messages_unroutable_returned, 1);
        let (channel, message) = (publish.channel, &publish.message);
        self.session
            .returned(channel, message, ReplyCode::NoRoute, "NO_ROUTE");
    }

    /// Puts a publish into its queues; `begun` if it is traced.
    pub(super) fn put<E: Env>(
        &mut self,
        publish: Publish,
        targets: &[QueueId],
        begun: Option<Box<Begun>>,
        run: &mut Run<'_, E>,
    ) {
        let transacted = publish.number == 0 && self.session.is_transactional(publish.channel);
        let notify = match publish.number != 0 || transacted {
            true => Notify::Connection(self.identity.id),
            false => Notify::Nobody,
        };
        let outcome = self.enqueue(&publish.message, targets, &notify, run);
        let reached = match outcome.is_nowhere {
            true => 0,
            false => targets.len(),
        };
        match reached {
            0 => self.unroutable(&publish, run.env),
            _ => add(&run.env.counters().messages_routed, 1),
        }
        if transacted {
            self.publisher.transaction.is_refused |= outcome.rejected;
            self.note_transacted(publish.channel, &outcome.waits);
        }
        for queue in &outcome.full {
            self.hold_back_from(*queue, run);
        }
        if begun.is_some() {
            self.trace_put(begun, &publish, reached, &outcome.waits, run.env);
        }
        self.answer(&publish, &outcome);
    }

    /// Looks at a publish that a transaction holds back: what would refuse it at the commit refuses
    /// it now.
    pub(super) fn check<E: Env>(&mut self, mut publish: Publish, run: &mut Run<'_, E>) {
        if !self.session.counts(publish.channel) {
            return;
        }
        let converted = as_amqp091(&publish.message);
        let permitted = self
            .prepare(&mut publish, converted.as_ref())
            .and_then(|()| {
                let readable = converted.as_ref().unwrap_or(&publish.message);
                self.permit(publish.channel, readable, run)
            });
        let Err(error) = permitted else {
            return;
        };
        run.release();
        let channel = publish.channel;
        if !self.await_barrier_if_missing(&error, || Retry::Check(publish), run.env) {
            self.session
                .fail(run.now, channel, error, &mut self.requests);
        }
    }

    /// Checks and rewrites what in the properties concerns the broker. Most messages have nothing
    /// of that. A message in another format is checked as it reads in AMQP 0-9-1; direct reply-to
    /// is for that protocol alone.
    fn prepare(
        &mut self,
        publish: &mut Publish,
        converted: Option<&Message>,
    ) -> Result<(), ProtocolError> {
        let bytes = converted.unwrap_or(&publish.message).properties();
        if !has_property(bytes, Property::UserId) && !has_property(bytes, Property::ReplyTo) {
            return Ok(());
        }
        let properties = Properties::trusted(bytes);
        if let Some(user) = properties.user_id {
            self.login.check_user_id(user)?;
        }
        if properties.reply_to == Some(reply_to::PSEUDO_QUEUE.as_bytes()) && converted.is_none() {
            let token = self
                .publisher
                .reply_tokens
                .get(&publish.channel)
                .ok_or_else(|| {
                    ProtocolError::channel(
                        ReplyCode::PreconditionFailed,
                        "fast reply consumer does not exist",
                    )
                })?;
            publish.message = with_reply_to(&publish.message, token.name());
        }
        Ok(())
    }

    /// The queues that a message goes to.
    fn targets<E: Env>(
        &mut self,
        channel: ChannelId,
        message: &Message,
        run: &mut Run<'_, E>,
    ) -> Result<Way, ProtocolError> {
        let env = run.env;
        let catalogue = run.catalogue();
        let Publisher {
            scratch,
            queues,
            routes,
            published,
            ..
        } = &mut self.publisher;
        routes.keep_those_of(catalogue.generation(), published);
        let flows = env.registry().flows();
        let hash = routes.hash(message);
        if !has_headers(message)
            && let Some(route) = routes.find(hash, message)
        {
            route.traffic.count(route.targets.len());
            if !route.count(channel) {
                let portion = route.hand_over(channel, published);
                published.count(portion, Sums { flows, catalogue });
            }
            return Ok(Way::To(route.targets.clone()));
        }
        let login = &mut self.login;
        let sender = login.sender(catalogue, channel, &self.identity.name, env);
        let Routed::To(plain) = route_publish::route(sender, message, scratch, queues, run)? else {
            return Ok(Way::Delayed);
        };
        let exchange = name(message.exchange())?;
        let portion = Portion {
            channel,
            exchange,
            queues,
            messages: 1,
        };
        let catalogue = run.catalogue();
        published.count(portion, Sums { flows, catalogue });
        if let Some(traffic) = plain {
            routes.remember(hash, message, portion, traffic, published);
        }
        Ok(Way::To(Targets::from_slice(queues)))
    }

    /// Whether a message may be published, wherever it would go.
    fn permit<E: Env>(
        &mut self,
        channel: ChannelId,
        message: &Message,
        run: &mut Run<'_, E>,
    ) -> Result<(), ProtocolError> {
        let env = run.env;
        let catalogue = run.catalogue();
        let sender = self
            .login
            .sender(catalogue, channel, &self.identity.name, env);
        route_publish::check(sender, message, catalogue)
    }

    fn answer(&mut self, publish: &Publish, outcome: &Outcome) {
        if publish.number == 0 {
            return;
        }
        if outcome.rejected {
            self.session.rejected(publish.channel, publish.number);
        } else {
            self.session
                .accepted(publish.channel, publish.number, &outcome.waits);
            self.replies.awaiting |= outcome.waits.iter().any(|(awaited, _)| awaited.is_shard());
        }
    }

    /// A delayed message is durable with the shard that keeps it back.
    fn answer_delayed<E: Env>(&mut self, publish: &Publish, run: &mut Run<'_, E>) {
        let mut outcome = Outcome::default();
        if publish.message.summary.persistent {
            let log_position = run.shard(delayed::SHARD).log_position();
            outcome
                .waits
                .push((Awaited::Shard(log_position.shard), log_position.chunk));
        }
        if publish.number == 0 {
            self.note_transacted(publish.channel, &outcome.waits);
        }
        self.answer(publish, &outcome);
    }

    fn publish_reply<E: Env>(&mut self, publish: &Publish, run: &mut Run<'_, E>) {
        let message = &publish.message;
        let converted = as_amqp091(message);
        if let Err(error) = self.permit(publish.channel, converted.as_ref().unwrap_or(message), run)
        {
            run.release();
            return self
                .session
                .fail(run.now, publish.channel, error, &mut self.requests);
        }
        let vhost = self.login.vhost_name();
        match run.env.replies().find(vhost, message.routing_key()) {
            Some((connection, consumer)) => {
                let delivery = Delivery {
                    consumer,
                    queue: reply_to::NO_QUEUE,
                    priority_log: 0,
                    index: 0,
                    redelivered: false,
                    delivery_count: None,
                    acquired_count: None,
                    message: message.clone(),
                };
                run.release();
                run.env
                    .post(connection, QueueEvent::Deliver(delivery).into());
            }
            None if publish.mandatory => {
                self.session
                    .returned(publish.channel, message, ReplyCode::NoRoute, "NO_ROUTE")
            }
            None => {}
        }
        if publish.number != 0 {
            self.session.accepted(publish.channel, publish.number, &[]);
        }
    }

    /// `tx.commit`: everything has been sent off; the answer waits until what it did here is
    /// durable, and what it did at queues of the cluster is committed. It waits for nothing else:
    /// this node's disk may be full, and its queues led by others.
    pub(super) fn commit<E: Env>(&mut self, now: Now, env: &E) {
        let transaction = std::mem::take(&mut self.publisher.transaction);
        let shards = transaction.shards.into_iter();
        let log_positions: SmallVec<[LogPosition; 2]> = shards
            .map(|id| env.with_shard(now, id, |shard| shard.urgent_log_position()))
            .collect();
        let mut queues = Vec::new();
        for (queue, first) in transaction.queues {
            let through = self.uncommitted_through(queue, now, env);
            queues.extend(through.map(|through| (queue, first..=through)));
        }
        let reply = match transaction.is_refused {
            true => partly_committed(),
            false => Reply::Done,
        };
        self.reply_when_committed(now, log_positions, queues, reply, env);
    }

    /// Takes note of the queues of the cluster, and the logs of this node, that a transaction has
    /// to do with.
    pub(super) fn note_transacted(&mut self, channel: ChannelId, waits: &[(Awaited, u64)]) {
        if self.session.is_transactional(channel) {
            self.publisher.transaction.note(waits);
        }
    }

    /// A queue of the cluster takes no more for now: nothing is read from this connection until it
    /// does.
    fn hold_back_from<E: Env>(&mut self, queue: QueueId, run: &mut Run<'_, E>) {
        let id = self.identity.id;
        if !self.publisher.full_queues.contains(&queue)
            && run.shard(run.env.shard_of(queue)).hold_back(queue, id)
        {
            self.publisher.full_queues.push(queue);
        }
    }
}

/// Where a publish goes.
enum Way {
    To(Targets),
    /// Kept back for later.
    Delayed,
}
