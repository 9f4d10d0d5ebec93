//! A connection that speaks the stream protocol: its frames, and what channels make of them. The
//! number of a publisher or a subscription is one less than its channel's.

use leveret_stream_protocol::{Request, next_frame};

use super::channel::Role;
use super::{Connection, Shared};
use crate::engine::consumer::{Consumer, Delivery};
use crate::error::Error;
use crate::stamp;
use crate::stream::{Chunk, ChunkError, Event, FRAME_READ_BYTES_MAX, Fault, Session, section_data};

impl Connection {
    pub(super) fn stream_frames(&mut self, shared: &mut Shared) -> Result<(), Error> {
        let now_us = shared.clock.now_us();
        let before = self.outage.map(|_| shared.heard());
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[self.input_from..self.input_to];
        let mut result = Ok(());
        while result.is_ok() {
            match next_frame(rest, FRAME_READ_BYTES_MAX) {
                Ok(Some(frame)) => {
                    rest = &rest[frame.wire_len()..];
                    let event = match &mut self.session {
                        Some(session) => session.frame(frame, &mut self.output),
                        None => Ok(None),
                    };
                    result = event.and_then(|event| match event {
                        Some(event) => self.on_event(&event, now_us, shared),
                        None => Ok(()),
                    });
                }
                Ok(None) => break,
                Err(error) => result = Err(Fault::Protocol(error.to_string())),
            }
        }
        self.input_from = self.input_to - rest.len();
        self.input = input;
        if before.is_some_and(|before| shared.heard() > before) {
            self.end_outage(now_us, shared);
        }
        result.map_err(|fault| Error::of_stream(&self.place, "", fault))
    }

    #[inline]
    fn on_event(
        &mut self,
        event: &Event<'_>,
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        match event {
            Event::Confirmed {
                publisher_id,
                publishing_ids,
            } => self.on_settled(*publisher_id, publishing_ids.iter(), false, now_us, shared),
            Event::NotKept {
                publisher_id,
                errors,
            } => {
                let ids = errors.iter().map(|(id, _)| *id);
                self.on_settled(*publisher_id, ids, true, now_us, shared)
            }
            Event::Delivered {
                subscription_id,
                chunk,
            } => self.on_chunk(*subscription_id, chunk, now_us, shared),
            Event::Closed => {
                self.closed = true;
                self.readable = false;
                Ok(())
            }
            Event::Opened | Event::Answered { .. } | Event::Metadata(_) => Ok(()),
        }
    }

    fn on_settled(
        &mut self,
        publisher_id: u8,
        ids: impl Iterator<Item = u64>,
        refused: bool,
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        let channel = self.channels.get_mut(usize::from(publisher_id));
        let Some(Role::Publisher(publisher)) = channel.map(|channel| &mut channel.role) else {
            let what = format!("a confirm for publisher {publisher_id}, which there is not");
            return Err(Fault::Protocol(what));
        };
        let tally = &mut shared.tallies[publisher.load];
        let progress = &mut shared.progress[publisher.load];
        for id in ids {
            let settled = publisher.on_settle_id(id, refused, now_us, tally, progress);
            settled.map_err(|_| {
                Fault::Protocol(format!(
                    "message {id} was confirmed and waits for no confirm"
                ))
            })?;
        }
        Ok(())
    }

    fn on_chunk(
        &mut self,
        subscription_id: u8,
        chunk: &[u8],
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        let channel = self.channels.get_mut(usize::from(subscription_id));
        let Some(Role::Consumer(consumer)) = channel.map(|channel| &mut channel.role) else {
            let what = format!("a chunk for subscription {subscription_id}, which there is not");
            return Err(Fault::Protocol(what));
        };
        let taken = consumer.on_chunk(chunk, now_us, shared);
        taken.map_err(|error| Fault::Protocol(error.to_string()))?;
        if let Some(session) = self.session.as_ref().filter(|_| !self.closing) {
            session.credit(subscription_id, 1, &mut self.output);
        }
        Ok(())
    }
}

impl Consumer {
    /// Takes the messages of a chunk that it has not had.
    fn on_chunk(
        &mut self,
        bytes: &[u8],
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<(), ChunkError> {
        let chunk = match Chunk::parse(bytes) {
            // What a CRC finds is the damage that the run looks for.
            Err(ChunkError::Checksum { .. }) => {
                if let Some(ledger) = self.ledger {
                    shared.ledgers[ledger].on_damaged();
                }
                return Ok(());
            }
            parsed => parsed?,
        };
        let load = self.load;
        let from = self.next_offset;
        chunk.each(|record| {
            if record.offset < from {
                return;
            }
            let data = section_data(record.body);
            let mut reader = stamp::Reader::default();
            reader.take(data.unwrap_or_default());
            let delivery = Delivery {
                redelivered: false,
                size: data.unwrap_or(record.body).len() as u64,
                stamp: reader.finish(),
            };
            let tally = &mut shared.tallies[load];
            let progress = &mut shared.progress[load];
            self.on_delivery(&delivery, now_us, &mut shared.ledgers, tally, progress);
        })?;
        self.next_offset = from.max(chunk.first + u64::from(chunk.records));
        Ok(())
    }
}

/// Has a consumer begin, where it has come to, or end.
pub(super) fn follow_subscription(
    consumer: &Consumer,
    number: u16,
    consume: bool,
    session: &mut Session,
    out: &mut Vec<u8>,
) {
    let subscription_id = (number - 1) as u8;
    let request = match consume {
        true => Request::Subscribe {
            subscription_id,
            stream: &consumer.queue,
            offset: consumer.offset(),
            credit: consumer.credit,
            properties: Default::default(),
        },
        false => Request::Unsubscribe { subscription_id },
    };
    session.request(request, out);
}
