//! A client that waits for each answer: it sets streams and connections up before the load, and
//! takes streams down after it.

use std::sync::Arc;
use std::time::Duration;

use leveret_stream_protocol::server::NO_NODE;
use leveret_stream_protocol::{OffsetSpec, Request, ResponseCode, next_frame};
use rustls::ClientConfig;

use super::FRAME_READ_BYTES_MAX;
use super::session::{Event, Fault, Login, Session};
use crate::awaited::Awaited;
use crate::client::Opened;
use crate::error::Error;
use crate::uri::Uri;

/// A connection that was opened.
pub struct StreamClient {
    awaited: Awaited,
    user: String,
    session: Session,
    output: Vec<u8>,
}

/// What an answer said, as far as anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Done,
    Led(bool),
    Opened,
    Closed,
}

impl StreamClient {
    /// Connects, logs in, opens the virtual host; the broker may take so long for each answer.
    ///
    /// # Errors
    /// If the broker is not there, or does not let the user in.
    pub fn connect_within(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let awaited = Awaited::connect(uri, tls, patience)?;
        let login = Login {
            user: uri.user.clone(),
            password: uri.password.clone(),
            virtual_host: uri.virtual_host.clone(),
        };
        let mut output = Vec::new();
        let mut client = Self {
            awaited,
            user: uri.user.clone(),
            session: Session::begin(login, &mut output),
            output,
        };
        client.until(|said, _| said == Said::Opened)?;
        Ok(client)
    }

    /// Product and version, as the broker names itself.
    #[must_use]
    pub fn product(&self) -> &(String, String) {
        self.session.product()
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// If the broker does not answer, or refuses; so for all that follow.
    pub fn create(&mut self, stream: &str, arguments: &[(String, String)]) -> Result<(), Error> {
        let pairs = arguments.iter();
        let arguments = pairs.map(|(k, v)| (k.as_str(), v.as_str())).collect();
        self.call(Request::Create { stream, arguments })?;
        Ok(())
    }

    /// Deletes a stream.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn delete(&mut self, stream: &str) -> Result<(), Error> {
        self.call(Request::Delete { stream }).map(|_| ())
    }

    /// Whether there is such a stream, and a node that leads it.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn is_led(&mut self, stream: &str) -> Result<bool, Error> {
        let streams = vec![stream];
        Ok(self.call(Request::Metadata { streams })? == Said::Led(true))
    }

    /// Says who publishes under a number of the connection's.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn declare_publisher(&mut self, publisher_id: u8, stream: &str) -> Result<(), Error> {
        let declare = Request::DeclarePublisher {
            publisher_id,
            reference: "",
            stream,
        };
        self.call(declare).map(|_| ())
    }

    /// Stores how far a consumer of that name has come.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn store_offset(
        &mut self,
        reference: &str,
        stream: &str,
        offset: u64,
    ) -> Result<(), Error> {
        let out = &mut self.output;
        self.session.store_offset(reference, stream, offset, out);
        self.flush()
    }

    /// Closes in order.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn close(mut self) -> Result<(), Error> {
        self.session.close(&mut self.output);
        self.until(|said, _| said == Said::Closed).map(|_| ())
    }

    /// Hands the connection to an event loop.
    ///
    /// # Errors
    /// Of the socket.
    pub fn into_opened(self) -> Result<Opened, Error> {
        let (transport, input, place) = self.awaited.into_nonblocking()?;
        Ok(Opened {
            transport,
            input,
            frame_max: self.session.frame_max(),
            place,
            session: Some(self.session),
        })
    }

    fn call(&mut self, request: Request<'_>) -> Result<Said, Error> {
        let asked = self.session.request(request, &mut self.output);
        self.until(|_, answered| answered.is_none_or(|id| id == asked))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.awaited.send(&mut self.output)
    }

    /// Sends and reads until `is_it` finds what was waited for.
    fn until(&mut self, is_it: impl Fn(Said, Option<u32>) -> bool) -> Result<Said, Error> {
        loop {
            self.flush()?;
            let frame = match next_frame(self.awaited.input(), FRAME_READ_BYTES_MAX) {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    self.awaited.fill()?;
                    continue;
                }
                Err(error) => return Err(self.awaited.protocol(error.to_string())),
            };
            let bytes = frame.wire_len();
            let event = self.session.frame(frame, &mut self.output);
            let event =
                event.map_err(|fault| Error::of_stream(self.awaited.place(), &self.user, fault))?;
            let found = event.and_then(|event| said(&event));
            self.awaited.consume(bytes);
            if let Some((said, _)) = found.filter(|(said, id)| is_it(*said, *id)) {
                return Ok(said);
            }
        }
    }
}

/// What an event is to who waits for an answer: what was said, and to which request, if to one.
fn said(event: &Event<'_>) -> Option<(Said, Option<u32>)> {
    Some(match event {
        Event::Opened => (Said::Opened, None),
        Event::Closed => (Said::Closed, None),
        Event::Answered { correlation_id, .. } => (Said::Done, Some(*correlation_id)),
        Event::Metadata(streams) => {
            let is_led = |stream: &leveret_stream_protocol::server::StreamMetadata<'_>| {
                stream.code == ResponseCode::OK && stream.leader != NO_NODE
            };
            (Said::Led(streams.iter().all(is_led)), None)
        }
        _ => return None,
    })
}

/// Where a consumer begins, by the value of `x-stream-offset` that AMQP knows.
///
/// # Errors
/// A text that says what may be given.
pub fn offset_spec(value: Option<&toml::Value>) -> Result<OffsetSpec, String> {
    Ok(match value {
        None => OffsetSpec::First,
        Some(toml::Value::Integer(offset)) if *offset >= 0 => {
            OffsetSpec::Offset(offset.unsigned_abs())
        }
        Some(toml::Value::String(word)) if word == "first" => OffsetSpec::First,
        Some(toml::Value::String(word)) if word == "last" => OffsetSpec::Last,
        Some(toml::Value::String(word)) if word == "next" => OffsetSpec::Next,
        Some(_) => return Err("`first`, `last`, `next` or an offset".to_owned()),
    })
}

impl Error {
    /// What a fault of a connection to `place` is to the run.
    pub(crate) fn of_stream(place: &str, user: &str, fault: Fault) -> Self {
        let place = place.to_owned();
        match fault {
            Fault::Protocol(what) => Self::Protocol { place, what },
            Fault::Refused { command, code } => Self::Refused {
                place,
                command,
                code: code.0,
                name: code.name(),
            },
            Fault::Login(code) => Self::Login {
                place,
                user: user.to_owned(),
                text: code.name().to_owned(),
            },
            Fault::Closed { code, reason } => Self::Closed {
                place,
                scope: "stream connection",
                code: code.0,
                text: reason,
            },
            Fault::StreamGone(stream) => Self::StreamGone { place, stream },
        }
    }
}
