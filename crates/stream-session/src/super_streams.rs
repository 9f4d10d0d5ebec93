//! Super streams: made and taken away partition by partition.

use crate::pending_request::{PendingRequest, SuperStreamChange};
use crate::port::Port;
use crate::publishers::code_of;
use crate::session::Session;
use crate::values::{is_name, owned};
use leveret_stream::{Command, Refusal, RequestId, StreamSettings};
use leveret_stream_protocol::{Answer, Key, ResponseCode, ServerCommand};
use leveret_types::limits::{SHORT_STRING_BYTES_MAX, STREAM_PARTITIONS_MAX};

impl Session {
    pub(crate) fn route(
        &mut self,
        correlation_id: u32,
        routing_key: &str,
        super_stream: &str,
        port: &mut impl Port,
    ) {
        let streams = port.route(super_stream, routing_key);
        let leads_nowhere = streams.as_ref().is_none_or(Vec::is_empty);
        if leads_nowhere && self.waits_for_others(port) {
            return;
        }
        let Some(streams) = &streams else {
            let code = ResponseCode::STREAM_DOES_NOT_EXIST;
            return self.answer(Key::Route, correlation_id, code);
        };
        let streams = streams.iter().map(|stream| &**stream).collect();
        self.say(&ServerCommand::Response {
            correlation_id,
            code: ResponseCode::OK,
            answer: Answer::Route { streams },
        });
    }

    pub(crate) fn partitions(
        &mut self,
        correlation_id: u32,
        super_stream: &str,
        port: &mut impl Port,
    ) {
        if self.waits_for_others(port) {
            return;
        }
        let streams = port.partitions(super_stream);
        let Some(streams) = &streams else {
            let code = ResponseCode::STREAM_DOES_NOT_EXIST;
            return self.answer(Key::Partitions, correlation_id, code);
        };
        let streams = streams.iter().map(|stream| &**stream).collect();
        self.say(&ServerCommand::Response {
            correlation_id,
            code: ResponseCode::OK,
            answer: Answer::Partitions { streams },
        });
    }

    pub(crate) fn create_super_stream(
        &mut self,
        correlation_id: u32,
        name: &str,
        (partitions, keys): (&[&str], &[&str]),
        arguments: &[(&str, &str)],
        port: &mut impl Port,
    ) {
        let key = Key::CreateSuperStream;
        let names: Vec<String> = partitions.iter().map(|&name| name.to_owned()).collect();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let are_names = is_name(name) && names.iter().all(|name| is_name(name));
        let are_keys = keys.iter().all(|key| key.len() <= SHORT_STRING_BYTES_MAX);
        let are_pairs = are_keys && !names.is_empty() && names.len() == keys.len();
        let settings = StreamSettings::from_arguments(arguments.iter().copied());
        let refusal = match settings {
            _ if names.len() > STREAM_PARTITIONS_MAX => ResponseCode::PRECONDITION_FAILED,
            _ if !are_names => ResponseCode::PRECONDITION_FAILED,
            _ if !port.permits_super_stream(name, &names) => ResponseCode::ACCESS_REFUSED,
            Ok(_) if are_pairs && distinct.len() == names.len() => {
                if port.has_exchange(name) {
                    if self.waits_for_others(port) {
                        return;
                    }
                    ResponseCode::STREAM_ALREADY_EXISTS
                } else {
                    let keys = keys.iter().map(|&key| key.to_owned());
                    let making = SuperStreamChange {
                        name: name.to_owned(),
                        partitions: names.into_iter().zip(keys).collect(),
                        done: 0,
                        arguments: Some(owned(arguments)),
                        code: ResponseCode::OK,
                    };
                    return self.next_partition(correlation_id, making, port);
                }
            }
            _ => ResponseCode::PRECONDITION_FAILED,
        };
        self.answer(key, correlation_id, refusal);
    }

