//! A remote queue on node 1, whose leader is on node 2 and leaves deliveries to the replica on node
//! 1.

use super::*;
use crate::delivery_credit::{ConsumerCredit, DeliveryCredit};
use crate::events::QueueEvent;
use crate::peeked::Found;
use crate::peer_rooms::PeerRooms;
use crate::queue_host::{Get, HostContext, QueueHost};
use crate::quorum::RemoteQueues;
use crate::quorum::protocol::{Event, Origin, Registration};
use crate::quorum::remote_queue::Put;
use crate::shard::ShardEffects;
use crate::subscriber::Subscriber;
use leveret_queue::{Consumer, Settle};
use leveret_storage::{Folders, MemoryDisk, Options, ShardLogs, recover};
use leveret_types::message::MessageSummary;
use leveret_types::{ConnectionId, MessageParts, NodeId, QueueId};
use std::sync::Arc;

const QUEUE: QueueId = QueueId(256);
const HERE: NodeId = NodeId(1);
const LEADER: NodeId = NodeId(2);
const CLIENT: Subscriber = Subscriber::Client(ConnectionId(7));
/// Consumers: two that acknowledge, and one that does not.
const A: ConsumerId = ConsumerId(1);
const B: ConsumerId = ConsumerId(2);
const NO_ACK: ConsumerId = ConsumerId(3);

struct World {
    remote_queues: RemoteQueues,
    effects: ShardEffects,
    /// Nothing is in them: a remote queue keeps no logs.
    logs: ShardLogs,
    now: Now,
}

fn no_logs() -> ShardLogs {
    let folders = Folders::within(std::path::Path::new("/store"));
    let recovered = recover(&MemoryDisk::new(), &folders, &Options::default());
    recovered.expect("a store").shards.remove(0)
}

fn message(index: u64) -> Message {
    let parts = MessageParts {
        exchange: b"",
        routing_key: b"q",
        properties: &[0, 0],
        body: &index.to_le_bytes(),
    };
    Message::from_parts(parts, MessageSummary::default())
}

fn local(consumer: ConsumerId, index: u64) -> LocalDelivery {
    LocalDelivery {
        consumer,
        priority_log: 0,
        index,
        redelivered: true,
        delivery_count: Some(1),
        acquired_count: Some(2),
        bytes: 8,
        entry: 1,
        term: 1,
    }
}

fn by_reference(consumer: ConsumerId, index: u64) -> Event {
    Event::DeliverLocal(local(consumer, index))
}

fn whole(consumer: ConsumerId, index: u64) -> Event {
    Event::Deliver(local(consumer, index).complete(QUEUE, message(index)))
}

fn fetched(consumer: ConsumerId, index: u64, fetched: Fetched) -> Event {
    Event::Fetched {
        consumer,
        priority_log: 0,
        index,
        fetched,
    }
}

impl World {
    fn new() -> Self {
        let origin = Origin {
            node: HERE,
            start: 1,
        };
        let mut world = Self {
            remote_queues: RemoteQueues::new(origin, 1),
            effects: ShardEffects::default(),
            logs: no_logs(),
            now: Now::both(1_000),
        };
        world.remote_queues.place(QUEUE, &[LEADER], false);
        world.remote_queues.peer_up(world.now, LEADER);
        for id in [A, B, NO_ACK] {
            let consumer = Consumer {
                id,
                priority: 0,
                exclusive: false,
                no_ack: id == NO_ACK,
                prefetch: 0,
                timeout_ms: None,
            };
            let credit = ConsumerCredit {
                connection: std::sync::Arc::default(),
                limiter: None,
            };
            let attached = world.use_queue(|remote_queue, context| {
                remote_queue.attach(context, consumer, CLIENT, credit)
            });
            assert!(attached.is_ok());
        }
        world.begin();
        world
    }

    /// The leader takes the session, and the consumers.
    fn begin(&mut self) -> Registration {
        self.now.monotonic_ms += 10_000;
        self.remote_queues.locate(self.now, QUEUE, Some(LEADER));
        let said = self.said();
        self.hear(Event::Committed { through: 0 });
        for consumer in [A, B, NO_ACK] {
            let result = Ok(());
            self.hear(Event::Attached { consumer, result });
        }
        self.said();
        self.events();
        match said.into_iter().next() {
            Some(Command::Register(registration)) => *registration,
            other => panic!("{other:?}"),
        }
    }

