//! Quorum queues: any node serves them, and a confirm outlives any one of them.

use crate::client;
use crate::script::{check, play_on};
use crate::world::World;
use leveret_cluster::Env as _;
use leveret_types::NodeId;
use leveret_types::limits::PENDING_OPERATION_BYTES_MAX;

#[test]
fn a_queue_is_declared_published_to_consumed_and_deleted_at_any_node() {
    check(
        "a@1
         b@2
         c@3
         a declare q quorum => a: declared q 0 0
         run 1000
         b declare q passive => b: declared q 0 0
         b confirm => b: select-ok
         b publish q m1 m2 => b: ack 2*
         a declare q passive => a: declared q 2 0
         c consume q t => c: consuming t, deliver 1 m1, deliver 2 m2
         b declare q passive => b: declared q 0 1
         c ack 1
         c reject 2 requeue => c: deliver 3 again count=1 m2
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
fn since_when_a_consumer_holds_messages_is_known_wherever_it_is_and_of_whatever_queue() {
    let mut world = World::new(3);
    play_on(
        &mut world,
        "a@1
         b@2
         a declare q quorum => a: declared q 0 0
         a declare c => a: declared c 0 0
         run 1000
         b consume q t => b: consuming t
         b consume c u => b: consuming u",
    );
    let connected = world.now.monotonic_ms;
    let held_after = |world: &World| {
        let client = &world.clients["b"];
        let status = world.nodes[&client.node].connections[&client.connection].status();
        let mut consumers = status.consumers;
        consumers.sort_by(|one, other| one.tag.cmp(&other.tag));
        let since = consumers.iter().map(|of| of.oldest_held_ms);
        let after = since.map(|since| since.map(|ms| ms - connected));
        after.collect::<Vec<Option<u64>>>()
    };
    assert_eq!(held_after(&world), [None, None]);
    play_on(
        &mut world,
        "run 70
         a publish q m1 => b: deliver 1 m1
         run 30
         a publish c m2 => b: deliver 2 m2
         a publish q m3 => b: deliver 3 m3
         run 9000",
    );
    assert_eq!(held_after(&world), [Some(70), Some(100)]);
    play_on(&mut world, "b ack 1");
    assert_eq!(held_after(&world), [Some(100), Some(100)]);
    play_on(&mut world, "b ack 3\n b ack 2");
    assert_eq!(held_after(&world), [None, None]);
}

#[test]
fn a_confirm_waits_for_a_majority_of_disks() {
    check(
        "a@1
         a declare q quorum => a: declared q 0 0
         run 1000
         a confirm => a: select-ok
         stall 2
         a publish q m1 => a: ack 1
         stall 3
         a publish q m2
         run 1000
         unstall 2 => a: ack 2",
    );
}

#[test]
fn a_publisher_and_a_consumer_go_on_when_the_leader_dies() {
    check(
        "a@2
         b@3
         a declare q quorum => a: declared q 0 0
         run 1000
         a confirm => a: select-ok
         b consume q t => b: consuming t
         a publish q m1 m2 => a: ack 2*; b: deliver 1 m1, deliver 2 m2
         b ack 1
         kill leader q
         a publish q m3
         run 5000 => a: ack 3; b: deliver 3 m3
         b ack 3 multiple
         a declare q passive => a: declared q 0 1
         start
         run 1000
         a publish q m4 => a: ack 4; b: deliver 4 m4
         drop b
         c@1
         run 1000
         c get q => c: got 1 left=0 again count=1 m4",
    );
}

#[test]
fn what_a_dead_node_held_returns_and_a_living_one_keeps() {
    check(
        "a@1
         b@2
         c@3
         a declare q quorum => a: declared q 0 0
         run 1000
         b qos 1 => b: qos-ok
         c qos 1 => c: qos-ok
         b consume q t => b: consuming t
         c consume q t => c: consuming t
         a publish q m1 m2 m3 => b: deliver 1 m1; c: deliver 1 m2
         kill 3
         run 1000
         b ack 1 => b: deliver 2 again acquired=1 m2
         b ack 2 => b: deliver 3 m3
         b ack 3
         run 1000
         b get q => b: get-empty",
    );
}

#[test]
fn a_bound_for_all_of_a_channel_is_for_classic_queues() {
    check(
        "a@1
         b@2
         a declare q quorum => a: declared q 0 0
         a declare c => a: declared c 0 0
         b qos 1 global => b: qos-ok
         b consume c t => b: consuming t
         b qos 0 global => b: qos-ok
         b consume q u => b: consuming u
         b cancel u => b: cancel-ok u
         b qos 1 global => b: qos-ok
         b consume q v => b: closed 540 NOT_IMPLEMENTED - queue 'q' in vhost '/' does not support \
         global qos",
    );
}

#[test]
fn what_is_counted_of_a_message_outlives_its_leader() {
    check(
        "a@2
         b@3
         a declare q quorum => a: declared q 0 0
         run 1000
         a publish q m1
         b consume q t => b: consuming t, deliver 1 m1
         b nack 1 requeue => b: deliver 2 again acquired=1 m1
         b reject 2 requeue => b: deliver 3 again count=1 acquired=2 m1
         run 1000
         kill leader q
         run 5000
         b nack 3 requeue => b: deliver 4 again count=1 acquired=3 m1",
    );
}

#[test]
fn what_waits_for_its_retry_waits_on_under_another_leader() {
    check(
        "a@2
         b@3
         a declare q quorum x-delayed-retry-type=all x-delayed-retry-min=20000 => a: declared q 0 0
         run 1000
         a publish q m1
         b consume q t => b: consuming t, deliver 1 m1
         b reject 1 requeue
         run 1000
         a declare q passive => a: declared q 1 1
         kill leader q
         run 17000
         run 3000 => b: deliver 2 again count=1 m1",
    );
}

#[test]
fn what_must_be_dead_lettered_waits_for_a_place_and_goes_to_no_consumer_again() {
    check(
        "a@2
         b@3
         a declare q quorum x-overflow=reject-publish x-dead-letter-strategy=at-least-once \
         x-dead-letter-exchange= x-dead-letter-routing-key=d => a: declared q 0 0
         run 1000
         a publish q m1
         b consume q t => b: consuming t, deliver 1 m1
         b reject 1
         run 1000
         kill leader q
         run 10000
         a declare d quorum => a: declared d 0 0
         run 6000
         a get d noack => a: got 1 left=0 m1
         run 6000
         a get d noack => a: get-empty",
    );
}

#[test]
fn what_must_be_dead_lettered_and_is_refused_goes_again() {
    check(
        "a@1
         a declare d quorum x-max-length=1 x-overflow=reject-publish => a: declared d 0 0
         a declare q quorum x-overflow=reject-publish x-dead-letter-strategy=at-least-once \
         x-dead-letter-exchange= x-dead-letter-routing-key=d => a: declared q 0 0
         run 1000
         a publish q m1 m2
         a get q => a: got 1 left=1 m1
         a get q => a: got 2 left=0 m2
         a reject 1
         a reject 2
         run 6000
         a get d noack => a: got 3 left=0 m1
         run 6000
         a get d noack => a: got 4 left=0 m2
         run 6000
         a get d noack => a: get-empty",
    );
}

#[test]
fn a_transaction_of_which_a_queue_refuses_a_part_is_not_committed() {
    check(
        "a@1
         b@2
         c@1
         a declare q quorum x-max-length=1 x-overflow=reject-publish => a: declared q 0 0
         a declare p x-max-length=1 x-overflow=reject-publish => a: declared p 0 0
         run 1000
         a tx => a: select-ok
         a publish q m1
         a commit => a: commit-ok
         a publish q m2
         a commit => a: close 406 PRECONDITION_FAILED - partial tx completion
         b tx => b: select-ok
         b publish q m3
         b commit => b: close 406 PRECONDITION_FAILED - partial tx completion
         c tx => c: select-ok
         c publish p m4 m5
         c commit => c: close 406 PRECONDITION_FAILED - partial tx completion",
    );
}

#[test]
fn what_must_be_dead_lettered_takes_room_until_it_has_gone() {
    check(
        "a@2
         b@3
         a declare q quorum x-max-length=2 x-overflow=reject-publish \
         x-dead-letter-strategy=at-least-once x-dead-letter-exchange= \
         x-dead-letter-routing-key=d => a: declared q 0 0
         run 1000
         a confirm => a: select-ok
         b consume q t => b: consuming t
         a publish q m1 => a: ack 1; b: deliver 1 m1
         b reject 1
         b cancel t => b: cancel-ok t
         run 100
         a publish q m2 => a: ack 2
         a publish q m3 => a: nack 3
         kill leader q
         start
         run 10000
         a publish q m4 => a: nack 4
         a declare d quorum => a: declared d 0 0
         run 6000
         a publish q m5 => a: ack 5
         a publish q m6 => a: nack 6",
    );
}

#[test]
fn a_minority_keeps_publishes_and_refuses_what_must_be_answered() {
    check(
        "a@1
         a declare q quorum => a: declared q 0 0
         run 1000
         a confirm => a: select-ok
         a publish q m1 => a: ack 1
         isolate 1
         run 2000
         a publish q m2
         run 2000
         a declare q passive
         run 6000 => a: declared q 1 0
         heal => a: ack 2
         run 1000
         b@2
         b get q => b: got 1 left=1 m1
         b get q => b: got 2 left=0 m2",
    );
}

#[test]
fn a_lost_link_loses_and_doubles_nothing() {
    check(
        "a@1
         b@2
         c@3
         a declare q quorum => a: declared q 0 0
         run 1000
         b confirm => b: select-ok
         c consume q t => c: consuming t
         b publish q m1 => b: ack 1; c: deliver 1 m1
         blink 1 2
         blink 2 3
         blink 1 3
         run 5000
         b publish q m2 => b: ack 2; c: deliver 2 m2
         c ack 2 multiple
         run 1000
         b get q => b: get-empty",
    );
}

#[test]
fn a_transaction_is_answered_when_its_queues_have_committed() {
    check(
        "a@2
         a declare q quorum => a: declared q 0 0
         a declare p => a: declared p 0 0
         run 1000
         a tx => a: select-ok
         a publish q m1
         a publish p m2
         a commit => a: commit-ok
         stall 1
         stall 3
         a publish q m3
         a commit
         unstall 1 => a: commit-ok
         a declare q passive => a: declared q 2 0",
    );
}

#[test]
fn a_commit_of_acknowledgements_waits_for_no_others_to_gather() {
    for node in 1..=3 {
        check(&format!(
            "a@2
             a declare q quorum => a: declared q 0 0
             run 1000
             b@{node}
             b tx => b: select-ok
             b consume q t => b: consuming t
             a publish q m1 m2 => b: deliver 1 m1, deliver 2 m2
             b ack 1
             b commit => b: commit-ok
             b ack 2
             b commit => b: commit-ok
             b commit => b: commit-ok"
        ));
    }
}

#[test]
fn dead_letters_and_other_queues_of_one_message_reach_the_cluster() {
    check(
        "a@1
         b@3
         a declare dead quorum => a: declared dead 0 0
         a declare q quorum x-dead-letter-exchange= x-dead-letter-routing-key=dead \
         => a: declared q 0 0
         a exchange all fanout => a: declare-ok
         a declare p => a: declared p 0 0
         a bind q all => a: bind-ok
         a bind p all => a: bind-ok
         run 1000
         b confirm => b: select-ok
         b publish-to all k m1 => b: ack 1
         b get p => b: got 1 left=0 m1
         b get q => b: got 2 left=0 m1
         b reject 2
         run 1000
         a get dead => a: got 1 left=0 m1
         a get q => a: get-empty",
    );
}

#[test]
fn a_queue_that_nobody_uses_is_deleted_when_its_lease_is_over() {
    check(
        "a@2
         b@3
         c@1
         d@1
         a declare q quorum x-expires=2000 => a: declared q 0 0
         a declare p quorum x-expires=2000 => a: declared p 0 0
         run 1000
         b get q => b: get-empty
         a consume p t => a: consuming t
         run 1500
         b declare q passive => b: declared q 0 0
         run 1000
         b declare q passive => b: close 404 NOT_FOUND - no queue 'q' in vhost '/'
         c declare p passive => c: declared p 0 1
         a cancel t => a: cancel-ok t
         run 1500
         c get p => c: get-empty
         run 1500
         c get p => c: get-empty
         run 2500
         c declare p passive => c: close 404 NOT_FOUND - no queue 'p' in vhost '/'
         d declare p quorum => d: declared p 0 0
         run 5000
         d declare p passive => d: declared p 0 0",
    );
}

#[test]
fn a_lease_is_kept_by_whoever_leads() {
    check(
        "a@2
         b@3
         a declare q quorum x-expires=2000 => a: declared q 0 0
         a publish q m1
         run 1000
         b consume q t => b: consuming t, deliver 1 m1
         run 1000
         kill leader q
         run 5000
         b declare q passive => b: declared q 0 1
         b cancel t => b: cancel-ok t
         run 3000
         b declare q passive => b: close 404 NOT_FOUND - no queue 'q' in vhost '/'",
    );
}

/// While no majority writes, a publisher is read from until a bound is reached, and then no more:
/// the publishers of that queue alone. All is confirmed when the majority is back.
#[test]
fn a_queue_without_a_majority_holds_its_own_publishers_back() {
    let mut world = World::new(3);
    let say = |world: &mut World, name: &str, words: &[&str]| {
        world.send(name, client::say(words));
        world.rest();
    };
    for (name, queue) in [("a", "q"), ("b", "p")] {
        world.connect(name, NodeId(1));
        world.rest();
        say(
            &mut world,
            name,
            &["declare", queue, "x-queue-type=classic"],
        );
        say(&mut world, name, &["confirm"]);
    }
    say(&mut world, "b", &["declare", "held", "quorum"]);
    world.pass(1_000);
    world.heard();
    world.syncing.remove(&NodeId(2));
    world.syncing.remove(&NodeId(3));
    let reads = |world: &World, name: &str| {
        let client = &world.clients[name];
        world.nodes[&client.node].connections[&client.connection].reading()
    };
    let mut sent = 0;
    while reads(&world, "b") {
        assert!(
            sent * 1_000_000 <= 2 * PENDING_OPERATION_BYTES_MAX,
            "no bound holds"
        );
        say(&mut world, "b", &["publish", "held", "1x1000000"]);
        sent += 1;
    }
    assert!(
        sent * 1_000_000 >= PENDING_OPERATION_BYTES_MAX / 2,
        "only {sent} were taken"
    );
    assert!(reads(&world, "a"));
    say(&mut world, "a", &["publish", "q", "m"]);
    assert_eq!(world.heard(), "a: ack 1");
    world.syncing.insert(NodeId(2));
    world.pass(5_000);
    assert!(reads(&world, "b"));
    let heard = world.heard();
    assert!(
        heard.ends_with(&format!("ack {sent}*")) || heard.ends_with(&format!("ack {sent}")),
        "{heard}"
    );
}

/// Its socket ends while the remote queue's registration, in which it is listed, is on its way.
#[test]
fn a_consumer_that_goes_while_its_node_registers_holds_nothing() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.rest();
    world.send("a", client::say(&["declare", "q", "quorum"]));
    world.pass(1_000);
    let leader = world.leader("q").expect("it is led");
    let other = NodeId(1 + leader.0 % 3);
    let ways = [
        // The loss of a node is nobody's fault.
        (vec![], "acquired=1"),
        (client::say(&["close"]), "acquired=1"),
        // It is back when it goes: that counts beside the loss of its node.
        (client::say(&["cancel", "t"]), "count=1 acquired=2"),
    ];
    for (tag, (leave, count)) in (1..).zip(ways) {
        world.connect("b", other);
        world.rest();
        world.send("b", client::say(&["consume", "q", "t"]));
        world.send("a", client::say(&["publish", "q", "m"]));
        world.rest();
        world.blink(leader, other);
        if leave.is_empty() {
            world.drop_client("b");
        } else {
            world.send("b", leave);
            world.rest();
            world.drop_client("b");
        }
        world.pass(1_000);
        world.heard();
        world.send("a", client::say(&["get", "q", "noack"]));
        world.rest();
        let expected = format!("a: got {tag} left=0 again {count} m");
        assert_eq!(world.heard(), expected);
    }
}

/// Nobody else may get it before the return is what a leader that follows knows.
#[test]
fn what_is_given_back_comes_again_once_that_is_committed() {
    check(
        "a@1
         b@2
         a declare q quorum => a: declared q 0 0
         run 1000
         a consume q t => a: consuming t
         b consume q t => b: consuming t
         a publish q m1 => a: deliver 1 m1
         stall 2
         stall 3
         a reject 1 requeue
         run 1000
         unstall 2 => b: deliver 1 again count=1 m1
         b ack 1
         run 1000
         b get q => b: get-empty",
    );
}

#[test]
fn what_a_consumer_held_returns_though_its_leader_never_missed_its_node() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.rest();
    world.send("a", client::say(&["declare", "q", "quorum"]));
    world.pass(1_000);
    let leader = world.leader("q").expect("it is led");
    let other = NodeId(1 + leader.0 % 3);
    world.connect("b", other);
    world.rest();
    world.send("b", client::say(&["consume", "q", "t"]));
    world.send("a", client::say(&["publish", "q", "m"]));
    world.rest();
    world.lose(other, leader);
    world.drop_client("b");
    world.rest();
    world.find(other, leader);
    world.pass(5_000);
    world.heard();
    world.send("a", client::say(&["get", "q"]));
    world.rest();
    // Not counted: for all that its leader knows, it did not fail.
    assert_eq!(world.heard(), "a: got 1 left=0 again acquired=1 m");
}

