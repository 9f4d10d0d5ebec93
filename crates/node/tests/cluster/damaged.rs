//! Replicas whose logs are damaged: they take no part until they have been taken out and added
//! anew, and then they are as good as any.

use crate::client;
use crate::world::World;
use leveret_types::NodeId;
use std::cell::Cell;

/// A queue of three members and three messages, and a node that does not lead it.
fn three_messages() -> (World, NodeId) {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.rest();
    world.send("a", client::say(&["declare", "q", "quorum"]));
    world.pass(1_000);
    for body in ["first", "perishable", "last"] {
        world.send("a", client::say(&["publish", "q", body]));
        world.pass(1_000);
    }
    world.heard();
    world.transfer("q", NodeId(1));
    assert_eq!(world.leader("q"), Some(NodeId(1)));
    (world, NodeId(3))
}

/// A node stops, and its disk is corrupted.
fn corruption(world: &mut World, node: NodeId) {
    world.kill(node);
    world.corruption(node, b"perishable");
}

/// The node's member is one of three again, has all messages, and can lead.
fn check_is_back(mut world: World, node: NodeId) {
    assert_eq!(world.voters("q"), [1, 2, 3]);
    world.transfer("q", node);
    assert_eq!(world.leader("q"), Some(node));
    world.kill(NodeId(1));
    world.pass(2_000);
    world.connect("c", node);
    world.rest();
    world.heard();
    for (got, body) in [
        ("c: got 1 left=2 ", "first"),
        ("c: got 2 left=1 ", "perishable"),
        ("c: got 3 left=0 ", "last"),
    ] {
        world.send("c", client::say(&["get", "q"]));
        world.pass(100);
        assert_eq!(world.heard(), format!("{got}{body}"));
    }
    // And it has them after a restart of all.
    (1..=3).map(NodeId).for_each(|node| world.kill(node));
    (1..=3).map(NodeId).for_each(|node| world.start(node));
    world.pass(5_000);
    assert!(world.has_replica("q", node));
    assert_eq!(world.voters("q"), [1, 2, 3]);
}

#[test]
fn a_damaged_replica_takes_no_part_and_comes_back_when_it_is_removed_and_added() {
    let (mut world, node) = three_messages();
    corruption(&mut world, node);
    world.start(node);
    world.pass(2_000);
    assert!(!world.has_replica("q", node), "it is damaged");
    world.shrink("q", node);
    assert_eq!(world.voters("q"), [1, 2]);
    world.grow("q", node);
    check_is_back(world, node);
}

#[test]
fn it_stays_out_over_restarts_and_comes_back_all_the_same() {
    let (mut world, node) = three_messages();
    corruption(&mut world, node);
    for _ in 0..2 {
        world.start(node);
        world.pass(2_000);
        assert!(!world.has_replica("q", node), "it is damaged");
        world.kill(node);
    }
    world.start(node);
    world.shrink("q", node);
    // What it was emptied to is what the next start finds, and not what was damaged.
    world.kill(node);
    world.start(node);
    world.grow("q", node);
    world.kill(node);
    world.start(node);
    world.pass(5_000);
    check_is_back(world, node);
}

#[test]
fn a_damaged_replica_that_was_removed_while_its_node_was_down_can_be_added_again() {
    let (mut world, node) = three_messages();
    corruption(&mut world, node);
    world.shrink("q", node);
    world.start(node);
    world.pass(2_000);
    assert!(!world.has_replica("q", node), "it is no member");
    world.grow("q", node);
    check_is_back(world, node);
}

#[test]
fn damaged_logs_are_not_taken_for_those_of_a_member_that_was_added_while_the_node_was_down() {
    let (mut world, node) = three_messages();
    corruption(&mut world, node);
    world.shrink("q", node);
    world.grow("q", node);
    world.start(node);
    world.pass(5_000);
    // They may be its own, of which it does not know any more what it has promised.
    assert!(!world.has_replica("q", node));
    world.shrink("q", node);
    world.grow("q", node);
    check_is_back(world, node);
}

#[test]
fn a_queue_that_is_deleted_leaves_nothing_of_a_damaged_replica() {
    let (mut world, node) = three_messages();
    corruption(&mut world, node);
    world.start(node);
    world.pass(2_000);
    assert!(!world.has_replica("q", node), "it is damaged");
    let logs = |world: &World| {
        let logs = Cell::new(0);
        world.nodes[&node].each_shard(world.now, |shard| {
            // The catalogue's own log has a number of its own.
            let all = shard.logs.log_ids();
            let own = all.filter(|log| log.0 > u64::from(u8::MAX)).count();
            logs.set(logs.get() + own);
        });
        logs.get()
    };
    assert!(logs(&world) > 0);
    world.send("a", client::say(&["delete", "q"]));
    world.pass(1_000);
    assert_eq!(world.heard(), "a: deleted 3");
    assert_eq!(logs(&world), 0);
}
