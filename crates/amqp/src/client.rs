//! The client's side of the protocol, without IO: the bytes with which a client begins and
//! publishes, and what a broker's bytes say. For load generators, simulators and tests alike; what
//! they wait for, and on what, is theirs.

use crate::encode;
use crate::error::{DecodeError, FrameError};
use crate::frame::{FrameKind, next_frame};
use crate::{ContentHeader, Method, PROTOCOL_HEADER, RawTable, basic, channel, connection};
use leveret_types::limits::{FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES};
use thiserror::Error;

/// How a client opens a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// What it says of itself and of what it understands.
    pub properties: RawTable<'a>,
    /// SASL mechanism.
    pub mechanism: &'a str,
    /// SASL response.
    pub response: &'a [u8],
    /// The virtual host.
    pub virtual_host: &'a str,
    /// Channels that it may open.
    pub channel_max: u16,
    /// Octets of a frame that it takes.
    pub frame_max: u32,
    /// Heartbeat in seconds; 0 is none.
    pub heartbeat: u16,
}

impl Default for Opening<'_> {
    /// `guest` of the virtual host `/`, who understands nothing beyond the specification.
    fn default() -> Self {
        Self {
            properties: RawTable::EMPTY,
            mechanism: "PLAIN",
            response: b"\0guest\0guest",
            virtual_host: "/",
            channel_max: 16,
            frame_max: FRAME_BYTES_MAX,
            heartbeat: 0,
        }
    }
}

impl Opening<'_> {
    /// The answer to `connection.start`.
    #[must_use]
    pub const fn start_ok(&self) -> connection::StartOk<'_> {
        connection::StartOk {
            client_properties: self.properties,
            mechanism: self.mechanism,
            response: self.response,
            locale: "en_US",
        }
    }

    /// Appends all that is sent behind the protocol header until the virtual host is open, without
    /// waiting for an answer.
    pub fn handshake(&self, out: &mut Vec<u8>) {
        encode::method(out, 0, &self.start_ok());
        let tune_ok = connection::TuneOk {
            channel_max: self.channel_max,
            frame_max: self.frame_max,
            heartbeat: self.heartbeat,
        };
        encode::method(out, 0, &tune_ok);
        let virtual_host = self.virtual_host;
        encode::method(out, 0, &connection::Open { virtual_host });
    }

    /// All that is sent until channel 1 is open, protocol header included.
    #[must_use]
    pub fn with_channel(&self) -> Vec<u8> {
        let mut out = PROTOCOL_HEADER.to_vec();
        self.handshake(&mut out);
        encode::method(&mut out, 1, &channel::Open {});
        out
    }
}

/// Appends a publish with its content, whose frames have at most `frame_max` octets.
pub fn publish(
    out: &mut Vec<u8>,
    channel: u16,
    method: &basic::Publish<'_>,
    properties: &[u8],
    body: &[u8],
    frame_max: u32,
) {
    encode::method(out, channel, method);
    encode::frame(out, FrameKind::Header, channel, |out| {
        let header = ContentHeader {
            class: 60,
            body_size: body.len() as u64,
            properties,
        };
        header.encode(out);
    });
    for part in body.chunks((frame_max - FRAME_OVERHEAD_BYTES) as usize) {
        encode::frame(out, FrameKind::Body, channel, |out| {
            out.extend_from_slice(part);
        });
    }
}

