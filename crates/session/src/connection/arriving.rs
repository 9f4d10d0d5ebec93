//! Input of a client that has arrived and is not read yet.

use bytes::Bytes;
use leveret_types::limits;

/// See the module's description.
pub(crate) struct Arriving {
    /// The frame that has begun to arrive.
    partial: Vec<u8>,
    /// What must wait until what was asked is answered.
    waiting: Bytes,
    /// Octets that the client may still send once the connection is closing.
    late_bytes_left: usize,
}

impl Default for Arriving {
    fn default() -> Self {
        Self {
            partial: Vec::new(),
            waiting: Bytes::new(),
            late_bytes_left: limits::LATE_BYTES_MAX,
        }
    }
}

impl Arriving {
    /// Puts what has come behind what waits.
    pub(crate) fn add(&mut self, bytes: Bytes) {
        self.waiting = match (self.waiting.is_empty(), bytes.is_empty()) {
            (true, _) => bytes,
            (false, true) => return,
            (false, false) => Bytes::from([&self.waiting[..], &bytes[..]].concat()),
        };
    }

    /// So many octets have come while the connection is closing: whether the client may send no
    /// more.
    pub(crate) const fn is_late(&mut self, bytes: usize) -> bool {
        self.late_bytes_left = self.late_bytes_left.saturating_sub(bytes);
        self.late_bytes_left == 0
    }

    /// Octets that wait.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes what waits, to be read.
    pub(crate) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.waiting)
    }

    /// What of it was not read waits.
    pub(crate) fn keep(&mut self, rest: Bytes) {
        // Even an empty slice would keep the socket's whole read buffer.
        self.waiting = match rest.is_empty() {
            true => Bytes::new(),
            false => rest,
        };
    }

    /// Nothing that waits is read any more.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting = Bytes::new();
    }

    /// What there is of the frame that has begun to arrive.
    pub(crate) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Adds to that frame until it has so many octets, as far as `input` has them; how many of
    /// these it takes.
    pub(crate) fn complete(&mut self, wanted: usize, input: &[u8]) -> usize {
        let taken = wanted.saturating_sub(self.partial.len()).min(input.len());
        self.partial.extend_from_slice(&input[..taken]);
        taken
    }

    pub(crate) fn take_partial(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }

    pub(crate) fn keep_partial(&mut self, partial: Vec<u8>) {
        self.partial = partial;
    }

    /// Where a frame begins is not known, or is of no interest any more.
    pub(crate) fn forget_partial(&mut self) {
        self.partial = Vec::new();
    }

    pub(crate) fn shrink(&mut self) {
        self.partial.shrink_to_fit();
    }
}
