//! Copies of messages that are too large to be held whole: read in parts, verified, and read again
//! to be written.

use super::{Failure, OpenFile, Output, SYNC_BYTES};
use crate::disk::{Disk, DiskFile};
use crate::flush::{CompactionPiece, FlushPlan, Piece, PlanChunk};
use crate::large::LargePayload;
use crate::loaded::Positions;
use crate::reader::WantedChunk;
use crate::segment::format::{
    BLOCK_HEADER_BYTES, ENTRY_BYTES, EntryHead, block_seed, encode_head, own_class,
};
use leveret_types::LogId;
use std::io::IoSlice;

impl<D: Disk> Output<'_, D> {
    /// Copies the one large message of a chunk for the one log that needs it; false if the chunk is
    /// not of that kind, or is in memory anyway.
    pub(super) fn flush_large(
        &mut self,
        plan: &FlushPlan,
        chunk: &PlanChunk,
        pieces: &[Piece],
    ) -> Result<bool, Failure> {
        let (None, Some(place), [piece]) = (&chunk.bodies, chunk.place, pieces) else {
            return Ok(false);
        };
        let wanted = WantedChunk {
            shard: plan.shard,
            place,
            seq: chunk.seq,
            count: chunk.count,
            bytes: chunk.bytes as usize,
            positions: Positions::All,
        };
        let Some(payload) = self.writer.reader.large_body(&wanted) else {
            return Ok(false);
        };
        let of = (piece.log, plan.volatile);
        self.copy_large(of, piece.first_index, &payload)?;
        Ok(true)
    }

    /// The same of a block of a segment file.
    pub(super) fn compact_large(&mut self, piece: &CompactionPiece) -> Result<bool, Failure> {
        let block = &piece.block;
        let reader = &mut self.writer.reader;
        let Some(payload) = reader.large_entry(block.file, block.offset, block.len) else {
            return Ok(false);
        };
        if !piece.live.is_empty() {
            let of = (piece.log, piece.volatile);
            self.copy_large(of, block.first_index, &payload)?;
        }
        Ok(true)
    }

    /// Writes a block of one large entry. Its head has the checksum of what was verified, so that
    /// whoever reads the block would find it damaged if the second read brought anything else.
    fn copy_large(
        &mut self,
        (log, volatile): (LogId, bool),
        index: u64,
        payload: &LargePayload,
    ) -> Result<(), Failure> {
        // Blocks of a log do not overlap: what gathers of it comes before.
        self.emit((log, volatile))?;
        let len = payload.len();
        self.make_room(BLOCK_HEADER_BYTES + ENTRY_BYTES + len as usize)?;
        let Some((file, offset)) = self.open.as_ref().map(|open| (open.id, open.offset)) else {
            unreachable!("room was made");
        };
        let at = (file, offset as u32);
        let seed = block_seed(self.writer.salt, file, log, at.1);
        let crc = match self.writer.reader.verify_large(payload, seed) {
            Ok(Some(crc)) => crc,
            Ok(None) => {
                self.unreadable(log, index..index + 1, "its checksum is wrong");
                return Ok(());
            }
            Err(why) => {
                self.unreadable(log, index..index + 1, &why);
                return Ok(());
            }
        };
        let entry = EntryHead { index, len, crc };
        let of = (log, own_class(volatile));
        let (head, block) = encode_head(&[entry], self.writer.salt, at, of);
        write_behind(self.open.as_mut(), &head)?;
        match self.write_parts(payload)? {
            None => {
                if let Some(open) = &mut self.open {
                    open.blocks.push(block);
                }
            }
            Some(why) => self.unreadable(log, index..index + 1, &why),
        }
        Ok(())
    }

    /// Writes all parts of a payload behind what is written. Gives why, if some could not be read
    /// again: then the block has zeros in their place, so that the file goes on behind it.
    fn write_parts(&mut self, payload: &LargePayload) -> Result<Option<String>, Failure> {
        let mut failed = None;
        for (from, len) in payload.parts() {
            match self.writer.reader.part(payload, from, len) {
                Ok(part) => write_behind(self.open.as_mut(), part)?,
                Err(why) => {
                    write_behind(self.open.as_mut(), &vec![0; len])?;
                    failed = Some(why);
                }
            }
            self.pace(len as u64)?;
        }
        Ok(failed)
    }
}

/// Writes bytes at the end of the file that is open, and syncs it now and then.
fn write_behind<F: DiskFile>(open: Option<&mut OpenFile<F>>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(open) = open else {
        unreachable!("room was made");
    };
    let slices = [IoSlice::new(bytes)];
    let written = open.file.write_at(&slices, open.offset);
    written.map_err(|e| ("write", e))?;
    open.offset += bytes.len() as u64;
    if open.offset - open.synced >= SYNC_BYTES {
        open.file.sync_data().map_err(|e| ("sync", e))?;
        open.synced = open.offset;
    }
    Ok(())
}
