//! What clients have open and what they did, in the management interface's words. Nothing here
//! changes the node or waits for it.

use super::Admin;
use leveret_cluster::Env as _;
use leveret_management::api::{
    ChannelStats, ConnectionContent, ConnectionStats, ConsumerStats, FlowStats, FlowsOf,
    MessageCounters, PublishedStats, StreamConsumerStats, StreamPublisherStats,
};
use leveret_node::{ChannelStatus, ConnectionStatus, ConsumerStatus, Env as _};
use leveret_shell::node::{
    CONSUMERS_LISTED, LISTED_MAX, Which, consumers_behind, each_consuming, each_portion,
    some_connections,
};
use leveret_stream::StreamStats;
use leveret_types::{ConnectionId, ConsumerId, FieldValue, QueueId};
use std::cell::LazyCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

impl Admin {
    /// A connection that has logged in, without its consumers.
    pub(super) fn content_of_connection(&self, name: &str) -> Option<ConnectionContent> {
        let mut known = some_connections(&self.broker, &Which::Named(name.into()));
        known.retain(|connection| !connection.vhost.is_empty());
        let status = known.into_iter().min_by_key(|connection| connection.id)?;
        Some(content_without_consumers(status))
    }

    /// Shows all connections that have logged in.
    pub(super) fn each_content(&self, see: &mut dyn FnMut(ConnectionContent)) {
        each_portion(&self.broker, &mut |portion| {
            for mut status in portion {
                if status.vhost.is_empty() {
                    continue;
                }
                let mut consumers = self.consumers_in(&status);
                let some = std::mem::take(&mut status.consumers);
                self.each_behind(status.id, some, &mut |more| {
                    consumers.extend(self.consumer_stats(status.id, more));
                    ControlFlow::Continue(())
                });
                see(ConnectionContent {
                    consumers,
                    ..content_without_consumers(status)
                });
            }
        });
    }

    /// Shows a connection's consumers that come after these, some at a time.
    fn each_behind(
        &self,
        connection: ConnectionId,
        mut known: Vec<ConsumerStatus>,
        see: &mut dyn FnMut(&[ConsumerStatus]) -> ControlFlow<()>,
    ) {
        loop {
            known = consumers_behind(&self.broker, connection, &known);
            if known.is_empty() || see(&known).is_break() {
                return;
            }
        }
    }

    /// Those of these connections that are there, without their consumers. Their threads copy a
    /// few in one turn.
    pub(super) fn contents_of(&self, ids: &[ConnectionId]) -> Vec<ConnectionContent> {
        let some = |ids: &[ConnectionId]| some_connections(&self.broker, &Which::These(ids.into()));
        let found = ids.chunks(LISTED_MAX).flat_map(some);
        let found = found.filter(|status| !status.vhost.is_empty());
        found.map(content_without_consumers).collect()
    }

    /// All consumers of a connection.
    pub(super) fn consumers_of_connection(&self, id: ConnectionId) -> Vec<ConsumerStats> {
        let told = some_connections(&self.broker, &Which::Behind(id, None));
        let Some(mut status) = told.into_iter().next() else {
            return Vec::new();
        };
        let mut consumers = self.consumers_in(&status);
        let some = std::mem::take(&mut status.consumers);
        self.each_behind(id, some, &mut |more| {
            consumers.extend(self.consumer_stats(id, more));
            ControlFlow::Continue(())
        });
        consumers
    }

