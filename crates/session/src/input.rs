//! From bytes to frames, and each frame to where it belongs.

use crate::connection::{Connection, End, Phase};
use crate::replies::PendingRequest;
use bytes::{Buf, Bytes};
use leveret_amqp::frame::{Frame, FrameKind, bytes_wanted, next_frame};
use leveret_amqp::method::peek_ids;
use leveret_amqp::{ContentHeader, FrameError, Method, PROTOCOL_HEADER, Preamble, read_preamble};
use leveret_client::contract::Request;
use leveret_types::{Now, ProtocolError, ReplyCode};

impl Connection {
    /// Takes in what the socket had. What the client asks for is appended to `requests`; the last
    /// of them may ask for an answer, and then the rest of the input waits until [`Self::reply`].
    pub fn receive(&mut self, now: Now, bytes: Bytes, requests: &mut Vec<Request>) {
        self.times.now = now;
        if requests.is_empty() {
            self.sent_off = false;
        }
        let has_input = !bytes.is_empty();
        if has_input {
            self.times.note_input();
        }
        if matches!(self.phase, Phase::Closing { .. } | Phase::Lingering)
            && self.arriving.is_late(bytes.len())
        {
            self.give_up();
        }
        self.arriving.add(bytes);
        self.read(requests);
        if has_input {
            self.note_progress();
        }
    }

    /// Reads input until there is none, an answer is awaited or the connection is over.
    pub(crate) fn read(&mut self, requests: &mut Vec<Request>) {
        let mut input = self.arriving.take();
        while !self.suspended() && !self.is_blocked() && !input.is_empty() {
            match self.phase {
                _ if !self.is_hearing() => input.clear(),
                Phase::Preamble => self.read_preamble(&mut input),
                _ if self.arriving.partial().is_empty() => self.read_whole(&mut input, requests),
                _ => self.read_partial(&mut input, requests),
            }
        }
        self.arriving.keep(input);
        if matches!(self.phase, Phase::Lingering | Phase::Closed) {
            self.close_channels(requests);
        }
    }

    fn read_preamble(&mut self, input: &mut Bytes) {
        let taken = self.arriving.complete(PROTOCOL_HEADER.len(), input);
        match read_preamble(self.arriving.partial()) {
            Preamble::Incomplete => input.advance(taken),
            Preamble::Amqp091 => {
                input.advance(taken);
                self.arriving.forget_partial();
                self.start();
            }
            Preamble::Other(guess) => {
                self.out.tail().extend_from_slice(&PROTOCOL_HEADER);
                self.end_with(End::UnknownProtocol(guess));
            }
        }
    }

    /// Reads frames that lie whole in `input`; keeps the beginning of one that does not.
    fn read_whole(&mut self, input: &mut Bytes, requests: &mut Vec<Request>) {
        while !self.suspended() && self.is_hearing() && !self.holds(&input[..]) {
            if self.waits_for_room() {
                return;
            }
            if let Some(length) = self.whole_publish(input, requests) {
                input.advance(length);
                continue;
            }
            match next_frame(input, self.terms.frame_max) {
                Ok(Some(frame)) if self.waits_its_turn(frame) => {
                    self.await_turn(None, requests);
                }
                Ok(Some(frame)) if self.lacks_room(frame) => {}
                Ok(Some(frame)) => {
                    let length = frame.wire_len();
                    self.frame(frame, requests);
                    input.advance(length);
                }
                Ok(None) => {
                    self.arriving.complete(input.len(), input);
                    input.clear();
                    return;
                }
                Err(error) => {
                    self.fail_framing(error, requests);
                    return;
                }
            }
        }
    }

