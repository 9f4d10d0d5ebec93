//! Large bodies are copied from one file to another in pieces: whoever copies a message must not
//! hold it beside those who deliver it.

use super::format::{BLOCK_HEADER_BYTES, ENTRY_BYTES, block_seed, encode_far_head};
use super::format::{LogBlock, verify_block_head};
use crate::bytes_io::{chain_crc, u32_at};
use crate::disk::Disk;
use crate::log::Block;
use crate::open_files::Name;
use crate::reader::Reader;
use leveret_types::LogId;
use leveret_types::limits::SEGMENT_PIECE_BYTES;

/// A large body where it lies, and how it is known to be sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far {
    pub(crate) name: Name,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The checksum before, from which the body's goes on.
    pub(crate) previous: u32,
    pub(crate) crc: u32,
    /// Whether the checksum before comes in behind the bytes, and not before them.
    pub(crate) is_summed_alone: bool,
}

impl Far {
    fn begin(&self) -> u32 {
        match self.is_summed_alone {
            true => 0,
            false => self.previous.wrapping_add(self.len),
        }
    }

    fn is_sound(&self, sum: u32) -> bool {
        let sum = match self.is_summed_alone {
            true => chain_crc(self.previous, self.len, sum),
            false => sum,
        };
        sum == self.crc
    }
}

/// A block that is to have one large body.
pub(crate) struct FarBlock {
    pub(crate) index: u64,
    pub(crate) of: (LogId, u8),
    /// File and offset where it will lie.
    pub(crate) at: (u64, u32),
    pub(crate) salt: u64,
}

/// Bytes of the head of a block with one entry.
pub(crate) const FAR_HEAD_BYTES: usize = BLOCK_HEADER_BYTES + ENTRY_BYTES;

/// Why a body was not copied.
pub(crate) enum FarFailure<E> {
    /// It cannot be read; what has been written is to be written over.
    Unreadable(String),
    /// Writing failed.
    Write(E),
}

impl FarBlock {
    /// Copies a body piece by piece: each is read into `buffer` and given to `write` with its place
    /// in the block. Gives the block's head and what the index says of it.
    pub(crate) fn copy<D: Disk, E>(
        &self,
        reader: &Reader<D>,
        buffer: &mut Vec<u8>,
        body: &Far,
        mut write: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(Vec<u8>, LogBlock), FarFailure<E>> {
        let mut found = body.begin();
        let seed = block_seed(self.salt, self.at.0, self.of.0, self.at.1);
        let mut sum = seed.wrapping_add(body.len);
        let mut done = 0;
        // The head is known at the end; what follows must not lie behind a hole.
        write(&[0; FAR_HEAD_BYTES], 0).map_err(FarFailure::Write)?;
        while done < body.len {
            let len = (body.len - done).min(SEGMENT_PIECE_BYTES as u32);
            buffer.resize(len as usize, 0);
            reader
                .piece(body.name, body.offset + u64::from(done), buffer)
                .map_err(FarFailure::Unreadable)?;
            found = crc32c::crc32c_append(found, buffer);
            sum = crc32c::crc32c_append(sum, buffer);
            let to = FAR_HEAD_BYTES as u64 + u64::from(done);
            write(buffer, to).map_err(FarFailure::Write)?;
            done += len;
        }
        if !body.is_sound(found) {
            let why = match body.name {
                Name::Wal(_) => "its checksum in the write-ahead log is wrong",
                Name::Segment(_) => "its checksum in the segment file is wrong",
            };
            return Err(FarFailure::Unreadable(why.to_owned()));
        }
        Ok(encode_far_head(self, body.len, sum))
    }
}

/// The one body of a large block of a segment file, with its index; nothing if the block is none of
/// one body, or damaged: then it is read whole, which tells what is wrong.
pub(crate) fn only_body<D: Disk>(reader: &Reader<D>, salt: u64, block: &Block) -> Option<Far> {
    if (block.len as usize) <= SEGMENT_PIECE_BYTES {
        return None;
    }
    let name = Name::Segment(block.file);
    let mut head = [0; FAR_HEAD_BYTES];
    reader
        .piece(name, u64::from(block.offset), &mut head)
        .ok()?;
    let header = verify_block_head(&head, salt, block.file, block.offset)?;
    let (len, crc) = (
        u32_at(&head, BLOCK_HEADER_BYTES + 4),
        u32_at(&head, BLOCK_HEADER_BYTES + 8),
    );
    let is_one = header.entries == 1 && len == header.payload;
    is_one.then_some(Far {
        name,
        offset: u64::from(block.offset) + FAR_HEAD_BYTES as u64,
        len,
        previous: block_seed(salt, block.file, header.log, block.offset),
        crc,
        is_summed_alone: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskFile, MemoryDisk};
    use crate::folders::Folders;
    use crate::segment::format::{encode_block, file_name, own_class};
    use std::io::IoSlice;
    use std::path::Path;

    const SALT: u64 = 5;
    const LOG: LogId = LogId(7);
    const OFFSET: u32 = 32;

    /// What is found in a segment file that has this head and payload at [`OFFSET`].
    fn found(head: &[u8], payload: &[u8], block: &Block) -> Option<Far> {
        let (disk, folders) = (MemoryDisk::new(), Folders::within(Path::new("/store")));
        let path = folders.segment.join(file_name(1));
        let file = disk.create_new(&path).expect("a file");
        let slices = [IoSlice::new(head), IoSlice::new(payload)];
        file.write_at(&slices, u64::from(OFFSET)).expect("a disk");
        only_body(&Reader::new(disk, &folders, SALT), SALT, block)
    }

    fn encoded(entries: &[(u64, u32)], payload: &[u8]) -> (Vec<u8>, Block) {
        let of = (LOG, own_class(false));
        let (head, block) = encode_block((entries, payload), SALT, (1, OFFSET), of);
        (head, block.block)
    }

    #[test]
    fn only_a_body_that_is_alone_in_its_block_and_large_is_found() {
        let payload = vec![9; SEGMENT_PIECE_BYTES + 1];
        let len = payload.len() as u32;
        let (head, block) = encoded(&[(3, len)], &payload);
        let far = found(&head, &payload, &block).expect("it is one");
        assert_eq!((far.len, far.offset), (len, u64::from(OFFSET) + 56));
        assert!(far.is_sound(crc32c::crc32c_append(far.begin(), &payload)));
        let (head, block) = encoded(&[(3, len - 1), (4, 1)], &payload);
        assert!(found(&head, &payload, &block).is_none(), "there are two");
        let (head, block) = encoded(&[(3, len - 1)], &payload);
        assert!(
            found(&head, &payload, &block).is_none(),
            "of the payload something is left"
        );
        let most = SEGMENT_PIECE_BYTES - FAR_HEAD_BYTES;
        for (bytes, is_large) in [(most, false), (most + 1, true)] {
            let (head, block) = encoded(&[(3, bytes as u32)], &payload[..bytes]);
            assert_eq!(found(&head, &payload, &block).is_some(), is_large);
        }
    }
}
