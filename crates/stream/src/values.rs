//! Which filter value each entry of a chunk was published with, as far as a hash tells, and the
//! parts of a chunk that a reader is sent who asks for single entries.
//!
//! What is known stands at the front of a user chunk's trailer, in chunks that have a bloom filter:
//!
//! ```text
//! 0  type u8 = 2
//! 1  CRC-32 u32 of the rest
//! 5  for each entry u32: 0 if it has no value, else its value's hash
//! ```
//!
//! A client can be told of a chunk only what its header says: a first offset and how many follow
//! without a gap. So a chunk of which not all is asked for is sent as several: one for each run of
//! entries that follow each other.

use crate::bloom::{Filter, hash_of};
use crate::chunk::{ChunkHeader, Entries, SharedChunk};
use bytes::BufMut;

/// The type of a record in a trailer that has the values of entries.
pub(crate) const VALUES: u8 = 2;
/// Bytes before the hashes.
const HEAD_BYTES: usize = 5;
/// Bytes of a hash.
const HASH_BYTES: usize = 4;
/// The hash of no value.
const NO_VALUE: u32 = 0;

/// The hash by which the value of an entry is known; that of no value, and of an empty one, is 0.
/// It is stored: it stays.
#[must_use]
pub fn value_hash(value: Option<&[u8]>) -> u32 {
    match value {
        None | Some([]) => NO_VALUE,
        Some(value) => {
            let hash = hash_of(value);
            ((hash ^ hash >> 32) as u32).max(1)
        }
    }
}

/// Gathers the values of one chunk's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValuesBuilder {
    entries: usize,
    /// None as long as no entry had a value.
    hashes: Vec<u32>,
}

impl ValuesBuilder {
    /// Notes one entry's value, or that it has none.
    pub(crate) fn add(&mut self, value: Option<&[u8]>) {
        let hash = value_hash(value);
        if hash != NO_VALUE || !self.hashes.is_empty() {
            self.hashes.resize(self.entries, NO_VALUE);
            self.hashes.push(hash);
        }
        self.entries += 1;
    }

    /// The record for the trailer, empty if no entry had a value; the builder begins anew.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let record = values_record(&self.hashes);
        self.entries = 0;
        self.hashes.clear();
        record
    }
}

/// The record for the trailer of a chunk whose entries' values have these hashes; empty for none.
#[must_use]
pub fn values_record(hashes: &[u32]) -> Vec<u8> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(HEAD_BYTES + hashes.len() * HASH_BYTES);
    out.put_u8(VALUES);
    out.put_u32(0);
    for hash in hashes {
        out.put_u32(*hash);
    }
    let crc = crc32fast::hash(&out[HEAD_BYTES..]);
    out[1..HEAD_BYTES].copy_from_slice(&crc.to_be_bytes());
    out
}

/// Bytes of the record that stands at the front of a chunk's trailer; 0 if none does.
pub(crate) fn record_bytes(chunk: &SharedChunk) -> usize {
    match chunk.trailer().first() {
        Some(&VALUES) => HEAD_BYTES + usize::from(chunk.header().entries) * HASH_BYTES,
        _ => 0,
    }
}

/// The hashes of the values of a chunk's entries, in order.
#[derive(Clone, Copy, Debug)]
pub struct EntryValues<'a>(&'a [[u8; HASH_BYTES]]);

impl<'a> EntryValues<'a> {
    /// What a user chunk says of its entries' values; `None` if it says nothing, or what it says is
    /// damaged.
    #[must_use]
    pub fn of(chunk: &'a SharedChunk) -> Option<Self> {
        let bytes = record_bytes(chunk);
        let record = chunk.trailer().get(..bytes)?;
        let (head, hashes) = record.split_first_chunk::<HEAD_BYTES>()?;
        let crc = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let (hashes, _) = hashes.as_chunks();
        (crc == crc32fast::hash(hashes.as_flattened())).then_some(Self(hashes))
    }

    /// The hash of the value of the entry with this index; `None` of one that is not there.
    #[must_use]
    pub fn get(&self, entry: usize) -> Option<u32> {
        self.0.get(entry).map(|hash| u32::from_be_bytes(*hash))
    }

    /// The hashes, in order.
    #[must_use = "an iterator does nothing by itself"]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.0.iter().map(|hash| u32::from_be_bytes(*hash))
    }
}

/// What a reader asks for, prepared for looking at many chunks.
#[derive(Debug)]
pub(crate) struct Wanted {
    filter: Box<Filter>,
    /// The hashes of the values, in order; none where whole chunks are asked for.
    hashes: Vec<u32>,
}

