//! What a client gets without having asked just now: messages for its consumers, the end of a
//! consumer, publishes that found no queue. Answers to `basic.get` have the same form.

use super::{ByConsumer, Connection, Phase};
use crate::unacked::UnackedDelivery;
use leveret_amqp::encode::{self, Content};
use leveret_amqp::{Properties, TableBuilder, basic};
use leveret_client::contract::Delivery;
use leveret_client::{DeliveredTo, SessionLatencies, UnsettledDelivery, UnsettledPosition};
use leveret_message::as_amqp091;
use leveret_types::limits::UNACKED_SCANNED_MAX;
use leveret_types::{ChannelId, ConsumerId, FieldValue, Message, Now, ReplyCode};

impl Connection {
    /// A message found no queue, or no consumer: gives it back to its publisher.
    pub fn returned(&mut self, channel: ChannelId, message: &Message, code: ReplyCode, text: &str) {
        if self.phase != Phase::Running {
            return;
        }
        let Some(of) = self.open_channel(channel.0) else {
            return;
        };
        of.counters.edit().returned += 1;
        let method = basic::Return {
            reply_code: code.code(),
            reply_text: text.as_bytes(),
            exchange: message.exchange(),
            routing_key: message.routing_key(),
        };
        let converted = as_amqp091(message);
        let content = Content::of(converted.as_ref().unwrap_or(message));
        self.send_content(channel.0, &method, &content);
    }

    /// Sends a message to its consumer and remembers that the client holds it. False if the
    /// consumer is gone: the message is the queue's again.
    pub fn deliver(&mut self, delivery: &Delivery) -> bool {
        let Self {
            consumers,
            channels,
            latencies,
            times,
            ..
        } = self;
        if self.phase != Phase::Running {
            return false;
        }
        let Some(consumer) = consumers.get_mut(&delivery.consumer) else {
            return false;
        };
        let Some(channel) = channels.get_mut(&consumer.channel) else {
            return false;
        };
        let delivery_tag = channel.next_tag();
        note_wait(latencies, delivery, times.now);
        let counters = channel.counters.edit();
        counters.redelivered += u64::from(delivery.redelivered);
        consumer.delivered.messages += 1;
        consumer.delivered.redelivered += u64::from(delivery.redelivered);
        if consumer.no_ack {
            counters.delivered_auto_ack += 1;
        } else {
            counters.delivered += 1;
            let delivery = UnackedDelivery::new(delivery_tag, delivery, times.now);
            channel.unacked.push(delivery);
        }
        let message = &delivery.message;
        let method = basic::Deliver {
            consumer_tag: consumer.tag.as_bytes(),
            delivery_tag,
            redelivered: delivery.redelivered,
            exchange: message.exchange(),
            routing_key: message.routing_key(),
        };
        self.times.speak();
        with_delivery_content(delivery, |content| {
            encode::with_content(
                &mut self.out,
                consumer.channel,
                &method,
                content,
                self.terms.frame_max,
            );
        });
        true
    }

    /// Answers `basic.get` with a message.
    pub(crate) fn deliver_got(
        &mut self,
        number: u16,
        no_ack: bool,
        delivery: &Delivery,
        left: u32,
    ) {
        let now = self.times.now;
        let Some(channel) = self.open_channel(number) else {
            return;
        };
        let delivery_tag = channel.next_tag();
        let counters = channel.counters.edit();
        counters.redelivered += u64::from(delivery.redelivered);
        if no_ack {
            counters.got_auto_ack += 1;
        } else {
            counters.got += 1;
            channel
                .unacked
                .push(UnackedDelivery::new(delivery_tag, delivery, now));
        }
        note_wait(&mut self.latencies, delivery, now);
        let message = &delivery.message;
        let method = basic::GetOk {
            delivery_tag,
            redelivered: delivery.redelivered,
            exchange: message.exchange(),
            routing_key: message.routing_key(),
            message_count: left,
        };
        with_delivery_content(delivery, |content| {
            self.send_content(number, &method, content)
        });
    }

    /// Whether the client can be told of a consumer that has ended without its doing.
    pub const fn hears_of_cancels(&self) -> bool {
        self.client.capabilities.consumer_cancel_notify
    }

    /// How many deliveries to a consumer the queue does not know to be settled.
    pub fn unsettled_by(&self, channel: ChannelId, consumer: ConsumerId) -> usize {
        let channel = self.channels.get(&channel.0);
        channel.map_or(0, |channel| channel.unsettled_by(consumer))
    }

