//! Two consumers that claim one message before a new leader.

use crate::client;
use crate::world::World;
use leveret_types::NodeId;

fn say(world: &mut World, name: &str, words: &[&str]) {
    world.send(name, client::say(words));
    world.rest();
}

/// Consumers at two nodes, counted from the leader's: the leader has lost sight of the node of "a",
/// which does not notice, and "b" has got what "a" held.
fn claimed_twice((lost, kept): (u32, u32)) -> (World, NodeId) {
    let mut world = World::new(3);
    world.connect("d", NodeId(1));
    world.rest();
    say(&mut world, "d", &["declare", "q", "quorum"]);
    world.pass(1_000);
    world.drop_client("d");
    let leader = world.leader("q").expect("it is led");
    let node = |offset| NodeId(1 + (leader.0 - 1 + offset) % 3);
    for (name, offset) in [("a", lost), ("b", kept)] {
        world.connect(name, node(offset));
        world.rest();
        say(&mut world, name, &["qos", "1"]);
    }
    say(&mut world, "a", &["consume", "q", "t"]);
    say(&mut world, "b", &["publish", "q", "m"]);
    say(&mut world, "b", &["consume", "q", "t"]);
    world.heard();
    world.lose(leader, node(lost));
    world.rest();
    assert_eq!(world.heard(), "b: deliver 1 again acquired=1 m");
    (world, leader)
}

/// Whichever of the two is next to the leader that follows, and speaks first.
#[test]
fn who_got_a_message_later_has_it_and_settles_it() {
    for places in [(1, 2), (2, 1)] {
        let (mut world, leader) = claimed_twice(places);
        world.kill(leader);
        world.pass(5_000);
        say(&mut world, "b", &["ack", "1"]);
        world.pass(1_000);
        world.drop_client("a");
        world.pass(1_000);
        assert_eq!(world.heard(), "", "{places:?}: it does not come again");
    }
}

/// What became of it before the leader that follows was there counts as well.
#[test]
fn who_got_a_message_later_may_have_settled_it_meanwhile() {
    for places in [(1, 2), (2, 1)] {
        let (mut world, leader) = claimed_twice(places);
        world.kill(leader);
        say(&mut world, "b", &["nack", "1", "requeue"]);
        world.pass(5_000);
        let heard = world.heard();
        assert!(
            heard.ends_with(": deliver 2 again acquired=2 m"),
            "{places:?}: {heard}"
        );
    }
}
