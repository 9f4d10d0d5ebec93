//! The state of a leader that hands its stream over to another node.

use crate::batch::Batch;
use crate::host::{PublisherId, SessionId};
use leveret_types::NodeId;
use leveret_types::limits::STREAM_HANDOVER_MS;

/// A publish that is held.
#[derive(Debug)]
pub(crate) struct DelayedPublish {
    pub(crate) session: SessionId,
    pub(crate) publisher: PublisherId,
    pub(crate) batch: Batch,
}

/// That another node is to lead.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) to: NodeId,
    pub(crate) since_ms: u64,
    /// Whether all that was under way is committed, or was waited for long enough.
    pub(crate) is_ready: bool,
    pub(crate) held: Vec<DelayedPublish>,
    pub(crate) held_bytes: usize,
}

impl Handover {
    /// When it goes on though nothing comes.
    pub(crate) fn due_ms(&self) -> u64 {
        let waits_ms = if self.is_ready { 2 } else { 1 } * STREAM_HANDOVER_MS;
        self.since_ms + waits_ms
    }
}
