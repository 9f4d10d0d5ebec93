//! Deliveries that a leader leaves to the replica on the consumer's node.

use super::*;
use crate::peeked::Found;
use crate::quorum::LocalDeliveries;
use crate::quorum::protocol::{
    Command, Encoder, Event, Fetched, LocalDelivery, decode_to_remote_queue,
};
use leveret_queue::Position;
use leveret_types::LogId;

impl World {
    fn local(&self, at: usize) -> LocalDeliveries {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        running.shard.local_deliveries()
    }

    /// Numbers of the messages that a client holds, in the order in which they came.
    fn got(&self, at: usize) -> Vec<u64> {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        running.held.iter().map(|(.., number)| *number).collect()
    }

    /// The log of the only priority log.
    pub(super) fn log(&self, at: usize) -> LogId {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        let is_priority_log =
            |log: &LogId| queue_of(*log).0 == QUEUE && queue_of(*log).1 != HEADER_LOG;
        let found = running.shard.logs.log_ids().find(is_priority_log);
        found.expect("it has messages")
    }

    /// Publishes at the leader, and lets all members have it.
    pub fn filled(seed: u64, messages: u64, body_bytes: usize) -> (Self, usize, usize) {
        let mut world = Self::new(seed, 3, spec(3));
        world.body_bytes = body_bytes;
        world.rest(100);
        let leader = world.leader().expect("it is led");
        for _ in 0..messages {
            world.publish(leader);
            world.rest(1);
        }
        world.rest(20);
        (world, leader, (leader + 1) % 3)
    }

    /// Sends a leader's frames to a node, and lets it act; no disk is read.
    pub(super) fn deliver_all(&mut self) {
        for _ in 0..20 {
            let ways: Vec<_> = self.ways.keys().copied().collect();
            ways.into_iter().for_each(|way| self.deliver(way));
        }
    }
}

#[test]
fn a_consumer_at_a_follower_gets_its_messages_from_the_replica_there() {
    let (mut world, leader, follower) = World::filled(1, 20, 64);
    world.consume(follower, 0);
    world.rest(5);
    assert_eq!(world.got(follower), (0..20).collect::<Vec<_>>());
    let expected = LocalDeliveries {
        read: 20,
        read_bytes: 20 * 64,
        fetched: 0,
    };
    assert_eq!(world.local(follower), expected);
    // What comes back does so from there too.
    world.settle(follower, Outcome::Requeue { count: true });
    world.rest(20);
    assert_eq!(world.local(follower).read, 21);
    // A consumer next to the leader is served by it.
    world.consume(leader, 0);
    world.publish(leader);
    world.rest(20);
    assert_eq!(world.local(leader), LocalDeliveries::default());
    world.heal_and_drain();
    world.check();
}

#[test]
fn what_is_on_the_followers_disk_comes_in_order() {
    let (mut world, leader, follower) = World::filled(2, 12, 30_000);
    world.consume(follower, 0);
    for _ in 0..20 {
        world.read(leader);
        world.deliver_all();
    }
    assert_eq!(world.got(follower), [], "its disk was not read");
    let mut rounds = 0;
    while world.got(follower).len() < 12 {
        rounds += 1;
        assert!(rounds < 100, "{:?}", world.got(follower));
        world.rest(1);
    }
    assert_eq!(world.got(follower), (0..12).collect::<Vec<_>>());
    let local = world.local(follower);
    assert!(local.read > 0, "{local:?}");
    assert_eq!(local.fetched, 0);
}

#[test]
fn what_a_follower_does_not_have_any_more_comes_from_the_leader() {
    let (mut world, _, follower) = World::filled(3, 10, 64);
    // Its log has lost two of them, and the leader does not know.
    let log = world.log(follower);
    let running = world.nodes[follower].running.as_mut().expect("it runs");
    running.shard.logs.settle(log, 3..5, 128);
    world.consume(follower, 0);
    world.rest(5);
    assert_eq!(world.got(follower), (0..10).collect::<Vec<_>>());
    let local = world.local(follower);
    assert_eq!((local.read, local.fetched), (8, 2));
    let running = world.nodes[follower].running.as_ref().expect("it runs");
    let registered = running
        .shard
        .remote_queues
        .known(QUEUE)
        .expect("it is used");
    assert!(!registered.has_waiting_deliveries());
    world.heal_and_drain();
    world.check();
}

#[test]
fn a_follower_that_is_behind_is_sent_the_bytes() {
    let (mut world, leader, follower) = World::filled(4, 0, 64);
    world.consume(follower, 0);
    world.rest(5);
    // Its disk does nothing, the other two are a majority.
    let other = (0..3).find(|at| *at != leader && *at != follower);
    let other = other.expect("there are three");
    world.publish(leader);
    for _ in 0..10 {
        world.sync(leader);
        world.sync(other);
        world.deliver_all();
    }
    assert_eq!(world.got(follower), [0]);
    assert_eq!(world.local(follower), LocalDeliveries::default());
}

