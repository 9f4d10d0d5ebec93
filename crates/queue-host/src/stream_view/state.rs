//! What of a view survives a restart: a small blob, which the log of its queue keeps.
//!
//! ```text
//! version: u8 = 2 | source u64 | given u64 | reserved u64 | read i64 | ranges u32 | range*
//! | state of the queue
//! range: varint of what lies between it and the one before (the first: 0) | varint of its length
//! ```
//! Version 1 is without `read`. Numbers are little-endian; a varint has seven bits a byte, the low
//! ones first. Ranges ascend, do not touch, and end before `given`.

use leveret_queue::{State, StateError};
use leveret_types::limits::VIEW_UNSETTLED_MAX;
use leveret_types::{QueueId, RangeSet};

const VERSION: u8 = 2;
/// The version that does not say when what was read came.
const WITHOUT_TIMES: u8 = 1;
/// Bits that a byte of a varint has.
const VARINT_BITS: u32 = 7;

/// What is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedView {
    /// The stream.
    pub(crate) source: QueueId,
    /// What is below this was given to the queue.
    pub(crate) given: u64,
    /// What is below this may have been delivered.
    pub(crate) reserved: u64,
    /// When the newest chunk that was read came, in milliseconds since the Unix epoch; 0 if that is
    /// not known.
    pub(crate) read_ms: i64,
    /// What of that is not settled.
    pub(crate) unsettled: RangeSet,
    /// What the queue knows besides.
    pub(crate) queue: State,
}

/// Why bytes are not a [`SavedView`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SavedViewError {
    #[error("a view of version {0}, and this is version {VERSION}")]
    Version(u8),
    #[error("the view's state is damaged")]
    Damaged,
    #[error(transparent)]
    Queue(#[from] StateError),
}

impl SavedView {
    /// Appends the bytes to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        for number in [self.source.0, self.given, self.reserved] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.read_ms.to_le_bytes());
        // At most one for each unsettled message, which are bounded.
        let ranges = self.unsettled.iter();
        out.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
        let mut end = 0;
        for range in ranges {
            put_varint(range.start - end, out);
            put_varint(range.end - range.start, out);
            end = range.end;
        }
        self.queue.encode(out);
    }

    /// Reads exactly these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SavedViewError> {
        let (version, mut rest) = bytes.split_first().ok_or(SavedViewError::Damaged)?;
        if ![WITHOUT_TIMES, VERSION].contains(version) {
            return Err(SavedViewError::Version(*version));
        }
        let source = QueueId(take_u64(&mut rest)?);
        let given = take_u64(&mut rest)?;
        let reserved = take_u64(&mut rest)?;
        let read_ms = match *version {
            WITHOUT_TIMES => 0,
            _ => take_u64(&mut rest)?.cast_signed(),
        };
        let (count, after) = rest
            .split_first_chunk::<4>()
            .ok_or(SavedViewError::Damaged)?;
        rest = after;
        let count = u32::from_le_bytes(*count);
        if count as usize > VIEW_UNSETTLED_MAX {
            return Err(SavedViewError::Damaged);
        }
        let mut unsettled = RangeSet::new();
        let mut end: u64 = 0;
        for at in 0..count {
            let between = take_varint(&mut rest)?;
            let length = take_varint(&mut rest)?;
            let start = end.checked_add(between).ok_or(SavedViewError::Damaged)?;
            end = start.checked_add(length).ok_or(SavedViewError::Damaged)?;
            if length == 0 || end > given || (at > 0 && between == 0) {
                return Err(SavedViewError::Damaged);
            }
            unsettled.insert_range(start..end);
        }
        if unsettled.len() > VIEW_UNSETTLED_MAX as u64 {
            return Err(SavedViewError::Damaged);
        }
        Ok(Self {
            source,
            given,
            reserved,
            read_ms,
            unsettled,
            queue: State::decode(rest)?,
        })
    }
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, SavedViewError> {
    let (number, after) = rest
        .split_first_chunk::<8>()
        .ok_or(SavedViewError::Damaged)?;
    *rest = after;
    Ok(u64::from_le_bytes(*number))
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 1 << VARINT_BITS {
        out.push(number as u8 | 1 << VARINT_BITS);
        number >>= VARINT_BITS;
    }
    out.push(number as u8);
}