    /// Completes the frame that has begun to arrive. Only what belongs to it is copied, so that the
    /// frames behind it can be read where they are.
    fn read_partial(&mut self, input: &mut Bytes, requests: &mut Vec<Request>) {
        let wanted = bytes_wanted(self.arriving.partial());
        let taken = self.arriving.complete(wanted, input);
        input.advance(taken);
        let partial = self.arriving.take_partial();
        match next_frame(&partial, self.terms.frame_max) {
            Ok(Some(_)) if self.holds(&partial) => {
                *input = Bytes::from([&partial[..], &input[..]].concat());
            }
            Ok(Some(frame)) if self.waits_its_turn(frame) => {
                *input = Bytes::from([&partial[..], &input[..]].concat());
                self.await_turn(None, requests);
            }
            Ok(Some(frame)) if self.lacks_room(frame) => {
                *input = Bytes::from([&partial[..], &input[..]].concat());
            }
            Ok(Some(frame)) => self.frame(frame, requests),
            Ok(None) => self.arriving.keep_partial(partial),
            Err(error) => self.fail_framing(error, requests),
        }
    }

    /// Whether a frame asks for an answer while it is not known what comes of publishes before it.
    /// Their errors and returns are to be said first: the order of the answers is the order of what
    /// was sent.
    fn waits_its_turn(&self, frame: Frame<'_>) -> bool {
        let answers = || !matches!(peek_ids(frame.payload), (60, 40 | 80 | 90 | 100 | 120));
        self.sent_off && frame.kind == FrameKind::Method && answers()
    }

    /// Goes on, or fails with this error, once it is known what came of the publishes before.
    fn await_turn(&mut self, failed: Option<(u16, ProtocolError)>, requests: &mut Vec<Request>) {
        self.pending_request = Some(PendingRequest::Turn { failed });
        requests.push(Request::Turn);
    }

    /// What the client sent is wrong: what came of the publishes before it is said first.
    pub(crate) fn refuse(
        &mut self,
        number: u16,
        error: ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        if self.sent_off && self.phase == Phase::Running {
            self.await_turn(Some((number, error)), requests);
        } else {
            self.now_failed(number, error, requests);
        }
    }

    const fn is_hearing(&self) -> bool {
        use Phase::{Closed, Closing, Lingering};
        !matches!(
            self.phase,
            Closed
                | Lingering
                | Closing {
                    ignoring_input: true
                }
        )
    }

    /// Where the next frame begins is not known any more.
    fn fail_framing(&mut self, error: FrameError, requests: &mut Vec<Request>) {
        self.arriving.forget_partial();
        self.fail_connection(error.into(), requests);
        if self.phase != Phase::Closed {
            self.phase = Phase::Closing {
                ignoring_input: true,
            };
            self.times.begin_closing();
        }
    }

    /// One frame.
    fn frame(&mut self, frame: Frame<'_>, requests: &mut Vec<Request>) {
        let number = frame.channel;
        let result = match (frame.kind, number) {
            _ if matches!(self.phase, Phase::Closing { .. }) => {
                self.frame_while_closing(frame);
                Ok(())
            }
            (FrameKind::Heartbeat, 0) if frame.payload.is_empty() => Ok(()),
            (FrameKind::Heartbeat, _) if !frame.payload.is_empty() => Err(unknown_frame(frame)),
            (FrameKind::Method, 0) => self.connection_frame(frame.payload, requests),
            (_, 0) => Err(unexpected_frame(frame)),
            _ if self.phase != Phase::Running => Err(unexpected_frame(frame)),
            (FrameKind::Heartbeat, _) => Err(unexpected_frame(frame)),
            _ if self.channels.get(&number).is_some_and(|c| c.closing) => {
                self.frame_on_closing_channel(frame);
                Ok(())
            }
            (FrameKind::Method, _) => self.channel_frame(number, frame.payload, requests),
            (FrameKind::Header, _) => self.header_frame(number, frame.payload, requests),
            (FrameKind::Body, _) => self.body_frame(number, frame.payload, requests),
        };
        if let Err(error) = result {
            self.refuse(number, error, requests);
        }
    }

