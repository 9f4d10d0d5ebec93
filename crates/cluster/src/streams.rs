//! Streams, as far as the node's core has to do with them: which there are on this node, and what
//! queues can do that they cannot. What they hold is with the streams' own thread.

use crate::env::Env;
pub use crate::stream_changes::{ReplicaHere, StreamChange};
pub use crate::stream_relay::{
    ClientAddresses, Effect as RelayEffect, PeerLink, STREAM_LINK, Said, StreamLocation,
    StreamRelay, command_bytes, copied_frame, election_request_frame, fuzz, goes_with_publishes,
    has_room, move_frame, published_bytes, replica_frame,
};
use leveret_metadata::{Catalogue, QueueKind, QueueRecord, StreamSettings};
pub use leveret_queue_host::stream_events::StreamNews;
use leveret_stream::{Epoch, ReplicaOrder, ReplicaOrigin};
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
    let settings = record.settings().stream.clone().unwrap_or_default();
    let change = change(record.id(), settings);
    let origin = match change {
        StreamChange::Begun(..) => ReplicaOrigin::NewStream,
        _ => ReplicaOrigin::NewReplica,
    };
    tell(record, change, origin, env);
    true
}

/// Lets the streams of this node know of a stream that the catalogue has when the node starts.
pub fn found<E: Env>(record: &QueueRecord, env: &E) {
    let settings = record.settings().stream.clone().unwrap_or_default();
    tell(
        record,
        StreamChange::Begun(record.id(), settings),
        ReplicaOrigin::Before,
        env,
    );
}

/// Whether this node has files of a stream.
#[must_use]
pub fn has_files<E: Env>(record: &QueueRecord, env: &E) -> bool {
    settings_here(record, env).is_some()
        || replica_here(record, ReplicaOrigin::Before, env).is_some()
}

fn tell<E: Env>(record: &QueueRecord, change: StreamChange, origin: ReplicaOrigin, env: &E) {
    env.follow_stream(match change {
        StreamChange::Deleted(_) => change,
        _ => match replica_here(record, origin, env) {
            Some(here) => StreamChange::Replica(Box::new(here)),
            None if settings_here(record, env).is_some() => change,
            None => StreamChange::Elsewhere(record.id(), record.home()),
        },
    });
}

/// The replica of a stream that this node has, if it has one and the stream is replicated.
/// `origin` says how the node comes to run it, if it does not yet.
#[must_use]
pub fn replica_here<E: Env>(
    record: &QueueRecord,
    origin: ReplicaOrigin,
    env: &E,
) -> Option<ReplicaHere> {
    let own = env.node_id();
    let members: Vec<_> = record.members().iter().map(|m| m.node()).collect();
    if record.epoch() == 0 || !members.contains(&own) {
        return None;
    }
    let (epoch, leader) = (Epoch(record.epoch()), record.home());
    Some(ReplicaHere {
        stream: record.id(),
        settings: record.settings().stream.clone()?,
        node: own,
        leader,
        order: match leader == own {
            true => ReplicaOrder::Lead { epoch, members },
            false => ReplicaOrder::Follow { epoch, leader },
        },
        origin,
    })
}

/// Refuses what streams do not do for AMQP 0-9-1 clients.
///
/// # Errors
/// If the queue is a stream.
pub fn refuse(catalogue: &Catalogue, queue: QueueId, what: &str) -> Result<(), ProtocolError> {
    let record = catalogue.queue(queue).filter(|_| queue.is_stream());
    record.map_or(Ok(()), |record| {
        let text = format!(
            "{what} not supported by stream queues {}",
            record.resource()
        );
        Err(ProtocolError::connection(ReplyCode::NotImplemented, text))
    })
}

fn refuse_views(catalogue: &Catalogue, queues: &[QueueId]) -> Result<(), ProtocolError> {
    let source = |id: &QueueId| {
        let record = catalogue.queue(*id).filter(|_| !id.is_stream())?;
        Some((record, record.settings().source.as_deref()?))
    };
    match queues.iter().find_map(source) {
        None => Ok(()),
        Some((record, stream)) => {
            let text = format!(
                "{} is a view of the stream '{stream}': publish to the stream",
                record.resource()
            );
            Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
        }
    }
}

/// Takes views out of where a message of the broker's own goes: they take none. Says whether there
/// were any.
pub fn leave_views_out(catalogue: &Catalogue, queues: &mut Vec<QueueId>) -> bool {
    let before = queues.len();
    let is_view = |id: QueueId| {
        let record = catalogue.queue(id).filter(|_| !id.is_stream());
        record.is_some_and(|record| record.settings().source.is_some())
    };
    queues.retain(|id| !is_view(*id));
    queues.len() < before
}

/// Refuses a publish that reached queues by their names, over the default exchange, to what takes
/// none: views, to which nothing is bound, and drained partitions of super streams, past which
/// routing keys are led. What is refused is not lost in silence.
///
/// # Errors
/// If one of the queues is one.
pub fn refuse_by_name(
    catalogue: &Catalogue,
    is_by_name: bool,
    queues: &[QueueId],
) -> Result<(), ProtocolError> {
    if !is_by_name {
        return Ok(());
    }
    refuse_views(catalogue, queues)?;
    let streams = queues.iter().filter(|id| id.is_stream());
    let mut records = streams.filter_map(|id| catalogue.queue(*id));
    let is_drained = |record: &&QueueRecord| {
        let vhost = catalogue.vhost(record.vhost());
        vhost.is_some_and(|vhost| vhost.router().is_drained(record.name()))
    };
    match records.find(is_drained) {
        None => Ok(()),
        Some(record) => {
            let text = format!(
                "{} is a drained partition of a super stream: publish to the super stream",
                record.resource()
            );
            Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
        }
    }
}
