//! Bytes and frames: what the socket gives and takes, and which channel each frame is for.

use std::io;

use leveret_amqp::{Frame, FrameKind, Method, connection, next_frame};

use super::channel::Found;
use super::{Connection, Shared};
use crate::client::closed;
use crate::error::Error;

/// Bytes that may wait for the socket before publishers wait for it.
pub(super) const OUTPUT_BYTES: usize = 128 * 1024;
/// Bytes of one read.
const READ_BYTES: usize = 256 * 1024;

impl Connection {
    pub(super) fn write(&mut self) -> Result<(), Error> {
        while self.writable && self.output_from < self.output.len() {
            match self.transport.write(&self.output[self.output_from..]) {
                Ok(taken) => self.output_from += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return self.cut(error),
            }
        }
        if self.output_from == self.output.len() {
            self.output.clear();
            self.output_from = 0;
            return match self.transport.flush() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.cut(error),
                _ => Ok(()),
            };
        }
        // What is left moves to the front when that costs less than what was written.
        if self.output_from > self.output.len() / 2 {
            self.output.drain(..self.output_from);
            self.output_from = 0;
        }
        Ok(())
    }

    /// A broken connection is no error once it was to be closed.
    fn cut(&mut self, error: io::Error) -> Result<(), Error> {
        if self.closing {
            self.closed = true;
            self.readable = false;
            self.output.clear();
            self.output_from = 0;
            return Ok(());
        }
        let place = self.place.clone();
        Err(Error::Connection { place, error })
    }

    pub(super) fn read(&mut self, shared: &mut Shared) -> Result<(), Error> {
        self.frames(shared)?;
        if self.input_from > 0 {
            self.input.copy_within(self.input_from..self.input_to, 0);
            self.input_to -= self.input_from;
            self.input_from = 0;
        }
        // A chunk may be larger than any frame that was agreed: room is made as it comes.
        if self.input_to == self.input.len() {
            self.input.resize(2 * self.input_to, 0);
        }
        match self.transport.read(&mut self.input[self.input_to..]) {
            Ok(0) => self.cut(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                // A plain socket that gave less than was asked for has no more, but for its end:
                // epoll(7).
                let room = self.input.len() - self.input_to;
                self.readable = count == room || self.read_closed || self.transport.is_tls();
                self.input_to += count;
                self.frames(shared)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) => self.cut(error),
        }
    }

    fn frames(&mut self, shared: &mut Shared) -> Result<(), Error> {
        if self.session.is_some() {
            return self.stream_frames(shared);
        }
        let now_us = shared.clock.now_us();
        let before = self.outage.map(|_| shared.heard());
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[self.input_from..self.input_to];
        let mut result = Ok(());
        while result.is_ok() {
            match next_frame(rest, self.frame_max) {
                Ok(Some(frame)) => {
                    rest = &rest[frame.wire_len()..];
                    result = self.frame(&frame, now_us, shared);
                }
                Ok(None) => break,
                Err(error) => result = Err(self.protocol(error.to_string())),
            }
        }
        self.input_from = self.input_to - rest.len();
        self.input = input;
        if before.is_some_and(|before| shared.heard() > before) {
            self.end_outage(now_us, shared);
        }
        result
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>, now_us: u64, shared: &mut Shared) -> Result<(), Error> {
        if frame.channel == 0 {
            return self.on_connection(frame);
        }
        let Some(channel) = self.channels.get_mut(usize::from(frame.channel) - 1) else {
            return Err(self.protocol(format!("channel {} is not open", frame.channel)));
        };
        let found = match frame.kind {
            FrameKind::Method => channel.method(frame.payload, now_us, shared),
            FrameKind::Header => channel.header(frame.payload),
            FrameKind::Body => channel.body(frame.payload),
            FrameKind::Heartbeat => Ok(Found::Nothing),
        };
        match found {
            Ok(Found::Nothing) => Ok(()),
            Ok(Found::Content) => {
                channel.content(frame.channel, now_us, &mut self.output, shared);
                Ok(())
            }
            Ok(Found::Other) => self.on_other(frame),
            Err(what) => Err(self.protocol(what)),
        }
    }

    fn on_connection(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.kind != FrameKind::Method {
            return Ok(());
        }
        self.on_other(frame)
    }

    /// A method that is neither a delivery nor a confirm.
    fn on_other(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let method = Method::decode(frame.payload);
        let method = method.map_err(|error| self.protocol(error.to_string()))?;
        if let Some(error) = closed(&self.place, &method) {
            return Err(error);
        }
        match method {
            Method::ConnectionBlocked(_) => self.blocked = true,
            Method::ConnectionUnblocked(_) => self.blocked = false,
            Method::ConnectionCloseOk(connection::CloseOk {}) => {
                self.closed = true;
                self.readable = false;
            }
            Method::BasicCancel(_) => {
                let place = self.place.clone();
                return Err(Error::Cancelled { place });
            }
            // Answers to what was asked without waiting.
            _ => {}
        }
        Ok(())
    }

    fn protocol(&self, what: String) -> Error {
        let place = self.place.clone();
        Error::Protocol { place, what }
    }
}

/// Room for what is read, with what was read already, and how much that is.
pub(super) fn input_buffer(mut read: Vec<u8>, frame_max: u32) -> (Vec<u8>, usize) {
    let length = read.len();
    read.resize(length.max(READ_BYTES + frame_max as usize), 0);
    (read, length)
}
