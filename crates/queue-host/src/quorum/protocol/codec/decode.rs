//! Link messages out of bytes.

use super::super::{
    Command, Event, Fetched, LocalDelivery, Operation, QueueCounts, RegisteredSubscription,
    Registration, Settle, TO_LEADER, TO_REMOTE_QUEUE, UnsettledRange,
};
use super::{CommandFrame, EventFrame, Malformed, tag};
use crate::stored;
use bytes::{Buf, Bytes};
use leveret_client::Delivery;
use leveret_queue::{AttachError, Consumer, Outcome};
use leveret_types::limits::LINK_RECORDS_MAX;
use leveret_types::{ConsumerId, Message, NodeId, QueueId};
use std::ops::Range;

/// Reads a frame to a leader.
///
/// # Errors
/// If the bytes are none.
pub fn decode_to_leader(bytes: Bytes) -> Result<CommandFrame, Malformed> {
    let mut reader = Reader::new(bytes);
    let session = reader.frame(TO_LEADER)?;
    let mut messages = Vec::new();
    while !reader.bytes.is_empty() {
        messages.push(reader.message_for_leader()?);
    }
    Ok(CommandFrame { session, messages })
}

/// Reads a frame to a remote queue of `queue`.
///
/// # Errors
/// If the bytes are none.
pub fn decode_to_remote_queue(queue: QueueId, bytes: Bytes) -> Result<EventFrame, Malformed> {
    let mut reader = Reader::new(bytes);
    let session = reader.frame(TO_REMOTE_QUEUE)?;
    let mut messages = Vec::new();
    while !reader.bytes.is_empty() {
        messages.push(reader.message_for_remote_queue(queue)?);
    }
    Ok(EventFrame { session, messages })
}