#[test]
fn a_node_without_a_member_is_sent_the_bytes() {
    let mut world = World::new(5, 3, spec(1));
    world.rest(5);
    world.publish(0);
    world.rest(5);
    world.consume(2, 0);
    world.rest(5);
    assert_eq!(world.got(2), [0]);
    assert_eq!(world.local(2), LocalDeliveries::default());
}

#[test]
fn what_is_not_acknowledged_is_sent_with_its_bytes() {
    let (mut world, _, follower) = World::filled(6, 3, 64);
    let consumer = Consumer {
        id: ConsumerId(9),
        priority: 0,
        exclusive: false,
        no_ack: true,
        prefetch: 0,
        timeout_ms: None,
    };
    let credit = ConsumerCredit {
        connection: std::sync::Arc::default(),
        limiter: None,
    };
    world.with(follower, |shard, now| {
        let attached = shard.attach(now, QUEUE, consumer, CLIENT, credit);
        attached.expect("it attaches");
    });
    world.rest(5);
    assert_eq!(world.got(follower), [0, 1, 2]);
    assert_eq!(world.local(follower), LocalDeliveries::default());
}

/// What a leader says to a node that asks for the first message.
fn fetch(world: &mut World, way: (usize, usize), consumer: ConsumerId) -> Vec<Event> {
    let (_, priority_log) = queue_of(world.log(way.0));
    let fetch = Command::Fetch {
        consumer,
        priority_log,
        index: 0,
    };
    say(world, way, &fetch)
}

/// What a leader says to a node in answer to a frame, that was not delivered before.
fn say(world: &mut World, (leader, from): (usize, usize), command: &Command) -> Vec<Event> {
    let running = world.nodes[from].running.as_ref().expect("it runs");
    let remote_queue = running
        .shard
        .remote_queues
        .known(QUEUE)
        .expect("it is used");
    let mut encoder = Encoder::to_leader(remote_queue.session());
    encoder.put_to_leader(command);
    let frame = Bytes::from(encoder.finish().remove(0).concat());
    let peer = world.nodes[from].id;
    world.with(leader, |shard, now| {
        shard.receive_peer(now, peer, QUEUE, frame);
    });
    answers(world, (leader, from))
}

/// What is on its way to a node's remote queue, taken off the way.
pub(super) fn answers(world: &mut World, way: (usize, usize)) -> Vec<Event> {
    let frames = world.ways.remove(&way).unwrap_or_default().into_iter();
    let bytes = frames.map(|frame| Bytes::from(frame.pieces.concat()));
    let decoded = bytes.filter_map(|bytes| decode_to_remote_queue(QUEUE, bytes).ok());
    decoded.flat_map(|frame| frame.messages).collect()
}

#[test]
fn a_leader_sends_what_is_asked_for_to_who_holds_it_and_nobody_else() {
    let (mut world, leader, follower) = World::filled(7, 12, 300_000);
    world.consume(follower, 1);
    world.rest(5);
    assert_eq!(world.got(follower), [0]);
    let running = world.nodes[follower].running.as_ref().expect("it runs");
    let subscription = running.consumer.expect("it consumes");
    // The leader does not have it in memory any more: others were read since.
    let log = world.log(leader);
    for index in 1..12 {
        let running = world.nodes[leader].running.as_mut().expect("it runs");
        running.shard.logs.read(log, index);
        world.read(leader);
    }
    // A get of the same node waits as well, and goes on to.
    let get = Command::Get {
        subscription: ConsumerId(78),
        no_ack: false,
    };
    let said = say(&mut world, (leader, follower), &get);
    assert!(said.is_empty(), "{said:?}");
    // Twice before its disk is read: it is answered once.
    for _ in 0..2 {
        let said = fetch(&mut world, (leader, follower), subscription);
        assert!(said.is_empty(), "{said:?}");
    }
    // There is room in memory for one of the two at a time.
    let mut said = Vec::new();
    for _ in 0..4 {
        world.read(leader);
        said.extend(answers(&mut world, (leader, follower)));
    }
    let is_first = |said: &Event| {
        matches!(said, Event::Fetched {
                consumer, index: 0, fetched: Fetched::Message(first), ..
            } if *consumer == subscription && number_of(first) == 0)
    };
    let is_got = |said: &Event| matches!(said, Event::Got { got: Some(_), .. });
    let got = said.iter().filter(|said| is_got(said)).count();
    let first = said.iter().filter(|said| is_first(said)).count();
    assert_eq!((said.len(), got, first), (2, 1, 1), "{said:?}");
    let said = fetch(&mut world, (leader, follower), ConsumerId(77));
    assert!(
        matches!(
            said[..],
            [Event::Fetched {
                fetched: Fetched::Gone,
                ..
            }]
        ),
        "{said:?}"
    );
}

