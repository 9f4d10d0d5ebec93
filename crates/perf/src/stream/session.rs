//! One connection of a client of the stream protocol: frames in, frames out, and what has happened.
//!
//! ```text
//! begin -> Properties -> Mechanisms -> Login -> Tuning -> Opening -> Open -> Closing -> Closed
//! ```

use leveret_stream_protocol::server::StreamMetadata;
use leveret_stream_protocol::wire::Opaque;
use leveret_stream_protocol::{
    Answer, ClientCommand, Frame, Key, Request, ResponseCode, ServerCommand, server::PublishingIds,
};

/// Octets of a frame that we send, where the broker names no bound, and at most.
const FRAME_BYTES_MAX: u32 = 1024 * 1024;
/// The only mechanism that is asked for.
const PLAIN: &str = "PLAIN";

/// Who opens the connection, and what for.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The virtual host.
    pub virtual_host: String,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Properties,
    Mechanisms,
    Login,
    Tuning,
    Opening,
    Open,
    Closing,
    Closed,
}

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The broker sent what the protocol does not allow there.
    #[error("{0}")]
    Protocol(String),
    /// The broker refused a request.
    #[error("{command} was refused: {}", .code.name())]
    Refused {
        /// Which.
        command: &'static str,
        /// Why.
        code: ResponseCode,
    },
    /// The broker does not let the user in.
    #[error("the login was refused: {}", .0.name())]
    Login(ResponseCode),
    /// The broker closed the connection.
    #[error("closed: {} {reason}", .code.name())]
    Closed {
        /// Why.
        code: ResponseCode,
        /// The same in words.
        reason: String,
    },
    /// A stream has gone, or is led elsewhere.
    #[error("stream '{0}' is not available any more")]
    StreamGone(String),
}

/// What a frame of the broker says to those who use a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The connection is open.
    Opened,
    /// A request was answered, and not refused.
    Answered {
        /// That of the request.
        correlation_id: u32,
        /// What was asked for.
        answer: Answer<'a>,
    },
    /// Where streams are.
    Metadata(Vec<StreamMetadata<'a>>),
    /// Messages are kept.
    Confirmed {
        /// Whose.
        publisher_id: u8,
        /// Which.
        publishing_ids: PublishingIds<'a>,
    },
    /// Messages are not kept.
    NotKept {
        /// Whose.
        publisher_id: u8,
        /// Which, and why.
        errors: Vec<(u64, ResponseCode)>,
    },
    /// A chunk.
    Delivered {
        /// For whom.
        subscription_id: u8,
        /// The chunk.
        chunk: &'a [u8],
    },
    /// The connection is closed in order.
    Closed,
}

/// A connection.
pub struct Session {
    login: Login,
    stage: Stage,
    correlation_id: u32,
    frame_max: u32,
    product: (String, String),
}

impl Session {
    /// A connection that is to be opened, and the first of what is to be sent for it.
    #[must_use]
    pub fn begin(login: Login, out: &mut Vec<u8>) -> Self {
        let mut session = Self {
            login,
            stage: Stage::Properties,
            correlation_id: 0,
            frame_max: FRAME_BYTES_MAX,
            product: ("unknown".to_owned(), "unknown".to_owned()),
        };
        let properties = vec![("product", "leveret perf")];
        session.request(Request::PeerProperties { properties }, out);
        session
    }

    /// Product and version, as the broker names itself.
    #[must_use]
    pub fn product(&self) -> &(String, String) {
        &self.product
    }

    /// Octets of a frame that we may send, its size not counted.
    #[must_use]
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Sends a request; gives the number by which its answer is known.
    pub fn request(&mut self, request: Request<'_>, out: &mut Vec<u8>) -> u32 {
        self.correlation_id += 1;
        let correlation_id = self.correlation_id;
        let command = ClientCommand::Request {
            correlation_id,
            request,
        };
        command.encode(out);
        correlation_id
    }

