//! The bytes of link messages.

use super::{
    Fetched, HeldRange, LocalDelivery, Operation, Pieces, Presentation, PresentedHolder, Settle,
    Standing, TO_LEADER, TO_PROXY, ToLeader, ToProxy,
};
use crate::stored;
use bytes::{Buf, Bytes};
use leveret_queue::{AttachError, Consumer, Outcome};
use leveret_session::contract::Delivery;
use leveret_types::limits::{LINK_FRAME_BYTES, LINK_RECORDS_MAX};
use leveret_types::{ConsumerId, Message, NodeId, QueueId};
use std::ops::Range;

/// Bodies from this size on are pieces of their own and not copied.
const SHARED_BYTES: usize = 16 * 1024;

/// Bytes that are no link frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What could not be read.
    pub what: &'static str,
    /// How many bytes were left there.
    pub left: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a frame between nodes is malformed: {} at {} bytes before its end",
            self.what, self.left
        )
    }
}

impl std::error::Error for Malformed {}

/// A frame to a leader.
#[derive(Debug)]
pub struct ToLeaderFrame {
    /// The session.
    pub session: u64,
    /// What is said, in order.
    pub messages: Vec<ToLeader>,
}

/// A frame to a proxy.
#[derive(Debug)]
pub struct ToProxyFrame {
    /// The session.
    pub session: u64,
    /// What is said, in order.
    pub messages: Vec<ToProxy>,
}

mod tag {
    pub(super) const PRESENT: u8 = 1;
    pub(super) const ABSENT: u8 = 2;
    pub(super) const OPERATIONS: u8 = 3;
    pub(super) const ATTACH: u8 = 4;
    pub(super) const CANCEL: u8 = 5;
    pub(super) const DETACH: u8 = 6;
    pub(super) const CREDIT: u8 = 7;
    pub(super) const GET: u8 = 8;
    pub(super) const PURGE: u8 = 9;
    pub(super) const COUNT: u8 = 10;
    pub(super) const FETCH: u8 = 11;

    pub(super) const LEADING: u8 = 1;
    pub(super) const NOT_LEADER: u8 = 2;
    pub(super) const COMMITTED: u8 = 3;
    pub(super) const REFUSED: u8 = 4;
    pub(super) const ATTACHED: u8 = 5;
    pub(super) const DELIVER: u8 = 6;
    pub(super) const DELIVER_LOCAL: u8 = 7;
    pub(super) const GOT: u8 = 8;
    pub(super) const PURGED: u8 = 9;
    pub(super) const COUNTED: u8 = 10;
    pub(super) const TIMED_OUT: u8 = 11;
    pub(super) const CANCELLED: u8 = 12;
    pub(super) const FETCHED: u8 = 13;
    pub(super) const ACTIVE: u8 = 14;

