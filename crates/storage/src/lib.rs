//! A store of many logs over one write-ahead log.
//!
//! Made for a message broker: entries are appended, wait a little or for long, and are settled one
//! by one or in ranges. What is settled soon is written once, to the write-ahead log; what waits
//! goes to segment files and costs no memory there; what must not survive the process is not
//! written at all unless it overflows the cache. See `docs/adr/0002-storage.md` for the decisions
//! behind it.
//!
//! [`Store`] runs all of it in one thread. Its parts are plain structs that whoever embeds the
//! store runs on threads of their own choice:
//! - [`ShardLogs`], one per shard: bodies, logs, what lives. No IO.
//! - [`WalWriter`]: takes [`SealedChunk`]s of all shards; one write and one sync for all.
//!
//! Invariant: nothing but a [`Disk`] is ever asked for IO; no clock, no thread, no randomness.
//! Invariant: a body is written to the write-ahead log once, however many logs it is appended to;
//! of several shards, once for each of the log's files that they have it in.
//! Invariant: what was reported durable is found again after a crash, or reported as damaged: never
//! silently missing.
//! Invariant: every byte read from disk is covered by a checksum that names the place where it
//! belongs.

pub mod disk;
pub mod inspect;
pub mod rebuild;

mod bytes_io;
mod checkpoint;
mod chunk;
mod closed;
mod error;
mod flush;
mod folders;
#[doc(hidden)]
pub mod fuzz;
mod id;
mod loaded;
mod log;
mod open_files;
mod read_buffer;
mod reader;
mod record;
mod recover;
mod renew;
mod salvage;
mod segment;
mod shard;
mod store;
mod stream;
mod wal;

pub use checkpoint::{CheckpointError, CheckpointPart, CheckpointWriter, Released};
pub use chunk::{ChunkLocation, SealedChunk};
pub use disk::{Disk, DiskFile, MemoryDisk, MemoryDiskCounts};
pub use error::{Fatal, OpenError, WalError};
pub use flush::{CompactionPlan, FlushPlan};
pub use folders::Folders;
pub use id::{BodyId, ChunkSeq, Durability, FileId, Generation, LogKind, SharedBody};
pub use loaded::{Loaded, ReadRequest};
pub use log::Damage;
pub use reader::Reader;
pub use recover::{LogSummary, Options, Recovered, RecoveryReport, StoreLock, recover};
pub use segment::writer::{Pace, SegmentError, SegmentWriter, Written};
pub use shard::{LogStats, Read, ShardLogs, ShardStats, Urgency};
pub use store::{Store, StoreError};
pub use stream::{
    AsideFile, AsideWhat, RecoveredStream, SetAside, StreamFiles, StreamRead, StreamReadError,
    StreamSync, StreamSynced, files_set_aside,
};
pub use wal::format::Position;
pub use wal::pool::{PrepareError, PreparedFile, WalPool};
pub use wal::writer::{WalOutcome, WalWriter};
