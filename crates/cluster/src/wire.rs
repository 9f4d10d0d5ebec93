//! The bytes between nodes, once both know who the other is: frames, one behind the other.
//!
//! ```text
//! 0    4      length of the payload, little endian
//! 4    4      CRC-32C of what follows; 0 where what carries the frames is sealed
//! 8    8      queue whose shard gets the payload; all bits set: a heartbeat
//! 16   length payload
//! ```

use bytes::{Bytes, BytesMut};
use leveret_types::QueueId;
use leveret_types::limits::PEER_FRAME_BYTES_MAX;
use std::collections::VecDeque;

/// Bytes of a frame before its payload.
pub const HEADER_BYTES: usize = 16;
/// The queue of heartbeats: no id has all bits set.
const HEARTBEAT: u64 = u64::MAX;
/// Bytes of a decoder's buffers, if what comes is not more at once. Frames that were taken out
/// share the buffer as long as they live, and it is not used again before: a buffer for each read
/// would be a mapping of the system's for each read.
const BUFFER_BYTES: usize = 256 * 1024;
/// Buffers that are kept until no frame refers to them any more.
const USED_BUFFERS_MAX: usize = 16;
/// A buffer that had to grow beyond this is not kept.
const BUFFER_BYTES_KEPT: usize = 512 * 1024;

/// How a frame that was altered on its way is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// By the checksum that each frame has.
    #[default]
    Checksum,
    /// By the seal of what carries the frames, before anybody looks at them.
    Sealed,
}

/// Why a peer's bytes make no sense. The link is broken then: nothing behind them can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A frame says that it is longer than any may be.
    #[error("a frame of {0} bytes, at most {PEER_FRAME_BYTES_MAX} are allowed")]
    TooLong(u32),
    /// A frame's checksum is wrong.
    #[error("a frame's checksum is wrong")]
    Checksum,
}

/// The header of a frame with this payload.
///
/// # Panics
/// If the payload is longer than [`PEER_FRAME_BYTES_MAX`].
#[must_use]
pub fn header(queue: QueueId, pieces: &[Bytes], integrity: Integrity) -> [u8; HEADER_BYTES] {
    assert_ne!(queue.0, HEARTBEAT, "no queue has this id");
    encode(queue.0, pieces, integrity)
}

/// The bytes of a heartbeat.
#[must_use]
pub fn heartbeat(integrity: Integrity) -> [u8; HEADER_BYTES] {
    encode(HEARTBEAT, &[], integrity)
}

fn encode(queue: u64, pieces: &[Bytes], integrity: Integrity) -> [u8; HEADER_BYTES] {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    assert!(
        length <= PEER_FRAME_BYTES_MAX,
        "a frame of {length} bytes, at most {PEER_FRAME_BYTES_MAX} are allowed"
    );
    let queue = queue.to_le_bytes();
    let checksum = match integrity {
        Integrity::Sealed => 0,
        Integrity::Checksum => pieces.iter().fold(crc32c::crc32c(&queue), |sum, piece| {
            crc32c::crc32c_append(sum, piece)
        }),
    };
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(length as u32).to_le_bytes());
    header[4..8].copy_from_slice(&checksum.to_le_bytes());
    header[8..].copy_from_slice(&queue);
    header
}

/// What a decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A frame for a queue's shard.
    Frame(QueueId, Bytes),
    /// The peer lives.
    Heartbeat,
}

/// Takes a peer's bytes apart. What it keeps grows with what has come, never with what is claimed.
///
/// Frames are slices of the buffer that they came in. They live for about a turn of the queue's
/// thread, so that a few buffers in turn do: a fresh one costs a page fault for every 4 KiB, which
/// is more than all that is done with the bytes here.
#[derive(Debug, Default)]
pub struct Decoder {
    integrity: Integrity,
    buffer: BytesMut,
    /// Bytes that were allocated for it, however many of them frames refer to.
    allocated: usize,
    /// Buffers that frames may still refer to, in the order of their use, and what was allocated.
    used: VecDeque<(BytesMut, usize)>,
}

impl Decoder {
    /// A decoder of frames that are kept whole like this.
    #[must_use]
    pub fn new(integrity: Integrity) -> Self {
        Self {
            integrity,
            ..Self::default()
        }
    }

