//! Messages between replicas as bytes.
//!
//! ```text
//! kind u8 | epoch u64 | what the kind has, in the order of its fields
//! ```
//!
//! All numbers are big-endian; a list has its length before it (u32); chunks are the rest.

use crate::replica::{Attachment, Epoch, EpochEnd, EpochStart, LogPosition, ReplicaMessage};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use leveret_types::limits::{STREAM_COPY_BYTES_MAX, STREAM_EPOCHS_MAX};

const PREPARE: u8 = 1;
const PREPARED: u8 = 2;
const ATTACH: u8 = 3;
const ATTACHED: u8 = 4;
const FETCH: u8 = 5;
const DURABLE: u8 = 6;
const CHUNKS: u8 = 7;
const UNATTACHED: u8 = 8;

/// Why bytes are no message of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Bytes are missing, or there are more than the message has.
    #[error("the message of a stream's replica has another length than it says")]
    Length,
    /// A kind or a flag that is not known.
    #[error("the message of a stream's replica has a kind or a flag that is not known: {0}")]
    Unknown(u8),
    /// More epochs or bytes than a message may have.
    #[error(
        "the message of a stream's replica has {0} epochs or bytes, which is more than one may have"
    )]
    TooLarge(u64),
}

impl ReplicaMessage {
    /// All of the message's bytes but those of its chunks, which follow as they are: so that
    /// whoever sends it need not copy them.
    #[must_use]
    pub fn encode_head(&self) -> (Bytes, Bytes) {
        let mut out = BytesMut::with_capacity(128);
        let mut begin = |kind: u8| {
            out.put_u8(kind);
            out.put_u64(self.epoch().0);
        };
        let mut rest = Bytes::new();
        match self {
            Self::Prepare { .. } => begin(PREPARE),
            Self::Prepared {
                promised,
                position,
                is_whole,
                ..
            } => {
                begin(PREPARED);
                put(
                    &mut out,
                    [promised.0, position.log_epoch.0, position.next_offset],
                );
                out.put_u8(u8::from(*is_whole));
            }
            Self::Attach {
                attachment, ends, ..
            } => {
                begin(ATTACH);
                out.put_u64(attachment.0);
                put_list(&mut out, ends.iter().map(|e| (e.epoch, e.next_offset)));
            }
            Self::Attached {
                attachment,
                parted_at,
                first_offset,
                whole_at,
                committed,
                epochs,
                ..
            } => {
                begin(ATTACHED);
                put(
                    &mut out,
                    [
                        attachment.0,
                        *parted_at,
                        *first_offset,
                        *whole_at,
                        *committed,
                    ],
                );
                put_list(&mut out, epochs.iter().map(|e| (e.epoch, e.first_offset)));
            }
            Self::Fetch {
                attachment,
                question,
                from,
                bytes,
                ..
            } => {
                begin(FETCH);
                put(&mut out, [attachment.0, *question, *from]);
                out.put_u32(*bytes);
            }
            Self::Durable {
                attachment,
                next_offset,
                is_whole,
                ..
            } => {
                begin(DURABLE);
                put(&mut out, [attachment.0, *next_offset]);
                out.put_u8(u8::from(*is_whole));
            }
            Self::Chunks {
                attachment,
                question,
                from,
                segment,
                first_offset,
                committed,
                chunks,
                ..
            } => {
                begin(CHUNKS);
                let numbers = [*question, *from, *segment, *first_offset, *committed];
                out.put_u64(attachment.0);
                put(&mut out, numbers);
                rest = chunks.clone();
            }
            Self::Unattached { attachment, .. } => {
                begin(UNATTACHED);
                out.put_u64(attachment.0);
            }
        }
        (out.freeze(), rest)
    }

    /// All of the message's bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let (head, chunks) = self.encode_head();
        if chunks.is_empty() {
            return head;
        }
        let mut out = BytesMut::with_capacity(head.len() + chunks.len());
        out.put(head);
        out.put(chunks);
        out.freeze()
    }

    /// Reads what [`Self::encode`] made; chunks are a part of the same bytes, and are not looked
    /// into.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn decode(mut bytes: Bytes) -> Result<Self, MessageError> {
        let from = &mut bytes;
        let (kind, epoch) = (take_u8(from)?, Epoch(take(from)?));
        let message = match kind {
            PREPARE => Self::Prepare { epoch },
            PREPARED => Self::Prepared {
                epoch,
                promised: Epoch(take(from)?),
                position: LogPosition {
                    log_epoch: Epoch(take(from)?),
                    next_offset: take(from)?,
                },
                is_whole: take_bool(from)?,
            },
            ATTACH => Self::Attach {
                epoch,
                attachment: Attachment(take(from)?),
                ends: take_list(from, |epoch, next_offset| EpochEnd { epoch, next_offset })?,
            },
            ATTACHED => Self::Attached {
                epoch,
                attachment: Attachment(take(from)?),
                parted_at: take(from)?,
                first_offset: take(from)?,
                whole_at: take(from)?,
                committed: take(from)?,
                epochs: take_list(from, |epoch, first_offset| EpochStart {
                    epoch,
                    first_offset,
                })?,
            },
            FETCH => Self::Fetch {
                epoch,
                attachment: Attachment(take(from)?),
                question: take(from)?,
                from: take(from)?,
                bytes: from.try_get_u32().map_err(|_| MessageError::Length)?,
            },
            DURABLE => Self::Durable {
                epoch,
                attachment: Attachment(take(from)?),
                next_offset: take(from)?,
                is_whole: take_bool(from)?,
            },
            CHUNKS => Self::Chunks {
                epoch,
                attachment: Attachment(take(from)?),
                question: take(from)?,
                from: take(from)?,
                segment: take(from)?,
                first_offset: take(from)?,
                committed: take(from)?,
                chunks: take_rest(from)?,
            },
            UNATTACHED => Self::Unattached {
                epoch,
                attachment: Attachment(take(from)?),
            },
            other => return Err(MessageError::Unknown(other)),
        };
        bytes
            .is_empty()
            .then_some(message)
            .ok_or(MessageError::Length)
    }
}

