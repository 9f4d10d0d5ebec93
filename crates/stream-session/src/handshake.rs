//! From the first frame to an open virtual host, and logins that are renewed later.

use crate::pending_request::PendingRequest;
use crate::port::{LoginOutcome, Opening, Port};
use crate::session::{Phase, Session};
use leveret_stream_protocol::wire::Opaque;
use leveret_stream_protocol::{
    Answer, ClientCommand, Key, Optional, Request, ResponseCode, ServerCommand, Trailing,
};

impl Session {
    /// A frame before the virtual host is open. What comes out of turn ends the connection, as in
    /// RabbitMQ.
    pub(crate) fn early(&mut self, command: ClientCommand<'_>, port: &mut impl Port) {
        match (self.phase, command) {
            (_, ClientCommand::Heartbeat) => {}
            (
                Phase::Tuning,
                ClientCommand::Tune {
                    frame_max,
                    heartbeat,
                },
            ) => self.tuned(frame_max, heartbeat),
            (
                phase,
                ClientCommand::Request {
                    correlation_id,
                    request,
                },
            ) => self.early_request(phase, correlation_id, request, port),
            _ => self.end(port),
        }
    }

    fn early_request(
        &mut self,
        phase: Phase,
        correlation_id: u32,
        request: Request<'_>,
        port: &mut impl Port,
    ) {
        match (phase, request) {
            (Phase::Connected, Request::PeerProperties { properties }) => {
                let owned = properties.iter().map(|(k, v)| ((*k).into(), (*v).into()));
                self.client.properties = owned.collect();
                self.introduce(correlation_id);
            }
            (Phase::Introduced, Request::SaslHandshake {}) => self.offer(correlation_id),
            (
                Phase::Authenticating,
                Request::SaslAuthenticate {
                    mechanism,
                    response,
                },
            ) => self.authenticate(correlation_id, mechanism, response, port),
            (Phase::Tuned, Request::Open { vhost }) => self.open(correlation_id, vhost, port),
            _ => self.end(port),
        }
    }

    fn introduce(&mut self, correlation_id: u32) {
        let settings = self.settings.clone();
        let properties = settings.server_properties.iter();
        self.say(&ServerCommand::Response {
            correlation_id,
            code: ResponseCode::OK,
            answer: Answer::PeerProperties {
                properties: properties.map(|(k, v)| (&**k, &**v)).collect(),
            },
        });
        self.phase = Phase::Introduced;
    }

    fn offer(&mut self, correlation_id: u32) {
        let settings = self.settings.clone();
        self.say(&ServerCommand::Response {
            correlation_id,
            code: ResponseCode::OK,
            answer: Answer::SaslHandshake {
                mechanisms: settings.mechanisms.iter().map(|m| &**m).collect(),
            },
        });
        self.phase = Phase::Authenticating;
    }

    /// A response to a mechanism: at the handshake, or later with a secret that has been renewed.
    pub(crate) fn authenticate(
        &mut self,
        correlation_id: u32,
        mechanism: &str,
        response: Opaque<'_>,
        port: &mut impl Port,
    ) {
        let refusal = match self.phase {
            Phase::Open if mechanism != self.client.mechanism => {
                Some(ResponseCode::SASL_CANNOT_CHANGE_MECHANISM)
            }
            _ if !self.settings.mechanisms.iter().any(|m| m == mechanism) => {
                Some(ResponseCode::SASL_MECHANISM_NOT_SUPPORTED)
            }
            _ => None,
        };
        if let Some(code) = refusal {
            self.answer(Key::SaslAuthenticate, correlation_id, code);
            return self.end(port);
        }
        mechanism.clone_into(&mut self.client.mechanism);
        self.pending_request = Some(PendingRequest::Login { correlation_id });
        port.log_in(mechanism, response.0);
    }

    /// What became of a login.
    pub fn logged_in(&mut self, outcome: LoginOutcome, port: &mut impl Port) {
        let Some(PendingRequest::Login { correlation_id }) = self.pending_request else {
            return;
        };
        self.pending_request = None;
        match outcome {
            LoginOutcome::Accepted { user } if self.phase == Phase::Open => {
                match user == self.client.user {
                    true => self.answer(Key::SaslAuthenticate, correlation_id, ResponseCode::OK),
                    false => {
                        let code = ResponseCode::SASL_CANNOT_CHANGE_USERNAME;
                        self.answer(Key::SaslAuthenticate, correlation_id, code);
                        self.end(port);
                    }
                }
            }
            LoginOutcome::Accepted { user } => {
                self.client.user = user;
                self.answer(Key::SaslAuthenticate, correlation_id, ResponseCode::OK);
                let settings = self.settings.clone();
                self.say(&ServerCommand::Tune {
                    frame_max: settings.frame_max,
                    heartbeat: settings.heartbeat_seconds,
                });
                self.phase = Phase::Tuning;
            }
            LoginOutcome::Challenge(challenge) => self.say(&ServerCommand::Response {
                correlation_id,
                code: ResponseCode::SASL_CHALLENGE,
                answer: Answer::SaslAuthenticate {
                    challenge: Optional(&challenge),
                },
            }),
            LoginOutcome::Refused(code) => {
                self.answer(Key::SaslAuthenticate, correlation_id, code);
                self.end(port);
            }
        }
        self.tell_gone_behind();
        self.read_on(port);
    }

    fn tuned(&mut self, frame_max: u32, heartbeat: u32) {
        let most = self.settings.frame_max;
        self.terms.tune(frame_max, most, heartbeat);
        self.phase = Phase::Tuned;
    }

    fn open(&mut self, correlation_id: u32, vhost: &str, port: &mut impl Port) {
        match port.open_vhost(vhost) {
            Opening::Opened => {}
            Opening::Later => return self.may_be_behind = true,
            Opening::Refused => {
                let code = ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE;
                self.answer(Key::Open, correlation_id, code);
                return self.end(port);
            }
        }
        let settings = self.settings.clone();
        let advertised_port = settings.advertised_port.to_string();
        self.say(&ServerCommand::Response {
            correlation_id,
            code: ResponseCode::OK,
            answer: Answer::Open {
                properties: Trailing(vec![
                    ("advertised_host", &settings.advertised_host),
                    ("advertised_port", &advertised_port),
                ]),
            },
        });
        self.opened(vhost);
    }
}
