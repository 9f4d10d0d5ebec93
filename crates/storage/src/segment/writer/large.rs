//! Chunks and blocks with a large body: it is copied in pieces, whatever its size.

use super::{BlockBuilder, Bodies, Failure, OpenFile, Output};
use crate::disk::{Disk, DiskFile};
use crate::flush::{CompactionPiece, FlushPlan, Piece, PlanChunk};
use crate::loaded::{Key, Positions};
use crate::segment::Far;
use crate::segment::far::{FAR_HEAD_BYTES, FarBlock, FarFailure, only_body};
use crate::segment::format::{
    LogBlock, NO_LOG, REFERENCES, VERSION_SHARED, own_class, shared_class,
};
use crate::segment::shared::{
    Reference, encode_references, fanned_out, log_block, references_bytes,
};
use leveret_types::LogId;
use leveret_types::limits::SEGMENT_PIECE_BYTES;
use std::io::IoSlice;
use std::ops::Range;

impl PlanChunk {
    /// Whether it may have a body that is copied in pieces.
    fn may_have_large(&self) -> bool {
        self.bodies.is_none() && self.bytes as usize > SEGMENT_PIECE_BYTES
    }
}

/// What these pieces have of the bodies at some positions of their chunk.
fn within(pieces: &[Piece], positions: &Range<u32>) -> Vec<Piece> {
    let parts = pieces.iter().filter_map(|piece| {
        let first = piece.first_position.max(positions.start);
        let end = (piece.first_position + piece.count).min(positions.end);
        let passed = u64::from(first.saturating_sub(piece.first_position));
        (first < end).then_some(Piece {
            first_position: first,
            count: end - first,
            first_index: piece.first_index + passed,
            ..*piece
        })
    });
    parts.collect()
}

