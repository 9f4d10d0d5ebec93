//! Entries of a group's log.
//!
//! ```text
//! record in a log   version and kind u8 | term number | data
//! ```

use crate::error::Malformed;
use crate::wire::{NUMBER_MAX, Take, put_number};
use bytes::Bytes;
use leveret_types::limits::ENTRY_BYTES_MAX;

/// The upper half of an entry's first byte.
const VERSION: u8 = 0x10;

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// What was proposed.
    Normal = 0,
    /// A [`MembershipChange`](crate::MembershipChange). The group applies it; without data it ends
    /// a change of several members.
    Membership = 1,
    /// The first entry of a leader's term, without data: when it is committed, so is all before it.
    Empty = 2,
}

impl EntryKind {
    pub(crate) fn encode(self) -> u8 {
        VERSION | self as u8
    }

    pub(crate) fn decode(byte: u8) -> Result<Self, Malformed> {
        match byte ^ VERSION {
            0 => Ok(Self::Normal),
            1 => Ok(Self::Membership),
            2 => Ok(Self::Empty),
            _ => Err(Malformed("an entry of an unknown kind or version")),
        }
    }
}

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log. The founding state has the first place, so entries begin at 2.
    pub index: u64,
    /// The term in which it was proposed.
    pub term: u64,
    /// What it is for.
    pub kind: EntryKind,
    /// What was proposed, of up to [`ENTRY_BYTES_MAX`] bytes.
    pub data: Bytes,
}

impl Entry {
    /// Appends what a log stores of it: all but the index, which is the record's place.
    pub fn encode_record(&self, out: &mut Vec<u8>) {
        out.push(self.kind.encode());
        put_number(out, self.term);
        out.extend_from_slice(&self.data);
    }

    /// The entry at `index` from its record.
    ///
    /// # Errors
    /// Whatever [`Self::encode_record`] did not write.
    pub fn decode_record(index: u64, record: &Bytes) -> Result<Self, Malformed> {
        let mut take = Take::new(record);
        let kind = EntryKind::decode(take.u8()?)?;
        let term = take.number()?;
        let entry = Self {
            index,
            term,
            kind,
            data: take.rest(),
        };
        entry.check()?;
        Ok(entry)
    }

    /// Whether it may be in a log, whatever else is there.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        if self.index == 0 || self.index > NUMBER_MAX || self.term == 0 || self.term > NUMBER_MAX {
            return Err(Malformed("an entry without a place"));
        }
        if self.data.len() > ENTRY_BYTES_MAX {
            return Err(Malformed("an entry too large"));
        }
        match self.kind {
            EntryKind::Normal if self.data.is_empty() => Err(Malformed("a proposal of nothing")),
            EntryKind::Empty if !self.data.is_empty() => Err(Malformed("an empty entry with data")),
            EntryKind::Membership if !self.data.is_empty() => {
                crate::MembershipChange::decode(&self.data).map(drop)
            }
            _ => Ok(()),
        }
    }
}