fn take_varint(rest: &mut &[u8]) -> Result<u64, SavedViewError> {
    let mut number: u64 = 0;
    for shift in (0..u64::BITS).step_by(VARINT_BITS as usize) {
        let (byte, after) = rest.split_first().ok_or(SavedViewError::Damaged)?;
        *rest = after;
        let bits = u64::from(byte & !(1 << VARINT_BITS));
        let placed = bits << shift;
        if placed >> shift != bits {
            return Err(SavedViewError::Damaged);
        }
        number |= placed;
        if byte & 1 << VARINT_BITS == 0 {
            return Ok(number);
        }
    }
    Err(SavedViewError::Damaged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::golden::{assert_frozen, bytes};

    fn saved(ranges: &[(u64, u64)], given: u64) -> SavedView {
        let mut unsettled = RangeSet::new();
        for (start, end) in ranges {
            unsettled.insert_range(*start..*end);
        }
        SavedView {
            source: QueueId(7).of_stream(),
            given,
            reserved: given + 9,
            read_ms: 1_700_000_000_000,
            unsettled,
            queue: State::default(),
        }
    }

    fn encoded(view: &SavedView) -> Vec<u8> {
        let mut bytes = Vec::new();
        view.encode(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let far = u64::MAX - 20;
        for view in [
            saved(&[], 0),
            saved(&[(0, 1)], 1),
            saved(&[(3, 5), (900, 901), (far, far + 3)], far + 4),
        ] {
            assert_eq!(SavedView::decode(&encoded(&view)), Ok(view));
        }
    }

    #[test]
    fn a_bound_is_kept_also_by_what_is_read() {
        let most = VIEW_UNSETTLED_MAX as u64;
        let fits = saved(&[(5, 5 + most)], most + 5);
        assert_eq!(SavedView::decode(&encoded(&fits)), Ok(fits));
        let more = saved(&[(5, 5 + most + 1)], most + 6);
        assert_eq!(
            SavedView::decode(&encoded(&more)),
            Err(SavedViewError::Damaged)
        );
    }

    #[test]
    fn no_bytes_make_it_panic_and_every_cut_is_noticed() {
        let bytes = encoded(&saved(&[(3, 5), (900, 901)], 1_000));
        for end in 0..bytes.len() {
            assert!(SavedView::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = SavedView::decode(&other);
            }
        }
        let later = [3, 0, 0];
        assert_eq!(SavedView::decode(&later), Err(SavedViewError::Version(3)));
    }

    /// What both versions that there were have on disk.
    #[test]
    fn the_saved_bytes_are_frozen() {
        let mut view = saved(&[(3, 5), (900, 901), (1_000_000, 1_000_300)], 1 << 33);
        view.queue = State::unknown([0]);
        let (head, times) = (
            "070000000000200000000000020000000900000002000000",
            "0068e5cf8b010000",
        );
        let rest = "030000000302ff0601bbfd3cac020201000001ffffffffffffffff00000000";
        assert_frozen(&encoded(&view), &format!("02{head}{times}{rest}"));
        let first = bytes(&format!("01{head}{rest}"));
        let second = bytes(&format!("02{head}{times}{rest}"));
        assert_eq!(SavedView::decode(&second).as_ref(), Ok(&view));
        view.read_ms = 0;
        assert_eq!(SavedView::decode(&first), Ok(view));
    }

    #[test]
    fn what_an_earlier_build_saved_does_not_say_when_its_messages_came() {
        let view = saved(&[(3, 5)], 10);
        let mut bytes = encoded(&view);
        bytes[0] = WITHOUT_TIMES;
        bytes.drain(25..33);
        let expected = SavedView { read_ms: 0, ..view };
        assert_eq!(SavedView::decode(&bytes), Ok(expected));
    }
}
