//! Members that come back with less than they acknowledged: they must not help to elect a leader
//! that lacks what is committed.

use crate::world::World;
use leveret_types::NodeId;
use leveret_types::limits::MEMBER_STUCK_MS;

const FIRST: NodeId = NodeId(1);
const SECOND: NodeId = NodeId(2);
const THIRD: NodeId = NodeId(3);

/// A queue of three members that the first node leads, and a publisher there.
fn led_by_the_first() -> World {
    let mut world = World::new(3);
    world.connect("a", FIRST);
    world.rest();
    world.say("a", "declare q quorum");
    world.pass(1_000);
    world.transfer("q", FIRST);
    world.say("a", "confirm");
    publish(&mut world, "a", 0..1);
    world
}

/// Publishes messages, all of which are confirmed.
fn publish(world: &mut World, client: &str, numbers: std::ops::Range<u32>) {
    world.pass(100);
    world.heard();
    for number in numbers.clone() {
        world.say(client, &format!("publish q m{number}"));
        world.pass(100);
    }
    let acks = world.heard().matches("ack").count();
    assert_eq!(acks, numbers.len());
}

#[test]
fn an_outdated_member_elects_nobody() {
    let mut world = led_by_the_first();
    // Messages that the second member has and the third has not.
    let copy = world.copy_of_disk(SECOND);
    world.kill(THIRD);
    publish(&mut world, "a", 1..5);
    for node in [FIRST, SECOND] {
        world.kill(node);
    }
    world.put_back(SECOND, copy);
    world.start(SECOND);
    world.find_outdated(SECOND);
    world.start(THIRD);
    world.pass(20_000);
    assert_eq!(world.leader("q"), None, "both lack what is committed");
    world.start(FIRST);
    world.pass(10_000);
    assert_eq!(world.leader("q"), Some(FIRST), "nobody else may");
    world.connect("c", THIRD);
    world.rest();
    world.heard();
    world.say("c", "declare q passive");
    world.pass(100);
    assert_eq!(world.heard(), "c: declared q 5 0");
}

#[test]
fn an_outdated_member_leads_nothing() {
    let mut world = led_by_the_first();
    world.find_outdated(FIRST);
    world.pass(5_000);
    let leader = world.leader("q").expect("two are left");
    assert_ne!(leader, FIRST);
    // Nor is it handed to it again.
    let queue = world.nodes[&leader].queue("q").expect("it is there");
    let now = world.now;
    world.nodes[&leader].each_shard(now, |shard| {
        let _ = shard.transfer_leader(now, queue, FIRST);
    });
    world.pass(5_000);
    assert_ne!(world.leader("q"), Some(FIRST));
    // It has what is written all the same.
    publish(&mut world, "a", 1..3);
    world.kill(leader);
    world.pass(10_000);
    assert_eq!(world.leader("q"), None, "one vote of three");
}

#[test]
fn a_member_that_lost_what_its_leader_knows_it_to_have_takes_no_part_until_it_is_replaced() {
    let mut world = led_by_the_first();
    let copy = world.copy_of_disk(THIRD);
    publish(&mut world, "a", 1..5);
    world.kill(THIRD);
    world.put_back(THIRD, copy);
    world.start(THIRD);
    world.pass(5_000);
    assert!(!world.has_replica("q", THIRD), "it is recognised");
    assert_eq!(world.unfit(THIRD), (1, 0));
    // A restart does not make it forget that, whoever leads then.
    world.kill(THIRD);
    world.start(THIRD);
    world.kill(FIRST);
    world.pass(20_000);
    assert!(!world.has_replica("q", THIRD));
    assert_eq!(world.leader("q"), None, "one vote of three");
    world.start(FIRST);
    world.pass(5_000);
    world.shrink("q", THIRD);
    world.grow("q", THIRD);
    world.pass(5_000);
    assert_eq!(world.voters("q"), [1, 2, 3]);
    assert_eq!(world.unfit(THIRD), (0, 0));
    world.transfer("q", THIRD);
    assert_eq!(world.leader("q"), Some(THIRD));
}

#[test]
fn a_member_whose_group_lost_what_was_committed_is_set_aside_with_its_messages() {
    let mut world = led_by_the_first();
    let copy = world.copy_of_disk(SECOND);
    world.kill(THIRD);
    publish(&mut world, "a", 1..5);
    world.isolate(FIRST);
    world.kill(SECOND);
    // Nobody finds out in time that the second's disk is an older copy.
    world.put_back(SECOND, copy);
    world.start(SECOND);
    world.start(THIRD);
    world.pass(10_000);
    world.drop_client("a");
    world.connect("c", THIRD);
    world.rest();
    world.say("c", "confirm");
    publish(&mut world, "c", 5..6);
    world.heal();
    world.pass(10_000);
    assert!(
        !world.has_replica("q", FIRST),
        "it has what the others lost"
    );
    assert_eq!(world.unfit(FIRST), (1, 0));
    publish(&mut world, "c", 6..7);
}

#[test]
fn a_leader_says_who_does_not_follow() {
    let mut world = led_by_the_first();
    assert_eq!(world.unfit(FIRST), (0, 0));
    world.syncing.remove(&THIRD);
    publish(&mut world, "a", 1..2);
    world.pass(MEMBER_STUCK_MS + 1_000);
    assert_eq!(world.unfit(FIRST), (0, 1));
    assert_eq!(world.unfit(SECOND), (0, 0));
    publish(&mut world, "a", 2..3);
    world.syncing.insert(THIRD);
    world.pass(2_000);
    assert_eq!(world.unfit(FIRST), (0, 0));
}
