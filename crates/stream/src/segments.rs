//! The segments of a stream: where chunks are, and which segments go by size and age.

use crate::chunk::ChunkHeader;
use std::collections::VecDeque;

/// A record of a segment file, which is a chunk and what is known of it, begins with a sector of
/// its own: what is being written cannot harm what is durable already.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of a record before its chunk.
pub const RECORD_HEAD_BYTES: usize = 32;

/// Bytes that a chunk takes in a segment file.
#[must_use]
pub fn stored_bytes(chunk: &ChunkHeader) -> u64 {
    let bytes = RECORD_HEAD_BYTES as u64 + chunk.chunk_bytes();
    bytes.next_multiple_of(SECTOR_BYTES)
}

/// One segment: a run of chunks in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The offset of its first record, which is its name.
    pub first_offset: u64,
    /// When its first chunk was made, in milliseconds since the Unix epoch.
    pub first_timestamp_ms: i64,
    /// Bytes that its chunks take.
    pub bytes: u64,
}

/// The segments of one stream, oldest first. The last one is appended to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    all: VecDeque<Segment>,
    bytes: u64,
    /// Chunks that were appended to the last one; those not that were found on disk.
    chunks_appended: u32,
}

impl Segments {
    pub(crate) fn new(all: Vec<Segment>) -> Self {
        let bytes = all.iter().map(|segment| segment.bytes).sum();
        Self {
            all: all.into(),
            bytes,
            chunks_appended: 0,
        }
    }

