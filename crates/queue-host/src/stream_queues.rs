//! Streams as queues of this node's shards: what is done to them by whoever has no session of its
//! own with them. Dead letters, delayed messages, those of operators and the broker's own are
//! published here, and what a declaration answers is asked here.
//!
//! A stream is neither in a shard nor led by one: as for a queue that is led elsewhere, a verb is a
//! command, and what the stream says is the answer. Clients that publish to a stream, or read it,
//! are sessions of their own, whose messages are converted by their own threads under no lock.
//!
//! Invariant: who waits for a publish hears of it once: when the stream has it, or that it may not.

use crate::delivery_credit::ConsumerCredit;
use crate::effects::ShardEffects;
use crate::events::{QueueAnswer, QueueEvent};
use crate::fixed_map::FixedMap;
use crate::notify::Notify;
use crate::outcome::{Bodies, Enqueued, GetOutcome};
use crate::queue_host::{Asker, Get, HostContext, QueueHost, When};
use crate::quorum::protocol::QueueCounts;
use crate::stream_events::StreamNews;
use crate::subscriber::Subscriber;
use leveret_message::{as_amqp091, entry_of, filter_value};
use leveret_queue::{AttachError, Consumer, Settle};
use leveret_stream::{
    BatchBuilder, Command, Event, PublisherId, RequestId, SessionId, StreamStats,
};
use leveret_types::limits::STREAM_UNCONFIRMED_ENTRIES_MAX;
use leveret_types::{ConnectionId, ConsumerId, Message, QueueId};
use std::collections::BTreeMap;

/// The one publisher of a shard at a stream.
const PUBLISHER: PublisherId = PublisherId(0);

/// The streams to which something of a shard goes.
#[derive(Debug, Default)]
pub(crate) struct StreamQueues {
    /// What was published and is not answered, by its number. A stream is in here while there is
    /// such.
    unanswered: FixedMap<QueueId, BTreeMap<u64, Notify>>,
    /// Who asks how a stream stands.
    askers: BTreeMap<u64, (QueueId, ConnectionId)>,
    /// Publishes and questions so far.
    numbers: u64,
}

impl StreamQueues {
    /// A stream, to have something done to it.
    pub(crate) const fn at(&mut self, stream: QueueId) -> StreamQueue<'_> {
        StreamQueue { stream, of: self }
    }

    const fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A stream says something.
    pub(crate) fn hear(&mut self, stream: QueueId, news: StreamNews, effects: &mut ShardEffects) {
        let StreamNews::Event(event) = news else {
            return;
        };
        match event {
            Event::Confirmed { ids, .. } => {
                for id in ids {
                    self.answered(stream, id).committed(stream, id, effects);
                }
            }
            Event::Refused { ids, refusal, .. } => {
                let count = ids.len();
                tracing::warn!(
                    "stream {stream} refused {count} messages of no connection: {refusal}"
                );
                for id in ids {
                    self.answered(stream, id).refused(stream, id, effects);
                }
            }
            // As of every queue that is deleted, what was published to it has been taken.
            Event::Gone { .. } => {
                for (id, notify) in self.unanswered.remove(&stream).unwrap_or_default() {
                    notify.committed(stream, id, effects);
                }
                self.answer_all(stream, effects);
            }
            // What it has not answered may be stored or not.
            Event::Lost { .. } => {
                let lost = self.unanswered.remove(&stream).unwrap_or_default();
                if !lost.is_empty() {
                    let count = lost.len();
                    tracing::warn!(
                        "stream {stream} has no room, or its node is not reached: {count} \
                         messages of no connection may not be in it"
                    );
                }
                for (id, notify) in lost {
                    notify.refused(stream, id, effects);
                }
                self.answer_all(stream, effects);
            }
            Event::Stats { request, result } => {
                if let Some((_, connection)) = self.askers.remove(&request.0) {
                    let counts = queue_counts(result.unwrap_or_default());
                    answer(stream, connection, counts, effects);
                }
            }
            // The rest is not asked for.
            _ => {}
        }
    }

    fn answered(&mut self, stream: QueueId, number: u64) -> Notify {
        let Some(unanswered) = self.unanswered.get_mut(&stream) else {
            return Notify::Nobody;
        };
        let notify = unanswered.remove(&number);
        if unanswered.is_empty() {
            self.unanswered.remove(&stream);
        }
        notify.unwrap_or(Notify::Nobody)
    }

    /// Nobody can say how a stream stands.
    fn answer_all(&mut self, stream: QueueId, effects: &mut ShardEffects) {
        let waiting = self.askers.extract_if(.., |_, (of, _)| *of == stream);
        for (_, (_, connection)) in waiting {
            answer(stream, connection, QueueCounts::default(), effects);
        }
    }
}

