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
    let mut unpacking = Unpacking::begin(compression, records, body)?;
    loop {
        if let Some(result) = unpacking.go_on(&mut { usize::MAX }) {
            return result;
        }
    }
}

/// A batch that is decompressed bit by bit: a few bytes can become very many, which is more than
/// one turn may take.
#[derive(Debug)]
pub struct Unpacking {
    records: u16,
    packed: Packed,
    unpacked: Vec<u8>,
}

#[derive(Debug)]
enum Packed {
    Plain(Bytes),
    Gzip(Box<MultiGzDecoder<Cursor<Bytes>>>),
}

impl Unpacking {
    /// A batch as [`unpack`] reads it, of which nothing has been decompressed.
    ///
    /// # Errors
    /// If it is compressed in a way that is not read here.
    pub fn begin(compression: u8, records: u16, body: Bytes) -> Result<Self, SubBatchError> {
        let packed = match compression {
            0 => Packed::Plain(body),
            1 => Packed::Gzip(Box::new(MultiGzDecoder::new(Cursor::new(body)))),
            other => return Err(SubBatchError::Codec(other)),
        };
        Ok(Self {
            records,
            packed,
            unpacked: Vec::new(),
        })
    }

    /// Decompresses as many bytes as `budget` has and takes them off it; what came of the batch
    /// once that is known, and then this is not called again.
    pub fn go_on(&mut self, budget: &mut usize) -> Option<Result<SubBatch, SubBatchError>> {
        let result = match &mut self.packed {
            Packed::Plain(body) => Ok(std::mem::take(body)),
            Packed::Gzip(decoder) => decompress(decoder, &mut self.unpacked, budget)?
                .map(|()| std::mem::take(&mut self.unpacked).into()),
        };
        Some(result.and_then(|bytes| whole(self.records, bytes)))
    }
}

/// Appends so many bytes; what became of it once there are no more.
fn decompress(
    decoder: &mut impl Read,
    bytes: &mut Vec<u8>,
    budget: &mut usize,
) -> Option<Result<(), SubBatchError>> {
    let before = bytes.len();
    let room = (STREAM_SUB_BATCH_BYTES_MAX + 1 - before).min(*budget);
    let read = decoder.take(room as u64).read_to_end(bytes);
    let count = bytes.len() - before;
    *budget -= count;
    match read {
        Err(_) => Some(Err(SubBatchError::Compressed)),
        Ok(_) if bytes.len() > STREAM_SUB_BATCH_BYTES_MAX => Some(Err(SubBatchError::TooLarge)),
        Ok(_) => (count < room).then_some(Ok(())),
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

impl Iterator for SubBatch {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let len = first(&self.rest)?;
        let mut message = self.rest.split_to(HEAD_BYTES + len);
        Some(message.split_off(HEAD_BYTES))
    }
}
