//! Streams as queues of AMQP 0-9-1: where they are reached from here, how they stand, and what is
//! published to them without a client that waits for it.

use crate::connection::Run;
use crate::env::{Env, QueueAnswer};
use crate::quorum::Asker;
use crate::quorum::link::QueueCounts;
use crate::streams::settings_here;
use leveret_message::{filter_value, to_entry};
use leveret_metadata::Catalogue;
use leveret_stream::{BatchBuilder, Command, PublisherId, RequestId, StreamStats};
use leveret_types::{ConnectionId, Message, ProtocolError, QueueId, ReplyCode};

/// In whose name the broker itself publishes: no connection has this number.
const NOBODY: ConnectionId = ConnectionId(u64::MAX);

/// Refuses what only the node can do that has the stream.
pub(crate) fn elsewhere(what: &str, resource: &str) -> ProtocolError {
    let text = format!(
        "{what} on stream {resource} is only possible at the node of the cluster that has the stream"
    );
    ProtocolError::connection(ReplyCode::NotImplemented, text)
}

/// Refuses a publish of which a stream on another node is a target.
///
/// # Errors
/// If one is.
pub(crate) fn refuse_elsewhere<E: Env>(
    catalogue: &Catalogue,
    targets: &[QueueId],
    env: &E,
) -> Result<(), ProtocolError> {
    let streams = targets.iter().filter(|queue| queue.is_stream());
    for record in streams.filter_map(|stream| catalogue.queue(*stream)) {
        if settings_here(record, env).is_none() {
            let resource = record.resource().to_string();
            return Err(elsewhere("basic.publish", &resource).at(60, 40));
        }
    }
    Ok(())
}

/// Publishes a message that the broker itself sends on: a dead letter, a delayed message. False if
/// the stream takes none now, or is on another node; when it is on disk nobody hears.
pub(crate) fn publish_for_nobody<E: Env>(
    stream: QueueId,
    message: &Message,
    run: &mut Run<'_, E>,
) -> bool {
    let env = run.env;
    let record = run.catalogue().queue(stream);
    let is_here = record.is_some_and(|record| settings_here(record, env).is_some());
    let is_taken = is_here && try_publish(stream, message, env).is_ok();
    if !is_taken {
        tracing::warn!(
            "stream {stream} takes no messages from here now: a dead-lettered or delayed one is not \
             published to it"
        );
    }
    is_taken
}

fn try_publish<E: Env>(stream: QueueId, message: &Message, env: &E) -> Result<(), Box<Command>> {
    let (mut entry, mut batch) = (Vec::new(), BatchBuilder::new());
    to_entry(&message.parts(), &mut entry);
    let is_pushed = batch.push(1, filter_value(message.properties()), &entry);
    assert!(is_pushed, "a message and a filter value are bounded");
    let publisher = PublisherId(0);
    // One that is there already stays.
    let declare = Command::DeclarePublisher {
        request: RequestId(0),
        stream,
        publisher,
        reference: None,
    };
    let publish = Command::Publish {
        stream,
        publisher,
        batch: batch.take(),
    };
    env.say_to_streams(NOBODY, declare)?;
    env.say_to_streams(NOBODY, publish)
}

/// Asks a stream how it stands; nothing if the asker will hear.
pub(crate) fn count<E: Env>(stream: QueueId, asker: Asker, env: &E) -> Option<QueueAnswer> {
    let unknown = Some(QueueAnswer::Counted(QueueCounts::default()));
    let Asker::Connection(connection) = asker else {
        return unknown;
    };
    let is_here = {
        let catalogue = env.catalogue();
        let record = catalogue.queue(stream);
        record.is_some_and(|record| settings_here(record, env).is_some())
    };
    let stats = Command::Stats {
        request: RequestId(stream.0),
        stream,
    };
    let is_asked = is_here && env.say_to_streams(connection, stats).is_ok();
    if is_asked { None } else { unknown }
}

/// How a stream stands, in a queue's words. As in RabbitMQ, readers do not count as consumers.
pub(crate) fn queue_counts(stats: StreamStats) -> QueueCounts {
    let ready = match (stats.first_chunk, stats.committed_offset) {
        (Some(first), Some(last)) => (last + 1).saturating_sub(first),
        _ => 0,
    };
    QueueCounts {
        ready,
        ..QueueCounts::default()
    }
}