fn answer(
    queue: QueueId,
    connection: ConnectionId,
    counts: QueueCounts,
    effects: &mut ShardEffects,
) {
    let answer = QueueAnswer::Counted(counts);
    let answered = QueueEvent::Answered { queue, answer };
    effects.posts.push((connection, answered));
}

/// How a stream stands, in a queue's words. As in RabbitMQ, readers do not count as consumers.
fn queue_counts(stats: StreamStats) -> QueueCounts {
    let ready = match (stats.first_chunk, stats.committed_offset) {
        (Some(first), Some(last)) => (last + 1).saturating_sub(first),
        _ => 0,
    };
    QueueCounts {
        ready,
        ..QueueCounts::default()
    }
}

/// One stream: see the module's description.
pub(crate) struct StreamQueue<'a> {
    stream: QueueId,
    of: &'a mut StreamQueues,
}

impl StreamQueue<'_> {
    fn say(&self, context: &mut HostContext<'_>, command: Command) {
        let session = SessionId::Queue(self.stream);
        context.effects.streams.push((session, command));
    }
}

impl QueueHost for StreamQueue<'_> {
    fn publish(
        &mut self,
        context: &mut HostContext<'_>,
        message: &Message,
        _bodies: &mut Bodies,
        notify: &Notify,
    ) -> Enqueued {
        let sequence = self.of.number();
        let unanswered = self.of.unanswered.entry(self.stream).or_default();
        if unanswered.len() >= STREAM_UNCONFIRMED_ENTRIES_MAX {
            return Enqueued::Rejected;
        }
        unanswered.insert(sequence, notify.one_more());
        let (mut entry, mut batch) = (Vec::new(), BatchBuilder::new());
        entry_of(message, &mut entry);
        let converted = as_amqp091(message);
        let filter = filter_value(converted.as_ref().unwrap_or(message).properties());
        let is_pushed = batch.push(sequence, filter, &entry);
        assert!(is_pushed, "a message and a filter value are bounded");
        // One that is there already stays.
        let declare = Command::DeclarePublisher {
            request: RequestId(0),
            stream: self.stream,
            publisher: PUBLISHER,
            reference: None,
        };
        let publish = Command::Publish {
            stream: self.stream,
            publisher: PUBLISHER,
            batch: batch.take(),
        };
        self.say(context, declare);
        self.say(context, publish);
        let full = false;
        Enqueued::Kept { sequence, full }
    }

    /// What is read from a stream is settled with the session that reads it.
    fn settle(&mut self, _context: &mut HostContext<'_>, _settle: Settle) -> u64 {
        0
    }

    /// Who reads a stream is a session of its own.
    fn attach(
        &mut self,
        _context: &mut HostContext<'_>,
        _consumer: Consumer,
        _subscriber: Subscriber,
        _credit: ConsumerCredit,
    ) -> Result<When, Option<AttachError>> {
        Err(None)
    }

    fn cancel(
        &mut self,
        _context: &mut HostContext<'_>,
        _consumer: ConsumerId,
        _subscriber: Subscriber,
    ) -> When {
        When::Now
    }

    fn detach(&mut self, _context: &mut HostContext<'_>, _subscription: ConsumerId) {}

    fn unblock(&mut self, _context: &mut HostContext<'_>, _consumer: ConsumerId) {}

    /// Nobody gets single messages of a stream: who asks is refused before.
    fn get(&mut self, _context: &mut HostContext<'_>, _get: Get) -> GetOutcome {
        GetOutcome::Gone
    }

    /// Nothing leaves a stream but by its retention.
    fn purge(&mut self, _context: &mut HostContext<'_>, _asker: Asker) -> Option<QueueAnswer> {
        Some(QueueAnswer::Unavailable)
    }

    /// Asks the stream for a connection. Who would ask again is told nothing.
    fn count(&mut self, context: &mut HostContext<'_>, asker: Asker) -> Option<QueueAnswer> {
        let Asker::Connection(connection) = asker else {
            return Some(QueueAnswer::Counted(QueueCounts::default()));
        };
        let number = self.of.number();
        self.of.askers.insert(number, (self.stream, connection));
        let stats = Command::Stats {
            request: RequestId(number),
            stream: self.stream,
        };
        self.say(context, stats);
        None
    }

    /// Operators look into a stream by its offsets.
    fn peek(
        &mut self,
        _context: &mut HostContext<'_>,
        _asker: Asker,
        _before: u64,
    ) -> Option<QueueAnswer> {
        Some(QueueAnswer::Unavailable)
    }

    fn holds(&self, _subscription: ConsumerId) -> bool {
        false
    }

    fn unsettled_by(&self, _subscription: ConsumerId) -> (u64, Option<u64>) {
        // Nothing is taken out of a stream.
        (0, None)
    }

    fn single_active(&self, _consumer: ConsumerId) -> Option<bool> {
        None
    }
}
