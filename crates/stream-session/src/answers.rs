//! The events and answers of streams.

use crate::pending_request::{Completion, PendingRequest};
use crate::port::{Port, Reached};
use crate::publishers::code_of;
use crate::session::{Phase, Session};
use leveret_stream::{Event, Refusal, RequestId, StreamStats};
use leveret_stream_protocol::server::{NO_NODE, StreamMetadata};
use leveret_stream_protocol::{Answer, Key, ResponseCode, ServerCommand};
use leveret_types::{Now, QueueId};

/// What a request has brought.
enum Brought {
    Nothing,
    Id(QueueId),
    Sequence(Option<u64>),
    StoredOffset(Option<u64>),
    Offset(u64),
    Stats(StreamStats),
}

impl Session {
    /// Takes in what the streams say.
    pub fn event(&mut self, now: Now, event: Event, port: &mut impl Port) {
        if self.phase != Phase::Open {
            return;
        }
        self.now = now;
        let (request, result) = match event {
            Event::Confirmed { publisher, ids } => {
                self.confirmed(publisher, &ids);
                return self.read_on(port);
            }
            Event::Refused {
                publisher,
                ids,
                refusal,
            } => {
                self.refused(publisher, &ids, &refusal);
                return self.read_on(port);
            }
            Event::Chunk {
                reader,
                chunk,
                committed_chunk,
            } => {
                self.deliver(reader, chunk, committed_chunk, port);
                return self.give_credit(port);
            }
            Event::ReaderEnded { reader, .. } => {
                if !self.rest_ended(reader, port) {
                    self.reader_ended(reader, port);
                }
                return;
            }
            Event::Gone { stream } => {
                self.rest_lost(stream, true, port);
                self.gone(stream, None, port);
                return self.read_on(port);
            }
            Event::Lost { stream } => {
                self.lost(stream, port);
                return self.read_on(port);
            }
            Event::Activity {
                member,
                is_active,
                generation,
                ..
            } => return self.activity(now, member, (is_active, generation), port),
            Event::Joined { request, result } => {
                let result = self.joined(now, request, result, port);
                (request, result.map(|()| Brought::Nothing))
            }
            Event::Declared { request, result } | Event::Found { request, result } => {
                (request, result.map(Brought::Id))
            }
            Event::Subscribed { request, result } => {
                let is_told = result.is_err()
                    && (self.rest_failed(request, port) || self.start_failed(request, port));
                if is_told {
                    return;
                }
                (request, result.map(|()| Brought::Nothing))
            }
            Event::Deleted { request, result } | Event::PublisherDeclared { request, result } => {
                (request, result.map(|()| Brought::Nothing))
            }
            Event::Sequence { request, result } => (request, result.map(Brought::Sequence)),
            Event::StoredOffset { request, result } => (request, result.map(Brought::StoredOffset)),
            Event::ResolvedOffset { request, result } => (request, result.map(Brought::Offset)),
            Event::Stats { request, result } => (request, result.map(Brought::Stats)),
        };
        self.answered(request, result, port);
        self.read_on(port);
    }

    fn answered(
        &mut self,
        request: RequestId,
        result: Result<Brought, Refusal>,
        port: &mut impl Port,
    ) {
        if self.metadata_answered(request, result.is_ok()) {
            return;
        }
        let Some(pending) = self
            .pending_request
            .take_if(|pending| pending.awaits(request))
        else {
            return;
        };
        match (pending, result) {
            (
                PendingRequest::LookUp {
                    key,
                    correlation_id,
                    stream,
                    then,
                    ..
                },
                Ok(Brought::Id(id)),
            ) => self.proceed(key, correlation_id, (&stream, id), then, port),
            // Nobody waits for a stored offset.
            (
                PendingRequest::LookUp {
                    key: Key::StoreOffset,
                    ..
                },
                _,
            ) => {}
            (
                PendingRequest::LookUp {
                    key,
                    correlation_id,
                    ..
                },
                result,
            ) => self.answer(key, correlation_id, code(result.as_ref().err())),
            (
                PendingRequest::Operation {
                    key,
                    correlation_id,
                    then,
                    ..
                },
                result,
            ) => self.done(key, correlation_id, then, result),
            (
                PendingRequest::Metadata {
                    correlation_id,
                    streams,
                    ..
                },
                _,
            ) => self.tell_metadata(correlation_id, &streams, port),
            (PendingRequest::Login { .. } | PendingRequest::OtherNodes { .. }, _) => {}
            (
                PendingRequest::SuperStream {
                    correlation_id,
                    making,
                    ..
                },
                result,
            ) => self.partition_done(correlation_id, making, result.err().as_ref(), port),
        }
        self.tell_gone_behind();
    }