    /// What a consumer was given.
    pub fn delivered_to(&self, consumer: ConsumerId) -> DeliveredTo {
        let consumer = self.consumers.get(&consumer);
        consumer.map_or_else(DeliveredTo::default, |consumer| consumer.delivered)
    }

    /// Consumers of these channels that hold deliveries, and when each was given the oldest of
    /// them, in monotonic milliseconds. Of a channel, the first [`UNACKED_SCANNED_MAX`]
    /// deliveries are looked at.
    pub fn oldest_unsettled(&self, channels: &[ChannelId]) -> Vec<(ConsumerId, u64)> {
        let now = self.times.now;
        let mut found: ByConsumer<u64> = ByConsumer::default();
        let channels = channels.iter().filter_map(|of| self.channels.get(&of.0));
        for channel in channels {
            // Tags ascend, and so do the times of their deliveries.
            let mut left = channel.consumers.len();
            let mut deliveries = channel.unacked.iter().take(UNACKED_SCANNED_MAX);
            while left > 0
                && let Some(delivery) = deliveries.next()
            {
                let id = delivery.subscription;
                if self.consumers.contains_key(&id) && !found.contains_key(&id) {
                    found.insert(id, now.monotonic_ms.saturating_sub(delivery.age_ms(now)));
                    left -= 1;
                }
            }
        }
        found.into_iter().collect()
    }

    /// Which of these messages, given in ascending order, the client holds on these channels, and
    /// since when. [`UNACKED_SCANNED_MAX`] deliveries are looked at: as many of each channel, the
    /// first ones.
    pub fn unsettled_among(
        &self,
        channels: &[ChannelId],
        messages: &[UnsettledPosition],
    ) -> Vec<UnsettledDelivery> {
        let now = self.times.now;
        let scanned = UNACKED_SCANNED_MAX / channels.len().max(1);
        let mut found = Vec::new();
        for number in channels {
            let channel = self.channels.get(&number.0);
            let deliveries = channel
                .into_iter()
                .flat_map(|channel| channel.unacked.iter());
            for delivery in deliveries.take(scanned) {
                let place = UnsettledPosition {
                    subscription: delivery.subscription,
                    priority_log: delivery.priority_log,
                    index: delivery.index,
                };
                if messages.binary_search(&place).is_ok() {
                    found.push(UnsettledDelivery {
                        place,
                        channel: *number,
                        tag: delivery.tag,
                        redelivered: delivery.redelivered,
                        since_ms: now.monotonic_ms.saturating_sub(delivery.age_ms(now)),
                    });
                }
            }
        }
        found
    }

    /// A consumer has ended without the client's doing: its queue was deleted, or is led elsewhere
    /// now, or it was too slow.
    pub fn consumer_cancelled(&mut self, consumer: ConsumerId) {
        let Some(consumer) = self.consumers.remove(&consumer) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&consumer.channel) {
            channel.consumers.remove(&consumer.tag);
        }
        if self.client.capabilities.consumer_cancel_notify && self.phase == Phase::Running {
            let consumer_tag = &consumer.tag;
            self.send(
                consumer.channel,
                &basic::Cancel {
                    consumer_tag,
                    nowait: true,
                },
            );
        }
    }
}

/// Notes how long a message waited that is delivered for the first time. Those of streams stay
/// there, and wait for nobody: none is known of them.
fn note_wait(latencies: &mut SessionLatencies, delivery: &Delivery, now: Now) {
    let published_ms = delivery.message.summary.published_ms;
    if !delivery.redelivered && published_ms > 0 {
        let waited_ms = now.wall_ms.saturating_sub(published_ms);
        latencies.waits.add(waited_ms, 1);
    }
}

/// Gives `send` a delivery's content: as it is, or with the headers that count earlier deliveries.
fn with_delivery_content(delivery: &Delivery, send: impl FnOnce(&Content<'_>)) {
    const HEADERS: [&str; 2] = ["x-delivery-count", "x-acquired-count"];
    let counts = [delivery.delivery_count, delivery.acquired_count];
    let counts = counts.map(|count| count.filter(|count| *count > 0));
    let converted = as_amqp091(&delivery.message);
    let message = converted.as_ref().unwrap_or(&delivery.message);
    if counts == [None, None] {
        send(&Content::of(message));
        return;
    }
    let mut properties = Properties::trusted(message.properties());
    let mut headers = TableBuilder::copy_of(properties.headers(), &HEADERS);
    for (header, count) in HEADERS.into_iter().zip(counts) {
        if let Some(count) = count {
            headers.push(header, &FieldValue::I64(i64::from(count)));
        }
    }
    properties.headers = Some(headers.as_table());
    send(&Content {
        properties: &properties.to_bytes(),
        message,
    });
}
