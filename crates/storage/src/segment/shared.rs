//! Blocks that several logs share: which bodies of a chunk are worth one, how such a block and the
//! references to it gather, and the bytes of the references.
//!
//! Bodies that more than one log has gather in one block, and with them, for each log, which of
//! them it has under which indexes. What one log has in a row is a reference. A reference costs
//! memory for as long as one of its entries waits; so where a log has little in a row, its entries
//! are copied to a block of its own instead.

use super::format::{BLOCK_HEADER_BYTES, BlockBuilder, ENTRY_BYTES, LogBlock, REFERENCE_BYTES};
use crate::bytes_io::{Put, Take};
use crate::flush::Piece;
use crate::log::Block;
use hashbrown::HashMap;
use leveret_types::LogId;
use smallvec::SmallVec;
use std::ops::Range;

/// Which bodies of a chunk with `count` more than one of these pieces have, by their positions;
/// nothing if there is no such body.
pub(crate) fn fanned_out(pieces: &[Piece], count: u32) -> Vec<bool> {
    if pieces.len() < 2 {
        return Vec::new();
    }
    // How many pieces more begin at a position than end there.
    let mut change = vec![0_i32; count as usize + 1];
    for piece in pieces {
        change[piece.first_position as usize] += 1;
        change[(piece.first_position + piece.count) as usize] -= 1;
    }
    let mut having = 0;
    let several = change[..count as usize].iter().map(|change| {
        having += change;
        having > 1
    });
    let several: Vec<bool> = several.collect();
    match several.contains(&true) {
        true => several,
        false => Vec::new(),
    }
}

/// Entries that one log has in a row in a shared block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) log: LogId,
    pub(crate) first_index: u64,
    /// Number in the block of the first one.
    pub(crate) from: u32,
    pub(crate) count: u32,
    /// Those of them that live, by their indexes.
    pub(crate) live: SmallVec<[Range<u64>; 1]>,
    /// Bytes of these.
    pub(crate) bytes: usize,
    /// Sequence of the last one's body, if it is known.
    last_body: Option<u64>,
}

impl Reference {
    /// Of one entry, by its index, with the number and the bytes of its body.
    pub(crate) fn of_one(log: LogId, index: u64, number: u32, bytes: usize) -> Self {
        Self {
            log,
            first_index: index,
            from: number,
            count: 1,
            live: std::iter::once(index..index + 1).collect(),
            bytes,
            last_body: None,
        }
    }

    fn end_index(&self) -> u64 {
        self.first_index + u64::from(self.count)
    }

    /// The indexes that live, each with its number in the block.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        let number = |index| self.from + (index - self.first_index) as u32;
        let indexes = self.live.iter().cloned().flatten();
        indexes.map(move |index| (index, number(index)))
    }

    /// Takes one more entry in if it lies in the block as its index says. Between it and the last
    /// one may lie entries whose bodies are in the block just so: as many bodies were between the
    /// two as there are entries and numbers. Any other would be read as another log's body.
    fn extend(&mut self, index: u64, number: u32, body: Option<u64>, bytes: usize) -> bool {
        let fits = index >= self.end_index()
            && number.checked_sub(self.from).map(u64::from) == Some(index - self.first_index);
        let step = (index + 1).checked_sub(self.end_index());
        let bodies = body.zip(self.last_body);
        let bodies = bodies.and_then(|(body, last)| body.checked_sub(last));
        if !fits || (step != Some(1) && bodies != step) {
            return false;
        }
        self.last_body = body;
        self.count = number - self.from + 1;
        self.bytes += bytes;
        match self.live.last_mut() {
            Some(last) if last.end == index => last.end += 1,
            _ => self.live.push(index..index + 1),
        }
        true
    }
}

/// A shared block that gathers.
#[derive(Debug, Default)]
pub(crate) struct SharedBuilder {
    pub(crate) volatile: bool,
    pub(crate) bodies: BlockBuilder,
    /// Where each body ends in the payload.
    ends: Vec<u32>,
    /// References that may still grow; a log has one at most.
    open: HashMap<LogId, Reference, foldhash::fast::FixedState>,
    /// References that are part of the block.
    pub(crate) references: Vec<Reference>,
}

impl SharedBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes a body in; gives its number.
    pub(crate) fn push(&mut self, payload: &[u8]) -> u32 {
        let number = self.ends.len() as u32;
        self.bodies.push(u64::from(number), payload);
        self.ends.push(self.bodies.payload().len() as u32);
        number
    }

    fn range(&self, number: u32) -> Range<usize> {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[at] as usize
    }

    pub(crate) fn body(&self, number: u32) -> &[u8] {
        &self.bodies.payload()[self.range(number)]
    }

    /// Notes that this entry is that body, with its sequence in the shard's chunks where that is
    /// known: only then may the log's reference go over entries between. Gives the log's reference
    /// before, if it ends here.
    pub(crate) fn refer(
        &mut self,
        log: LogId,
        index: u64,
        number: u32,
        body: Option<u64>,
    ) -> Option<Reference> {
        let bytes = self.range(number).len();
        if let Some(open) = self.open.get_mut(&log)
            && open.extend(index, number, body, bytes)
        {
            return None;
        }
        let reference = Reference {
            last_body: body,
            ..Reference::of_one(log, index, number, bytes)
        };
        self.open.insert(log, reference)
    }

    /// Ends the reference of a log that may still grow.
    pub(crate) fn end(&mut self, log: LogId) -> Option<Reference> {
        self.open.remove(&log)
    }

    /// The logs that have a reference that may still grow, ascending.
    pub(crate) fn open_logs(&self) -> Vec<LogId> {
        let mut logs: Vec<LogId> = self.open.keys().copied().collect();
        logs.sort_unstable();
        logs
    }
}

