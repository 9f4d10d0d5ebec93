//! Subscriptions of which one at a time is active in their group: the node says when, the client
//! answers where it begins.

use crate::activations::Updating;
use crate::pending_request::Completion;
use crate::port::Port;
use crate::publishers::number_of;
use crate::readers::{Membership, Reader, Subscribe};
use crate::session::Session;
use crate::values::reference_of;
use leveret_stream::{Command, Generation, MemberId, Refusal, RequestId};
use leveret_stream_protocol::{OffsetSpec, ServerCommand};
use leveret_types::limits::{STREAM_CONSUMER_UPDATE_MS_MAX, STREAM_JOIN_AGAIN_MS};
use leveret_types::{Now, QueueId};

impl Session {
    /// A subscription joins its group, which is with the stream's leader. Until it is active,
    /// nothing is read for it. `None` if it cannot be in such a group.
    pub(crate) fn begin_membership(
        &mut self,
        request: RequestId,
        (stream, id): (&str, QueueId),
        wanted: Subscribe,
        port: &mut impl Port,
    ) -> Option<(Command, Completion)> {
        let partition = match wanted.super_stream() {
            None => 0,
            Some(super_stream) => {
                let all = port.partitions(super_stream)?;
                all.iter().position(|partition| partition == stream)?
            }
        };
        let group = wanted.group().and_then(reference_of)?;
        let subscription_id = wanted.subscription_id();
        let member = MemberId(number_of(subscription_id, self.number()));
        let mut reader = Reader::new(self.number(), (stream, id), &wanted);
        let membership = reader.membership.insert(Membership {
            group,
            partition: u32::try_from(partition).unwrap_or(u32::MAX),
            member,
            joining: None,
            joins_at_ms: None,
            wanted,
            reads: false,
            started: request,
        });
        let join = membership.join(request, id);
        self.readers.insert(subscription_id, reader);
        Some((join, Completion::Subscribe(subscription_id)))
    }

    /// What asked for a subscription to join its group is answered: the result for the client, if
    /// that is waiting. Where the stream has no leader to be asked, it is asked again later.
    pub(crate) fn joined(
        &mut self,
        now: Now,
        request: RequestId,
        result: Result<(), Refusal>,
        port: &mut impl Port,
    ) -> Result<(), Refusal> {
        self.now = now;
        let mut readers = self.readers.values_mut();
        let found = readers.find_map(|reader| {
            let number = reader.number();
            let membership = reader.membership.as_mut()?;
            let is_it = membership.joining == Some(request);
            is_it.then_some((number, membership))
        });
        let Some((number, membership)) = found else {
            return result;
        };
        membership.joining = None;
        match result {
            Err(Refusal::NotAvailable(_)) => {
                membership.joins_at_ms = Some(now.monotonic_ms + STREAM_JOIN_AGAIN_MS);
                Ok(())
            }
            // The client was told by then that it has subscribed.
            Err(_) if !self.awaits(request) => {
                self.reader_ended(number, port);
                Ok(())
            }
            result => result,
        }
    }

    /// Subscriptions ask again to join their groups whose time has come.
    pub(crate) fn join_again(&mut self, port: &mut impl Port) {
        let now_ms = self.now.monotonic_ms;
        let is_due = |reader: &Reader| {
            let membership = reader.membership.as_ref();
            membership.is_some_and(|m| m.joins_at_ms.is_some_and(|at| at <= now_ms))
        };
        let due = self.readers.iter().filter(|(_, reader)| is_due(reader));
        let due: Vec<u8> = due.map(|(id, _)| *id).collect();
        for id in due {
            let request = self.request();
            let reader = self.readers.get_mut(&id);
            let join = reader.and_then(|reader| {
                let stream = reader.id;
                Some(reader.membership.as_mut()?.join(request, stream))
            });
            join.into_iter().for_each(|join| port.send(join));
        }
    }

    /// When [`Self::join_again`] has something to do.
    pub(crate) fn joins_at_ms(&self) -> Option<u64> {
        let readers = self.readers.values();
        let memberships = readers.filter_map(|reader| reader.membership.as_ref());
        memberships.filter_map(|m| m.joins_at_ms).min()
    }

    /// A subscription of a group becomes active, or is so no longer: the client is asked where it
    /// begins, or given the time to store how far it has come.
    pub(crate) fn activity(
        &mut self,
        now: Now,
        member: MemberId,
        (active, generation): (bool, Generation),
        port: &mut impl Port,
    ) {
        self.now = now;
        let count = self.number();
        let subscription_id = (member.0 & 0xFF) as u8;
        // The stream's leader may have said so just before the subscription went.
        let reader = self.readers.get_mut(&subscription_id);
        let Some((reader, group)) = reader.and_then(|reader| {
            let membership = reader.membership.as_ref();
            let group = membership.filter(|m| m.member == member)?.name();
            Some((reader, group))
        }) else {
            return;
        };
        let of = (reader.stream.clone(), group);
        if !active {
            reader.stop(count, port);
        }
        self.activations.remember(of, generation);
        let correlation_id = self.number() as u32;
        let updating = Updating {
            subscription_id,
            active,
            member,
            until_ms: now.monotonic_ms + STREAM_CONSUMER_UPDATE_MS_MAX,
        };
        self.activations.ask(correlation_id, updating);
        self.say(&ServerCommand::ConsumerUpdate {
            correlation_id,
            subscription_id,
            active,
        });
    }

    /// When the client must have answered that a consumer becomes active, or is so no longer.
    pub(crate) fn update_until_ms(&self) -> Option<u64> {
        self.activations.until_ms(|updating| {
            let reader = self.readers.get(&updating.subscription_id);
            reader.is_some_and(|reader| reader.is_member(updating.member))
        })
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
            reader.stream == stream && membership.is_some_and(|m| m.name() == group)
        });
        let is_pending = |m: &Membership| self.activations.is_pending(m.member);
        let may_store =
            |reader: &Reader| reader.reads() || reader.membership.as_ref().is_some_and(is_pending);
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
        let Some(updating) = self.activations.answered(correlation_id) else {
            return;
        };
        let number = self.number();
        let request = self.request();
        let room = self.room_under_way();
        let Some(reader) = self.readers.get_mut(&updating.subscription_id) else {
            return;
        };
        let membership = reader.membership.as_mut();
        let Some(membership) = membership.filter(|m| m.member == updating.member) else {
            return;
        };
        if !updating.active {
            return port.send(Command::SteppedDown {
                stream: reader.id,
                group: membership.group.clone(),
                member: membership.member,
            });
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
    pub(crate) fn leave_group(reader: &Reader, port: &mut impl Port) {
        if let Some(membership) = &reader.membership {
            port.send(Command::LeaveGroup {
                stream: reader.id,
                group: membership.group.clone(),
                member: membership.member,
            });
        }
    }

    /// No subscription of a stream is read for any more.
    pub(crate) fn stop_reading(&self, stream: QueueId, port: &mut impl Port) {
        let readers = self.readers.values();
        for reader in readers.filter(|reader| reader.id == stream && reader.reads()) {
            port.send(Command::Unsubscribe {
                stream,
                reader: reader.number(),
            });
        }
    }
}

impl Membership {
    /// The group's name as clients say it.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(self.group.as_bytes()).into_owned()
    }

    /// Asks for it to join its group.
    fn join(&mut self, request: RequestId, stream: QueueId) -> Command {
        self.joining = Some(request);
        self.joins_at_ms = None;
        Command::JoinGroup {
            request,
            stream,
            group: self.group.clone(),
            partition: self.partition,
            member: self.member,
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
            self.again = None;
        }
    }
}