impl<D: Disk> Output<'_, D> {
    /// Copies what these pieces have of a chunk, if it may have a large body; says whether it was
    /// copied.
    pub(super) fn flush_large(
        &mut self,
        plan: &FlushPlan,
        chunk: &PlanChunk,
        pieces: &[Piece],
    ) -> Result<bool, Failure> {
        if !chunk.may_have_large() {
            return Ok(false);
        }
        let source = chunk.source(Positions::All);
        let bodies = match self.writer.reader.locate(plan.shard, source) {
            Ok(bodies) => bodies,
            Err(why) => {
                for piece in pieces {
                    self.unreadable(piece.log, piece.indexes(), &why);
                }
                return Ok(true);
            }
        };
        let is_large =
            |far: &Option<Far>| far.is_some_and(|far| far.len as usize > SEGMENT_PIECE_BYTES);
        if !bodies.iter().any(is_large) {
            return Ok(false);
        }
        let mut start = 0;
        for (position, far) in (0..).zip(&bodies).filter(|(_, far)| is_large(far)) {
            self.flush_small(plan, chunk, within(pieces, &(start..position)))?;
            if let Some(far) = far {
                self.copy_large(
                    far,
                    plan.volatile,
                    &within(pieces, &(position..position + 1)),
                )?;
            }
            start = position + 1;
        }
        self.flush_small(plan, chunk, within(pieces, &(start..chunk.count)))?;
        Ok(true)
    }

    /// Reads bodies of a chunk that are not large, and copies them.
    fn flush_small(
        &mut self,
        plan: &FlushPlan,
        chunk: &PlanChunk,
        pieces: Vec<Piece>,
    ) -> Result<(), Failure> {
        if pieces.is_empty() {
            return Ok(());
        }
        let ranges = pieces.iter();
        let mut ranges: Vec<Range<u32>> = ranges
            .map(|piece| piece.first_position..piece.first_position + piece.count)
            .collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let source = chunk.source(Positions::these(ranges));
        match self.read(plan.shard, Key::Chunk(chunk.seq), source) {
            Ok(content) => {
                let source = Bodies {
                    content: &content,
                    volatile: plan.volatile,
                    shared: fanned_out(&pieces, chunk.count),
                    count: chunk.count,
                    first_body: Some(chunk.first_body),
                };
                self.copy(&source, &pieces)?;
                self.writer.buffers.give(content);
            }
            Err(why) => {
                for piece in &pieces {
                    self.unreadable(piece.log, piece.indexes(), &why);
                }
            }
        }
        Ok(())
    }

    /// Copies a large body to a block of its own, for the logs that have it: each has it once.
    fn copy_large(&mut self, body: &Far, volatile: bool, pieces: &[Piece]) -> Result<(), Failure> {
        match pieces {
            [] => Ok(()),
            [piece] => {
                if let Some(reference) = self.shared.end(piece.log) {
                    self.place(reference)?;
                }
                self.copy_alone(body, (piece.log, volatile), piece.first_index)
            }
            _ => {
                self.emit_shared()?;
                let owners = pieces.iter().map(|piece| (piece.log, piece.first_index));
                self.share_large(body, volatile, owners.collect())
            }
        }
    }

    fn copy_alone(&mut self, body: &Far, of: (LogId, bool), index: u64) -> Result<(), Failure> {
        // Blocks of a log do not overlap: what gathers of it comes before.
        self.emit(of)?;
        self.make_room(FAR_HEAD_BYTES + body.len as usize)?;
        let (log, volatile) = of;
        match self.write_far(body, index, (log, own_class(volatile)))? {
            Ok(block) => self.open_blocks().extend([block]),
            Err(why) => self.unreadable(log, index..index + 1, &why),
        }
        Ok(())
    }

    /// Writes a shared block with one large body, and behind it the references of those who have
    /// it. No shared block gathers.
    fn share_large(
        &mut self,
        body: &Far,
        volatile: bool,
        owners: Vec<(LogId, u64)>,
    ) -> Result<(), Failure> {
        self.version = VERSION_SHARED;
        for (log, _) in &owners {
            self.emit((*log, volatile))?;
        }
        let len = body.len as usize;
        self.make_room(FAR_HEAD_BYTES + len + references_bytes(owners.len()))?;
        let block = match self.write_far(body, 0, (NO_LOG, shared_class(volatile)))? {
            Ok(block) => block,
            Err(why) => {
                for (log, index) in owners {
                    self.unreadable(log, index..index + 1, &why);
                }
                return Ok(());
            }
        };
        let references = owners.into_iter();
        let references: Vec<Reference> = references
            .map(|(log, index)| Reference::of_one(log, index, 0, len))
            .collect();
        let written: BlockBuilder = encode_references(block.block.offset, &references);
        self.write(&written, (NO_LOG, REFERENCES))?;
        let parts = references
            .iter()
            .map(|reference| log_block(reference, &block));
        self.open_blocks().extend(parts);
        Ok(())
    }

    fn open_blocks(&mut self) -> &mut Vec<LogBlock> {
        match &mut self.open {
            Some(open) => &mut open.blocks,
            None => unreachable!("room was made"),
        }
    }

    /// Writes a block of one large body to the file that is open; why not, if the body cannot be
    /// read: what comes next is then written over what was written of it.
    fn write_far(
        &mut self,
        body: &Far,
        index: u64,
        of: (LogId, u8),
    ) -> Result<Result<LogBlock, String>, Failure> {
        let Some(mut open) = self.open.take() else {
            unreachable!("room was made");
        };
        let block = FarBlock {
            index,
            of,
            at: (open.id, open.offset as u32),
            salt: self.writer.salt,
        };
        let mut buffer = std::mem::take(&mut self.writer.piece);
        let start = open.offset;
        let reader = self.writer.reader.another();
        let copied = block.copy(&reader, &mut buffer, body, |bytes, at| {
            self.write_piece(&mut open, bytes, start + at)
        });
        self.writer.piece = buffer;
        let written = match copied {
            Ok((head, written)) => {
                self.write_piece(&mut open, &head, start)?;
                open.offset = start + u64::from(written.block.len);
                Ok(written)
            }
            Err(FarFailure::Unreadable(why)) => {
                open.synced = open.synced.min(start);
                Err(why)
            }
            Err(FarFailure::Write(failure)) => return Err(failure),
        };
        self.open = Some(open);
        Ok(written)
    }

    fn write_piece(
        &mut self,
        open: &mut OpenFile<D::File>,
        bytes: &[u8],
        at: u64,
    ) -> Result<(), Failure> {
        let written = open.file.write_at(&[IoSlice::new(bytes)], at);
        written.map_err(|e| ("write", e))?;
        let end = at + bytes.len() as u64;
        if end.saturating_sub(open.synced) >= super::SYNC_BYTES {
            open.file.sync_data().map_err(|e| ("sync", e))?;
            open.synced = end;
        }
        self.pace(bytes.len() as u64)
    }

    /// Copies what a compaction keeps of a block of one large body; says whether it was one.
    pub(super) fn compact_large(&mut self, piece: &CompactionPiece) -> Result<bool, Failure> {
        let Some(body) = only_body(&self.writer.reader, self.writer.salt, &piece.block) else {
            return Ok(false);
        };
        if piece
            .live
            .iter()
            .any(|range| range.contains(&piece.block.first_index))
        {
            self.pace(u64::from(piece.block.len))?;
            self.copy_alone(&body, (piece.log, piece.volatile), piece.block.first_index)?;
        }
        Ok(true)
    }

    /// The same of a block that several logs share.
    pub(super) fn compact_large_shared(
        &mut self,
        sharing: &[&CompactionPiece],
    ) -> Result<bool, Failure> {
        let (first, volatile) = (&sharing[0].block, sharing[0].volatile);
        let Some(body) = only_body(&self.writer.reader, self.writer.salt, first) else {
            return Ok(false);
        };
        let living = sharing.iter().filter(|piece| !piece.live.is_empty());
        let owners: Vec<_> = living.map(|p| (p.log, p.block.first_index)).collect();
        if !owners.is_empty() {
            self.pace(u64::from(first.len))?;
            self.emit_shared()?;
            self.share_large(&body, volatile, owners)?;
        }
        Ok(true)
    }
}
