//! Queues that are on this node alone, and what the remote queues of another node hear of them.

use super::*;
use crate::effects::Then;
use crate::notify::Afterwards;
use crate::quorum::protocol::{Answer, Command, Event, Operation, Registration};
use leveret_queue::{Consumer, Overflow};
use leveret_types::{ConnectionId, ConsumerId, ReplicaId};

const NODE: NodeId = NodeId(2);
const SESSION: u64 = 5;
const A: ConsumerId = ConsumerId(7);
const B: ConsumerId = ConsumerId(8);

impl World {
    fn with_queues(single_active: bool) -> Self {
        let mut world = Self::new();
        for queue in [1, 2] {
            let mut spec = spec();
            spec.settings.single_active = single_active;
            world
                .shard
                .add_queue(world.now, QueueId(queue), spec, Vec::new());
            let registration = Registration {
                start: 1,
                term: 0,
                first_sequence: 1,
                subscriptions: Vec::new(),
            };
            world.tell(queue, Command::Register(Box::new(registration)));
        }
        world.events();
        world
    }

    fn tell(&mut self, queue: u64, command: Command) {
        self.tell_in(SESSION, queue, command);
    }

    fn tell_in(&mut self, session: u64, queue: u64, command: Command) {
        let queue = QueueId(queue);
        self.shard.on_kind(self.now, queue, |kind, context| {
            kind.receive(context, NODE, queue, session, command);
        });
    }

    /// What the node's remote queues hear, by queue.
    fn events(&mut self) -> Vec<(u64, Event)> {
        self.shard.finish_hosts(self.now);
        let answers = std::mem::take(&mut self.shard.answers);
        let events = answers.into_iter().map(|answer: Answer| {
            assert_eq!(answer.to, NODE);
            (answer.queue.0, answer.message)
        });
        events.collect()
    }
}

fn consumer(id: ConsumerId) -> Consumer {
    Consumer {
        id,
        priority: 0,
        exclusive: false,
        no_ack: false,
        prefetch: 1,
        timeout_ms: None,
    }
}

fn message() -> Message {
    let parts = MessageParts {
        body: b"m",
        properties: &[0, 0],
        ..MessageParts::default()
    };
    let summary = MessageSummary {
        persistent: true,
        ..MessageSummary::default()
    };
    Message::from_parts(parts, summary)
}

fn publish(first: u64) -> Command {
    let operations = vec![Operation::Publish(message())];
    Command::Operations { first, operations }
}

#[test]
fn a_get_is_answered_for_its_own_queue() {
    for queue in [1, 2] {
        let mut world = World::with_queues(false);
        let subscription = A;
        let no_ack = false;
        world.tell(
            queue,
            Command::Get {
                subscription,
                no_ack,
            },
        );
        let events = world.events();
        assert!(
            matches!(events[..], [(of, Event::Got { subscription: A, got: None })] if of == queue),
            "{events:?}"
        );
    }
}

#[test]
fn the_end_of_a_consumer_comes_behind_its_deliveries() {
    let mut world = World::with_queues(false);
    world.tell(1, Command::Attach(consumer(A)));
    world.tell(1, publish(1));
    world.shard.finish_hosts(world.now);
    world.tell(1, Command::Cancel(A));
    let events = world.events();
    assert!(
        matches!(
            &events[..],
            [
                (
                    1,
                    Event::Attached {
                        consumer: A,
                        result: Ok(())
                    }
                ),
                (1, Event::Deliver(_)),
                (1, Event::Cancelled(A)),
            ]
        ),
        "{events:?}"
    );
}

#[test]
fn who_waits_for_its_turn_hears_so_and_who_is_active_too() {
    let mut world = World::with_queues(true);
    for id in [A, B] {
        world.tell(2, Command::Attach(consumer(id)));
    }
    let active = |events: Vec<(u64, Event)>| -> Vec<(u64, ConsumerId, u64)> {
        let active = events.into_iter().filter_map(|(queue, event)| match event {
            Event::Active {
                consumer,
                activation,
            } => Some((queue, consumer, activation)),
            _ => None,
        });
        active.collect()
    };
    assert_eq!(active(world.events()), [(2, A, 1), (2, B, 0)]);
    world.tell(2, Command::Detach(A));
    assert_eq!(active(world.events()), [(2, B, 1)]);
}

#[test]
fn another_node_is_not_told_of_a_deletion() {
    let mut world = World::with_queues(false);
    world.tell(1, Command::Attach(consumer(A)));
    world.events();
    world.shard.remove_queue(world.now, QueueId(1));
    assert!(world.events().is_empty(), "the catalogue says so");
    assert!(world.shard.effects.posts.is_empty(), "no client is meant");
    world.tell(1, publish(1));
    let events = world.events();
    assert!(
        matches!(
            events[..],
            [(
                1,
                Event::NotLeader {
                    term: 0,
                    leader: None
                }
            )]
        ),
        "{events:?}"
    );
}

