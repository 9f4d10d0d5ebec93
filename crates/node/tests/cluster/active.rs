//! Quorum queues with a single active consumer.

use crate::client;
use crate::script::check;
use crate::world::World;
use leveret_cluster::Env as _;
use leveret_types::NodeId;

/// The nodes of the active consumer and of the waiting one, counted from the leader's.
const PLACES: [(u32, u32); 6] = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];

fn say(world: &mut World, name: &str, words: &[&str]) {
    world.send(name, client::say(words));
    world.rest();
}

/// Declares a queue in a cluster; answers its leader.
fn declared(world: &mut World) -> NodeId {
    world.connect("d", NodeId(1));
    world.rest();
    let arguments = ["declare", "q", "quorum", "x-single-active-consumer=true"];
    say(world, "d", &arguments);
    world.pass(1_000);
    world.drop_client("d");
    world.leader("q").expect("it is led")
}

/// Consumers at two nodes: "a" is the active one and holds m1, "b" waits.
fn consume(world: &mut World, active: NodeId, waiting: NodeId) {
    for (name, node) in [("a", active), ("b", waiting)] {
        world.connect(name, node);
        world.rest();
        say(world, name, &["qos", "1"]);
        say(world, name, &["consume", "q", "t"]);
    }
    world.heard();
    say(world, "b", &["publish", "q", "m1", "m2"]);
    assert_eq!(world.heard(), "a: deliver 1 m1");
}

/// A cluster in which both are at nodes that are counted from the leader's.
fn one_active((active, waiting): (u32, u32)) -> (World, NodeId) {
    let mut world = World::new(3);
    let leader = declared(&mut world);
    let node = |offset| NodeId(1 + (leader.0 - 1 + offset) % 3);
    consume(&mut world, node(active), node(waiting));
    (world, leader)
}

/// Acknowledges what "a" holds, and sees that it is the active consumer as long as it is there.
fn stays_active(world: &mut World) {
    assert_eq!(world.heard(), "", "nobody else gets what waits");
    say(world, "a", &["ack", "1"]);
    // The leader before may have delivered it.
    assert_eq!(world.heard(), "a: deliver 2 again m2");
    say(world, "a", &["ack", "2"]);
    world.pass(1_000);
}

fn is_followed(world: &mut World) {
    say(world, "b", &["publish", "q", "m3"]);
    assert_eq!(world.heard(), "a: deliver 3 m3");
    say(world, "a", &["cancel", "t"]);
    assert_eq!(world.heard(), "a: cancel-ok t");
    say(world, "b", &["publish", "q", "m4"]);
    assert_eq!(world.heard(), "b: deliver 1 m4");
}

#[test]
fn the_active_consumer_stays_it_when_the_leader_dies() {
    for places in PLACES.into_iter().filter(|(a, b)| a * b > 0) {
        let (mut world, leader) = one_active(places);
        world.kill(leader);
        world.pass(6_000);
        stays_active(&mut world);
        is_followed(&mut world);
    }
}

#[test]
fn the_active_consumer_stays_it_when_another_leads() {
    for places in PLACES {
        for offset in 0..2 {
            let (mut world, leader) = one_active(places);
            let to = |offset| NodeId(1 + (leader.0 + offset) % 3);
            world.transfer("q", to(offset));
            stays_active(&mut world);
            // It holds nothing now.
            world.transfer("q", to(1 - offset));
            is_followed(&mut world);
        }
    }
}

/// Its node is up for all that the new leader knows.
#[test]
fn an_active_consumer_of_which_nothing_is_heard_is_followed_in_time() {
    let mut world = World::new(4);
    let leader = declared(&mut world);
    let (silent, other) = world.outsider_and_follower("q");
    consume(&mut world, silent, other);
    world.mute.insert(silent);
    world.kill(leader);
    world.pass(4_000);
    assert_eq!(world.heard(), "");
    world.pass(6_000);
    assert_eq!(world.heard(), "b: deliver 1 again m1");
}

#[test]
fn a_queue_with_a_single_active_consumer_is_not_got_from() {
    check(
        "a@2
         a declare q quorum x-single-active-consumer=true => a: declared q 0 0
         a declare c x-single-active-consumer=true => a: declared c 0 0
         a publish c m1
         a get c => a: got 1 left=0 m1
         a get q => a: close 405 RESOURCE_LOCKED - cannot obtain access to locked queue 'q' \
         in vhost '/'. basic.get operations are not supported by quorum queues with single \
         active consumer",
    );
}

/// What the node of a client says of its only consumer.
fn single_active(world: &World, name: &str) -> Option<bool> {
    let client = &world.clients[name];
    let node = &world.nodes[&client.node];
    let status = node.connections[&client.connection].status();
    let consumer = &status.consumers[0];
    let shard = node.env.shard(node.env.shard_of(consumer.queue));
    shard.single_active(consumer.queue, consumer.id)
}

#[test]
fn who_is_the_active_consumer_is_known_at_its_node() {
    for places in PLACES {
        let (mut world, leader) = one_active(places);
        let active = |world: &World| ["a", "b"].map(|name| single_active(world, name));
        assert_eq!(active(&world), [Some(true), Some(false)]);
        world.transfer("q", NodeId(1 + leader.0 % 3));
        assert_eq!(active(&world), [Some(true), Some(false)]);
        say(&mut world, "a", &["cancel", "t"]);
        assert_eq!(single_active(&world, "b"), Some(true));
    }
}

#[test]
fn who_is_the_active_consumer_of_a_classic_queue_is_known_at_its_node() {
    let mut world = World::new(3);
    for (name, node) in [("a", 1), ("b", 2), ("c", 3)] {
        world.connect(name, NodeId(node));
        world.rest();
    }
    let arguments = ["declare", "q", "x-single-active-consumer=true"];
    say(&mut world, "a", &arguments);
    for name in ["c", "a", "b"] {
        say(&mut world, name, &["consume", "q", "t"]);
    }
    let active = |world: &World| ["a", "b", "c"].map(|name| single_active(world, name));
    assert_eq!(active(&world), [Some(false), Some(false), Some(true)]);
    world.drop_client("c");
    world.rest();
    assert_eq!(single_active(&world, "a"), Some(true));
    say(&mut world, "a", &["cancel", "t"]);
    assert_eq!(single_active(&world, "b"), Some(true));
    say(&mut world, "a", &["declare", "p"]);
    say(&mut world, "a", &["consume", "p", "t"]);
    assert_eq!(single_active(&world, "a"), None, "p has no such rule");
}
