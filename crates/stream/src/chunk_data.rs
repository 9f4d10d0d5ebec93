//! The data of the chunk that is being filled.

use crate::chunk::{ChunkHeader, HEADER_BYTES, SharedChunk};
use leveret_types::limits::{POOL_BUFFER_BYTES_MIN, STREAM_CHUNK_BYTES, STREAM_CHUNK_MARGIN_BYTES};
use leveret_types::pool::Buffer;

/// From so many bytes on, data lie where their chunk will: they are not copied once more.
const LARGE_BYTES_MIN: usize = POOL_BUFFER_BYTES_MIN;

/// Entries one after the other. Few of them are gathered in memory that is used for one chunk after
/// another, and copied into a buffer of just their size; many of them in the chunk's own buffer.
#[derive(Debug, Default)]
pub(crate) struct ChunkData {
    small: Vec<u8>,
    /// Room for the header, and data behind it.
    large: Option<Buffer>,
}

impl ChunkData {
    pub(crate) fn len(&self) -> usize {
        let large = self.large.as_ref();
        large.map_or(self.small.len(), |buffer| buffer.len() - HEADER_BYTES)
    }

    pub(crate) fn push(&mut self, entry: &[u8]) {
        let len = self.len() + entry.len();
        if self.large.is_none() && len < LARGE_BYTES_MIN {
            return self.small.extend_from_slice(entry);
        }
        let needed = HEADER_BYTES + len;
        let mut buffer = match self.large.take() {
            Some(buffer) if buffer.capacity() >= needed => buffer,
            before => self.grown(before, needed),
        };
        buffer.extend_from_slice(entry);
        self.large = Some(buffer);
    }

    /// What there is in a buffer with more room: for a whole chunk, and for a larger entry that is
    /// one by itself.
    fn grown(&mut self, before: Option<Buffer>, needed: usize) -> Buffer {
        let room = needed.max(HEADER_BYTES + STREAM_CHUNK_BYTES) + STREAM_CHUNK_MARGIN_BYTES;
        let mut buffer = Buffer::with_capacity(room);
        match before {
            Some(before) => buffer.extend_from_slice(before.filled()),
            None => {
                buffer.extend_from_slice(&[0; HEADER_BYTES]);
                buffer.extend_from_slice(&self.small);
                self.clear_small();
            }
        }
        buffer
    }

    fn clear_small(&mut self) {
        self.small.clear();
        self.small.shrink_to(LARGE_BYTES_MIN);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Ends the chunk. The header's checksum and lengths are made here.
    pub(crate) fn take(
        &mut self,
        header: ChunkHeader,
        bloom: &[u8],
        trailer: &[u8],
    ) -> SharedChunk {
        let Some(buffer) = self.large.take() else {
            let chunk = SharedChunk::new(header, bloom, &self.small, trailer);
            self.clear_small();
            return chunk;
        };
        // Whoever keeps the chunk keeps all of its buffer.
        let is_full = 2 * buffer.len() >= buffer.capacity();
        let has_room = buffer.capacity() - buffer.len() >= trailer.len();
        match bloom.is_empty() && is_full && has_room {
            true => SharedChunk::in_place(header, buffer, trailer),
            false => SharedChunk::new(header, bloom, &buffer.filled()[HEADER_BYTES..], trailer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::ChunkKind;

    fn header() -> ChunkHeader {
        ChunkHeader {
            kind: ChunkKind::User,
            entries: 3,
            records: 3,
            timestamp_ms: 1,
            epoch: 2,
            first_offset: 3,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        }
    }

    #[test]
    fn a_chunk_is_the_same_to_the_byte_wherever_its_data_were_gathered() {
        let entry = |len: usize| vec![len as u8; len];
        let lens: [&[usize]; 7] = [
            &[1, 20, 300],
            &[LARGE_BYTES_MIN - 1],
            &[LARGE_BYTES_MIN - 1, 1],
            &[LARGE_BYTES_MIN],
            &[100_000, 100_000, 100_000, 100_000, 123_264],
            &[STREAM_CHUNK_BYTES + 1],
            &[100, 3_000_000],
        ];
        let mut data = ChunkData::default();
        for lens in lens {
            for (bloom, trailer) in [(0, 0), (0, 5), (16, 5), (0, 100_000)] {
                let (bloom, trailer) = (vec![1; bloom], vec![2; trailer]);
                let mut all = Vec::new();
                for len in lens {
                    data.push(&entry(*len));
                    all.extend(entry(*len));
                    assert_eq!(data.len(), all.len());
                }
                let chunk = data.take(header(), &bloom, &trailer);
                assert_eq!(chunk, SharedChunk::new(header(), &bloom, &all, &trailer));
                assert_eq!(data.len(), 0);
            }
        }
    }

    #[test]
    fn data_of_a_large_chunk_are_not_copied_when_it_ends() {
        let mut data = ChunkData::default();
        data.push(&vec![7; STREAM_CHUNK_BYTES]);
        let gathered = data.large.as_ref().map(|buffer| buffer.filled().as_ptr());
        let chunk = data.take(header(), &[], b"trailer");
        assert_eq!(gathered, Some(chunk.bytes().as_ptr()));
    }

    #[test]
    fn a_chunk_in_memory_holds_no_more_than_twice_its_size_in_a_buffer_that_is_used_again() {
        let mut data = ChunkData::default();
        data.push(&vec![7; LARGE_BYTES_MIN]);
        let gathered = data.large.as_ref().map(|buffer| buffer.filled().as_ptr());
        let chunk = data.take(header(), &[], &[]);
        assert_ne!(gathered, Some(chunk.bytes().as_ptr()), "it was copied");
    }
}
