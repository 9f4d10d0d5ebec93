//! Requests that wait for an answer of the streams: one at a time, so that what a client asks takes
//! effect in its order.

use crate::port::Port;
use crate::publishers::Declare;
use crate::readers::Subscribe;
use crate::session::Session;
use crate::super_streams::Making;
use leveret_auth::Access;
use leveret_stream::{Command, Reference, RequestId, StreamSettings};
use leveret_stream_protocol::{Key, OffsetSpec, ResponseCode};
use leveret_types::QueueId;
use std::collections::BTreeMap;

/// What the client's last request waits for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A login.
    Login { correlation_id: u32 },
    /// The id of a stream.
    LookUp {
        request: RequestId,
        key: Key,
        correlation_id: u32,
        stream: String,
        then: Then,
    },
    /// The streams to do it.
    Done {
        request: RequestId,
        key: Key,
        correlation_id: u32,
        then: Done,
    },
    /// The ids of several streams, of which some are known by now.
    Metadata {
        correlation_id: u32,
        streams: Vec<(String, ResponseCode)>,
        waiting: BTreeMap<RequestId, usize>,
    },
    /// A super stream to be made, or taken away, partition by partition.
    SuperStream {
        request: RequestId,
        correlation_id: u32,
        making: Making,
    },
}

/// What is to be done with a stream whose id is being looked up.
#[derive(Debug)]
pub(crate) enum Then {
    Declare(Declare),
    Subscribe(Subscribe),
    QuerySequence(String),
    QueryOffset(String),
    StoreOffset(Reference, u64),
    Stats,
    Resolve(OffsetSpec),
}

/// What is to be done once the streams have done their part.
#[derive(Debug)]
pub(crate) enum Done {
    /// To answer.
    Answer,
    /// The publisher begins.
    Declare(Declare, QueueId),
    /// The subscription begins.
    Subscribe(u8),
}

impl Session {
    /// Goes on with a stream once its id is known. The publishers and subscriptions of the client
    /// know it.
    pub(crate) fn resolve(
        &mut self,
        key: Key,
        correlation_id: u32,
        stream: &str,
        then: Then,
        port: &mut impl Port,
    ) {
        if let Some(id) = self.known_id(stream) {
            return self.proceed(key, correlation_id, (stream, id), then, port);
        }
        let request = self.request();
        port.send(Command::LookUp {
            request,
            vhost: self.vhost.clone(),
            name: stream.into(),
        });
        self.asked = Some(Asked::LookUp {
            request,
            key,
            correlation_id,
            stream: stream.to_owned(),
            then,
        });
    }

    fn known_id(&self, stream: &str) -> Option<QueueId> {
        let publishers = self.publishers.values().map(|p| (&p.stream, p.id));
        let readers = self.readers.values().map(|r| (&r.stream, r.id));
        let mut known = publishers.chain(readers);
        known.find(|(name, _)| *name == stream).map(|(_, id)| id)
    }

    /// Goes on with a stream whose id is known.
    pub(crate) fn proceed(
        &mut self,
        key: Key,
        correlation_id: u32,
        (name, stream): (&str, QueueId),
        then: Then,
        port: &mut impl Port,
    ) {
        let request = self.request();
        let (command, then) = match then {
            Then::Subscribe(wanted) if wanted.is_single_active() => {
                return self.join_group(correlation_id, (name, stream), wanted, port);
            }
            Then::StoreOffset(reference, offset) => {
                return port.send(Command::StoreOffset {
                    stream,
                    reference,
                    offset,
                });
            }
            Then::Declare(declare) => declare.begin(request, stream),
            Then::Subscribe(wanted) => self.begin_reading(request, name, stream, wanted),
            Then::QuerySequence(reference) => match reference_of(&reference) {
                Some(reference) => {
                    let command = Command::QuerySequence {
                        request,
                        stream,
                        reference,
                    };
                    (command, Done::Answer)
                }
                // Nobody has published under a name that cannot be.
                None => return self.answer(key, correlation_id, ResponseCode::OK),
            },
            Then::QueryOffset(reference) => match reference_of(&reference) {
                Some(reference) => {
                    let command = Command::QueryOffset {
                        request,
                        stream,
                        reference,
                    };
                    (command, Done::Answer)
                }
                None => return self.answer(key, correlation_id, ResponseCode::NO_OFFSET),
            },
            Then::Stats => (Command::Stats { request, stream }, Done::Answer),
            Then::Resolve(offset) => {
                let command = Command::ResolveOffset {
                    request,
                    stream,
                    offset: offset_of(offset),
                };
                (command, Done::Answer)
            }
        };
        port.send(command);
        self.asked = Some(Asked::Done {
            request,
            key,
            correlation_id,
            then,
        });
    }

