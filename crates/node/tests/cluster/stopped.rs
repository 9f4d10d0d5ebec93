//! A process that is stopped for a while (SIGSTOP, a machine that is suspended) and goes on from an
//! old state.

use crate::world::World;
use leveret_types::NodeId;
use leveret_types::limits::{LEADER_LEASE_MS, LOG_STUCK_MS, PEER_SILENCE_MS_MAX};

const LEADER: NodeId = NodeId(1);

/// Three nodes; node 1 leads, and a client of its own holds one of three messages there.
fn led_by_the_first() -> World {
    let mut world = World::new(3);
    world.connect("a", LEADER);
    world.connect("b", NodeId(2));
    world.rest();
    world.say("a", "declare q quorum");
    world.pass(1_000);
    world.transfer("q", LEADER);
    for words in ["confirm", "qos 1", "consume q t", "publish q m1 m2 m3"] {
        world.say("a", words);
    }
    let heard = world.heard();
    assert!(
        heard.contains("deliver 1 m1") && !heard.contains("m2"),
        "{heard}"
    );
    world
}

#[test]
fn a_leader_that_was_stopped_delivers_nothing_before_it_has_heard_of_the_others() {
    let mut world = led_by_the_first();
    world.connect("c", LEADER);
    world.rest();
    world.heard();
    world.stop(LEADER);
    world.pass(PEER_SILENCE_MS_MAX + 100);
    world.give_up(LEADER);
    world.pass(2_000);
    world.say("b", "get q");
    world.say("b", "get q");
    assert_eq!(
        world.heard(),
        "b: got 1 left=2 again m1, got 2 left=1 again m2"
    );
    world.say("b", "ack 2 multiple");
    world.pass(100);

    world.wake(LEADER);
    assert_eq!(world.leader("q"), Some(LEADER), "it knows no better");
    world.say("c", "get q");
    world.say("a", "ack 1");
    assert_eq!(world.heard(), "", "the others have settled both");
    world.look(LEADER);
    world.pass(2_000);
    assert_eq!(
        world.heard(),
        "a: deliver 2 again m3; c: get-empty",
        "what the others left"
    );
}

#[test]
fn a_leader_that_was_stopped_makes_no_room_for_a_message_by_delivering_another() {
    let mut world = World::new(3);
    world.connect("a", LEADER);
    world.connect("b", NodeId(2));
    world.rest();
    world.say(
        "a",
        "declare q quorum x-max-length=2 x-overflow=reject-publish",
    );
    world.pass(1_000);
    world.transfer("q", LEADER);
    for words in [
        "confirm",
        "qos 1",
        "publish q m1",
        "publish q m2",
        "consume q t",
    ] {
        world.say("a", words);
    }
    let heard = world.heard();
    assert!(heard.contains("deliver 1 m1"), "{heard}");
    world.say("a", "publish q m3");
    world.heard();
    world.stop(LEADER);
    world.pass(PEER_SILENCE_MS_MAX + 100);
    world.give_up(LEADER);
    world.pass(2_000);
    world.wake(LEADER);
    assert_eq!(world.leader("q"), Some(LEADER), "it knows no better");
    world.say("a", "ack 1");
    world.say("a", "publish q m4");
    assert_eq!(world.heard(), "", "m2 may be with somebody else");
    world.look(LEADER);
    world.pass(2_000);
    assert!(world.heard().contains("deliver 2 again m2"));
}

#[test]
fn a_leader_delivers_while_the_others_cannot_have_given_it_up() {
    for (late, expected) in [(0, "a: deliver 2 m2"), (1, "")] {
        let mut world = led_by_the_first();
        world.drowse(LEADER);
        world.pass(LEADER_LEASE_MS + late);
        world.say("a", "ack 1");
        assert_eq!(world.heard(), expected, "{late} ms too late");
        world.look(LEADER);
        world.pass(2_000);
        let rest = world.heard();
        assert_eq!(
            rest.is_empty(),
            late == 0,
            "nothing is held for ever: {rest}"
        );
    }
}

#[test]
fn a_queue_with_one_member_asks_nobody() {
    let mut world = led_by_the_first();
    for other in [2, 3] {
        world.shrink("q", NodeId(other));
    }
    assert_eq!(world.voters("q"), [1]);
    world.heard();
    world.drowse(LEADER);
    world.pass(10 * PEER_SILENCE_MS_MAX);
    world.say("a", "ack 1");
    assert_eq!(world.heard(), "a: deliver 2 m2");
}

#[test]
fn a_cluster_of_which_all_nodes_were_stopped_goes_on() {
    let mut world = led_by_the_first();
    let all = [1, 2, 3].map(NodeId);
    all.into_iter().for_each(|node| world.stop(node));
    world.pass(60_000);
    all.into_iter().for_each(|node| world.wake(node));
    all.into_iter().for_each(|node| world.look(node));
    world.say("a", "ack 1");
    world.say("a", "publish q m4");
    world.pass(2_000);
    assert_eq!(world.heard(), "a: deliver 2 again m2, ack 4");
}

/// The disk of a queue's leader takes nothing any more, and its node goes on.
#[test]
fn a_leader_whose_disk_is_stuck_hands_over() {
    for publishes_before in [false, true] {
        let mut world = World::new(3);
        world.connect("a", LEADER);
        world.connect("b", NodeId(2));
        world.rest();
        world.say("a", "declare q quorum");
        world.pass(1_000);
        world.transfer("q", LEADER);
        world.say("b", "confirm");
        world.heard();
        world.syncing.remove(&LEADER);
        if publishes_before {
            // In the log of the leader, not on its disk.
            world.say("a", "publish q m0");
        }
        world.say("b", "publish q m1");
        world.pass(LOG_STUCK_MS + 1_000);
        assert_ne!(world.leader("q"), Some(LEADER));
        assert_eq!(world.heard(), "b: ack 1");
        world.say("b", "publish q m2");
        world.pass(100);
        assert_eq!(world.heard(), "b: ack 2", "two disks are enough");
        // What it acknowledges is there once it can write again.
        world.syncing.insert(LEADER);
        world.pass(1_000);
        world.kill(world.leader("q").expect("it is led"));
        world.pass(6_000);
        let other = world.leader("q").expect("two are left");
        world.connect("c", other);
        world.rest();
        world.heard();
        world.say("c", "declare q passive");
        let count = 2 + u32::from(publishes_before);
        assert_eq!(world.heard(), format!("c: declared q {count} 0"));
    }
}

#[test]
fn a_drive_that_stalls_for_all_moves_no_leader() {
    for publishes in [false, true] {
        let mut world = led_by_the_first();
        world.heard();
        world.syncing.clear();
        if publishes {
            world.say("a", "publish q m4");
        }
        world.pass(5 * LOG_STUCK_MS);
        assert_eq!(world.leader("q"), Some(LEADER));
        world.syncing.extend((1..=3).map(NodeId));
        world.pass(1_000);
        assert_eq!(world.leader("q"), Some(LEADER));
        let confirmed = if publishes { "a: ack 4" } else { "" };
        assert_eq!(world.heard(), confirmed);
    }
}

#[test]
fn a_follower_whose_disk_is_stuck_holds_nobody_up() {
    let mut world = led_by_the_first();
    world.heard();
    world.syncing.remove(&NodeId(3));
    for (at, body) in [(4, "m4"), (5, "m5")] {
        world.say("a", &format!("publish q {body}"));
        assert_eq!(world.heard(), format!("a: ack {at}"));
        world.pass(2 * LOG_STUCK_MS);
    }
    assert_eq!(world.leader("q"), Some(LEADER));
}
