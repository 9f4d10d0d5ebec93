//! What was seen: every reader at every replica must see the same.

use leveret_stream::{ChunkKind, SharedChunk};
use leveret_types::NodeId;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Ledger {
    /// Chunks that a reader was shown, by their offset.
    shown: BTreeMap<u64, SharedChunk>,
    /// Where each node's reader is, since it has begun.
    readers: BTreeMap<NodeId, u64>,
    /// The newest message that was confirmed.
    pub confirmed: u64,
}

/// What a message says that nobody counts.
pub const NOISE: u64 = u64::MAX;

/// The messages of a chunk: numbers.
pub fn numbers(chunk: &SharedChunk) -> Vec<u64> {
    let body = |entry: Result<leveret_stream::chunk::Entry<'_>, _>| {
        let body = entry.unwrap().body;
        u64::from_be_bytes(body[..8].try_into().unwrap())
    };
    let numbers = chunk.entries().map(body);
    numbers.filter(|number| *number != NOISE).collect()
}

impl Ledger {
    /// A reader on this node begins with the oldest chunk.
    pub fn begin(&mut self, node: NodeId) {
        self.readers.insert(node, 0);
    }

    pub fn show(&mut self, node: NodeId, chunk: &SharedChunk) {
        chunk.verify().unwrap();
        assert_eq!(chunk.header().kind, ChunkKind::User);
        let at = chunk.header().first_offset;
        let next = self.readers.entry(node).or_default();
        assert!(at >= *next, "{node} was shown {at} after all before {next}");
        *next = chunk.header().next_offset();
        let known = self.shown.entry(at).or_insert_with(|| chunk.clone());
        assert!(
            known == chunk,
            "{node} shows another chunk at {at} than was shown before: {:?}, not {:?}",
            chunk.header(),
            known.header(),
        );
        let before = self.shown.range(..at).next_back();
        if let Some((_, before)) = before {
            assert!(
                before.header().next_offset() <= at,
                "chunks lie over each other at {at}"
            );
        }
    }

    /// How far the reader of a node is.
    pub fn reader(&self, node: NodeId) -> u64 {
        self.readers.get(&node).copied().unwrap_or(0)
    }

    /// All that was ever shown is one run of numbers, each once, with all that was confirmed. Where
    /// old segments are deleted a run may have gone before any reader had it.
    pub fn check(&self, seed: u64, deletes: bool) {
        let mut last = 0;
        let mut end = 0;
        for (at, chunk) in &self.shown {
            for number in numbers(chunk) {
                let may_skip = deletes && *at > end && number > last;
                assert!(
                    number == last + 1 || may_skip,
                    "seed {seed}: after message {last} comes {number} at {at}: one is missing, twice \
                     or not in order"
                );
                last = number;
            }
            end = chunk.header().next_offset();
        }
        assert!(
            last >= self.confirmed,
            "seed {seed}: {} was confirmed, {last} is the last",
            self.confirmed
        );
    }
}
