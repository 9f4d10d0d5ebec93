//! Subscriptions of a connection: the client's credit, and how much of it the streams have.
//!
//! A client may give credit for thousands of chunks and then not read. So the streams are given
//! little of it at a time, and nothing while the output is full: what a connection holds is bounded
//! by that, not by what the client announces.

use crate::pending_request::{Completion, NextStep};
use crate::port::Port;
use crate::publishers::number_of;
use crate::session::Session;
use crate::totals::shown;
use crate::values::{offset_of, reference_of};
use bytes::Bytes;
use leveret_auth::Access;
use leveret_stream::{ChunkHeader, Command, Filter, MemberId, ReaderId, Reference, RequestId};
use leveret_stream_protocol::{Key, OffsetSpec, ResponseCode, ServerCommand};
use leveret_types::QueueId;
use leveret_types::limits::{
    OUTBOX_BYTES_MAX, STREAM_CHUNKS_UNDER_WAY_MAX, STREAM_CHUNKS_UNDER_WAY_PER_CONNECTION_MAX,
};

/// The property of a subscription with which only those messages are sent that its filter asks for:
/// `true`, or `false` as without it.
const FILTER_MESSAGES: &str = "filter-messages";

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
    /// What it is in its group, if one at a time is active there.
    pub(crate) membership: Option<Membership>,
    /// What it is sent of; all if `None`.
    pub(crate) filter: Option<Filter>,
    /// What asked for chunks anew: an operator has moved its group, or chunks were handed back.
    pub(crate) moved: Option<RequestId>,
    /// Where chunks begin that were handed back: nothing is read until the client has taken what
    /// it was sent.
    pub(crate) again: Option<u64>,
    /// Messages that it has been sent, and the last of their offsets.
    pub(crate) consumed: u64,
    pub(crate) offset: Option<u64>,
    /// What the client subscribed with, for listings.
    pub(crate) properties: Vec<(String, String)>,
}

impl Reader {
    /// A subscription for which nothing is read yet.
    pub(crate) fn new(count: u64, (stream, id): (&str, QueueId), wanted: &Subscribe) -> Self {
        Self {
            number: reader_of(wanted.subscription_id, count),
            stream: stream.to_owned(),
            id,
            credit: wanted.credit.into(),
            under_way: 0,
            membership: None,
            filter: wanted.filter.clone(),
            moved: None,
            again: None,
            consumed: 0,
            offset: None,
            properties: wanted.properties.clone(),
        }
    }

    /// Chunks that the client takes beside those that it has been sent.
    pub(crate) const fn credits(&self) -> u32 {
        self.credit.saturating_add(self.under_way)
    }

    /// Its number at the streams.
    pub(crate) const fn number(&self) -> ReaderId {
        self.number
    }

    /// Whether chunks are read for it.
    pub(crate) fn reads(&self) -> bool {
        let membership = self.membership.as_ref();
        membership.is_none_or(|membership| membership.reads)
    }

    /// Whether it is this member of its group, and not one before it of the same id.
    pub(crate) fn is_member(&self, member: MemberId) -> bool {
        let membership = self.membership.as_ref();
        membership.is_some_and(|membership| membership.member == member)
    }

    /// Has the streams read for it, under a new number: chunks that are under way for the old one
    /// are not for it. There is room for so many chunks under way.
    pub(crate) fn start(
        &mut self,
        count: u64,
        request: RequestId,
        offset: OffsetSpec,
        filter: Option<Filter>,
        room: u32,
    ) -> Command {
        self.renumber(count);
        self.take_credit_back();
        self.again = None;
        self.lend(room);
        Command::Subscribe {
            request,
            stream: self.id,
            reader: self.number,
            offset: offset_of(offset),
            credit: self.under_way,
            filter: filter.map(Box::new),
        }
    }

    /// Chunks more that may be under way for it, where there is room for so many on the connection:
    /// half of that, so that the next one has room too, and one if there is none yet.
    fn lend(&mut self, room: u32) -> u32 {
        let least = u32::from(self.under_way == 0);
        let own = STREAM_CHUNKS_UNDER_WAY_MAX - self.under_way;
        let chunks = room.div_ceil(2).max(least).min(own).min(self.credit);
        self.credit -= chunks;
        self.under_way += chunks;
        chunks
    }