    /// Closes what an error says is to be closed.
    pub(crate) fn now_failed(
        &mut self,
        number: u16,
        error: ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        use leveret_types::Scope;
        match error.scope {
            Scope::Channel if number != 0 => self.fail_channel(number, &error, requests),
            _ => self.fail_connection(error, requests),
        }
    }

    /// A method on channel 0.
    fn connection_frame(
        &mut self,
        payload: &[u8],
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        let method = decode(payload)?;
        let (class, id) = method.ids();
        self.connection_method(method, requests)
            .map_err(|error| blame(error, class, id))
    }

    /// A method on another channel.
    fn channel_frame(
        &mut self,
        number: u16,
        payload: &[u8],
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        if let Some(channel) = self.channels.get(&number)
            && let Some(assembly) = &channel.assembly
        {
            return Err(assembly.unexpected("content header", "content body"));
        }
        let method = decode(payload)?;
        let (class, id) = method.ids();
        self.channel_method(number, method, requests)
            .map_err(|error| blame(error, class, id))
    }

    fn header_frame(
        &mut self,
        number: u16,
        payload: &[u8],
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        self.assembly(number)?.expects_header()?;
        let header = ContentHeader::decode(payload).map_err(|error| publish_error(error.into()))?;
        self.content_header(number, header, requests)
    }

    fn body_frame(
        &mut self,
        number: u16,
        payload: &[u8],
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        self.assembly(number)?.expects_body()?;
        self.content_body(number, payload, requests)
    }

    /// The broker has closed the connection: only the client's answer, or its own closing, still
    /// counts.
    fn frame_while_closing(&mut self, frame: Frame<'_>) {
        if frame.channel != 0 || frame.kind != FrameKind::Method {
            return;
        }
        match Method::decode(frame.payload) {
            Ok(Method::ConnectionClose(_)) => {
                self.send(0, &leveret_amqp::connection::CloseOk {});
            }
            Ok(Method::ConnectionCloseOk(_)) => self.linger(),
            _ => {}
        }
    }

    /// The same for a channel. Content that was on its way is passed over as well.
    fn frame_on_closing_channel(&mut self, frame: Frame<'_>) {
        if frame.kind != FrameKind::Method {
            return;
        }
        match Method::decode(frame.payload) {
            Ok(Method::ChannelClose(_)) => {
                self.send(frame.channel, &leveret_amqp::channel::CloseOk {});
            }
            Ok(Method::ChannelCloseOk(_)) => {
                self.channels.remove(&frame.channel);
            }
            _ => {}
        }
    }
}

fn decode(payload: &[u8]) -> Result<Method<'_>, ProtocolError> {
    let (class, id) = peek_ids(payload);
    Method::decode(payload).map_err(|error| ProtocolError::from(error).at(class, id))
}

/// Names the method at fault where the error does not do so itself.
pub(crate) fn blame(error: ProtocolError, class: u16, method: u16) -> ProtocolError {
    if error.class == 0 {
        error.at(class, method)
    } else {
        error
    }
}

/// Blames `basic.publish`.
pub(crate) fn publish_error(error: ProtocolError) -> ProtocolError {
    blame(error, 60, 40)
}

fn unknown_frame(frame: Frame<'_>) -> ProtocolError {
    let text = format!("{}: unknown_frame", describe(frame));
    ProtocolError::connection(ReplyCode::FrameError, text)
}

fn unexpected_frame(frame: Frame<'_>) -> ProtocolError {
    ProtocolError::connection(ReplyCode::UnexpectedFrame, describe(frame))
}

/// A frame in RabbitMQ's words: `type 8, all octets = <<1,2>>`.
fn describe(frame: Frame<'_>) -> String {
    let shown = &frame.payload[..frame.payload.len().min(16)];
    let which = if shown.len() < frame.payload.len() {
        "first 16"
    } else {
        "all"
    };
    let octets: Vec<String> = shown.iter().map(u8::to_string).collect();
    format!(
        "type {}, {which} octets = <<{}>>",
        frame.kind as u8,
        octets.join(",")
    )
}