/// A leader that waits for a node takes no operations, and the end of a consumer is none.
#[test]
fn the_end_of_a_consumer_does_not_overtake_what_it_acknowledged() {
    let mut world = World::new(4);
    world.connect("d", NodeId(1));
    world.rest();
    world.send("d", client::say(&["declare", "q", "quorum"]));
    world.pass(1_000);
    let leader = world.leader("q").expect("it is led");
    let (leaves, stays) = world.outsider_and_follower("q");
    world.connect("a", leaves);
    world.connect("b", stays);
    world.rest();
    world.send("b", client::say(&["consume", "q", "t"]));
    world.rest();
    world.send("a", client::say(&["publish", "q", "m1", "m2"]));
    world.rest();
    world.heard();
    world.ignoring_input.insert(leaves);
    world.kill(leader);
    world.pass(2_000);
    world.send("b", client::say(&["ack", "1"]));
    world.rest();
    world.drop_client("b");
    world.pass(10_000);
    world.connect("c", stays);
    world.rest();
    world.heard();
    world.send("c", client::say(&["get", "q", "noack"]));
    world.rest();
    assert_eq!(world.heard(), "c: got 1 left=0 again count=1 m2");
}

/// A cluster of which two nodes have clients: "a" is where the queue is led, "b" elsewhere.
fn led_and_followed(nodes: u32, elsewhere: impl Fn(NodeId) -> NodeId) -> (World, NodeId) {
    let mut world = World::new(nodes);
    world.connect("d", NodeId(1));
    world.rest();
    world.send("d", client::say(&["declare", "q", "quorum"]));
    world.pass(1_000);
    let leader = world.leader("q").expect("it is led");
    world.connect("a", leader);
    world.connect("b", elsewhere(leader));
    world.rest();
    world.heard();
    (world, elsewhere(leader))
}

