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
//! Type 0 is a sequence, 1 an offset; all numbers are big-endian. In a trailer they come after what
//! it says of its entries' filter values ([`crate::values`], of osiris' types none). In a delta or
//! snapshot chunk they are the body of its one entry.

use crate::chunk::{ChunkKind, SharedChunk};
use crate::host::Reference;
use crate::offsets::Offsets;
use crate::values::record_bytes;
use bytes::{Buf, BufMut, Bytes};
use leveret_types::limits::{STREAM_OFFSETS_MAX, STREAM_SEQUENCES_MAX};
use std::collections::{BTreeMap, BTreeSet};

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
    offsets: Offsets,
    changed_sequences: BTreeMap<Reference, u64>,
    changed_offsets: BTreeMap<Reference, u64>,
    /// How many of the latter no chunk says yet.
    new_offsets: usize,
    /// Offsets before this have been looked for, to be forgotten.
    forgot_before: u64,
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

    /// Whether the last publishing id of a publisher stands in a chunk before this offset, or it
    /// has none: not while a chunk is still to have it.
    #[must_use]
    pub fn is_sequence_before(&self, reference: &Reference, offset: u64) -> bool {
        let known = self.sequences.get(reference);
        !self.changed_sequences.contains_key(reference)
            && known.is_none_or(|sequence| sequence.chunk < offset)
    }

    /// The stored offset of a consumer.
    #[must_use]
    pub fn offset(&self, reference: &Reference) -> Option<u64> {
        let changed = self.changed_offsets.get(reference).copied();
        changed.or_else(|| self.offsets.get(reference))
    }

    /// The last publishing ids of all publishers, by name.
    pub fn all_sequences(&self) -> impl Iterator<Item = (&Reference, u64)> {
        let known = self.sequences.keys().chain(self.changed_sequences.keys());
        let known: BTreeSet<&Reference> = known.collect();
        known
            .into_iter()
            .filter_map(|name| Some((name, self.sequence(name)?)))
    }

    /// The stored offsets of all consumers, by name.
    pub fn all_offsets(&self) -> impl Iterator<Item = (&Reference, u64)> {
        let known = self.offsets.names().chain(self.changed_offsets.keys());
        let known: BTreeSet<&Reference> = known.collect();
        known
            .into_iter()
            .filter_map(|name| Some((name, self.offset(name)?)))
    }

    /// A publisher has published what goes into the next chunk.
    pub fn set_sequence(&mut self, reference: &Reference, last: u64) {
        self.changed_sequences.insert(reference.clone(), last);
    }

    /// Stores a consumer's offset, with the next chunk. Where there are too many already, those are
    /// forgotten that stand where messages have been deleted, which begin with `first`; if there
    /// are none, the one that was stored longest ago. None of `kept` is forgotten so. False if all
    /// were stored since the last chunk.
    pub fn set_offset(
        &mut self,
        reference: &Reference,
        offset: u64,
        first: u64,
        kept: &[Reference],
    ) -> bool {
        if self.offset(reference).is_some() {
            self.offsets.renew(reference);
        } else {
            if self.is_full() {
                self.renew(kept);
                self.forget_before(first, kept);
            }
            if self.is_full() && !self.forget_oldest() {
                return false;
            }
            self.new_offsets += 1;
        }
        self.changed_offsets.insert(reference.clone(), offset);
        true
    }

    /// Whether as many consumers have an offset as may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.offsets.len() + self.new_offsets >= STREAM_OFFSETS_MAX
    }

    /// Stores the offsets of these names once more: they are the youngest, here and for whoever
    /// reads the chunks, who does not know what is forgotten here.
    fn renew(&mut self, names: &[Reference]) {
        for name in names {
            if let Some(offset) = self.offset(name) {
                self.offsets.renew(name);
                self.changed_offsets.insert(name.clone(), offset);
            }
        }
    }

    /// False if there is none that has not been stored anew since.
    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.offsets.oldest().cloned() else {
            return false;
        };
        // What is stored anew is the youngest: behind it there is no other.
        !self.changed_offsets.contains_key(&oldest) && self.offsets.remove(&oldest)
    }

    /// Forgets a consumer's offset, whether a chunk says it yet or not; false if there is none. A
    /// snapshot must follow: what chunks said before is found again else.
    pub fn forget_offset(&mut self, reference: &Reference) -> bool {
        let was_said = self.offsets.remove(reference);
        let was_changed = self.changed_offsets.remove(reference).is_some();
        if was_changed && !was_said {
            self.new_offsets -= 1;
        }
        was_said || was_changed
    }

    /// Forgets who stands where all messages have been deleted.
    fn forget_before(&mut self, first: u64, kept: &[Reference]) {
        if first > self.forgot_before {
            self.forgot_before = first;
            let changed = &self.changed_offsets;
            let stays = |of: &Reference, offset| {
                offset >= first || changed.contains_key(of) || kept.contains(of)
            };
            self.offsets.retain(stays);
        }
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
            self.keep_offset(reference, offset);
        }
        self.new_offsets = 0;
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
        for (reference, offset) in self.offsets.in_order() {
            put_name(&mut out, OFFSET, reference);
            out.put_u64(offset);
        }
        out
    }

    /// Forgets what no chunk says yet: none will.
    pub fn forget_changes(&mut self) {
        self.changed_sequences.clear();
        self.changed_offsets.clear();
        self.new_offsets = 0;
    }

    fn keep_offset(&mut self, reference: Reference, offset: u64) {
        self.offsets.store(reference, offset);
        // Chunks may say more than is kept at once: what they say later goes before.
        if self.offsets.len() > STREAM_OFFSETS_MAX
            && let Some(oldest) = self.offsets.oldest().cloned()
        {
            self.offsets.remove(&oldest);
        }
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
            ChunkKind::User => {
                let values = record_bytes(chunk);
                let changes = chunk.trailer().get(values..).ok_or(TrackingError)?;
                self.replay_changes(changes, id)?;
            }
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
                _ => self.keep_offset(reference, value),
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
                _ => self.keep_offset(reference, value),
            }
        }
        Ok(())
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
        tracking.set_offset(&name("rd"), 3, 0, &[]);
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
        tracking.set_offset(&name("r"), 40, 0, &[]);
        let second = chunk(ChunkKind::TrackingDelta, &tracking.take_changes(7));
        let mut replayed = Tracking::default();
        replayed.set_offset(&name("gone with the snapshot"), 1, 0, &[]);
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
    }

    #[test]
    fn one_name_too_many_puts_out_the_one_that_was_stored_longest_ago() {
        let mut tracking = Tracking::default();
        for n in 0..STREAM_OFFSETS_MAX as u64 {
            // The lowest offset is the youngest one.
            let offset = 2 * STREAM_OFFSETS_MAX as u64 - n;
            assert!(tracking.set_offset(&name(&format!("r{n:05}")), offset, 5, &[]));
        }
        assert!(
            !tracking.set_offset(&name("more"), 7, 5, &[]),
            "all are new"
        );
        drop(tracking.take_changes(2_000));
        assert!(
            tracking.set_offset(&name("r00000"), 11, 5, &[]),
            "it is in use"
        );
        assert!(tracking.set_offset(&name("more"), u64::MAX, 5, &[]));
        assert_eq!(tracking.offset(&name("r00001")), None);
        for (kept, offset) in [("r00000", 11), ("r00002", 19_998), ("more", u64::MAX)] {
            assert_eq!(tracking.offset(&name(kept)), Some(offset));
        }
        drop(tracking.take_changes(2_001));
        assert_eq!(tracking.offsets.len(), STREAM_OFFSETS_MAX);
        // A start knows from a snapshot who was stored when.
        let mut again = Tracking::default();
        let snapshot = chunk(ChunkKind::TrackingSnapshot, &tracking.snapshot());
        again.replay(&snapshot).unwrap();
        assert!(again.set_offset(&name("even more"), 7, 5, &[]));
        assert_eq!(again.offset(&name("r00002")), None);
        assert_eq!(again.offset(&name("r00000")), Some(11));
    }

    #[test]
    fn replicas_forget_what_their_leader_does() {
        let mut tracking = Tracking::default();
        let mut replica = Tracking::default();
        let say = |tracking: &mut Tracking, replica: &mut Tracking| {
            let changes = chunk(ChunkKind::TrackingDelta, &tracking.take_changes(1));
            replica.replay(&changes).unwrap();
            assert!(*replica == *tracking);
        };
        for n in 0..STREAM_OFFSETS_MAX as u64 {
            tracking.set_offset(&name(&format!("r{n:05}")), n, 0, &[]);
        }
        say(&mut tracking, &mut replica);
        // One that is new goes before the oldest one, which is stored anew.
        for stored in ["r00000", "new", "r00002", "newer"] {
            assert!(tracking.set_offset(&name(stored), 9, 0, &[]));
        }
        say(&mut tracking, &mut replica);
        assert_eq!(tracking.offset(&name("r00001")), None);
        assert_eq!(tracking.offset(&name("r00003")), None);
    }

    #[test]
    fn one_name_more_is_stored_for_those_whose_messages_have_been_deleted() {
        let mut tracking = Tracking::default();
        for n in 0..STREAM_OFFSETS_MAX as u64 {
            assert!(tracking.set_offset(&name(&format!("r{n}")), n, 0, &[]));
        }
        drop(tracking.take_changes(2_000));
        assert!(
            tracking.set_offset(&name("r1"), 500, 2, &[]),
            "it has gone on"
        );
        assert!(tracking.set_offset(&name("more"), 7, 2, &[]));
        assert_eq!(tracking.offset(&name("r0")), None);
        assert_eq!(tracking.offset(&name("r1")), Some(500));
        assert_eq!(tracking.offset(&name("r2")), Some(2));
        drop(tracking.take_changes(2_001));
        assert_eq!(tracking.offsets.len(), STREAM_OFFSETS_MAX);
    }

    #[test]
    fn a_forgotten_name_makes_room_for_one_more() {
        let mut tracking = Tracking::default();
        for n in 0..STREAM_OFFSETS_MAX as u64 - 1 {
            assert!(tracking.set_offset(&name(&format!("r{n}")), n, 0, &[]));
        }
        drop(tracking.take_changes(2_000));
        assert!(tracking.set_offset(&name("new"), 1, 0, &[]));
        assert!(tracking.set_offset(&name("r0"), 5, 0, &[]));
        for (forgotten, comes) in [("new", "a"), ("r0", "b"), ("r1", "c")] {
            assert!(tracking.forget_offset(&name(forgotten)));
            assert!(!tracking.forget_offset(&name(forgotten)));
            assert_eq!(tracking.offset(&name(forgotten)), None);
            assert!(tracking.set_offset(&name(comes), 1, 0, &[]), "{forgotten}");
            assert_eq!(tracking.offset(&name("r10")), Some(10), "{forgotten}");
        }
        assert!(tracking.set_offset(&name("more"), 1, 0, &[]));
        assert_eq!(tracking.offset(&name("r10")), None);
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

    #[test]
    fn names_that_are_to_be_kept_outlast_any_number_of_others() {
        let kept = [name("zebra"), name("audit")];
        let mut tracking = Tracking::default();
        for (n, name) in kept.iter().enumerate() {
            assert!(tracking.set_offset(name, n as u64, 0, &kept));
        }
        let mut chunks = vec![chunk(ChunkKind::User, &tracking.take_changes(7))];
        for n in 0..3 * STREAM_OFFSETS_MAX as u64 {
            // Messages are deleted meanwhile as well.
            assert!(tracking.set_offset(&name(&format!("m{n}")), 9 + n / 4, n / 5, &kept));
            if n % 7 == 0 {
                chunks.push(chunk(ChunkKind::User, &tracking.take_changes(7)));
            }
        }
        chunks.push(chunk(ChunkKind::User, &tracking.take_changes(7)));
        let mut replayed = Tracking::default();
        chunks.iter().for_each(|c| replayed.replay(c).unwrap());
        for tracking in [&tracking, &replayed] {
            let offsets = kept.each_ref().map(|name| tracking.offset(name));
            assert_eq!(offsets, [Some(0), Some(1)]);
            assert!(tracking.offsets.len() <= STREAM_OFFSETS_MAX);
        }
    }
}
