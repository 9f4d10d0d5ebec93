//! Classic queues, which live on one node and are reached from all.

use crate::client;
use crate::script::check;
use crate::world::World;
use leveret_types::NodeId;

#[test]
fn a_queue_is_declared_published_to_consumed_and_deleted_at_any_node() {
    check(
        "a@1
         b@2
         c@3
         a declare q => a: declared q 0 0
         b declare q passive => b: declared q 0 0
         b confirm => b: select-ok
         b publish q m1 m2 => b: ack 2*
         a declare q passive => a: declared q 2 0
         c consume q t => c: consuming t, deliver 1 m1, deliver 2 m2
         b declare q passive => b: declared q 0 1
         c ack 1
         c nack 2 requeue => c: deliver 3 again m2
         c ack 3
         c cancel t => c: cancel-ok t
         a publish q m3
         b get q => b: got 1 left=0 m3
         b ack 1
         c get q => c: get-empty
         a publish q m4 m5
         c purge q => c: purged 2
         c consume q u => c: consuming u
         b delete q if-unused => b: close 406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use
         a delete q => a: deleted 0; c: cancelled u",
    );
}

#[test]
fn what_a_consumer_on_another_node_held_returns_when_it_or_its_node_goes() {
    check(
        "a@1
         b@2
         c@3
         a declare q => a: declared q 0 0
         b consume q t => b: consuming t
         a publish q m1 m2 => b: deliver 1 m1, deliver 2 m2
         drop b
         c consume q u => c: consuming u, deliver 1 again m1, deliver 2 again m2
         kill 3
         a get q => a: got 1 left=1 again m1",
    );
}

#[test]
fn a_queue_whose_node_is_down_refuses_and_its_consumers_are_cancelled() {
    check(
        "a@1
         b@2
         a declare q => a: declared q 0 0
         b confirm => b: select-ok
         b publish q m1 => b: ack 1
         b consume q t => b: consuming t, deliver 1 m1
         kill 1 => b: cancelled t
         b publish q m2 => b: nack 2
         b get q => b: close 404 NOT_FOUND - home node '1' of queue 'q' in vhost '/' is down or \
         inaccessible
         start 1
         c@3
         c get q => c: got 1 left=0 again m1",
    );
}

#[test]
fn what_a_client_publishes_right_before_it_closes_is_there() {
    for (close, at) in [
        ("close", 1),
        ("close", 2),
        ("close-connection", 1),
        ("close-connection", 2),
    ] {
        let mut world = World::new(3);
        world.connect("a", NodeId(1));
        world.connect("b", NodeId(at));
        world.say("a", "declare q");
        world.heard();
        // One read of the socket has it all.
        let words = ["publish", "q", "m1", "m2"];
        world.send("b", [client::say(&words), client::say(&[close])].concat());
        world.pass(1_000);
        world.heard();
        world.say("a", "get q");
        world.pass(1_000);
        assert_eq!(world.heard(), "a: got 1 left=1 m1", "{close} at node {at}");
    }
}

#[test]
fn what_is_behind_a_publish_that_fails_never_happened() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.connect("b", NodeId(1));
    world.say("a", "declare q");
    world.heard();
    let (bad, good) = (["publish-to", "no-such", "q", "m1"], ["publish", "q", "m2"]);
    world.send("b", [client::say(&bad), client::say(&good)].concat());
    world.pass(1_000);
    assert!(world.heard().contains("404"));
    world.say("a", "get q");
    assert_eq!(world.heard(), "a: get-empty");
}