    /// Those of these consumers that are there, by their connections. Threads copy a few in one
    /// turn.
    pub(super) fn contents_with(
        &self,
        consumers: &[(ConnectionId, u64)],
    ) -> Vec<ConnectionContent> {
        let mut wanted = consumers.to_vec();
        wanted.sort_unstable();
        let some = |wanted: &[(ConnectionId, u64)]| {
            let ids = wanted.iter().map(|(of, id)| (*of, ConsumerId(*id)));
            let which = Which::Consumers(ids.collect());
            let found = some_connections(&self.broker, &which).into_iter();
            let contents = found.map(|mut status| {
                let (connection, subscriptions) = (status.id, &mut status.stream_subscriptions);
                subscriptions.retain(|of| {
                    let key = (connection, u64::from(of.id));
                    wanted.binary_search(&key).is_ok()
                });
                ConnectionContent {
                    consumers: self.consumers_in(&status),
                    connection: connection_stats(status),
                    ..ConnectionContent::default()
                }
            });
            contents.collect::<Vec<_>>()
        };
        wanted.chunks(CONSUMERS_LISTED).flat_map(some).collect()
    }

    pub(super) fn flows_of(&self, of: FlowsOf<'_>) -> Vec<FlowStats> {
        let flows = self.broker.registry().flows();
        let flows = match of {
            FlowsOf::Node => flows.all(None),
            FlowsOf::Vhost(vhost) => flows.all(Some(vhost)),
            FlowsOf::Queue(queue) => flows.to_queue(queue),
            FlowsOf::Exchange { vhost, exchange } => flows.from_exchange(vhost, exchange),
        };
        let stats = flows.iter().map(|flow| FlowStats {
            vhost: Arc::clone(&flow.vhost),
            exchange: Arc::clone(&flow.exchange),
            queue: flow.queue,
            queue_name: Arc::clone(&flow.queue_name),
            messages: flow.messages(),
        });
        stats.collect()
    }

    /// The first consumers of a queue, no more than so many.
    pub(super) fn consumers_of_queue(
        &self,
        queue: QueueId,
        at_most: usize,
    ) -> Vec<(Arc<ConnectionStats>, ConsumerStats)> {
        let mut found = Vec::new();
        each_consuming(&self.broker, queue, &mut |portion| {
            for mut status in portion {
                if found.len() >= at_most {
                    return;
                }
                let (id, some) = (status.id, std::mem::take(&mut status.consumers));
                let subscriptions = &mut status.stream_subscriptions;
                subscriptions.retain(|subscription| subscription.stream == queue);
                let of_streams = self.consumers_in(&status);
                let connection = Arc::new(connection_stats(status));
                let mut add = |consumers: Vec<ConsumerStats>| {
                    let left = at_most.saturating_sub(found.len());
                    let consumers = consumers.into_iter().take(left);
                    found.extend(consumers.map(|of| (Arc::clone(&connection), of)));
                    at_most.saturating_sub(found.len())
                };
                let _ = add(of_streams);
                let _ = add(self.consumers_at_queue(id, &some, queue));
                self.each_behind(id, some, &mut |more| match add(
                    self.consumers_at_queue(id, more, queue)
                ) {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                });
            }
        });
        found
    }

    fn consumers_at_queue(
        &self,
        connection: ConnectionId,
        consumers: &[ConsumerStatus],
        queue: QueueId,
    ) -> Vec<ConsumerStats> {
        let of_queue = consumers.iter().filter(|consumer| consumer.queue == queue);
        self.consumer_stats(connection, of_queue).collect()
    }

    /// The consumers that a connection's status shows.
    fn consumers_in(&self, connection: &ConnectionStatus) -> Vec<ConsumerStats> {
        let subscriptions = connection.stream_subscriptions.iter();
        let of_streams = subscriptions.map(|subscription| ConsumerStats {
            id: subscription.id.into(),
            connection: connection.id,
            channel: 0,
            queue: subscription.stream,
            tag: format!("stream.subid-{}", subscription.id),
            single_active: subscription.single_active.then_some(subscription.active),
            arguments: subscription
                .properties
                .iter()
                .map(|(key, value)| (key.clone(), FieldValue::text(value)))
                .collect(),
            ..ConsumerStats::default()
        });
        let consumers = self.consumer_stats(connection.id, &connection.consumers);
        consumers.chain(of_streams).collect()
    }

