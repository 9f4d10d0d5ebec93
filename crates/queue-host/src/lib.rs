//! The queues of a node without IO: classic queues, replicas of quorum queues, queues that are led
//! elsewhere, views of streams, and the shards that hold them.
//!
//! Who publishes, consumes or declares asks a [`shard::Shard`] by the queue's id, whatever kind the
//! queue is and wherever it lives. A shard is a plain struct that is borrowed for some work; what
//! the work wants done elsewhere (entries of the write-ahead log, events for connections, frames
//! for other nodes, messages for other queues) comes out as [`shard::ShardEffects`].
//!
//! Invariant: nothing here reads a clock, a socket or a file, or starts a thread. Time is an
//! argument.
//! Invariant: nothing here knows the catalogue: what a queue must know of it (its settings, its
//! members, its source) is said when the queue is told to a shard.
//! Invariant: a publisher is told of a place in the log, or of a commit, and never of anything
//! earlier.

pub mod alarms;
pub mod browsing;
mod classic;
mod dead_letters;
pub mod delayed;
pub mod delivery_credit;
pub mod effects;
pub mod events;
pub mod fixed_map;
#[cfg(test)]
mod golden;
pub mod group_log;
mod host_kind;
pub mod log_ids;
mod missing;
pub mod notify;
pub mod outcome;
mod peeked;
pub mod peer_rooms;
pub mod queue_host;
pub mod queue_spec;
pub mod quorum;
mod sampled_queues;
mod serving;
pub mod shard;
mod shard_context;
pub mod stalled_log;
pub mod stream_events;
mod stream_queues;
pub mod stream_reader;
mod stream_view;
pub mod subscriber;
mod sync;
#[cfg(test)]
mod test_chunks;

use leveret_types::encoded as stored;
