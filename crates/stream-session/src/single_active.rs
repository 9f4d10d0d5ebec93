//! Subscriptions of which one at a time is active in their group: the node says when, the client
//! answers where it begins.

use crate::port::Port;
use crate::readers::{Membership, Reader, Subscribe, Updating};
use crate::requests::reference_of;
use crate::session::{Phase, Session};
use leveret_stream::{Command, RequestId};
use leveret_stream_protocol::{Key, OffsetSpec, ResponseCode, ServerCommand};
use leveret_types::limits::STREAM_CONSUMER_UPDATE_MS_MAX;
use leveret_types::{Now, QueueId};

impl Session {
    /// A subscription joins its group. Until it is active, nothing is read for it.
    pub(crate) fn join_group(
        &mut self,
        correlation_id: u32,
        (stream, id): (&str, QueueId),
        wanted: Subscribe,
        port: &mut impl Port,
    ) {
        let partition = match wanted.super_stream() {
            None => Some(0),
            Some(super_stream) => port
                .partitions(super_stream)
                .and_then(|all| all.iter().position(|partition| partition == stream)),
        };
        let (Some(partition), Some(name)) = (partition, wanted.group()) else {
            let code = ResponseCode::PRECONDITION_FAILED;
            return self.answer(Key::Subscribe, correlation_id, code);
        };
        let (name, subscription_id) = (name.to_owned(), wanted.subscription_id());
        let (number, joined) = (self.number(), self.request());
        let mut reader = Reader::new(number, (stream, id), &wanted);
        reader.membership = Some(Membership {
            name: name.clone(),
            wanted,
            reads: false,
            started: joined,
            joined,
        });
        self.readers.insert(subscription_id, reader);
        self.answer(Key::Subscribe, correlation_id, ResponseCode::OK);
        port.join_group(stream, &name, partition, subscription_id);
    }

    /// A subscription of a group becomes active, or is so no longer: the client is asked where it
    /// begins, or given the time to store how far it has come.
    pub fn consumer_update(
        &mut self,
        now: Now,
        stream: &str,
        subscription_id: u8,
        active: bool,
        port: &mut impl Port,
    ) {
        if self.phase != Phase::Open {
            return;
        }
        self.now = now;
        let count = self.number();
        // The node may have said so just before the subscription went.
        let reader = self.readers.get_mut(&subscription_id);
        let Some(reader) = reader.filter(|reader| reader.stream == stream) else {
            return;
        };
        let Some(joined) = reader.membership.as_ref().map(|m| m.joined) else {
            return;
        };
        if !active {
            reader.stop(count, port);
        }
        let correlation_id = self.number() as u32;
        let updating = Updating {
            subscription_id,
            active,
            joined,
            until_ms: now.monotonic_ms + STREAM_CONSUMER_UPDATE_MS_MAX,
        };
        // What it has not answered by now says nothing any more: there is one for each at most.
        self.updating
            .retain(|_, older| older.subscription_id != subscription_id);
        self.updating.insert(correlation_id, updating);
        self.say(&ServerCommand::ConsumerUpdate {
            correlation_id,
            subscription_id,
            active,
        });
    }

    /// An operator has set the offset of the group of a subscription that becomes active: it is
    /// stored before the client is told, and asks.
    pub fn store_for_group(&mut self, subscription_id: u8, offset: u64, port: &mut impl Port) {
        let reader = self.readers.get(&subscription_id);
        let membership = reader.and_then(|reader| Some((reader.id, reader.membership.as_ref()?)));
        if let Some((stream, membership)) = membership
            && let Some(reference) = reference_of(&membership.name)
        {
            port.send(Command::StoreOffset {
                stream,
                reference,
                offset,
            });
        }
    }