    fn consumer_stats<'a>(
        &'a self,
        connection: ConnectionId,
        consumers: impl IntoIterator<Item = &'a ConsumerStatus>,
    ) -> impl Iterator<Item = ConsumerStats> {
        let now = self.broker.now();
        let at_queue = move |consumer: &ConsumerStatus| {
            let (queue, id) = (consumer.queue, consumer.id);
            let shard = self.broker.shard(self.broker.shard_of(queue));
            let (held, since_ms) = shard.unsettled_by(queue, id);
            // A classic queue with a timeout knows it too, to the second, rounded up.
            let since_ms = [consumer.oldest_held_ms, since_ms]
                .into_iter()
                .flatten()
                .min();
            let age_ms = since_ms.map(|since| now.monotonic_ms.saturating_sub(since));
            let since_ms = age_ms.map(|age| now.wall_ms.saturating_sub(age));
            (shard.single_active(queue, id), held, since_ms)
        };
        consumers.into_iter().map(move |consumer| {
            let (single_active, held, since_ms) = at_queue(consumer);
            ConsumerStats {
                id: consumer.id.0,
                connection,
                channel: consumer.channel.0,
                queue: consumer.queue,
                tag: consumer.tag.clone(),
                ack_required: consumer.ack_required,
                exclusive: consumer.exclusive,
                prefetch: consumer.prefetch,
                single_active,
                unacknowledged: held,
                oldest_unacknowledged_ms: since_ms,
                arguments: consumer.arguments.to_table(),
                delivered: consumer.delivered.messages,
                redelivered: consumer.delivered.redelivered,
                acknowledged: consumer.acknowledged,
            }
        })
    }

    /// The consumers of this tag that this node's clients have at a queue, no more than so many.
    pub(super) fn consumers_named(&self, queue: QueueId, tag: &str, at_most: usize) -> Vec<u64> {
        let mut found = Vec::new();
        each_consuming(&self.broker, queue, &mut |portion| {
            for mut status in portion {
                let some = std::mem::take(&mut status.consumers);
                let mut add = |consumers: &[ConsumerStatus]| {
                    let of_it = |of: &&ConsumerStatus| of.queue == queue && of.tag == tag;
                    let ids = consumers.iter().filter(of_it).map(|of| of.id.0);
                    found.extend(ids.take(at_most.saturating_sub(found.len())));
                    match found.len() < at_most {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                };
                if add(&some).is_continue() {
                    self.each_behind(status.id, some, &mut add);
                }
            }
        });
        found
    }

    pub(super) fn all_stream_publishers(&self) -> Vec<StreamPublisherStats> {
        let of_one = |connection: &ConnectionStatus| {
            let id = connection.id;
            let publishers = connection.stream_publishers.iter();
            let stats = publishers.map(move |publisher| StreamPublisherStats {
                connection: id,
                id: publisher.id,
                queue: publisher.stream,
                reference: publisher.reference.clone(),
                published: publisher.published,
                confirmed: publisher.confirmed,
                errored: publisher.errored,
            });
            stats.collect::<Vec<_>>()
        };
        let mut all = Vec::new();
        each_portion(&self.broker, &mut |portion| {
            all.extend(portion.iter().flat_map(of_one));
        });
        all
    }

    pub(super) fn all_stream_consumers(&self) -> Vec<StreamConsumerStats> {
        // They are looked at where anybody reads one.
        let streams = LazyCell::new(|| {
            let stats = self.broker.streams.stats().into_iter();
            stats.collect::<HashMap<QueueId, StreamStats>>()
        });
        let of_one = |connection: &ConnectionStatus| {
            let subscriptions = connection.stream_subscriptions.iter();
            let stats = subscriptions.map(|subscription| {
                let stream = streams.get(&subscription.stream);
                let last = stream.and_then(|stream| stream.last_record);
                // The offsets that it has not been sent, of those that are there.
                let first = stream
                    .and_then(|stream| stream.first_chunk)
                    .unwrap_or_default();
                let next = subscription.offset.map_or(first, |offset| offset + 1);
                StreamConsumerStats {
                    connection: connection.id,
                    id: subscription.id,
                    queue: subscription.stream,
                    credits: subscription.credits,
                    consumed: subscription.consumed,
                    offset: subscription.offset.unwrap_or_default(),
                    offset_lag: last.map_or(0, |last| (last + 1).saturating_sub(next)),
                    single_active: subscription.single_active,
                    active: subscription.active,
                    properties: subscription.properties.clone(),
                }
            });
            stats.collect::<Vec<_>>()
        };
        let mut all = Vec::new();
        each_portion(&self.broker, &mut |portion| {
            all.extend(portion.iter().flat_map(of_one));
        });
        all
    }
}

