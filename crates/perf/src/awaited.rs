//! A connection whose client waits for each answer: what is sent and read before the event loop
//! has it. Apart because the clients of both protocols stand on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::error::Error;
use crate::transport::Transport;
use crate::uri::Uri;

const READ_BYTES: usize = 64 * 1024;

/// The byte stream, and what was read of it.
pub(crate) struct Awaited {
    place: String,
    transport: Transport,
    input: Vec<u8>,
    consumed: usize,
}

impl Awaited {
    /// Connects to a broker that may take so long for each answer.
    pub(crate) fn connect(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let place = uri.place();
        match Transport::connect(uri, tls, patience) {
            Ok(transport) => Ok(Self {
                place,
                transport,
                input: Vec::new(),
                consumed: 0,
            }),
            Err(error) => Err(Error::Connection { place, error }),
        }
    }

    /// Host and port, for errors.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Sends all of `output`, which is empty afterwards.
    pub(crate) fn send(&mut self, output: &mut Vec<u8>) -> Result<(), Error> {
        let output = std::mem::take(output);
        let mut rest = &output[..];
        while !rest.is_empty() {
            let taken = self.transport.write(rest);
            let taken = taken.map_err(|error| self.connection(error))?;
            rest = &rest[taken..];
        }
        let flushed = self.transport.flush();
        flushed.map_err(|error| self.connection(error))
    }

    /// What was read and not consumed.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.consumed..]
    }

    /// So many bytes of it were looked at.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.consumed += bytes;
    }

    /// Waits for more.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let read = self.transport.read(&mut self.input[before..]);
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(self.connection(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.connection(error)),
        }
    }

    /// The stream for an event loop, what was read of it and not consumed, and its place.
    pub(crate) fn into_nonblocking(mut self) -> Result<(Transport, Vec<u8>, String), Error> {
        self.input.drain(..self.consumed);
        let place = self.place;
        match self.transport.into_nonblocking() {
            Ok(transport) => Ok((transport, self.input, place)),
            Err(error) => Err(Error::Connection { place, error }),
        }
    }

    fn connection(&self, error: io::Error) -> Error {
        let place = self.place.clone();
        Error::Connection { place, error }
    }

    /// The broker has said what it may not.
    pub(crate) fn protocol(&self, what: String) -> Error {
        let place = self.place.clone();
        Error::Protocol { place, what }
    }
}
