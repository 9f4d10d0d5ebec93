//! Buffers that sockets are read into, used again once no message refers to them.

use bytes::{Bytes, BytesMut};
use leveret_types::limits::SOCKET_READ_BYTES;

/// Bytes of a buffer: several reads go into one, one behind the other.
const BUFFER_BYTES: usize = 2 * SOCKET_READ_BYTES;
/// A read is offered at least this much; what is left of a buffer below that is given up.
const READ_BYTES_MIN: usize = SOCKET_READ_BYTES / 4;
/// Buffers that a thread keeps for later use. More may be in use for a moment; those are freed, not
/// kept. As many as what publishers of replicated queues have on its way fills: it is kept until
/// it is confirmed.
const POOL_BUFFERS_MAX: usize = 64;

/// The read buffers of one IO thread.
///
/// A message is a slice of the buffer that it was read into. Slices live as long as a delivery
/// waits to be written, so that a buffer is nearly always free again after one turn of the loop;
/// those that are not wait here until they are.
///
/// A buffer is filled with zeros when it is new or used again, and then read into piece by piece:
/// so each byte is cleared once for each time it is used, however small the reads are.
#[derive(Default)]
pub struct ReadBuffers {
    current: Option<BytesMut>,
    /// Used buffers in the order of their use: the first is the most likely to be free.
    used: std::collections::VecDeque<BytesMut>,
}

impl ReadBuffers {
    /// Room for a read.
    pub fn room(&mut self) -> &mut [u8] {
        let current = match self.current.take() {
            Some(current) if current.len() >= READ_BYTES_MIN => current,
            // One that was used up to its end has no capacity left, and is taken back all the same.
            Some(used) => {
                let next = self.fresh();
                if self.used.len() < POOL_BUFFERS_MAX {
                    self.used.push_back(used);
                }
                next
            }
            None => self.fresh(),
        };
        let current = self.current.insert(current);
        let end = current.len().min(SOCKET_READ_BYTES);
        &mut current[..end]
    }

    /// Takes what was read into the room, `count` bytes of it.
    ///
    /// # Panics
    /// If there was no room for so much.
    pub fn take(&mut self, count: usize) -> Bytes {
        let current = self.current.as_mut().expect("room was asked for");
        current.split_to(count).freeze()
    }

    /// Frees what is kept: an idle thread holds no buffers.
    pub fn clear(&mut self) {
        self.used.clear();
        self.current = None;
    }

    fn fresh(&mut self) -> BytesMut {
        if let Some(mut buffer) = self.used.pop_front() {
            buffer.clear();
            if buffer.try_reclaim(BUFFER_BYTES) {
                buffer.resize(BUFFER_BYTES, 0);
                return buffer;
            }
            self.used.push_front(buffer);
        }
        BytesMut::zeroed(BUFFER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads until the buffer in use is given up, and says where it was.
    fn use_up(buffers: &mut ReadBuffers, held: &mut Vec<Bytes>) -> *const u8 {
        let start = buffers.room().as_ptr();
        for _ in 0..BUFFER_BYTES / READ_BYTES_MIN {
            let room = buffers.room();
            room[..3].copy_from_slice(b"abc");
            held.push(buffers.take(READ_BYTES_MIN));
        }
        start
    }

    #[test]
    fn a_buffer_is_used_again_once_nothing_refers_to_it() {
        let mut buffers = ReadBuffers::default();
        let mut held = Vec::new();
        let first = use_up(&mut buffers, &mut held);
        let second = use_up(&mut buffers, &mut held);
        assert_ne!(first, second, "the first is in use");
        assert!(held.iter().all(|bytes| bytes.starts_with(b"abc")));
        held.clear();
        let third = use_up(&mut buffers, &mut held);
        assert_eq!(third, first);
    }

    #[test]
    fn room_is_never_more_than_one_read_and_never_less_than_the_least() {
        let mut buffers = ReadBuffers::default();
        for count in [1, SOCKET_READ_BYTES, 5, 100_000, 7] {
            let len = buffers.room().len();
            assert!((READ_BYTES_MIN..=SOCKET_READ_BYTES).contains(&len), "{len}");
            buffers.take(count.min(len));
        }
    }
}
