//! Payloads that are too large to be held whole, read and verified in parts.

use crate::bytes_io::{chain_crc, u32_at};
use crate::disk::Disk;
use crate::open_files::Name;
use crate::read_buffer::room;
use crate::reader::{Reader, WantedChunk};
use crate::segment::format::{BLOCK_HEADER_BYTES, ENTRY_BYTES, block_seed, verify_block_head};
use crate::wal::format::{Tables, VERSION_OF_OWN_CRCS};
use leveret_types::limits::SEGMENT_PART_BYTES;

/// Where a large payload lies, and what its checksum must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargePayload {
    name: Name,
    at: u64,
    len: u32,
    checksum: Checksum,
}

/// How a payload is checked. Both hold its length and the checksum before it.
#[derive(Clone, Copy, Debug)]
enum Checksum {
    /// Over the bytes, from the one before it on.
    Chained { previous: u32, crc: u32 },
    /// Of the bytes alone, and then chained.
    Own { previous: u32, crc: u32 },
}

impl LargePayload {
    /// Bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// What the checksum of its bytes starts from.
    fn start(&self) -> u32 {
        match self.checksum {
            Checksum::Chained { previous, .. } => previous.wrapping_add(self.len),
            Checksum::Own { .. } => 0,
        }
    }

    /// Whether bytes with this checksum are what was written.
    fn is_sound(&self, found: u32) -> bool {
        match self.checksum {
            Checksum::Chained { crc, .. } => found == crc,
            Checksum::Own { previous, crc } => chain_crc(previous, self.len, found) == crc,
        }
    }

    /// Where each part begins in the payload, and its bytes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        let len = self.len as usize;
        (0..len)
            .step_by(SEGMENT_PART_BYTES)
            .map(move |from| (from as u64, SEGMENT_PART_BYTES.min(len - from)))
    }
}

impl<D: Disk> Reader<D> {
    /// The one body of a chunk of the write-ahead log; `None` if it is no large one, or has to be
    /// read in another way.
    pub(crate) fn large_body(&mut self, chunk: &WantedChunk) -> Option<LargePayload> {
        if chunk.count != 1 || chunk.bytes <= SEGMENT_PART_BYTES {
            return None;
        }
        let place = chunk.place;
        let table = self.take_table(chunk).ok()?;
        let entry = Tables::new(&table, chunk.count).entries().next();
        self.keep_table(table, place);
        let entry = entry.filter(|e| e.elsewhere.is_none() && !e.is_lost())?;
        let (previous, crc) = (self.seed_of(chunk), entry.crc);
        let checksum = match place.version < VERSION_OF_OWN_CRCS {
            true => Checksum::Chained { previous, crc },
            false => Checksum::Own { previous, crc },
        };
        (entry.len as usize == chunk.bytes).then_some(LargePayload {
            name: Name::Wal(place.generation),
            at: u64::from(place.bodies_at),
            len: entry.len,
            checksum,
        })
    }

    /// The one entry of a block of a segment file; `None` if it is no large one, or has to be read
    /// in another way.
    pub(crate) fn large_entry(&mut self, file: u64, offset: u32, len: u32) -> Option<LargePayload> {
        const HEAD_BYTES: usize = BLOCK_HEADER_BYTES + ENTRY_BYTES;
        if (len as usize) <= HEAD_BYTES + SEGMENT_PART_BYTES {
            return None;
        }
        let name = Name::Segment(file);
        let mut head = [0; HEAD_BYTES];
        self.read_into(&mut head, name, u64::from(offset)).ok()?;
        let header = verify_block_head(&head, self.salt(), file, offset)?;
        if header.entries != 1 || header.len() != u64::from(len) || header.is_shared() {
            return None;
        }
        Some(LargePayload {
            name,
            at: u64::from(offset) + HEAD_BYTES as u64,
            len: header.payload,
            checksum: Checksum::Chained {
                previous: block_seed(self.salt(), file, header.log, offset),
                crc: u32_at(&head, HEAD_BYTES - 4),
            },
        })
    }

    /// Reads a payload in parts of [`SEGMENT_PART_BYTES`]. Gives the checksum of its bytes in a
    /// block that starts from `seed`; `None` if they are damaged.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn verify_large(
        &mut self,
        payload: &LargePayload,
        seed: u32,
    ) -> Result<Option<u32>, String> {
        let (mut found, mut wanted) = (payload.start(), seed.wrapping_add(payload.len));
        for (from, len) in payload.parts() {
            let part = self.part(payload, from, len)?;
            found = crc32c::crc32c_append(found, part);
            wanted = crc32c::crc32c_append(wanted, part);
        }
        Ok(payload.is_sound(found).then_some(wanted))
    }

    /// One part, from a place of the payload on.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn part(
        &mut self,
        payload: &LargePayload,
        from: u64,
        len: usize,
    ) -> Result<&[u8], String> {
        let mut span = self.take_span();
        room(&mut span, len);
        let read = self.read_into(&mut span, payload.name, payload.at + from);
        read.map(|()| &self.keep_span(span)[..])
    }
}
