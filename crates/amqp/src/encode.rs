//! Whole frames, from values to bytes.

use crate::content::ContentHeader;
use crate::frame::{FRAME_END, FRAME_HEAD_BYTES, FrameKind};
use crate::method::EncodeMethod;
use bytes::Bytes;
use leveret_types::Message;
use leveret_types::limits::FRAME_OVERHEAD_BYTES;
use leveret_types::out::{OutBuffer, SHARED_BYTES_MIN};

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

/// What follows a method that carries content.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Flags and properties: the message's, or others in their place.
    pub properties: &'a [u8],
    /// The message whose body it is. A large body is not copied but shared until it is written.
    pub message: &'a Message,
}

impl<'a> Content<'a> {
    /// A message's content as it came.
    #[must_use]
    pub fn of(message: &'a Message) -> Self {
        let properties = message.properties();
        Self {
            properties,
            message,
        }
    }
}

/// Octets of a method with its content besides properties and body, as they usually are: memory is
/// asked for once.
const HEADS_BYTES: usize = 128;

/// Appends a method with its content: header, and a body in frames of at most `frame_max` octets. A
/// body without octets has no body frame.
///
/// The header is one frame in any case: properties that came in a frame larger than this client's
/// go out in one as well, as there is no other way to send them.
pub fn with_content<M: EncodeMethod>(
    out: &mut OutBuffer,
    channel: u16,
    content_method: &M,
    content: &Content<'_>,
    frame_max: u32,
) {
    let body = content.message.body();
    let is_shared = body.len() >= SHARED_BYTES_MIN;
    let copied = if is_shared { 0 } else { body.len() };
    let tail = out.tail();
    tail.reserve(HEADS_BYTES + content.properties.len() + copied);
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
    if is_shared {
        share_body(out, channel, content.message.body_shared(), payload_max);
        return;
    }
    for part in body.chunks(payload_max) {
        frame(out.tail(), FrameKind::Body, channel, |out| {
            out.extend_from_slice(part);
        });
    }
}

fn share_body(out: &mut OutBuffer, channel: u16, mut rest: Bytes, payload_max: usize) {
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
    use crate::generated::{Method, basic, channel};
    use leveret_types::MessageParts;
    use leveret_types::message::MessageSummary;

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
        let message = Message::from_parts(parts, MessageSummary::default());
        let deliver = basic::Deliver {
            consumer_tag: b"tag",
            delivery_tag: 7,
            redelivered: true,
            exchange: b"x",
            routing_key: b"k",
        };
        let mut out = OutBuffer::new();
        with_content(&mut out, 9, &deliver, &Content::of(&message), frame_max);
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
