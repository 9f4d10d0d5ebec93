//! Which queues a message goes to: exchanges, bindings, and the tables that answer that question
//! fast.
//!
//! A [`Router`] holds the exchanges and bindings of one virtual host. It knows nothing of
//! durability, permissions or policies: that is the catalogue's affair, which keeps the router in
//! step and asks it what exists.
//!
//! Invariant: routing reads the router and writes only the caller's [`Scratch`] and output; once
//! those are warm it allocates nothing. What it keeps there grows with the widest way, not with the
//! number of queues: each publishing connection has one.
//! Invariant: a queue appears at most once in the output of one call, however many bindings,
//! exchanges and keys lead to it.
//! Invariant: cycles of bindings end: an exchange is visited at most once per call.
//! Invariant: what a message's way costs is counted, and one that costs more than
//! [`leveret_types::limits::ROUTE_WORK_MAX`] goes nowhere.
//! Invariant: where keys and names lie in tables hangs on a seed that no client knows; nothing that
//! routing answers does.
//! Invariant: the work of one topic lookup is bounded by the words of the key times the nodes that
//! its prefixes reach.
//! Invariant: a headers exchange compares a message with the bindings that want a header that it
//! has, not with all of them.
//! Invariant: a consistent-hash exchange compares a key with some dozens of candidates a level, and
//! has as many levels as the logarithm of their number to the base of 32.
//! Invariant: where a hashing exchange sends a key depends on the set of its bindings alone, not on
//! the order in which they were made.
//! Invariant: where hashes lead to a super stream's partitions, a key reaches the one that clients
//! of the stream protocol choose among what [`Router::partitions`] lists.
//! Invariant: this crate never reads a clock or a source of randomness; random exchanges draw from
//! the state in [`Scratch`].

mod arguments;
pub mod fuzz;
mod hash;
mod hash_tree;
mod headers;
mod headers_index;
mod kind;
mod ordered;
mod partitions;
mod route;
mod router;
mod slab;
mod table;
mod targets;
mod topic;
mod unlink;
mod visited;
mod work;

pub use headers::{HeadersMatcher, MatchMode};
pub use kind::{BindError, HashOn, Kind, KindError, is_super_stream};
pub use partitions::{
    PARTITION_DRAINED, PARTITION_ORDER, Partition, PartitionRouting, SUPER_STREAM,
    SUPER_STREAM_ROUTING, is_drained, partition_hash, partition_order,
};
pub use route::{MessageProperties, RouteError, Scratch};
pub use router::{Binding, Destination, Exchange, ExchangeSettings, Router, Unbound};
pub use topic::topic_match;
