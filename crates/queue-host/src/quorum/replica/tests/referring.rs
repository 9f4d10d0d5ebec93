//! Entries that refer to messages which the receiver's own node has published.

use super::*;

const BODY_BYTES: usize = 4_000;
const MESSAGES: usize = 50;

/// Three nodes, and those of them that lead, follow, and follow too.
fn ready(seed: u64) -> (World, [usize; 3]) {
    let mut world = World::new(seed, 3, spec(3));
    world.body_bytes = BODY_BYTES;
    world.rest(100);
    let leader = world.leader().expect("it is led");
    // Whoever publishes for the first time looks for the leader.
    world.publish((leader + 1) % 3);
    world.rest(5);
    world.ledger.sent.clear();
    (world, [leader, (leader + 1) % 3, (leader + 2) % 3])
}

fn publish_all(world: &mut World, at: usize) {
    for _ in 0..MESSAGES {
        world.publish(at);
    }
    world.rest(10);
    assert_eq!(world.ledger.confirmed.len(), MESSAGES + 1);
}

#[test]
fn what_a_node_has_published_does_not_come_back_to_it() {
    let (mut world, [leader, publisher, other]) = ready(1);
    publish_all(&mut world, publisher);
    let all = MESSAGES * BODY_BYTES;
    let sent = |from, to| world.ledger.sent[&(from, to)];
    assert!(sent(publisher, leader) > all);
    assert!(sent(leader, other) > all);
    let back = sent(leader, publisher);
    assert!(back < all / 20, "{back} bytes");
    assert_eq!(world.ledger.lacking, 0);
    // It has them all the same.
    world.crash(leader);
    world.heal_and_drain();
    world.check();
}

#[test]
fn small_messages_are_sent_to_whoever_published_them() {
    let (mut world, [leader, publisher, other]) = ready(2);
    world.body_bytes = 16;
    publish_all(&mut world, publisher);
    let sent = |to| world.ledger.sent[&(leader, to)];
    assert!(sent(publisher) > MESSAGES * 16 && sent(other) > MESSAGES * 16);
}

#[test]
fn what_others_have_published_lies_between_references() {
    let (mut world, [leader, publisher, other]) = ready(3);
    for _ in 0..MESSAGES {
        world.publish(leader);
        world.publish(publisher);
        world.publish(other);
    }
    world.rest(10);
    assert_eq!(world.ledger.confirmed.len(), 3 * MESSAGES + 1);
    for to in [publisher, other] {
        let came = world.ledger.sent[&(leader, to)];
        let two_thirds = 2 * MESSAGES * BODY_BYTES;
        assert!((two_thirds..two_thirds * 11 / 10).contains(&came), "{came}");
    }
    world.crash(leader);
    world.heal_and_drain();
    world.check();
}

#[test]
fn who_does_not_have_what_it_is_referred_to_gets_it_whole() {
    let (mut world, [leader, publisher, other]) = ready(4);
    world.misreferring = 100;
    publish_all(&mut world, publisher);
    assert!(world.ledger.lacking > 0);
    world.rest(100);
    let running = |at: usize| world.nodes[at].running.as_ref().expect("it runs");
    let last = |at| {
        let status = running(at).shard.replica_status(QUEUE);
        status.expect("it has a member").group.last_index
    };
    assert_eq!(last(publisher), last(leader));
    assert_eq!(last(other), last(leader));
    // What it was not told of is referred to again.
    world.misreferring = 0;
    world.ledger.sent.clear();
    world.publish(publisher);
    world.rest(5);
    assert!(world.ledger.sent[&(leader, publisher)] < BODY_BYTES);
    world.crash(leader);
    world.heal_and_drain();
    world.check();
}