    /// Takes another number: what is under way for the old one goes nowhere.
    pub(crate) const fn renumber(&mut self, count: u64) {
        let subscription_id = (self.number.0 & 0xFF) as u8;
        self.number = reader_of(subscription_id, count);
    }

    /// A chunk with this header is in the output.
    pub(crate) fn note_sent(&mut self, header: &ChunkHeader) {
        self.under_way = self.under_way.saturating_sub(1);
        self.consumed += u64::from(header.records);
        // A chunk has a record at least.
        self.offset = Some(header.first_offset + u64::from(header.records.saturating_sub(1)));
    }

    /// Chunks from this offset on were handed back: what is under way goes nowhere, and nothing is
    /// read until it is started again.
    pub(crate) fn hand_back(&mut self, count: u64, offset: u64) {
        self.renumber(count);
        self.take_credit_back();
        self.again = Some(offset);
    }

    /// What the streams had been given is the client's credit again.
    pub(crate) fn take_credit_back(&mut self) {
        self.credit = self.credit.saturating_add(self.under_way);
        self.under_way = 0;
    }
}

/// A number at the streams, whose low octet is the client's.
pub(crate) const fn reader_of(subscription_id: u8, count: u64) -> ReaderId {
    ReaderId(number_of(subscription_id, count)).that_hands_back()
}

/// What a client wants to read.
#[derive(Debug)]
pub(crate) struct Subscribe {
    subscription_id: u8,
    stream: String,
    offset: OffsetSpec,
    credit: u16,
    filter: Option<Filter>,
    /// It has more values than are kept, or single messages are asked for without values, or in
    /// other words than are known.
    is_filter_wrong: bool,
    name: Option<String>,
    single_active: bool,
    super_stream: Option<String>,
    properties: Vec<(String, String)>,
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
            messages: is_true(FILTER_MESSAGES),
        });
        let value_given = value(FILTER_MESSAGES).map(|(_, value)| *value);
        let is_value_wrong = match value_given {
            None | Some("false") => false,
            Some("true") => filter.is_none(),
            Some(_) => true,
        };
        let is_too_large = filter
            .as_ref()
            .is_some_and(|filter| !filter.is_within_bounds());
        let is_filter_wrong = is_value_wrong || is_too_large;
        Self {
            subscription_id,
            stream: stream.to_owned(),
            offset,
            credit,
            filter,
            is_filter_wrong,
            name: value("name").map(|(_, name)| (*name).to_owned()),
            single_active: is_true("single-active-consumer"),
            super_stream: value("super-stream").map(|(_, name)| (*name).to_owned()),
            properties: shown(properties),
        }
    }

    pub(crate) const fn subscription_id(&self) -> u8 {
        self.subscription_id
    }

    pub(crate) const fn offset(&self) -> OffsetSpec {
        self.offset
    }

    pub(crate) fn filter(&self) -> Option<Filter> {
        self.filter.clone()
    }

    pub(crate) const fn is_single_active(&self) -> bool {
        self.single_active
    }

    /// The name of its group, if one at a time is active there.
    pub(crate) fn group(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| self.single_active)
    }

    pub(crate) fn super_stream(&self) -> Option<&str> {
        self.super_stream.as_deref()
    }
}

