//! Bodies back to back in shared buffers: of a chunk that gathers, of one in the cache, and of one
//! read back from disk. Apart because it knows nothing of chunks.

use bytes::Bytes;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Bodies back to back, shared without copies by the cache, the write-ahead log and whoever reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    /// Adjacent pieces; a body lies within one of them.
    pub(super) parts: SmallVec<[Part; 1]>,
    /// Where each body ends, counted from the first byte of the first piece.
    pub(super) ends: Arc<Vec<u32>>,
}

#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) start: u32,
    pub(super) bytes: Bytes,
}

impl Bodies {
    /// Bodies that lie in one buffer and end where `ends` says.
    pub(crate) fn from_buffer(bytes: Bytes, ends: Vec<u32>) -> Self {
        assert_eq!(ends.last().map_or(0, |end| *end as usize), bytes.len());
        Self {
            parts: SmallVec::from_buf([Part { start: 0, bytes }]),
            ends: Arc::new(ends),
        }
    }

    /// The buffer, if all bodies are in one.
    pub(crate) fn into_buffer(mut self) -> Option<Bytes> {
        let only = self.parts.pop().filter(|_| self.parts.is_empty());
        only.map(|part| part.bytes)
    }

    /// The body at `position`; it shares the buffer.
    pub(crate) fn get(&self, position: usize) -> Bytes {
        slice(&self.parts, &self.ends, position)
    }

    /// The bytes of the body at `position`.
    pub(crate) fn slice(&self, position: usize) -> &[u8] {
        locate(&self.parts, &self.ends, position).map_or(&[], |(part, range)| &part.bytes[range])
    }

    /// How many bodies.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all bodies.
    pub(crate) fn bytes(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The bodies in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let mut parts = self.parts.iter().peekable();
        self.ends.iter().map(move |end| {
            while parts
                .peek()
                .is_some_and(|p| start >= p.start as usize + p.bytes.len())
                && start < *end as usize
            {
                parts.next();
            }
            let body = parts.peek().map_or(&[][..], |p| {
                let base = p.start as usize;
                &p.bytes[start.min(base + p.bytes.len()) - base..*end as usize - base]
            });
            start = *end as usize;
            body
        })
    }

    /// The bytes in order, for a vectored write, but for the bodies at these positions, which
    /// ascend.
    pub(crate) fn without(&self, positions: impl Iterator<Item = u32>) -> Vec<&[u8]> {
        let mut slices = Vec::with_capacity(self.parts.len());
        let mut from = 0;
        for position in positions {
            let left_out = self.range(position as usize);
            self.push_slices(from..left_out.start, &mut slices);
            from = left_out.end;
        }
        self.push_slices(from..self.bytes(), &mut slices);
        slices
    }

    fn push_slices<'a>(&'a self, range: Range<usize>, out: &mut Vec<&'a [u8]>) {
        for part in &self.parts {
            let base = part.start as usize;
            let start = range.start.max(base);
            let end = range.end.min(base + part.bytes.len());
            if start < end {
                out.push(&part.bytes[start - base..end - base]);
            }
        }
    }

    /// Where the body at `position` lies, counted from the first byte of the first one.
    pub(crate) fn range(&self, position: usize) -> Range<usize> {
        range(&self.ends, position)
    }

    /// Where each body ends.
    pub(crate) fn ends(&self) -> &Arc<Vec<u32>> {
        &self.ends
    }
}

pub(super) fn slice(parts: &[Part], ends: &[u32], position: usize) -> Bytes {
    let place = locate(parts, ends, position);
    place.map_or_else(Bytes::new, |(part, range)| part.bytes.slice(range))
}

/// Where the body at `position` lies among bodies that end here.
pub(crate) fn range(ends: &[u32], position: usize) -> Range<usize> {
    let start = position.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[position] as usize
}

/// The piece that a body lies in, and where; `None` of an empty one.
fn locate<'a>(
    parts: &'a [Part],
    ends: &[u32],
    position: usize,
) -> Option<(&'a Part, Range<usize>)> {
    let Range { start, end } = range(ends, position);
    if start == end {
        return None;
    }
    let part = match parts {
        [only] => only,
        _ => &parts[parts.partition_point(|p| p.start as usize <= start) - 1],
    };
    let base = part.start as usize;
    Some((part, start - base..end - base))
}