    /// Does what a client of this node does.
    fn use_queue<R>(&mut self, run: impl FnOnce(&mut RemoteQueue, &mut HostContext<'_>) -> R) -> R {
        let context = &mut HostContext {
            now: self.now,
            node: HERE,
            logs: &mut self.logs,
            effects: &mut self.effects,
            answers: &mut Vec::new(),
            scratch: &mut Vec::new(),
        };
        let remote_queue = self.remote_queues.used(QUEUE).expect("it is placed");
        run(remote_queue, context)
    }

    /// Attaches one more consumer, with the credit of its connection.
    fn attach_narrow(&mut self, id: ConsumerId, no_ack: bool) -> Arc<DeliveryCredit> {
        let credit = Arc::<DeliveryCredit>::default();
        let consumer = Consumer {
            id,
            priority: 0,
            exclusive: false,
            no_ack,
            prefetch: 0,
            timeout_ms: None,
        };
        let narrow = ConsumerCredit {
            connection: Arc::clone(&credit),
            limiter: None,
        };
        let attached = self.use_queue(|remote_queue, context| {
            remote_queue.attach(context, consumer, CLIENT, narrow)
        });
        assert!(attached.is_ok());
        self.hear(Event::Attached {
            consumer: id,
            result: Ok(()),
        });
        credit
    }

    fn known(&self) -> &RemoteQueue {
        self.remote_queues.known(QUEUE).expect("it is used")
    }

    fn cancel(&mut self, consumer: ConsumerId) {
        self.use_queue(|remote_queue, context| remote_queue.cancel(context, consumer, CLIENT));
        self.hear(Event::Cancelled(consumer));
    }

    fn settle(&mut self, subscription: ConsumerId, index: u64) -> u64 {
        let settle = Settle {
            subscription,
            priority_log: 0,
            range: index..index + 1,
            outcome: Outcome::Accept,
        };
        self.use_queue(|remote_queue, context| remote_queue.settle(context, settle))
    }

    fn with_context<R>(
        &mut self,
        run: impl FnOnce(&mut RemoteQueues, &mut RemoteContext<'_>) -> R,
    ) -> R {
        let context = &mut RemoteContext {
            now: self.now,
            node: HERE,
            effects: &mut self.effects,
        };
        run(&mut self.remote_queues, context)
    }

    fn hear(&mut self, message: Event) {
        self.hear_from(LEADER, message);
    }

    fn hear_from(&mut self, node: NodeId, message: Event) {
        let session = self
            .remote_queues
            .known(QUEUE)
            .map_or(0, RemoteQueue::session);
        self.with_context(|remote_queues, context| {
            remote_queues.receive(QUEUE, node, session, message, context)
        });
    }

    /// The index of the message that the replica is asked for.
    fn next(&mut self) -> Option<u64> {
        self.with_context(|remote_queues, context| remote_queues.next_local(QUEUE, context))
            .map(|delivery| delivery.index)
    }

    fn find(&mut self, found: Found) {
        self.with_context(|remote_queues, context| {
            remote_queues.found_local(QUEUE, found, context)
        });
    }

    /// The replica has all that is asked for.
    fn find_all(&mut self) {
        while let Some(index) = self.next() {
            self.find(Found::Message(message(index)));
        }
    }

    /// What clients hear: whose delivery and which, or that a consumer is cancelled.
    fn events(&mut self) -> Vec<(u64, u64)> {
        let posts = std::mem::take(&mut self.effects.posts).into_iter();
        let shown = posts.filter_map(|(_, event)| match event {
            QueueEvent::Deliver(delivery) => {
                assert_eq!(delivery.message.body(), delivery.index.to_le_bytes());
                assert!(delivery.redelivered);
                assert_eq!(delivery.delivery_count, Some(1));
                assert_eq!(delivery.acquired_count, Some(2));
                Some((delivery.consumer.0, delivery.index))
            }
            QueueEvent::Reply(_) => Some((0, 0)),
            _ => None,
        });
        shown.collect()
    }

    /// What the leader is told.
    fn said(&mut self) -> Vec<Command> {
        let mut said = Vec::new();
        let rooms = &mut PeerRooms::unbounded();
        self.remote_queues.flush(QUEUE, rooms, |_, _, put| {
            said.push(match put {
                Put::Operations(first, operations) => Command::Operations {
                    first,
                    operations: operations.cloned().collect(),
                },
                Put::Message(message) => message,
            });
        });
        said
    }

    fn fetches(&mut self) -> Vec<u64> {
        let said = self.said().into_iter();
        let fetches = said.filter_map(|message| match message {
            Command::Fetch { index, .. } => Some(index),
            _ => None,
        });
        fetches.collect()
    }
}

#[test]
fn what_is_behind_a_message_on_disk_waits_whoever_it_is_for() {
    let mut world = World::new();
    world.hear(whole(A, 0));
    for said in [
        by_reference(A, 1),
        whole(B, 2),
        by_reference(A, 3),
        whole(NO_ACK, 4),
    ] {
        world.hear(said);
    }
    assert_eq!(world.next(), Some(1));
    world.find(Found::Pending);
    assert_eq!(world.events(), [(1, 0)]);
    // A read whose end nobody tells of is asked for again.
    let remote_queue = world.remote_queues.known(QUEUE).expect("it is there");
    let at = remote_queue.next_deadline_ms().expect("a deadline");
    assert_eq!(at, world.now.monotonic_ms + READ_AGAIN_MS);
    world.find_all();
    assert_eq!(world.events(), [(1, 1), (2, 2), (1, 3), (3, 4)]);
    assert_eq!(world.remote_queues.local_deliveries().read, 2);
    assert_eq!(world.remote_queues.local_deliveries().read_bytes, 16);
    let remote_queue = world.remote_queues.known(QUEUE).expect("it is there");
    assert!(!remote_queue.has_waiting_deliveries());
}

#[test]
fn what_the_replica_does_not_have_is_asked_for_once_and_keeps_its_place() {
    let mut world = World::new();
    for said in [by_reference(A, 1), whole(B, 2)] {
        world.hear(said);
    }
    assert_eq!(world.next(), Some(1));
    world.find(Found::Never);
    assert_eq!(world.fetches(), [1]);
    assert_eq!(world.next(), None, "it is asked for already");
    // Nobody asked for these.
    world.hear(fetched(A, 2, Fetched::Message(message(2))));
    world.hear(fetched(B, 1, Fetched::Message(message(1))));
    world.find_all();
    assert_eq!(world.events(), []);
    world.hear(fetched(A, 1, Fetched::Message(message(1))));
    world.find_all();
    assert_eq!(world.events(), [(1, 1), (2, 2)]);
    world.hear(fetched(A, 1, Fetched::Message(message(1))));
    assert_eq!(world.events(), []);
    assert_eq!(world.remote_queues.local_deliveries().fetched, 1);
}

#[test]
fn what_nobody_can_read_is_passed_over_and_given_back_if_it_is_held() {
    for (answer, releases) in [(Fetched::Gone, 0), (Fetched::Unreadable, 1)] {
        let mut world = World::new();
        for said in [by_reference(A, 1), whole(A, 2)] {
            world.hear(said);
        }
        assert_eq!(world.next(), Some(1));
        world.find(Found::Never);
        assert_eq!(world.fetches(), [1]);
        world.hear(fetched(A, 1, answer));
        world.find_all();
        assert_eq!(world.events(), [(1, 2)]);
        let operations = world.said().into_iter().flat_map(|said| match said {
            Command::Operations { operations, .. } => operations,
            _ => Vec::new(),
        });
        let released = operations.filter(|operation| {
            matches!(operation, crate::quorum::protocol::Operation::Settle(settle)
                if settle.subscription == A && settle.range == (1..2)
                    && settle.outcome == Outcome::Release)
        });
        assert_eq!(released.count(), releases);
    }
}

#[test]
fn room_comes_back_for_what_was_passed_over() {
    let mut world = World::new();
    for index in 0..u64::from(LINK_CONSUMER_MESSAGES_MAX / 4) {
        world.hear(by_reference(A, index));
        assert_eq!(world.next(), Some(index));
        world.find(Found::Never);
        world.hear(fetched(A, index, Fetched::Gone));
    }
    let said = world.said();
    let is_credit = |said: &Command| {
        matches!(said, Command::Credit { consumer: A, messages, bytes }
            if *messages == LINK_CONSUMER_MESSAGES_MAX / 4 && *bytes == u64::from(*messages) * 8)
    };
    assert!(said.iter().any(is_credit), "{said:?}");
}

#[test]
fn with_its_session_a_waiting_deliveries_ends_and_only_what_cannot_come_again_is_delivered() {
    let mut world = World::new();
    world.hear(whole(A, 0));
    for said in [by_reference(A, 1), whole(B, 2), whole(NO_ACK, 3)] {
        world.hear(said);
    }
    assert_eq!(world.next(), Some(1));
    world.find(Found::Never);
    world.said();
    world.hear(Event::Leading { term: 2 });
    assert_eq!(world.next(), None);
    assert_eq!(world.events(), [(1, 0), (3, 3)]);
    let registered = world.begin();
    let unsettled: Vec<_> = registered
        .subscriptions
        .iter()
        .flat_map(|of| &of.unsettled)
        .collect();
    assert_eq!(unsettled.len(), 1, "{unsettled:?}");
    assert_eq!(unsettled[0].range, 0..1);
    // An answer of the session before.
    world.hear(fetched(A, 1, Fetched::Message(message(1))));
    assert_eq!(world.events(), []);
    world.hear(by_reference(B, 1));
    world.find_all();
    assert_eq!(world.events(), [(2, 1)]);
}

#[test]
fn the_end_of_a_consumer_waits_for_its_deliveries() {
    let mut world = World::new();
    for said in [by_reference(A, 1), Event::Cancelled(A), whole(B, 2)] {
        if matches!(said, Event::Cancelled(_)) {
            world.use_queue(|remote_queue, context| remote_queue.cancel(context, A, CLIENT));
        }
        world.hear(said);
    }
    assert_eq!(world.next(), Some(1));
    assert_eq!(world.events(), []);
    world.find_all();
    assert_eq!(world.events(), [(1, 1), (0, 0), (2, 2)]);
}

#[test]
fn nothing_waits_for_a_consumer_that_is_gone() {
    let mut world = World::new();
    for said in [by_reference(A, 1), whole(B, 2), by_reference(A, 3)] {
        world.hear(said);
    }
    assert_eq!(world.next(), Some(1));
    world.find(Found::Never);
    world.use_queue(|remote_queue, context| remote_queue.detach(context, A));
    world.find_all();
    assert_eq!(world.events(), [(2, 2)]);
    // What comes for it now returns by its end, which the leader is told of.
    world.said();
    world.hear(by_reference(A, 4));
    assert_eq!(world.next(), None);
    let said = world.said();
    assert!(matches!(said[..], [Command::Detach(A)]), "{said:?}");
}

#[test]
fn a_leader_that_delivers_more_than_it_may_is_left() {
    let mut world = World::new();
    for index in 0..3 * WAITING_DELIVERIES_MAX as u64 {
        world.hear(by_reference(A, index));
    }
    assert_eq!(world.next(), Some(0));
    world.hear(by_reference(A, 3 * WAITING_DELIVERIES_MAX as u64));
    assert_eq!(world.next(), None);
    let remote_queue = world.remote_queues.known(QUEUE).expect("it is there");
    assert_eq!(remote_queue.leader_location(), LeaderLocation::Unknown);
}

#[test]
fn what_comes_whole_goes_on_at_once_where_nothing_waits_however_much_that_is() {
    let mut world = World::new();
    let all = 3 * WAITING_DELIVERIES_MAX as u64 + 1;
    (0..all).for_each(|index| world.hear(whole(A, index)));
    let remote_queue = world.remote_queues.known(QUEUE).expect("it is there");
    assert!(!remote_queue.has_waiting_deliveries());
    assert_eq!(remote_queue.leader_location(), LeaderLocation::Led(LEADER));
    let events = world.events();
    let is_in_order = events
        .iter()
        .copied()
        .eq((0..).map(|index| (1, index)).take(events.len()));
    assert!(is_in_order && !events.is_empty());
}

/// What came from a leader elsewhere waits for room; one that is here has taken room before.
#[test]
fn a_delivery_of_a_leader_that_has_moved_here_does_not_overtake_what_waits_for_room() {
    let mut world = World::new();
    let (late, credit) = (ConsumerId(4), world.attach_narrow(ConsumerId(4), false));
    let taken = std::iter::from_fn(|| credit.take(1).then_some(())).count();
    world.hear(whole(late, 0));
    assert_eq!(world.events(), [], "there is no room");
    world.hear_from(HERE, Event::Leading { term: 2 });
    world.hear_from(HERE, Event::Committed { through: 0 });
    let remote_queue = world.remote_queues.known(QUEUE).expect("it is there");
    assert_eq!(remote_queue.leader_location(), LeaderLocation::Led(HERE));
    world.hear_from(HERE, whole(late, 1));
    assert_eq!(world.events(), [], "it is behind the first");
    credit.give(taken, taken);
    world.use_queue(|remote_queue, context| remote_queue.unblock(context, late));
    assert_eq!(world.events(), [(4, 0), (4, 1)]);
}

#[test]
fn a_cancelled_consumer_is_known_as_long_as_it_holds_something() {
    let mut world = World::new();
    world.hear(whole(A, 0));
    world.cancel(A);
    world.cancel(B);
    assert!(world.known().holds(A) && !world.known().holds(B));
    assert_eq!(world.settle(A, 0), 1);
    assert!(!world.known().holds(A));
}

/// What is not acknowledged has left its queue when it is delivered.
#[test]
fn what_waits_for_room_when_its_consumer_is_cancelled_returns_or_is_delivered_if_it_cannot() {
    for (no_ack, delivered) in [(false, 0), (true, 2)] {
        let mut world = World::new();
        let late = ConsumerId(4);
        let credit = world.attach_narrow(late, no_ack);
        while credit.take(1) {}
        (0..2).for_each(|index| world.hear(whole(late, index)));
        assert_eq!(world.events(), [], "there is no room");
        world.cancel(late);
        let expected = (0..delivered).map(|index| (4, index));
        let expected: Vec<_> = expected.chain([(0, 0)]).collect();
        assert_eq!(world.events(), expected);
        let said = world.said().into_iter().flat_map(|said| match said {
            Command::Operations { operations, .. } => operations,
            _ => Vec::new(),
        });
        let released = said.filter_map(|operation| match operation {
            crate::quorum::protocol::Operation::Settle(settle) => {
                Some((settle.range, settle.outcome))
            }
            _ => None,
        });
        let released: Vec<_> = released.collect();
        match no_ack {
            true => assert_eq!(released, []),
            false => assert_eq!(released, [(0..2, Outcome::Release)]),
        }
    }
}

#[test]
fn who_gets_twice_holds_what_the_second_brings_though_the_first_brought_nothing() {
    let mut world = World::new();
    let getter = ConsumerId(9);
    for _ in 0..2 {
        let get = Get {
            subscription: getter,
            subscriber: Some(CLIENT),
            no_ack: false,
        };
        world.use_queue(|remote_queue, context| remote_queue.get(context, get));
    }
    for got in [
        None,
        Some((local(getter, 5).complete(QUEUE, message(5)), 0)),
    ] {
        world.hear(Event::Got {
            subscription: getter,
            got,
        });
    }
    assert_eq!(world.settle(getter, 5), 1);
    assert!(!world.known().holds(getter), "it holds nothing any more");
}

#[test]
fn what_is_said_in_another_session_or_by_another_node_means_nothing() {
    let mut world = World::new();
    let session = world.known().session();
    for (node, session) in [
        (LEADER, session - 1),
        (LEADER, session + 1),
        (NodeId(3), session),
    ] {
        world.with_context(|remote_queues, context| {
            remote_queues.receive(QUEUE, node, session, whole(A, 0), context)
        });
        assert_eq!(world.events(), []);
    }
    world.hear(whole(A, 0));
    assert_eq!(world.events(), [(1, 0)]);
}

#[test]
fn a_leader_that_says_it_leads_no_more_is_left_for_the_one_that_it_names() {
    let mut world = World::new();
    let not_leader = |leader| Event::NotLeader {
        term: 1,
        leader: Some(NodeId(leader)),
    };
    world.hear_from(NodeId(4), not_leader(4));
    assert_eq!(
        world.known().leader_location(),
        LeaderLocation::Led(LEADER),
        "a stranger's word"
    );
    world.hear_from(LEADER, not_leader(3));
    assert_eq!(
        world.known().leader_location(),
        LeaderLocation::Contacted(NodeId(3))
    );
}

#[test]
fn a_few_settles_may_wait_for_others_and_more_of_them_may_not() {
    for (count, may_wait) in [(0, false), (4, true), (5, false)] {
        let mut world = World::new();
        // They are no neighbours, and so an operation each.
        (0..count).for_each(|index| world.hear(whole(A, 2 * index)));
        world.said();
        (0..count).for_each(|index| assert_eq!(world.settle(A, 2 * index), 1));
        world.now.monotonic_ms += 1_000;
        let now = world.now;
        assert_eq!(
            world.remote_queues.may_wait(now, QUEUE),
            may_wait,
            "{count}"
        );
    }
}

#[test]
fn a_message_that_was_not_asked_for_is_not_taken_for_the_first_in_line() {
    let mut world = World::new();
    world.hear(by_reference(A, 1));
    assert_eq!(world.next(), Some(1));
    world.find(Found::Pending);
    world.hear(fetched(A, 1, Fetched::Gone));
    assert!(world.known().has_waiting_deliveries());
    world.find_all();
    assert_eq!(world.events(), [(1, 1)]);
}
