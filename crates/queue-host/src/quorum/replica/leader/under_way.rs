//! Operations that are not committed yet, from one that waits to an entry in flight.

use crate::quorum::protocol::Operation;
use crate::quorum::replica::entry_payload::Published;
use crate::quorum::replica::header::Header;
use leveret_queue::{Meta, Position, Settle};
use leveret_types::limits::{QUORUM_BATCH_BYTES, QUORUM_BATCH_ITEMS};
use leveret_types::{ConsumerId, NodeId, Now};
use std::collections::VecDeque;

/// What is asked of the queue when all that came before is committed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Get {
        subscription: ConsumerId,
        no_ack: bool,
    },
    Purge {
        request: u64,
    },
    Count {
        request: u64,
    },
    Peek {
        request: u64,
        before: u64,
    },
    /// The message that a peek has found, which is being read.
    ReadPeeked {
        request: u64,
        position: Position,
    },
    /// A message that the consumer was to read from its own node's replica.
    Fetch {
        consumer: ConsumerId,
        position: Position,
    },
    /// A purge is committed.
    Purged {
        request: u64,
        count: u64,
    },
}

/// A request, and whose.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub(super) node: NodeId,
    pub(super) session: u64,
    pub(super) request: Request,
}

impl PendingRequest {
    pub(super) const fn new(node: NodeId, session: u64, request: Request) -> Self {
        Self {
            node,
            session,
            request,
        }
    }
}

/// What has happened since the last entry was proposed.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) header: Header,
    pub(super) came: Vec<(Position, Meta)>,
    /// The messages that came, as they go to the followers.
    pub(super) entry_payload: Vec<u8>,
    /// Those of them that other nodes have published, and keep.
    pub(super) published: Vec<Published>,
    pub(super) pending_requests: Vec<PendingRequest>,
    /// What goes back to the queue once that is committed.
    pub(super) returns: Vec<GivenBack>,
    /// Since when there is something in it, on the monotonic clock, if it is settles alone, for
    /// which nobody waits.
    pub(super) lazy_since_ms: Option<u64>,
    /// Whether somebody waits for something in it.
    pub(super) is_awaited: bool,
}

impl Batch {
    /// Whether it takes no more before it is proposed.
    pub(super) fn is_full(&self) -> bool {
        self.header.weight >= QUORUM_BATCH_BYTES as u64 || self.header.items() >= QUORUM_BATCH_ITEMS
    }
}

/// An entry that is proposed and not committed.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) index: u64,
    /// When it was proposed, on the monotonic clock.
    since_ms: u64,
    pub(super) came: Vec<(Position, Meta)>,
    pub(super) pending_requests: Vec<PendingRequest>,
    pub(super) returns: Vec<GivenBack>,
}

/// What a subscription gives back.
#[derive(Debug)]
pub(super) struct GivenBack {
    /// The subscription's node.
    pub(super) from: NodeId,
    pub(super) settle: Settle,
    /// When: what is known of the messages from then on counts from here.
    pub(super) at: Now,
}

/// Operations that came while none could be taken.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) node: NodeId,
    pub(super) first: u64,
    pub(super) operations: Vec<Operation>,
    /// A subscription that is gone once these are taken: what it has settled before does not
    /// return.
    pub(super) gone: Option<ConsumerId>,
}

impl Waiting {
    /// The number that follows on these.
    const fn next(&self) -> u64 {
        self.first + self.operations.len() as u64
    }
}

/// Operations on their way to being committed.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) batch: Batch,
    in_flight: VecDeque<InFlight>,
    /// Whether what comes back now is known to be so from a committed entry.
    pub(super) is_foreseen: bool,
    /// Memory of a batch that is committed, for the next one.
    spare: Vec<(Position, Meta)>,
    /// Milliseconds from proposal to commit of the entry that was committed last.
    commit_ms: u64,
}

