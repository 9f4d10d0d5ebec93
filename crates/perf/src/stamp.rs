//! What each message carries so that its fate is known: sixteen octets that say whose it is, which
//! one, when it was due, and that it is whole.
//!
//! ```text
//! 0      2          4          8          12         16
//! +------+----------+----------+----------+----------+
//! | run  | publisher| sequence | due      | checksum |
//! +------+----------+----------+----------+----------+
//!   u16    u16        u32        u32        u32        big-endian
//!
//! sequence  from 1, for each publisher
//! due       the scheduled time in microseconds since the run began, modulo 2^32
//! checksum  CRC-32C of the twelve octets before it and of the rest of the body
//! ```
//!
//! It is the beginning of the body, or, where the body is too short or the user's own, the header
//! [`HEADER`].

use std::ops::Range;

/// Octets of a stamp.
pub const BYTES: usize = 16;
/// Octets of a stamp that its checksum covers.
const COVERED_BYTES: usize = 12;
/// Name of the header that carries a stamp, where the body does not.
pub const HEADER: &str = "leveret-perf";
/// The greatest sequence; a publisher ends there.
pub const SEQUENCE_MAX: u32 = u32::MAX;

/// How far the stamps' clock may be ahead of a reader's: two threads look at it at two times.
const AHEAD_US: u32 = 60_000_000;
/// The greatest age that a stamp shows, 70 minutes: an older one looks younger than it is.
pub const AGE_US_MAX: u64 = (u32::MAX - AHEAD_US) as u64;

/// A stamp's contents, besides the checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The run: a number by chance, so that another run's messages are known for such.
    pub run: u16,
    /// The publisher, numbered over all loads.
    pub publisher: u16,
    /// The message, from 1.
    pub sequence: u32,
    /// When it was due: microseconds since the run began, modulo 2^32.
    pub due_us: u32,
}

impl Stamp {
    /// The stamp's octets, for a message whose body, or whose rest of it, is `rest`.
    #[must_use]
    #[inline]
    pub fn encode(&self, rest: &[u8]) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0..2].copy_from_slice(&self.run.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.publisher.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.due_us.to_be_bytes());
        let mut checksum = crc32c::crc32c(&bytes[..COVERED_BYTES]);
        if !rest.is_empty() {
            checksum = crc32c::crc32c_append(checksum, rest);
        }
        bytes[COVERED_BYTES..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Microseconds from the due time to `now_us`, both since the run began. What is due within
    /// the next minute counts as no time at all; what is older than [`AGE_US_MAX`] loses a whole
    /// turn of the stamps' clock.
    #[must_use]
    #[inline]
    pub fn age_us(&self, now_us: u64) -> u64 {
        let age = (now_us as u32).wrapping_sub(self.due_us);
        match u64::from(age) {
            AGE_US_MAX.. => 0,
            age => age,
        }
    }
}

/// Reads a stamp and checks its message piece by piece, as its body comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    bytes: [u8; BYTES],
    filled: usize,
    checksum: u32,
}

impl Reader {
    /// One piece of what the stamp and then the rest of the body consist of.
    #[inline]
    pub fn take(&mut self, mut piece: &[u8]) {
        if self.filled < BYTES {
            let wanted = BYTES - self.filled;
            let (stamp, rest) = piece.split_at(piece.len().min(wanted));
            self.bytes[Self::free(self.filled, stamp.len())].copy_from_slice(stamp);
            self.filled += stamp.len();
            piece = rest;
            if self.filled == BYTES {
                self.checksum = crc32c::crc32c(&self.bytes[..COVERED_BYTES]);
            }
        }
        if !piece.is_empty() {
            self.checksum = crc32c::crc32c_append(self.checksum, piece);
        }
    }

    const fn free(from: usize, length: usize) -> Range<usize> {
        from..from + length
    }

    /// The stamp, if there is a whole one and the message is as it was sent.
    #[must_use]
    #[inline]
    pub fn finish(&self) -> Option<Stamp> {
        let [
            r0,
            r1,
            p0,
            p1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
            c0,
            c1,
            c2,
            c3,
        ] = self.bytes;
        let whole = self.filled == BYTES && self.checksum == u32::from_be_bytes([c0, c1, c2, c3]);
        whole.then(|| Stamp {
            run: u16::from_be_bytes([r0, r1]),
            publisher: u16::from_be_bytes([p0, p1]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            due_us: u32::from_be_bytes([d0, d1, d2, d3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        run: 0x1234,
        publisher: 513,
        sequence: 70_000,
        due_us: 4_000_000_000,
    };

    fn message(rest: &[u8]) -> Vec<u8> {
        [&STAMP.encode(rest)[..], rest].concat()
    }

    fn read(pieces: &[&[u8]]) -> Option<Stamp> {
        let mut reader = Reader::default();
        pieces.iter().for_each(|piece| reader.take(piece));
        reader.finish()
    }

    #[test]
    fn a_message_is_known_in_whatever_pieces_it_comes() {
        for length in [0, 1, 100] {
            let message = message(&vec![7; length]);
            for cut in 0..=message.len() {
                let (left, right) = message.split_at(cut);
                assert_eq!(read(&[left, right]), Some(STAMP), "{length} at {cut}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_missing_octet_shows() {
        let message = message(b"some payload");
        for bit in 0..message.len() * 8 {
            let mut damaged = message.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&[&damaged]), None, "bit {bit}");
        }
        for length in 0..message.len() {
            assert_eq!(read(&[&message[..length]]), None, "{length} octets");
        }
    }

    #[test]
    fn ages_survive_the_end_of_the_clock() {
        let due = u64::from(STAMP.due_us);
        for age in [0, 1, 1_000_000_000, AGE_US_MAX - 1] {
            assert_eq!(STAMP.age_us(due + age), age);
        }
        assert_eq!(STAMP.age_us(due - 1), 0);
        assert_eq!(STAMP.age_us(due - u64::from(AHEAD_US)), 0);
    }
}