fn put<const N: usize>(out: &mut BytesMut, numbers: [u64; N]) {
    for number in numbers {
        out.put_u64(number);
    }
}

fn put_list(out: &mut BytesMut, list: impl ExactSizeIterator<Item = (Epoch, u64)>) {
    // Bounded by how many epochs a log may have.
    out.put_u32(list.len() as u32);
    for (epoch, offset) in list {
        put(out, [epoch.0, offset]);
    }
}

fn take_u8(from: &mut Bytes) -> Result<u8, MessageError> {
    from.try_get_u8().map_err(|_| MessageError::Length)
}

fn take(from: &mut Bytes) -> Result<u64, MessageError> {
    from.try_get_u64().map_err(|_| MessageError::Length)
}

fn take_bool(from: &mut Bytes) -> Result<bool, MessageError> {
    match take_u8(from)? {
        flag @ 0..=1 => Ok(flag == 1),
        other => Err(MessageError::Unknown(other)),
    }
}

fn take_list<T>(from: &mut Bytes, make: impl Fn(Epoch, u64) -> T) -> Result<Vec<T>, MessageError> {
    let len = from.try_get_u32().map_err(|_| MessageError::Length)?;
    if len as usize > STREAM_EPOCHS_MAX {
        return Err(MessageError::TooLarge(u64::from(len)));
    }
    if from.len() < 16 * len as usize {
        return Err(MessageError::Length);
    }
    let mut one = || Ok(make(Epoch(take(from)?), take(from)?));
    (0..len).map(|_| one()).collect()
}

fn take_rest(from: &mut Bytes) -> Result<Bytes, MessageError> {
    if from.len() > STREAM_COPY_BYTES_MAX {
        return Err(MessageError::TooLarge(from.len() as u64));
    }
    Ok(std::mem::take(from))
}

/// One message of each kind.
pub(super) fn every_message() -> Vec<ReplicaMessage> {
    let (epoch, attachment) = (Epoch(7), Attachment(0x1_0000_0002));
    let position = LogPosition {
        log_epoch: Epoch(6),
        next_offset: 40,
    };
    let end = EpochEnd {
        epoch,
        next_offset: 12,
    };
    let start = EpochStart {
        epoch,
        first_offset: 5,
    };
    vec![
        ReplicaMessage::Prepare { epoch },
        ReplicaMessage::Prepared {
            epoch,
            promised: Epoch(8),
            position,
            is_whole: true,
        },
        ReplicaMessage::Attach {
            epoch,
            attachment,
            ends: vec![end, end],
        },
        ReplicaMessage::Attached {
            epoch,
            attachment,
            parted_at: 1,
            first_offset: 2,
            whole_at: 3,
            committed: 4,
            epochs: vec![start],
        },
        ReplicaMessage::Fetch {
            epoch,
            attachment,
            question: 1,
            from: 2,
            bytes: 3,
        },
        ReplicaMessage::Durable {
            epoch,
            attachment,
            next_offset: 1,
            is_whole: true,
        },
        ReplicaMessage::Chunks {
            epoch,
            attachment,
            question: 1,
            from: 2,
            segment: 3,
            first_offset: 4,
            committed: 5,
            chunks: Bytes::from_static(b"chunks"),
        },
        ReplicaMessage::Unattached { epoch, attachment },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_cut_or_longer_ones_refused() {
        for message in every_message() {
            let bytes = message.encode();
            assert_eq!(ReplicaMessage::decode(bytes.clone()), Ok(message.clone()));
            if matches!(message, ReplicaMessage::Chunks { .. }) {
                continue;
            }
            for len in 0..bytes.len() {
                let cut = ReplicaMessage::decode(bytes.slice(..len));
                assert_eq!(cut, Err(MessageError::Length), "{message:?}, {len} octets");
            }
            let longer = Bytes::from([&bytes[..], &[0]].concat());
            assert_eq!(ReplicaMessage::decode(longer), Err(MessageError::Length));
        }
    }

    #[test]
    fn lists_and_chunks_have_bounds() {
        let start = EpochStart {
            epoch: Epoch(1),
            first_offset: 0,
        };
        let attached = |epochs: usize| ReplicaMessage::Attached {
            epoch: Epoch(1),
            attachment: Attachment(1),
            parted_at: 0,
            first_offset: 0,
            whole_at: 0,
            committed: 0,
            epochs: vec![start; epochs],
        };
        let most = attached(STREAM_EPOCHS_MAX);
        assert_eq!(ReplicaMessage::decode(most.encode()), Ok(most));
        let over = attached(STREAM_EPOCHS_MAX + 1).encode();
        let error = MessageError::TooLarge(STREAM_EPOCHS_MAX as u64 + 1);
        assert_eq!(ReplicaMessage::decode(over), Err(error));
        // The octets of such chunks are never looked at here, so that they take no memory.
        let chunks = |bytes: usize| {
            let mut message = vec![0; 1 + 8 + 6 * 8 + bytes];
            message[0] = CHUNKS;
            ReplicaMessage::decode(message.into())
        };
        assert!(chunks(STREAM_COPY_BYTES_MAX).is_ok());
        let error = MessageError::TooLarge(STREAM_COPY_BYTES_MAX as u64 + 1);
        assert_eq!(chunks(STREAM_COPY_BYTES_MAX + 1), Err(error));
    }
}
