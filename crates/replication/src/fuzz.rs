//! Entrances for fuzzing: each takes any bytes, and must neither panic nor allocate much more than
//! it was given. What is sound is encoded to the same bytes again.

use crate::{Entry, Membership, MembershipChange, Message, SnapshotMark};
use bytes::Bytes;

/// A message; whether it is one.
#[must_use]
pub fn message(bytes: &[u8]) -> bool {
    let Ok((message, len)) = Message::decode(&Bytes::copy_from_slice(bytes)) else {
        return false;
    };
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, bytes[..len], "{message:?}");
    true
}

/// An entry's record; whether it is one.
#[must_use]
pub fn record(bytes: &[u8]) -> bool {
    let Ok(entry) = Entry::decode_record(7, &Bytes::copy_from_slice(bytes)) else {
        return false;
    };
    let mut again = Vec::new();
    entry.encode_record(&mut again);
    assert_eq!(again, bytes, "{entry:?}");
    true
}

/// A snapshot's mark, a membership or a change of one; whether it is any of them.
#[must_use]
pub fn members(bytes: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut again = Vec::new();
    if let Ok(mark) = SnapshotMark::decode(&bytes) {
        mark.encode(&mut again);
    } else if let Ok(membership) = Membership::decode(&bytes) {
        membership.encode(&mut again);
    } else if let Ok(change) = MembershipChange::decode(&bytes) {
        change.encode(&mut again);
    } else {
        return false;
    }
    assert_eq!(again, bytes);
    true
}