/// How many deliveries to a node's consumers the replica there had the message of, and how many
/// bytes those are.
fn read_locally(world: &World, node: NodeId) -> (u64, u64) {
    let node = &world.nodes[&node];
    let id = node.queue("q").expect("it is there");
    let shard = node.env.shard(node.env.shard_of(id));
    let local = shard.local_deliveries();
    assert_eq!(local.fetched, 0, "the leader knows what followers have");
    (local.read, local.read_bytes)
}

#[test]
fn a_consumer_at_a_follower_gets_messages_from_the_replica_there() {
    let (mut world, follower) = led_and_followed(3, |leader| NodeId(1 + leader.0 % 3));
    world.send("a", client::say(&["publish", "q", "one", "three"]));
    world.pass(1_000);
    world.send("b", client::say(&["consume", "q", "t"]));
    world.rest();
    assert_eq!(
        world.heard(),
        "b: consuming t, deliver 1 one, deliver 2 three"
    );
    assert_eq!(read_locally(&world, follower), (2, 8));
    world.send("b", client::say(&["reject", "1", "requeue"]));
    world.rest();
    assert_eq!(world.heard(), "b: deliver 3 again count=1 one");
    assert_eq!(read_locally(&world, follower), (3, 11));
    world.send("b", client::say(&["ack", "3", "multiple"]));
    world.pass(1_000);
    world.send("a", client::say(&["declare", "q", "passive"]));
    world.rest();
    assert_eq!(world.heard(), "a: declared q 0 1");
}

