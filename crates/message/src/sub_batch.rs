//! Sub-entry batches: several messages that a stream client has packed into one entry, compressed
//! or not.

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use leveret_types::limits::STREAM_SUB_BATCH_BYTES_MAX;
use std::io::{Cursor, Read};

/// Why a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubBatchError {
    /// It is compressed in a way that is not read here.
    #[error("the batch is compressed by a codec that is not supported: {0}")]
    Codec(u8),
    /// It is not what the codec makes.
    #[error("the batch cannot be decompressed")]
    Compressed,
    /// It is larger than is read.
    #[error("the batch is larger than {STREAM_SUB_BATCH_BYTES_MAX} bytes when decompressed")]
    TooLarge,
    /// Its messages are not as many as it says, or one is not whole.
    #[error("the batch has other messages than it says")]
    Messages,
}

/// The messages of a batch, known to be whole.
#[derive(Clone, Debug)]
pub struct SubBatch {
    rest: Bytes,
}

/// Reads a batch of `records` messages: `compression` is 0 for none, 1 for gzip. Memory follows
/// what comes out, never what the batch says of itself.
///
/// # Errors
/// If it is compressed in another way, malformed, or too large.
pub fn unpack(compression: u8, records: u16, body: Bytes) -> Result<SubBatch, SubBatchError> {
    let bytes = match compression {
        0 => body,
        1 => {
            let mut bytes = Vec::new();
            let mut decoder = MultiGzDecoder::new(Cursor::new(body));
            let mut decompressed = 0;
            let mut budget = usize::MAX;
            while !decompress(
                &mut decoder,
                &mut bytes,
                usize::MAX,
                &mut decompressed,
                &mut budget,
            )? {}
            bytes.into()
        }
        other => return Err(SubBatchError::Codec(other)),
    };
    whole(records, bytes)
}

/// A batch that is decompressed as its messages are asked for: a few bytes can become very many,
/// which is more than one turn may take, and more than may be held for a consumer that takes no
/// more.
///
/// One of more than a piece is decompressed twice: whether it is what it claims is known before the
/// first of its messages is given.
///
/// Invariant: what is decompressed and not taken is a piece at most, or the one message that is
/// larger.
#[derive(Debug)]
pub struct Unpacking {
    /// Messages that are not taken yet.
    left: u16,
    packed: Packed,
}

#[derive(Debug)]
enum Packed {
    Plain(Bytes),
    Gzip(Box<Gzip>),
}

/// What is left of a batch that gzip has compressed.
#[derive(Debug)]
struct Gzip {
    packed: Bytes,
    decoder: MultiGzDecoder<Cursor<Bytes>>,
    /// As long as it is not known whether the batch is what it claims.
    check: Option<Check>,
    /// What is decompressed and not taken, from `at` on.
    piece: Vec<u8>,
    at: usize,
    /// Bytes that were decompressed so far.
    decompressed: usize,
    /// Whether that is all.
    has_ended: bool,
}

/// The messages of a batch, counted as it is decompressed.
#[derive(Debug, Default)]
struct Check {
    messages: usize,
    /// Of the message at hand: the octets of its length that have come, and those of its body that
    /// are still to come.
    head: Vec<u8>,
    left: usize,
}

impl Check {
    fn pass(&mut self, mut bytes: &[u8]) {
        loop {
            let body = self.left.min(bytes.len());
            bytes = &bytes[body..];
            self.left -= body;
            if bytes.is_empty() {
                return;
            }
            let head = (HEAD_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..head]);
            bytes = &bytes[head..];
            if let Ok(whole) = <[u8; HEAD_BYTES]>::try_from(&self.head[..]) {
                self.left = u32::from_be_bytes(whole) as usize;
                self.messages += 1;
                self.head.clear();
            }
        }
    }

    /// Whether these were so many messages, and nothing else.
    fn found(&self, records: u16) -> bool {
        self.messages == usize::from(records) && self.left == 0 && self.head.is_empty()
    }
}

/// Bytes that are decompressed ahead of who asks for messages.
const PIECE_BYTES: usize = 16 * 1024;

impl Unpacking {
    /// A batch of `records` messages, of which nothing has been decompressed.
    ///
    /// # Errors
    /// If it is compressed in a way that is not read here, or plainly not what it claims.
    pub fn begin(compression: u8, records: u16, body: Bytes) -> Result<Self, SubBatchError> {
        let packed = match compression {
            0 => Packed::Plain(whole(records, body)?.rest),
            1 => Packed::Gzip(Box::new(Gzip {
                packed: body.clone(),
                decoder: MultiGzDecoder::new(Cursor::new(body)),
                check: Some(Check::default()),
                piece: Vec::new(),
                at: 0,
                decompressed: 0,
                has_ended: false,
            })),
            other => return Err(SubBatchError::Codec(other)),
        };
        Ok(Self {
            left: records,
            packed,
        })
    }

    /// Messages that it claims to have and that were not taken yet.
    #[must_use]
    pub const fn left(&self) -> u16 {
        self.left
    }

