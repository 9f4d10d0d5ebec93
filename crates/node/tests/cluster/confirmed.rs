//! The node's metrics of messages that were confirmed, or refused: whose publishers were told so,
//! wherever the queue is that has the last word; and how long that took.

use crate::script::play_on;
use crate::world::World;
use leveret_node::{Caller, Env as _, operator};
use leveret_types::message::MessageSummary;
use leveret_types::{ConnectionId, Message, MessageParts, NodeId};

/// How many messages count as confirmed at a node, and how many as refused.
fn answered(world: &World, node: u32) -> (u64, u64) {
    let counters = world.nodes[&NodeId(node)].env.counters().values();
    (counters.messages_confirmed, counters.messages_refused)
}

#[test]
fn what_a_queue_refuses_counts_as_refused_and_not_as_confirmed_at_any_node() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "a@1
         b@2
         line c@3
         a declare q quorum x-max-length=1 x-overflow=reject-publish => a: declared q 0 0
         a declare p x-max-length=1 x-overflow=reject-publish => a: declared p 0 0
         run 1000
         a confirm => a: select-ok
         b confirm => b: select-ok
         a publish q m1 => a: ack 1
         a publish q m2 => a: nack 2
         b publish q m3 => b: nack 1
         c publish - q m4 => c: rejected 1
         a publish p m5 => a: ack 3
         a publish p m6 => a: nack 4
         b publish p m7 => b: nack 2
         b publish nothing m8 => b: ack 3
         c publish - nothing m9 => c: returned m9, confirmed 2",
    );
    let counted = [1, 2, 3].map(|node| answered(&world, node));
    assert_eq!(counted, [(2, 2), (1, 2), (1, 1)]);
}

/// One of several queues refuses it: then its publisher is told so, whatever the others have.
#[test]
fn what_one_of_its_queues_refuses_counts_as_refused_once() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "a@1
         b@2
         a declare full quorum x-max-length=1 x-overflow=reject-publish => a: declared full 0 0
         a declare free quorum => a: declared free 0 0
         a exchange all fanout => a: declare-ok
         a bind full all => a: bind-ok
         a bind free all => a: bind-ok
         run 1000
         b confirm => b: select-ok
         b publish-to all k m1 => b: ack 1
         b publish-to all k m2 => b: nack 2",
    );
    assert_eq!(answered(&world, 2), (1, 1));
}

/// Nobody will take what is for a classic queue until its node is back.
#[test]
fn what_a_queue_without_its_node_refuses_counts_as_refused() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "a@1
         b@2
         a declare p => a: declared p 0 0
         b confirm => b: select-ok
         b publish p m1 => b: ack 1
         kill 1
         b publish p m2 => b: nack 2",
    );
    assert_eq!(answered(&world, 2), (1, 1));
}

#[test]
fn what_is_not_committed_does_not_count_as_confirmed_yet() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "b@2
         b declare q quorum => b: declared q 0 0
         run 1000
         b confirm => b: select-ok
         stall 1
         stall 3
         b publish q m1 m2
         run 1000",
    );
    assert_eq!(answered(&world, 2), (0, 0));
    play_on(&mut world, "unstall 3\n run 1000 => b: ack 2*");
    assert_eq!(answered(&world, 2), (2, 0));
}

#[test]
fn how_long_confirms_deliveries_and_acknowledgements_take_is_counted_for_each_kind_of_queue() {
    let mut world = World::new(3);
    let counted = |world: &World| {
        let counters = world.nodes[&NodeId(1)].env.counters().values();
        let latencies = [counters.confirms, counters.waits, counters.acknowledgements];
        latencies.map(|of| (of.count, of.total_ms))
    };
    play_on(
        &mut world,
        "a@1
         a declare c => a: declared c 0 0
         a declare q quorum => a: declared q 0 0
         a declare s x-queue-type=stream => a: declared s 0 0
         run 1000
         a confirm => a: select-ok
         stall 1
         a publish c m1
         run 40
         unstall 1 => a: ack 1",
    );
    assert_eq!(counted(&world), [(1, 40), (0, 0), (0, 0)], "of a log");
    play_on(&mut world, "a publish s m2 => a: ack 2");
    assert_eq!(counted(&world)[0], (2, 40), "of a stream, at once");
    play_on(
        &mut world,
        "stall 2
         stall 3
         a publish q m3
         run 40
         unstall 2 => a: ack 3",
    );
    assert_eq!(counted(&world)[0], (3, 80), "of a majority");
    play_on(
        &mut world,
        "a consume c t => a: consuming t, deliver 1 m1
         a consume q u => a: consuming u, deliver 2 m3
         run 15
         a ack 2
         run 20
         a ack 1",
    );
    // The first waited for the second and third publish, 40 ms longer than that one.
    let waited = counted(&world)[1];
    assert_eq!((waited.0, waited.1 >= 40), (2, true), "{waited:?}");
    assert_eq!(counted(&world)[2], (2, 15 + 35));
    // What comes again, or stays in a stream, waits for nobody.
    play_on(
        &mut world,
        "run 500
         a publish c m4 => a: deliver 3 m4, ack 4
         run 100
         a nack 3 requeue => a: deliver 4 again m4",
    );
    assert_eq!(counted(&world)[1], (3, waited.1));
}

/// An operator publishes through the management interface, and is told what the queue said.
#[test]
fn what_an_operator_puts_into_a_full_queue_of_the_cluster_is_not_confirmed() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "a@1
         a declare q quorum x-max-length=1 x-overflow=reject-publish => a: declared q 0 0
         run 1000",
    );
    let parts = MessageParts {
        exchange: b"",
        routing_key: b"q",
        properties: &[0, 0],
        body: b"m",
    };
    let message = Message::from_parts(parts, MessageSummary::default());
    let put = |world: &mut World| {
        let (queue, now) = (world.id("q"), world.now);
        let published = operator::put(&message, queue, now, &world.nodes[&NodeId(2)].env);
        assert_eq!(published.is_taken(), None, "its leader has not said");
        world.rest();
        let taken = published.is_taken();
        published.told(&world.nodes[&NodeId(2)].env);
        taken
    };
    assert_eq!(put(&mut world), Some(true));
    assert_eq!(put(&mut world), Some(false));
    assert_eq!(answered(&world, 2), (1, 1));
}

/// What lives with its node's process is as good as gone with it. A message that another queue
/// has stays there, for it may be the only one.
#[test]
fn what_an_operator_publishes_to_a_queue_that_went_with_its_node_is_not_routed() {
    for kind in ["exclusive", "transient"] {
        let mut world = World::new(3);
        play_on(
            &mut world,
            &format!("b@2\n b declare s {kind} => b: declared s 0 0"),
        );
        let queue = world.id("s");
        let parts = MessageParts {
            exchange: b"",
            routing_key: b"s",
            properties: &[0, 0],
            body: b"m",
        };
        let message = Message::from_parts(parts, MessageSummary::default());
        let caller = Caller {
            connection: ConnectionId(u64::MAX),
            vhost: "/".to_owned(),
            rights: None,
        };
        let publish = |world: &mut World| {
            let env = &world.nodes[&NodeId(1)].env;
            let published = caller.publish(&message, world.now, env).unwrap();
            world.rest();
            (published.is_routed, published.is_taken())
        };
        assert_eq!(publish(&mut world), (true, Some(true)));
        play_on(&mut world, "kill 2");
        assert_eq!(publish(&mut world), (false, Some(true)), "{kind}");
        let put = operator::put(&message, queue, world.now, &world.nodes[&NodeId(1)].env);
        assert_eq!(put.is_taken(), Some(false), "{kind}");
    }
}