#[test]
fn a_consumer_at_a_follower_that_lacks_a_message_gets_it_from_the_leader() {
    let (mut world, follower) = led_and_followed(3, |leader| NodeId(1 + leader.0 % 3));
    world.send("b", client::say(&["consume", "q", "t"]));
    world.rest();
    world.syncing.remove(&follower);
    world.send("a", client::say(&["publish", "q", "m1", "m2"]));
    world.rest();
    assert_eq!(world.heard(), "b: consuming t, deliver 1 m1, deliver 2 m2");
    assert_eq!(read_locally(&world, follower), (0, 0));
}

#[test]
fn a_consumer_at_a_node_without_a_member_gets_messages_from_the_leader() {
    let (mut world, elsewhere) = led_and_followed(4, |_| NodeId(4));
    world.send("a", client::say(&["publish", "q", "m1"]));
    world.pass(1_000);
    world.send("b", client::say(&["consume", "q", "t"]));
    world.rest();
    assert_eq!(world.heard(), "b: consuming t, deliver 1 m1");
    assert_eq!(read_locally(&world, elsewhere), (0, 0));
}

/// The node that leads the catalogue has a new queue before others have.
#[test]
fn a_new_queue_is_led_at_once_where_it_was_declared() {
    let mut world = World::new(3);
    world.connect("a", NodeId(1));
    world.rest();
    world.heard();
    for node in [2, 3].map(NodeId) {
        world.behind.insert(node, Vec::new());
    }
    world.send("a", client::say(&["declare", "q", "quorum"]));
    world.rest();
    assert_eq!(world.heard(), "a: declared q 0 0");
    world.catch_up(NodeId(3));
    assert_eq!(world.leader("q"), Some(NodeId(1)), "no time has passed");
    world.send("a", client::say(&["confirm"]));
    world.send("a", client::say(&["publish", "q", "m1"]));
    world.rest();
    assert_eq!(world.heard(), "a: select-ok, ack 1");
    world.catch_up(NodeId(2));
    world.kill(NodeId(3));
    world.send("a", client::say(&["publish", "q", "m2"]));
    world.pass(1_000);
    assert_eq!(world.heard(), "a: ack 2");
    assert_eq!(world.leader("q"), Some(NodeId(1)));
}