    /// Takes bytes in.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.buffer.capacity() - self.buffer.len() < bytes.len() {
            self.make_room(bytes.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    fn make_room(&mut self, more: usize) {
        // Twice what is there, so that a long frame is not moved at each read.
        let more = BUFFER_BYTES.max(self.buffer.len()).max(more);
        if self.buffer.try_reclaim(more) {
            return;
        }
        let needed = self.buffer.len() + more;
        let is_free = |(buffer, _): &mut (BytesMut, usize)| buffer.try_reclaim(needed);
        let free = self.used.iter_mut().position(is_free);
        let (mut next, allocated) = match free.and_then(|at| self.used.remove(at)) {
            Some(free) => free,
            None => (BytesMut::with_capacity(needed), needed),
        };
        next.extend_from_slice(&self.buffer);
        let mut used = std::mem::replace(&mut self.buffer, next);
        used.clear();
        self.keep(used);
        self.allocated = allocated;
    }

    /// Keeps the buffer that was used until now, but for one that a very long frame needed.
    fn keep(&mut self, used: BytesMut) {
        if (1..=BUFFER_BYTES_KEPT).contains(&self.allocated) {
            if self.used.len() == USED_BUFFERS_MAX {
                self.used.pop_front();
            }
            self.used.push_back((used, self.allocated));
        }
    }

    /// Gives back what an idle link does not need. A busy one gets it again.
    fn shrink(&mut self) {
        let had_more = self.used.pop_front().is_some();
        if self.buffer.is_empty() && !had_more {
            (self.buffer, self.allocated) = (BytesMut::new(), 0);
        }
    }

    /// The next frame that is there as a whole.
    ///
    /// # Errors
    /// See [`WireError`].
    pub fn take(&mut self) -> Result<Option<Decoded>, WireError> {
        let Some((header, rest)) = self.buffer.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [l0, l1, l2, l3, c0, c1, c2, c3, queue @ ..] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let claimed = length as usize;
        if claimed > PEER_FRAME_BYTES_MAX {
            return Err(WireError::TooLong(length));
        }
        let Some(payload) = rest.get(..claimed) else {
            return Ok(None);
        };
        let checksum = || crc32c::crc32c_append(crc32c::crc32c(&queue), payload);
        let is_whole = self.integrity == Integrity::Sealed
            || checksum() == u32::from_le_bytes([c0, c1, c2, c3]);
        if !is_whole {
            return Err(WireError::Checksum);
        }
        let queue = u64::from_le_bytes(queue);
        let mut frame = self.buffer.split_to(HEADER_BYTES + claimed).freeze();
        if queue == HEARTBEAT {
            self.shrink();
            return Ok(Some(Decoded::Heartbeat));
        }
        Ok(Some(Decoded::Frame(
            QueueId(queue),
            frame.split_off(HEADER_BYTES),
        )))
    }

    /// Bytes that wait for the rest of their frame.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }
}

/// What a peer that knows the secret may send, taken apart: however its bytes arrive, the same
/// frames come out, each is the bytes that it came in, and no more is kept than has come.
///
/// The first byte says how frames are kept whole, and in pieces of how many bytes they arrive.
///
/// # Panics
/// If one of that does not hold.
pub fn fuzz(input: &[u8]) {
    let Some((how, bytes)) = input.split_first() else {
        return;
    };
    let integrity = match how & 1 {
        0 => Integrity::Checksum,
        _ => Integrity::Sealed,
    };
    let step = usize::from(how >> 1) + 1;
    let whole = take_apart(bytes, bytes.len().max(1), integrity);
    assert_eq!(
        whole,
        take_apart(bytes, step, integrity),
        "it came in pieces"
    );
    let mut rest = bytes;
    for decoded in whole.0 {
        let (head, behind) = rest.split_at(HEADER_BYTES);
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (payload, behind) = behind.split_at(length);
        match decoded {
            Decoded::Frame(queue, found) => {
                let mut header = encode(queue.0, std::slice::from_ref(&found), integrity);
                if integrity == Integrity::Sealed {
                    // Nobody looks at it: what is sealed needs none.
                    header[4..8].copy_from_slice(&head[4..8]);
                }
                assert!(head == header && payload == found, "not what has come");
            }
            Decoded::Heartbeat => assert_eq!(head[8..], HEARTBEAT.to_le_bytes()),
        }
        rest = behind;
    }
}

/// The frames of these bytes if they arrive in pieces of `step`, and what is wrong with them.
fn take_apart(
    bytes: &[u8],
    step: usize,
    integrity: Integrity,
) -> (Vec<Decoded>, Option<WireError>) {
    let mut decoder = Decoder::new(integrity);
    let mut found = Vec::new();
    let mut fed = 0;
    for part in bytes.chunks(step) {
        decoder.feed(part);
        fed += part.len();
        loop {
            match decoder.take() {
                Ok(Some(decoded)) => found.push(decoded),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(decoder.waiting() <= fed, "more waits than has come");
        let most = 2 * (fed + BUFFER_BYTES);
        assert!(decoder.buffer.capacity() <= most, "memory by a claim");
    }
    (found, None)
}

/// Inputs that [`fuzz`] begins with.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let frame = |queue: u64, payload: &'static [u8], integrity| {
        let payload = Bytes::from_static(payload);
        let header = encode(queue, std::slice::from_ref(&payload), integrity);
        [&header[..], &payload[..]].concat()
    };
    let mut seeds = Vec::new();
    for (how, integrity) in [(0, Integrity::Checksum), (1, Integrity::Sealed)] {
        let frames = [
            frame(7, b"payload", integrity),
            frame(HEARTBEAT, b"", integrity),
            frame(0, b"", integrity),
        ];
        for step in [0, 4, 254] {
            seeds.push([vec![how | step], frames.concat()].concat());
        }
        let mut claims = frame(7, b"payload", integrity);
        claims[..4].copy_from_slice(&(PEER_FRAME_BYTES_MAX as u32).to_le_bytes());
        seeds.push([vec![how], claims.clone()].concat());
        claims[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        seeds.push([vec![how], claims].concat());
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(queue: u64, pieces: &[&'static [u8]]) -> Vec<u8> {
        let pieces: Vec<Bytes> = pieces.iter().copied().map(Bytes::from_static).collect();
        let mut bytes = header(QueueId(queue), &pieces, Integrity::Checksum).to_vec();
        pieces
            .iter()
            .for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    fn decode(bytes: &[u8], step: usize) -> (Vec<Decoded>, Result<(), WireError>) {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for part in bytes.chunks(step) {
            decoder.feed(part);
            loop {
                match decoder.take() {
                    Ok(Some(decoded)) => found.push(decoded),
                    Ok(None) => break,
                    Err(error) => return (found, Err(error)),
                }
            }
        }
        (found, Ok(()))
    }

    #[test]
    fn what_is_encoded_is_decoded_however_it_arrives() {
        let mut bytes = frame(7, &[b"one", b"", b"two"]);
        bytes.extend(heartbeat(Integrity::Checksum));
        bytes.extend(frame(0, &[]));
        let expected = vec![
            Decoded::Frame(QueueId(7), Bytes::from_static(b"onetwo")),
            Decoded::Heartbeat,
            Decoded::Frame(QueueId(0), Bytes::new()),
        ];
        for step in 1..=bytes.len() {
            assert_eq!(decode(&bytes, step), (expected.clone(), Ok(())), "{step}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = frame(7, &[b"payload"]);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (found, result) = decode(&bad, bad.len());
            // A longer length waits for bytes that do not come; all else is an error.
            assert!(found.is_empty(), "bit {bit}: {found:?}");
            assert!(result.is_err() || bit < 32, "bit {bit}");
        }
    }

    /// Feeds so many frames of 100 kB in pieces of 64 KiB, each of which is held for as long as
    /// `held` more come; the addresses of their bytes.
    fn addresses(decoder: &mut Decoder, count: usize, held: usize) -> Vec<*const u8> {
        let bytes = frame(7, &[&[0x5A; 100_000]]);
        let (mut alive, mut addresses) = (VecDeque::new(), Vec::new());
        for _ in 0..count {
            for part in bytes.chunks(64 * 1024) {
                decoder.feed(part);
            }
            let Ok(Some(Decoded::Frame(_, payload))) = decoder.take() else {
                panic!("a frame is there");
            };
            addresses.push(payload.as_ptr());
            alive.push_back(payload);
            alive.drain(..alive.len().saturating_sub(held));
        }
        assert!(alive.iter().all(|payload| payload[..] == [0x5A; 100_000]));
        addresses
    }

    #[test]
    fn buffers_are_used_again_when_no_frame_refers_to_them() {
        for held in [0, 1, 3] {
            let mut decoder = Decoder::default();
            let addresses = addresses(&mut decoder, 200, held);
            let distinct: std::collections::BTreeSet<_> = addresses[20..].iter().collect();
            assert!(distinct.len() <= 40, "{held} held: {}", distinct.len());
            let kept: usize = decoder.used.iter().map(|(_, allocated)| allocated).sum();
            assert!(kept <= USED_BUFFERS_MAX * BUFFER_BYTES_KEPT);
            for _ in 0..=USED_BUFFERS_MAX {
                decoder.feed(&heartbeat(Integrity::Checksum));
                assert_eq!(decoder.take(), Ok(Some(Decoded::Heartbeat)));
            }
            assert!(decoder.used.is_empty(), "an idle link gives buffers back");
        }
    }

    #[test]
    fn the_buffer_of_a_very_long_frame_is_not_kept() {
        let mut decoder = Decoder::default();
        let bytes = frame(7, &[&[1; 3 * BUFFER_BYTES_KEPT]]);
        bytes
            .chunks(BUFFER_BYTES)
            .for_each(|part| decoder.feed(part));
        assert!(matches!(decoder.take(), Ok(Some(Decoded::Frame(..)))));
        decoder.feed(&frame(7, &[&[2; BUFFER_BYTES]]));
        decoder.feed(&frame(7, &[&[3; BUFFER_BYTES]]));
        let kept = decoder.used.iter().map(|(_, allocated)| *allocated).max();
        assert!(kept.is_none_or(|kept| kept <= BUFFER_BYTES_KEPT));
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_and_claims_no_memory() {
        let mut longest = [0; HEADER_BYTES];
        longest[..4].copy_from_slice(&(PEER_FRAME_BYTES_MAX as u32).to_le_bytes());
        let mut decoder = Decoder::default();
        decoder.feed(&longest);
        assert_eq!(decoder.take(), Ok(None), "it waits for the payload");
        assert!(decoder.buffer.capacity() <= BUFFER_BYTES);
        let mut longer = longest;
        longer[..4].copy_from_slice(&(PEER_FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        let error = Err(WireError::TooLong(PEER_FRAME_BYTES_MAX as u32 + 1));
        assert_eq!(decode(&longer, HEADER_BYTES), (Vec::new(), error));
    }
}
