//! The chunk of records that is being filled.

use crate::batch::Published;
use crate::bloom::BloomBuilder;
use crate::chunk::{ChunkHeader, SharedChunk};
use crate::chunk_data::ChunkData;
use crate::values::ValuesBuilder;
use leveret_types::limits::{STREAM_CHUNK_BYTES, STREAM_CHUNK_ENTRIES_MAX};

/// The chunk that is being filled.
#[derive(Debug)]
pub(super) struct Filling {
    data: ChunkData,
    entries: u16,
    records: u32,
    bloom: BloomBuilder,
    values: ValuesBuilder,
}

impl Filling {
    pub(super) fn new(filter_bytes: u8) -> Self {
        Self {
            data: ChunkData::default(),
            entries: 0,
            records: 0,
            bloom: BloomBuilder::new(filter_bytes),
            values: ValuesBuilder::default(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of its entries.
    pub(super) fn bytes(&self) -> u64 {
        self.data.len() as u64
    }

    pub(super) fn has_room(&self, published: &Published<'_>) -> bool {
        self.is_empty()
            || usize::from(self.entries) < STREAM_CHUNK_ENTRIES_MAX
                && self.data.len() + published.entry.bytes.len() <= STREAM_CHUNK_BYTES
    }

    pub(super) fn add(&mut self, published: &Published<'_>) {
        self.data.push(published.entry.bytes);
        self.entries += 1;
        self.records += u32::from(published.entry.records);
        self.bloom.add(published);
        self.values.add(published.filter);
    }

    /// Gives the chunk, with this header but for what is counted here, and these changes of what is
    /// kept by name in its trailer. The next one has a filter of so many bytes.
    pub(super) fn end(
        &mut self,
        header: ChunkHeader,
        mut changes: Vec<u8>,
        filter_bytes: u8,
    ) -> SharedChunk {
        let mut trailer = self.values.take();
        trailer.append(&mut changes);
        let header = ChunkHeader {
            entries: std::mem::take(&mut self.entries),
            records: std::mem::take(&mut self.records),
            ..header
        };
        let bloom = self.bloom.take(filter_bytes);
        self.data.take(header, &bloom, &trailer)
    }

    /// Drops what is in it.
    pub(super) fn clear(&mut self, filter_bytes: u8) {
        self.data.clear();
        self.entries = 0;
        self.records = 0;
        drop(self.bloom.take(filter_bytes));
        drop(self.values.take());
    }
}