    pub(super) const OP_NOTHING: u8 = 0;
    pub(super) const OP_PUBLISH: u8 = 1;
    pub(super) const OP_SETTLE: u8 = 2;
}

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

    /// Frames to a proxy.
    #[must_use]
    pub fn to_proxy(session: u64) -> Self {
        Self::new(TO_PROXY, session)
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
    pub fn put_to_leader(&mut self, message: &ToLeader) {
        if let ToLeader::Operations { first, operations } = message {
            return self.put_operations(*first, operations.iter());
        }
        self.room(64);
        let out = &mut self.out;
        match message {
            ToLeader::Operations { .. } => unreachable!("put above"),
            ToLeader::Present(presentation) => {
                out.u8(tag::PRESENT);
                out.presentation(presentation);
            }
            ToLeader::Absent { term } => {
                out.u8(tag::ABSENT);
                out.u64(*term);
            }
            ToLeader::Attach(consumer) => {
                out.u8(tag::ATTACH);
                out.consumer(consumer);
            }
            ToLeader::Cancel(consumer) => {
                out.u8(tag::CANCEL);
                out.u64(consumer.0);
            }
            ToLeader::Detach(consumer) => {
                out.u8(tag::DETACH);
                out.u64(consumer.0);
            }
            ToLeader::Credit {
                consumer,
                messages,
                bytes,
            } => {
                out.u8(tag::CREDIT);
                out.u64(consumer.0);
                out.u32(*messages);
                out.u64(*bytes);
            }
            ToLeader::Get { holder, no_ack } => {
                out.u8(tag::GET);
                out.u64(holder.0);
                out.u8(u8::from(*no_ack));
            }
            ToLeader::Purge { request } => {
                out.u8(tag::PURGE);
                out.u64(*request);
            }
            ToLeader::Count { request } => {
                out.u8(tag::COUNT);
                out.u64(*request);
            }
            ToLeader::Fetch {
                consumer,
                lane,
                index,
            } => {
                out.u8(tag::FETCH);
                out.u64(consumer.0);
                out.u8(*lane);
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

    /// Puts a message to a proxy in.
    pub fn put_to_proxy(&mut self, message: &ToProxy) {
        let bytes = match message {
            ToProxy::Deliver(delivery) => stored_len(&delivery.message),
            ToProxy::Fetched {
                fetched: Fetched::Message(message),
                ..
            } => stored_len(message),
            _ => 64,
        };
        self.room(bytes);
        let out = &mut self.out;
        match message {
            ToProxy::Leading { term } => {
                out.u8(tag::LEADING);
                out.u64(*term);
            }
            ToProxy::NotLeader { term, leader } => {
                out.u8(tag::NOT_LEADER);
                out.u64(*term);
                // 0 is no node of a cluster.
                out.u32(leader.map_or(0, |node| node.0));
            }
            ToProxy::Committed { through } => {
                out.u8(tag::COMMITTED);
                out.u64(*through);
            }
            ToProxy::Refused { sequences } => {
                out.u8(tag::REFUSED);
                out.range(sequences);
            }
            ToProxy::Attached { consumer, result } => {
                out.u8(tag::ATTACHED);
                out.u64(consumer.0);
                out.u8(match result {
                    Ok(()) => 0,
                    Err(AttachError::ExclusiveOnSingleActive) => 2,
                    Err(_) => 1,
                });
            }
            ToProxy::Deliver(delivery) => {
                out.u8(tag::DELIVER);
                out.delivery(delivery);
            }
            ToProxy::DeliverLocal(delivery) => {
                out.u8(tag::DELIVER_LOCAL);
                out.local_delivery(delivery);
            }
            ToProxy::Fetched {
                consumer,
                lane,
                index,
                fetched,
            } => {
                out.u8(tag::FETCHED);
                out.u64(consumer.0);
                out.u8(*lane);
                out.u64(*index);
                out.fetched(fetched);
            }
            ToProxy::Cancelled(consumer) => {
                out.u8(tag::CANCELLED);
                out.u64(consumer.0);
            }
            ToProxy::Got { holder, got } => {
                out.u8(tag::GOT);
                out.u64(holder.0);
                out.u8(u8::from(got.is_some()));
                if let Some((delivery, left)) = got {
                    out.u64(*left);
                    out.delivery(delivery);
                }
            }
            ToProxy::Purged { request, count } => {
                out.u8(tag::PURGED);
                out.u64(*request);
                out.u64(*count);
            }
            ToProxy::Counted { request, standing } => {
                out.u8(tag::COUNTED);
                out.u64(*request);
                out.u64(standing.ready);
                out.u64(standing.unsettled);
                out.u64(standing.consumers);
            }
            ToProxy::TimedOut(consumer) => {
                out.u8(tag::TIMED_OUT);
                out.u64(consumer.0);
            }
            ToProxy::Active {
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

fn stored_len(message: &Message) -> usize {
    stored::HEADER_BYTES + message.weight()
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
                self.u64(settle.holder.0);
                self.u8(settle.lane);
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

    fn presentation(&mut self, presentation: &Presentation) {
        self.u64(presentation.start);
        self.u64(presentation.term);
        self.u64(presentation.first_sequence);
        for holder in &presentation.holders {
            self.u8(1);
            self.u64(holder.id.0);
            let activation = holder.consumer.map(|_| holder.activation);
            let activation = activation.filter(|activation| *activation > 0);
            self.u8(u8::from(holder.consumer.is_some()) + u8::from(activation.is_some()));
            if let Some(consumer) = &holder.consumer {
                self.consumer(consumer);
            }
            if let Some(activation) = activation {
                self.u64(activation);
            }
            for held in &holder.held {
                self.u8(1);
                self.u8(held.lane);
                self.range(&held.range);
                self.u64(held.acquired);
                self.u64(held.settled_by);
            }
            self.u8(0);
        }
        self.u8(0);
    }

    fn delivery(&mut self, delivery: &Delivery) {
        self.u64(delivery.consumer.0);
        self.u8(delivery.lane);
        self.u64(delivery.index);
        self.u8(u8::from(delivery.redelivered));
        self.count(delivery.delivery_count);
        self.count(delivery.acquired_count);
        self.message(&delivery.message);
    }

    fn local_delivery(&mut self, delivery: &LocalDelivery) {
        self.u64(delivery.consumer.0);
        self.u8(delivery.lane);
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

/// Reads a frame to a leader.
///
/// # Errors
/// If the bytes are none.
pub fn decode_to_leader(bytes: Bytes) -> Result<ToLeaderFrame, Malformed> {
    let mut reader = Reader::new(bytes);
    let session = reader.frame(TO_LEADER)?;
    let mut messages = Vec::new();
    while !reader.bytes.is_empty() {
        messages.push(reader.message_for_leader()?);
    }
    Ok(ToLeaderFrame { session, messages })
}

/// Reads a frame to a proxy of `queue`.
///
/// # Errors
/// If the bytes are none.
pub fn decode_to_proxy(queue: QueueId, bytes: Bytes) -> Result<ToProxyFrame, Malformed> {
    let mut reader = Reader::new(bytes);
    let session = reader.frame(TO_PROXY)?;
    let mut messages = Vec::new();
    while !reader.bytes.is_empty() {
        messages.push(reader.message_for_proxy(queue)?);
    }
    Ok(ToProxyFrame { session, messages })
}

/// Bytes of a frame as they are read. A record takes much more memory than bytes, so that their
/// number is bounded; what a presentation lists does not.
struct Reader {
    bytes: Bytes,
    records: usize,
}

impl Reader {
    const fn new(bytes: Bytes) -> Self {
        Self { bytes, records: 0 }
    }

    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed {
            what,
            left: self.bytes.len(),
        }
    }

    fn frame(&mut self, kind: u8) -> Result<u64, Malformed> {
        match self.u8()? == kind {
            true => self.u64(),
            false => Err(self.malformed("its kind")),
        }
    }

    fn record(&mut self) -> Result<(), Malformed> {
        self.records += 1;
        match self.records > LINK_RECORDS_MAX {
            true => Err(self.malformed("the number of its records")),
            false => Ok(()),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = *self
            .bytes
            .first_chunk::<N>()
            .ok_or(self.malformed("a number"))?;
        self.bytes.advance(N);
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("a flag")),
        }
    }

    fn id(&mut self) -> Result<ConsumerId, Malformed> {
        Ok(ConsumerId(self.u64()?))
    }

    /// Of a message, which has one behind it.
    fn index(&mut self) -> Result<u64, Malformed> {
        let index = self.u64()?;
        match index {
            u64::MAX => Err(self.malformed("an index")),
            index => Ok(index),
        }
    }

    fn range(&mut self) -> Result<Range<u64>, Malformed> {
        let range = self.u64()?..self.u64()?;
        match range.is_empty() {
            true => Err(self.malformed("a range")),
            false => Ok(range),
        }
    }

    fn count(&mut self) -> Result<Option<u32>, Malformed> {
        let there = self.flag()?;
        let count = self.u32()?;
        Ok(there.then_some(count))
    }

    fn message(&mut self) -> Result<Message, Malformed> {
        let len = self.u32()? as usize;
        if len > self.bytes.len() {
            return Err(self.malformed("a message's length"));
        }
        let bytes = self.bytes.split_to(len);
        stored::decode(bytes).ok_or(self.malformed("a message"))
    }

    fn consumer(&mut self) -> Result<Consumer, Malformed> {
        let id = self.id()?;
        let priority = i64::from_le_bytes(self.take()?);
        let flags = self.u8()?;
        if flags > 3 {
            return Err(self.malformed("a consumer's flags"));
        }
        let prefetch = self.u32()?;
        let has_timeout = self.flag()?;
        let timeout_ms = self.u64()?;
        Ok(Consumer {
            id,
            priority,
            exclusive: flags & 1 != 0,
            no_ack: flags & 2 != 0,
            prefetch,
            timeout_ms: has_timeout.then_some(timeout_ms),
        })
    }

    fn presentation(&mut self) -> Result<Presentation, Malformed> {
        let mut presentation = Presentation {
            start: self.u64()?,
            term: self.u64()?,
            first_sequence: self.u64()?,
            holders: Vec::new(),
        };
        while self.flag()? {
            let id = self.id()?;
            let (consumer, activation) = self.presented_consumer()?;
            let mut held = Vec::new();
            while self.flag()? {
                held.push(HeldRange {
                    lane: self.u8()?,
                    range: self.range()?,
                    acquired: self.u64()?,
                    settled_by: self.u64()?,
                });
            }
            presentation.holders.push(PresentedHolder {
                id,
                consumer,
                activation,
                held,
            });
        }
        Ok(presentation)
    }

    fn presented_consumer(&mut self) -> Result<(Option<Consumer>, u64), Malformed> {
        match self.u8()? {
            0 => Ok((None, 0)),
            1 => Ok((Some(self.consumer()?), 0)),
            2 => match (self.consumer()?, self.u64()?) {
                (consumer, activation @ 1..) => Ok((Some(consumer), activation)),
                (_, 0) => Err(self.malformed("an activation")),
            },
            _ => Err(self.malformed("whether a holder is a consumer")),
        }
    }

    fn operations(&mut self) -> Result<ToLeader, Malformed> {
        let first = self.u64()?;
        let mut operations = vec![self.operation()?];
        while self.flag()? {
            self.record()?;
            operations.push(self.operation()?);
        }
        match first.checked_add(operations.len() as u64) {
            Some(_) if first > 0 => Ok(ToLeader::Operations { first, operations }),
            _ => Err(self.malformed("a sequence")),
        }
    }

    fn operation(&mut self) -> Result<Operation, Malformed> {
        match self.u8()? {
            tag::OP_NOTHING => Ok(Operation::Nothing),
            tag::OP_PUBLISH => Ok(Operation::Publish(self.message()?)),
            tag::OP_SETTLE => Ok(Operation::Settle(Settle {
                holder: self.id()?,
                lane: self.u8()?,
                range: self.range()?,
                outcome: match self.u8()? {
                    0 => Outcome::Accept,
                    1 => Outcome::Requeue { count: false },
                    2 => Outcome::Requeue { count: true },
                    3 => Outcome::Reject,
                    4 => Outcome::Release,
                    _ => return Err(self.malformed("an outcome")),
                },
            })),
            _ => Err(self.malformed("an operation")),
        }
    }

    fn message_for_leader(&mut self) -> Result<ToLeader, Malformed> {
        self.record()?;
        Ok(match self.u8()? {
            tag::PRESENT => ToLeader::Present(Box::new(self.presentation()?)),
            tag::ABSENT => ToLeader::Absent { term: self.u64()? },
            tag::OPERATIONS => self.operations()?,
            tag::ATTACH => ToLeader::Attach(self.consumer()?),
            tag::CANCEL => ToLeader::Cancel(self.id()?),
            tag::DETACH => ToLeader::Detach(self.id()?),
            tag::CREDIT => ToLeader::Credit {
                consumer: self.id()?,
                messages: self.u32()?,
                bytes: self.u64()?,
            },
            tag::GET => ToLeader::Get {
                holder: self.id()?,
                no_ack: self.flag()?,
            },
            tag::PURGE => ToLeader::Purge {
                request: self.u64()?,
            },
            tag::COUNT => ToLeader::Count {
                request: self.u64()?,
            },
            tag::FETCH => ToLeader::Fetch {
                consumer: self.id()?,
                lane: self.u8()?,
                index: self.u64()?,
            },
            _ => return Err(self.malformed("a record's tag")),
        })
    }

    fn message_for_proxy(&mut self, queue: QueueId) -> Result<ToProxy, Malformed> {
        self.record()?;
        Ok(match self.u8()? {
            tag::LEADING => ToProxy::Leading { term: self.u64()? },
            tag::NOT_LEADER => ToProxy::NotLeader {
                term: self.u64()?,
                leader: Some(self.u32()?).filter(|node| *node != 0).map(NodeId),
            },
            tag::COMMITTED => ToProxy::Committed {
                through: self.u64()?,
            },
            tag::REFUSED => ToProxy::Refused {
                sequences: self.range()?,
            },
            tag::ATTACHED => ToProxy::Attached {
                consumer: self.id()?,
                result: match self.u8()? {
                    0 => Ok(()),
                    1 => Err(AttachError::ExclusiveTaken),
                    2 => Err(AttachError::ExclusiveOnSingleActive),
                    _ => return Err(self.malformed("an answer")),
                },
            },
            tag::DELIVER => ToProxy::Deliver(self.delivery(queue)?),
            tag::DELIVER_LOCAL => ToProxy::DeliverLocal(self.local_delivery()?),
            tag::FETCHED => ToProxy::Fetched {
                consumer: self.id()?,
                lane: self.u8()?,
                index: self.u64()?,
                fetched: self.fetched()?,
            },
            tag::GOT => ToProxy::Got {
                holder: self.id()?,
                got: match self.flag()? {
                    false => None,
                    true => {
                        let left = self.u64()?;
                        Some((self.delivery(queue)?, left))
                    }
                },
            },
            tag::PURGED => ToProxy::Purged {
                request: self.u64()?,
                count: self.u64()?,
            },
            tag::COUNTED => ToProxy::Counted {
                request: self.u64()?,
                standing: Standing {
                    ready: self.u64()?,
                    unsettled: self.u64()?,
                    consumers: self.u64()?,
                },
            },
            tag::CANCELLED => ToProxy::Cancelled(self.id()?),
            tag::TIMED_OUT => ToProxy::TimedOut(self.id()?),
            tag::ACTIVE => ToProxy::Active {
                consumer: self.id()?,
                activation: self.u64()?,
            },
            _ => return Err(self.malformed("a record's tag")),
        })
    }

    fn local_delivery(&mut self) -> Result<LocalDelivery, Malformed> {
        Ok(LocalDelivery {
            consumer: self.id()?,
            lane: self.u8()?,
            index: self.index()?,
            redelivered: self.flag()?,
            delivery_count: self.count()?,
            acquired_count: self.count()?,
            bytes: self.u32()?,
            entry: self.u64()?,
            term: self.u64()?,
        })
    }

    fn fetched(&mut self) -> Result<Fetched, Malformed> {
        match self.u8()? {
            0 => Ok(Fetched::Gone),
            1 => Ok(Fetched::Unreadable),
            2 => Ok(Fetched::Message(self.message()?)),
            _ => Err(self.malformed("what was fetched")),
        }
    }

    fn delivery(&mut self, queue: QueueId) -> Result<Delivery, Malformed> {
        Ok(Delivery {
            consumer: self.id()?,
            queue,
            lane: self.u8()?,
            index: self.index()?,
            redelivered: self.flag()?,
            delivery_count: self.count()?,
            acquired_count: self.count()?,
            message: self.message()?,
        })
    }
}