/// What a broker says in one frame.
#[derive(Debug)]
pub enum ServerFrame<'a> {
    /// A method.
    Method(Method<'a>),
    /// What a message has before its body.
    Header(ContentHeader<'a>),
    /// A part of a body.
    Body(&'a [u8]),
    /// A sign of life.
    Heartbeat,
}

/// A broker's bytes that are not AMQP 0-9-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ServerFrameError {
    /// They are no frame.
    #[error("{0}")]
    Frame(FrameError),
    /// What is in a frame is no method and no content header.
    #[error("{0}")]
    Payload(DecodeError),
}

/// What the first frame of `input` says, on which channel, and how many octets the frame has;
/// nothing if more must arrive first.
///
/// # Errors
/// If it is no frame, or what is in it makes no sense.
pub fn next_server_frame(
    input: &[u8],
    frame_max: u32,
) -> Result<Option<(u16, ServerFrame<'_>, usize)>, ServerFrameError> {
    let Some(frame) = next_frame(input, frame_max).map_err(ServerFrameError::Frame)? else {
        return Ok(None);
    };
    let heard = match frame.kind {
        FrameKind::Method => Method::decode(frame.payload).map(ServerFrame::Method),
        FrameKind::Header => ContentHeader::decode(frame.payload).map(ServerFrame::Header),
        FrameKind::Body => Ok(ServerFrame::Body(frame.payload)),
        FrameKind::Heartbeat => Ok(ServerFrame::Heartbeat),
    };
    let heard = heard.map_err(ServerFrameError::Payload)?;
    Ok(Some((frame.channel, heard, frame.wire_len())))
}

/// What has arrived of a broker and has not been looked at.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// Takes in what the socket had, and gives `each` what whole frames of it say, in their order.
    /// The rest of a frame waits for the next call.
    ///
    /// # Errors
    /// The first error of a frame, or of `each`.
    pub fn receive<E: From<ServerFrameError>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(u16, ServerFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bytes.extend_from_slice(bytes);
        let mut consumed = 0;
        while let Some((channel, heard, wire_len)) =
            next_server_frame(&self.bytes[consumed..], u32::MAX)?
        {
            each(channel, heard)?;
            consumed += wire_len;
        }
        self.bytes.drain(..consumed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(incoming: &mut Incoming, bytes: &[u8]) -> Result<Vec<String>, ServerFrameError> {
        let mut words = Vec::new();
        incoming.receive(bytes, |channel, heard| {
            words.push(match heard {
                ServerFrame::Method(method) => format!("{channel}:{}", method.name()),
                ServerFrame::Header(header) => format!("{channel}:{}", header.body_size),
                ServerFrame::Body(body) => format!("{channel}:{}", String::from_utf8_lossy(body)),
                ServerFrame::Heartbeat => "heartbeat".to_owned(),
            });
            Ok(())
        })?;
        Ok(words)
    }

    #[test]
    fn what_is_written_is_heard_however_it_is_cut() {
        let mut bytes = Vec::new();
        Opening::default().handshake(&mut bytes);
        let method = basic::Publish {
            exchange: b"e",
            routing_key: b"k",
            mandatory: false,
            immediate: false,
        };
        let frame_max = FRAME_OVERHEAD_BYTES + 3;
        publish(&mut bytes, 1, &method, &[0, 0], b"body", frame_max);
        bytes.extend_from_slice(&encode::HEARTBEAT);
        let expected = [
            "0:connection.start-ok",
            "0:connection.tune-ok",
            "0:connection.open",
            "1:basic.publish",
            "1:4",
            "1:bod",
            "1:y",
            "heartbeat",
        ];
        for cut in [1, 2, 7, 8, bytes.len()] {
            let mut incoming = Incoming::default();
            let mut heard = Vec::new();
            for part in bytes.chunks(cut) {
                heard.extend(words(&mut incoming, part).expect("frames"));
            }
            assert_eq!(heard, expected, "in parts of {cut}");
        }
        let whole = Opening::default().with_channel();
        assert!(whole.starts_with(&PROTOCOL_HEADER));
    }

    #[test]
    fn what_is_no_frame_and_no_method_is_an_error() {
        let heard = |bytes: &[u8]| words(&mut Incoming::default(), bytes);
        assert!(matches!(
            heard(b"HTTP/1.1"),
            Err(ServerFrameError::Frame(_))
        ));
        let mut unknown = Vec::new();
        encode::frame(&mut unknown, FrameKind::Method, 0, |out| {
            out.extend_from_slice(&[0xFF; 4]);
        });
        assert!(matches!(heard(&unknown), Err(ServerFrameError::Payload(_))));
    }
}
