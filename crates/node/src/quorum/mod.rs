//! Queues that live on several nodes, or on another: any node serves any queue.
//!
//! Each node that uses such a queue has a *proxy* for it, which keeps its clients' operations until
//! the queue's leader says that they are committed, and knows what its consumers hold. The leader
//! may be in the same shard, or on another node: what is said is the same ([`link`]).

pub mod link;
