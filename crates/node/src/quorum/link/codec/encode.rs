//! Link messages as bytes.

use super::super::{Command, Event, Fetched, Operation, Pieces, TO_LEADER, TO_REMOTE_QUEUE};
use super::tag;
use super::writer::{Writer, stored_len};
use leveret_queue::AttachError;
use leveret_types::limits::{LINK_FRAME_BYTES, LINK_RECORDS_MAX};

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
            Command::Present(registration) => {
                out.u8(tag::PRESENT);
                out.registration(registration);
            }
            Command::Absent { term } => {
                out.u8(tag::ABSENT);
                out.u64(*term);
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
