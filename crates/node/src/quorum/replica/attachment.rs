//! The messages that lie behind an entry, between nodes.
//!
//! ```text
//! frame: kind u8 = 0 | message of the group | the attachments of its entries, in order
//! attachment: for each message that the entry's header names: length u32 | bytes as `crate::stored` has them
//! ```
//! The length of a message that has left by now is `u32::MAX`, without bytes: whoever sends that
//! knows that its departure is committed.

use super::header::Header;
use super::wire::Malformed;
use crate::env::PeerFrame;
use bytes::Bytes;
use leveret_replication::{Entry, EntryKind, Message};
use leveret_types::QueueId;
use leveret_types::limits::QUORUM_BATCH_BYTES;
use smallvec::smallvec;
use std::collections::VecDeque;

/// First byte of a frame with a message of the group.
pub(super) const RAFT: u8 = 0;
/// The length that says that a message has left.
const GONE: u32 = u32::MAX;

/// What an attachment of a full batch takes at most, unless a single message is longer.
const ATTACHMENT_BYTES: usize = QUORUM_BATCH_BYTES + 4 * 1024;

/// Appends a message to an attachment.
pub(super) fn put_message(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let len = u32::try_from(len).unwrap_or(GONE);
    assert!(len < GONE, "a message of {len} bytes");
    let more = 4 + len as usize;
    if out.capacity() - out.len() < more && out.len() >= ATTACHMENT_BYTES / 2 {
        // Not twice as much: what is below the bound of a batch is memory that the allocator has,
        // what is above is mapped anew, at a page fault for every 4 KiB.
        out.reserve_exact(more.max(ATTACHMENT_BYTES.saturating_sub(out.len())));
    }
    out.extend_from_slice(&len.to_le_bytes());
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Appends what stands for a message that has left.
pub(super) fn put_gone(out: &mut Vec<u8>) {
    out.extend_from_slice(&GONE.to_le_bytes());
}

/// The next message of an attachment that was checked; nothing if it has left.
pub(super) fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len);
    if len == GONE {
        *rest = after;
        return None;
    }
    let (body, after) = after.split_at_checked(len as usize)?;
    *rest = after;
    Some(body)
}

/// An entry that has come from another node, and what lies behind it.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) index: u64,
    pub(super) term: u64,
    pub(super) header: Header,
    pub(super) bodies: Bytes,
}

/// A frame with a message of the group. `attachments` are those of its entries, in order.
pub(super) fn frame(
    queue: QueueId,
    message: &Message,
    attachments: impl IntoIterator<Item = Bytes>,
) -> PeerFrame {
    let mut bytes = Vec::with_capacity(64 + 96 * message.entries().len());
    bytes.push(RAFT);
    message.encode(&mut bytes);
    let mut pieces = smallvec![Bytes::from(bytes)];
    pieces.extend(attachments.into_iter().filter(|bytes| !bytes.is_empty()));
    PeerFrame { queue, pieces }
}

/// What is in a frame behind its first byte: a message of the group, and what has come with its
/// entries.
///
/// # Errors
/// If the frame is anything else.
pub(super) fn decode(frame: &Bytes) -> Result<(Message, VecDeque<Arrival>), Malformed> {
    let malformed = |what| Malformed {
        what,
        left: frame.len(),
    };
    let (message, taken) =
        Message::decode(frame).map_err(|_| malformed("a message of the group"))?;
    let mut at = taken;
    let mut arrivals = VecDeque::new();
    for entry in message.entries() {
        let header = header_of(entry)?.unwrap_or_default();
        let rest = frame
            .get(at..)
            .ok_or(malformed("the messages of an entry"))?;
        let len = attachment_len(&header, rest)?;
        arrivals.push_back(Arrival {
            index: entry.index,
            term: entry.term,
            header,
            bodies: frame.slice(at..at + len),
        });
        at += len;
    }
    match at == frame.len() {
        true => Ok((message, arrivals)),
        false => Err(malformed("what follows the messages of entries")),
    }
}

/// What an entry says, if it is a batch.
pub(super) fn header_of(entry: &Entry) -> Result<Option<Header>, Malformed> {
    match entry.kind {
        EntryKind::Normal => Header::decode(&entry.data).map(Some),
        EntryKind::Membership | EntryKind::Empty => Ok(None),
    }
}

/// How many bytes the messages that a header names take, each of which must be one.
fn attachment_len(header: &Header, bytes: &[u8]) -> Result<usize, Malformed> {
    let mut rest = bytes;
    // As many rounds as there are messages in the bytes, whatever the header claims.
    for came in &header.came {
        for _ in came.range.clone() {
            let left = rest.len();
            let fail = Malformed {
                what: "a message of an entry",
                left,
            };
            match next(&mut rest) {
                Some(body) if crate::stored::facts(body).is_some() => {}
                None if rest.len() + 4 == left => {}
                _ => return Err(fail),
            }
        }
    }
    Ok(bytes.len() - rest.len())
}