/// Bytes of the block of so many references.
pub(crate) fn references_bytes(count: usize) -> usize {
    BLOCK_HEADER_BYTES + ENTRY_BYTES + count * REFERENCE_BYTES
}

/// The block of references to the shared block at this offset.
pub(crate) fn encode_references(offset: u32, references: &[Reference]) -> BlockBuilder {
    let mut payload = Vec::with_capacity(references.len() * REFERENCE_BYTES);
    for reference in references {
        payload.put_u64(reference.log.0);
        payload.put_u64(reference.first_index);
        payload.put_u32(reference.from);
        payload.put_u32(reference.count);
    }
    let mut block = BlockBuilder::default();
    block.push(u64::from(offset), &payload);
    block
}

/// What the index says of a reference to this shared block.
pub(crate) fn log_block(reference: &Reference, shared: &LogBlock) -> LogBlock {
    part(
        shared,
        reference.log,
        reference.first_index,
        reference.from,
        reference.count,
    )
}

fn part(shared: &LogBlock, log: LogId, first_index: u64, from: u32, count: u32) -> LogBlock {
    LogBlock {
        log,
        volatile: shared.volatile,
        block: Block {
            first_index,
            last_index: first_index.saturating_add(u64::from(count).saturating_sub(1)),
            count,
            shared_from: Some(from),
            ..shared.block
        },
    }
}

/// What the index says of a shared block, from its references' bytes. Total: any bytes may be
/// given.
pub(crate) fn decode_references(payload: &[u8], shared: &LogBlock) -> Vec<LogBlock> {
    let references = payload.chunks_exact(REFERENCE_BYTES).filter_map(|bytes| {
        let mut take = Take(bytes);
        let (log, first_index) = (LogId(take.u64()?), take.u64()?);
        let (from, count) = (take.u32()?, take.u32()?);
        // What ends beyond the last index cannot have been written.
        let is_sound = count > 0 && first_index.checked_add(u64::from(count)).is_some();
        is_sound.then(|| part(shared, log, first_index, from, count))
    });
    references.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(log: u64, first_position: u32, count: u32) -> Piece {
        Piece {
            chunk: 0,
            first_position,
            count,
            log: LogId(log),
            first_index: 0,
        }
    }

    #[test]
    fn a_body_of_several_logs_is_fanned_out() {
        assert!(fanned_out(&[piece(1, 0, 3)], 3).is_empty());
        assert!(fanned_out(&[piece(1, 0, 2), piece(2, 2, 1)], 3).is_empty());
        assert_eq!(
            fanned_out(&[piece(1, 0, 3), piece(2, 1, 1), piece(3, 1, 2)], 4),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_reference_grows_as_long_as_indexes_and_bodies_go_together() {
        let mut shared = SharedBuilder::default();
        for number in 0..6 {
            assert_eq!(shared.push(&[number as u8; 10]), number);
        }
        for (index, number) in [(7, 0), (8, 1), (10, 3)] {
            assert_eq!(
                shared.refer(LogId(1), index, number, Some(u64::from(number))),
                None
            );
        }
        assert_eq!(shared.refer(LogId(2), 0, 1, Some(1)), None);
        let before = shared
            .refer(LogId(1), 11, 5, Some(5))
            .expect("another begins");
        assert_eq!((before.from, before.count, before.bytes), (0, 4, 30));
        let entries: Vec<_> = before.entries().collect();
        assert_eq!(entries, [(7, 0), (8, 1), (10, 3)]);
        assert_eq!(shared.body(5), [5; 10]);
        assert_eq!(shared.open_logs(), [LogId(1), LogId(2)]);
        assert_eq!(
            shared.end(LogId(1)).map(|r| (r.from, r.count)),
            Some((5, 1))
        );
        assert_eq!(shared.end(LogId(1)), None);
    }

    #[test]
    fn a_reference_does_not_go_over_entries_that_may_be_elsewhere() {
        let mut shared = SharedBuilder::default();
        for number in 0..4 {
            assert_eq!(shared.push(b"body"), number);
        }
        for (index, number) in [(10, 0), (11, 1)] {
            assert_eq!(shared.refer(LogId(1), index, number, None), None);
        }
        let ended = shared.refer(LogId(1), 13, 3, None);
        assert_eq!(ended.map(|before| before.count), Some(2));
        // An entry whose body is not in the block lies between.
        assert_eq!(shared.refer(LogId(2), 0, 0, Some(0)), None);
        let ended = shared.refer(LogId(2), 2, 2, Some(3));
        assert_eq!(ended.map(|before| before.count), Some(1));
    }

    #[test]
    fn references_are_read_as_they_were_written() {
        let block = Block {
            first_index: 0,
            last_index: 5,
            file: 3,
            offset: 32,
            len: 500,
            count: 6,
            live: 0,
            shared_from: None,
        };
        let shared = LogBlock {
            log: LogId(0),
            volatile: false,
            block,
        };
        let references = [(1, 7, 0, 4), (2, u64::MAX - 1, 1, 1)];
        let references = references.map(|(log, first_index, from, count)| Reference {
            log: LogId(log),
            first_index,
            from,
            count,
            live: SmallVec::new(),
            bytes: 0,
            last_body: None,
        });
        let encoded = encode_references(32, &references);
        let decoded = decode_references(encoded.payload(), &shared);
        assert_eq!(decoded, references.map(|r| log_block(&r, &shared)));
        let first = decoded[0].block;
        assert_eq!((first.indexes(), first.shared_from), (7..11, Some(0)));
        assert!(decode_references(&[0; 30], &shared).is_empty());
        assert!(decode_references(&[255; 24], &shared).is_empty());
    }
}
