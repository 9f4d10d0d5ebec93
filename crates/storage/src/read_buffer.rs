//! Buffers that are read into, used again once nobody reads from them.
//!
//! Allocated for each read, they are freed by other threads than they were allocated by, and in
//! another order: an allocator keeps what all of its threads had at most.

use crate::loaded::Content;
use bytes::{Bytes, BytesMut};
use leveret_types::limits::{CHUNK_BYTES, SEGMENT_BLOCK_BYTES};

/// Buffers that are kept for later; others are freed.
const SPARE_MAX: usize = 4;
/// Capacities, so that any buffer does for most reads: a block is at most one entry's table longer
/// than its limit.
const CAPACITIES: [usize; 2] = [SEGMENT_BLOCK_BYTES + 4096, CHUNK_BYTES];

/// Bytes from which a read gets a buffer of these capacities, to be used again. One for less is
/// made for what is read into it: small parts of chunks and small blocks are held by the ten
/// thousand, and count for their bytes.
const SPARE_BYTES_MIN: usize = 32 * 1024;

/// Buffers of one shard, or of one thread.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffers(Vec<BytesMut>);

impl ReadBuffers {
    /// A spare buffer for so many bytes; an empty one, which [`room`] makes larger, if there is
    /// none, or if it is not worth one.
    pub(crate) fn take(&mut self, len: usize) -> BytesMut {
        if len < SPARE_BYTES_MIN {
            return BytesMut::new();
        }
        let fits = self.0.iter().position(|buffer| buffer.capacity() >= len);
        fits.map_or_else(BytesMut::new, |at| self.0.swap_remove(at))
    }

    /// Keeps the buffer of what was read, unless it is large, or someone still reads from it.
    pub(crate) fn give(&mut self, content: Content) {
        let bytes = match content {
            Content::Chunk { bodies, .. } => bodies.into_buffer(),
            Content::Block { bytes, .. } => Some(bytes),
            Content::Table(_) => None,
        };
        if self.0.len() < SPARE_MAX
            && let Some(Ok(buffer)) = bytes.map(Bytes::try_into_mut)
            && CAPACITIES.contains(&buffer.capacity())
        {
            self.0.push(buffer);
        }
    }
}

/// Gives a buffer exactly `len` bytes, whatever they are. What it had before is not cleared again.
pub(crate) fn room(buffer: &mut BytesMut, len: usize) {
    if buffer.capacity() < len {
        let capacity = match len < SPARE_BYTES_MIN {
            true => Some(len.next_power_of_two()),
            false => CAPACITIES.into_iter().find(|capacity| *capacity >= len),
        };
        *buffer = BytesMut::with_capacity(capacity.unwrap_or(len));
    }
    if buffer.len() < len {
        buffer.resize(len, 0);
    } else {
        buffer.truncate(len);
    }
}

/// The same with a buffer that is held for as long as its bytes are: a spare one is not wasted on
/// less than was expected.
pub(crate) fn room_to_hold(buffer: &mut BytesMut, len: usize) {
    if len < SPARE_BYTES_MIN && buffer.capacity() > SPARE_BYTES_MIN {
        *buffer = BytesMut::new();
    }
    room(buffer, len);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Bodies;

    fn chunk(buffer: BytesMut) -> Content {
        let end = buffer.len() as u32;
        Content::Chunk {
            positions: crate::loaded::Positions::All,
            bodies: Bodies::from_buffer(buffer.freeze(), vec![end]),
            damaged: Vec::new(),
        }
    }

    fn read(buffers: &mut ReadBuffers, len: usize) -> BytesMut {
        let mut buffer = buffers.take(len);
        room(&mut buffer, len);
        assert_eq!(buffer.len(), len);
        buffer
    }

    #[test]
    fn a_buffer_is_used_again_for_whatever_fits_it() {
        let mut buffers = ReadBuffers::default();
        let buffer = read(&mut buffers, SPARE_BYTES_MIN);
        let address = buffer.as_ptr();
        buffers.give(chunk(buffer));
        for len in [
            SEGMENT_BLOCK_BYTES + 12,
            SPARE_BYTES_MIN,
            SEGMENT_BLOCK_BYTES,
        ] {
            let buffer = read(&mut buffers, len);
            assert_eq!(buffer.as_ptr(), address);
            buffers.give(chunk(buffer));
        }
        let larger = read(&mut buffers, CHUNK_BYTES);
        assert_ne!(larger.as_ptr(), address);
    }

    #[test]
    fn what_is_small_gets_a_buffer_of_its_size() {
        let mut buffers = ReadBuffers::default();
        let large = read(&mut buffers, CHUNK_BYTES);
        buffers.give(chunk(large));
        for len in [0, 1, 200, SPARE_BYTES_MIN - 1] {
            let small = read(&mut buffers, len);
            assert!(small.capacity() <= 2 * len.max(1), "{len}");
            buffers.give(chunk(small));
        }
        let mut buffer = read(&mut buffers, CHUNK_BYTES);
        assert!(buffers.0.is_empty(), "the large one has waited");
        room_to_hold(&mut buffer, 200);
        assert_eq!(buffer.len(), 200);
        assert!(buffer.capacity() <= 400);
    }

    #[test]
    fn a_full_chunk_with_its_table_of_ends_fits_a_buffer_of_a_full_chunk() {
        let source = crate::loaded::Source::Wal {
            location: crate::chunk::ChunkLocation {
                generation: 1,
                table_generation: 1,
                table_at: 0,
                table_crc: 0,
                bodies_at: 4096,
                references: 0,
                version: crate::wal::format::VERSION,
            },
            seq: 1,
            count: 250,
            bytes: CHUNK_BYTES as u32,
            positions: crate::loaded::Positions::All,
            table: None,
        };
        let mut buffers = ReadBuffers::default();
        let buffer = read(&mut buffers, CHUNK_BYTES);
        let address = buffer.as_ptr();
        buffers.give(chunk(buffer));
        assert_eq!(buffers.take(source.buffer_bytes()).as_ptr(), address);
    }

    #[test]
    fn what_is_read_from_and_what_is_large_is_not_kept() {
        let mut buffers = ReadBuffers::default();
        let content = chunk(read(&mut buffers, SPARE_BYTES_MIN));
        let Content::Chunk { bodies, .. } = &content else {
            unreachable!("it is a chunk");
        };
        let reader = bodies.get(0);
        buffers.give(content);
        assert!(buffers.0.is_empty(), "someone reads");
        drop(reader);
        let large = read(&mut buffers, CHUNK_BYTES + 1);
        buffers.give(chunk(large));
        assert!(buffers.0.is_empty(), "large");
    }

    #[test]
    fn no_more_are_kept_than_the_limit() {
        let mut buffers = ReadBuffers::default();
        let all: Vec<_> = (0..=SPARE_MAX)
            .map(|_| read(&mut buffers, SPARE_BYTES_MIN))
            .collect();
        for (at, buffer) in all.into_iter().enumerate() {
            buffers.give(chunk(buffer));
            assert_eq!(buffers.0.len(), (at + 1).min(SPARE_MAX));
        }
    }
}
