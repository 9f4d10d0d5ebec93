//! What the connections of all IO threads have in common.

use leveret_node::NodeCounters;
use leveret_node::history::History;
use leveret_node::registry::Registry;
use leveret_node::reply_to::Replies;
use leveret_types::{ConsumerId, NodeId};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bits of a consumer's id that a node counts up; those above are the node's number.
const CONSUMER_BITS: u32 = 40;

/// See the module's description.
pub(super) struct Clients {
    /// Connections that are open.
    open: AtomicUsize,
    next_consumer: AtomicU64,
    pub(super) counters: NodeCounters,
    pub(super) registry: Registry,
    pub(super) replies: Replies,
    pub(super) history: History,
}

impl Clients {
    /// None yet; `are_traced` says whether any virtual host is.
    pub(super) fn new(node: NodeId, are_traced: bool) -> Self {
        let registry = Registry::default();
        registry.set_traces(are_traced);
        Self {
            open: AtomicUsize::new(0),
            // Unique among all nodes: the node is part of it.
            next_consumer: AtomicU64::new(u64::from(node.0) << CONSUMER_BITS | 1),
            counters: NodeCounters::default(),
            registry,
            replies: Replies::default(),
            history: History::default(),
        }
    }

    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.counters
            .connections_opened
            .fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.counters
            .connections_closed
            .fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A consumer's id that no node has given yet.
    pub(super) fn consumer_id(&self) -> ConsumerId {
        ConsumerId(self.next_consumer.fetch_add(1, Ordering::Relaxed))
    }
}