    /// Bytes that are held for it beside the batch itself and the state of its codec.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.packed {
            Packed::Plain(_) => 0,
            Packed::Gzip(gzip) => gzip.piece.capacity(),
        }
    }

    /// The next message, for which as much is decompressed as `budget` has, which it is taken off;
    /// nothing where that is spent: then the next call goes on. None behind the last message.
    ///
    /// # Errors
    /// The rest cannot be read; this is not called again.
    pub fn next(&mut self, budget: &mut usize) -> Result<Option<Unpacked>, SubBatchError> {
        if self.left == 0 {
            return Ok(Some(Unpacked::End));
        }
        let message = match &mut self.packed {
            Packed::Plain(rest) => Some(take_first(rest).ok_or(SubBatchError::Messages)?),
            Packed::Gzip(gzip) => match gzip.is_checked(self.left, budget)? {
                true => gzip.next(budget)?,
                false => None,
            },
        };
        self.left -= u16::from(message.is_some());
        Ok(message.map(Unpacked::Message))
    }
}

/// What comes next of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// A message.
    Message(Bytes),
    /// Nothing: the last one has been taken.
    End,
}

impl Gzip {
    /// Goes on to look whether there are so many messages; whether that is known, and so.
    fn is_checked(&mut self, records: u16, budget: &mut usize) -> Result<bool, SubBatchError> {
        let Some(check) = &mut self.check else {
            return Ok(true);
        };
        while !self.has_ended {
            if *budget == 0 {
                return Ok(false);
            }
            self.piece.clear();
            self.has_ended = decompress(
                &mut self.decoder,
                &mut self.piece,
                PIECE_BYTES,
                &mut self.decompressed,
                budget,
            )?;
            check.pass(&self.piece);
        }
        if !check.found(records) {
            return Err(SubBatchError::Messages);
        }
        self.check = None;
        if self.decompressed > self.piece.len() {
            self.decoder = MultiGzDecoder::new(Cursor::new(self.packed.clone()));
            self.piece.clear();
            (self.decompressed, self.has_ended) = (0, false);
        }
        Ok(true)
    }

    fn next(&mut self, budget: &mut usize) -> Result<Option<Bytes>, SubBatchError> {
        loop {
            let ahead = &self.piece[self.at..];
            let head = ahead.first_chunk::<HEAD_BYTES>();
            let len = head.map(|head| u32::from_be_bytes(*head) as usize);
            let wanted = HEAD_BYTES + len.unwrap_or(0);
            if len.is_some() && ahead.len() >= wanted {
                let message = Bytes::copy_from_slice(&ahead[HEAD_BYTES..wanted]);
                self.at += wanted;
                if wanted > PIECE_BYTES {
                    self.forget_taken();
                }
                return Ok(Some(message));
            }
            if wanted > STREAM_SUB_BATCH_BYTES_MAX {
                return Err(SubBatchError::TooLarge);
            }
            if self.has_ended {
                return Err(SubBatchError::Messages);
            }
            if *budget == 0 {
                return Ok(None);
            }
            self.decompress_more(wanted, budget)?;
        }
    }

    /// Decompresses until there are so many bytes ahead, or a piece of them.
    fn decompress_more(&mut self, wanted: usize, budget: &mut usize) -> Result<(), SubBatchError> {
        self.forget_taken();
        let most = wanted.max(PIECE_BYTES) - self.piece.len();
        self.has_ended = decompress(
            &mut self.decoder,
            &mut self.piece,
            most,
            &mut self.decompressed,
            budget,
        )?;
        Ok(())
    }

    /// Lets go of what has been taken.
    fn forget_taken(&mut self) {
        self.piece.drain(..std::mem::take(&mut self.at));
        self.piece.shrink_to(PIECE_BYTES);
    }
}

/// Appends what is decompressed next, `most` bytes of it; whether that was all. `decompressed` is
/// how much came of the batch.
fn decompress(
    decoder: &mut impl Read,
    bytes: &mut Vec<u8>,
    most: usize,
    decompressed: &mut usize,
    budget: &mut usize,
) -> Result<bool, SubBatchError> {
    let before = bytes.len();
    let room = (STREAM_SUB_BATCH_BYTES_MAX + 1 - *decompressed)
        .min(most)
        .min(*budget);
    let read = decoder.take(room as u64).read_to_end(bytes);
    let count = bytes.len() - before;
    *budget -= count;
    *decompressed += count;
    match read {
        Err(_) => Err(SubBatchError::Compressed),
        Ok(_) if *decompressed > STREAM_SUB_BATCH_BYTES_MAX => Err(SubBatchError::TooLarge),
        Ok(_) => Ok(count < room),
    }
}

/// The batch, if it has so many messages and nothing else.
fn whole(records: u16, bytes: Bytes) -> Result<SubBatch, SubBatchError> {
    let (mut count, mut rest) = (0, &bytes[..]);
    while !rest.is_empty() && count <= u32::from(records) {
        let len = first(rest).ok_or(SubBatchError::Messages)?;
        rest = &rest[HEAD_BYTES + len..];
        count += 1;
    }
    if count != u32::from(records) {
        return Err(SubBatchError::Messages);
    }
    Ok(SubBatch { rest: bytes })
}

/// A message in a batch: its length, whose first bit is not set, and its octets.
const HEAD_BYTES: usize = 4;

/// Octets of the first message.
fn first(bytes: &[u8]) -> Option<usize> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let len = usize::try_from(u32::from_be_bytes(*head)).ok()?;
    (len <= rest.len()).then_some(len)
}

/// Takes the first message.
fn take_first(bytes: &mut Bytes) -> Option<Bytes> {
    let len = first(bytes)?;
    let mut message = bytes.split_to(HEAD_BYTES + len);
    Some(message.split_off(HEAD_BYTES))
}

impl Iterator for SubBatch {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        take_first(&mut self.rest)
    }
}
