//! The messages that lie behind an entry, between nodes.
//!
//! ```text
//! frame: kind u8 = 0 | message of the group | the entry payloads of its entries, in order
//!        kind u8 = 8 | run u64 | the same, with references
//!        kind u8 = 9 | index u64, of the first entry that refers to something that is not here
//! entry payload: for each message that the entry's header names: length u32 | bytes as `crate::stored` has them
//! reference: u32::MAX - 1 | number u64 | checksum u32
//! ```
//! The length of a message that has left by now is `u32::MAX`, without bytes: whoever sends that
//! knows that its departure is committed.
//!
//! A reference stands for a message that the receiver's own node has published: its remote queue
//! keeps what has no answer, and so has the bytes of the operation with that number, in that run of
//! the node. They cross the network once, on their way to the leader. Who does not have them any
//! more says so, and gets the entries again, whole.

use super::header::Header;
use super::wire::Malformed;
use crate::events::PeerFrame;
use crate::quorum::protocol::Origin;
use bytes::Bytes;
use leveret_replication::{Entry, EntryKind, Message};
use leveret_types::limits::QUORUM_BATCH_BYTES;
use leveret_types::{Message as Content, NodeId, QueueId};
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;
use std::ops::Range;

/// First byte of a frame with a message of the group.
pub(super) const RAFT: u8 = 0;
/// The same of a frame whose entries may refer to messages that the receiver's node has published.
pub(super) const REFERRING: u8 = 8;
/// First byte of a frame that says which entry's references name nothing that is there.
pub(super) const LACKING: u8 = 9;
/// The length that says that a message has left.
const GONE: u32 = u32::MAX;
/// The length that says that a reference follows.
const REFERENCE: u32 = u32::MAX - 1;
/// Bytes of a number and a checksum.
const REFERENCE_BYTES: usize = 12;
/// A message that is shorter than this is sent, not referred to.
pub(super) const REFERRED_BYTES_MIN: usize = 128;

/// What an entry's payload of a full batch takes at most, unless a single message is longer.
const ENTRY_PAYLOAD_BYTES: usize = QUORUM_BATCH_BYTES + 4 * 1024;

/// Appends a message to an entry's payload.
pub(super) fn put_message(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let len = u32::try_from(len).unwrap_or(GONE);
    assert!(len < REFERENCE, "a message of {len} bytes");
    let more = 4 + len as usize;
    if out.capacity() - out.len() < more && out.len() >= ENTRY_PAYLOAD_BYTES / 2 {
        // Not twice as much: what is below the bound of a batch is memory that the allocator has,
        // what is above is mapped anew, at a page fault for every 4 KiB.
        out.reserve_exact(more.max(ENTRY_PAYLOAD_BYTES.saturating_sub(out.len())));
    }
    out.extend_from_slice(&len.to_le_bytes());
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// A message of an entry's payload that one of the receivers has published.
#[derive(Clone, Debug)]
pub(super) struct Published {
    /// Who.
    pub(super) origin: Origin,
    /// The operation's number.
    pub(super) sequence: u64,
    /// Where it lies in the entry's payload, its length included.
    pub(super) at: Range<usize>,
}

/// What lies behind an entry, and who has published what of it.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryPayload {
    pub(super) bytes: Bytes,
    /// In the order of their places.
    pub(super) published: Vec<Published>,
}

impl EntryPayload {
    /// Bytes that it takes in memory.
    pub(super) fn weight(&self) -> usize {
        self.bytes.len() + self.published.len() * size_of::<Published>()
    }

    /// The run of `node` that has published some of it.
    pub(super) fn run_of(&self, node: NodeId) -> Option<u64> {
        let of_node = |published: &&Published| published.origin.node == node;
        let newest = self.published.iter().rfind(of_node);
        newest.map(|published| published.origin.start)
    }

    /// The bytes as `origin` is sent them: what it has published itself is referred to.
    pub(super) fn referring(&self, origin: Origin, out: &mut Vec<Bytes>) {
        let mut at = 0;
        let mut references = Vec::new();
        for published in self.published.iter().filter(|p| p.origin == origin) {
            if published.at.start > at {
                put_references(&mut references, out);
                out.push(self.bytes.slice(at..published.at.start));
            }
            let stored = &self.bytes[published.at.start + 4..published.at.end];
            references.extend_from_slice(&REFERENCE.to_le_bytes());
            references.extend_from_slice(&published.sequence.to_le_bytes());
            references.extend_from_slice(&crc32c::crc32c(stored).to_le_bytes());
            at = published.at.end;
        }
        put_references(&mut references, out);
        if at < self.bytes.len() {
            out.push(self.bytes.slice(at..));
        }
    }
}

fn put_references(references: &mut Vec<u8>, out: &mut Vec<Bytes>) {
    if !references.is_empty() {
        out.push(Bytes::from(std::mem::take(references)));
    }
}

/// Appends what stands for a message that has left.
pub(super) fn put_gone(out: &mut Vec<u8>) {
    out.extend_from_slice(&GONE.to_le_bytes());
}

/// The next message of an entry's payload that was checked; nothing if it has left.
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

/// A frame with a message of the group. `entry_payloads` are those of its entries, in order; they
/// may refer to what the receiver's node has published in the run `referring`.
pub(super) fn frame(
    queue: QueueId,
    message: &Message,
    referring: Option<u64>,
    entry_payloads: impl IntoIterator<Item = Bytes>,
) -> PeerFrame {
    let mut bytes = Vec::with_capacity(64 + 96 * message.entries().len());
    match referring {
        Some(run) => {
            bytes.push(REFERRING);
            bytes.extend_from_slice(&run.to_le_bytes());
        }
        None => bytes.push(RAFT),
    }
    message.encode(&mut bytes);
    let mut pieces = smallvec![Bytes::from(bytes)];
    pieces.extend(entry_payloads.into_iter().filter(|bytes| !bytes.is_empty()));
    PeerFrame::of_pieces(queue, pieces)
}