/// How much of a chunk a reader is sent.
#[derive(Debug)]
pub(crate) enum Part {
    Nothing,
    Whole,
    /// One chunk for each run, unless there is no run at all.
    Runs(Runs),
}

impl Wanted {
    pub(crate) fn new(filter: Box<Filter>) -> Self {
        let mut hashes: Vec<u32> = match filter.messages {
            true => {
                let values = filter.values.iter();
                values.map(|value| value_hash(Some(value))).collect()
            }
            false => Vec::new(),
        };
        if filter.messages && filter.match_unfiltered {
            hashes.push(NO_VALUE);
        }
        hashes.sort_unstable();
        hashes.dedup();
        Self { filter, hashes }
    }

    fn has(&self, hash: u32) -> bool {
        self.hashes.binary_search(&hash).is_ok()
    }

    /// How much of a user chunk is asked for, of what is not before `from`.
    pub(crate) fn part_of(&self, chunk: &SharedChunk, from: u64) -> Part {
        if !self.filter.may_match(chunk.bloom()) {
            return Part::Nothing;
        }
        if !self.filter.messages {
            return Part::Whole;
        }
        // Where nothing is known of single entries the client looks at each, as without this.
        let Some(values) = EntryValues::of(chunk) else {
            return Part::Whole;
        };
        if values.iter().all(|hash| self.has(hash)) {
            return Part::Whole;
        }
        Part::Runs(Runs::new(chunk.clone(), from, self))
    }
}

/// A chunk of which not all is asked for, and how far it was sent.
#[derive(Debug)]
pub(crate) struct Runs {
    chunk: SharedChunk,
    /// Of the next entry that is sent: its index, its place in the data, and its first offset. At
    /// the end of the chunk there is none.
    entry: usize,
    at: usize,
    offset: u64,
}

impl Runs {
    fn new(chunk: SharedChunk, from: u64, wanted: &Wanted) -> Self {
        let offset = chunk.header().first_offset;
        let mut runs = Self {
            chunk,
            entry: 0,
            at: 0,
            offset,
        };
        // A client that has asked for an offset looks at the first chunk alone for what is before.
        runs.advance(|end, hash| end > from && wanted.has(hash));
        runs
    }

