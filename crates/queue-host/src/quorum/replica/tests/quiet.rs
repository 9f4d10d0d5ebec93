//! A queue to which nothing happens.

use super::*;

#[test]
fn a_queue_to_which_nothing_happens_wants_no_time() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    (0..3).for_each(|at| world.consume(at, 1));
    (0..50).for_each(|_| world.publish(leader));
    world.rest(1_000);
    for node in &world.nodes {
        let running = node.running.as_ref().expect("it runs");
        let at = running.shard.next_deadline_ms();
        assert!(at > world.now.monotonic_ms + 10_000, "{} at {at}", node.id);
    }
}

/// A shard is asked what is due whenever something happens, however often that is.
#[test]
fn time_that_does_not_pass_elects_nobody() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    world.crash(leader);
    for _ in 0..1_000 {
        for at in (0..3).filter(|at| *at != leader) {
            world.with(at, |shard, now| shard.tick(now));
            world.sync(at);
        }
        let ways: Vec<_> = world.ways.keys().copied().collect();
        ways.into_iter().for_each(|way| world.deliver(way));
    }
    assert_eq!(world.leader(), None);
    for _ in 0..200 {
        world.tick(10);
        for at in (0..3).filter(|at| *at != leader) {
            world.sync(at);
        }
        let ways: Vec<_> = world.ways.keys().copied().collect();
        ways.into_iter().for_each(|way| world.deliver(way));
    }
    assert!(world.leader().is_some());
}
