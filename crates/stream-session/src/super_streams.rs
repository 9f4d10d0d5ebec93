//! Super streams: made and taken away partition by partition.

use crate::asked::{Asked, Making};
use crate::port::Port;
use crate::publishers::code_of;
use crate::session::Session;
use crate::values::{is_name, owned};
use leveret_stream::{Command, Refusal, StreamSettings};
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
                    ResponseCode::STREAM_ALREADY_EXISTS
                } else {
                    let keys = keys.iter().map(|&key| key.to_owned());
                    let making = Making {
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
        let key = Key::DeleteSuperStream;
        let partitions = port.partitions(name).unwrap_or_default();
        if !port.permits_super_stream(name, &partitions) {
            return self.answer(key, correlation_id, ResponseCode::ACCESS_REFUSED);
        }
        if let Err(code) = port.remove_super_stream(name) {
            return self.answer(key, correlation_id, code);
        }
        let making = Making {
            name: name.to_owned(),
            partitions: partitions.into_iter().map(|p| (p, String::new())).collect(),
            done: 0,
            arguments: None,
            code: ResponseCode::OK,
        };
        self.next_partition(correlation_id, making, port);
    }

    /// Has the next partition made or deleted; answers when there is none.
    fn next_partition(&mut self, correlation_id: u32, making: Making, port: &mut impl Port) {
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
        self.asked = Some(Asked::SuperStream {
            request,
            correlation_id,
            making,
        });
    }

    pub(crate) fn partition_done(
        &mut self,
        correlation_id: u32,
        mut making: Making,
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

    fn all_partitions_done(&mut self, correlation_id: u32, making: Making, port: &mut impl Port) {
        let Some(arguments) = &making.arguments else {
            let key = match making.code {
                ResponseCode::OK => Key::DeleteSuperStream,
                _ => Key::CreateSuperStream,
            };
            return self.answer(key, correlation_id, making.code);
        };
        match port.make_super_stream(&making.name, &making.partitions, arguments) {
            Ok(()) => self.answer(Key::CreateSuperStream, correlation_id, ResponseCode::OK),
            Err(code) => self.undo(correlation_id, making, code, port),
        }
    }

    /// A super stream cannot be made: the partitions that were made for it go again.
    fn undo(
        &mut self,
        correlation_id: u32,
        mut making: Making,
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