    /// Tells of the streams that have gone behind what was asked for, once that is answered.
    pub(crate) fn tell_gone_behind(&mut self) {
        if self.pending_request.is_none() {
            for stream in std::mem::take(&mut self.gone_behind) {
                self.tell_gone(stream);
            }
        }
    }

    fn done(&mut self, key: Key, id: u32, then: Completion, result: Result<Brought, Refusal>) {
        let refusal = result.as_ref().err();
        match then {
            Completion::Declare(declare, stream) if refusal.is_none() => {
                self.publisher_declared(declare, stream);
            }
            Completion::Subscribe(subscription_id) if refusal.is_some() => {
                self.readers.remove(&subscription_id);
            }
            _ => {}
        }
        let answer = match result {
            Ok(Brought::Sequence(sequence)) => Answer::QueryPublisherSequence {
                sequence: sequence.unwrap_or_default(),
            },
            Ok(Brought::StoredOffset(Some(offset))) => Answer::QueryOffset { offset },
            Ok(Brought::StoredOffset(None)) => {
                return self.answer(key, id, ResponseCode::NO_OFFSET);
            }
            Ok(Brought::Offset(offset)) => Answer::ResolveOffsetSpec {
                offset_type: 4,
                offset,
            },
            Ok(Brought::Stats(stats)) => Answer::StreamStats {
                statistics: statistics(&stats),
            },
            result => return self.answer(key, id, code(result.err().as_ref())),
        };
        self.say(&ServerCommand::Response {
            correlation_id: id,
            code: ResponseCode::OK,
            answer,
        });
    }

    /// Takes in that one of several streams has been looked up; false once all of them are, or if
    /// that is not what is waited for.
    fn metadata_answered(&mut self, request: RequestId, is_found: bool) -> bool {
        let Some(PendingRequest::Metadata {
            streams, waiting, ..
        }) = &mut self.pending_request
        else {
            return false;
        };
        let Some(&at) = waiting.get(&request) else {
            return false;
        };
        if is_found {
            streams[at].1 = ResponseCode::OK;
        }
        // The last one stays: by it the whole is found to be answered.
        waiting.len() > 1 && waiting.remove(&request).is_some()
    }

    pub(crate) fn tell_metadata(
        &mut self,
        correlation_id: u32,
        streams: &[(String, ResponseCode)],
        port: &mut impl Port,
    ) {
        let settings = &self.settings;
        let own = (settings.advertised_host.clone(), settings.advertised_port);
        let mut nodes = vec![own];
        let mut led = Vec::with_capacity(streams.len());
        for (stream, code) in streams {
            let mut number = |node: Reached| {
                let node = match node {
                    Reached::Here => nodes[0].clone(),
                    Reached::At(host, port) => (host, port),
                    Reached::Unknown => return NO_NODE,
                };
                let known = nodes.iter().position(|known| *known == node);
                let at = known.unwrap_or_else(|| {
                    nodes.push(node);
                    nodes.len() - 1
                });
                u16::try_from(at).unwrap_or(NO_NODE)
            };
            let (mut leader, mut replicas) = (NO_NODE, Vec::new());
            if *code == ResponseCode::OK {
                leader = number(port.leader(stream));
                let others = port.replicas(stream).into_iter().map(number);
                replicas.extend(others.filter(|node| *node != NO_NODE));
            }
            led.push((stream.as_str(), *code, leader, replicas));
        }
        let numbered = nodes.iter().zip(0..);
        let streams = led
            .into_iter()
            .map(|(stream, code, leader, replicas)| StreamMetadata {
                stream,
                code,
                leader,
                replicas,
            });
        self.say(&ServerCommand::Metadata {
            correlation_id,
            nodes: numbered
                .map(|((host, port), at)| (at, host.as_str(), u32::from(*port)))
                .collect(),
            streams: streams.collect(),
        });
    }