    /// An operator has set the offset of a group of which all consumers are active: those of this
    /// connection are read for from behind it on.
    pub fn move_readers(
        &mut self,
        now: Now,
        (stream, group, offset): (QueueId, &str, u64),
        port: &mut impl Port,
    ) {
        self.now = now;
        let is_of_it = |reader: &Reader| {
            let mut properties = reader.properties.iter();
            let name = properties.find(|(key, _)| key == "name");
            let is_named = name.is_some_and(|(_, name)| name == group);
            reader.id == stream && reader.membership.is_none() && is_named
        };
        let readers = self.readers.iter().filter(|(_, reader)| is_of_it(reader));
        let ids: Vec<u8> = readers.map(|(id, _)| *id).collect();
        for id in ids {
            let (count, request) = (self.number(), self.request());
            let room = self.room_under_way();
            let Some(reader) = self.readers.get_mut(&id) else {
                continue;
            };
            port.send(Command::Unsubscribe {
                stream,
                reader: reader.number(),
            });
            reader.moved = Some(request);
            let (from, filter) = (
                OffsetSpec::Offset(offset.saturating_add(1)),
                reader.filter.clone(),
            );
            port.send(reader.start(count, request, from, filter, room));
        }
    }

    /// Whether an offset comes from a subscription that was active in its group and is so no
    /// longer: another one may have gone on from there.
    pub(crate) fn is_stale(&self, group: &str, stream: &str) -> bool {
        let readers = self.readers.values();
        let of_it = readers.filter(|reader| {
            let membership = reader.membership.as_ref();
            reader.stream == stream && membership.is_some_and(|m| m.name == group)
        });
        let may_store = |reader: &Reader| {
            reader.reads()
                || self
                    .updating
                    .values()
                    .any(|updating| updating.is_of(reader))
        };
        let (mut any, mut stale) = (false, true);
        for reader in of_it {
            any = true;
            stale &= !may_store(reader);
        }
        any && stale
    }

    /// The client has answered an update. What nobody has asked for changes nothing.
    pub(crate) fn consumer_updated(
        &mut self,
        correlation_id: u32,
        offset: OffsetSpec,
        port: &mut impl Port,
    ) {
        let Some(updating) = self.updating.remove(&correlation_id) else {
            return;
        };
        let number = self.number();
        let request = self.request();
        let room = self.room_under_way();
        let Some(reader) = self.readers.get_mut(&updating.subscription_id) else {
            return;
        };
        let membership = reader.membership.as_mut();
        let Some(membership) = membership.filter(|m| m.joined == updating.joined) else {
            return;
        };
        if !updating.active {
            let name = membership.name.clone();
            return port.stepped_down(&reader.stream, &name, updating.subscription_id);
        }
        membership.reads = true;
        membership.started = request;
        let offset = match offset {
            OffsetSpec::None => membership.wanted.offset(),
            offset => offset,
        };
        let filter = membership.wanted.filter();
        port.send(reader.start(number, request, offset, filter, room));
    }

    /// The streams do not read for a subscription that has become active: the client hears that its
    /// stream is not available. False if the request was another's.
    pub(crate) fn start_failed(&mut self, request: RequestId, port: &mut impl Port) -> bool {
        let started = |reader: &Reader| {
            let membership = reader.membership.as_ref();
            let is_started = membership.is_some_and(|m| m.reads && m.started == request);
            is_started || reader.moved == Some(request)
        };
        let failed = self.readers.values().find(|reader| started(reader));
        let number = failed.map(Reader::number);
        if let Some(number) = number {
            self.reader_ended(number, port);
        }
        number.is_some()
    }

    /// A subscription has gone: its group hears of it.
    pub(crate) fn leave_group(subscription_id: u8, reader: &Reader, port: &mut impl Port) {
        if let Some(membership) = &reader.membership {
            port.leave_group(&reader.stream, &membership.name, subscription_id);
        }
    }
}

impl Reader {
    /// Nothing more is read. What is under way is dropped when it comes, and was credit.
    fn stop(&mut self, count: u64, port: &mut impl Port) {
        let Some(membership) = &mut self.membership else {
            return;
        };
        if std::mem::take(&mut membership.reads) {
            port.send(Command::Unsubscribe {
                stream: self.id,
                reader: self.number(),
            });
            self.renumber(count);
            self.take_credit_back();
        }
    }
}
