//! Streams, as the queues of AMQP 0-9-1 clients. Those of nodes that only have a replica are in
//! `crates/shell/tests/it/cluster/streams.rs`.

use crate::script::check;
use crate::world::World;
use leveret_cluster::Env as _;
use leveret_cluster::streams::{StreamChange, StreamNews};
use leveret_node::env::{ConnectionEvent, Env as _};
use leveret_stream::Event;
use leveret_types::NodeId;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_stream_is_declared_found_and_deleted_at_any_node() {
    check(
        "a@1
         b@2
         a declare s x-queue-type=stream => a: declared s 0 0
         b declare s x-queue-type=stream => b: declared s 0 0
         b declare s passive => b: declared s 0 0
         kill 1
         start 1
         run 3000
         b declare s passive => b: declared s 0 0
         b delete s => b: deleted 0
         b declare s passive => b: close 404 NOT_FOUND - no queue 's' in vhost '/'",
    );
}

#[test]
fn what_a_stream_does_not_do_closes_the_connection() {
    let refused = |what: &str, said: &str| {
        check(&format!(
            "a@1
             a declare s x-queue-type=stream => a: declared s 0 0
             a {said} => a: closed 540 NOT_IMPLEMENTED - {what} not supported by stream queues \
             queue 's' in vhost '/'"
        ));
    };
    refused("basic.get", "get s");
    refused("queue.purge", "purge s");
}

#[test]
fn publishes_are_confirmed_once_the_stream_has_them() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a confirm => a: select-ok
         a publish s m0 m1 m2 => a: ack 3*
         a publish s m3 => a: ack 4
         a declare s passive => a: declared s 4 0
         a publish-mandatory nowhere m => a: returned 312 m, ack 5
         a publish-mandatory s m4 => a: ack 6
         kill 1
         start 1
         run 3000
         b@1
         b declare s passive => b: declared s 5 0
         b qos 9 => b: qos-ok
         b consume s t x-stream-offset=3 => b: consuming t, deliver 1 m3, deliver 2 m4",
    );
}

#[test]
fn one_message_goes_to_a_stream_and_to_a_queue() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a declare q => a: declared q 0 0
         a exchange e fanout => a: declare-ok
         a bind s e k => a: bind-ok
         a bind q e k => a: bind-ok
         a confirm => a: select-ok
         a publish-to e k m => a: ack 1
         a declare s passive => a: declared s 1 0
         a get q noack => a: got 1 left=0 m",
    );
}

#[test]
fn what_goes_to_several_streams_stays_in_the_order_of_each() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a declare t x-queue-type=stream x-queue-leader-locator=client-local => a: declared t 0 0
         a exchange e fanout => a: declare-ok
         a bind s e k => a: bind-ok
         a bind t e k => a: bind-ok
         a confirm => a: select-ok
         a publish s m0 & publish-to e k m1 & publish-to e k m2 & publish t m3 & publish-to e k m4 \
         & publish s m5 => a: ack 6*
         a qos 9 => a: qos-ok
         a consume s s x-stream-offset=first => a: consuming s, deliver 1 m0, deliver 2 m1, \
         deliver 3 m2, deliver 4 m4, deliver 5 m5
         a consume t t x-stream-offset=first => a: consuming t, deliver 6 m1, deliver 7 m2, \
         deliver 8 m3, deliver 9 m4",
    );
}

#[test]
fn behind_a_publish_that_streams_have_no_room_for_nothing_is_carried_out() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a declare q => a: declared q 0 0
         a confirm => a: select-ok
         fill-streams 1
         a publish s 1x300000 & publish q m
         run 1000
         b@1
         b declare q passive => b: declared q 0 0
         empty-streams 1 => a: ack 1, ack 2
         b declare q passive => b: declared q 1 0",
    );
}

#[test]
fn what_streams_had_no_room_for_is_published_when_the_client_closes() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         fill-streams 1
         a publish s m0 & publish s m1 & close-connection => a: close-ok
         drop a
         b@1
         b declare s passive => b: declared s 2 0
         c@1
         c publish s m2
         drop c
         b declare s passive => b: declared s 3 0",
    );
}

