//! Large buffers that are used again.
//!
//! An allocator maps a buffer of some hundred kilobytes, and unmaps it when it is freed: each of
//! its pages is then faulted in and cleared for each use. For whoever moves such buffers at the
//! speed of a drive that costs several times what the copies cost. So a few of them are kept
//! here, for all threads together, until [`release`].
//!
//! Invariant: what a buffer held before is never seen: only what was written to it is read.

use crate::limits::{POOL_BUFFER_BYTES_MAX, POOL_BUFFER_BYTES_MIN, POOL_BYTES_MAX};
use bytes::Bytes;
use std::sync::Mutex;

/// Buffers that nobody uses.
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    buffers: Vec::new(),
    bytes: 0,
});

/// A buffer to be filled once from its front. Large ones come from the pool, and go back to it when
/// they and all [`Bytes`] made of them are dropped.
#[derive(Debug)]
pub struct Buffer {
    /// All of its room: longer than what is filled.
    room: Vec<u8>,
    filled: usize,
}

impl Buffer {
    /// An empty buffer with room for so many bytes at least.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let size = size_of_room(bytes);
        let room = take(size).unwrap_or_else(|| vec![0; size]);
        Self { room, filled: 0 }
    }

    /// Bytes that fit in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.room.len()
    }

    /// Bytes that were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// What was written.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.room[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    /// Appends so many bytes, all of which `write` writes unless it fails; then nothing is
    /// appended.
    ///
    /// # Errors
    /// Those of `write`.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn extend_by<E>(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = self.filled + bytes;
        write(&mut self.room[self.filled..end])?;
        self.filled = end;
        Ok(())
    }

    /// The room behind what was written, for whoever writes to its front and then says so with
    /// [`Self::wrote`].
    pub fn unfilled(&mut self) -> &mut [u8] {
        &mut self.room[self.filled..]
    }

    /// So many bytes at the front of [`Self::unfilled`] were written.
    ///
    /// # Panics
    /// If there was no room for them.
    pub fn wrote(&mut self, bytes: usize) {
        assert!(bytes <= self.room.len() - self.filled, "there is room");
        self.filled += bytes;
    }

    /// Writes over what was written there before.
    ///
    /// # Panics
    /// If nothing was.
    pub fn write_over(&mut self, at: usize, bytes: &[u8]) {
        self.room[..self.filled][at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// What was written, to be shared.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.filled()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.room));
    }
}

/// Frees all buffers that nobody uses: for whoever has nothing to do.
pub fn release() {
    if let Ok(mut kept) = KEPT.lock() {
        kept.bytes = 0;
        drop(std::mem::take(&mut kept.buffers));
    }
}

/// Bytes of a buffer with room for so many: the powers of two where they are kept, so that one
/// serves for another.
fn size_of_room(bytes: usize) -> usize {
    match (POOL_BUFFER_BYTES_MIN..=POOL_BUFFER_BYTES_MAX).contains(&bytes) {
        true => bytes.next_power_of_two(),
        false => bytes,
    }
}

fn is_kept(size: usize) -> bool {
    size.is_power_of_two() && (POOL_BUFFER_BYTES_MIN..=POOL_BUFFER_BYTES_MAX).contains(&size)
}

fn take(size: usize) -> Option<Vec<u8>> {
    if !is_kept(size) {
        return None;
    }
    let mut kept = KEPT.lock().ok()?;
    // The newest is the most likely to be in the processor's caches.
    let at = kept.buffers.iter().rposition(|room| room.len() == size)?;
    kept.bytes -= size;
    Some(kept.buffers.swap_remove(at))
}

fn keep(room: Vec<u8>) {
    if is_kept(room.len())
        && let Ok(mut kept) = KEPT.lock()
        && kept.bytes + room.len() <= POOL_BYTES_MAX
    {
        kept.bytes += room.len();
        kept.buffers.push(room);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use std::sync::MutexGuard;

    /// The pool is the process's, so its tests follow each other.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        let guard = ALONE.lock().unwrap();
        release();
        guard
    }

    fn kept() -> (usize, usize) {
        let kept = KEPT.lock().unwrap();
        (kept.buffers.len(), kept.bytes)
    }

    #[test]
    fn a_large_buffer_is_used_again_once_nobody_refers_to_it() {
        let _alone = alone();
        let mut buffer = Buffer::with_capacity(POOL_BUFFER_BYTES_MIN + 1);
        assert_eq!(buffer.capacity(), 2 * POOL_BUFFER_BYTES_MIN);
        buffer.extend_from_slice(b"secret");
        let address = buffer.filled().as_ptr();
        let bytes = buffer.freeze();
        let part = bytes.slice(2..4);
        drop(bytes);
        assert_eq!((&part[..], kept().0), (&b"cr"[..], 0));
        drop(part);
        assert_eq!(kept(), (1, 2 * POOL_BUFFER_BYTES_MIN));
        let mut again = Buffer::with_capacity(2 * POOL_BUFFER_BYTES_MIN);
        assert_eq!(kept(), (0, 0));
        assert!(again.is_empty(), "what was there before is not seen");
        again.extend_from_slice(b"a");
        assert_eq!(again.filled().as_ptr(), address);
        let failed = again.extend_by(4, |room| {
            room[0] = b'b';
            Err(())
        });
        assert_eq!((failed, again.filled()), (Err(()), &b"a"[..]));
        let written = again.extend_by(1, |room| {
            room[0] = b'c';
            Ok::<_, ()>(())
        });
        assert_eq!((written, &again.freeze()[..]), (Ok(()), &b"ac"[..]));
    }

    #[test]
    fn what_is_written_into_the_room_counts_once_it_is_said_and_can_be_written_over() {
        let mut buffer = Buffer::with_capacity(4);
        buffer.extend_from_slice(b"a");
        let room = buffer.unfilled();
        assert_eq!(room.len(), 3);
        room[..2].copy_from_slice(b"bc");
        assert_eq!(buffer.filled(), b"a");
        buffer.wrote(2);
        buffer.write_over(1, b"BC");
        assert_eq!(&buffer.freeze()[..], b"aBC");
    }

    #[test]
    fn what_is_kept_is_bounded_and_neither_small_nor_huge() {
        let _alone = alone();
        let count = POOL_BYTES_MAX / POOL_BUFFER_BYTES_MAX;
        let many = |count: usize| {
            let buffers = (0..count).map(|_| Buffer::with_capacity(POOL_BUFFER_BYTES_MAX));
            drop(buffers.collect::<Vec<_>>());
        };
        many(count);
        assert_eq!(kept(), (count, POOL_BYTES_MAX));
        many(count + 1);
        assert_eq!(kept(), (count, POOL_BYTES_MAX));
        release();
        for bytes in [0, POOL_BUFFER_BYTES_MIN - 1, POOL_BUFFER_BYTES_MAX + 1] {
            let buffer = Buffer::with_capacity(bytes);
            assert_eq!(buffer.capacity(), bytes);
        }
        assert_eq!(kept(), (0, 0));
    }
}