/// What is in a frame.
pub(super) enum Decoded {
    /// A message of the group, and what has come with its entries.
    Message(Message, VecDeque<Arrival>),
    /// One of which this entry refers to a message that is not here.
    Lacking(u64),
}

/// A frame that says that references of the entry at `index` name nothing that is here.
pub(super) fn lacking(queue: QueueId, index: u64) -> PeerFrame {
    let mut frame = vec![LACKING];
    frame.extend_from_slice(&index.to_le_bytes());
    PeerFrame::new(queue, Bytes::from(frame))
}

/// Of which entry a frame says so, behind its first byte.
///
/// # Errors
/// If that is no index.
pub(super) fn decode_lacking(rest: &[u8]) -> Result<u64, Malformed> {
    let malformed = Malformed {
        what: "the index of an entry",
        left: rest.len(),
    };
    let index = rest.try_into().map_err(|_| malformed)?;
    Ok(u64::from_le_bytes(index))
}

/// What this node has published and keeps, by the node's run and the operation's number.
pub(super) type PendingPublishes<'a> = &'a dyn Fn(u64, u64) -> Option<Content>;

/// Takes a frame apart, whose first byte is [`RAFT`] or [`REFERRING`].
///
/// # Errors
/// If the frame is anything else.
pub(super) fn decode(frame: &Bytes, kept: PendingPublishes<'_>) -> Result<Decoded, Malformed> {
    let malformed = |what| Malformed {
        what,
        left: frame.len(),
    };
    let (run, behind) = match frame.split_first() {
        Some((&REFERRING, rest)) => {
            let run = rest.first_chunk().ok_or(malformed("a run"))?;
            (Some(u64::from_le_bytes(*run)), 1 + run.len())
        }
        _ => (None, 1),
    };
    let rest = frame.slice(behind.min(frame.len())..);
    let (message, taken) =
        Message::decode(&rest).map_err(|_| malformed("a message of the group"))?;
    let mut at = behind + taken;
    let mut arrivals = VecDeque::new();
    let mut last = 0;
    for entry in message.entries() {
        let header = header_of(entry)?.unwrap_or_default();
        let rest = frame
            .get(at..)
            .ok_or(malformed("the messages of an entry"))?;
        let (len, referred) = entry_payload_len(&header, rest, run.is_some())?;
        let bodies = frame.slice(at..at + len);
        let bodies = match run.filter(|_| !referred.is_empty()) {
            None => bodies,
            Some(run) => {
                // Each of them once, so that it takes no more than what is kept.
                let kept = |number| {
                    let is_next = std::mem::replace(&mut last, number) < number;
                    kept(run, number).filter(|_| is_next)
                };
                match filled_in(&bodies, &referred, kept) {
                    Some(bodies) => bodies,
                    None => return Ok(Decoded::Lacking(entry.index)),
                }
            }
        };
        arrivals.push_back(Arrival {
            index: entry.index,
            term: entry.term,
            header,
            bodies,
        });
        at += len;
    }
    match at == frame.len() {
        true => Ok(Decoded::Message(message, arrivals)),
        false => Err(malformed("what follows the messages of entries")),
    }
}

/// An entry's payload with the messages that it refers to, the references being at `referred`;
/// nothing if one of them is not there.
fn filled_in(
    entry_payload: &[u8],
    referred: &[usize],
    mut kept: impl FnMut(u64) -> Option<Content>,
) -> Option<Bytes> {
    let mut out = Vec::new();
    let mut from = 0;
    for at in referred {
        out.extend_from_slice(&entry_payload[from..*at]);
        let (number, rest) = entry_payload[at + 4..].split_first_chunk()?;
        let (checksum, _) = rest.split_first_chunk()?;
        let message = kept(u64::from_le_bytes(*number))?;
        let header = crate::stored::header(&message);
        let before = out.len();
        put_message(&mut out, &crate::stored::pieces(&header, &message));
        if crc32c::crc32c(&out[before + 4..]) != u32::from_le_bytes(*checksum) {
            return None;
        }
        from = at + 4 + REFERENCE_BYTES;
    }
    out.extend_from_slice(&entry_payload[from..]);
    Some(Bytes::from(out))
}

/// What an entry says, if it is a batch.
pub(super) fn header_of(entry: &Entry) -> Result<Option<Header>, Malformed> {
    match entry.kind {
        EntryKind::Normal => Header::decode(&entry.data).map(Some),
        EntryKind::Membership | EntryKind::Empty => Ok(None),
    }
}

/// How many bytes the messages that a header names take, each of which must be one, and where among
/// them the references are.
fn entry_payload_len(
    header: &Header,
    bytes: &[u8],
    may_refer: bool,
) -> Result<(usize, SmallVec<[usize; 4]>), Malformed> {
    let mut rest = bytes;
    let mut referred = SmallVec::new();
    // As many rounds as there are messages in the bytes, whatever the header claims.
    for came in &header.came {
        for _ in came.range.clone() {
            let left = rest.len();
            let fail = Malformed {
                what: "a message of an entry",
                left,
            };
            if may_refer && rest.starts_with(&REFERENCE.to_le_bytes()) {
                referred.push(bytes.len() - left);
                rest = rest.get(4 + REFERENCE_BYTES..).ok_or(fail)?;
                continue;
            }
            match next(&mut rest) {
                Some(body) if crate::stored::summary(body).is_some() => {}
                None if rest.len() + 4 == left => {}
                _ => return Err(fail),
            }
        }
    }
    Ok((bytes.len() - rest.len(), referred))
}
