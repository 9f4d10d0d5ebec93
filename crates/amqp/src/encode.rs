//! Whole frames, from values to bytes.

use crate::content::ContentHeader;
use crate::frame::{FRAME_END, FRAME_HEAD_BYTES, FrameKind};
use crate::generated::basic;
use crate::method::EncodeMethod;
use crate::out::OutBuffer;
use bytes::Bytes;
use leveret_types::limits::FRAME_OVERHEAD_BYTES;

/// A heartbeat.
pub const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, FRAME_END];

/// Appends a frame whose payload `write` appends.
///
/// # Panics
/// If the payload has 4 GiB or more.
pub fn frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(kind as u8);
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = out.len() - start - FRAME_HEAD_BYTES;
    let size = u32::try_from(size).expect("a payload has less than 4 GiB");
    out[start + 3..start + FRAME_HEAD_BYTES].copy_from_slice(&size.to_be_bytes());
    out.push(FRAME_END);
}

/// Appends a method frame.
pub fn method(out: &mut Vec<u8>, channel: u16, method: &impl EncodeMethod) {
    frame(out, FrameKind::Method, channel, |out| method.encode(out));
}

/// A content header's properties and the body behind it, as a message holds them.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// Flags and properties.
    pub properties: &'a [u8],
    /// The body, as a slice that may be kept until it is written.
    pub body: BodySource<'a>,
}

/// Where a body comes from. Sharing one costs an atomic increment, so it is asked for only when the body is large.
#[derive(Clone, Copy, Debug)]
pub enum BodySource<'a> {
    /// A message's.
    Message(&'a leveret_types::Message),
    /// Any other: copied or, if it is large, referred to.
    Bytes(&'a Bytes),
}

impl BodySource<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Message(message) => message.body(),
            Self::Bytes(bytes) => bytes,
        }
    }

    fn shared(&self) -> Bytes {
        match self {
            Self::Message(message) => message.body_shared(),
            Self::Bytes(bytes) => Bytes::clone(bytes),
        }
    }
}

impl<'a> Content<'a> {
    /// A message's content as it came.
    #[must_use]
    pub fn of(message: &'a leveret_types::Message) -> Self {
        Self {
            properties: message.properties(),
            body: BodySource::Message(message),
        }
    }
}

/// Appends a `basic.deliver` with its content.
pub fn delivery(
    out: &mut OutBuffer,
    channel: u16,
    deliver: &basic::Deliver<'_>,
    content: &Content<'_>,
    frame_max: u32,
) {
    with_content(out, channel, deliver, content, frame_max);
}

/// Appends a method with its content: header, and a body in frames of at most `frame_max` octets. A body without octets has no
/// body frame.
pub fn with_content<M: EncodeMethod>(
    out: &mut OutBuffer,
    channel: u16,
    content_method: &M,
    content: &Content<'_>,
    frame_max: u32,
) {
    let body = content.body.bytes();
    let tail = out.tail();
    method(tail, channel, content_method);
    frame(tail, FrameKind::Header, channel, |out| {
        let header = ContentHeader {
            class: M::CLASS,
            body_size: body.len() as u64,
            properties: content.properties,
        };
        header.encode(out);
    });
    let payload_max = (frame_max - FRAME_OVERHEAD_BYTES) as usize;
    if body.len() < crate::out::SHARED_BYTES_MIN {
        for part in body.chunks(payload_max) {
            frame(out.tail(), FrameKind::Body, channel, |out| {
                out.extend_from_slice(part);
            });
        }
        return;
    }
    let mut rest = content.body.shared();
    while !rest.is_empty() {
        let part = rest.split_to(payload_max.min(rest.len()));
        let tail = out.tail();
        tail.push(FrameKind::Body as u8);
        tail.extend_from_slice(&channel.to_be_bytes());
        tail.extend_from_slice(&(part.len() as u32).to_be_bytes());
        out.push(part);
        out.tail().push(FRAME_END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, next_frame};
    use crate::generated::{Method, channel};
    use crate::out::SHARED_BYTES_MIN;
    use leveret_types::message::Facts;
    use leveret_types::{Message, MessageParts};

    fn frames(mut bytes: &[u8], frame_max: u32) -> Vec<Frame<'_>> {
        let mut frames = Vec::new();
        while let Some(frame) = next_frame(bytes, frame_max).unwrap() {
            assert!(frame.wire_len() <= frame_max as usize);
            bytes = &bytes[frame.wire_len()..];
            frames.push(frame);
        }
        assert!(bytes.is_empty());
        frames
    }

    fn check_delivery(body_length: usize, frame_max: u32) {
        let body: Vec<u8> = (0..body_length).map(|i| i as u8).collect();
        let parts = MessageParts {
            exchange: b"x",
            routing_key: b"k",
            properties: b"\x10\x00\x02",
            body: &body,
        };
        let message = Message::from_parts(parts, Facts::default());
        let deliver = basic::Deliver {
            consumer_tag: b"tag",
            delivery_tag: 7,
            redelivered: true,
            exchange: b"x",
            routing_key: b"k",
        };
        let mut out = OutBuffer::new();
        delivery(&mut out, 9, &deliver, &Content::of(&message), frame_max);
        let bytes = out.to_vec();
        let frames = frames(&bytes, frame_max);
        assert!(frames.iter().all(|f| f.channel == 9));
        let decoded = Method::decode(frames[0].payload);
        assert_eq!(decoded, Ok(Method::BasicDeliver(deliver)));
        let header = ContentHeader::decode(frames[1].payload).unwrap();
        assert_eq!(header.body_size, body_length as u64);
        assert_eq!(header.properties, b"\x10\x00\x02");
        let bodies = &frames[2..];
        assert!(
            bodies
                .iter()
                .all(|f| f.kind == FrameKind::Body && !f.payload.is_empty())
        );
        let payload_max = frame_max as usize - 8;
        assert_eq!(bodies.len(), body_length.div_ceil(payload_max));
        let joined: Vec<u8> = bodies.iter().flat_map(|f| f.payload).copied().collect();
        assert_eq!(joined, body);
    }

    #[test]
    fn a_delivery_is_cut_into_frames_that_fit() {
        let payload = 4096 - 8;
        let lengths = [0, 1, payload - 1, payload, payload + 1, 3 * payload];
        let large = [SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, 1_000_000];
        for length in lengths.into_iter().chain(large) {
            check_delivery(length, 4096);
            check_delivery(length, 131_072);
        }
    }

    #[test]
    fn small_frames_are_what_the_specification_says() {
        let mut out = Vec::new();
        method(&mut out, 1, &channel::OpenOk {});
        assert_eq!(
            out,
            b"\x01\x00\x01\x00\x00\x00\x08\x00\x14\x00\x0B\x00\x00\x00\x00\xCE"
        );
        let heartbeat = next_frame(&HEARTBEAT, 4096).unwrap().unwrap();
        assert_eq!(heartbeat.kind, FrameKind::Heartbeat);
        assert_eq!((heartbeat.channel, heartbeat.payload.len()), (0, 0));
    }
}