    /// Asks the broker to close the connection.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.stage = Stage::Closing;
        let close = Request::Close {
            code: ResponseCode::OK,
            reason: "done",
        };
        self.request(close, out);
    }

    /// Lets a subscription be sent so many chunks more.
    pub fn credit(&self, subscription_id: u8, credit: u16, out: &mut Vec<u8>) {
        let command = ClientCommand::Credit {
            subscription_id,
            credit,
        };
        command.encode(out);
    }

    /// Stores how far a consumer of that name has come. Not answered.
    pub fn store_offset(&self, reference: &str, stream: &str, offset: u64, out: &mut Vec<u8>) {
        let command = ClientCommand::StoreOffset {
            reference,
            stream,
            offset,
        };
        command.encode(out);
    }

    /// Takes a frame; what is to be sent for it is appended to `out`.
    ///
    /// # Errors
    /// [`Fault`] if the connection cannot go on.
    pub fn frame<'a>(
        &mut self,
        frame: Frame<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        let command = ServerCommand::decode(frame);
        let command = command.map_err(|error| Fault::Protocol(error.to_string()))?;
        match command {
            ServerCommand::Deliver {
                subscription_id,
                chunk,
                ..
            } => Ok(Some(Event::Delivered {
                subscription_id,
                chunk,
            })),
            ServerCommand::PublishConfirm {
                publisher_id,
                publishing_ids,
            } => Ok(Some(Event::Confirmed {
                publisher_id,
                publishing_ids,
            })),
            ServerCommand::PublishError {
                publisher_id,
                errors,
            } => Ok(Some(Event::NotKept {
                publisher_id,
                errors,
            })),
            ServerCommand::Metadata { streams, .. } => Ok(Some(Event::Metadata(streams))),
            ServerCommand::Response {
                correlation_id,
                code,
                answer,
            } => self.answered(correlation_id, code, answer, out),
            other => self.on_rare(&other, out).map(|()| None),
        }
    }

    fn on_rare(&mut self, command: &ServerCommand<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        match *command {
            ServerCommand::Tune { frame_max, .. } if self.stage == Stage::Tuning => {
                if frame_max > 0 {
                    self.frame_max = frame_max.min(FRAME_BYTES_MAX);
                }
                // No heartbeats: a generator that is held back must not be cut off for it.
                let tune = ClientCommand::Tune {
                    frame_max: self.frame_max,
                    heartbeat: 0,
                };
                tune.encode(out);
                let vhost = self.login.virtual_host.clone();
                self.request(Request::Open { vhost: &vhost }, out);
                self.stage = Stage::Opening;
                Ok(())
            }
            ServerCommand::Heartbeat => {
                ClientCommand::Heartbeat.encode(out);
                Ok(())
            }
            ServerCommand::Close {
                correlation_id,
                code,
                reason,
            } => {
                let closed = ClientCommand::Closed {
                    correlation_id,
                    code: ResponseCode::OK,
                };
                closed.encode(out);
                self.stage = Stage::Closed;
                let reason = reason.to_owned();
                Err(Fault::Closed { code, reason })
            }
            // What was deleted with the connection still open at the end is nobody's loss.
            ServerCommand::MetadataUpdate { .. } if self.stage == Stage::Closing => Ok(()),
            ServerCommand::MetadataUpdate { stream, .. } => {
                Err(Fault::StreamGone(stream.to_owned()))
            }
            ServerCommand::CreditFailed { .. } => Ok(()),
            ServerCommand::ConsumerUpdate { correlation_id, .. } => {
                let updated = ClientCommand::ConsumerUpdated {
                    correlation_id,
                    code: ResponseCode::OK,
                    offset: leveret_stream_protocol::OffsetSpec::None,
                };
                updated.encode(out);
                Ok(())
            }
            ref other => Err(Fault::Protocol(format!("{other:?} while {:?}", self.stage))),
        }
    }

    fn answered<'a>(
        &mut self,
        correlation_id: u32,
        code: ResponseCode,
        answer: Answer<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        if code != ResponseCode::OK {
            return Err(match answer.key() {
                Key::SaslAuthenticate => Fault::Login(code),
                key => Fault::Refused {
                    command: command_name(key),
                    code,
                },
            });
        }
        let next = match (self.stage, &answer) {
            (Stage::Properties, Answer::PeerProperties { properties }) => {
                self.product = product(properties);
                self.request(Request::SaslHandshake {}, out);
                Stage::Mechanisms
            }
            (Stage::Mechanisms, Answer::SaslHandshake { mechanisms }) => {
                if !mechanisms.contains(&PLAIN) {
                    let what = format!("no {PLAIN} among {}", mechanisms.join(", "));
                    return Err(Fault::Protocol(what));
                }
                let response = format!("\0{}\0{}", self.login.user, self.login.password);
                let authenticate = Request::SaslAuthenticate {
                    mechanism: PLAIN,
                    response: Opaque(response.as_bytes()),
                };
                self.request(authenticate, out);
                Stage::Login
            }
            (Stage::Login, Answer::SaslAuthenticate { .. }) => Stage::Tuning,
            (Stage::Opening, Answer::Open { .. }) => {
                self.stage = Stage::Open;
                return Ok(Some(Event::Opened));
            }
            (Stage::Closing, Answer::Close {}) => {
                self.stage = Stage::Closed;
                return Ok(Some(Event::Closed));
            }
            (Stage::Open | Stage::Closing, _) => {
                return Ok(Some(Event::Answered {
                    correlation_id,
                    answer,
                }));
            }
            (stage, answer) => {
                let what = format!("an answer to {:?} while {stage:?}", answer.key());
                return Err(Fault::Protocol(what));
            }
        };
        self.stage = next;
        Ok(None)
    }
}

/// Product and version out of a broker's properties. Leveret tells clients a version of RabbitMQ's,
/// and its own beside it.
fn product(properties: &[(&str, &str)]) -> (String, String) {
    let find = |key: &str| {
        let found = properties.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| (*value).to_owned())
    };
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    match find("platform")
        .as_deref()
        .map(|p| p.split_once("Leveret "))
    {
        Some(Some(("", version))) => ("Leveret".to_owned(), version.to_owned()),
        _ => (known(find("product")), known(find("version"))),
    }
}

/// A command's name, for those who read errors.
fn command_name(key: Key) -> &'static str {
    match key {
        Key::DeclarePublisher => "DeclarePublisher",
        Key::Subscribe => "Subscribe",
        Key::Unsubscribe => "Unsubscribe",
        Key::QueryOffset => "QueryOffset",
        Key::Create => "Create",
        Key::Delete => "Delete",
        Key::Open => "Open",
        Key::SaslHandshake => "SaslHandshake",
        Key::PeerProperties => "PeerProperties",
        Key::Close => "Close",
        _ => "a request",
    }
}
