//! The parts of link messages as bytes.

use super::super::{Fetched, LocalDelivery, Operation, Pieces, Registration};
use super::tag;
use crate::stored;
use bytes::Bytes;
use leveret_client::Delivery;
use leveret_queue::{Consumer, Outcome};
use leveret_types::Message;
use std::ops::Range;

/// Bodies from this size on are pieces of their own and not copied.
const SHARED_BYTES: usize = 16 * 1024;

/// Bytes of a frame as they are written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pieces: Pieces,
    buffer: Vec<u8>,
    pub(super) len: usize,
}

impl Writer {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    pub(super) fn range(&mut self, range: &Range<u64>) {
        self.u64(range.start);
        self.u64(range.end);
    }

    /// Nothing, or a number: as the number behind a flag.
    pub(super) fn count(&mut self, count: Option<u32>) {
        self.u8(u8::from(count.is_some()));
        self.u32(count.unwrap_or(0));
    }

    pub(super) fn message(&mut self, message: &Message) {
        let parts = message.parts();
        self.u32(u32::try_from(stored_len(message)).expect("a message is below 4 GiB"));
        self.put(&stored::header(message));
        self.put(parts.exchange);
        self.put(parts.routing_key);
        self.put(parts.properties);
        if parts.body.len() < SHARED_BYTES {
            self.put(parts.body);
            return;
        }
        self.pieces
            .push(Bytes::from(std::mem::take(&mut self.buffer)));
        self.pieces.push(message.body_shared());
        self.len += parts.body.len();
    }

    pub(super) fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Nothing => self.u8(tag::OP_NOTHING),
            Operation::Publish(message) => {
                self.u8(tag::OP_PUBLISH);
                self.message(message);
            }
            Operation::Settle(settle) => {
                self.u8(tag::OP_SETTLE);
                self.u64(settle.subscription.0);
                self.u8(settle.priority_log);
                self.range(&settle.range);
                self.u8(match settle.outcome {
                    Outcome::Accept => 0,
                    Outcome::Requeue { count: false } => 1,
                    Outcome::Requeue { count: true } => 2,
                    Outcome::Reject => 3,
                    Outcome::Release => 4,
                });
            }
        }
    }

    pub(super) fn consumer(&mut self, consumer: &Consumer) {
        self.u64(consumer.id.0);
        self.put(&consumer.priority.to_le_bytes());
        self.u8(u8::from(consumer.exclusive) | u8::from(consumer.no_ack) << 1);
        self.u32(consumer.prefetch);
        self.u8(u8::from(consumer.timeout_ms.is_some()));
        self.u64(consumer.timeout_ms.unwrap_or(0));
    }

    pub(super) fn registration(&mut self, registration: &Registration) {
        self.u64(registration.start);
        self.u64(registration.term);
        self.u64(registration.first_sequence);
        for subscription in &registration.subscriptions {
            self.u8(1);
            self.u64(subscription.id.0);
            let activation = subscription.consumer.map(|_| subscription.activation);
            let activation = activation.filter(|activation| *activation > 0);
            self.u8(u8::from(subscription.consumer.is_some()) + u8::from(activation.is_some()));
            if let Some(consumer) = &subscription.consumer {
                self.consumer(consumer);
            }
            if let Some(activation) = activation {
                self.u64(activation);
            }
            for held in &subscription.held {
                self.u8(1);
                self.u8(held.priority_log);
                self.range(&held.range);
                self.u64(held.acquired);
                self.u64(held.settled_by);
            }
            self.u8(0);
        }
        self.u8(0);
    }

    pub(super) fn delivery(&mut self, delivery: &Delivery) {
        self.u64(delivery.consumer.0);
        self.u8(delivery.priority_log);
        self.u64(delivery.index);
        self.u8(u8::from(delivery.redelivered));
        self.count(delivery.delivery_count);
        self.count(delivery.acquired_count);
        self.message(&delivery.message);
    }

    pub(super) fn local_delivery(&mut self, delivery: &LocalDelivery) {
        self.u64(delivery.consumer.0);
        self.u8(delivery.priority_log);
        self.u64(delivery.index);
        self.u8(u8::from(delivery.redelivered));
        self.count(delivery.delivery_count);
        self.count(delivery.acquired_count);
        self.u32(delivery.bytes);
        self.u64(delivery.entry);
        self.u64(delivery.term);
    }

    pub(super) fn fetched(&mut self, fetched: &Fetched) {
        match fetched {
            Fetched::Gone => self.u8(0),
            Fetched::Unreadable => self.u8(1),
            Fetched::Message(message) => {
                self.u8(2);
                self.message(message);
            }
        }
    }

    pub(super) fn finish(mut self) -> Pieces {
        if !self.buffer.is_empty() {
            self.pieces.push(Bytes::from(self.buffer));
        }
        self.pieces
    }
}

/// Bytes of a message as it is stored.
pub(super) fn stored_len(message: &Message) -> usize {
    stored::HEADER_BYTES + message.weight()
}
