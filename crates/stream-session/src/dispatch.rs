//! Dispatches each frame of a client that is served.

use crate::pending_request::NextStep;
use crate::port::Port;
use crate::readers::Subscribe;
use crate::session::{Ending, Phase, Session};
use bytes::Bytes;
use leveret_auth::Access;
use leveret_stream_protocol::{
    Answer, ClientCommand, Key, Request, ResponseCode, SERVER_VERSIONS, ServerCommand, next_frame,
};

impl Session {
    /// A whole frame.
    pub(crate) fn frame(&mut self, bytes: &Bytes, port: &mut impl Port) {
        let Ok(Some(frame)) = next_frame(bytes, u32::MAX) else {
            return;
        };
        match (self.phase, ClientCommand::decode(frame)) {
            (Phase::Open, Ok(command)) => self.command(command, bytes, port),
            (Phase::Open, Err(error)) => {
                let code = ResponseCode::UNKNOWN_FRAME;
                self.close(code, &error.to_string(), port);
            }
            (Phase::Closing, Ok(ClientCommand::Closed { .. })) => self.end(port),
            // Client and broker close at the same time.
            (
                Phase::Closing,
                Ok(ClientCommand::Request {
                    correlation_id,
                    request: Request::Close { .. },
                }),
            ) => {
                self.answer(Key::Close, correlation_id, ResponseCode::OK);
                self.end(port);
            }
            (Phase::Closing | Phase::Over, _) => {}
            (_, Ok(command)) => self.early(command, port),
            (_, Err(_)) => self.end(port),
        }
        self.keep_for_retry(bytes);
    }

    fn command(&mut self, command: ClientCommand<'_>, frame: &Bytes, port: &mut impl Port) {
        match command {
            ClientCommand::Publish(publish) => self.publish(&publish, frame, port),
            ClientCommand::Credit {
                subscription_id,
                credit,
            } => self.credit(subscription_id, credit, port),
            ClientCommand::StoreOffset {
                reference,
                stream,
                offset,
            } => self.store_offset(reference, stream, offset, port),
            ClientCommand::Request {
                correlation_id,
                request,
            } => self.serve(correlation_id, request, port),
            ClientCommand::Heartbeat => {}
            ClientCommand::ConsumerUpdated {
                correlation_id,
                offset,
                ..
            } => self.consumer_updated(correlation_id, offset, port),
            ClientCommand::Tune { .. } | ClientCommand::Closed { .. } => {
                self.close(
                    ResponseCode::UNKNOWN_FRAME,
                    "nobody has asked for this",
                    port,
                );
            }
        }
    }

    fn serve(&mut self, id: u32, request: Request<'_>, port: &mut impl Port) {
        match request {
            Request::DeclarePublisher {
                publisher_id,
                reference,
                stream,
            } => self.declare_publisher(id, publisher_id, reference, stream, port),
            Request::DeletePublisher { publisher_id } => {
                self.delete_publisher(id, publisher_id, port);
            }
            Request::Subscribe {
                subscription_id,
                stream,
                offset,
                credit,
                properties,
            } => {
                let wanted = Subscribe::new(subscription_id, stream, offset, credit, &properties.0);
                self.subscribe(id, wanted, port);
            }
            Request::Unsubscribe { subscription_id } => {
                self.unsubscribe(id, subscription_id, port);
            }
            Request::Create { stream, arguments } => self.create(id, stream, &arguments, port),
            Request::Delete { stream } => self.delete(id, stream, port),
            Request::Metadata { streams } => self.metadata(id, &streams, port),
            Request::Close { .. } => {
                self.ending.get_or_insert(Ending::Client);
                self.answer(Key::Close, id, ResponseCode::OK);
                self.end(port);
            }
            Request::ExchangeCommandVersions { versions } => self.exchange_versions(id, &versions),
            Request::SaslAuthenticate {
                mechanism,
                response,
            } => self.authenticate(id, mechanism, response, port),
            Request::Route {
                routing_key,
                super_stream,
            } => self.route(id, routing_key, super_stream, port),
            Request::Partitions { super_stream } => self.partitions(id, super_stream, port),
            Request::CreateSuperStream {
                name,
                partitions,
                binding_keys,
                arguments,
            } => self.create_super_stream(id, name, (&partitions, &binding_keys), &arguments, port),
            Request::DeleteSuperStream { name } => self.delete_super_stream(id, name, port),
            Request::PeerProperties { .. } | Request::SaslHandshake {} | Request::Open { .. } => {
                self.close(ResponseCode::UNKNOWN_FRAME, "the handshake is over", port);
            }
            request => self.query(id, request, port),
        }
    }

    /// Requests that tell of a stream, all of them for those who may read it.
    fn query(&mut self, id: u32, request: Request<'_>, port: &mut impl Port) {
        let key = request.key();
        let (stream, then) = match request {
            Request::QueryPublisherSequence { reference, stream } => {
                (stream, NextStep::QuerySequence(reference.to_owned()))
            }
            Request::QueryOffset { reference, stream } => {
                (stream, NextStep::QueryOffset(reference.to_owned()))
            }
            Request::StreamStats { stream } => (stream, NextStep::Stats),
            Request::ResolveOffsetSpec { stream, offset, .. } => {
                (stream, NextStep::Resolve(offset))
            }
            _ => return self.close(ResponseCode::UNKNOWN_FRAME, "unknown frame", port),
        };
        match port.permits_stream(Access::Read, stream) {
            true => self.resolve(key, id, stream, then, port),
            false => self.answer(key, id, ResponseCode::ACCESS_REFUSED),
        }
    }

    fn exchange_versions(&mut self, correlation_id: u32, client: &[(u16, u16, u16)]) {
        let deliver = client
            .iter()
            .find(|(key, ..)| *key == Key::Deliver.number());
        if let Some((_, min, max)) = deliver {
            self.terms.deliver_version = if (*min..=*max).contains(&2) { 2 } else { 1 };
        }
        let versions = SERVER_VERSIONS.map(|(key, min, max)| (key.number(), min, max));
        self.say(&ServerCommand::Response {
            correlation_id,
            code: ResponseCode::OK,
            answer: Answer::ExchangeCommandVersions {
                versions: versions.to_vec(),
            },
        });
    }
}