#[test]
fn a_message_is_read_at_its_place_only_where_the_entry_is_that_brought_it() {
    let (mut world, _, follower) = World::filled(8, 3, 64);
    let (_, priority_log) = queue_of(world.log(follower));
    let (applied, term) = world.with_replica(follower, |replica, _| {
        (replica.group.last_applied(), replica.group.term())
    });
    let mut finds = |entry, term, bytes| {
        let delivery = LocalDelivery {
            consumer: ConsumerId(1),
            priority_log,
            index: 1,
            redelivered: false,
            delivery_count: None,
            acquired_count: None,
            bytes,
            entry,
            term,
        };
        let found = world.with(follower, |shard, _| shard.replica_message(QUEUE, &delivery));
        matches!(found, Found::Message(_))
    };
    assert!(finds(applied, term, 64));
    assert!(
        finds(applied - 1, 0, 64),
        "it is applied, whatever the term"
    );
    assert!(!finds(applied + 1, term, 64), "it has not come");
    assert!(!finds(applied, term, 65), "it is another message");
    // It has come and is not applied.
    let (leader, others) = (world.leader().expect("a leader"), [1, 2]);
    assert_ne!(leader, follower);
    let other = others.map(|further| (leader + further) % 3);
    let other = other.into_iter().find(|at| *at != follower).expect("one");
    world.cut_off(leader, other);
    world.cut_off(follower, other);
    world.publish(leader);
    world.sync(leader);
    while world
        .ways
        .get(&(leader, follower))
        .is_some_and(|way| !way.is_empty())
    {
        world.deliver((leader, follower));
    }
    let last = world.with_replica(follower, |replica, _| {
        assert!(replica.group.last_index() > replica.group.last_applied());
        replica.group.last_index()
    });
    let mut finds = |entry, term| {
        let position = Position {
            priority_log,
            index: 1,
        };
        world.with_replica(follower, |replica, _| replica.has((entry, term), position))
    };
    assert!(finds(last, term));
    assert!(
        !finds(last, term + 1) && !finds(last, term - 1),
        "another leader's"
    );
    assert!(!finds(last + 1, term));
}

#[test]
fn a_follower_counts_the_messages_and_bytes_that_the_leader_counts() {
    let (mut world, leader, follower) = World::filled(9, 7, 64);
    let counts = [leader, follower].map(|at| {
        let stats = world.with(at, |shard, now| shard.local_stats(now, QUEUE));
        let counts = stats.expect("it is here").counts;
        (counts.ready, counts.ready_bytes)
    });
    assert_eq!(counts[0].0, 7);
    assert!(counts[0].1 >= 7 * 64);
    assert_eq!(counts[0].0, counts[1].0);
    assert!(counts[1].1 >= 7 * 64, "{counts:?}");
}

#[test]
fn a_queue_counts_where_it_is_led_and_nowhere_else() {
    let (mut world, leader, follower) = World::filled(10, 7, 64);
    world.consume(leader, 2);
    world.rest(5);
    let seen = [leader, follower].map(|at| {
        let running = world.nodes[at].running.as_ref().expect("it runs");
        let leads = running.shard.replica_leads(QUEUE);
        assert_eq!(running.shard.replica_leads(QueueId(512)), None);
        (leads, running.shard.depths())
    });
    let [led, followed] = seen;
    let active = [leader, follower].map(|at| {
        let running = world.nodes[at].running.as_mut().expect("it runs");
        let once = running.shard.take_active();
        assert_eq!(running.shard.take_active(), [], "told once");
        once
    });
    assert_eq!(active, [vec![QUEUE], Vec::new()]);
    assert_eq!(led, (Some(true), vec![(QUEUE, [7, 5, 2])]));
    assert_eq!(followed, (Some(false), Vec::new()));
}

#[test]
fn a_leader_says_how_long_its_last_entry_took_to_be_committed() {
    let (mut world, leader, _) = World::filled(11, 1, 64);
    world.publish(leader);
    world.sync(leader);
    world.wait(7);
    for _ in 0..3 {
        world.deliver_all();
        (0..3).for_each(|at| world.sync(at));
    }
    let running = world.nodes[leader].running.as_ref().expect("it runs");
    let status = running.shard.replica_status(QUEUE).expect("it is here");
    assert_eq!(status.commit_ms, 7);
}
