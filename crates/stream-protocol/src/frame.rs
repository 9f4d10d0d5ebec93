//! Where frames begin and end.

use crate::error::FrameError;
use crate::key::RESPONSE_BIT;

/// Octets of the size before a frame.
pub const SIZE_BYTES: usize = 4;
/// Octets of a key and a version: the least that a frame holds.
pub const HEAD_BYTES: u32 = 4;

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The command's number, without the bit of a response.
    pub key: u16,
    /// Whether it is a response.
    pub response: bool,
    /// The command's version.
    pub version: u16,
    /// What follows.
    pub content: &'a [u8],
}

impl Frame<'_> {
    /// Octets of the whole frame, its size included.
    #[must_use]
    pub const fn wire_len(&self) -> usize {
        self.content.len() + SIZE_BYTES + HEAD_BYTES as usize
    }
}

/// The frame at the beginning of `input`, or nothing if more of it must arrive first. `frame_max`
/// bounds the octets behind the size, as RabbitMQ has it.
///
/// The work does not depend on how much has arrived. A size beyond what was agreed is an error as
/// soon as it can be seen, so that nobody waits for, or keeps, what will be refused.
///
/// # Errors
/// [`FrameError`] if what is there is not the beginning of a frame.
pub fn next_frame(input: &[u8], frame_max: u32) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((size, rest)) = input.split_first_chunk::<SIZE_BYTES>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(*size);
    if size > frame_max {
        return Err(FrameError::TooLarge { size, frame_max });
    }
    if size < HEAD_BYTES {
        return Err(FrameError::TooSmall { size });
    }
    let Some((body, _)) = rest.split_at_checked(size as usize) else {
        return Ok(None);
    };
    let Some((&[k0, k1, v0, v1], content)) = body.split_first_chunk() else {
        return Err(FrameError::TooSmall { size });
    };
    let key = u16::from_be_bytes([k0, k1]);
    Ok(Some(Frame {
        key: key & !RESPONSE_BIT,
        response: key & RESPONSE_BIT != 0,
        version: u16::from_be_bytes([v0, v1]),
        content,
    }))
}

/// How many octets must have arrived, from the beginning of `input`, for [`next_frame`] to find
/// more than it finds now. Only of use where [`next_frame`] found that more must arrive.
#[must_use]
pub fn bytes_wanted(input: &[u8]) -> usize {
    match input.first_chunk::<SIZE_BYTES>() {
        Some(size) => SIZE_BYTES + u32::from_be_bytes(*size) as usize,
        None => SIZE_BYTES,
    }
}

/// Appends a frame whose content `write` appends.
///
/// # Panics
/// If the content has 4 GiB or more, which nothing in the broker has.
pub fn put_frame(out: &mut Vec<u8>, key: u16, version: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; SIZE_BYTES]);
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    write(out);
    let size = u32::try_from(out.len() - start - SIZE_BYTES).expect("a frame has less than 4 GiB");
    out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_when_its_last_octet_arrives_and_not_before() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, 0x8009, 1, |out| out.extend_from_slice(b"hello"));
        for length in 0..bytes.len() {
            assert_eq!(next_frame(&bytes[..length], 8192), Ok(None), "{length}");
            assert!(bytes_wanted(&bytes[..length]) > length);
        }
        let expected = Frame {
            key: 9,
            response: true,
            version: 1,
            content: b"hello",
        };
        assert_eq!(next_frame(&bytes, 8192), Ok(Some(expected)));
        assert_eq!(expected.wire_len(), bytes.len());
        assert_eq!(bytes_wanted(&bytes), bytes.len());
        let more = [&bytes[..], &bytes[..3]].concat();
        assert_eq!(next_frame(&more, 8192), Ok(Some(expected)));
    }

    #[test]
    fn a_size_out_of_bounds_is_refused_at_the_fourth_octet() {
        let too_large = |size| FrameError::TooLarge {
            size,
            frame_max: 8192,
        };
        for (size, expected) in [
            (0, Err(FrameError::TooSmall { size: 0 })),
            (3, Err(FrameError::TooSmall { size: 3 })),
            (4, Ok(None)),
            (8192, Ok(None)),
            (8193, Err(too_large(8193))),
            (u32::MAX, Err(too_large(u32::MAX))),
        ] {
            assert_eq!(next_frame(&size.to_be_bytes(), 8192), expected, "{size}");
        }
    }
}
