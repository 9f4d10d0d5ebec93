//! Link messages as bytes.

use super::super::{
    Command, Event, Fetched, LocalDelivery, Operation, Pieces, Registration, TO_LEADER,
    TO_REMOTE_QUEUE,
};
use super::tag;
use crate::stored;
use bytes::Bytes;
use leveret_client::Delivery;
use leveret_queue::{AttachError, Consumer, Outcome};
use leveret_types::Message;
use leveret_types::limits::{LINK_FRAME_BYTES, LINK_RECORDS_MAX};
use std::ops::Range;

/// Bodies from this size on are pieces of their own and not copied.
const SHARED_BYTES: usize = 16 * 1024;

/// Puts messages of one session into frames. A frame ends where it has become large; whoever gets
/// them gets them in order.
#[derive(Debug)]
pub struct Encoder {
    kind: u8,
    session: u64,
    out: Writer,
    records: usize,
    frames: Vec<Pieces>,
}

impl Encoder {
    /// Frames to a leader.
    #[must_use]
    pub fn to_leader(session: u64) -> Self {
        Self::new(TO_LEADER, session)
    }

    /// Frames to a remote queue.
    #[must_use]
    pub fn to_remote_queue(session: u64) -> Self {
        Self::new(TO_REMOTE_QUEUE, session)
    }

    fn new(kind: u8, session: u64) -> Self {
        let mut encoder = Self {
            kind,
            session,
            out: Writer::default(),
            records: 0,
            frames: Vec::new(),
        };
        encoder.begin();
        encoder
    }

    fn begin(&mut self) {
        self.records = 0;
        self.out.u8(self.kind);
        self.out.u64(self.session);
    }

    /// Counts a record that is about to be written, and ends the frame before it if it would make
    /// it too large. `bytes` is about what it takes.
    fn room(&mut self, bytes: usize) {
        if self.records > 0 && self.is_full(bytes) {
            self.cut();
            self.begin();
        }
        self.records += 1;
    }

    fn is_full(&self, bytes: usize) -> bool {
        self.records >= LINK_RECORDS_MAX || self.out.len + bytes > LINK_FRAME_BYTES
    }

    fn cut(&mut self) {
        self.frames.push(std::mem::take(&mut self.out).finish());
    }

    /// The frames; none if nothing was put in.
    #[must_use]
    pub fn finish(mut self) -> Vec<Pieces> {
        if self.records > 0 {
            self.cut();
        }
        self.frames
    }

    /// Puts a message to a leader in.
    pub fn put_to_leader(&mut self, message: &Command) {
        if let Command::Operations { first, operations } = message {
            return self.put_operations(*first, operations.iter());
        }
        self.room(64);
        let out = &mut self.out;
        match message {
            Command::Operations { .. } => unreachable!("put above"),
            Command::Register(registration) => {
                out.u8(tag::REGISTER);
                out.registration(registration);
            }
            Command::NothingToRegister { term } => {
                out.u8(tag::NOTHING_TO_REGISTER);
                out.u64(*term);
            }
            Command::Acknowledged { first } => {
                out.u8(tag::ACKNOWLEDGED);
                out.u64(*first);
            }
            Command::Attach(consumer) => {
                out.u8(tag::ATTACH);
                out.consumer(consumer);
            }
            Command::Cancel(consumer) => {
                out.u8(tag::CANCEL);
                out.u64(consumer.0);
            }
            Command::Detach(consumer) => {
                out.u8(tag::DETACH);
                out.u64(consumer.0);
            }
            Command::Credit {
                consumer,
                messages,
                bytes,
            } => {
                out.u8(tag::CREDIT);
                out.u64(consumer.0);
                out.u32(*messages);
                out.u64(*bytes);
            }
            Command::Get {
                subscription,
                no_ack,
            } => {
                out.u8(tag::GET);
                out.u64(subscription.0);
                out.u8(u8::from(*no_ack));
            }
            Command::Purge { request } => {
                out.u8(tag::PURGE);
                out.u64(*request);
            }
            Command::Count { request } => {
                out.u8(tag::COUNT);
                out.u64(*request);
            }
            Command::Peek { request, before } => {
                out.u8(tag::PEEK);
                out.u64(*request);
                out.u64(*before);
            }
            Command::Fetch {
                consumer,
                priority_log,
                index,
            } => {
                out.u8(tag::FETCH);
                out.u64(consumer.0);
                out.u8(*priority_log);
                out.u64(*index);
            }
        }
    }

