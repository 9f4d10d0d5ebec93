//! What consumers have stored under their names, as operators see and change it.

use super::{ChunkKind, Stream};
use crate::host::Reference;
use crate::replica::ReplicaRole;
use leveret_types::Now;

/// The offset of a group of consumers: of all that store theirs under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOffset {
    /// The name.
    pub group: Reference,
    /// The offset that was stored last.
    pub offset: u64,
    /// Offsets per second that it has gone on lately; 0 of one that has stored none since the
    /// stream is led here.
    pub per_second: f64,
}

impl Stream {
    /// Whether offsets are stored here: it is a stream of one node alone, or its leader.
    #[must_use]
    pub fn keeps_offsets(&self) -> bool {
        let role = self.role();
        role.is_none_or(|role| matches!(role, ReplicaRole::Leader { .. }))
    }

    pub(super) fn store_offset(&mut self, now: Now, reference: &Reference, offset: u64) {
        let first = self.segments.first_offset().unwrap_or(0);
        if self.tracking.set_offset(reference, offset, first) {
            self.rates.stored(reference, now.monotonic_ms, offset);
            self.tracking_since_ms.get_or_insert(now.monotonic_ms);
        } else {
            self.offsets_refused += 1;
        }
    }

    /// All groups, by name.
    pub fn groups(&self, now: Now) -> impl Iterator<Item = GroupOffset> + '_ {
        let group = move |(name, offset): (&Reference, u64)| GroupOffset {
            group: name.clone(),
            offset,
            per_second: self.rates.of(name, now.monotonic_ms, offset),
        };
        self.tracking.all_offsets().map(group)
    }

    /// Forgets the offset of a group; false if there is none. All that is kept by name is written
    /// once more, without it, so that neither a start nor a replica finds it again.
    pub fn forget_offset(&mut self, now: Now, group: &Reference) -> bool {
        if !self.tracking.forget_offset(group) {
            return false;
        }
        self.rates.forget(group);
        self.make_room(now, 0);
        self.bytes_since_snapshot = 0;
        let body = self.tracking.snapshot();
        self.append_tracking(ChunkKind::TrackingSnapshot, &body);
        true
    }
}
