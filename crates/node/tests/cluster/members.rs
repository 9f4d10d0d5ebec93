//! Queues that get other members than they had: classic ones that a policy makes replicated, and
//! those that lost some for good.

use crate::client;
use crate::script::check;
use crate::world::World;
use leveret_metadata::Command;
use leveret_types::NodeId;
use leveret_types::limits::QUORUM_TRANSFERS_MAX;

#[test]
fn a_classic_queue_that_a_policy_mirrors_keeps_its_messages_and_outlives_its_node() {
    check(
        "a@1
         b@2
         c@3
         a declare ha => a: declared ha 0 0
         a confirm => a: select-ok
         a publish ha m1 m2 m3 => a: ack 3*
         b qos 1 => b: qos-ok
         b consume ha t => b: consuming t, deliver 1 m1
         mirror all
         reconcile
         c declare ha passive => c: declared ha 2 1
         b ack 1 => b: deliver 2 m2
         a publish ha m4 => a: ack 4
         kill 1
         run 5000
         b ack 2 => b: deliver 3 again m3
         b ack 3 => b: deliver 4 again m4
         b ack 4
         c get ha => c: get-empty
         c confirm => c: select-ok
         c publish ha m5 => b: deliver 5 m5; c: ack 1",
    );
}

#[test]
fn what_a_consumer_at_the_queues_own_node_held_returns_and_it_is_told() {
    check(
        "a@1
         a declare ha => a: declared ha 0 0
         a publish ha m1 m2
         a qos 1 => a: qos-ok
         a consume ha t => a: consuming t, deliver 1 m1
         mirror exactly 2
         reconcile => a: cancelled t
         a ack 1
         b@2
         b get ha => b: got 1 left=1 again m1
         b get ha => b: got 2 left=0 m2",
    );
}

#[test]
fn what_was_committed_at_the_queues_node_before_is_not_taken_twice() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.connect("b", NodeId(2));
    world.rest();
    world.send("a", client::say(&["declare", "ha"]));
    world.send("b", client::say(&["confirm"]));
    world.rest();
    world.heard();
    // Taken by the queue's node, and not told to be durable.
    world.syncing.remove(&NodeId(1));
    world.send("b", client::say(&["publish", "ha", "m1", "m2"]));
    world.rest();
    assert_eq!(world.heard(), "");
    world.mirror(Some("all"), None);
    let id = world.nodes[&NodeId(1)].queue("ha").expect("it is there");
    world.change(Command::QueueMembers {
        id: id.0,
        members: vec![1 << 32],
        size: None,
    });
    world.syncing.insert(NodeId(1));
    world.pass(1_000);
    assert_eq!(world.heard(), "b: ack 2*");
    world.send("a", client::say(&["declare", "ha", "passive"]));
    world.rest();
    assert_eq!(world.heard(), "a: declared ha 2 0");
    world.reconcile();
    assert_eq!(world.voters("ha"), [1, 2, 3]);
}

#[test]
fn all_nodes_may_end_at_once_after_the_change_transient_messages_or_not() {
    check(
        "a@1
         a declare ha => a: declared ha 0 0
         a confirm => a: select-ok
         a publish ha m1 => a: ack 1
         a publish-transient ha m2 => a: ack 2
         mirror all
         reconcile
         a publish ha m3 => a: ack 3
         kill 1
         kill 2
         kill 3
         start
         run 5000
         b@2
         b get ha => b: got 1 left=2 m1
         b get ha => b: got 2 left=1 m2
         b get ha => b: got 3 left=0 m3",
    );
}

#[test]
fn a_crash_in_the_middle_of_the_change_costs_nothing_that_was_confirmed() {
    check(
        "a@1
         a declare ha => a: declared ha 0 0
         a confirm => a: select-ok
         a publish ha m1 m2 => a: ack 2*
         stall 1
         mirror all
         kill 1
         start
         reconcile
         run 5000
         kill 1
         run 5000
         b@2
         b get ha => b: got 1 left=1 again m1
         b get ha => b: got 2 left=0 again m2",
    );
}

#[test]
fn members_come_and_go_with_the_policy_and_the_messages_stay() {
    let mut world = World::new(3);
    world.connect("a", NodeId(2));
    world.rest();
    world.send("a", client::say(&["declare", "ha"]));
    world.send("a", client::say(&["publish", "ha", "20x100"]));
    world.rest();
    world.heard();
    for (mode, count, voters) in [
        (Some("all"), None, vec![1, 2, 3]),
        (Some("exactly"), Some(2), vec![1, 2]),
        (None, None, vec![2]),
        (Some("exactly"), Some(3), vec![1, 2, 3]),
    ] {
        world.mirror(mode, count);
        world.reconcile();
        assert_eq!(world.voters("ha"), voters, "{mode:?}");
        world.send("a", client::say(&["declare", "ha", "passive"]));
        world.rest();
        assert_eq!(world.heard(), "a: declared ha 20 0");
    }
}

#[test]
fn a_member_that_was_taken_out_is_replaced_by_a_node_that_has_none() {
    let mut world = World::new(4);
    world.connect("a", NodeId(1));
    world.rest();
    world.send("a", client::say(&["declare", "q", "quorum"]));
    world.pass(1_000);
    world.send("a", client::say(&["publish", "q", "m1", "m2"]));
    world.pass(1_000);
    world.heard();
    let before = world.voters("q");
    let out = before.iter().copied().find(|node| *node != 1);
    let out = NodeId(out.expect("it has three"));
    world.kill(out);
    world.change(Command::NodeForget { node: out.0 });
    world.pass(5_000);
    world.reconcile();
    let after = world.voters("q");
    assert_eq!(after.len(), 3, "{after:?}");
    assert!(!after.contains(&out.0), "{after:?}");
    world.send("a", client::say(&["get", "q"]));
    world.rest();
    assert_eq!(world.heard(), "a: got 1 left=1 m1");
}

#[test]
fn more_queues_than_are_sent_at_once_come_to_their_new_members_all_the_same() {
    let count = QUORUM_TRANSFERS_MAX * 2;
    let names: Vec<String> = (0..count).map(|queue| format!("ha{queue}")).collect();
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.rest();
    for name in &names {
        world.send("a", client::say(&["declare", name]));
        world.rest();
        world.send("a", client::say(&["publish", name, "m1", "m2"]));
        world.rest();
    }
    world.heard();
    world.mirror(Some("all"), None);
    world.reconcile();
    world.pass(5_000);
    world.kill(NodeId(1));
    world.pass(5_000);
    world.connect("b", NodeId(2));
    world.rest();
    world.heard();
    for name in &names {
        world.send("b", client::say(&["declare", name, "passive"]));
        world.rest();
        assert_eq!(world.heard(), format!("b: declared {name} 2 0"));
    }
}
