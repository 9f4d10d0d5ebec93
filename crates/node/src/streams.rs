//! Streams, as far as the node's core has to do with them: which there are on this node, and what
//! queues can do that they cannot. What they hold is with the streams' own thread.

use crate::env::Env;
pub use crate::stream_events::{
    StreamChange, StreamNews, StreamSessions, connection_of, session_of,
};
pub use crate::stream_relay::{
    ClientAddresses, Effect as RelayEffect, Guests, STREAM_LINK, Said, StreamRelay, command_bytes,
    fuzz as fuzz_frame, goes_with_publishes, published_bytes,
};
use leveret_metadata::{Catalogue, QueueKind, QueueRecord, StreamSettings};
pub use leveret_stream_session::Settings;
use leveret_types::{ProtocolError, QueueId, ReplyCode};

/// What this node runs of a stream: nothing, where it lives on another node of the cluster.
#[must_use]
pub fn settings_here<E: Env>(record: &QueueRecord, env: &E) -> Option<Box<StreamSettings>> {
    let is_here = record.home() == env.node_id();
    record.settings().stream.clone().filter(|_| is_here)
}

/// Lets the streams of this node follow a change of the catalogue; false if it is of another queue.
pub(crate) fn follow<E: Env>(
    record: &QueueRecord,
    change: impl FnOnce(QueueId, Box<StreamSettings>) -> StreamChange,
    env: &E,
) -> bool {
    if record.kind() != QueueKind::Stream {
        return false;
    }
    let settings = record.settings().stream.clone();
    match change(record.id(), settings.unwrap_or_default()) {
        StreamChange::Begun(..) | StreamChange::Changed(..)
            if settings_here(record, env).is_none() =>
        {
            env.follow_stream(StreamChange::Elsewhere(record.id(), record.home()));
        }
        change => env.follow_stream(change),
    }
    true
}

/// Refuses what streams do not do for AMQP 0-9-1 clients.
///
/// # Errors
/// If the queue is a stream.
pub(crate) fn refuse(
    catalogue: &Catalogue,
    queue: QueueId,
    what: &str,
) -> Result<(), ProtocolError> {
    let record = catalogue.queue(queue).filter(|_| queue.is_stream());
    record.map_or(Ok(()), |record| {
        let text = format!(
            "{what} not supported by stream queues {}",
            record.resource()
        );
        Err(ProtocolError::connection(ReplyCode::NotImplemented, text))
    })
}

/// Refuses a publish of which a stream is a target.
///
/// # Errors
/// If one is.
pub(crate) fn refuse_publish(
    catalogue: &Catalogue,
    targets: &[QueueId],
) -> Result<(), ProtocolError> {
    let mut streams = targets.iter().filter(|queue| queue.is_stream());
    let refuse = |queue: &QueueId| refuse(catalogue, *queue, "basic.publish");
    streams.try_for_each(refuse)
}
