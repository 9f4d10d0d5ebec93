//! Operations on streams by a shard's queues and by the broker itself.

use super::*;
use crate::effects::{Deferred, Then};
use crate::events::QueueEvent;
use crate::notify::Afterwards;
use crate::stream_events::StreamNews;
use leveret_stream::{Command, Event, PublisherId, Refusal, RequestId, SessionId, StreamStats};
use leveret_types::ConnectionId;
use leveret_types::limits::STREAM_UNCONFIRMED_ENTRIES_MAX;
use std::sync::Arc;

const STREAM: QueueId = QueueId(7).of_stream();
const ASKER: ConnectionId = ConnectionId(3);

impl World {
    fn put(&mut self, notify: &Notify) -> Enqueued {
        let parts = MessageParts {
            body: b"dead",
            properties: &[0, 0],
            ..MessageParts::default()
        };
        let message = Message::from_parts(parts, MessageSummary::default());
        let mut bodies = Bodies::default();
        self.shard
            .publish(self.now, STREAM, &message, &mut bodies, notify)
    }

    /// Publishes a message that something waits for, and says nothing more of it.
    fn put_then(&mut self) -> u64 {
        let following = Afterwards::new(Then::Nothing);
        let put = self.put(&Notify::Then(Arc::clone(&following)));
        assert!(following.filled().is_none(), "the stream has not said");
        match put {
            Enqueued::Kept { sequence, .. } => sequence,
            other => panic!("{other:?}"),
        }
    }

    fn hears(&mut self, event: Event) {
        let news = StreamNews::Event(event);
        self.shard.hear_stream(self.now, STREAM, news);
    }

    /// What follows now, each with whether the message was refused.
    fn follows(&mut self) -> Vec<bool> {
        let deferred = self.shard.effects.deferred.drain(..);
        let refused = deferred.map(|deferred| match deferred {
            Deferred::Afterwards { refused, .. } => refused,
            other => panic!("{other:?}"),
        });
        refused.collect()
    }

    fn counts(&mut self) -> RequestId {
        let asker = Asker::Connection(ASKER);
        assert!(self.shard.queue_counts(self.now, STREAM, asker).is_none());
        match self.shard.effects.streams.pop() {
            Some((session, Command::Stats { request, .. })) => {
                assert_eq!(session, SessionId::Queue(STREAM));
                request
            }
            other => panic!("{other:?}"),
        }
    }

    fn counted(&mut self) -> u64 {
        match self.shard.effects.posts.pop() {
            Some((
                ASKER,
                QueueEvent::Answered {
                    queue: STREAM,
                    answer: QueueAnswer::Counted(counts),
                },
            )) => counts.ready,
            other => panic!("{other:?}"),
        }
    }
}

fn confirmed(ids: &[u64]) -> Event {
    Event::Confirmed {
        publisher: PublisherId(0),
        ids: ids.to_vec(),
    }
}

#[test]
fn what_follows_a_publish_to_a_stream_waits_until_the_stream_has_it() {
    let mut world = World::new();
    let (first, second, third) = (world.put_then(), world.put_then(), world.put_then());
    let said = std::mem::take(&mut world.shard.effects.streams);
    let published = said.iter().filter(|(session, command)| {
        *session == SessionId::Queue(STREAM) && matches!(command, Command::Publish { .. })
    });
    assert_eq!(published.count(), 3);
    assert_eq!(world.follows(), [false; 0]);
    world.hears(confirmed(&[second]));
    assert_eq!(world.follows(), [false]);
    world.hears(Event::Refused {
        publisher: PublisherId(0),
        ids: vec![first],
        refusal: Refusal::NotFound,
    });
    assert_eq!(world.follows(), [true]);
    world.hears(confirmed(&[first, second, third]));
    assert_eq!(world.follows(), [false], "nobody hears twice");
}

#[test]
fn what_a_lost_stream_has_not_answered_counts_as_refused_and_a_deleted_one_has_taken_it() {
    let mut world = World::new();
    world.put_then();
    world.hears(Event::Lost { stream: STREAM });
    assert_eq!(world.follows(), [true]);
    world.put_then();
    world.hears(Event::Gone { stream: STREAM });
    assert_eq!(world.follows(), [false]);
}

#[test]
fn a_stream_that_does_not_answer_is_given_so_many_messages_and_no_more() {
    let mut world = World::new();
    for _ in 0..STREAM_UNCONFIRMED_ENTRIES_MAX {
        assert!(matches!(world.put(&Notify::Nobody), Enqueued::Kept { .. }));
    }
    assert_eq!(world.put(&Notify::Nobody), Enqueued::Rejected);
    world.hears(confirmed(&[1]));
    assert!(matches!(world.put(&Notify::Nobody), Enqueued::Kept { .. }));
}

#[test]
fn how_a_stream_stands_is_asked_of_the_stream_and_nothing_is_purged() {
    let mut world = World::new();
    let request = world.counts();
    world.hears(Event::Stats {
        request,
        result: Ok(StreamStats {
            first_chunk: Some(2),
            committed_offset: Some(11),
            ..StreamStats::default()
        }),
    });
    assert_eq!(world.counted(), 10);
    world.counts();
    world.hears(Event::Lost { stream: STREAM });
    assert_eq!(world.counted(), 0, "nobody can say");
    let purged = world.shard.purge(world.now, STREAM, Asker::Poll(1));
    assert!(
        matches!(purged, Some(QueueAnswer::Unavailable)),
        "{purged:?}"
    );
}
