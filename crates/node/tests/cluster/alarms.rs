//! Alarms of one node, and the publishers at the others.

use crate::world::World;
use leveret_cluster::blocked_streams;
use leveret_node::Alarms;
use leveret_types::NodeId;

const LEADER: NodeId = NodeId(1);
const NONE: Alarms = Alarms {
    memory: false,
    disk: false,
    memory_full: false,
};
const MEMORY: Alarms = Alarms {
    memory: true,
    ..NONE
};
const DISK: Alarms = Alarms { disk: true, ..NONE };

/// Three nodes; node 1 leads `q` and has the classic queue `there`, clients are connected to 2, and
/// node 2 has the classic queue `here`.
fn world() -> World {
    let mut world = World::new(3);
    for (client, node) in [("a", 2), ("b", 2), ("c", 1)] {
        world.connect(client, NodeId(node));
    }
    world.rest();
    world.say("c", "declare q quorum");
    world.say("c", "declare there");
    world.say("a", "declare here");
    world.say("a", "confirm");
    world.pass(1_000);
    world.transfer("q", LEADER);
    world.say("a", "publish q m0");
    world.say("b", "get q noack");
    let heard = world.heard();
    assert!(heard.contains("a: ") && heard.contains("ack 1"), "{heard}");
    assert!(heard.contains("got 1 left=0 m0"), "{heard}");
    world
}

fn says(world: &mut World, client: &str, words: &str, heard: &str) {
    world.say(client, words);
    assert_eq!(world.heard(), heard, "after {words:?}");
}

#[test]
fn who_publishes_to_a_queue_whose_leader_has_an_alarm_is_blocked_and_no_other() {
    let mut world = world();
    world.set_alarms(LEADER, MEMORY);
    assert_eq!(world.heard(), "", "nobody publishes there yet");
    says(&mut world, "a", "publish here m1", "a: ack 2");
    says(&mut world, "a", "publish q m2", "a: blocked low on memory");
    says(&mut world, "a", "publish here m3", "");
    says(&mut world, "b", "publish here m4", "");
    says(&mut world, "b", "get here noack", "b: got 2 left=1 m1");
    world.pass(60_000);
    assert_eq!(world.heard(), "");
    world.set_alarms(LEADER, NONE);
    let heard = world.heard();
    assert_eq!(heard, "a: unblocked, ack 4, ack 3", "one log, one sync");
    says(&mut world, "b", "get q noack", "b: got 3 left=0 m2");
}

#[test]
fn a_classic_queue_is_led_by_the_node_that_has_it() {
    let mut world = world();
    world.set_alarms(LEADER, DISK);
    says(
        &mut world,
        "a",
        "publish there m1",
        "a: blocked low on disk",
    );
    world.set_alarms(LEADER, NONE);
    assert_eq!(world.heard(), "a: unblocked, ack 2");
}

#[test]
fn a_follower_with_an_alarm_holds_nobody_up_and_two_of_three_do() {
    let mut world = world();
    world.set_alarms(NodeId(3), DISK);
    says(&mut world, "a", "publish q m1", "a: ack 2");
    world.set_alarms(LEADER, DISK);
    world.transfer("q", NodeId(2));
    says(&mut world, "a", "publish q m2", "a: blocked low on disk");
    world.set_alarms(NodeId(3), NONE);
    assert_eq!(world.heard(), "a: unblocked, ack 3");
}

#[test]
fn publishers_go_on_with_the_next_leader() {
    let mut world = world();
    world.set_alarms(LEADER, DISK);
    says(&mut world, "a", "publish q m1", "a: blocked low on disk");
    world.hand_over_leaders(LEADER);
    assert_ne!(world.leader("q"), Some(LEADER), "its disk is full");
    assert_eq!(world.heard(), "a: unblocked, ack 2");
}

#[test]
fn a_node_whose_disk_is_full_keeps_what_nobody_else_may_lead() {
    let mut world = world();
    for node in [1, 2, 3].map(NodeId) {
        world.set_alarms(node, DISK);
    }
    world.hand_over_leaders(LEADER);
    assert_eq!(world.leader("q"), Some(LEADER), "all disks are full");
    world.set_alarms(NodeId(3), NONE);
    world.hand_over_leaders(LEADER);
    assert_eq!(world.leader("q"), Some(NodeId(3)), "one has space again");
}

