//! Where frames begin and end.

use crate::error::FrameError;
use leveret_types::limits::FRAME_OVERHEAD_BYTES;

/// The octet behind a frame's payload.
pub const FRAME_END: u8 = 0xCE;
/// Octets before a frame's payload.
pub const FRAME_HEAD_BYTES: usize = 7;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A method.
    Method = 1,
    /// A content header.
    Header = 2,
    /// A part of a body.
    Body = 3,
    /// A sign of life.
    Heartbeat = 8,
}

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it carries.
    pub kind: FrameKind,
    /// Channel number.
    pub channel: u16,
    /// Payload.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Octets of the whole frame.
    #[must_use]
    pub const fn wire_len(&self) -> usize {
        self.payload.len() + FRAME_OVERHEAD_BYTES as usize
    }
}

/// The frame at the beginning of `input`, or nothing if more of it must arrive first.
///
/// The work does not depend on how much has arrived. A size beyond what was agreed is an error as
/// soon as it can be seen, so that nobody waits for, or keeps, what will be refused.
///
/// A payload may be as large as `frame_max`, though by the specification the eight octets around it
/// count too: quite a few clients get that wrong, and RabbitMQ lets them.
///
/// # Errors
/// [`FrameError`] if what is there is not the beginning of a frame.
pub fn next_frame(input: &[u8], frame_max: u32) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((&[kind, channel_high, channel_low, s0, s1, s2, s3], rest)) =
        input.split_first_chunk::<FRAME_HEAD_BYTES>()
    else {
        return match input.first() {
            Some(&octet) => frame_kind(octet).map(|_| None),
            None => Ok(None),
        };
    };
    let checked = frame_kind(kind)?;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if size > frame_max {
        return Err(FrameError::TooLarge {
            kind,
            size,
            frame_max,
        });
    }
    let Some((payload, rest)) = rest.split_at_checked(size as usize) else {
        return Ok(None);
    };
    match rest.first() {
        None => Ok(None),
        Some(&FRAME_END) => Ok(Some(Frame {
            kind: checked,
            channel: u16::from_be_bytes([channel_high, channel_low]),
            payload,
        })),
        Some(&end) => Err(FrameError::End { kind, size, end }),
    }
}

fn frame_kind(octet: u8) -> Result<FrameKind, FrameError> {
    match octet {
        1 => Ok(FrameKind::Method),
        2 => Ok(FrameKind::Header),
        3 => Ok(FrameKind::Body),
        8 => Ok(FrameKind::Heartbeat),
        kind => Err(FrameError::Kind { kind }),
    }
}

/// How many octets must have arrived, from the beginning of `input`, for [`next_frame`] to find
/// more than it finds now: what a buffer for the frame must hold. Only of use where [`next_frame`]
/// found that more must arrive.
#[must_use]
pub fn bytes_wanted(input: &[u8]) -> usize {
    match input {
        [_, _, _, s0, s1, s2, s3, ..] => {
            u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize + FRAME_OVERHEAD_BYTES as usize
        }
        _ => FRAME_HEAD_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, channel: u16, size: u32, payload: &[u8], end: u8) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(channel.to_be_bytes());
        bytes.extend(size.to_be_bytes());
        bytes.extend(payload);
        bytes.push(end);
        bytes
    }

    #[test]
    fn a_frame_is_found_when_its_last_octet_arrives_and_not_before() {
        let bytes = frame(1, 515, 5, b"hello", FRAME_END);
        for length in 0..bytes.len() {
            assert_eq!(next_frame(&bytes[..length], 4096), Ok(None), "{length}");
            assert!(bytes_wanted(&bytes[..length]) > length);
        }
        let expected = Frame {
            kind: FrameKind::Method,
            channel: 515,
            payload: b"hello",
        };
        assert_eq!(next_frame(&bytes, 4096), Ok(Some(expected)));
        assert_eq!(expected.wire_len(), bytes.len());
        assert_eq!(bytes_wanted(&bytes), bytes.len());
        let more = [&bytes[..], &bytes[..3]].concat();
        assert_eq!(next_frame(&more, 4096), Ok(Some(expected)));
    }

    #[test]
    fn a_size_beyond_the_limit_is_refused_at_the_seventh_octet() {
        for (size, refused) in [(4095, false), (4096, false), (4097, true), (u32::MAX, true)] {
            let head = &frame(3, 1, size, b"", 0)[..7];
            let found = next_frame(head, 4096);
            let error = FrameError::TooLarge {
                kind: 3,
                size,
                frame_max: 4096,
            };
            assert_eq!(found, if refused { Err(error) } else { Ok(None) });
        }
        let error = FrameError::TooLarge {
            kind: 1,
            size: 200_000,
            frame_max: 131_072,
        };
        let text = "type 1, all octets = <<>>: {frame_too_large,200000,131064}";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn only_four_types_exist() {
        for kind in 0..=255 {
            let bytes = frame(kind, 0, 0, b"", FRAME_END);
            let exists = [1, 2, 3, 8].contains(&kind);
            assert_eq!(next_frame(&bytes, 4096).is_ok(), exists, "{kind}");
            assert_eq!(next_frame(&bytes[..1], 4096).is_ok(), exists, "{kind}");
        }
    }

    #[test]
    fn every_other_end_is_refused() {
        for end in 0..=255 {
            let bytes = frame(1, 1, 2, b"ab", end);
            let found = next_frame(&bytes, 4096);
            assert_eq!(found.is_ok(), end == FRAME_END, "{end}");
        }
    }
}