/// What is in a connection, but for its consumers.
fn content_without_consumers(status: ConnectionStatus) -> ConnectionContent {
    ConnectionContent {
        channels: channel_stats(&status).collect(),
        consumers: Vec::new(),
        published: published_stats(&status),
        connection: connection_stats(status),
    }
}

/// What connections of the stream protocol say that they speak.
pub(super) const STREAM_PROTOCOL: &str = "stream";
pub(super) fn connection_stats(local_stats: ConnectionStatus) -> ConnectionStats {
    let name = local_stats.client_properties.get("connection_name");
    ConnectionStats {
        id: local_stats.id,
        protocol: local_stats.protocol,
        user_provided_name: name.and_then(|name| name.as_text()).map(str::to_owned),
        name: local_stats.name,
        user: local_stats.user,
        vhost: local_stats.vhost,
        local: Some(local_stats.peer.local),
        peer: Some(local_stats.peer.remote),
        tls: local_stats
            .tls
            .map(|(version, suite)| (version, suite, String::new())),
        mechanism: local_stats.mechanism,
        state: local_stats.state,
        channels: local_stats.channels.len() as u64,
        channels_max: local_stats.channel_max,
        frame_bytes_max: local_stats.frame_max,
        heartbeat_seconds: local_stats.heartbeat_seconds,
        client_properties: local_stats.client_properties,
        connected_at_ms: local_stats.connected_at_ms,
        received_bytes: local_stats.received_bytes,
        sent_bytes: local_stats.sent_bytes,
        pending_bytes: local_stats.unsent_bytes,
        ..ConnectionStats::default()
    }
}

pub(super) fn channel_stats(
    connection: &ConnectionStatus,
) -> impl Iterator<Item = ChannelStats> + '_ {
    connection.channels.iter().map(|channel| ChannelStats {
        connection: connection.id,
        number: channel.number.0,
        consumers: channel.consumers as u64,
        unacknowledged: channel.unacknowledged as u64,
        unconfirmed: channel.unconfirmed as u64,
        uncommitted: channel.uncommitted as u64,
        uncommitted_settles: channel.uncommitted_acks as u64,
        prefetch: channel.prefetch,
        global_prefetch: channel.global_prefetch,
        confirm: channel.confirm,
        transactional: channel.transactional,
        state: "running",
        messages: channel_counters(channel),
        ..ChannelStats::default()
    })
}

fn published_stats(connection: &ConnectionStatus) -> Vec<PublishedStats> {
    let published = connection.published.iter().map(|published| PublishedStats {
        channel: published.channel.0,
        exchange: Arc::clone(&published.exchange),
        messages: published.messages,
        queues: published.queues.clone(),
    });
    published.collect()
}

fn channel_counters(channel: &ChannelStatus) -> MessageCounters {
    let counters = &channel.counters;
    MessageCounters {
        published: counters.published,
        published_confirm: if channel.confirm {
            counters.published
        } else {
            0
        },
        confirmed: counters.confirmed,
        returned: counters.returned,
        delivered: counters.delivered,
        delivered_auto_ack: counters.delivered_auto_ack,
        got: counters.got,
        got_auto_ack: counters.got_auto_ack,
        got_empty: counters.got_empty,
        redelivered: counters.redelivered,
        acknowledged: counters.acknowledged,
        ..MessageCounters::default()
    }
}
