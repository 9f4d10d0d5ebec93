//! Sequences of publishers and offsets of consumers, stored in the stream itself.
//!
//! What has changed goes into the trailer of the next user chunk, or into a delta chunk of its own
//! where nothing is published; all of it goes into a snapshot chunk now and then, so that recovery
//! reads from the last snapshot on. The bytes are those of RabbitMQ's osiris:
//!
//! ```text
//! changed   type u8 | name length u8 | name | value u64
//! snapshot  0 u8    | name length u8 | name | chunk id u64 | sequence u64
//!           1 u8    | name length u8 | name | offset u64
//! ```
//!
//! Type 0 is a sequence, 1 an offset; all numbers are big-endian. In a delta or snapshot chunk they
//! are the body of its one entry.

use crate::chunk::{ChunkKind, SharedChunk};
use crate::host::Reference;
use bytes::{Buf, BufMut, Bytes};
use leveret_types::limits::{STREAM_OFFSETS_MAX, STREAM_SEQUENCES_MAX};
use std::collections::BTreeMap;

const SEQUENCE: u8 = 0;
const OFFSET: u8 = 1;

/// The last publishing id of a publisher, and the chunk with which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sequence {
    chunk: u64,
    last: u64,
}

/// All that a stream keeps by name: what its chunks say, and what the next chunk will say beside
/// that. A snapshot is of the former alone: it comes before the chunk that brings the latter, and
/// may be durable without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    sequences: BTreeMap<Reference, Sequence>,
    offsets: BTreeMap<Reference, u64>,
    changed_sequences: BTreeMap<Reference, u64>,
    changed_offsets: BTreeMap<Reference, u64>,
}

/// Tracking bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunk's tracking data are malformed")]
pub struct TrackingError;

impl Tracking {
    /// The last publishing id of a publisher.
    #[must_use]
    pub fn sequence(&self, reference: &Reference) -> Option<u64> {
        let changed = self.changed_sequences.get(reference).copied();
        changed.or_else(|| Some(self.sequences.get(reference)?.last))
    }

    /// The stored offset of a consumer.
    #[must_use]
    pub fn offset(&self, reference: &Reference) -> Option<u64> {
        let changed = self.changed_offsets.get(reference);
        changed.or_else(|| self.offsets.get(reference)).copied()
    }

    /// A publisher has published what goes into the next chunk.
    pub fn set_sequence(&mut self, reference: &Reference, last: u64) {
        self.changed_sequences.insert(reference.clone(), last);
    }

    /// Stores a consumer's offset, with the next chunk.
    pub fn set_offset(&mut self, reference: &Reference, offset: u64) {
        put_bounded(&mut self.changed_offsets, reference, offset);
    }