#[test]
fn a_consumer_reads_by_offset_and_each_settle_is_a_credit() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a publish s m0 m1 m2 m3 m4
         a qos 2 => a: qos-ok
         a consume s first x-stream-offset=first => a: consuming first, deliver 1 m0, deliver 2 m1
         a ack 1 => a: deliver 3 m2
         a nack 2 requeue => a: deliver 4 m3
         a reject 3 => a: deliver 5 m4
         a cancel first => a: cancel-ok first
         a ack 5 multiple
         a consume s next => a: consuming next
         a publish s m5 => a: deliver 6 m5
         a cancel next => a: cancel-ok next
         a consume s last x-stream-offset=last => a: consuming last, deliver 7 m5
         a cancel last => a: cancel-ok last
         a consume s two x-stream-offset=2 => a: consuming two, deliver 8 m2, deliver 9 m3
         a cancel two => a: cancel-ok two
         a consume s hour x-stream-offset=1h => a: consuming hour, deliver 10 m0, deliver 11 m1
         a close => a: close-ok",
    );
}

#[test]
fn what_consumers_of_a_stream_are_delivered_and_acknowledge_is_counted() {
    let mut world = World::new(1);
    world.connect("a", NodeId(1));
    world.rest();
    for words in [
        "declare s x-queue-type=stream",
        "publish s m0 m1 m2 m3 m4",
        "qos 3",
        "consume s t x-stream-offset=first",
        "ack 1",
        "ack 3 multiple",
        "reject 4",
        "cancel t",
        "ack 5",
    ] {
        world.say("a", words);
    }
    assert!(world.heard().contains("deliver 5 m4"));
    let counters = world.nodes[&NodeId(1)].env.counters();
    let counts = counters.stream_deliveries.get(world.id("s"));
    let counts = counts.expect("it was consumed");
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!(count(&counts.delivered), 5);
    assert_eq!(count(&counts.acknowledged), 4, "one was rejected");
    assert_eq!(count(&counts.delivered_auto_ack), 0);
}

#[test]
fn several_consumers_read_the_same_messages() {
    check(
        "a@1
         b@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a qos 9 => a: qos-ok
         b qos 9 => b: qos-ok
         a consume s t x-stream-offset=first => a: consuming t
         b consume s t exclusive x-stream-offset=first => b: consuming t
         a publish s m0 => a: deliver 1 m0; b: deliver 1 m0",
    );
}

#[test]
fn what_a_consumer_of_a_stream_may_not_ask_for_is_refused() {
    let refused = |words: &str, expected: &str| {
        check(&format!(
            "a@1
             a declare s x-queue-type=stream => a: declared s 0 0
             a qos 9 => a: qos-ok
             a consume s t {words} => a: {expected}"
        ));
    };
    refused(
        "noack",
        "closed 540 NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queue 's' \
         in vhost '/'",
    );
    refused(
        "x-priority=1",
        "close 406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue 's' in vhost '/' of \
         queue type rabbit_stream_queue",
    );
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a consume s t => a: close 406 PRECONDITION_FAILED - consumer prefetch count is not set \
         for stream queue 's' in vhost '/'",
    );
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a qos 9 global => a: qos-ok
         a consume s t => a: closed 540 NOT_IMPLEMENTED - queue 's' in vhost '/' does not support \
         global qos",
    );
}

#[test]
fn the_deletion_of_a_stream_cancels_its_consumers_and_leaves_no_confirm_behind() {
    check(
        "a@1
         b@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a publish s m0
         b qos 9 => b: qos-ok
         b consume s t x-stream-offset=first => b: consuming t, deliver 1 m0
         a delete s if-unused if-empty => a: deleted 0; b: cancelled t
         b ack 1
         a confirm => a: select-ok
         a publish s m1 => a: ack 1",
    );
}

#[test]
fn a_transaction_is_committed_once_its_streams_have_it() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a tx => a: select-ok
         a publish s m0 m1
         a commit => a: commit-ok
         a declare s passive => a: declared s 2 0",
    );
}

#[test]
fn a_stream_takes_dead_letters() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a declare q x-dead-letter-exchange= x-dead-letter-routing-key=s => a: declared q 0 0
         a publish q m0
         a get q => a: got 1 left=0 m0
         a reject 1
         a qos 9 => a: qos-ok
         a consume s t x-stream-offset=first => a: consuming t, deliver 2 m0",
    );
}

#[test]
fn a_dead_letter_that_a_stream_has_no_room_for_is_dropped_where_it_need_not_arrive() {
    check(
        "a@1
         a declare s x-queue-type=stream => a: declared s 0 0
         a declare q x-dead-letter-exchange= x-dead-letter-routing-key=s => a: declared q 0 0
         fill-streams 1
         a publish q m0
         a get q => a: got 1 left=0 m0
         a reject 1
         run 100
         empty-streams 1
         a declare s passive => a: declared s 0 0
         a publish q m1
         a get q => a: got 2 left=0 m1
         a reject 2
         a declare s passive => a: declared s 1 0",
    );
}

