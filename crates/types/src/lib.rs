//! The words that every other crate of Leveret uses: identifiers, limits, time, messages, tables,
//! errors.
//!
//! Invariant: this crate depends on no other crate of Leveret.
//! Invariant: this crate never reads a clock, a file or a socket. Time arrives as [`Now`].
//! Invariant: nothing here is shared by threads but the large buffers that nobody uses ([`pool`]),
//! and the count of what the readers of streams hold ([`reader_memory`]).
//! Invariant: every bound that a user can meet is a constant in [`limits`], or a key of the
//! configuration with its default there.

/// The version of RabbitMQ whose behaviour clients may count on: they test for it, and for what its
/// streams have, such as filters (3.13).
pub const RABBITMQ_VERSION: &str = "4.2.0";

pub mod blocks;
pub mod descriptors;
pub mod encoded;
pub mod error;
pub mod id;
pub mod latency;
pub mod limits;
pub mod message;
pub mod out;
pub mod pool;
mod queue_kind;
mod raft_counts;
pub mod ranges;
pub mod reader_memory;
pub mod settings;
pub mod table;
pub mod time;
pub mod unfinished;

pub use error::{ProtocolError, ReplyCode, Scope};
pub use id::{ChannelId, ConnectionId, ConsumerId, LogId, NodeId, QueueId, ReplicaId, ShardId};
pub use latency::{Began, LATENCY_SLOTS_MS, Latencies, LatencyCounts};
pub use message::{MESSAGE_SIZES, Message, MessageFormat, MessageParts};
pub use out::OutBuffer;
pub use queue_kind::QueueKind;
pub use raft_counts::RaftCounts;
pub use ranges::RangeSet;
pub use reader_memory::ReaderMemory;
pub use settings::{DelayedRetry, Overflow, Retried};
pub use table::{FieldTable, FieldValue, entry_weight};
pub use time::Now;
