//! Publishing: from a message to the queues that it goes to.

use super::Connection;
use super::held_replies::partly_committed;
use super::message_traces::Begun;
use super::missed::Missed;
use crate::counters::add;
use crate::env::{Env, LogPosition, QueueEvent};
use crate::firehose::{self, Place};
use crate::properties::{LazyProperties, copies, with_reply_to, without_blind_copies};
use crate::reply_to;
use crate::run::{Outcome, Run, Targets};
use leveret_amqp::{Properties, Property};
use leveret_client::{Awaited, Delivery, Publish, Reply, Session};
use leveret_cluster::streams;
use leveret_message::{as_amqp091, has_property};
use leveret_queue_host::delayed;
use leveret_queue_host::notify::Notify;
use leveret_routing::{Kind, RouteError};
use leveret_types::{ChannelId, FieldValue, Message, Now, ProtocolError, QueueId, ReplyCode};
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
        let targets = match self.targets(publish.channel, readable, run) {
            Ok(Routed::To(targets)) => targets,
            Ok(Routed::Delayed) => return self.answer_delayed(&publish, run),
            Err(error) => {
                run.release();
                let channel = publish.channel;
                if self.looks_for(&error, || Missed::Publish(publish), run.env) {
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
            if publish.mandatory {
                add(&counters.messages_unroutable_returned, 1);
                self.session.returned(
                    publish.channel,
                    &publish.message,
                    ReplyCode::NoRoute,
                    "NO_ROUTE",
                );
            } else {
                add(&counters.messages_unroutable_dropped, 1);
            }
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

    /// Puts a publish into its queues; `begun` if it is traced.
    pub(super) fn put<E: Env>(
        &mut self,
        publish: Publish,
        targets: &[QueueId],
        begun: Option<Box<Begun>>,
        run: &mut Run<'_, E>,
    ) {
        add(&run.env.counters().messages_routed, 1);
        let transacted = publish.number == 0 && self.session.is_transactional(publish.channel);
        let notify = match publish.number != 0 || transacted {
            true => Notify::Connection(self.identity.id),
            false => Notify::Nobody,
        };
        let outcome = self.enqueue(&publish.message, targets, &notify, run);
        if transacted {
            self.publisher.transaction.is_refused |= outcome.rejected;
            self.note_transacted(publish.channel, &outcome.waits);
        }
        for queue in &outcome.full {
            self.hold_back_from(*queue, run);
        }
        if begun.is_some() {
            self.trace_put(begun, &publish, targets.len(), &outcome.waits, run.env);
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
                self.permit(readable, run)
            });
        let Err(error) = permitted else {
            return;
        };
        run.release();
        let channel = publish.channel;
        if !self.looks_for(&error, || Missed::Check(publish), run.env) {
            self.session
                .fail(run.now, channel, error, &mut self.requests);
        }
    }

    /// Whether a message may be published, wherever it would go.
    fn permit<E: Env>(
        &mut self,
        message: &Message,
        run: &mut Run<'_, E>,
    ) -> Result<(), ProtocolError> {
        let catalogue = run.catalogue();
        let exchange = name(message.exchange())?;
        self.login.permit_publish(catalogue, exchange, message)?;
        let vhost = self.login.vhost(catalogue)?;
        let known = vhost.router().exchange(exchange);
        let error = match known {
            Some(facts) if facts.internal => RouteError::Internal,
            None if !exchange.is_empty() => RouteError::NotFound,
            _ => return copies(message.properties()).map(drop),
        };
        Err(route_error(error, exchange, vhost.name()))
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
    ) -> Result<Routed, ProtocolError> {
        let now = run.now;
        let env = run.env;
        let catalogue = run.catalogue();
        let publisher = &mut self.publisher;
        publisher.routes.keep_those_of(catalogue.generation());
        let hash = publisher.routes.hash(message);
        let may_copy = has_property(message.properties(), Property::Headers);
        if !may_copy && let Some(route) = publisher.routes.find(hash, message) {
            route.traffic.count(route.targets.len());
            return Ok(Routed::To(route.targets.clone()));
        }
        let exchange = name(message.exchange())?;
        self.login.permit_publish(catalogue, exchange, message)?;
        let vhost = self.login.vhost(catalogue)?;
        let router = vhost.router();
        let lazy = LazyProperties::new(message.properties());
        let copies = if may_copy {
            copies(message.properties())?
        } else {
            SmallVec::new()
        };
        let mut keys: SmallVec<[&[u8]; 4]> = SmallVec::new();
        keys.push(message.routing_key());
        keys.extend(copies.iter().copied());
        let facts = router.exchange(exchange);
        if let Some(facts) = &facts {
            match facts.kind {
                Kind::Delayed(_) if !facts.internal => {
                    if let Some(delay_ms) = delayed::delay_of(message.properties()) {
                        let (vhost, due) = (vhost.name().to_owned(), now.wall_ms + delay_ms);
                        run.shard(delayed::SHARD).delay(&vhost, message, due);
                        return Ok(Routed::Delayed);
                    }
                }
                Kind::RecentHistory { length } if !facts.internal => {
                    env.history()
                        .remember(vhost.name(), exchange, *length, message);
                }
                _ => {}
            }
        }
        publisher.queues.clear();
        let random_before = publisher.scratch.random_state();
        router
            .route(
                message.exchange(),
                &keys,
                &lazy,
                &mut publisher.scratch,
                &mut publisher.queues,
            )
            .map_err(|error| route_error(error, exchange, vhost.name()))?;
        streams::refuse_by_name(catalogue, exchange, &publisher.queues)?;
        let plain = !lazy.asked()
            && copies.is_empty()
            && publisher.scratch.random_state() == random_before
            && facts.is_none_or(|facts| {
                !matches!(facts.kind, Kind::RecentHistory { .. } | Kind::Delayed(_))
            })
            && !vhost.tracing();
        if vhost.tracing() {
            let names = publisher
                .queues
                .iter()
                .filter_map(|id| catalogue.queue(*id));
            let names = names.map(|queue| FieldValue::text(queue.name())).collect();
            let place = Place {
                node: &env.settings().node_name,
                vhost: vhost.name(),
                connection: &self.identity.name,
                channel,
                user: self.login.user_name(),
            };
            env.defer(firehose::published(place, message, names));
        }
        let targets = Targets::from_slice(&publisher.queues);
        if let Some(traffic) = vhost.traffic(exchange) {
            traffic.count(targets.len());
            if plain && !may_copy {
                let (routes, queues) = (&mut publisher.routes, &publisher.queues);
                routes.remember(hash, message, queues, traffic.clone());
            }
        }
        Ok(Routed::To(targets))
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
        if let Err(error) = self.permit(converted.as_ref().unwrap_or(message), run) {
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

/// Where a message goes.
enum Routed {
    To(Targets),
    /// Kept back for later.
    Delayed,
}

fn name(bytes: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|_| {
        ProtocolError::connection(ReplyCode::SyntaxError, "exchange name is not UTF-8")
    })
}

fn route_error(error: RouteError, exchange: &str, vhost: &str) -> ProtocolError {
    match error {
        RouteError::NotFound => ProtocolError::channel(
            ReplyCode::NotFound,
            format!("no exchange '{exchange}' in vhost '{vhost}'"),
        ),
        RouteError::Internal => ProtocolError::channel(
            ReplyCode::AccessRefused,
            format!("cannot publish to internal exchange '{exchange}' in vhost '{vhost}'"),
        ),
        RouteError::TooLong => ProtocolError::channel(
            ReplyCode::ResourceError,
            format!("a message to exchange '{exchange}' passes too many exchanges"),
        ),
    }
    .at(60, 40)
}
