//! Streams: append-only logs that many read by offset and nobody settles.
//!
//! What is published becomes entries of a [`chunk`], in the format of the RabbitMQ stream protocol:
//! a chunk is what is written to disk and what is sent to clients. [`host`] has what a session of
//! any protocol says to the streams of a node, and what it hears.
//!
//! Invariant: this crate reads no clock, no file and no socket.
//! Invariant: nothing is confirmed to a publisher or shown to a reader before
//! [`Stream::commit`] says that it is durable.
//! Invariant: an entry is never looked into: what a message is, its publishers and readers know.
//! Invariant: bytes from outside are checked before they are counted on: a malformed batch or chunk
//! is an error, never a panic, and nothing is allocated by a claimed length.

mod active;
pub mod batch;
pub mod bloom;
pub mod chunk;
mod chunk_data;
mod early;
pub mod host;
pub mod machine;
mod offsets;
mod rates;
pub mod reader;
pub mod replica;
pub mod segments;
pub mod settings;
mod tail;
pub mod tracking;
pub mod values;

pub use batch::{Batch, BatchBuilder, BatchError, BatchForm, SharedBatchBuilder};
pub use bloom::Filter;
pub use chunk::{ChunkError, ChunkHeader, ChunkKind, SharedChunk};
pub use early::{EarlyBytes, EarlyCommand, EarlyCommands};
pub use host::{
    Command, Event, Generation, MemberId, OffsetSpec, PublisherId, ReaderId, Reference, Refusal,
    RequestId, SessionId, StoredBy, StreamStats,
};
pub use machine::{
    Effect, Events, GroupOffset, Recovered, RestoredReplica, RetentionAlarm, Seek, Stream,
};
pub use reader::{Key, Loaded};
pub use replica::{
    Epoch, LogPosition, ReplicaEvent, ReplicaMessage, ReplicaOrder, ReplicaOrigin, ReplicaReport,
    ReplicaRole, ReplicaState,
};
pub use segments::Segment;
pub use settings::{Flush, SettingsError, StreamSettings, age_ms, offset_spec, retention_groups};
pub use values::{EntryValues, value_hash};
