//! Streams as queues of AMQP 0-9-1: where they are reached from here, how they stand, and what is
//! published to them without a client that waits for it.

use crate::env::{Env, QueueAnswer};
use crate::quorum::Asker;
use crate::quorum::link::QueueCounts;
use crate::run::Run;
use leveret_message::{as_amqp091, entry_of, filter_value};
use leveret_stream::{BatchBuilder, Command, PublisherId, RequestId, StreamStats};
use leveret_types::{ConnectionId, Message, QueueId};

/// In whose name the broker itself publishes: no connection has this number.
const NOBODY: ConnectionId = ConnectionId(u64::MAX);

/// Publishes a message that the broker itself sends on: a dead letter, a delayed message. False if
/// the stream takes none now; when it is on disk nobody hears.
pub(crate) fn publish_for_nobody<E: Env>(
    stream: QueueId,
    message: &Message,
    run: &mut Run<'_, E>,
) -> bool {
    let is_taken = try_publish(stream, message, run.env).is_ok();
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
    entry_of(message, &mut entry);
    let converted = as_amqp091(message);
    let filter = filter_value(converted.as_ref().unwrap_or(message).properties());
    let is_pushed = batch.push(1, filter, &entry);
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
    let stats = Command::Stats {
        request: RequestId(stream.0),
        stream,
    };
    let is_asked = env.say_to_streams(connection, stats).is_ok();
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