/// Bytes of a frame as they are read. A record takes much more memory than bytes, so that their
/// number is bounded; what a registration lists does not.
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

    fn registration(&mut self) -> Result<Registration, Malformed> {
        let mut registration = Registration {
            start: self.u64()?,
            term: self.u64()?,
            first_sequence: self.u64()?,
            subscriptions: Vec::new(),
        };
        while self.flag()? {
            let id = self.id()?;
            let (consumer, activation) = self.registered_consumer()?;
            let mut unsettled = Vec::new();
            while self.flag()? {
                unsettled.push(UnsettledRange {
                    priority_log: self.u8()?,
                    range: self.range()?,
                    acquired: self.u64()?,
                    settled_by: self.u64()?,
                });
            }
            registration.subscriptions.push(RegisteredSubscription {
                id,
                consumer,
                activation,
                unsettled,
            });
        }
        Ok(registration)
    }

    fn registered_consumer(&mut self) -> Result<(Option<Consumer>, u64), Malformed> {
        match self.u8()? {
            0 => Ok((None, 0)),
            1 => Ok((Some(self.consumer()?), 0)),
            2 => match (self.consumer()?, self.u64()?) {
                (consumer, activation @ 1..) => Ok((Some(consumer), activation)),
                (_, 0) => Err(self.malformed("an activation")),
            },
            _ => Err(self.malformed("whether a subscription is a consumer")),
        }
    }

    fn operations(&mut self) -> Result<Command, Malformed> {
        let first = self.u64()?;
        let mut operations = vec![self.operation()?];
        while self.flag()? {
            self.record()?;
            operations.push(self.operation()?);
        }
        match first.checked_add(operations.len() as u64) {
            Some(_) if first > 0 => Ok(Command::Operations { first, operations }),
            _ => Err(self.malformed("a sequence")),
        }
    }

    fn operation(&mut self) -> Result<Operation, Malformed> {
        match self.u8()? {
            tag::OP_NOTHING => Ok(Operation::Nothing),
            tag::OP_PUBLISH => Ok(Operation::Publish(self.message()?)),
            tag::OP_SETTLE => Ok(Operation::Settle(Settle {
                subscription: self.id()?,
                priority_log: self.u8()?,
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

    fn message_for_leader(&mut self) -> Result<Command, Malformed> {
        self.record()?;
        Ok(match self.u8()? {
            tag::REGISTER => Command::Register(Box::new(self.registration()?)),
            tag::NOTHING_TO_REGISTER => Command::NothingToRegister { term: self.u64()? },
            tag::OPERATIONS => self.operations()?,
            tag::ACKNOWLEDGED => Command::Acknowledged { first: self.u64()? },
            tag::ATTACH => Command::Attach(self.consumer()?),
            tag::CANCEL => Command::Cancel(self.id()?),
            tag::DETACH => Command::Detach(self.id()?),
            tag::CREDIT => Command::Credit {
                consumer: self.id()?,
                messages: self.u32()?,
                bytes: self.u64()?,
            },
            tag::GET => Command::Get {
                subscription: self.id()?,
                no_ack: self.flag()?,
            },
            tag::PURGE => Command::Purge {
                request: self.u64()?,
            },
            tag::COUNT => Command::Count {
                request: self.u64()?,
            },
            tag::PEEK => Command::Peek {
                request: self.u64()?,
                before: self.u64()?,
            },
            tag::FETCH => Command::Fetch {
                consumer: self.id()?,
                priority_log: self.u8()?,
                index: self.u64()?,
            },
            _ => return Err(self.malformed("a record's tag")),
        })
    }

    fn message_for_remote_queue(&mut self, queue: QueueId) -> Result<Event, Malformed> {
        self.record()?;
        Ok(match self.u8()? {
            tag::LEADING => Event::Leading { term: self.u64()? },
            tag::NOT_LEADER => Event::NotLeader {
                term: self.u64()?,
                leader: Some(self.u32()?).filter(|node| *node != 0).map(NodeId),
            },
            tag::COMMITTED => Event::Committed {
                through: self.u64()?,
            },
            tag::REFUSED => Event::Refused {
                sequences: self.range()?,
            },
            tag::ATTACHED => Event::Attached {
                consumer: self.id()?,
                result: match self.u8()? {
                    0 => Ok(()),
                    1 => Err(AttachError::ExclusiveTaken),
                    2 => Err(AttachError::ExclusiveOnSingleActive),
                    _ => return Err(self.malformed("an answer")),
                },
            },
            tag::DELIVER => Event::Deliver(self.delivery(queue)?),
            tag::DELIVER_LOCAL => Event::DeliverLocal(self.local_delivery()?),
            tag::FETCHED => Event::Fetched {
                consumer: self.id()?,
                priority_log: self.u8()?,
                index: self.u64()?,
                fetched: self.fetched()?,
            },
            tag::GOT => Event::Got {
                subscription: self.id()?,
                got: match self.flag()? {
                    false => None,
                    true => {
                        let left = self.u64()?;
                        Some((self.delivery(queue)?, left))
                    }
                },
            },
            tag::PURGED => Event::Purged {
                request: self.u64()?,
                count: self.u64()?,
            },
            tag::COUNTED => Event::Counted {
                request: self.u64()?,
                queue_counts: QueueCounts {
                    ready: self.u64()?,
                    unsettled: self.u64()?,
                    consumers: self.u64()?,
                },
            },
            tag::PEEKED => Event::Peeked {
                request: self.u64()?,
                fetched: self.fetched()?,
            },
            tag::CANCELLED => Event::Cancelled(self.id()?),
            tag::TIMED_OUT => Event::TimedOut(self.id()?),
            tag::ACTIVE => Event::Active {
                consumer: self.id()?,
                activation: self.u64()?,
            },
            _ => return Err(self.malformed("a record's tag")),
        })
    }

    fn local_delivery(&mut self) -> Result<LocalDelivery, Malformed> {
        Ok(LocalDelivery {
            consumer: self.id()?,
            priority_log: self.u8()?,
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
            priority_log: self.u8()?,
            index: self.index()?,
            redelivered: self.flag()?,
            delivery_count: self.count()?,
            acquired_count: self.count()?,
            message: self.message()?,
        })
    }
}
