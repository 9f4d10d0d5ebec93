//! Requests that wait for an answer of the streams: one at a time, so that what a client asks takes
//! effect in its order.

use crate::pending_request::{Completion, NextStep, PendingRequest};
use crate::port::Port;
use crate::session::Session;
use crate::values::{is_name, offset_of, owned, reference_of};
use leveret_auth::Access;
use leveret_stream::{Command, RequestId, StreamSettings};
use leveret_stream_protocol::{Key, ResponseCode};
use leveret_types::QueueId;
use std::collections::BTreeMap;

impl Session {
    /// Goes on with a stream once its id is known. The publishers and subscriptions of the client
    /// know it.
    pub(crate) fn resolve(
        &mut self,
        key: Key,
        correlation_id: u32,
        stream: &str,
        then: NextStep,
        port: &mut impl Port,
    ) {
        if let Some(id) = self.known_id(stream) {
            return self.proceed(key, correlation_id, (stream, id), then, port);
        }
        let request = self.request();
        port.send(Command::LookUp {
            request,
            vhost: self.client.vhost.clone(),
            name: stream.into(),
        });
        self.pending_request = Some(PendingRequest::LookUp {
            request,
            key,
            correlation_id,
            stream: stream.to_owned(),
            then,
        });
    }

    fn known_id(&self, stream: &str) -> Option<QueueId> {
        let publishers = self.publishers.by_id.values().map(|p| (&p.stream, p.id));
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
        then: NextStep,
        port: &mut impl Port,
    ) {
        let request = self.request();
        let (command, then) = match then {
            NextStep::Subscribe(wanted) if wanted.is_single_active() => {
                match self.begin_membership(request, (name, stream), wanted, port) {
                    Some(joining) => joining,
                    None => {
                        return self.answer(key, correlation_id, ResponseCode::PRECONDITION_FAILED);
                    }
                }
            }
            NextStep::StoreOffset(reference, offset, by) => {
                return port.send(Command::StoreOffset {
                    stream,
                    reference,
                    offset,
                    by,
                });
            }
            NextStep::Declare(declare) => declare.begin(request, stream),
            NextStep::Subscribe(wanted) => self.begin_reading(request, name, stream, wanted),
            NextStep::QuerySequence(reference) => match reference_of(&reference) {
                Some(reference) => {
                    let command = Command::QuerySequence {
                        request,
                        stream,
                        reference,
                    };
                    (command, Completion::Answer)
                }
                // Nobody has published under a name that cannot be.
                None => return self.answer(key, correlation_id, ResponseCode::OK),
            },
            NextStep::QueryOffset(reference) => match reference_of(&reference) {
                Some(reference) => {
                    let command = Command::QueryOffset {
                        request,
                        stream,
                        reference,
                    };
                    (command, Completion::Answer)
                }
                None => return self.answer(key, correlation_id, ResponseCode::NO_OFFSET),
            },
            NextStep::Stats => (Command::Stats { request, stream }, Completion::Answer),
            NextStep::Resolve(offset) => {
                let command = Command::ResolveOffset {
                    request,
                    stream,
                    offset: offset_of(offset),
                };
                (command, Completion::Answer)
            }
        };
        port.send(command);
        self.pending_request = Some(PendingRequest::Operation {
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
        let by = self.activations.stores_by(reference, stream);
        let Some(reference) = reference_of(reference) else {
            return;
        };
        let reads = self.readers.values().any(|reader| reader.stream == stream);
        if reads || port.permits_stream(Access::Read, stream) {
            let then = NextStep::StoreOffset(reference, offset, by);
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
                    vhost: self.client.vhost.clone(),
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
            vhost: self.client.vhost.clone(),
            name: stream.into(),
        });
        self.await_done(request, Key::Delete, correlation_id);
    }

    fn await_done(&mut self, request: RequestId, key: Key, correlation_id: u32) {
        self.pending_request = Some(PendingRequest::Operation {
            request,
            key,
            correlation_id,
            then: Completion::Answer,
        });
    }

    pub(crate) fn metadata(&mut self, correlation_id: u32, streams: &[&str], port: &mut impl Port) {
        self.work.spend(streams.len());
        let mut waiting = BTreeMap::new();
        for (at, name) in streams.iter().enumerate() {
            let request = self.request();
            waiting.insert(request, at);
            port.send(Command::LookUp {
                request,
                vhost: self.client.vhost.clone(),
                name: (*name).into(),
            });
        }
        let unknown = |name: &&str| ((*name).to_owned(), ResponseCode::STREAM_DOES_NOT_EXIST);
        let streams = streams.iter().map(unknown).collect();
        match waiting.is_empty() {
            true => self.tell_metadata(correlation_id, &[], port),
            false => {
                self.pending_request = Some(PendingRequest::Metadata {
                    correlation_id,
                    streams,
                    waiting,
                });
            }
        }
    }
}