    pub(crate) fn delete_super_stream(
        &mut self,
        correlation_id: u32,
        name: &str,
        port: &mut impl Port,
    ) {
        if self.waits_for_others(port) {
            return;
        }
        let key = Key::DeleteSuperStream;
        let partitions = port.partitions(name);
        if !port.permits_super_stream(name, partitions.as_deref().unwrap_or_default()) {
            return self.answer(key, correlation_id, ResponseCode::ACCESS_REFUSED);
        }
        let Some(partitions) = partitions else {
            return self.answer(key, correlation_id, ResponseCode::STREAM_DOES_NOT_EXIST);
        };
        let request = self.request();
        port.remove_super_stream(request, name);
        self.pending_request = Some(PendingRequest::SuperStream {
            request,
            correlation_id,
            making: SuperStreamChange {
                name: name.to_owned(),
                partitions: partitions.into_iter().map(|p| (p, String::new())).collect(),
                done: 0,
                arguments: None,
                code: ResponseCode::OK,
            },
        });
    }

    /// Whether the frame at hand is to be looked at again once this node knows what the others had
    /// agreed on. Partitions that are added come one by one: who is told some of them would
    /// take them for all.
    fn waits_for_others(&mut self, port: &mut impl Port) -> bool {
        self.may_be_behind = port.may_be_behind();
        self.may_be_behind
    }

    /// A super stream is made, or taken away before its partitions are, or the code says why not.
    pub fn super_stream_changed(
        &mut self,
        request: RequestId,
        result: Result<(), ResponseCode>,
        port: &mut impl Port,
    ) {
        let pending = self
            .pending_request
            .take_if(|pending| pending.awaits(request));
        let Some(PendingRequest::SuperStream {
            correlation_id,
            making,
            ..
        }) = pending
        else {
            return;
        };
        match (result, making.arguments.is_some()) {
            (Ok(()), true) => self.answer(Key::CreateSuperStream, correlation_id, making.code),
            (Ok(()), false) => self.next_partition(correlation_id, making, port),
            (Err(code), true) => self.undo(correlation_id, making, code, port),
            (Err(code), false) => self.answer(Key::DeleteSuperStream, correlation_id, code),
        }
        self.tell_gone_behind();
        self.read_on(port);
    }

    /// Has the next partition made or deleted; answers when there is none.
    fn next_partition(
        &mut self,
        correlation_id: u32,
        making: SuperStreamChange,
        port: &mut impl Port,
    ) {
        let Some((partition, _)) = making.partitions.get(making.done) else {
            return self.all_partitions_done(correlation_id, making, port);
        };
        let (vhost, name) = (self.client.vhost.clone(), partition.as_str().into());
        let request = self.request();
        port.send(match &making.arguments {
            Some(arguments) => Command::Declare {
                request,
                vhost,
                name,
                arguments: arguments.clone(),
            },
            None => Command::Delete {
                request,
                vhost,
                name,
            },
        });
        self.pending_request = Some(PendingRequest::SuperStream {
            request,
            correlation_id,
            making,
        });
    }

    pub(crate) fn partition_done(
        &mut self,
        correlation_id: u32,
        mut making: SuperStreamChange,
        refusal: Option<&Refusal>,
        port: &mut impl Port,
    ) {
        match refusal {
            // A partition that has been deleted by itself is gone too.
            Some(refusal) if making.arguments.is_some() => {
                self.undo(correlation_id, making, code_of(refusal), port);
            }
            _ => {
                making.done += 1;
                self.next_partition(correlation_id, making, port);
            }
        }
    }

    fn all_partitions_done(
        &mut self,
        correlation_id: u32,
        making: SuperStreamChange,
        port: &mut impl Port,
    ) {
        let Some(arguments) = &making.arguments else {
            let key = match making.code {
                ResponseCode::OK => Key::DeleteSuperStream,
                _ => Key::CreateSuperStream,
            };
            return self.answer(key, correlation_id, making.code);
        };
        let request = self.request();
        port.make_super_stream(request, &making.name, &making.partitions, arguments);
        self.pending_request = Some(PendingRequest::SuperStream {
            request,
            correlation_id,
            making,
        });
    }

    /// A super stream cannot be made: the partitions that were made for it go again.
    fn undo(
        &mut self,
        correlation_id: u32,
        mut making: SuperStreamChange,
        code: ResponseCode,
        port: &mut impl Port,
    ) {
        making.partitions.truncate(making.done);
        making.done = 0;
        making.arguments = None;
        making.code = code;
        self.next_partition(correlation_id, making, port);
    }
}
