//! That a stream needs another leader, as one node says it to another.

use leveret_stream::Epoch;
use leveret_types::QueueId;

/// What a node says of a stream that needs another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionRequest {
    /// The stream.
    pub stream: QueueId,
    /// The newest epoch that was prepared there.
    pub promised: Epoch,
    /// It leads, and another one should.
    pub wants_other_leader: bool,
}
