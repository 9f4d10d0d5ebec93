//! Channel 0: the handshake, and the end of a connection.

use crate::connection::{Connection, End, Phase};
use crate::replies::PendingRequest;
use leveret_amqp::{Method, TableBuilder, connection};
use leveret_client::contract::{LoginOutcome, Request};
use leveret_types::{ProtocolError, ReplyCode};

impl Connection {
    /// The protocol header was right: offers what there is.
    pub(crate) fn start(&mut self) {
        let settings = self.settings.clone();
        let properties = TableBuilder::from(&settings.server_properties);
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: properties.as_table(),
            mechanisms: settings.mechanisms.as_bytes(),
            locales: b"en_US",
        };
        self.send(0, &start);
        self.phase = Phase::Starting;
    }

    /// A method on channel 0.
    pub(crate) fn connection_method(
        &mut self,
        method: Method<'_>,
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        match (self.phase, method) {
            (Phase::Starting, Method::ConnectionStartOk(start_ok)) => {
                self.start_ok(&start_ok, requests)
            }
            (Phase::Securing, Method::ConnectionSecureOk(secure_ok)) => {
                self.log_in(secure_ok.response, requests);
                Ok(())
            }
            (Phase::Tuning, Method::ConnectionTuneOk(tune_ok)) => self.tune_ok(&tune_ok),
            (Phase::Opening, Method::ConnectionOpen(open)) => {
                let vhost = open.virtual_host.to_owned();
                self.pending_request = Some(PendingRequest::OpenVhost {
                    vhost: vhost.clone(),
                });
                requests.push(Request::OpenVhost { vhost });
                Ok(())
            }
            (Phase::Running, Method::ConnectionClose(_)) => {
                self.flush();
                self.close_channels(requests);
                self.closed_by_client();
                Ok(())
            }
            // A client that gives up during the handshake: RabbitMQ has an error for it, and the
            // client no use for that.
            (Phase::Securing | Phase::Tuning | Phase::Opening, Method::ConnectionClose(_)) => {
                self.closed_by_client();
                Ok(())
            }
            (Phase::Running, Method::ConnectionUpdateSecret(update)) => {
                self.pending_request = Some(PendingRequest::UpdateSecret);
                requests.push(Request::UpdateSecret {
                    secret: update.new_secret.to_vec(),
                    reason: update.reason.to_owned(),
                });
                Ok(())
            }
            (phase, _) => {
                let text = format!("unexpected method in connection state {}", phase.name());
                Err(ProtocolError::connection(ReplyCode::ChannelError, text))
            }
        }
    }

    fn start_ok(
        &mut self,
        start_ok: &connection::StartOk<'_>,
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        let mechanism = start_ok.mechanism;
        if !self
            .settings
            .mechanisms
            .split(' ')
            .any(|offered| offered == mechanism)
        {
            let text = format!("unknown authentication mechanism '{mechanism}'");
            return Err(ProtocolError::connection(ReplyCode::CommandInvalid, text));
        }
        self.client.introduce(mechanism, start_ok.client_properties);
        self.log_in(start_ok.response, requests);
        Ok(())
    }

    fn log_in(&mut self, response: &[u8], requests: &mut Vec<Request>) {
        self.pending_request = Some(PendingRequest::Login);
        requests.push(Request::Login {
            mechanism: self.client.mechanism.clone(),
            response: response.to_vec(),
        });
    }

    /// What became of a login.
    pub(crate) fn logged_in(&mut self, outcome: LoginOutcome, requests: &mut Vec<Request>) {
        match outcome {
            LoginOutcome::Accepted { user } => {
                self.client.user = user;
                let tune = connection::Tune {
                    channel_max: self.settings.channel_max,
                    frame_max: self.settings.frame_max,
                    heartbeat: self.settings.heartbeat_seconds,
                };
                self.send(0, &tune);
                self.phase = Phase::Tuning;
            }
            LoginOutcome::Challenge(challenge) => {
                self.send(
                    0,
                    &connection::Secure {
                        challenge: &challenge,
                    },
                );
                self.phase = Phase::Securing;
            }
            // An old client takes a close before the handshake is over for a broken broker: it
            // expects to be dropped.
            LoginOutcome::Refused { text }
                if !self.client.capabilities.authentication_failure_close =>
            {
                self.end_with(End::Login(text));
            }
            LoginOutcome::Refused { text } => {
                let error = ProtocolError::connection(ReplyCode::AccessRefused, text);
                self.fail_connection(error, requests);
            }
        }
    }

    fn tune_ok(&mut self, tune_ok: &connection::TuneOk) -> Result<(), ProtocolError> {
        self.terms.agree(&self.settings, tune_ok)?;
        self.phase = Phase::Opening;
        Ok(())
    }

    /// The virtual host is open: the handshake is over.
    pub(crate) fn opened(&mut self, vhost: String) {
        self.client.vhost = vhost;
        self.send(0, &connection::OpenOk {});
        self.phase = Phase::Running;
        self.times.begin_running(self.terms.heartbeat_ms());
    }
}
