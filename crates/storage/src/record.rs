//! A chunk's records about logs: small records beside the bodies.
//!
//! The log that a record is about stands in the chunk's table, not in the record: it is known even
//! when the record is damaged.
//!
//! ```text
//! create    1  -
//! delete    2  -
//! run       3  first_index u64, first_body u64, count u32, bytes u64
//! settle    4  start u64, end u64, bytes u64
//! state     5  opaque bytes
//! vote      6  term u64, vote u64
//! truncate  7  from u64
//! accept    8  -
//! skip      9  to u64
//! ```

use crate::bytes_io::{Put, Take};

/// A change to one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A durable log comes to be.
    Create,
    /// A log and its entries end.
    Delete,
    /// Entries `first_index..` are the bodies `first_body..` of the record's shard.
    Run {
        first_index: u64,
        first_body: u64,
        count: u32,
        bytes: u64,
    },
    /// Entries are settled. `bytes` is what they counted for.
    Settle { start: u64, end: u64, bytes: u64 },
    /// The log's opaque state is replaced.
    State(&'a [u8]),
    /// A Raft group's term and vote.
    Vote { term: u64, vote: u64 },
    /// Entries from `from` on never were; the next one has this index.
    Truncate { from: u64 },
    /// An operator accepts that damaged entries are lost.
    Accept,
    /// The next entry has the index `to`; those left out count as settled.
    Skip { to: u64 },
}

/// Where the count of a run lies in its record: it grows in place while its chunk gathers.
pub(crate) const RUN_COUNT_AT: usize = 17;
/// Where the bytes of a run lie in its record.
pub(crate) const RUN_BYTES_AT: usize = 21;
/// Where the end of a settle lies in its record.
pub(crate) const SETTLE_END_AT: usize = 9;
/// Where the bytes of a settle lie in its record.
pub(crate) const SETTLE_BYTES_AT: usize = 17;

impl<'a> Record<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Create => out.put_u8(1),
            Self::Delete => out.put_u8(2),
            Self::Run {
                first_index,
                first_body,
                count,
                bytes,
            } => {
                out.put_u8(3);
                out.put_u64(first_index);
                out.put_u64(first_body);
                out.put_u32(count);
                out.put_u64(bytes);
            }
            Self::Settle { start, end, bytes } => {
                out.put_u8(4);
                out.put_u64(start);
                out.put_u64(end);
                out.put_u64(bytes);
            }
            Self::State(blob) => {
                out.put_u8(5);
                out.extend_from_slice(blob);
            }
            Self::Vote { term, vote } => {
                out.put_u8(6);
                out.put_u64(term);
                out.put_u64(vote);
            }
            Self::Truncate { from } => {
                out.put_u8(7);
                out.put_u64(from);
            }
            Self::Accept => out.put_u8(8),
            Self::Skip { to } => {
                out.put_u8(9);
                out.put_u64(to);
            }
        }
    }

    /// The record in `bytes`; `None` if it is none. Total: any bytes may be given.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut take = Take(bytes);
        let record = match take.u8()? {
            1 => Self::Create,
            2 => Self::Delete,
            3 => Self::Run {
                first_index: take.u64()?,
                first_body: take.u64()?,
                count: take.u32()?,
                bytes: take.u64()?,
            },
            4 => Self::Settle {
                start: take.u64()?,
                end: take.u64()?,
                bytes: take.u64()?,
            },
            5 => Self::State(take.bytes(take.0.len())?),
            6 => Self::Vote {
                term: take.u64()?,
                vote: take.u64()?,
            },
            7 => Self::Truncate { from: take.u64()? },
            8 => Self::Accept,
            9 => Self::Skip { to: take.u64()? },
            _ => return None,
        };
        let sound = match record {
            Self::Run {
                first_index,
                first_body,
                count,
                ..
            } => {
                let count = u64::from(count);
                count > 0
                    && first_index.checked_add(count).is_some()
                    && first_body.checked_add(count).is_some()
            }
            Self::Settle { start, end, .. } => start <= end,
            _ => true,
        };
        (take.is_empty() && sound).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_read_as_it_was_written_and_no_shorter_or_longer() {
        let records = [
            Record::Create,
            Record::Delete,
            Record::Run {
                first_index: 1,
                first_body: 2,
                count: 3,
                bytes: 4,
            },
            Record::Settle {
                start: 5,
                end: 6,
                bytes: 7,
            },
            Record::State(b"blob"),
            Record::Vote { term: 8, vote: 9 },
            Record::Truncate { from: 10 },
            Record::Accept,
            Record::Skip { to: 11 },
        ];
        for record in records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes), Some(record));
            if !matches!(record, Record::State(_)) {
                assert_eq!(Record::decode(&bytes[..bytes.len() - 1]), None);
                bytes.push(0);
                assert_eq!(Record::decode(&bytes), None);
            }
        }
        assert_eq!(Record::decode(&[]), None);
        assert_eq!(Record::decode(&[99]), None);
    }

    #[test]
    fn fields_that_grow_in_place_are_where_they_are_said_to_be() {
        let mut bytes = Vec::new();
        Record::Run {
            first_index: 0,
            first_body: 0,
            count: 0x0102_0304,
            bytes: 0x1112,
        }
        .encode(&mut bytes);
        assert_eq!(bytes[RUN_COUNT_AT..][..4], 0x0102_0304_u32.to_le_bytes());
        assert_eq!(bytes[RUN_BYTES_AT..][..8], 0x1112_u64.to_le_bytes());
        bytes.clear();
        Record::Settle {
            start: 0,
            end: 0x2122,
            bytes: 0x3132,
        }
        .encode(&mut bytes);
        assert_eq!(bytes[SETTLE_END_AT..][..8], 0x2122_u64.to_le_bytes());
        assert_eq!(bytes[SETTLE_BYTES_AT..][..8], 0x3132_u64.to_le_bytes());
    }
}
