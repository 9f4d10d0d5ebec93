//! Buffers that sockets are read into, used again once no message refers to them.

use bytes::{Bytes, BytesMut};
use leveret_types::limits::SOCKET_READ_BYTES;

/// Buffers that a thread keeps for later use. More may be in use for a moment; those are freed, not
/// kept.
const POOL_BUFFERS_MAX: usize = 32;

/// The read buffers of one IO thread.
///
/// A message is a slice of the buffer that it was read into. Slices live as long as a delivery
/// waits to be written, so that a buffer is nearly always free again after one turn of the loop;
/// those that are not wait here until they are.
#[derive(Default)]
pub struct ReadBuffers {
    /// Buffers in the order of their last use: the one most likely to be free comes first.
    pool: std::collections::VecDeque<BytesMut>,
}

impl ReadBuffers {
    /// A buffer with room for a whole read, none of it filled.
    pub fn take(&mut self) -> BytesMut {
        for _ in 0..self.pool.len().min(2) {
            let Some(mut buffer) = self.pool.pop_front() else {
                break;
            };
            if buffer.try_reclaim(SOCKET_READ_BYTES) {
                return buffer;
            }
            self.pool.push_back(buffer);
        }
        BytesMut::with_capacity(SOCKET_READ_BYTES)
    }

    /// Splits what has been read off the buffer, and keeps the rest for the next read.
    pub fn split(&mut self, mut buffer: BytesMut) -> Bytes {
        let filled = buffer.split().freeze();
        self.give_back(buffer);
        filled
    }

    /// Keeps a buffer for later.
    pub fn give_back(&mut self, buffer: BytesMut) {
        if self.pool.len() < POOL_BUFFERS_MAX {
            self.pool.push_front(buffer);
        }
    }

    /// Frees what is kept: an idle thread holds no buffers.
    pub fn clear(&mut self) {
        self.pool.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_nothing_refers_to_it() {
        let mut buffers = ReadBuffers::default();
        let mut buffer = buffers.take();
        let address = buffer.as_ptr();
        buffer.extend_from_slice(b"frame");
        let held = buffers.split(buffer);
        let other = buffers.take();
        assert_ne!(other.as_ptr(), address, "in use: {held:?}");
        drop(held);
        let again = buffers.take();
        assert_eq!(again.as_ptr(), address);
    }
}