    pub(crate) fn last(&self) -> Option<&Segment> {
        self.all.back()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest offset that is stored, in a stream that has one.
    pub(crate) fn first_offset(&self) -> Option<u64> {
        self.all.front().map(|segment| segment.first_offset)
    }

    pub(crate) fn begin(&mut self, first_offset: u64, first_timestamp_ms: i64) {
        self.all.push_back(Segment {
            first_offset,
            first_timestamp_ms,
            bytes: 0,
        });
        self.chunks_appended = 0;
    }

    /// See [`Self::append`].
    pub(crate) const fn chunks_appended(&self) -> u32 {
        self.chunks_appended
    }

    /// A chunk of so many bytes is appended to the last one.
    pub(crate) fn append(&mut self, bytes: u64) {
        self.chunks_appended += 1;
        if let Some(last) = self.all.back_mut() {
            last.bytes += bytes;
            self.bytes += bytes;
        }
    }

    /// The segment that holds an offset, or the oldest one if the offset is older.
    pub(crate) fn of_offset(&self, offset: u64) -> Option<u64> {
        let behind = self.all.partition_point(|s| s.first_offset <= offset);
        self.all
            .get(behind.saturating_sub(1))
            .map(|s| s.first_offset)
    }

    /// The segment that holds the first chunk of this time or later, if any does: the last one that
    /// begins before that time.
    pub(crate) fn of_timestamp(&self, timestamp_ms: i64) -> Option<u64> {
        let is_before = |segment: &Segment| segment.first_timestamp_ms < timestamp_ms;
        let last_before = self.all.iter().rposition(is_before);
        self.all
            .get(last_before.unwrap_or(0))
            .map(|s| s.first_offset)
    }

    /// The segment after the one with this first offset.
    pub(crate) fn after(&self, first_offset: u64) -> Option<u64> {
        let behind = self.all.partition_point(|s| s.first_offset <= first_offset);
        self.all.get(behind).map(|s| s.first_offset)
    }

    /// Takes away the oldest segment if the stream has too many bytes or the segment is too old.
    /// The last one stays, however large or old, and so does what is not committed.
    pub(crate) fn expire(
        &mut self,
        bytes_max: Option<u64>,
        oldest_timestamp_ms: Option<i64>,
        committed: u64,
    ) -> Option<Segment> {
        let bounds = (bytes_max, oldest_timestamp_ms);
        let next = self.all.get(1)?;
        if !self.goes(1, self.bytes, bounds) || next.first_offset > committed {
            return None;
        }
        self.pop_first()
    }

    /// Bytes of the segments that [`Self::expire`] would take away one after the other.
    pub(crate) fn expired_bytes(
        &self,
        bytes_max: Option<u64>,
        oldest_timestamp_ms: Option<i64>,
        committed: u64,
    ) -> u64 {
        let (bounds, mut left) = ((bytes_max, oldest_timestamp_ms), self.bytes);
        for (place, (segment, next)) in (1..).zip(self.all.iter().zip(self.all.iter().skip(1))) {
            if !self.goes(place, left, bounds) || next.first_offset > committed {
                break;
            }
            left -= segment.bytes;
        }
        self.bytes - left
    }

    /// Takes away the oldest segment if all of it lies before this offset. The last one stays.
    pub(crate) fn pop_before(&mut self, offset: u64) -> Option<Segment> {
        let next = self.all.get(1)?;
        if next.first_offset > offset {
            return None;
        }
        self.pop_first()
    }

    fn pop_first(&mut self) -> Option<Segment> {
        let segment = self.all.pop_front()?;
        self.bytes -= segment.bytes;
        Some(segment)
    }

    /// Whether the segment before the one at this place goes, of a stream of so many bytes: by
    /// size, or by age, as no chunk is younger than the first one of any later segment. What says
    /// that it is was written with a wrong clock that was put right since.
    fn goes(
        &self,
        place: usize,
        bytes: u64,
        (bytes_max, oldest_ms): (Option<u64>, Option<i64>),
    ) -> bool {
        let is_old = |oldest: i64| {
            let next_ms = self.all[place].first_timestamp_ms;
            let is_ahead = self
                .all
                .back()
                .is_some_and(|s| s.first_timestamp_ms < next_ms);
            let mut later = self.all.range(place..);
            next_ms < oldest || is_ahead && later.any(|s| s.first_timestamp_ms < oldest)
        };
        bytes_max.is_some_and(|max| bytes > max) || oldest_ms.is_some_and(is_old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> Segments {
        let segment = |n: u64| Segment {
            first_offset: n * 10,
            first_timestamp_ms: n as i64 * 1_000,
            bytes: 100,
        };
        Segments::new((1..=3).map(segment).collect())
    }

    #[test]
    fn offsets_and_times_are_found() {
        let segments = segments();
        for (offset, of) in [(0, 10), (10, 10), (19, 10), (20, 20), (99, 30)] {
            assert_eq!(segments.of_offset(offset), Some(of), "{offset}");
        }
        // The last chunks of a segment may be as old as the first one of the next.
        for (timestamp, of) in [(0, 10), (1_000, 10), (2_000, 10), (2_001, 20), (9_000, 30)] {
            assert_eq!(segments.of_timestamp(timestamp), Some(of), "{timestamp}");
        }
        assert_eq!(segments.after(10), Some(20));
        assert_eq!(segments.after(30), None);
        assert_eq!(Segments::default().of_offset(5), None);
    }

    #[test]
    fn segments_go_by_size_and_age_but_never_the_last() {
        let expired_of = |bytes_max, oldest, committed| {
            let mut segments = segments();
            let would_go = segments.expired_bytes(bytes_max, oldest, committed);
            let gone = std::iter::from_fn(|| segments.expire(bytes_max, oldest, committed)).count();
            assert_eq!(segments.bytes() + would_go, 300);
            (gone, segments.bytes())
        };
        let expired = |bytes_max, oldest| expired_of(bytes_max, oldest, u64::MAX);
        assert_eq!(expired(None, None), (0, 300));
        assert_eq!(expired(Some(300), None), (0, 300));
        assert_eq!(expired(Some(299), None), (1, 200));
        assert_eq!(expired(Some(1), None), (2, 100));
        assert_eq!(expired(None, Some(2_000)), (0, 300));
        assert_eq!(expired(None, Some(2_001)), (1, 200));
        assert_eq!(expired(None, Some(i64::MAX)), (2, 100));
        assert_eq!(expired_of(Some(1), None, 29), (1, 200), "not committed");
        assert_eq!(expired_of(Some(1), None, 30), (2, 100));
    }

    #[test]
    fn a_segment_of_a_wrong_clock_keeps_none_that_is_old_and_hides_none_that_is_young() {
        let times = [1_000, 900_000, 2_000, 3_000, 4_000];
        let segment = |(n, ms): (usize, &i64)| Segment {
            first_offset: n as u64 * 10,
            first_timestamp_ms: *ms,
            bytes: 100,
        };
        let mut segments = Segments::new(times.iter().enumerate().map(segment).collect());
        for (timestamp, of) in [(500, 0), (1_500, 0), (2_500, 20), (3_500, 30), (9_000, 40)] {
            assert_eq!(segments.of_timestamp(timestamp), Some(of), "{timestamp}");
        }
        assert_eq!(segments.expired_bytes(None, Some(1_500), 99), 0);
        assert_eq!(segments.expired_bytes(None, Some(3_500), 99), 300);
        let mut gone = Vec::new();
        while let Some(segment) = segments.expire(None, Some(3_500), 99) {
            gone.push(segment.first_offset);
        }
        assert_eq!(gone, [0, 10, 20]);
    }
}