    pub(crate) fn store_offset(
        &mut self,
        reference: &str,
        stream: &str,
        offset: u64,
        port: &mut impl Port,
    ) {
        // Nothing is answered, so nobody can be told what is wrong with it.
        if self.is_stale(reference, stream) {
            return;
        }
        let Some(reference) = reference_of(reference) else {
            return;
        };
        let reads = self.readers.values().any(|reader| reader.stream == stream);
        if reads || port.permits_stream(Access::Read, stream) {
            let then = Then::StoreOffset(reference, offset);
            self.resolve(Key::StoreOffset, 0, stream, then, port);
        }
    }

    pub(crate) fn create(
        &mut self,
        correlation_id: u32,
        stream: &str,
        arguments: &[(&str, &str)],
        port: &mut impl Port,
    ) {
        let refusal = match StreamSettings::from_arguments(arguments.iter().copied()) {
            _ if !is_name(stream) => ResponseCode::PRECONDITION_FAILED,
            _ if !port.permits_stream(Access::Configure, stream) => ResponseCode::ACCESS_REFUSED,
            Err(_) => ResponseCode::PRECONDITION_FAILED,
            Ok(_) => {
                let request = self.request();
                port.send(Command::Declare {
                    request,
                    vhost: self.vhost.clone(),
                    name: stream.into(),
                    arguments: owned(arguments),
                });
                return self.await_done(request, Key::Create, correlation_id);
            }
        };
        self.answer(Key::Create, correlation_id, refusal);
    }

    pub(crate) fn delete(&mut self, correlation_id: u32, stream: &str, port: &mut impl Port) {
        if !port.permits_stream(Access::Configure, stream) {
            return self.answer(Key::Delete, correlation_id, ResponseCode::ACCESS_REFUSED);
        }
        let request = self.request();
        port.send(Command::Delete {
            request,
            vhost: self.vhost.clone(),
            name: stream.into(),
        });
        self.await_done(request, Key::Delete, correlation_id);
    }

    fn await_done(&mut self, request: RequestId, key: Key, correlation_id: u32) {
        self.asked = Some(Asked::Done {
            request,
            key,
            correlation_id,
            then: Done::Answer,
        });
    }

    pub(crate) fn metadata(&mut self, correlation_id: u32, streams: &[&str], port: &mut impl Port) {
        let mut waiting = BTreeMap::new();
        for (at, name) in streams.iter().enumerate() {
            let request = self.request();
            waiting.insert(request, at);
            port.send(Command::LookUp {
                request,
                vhost: self.vhost.clone(),
                name: (*name).into(),
            });
        }
        let unknown = |name: &&str| ((*name).to_owned(), ResponseCode::STREAM_DOES_NOT_EXIST);
        let streams = streams.iter().map(unknown).collect();
        match waiting.is_empty() {
            true => self.tell_metadata(correlation_id, &[], port),
            false => {
                self.asked = Some(Asked::Metadata {
                    correlation_id,
                    streams,
                    waiting,
                });
            }
        }
    }
}

/// A name under which a stream keeps something; nothing if it cannot be one.
pub(crate) fn reference_of(name: &str) -> Option<Reference> {
    Reference::new(name.to_owned().into())
}

/// Arguments that outlive their frame.
pub(crate) fn owned(arguments: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    arguments.iter().map(pair).collect()
}

/// Whether a stream may be called so: as in RabbitMQ, not nothing, and no line breaks.
pub(crate) fn is_name(name: &str) -> bool {
    let is_short = name.len() <= leveret_types::limits::SHORT_STRING_BYTES_MAX;
    is_short && !name.trim().is_empty() && !name.contains(['\r', '\n'])
}

/// An offset as the streams understand it. A client that says none begins with what comes next.
pub(crate) const fn offset_of(offset: OffsetSpec) -> leveret_stream::OffsetSpec {
    match offset {
        OffsetSpec::First => leveret_stream::OffsetSpec::First,
        OffsetSpec::Last => leveret_stream::OffsetSpec::Last,
        OffsetSpec::None | OffsetSpec::Next => leveret_stream::OffsetSpec::Next,
        OffsetSpec::Offset(offset) => leveret_stream::OffsetSpec::Offset(offset),
        OffsetSpec::Timestamp(ms) => leveret_stream::OffsetSpec::TimestampMs(ms),
    }
}