#[test]
fn operations_are_committed_once_the_log_is_durable_and_taken_once() {
    let mut world = World::with_queues(false);
    world.tell(1, publish(1));
    world.tell(1, publish(1));
    world.tell(1, publish(2));
    assert!(world.events().is_empty(), "nothing is durable yet");
    world.shard.finish(world.now);
    world.sync_without_exchange();
    let events = world.events();
    assert!(
        matches!(events[..], [(1, Event::Committed { through: 2 })]),
        "{events:?}"
    );
    assert_eq!(world.ready(1), 2);
}

#[test]
fn a_gap_and_an_unknown_session_make_a_node_present_itself() {
    let mut world = World::with_queues(false);
    for (session, expected) in [(SESSION - 1, false), (SESSION + 1, true)] {
        world.tell_in(session, 1, publish(1));
        let events = world.events();
        let is_leading = matches!(events[..], [(1, Event::Leading { term: 0 })]);
        assert_eq!(is_leading, expected, "{events:?}");
    }
    world.tell(1, publish(3));
    let events = world.events();
    assert!(matches!(events[..], [(1, Event::Leading { term: 0 })]));
    assert_eq!(world.ready(1), 0);
}

#[test]
fn what_was_refused_is_said_to_who_asks_anew_also_by_the_group_that_the_queue_becomes() {
    let mut world = World::with_queues(false);
    let mut full = spec();
    full.settings.length_max = Some(1);
    full.settings.overflow = Overflow::RejectPublish;
    world
        .shard
        .update_queue(world.now, QueueId(1), full.clone());
    (1..=5).for_each(|number| world.tell(1, publish(number)));
    world.tell(1, Command::Acknowledged { first: 3 });
    world.sync();
    let present = |first_sequence| {
        let registration = Registration {
            start: 1,
            term: 0,
            first_sequence,
            subscriptions: Vec::new(),
        };
        Command::Register(Box::new(registration))
    };
    let answers = |world: &mut World, session, first| {
        world.events();
        world.tell_in(session, 1, present(first));
        let events = world.events().into_iter().map(|(_, event)| match event {
            Event::Refused { sequences } => (Some(sequences), None),
            Event::Committed { through } => (None, Some(through)),
            other => panic!("{other:?}"),
        });
        events.collect::<Vec<_>>()
    };
    let expected = [(Some(3..6), None), (None, Some(5))];
    assert_eq!(answers(&mut world, SESSION + 1, 1), expected);
    full.members = vec![ReplicaId::new(NodeId(1), 0)];
    full.founders = full.members.clone();
    world.shard.update_queue(world.now, QueueId(1), full);
    for _ in 0..10 {
        world.shard.before_seal(world.now);
        world.sync();
    }
    assert_eq!(answers(&mut world, SESSION + 2, 1), expected);
    let of_later = [(Some(4..6), None), (None, Some(5))];
    assert_eq!(answers(&mut world, SESSION + 3, 4), of_later);
}

/// Whoever publishes to a durable queue beside it is not refused for its sake. A message that
/// another queue still has stays there: this may be the only one that it goes to.
#[test]
fn a_queue_that_went_with_its_nodes_process_refuses_only_what_another_queue_still_has() {
    let durable = QueueId(1);
    let transient = QueueId(QueueId::TRANSIENT_MARK | 2);
    for (queue, expected) in [(durable, Enqueued::Rejected), (transient, Enqueued::Gone)] {
        let mut world = World::new();
        let spec = QueueSpec {
            home: NODE,
            durable: !queue.is_transient(),
            ..spec()
        };
        world.shard.add_queue(world.now, queue, spec, Vec::new());
        let (client, now) = (Notify::Connection(ConnectionId(7)), world.now);
        let put = |world: &mut World, notify: &Notify| {
            let bodies = &mut Bodies::default();
            let shard = &mut world.shard;
            shard.publish(now, queue, &message(), bodies, notify)
        };
        assert_eq!(put(&mut world, &client), expected);
        assert_eq!(put(&mut world, &Notify::Nobody), expected);
        let moved = Notify::Then(Afterwards::new(Then::Nothing));
        assert_eq!(put(&mut world, &moved), Enqueued::Rejected);
        let published = Notify::Then(Afterwards::of_publish());
        assert_eq!(put(&mut world, &published), expected);
        world.shard.peer_up(now, NODE);
        assert!(matches!(put(&mut world, &client), Enqueued::Kept { .. }));
        world.shard.peer_down(now, NODE);
        assert_eq!(put(&mut world, &client), expected);
    }
}