#[test]
fn a_dead_letter_that_must_arrive_goes_to_its_stream_again() {
    check(
        "a@1
         b@2
         a declare s x-queue-type=stream => a: declared s 0 0
         b declare q x-queue-type=quorum x-dead-letter-exchange= x-dead-letter-routing-key=s \
         x-dead-letter-strategy=at-least-once x-overflow=reject-publish => b: declared q 0 0
         b publish q m0
         run 1000
         fill-streams 1
         fill-streams 2
         fill-streams 3
         b get q => b: got 1 left=0 m0
         b reject 1
         run 1000
         empty-streams 1
         empty-streams 2
         empty-streams 3
         run 20000
         a declare s passive => a: declared s 1 0",
    );
}

/// A stream on node 2, and clients of node 1 that reach it, in confirm mode and with a transaction.
fn led_by_the_second() -> World {
    let mut world = World::new(3);
    world.connect("b", NodeId(2));
    world.rest();
    let declare = "declare s x-queue-type=stream x-queue-leader-locator=client-local";
    world.say("b", declare);
    for (name, mode) in [("a", "confirm"), ("t", "tx")] {
        world.connect(name, NodeId(1));
        world.rest();
        world.say(name, mode);
        world.say(name, "publish s m1");
    }
    world.heard();
    world.say("t", "commit");
    assert_eq!(world.heard(), "t: commit-ok");
    world
}

/// Node 1 hears that another node leads the stream, before anybody else does.
fn say_that_it_moved(world: &World, to: NodeId) {
    let change = StreamChange::Elsewhere(world.id("s"), to);
    world.nodes[&NodeId(1)].env.follow_stream(change);
}

#[test]
fn what_a_stream_had_not_answered_when_it_moved_is_refused_and_never_confirmed() {
    let mut world = led_by_the_second();
    world.stop(NodeId(2));
    world.say("a", "publish s m2 m3");
    assert_eq!(world.heard(), "");
    say_that_it_moved(&world, NodeId(3));
    world.say("a", "publish s m4");
    assert_eq!(world.heard(), "a: nack 4");
    world.blink(NodeId(1), NodeId(2));
    world.rest();
    assert_eq!(world.heard(), "a: nack 3*");
    world.wake(NodeId(2));
    world.look(NodeId(2));
    world.pass(1_000);
    say_that_it_moved(&world, NodeId(2));
    world.say("a", "publish s m5");
    assert_eq!(world.heard(), "a: ack 5");
}

#[test]
fn a_transaction_of_which_a_stream_takes_a_part_or_nothing_is_not_committed() {
    const PARTLY: &str = "t: close 406 PRECONDITION_FAILED - partial tx completion";
    let mut lost = led_by_the_second();
    lost.stop(NodeId(2));
    lost.say("t", "publish s m2");
    lost.say("t", "commit");
    assert_eq!(lost.heard(), "");
    lost.blink(NodeId(1), NodeId(2));
    lost.rest();
    assert_eq!(lost.heard(), PARTLY);

    let mut refused = led_by_the_second();
    say_that_it_moved(&refused, NodeId(3));
    refused.say("t", "publish s m2 m3");
    refused.say("t", "commit");
    assert_eq!(refused.heard(), PARTLY);
}

/// The client at node 1 hears that the leader of its stream is lost.
fn lose_leader(world: &mut World, client: &str) {
    let stream = world.id("s");
    let news = StreamNews::Event(Event::Lost { stream });
    let connection = world.clients[client].connection;
    let env = &world.nodes[&NodeId(1)].env;
    env.post(connection, ConnectionEvent::Stream(news));
    world.rest();
}

#[test]
fn a_lost_stream_keeps_no_reader_of_a_consumer_and_answers_one_that_waits() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.rest();
    for words in [
        "declare s x-queue-type=stream x-queue-leader-locator=client-local",
        "qos 9",
        "consume s t x-stream-offset=first",
    ] {
        world.say("a", words);
    }
    world.heard();
    let readers = |world: &World| world.nodes[&NodeId(1)].stream_readers("s");
    assert_eq!(readers(&world), Some(1));
    lose_leader(&mut world, "a");
    assert_eq!(world.heard(), "a: cancelled t");
    assert_eq!(readers(&world), Some(0));

    world.nodes[&NodeId(1)].env.fill_streams(true);
    world.say("a", "consume s u x-stream-offset=first");
    assert_eq!(world.heard(), "");
    lose_leader(&mut world, "a");
    assert_eq!(
        world.heard(),
        "a: close 406 PRECONDITION_FAILED - the stream is not available: its leader is lost"
    );
}
