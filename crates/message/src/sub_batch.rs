//! Sub-entry batches: several messages that a stream client has packed into one entry, compressed
//! or not.

use bytes::Bytes;
use leveret_types::limits::STREAM_SUB_BATCH_BYTES_MAX;
use std::io::Read;

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
        1 => decompressed(flate2::read::MultiGzDecoder::new(&body[..]))?,
        other => return Err(SubBatchError::Codec(other)),
    };
    let (mut count, mut rest) = (0_u32, &bytes[..]);
    while !rest.is_empty() {
        let len = first(rest).ok_or(SubBatchError::Messages)?;
        rest = &rest[HEAD_BYTES + len..];
        count += 1;
    }
    if count != u32::from(records) {
        return Err(SubBatchError::Messages);
    }
    Ok(SubBatch { rest: bytes })
}

fn decompressed(decoder: impl Read) -> Result<Bytes, SubBatchError> {
    let mut bytes = Vec::new();
    let most = STREAM_SUB_BATCH_BYTES_MAX as u64 + 1;
    let read = decoder.take(most).read_to_end(&mut bytes);
    read.map_err(|_| SubBatchError::Compressed)?;
    if bytes.len() > STREAM_SUB_BATCH_BYTES_MAX {
        return Err(SubBatchError::TooLarge);
    }
    Ok(bytes.into())
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