#[test]
fn what_is_sent_with_a_publish_that_waits_waits_too_and_none_of_it_twice() {
    let mut world = world();
    world.set_alarms(LEADER, DISK);
    let words = "publish here m1 & publish q m2 & publish here m3 & get here noack";
    let bytes = words.split(" & ").flat_map(|words| {
        let words: Vec<&str> = words.split(' ').collect();
        crate::client::say(&words)
    });
    world.send("a", bytes.collect());
    world.rest();
    assert_eq!(world.heard(), "a: blocked low on disk, ack 2");
    says(&mut world, "b", "get here noack", "b: got 2 left=0 m1");
    world.set_alarms(LEADER, NONE);
    let heard = world.heard();
    assert!(heard.contains("got 1 left=0 m3"), "{heard}");
    assert!(heard.ends_with("ack 4, ack 3"), "{heard}");
    says(&mut world, "b", "get q noack", "b: got 3 left=0 m2");
    says(&mut world, "b", "get q noack", "b: get-empty");
}

#[test]
fn what_a_client_settled_behind_a_publish_that_never_was_returns() {
    let mut world = world();
    says(&mut world, "b", "publish here m1", "");
    says(&mut world, "a", "get here", "a: got 1 left=0 m1");
    world.set_alarms(LEADER, DISK);
    let result = crate::client::say(&["publish", "q", "result"]);
    let settle = crate::client::say(&["ack", "1"]);
    world.send("a", [result, settle].concat());
    world.rest();
    world.heard();
    world.drop_client("a");
    world.rest();
    world.set_alarms(LEADER, NONE);
    says(&mut world, "b", "get q", "b: get-empty");
    says(&mut world, "b", "get here", "b: got 2 left=0 again m1");
}

#[test]
fn a_commit_waits_for_the_alarm_of_its_queues() {
    let mut world = world();
    world.connect("t", NodeId(3));
    world.rest();
    world.say("t", "tx");
    world.say("t", "publish q m1");
    world.heard();
    world.set_alarms(LEADER, DISK);
    says(&mut world, "t", "commit", "t: blocked low on disk");
    says(&mut world, "b", "get q", "b: get-empty");
    world.set_alarms(LEADER, NONE);
    let heard = world.heard();
    assert!(
        heard.contains("unblocked") && heard.contains("commit-ok"),
        "{heard}"
    );
    says(&mut world, "b", "get q noack", "b: got 2 left=0 m1");
}

#[test]
fn a_stream_is_held_by_the_alarms_of_the_nodes_that_have_it_and_of_no_other() {
    let mut world = world();
    world.say(
        "c",
        "declare s x-queue-type=stream x-initial-cluster-size=1",
    );
    world.heard();
    let (home, stream) = {
        let catalogue = world.catalogue();
        let record = catalogue.queue_by_name("/", "s").expect("it is there");
        (record.home(), record.id())
    };
    let others = [1, 2, 3].map(NodeId).into_iter();
    let others: Vec<NodeId> = others.filter(|node| *node != home).collect();
    let is_held = |world: &World, at: NodeId| blocked_streams(&world.nodes[&at].env).has(stream);
    world.set_alarms(others[0], DISK);
    assert!(is_held(&world, others[0]), "its own publishers wait");
    assert!(!is_held(&world, others[1]) && !is_held(&world, home));
    // Two of three nodes, and none that has it.
    world.set_alarms(others[1], MEMORY);
    assert!(!is_held(&world, home));
    world.set_alarms(others[1], NONE);
    world.set_alarms(others[0], NONE);
    world.set_alarms(home, DISK);
    for node in [home, others[0], others[1]] {
        assert!(is_held(&world, node), "at {node}");
    }
    world.set_alarms(home, NONE);
    assert!(!is_held(&world, others[0]) && !is_held(&world, home));
}

#[test]
fn a_publishers_own_node_holds_back_all_that_it_publishes() {
    let mut world = world();
    world.set_alarms(NodeId(2), MEMORY);
    assert_eq!(world.heard(), "a: blocked low on memory");
    says(&mut world, "a", "publish q m1", "");
    world.set_alarms(LEADER, DISK);
    world.set_alarms(NodeId(2), NONE);
    let heard = world.heard();
    assert_eq!(
        heard, "a: unblocked, blocked low on disk",
        "the leader's now"
    );
    world.set_alarms(LEADER, NONE);
    assert_eq!(world.heard(), "a: unblocked, ack 2");
}

#[test]
fn a_commit_at_a_node_whose_disk_is_full_waits_for_the_disks_of_its_queues_alone() {
    let mut world = world();
    world.say("b", "tx");
    world.heard();
    world.syncing.remove(&NodeId(2));
    says(&mut world, "c", "publish q m1", "");
    says(&mut world, "b", "get q", "b: got 2 left=0 m1");
    world.say("b", "ack 2");
    world.say("b", "commit");
    world.pass(100);
    assert_eq!(world.heard(), "b: commit-ok");
    world.say("b", "publish q m2");
    says(&mut world, "b", "commit", "b: commit-ok");
    // A classic queue of its own is another matter.
    world.say("b", "publish here m3");
    says(&mut world, "b", "commit", "");
    world.syncing.insert(NodeId(2));
    world.rest();
    assert_eq!(world.heard(), "b: commit-ok");
}
