//! A queue to which nothing happens.

use super::*;

#[test]
fn a_queue_to_which_nothing_happens_wants_no_time() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    (0..50).for_each(|_| world.publish(leader));
    world.rest(1_000);
    for node in &world.nodes {
        let running = node.running.as_ref().expect("it runs");
        let at = running.shard.next_deadline_ms();
        assert!(at > world.now.monotonic_ms + 10_000, "{} at {at}", node.id);
    }
}
