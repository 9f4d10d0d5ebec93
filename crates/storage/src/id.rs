//! Names of what the engine numbers.

use leveret_types::ShardId;
use leveret_types::limits::SHARDS_MAX;
use std::fmt;

const _: () = assert!(SHARDS_MAX == 1 << (u64::BITS - SHARD_SHIFT));

const SHARD_SHIFT: u32 = 56;
const VOLATILE: u64 = 1 << 55;
const SEQUENCE: u64 = VOLATILE - 1;

/// A message body within the store: eight bits of shard, one bit that says volatile, 55 bits of
/// sequence. Never used again, but that volatile bodies are counted anew after a restart, which
/// none of them survives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BodyId(u64);

impl BodyId {
    pub(crate) fn new(shard: u8, volatile: bool, sequence: u64) -> Self {
        assert!(
            sequence <= SEQUENCE,
            "body sequence {sequence} exceeds its bits"
        );
        let flag = if volatile { VOLATILE } else { 0 };
        Self(u64::from(shard) << SHARD_SHIFT | flag | sequence)
    }

    /// The shard that holds it.
    #[must_use]
    pub fn shard(self) -> ShardId {
        ShardId(u16::from((self.0 >> SHARD_SHIFT) as u8))
    }

    /// Whether it is never given to the write-ahead log.
    #[must_use]
    pub fn is_volatile(self) -> bool {
        self.0 & VOLATILE != 0
    }

    pub(crate) fn sequence(self) -> u64 {
        self.0 & SEQUENCE
    }
}

impl fmt::Debug for BodyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.is_volatile() {
            "volatile"
        } else {
            "durable"
        };
        write!(
            f,
            "{class} body {} of shard {}",
            self.sequence(),
            self.shard()
        )
    }
}

/// A durable body that has a chunk of the write-ahead log already: another shard that is given it
/// too does so with [`crate::ShardLogs::body_again`], and it is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBody {
    pub(crate) shard: u8,
    pub(crate) seq: ChunkSeq,
    /// Where in the chunk, counted in bodies.
    pub(crate) position: u32,
    pub(crate) len: u32,
}

/// Number of a chunk within its shard, from 1 on. What was appended while chunk *n* gathered is
/// durable once the shard is durable through *n*.
pub type ChunkSeq = u64;

/// One use of a file by the write-ahead log. Ascends over the life of a store; a recycled file gets
/// a new one.
pub type Generation = u64;

/// Number of a segment file. Ascends over the life of a store.
pub type FileId = u64;

/// Whether a body must survive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Goes to the write-ahead log.
    Durable,
    /// Stays in memory, and goes to a segment file when the cache overflows. Gone after a restart.
    Volatile,
}

/// Whether a log must survive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The log and its entries with durable bodies survive.
    Durable,
    /// Nothing about the log is ever given to the write-ahead log. Gone after a restart, whatever
    /// its entries' bodies.
    Volatile,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_id_keeps_its_parts() {
        for shard in [0, 1, 255] {
            for volatile in [false, true] {
                for sequence in [0, 1, SEQUENCE] {
                    let id = BodyId::new(shard, volatile, sequence);
                    assert_eq!(id.shard(), ShardId(u16::from(shard)));
                    assert_eq!((id.is_volatile(), id.sequence()), (volatile, sequence));
                }
            }
        }
    }
}
