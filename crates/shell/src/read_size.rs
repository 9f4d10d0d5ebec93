//! How much of a socket is read at once, so that a client whose bytes are all small requests does
//! not take a thread from the others: what one read brings is all that one turn does for a client.

use leveret_types::limits::{REQUESTS_PER_READ_MAX, SOCKET_READ_BYTES};

/// The least that is read: a dozen full frames of the smallest requests.
const READ_BYTES_MIN: usize = 8 * 1024;

/// How much of one socket is read at once.
#[derive(Clone, Copy, Debug)]
pub struct ReadSize(usize);

impl Default for ReadSize {
    fn default() -> Self {
        Self(SOCKET_READ_BYTES)
    }
}

impl ReadSize {
    /// Bytes.
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Notes how many requests a read of so many bytes made. The next one is smaller if these were
    /// too many, and grows again when they are few.
    pub fn note(&mut self, bytes: usize, requests: usize) {
        if requests > REQUESTS_PER_READ_MAX {
            self.0 = (bytes * REQUESTS_PER_READ_MAX / requests).max(READ_BYTES_MIN);
        } else if requests < REQUESTS_PER_READ_MAX / 2 {
            self.0 = (2 * self.0).min(SOCKET_READ_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of a client that sends requests of so many bytes; the most that one brings, but for
    /// the first.
    fn most_requests(bytes: usize) -> usize {
        let mut size = ReadSize::default();
        let reads = (0..100).map(|_| {
            let requests = size.bytes() / bytes;
            size.note(size.bytes(), requests);
            requests
        });
        reads.skip(1).max().expect("some reads")
    }

    #[test]
    fn a_flood_of_small_requests_is_read_in_small_pieces() {
        for bytes in [8, 12, 21, 40, 60] {
            let most = most_requests(bytes);
            assert!(most <= REQUESTS_PER_READ_MAX, "{most} of {bytes} bytes");
        }
    }

    #[test]
    fn large_requests_are_read_in_full_reads() {
        let mut size = ReadSize::default();
        size.note(SOCKET_READ_BYTES, REQUESTS_PER_READ_MAX);
        assert_eq!(size.bytes(), SOCKET_READ_BYTES);
        size.note(SOCKET_READ_BYTES, REQUESTS_PER_READ_MAX + 1);
        assert!(size.bytes() < SOCKET_READ_BYTES);
    }

    #[test]
    fn after_a_flood_reads_become_full_again_and_never_too_small() {
        let mut size = ReadSize::default();
        size.note(SOCKET_READ_BYTES, usize::MAX / SOCKET_READ_BYTES);
        assert_eq!(size.bytes(), READ_BYTES_MIN);
        for _ in 0..8 {
            size.note(100, 1);
        }
        assert_eq!(size.bytes(), SOCKET_READ_BYTES);
    }
}