impl UnderWay {
    /// Whether there is nothing before what is asked now.
    pub(super) fn is_clear(&self) -> bool {
        self.waiting.is_empty() && self.batch.header.is_empty() && self.in_flight.is_empty()
    }

    /// Whether operations wait, or an entry is in flight.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.in_flight.is_empty()
    }

    /// The number that follows on what waits of a node, if anything does.
    pub(super) fn next_of(&self, node: NodeId) -> Option<u64> {
        let mut newest_first = self.waiting.iter().rev();
        newest_first.find(|w| w.node == node).map(Waiting::next)
    }

    /// What waits of a node is not taken.
    pub(super) fn forget_node(&mut self, node: NodeId) {
        self.waiting.retain(|waiting| waiting.node != node);
    }

    /// A subscription is gone behind all that waits of its node; false if nothing does.
    pub(super) fn goes_behind(&mut self, node: NodeId, subscription: ConsumerId) -> bool {
        let mut newest_first = self.waiting.iter_mut().rev();
        match newest_first.find(|w| w.node == node) {
            Some(last) if last.gone.is_none() => last.gone = Some(subscription),
            Some(last) => {
                let first = last.next();
                self.waiting.push_back(Waiting {
                    node,
                    first,
                    operations: Vec::new(),
                    gone: Some(subscription),
                });
            }
            None => return false,
        }
        true
    }

    /// Puts what is asked behind all that is under way; gives it back if nothing is.
    pub(super) fn ask_behind(&mut self, pending: PendingRequest) -> Option<PendingRequest> {
        if !self.batch.header.is_empty() || !self.waiting.is_empty() {
            self.batch.pending_requests.push(pending);
            return None;
        }
        match self.in_flight.back_mut() {
            Some(last) => last.pending_requests.push(pending),
            None => return Some(pending),
        }
        None
    }

    /// What goes back to the queue with entries in flight and the batch.
    pub(super) fn returns(&self) -> impl Iterator<Item = &GivenBack> {
        let in_flight = self.in_flight.iter().flat_map(|entry| &entry.returns);
        in_flight.chain(&self.batch.returns)
    }

    /// How many messages are on their way into the queue.
    pub(super) fn came(&self) -> u64 {
        let in_flight: usize = self.in_flight.iter().map(|entry| entry.came.len()).sum();
        (self.batch.came.len() + in_flight) as u64
    }

    /// What is asked behind entries in flight and the batch.
    pub(super) fn pending_requests(&self) -> impl Iterator<Item = &PendingRequest> {
        let in_flight = self
            .in_flight
            .iter()
            .flat_map(|entry| &entry.pending_requests);
        in_flight.chain(&self.batch.pending_requests)
    }

    /// The batch that was closed is the entry at `index`.
    pub(super) fn propose(&mut self, now: Now, index: u64) {
        let spare = std::mem::take(&mut self.spare);
        let batch = &mut self.batch;
        (batch.lazy_since_ms, batch.is_awaited) = (None, false);
        self.in_flight.push_back(InFlight {
            index,
            since_ms: now.monotonic_ms,
            came: std::mem::replace(&mut batch.came, spare),
            pending_requests: std::mem::take(&mut batch.pending_requests),
            returns: std::mem::take(&mut batch.returns),
        });
    }

    /// The oldest entry in flight is committed: gives it.
    pub(super) fn commit(&mut self, now: Now) -> Option<InFlight> {
        let entry = self.in_flight.pop_front()?;
        self.commit_ms = now.monotonic_ms.saturating_sub(entry.since_ms);
        Some(entry)
    }

    /// Keeps the memory of a batch that is committed, unless it is uncommonly large.
    pub(super) fn keep(&mut self, came: Vec<(Position, Meta)>) {
        if came.capacity() <= QUORUM_BATCH_ITEMS {
            self.spare = came;
        }
    }

    /// Milliseconds from proposal to commit of the entry that was committed last; 0 before the
    /// first.
    pub(super) const fn commit_ms(&self) -> u64 {
        self.commit_ms
    }
}