    /// A stream has lost its leader.
    pub(crate) fn lost(&mut self, stream: QueueId, port: &mut impl Port) {
        self.rest_lost(stream, false, port);
        // Its leader may be lost alone, and a replica on this node still read.
        self.stop_reading(stream, port);
        self.gone(stream, Some(self.now.monotonic_ms), port);
    }

    /// A stream has gone with all that the client has there, or only its leader is lost, at this
    /// time.
    fn gone(&mut self, stream: QueueId, lost_ms: Option<u64>, port: &mut impl Port) {
        let publishers = self.publishers.by_id.values().map(|p| (p.id, &p.stream));
        let readers = self.readers.values().map(|r| (r.id, &r.stream));
        let mut known = publishers.chain(readers);
        let name = known.find(|(id, _)| *id == stream);
        let Some(name) = name.map(|(_, name)| name.clone()) else {
            return;
        };
        match lost_ms {
            Some(now_ms) => self.publishers.lose_stream(stream, now_ms),
            None => self.publishers.forget_stream(stream),
        }
        for (_, reader) in self.readers.extract_if(.., |_, r| r.id == stream) {
            Self::leave_group(&reader, port);
        }
        self.tell_gone(name);
    }

    /// The client hears that a stream is not available: behind what it has asked for.
    pub(crate) fn tell_gone(&mut self, stream: String) {
        if self.pending_request.is_some() {
            return self.gone_behind.push(stream);
        }
        self.say(&ServerCommand::MetadataUpdate {
            code: ResponseCode::STREAM_NOT_AVAILABLE,
            stream: &stream,
        });
    }
}

impl Session {
    /// Whether the client waits for what this request brings.
    pub(crate) fn awaits(&self, request: RequestId) -> bool {
        self.pending_request
            .as_ref()
            .is_some_and(|pending| pending.awaits(request))
    }
}

impl PendingRequest {
    /// Whether this is what it waits for.
    pub(crate) fn awaits(&self, of: RequestId) -> bool {
        match self {
            Self::Login { .. } | Self::OtherNodes { .. } => false,
            Self::LookUp { request, .. }
            | Self::Operation { request, .. }
            | Self::SuperStream { request, .. } => *request == of,
            Self::Metadata { waiting, .. } => waiting.contains_key(&of),
        }
    }
}

/// How a request went.
const fn code(refusal: Option<&Refusal>) -> ResponseCode {
    match refusal {
        None => ResponseCode::OK,
        Some(refusal) => code_of(refusal),
    }
}

/// The figures by RabbitMQ's names; -1 where there is none. Offsets that were not stored, as who
/// stores one has no answer, and bytes that groups hold are Leveret's, where there are any.
fn statistics(stats: &StreamStats) -> Vec<(&'static str, i64)> {
    let number = |value: Option<u64>| value.map_or(-1, |value| value as i64);
    let mut figures = vec![
        ("first_chunk_id", number(stats.first_chunk)),
        ("committed_chunk_id", number(stats.committed_chunk)),
        ("last_chunk_id", number(stats.last_chunk)),
        ("committed_offset", number(stats.committed_offset)),
    ];
    if stats.offsets_refused > 0 {
        figures.push(("offsets_refused", number(Some(stats.offsets_refused))));
    }
    if stats.held_bytes > 0 {
        figures.push(("retention_held_bytes", number(Some(stats.held_bytes))));
    }
    figures
}
