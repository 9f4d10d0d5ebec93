//! Subscriptions of a connection: the client's credit, and how much of it the streams have.
//!
//! A client may give credit for thousands of chunks and then not read. So the streams are given
//! little of it at a time, and nothing while the output is full: what a connection holds is bounded
//! by that, not by what the client announces.

use crate::port::Port;
use crate::publishers::number_of;
use crate::requests::{Done, Then, offset_of, reference_of};
use crate::session::Session;
use bytes::Bytes;
use leveret_auth::Access;
use leveret_stream::{Command, Filter, ReaderId, RequestId, SharedChunk};
use leveret_stream_protocol::server::put_deliver_head;
use leveret_stream_protocol::{Key, OffsetSpec, ResponseCode, ServerCommand};
use leveret_types::QueueId;
use leveret_types::limits::{OUTBOX_BYTES_MAX, STREAM_CHUNKS_UNDER_WAY_MAX};

/// One subscription.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Its number at the streams: that of the client may be used again.
    number: ReaderId,
    pub(crate) stream: String,
    pub(crate) id: QueueId,
    /// Chunks that the client takes and the streams have not been told of.
    credit: u32,
    /// Chunks that the streams may send.
    under_way: u32,
}

/// What a client wants to read.
#[derive(Debug)]
pub(crate) struct Subscribe {
    subscription_id: u8,
    stream: String,
    offset: OffsetSpec,
    credit: u16,
    filter: Option<Filter>,
    name: Option<String>,
    single_active: bool,
}

impl Subscribe {
    pub(crate) fn new(
        subscription_id: u8,
        stream: &str,
        offset: OffsetSpec,
        credit: u16,
        properties: &[(&str, &str)],
    ) -> Self {
        let value = |name: &str| properties.iter().find(|(key, _)| *key == name);
        let is_true = |name: &str| value(name).is_some_and(|(_, value)| *value == "true");
        let values = properties
            .iter()
            .filter(|(key, _)| key.starts_with("filter."))
            .map(|(_, value)| Bytes::from(value.as_bytes().to_vec()));
        let values: Vec<_> = values.collect();
        let filter = (!values.is_empty()).then(|| Filter {
            values,
            match_unfiltered: is_true("match-unfiltered"),
        });
        Self {
            subscription_id,
            stream: stream.to_owned(),
            offset,
            credit,
            filter,
            name: value("name").map(|(_, name)| (*name).to_owned()),
            single_active: is_true("single-active-consumer"),
        }
    }
}

impl Session {
    pub(crate) fn subscribe(
        &mut self,
        correlation_id: u32,
        wanted: Subscribe,
        port: &mut impl Port,
    ) {
        let key = Key::Subscribe;
        let name = wanted.name.as_deref();
        let is_wrong = name.is_some_and(|name| reference_of(name).is_none());
        let refusal = if !port.permits_stream(Access::Read, &wanted.stream) {
            ResponseCode::ACCESS_REFUSED
        } else if self.readers.contains_key(&wanted.subscription_id) {
            ResponseCode::SUBSCRIPTION_ID_ALREADY_EXISTS
        } else if is_wrong || wanted.single_active {
            // Consumers of which one at a time is active are not there yet: to serve them all would
            // break what they count on.
            ResponseCode::PRECONDITION_FAILED
        } else {
            let stream = wanted.stream.clone();
            return self.resolve(key, correlation_id, &stream, Then::Subscribe(wanted), port);
        };
        self.answer(key, correlation_id, refusal);
    }

    /// Asks the streams for what a client wants to read. Chunks may come before the answer is
    /// looked at, so the subscription is there from now on.
    pub(crate) fn begin_reading(
        &mut self,
        request: RequestId,
        name: &str,
        stream: QueueId,
        wanted: Subscribe,
    ) -> (Command, Done) {
        let subscription_id = wanted.subscription_id;
        let credit = u32::from(wanted.credit);
        let under_way = credit.min(STREAM_CHUNKS_UNDER_WAY_MAX);
        let number = ReaderId(number_of(subscription_id, self.number()));
        let reader = Reader {
            number,
            stream: name.to_owned(),
            id: stream,
            credit: credit - under_way,
            under_way,
        };
        self.readers.insert(subscription_id, reader);
        let command = Command::Subscribe {
            request,
            stream,
            reader: number,
            offset: offset_of(wanted.offset),
            credit: under_way,
            filter: wanted.filter.map(Box::new),
        };
        (command, Done::Subscribe(subscription_id))
    }

    pub(crate) fn unsubscribe(
        &mut self,
        correlation_id: u32,
        subscription_id: u8,
        port: &mut impl Port,
    ) {
        let code = match self.readers.remove(&subscription_id) {
            Some(reader) => {
                port.send(Command::Unsubscribe {
                    stream: reader.id,
                    reader: reader.number,
                });
                ResponseCode::OK
            }
            None => ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
        };
        self.answer(Key::Unsubscribe, correlation_id, code);
    }

    pub(crate) fn credit(&mut self, subscription_id: u8, credit: u16, port: &mut impl Port) {
        match self.readers.get_mut(&subscription_id) {
            Some(reader) => {
                reader.credit = reader.credit.saturating_add(credit.into());
                self.give_credit(port);
            }
            None => self.say(&ServerCommand::CreditFailed {
                code: ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
                subscription_id,
            }),
        }
    }

    /// Gives the streams credit of subscriptions that have little under way, unless the client does
    /// not take what it is sent.
    pub(crate) fn give_credit(&mut self, port: &mut impl Port) {
        if self.out.len() > OUTBOX_BYTES_MAX {
            return;
        }
        for reader in self.readers.values_mut() {
            // Half at a time: one command for several chunks.
            if reader.credit == 0 || reader.under_way > STREAM_CHUNKS_UNDER_WAY_MAX / 2 {
                continue;
            }
            let chunks = (STREAM_CHUNKS_UNDER_WAY_MAX - reader.under_way).min(reader.credit);
            reader.credit -= chunks;
            reader.under_way += chunks;
            port.send(Command::Credit {
                stream: reader.id,
                reader: reader.number,
                chunks,
            });
        }
    }

    /// The subscription that is meant, unless it has gone.
    fn reader(&mut self, number: ReaderId) -> Option<(u8, &mut Reader)> {
        let subscription_id = (number.0 & 0xFF) as u8;
        let reader = self.readers.get_mut(&subscription_id)?;
        (reader.number == number).then_some((subscription_id, reader))
    }

    pub(crate) fn deliver(&mut self, number: ReaderId, chunk: &SharedChunk, committed: u64) {
        let Some((subscription_id, reader)) = self.reader(number) else {
            return;
        };
        reader.under_way = reader.under_way.saturating_sub(1);
        let committed = (self.deliver_version > 1).then_some(committed);
        let (head, data) = (chunk.header_bytes(), chunk.data());
        let bytes = (head.len() + data.len()) as u32;
        put_deliver_head(self.out.tail(), subscription_id, committed, bytes);
        self.out.push(head);
        self.out.push(data);
    }

    /// A subscription has come to what cannot be read: the client hears that the stream is not
    /// available, and may subscribe again.
    pub(crate) fn reader_ended(&mut self, number: ReaderId) {
        let Some((subscription_id, _)) = self.reader(number) else {
            return;
        };
        if let Some(reader) = self.readers.remove(&subscription_id) {
            self.tell_gone(reader.stream);
        }
    }
}