    /// Whether no chunk says anything that must be kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.offsets.is_empty()
    }

    /// What has changed, for the trailer or the data of the chunk with this id.
    #[must_use]
    pub fn take_changes(&mut self, chunk: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for (reference, last) in std::mem::take(&mut self.changed_sequences) {
            put_name(&mut out, SEQUENCE, &reference);
            out.put_u64(last);
            self.keep_sequence(reference, Sequence { chunk, last });
        }
        for (reference, offset) in std::mem::take(&mut self.changed_offsets) {
            put_name(&mut out, OFFSET, &reference);
            out.put_u64(offset);
            put_bounded(&mut self.offsets, &reference, offset);
        }
        out
    }

    /// All that the chunks so far say.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (reference, sequence) in &self.sequences {
            put_name(&mut out, SEQUENCE, reference);
            out.put_u64(sequence.chunk);
            out.put_u64(sequence.last);
        }
        for (reference, offset) in &self.offsets {
            put_name(&mut out, OFFSET, reference);
            out.put_u64(*offset);
        }
        out
    }

    fn keep_sequence(&mut self, reference: Reference, sequence: Sequence) {
        self.sequences.insert(reference, sequence);
        if self.sequences.len() > STREAM_SEQUENCES_MAX {
            let oldest = self.sequences.iter().min_by_key(|(_, s)| s.chunk);
            if let Some(oldest) = oldest.map(|(reference, _)| reference.clone()) {
                self.sequences.remove(&oldest);
            }
        }
    }

    /// Takes over what a chunk says that is read again.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn replay(&mut self, chunk: &SharedChunk) -> Result<(), TrackingError> {
        let id = chunk.header().first_offset;
        match chunk.header().kind {
            ChunkKind::User => self.replay_changes(chunk.trailer(), id)?,
            ChunkKind::TrackingDelta => self.replay_changes(body(chunk)?, id)?,
            ChunkKind::TrackingSnapshot => {
                *self = Self::default();
                self.replay_snapshot(body(chunk)?)?;
            }
        }
        Ok(())
    }

    fn replay_changes(&mut self, mut bytes: &[u8], chunk: u64) -> Result<(), TrackingError> {
        while let Some((kind, reference)) = take_name(&mut bytes)? {
            let value = take_number(&mut bytes)?;
            match kind {
                SEQUENCE => self.keep_sequence(reference, Sequence { chunk, last: value }),
                _ => put_bounded(&mut self.offsets, &reference, value),
            }
        }
        Ok(())
    }

    fn replay_snapshot(&mut self, mut bytes: &[u8]) -> Result<(), TrackingError> {
        while let Some((kind, reference)) = take_name(&mut bytes)? {
            let value = take_number(&mut bytes)?;
            match kind {
                SEQUENCE => {
                    let last = take_number(&mut bytes)?;
                    self.keep_sequence(reference, Sequence { chunk: value, last });
                }
                _ => put_bounded(&mut self.offsets, &reference, value),
            }
        }
        Ok(())
    }
}

/// Stores an offset; of one too many the lowest of the others is forgotten.
fn put_bounded(offsets: &mut BTreeMap<Reference, u64>, reference: &Reference, offset: u64) {
    offsets.insert(reference.clone(), offset);
    if offsets.len() > STREAM_OFFSETS_MAX {
        let others = offsets.iter().filter(|(other, _)| *other != reference);
        let lowest = others.min_by_key(|(_, offset)| **offset);
        if let Some(lowest) = lowest.map(|(reference, _)| reference.clone()) {
            offsets.remove(&lowest);
        }
    }
}

/// The body of the one entry of a tracking chunk.
fn body(chunk: &SharedChunk) -> Result<&[u8], TrackingError> {
    let entry = chunk.entries().next().ok_or(TrackingError)?;
    entry.map(|entry| entry.body).map_err(|_| TrackingError)
}

fn put_name(out: &mut Vec<u8>, kind: u8, reference: &Reference) {
    let name = reference.as_bytes();
    out.put_u8(kind);
    // A reference has 255 bytes at most.
    out.put_u8(name.len() as u8);
    out.put_slice(name);
}

fn take_name(bytes: &mut &[u8]) -> Result<Option<(u8, Reference)>, TrackingError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() < 2 {
        return Err(TrackingError);
    }
    let (kind, len) = (bytes.get_u8(), usize::from(bytes.get_u8()));
    let (name, rest) = bytes.split_at_checked(len).ok_or(TrackingError)?;
    *bytes = rest;
    let reference = Reference::new(Bytes::copy_from_slice(name)).ok_or(TrackingError)?;
    (kind <= OFFSET)
        .then_some(Some((kind, reference)))
        .ok_or(TrackingError)
}

