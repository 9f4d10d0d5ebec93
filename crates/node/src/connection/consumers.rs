//! The consumers of a connection, and what else holds messages for it.

use super::subscriptions::Subscriptions;
use crate::status::{ConsumerPlace, KeptArguments};
use leveret_client::{Consume, Flow};
use leveret_queue_host::delivery_credit::{DeliveryCredit, Limiter};
use leveret_queue_host::fixed_map::FixedMap;
use leveret_types::{ChannelId, ConsumerId, QueueId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The consumers of a connection, by channel and by name.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// The credit of the connection with all queues.
    pub(super) credit: Arc<DeliveryCredit>,
    by_id: FixedMap<ConsumerId, Subscription>,
    /// An ordered map: the numbers are the client's choice, and so would collisions be.
    pub(super) channels: BTreeMap<ChannelId, Box<Channel>>,
    /// Who held messages for a channel that is closed, with the queue of each, the last one first:
    /// the queues have yet to hear of it.
    leaving: Vec<(ConsumerId, QueueId)>,
    /// The consumers of a client that is gone, with their queues, in the order in which they leave
    /// them.
    left_behind: Vec<(ConsumerId, QueueId)>,
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
    pub(super) arguments: KeptArguments,
    /// Messages that it has acknowledged.
    pub(super) acknowledged: u64,
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
            arguments: KeptArguments::of(&consume.arguments),
            acknowledged: 0,
        }
    }
}

