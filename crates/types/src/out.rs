//! Output that waits to be written to a client: small things are copied side by side, large bodies
//! are shared.

use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bodies of at least this many octets are shared rather than copied: below it, a copy costs less
/// than the bookkeeping and the longer vector of the write.
pub const SHARED_BYTES_MIN: usize = 16 * 1024;

/// Octets already written that may stay at the front of the buffer before the rest is moved up.
const WRITTEN_BYTES_MAX: usize = 64 * 1024;

/// A queue of bytes towards a socket.
///
/// All that is copied lies in one growing buffer, so that a frame costs no allocation; what is
/// shared is remembered with the place in that buffer before which it belongs.
#[derive(Debug, Default)]
pub struct OutBuffer {
    copied: Vec<u8>,
    /// How much of `copied` is written.
    written: usize,
    shared: VecDeque<Insert>,
    shared_bytes: usize,
    /// Octets before the barriers that stand, the oldest first, from the front of the buffer.
    barriers: VecDeque<usize>,
}

#[derive(Debug)]
struct Insert {
    /// Goes before this index of `copied`.
    at: usize,
    /// What of it is not written.
    bytes: Bytes,
}

impl OutBuffer {
    /// An empty buffer, which holds no memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            copied: Vec::new(),
            written: 0,
            shared: VecDeque::new(),
            shared_bytes: 0,
            barriers: VecDeque::new(),
        }
    }

    /// Octets that wait, behind barriers too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.copied.len() - self.written + self.shared_bytes
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets that wait for nothing but the socket: those before the first barrier.
    #[must_use]
    pub fn writable_len(&self) -> usize {
        self.barriers.front().map_or(self.len(), |before| *before)
    }

    /// Keeps what is appended from now on from being written until [`Self::lift_barrier`]. Barriers
    /// are lifted in the order in which they were put up.
    pub fn put_barrier(&mut self) {
        self.barriers.push_back(self.len());
    }

    /// Lifts the oldest barrier that stands.
    pub fn lift_barrier(&mut self) {
        self.barriers.pop_front();
    }

    /// Whether a barrier stands.
    #[must_use]
    pub fn has_barrier(&self) -> bool {
        !self.barriers.is_empty()
    }

    /// Inserts octets right before the first barrier, or appends them if none stands.
    pub fn push_before_barrier(&mut self, bytes: &[u8]) {
        let (mut left, mut position) = (self.writable_len(), self.written);
        let mut passed = 0;
        for insert in &self.shared {
            let copied = insert.at - position;
            if left <= copied {
                break;
            }
            left -= copied + insert.bytes.len();
            position = insert.at;
            passed += 1;
        }
        let at = position + left;
        self.copied.splice(at..at, bytes.iter().copied());
        for insert in self.shared.iter_mut().skip(passed) {
            insert.at += bytes.len();
        }
        for before in &mut self.barriers {
            *before += bytes.len();
        }
    }

    /// Octets that wait and are shared.
    #[must_use]
    pub const fn shared_len(&self) -> usize {
        self.shared_bytes
    }

    /// Takes the last shared bytes out, as far as they are not written, and says how many that are:
    /// what is behind them waits until [`Self::put_back`]. Of those before them copies are made, so
    /// that nothing is shared any more. Nothing is done where a barrier stands, or nothing is
    /// shared.
    pub fn withdraw(&mut self) -> Option<usize> {
        let last = match self.has_barrier() {
            true => None,
            false => self.shared.pop_back(),
        }?;
        let before = std::mem::take(&mut self.shared);
        let mut copied = Vec::with_capacity(self.len() - last.bytes.len());
        let mut position = self.written;
        for insert in before {
            copied.extend_from_slice(&self.copied[position..insert.at]);
            copied.extend_from_slice(&insert.bytes);
            position = insert.at;
        }
        copied.extend_from_slice(&self.copied[position..last.at]);
        self.barriers.push_back(copied.len());
        copied.extend_from_slice(&self.copied[last.at..]);
        self.copied = copied;
        (self.written, self.shared_bytes) = (0, 0);
        Some(last.bytes.len())
    }

    /// Puts bytes where others were taken out: they are written next, and then what waits behind
    /// them.
    ///
    /// # Panics
    /// If what was before them is not written, or nothing was taken out.
    pub fn put_back(&mut self, bytes: Bytes) {
        assert_eq!(
            self.barriers.pop_front(),
            Some(0),
            "octets before what was taken out"
        );
        self.shared_bytes += bytes.len();
        let at = self.written;
        self.shared.push_front(Insert { at, bytes });
    }

    /// The end of the buffer, to append to. What is there must not be changed.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Appends bytes: a copy of small ones, a reference to large ones.
    pub fn push(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            self.copied.extend_from_slice(&bytes);
            return;
        }
        self.shared_bytes += bytes.len();
        let at = self.copied.len();
        self.shared.push_back(Insert { at, bytes });
    }

    /// Fills `slices` with what is to be written next, and says how many are filled. What is behind
    /// a barrier is not among it.
    #[must_use]
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slot, piece) in slices.iter_mut().zip(self.writable()) {
            *slot = IoSlice::new(piece);
            filled += 1;
        }
        filled
    }

    /// What waits before the first barrier, in order; no piece is empty.
    fn writable(&self) -> impl Iterator<Item = &[u8]> {
        let mut position = self.written;
        let inserts = self.shared.iter().flat_map(move |insert| {
            let before = &self.copied[position..insert.at];
            position = insert.at;
            [before, &insert.bytes[..]]
        });
        let after = self.shared.back().map_or(self.written, |last| last.at);
        let rest = &self.copied[after..];
        let pieces = inserts.chain([rest]).filter(|piece| !piece.is_empty());
        let mut left = self.writable_len();
        pieces.map_while(move |piece| {
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Forgets the first `count` octets: they are written.
    ///
    /// # Panics
    /// If fewer wait before the first barrier.
    pub fn advance(&mut self, mut count: usize) {
        let writable = self.writable_len();
        assert!(count <= writable, "{count} written of {writable}");
        for before in &mut self.barriers {
            *before -= count;
        }
        while count > 0 {
            let until = self.shared.front().map_or(self.copied.len(), |i| i.at);
            let copied = count.min(until - self.written);
            self.written += copied;
            count -= copied;
            if self.written == until
                && let Some(front) = self.shared.front_mut()
            {
                let shared = count.min(front.bytes.len());
                bytes::Buf::advance(&mut front.bytes, shared);
                self.shared_bytes -= shared;
                count -= shared;
                if front.bytes.is_empty() {
                    self.shared.pop_front();
                }
            }
        }
        self.move_up();
    }

    /// Keeps the written part of `copied` from growing: moved only when it is the larger part, so
    /// that each octet moves once at most.
    fn move_up(&mut self) {
        if self.written == self.copied.len() && self.shared.is_empty() {
            self.copied.clear();
            self.written = 0;
        } else if self.written > WRITTEN_BYTES_MAX && self.written > self.copied.len() / 2 {
            self.copied.drain(..self.written);
            for insert in &mut self.shared {
                insert.at -= self.written;
            }
            self.written = 0;
        }
    }

    /// Gives memory back that nothing waits in: for a connection that has fallen silent.
    pub fn shrink(&mut self) {
        if self.is_empty() && !self.has_barrier() {
            *self = Self::new();
        }
    }

    /// What is to be written next, in one piece: for tests and tools.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.writable().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A xorshift generator: numbers that can be had again.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 16) % bound
        }
    }

    #[test]
    fn a_body_is_shared_from_its_limit_on() {
        for (length, shared) in [(SHARED_BYTES_MIN - 1, 0), (SHARED_BYTES_MIN, 1)] {
            let mut out = OutBuffer::new();
            out.push(Bytes::from(vec![7; length]));
            assert_eq!(out.shared.len(), shared);
            assert_eq!(out.len(), length);
            assert_eq!(out.to_vec(), vec![7; length]);
        }
    }

    #[test]
    fn what_is_taken_out_keeps_back_what_is_behind_it_and_is_written_once_it_is_back() {
        for written in [
            0,
            3,
            5,
            SHARED_BYTES_MIN,
            SHARED_BYTES_MIN + 12,
            2 * SHARED_BYTES_MIN,
        ] {
            let mut out = OutBuffer::new();
            assert_eq!(out.withdraw(), None);
            let body = Bytes::from((0..SHARED_BYTES_MIN).map(|at| at as u8).collect::<Vec<_>>());
            for head in [b"first", b"other"] {
                out.tail().extend_from_slice(head);
                out.push(body.clone());
            }
            let all = [out.to_vec(), b"behind".to_vec()].concat();
            out.advance(written);
            let rest = out.withdraw().expect("it was shared");
            assert_eq!(rest, body.len().min(body.len() * 2 + 10 - written));
            assert_eq!((out.shared_len(), out.withdraw()), (0, None));
            out.tail().extend_from_slice(b"behind");
            let before = out.to_vec();
            assert_eq!(before, all[written..written + before.len()]);
            assert_eq!(
                out.slices(&mut [IoSlice::new(&[]); 8]),
                usize::from(!before.is_empty())
            );
            out.advance(before.len());
            assert_eq!((out.writable_len(), out.len()), (0, 6));
            out.put_back(body.slice(body.len() - rest..));
            assert_eq!(out.to_vec(), all[written + before.len()..]);
            out.advance(out.len());
            assert!(out.is_empty() && !out.has_barrier());
        }
    }

    #[test]
    fn what_goes_in_comes_out_in_order_however_it_is_written() {
        for seed in 1..200 {
            let mut random = Random(seed);
            let (mut out, mut expected, mut written) = (OutBuffer::new(), Vec::new(), Vec::new());
            for _ in 0..60 {
                let octet = random.below(256) as u8;
                match random.below(4) {
                    0 => {
                        let count = SHARED_BYTES_MIN + random.below(3) as usize;
                        out.push(Bytes::from(vec![octet; count]));
                        expected.resize(expected.len() + count, octet);
                    }
                    1 => {
                        let count = random.below(40_000) as usize;
                        let copied = out.copied.len() + count;
                        out.tail().resize(copied, octet);
                        expected.resize(expected.len() + count, octet);
                    }
                    _ => {
                        let mut slices = [IoSlice::new(&[]); 3];
                        let filled = out.slices(&mut slices);
                        let bytes: Vec<u8> = slices[..filled]
                            .iter()
                            .flat_map(|s| s.iter())
                            .copied()
                            .collect();
                        assert_eq!(bytes.is_empty(), out.is_empty());
                        let count = random.below(bytes.len() as u64 + 1) as usize;
                        written.extend_from_slice(&bytes[..count]);
                        out.advance(count);
                    }
                }
                assert_eq!(out.len(), expected.len() - written.len());
            }
            written.extend(out.to_vec());
            out.advance(out.len());
            assert!(written == expected, "seed {seed}");
            assert!(out.is_empty() && out.copied.is_empty());
        }
    }

    #[test]
    fn nothing_behind_a_barrier_is_written_before_it_is_lifted() {
        let mut out = OutBuffer::new();
        let large = Bytes::from(vec![b'L'; SHARED_BYTES_MIN]);
        let written = |out: &mut OutBuffer| {
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = out.slices(&mut slices);
            let bytes = slices[..filled].iter().flat_map(|s| s.iter());
            let bytes: Vec<u8> = bytes.copied().collect();
            assert_eq!(bytes.len(), out.writable_len());
            out.advance(bytes.len());
            bytes
        };
        out.tail().extend_from_slice(b"first ");
        out.put_barrier();
        out.tail().extend_from_slice(b"second ");
        out.push(large.clone());
        out.put_barrier();
        out.tail().extend_from_slice(b"third");
        assert_eq!(written(&mut out), b"first ");
        assert!(written(&mut out).is_empty() && !out.is_empty());
        out.push_before_barrier(b"heartbeat ");
        assert_eq!(written(&mut out), b"heartbeat ");
        out.lift_barrier();
        out.push_before_barrier(b"!");
        assert_eq!(
            written(&mut out),
            [b"second ", &large[..], b"!"].concat(),
            "up to the next barrier"
        );
        out.shrink();
        assert!(out.has_barrier());
        out.lift_barrier();
        assert_eq!(written(&mut out), b"third");
        assert!(out.is_empty() && !out.has_barrier());
    }

    #[test]
    fn what_goes_before_a_barrier_finds_its_place_among_shared_bodies() {
        let large = |octet| Bytes::from(vec![octet; SHARED_BYTES_MIN]);
        for shared_before in [false, true] {
            for shared_after in [false, true] {
                let mut out = OutBuffer::new();
                let mut expected = Vec::new();
                if shared_before {
                    out.push(large(b'A'));
                    expected.extend_from_slice(&large(b'A'));
                }
                out.put_barrier();
                out.push_before_barrier(b"now");
                expected.extend_from_slice(b"now");
                if shared_after {
                    out.push(large(b'B'));
                    expected.extend_from_slice(&large(b'B'));
                    out.push_before_barrier(b"too");
                    let at = expected.len() - SHARED_BYTES_MIN;
                    expected.splice(at..at, *b"too");
                }
                out.tail().extend_from_slice(b"later");
                expected.extend_from_slice(b"later");
                out.lift_barrier();
                assert!(out.to_vec() == expected, "{shared_before} {shared_after}");
            }
        }
    }

    #[test]
    fn a_client_that_never_catches_up_does_not_make_the_buffer_grow() {
        let mut out = OutBuffer::new();
        out.tail().extend_from_slice(&[1; 1000]);
        for _ in 0..10_000 {
            out.tail().extend_from_slice(&[1; 1000]);
            out.advance(1000);
        }
        assert_eq!(out.len(), 1000);
        assert!(out.copied.len() <= 2 * (WRITTEN_BYTES_MAX + 1000));
    }

    #[test]
    fn silence_gives_the_memory_back() {
        let mut out = OutBuffer::new();
        out.tail().extend_from_slice(&[1; 1000]);
        out.shrink();
        assert_eq!(out.len(), 1000);
        out.advance(1000);
        out.shrink();
        assert_eq!(out.copied.capacity(), 0);
    }
}
