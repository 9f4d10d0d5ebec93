//! Which segments go: by size and age, and not before named groups have had what they hold.

use super::{Effect, Stream};
use crate::host::Reference;
use leveret_types::Now;

/// A group that holds more than it may of what size and age would have deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionAlarm {
    /// The one that is furthest behind.
    pub group: Reference,
    /// The offset that it has stored, if it has.
    pub offset: Option<u64>,
    /// Bytes that are held.
    pub bytes: u64,
}

impl Stream {
    /// Deletes segments that are beyond the bounds on size and age.
    pub fn expire(&mut self, now: Now) {
        let wall_ms = i64::try_from(now.wall_ms).unwrap_or(i64::MAX);
        let age = |ms: u64| wall_ms.saturating_sub_unsigned(ms);
        let oldest_ms = self.settings.age_ms_max.map(age);
        let Some(committed) = self.expires_below() else {
            self.held_bytes = 0;
            return;
        };
        let bytes_max = self.settings.bytes_max;
        // The message at a stored offset stays: a consumer may have stored it before it was done.
        let group = self.slowest_group();
        let retained_from = group.map(|(_, offset)| offset.unwrap_or(0));
        let before = committed.min(retained_from.unwrap_or(u64::MAX));
        while let Some(segment) = self.segments.expire(bytes_max, oldest_ms, before) {
            let first_offset = segment.first_offset;
            self.effects.push(Effect::DeleteSegment { first_offset });
        }
        self.held_bytes = match retained_from {
            Some(_) => self.segments.expired_bytes(bytes_max, oldest_ms, committed),
            None => 0,
        };
        self.serve_followers();
    }

    /// Of the groups that retention waits for the one that is furthest behind, with its offset if
    /// it has stored one.
    fn slowest_group(&self) -> Option<(&Reference, Option<u64>)> {
        let groups = self.settings.retention_groups.iter();
        let offsets = groups.map(|group| (group, self.tracking.offset(group)));
        offsets.min_by_key(|(_, offset)| *offset)
    }

    /// Which group holds more than it may beyond size and age, as of the last [`Self::expire`].
    #[must_use]
    pub fn retention_alarm(&self) -> Option<RetentionAlarm> {
        let (group, offset) = self.slowest_group()?;
        (self.held_bytes > self.settings.retention_alarm_bytes).then(|| RetentionAlarm {
            group: group.clone(),
            offset,
            bytes: self.held_bytes,
        })
    }
}