fn take_number(bytes: &mut &[u8]) -> Result<u64, TrackingError> {
    bytes.try_get_u64().map_err(|_| TrackingError)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::chunk::ChunkHeader;

    fn name(text: &str) -> Reference {
        Reference::new(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn chunk(kind: ChunkKind, body: &[u8]) -> SharedChunk {
        let header = ChunkHeader {
            kind,
            entries: 1,
            records: 1,
            timestamp_ms: 0,
            epoch: 1,
            first_offset: 7,
            crc: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            bloom_bytes: 0,
        };
        if kind == ChunkKind::User {
            return SharedChunk::new(header, &[], &[0; 4], body);
        }
        let data = [&(body.len() as u32).to_be_bytes(), body].concat();
        SharedChunk::new(header, &[], &data, &[])
    }

    #[test]
    fn the_bytes_are_those_of_osiris() {
        let mut tracking = Tracking::default();
        tracking.set_sequence(&name("w"), 258);
        tracking.set_offset(&name("rd"), 3);
        assert_eq!(tracking.snapshot(), b"", "no chunk says it yet");
        let changes = b"\0\x01w\0\0\0\0\0\0\x01\x02\x01\x02rd\0\0\0\0\0\0\0\x03";
        assert_eq!(tracking.take_changes(5), changes);
        let snapshot = b"\0\x01w\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x01\x02\x01\x02rd\0\0\0\0\0\0\0\x03";
        assert_eq!(tracking.snapshot(), snapshot);
        assert_eq!(tracking.take_changes(6), b"");
    }

    #[test]
    fn what_is_replayed_is_what_was_stored() {
        let mut tracking = Tracking::default();
        tracking.set_sequence(&name("w"), 1);
        let first = chunk(ChunkKind::User, &tracking.take_changes(7));
        tracking.set_offset(&name("r"), 40);
        let second = chunk(ChunkKind::TrackingDelta, &tracking.take_changes(7));
        let mut replayed = Tracking::default();
        replayed.set_offset(&name("gone with the snapshot"), 1);
        let empty = chunk(ChunkKind::TrackingSnapshot, &[]);
        for chunk in [empty, first, second] {
            replayed.replay(&chunk).unwrap();
        }
        assert_eq!(replayed, tracking);
        let snapshot = chunk(ChunkKind::TrackingSnapshot, &tracking.snapshot());
        let mut again = Tracking::default();
        again.replay(&snapshot).unwrap();
        assert_eq!(again, tracking);
    }

    #[test]
    fn names_are_forgotten_beyond_the_limits_and_only_then() {
        let mut tracking = Tracking::default();
        let publish = |tracking: &mut Tracking, text: &str, last, chunk| {
            tracking.set_sequence(&name(text), last);
            drop(tracking.take_changes(chunk));
        };
        for n in 0..STREAM_SEQUENCES_MAX as u64 {
            publish(&mut tracking, &format!("w{n}"), n, n);
        }
        assert_eq!(tracking.sequence(&name("w0")), Some(0));
        publish(&mut tracking, "w0", 9, 1_000);
        publish(&mut tracking, "more", 1, 1_001);
        assert_eq!(
            tracking.sequence(&name("w0")),
            Some(9),
            "it has published since"
        );
        assert_eq!(tracking.sequence(&name("w1")), None);
        assert_eq!(tracking.sequences.len(), STREAM_SEQUENCES_MAX);
        for n in 0..STREAM_OFFSETS_MAX as u64 {
            tracking.set_offset(&name(&format!("r{n}")), n + 10);
        }
        assert_eq!(tracking.offset(&name("r0")), Some(10));
        tracking.set_offset(&name("more"), 0);
        assert_eq!(tracking.offset(&name("more")), Some(0), "never the new one");
        assert_eq!(tracking.offset(&name("r0")), None);
        drop(tracking.take_changes(2_000));
        assert_eq!(tracking.offsets.len(), STREAM_OFFSETS_MAX);
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        let sound = b"\0\x01w\0\0\0\0\0\0\x01\x02";
        for len in 1..sound.len() {
            let mut tracking = Tracking::default();
            let replayed = tracking.replay(&chunk(ChunkKind::User, &sound[..len]));
            assert_eq!(replayed, Err(TrackingError), "{len}");
        }
        for bad in [&b"\x02\x01w\0\0\0\0\0\0\0\0"[..], b"\0\0\0\0\0\0\0\0\0\0"] {
            let mut tracking = Tracking::default();
            let replayed = tracking.replay(&chunk(ChunkKind::TrackingDelta, bad));
            assert_eq!(replayed, Err(TrackingError));
        }
    }
}