    /// Puts operations in, the first of them numbered `first`: as many records, in as many frames,
    /// as they need.
    pub fn put_operations<'a>(
        &mut self,
        first: u64,
        operations: impl Iterator<Item = &'a Operation>,
    ) {
        // A count is not known before the frame is full, so each operation says whether another
        // follows.
        let mut open = false;
        for (number, operation) in (first..).zip(operations) {
            let bytes = match operation {
                Operation::Publish(message) => stored_len(message),
                Operation::Settle(_) | Operation::Nothing => 32,
            };
            let frames = self.frames.len();
            if open && self.is_full(bytes) {
                self.out.u8(0);
                open = false;
            }
            self.room(bytes);
            assert!(
                !open || frames == self.frames.len(),
                "a frame ends within its operations"
            );
            if open {
                self.out.u8(1);
            } else {
                self.out.u8(tag::OPERATIONS);
                self.out.u64(number);
                open = true;
            }
            self.out.operation(operation);
        }
        if open {
            self.out.u8(0);
        }
    }

    /// Puts a message to a remote queue in.
    pub fn put_to_remote_queue(&mut self, message: &Event) {
        self.room(about(message));
        let out = &mut self.out;
        match message {
            Event::Leading { term } => {
                out.u8(tag::LEADING);
                out.u64(*term);
            }
            Event::NotLeader { term, leader } => {
                out.u8(tag::NOT_LEADER);
                out.u64(*term);
                // 0 is no node of a cluster.
                out.u32(leader.map_or(0, |node| node.0));
            }
            Event::Committed { through } => {
                out.u8(tag::COMMITTED);
                out.u64(*through);
            }
            Event::Refused { sequences } => {
                out.u8(tag::REFUSED);
                out.range(sequences);
            }
            Event::Attached { consumer, result } => {
                out.u8(tag::ATTACHED);
                out.u64(consumer.0);
                out.u8(match result {
                    Ok(()) => 0,
                    Err(AttachError::ExclusiveOnSingleActive) => 2,
                    Err(_) => 1,
                });
            }
            Event::Deliver(delivery) => {
                out.u8(tag::DELIVER);
                out.delivery(delivery);
            }
            Event::DeliverLocal(delivery) => {
                out.u8(tag::DELIVER_LOCAL);
                out.local_delivery(delivery);
            }
            Event::Fetched {
                consumer,
                priority_log,
                index,
                fetched,
            } => {
                out.u8(tag::FETCHED);
                out.u64(consumer.0);
                out.u8(*priority_log);
                out.u64(*index);
                out.fetched(fetched);
            }
            Event::Cancelled(consumer) => {
                out.u8(tag::CANCELLED);
                out.u64(consumer.0);
            }
            Event::Got { subscription, got } => {
                out.u8(tag::GOT);
                out.u64(subscription.0);
                out.u8(u8::from(got.is_some()));
                if let Some((delivery, left)) = got {
                    out.u64(*left);
                    out.delivery(delivery);
                }
            }
            Event::Purged { request, count } => {
                out.u8(tag::PURGED);
                out.u64(*request);
                out.u64(*count);
            }
            Event::Counted {
                request,
                queue_counts,
            } => {
                out.u8(tag::COUNTED);
                out.u64(*request);
                out.u64(queue_counts.ready);
                out.u64(queue_counts.unsettled);
                out.u64(queue_counts.consumers);
            }
            Event::Peeked { request, fetched } => {
                out.u8(tag::PEEKED);
                out.u64(*request);
                out.fetched(fetched);
            }
            Event::TimedOut(consumer) => {
                out.u8(tag::TIMED_OUT);
                out.u64(consumer.0);
            }
            Event::Active {
                consumer,
                activation,
            } => {
                out.u8(tag::ACTIVE);
                out.u64(consumer.0);
                out.u64(*activation);
            }
        }
    }
}

/// About how many bytes a message to a remote queue takes.
fn about(message: &Event) -> usize {
    match message {
        Event::Deliver(delivery)
        | Event::Got {
            got: Some((delivery, _)),
            ..
        } => stored_len(&delivery.message),
        Event::Fetched {
            fetched: Fetched::Message(message),
            ..
        }
        | Event::Peeked {
            fetched: Fetched::Message(message),
            ..
        } => stored_len(message),
        _ => 64,
    }
}

/// Bytes of a frame as they are written.
#[derive(Debug, Default)]
struct Writer {
    pieces: Pieces,
    buffer: Vec<u8>,
    len: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn range(&mut self, range: &Range<u64>) {
        self.u64(range.start);
        self.u64(range.end);
    }

    /// Nothing, or a number: as the number behind a flag.
    fn count(&mut self, count: Option<u32>) {
        self.u8(u8::from(count.is_some()));
        self.u32(count.unwrap_or(0));
    }

    fn message(&mut self, message: &Message) {
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

    fn operation(&mut self, operation: &Operation) {
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

    fn consumer(&mut self, consumer: &Consumer) {
        self.u64(consumer.id.0);
        self.put(&consumer.priority.to_le_bytes());
        self.u8(u8::from(consumer.exclusive) | u8::from(consumer.no_ack) << 1);
        self.u32(consumer.prefetch);
        self.u8(u8::from(consumer.timeout_ms.is_some()));
        self.u64(consumer.timeout_ms.unwrap_or(0));
    }

    fn registration(&mut self, registration: &Registration) {
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
            for unsettled in &subscription.unsettled {
                self.u8(1);
                self.u8(unsettled.priority_log);
                self.range(&unsettled.range);
                self.u64(unsettled.acquired);
                self.u64(unsettled.settled_by);
            }
            self.u8(0);
        }
        self.u8(0);
    }

    fn delivery(&mut self, delivery: &Delivery) {
        self.u64(delivery.consumer.0);
        self.u8(delivery.priority_log);
        self.u64(delivery.index);
        self.u8(u8::from(delivery.redelivered));
        self.count(delivery.delivery_count);
        self.count(delivery.acquired_count);
        self.message(&delivery.message);
    }

    fn local_delivery(&mut self, delivery: &LocalDelivery) {
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

    fn fetched(&mut self, fetched: &Fetched) {
        match fetched {
            Fetched::Gone => self.u8(0),
            Fetched::Unreadable => self.u8(1),
            Fetched::Message(message) => {
                self.u8(2);
                self.message(message);
            }
        }
    }

    fn finish(mut self) -> Pieces {
        if !self.buffer.is_empty() {
            self.pieces.push(Bytes::from(self.buffer));
        }
        self.pieces
    }
}

/// Bytes of a message as it is stored.
fn stored_len(message: &Message) -> usize {
    stored::HEADER_BYTES + message.weight()
}