    /// Whether all was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.entry >= usize::from(self.chunk.header().entries)
    }

    /// The offset of the next message that is sent, or the one behind the chunk.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on to the first entry that is wanted, by the offset after it and its value's hash.
    fn advance(&mut self, is_wanted: impl Fn(u64, u32) -> bool) {
        let data = self.chunk.data();
        let Some(values) = EntryValues::of(&self.chunk) else {
            return;
        };
        // The chunk was checked when it was made or read.
        for entry in Entries(&data[self.at..]).flatten() {
            let end = self.offset + u64::from(entry.records);
            if values
                .get(self.entry)
                .is_none_or(|hash| is_wanted(end, hash))
            {
                return;
            }
            self.entry += 1;
            self.at += entry.bytes.len();
            self.offset = end;
        }
        self.entry = self.chunk.header().entries.into();
    }

    /// The next run as a chunk of its own: with an epoch and a time as the whole has them, without
    /// a bloom filter.
    pub(crate) fn next(&mut self, wanted: &Wanted) -> Option<SharedChunk> {
        if self.is_done() {
            return None;
        }
        let (entry, at, offset) = (self.entry, self.at, self.offset);
        self.advance(|_, hash| !wanted.has(hash));
        let hashes: Vec<u32> = match EntryValues::of(&self.chunk) {
            Some(values) => (entry..self.entry).filter_map(|n| values.get(n)).collect(),
            None => Vec::new(),
        };
        let data = self.chunk.data();
        let header = ChunkHeader {
            entries: (self.entry - entry) as u16,
            records: (self.offset - offset) as u32,
            first_offset: offset,
            ..*self.chunk.header()
        };
        let run = SharedChunk::new(header, &[], &data[at..self.at], &values_record(&hashes));
        self.advance(|_, hash| wanted.has(hash));
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::chunk::ChunkKind;
    use bytes::Bytes;

    fn message(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_be_bytes(), body].concat()
    }

    fn batch(records: u16) -> Vec<u8> {
        [&[0x80][..], &records.to_be_bytes(), &[0; 8]].concat()
    }

    /// A chunk whose first message has the offset 100.
    fn chunk(entries: &[(Option<&[u8]>, Vec<u8>)], bloom: &[u8]) -> SharedChunk {
        let mut values = ValuesBuilder::default();
        entries.iter().for_each(|(value, _)| values.add(*value));
        let data: Vec<u8> = entries
            .iter()
            .flat_map(|(_, bytes)| bytes.clone())
            .collect();
        let records = Entries(&data).map(|entry| u32::from(entry.unwrap().records));
        let header = ChunkHeader {
            kind: ChunkKind::User,
            entries: entries.len() as u16,
            records: records.sum(),
            timestamp_ms: 7,
            epoch: 3,
            first_offset: 100,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        };
        SharedChunk::new(header, bloom, &data, &values.take())
    }

    fn red(match_unfiltered: bool) -> Wanted {
        Wanted::new(Box::new(Filter {
            values: vec![Bytes::from_static(b"red")],
            match_unfiltered,
            messages: true,
        }))
    }

    fn offsets(chunk: &SharedChunk, wanted: &Wanted) -> Vec<(u64, u16, u32)> {
        let Part::Runs(mut runs) = wanted.part_of(chunk, 0) else {
            panic!("not in parts");
        };
        let runs = std::iter::from_fn(|| runs.next(wanted));
        runs.map(|run| {
            run.verify().unwrap();
            let header = run.header();
            assert_eq!((header.timestamp_ms, header.epoch), (7, 3));
            (header.first_offset, header.entries, header.records)
        })
        .collect()
    }

    /// All bits are set: the values may be anything.
    const ANY: [u8; 16] = [0xFF; 16];

    #[test]
    fn a_batch_is_sent_whole_by_its_own_value_and_counts_all_its_messages() {
        let chunk = chunk(
            &[
                (Some(b"red"), batch(5)),
                (Some(b"blue"), batch(300)),
                (None, message(b"x")),
                (Some(b"red"), message(b"y")),
                (Some(b"red"), batch(2)),
            ],
            &ANY,
        );
        assert_eq!(offsets(&chunk, &red(false)), [(100, 1, 5), (406, 2, 3)]);
        assert_eq!(offsets(&chunk, &red(true)), [(100, 1, 5), (405, 3, 4)]);
    }

    #[test]
    fn a_run_says_what_its_own_entries_values_are() {
        let entries = [
            (Some(&b"blue"[..]), message(b"a")),
            (Some(b"red"), message(b"b")),
            (None, message(b"c")),
        ];
        let chunk = chunk(&entries, &ANY);
        let Part::Runs(mut runs) = red(true).part_of(&chunk, 0) else {
            panic!("not in parts");
        };
        let run = runs.next(&red(true)).unwrap();
        let values = EntryValues::of(&run).unwrap();
        assert_eq!(
            [values.get(0), values.get(1)],
            [Some(value_hash(Some(b"red"))), Some(0)]
        );
        assert_eq!(values.get(2), None);
    }

    #[test]
    fn where_values_are_not_known_or_damaged_the_whole_chunk_is_sent() {
        let whole = chunk(
            &[
                (Some(b"red"), message(b"a")),
                (Some(b"blue"), message(b"b")),
            ],
            &ANY,
        );
        let wanted = red(false);
        let trailer = whole.trailer().to_vec();
        for damaged in 1..trailer.len() {
            let mut trailer = trailer.clone();
            trailer[damaged] ^= 1;
            let chunk = SharedChunk::new(*whole.header(), &ANY, &whole.data(), &trailer);
            assert!(
                matches!(wanted.part_of(&chunk, 0), Part::Whole),
                "{damaged}"
            );
        }
        for len in 0..trailer.len() {
            let chunk = SharedChunk::new(*whole.header(), &ANY, &whole.data(), &trailer[..len]);
            assert!(matches!(wanted.part_of(&chunk, 0), Part::Whole), "{len}");
        }
        assert!(matches!(wanted.part_of(&whole, 0), Part::Runs(_)));
    }

    #[test]
    fn chunks_without_values_cost_nothing_and_all_of_their_entries_are_alike() {
        let chunk = chunk(&[(None, message(b"a")), (Some(b""), message(b"b"))], &[]);
        assert!(chunk.trailer().is_empty());
        assert!(matches!(red(false).part_of(&chunk, 0), Part::Nothing));
        assert!(matches!(red(true).part_of(&chunk, 0), Part::Whole));
    }

    #[test]
    fn the_hash_stays_as_it_is_stored() {
        let hashes = [None, Some(&b""[..]), Some(b"eu"), Some(b"us")].map(value_hash);
        assert_eq!(hashes, [0, 0, FROZEN[0], FROZEN[1]]);
    }

    const FROZEN: [u32; 2] = [1_633_183_192, 1_421_573_838];
}
