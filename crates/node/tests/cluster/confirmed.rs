//! The node's metrics of confirmed messages: those whose publishers were told so, wherever the
//! queue is that has the last word; and how long that took.

use crate::script::play_on;
use crate::world::World;
use leveret_node::{Env as _, operator};
use leveret_types::message::MessageSummary;
use leveret_types::{Message, MessageParts, NodeId};

fn confirmed(world: &World, node: u32) -> u64 {
    let counters = world.nodes[&NodeId(node)].env.counters();
    counters.values().messages_confirmed
}

#[test]
fn what_a_queue_refuses_does_not_count_as_confirmed_at_any_node() {
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
    assert_eq!([1, 2, 3].map(|node| confirmed(&world, node)), [2, 1, 1]);
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
    assert_eq!(confirmed(&world, 2), 0);
    play_on(&mut world, "unstall 3\n run 1000 => b: ack 2*");
    assert_eq!(confirmed(&world, 2), 2);
}

#[test]
fn how_long_confirms_and_acknowledgements_take_is_counted_for_each_kind_of_queue() {
    let mut world = World::new(3);
    let counted = |world: &World| {
        let counters = world.nodes[&NodeId(1)].env.counters().values();
        let [confirms, acknowledgements] = [counters.confirms, counters.acknowledgements];
        [confirms, acknowledgements].map(|of| (of.count, of.total_ms))
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
    assert_eq!(counted(&world), [(1, 40), (0, 0)], "of a log");
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
    assert_eq!(counted(&world)[1], (2, 15 + 35));
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
    assert_eq!(confirmed(&world, 2), 1);
}