/// What a subscription is in its group.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The group's name.
    pub(crate) group: Reference,
    /// The stream's number in its super stream; 0 without one.
    pub(crate) partition: u32,
    /// Its number there: an id of the client may be used again.
    pub(crate) member: MemberId,
    /// What has asked for it to join, and is not answered.
    pub(crate) joining: Option<RequestId>,
    /// When it asks again, in monotonic milliseconds: the stream had no leader to be asked.
    pub(crate) joins_at_ms: Option<u64>,
    /// What the client has subscribed to, for when it becomes active.
    pub(crate) wanted: Subscribe,
    /// Whether chunks are read for it.
    pub(crate) reads: bool,
    /// What asked for them last.
    pub(crate) started: RequestId,
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
        let is_nobody = wanted.single_active && name.is_none();
        let is_wrong = is_nobody
            || wanted.is_filter_wrong
            || [name, wanted.super_stream.as_deref()]
                .into_iter()
                .flatten()
                .any(|name| reference_of(name).is_none());
        let refusal = if !port.permits_stream(Access::Read, &wanted.stream) {
            ResponseCode::ACCESS_REFUSED
        } else if self.readers.contains_key(&wanted.subscription_id) {
            ResponseCode::SUBSCRIPTION_ID_ALREADY_EXISTS
        } else if is_wrong {
            ResponseCode::PRECONDITION_FAILED
        } else {
            let stream = wanted.stream.clone();
            return self.resolve(
                key,
                correlation_id,
                &stream,
                NextStep::Subscribe(wanted),
                port,
            );
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
    ) -> (Command, Completion) {
        let subscription_id = wanted.subscription_id;
        let count = self.number();
        let mut reader = Reader::new(count, (name, stream), &wanted);
        let room = self.room_under_way();
        let command = reader.start(count, request, wanted.offset, wanted.filter, room);
        self.readers.insert(subscription_id, reader);
        (command, Completion::Subscribe(subscription_id))
    }

    pub(crate) fn unsubscribe(
        &mut self,
        correlation_id: u32,
        subscription_id: u8,
        port: &mut impl Port,
    ) {
        let code = match self.readers.remove(&subscription_id) {
            Some(reader) => {
                if reader.reads() {
                    port.send(Command::Unsubscribe {
                        stream: reader.id,
                        reader: reader.number,
                    });
                }
                Self::leave_group(&reader, port);
                ResponseCode::OK
            }
            None => ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
        };
        self.answer(Key::Unsubscribe, correlation_id, code);
    }

    pub(crate) fn credit(&mut self, subscription_id: u8, credit: u16, port: &mut impl Port) {
        let code = match self.readers.get_mut(&subscription_id) {
            Some(reader) => {
                reader.credit = reader.credit.saturating_add(credit.into());
                if reader.reads() {
                    return self.give_credit(port);
                }
                // What is left over from when it was active is kept, and the client told.
                ResponseCode::PRECONDITION_FAILED
            }
            None => ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
        };
        self.say(&ServerCommand::CreditFailed {
            code,
            subscription_id,
        });
    }

    /// Gives the streams credit of subscriptions that have little under way, unless the client does
    /// not take what it is sent. They take turns for what room there is.
    pub(crate) fn give_credit(&mut self, port: &mut impl Port) {
        if self.output_bytes() > OUTBOX_BYTES_MAX || self.in_hand.is_pressed() {
            return;
        }
        let mut room = self.room_under_way();
        let enough = match self.in_hand.is_crowded() {
            true => 0,
            // Half at a time: one command for several chunks.
            false => STREAM_CHUNKS_UNDER_WAY_MAX / 2,
        };
        let mut ids: Vec<u8> = self.readers.keys().copied().collect();
        let first = ids.partition_point(|id| *id < self.turn);
        ids.rotate_left(first);
        for id in ids {
            let Some(reader) = self.readers.get_mut(&id) else {
                continue;
            };
            if reader.under_way > enough || !reader.reads() || reader.again.is_some() {
                continue;
            }
            let chunks = reader.lend(room);
            if chunks == 0 {
                continue;
            }
            room = room.saturating_sub(chunks);
            self.turn = id.wrapping_add(1);
            port.send(Command::Credit {
                stream: reader.id,
                reader: reader.number,
                chunks,
            });
        }
    }

    /// Chunks that may be under way beside those that are: one where the node holds much.
    pub(crate) fn room_under_way(&self) -> u32 {
        let under_way: u32 = self.readers.values().map(|reader| reader.under_way).sum();
        let room = STREAM_CHUNKS_UNDER_WAY_PER_CONNECTION_MAX.saturating_sub(under_way);
        match self.in_hand.is_crowded() {
            true => room.min(1),
            false => room,
        }
    }

    /// The subscription that is meant, unless it has gone.
    pub(crate) fn reader(&mut self, number: ReaderId) -> Option<(u8, &mut Reader)> {
        let subscription_id = (number.0 & 0xFF) as u8;
        let reader = self.readers.get_mut(&subscription_id)?;
        (reader.number == number).then_some((subscription_id, reader))
    }

    /// A subscription has come to what cannot be read: the client hears that the stream is not
    /// available, and may subscribe again.
    pub(crate) fn reader_ended(&mut self, number: ReaderId, port: &mut impl Port) {
        let Some((subscription_id, _)) = self.reader(number) else {
            return;
        };
        if let Some(reader) = self.readers.remove(&subscription_id) {
            Self::leave_group(&reader, port);
            self.tell_gone(reader.stream);
        }
    }
}