/// What the node keeps of a channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// Its consumers: who closes it looks at no others.
    consumers: BTreeSet<ConsumerId>,
    /// How many of them consume replies, from no queue.
    of_replies: usize,
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
    pub(super) fn insert(&mut self, consumer: ConsumerId, subscription: Subscription) {
        let channel = self.channels.entry(subscription.channel).or_default();
        channel.consumers.insert(consumer);
        channel.of_replies += usize::from(subscription.queue.is_none());
        self.by_id.insert(consumer, subscription);
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, consumer: ConsumerId) -> Option<&Subscription> {
        self.by_id.get(&consumer)
    }

    /// A consumer has acknowledged so many messages; who is none any more is not counted.
    pub(super) fn acknowledged(&mut self, consumer: ConsumerId, count: u64) {
        if let Some(subscription) = self.by_id.get_mut(&consumer) {
            subscription.acknowledged += count;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &Subscription)> {
        self.by_id.iter().map(|(id, of)| (*id, of))
    }

    /// How many of a channel consume from queues.
    pub(super) fn of_queues(&self, channel: ChannelId) -> usize {
        let channel = self.channels.get(&channel);
        channel.map_or(0, |of| of.consumers.len() - of.of_replies)
    }

    /// Those behind a place, channel by channel; all where there is none.
    pub(super) fn behind(
        &self,
        place: Option<ConsumerPlace>,
    ) -> impl Iterator<Item = (ConsumerId, &Subscription)> {
        let (first, last) = place.map_or((ChannelId(0), None), |(of, last)| (of, Some(last)));
        let channels = self.channels.range(first..);
        let ids = channels.flat_map(move |(number, channel)| {
            let behind = last.filter(|_| *number == first);
            let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
            channel.consumers.range((from, Bound::Unbounded))
        });
        ids.filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// Forgets a consumer.
    pub(super) fn remove(&mut self, consumer: ConsumerId) -> Option<Subscription> {
        let subscription = self.by_id.remove(&consumer)?;
        if let Some(channel) = self.channels.get_mut(&subscription.channel) {
            channel.consumers.remove(&consumer);
            channel.of_replies -= usize::from(subscription.queue.is_none());
        }
        Some(subscription)
    }

    /// Forgets a channel; answers its consumers, with the queue of each. Who else holds messages
    /// for it is [`Self::next_leaving`].
    pub(super) fn remove_channel(&mut self, channel: ChannelId) -> Vec<(ConsumerId, QueueId)> {
        let channel = *self.channels.remove(&channel).unwrap_or_default();
        let others = channel.subscriptions.into_all();
        let mut others: Vec<_> = others.chain(channel.getters.into_all()).collect();
        others.reverse();
        self.leaving.append(&mut others);
        let consumers = channel.consumers.into_iter();
        consumers
            .filter_map(|consumer| Some((consumer, self.by_id.remove(&consumer)?.queue?)))
            .collect()
    }

    /// The client is gone: these consumers of a channel are yet to leave their queues, and whoever
    /// else held messages for it.
    pub(super) fn leave_behind(&mut self, mut consumers: Vec<(ConsumerId, QueueId)>) {
        self.left_behind.append(&mut consumers);
        let others = std::mem::take(&mut self.leaving);
        self.left_behind.extend(others.into_iter().rev());
    }

    /// All of those, the last one first.
    pub(super) fn take_left_behind(&mut self) -> Vec<(ConsumerId, QueueId)> {
        let mut left = std::mem::take(&mut self.left_behind);
        left.reverse();
        left
    }

    /// Who held messages for a channel that is closed, of whom a queue has yet to hear that.
    pub(super) fn next_leaving(&mut self) -> Option<(ConsumerId, QueueId)> {
        let next = self.leaving.pop();
        if self.leaving.is_empty() {
            self.leaving = Vec::new();
        }
        next
    }

    /// Whether there is one.
    pub(super) const fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    pub(super) fn channel_of(&self, consumer: ConsumerId) -> Option<ChannelId> {
        self.by_id
            .get(&consumer)
            .map(|subscription| subscription.channel)
    }

    /// The queue of a consumer of this connection.
    pub(super) fn queue_of(&self, consumer: ConsumerId) -> Option<QueueId> {
        self.by_id.get(&consumer)?.queue
    }

    /// A consumer that is gone waits for room in its channel no more.
    pub(super) fn wait_no_more(&self, channel: ChannelId, consumer: ConsumerId) {
        if let Some(channel) = self.channels.get(&channel) {
            channel.limiter.forget(consumer);
        }
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

    /// The channels that hold, or may hold, messages for any of these subscriptions, given in
    /// ascending order.
    pub(super) fn channels_of(&self, subscriptions: &[ConsumerId]) -> Vec<ChannelId> {
        let consumers = subscriptions.iter().copied();
        let mut found: BTreeSet<_> = consumers.filter_map(|id| self.channel_of(id)).collect();
        let others = self.channels.iter().filter(|(_, channel)| {
            let of_channel = [&channel.subscriptions, &channel.getters];
            of_channel.iter().any(|of| of.has_any(subscriptions))
        });
        found.extend(others.map(|(channel, _)| *channel));
        found.into_iter().collect()
    }

    pub(super) fn getting_channel(&self, subscription: ConsumerId) -> Option<ChannelId> {
        let mut channels = self.channels.iter();
        let found = channels.find(|(_, channel)| channel.getters.contains(subscription));
        found.map(|(channel, _)| *channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::FieldTable;

    fn consume(channel: u16) -> Consume {
        Consume {
            channel: ChannelId(channel),
            queue: String::new(),
            tag: String::new(),
            no_ack: false,
            exclusive: false,
            flow: Flow::Prefetch(0),
            arguments: FieldTable::default(),
        }
    }

    #[test]
    fn channels_are_found_by_who_holds_messages_for_them() {
        let mut consumers = Consumers::default();
        for number in 0..6 {
            let of = consume(number);
            let subscription = Subscription::new(of, Some(QueueId(1)));
            consumers.insert(ConsumerId(number.into()), subscription);
        }
        let add = |to: &mut Subscriptions, id| to.add(ConsumerId(id), QueueId(id), |_, _| true);
        for (channel, held_by) in [(3, 30), (4, 40)] {
            let channel = consumers.channels.get_mut(&ChannelId(channel));
            let channel = channel.expect("it is there");
            match held_by {
                30 => add(&mut channel.getters, held_by),
                _ => add(&mut channel.subscriptions, held_by),
            }
        }
        let of = |ids: &[u64]| -> Vec<u16> {
            let ids: Vec<_> = ids.iter().copied().map(ConsumerId).collect();
            let found = consumers.channels_of(&ids);
            found.into_iter().map(|channel| channel.0).collect()
        };
        assert_eq!(of(&[1, 3, 30, 40]), [1, 3, 4]);
        assert_eq!(of(&[31, 60]), [0; 0]);
    }

    #[test]
    fn each_consumer_is_behind_those_before_it_channel_by_channel() {
        let mut consumers = Consumers::default();
        for number in 0..30 {
            // The ids of a channel are not in a row, and channel 2 has none.
            let of = consume([1, 3, 4][number as usize % 3]);
            let queue = (number != 5).then_some(QueueId(1));
            consumers.insert(ConsumerId(number), Subscription::new(of, queue));
        }
        let place = |(id, of): (ConsumerId, &Subscription)| (of.channel, id);
        let all: Vec<ConsumerPlace> = consumers.behind(None).map(place).collect();
        assert_eq!(all.len(), 30);
        assert!(all.is_sorted());
        for (at, known) in all.iter().enumerate() {
            let behind = consumers.behind(Some(*known)).map(place);
            assert_eq!(behind.collect::<Vec<_>>(), all[at + 1..]);
        }
        // One that is gone meanwhile is a place still.
        consumers.remove(all[9].1);
        let mut behind = consumers.behind(Some(all[9])).map(place);
        assert_eq!(behind.next(), Some(all[10]));
        drop(behind);
        let counts = [1, 2, 3, 4].map(|number| consumers.of_queues(ChannelId(number)));
        assert_eq!(counts, [9, 0, 10, 9]);
        consumers.remove(ConsumerId(5));
        assert_eq!(consumers.of_queues(ChannelId(4)), 9);
    }

    #[test]
    fn a_channel_that_goes_takes_what_is_its_own_and_nothing_else() {
        let mut consumers = Consumers::default();
        for number in 0..6 {
            let of = consume(number % 2);
            let queue = (number != 2).then_some(QueueId(number.into()));
            let subscription = Subscription::new(of, queue);
            consumers.insert(ConsumerId(number.into()), subscription);
        }
        let removed = consumers.remove(ConsumerId(0)).expect("it is there");
        let state = consumers.channels.get_mut(&removed.channel);
        let state = state.expect("it is there");
        let add = |to: &mut Subscriptions, id| to.add(ConsumerId(id), QueueId(id), |_, _| true);
        add(&mut state.getters, 7);
        add(&mut state.subscriptions, 8);
        let of = |id| (ConsumerId(id), QueueId(id));
        assert_eq!(consumers.remove_channel(ChannelId(0)), [of(4)]);
        assert_eq!(consumers.next_leaving(), Some(of(8)));
        assert!(consumers.has_leaving());
        assert_eq!(consumers.next_leaving(), Some(of(7)));
        assert!(!consumers.has_leaving());
        assert_eq!(consumers.next_leaving(), None);
        let mut left: Vec<_> = consumers.iter().map(|(id, _)| id.0).collect();
        left.sort_unstable();
        assert_eq!(left, [1, 3, 5]);
    }
}
