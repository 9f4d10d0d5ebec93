//! The consumers of a connection, and what else holds messages for it.

use super::subscriptions::Subscriptions;
use crate::fixed_map::FixedMap;
use crate::link::{Limiter, Link};
use leveret_client::{Consume, Flow};
use leveret_types::{ChannelId, ConsumerId, FieldTable, QueueId};
use std::sync::Arc;

/// The consumers of a connection, by channel and by name.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// The credit of the connection with all queues.
    pub(super) link: Arc<Link>,
    pub(super) by_id: FixedMap<ConsumerId, Subscription>,
    pub(super) channels: FixedMap<ChannelId, Channel>,
    /// The consumer that is being attached to a queue of the cluster.
    pub(super) attaching: Option<ConsumerId>,
}

/// A consumer of this connection.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) channel: ChannelId,
    pub(super) tag: String,
    /// The queue; nothing for direct reply-to.
    pub(super) queue: Option<QueueId>,
    pub(super) no_ack: bool,
    pub(super) exclusive: bool,
    pub(super) flow: Flow,
    /// What is left of its credit, where it has [`Flow::Credit`].
    pub(super) credit: Option<Arc<Limiter>>,
    pub(super) arguments: FieldTable,
}

impl Subscription {
    /// A consumer of this queue, or of replies, with what the client said of it.
    pub(super) fn new(consume: Consume, queue: Option<QueueId>) -> Self {
        Self {
            channel: consume.channel,
            tag: consume.tag,
            queue,
            no_ack: consume.no_ack,
            exclusive: consume.exclusive,
            flow: consume.flow,
            credit: match consume.flow {
                Flow::Prefetch(_) => None,
                Flow::Credit(messages) => Some(Arc::new(Limiter::of_credit(messages))),
            },
            arguments: consume.arguments,
        }
    }
}

/// What the node keeps of a channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The bound of `basic.qos` with `global`.
    pub(super) limiter: Arc<Limiter>,
    /// The consumer that was the last to have something of what it leaves.
    pub(super) last_served: ConsumerId,
    /// Queues that hold messages for this channel, with the subscription of each: cancelled
    /// consumers, and one for all gets of a queue.
    pub(super) subscriptions: Subscriptions,
    pub(super) getters: Subscriptions,
    /// Consumers that have credit of their own, whose messages no bound of the channel counts.
    pub(super) credited: Subscriptions,
}

impl Consumers {
    pub(super) fn channel_of(&self, consumer: ConsumerId) -> Option<ChannelId> {
        self.by_id
            .get(&consumer)
            .map(|subscription| subscription.channel)
    }

    /// The queue of a consumer of this connection.
    pub(super) fn queue_of(&self, consumer: ConsumerId) -> Option<QueueId> {
        self.by_id.get(&consumer)?.queue
    }

    /// Forgets a consumer; answers its queue.
    pub(super) fn take(&mut self, consumer: ConsumerId) -> Option<QueueId> {
        self.by_id.remove(&consumer)?.queue
    }

    /// The channel that holds messages under this name without being a consumer: by `basic.get`, or
    /// after `basic.cancel`.
    pub(super) fn holding_channel(&self, subscription: ConsumerId) -> Option<ChannelId> {
        let mut channels = self.channels.iter();
        let found = channels.find(|(_, channel)| {
            channel.subscriptions.contains(subscription) || channel.getters.contains(subscription)
        });
        found.map(|(channel, _)| *channel)
    }

    pub(super) fn getting_channel(&self, subscription: ConsumerId) -> Option<ChannelId> {
        let mut channels = self.channels.iter();
        let found = channels.find(|(_, channel)| channel.getters.contains(subscription));
        found.map(|(channel, _)| *channel)
    }
}
